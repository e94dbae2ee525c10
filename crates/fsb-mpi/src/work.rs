//! The work of one rank in a phase.
//!
//! Everything is prepared before the barrier. The clock of a phase covers opening, moving data, the
//! flush if the group is durable, and closing, as IOR's does.

use std::ffi::{CStr, CString};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fsb_engine::backend::{self, Directory, Flush, OpenFlags, RangeLock, Session, SessionSetup};
use fsb_engine::{EngineError, latency, mix};
use fsb_model::trial::{CORRUPTED, NO_SPACE};
use hdrhistogram::Histogram;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock::{Offset, now};
use crate::layout;
use crate::suite::{Group, Phase, Shared};

/// The progress of a phase is noted at most this number of times.
const NOTES: u64 = 1024;
/// Bytes at the start of a transfer or a file that say whose it is.
const MARK: usize = 8;
/// Memory of direct I/O begins at a multiple of this number of bytes.
const ALIGNMENT: usize = 4096;
/// The bytes that locks are taken on.
const LOCKED: u64 = 4096;

/// One rank's part of a group on one target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'p> {
    /// The group.
    pub group: &'p Group,
    /// The directory of the group's files.
    pub root: &'p Path,
    /// The place of this rank among those that take part.
    pub place: usize,
    /// The number of ranks that take part.
    pub ranks: usize,
    /// The distance to the rank whose files this one reads, calls stat on and removes.
    pub shift: usize,
    /// Decides the content of files and random orders.
    pub seed: u64,
}

/// The result of a rank in a phase. Times are on the rank's own clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankReport {
    /// When the rank left the barrier, in nanoseconds.
    pub left_barrier: u64,
    /// Before the first call.
    pub start: u64,
    /// After the last call.
    pub stop: u64,
    /// Calls that finished.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The latencies of calls, encoded; empty if there are none.
    pub latency: String,
    /// The reason why it failed.
    pub failure: Option<EngineError>,
}

impl RankReport {
    /// Returns the report with times on the clock of rank 0.
    pub fn on_clock_of_rank_zero(self, offset: Offset) -> RankReport {
        let [left_barrier, start, stop] =
            [self.left_barrier, self.start, self.stop].map(|time| offset.to_rank_zero(time));
        RankReport {
            left_barrier,
            start,
            stop,
            ..self
        }
    }
}

/// The times at which a rank had finished a number of calls.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Calls between two notes.
    each: u64,
    times: Vec<u64>,
}

impl Progress {
    fn new(operations: u64) -> Progress {
        Progress {
            each: operations.div_ceil(NOTES).max(1),
            times: Vec::with_capacity(NOTES as usize),
        }
    }

    #[inline]
    fn note(&mut self, done: u64, time: u64) {
        if done.is_multiple_of(self.each) {
            self.times.push(time);
        }
    }

    /// Returns the number of calls that had finished by a time before the end: at most a thousandth
    /// of all calls too few.
    pub fn done_by(&self, time: u64) -> u64 {
        self.times.partition_point(|noted| *noted <= time) as u64 * self.each
    }
}

/// A phase that is ready to start.
pub(crate) struct ReadyPhase<'p> {
    part: Part<'p>,
    phase: Phase,
    session: Box<dyn Session>,
    /// The directory that names are relative to.
    directory: Directory,
    /// Paths of the directories of files below it, each with its `/`.
    directories: Vec<String>,
    offsets: Vec<u64>,
    memory: Vec<u8>,
    /// The part of `memory` that is moved.
    moved: Range<usize>,
    name: Vec<u8>,
    histogram: Histogram<u64>,
    progress: Progress,
    done: u64,
}

impl<'p> Part<'p> {
    /// Returns the rank whose files a phase uses.
    fn owner(&self, phase: Phase) -> usize {
        match phase {
            Phase::Write | Phase::Create | Phase::Lock => self.place,
            Phase::Read | Phase::Stat | Phase::Scan | Phase::Delete => {
                (self.place + self.shift) % self.ranks
            }
        }
    }

