//! The same work on a smaller machine: sizes of files, the image and the memory limit shrink
//! together, records do not.
//!
//! For a file that does not fit in memory, the ratio of its size to the memory matters, so all
//! sizes keep their ratios. Results of different scales are different measurements nevertheless.

use std::collections::BTreeMap;

use fsb_engine::{Sizing, workload};
use fsb_model::flow::MOST_FILES;
use fsb_model::{Bytes, Params, WorkloadSpec, expression};
use fsb_testbed::control::memory_limit::{self, MEMORY_LIMIT};
use serde_json::Value;

use crate::sweep::Scope;

/// Files and images of at least this size are whole multiples of it.
const GRANULE: u64 = 4096;
/// The smallest image that a scale makes. Every file system can be made in it.
const LEAST_IMAGE: u64 = 320 << 20;

/// Returns a size at this scale.
fn scaled(bytes: u64, scale: f64) -> u64 {
    let bytes = (bytes as f64 * scale) as u64;
    if bytes >= GRANULE {
        bytes / GRANULE * GRANULE
    } else {
        bytes.max(1)
    }
}

/// Returns the size of the image at this scale.
pub(crate) fn image(size: Bytes, scale: f64) -> Bytes {
    if scale == 1.0 {
        return size;
    }
    let least = size.0.min(LEAST_IMAGE);
    Bytes(scaled(size.0, scale).max(least))
}

/// Scales the memory limit among these controls.
pub(crate) fn controls(controls: &mut BTreeMap<String, String>, scale: f64) {
    if let Some(value) = controls.get_mut(MEMORY_LIMIT).filter(|_| scale != 1.0)
        && let Some(scaled) = memory_limit::scaled(value, scale)
    {
        *value = scaled;
    }
}

/// Numbers of files and of transactions, which are scaled because the files keep their sizes: a
/// mail server's pool and its traffic.
const COUNTS: [&str; 2] = ["number", "transactions"];

/// Workloads on trees of files, which make a smaller tree themselves.
const TREES: [&str; 2] = ["filetree", "untar-build"];
const TREE_SCALE: &str = "scale";

/// Returns one combination of sizes at this scale, or `None` if its record is now larger than its
/// file. `scope` is that of the full scale, so that a part of the image stays the same part.
pub(crate) fn of_workload(spec: WorkloadSpec, scale: f64, scope: Scope) -> Option<WorkloadSpec> {
    const FILE: &str = "file_size";
    if scale == 1.0 {
        return Some(spec);
    }
    if MICRO.contains(&spec.name.as_str()) {
        return Some(micro(spec, scale, scope));
    }
    if FLOWS.contains(&spec.name.as_str()) {
        return Some(flow(spec, scale, scope));
    }
    let evaluated = |value: &Value| match value {
        Value::String(text) => expression::evaluate(text, scope.size).ok(),
        value => value.as_u64(),
    };
    let WorkloadSpec {
        name,
        sample_time,
        sustain,
        background,
        mut params,
    } = spec;
    // The workload itself refuses a value that is not a size.
    if let Some(file) = params.get(FILE).and_then(evaluated) {
        let file = scaled(file, scale);
        if params.get("matrix") == Some(&Value::Bool(true))
            && record(&params).is_some_and(|record| record > file)
        {
            return None;
        }
        // Bytes that do not fill a record would never be accessed.
        let whole = record(&params).filter(|record| *record > 0 && *record <= file);
        params.insert(
            FILE.to_owned(),
            whole.map_or(file, |record| file / record * record).into(),
        );
    }
    // A part of a file stays the same part.
    for key in ["offset", "length"] {
        let (bytes, record) = (
            params.get(key).and_then(evaluated),
            record(&params).filter(|record| *record > 0),
        );
        if let (Some(bytes), Some(record)) = (bytes, record) {
            params.insert(
                key.to_owned(),
                ((bytes as f64 * scale) as u64 / record * record).into(),
            );
        }
    }
    for key in COUNTS {
        if let Some(count) = params.get(key).and_then(evaluated) {
            params.insert(
                key.to_owned(),
                ((count as f64 * scale) as u64).max(1).into(),
            );
        }
    }
    if scale < 1.0 {
        keep_the_pool(&mut params);
    }
    if TREES.contains(&name.as_str()) {
        let known = params.get(TREE_SCALE).map_or(Some(1.0), Value::as_f64);
        // The workload itself refuses a value that is not a number.
        if let Some(known) = known {
            params.insert(TREE_SCALE.to_owned(), (known * scale).into());
        }
    }
    Some(WorkloadSpec {
        name,
        sample_time,
        sustain,
        background,
        params,
    })
}

