//! `fsb compare`: results of other tools and of fsb, from files to the JSON document.

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

/// Returns the names of the sets.
fn names(document: &Value) -> Vec<&str> {
    document["sets"].as_array().expect("sets").iter().filter_map(|set| set["name"].as_str()).collect()
}

/// Returns the number of files of a set.
fn files(document: &Value, set: usize) -> usize {
    document["sets"][set]["files"].as_array().expect("files").len()
}
