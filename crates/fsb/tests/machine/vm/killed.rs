//! A run continues however its guest ends, and leaves nothing however it ends itself.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Returns processes whose command line contains all of `words`.
fn processes(words: &[&str]) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    let line = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let fits = |pid: &i32| {
        let line = String::from_utf8_lossy(&line(*pid)).replace('\0', " ");
        words.iter().all(|word| line.contains(word))
    };
    pids.filter(fits).collect()
}

/// A coordinator that is killed when a test fails: it would block the others.
struct Coordinator(std::process::Child);

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns QEMU itself, not processes that are about to execute it.
fn qemu() -> Vec<i32> {
    let becoming = processes(&["__vm-machine"]);
    processes(&["qemu-system-", "chardev=protocol,name=fsb"])
        .into_iter()
        .filter(|pid| !becoming.contains(pid))
        .collect()
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_killed_coordinator_takes_the_guest_and_its_disk_along() {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let mut coordinator =
        Coordinator(run(scratch.path(), &kernel, &["ext4", "--blocks", "50", "--out", "run"]).spawn().unwrap());
    wait_until("a trial in the guest", LONG, || !trials(&scratch.path().join("run")).is_empty());
    assert_eq!(qemu().len(), 1, "{:#?}", trials(&scratch.path().join("run")));
    coordinator.0.kill().unwrap();
    coordinator.0.wait().unwrap();
    expect_no_traces(&before);
    assert!(qemu().is_empty() && processes(&["__vm-agent"]).is_empty());
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "only the plan and the run directory: {left:?}");
}

#[test]
fn where_an_ordinary_user_may_make_no_namespaces_a_guest_runs_and_dies_with_its_coordinator() {
    let kernel = needs!(kernel());
    let before = traces();
    let (home, binary) = (super::runs::home_of_nobody(), public_copy());
    std::fs::write(home.path().join("tiny.toml"), PLAN).unwrap();
    // The limit applies to one user namespace, so it affects no other user. If user namespaces are not allowed on the
    // machine, the test need not set it.
    let limit = "if [ \"$1\" = limited ]; then echo 0 > /proc/sys/user/max_user_namespaces || exit 9; fi; shift; \
                 unshare --user true 2>/dev/null && exit 9; \
                 exec setpriv --ambient-caps=-all --inh-caps=-all -- \"$@\"";
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let own = ["unshare", "--user", "--map-current-user", "--keep-caps"];
    let may = Command::new("setpriv").args(nobody).args(own).arg("true").output().unwrap().status.success();
    let mut command = Command::new("setpriv");
    command.args(nobody).args(own.iter().filter(|_| may));
    command.args(["sh", "-c", limit, "sh", if may { "limited" } else { "refused" }]).arg(binary.path());
    command.args(["run", "tiny.toml", "ext4", "--kernel", &kernel, "--blocks", "50", "--out", "run"]);
    command.current_dir(home.path()).env("HOME", home.path()).env("XDG_CACHE_HOME", home.path().join("cache"));
    let mut coordinator = Coordinator(command.spawn().unwrap());
    let run = home.path().join("run");
    wait_until("a trial in the guest", LONG, || {
        assert_eq!(coordinator.0.try_wait().unwrap(), None, "the run goes on");
        !trials(&run).is_empty()
    });
    assert_eq!(trials(&run)[0]["outcome"], "ok");
    assert_eq!(qemu().len(), 1);
    coordinator.0.kill().unwrap();
    coordinator.0.wait().unwrap();
    expect_no_traces(&before);
    assert!(qemu().is_empty() && processes(&["__vm-agent"]).is_empty());
}

#[test]
fn a_guest_whose_qemu_is_killed_costs_the_rest_of_its_block() {
    lose_qemu(Signal::KILL);
}

/// A stopped QEMU prints nothing and answers nothing, like a guest whose processors are deadlocked.
#[test]
fn a_guest_that_stands_still_is_ended_and_costs_the_rest_of_its_block() {
    lose_qemu(Signal::STOP);
}

/// Sends QEMU a signal after the first measured trial, and expects the run to continue with another guest.
fn lose_qemu(signal: Signal) {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let directory = scratch.path().join("run");
    let mut command = run(scratch.path(), &kernel, &["ext4", "ext2", "--blocks", "2", "--out", "run"]);
    let mut coordinator = Coordinator(command.env("FSB_VM_PATIENCE", "10").spawn().unwrap());
    // Both targets are measured before the next case, which is still to come.
    let measured = || trials(&directory).iter().filter(|trial| trial["phase"] == "measured").count();
    wait_until("the first measured trial", LONG, || measured() >= 1);
    let victims = qemu();
    assert_eq!(victims.len(), 1, "{:#?}", trials(&directory));
    send(victims[0], signal);
    assert_eq!(coordinator.0.wait().unwrap().code(), Some(4));
    let trials = trials(&directory);
    let failed: Vec<_> = trials.iter().filter(|trial| trial["outcome"] == "failed").collect();
    assert!(!failed.is_empty() && failed.len() <= 4, "{failed:#?}");
    assert_eq!(failed[0]["error_code"], "trial/guest-stopped", "{}", failed[0]["error"]);
    assert!(trials.iter().any(|trial| trial["block"] == 2 && trial["outcome"] == "ok"), "{:?}", outcomes(&directory));
    expect_no_traces(&before);
}

#[test]
fn a_guest_that_panics_says_so_and_the_next_block_gets_another() {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let arguments = ["ext4", "--blocks", "2", "--out", "run"];
    let output = run(scratch.path(), &kernel, &arguments).env("FSB_VM_FAULT", "panic").output().unwrap();
    expect_code(&output, 4);
    let trials = trials(&scratch.path().join("run"));
    assert!(
        trials.len() >= 4 && trials[0]["outcome"] == "ok",
        "{:?}: {}",
        outcomes(&scratch.path().join("run")),
        stderr(&output)
    );
    let failed: Vec<_> = trials.iter().filter(|trial| trial["outcome"] == "failed").collect();
    assert!(failed.len() >= 2, "the rest of the block: {}", stderr(&output));
    for trial in failed {
        assert_eq!(trial["error_code"], "trial/guest-stopped", "{trial:#}");
    }
    assert!(stderr(&output).matches(&kernel).count() >= 2, "{}", stderr(&output));
    expect_no_traces(&before);
}
