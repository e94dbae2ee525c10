//! `fsb iozone` removes the files that it made, however it ends, and changes no others.

use std::time::Duration;

use rustix::process::Signal;

use super::{done, iozone, listing};
use crate::common::{Running, expect_code, scratch, stdout, wait_until};

fn stopped_by(signal: Signal, code: i32, line: &str, file: &str) {
    let directory = scratch();
    let mut arguments = vec!["iozone"];
    arguments.extend(line.split_whitespace());
    let running = Running::start(directory.path(), &arguments);
    wait_until("the file is there", Duration::from_secs(20), || directory.path().join(file).exists());
    running.signal(signal);
    let output = running.wait();
    expect_code(&output, code);
    assert!(stdout(&output).ends_with("\niozone: interrupted\n\nexiting iozone\n\n"), "{}", stdout(&output));
    let left = listing(directory.path());
    let expected = if line.contains("-w") { vec![file.to_owned()] } else { vec![] };
    assert_eq!(left, expected, "{line}");
}

/// Returns whether SIGHUP ends processes that this test starts. They ignore it if the test runs under nohup.
fn hangups_arrive() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0
}

#[test]
fn signals_end_it_and_it_cleans_up() {
    let endless = "--repeat-until 1h -s 256k -r 4k";
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -f f"), "f");
    stopped_by(Signal::TERM, 143, &format!("{endless} -i 0 -i 1 -f f"), "f");
    if hangups_arrive() {
        stopped_by(Signal::HUP, 129, &format!("{endless} -i 0 -f f"), "f");
        stopped_by(Signal::HUP, 129, &format!("{endless} -t 2 -i 0 -F a b"), "a");
    }
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -B -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -k 4 -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -w -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -t 2 -T -i 0 -F a b"), "a");
    stopped_by(Signal::INT, 130, &format!("{endless} -t 2 -i 0 -F a b"), "a");
    stopped_by(Signal::TERM, 143, "-t 1 -s 256m -r 4k -i 0 -o -F a", "a");
}

#[test]
fn results_before_an_interruption_are_reported() {
    let directory = scratch();
    let line = "iozone -R -s 64 -s 256m -r 4 -i 0 -o -f f";
    let running = Running::start(directory.path(), &line.split_whitespace().collect::<Vec<_>>());
    let second_row = || directory.path().join("f").metadata().is_ok_and(|metadata| metadata.len() > 64 << 10);
    wait_until("the second row", Duration::from_secs(20), second_row);
    running.signal(Signal::INT);
    let output = running.wait();
    expect_code(&output, 130);
    assert!(stdout(&output).contains("Excel output is below:\n\n\"Writer report\"\n"), "{}", stdout(&output));
}

#[test]
fn files_that_are_only_read_stay() {
    let directory = scratch();
    done(directory.path(), "-i 0 -w -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 1 -i 5 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 4 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

/// fsb did not write the file, so a test that checks it stops before it writes anything.
#[test]
fn a_foreign_file_stays_when_a_test_stops_before_it_wrote() {
    let directory = scratch();
    let foreign: Vec<u8> = (0..65_536u32).map(|at| (at * 7 % 251) as u8).collect();
    for (line, name) in [
        ("-i 1 -i 2 -s 64 -f f", "f"),
        ("-i 1 -i 4 -R -s 64 -f f", "f"),
        ("-t 1 -i 1 -i 2 -s 64 -F f", "f"),
        ("-t 1 -T -i 1 -i 2 -s 64 -F f", "f"),
    ] {
        std::fs::write(directory.path().join(name), &foreign).unwrap();
        expect_code(&iozone(directory.path(), line), 1);
        assert!(std::fs::read(directory.path().join(name)).unwrap() == foreign, "{line}: it was changed");
    }
}

#[test]
fn an_existing_file_is_overwritten_and_other_files_are_not_touched() {
    let directory = scratch();
    std::fs::write(directory.path().join("f"), vec![1; 1 << 20]).unwrap();
    std::fs::write(directory.path().join("other"), "other").unwrap();
    done(directory.path(), "-s 64 -r 4 -f f -w -i 0");
    assert_eq!(directory.path().join("f").metadata().unwrap().len(), 64 << 10);
    done(directory.path(), "-s 64 -r 4 -f f");
    assert_eq!(listing(directory.path()), ["other"]);
    assert_eq!(std::fs::read(directory.path().join("other")).unwrap(), b"other");
}

#[test]
fn without_names_files_are_called_as_iozone_calls_them() {
    let directory = scratch();
    done(directory.path(), "-w -i 0 -s 64 -r 4");
    done(directory.path(), "-w -t 2 -i 0 -s 64 -r 4");
    assert_eq!(listing(directory.path()), ["iozone.DUMMY.0", "iozone.DUMMY.1", "iozone.tmp"]);
}
