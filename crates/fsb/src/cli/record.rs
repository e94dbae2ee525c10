//! `fsb record`: the file calls of a program, into a trace.

use std::ffi::OsString;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use fsb_model::units::{show_count, show_seconds};
use fsb_record::{Method, Outcome, RecordError, Request, Subject};
use fsb_testbed::Caller;
use fsb_trace::Header;

use crate::stderr::say;
use crate::{author, code, exit};

const EXAMPLES: &str = "\
Examples:
  fsb record -o app.trace -- make -j2               a command
  fsb record -o db.trace --root /srv/db --pid 4711  a process, until Ctrl-C
  fsb record -o app.trace --anonymous -- ./app      without file names
  fsb run ext4 xfs --trace app.trace                replay, with think times";

/// How calls are seen.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    // eBPF if privileges and kernel allow it.
    Auto,
    // Stops the program at each call; needs no privileges.
    Ptrace,
    // Does not stop the program at reads, writes and syncs; needs root.
    Ebpf,
}

impl From<By> for Method {
    fn from(by: By) -> Method {
        match by {
            By::Auto => Method::Best,
            By::Ptrace => Method::Ptrace,
            By::Ebpf => Method::Ebpf,
        }
    }
}

/// Record a program's file calls, to replay them elsewhere
///
/// The trace holds the calls on files below --root, with names, sizes and holes, but without contents. 'fsb trace show'
/// summarizes it, and 'fsb run --trace' replays it on any target.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "fsb record -o FILE [OPTIONS] [-- COMMAND…]")]
pub struct Arguments {
    /// Trace file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Directory whose files are recorded [default: the working directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Record this running process and its children
    #[arg(long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Method: ebpf needs root, ptrace is slower, auto prefers ebpf
    #[arg(long, value_name = "HOW", value_enum, default_value_t = By::Auto, hide_possible_values = true)]
    by: By,
    /// Replace file names by meaningless ones
    #[arg(long)]
    anonymous: bool,
    /// Overwrite an existing trace
    #[arg(long)]
    overwrite: bool,
    /// Command to run and record
    #[arg(last = true, value_name = "COMMAND", hide_short_help = true)]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let subject = match arguments.pid {
        Some(pid) => Subject::Process(pid),
        None if arguments.command.is_empty() => {
            return Err(exit::failure(
                &code::MISSING,
                "say what is recorded: fsb record -o FILE -- COMMAND, or --pid PID",
            ));
        }
        None => Subject::Program(arguments.command.clone()),
    };
    let root = root(arguments)?;
    let (path, part) = (&arguments.output, part(&arguments.output));
    let is_there = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if is_there && !arguments.overwrite {
        let path = path.display();
        return Err(exit::failure(
            &code::OUTPUT_EXISTS,
            format!("{path} is there and would be lost: another -o FILE, or --overwrite"),
        ));
    }
    // What is there stays until there is something better.
    let made = if is_there { &part } else { path };
    let output = super::trace::output(made)?;
    let shown = |words: &[OsString]| words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let uname = rustix::system::uname();
    let header = Header {
        program: match &subject {
            _ if arguments.anonymous => String::new(),
            Subject::Program(words) => shown(words),
            Subject::Process(pid) => format!("process {pid}"),
        },
        root: if arguments.anonymous { String::new() } else { root.to_string_lossy().into_owned() },
        fsb: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        anonymous: arguments.anonymous,
        ..Header::default()
    };
    // strace and perf pass descriptors, too: `3<file` and `<(…)` work. Under sudo the program runs as another user than the
    // invoking one and gets none.
    let passes_descriptors = Caller::current().is_none();
    let request = Request { subject, root, method: arguments.by.into(), passes_descriptors };
    let outcome = match fsb_record::record(&request, header, BufWriter::new(output)) {
        // A program that did not begin has said why.
        Ok(outcome) if !outcome.begun => {
            forget(made)?;
            return Ok(exit::REQUEST);
        }
        Ok(outcome) => outcome,
        Err(error) => {
            forget(made)?;
            return Err(refused(arguments, error));
        }
    };
    if is_there {
        let failed = |error| {
            exit::failure(
                &code::OUTPUT_FAILED,
                format!("cannot rename {} to {}: {error}", made.display(), path.display()),
            )
        };
        author::looking(|| std::fs::rename(made, path))?.map_err(failed)?;
    }
    tell(arguments, &outcome);
    Ok(if outcome.code.is_some_and(|code| code != 0) { exit::TRIALS } else { exit::DONE })
}

