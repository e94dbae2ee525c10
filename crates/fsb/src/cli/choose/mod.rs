//! `fsb choose`: which of many is the fastest for this work.

mod candidates;
mod effects;

use std::path::PathBuf;

use clap::Args;
use fsb_codes::notice;
use fsb_model::race::Refused;
use fsb_model::{Bytes, Identity, Race};
use fsb_report::show::entry;
use fsb_runner::plan_file::{PlanFile, RepetitionFile, Resolved, typed};

use self::candidates::Raced;
use super::help::heading;
use super::plan_text::workloads;
use super::run::{CommandArguments, check_units, check_words, note_on_repeats};
use crate::coordinator::{self, Turn};
use crate::progress::Verbosity;
use crate::results::{self, Output, print};
use crate::stderr::{notify, say};
use crate::{code, columns, exit};

const EXAMPLES: &str = "\
Examples:
  sudo fsb choose ext4 -- git clone -q /srv/linux .  best options for a command
  sudo fsb choose --suite varmail --budget 30m       all file systems
  fsb choose ext4 xfs --list --risky                 list the candidates";

/// Find the fastest of many file systems and their options
///
/// The candidates race with a command or a suite. FS means the file system with its defaults and with each of a curated
/// list of options; a TARGET with options is one candidate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "fsb choose [OPTIONS] [FS | TARGET]… [-- COMMAND…]")]
pub struct Arguments {
    /// File system or target to race [default: all file systems]
    #[arg(value_name = "TARGET", hide_short_help = true)]
    targets: Vec<String>,
    /// Include dangerous options, such as barriers off
    #[arg(long, help_heading = heading::TARGETS)]
    risky: bool,
    /// Race exactly the targets that are named, without the list of options
    #[arg(long, requires = "targets", conflicts_with = "effects", help_heading = heading::TARGETS)]
    only: bool,
    /// First measure each option of one file system
    #[arg(long, help_heading = heading::TARGETS)]
    effects: bool,
    /// List the candidates and the reasons, and exit
    #[arg(long, help_heading = heading::TARGETS)]
    list: bool,
    /// Let each mkfs program choose block size, inodes and journal by the size of its slice
    #[arg(long, hide_short_help = true, help_heading = heading::TARGETS)]
    mkfs_defaults: bool,
    /// Suite to run; see 'fsb list suites' [default: quick]
    #[arg(long, value_name = "NAME", help_heading = heading::WORKLOAD)]
    suite: Option<String>,
    /// Workload to run, KIND[,PARAM=VALUE…]; see 'fsb list workloads'; repeatable
    #[arg(long = "workload", value_name = "KIND", hide_short_help = true, help_heading = heading::WORKLOAD, conflicts_with = "suite")]
    workloads: Vec<String>,
    /// Seed of orders and data [default: random, recorded]
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = heading::WORKLOAD,
        value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Time limit, report included
    #[arg(long, value_name = "TIME", default_value = "10m", help_heading = heading::TIME)]
    budget: String,
    /// Smallest difference that matters [default: 3%]
    #[arg(long, value_name = "P", help_heading = heading::TIME)]
    theta: Option<String>,
    /// Directory of the image [default: .]
    #[arg(long, value_name = "DIR", help_heading = heading::MEDIUM)]
    dir: Option<PathBuf>,
    /// Image size, a quarter for each target [default: 4G]
    #[arg(long, value_name = "SIZE", help_heading = heading::MEDIUM)]
    size: Option<Bytes>,
    /// Overwrite the contents of this block device; repeatable
    #[arg(long, value_name = "DEVICE", hide_short_help = true, help_heading = heading::MEDIUM)]
    wipe: Vec<PathBuf>,
    /// User that workers run as [default: the invoking user, or user nobody]
    #[arg(long, value_name = "ID", hide_short_help = true, help_heading = heading::MACHINE)]
    uid: Option<u32>,
    /// Group that workers run as [default: that of the invoking user, or nogroup]
    #[arg(long, value_name = "ID", hide_short_help = true, help_heading = heading::MACHINE)]
    gid: Option<u32>,
    /// Run workers as root
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE)]
    force_root_user: bool,
    /// Measure although another fsb measures; both results are marked
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE)]
    allow_concurrent: bool,
    /// Run directory [default: fsb-results/TIME-choose]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    command: CommandArguments,
}

