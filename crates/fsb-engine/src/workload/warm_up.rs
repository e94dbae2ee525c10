//! `cache-warm-up`: random reads of files that are not in memory, until the page cache holds them.
//!
//! The records are drawn with replacement, so that a read finds its record in memory with the share of the records that
//! were drawn before. After b bytes of a set of size S this share is 1 − exp(−b/S). The time of a byte falls from that
//! of the device to that of memory with the same exponential, from which the report estimates the time constant.

use fsb_model::{Access, CacheState};

use super::records::RecordWorkload;

/// Reads for each record of the set. A share of exp(−5), 0.7 %, of the records is then still unread.
const READS: u64 = 5;

/// The member of the registry. The backend must use the page cache.
pub(super) static CACHE_WARM_UP: RecordWorkload = RecordWorkload {
    name: "cache-warm-up",
    operation: "warm_up_read",
    about: "read records that are drawn at random from cold files, five reads for each record, until memory holds them",
    access: &[Access::Random],
    cache: Some(&[CacheState::Cold]),
    draws: Some(READS),
    backends: &["psync"],
    ..RecordWorkload::BASE
};
