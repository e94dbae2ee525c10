//! The actor's part of the tests of quiescing: creates deferred work, and measures it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsb_testbed::{LocalTestbed, Testbed, TestbedError};
use serde_json::{Value, json};

/// Creates many files, and reports the deferred work of the file system before and after quiescing.
pub fn leave_work(testbed: &mut LocalTestbed, root: &Path, say: &mut dyn FnMut(Value)) -> Result<(), TestbedError> {
    for number in 0..500 {
        std::fs::write(root.join(number.to_string()), "x").expect("there is space");
    }
    let directory = std::fs::File::open(root).expect("the root of a target");
    rustix::fs::syncfs(&directory).expect("the device works");
    drop(directory);
    let device = device_under(root.parent().expect("a mount point"));
    say(json!({ "synced": kept(&device) }));
    let quiet = testbed.quiesce(0, Duration::MAX)?;
    say(json!({ "quiet": quiet, "settled": kept(&device) }));
    say(json!({ "writable": std::fs::write(root.join("afterwards"), "x").is_ok() }));
    let writer = std::fs::File::create(root.join("held")).expect("there is space");
    say(json!({ "with a writer": testbed.quiesce(0, Duration::MAX).err().map(|error| error.to_string()) }));
    drop(writer);
    Ok(())
}

fn device_under(point: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let mut here = mounts.lines().filter(|line| line.split(' ').nth(4) == point.to_str());
    let line = here.next_back().expect("it is mounted");
    line.split(" - ").nth(1).and_then(|rest| rest.split(' ').nth(1)).expect("a source").to_owned()
}

fn kept(device: &str) -> Value {
    let output = Command::new("dumpe2fs").args(["-h", device]).output().expect("e2fsprogs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let journal = text.lines().find_map(|line| line.strip_prefix("Journal start:")?.trim().parse::<u64>().ok());
    // It is mounted from a private node, which is named like the kernel's device.
    let name = device.rsplit('/').next().expect("a name");
    // A sequence number consists of the cycle and the block. The log of this test does not wrap around.
    let end = |end: &str| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/sys/fs/xfs/{name}/log/log_{end}_lsn")).ok()?;
        text.trim().split_once(':')?.1.parse().ok()
    };
    json!({ "journal": journal, "log": end("head").zip(end("tail")).map(|(head, tail)| head - tail) })
}
