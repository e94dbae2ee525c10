//! Orders, restored states and options of workloads that move records.

use std::ffi::CStr;
use std::fs;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use fsb_model::WorkloadSpec;
use rustix::fd::BorrowedFd;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use serde_json::json;

use crate::backend::{
    self, Backend, Capabilities, Directory, FileSlot, Flush, IoRequest, Namespace, OpenFlags,
    Queued, Session, SessionSetup, Verb,
};
use crate::error::EngineError;
use crate::profile::Renewal;
use crate::task::{ClockSpec, Context, Measurement, Step};
use crate::worker;
use crate::workload::testing::{Open, SIZING, task};
use crate::workload::{self, Job};

/// A backend that touches nothing and logs its calls, with those since the last query. Like all
/// backends it lives as long as the program.
#[derive(Debug, Clone, Copy)]
struct CallLog(&'static Mutex<Vec<String>>);

impl CallLog {
    fn leaked() -> &'static CallLog {
        Box::leak(Box::new(CallLog(Box::leak(Box::default()))))
    }

    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    /// Returns the calls in order, and clears the log.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Backend for CallLog {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn about(&self) -> &'static str {
        "writes down what it is asked"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            real: false,
            ..Capabilities::PLAIN
        }
    }

    fn plain(&self) -> Option<&'static dyn Backend> {
        Some(Box::leak(Box::new(*self)))
    }

    fn namespace(&self) -> &'static dyn Namespace {
        Box::leak(Box::new(*self))
    }

    fn session(&self, _setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(CallLogSession(*self)))
    }
}

struct CallLogSession(CallLog);

impl Session for CallLogSession {
    fn open(
        &mut self,
        _at: &Directory,
        _path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        self.0.note(
            if flags.flags.contains(OFlags::CREATE) {
                "create"
            } else {
                "open"
            }
            .to_owned(),
        );
        Ok(FileSlot(0))
    }

    fn close(&mut self, _slot: FileSlot) -> Result<(), Errno> {
        self.0.note("close".to_owned());
        Ok(())
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let verb = if request.verb == Verb::Read { "r" } else { "w" };
        self.0
            .note(format!("{verb}{}", request.offset / request.length as u64));
        Ok(Queued::Done(request.length))
    }

    fn flush(&mut self, _slot: FileSlot, what: Flush) -> Result<(), Errno> {
        self.0.note(
            if what == Flush::All {
                "fsync"
            } else {
                "fdatasync"
            }
            .to_owned(),
        );
        Ok(())
    }

    fn descriptor(&self, _slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        Err(Errno::BADF)
    }

    fn advise(
        &mut self,
        _slot: FileSlot,
        offset: u64,
        length: u64,
        advice: Advice,
    ) -> Result<(), Errno> {
        let name = match advice {
            Advice::WillNeed => "willneed",
            _ => "other",
        };
        self.0.note(format!("{name}{}", offset / length.max(1)));
        Ok(())
    }
}

impl Namespace for CallLog {
    fn open_root(&self, _path: &Path) -> Result<Directory, Errno> {
        Ok(Directory(None))
    }

    fn open_directory(&self, _at: &Directory, _name: &CStr) -> Result<Directory, Errno> {
        Ok(Directory(None))
    }

