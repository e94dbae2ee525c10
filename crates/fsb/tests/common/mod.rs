//! Helpers of the tests: they run the program, write small plans, and check that nothing is left.

#![allow(dead_code, reason = "each of the two test programs uses a part")]

#[path = "../../src/all_codes.rs"]
mod all_codes;
pub mod bad_input;
pub mod compare;
pub mod controls;
mod documented;
pub mod export;
pub mod failures;
pub mod filebench;
pub mod fuse_servers;
pub mod history;
pub mod iozone;
pub mod plans;
pub mod postmark;
pub mod serve;
pub mod serve_runs;
pub mod traces;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use self::documented::*;
pub use self::plans::*;

/// The program under test.
pub const FSB: &str = env!("CARGO_BIN_EXE_fsb");

/// Arguments of the program: a text with blanks between them, or a list.
pub trait Arguments {
    /// Returns the arguments.
    fn list(&self) -> Vec<&str>;
}

impl Arguments for &str {
    fn list(&self) -> Vec<&str> {
        words(self)
    }
}

impl Arguments for &String {
    fn list(&self) -> Vec<&str> {
        words(self)
    }
}

impl Arguments for &[&str] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Arguments for &[&str; N] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for &Vec<&str> {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// Returns the words of a text.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Runs the program in `directory`.
pub fn fsb(directory: &Path, arguments: impl Arguments) -> Output {
    command(directory, arguments)
        .output()
        .expect("the program starts")
}

/// Runs the program in `directory`. It must succeed.
pub fn succeeds(directory: &Path, arguments: impl Arguments) -> Output {
    let output = fsb(directory, arguments);
    expect_code(&output, 0);
    output
}

/// Runs the program in `directory`. It must succeed and print a JSON document, which is returned.
pub fn json(directory: &Path, arguments: impl Arguments) -> Value {
    let output = succeeds(directory, arguments);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the JSON document in a file.
pub fn read_json(path: impl AsRef<Path>) -> Value {
    let text = fs::read(path).expect("the file can be read");
    serde_json::from_slice(&text).expect("JSON")
}

/// Returns a command that runs the program with `arguments` in `directory`.
pub fn command(directory: &Path, arguments: impl Arguments) -> Command {
    let mut command = Command::new(FSB);
    command
        .current_dir(directory)
        .args(arguments.list())
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID");
    // Tests search for whole messages, which must not be wrapped.
    command
        .env_remove("PKEXEC_UID")
        .env_remove("DOAS_USER")
        .env("COLUMNS", "10000");
    command
}

/// The option that makes the program print messages as JSON.
pub const JSON: &str = "--message-format=json";

/// Runs the program in `directory` with messages as JSON.
pub fn fsb_json(directory: &Path, arguments: impl Arguments) -> Output {
    command(directory, arguments)
        .env("FSB_MESSAGE_FORMAT", "json")
        .output()
        .expect("the program starts")
}

/// Runs the program with messages as JSON. It must fail with that exit code and that error code.
/// Returns the error.
pub fn fails(directory: &Path, arguments: impl Arguments, exit: i32, code: &str) -> Value {
    let arguments = arguments.list();
    let error = expect_error(&fsb_json(directory, &arguments), exit, code);
    assert!(
        error["help"].as_str().is_some_and(|help| !help.is_empty()),
        "{arguments:?}: {error}"
    );
    error
}

/// Asserts the exit code and the error code of a program whose messages are JSON. Returns the
/// error.
pub fn expect_error(output: &Output, exit: i32, code: &str) -> Value {
    let error = error_of(output);
    let found = (output.status.code(), error["code"].as_str());
    assert_eq!(
        found,
        (Some(exit), Some(code)),
        "{}{}",
        stderr(output),
        stdout(output)
    );
    error
}

/// Runs requests that the program must refuse with these error codes and their exit codes. The
/// snapshot contains their messages.
pub fn expect_refusals(snapshot: &str, directory: &Path, requests: &[(&[&str], &str)]) {
    let mut messages = String::new();
    for (arguments, code) in requests {
        let error = fails(directory, *arguments, exit_code(code), code);
        messages += &format!("$ fsb {}\n{}\n\n", arguments.join(" "), text_of(&error));
    }
    assert_messages(snapshot, directory, &messages);
}

/// Runs plans that the program must refuse with these error codes. The snapshot holds the plans and
/// the messages.
pub fn expect_refused_plans(snapshot: &str, directory: &Path, plans: &[(String, &str)]) {
    let mut messages = String::new();
    for (plan, code) in plans {
        fs::write(directory.join("plan.toml"), plan).expect("the plan is written");
        let error = fails(directory, "run plan.toml --out run", exit_code(code), code);
        assert!(!directory.join("run").exists(), "{plan}");
        messages += &format!(
            "{}\n$ fsb run plan.toml\n{}\n\n",
            plan.trim_end(),
            text_of(&error)
        );
    }
    assert_messages(snapshot, directory, &messages);
}

/// Compares messages with their snapshot, without the name of the test's directory.
pub fn assert_messages(snapshot: &str, directory: &Path, messages: &str) {
    let messages = messages.replace(&directory.display().to_string(), "DIR");
    insta::assert_snapshot!(
        snapshot,
        messages.replace(env!("CARGO_MANIFEST_DIR"), "SOURCE")
    );
}

/// Returns the exit code that belongs to an error code.
fn exit_code(code: &str) -> i32 {
    let found = all_codes::all_codes().find(|known| known.name == code);
    i32::from(
        found
            .unwrap_or_else(|| panic!("no error has the code {code}"))
            .exit,
    )
}

/// Returns the message of an error, its causes and a remedy that neither the message nor its code
/// includes, one a line.
pub fn text_of(error: &Value) -> String {
    let causes = error["cause"].as_array().into_iter().flatten();
    let lines: Vec<&str> = std::iter::once(&error["message"])
        .chain(causes)
        .filter_map(Value::as_str)
        .collect();
    let text = lines.join("\n");
    match error["help"].as_str() {
        Some(help)
            if !text.contains(help) && all_codes::all_codes().all(|code| code.help != help) =>
        {
            format!("{text}\nhelp: {help}")
        }
        _ => text,
    }
}

/// Returns the messages that the program printed as JSON.
pub fn messages(output: &Output) -> Vec<Value> {
    stderr(output)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Returns the first message with that code. There must be one.
pub fn message(output: &Output, code: &str) -> Value {
    let found = messages(output)
        .into_iter()
        .find(|message| message["code"] == code);
    found.unwrap_or_else(|| panic!("no {code}: {}", stderr(output)))
}

/// Whether the program printed a message with that code.
pub fn has_message(output: &Output, code: &str) -> bool {
    messages(output)
        .iter()
        .any(|message| message["code"] == code)
}

/// Returns the last error that the program printed as JSON; `null` without one.
pub fn error_of(output: &Output) -> Value {
    messages(output)
        .into_iter()
        .rfind(|message| message["level"] == "error")
        .unwrap_or_default()
}

/// Undoes what killed runs left. Returns the state and the text of each change.
pub fn clean(directory: &Path, options: &[&str]) -> (Output, Vec<(String, String)>) {
    let output = fsb_json(directory, &[&["clean"], options].concat());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let changes = messages(&output)
        .into_iter()
        .filter(|message| message["code"] == "note/change");
    let changes = changes
        .map(|change| (text(&change["fields"]["state"]), text(&change["message"])))
        .collect();
    (output, changes)
}

/// Asserts that killed runs left nothing to undo.
pub fn expect_nothing_to_undo(directory: &Path) {
    let (output, changes) = clean(directory, &[]);
    expect_code(&output, 0);
    assert_eq!(changes, []);
}

/// Returns standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts the exit code; a failure shows the output.
pub fn expect_code(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        stdout(output),
        stderr(output)
    );
}

/// Returns everything below a directory; does not follow links.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Creates a directory on a real disk, for images.
pub fn scratch() -> TempDir {
    tempfile::Builder::new()
        .prefix("fsb-test-")
        .tempdir()
        .expect("a temporary directory")
}

/// Returns a temporary directory on tmpfs, if there is one: writes of other tests to the disk do
/// not delay it.
pub fn in_memory() -> TempDir {
    tempfile::Builder::new()
        .prefix("fsb-test-")
        .tempdir_in("/dev/shm")
        .unwrap_or_else(|_| scratch())
}

/// Runs a script in a shell.
pub fn shell(program: &str, arguments: &[&str], script: &str) -> Output {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the shell starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(script.as_bytes())
        .expect("the shell reads");
    child.wait_with_output().expect("the shell ends")
}

/// Restricts this thread and its children to two processors: the label of a workload contains its
/// number of threads.
pub fn on_two_processors() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).expect("an affinity");
    let mut two = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .take(2)
        .for_each(|cpu| two.set(cpu));
    sched_setaffinity(None, &two).expect("processors that were allowed before");
}

