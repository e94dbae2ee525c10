//! bonnie++, filebench, PostMark and sysbench.

use std::fs;

use fsb_compat::postmark::print::{self, PostmarkOutcome};
use fsb_compat::postmark::{self, Settings};
use fsb_compat::read_file;
use fsb_model::Unit;
use fsb_model::metric::Better;
use fsb_model::set::GapReason;

use crate::ours::ours;
use crate::{golden, only, parse, parse_all, remarks, series, shared, value};

#[test]
fn postmark_counts_whole_seconds_and_that_is_said() {
    let run = only(&shared("tool-output/postmark-1.53.txt"));
    assert_eq!(
        (run.version.as_deref(), run.clock_resolution),
        (Some("1.51"), Some(1.0))
    );
    for (operation, rate) in [
        ("transaction", 50_000.0),
        ("create", 29_935.0),
        ("create_alone", 5_000.0),
        ("create_mixed", 24_935.0),
        ("read", 25_055.0),
        ("append", 24_790.0),
        ("delete", 29_935.0),
        ("delete_alone", 4_870.0),
        ("delete_mixed", 25_065.0),
    ] {
        assert_eq!(
            value(&run, operation, "operation_rate"),
            rate,
            "{operation}"
        );
    }
    assert_eq!(value(&run, "read", "throughput"), 157.24 * 1024.0 * 1024.0);
    assert_eq!(value(&run, "write", "throughput"), 189.43 * 1024.0 * 1024.0);
    assert_eq!(
        remarks(&run),
        [
            "8: PostMark rounds times to whole seconds, and this run took one or less: its rates are unreliable"
        ]
    );
}

#[test]
fn each_report_of_postmark_is_a_run() {
    let runs = read_file(&golden("postmark/1.53-two-runs.txt")).unwrap();
    let rates: Vec<_> = runs
        .iter()
        .map(|run| value(run, "transaction", "operation_rate"))
        .collect();
    assert_eq!(rates, [666.0, 1000.0]);
    assert!(
        runs.iter()
            .all(|run| run.version.as_deref() == Some("1.51"))
    );
    assert_eq!(
        remarks(&runs[0]),
        ["8: PostMark rounds times to whole seconds: after 3 s each rate may be off by 33 %"]
    );
}

#[test]
fn filebench_has_a_total_and_a_breakdown() {
    let run = only(&shared("tool-output/filebench-1.5-varmail.txt"));
    assert_eq!(run.version.as_deref(), Some("1.5-alpha3"));
    assert!(
        run.series
            .iter()
            .all(|series| series.workload.as_deref() == Some("varmail"))
    );
    assert_eq!(value(&run, "total", "operation_rate"), 69_457.673);
    assert_eq!(value(&run, "total", "throughput"), 259.8 * 1024.0 * 1024.0);
    assert_eq!(value(&run, "total", "latency_mean"), 0.228 / 1000.0);
    assert_eq!(value(&run, "write", "operation_rate"), 10_688.0);
    assert_eq!(
        value(&run, "readfile4", "throughput"),
        87.8 * 1024.0 * 1024.0
    );
    assert_eq!(
        series(&run, "fsyncfile3", "latency_mean").points[0].line,
        19
    );
    assert!(
        run.series
            .iter()
            .all(|series| !(series.operation == "deletefile1" && series.metric == "throughput"))
    );
    assert!(run.warnings.is_empty());
}

#[test]
fn decimal_commas_are_read_where_nothing_else_can_be_meant() {
    let filebench = fs::read_to_string(shared("tool-output/filebench-1.5-varmail.txt")).unwrap();
    let (banner, rest) = filebench.split_once('\n').unwrap();
    let run = parse(
        "filebench",
        &format!("{banner}\n{}", rest.replace('.', ",")),
    );
    assert_eq!(value(&run, "total", "operation_rate"), 69_457.673);
    assert_eq!(
        remarks(&run),
        ["15: numbers have a decimal comma; read as such"]
    );
    let postmark = fs::read_to_string(shared("tool-output/postmark-1.53.txt")).unwrap();
    let run = parse("postmark", &postmark.replace("157.24", "157,24"));
    assert_eq!(value(&run, "read", "throughput"), 157.24 * 1024.0 * 1024.0);
    assert!(remarks(&run).contains(&"21: numbers have a decimal comma; read as such".to_owned()));
    let iozone = fs::read_to_string(shared("tool-output/iozone-3.471-throughput.txt")).unwrap();
    let run = parse(
        "iozone",
        &iozone
            .replace("4263913.00", "4263913,00")
            .replace("1141391.54", "1.141.391,54"),
    );
    assert_eq!(value(&run, "write", "throughput"), 4_263_913.0 * 1024.0);
    assert!(
        remarks(&run)[1].starts_with("30: no line of throughput mode"),
        "{:?}",
        remarks(&run)
    );
}

