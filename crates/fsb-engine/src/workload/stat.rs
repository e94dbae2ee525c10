//! Asking for the attributes of every file, by name.

use fsb_model::{CacheState, Durability};

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use crate::clock::OperationKind;
use crate::fileset::Content;

/// The member.
pub(super) static STAT: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "stat",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "ask for the attributes of every file by its name",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("access", "random".into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("stat", spec.files_label("stat")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| turn.calls().stat(turn.root(), turn.path());
        let call = NameCall::new("stat", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(spec, call, profile, context, gate)
    },
};
