//! Converts a resolved plan to a request for exporters.

use fsb_compat::export::{ExportCase, Made, Piece, Request, Source, TargetRecipe, UnitPiece};
use fsb_model::{Place, Plan, Target, TargetKind};
use fsb_runner::plan_file::Resolved;
use fsb_runner::work::ParsedCell;
use fsb_testbed::fs::{self, Home};

use crate::{code, exit};

/// Returns the request to another tool for the cases of the plan, each with `units` units.
pub(super) fn of(resolved: Resolved, units: u64) -> anyhow::Result<Request> {
    let Resolved { plan, work, placement } = resolved;
    if plan.place == Place::Vm {
        return Err(exit::failure(
            &code::PLAN_UNFIT,
            "a plan for a virtual machine cannot be exported: the script works on this machine",
        ));
    }
    let image = placement.divided().map_or(plan.size.0, |(_, part)| part);
    let targets =
        plan.targets.iter().map(|target| recipe(target, image, !plan.mkfs_defaults)).collect::<anyhow::Result<_>>()?;
    Ok(Request {
        name: name(&plan),
        author: format!("fsb {}", env!("CARGO_PKG_VERSION")),
        seed: plan.seed,
        units,
        space: image,
        dir: plan.dir.to_string_lossy().into_owned(),
        rows: work.cells.iter().map(row).collect(),
        targets,
    })
}

/// A plan may be called anything; files are not.
fn name(plan: &Plan) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = plan.name.chars().map(plain).take(60).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "plan".to_owned() } else { name.to_owned() }
}

fn row(parsed: &ParsedCell) -> ExportCase {
    let ParsedCell { cell, profile, unit } = parsed;
    let whole = Piece { workload: cell.workload.clone(), operations: profile.operations, space: profile.space };
    let unit = unit.as_ref().map(|unit| UnitPiece {
        piece: Piece { workload: unit.workload.clone(), operations: unit.operations, space: unit.space },
        own_files: unit.own_files,
    });
    ExportCase { label: cell.label.clone(), whole, unit }
}

fn recipe(target: &Target, image: u64, like_large: bool) -> anyhow::Result<TargetRecipe> {
    let spec = match &target.kind {
        TargetKind::Directory(path) => {
            let made = Made::Directory(path.to_string_lossy().into_owned());
            return Ok(TargetRecipe { name: target.name.clone(), made });
        }
        TargetKind::FileSystem(spec) => spec,
    };
    let on_image = matches!(spec.medium.name.as_str(), "loop" | "ram");
    let fs::Recipe { mkfs, mount, home } = fs::recipe(spec, image, !on_image, like_large)?;
    let source = match (home, spec.medium.name.as_str(), &spec.medium.argument) {
        (Home::Memory | Home::Nowhere, ..) => Some(Source::Word(spec.fs.clone())),
        (Home::Device, "loop", _) => Some(Source::Image { bytes: image, in_memory: false }),
        (Home::Device, "ram", _) => Some(Source::Image { bytes: image, in_memory: true }),
        (Home::Device, "device", Some(path)) => Some(Source::Device(path.clone())),
        (Home::Device, ..) => None,
    };
    let made = match source {
        Some(source) => Made::FileSystem { mkfs, mount, source },
        None => Made::LeftOut(format!("the script cannot assemble @{}", spec.medium)),
    };
    Ok(TargetRecipe { name: target.name.clone(), made })
}
