//! `fsb bisect` on repositories of git.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::*;

/// A repository with a commit for each script, which is its program.
fn repository(directory: &Path, scripts: &[&str]) {
    git(
        directory,
        &["init", "--quiet", "--initial-branch", "main", "."],
    );
    for (at, script) in scripts.iter().enumerate() {
        fs::write(directory.join("prog"), script).unwrap();
        git(directory, &["add", "prog"]);
        let message = format!("Change {at}");
        git(
            directory,
            &["commit", "--quiet", "--allow-empty", "-m", &message],
        );
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn revisions_that_are_no_line_and_ends_that_do_not_build_are_refused() {
    needs!(program "git");
    let scratch = scratch();
    repository(scratch.path(), &["true", "true # 1", "true # 2"]);
    git(scratch.path(), &["branch", "side", "HEAD~2"]);
    git(scratch.path(), &["checkout", "--quiet", "side"]);
    git(
        scratch.path(),
        &["commit", "--quiet", "--allow-empty", "-m", "Side"],
    );
    let bisect = |good: &str, bad: &str, build: &str, code: &str, exit: i32| {
        let arguments = [
            "bisect",
            "--good",
            good,
            "--bad",
            bad,
            "--build",
            build,
            "--out",
            "b",
            "--",
            "sh {}/prog",
        ];
        let error = fails(scratch.path(), &arguments[..], exit, code);
        text_of(&error)
    };
    assert!(bisect("main", "main~1", "true", "bisect/no-history", 2).contains("newer"));
    assert!(bisect("main", "main", "true", "bisect/no-history", 2).contains("same commit"));
    assert!(bisect("side", "main", "true", "bisect/no-history", 2).contains("ancestor"));
    assert!(bisect("nothing", "main", "true", "bisect/no-history", 2).contains("nothing"));
    assert!(!scratch.path().join("b").exists());
    let text = bisect(
        "main~2",
        "main",
        "echo no rule >&2; false",
        "bisect/end-not-built",
        2,
    );
    assert!(text.contains("no rule"), "{text}");
    assert_eq!(
        git(scratch.path(), &["worktree", "list"]).lines().count(),
        1
    );
}

#[test]
fn work_that_fails_on_an_end_is_an_error() {
    needs!(program "git");
    let scratch = scratch();
    repository(scratch.path(), &["true", "exit 3"]);
    let arguments = [
        "bisect",
        "--good",
        "main~1",
        "--bad",
        "main",
        "--sample-time",
        "1ms",
        "--out",
        "b",
        "--",
        "sh {}/prog",
    ];
    fails(scratch.path(), &arguments[..], 4, "bisect/end-failed");
}

/// A shell script that counts to a number, in its own process.
fn counting(to: u32) -> String {
    format!("i=0; while [ $i -lt {to} ]; do i=$((i+1)); done")
}

/// Sixteen commits, of which the last six are slower by a fifth. The fourth and the one before the
/// slow ones do not build.
#[test]
fn the_slow_commit_among_those_that_build_is_found() {
    needs!(program "git");
    let scratch = scratch();
    let mut scripts = Vec::new();
    for at in 0..16 {
        let broken = if at == 3 || at == 9 { "# broken" } else { "" };
        let loops = if at < 10 { 40_000 } else { 50_000 };
        scripts.push(format!("{} {broken} # {at}", counting(loops)));
    }
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    repository(scratch.path(), &scripts);
    let before = git(scratch.path(), &["for-each-ref"]);
    let build = "if grep -q broken prog; then echo no rule to make prog >&2; exit 2; fi";
    let arguments = [
        "bisect",
        "--good",
        "main~15",
        "--bad",
        "main",
        "--build",
        build,
        "--suspect",
        "prog",
        "--out",
        "b",
        "--quiet",
        "--allow-concurrent",
        "--",
        "sh {}/prog",
    ];
    let output = fsb(scratch.path(), &arguments[..]);
    expect_code(&output, 0);
    let known: Value = read_json(scratch.path().join("b/bisect.json"));
    let place = &known["ending"]["place"];
    assert_eq!(
        (&place["earlier"], &place["later"]),
        (&8.into(), &10.into()),
        "{known:#}"
    );
    let reason = known["candidates"][9]["state"]["excluded"]
        .as_str()
        .unwrap();
    assert!(reason.contains("no rule to make prog"), "{reason}");
    let text = stdout(&output);
    assert!(
        text.contains("(Change 8)") && text.contains("(Change 10)"),
        "{text}"
    );
    // Nothing of the bisection is left in the repository, and no tree.
    assert_eq!(git(scratch.path(), &["for-each-ref"]), before);
    assert!(!scratch.path().join(".git/worktrees").exists());
    assert!(!scratch.path().join("b/trees").exists());
}

#[test]
fn a_killed_build_is_made_again() {
    needs!(program "git");
    let scratch = scratch();
    repository(scratch.path(), &["true # 0", "true # 1"]);
    // The first build never ends.
    let build = "test -e ../../../again || { touch ../../../began; exec sleep 1000; }";
    let arguments = [
        "bisect",
        "--good",
        "main~1",
        "--bad",
        "main",
        "--build",
        build,
        "--out",
        "b",
        "--quiet",
        "--allow-concurrent",
        "--sample-time",
        "1ms",
        "--",
        "sh {}/prog",
    ];
    let mut running = Running::start(scratch.path(), &arguments[..]);
    let began = || scratch.path().join("began").exists();
    while !began() && running.is_running() {
        std::thread::yield_now();
    }
    running.signal(rustix::process::Signal::INT);
    let interrupted = running.wait();
    expect_code(&interrupted, 130);
    let message = stderr(&interrupted);
    assert!(message.contains("fsb bisect --resume b"), "{message}");
    assert!(!message.contains("fsb run --resume"), "{message}");
    fs::write(scratch.path().join("again"), "").unwrap();
    // Both ends do the same work.
    let output = fsb(
        scratch.path(),
        &words("bisect --resume b --quiet --allow-concurrent"),
    );
    expect_code(&output, 2);
    let known: Value = read_json(scratch.path().join("b/bisect.json"));
    assert_eq!(known["ending"]["end"], "ends_alike", "{known:#}");
}