/// State of this machine that a run must not leave: mounts, loop devices with a backing file,
/// processes, cgroups, and System V shared memory of the user that workers run as.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    mounts: Vec<String>,
    loops: Vec<String>,
    /// Loop devices of images in memory. Like cgroups, those of other lanes' runs look the same.
    shared_loops: Vec<String>,
    processes: Vec<String>,
    cgroups: Vec<String>,
    shared_memory: Vec<String>,
}

/// Returns the current state.
pub fn traces() -> Traces {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Traces {
        mounts: mounts
            .lines()
            .filter(|line| line.contains("fsb") || line.contains("/dev/loop"))
            .map(str::to_owned)
            .collect(),
        // Images of these tests are in their directories; others belong to another checkout.
        loops: loops(|backing| Path::new(backing).starts_with(std::env::temp_dir())),
        shared_loops: shared_loops(),
        processes: processes(),
        cgroups: cgroups(),
        shared_memory: shared_memory(),
    }
}

/// Returns the loop devices of images in memory.
fn shared_loops() -> Vec<String> {
    loops(|backing| backing.starts_with("/memfd"))
}

/// Returns the loop devices with these backing files.
fn loops(is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut loops: Vec<String> = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        if let Some(backing) = fs::read_to_string(entry.path().join("loop/backing_file"))
            .ok()
            .filter(|backing| is_meant(backing))
        {
            // Each image that is attached has another number.
            let number = fs::read_to_string(entry.path().join("diskseq")).unwrap_or_default();
            loops.push(format!(
                "{} {} {}",
                entry.file_name().to_string_lossy(),
                number.trim(),
                backing.trim()
            ));
        }
    }
    loops.sort();
    loops
}

