//! The reports of the threads of a flow.

use fsb_model::metric::{CREATE_RATE, DELETE_RATE, READ_RATE, WRITE_RATE};
use hdrhistogram::Histogram;

use super::program::Program;
use crate::latency;
use crate::task::{Measurement, Rate};

/// The report of one thread.
#[derive(Debug, Default)]
pub(super) struct Report {
    histograms: Vec<Histogram<u64>>,
    /// Bytes that each kind of operation has moved.
    moved: Vec<u64>,
    pub(super) tally: Tally,
}

/// Counts of the work on files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) created: u64,
    pub(super) deleted: u64,
    pub(super) directories_made: u64,
    pub(super) directories_removed: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) operations: u64,
    /// Reads and writes.
    pub(super) transfers: u64,
}

impl Tally {
    #[inline]
    pub(super) fn read(&mut self, bytes: u64) {
        self.bytes_read += bytes;
        self.transfers += 1;
    }

    #[inline]
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.bytes_written += bytes;
        self.transfers += 1;
    }
}

impl Report {
    /// Returns an empty report whose memory was touched.
    pub(super) fn new(program: &Program) -> Report {
        let histograms = program.titles.iter().map(|_| latency::touched()).collect();
        let moved = vec![0; program.titles.len()];
        Report { histograms, moved, tally: Tally::default() }
    }

    /// Records an operation: its nanoseconds, and the bytes that it moved.
    #[inline]
    pub(super) fn record(&mut self, title: usize, ns: u64, bytes: u64) {
        self.histograms[title].saturating_record(ns);
        self.moved[title] += bytes;
    }

    /// Returns the number of operations with this title.
    pub(super) fn count(&self, title: usize) -> u64 {
        self.histograms[title].len()
    }
}

/// Returns the sum of all tallies.
pub(super) fn sum<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Tally {
    let mut sum = Tally::default();
    for Report { tally, .. } in reports {
        sum.created += tally.created;
        sum.deleted += tally.deleted;
        sum.directories_made += tally.directories_made;
        sum.directories_removed += tally.directories_removed;
        sum.bytes_read += tally.bytes_read;
        sum.bytes_written += tally.bytes_written;
        sum.operations += tally.operations;
        sum.transfers += tally.transfers;
    }
    sum
}

/// Adds the work of the threads to a measurement. Reports come in the order of programs and instances.
pub(super) fn add(programs: &[&Program], reports: &[Report], left: u64, measurement: &mut Measurement) {
    let mut by_title: Vec<(&str, Histogram<u64>, u64)> = Vec::new();
    for (program, report) in programs.iter().zip(reports) {
        for ((title, histogram), moved) in program.titles.iter().zip(&report.histograms).zip(&report.moved) {
            match by_title.iter_mut().find(|(known, ..)| known == title) {
                Some((_, sum, bytes)) => {
                    sum.add(histogram).expect("histograms of one size add up");
                    *bytes += moved;
                }
                None => by_title.push((title, histogram.clone(), *moved)),
            }
        }
    }
    for (title, histogram, moved) in by_title {
        if !histogram.is_empty() {
            measurement.latency.insert(title.to_owned(), latency::encode(&histogram));
        }
        if moved > 0 {
            measurement.counts.insert(format!("{title}_bytes"), moved);
        }
    }
    let tally = sum(reports);
    let timed_ns = measurement.timed_ns;
    let rates = [
        (&READ_RATE, tally.bytes_read),
        (&WRITE_RATE, tally.bytes_written),
        (&CREATE_RATE, tally.created),
        (&DELETE_RATE, tally.deleted),
    ];
    for (kind, amount) in rates {
        if amount > 0 {
            measurement.rates.insert(kind.name.to_owned(), Rate { amount, timed_ns });
        }
    }
    let counts = [
        ("files_created", tally.created),
        ("files_deleted", tally.deleted),
        ("files_left", left),
        ("directories_made", tally.directories_made),
        ("directories_removed", tally.directories_removed),
        ("bytes_read", tally.bytes_read),
        ("bytes_written", tally.bytes_written),
    ];
    let counts = counts.into_iter().filter(|(name, count)| *count > 0 || !name.starts_with("directories"));
    measurement.counts.extend(counts.map(|(name, count)| (name.to_owned(), count)));
}
