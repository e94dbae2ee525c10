//! Giving every file another name in the same directory or in another one, and on the next pass its old name again.

use fsb_model::CacheState;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::{NAMES_BACKENDS, Rules, Spec};
use super::unit::Change;
use crate::EngineError;
use crate::clock::OperationKind;
use crate::context::Context;
use crate::fileset::{self, Content, Names};
use crate::profile::{Profile, Renewal};
use crate::task::{Gate, Measurement};

/// The member that renames within a directory.
pub(super) static RENAME: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "rename", cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm], ..Rules::BASE },
    about: "give every file another name in its directory; where each is durable, with fsync of the directory",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())]),
    content: Content::Full,
    change: Change::Renamed,
    profile: |spec| {
        let profile = spec.profile("rename", spec.files_label("rename"));
        // The next repetition must find the first names, for any number of operations.
        Profile { renewal: Renewal::Recreate, ..profile }
    },
    measure: |spec, profile, context, gate| {
        let others = Names::other(&spec.layout);
        measure(spec, ("rename", Changes::Directory, &others), profile, context, gate)
    },
};

/// The member that renames across directories.
pub(super) static MOVE: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "move", backends: NAMES_BACKENDS, ..RENAME.rules },
    about: "move every file to another directory, which only files of its own directory enter; where each is durable, \
            with fsync of both",
    content: Content::Movable,
    profile: |spec| {
        let profile = spec.profile("move", spec.files_label("move"));
        let directories = spec.layout.directories();
        let (inodes, space) = (profile.inodes + directories, profile.space + directories * fileset::NOTE);
        Profile { renewal: Renewal::Recreate, inodes, space, ..profile }
    },
    measure: |spec, profile, context, gate| {
        let others = Names::moved(&spec.layout);
        measure(spec, ("move", Changes::Directories(&others), &others), profile, context, gate)
    },
    ..RENAME
};

/// Renames each file to its other name, and on the next pass back.
fn measure(
    spec: &Spec,
    (name, changes, others): (&'static str, Changes<'_>, &Names),
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let act = |turn: &mut Turn<'_>| {
        let (first, other) = (turn.path(), others.path(turn.file));
        let (from, to) = if turn.pass.is_multiple_of(2) { (first, other) } else { (other, first) };
        turn.calls().rename(turn.root(), from, to)
    };
    names::measure(spec, NameCall::new(name, OperationKind::Rename, changes, &act), profile, context, gate)
}