#[test]
fn a_mean_of_zero_is_below_what_filebench_prints() {
    let text = fs::read_to_string(shared("tool-output/filebench-1.5-varmail.txt")).unwrap();
    let run = parse("filebench", &text.replace("0.001ms/op", "0.000ms/op"));
    assert_eq!(
        series(&run, "closefile4", "latency_mean").gaps[0].why,
        GapReason::BelowClock
    );
}

// PostMark's operations and its report, beside PostMark itself.

#[test]
fn the_report_has_the_shape_of_postmarks_and_is_read_back() {
    let mut settings = Settings::default();
    let outcome = PostmarkOutcome {
        total: 2.5,
        transactions: 2.0,
        ..ours(&settings).unwrap()
    };
    let text = print::banner("fsb 0.1.0") + &print::report(&settings, &outcome);
    let run = crate::parse("postmark", &text);
    assert_eq!(
        (run.version.as_deref(), run.clock_resolution),
        (Some("1.51"), Some(1e-9))
    );
    assert_eq!(crate::value(&run, "transaction", "operation_rate"), 250.0);
    assert_eq!(
        crate::value(&run, "create", "operation_rate"),
        (outcome.tally.created as f64 / 2.5).round()
    );
    assert!(run.warnings.is_empty(), "{:?}", run.warnings);
    postmark::parse("set report terse", &mut settings).unwrap();
    let terse = print::report(&settings, &outcome);
    assert_eq!(terse.split_whitespace().count(), 13, "{terse}");
    assert!(
        terse.starts_with("2.500000 2.000000 250.00 ") && terse.ends_with('\n'),
        "{terse}"
    );
}

/// As PostMark 1.53 answers.
#[test]
fn show_and_help_are_those_of_postmark() {
    let mut settings = Settings::default();
    for line in [
        "set location /tmp/a 3",
        "set location +/b",
        "set size 1500 2000000",
        "set subdirectories 1",
    ] {
        postmark::parse(line, &mut settings).unwrap();
    }
    let expected = "Current configuration is:\nThe base number of files is 500\nTransactions: 500\n\
        Files range between 1.46 kilobytes and 1.91 megabytes in size\nWorking directories: \n\t/tmp/a (weight=3)\n\
        \t/b (weight=1)\n1 subdirectory will be used\nBlock sizes are: read=512 bytes, write=512 bytes\n\
        Biases are: read/append=5, create/delete=5\nUsing Unix buffered file I/O\n\
        Random number generator seed is 42\nReport format is verbose.\n";
    assert_eq!(settings.show("/here"), expected);
    assert!(
        Settings::default()
            .show("/here")
            .contains("\nWorking directory: /here\n")
    );
    assert_eq!(print::help(Some("set bias")).lines().count(), 2);
    assert_eq!(print::help(Some("unheard of")), print::help(None));
    assert!(print::help(None).starts_with("set size - Sets low and high bounds of files\n"));
}

#[test]
fn sums_that_single_precision_rounds_are_told_apart() {
    let mut settings = Settings::default();
    assert_eq!(print::rounded(&ours(&settings).unwrap().tally), None);
    settings.shape.transactions = 100_000;
    settings.shape.size_high = 100_001;
    let tally = ours(&settings).unwrap().tally;
    let shown = print::rounded(&tally).unwrap();
    assert!(
        shown.contains(&tally.bytes_read.to_string()) && shown.contains("single precision"),
        "{shown}"
    );
}

// bonnie++'s CSV.

