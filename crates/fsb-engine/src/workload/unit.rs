//! Units: the fixed pieces of a workload's work that samples consist of.
//!
//! The workload alone defines a unit: it is the same for every target and every budget, and begins in a state that the
//! workload defines. Some work uses this state up: new files grow, files are deleted, cold data become warm. Then each
//! unit has its own files in its own directory, so that no unit finds the changes of another one. Otherwise (warm
//! reads, writes over written files) all units share one set.

use fsb_model::{CacheState, Durability, Params};

use super::job::{Job, Unit};
use super::spec::Spec;
use crate::fileset::Layout;
use crate::profile::{Profile, Renewal};

/// A unit with its own files has as many whole directories as are necessary for this number of files.
const FILES: u64 = 500;
/// If the workload's directories are larger, a unit has one directory with this number of files.
const LARGEST_DIRECTORY: u64 = 1000;
/// Fewer names may fit into the memory that a mounted file system holds beside its own tables.
const HELD_NAMES: u64 = 500;
/// Bytes of a unit's own file.
const FILE_BYTES: u64 = 16 << 20;
/// Operations of a unit that waits for the device after each of them.
const WAITED_FOR: u64 = 128;
/// The most bytes that a unit moves through the page cache.
const CACHED_BYTES: u64 = 256 << 20;

/// The change that a unit makes to the files of its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None, except for that of the job's [`Renewal`].
    Nothing,
    /// It replaces their contents or attributes.
    Overwritten,
    /// It makes them grow.
    Grown,
    /// It gives each another name; the next pass restores the name.
    Renamed,
}

/// Returns the unit of a job over a file set; `parse` makes a job of other parameters. Returns `None` if the workload
/// is unsplittable: files that do not fit memory, work of several processes, a case of a matrix.
pub(super) fn of_set<J: Job>(
    job: &J,
    spec: &Spec,
    change: Change,
    parse: impl FnOnce(&Params) -> Option<J>,
) -> Option<Unit> {
    let profile = job.profile();
    if spec.cache == CacheState::Out || spec.processes > 1 || spec.matrix {
        return None;
    }
    let mut params = job.params();
    let there_and_back = change == Change::Renamed && comes_back(&profile, spec);
    let own_files = change == Change::Grown
        || profile.cache.begins_cold()
        || profile.renewal == Renewal::Recreate && !there_and_back
        || !profile.repeats_in_place;
    // A mounted file system holds some memory beside its own tables, with the first inodes in it: some 100 KB for ext2
    // and ext4. With a few names, nothing would be read after the first round.
    let held = profile.metadata_only && spec.layout.files < HELD_NAMES;
    let only_warmed = own_files && change == Change::Nothing && profile.renewal == Renewal::Remount && !held;
    // If a pass ends with other work, a unit is a whole pass, so the pass must be small.
    let passes = profile.renewal == Renewal::Inside || profile.durability == Durability::End;
    let profile = if own_files || passes || there_and_back {
        smaller(&mut params, spec);
        parse(&params)?.profile()
    } else {
        profile
    };
    let operations = if there_and_back { 2 * profile.operations } else { operations(&profile, passes) };
    Some(Unit { operations, params, own_files, only_warmed })
}

/// Returns whether two passes over a unit restore the names of all its files: each thread does the same number of whole
/// passes over its share of them.
fn comes_back(profile: &Profile, spec: &Spec) -> bool {
    let shared = unit_files(spec).is_multiple_of(u64::from(spec.threads));
    shared && profile.repeats_in_place && profile.durability != Durability::Each
}

/// Reduces the number of files, or the size of a single one. Directories stay as large as the workload's, because the
/// size determines the form in which a file system stores a directory. Between two forms it may cost several times as
/// much: xfs forces its log at each block that a directory of 500 files releases and takes again while all are renamed.
fn smaller(params: &mut Params, spec: &Spec) {
    let layout = &spec.layout;
    if layout.files > 1 {
        params.insert("files".to_owned(), unit_files(spec).into());
    } else if layout.file_size > 0 {
        let record = spec.block_size.max(1);
        // Threads share the records of the file.
        let least = record * u64::from(spec.threads);
        let bytes = (FILE_BYTES / record * record).max(least).min(layout.file_size);
        params.insert("file_size".to_owned(), bytes.into());
    }
}

fn unit_files(spec: &Spec) -> u64 {
    let Layout { files, files_per_directory, .. } = spec.layout;
    // If each thread has a directory of its own, it has one in a unit, too.
    if files == files_per_directory.saturating_mul(spec.threads.into()) && files_per_directory <= LARGEST_DIRECTORY {
        return files;
    }
    let directory = files_per_directory.min(LARGEST_DIRECTORY);
    let whole = FILES.div_ceil(directory) * directory;
    whole.max(u64::from(spec.threads)).min(spec.layout.files)
}

fn operations(profile: &Profile, passes: bool) -> u64 {
    let pass = profile.operations.max(1);
    if passes || !profile.divisible {
        return pass;
    }
    let most = match profile.record_size {
        _ if profile.durability == Durability::Each => WAITED_FOR * u64::from(profile.threads),
        0 => return pass,
        record if profile.reaches_device => (FILE_BYTES / record).min(4 * WAITED_FOR * u64::from(profile.threads)),
        record => CACHED_BYTES / record,
    };
    pass.min(most.max(1))
}
