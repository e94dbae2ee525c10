//! Makes one call on a name for each file of a set: the common part of stat, rename, delete, mkdir
//! and others.

use fsb_model::{CacheState, Durability};
use rustix::io::Errno;

use super::measure::{Subject, measure_set};
use super::missing_call::{self, ProbeCall};
use super::spec::Spec;
use crate::backend::{self, Directory, Flush, Namespace, OpenFlags, Session, SessionSetup};
use crate::clock::OperationKind;
use crate::error::EngineError;
use crate::fileset::Names;
use crate::io_loop::OpenFileSet;
use crate::order::Visits;
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The call on each file of a set.
#[derive(Clone, Copy)]
pub(super) struct NameCall<'a> {
    /// The name in messages: `rename`.
    pub(super) name: &'static str,
    pub(super) kind: OperationKind,
    pub(super) changes: Changes<'a>,
    /// Makes the call. It may neither allocate, lock nor log.
    pub(super) act: FileCall<'a>,
    /// The call that brings into the cache what `act` needs beside names and attributes, if that is
    /// to be warm. It is made once on each file before the clock starts.
    pub(super) warm: Option<FileCall<'a>>,
    /// Returns why an error means that the file system does not support the call, or `None` if it
    /// means a failure.
    pub(super) unsupported: fn(Errno) -> Option<&'static str>,
    /// Makes the call on a new file, which shows whether a FUSE server lacks it. `None` for calls
    /// without which no file set could be made.
    pub(super) probe: Option<ProbeCall>,
}

type FileCall<'a> = &'a (dyn Fn(&mut Turn<'_>) -> Result<(), Errno> + Sync);

impl<'a> NameCall<'a> {
    /// Returns a call that every file system supports and that needs only names and attributes.
    pub(super) fn new(
        name: &'static str,
        kind: OperationKind,
        changes: Changes<'a>,
        act: FileCall<'a>,
    ) -> NameCall<'a> {
        NameCall {
            name,
            kind,
            changes,
            act,
            warm: None,
            unsupported: |_| None,
            probe: None,
        }
    }
}

/// The object that a call changes. It is synced after each call where each is durable.
#[derive(Clone, Copy)]
pub(super) enum Changes<'a> {
    /// Nothing, or the call itself makes its change durable.
    Nothing,
    /// The file itself.
    File,
    /// The directory of the file.
    Directory,
    /// The directory of the file, and the one with the same number under these names.
    Directories(&'a Names),
}

/// One call on one file.
pub(super) struct Turn<'t> {
    pub(super) set: &'t OpenFileSet,
    /// Plain calls on open files, two at once.
    pub(super) session: &'t mut dyn Session,
    pub(super) file: u64,
    /// The number of earlier calls on this file.
    pub(super) pass: u64,
}

impl<'t> Turn<'t> {
    /// Returns the calls on names.
    pub(super) fn calls(&self) -> &'static dyn Namespace {
        self.set.backend.namespace()
    }

    /// Returns the directory that paths begin in.
    pub(super) fn root(&self) -> &'t Directory {
        &self.set.root
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &'t std::ffi::CStr {
        self.set.names.path(self.file)
    }

    /// Syncs the file.
    fn sync(&mut self) -> Result<(), Errno> {
        let slot = self.session.open(
            self.root(),
            self.path(),
            OpenFlags::READ,
            self.set.layout.file_size,
        )?;
        self.session.flush(slot, Flush::All)?;
        self.session.close(slot)
    }
}

/// Makes the call on each file against the clock.
pub(super) fn measure(
    spec: &Spec,
    call: NameCall<'_>,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let set = spec.open_set(context)?;
    let threads = NameThreads {
        spec,
        call,
        set: &set,
        context,
    };
    Ok(measure_set(&threads, &set, Subject::NAMES, profile, context, gate)?.0)
}

struct NameThreads<'a> {
    spec: &'a Spec,
    call: NameCall<'a>,
    set: &'a OpenFileSet,
    context: &'a Context,
}

/// The order of visits, a session, and the directories that are synced after each.
struct ThreadState {
    visits: Visits,
    session: Box<dyn Session>,
    directories: [Option<(u64, Directory)>; 2],
}

