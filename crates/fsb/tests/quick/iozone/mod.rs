//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

mod behaviour;
mod modes;
mod refusals;
mod text;
mod verification;

use crate::common::iozone::*;
