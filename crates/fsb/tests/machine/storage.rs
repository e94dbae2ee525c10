//! The storage beneath a target: memory and volatile overlays in disguise, loop devices without
//! direct I/O, and direct I/O that goes through a page cache. Each run is in a mount namespace of
//! its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::*;
use crate::devices::Disk;

/// A durable write, a cold read and a direct read.
const PLAN: &str = r#"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "1ms"
[[workload]]
name = "write"
label = "durable"
file_size = "1M"
block_size = "4K"
durability = "each"
[[workload]]
name = "read"
label = "cold"
file_size = "1M"
block_size = "64K"
cache = "cold"
[[workload]]
name = "read"
label = "direct"
file_size = "1M"
block_size = "64K"
cache = "any"
backend = "direct"
"#;

/// Runs `script`, which may mount, and then fsb with the arguments.
fn in_namespace(directory: &Path, script: &str, arguments: &str) -> Output {
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let script = format!("set -e; {script}; exec {FSB} {arguments}");
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "/bin/sh",
            "-c",
            &script,
        ])
        .current_dir(directory);
    command
        .env("COLUMNS", "1000")
        .output()
        .expect("unshare runs")
}

/// Returns the outcomes of the three cases on a target: `not_applicable`, `invalid`, `ok`.
fn outcomes(run: &Path, target: &str) -> [String; 3] {
    let trials = counting(run);
    ["durable", "cold", "direct"].map(|label| {
        let found = trials
            .iter()
            .rfind(|trial| trial["target"] == target && trial["workload"] == label);
        let found = found.unwrap_or_else(|| panic!("no trial of {label} on {target}: {trials:#?}"));
        found["outcome"].as_str().unwrap().to_owned()
    })
}

fn layers(found: &Value) -> Vec<&str> {
    found["storage"]
        .as_array()
        .expect("the layers")
        .iter()
        .map(|layer| layer["layer"].as_str().unwrap())
        .collect()
}

#[test]
fn memory_at_any_level_is_unsafe_and_neither_durable_nor_cold() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    let script = "mkdir t o v vl vu vw two merged upper work lower; \
         mount -t tmpfs none t; mkdir t/l t/u t/w; \
         mount -t overlay none -o lowerdir=t/l,upperdir=$PWD/t/u,workdir=t/w o; \
         mount -t overlay none -o volatile,lowerdir=vl,upperdir=$PWD/vu,workdir=vw v; \
         mount -t overlay none -o lowerdir=lower,upperdir=$PWD/upper,workdir=work merged; \
         truncate -s 64M o/two.img; mkfs.ext4 -q -F o/two.img; \
         loop=$(losetup --find --show o/two.img); mount $loop two; losetup --detach $loop";
    let arguments = "run plan.toml memory=./o volatile=./v two=./two plain=./merged --out run";
    let output = in_namespace(scratch.path(), script, arguments);
    let run = scratch.path().join("run");
    let found = record(&run);
    let targets = &found["targets"];
    for (target, cause, loss) in [
        ("memory", "memory=tmpfs", "a power failure loses all data"),
        (
            "volatile",
            "overlay=volatile",
            "a power failure may lose synced data",
        ),
        ("two", "memory=tmpfs", "a power failure loses all data"),
    ] {
        let risk = &targets[target]["risks"][0];
        assert_eq!(
            (&risk["cause"], &risk["loss"]),
            (&cause.into(), &loss.into()),
            "{:#}",
            targets[target]
        );
        assert_eq!(
            outcomes(&run, target)[..2],
            ["not_applicable", "not_applicable"],
            "{target}"
        );
        assert!(
            stdout(&output).contains(&format!("{target} (unsafe)")),
            "{}",
            stdout(&output)
        );
        let warning = format!("warning: {target} is unsafe: ");
        assert!(stderr(&output).contains(&warning), "{}", stderr(&output));
    }
    assert_eq!(layers(&targets["memory"]), ["overlay", "memory"]);
    assert_eq!(
        layers(&targets["two"]),
        ["file_system", "loop", "overlay", "memory"]
    );
    // An overlay on a disk keeps what is synced.
    assert!(
        targets["plain"]["risks"].is_null(),
        "{:#}",
        targets["plain"]
    );
    assert_eq!(outcomes(&run, "plain")[0], "ok", "{:#}", targets["plain"]);
}