/// Targets of a race round, the baseline included.
const PLACES: u32 = 4;
/// The probability with which the answer may be wrong.
const ERROR: f64 = 0.05;
/// Size of the image.
const SIZE: Bytes = Bytes(4 << 30);

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    check_output(&arguments.output)?;
    check_words(&arguments.targets, Some(&arguments.budget))?;
    check_units(Some(&arguments.budget), arguments.size, None)?;
    let (raced, refused) = candidates::all(&arguments.targets, arguments.risky, arguments.only)?;
    if arguments.list {
        return list(&raced, &refused, arguments.risky);
    }
    let mut workloads = workloads(&arguments.workloads)?;
    let is_noted = arguments.command.repeats() && !arguments.verbosity.quiet;
    let command = arguments.command.workload(None, true)?;
    if command.is_some() && (arguments.suite.is_some() || !workloads.is_empty()) {
        let message = "a command excludes --suite and --workload: give one of them";
        return Err(exit::failure(&code::CONFLICT, message));
    }
    workloads.extend(command);
    if is_noted {
        note_on_repeats();
    }
    let (raced, first_stage, factors) = match arguments.effects {
        true => effects::design(raced, PLACES as usize)?,
        false => (raced, Vec::new(), Vec::new()),
    };
    if let (true, Some(refused)) = (raced.len() < 2, refused.first()) {
        return Err(exit::failure(&code::NOT_RACED, format!("{} is not raced: {}", refused.name, refused.why)));
    }
    for refused in &refused {
        let fields = [("target", refused.name.as_str().into()), ("reason", refused.why.as_str().into())];
        notify(&notice::NOT_RACED, fields, &format!("note: {} is not raced: {}", refused.name, refused.why));
    }
    if raced.len() < 2 {
        return Err(exit::failure(
            &code::NOT_RACED,
            format!(
                "{} is the only candidate: name another target, or a file system that has options to choose from ('fsb choose --list')",
                raced[0].target.name
            ),
        ));
    }
    say(&announcement(raced.len(), arguments.targets.len(), arguments.only, &arguments.budget));
    let race = Race {
        places: PLACES,
        error: ERROR,
        candidates: raced.iter().map(|raced| raced.beside.clone()).collect(),
        refused,
        first_stage,
        factors,
    };
    let plan = PlanFile {
        targets: raced.iter().map(|raced| typed(&raced.target.to_string())).collect(),
        workloads,
        suite: arguments.suite,
        seed: arguments.seed,
        size: Some(arguments.size.unwrap_or(SIZE)),
        dir: arguments.dir,
        theta: arguments.theta.as_deref().map(typed),
        wipe: arguments.wipe,
        identity: Identity { uid: arguments.uid, gid: arguments.gid, force_root: arguments.force_root_user },
        repetition: RepetitionFile { budget: Some(arguments.budget), ..RepetitionFile::default() },
        race: Some(race),
        risky: arguments.risky,
        mkfs_defaults: arguments.mkfs_defaults,
        ..PlanFile::default()
    };
    let resolved: Resolved = plan.resolve(coordinator::cpus(), coordinator::fresh_seed())?;
    let out = arguments.out.unwrap_or_else(|| results::default_directory("choose"));
    coordinator::choose::choose(
        resolved,
        &out,
        &arguments.output,
        arguments.verbosity,
        Turn::of(arguments.allow_concurrent),
    )
}

/// The number of candidates and how to change it, before anything is made.
fn announcement(raced: usize, named: usize, only: bool, budget: &str) -> String {
    let fewer = match named {
        2.. if named < raced => format!("; --only races the {named} that you named, and --list shows all"),
        _ if only => String::new(),
        _ => "; --list shows them".to_owned(),
    };
    let places = raced.min(PLACES as usize);
    format!("{raced} candidates race in rounds of {places} targets, for at most {budget}{fewer}")
}

/// Refuses an output format that a choice cannot be printed in, before an hour of measuring.
fn check_output(output: &Output) -> anyhow::Result<()> {
    output.resolve()?;
    output.of_choice().map(drop)
}

/// Reasons begin in one column, beside names that are no wider.
const WIDEST: usize = 32;

fn list(raced: &[Raced], refused: &[Refused], risky: bool) -> anyhow::Result<u8> {
    let width = columns::of(std::io::stdout());
    let mut text = String::new();
    let widest = raced.iter().map(|raced| raced.target.name.chars().count()).max().unwrap_or_default().min(WIDEST);
    for Raced { target, beside, .. } in raced {
        let risk = beside.risk.as_ref().map(|risk| format!("; RISK: {risk}")).unwrap_or_default();
        text += &(entry(&format!("{:widest$}  ", target.name), &format!("{}{risk}", beside.why), width) + "\n");
    }
    for Refused { name, why } in refused {
        text += &(entry(&format!("{name:widest$}  "), &format!("not raced: {why}"), width) + "\n");
    }
    text += &format!("{} candidates; the first one is the baseline of every race round", raced.len());
    text += if risky { "\n" } else { " (--risky adds dangerous ones, --only leaves out the list of options)\n" };
    print(&text)?;
    Ok(exit::DONE)
}
