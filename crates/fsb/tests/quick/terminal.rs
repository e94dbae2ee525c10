//! Text on the terminal: hidden bytes, completions, manual pages and suggestions.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

use fsb_report::visible::is_hidden;
use serde_json::Value;

use crate::common::{
    FSB, command, expect_code, expect_refusals, fails, fast_plan, fsb, fsb_json, messages,
    read_json, scratch, shell, stderr, stdout, succeeds, words,
};

// No byte of a name, a path or a message affects the terminal or is invisible there.

/// An escape sequence, a C1 control character, a direction override, and a character without width.
const EVIL: &str = "\u{1b}[31mred\u{9b}2J\u{202e}abc\u{200b}";
const SHOWN: &str = "\\u{1b}[31mred\\u{9b}2J\\u{202e}abc\\u{200b}";

fn expect_visible(output: &Output) {
    for text in [stdout(output), stderr(output)] {
        let hidden = text.chars().find(|c| is_hidden(*c) && !"\n\t".contains(*c));
        assert_eq!(hidden, None, "{text:?}");
    }
}

#[test]
fn a_job_of_fio_cannot_colour_the_screen() {
    let directory = scratch();
    let real = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/tool-output/fio-3.33.json"
    );
    let mut results = read_json(real);
    results["jobs"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|job| job["jobname"] = EVIL.into());
    fs::write(directory.path().join("a.json"), results.to_string()).unwrap();
    for format in ["text", "markdown"] {
        let output = succeeds(
            directory.path(),
            &["compare", "a.json", "b=a.json", "--format", format],
        );
        expect_visible(&output);
        // Markdown needs a backslash before characters that are markup elsewhere.
        assert!(
            stdout(&output)
                .replace("\\\\", "\\")
                .replace("\\[", "[")
                .contains(SHOWN),
            "{}",
            stdout(&output)
        );
    }
    let json = fsb(directory.path(), "compare a.json b=a.json --format json");
    assert!(
        String::from_utf8_lossy(&json.stdout).contains("\u{202e}abc\u{200b}"),
        "programs get the name as it is"
    );
}

