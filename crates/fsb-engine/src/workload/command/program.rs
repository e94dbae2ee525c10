//! Runs a program to its end: a line for the shell, or a program with its arguments. Keeps the end
//! of its output, which explains failures, and finds the numbers in it that a plan asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use fsb_model::Better;
use fsb_model::trial::COMMAND;
use fsb_sys::InvokingUser;
use fsb_sys::sandbox::unblock_signals;
use regex::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, wait,
    waitpid,
};
use serde_json::{Value, json};

use crate::error::EngineError;

/// The directory in TMPDIR and HOME: a private tmpfs if the worker is confined.
const SCRATCH: &str = "/dev/shm";
/// Characters of a program's last output in a message, and in the record.
const SAID: usize = 400;
const RECORDED: usize = 2000;

/// The directory, the environment values and the time limit of programs.
pub(super) struct Surroundings {
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
    pub(super) trial: u32,
    /// The longest that any program may take.
    pub(super) longest: Duration,
    /// The directory is the user's, and so is the environment: neither is confined.
    pub(super) here: bool,
}

/// A program that has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    pub(super) user_seconds: f64,
    pub(super) system_seconds: f64,
    /// Bytes of memory that its largest process had.
    pub(super) peak_memory: u64,
    /// The runs up to this one whose exit code was not 0.
    pub(super) failed_runs: u64,
    /// The time after which it was killed, if it took too long.
    late: Option<Duration>,
    /// The output streams, until [`Ended::read`] reads them.
    streams: Vec<Reading>,
}

impl Ended {
    /// Returns whether it ended in time, with one of these codes.
    pub(super) fn is_ok(&self, codes: &[i32]) -> bool {
        self.late.is_none() && self.status.code().is_some_and(|code| codes.contains(&code))
    }

    /// Returns whether it ended in time, with any exit code.
    pub(super) fn has_code(&self) -> bool {
        self.late.is_none() && self.status.code().is_some()
    }

    /// Returns whether it was killed because it took too long.
    pub(super) fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// Reads the output, outside the clock.
    pub(super) fn read(&mut self) {
        let mut streams = std::mem::take(&mut self.streams).into_iter();
        for place in [&mut self.stdout, &mut self.stderr] {
            if let Some(stream) = streams.next() {
                *place = stream.take();
            }
        }
    }

    /// Returns the last lines of standard error, or else of standard output.
    pub(super) fn last_words(&self) -> String {
        fn output_end(bytes: &[u8]) -> String {
            last_lines(&String::from_utf8_lossy(bytes), SAID)
        }
        let (errors, said) = (output_end(&self.stderr), output_end(&self.stdout));
        match (errors.is_empty(), said.is_empty()) {
            (false, _) => errors,
            (true, false) => said,
            (true, true) => "it printed no message".to_owned(),
        }
    }

    /// Returns the end of the output, for the record.
    pub(super) fn tail(&self) -> String {
        let text = [&self.stdout, &self.stderr]
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .concat();
        let surplus = text.chars().count().saturating_sub(RECORDED);
        text.chars().skip(surplus).collect()
    }

    /// Builds the error: the command, how it failed, its last output, and a hint if one is known.
    pub(super) fn failure(mut self, script: &Script, around: &Surroundings) -> EngineError {
        self.read();
        let how = match (self.late, self.status.signal(), self.status.code()) {
            (Some(limit), _, _) => format!("not done after {} s (time_limit)", limit.as_secs()),
            (_, Some(signal), _) => format!("killed by signal {signal}"),
            (_, _, code) => format!("exit status {}", code.unwrap_or(-1)),
        };
        let words = self.last_words();
        let full = fsb_sys::space::FreeSpace::at(&around.directory)
            .is_ok_and(|space| space.bytes == Some(0));
        let help = if full || words.contains("No space left on device") {
            "; the target is full: use a larger --size"
        } else if words.contains("Read-only file system") {
            "; a command may write only to the target and TMPDIR: allow other directories with --writable (writable = \
             [\"/DIR\"])"
        } else {
            ""
        };
        EngineError::new(format!("{}: {how}: {words}{help}", script.shown())).coded(&COMMAND)
    }
}

