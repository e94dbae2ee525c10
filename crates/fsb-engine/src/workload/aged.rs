//! Reads the files of an aged file system: one in which files were created and deleted for a long
//! time.
//!
//! Preparation fills the file system up to a number of bytes, and then replaces files: it deletes
//! one at random and creates others until they fill the place again. The steps are the same on
//! every target and in every run. Sizes have the log-normal distribution of N. Agrawal, A.
//! Arpaci-Dusseau and R. Arpaci-Dusseau, "Generating Realistic Impressions for File-System
//! Benchmarking" (FAST 2009, table 2), without its tail. The device gets the data at intervals, or
//! files that live briefly would never be allocated. The idea to age by such steps is that of K.
//! Smith and M. Seltzer, "File System Aging: Increasing the Relevance of File System Benchmarks"
//! (SIGMETRICS 1997).

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use fsb_model::metric::THROUGHPUT;
use fsb_model::{CacheState, Params};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use rustix::fd::AsRawFd;
use rustix::fs::Advice;
use rustix::io::Errno;

use super::job::{Job, Workload};
use super::label;
use super::measure::check_operations;
use super::parameter::{self, Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{Backend, Directory, OpenFlags, Session, SessionSetup};
use crate::clock::OperationKind;
use crate::data::Data;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, BLOCK};
use crate::hash::{Stream, hash, mix};
use crate::memory::Memory;
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement, Preparing, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};

/// The name of the operation: one file.
const OPERATION: &str = "aged_read";
/// The directories, among which the files are distributed in turn.
const DIRECTORIES: u64 = 64;
/// The seed of all sizes and choices, so that every run ages in the same way.
const SEED: u64 = 1997;
/// The largest file is this part of all bytes, and so is the amount that is written from one sync
/// to the next.
const PART: u64 = 16;
/// The most files that a history creates.
const MOST_CREATED: u64 = 10_000_000;

/// The member.
pub(super) struct AgedRead;

impl Workload for AgedRead {
    fn name(&self) -> &'static str {
        "aged-read"
    }

    fn about(&self) -> &'static str {
        "read all files of a file system that was aged by creating and deleting files (turnover); counts their extents"
    }

    fn example(&self) -> Params {
        params::from_pairs([("bytes", "256K".into()), ("file_size", "4K".into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        use ParameterKind::{Fraction, Size};
        let mut all = group(
            ParameterGroup::Files,
            [
                Parameter::new(
                    "bytes",
                    Size(4096..=1 << 50),
                    "size/2",
                    "bytes of all files",
                ),
                Parameter::new(
                    "file_size",
                    Size(1..=1 << 40),
                    "13K",
                    "median size of a file",
                ),
                Parameter::new(
                    "sigma",
                    Fraction(0.0..=5.0),
                    "2.46",
                    "standard deviation of the natural logarithm of the sizes",
                ),
                parameter::data(),
            ],
        );
        let about =
            "how often all bytes are replaced before the files are read; 0 is a new file system";
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::new(
                "turnover",
                Fraction(0.0..=1000.0),
                "4",
                about,
            )],
        ));
        let about = "bytes of a read";
        all.extend(group(
            ParameterGroup::Calls,
            [
                Parameter::new("block_size", Size(1..=1 << 30), "128K", about),
                parameter::sequential_backend(),
            ],
        ));
        all.extend(group(
            ParameterGroup::State,
            [parameter::cache(&[CacheState::Cold, CacheState::Any])],
        ));
        all.extend(group(
            ParameterGroup::Results,
            [parameter::label(), parameter::verify()],
        ));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        let mut reader = Reader::new(self.name(), self.parameters(), params, sizing)?;
        let ageing = Ageing {
            bytes: reader.number("bytes")?,
            median: reader.number("file_size")?,
            sigma: reader.fraction("sigma")?,
            turnover: reader.fraction("turnover")?,
        };
        let block_size = reader.number("block_size")?;
        let backend = reader.backend()?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let (label, verify) = (reader.text("label")?, reader.flag("verify")?);
        let Ok(history) = ageing.history(|event| match event {
            Event::Create(AgedFile {
                number: MOST_CREATED..,
                ..
            }) => Err(()),
            _ => Ok(()),
        }) else {
            let message =
                format!("more than {MOST_CREATED} files would be created: use a larger file_size");
            return Err(reader.error("file_size", message));
        };
        reader.finish();
        Ok(Box::new(AgedJob {
            ageing,
            block_size,
            backend,
            cache,
            label,
            verify,
            history,
        }))
    }
}

