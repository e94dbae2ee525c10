//! A log: records are added at the end of a file that starts empty.

use super::records::{Before, RecordAction, RecordWorkload};

/// The member. Records of a log are small: the default record of a stream is too large for one.
pub(super) static APPEND: RecordWorkload = RecordWorkload {
    name: "append",
    operation: "append",
    about: "add records to the end of a log that starts empty and grows to file_size",
    action: RecordAction::Append,
    before: Before::New,
    file_size: "min(size/64, 64M)",
    block_size: Some("4K"),
    ..RecordWorkload::BASE
};
