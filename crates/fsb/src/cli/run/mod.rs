//! `fsb run`: measure targets against each other.

mod parallel;
mod versus;
mod work;

use fsb_results::{Latencies, StoredRun, summary};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fsb_model::setting::SettingValue;
use fsb_model::units::{parse_duration, percent_text};
use fsb_model::{Bytes, Place, Plan, Settings, Target, code, failure, notice};
use fsb_report::series;
use fsb_report::summary::bounds;
use fsb_runner::plan_file::{self, PlanFile, typed};
use fsb_runner::shipped_plan::{self, ShippedPlan};
use fsb_runner::{suite, vm};
use fsb_store::{RUN_FILE, Reader, owner};
use fsb_testbed::control;
use serde::{Deserialize, Serialize};

use self::versus::VersusArguments;
use self::work::TraceArguments;
use super::compare;
use super::plan_text::{background, check_confined, is_plan, read_plan, read_preset, workloads};
use super::settings::{self, SettingArguments};
use crate::exit;
use crate::help::heading;
use crate::message::{notify, say, say_warning};
use crate::results::{self, Output, RunGate, print_data};
use crate::run::coordinator;
use crate::run::progress::Verbosity;
use crate::run::record;
use crate::run::remote::{self, Place as ResultsPlace, RemoteHost, RemoteRun};
use crate::run::stage::Turn;
use fsb_results::directory::{RUN_OF_SET, SET_FILE, runs_of_set};

pub use self::work::CommandArguments;

pub(super) use self::work::is_program;

const EXAMPLES: &str = "\
Examples:
  sudo fsb run ext4 xfs btrfs                        which is the fastest
  sudo fsb run ext4 xfs -- 'cp -r /srv/d c; rm -r c' with a command of your own
  fsb run /srv/data /mnt/nas                         as they are, without root";

