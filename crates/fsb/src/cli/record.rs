//! `fsb record`: records the file calls of a program into a trace.

use std::ffi::OsString;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use fsb_model::units::{show_bytes, show_seconds, show_whole};
use fsb_model::{code, failure, notice};
use fsb_store::owner;
use fsb_sys::InvokingUser;
use fsb_trace::Header;
use fsb_trace::record::{Method, RecordError, RecordOutcome, RecordRequest, Subject};

use crate::exit;
use crate::message::{notify, say};

const EXAMPLES: &str = "\
Examples:
  fsb record -- make -j2                            a command, into make.trace
  fsb record -o db.trace --root /srv/db --pid 4711  a process, until Ctrl-C
  fsb record -o app.trace --anonymous -- ./app      without file names
  fsb run ext4 xfs --trace app.trace                replay, with think times";

/// The method that observes calls.
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
/// The trace holds the calls on files below --root, with names, sizes and holes, but without
/// contents. 'fsb trace show' summarizes it, and 'fsb run --trace' replays it on any target.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "fsb record [OPTIONS] [-- COMMAND…]")]
pub struct Arguments {
    /// Trace file to write [default: the command's name or process-PID, with .trace]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
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
            return Err(failure::advised(
                &code::MISSING,
                "no program to record",
                "write fsb record -- COMMAND, or fsb record --pid PID",
            ));
        }
        None => Subject::Program(arguments.command.clone()),
    };
    let root = root(arguments)?;
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| default_output(&subject));
    let (path, part) = (&output, part(&output));
    let is_there = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if is_there && !arguments.overwrite {
        let path = path.display();
        return Err(failure::advised(
            &code::OUTPUT_EXISTS,
            format!("{path} exists"),
            "name another file with -o, or replace it with --overwrite",
        ));
    }
    // An existing trace stays until the new one is complete.
    let made = if is_there { &part } else { path };
    let file = super::trace::output(made)?;
    let uname = rustix::system::uname();
    let header = Header {
        program: match &subject {
            _ if arguments.anonymous => String::new(),
            Subject::Program(words) => shown(words),
            Subject::Process(pid) => format!("process {pid}"),
        },
        root: if arguments.anonymous {
            String::new()
        } else {
            root.to_string_lossy().into_owned()
        },
        fsb: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        time: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
        anonymous: arguments.anonymous,
        ..Header::default()
    };
    // The program inherits descriptors, as under strace and perf: `3<file` and `<(…)` work. Under
    // sudo it runs as another user than the invoking one and inherits none.
    let passes_descriptors = InvokingUser::current().is_none();
    let request = RecordRequest {
        subject,
        root: root.clone(),
        method: arguments.by.into(),
        passes_descriptors,
    };
    let _awake = fsb_testbed::control::stay_awake();
    let outcome = match fsb_trace::record::record(&request, header, BufWriter::new(file)) {
        // A program that did not start has printed the reason.
        Ok(outcome) if !outcome.begun => {
            forget(made)?;
            return Ok(exit::REQUEST);
        }
        // Calls that the recorder missed may have used files below the root. The trace is then
        // marked as incomplete.
        Ok(RecordOutcome {
            is_root_used: false,
            used_outside: Some(used),
            totals,
            ..
        }) if totals.incomplete.is_empty() => {
            forget(made)?;
            return Err(nothing_inside(arguments, &root, &used));
        }
        Ok(outcome) => outcome,
        Err(error) => {
            forget(made)?;
            return Err(refused(arguments, path, error));
        }
    };
    if is_there {
        let failed = |error| {
            failure::failed_call(
                &code::OUTPUT_FAILED,
                &error,
                format!(
                    "cannot rename {} to {}: {error}",
                    made.display(),
                    path.display()
                ),
            )
        };
        owner::looking(|| std::fs::rename(made, path))?.map_err(failed)?;
    }
    print(path, &outcome);
    Ok(if outcome.code.is_some_and(|code| code != 0) {
        exit::TRIALS
    } else {
        exit::DONE
    })
}

/// Returns `make.trace` for a command, `process-4711.trace` for a process.
fn default_output(subject: &Subject) -> PathBuf {
    let name = match subject {
        Subject::Program(words) => words
            .first()
            .map(Path::new)
            .and_then(Path::file_name)
            .unwrap_or_default()
            .to_owned(),
        Subject::Process(pid) => format!("process-{pid}").into(),
    };
    Path::new(&name).with_added_extension("trace")
}

/// Returns the error for a program that used no file below the root, with the directory that it did
/// use.
fn nothing_inside(arguments: &Arguments, root: &Path, used: &Path) -> anyhow::Error {
    let output: String = arguments
        .output
        .iter()
        .map(|output| format!(" -o {}", output.display()))
        .collect();
    let subject = match arguments.pid {
        Some(pid) => format!("--pid {pid}"),
        None => format!("-- {}", shown(&arguments.command)),
    };
    let message = format!(
        "nothing to replay: the program used no file below {}, but files in {1}; record that directory: fsb record --root \
         {1}{output} {subject}",
        root.display(),
        used.display()
    );
    let fields = [
        ("root", root.to_string_lossy().into()),
        ("directory", used.to_string_lossy().into()),
    ];
    failure::about(&code::NOT_RECORDED, fields, message)
}

