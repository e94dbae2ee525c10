//! Removing every file.

use fsb_model::CacheState;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use crate::clock::OperationKind;
use crate::fileset::Content;

/// The member.
pub(super) static DELETE: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "delete", cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm], ..Rules::BASE },
    about: "remove every file; where each is durable, with fsync of its directory",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "end".into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("delete", spec.files_label("delete")).consuming(),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| turn.calls().unlink(turn.root(), turn.path());
        let call = NameCall::new("delete", OperationKind::Delete, Changes::Directory, &act);
        names::measure(spec, call, profile, context, gate)
    },
};