/// Compare file systems or directories, or run a plan
///
/// A TARGET is a file system (FS[,OPTION…][@loop|@ram|@/dev/…]) or a directory; PLAN.toml names
/// targets and workloads in a file. NAME= before a target is its name in the report. The option
/// mkfs="…" of a file system holds arguments for its mkfs program, after the path of another one if
/// you have built it: mkfs="./mke2fs -t ext4". Each tune="…" holds those of a run of tune2fs after
/// it. A FUSE server is fuse:'COMMAND {dir} {mnt}' over a directory of the file system that the
/// option over= names, or fuse:'COMMAND {dev} {mnt}' on a device.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "fsb run [OPTIONS] [NAME=]TARGET… [-- COMMAND…] | PLAN.toml")]
pub struct Arguments {
    /// File system, directory or plan to measure
    #[arg(value_name = "TARGET", hide_short_help = true)]
    targets: Vec<String>,
    #[command(flatten)]
    settings: SettingArguments<settings::Run>,
    /// Work of a program to run; see 'fsb list presets'
    #[arg(long, value_name = "NAME", help_heading = heading::WORKLOAD,
        conflicts_with_all = ["suite", "workloads", "tree", "trace", "command", "resume"])]
    preset: Option<String>,
    /// Workload to run, KIND[,PARAM=VALUE…], such as read,access=random,cache=cold; see 'fsb list
    /// workloads'; repeatable
    #[arg(long = "workload", value_name = "KIND", hide_short_help = true, help_heading = heading::WORKLOAD,
        conflicts_with_all = ["suite", "tree", "resume"])]
    workloads: Vec<String>,
    /// Measure every case alone and beside this workload, KIND[,PARAM=VALUE…], such as
    /// write,block_size=1M
    #[arg(long, value_name = "KIND", hide_short_help = true, help_heading = heading::WORKLOAD,
        conflicts_with = "resume")]
    background: Option<String>,
    /// Copy and delete a tree with the shape of DIR, or of the tree in a run.json
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = heading::WORKLOAD,
        conflicts_with_all = ["suite", "resume"])]
    tree: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArguments,
    /// Compare the data read with the data written; with =CMD, run CMD after each sample of a
    /// command
    #[arg(long, hide_short_help = true, value_name = "CMD", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help_heading = heading::WORKLOAD)]
    verify: Option<String>,
    /// Make N complete runs, each with a new image and its own budget, and store them as a set
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = heading::TIME,
        conflicts_with_all = ["resume", "format", "files"],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    runs: Option<u32>,
    /// Run on USER@HOST through ssh; many hosts: fsb fleet run
    #[arg(long, value_name = "HOST", hide_short_help = true, help_heading = heading::MACHINE,
        conflicts_with_all = ["runs", "kernel", "root", "trace"])]
    on: Option<String>,
    /// Measure shared directories from HOST[:RANKS],… at once: print and run mpirun with fsb-mpi,
    /// which gets the other options
    #[arg(long, value_name = "HOST", value_delimiter = ',', hide_short_help = true, help_heading = heading::MACHINE,
        conflicts_with_all = ["on", "resume"])]
    hosts: Vec<String>,
    /// With --on: become root there by sudo, which must not ask for a password
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE, requires = "on")]
    sudo: bool,
    /// With --on: copy the run directory to DIR or rsync:DESTINATION afterwards
    #[arg(long, value_name = "DEST", hide_short_help = true, help_heading = heading::MACHINE, requires = "on")]
    results: Option<String>,
    /// Set a control, NAME or NAME=VALUE; see 'fsb list controls'; repeatable
    #[arg(long, value_name = "CONTROL", hide_short_help = true, help_heading = heading::MACHINE)]
    control: Vec<String>,
    /// Measure although another fsb measures; both results are marked
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE)]
    allow_concurrent: bool,
    /// Wait until no other fsb measures; with --runs, before each run
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE, conflicts_with = "allow_concurrent")]
    wait: bool,
    /// Run directory [default: fsb-results/TIME-NAME]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    /// Resume the interrupted run or set in DIR
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT,
        conflicts_with_all = settings::of_new_run(&["targets", "control", "out", "print_plan", "verify"]))]
    resume: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Exit with 1 if a target misses the p99_below of a case, and with 2 if that is undecided
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT, conflicts_with_all = ["runs", "on", "resume"])]
    gate: bool,
    /// Exit with 1 if a target is worse than the first one, and with 2 if that is undecided. GATE
    /// is '[NAME] slower [than NAME] [by P%]', or 'more METRIC' instead of slower: p99, bytes,
    /// flushes, cpu, memory, space
    #[arg(long, value_name = "GATE", hide_short_help = true, help_heading = heading::OUTPUT,
        conflicts_with_all = ["runs", "on", "resume", "gate"])]
    fail_if: Option<String>,
    /// TOML file of known slowdowns that pass --fail-if, up to an amount and a day
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = heading::OUTPUT, requires = "fail_if")]
    acknowledge: Option<PathBuf>,
    /// Print the complete plan and exit
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT)]
    print_plan: bool,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    versus: VersusArguments,
    #[command(flatten)]
    command: CommandArguments,
}

/// Runs the subcommand.
pub fn main(mut arguments: Arguments) -> anyhow::Result<u8> {
    if !arguments.hosts.is_empty() {
        return parallel::main(&arguments.hosts);
    }
    // Find a wrong form out before an hour of measuring.
    arguments.output.resolve()?;
    let turn = Turn::of_run(arguments.allow_concurrent, arguments.wait);
    let wipe = devices_to_wipe(&arguments);
    let host = arguments
        .on
        .as_deref()
        .map(|text| RemoteHost::parse(text, arguments.sudo))
        .transpose()?;
    let results = arguments
        .results
        .as_deref()
        .map(ResultsPlace::parse)
        .transpose()?;
    let results = results.as_ref();
    if let Some(directory) = &arguments.resume {
        if let Some(host) = &host {
            let (output, verbosity) = (Some(&arguments.output), arguments.verbosity);
            let run = RemoteRun {
                host,
                directory,
                results,
                output,
                verbosity,
                turn,
                beside: None,
            };
            return remote::resume(&wipe, &run);
        }
        if is_set(directory) {
            let making = Making {
                output: &arguments.output,
                verbosity: arguments.verbosity,
                turn,
                wipe: &wipe,
            };
            return resume_set(directory, &making);
        }
        let (output, verbosity) = (&arguments.output, arguments.verbosity);
        let code = coordinator::resume(directory, &wipe, output, verbosity, turn)?;
        versus::remove_resumed(directory)?;
        return Ok(code);
    }
    arguments
        .versus
        .choose_revisions(&mut arguments.out, &arguments.command.command)?;
    let made = arguments.versus.trees().zip(arguments.out.clone());
    let ended = begin(arguments, host, results, turn);
    if let Some((trees, out)) = made {
        versus::remove_made(&trees, &out, ended.is_ok())?;
    }
    ended
}

