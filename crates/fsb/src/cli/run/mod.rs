//! `fsb run`: measure targets against each other.

mod command;
mod series;
mod trace;
mod tree;

use std::path::{Path, PathBuf};

use clap::Args;
use fsb_model::units::parse_duration;
use fsb_model::{Bytes, Identity, Place, Plan};
use fsb_runner::plan_file::{self, PlanFile, RepetitionFile, typed};
use fsb_runner::{shipped_plan, suite, vm};
use fsb_testbed::control;
use fsb_vm::kernel;

pub use self::command::CommandArguments;
use self::series::Making;
use self::trace::TraceArguments;
use super::COMPACT_HELP;
use super::plan_text::{is_plan, read_plan};
use crate::author;
use crate::exit;
use crate::front::{self, Turn};
use crate::progress::say;
use crate::results::{Output, print_data};
use crate::signals::{Second, Signals};

const MORE: &str = "\
COMMAND: --prepare, --setup, --cleanup, --verify=CMD, --input, --metric, --better, \
--cache, --durable, --ok-exit, --writable, --network, --time-limit, --process-limit, --file-limit, --memory-limit; --trace FILE: --pace P, --force
Also: --runs N, --kernel K, --theta P, --scale F, --wipe DEVICE, --tree DIR, --memory SIZE, --cpus N, --root DIR, \
--seed N, --quiet, --tails, --format F, -o FILE, --uid, --gid, --force-root-user, --one-at-a-time, --risky, \
--mkfs-defaults, --print-plan, --allow-concurrent
  sudo fsb run ext4 xfs btrfs                        which is faster, how surely
  sudo fsb run ext4 xfs -- 'tar xf /srv/linux.tar'   at your own work
  fsb run /srv/data /mnt/nas                         as they are, without root";

/// Measure file systems (FS[,OPTION…][@loop|@ram|@/dev/…]), directories, or a plan (FILE.toml).
/// NAME= before a target names it; mkfs="…" among its options holds mkfs arguments.
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP, verbatim_doc_comment)]
#[command(override_usage = "fsb run [OPTIONS] [NAME=]TARGET… [-- COMMAND…] | PLAN.toml")]
pub struct Arguments {
    #[arg(value_name = "TARGET", hide = true)]
    targets: Vec<String>,
    /// What is done: see 'fsb list suites' [quick]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// The most a run takes, start to report [5m]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Number of blocks; with --budget, as many as fit
    #[arg(long, value_name = "N", conflicts_with = "precision")]
    blocks: Option<u32>,
    /// Blocks until all intervals are within ±P
    #[arg(long, value_name = "P")]
    precision: Option<String>,
    /// The smallest difference that matters [3%]
    #[arg(long, value_name = "P", hide = true)]
    theta: Option<String>,
    /// Where the image lives [.]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Of the image; files scale with it [2G]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Files, image and memory limit times F, such as 1/8
    #[arg(long, value_name = "F", hide = true)]
    scale: Option<String>,
    /// Copy and delete a tree of this DIR's shape, or of a run.json's
    #[arg(long, value_name = "DIR", hide = true, conflicts_with_all = ["suite", "resume"])]
    tree: Option<PathBuf>,
    /// On this kernel, or in a virtual machine: vm
    #[arg(long = "in", value_name = "PLACE")]
    place: Option<String>,
    /// vm: a release, image, .deb or tree; repeatable
    #[arg(long, value_name = "K", hide = true)]
    kernel: Vec<String>,
    /// Memory of the virtual machine [1G]
    #[arg(long, value_name = "SIZE", hide = true)]
    memory: Option<Bytes>,
    /// What a command sees as its root in the virtual machine, read-only [/]
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Processors of the virtual machine [all]
    #[arg(long, value_name = "N", hide = true)]
    cpus: Option<u32>,
    /// Compare what is read with what was written, in every workload that can; =CMD: after each run of a command
    #[arg(long, hide = true, value_name = "CMD", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    verify: Option<String>,
    /// Set a control: see 'fsb list controls'
    #[arg(long, value_name = "NAME[=VALUE]")]
    control: Vec<String>,
    /// Give up what a block device holds
    #[arg(long, value_name = "DEVICE", hide = true)]
    wipe: Vec<PathBuf>,
    /// New or empty [fsb-results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Resume the interrupted run or set in DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["targets", "suite", "budget", "blocks", "precision", "theta",
        "seed", "dir", "size", "scale", "place", "kernel", "memory", "cpus", "control", "out", "print_plan", "verify", "uid", "gid", "force_root_user",
        "risky", "mkfs_defaults", "one_at_a_time"])]
    resume: Option<PathBuf>,
    /// Make N complete runs, each with a new image and within the budget, and store them as a set
    #[arg(long, value_name = "N", hide = true, conflicts_with_all = ["resume", "format", "file"],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(series::MOST_RUNS)))]
    runs: Option<u32>,
    /// Print the plan with all decided, and stop
    #[arg(long, hide = true)]
    print_plan: bool,
    /// Decides orders and data [a new one, recorded]
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
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
    /// Targets take turns on the whole medium
    #[arg(long, hide = true)]
    one_at_a_time: bool,
    /// Let targets win that may lose synced data in a crash
    #[arg(long, hide = true)]
    risky: bool,
    /// Let each mkfs program choose block size, inodes and journal by the size of its slice
    #[arg(long, hide = true)]
    mkfs_defaults: bool,
    /// Measure although another run does: both are marked
    #[arg(long, hide = true)]
    allow_concurrent: bool,
    #[command(flatten)]
    command: CommandArguments,
    #[command(flatten)]
    trace: TraceArguments,
}

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    // A form that does not exist must not be found out after an hour of measuring.
    arguments.output.resolve()?;
    if let Some(directory) = &arguments.resume {
        let turn = Turn::of(arguments.allow_concurrent);
        if series::is_set(directory) {
            let making = Making { output: &arguments.output, quiet: arguments.quiet, turn, wipe: &arguments.wipe };
            return series::resume(directory, &making);
        }
        return front::resume(directory, &arguments.wipe, &arguments.output, arguments.quiet, turn);
    }
    let turn = Turn::of(arguments.allow_concurrent);
    let (output, quiet, print_plan, out) =
        (arguments.output.clone(), arguments.quiet, arguments.print_plan, arguments.out.clone());
    let (runs, wipe) = (arguments.runs, arguments.wipe.clone());
    let file = plan(arguments)?;
    unpack_kernels(&file)?;
    if let Some(runs) = runs.filter(|_| !print_plan) {
        let directory = match out {
            Some(out) => out,
            None => {
                let cpus = front::cpus_for(&file.controls);
                default_directory(&file.clone().resolve(cpus, front::fresh_seed())?.plan)
            }
        };
        return series::start(&file, runs, &directory, &Making { output: &output, quiet, turn, wipe: &wipe });
    }
    let cpus = front::cpus_for(&file.controls);
    let mut resolved = file.resolve(cpus, front::fresh_seed())?;
    let plan = &mut resolved.plan;
    match vm::pin(plan) {
        // A plan may be written here for another machine.
        Err(error) if print_plan && plan.kernels.is_empty() => say(&format!("warning: {error}")),
        pinned => pinned?,
    }
    if print_plan {
        print_data(&plan_file::print(plan)?)?;
        return Ok(exit::DONE);
    }
    let out = out.unwrap_or_else(|| default_directory(plan));
    front::start(resolved, &out, &output, quiet, turn)
}

