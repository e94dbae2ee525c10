//! `fsb export`: a plan for another tool.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fsb_compat::export::{
    Export, ExportCase, ExportFile, ExportRequest, Made, Piece, Source, TargetRecipe, UnitPiece,
};
use fsb_compat::fio;
use fsb_model::setting::SettingCommand;
use fsb_model::{Place, Plan, Target, TargetKind, code, failure, nearest};
use fsb_report::show::entry;
use fsb_runner::plan_file::{PlanFile, Resolved, typed};
use fsb_runner::work::ParsedCell;
use fsb_store::owner::{self, result_owner};
use fsb_testbed::fs::{self, Home};

use super::plan_text::{is_plan, read_plan};
use super::settings::{SettingArguments, TakesSettings};
use crate::results::print;
use crate::run::coordinator;
use crate::run::record::make_programs_absolute;
use crate::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  fsb export fio --suite quick               for any directory: quick-fio/
  fsb export fio ext4 xfs --size 1G -o jobs  on the targets of 'fsb run'
  fsb export fio database.toml               the workloads of a plan";

/// Export a plan for another tool, such as fio
///
/// Writes the job files of the tool and a script that makes, mounts and removes the targets with
/// the commands that fsb uses. Each case does what fsb measures, from the same starting state. fsb
/// names the cases that the tool cannot run, with the reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(|argument| argument.help_heading(None::<&'static str>)))]
#[command(override_usage = "fsb export [OPTIONS] TOOL [NAME=]TARGET… | PLAN.toml")]
pub struct Arguments {
    /// Tool to export for; see 'fsb list exporters'
    #[arg(value_name = "TOOL", hide_short_help = true)]
    tool: String,
    /// File system, directory or plan, as for 'fsb run'
    #[arg(value_name = "TARGET", hide_short_help = true)]
    targets: Vec<String>,
    #[command(flatten)]
    settings: SettingArguments<ExportSettings>,
    /// Units of each case
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    units: u64,
    /// Directory of the exported files [default: PLAN-TOOL]
    #[arg(short = 'o', long = "output-dir", value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The settings of `fsb export`.
#[derive(Debug)]
enum ExportSettings {}

impl TakesSettings for ExportSettings {
    const COMMAND: SettingCommand = SettingCommand::Export;
    const ABOUT: &'static [(&'static str, &'static str)] = &[
        ("suite", "Suite to export; see 'fsb list suites'"),
        ("dir", "Directory in which the script makes images"),
    ];
}

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    check_tool(&arguments.tool)?;
    if let Some(output) = &arguments.output {
        check_output(output)?;
    }
    let (units, output) = (arguments.units, arguments.output.clone());
    let plan = plan(arguments)?;
    let cpus = coordinator::cpus_for(&plan.controls);
    let request = request_of(plan.resolve(cpus, coordinator::fresh_seed())?, units)?;
    let export = fio::export(&request);
    if export.rows == 0 {
        let (label, why) = &export.left_out[0];
        return Err(failure::error(
            &code::PLAN_UNFIT,
            format!("fio can run none of the cases: {label}: {why}; choose another --suite"),
        ));
    }
    let directory = output.unwrap_or_else(|| PathBuf::from(format!("{}-fio", request.name)));
    let made = result_owner()
        .act(|| std::fs::create_dir_all(&directory))
        .and_then(|made| made);
    made.map_err(|error| {
        failure::failed_call(
            &code::OUTPUT_FAILED,
            &error,
            format!("cannot make {}: {error}", directory.display()),
        )
    })?;
    export
        .files
        .iter()
        .try_for_each(|file| write(&directory, file))?;
    print(&told(&export, &directory))?;
    Ok(exit::DONE)
}

/// Refuses a file: an export has several.
fn check_output(output: &Path) -> anyhow::Result<()> {
    let is_file = output.is_file()
        || output
            .extension()
            .is_some_and(|end| end == "fio" || end == "sh");
    match is_file {
        true => Err(failure::advised(
            &code::DIRECTORY,
            format!("-o {}: an export has several files", output.display()),
            "name a directory: -o jobs",
        )),
        false => Ok(()),
    }
}

fn check_tool(name: &str) -> anyhow::Result<()> {
    if name == "fio" {
        return Ok(());
    }
    let help = if fsb_testbed::fs::find(name).is_ok() {
        format!("fsb export fio {name}")
    } else {
        "fsb export fio --suite quick".to_owned()
    };
    Err(failure::advised(
        &code::INVALID_VALUE,
        nearest::unknown("tool", name, ["fio"]),
        format!("the tool comes first: {help}"),
    ))
}

/// Returns the command line laid over the plan file, if one is named.
fn plan(arguments: Arguments) -> anyhow::Result<PlanFile> {
    let (files, targets): (Vec<_>, Vec<_>) = arguments
        .targets
        .into_iter()
        .partition(|text| is_plan(text));
    let under = match files.as_slice() {
        [] => PlanFile::default(),
        [file] => read_plan(Path::new(file))?,
        _ => {
            return Err(failure::error(
                &code::SEVERAL_PLANS,
                "more than one plan: name one .toml file",
            ));
        }
    };
    let over = PlanFile {
        targets: targets.iter().map(|text| typed(text)).collect(),
        settings: arguments.settings.given,
        ..PlanFile::default()
    };
    if let Some(device) = targets
        .iter()
        .find(|text| text.starts_with("/dev/") && !Path::new(text).is_dir())
    {
        return Err(failure::advised(
            &fsb_model::error::NO_DIRECTORY,
            format!("{device} is not a directory"),
            format!("name the file system of the device: ext4@{device}"),
        ));
    }
    let mut plan = over.over(under);
    if plan.targets.is_empty() {
        // The working directory, whichever that is when the script runs.
        plan.targets.push(typed("."));
    }
    Ok(plan)
}

