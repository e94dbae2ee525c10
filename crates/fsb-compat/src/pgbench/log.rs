//! The logs of pgbench (`--log`): a line for each transaction, or one for each interval
//! (`--aggregate-interval`).

use std::collections::BTreeMap;

use fsb_model::metric::{
    LATENCY_MAX, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, LATENCY_P999, MetricKind,
    OPERATION_RATE,
};
use fsb_model::set::{Histogram, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::percentile::percentile;
use crate::text::{Lines, whole};
use crate::tool::ReadError;

/// The name of the tool.
pub(super) const NAME: &str = "pgbench";

/// The operation of transactions.
pub(super) const TRANSACTION: &str = "transaction";

/// The share of failed transactions, in percent, above which the others are not judged.
pub(super) const MOST_FAILED: f64 = 1.0;

/// Epochs of logs: pgbench has logs since 8.4.
const EPOCHS: std::ops::Range<u64> = 1_000_000_000..10_000_000_000;

/// The workload: a log does not show the settings.
const WORKLOAD: &str = "transactions of a log";

#[rustfmt::skip] // a table reads as one
static PERCENTILES: [(f64, MetricKind); 4] = [
    (0.5, LATENCY_P50), (0.9, LATENCY_P90), (0.99, LATENCY_P99), (0.999, LATENCY_P999),
];

/// Returns whether the file starts with a line of a log.
pub(super) fn recognise(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let Some(end) = memchr::memchr(b'\n', head) else {
        return false;
    };
    is_line(head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]))
}

/// Returns whether this is a line of either log.
pub(super) fn is_line(bytes: &[u8]) -> bool {
    Transaction::parse(bytes).is_some() || Interval::parse(bytes).is_some()
}

/// Reads a log, whose first line was taken already.
pub(super) fn read(first: &[u8], lines: &mut Lines, mut runs: Runs) -> Result<Vec<Run>, ReadError> {
    let mut log = Log::default();
    log.take(first, 1, true);
    while let Some(line) = lines.next()? {
        log.take(line.bytes, line.number, line.ended);
    }
    if !log.transactions.is_empty() && !log.transactions.has_first_client {
        let why = "it has no line of client 0: it is the log of another thread (-j); join the logs of an execution: \
                   cat pgbench_log.PID* > NEW";
        return Err(ReadError::refused(NAME, why));
    }
    let mut draft = log.draft;
    draft.run.clock_resolution = Some(1e-6);
    draft.remark(
        None,
        "with -j, each thread of pgbench writes a log; 'cat pgbench_log.PID* > NEW' joins them",
    );
    match log.intervals.is_empty() {
        true => transactions(&log.transactions, log.last, &mut draft)?,
        false => intervals(&log.intervals, log.last, &mut draft)?,
    }
    runs.push(draft)?;
    runs.finish(|| "its log holds no transaction that succeeded".to_owned())
}

/// The lines of a log.
struct Log {
    draft: Draft,
    transactions: Transactions,
    intervals: Vec<Interval>,
    last: u32,
}

impl Default for Log {
    fn default() -> Self {
        let (transactions, intervals) = (Transactions::default(), Vec::new());
        Log {
            draft: Draft::new(NAME),
            transactions,
            intervals,
            last: 0,
        }
    }
}

impl Log {
    fn take(&mut self, bytes: &[u8], number: u32, ended: bool) {
        // A cut line can end in a number that is too small.
        if !ended {
            self.draft.remark(
                number,
                "the line has no end: the log is cut, or pgbench was stopped; it is left out",
            );
        } else if let Some(one) = Transaction::parse(bytes).filter(|_| self.intervals.is_empty()) {
            self.transactions.take(one);
        } else if let Some(one) = Interval::parse(bytes).filter(|_| self.transactions.is_empty()) {
            self.intervals.push(one);
        } else {
            self.draft.remark(number, "no line of the log, left out");
            return;
        }
        self.last = number;
    }
}

