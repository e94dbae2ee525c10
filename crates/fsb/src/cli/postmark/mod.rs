//! `fsb postmark`: PostMark's command language, operations and text, on our engine.
//!
//! `fsb-compat` defines the meaning of the commands, the operations that follow from them, and the printed text; the
//! engine makes the calls on files. This module joins both. It checks a whole file of commands before anything is
//! changed, and each run again right before it starts. It removes the files of a run however the run ends.

mod check;
mod run;
mod script;
mod session;

use std::path::PathBuf;

use clap::Args;

use crate::coordinator::Turn;
pub use run::Runs;
use session::PostmarkSession;

const EXAMPLES: &str = "\
Examples:
  fsb postmark                            commands from standard input
  fsb postmark mail.pm                    commands from a file
  printf 'set location /srv/data\\nrun\\n' | fsb postmark > a.txt
  fsb compare a.txt b.txt                 compare with PostMark";

/// Simulate a mail server with PostMark's commands and report
///
/// Reads PostMark's commands from FILE, or else from .pmrc if it exists, and then from standard input, one per line.
/// Files: set size LOW HIGH, set number N, set subdirectories N, set location [+-]DIR [WEIGHT]. Work: set seed N, set
/// transactions N, set read BYTES, set write BYTES, set buffering true|false, set bias read 0..10, set bias create
/// 0..10. Control: set report verbose|terse, show, run [FILE], load FILE, quit.
///
/// With the same seed, fsb repeats the operations of PostMark 1.53 file by file. It makes files in the locations and
/// removes them when a run ends. It refuses names that exist.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "fsb postmark [OPTIONS] [FILE]")]
pub struct Arguments {
    /// File of commands [default: .pmrc, if it exists]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Compare the data read with the data written; contents differ from PostMark's
    #[arg(long)]
    verify: bool,
    /// Run although another fsb measures; both results are affected
    #[arg(long)]
    allow_concurrent: bool,
}

/// The file that is read first if the command line names none, as PostMark does.
const USUAL_FILE: &str = ".pmrc";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.is_file());
    let file = arguments.file.clone().or_else(usual);
    let script = file.map(|path| script::read(&path)).transpose()?;
    let mut session = PostmarkSession::new(arguments.verify, Turn::of(arguments.allow_concurrent));
    if let Some(script) = &script {
        session.check(script)?;
    }
    session.greet()?;
    let goes_on = script.map_or(Ok(true), |script| session.follow(&script))?;
    if goes_on {
        session.converse()?;
    }
    Ok(session.code())
}
