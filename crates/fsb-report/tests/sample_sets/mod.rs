//! Made-up sets for comparisons: IOzone's grid with a region where the second set is slower, and
//! workloads of ours with latencies, block by block.

use fsb_model::metric::{self, MetricKind};
use fsb_model::set::{Histogram, Point, Run, Series, Set};
use fsb_model::stop::Analyses;
use fsb_stats::compare::{CompareRequest, Document, compare};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// An operation of the grid: its rate in MiB/s, and how fast the sets are against the first, in the
/// middle of the grid.
struct Work {
    operation: &'static str,
    rate: f64,
    factors: [f64; 4],
    noise: f64,
}

const fn work(operation: &'static str, rate: f64, factors: [f64; 4], noise: f64) -> Work {
    Work {
        operation,
        rate,
        factors,
        noise,
    }
}

const GRID: [Work; 13] = [
    work("write", 1200.0, [1.0, 0.84, 1.1, 0.97], 0.02),
    work("rewrite", 1390.0, [1.0, 0.9, 1.08, 1.0], 0.02),
    work("read", 510.0, [1.0, 1.12, 1.0, 0.92], 0.03),
    work("reread", 540.0, [1.0, 1.1, 1.01, 0.95], 0.03),
    work("random_read", 410.0, [1.0, 1.005, 0.999, 1.002], 0.01),
    work("random_write", 1300.0, [1.0, 0.96, 1.02, 0.8], 0.02),
    work("backward_read", 390.0, [1.0, 1.02, 0.9, 0.97], 0.06),
    work("record_rewrite", 2450.0, [1.0, 0.99, 1.003, 1.0], 0.02),
    work("stride_read", 620.0, [1.0, 1.2, 1.15, 1.1], 0.05),
    work("fwrite", 1120.0, [1.0, 0.88, 1.05, 1.0], 0.02),
    work("frewrite", 1240.0, [1.0, 0.9, 1.06, 1.01], 0.02),
    work("fread", 560.0, [1.0, 1.0, 1.04, 0.9], 0.1),
    work("freread", 630.0, [1.0, 1.02, 1.03, 0.93], 0.04),
];

const MIB: f64 = 1048576.0;

/// Sets of IOzone's first `operations` on files of 64 KiB to `largest`, with `runs` runs each.
pub fn iozone(names: &[&str], runs: usize, operations: usize, largest: u64) -> Vec<Set> {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let sizes = sizes(largest);
    let mut set = |(place, name): (usize, &&str)| {
        let run = |random: &mut Pcg64Mcg, number: usize| Run {
            tool: "iozone".to_owned(),
            version: Some("3.471".to_owned()),
            command: Some("iozone -a -n 64k -g 512m -f test".to_owned()),
            path: format!("results/{name}_{number}.iozone"),
            clock_resolution: Some(1e-6),
            series: series(place, &GRID[..operations], &sizes, random),
            ..Run::default()
        };
        let runs = (1..=runs).map(|number| run(&mut random, number)).collect();
        Set {
            name: (*name).to_owned(),
            pairing: None,
            analyses: Analyses::default(),
            runs,
        }
    };
    names.iter().enumerate().map(&mut set).collect()
}

/// Files from 64 KiB, records from 4 KiB up to the file and to 16 MiB, as IOzone's automatic mode
/// has them.
fn sizes(largest: u64) -> Vec<(u64, u64)> {
    let powers = |from: u64, to: u64| {
        std::iter::successors(Some(from), |size| Some(size * 2)).take_while(move |s| *s <= to)
    };
    powers(65536, largest)
        .flat_map(|file| powers(4096, file.min(16 << 20)).map(move |record| (file, record)))
        .collect()
}