fn devices_to_wipe(arguments: &Arguments) -> Vec<PathBuf> {
    let devices = arguments.settings.given.list("wipe").iter();
    devices.map(PathBuf::from).collect()
}

/// Makes a run of the plan that the arguments describe.
fn begin(
    arguments: Arguments,
    host: Option<RemoteHost>,
    results: Option<&ResultsPlace>,
    turn: Turn,
) -> anyhow::Result<u8> {
    let wipe = devices_to_wipe(&arguments);
    let (output, verbosity, print_plan, out) = (
        arguments.output.clone(),
        arguments.verbosity,
        arguments.print_plan,
        arguments.out.clone(),
    );
    let (runs, gate) = (arguments.runs, gate(&arguments)?.map(Arc::new));
    let output = Output {
        gate: gate.clone(),
        ..output
    };
    let unbuilt = arguments.versus.unbuilt();
    let mut file = plan(arguments)?;
    if let Some(gate) = &gate {
        apply_gate(gate, &mut file)?;
    }
    if let Some(host) = host.filter(|_| !print_plan) {
        tell_needs(&file);
        let plan = file
            .clone()
            .resolve(coordinator::cpus(), coordinator::fresh_seed())?
            .plan;
        let directory = out.unwrap_or_else(|| results::default_directory(&record::run_name(&plan)));
        let output = Some(&output);
        let run = RemoteRun {
            host: &host,
            directory: &directory,
            results,
            output,
            verbosity,
            turn,
            beside: None,
        };
        return remote::start(&file, &plan, &run);
    }
    #[cfg(feature = "vm")]
    crate::run::kernels::unpack(&file)?;
    if let Some(runs) = runs.filter(|_| !print_plan) {
        let directory = match out {
            Some(out) => out,
            None => {
                let cpus = coordinator::cpus_for(&file.controls);
                results::default_directory(&record::run_name(
                    &file.clone().resolve(cpus, coordinator::fresh_seed())?.plan,
                ))
            }
        };
        return start_set(
            &file,
            runs,
            &directory,
            &Making {
                output: &output,
                verbosity,
                turn,
                wipe: &wipe,
            },
        );
    }
    let cpus = coordinator::cpus_for(&file.controls);
    let has_seed = file.settings.has("seed");
    let mut resolved = file.resolve(cpus, coordinator::fresh_seed())?;
    let plan = &mut resolved.plan;
    match vm::pin(plan) {
        // A plan may be written here for another machine.
        Err(error) if print_plan && plan.kernels.is_empty() => say_warning(error),
        pinned => pinned?,
    }
    if let Some(RunGate::Worse { gate, .. }) = gate.as_deref() {
        let names: Vec<&str> = plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        gate.check(&names).map_err(|why| wrong_gate(&why))?;
    }
    if print_plan {
        let mut printed = plan_file::print(plan)?;
        if !has_seed {
            // Each run of the plan chooses its own, as this one would.
            printed = printed
                .lines()
                .filter(|line| !line.starts_with("seed = "))
                .map(|line| format!("{line}\n"))
                .collect();
        }
        coordinator::check_plan(resolved)?;
        print_data(&printed)?;
        return Ok(exit::DONE);
    }
    let out = out.unwrap_or_else(|| results::default_directory(&record::run_name(plan)));
    if let Some(trees) = unbuilt {
        trees.build(resolved.clone())?;
    }
    coordinator::start(resolved, &out, &output, verbosity, turn)
}

fn wrong_gate(why: &str) -> anyhow::Error {
    failure::error(&code::INVALID_VALUE, format!("--fail-if: {why}"))
}

/// Returns the gate that the options ask for.
fn gate(arguments: &Arguments) -> anyhow::Result<Option<RunGate>> {
    if arguments.gate {
        return Ok(Some(RunGate::Bounds));
    }
    let Some(text) = &arguments.fail_if else {
        return Ok(None);
    };
    let gate = text.parse().map_err(|why: String| wrong_gate(&why))?;
    let acknowledged = compare::acknowledged(arguments.acknowledge.as_deref())?;
    Ok(Some(RunGate::Worse { gate, acknowledged }))
}

