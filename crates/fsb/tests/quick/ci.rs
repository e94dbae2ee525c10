//! `contrib/ci`: the script of a gate, and the steps of GitHub Actions and GitLab CI that run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use yaml_rust2::{Yaml, YamlLoader};

use crate::common::compare::set;
use crate::common::{FSB, expect_code, scratch, stderr, stdout};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/ci");
const REPORTS: [&str; 4] = [
    "fsb.junit.xml",
    "fsb.comment.md",
    "fsb.annotations.txt",
    "fsb.codequality.json",
];

/// Returns a shell in the directory that knows no CI system but the one of the test.
fn shell(directory: &Path, program: &str) -> Command {
    let mut shell = Command::new(program);
    shell.current_dir(directory).env("FSB", FSB);
    for name in ["GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
        shell.env_remove(name);
    }
    shell
}

/// Runs the script.
fn gate(directory: &Path, arguments: &[&str]) -> Output {
    let script = format!("{FOLDER}/gate.sh");
    let mut shell = shell(directory, "sh");
    shell.arg(script).args(arguments).output().unwrap()
}

fn read(name: &str) -> Yaml {
    let text = fs::read_to_string(format!("{FOLDER}/{name}")).unwrap();
    let mut documents = YamlLoader::load_from_str(&text).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// Returns the pairs of a mapping of texts.
fn texts(mapping: &Yaml) -> Vec<(String, String)> {
    let pairs = mapping.as_hash().expect("a mapping").iter();
    let text = |value: &Yaml| value.as_str().expect("a text").to_owned();
    pairs.map(|(key, value)| (text(key), text(value))).collect()
}

fn slower() -> [String; 2] {
    [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
    ]
}

fn single_runs() -> [String; 2] {
    [
        set("a", "iozone-2010/xfs/xfs1.iozone"),
        set("b", "iozone-2010/ext4/ext4_1.iozone"),
    ]
}

#[test]
fn the_script_returns_the_exit_code_and_writes_every_report() {
    let scratch = scratch();
    let gate = |arguments: &[&str], code| {
        let done = gate(scratch.path(), arguments);
        expect_code(&done, code);
        done
    };
    let [one, other] = slower();
    let compare = ["compare", &one, &other, "--fail-if", "slower"];
    let failed = gate(&compare, 1);
    assert!(stdout(&failed).contains("random write"), "the first screen");
    for name in REPORTS {
        let path = scratch.path().join("fsb-reports").join(name);
        assert!(fs::metadata(path).unwrap().len() > 0, "{name}");
    }
    gate(&[&compare[..], &["--theta", "100%"]].concat(), 0);
    let [one, other] = single_runs();
    let undecided = ["compare", &one, &other, "--fail-if", "slower"];
    gate(&undecided, 2);
    let warned = gate(&[&["--cannot-tell", "warn"], &undecided[..]].concat(), 0);
    assert!(stderr(&warned).contains("cannot tell"));
    // An invalid request is a failure, and leaves no report of an earlier one.
    gate(&["--cannot-tell", "warn", "compare", "no-such-file"], 3);
    for name in REPORTS {
        assert!(
            !scratch.path().join("fsb-reports").join(name).exists(),
            "{name}"
        );
    }
    for wrong in [
        &["--no-such-option"][..],
        &["--cannot-tell", "maybe", "compare"],
        &[],
    ] {
        assert!(stderr(&gate(wrong, 2)).contains("usage: gate.sh"));
    }
}

#[test]
fn a_run_of_null_targets_has_a_test_case_for_each_case() {
    let scratch = scratch();
    let run =
        "--reports out run a=null b=null --blocks 6 --sample-time 1ms --suite quick --out run";
    let arguments: Vec<&str> = run.split(' ').collect();
    expect_code(&gate(scratch.path(), &arguments), 0);
    let report = fs::read_to_string(scratch.path().join("out/fsb.junit.xml")).unwrap();
    assert!(report.matches("<testcase ").count() > 3, "{report}");
    assert!(report.contains("classname=\"b vs a\""), "{report}");
}

#[test]
fn the_steps_of_the_action_run_the_script() {
    let scratch = scratch();
    let action = read("action.yml");
    let inputs = action["inputs"].as_hash().unwrap();
    assert_eq!(action["runs"]["using"].as_str(), Some("composite"));
    let [step] = action["runs"]["steps"].as_vec().unwrap().as_slice() else {
        panic!("one step")
    };
    assert_eq!(step["id"].as_str(), Some("gate"), "outputs name it");
    let [one, other] = slower();
    let mut shell = shell(scratch.path(), step["shell"].as_str().unwrap());
    for (name, value) in texts(&step["env"]) {
        let input = value
            .strip_prefix("${{ inputs.")
            .unwrap()
            .strip_suffix(" }}")
            .unwrap();
        let declared = &inputs[&Yaml::String(input.to_owned())];
        let value = match input {
            "fsb" => FSB.to_owned(),
            "arguments" => format!("compare '{one}' '{other}' --fail-if slower"),
            _ => declared["default"].as_str().unwrap().to_owned(),
        };
        shell.env(name, value);
    }
    assert_eq!(
        texts(&step["env"]).len(),
        inputs.len(),
        "every input is used"
    );
    shell
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_ACTION_PATH", FOLDER)
        .env("GITHUB_OUTPUT", scratch.path().join("output"))
        .env("GITHUB_STEP_SUMMARY", scratch.path().join("summary"));
    let done = shell
        .args(["-e", "-c", step["run"].as_str().unwrap()])
        .output()
        .unwrap();
    expect_code(&done, 1);
    assert!(
        stdout(&done).contains("\n::error title="),
        "{}",
        stdout(&done)
    );
    let written = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap();
    assert_eq!(written("output"), "answer=failed\n");
    assert!(written("summary").starts_with("**Slower by more than 3 %: "));
}

#[test]
fn the_job_of_gitlab_runs_the_script_and_keeps_its_reports() {
    let scratch = scratch();
    let template = read("gitlab.yml");
    let job = &template[".fsb-gate"];
    let variables = texts(&job["variables"]);
    let [one, other] = single_runs();
    let mut shell = shell(scratch.path(), "sh");
    for (name, value) in &variables {
        let value = match name.as_str() {
            "FSB" => FSB.to_owned(),
            "FSB_ARGUMENTS" => format!("compare '{one}' '{other}' --fail-if slower"),
            "FSB_GATE" => format!("{FOLDER}/../../{value}"),
            "FSB_CANNOT_TELL" => "warn".to_owned(),
            _ => value.clone(),
        };
        shell.env(name, value);
    }
    let lines = job["script"].as_vec().unwrap().iter();
    let script: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    expect_code(
        &shell
            .args(["-e", "-c", &script.join("\n")])
            .output()
            .unwrap(),
        0,
    );
    let reports = variables
        .iter()
        .find(|(name, _)| name == "FSB_REPORTS")
        .unwrap();
    for (_, path) in texts(&job["artifacts"]["reports"]) {
        let path = path.replace("$FSB_REPORTS", &reports.1);
        assert!(scratch.path().join(&path).exists(), "{path}");
    }
}
