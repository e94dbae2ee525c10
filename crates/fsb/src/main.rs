//! `fsb`: which file system is faster for this work, by how much, and how sure are we?
//!
//! The binary is glue: it reads the command line, connects the crates, prints and exits. Hidden
//! first arguments make the same binary a role of a run, such as a worker (`roles`). They come
//! before everything else here, so that a worker starts in a millisecond.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "emulations", feature = "traces", feature = "vm")),
    allow(
        dead_code,
        reason = "some helpers serve only the parts that this build leaves out"
    )
)]
#![expect(clippy::exit, reason = "hidden roles end the process")]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts show defaults and choices in brackets"
)]

mod all_codes;
mod cli;
#[cfg(feature = "emulations")]
mod emulate;
mod exit;
mod help;
mod message;
mod output;
mod results;
mod roles;
mod run;
mod terminal;
mod wrong_kind;

use std::process::ExitCode;

use fsb_model::{code, failure};

fn main() -> ExitCode {
    fsb_sys::prepare_process();
    fsb_store::owner::read_as_invoking_user();
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = roles::play(&arguments) {
        return code;
    }
    // A reader of results holds millions of values for a short time. Roles that measure keep the
    // default.
    fsb_sys::memory::return_large_blocks();
    let chosen =
        message::choose(&arguments).map_err(|why| failure::error(&code::INVALID_VALUE, why));
    match chosen.and_then(|()| cli::main(&arguments)) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
