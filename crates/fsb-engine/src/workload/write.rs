//! Writes records into new files, or over fully written files.
//!
//! The two are different work: the file system has to find space for new data, but replaces old data in place. Random
//! writes are always of the second kind, or they would measure how holes are filled.

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