/// Makes this process a child subreaper: processes whose parents have ended become its children.
pub(super) fn adopt_orphans() {
    remember_shared_memory();
    // SAFETY: a property of our own process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A program that was started.
pub(super) struct Running {
    child: Child,
    /// Standard output and standard error.
    streams: Vec<Reading>,
}

fn command_of(script: &Script) -> Command {
    match script {
        Script::Line(line) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(line);
            command
        }
        Script::Words(words) => {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        }
    }
}

/// Sets the directory, the environment and the user of a program.
fn surround(command: &mut Command, around: &Surroundings) {
    command.current_dir(&around.directory);
    command
        .env("FSB_TARGET", &around.directory)
        .env("FSB_SEED", around.seed.to_string());
    command.env("FSB_TRIAL", around.trial.to_string());
    if around.here {
        if let Some(user) = InvokingUser::current() {
            user.run(command);
        }
    } else {
        command.env("TMPDIR", SCRATCH).env("HOME", SCRATCH);
    }
}

/// Starts a program in the target's directory.
pub(super) fn start(script: &Script, around: &Surroundings) -> Result<Running, EngineError> {
    let mut command = command_of(script);
    surround(&mut command, around);
    // The readers start first: a program may use up all processes that it is allowed, and a thread
    // counts as one.
    let no_reader = |error: io::Error| {
        let task = format!("{}: start a thread that reads its output", script.shown());
        EngineError::spawn(task, &error)
    };
    let (stdout, of_stdout) = Reading::start().map_err(no_reader)?;
    let (stderr, of_stderr) = Reading::start().map_err(no_reader)?;
    command
        .stdin(Stdio::null())
        .stdout(of_stdout)
        .stderr(of_stderr);
    let limit = || {
        // SAFETY: between fork and exec only calls that are allowed there: signals and properties
        // of our own process.
        unsafe {
            // A signal that nohup or a script's & ignores would stay ignored, and a shell cannot
            // trap it: a service could not be stopped.
            for signal in [
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGHUP,
                libc::SIGTERM,
                libc::SIGXFSZ,
            ] {
                libc::signal(signal, libc::SIG_DFL);
            }
            unblock_signals();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        Ok(())
    };
    // SAFETY: see above; nothing is allocated.
    unsafe { command.pre_exec(limit) };
    let child = command.spawn().map_err(|error| {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "no such program"
        } else {
            "it cannot be executed"
        };
        EngineError::new(format!("{}: {why}: {}", script.shown(), error)).coded(&COMMAND)
    })?;
    let streams = vec![stdout, stderr];
    Ok(Running { child, streams })
}

/// Runs a program to its end.
pub(super) fn run(script: &Script, around: &Surroundings) -> Result<Ended, EngineError> {
    start(script, around)?
        .wait(around.longest)
        .map_err(|error| {
            EngineError::new(format!("{}: cannot wait for it: {error}", script.shown()))
        })
}

impl Running {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Returns whether it still runs after this wait.
    pub(super) fn outlasts(&self, wait: Duration) -> bool {
        let ends = Instant::now() + wait;
        let Some(process) = self
            .pid()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return false;
        };
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            let time = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(
                &mut [PollFd::new(&process.as_fd(), PollFlags::IN)],
                Some(&time),
            ) {
                Ok(0) => return true,
                Ok(_) => return false,
                Err(_) if left.is_zero() => return true,
                Err(_) => {}
            }
        }
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end, and kills it after `longest`.
    pub(super) fn wait(self, longest: Duration) -> io::Result<Ended> {
        let late = self.outlasts(longest).then_some(longest);
        if late.is_some() {
            self.signal(Signal::KILL);
        }
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
        loop {
            // SAFETY: pointers to whole structures of ours; the process is our child, and only this
            // call waits for it.
            let waited = unsafe {
                libc::wait4(
                    self.child.id() as libc::pid_t,
                    &mut status,
                    0,
                    usage.as_mut_ptr(),
                )
            };
            if waited >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // SAFETY: the call has filled it, and zeros are a valid one.
        let usage = unsafe { usage.assume_init() };
        fn seconds(time: libc::timeval) -> f64 {
            time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
        }
        Ok(Ended {
            status: ExitStatus::from_raw(status),
            streams: self.streams,
            user_seconds: seconds(usage.ru_utime),
            system_seconds: seconds(usage.ru_stime),
            peak_memory: usage.ru_maxrss as u64 * 1024,
            late,
            ..Ended::default()
        })
    }
}

