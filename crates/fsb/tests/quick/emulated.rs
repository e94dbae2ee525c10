//! Runs on emulated processors: numbers everywhere, verdicts nowhere.

use std::fs;
use std::path::Path;

use crate::common::{expect_code, fsb, fsb_json, message, scratch, stdout};

const SMALL: &str = r#"
name = "small"
[repetition]
blocks = 5
sample_time = "1ms"
[[workload]]
name = "write"
file_size = ["64K", "256K"]
[[workload]]
name = "read"
file_size = ["64K", "256K"]
cache = "warm"
"#;

/// Makes a run of two targets whose speeds differ by half. Its record is marked as emulated or not.
fn run(directory: &Path, out: &str, emulated: bool) {
    fs::write(directory.join("small.toml"), SMALL).unwrap();
    let arguments = ["run", "small.toml", "null", "slow=null,slowdown=50%", "--seed", "7", "--out", out, "-q"];
    expect_code(&fsb(directory, &arguments), 0);
    if emulated {
        let path = directory.join(out).join("run.json");
        let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(record.get("emulated").is_none(), "native runs do not speak of it");
        record["emulated"] = true.into();
        fs::write(&path, record.to_string()).unwrap();
    }
}

#[test]
fn a_report_shows_numbers_and_judges_nothing() {
    let scratch = scratch();
    run(scratch.path(), "out", true);
    for (format, says) in [
        ("text", "Emulated: a functional run."),
        ("markdown", "**Emulated: a functional run."),
        ("csv", ",emulated: a functional run\n"),
        ("json", "\"unjudged\": \"emulated: a functional run\""),
        ("html", "<h1>Emulated: a functional run."),
    ] {
        let output = fsb(scratch.path(), &["report", "out", "--format", format]);
        expect_code(&output, 0);
        let text = stdout(&output);
        // The script of the charts is third-party code; a report without charts does not contain it.
        assert!(text.contains(says), "{format}: {text}");
        for word in ["faster", "slower", "fastest", "equivalent"] {
            assert!(!text.contains(word), "{format} says {word}");
        }
    }
}

#[test]
fn emulated_and_native_runs_are_never_compared() {
    let scratch = scratch();
    run(scratch.path(), "native", false);
    run(scratch.path(), "emulated", true);
    for (sets, says, unjudged) in [
        (
            ["native", "emulated"],
            "emulated was made on emulated processors and others were not",
            "emulated and native runs are never compared",
        ),
        (
            ["emulated", "again=emulated"],
            "nothing is judged: emulated: functional runs (emulated",
            "emulated: a functional run",
        ),
    ] {
        let arguments = [&["compare"][..], &sets, &["--format", "json", "--fail-if", "slower"]].concat();
        let compared = fsb_json(scratch.path(), &arguments);
        expect_code(&compared, 2);
        message(&compared, "warning/gate-undecided");
        let document: serde_json::Value = serde_json::from_str(&stdout(&compared)).unwrap();
        assert!(document["warnings"][0].as_str().unwrap().contains(says), "{}", document["warnings"]);
        assert_eq!(document["findings"], serde_json::json!([]));
        for operation in document["operations"].as_array().unwrap() {
            let (estimate, classic) = (&operation["estimate"]["against"], &operation["classic"]["against"]);
            for (set, against) in estimate.as_object().unwrap().iter().chain(classic.as_object().unwrap()) {
                assert!(against.is_null(), "{set}: {against}");
            }
            assert!(operation["classic"]["sets"].as_object().unwrap().values().all(|set| set["mean"].is_number()));
        }
        assert_eq!(document["unjudged"], unjudged);
        let schema = serde_json::from_str(include_str!("../../schema/comparison.json")).unwrap();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document), "{document}");
        let show = |format| stdout(&fsb(scratch.path(), &["compare", sets[0], sets[1], "--format", format]));
        let screen = show("text");
        assert!(screen.contains("numbers, nothing is judged.") && !screen.contains('%'), "{screen}");
        let table = show("csv");
        assert!(table.lines().next().unwrap().ends_with(",unjudged") && !table.contains("_ratio,"), "{table}");
        assert!(table.lines().skip(1).all(|line| line.ends_with(unjudged)), "{table}");
        for format in ["markdown", "html"] {
            assert!(show(format).contains("numbers, nothing is judged."), "{format}");
        }
    }
}
