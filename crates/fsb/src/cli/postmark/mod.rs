//! `fsb postmark`: PostMark's command language, operations and text, on our engine.
//!
//! What the commands mean, which operations follow from them and what is printed is data and text of `fsb-compat`; the
//! calls on files are those of the engine. Here both are joined: a file of commands is checked whole before anything is
//! touched, and each run once more when its turn comes; whatever ends a run, the files that it made go.

mod check;
mod run;
mod script;
mod session;

use std::path::PathBuf;

use clap::Args;

use crate::cli::COMPACT_HELP;
use crate::front::Turn;
pub use run::Runs;
use session::Session;

const MORE: &str = "\
Commands are PostMark's, one a line: set size LOW HIGH | number N | seed N
  | transactions N | subdirectories N | location [+-]DIR [WEIGHT] | read BYTES
  | write BYTES | buffering true|false | bias read 0..10 | bias create 0..10
  | report verbose|terse; show; run [FILE]; load FILE; quit.
They come from FILE (else from .pmrc, if there is one), then standard input.
The same seed does what PostMark 1.53 does, file by file.
Files lie in the locations and go when a run ends; taken names are refused.
Examples:
  fsb postmark                            commands as you type them
  fsb postmark mail.pm                    commands from a file
  printf 'set location /srv/data\\nrun\\n' | fsb postmark > a.txt
  fsb compare a.txt b.txt                 reports, ours and PostMark's";

/// Simulate a mail server as PostMark does, with its commands and its report
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP, override_usage = "fsb postmark [OPTIONS] [FILE]")]
pub struct Arguments {
    /// A file of commands
    #[arg(value_name = "FILE", hide = true)]
    file: Option<PathBuf>,
    /// Compare what is read with what was written (other bytes than PostMark's)
    #[arg(long)]
    verify: bool,
    /// Run although another fsb measures: both are disturbed
    #[arg(long)]
    allow_concurrent: bool,
}

/// Read first where no file is named, as PostMark does.
const USUAL_FILE: &str = ".pmrc";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.is_file());
    let file = arguments.file.clone().or_else(usual);
    let script = file.map(|path| script::read(&path)).transpose()?;
    let mut session = Session::new(arguments.verify, Turn::of(arguments.allow_concurrent));
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