    /// Returns the directory of a rank's files.
    fn directory(&self, owner: usize) -> PathBuf {
        match self.group.shared {
            Shared::File | Shared::Directory => self.root.to_owned(),
            Shared::None => self.root.join(format!("r{owner}")),
        }
    }

    /// Returns the name of the file with a rank's data.
    fn data_file(&self, owner: usize) -> String {
        match self.group.shared {
            Shared::File => "data".to_owned(),
            Shared::Directory | Shared::None => format!("data{owner}"),
        }
    }

    /// Makes the directories that all ranks use. Rank 0 calls it before the others make theirs.
    pub fn make_shared(&self) -> Result<(), EngineError> {
        make_directory(self.root)?;
        if self.group.shared == Shared::Directory {
            self.make_tree(self.root)
        } else {
            Ok(())
        }
    }

    /// Makes this rank's own directories.
    pub fn make_own(&self) -> Result<(), EngineError> {
        if self.group.shared != Shared::None {
            return Ok(());
        }
        let own = self.directory(self.place);
        make_directory(&own)?;
        self.make_tree(&own)
    }

    fn make_tree(&self, root: &Path) -> Result<(), EngineError> {
        layout::directories(self.group)
            .iter()
            .skip(1)
            .try_for_each(|path| make_directory(&root.join(path)))
    }

    /// Asks the kernel to forget the data that this rank wrote, so that a reader on the same host
    /// does not find all of it in memory. Errors are ignored: the kernel need not follow the
    /// advice.
    pub fn drop_from_cache(&self) {
        let path = self.directory(self.place).join(self.data_file(self.place));
        if let Ok(file) = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = rustix::fs::fdatasync(&file);
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
    }

    /// Removes the files of this rank that exist. Errors are ignored: rank 0 removes the rest, and
    /// reports it.
    pub fn remove_own(&self) {
        let directory = self.directory(self.place);
        if self.group.moves_data() {
            let _ = std::fs::remove_file(directory.join(self.data_file(self.place)));
            return;
        }
        let directories = layout::directories(self.group);
        for file in 0..self.group.files {
            let below =
                &directories[layout::directory_of(file, self.group.files, directories.len())];
            let _ = std::fs::remove_file(directory.join(format!("{below}f{}.{file}", self.place)));
        }
    }

    /// Prepares a phase: everything that need not be timed.
    pub fn prepare(self, phase: Phase) -> Result<ReadyPhase<'p>, EngineError> {
        let backend = backend::find(&self.group.backend)?;
        let session = backend.session(&SessionSetup::plain(1))?;
        let owner = self.owner(phase);
        let path = self.directory(owner);
        let directory = backend
            .namespace()
            .open_root(&path)
            .map_err(|errno| EngineError::call("open", &path, errno))?;
        let length = if phase.moves_data() {
            self.group.transfer_size.0
        } else {
            self.group.file_size.0
        } as usize;
        let mut memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        fill(
            &mut memory[begin..begin + length],
            self.seed ^ self.place as u64,
        );
        let offsets = match phase.moves_data() {
            true => layout::offsets(self.group, owner, self.ranks, self.seed),
            false => Vec::new(),
        };
        let mut histogram =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are constants");
        // Writes every counter, so that the clock covers no page fault.
        histogram.reset();
        Ok(ReadyPhase {
            phase,
            session,
            directory,
            directories: layout::directories(self.group),
            offsets,
            memory,
            moved: begin..begin + length,
            name: Vec::with_capacity(4096),
            histogram,
            progress: Progress::new(self.group.operations(phase)),
            done: 0,
            part: self,
        })
    }
}

