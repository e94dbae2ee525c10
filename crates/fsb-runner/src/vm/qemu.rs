//! QEMU as a program of this machine.

use std::process::{Command, Stdio};

use fsb_testbed::TestbedError;
use fsb_vm::machine::{Architecture, find_qemu};

/// Returns the version that QEMU prints. The error of a missing program names its package.
pub(super) fn version() -> Result<String, TestbedError> {
    let program = find_qemu(Architecture::HERE)?;
    let answer = Command::new(&program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let answer = answer.map_err(|error| {
        TestbedError::machine(format!("{} cannot be executed", program.display()))
            .tried(error.to_string())
            .advice("install it again")
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