#[test]
fn pluses_are_too_fast_and_never_numbers() {
    let run = only(&shared("tool-output/bonnie++-2.00a.txt"));
    assert_eq!(run.version.as_deref(), Some("2.00a"));
    assert_eq!(value(&run, "write", "throughput"), 162_267.0 * 1024.0);
    assert_eq!(value(&run, "write", "cpu_utilization"), 0.44);
    assert_eq!(value(&run, "write", "latency_max"), 1.547);
    assert_eq!(value(&run, "delete_random", "latency_max"), 153e-6);
    for (operation, metric) in [
        ("update", "throughput"),
        ("read", "cpu_utilization"),
        ("seek", "operation_rate"),
    ] {
        let series = series(&run, operation, metric);
        assert_eq!((series.points.len(), series.gaps.len()), (0, 1));
        assert_eq!(
            (series.gaps[0].why, series.gaps[0].line),
            (GapReason::TooFast, 11)
        );
    }
    let write = series(&run, "write", "throughput");
    assert_eq!(
        (write.found_unit.as_str(), write.points[0].file_size),
        ("K/sec", Some(600 << 20))
    );
    assert!(run.warnings.is_empty());
    assert_eq!(
        value(
            &only(&golden("bonnie++/2.00a-small.csv")),
            "read_char",
            "throughput"
        ),
        1765.0 * 1024.0
    );
}

/// 1.9x has no columns for the number of seeks.
const OLD: &str = "1.97,1.97,host,1,1466783481,8196M,,627,95,107864,16,48505,6,3505,97,111419,6,710.5,6,16,,,,,1702,14,+++++,+++,\
    1332,4,1873,16,2047,13,1266,3,12428us,713ms,1317ms,3376us,41545us,230ms,1214us,679us,709us,129us,30us,12s\n";

#[test]
fn both_column_sets_are_known() {
    let run = parse("bonnie++", OLD);
    assert_eq!(value(&run, "write_char", "throughput"), 627.0 * 1024.0);
    assert_eq!(value(&run, "seek", "operation_rate"), 710.5);
    assert_eq!(value(&run, "create_sequential", "operation_rate"), 1702.0);
    assert_eq!(value(&run, "delete_random", "operation_rate"), 1266.0);
    assert_eq!(value(&run, "delete_random", "latency_max"), 12.0);
    assert!(run.warnings.is_empty());
}

#[test]
fn without_a_large_file_a_column_is_missing() {
    let text = "1.96,1.96,host,1,1374655110,,,,,,,,,,,,,,60,32,32,,,1702,14,2025,12,1332,4,1873,16,2047,13,1266,3,,,,,,,3874ms,\
        6645ms,8659ms,505ms,7257ms,9627ms\n";
    let run = parse("bonnie++", text);
    assert_eq!(run.series.len(), 18);
    assert_eq!(value(&run, "create_sequential", "operation_rate"), 1702.0);
    assert_eq!(value(&run, "create_sequential", "latency_max"), 3.874);
    assert_eq!(value(&run, "delete_random", "cpu_utilization"), 0.03);
    assert!(run.warnings.is_empty());
}

#[test]
fn each_line_is_a_run_and_a_bad_one_is_said() {
    let comma = OLD.replace("710.5", "710,5");
    let runs = parse_all("bonnie++", &format!("{OLD}{comma}{OLD}"));
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1].series[0].points[0].line, 3);
    assert!(
        remarks(&runs[0])[0].starts_with("2: 49 columns instead of 48"),
        "{:?}",
        remarks(&runs[0])
    );
    let run = parse("bonnie++", &OLD.replace("107864", "1e9"));
    assert_eq!(
        remarks(&run),
        ["1: column 10: '1e9' is not a number; left out"]
    );
}

// Reports of sysbench's file test.

