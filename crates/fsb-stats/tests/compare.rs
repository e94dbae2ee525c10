//! Properties of every comparison of sets.

use std::ops::Not;

use fsb_model::set::{Failure, GapReason, Point, Run, Samples, Series, Set, Setting, UNKNOWN_WORK};
use fsb_model::stop::Analyses;
use fsb_model::{Better, Unit};
use fsb_stats::compare::{
    ALL, CompareRequest, Document, Finding, OURS, Pooled, all_pairs, compare,
};
use fsb_stats::{
    Between, BetweenSource, BlockValue, Method, Ranking, Unjudged, Verdict, hold_over_page,
};
use proptest::prelude::*;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Real IOzone results as sets. (Reading foreign files is `fsb-compat`'s, which this crate must not
/// know.)
mod iozone {
    use std::path::Path;

    use super::*;

    pub const OPERATIONS: [&str; 13] = [
        "write",
        "rewrite",
        "read",
        "reread",
        "random_read",
        "random_write",
        "backward_read",
        "record_rewrite",
        "stride_read",
        "fwrite",
        "frewrite",
        "fread",
        "freread",
    ];

    /// The runs in a directory of the test data, by name of the file.
    pub fn runs(directory: &str) -> Vec<Run> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("testdata")
            .join(directory);
        let mut files: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty());
        files
            .iter()
            .map(|file| run(&std::fs::read_to_string(file).unwrap()))
            .collect()
    }

    pub fn set(name: &str, runs: Vec<Run>) -> Set {
        Set {
            name: name.to_owned(),
            pairing: None,
            analyses: Analyses::default(),
            runs,
        }
    }

    fn run(text: &str) -> Run {
        let mut series: Vec<Series> = OPERATIONS
            .iter()
            .map(|operation| column(operation))
            .collect();
        for line in text.lines() {
            let numbers: Option<Vec<u64>> = line
                .split_whitespace()
                .map(|word| word.parse().ok())
                .collect();
            let Some(numbers) = numbers.filter(|numbers| numbers.len() == 15) else {
                continue;
            };
            let (file_size, record_size) = (Some(numbers[0] * 1024), Some(numbers[1] * 1024));
            for (series, rate) in series
                .iter_mut()
                .zip(&numbers[2..])
                .filter(|(_, rate)| **rate > 0)
            {
                series.points.push(Point {
                    file_size,
                    record_size,
                    value: *rate as f64 * 1024.0,
                    line: 0,
                });
            }
        }
        Run {
            tool: "iozone".to_owned(),
            series,
            ..Run::default()
        }
    }

    fn column(operation: &str) -> Series {
        Series {
            workload: None,
            operation: operation.to_owned(),
            metric: "throughput".to_owned(),
            unit: Unit::BytesPerSecond,
            better: Better::Higher,
            found_unit: "kB/s".to_owned(),
            points: Vec::new(),
            gaps: Vec::new(),
        }
    }
}

const REQUEST: CompareRequest = CompareRequest::new(0, 0.03);
const SIZES: [u64; 4] = [4096, 16384, 65536, 262_144];

fn published() -> [Set; 2] {
    ["xfs", "ext4"].map(|name| iozone::set(name, iozone::runs(&format!("iozone-2010/{name}"))))
}

/// Returns a run of `tool` with one operation over a square grid.
fn run(tool: &str, workload: Option<&str>, mut value: impl FnMut(u64, u64) -> Option<f64>) -> Run {
    let sizes = SIZES
        .iter()
        .flat_map(|file| SIZES.iter().map(move |record| (*file, *record)));
    let points = sizes.filter_map(|(file, record)| {
        Some(Point {
            file_size: Some(file),
            record_size: Some(record),
            value: value(file, record)?,
            line: 1,
        })
    });
    let series = Series {
        workload: workload.map(str::to_owned),
        operation: "write".to_owned(),
        metric: "throughput".to_owned(),
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        found_unit: "kB/s".to_owned(),
        points: points.collect(),
        gaps: Vec::new(),
    };
    Run {
        tool: tool.to_owned(),
        path: "file".to_owned(),
        series: vec![series],
        ..Run::default()
    }
}

fn blocks(name: &str, pairing: &str, runs: Vec<Run>) -> Set {
    let runs = (1..)
        .zip(runs)
        .map(|(block, run)| Run {
            block: Some(block),
            ..run
        })
        .collect();
    Set {
        name: name.to_owned(),
        pairing: Some(pairing.to_owned()),
        analyses: Analyses::default(),
        runs,
    }
}

/// Checks the properties of every document: counts add up, numbers are finite, findings do not
/// overlap and are at most seven per operation.
fn check(document: &Document) {
    for operation in &document.operations {
        for (name, grid) in operation.grid.iter().flat_map(|grid| &grid.against) {
            let Some(grid) = grid else { continue };
            assert_eq!(
                grid.cells,
                grid.faster + grid.slower + grid.same + grid.uncertain
            );
            let slices = |slices: &[fsb_stats::compare::Slice]| -> usize {
                slices
                    .iter()
                    .filter_map(|slice| slice.grid.against[name].as_ref())
                    .map(|grid| grid.cells)
                    .sum()
            };
            assert_eq!(
                slices(&operation.by_file_size),
                grid.cells,
                "{}",
                operation.operation
            );
            assert_eq!(slices(&operation.by_record_size), grid.cells);
            let estimate = operation.estimate.against[name].as_ref();
            assert_eq!(
                grid.verdict,
                estimate.map_or(Verdict::NotJudged, |estimate| estimate.verdict)
            );
        }
        let findings = document
            .findings
            .iter()
            .filter(|finding| finding.operation == operation.operation);
        let within = |inner: Option<[u64; 2]>, outer: Option<[u64; 2]>| match (inner, outer) {
            (Some(inner), Some(outer)) => outer[0] <= inner[0] && inner[1] <= outer[1],
            (inner, outer) => inner == outer,
        };
        for a in findings.clone() {
            assert!(
                a.agreeing <= a.cells && a.ci95[0] <= a.ratio && a.ratio <= a.ci95[1],
                "{a:?}"
            );
            let of = findings.clone().filter(|b| b.candidate == a.candidate);
            let around = of.clone().filter(|b| {
                within(a.file_size, b.file_size) && within(a.record_size, b.record_size)
            });
            assert_eq!((around.count(), of.count() <= 7), (1, true), "{a:?}");
        }
    }
    let json = serde_json::to_string(document).unwrap();
    assert!(!json.contains("NaN") && !json.contains("inf"));
}

#[test]
fn the_published_sets() {
    let document = compare(&published(), &REQUEST).unwrap();
    check(&document);
    assert_eq!(document.operations.len(), 14);
    assert_eq!(document.operations.last().unwrap().operation, ALL);
    assert_eq!(
        (document.coverage.common, document.coverage.only["xfs"]),
        (2119, 0)
    );
    let write = &document.operations[0];
    let estimate = write.estimate.against["ext4"].as_ref().unwrap();
    assert_eq!(
        (estimate.n, estimate.method, estimate.verdict),
        (5, Method::Welch, Verdict::Slower)
    );
    assert!(document.findings.iter().any(|finding| {
        finding
            .text
            .starts_with("ext4 is slower than xfs at write: −15 %")
    }));
}

