//! QEMU as a program of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsb_testbed::TestbedError;

/// Its architecture's program with what it says of its version, or the package that brings it.
pub(super) fn version() -> Result<String, TestbedError> {
    let name = format!("qemu-system-{}", std::env::consts::ARCH);
    let package = match std::env::consts::ARCH {
        "x86_64" => "qemu-system-x86",
        "aarch64" | "arm" => "qemu-system-arm",
        _ => "qemu-system-misc",
    };
    let missing = || {
        TestbedError::machine("a virtual machine needs QEMU, and the program is missing")
            .tried(format!("looked for {name} on PATH"))
            .advice(format!("apt-get install {package}"))
    };
    let program = find(&name).ok_or_else(missing)?;
    let answer = Command::new(&program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let answer = answer.map_err(|error| {
        TestbedError::machine(format!("{} cannot be executed", program.display()))
            .tried(error.to_string())
            .advice(format!("apt-get install --reinstall {package}"))
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = [Path::new("/usr/bin"), Path::new("/usr/local/bin")].map(Path::to_owned);
    std::env::split_paths(&path).chain(known).map(|directory| directory.join(name)).find(|program| program.is_file())
}
