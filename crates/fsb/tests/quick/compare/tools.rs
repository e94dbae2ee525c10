//! Sets of three runs of each tool: the operation that people compare by is judged.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::compare::compare;
use crate::common::scratch;

/// A golden file, the number in it that a set is made of, and the operation that has it.
struct Judged {
    golden: &'static str,
    /// Each number that changes: one, or the times of one command of hyperfine.
    numbers: &'static [&'static str],
    workload: Option<&'static str>,
    operation: &'static str,
    metric: &'static str,
}

#[rustfmt::skip] // a table reads as one
static JUDGED: [Judged; 10] = [
    Judged { golden: "hyperfine/1.20.0-named.json", numbers: &["0.019267572", "0.022353167", "0.021521145000000002"],
        workload: Some("old"), operation: "command", metric: "command_time" },
    Judged { golden: "pgbench/15.18-progress.txt", numbers: &["193.755453"],
        workload: Some("TPC-B (sort of), scale 1, 2 clients"), operation: "transaction", metric: "operation_rate" },
    Judged { golden: "pgbench/15.18-statements.txt", numbers: &["4.173"],
        workload: Some("TPC-B (sort of), scale 1, 1 client, prepared"), operation: "END;", metric: "latency_mean" },
    Judged { golden: "fs_mark/3.3-three-iterations.txt", numbers: &["1151.2"],
        workload: Some("inband fsync, 2 threads, to 800 files"), operation: "create", metric: "operation_rate" },
    Judged { golden: "dbench/4.0-two-clients.txt", numbers: &["228.377"],
        workload: Some("2 clients"), operation: "load", metric: "throughput" },
    Judged { golden: "ioping/1.3-text.txt", numbers: &["201.6"],
        workload: None, operation: "read", metric: "latency_mean" },
    Judged { golden: "ioping/1.3-requests.json", numbers: &["496541"],
        workload: None, operation: "read", metric: "latency_mean" },
    Judged { golden: "stress-ng/0.15.06-hdd.yaml", numbers: &["24151.868984"],
        workload: Some("hdd, 2 instances"), operation: "bogo operation", metric: "operation_rate" },
    Judged { golden: "smallfile/3.2-read.json", numbers: &["147848.5583488188"],
        workload: Some("read, 2 threads, 64 KiB"), operation: "read", metric: "operation_rate" },
    Judged { golden: "smallfile/3.2-create.json", numbers: &["1138.6688274038224"],
        workload: Some("create, 2 threads, 64 KiB"), operation: "create", metric: "operation_rate" },
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fsb-compat/tests/golden")
        .join(name)
}

/// Writes three files of a set, whose numbers differ by one percent.
fn write_set(directory: &Path, set: &str, judged: &Judged, factor: f64) {
    let text = fs::read_to_string(golden(judged.golden)).unwrap();
    for (run, noise) in [0.99, 1.0, 1.01].into_iter().enumerate() {
        let mut changed = text.clone();
        for number in judged.numbers {
            let places = number.split_once('.').map_or(0, |(_, places)| places.len());
            let scaled = number.parse::<f64>().unwrap() * factor * noise;
            assert!(changed.contains(number), "{number} in {}", judged.golden);
            changed = changed.replace(number, &format!("{scaled:.places$}"));
        }
        fs::write(directory.join(format!("{set}-{run}")), changed).unwrap();
    }
}

#[test]
fn three_runs_a_side_of_each_tool_are_judged() {
    for judged in &JUDGED {
        let scratch = scratch();
        write_set(scratch.path(), "a", judged, 1.0);
        write_set(scratch.path(), "b", judged, 2.0);
        let (document, warnings) = compare(scratch.path(), &["a=a-*", "b=b-*"]);
        let operations = document["operations"].as_array().unwrap();
        let is_it = |found: &&Value| {
            found["operation"] == judged.operation
                && found["workload"].as_str() == judged.workload
                && found["metric"] == judged.metric
        };
        let found = operations
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{}: {operations:#?}", judged.golden));
        let against = &found["estimate"]["against"]["b"];
        let verdict = if found["better"] == "lower" {
            "slower"
        } else {
            "faster"
        };
        assert_eq!(
            against["verdict"], verdict,
            "{}: {against}\n{warnings}",
            judged.golden
        );
    }
}

#[test]
fn failed_repetitions_of_hyperfine_are_no_runs() {
    let scratch = scratch();
    for set in ["a", "b"] {
        fs::copy(
            golden("hyperfine/1.15.0-failed.json"),
            scratch.path().join(set),
        )
        .unwrap();
    }
    let (document, warnings) = compare(scratch.path(), &["a", "b"]);
    let runs = |command: &str| {
        let mut operations = document["operations"].as_array().unwrap().iter();
        let found = operations
            .find(|found| found["workload"] == command && found["metric"] == "command_time");
        found.unwrap()["classic"]["sets"]["a"]["n"].as_u64()
    };
    assert_eq!(
        (runs("cp data copy"), runs("cp missing copy")),
        (Some(4), None)
    );
    assert!(
        warnings.contains("'cp missing copy' failed: exit code 1"),
        "{warnings}"
    );
}

#[test]
fn the_commands_of_one_file_of_hyperfine_are_compared_with_each_other() {
    let scratch = scratch();
    fs::copy(
        golden("hyperfine/1.20.0-named.json"),
        scratch.path().join("bench.json"),
    )
    .unwrap();
    let (document, _) = compare(scratch.path(), &["bench.json"]);
    let names: Vec<&str> = document["sets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|set| set["name"].as_str())
        .collect();
    assert_eq!(names, ["old", "new"]);
    let time = &document["operations"][0];
    assert_eq!(
        (&time["workload"], &time["metric"]),
        (&Value::Null, &"command_time".into())
    );
    assert!(
        time["estimate"]["against"]["new"]["ratio"].is_number(),
        "{time}"
    );
}

#[test]
fn one_command_a_file_is_compared_whatever_its_paths_are() {
    let scratch = scratch();
    let export = |target: &str, times: [f64; 3]| {
        let result = serde_json::json!({"command": format!("cp data /mnt/{target}"), "mean": times[1], "stddev": 0.01,
            "median": times[1], "user": 0.1, "system": 0.1, "min": times[0], "max": times[2], "times": times,
            "exit_codes": [0, 0, 0]});
        let text = serde_json::json!({"results": [result]}).to_string();
        fs::write(scratch.path().join(format!("{target}.json")), text).unwrap();
    };
    export("ext4", [1.0, 1.01, 1.02]);
    export("xfs", [2.0, 2.01, 2.02]);
    let (document, warnings) = compare(scratch.path(), &["ext4.json", "xfs.json"]);
    assert_eq!(
        document["operations"][0]["estimate"]["against"]["xfs"]["verdict"],
        "slower"
    );
    assert!(
        warnings.contains("each set has one command, and they differ"),
        "{warnings}"
    );
}
