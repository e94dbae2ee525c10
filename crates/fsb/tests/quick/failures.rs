//! Full, failing, read-only and missing targets: one trial or target is marked, the others continue.

use std::process::Command;

use crate::common::failures::*;
use crate::common::*;

#[test]
fn pretended_failures_are_marked_with_their_reason() {
    let scratch = scratch();
    for (name, reason) in [("enospc", "ENOSPC"), ("eio", "EIO"), ("erofs", "EROFS")] {
        let target = format!("bad=null,fail={name}");
        let output = tiny(&[&target, "good=null"], name, scratch.path());
        expect_code(&output, 4);
        let run = scratch.path().join(name);
        assert!(outcomes(&run, "bad").iter().all(|(_, outcome, error)| outcome == "failed" && error.contains(reason)));
        assert!(outcomes(&run, "good").iter().all(|(_, outcome, _)| outcome == "ok"));
    }
}

#[test]
fn too_few_open_files_are_answered_with_the_limit_on_open_files() {
    let before = traces();
    let scratch = scratch();
    fast_plan(scratch.path());
    let mut refused = 0;
    for limit in [5, 6, 7, 9, 11, 13, 16, 18, 64] {
        let (line, out) = (format!("ulimit -n {limit}; exec \"$0\" \"$@\""), format!("run-{limit}"));
        let mut command = Command::new("sh");
        command.args(["-c", &line, FSB, "run", "fast.toml", "null", "--blocks", "1", "--out", &out, JSON]);
        let output = command.current_dir(scratch.path()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{limit}: {}", stderr(&output));
        if output.status.code() == Some(3) {
            refused += 1;
            assert_eq!(error_of(&output)["fields"]["errno"], "EMFILE", "{limit}: {}", stderr(&output));
        }
    }
    assert!(refused > 4, "{refused} runs met the limit");
    expect_no_traces(&before);
}
