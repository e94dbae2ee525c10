//! `fsb compare`: results of other tools and of fsb, from files to the JSON document.

mod classic;

use crate::common::compare::*;