/// Limits the transactions on a pool. Each transaction adds or removes a file, and after n of them
/// the pool has changed by the square root of n. A pool a fiftieth as large would run out after a
/// fiftieth of the transactions. It gets as many as change it by a quarter.
fn keep_the_pool(params: &mut Params) {
    const NEVER: i64 = -1;
    let [files, transactions] = COUNTS;
    let count = |key: &str| params.get(key).and_then(Value::as_u64);
    let (Some(pool), Some(asked)) = (count(files), count(transactions)) else {
        return;
    };
    if params.get("bias_create").and_then(Value::as_i64) != Some(NEVER) {
        params.insert(
            transactions.to_owned(),
            asked.min((pool / 4).pow(2).max(1)).into(),
        );
    }
}

/// Workloads of many threads on sets of files.
const FLOWS: [&str; 7] = [
    "fileserver",
    "webserver",
    "webproxy",
    "varmail",
    "oltp",
    "videoserver",
    "flow",
];
/// The least number of files per thread, if there were as many at full scale. With fewer files,
/// threads would wait for each other.
const FILES_OF_A_THREAD: u64 = 20;

/// Returns the workload with fewer files of the same size, or with smaller files if there are few
/// already.
fn flow(mut spec: WorkloadSpec, scale: f64, scope: Scope) -> WorkloadSpec {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let sizing = Sizing {
        size: scope.size,
        cpus,
    };
    // An invalid workload is refused later, with its place.
    let Ok(job) = workload::parse(&spec, &sizing) else {
        return spec;
    };
    let profile = job.profile();
    let least = profile
        .files
        .min(FILES_OF_A_THREAD * u64::from(profile.threads))
        .max(1);
    let files = ((profile.files as f64 * scale) as u64).clamp(least, MOST_FILES.max(least));
    let rest = scale * profile.files as f64 / files as f64;
    spec.params.insert("files".to_owned(), files.into());
    spec.params.insert(
        "file_size".to_owned(),
        if (rest - 1.0).abs() < 0.01 {
            profile.file_size
        } else {
            scaled(profile.file_size, rest)
        }
        .into(),
    );
    spec
}

/// Workloads of cycles of iterations.
const MICRO: [&str; 3] = ["micro-create", "micro-read", "micro-write"];
/// The least number of cycles, if there were as many at full scale. Each is a sample of a trial.
const LEAST_CYCLES: u64 = 5;

/// Returns the workload with fewer iterations, or with fewer cycles if each thread has one
/// iteration already. The files of an iteration stay, because its time is the result.
fn micro(mut spec: WorkloadSpec, scale: f64, scope: Scope) -> WorkloadSpec {
    // An invalid workload is refused later, with its place.
    let Ok(job) = workload::parse(
        &spec,
        &Sizing {
            size: scope.size,
            cpus: scope.cpus,
        },
    ) else {
        return spec;
    };
    let (params, threads) = (job.params(), u64::from(job.profile().threads));
    let [iterations, cycles] =
        ["iterations", "cycles"].map(|key| params.get(key).and_then(Value::as_u64).unwrap_or(1));
    let fewer = ((iterations as f64 * scale) as u64).max(threads.min(iterations));
    let rest = (scale * iterations as f64 / fewer as f64).min(1.0);
    let cycles = ((cycles as f64 * rest).ceil() as u64).max(LEAST_CYCLES.min(cycles));
    spec.params.insert("iterations".to_owned(), fewer.into());
    spec.params.insert("cycles".to_owned(), cycles.into());
    spec
}

