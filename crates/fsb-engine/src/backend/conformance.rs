//! Conformance tests that every backend in the registry must pass.

use rustix::fs::Mode;
use std::ffi::CStr;
use std::fs;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde_json::json;

use super::*;
use crate::data::{Data, Memory};
use crate::task::Step;
use crate::workload::testing::{Open, SEED, SIZING, task};
use crate::{worker, workload};

const FILE_SIZE: usize = 80 << 10;

/// Returns the backends that touch files, without those that this kernel (io_uring can be
/// forbidden) or the file system of the temporary directory (O_DIRECT) refuses.
fn real() -> impl Iterator<Item = &'static dyn Backend> {
    REGISTRY
        .iter()
        .copied()
        .filter(|backend| backend.capabilities().real && !refused(*backend))
}

fn refused(backend: &dyn Backend) -> bool {
    let root = scratch(backend);
    let place = ProbeTarget {
        directory: root.path(),
        file: None,
        verb: Verb::Write,
        record_size: 4096,
    };
    let setup = SessionSetup {
        files: 1,
        held: true,
        depth: 1,
        record_size: 4096,
        memory: Vec::new(),
    };
    match backend
        .examine(&place)
        .and_then(|_| backend.session(&setup))
    {
        Ok(_) => false,
        Err(refusal) => {
            // No macro, because libraries do not print, and a test checks their sources for that.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: backend {}: {refusal}",
                backend.name()
            );
            true
        }
    }
}

/// Creates a directory: in memory if there is one, the backend lets the page cache keep data, and
/// its calls may wait. A file system in memory refuses calls that may not.
fn scratch(backend: &dyn Backend) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir()
        && !backend.capabilities().keeps_nothing()
        && !backend.name().ends_with("nowait");
    let made = match in_memory {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.unwrap()
}

/// Returns the depths to try.
fn depths(backend: &dyn Backend) -> impl Iterator<Item = u32> {
    let most = backend.capabilities().depth;
    [1, 2, 4, 32]
        .into_iter()
        .filter(move |&depth| depth <= most)
}

/// Performs the steps of a workload with all its operations.
fn perform(root: &Path, steps: &[Step], workload: &serde_json::Value) -> Result<(), EngineError> {
    let workload: fsb_model::WorkloadSpec = serde_json::from_value(workload.clone()).unwrap();
    let job =
        workload::parse(&workload, &SIZING).map_err(|error| EngineError::new(error.to_string()))?;
    for &step in steps {
        worker::perform(
            &task(step, &workload, root, job.profile().operations),
            &mut Open::default(),
        )?;
    }
    Ok(())
}

