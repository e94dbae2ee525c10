use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_model::WorkloadSpec;
use fsb_trace::{Call, CallKind, Gap, Header, Initial, State, Totals, Unseen, Writer, flags};

use crate::task::{Measurement, Step};
use crate::worker;
use crate::workload::testing::{Open, Pairs, label, run_once, task, with};

/// Writes a trace of these files and calls; calls follow each other a microsecond apart.
fn trace(directory: &Path, files: &[(&str, State)], calls: &[(Option<&str>, Call)], known: Totals) -> PathBuf {
    let mut out = Writer::new(Vec::new(), &Header { by: "test".to_owned(), ..Header::default() }).unwrap();
    for (name, state) in files {
        let name = out.name(name.as_bytes()).unwrap();
        out.initial(Initial { name, state: state.clone() }).unwrap();
    }
    for (at, (name, call)) in calls.iter().enumerate() {
        let name = name.map_or(0, |name| out.name(name.as_bytes()).unwrap());
        out.call(&Call { name, start_ns: at as u64 * 1000, ..*call }).unwrap();
    }
    let path = directory.join("a.trace");
    fs::write(&path, out.finish(known).unwrap().0).unwrap();
    path
}

fn spec(trace: &Path, pairs: Pairs<'_>) -> WorkloadSpec {
    let mut spec = with("replay", pairs);
    spec.params.insert("trace".to_owned(), trace.to_str().unwrap().into());
    spec
}

fn open(handle: u32, flags: u32) -> Call {
    Call { handle, flags, length: 0o644, ..Call::new(CallKind::Open) }
}

fn read(handle: u32, result: i64) -> Call {
    Call { handle, length: 100, result, ..Call::new(CallKind::Read) }
}

fn file(size: u64) -> State {
    State::File { size, data: None }
}

fn replay(trace: &Path, pairs: Pairs<'_>) -> Result<Measurement, String> {
    let root = tempfile::tempdir().unwrap();
    run_once(&spec(trace, pairs), root.path(), |_| {}).map_err(|error| error.to_string())
}

#[test]
fn initial_files_are_made_with_holes_and_links() {
    let root = tempfile::tempdir().unwrap();
    let holes = State::File { size: 1 << 40, data: Some(vec![(4096, 4096)]) };
    let files = [
        ("d/e", State::Directory),
        ("d/e/whole", file(5000)),
        ("holes", holes),
        ("d/link", State::Link { to: b"e/whole".to_vec() }),
        ("d/again", State::Same { name: 2 }),
    ];
    let calls = [(Some("holes"), Call::new(CallKind::StatName))];
    let path = trace(root.path(), &files, &calls, Totals::default());
    let spec = spec(&path, &[]);
    worker::perform(&task(Step::Prepare, &spec, root.path(), 1), &mut Open::default()).unwrap();
    let at = |name: &str| root.path().join("fsb-set").join(name);
    let found = fs::metadata(at("holes")).unwrap();
    assert_eq!(found.len(), 1 << 40);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    assert_eq!(fs::read(at("d/link")).unwrap().len(), 5000);
    assert_eq!(fs::metadata(at("d/again")).unwrap().ino(), fs::metadata(at("d/e/whole")).unwrap().ino());
    assert!(fs::read(at("d/e/whole")).unwrap().iter().any(|byte| *byte != 0), "no holes that were none");
}

#[test]
fn descriptors_stand_where_the_program_left_them() {
    let root = tempfile::tempdir().unwrap();
    let calls = [
        (Some("f"), open(1, flags::READ)),
        (None, read(1, 100)),
        (None, Call { other: 1, ..Call { handle: 2, ..Call::new(CallKind::Duplicate) } }),
        (None, Call { handle: 1, ..Call::new(CallKind::Close) }),
        (None, read(2, 50)),
        (None, Call { handle: 2, offset: 120, result: 120, ..Call::new(CallKind::Seek) }),
        (None, read(2, 30)),
        (None, Call { handle: 2, ..Call::new(CallKind::Close) }),
        (Some("f"), Call { result: -17, ..Call::new(CallKind::MakeDirectory) }),
    ];
    let path = trace(root.path(), &[("f", file(150))], &calls, Totals::default());
    let measured = replay(&path, &[("pace", "none".into())]).unwrap();
    assert_eq!((measured.operations, measured.counts["other_results"]), (9, 0));
}

