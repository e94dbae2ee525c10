//! Existing directories are measured as they are: fsb changes only its own sub-directory and
//! removes it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crate::common::controls::is_gone;
use crate::common::*;
use crate::devices::Disk;
use crate::mounts::{RUN, View};

#[test]
fn a_directory_is_measured_and_left_as_it_was() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("precious"), "mine").unwrap();
    succeeds(scratch.path(), "run tiny.toml ./data --out run -q");
    let left: Vec<_> = fs::read_dir(&data)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["precious"]);
    assert_eq!(fs::read_to_string(data.join("precious")).unwrap(), "mine");
    let outcomes: Vec<_> = trials(&scratch.path().join("run"));
    assert!(
        outcomes.iter().all(|trial| trial["outcome"] == "ok"),
        "{outcomes:#?}"
    );
    expect_no_traces(&before);
}

#[test]
fn a_directory_on_a_partition_has_its_place_on_the_disk() {
    needs!(root);
    needs!(program "losetup", "addpart", "mkfs.ext4");
    let scratch = scratch();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    let disk = Disk::partitioned(64, 2048, 65_536);
    let _mounted = disk.mount_partition(&data);
    let output = succeeds(
        scratch.path(),
        "micro create --output data --fileCount 2 --runCount 2",
    );
    let text = stdout(&output);
    assert!(text.contains(&format!("{}p1", disk.name())), "{text}");
    assert!(
        ["2048", "67583", "1.6 %", "51.6 %"]
            .iter()
            .all(|number| text.contains(number)),
        "{text}"
    );
    tiny_plan(scratch.path());
    succeeds(scratch.path(), "run tiny.toml ./data --out run -q");
    let run = read_json(scratch.path().join("run/run.json"));
    assert_eq!(
        run["targets"]["./data"]["device"]["partition_start"], 2048,
        "{:#}",
        run["targets"]
    );
}

#[test]
fn without_root_a_directory_is_measured_and_cold_is_proved_or_not_claimed() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = public_copy();
    let output = as_nobody(
        binary.path(),
        scratch.path(),
        "run tiny.toml . --out run -q",
    );
    expect_code(&output, 0);
    for trial in trials(&scratch.path().join("run")) {
        let metadata = trial["operation"] == "scan";
        let expected = if metadata { "not_applicable" } else { "ok" };
        assert_eq!(
            trial["outcome"], expected,
            "{}: {}",
            trial["workload"], trial["error"]
        );
        if trial["params"]["cache"] == "cold" && !metadata {
            assert_eq!(trial["observed"]["resident_bytes_before"], 0, "{trial:#}");
        }
    }
    expect_no_traces(&before);
}

/// fsb warns that a budget is too small before anything is changed, and again when it knows how
/// long a block takes.
#[test]
fn a_run_that_its_budget_will_not_hold_says_so_before_it_starts() {
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    fs::create_dir(scratch.path().join("data")).unwrap();
    let output = fsb_json(scratch.path(), "run tiny.toml ./data --budget 3s --out run");
    if output.status.code() == Some(2) {
        // A machine that takes three seconds for the first of them.
        expect_error(&output, 2, "run/budget-too-small");
        return expect_no_traces(&before);
    }
    // A machine that slows down to a third after warm-up ends within the first block, which may
    // then hold no complete trial.
    if output.status.code() == Some(4) {
        assert!(
            stderr(&output).contains("trial/out-of-time"),
            "{}",
            stderr(&output)
        );
    } else {
        expect_code(&output, 0);
    }
    let all = messages(&output);
    assert_eq!(message(&output, "note/estimate")["fields"]["fits"], false);
    let place = |code: &str| all.iter().position(|message| message["code"] == code);
    let warned = place("warning/left-out").or(place("warning/too-few-blocks"));
    assert!(place("note/estimate") < warned, "{all:#?}");
    expect_no_traces(&before);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    needs!(root);
    let scratch = scratch();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = public_copy();
    let words = ["run", scratch.path().to_str().unwrap(), JSON];
    let output = as_nobody(binary.path(), std::path::Path::new("/"), &words);
    expect_error(&output, 3, "target/directory-not-writable");
}

