//! The terminal: a table that fills in, completions, and manual pages.

use std::fs;
use std::process::Command;

use crate::common::{FSB, expect_code, fsb, scratch, shell, stderr, stdout, succeeds, tiny_plan};

/// On a terminal the table fills in during the run, with intervals, but without the letters of
/// verdicts. Interim analyses and the end of the run add those.
#[test]
fn the_table_fills_in_while_the_run_goes_on() {
    needs!(program "script");
    let directory = scratch();
    tiny_plan(directory.path());
    let run = format!(
        "stty rows 40 cols 100; {FSB} run tiny.toml null slow=null,slowdown=50% --blocks 6 --out run"
    );
    let shown = std::process::Command::new("script")
        .args(["-qec", &run, "/dev/null"])
        .current_dir(directory.path())
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script starts");
    let shown = stdout(&shown);
    let (live, answer) = shown.rsplit_once(" is fastest").expect("a headline");
    assert!(live.contains(" % [-"), "an interval before the end");
    assert!(!live.contains("] *"), "a verdict before the end");
    assert!(answer.contains("] *"), "{answer}");
}

// Completions and manual pages, which come from the same definition as `--help`; and suggestions
// for typing errors.

#[test]
fn bash_completes_commands_options_and_their_values() {
    needs!(program "bash");
    let directory = scratch();
    let script = stdout(&fsb(directory.path(), "completions bash"));
    expect_code(&shell("bash", &["-n"], &script), 0);
    // Calls the function that `complete -p` names as readline does.
    let completed = |words: &str| {
        let ask = format!(
            "{script}\nfunction=$(complete -p fsb | sed 's/.*-F \\([^ ]*\\).*/\\1/')\nCOMP_WORDS=({words})\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             $function fsb \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let output = shell("bash", &["--norc", "--noprofile"], &ask);
        expect_code(&output, 0);
        stdout(&output)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(completed("fsb comp"), ["compare", "completions"]);
    assert!(completed("fsb ''").contains(&"run".to_owned()));
    assert!(
        !completed("fsb ''").contains(&"man".to_owned()),
        "packagers find it"
    );
    assert_eq!(
        completed("fsb run --mk"),
        ["--mkfs-defaults"],
        "an option of the complete page"
    );
    assert_eq!(completed("fsb compare --fail-if ''"), ["slower"]);
    assert_eq!(completed("fsb kernel f"), ["fetch"]);
    assert_eq!(completed("fsb run ext"), ["ext2", "ext3", "ext4"]);
    assert_eq!(
        completed("fsb run xfs ext4,noatime,nodela"),
        ["ext4,noatime,nodelalloc"]
    );
    assert_eq!(
        completed("fsb run btrfs,compress"),
        ["btrfs,compress", "btrfs,compress-force"]
    );
    assert_eq!(completed("fsb run --control read"), ["read-ahead"]);
    assert_eq!(completed("fsb run --suite iozone-d"), ["iozone-direct"]);
    assert!(completed("fsb list file-systems nilf").contains(&"nilfs2".to_owned()));
}

#[test]
fn every_command_has_a_manual_page_that_troff_takes() {
    let directory = scratch();
    succeeds(directory.path(), "man pages");
    let pages = directory.path().join("pages");
    let listed = stdout(&fsb(directory.path(), "--help"));
    let commands = listed
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let commands: Vec<&str> = commands
        .map_while(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        assert!(
            pages.join(format!("fsb-{command}.1")).exists(),
            "{command} has no page"
        );
    }
    let run = fs::read_to_string(pages.join("fsb-run.1")).unwrap();
    for needle in [
        "\\-\\-theta",
        "sudo fsb run ext4 xfs btrfs",
        "[NAME=]TARGET…",
        "| PLAN.toml",
        "TIME AND PRECISION",
    ] {
        assert!(run.contains(needle), "{needle} in {run}");
    }
    needs!(program "groff");
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let output = Command::new("groff")
            .args(["-man", "-Kutf8", "-Tutf8", "-ww"])
            .arg(&page)
            .output()
            .unwrap();
        expect_code(&output, 0);
        assert_eq!(stderr(&output), "", "{}", page.display());
        let source = fs::read_to_string(&page).unwrap();
        assert!(
            [".SH NAME", ".SH SYNOPSIS", "EXAMPLES"]
                .iter()
                .all(|word| source.contains(word)),
            "{source}"
        );
    }
}
