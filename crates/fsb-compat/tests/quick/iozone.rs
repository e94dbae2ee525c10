//! IOzone's modes, each from a real file.

use std::fs;

use fsb_model::metric::{Better, Unit};
use fsb_model::set::{GapReason, Run};

use crate::{at, only, parse, parse_all, remarks, series, shared, value};

fn output(name: &str) -> Run {
    only(&shared(&format!("tool-output/iozone-3.471-{name}.txt")))
}

fn text(name: &str) -> String {
    fs::read_to_string(shared(&format!("tool-output/iozone-3.471-{name}.txt"))).unwrap()
}

/// The columns in their order.
const OPERATIONS: [&str; 13] = [
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

#[test]
fn every_number_of_a_full_matrix_is_read() {
    let sets = ["iozone-2010/xfs", "iozone-2010/ext4", "iozone-aa/ext4"];
    for entry in sets
        .iter()
        .flat_map(|set| fs::read_dir(shared(set)).unwrap())
    {
        let path = entry.unwrap().path();
        let run = only(&path);
        let names: Vec<_> = run
            .series
            .iter()
            .map(|series| series.operation.as_str())
            .collect();
        assert_eq!(names, OPERATIONS);
        let content = fs::read_to_string(&path).unwrap();
        let mut rows = 0;
        for (line, text) in content.lines().enumerate() {
            // Where every column is filled, the row is a list of words.
            let Ok(numbers) = text
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<Vec<u64>, _>>()
            else {
                continue;
            };
            if numbers.len() != 15 {
                continue;
            }
            for (series, number) in run.series.iter().zip(&numbers[2..]) {
                let point = at(series, numbers[0], numbers[1]).unwrap();
                assert_eq!(
                    (point.value, point.line),
                    ((number * 1024) as f64, line as u32 + 1)
                );
            }
            rows += 1;
        }
        assert!(
            run.series
                .iter()
                .all(|series| series.points.len() == rows && series.gaps.is_empty())
        );
        assert_eq!(
            rows,
            if path.to_string_lossy().contains("2010") {
                163
            } else {
                81
            }
        );
    }
}

#[test]
fn the_banner_is_kept() {
    let run = only(&shared("iozone-2010/xfs/xfs1.iozone"));
    assert_eq!(run.version.as_deref(), Some("3.327"));
    assert!(
        run.command
            .unwrap()
            .ends_with("iozone -U /RHTSspareLUN1 -a -f /RHTSspareLUN1/xfs -n 4k -g 4096m")
    );
    assert_eq!(run.clock_resolution, Some(1e-6));
    assert_eq!(run.series[0].found_unit, "Kbytes/sec");
    assert_eq!(
        (run.series[0].unit, run.series[0].better),
        (Unit::BytesPerSecond, Better::Higher)
    );
    assert!(run.warnings.is_empty());
    let run = only(&shared("iozone-aa/ext4/ext4_1.iozone"));
    assert_eq!(
        run.command.as_deref(),
        Some("iozone -a -n 64k -g 16m -f /mnt/test/f")
    );
    assert_eq!(
        remarks(&run),
        [
            "113: IOzone: timer resolution is poor; transfers may be inaccurate for record sizes of 64 kBytes and below."
        ]
    );
}

#[test]
fn operations_that_did_not_run_leave_no_series() {
    let run = output("directio");
    let names: Vec<_> = run
        .series
        .iter()
        .map(|series| series.operation.as_str())
        .collect();
    assert_eq!(names, OPERATIONS[..9]);
    let row: Vec<f64> = run
        .series
        .iter()
        .map(|series| at(series, 2048, 128).unwrap().value / 1024.0)
        .collect();
    let printed = [
        2301200, 2771120, 2942962, 2821176, 3121562, 3006831, 2916978, 2998435, 2050198,
    ];
    assert_eq!(row, printed.map(f64::from));
    assert_eq!(output("sync").series.len(), 4);
    assert_eq!(output("cpu").series.len(), 4);
    assert_eq!(
        value(&output("single"), "freread", "throughput"),
        28_328_790.0 * 1024.0
    );
}

/// Rows as different versions print them: operations 0, 2 and 5 of 3.4xx with the narrow columns, 0
/// and 2 with the wide.
#[test]
fn blanks_in_the_middle_of_a_row_are_columns_too() {
    let narrow = "\tOutput is in Kbytes/sec
                                                            random  random    bkwd   record   stride
              KB  reclen   write rewrite    read    reread    read   write    read  rewrite     read   fwrite frewrite   fread  freread
          409600      64   31782   22524                    816017   10411                  3779260                                  
";
    let wide = "\tOutput is in kBytes/sec
                                                              random    random     bkwd    record    stride
              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread
          102400    1024   383514   386945                     378221   386509
";
    for (text, expected) in [
        (
            narrow,
            &[
                ("write", 31782),
                ("rewrite", 22524),
                ("random_read", 816017),
                ("random_write", 10411),
                ("stride_read", 3779260),
            ][..],
        ),
        (
            wide,
            &[
                ("write", 383514),
                ("rewrite", 386945),
                ("random_read", 378221),
                ("random_write", 386509),
            ],
        ),
        // As pasted into a list, and with the blanks at the margin lost.
        (
            &wide.replace('\n', "\n    "),
            &[
                ("write", 383514),
                ("rewrite", 386945),
                ("random_read", 378221),
                ("random_write", 386509),
            ],
        ),
    ] {
        let run = parse("iozone", text);
        let found: Vec<_> = run
            .series
            .iter()
            .map(|series| {
                (
                    series.operation.as_str(),
                    series.points[0].value as u64 >> 10,
                )
            })
            .collect();
        assert_eq!(found, expected);
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
    }
}

#[test]
fn microseconds_are_seconds_and_zero_is_below_the_clock() {
    let run = output("N");
    let write = series(&run, "write", "latency_mean");
    assert_eq!(
        (write.unit, write.better, write.found_unit.as_str()),
        (Unit::Seconds, Better::Lower, "microseconds per operation")
    );
    assert_eq!(at(write, 1024, 1024).unwrap().value, 250e-6);
    let read = series(&run, "read", "latency_mean");
    assert_eq!((read.points.len(), read.gaps.len()), (20, 15));
    assert!(read.gaps.iter().all(|gap| gap.why == GapReason::BelowClock));
    assert_eq!(
        (
            read.gaps[0].file_size,
            read.gaps[0].record_size,
            read.gaps[0].line
        ),
        (Some(65536), Some(4096), 29)
    );
}

#[test]
fn operations_a_second_are_counted_as_such() {
    let run = output("O");
    let write = series(&run, "write", "operation_rate");
    assert_eq!(
        (write.unit, write.found_unit.as_str()),
        (Unit::OperationsPerSecond, "operations per second")
    );
    assert_eq!(at(write, 64, 4).unwrap().value, 640_316.0);
}

#[test]
fn a_table_and_its_reports_give_each_value_once() {
    for name in ["R", "R-b"] {
        let run = output(name);
        let rows = if name == "R" { 56 } else { 26 };
        assert!(
            run.series.iter().all(|series| series.points.len() == rows),
            "{name}"
        );
        assert_eq!(run.warnings.len(), 1);
    }
}

#[test]
fn reports_alone_give_what_their_table_gave() {
    let both = output("R");
    let text = text("R");
    let (banner, rest) = text.split_once("              kB  reclen").unwrap();
    let (_, reports) = rest.split_once("iozone test complete.").unwrap();
    let alone = parse("iozone", &format!("{banner}iozone test complete.{reports}"));
    assert_eq!(alone.series.len(), both.series.len());
    for (alone, both) in alone.series.iter().zip(&both.series) {
        assert_eq!(
            (&alone.operation, alone.points.len()),
            (&both.operation, both.points.len())
        );
        for (a, b) in alone.points.iter().zip(&both.points) {
            assert_eq!(
                (a.file_size, a.record_size, a.value),
                (b.file_size, b.record_size, b.value)
            );
        }
    }
}

#[test]
fn a_report_gives_back_what_the_table_lost_and_differences_are_said() {
    let text = text("R");
    let lost = text.replace(
        "             128     128  6045455 31945770 45475583 68779377 ",
        "@@@@@@@@ 128 6045455",
    );
    let run = parse("iozone", &lost);
    let found = at(series(&run, "write", "throughput"), 128, 128).unwrap();
    assert_eq!((found.value, found.line), (6_045_455.0 * 1024.0, 95));
    assert!(
        remarks(&run)[0].starts_with("40: no row of the table, left out: '@@@@@@@@"),
        "{:?}",
        remarks(&run)
    );
    let run = parse(
        "iozone",
        &text.replace("\"64\"   1526887 ", "\"64\"   1526888 "),
    );
    assert_eq!(
        at(series(&run, "write", "throughput"), 64, 4)
            .unwrap()
            .value,
        1_526_887.0 * 1024.0
    );
    assert!(
        remarks(&run)
            .contains(&"94: 1526888 is another value than in line 30, which is kept".to_owned())
    );
}

#[test]
fn text_after_the_end_is_reported() {
    let whole = text("R");
    let said = |run: &Run| {
        remarks(run)
            .into_iter()
            .filter(|remark| remark.contains("left out"))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&parse("iozone", &whole)), [""; 0]);
    let run = parse("iozone", &format!("{whole}\n  65536 4 garbage\n"));
    assert!(
        said(&run)[0].ends_with("after the end of the test, left out: '65536 4 garbage'"),
        "{:?}",
        remarks(&run)
    );
}