impl ReadyPhase<'_> {
    /// Makes the calls of the phase.
    pub fn run(mut self) -> (RankReport, Progress) {
        let start = now();
        let result = match self.phase {
            Phase::Write | Phase::Read => self.move_data(start),
            Phase::Lock => self.take_locks(start),
            Phase::Create | Phase::Stat | Phase::Scan | Phase::Delete => self.use_files(start),
        };
        let stop = now();
        let each = self.part.group.bytes(self.phase) / self.part.group.operations(self.phase);
        let report = RankReport {
            left_barrier: 0,
            start,
            stop,
            operations: self.done,
            bytes: self.done * each,
            latency: if self.histogram.is_empty() {
                String::new()
            } else {
                latency::encode_plain(&self.histogram)
            },
            failure: result.err(),
        };
        (report, self.progress)
    }

    #[inline]
    fn finish_operation(&mut self, before: &mut u64) {
        let time = now();
        self.histogram.saturating_record(time - *before);
        *before = time;
        self.done += 1;
        self.progress.note(self.done, time);
    }

    fn move_data(&mut self, start: u64) -> Result<(), EngineError> {
        let Part { group, seed, .. } = self.part;
        let owner = self.part.owner(self.phase);
        let name = self.part.data_file(owner);
        let path = &self.part.directory(owner).join(&name);
        let fail = |call: &'static str| move |errno| failed(call, path, errno);
        let name = CString::new(name).expect("it has no zero");
        let flags = match self.phase {
            // Every rank may be the first one at a shared file.
            Phase::Write => OpenFlags {
                mode: Mode::from_raw_mode(0o644),
                ..OpenFlags::WRITE.with(OFlags::CREATE)
            },
            _ => OpenFlags::READ,
        };
        let size = group.bytes(self.phase) * self.part.ranks as u64;
        let slot = self
            .session
            .open(&self.directory, &name, flags, size)
            .map_err(fail("open"))?;
        let key = match group.shared {
            Shared::File => seed,
            Shared::Directory | Shared::None => seed ^ mix(owner as u64 + 1),
        };
        let offsets = std::mem::take(&mut self.offsets);
        let is_real = group.is_real();
        let mut before = start;
        for offset in offsets {
            let mark = mix(key ^ mix(offset)).to_le_bytes();
            let memory = &mut self.memory[self.moved.clone()];
            let mut moved = 0;
            if self.phase == Phase::Write {
                memory[..MARK].copy_from_slice(&mark);
                while moved < memory.len() {
                    let at = offset + moved as u64;
                    let written = self
                        .session
                        .write_at(slot, &memory[moved..], at)
                        .map_err(fail("write to"))?;
                    moved += written;
                }
            } else {
                while moved < memory.len() {
                    let at = offset + moved as u64;
                    let read = self
                        .session
                        .read_at(slot, &mut memory[moved..], at, size)
                        .map_err(fail("read"))?;
                    if read == 0 {
                        return Err(missing(path, at));
                    }
                    moved += read;
                }
                if is_real && memory[..MARK] != mark {
                    return Err(foreign(path, offset));
                }
            }
            self.finish_operation(&mut before);
        }
        if group.flushes(self.phase) {
            self.session
                .flush(slot, Flush::All)
                .map_err(fail("fsync"))?;
        }
        self.session.close(slot).map_err(fail("close"))
    }

    fn take_locks(&mut self, start: u64) -> Result<(), EngineError> {
        let path = &self.part.root.join("lock");
        let fail = |call: &'static str| move |errno| failed(call, path, errno);
        let flags = OpenFlags {
            mode: Mode::from_raw_mode(0o644),
            ..OpenFlags::READ_WRITE.with(OFlags::CREATE)
        };
        let slot = self
            .session
            .open(&self.directory, c"lock", flags, LOCKED)
            .map_err(fail("open"))?;
        let mut before = start;
        for _ in 0..self.part.group.locks {
            self.session
                .lock(slot, RangeLock::Exclusive, 0, LOCKED)
                .map_err(fail("lock"))?;
            self.session
                .lock(slot, RangeLock::Release, 0, LOCKED)
                .map_err(fail("unlock"))?;
            self.finish_operation(&mut before);
        }
        self.session.close(slot).map_err(fail("close"))
    }

    fn use_files(&mut self, start: u64) -> Result<(), EngineError> {
        let group = self.part.group;
        let owner = self.part.owner(self.phase);
        let namespace = backend::find(&group.backend)?.namespace();
        let is_real = group.is_real();
        let mut before = start;
        for file in 0..group.files {
            let below =
                &self.directories[layout::directory_of(file, group.files, self.directories.len())];
            self.name.clear();
            write!(self.name, "{below}f{owner}.{file}\0").expect("memory takes it");
            let name = CStr::from_bytes_with_nul(&self.name).expect("it ends with its only zero");
            let path = || {
                self.part
                    .directory(owner)
                    .join(name.to_string_lossy().as_ref())
            };
            let fail = |call: &'static str| move |errno| failed(call, &path(), errno);
            let memory = &mut self.memory[self.moved.clone()];
            let mark = mix(self.part.seed ^ mix(owner as u64) ^ file).to_le_bytes();
            let marked = memory.len().min(MARK);
            match self.phase {
                Phase::Stat => namespace
                    .stat(&self.directory, name)
                    .map_err(fail("stat"))?,
                Phase::Delete => namespace
                    .unlink(&self.directory, name)
                    .map_err(fail("remove"))?,
                Phase::Create => {
                    let flags = OpenFlags::WRITE.creating(0o644);
                    let slot = self
                        .session
                        .open(&self.directory, name, flags, 0)
                        .map_err(fail("create"))?;
                    memory[..marked].copy_from_slice(&mark[..marked]);
                    let mut moved = 0;
                    while moved < memory.len() {
                        let written = self.session.write_at(slot, &memory[moved..], moved as u64);
                        moved += written.map_err(fail("write to"))?;
                    }
                    self.session.close(slot).map_err(fail("close"))?;
                }
                _ => {
                    let size = memory.len() as u64;
                    let slot = self
                        .session
                        .open(&self.directory, name, OpenFlags::READ, size)
                        .map_err(fail("open"))?;
                    let mut moved = 0;
                    while moved < memory.len() {
                        let read =
                            self.session
                                .read_at(slot, &mut memory[moved..], moved as u64, size);
                        match read.map_err(fail("read"))? {
                            0 => return Err(missing(&path(), moved as u64)),
                            read => moved += read,
                        }
                    }
                    if is_real && memory[..marked] != mark[..marked] {
                        return Err(foreign(&path(), 0));
                    }
                    self.session.close(slot).map_err(fail("close"))?;
                }
            }
            self.finish_operation(&mut before);
        }
        if group.flushes(self.phase) {
            let synced = namespace.sync_file_system(&self.directory);
            synced.map_err(|errno| failed("syncfs", self.part.root, errno))?;
        }
        Ok(())
    }
}