#[test]
fn errors_repeat_paths_and_arguments_visibly() {
    let directory = scratch();
    let path = directory.path().join(EVIL);
    fs::write(&path, "no results\n").unwrap();
    let path = std::str::from_utf8(path.as_os_str().as_bytes()).unwrap();
    for arguments in [
        &["compare", path][..],
        &["compare", EVIL],
        &["report", path],
        &["filebench", path],
        &["run", EVIL],
        &["run", "null", "--suite", EVIL],
        &["list", EVIL],
        &[EVIL],
        &["run", &format!("--{EVIL}")],
    ] {
        let output = fsb(directory.path(), arguments);
        expect_code(&output, 2);
        expect_visible(&output);
        assert!(
            stderr(&output).contains("\\u{202e}"),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn progress_and_first_screen_name_targets_visibly() {
    let directory = scratch();
    fast_plan(directory.path());
    // A name with control characters is refused anyway.
    let target = "a\u{202e}b\u{200b}=null";
    let output = command(
        directory.path(),
        &format!("run fast.toml {target} null --blocks 1 --verbose --out out"),
    );
    let output = { output }.output().expect("the program starts");
    expect_code(&output, 0);
    expect_visible(&output);
    let said = stderr(&output);
    let in_a_block =
        |line: &str| line.starts_with("block 1: ") && line.contains("a\\u{202e}b\\u{200b}");
    assert!(said.lines().any(in_a_block), "{said}");
    let output = fsb(directory.path(), "report out");
    expect_visible(&output);
    assert!(
        stdout(&output).contains("a\\u{202e}b\\u{200b}"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_log_has_the_answer_after_the_first_interim_analysis_once() {
    let directory = scratch();
    fast_plan(directory.path());
    let said = |verbose: &str| {
        let arguments = format!("run fast.toml a=null b=null --budget 20s {verbose} --out out");
        let output = fsb_json(directory.path(), &arguments);
        expect_code(&output, 0);
        std::fs::remove_dir_all(directory.path().join("out")).unwrap();
        let mut answers = messages(&output);
        answers.retain(|message| message["code"] == "note/answer-so-far");
        answers
    };
    let answers = said("--verbose");
    let [answer] = &answers[..] else {
        panic!("{answers:?}")
    };
    let (made, planned) = (&answer["fields"]["made"], &answer["fields"]["planned"]);
    assert!(made.as_u64() < planned.as_u64(), "{answer}");
    let text = answer["message"].as_str().unwrap();
    assert!(text.starts_with("So far, "), "{text}");
    assert_eq!(said("-q"), [] as [Value; 0]);
}

// Completions and manual pages, which come from the same definition as `--help`; and suggestions
// for typing errors.

#[test]
fn zsh_and_fish_have_completions_and_other_shells_are_told_which() {
    let directory = scratch();
    for (name, sign) in [("zsh", "#compdef fsb"), ("fish", "complete -c fsb")] {
        let output = succeeds(directory.path(), &["completions", name]);
        assert!(
            stdout(&output).contains(sign) && stdout(&output).contains("theta"),
            "{name}"
        );
        if Path::new("/usr/bin").join(name).exists() {
            expect_code(&shell(name, &["-n"], &stdout(&output)), 0);
        }
    }
    fails(
        directory.path(),
        "completions bush",
        2,
        "arguments/invalid-value",
    );
}

#[test]
fn a_slip_of_the_finger_is_told_what_was_meant() {
    let directory = scratch();
    let (command, option) = ("arguments/unknown-command", "arguments/unknown-option");
    let lines = [
        ("rnu ext4", command),
        ("cmpare a b", command),
        ("completion bash", command),
        ("completions bush", "arguments/invalid-value"),
        ("kernel lst", command),
        ("run --bloks 3 ext4", option),
        ("run --tehta 3% ext4", option),
        ("run ext5", "target/unknown-file-system"),
        ("run databse.toml", "plan/unreadable"),
        ("micro --iteratons 4", option),
        ("iozone --alow-concurrent", "iozone/invalid-options"),
        ("postmark --verfy", option),
        ("filebench --secnds 3 x.f", option),
        ("compare --basline a b c", option),
        ("report --formt csv x", option),
        ("list suits", "list/unknown-family"),
        ("doctor --quik", option),
    ]
    .map(|(line, code)| (line.split(' ').collect::<Vec<_>>(), code));
    let requests: Vec<(&[&str], &str)> = lines
        .iter()
        .map(|(words, code)| (words.as_slice(), *code))
        .collect();
    expect_refusals("slips", directory.path(), &requests);
}

#[test]
fn the_binary_alone_knows_its_suites_plans_and_templates() {
    let directory = scratch();
    let alone = directory.path().join("fsb");
    fs::copy(FSB, &alone).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&alone);
        command
            .current_dir(directory.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("COLUMNS", "10000");
        command.args(arguments);
        command.output().expect("the copy starts")
    };
    let plans = run(&["list", "plans"]);
    expect_code(&plans, 0);
    for plan in stdout(&plans)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        // A plan for another machine may name a kernel that is missing here, which is a warning.
        let output = run(&["run", plan, "--print-plan"]);
        expect_code(&output, 0);
        assert!(stdout(&output).contains("[[workload]]"), "{plan}");
    }
    // The documentation names plans by their path in the source.
    expect_code(&run(&["run", "plans/postgresql.toml", "--print-plan"]), 0);
    let suites = stdout(&run(&["list", "suites"]));
    let suites = suites.lines().take_while(|line| !line.is_empty());
    for suite in suites.filter_map(|line| line.split_whitespace().next()) {
        expect_code(&run(&["run", "null", "--suite", suite, "--print-plan"]), 0);
    }
    let line = words("run null --suite varmail --scale 1/64 --blocks 1 --out out -q");
    expect_code(&run(&line), 0);
    assert!(
        fs::read_to_string(directory.path().join("out/report.html"))
            .unwrap()
            .len()
            > 100_000
    );
}