/// Returns the cgroups of fsb. The hierarchies are the host's, and have those of runs in other PID
/// namespaces, too.
fn cgroups() -> Vec<String> {
    let hierarchies = [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/pids",
        "/sys/fs/cgroup/memory",
    ];
    let entries = hierarchies
        .into_iter()
        .filter_map(|path| fs::read_dir(path).ok())
        .flatten()
        .flatten();
    let own = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"fsb-"));
    own.map(|entry| entry.path().to_string_lossy().into_owned())
        .collect()
}

fn shared_memory() -> Vec<String> {
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    // Without the times and sizes, which change while a segment is used.
    let of_workers = segments
        .lines()
        .filter(|line| line.split_whitespace().nth(7) == Some("65534"));
    of_workers
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(str::to_owned)
        .collect()
}

/// Returns processes of the program, and FUSE servers and virtual machines that it started.
pub fn processes() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        // Tests of another checkout may run on this machine, too: their program, and tests that run
        // its roles.
        let exe = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        let ours = Path::new(FSB)
            .ancestors()
            .nth(2)
            .expect("the program is in target/PROFILE");
        if exe.components().any(|part| part.as_os_str() == "target") && !exe.starts_with(ours) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains("__supervisor")
            || line.contains("__agent")
            || line.contains("__worker")
            || line.contains("__watcher")
            || line.contains("__vm-")
            || (line.contains("qemu-system-") && line.contains("chardev=protocol,name=fsb"))
            || line.starts_with("ntfs-3g")
        {
            found.push(format!("{pid} {line}"));
        }
    }
    found.sort();
    found
}