#[test]
fn processor_time_is_a_fraction_and_zeros_are_none() {
    let reports = "\"Writer report\"\n        \"4\"  \"8\"\n\"64\"   100  200 \n\n\
        \"Writer CPU utilization report (Zero values should be ignored)\"\n        \"4\"  \"8\"\n\"64\"    87.50     0.00 \n";
    let run = parse("iozone", reports);
    let cpu = series(&run, "write", "cpu_utilization");
    assert_eq!(
        (cpu.points[0].value, cpu.found_unit.as_str(), cpu.better),
        (0.875, "%", Better::Lower)
    );
    assert_eq!(cpu.gaps[0].why, GapReason::BelowClock);
    assert_eq!(series(&run, "write", "throughput").points.len(), 2);
}

#[test]
fn throughput_mode_is_a_workload_with_five_rates() {
    let run = output("throughput");
    assert!(
        run.series
            .iter()
            .all(|series| series.workload.as_deref() == Some("throughput, 2 processes"))
    );
    let mut operations: Vec<_> = run
        .series
        .iter()
        .map(|series| series.operation.as_str())
        .collect();
    operations.dedup();
    assert_eq!(
        operations,
        [
            "write",
            "rewrite",
            "read",
            "reread",
            "random_read",
            "mixed",
            "random_write"
        ]
    );
    for (metric, kilobytes) in [
        ("throughput", 4_263_913.00),
        ("throughput_parent", 1_141_391.54),
        ("throughput_min", 2_083_477.75),
        ("throughput_max", 2_180_435.25),
        ("throughput_mean", 2_131_956.50),
    ] {
        let point = series(&run, "write", metric).points[0];
        assert_eq!(point.value, kilobytes * 1024.0);
        assert_eq!(
            (point.file_size, point.record_size),
            (Some(32 << 20), Some(64 << 10))
        );
    }
    assert_eq!(series(&run, "write", "throughput").points[0].line, 29);
}