#[test]
fn each_report_of_a_file_is_a_run() {
    let runs = fsb_compat::read_file(&golden("sysbench/1.0.20-rndrw.txt")).unwrap();
    let reads: Vec<f64> = runs
        .iter()
        .map(|run| value(run, "read", "operation_rate"))
        .collect();
    assert_eq!(reads, [23211.79, 9215.25, 8926.32]);
    let read = series(&runs[0], "read", "throughput");
    assert_eq!(read.points[0].value, 362.68 * 1_048_576.0);
    assert_eq!(
        (read.points[0].file_size, read.points[0].record_size),
        (Some(4 << 20), Some(16 << 10))
    );
    assert_eq!(
        read.workload.as_deref(),
        Some("rndrw, 2 threads, 4 files, synchronous")
    );
    assert_eq!(value(&runs[0], "fsync", "operation_rate"), 1552.96);
    assert_eq!(value(&runs[0], "event", "latency_mean"), 0.05 / 1000.0);
    assert_eq!(value(&runs[0], "event", "latency_p95"), 0.20 / 1000.0);
    assert!(
        runs.iter()
            .all(|run| run.version.as_deref() == Some("1.0.20") && run.warnings.is_empty())
    );
}

#[test]
fn operations_that_are_not_part_of_the_test_are_absent() {
    let run = only(&golden("sysbench/1.0.20-seqrd.txt"));
    let operations: Vec<&str> = run
        .series
        .iter()
        .map(|series| series.operation.as_str())
        .collect();
    assert_eq!(operations, ["read", "read", "read", "read", "read"]);
    assert_eq!(
        series(&run, "read", "latency_p99").gaps[0].why,
        GapReason::BelowClock
    );
}

#[test]
fn settings_that_change_the_work_are_part_of_its_name() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let workload = |text: &str| parse("sysbench", text).series[0].workload.clone().unwrap();
    assert_eq!(workload(&text), "seqrd, 1 threads, 4 files, synchronous");
    assert!(workload(&text.replace("flags: (none)", "flags: directio")).ends_with(", directio"));
    let without = text.replace(
        "Periodic FSYNC enabled, calling fsync() each 100 requests.\n",
        "",
    );
    assert!(workload(&without).ends_with(", no periodic fsync()"));
    assert!(
        workload(&text.replace("each 100 requests", "each 1 requests"))
            .ends_with(", fsync() each 1 requests")
    );
}

/// The results of 1.1, in the structure of its source.
const RATES_OF_1_1: &str = "
Throughput:
         read:  IOPS=6820.29 106.57 MiB/s (111.74 MB/s)
         write: IOPS=4546.86 71.04 MiB/s (74.49 MB/s)
         fsync: IOPS=456.67

Latency (ms):
         min:                                  0.00
         avg:                                  1.08
         max:                                 44.19
         95th percentile:                      0.01
         sum:                               1993.87
";

#[test]
fn rates_of_1_1_are_read() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let settings = text[..text.find("File operations").unwrap()]
        .replace("1.0.20", "1.1.0")
        .replace("sequential read", "random r/w");
    let run = parse("sysbench", &format!("{settings}{RATES_OF_1_1}"));
    assert_eq!(value(&run, "read", "throughput"), 106.57 * 1_048_576.0);
    assert_eq!(value(&run, "write", "operation_rate"), 4546.86);
    assert_eq!(value(&run, "fsync", "operation_rate"), 456.67);
    assert_eq!(value(&run, "event", "latency_max"), 0.04419);
    assert_eq!(run.version.as_deref(), Some("1.1.0"));
}

#[test]
fn a_bad_number_is_left_out_with_its_line() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let at = text.find("reads/s:").unwrap();
    let line = text[..at].matches('\n').count() + 1;
    let end = at + text[at..].find('\n').unwrap();
    let runs = parse_all(
        "sysbench",
        &format!("{}reads/s: 1e9{}", &text[..at], &text[end..]),
    );
    assert_eq!(
        remarks(&runs[0]),
        [format!(
            "{line}: no number with two digits, left out: 'reads/s: 1e9'"
        )]
    );
}

// The text output of IOR and IO500, and the summaries of mdtest.

