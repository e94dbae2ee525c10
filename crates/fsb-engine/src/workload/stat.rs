//! Asking for the attributes of every file, by name.

use fsb_model::{CacheState, Durability};

use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use super::{names, params};
use crate::clock::Kind;
use crate::fileset::Content;
use crate::io_loop::OpenFileSet;

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
        let act = |set: &OpenFileSet, file: u64, _pass: u64| {
            let called = set.backend.namespace().stat(&set.root, set.names.path(file));
            called.map_err(|errno| set.refused("stat", file, errno))
        };
        names::measure(spec, Kind::Stat, &act, profile, context, gate)
    },
};
