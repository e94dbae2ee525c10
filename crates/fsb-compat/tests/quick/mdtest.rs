//! mdtest's summaries.

use fsb_compat::read_file;

use crate::{golden, only, parse, remarks, value};

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
