//! A skeleton to copy. The tests of the engine compile and run it, so it stays up to date. It is
//! not part of a build.
//!
//! To add a workload:
//!
//! 1. copy this file to `workload/NAME.rs` and add `mod NAME;` and `&NAME::NAME` to
//!    `workload/mod.rs`;
//! 2. declare in the rules which of the shared parameters it takes. A workload with parameters of
//!    its own declares them in [`parameters`](super::Workload::parameters), implements
//!    [`Workload`](super::Workload) and [`Job`](super::Job) itself, and reads them with a
//!    [`Reader`](super::params::Reader), as `filetree/` does. Then run `cargo xtask generate`,
//!    which documents them;
//! 3. do the work. One call a file: pass a closure to [`names::measure`], as here. Records of data:
//!    a constant of `records::RecordWorkload`, as in `read_write.rs`. Anything else: a
//!    [`ThreadJob`](crate::threads::ThreadJob) of its own, as `create.rs`;
//! 4. run the tests: the conformance tests include it by themselves, on every backend.

use fsb_model::{CacheState, Durability};

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::spec::{Change, Rules, SimpleWorkload};
use crate::clock::OperationKind;
use crate::fileset::Content;
use crate::profile::Profile;

/// The member: a constant without state.
pub(super) static SKELETON: SimpleWorkload = SimpleWorkload {
    // The shared parameters that it takes. Values that make no sense for it are left out, so the
    // parser refuses them. The name is used in plans: lower case, one word.
    rules: Rules {
        name: "skeleton",
        files: "100",
        file_size: "0",
        durability: &[Durability::None],
        cache: &[CacheState::Any, CacheState::Warm, CacheState::Cold],
        ..Rules::BASE
    },
    // One line for `fsb list workloads`: what it measures.
    about: "look twice at the name of every file",
    // A tiny job for the conformance tests: milliseconds, and more than one directory.
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("threads", 2.into()),
        ])
    },
    // The content before the clock starts: directories, empty files or full ones.
    content: Content::Full,
    change: Change::Nothing,
    // The spec gives most values; replace those that differ. The label names everything that
    // distinguishes the case.
    profile: |spec| Profile {
        cold_bytes_per_operation: 64,
        ..spec.profile("skeleton", spec.files_label("look at"))
    },
    // Nothing in the inner closure may allocate, lock or log.
    measure: |spec, profile, context, gate| {
        let look = |turn: &mut Turn<'_>| {
            turn.calls().stat(turn.root(), turn.path())?;
            turn.calls().stat(turn.root(), turn.path())
        };
        let call = NameCall::new("look at", OperationKind::Stat, Changes::Nothing, &look);
        names::measure(spec, call, profile, context, gate)
    },
};
