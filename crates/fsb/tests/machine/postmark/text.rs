//! The output equals that of PostMark except for values of a finer clock.

use std::process::Stdio;

use super::{listing, pipe, script, theirs};
use crate::common::{command, scratch, stdout};

/// Returns the lines without the banner and without times.
fn timeless(text: &str) -> Vec<String> {
    let lines =
        text.lines().filter(|line| !line.starts_with("PostMark v") && !line.starts_with("This is not PostMark"));
    lines
        .map(|line| match line.split_once(" (") {
            Some((left, right)) if right.contains("per second") => {
                let left = if left.contains("seconds of") { "\tN seconds of transactions" } else { left };
                format!("{left} (N per second)")
            }
            _ if line.ends_with(" seconds total") => "\tN seconds total".to_owned(),
            _ => line.to_owned(),
        })
        .collect()
}

#[test]
fn everything_but_times_is_as_postmark_prints_it() {
    needs!(program "postmark");
    for lines in [
        "run\nquit\n",
        "show\nset seed 123\nset size 1 1000\nset number 700\nset transactions 2345\nrun\nset report terse\nquit\n",
        "set subdirectories 7\nset bias read 8\nset buffering false\nset transactions 1000\nshow\nrun\nhelp\nquit\n",
        "set number 3\nset transactions 1000\nset bias create 1\nrun\nhelp set b\nquit\n",
        "set size 100000 300000\nset number 60\nset read 65536\nset write 4096\nset transactions 600\nrun\nquit\n",
    ] {
        let directory = scratch();
        for (ours, theirs) in [
            (pipe(command(directory.path(), &["postmark"]), lines), pipe(theirs(directory.path()), lines)),
            (script(directory.path(), lines), {
                let mut command = theirs(directory.path());
                command.arg("script").stdin(Stdio::null()).output().unwrap()
            }),
        ] {
            assert_eq!(timeless(&stdout(&ours)), timeless(&stdout(&theirs)), "{lines}");
        }
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}