/// The kernel does not remove the sub-directory of a killed run: the watcher of the run does.
#[test]
fn the_directory_of_a_killed_run_goes_for_root_and_for_others() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    let binary = public_copy();
    for (user, out) in [("0", "roots"), ("65534", "theirs")] {
        let uid = user.parse().ok();
        for path in [scratch.path(), &data] {
            std::os::unix::fs::chown(path, uid, uid).unwrap();
        }
        let ids = [
            format!("--reuid={user}"),
            format!("--regid={user}"),
            "--clear-groups".to_owned(),
            "--".to_owned(),
        ];
        let mut command = std::process::Command::new("setpriv");
        command.args(ids).arg(binary.path()).args([
            "run",
            "tiny.toml",
            "./data",
            "--blocks",
            "50",
            "-q",
            "--out",
            out,
        ]);
        command
            .current_dir(scratch.path())
            .env("HOME", scratch.path())
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        let mut child = command.spawn().unwrap();
        wait_until("trials", Duration::from_secs(60), || {
            trials(&scratch.path().join(out)).len() > 2
        });
        assert!(fs::read_dir(&data).unwrap().count() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the directory is empty", Duration::from_secs(30), || {
            fs::read_dir(&data).unwrap().count() == 0
        });
        expect_no_traces(&before);
    }
}

/// If the watcher is killed, too, the ledger lists the sub-directory, and `fsb clean` removes it.
#[test]
fn files_of_a_killed_run_in_a_directory_are_cleaned() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    let child = Running::start(
        scratch.path(),
        "run tiny.toml ./data --blocks 1000 --out run -q",
    );
    wait_until("trials", Duration::from_secs(30), || {
        trials(&scratch.path().join("run")).len() > 8
    });
    kill_watcher(child.id());
    child.signal(rustix::process::Signal::KILL);
    child.wait();
    expect_no_traces(&before);
    let listed = succeeds(scratch.path(), "clean --list");
    assert!(stdout(&listed).contains("data"), "{}", stdout(&listed));
    succeeds(scratch.path(), "clean");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    expect_nothing_to_undo(scratch.path());
}

/// A directory on a mount that is away is not gone.
#[test]
fn the_directory_of_a_killed_run_is_removed_when_its_mount_is_back() {
    needs!(root);
    needs!(program "bindfs");
    let scratch = scratch();
    let view = View::bind(scratch.path(), &[]);
    let endless = RUN.replace("--blocks 1", "--blocks 1000");
    let child = Running::start(scratch.path(), &words(&endless)[..]);
    wait_until("trials", Duration::from_secs(60), || {
        trials(&scratch.path().join("run")).len() > 2
    });
    kill_watcher(child.id());
    // Before the run dies: another test's fsb, which undoes what dead runs left, finds it out of
    // reach.
    let unmounted = Command::new("umount")
        .arg("--lazy")
        .arg(&view.point)
        .status();
    assert!(unmounted.unwrap().success());
    let coordinator = child.id();
    child.signal(rustix::process::Signal::KILL);
    child.wait();
    is_gone(coordinator);
    let about_view = |changes: Vec<(String, String)>| -> Vec<(String, String)> {
        let point = view.point.to_str().unwrap();
        let about = changes.into_iter().filter(|(_, text)| text.contains(point));
        about.collect()
    };
    let (output, changes) = clean(scratch.path(), &[]);
    let changes = about_view(changes);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].0, "out-of-reach", "{changes:?}");
    assert!(changes[0].1.contains("is not mounted at"), "{changes:?}");
    expect_code(&output, 3);
    assert_eq!(fs::read_dir(&view.data).unwrap().count(), 1);
    view.bind_again(&[]);
    let (_, changes) = clean(scratch.path(), &[]);
    assert_eq!(about_view(changes)[0].0, "undone");
    assert_eq!(fs::read_dir(&view.data).unwrap().count(), 0);
    view.unmount();
}