#[test]
fn the_operations_of_iozone_in_runs_of_ours_have_the_same_pool() {
    let ours = published().map(|mut set| {
        for run in &mut set.runs {
            run.tool = OURS.to_owned();
            run.series
                .iter_mut()
                .for_each(|series| series.workload = Some(series.operation.replace('_', " ")));
        }
        set
    });
    let [theirs, own] = [&published(), &ours]
        .map(|sets| compare(sets, &REQUEST).unwrap().operations.pop().unwrap());
    assert_eq!((own.operation.as_str(), own.workload.as_ref()), (ALL, None));
    assert!(own.primary);
    for name in ["xfs", "ext4"] {
        let [ours, theirs] =
            [&own, &theirs].map(|operation| operation.classic.sets[name].clone().unwrap());
        let values = |pooled: &Pooled| {
            (
                pooled.n,
                [pooled.min, pooled.q1, pooled.median, pooled.q3, pooled.max],
            )
        };
        assert_eq!(values(&ours), values(&theirs), "{name}");
        assert!((ours.mean / theirs.mean - 1.0).abs() < 1e-12, "{name}");
    }
    let verdicts = [&own, &theirs].map(|operation| {
        operation.classic.against["ext4"]
            .as_ref()
            .unwrap()
            .t_verdict
    });
    assert_eq!(verdicts[0], verdicts[1]);
    let single = CompareRequest {
        pooled: false,
        ..REQUEST
    };
    assert!(
        compare(&ours, &single)
            .unwrap()
            .operations
            .iter()
            .all(|operation| operation.operation != ALL)
    );
    // Other operations are not pooled, and one operation alone makes no pool.
    let mut other = ours.clone();
    other
        .iter_mut()
        .flat_map(|set| &mut set.runs)
        .for_each(|run| {
            run.series.truncate(2);
            run.series[1].operation = "append".to_owned();
        });
    assert!(
        compare(&other, &REQUEST)
            .unwrap()
            .operations
            .iter()
            .all(|operation| operation.operation != ALL)
    );
    // A workload that may not be judged takes the pool with it.
    let mut document = compare(&ours, &REQUEST).unwrap();
    document.withhold_at("write", "the trials of write were invalid".to_owned());
    let pool = document.operations.last().unwrap();
    assert_eq!(
        pool.estimate.against["ext4"].as_ref().unwrap().verdict,
        Verdict::NotJudged
    );
    assert_eq!(pool.classic.sets, own.classic.sets, "the values stay");
}

#[test]
fn the_other_baseline_tells_the_same() {
    let sets = published();
    let there = compare(&sets, &REQUEST).unwrap();
    let back = compare(
        &sets,
        &CompareRequest {
            baseline: 1,
            ..REQUEST
        },
    )
    .unwrap();
    assert_eq!(
        (back.baseline.as_str(), back.sets[0].name.as_str()),
        ("ext4", "xfs")
    );
    for (a, b) in there.operations.iter().zip(&back.operations) {
        let (a, b) = (
            a.estimate.against["ext4"].as_ref().unwrap(),
            b.estimate.against["xfs"].as_ref().unwrap(),
        );
        assert!((a.ratio * b.ratio - 1.0).abs() < 1e-12);
        assert_eq!(a.verdict, b.verdict.inverse());
    }
    assert_eq!(there.findings.len(), back.findings.len());
}

#[test]
fn a_third_set_widens_intervals_and_brings_letters() {
    let [xfs, ext4] = published();
    let twin = Set {
        name: "twin".to_owned(),
        ..xfs.clone()
    };
    let mut fast = Set {
        name: "fast".to_owned(),
        ..xfs.clone()
    };
    fast.runs
        .iter_mut()
        .flat_map(|run| &mut run.series)
        .flat_map(|s| &mut s.points)
        .for_each(|p| p.value *= 2.0);
    let two = compare(&[xfs.clone(), ext4.clone()], &REQUEST).unwrap();
    let with_twin = compare(&[xfs.clone(), ext4.clone(), twin], &REQUEST).unwrap();
    let three = compare(&[xfs, ext4, fast], &REQUEST).unwrap();
    check(&three);
    let width = |document: &Document| {
        let [lo, hi] = document.operations[0].estimate.against["ext4"]
            .as_ref()
            .unwrap()
            .ci95
            .unwrap();
        hi - lo
    };
    assert!(width(&with_twin) > width(&two));
    // All three intervals hold together, whatever the others show.
    assert_eq!(width(&three), width(&with_twin));
    let letters = &three.operations[0].letters;
    assert_eq!(letters["fast"].as_deref(), Some("a"));
    assert_eq!(letters["ext4"].as_deref(), Some("c"));
}

#[test]
fn a_truncated_run_costs_itself_not_the_others() {
    let [xfs, mut ext4] = published();
    let whole = compare(&[xfs.clone(), ext4.clone()], &REQUEST).unwrap();
    for series in &mut ext4.runs[2].series {
        series.points.truncate(20);
    }
    let document = compare(&[xfs, ext4], &REQUEST).unwrap();
    check(&document);
    let estimate = |document: &Document| {
        document.operations[0].estimate.against["ext4"]
            .clone()
            .unwrap()
    };
    assert_eq!(estimate(&document).n, 4);
    assert!((estimate(&document).ratio / estimate(&whole).ratio - 1.0).abs() < 0.03);
    // The small sizes it still has are compared with all five runs.
    let smallest = document.operations[0].by_file_size[0].grid.against["ext4"]
        .as_ref()
        .unwrap();
    assert_ne!(smallest.verdict, Verdict::NotJudged);
    let warning = document
        .warnings
        .iter()
        .find(|warning| warning.contains("lacks"))
        .unwrap();
    assert!(
        warning.contains("1859 of 2119") && warning.contains("left out of 13 estimates"),
        "{warning}"
    );
}

/// The numbers of `oracle/pooled.json`, which `oracle/pooled.py` wrote.
#[test]
fn the_statistics_of_runs_that_lack_cells_are_those_of_scipy() {
    let oracle: serde_json::Value =
        serde_json::from_str(include_str!("oracle/pooled.json")).unwrap();
    let sizes: Vec<[u64; 2]> = serde_json::from_value(oracle["sizes"].clone()).unwrap();
    let place = |file, record| sizes.iter().position(|size| *size == [file, record]);
    let set = |name: &str| {
        let runs = oracle["sets"][name]["values"].as_array().unwrap();
        let runs = runs.iter().map(|values| {
            run("iozone", None, |file, record| {
                values[place(file, record)?].as_f64()
            })
        });
        iozone::set(name, runs.collect())
    };
    let document = compare(&[set("old"), set("new")], &REQUEST).unwrap();
    let operation = serde_json::to_value(&document.operations[0]).unwrap();
    for name in ["old", "new"] {
        let expected = &oracle["sets"][name];
        let found = &operation["classic"]["sets"][name];
        for (statistic, expected) in expected["pooled"].as_object().unwrap() {
            close(&found[statistic], expected, statistic);
        }
        close(
            &operation["estimate"]["values"][name],
            &expected["value"],
            name,
        );
    }
    let value = |name: &str| document.operations[0].estimate.values[name].unwrap();
    let against = document.operations[0].estimate.against["new"]
        .as_ref()
        .unwrap();
    assert!((value("new") / value("old") / against.ratio - 1.0).abs() < 1e-12);
}

/// Returns a run with one value, the mean of these samples.
fn sampled(workload: Option<&str>, operation: &str, values: &[f64]) -> Run {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let mut one = run("micro", workload, |_, _| Some(mean));
    one.series[0].points.truncate(1);
    one.series[0].operation = operation.to_owned();
    one.samples = vec![Samples {
        workload: workload.map(str::to_owned),
        operation: operation.to_owned(),
        metric: "throughput".to_owned(),
        values: values.to_vec(),
    }];
    one
}

