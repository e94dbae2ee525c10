//! What stopping a call costs: the same calls on small files are made untraced and recorded, and both are timed.
//!
//! Calls that do nothing would tell too little: between two stops of a real program its data, ours and the kernel's take
//! turns in the same caches.

use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use fsb_trace::{Header, Overhead};

use crate::child;
use fsb_testbed::trace::Watch;

use crate::tracer::{RecordError, Tracer};

/// Rounds that are timed, some seven calls each.
const ROUNDS: usize = 300;
/// Where the two times are left, in the directory that the calls are about.
const TIMES: &str = "times";
/// Bytes that a round looks at between its calls.
const LOOKED_AT: usize = 128 << 10;

/// Nanoseconds that recording adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// To a call that stops, and to the time between two: half of it each, for it stops where it begins and where it ends.
    pub(crate) stop: Overhead,
    /// To the time around a call that the kernel writes down.
    pub(crate) event_ns: u64,
}

/// What recording adds here, with that watch where there is one.
pub(crate) fn measure(watch: &mut Option<Watch>) -> Result<Cost, RecordError> {
    let (more_ns, stops, _) = recorded(&mut None)?;
    let each = more_ns / stops.max(1);
    let mut cost = Cost { stop: Overhead { call_ns: each, gap_ns: each }, event_ns: 0 };
    if watch.is_some() {
        let (more_ns, stops, events) = recorded(watch)?;
        cost.event_ns = more_ns.saturating_sub(stops * each) / events.max(1);
    }
    Ok(cost)
}

/// Nanoseconds that the calls took longer than alone without what was spent on them here; stops, and calls that did not stop.
fn recorded(watch: &mut Option<Watch>) -> Result<(u64, u64, u64), RecordError> {
    let directory = tempfile::Builder::new().prefix("fsb-record-").tempdir().map_err(RecordError::Refused)?;
    let root = fs::canonicalize(directory.path()).map_err(RecordError::Refused)?;
    let mut child = child::start_measured(&root, watch.is_none()).map_err(RecordError::Refused)?;
    let mut tracer = Tracer::new(&root, &Header::default(), io::sink(), Cost::default(), watch.take())?;
    tracer.take(&child).map_err(RecordError::Refused)?;
    tracer.follow()?;
    // The tracer has reaped it.
    let _ = child.try_wait();
    let text = fs::read_to_string(root.join(TIMES)).unwrap_or_default();
    let times: Vec<u64> = text.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let [alone, traced] = times[..] else {
        return Err(RecordError::Refused(io::Error::other("what stopping costs could not be measured")));
    };
    let counts = tracer.counts();
    *watch = tracer.into_watch();
    Ok((traced.saturating_sub(alone).saturating_sub(counts.spent_ns), counts.stops, counts.events))
}

/// The child's part: `watched` lets the parent begin to trace.
pub(crate) fn be_measured(directory: &Path, watched: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    rounds(directory)?;
    let alone = rounds(directory)?;
    watched()?;
    let traced = rounds(directory)?;
    fs::write(directory.join(TIMES), format!("{alone} {traced}"))
}

/// Nanoseconds.
fn rounds(directory: &Path) -> io::Result<u64> {
    let path = directory.join("file");
    let (mut buffer, data) = ([0; 512], vec![1u8; LOOKED_AT]);
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.write_all_at(&buffer, 0)?;
        file.write_all_at(&buffer, 4096)?;
        file.read_exact_at(&mut buffer, 512)?;
        file.metadata()?;
        drop(file);
        fs::metadata(&path)?;
        black_box(data.iter().step_by(64).fold(round, |sum, byte| sum.wrapping_add(usize::from(*byte))));
    }
    Ok(begun.elapsed().as_nanos() as u64)
}
