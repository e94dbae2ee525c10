//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

mod behaviour;
mod calls;
mod refusals;
mod text;
mod trace;
use std::path::{Path, PathBuf};

use crate::common::iozone::*;

/// Returns the path of real traces and outputs.
fn testdata(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).join(path)
}