fn series(
    place: usize,
    works: &[Work],
    sizes: &[(u64, u64)],
    random: &mut Pcg64Mcg,
) -> Vec<Series> {
    let luck = normal(random) * 0.01;
    let one = |work: &Work, random: &mut Pcg64Mcg| {
        let points = sizes.iter().enumerate().map(|(line, (file, record))| {
            let middle = (131_072..=33_554_432).contains(file) && *record >= 16384;
            let factor = if middle { work.factors[place % 4] } else { 1.0 };
            let warm = 1.0 + 0.12 * (*record as f64 / 4096.0).log2()
                - 0.06 * (*file as f64 / 65536.0).log2();
            let noise = luck + normal(random) * work.noise;
            let value = work.rate * MIB * factor * warm.max(0.2) * noise.exp();
            Point {
                file_size: Some(*file),
                record_size: Some(*record),
                value,
                line: line as u32 + 30,
            }
        });
        let points = points.collect();
        column(None, work.operation, &metric::THROUGHPUT, "kB/s", points)
    };
    works.iter().map(|work| one(work, random)).collect()
}

/// Targets of one run of ours, block by block: rates and mean latencies of some workloads.
#[allow(
    dead_code,
    reason = "the example and the browser test compare the grid only"
)]
pub fn workloads(names: &[&str], blocks: u32) -> Vec<Set> {
    const LABELS: [(&str, &str, f64, [f64; 3]); 4] = [
        ("write 1M, durable", "write", 412.0, [1.0, 1.12, 0.69]),
        ("read 1M, cold", "read", 1900.0, [1.0, 1.004, 0.92]),
        (
            "random write 4K, durable each",
            "write",
            12.0,
            [1.0, 1.31, 0.42],
        ),
        ("scan 4K files, cold", "stat", 142.0, [1.0, 0.86, 0.91]),
    ];
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let luck: Vec<f64> = (0..blocks).map(|_| normal(&mut random) * 0.05).collect();
    let mut block_run = |place: usize, block: u32| {
        let mut run = Run {
            tool: "fsb".to_owned(),
            version: Some("0.1.0".to_owned()),
            ..Run::default()
        };
        (run.block, run.path) = (Some(block), "fsb-results/sample".to_owned());
        for (label, operation, base, factors) in LABELS {
            let noise = luck[block as usize - 1] + normal(&mut random) * 0.01;
            let rate = base * factors[place % 3] * noise.exp();
            let point = |value| {
                vec![Point {
                    file_size: None,
                    record_size: None,
                    value,
                    line: 1,
                }]
            };
            let workload = Some(label.to_owned());
            run.series.push(column(
                workload.clone(),
                operation,
                &metric::THROUGHPUT,
                "bytes_per_second",
                point(rate * MIB),
            ));
            run.series.push(column(
                workload.clone(),
                operation,
                &metric::LATENCY_MEAN,
                "seconds",
                point(1.0 / rate),
            ));
            let bins = (1..=200)
                .map(|step| (step * 1_000_000 / rate as u64, 50))
                .collect();
            run.histograms.push(Histogram {
                workload,
                operation: operation.to_owned(),
                bins,
            });
        }
        run
    };
    let mut set = |(place, name): (usize, &&str)| {
        let runs = (1..=blocks).map(|block| block_run(place, block)).collect();
        Set {
            name: (*name).to_owned(),
            pairing: Some("sample".to_owned()),
            analyses: Analyses::default(),
            runs,
        }
    };
    names.iter().enumerate().map(&mut set).collect()
}

fn column(
    workload: Option<String>,
    operation: &str,
    metric: &MetricKind,
    found_unit: &str,
    points: Vec<Point>,
) -> Series {
    Series {
        workload,
        operation: operation.to_owned(),
        metric: metric.name.to_owned(),
        unit: metric.unit,
        better: metric.better,
        found_unit: found_unit.to_owned(),
        points,
        gaps: Vec::new(),
    }
}

/// Compared with the first as the baseline, at 3 %.
pub fn compared(sets: &[Set]) -> Document {
    compare(sets, &CompareRequest::new(0, 0.03)).expect("the sample is sound")
}

fn normal(random: &mut Pcg64Mcg) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}
