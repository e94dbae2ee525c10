use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fsb_model::WorkloadSpec;
use serde_json::json;

use crate::task::Step;
use crate::worker;
use crate::workload::testing::{Open, Pairs, label, run_once, task, with};

fn spec(command: &str, pairs: Pairs<'_>) -> WorkloadSpec {
    let mut spec = with("command", pairs);
    spec.params.insert("command".to_owned(), command.into());
    spec
}

fn failure(command: &str, pairs: Pairs<'_>, root: &Path) -> String {
    run_once(&spec(command, pairs), root, |_| {}).unwrap_err().to_string()
}

fn refusal(pairs: Pairs<'_>) -> String {
    label(&with("command", pairs)).unwrap_err().to_string()
}

/// Counts the processes whose working directory is below a directory, except zombies.
fn working_in(directory: &Path) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))).count()
}

#[test]
fn setup_prepare_verify_and_cleanup_run_in_order_in_the_target() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("data")).unwrap();
    fs::write(outside.path().join("data/one"), "1").unwrap();
    let workload = spec(
        "echo run $(cat data/one) $FSB_SEED $FSB_TRIAL >> log; echo 'tps = 5'; echo 'tps = 7.5'; exit 3",
        &[
            ("setup", "test $PWD = $FSB_TARGET && echo setup >> log".into()),
            ("prepare", json!(["sh", "-c", "echo prepare >> log"])),
            ("verify", "echo verify >> log; test $(grep -c run log) -ge 1".into()),
            ("cleanup", "cp log ../seen".into()),
            ("input", json!([outside.path().join("data")])),
            ("ok_exit", json!([0, 3])),
            ("metric", json!([{"name": "tps", "pattern": "tps = ([0-9.]+)", "better": "higher"}])),
        ],
    );
    let measured = run_once(&workload, root.path(), |_| {}).unwrap();
    assert_eq!((measured.operations, measured.printed["tps"]), (1, 7.5));
    assert!(measured.output.unwrap().ends_with("tps = 7.5\n"));
    assert!(measured.peak_memory.unwrap() > 100_000, "a shell needs more than that");
    assert!(measured.timed_ns > 0 && measured.user_seconds + measured.system_seconds > 0.0);
    worker::perform(&task(Step::Cleanup, &workload, root.path(), 1), &mut Open::default()).unwrap();
    let log = fs::read_to_string(root.path().join("seen")).unwrap();
    assert_eq!(log, "setup\nprepare\nrun 1 42 0\nverify\n");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing but what 'cleanup' copied is left");
}

#[test]
fn warm_means_one_run_that_is_not_counted() {
    let root = tempfile::tempdir().unwrap();
    let pairs = [("cache", "warm".into()), ("prepare", "echo prepare >> ../log".into())];
    run_once(&spec("echo run >> ../log", &pairs), root.path(), |_| {}).unwrap();
    assert_eq!(fs::read_to_string(root.path().join("log")).unwrap(), "prepare\nrun\nprepare\nrun\n");
}

#[test]
fn a_failure_says_how_and_what_was_said() {
    let root = tempfile::tempdir().unwrap();
    let of = |command: &str, pairs: Pairs<'_>| failure(command, pairs, root.path());
    assert_eq!(
        of("echo no such table >&2; exit 4", &[]),
        "echo no such table >&2; exit 4: exit status 4: no such table"
    );
    assert!(of("kill -SEGV $$", &[]).contains("killed by signal 11: it printed no message"));
    assert!(of("true", &[("prepare", "echo oh; false".into())]).contains("echo oh; false: exit status 1: oh"));
    assert!(of("true", &[("verify", "echo wrong sum; false".into())]).contains("exit status 1: wrong sum"));
    assert!(of("true", &[("setup", json!(["/no/such/program"]))]).contains("no such program"));
    assert!(of("true", &[("input", json!(["/no/such/file"]))]).contains("No such file"));
    let metric = json!([{"name": "tps", "pattern": "tps = ([0-9.]+)", "better": "higher"}]);
    let said = of("echo none today", &[("metric", metric)]);
    assert!(said.contains("tps: the output does not match 'tps = ([0-9.]+)'; its last lines: none today"), "{said}");
}

/// One command ignores signals, another leaves a daemon that has closed all its streams.
#[test]
fn nothing_that_a_command_started_outlives_it() {
    let root = tempfile::tempdir().unwrap();
    let stubborn = "trap '' TERM INT HUP; while true; do sleep 0.05; done";
    let said = failure(stubborn, &[("time_limit", "1s".into())], root.path());
    assert!(said.contains("not done after 1 s (time_limit)"), "{said}");
    let daemon = "setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null &' ; echo done";
    run_once(&spec(daemon, &[]), root.path(), |_| {}).unwrap();
    assert_eq!(working_in(root.path()), 0);
}