/// The parameters of the history of a file system.
#[derive(Debug, Clone, Copy)]
struct Ageing {
    bytes: u64,
    median: u64,
    sigma: f64,
    turnover: f64,
}

/// A file in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgedFile {
    number: u64,
    size: u64,
    /// The address of its first byte in the data.
    address: u64,
}

impl AgedFile {
    fn directory(self) -> u64 {
        self.number % DIRECTORIES
    }

    fn path(self) -> String {
        format!("{}/f{:08}", directory(self.directory()), self.number)
    }
}

fn directory(number: u64) -> String {
    format!("d{number:02}")
}

/// A step of a history.
enum Event {
    Create(AgedFile),
    Delete(AgedFile),
    /// Everything must be on the device.
    Sync,
}

/// The result of a history.
struct History {
    /// The remaining files, by directory.
    files: Vec<AgedFile>,
    /// Bytes that were written.
    written: u64,
    /// The most bytes in whole blocks, and the most files, at any time.
    peak: (u64, u64),
}

impl Ageing {
    fn size(self, number: u64) -> u64 {
        let bits = hash(SEED, Stream::Flow, number);
        let mut generator = Pcg64Mcg::new(u128::from(bits) << 64 | u128::from(mix(bits)));
        let normal: f64 = StandardNormal.sample(&mut generator);
        let size = self.median as f64 * libm::exp(self.sigma * normal);
        (size as u64).clamp(1, (self.bytes / PART).max(1))
    }

    /// Calls `act` for each step, in order. The first error ends the history.
    fn history<E>(self, mut act: impl FnMut(Event) -> Result<(), E>) -> Result<History, E> {
        let mut live: Vec<AgedFile> = Vec::new();
        let (mut bytes, mut blocks, mut written, mut unsynced) = (0, 0, 0, 0);
        let (mut peak, mut deletions, mut filled) = ((0, 0), 0, None);
        for number in 0.. {
            let size = self.size(number);
            if bytes + size > self.bytes {
                let filled = *filled.get_or_insert(written);
                if (written - filled) as f64 >= self.turnover * self.bytes as f64 {
                    break;
                }
            }
            while bytes + size > self.bytes {
                let victim = live.swap_remove(
                    (hash(SEED, Stream::Pool, deletions) % live.len() as u64) as usize,
                );
                deletions += 1;
                bytes -= victim.size;
                blocks -= victim.size.next_multiple_of(BLOCK);
                act(Event::Delete(victim))?;
            }
            let file = AgedFile {
                number,
                size,
                address: written,
            };
            act(Event::Create(file))?;
            live.push(file);
            bytes += size;
            blocks += size.next_multiple_of(BLOCK);
            written += size;
            unsynced += size;
            peak = (blocks.max(peak.0), (live.len() as u64).max(peak.1));
            if unsynced >= self.bytes / PART {
                act(Event::Sync)?;
                unsynced = 0;
            }
        }
        live.sort_unstable_by_key(|file| (file.directory(), file.number));
        Ok(History {
            files: live,
            written,
            peak,
        })
    }
}

struct AgedJob {
    ageing: Ageing,
    block_size: u64,
    backend: &'static dyn Backend,
    cache: CacheState,
    label: Option<String>,
    verify: bool,
    history: History,
}

