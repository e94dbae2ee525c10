//! fsb refuses a block device for every possible reason, and uses it only if there is none.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fsb_model::Warning;
use fsb_sys::loopdev::{self, Window};
use fsb_testbed::ledger::Owner;
use fsb_testbed::{Kind, LocalTestbed, Setup, Testbed, TestbedError, medium};
use rustix::fs::{Mode, OFlags};

use crate::stage::{TestDevice, directory, find, must, run, setup};

tests! {
    an_empty_device_is_written_over_and_used_whole,
    a_signature_needs_consent_by_whatever_name,
    data_without_a_signature_needs_consent,
    a_partition_table_is_a_signature,
    partitions_that_only_the_kernel_knows_need_consent,
    a_mounted_device_is_refused_even_with_consent,
    a_device_mounted_only_in_another_namespace_is_refused,
    a_disk_with_a_mounted_partition_is_refused_even_with_consent,
    a_device_in_use_is_refused_even_with_consent,
    a_read_only_device_is_refused,
    only_block_devices_are_accepted,
    two_names_of_one_device_are_refused,
    a_name_that_leads_elsewhere_since_it_was_resolved_is_refused,
    consent_to_wipe_is_for_the_device_that_was_named,
    a_device_under_a_mounted_loop_device_is_refused,
    an_image_that_is_mounted_through_another_loop_device_is_refused,
    a_loop_device_that_another_process_has_attached_meanwhile_is_left_to_it,
}

const SIZE: u64 = 32 << 20;

fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    LocalTestbed::new(Owner::current()).check(setup)
}

/// Returns a device of the test and a setup that formats it, without and with consent to wipe.
fn scene(arguments: &[&str]) -> (tempfile::TempDir, TestDevice, Setup, Setup) {
    let dir = directory();
    let device = TestDevice::new(dir.path(), SIZE, arguments);
    let careful = setup(
        &[&format!("ext4@{}", device.path.display())],
        SIZE,
        dir.path(),
    );
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
    needs!(root);
    let (_dir, device, careful, _) = scene(&[]);
    check(&careful).unwrap();
    let lines = run(&careful, |_| {});
    assert_eq!(find(&lines, "filled"), SIZE);
    let opened = find(&lines, "opened");
    let medium = &opened["media"][device.path.to_str().unwrap()];
    assert_eq!(medium["device"]["size_bytes"], SIZE, "{opened:#}");
    assert_eq!(find(&lines, "exists"), false, "{lines:#?}");
    assert!(first_block(&device).iter().any(|byte| *byte != 0));
    // Now it holds ext4, and the user did not consent to wipe that.
    assert!(check(&careful).unwrap_err().to_string().contains("ext4"));
}

fn a_signature_needs_consent_by_whatever_name() {
    needs!(root);
    let (dir, device, careful, wiping) = scene(&[]);
    for mkfs in [&["mkfs.ext4", "-q", "-F"][..], &["mkswap"]] {
        fill_with(&device, 0);
        check(&careful).unwrap();
        must(
            mkfs[0],
            &[&mkfs[1..], &[device.path.to_str().unwrap()]].concat(),
        );
        let refusal = check(&careful).unwrap_err();
        assert_eq!(refusal.kind, Kind::Request);
        assert!(
            refusal
                .to_string()
                .contains(&format!("--wipe {}", device.path.display())),
            "{refusal}"
        );
        check(&wiping).unwrap();
    }
    let alias = dir.path().join("alias");
    std::os::unix::fs::symlink(&device.path, &alias).unwrap();
    check(&Setup {
        wipe: vec![alias],
        ..careful.clone()
    })
    .unwrap();
    check(&Setup {
        wipe: vec!["/dev/null".into(), dir.path().join("nothing")],
        ..careful
    })
    .unwrap_err();
}

/// Writes the same byte everywhere.
fn fill_with(device: &TestDevice, byte: u8) {
    write_at(device, &vec![byte; SIZE as usize], 0);
}

fn write_at(device: &TestDevice, bytes: &[u8], offset: u64) {
    let file = std::fs::File::options()
        .write(true)
        .open(&device.path)
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset).unwrap();
    file.sync_all().unwrap();
}

