use proptest::prelude::*;

use super::*;
use crate::call::{ALL_KINDS, Call};
use crate::initial::{Initial, State};
use crate::{CallKind, TraceError};

fn written(calls: &[Call], names: &[&[u8]], initial: &[Initial]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header { by: "test".to_owned(), ..Header::default() }).unwrap();
    for name in names {
        writer.name(name).unwrap();
    }
    initial.iter().for_each(|one| writer.initial(one.clone()).unwrap());
    calls.iter().for_each(|call| writer.call(call).unwrap());
    writer.finish(Totals::default()).unwrap().0
}

fn read(bytes: &[u8]) -> Result<(Vec<Call>, Vec<Initial>, Names), TraceError> {
    let mut reader = Reader::new(bytes)?;
    let (mut calls, mut initial) = (Vec::new(), Vec::new());
    while let Some(part) = reader.next_part()? {
        match part {
            TracePart::Calls(block) => calls.extend(block),
            TracePart::Initial(block) => initial.extend(block),
            TracePart::End(_) => {}
        }
    }
    Ok((calls, initial, reader.names().clone()))
}

/// Keeps only the fields that the kind has.
fn stored(mut call: Call) -> Call {
    let fields = call.kind.about().fields;
    for (has, field) in [
        (fields.handle, &mut call.handle),
        (fields.other, &mut call.other),
        (fields.name, &mut call.name),
        (fields.second, &mut call.second),
        (fields.flags, &mut call.flags),
    ] {
        *field = if has { *field } else { 0 };
    }
    if call.kind.about().family == "process" {
        call.other %= 1 << 16;
    }
    call.offset = if fields.offset { call.offset } else { 0 };
    call.length = if fields.length { call.length } else { 0 };
    call
}

fn any_call() -> impl Strategy<Value = Call> {
    let numbers = (0..40u32, 0..ALL_KINDS.len(), 0..u64::MAX / 4, 0..u64::MAX / 4, any::<i64>());
    let more = (0..u32::MAX, 0..u32::MAX, 0..3u32, 0..3u32, any::<u64>(), any::<u64>(), any::<u32>());
    (numbers, more).prop_map(|((lane, kind, start_ns, took_ns, result), more)| {
        let (handle, other, name, second, offset, length, flags) = more;
        let kind = ALL_KINDS[kind].kind;
        stored(Call {
            lane,
            kind,
            start_ns,
            took_ns,
            lost_ns: u64::from(lane) * 64,
            result,
            handle,
            other,
            name,
            second,
            offset,
            length,
            flags,
        })
    })
}

proptest! {
    #[test]
    fn any_calls_come_back(calls in proptest::collection::vec(any_call(), 0..200)) {
        let bytes = written(&calls, &[b"a", b"a/b"], &[]);
        prop_assert_eq!(read(&bytes).unwrap().0, calls);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..600usize, with: u8) {
        let _ = read(&[&b"FSBTRACE\x02\x00"[..], &bytes].concat());
        let calls: Vec<Call> = (0..50).map(|at| Call { start_ns: at * 1000, ..Call::new(CallKind::Exit) }).collect();
        let mut whole = written(&calls, &[b"a/b/c"], &[]);
        let at = at % whole.len();
        whole[at] ^= with;
        if let Ok((read, ..)) = read(&whole) {
            prop_assert_eq!(read, calls);
        }
    }
}

#[test]
fn names_and_files_come_back() {
    let holes = Some(vec![(0, 4096), (1 << 30, 100)]);
    let states = [
        State::Directory,
        State::File { size: 7, data: None },
        State::File { size: (1 << 30) + 200, data: holes },
        State::Link { to: b"x/y".to_vec() },
        State::Same { name: 2 },
    ];
    let initial: Vec<Initial> =
        states.into_iter().enumerate().map(|(at, state)| Initial { name: at as u32, state }).collect();
    let bytes = written(&[], &[b"dir/one", b"dir/two", b"else", b"dir/one"], &initial);
    // The fourth name is the first one.
    let (_, found, names) = read(&written(&[], &[b"dir/one", b"dir/two", b"else", b"five"], &initial)).unwrap();
    assert_eq!(found, initial);
    assert_eq!((names.get(2), names.get(0), names.len()), (&b"dir/two"[..], &b""[..], 5));
    assert!(matches!(read(&bytes), Err(TraceError::Damaged(_))), "a file without a name");
}

#[test]
fn a_usual_call_takes_few_bytes() {
    let mut calls = Vec::new();
    let mut now = 0;
    for at in 0..200_000u64 {
        let kind = if at % 4 == 3 { CallKind::DataSync } else { CallKind::WriteAt };
        // Times that nothing can compress.
        let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        now += 3000 + noise;
        let call = Call { kind, start_ns: now, took_ns: 1000 + noise, handle: 3 + (at % 3) as u32, ..Call::new(kind) };
        now += call.took_ns;
        calls.push(if kind == CallKind::WriteAt {
            Call { offset: (at * 7919 % 10_000) * 4096, length: 4096, result: 4096, ..call }
        } else {
            call
        });
    }
    let bytes = written(&calls, &[], &[]);
    assert_eq!(read(&bytes).unwrap().0, calls);
    assert!(bytes.len() as u64 <= 10 * calls.len() as u64, "{} bytes a call", bytes.len() / calls.len());
}

#[test]
fn incomplete_trace_files_are_refused() {
    let calls = vec![Call { result: -2, ..Call::new(CallKind::StatName) }; 1000];
    let bytes = written(&calls, &[], &[]);
    assert!(matches!(read(b""), Err(TraceError::NotATrace)));
    assert!(matches!(read(b"1234 openat(AT_FDCWD, ..."), Err(TraceError::NotATrace)));
    let of_version = |version| [&b"FSBTRACE"[..], &[version, 0], &bytes[10..]].concat();
    let said = read(&of_version(3)).unwrap_err().to_string();
    assert_eq!(said, "it is a trace of version 3, and this fsb reads versions 1 to 2");
    assert_eq!(read(&of_version(1)).unwrap().0, calls, "what was recorded before is read");
    let calls_then_nothing = bytes.len() - 40;
    assert!(matches!(read(&bytes[..calls_then_nothing]), Err(TraceError::Truncated { calls: 1000 })));
    for end in 10..bytes.len() {
        assert!(matches!(read(&bytes[..end]), Err(TraceError::Truncated { .. })), "{end}");
    }
    for name in ["../etc/passwd", "/etc/passwd", "a/../../b"] {
        let said = read(&written(&[], &[name.as_bytes()], &[])).unwrap_err().to_string();
        assert!(said.contains("leads out of the target"), "{said}");
    }
}