#[test]
fn each_iteration_is_a_run_of_all_tests() {
    let runs = read_file(&golden("ior/4.1-two-tests.txt")).unwrap();
    assert_eq!(runs.len(), 2);
    let [own, shared] = [
        "POSIX, file-per-process, 2 tasks",
        "POSIX, single-shared-file, 2 tasks",
    ];
    let workloads: Vec<&str> = runs[1]
        .series
        .iter()
        .filter_map(|series| series.workload.as_deref())
        .collect();
    assert_eq!(workloads, [[own; 4], [shared; 4]].concat());
    let sizes: Vec<_> = runs[1]
        .series
        .iter()
        .map(|series| series.points[0].file_size.unwrap() >> 20)
        .collect();
    // Blocks of 2 MiB: one in each file; then three segments of two tasks in one file.
    assert_eq!(sizes, [2, 2, 2, 2, 12, 12, 12, 12]);
    assert!(
        runs[0]
            .series
            .iter()
            .all(|series| series.points[0].record_size == Some(256 << 10))
    );
    let write = &series(&runs[0], "write", "throughput").points[0];
    assert_eq!((write.value, write.line), (8512.0 * 1_048_576.0, 34));
    assert_eq!(
        value(
            &read_file(&golden("ior/4.1-random.txt")).unwrap()[1],
            "random_read",
            "operation_rate"
        ),
        235_263.0
    );
    for run in &runs {
        assert_eq!(
            (run.version.as_deref(), run.command.as_deref()),
            (Some("4.1.0+dev"), Some("ior -f script"))
        );
        assert!(run.warnings.is_empty());
    }
}

#[test]
fn the_table_of_3_0_has_no_operation_rates() {
    let runs = read_file(&golden("ior/3.0.1-file-per-process.txt")).unwrap();
    let reads: Vec<f64> = runs
        .iter()
        .map(|run| value(run, "read", "throughput") / 1_048_576.0)
        .collect();
    assert_eq!(reads, [13522.0, 19281.0]);
    let read = series(&runs[0], "read", "throughput");
    assert_eq!(
        read.workload.as_deref(),
        Some("POSIX, file-per-process, 2 tasks")
    );
    assert_eq!(
        (read.points[0].file_size, read.points[0].record_size),
        (Some(4 << 20), Some(256 << 10))
    );
    assert_eq!(runs[0].series.len(), 2);
    assert!(runs.iter().all(|run| run.warnings.is_empty()));
}

#[test]
fn a_file_with_more_lines_than_ior_prints_is_refused() {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "ior")
        .unwrap();
    let start = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\naccess bw(MiB/s) iter\n";
    let rows = |count: usize| format!("{start}{}", "write 1 0\n".repeat(count));
    assert_eq!((tool.read)(&mut rows(200_000).as_bytes()).unwrap().len(), 1);
    let error = (tool.read)(&mut rows(200_001).as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("more than 200000 lines of iterations"),
        "{error}"
    );
}

#[test]
fn a_bad_line_is_left_out_with_its_number() {
    let text = std::fs::read_to_string(golden("ior/3.0.1-file-per-process.txt")).unwrap();
    let first = text.find("write     ").unwrap();
    let line = text[..first].matches('\n').count() + 1;
    let bad = format!("{}write     x{}", &text[..first], &text[first + 16..]);
    let runs = parse_all("ior", &bad);
    assert!(
        remarks(&runs[0])[0].starts_with(&format!("{line}: bw(MiB/s) is not a number")),
        "{:?}",
        remarks(&runs[0])
    );
    let gap = &series(&runs[0], "write", "throughput").gaps[0];
    assert_eq!((gap.why, gap.line as usize), (GapReason::Unreadable, line));
}

// mdtest.

#[test]
fn each_execution_of_a_file_is_a_run() {
    let runs = read_file(&golden("mdtest/3.3-two-runs.txt")).unwrap();
    let rates: Vec<f64> = runs
        .iter()
        .map(|run| value(run, "file_create", "operation_rate"))
        .collect();
    assert_eq!(rates, [4827.012, 11805.398]);
    assert_eq!(value(&runs[1], "tree_remove", "operation_rate"), 132.092);
    for run in &runs {
        assert_eq!(run.series.len(), 6);
        assert!(
            run.series
                .iter()
                .all(|series| series.workload.as_deref() == Some("2 tasks, 100 files"))
        );
        assert_eq!(run.version.as_deref(), Some("3.3.1+dev"));
        assert!(
            run.warnings.is_empty()
                && run
                    .command
                    .as_deref()
                    .is_some_and(|command| command.starts_with("mdtest33 '-n'"))
        );
    }
}