fn data_without_a_signature_needs_consent() {
    needs!(root);
    let (_dir, device, careful, wiping) = scene(&[]);
    // Erased flash memory.
    fill_with(&device, 0xff);
    check(&careful).unwrap();
    for byte in [0x5a, 0] {
        fill_with(&device, byte);
        // Boot code behind the first sector.
        write_at(&device, b"\xe9code", 1 << 20);
        let refusal = check(&careful).unwrap_err();
        assert_eq!(refusal.code, "device/not-empty", "{refusal}");
        assert!(refusal.to_string().contains("unknown kind"), "{refusal}");
        check(&wiping).unwrap();
    }
}

fn partitions_that_only_the_kernel_knows_need_consent() {
    needs!(root);
    let (_dir, device, careful, wiping) = scene(&[]);
    let shown = device.path.to_str().unwrap();
    must("addpart", &[shown, "1", "2048", "32768"]);
    let (careful, wiping) = (check(&careful), check(&wiping));
    must("delpart", &[shown, "1"]);
    let refusal = careful.unwrap_err();
    assert_eq!(refusal.code, "device/not-empty", "{refusal}");
    assert!(refusal.to_string().contains("only the kernel"), "{refusal}");
    wiping.unwrap();
}

/// An MBR with the boot signature, and one Linux partition of 16 MiB that starts at 1 MiB.
fn write_partition_table(device: &TestDevice) {
    let mut mbr = [0u8; 512];
    mbr[446 + 4] = 0x83;
    mbr[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 128, 0, 0]);
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    write_at(device, &mbr, 0);
}

fn a_disk_with_a_mounted_partition_is_refused_even_with_consent() {
    needs!(root);
    let (dir, device, _, wiping) = scene(&[]);
    // Set in the kernel directly, because not every kernel reads partition tables. Units are
    // sectors.
    must(
        "addpart",
        &[device.path.to_str().unwrap(), "1", "2048", "32768"],
    );
    let partition = format!("{}p1", device.path.display());
    must("mkfs.ext4", &["-q", "-F", &partition]);
    let point = dir.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    must("mount", &[&partition, point.to_str().unwrap()]);
    let refusal = check(&wiping);
    must("umount", &[point.to_str().unwrap()]);
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.code, "device/in-use", "{refusal}");
    check(&wiping).unwrap();
    must("delpart", &[device.path.to_str().unwrap(), "1"]);
}

fn a_partition_table_is_a_signature() {
    needs!(root);
    let (_dir, device, careful, wiping) = scene(&[]);
    write_partition_table(&device);
    assert!(check(&careful).unwrap_err().to_string().contains("dos"));
    check(&wiping).unwrap();
}

fn a_mounted_device_is_refused_even_with_consent() {
    needs!(root);
    let (dir, device, careful, wiping) = scene(&[]);
    must("mkfs.ext4", &["-q", "-F", device.path.to_str().unwrap()]);
    let point = dir.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    must(
        "mount",
        &[device.path.to_str().unwrap(), point.to_str().unwrap()],
    );
    let refusals = [check(&careful), check(&wiping)].map(Result::unwrap_err);
    must("umount", &[point.to_str().unwrap()]);
    for refusal in refusals {
        assert_eq!(refusal.kind, Kind::Request);
        assert_eq!(refusal.code, "device/in-use", "{refusal}");
    }
    check(&wiping).unwrap();
}