fn shown(words: &[OsString]) -> String {
    words
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the path of the new trace while it is incomplete and an existing trace is to be
/// replaced.
fn part(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Removes an empty trace, but only if it is a regular file.
fn forget(path: &Path) -> anyhow::Result<()> {
    let removed = owner::looking(|| {
        if std::fs::metadata(path)?.is_file() {
            std::fs::remove_file(path)
        } else {
            Ok(())
        }
    });
    removed?.map_err(|error| {
        failure::failed_call(
            &code::OUTPUT_FAILED,
            &error,
            format!("cannot remove {}: {error}", path.display()),
        )
    })
}

fn root(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let of_process = || {
        arguments
            .pid
            .map(|pid| PathBuf::from(format!("/proc/{pid}/cwd")))
    };
    let named = arguments
        .root
        .clone()
        .or_else(of_process)
        .unwrap_or_else(|| PathBuf::from("."));
    let real =
        std::fs::canonicalize(&named).map_err(|error| match (&arguments.root, arguments.pid) {
            (None, Some(pid)) if error.kind() == std::io::ErrorKind::NotFound => failure::advised(
                &code::UNREADABLE,
                format!("no process {pid}"),
                "find its number with pgrep NAME",
            ),
            (None, _) => failure::failed_call(
                &code::UNREADABLE,
                &error,
                format!("the working directory {}: {error}", named.display()),
            ),
            (Some(_), _) => failure::advised_call(
                &code::UNREADABLE,
                &error,
                format!("--root {}: {error}", named.display()),
                "name the directory whose files the program uses",
            ),
        })?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(failure::advised(
            &code::DIRECTORY,
            format!("--root {} is not a directory", named.display()),
            "name the directory whose files the program uses",
        ))
    }
}

fn refused(arguments: &Arguments, output: &Path, error: RecordError) -> anyhow::Error {
    match error {
        RecordError::Refused(error) => failure::failed_call(
            &code::NOT_RECORDED,
            &error,
            match arguments.pid {
                Some(pid) => format!(
                    "process {pid} cannot be traced: {error}; trace a process of your own that no other tracer holds \
                     (root may trace any: sudo)"
                ),
                None => format!("the program cannot be traced: {error}"),
            },
        ),
        RecordError::NoEbpf(error) => failure::advised_call(
            &code::NO_EBPF,
            &error,
            format!("eBPF cannot record the calls: {error}"),
            "eBPF needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8: use --by ptrace",
        ),
        RecordError::Kept { ref source, .. } => failure::failed_call(
            &code::NOT_RECORDED,
            source,
            format!("{error}; the program did not start"),
        ),
        RecordError::Trace(error) => super::trace::unwritten(output, &error),
    }
}

/// Prints the counts and the cost of the recording. The calls are those that a replay makes, as
/// `fsb trace show` counts them.
fn print(output: &Path, outcome: &RecordOutcome) {
    let totals = &outcome.totals;
    let calls = |count: u64| {
        if count == 1 {
            "1 call".to_owned()
        } else {
            format!("{} calls", show_whole(count))
        }
    };
    let fields = [
        ("path", output.to_string_lossy().into()),
        ("calls", totals.replayed.into()),
        ("threads", totals.tasks.into()),
        ("outside", totals.outside.into()),
        ("ebpf", outcome.by_ebpf.into()),
    ];
    let text = format!(
        "{}: {} of {} in {}, {}; {} outside the root left out",
        output.display(),
        calls(totals.replayed),
        if totals.tasks == 1 {
            "1 thread".to_owned()
        } else {
            format!("{} threads", totals.tasks)
        },
        show_seconds(outcome.seconds),
        show_bytes(outcome.bytes as f64),
        calls(totals.outside)
    );
    notify(&notice::RECORDED, fields, &text);
    let stop = (outcome.overhead.call_ns + outcome.overhead.gap_ns) as f64 / 2.0 * 1e-9;
    say(&format!(
        "recording stopped the program {} times{}, {} each: about {} in all, which a replay leaves out",
        show_whole(outcome.stops),
        if outcome.by_ebpf {
            " and saw the rest by eBPF"
        } else {
            ""
        },
        show_seconds(stop),
        show_seconds(outcome.stops as f64 * stop)
    ));
    if let Some(code) = outcome.code.filter(|code| *code != 0) {
        say(&format!("the program ended with exit code {code}"));
    }
    super::trace::tell(totals);
    if !outcome.is_root_used {
        say("note: the program used no file below the root");
    }
}