#[test]
fn the_mean_of_iterations_counts_as_one_run_with_a_remark() {
    let run = only(&golden("mdtest/4.1-three-iterations.txt"));
    assert_eq!(value(&run, "directory_rename", "operation_rate"), 90089.884);
    assert_eq!(run.series.len(), 10);
    assert!(
        remarks(&run)[1].contains("means of its 3 iterations"),
        "{:?}",
        remarks(&run)
    );
}

/// A summary of 1.9.3.
const OLD_MDTEST: &str = "\
-- started at 01/02/2020 10:00:00 --

mdtest-1.9.3 was launched with 4 total task(s) on 2 node(s)
Command line used: ./mdtest -n 10
4 tasks, 40 files/directories

SUMMARY: (of 1 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   File creation     :       100.000         50.000         75.000          5.000
   File stat         :       100.000         nan         75.000
   File read         :       100.000         50.000         75.000         80.000         60.000         70.000          5.000
   File removal      :         0.000          0.000          0.000          0.000

-- finished at 01/02/2020 10:00:01 --
";

#[test]
fn rows_that_do_not_fit_their_heading_are_left_out() {
    let run = parse("mdtest", OLD_MDTEST);
    assert_eq!(value(&run, "file_create", "operation_rate"), 75.0);
    assert_eq!(run.series[1].gaps.len(), 1);
    let expected = [
        "11: no row of the summary, left out: 'File stat         :       100.000       …'",
        "12: no row of the summary, left out: 'File read         :       100.000       …'",
    ];
    assert_eq!(remarks(&run), expected);
}

#[test]
fn the_mean_over_iterations_is_read_by_its_heading() {
    let heading = OLD_MDTEST
        .lines()
        .find(|line| line.contains("Operation"))
        .unwrap();
    let row = OLD_MDTEST
        .lines()
        .find(|line| line.contains("File creation"))
        .unwrap();
    let with_heading = |new: &str, numbers: &str| {
        let row_of = format!("   File creation     : {numbers}");
        OLD_MDTEST.replace(heading, new).replace(row, &row_of)
    };
    let of_heading = |new: &str, numbers: &str| parse("mdtest", &with_heading(new, numbers));
    let run = of_heading(
        "   Operation   Mean   Max   Min   Std Dev",
        "200.000 300.000 100.000 5.000",
    );
    assert_eq!(value(&run, "file_create", "operation_rate"), 200.0);
    let both = "   Operation   per Rank: Max Min Mean Std Dev   per Iteration: Max Min Mean";
    let run = of_heading(
        both,
        "900.000 100.000 500.000 50.000 800.000 200.000 600.000",
    );
    assert_eq!(value(&run, "file_create", "operation_rate"), 600.0);
    let unknown = with_heading(
        "   Operation   Max   Min   Median   Std Dev",
        "9.000 7.000 8.000 1.000",
    );
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "mdtest")
        .unwrap();
    let error = (tool.read)(&mut unknown.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "but the columns of its heading 'Max Min Median Std Dev' are not known (line 8)"
        ),
        "{error}"
    );
}

#[test]
fn a_summary_of_times_names_the_option_to_omit() {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "mdtest")
        .unwrap();
    let text = OLD_MDTEST.replace("SUMMARY:", "SUMMARY time (in ms/op):");
    assert!(
        (tool.read)(&mut text.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("without -Z")
    );
}

// IO500.

#[test]
fn phases_of_io500_are_rates_in_base_units_and_too_short_ones_have_a_remark() {
    let [summary, terminal] =
        ["summary", "terminal"].map(|name| only(&golden(&format!("io500/two-tasks-{name}.txt"))));
    for run in [&summary, &terminal] {
        assert_eq!(
            run.version.as_deref(),
            Some("io500-isc26_v2-26-g02091cf254d8")
        );
        assert_eq!(
            value(run, "ior_easy_write", "throughput"),
            0.598912 * 1_073_741_824.0
        );
        assert_eq!(
            value(run, "mdtest_easy_stat", "operation_rate"),
            982.2726 * 1e3
        );
        assert_eq!(run.series.len(), 12);
        let all = remarks(run);
        assert_eq!(
            all.iter()
                .filter(|text| text.ends_with("marks the phase as invalid; its value is kept"))
                .count(),
            4
        );
        assert!(
            all.contains(&"left out: 1 unscored phase (ior-rnd4K-easy-read)".to_owned()),
            "{all:?}"
        );
        assert_eq!(
            all.iter()
                .filter(|text| text.ends_with("IO500 marks the whole run as invalid"))
                .count(),
            1
        );
    }
    assert_eq!(
        remarks(&summary)[0],
        "2: ior-easy-write: IO500 marks the phase as invalid; its value is kept"
    );
    assert_eq!(
        remarks(&terminal)[0],
        "2: ERROR INVALID (src/phase_dbg.c:15) stonewall-time 1s != 300s"
    );
    let text = std::fs::read_to_string(golden("io500/two-tasks-summary.txt")).unwrap();
    let run = parse("io500", &text.replace("0.598912 GiB/s", "0.598912 GB/s"));
    assert!(
        remarks(&run)[0].starts_with("2: no result of a phase, left out"),
        "{:?}",
        remarks(&run)
    );
    assert_eq!(run.series.len(), 11);
}

