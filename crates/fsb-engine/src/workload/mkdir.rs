//! Making and removing empty directories.

use fsb_model::CacheState;
use rustix::fs::Mode;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::{Items, Rules};
use super::unit::Change;
use crate::clock::OperationKind;
use crate::fileset::Content;

/// The member that makes directories.
pub(super) static MKDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "mkdir", items: Items::Directories, ..Rules::NAMES },
    about: "make empty directories; where each is durable, with fsync of the parent directory",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())]),
    content: Content::Directories,
    change: Change::Nothing,
    profile: |spec| spec.profile("mkdir", spec.files_label("mkdir")).consuming(),
    measure: |spec, profile, context, gate| {
        let mode = Mode::from_raw_mode(0o755);
        let act = |turn: &mut Turn<'_>| turn.calls().make_directory(turn.root(), turn.path(), mode);
        let call = NameCall::new("make directory", OperationKind::Create, Changes::Directory, &act);
        names::measure(spec, call, profile, context, gate)
    },
};

/// The member that removes directories.
pub(super) static RMDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "rmdir",
        items: Items::Directories,
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::NAMES
    },
    about: "remove empty directories; where each is durable, with fsync of the parent directory",
    content: Content::Subdirectories,
    profile: |spec| spec.profile("rmdir", spec.files_label("rmdir")).consuming(),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| turn.calls().remove_directory(turn.root(), turn.path());
        let call = NameCall::new("remove directory", OperationKind::Delete, Changes::Directory, &act);
        names::measure(spec, call, profile, context, gate)
    },
    ..MKDIR
};
