//! Hostile programs under `fsb record`: their calls succeed, and the trace names the calls that it
//! lacks.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::traces::{count, missing, summary};
use crate::common::*;
use crate::ownership::{NOBODY, home, sudo};

/// Limit after which a recording counts as hanging.
const HANGS: Duration = Duration::from_secs(120);

/// Returns the methods that the kernel permits: if it refuses eBPF programs, only ptrace is tested.
fn methods() -> &'static [&'static str] {
    static EBPF: LazyLock<bool> = LazyLock::new(|| {
        let scratch = scratch();
        let output = fsb_json(
            scratch.path(),
            "record -o ../app.trace --by ebpf -- touch f",
        );
        let refused = error_of(&output)["code"] == "record/no-ebpf";
        if refused {
            fsb_testkit::left_out(
                "hostile programs under eBPF",
                "the kernel refuses eBPF programs",
            );
        }
        !refused
    });
    if *EBPF {
        &["ptrace", "ebpf"]
    } else {
        &["ptrace"]
    }
}

/// A compiled program and its working directory.
struct Hostile {
    scratch: TempDir,
    program: PathBuf,
    work: PathBuf,
}

impl Hostile {
    fn new() -> Result<Hostile, String> {
        fsb_testkit::root()?;
        fsb_testkit::programs(&["cc"])?;
        let scratch = scratch();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (program, work) = (scratch.path().join("hostile"), scratch.path().join("work"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/machine/independent/recorded_hostile.c");
        let compiled = Command::new("cc")
            .args(["-pthread", "-O1", "-Wall", "-o"])
            .arg(&program)
            .arg(source)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", stderr(&compiled));
        fs::create_dir(&work).unwrap();
        Ok(Hostile {
            scratch,
            program,
            work,
        })
    }

    fn record(&self, by: &str, words: &[&str]) -> Output {
        let running = Running::start(&self.work, &self.arguments(by, words));
        let state = format!("/proc/{}/stat", running.id());
        let is_over = || fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") Z "));
        wait_until("the recording ends", HANGS, is_over);
        running.wait()
    }

    fn arguments<'a>(&'a self, by: &'a str, words: &'a [&'a str]) -> Vec<&'a str> {
        let program = self.program.to_str().unwrap();
        [
            &[
                "record",
                "-o",
                "../app.trace",
                "--overwrite",
                "--by",
                by,
                "--",
                program,
            ],
            words,
        ]
        .concat()
    }

    /// Records the program in an empty directory and returns the summary of the trace.
    fn seen(&self, by: &str, words: &[&str]) -> Value {
        fs::remove_dir_all(&self.work).unwrap();
        fs::create_dir(&self.work).unwrap();
        expect_code(&self.record(by, words), 0);
        summary(&self.work)
    }
}

/// Asserts that the trace claims to be complete and contains these counts of calls.
fn assert_complete(summary: &Value, calls: &[(&str, u64)]) {
    assert_eq!(summary["incomplete"], serde_json::json!([]));
    for (call, made) in calls {
        assert_eq!(count(summary, call), *made, "{call}\n{summary}");
    }
}

#[test]
fn untraced_tasks_are_recorded_and_their_calls_pass() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        let summary = hostile.seen(by, &["untraced"]);
        assert_complete(&summary, &[("open", 5), ("write", 5), ("close", 5)]);
    }
}

/// Another thread sets the flag again after the tracer has cleared it.
#[test]
fn a_task_that_escapes_makes_the_trace_incomplete() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        assert_eq!(missing(&hostile.seen(by, &["race"]), "untraced"), Some(1));
    }
}

#[test]
fn requests_of_rings_and_supervisors_make_a_trace_incomplete() {
    let hostile = needs!(Hostile::new());
    let refused = hostile.record("ptrace", &["ring"]);
    if stderr(&refused).contains("request != MAP_FAILED") || !hostile.work.join("ring").exists() {
        skip!("this kernel has no io_uring");
    }
    for by in methods() {
        let incomplete = |words: &[&str], reason: &str| {
            assert_eq!(
                missing(&hostile.seen(by, words), reason),
                Some(1),
                "{words:?}"
            );
        };
        incomplete(&["ring"], "uring");
        incomplete(&["supervised"], "supervised");
        incomplete(&["chroot"], "other-root");
        // A ring that the kernel refuses carries no requests.
        assert_complete(&hostile.seen(by, &["no-ring"]), &[]);
    }
    if methods().contains(&"ebpf") {
        assert_eq!(
            missing(&hostile.seen("ebpf", &["namespace"]), "namespace"),
            Some(1)
        );
    }
    assert_complete(&hostile.seen("ptrace", &["namespace"]), &[("open", 1)]);
}