#[test]
fn a_loop_device_is_direct_only_with_direct_io() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    let buffered = Disk::attached_with(64, &[]);
    let direct = Disk::attached_with(64, &["--direct-io=on"]);
    let script = format!(
        "mkdir a b; mkfs.ext4 -q -F {0}; mkfs.ext4 -q -F {1}; mount {0} a; mount {1} b",
        buffered.path.display(),
        direct.path.display()
    );
    let output = in_namespace(
        scratch.path(),
        &script,
        "run plan.toml buffered=./a direct=./b --out run",
    );
    let run = scratch.path().join("run");
    assert_eq!(
        outcomes(&run, "direct"),
        ["ok", "ok", "ok"],
        "{}",
        stderr(&output)
    );
    // root empties the page cache beneath the device, too.
    assert_eq!(
        outcomes(&run, "buffered"),
        ["ok", "ok", "not_applicable"],
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("has no direct I/O"),
        "{}",
        stderr(&output)
    );
    let trials = counting(&run);
    let buffered_trial = trials
        .iter()
        .find(|trial| trial["outcome"] == "not_applicable")
        .unwrap();
    let reason = buffered_trial["error"].as_str().unwrap();
    assert!(reason.starts_with("not direct: "), "{reason}");

    // Without drop_caches, the page cache beneath the device keeps the data.
    let evicting =
        "run plan.toml buffered=./a direct=./b --control page-cache=evict --out evicting";
    let script = format!(
        "mount {} a; mount {} b",
        buffered.path.display(),
        direct.path.display()
    );
    in_namespace(scratch.path(), &script, evicting);
    let run = scratch.path().join("evicting");
    assert_eq!(outcomes(&run, "buffered")[1], "not_applicable");
    assert_eq!(outcomes(&run, "direct")[1], "ok");
}

#[test]
fn the_disk_beneath_a_named_loop_device_is_described() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    let disk = Disk::attached_with(64, &[]);
    let target = format!("ext4@{}", disk.path.display());
    let arguments = format!(
        "run plan.toml {target} --wipe {} --out run",
        disk.path.display()
    );
    let output = in_namespace(scratch.path(), ":", &arguments);
    let run = scratch.path().join("run");
    assert_eq!(
        outcomes(&run, &target)[2],
        "not_applicable",
        "{}",
        stderr(&output)
    );
    let found = record(&run);
    let shown = stdout(&output).replace("\n  ", " ");
    assert!(
        shown.contains("warning: ext4@/dev/loop") && shown.contains("has no direct I/O"),
        "{shown}"
    );
    let medium = &found["media"][disk.path.to_str().unwrap()];
    assert_eq!(medium["direct"], false, "{medium:#}");
    let storage = &found["targets"][&target];
    assert_eq!(
        layers(storage)[..3],
        ["file_system", "loop", "file_system"],
        "{storage:#}"
    );
    let beneath = &medium["device"]["beneath"][0];
    let Some(name) = beneath["name"].as_str() else {
        skip!("the disk of the temporary directory is not known")
    };
    assert!(layers(storage).contains(&"disk"), "{name}: {storage:#}");
    // The line under the table names the throttling of the disk, not that of the loop device.
    let own = &medium["device"]["queue"]["wbt_lat_usec"];
    let throttling = beneath["queue"]["wbt_lat_usec"]
        .as_str()
        .and_then(|text| text.parse::<f64>().ok());
    if let Some(throttling) =
        throttling.filter(|usec| *usec > 0.0 && own != &beneath["queue"]["wbt_lat_usec"])
    {
        let shown = format!(
            "writeback throttled for reads within {} ms",
            throttling / 1e3
        );
        let report = fsb(scratch.path(), "report run --notes");
        assert!(
            stdout(&report).replace("\n  ", " ").contains(&shown),
            "{}",
            stdout(&report)
        );
    }
    let notes = storage["notes"].to_string();
    assert!(notes.contains("the raw device was not probed"), "{notes}");
}

