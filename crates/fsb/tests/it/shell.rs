//! Completions and manual pages, which come from the same definition as `--help`; and suggestions for typing errors.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{FSB, expect_code, fsb, needs_program, scratch, stderr, stdout};

/// What a shell does with a script.
fn shell(program: &str, arguments: &[&str], script: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the shell starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("the shell reads");
    child.wait_with_output().expect("the shell ends")
}

#[test]
fn bash_completes_commands_options_and_their_values() {
    needs_program("bash");
    let directory = scratch();
    let script = stdout(&fsb(directory.path(), &["completions", "bash"]));
    expect_code(&shell("bash", &["-n"], &script), 0);
    // What `complete -p` names is called as readline calls it.
    let completed = |words: &str| {
        let ask = format!(
            "{script}\nfunction=$(complete -p fsb | sed 's/.*-F \\([^ ]*\\).*/\\1/')\nCOMP_WORDS=({words})\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             $function fsb \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let output = shell("bash", &["--norc", "--noprofile"], &ask);
        expect_code(&output, 0);
        stdout(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("fsb comp"), ["compare", "completions"]);
    assert!(completed("fsb ''").contains(&"run".to_owned()));
    assert!(!completed("fsb ''").contains(&"man".to_owned()), "packagers find it");
    assert_eq!(completed("fsb run --mk"), ["--mkfs-defaults"], "an option of the complete page");
    assert_eq!(completed("fsb compare --fail-if ''"), ["slower"]);
    assert_eq!(completed("fsb kernel f"), ["fetch"]);
    assert_eq!(completed("fsb run ext"), ["ext2", "ext3", "ext4"]);
    assert_eq!(completed("fsb run xfs ext4,noatime,nodela"), ["ext4,noatime,nodelalloc"]);
    assert_eq!(completed("fsb run btrfs,compress"), ["btrfs,compress", "btrfs,compress-force"]);
    assert_eq!(completed("fsb run --control read"), ["read-ahead"]);
    assert_eq!(completed("fsb run --suite iozone-d"), ["iozone-direct"]);
    assert!(completed("fsb list file-systems nilf").contains(&"nilfs2".to_owned()));
}

#[test]
fn zsh_and_fish_have_completions_and_other_shells_are_told_which() {
    let directory = scratch();
    for (name, sign) in [("zsh", "#compdef fsb"), ("fish", "complete -c fsb")] {
        let output = fsb(directory.path(), &["completions", name]);
        expect_code(&output, 0);
        assert!(stdout(&output).contains(sign) && stdout(&output).contains("theta"), "{name}");
        if Path::new("/usr/bin").join(name).exists() {
            expect_code(&shell(name, &["-n"], &stdout(&output)), 0);
        }
    }
    let output = fsb(directory.path(), &["completions", "bush"]);
    expect_code(&output, 2);
    assert!(stderr(&output).contains("'bash'"), "{}", stderr(&output));
}

#[test]
fn every_command_has_a_manual_page_that_troff_takes() {
    let directory = scratch();
    expect_code(&fsb(directory.path(), &["man", "pages"]), 0);
    let pages = directory.path().join("pages");
    let listed = stdout(&fsb(directory.path(), &["--help"]));
    let commands = listed.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands.map_while(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        assert!(pages.join(format!("fsb-{command}.1")).exists(), "{command} has no page");
    }
    let run = fs::read_to_string(pages.join("fsb-run.1")).unwrap();
    for needle in ["\\-\\-theta", "sudo fsb run ext4 xfs btrfs", "[NAME=]TARGET…", "| PLAN.toml", "TIME AND PRECISION"]
    {
        assert!(run.contains(needle), "{needle} in {run}");
    }
    needs_program("groff");
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let output = Command::new("groff").args(["-man", "-Kutf8", "-Tutf8", "-ww"]).arg(&page).output().unwrap();
        expect_code(&output, 0);
        assert_eq!(stderr(&output), "", "{}", page.display());
        let source = fs::read_to_string(&page).unwrap();
        assert!([".SH NAME", ".SH SYNOPSIS", "EXAMPLES"].iter().all(|word| source.contains(word)), "{source}");
    }
}

#[test]
fn a_slip_of_the_finger_is_told_what_was_meant() {
    let directory = scratch();
    for (line, meant) in [
        ("rnu ext4", "run'?"),
        ("cmpare a b", "compare'?"),
        ("completion bash", "completions'?"),
        ("kernel lst", "list'?"),
        ("run --bloks 3 ext4", "'--blocks'"),
        ("run --tehta 3% ext4", "'--theta'"),
        ("run ext5", "'ext4'"),
        ("run databse.toml", "'database.toml'"),
        ("micro --iteratons 4", "'--iterations'"),
        ("iozone --alow-concurrent", "'--allow-concurrent'"),
        ("postmark --verfy", "'--verify'"),
        ("filebench --secnds 3 x.f", "'--seconds'"),
        ("compare --basline a b c", "'--baseline'"),
        ("report --formt csv x", "'--format'"),
        ("list suits", "'suites'"),
        ("doctor --quik", "'--quick'"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = fsb(directory.path(), &words);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(meant), "{line}: {}", stderr(&output));
    }
}

#[test]
fn the_binary_alone_knows_its_suites_plans_and_templates() {
    let directory = scratch();
    let alone = directory.path().join("fsb");
    fs::copy(FSB, &alone).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&alone);
        command.current_dir(directory.path()).env_clear().env("PATH", "/usr/bin:/bin").env("COLUMNS", "10000");
        command.args(arguments);
        command.output().expect("the copy starts")
    };
    let plans = run(&["list", "plans"]);
    expect_code(&plans, 0);
    for plan in stdout(&plans).lines().filter_map(|line| line.split_whitespace().next()) {
        // Written for another machine, one may name a kernel that is not here: that is a warning.
        for path in [plan.to_owned(), format!("plans/{plan}")] {
            let output = run(&["run", &path, "--print-plan"]);
            expect_code(&output, 0);
            assert!(stdout(&output).contains("[[workload]]"), "{plan}");
        }
    }
    let suites = stdout(&run(&["list", "suites"]));
    let suites = suites.lines().take_while(|line| !line.is_empty());
    for suite in suites.filter_map(|line| line.split_whitespace().next()) {
        expect_code(&run(&["run", "null", "--suite", suite, "--print-plan"]), 0);
    }
    let line = ["run", "null", "--suite", "varmail", "--scale", "1/64", "--blocks", "1", "--out", "out", "-q"];
    expect_code(&run(&line), 0);
    assert!(fs::read_to_string(directory.path().join("out/report.html")).unwrap().len() > 100_000);
}