impl Traces {
    /// Returns the differences from an earlier state. Other runs that end meanwhile may remove
    /// some: that is allowed.
    fn since(self, before: &Traces) -> Traces {
        let new = |now: Vec<String>, before: &[String]| {
            now.into_iter()
                .filter(|one| !before.contains(one))
                .collect()
        };
        Traces {
            mounts: new(self.mounts, &before.mounts),
            loops: new(self.loops, &before.loops),
            shared_loops: new(self.shared_loops, &before.shared_loops),
            processes: new(self.processes, &before.processes),
            cgroups: new(self.cgroups, &before.cgroups),
            shared_memory: new(self.shared_memory, &before.shared_memory),
        }
    }

    /// Returns whether there is nothing but what may belong to runs of other lanes.
    fn is_empty(&self) -> bool {
        let lists = [
            &self.mounts,
            &self.loops,
            &self.processes,
            &self.shared_memory,
        ];
        lists.into_iter().all(Vec::is_empty)
    }
}

/// Waits until a run has left nothing: the kernel releases things asynchronously. See
/// [`expect_no_cgroups`] for cgroups.
pub fn expect_no_traces(before: &Traces) {
    let start = Instant::now();
    loop {
        let left = traces().since(before);
        if left.is_empty() {
            break;
        }
        assert!(
            start.elapsed() < WAIT,
            "left behind: {left:#?}\nbefore: {before:#?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // No process of the run can attach one any more.
    let images = "images in memory are gone";
    expect_gone(images, shared_loops, &before.shared_loops);
}

/// Waits until the cgroups that a run made are gone.
pub fn expect_no_cgroups(before: &Traces) {
    expect_gone("the cgroups are gone", cgroups, &before.cgroups);
}

/// Waits until everything that is in the list now has gone. Things of other lanes' runs look the
/// same and end with their runs. What appears meanwhile does not count.
fn expect_gone(what: &str, list: fn() -> Vec<String>, before: &[String]) {
    let mut left = list();
    left.retain(|one| !before.contains(one));
    wait_until(&format!("{what}: {left:?}"), 2 * WAIT, || {
        let present = list();
        left.retain(|one| present.contains(one));
        left.is_empty()
    });
}

/// The time limit of a wait for a run that works.
pub const WAIT: Duration = Duration::from_secs(60);

/// Waits until `done` returns true, or panics with `what` after several times the limit of an idle
/// machine: on a busy one, all takes longer, and only a test that fails waits for the limit.
pub fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let limit = 5 * limit;
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "waited {limit:?} for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the process id of the watcher of the run with this coordinator.
pub fn watcher_of(coordinator: u32) -> Option<i32> {
    let owner = format!("\"pid\":{coordinator},");
    let watcher = processes()
        .into_iter()
        .find(|line| line.contains("__watcher") && line.contains(&owner));
    watcher.and_then(|line| line.split(' ').next()?.parse().ok())
}

/// Kills the watcher of the run with this coordinator, so that only the ledger knows the changes of
/// that run.
pub fn kill_watcher(coordinator: u32) {
    let pid = watcher_of(coordinator).expect("the run has a watcher");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).expect("a process id"),
        rustix::process::Signal::KILL,
    )
    .expect("it runs");
}

/// Returns the trials of a run directory as JSON, without their checksums.
pub fn trials(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
    let without_checksum = |mut trial: Value| {
        trial.as_object_mut()?.remove("crc32");
        Some(trial)
    };
    text.lines()
        .filter_map(|line| without_checksum(serde_json::from_str(line).ok()?))
        .collect()
}

