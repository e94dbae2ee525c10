//! From a plan back to a file.

use fsb_model::{Place, Plan, Repetition};
use toml::Spanned;

use super::error::PlanError;
use super::{PlanFile, RepetitionFile, typed};
use crate::target_file::TargetFile;

/// Returns the resolved plan as a file that resolves to it again. `--print-plan` prints it.
pub fn print(plan: &Plan) -> Result<String, PlanError> {
    let repetition = match plan.repetition {
        Repetition::Budget { seconds } => {
            RepetitionFile { budget: Some(format!("{seconds}s")), ..RepetitionFile::default() }
        }
        Repetition::Blocks { blocks, seconds } => RepetitionFile {
            blocks: Some(blocks),
            budget: seconds.map(|seconds| format!("{seconds}s")),
            ..RepetitionFile::default()
        },
        Repetition::Precision { half_width, seconds } => RepetitionFile {
            precision: Some(format!("{}%", half_width * 100.0)),
            budget: Some(format!("{seconds}s")),
            ..RepetitionFile::default()
        },
    };
    let repetition =
        RepetitionFile { sample_time: plan.sample_time.map(|seconds| format!("{seconds}s")), ..repetition };
    let file = PlanFile {
        name: Some(plan.name.clone()),
        targets: plan.targets.iter().map(|target| Spanned::new(0..0, TargetFile::of(target))).collect(),
        seed: Some(plan.seed),
        one_at_a_time: plan.one_at_a_time,
        risky: plan.risky,
        mkfs_defaults: plan.mkfs_defaults,
        size: Some(plan.size),
        scaled: (plan.scale != 1.0).then(|| typed(&plan.scale.to_string())),
        dir: Some(plan.dir.clone()),
        theta: Some(typed(&format!("{}%", plan.theta * 100.0))),
        repetition,
        controls: plan.controls.clone(),
        workloads: plan.workloads.clone(),
        place: (plan.place != Place::Host).then(|| typed(plan.place.name())),
        kernels: plan.kernels.iter().map(|text| typed(text)).collect(),
        memory: plan.vm.map(|vm| vm.memory),
        cpus: plan.vm.map(|vm| vm.cpus),
        root: plan.root.clone(),
        ..PlanFile::default()
    };
    toml::to_string(&file).map_err(|error| PlanError::Request(format!("cannot print the plan: {error}")))
}
