//! A block device is refused for every reason there is, and used only when there is none.

use std::os::fd::OwnedFd;

use fsb_testbed::ledger::Owner;
use fsb_testbed::{Kind, LocalTestbed, Setup, Testbed, TestbedError};
use rustix::fs::{Mode, OFlags};

use crate::stage::{TestDevice, directory, find, is_root, must, run, setup};

tests! {
    an_empty_device_is_written_over_and_used_whole,
    a_signature_needs_consent_by_whatever_name,
    a_partition_table_is_a_signature,
    a_mounted_device_is_refused_even_with_consent,
    a_device_mounted_only_in_another_namespace_is_refused,
    a_disk_with_a_mounted_partition_is_refused_even_with_consent,
    a_device_in_use_is_refused_even_with_consent,
    a_read_only_device_is_refused,
    what_is_no_block_device_is_refused,
    two_names_of_one_device_are_refused,
}

const SIZE: u64 = 32 << 20;

fn check(setup: &Setup) -> Result<Vec<String>, TestbedError> {
    LocalTestbed::new(Owner::current()).check(setup)
}

/// A device of our own and a set-up that formats it, with and without consent to wipe.
fn scene(arguments: &[&str]) -> (tempfile::TempDir, TestDevice, Setup, Setup) {
    let dir = directory();
    let device = TestDevice::new(dir.path(), SIZE, arguments);
    let careful = setup(&[&format!("ext4@{}", device.path.display())], SIZE, dir.path());
    let mut wiping = careful.clone();
    wiping.wipe = vec![device.path.clone()];
    (dir, device, careful, wiping)
}

fn first_block(device: &TestDevice) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let file = std::fs::File::open(&device.path).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, 0).unwrap();
    block
}

fn an_empty_device_is_written_over_and_used_whole() {
    if !is_root() {
        return;
    }
    let (_dir, device, careful, _) = scene(&[]);
    check(&careful).unwrap();
    let lines = run(&careful, |_| {});
    assert_eq!(find(&lines, "filled"), SIZE);
    let opened = find(&lines, "opened");
    let medium = &opened["media"][device.path.to_str().unwrap()];
    assert_eq!(medium["device"]["size_bytes"], SIZE, "{opened:#}");
    assert_eq!(find(&lines, "exists"), false, "{lines:#?}");
    assert!(first_block(&device).iter().any(|byte| *byte != 0));
    // Now it holds ext4, which nobody gave up.
    assert!(check(&careful).unwrap_err().to_string().contains("ext4"));
}

fn a_signature_needs_consent_by_whatever_name() {
    if !is_root() {
        return;
    }
    let (dir, device, careful, wiping) = scene(&[]);
    for mkfs in [&["mkfs.ext4", "-q", "-F"][..], &["mkswap"]] {
        must("wipefs", &["-a", device.path.to_str().unwrap()]);
        check(&careful).unwrap();
        must(mkfs[0], &[&mkfs[1..], &[device.path.to_str().unwrap()]].concat());
        let refusal = check(&careful).unwrap_err();
        assert_eq!(refusal.kind, Kind::Request);
        assert!(refusal.to_string().contains(&format!("--wipe {}", device.path.display())), "{refusal}");
        check(&wiping).unwrap();
    }
    let alias = dir.path().join("alias");
    std::os::unix::fs::symlink(&device.path, &alias).unwrap();
    check(&Setup { wipe: vec![alias], ..careful.clone() }).unwrap();
    check(&Setup { wipe: vec!["/dev/null".into(), dir.path().join("nothing")], ..careful }).unwrap_err();
}

/// An MBR with the boot signature, and one Linux partition of 16 MiB that starts at 1 MiB.
fn write_partition_table(device: &TestDevice) {
    let mut mbr = [0u8; 512];
    mbr[446 + 4] = 0x83;
    mbr[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 128, 0, 0]);
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    let file = std::fs::File::options().write(true).open(&device.path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &mbr, 0).unwrap();
    file.sync_all().unwrap();
}

