//! Variants of a command, commands in this directory, and the gate of a run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{
    command, expect_code, fails, fsb, fsb_json, has_message, message, record, scratch, stderr,
    stdout, succeeds, trials,
};

const QUICK: [&str; 4] = ["--blocks", "6", "--sample-time", "1ms"];

/// Variants are targets whose commands differ. The plan of such a run makes it again.
#[test]
fn variants_are_targets_with_a_text_each() {
    let scratch = scratch();
    let versus = [
        "run",
        "null",
        "--versus",
        "old=echo",
        "new=echo -n",
        "--out",
        "run",
    ];
    let command = ["--", "{} word"];
    succeeds(
        scratch.path(),
        &[&versus[..], &QUICK, &command].concat()[..],
    );
    let run = record(&scratch.path().join("run"));
    let targets = run["plan"]["targets"].as_array().unwrap();
    let found: Vec<_> = targets
        .iter()
        .map(|target| (target["name"].as_str(), target["variant"].as_str()))
        .collect();
    assert_eq!(
        found,
        [(Some("old"), Some("echo")), (Some("new"), Some("echo -n"))]
    );
    let printed = succeeds(
        scratch.path(),
        &[&versus[..], &["--print-plan", "--seed", "7"], &command].concat()[..],
    );
    fs::write(scratch.path().join("plan.toml"), stdout(&printed)).unwrap();
    let again = succeeds(scratch.path(), "run plan.toml --print-plan");
    assert_eq!(stdout(&again), stdout(&printed));
}