impl AgedJob {
    fn label(&self) -> String {
        let Ageing {
            bytes, turnover, ..
        } = self.ageing;
        let cache = if self.cache == CacheState::Cold {
            ", cold"
        } else {
            ""
        };
        let age = if turnover == 0.0 {
            "new".to_owned()
        } else {
            format!("turnover {turnover}")
        };
        let ending = label::backend(self.backend) + label::verified(self.verify);
        format!("aged read of {}, {age}{cache}{ending}", label::size(bytes))
    }

    fn bytes(&self) -> u64 {
        self.history.files.iter().map(|file| file.size).sum()
    }

    /// Ages the directory of a set, which is on the device afterwards.
    fn age(&self, set: &Path, data: &mut Data) -> Result<(), EngineError> {
        fileset::make_anew(set)?;
        (0..DIRECTORIES)
            .try_for_each(|number| fileset::make_directory(&set.join(directory(number))))?;
        self.ageing.history(|event| match event {
            Event::Create(file) => {
                fileset::write_file(&set.join(file.path()), file.size, file.address, data)
            }
            Event::Delete(file) => {
                let path = set.join(file.path());
                fs::remove_file(&path).map_err(|error| EngineError::io("delete", &path, &error))
            }
            Event::Sync => fileset::sync(set),
        })?;
        fileset::sync(set)
    }

    /// Calls `act` with each remaining file, open.
    fn each(
        &self,
        set: &Path,
        mut act: impl FnMut(&Path, File) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.history.files.iter().try_for_each(|file| {
            let path = set.join(file.path());
            let open = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
            act(&path, open)
        })
    }

    /// Reads everything once, so that access times change before a cold measurement.
    fn read_once(&self, set: &Path) -> Result<(), EngineError> {
        self.each(set, |path, mut file| {
            let copied = io::copy(&mut file, &mut io::sink());
            copied
                .map(drop)
                .map_err(|error| EngineError::io("read from", path, &error))
        })
    }

    /// Returns the extents of all files, or `None` if the file system does not report them.
    fn extents(&self, set: &Path) -> Result<Option<u64>, EngineError> {
        let mut all = Some(0);
        self.each(set, |path, file| {
            all = match (all, extents(&file)) {
                (Some(all), Ok(more)) => Some(all + u64::from(more)),
                (None, _) | (_, Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS)) => None,
                (_, Err(errno)) => {
                    return Err(EngineError::call("count the extents of", path, errno));
                }
            };
            Ok(())
        })?;
        Ok(all)
    }
}

/// struct fiemap of linux/fiemap.h, without extents.
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

/// `FS_IOC_FIEMAP` of linux/fs.h.
const FIEMAP: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<ExtentMap>(b'f', 11);

