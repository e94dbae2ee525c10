//! Estimates, comparisons and verdicts.
//!
//! Pure functions of numbers: no paths, no printing, no clock. Everything works on the logarithms of trial values,
//! because what file systems do to each other is multiply: a tenth slower at one size is a tenth slower at another.
//!
//! * [`Estimate`]: one cell. [`describe`] and [`t_interval`] do the same on the plain scale.
//! * [`Comparison`]: one cell against another, paired by block, or by Welch's method on runs.
//! * [`Ranking`]: all targets of a row, with simultaneous intervals, letters and an outcome that follow from them;
//!   [`Resolution`]: what it says where nobody wins; [`hold_over_page`]: all rows together.
//! * [`Between`], [`Power`], [`Unjudged`]: comparisons between runs, of which one mean each is a value.
//! * [`RowState`]: whether a row needs more blocks, at a planned interim analysis.
//! * [`scatter`] and [`stationarity`]: what the rounds within blocks tell.
//! * [`knee`]: the level of a curve over threads or requests under way beyond which no gain is shown.
//! * [`overall`]: one ratio over many workloads.
//! * [`blocks_to_scale`]: how much more work would narrow an interval.
//!
//! No function returns NaN or infinity: what has no value is `None`, what is no measurement is an [`AnalysisError`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod block_value;
pub mod compare;
mod comparison;
mod description;
mod difference;
mod distribution;
mod error;
mod estimate;
pub mod histogram;
mod interval;
mod knee;
mod letters;
mod matrix;
mod model;
mod overall;
mod page;
mod planning;
mod prior;
pub mod race;
mod ranking;
mod resolution;
mod rounds;
mod row_state;
mod runs;
mod sample;
mod sequential;
mod two_samples;
mod verdict;

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

pub use block_value::{BlockValue, Method};
pub use comparison::Comparison;
pub use description::{Description, describe, quantile, ratio_of_means, t_interval};
pub use error::AnalysisError;
pub use estimate::{Estimate, NOISY, Noise, UNRELIABLE};
pub use estimate::{Trend, trend};
pub use interval::Interval;
pub use knee::{Knee, knee};
pub use overall::{Weighted, geometric_mean, overall};
pub use page::{Correlation, hold_groups_over_page, hold_over_page};
pub use planning::blocks_to_scale;
pub use ranking::{Outcome, Pair, Ranking};
pub use resolution::Resolution;
pub use rounds::{NotStationary, RoundLogs, Scatter, scatter, stationarity};
pub use row_state::RowState;
pub use runs::{Between, BetweenSource, Power, Unjudged};
pub use two_samples::{paired, welch};
pub use verdict::Verdict;

/// Does work whose parallel iterators use one thread a processor, or this thread alone where no other can be made: rayon's own
/// pool panics there.
pub fn in_parallel<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    match POOL.get_or_init(|| pool_or_this_thread(ThreadPoolBuilder::new().build())) {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn pool_or_this_thread(pool: Result<ThreadPool, ThreadPoolBuildError>) -> Option<ThreadPool> {
    pool.or_else(|_| ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()).ok()
}

/// The confidence level of everything that is judged.
pub const LEVEL: f64 = 0.95;

/// Fewer blocks of one run than this are described, not judged.
pub const FEWEST_JUDGED: usize = fsb_model::plan::FEWEST_BLOCKS_JUDGED as usize;

/// Fewer runs than this on a side are described, not judged: from three runs a t-interval is honest.
pub const FEWEST_RUNS_JUDGED: usize = 3;

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn parallel_work_is_done_by_this_thread_where_no_other_can_be_made() {
        let refused = ThreadPoolBuilder::new().spawn_handler(|_| Err(std::io::ErrorKind::WouldBlock.into())).build();
        assert!(refused.is_err());
        // The thread that does it belongs to that pool from then on.
        let sum = std::thread::spawn(|| {
            let pool = pool_or_this_thread(refused).unwrap();
            pool.install(|| (1..=1000u64).into_par_iter().sum::<u64>())
        });
        assert_eq!(sum.join().unwrap(), 500_500);
    }
}
