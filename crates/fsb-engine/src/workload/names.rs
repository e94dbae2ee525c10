//! Makes one call on a name for each file of a set: the common part of stat, rename and delete.

use fsb_model::Durability;

use super::measure::{Subject, measure_set};
use super::spec::Spec;
use crate::EngineError;
use crate::backend::Directory;
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::Layout;
use crate::io_loop::OpenFileSet;
use crate::order::Visits;
use crate::profile::Profile;
use crate::task::{Gate, Measurement};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The call on a file of the set. Its last argument, the number of the pass, is the number of earlier calls on that
/// file.
pub(super) type FileCall<'a> = &'a (dyn Fn(&OpenFileSet, u64, u64) -> Result<(), EngineError> + Sync);

/// Calls `act` for each file against the clock.
pub(super) fn measure(
    spec: &Spec,
    kind: Kind,
    act: FileCall<'_>,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let set = spec.open_set(context)?;
    let threads = NameThreads { spec, kind, act, set: &set, context };
    Ok(measure_set(&threads, &set, Subject::NAMES, profile, context, gate)?.0)
}

struct NameThreads<'a> {
    spec: &'a Spec,
    kind: Kind,
    act: FileCall<'a>,
    set: &'a OpenFileSet,
    context: &'a Context,
}

/// The order of visits, and the directory that is synced after each.
struct ThreadState {
    visits: Visits,
    directory: Option<(u64, Directory)>,
}

impl ThreadJob for NameThreads<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        Ok(ThreadState { visits: self.spec.visits(self.context, rank), directory: None })
    }

    fn run(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let each = self.spec.durability == Durability::Each;
        recorder.start();
        loop {
            let pass = state.visits.pass();
            let Some(file) = state.visits.next() else { break };
            (self.act)(self.set, file, pass)?;
            if each {
                self.sync_directory(state, file)?;
            }
            if !recorder.lap(self.kind, 0) {
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
        let OpenFileSet { backend, root, path, .. } = self.set;
        let synced = recorder.sync(bytes, || backend.namespace().sync_file_system(root));
        synced.map_err(|errno| EngineError::call("syncfs of", path, errno))
    }
}

impl NameThreads<'_> {
    /// Syncs the directory of a file, which makes a changed name durable. The directory stays open until another one is
    /// needed.
    fn sync_directory(&self, state: &mut ThreadState, file: u64) -> Result<(), EngineError> {
        let OpenFileSet { backend, layout, .. } = self.set;
        let number = layout.directory_of(file);
        if state.directory.as_ref().is_none_or(|(open, _)| *open != number) {
            state.directory = Some((number, open_directory(self.set, number)?));
        }
        let Some((_, directory)) = &state.directory else { return Ok(()) };
        backend.namespace().sync_directory(directory).map_err(|errno| refused(self.set, "fsync of", number, errno))
    }
}

/// Opens a directory of the set.
pub(super) fn open_directory(set: &OpenFileSet, number: u64) -> Result<Directory, EngineError> {
    let name = set.names.directory(&set.layout, number);
    let opened = set.backend.namespace().open_directory(&set.root, name.as_c_str());
    opened.map_err(|errno| refused(set, "open", number, errno))
}

/// Builds the error of a failed call on a directory.
#[cold]
pub(super) fn refused(set: &OpenFileSet, call: &str, directory: u64, errno: rustix::io::Errno) -> EngineError {
    EngineError::call(call, set.path.join(Layout::directory_name(directory)), errno)
}
