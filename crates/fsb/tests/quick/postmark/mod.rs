//! `fsb postmark`: the calls, the text and the behaviour of PostMark.

mod behaviour;
mod plans;
mod text;

use crate::common::postmark::*;