#[test]
fn throughput_in_operations_and_with_processor_time_is_read() {
    let text = text("throughput").replace(" kB/sec", " ops/sec").replace(
        "Min xfer \t\t\t\t\t=   31296.00 kB",
        "CPU Utilization: Wall time    2.671    CPU time    1.974    CPU utilization  73.89 %",
    );
    let run = parse("iozone", &text);
    assert_eq!(value(&run, "rewrite", "operation_rate_mean"), 7_302_347.25);
    assert_eq!(value(&run, "write", "cpu_utilization"), 73.89 / 100.0);
}

#[test]
fn outputs_one_after_another_are_runs() {
    let (first, second) = (text("single"), text("N"));
    let runs = parse_all("iozone", &format!("{first}{second}{first}"));
    let counts: Vec<_> = runs.iter().map(|run| run.series.len()).collect();
    assert_eq!(counts, [13, 4, 13]);
    assert_eq!(
        runs[2].series[0].points[0].line,
        first.lines().count() as u32 + second.lines().count() as u32 + 28
    );
    // The same without banners, as pasted.
    let table = &first[first.find("\tOutput is in").unwrap()..];
    assert_eq!(parse_all("iozone", &table.repeat(2)).len(), 2);
}

#[test]
fn no_retest_is_a_gap() {
    let text = text("single").replace("13109944", "       0");
    let run = parse("iozone", &text);
    let rewrite = series(&run, "rewrite", "throughput");
    assert_eq!(
        (rewrite.points.len(), rewrite.gaps[0].why),
        (0, GapReason::Zero)
    );
}