/// A line of a transaction: client, number, time, script, epoch, microseconds, and with options lag
/// and retries.
struct Transaction {
    /// Microseconds, or `None` if it failed or was skipped.
    taken: Result<u64, &'static str>,
    /// The end, in microseconds since 1970.
    end: u64,
    is_of_first_client: bool,
}

/// The word for a transaction that was not started, because its time had passed
/// (`--latency-limit`).
const SKIPPED: &str = "skipped";

/// The words that pgbench writes in place of a time.
static NO_TIME: [&str; 4] = [SKIPPED, "failed", "serialization", "deadlock"];

impl Transaction {
    fn parse(bytes: &[u8]) -> Option<Transaction> {
        let fields: Vec<&[u8]> = bytes.split(|byte| *byte == b' ').collect();
        let [client, number, taken, script, epoch, micros, rest @ ..] = &fields[..] else {
            return None;
        };
        let (epoch, micros) = (whole(epoch)?, whole(micros)?);
        let shaped = EPOCHS.contains(&epoch) && micros < 1_000_000 && rest.len() <= 2;
        let counts = [*client, *number, *script]
            .iter()
            .chain(rest)
            .all(|field| whole(field).is_some());
        let word = NO_TIME.iter().find(|word| word.as_bytes() == *taken);
        let taken = match word {
            Some(word) => Err(*word),
            None => Ok(whole(taken)?),
        };
        let end = epoch * 1_000_000 + micros;
        (shaped && counts).then_some(Transaction {
            taken,
            end,
            is_of_first_client: *client == b"0",
        })
    }
}

/// The transactions of a log: how often each time was taken.
#[derive(Default)]
struct Transactions {
    times: BTreeMap<u64, u64>,
    without: BTreeMap<&'static str, u64>,
    /// The start of the first and the end of the last, in microseconds.
    span: Option<(u64, u64)>,
    /// Whether the first client occurs, whose thread is the first one.
    has_first_client: bool,
}

