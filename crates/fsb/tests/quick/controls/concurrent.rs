//! Two runs at once: the second is refused without `--allow-concurrent`; with it, both results are marked.

use std::time::Duration;

use super::*;
use crate::common::controls::*;

/// Starts a run on the null file system that lasts until the test stops it.
fn long_run(directory: &Path, out: &str, more: &[&str]) -> Running {
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let arguments = ["run", "plan.toml", "null", "--blocks", "10000", "--out", out, "-q"];
    let run = Running::start(directory, &[arguments.as_slice(), more].concat());
    wait_until("trials", Duration::from_secs(60), || trials(&directory.join(out)).len() > 2);
    run
}

/// Expects a warning of the program about the other run.
fn expect_concurrent(output: &std::process::Output, process: &str) {
    let warning = message(output, "warning/concurrent");
    assert!(warning["fields"]["run"].as_str().is_some_and(|run| run.contains(process)), "{warning}");
}

#[test]
fn the_second_run_refuses_unless_it_insists_and_then_both_are_marked() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &[]);
    let process = format!("process {} ", first.id());
    let refused = fails(directory, &["run", "null", "--blocks", "1", "--out", "refused"], 3, "testbed/busy");
    assert_eq!(refused["fields"]["pid"], first.id());

    let insisted = ["run", "plan.toml", "null", "--blocks", "1", "--out", "second", "--allow-concurrent"];
    let second = fsb_json(directory, &insisted);
    expect_code(&second, 0);
    expect_concurrent(&second, &process);
    let trust = "trust: low, because another run measured at the same time";
    assert!(stdout(&second).contains(trust), "{}", stdout(&second));
    assert!(concurrent(&directory.join("second"))[0].contains(&process));
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
    let said = concurrent(&directory.join("first"));
    assert!(said.len() == 1 && said[0].contains("--out second"), "{said:?}");
}

/// Every command that refuses and recommends `--allow-concurrent` accepts the option.
#[test]
fn every_command_that_measures_may_insist() {
    let scratch = scratch();
    let directory = scratch.path();
    let postmark = format!("set location {}\nset number 5\nset transactions 5\nrun\nquit\n", directory.display());
    fs::write(directory.join("mail.pm"), postmark).unwrap();
    let flow = format!(
        "set $dir={}\ndefine fileset name=f,path=$dir,size=4k,entries=5,prealloc\n\
         define process name=p {{\n thread name=t {{\n flowop openfile name=o,filesetname=f\n flowop closefile name=c\n }}\n}}\n\
         run 1\n",
        directory.display()
    );
    fs::write(directory.join("open.f"), flow).unwrap();
    let first = long_run(directory, "first", &[]);
    let process = format!("process {} ", first.id());
    for arguments in [
        &["postmark", "mail.pm"][..],
        &["filebench", "open.f", "-q"],
        &["micro", "create", "--output", ".", "--file-count", "2", "--run-count", "1"],
        &["iozone", "-s", "64k", "-r", "4k", "-i", "0", "-f", "file"],
        &["run", "plan.toml", "null", "--blocks", "1", "--out", "second", "-q"],
    ] {
        let refused = fails(directory, arguments, 3, "testbed/busy");
        assert_eq!(refused["fields"]["pid"], first.id(), "{arguments:?}");
        let insisted = fsb_json(directory, &[arguments, &["--allow-concurrent"]].concat());
        expect_code(&insisted, 0);
        expect_concurrent(&insisted, &process);
    }
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
}

#[test]
fn a_run_that_insisted_keeps_others_out_all_the_same() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &["--allow-concurrent"]);
    let refused = fails(directory, &["run", "null", "--blocks", "1", "--out", "refused"], 3, "testbed/busy");
    assert_eq!(refused["fields"]["pid"], first.id());
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
    assert!(concurrent(&directory.join("first")).is_empty(), "no other run measured");
    expect_code(&fsb(directory, &["run", "null", "--blocks", "1", "--out", "after"]), 0);
}
