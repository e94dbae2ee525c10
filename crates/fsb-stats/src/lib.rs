//! Estimates, comparisons and verdicts.
//!
//! Pure functions of numbers: no paths, no printing, no clock. Everything works on the logarithms
//! of trial values, because differences between file systems multiply: a tenth slower at one size
//! is a tenth slower at another.
//!
//! * [`Estimate`]: one cell. [`describe`] and [`t_interval`] do the same on the plain scale.
//! * [`Comparison`]: one cell against another, paired by block, or by Welch's method on runs.
//! * [`excess`]: amounts of which the baseline may be 0, which have no ratio.
//! * [`Ranking`]: all targets of a case, with simultaneous intervals, letters and an outcome that
//!   follow from them;
//!   [`Resolution`]: the largest possible difference in a case without a winner;
//!   [`hold_over_page`]: all cases together.
//! * [`Between`], [`Power`], [`Unjudged`]: comparisons between runs, with one mean per run as a
//!   value.
//! * [`CaseState`]: whether a case needs more blocks, at a planned interim analysis.
//! * [`scatter`] and [`stationarity`]: analyses of the rounds within blocks.
//! * [`knee`]: the level of a curve over threads or requests in flight beyond which no gain is
//!   shown.
//! * [`scalability`]: the universal scalability law, fitted to rates over clients.
//! * [`cache_warm_up`]: the time constant with which the rate of reads from a cold cache rises.
//! * [`change_points`]: changes in a series of runs, and the variation between them.
//! * [`bisection`]: since which of many candidates the work is slower.
//! * [`overall`]: one ratio over many workloads.
//! * [`random_effects`]: one ratio over many hosts; [`moderator`]: whether a property of the hosts
//!   explains how they differ.
//! * [`blocks_to_scale`]: how much more work would narrow an interval.
//!
//! No function returns NaN or infinity: an undefined value is `None`, and an invalid measurement is
//! an [`AnalysisError`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod bisection;
mod cache_warm_up;
mod change_points;
pub mod compare;
mod comparison;
mod description;
mod estimate;
mod excess;
pub mod histogram;
mod knee;
mod model;
mod normality;
mod page;
mod planning;
mod prior;
pub mod race;
mod random_effects;
mod ranking;
mod rounds;
mod sample;
mod scalability;
mod sequential;
mod terms;
mod verdict;

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

pub use cache_warm_up::{CacheWarmUp, NoWarmUp, ReadBin, cache_warm_up};
pub use change_points::{ChangePoint, ChangePoints, Level, RunVariation, change_points};
pub use comparison::{Comparison, Effect, paired, welch};
pub use description::{
    Description, describe, mean_and_sd, quantile, ratio_of_means, t_interval, t_quantile,
};
pub use estimate::{Estimate, NOISY, Noise, Trend, UNRELIABLE, trend};
pub use excess::{Excess, excess};
pub use knee::{Knee, knee};
pub use normality::{Normality, normality};
pub use page::{
    Correlation, Weighted, geometric_mean, hold_groups_over_page, hold_over_page, overall,
};
pub use planning::{CaseState, NARROW, blocks_to_scale, warm_up_length};
pub use random_effects::{
    GroupMean, Heterogeneity, Moderator, RandomEffects, TauMethod, moderator, random_effects,
};
pub use ranking::{Pair, Ranking, RankingOutcome, Resolution};
pub use rounds::{NotStationary, RoundLogs, Scatter, scatter, stationarity};
pub use sample::{AnalysisError, BlockValue, Method};
pub use scalability::{Parameter, Scalability, scalability};
pub use terms::{Between, BetweenSource, Power, Unjudged};
pub use verdict::{Interval, Verdict};

/// Runs work whose parallel iterators use one thread per processor, or only this thread if no other
/// can be started. Rayon's own pool panics in that case.
pub fn in_parallel<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    match POOL.get_or_init(|| pool_or_this_thread(ThreadPoolBuilder::new().build())) {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn pool_or_this_thread(pool: Result<ThreadPool, ThreadPoolBuildError>) -> Option<ThreadPool> {
    pool.or_else(|_| {
        ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread()
            .build()
    })
    .ok()
}

/// The confidence level of all verdicts.
pub const LEVEL: f64 = 0.95;

/// The fewest blocks of one run for a verdict. Fewer are only described.
pub const FEWEST_JUDGED: usize = fsb_model::plan::FEWEST_BLOCKS_JUDGED as usize;

/// The fewest runs on a side for a verdict. Fewer are only described, because a t-interval is
/// meaningful from three runs on.
pub const FEWEST_RUNS_JUDGED: usize = 3;

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn parallel_work_is_done_by_this_thread_where_no_other_can_be_made() {
        let refused = ThreadPoolBuilder::new()
            .spawn_handler(|_| Err(std::io::ErrorKind::WouldBlock.into()))
            .build();
        assert!(refused.is_err());
        // The thread that does the work belongs to that pool from then on.
        let sum = std::thread::spawn(|| {
            let pool = pool_or_this_thread(refused).unwrap();
            pool.install(|| (1..=1000u64).into_par_iter().sum::<u64>())
        });
        assert_eq!(sum.join().unwrap(), 500_500);
    }
}
