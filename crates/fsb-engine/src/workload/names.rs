//! One call on a name, for each file of a set: what stat, rename and delete have in common.

use fsb_model::Durability;

use super::conduct::{Subject, conduct};
use super::spec::Spec;
use crate::EngineError;
use crate::backend::Handle;
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::Layout;
use crate::lane::Lane;
use crate::order::Visits;
use crate::profile::Profile;
use crate::pump::Stage;
use crate::task::{Gate, Measurement};
use crate::team::Crew;

/// What is done to a file; the number of the pass tells how often it was done before.
pub(super) type Act<'a> = &'a (dyn Fn(&Stage, u64, u64) -> Result<(), EngineError> + Sync);

/// Calls `act` for each file against the clock.
pub(super) fn measure(
    spec: &Spec,
    kind: Kind,
    act: Act<'_>,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let stage = spec.stage(context)?;
    let crew = Callers { spec, kind, act, stage: &stage, context };
    Ok(conduct(&crew, &stage, Subject::NAMES, profile, context, gate)?.0)
}

struct Callers<'a> {
    spec: &'a Spec,
    kind: Kind,
    act: Act<'a>,
    stage: &'a Stage,
    context: &'a Context,
}

/// The order of visits, and the directory that is synced after each.
struct Kit {
    visits: Visits,
    directory: Option<(u64, Handle)>,
}

impl Crew for Callers<'_> {
    type Kit = Kit;
    type Report = ();

    fn equip(&self, rank: u32) -> Result<Kit, EngineError> {
        Ok(Kit { visits: self.spec.visits(self.context, rank), directory: None })
    }

    fn work(&self, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let each = self.spec.durability == Durability::Each;
        lane.start();
        loop {
            let pass = kit.visits.pass();
            let Some(file) = kit.visits.next() else { break };
            (self.act)(self.stage, file, pass)?;
            if each {
                self.sync_directory(kit, file)?;
            }
            if !lane.lap(self.kind, 0) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _kit: Kit) {}

    fn closes(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn close(&self, _kit: &mut Kit, bytes: u64, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let Stage { backend, root, set, .. } = self.stage;
        backend.tree().sync_file_system(root).map_err(|errno| EngineError::call("syncfs of", set, errno))?;
        lane.tick(Kind::Sync, bytes);
        Ok(())
    }
}

impl Callers<'_> {
    /// A changed name is durable when its directory is. The directory stays open until another one is needed.
    fn sync_directory(&self, kit: &mut Kit, file: u64) -> Result<(), EngineError> {
        let Stage { backend, layout, .. } = self.stage;
        let number = layout.directory_of(file);
        if kit.directory.as_ref().is_none_or(|(open, _)| *open != number) {
            kit.directory = Some((number, open_directory(self.stage, number)?));
        }
        let Some((_, directory)) = &kit.directory else { return Ok(()) };
        backend.tree().sync_directory(directory).map_err(|errno| refused(self.stage, "fsync of", number, errno))
    }
}

/// Opens a directory of the set.
pub(super) fn open_directory(stage: &Stage, number: u64) -> Result<Handle, EngineError> {
    let name = stage.names.directory(&stage.layout, number);
    let opened = stage.backend.tree().open_directory(&stage.root, name.as_c_str());
    opened.map_err(|errno| refused(stage, "open", number, errno))
}

/// A call on a directory was refused.
#[cold]
pub(super) fn refused(stage: &Stage, call: &str, directory: u64, errno: rustix::io::Errno) -> EngineError {
    EngineError::call(call, stage.set.join(Layout::directory_name(directory)), errno)
}
