//! What a worker brings back, and what all of them have done together.

use fsb_model::metric::{
    CREATE_ALONE_RATE, CREATE_RATE, DELETE_ALONE_RATE, DELETE_RATE, MetricKind, READ_RATE, WRITE_RATE,
};
use fsb_model::postmark::{Act, Tally};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::clock::Kind;
use crate::task::{Measurement, Rate};
use crate::workload::phase_times::PhaseTimes;
use crate::{EngineError, latency};

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolStage {
    Create,
    Transact,
    Delete,
}

impl PoolStage {
    pub(super) const ALL: [PoolStage; 3] = [PoolStage::Create, PoolStage::Transact, PoolStage::Delete];
}

/// Operations whose latencies are kept apart.
const OPERATIONS: [(&str, Kind); 4] =
    [("create", Kind::Create), ("read", Kind::Read), ("append", Kind::Write), ("delete", Kind::Delete)];

/// Which of [`OPERATIONS`] it is.
fn place(act: Act) -> usize {
    match act {
        Act::Create => 0,
        Act::Read => 1,
        Act::Append { .. } => 2,
        Act::Delete => 3,
    }
}

/// The clock's word for it.
pub(super) fn kind(act: Act) -> Kind {
    OPERATIONS[place(act)].1
}

/// Of one worker, or of all.
#[derive(Debug, Clone)]
pub(super) struct Report {
    stages: PhaseTimes<3>,
    pub(super) tally: Tally,
    /// Files that were created before and deleted after the transactions.
    pub(super) alone: [u64; 2],
    histograms: [Histogram<u64>; 4],
}

/// As it goes through a pipe.
#[derive(Serialize, Deserialize)]
struct EncodedReport {
    stages: [(u64, u64); 3],
    counts: [u64; 6],
    alone: [u64; 2],
    histograms: [String; 4],
}

impl Report {
    /// An empty one, whose memory was touched.
    pub(super) fn new() -> Report {
        Report {
            stages: PhaseTimes::new(),
            tally: Tally::default(),
            alone: [0; 2],
            histograms: std::array::from_fn(|_| latency::touched()),
        }
    }

    /// Records the nanoseconds of an operation.
    #[inline]
    pub(super) fn record(&mut self, act: Act, ns: u64) {
        self.histograms[place(act)].saturating_record(ns);
    }

    pub(super) fn begun(&mut self, stage: PoolStage, ns: u64) {
        self.stages.begun(stage as usize, ns);
    }

    pub(super) fn ended(&mut self, stage: PoolStage, ns: u64) {
        self.stages.ended(stage as usize, ns);
    }

    /// All of them as one: each stage from the first start to the last end.
    pub(super) fn sum(reports: &[Report]) -> Report {
        let stages = PhaseTimes::of_all(reports.iter().map(|report| report.stages));
        let mut sum = Report { stages, ..Report::new() };
        for report in reports {
            let (all, one) = (&mut sum.tally, &report.tally);
            all.created += one.created;
            all.read += one.read;
            all.appended += one.appended;
            all.deleted += one.deleted;
            all.bytes_read += one.bytes_read;
            all.bytes_written += one.bytes_written;
            for index in [0, 1] {
                sum.alone[index] += report.alone[index];
            }
            for (all, one) in sum.histograms.iter_mut().zip(&report.histograms) {
                all.add(one).expect("histograms of one size add up");
            }
        }
        sum
    }

    /// The stretch that targets are compared by, what PostMark reports beside it, and the latencies.
    pub(super) fn add_to(&self, measurement: &mut Measurement) {
        let [creation, transactions, deletion] = self.stages.durations();
        let total = creation + transactions + deletion;
        let tally = &self.tally;
        measurement.timed_ns = transactions;
        let rates: [(&MetricKind, u64, u64); 6] = [
            (&READ_RATE, tally.bytes_read, total),
            (&WRITE_RATE, tally.bytes_written, total),
            (&CREATE_RATE, tally.created, total),
            (&DELETE_RATE, tally.deleted, total),
            (&CREATE_ALONE_RATE, self.alone[0], creation),
            (&DELETE_ALONE_RATE, self.alone[1], deletion),
        ];
        for (kind, amount, timed_ns) in rates {
            measurement.rates.insert(kind.name.to_owned(), Rate { amount, timed_ns });
        }
        let counts = [
            ("files_created", tally.created),
            ("files_read", tally.read),
            ("files_appended", tally.appended),
            ("files_deleted", tally.deleted),
            ("bytes_read", tally.bytes_read),
            ("bytes_written", tally.bytes_written),
        ];
        measurement.counts.extend(counts.map(|(name, count)| (name.to_owned(), count)));
        for ((operation, _), histogram) in OPERATIONS.iter().zip(&self.histograms) {
            if !histogram.is_empty() {
                measurement.latency.insert((*operation).to_owned(), latency::encode(histogram));
            }
        }
    }

    /// For the parent of a process.
    pub(super) fn to_text(&self) -> String {
        let Tally { created, read, appended, deleted, bytes_read, bytes_written, .. } = self.tally;
        let encoded = EncodedReport {
            stages: self.stages.0,
            counts: [created, read, appended, deleted, bytes_read, bytes_written],
            alone: self.alone,
            histograms: self.histograms.each_ref().map(latency::encode),
        };
        serde_json::to_string(&encoded).expect("numbers and texts are JSON")
    }

    /// The report that a process sent.
    pub(super) fn from_text(text: &str) -> Result<Report, EngineError> {
        let garbled = |why: String| EngineError::new(format!("a process sent an unreadable report: {why}"));
        let encoded: EncodedReport = serde_json::from_str(text).map_err(|error| garbled(error.to_string()))?;
        let [created, read, appended, deleted, bytes_read, bytes_written] = encoded.counts;
        let tally = Tally { created, read, appended, deleted, bytes_read, bytes_written, ..Tally::default() };
        let mut report = Report { stages: PhaseTimes(encoded.stages), tally, alone: encoded.alone, ..Report::new() };
        for (histogram, text) in report.histograms.iter_mut().zip(&encoded.histograms) {
            *histogram = latency::decode(text).map_err(|error| garbled(error.to_string()))?;
        }
        Ok(report)
    }
}
