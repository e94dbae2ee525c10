//! Giving every file another name in the same directory, and on the next pass its old name again.

use fsb_model::CacheState;

use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use super::{names, params};
use crate::clock::Kind;
use crate::fileset::{Content, Names};
use crate::io_loop::OpenFileSet;
use crate::profile::{Profile, Renewal};

/// The member.
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
        let act = |set: &OpenFileSet, file: u64, pass: u64| {
            let (first, other) = (set.names.path(file), others.path(file));
            let (from, to) = if pass.is_multiple_of(2) { (first, other) } else { (other, first) };
            let called = set.backend.namespace().rename(&set.root, from, to);
            called.map_err(|errno| set.refused("rename", file, errno))
        };
        names::measure(spec, Kind::Rename, &act, profile, context, gate)
    },
};
