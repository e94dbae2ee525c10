//! `fsb compare`: other tools' results and ours, from files to the contract.

mod classic;

use crate::common::compare::*;