impl Transactions {
    fn take(&mut self, one: Transaction) {
        let start = one.end.saturating_sub(one.taken.unwrap_or(0));
        let (first, last) = self.span.unwrap_or((start, one.end));
        self.span = Some((first.min(start), last.max(one.end)));
        self.has_first_client |= one.is_of_first_client;
        match one.taken {
            Ok(taken) => *self.times.entry(taken).or_default() += 1,
            Err(word) => *self.without.entry(word).or_default() += 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    fn count(&self) -> u64 {
        self.times.values().sum()
    }
}

const SERIES: Name<'static> = Name {
    workload: Some(WORKLOAD),
    operation: TRANSACTION,
};

fn transactions(found: &Transactions, line: u32, draft: &mut Draft) -> Result<(), ReadError> {
    for (word, count) in &found.without {
        draft.remark(
            None,
            format_args!("{count} transactions have '{word}' in place of a time and do not count"),
        );
    }
    let failed = found
        .without
        .iter()
        .filter(|(word, _)| **word != SKIPPED)
        .map(|(_, count)| count)
        .sum();
    check_failed(failed, found.count(), draft);
    let (count, place) = (
        found.count(),
        Position {
            line,
            ..Position::default()
        },
    );
    let Some((first, last)) = found.span.filter(|(first, last)| count > 0 && last > first) else {
        return Ok(());
    };
    draft.add(
        SERIES,
        &OPERATION_RATE,
        "lines/s",
        place,
        rate(count as f64 / ((last - first) as f64 / 1e6)),
    )?;
    let sum: f64 = found
        .times
        .iter()
        .map(|(taken, count)| *taken as f64 * *count as f64)
        .sum();
    draft.add(
        SERIES,
        &LATENCY_MEAN,
        "us",
        place,
        time(sum / count as f64 / 1e6),
    )?;
    for (share, metric) in &PERCENTILES {
        if let Some(taken) = percentile(&found.times, *share) {
            draft.add(SERIES, metric, "us", place, time(taken as f64 / 1e6))?;
        }
    }
    if let Some((longest, _)) = found.times.last_key_value() {
        draft.add(
            SERIES,
            &LATENCY_MAX,
            "us",
            place,
            time(*longest as f64 / 1e6),
        )?;
    }
    let bins = found
        .times
        .iter()
        .filter(|(taken, _)| **taken > 0)
        .map(|(taken, count)| (taken * 1000, *count));
    draft.run.histograms.push(Histogram {
        workload: Some(WORKLOAD.to_owned()),
        operation: TRANSACTION.to_owned(),
        bins: bins.collect(),
    });
    Ok(())
}

/// Records a failure if too many transactions failed, as for reports.
fn check_failed(failed: u64, good: u64, draft: &mut Draft) {
    let percent = 100.0 * failed as f64 / (failed.saturating_add(good).max(1)) as f64;
    if percent > MOST_FAILED {
        draft.fail(
            None,
            None,
            format_args!("{percent:.3} % of the transactions failed, more than {MOST_FAILED} %"),
        );
    }
}

/// A line of an interval: its start, transactions, the sum of their times and of the squares, the
/// shortest and the longest; with options, since 15 always, lags, skipped, retried and failed ones.
struct Interval {
    start: u64,
    count: u64,
    sum: u64,
    longest: u64,
    failed: u64,
}

impl Interval {
    fn parse(bytes: &[u8]) -> Option<Interval> {
        let fields: Option<Vec<u64>> = bytes.split(|byte| *byte == b' ').map(whole).collect();
        let fields = fields.filter(|fields| [6, 10, 11, 15].contains(&fields.len()))?;
        let [start, count, sum, _, shortest, longest, rest @ ..] = &fields[..] else {
            return None;
        };
        let failed = if let [.., serialization, deadlock] = rest {
            serialization.saturating_add(*deadlock)
        } else {
            0
        };
        let failed = if fields.len() == 15 { failed } else { 0 };
        let possible = |sum: u64| {
            (count.saturating_mul(*shortest)..=count.saturating_mul(*longest)).contains(&sum)
        };
        (EPOCHS.contains(start) && shortest <= longest && possible(*sum)).then_some(Interval {
            start: *start,
            count: *count,
            sum: *sum,
            longest: *longest,
            failed,
        })
    }
}

/// Adds the values of a log of intervals. The first interval begins when pgbench starts and is
/// shorter than the others, so it does not count for the rate. pgbench does not write the last one
/// unless it is complete.
fn intervals(found: &[Interval], line: u32, draft: &mut Draft) -> Result<(), ReadError> {
    let count: u64 = found.iter().map(|one| one.count).sum();
    let failed: u64 = found.iter().map(|one| one.failed).sum();
    if failed > 0 {
        draft.remark(
            None,
            format_args!("{failed} transactions failed and do not count"),
        );
    }
    check_failed(failed, count, draft);
    let place = Position {
        line,
        ..Position::default()
    };
    let (first, last) = found.iter().fold((u64::MAX, 0), |(first, last), one| {
        (first.min(one.start), last.max(one.start))
    });
    // The intervals after the first one end as long after its end as the last one starts after its
    // start.
    if last > first {
        let whole: u64 = found
            .iter()
            .filter(|one| one.start > first)
            .map(|one| one.count)
            .sum();
        draft.add(
            SERIES,
            &OPERATION_RATE,
            "lines/s",
            place,
            rate(whole as f64 / (last - first) as f64),
        )?;
    } else {
        draft.remark(
            line,
            "one interval has no known length: the log gives no rate",
        );
    }
    if count > 0 {
        let sum: f64 = found.iter().map(|one| one.sum as f64).sum();
        draft.add(
            SERIES,
            &LATENCY_MEAN,
            "us",
            place,
            time(sum / count as f64 / 1e6),
        )?;
        let longest = found.iter().map(|one| one.longest).max().unwrap_or(0);
        draft.add(
            SERIES,
            &LATENCY_MAX,
            "us",
            place,
            time(longest as f64 / 1e6),
        )?;
    }
    Ok(())
}
