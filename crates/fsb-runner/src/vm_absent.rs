//! Replaces the module `vm` in a build without virtual machines: refuses every run in one.

use std::path::PathBuf;

use fsb_model::{Place, Plan, Warning};
use fsb_testbed::{Setup, TestbedError};

/// The argument that makes the binary the agent of a run in a virtual machine. No process gets it
/// here.
pub const VM_PROXY_ARGUMENT: &str = "__vm-proxy";

/// Returns the refusal, with the command that builds fsb with virtual machines.
pub fn not_built() -> TestbedError {
    TestbedError::machine("this fsb was built without virtual machines").advice(
        "build it with the feature vm, which is on by default: cargo build --release -p fsb",
    )
}

/// Refuses every run.
pub fn check(_: &Setup) -> Result<Vec<Warning>, TestbedError> {
    Err(not_built())
}

/// Leaves a plan for the host as it is and refuses one for a virtual machine.
pub fn pin(plan: &mut Plan) -> Result<(), TestbedError> {
    if plan.place == Place::Vm {
        Err(not_built())
    } else {
        Ok(())
    }
}

/// Refuses: this build knows no kernels.
pub fn releases(_: &[String]) -> Result<Vec<String>, TestbedError> {
    Err(not_built())
}

/// Returns `false`: no run can take place in a virtual machine.
pub fn is_available() -> bool {
    false
}

/// Refuses: this build caches no kernels.
pub fn cache_path() -> Result<PathBuf, TestbedError> {
    Err(not_built())
}

/// Does nothing: this build caches no kernels.
pub fn tidy() {}

/// Returns whether the text names a file instead of a release.
pub fn is_path(text: &str) -> bool {
    text.contains('/')
}
