//! Removing a cgroup that a run left behind.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Refusal, describe};
use crate::sys::{cgroup, poll_until, read_trimmed};

/// How long killed processes may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills what is left in the cgroup and below it, and removes both. What was done, or why not.
pub(super) fn remove(path: &Path) -> Result<String, Refusal> {
    let named = cgroup::is_own(path);
    // Anything may have this name; only the kernel makes directories with this file.
    let is_cgroup = path.join("cgroup.procs").exists();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(format!("{} is gone", path.display())),
        Err(error) => return Err(describe(&error).into()),
        Ok(metadata) if named && is_cgroup && metadata.is_dir() => {}
        Ok(_) => return Err("it is not a cgroup of fsb".into()),
    }
    let mut answer = Ok(());
    poll_until(PATIENCE, || {
        answer = remove_tree(path);
        answer.is_ok()
    });
    answer.map(|()| format!("removed the cgroup {}", path.display())).map_err(|error| describe(&error).into())
}

/// Children first: a cgroup goes only when it is empty.
fn remove_tree(path: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path())?;
    }
    kill_members(path);
    std::fs::remove_dir(path)
}

/// Process ids as this process sees them: 0 is a process of another PID namespace, which nobody here can name.
fn kill_members(path: &Path) {
    let members = read_trimmed(&path.join("cgroup.procs")).unwrap_or_default();
    let own = rustix::process::getpid();
    let pids = members.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?));
    for pid in pids.filter(|pid| *pid != own) {
        // Gone already is as good.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cgroups_of_ours_are_removed() {
        let tree = tempfile::tempdir().unwrap();
        let other = tree.path().join("fsb-data");
        std::fs::create_dir(&other).unwrap();
        assert_eq!(remove(&other).unwrap_err(), "it is not a cgroup of fsb".into());
        std::fs::write(other.join("cgroup.procs"), "").unwrap();
        let foreign = tree.path().join("system");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("cgroup.procs"), "").unwrap();
        assert_eq!(remove(&foreign).unwrap_err(), "it is not a cgroup of fsb".into());
        assert!(remove(&tree.path().join("fsb-gone")).unwrap().ends_with("is gone"));
    }

    #[test]
    fn what_is_left_inside_is_killed() {
        let hierarchies = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
        let root = hierarchies.into_iter().find(|path| path.join("cgroup.procs").exists()).unwrap_or(hierarchies[1]);
        let path = root.join(format!("fsb-test-{}", std::process::id()));
        if std::fs::create_dir(&path).is_err() {
            fsb_testkit::left_out("what_is_left_inside_is_killed", "needs root, and cgroups that can be made");
            return;
        }
        let below = path.join("below");
        std::fs::create_dir(&below).unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(below.join("cgroup.procs"), child.id().to_string()).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
        assert!(!child.wait().unwrap().success());
    }
}
