//! `fsb iozone`: IOzone's own command line, workloads and text, on our engine.
//!
//! `fsb-compat` defines the meaning of the options, the order of operations and the printed text; the engine makes the
//! calls on files. This module joins both: it checks the whole request before anything is changed, prints numbers as
//! they come, and removes the files that the run made, however the run ends.

mod check;
mod latency;
mod pass;
mod phases;
mod remount;
mod repeat;
mod run;
mod session;
mod table;
mod together;

use std::ffi::OsString;

use clap::{ArgAction, Args};
use fsb_compat::iozone::{self, Request, print};

use crate::cli::help::{Page, page};
use crate::results;
use crate::{code, exit};

pub use pass::Passes;

const EXAMPLES: &str = "\
Examples:
  fsb iozone -a -g 64m -f /srv/data/f                 all operations
  fsb iozone -s 1g -r 1m -i 0 -i 1 -e -f /srv/data/f  durable write and read
  fsb iozone -t 4 -s 256m -r 64k -i 0 -F a b c d      four processes
  sudo fsb iozone -I -a -i 0 -i 2 -f /mnt/x/f         without the page cache";

/// Measure a file with IOzone's options, operations and output
///
/// fsb accepts these options of IOzone 3.471 and refuses others. 'fsb iozone -h' describes them. Operations: -a -A -z
/// -i N -+n. Sizes: -n -g -y -q -s -r SIZE. Files: -f FILE -F FILES -w -U MOUNT. Processes: -t -l -u N -T -x -P CPU -C
/// -+p PERCENT. Calls: -B -D -G -H -k N -I -o -+D -e -c -W -j N. Processor cache: -p -S KB -L BYTES. Verification: -V N
/// -+d. Output: -R -b FILE -O -N -M -Q -+u -v.
///
/// Options of fsb: --repeat-until TIME repeats each operation until its times sum to TIME, such as 100ms, where one pass is
/// too short for a rate. --allow-concurrent measures although another fsb measures.
///
/// Files are overwritten and removed as by IOzone. 'fsb compare' reads the output.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true, override_usage = "fsb iozone [OPTIONS]")]
pub struct Arguments {
    /// Options of IOzone or fsb
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let typed = arguments.options.iter().map(|option| option.to_string_lossy());
    let command = ["fsb".into(), "iozone".into()].into_iter().chain(typed).collect::<Vec<_>>().join(" ");
    let program = format!("fsb {}", env!("CARGO_PKG_VERSION"));
    match iozone::parse(arguments.options.iter().cloned(), command)
        .map_err(|error| exit::failure(&code::INVALID_IOZONE, error.to_string()))?
    {
        Request::List => results::print(&print::list()).map(|()| exit::DONE),
        Request::Version => results::print(&print::version(&program)).map(|()| exit::DONE),
        Request::Help => help(),
        Request::Run(options) => {
            let rights = check::check(&options)?;
            run::run(&options, &program, rights)
        }
    }
}

/// Prints the help page for a `--help` that follows other options, which clap takes for an option of IOzone.
fn help() -> anyhow::Result<u8> {
    let command = Arguments::augment_args(clap::Command::new("iozone"));
    results::print(&page(command, Page::Complete).render_help().to_string()).map(|()| exit::DONE)
}
