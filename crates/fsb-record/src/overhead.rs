//! What stopping a call costs: the same calls on small files are made untraced and recorded, and both are timed.
//!
//! Calls that do nothing would tell too little: between two stops of a real program its data, ours and the kernel's take
//! turns in the same caches.

use std::{fs, io};

use fsb_testbed::trace::Watch;
use fsb_trace::{Header, Overhead};

use crate::cost::Cost;
use crate::rounds::Took;
use crate::tracer::{Counts, RecordError, Tracer};
use crate::{child, rounds};

/// What recording adds here, and the watch that it is done with where `open` gives one. It is opened after calls were timed
/// alone, for it costs all calls of the machine something.
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
