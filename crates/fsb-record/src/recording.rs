//! A recording from its request to its end.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::{fs, io};

use fsb_sys::trace::Watch;
use fsb_sys::{sandbox, trace};
use fsb_trace::{Header, Overhead};

use crate::cost::Cost;
use crate::rounds::Took;
use crate::tracer::{Counts, Outcome, RecordError, Tracer};
use crate::{child, rounds, syscalls};

#[derive(Debug, Clone)]
pub enum Subject {
    /// A program, with its arguments.
    Program(Vec<OsString>),
    /// A process that runs already, with all that it has made.
    Process(i32),
}

/// How calls are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By eBPF where that is possible, else by ptrace.
    Best,
    /// Each stops.
    Ptrace,
    /// Those that only read, write or sync what is open do not stop; the kernel writes them down. The others stop, for
    /// what files were before is looked at before they are used.
    Ebpf,
}

/// What is recorded, and where.
#[derive(Debug, Clone)]
pub struct Request {
    pub subject: Subject,
    /// Only what lies below this directory; a real path.
    pub root: PathBuf,
    pub method: Method,
    /// The program gets the descriptors above 2 that this process was started with.
    pub passes_descriptors: bool,
}

/// Records into a trace that begins with that header. Stops are cheaper, and alike, if the caller keeps processors that wait
/// from falling asleep.
///
/// # Errors
/// The program cannot be traced, or the trace cannot be written.
pub fn record<W: Write>(request: &Request, mut header: Header, out: W) -> Result<Outcome, RecordError> {
    if matches!(request.subject, Subject::Program(_)) {
        keep_to_ourselves(request)?;
    }
    let (cost, watch) = measure(|| watch(request))?;
    let by_ebpf = watch.is_some();
    header.by = if by_ebpf { "ebpf and ptrace" } else { "ptrace" }.to_owned();
    // Where not all calls stop, what stopping costs is taken off those that do at once.
    header.overhead = if by_ebpf { Overhead::default() } else { cost.stop };
    let mut tracer = Tracer::new(&request.root, &header, out, cost, watch)?;
    trace::catch_ends();
    match &request.subject {
        Subject::Program(words) => tracer.launch(words).map_err(RecordError::Refused)?,
        Subject::Process(process) => tracer.attach(*process)?,
    }
    tracer.follow()?;
    tracer.finish()
}

/// Drops what the program must not inherit. The recorder drops it as well, because the program may trace a recorder of its own
/// user.
fn keep_to_ourselves(request: &Request) -> Result<(), RecordError> {
    let kept = |what| move |source| RecordError::Kept { what, source };
    trace::leave_keyring_of_others().map_err(kept("another user's session keyring"))?;
    if !request.passes_descriptors {
        sandbox::close_on_exec();
    }
    Ok(())
}

/// Milliseconds after which what the kernel wrote down is taken out at the latest.
const LOOK_EVERY_MS: u32 = 5;

/// Opens a watch where calls are to be seen by it, and begins to look what came.
fn watch(request: &Request) -> Result<Option<Watch>, RecordError> {
    let watch = open(request)?;
    if watch.is_some() {
        trace::tick_every(LOOK_EVERY_MS);
    }
    Ok(watch)
}

fn open(request: &Request) -> Result<Option<Watch>, RecordError> {
    let process = matches!(request.subject, Subject::Process(_));
    match request.method {
        // Nothing can be said to a process that runs already about which of its calls stop.
        Method::Ebpf if process => {
            Err(RecordError::NoEbpf(io::Error::other("eBPF cannot attach to a running process")))
        }
        Method::Ebpf => Watch::open(&syscalls::numbers_to_watch()).map(Some).map_err(RecordError::NoEbpf),
        Method::Best if !process => Ok(Watch::open(&syscalls::numbers_to_watch()).ok()),
        Method::Best | Method::Ptrace => Ok(None),
    }
}

/// Measures the cost of recording on this machine. Returns it with the watch of `open`, if that gives one. It is opened after calls were timed
/// alone, for it costs all calls of the machine something.
///
/// The same calls on small files are made untraced and recorded, and both are timed. Calls that do nothing would tell too
/// little: between two stops of a real program its data, ours and the kernel's take turns in the same caches.
pub(crate) fn measure(
    open: impl FnOnce() -> Result<Option<Watch>, RecordError>,
) -> Result<(Cost, Option<Watch>), RecordError> {
    let ([alone, stopped], counts, _) = recorded(None)?;
    let more_ns = stopped.rounds_ns.saturating_sub(alone.rounds_ns).saturating_sub(counts.spent_ns);
    let each = more_ns / counts.stops.max(1);
    let mut cost = Cost { stop: Overhead { call_ns: each, gap_ns: each }, event_ns: 0 };
    let Some(watch) = open()? else { return Ok((cost, None)) };
    let ([_, seen], _, watch) = recorded(Some(watch))?;
    cost.event_ns = seen.read_ns.saturating_sub(alone.read_ns);
    Ok((cost, watch))
}

/// A child's calls alone and recorded, and what the tracer counted meanwhile.
fn recorded(watch: Option<Watch>) -> Result<([Took; 2], Counts, Option<Watch>), RecordError> {
    let directory = tempfile::Builder::new().prefix("fsb-record-").tempdir().map_err(RecordError::Refused)?;
    let root = fs::canonicalize(directory.path()).map_err(RecordError::Refused)?;
    let mut child = child::start_measured(&root, watch.is_none()).map_err(RecordError::Refused)?;
    let mut tracer = Tracer::new(&root, &Header::default(), io::sink(), Cost::default(), watch)?;
    tracer.take(&child).map_err(RecordError::Refused)?;
    tracer.follow()?;
    // The tracer has reaped it.
    let _ = child.try_wait();
    let took = rounds::took(&root);
    let took =
        took.ok_or_else(|| RecordError::Refused(io::Error::other("what recording costs could not be measured")))?;
    Ok((took, tracer.counts(), tracer.into_watch()))
}
