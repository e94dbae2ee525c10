//! `fsb choose`: which of many is the fastest for this work.

mod candidates;
mod effects;

use std::path::{Path, PathBuf};

use clap::Args;
use fsb_model::race::Refused;
use fsb_model::{Bytes, Identity, Race};
use fsb_report::show::entry;
use fsb_runner::plan_file::{PlanFile, RepetitionFile, Resolved, typed};

use self::candidates::Raced;
use super::COMPACT_HELP;
use super::run::{CommandArguments, check_words};
use crate::front::{self, Turn};
use crate::progress::say;
use crate::results::{Output, print};
use crate::{columns, exit};

const MORE: &str = "\
COMMAND: --prepare, --setup, --cleanup, --verify=CMD, --input, --metric, --better, \
--cache, --durable, --ok-exit, --writable, --network, --time-limit, --process-limit, --file-limit, --memory-limit
Also: --mkfs-defaults, --wipe DEVICE, --uid, --gid, --force-root-user, --format F, -o FILE, --quiet, --allow-concurrent
Examples:
  sudo fsb choose ext4 -- git clone -q /srv/linux .     which options for this work
  sudo fsb choose --suite varmail --budget 30m          all file systems and their options
  fsb choose ext4 xfs --list --risky                    who would race, and why";

/// Race file systems with their options: which one is the fastest for a command or a suite.
/// FS stands for its defaults and a curated list of options, a TARGET with options for itself.
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP, verbatim_doc_comment)]
#[command(override_usage = "fsb choose [OPTIONS] [FS | TARGET]… [-- COMMAND]")]
pub struct Arguments {
    #[arg(value_name = "TARGET", hide = true)]
    targets: Vec<String>,
    /// What is done, without a command: see 'fsb list suites' [quick]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// The most it takes from start to report [10m]
    #[arg(long, value_name = "TIME", default_value = "10m", hide_default_value = true)]
    budget: String,
    /// The smallest difference that matters [3%]
    #[arg(long, value_name = "P")]
    theta: Option<String>,
    /// Race dangerous options, too, such as barriers off
    #[arg(long)]
    risky: bool,
    /// First tell what each option of one file system contributes
    #[arg(long)]
    effects: bool,
    /// Print the candidates with why, and stop
    #[arg(long)]
    list: bool,
    /// Let each mkfs program choose the geometry by the size of its slice
    #[arg(long, hide = true)]
    mkfs_defaults: bool,
    /// Where the image lives [.]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Of the image, a quarter for each of a heat [4G]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// New or empty [fsb-results/TIME-choose]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Decides orders and data [a new one, recorded]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Give up what a block device holds
    #[arg(long, value_name = "DEVICE", hide = true)]
    wipe: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// No progress
    #[arg(long, short, hide = true)]
    quiet: bool,
    /// User that workers run as
    #[arg(long, value_name = "ID", hide = true)]
    uid: Option<u32>,
    /// Group that workers run as
    #[arg(long, value_name = "ID", hide = true)]
    gid: Option<u32>,
    /// Workers run as root
    #[arg(long, hide = true)]
    force_root_user: bool,
    /// Measure although another run does: both are marked
    #[arg(long, hide = true)]
    allow_concurrent: bool,
    #[command(flatten)]
    command: CommandArguments,
}

/// Targets of a heat, the reference included.
const PLACES: u32 = 4;
/// The probability with which the answer may be wrong.
const ERROR: f64 = 0.05;
/// Size of the image.
const SIZE: Bytes = Bytes(4 << 30);

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    check_output(&arguments.output)?;
    check_words(&arguments.targets, Some(&arguments.budget))?;
    let (raced, refused) = candidates::all(&arguments.targets, arguments.risky)?;
    if arguments.list {
        return list(&raced, &refused, arguments.risky);
    }
    let workload = arguments.command.workload(None)?;
    if workload.is_some() && arguments.suite.is_some() {
        return Err(exit::request("the command says what is measured, and so does --suite: give one of them"));
    }
    let (raced, first_stage, factors) = match arguments.effects {
        true => effects::design(raced, PLACES as usize)?,
        false => (raced, Vec::new(), Vec::new()),
    };
    if let (true, Some(refused)) = (raced.len() < 2, refused.first()) {
        return Err(exit::request(format!("{} is not raced: {}", refused.name, refused.why)));
    }
    refused.iter().for_each(|refused| say(&format!("note: {} is not raced: {}", refused.name, refused.why)));
    if raced.len() < 2 {
        return Err(exit::request(format!(
            "{} is alone: name another target, or a file system that has options to choose from ('fsb choose --list')",
            raced[0].target.name
        )));
    }
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
        workloads: workload.into_iter().collect(),
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
    let resolved: Resolved = plan.resolve(front::cpus(), front::fresh_seed())?;
    let out = arguments.out.unwrap_or_else(default_directory);
    front::choose(resolved, &out, &arguments.output, arguments.quiet, Turn::of(arguments.allow_concurrent))
}

/// What a choice cannot be printed as is refused before an hour of measuring.
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
    text += &format!("{} candidates; the first one is the reference of every heat", raced.len());
    text += if risky { "\n" } else { " (--risky adds dangerous ones)\n" };
    print(&text)?;
    Ok(exit::DONE)
}

/// `fsb-results/20261120T150405Z-choose`, with a number behind it where a run of the same second has that name.
fn default_directory() -> PathBuf {
    let name = format!("{}-choose", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.clone()).chain(numbered).map(|name| Path::new(super::RESULTS).join(name));
    paths.find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or_default()
}
