//! Commands as the workload: what they read from the device, and how long they take.

use std::fs;

use crate::common::*;

/// A command that sleeps takes at least that long.
#[test]
fn time_is_the_commands_own_and_a_printed_number_is_compared_where_one_is_named() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    let plan = "\
        [[workload]]\nname = 'command'\ncommand = ['sleep', '0.2']\ndurability = 'none'\nlabel = 'sleep'\n\
        [[workload]]\nname = 'command'\ncommand = 'echo {\\\"tps\\\": 12.5}'\nlabel = 'tps'\n\
        metric = [{ name = 'tps', pointer = '/tps', better = 'higher' }]\n\
        [[workload]]\nname = 'command'\ncommand = 'cat seen > /dev/null'\ncache = 'cold'\nlabel = 'cold'\n\
        setup = 'head -c 20000000 /dev/urandom > seen'\n\
        [[workload]]\nname = 'command'\ncommand = 'cat seen > /dev/null'\ncache = 'warm'\nlabel = 'warm'\n\
        setup = 'head -c 20000000 /dev/urandom > seen'\n\
        [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    succeeds(scratch.path(), "run plan.toml ext4 --size 700M --out run");
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let of = |label: &str| {
        trials
            .iter()
            .find(|trial| trial["workload"] == label)
            .unwrap_or_else(|| panic!("{trials:#?}"))
    };
    let time = metric(of("sleep"), "command_time");
    assert!(time >= 0.2, "{time}");
    assert_eq!(
        (&of("tps")["metrics"][0]["name"], metric(of("tps"), "tps")),
        (&"tps".into(), 12.5)
    );
    let read = |label: &str| {
        of(label)["observed"]["device_read_bytes"]
            .as_f64()
            .unwrap_or_default()
    };
    assert!(read("cold") >= 19e6, "{:#}", of("cold"));
    assert!(read("warm") < 1e6, "{:#}", of("warm"));
    // Comparisons of runs show the number, too.
    let output = succeeds(scratch.path(), "compare run");
    let row = stdout(&output)
        .lines()
        .find(|line| line.starts_with("tps"))
        .unwrap_or_default()
        .to_owned();
    assert!(row.contains("12.5"), "{}", stdout(&output));
}
