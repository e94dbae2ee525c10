//! What stopping a call costs: the same calls on small files are made untraced and recorded, and both are timed.
//!
//! Calls that do nothing would tell too little: between two stops of a real program its data, ours and the kernel's take
//! turns in the same caches.

use std::{fs, io};

use fsb_testbed::trace::Watch;
use fsb_trace::{Header, Overhead};

use crate::cost::Cost;
use crate::tracer::{RecordError, Tracer};
use crate::{child, rounds};

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
    let text = fs::read_to_string(root.join(rounds::TIMES)).unwrap_or_default();
    let times: Vec<u64> = text.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let [alone, traced] = times[..] else {
        return Err(RecordError::Refused(io::Error::other("what stopping costs could not be measured")));
    };
    let counts = tracer.counts();
    *watch = tracer.into_watch();
    Ok((traced.saturating_sub(alone).saturating_sub(counts.spent_ns), counts.stops, counts.events))
}
