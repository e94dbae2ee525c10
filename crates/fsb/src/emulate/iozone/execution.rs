//! Passes of IOzone's operations as executions of a run directory.

use std::path::PathBuf;

use fsb_compat::iozone::options::{Means, Msync};
use fsb_compat::iozone::sequence::{MatrixRow, files};
use fsb_compat::iozone::{Options, operation};
use fsb_engine::Measurement;
use fsb_engine::classic::PhaseResult;
use fsb_model::metric::{THROUGHPUT, WORKER_RATE_MAX, WORKER_RATE_MEAN, WORKER_RATE_MIN, spread};
use fsb_model::trial::Reason;
use fsb_model::{Bytes, Params, WorkloadSpec};
use jiff::Timestamp;
use serde_json::json;

use crate::emulate::run_directory::{Execution, Values};

use super::check;

/// Returns the execution of an operation by one process, with its results, or by several that
/// started together, or the reason why it failed. `name` is the operation in words.
pub(super) fn execution(
    options: &Options,
    name: &str,
    sizes: MatrixRow,
    started: Timestamp,
    workers: usize,
    results: Result<&[PhaseResult], Reason>,
) -> Execution {
    let operation = operation(name).unwrap_or(name);
    let [file_size, block_size] = [sizes.file, sizes.record].map(|kilobytes| kilobytes << 10);
    let (block, file) = (Bytes(block_size), Bytes(file_size));
    let mut label = format!("{name} {block}, file {file}");
    let mut params = parameters(options);
    params.insert("file_size".to_owned(), file_size.into());
    params.insert("block_size".to_owned(), block_size.into());
    params.insert("operation".to_owned(), operation.into());
    if options.throughput() {
        let unit = if options.threads {
            "threads"
        } else {
            "processes"
        };
        label += &format!(", {workers} {unit}");
        params.insert("workers".to_owned(), workers.into());
        params.insert("threads".to_owned(), options.threads.into());
        params.insert("stonewall".to_owned(), options.stonewall.into());
    } else {
        params.insert("matrix".to_owned(), true.into());
    }
    Execution {
        label,
        operation: operation.to_owned(),
        workload: WorkloadSpec::new("iozone", params),
        directory: directory(options),
        started,
        result: results.and_then(|results| values(block_size, results)),
    }
}

/// Returns the sum of the rates of the processes, and their rates if there are several. A rate is
/// that of a process's own time until its stonewall: IOzone prints the sum as "Children see".
///
/// # Errors
/// A process moved nothing, or its time is below the resolution of the clock.
fn values(record: u64, results: &[PhaseResult]) -> Result<Values, Reason> {
    let mut work = Measurement::default();
    let mut rates = Vec::new();
    for result in results {
        if result.records == 0 {
            return Err("a process transferred nothing".into());
        }
        if result.nanoseconds == 0 {
            return Err("nothing was timed".into());
        }
        let bytes = result.records * record;
        work.operations += result.records;
        work.bytes += bytes;
        work.timed_ns = work.timed_ns.max(result.nanoseconds);
        work.user_seconds += result.user_nanoseconds as f64 * 1e-9;
        work.system_seconds += result.system_nanoseconds as f64 * 1e-9;
        rates.push(bytes as f64 / (result.nanoseconds as f64 * 1e-9));
    }
    let mut metrics = vec![THROUGHPUT.metric(rates.iter().sum())];
    if rates.len() > 1 {
        let [least, mean, most] = spread(&rates);
        metrics.push(WORKER_RATE_MIN.metric(least));
        metrics.push(WORKER_RATE_MEAN.metric(mean));
        metrics.push(WORKER_RATE_MAX.metric(most));
    }
    Ok(Values { metrics, work })
}

/// Returns the directory of the first file.
fn directory(options: &Options) -> PathBuf {
    let files = files(options);
    let file = files.first().unwrap_or(&options.file);
    check::directory(file).to_owned()
}

/// Returns the options that change the work, without sizes, files and forms of output.
fn parameters(options: &Options) -> Params {
    let calls = match options.means {
        Means::Calls => "read-write".to_owned(),
        Means::Mapping(Msync::Never) => "mmap".to_owned(),
        Means::Mapping(Msync::Async) => "mmap, msync async".to_owned(),
        Means::Mapping(Msync::Sync) => "mmap, msync sync".to_owned(),
        Means::Async { depth, copy: true } => format!("aio, depth {depth}, copied"),
        Means::Async { depth, copy: false } => format!("aio, depth {depth}"),
    };
    let repeat = options.repeat_until.unwrap_or_default();
    let all = [
        ("calls", json!(calls)),
        ("direct", json!(options.direct)),
        ("sync", json!(options.sync)),
        ("data_sync", json!(options.data_sync)),
        ("include_flush", json!(options.include_flush)),
        ("include_close", json!(options.include_close)),
        ("lock", json!(options.lock)),
        ("purge", json!(options.purge)),
        ("remount", json!(options.remount.is_some())),
        ("stride", json!(options.stride)),
        ("verify", json!(format!("{:?}", options.check))),
        ("first_cpu", json!(options.first_cpu)),
        ("read_percent", json!(options.read_percent)),
        ("repeat_until", json!(repeat.as_secs_f64())),
    ];
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(records: u64, nanoseconds: u64) -> PhaseResult {
        PhaseResult {
            records,
            nanoseconds,
            ..PhaseResult::default()
        }
    }

    #[test]
    fn the_throughput_is_the_sum_of_the_rates_of_the_processes() {
        // The second process had moved half its records when the first one was done.
        let results = [result(8, 1_000_000_000), result(4, 2_000_000_000)];
        let values = values(1024, &results).expect("values");
        let mut numbers = Vec::new();
        for metric in &values.metrics {
            numbers.push(metric.value);
        }
        assert_eq!(numbers, [10_240.0, 2048.0, 5120.0, 8192.0]);
        assert_eq!((values.work.operations, values.work.bytes), (12, 12_288));
    }

    #[test]
    fn a_process_without_a_record_leaves_no_values() {
        for other in [result(0, 1), result(1, 0)] {
            assert!(values(1024, &[result(8, 1), other]).is_err());
        }
    }
}
