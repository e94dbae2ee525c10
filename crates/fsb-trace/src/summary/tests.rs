use super::*;
use crate::call::flags;

#[test]
fn reads_are_sequential_where_they_go_on() {
    let mut names = Names::default();
    names.push(b"a/b");
    let mut summary = Summary::new(1000, Overhead { call_ns: 10, gap_ns: 0 });
    let open = Call { handle: 1, name: 1, flags: flags::READ, ..Call::new(CallKind::Open) };
    let read = |offset: u64, lane: u32| Call {
        lane,
        handle: 1,
        offset,
        length: 100,
        result: 100,
        took_ns: 30,
        ..Call::new(CallKind::ReadAt)
    };
    for call in [open, read(0, 0), read(100, 0), read(900, 1)] {
        summary.add(&call, &names);
    }
    assert_eq!((summary.reads.sequential, summary.reads.sizes.count), (2, 3));
    assert_eq!(summary.kinds[&CallKind::ReadAt], OfKind { calls: 3, failed: 0, bytes: 300, ns: 60 });
    assert_eq!((summary.files.count(), summary.files.shared(), summary.files.deepest), (1, 1, 1));
    assert_eq!(summary.reads.sizes.steps(), [(64, 3)]);
    assert_eq!(summary.reads.sizes.quantile(0.5), 64);
}