/// Gives the plan the threshold of the gate. Refuses a plan that the gate cannot judge.
fn apply_gate(gate: &RunGate, file: &mut PlanFile) -> anyhow::Result<()> {
    match gate {
        RunGate::Bounds if !file.workloads.iter().any(bounds::is_judged) => {
            let message = "--gate: no case has a bound";
            let advice = "give one p99_below, as 'fsb run --preset etcd' has it";
            Err(failure::advised(&code::CONFLICT, message, advice))
        }
        RunGate::Worse { gate, .. } if gate.by.is_some() && file.settings.has("theta") => Err(
            wrong_gate("it says by how much, and so does --theta: leave one out"),
        ),
        RunGate::Worse { gate, .. } => {
            if let Some(by) = gate.by {
                file.settings = file.settings.clone().with_text("theta", percent_text(by));
            }
            Ok(())
        }
        RunGate::Bounds => Ok(()),
    }
}

/// Says that the programs of this machine decide what another one measures.
fn tell_needs(file: &PlanFile) {
    for needed in &file.needed {
        let (program, package) = (needed.need.programs.join(" "), &needed.need.package);
        let text = format!(
            "note: this machine decides whether {program} or what replaces it is measured; \
             the other one needs {package} too"
        );
        let fields = [
            ("program", program.into()),
            ("package", package.as_str().into()),
        ];
        notify(&notice::PROGRAM_MISSING, fields, &text);
    }
}

/// Returns the shipped plan of that name; `None` for the name of a suite.
fn plan_for_suite(name: &str) -> Option<&'static ShippedPlan> {
    let is_suite = suite::REGISTRY.iter().any(|suite| suite.name == name);
    shipped_plan::find(&format!("{name}.toml")).filter(|_| !is_suite)
}

/// Returns the command line laid over the plan file, if one is named.
fn plan(mut arguments: Arguments) -> anyhow::Result<PlanFile> {
    let here = arguments.versus.here(
        &mut arguments.targets,
        &mut arguments.command.command,
        arguments.runs,
    )?;
    let (mut files, targets): (Vec<_>, Vec<_>) = arguments
        .targets
        .into_iter()
        .partition(|text| is_plan(text));
    let mut settings = arguments.settings.given;
    // People ask for the suite of a program whose work a shipped plan measures.
    let suite = settings.text("suite").unwrap_or_default().to_owned();
    let mut preset = arguments.preset;
    if let Some(plan) = plan_for_suite(&suite) {
        let this = match plan.is_preset {
            true => format!("a preset: this is 'fsb run --preset {suite}'"),
            false => format!("a plan: this is 'fsb run {}'", plan.name),
        };
        settings.unset("suite");
        let text = format!("note: '{suite}' is {this}");
        notify(&notice::NAMED_PLAN, [("plan", plan.name.into())], &text);
        if plan.is_preset {
            preset = Some(suite);
        } else {
            files.push(plan.name.to_owned());
        }
    } else if let [file] = files.as_slice()
        && !Path::new(file).exists()
        && let Some(plan) = shipped_plan::find(file)
    {
        let text = format!(
            "note: no file {file} here: using the plan of that name that is shipped with fsb"
        );
        notify(&notice::NAMED_PLAN, [("plan", plan.name.into())], &text);
    }
    let under = match (files.as_slice(), &preset) {
        ([], None) => PlanFile::default(),
        ([], Some(preset)) => read_preset(preset)?,
        ([file], None) => read_plan(Path::new(file))?,
        _ => {
            return Err(failure::error(
                &code::SEVERAL_PLANS,
                "more than one plan: name one .toml file, or one --preset",
            ));
        }
    };
    if !arguments.versus.is_here() {
        check_confined(&under)?;
    }
    let (verify, check) = match arguments.verify {
        Some(check) if !check.is_empty() => (false, Some(check)),
        flag => (flag.is_some(), None),
    };
    // The programs of a virtual machine's root are its own.
    let runs_here = arguments.on.is_none() && settings.text("in") != Some(Place::Vm.name());
    let command = match (
        arguments.command.workload(check, runs_here, here)?,
        arguments.trace.workload()?,
    ) {
        (Some(_), Some(_)) => {
            return Err(failure::error(
                &code::CONFLICT,
                "--trace and a command exclude each other: give one of them",
            ));
        }
        (command, trace) => command.or(trace),
    };
    let named = workloads(&arguments.workloads)?;
    let background = arguments
        .background
        .as_deref()
        .map(background)
        .transpose()?;
    let says_what = settings.has("suite")
        || under.settings.has("suite")
        || !under.workloads.is_empty()
        || !named.is_empty();
    let (workloads, image) = match (&arguments.tree, command) {
        (None, None) => (named, None),
        (Some(_), Some(_)) => {
            return Err(failure::error(
                &code::CONFLICT,
                "--tree and a command or trace exclude each other: give one of them",
            ));
        }
        (None, Some(_)) if says_what => {
            return Err(failure::error(
                &code::CONFLICT,
                "a command or trace excludes a suite, --workload and a plan with workloads: give one of them",
            ));
        }
        (None, Some(command)) => (vec![command], None),
        (Some(_), None) if under.settings.has("suite") || !under.workloads.is_empty() => {
            return Err(failure::error(
                &code::CONFLICT,
                "--tree and a plan with workloads exclude each other: give one of them",
            ));
        }
        (Some(tree), None) => {
            work::tree_workloads(tree).map(|(workloads, image)| (workloads, Some(image)))?
        }
    };
    check_words(&targets, settings.text("budget"))?;
    check_units(&settings)?;
    check_values(&targets, &arguments.control)?;
    if let Some(image) = image.filter(|_| !settings.has("size") && !under.settings.has("size")) {
        settings = settings.with_number("size", image.0);
    }
    if settings.has("kernel") {
        let kernels = settings.list("kernel").iter();
        let kernels = kernels.map(|text| absolute(text)).collect();
        settings.set("kernel", SettingValue::List(kernels));
    }
    let over = PlanFile {
        settings,
        workloads,
        targets: targets.iter().map(|text| typed(text)).collect(),
        verify,
        background,
        controls: arguments
            .control
            .iter()
            .map(|text| control(text))
            .collect::<anyhow::Result<_>>()?,
        ..PlanFile::default()
    };
    let mut plan = over.over(under);
    settings::add_environment(&mut plan.settings)?;
    arguments.versus.apply(&mut plan, runs_here)?;
    Ok(plan)
}

