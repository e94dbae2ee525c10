//! Listing directories and asking for the attributes of each entry, as `ls -l`, backups and indexers do.

use fsb_model::{CacheState, Durability};

use super::listing::{self, ListingUnit};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use crate::fileset::Content;

/// The member.
pub(super) static SCAN: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "scan",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "read every directory and ask for the attributes of each entry, as ls -l does",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("file_size", 0.into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("scan", "readdir + stat".to_owned()),
    measure: |spec, profile, context, gate| listing::measure(spec, ListingUnit::Entry, profile, context, gate),
};
