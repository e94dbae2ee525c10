//! Lists directories, names only. An operation is a directory read to its end: the kernel returns entries in whole
//! buffers, so the time of a single entry cannot be measured.

use fsb_model::{CacheState, Durability};

use super::listing::{self, ListingUnit};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use crate::fileset::Content;
use crate::profile::Profile;

/// The member.
pub(super) static READDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "readdir",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "read every directory to its end, names only; an operation is a directory",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("file_size", 0.into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let layout = &spec.layout;
        let entries = layout.files.min(layout.files_per_directory);
        let profile = spec.profile("readdir", format!("readdir {entries} entries"));
        Profile {
            operations: layout.directories(),
            cold_bytes_per_operation: profile.cold_bytes_per_operation * layout.files / layout.directories(),
            ..profile
        }
    },
    measure: |spec, profile, context, gate| listing::measure(spec, ListingUnit::Directory, profile, context, gate),
};