/// Refuses words that name no file system but mean something: a directory without its `./`, and the
/// unit of a budget.
pub(super) fn check_words(targets: &[String], budget: Option<&str>) -> anyhow::Result<()> {
    targets.iter().try_for_each(|text| check_word(text, budget))
}

/// Refuses quantities whose unit is missing: a budget without one would be seconds, a size bytes.
pub(super) fn check_units(settings: &Settings) -> anyhow::Result<()> {
    if let Some(budget) = settings.text("budget")
        && budget.parse::<u64>().is_ok_and(|number| number > 0)
    {
        return Err(failure::advised(
            &code::INVALID_VALUE,
            format!("--budget {budget} has no unit"),
            format!("write seconds, minutes or hours: {budget}s, {budget}m or {budget}h"),
        ));
    }
    for name in ["size", "memory"] {
        if let Some(bytes) = settings
            .number(name)
            .filter(|bytes| (1..SMALLEST).contains(bytes))
        {
            return Err(failure::advised(
                &code::INVALID_VALUE,
                format!("--{name} {} is less than 1M", Bytes(bytes)),
                format!("a number without a unit is bytes: write M or G, such as --{name} 2G"),
            ));
        }
    }
    Ok(())
}

/// Fewer bytes than this were written without their unit.
const SMALLEST: u64 = 1 << 20;

/// Refuses the value of a control that was written as a word of its own, as in `--control swap
/// off`.
fn check_values(targets: &[String], controls: &[String]) -> anyhow::Result<()> {
    let bare = controls.iter().find(|text| !text.contains('='));
    let unknown = targets.iter().find(|text| {
        text.parse::<Target>().is_ok_and(|target| {
            target
                .file_system()
                .is_some_and(|spec| fsb_testbed::fs::find(&spec.fs).is_err())
        })
    });
    match (bare, unknown) {
        (Some(name), Some(value)) if control::find(name).is_ok() => Err(failure::advised(
            &code::INVALID_VALUE,
            format!("--control {name} {value}: the value is separate from its control"),
            format!("write --control {name}={value}"),
        )),
        _ => Ok(()),
    }
}