fn write(directory: &Path, file: &ExportFile) -> anyhow::Result<()> {
    let path = directory.join(&file.name);
    owner::replace(&path, file.text.as_bytes())?;
    if file.is_program {
        let set = result_owner()
            .act(|| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)))
            .and_then(|set| set);
        set.map_err(|error| {
            failure::failed_call(
                &code::OUTPUT_FAILED,
                &error,
                format!("cannot make {} a program: {error}", path.display()),
            )
        })?;
    }
    Ok(())
}

/// Describes the files that were written and the cases that were left out.
fn told(export: &Export, directory: &Path) -> String {
    let columns = terminal::columns(std::io::stdout());
    let all = export.rows + export.left_out.len();
    let mut text = String::new();
    for file in &export.files {
        let path = directory.join(&file.name);
        let about = if file.is_program {
            "formats, mounts and removes the targets".to_owned()
        } else {
            format!("{} of {all} cases", export.rows)
        };
        text += &format!(
            "{}\n",
            entry(&format!("{}: ", path.display()), &about, columns)
        );
    }
    if !export.left_out.is_empty() {
        text += "\nLeft out:\n";
    }
    for (label, why) in &export.left_out {
        text += &format!("{}\n", entry(&format!("  {label}: "), why, columns));
    }
    text
}

// Converts a resolved plan to a request for exporters.

/// Returns the request to another tool for the cases of the plan, each with `units` units.
fn request_of(resolved: Resolved, units: u64) -> anyhow::Result<ExportRequest> {
    let Resolved {
        mut plan,
        work,
        placement,
    } = resolved;
    if plan.place == Place::Vm {
        return Err(failure::error(
            &code::PLAN_UNFIT,
            "a plan for a virtual machine cannot be exported: the script works on this machine",
        ));
    }
    for target in &mut plan.targets {
        if let TargetKind::FileSystem(spec) = &mut target.kind {
            make_programs_absolute(spec)?;
        }
    }
    let image = placement.divided().map_or(plan.size.0, |(_, part)| part);
    let like_disk = (!plan.mkfs_defaults).then_some(plan.like_disk.0);
    let targets = plan
        .targets
        .iter()
        .map(|target| recipe(target, image, like_disk))
        .collect::<anyhow::Result<_>>()?;
    Ok(ExportRequest {
        name: export_name(&plan),
        author: format!("fsb {}", env!("CARGO_PKG_VERSION")),
        seed: plan.seed,
        units,
        space: image,
        dir: plan.dir.to_string_lossy().into_owned(),
        rows: work.cells.iter().map(export_case).collect(),
        targets,
    })
}

/// A plan may be called anything; files are not.
fn export_name(plan: &Plan) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = plan.name.chars().map(plain).take(60).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() {
        "plan".to_owned()
    } else {
        name.to_owned()
    }
}

fn export_case(parsed: &ParsedCell) -> ExportCase {
    let ParsedCell {
        cell,
        profile,
        unit,
        ..
    } = parsed;
    let whole = Piece {
        workload: cell.workload.clone(),
        operations: profile.operations,
        space: profile.space,
    };
    let unit = unit.as_ref().map(|unit| UnitPiece {
        piece: Piece {
            workload: unit.workload.clone(),
            operations: unit.operations,
            space: unit.space,
        },
        own_files: unit.own_files,
    });
    ExportCase {
        label: cell.label.clone(),
        whole,
        unit,
    }
}

fn recipe(target: &Target, image: u64, like_disk: Option<u64>) -> anyhow::Result<TargetRecipe> {
    let spec = match &target.kind {
        TargetKind::Directory(path) => {
            let made = Made::Directory(path.to_string_lossy().into_owned());
            return Ok(TargetRecipe {
                name: target.name.clone(),
                made,
            });
        }
        TargetKind::FileSystem(spec) => spec,
    };
    if !spec.tune.is_empty() || spec.journal.is_some() {
        let why = "the script makes no external journals and changes no file systems after mkfs";
        let made = Made::LeftOut(why.to_owned());
        return Ok(TargetRecipe {
            name: target.name.clone(),
            made,
        });
    }
    let is_served = !fs::of_target(spec)?.by_hand(&spec.options).is_empty();
    if is_served {
        let made = Made::LeftOut("the script starts no servers".to_owned());
        return Ok(TargetRecipe {
            name: target.name.clone(),
            made,
        });
    }
    let on_image = matches!(spec.medium.name.as_str(), "loop" | "ram");
    let fs::Recipe { mkfs, mount, home } = fs::recipe(spec, image, !on_image, like_disk)?;
    let source = match (home, spec.medium.name.as_str(), &spec.medium.argument) {
        (Home::Memory | Home::Nowhere, ..) => Some(Source::Word(spec.fs.clone())),
        (Home::Device, "loop", _) => Some(Source::Image {
            bytes: image,
            in_memory: false,
        }),
        (Home::Device, "ram", _) => Some(Source::Image {
            bytes: image,
            in_memory: true,
        }),
        (Home::Device, "device", Some(path)) => Some(Source::Device(path.clone())),
        (Home::Device | Home::Host, ..) => None,
    };
    let made = match source {
        Some(source) => Made::FileSystem {
            mkfs,
            mount,
            source,
        },
        None => Made::LeftOut(format!("the script cannot assemble @{}", spec.medium)),
    };
    Ok(TargetRecipe {
        name: target.name.clone(),
        made,
    })
}
