//! `fsb filebench`: filebench's workload files, on our engine, with its text.
//!
//! `fsb-compat` defines the meaning of a file and the printed text; the work is a flow of the engine. A worker performs
//! it in a directory of its own below the one that the file names. The whole file is checked before anything is
//! changed. That directory is removed however a run ends, because the undo ledger lists it.

mod check;
mod measure;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use fsb_compat::filebench::wml::{self, Reading, Script};
use fsb_store::input::LARGEST_SCRIPT;

use crate::coordinator::Turn;
use crate::stderr::say;
use crate::{code, exit};

const EXAMPLES: &str = "\
Examples:
  fsb filebench varmail.f                              as written in the file
  fsb filebench --dir /srv/data --seconds 10 oltp.f    elsewhere, and shorter
  fsb filebench --set nfiles=500 fileserver.f > a.txt  with another variable
  fsb compare a.txt b.txt                              compare with filebench";

/// Run a filebench workload file and print filebench's results
///
/// Reads the workload language of filebench 1.4 and 1.5: set, eventgen, echo, run, psrun, cvar, randvar, define
/// fileset|file|process|flowop. Unsupported statements are reported with their lines. fsb draws sizes and files with its
/// own generator; waits and limits are filebench's.
///
/// fsb makes the files in a new directory in $dir and removes it at the end. After a kill, the next fsb or 'fsb clean'
/// removes it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Workload file
    #[arg(value_name = "FILE.f")]
    file: PathBuf,
    /// Directory for files [default: $dir of FILE.f]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Length of each run in seconds [default: that of FILE.f]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    seconds: Option<u64>,
    /// Set a variable, such as nfiles=500; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Compare the data read with the data written
    #[arg(long)]
    verify: bool,
    /// Seed of sizes, choices and contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Run although another fsb measures; both results are affected
    #[arg(long)]
    allow_concurrent: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let script = script(arguments)?;
    let turn = Turn::of(arguments.allow_concurrent);
    let request = measure::Choices { verify: arguments.verify, seed: arguments.seed, quiet: arguments.quiet, turn };
    for run in &script.runs {
        check::check(run, &request)?;
    }
    let file = arguments.file.display();
    script.notes.iter().for_each(|note| say(&format!("{file}:{note}", note = place(note))));
    measure::all(&script, &request)
}

/// The file as it will be run.
fn script(arguments: &Arguments) -> anyhow::Result<Script> {
    let file = arguments.file.display();
    let text = read(&arguments.file)?;
    let values = arguments.set.iter().map(|text| assignment(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let stem = arguments.file.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let reading = Reading { name: name.trim(), implied: arguments.seconds, values: &values };
    let mut script = wml::read(&text, &reading).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(|problem| format!("{file}:{}", place(problem))).collect();
        exit::failure(&code::INVALID_FILEBENCH, format!("fsb cannot run this workload:\n{}", lines.join("\n")))
    })?;
    for run in &mut script.runs {
        run.seconds = arguments.seconds.unwrap_or(run.seconds);
        if let Some(directory) = &arguments.dir {
            run.directory.clone_from(directory);
        }
    }
    Ok(script)
}

/// Returns `12: message`, as compilers print it.
fn place(remark: &wml::Remark) -> String {
    format!("{}: {}", remark.line, remark.message)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fsb_store::input::read_text(path, LARGEST_SCRIPT).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::IsADirectory => "it is not a file; name one such as varmail.f".to_owned(),
            _ => error.to_string(),
        };
        let message = format!("cannot read {}: {why}", path.display());
        let suite = path.to_str().map(|name| name.trim_end_matches(".f"));
        match suite.filter(|name| fsb_runner::suite::REGISTRY.iter().any(|suite| suite.name == *name)) {
            Some(suite) => exit::advised(
                &code::UNREADABLE,
                message,
                format!("name a file, or measure that work with fsb run ext4 --suite {suite}"),
            ),
            None => exit::failure(&code::UNREADABLE, message),
        }
    })
}

/// `nfiles=500`, or `$nfiles=500` as the file has it.
fn assignment(text: &str) -> anyhow::Result<(String, String)> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim().trim_start_matches('$'), value.trim()));
    match pair {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(exit::failure(&code::INVALID_VALUE, format!("--set {text}: write NAME=VALUE, such as nfiles=500"))),
    }
}
