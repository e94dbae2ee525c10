//! Reading records of a file, or of a set of files.

use fsb_model::Access;

use super::records::RecordWorkload;

/// The member.
pub(super) static READ: RecordWorkload = RecordWorkload {
    name: "read",
    operation: "read",
    about: "read records that were fully written, in sequence or at random, warm or cold; sets are opened file by file",
    access: &[Access::Sequential, Access::Random],
    ..RecordWorkload::BASE
};