#[test]
fn other_results_are_told_with_the_first_of_them() {
    let root = tempfile::tempdir().unwrap();
    let calls = [(Some("f"), open(1, flags::READ)), (None, read(1, 100))];
    let path = trace(root.path(), &[("f", file(60))], &calls, Totals::default());
    let said = replay(&path, &[]).unwrap_err();
    assert_eq!(
        said,
        "1 of 2 calls had another result than recorded; the first: read at 0 of descriptor 1: 60 instead of 100"
    );
    let missing = [(Some("none"), open(1, flags::READ))];
    let path = trace(root.path(), &[], &missing, Totals::default());
    let said = replay(&path, &[]).unwrap_err();
    assert!(said.ends_with("open none: No such file or directory (ENOENT) instead of 0"), "{said}");
}

#[test]
fn closing_what_could_not_be_opened_is_an_error_of_the_call() {
    let root = tempfile::tempdir().unwrap();
    let calls = [(Some("none"), open(1, flags::READ)), (None, Call { handle: 1, ..Call::new(CallKind::Close) })];
    let path = trace(root.path(), &[], &calls, Totals::default());
    assert!(replay(&path, &[]).unwrap_err().starts_with("2 of 2 calls had another result than recorded"));
}

#[test]
fn thought_takes_its_time_and_can_be_left_out() {
    let root = tempfile::tempdir().unwrap();
    let calls = vec![(Some("f"), Call::new(CallKind::StatName)); 50];
    let path = trace(root.path(), &[("f", file(1))], &calls, Totals::default());
    // 49 think times of a microsecond, times a thousand.
    let slow = replay(&path, &[("pace", 1000.into())]).unwrap().timed_ns;
    let fast = replay(&path, &[("pace", "none".into())]).unwrap().timed_ns;
    assert!(slow >= 49_000_000, "{slow}");
    assert!(fast < slow / 4, "{fast} {slow}");
}

#[test]
fn traces_that_cannot_be_replayed_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let refusal = |path: &Path, pairs: Pairs<'_>| label(&spec(path, pairs)).unwrap_err().to_string();
    assert!(refusal(&root.path().join("none"), &[]).contains("No such file"), "no trace");
    let calls = [(Some("f"), Call { result: -2, ..Call::new(CallKind::StatName) })];
    let incomplete = Totals { incomplete: vec![Gap { what: Unseen::Uring, times: 1 }.into()], ..Totals::default() };
    let path = trace(root.path(), &[], &calls, incomplete);
    assert!(refusal(&path, &[]).contains("is incomplete: requests of io_uring"));
    assert_eq!(label(&spec(&path, &[("force", true.into())])).unwrap(), "replay of a, incomplete");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    assert!(refusal(&path, &[]).contains("it is cut off after"));
    fs::write(&path, [b"FSBTRACE\x09\x00", &whole[10..]].concat()).unwrap();
    assert!(refusal(&path, &[]).contains("a trace of version 9, and this fsb reads versions 1 to 2"));
    let path = trace(root.path(), &[], &[(Some("../../etc/passwd"), Call::new(CallKind::StatName))], Totals::default());
    assert!(refusal(&path, &[]).contains("its name '../../etc/passwd' leads out of the target"));
    assert!(refusal(&path, &[("pace", "fast".into())]).contains("neither recorded nor none"));
    let path = trace(root.path(), &[], &[(None, Call::new(CallKind::Exit))], Totals::default());
    assert!(refusal(&path, &[]).contains("holds no call that fsb can replay"));
}

#[test]
fn sizes_of_exabytes_and_descriptors_from_nowhere_are_told() {
    let root = tempfile::tempdir().unwrap();
    let calls = [(Some("f"), Call::new(CallKind::StatName))];
    let path = trace(root.path(), &[("f", file(1 << 60))], &calls, Totals::default());
    let said = replay(&path, &[]).unwrap_err();
    assert!(said.contains("hold 1024 PiB, but the target has room for"), "{said}");
    let path = trace(root.path(), &[("f", file(u64::MAX))], &calls, Totals::default());
    assert!(replay(&path, &[]).unwrap_err().contains("larger than any file can be"));
    let path = trace(root.path(), &[], &[(None, read(7, 100))], Totals::default());
    let said = replay(&path, &[]).unwrap_err();
    assert_eq!(said, "1 of 1 calls are on descriptors that the trace never opens");
    // A write at the largest offset fails as it does for every program, and the replay reports it.
    let far = Call { handle: 1, offset: u64::MAX - 10, length: 10, result: 10, ..Call::new(CallKind::WriteAt) };
    let path =
        trace(root.path(), &[], &[(Some("f"), open(1, flags::WRITE | flags::CREATE)), (None, far)], Totals::default());
    assert!(replay(&path, &[]).unwrap_err().contains("instead of 10"));
}

