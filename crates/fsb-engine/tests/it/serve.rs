//! The protocol: one task, `ready`, `go`, one result.

use std::io::Cursor;

use fsb_engine::worker::{Message, serve};
use fsb_engine::{Step, StepReport};
use serde_json::json;

use crate::task;

/// What a worker says to this input.
fn answers(input: &str) -> Vec<Message> {
    let mut output = Vec::new();
    serve(Cursor::new(input.to_owned()), &mut output).expect("served");
    let text = String::from_utf8(output).expect("text");
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
}

#[test]
fn a_measure_step_is_ready_waits_and_answers() {
    let root = tempfile::tempdir().expect("a directory");
    let workload = json!({"name": "read", "file_size": "64K", "block_size": "4K"});
    let line = |step| serde_json::to_string(&task(step, root.path(), 16, &workload)).expect("JSON");
    let prepared = answers(&format!("{}\n", line(Step::Prepare)));
    assert_eq!(prepared, [Message::Result(StepReport::Done)]);
    match &answers(&format!("{}\ngo\n", line(Step::Measure)))[..] {
        [Message::Ready(ready), Message::Result(StepReport::Measured(measured))] => {
            assert_eq!((ready.file_bytes, ready.resident_bytes), (65_536, Some(65_536)));
            assert_eq!((measured.operations, measured.bytes), (16, 65_536));
        }
        other => panic!("{other:?}"),
    }
    match &answers(&format!("{}\n", line(Step::Measure)))[..] {
        [Message::Ready(_), Message::Error(error)] => assert!(error.message.contains("hung up"), "{error}"),
        other => panic!("{other:?}"),
    }
    match &answers("{\"step\":\"fly\"}\n")[..] {
        [Message::Error(error)] => assert!(error.message.starts_with("the request is no task"), "{error}"),
        other => panic!("{other:?}"),
    }
}