#[test]
fn samples_within_a_run_are_described_and_the_run_is_the_unit() {
    let set = |name: &str, samples: &[&[f64]]| {
        let runs = samples
            .iter()
            .map(|values| sampled(Some("create"), "create", values));
        iozone::set(name, runs.collect())
    };
    let old = set("old", &[&[100.0, 110.0, 90.0, 500.0]]);
    let new = set("new", &[&[210.0, 200.0, 190.0], &[220.0, 230.0, 180.0]]);
    let document = compare(&[old, new], &REQUEST).unwrap();
    let operation = &document.operations[0];
    let pooled = |name: &str| operation.classic.sets[name].as_ref().unwrap();
    assert_eq!(
        (pooled("old").n, pooled("old").mean, pooled("new").n),
        (4, 200.0, 6)
    );
    let against = operation.classic.against["new"].as_ref().unwrap();
    assert!(against.t_p.is_some());
    // The value of the run is the arithmetic mean of its samples.
    let value = operation.estimate.values["old"].unwrap();
    assert!((value - 200.0).abs() < 1e-9, "{value}");
    let estimate = operation.estimate.against["new"].as_ref().unwrap();
    assert_eq!(estimate.verdict, Verdict::NotJudged);
    assert_eq!((document.sets[1].runs, document.sets[1].blocks), (2, None));
}

#[test]
fn work_without_a_name_is_the_only_work_of_the_others() {
    let set = |workload: Option<&str>, operation: &str| {
        let runs = vec![sampled(workload, operation, &[1.0, 2.0])];
        iozone::set(workload.unwrap_or("unnamed"), runs)
    };
    let unknown = || set(None, UNKNOWN_WORK);
    let named = set(Some("create"), "create");
    for sets in [[unknown(), named.clone()], [named.clone(), unknown()]] {
        let document = compare(&sets, &REQUEST).unwrap();
        let operation = &document.operations[0];
        assert_eq!(
            (operation.workload.as_deref(), operation.operation.as_str()),
            (Some("create"), "create")
        );
        for name in ["unnamed", "create"] {
            assert_eq!(
                operation.classic.sets[name].as_ref().unwrap().n,
                2,
                "{name}"
            );
        }
    }
    let other = set(Some("read"), "read");
    let apart = compare(&[unknown(), named, other], &REQUEST).unwrap();
    assert!(apart.operations.is_empty());
}

/// Checks that numbers, or the numbers of lists, agree to ten digits.
fn close(found: &serde_json::Value, expected: &serde_json::Value, what: &str) {
    let numbers = |value: &serde_json::Value| match value {
        serde_json::Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    let (found, expected) = (numbers(found), numbers(expected));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
        assert!(
            (found / expected - 1.0).abs() < 1e-10,
            "{what}: {found}, expected {expected}"
        );
    }
}

#[test]
fn single_runs_are_described() {
    let sets = published().map(|set| Set {
        runs: set.runs[..1].to_vec(),
        ..set
    });
    let document = compare(&sets, &REQUEST).unwrap();
    check(&document);
    assert!(document.findings.is_empty());
    for operation in &document.operations {
        let estimate = operation.estimate.against["ext4"].as_ref().unwrap();
        assert_eq!(
            (estimate.n, estimate.ci95, estimate.verdict),
            (1, None, Verdict::NotJudged)
        );
        let grid = operation.grid.as_ref().unwrap().against["ext4"]
            .as_ref()
            .unwrap();
        assert_eq!(grid.uncertain, grid.cells);
    }
    assert!(
        document
            .warnings
            .iter()
            .any(|warning| warning.starts_with("xfs, ext4: 1 run: described"))
    );
}

#[test]
fn one_set_is_described_and_nothing_in_common_is_said() {
    let [xfs, _] = published();
    let alone = compare(std::slice::from_ref(&xfs), &REQUEST).unwrap();
    assert_eq!(alone.operations.len(), 14);
    assert!(alone.findings.is_empty() && alone.operations[0].estimate.against.is_empty());
    let mut other = Set {
        name: "other".to_owned(),
        pairing: None,
        analyses: Analyses::default(),
        runs: vec![run("iozone", None, |_, _| Some(1.0))],
    };
    other.runs[0].series[0].operation = "unheard".to_owned();
    let apart = compare(&[xfs, other], &REQUEST).unwrap();
    assert_eq!(
        (
            apart.operations.len(),
            apart.coverage.common,
            apart.coverage.only["other"]
        ),
        (0, 0, 16)
    );
    assert!(
        apart
            .warnings
            .iter()
            .any(|warning| warning.contains("only other measured unheard"))
    );
}

/// The comparison of one run equals the ranking of its report: the same slices, analyses and
/// interval.
#[test]
fn blocks_on_slices_are_compared_as_the_report_ranks_them() {
    // Two targets exchange two slices, and one slice is 8 % faster. The second target is 5 %
    // slower.
    let value = |target: usize, block: u32| {
        let slice = (block + target as u32) % 2;
        let luck = 1.0 + 0.002 * f64::from((block * 7 + target as u32 * 3) % 5);
        (
            slice,
            100.0 * luck * [1.0, 0.95][target] * [1.0, 1.08][slice as usize],
        )
    };
    let analyses = Analyses {
        after: vec![6, 9, 12],
        last_block: 12,
        ended_by_results: false,
    };
    let set = |target: usize| {
        let runs = (0..12).map(|block| {
            let (slice, value) = value(target, block);
            Run {
                slice: Some(slice),
                ..run("fsb", Some("read"), |_, _| Some(value))
            }
        });
        Set {
            analyses: analyses.clone(),
            ..blocks(["first", "second"][target], "one run", runs.collect())
        }
    };
    let document = compare(&[set(0), set(1)], &REQUEST).unwrap();
    let values = |target: usize| {
        let of = |block: u32| {
            let (slice, value) = value(target, block);
            BlockValue {
                slice: Some(slice),
                ..BlockValue::new(block + 1, value)
            }
        };
        (0..12).map(of).collect::<Vec<_>>()
    };
    let mut ranking = Ranking::of_run(
        &[values(0), values(1)],
        &analyses,
        Better::Higher,
        REQUEST.theta,
    )
    .unwrap();
    hold_over_page([&mut ranking]);
    let expected = &ranking.pairs[0].comparison;
    let found = &document.operations[0].ranking.pairs[0].comparison;
    assert_eq!(
        (found.method, found.verdict, found.n),
        (Method::PairedOnSlices, Verdict::Slower, 12)
    );
    let (found, expected) = (found.interval.unwrap(), expected.interval.unwrap());
    assert!(
        (found.lo / expected.lo - 1.0).abs() < 1e-9 && (found.hi / expected.hi - 1.0).abs() < 1e-9
    );
    assert!(
        expected.hi / expected.lo < 1.02,
        "the parts are taken out: {expected:?}"
    );
}