#[test]
fn a_recorded_result_may_be_any_number() {
    let root = tempfile::tempdir().unwrap();
    let calls = [(Some("f"), Call { result: i64::MIN, ..Call::new(CallKind::StatName) })];
    let path = trace(root.path(), &[("f", file(1))], &calls, Totals::default());
    assert!(replay(&path, &[]).unwrap_err().ends_with("stat f: 0 instead of -9223372036854775808"));
}

#[test]
fn bytes_are_counted_as_they_were_moved_not_as_they_were_recorded() {
    let root = tempfile::tempdir().unwrap();
    let whole = Call { length: i64::MAX as u64, result: i64::MAX, ..read(1, 0) };
    let mut calls = vec![(Some("f"), open(1, flags::READ))];
    calls.extend([(None, read(1, 100)), (None, read(1, 50)), (None, whole)]);
    calls.extend([(None, read(1, 0)); 100]);
    let path = trace(root.path(), &[("f", file(150))], &calls, Totals::default());
    assert_eq!(replay(&path, &[]).unwrap().bytes, 150);
    // The replay makes no call on a descriptor that the trace never opened: its results are the recorded ones.
    let calls = [[(None, whole); 3].as_slice(), &[(None, read(2, 0)); 400]].concat();
    let path = trace(root.path(), &[], &calls, Totals::default());
    assert!(replay(&path, &[]).unwrap_err().contains("descriptors that the trace never opens"));
}

#[test]
fn threads_that_need_more_memory_than_there_is_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let huge = |lane| Call { lane, length: 1 << 40, result: 1 << 40, ..read(1, 0) };
    let calls: Vec<_> = (0..1024).map(|lane| (None, huge(lane))).collect();
    let path = trace(root.path(), &[], &calls, Totals::default());
    let said = replay(&path, &[]).unwrap_err();
    assert!(said.starts_with("the 1024 threads of the trace need 128 GiB of memory for calls of up to 64"), "{said}");
}

/// Links of a hand-made trace do not lead out of the target, whatever their text.
#[test]
fn nothing_leads_out_through_links() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("outside"), "mine").unwrap();
    let files = [("l", State::Link { to: b"../outside".to_vec() }), ("m", State::Link { to: b"/etc/passwd".to_vec() })];
    let calls = [
        (Some("l"), Call { result: -2, ..open(1, flags::WRITE | flags::TRUNCATE) }),
        (Some("m"), Call { result: -2, ..open(1, flags::READ) }),
    ];
    let path = trace(root.path(), &files, &calls, Totals::default());
    let measured = run_once(&spec(&path, &[]), root.path(), |_| {}).unwrap();
    assert_eq!(measured.counts["other_results"], 0);
    assert_eq!(fs::read_to_string(root.path().join("outside")).unwrap(), "mine");
}

/// The trace has more blocks than the feeder loads before the clock starts.
#[test]
fn a_long_trace_follows_in_pieces() {
    let root = tempfile::tempdir().unwrap();
    let mut out = Writer::new(Vec::new(), &Header::default()).unwrap();
    let name = out.name(b"f").unwrap();
    let count: u64 = 20 * 65_536 + 5;
    for at in 0..count {
        let call = Call {
            lane: (at % 3) as u32,
            name,
            result: -2,
            start_ns: at * 10,
            took_ns: 5,
            ..Call::new(CallKind::StatName)
        };
        out.call(&call).unwrap();
    }
    let path = root.path().join("long.trace");
    fs::write(&path, out.finish(Totals::default()).unwrap().0).unwrap();
    let workload = spec(&path, &[("pace", "none".into())]);
    let mut step = task(Step::Measure, &workload, Path::new("/nowhere"), count);
    step.backend = Some("null".to_owned());
    let measured = worker::perform(&step, &mut Open::default()).unwrap().whole().unwrap();
    assert_eq!((measured.operations, measured.workers.len()), (count, 3));
}
