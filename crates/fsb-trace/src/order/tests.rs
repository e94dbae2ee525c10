use super::*;
use crate::call::flags;

fn names(all: &[&str]) -> Names {
    let mut names = Names::default();
    all.iter().for_each(|name| names.push(name.as_bytes()));
    names
}

/// Returns a call of a lane from one moment to another.
fn at(lane: u32, start_ns: u64, end_ns: u64, call: Call) -> Call {
    Call { lane, start_ns, took_ns: end_ns - start_ns, ..call }
}

fn open(handle: u32, name: u32, flags: u32) -> Call {
    Call { handle, name, flags, ..Call::new(CallKind::Open) }
}

fn on(kind: CallKind, handle: u32) -> Call {
    Call { handle, ..Call::new(kind) }
}

fn waits(calls: &[Call], names: &Names) -> Vec<Vec<(u32, u32)>> {
    let mut order = Order::new(4, 0);
    calls.iter().map(|call| order.turn(call, names).waits).collect()
}

#[test]
fn a_read_waits_for_the_write_before_it_and_not_for_other_reads() {
    let names = names(&["a"]);
    let found = waits(
        &[
            at(0, 0, 1, open(1, 1, flags::READ | flags::WRITE)),
            at(0, 2, 3, on(CallKind::WriteAt, 1)),
            at(1, 4, 5, on(CallKind::ReadAt, 1)),
            at(2, 6, 7, on(CallKind::ReadAt, 1)),
            at(0, 8, 9, on(CallKind::WriteAt, 1)),
        ],
        &names,
    );
    assert_eq!(found, [vec![], vec![], vec![(0, 2)], vec![(0, 2)], vec![(1, 1), (2, 1)]]);
}

#[test]
fn overlapping_calls_have_no_order() {
    let names = names(&["a"]);
    let calls = [
        at(0, 0, 1, open(1, 1, flags::WRITE)),
        at(0, 2, 9, on(CallKind::WriteAt, 1)),
        at(1, 3, 10, on(CallKind::WriteAt, 1)),
    ];
    // The descriptor must be there all the same.
    assert_eq!(waits(&calls, &names)[2], [(0, 1)]);
}

#[test]
fn names_order_making_renaming_and_looking() {
    let names = names(&["d", "d/old", "d/new"]);
    let found = waits(
        &[
            at(0, 0, 1, Call { name: 1, ..Call::new(CallKind::MakeDirectory) }),
            at(1, 2, 3, open(1, 2, flags::CREATE | flags::WRITE)),
            at(2, 4, 5, Call { name: 2, second: 3, ..Call::new(CallKind::Rename) }),
            at(0, 6, 7, Call { name: 2, result: -2, ..Call::new(CallKind::StatName) }),
            at(1, 8, 9, open(2, 3, flags::READ)),
            at(3, 10, 11, Call { name: 1, result: -39, ..Call::new(CallKind::RemoveDirectory) }),
        ],
        &names,
    );
    assert_eq!(found[1], [(0, 1)], "in a directory that was made before");
    assert_eq!(found[2].iter().max(), Some(&(1, 1)), "the file is there");
    assert_eq!(found[3], [(1, 1), (2, 1)], "the old name is gone");
    assert_eq!(found[4], [(2, 1)], "the new name is there");
}

#[test]
fn threads_begin_after_the_call_that_made_them_and_parents_go_on_after_children() {
    let none = names(&[]);
    let mut order = Order::new(2, 10);
    let calls = [
        at(0, 100, 100, Call { other: 1, ..Call::new(CallKind::Spawn) }),
        at(1, 150, 160, Call::new(CallKind::StatName)),
        at(1, 170, 170, Call::new(CallKind::Exit)),
        at(0, 110, 180, Call { other: 1, ..Call::new(CallKind::Wait) }),
    ];
    let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &none)).collect();
    assert_eq!(turns[1], Turn { number: 1, waits: vec![(0, 1)], think_ns: 40, after_ns: 40 });
    assert_eq!((&turns[2].waits[..], turns[2].think_ns), (&[][..], 0));
    assert_eq!((&turns[3].waits[..], turns[3].think_ns), (&[(1, 2)][..], 0));
}

#[test]
fn waiting_for_another_thread_is_not_think_time() {
    let names = names(&["f"]);
    let mut order = Order::new(2, 0);
    let calls = [
        at(0, 0, 1, open(1, 1, flags::READ | flags::WRITE)),
        at(1, 2, 3, open(2, 1, flags::READ)),
        at(0, 4, 100, on(CallKind::Write, 1)),
        at(1, 110, 120, on(CallKind::Read, 2)),
        at(1, 150, 160, on(CallKind::Read, 2)),
    ];
    let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &names)).collect();
    assert_eq!((&turns[3].waits[..], turns[3].think_ns), (&[(0, 2)][..], 10), "since the write has ended");
    assert_eq!((&turns[4].waits[..], turns[4].think_ns), (&[][..], 30), "since its own last call");
}

#[test]
fn a_thread_that_was_woken_comes_after_what_had_been_done_by_then() {
    let none = names(&[]);
    let mut order = Order::new(3, 0);
    let stat = Call::new(CallKind::StatName);
    let woken = |by, after_ns| Call { other: by, offset: after_ns, ..Call::new(CallKind::Woken) };
    let calls = [
        at(0, 1, 5, stat),
        at(1, 0, 10, stat),
        at(1, 12, 20, stat),
        // The calls of the other thread between the wake-up of this one and its first call.
        at(1, 31, 35, stat),
        at(0, 8, 40, woken(1, 22)),
        at(0, 50, 60, stat),
        // Woken again by a thread that has done nothing since, and by one that never did anything.
        at(0, 62, 70, woken(1, 1)),
        at(0, 75, 90, woken(1, 10)),
        at(0, 95, 99, woken(2, 3)),
    ];
    let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &none)).collect();
    assert_eq!(turns[4], Turn { number: 2, waits: vec![(1, 2)], think_ns: 3, after_ns: 10 });
    assert_eq!((&turns[5].waits[..], turns[5].think_ns), (&[][..], 10));
    assert_eq!((&turns[6].waits[..], turns[6].think_ns, turns[6].after_ns), (&[(1, 3)][..], 2, 28));
    assert_eq!((&turns[7].waits[..], turns[7].think_ns), (&[][..], 20), "what is known is how long it took");
    assert_eq!((&turns[8].waits[..], turns[8].think_ns), (&[][..], 9));
}

#[test]
fn a_listing_waits_for_entries_that_were_made() {
    let names = names(&["d", "d/one", "d/two"]);
    let found = waits(
        &[
            at(0, 0, 1, open(1, 1, flags::READ | flags::DIRECTORY)),
            at(1, 2, 3, open(2, 2, flags::CREATE)),
            at(2, 2, 4, open(3, 3, flags::CREATE)),
            at(0, 5, 6, on(CallKind::List, 1)),
        ],
        &names,
    );
    assert_eq!((found[1].len(), found[2].len()), (0, 0), "two names of one directory are made side by side");
    assert_eq!(found[3], [(1, 1), (2, 1)]);
}
