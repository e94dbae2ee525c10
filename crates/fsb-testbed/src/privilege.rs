//! What somebody can do next who lacks the right to something.

use fsb_sys::program;

/// What a request that only root may make is refused with, for the front end to add the command that would do.
pub const NEEDS_ROOT: &str = "formatting needs root";

/// How to get root's rights: by what this machine has. Root who lacks them is told so, and not to become root.
pub fn advice() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root lacks this privilege here, as in most containers: run fsb outside, or add --in vm"
    } else if program::find("sudo").is_some() {
        "run with sudo"
    } else {
        "run as root: sudo is not installed"
    }
}

/// What begins a command that root's rights are needed for; absent for root, and where nothing gives them.
pub fn prefix() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root && program::find("sudo").is_some()).then_some("sudo")
}
