//! Attacks on a whole run: another user's run beside it, stopped processes, a wall clock that
//! jumps, services. `docs/methods/ownership.md` states the promises that these tests check.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::*;
use crate::exclusive::kills::family;
use crate::hostile::{arguments, attacker};

/// Limit after which a run counts as hanging.
const HANGS: Duration = Duration::from_secs(120);
const NOBODY: u32 = 65534;

/// A directory in which a command reports each of its executions and waits until the test lets it
/// end.
struct Handshake(PathBuf);

impl Handshake {
    fn new(directory: &Path) -> Handshake {
        let path = directory.join("handshake");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Handshake(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn command(&self) -> String {
        // The shell waits in a call of its own: it cannot be stopped while a child that it made
        // with vfork is stopped before its exec.
        let line = "n=$(ls DIR | grep -c started); mkfifo -m 666 DIR/go-$n; \
                    touch DIR/started-$n; read word < DIR/go-$n";
        line.replace("DIR", self.path())
    }

    /// Returns the number of executions that have started.
    fn started(&self) -> usize {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("started"))
            .count()
    }

    /// Calls `act` during each execution until `run` ends.
    fn serve(&self, run: &mut Running, mut act: impl FnMut(usize)) {
        let mut served = 0;
        wait_until("the run ends", HANGS, || {
            if self.started() > served {
                act(served);
                let gate = self.0.join(format!("go-{served}"));
                // Without waiting for a reader, which a run that failed has no more.
                let open = || {
                    let mut options = fs::File::options();
                    options
                        .write(true)
                        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
                    options
                        .open(&gate)
                        .and_then(|mut gate| gate.write_all(b"go\n"))
                };
                wait_until("the command reads", HANGS, || {
                    !run.is_running() || open().is_ok()
                });
                served += 1;
            }
            !run.is_running()
        });
    }
}

/// Returns all trials of the run in `directory`. There is at least one measured trial.
fn all_trials(directory: &Path, said: &str) -> Vec<Value> {
    let all = trials(&directory.join("run"));
    assert!(
        all.iter().any(|trial| trial["phase"] == "measured"),
        "{said}"
    );
    all
}

/// Workers of both runs have the same user, so only the PID namespaces separate them.
#[test]
fn a_command_that_kills_all_processes_of_its_user_ends_no_process_of_another_run() {
    needs!(root);
    needs!(program "setpriv");
    let before = traces();
    let (directory, theirs, binary) = (scratch(), scratch(), public_copy());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(theirs.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let handshake = Handshake::new(directory.path());
    let command = handshake.command();
    let options = ["--size", "400M", "--writable", handshake.path()];
    let mut run = Running::start(
        directory.path(),
        &arguments(&["ext4"], &options, &[&command]),
    );
    let mut attacks = 0;
    handshake.serve(&mut run, |_| {
        attacks += 1;
        let _ = fs::remove_dir_all(theirs.path().join("run"));
        let attack = arguments(
            &["."],
            &["--allow-concurrent"],
            &["sleep 600 & kill -9 -1; echo attacked"],
        );
        let output = as_nobody(binary.path(), theirs.path(), &attack);
        expect_code(&output, 0);
        for trial in all_trials(theirs.path(), &stderr(&output)) {
            assert_eq!(trial["outcome"], "ok", "{trial:#}");
            assert!(
                trial["observed"]["output"]
                    .as_str()
                    .unwrap()
                    .starts_with("attacked\n"),
                "{trial:#}"
            );
        }
    });
    let output = run.wait();
    expect_code(&output, 0);
    for trial in all_trials(directory.path(), &stderr(&output)) {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
    }
    assert!(attacks >= 2, "warm-up and a measured trial: {attacks}");
    expect_no_traces(&before);
    expect_no_cgroups(&before);
}

fn state(pid: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(after + 2).map(|byte| char::from(*byte))
}

/// Stops all processes of a run, waits until they are stopped, and continues them `pause` later.
fn stop_and_continue(coordinator: u32, children_first: bool, pause: Duration) {
    let members = || {
        let mut all: Vec<i32> = family(coordinator)
            .into_iter()
            .map(|(pid, _)| pid)
            .collect();
        if children_first {
            all.reverse();
        }
        all.retain(|pid| state(*pid).is_some_and(|state| state != 'Z'));
        all
    };
    let send = |pid: i32, signal| {
        // It may have ended since it was found.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
    };
    wait_until("all processes are stopped", HANGS, || {
        let running: Vec<i32> = members()
            .into_iter()
            .filter(|pid| state(*pid) != Some('T'))
            .collect();
        // One at a time, so that the monitor sees its worker stop before it is stopped itself.
        let at_once = if children_first { 1 } else { running.len() };
        running
            .iter()
            .take(at_once)
            .for_each(|pid| send(*pid, Signal::STOP));
        running.is_empty()
    });
    let stopped = Instant::now();
    wait_until("the stop has a length", pause * 10, || {
        stopped.elapsed() >= pause
    });
    // Parents first, each after the one before waits again: the monitor continues while its worker
    // is still stopped.
    for (pid, _) in family(coordinator) {
        send(pid, Signal::CONT);
        wait_until("the process waits", HANGS, || {
            !matches!(state(pid), Some('T' | 'R'))
        });
    }
}

#[test]
fn a_run_that_is_stopped_and_continued_ends_and_its_samples_name_the_stop() {
    needs!(root);
    let before = traces();
    let directory = scratch();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let handshake = Handshake::new(directory.path());
    let command = handshake.command();
    let options = [
        "--size",
        "400M",
        "--writable",
        handshake.path(),
        "--time-limit",
        "1h",
    ];
    let mut run = Running::start(
        directory.path(),
        &arguments(&["ext4"], &options, &[&command]),
    );
    let coordinator = run.id();
    // Longer than a worker may be stopped while its monitor runs.
    handshake.serve(&mut run, |execution| {
        stop_and_continue(coordinator, execution % 2 == 1, Duration::from_secs(7))
    });
    let output = run.wait();
    expect_code(&output, 0);
    for trial in all_trials(directory.path(), &stderr(&output)) {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let interference = trial["interference"].as_array().unwrap();
        assert!(
            interference.iter().any(|found| found["kind"] == "stopped"),
            "{trial:#}"
        );
    }
    expect_no_traces(&before);
    expect_no_cgroups(&before);
}

#[test]
fn a_run_of_the_engine_that_is_stopped_and_continued_ends_with_all_trials() {
    needs!(root);
    let before = traces();
    let directory = scratch();
    let plan = "targets = ['ext4']\nsize = '64M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                sample_time = '2s'\n[[workload]]\nname = 'write'\nfile_size = '8M'\nblock_size = '4K'\n\
                access = 'random'\ndurability = 'each'\n";
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let mut run = Running::start(directory.path(), "run plan.toml --out run -q");
    let coordinator = run.id();
    let warmed_up = || !trials(&directory.path().join("run")).is_empty();
    wait_until("warm-up is over", HANGS, warmed_up);
    let is_worker =
        |(_, words): &(i32, Vec<String>)| words.get(1).is_some_and(|word| word == "__worker");
    wait_until("a worker", HANGS, || {
        !run.is_running() || family(coordinator).iter().any(is_worker)
    });
    if run.is_running() {
        stop_and_continue(coordinator, false, Duration::from_secs(3));
    }
    let output = run.wait();
    expect_code(&output, 0);
    for trial in all_trials(directory.path(), &stderr(&output)) {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
    }
    expect_no_traces(&before);
    expect_no_cgroups(&before);
}

/// A wall clock that is a day late at every second reading, and wrong by a given number of seconds
/// at all of them.
const JUMPS: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int readings;
    int answer = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) {
        const char *wrong = getenv("FSB_TEST_WRONG");
        time->tv_sec += (__sync_fetch_and_add(&readings, 1) % 2 ? 0 : 86400) + (wrong ? atol(wrong) : 0);
    }
    return answer;
}"#;

