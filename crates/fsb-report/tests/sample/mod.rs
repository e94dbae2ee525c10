//! A made-up run, shaped like the default suite on three file systems. It has everything that a
//! report must cope with: a winner, ties, undecided rows, a failed trial, an invalid one, rows that
//! do not apply, an outlier and a drift.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fsb_model::metric::{self, MetricKind};
use fsb_model::plan::Plan;
use fsb_model::run::{self, ControlRecord, MediumRecord, RunRecord, Segment, TargetRecord};
use fsb_model::stop::{StopReason, StoppingRule};
use fsb_model::trial::{self, Outcome, Phase, Trial};
use fsb_model::warning::{UnbackedMemory, Warning};
use fsb_model::workload::{Amount, Cell, Params, WorkloadSpec};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, json};

/// One workload of the sample.
struct Work {
    label: &'static str,
    name: &'static str,
    operation: &'static str,
    metric: &'static MetricKind,
    /// The value of the first target.
    base: f64,
    /// The factors of all targets relative to the first one.
    factors: [f64; 3],
    /// Scatter of a trial's logarithm.
    noise: f64,
    cache: &'static str,
    durability: &'static str,
}

const MIB: f64 = 1048576.0;

macro_rules! works {
    ($($label:literal $name:literal $operation:literal $metric:ident $base:expr, $factors:expr, $noise:literal $cache:literal $durability:literal;)*) => {
        &[$(Work { label: $label, name: $name, operation: $operation, metric: &metric::$metric, base: $base,
            factors: $factors, noise: $noise, cache: $cache, durability: $durability }),*]
    };
}

const WORKS: &[Work] = works! {
    "write 1M, durable" "write" "write" THROUGHPUT 412.0 * MIB, [1.0, 1.12, 0.69], 0.025 "any" "end";
    "read 1M, cold" "read" "read" THROUGHPUT 1.9 * 1024.0 * MIB, [1.0, 1.005, 0.92], 0.008 "cold" "none";
    "read 1M, warm" "read" "read" THROUGHPUT 7.4 * 1024.0 * MIB, [1.0, 1.002, 0.998], 0.006 "warm" "none";
    "random read 4K, cold" "read" "read" OPERATION_RATE 24_300.0, [1.0, 0.985, 0.81], 0.018 "cold" "none";
    "random write 4K, durable each" "write" "write" OPERATION_RATE 3_150.0, [1.0, 1.31, 0.42], 0.04 "any" "each";
    "append 4K, durable each" "append" "append" OPERATION_RATE 1_240.0, [1.0, 1.08, 0.55], 0.05 "any" "each";
    "create 4K files, durable" "create" "create" OPERATION_RATE 61_300.0, [1.0, 0.86, 0.91], 0.03 "any" "end";
    "create 4K files, durable, 2 threads" "create" "create" OPERATION_RATE 83_000.0, [1.0, 0.93, 0.97], 0.06 "any" "end";
    "scan 4K files, cold" "scan" "stat" OPERATION_RATE 142_000.0, [1.0, 1.24, 0.77], 0.02 "cold" "none";
    "read 4K files, cold" "read" "read" OPERATION_RATE 18_700.0, [1.0, 1.06, 0.71], 0.02 "cold" "none";
    "rename 4K files" "rename" "rename" OPERATION_RATE 118_000.0, [1.0, 0.97, 0.64], 0.03 "any" "none";
    "delete 4K files, durable" "delete" "delete" OPERATION_RATE 48_000.0, [1.0, 1.05, 1.01], 0.11 "any" "end";
};

/// Returns a run of `targets` over `blocks`, seeded.
pub fn run(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
    let record = record(targets, blocks);
    let mut random = Pcg64Mcg::seed_from_u64(42);
    let mut trials = Vec::new();
    let mut order = 0;
    for block in 1..=blocks {
        let luck = normal(&mut random) * 0.02;
        for turn in 0..targets.len() {
            let target = (turn + block as usize) % targets.len();
            for (index, work) in WORKS.iter().enumerate() {
                let mut made = trial(&record, target, index, block, order);
                finish(&mut made, work, target, luck, &mut random);
                trials.push(made);
                order += 1;
            }
        }
    }
    (record, trials)
}