/// Reads all files of the set below a root, in order.
fn contents(root: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("fsb-set/d00000"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Returns the complete content of each file of a set.
fn expected(files: u64, size: usize) -> Vec<Vec<u8>> {
    let stride = size.next_multiple_of(4096) as u64;
    (0..files)
        .map(|file| Data::new(SEED, size).window(file * stride, size).to_vec())
        .collect()
}

/// Returns the record sizes that a backend must support in files of `FILE_SIZE`.
fn records(backend: &dyn Backend) -> Vec<u64> {
    let granule = backend.capabilities().granule;
    [1025, 4096, 4608, 40_960, FILE_SIZE as u64]
        .into_iter()
        .filter(|record| record % granule == 0)
        .collect()
}

#[test]
fn writes_store_the_requested_bytes() {
    for backend in real() {
        let name = backend.name();
        for (record, depth) in records(backend)
            .iter()
            .flat_map(|&record| depths(backend).map(move |d| (record, d)))
        {
            for (access, files) in [("sequential", 1), ("random", 1), ("sequential", 3)] {
                let size = FILE_SIZE as u64 / record * record;
                let root = scratch(backend);
                let workload = json!({
                    "name": "write", "backend": name, "files": files, "file_size": size, "block_size": record,
                    "depth": depth, "batch": depth.div_ceil(2), "access": access, "durability": "end",
                });
                // Over what other bytes were written before, where it is random.
                perform(root.path(), &[Step::Prepare], &workload).unwrap();
                for path in fs::read_dir(root.path().join("fsb-set/d00000")).unwrap() {
                    let path = path.unwrap().path();
                    let length = fs::metadata(&path).unwrap().len();
                    fs::write(&path, vec![0; length as usize]).unwrap();
                }
                perform(root.path(), &[Step::Measure], &workload)
                    .unwrap_or_else(|error| panic!("{workload}: {error}"));
                assert!(
                    contents(root.path()) == expected(files, size as usize),
                    "{workload}"
                );
            }
        }
    }
}

#[test]
fn appended_records_stay_in_order() {
    for backend in real() {
        for record in records(backend) {
            let root = scratch(backend);
            let size = FILE_SIZE as u64 / record * record;
            let workload = json!({
                "name": "append", "backend": backend.name(), "file_size": size, "block_size": record,
            });
            let done = perform(root.path(), &[Step::Prepare, Step::Measure], &workload);
            if backend.capabilities().appends {
                done.unwrap();
                assert!(
                    contents(root.path()) == expected(1, size as usize),
                    "{workload}"
                );
            } else {
                assert!(
                    done.unwrap_err().message.contains("cannot append"),
                    "{workload}"
                );
            }
        }
    }
}

#[test]
fn files_are_created_and_sets_are_opened_one_by_one() {
    for backend in real() {
        let root = scratch(backend);
        let set =
            json!({"backend": backend.name(), "files": 40, "file_size": 8192, "block_size": 4096});
        for (name, steps) in [
            ("create", &[Step::Prepare, Step::Measure][..]),
            ("write", &[Step::Prepare, Step::Measure]),
            ("read", &[Step::Prepare, Step::Measure]),
        ] {
            let mut workload = set.clone();
            workload["name"] = name.into();
            if name == "read" {
                workload["cache"] = "any".into();
            }
            perform(root.path(), steps, &workload)
                .unwrap_or_else(|error| panic!("{workload}: {error}"));
            assert!(contents(root.path()) == expected(40, 8192), "{workload}");
        }
        perform(root.path(), &[Step::Cleanup], &json!({"name": "read"})).unwrap();
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            0,
            "{}",
            backend.name()
        );
    }
}

/// A session on one prepared file, with memory for its requests.
struct Fixture {
    session: Box<dyn Session>,
    slot: FileSlot,
    handle: Directory,
    memory: Memory,
    expected: Vec<u8>,
    _root: tempfile::TempDir,
}

const RECORD: usize = 4096;
const FILE: &CStr = c"d00000/f00000000";

fn fixture(backend: &dyn Backend, depth: u32) -> Fixture {
    let root = scratch(backend);
    perform(
        root.path(),
        &[Step::Prepare],
        &json!({"name": "read", "file_size": FILE_SIZE}),
    )
    .unwrap();
    let set = root.path().join("fsb-set");
    let mut memory = Memory::new(RECORD * depth as usize);
    let all = (memory.as_mut().as_mut_ptr(), RECORD * depth as usize);
    let setup = SessionSetup {
        files: 1,
        held: true,
        depth,
        record_size: RECORD as u64,
        memory: vec![all],
    };
    let mut session = backend.session(&setup).unwrap();
    let handle = backend.namespace().open_root(&set).unwrap();
    let slot = session
        .open(&handle, FILE, Purpose::Read.into(), FILE_SIZE as u64)
        .unwrap();
    Fixture {
        session,
        slot,
        handle,
        memory,
        expected: expected(1, FILE_SIZE).remove(0),
        _root: root,
    }
}

impl Fixture {
    fn read(&mut self, tag: u32, offset: u64) -> IoRequest {
        let memory = self.memory.as_mut()[tag as usize * RECORD..].as_mut_ptr();
        IoRequest {
            slot: self.slot,
            verb: Verb::Read,
            offset,
            memory,
            length: RECORD,
            tag,
        }
    }

    /// Reads a record and waits for it.
    fn read_one(&mut self, offset: u64) -> Result<usize, Errno> {
        let request = self.read(0, offset);
        // SAFETY: the memory is the fixture's, which outlives the request: it is waited for.
        match unsafe { self.session.queue(&request) }? {
            Queued::Done(moved) => Ok(moved),
            Queued::Pending => {
                let mut done = Vec::with_capacity(1);
                self.session.commit()?;
                while done.is_empty() {
                    self.session.reap(1, &mut done)?;
                }
                done[0].result
            }
            Queued::Busy => panic!("there is room for one"),
        }
    }
}

#[test]
fn reads_return_the_written_bytes() {
    for (backend, depth) in
        real().flat_map(|backend| depths(backend).map(move |depth| (backend, depth)))
    {
        let mut fixture = fixture(backend, depth);
        let records = (FILE_SIZE / RECORD) as u64;
        let mut offsets = (0..records).map(|record| record * 7 % records * RECORD as u64);
        let mut under_way = vec![None; depth as usize];
        let mut done = Vec::with_capacity(depth as usize);
        let mut seen = 0;
        while seen < records {
            for tag in 0..depth {
                if under_way[tag as usize].is_some() {
                    continue;
                }
                let Some(offset) = offsets.next() else { break };
                let request = fixture.read(tag, offset);
                loop {
                    // SAFETY: each tag has memory of its own, which outlives the session's
                    // requests: all are waited for.
                    match unsafe { fixture.session.queue(&request) }.unwrap() {
                        Queued::Done(moved) => done.push(Completion {
                            tag,
                            result: Ok(moved),
                        }),
                        Queued::Pending => {}
                        Queued::Busy => {
                            fixture.session.commit().unwrap();
                            fixture.session.reap(1, &mut done).unwrap();
                            continue;
                        }
                    }
                    break;
                }
                under_way[tag as usize] = Some(offset as usize);
            }
            fixture.session.commit().unwrap();
            if done.is_empty() {
                fixture.session.reap(1, &mut done).unwrap();
            }
            for Completion { tag, result } in done.drain(..) {
                assert_eq!(result, Ok(RECORD), "{}", backend.name());
                let offset = under_way[tag as usize]
                    .take()
                    .expect("a request comes back once");
                let got = &fixture.memory.as_mut()[tag as usize * RECORD..][..RECORD];
                assert!(
                    got == &fixture.expected[offset..][..RECORD],
                    "{} at {offset}",
                    backend.name()
                );
                seen += 1;
            }
        }
        fixture.session.close(fixture.slot).unwrap();
    }
}

#[test]
fn a_session_that_is_dropped_leaves_no_memory_half_written() {
    for (backend, depth) in
        real().flat_map(|backend| depths(backend).map(move |depth| (backend, depth)))
    {
        let mut fixture = fixture(backend, depth);
        for tag in 0..depth {
            let request = fixture.read(tag, u64::from(tag) * RECORD as u64 % FILE_SIZE as u64);
            // SAFETY: the memory outlives the session, which is dropped below.
            let queued = unsafe { fixture.session.queue(&request) };
            assert!(queued.is_ok(), "{}: {queued:?}", backend.name());
        }
        fixture.session.commit().unwrap();
        let Fixture {
            session,
            mut memory,
            expected,
            ..
        } = fixture;
        drop(session);
        for (index, got) in memory.as_mut().chunks(RECORD).enumerate() {
            let whole = got == &expected[index * RECORD % FILE_SIZE..][..RECORD];
            let untouched = got.iter().all(|&byte| byte == 0xa5);
            assert!(whole || untouched, "{}: request {index}", backend.name());
        }
    }
}

#[test]
fn ends_and_mistakes_are_told() {
    for backend in real() {
        let name = backend.name();
        let mut fixture = fixture(backend, 1);
        assert_eq!(
            fixture.read_one(FILE_SIZE as u64),
            Ok(0),
            "{name} beyond the end"
        );
        assert_eq!(fixture.read_one(0), Ok(RECORD), "{name} after the end");
        let mut open = |path: &CStr, purpose| {
            fixture
                .session
                .open(&fixture.handle, path, purpose, RECORD as u64)
        };
        assert_eq!(
            open(FILE, Purpose::Read.into()),
            Err(Errno::MFILE),
            "{name} has one slot"
        );
        fixture.session.close(fixture.slot).unwrap();
        let mut open = |path: &CStr, purpose| {
            fixture
                .session
                .open(&fixture.handle, path, purpose, RECORD as u64)
        };
        assert_eq!(
            open(c"nothing", Purpose::Read.into()),
            Err(Errno::NOENT),
            "{name}"
        );
        assert_eq!(
            open(c"d00000", Purpose::Write.into()),
            Err(Errno::ISDIR),
            "{name}"
        );
        assert_eq!(
            open(FILE, Purpose::Create.into()),
            Err(Errno::EXIST),
            "{name}"
        );
        assert_eq!(
            fixture.read_one(0),
            Err(Errno::BADF),
            "{name} after closing"
        );
        assert_eq!(
            fixture.session.close(fixture.slot),
            Err(Errno::BADF),
            "{name}"
        );
        assert_eq!(
            fixture.session.flush(fixture.slot, Flush::All),
            Err(Errno::BADF),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_became_shorter_is_a_short_read() {
    for backend in real() {
        let mut fixture = fixture(backend, 1);
        let path = fixture
            ._root
            .path()
            .join("fsb-set")
            .join(FILE.to_str().unwrap());
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(2 * RECORD as u64)
            .unwrap();
        assert_eq!(
            fixture.read_one(RECORD as u64),
            Ok(RECORD),
            "{}",
            backend.name()
        );
        assert_eq!(
            fixture.read_one(2 * RECORD as u64),
            Ok(0),
            "{}",
            backend.name()
        );
    }
}

#[test]
fn a_place_is_examined_and_left_as_it_was() {
    for backend in real() {
        let root = scratch(backend);
        for verb in [Verb::Read, Verb::Write] {
            let place = ProbeTarget {
                directory: root.path(),
                file: None,
                verb,
                record_size: 4096,
            };
            let found = backend
                .examine(&place)
                .unwrap_or_else(|error| panic!("{}: {error}", backend.name()));
            assert!(
                found.is_none() || backend.capabilities().keeps_nothing(),
                "{}",
                backend.name()
            );
            assert_eq!(
                fs::read_dir(root.path()).unwrap().count(),
                0,
                "{}",
                backend.name()
            );
        }
    }
}

/// All calls that a workload may make beside transfers, on one file: streams of mail servers make
/// some of them too.
#[test]
fn every_sequential_backend_makes_all_calls() {
    for backend in
        real().filter(|backend| backend.capabilities().sequential || backend.name() == "stdio")
    {
        let name = backend.name();
        let root = scratch(backend);
        let namespace = backend.namespace();
        let directory = namespace.open_root(root.path()).unwrap();
        let mut session = backend.session(&SessionSetup::plain(2)).unwrap();
        let flags = OpenFlags::READ_WRITE.creating(0o600);
        let file = session.open(&directory, c"file", flags, 0).unwrap();
        assert_eq!(
            (
                session.write(file, b"hello "),
                session.write(file, b"world")
            ),
            (Ok(6), Ok(5)),
            "{name}"
        );
        session.rewind(file).unwrap();
        let (mut memory, mut found) = ([0; 4], Vec::new());
        let bytes = session.read_to_end(file, &mut memory, 11, &mut |at, piece| {
            assert_eq!(at, found.len() as u64, "{name}");
            found.extend_from_slice(piece);
            ControlFlow::Continue(())
        });
        assert_eq!(
            (bytes, found.as_slice()),
            (Ok(11), b"hello world".as_slice()),
            "{name}"
        );
        assert_eq!(session.seek_to_end(file, 11), Ok(11), "{name}");
        assert_eq!(
            (session.write(file, b"!"), session.flush(file, Flush::Data)),
            (Ok(1), Ok(())),
            "{name}"
        );
        assert_eq!(
            (
                session.write_at(file, b"H", 0),
                session.flush(file, Flush::All)
            ),
            (Ok(1), Ok(())),
            "{name}"
        );
        assert_eq!(
            (session.read_at(file, &mut memory, 9, 12), &memory[..3]),
            (Ok(3), b"ld!".as_slice()),
            "{name}"
        );
        assert_eq!(session.size(file, 12), Ok(12), "{name}");
        session.lock(file, RangeLock::Exclusive, 0, 5).unwrap();
        session.lock(file, RangeLock::Release, 0, 5).unwrap();
        session.set_mode(file, Mode::from_raw_mode(0o640)).unwrap();
        assert_eq!(
            (session.truncate(file, 20), session.size(file, 20)),
            (Ok(()), Ok(20)),
            "{name}"
        );
        assert_eq!(
            (session.truncate(file, 12), session.size(file, 12)),
            (Ok(()), Ok(12)),
            "{name}"
        );
        let copy = session
            .open(&directory, c"copy", OpenFlags::WRITE.creating(0o644), 0)
            .unwrap();
        assert_eq!(session.copy_range(file, 6, copy, 100), Ok(6), "{name}");
        for slot in [copy, file] {
            session.close(slot).unwrap();
        }
        assert_eq!(
            fs::read(root.path().join("file")).unwrap(),
            b"Hello world!",
            "{name}"
        );
        assert_eq!(
            fs::read(root.path().join("copy")).unwrap(),
            b"world!",
            "{name}"
        );
        namespace
            .make_directory(&directory, c"below", Mode::from_raw_mode(0o755))
            .unwrap();
        namespace.link(&directory, c"file", c"below/hard").unwrap();
        namespace
            .symbolic_link(&directory, c"../file", c"below/soft")
            .unwrap();
        let mut buffer = [MaybeUninit::uninit(); 64];
        assert_eq!(
            namespace.read_link(&directory, c"below/soft", &mut buffer, 7),
            Ok(7),
            "{name}"
        );
        assert_eq!(
            namespace.remove_directory(&directory, c"below"),
            Err(Errno::NOTEMPTY),
            "{name}"
        );
        let (owner, group) = (rustix::process::geteuid(), rustix::process::getegid());
        assert_eq!(
            namespace.set_owner(&directory, c"file", owner, group),
            Ok(()),
            "{name}"
        );
        let path = std::ffi::CString::new(
            root.path()
                .join("file")
                .into_os_string()
                .into_encoded_bytes(),
        )
        .unwrap();
        assert_eq!(namespace.file_system(&path), Ok(()), "{name}");
        // The kernel may refuse user attributes on a file system in memory.
        match namespace.set_attribute(&path, c"user.fsb", b"value") {
            Err(errno) => assert_eq!(errno, Errno::OPNOTSUPP, "{name}"),
            Ok(()) => {
                assert_eq!(
                    namespace.get_attribute(&path, c"user.fsb", &mut buffer, 5),
                    Ok(5),
                    "{name}"
                );
                let length = namespace.list_attributes(&path, &mut buffer, 9).unwrap();
                assert!(length > c"user.fsb".count_bytes(), "{name}");
            }
        }
        for entry in [c"below/hard", c"below/soft"] {
            namespace.unlink(&directory, entry).unwrap();
        }
        namespace.remove_directory(&directory, c"below").unwrap();
    }
}
