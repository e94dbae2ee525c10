//! IOR's text output.

use fsb_compat::read_file;

use crate::{golden, parse_all, remarks, series, value};

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