/// Unpacks the packages that are named as kernels and were not unpacked before, which takes long enough to be told.
fn unpack_kernels(file: &PlanFile) -> anyhow::Result<()> {
    let in_vm = file.place.as_ref().is_some_and(|place| place.get_ref() == Place::Vm.name());
    if !in_vm {
        return Ok(());
    }
    author::check_cache()?;
    kernel::tidy();
    for text in file.kernels.iter().map(|text| text.get_ref()).filter(|text| text.ends_with(".deb")) {
        super::kernel::interruptible(|stopped| kernel::unpacked(text, &mut say, stopped))?;
    }
    Signals::catch(Second::Ends)?.let_go()
}

/// The shipped plan of that name; `None` for the name of a suite.
fn plan_for_suite(name: &str) -> Option<&'static str> {
    let is_suite = suite::REGISTRY.iter().any(|suite| suite.name == name);
    shipped_plan::find(&format!("{name}.toml")).filter(|_| !is_suite).map(|plan| plan.name)
}

/// The command line laid over the plan file, if one is named.
fn plan(arguments: Arguments) -> anyhow::Result<PlanFile> {
    let (mut files, targets): (Vec<_>, Vec<_>) = arguments.targets.into_iter().partition(|text| is_plan(text));
    let mut suite = arguments.suite;
    // People ask for the suite of a program whose work a shipped plan measures.
    if let Some(plan) = suite.as_deref().and_then(plan_for_suite) {
        say(&format!("note: '{}' is a plan: this is 'fsb run {}'", suite.take().unwrap_or_default(), plan));
        files.push(plan.to_owned());
    }
    let under = match files.as_slice() {
        [] => PlanFile::default(),
        [file] => read_plan(Path::new(file))?,
        _ => return Err(exit::request("more than one plan: name one .toml file")),
    };
    let (verify, check) = match arguments.verify {
        Some(check) if !check.is_empty() => (false, Some(check)),
        flag => (flag.is_some(), None),
    };
    let command = match (arguments.command.workload(check)?, arguments.trace.workload()?) {
        (Some(_), Some(_)) => return Err(exit::request("--trace and a command say both what is measured: give one")),
        (command, trace) => command.or(trace),
    };
    let says_what = suite.is_some() || under.suite.is_some() || !under.workloads.is_empty();
    let (workloads, image) = match (&arguments.tree, command) {
        (None, None) => (Vec::new(), None),
        (Some(_), Some(_)) => {
            return Err(exit::request("--tree and a command or trace say both what is measured: give one"));
        }
        (None, Some(_)) if says_what => {
            return Err(exit::request(
                "the command or trace says what is measured, and so does the suite or plan: give one of them",
            ));
        }
        (None, Some(command)) => (vec![command], None),
        (Some(_), None) if under.suite.is_some() || !under.workloads.is_empty() => {
            return Err(exit::request("--tree says what is measured, and so does the plan: give one of them"));
        }
        (Some(tree), None) => tree::workloads(tree).map(|(workloads, image)| (workloads, Some(image)))?,
    };
    check_words(&targets, arguments.budget.as_deref())?;
    let over = PlanFile {
        workloads,
        targets: targets.iter().map(|text| typed(text)).collect(),
        suite,
        seed: arguments.seed,
        size: arguments.size.or(under.size).or(image),
        scale: arguments.scale.as_deref().map(typed),
        dir: arguments.dir,
        theta: arguments.theta.as_deref().map(typed),
        wipe: arguments.wipe,
        one_at_a_time: arguments.one_at_a_time,
        risky: arguments.risky,
        mkfs_defaults: arguments.mkfs_defaults,
        verify,
        identity: Identity { uid: arguments.uid, gid: arguments.gid, force_root: arguments.force_root_user },
        repetition: RepetitionFile {
            blocks: arguments.blocks,
            budget: arguments.budget,
            precision: arguments.precision,
            stretch: None,
        },
        place: arguments.place.as_deref().map(typed),
        kernels: arguments.kernel.iter().map(|text| typed(&absolute(text))).collect(),
        memory: arguments.memory,
        cpus: arguments.cpus,
        root: arguments.root,
        controls: arguments.control.iter().map(|text| control(text)).collect::<anyhow::Result<_>>()?,
        ..PlanFile::default()
    };
    Ok(over.over(under))
}

