//! The operations of PostMark as this crate reproduces them.

use fsb_compat::postmark::print::PostmarkOutcome;
use fsb_compat::postmark::{Settings, pool, source};

/// Returns the report of a run with invented times; `None` if the pool ran empty.
pub fn ours(settings: &Settings) -> Option<PostmarkOutcome> {
    let mut pool = pool(settings, source(settings).1);
    (0..settings.shape.number).for_each(|_| _ = pool.create());
    for _ in 0..settings.shape.transactions {
        if pool.is_exhausted() {
            return None;
        }
        pool.use_one();
        pool.exchange();
    }
    let before = pool.tally().deleted;
    while pool.remove_next().is_some() {}
    let tally = *pool.tally();
    let deleted_alone = tally.deleted - before;
    Some(PostmarkOutcome {
        tally,
        deleted_alone,
        total: 1.0,
        creation: 1.0,
        transactions: 1.0,
        deletion: 1.0,
    })
}
