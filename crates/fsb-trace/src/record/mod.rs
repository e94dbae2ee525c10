//! Records the file calls of a program, or of one that runs already.
//!
//! A program that is started here stops only at file calls, by a seccomp filter, and otherwise runs
//! at its own speed. A program that already runs stops at every call. The recorder can examine the
//! files while the program is stopped at the beginning of a call, so it records the state that the
//! call will find. With the rights for eBPF, calls that only read, write or sync open files do not
//! stop either: the kernel records them.

#![expect(
    clippy::disallowed_methods,
    reason = "the recorder examines the files of the recorded program"
)]

mod child;
mod inspect;
mod syscalls;
mod tracer;

pub use child::{CHILD_ARGUMENT, child_main, program_of};
pub use tracer::{RecordError, RecordOutcome};

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::{Header, Overhead};
use fsb_sys::sandbox;
use fsb_sys::trace::{self, Watch};

use child::Took;
use tracer::{Cost, Counts, Tracer};

#[derive(Debug, Clone)]
pub enum Subject {
    /// A program, with its arguments.
    Program(Vec<OsString>),
    /// A process that runs already, with all that it has made.
    Process(i32),
}

/// The method that observes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By eBPF where that is possible, else by ptrace.
    Best,
    /// Each call stops.
    Ptrace,
    /// Calls that only read, write or sync open files do not stop; the kernel records them. The
    /// others stop, because the recorder examines files before they are used.
    Ebpf,
}

/// The subject and the settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordRequest {
    pub subject: Subject,
    /// Only files below this directory are recorded; a real path.
    pub root: PathBuf,
    pub method: Method,
    /// The program gets the descriptors above 2 that this process was started with.
    pub passes_descriptors: bool,
}

/// Records into a trace that begins with `header`. Stops are cheaper and vary less if the calling
/// code keeps idle processors from falling asleep.
///
/// # Errors
/// Fails if the program cannot be traced, or the trace cannot be written.
pub fn record<W: Write>(
    request: &RecordRequest,
    mut header: Header,
    out: W,
) -> Result<RecordOutcome, RecordError> {
    if matches!(request.subject, Subject::Program(_)) {
        keep_to_ourselves(request)?;
    }
    let (cost, watch) = measure(|| watch(request))?;
    let by_ebpf = watch.is_some();
    header.by = if by_ebpf { "ebpf and ptrace" } else { "ptrace" }.to_owned();
    // If not all calls stop, the tracer subtracts the cost of a stop from each call that stops.
    header.overhead = if by_ebpf {
        Overhead::default()
    } else {
        cost.stop
    };
    let mut tracer = Tracer::new(&request.root, &header, out, cost, watch)?;
    trace::catch_ends();
    match &request.subject {
        Subject::Program(words) => tracer.launch(words).map_err(RecordError::Refused)?,
        Subject::Process(process) => tracer.attach(*process)?,
    }
    tracer.follow()?;
    tracer.finish()
}

/// Drops resources that the program must not inherit. The recorder drops them as well, because the
/// program may trace a recorder of its own user.
fn keep_to_ourselves(request: &RecordRequest) -> Result<(), RecordError> {
    trace::leave_keyring_of_others().map_err(move |source| RecordError::Kept {
        what: "another user's session keyring",
        source,
    })?;
    if !request.passes_descriptors {
        sandbox::close_on_exec();
    }
    Ok(())
}

/// The maximum number of milliseconds until the tracer takes the events that the kernel recorded.
const LOOK_EVERY_MS: u32 = 5;

/// Opens a watch if the method needs one, and starts the timer after which its events are taken.
fn watch(request: &RecordRequest) -> Result<Option<Watch>, RecordError> {
    let watch = open(request)?;
    if watch.is_some() {
        trace::tick_every(LOOK_EVERY_MS);
    }
    Ok(watch)
}

fn open(request: &RecordRequest) -> Result<Option<Watch>, RecordError> {
    let process = matches!(request.subject, Subject::Process(_));
    match request.method {
        // The recorder cannot choose which calls of a running process stop.
        Method::Ebpf if process => Err(RecordError::NoEbpf(io::Error::other(
            "eBPF cannot attach to a running process",
        ))),
        Method::Ebpf => Watch::open(&syscalls::numbers_to_watch())
            .map(Some)
            .map_err(RecordError::NoEbpf),
        Method::Best if !process => Ok(Watch::open(&syscalls::numbers_to_watch()).ok()),
        Method::Best | Method::Ptrace => Ok(None),
    }
}

/// Measures the cost of recording on this machine. Returns it with the watch of `open`, if that
/// gives one. The watch is opened after the calls were timed alone, because it slows down all calls
/// of the machine.
///
/// The same calls on small files are made untraced and recorded, and both are timed. Calls that do
/// nothing would show too little: between two stops of a real program its data, ours and the
/// kernel's alternate in the same caches.
fn measure(
    open: impl FnOnce() -> Result<Option<Watch>, RecordError>,
) -> Result<(Cost, Option<Watch>), RecordError> {
    let ([alone, stopped], counts, _) = recorded(None)?;
    let more_ns = stopped
        .rounds_ns
        .saturating_sub(alone.rounds_ns)
        .saturating_sub(counts.spent_ns);
    let each = more_ns / counts.stops.max(1);
    let mut cost = Cost {
        stop: Overhead {
            call_ns: each,
            gap_ns: each,
        },
        event_ns: 0,
    };
    let Some(watch) = open()? else {
        return Ok((cost, None));
    };
    let ([_, seen], _, watch) = recorded(Some(watch))?;
    cost.event_ns = seen.read_ns.saturating_sub(alone.read_ns);
    Ok((cost, watch))
}

/// Returns the times of a child's calls alone and recorded, and the counts of the tracer meanwhile.
fn recorded(watch: Option<Watch>) -> Result<([Took; 2], Counts, Option<Watch>), RecordError> {
    let directory = tempfile::Builder::new()
        .prefix("fsb-record-")
        .tempdir()
        .map_err(RecordError::Refused)?;
    let root = fs::canonicalize(directory.path()).map_err(RecordError::Refused)?;
    let mut child = child::start_measured(&root, watch.is_none()).map_err(RecordError::Refused)?;
    let mut tracer = Tracer::new(
        &root,
        &Header::default(),
        io::sink(),
        Cost::default(),
        watch,
    )?;
    tracer.take(&child).map_err(RecordError::Refused)?;
    tracer.follow()?;
    // The tracer has reaped it.
    let _ = child.try_wait();
    let took = child::took(&root);
    let took = took.ok_or_else(|| {
        RecordError::Refused(io::Error::other(
            "what recording costs could not be measured",
        ))
    })?;
    Ok((took, tracer.counts(), tracer.into_watch()))
}
