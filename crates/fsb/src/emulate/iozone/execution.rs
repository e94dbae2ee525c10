//! Passes of IOzone's operations as executions of a run directory.

use std::path::PathBuf;

use fsb_compat::iozone::Options;
use fsb_compat::iozone::options::{Means, Msync};
use fsb_compat::iozone::sequence::{MatrixRow, files};
use fsb_engine::Measurement;
use fsb_engine::classic::PhaseResult;
use fsb_model::metric::{THROUGHPUT, WORKER_RATE_MAX, WORKER_RATE_MEAN, WORKER_RATE_MIN};
use fsb_model::{Bytes, Params, WorkloadSpec};
use jiff::Timestamp;
use serde_json::json;

use crate::emulate::run_directory::{Execution, Values};

use super::check;

/// Returns the execution of an operation by one process, with its results, or by several that
/// started together. `nanoseconds` is the time from the first start to the last end.
pub(super) fn execution(
    options: &Options,
    operation: &str,
    sizes: MatrixRow,
    started: Timestamp,
    results: &[PhaseResult],
    nanoseconds: u64,
) -> Execution {
    let [file_size, block_size] = [sizes.file, sizes.record].map(|kilobytes| kilobytes << 10);
    let (block, file) = (Bytes(block_size), Bytes(file_size));
    let mut label = format!("{operation} {block}, file {file}");
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
        label += &format!(", {} {unit}", results.len());
        params.insert("workers".to_owned(), results.len().into());
        params.insert("threads".to_owned(), options.threads.into());
        params.insert("stonewall".to_owned(), options.stonewall.into());
    } else {
        params.insert("matrix".to_owned(), true.into());
    }
    let values = values(block_size, results, nanoseconds);
    Execution {
        label,
        operation: operation.to_owned(),
        workload: WorkloadSpec::new("iozone", params),
        directory: directory(options),
        started,
        result: match values.work.bytes > 0 && nanoseconds > 0 {
            true => Ok(values),
            false => Err("nothing was timed".into()),
        },
    }
}

/// Returns the rate of all processes together, and those of the processes if there are several.
fn values(record: u64, results: &[PhaseResult], nanoseconds: u64) -> Values {
    let mut work = Measurement {
        timed_ns: nanoseconds,
        ..Measurement::default()
    };
    let mut rates = Vec::new();
    for result in results {
        let bytes = result.records * record;
        work.operations += result.records;
        work.bytes += bytes;
        work.user_seconds += result.user_nanoseconds as f64 * 1e-9;
        work.system_seconds += result.system_nanoseconds as f64 * 1e-9;
        rates.push(rate(bytes, result.nanoseconds));
    }
    let mut metrics = vec![THROUGHPUT.metric(rate(work.bytes, nanoseconds))];
    if rates.len() > 1 {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        metrics.push(WORKER_RATE_MIN.metric(least));
        metrics.push(WORKER_RATE_MEAN.metric(mean));
        metrics.push(WORKER_RATE_MAX.metric(most));
    }
    Values { metrics, work }
}

fn rate(bytes: u64, nanoseconds: u64) -> f64 {
    bytes as f64 / (nanoseconds.max(1) as f64 * 1e-9)
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
