//! The mistakes of a first-time administrator. Each is refused with exit code 2 and its error code,
//! before anything is made. A snapshot for each command contains the answers: the failure, its
//! cause and the next command, in at most three lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{fails, fsb, scratch, stderr, text_of, words};

/// The longest answer, in lines of a terminal with 80 columns.
const LINES: usize = 3;

/// Runs requests that the program must refuse with these error codes. Arguments are separated by
/// spaces.
fn expect_answers(snapshot: &str, requests: &[(&str, &str)]) {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("data")).unwrap();
    fs::write(scratch.path().join("notes.txt"), "no results\n").unwrap();
    let before = listing(scratch.path());
    let mut answers = String::new();
    for (request, code) in requests {
        let arguments = words(request);
        let error = fails(scratch.path(), &arguments, 2, code);
        let answer = answer_of(&error);
        let lines: usize = answer
            .lines()
            .map(|line| line.chars().count().div_ceil(80))
            .sum();
        assert!(lines <= LINES, "{request}: {lines} lines: {answer}");
        answers += &format!("$ fsb {request}\n{answer}\n");
    }
    assert_eq!(listing(scratch.path()), before);
    insta::assert_snapshot!(snapshot, answers);
}

fn listing(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    entries
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Returns the lines that fsb prints for an error: the failure, and the next command.
fn answer_of(error: &Value) -> String {
    let [message, help] = ["message", "help"].map(|key| error[key].as_str().unwrap());
    match message.strip_suffix(&format!("; {help}")) {
        Some(failure) => format!("error: {failure}\nhelp: {help}\n"),
        None => format!("error: {}\n", text_of(error)),
    }
}

#[test]
fn an_answer_is_the_failure_and_the_next_command() {
    let scratch = scratch();
    for (request, code) in [
        ("run /dev/no-such-disk", "target/no-directory"),
        ("run ext4 --fstype xfs", "arguments/unknown-option"),
        ("list colours", "list/unknown-family"),
    ] {
        let error = fails(scratch.path(), request, 2, code);
        let printed = stderr(&fsb(scratch.path(), request));
        assert_eq!(printed, answer_of(&error));
    }
}

#[test]
fn mistakes_of_command_line_are_answered() {
    let requests = [
        ("explain plan/conflict", "arguments/unknown-command"),
        ("ext4 xfs", "arguments/unknown-command"),
        ("help run", "arguments/unknown-command"),
        ("rnu ext4", "arguments/unknown-command"),
        ("--run ext4", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_command_line", &requests);
}

#[test]
fn mistakes_of_run_are_answered() {
    let requests = [
        ("run /dev/no-such-disk", "target/no-directory"),
        ("run ext4,xfs", "target/unknown-option"),
        ("run ext4 --budget 10", "arguments/invalid-value"),
        ("run ext4 --size 2", "arguments/invalid-value"),
        ("run ext4 --size 2GB", "arguments/invalid-value"),
        ("run ext4 --fstype xfs", "arguments/unknown-option"),
        ("run --rw=randread --bs=4k", "arguments/unknown-option"),
        ("run cifs", "target/unknown-file-system"),
        ("run data", "target/unknown-file-system"),
        ("run notes.txt", "target/unknown-file-system"),
        ("run ext4@sdb1", "target/unknown-file-system"),
        ("run ext4 --control swap off", "arguments/invalid-value"),
        ("run ext4 sh -c true", "arguments/unknown-option"),
        ("run ext4 -- no-such-program x", "arguments/invalid-value"),
        ("run ext4 --wipe /dev/no-such-disk", "arguments/conflict"),
        ("run ext4 --suite all", "plan/unknown-suite"),
        ("run ./data --out notes.txt", "store/not-a-directory"),
        ("run --resume data", "store/no-run"),
    ];
    expect_answers("mistakes_run", &requests);
}

#[test]
fn mistakes_of_choose_are_answered() {
    let requests = [
        ("choose ./data -- true", "choose/not-a-candidate"),
        ("choose cifs", "target/unknown-file-system"),
        ("choose ext4 --budget 10", "arguments/invalid-value"),
        ("choose ext4 --runtime 60", "arguments/unknown-option"),
        ("choose ext4 -- no-such-program", "arguments/invalid-value"),
        ("choose ext4 sh -c true", "arguments/unknown-option"),
        ("choose ext4 --size 4", "arguments/invalid-value"),
    ];
    expect_answers("mistakes_choose", &requests);
}

#[test]
fn mistakes_of_record_are_answered() {
    let requests = [
        ("record", "arguments/missing"),
        ("record ls", "arguments/unknown-option"),
        ("record -p 1", "arguments/unknown-option"),
        ("record --pid sshd", "arguments/invalid-value"),
        ("record --pid 999999999", "input/unreadable"),
        ("record -o notes.txt -- true", "output/exists"),
        ("record -o missing/a.trace -- true", "output/unwritable"),
        ("record --root missing -- true", "input/unreadable"),
    ];
    expect_answers("mistakes_record", &requests);
}

#[test]
fn mistakes_of_trace_are_answered() {
    let requests = [
        ("trace app.trace", "arguments/unknown-command"),
        ("trace replay notes.txt", "arguments/unknown-command"),
        ("trace shwo notes.txt", "arguments/unknown-command"),
        ("trace show missing.trace", "input/unreadable"),
        ("trace show notes.txt", "trace/not-a-trace"),
        ("trace import notes.txt", "arguments/missing"),
    ];
    expect_answers("mistakes_trace", &requests);
}

#[test]
fn mistakes_of_compare_are_answered() {
    let requests = [
        ("compare", "arguments/missing"),
        ("compare ext4 xfs", "input/unreadable"),
        ("compare missing.json", "input/unreadable"),
        ("compare notes.txt notes.txt", "compare/unknown-tool"),
        ("compare data", "compare/no-match"),
        ("compare *.json", "compare/no-match"),
        ("compare notes.txt -o out.docx", "output/unknown-format"),
    ];
    expect_answers("mistakes_compare", &requests);
}

#[test]
fn mistakes_of_export_are_answered() {
    let requests = [
        ("export ext4 xfs", "arguments/invalid-value"),
        ("export fio ext44", "target/unknown-file-system"),
        ("export fio /dev/no-such-disk", "target/no-directory"),
        ("export fio -o notes.txt", "directory/unusable"),
        ("export fio -o jobs.fio", "directory/unusable"),
        ("export fio missing.toml", "plan/unreadable"),
    ];
    expect_answers("mistakes_export", &requests);
}

#[test]
fn mistakes_of_kernel_are_answered() {
    let requests = [
        ("kernel 6.1", "arguments/unknown-command"),
        ("kernel lst", "arguments/unknown-command"),
        ("kernel fetch 6.1", "testbed/refused"),
        ("kernel fetch missing.deb", "testbed/refused"),
        (
            "kernel fetch https://example.org/linux.deb",
            "testbed/refused",
        ),
        ("kernel fetch linux-headers-amd64", "testbed/refused"),
    ];
    expect_answers("mistakes_kernel", &requests);
}

#[test]
fn mistakes_of_report_are_answered() {
    let requests = [
        ("report", "arguments/missing"),
        ("report missing", "store/no-run"),
        ("report notes.txt", "store/no-run"),
        ("report --last", "arguments/unknown-option"),
        ("report --html", "arguments/unknown-option"),
        ("report data other", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_report", &requests);
}

#[test]
fn mistakes_of_clean_are_answered() {
    let requests = [
        ("clean all", "arguments/unknown-option"),
        ("clean --dry-run", "arguments/unknown-option"),
        ("clean --force", "arguments/unknown-option"),
        ("clean --lst", "arguments/unknown-option"),
        ("clean /srv", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_clean", &requests);
}

#[test]
fn mistakes_of_doctor_are_answered() {
    let requests = [
        ("doctor ext4", "arguments/unknown-option"),
        ("doctor /srv", "arguments/unknown-option"),
        ("doctor --fix", "arguments/unknown-option"),
        ("doctor --quik", "arguments/unknown-option"),
        ("doctor --dir", "arguments/missing"),
    ];
    expect_answers("mistakes_doctor", &requests);
}

#[test]
fn mistakes_of_list_are_answered() {
    let requests = [
        ("list fs", "list/unknown-family"),
        ("list ext5", "list/unknown-family"),
        ("list xfs noatime", "list/unknown-family"),
        ("list controls swapp", "list/unknown-member"),
        ("list colours", "list/unknown-family"),
    ];
    expect_answers("mistakes_list", &requests);
}

#[test]
fn mistakes_of_micro_are_answered() {
    let requests = [
        ("micro --blockCount", "arguments/missing"),
        ("micro create data", "arguments/unknown-option"),
        ("micro raed --output data", "micro/invalid-option"),
        (
            "micro read --output data --blockSize 4k",
            "micro/invalid-option",
        ),
        (
            "micro write --output data --exportOutput data",
            "output/unwritable",
        ),
    ];
    expect_answers("mistakes_micro", &requests);
}

#[test]
fn mistakes_of_iozone_are_answered() {
    let requests = [
        ("iozone notes.txt", "iozone/invalid-options"),
        ("iozone -a -f data", "iozone/invalid-options"),
        ("iozone -a -f missing/f", "iozone/invalid-options"),
        ("iozone -s 1GB -f f", "iozone/invalid-options"),
        ("iozone -i 1 -s 1m -f f", "iozone/invalid-options"),
        ("iozone -t 2 -s 1m -f f", "iozone/invalid-options"),
    ];
    expect_answers("mistakes_iozone", &requests);
}

#[test]
fn mistakes_of_postmark_are_answered() {
    let requests = [
        ("postmark missing.pm", "input/unreadable"),
        ("postmark data", "input/unreadable"),
        ("postmark -f notes.txt", "arguments/unknown-option"),
        ("postmark --size 2G", "arguments/unknown-option"),
        ("postmark notes.txt data", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_postmark", &requests);
}

#[test]
fn mistakes_of_filebench_are_answered() {
    let requests = [
        ("filebench", "arguments/missing"),
        ("filebench varmail", "input/unreadable"),
        ("filebench data", "input/unreadable"),
        ("filebench -f notes.txt", "arguments/unknown-option"),
        (
            "filebench notes.txt --seconds 1m",
            "arguments/invalid-value",
        ),
    ];
    expect_answers("mistakes_filebench", &requests);
}

#[test]
fn mistakes_of_completions_are_answered() {
    let requests = [
        ("completions", "arguments/missing"),
        ("completions tcsh", "arguments/invalid-value"),
        ("completions Bash", "arguments/invalid-value"),
        ("completions bash zsh", "arguments/unknown-option"),
        ("completions --shell bash", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_completions", &requests);
}

#[test]
fn mistakes_of_man_are_answered() {
    let requests = [
        ("man", "arguments/missing"),
        ("man run", "directory/unusable"),
        ("man notes.txt", "directory/unusable"),
        ("man run report", "arguments/unknown-option"),
        ("man --dir .", "arguments/unknown-option"),
    ];
    expect_answers("mistakes_man", &requests);
}