fn a_device_mounted_only_in_another_namespace_is_refused() {
    needs!(root);
    let (dir, device, _, wiping) = scene(&[]);
    must("mkfs.ext4", &["-q", "-F", device.path.to_str().unwrap()]);
    let script = format!(
        "mount {} {} && echo mounted && exec sleep 600",
        device.path.display(),
        dir.path().display()
    );
    let mut other = std::process::Command::new("unshare")
        .args(["--mount", "--kill-child", "--fork", "sh", "-c", &script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(other.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let refusal = check(&wiping);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(line, "mounted\n");
    assert_eq!(refusal.unwrap_err().code, "device/in-use");
    crate::stage::eventually("the other namespace is gone", || check(&wiping).is_ok());
}

fn a_device_in_use_is_refused_even_with_consent() {
    needs!(root);
    let (_dir, device, _, wiping) = scene(&[]);
    // Swap, md and device mapper claim devices like this.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claim: OwnedFd = rustix::fs::open(&device.path, flags, Mode::empty()).unwrap();
    let refusal = check(&wiping).unwrap_err();
    assert_eq!(refusal.kind, Kind::Request);
    assert_eq!(refusal.code, "device/in-use", "{refusal}");
    drop(claim);
    check(&wiping).unwrap();
}

fn a_read_only_device_is_refused() {
    needs!(root);
    let (_dir, _device, _, wiping) = scene(&["-r"]);
    assert_eq!(check(&wiping).unwrap_err().code, "device/read-only");
}

fn only_block_devices_are_accepted() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), "precious").unwrap();
    for path in ["/dev/null", "/nonexistent"] {
        let refusal = check(&setup(&[&format!("ext4@{path}")], SIZE, dir.path())).unwrap_err();
        if rustix::process::geteuid().is_root() {
            assert_eq!(refusal.code, "device/not-a-device", "{refusal}");
        }
        assert!(refusal.kind != Kind::Trial);
    }
}

fn two_names_of_one_device_are_refused() {
    needs!(root);
    let (dir, device, _, _) = scene(&[]);
    let alias = dir.path().join("alias");
    std::os::unix::fs::symlink(&device.path, &alias).unwrap();
    let targets = [
        format!("ext4@{}", device.path.display()),
        format!("ext2@{}", alias.display()),
    ];
    let refusal = check(&setup(&[&targets[0], &targets[1]], SIZE, dir.path())).unwrap_err();
    assert_eq!(refusal.code, "device/named-twice", "{refusal}");
}

/// Two devices, and a link to the first that another user may change.
struct Links {
    dir: tempfile::TempDir,
    first: TestDevice,
    second: TestDevice,
    link: PathBuf,
}

impl Links {
    fn new() -> Links {
        let dir = directory();
        let first = TestDevice::new(dir.path(), SIZE, &[]);
        let second = TestDevice::new(dir.path(), SIZE, &[]);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&first.path, &link).unwrap();
        Links {
            dir,
            first,
            second,
            link,
        }
    }

    fn lead_to(&self, device: &TestDevice) {
        let next = self.dir.path().join("next");
        std::os::unix::fs::symlink(&device.path, &next).unwrap();
        std::fs::rename(&next, &self.link).unwrap();
    }

    /// Returns a setup as the coordinator makes it: each name is resolved now.
    fn resolved(&self, target: &Path, wipe: &[&Path]) -> Setup {
        let mut setup = setup(
            &[&format!("ext4@{}", target.display())],
            SIZE,
            self.dir.path(),
        );
        setup.wipe = wipe.iter().map(|path| path.to_path_buf()).collect();
        setup.devices = medium::named_devices(&setup.targets, &setup.wipe);
        setup
    }
}

fn content(device: &TestDevice) -> Vec<u8> {
    std::fs::read(&device.path).unwrap()
}

fn a_name_that_leads_elsewhere_since_it_was_resolved_is_refused() {
    needs!(root);
    let links = Links::new();
    let setup = links.resolved(&links.link, &[]);
    check(&setup).unwrap();
    // The second device is empty, so nothing else would refuse it.
    links.lead_to(&links.second);
    let refusal = check(&setup).unwrap_err();
    assert_eq!(refusal.kind, Kind::Request);
    assert_eq!(refusal.code, "device/changed", "{refusal}");
    let before = content(&links.second);
    let lines = run(&setup, |_| {});
    assert_eq!(
        find(&lines, "error")["code"],
        "device/changed",
        "{lines:#?}"
    );
    assert!(content(&links.second) == before, "nothing was written");
    links.lead_to(&links.first);
    check(&setup).unwrap();

    // The same name and number, but another file behind it.
    let path = links.first.path.to_str().unwrap().to_owned();
    let image = links.dir.path().join("image");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(SIZE))
        .unwrap();
    must("losetup", &["-d", &path]);
    crate::stage::eventually("it is free", || {
        std::process::Command::new("losetup")
            .args([&path, image.to_str().unwrap()])
            .status()
            .unwrap()
            .success()
    });
    assert_eq!(check(&setup).unwrap_err().code, "device/changed");
}