#[test]
fn names_of_jobs_do_not_keep_tools_apart() {
    let set = |name: &str, tool: &str, workload: Option<&str>, speed: f64| Set {
        name: name.to_owned(),
        pairing: None,
        analyses: Analyses::default(),
        runs: (0..5)
            .map(|i| run(tool, workload, |_, _| Some(speed + f64::from(i))))
            .collect(),
    };
    let sets = [
        set("old", "iozone", None, 100.0),
        set("new", "fio", Some("job"), 200.0),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    check(&document);
    assert_eq!(
        (
            document.operations.len(),
            document.operations[0].workload.clone()
        ),
        (1, None)
    );
    assert!(
        document
            .warnings
            .iter()
            .any(|warning| warning.contains("different tools"))
    );
    // With two jobs of one operation the names are needed, and nothing is left in common.
    let mut two = set("new", "fio", Some("job"), 200.0);
    two.runs.iter_mut().for_each(|r| {
        r.series.push(
            run("fio", Some("deep"), |_, _| Some(300.0))
                .series
                .remove(0),
        )
    });
    assert!(
        compare(&[sets[0].clone(), two], &REQUEST)
            .unwrap()
            .operations
            .is_empty()
    );
}

/// Blocks of one run are compared block by block: what a block has in common cancels out.
#[test]
fn blocks_are_paired_only_within_one_run() {
    let luck = [1.0, 3.0, 0.5, 2.0, 5.0];
    let set = |name: &str, pairing: &str, speed: f64| {
        let of = |(i, luck): (usize, &f64)| {
            run("fsb", Some("write 1M"), |file, _| {
                Some(luck * speed * (1.0 + 0.001 * (i as f64 + file as f64 / 1e6)))
            })
        };
        blocks(name, pairing, luck.iter().enumerate().map(of).collect())
    };
    let together = compare(&[set("a", "one", 100.0), set("b", "one", 90.0)], &REQUEST).unwrap();
    check(&together);
    let paired = together.operations[0].estimate.against["b"]
        .as_ref()
        .unwrap();
    assert_eq!(
        (paired.method, paired.n, paired.verdict),
        (Method::Paired, 5, Verdict::Slower)
    );
    assert_eq!(together.findings.len(), 1);
    let apart = compare(&[set("a", "one", 100.0), set("b", "two", 90.0)], &REQUEST).unwrap();
    let welch = apart.operations[0].estimate.against["b"].as_ref().unwrap();
    assert_eq!(
        (welch.method, welch.n, welch.verdict),
        (Method::Welch, 1, Verdict::NotJudged)
    );
    assert_eq!(
        (welch.unjudged, welch.ci95),
        (Some(Unjudged::OneRun), None),
        "five blocks are one run"
    );
    assert!(apart.findings.is_empty());
}

/// Returns a set that differs by chance alone, with random effects of the run, the cell and the
/// block.
fn chance(generator: &mut Pcg64, name: &str, pairing: Option<&str>, runs: usize) -> Set {
    let mut draw = |sd: f64| -> f64 {
        let z: f64 = StandardNormal.sample(generator);
        (z * sd).exp()
    };
    let runs = (0..runs)
        .map(|_| {
            let whole = draw(0.05);
            run("iozone", None, |_, _| Some(1e8 * whole * draw(0.10)))
        })
        .collect();
    match pairing {
        Some(pairing) => blocks(name, pairing, runs),
        None => Set {
            name: name.to_owned(),
            pairing: None,
            analyses: Analyses::default(),
            runs,
        },
    }
}

#[test]
fn chance_alone_gives_findings_in_one_of_twenty_comparisons_at_most() {
    const COMPARISONS: usize = 400;
    for (pairing, runs) in [(None, 5), (None, 9), (Some("p"), 5), (Some("p"), 8)] {
        let mut generator = Pcg64::seed_from_u64(5);
        let mut with_findings = 0;
        for _ in 0..COMPARISONS {
            let sets = ["a", "b"].map(|name| chance(&mut generator, name, pairing, runs));
            with_findings += usize::from(!compare(&sets, &REQUEST).unwrap().findings.is_empty());
        }
        // 5 % of 400 is 20 with a standard deviation of 4.4.
        assert!(
            with_findings <= 33,
            "{pairing:?} {runs}: {with_findings} of {COMPARISONS}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_breaks_whatever_is_missing(
        seed in 0u64..1000, holes in 0.0f64..1.0, counts in prop::collection::vec(0usize..7, 1..4), extreme in prop::bool::ANY,
    ) {
        let mut generator = Pcg64::seed_from_u64(seed);
        let mut uniform = move || {
            let z: f64 = StandardNormal.sample(&mut generator);
            libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
        };
        let scale = if extreme { 600.0 } else { 1.0 };
        let sets: Vec<Set> = counts.iter().enumerate().map(|(place, count)| Set {
            name: place.to_string(),
            pairing: (place % 2 == 1).then(|| "p".to_owned()),
            analyses: Analyses::default(),
            runs: (0..*count).map(|block| Run {
                block: Some(block as u32),
                ..run("iozone", None, |_, _| (uniform() > holes).then(|| libm::pow(10.0, scale * (uniform() - 0.5))))
            }).collect(),
        }).collect();
        check(&compare(&sets, &REQUEST).unwrap());
    }
}

/// `all_pairs` searches the pairs of a run as `compare` does, each once, and finds nothing between
/// equals.
#[test]
fn every_pair_is_searched_once() {
    let [xfs, ext4] = published();
    let document = compare(&[xfs.clone(), ext4.clone()], &REQUEST).unwrap();
    let (findings, warnings) = all_pairs(&[xfs.clone(), ext4.clone()], REQUEST.theta).unwrap();
    let texts = |findings: &[Finding]| -> Vec<String> {
        findings
            .iter()
            .map(|finding| finding.text.clone())
            .collect()
    };
    assert!(!findings.is_empty() && warnings.is_empty());
    assert_eq!(texts(&findings), texts(&document.findings));

    let mut noise = Pcg64::seed_from_u64(1);
    let mut sample = |name: &str, factor: f64| {
        let mut rate = || {
            1e9 * factor
                * (0.01
                    * <StandardNormal as Distribution<f64>>::sample(&StandardNormal, &mut noise))
                .exp()
        };
        let runs = (0..6)
            .map(|_| run("fsb", Some("write"), |_, _| Some(rate())))
            .collect();
        blocks(name, "run", runs)
    };
    let sets = [sample("a", 1.0), sample("b", 1.0), sample("c", 1.2)];
    let (findings, _) = all_pairs(&sets, REQUEST.theta).unwrap();
    let pairs: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| (finding.baseline.as_str(), finding.candidate.as_str()))
        .collect();
    assert_eq!(pairs, [("a", "c"), ("b", "c")]);
    assert!(all_pairs(&sets[..1], REQUEST.theta).unwrap().0.is_empty());
}

#[test]
fn withheld_cases_keep_their_values_without_a_verdict() {
    let mut document = compare(&published(), &REQUEST).unwrap();
    let before = document.clone();
    assert!(!before.findings.is_empty());
    document.withhold("they do not compare".to_owned());
    assert_eq!(document.warnings[0], "they do not compare");
    assert!(document.findings.is_empty());
    for (operation, before) in document.operations.iter().zip(&before.operations) {
        let (now, then) = (
            &operation.estimate.against["ext4"],
            &before.estimate.against["ext4"],
        );
        let (now, then) = (now.as_ref().unwrap(), then.as_ref().unwrap());
        assert_eq!(
            (now.verdict, now.ci95, now.ratio),
            (Verdict::NotJudged, None, then.ratio)
        );
        assert!(operation.letters.values().all(Option::is_none));
        assert_eq!(operation.classic.sets, before.classic.sets);
        assert_eq!(operation.cells.len(), before.cells.len());
    }
    check(&document);
}

#[test]
fn of_what_is_unjudged_there_are_values_and_nothing_beside_them() {
    let mut document = compare(&published(), &REQUEST).unwrap();
    let before = document.clone();
    document.unjudge(
        "emulated: a functional run".to_owned(),
        "they are never compared".to_owned(),
    );
    assert_eq!(
        (document.unjudged.as_deref(), document.findings.len()),
        (Some("emulated: a functional run"), 0)
    );
    for (operation, before) in document.operations.iter().zip(&before.operations) {
        assert_eq!(operation.classic.sets, before.classic.sets);
        let slices = operation
            .by_file_size
            .iter()
            .chain(&operation.by_record_size);
        assert!(
            slices
                .clone()
                .all(|slice| slice.classic.against.values().all(Option::is_none))
        );
        assert!(
            slices
                .clone()
                .all(|slice| slice.grid.against.values().all(Option::is_none))
        );
        assert!(operation.classic.against.values().all(Option::is_none));
        assert!(operation.estimate.against.values().all(Option::is_none));
        assert!(
            operation
                .grid
                .iter()
                .all(|grid| grid.against.values().all(Option::is_none))
        );
        assert!(
            operation
                .cells
                .iter()
                .all(|cell| cell.against.is_empty() && !cell.values.is_empty())
        );
    }
}

/// An operation that was printed as zero everywhere has no values in any set, so no set measured it
/// alone.
#[test]
fn cases_without_values_give_no_difference() {
    let set = |name: &str| {
        let mut run = run("iozone", None, |_, _| Some(1e8));
        let empty = Series {
            operation: "rewrite".to_owned(),
            points: Vec::new(),
            ..run.series[0].clone()
        };
        run.series.push(empty);
        Set {
            name: name.to_owned(),
            pairing: None,
            analyses: Analyses::default(),
            runs: vec![run],
        }
    };
    let document = compare(&[set("a"), set("b")], &REQUEST).unwrap();
    assert!(
        !document
            .warnings
            .iter()
            .any(|warning| warning.starts_with("only")),
        "{:?}",
        document.warnings
    );
}

/// Two runs of two targets each whose files have other sizes. Only those of the first run have a
/// percentile, which must not replace the rate.
#[test]
fn a_latency_that_some_sets_have_does_not_stand_in_for_a_rate_at_other_sizes() {
    let run = |size: u64, latency: bool, number: u64, factor: f64| {
        let mut run = run("fsb", Some("write 1M"), |_, _| Some(1.0));
        let point = |value| Point {
            file_size: Some(size),
            record_size: Some(4096),
            value,
            line: 1,
        };
        let noise = 1.0 + number as f64 / 1000.0;
        run.series[0].points = vec![point(100.0 * factor * noise)];
        if latency {
            let points = vec![Point {
                file_size: None,
                ..point(1.0 / factor / noise)
            }];
            let (metric, unit, better) = ("latency_p99".to_owned(), Unit::Seconds, Better::Lower);
            run.series.push(Series {
                metric,
                unit,
                better,
                points,
                ..run.series[0].clone()
            });
        }
        run
    };
    let set = |name: &str, pairing: &str, size: u64, factor: f64| {
        blocks(
            name,
            pairing,
            (1..=8)
                .map(|number| run(size, pairing == "one", number, factor))
                .collect(),
        )
    };
    let sets = [
        set("one/a", "one", 1 << 20, 1.0),
        set("one/b", "one", 1 << 20, 2.0),
        set("two/a", "two", 2 << 20, 1.0),
        set("two/b", "two", 2 << 20, 2.0),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    assert!(
        document.operations.is_empty() && document.findings.is_empty(),
        "{:?}",
        document.findings
    );
    // For the first run alone both metrics are listed, and the rate counts.
    let document = compare(&sets[..2], &REQUEST).unwrap();
    let told: Vec<_> = document
        .operations
        .iter()
        .map(|one| (one.metric.as_str(), one.primary))
        .collect();
    assert_eq!(told, [("throughput", true), ("latency_p99", false)]);
}

/// Returns twelve FSBench cases: each run has its own random effect, each block a smaller one.
fn runs_of_ours(generator: &mut Pcg64, name: &str, runs: usize, between: f64, speed: f64) -> Set {
    let mut draw = |sd: f64| -> f64 {
        let z: f64 = StandardNormal.sample(generator);
        (z * sd).exp()
    };
    let mut blocks = Vec::new();
    for number in 0..runs {
        let lucks: Vec<f64> = (0..12).map(|_| draw(between)).collect();
        for _ in 0..6 {
            let series = lucks.iter().enumerate().flat_map(|(case, luck)| {
                let value = 1e8 * speed * luck * draw(0.02);
                let mut series = run("fsb", Some(&format!("case {case}")), |_, _| None).series;
                series[0].points.push(Point {
                    file_size: None,
                    record_size: None,
                    value,
                    line: 1,
                });
                series
            });
            blocks.push(Run {
                path: format!("{name}/{number}"),
                block: Some(blocks.len() as u32 + 1),
                series: series.collect(),
                ..run("fsb", None, |_, _| None)
            });
        }
    }
    Set {
        name: name.to_owned(),
        pairing: Some(name.to_owned()),
        analyses: Analyses::default(),
        runs: blocks,
    }
}

fn verdicts(document: &Document) -> Vec<Verdict> {
    let of = |operation: &fsb_stats::compare::Operation| {
        operation.estimate.against["b"].as_ref().unwrap().verdict
    };
    document.operations.iter().map(of).collect()
}

#[test]
fn equal_runs_that_differ_from_run_to_run_are_slower_on_one_page_in_twenty_at_most() {
    let mut generator = Pcg64::seed_from_u64(20);
    let mut failed = 0;
    for _ in 0..200 {
        let sets = ["a", "b"].map(|name| runs_of_ours(&mut generator, name, 3, 0.05, 1.0));
        failed +=
            usize::from(verdicts(&compare(&sets, &REQUEST).unwrap()).contains(&Verdict::Slower));
    }
    // 5 % of 200 is 10 with a standard deviation of 3.1.
    assert!(failed <= 17, "{failed} of 200 pages");
}

#[test]
fn three_runs_a_side_show_a_large_change_and_how_many_would_show_a_small_one() {
    let mut generator = Pcg64::seed_from_u64(21);
    let sets = [("a", 1.0), ("b", 0.6)]
        .map(|(name, speed)| runs_of_ours(&mut generator, name, 3, 0.03, speed));
    let document = compare(&sets, &REQUEST).unwrap();
    assert!(
        verdicts(&document)
            .iter()
            .all(|verdict| *verdict == Verdict::Slower),
        "{:?}",
        verdicts(&document)
    );
    let level = document.operations[0].estimate.against["b"]
        .as_ref()
        .unwrap();
    assert_eq!((level.method, level.n), (Method::Welch, 3));
    let power = level.power.unwrap();
    assert!((0.05..0.4).contains(&power.detectable), "{power:?}");
    assert!((6..200).contains(&power.runs_needed.unwrap()), "{power:?}");
}

#[test]
fn a_stated_variation_between_runs_judges_single_runs() {
    let mut generator = Pcg64::seed_from_u64(22);
    let sets = [("a", 1.0), ("b", 0.8)]
        .map(|(name, speed)| runs_of_ours(&mut generator, name, 1, 0.0, speed));
    let with = |sd: f64| {
        let between_runs = Some(Between {
            sd,
            source: BetweenSource::Stated,
        });
        let document = compare(
            &sets,
            &CompareRequest {
                between_runs,
                ..REQUEST
            },
        )
        .unwrap();
        assert!(
            !document
                .warnings
                .iter()
                .any(|warning| warning.contains("not judged")),
            "{:?}",
            document.warnings
        );
        verdicts(&document)
    };
    assert!(
        verdicts(&compare(&sets, &REQUEST).unwrap())
            .iter()
            .all(|verdict| *verdict == Verdict::NotJudged)
    );
    assert!(
        with(0.01).iter().all(|verdict| *verdict == Verdict::Slower),
        "{:?}",
        with(0.01)
    );
    assert!(
        with(0.2)
            .iter()
            .all(|verdict| *verdict == Verdict::Inconclusive),
        "{:?}",
        with(0.2)
    );
}

#[test]
fn sides_without_a_common_session_need_the_variation_between_sessions() {
    let mut generator = Pcg64::seed_from_u64(23);
    let mut sets = [("a", 1.0), ("b", 0.8)]
        .map(|(name, speed)| runs_of_ours(&mut generator, name, 3, 0.01, speed));
    let mut in_sessions = |sessions: [&str; 2], between_sessions: Option<Between>| {
        for (set, session) in sets.iter_mut().zip(sessions) {
            set.runs
                .iter_mut()
                .for_each(|run| run.sessions = vec![session.to_owned()]);
        }
        let document = compare(
            &sets,
            &CompareRequest {
                between_sessions,
                ..REQUEST
            },
        )
        .unwrap();
        let level = document.operations[0].estimate.against["b"]
            .clone()
            .unwrap();
        (
            level.verdict,
            level.unjudged,
            level.ci95.map(|[lo, hi]| hi / lo),
        )
    };
    let (verdict, _, together) = in_sessions(["boot 2026-11-24", "boot 2026-11-24"], None);
    assert_eq!(verdict, Verdict::Slower);
    let apart = ["boot 2026-11-24", "boot 2026-11-25"];
    assert_eq!(
        in_sessions(apart, None),
        (Verdict::NotJudged, Some(Unjudged::NoSharedSession), None)
    );
    let (verdict, _, with) = in_sessions(
        apart,
        Some(Between {
            sd: 0.02,
            source: BetweenSource::Stated,
        }),
    );
    assert_eq!(verdict, Verdict::Slower);
    assert!(with > together, "{with:?} is not wider than {together:?}");
}

/// Pooled blocks would give a run that was stopped late more weight, and claim more certainty than
/// there is.
#[test]
fn targets_of_several_runs_are_compared_run_by_run() {
    let runs = |name: &str, speeds: [f64; 3]| {
        let mut all = Vec::new();
        for (number, speed) in speeds.iter().enumerate() {
            for _ in 0..[20, 5, 5][number] {
                let block = Some(all.len() as u32 + 1);
                let run = run("fsb", Some("write"), |_, _| Some(*speed));
                all.push(Run {
                    path: format!("run {number}"),
                    block,
                    ..run
                });
            }
        }
        Set {
            name: name.to_owned(),
            pairing: Some("three runs".to_owned()),
            analyses: Analyses::default(),
            runs: all,
        }
    };
    let document = compare(
        &[runs("a", [100.0; 3]), runs("b", [97.0, 90.0, 85.0])],
        &REQUEST,
    )
    .unwrap();
    let level = document.operations[0].estimate.against["b"]
        .as_ref()
        .unwrap();
    assert_eq!(
        (level.method, level.n, level.verdict),
        (Method::PairedRuns, 3, Verdict::Inconclusive)
    );
    let mean = (0.97f64.ln() + 0.9f64.ln() + 0.85f64.ln()) / 3.0;
    assert!(
        (level.ratio.ln() - mean).abs() < 1e-9,
        "each run counts alike: {}",
        level.ratio
    );
}

/// Twelve equal cases: one of them may differ by chance, and the page reports that.
#[test]
fn verdicts_hold_over_the_page_as_those_of_a_report() {
    let mut generator = Pcg64::seed_from_u64(1);
    let mut value = || -> f64 {
        let z: f64 = StandardNormal.sample(&mut generator);
        1e8 * (z * 0.02).exp()
    };
    let values: Vec<[Vec<f64>; 2]> = (0..40)
        .map(|_| [0; 2].map(|_| (0..6).map(|_| value()).collect()))
        .collect();
    let set = |place: usize| {
        let block = |block: usize| {
            let series = values.iter().enumerate().map(|(case, values)| {
                let mut series = run("fsb", Some(&format!("case {case}")), |_, _| None)
                    .series
                    .remove(0);
                series.points.push(Point {
                    file_size: None,
                    record_size: None,
                    value: values[place][block],
                    line: 1,
                });
                series
            });
            Run {
                series: series.collect(),
                ..run("fsb", None, |_, _| None)
            }
        };
        blocks(["a", "b"][place], "one run", (0..6).map(block).collect())
    };
    let document = compare(&[set(0), set(1)], &REQUEST).unwrap();
    let of = |values: &Vec<f64>| {
        (1..)
            .zip(values)
            .map(|(block, value)| BlockValue::new(block, *value))
            .collect()
    };
    let ranked = |values: &[Vec<f64>; 2]| {
        let samples: Vec<Vec<BlockValue>> = values.iter().map(of).collect();
        Ranking::from_samples(&samples, Better::Higher, REQUEST.theta).unwrap()
    };
    let mut rankings: Vec<Ranking> = values.iter().map(ranked).collect();
    assert!(
        rankings
            .iter()
            .any(|ranking| ranking.verdict(0, 1).differs()),
        "no case looks different by chance"
    );
    hold_over_page(&mut rankings);
    let reported: Vec<Verdict> = rankings
        .iter()
        .map(|ranking| ranking.verdict(0, 1))
        .collect();
    assert_eq!(verdicts(&document), reported);
}

// Twelve runs of one command on one file system, split six against six: what is found there is
// found by chance.

/// Six against six, drawn with a fixed seed; `change` may alter the second half.
fn splits(count: usize, change: fn(&mut Run)) -> Vec<Document> {
    let runs = iozone::runs("iozone-aa/ext4");
    assert_eq!(runs.len(), 12);
    let mut generator = Pcg64::seed_from_u64(12);
    let mut places: Vec<usize> = (0..12).collect();
    let mut split = || {
        for last in (1..12).rev() {
            places.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
        }
        let half = |places: &[usize]| {
            places
                .iter()
                .map(|place| runs[*place].clone())
                .collect::<Vec<_>>()
        };
        let (a, mut b) = (half(&places[..6]), half(&places[6..]));
        b.iter_mut().for_each(change);
        compare(&[iozone::set("a", a), iozone::set("b", b)], &REQUEST).unwrap()
    };
    (0..count).map(|_| split()).collect()
}

#[test]
fn between_equals_hardly_anything_is_found() {
    const SPLITS: usize = 200;
    let documents = splits(SPLITS, |_| {});
    let with_findings = documents
        .iter()
        .filter(|document| document.findings.is_empty().not())
        .count();
    assert!(
        with_findings * 20 <= SPLITS,
        "{with_findings} of {SPLITS} splits"
    );
    let verdicts = documents
        .iter()
        .flat_map(|document| &document.operations)
        .map(|operation| {
            assert_eq!(operation.cells.is_empty(), operation.operation == "ALL");
            operation.estimate.against["b"].as_ref().unwrap().verdict
        });
    let verdicts: Vec<Verdict> = verdicts.collect();
    assert_eq!(verdicts.len(), 14 * SPLITS);
    let told_apart = verdicts.iter().filter(|verdict| verdict.differs()).count();
    assert!(
        told_apart as f64 <= 0.06 * verdicts.len() as f64,
        "{told_apart} of {}",
        verdicts.len()
    );
}

#[test]
fn a_loss_of_thirty_percent_is_found() {
    // A comparison that finds it in 80 % of all splits finds it in 95 % of 60 with a probability
    // below 0.002.
    const SPLITS: usize = 60;
    let documents = splits(SPLITS, |run| {
        run.series
            .iter_mut()
            .flat_map(|series| &mut series.points)
            .for_each(|point| point.value *= 0.7);
    });
    let finds = |document: &&Document| {
        document
            .findings
            .iter()
            .any(|finding| !finding.faster && (0.6..0.8).contains(&finding.ratio))
    };
    let found = documents.iter().filter(finds).count();
    assert!(found * 20 >= SPLITS * 19, "{found} of {SPLITS} splits");
    let operations: usize = documents
        .iter()
        .map(|document| {
            iozone::OPERATIONS
                .iter()
                .filter(|o| document.findings.iter().any(|f| f.operation == **o))
                .count()
        })
        .sum();
    println!(
        "{:.3} of the operations",
        operations as f64 / (13 * SPLITS) as f64
    );
}

// Runs of other tools that failed, or that have no value.

/// Returns a run with one job `w`, whose write throughput is `value`.
fn job(value: f64) -> Run {
    run("fio", Some("w"), |file, record| {
        (file == SIZES[0] && record == SIZES[0]).then_some(value)
    })
}

/// Returns three runs with a spread of 1 % around `value`.
fn jobs(value: f64) -> Vec<Run> {
    [0.99, 1.0, 1.01].map(|factor| job(factor * value)).to_vec()
}

/// Returns a run whose only job failed.
fn failed() -> Run {
    let mut run = job(1e6);
    run.series.iter_mut().for_each(Series::fail);
    let text = "job 'w' failed: no space left on device (28)".to_owned();
    run.failures.push(Failure {
        line: Some(7),
        workload: Some("w".to_owned()),
        operation: None,
        text,
    });
    run
}

fn verdict_on<'d>(document: &'d Document, set: &str) -> &'d fsb_stats::compare::RunLevel {
    document.operations[0].estimate.against[set]
        .as_ref()
        .expect("a ratio")
}

