//! Makes the setup of the testbed from a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsb_model::Plan;
use fsb_model::host::DeviceId;
use fsb_testbed::Setup;

/// Returns the setup for a plan with known devices, whose media are divided into `parts` slices.
pub(crate) fn setup_of(plan: &Plan, devices: &BTreeMap<PathBuf, DeviceId>, parts: u32) -> Setup {
    /// Share of a budget for preparing the machine.
    const PREPARING: f64 = 0.2;
    Setup {
        memory_needed: None,
        patience: plan.repetition.budget().map(|budget| budget.as_secs_f64() * PREPARING),
        targets: plan.targets.clone(),
        size: plan.size.0,
        dir: plan.dir.clone(),
        wipe: plan.wipe.clone(),
        devices: devices.clone(),
        controls: plan.controls.clone(),
        identity: plan.identity.clone(),
        seed: plan.seed,
        vm: plan.vm,
        kernels: plan.kernels.clone(),
        root: plan.root.clone(),
        oldest_kernel: None,
        large_disk: Default::default(),
        fault: None,
        parts,
    }
}