#[test]
fn rings_and_mappings_from_before_the_recording_make_it_incomplete() {
    let hostile = needs!(Hostile::new());
    for (mode, what) in [("open-mapping", "shared-mapping"), ("open-ring", "uring")] {
        let mut program = Command::new(&hostile.program);
        program
            .arg(mode)
            .current_dir(&hostile.work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        if line != "ready\n" {
            program.wait().unwrap();
            skip!("this kernel has no io_uring");
        }
        let pid = program.id().to_string();
        let words = ["record", "-o", "../app.trace", "--overwrite", "--pid", &pid];
        let recorder = Running::start(&hostile.work, &words);
        let status = format!("/proc/{pid}/status");
        let is_traced = || {
            !fs::read_to_string(&status)
                .unwrap()
                .contains("TracerPid:\t0")
        };
        wait_until("the program is traced", Duration::from_secs(60), is_traced);
        drop(program.stdin.take());
        expect_code(&recorder.wait(), 0);
        program.wait().unwrap();
        assert_eq!(missing(&summary(&hostile.work), what), Some(1), "{mode}");
    }
}

/// Threads reuse numbers of closed files before the tracer sees the closing calls return.
#[test]
fn ten_thousand_living_threads_are_recorded_completely() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        let summary = hostile.seen(by, &["threads", "10000"]);
        assert_eq!(summary["tasks"], 10_001);
        assert_complete(
            &summary,
            &[("open", 10_000), ("write", 10_000), ("close", 10_000)],
        );
    }
}

#[test]
fn all_ways_to_make_tasks_are_recorded() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        let summary = hostile.seen(by, &["forks", "9"]);
        assert_complete(
            &summary,
            &[("open", 1023), ("write", 1023), ("close", 1023)],
        );
        let summary = hostile.seen(by, &["clones"]);
        assert_complete(&summary, &[("open", 8), ("write", 7)]);
    }
}

#[test]
fn a_new_process_runs_although_its_maker_is_killed() {
    let hostile = needs!(Hostile::new());
    methods()
        .iter()
        .for_each(|by| assert_complete(&hostile.seen(by, &["killed-makers"]), &[]));
}

#[test]
fn odd_descriptors_names_and_tracers_lose_no_call() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        assert_complete(
            &hostile.seen(by, &["descriptors"]),
            &[("open", 2), ("write", 6)],
        );
        assert_complete(
            &hostile.seen(by, &["renamed"]),
            &[("open", 5), ("write", 5), ("close", 5)],
        );
        assert_complete(
            &hostile.seen(by, &["traced"]),
            &[("open", 1), ("write", 1), ("close", 1)],
        );
    }
}

#[test]
fn a_setuid_program_leaves_a_note_that_it_ran_without_its_rights() {
    let hostile = needs!(Hostile::new());
    let other = hostile.scratch.path().join("setuid");
    fs::copy(&hostile.program, &other).unwrap();
    chown(&other, Some(NOBODY), None).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).unwrap();
    let words = words("record -o ../app.trace -- ../setuid make f");
    succeeds(&hostile.work, &words);
    let summary = summary(&hostile.work);
    assert_complete(&summary, &[("open", 1)]);
    let note = serde_json::json!({ "note": "without-privileges", "times": 1 });
    assert!(
        summary["notes"].as_array().unwrap().contains(&note),
        "{summary}"
    );
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(hostile.work.join("f")).unwrap()),
        0
    );
}

/// The program dies with its recorder, and the rest of the trace is refused.
#[test]
fn a_program_that_kills_its_recorder_dies_with_it() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        let _ = fs::remove_file(hostile.scratch.path().join("app.trace"));
        let output = hostile.record(by, &["kill-recorder"]);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&output.status),
            Some(9),
            "{output:?}"
        );
        let is_gone = || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            !processes
                .filter_map(|entry| fs::read_link(entry.path().join("exe")).ok())
                .any(|exe| exe == hostile.program)
        };
        wait_until("the program has ended", Duration::from_secs(60), is_gone);
        expect_code(&fsb(&hostile.work, "trace show ../app.trace"), 2);
    }
}