/// Writes the trials of a run directory, with their checksums.
pub fn write_trials(run: &Path, trials: &[Value]) {
    let lines = trials
        .iter()
        .flat_map(|trial| fsb_store::journal_line(trial).expect("an object"));
    fs::write(run.join("trials.jsonl"), lines.collect::<Vec<u8>>())
        .expect("the journal is written");
}

/// Changes the trials of a run directory, and their checksums.
pub fn rewrite_trials(run: &Path, change: impl FnMut(&mut Value)) {
    let mut trials = trials(run);
    trials.iter_mut().for_each(change);
    write_trials(run, &trials);
}

/// Returns the trials that count: on a busy machine some are affected by interference and retried.
pub fn counting(run: &Path) -> Vec<Value> {
    trials(run)
        .into_iter()
        .filter(|trial| trial["superseded"] != true)
        .collect()
}

/// Returns a metric of a trial by name.
pub fn metric(trial: &Value, name: &str) -> f64 {
    let metrics = trial["metrics"]
        .as_array()
        .unwrap_or_else(|| panic!("no metrics: {trial:#}"));
    let found = metrics.iter().find(|metric| metric["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {trial:#}"))["value"]
        .as_f64()
        .unwrap()
}

/// Returns the trials of blocks that count.
pub fn measured(run: &Path) -> Vec<Value> {
    counting(run)
        .into_iter()
        .filter(|trial| trial["phase"] == "measured")
        .collect()
}

/// Returns the record of a run directory as JSON.
pub fn record(run: &Path) -> Value {
    read_json(run.join("run.json"))
}

/// Makes a run one that was killed within the line after `keep` trials.
pub fn cut(run: &Path, keep: usize) {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().take(keep).collect();
    fs::write(
        run.join("trials.jsonl"),
        lines.join("\n") + "\n{\"schema\":\"fsben",
    )
    .unwrap();
    let mut record = record(run);
    record["stop_reason"] = Value::Null;
    fs::write(run.join("run.json"), record.to_string()).unwrap();
}

/// Returns a copy of the program that every user may execute.
pub fn public_copy() -> tempfile::NamedTempFile {
    use std::os::unix::fs::PermissionsExt;
    let copy = tempfile::Builder::new()
        .prefix("fsb-public-")
        .tempfile()
        .unwrap();
    fs::copy(FSB, copy.path()).unwrap();
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Executing a file that is open for writing is refused (ETXTBSY): keep only its path open.
    let (_, path) = copy.into_parts();
    tempfile::NamedTempFile::from_parts(fs::File::open(&path).unwrap(), path)
}

/// Runs a copy of the program as the user `nobody`.
pub fn as_nobody(binary: &Path, directory: &Path, arguments: impl Arguments) -> Output {
    command_of_nobody(binary, directory, arguments)
        .output()
        .expect("setpriv runs")
}

/// Returns a command that runs a copy of the program as the user `nobody`, whose home is
/// `directory`.
pub fn command_of_nobody(binary: &Path, directory: &Path, arguments: impl Arguments) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(binary)
        .args(arguments.list())
        .current_dir(directory)
        .env("HOME", directory)
        .env("COLUMNS", "10000")
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID");
    command
}

/// A running program. A test that panics before it waits for the program kills it, because the
/// tests share one machine.
pub struct Running(Option<std::process::Child>);

impl Running {
    /// Starts the program and captures its output.
    pub fn start(directory: &Path, arguments: impl Arguments) -> Running {
        let mut command = command(directory, arguments);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        Running(Some(
            command
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts"),
        ))
    }

    /// Wraps a program that was already started.
    pub fn from_child(child: std::process::Child) -> Running {
        Running(Some(child))
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("not waited for yet").id()
    }

    /// Returns whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.0
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.id() as i32).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("our own child");
    }

    /// Returns its exit status, or `None` while it runs.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.0
            .as_mut()
            .expect("not waited for yet")
            .try_wait()
            .expect("our own child")
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Output {
        self.0
            .take()
            .expect("not waited for yet")
            .wait_with_output()
            .expect("the program ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