/// Returns a run of the suite `fsbench`, whose values are times: less is better.
#[allow(
    dead_code,
    reason = "the example and the browser test make only the other run"
)]
pub fn micro(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
    let labels = [
        ("create 1000 files", 0.14, [1.0, 0.11, 0.12]),
        ("sequential read 512K", 0.011, [1.0, 1.01, 1.06]),
    ];
    let (mut record, _) = run(targets, blocks);
    record.plan.name = "fsbench".to_owned();
    record.cells.truncate(labels.len());
    for (cell, (label, ..)) in record.cells.iter_mut().zip(labels) {
        cell.label = label.to_owned();
    }
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut trials = Vec::new();
    for block in 1..=blocks {
        for target in 0..targets.len() {
            for (label, base, factors) in labels {
                let mut made = trial(&record, target, 0, block, trials.len() as u32);
                made.workload = label.to_owned();
                let value = base * factors[target % 3] * (normal(&mut random) * 0.01).exp();
                made.metrics = vec![metric::ITERATION_TIME.metric(value)];
                trials.push(made);
            }
        }
    }
    (record, trials)
}

/// Returns the same run measured side by side. Targets rotate over slices that differ by some per
/// cent, each trial has nine rounds, and interim analyses follow every third block from the sixth
/// on. The rates of the second target fall over the rounds at its renames, and come in two kinds at
/// `create 4K files, durable, 2 threads`.
#[allow(
    dead_code,
    reason = "the example and the browser test make only the other run"
)]
pub fn side_by_side(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
    let (mut record, mut trials) = run(targets, blocks);
    let slices = targets.len() as u32;
    record.placement = Some(run::Placement::SideBySide {
        slices,
        slice_bytes: 660 << 20,
    });
    record.interim_analyses = (2..=4).map(|rotation| 3 * rotation).collect();
    let rounds = run::Rounds {
        rounds: 9,
        units: 1,
        lead_in: true,
    };
    record.rounds = record
        .cells
        .iter()
        .map(|cell| (cell.label.clone(), rounds))
        .collect();
    let mut random = Pcg64Mcg::seed_from_u64(9);
    for trial in trials
        .iter_mut()
        .filter(|trial| trial.outcome == Outcome::Ok)
    {
        let target = targets
            .iter()
            .position(|name| *name == trial.target)
            .unwrap_or(0);
        let slice = (target as u32 + trial.block) % slices;
        trial.slice = Some(slice);
        let place = (0.04 * (f64::from(slice) - f64::from(slices - 1) / 2.0)).exp();
        trial.metrics[0].value *= place;
        let slower = |round: usize, random: &mut Pcg64Mcg| match (target, trial.workload.as_str()) {
            (1, "rename 4K files") => 0.02 * round as f64,
            (1, "create 4K files, durable, 2 threads") if random.random_range(0.0..1.0) < 0.4 => {
                1.0
            }
            _ => 0.0,
        };
        let time = |round: usize| {
            let log = slower(round, &mut random) + 0.03 * normal(&mut random);
            (1e8 * log.exp()) as u64
        };
        trial.samples = trial::Samples {
            units: 1,
            operations: 4000,
            timed_ns: (0..9).map(time).collect(),
            ..trial::Samples::default()
        };
    }
    (record, trials)
}

fn normal(random: &mut Pcg64Mcg) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}

