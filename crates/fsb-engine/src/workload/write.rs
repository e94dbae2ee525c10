//! Writing records into new files, or over what fully written files hold.
//!
//! The two are different work: new data needs space found for it, old data is replaced where it lies. Random writes are
//! always of the second kind, or they would measure how holes are filled.

use fsb_model::Access;

use super::records::{Before, RecordAction, RecordWorkload};

/// The member.
pub(super) static WRITE: RecordWorkload = RecordWorkload {
    name: "write",
    operation: "write",
    about: "write records: into new files, or at random (or with overwrite) over fully written ones",
    action: RecordAction::Write,
    before: Before::Asked,
    access: &[Access::Sequential, Access::Random],
    ..RecordWorkload::BASE
};