fn record(params: &Params) -> Option<u64> {
    let value = params.get("block_size")?;
    value
        .as_u64()
        .or_else(|| Some(value.as_str()?.parse::<Bytes>().ok()?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_image_and_limit_keep_their_ratios_and_records_stay() {
        let scope = Scope {
            size: 6 << 30,
            memory: 1 << 30,
            cpus: 2,
        };
        let spec = |params| WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
        let file = |params, scale| {
            of_workload(spec(params), scale, scope).map(|spec| spec.params["file_size"].clone())
        };
        let swept = json!({"file_size": 2u64 << 30, "block_size": 65536, "matrix": true});
        assert_eq!(file(swept.clone(), 0.125), Some(json!(256 << 20)));
        assert_eq!(file(swept.clone(), 1.0), Some(json!(2u64 << 30)));
        assert_eq!(
            file(swept, 1.0 / 1024.0 / 64.0),
            None,
            "32 KiB hold no record of 64 KiB"
        );
        assert_eq!(
            file(json!({"file_size": "size/8"}), 0.125),
            Some(json!(96 << 20))
        );
        let part =
            json!({"file_size": "1G", "block_size": "1M", "offset": "512M", "length": "12M"});
        let part = of_workload(spec(part), 0.125, scope).unwrap().params;
        assert_eq!([&part["offset"], &part["length"]], [64 << 20, 1 << 20]);
        let of = |value: &str| {
            let mut asked = BTreeMap::from([(MEMORY_LIMIT.to_owned(), value.to_owned())]);
            controls(&mut asked, 0.125);
            asked.remove(MEMORY_LIMIT).unwrap()
        };
        let pool = json!({"size_high": 1000, "number": 2000, "transactions": 50_000});
        let pool = of_workload(spec(pool), 0.125, scope).unwrap().params;
        // 3844 transactions change the pool by a quarter.
        assert_eq!(
            [&pool["number"], &pool["transactions"], &pool["size_high"]],
            [250, 3844, 1000]
        );
        let kept = json!({"number": 2000, "transactions": 50_000, "bias_create": -1});
        assert_eq!(
            of_workload(spec(kept), 0.125, scope).unwrap().params["transactions"],
            6250
        );
        let tree = |params: Value| {
            let spec = WorkloadSpec::new("filetree", serde_json::from_value(params).unwrap());
            of_workload(spec, 0.125, scope).unwrap().params["scale"].clone()
        };
        assert_eq!(
            [
                tree(json!({"set": "music"})),
                tree(json!({"scale": 0.5})),
                tree(json!({"scale": "?"}))
            ],
            [json!(0.125), json!(0.0625), json!("?")]
        );
        let served = |name: &str, params: Value| {
            let spec = WorkloadSpec::new(name, serde_json::from_value(params).unwrap());
            let params = of_workload(spec, 0.125, scope).unwrap().params;
            [&params["files"], &params["file_size"]].map(|value| value.as_u64().unwrap())
        };
        assert_eq!(
            served("fileserver", json!({"file_size": "128K"})),
            [1250, 128 << 10]
        );
        assert_eq!(
            served("webproxy", json!({})),
            [2000, 8192],
            "enough for its 100 threads, and fewer bytes"
        );
        assert_eq!(
            served("oltp", json!({"files": 10, "file_size": 8 << 20})),
            [10, 1 << 20]
        );
        let cycled = |params: Value, scale: f64| {
            let spec = WorkloadSpec::new("micro-read", serde_json::from_value(params).unwrap());
            let params = of_workload(spec, scale, scope).unwrap().params;
            ["iterations", "cycles"].map(|key| params[key].as_u64().unwrap())
        };
        let asked = json!({"iterations": 20, "cycles": 30, "threads": 2});
        assert_eq!(cycled(asked.clone(), 0.125), [2, 30]);
        assert_eq!(
            cycled(asked.clone(), 1.0 / 64.0),
            [2, 5],
            "an iteration of each thread, and enough samples"
        );
        assert_eq!(cycled(asked, 2.0), [40, 30]);
        assert_eq!(
            cycled(json!({"iterations": 1, "cycles": 3, "threads": 2}), 0.125),
            [1, 3]
        );
        assert_eq!(
            [of("512M"), of("1G:eater"), of("keep")],
            ["64M", "128M:eater", "keep"]
        );
        assert_eq!(image(Bytes(6 << 30), 0.125), Bytes(768 << 20));
        assert_eq!(
            image(Bytes(6 << 30), 0.01),
            Bytes(LEAST_IMAGE),
            "where every file system can be made"
        );
        assert_eq!(
            image(Bytes(64 << 20), 0.5),
            Bytes(64 << 20),
            "smaller only if it was"
        );
    }
}