/// Bytes that are kept of the end of a stream, where a program prints its results.
const KEPT: usize = 4 << 20;

/// A stream that is read to its end by a thread of its own, so that the program never waits for its
/// reader.
#[derive(Debug)]
struct Reading {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Reading {
    /// Returns the reader of a new pipe, and the end that the program writes to.
    fn start() -> io::Result<(Reading, io::PipeWriter)> {
        let (mut stream, writer) = io::pipe()?;
        let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
        let keeping = Arc::clone(&kept);
        let reader = thread::Builder::new().spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            // A read error only makes a message incomplete.
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                let mut kept = keeping.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..read]);
                if kept.len() > 2 * KEPT {
                    let surplus = kept.len() - KEPT;
                    kept.drain(..surplus);
                }
            }
        })?;
        Ok((Reading { kept, reader }, writer))
    }

    /// Returns the output so far. A process that the program left behind may hold the other end for
    /// ever, so the wait is short.
    fn take(self) -> Vec<u8> {
        const PATIENCE: Duration = Duration::from_millis(200);
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the last lines of a text, in one line of at most `most` characters.
fn last_lines(text: &str, most: usize) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut length = 0;
    for line in text
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        length += line.chars().count() + 2;
        if length > most && !lines.is_empty() {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    let text = lines.join("; ");
    let surplus = text.chars().count().saturating_sub(most);
    text.chars().skip(surplus).collect()
}

/// A line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Script {
    /// For `sh -c`.
    Line(String),
    /// Without a shell.
    Words(Vec<String>),
}

impl Script {
    /// Returns the command as a person would type it.
    pub(super) fn shown(&self) -> String {
        match self {
            Script::Line(line) => line.clone(),
            Script::Words(words) => words.join(" "),
        }
    }

    /// Returns the seconds that the shell of a line takes if the line does nothing; `None` without
    /// a shell.
    pub(super) fn shell_start(&self, around: &Surroundings) -> Result<Option<f64>, EngineError> {
        if matches!(self, Script::Words(_)) {
            return Ok(None);
        }
        let started = Instant::now();
        run(&Script::Line(":".to_owned()), around)?;
        Ok(Some(started.elapsed().as_secs_f64()))
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Script::Line(line) => json!(line),
            Script::Words(words) => json!(words),
        }
    }

    /// Parses a command as a plan gives it.
    pub(super) fn from_value(value: &Value) -> Result<Script, String> {
        match value {
            Value::String(line) if !line.trim().is_empty() && !line.contains('\0') => {
                Ok(Script::Line(line.clone()))
            }
            Value::Array(words) if !words.is_empty() => {
                let words: Option<Vec<String>> = words
                    .iter()
                    .map(|word| word.as_str().map(str::to_owned))
                    .collect();
                let words = words.filter(|words| {
                    !words[0].is_empty() && !words.iter().any(|word| word.contains('\0'))
                });
                words
                    .map(Script::Words)
                    .ok_or_else(|| format!("{value} is not a list of words"))
            }
            other => Err(format!(
                "{other} is not a command: give a line for the shell, or a list of words"
            )),
        }
    }
}

/// A number that the command prints.
#[derive(Debug, Clone)]
pub(super) struct PrintedMetric {
    pub(super) name: String,
    pub(super) pattern: Pattern,
    pub(super) better: Better,
}

