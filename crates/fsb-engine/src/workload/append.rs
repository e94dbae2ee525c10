//! A log: records are added at the end of a file that starts empty.

use super::records::{Before, RecordAction, RecordWorkload};

/// The member. A log's records are small: the usual record of a stream would be no log.
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