fn check_word(text: &str, budget: Option<&str>) -> anyhow::Result<()> {
    let is_word = text
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if !is_word || text.is_empty() || text.starts_with('.') || fsb_testbed::fs::find(text).is_ok() {
        return Ok(());
    }
    if let Some(budget) = budget.filter(|budget| parse_duration(&format!("{budget}{text}")).is_ok())
    {
        return Err(failure::error(
            &code::INVALID_VALUE,
            format!("--budget {budget} {text}: write it as one word: {budget}{text}"),
        ));
    }
    let help = match std::fs::metadata(text) {
        Ok(found) if found.is_dir() => format!("to measure the directory, write ./{text}"),
        Ok(_) => format!(
            "{text} is a file: name a file system, a directory, or a plan that ends with .toml"
        ),
        Err(_) if suite::REGISTRY.iter().any(|suite| suite.name == text) => {
            format!("to run the suite, write --suite {text}")
        }
        Err(_) if is_program(text) && !text.starts_with("mkfs.") => {
            "to measure a command, write it after --: fsb run ext4 -- COMMAND".to_owned()
        }
        Err(_) => return Ok(()),
    };
    Err(failure::advised(
        &fsb_model::error::UNKNOWN_FILE_SYSTEM,
        format!("unknown file system '{text}'"),
        help,
    ))
}

/// A run may be resumed from another working directory: files that name a kernel must be found from
/// there, both of `IMAGE:MODULES`.
fn absolute(text: &str) -> String {
    let path = |text: &str| match std::path::absolute(text) {
        Ok(path) if vm::is_path(text) || text.ends_with(".deb") => {
            path.to_string_lossy().into_owned()
        }
        _ => text.to_owned(),
    };
    text.split(':').map(path).collect::<Vec<_>>().join(":")
}