/// The place of a number in the output.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// The first group of the last match of a regular expression, in standard output or else in
    /// standard error.
    Expression(Regex),
    /// A place in JSON (RFC 6901), of the whole standard output or else of its last line.
    Pointer(String),
}

impl Pattern {
    pub(super) fn expression(text: &str) -> Result<Pattern, String> {
        let expression = regex::RegexBuilder::new(text)
            .multi_line(true)
            .size_limit(1 << 20)
            .build();
        let expression =
            expression.map_err(|error| format!("'{text}' is not a regular expression: {error}"))?;
        if expression.captures_len() < 2 {
            return Err(format!(
                "'{text}' has no group: put the number in parentheses, as in 'tps = ([0-9.]+)'"
            ));
        }
        Ok(Pattern::Expression(expression))
    }

    pub(super) fn pointer(text: &str) -> Result<Pattern, String> {
        match text.starts_with('/') {
            true => Ok(Pattern::Pointer(text.to_owned())),
            false => Err(format!(
                "'{text}' is not a JSON pointer: it begins with /, as in '/jobs/0/write/iops'"
            )),
        }
    }

    fn find(&self, ended: &Ended) -> Option<f64> {
        match self {
            Pattern::Expression(expression) => {
                [&ended.stdout, &ended.stderr]
                    .into_iter()
                    .find_map(|bytes| {
                        let text = String::from_utf8_lossy(bytes);
                        let last = expression.captures_iter(&text).last()?;
                        last.get(1)?.as_str().trim().replace(',', "").parse().ok()
                    })
            }
            Pattern::Pointer(pointer) => {
                let whole = serde_json::from_slice::<Value>(&ended.stdout).ok();
                let text = String::from_utf8_lossy(&ended.stdout);
                let found = whole.or_else(|| {
                    serde_json::from_str(text.lines().rev().find(|line| !line.trim().is_empty())?)
                        .ok()
                })?;
                match found.pointer(pointer)? {
                    Value::Number(number) => number.as_f64(),
                    Value::String(text) => text.trim().parse().ok(),
                    _ => None,
                }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Expression(expression) => write!(f, "'{expression}'"),
            Pattern::Pointer(pointer) => write!(f, "JSON with a number at '{pointer}'"),
        }
    }
}

impl PrintedMetric {
    pub(super) fn value(&self) -> Value {
        let better = if self.better == Better::Higher {
            "higher"
        } else {
            "lower"
        };
        let mut value = json!({ "name": self.name, "better": better });
        match &self.pattern {
            Pattern::Expression(expression) => value["pattern"] = expression.as_str().into(),
            Pattern::Pointer(pointer) => value["pointer"] = pointer.as_str().into(),
        }
        value
    }
}

/// Finds all metrics in the output of a command.
pub(super) fn find(
    metrics: &[PrintedMetric],
    ended: &Ended,
) -> Result<BTreeMap<String, f64>, EngineError> {
    let each = metrics
        .iter()
        .map(|metric| match metric.pattern.find(ended) {
            Some(value) if value.is_finite() && value > 0.0 => Ok((metric.name.clone(), value)),
            Some(value) => Err(EngineError::new(format!(
                "{}: {value} cannot be compared: it must be above 0",
                metric.name
            ))),
            None => {
                let said = ended.last_words();
                Err(EngineError::new(format!(
                    "{}: the output does not match {}; its last lines: {said}",
                    metric.name, metric.pattern
                )))
            }
        });
    each.collect()
}

// Processes of programs: ends those that programs leave behind, and counts the CPU time of
// services.

/// The longest wait for killed processes to end.
const GOING: Duration = Duration::from_secs(10);

/// A process, as in /proc/PID/stat.
struct Process {
    parent: u32,
    /// Clock ticks in user mode and in the kernel, including those of reaped children.
    ticks: [u64; 2],
}

/// Parses the fields after the name. The name may hold any bytes: the kernel cuts names in the
/// middle of a character.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[name_ends + 1..])
        .ok()?
        .split_whitespace()
        .collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Counted from the state, the third field: ppid is the fourth, utime to cstime are 14 to 17.
    let ticks = [number(11)? + number(13)?, number(12)? + number(14)?];
    Some(Process {
        parent: number(1)? as u32,
        ticks,
    })
}

