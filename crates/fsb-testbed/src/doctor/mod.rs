//! What this machine can measure, and what would disturb a run. Nothing is changed by looking.

mod controls;
mod due;
mod file_systems;
mod finding;
mod load;
mod power;

use std::path::Path;

use fsb_model::units::show_bytes;
use fsb_model::workload::ProgramLimits;

use crate::ledger;
use crate::privilege;
use crate::sys::cgroup::{Hierarchy, PROCESSES};
use crate::sys::{Roots, magic, program};
use crate::{host, lock};

pub use file_systems::{Support, file_systems};
use finding::finding;
pub use finding::{Finding, State};
pub use load::listen;

/// Looks at everything that a run needs beside its [`file_systems`], for images in `dir`.
pub fn examine(dir: &Path) -> Vec<Finding> {
    let roots = Roots::default();
    let mut findings = vec![privileges()];
    findings.push(loop_devices());
    findings.push(image_directory(dir));
    findings.push(signature_tools());
    findings.push(command_limits(&roots));
    findings.extend(controls::examine(dir, &roots));
    findings.extend(surroundings(&roots));
    findings.extend(power::battery(&roots));
    findings.extend(due::soon(&roots));
    findings.push(lock_holder());
    findings.push(undo_entries());
    findings
}

fn privileges() -> Finding {
    if rustix::process::geteuid().is_root() {
        finding("privileges", State::Ok, "root: file systems can be made and mounted", "")
    } else {
        let text = "not root: directories can be measured, file systems cannot be made";
        finding("privileges", State::Warning, text, privilege::advice())
    }
}

fn loop_devices() -> Finding {
    let control = Path::new("/dev/loop-control");
    if rustix::fs::access(control, rustix::fs::Access::WRITE_OK | rustix::fs::Access::READ_OK).is_ok() {
        finding("loop devices", State::Ok, "can be attached", "")
    } else if control.exists() {
        finding("loop devices", State::Warning, "/dev/loop-control cannot be opened", privilege::advice())
    } else {
        let advice = "modprobe loop, or give the container /dev/loop-control and loop devices";
        finding("loop devices", State::Missing, "/dev/loop-control is not there", advice)
    }
}

fn image_directory(dir: &Path) -> Finding {
    let topic = "image directory";
    let shown = dir.display();
    let Ok(stat) = rustix::fs::statvfs(dir) else {
        return finding(topic, State::Missing, format!("{shown} cannot be used"), "name another with --dir");
    };
    if !dir.is_dir() {
        return finding(topic, State::Missing, format!("{shown} is not a directory"), "name another with --dir");
    }
    if magic::is_memory(dir) {
        let text = format!("{shown} is in memory: no image can be measured there");
        return finding(topic, State::Missing, text, "name a directory on a disk with --dir, or use @ram");
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        return finding(topic, State::Missing, format!("{shown} cannot be written to"), "name another with --dir");
    }
    let (free, total) = (stat.f_bavail * stat.f_frsize, (stat.f_blocks * stat.f_frsize).max(1));
    let text = format!("{} free in {shown}", show_bytes(free as f64));
    if free < total / 20 {
        let advice = "free some space: file systems that are nearly full are slow";
        return finding(topic, State::Warning, format!("{text}, it is nearly full"), advice);
    }
    finding(topic, State::Ok, text, "")
}

/// Without one of them no block device is ever taken for empty.
fn signature_tools() -> Finding {
    match ["wipefs", "blkid"].iter().find(|name| program::find(name).is_some()) {
        Some(name) => finding("block devices", State::Ok, format!("{name} can detect whether a device is empty"), ""),
        None => {
            let advice = "install the package util-linux (apt-get install util-linux)";
            finding("block devices", State::Warning, "wipefs and blkid are missing: every device is refused", advice)
        }
    }
}

/// Says how the processes of commands are counted. Limits of processes count per user where nothing else does.
fn command_limits(roots: &Roots) -> Finding {
    let most = ProgramLimits::default().processes;
    let text = |counted: &str| format!("each may have {most} processes, {counted}");
    let cgroup = Hierarchy::find(roots, PROCESSES).ok().filter(|found| found.enable.is_none());
    let namespaces = roots.proc_text("sys/user/max_user_namespaces").is_some_and(|most| most != "0");
    match (cgroup, namespaces) {
        (Some(found), _) => {
            finding("commands", State::Ok, text(&format!("counted by {}", found.version.mechanism())), "")
        }
        (None, true) => finding("commands", State::Ok, text("counted by its user namespace (no pids cgroup)"), ""),
        (None, false) => {
            let advice = "allow user namespaces (sysctl user.max_user_namespaces), or give the container a pids cgroup";
            finding("commands", State::Warning, text("counted with all others of the same user"), advice)
        }
    }
}

fn surroundings(roots: &Roots) -> Vec<Finding> {
    let manifest = host::manifest_at(roots);
    let mut findings = Vec::new();
    if let Some(hypervisor) = manifest.hypervisor {
        // What only says that there is one has no name.
        let name = if hypervisor == "yes" { String::new() } else { format!(" ({hypervisor})") };
        let text = format!("a virtual machine{name}: others may share its processors and disks");
        findings.push(finding("virtual machine", State::Warning, text, "compare only results of the same machine"));
    }
    if let Some(container) = manifest.container {
        let text = format!("inside a container ({container}): others share the kernel");
        findings.push(finding("container", State::Warning, text, "measure outside where that is possible"));
    }
    findings
}

fn lock_holder() -> Finding {
    match lock::current_holder() {
        Some(holder) => {
            let text = format!("another fsb measures now: {holder}");
            finding("other runs", State::Warning, text, "wait for it to end")
        }
        None => finding("other runs", State::Ok, "none", ""),
    }
}

fn undo_entries() -> Finding {
    let entries = ledger::default_directory()
        .map(|directory| ledger::leftovers(&directory, crate::control::RULES))
        .unwrap_or_default();
    let dead: Vec<String> = entries
        .into_iter()
        .filter_map(|(file, entry)| match entry {
            Ok(entry) if entry.owner.is_alive() => None,
            Ok(entry) => Some(entry.action.to_string()),
            Err(why) => Some(format!("{} cannot be undone ({why})", file.display())),
        })
        .collect();
    match dead[..] {
        [] => finding("undo ledger", State::Ok, "nothing is left to undo", ""),
        _ => finding(
            "undo ledger",
            State::Warning,
            format!("left by a killed run: {}", dead.join("; ")),
            "run 'fsb clean'",
        ),
    }
}

/// Whether a program is on PATH or in the administrators' directories.
pub fn has_program(name: &str) -> bool {
    program::find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control;

    #[test]
    fn every_control_is_looked_at() {
        let findings = examine(Path::new("/"));
        let topics: Vec<_> = findings.iter().map(|finding| finding.topic.as_str()).collect();
        for member in control::REGISTRY {
            assert!(topics.contains(&member.name()), "{}", member.name());
        }
        for finding in &findings {
            assert!(!finding.text.is_empty() && !finding.text.contains('\n'), "{finding:?}");
            let is_fine = matches!(finding.state, State::Ok | State::Absent);
            assert!(is_fine || !finding.advice.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn directories_without_a_disk_are_said() {
        assert_eq!(image_directory(Path::new("/nonexistent")).state, State::Missing);
        assert!(!image_directory(Path::new("/")).text.is_empty());
    }
}