/// Returns the error of a call. The code of a full file system is that of all trials.
fn failed(call: &str, path: &Path, errno: Errno) -> EngineError {
    let error = EngineError::call(call, path, errno);
    if errno == Errno::NOSPC || errno == Errno::DQUOT {
        error.coded(&NO_SPACE)
    } else {
        error
    }
}

/// Returns the error of a file that ends before the data of its writer.
fn missing(path: &Path, offset: u64) -> EngineError {
    EngineError::new(format!(
        "corrupted: {} ends at offset {offset}, before the data that was written",
        path.display()
    ))
    .coded(&CORRUPTED)
}

/// Returns the error of a transfer that begins with other bytes than those that were written there.
fn foreign(path: &Path, offset: u64) -> EngineError {
    let path = path.display();
    EngineError::new(format!(
        "corrupted: {path} holds other data at offset {offset} than were written there"
    ))
    .coded(&CORRUPTED)
}

pub(crate) fn make_directory(path: &Path) -> Result<(), EngineError> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)).map_err(|errno| failed("make", path, errno))
}

/// Fills memory with bytes that do not compress.
fn fill(memory: &mut [u8], seed: u64) {
    for (word, place) in memory.chunks_mut(8).zip(0u64..) {
        let bytes = mix(seed ^ mix(place)).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    fn group(text: &str) -> Group {
        Suite::parse(&format!("[[groups]]\n{text}"))
            .unwrap()
            .groups
            .remove(0)
    }

    fn part<'p>(group: &'p Group, root: &'p Path, place: usize) -> Part<'p> {
        Part {
            group,
            root,
            place,
            ranks: 2,
            shift: 1,
            seed: 7,
        }
    }

    fn run(part: Part<'_>, phase: Phase) -> RankReport {
        part.prepare(phase).unwrap().run().0
    }

    #[test]
    fn readers_find_what_other_ranks_wrote_in_every_layout() {
        for (shared, layout) in [
            ("file", "segmented"),
            ("file", "strided"),
            ("file", "random"),
            ("directory", "segmented"),
            ("none", "random"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("group");
            let group = group(&format!(
                "phases = ['write', 'read']\nshared = '{shared}'\nlayout = '{layout}'\nblock_size = 65536\n\
                 transfer_size = 4096\nsegments = 2\ndurable = true"
            ));
            part(&group, &root, 0).make_shared().unwrap();
            for phase in [Phase::Write, Phase::Read] {
                for place in 0..2 {
                    let part = part(&group, &root, place);
                    if phase == Phase::Write {
                        part.make_own().unwrap();
                    }
                    let report = run(part, phase);
                    assert_eq!(report.failure, None, "{shared} {layout}");
                    assert_eq!((report.operations, report.bytes), (32, 131_072));
                    assert_eq!(latency::count(&report.latency), Some(32));
                }
            }
            (0..2).for_each(|place| part(&group, &root, place).remove_own());
            let left = std::fs::read_dir(&root)
                .unwrap()
                .flatten()
                .filter(|entry| entry.path().is_file())
                .count();
            assert_eq!(left, 0, "{shared} {layout}");
        }
    }

    #[test]
    fn foreign_and_missing_data_are_corruptions() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("group");
        let group = group(
            "phases = ['write', 'read']\nshared = 'file'\nblock_size = 8192\ntransfer_size = 4096",
        );
        part(&group, &root, 0).make_shared().unwrap();
        (0..2).for_each(|place| {
            assert_eq!(run(part(&group, &root, place), Phase::Write).failure, None)
        });
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(root.join("data"))
            .unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"foreign", 12_288).unwrap();
        let failure = run(part(&group, &root, 0), Phase::Read).failure.unwrap();
        assert!(failure.message.contains("offset 12288"), "{failure}");
        assert_eq!(failure.code.as_deref(), Some(CORRUPTED.name));
        file.set_len(4096).unwrap();
        let failure = run(part(&group, &root, 1), Phase::Read).failure.unwrap();
        assert!(failure.message.contains("ends at offset 4096"), "{failure}");
    }

    #[test]
    fn files_are_created_found_read_and_removed() {
        for shared in ["directory", "none"] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("group");
            let group = group(&format!(
                "phases = ['create', 'stat', 'scan', 'delete']\nshared = '{shared}'\nfiles = 20\nfile_size = 100\n\
                 depth = 2\nbranching = 2\ndurable = true"
            ));
            part(&group, &root, 0).make_shared().unwrap();
            (0..2).for_each(|place| part(&group, &root, place).make_own().unwrap());
            for phase in group.phases.clone() {
                for place in 0..2 {
                    let report = run(part(&group, &root, place), phase);
                    assert_eq!((report.failure, report.operations), (None, 20), "{phase:?}");
                }
            }
            // Nothing is left to find.
            assert!(
                run(part(&group, &root, 0), Phase::Stat)
                    .failure
                    .unwrap()
                    .message
                    .contains("ENOENT")
            );
        }
    }

    #[test]
    fn locks_are_taken_and_released() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("group");
        let group = group("phases = ['lock']\nshared = 'file'\nlocks = 50");
        part(&group, &root, 0).make_shared().unwrap();
        let report = run(part(&group, &root, 0), Phase::Lock);
        assert_eq!(
            (report.failure, report.operations, report.bytes),
            (None, 50, 0)
        );
    }

    #[test]
    fn progress_is_known_to_a_thousandth() {
        let mut progress = Progress::new(10_000);
        (1..=10_000).for_each(|done| progress.note(done, 10 * done));
        assert!(progress.times.len() <= NOTES as usize);
        for time in [0, 5, 333, 50_000, 99_999, 100_000] {
            let (found, done) = (progress.done_by(time), time / 10);
            assert!(
                found <= done && done - found <= 10,
                "{time}: {found} of {done}"
            );
        }
    }
}