fn all_processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// Returns `roots` and all their descendants.
fn descendants(roots: &[u32], processes: &BTreeMap<u32, Process>) -> Vec<u32> {
    let mut found: Vec<u32> = roots.to_vec();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        let children = processes
            .iter()
            .filter(|(pid, process)| process.parent == parent && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// Returns the CPU seconds of these processes and their descendants so far, in user mode and in the
/// kernel. Returns zeros if /proc belongs to another PID namespace, where the same numbers name
/// other processes.
pub(super) fn cpu_seconds(roots: &[u32]) -> [f64; 2] {
    if roots.is_empty() || !proc_is_ours() {
        return [0.0; 2];
    }
    let processes = all_processes();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let found = descendants(roots, &processes);
    let sum = |which: usize| {
        found
            .iter()
            .filter_map(|pid| processes.get(pid))
            .map(|process| process.ticks[which])
            .sum::<u64>() as f64
    };
    [sum(0) / per_second, sum(1) / per_second]
}

/// Shared memory of System V that this user had before any program ran.
static SHARED_BEFORE: OnceLock<BTreeSet<i32>> = OnceLock::new();

/// Returns the identifiers of this user's segments and their creators: the fields shmid, cpid and
/// uid of /proc/sysvipc/shm.
fn shared_memory() -> Vec<(i32, u32)> {
    let own = rustix::process::geteuid().as_raw();
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    text.lines()
        .filter_map(|line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
            (number(7)? == own).then_some((number(1)? as i32, number(4)?))
        })
        .collect()
}

/// Remembers the shared memory that does not belong to programs. Later calls have no effect.
fn remember_shared_memory() {
    SHARED_BEFORE.get_or_init(|| shared_memory().into_iter().map(|(id, _)| id).collect());
}

/// Removes the shared memory that programs left, which would take memory from the next trial. A
/// worker with its own IPC namespace sees only the segments of its programs. Segments of a living
/// process are kept.
fn remove_shared_memory() {
    let Some(before) = SHARED_BEFORE.get() else {
        return;
    };
    let left = shared_memory()
        .into_iter()
        .filter(|(id, _)| !before.contains(id));
    for (id, _) in left.filter(|(_, creator)| !Path::new(&format!("/proc/{creator}")).exists()) {
        // SAFETY: names a segment by its number; no memory of this process is concerned.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn proc_is_ours() -> bool {
    fs::read_link("/proc/self")
        .is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

/// Kills all descendants of this process that programs in that directory started, and reaps them.
///
/// As PID 1 of a PID namespace this process asks the kernel, which misses none, however they are
/// named and however fast they fork. Elsewhere it searches /proc. It stops processes before it
/// kills them, because a stopped one cannot fork.
pub(super) fn end_all(around: &Surroundings) {
    end_processes(&around.directory);
    if !around.here {
        remove_shared_memory();
    }
}

fn end_processes(directory: &Path) {
    let own = std::process::id();
    let ends = Instant::now() + GOING;
    if own == 1 {
        // kill(-1): everything in this PID namespace but this process. Where nothing else is left
        // it fails.
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
        while Instant::now() < ends {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
        return;
    }
    while Instant::now() < ends {
        let mut stopped: Vec<u32> = Vec::new();
        loop {
            let found: Vec<u32> = descendants(&[own], &all_processes())
                .into_iter()
                .filter(|pid| *pid != own && is_ours(*pid, directory))
                .collect();
            let new: Vec<u32> = found
                .into_iter()
                .filter(|pid| !stopped.contains(pid))
                .collect();
            if new.is_empty() || Instant::now() >= ends {
                break;
            }
            signal(&new, Signal::STOP);
            stopped.extend(new);
        }
        if stopped.is_empty() {
            return;
        }
        signal(&stopped, Signal::KILL);
        for pid in stopped.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            // The next iteration handles processes that are still dying, or whose parents have not
            // been reaped yet.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A worker has no children but these.
#[cfg(not(test))]
fn is_ours(_: u32, _: &Path) -> bool {
    true
}

/// Tests share a process with others that have children, too: those of a directory are known by
/// their environment.
#[cfg(test)]
fn is_ours(pid: u32, directory: &Path) -> bool {
    let variable = format!("FSB_TARGET={}\0", directory.display());
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    // One that is just being started, or has ended, has none.
    environment
        .windows(variable.len())
        .any(|part| part == variable.as_bytes())
}

fn signal(processes: &[u32], signal: Signal) {
    for pid in processes
        .iter()
        .filter_map(|pid| Pid::from_raw(*pid as i32))
    {
        // One that is gone by now needs none.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(stdout: &str, stderr: &str) -> Ended {
        Ended {
            stdout: stdout.into(),
            stderr: stderr.into(),
            ..Ended::default()
        }
    }

    #[test]
    fn the_last_match_counts_wherever_it_stands() {
        let tps = Pattern::expression(r"^tps = ([0-9.,]+)").unwrap();
        assert_eq!(
            tps.find(&printing("tps = 1\ntps = 1,234.5 (without)\n", "")),
            Some(1234.5)
        );
        assert_eq!(tps.find(&printing("nothing\n", "tps = 7\n")), Some(7.0));
        assert_eq!(tps.find(&printing("", "")), None);
        assert!(
            Pattern::expression("tps = [0-9]+")
                .unwrap_err()
                .contains("parentheses")
        );
        assert!(
            Pattern::expression("(")
                .unwrap_err()
                .contains("not a regular expression")
        );
    }

    #[test]
    fn json_is_the_whole_or_the_last_line() {
        let iops = Pattern::pointer("/jobs/0/iops").unwrap();
        assert_eq!(
            iops.find(&printing("{\"jobs\": [\n{\"iops\": 12.5}]}", "")),
            Some(12.5)
        );
        assert_eq!(
            iops.find(&printing("note\n{\"jobs\": [{\"iops\": \"3\"}]}\n\n", "")),
            Some(3.0)
        );
        assert_eq!(iops.find(&printing("{\"jobs\": []}", "")), None);
        assert!(Pattern::pointer("jobs").is_err());
    }

    #[test]
    fn printed_metrics_that_cannot_be_compared_are_reported() {
        let metric = |better| PrintedMetric {
            name: "tps".to_owned(),
            pattern: Pattern::expression("tps = ([-0-9.]+)").unwrap(),
            better,
        };
        let of = |text: &str| {
            find(&[metric(Better::Higher)], &printing(text, "")).map_err(|error| error.message)
        };
        assert_eq!(of("tps = 5").unwrap()["tps"], 5.0);
        assert!(of("tps = 0").unwrap_err().contains("above 0"));
        assert!(
            of("oops\n")
                .unwrap_err()
                .contains("the output does not match 'tps = ([-0-9.]+)'; its last lines: oops")
        );
    }

    #[test]
    fn names_may_hold_anything() {
        for name in [&b"a) b ( c"[..], b"", b"caf\xc3", b")\n(\xff"] {
            let stat = [
                b"7 (",
                name,
                b") S 3 7 7 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 1 0 5 6\n",
            ]
            .concat();
            let process = parse_stat(&stat).unwrap();
            assert_eq!((process.parent, process.ticks), (3, [57, 68]));
        }
        assert!(parse_stat(b"7 (x").is_none());
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |parent| Process {
            parent,
            ticks: [0; 2],
        };
        let tree = BTreeMap::from([
            (2, process(9)),
            (5, process(1)),
            (9, process(5)),
            (11, process(1)),
        ]);
        assert_eq!(descendants(&[5], &tree), [5, 9, 2]);
    }
}