fn a_disk_with_a_mounted_partition_is_refused_even_with_consent() {
    if !is_root() {
        return;
    }
    let (dir, device, _, wiping) = scene(&[]);
    // Told to the kernel directly: not every kernel reads partition tables. In sectors.
    must("addpart", &[device.path.to_str().unwrap(), "1", "2048", "32768"]);
    let partition = format!("{}p1", device.path.display());
    must("mkfs.ext4", &["-q", "-F", &partition]);
    let point = dir.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    must("mount", &[&partition, point.to_str().unwrap()]);
    let refusal = check(&wiping);
    must("umount", &[point.to_str().unwrap()]);
    assert!(refusal.unwrap_err().to_string().contains("a partition in use"));
    check(&wiping).unwrap();
    must("delpart", &[device.path.to_str().unwrap(), "1"]);
}

fn a_partition_table_is_a_signature() {
    if !is_root() {
        return;
    }
    let (_dir, device, careful, wiping) = scene(&[]);
    write_partition_table(&device);
    assert!(check(&careful).unwrap_err().to_string().contains("dos"));
    check(&wiping).unwrap();
}

fn a_mounted_device_is_refused_even_with_consent() {
    if !is_root() {
        return;
    }
    let (dir, device, careful, wiping) = scene(&[]);
    must("mkfs.ext4", &["-q", "-F", device.path.to_str().unwrap()]);
    let point = dir.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    must("mount", &[device.path.to_str().unwrap(), point.to_str().unwrap()]);
    let refusals = [check(&careful), check(&wiping)].map(Result::unwrap_err);
    must("umount", &[point.to_str().unwrap()]);
    for refusal in refusals {
        assert_eq!(refusal.kind, Kind::Request);
        assert!(refusal.to_string().contains("mounted at"), "{refusal}");
    }
    check(&wiping).unwrap();
}

fn a_device_mounted_only_in_another_namespace_is_refused() {
    if !is_root() {
        return;
    }
    let (dir, device, _, wiping) = scene(&[]);
    must("mkfs.ext4", &["-q", "-F", device.path.to_str().unwrap()]);
    let script = format!("mount {} {} && echo mounted && exec sleep 600", device.path.display(), dir.path().display());
    let mut other = std::process::Command::new("unshare")
        .args(["--mount", "--kill-child", "--fork", "sh", "-c", &script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut line).unwrap();
    let refusal = check(&wiping);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(line, "mounted\n");
    assert!(refusal.unwrap_err().to_string().contains("mounted"));
    crate::stage::eventually("the other namespace is gone", || check(&wiping).is_ok());
}

fn a_device_in_use_is_refused_even_with_consent() {
    if !is_root() {
        return;
    }
    let (_dir, device, _, wiping) = scene(&[]);
    // What swap, md and device mapper do.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claim: OwnedFd = rustix::fs::open(&device.path, flags, Mode::empty()).unwrap();
    let refusal = check(&wiping).unwrap_err();
    assert_eq!(refusal.kind, Kind::Request);
    assert!(refusal.to_string().contains("in use"), "{refusal}");
    drop(claim);
    check(&wiping).unwrap();
}

fn a_read_only_device_is_refused() {
    if !is_root() {
        return;
    }
    let (_dir, _device, _, wiping) = scene(&["-r"]);
    assert!(check(&wiping).unwrap_err().to_string().contains("read-only"));
}

fn what_is_no_block_device_is_refused() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), "precious").unwrap();
    for (path, words) in [("/dev/null", "no block device"), ("/nonexistent", "does not exist")] {
        let refusal = check(&setup(&[&format!("ext4@{path}")], SIZE, dir.path())).unwrap_err();
        if rustix::process::geteuid().is_root() {
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
        assert!(refusal.kind != Kind::Trial);
    }
}

fn two_names_of_one_device_are_refused() {
    if !is_root() {
        return;
    }
    let (dir, device, _, _) = scene(&[]);
    let alias = dir.path().join("alias");
    std::os::unix::fs::symlink(&device.path, &alias).unwrap();
    let targets = [format!("ext4@{}", device.path.display()), format!("ext2@{}", alias.display())];
    let refusal = check(&setup(&[&targets[0], &targets[1]], SIZE, dir.path())).unwrap_err();
    assert!(refusal.to_string().contains("the same device"), "{refusal}");
}
