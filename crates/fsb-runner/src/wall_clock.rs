//! Wall-clock time for records.

use std::sync::OnceLock;
use std::time::Instant;

use jiff::Timestamp;

/// The time now, for records. It is the wall clock at the first call plus what the monotonic clock has counted since, so
/// that differences within a run are true even if the wall clock is set meanwhile.
pub fn now() -> Timestamp {
    static FIRST: OnceLock<(Timestamp, Instant)> = OnceLock::new();
    let (stamp, counted_from) = FIRST.get_or_init(|| (Timestamp::now(), Instant::now()));
    // Years beyond 9999 cannot be written down.
    stamp.checked_add(counted_from.elapsed()).unwrap_or(*stamp)
}