/// Parses `NAME=VALUE`, or `NAME` for the default value of the control.
fn control(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = match text.split_once('=') {
        Some(both) => both,
        None => (text, control::value_of_name(text)?),
    };
    if name.is_empty() || value.is_empty() {
        return Err(failure::error(
            &code::INVALID_VALUE,
            format!("--control {text}: write NAME=VALUE, such as guest-memory=off"),
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

// `fsb run --runs N`: makes complete runs one after the other and stores them as a set.

const SET_SCHEMA: &str = "fsbench/set/1";
/// The largest number of runs of a set.
const MOST_RUNS: u32 = 1000;

/// The file that describes a set of runs; stored beside them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunSet {
    schema: String,
    /// The requested number of runs.
    runs: u32,
    /// The seed of the first run, if one was given; each further run adds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// The options that all runs of a set share in addition to their plan.
struct Making<'a> {
    /// The format in which each run is printed.
    output: &'a Output,
    /// The amount of progress to print.
    verbosity: Verbosity,
    /// Whether the runs measure alone on the machine or beside others.
    turn: Turn,
    /// Devices that the user permits to overwrite.
    wipe: &'a [PathBuf],
}

/// Makes a new set of runs of the plan in a directory.
fn start_set(
    file: &PlanFile,
    runs: u32,
    directory: &Path,
    making: &Making<'_>,
) -> anyhow::Result<u8> {
    fsb_store::check_new(directory, &owner::result_owner())?;
    let set = RunSet {
        schema: SET_SCHEMA.to_owned(),
        runs,
        seed: file.settings.number("seed"),
    };
    make_runs(&set, Some(file), directory, making)
}

/// Returns whether a directory is a set of runs.
fn is_set(directory: &Path) -> bool {
    directory.join(SET_FILE).is_file() && !directory.join(RUN_FILE).exists()
}

/// Resumes the interrupted run of a set and makes the runs that are missing.
fn resume_set(directory: &Path, making: &Making<'_>) -> anyhow::Result<u8> {
    const LARGEST: u64 = 1 << 20;
    let path = directory.join(SET_FILE);
    let wrong =
        |why: String| failure::error(&code::INVALID_RUN_SET, format!("{}: {why}", path.display()));
    let text = fsb_store::input::read(&path, LARGEST).map_err(|error| {
        failure::failed_call(
            &code::INVALID_RUN_SET,
            &error,
            format!("{}: {error}", path.display()),
        )
    })?;
    let set: RunSet = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if set.schema != SET_SCHEMA || !(1..=MOST_RUNS).contains(&set.runs) {
        return Err(wrong(format!("not a set of this version ({SET_SCHEMA})")));
    }
    if (1..=set.runs).all(|number| is_finished(&run_directory(directory, number))) {
        return Err(wrong(
            "every run is finished; fsb report DIR shows each".to_owned(),
        ));
    }
    make_runs(&set, None, directory, making)
}

fn run_directory(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{RUN_OF_SET}{number}"))
}

fn is_finished(run: &Path) -> bool {
    Reader::open(run).is_ok_and(|reader| reader.record.stop_reason.is_some())
}

/// Makes the runs that are missing. Without a plan, the plan is that of the first run.
fn make_runs(
    set: &RunSet,
    file: Option<&PlanFile>,
    directory: &Path,
    making: &Making<'_>,
) -> anyhow::Result<u8> {
    let mut worst = exit::DONE;
    for number in 1..=set.runs {
        let path = run_directory(directory, number);
        if is_finished(&path) {
            continue;
        }
        if !making.verbosity.quiet {
            say(&format!("run {number} of {}: {}", set.runs, path.display()));
        }
        let made = match path.join(RUN_FILE).is_file() {
            true => coordinator::resume(
                &path,
                making.wipe,
                making.output,
                making.verbosity,
                making.turn,
            ),
            false => new_run(set, number, file, directory, making),
        };
        worst = worst.max(made.map_err(|error| unfinished(&error, set, directory))?);
    }
    results::print(&set_table(directory)?)?;
    Ok(worst)
}

fn new_run(
    set: &RunSet,
    number: u32,
    file: Option<&PlanFile>,
    directory: &Path,
    making: &Making<'_>,
) -> anyhow::Result<u8> {
    let mut file = match file {
        Some(file) => file.clone(),
        None => plan_of_set(directory, making)?,
    };
    file.settings.unset("seed");
    if let Some(first) = set.seed {
        let seed = first.saturating_add(u64::from(number) - 1);
        file.settings = file.settings.with_number("seed", seed.min(i64::MAX as u64));
    }
    let cpus = coordinator::cpus_for(&file.controls);
    let mut resolved = file.resolve(cpus, coordinator::fresh_seed())?;
    vm::pin(&mut resolved.plan)?;
    let path = run_directory(directory, number);
    // The set is stored once its first run is known to be possible.
    coordinator::start_in_set(
        resolved,
        &path,
        making.output,
        making.verbosity,
        making.turn,
        || write_set(set, directory),
    )
}

/// Returns the plan of the existing runs of a set.
fn plan_of_set(directory: &Path, making: &Making<'_>) -> anyhow::Result<PlanFile> {
    let runs = runs_of_set(directory);
    let first = runs.first().ok_or_else(|| {
        failure::error(
            &code::INVALID_RUN_SET,
            format!("{} holds no run yet", directory.display()),
        )
    })?;
    let plan: Plan = Reader::open(first)?.record.plan;
    let mut file = plan_file::parse(&plan_file::print(&plan)?, "the plan of the set")?;
    file.allow_wipe(making.wipe);
    Ok(file)
}

fn write_set(set: &RunSet, directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(SET_FILE);
    if path.is_file() {
        return Ok(());
    }
    let text = results::json_text(set)?;
    Ok(owner::replace(&path, text.as_bytes())?)
}

/// Returns the error of a run, with the number of finished runs and the command that continues.
fn unfinished(error: &anyhow::Error, set: &RunSet, directory: &Path) -> anyhow::Error {
    let mut message = format!("{error:#}");
    if is_set(directory) {
        let finished = (1..=set.runs)
            .filter(|number| is_finished(&run_directory(directory, *number)))
            .count();
        let shown = directory.display();
        message += &format!(
            "\n{finished} of {} runs are finished; resume this one and make the others with:\n  fsb run --resume {shown}",
            set.runs
        );
    }
    exit::wrapping(error, message).into()
}

/// Returns a table of the means of the runs and their differences.
fn set_table(directory: &Path) -> anyhow::Result<String> {
    let mut summaries = Vec::new();
    for path in runs_of_set(directory)
        .iter()
        .filter(|path| is_finished(path))
    {
        let run = StoredRun::read(path, Latencies::LeftOut)?;
        summaries.push(summary::of_trials(&run.record, &run.trials, None));
    }
    let shown = directory.display();
    let table = series::screen(&summaries, 0);
    Ok(format!(
        "\n{table}set: {shown}; compare it with another: fsb compare old={shown} new=DIR\n"
    ))
}