impl ThreadJob for NameThreads<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let (visits, mut session) = (self.spec.visits(self.context, rank), self.session()?);
        // The first thread of each client fills its cache.
        let warm = self
            .call
            .warm
            .filter(|_| self.spec.cache == CacheState::Warm && rank < self.set.client_count());
        if let Some(warm) = warm {
            (0..self.set.layout.files)
                .try_for_each(|file| self.act(warm, &mut *session, file, 0))?;
        }
        Ok(ThreadState {
            visits,
            session,
            directories: [None, None],
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let each = self.spec.durability == Durability::Each;
        recorder.start();
        loop {
            let pass = state.visits.pass();
            let Some(file) = state.visits.next() else {
                break;
            };
            self.act(self.call.act, &mut *state.session, file, pass)?;
            if each {
                self.sync(state, file)?;
            }
            if !recorder.lap(self.call.kind, 0) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _state: ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        _state: &mut ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.sync(bytes, || self.set.sync_clients(|| self.set.sync()))
    }
}

impl NameThreads<'_> {
    fn session(&self) -> Result<Box<dyn Session>, EngineError> {
        backend::plain(self.set.backend).session(&SessionSetup::plain(2))
    }

    #[inline]
    fn act(
        &self,
        act: FileCall<'_>,
        session: &mut dyn Session,
        file: u64,
        pass: u64,
    ) -> Result<(), EngineError> {
        act(&mut Turn {
            set: self.set,
            session,
            file,
            pass,
        })
        .map_err(|errno| self.refused(file, errno))
    }

    #[cold]
    fn refused(&self, file: u64, errno: Errno) -> EngineError {
        match (self.call.unsupported)(errno) {
            Some(why) => EngineError {
                inapplicable: true,
                ..EngineError::new(why)
            },
            None => self
                .call
                .probe
                .and_then(|probe| {
                    let call = (self.call.name, probe);
                    missing_call::of_server_after_probe(&self.context.set(), call, errno)
                })
                .unwrap_or_else(|| self.set.refused(self.call.name, file, errno)),
        }
    }

    /// Makes the change of a call durable.
    fn sync(&self, state: &mut ThreadState, file: u64) -> Result<(), EngineError> {
        let [first, second] = &mut state.directories;
        match self.call.changes {
            Changes::Nothing => Ok(()),
            Changes::File => {
                let mut turn = Turn {
                    set: self.set,
                    session: &mut *state.session,
                    file,
                    pass: 0,
                };
                turn.sync()
                    .map_err(|errno| self.set.refused("fsync of", file, errno))
            }
            Changes::Directory => self.sync_directory(&self.set.names, first, file),
            Changes::Directories(others) => {
                self.sync_directory(others, second, file)?;
                self.sync_directory(&self.set.names, first, file)
            }
        }
    }

    /// Syncs the directory of a file, which makes a changed name durable. The directory stays open
    /// until another one is needed.
    fn sync_directory(
        &self,
        names: &Names,
        open: &mut Option<(u64, Directory)>,
        file: u64,
    ) -> Result<(), EngineError> {
        let number = self.set.layout.directory_of(file);
        if open.as_ref().is_none_or(|(open, _)| *open != number) {
            *open = Some((number, open_directory(self.set, names, number)?));
        }
        let Some((_, directory)) = open else {
            return Ok(());
        };
        let synced = self.set.backend.namespace().sync_directory(directory);
        synced.map_err(|errno| refused(self.set, names, "fsync of", number, errno))
    }
}

/// Opens a directory of the set.
pub(super) fn open_directory(
    set: &OpenFileSet,
    names: &Names,
    number: u64,
) -> Result<Directory, EngineError> {
    let name = names.directory(&set.layout, number);
    let opened = set
        .backend
        .namespace()
        .open_directory(&set.root, name.as_c_str());
    opened.map_err(|errno| refused(set, names, "open", number, errno))
}