/// The writer's line and those of all others differ in a letter, and one number of processes is
/// announced for several.
#[test]
fn blocks_of_throughput_mode_say_themselves_what_they_are() {
    let text = "\tIozone: Performance Test of File I/O
\tCommand line used: iozone -t 1 -t 3 -+u -s 64 -i 0
\tOutput is in kBytes/sec
\tThroughput test with 3 processes
\tEach process writes a 64 kByte file in 4 kByte records

\tChildren see throughput for  1 initial writers \t=  444572.56 kB/sec
\tParent sees throughput for  1 initial writers \t=    8992.57 kB/sec
\tCPU Utilization: Wall time    0.004    CPU time    0.001    CPU utilization  25.00 %

\tChildren see throughput for  1 rewriters \t=  644572.56 kB/sec
\tCPU utilization: Wall time    0.004    CPU time    0.002    CPU utilization  50.00 %


\tEach process writes a 64 kByte file in 4 kByte records

\tChildren see throughput for  3 initial writers \t=  926099.50 kB/sec
\tMin throughput per process \t\t\t=  447537.34 kB/sec 

iozone test complete.
";
    let run = parse("iozone", text);
    let found: Vec<_> = run
        .series
        .iter()
        .map(|series| {
            assert_eq!(series.points.len(), 1);
            (
                series.workload.as_deref().unwrap(),
                series.operation.as_str(),
                series.metric.as_str(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("throughput, 1 process", "write", "throughput"),
            ("throughput, 1 process", "write", "throughput_parent"),
            ("throughput, 1 process", "write", "cpu_utilization"),
            ("throughput, 1 process", "rewrite", "throughput"),
            ("throughput, 1 process", "rewrite", "cpu_utilization"),
            ("throughput, 3 processes", "write", "throughput"),
            ("throughput, 3 processes", "write", "throughput_min"),
        ]
    );
    assert!(run.warnings.is_empty(), "{:?}", run.warnings);
}

#[test]
fn a_spreadsheet_has_the_values_of_the_text_beside_it() {
    for (sheet, text) in [
        ("auto.wks", "auto-wks.txt"),
        ("auto.xlsx", "auto-xlsx.txt"),
        ("ops.wks", "ops-wks.txt"),
        ("throughput.xlsx", "throughput-xlsx.txt"),
    ] {
        let read = |name: &str| {
            let path = crate::golden(&format!("iozone/{name}"));
            fsb_compat::read_file(&path).unwrap().remove(0)
        };
        let (found, mut expected) = (read(sheet), read(text));
        // The reports of throughput mode have the rates of the children alone.
        if sheet.starts_with("throughput") {
            let is_reported = |metric: &str| metric == "throughput";
            expected.series.retain(|series| is_reported(&series.metric));
        }
        assert!(
            found
                .command
                .as_ref()
                .is_some_and(|command| command.contains(sheet))
        );
        let values = |run: &fsb_model::set::Run| {
            let mut values = Vec::new();
            for series in &run.series {
                for point in &series.points {
                    let place = (point.file_size, point.record_size);
                    let name = (series.workload.clone(), series.operation.clone());
                    values.push((name, series.metric.clone(), place, point.value.to_bits()));
                }
            }
            values.sort();
            values
        };
        assert!(!values(&found).is_empty(), "{sheet}");
        assert_eq!(values(&found), values(&expected), "{sheet}");
        assert_eq!(found.warnings, [], "{sheet}");
    }
}

#[test]
fn a_spreadsheet_of_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.wks");
    std::fs::write(&path, b"\x09\0\x04\0\x02\0\x10\0\x0a\0\0\0").unwrap();
    let error = fsb_compat::read_file(&path).unwrap_err().to_string();
    assert!(error.contains("not a command line of IOzone"), "{error}");
}