/// A stopped recorder loses records when the ring is full. An exec does not reset the count of lost
/// records.
#[test]
fn calls_lost_by_a_stopped_recorder_make_a_trace_incomplete() {
    let hostile = needs!(Hostile::new());
    for by in methods() {
        let calls = if *by == "ebpf" { "400000" } else { "400" };
        let mut recorder = command(
            &hostile.work,
            &hostile.arguments(by, &["stop-recorder", calls]),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let (pid, out) = (Pid::from_child(&recorder), recorder.stdout.take().unwrap());
        let recorder = Running::from_child(recorder);
        let state = format!("/proc/{}/stat", recorder.id());
        let is =
            |state_now: &str| fs::read_to_string(&state).is_ok_and(|stat| stat.contains(state_now));
        wait_until("the recorder is stopped", HANGS, || {
            is(") T ") || is(") Z ")
        });
        // With ptrace the program waits for the recorder.
        if *by == "ebpf" && is(") T ") {
            BufReader::new(out).read_line(&mut String::new()).unwrap();
        }
        kill_process(pid, Signal::CONT).unwrap();
        let output = recorder.wait();
        expect_code(&output, 0);
        let summary = summary(&hostile.work);
        assert_eq!(
            missing(&summary, "lost").is_some(),
            *by == "ebpf",
            "{summary}"
        );
        assert!(
            *by == "ebpf" || count(&summary, "pread") == 400,
            "{summary}"
        );
    }
}

/// A user's own session keyring is kept; a program that runs as another user gets an empty one.
#[test]
fn a_program_cannot_read_the_session_keyring_of_another_user() {
    let hostile = needs!(Hostile::new());
    chown(&hostile.work, Some(NOBODY), Some(NOBODY)).unwrap();
    let public = public_copy();
    let (fsb, program) = (
        public.path().to_str().unwrap(),
        hostile.program.to_str().unwrap(),
    );
    let reads = |user: &str, recorded: bool| {
        let record: &[&str] = if recorded {
            &[fsb, "record", "-o", "app.trace", "--overwrite", "--"]
        } else {
            &[]
        };
        let words = [&["with-key", user], record, &[program, "key"]].concat();
        Command::new(program)
            .args(words)
            .current_dir(&hostile.work)
            .output()
            .unwrap()
            .status
            .code()
    };
    if reads("root", false) != Some(0) {
        skip!("this kernel has no keyrings");
    }
    assert_eq!(
        reads("nobody", false),
        Some(0),
        "the key is inherited without the recorder"
    );
    assert_eq!(reads("nobody", true), Some(4), "the program ends with 1");
    fs::remove_file(hostile.work.join("app.trace")).unwrap();
    chown(&hostile.work, Some(0), Some(0)).unwrap();
    assert_eq!(reads("root", true), Some(0), "one's own keys are there");
}

/// The program has the descriptors that its user passed, as with strace, and none of the
/// recorder's. Under sudo it has none.
#[test]
fn a_program_inherits_only_descriptors_that_its_own_user_passed() {
    let hostile = needs!(Hostile::new());
    let home = home(hostile.scratch.path());
    let program = hostile.program.to_str().unwrap();
    // Runs the command from a shell that passes descriptor 9. Returns the open descriptors above 2
    // as the program lists them.
    let passed_to = |command: &Command| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec 9>passed; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args());
        shell.current_dir(command.get_current_dir().unwrap()).envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let output = shell.output().unwrap();
        expect_code(&output, 0);
        stdout(&output)
    };
    let alone = passed_to(Command::new(program).arg("list").current_dir(&hostile.work));
    assert!(alone.lines().any(|fd| fd == "9"), "{alone}");
    for by in methods() {
        let words = [
            "record",
            "-o",
            "app.trace",
            "--overwrite",
            "--by",
            by,
            "--",
            program,
            "list",
        ];
        assert_eq!(passed_to(&command(&hostile.work, &words)), alone, "{by}");
        assert_eq!(passed_to(&sudo(&home, &words)), "", "{by}");
    }
}
