//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

mod concurrent;
mod held;
mod refusals;
mod services;
use std::fs;
use std::path::Path;

use crate::common::controls::*;
use crate::common::*;