// composite.xml of the Phoronix Test Suite. The golden file is real output of 10.8.6 with a small
// test of fio on two file systems; the names of the machine are shortened.

fn two_systems() -> String {
    std::fs::read_to_string(shared("tool-output/phoronix-10.8.6.xml")).unwrap()
}

#[test]
fn each_repetition_of_each_system_is_a_run() {
    let runs = parse_all("phoronix", &two_systems());
    let systems: Vec<&str> = runs
        .iter()
        .filter_map(|run| run.system.as_deref())
        .collect();
    assert_eq!(systems, ["disk", "disk", "disk", "ram", "ram", "ram"]);
    let writes: Vec<f64> = runs
        .iter()
        .map(|run| value(run, "Type: Random Write", "operation_rate"))
        .collect();
    assert_eq!(
        writes,
        [81920.0, 52512.8, 68266.7, 341_333.3, 512_000.0, 512_000.0]
    );
    assert_eq!(
        value(&runs[1], "Type: Sequential Read", "throughput"),
        1333.33 * 1_048_576.0
    );
    let latency = series(&runs[2], "Type: Sequential Read", "time");
    assert_eq!(
        (latency.unit, latency.better, latency.found_unit.as_str()),
        (Unit::Seconds, Better::Lower, "us")
    );
    assert!((latency.points[0].value - 5.971e-6).abs() < 1e-15);
    assert_eq!(latency.points[0].line, 167);
    assert_eq!(
        latency.workload.as_deref(),
        Some("local/fio-small-1.0 3.33")
    );
    assert!(
        runs.iter()
            .all(|run| run.version.as_deref() == Some("10.8.6") && run.warnings.is_empty())
    );
}

/// One result in the exact structure of the real file.
fn result(scale: &str, proportion: &str, display: &str, entries: &[(&str, &str, &str)]) -> String {
    let entry = |(system, value, raw): &(&str, &str, &str)| {
        format!(
            "<Entry>\n<Identifier>{system}</Identifier>\n<Value>{value}</Value>\n\
             <RawString>{raw}</RawString>\n</Entry>\n"
        )
    };
    let entries: String = entries.iter().map(entry).collect();
    format!(
        "<Result>\n<Identifier>pts/t-1.2.3</Identifier>\n<Title>T</Title>\n<AppVersion></AppVersion>\n\
         <Arguments></Arguments>\n\
         <Description></Description>\n<Scale>{scale}</Scale>\n<Proportion>{proportion}</Proportion>\n\
         <DisplayFormat>{display}</DisplayFormat>\n<Data>\n{entries}</Data>\n</Result>\n"
    )
}

fn composite(results: &[String]) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n{}</PhoronixTestSuite>\n",
        results.concat()
    )
}

#[test]
fn a_result_without_repetitions_is_its_mean() {
    let runs = parse_all(
        "phoronix",
        &composite(&[result("Seconds", "LIB", "BAR_GRAPH", &[("a", "12.5", "")])]),
    );
    assert_eq!((runs.len(), value(&runs[0], "T", "time")), (1, 12.5));
    assert_eq!(runs[0].series[0].workload.as_deref(), Some("pts/t-1.2"));
}