#[test]
fn a_directory_for_images_on_a_loop_file_in_memory_is_refused() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    let script = "mkdir t m; mount -t tmpfs none t; truncate -s 600M t/f; mkfs.ext4 -q -F t/f; \
                  loop=$(losetup --find --show t/f); mount $loop m; losetup --detach $loop";
    let arguments = format!("run ext4 --dir m --size 320M --out run {JSON}");
    let output = in_namespace(scratch.path(), script, &arguments);
    let error = expect_error(&output, 3, "medium/directory-in-memory");
    assert!(text_of(&error).contains("tmpfs in memory"), "{error:#}");
}

/// Writes of btrfs with checksums go through the page cache, and so do all of ext4 with a full
/// journal.
#[test]
fn fio_and_iozone_report_direct_io_that_is_not_direct() {
    needs!(root);
    needs!(program "mkfs.btrfs", "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    let job = "[j]\nrw=write\nbs=64k\nsize=1m\ndirect=1\nioengine=psync\ndescription=mine\n";
    fs::write(scratch.path().join("j.fio"), job).unwrap();
    for (mkfs, options, file_system) in [
        ("mkfs.btrfs -q -f", "rw", "btrfs"),
        ("mkfs.ext4 -q -F", "data=journal", "ext4"),
        ("mkfs.ext4 -q -F", "rw", ""),
    ] {
        let disk = Disk::attached_with(256, &["--direct-io=on"]);
        let mount = format!(
            "mkdir -p m; {mkfs} {0} >/dev/null; mount -o {options} {0} m",
            disk.path.display()
        );
        let output = in_namespace(
            scratch.path(),
            &mount,
            "fio -q --dir m --output-format json j.fio",
        );
        expect_code(&output, 0);
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let description = document["jobs"][0]["desc"].as_str().unwrap();
        let warned =
            stderr(&output).contains("warning: j.fio:1: job 'j': direct=1 has no effect on");
        assert_eq!(
            warned,
            !file_system.is_empty(),
            "{options}: {}",
            stderr(&output)
        );
        assert_eq!(
            description == "mine",
            file_system.is_empty(),
            "{description}"
        );
        let named = format!(
            "mine; direct=1 has no effect on {file_system}, so the results are those of the page cache"
        );
        assert!(
            file_system.is_empty() || description.starts_with(&named),
            "{description}"
        );

        let mount = format!("mount -o {options} {} m", disk.path.display());
        let output = in_namespace(scratch.path(), &mount, "iozone -I -i 0 -s 1m -r 64k -f m/f");
        match file_system {
            "" => expect_code(&output, 0),
            _ => {
                assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
                assert!(
                    stderr(&output).contains("accepts O_DIRECT but uses the page cache"),
                    "{}",
                    stderr(&output)
                );
            }
        }
    }
}

#[test]
fn fio_and_iozone_report_a_page_cache_beneath_a_loop_device() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup", "unshare");
    let scratch = scratch();
    fs::write(
        scratch.path().join("j.fio"),
        "[j]\nrw=read\nbs=64k\nsize=1m\ndirect=1\n",
    )
    .unwrap();
    let disk = Disk::attached_with(64, &[]);
    let mount = format!(
        "mkdir -p m; mkfs.ext4 -q -F {0}; mount {0} m",
        disk.path.display()
    );
    let output = in_namespace(scratch.path(), &mount, "fio -q --dir m j.fio");
    expect_code(&output, 0);
    assert!(
        stdout(&output).contains("  Description  : [direct=1 has no effect on ext4"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("has no direct I/O"),
        "{}",
        stderr(&output)
    );
    let mount = format!("mount {} m", disk.path.display());
    let output = in_namespace(scratch.path(), &mount, "iozone -I -i 0 -s 1m -r 64k -f m/f");
    expect_code(&output, 0);
    assert!(
        stderr(&output).contains("warning: m: -I has no effect on ext4, so the results are those of the page cache: the loop device"),
        "{}",
        stderr(&output)
    );
}