#[test]
fn a_failed_run_beside_good_ones_withholds_the_verdict_of_its_set_alone() {
    let sets = [
        iozone::set("a", jobs(1e6)),
        iozone::set("b", [jobs(2e6), vec![failed()]].concat()),
        iozone::set("c", jobs(2e6)),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    let (b, c) = (verdict_on(&document, "b"), verdict_on(&document, "c"));
    assert_eq!(
        (b.verdict, b.ci95, b.unjudged),
        (Verdict::NotJudged, None, Some(Unjudged::Failed))
    );
    assert!(
        (b.ratio - 2.0).abs() < 1e-9,
        "the ratio of the good runs is described"
    );
    assert_eq!((c.verdict, c.unjudged), (Verdict::Faster, None));
    assert_eq!(document.operations[0].gaps["b"], GapReason::Failed);
    assert!(
        document
            .findings
            .iter()
            .all(|finding| finding.candidate != "b")
    );
    assert_eq!(document.sets[1].runs, 3, "dead runs do not count");
    assert_eq!(
        document.warnings[..document.urgent],
        [
            "b: file:7: job 'w' failed: no space left on device (28)",
            "b: 1 of 4 runs has no value"
        ]
    );
    assert!(
        document.operations[0].classic.against["b"]
            .as_ref()
            .unwrap()
            .t_verdict
            .is_none()
    );
    assert!(
        document.operations[0].classic.against["c"]
            .as_ref()
            .unwrap()
            .t_verdict
            .is_some()
    );
}

#[test]
fn failed_runs_of_the_baseline_withhold_all_verdicts() {
    let sets = [
        iozone::set("a", [jobs(1e6), vec![failed()]].concat()),
        iozone::set("b", jobs(2e6)),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    assert_eq!(verdict_on(&document, "b").unjudged, Some(Unjudged::Failed));
    assert_eq!(document.operations[0].letters["b"], None);
}

#[test]
fn a_run_without_a_value_is_not_left_out_quietly() {
    let mut zero = job(1e6);
    zero.series[0].fail();
    zero.series[0].gaps[0].why = GapReason::Zero;
    let sets = [
        iozone::set("a", jobs(1e6)),
        iozone::set("b", [jobs(1e6), vec![zero]].concat()),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    assert_eq!(verdict_on(&document, "b").unjudged, Some(Unjudged::NoValue));
    assert_eq!(
        document.warnings[..document.urgent],
        [
            "b: 1 of 4 runs has no value",
            "b: 1 place without a value, not run: w: write at file:1"
        ]
    );
}

#[test]
fn cells_that_a_set_lacks_are_left_out_with_their_number() {
    let set = |name: &str, largest: u64| Set {
        name: name.to_owned(),
        pairing: None,
        analyses: Analyses::default(),
        runs: (0..3)
            .map(|i| {
                run("iozone", None, |file, _| {
                    (file <= largest).then_some(100.0 + f64::from(i))
                })
            })
            .collect(),
    };
    let document = compare(&[set("good", u64::MAX), set("bad", SIZES[2])], &REQUEST).unwrap();
    assert_eq!(document.coverage.only["good"], 4);
    let lost = "cells that are missing from a set are left out: 4 of good";
    assert!(
        document.warnings.contains(&lost.to_owned()),
        "{:?}",
        document.warnings
    );
}

/// Returns a run with a rate that is too fast to measure, and the longest time of an operation.
fn too_fast(longest: f64) -> Run {
    let mut run = job(1e6);
    run.series[0].fail();
    run.series[0].gaps[0].why = GapReason::TooFast;
    let points = vec![Point {
        file_size: None,
        record_size: None,
        value: longest,
        line: 1,
    }];
    let metric = "latency_max".to_owned();
    let (unit, better, gaps) = (Unit::Seconds, Better::Lower, Vec::new());
    run.series.push(Series {
        metric,
        unit,
        better,
        points,
        gaps,
        ..run.series[0].clone()
    });
    run
}

#[test]
fn the_longest_operation_takes_the_place_of_no_rate() {
    let sets = [("a", 0.001), ("b", 0.002)].map(|(name, longest)| {
        iozone::set(
            name,
            [0.99, 1.0, 1.01]
                .map(|factor| too_fast(factor * longest))
                .to_vec(),
        )
    });
    let document = compare(&sets, &REQUEST).unwrap();
    let [rate, longest] = document.operations.as_slice() else {
        panic!("{:?}", document.operations)
    };
    assert_eq!((rate.metric.as_str(), rate.primary), ("throughput", true));
    assert_eq!(
        (rate.gaps["a"], rate.gaps["b"]),
        (GapReason::TooFast, GapReason::TooFast)
    );
    assert!(rate.classic.sets.values().all(Option::is_none));
    let level = longest.estimate.against["b"].as_ref().unwrap();
    assert!(!longest.primary && (level.ratio - 2.0).abs() < 1e-9);
    assert_eq!(
        (level.verdict, level.unjudged),
        (Verdict::NotJudged, Some(Unjudged::Maximum))
    );
    assert!(document.findings.is_empty());
}

#[test]
fn a_set_with_rates_beside_one_that_was_too_fast_is_not_judged_by_another_metric() {
    let mut measured = jobs(1e6);
    measured
        .iter_mut()
        .zip([0.99, 1.0, 1.01])
        .for_each(|(run, factor)| {
            run.series.push(too_fast(0.001 * factor).series.remove(1));
        });
    let sets = [
        iozone::set("a", measured),
        iozone::set("b", [1.0, 1.01, 1.02].map(too_fast).to_vec()),
    ];
    let document = compare(&sets, &REQUEST).unwrap();
    let primary: Vec<&str> = document
        .operations
        .iter()
        .filter(|operation| operation.primary)
        .map(|operation| &*operation.metric)
        .collect();
    assert_eq!(primary, ["throughput"]);
    assert!(
        document.operations[0].classic.sets["a"].is_some()
            && document.operations[0].classic.sets["b"].is_none()
    );
}

#[test]
fn settings_that_differ_are_named_once_for_all_workloads() {
    let with = |depth: Option<&str>| -> Vec<Run> {
        let setting = |workload: &str, name: &str, value: &str| Setting {
            workload: Some(workload.to_owned()),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let mut runs = jobs(1e6);
        for run in &mut runs {
            for workload in ["w", "v"] {
                run.settings.push(setting(workload, "ioengine", "psync"));
                run.settings
                    .extend(depth.map(|depth| setting(workload, "iodepth", depth)));
            }
        }
        runs
    };
    let warning = |a: Option<&str>, b: Option<&str>| {
        let sets = [iozone::set("a", with(a)), iozone::set("b", with(b))];
        let warnings = compare(&sets, &REQUEST).unwrap().warnings;
        warnings
            .into_iter()
            .find(|warning| warning.contains("different settings"))
    };
    let expected =
        "the sets were made with different settings: iodepth (a: 1, b: 32) in 2 workloads";
    assert_eq!(warning(Some("1"), Some("32")).as_deref(), Some(expected));
    assert!(
        warning(None, Some("32"))
            .unwrap()
            .contains("iodepth (a: not set, b: 32)")
    );
    assert_eq!(warning(Some("1"), Some("1")), None);
}

#[test]
fn ratios_of_units_get_a_hint_and_others_do_not() {
    let hint = |factor: f64| {
        let sets = [
            iozone::set("a", jobs(1e6)),
            iozone::set("b", jobs(factor * 1e6)),
        ];
        let warnings = compare(&sets, &REQUEST).unwrap().warnings;
        warnings
            .into_iter()
            .find(|warning| warning.contains("another unit"))
    };
    for (factor, text) in [
        (1024.0, "the ratio of 1024 at w: write is near 1024"),
        (1.0 / 1000.0, "the ratio of 1000 at w: write is near 1000"),
        (8.0, "near 8:"),
        (1e6, "near 1000000"),
    ] {
        assert!(
            hint(factor).is_some_and(|hint| hint.contains(text)),
            "{factor}: {:?}",
            hint(factor)
        );
    }
    for factor in [1.0, 2.0, 7.0, 9.0, 900.0, 1100.0] {
        assert_eq!(hint(factor), None, "{factor}");
    }
}

/// Returns a run of a file with the jobs of these names.
fn file(path: &str, names: &[&str], factor: f64) -> Run {
    let of_job = |name: &&str| {
        run("fio", Some(name), |f, r| {
            (f == SIZES[0] && r == SIZES[0]).then_some(factor * 1e6)
        })
    };
    let series = names
        .iter()
        .map(of_job)
        .flat_map(|run| run.series)
        .collect();
    Run {
        path: path.to_owned(),
        series,
        ..job(1.0)
    }
}

#[test]
fn an_operation_that_one_file_of_a_set_lacks_is_not_judged() {
    let files = |set: &str, third: &[&str]| {
        let whole = |number: u32| {
            file(
                &format!("{set}{number}"),
                &["v", "w"],
                1.0 + f64::from(number) / 100.0,
            )
        };
        iozone::set(
            set,
            vec![
                whole(1),
                whole(2),
                file(&format!("{set}3"), third, 1.0),
                whole(4),
            ],
        )
    };
    let document = compare(&[files("a", &["v", "w"]), files("b", &["v"])], &REQUEST).unwrap();
    let level = |name: &str| {
        let operation = document
            .operations
            .iter()
            .find(|found| found.workload.as_deref() == Some(name))
            .unwrap();
        operation.estimate.against["b"].clone().unwrap()
    };
    assert_eq!(
        (level("w").unjudged, level("v").unjudged),
        (Some(Unjudged::NoValue), None)
    );
    assert_eq!(
        document.warnings[..document.urgent],
        ["b: 1 place without a value, absent: w: write at b3"]
    );
}

#[test]
fn a_set_may_have_a_file_for_each_operation() {
    let files = |set: &str| {
        let of_job = |name: &'static str| {
            [0.99, 1.0, 1.01].map(|factor| file(&format!("{set}-{name}-{factor}"), &[name], factor))
        };
        iozone::set(set, [of_job("v"), of_job("w")].concat())
    };
    let document = compare(&[files("a"), files("b")], &REQUEST).unwrap();
    assert_eq!((document.operations.len(), document.urgent), (2, 0));
    assert!(
        document
            .operations
            .iter()
            .all(|operation| operation.gaps.is_empty())
    );
}

/// Returns a run with the mean time of an operation, and with its rate if there is one.
fn timed(rate: Option<f64>, seconds: f64, tick: Option<f64>) -> Run {
    let mut run = job(rate.unwrap_or(1e6));
    let points = vec![Point {
        file_size: None,
        record_size: None,
        value: seconds,
        line: 2,
    }];
    let (metric, unit, better) = ("latency_mean".to_owned(), Unit::Seconds, Better::Lower);
    run.series.push(Series {
        metric,
        unit,
        better,
        points,
        ..run.series[0].clone()
    });
    if rate.is_none() {
        run.series.remove(0);
    }
    run.clock_resolution = tick;
    run
}

#[test]
fn no_latency_takes_the_place_of_a_rate_that_one_set_lacks() {
    let set = |name: &str, rate: Option<f64>| {
        iozone::set(
            name,
            [0.99, 1.0, 1.01]
                .map(|factor| timed(rate.map(|rate| factor * rate), 0.01 * factor, None))
                .to_vec(),
        )
    };
    let document = compare(&[set("a", Some(1e6)), set("b", None)], &REQUEST).unwrap();
    let primary: Vec<&str> = document
        .operations
        .iter()
        .filter(|operation| operation.primary)
        .map(|operation| &*operation.metric)
        .collect();
    assert_eq!(primary, ["throughput"]);
    assert_eq!(document.operations[0].gaps["b"], GapReason::Absent);
}

#[test]
fn times_of_a_few_ticks_are_not_judged() {
    let set = |name: &str, ticks: f64| {
        iozone::set(
            name,
            [ticks; 3]
                .map(|ticks| timed(None, ticks * 1e-6, Some(1e-6)))
                .to_vec(),
        )
    };
    let level = |one: f64, other: f64| {
        let document = compare(&[set("a", one), set("b", other)], &REQUEST).unwrap();
        verdict_on(&document, "b").unjudged
    };
    assert_eq!(level(3.0, 4.0), Some(Unjudged::Resolution));
    assert_eq!(level(3000.0, 4000.0), None);
}

#[test]
fn operations_that_a_set_lacks_are_missing_by_the_name_that_is_compared() {
    let hyperfine = |name: &str, command: &str| {
        let mut runs = jobs(1e6);
        for run in &mut runs {
            run.tool = "hyperfine".to_owned();
            run.series
                .iter_mut()
                .for_each(|series| series.workload = Some(command.to_owned()));
        }
        iozone::set(name, runs)
    };
    let document = compare(
        &[hyperfine("a", "cp x /mnt/a"), hyperfine("b", "cp x /mnt/b")],
        &REQUEST,
    )
    .unwrap();
    assert!(document.missing["b"].is_empty(), "{:?}", document.missing);
    assert!(
        document
            .warnings
            .iter()
            .any(|warning| warning.contains("they differ: a: cp x /mnt/a, b: cp x /mnt/b"))
    );
    let mut more = iozone::set("a", jobs(1e6));
    more.runs
        .iter_mut()
        .for_each(|run| run.series.extend(file("", &["v"], 1.0).series));
    let document = compare(&[more, iozone::set("b", jobs(1e6))], &REQUEST).unwrap();
    assert_eq!(
        document.missing["b"],
        [(Some("v".to_owned()), "write".to_owned())]
    );
}