/// Returns the shared library, compiled in `directory`.
fn jumping_clock(directory: &Path) -> PathBuf {
    let (code, library) = (directory.join("clock.c"), directory.join("clock.so"));
    fs::write(&code, JUMPS).unwrap();
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .arg(&code)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    library
}

#[test]
fn a_wall_clock_that_jumps_changes_neither_budget_nor_order_of_records_nor_resume() {
    needs!(root);
    needs!(program "cc");
    let before = traces();
    let directory = scratch();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let library = jumping_clock(directory.path());
    let path = tiny_plan(directory.path());
    let start = |words: &[&str], wrong: &str| {
        let mut command = command(directory.path(), words);
        command
            .env("LD_PRELOAD", &library)
            .env("FSB_TEST_WRONG", wrong)
            .stdin(Stdio::null());
        Running::from_child(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    };
    let run = directory.path().join("run");
    let first = start(
        &words("run tiny.toml tmpfs --size 64M --blocks 1000 --out run -q"),
        "0",
    );
    wait_until("trials of the first block", HANGS, || {
        trials(&run).len() > 8
    });
    first.signal(Signal::INT);
    expect_code(&first.wait(), 130);
    let mut shorter = record(&run);
    let last = trials(&run)
        .iter()
        .filter_map(|trial| trial["block"].as_u64())
        .max()
        .unwrap();
    shorter["blocks_planned"] = (last + 1).into();
    fs::write(run.join("run.json"), shorter.to_string()).unwrap();
    // Two days earlier.
    expect_code(
        &start(&["run", "--resume", "run", "-q"], "-172800").wait(),
        0,
    );
    let (record, trials) = (record(&run), trials(&run));
    let mut times: Vec<&str> = trials
        .iter()
        .map(|trial| trial["started"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:#?}");
    assert!(
        trials.iter().any(|trial| trial["block"] == last + 1),
        "resumed"
    );
    let segments = record["segments"].as_array().unwrap();
    times = segments
        .iter()
        .flat_map(|one| [&one["started"], &one["ended"]])
        .filter_map(Value::as_str)
        .collect();
    assert!(segments.len() == 2 && times.is_sorted(), "{times:#?}");

    // By the wall clock this budget is used up at once, or never.
    fs::write(&path, TINY.replace("blocks = 1", "budget = '20s'")).unwrap();
    let mut budget = start(
        &words("run tiny.toml tmpfs --size 64M --out budget -q"),
        "0",
    );
    wait_until("the budget ends the run", HANGS, || !budget.is_running());
    expect_code(&budget.wait(), 0);
    assert!(!counting(&directory.path().join("budget")).is_empty());
    expect_no_traces(&before);
    expect_no_cgroups(&before);
}

/// A service that leaves everything that a process can leave, and that SIGTERM does not end.
const SERVICE: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>
int main(int count, char **words) {
    signal(SIGTERM, SIG_IGN);
    shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0666);
    if (fork() == 0) {
        setsid();
        signal(SIGHUP, SIG_IGN);
        shmat(shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0666), 0, 0);
        chdir("/dev/shm");
        close(open("left", O_CREAT | O_RDWR, 0600));
        for (;;) { write(1, "daemon\n", 7); usleep(1000); }
    }
    int stubborn = count > 1 && !strcmp(words[1], "stubborn");
    if (!stubborn) signal(SIGTERM, SIG_DFL);
    static char line[65536];
    memset(line, 'x', sizeof line);
    for (;;) { write(1, line, sizeof line); if (stubborn) usleep(1000); }
}"#;

#[test]
fn a_service_that_leaves_processes_memory_and_endless_output_leaves_nothing_after_the_run() {
    needs!(root);
    needs!(program "cc");
    let before = traces();
    let (directory, service) = attacker(SERVICE);
    let plan = format!(
        "[repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n\
         [[workload]]\nname = 'command'\nlabel = 'obeys'\ncommand = 'sleep 0.3'\nservice = [{{ command = '{service}' }}]\n\
         [[workload]]\nname = 'command'\nlabel = 'stubborn'\ncommand = 'sleep 0.3'\n\
         service = [{{ command = '{service} stubborn' }}]\n"
    );
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(
        directory.path(),
        "run plan.toml ext4 --size 400M --out run -q",
    );
    for trial in all_trials(directory.path(), &stderr(&output)) {
        // A shell that does not become its last command ends in its place, and the program ends
        // with the worker.
        let is_named = trial["error_code"] == "trial/service-failed";
        assert!(
            trial["outcome"] == "ok" || trial["workload"] == "stubborn" && is_named,
            "{trial:#}"
        );
    }
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut programs = entries.filter_map(|entry| fs::read_link(entry.path().join("exe")).ok());
    assert!(
        !programs.any(|program| program.starts_with(directory.path())),
        "the daemon runs"
    );
    assert!(!Path::new("/dev/shm/left").exists());
    expect_no_traces(&before);
    expect_no_cgroups(&before);
}
