//! Mutated traces: each is refused or replayed, within its budget, and only below the target.
//!
//! A few cases by default. With `FSB_REPLAYS=10000` the engine performs that many, and every fiftieth is a whole run
//! as well. `FSB_REPLAYS_SEED=N` begins with case N, to repeat one that failed: `FSB_REPLAYS=1 FSB_REPLAYS_SEED=N`.

use std::fs;

use fsb_trace::{Call, CallKind, Header, Initial, State, Totals, Writer};

use crate::common::replays::*;
use crate::common::*;

/// A replay or a command that does not fit the budget is refused with the reason.
#[test]
fn work_that_outlasts_its_budget_is_ended() {
    let before = traces();
    let bench = Bench::new(scratch());
    let thinks = Call { start_ns: 300_000_000_000, ..Call::new(CallKind::StatName) };
    let content = Content {
        header: Header::default(),
        names: vec![Vec::new()],
        initial: Vec::new(),
        calls: vec![Call::new(CallKind::StatName), thinks],
    };
    fs::write(bench.at("thinks.trace"), content.write().unwrap()).unwrap();
    for work in [&["--trace", "thinks.trace"][..], &["--", "sleep", "300"]] {
        let words = ["run", "./target", "--control", "guest-memory=off", "--budget", BUDGET, "--out", "run", "-q"];
        fails(bench.path(), &[&words[..], work].concat(), 2, "run/budget-too-small");
        assert_eq!(fs::read_dir(bench.at("target")).unwrap().count(), 0, "nothing is left");
        fs::remove_dir_all(bench.at("run")).unwrap();
    }
    expect_no_traces(&before);
}

/// The trace makes more files than the budget permits.
#[test]
fn a_replay_of_a_million_names_ends() {
    let bench = Bench::new(scratch());
    let mut out = Writer::new(Vec::new(), &Header::default()).unwrap();
    for number in 0..1_000_000 {
        let name = out.name(format!("d{}/n{number}", number % 100).as_bytes()).unwrap();
        out.initial(Initial { name, state: State::File { size: 1, data: None } }).unwrap();
    }
    out.call(&Call { name: 1, ..Call::new(CallKind::StatName) }).unwrap();
    fs::write(bench.at("names.trace"), out.finish(Totals::default()).unwrap().0).unwrap();
    let words = ["run", "./target", "--control", "guest-memory=off", "--budget", BUDGET, "--out", "run", "-q"];
    fails(bench.path(), &[&words[..], &["--trace", "names.trace"]].concat(), 2, "run/budget-too-small");
    assert_eq!(fs::read_dir(bench.at("target")).unwrap().count(), 0, "nothing is left");
}
