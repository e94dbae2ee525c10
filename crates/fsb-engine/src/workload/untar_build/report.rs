//! When each phase began and ended, and how long its operations took.

use fsb_model::metric::{COMPILE_RATE, MetricKind, READ_FILES_RATE, REMOVE_RATE, STAT_RATE, UNPACK_RATE};
use hdrhistogram::Histogram;

use super::options::{Options, Phase};
use crate::latency;
use crate::task::{Measurement, Rate};
use crate::workload::phase_times::PhaseTimes;

/// Of one worker.
#[derive(Debug, Clone)]
pub(super) struct Report {
    stretches: PhaseTimes<5>,
    histograms: [Histogram<u64>; 5],
}

fn rate(phase: Phase) -> &'static MetricKind {
    match phase {
        Phase::Unpack => &UNPACK_RATE,
        Phase::Stat => &STAT_RATE,
        Phase::Read => &READ_FILES_RATE,
        Phase::Compile => &COMPILE_RATE,
        Phase::Remove => &REMOVE_RATE,
    }
}

impl Report {
    /// An empty one, whose memory was touched.
    pub(super) fn new() -> Report {
        Report { stretches: PhaseTimes::new(), histograms: std::array::from_fn(|_| latency::touched()) }
    }

    #[inline]
    pub(super) fn record(&mut self, phase: Phase, ns: u64) {
        self.histograms[phase as usize].saturating_record(ns);
    }

    pub(super) fn begun(&mut self, phase: Phase, ns: u64) {
        self.stretches.begun(phase as usize, ns);
    }

    pub(super) fn ended(&mut self, phase: Phase, ns: u64) {
        self.stretches.ended(phase as usize, ns);
    }

    /// The time of all phases, from the first start to the last end of each, the rates, and the latencies.
    pub(super) fn add_to(reports: &[Report], options: &Options, measurement: &mut Measurement) {
        measurement.timed_ns = 0;
        let durations = PhaseTimes::of_all(reports.iter().map(|report| report.stretches)).durations();
        let phases = options.phases();
        for &phase in &phases {
            let timed_ns = durations[phase as usize];
            measurement.timed_ns += timed_ns;
            let mut histogram = latency::empty();
            for report in reports {
                histogram.add(&report.histograms[phase as usize]).expect("histograms of one size add up");
            }
            let amount = Rate { amount: histogram.len(), timed_ns };
            measurement.rates.insert(rate(phase).name.to_owned(), amount);
            measurement.latency.insert(phase.name().to_owned(), latency::encode(&histogram));
        }
        let totals = &options.totals;
        let mut count = |name: &str, count| measurement.counts.insert(name.to_owned(), count);
        if phases.contains(&Phase::Unpack) {
            count("files_unpacked", totals.files);
            count("directories_made", totals.directories);
            count("bytes_written", totals.bytes);
        }
        if phases.contains(&Phase::Read) {
            count("bytes_read", totals.bytes);
        }
        if phases.contains(&Phase::Compile) {
            count("sources_compiled", totals.sources);
        }
        if phases.contains(&Phase::Remove) {
            count("entries_removed", options.operations(Phase::Remove));
        }
    }
}