/// Refuses words that name no file system but mean something: a directory without its `./`, and the unit of a budget.
pub(super) fn check_words(targets: &[String], budget: Option<&str>) -> anyhow::Result<()> {
    targets.iter().try_for_each(|text| check_word(text, budget))
}

fn check_word(text: &str, budget: Option<&str>) -> anyhow::Result<()> {
    let is_word = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if !is_word || text.is_empty() || text.starts_with('.') || fsb_testbed::fs::find(text).is_ok() {
        return Ok(());
    }
    if let Some(budget) = budget.filter(|budget| parse_duration(&format!("{budget}{text}")).is_ok()) {
        return Err(exit::request(format!("--budget {budget} {text}: write it as one word: {budget}{text}")));
    }
    if Path::new(text).is_dir() {
        return Err(exit::request(format!("unknown file system '{text}': to measure the directory, write ./{text}")));
    }
    Ok(())
}

/// A run may be resumed from another working directory: files that name a kernel must be found from there, both of
/// `IMAGE:MODULES`.
fn absolute(text: &str) -> String {
    let path = |text: &str| match std::path::absolute(text) {
        Ok(path) if kernel::is_path(text) || text.ends_with(".deb") => path.to_string_lossy().into_owned(),
        _ => text.to_owned(),
    };
    text.split(':').map(path).collect::<Vec<_>>().join(":")
}

/// `NAME=VALUE`, or `NAME` for the value that is usually meant.
fn control(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = match text.split_once('=') {
        Some(both) => both,
        None => (text, control::value_of_name(text)?),
    };
    if name.is_empty() || value.is_empty() {
        return Err(exit::request(format!("--control {text}: write NAME=VALUE, such as guest-memory=off")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `fsb-results/20261120T150405Z-ext4-xfs-btrfs`, with a number behind it where a run of the same second has that name.
fn default_directory(plan: &Plan) -> PathBuf {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let name = format!("{time}-{}", front::run_name(plan));
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.clone()).chain(numbered).map(|name| Path::new(super::RESULTS).join(name));
    // Whoever may not look there is told so when the directory is made.
    paths.find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or_default()
}