#[test]
fn an_unknown_unit_keeps_its_name_and_the_direction_of_the_file() {
    let lower = result("Points", "LIB", "BAR_GRAPH", &[("a", "7", "6:8")]);
    let runs = parse_all("phoronix", &composite(&[lower]));
    let score = series(&runs[1], "T (Points)", "score");
    assert_eq!(
        (score.better, score.unit, score.points[0].value),
        (Better::Lower, Unit::Count, 8.0)
    );
}

#[test]
fn a_result_that_cannot_be_compared_is_left_out_with_a_remark() {
    let known = result(
        "IOPS",
        "HIB",
        "BAR_GRAPH",
        &[("a &amp; b", "2", "1:0:x:-3")],
    );
    let sensor = result(
        "Celsius",
        "LIB",
        "LINE_GRAPH",
        &[("a &amp; b", "40,41,42", "")],
    );
    let undirected = result("Points", "", "BAR_GRAPH", &[("a &amp; b", "1", "1")]);
    let runs = parse_all("phoronix", &composite(&[known, sensor, undirected]));
    assert_eq!(runs[0].system.as_deref(), Some("a & b"));
    let expected = [
        "16: T: 'x' is not a number; left out",
        "32: T: no bar graph; left out",
        "50: T: no direction for 'Points'; left out",
    ];
    assert_eq!(remarks(&runs[0]), expected);
    assert_eq!(runs[1].series[0].gaps[0].why, GapReason::Zero);
    // The repetitions 'x' and '-3' are gaps.
    assert_eq!(runs.len(), 4);
    assert!(
        runs[2..]
            .iter()
            .all(|run| run.series[0].gaps[0].why == GapReason::Unreadable)
    );
    assert_eq!(
        remarks(&runs[3]),
        ["16: T: -3e0 operations_per_second is not a possible measurement; left out"]
    );
    assert_eq!(runs[2].series[0].gaps[0].why, GapReason::Unreadable);
}

#[test]
fn other_hardware_is_a_warning_and_another_file_system_is_not() {
    let text = two_systems();
    let at = text.rfind("Memory: 24GB").unwrap();
    let other = format!("{}Memory: 48GB{}", &text[..at], &text[at + 12..]);
    assert_eq!(
        remarks(&parse_all("phoronix", &other)[0]),
        ["'disk' and 'ram' differ in: Memory"]
    );
    let at = text.rfind("File-System: ext4").unwrap();
    let other = format!("{}File-System: xfs{}", &text[..at], &text[at + 17..]);
    assert!(parse_all("phoronix", &other)[0].warnings.is_empty());
}

#[test]
fn a_damaged_file_gives_the_results_before_the_damage() {
    let text = two_systems();
    let cut = &text[..text.find("<RawString>81920").unwrap() + 14];
    let runs = parse_all("phoronix", cut);
    assert_eq!((runs.len(), runs[0].series.len()), (6, 1));
    assert!(
        remarks(&runs[0])[0].contains("the XML is cut or damaged here"),
        "{:?}",
        remarks(&runs[0])
    );
    assert_eq!(
        parse_all(
            "phoronix",
            &text
                .replace("</Title>", "</Titel>")
                .replacen("</Titel>", "</Title>", 2)
        )
        .len(),
        6
    );
}

#[test]
fn a_file_with_more_repetitions_than_a_test_has_is_refused() {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "phoronix")
        .unwrap();
    let text = |count: usize| {
        composite(&[result(
            "IOPS",
            "HIB",
            "BAR_GRAPH",
            &[("a", "1", &vec!["1"; count].join(":"))],
        )])
    };
    assert_eq!(
        (tool.read)(&mut text(10_000).as_bytes()).unwrap().len(),
        10_000
    );
    let error = (tool.read)(&mut text(10_001).as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 10000 runs"), "{error}");
}

#[test]
fn entities_of_the_file_are_not_expanded() {
    let bomb =
        "<!DOCTYPE x [<!ENTITY a \"1234567890\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]>";
    let text = composite(&[result("IOPS", "HIB", "BAR_GRAPH", &[("&b;", "2", "1:2")])]);
    let text = text.replacen(
        "<PhoronixTestSuite>",
        &format!("{bomb}<PhoronixTestSuite>"),
        1,
    );
    assert_eq!(
        parse_all("phoronix", &text)[0].system.as_deref(),
        Some("\u{fffd}")
    );
}