fn consent_to_wipe_is_for_the_device_that_was_named() {
    needs!(root);
    let links = Links::new();
    for device in [&links.first, &links.second] {
        must("mkfs.ext4", &["-q", "-F", device.path.to_str().unwrap()]);
    }
    let setup = links.resolved(&links.second.path, &[&links.link]);
    links.lead_to(&links.second);
    let refusal = check(&setup).unwrap_err();
    assert_eq!(refusal.code, "device/not-empty", "{refusal}");
    check(&links.resolved(&links.second.path, &[&links.link])).unwrap();
    // Nor does consent suffice if its name leads to another device by now.
    let setup = links.resolved(&links.second.path, &[&links.link]);
    links.lead_to(&links.first);
    assert_eq!(check(&setup).unwrap_err().code, "device/not-empty");
}

fn attach(file: &Path) -> String {
    let output = std::process::Command::new("losetup")
        .args(["-f", "--show"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn a_device_under_a_mounted_loop_device_is_refused() {
    needs!(root);
    let (_dir, device, _, wiping) = scene(&[]);
    let above = attach(&device.path);
    let refusal = check(&wiping);
    must("losetup", &["-d", &above]);
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.kind, Kind::Request);
    assert_eq!(refusal.code, "device/in-use", "{refusal}");
    assert!(
        refusal.to_string().contains(&name(Path::new(&above))),
        "{refusal}"
    );
    crate::stage::eventually("the loop device is gone", || check(&wiping).is_ok());
}

fn name(device: &Path) -> String {
    device.file_name().unwrap().to_string_lossy().into_owned()
}

fn an_image_that_is_mounted_through_another_loop_device_is_refused() {
    needs!(root);
    let dir = directory();
    let image = dir.path().join("image");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(SIZE))
        .unwrap();
    let (one, other) = (attach(&image), attach(&image));
    must("mkfs.ext4", &["-q", "-F", &one]);
    let point = dir.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    must("mount", &[&one, point.to_str().unwrap()]);
    let mut setup = setup(&[&format!("ext4@{other}")], SIZE, dir.path());
    setup.wipe = vec![other.clone().into()];
    let refusal = check(&setup);
    must("umount", &[point.to_str().unwrap()]);
    let free = check(&setup);
    must("losetup", &["-d", &one, &other]);
    assert_eq!(refusal.unwrap_err().code, "device/in-use");
    free.unwrap();
}

fn a_loop_device_that_another_process_has_attached_meanwhile_is_left_to_it() {
    let dir = directory();
    let image = |name: &str| {
        let path = dir.path().join(name);
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(SIZE).unwrap();
        (
            path,
            std::fs::File::options()
                .read(true)
                .write(true)
                .open(dir.path().join(name))
                .unwrap(),
        )
    };
    let ((ours, _), (theirs, file)) = (image("ours"), image("theirs"));
    let device = loopdev::attach(file.as_fd(), Window::WHOLE, loopdev::Mode::Buffered, 0).unwrap();
    assert_eq!(
        loopdev::renew(device.index, true, Some(&ours)).unwrap(),
        Some(theirs.clone())
    );
    std::fs::remove_file(&theirs).unwrap();
    assert_eq!(
        loopdev::renew(device.index, true, Some(&ours)).unwrap(),
        Some(theirs.clone())
    );
    // Its own, or of a ledger that does not say what was attached: in use is then a failure.
    for image in [Some(theirs.as_path()), None] {
        assert!(loopdev::renew(device.index, true, image).is_err());
    }
    drop(device.fd);
    assert_eq!(
        loopdev::renew(device.index, !device.is_new, Some(&theirs)).unwrap(),
        None
    );
}