/// The commands append to a file of this directory, which shows their order, and how often each
/// ran.
#[test]
fn commands_alternate_in_this_directory_with_the_environment_of_the_user() {
    let scratch = scratch();
    let home = std::env::var("HOME").unwrap();
    let commands = [
        "run",
        "--here",
        "-n",
        "one",
        "-n",
        "two",
        "-w",
        "2",
        "-p",
        "echo p >> log",
        "--out",
        "out",
        "echo $HOME 1 >> log",
        "echo $HOME 2 >> log",
    ];
    succeeds(scratch.path(), &[&commands[..], &QUICK].concat()[..]);
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let [one, two] = ["1", "2"].map(|number| format!("{home} {number}"));
    let ran = |line: &str| lines.iter().filter(|found| **found == line).count();
    assert_eq!(ran(&one), ran(&two), "{log}");
    assert_eq!(ran("p"), ran(&one) + ran(&two), "{log}");
    // Each run has its `prepare` just before it.
    assert!(
        lines.chunks(2).all(|pair| pair[0] == "p" && pair[1] != "p"),
        "{log}"
    );
    // Neither always comes first.
    let order: String = lines
        .iter()
        .filter_map(|line| line.chars().last().filter(char::is_ascii_digit))
        .collect();
    assert!(order.contains("12") && order.contains("21"), "{order}");
    let run = scratch.path().join("out");
    let plan = &record(&run)["plan"];
    assert_eq!(plan["keep_affected"], true);
    let names = ["one", "two"].map(serde_json::Value::from);
    let targets = plan["targets"].as_array().unwrap();
    let found: Vec<_> = targets
        .iter()
        .map(|target| target["name"].clone())
        .collect();
    assert_eq!(found, names);
    assert!(trials(&run).iter().all(|trial| trial["outcome"] == "ok"));
    let left: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn parameters_and_shells_make_commands() {
    let scratch = scratch();
    let variants = |arguments: &[&str]| {
        let lead = ["run", "--here", "--print-plan", "--seed", "7"];
        let printed = stdout(&succeeds(
            scratch.path(),
            &[&lead[..], arguments].concat()[..],
        ));
        let plan: toml::Table = printed.parse().unwrap();
        let targets = plan["targets"].as_array().unwrap().clone();
        let all: Vec<String> = targets
            .iter()
            .map(|target| target["variant"].as_str().unwrap().to_owned())
            .collect();
        (all, plan)
    };
    let (all, plan) = variants(&["-L", "n", "1,2", "echo {n}", "true"]);
    assert_eq!(all, ["echo 1", "echo 2", "true"]);
    assert_eq!(plan["repetition"]["budget"].as_str(), Some("60s"));
    let (all, _) = variants(&[
        "-L",
        "n",
        "1,2",
        "-L",
        "word",
        "a,b",
        "--",
        "echo",
        "{n}{word}",
    ]);
    assert_eq!(all, ["echo '1a'", "echo '1b'", "echo '2a'", "echo '2b'"]);
    let (all, plan) = variants(&["--shell", "bash", "echo a b", "true"]);
    assert_eq!(all, ["bash -c 'echo a b'", "bash -c true"]);
    let command = &plan["workload"][0]["command"];
    assert_eq!(command.as_array().unwrap()[0].as_str(), Some("{}"));
}

/// Equal targets pass a wide gate, and the run is too short for a narrow one.
#[test]
fn a_gate_passes_fails_or_cannot_tell() {
    let scratch = scratch();
    let run = |target: &str, gate: &str, exit: i32, code: &str| {
        let lead = ["run", "old=null", target, "--suite", "quick", "--seed", "5"];
        let output = fsb_json(
            scratch.path(),
            &[&lead[..], &QUICK, &["--fail-if", gate]].concat()[..],
        );
        expect_code(&output, exit);
        assert!(has_message(&output, code), "{gate}: {}", stderr(&output));
        output
    };
    run("new=null", "slower by 90 %", 0, "note/gate-passed");
    run(
        "new=null",
        "new slower by 0.01 %",
        2,
        "warning/gate-undecided",
    );
    let failed = run(
        "new=null,slowdown=30%",
        "new slower than old by 3 %",
        1,
        "warning/gate-failed",
    );
    let why = message(&failed, "warning/gate-failed");
    assert!(
        why["message"]
            .as_str()
            .unwrap()
            .contains("failed: new is slower than old at ")
    );
    let known = "[[acknowledged]]\ncase = '*'\ntarget = 'new'\nup_to = '99%'\nuntil = '9999-12-31'\nreason = 'known'\n";
    fs::write(scratch.path().join("known.toml"), known).unwrap();
    let lead = [
        "run",
        "old=null",
        "new=null,slowdown=30%",
        "--seed",
        "5",
        "--fail-if",
        "slower",
    ];
    let output = fsb_json(
        scratch.path(),
        &[&lead[..], &QUICK, &["--acknowledge", "known.toml"]].concat()[..],
    );
    expect_code(&output, 0);
    let why = message(&output, "note/gate-passed");
    assert!(
        why["message"]
            .as_str()
            .unwrap()
            .contains("acknowledged: new at ")
    );
}

#[test]
fn mistakes_with_variants_are_answered() {
    let scratch = scratch();
    for (arguments, code) in [
        (
            &["run", "null", "--versus", "old=echo"][..],
            "arguments/missing",
        ),
        (
            &["run", "null", "--versus", "echo", "b=true"],
            "arguments/invalid-value",
        ),
        (
            &["run", "null", "tmpfs", "--versus", "a=echo", "b=true"],
            "arguments/conflict",
        ),
        (
            &["run", "null", "--versus", "a=echo", "b=true", "--", "true"],
            "plan/conflict",
        ),
        (&["run", "--here"], "arguments/missing"),
        (
            &["run", "--here", "true", "--", "true"],
            "arguments/conflict",
        ),
        (
            &["run", "--here", "-L", "n", "1,2", "true"],
            "arguments/invalid-value",
        ),
        (
            &["run", "--here", "-n", "a", "-n", "b", "true"],
            "arguments/conflict",
        ),
        (
            &["run", "null", "null", "--fail-if", "null faster"],
            "arguments/invalid-value",
        ),
        (
            &["run", "null", "--fail-if", "slower"],
            "arguments/invalid-value",
        ),
        (
            &["run", "null", "null", "--fail-if", "nul slower"],
            "arguments/invalid-value",
        ),
        (
            &["run", "--here", "-p", "rm -f {}", "true", "false"],
            "arguments/conflict",
        ),
        (
            &["run", "--here", "--shell", "bash", "--versus", "a=x", "b=y"],
            "arguments/conflict",
        ),
        (
            &["run", "--here", "--versus", "a=", "b=true"],
            "arguments/invalid-value",
        ),
        (
            &["run", "--here", "--memory-limit", "64M", "true"],
            "plan/invalid",
        ),
        (
            &["run", "--here", "--runs", "10", "true"],
            "arguments/conflict",
        ),
        (
            &[
                "run",
                "null",
                "null",
                "--theta",
                "2%",
                "--fail-if",
                "slower by 3%",
            ],
            "arguments/invalid-value",
        ),
    ] {
        fails(scratch.path(), arguments, 2, code);
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// Variants that do different work are found before anything is measured.
#[test]
fn variants_that_print_other_output_end_the_run() {
    let scratch = scratch();
    let run = |one: &str, other: &str, exit: i32| {
        let lead = [
            "run",
            "--here",
            "--verify-same",
            "-n",
            "one",
            "-n",
            "two",
            "--out",
            exit_name(exit),
        ];
        let output = fsb(
            scratch.path(),
            &[&lead[..], &[one, other], &QUICK].concat()[..],
        );
        expect_code(&output, exit);
        stdout(&output)
    };
    run("echo same", "echo same; true", 0);
    let differs = run("echo a; echo 1", "echo a; echo 2", 1);
    assert!(differs.contains("different output"), "{differs}");
    let reason = &record(&scratch.path().join(exit_name(1)))["stop_reason"];
    assert_eq!(reason["kind"], "outputs_differ");
    assert_eq!(reason["blocks"], 0);
    let mut lines: Vec<_> = reason["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "2"]);
}

/// The program that is named as the shell runs instead of the commands.
#[test]
fn the_shell_that_is_named_runs_the_commands() {
    let scratch = scratch();
    let shell = scratch.path().join("shell");
    fs::write(&shell, "#!/bin/sh\necho \"$@\" >> log\n").unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let shell = shell.display().to_string();
    let lead = ["run", "--here", "-S", &shell, "--out", "run"];
    let commands = ["echo one > made", "echo two > made"];
    succeeds(scratch.path(), &[&lead[..], &commands, &QUICK].concat()[..]);
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    let known = ["-c echo one > made", "-c echo two > made"];
    assert!(log.lines().all(|line| known.contains(&line)), "{log}");
    assert!(!scratch.path().join("made").exists());
}

/// The command fails in its first three runs after the setup, and the report counts those that are
/// timed: none with three runs of warm-up.
#[test]
fn runs_of_warm_up_come_first_and_do_not_count() {
    let scratch = scratch();
    let failed = |warm_up: &str, out: &str| {
        let lead = [
            "run", "--here", "-w", warm_up, "-i", "--notes", "--out", out,
        ];
        let command = "n=$(cat n); echo $((n + 1)) > n; test $n -ge 3";
        let more = ["-s", "echo 0 > n", "-n", "counting", command];
        let output = succeeds(scratch.path(), &[&lead[..], &more, &QUICK].concat()[..]);
        let mut runs = Vec::new();
        for trial in trials(&scratch.path().join(out)) {
            let metrics = trial["metrics"].as_array().unwrap().clone();
            let mut found = metrics
                .into_iter()
                .filter(|metric| metric["name"] == "failed_runs");
            runs.push(found.next().unwrap()["value"].as_f64().unwrap());
        }
        (runs.iter().sum::<f64>(), stdout(&output))
    };
    let (runs, page) = failed("3", "warm");
    assert_eq!(runs, 0.0);
    assert!(!page.contains("another exit code"), "{page}");
    let (runs, page) = failed("0", "cold");
    assert!(runs > 0.0);
    assert!(
        page.contains("Runs with another exit code than 0: counting "),
        "{page}"
    );
}

/// Options of hyperfine that have another name here.
#[test]
fn options_of_hyperfine_are_answered_with_those_of_fsb() {
    let scratch = scratch();
    for (option, answer) in [
        ("-r", "--blocks 10"),
        ("--min-runs", "--blocks 10"),
        ("-N", "--shell none"),
        ("-P", "-L threads 1,2,4"),
        ("--export-json", "-o run.json"),
        ("--export-markdown", "-o run.comment.md"),
        ("-u", "fsb chooses units"),
    ] {
        let output = fsb(scratch.path(), &["run", "--here", option, "3", "true"]);
        expect_code(&output, 2);
        let message = stderr(&output);
        assert!(message.contains(answer), "{option}: {message}");
    }
}

/// Submodules are checked out from the copies of the repository; those without one are named.
#[test]
fn submodules_of_revisions_are_checked_out() {
    let scratch = scratch();
    let script = "set -e; export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=a \
                  GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=a@localhost \
                  GIT_CONFIG_KEY_2=protocol.file.allow GIT_CONFIG_VALUE_2=always; \
                  for n in inner library; do git init -q $n; \
                  echo $n > $n/file; git -C $n add file; git -C $n commit -qm one; done; \
                  git -C library submodule --quiet add $PWD/inner inner; git -C library commit -qm two; \
                  git init -q repository; cd repository; git submodule --quiet add $PWD/../library library; \
                  git commit -qm one; git submodule --quiet update --init --recursive; \
                  git commit -q --allow-empty -m two; \
                  rm -rf ../inner ../library";
    let made = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let repository = scratch.path().join("repository");
    let run = || {
        let lead = ["run", "--versus-git", "HEAD~", "HEAD", "--out", "../run"];
        let command = ["--", "cat", "library/file", "library/inner/file"];
        let output = fsb_json(&repository, &[&lead[..], &QUICK, &command].concat()[..]);
        fs::remove_dir_all(scratch.path().join("run")).unwrap();
        output
    };
    let whole = run();
    expect_code(&whole, 0);
    assert!(
        !has_message(&whole, "warning/no-submodule"),
        "{}",
        stderr(&whole)
    );
    fs::remove_dir_all(repository.join(".git/modules/library/modules")).unwrap();
    let missing = run();
    assert!(!missing.status.success());
    let warned = message(&missing, "warning/no-submodule");
    let text = warned["message"].as_str().unwrap();
    assert!(text.contains("library/inner is not checked out"), "{text}");
}

fn exit_name(exit: i32) -> &'static str {
    if exit == 0 { "same" } else { "differs" }
}

/// Two revisions of a repository of git that has changes: each has a tree, and nothing is left.
#[test]
fn revisions_are_built_measured_and_removed() {
    let scratch = scratch();
    let repository = scratch.path().join("repository");
    fs::create_dir(&repository).unwrap();
    let script = "set -e; git init -q -b main; git config user.name a; git config user.email a@localhost; \
                  echo 1 > number; git add number; git commit -qm one; git tag first; echo 2 > number; \
                  git commit -qam two; echo 3 > number";
    let made = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(&repository)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let run = |more: &[&str]| {
        let lead = [
            "run",
            "--versus-git",
            "first",
            "--build",
            "cp number built",
            "--out",
            "../run",
            "--verify-same",
        ];
        fsb(&repository, &[&lead[..], &QUICK, more].concat()[..])
    };
    let differs = run(&["--", "cat", "built"]);
    expect_code(&differs, 1);
    let record = record(&scratch.path().join("run"));
    let mut output: Vec<_> = record["stop_reason"]["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    output.sort_unstable();
    assert_eq!(
        output,
        ["1", "3"],
        "the first revision and the changed files"
    );
    fs::remove_dir_all(scratch.path().join("run")).unwrap();
    for (arguments, word) in [
        (
            &["run", "--versus-git", "nowhere", "--", "true"][..],
            "nowhere",
        ),
        (
            &[
                "run",
                "--versus-git",
                "first",
                "--build",
                "false",
                "--",
                "true",
            ],
            "its build ended",
        ),
        (&["run", "--versus-git", "first"], "no command"),
        (
            &[
                "run",
                "--versus-git",
                "first",
                "--build",
                "touch ../../../../built",
                "--fail-if",
                "nowhere slower",
                "--",
                "true",
            ],
            "unknown target 'nowhere'",
        ),
    ] {
        let output = fsb(&repository, arguments);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
    // Neither trees, nor the file that a build would have made for a wrong gate.
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // Git sets such variables for its hooks; the repository stays as it is.
    let shallow = scratch.path().join("shallow");
    let source = format!("file://{}", repository.display());
    let cloned = std::process::Command::new("git")
        .args(["clone", "--quiet", "--depth", "1", &source])
        .arg(&shallow)
        .output()
        .unwrap();
    assert!(cloned.status.success(), "{}", stderr(&cloned));
    for place in [&repository, &shallow] {
        let arguments = ["run", "--versus-git", "HEAD", "--out", "../again", "-q"];
        let arguments = [&arguments[..], &QUICK, &["--", "cat", "number"]].concat();
        let output = command(place, &arguments[..])
            .env("GIT_DIR", place.join(".git"))
            .env("GIT_INDEX_FILE", place.join(".git/index"))
            .output()
            .unwrap();
        expect_code(&output, 0);
        fs::remove_dir_all(scratch.path().join("again")).unwrap();
        let head = fs::read_to_string(place.join(".git/HEAD")).unwrap();
        assert_eq!(head, "ref: refs/heads/main\n");
        assert!(!scratch.path().join("again.git-trees").exists());
    }
    assert_eq!(
        fs::read_to_string(repository.join("number")).unwrap(),
        "3\n"
    );
    assert!(!repository.join("built").exists());
}

/// A directory beside a run that fsb has not made stays.
#[test]
fn trees_of_others_are_left_alone() {
    let scratch = scratch();
    let trees = scratch.path().join("run.git-trees");
    fs::create_dir(&trees).unwrap();
    fs::write(trees.join("file"), "").unwrap();
    succeeds(scratch.path(), "run null --blocks 1 --out run -q");
    succeeds(scratch.path(), "run null --print-plan --out run.git");
    assert!(trees.join("file").exists());
}

/// A plan may come from elsewhere: it needs permission for commands that are not confined.
#[test]
fn a_plan_that_is_not_confined_needs_permission() {
    let scratch = scratch();
    let place = scratch.path().display();
    let plan = format!(
        "targets = ['{place}']\n[repetition]\nblocks = 1\n[[workload]]\nname = 'command'\ncommand = 'touch made'\n\
         directory = '{place}'\ndurability = 'none'\n"
    );
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    fails(scratch.path(), "run plan.toml", 2, "arguments/conflict");
    assert!(!scratch.path().join("made").exists());
    succeeds(scratch.path(), "run plan.toml --here -q");
    assert!(scratch.path().join("made").exists());
}

/// A shell waits for its background jobs by SIGCHLD, which must not be blocked.
#[test]
fn a_shell_waits_for_its_background_jobs() {
    let scratch = scratch();
    for lead in [&["run", "--here"][..], &["run", "."]] {
        let more = [
            "--blocks",
            "1",
            "--time-limit",
            "20s",
            "-q",
            "--",
            "sh -c 'sleep 0.01 & wait'; true",
        ];
        succeeds(scratch.path(), &[lead, &more].concat()[..]);
    }
}

/// Reports for continuous integration have the rows of the gate.
#[test]
fn reports_have_the_rows_of_the_gate() {
    let scratch = scratch();
    let lead = [
        "run",
        "old=null",
        "new=null",
        "--fail-if",
        "new more memory by 5%",
        "-o",
        "gate.junit.xml",
    ];
    let output = fsb(scratch.path(), &[&lead[..], &QUICK].concat()[..]);
    expect_code(&output, 2);
    let report = fs::read_to_string(scratch.path().join("gate.junit.xml")).unwrap();
    assert!(report.contains("memory of write 1M"), "{report}");
}