fn trial(record: &RunRecord, target: usize, index: usize, block: u32, order: u32) -> Trial {
    let (work, target) = (&WORKS[index], &record.plan.targets[target]);
    let params: Params = [
        ("name", json!(work.name)),
        (
            "file_size",
            json!(if work.label.contains("files") {
                4096
            } else {
                268_435_456
            }),
        ),
        (
            "block_size",
            json!(if work.label.contains("1M") {
                1_048_576
            } else {
                4096
            }),
        ),
        (
            "files",
            json!(if work.label.contains("files") {
                4096
            } else {
                1
            }),
        ),
        (
            "access",
            json!(if work.label.starts_with("random") {
                "random"
            } else {
                "sequential"
            }),
        ),
        (
            "threads",
            json!(if work.label.contains("2 threads") {
                2
            } else {
                1
            }),
        ),
        ("cache", json!(work.cache)),
        ("backend", json!("psync")),
        ("durability", json!(work.durability)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    Trial {
        schema: trial::SCHEMA.to_owned(),
        id: format!("b{block}.{}.{}", target.name, work.label),
        phase: Phase::Measured,
        block,
        order,
        attempt: 1,
        target: target.name.clone(),
        kernel: "6.18.44".to_owned(),
        workload: work.label.to_owned(),
        operation: work.operation.to_owned(),
        params,
        started: "2026-11-20T15:04:05Z".to_owned(),
        outcome: Outcome::Ok,
        error: None,
        error_code: None,
        errno: None,
        metrics: Vec::new(),
        latency: BTreeMap::new(),
        workers: Vec::new(),
        requested: Map::new(),
        observed: Default::default(),
        interference: Vec::new(),
        superseded: false,
        slice: None,
        samples: Default::default(),
        timelines: Vec::new(),
        extra: Map::new(),
    }
}

fn finish(trial: &mut Trial, work: &Work, target: usize, luck: f64, random: &mut Pcg64Mcg) {
    let scatter = normal(random) * work.noise;
    let is_tmpfs = trial.target == "tmpfs";
    if is_tmpfs && (work.cache == "cold" || work.durability != "none") {
        let what = if work.cache == "cold" {
            "tmpfs is never cold"
        } else {
            "tmpfs is never durable"
        };
        (trial.outcome, trial.error) = (Outcome::NotApplicable, Some(what.to_owned()));
        return;
    }
    match (trial.block, target, work.label) {
        (4, 2, "write 1M, durable") => {
            let error = "write to /target/f0000: No space left on device (ENOSPC)";
            (trial.outcome, trial.error) = (Outcome::Failed, Some(error.to_owned()));
            return;
        }
        (7, 0, "read 1M, cold") => {
            let error = "not cold: the device read 12 MiB of 256 MiB";
            (trial.outcome, trial.error) = (Outcome::Invalid, Some(error.to_owned()));
            return;
        }
        _ => {}
    }
    let drift = if work.name == "rename" && target == 1 {
        -0.03 * f64::from(trial.block)
    } else {
        0.0
    };
    let outlier = if trial.block == 6 && target == 0 && work.label == "read 4K files, cold" {
        -0.22
    } else {
        0.0
    };
    let factor = work.factors[target % 3] * if is_tmpfs { 12.5 } else { 1.0 };
    let value = work.base * factor * (luck + scatter + drift + outlier).exp();
    let unit = if work.metric.name == "throughput" {
        MIB
    } else {
        1.0
    };
    let rate = value / unit;
    let flushes = if work.durability == "each" { 1.02 } else { 0.0 };
    trial.metrics = vec![
        work.metric.metric(value),
        metric::LATENCY_MEAN.metric(1.0 / rate),
        metric::LATENCY_P50.metric(0.8 / rate),
        metric::LATENCY_P99.metric(3.1 / rate),
        metric::CPU_PER_OPERATION.metric(0.31 / rate * (1.0 + 0.02 * normal(random))),
        metric::DEVICE_BYTES_PER_OPERATION.metric(if work.cache == "warm" {
            0.0
        } else {
            4096.0 * (1.1 + target as f64 * 0.2)
        }),
        metric::DEVICE_FLUSHES_PER_OPERATION.metric(flushes),
    ];
    trial.latency.insert(
        work.operation.to_owned(),
        latencies(1e9 / (work.base * factor / unit)),
    );
}

/// Returns a histogram of operations with a mean of about `mean` nanoseconds. All blocks share it,
/// because packing histograms takes most of the time here.
fn latencies(mean: f64) -> String {
    static PACKED: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());
    let mut packed = PACKED.lock().expect("nothing panics while it is held");
    let pack = || {
        let mut random = Pcg64Mcg::seed_from_u64(mean.to_bits());
        encoded((0..2000).map(|_| 0.8 * mean * (normal(&mut random) * 0.35).exp()))
    };
    packed.entry(mean.to_bits()).or_insert_with(pack).clone()
}

fn encoded(nanoseconds: impl Iterator<Item = f64>) -> String {
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).expect("bounds are good");
    nanoseconds.for_each(|value| histogram.saturating_record(value.max(1.0) as u64));
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("a vector takes everything");
    STANDARD.encode(bytes)
}

