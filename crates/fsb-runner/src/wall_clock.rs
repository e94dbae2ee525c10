//! Wall-clock time for records.

use std::sync::OnceLock;
use std::time::Instant;

use jiff::Timestamp;

static FIRST: OnceLock<(Timestamp, Instant)> = OnceLock::new();

/// Returns the current time for records. It is the wall clock at the first call plus the time of
/// the monotonic clock since then, so that differences within a run are correct even if the wall
/// clock is set meanwhile.
pub fn now() -> Timestamp {
    let (stamp, counted_from) = FIRST.get_or_init(|| (Timestamp::now(), Instant::now()));
    // Years beyond 9999 cannot be written down.
    stamp.checked_add(counted_from.elapsed()).unwrap_or(*stamp)
}

/// Starts the clock of records at `earliest` if the wall clock was set back since then. Has no
/// effect after the first call of [`now`]. A resumed run passes the last time in its record, so
/// that times in it never go backwards.
pub fn start_no_earlier_than(earliest: Timestamp) {
    FIRST.get_or_init(|| (Timestamp::now().max(earliest), Instant::now()));
}
