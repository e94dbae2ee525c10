//! `fsb compare`: other tools' results and ours, from files to the contract.

mod bad_input;
mod between;
mod classic;
mod contract;
mod output;
mod runs;
mod sets;
use std::path::Path;

use serde_json::Value;

use crate::common::compare::*;
use crate::common::{fails, text_of};

/// Runs a comparison that must fail with this error code. Returns the message with its causes, for a snapshot.
fn refused(directory: &Path, arguments: &[&str], code: &str) -> String {
    text_of(&fails(directory, &[&["compare"], arguments].concat(), 2, code))
}

/// The names of the sets.
fn names(document: &Value) -> Vec<&str> {
    document["sets"].as_array().expect("sets").iter().filter_map(|set| set["name"].as_str()).collect()
}

/// How many runs a set has: values of its first operation in its first cell.
fn files(document: &Value, set: usize) -> usize {
    document["sets"][set]["files"].as_array().expect("files").len()
}