#[test]
fn a_service_runs_beside_the_command_and_is_stopped() {
    let root = tempfile::tempdir().unwrap();
    let server = "trap 'echo stopped > stopped; exit 0' INT; sleep 0.2; echo up > up; while true; do sleep 0.02; done";
    let service = json!([{"command": server, "ready": "test -f up", "stop": "SIGINT"}]);
    let workload = spec("cat up", &[("service", service), ("verify", "test ! -f stopped".into())]);
    let measured = run_once(&workload, root.path(), |_| {}).unwrap();
    assert_eq!(measured.output.as_deref(), Some("up\n"));
    assert!(root.path().join("fsb-set/stopped").exists(), "it was asked to stop, and did");
    let ended = json!([{"command": "echo no room for me; exit 1", "ready": "test -f never"}]);
    let said = failure("true", &[("service", ended)], root.path());
    assert!(said.contains("the service ended before it was ready: no room for me"), "{said}");
    let gone = json!([{"command": "sleep 0.05; echo crashed"}]);
    let said = failure("sleep 0.3", &[("service", gone)], root.path());
    assert!(said.contains("the service ended by itself: crashed"), "{said}");
    assert_eq!(working_in(root.path()), 0);
}

#[test]
fn a_service_that_ignores_its_stop_signal_is_killed_and_fails_the_run() {
    let root = tempfile::tempdir().unwrap();
    let server = "trap '' TERM; echo up > up; while true; do echo endless; sleep 0.01; done";
    let service = json!([{"command": server, "ready": "test -f up"}]);
    let said = failure("true", &[("service", service)], root.path());
    assert!(said.contains("the service did not stop within 10 s"), "{said}");
    // A process that was killed shows its directory until the kernel has torn it down.
    let patience = Instant::now() + Duration::from_secs(60);
    while working_in(root.path()) > 0 && Instant::now() < patience {
        std::thread::yield_now();
    }
    assert_eq!(working_in(root.path()), 0);
}

/// As under nohup, or in the background of a script.
#[test]
fn services_do_not_inherit_ignored_signals() {
    // SAFETY: no test waits for this signal.
    unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) };
    let root = tempfile::tempdir().unwrap();
    let server = "trap 'echo stopped > stopped; exit 0' QUIT; echo up > up; while true; do sleep 0.02; done";
    let service = json!([{"command": server, "ready": "test -f up", "stop": "SIGQUIT"}]);
    run_once(&spec("cat up", &[("service", service)]), root.path(), |_| {}).unwrap();
    assert!(root.path().join("fsb-set/stopped").exists());
}

#[test]
fn shared_memory_that_a_command_leaves_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let segments = || fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default().lines().count();
    let before = segments();
    match run_once(&spec("ipcmk -M 4096 && ipcs -m | grep -c 0x", &[]), root.path(), |_| {}) {
        Ok(measured) => {
            assert!(measured.output.unwrap().contains("Shared memory id"));
            assert_eq!(segments(), before);
        }
        Err(error) => fsb_testkit::left_out("shared_memory_that_a_command_leaves_is_removed", &error.to_string()),
    }
}

#[test]
fn invalid_parameters_of_a_command_are_refused() {
    assert!(refusal(&[]).contains("command: it is missing: give one, such as command = "));
    assert!(refusal(&[("command", " ".into())]).contains("is not a command"));
    assert!(refusal(&[("command", json!(["ls", 3]))]).contains("is not a list of words"));
    let with = |key: &'static str, value: serde_json::Value| refusal(&[("command", "true".into()), (key, value)]);
    assert!(with("time_limit", "0s".into()).contains("is not a time from 1s to 168h"));
    assert!(with("ok_exit", json!([300])).contains("is not a list of exit codes"));
    assert!(with("metric", json!([{"name": "tps"}])).contains("give a pattern"));
    assert!(with("metric", json!([{"name": "tps", "pattern": "([0-9]+)"}])).contains("say which is better"));
    let twice = json!([{"name": "command_time", "pattern": "([0-9]+)", "better": "lower"}]);
    assert!(with("metric", twice).contains("the name of another metric"));
    assert!(with("service", json!([{"command": "x", "stop": "SIGFOO"}])).contains("is none of SIGTERM"));
    assert!(with("service", json!([{"comand": "x"}])).contains("did you mean 'command'"));
    assert!(with("cache", "out".into()).contains("any or cold or warm"));
}

#[test]
fn labels_name_the_command_and_how_it_is_run() {
    let label = |pairs: Pairs<'_>| {
        let mut spec = spec("make  -C\n linux", pairs);
        spec.params.entry("durability".to_owned()).or_insert_with(|| "end".into());
        label(&spec).unwrap()
    };
    assert_eq!(label(&[]), "make -C linux, durable");
    assert_eq!(label(&[("durability", "none".into()), ("cache", "cold".into())]), "make -C linux, cold");
    let metric = json!([{"name": "tps", "pattern": "([0-9]+)", "better": "higher"}]);
    assert_eq!(label(&[("metric", metric)]), "tps of make -C linux, durable");
    assert_eq!(label(&[("label", "kernel build".into())]), "kernel build");
}