/// Builds the error of a failed call on a directory.
#[cold]
pub(super) fn refused(
    set: &OpenFileSet,
    names: &Names,
    call: &str,
    directory: u64,
    errno: Errno,
) -> EngineError {
    let name = names.directory(&set.layout, directory);
    EngineError::call(
        call,
        set.path.join(name.as_c_str().to_string_lossy().as_ref()),
        errno,
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::error::EngineError;
    use crate::task::{Measurement, Step, Task};
    use crate::worker::perform;
    use crate::workload::testing::{Open, Pairs, task, with};

    /// Prepares two directories that stand for the views of two clients, and measures after
    /// `before`.
    fn two_clients(
        name: &str,
        pairs: Pairs<'_>,
        roots: [&Path; 2],
        before: impl FnOnce(),
    ) -> Result<Measurement, EngineError> {
        let workload = with(name, pairs);
        let of = |step, root| task(step, &workload, root, 12);
        for root in roots {
            perform(&of(Step::Prepare, root), &mut Open::default())?;
        }
        before();
        let measure = Task {
            client_roots: vec![roots[1].to_owned()],
            ..of(Step::Measure, roots[0])
        };
        perform(&measure, &mut Open::default())
            .map(|report| report.whole().expect("one measurement"))
    }

    #[test]
    fn each_thread_works_through_its_own_client() {
        for (name, durability) in [
            ("delete", "none"),
            ("delete", "each"),
            ("delete", "end"),
            ("mkdir", "none"),
        ] {
            let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let pairs = [
                ("files", 12.into()),
                ("threads", 2.into()),
                ("durability", durability.into()),
            ];
            let measured = two_clients(name, &pairs, [first.path(), second.path()], || {}).unwrap();
            assert_eq!(measured.operations, 12, "{name}");
            let left = |root: &Path| {
                std::fs::read_dir(root.join("fsb-set/d00000"))
                    .unwrap()
                    .count()
            };
            assert_eq!(
                [left(first.path()), left(second.path())],
                [6, 6],
                "{name} {durability}"
            );
        }
    }

    #[test]
    fn each_process_works_through_its_own_client() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let size = |root: &Path, file: u32| {
            let path = root.join(format!("fsb-set/d00000/f{file:08}"));
            std::fs::metadata(path).map_or(0, |file| file.len())
        };
        let pairs = [
            ("file_size", "24K".into()),
            ("block_size", "4K".into()),
            ("processes", 2.into()),
        ];
        two_clients("append", &pairs, [first.path(), second.path()], || {}).unwrap();
        for (root, sizes) in [
            (first.path(), [24 << 10, 0]),
            (second.path(), [0, 24 << 10]),
        ] {
            assert_eq!([size(root, 0), size(root, 1)], sizes);
        }
    }

    #[test]
    fn work_that_would_leave_clients_idle_does_not_apply() {
        for (name, pairs, why) in [
            (
                "stat",
                vec![("files", 12.into())],
                "2 clients need 2 threads or processes",
            ),
            (
                "statfs",
                vec![("files", 12.into()), ("threads", 2.into())],
                "whole paths",
            ),
            (
                "setxattr",
                vec![("files", 12.into()), ("threads", 2.into())],
                "one client alone",
            ),
            ("varmail", vec![("files", 12.into())], "one client alone"),
            (
                "read",
                vec![("backend", "posix-aio".into()), ("threads", 2.into())],
                "share one client",
            ),
            (
                "append",
                vec![("threads", 2.into())],
                "overwrite each other's appends",
            ),
            (
                "write",
                vec![("block_size", "1K".into()), ("threads", 2.into())],
                "whole pages",
            ),
            ("random-mix", vec![("threads", 2.into())], "cache = \"any\""),
        ] {
            let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let error =
                two_clients(name, &pairs, [first.path(), second.path()], || {}).unwrap_err();
            assert!(
                error.inapplicable && error.message.contains(why),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn every_client_fills_its_cache_before_warm_work() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let pairs = [
            ("files", 12.into()),
            ("threads", 2.into()),
            ("access", "sequential".into()),
        ];
        // The second thread reads only the second half of the links.
        let remove =
            || std::fs::remove_file(second.path().join("fsb-set/d00000/f00000000")).unwrap();
        for (cache, fails) in [("any", false), ("warm", true)] {
            let pairs = [&pairs[..], &[("cache", cache.into())]].concat();
            let measured = two_clients("readlink", &pairs, [first.path(), second.path()], remove);
            assert_eq!(measured.is_err(), fails, "{cache}: {measured:?}");
        }
    }
}
