//! hyperfine's JSON, from real files of 1.15 and 1.20.

use fsb_compat::read_file;
use fsb_model::metric::{Better, Unit};
use fsb_model::set::{GapReason, Run};

use crate::{golden, parse_all, remarks};

fn fixture(name: &str) -> Vec<Run> {
    read_file(&golden(&format!("hyperfine/1.{name}.json"))).unwrap()
}

/// Returns the values of a command in a metric, one for each repetition that has one.
fn values(runs: &[Run], command: &str, metric: &str) -> Vec<f64> {
    let series = runs.iter().flat_map(|run| &run.series);
    let found = series
        .filter(|series| series.workload.as_deref() == Some(command) && series.metric == metric);
    found
        .flat_map(|series| &series.points)
        .map(|point| point.value)
        .collect()
}

#[test]
fn each_time_is_a_repetition_and_each_command_a_workload() {
    let runs = fixture("15.0-two-commands");
    assert_eq!(runs.len(), 5);
    let copied = [
        0.013102462,
        0.022994074,
        0.021857096000000003,
        0.022169103000000003,
        0.020380603,
    ];
    assert_eq!(values(&runs, "cp data copy", "command_time"), copied);
    assert_eq!(
        values(
            &runs,
            "dd if=data of=copy bs=64k conv=fsync",
            "command_time"
        )[0],
        0.031881385000000005
    );
    let series = &runs[4].series[0];
    assert_eq!(
        (series.points[0].line, series.unit, series.better),
        (17, Unit::Seconds, Better::Lower)
    );
    assert!(
        runs.iter()
            .all(|run| run.warnings.is_empty() && run.failures.is_empty())
    );
}

#[test]
fn processor_time_is_one_mean_and_memory_is_a_value_of_each_repetition() {
    let runs = fixture("20.0-named");
    assert_eq!(values(&runs, "old", "user_time"), [0.0010063333333333333]);
    assert_eq!(values(&runs, "new", "system_time"), [0.009345333333333332]);
    assert_eq!(values(&runs, "new", "peak_memory"), [3_162_112.0; 3]);
}

#[test]
fn a_repetition_with_another_exit_code_than_zero_failed() {
    let runs = fixture("15.0-failed");
    assert_eq!(values(&runs, "cp missing copy", "command_time"), [0.0; 0]);
    assert_eq!(values(&runs, "cp data copy", "command_time").len(), 4);
    let failed = runs[1]
        .series
        .iter()
        .find(|series| series.workload.as_deref() == Some("cp missing copy"))
        .unwrap();
    assert_eq!(
        (failed.gaps[0].why, failed.gaps[0].line),
        (GapReason::Failed, 36)
    );
    let failure = &runs[3].failures[0];
    assert_eq!(
        (failure.line, failure.text.as_str()),
        (Some(44), "'cp missing copy' failed: exit code 1")
    );
}

/// A document of one command, in the structure of the real files.
fn document(extra: &str) -> String {
    format!(
        "{{\n  \"results\": [\n    {{\n      \"command\": \"c\",\n      \"mean\": 0.25,\n      \"stddev\": null,\n      \
         \"user\": 0.0,\n      \"system\": 0.0,\n      {extra}\n    }}\n  ]\n}}\n"
    )
}

#[test]
fn one_failed_repetition_leaves_the_others() {
    let text = document("\"times\": [0.5, 0.25, 0.75],\n \"exit_codes\": [0, 3, null]");
    let runs = parse_all("hyperfine", &text);
    assert_eq!(values(&runs, "c", "command_time"), [0.5]);
    let texts: Vec<&str> = runs
        .iter()
        .flat_map(|run| &run.failures)
        .map(|failure| failure.text.as_str())
        .collect();
    assert_eq!(
        texts,
        ["'c' failed: exit code 3", "'c' failed: a signal ended it"]
    );
}

#[test]
fn parameters_that_the_name_does_not_show_are_added() {
    let runs = fixture("15.0-parameters");
    let names: Vec<&str> = runs[1]
        .series
        .iter()
        .filter_map(|series| series.workload.as_deref())
        .collect();
    assert_eq!(names.len(), 4);
    assert!(
        names.contains(&"dd if=data of=copy bs=64k count=64 oflag=sync"),
        "{names:?}"
    );
    let text = document("\"times\": [0.5],\n \"parameters\": {\"size\": \"4k\", \"c\": \"c\"}");
    assert_eq!(
        parse_all("hyperfine", &text)[0].series[0]
            .workload
            .as_deref(),
        Some("c, size 4k")
    );
}

#[test]
fn the_same_command_twice_has_numbers() {
    let (start, end) = ("\"results\": [", "\n  ]");
    let text = document("\"times\": [0.5]");
    let one = &text[text.find(start).unwrap() + start.len()..text.rfind(end).unwrap()];
    let runs = parse_all("hyperfine", &text.replace(one, &format!("{one},{one}")));
    assert_eq!(values(&runs, "c #2", "command_time"), [0.5]);
}

#[test]
fn a_file_without_times_is_one_run_with_a_remark() {
    let runs = parse_all("hyperfine", &document("\"min\": 0.2"));
    assert_eq!(
        (runs.len(), values(&runs, "c", "command_time")),
        (1, vec![0.25])
    );
    assert_eq!(
        remarks(&runs[0]),
        ["3: c: the file holds the mean of its repetitions only, which counts as one run"]
    );
}

#[test]
fn a_cut_file_gives_the_commands_before_the_cut_with_a_remark() {
    let text = std::fs::read_to_string(golden("hyperfine/1.15.0-two-commands.json")).unwrap();
    let runs = parse_all("hyperfine", &text[..text.len() - 200]);
    assert_eq!((runs.len(), runs[0].series.len()), (5, 2));
    assert!(
        remarks(&runs[0])[0].starts_with("27: the JSON is cut or damaged here"),
        "{:?}",
        remarks(&runs[0])
    );
}
