//! `fsb report` and `fsb compare` for spreadsheets, papers and a local disk: summary.csv, xlsx, figures, commands.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::common::{command, expect_code, expect_refusals, fails, fast_plan, fsb, scratch, stdout};

/// Runs two targets on the null file system; the second one takes twice as long.
fn run(directory: &Path) {
    fast_plan(directory);
    let targets = ["plain=null", "slow=null,slowdown=100%"];
    let arguments = ["run", "fast.toml", "--seed", "42", "--blocks", "6", "--out", "run", "--quiet"];
    expect_code(&fsb(directory, &[&arguments[..], &targets].concat()), 0);
}

fn lines(table: &str) -> Vec<HashMap<String, String>> {
    csv::Reader::from_reader(table.as_bytes()).deserialize().map(|line| line.expect("a line")).collect()
}

#[test]
fn a_report_is_written_in_the_format_that_the_file_name_implies() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory);
    let write = |command: &str, file: &str| {
        expect_code(&fsb(directory, &[command, "run", "-o", file]), 0);
        fs::read(directory.join(file)).expect("the file is written")
    };
    for command in ["report", "compare"] {
        let table = String::from_utf8(write(command, "my-summary.csv")).expect("text");
        let slow: Vec<_> = lines(&table).into_iter().filter(|line| line["target"] == "slow").collect();
        assert!(!slow.is_empty(), "{table}");
        for line in slow {
            assert_eq!(
                (&*line["baseline"], &*line["verdict"], &*line["leads"]),
                ("plain", "slower", "false"),
                "{line:?}"
            );
            assert_eq!((&*line["n"], &*line["outcome"], &*line["level"]), ("6", "winner", "0.95"), "{line:?}");
        }
        assert_eq!(stdout(&fsb(directory, &[command, "run", "--format", "summary-csv"])), table);
        for (file, begins) in [("a.xlsx", "PK"), ("a.svg", "<svg "), ("a.png", "\u{fffd}PNG"), ("a.pdf", "%PDF-")] {
            let content = write(command, file);
            assert!(String::from_utf8_lossy(&content).starts_with(begins), "{command} -o {file}");
        }
    }
    assert!(String::from_utf8(write("report", "trials.csv")).expect("text").starts_with("target,workload,"));
    // A pipe accepts binary formats.
    assert!(fsb(directory, &["report", "run", "--format", "png"]).stdout.starts_with(b"\x89PNG"));
}

#[test]
fn commands_are_those_of_the_recorded_targets() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory);
    // The null file system has no commands: use those that a run as root records.
    let path = directory.join("run/run.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("a record")).expect("JSON");
    let targets = &mut record["plan"]["targets"];
    targets[0]["file_system"] =
        serde_json::json!({ "fs": "ext4", "options": ["noatime"], "medium": { "name": "loop" } });
    targets[1]["file_system"] =
        serde_json::json!({ "fs": "xfs", "mkfs": ["-m", "crc=0"], "medium": { "name": "loop" } });
    let command = |words: &str| serde_json::Value::from_iter(words.split(' '));
    record["targets"]["plain"] = serde_json::json!({
        "mkfs_command": command("/usr/sbin/mkfs.ext4 -F -q -E nodiscard -b 4096 /dev/loop0"),
        "requested_options": ["noatime"],
        "mount_options": ["rw", "noatime"],
    });
    record["targets"]["slow"] = serde_json::json!({
        "mkfs_command": command("/usr/sbin/mkfs.xfs -f -q -K -l size=64m -m crc=0 /dev/loop1"),
    });
    fs::write(&path, record.to_string()).expect("the record is written");
    let all = fsb(directory, &["report", "run", "--commands"]);
    expect_code(&all, 0);
    insta::assert_snapshot!("commands", stdout(&all));
    let one = fsb(directory, &["report", "run", "--commands", "slow"]);
    expect_code(&one, 0);
    assert!(stdout(&all).ends_with(&stdout(&one)) && !stdout(&one).contains("ext4"), "{}", stdout(&one));
    fails(directory, &["report", "run", "--commands", "slo"], 2, "report/unknown-target");
}

#[test]
fn commands_and_formats_that_make_no_sense_are_refused() {
    let scratch = scratch();
    run(scratch.path());
    expect_refusals(
        "report_files_refusals",
        scratch.path(),
        &[
            (&["report", "run", "--commands", "slo"], "report/unknown-target"),
            (&["report", "run", "--commands", "slow", "-o", "x.csv"], "arguments/conflict"),
            (&["report", "run", "-o", "summary.ods"], "output/unknown-format"),
            (&["compare", "run", "--commands"], "arguments/unknown-option"),
        ],
    );
}

/// Standard output is a pipe in tests, which has no color by default.
#[test]
fn colour_follows_the_option_and_the_environment() {
    let scratch = scratch();
    run(scratch.path());
    let has_colour = |arguments: &[&str], variable: Option<&str>| {
        let mut report = command(scratch.path(), &[&["report", "run"], arguments].concat());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            report.env_remove(name);
        }
        report.envs(variable.map(|name| (name, "1")));
        stdout(&report.output().unwrap()).contains("\x1b[")
    };
    for (arguments, variable, expected) in [
        (&[][..], None, false),
        (&["--color", "always"], None, true),
        (&["--color", "always"], Some("NO_COLOR"), true),
        (&[], Some("CLICOLOR_FORCE"), true),
        (&["--color", "never"], Some("CLICOLOR_FORCE"), false),
    ] {
        assert_eq!(has_colour(arguments, variable), expected, "{arguments:?} {variable:?}");
    }
}

#[test]
fn a_path_that_is_not_a_run_is_explained() {
    let scratch = scratch();
    let run = scratch.path().join("set/run-1");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("run.json"), "{}").unwrap();
    let requests: [(&[&str], &str); 4] = [
        (&["report", "set"], "store/no-run"),
        (&["report", "nowhere"], "store/no-run"),
        (&["report", "out.csv"], "store/no-run"),
        (&["run", "null", "--input", "nosuch", "--", "true"], "input/unreadable"),
    ];
    expect_refusals("no_run", scratch.path(), &requests);
}