/// Returns the number of extents of a file whose data is on the device.
fn extents(file: &File) -> Result<u32, Errno> {
    // With room for none, the kernel counts the extents.
    let mut map = ExtentMap {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        room: 0,
        reserved: 0,
    };
    // SAFETY: the kernel reads and writes a structure of the size in the number of the call, and
    // the pointer is valid.
    match unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut map) } {
        0 => Ok(map.mapped),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

impl Job for AgedJob {
    fn profile(&self) -> Profile {
        let files = self.history.files.len() as u64;
        let (space, most) = self.history.peak;
        let inodes = most + DIRECTORIES + 1;
        let cold = self.cache == CacheState::Cold;
        Profile {
            files,
            file_size: self.bytes() / files,
            record_size: self.block_size,
            backend: self.backend.name().to_owned(),
            cache: self.cache,
            renewal: if cold {
                Renewal::Remount
            } else {
                Renewal::Never
            },
            operations: files,
            repeats_in_place: !cold,
            reaches_device: cold,
            // Deleted space is free only after a commit, and the next sync comes after a part of
            // all bytes.
            space: space + self.ageing.bytes / PART + inodes * fileset::NOTE,
            inodes,
            cold_bytes_per_operation: self.bytes() / files * 9 / 10,
            ..Profile::base(
                OPERATION,
                &THROUGHPUT,
                self.label.clone().unwrap_or_else(|| self.label()),
            )
        }
    }

    fn params(&self) -> Params {
        let Ageing {
            bytes,
            median,
            sigma,
            turnover,
        } = self.ageing;
        let mut params = params::from_pairs([
            ("bytes", bytes.into()),
            ("file_size", median.into()),
            ("sigma", sigma.into()),
            ("turnover", turnover.into()),
            ("block_size", self.block_size.into()),
            ("backend", self.backend.name().into()),
            ("cache", self.cache.name().into()),
        ]);
        if self.verify {
            params.insert("verify".to_owned(), true.into());
        }
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        if context.preparing != Preparing::Settling {
            self.age(
                &set,
                &mut Data::new(context.data(), fileset::CHUNK as usize),
            )?;
        }
        if context.preparing != Preparing::Files && self.cache == CacheState::Cold {
            fileset::wait_for_access_times();
            self.read_once(&set)?;
            fileset::sync(&set)?;
        }
        Ok(())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let backend = context.backend(self.backend);
        let real = backend.capabilities().real;
        let set = context.set();
        let root = backend
            .namespace()
            .open_root(&set)
            .map_err(|errno| EngineError::call("open", &set, errno))?;
        if real && context.evict && self.cache == CacheState::Cold {
            self.each(&set, |path, file| {
                let dropped = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
                dropped.map_err(|errno| EngineError::call("drop from the cache", path, errno))
            })?;
        }
        let threads = AgedThread {
            job: self,
            set: &set,
            root: &root,
            backend,
            context,
        };
        let outcome = threads::run(&threads, context, &profile, Ready::default(), false, gate)?;
        let mut measurement = outcome.measurement(profile.operation);
        let mut count = |name: &str, count| measurement.counts.insert(name.to_owned(), count);
        count("bytes_written_before", self.history.written);
        if real && let Some(extents) = self.extents(&set)? {
            count("extents", extents);
            count("files", self.history.files.len() as u64);
        }
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

struct AgedThread<'s> {
    job: &'s AgedJob,
    set: &'s Path,
    root: &'s Directory,
    backend: &'static dyn Backend,
    context: &'s Context,
}

struct ThreadState {
    session: Box<dyn Session>,
    names: Vec<CString>,
    memory: Memory,
    expected: Option<Data>,
}

impl AgedThread<'_> {
    fn refused(&self, call: &str, file: AgedFile, errno: Errno) -> EngineError {
        EngineError::call(call, self.set.join(file.path()), errno)
    }

    fn read(&self, index: usize, state: &mut ThreadState) -> Result<(), EngineError> {
        let ThreadState {
            session,
            names,
            memory,
            expected,
        } = state;
        let file = self.job.history.files[index];
        let opened = session.open(self.root, &names[index], OpenFlags::READ, file.size);
        let slot = opened.map_err(|errno| self.refused("open", file, errno))?;
        let mut offset = 0;
        while offset < file.size {
            let wanted = self.job.block_size.min(file.size - offset) as usize;
            let piece = &mut memory.as_mut()[..wanted];
            let read = session.read_at(slot, piece, offset, file.size);
            let count = read.map_err(|errno| self.refused("read from", file, errno))?;
            if count == 0 {
                let path = self.set.join(file.path());
                let message = format!("read from {}: it ends at offset {offset}", path.display());
                return Err(EngineError {
                    path: Some(path),
                    ..EngineError::new(message)
                });
            }
            let expected = expected
                .as_mut()
                .map(|data| data.window(file.address + offset, count));
            if let Some(expected) = expected
                && let Some(place) = Data::difference(expected, &piece[..count])
            {
                let path = self.set.join(file.path());
                return Err(EngineError::corrupted(
                    &path,
                    offset + place as u64,
                    expected[place],
                    piece[place],
                ));
            }
            offset += count as u64;
        }
        session
            .close(slot)
            .map_err(|errno| self.refused("close", file, errno))
    }
}

impl ThreadJob for AgedThread<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn init(&self, _rank: u32) -> Result<ThreadState, EngineError> {
        let AgedJob {
            history,
            block_size,
            verify,
            ..
        } = self.job;
        let largest = history
            .files
            .iter()
            .map(|file| file.size)
            .max()
            .unwrap_or(1)
            .min(*block_size) as usize;
        let real = self.backend.capabilities().real;
        Ok(ThreadState {
            session: self.backend.session(&SessionSetup::plain(1))?,
            names: history
                .files
                .iter()
                .map(|file| CString::new(file.path()).expect("no zero byte"))
                .collect(),
            memory: Memory::new(largest),
            expected: (*verify && real).then(|| Data::new(self.context.data(), largest)),
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let files = &self.job.history.files;
        recorder.start();
        for number in 0..self.context.operations {
            let index = (number % files.len() as u64) as usize;
            self.read(index, state)?;
            if !recorder.lap(OperationKind::Read, files[index].size) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _state: ThreadState) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;

    const AGEING: Ageing = Ageing {
        bytes: 8 << 20,
        median: 13 << 10,
        sigma: 2.46,
        turnover: 3.0,
    };

    #[test]
    fn a_history_keeps_its_bytes_and_replaces_them_as_often_as_given() {
        let mut live = BTreeMap::new();
        let (mut bytes, mut most, mut syncs) = (0, 0, 0);
        let history = AGEING.history(|event| -> Result<(), Infallible> {
            match event {
                Event::Create(file) => {
                    bytes += file.size;
                    most = bytes.max(most);
                    assert_eq!(live.insert(file.path(), file), None, "a name is used once");
                }
                Event::Delete(file) => {
                    bytes -= file.size;
                    assert_eq!(live.remove(&file.path()), Some(file));
                }
                Event::Sync => syncs += 1,
            }
            Ok(())
        });
        let Ok(history) = history;
        assert!(
            most <= AGEING.bytes && bytes as f64 > 0.8 * AGEING.bytes as f64,
            "{bytes}, {most}"
        );
        let replaced = history.written as f64 / AGEING.bytes as f64;
        assert!((3.8..4.2).contains(&replaced), "{replaced}");
        assert!(syncs > 40, "{syncs}");
        let mut left: Vec<AgedFile> = live.into_values().collect();
        left.sort_unstable_by_key(|file| (file.directory(), file.number));
        assert_eq!(left, history.files);
        assert!(history.peak.1 >= left.len() as u64 && history.peak.0 >= bytes);
    }

    #[test]
    fn without_turnover_no_file_is_deleted() {
        let new = Ageing {
            turnover: 0.0,
            ..AGEING
        };
        let history = new
            .history(|event| {
                if matches!(event, Event::Delete(_)) {
                    Err(())
                } else {
                    Ok(())
                }
            })
            .unwrap();
        assert!(history.written <= new.bytes);
        assert!(
            history.files.iter().map(|file| file.number).max()
                == Some(history.files.len() as u64 - 1)
        );
    }

    #[test]
    fn sizes_have_the_median_and_the_spread() {
        let ageing = Ageing {
            bytes: 1 << 50,
            ..AGEING
        };
        let mut sizes: Vec<u64> = (0..20_001).map(|number| ageing.size(number)).collect();
        sizes.sort_unstable();
        let quantile = |share: f64| sizes[(share * 20_000.0) as usize] as f64;
        assert!(
            (quantile(0.5) / f64::from(13 << 10) - 1.0).abs() < 0.1,
            "{}",
            quantile(0.5)
        );
        // One standard deviation of the logarithm.
        let deviation = (quantile(0.8413) / quantile(0.5)).ln();
        assert!((deviation - 2.46).abs() < 0.1, "{deviation}");
    }
}
