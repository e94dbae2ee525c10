//! The text output of IOR and the summaries of mdtest.

use fsb_compat::read_file;

use crate::{golden, only, parse, parse_all, remarks, series, value};

#[test]
fn each_iteration_is_a_run_of_all_tests() {
    let runs = read_file(&golden("ior/4.1-two-tests.txt")).unwrap();
    assert_eq!(runs.len(), 2);
    let [own, shared] = ["POSIX, file-per-process, 2 tasks", "POSIX, single-shared-file, 2 tasks"];
    let workloads: Vec<&str> = runs[1].series.iter().filter_map(|series| series.workload.as_deref()).collect();
    assert_eq!(workloads, [[own; 4], [shared; 4]].concat());
    let sizes: Vec<_> = runs[1].series.iter().map(|series| series.points[0].file_size.unwrap() >> 20).collect();
    // Blocks of 2 MiB: one in each file; then three segments of two tasks in one file.
    assert_eq!(sizes, [2, 2, 2, 2, 12, 12, 12, 12]);
    assert!(runs[0].series.iter().all(|series| series.points[0].record_size == Some(256 << 10)));
    let write = &series(&runs[0], "write", "throughput").points[0];
    assert_eq!((write.value, write.line), (8512.0 * 1_048_576.0, 34));
    assert_eq!(
        value(&read_file(&golden("ior/4.1-random.txt")).unwrap()[1], "random_read", "operation_rate"),
        235_263.0
    );
    for run in &runs {
        assert_eq!((run.version.as_deref(), run.command.as_deref()), (Some("4.1.0+dev"), Some("ior -f script")));
        assert!(run.warnings.is_empty());
    }
}

#[test]
fn the_table_of_3_0_has_no_operation_rates() {
    let runs = read_file(&golden("ior/3.0.1-file-per-process.txt")).unwrap();
    let reads: Vec<f64> = runs.iter().map(|run| value(run, "read", "throughput") / 1_048_576.0).collect();
    assert_eq!(reads, [13522.0, 19281.0]);
    let read = series(&runs[0], "read", "throughput");
    assert_eq!(read.workload.as_deref(), Some("POSIX, file-per-process, 2 tasks"));
    assert_eq!((read.points[0].file_size, read.points[0].record_size), (Some(4 << 20), Some(256 << 10)));
    assert_eq!(runs[0].series.len(), 2);
    assert!(runs.iter().all(|run| run.warnings.is_empty()));
}

#[test]
fn a_file_with_more_lines_than_ior_prints_is_refused() {
    let tool = fsb_compat::TOOLS.iter().find(|tool| tool.name == "ior").unwrap();
    let start = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\naccess bw(MiB/s) iter\n";
    let rows = |count: usize| format!("{start}{}", "write 1 0\n".repeat(count));
    assert_eq!((tool.read)(&mut rows(200_000).as_bytes()).unwrap().len(), 1);
    let error = (tool.read)(&mut rows(200_001).as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 200000 lines of iterations"), "{error}");
}

#[test]
fn a_bad_line_is_left_out_with_its_number() {
    let text = std::fs::read_to_string(golden("ior/3.0.1-file-per-process.txt")).unwrap();
    let first = text.find("write     ").unwrap();
    let line = text[..first].matches('\n').count() + 1;
    let bad = format!("{}write     x{}", &text[..first], &text[first + 16..]);
    let runs = parse_all("ior", &bad);
    assert!(remarks(&runs[0])[0].starts_with(&format!("{line}: bw(MiB/s) is not a number")), "{:?}", remarks(&runs[0]));
    assert_eq!((runs[0].series.len(), runs[1].series.len()), (1, 2));
}

// mdtest.

#[test]
fn each_execution_of_a_file_is_a_run() {
    let runs = read_file(&golden("mdtest/3.3-two-runs.txt")).unwrap();
    let rates: Vec<f64> = runs.iter().map(|run| value(run, "file_create", "operation_rate")).collect();
    assert_eq!(rates, [4827.012, 11805.398]);
    assert_eq!(value(&runs[1], "tree_remove", "operation_rate"), 132.092);
    for run in &runs {
        assert_eq!(run.series.len(), 6);
        assert!(run.series.iter().all(|series| series.workload.as_deref() == Some("2 tasks, 100 files")));
        assert_eq!(run.version.as_deref(), Some("3.3.1+dev"));
        assert!(
            run.warnings.is_empty()
                && run.command.as_deref().is_some_and(|command| command.starts_with("mdtest33 '-n'"))
        );
    }
}

#[test]
fn the_mean_of_iterations_counts_as_one_run_with_a_remark() {
    let run = only(&golden("mdtest/4.1-three-iterations.txt"));
    assert_eq!(value(&run, "directory_rename", "operation_rate"), 90089.884);
    assert_eq!(run.series.len(), 10);
    assert!(remarks(&run)[0].contains("means of its 3 iterations"), "{:?}", remarks(&run));
}

/// A summary of 1.9.3 with the statistics of single tasks, which precede those of iterations.
const OLD: &str = "\
-- started at 01/02/2020 10:00:00 --

mdtest-1.9.3 was launched with 4 total task(s) on 2 node(s)
Command line used: ./mdtest -n 10
4 tasks, 40 files/directories

SUMMARY: (of 1 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   File creation     :       100.000         50.000         75.000         80.000         60.000         70.000          5.000
   File stat         :       100.000         nan         75.000
   File removal      :         0.000          0.000          0.000          0.000
";

#[test]
fn the_statistics_of_single_tasks_are_not_read() {
    let run = parse("mdtest", OLD);
    assert_eq!(value(&run, "file_create", "operation_rate"), 70.0);
    assert_eq!(run.series[1].gaps.len(), 1);
    assert_eq!(remarks(&run), ["11: no row of the summary, left out: 'File stat         :       100.000       …'"]);
}

#[test]
fn a_summary_of_times_names_the_option_to_omit() {
    let tool = fsb_compat::TOOLS.iter().find(|tool| tool.name == "mdtest").unwrap();
    let text = OLD.replace("SUMMARY:", "SUMMARY time (in ms/op):");
    assert!((tool.read)(&mut text.as_bytes()).unwrap_err().to_string().contains("without -Z"));
}
