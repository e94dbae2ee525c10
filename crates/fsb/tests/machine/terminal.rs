//! No byte of a name, a path or a message affects the terminal or is invisible there.

use crate::common::{FSB, scratch, stdout, tiny_plan};

/// On a terminal the table fills in during the run, with intervals, but without the letters of verdicts. Interim
/// analyses and the end of the run add those.
#[test]
fn the_table_fills_in_while_the_run_goes_on() {
    needs!(program "script");
    let directory = scratch();
    tiny_plan(directory.path());
    let run = format!("stty rows 40 cols 100; {FSB} run tiny.toml null slow=null,slowdown=50% --blocks 6 --out run");
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
