//! Advice for users who lack a privilege.

use fsb_sys::program;

/// The text of the error for a request that needs root. The command line adds the command that would work.
pub const NEEDS_ROOT: &str = "formatting needs root";

/// Returns advice on how to get root's privileges on this machine. Root in a container gets other advice than to become
/// root.
pub fn advice() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root lacks this privilege here, as in most containers: run fsb outside, or add --in vm"
    } else if program::find("sudo").is_some() {
        "run with sudo"
    } else {
        "run as root: sudo is not installed"
    }
}

/// Returns the prefix of a command that needs root's privileges. Returns `None` for root, and if sudo is missing.
pub fn prefix() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root && program::find("sudo").is_some()).then_some("sudo")
}