fn record(targets: &[&str], blocks: u32) -> RunRecord {
    let targets: Vec<fsb_model::Target> = targets
        .iter()
        .map(|text| text.parse().expect("a good target"))
        .collect();
    let cell = |work: &Work| Cell {
        label: work.label.to_owned(),
        workload: WorkloadSpec::new(work.name, Params::new()),
    };
    let found = |target: &fsb_model::Target| {
        let fs = target
            .file_system()
            .map_or("directory", |spec| spec.fs.as_str())
            .to_owned();
        let record = TargetRecord {
            mkfs_version: Some(format!("mkfs.{fs} 1.47.0")),
            mkfs_command: vec![
                format!("mkfs.{fs}"),
                "-q".to_owned(),
                "/dev/loop0".to_owned(),
            ],
            features: vec![
                "has_journal".to_owned(),
                "extent".to_owned(),
                "64bit".to_owned(),
            ],
            block_size: Some(4096),
            mount_options: vec!["rw".to_owned(), "relatime".to_owned()],
            medium: Some("loop".to_owned()),
            ..TargetRecord::default()
        };
        (target.name.clone(), record)
    };
    let segment = Segment {
        boot_id: "c0ffee".to_owned(),
        kernel: "6.18.44".to_owned(),
        fsb_version: "0.1.0".to_owned(),
        started: "2026-11-20T15:04:05Z".to_owned(),
        ended: Some("2026-11-20T15:08:36Z".to_owned()),
    };
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let name = names.join("-");
    let made = targets.iter().map(found).collect();
    let plan = Plan {
        name: "quick".to_owned(),
        targets,
        seed: 42,
        dir: "/var/tmp".into(),
        ..Plan::default()
    };
    RunRecord {
        name,
        cells: WORKS.iter().map(cell).collect(),
        amounts: WORKS
            .iter()
            .map(|work| (work.label.to_owned(), Amount::new(2, 20_000)))
            .collect(),
        blocks_planned: Some(blocks),
        stopping_rule: Some(StoppingRule::Budget {
            budget_seconds: 300.0,
            most_blocks: 30,
            planned: blocks,
        }),
        host: host(),
        media: [("loop".to_owned(), medium())].into(),
        targets: made,
        controls: controls(),
        warnings: vec![Warning::NotUndone {
            entry: "CPU steal 3 %: 4 of 360 trials affected and retried".to_owned(),
        }],
        stop_reason: Some(StopReason::BudgetPlanned {
            blocks,
            most: false,
        }),
        ..RunRecord::new(plan, segment)
    }
}

fn host() -> fsb_model::host::HostManifest {
    let text = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    fsb_model::host::HostManifest {
        kernel: "6.18.44".to_owned(),
        kernel_build: "#1 SMP PREEMPT_DYNAMIC".to_owned(),
        command_line: Some("root=/dev/vda1 ro quiet".to_owned()),
        distribution: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        architecture: "x86_64".to_owned(),
        cpu: Some("AMD EPYC 7763 64-Core Processor".to_owned()),
        cpus: 2,
        numa_nodes: Some(1),
        memory_bytes: 8 << 30,
        mitigations: text(&[
            ("meltdown", "Not affected"),
            ("spectre_v2", "Mitigation: Retpolines; IBPB: conditional"),
        ]),
        clock_source: Some("kvm-clock".to_owned()),
        hypervisor: Some("kvm".to_owned()),
        sysctls: text(&[
            ("vm.dirty_ratio", "20"),
            ("vm.dirty_background_ratio", "10"),
        ]),
        fsb_version: "0.1.0".to_owned(),
        ..fsb_model::host::HostManifest::default()
    }
}

fn medium() -> MediumRecord {
    MediumRecord {
        direct: Some(true),
        filled: Some("2 GiB with O_DIRECT".to_owned()),
        summary: "loop 2 GiB, direct".to_owned(),
        unjudged: None,
        device: fsb_model::host::DeviceManifest {
            name: "loop0".to_owned(),
            size_bytes: 2 << 30,
            backing: Some("ext4 on /dev/vda1".to_owned()),
            queue: [
                ("scheduler".to_owned(), "none".to_owned()),
                ("rotational".to_owned(), "0".to_owned()),
            ]
            .into(),
            ..fsb_model::host::DeviceManifest::default()
        },
    }
}

fn controls() -> BTreeMap<String, ControlRecord> {
    let control = |requested: &str, observed: &str| ControlRecord {
        requested: requested.to_owned(),
        observed: observed.to_owned(),
        effective: true,
    };
    [
        (
            "page-cache".to_owned(),
            control("remount", "remounted and dropped before every cold trial"),
        ),
        (
            "guest-memory".to_owned(),
            control("on", "6.9 GiB touched at warm speed"),
        ),
    ]
    .into()
}

/// The warning of a run beside another one.
#[allow(
    dead_code,
    reason = "not every test program that includes this file uses it"
)]
pub fn concurrent() -> Warning {
    Warning::Concurrent {
        run: "process 7 (fsb run ext4)".to_owned(),
        more: 0,
    }
}

/// The warning of a run in a virtual machine whose free memory was not touched.
#[allow(
    dead_code,
    reason = "not every test program that includes this file uses it"
)]
pub fn unbacked_memory() -> Warning {
    Warning::UnbackedMemory {
        cause: UnbackedMemory::LeftAlone,
    }
}