    fn stat(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn rename(&self, _at: &Directory, _from: &CStr, _to: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn unlink(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        self.note("unlink".to_owned());
        Ok(())
    }

    fn list(
        &self,
        _directory: &Directory,
        _buffer: &mut [MaybeUninit<u8>],
        _expected: u64,
        _visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_directory(&self, _directory: &Directory) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_file_system(&self, _directory: &Directory) -> Result<(), Errno> {
        self.note("syncfs".to_owned());
        Ok(())
    }
}

fn job(workload: &serde_json::Value) -> (WorkloadSpec, Box<dyn Job>) {
    let spec: WorkloadSpec = serde_json::from_value(workload.clone()).unwrap();
    let job = workload::parse(&spec, &SIZING).unwrap_or_else(|error| panic!("{workload}: {error}"));
    (spec, job)
}

fn context(spec: &WorkloadSpec, root: &Path, operations: u64) -> Context {
    Context::new(&task(Step::Measure, spec, root, operations)).unwrap()
}

/// Prepares and measures a number of passes.
fn run(workload: &serde_json::Value, root: &Path, passes: u64) -> Result<Measurement, EngineError> {
    let (spec, job) = job(workload);
    let context = context(&spec, root, job.profile().operations * passes);
    worker::prepare(&*job, &context)?;
    job.measure(&context, &mut Open::default())
}

/// Returns the calls that a backend gets for a number of operations.
fn asked(workload: &serde_json::Value, operations: u64) -> String {
    let (spec, job) = job(workload);
    let recorder = CallLog::leaked();
    let context = Context {
        backend: Some(recorder),
        ..context(&spec, Path::new("/nowhere"), operations)
    };
    job.measure(&context, &mut Open::default()).unwrap();
    recorder.calls().join(" ")
}

/// Compares the calls of each operation itself, because opening, closing and syncing are the same
/// for all.
#[test]
fn each_operation_visits_its_records_in_its_order() {
    let four = |name: &str| json!({"name": name, "file_size": "16K", "block_size": "4K"});
    for (name, expected) in [
        ("read", "open r0 r1 r2 r3"),
        ("rewrite", "open w0 w1 w2 w3"),
        ("reread", "open r0 r1 r2 r3 r0 r1 r2 r3"),
        ("backward-read", "open r3 r2 r1 r0"),
        ("record-rewrite", "open w0 w0 w0 w0"),
        ("write", "create w0 w1 w2 w3 close unlink"),
        ("fwrite", "create w0 w1 w2 w3 close unlink"),
        ("frewrite", "open w0 w1 w2 w3"),
        ("preadv", "open r0 r1 r2 r3"),
        ("repreadv", "open r0 r1 r2 r3 r0 r1 r2 r3"),
    ] {
        let calls = asked(&four(name), 4);
        assert_eq!(calls, expected.trim_end_matches(" close unlink"), "{name}");
    }
    let remounted =
        json!({"name": "reread", "file_size": "16K", "block_size": "4K", "cache": "cold"});
    assert_eq!(
        asked(&remounted, 4),
        "open r0 r1 r2 r3",
        "the first reading was before the remount"
    );
    let strided =
        json!({"name": "stride-read", "file_size": "28K", "block_size": "4K", "stride": 3});
    assert_eq!(asked(&strided, 9), "open r0 r3 r6 r1 r4 r2 r5 r0 r3");
    let random = json!({"name": "random-write", "file_size": "64K", "block_size": "4K"});
    let mut offsets: Vec<u64> = asked(&random, 16)
        .split(' ')
        .skip(1)
        .map(|call| call.trim_start_matches('w').parse().unwrap())
        .collect();
    assert_ne!(offsets, (0..16).collect::<Vec<_>>());
    offsets.sort_unstable();
    assert_eq!(offsets, (0..16).collect::<Vec<_>>());
}

#[test]
fn the_kernel_is_asked_for_records_before_they_are_read() {
    let read = |extra: serde_json::Value| {
        let mut workload =
            json!({"name": "read", "file_size": "16K", "block_size": "4K", "cache": "any"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        workload
    };
    let ahead = "willneed0 willneed1 willneed2 r0 willneed3 r1 r2 r3";
    assert_eq!(
        asked(&read(json!({"prefetch": 2})), 4),
        format!("open {ahead}")
    );
    assert_eq!(
        asked(&read(json!({"prefetch": 2, "close": true})), 4),
        format!("open {ahead} close"),
        "not beyond the end of a pass"
    );
    let random = asked(
        &json!({"name": "random-read", "file_size": "256K", "prefetch": 16}),
        64,
    );
    let place = |call: String| random.split(' ').position(|one| one == call);
    for record in 0..64 {
        let (asked_for, read) = (
            place(format!("willneed{record}")),
            place(format!("r{record}")),
        );
        assert!(
            asked_for.is_some() && asked_for < read,
            "{record}: {random}"
        );
    }
    for (extra, expected) in [
        (json!({"prefetch": 8, "backend": "direct"}), "page cache"),
        (json!({"prefetch": 8, "backend": "uncached"}), "page cache"),
        (
            json!({"prefetch": 8, "backend": "uring", "depth": 4}),
            "use depth = 1",
        ),
        (json!({"prefetch": 8, "files": 17}), "use at most 16"),
        (json!({"prefetch": 8, "rate": 100}), "not known ahead"),
        (
            json!({"prefetch": 8, "evict_passes": true}),
            "not known ahead",
        ),
        (json!({"prefetch": 1001}), "1000"),
    ] {
        let spec: WorkloadSpec = serde_json::from_value(read(extra.clone())).unwrap();
        let error = workload::parse(&spec, &SIZING).map(|_| ()).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("prefetch"));
        assert!(error.to_string().contains(expected), "{extra}: {error}");
    }
    let (_, job) = job(&read(json!({"prefetch": 8})));
    assert!(job.profile().label.contains("prefetch 8"));
}

#[test]
fn work_on_a_part_of_each_file_leaves_the_rest_alone() {
    let part = |extra: serde_json::Value| {
        let mut workload =
            json!({"file_size": "32K", "block_size": "4K", "offset": "8K", "length": "16K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        workload
    };
    for (extra, expected) in [
        (json!({"name": "read"}), "open r2 r3 r4 r5"),
        (json!({"name": "backward-read"}), "open r5 r4 r3 r2"),
        (json!({"name": "write"}), "open w2 w3 w4 w5"),
        (
            json!({"name": "stride-read", "stride": 2}),
            "open r2 r4 r3 r5",
        ),
        (
            json!({"name": "read", "files": 2, "length": "8K"}),
            "open open r2 r3 r2 r3",
        ),
    ] {
        assert_eq!(asked(&part(extra.clone()), 4), expected, "{extra}");
    }
    let random = asked(&part(json!({"name": "random-write"})), 8);
    let mut places: Vec<&str> = random.split(' ').skip(1).collect();
    places.sort_unstable();
    assert_eq!(
        places,
        ["w2", "w2", "w3", "w3", "w4", "w4", "w5", "w5"],
        "two passes"
    );
    assert_eq!(
        job(&part(json!({"name": "read"}))).1.profile().label,
        "read 4K, warm, 16K from 8K"
    );
    assert!(job(&part(json!({"name": "read"}))).1.unit().is_none());
    let rest = json!({"name": "read", "file_size": "32K", "block_size": "4K", "offset": "24K"});
    assert_eq!(asked(&rest, 2), "open r6 r7");
    // The data that is read there is the data that was written there.
    let root = tempfile::tempdir().unwrap();
    for name in ["read", "random-read", "rewrite"] {
        let found = run(&part(json!({"name": name, "verify": true})), root.path(), 1).unwrap();
        assert_eq!((found.operations, found.bytes), (4, 16 << 10), "{name}");
    }
    run(&part(json!({"name": "write"})), root.path(), 1).unwrap();
    let written = fs::read(root.path().join("fsb-set/d00000/f00000000")).unwrap();
    assert_eq!(written.len(), 24 << 10);
    assert!(written[..8 << 10].iter().all(|byte| *byte == 0), "a hole");
}

#[test]
fn parts_that_are_not_in_the_file_are_refused() {
    for (extra, expected) in [
        (json!({"offset": "6K"}), "not a multiple of block_size"),
        (json!({"length": "6K"}), "not a multiple of block_size"),
        (json!({"offset": "32K"}), "after the end"),
        (json!({"offset": "16K", "length": "20K"}), "after the end"),
        (json!({"offset": "16K", "cache": "out"}), "memory may hold"),
        (
            json!({"name": "write", "offset": "16K", "verify": true}),
            "set overwrite",
        ),
        (
            json!({"name": "append", "offset": "16K"}),
            "unknown parameter",
        ),
    ] {
        let mut workload = json!({"name": "read", "file_size": "32K", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let spec: WorkloadSpec = serde_json::from_value(workload.clone()).unwrap();
        let error = workload::parse(&spec, &SIZING)
            .err()
            .unwrap_or_else(|| panic!("{workload} is accepted"));
        assert!(error.to_string().contains(expected), "{workload}: {error}");
    }
}

#[test]
fn the_state_is_restored_between_passes_and_what_was_asked_for_belongs_to_each() {
    let with = |extra: serde_json::Value| {
        let mut workload = json!({"name": "write", "file_size": "8K", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        asked(&workload, 4)
    };
    let twice = |first: &str, again: &str, pass: &str| format!("{first} {pass} {again} {pass}");
    assert_eq!(
        with(json!({})),
        twice("create", "close unlink create", "w0 w1")
    );
    assert_eq!(
        with(json!({"close": true})),
        twice("create", "unlink create", "w0 w1 close")
    );
    let durable = twice("create syncfs", "unlink create syncfs", "w0 w1 fsync close");
    assert_eq!(with(json!({"close": true, "durability": "end"})), durable);
    assert_eq!(
        with(json!({"overwrite": true, "durability": "end"})),
        twice("open", "", "w0 w1 fsync").replace("  ", " ")
    );
    assert_eq!(
        with(json!({"name": "read", "close": true})),
        twice("open", "open", "r0 r1 close")
    );
    assert_eq!(
        with(json!({"name": "reread", "close": true})),
        twice("open r0 r1", "open r0 r1", "r0 r1 close")
    );
    // A part of a pass has its end, too.
    let part =
        json!({"name": "write", "file_size": "16K", "block_size": "4K", "durability": "end"});
    assert_eq!(
        asked(&part, 5),
        "create syncfs w0 w1 w2 w3 fsync close unlink create syncfs w0 fsync"
    );
}

#[test]
fn threads_that_share_a_file_flush_it_once_and_close_it_each() {
    let workload = json!({"name": "rewrite", "file_size": "32K", "block_size": "4K", "threads": 2,
        "durability": "end", "close": true});
    let calls = asked(&workload, 16);
    let count = |call: &str| calls.split(' ').filter(|found| *found == call).count();
    assert_eq!((count("fsync"), count("close"), count("open")), (2, 4, 4));
    for record in 0..8 {
        assert_eq!(count(&format!("w{record}")), 2, "{calls}");
    }
}

#[test]
fn a_mix_is_as_the_ratio_says_and_visits_each_record_once() {
    let mix = |ratio: &str| {
        let workload =
            json!({"name": "random-mix", "file_size": "4M", "block_size": "4K", "mix": ratio});
        asked(&workload, 1024)
    };
    for (ratio, least, most) in [("50%", 430, 594), ("90%", 860, 980)] {
        let calls = mix(ratio);
        let reads = calls
            .split(' ')
            .filter(|call| call.starts_with('r'))
            .count();
        assert!((least..most).contains(&reads), "{ratio}: {reads}");
        let mut records: Vec<u64> = calls
            .split(' ')
            .skip(2)
            .map(|call| call[1..].parse().unwrap())
            .collect();
        records.sort_unstable();
        assert_eq!(records, (0..1024).collect::<Vec<_>>());
        assert_eq!(calls, mix(ratio), "the seed decides");
    }
}

#[test]
fn reads_and_writes_of_a_sequential_mix_each_go_through_the_file_in_order() {
    let mix = |ratio: &str, operations: u64| {
        let workload =
            json!({"name": "sequential-mix", "file_size": "64K", "block_size": "4K", "mix": ratio});
        asked(&workload, operations)
    };
    for (ratio, operations) in [("50%", 16), ("70%", 64)] {
        let calls = mix(ratio, operations);
        let of = |direction: char| -> Vec<u64> {
            calls
                .split(' ')
                .filter_map(|call| call.strip_prefix(direction)?.parse().ok())
                .collect()
        };
        let (reads, writes) = (of('r'), of('w'));
        assert_eq!((reads.len() + writes.len()) as u64, operations, "{calls}");
        for places in [reads, writes] {
            // After the last record of the file comes the first one.
            assert!(
                places
                    .iter()
                    .zip(0..)
                    .all(|(place, number)| *place == number % 16),
                "{calls}"
            );
        }
    }
}

#[test]
fn holes_are_read_as_holes_and_filled_once() {
    let blocks = |name: &str| {
        let root = tempfile::tempdir().unwrap();
        let workload = json!({"name": name, "file_size": "1M", "block_size": "4K"});
        let (spec, job) = job(&workload);
        let context = context(&spec, root.path(), 256);
        worker::prepare(&*job, &context).unwrap();
        let file = context.set().join("d00000/f00000000");
        let allocated = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&file).unwrap());
        assert_eq!(
            (fs::metadata(&file).unwrap().len(), allocated()),
            (1 << 20, 0),
            "{name}"
        );
        let found = job.measure(&context, &mut Open::default()).unwrap();
        assert_eq!((found.operations, found.bytes), (256, 1 << 20), "{name}");
        fs::File::open(&file).unwrap().sync_all().unwrap();
        let renewal = job.profile().renewal;
        (allocated(), renewal, run(&workload, root.path(), 2).is_ok())
    };
    assert_eq!(blocks("sparse-read"), (0, Renewal::Never, true));
    let (written, renewal, twice) = blocks("sparse-write");
    assert!(
        written >= 2048 && renewal == Renewal::Recreate && !twice,
        "{written} {renewal:?}"
    );
}

#[test]
fn records_of_several_sizes_and_visits_in_sequence_move_the_file() {
    for (extra, most) in [
        (json!({"name": "read", "record_sizes": "4K-64K"}), 255),
        (
            json!({"name": "random-write", "record_sizes": "4K/60:64K/40"}),
            255,
        ),
        (json!({"name": "random-read", "sequential": "30%"}), 256),
        (
            json!({"name": "read", "access": "random", "sequential": 30, "random_distribution": "zipf:1.1",
            "record_sizes": "4K-8K"}),
            255,
        ),
        (json!({"name": "write", "record_sizes": "4K-64K"}), 255),
    ] {
        let mut workload = json!({"file_size": "1M", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let (spec, job) = job(&workload);
        let items = job.profile().operations;
        let context = Context {
            backend: Some(CallLog::leaked()),
            ..context(&spec, Path::new("/nowhere"), items)
        };
        let found = job.measure(&context, &mut Open::default()).unwrap();
        assert_eq!(found.bytes, items * 4096, "{workload}");
        assert!(found.operations <= most, "{workload}: {}", found.operations);
    }
}

#[test]
fn orders_that_threads_or_a_cold_cache_would_change_are_refused() {
    for (extra, expected) in [
        (json!({"sequential": "30%", "cache": "cold"}), "page cache"),
        (json!({"sequential": "100%"}), "between 0% and 100%"),
        (json!({"sequential": "30%", "threads": 2}), "use processes"),
        (
            json!({"sequential": "30%", "access": "sequential"}),
            "access = random",
        ),
        (
            json!({"record_sizes": "8K-16K"}),
            "use it as the block_size",
        ),
        (
            json!({"record_sizes": "4K-16K", "files": 2}),
            "use files = 1",
        ),
        (
            json!({"record_sizes": "4K-16K", "lock": "record"}),
            "leave out record_sizes",
        ),
    ] {
        let mut params = json!({"file_size": "64K", "block_size": "4K", "access": "random"});
        params
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let spec = WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
        let error = workload::parse(&spec, &SIZING).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{extra}: {error}");
    }
}

#[test]
fn an_update_reads_each_record_and_writes_the_share_that_was_asked_for() {
    let update = |extra: serde_json::Value| {
        let mut workload =
            json!({"name": "read-modify-write", "file_size": "4M", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        asked(&workload, 1024)
    };
    let all = update(json!({}));
    assert!(all.starts_with("open open r0 w0 r1 w1 r2 w2 "), "{all}");
    assert!(all.ends_with("r1023 w1023"), "each record");
    // Bonnie's seeks: one record of ten is written where it was read.
    let seeks = update(json!({"access": "random", "updates": "10%"}));
    let calls: Vec<&str> = seeks.split(' ').skip(2).collect();
    let places = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.starts_with('w'));
    let written: Vec<(usize, &str)> = places.map(|(place, call)| (place, &call[1..])).collect();
    assert!((60..150).contains(&written.len()), "{}", written.len());
    assert!(
        written
            .iter()
            .all(|(place, record)| calls[place - 1] == format!("r{record}")),
        "{seeks}"
    );
    let mut read: Vec<u64> = calls
        .iter()
        .filter_map(|call| call.strip_prefix('r'))
        .map(|record| record.parse().unwrap())
        .collect();
    assert!(!read.is_sorted());
    read.sort_unstable();
    assert_eq!(read, (0..1024).collect::<Vec<_>>());
}

#[test]
fn a_share_of_updates_that_makes_no_sense_is_refused() {
    let refused = |params: serde_json::Value| {
        let spec = WorkloadSpec::new("read-modify-write", serde_json::from_value(params).unwrap());
        workload::parse(&spec, &SIZING).map(|_| ()).unwrap_err()
    };
    for (updates, expected) in [
        (json!("0%"), "above 0%"),
        (json!("120%"), "above 0%"),
        (json!("many"), "'many'"),
    ] {
        let error = refused(json!({"file_size": "64K", "updates": updates}));
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.key.as_deref(), Some("updates"));
    }
    let deep = refused(json!({"file_size": "64K", "depth": 4, "backend": "uring"}));
    assert!(deep.to_string().contains("one record at a time"), "{deep}");
}

#[test]
fn syncs_follow_a_number_of_writes_and_precede_the_next_operation() {
    let with = |name: &str, extra: serde_json::Value| {
        let mut workload = json!({"name": name, "file_size": "24K", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        asked(&workload, 6)
    };
    // As in fio, nothing follows the last write.
    assert_eq!(
        with("write", json!({"fsync": 2})),
        "create w0 w1 fsync w2 w3 fsync w4 w5"
    );
    assert_eq!(
        with("rewrite", json!({"fdatasync": 4})),
        "open w0 w1 w2 w3 fdatasync w4 w5"
    );
    let mixed = with("random-mix", json!({"fsync": 1, "mix": "50%"}));
    let calls: Vec<&str> = mixed.split(' ').skip(2).collect();
    // As in fio, a sync before a read is due again after it, as no write followed.
    let first = calls.iter().position(|call| call.starts_with('w')).unwrap();
    for (place, call) in calls[first..].iter().enumerate() {
        assert_eq!(*call == "fsync", place % 2 == 1, "{mixed}");
    }
    assert!(mixed.contains('w') && mixed.contains('r'), "{mixed}");
    // One sync precedes an operation at most.
    let ranges = with("rewrite", json!({"fdatasync": 2, "sync_file_range": 2}));
    assert_eq!(ranges, "open w0 w1 fdatasync w2 w3 fdatasync w4 w5");
    let workload = json!({"name": "rewrite", "file_size": "24K", "block_size": "4K", "fsync": 2});
    let (spec, job) = job(&workload);
    let context = Context {
        backend: Some(CallLog::leaked()),
        ..context(&spec, Path::new("/nowhere"), 6)
    };
    let found = job.measure(&context, &mut Open::default()).unwrap();
    let counts = ["rewrite", "sync"].map(|name| crate::latency::count(&found.latency[name]));
    assert_eq!((counts, found.operations), ([Some(6), Some(2)], 6));
    assert!(job.unit().is_none() && job.profile().reaches_device);
    assert_eq!(job.profile().label, "rewrite 4K, fsync after 2 writes");
}

#[test]
fn syncs_of_passes_end_each_pass_and_the_next_one_begins_with_those_that_are_due() {
    let passes = |extra: serde_json::Value| {
        let mut workload =
            json!({"name": "rewrite", "file_size": "16K", "block_size": "4K", "sync_passes": true});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        asked(&workload, 8)
    };
    let calls = "open w0 w1 fsync w2 w3 fsync fsync w0 w1 fsync w2 w3";
    assert_eq!(passes(json!({"fsync": 2})), calls);
    assert_eq!(
        passes(json!({"fsync": 2, "end_fsync": true})),
        format!("{calls} fsync")
    );
    assert_eq!(
        passes(json!({"fsync": 3})),
        "open w0 w1 w2 fsync w3 w0 w1 fsync w2 w3"
    );
    assert_eq!(
        passes(json!({"end_fsync": true})),
        "open w0 w1 w2 w3 fsync w0 w1 w2 w3 fsync"
    );
    assert_eq!(
        passes(json!({"end_fdatasync": true})),
        "open w0 w1 w2 w3 fdatasync w0 w1 w2 w3 fdatasync"
    );
}

#[test]
fn think_times_are_inside_the_clock_and_outside_of_operations() {
    let workload = json!({"name": "read", "file_size": "64K", "block_size": "4K", "think_time": "1ms",
        "think_every": 4});
    let (spec, job) = job(&workload);
    let clock = ClockSpec::Fake {
        seed: 1,
        slowdown: 1.0,
        noise: 0.0,
        sample: 0,
    };
    let context = Context {
        clock,
        backend: backend::find("null").ok(),
        ..context(&spec, Path::new("/nowhere"), 16)
    };
    let found = job.measure(&context, &mut Open::default()).unwrap();
    assert!(
        (4_000_000..5_000_000).contains(&found.timed_ns),
        "{}",
        found.timed_ns
    );
    assert!(crate::latency::longest(&found.latency["read"]).unwrap() < 1e-3);
    assert_eq!(job.params()["think_time"], "1ms");
    assert_eq!(job.profile().label, "read 4K, warm, think time 1ms after 4");
}

#[test]
fn senseless_syncs_and_think_times_are_refused() {
    for (name, params, key) in [
        ("read", json!({"fsync": 1}), "fsync"),
        ("rewrite", json!({"fsync": 0}), "fsync"),
        ("rewrite", json!({"fsync": 1, "fdatasync": 1}), "fdatasync"),
        ("rewrite", json!({"fsync": 1, "durability": "end"}), "fsync"),
        (
            "rewrite",
            json!({"sync_file_range": 8, "files": 2}),
            "sync_file_range",
        ),
        (
            "rewrite",
            json!({"end_fsync": true, "durability": "end"}),
            "end_fsync",
        ),
        ("rewrite", json!({"range_steps": "write"}), "range_steps"),
        (
            "read",
            json!({"read_bandwidth": "1M", "rate": 5}),
            "read_bandwidth",
        ),
        ("read", json!({"end_fsync": true}), "end_fsync"),
        ("rewrite", json!({"sync_last": true}), "sync_last"),
        ("rewrite", json!({"sync_passes": true}), "sync_passes"),
        (
            "rewrite",
            json!({"sync_passes": true, "fsync": 1, "depth": 4, "backend": "uring"}),
            "sync_passes",
        ),
        (
            "rewrite",
            json!({"end_fsync": true, "end_fdatasync": true}),
            "end_fdatasync",
        ),
        ("read", json!({"open_sync": "dsync"}), "open_sync"),
        ("read", json!({"allocate": "blocks"}), "allocate"),
        (
            "random-mix",
            json!({"verify": true, "depth": 4, "backend": "uring"}),
            "verify",
        ),
        ("rewrite", json!({"fsync": 1, "files": 17}), "fsync"),
        ("read", json!({"think_time": "0s"}), "think_time"),
        ("read", json!({"think_every": 2}), "think_every"),
        ("read", json!({"latency_from": "call"}), "latency_from"),
        (
            "random-mix",
            json!({"by_direction": true, "processes": 2}),
            "by_direction",
        ),
    ] {
        let mut workload = json!({"name": name, "file_size": "64K", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(params.as_object().unwrap().clone());
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let error = workload::parse(&spec, &SIZING)
            .err()
            .unwrap_or_else(|| panic!("{params}"));
        assert_eq!(error.key.as_deref(), Some(key), "{params}: {error}");
    }
}

/// Returns the records of the file that hold data.
fn written_records(root: &Path) -> u64 {
    let bytes = fs::read(root.join("fsb-set/d00000/f00000000")).unwrap();
    bytes
        .chunks(4096)
        .filter(|record| record.iter().any(|byte| *byte != 0))
        .count() as u64
}

#[test]
fn requests_in_flight_mix_directions_sizes_syncs_and_waits() {
    let root = tempfile::tempdir().unwrap();
    for (name, extra) in [
        ("random-mix", json!({"mix": "70%", "by_direction": true})),
        (
            "random-mix",
            json!({"by_direction": true, "record_sizes": "4K/100", "write_sizes": "16K/100"}),
        ),
        (
            "random-mix",
            json!({"by_direction": true, "record_sizes": "4K/60:8K/40"}),
        ),
        ("random-write", json!({"fsync": 16, "end_fsync": true})),
        (
            "random-write",
            json!({"sync_file_range": 16, "range_steps": "wait_before+write"}),
        ),
        (
            "random-read",
            json!({"think_time": "10us", "read_bandwidth": "1G", "evict_passes": true, "hint": "random"}),
        ),
        (
            "sparse-write",
            json!({"access": "random", "allocate": "blocks", "further_passes": true, "open_sync": "dsync"}),
        ),
    ] {
        let mut workload = json!({"name": name, "file_size": "1M", "block_size": "4K", "depth": 8, "backend": "libaio",
            "cache": "any"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let found =
            run(&workload, root.path(), 2).unwrap_or_else(|error| panic!("{workload}: {error}"));
        assert_eq!(found.bytes, 2 << 20, "{workload}");
        assert_eq!(written_records(root.path()), 256, "{workload}");
        if extra.get("by_direction").is_some() {
            let [reads, writes] = ["read_bytes", "write_bytes"].map(|name| found.counts[name]);
            assert_eq!(reads + writes, found.bytes, "{workload}");
            assert!(reads > 0 && writes > 0, "{workload}");
        }
        // A sync precedes the next write, so none follows the last one.
        let syncs = found
            .latency
            .get("sync")
            .map(|text| crate::latency::count(text).unwrap());
        let expected = ["fsync", "sync_file_range"]
            .iter()
            .any(|call| extra.get(call).is_some())
            .then_some(31);
        assert_eq!(syncs, expected, "{workload}");
    }
}

#[test]
fn files_without_data_have_the_space_that_the_plan_requests() {
    use std::os::unix::fs::MetadataExt;
    for (allocate, size, reserves) in [
        ("size", 1 << 20, false),
        ("blocks", 1 << 20, true),
        ("blocks-beyond-end", 0, true),
        ("none", 0, false),
    ] {
        let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for (name, access) in [
            ("sparse-write", "random"),
            ("sparse-write", "sequential"),
            ("stride-write", "strided"),
        ] {
            let workload = json!({"name": name, "access": access, "file_size": "1M", "block_size": "4K",
                "allocate": allocate});
            let (spec, job) = job(&workload);
            let context = context(&spec, root.path(), 256);
            worker::prepare(&*job, &context).unwrap();
            let metadata = fs::metadata(context.set().join("d00000/f00000000")).unwrap();
            assert_eq!(
                (metadata.len(), metadata.blocks() > 0),
                (size, reserves),
                "{workload}"
            );
            let found = job.measure(&context, &mut Open::default()).unwrap();
            assert_eq!(
                (found.operations, written_records(root.path())),
                (256, 256),
                "{workload}"
            );
        }
    }
}

#[test]
fn a_bandwidth_spaces_the_operations_of_each_direction() {
    let spaced = |extra: serde_json::Value| {
        let mut workload = json!({"name": "random-mix", "file_size": "4M", "block_size": "4K", "by_direction": true});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let (spec, job) = job(&workload);
        let clock = ClockSpec::Fake {
            seed: 1,
            slowdown: 1.0,
            noise: 0.0,
            sample: 0,
        };
        let context = Context {
            backend: Some(CallLog::leaked()),
            clock,
            ..context(&spec, Path::new("/nowhere"), 1024)
        };
        let found = job.measure(&context, &mut Open::default()).unwrap();
        (
            found.counts["read_bytes"],
            found.counts["write_bytes"],
            found.timed_ns,
        )
    };
    // As in fio, the direction that is due first goes first, whatever the mix.
    let (reads, writes, ns) =
        spaced(json!({"read_bandwidth": "3M", "write_bandwidth": "1M", "mix": "20%"}));
    assert!(
        reads.abs_diff(3 << 20) < 64 << 10 && writes.abs_diff(1 << 20) < 64 << 10,
        "{reads} {writes}"
    );
    assert!(ns.abs_diff(1_000_000_000) < 50_000_000, "{ns}");
}

#[test]
fn a_mix_reports_its_directions_apart_if_the_plan_requests_it() {
    let workload = json!({"name": "random-mix", "file_size": "1M", "block_size": "4K", "mix": "70%", "threads": 2,
        "by_direction": true});
    let (spec, job) = job(&workload);
    let context = Context {
        backend: Some(CallLog::leaked()),
        ..context(&spec, Path::new("/nowhere"), 256)
    };
    let found = job.measure(&context, &mut Open::default()).unwrap();
    let count = |name: &str| crate::latency::count(&found.latency[name]).unwrap();
    assert_eq!(count("read") + count("write"), count("random_mix"));
    assert!((140..220).contains(&count("read")), "{}", count("read"));
}

/// On the fake clock, operations at a low rate end in time. At a rate that is too high the latency
/// grows with each operation, whatever the calls themselves take (coordinated omission).
#[test]
fn a_rate_is_kept_and_time_counts_from_when_an_operation_was_due() {
    let paced = |rate: u64, operations: u64| {
        let (spec, job) = job(
            &json!({"name": "random-mix", "file_size": "64K", "block_size": "4K", "rate": rate}),
        );
        let clock = ClockSpec::Fake {
            seed: 1,
            slowdown: 1.0,
            noise: 0.0,
            sample: 0,
        };
        let context = context(&spec, Path::new("/nowhere"), operations);
        let context = Context {
            clock,
            backend: Some(backend::find("null").unwrap()),
            ..context
        };
        let found = job.measure(&context, &mut Open::default()).unwrap();
        let longest = crate::latency::longest(&found.latency["random_mix"]).unwrap();
        (found.timed_ns as f64 * 1e-9, longest)
    };
    let (seconds, longest) = paced(1000, 400);
    assert!(
        (0.399..0.401).contains(&seconds) && longest < 1e-3,
        "{seconds} {longest}"
    );
    let (seconds, longest) = paced(10_000_000, 400);
    let due = 399.0 * 1e-7;
    assert!(
        (longest / (seconds - due) - 1.0).abs() < 0.02 && longest > 2.0 * due,
        "{seconds} {longest}"
    );
    // The latency of a call does not include the wait behind the earlier ones.
    let (spec, job) = job(
        &json!({"name": "random-mix", "file_size": "64K", "block_size": "4K", "rate": 10_000_000,
        "latency_from": "call"}),
    );
    let clock = ClockSpec::Fake {
        seed: 1,
        slowdown: 1.0,
        noise: 0.0,
        sample: 0,
    };
    let context = Context {
        clock,
        backend: backend::find("null").ok(),
        ..context(&spec, Path::new("/nowhere"), 400)
    };
    let found = job.measure(&context, &mut Open::default()).unwrap();
    assert!(crate::latency::longest(&found.latency["random_mix"]).unwrap() < due);
}

#[test]
fn senseless_rates_are_refused() {
    for (params, key) in [
        (json!({"rate": "fast"}), "rate"),
        (json!({"rate": 0}), "rate"),
        (
            json!({"rate": "2000/s", "depth": 4, "backend": "uring"}),
            "rate",
        ),
        (json!({"latency_from": "call"}), "latency_from"),
        (json!({"rate": 5, "p99_below": "soon"}), "p99_below"),
    ] {
        let mut workload = json!({"name": "read", "file_size": "64K", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(params.as_object().unwrap().clone());
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let error = workload::parse(&spec, &SIZING).err().unwrap();
        assert_eq!(error.key.as_deref(), Some(key), "{params}: {error}");
    }
    let (_, paced) =
        job(&json!({"name": "read", "file_size": "64K", "block_size": "4K", "rate": "2000/s"}));
    assert_eq!(paced.profile().label, "read 4K, warm, p99 at 2000/s");
    assert!(
        paced.unit().is_none(),
        "a rate is not kept in short samples"
    );
    let (_, job) =
        job(&json!({"name": "read", "file_size": "64K", "block_size": "4K", "p99_below": "10ms"}));
    let profile = job.profile();
    assert_eq!(profile.label, "read 4K, warm, p99");
    assert_eq!(
        (profile.primary.name, profile.fewest),
        ("latency_p99", 10_000)
    );
}

/// Runs every member on every backend that it accepts and that this kernel has. Verification finds
/// no error.
#[test]
fn members_run_on_every_backend_that_fits_and_verify_their_bytes() {
    for member in workload::REGISTRY {
        for backend in backend::REGISTRY
            .iter()
            .filter(|backend| backend.capabilities().real)
        {
            let params = json!({"file_size": "64K", "block_size": "4K", "cache": "any", "verify": true,
                "backend": backend.name()});
            let params = serde_json::from_value(params).unwrap();
            let Ok(job) = member.parse(&params, &SIZING) else {
                continue;
            };
            let root =
                tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/../..").unwrap();
            let spec = WorkloadSpec::new(member.name(), params);
            let passes = if job.profile().repeats_in_place { 2 } else { 1 };
            let context = context(&spec, root.path(), 16 * passes);
            worker::prepare(&*job, &context).unwrap();
            let name = format!("{} through {}", member.name(), backend.name());
            match job.measure(&context, &mut Open::default()) {
                Ok(measured) => {
                    assert_eq!(
                        (measured.operations, measured.bytes),
                        (16 * passes, passes << 16),
                        "{name}"
                    )
                }
                // This kernel, or the file system of the build, may refuse a backend: the backends'
                // tests report that.
                Err(refusal) => assert!(
                    !refusal.message.starts_with("corrupted"),
                    "{name}: {refusal}"
                ),
            }
        }
    }
}

#[test]
fn one_wrong_byte_is_found_and_placed() {
    for (name, backend, depth) in [
        ("read", "psync", 1),
        ("reread", "psyncv", 1),
        ("random-read", "mmap", 1),
        ("backward-read", "stdio", 1),
        ("stride-read", "skeleton", 4),
        ("random-mix", "psync", 1),
        // Neither writes to that offset: verification after the clock finds the wrong byte.
        ("record-rewrite", "psync", 1),
        ("record-rewrite", "mmap", 1),
    ] {
        let workload = json!({"name": name, "file_size": "64K", "block_size": "4K", "cache": "any", "verify": true,
            "backend": backend, "depth": depth, "mix": "99%"});
        let mut workload = workload;
        if name != "random-mix" {
            workload.as_object_mut().unwrap().remove("mix");
        }
        let (spec, job) = job(&workload);
        let root = tempfile::tempdir().unwrap();
        let context = context(&spec, root.path(), 16);
        worker::prepare(&*job, &context).unwrap();
        let file = root.path().join("fsb-set/d00000/f00000000");
        let mut bytes = fs::read(&file).unwrap();
        bytes[33_333] ^= 0x10;
        let (found, written) = (bytes[33_333], bytes[33_333] ^ 0x10);
        fs::write(&file, bytes).unwrap();
        let error = job.measure(&context, &mut Open::default()).unwrap_err();
        let expected = format!(
            "corrupted: {} holds {found:#04x} at offset 33333, where {written:#04x} was written",
            file.display()
        );
        assert_eq!(error.message, expected, "{workload}");
        assert_eq!(error.path, Some(file));
    }
}

#[test]
fn processes_have_files_of_their_own_and_a_figure_for_while_all_worked() {
    let root = tempfile::tempdir().unwrap();
    for name in ["write", "rewrite", "backward-read", "random-mix", "append"] {
        let workload = json!({"name": name, "file_size": "256K", "block_size": "4K", "processes": 3, "cache": "any",
            "verify": true, "durability": if name == "backward-read" { "none" } else { "end" }});
        let passes = if name == "append" { 1 } else { 4 };
        let measured =
            run(&workload, root.path(), passes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            measured
                .workers
                .iter()
                .map(|worker| worker.rank)
                .collect::<Vec<_>>(),
            [0, 1, 2],
            "{name}"
        );
        assert!(
            measured
                .workers
                .iter()
                .all(|worker| worker.bytes == passes * (256 << 10)),
            "{name}"
        );
        assert!(
            measured
                .workers
                .iter()
                .all(|worker| worker.timed_ns <= measured.timed_ns),
            "{name}"
        );
        let wall = measured.stonewall.unwrap();
        assert!(
            wall.bytes > 0 && wall.bytes <= measured.bytes,
            "{name}: {wall:?}"
        );
        assert!(
            wall.timed_ns > 0 && wall.timed_ns <= measured.timed_ns,
            "{name}: {wall:?}"
        );
        assert_eq!(
            fs::read_dir(root.path().join("fsb-set/d00000"))
                .unwrap()
                .count(),
            3,
            "{name}"
        );
    }
}

#[test]
fn one_worker_alone_has_no_figure_for_all() {
    let root = tempfile::tempdir().unwrap();
    let measured = run(
        &json!({"name": "rewrite", "file_size": "64K", "block_size": "4K"}),
        root.path(),
        2,
    )
    .unwrap();
    assert_eq!(measured.stonewall, None);
    let threads = json!({"name": "rewrite", "file_size": "64K", "block_size": "4K", "threads": 2});
    assert!(run(&threads, root.path(), 2).unwrap().stonewall.is_some());
}

#[test]
fn a_process_that_fails_ends_the_others_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let workload = json!({"name": "read", "file_size": "64K", "block_size": "4K", "processes": 3, "close": true});
    let (spec, job) = job(&workload);
    let context = context(&spec, root.path(), 48_000);
    worker::prepare(&*job, &context).unwrap();
    let file = root.path().join("fsb-set/d00000/f00000001");
    fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(10_000)
        .unwrap();
    let error = job.measure(&context, &mut Open::default()).unwrap_err();
    assert!(
        error
            .message
            .contains("f00000001: 1808 bytes came instead of 4096 at offset 8192"),
        "{error}"
    );
    // One that cannot even be equipped.
    fs::remove_file(&file).unwrap();
    let cold = json!({"name": "read", "file_size": "64K", "block_size": "4K", "processes": 3, "cache": "any"});
    let (_, job) = self::job(&cold);
    assert_eq!(
        job.measure(&context, &mut Open::default())
            .unwrap_err()
            .errno,
        Some(libc::ENOENT)
    );
}

#[test]
fn runs_on_nothing_repeat_to_the_last_digit_in_processes_and_rounds() {
    for extra in [
        json!({"processes": 4}),
        json!({"threads": 3}),
        json!({"close": true, "durability": "end"}),
    ] {
        let mut workload = json!({"name": "write", "file_size": "1M", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let (spec, job) = job(&workload);
        let passes = if job.profile().repeats_in_place { 3 } else { 1 };
        let fake = || {
            let context = context(
                &spec,
                Path::new("/nowhere"),
                job.profile().operations * passes,
            );
            let clock = ClockSpec::Fake {
                seed: 7,
                slowdown: 1.0,
                noise: 0.05,
                sample: 0,
            };
            let context = Context {
                backend: backend::find("null").ok(),
                clock,
                ..context
            };
            job.measure(&context, &mut Open::default()).unwrap()
        };
        let first = fake();
        assert_eq!(first, fake(), "{workload}");
        let busy: u64 = first
            .workers
            .iter()
            .map(|worker| worker.timed_ns)
            .max()
            .unwrap();
        assert!(first.timed_ns >= busy && busy > 0, "{workload}");
    }
}

/// Out of cache is a whole file that begins cold, and nothing of it may stay behind in memory.
#[test]
fn out_of_cache_is_whole_remounted_and_durable() {
    for (workload, renewal) in [
        (json!({"name": "read", "cache": "out"}), Renewal::Remount),
        (
            json!({"name": "reread", "cache": "out", "close": true}),
            Renewal::Remount,
        ),
        (
            json!({"name": "rewrite", "cache": "out", "durability": "end"}),
            Renewal::Remount,
        ),
        (
            json!({"name": "fwrite", "cache": "out", "durability": "end"}),
            Renewal::Recreate,
        ),
        (
            json!({"name": "write", "cache": "out", "durability": "each", "file_size": "64K"}),
            Renewal::Recreate,
        ),
    ] {
        let profile = job(&workload).1.profile();
        assert!(
            profile.cache.begins_cold() && profile.reaches_device,
            "{workload}"
        );
        assert!(
            !profile.divisible && !profile.repeats_in_place,
            "{workload}"
        );
        assert_eq!(profile.renewal, renewal, "{workload}");
        assert!(
            profile.label.contains(", out of cache"),
            "{}",
            profile.label
        );
    }
    for (workload, key, why) in [
        (
            json!({"name": "rewrite", "cache": "out"}),
            "durability",
            "writes out of cache must be durable",
        ),
        (
            json!({"name": "record-rewrite", "cache": "out", "durability": "end"}),
            "cache",
            "is not allowed: use any or cold",
        ),
        (
            json!({"name": "append", "cache": "out", "durability": "end"}),
            "cache",
            "is not allowed: use any",
        ),
        (
            json!({"name": "read", "cache": "out", "backend": "direct"}),
            "cache",
            "its data is never cached",
        ),
    ] {
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let error = workload::parse(&spec, &SIZING).err().unwrap();
        assert_eq!(error.key.as_deref(), Some(key), "{error}");
        assert!(error.message.contains(why), "{error}");
    }
}

#[test]
fn rewritten_files_are_in_memory_and_their_size_is_known() {
    let root = tempfile::tempdir().unwrap();
    let written =
        json!({"name": "fwrite", "file_size": "64K", "block_size": "4K", "cache": "warm"});
    let measured = run(&written, root.path(), 2).unwrap();
    assert_eq!(measured.file_bytes_after, 64 << 10);
    assert_eq!(measured.resident_after, Some(64 << 10));
}

#[test]
fn a_distribution_decides_how_often_records_are_visited() {
    let zones = |extra: serde_json::Value| {
        let mut workload =
            json!({"name": "read", "access": "random", "file_size": "4M", "block_size": "4K"});
        workload
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let calls = asked(&workload, 4096);
        let records: Vec<u64> = calls
            .split(' ')
            .filter_map(|call| call.strip_prefix('r')?.parse().ok())
            .collect();
        assert_eq!(records.len(), 4096, "{workload}");
        records.iter().filter(|record| **record < 128).count()
    };
    // The first eighth of the 1024 records.
    assert_eq!(zones(json!({})), 512);
    assert_eq!(zones(json!({"random_distribution": "random"})), 512);
    for extra in [json!({}), json!({"threads": 3}), json!({"close": true})] {
        let mut extra = extra.as_object().unwrap().clone();
        extra.insert(
            "random_distribution".to_owned(),
            "zoned:75/12.5:25/87.5".into(),
        );
        let found = zones(extra.clone().into());
        // Of 4096 draws with probability 3/4: the standard deviation is 28.
        assert!((found as i64 - 3072).abs() < 140, "{extra:?}: {found}");
    }
}

#[test]
fn a_case_with_a_distribution_is_named_and_resolved_with_it() {
    let workload =
        json!({"name": "random-write", "file_size": "64K", "random_distribution": "zipf:1.10"});
    let (_, zipf) = job(&workload);
    assert!(
        zipf.profile().label.ends_with(", zipf:1.1"),
        "{}",
        zipf.profile().label
    );
    assert_eq!(zipf.params()["random_distribution"], "zipf:1.1");
    let (_, uniform) = job(&json!({"name": "random-write", "random_distribution": "random"}));
    assert!(!uniform.params().contains_key("random_distribution"));
}

#[test]
fn a_distribution_is_not_measured_on_smaller_files() {
    let unit = |durability: &str, distribution: &str| {
        let workload = json!({"name": "random-write", "file_size": "1G", "durability": durability,
            "random_distribution": distribution});
        job(&workload).1.unit()
    };
    assert!(unit("end", "random").is_some_and(|unit| unit.params["file_size"] != json!(1 << 30)));
    assert!(unit("end", "zipf:1.1").is_none());
    assert!(
        unit("none", "zipf:1.1").is_some_and(|unit| unit.params["file_size"] == json!(1 << 30))
    );
}

#[test]
fn senseless_distributions_are_refused() {
    for (workload, why) in [
        (
            json!({"name": "random-read", "random_distribution": "zipf:0"}),
            "above 0",
        ),
        (
            json!({"name": "random-read", "random_distribution": "gamma:2"}),
            "is not a distribution",
        ),
        (
            json!({"name": "random-read", "random_distribution": 1.1}),
            "is not a distribution",
        ),
        (
            json!({"name": "random-read", "random_distribution": "zipf:1.1", "cache": "cold"}),
            "page cache",
        ),
        (
            json!({"name": "read", "random_distribution": "zipf:1.1"}),
            "only with access = random",
        ),
    ] {
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let error = workload::parse(&spec, &SIZING).err().unwrap();
        assert_eq!(error.key.as_deref(), Some("random_distribution"), "{error}");
        assert!(error.message.contains(why), "{error}");
    }
    let strided = json!({"name": "stride-read", "random_distribution": "zipf:1.1"});
    let spec: WorkloadSpec = serde_json::from_value(strided).unwrap();
    assert!(workload::parse(&spec, &SIZING).is_err());
}

#[test]
fn a_cache_warms_up_by_draws_of_which_few_records_are_missed() {
    let workload = json!({"name": "cache-warm-up", "file_size": "4M", "block_size": "4K"});
    let (_, warm_up) = job(&workload);
    let profile = warm_up.profile();
    assert_eq!(
        (profile.operations, profile.label.as_str()),
        (5 * 1024, "random warm up read 4K, cold")
    );
    assert!(warm_up.unit().is_none() && !profile.divisible && profile.renewal == Renewal::Remount);
    let calls = asked(&workload, profile.operations);
    let mut records: Vec<u64> = calls
        .split(' ')
        .filter_map(|call| call.strip_prefix('r')?.parse().ok())
        .collect();
    assert_eq!(records.len(), 5 * 1024);
    let distinct = |records: &[u64]| {
        records
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len() as f64
    };
    // After one draw per record 1 − 1/e of them were read, and after five all but exp(−5).
    assert!((distinct(&records[..1024]) / 1024.0 - 0.632).abs() < 0.05);
    assert!((distinct(&records) / 1024.0 - 0.993).abs() < 0.01);
    records.sort_unstable();
    assert!(records.last() < Some(&1024));
    // The check of a cold trial requires fewer bytes of the device than those of the records that
    // were drawn.
    let required = profile.cold_bytes_per_operation * profile.operations;
    assert!(
        (0.85..0.95).contains(&(required as f64 / (4 << 20) as f64)),
        "{required}"
    );
    for (key, value) in [
        ("random_distribution", "zipf:1.1"),
        ("cache", "warm"),
        ("backend", "direct"),
    ] {
        let mut wrong = workload.clone();
        wrong[key] = value.into();
        let spec: WorkloadSpec = serde_json::from_value(wrong).unwrap();
        assert_eq!(
            workload::parse(&spec, &SIZING)
                .err()
                .unwrap()
                .key
                .as_deref(),
            Some(key)
        );
    }
}