/// Where a trace is made that takes another one's place when it is whole.
fn part(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Removes a trace of nothing; what is no file is none of ours.
fn forget(path: &Path) -> anyhow::Result<()> {
    let removed =
        author::looking(|| if std::fs::metadata(path)?.is_file() { std::fs::remove_file(path) } else { Ok(()) });
    removed?.map_err(|error| exit::failure(&code::OUTPUT_FAILED, format!("cannot remove {}: {error}", path.display())))
}

fn root(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let of_process = || arguments.pid.map(|pid| PathBuf::from(format!("/proc/{pid}/cwd")));
    let named = arguments.root.clone().or_else(of_process).unwrap_or_else(|| PathBuf::from("."));
    let real = std::fs::canonicalize(&named).map_err(|error| {
        let what = if arguments.root.is_some() { "--root" } else { "the working directory" };
        exit::failure(&code::UNREADABLE, format!("{what} {}: {error}", named.display()))
    })?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(exit::failure(&code::DIRECTORY, format!("--root {}: it is no directory", named.display())))
    }
}

fn refused(arguments: &Arguments, error: RecordError) -> anyhow::Error {
    match error {
        RecordError::Refused(error) => exit::failure(
            &code::NOT_RECORDED,
            match arguments.pid {
                Some(pid) => format!(
                    "process {pid} cannot be traced: {error}; it must be yours, and no other tracer's (with \
                 kernel.yama.ptrace_scope above 0 root alone may: sudo)"
                ),
                None => format!("the program cannot be traced: {error}"),
            },
        ),
        RecordError::NoEbpf(error) => exit::failure(
            &code::NOT_RECORDED,
            format!(
                "calls cannot be seen by eBPF: {error}; it needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8: --by ptrace"
            ),
        ),
        RecordError::Kept { .. } => exit::failure(&code::NOT_RECORDED, format!("{error}; nothing was run")),
        RecordError::Trace(error) => {
            exit::failure(&code::OUTPUT_FAILED, format!("{}: {error}", arguments.output.display()))
        }
    }
}

/// What was recorded, and what it cost.
fn tell(arguments: &Arguments, outcome: &Outcome) {
    let totals = &outcome.totals;
    let calls = totals.calls.max(1) as f64;
    say(&format!(
        "{}: {} calls of {} in {}, {} bytes a call; {} outside the root",
        arguments.output.display(),
        show_count(totals.calls as f64),
        if totals.tasks == 1 { "1 thread".to_owned() } else { format!("{} threads", totals.tasks) },
        show_seconds(outcome.seconds),
        (outcome.bytes as f64 / calls).round(),
        totals.outside
    ));
    let stop = (outcome.overhead.call_ns + outcome.overhead.gap_ns) as f64 / 2.0 * 1e-9;
    say(&format!(
        "recording stopped it {} times{}, {} each: about {} of its time (a replay leaves that out)",
        show_count(outcome.stops as f64),
        if outcome.by_ebpf { " and saw the rest by eBPF" } else { "" },
        show_seconds(stop),
        show_seconds(outcome.stops as f64 * stop)
    ));
    if let Some(code) = outcome.code.filter(|code| *code != 0) {
        say(&format!("the program ended with exit code {code}"));
    }
    super::trace::tell(totals);
    if totals.calls == 0 {
        say("no file below the root was used: is --root the right directory?");
    }
}
