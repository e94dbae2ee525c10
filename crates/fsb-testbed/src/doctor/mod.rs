//! Checks of this machine: what it can measure, which file systems it can make and mount, the current value of each
//! control, and sources of interference. The checks change nothing.

mod finding;
mod load;
mod scheduled_jobs;

use std::path::Path;

use fsb_model::units::show_bytes;
use fsb_model::workload::ProgramLimits;
use fsb_sys::cgroup::{Hierarchy, PROCESSES};
use fsb_sys::{Roots, magic, program};

use crate::control::{self, Control, Scope, TargetDevice};
use crate::fs::{self, FileSystem};
use crate::ledger::{self, Entry};
use crate::local::place_of_directory;
use crate::{host, lock, privilege};
use finding::finding;
pub use finding::{Finding, State};
pub use load::listen;

/// Checks all that a run needs besides its [`file_systems`], for images in `dir`.
pub fn examine(dir: &Path) -> Vec<Finding> {
    let roots = Roots::default();
    let mut findings = vec![privileges()];
    findings.push(loop_devices());
    findings.push(image_directory(dir));
    findings.push(signature_tools());
    findings.push(command_limits(&roots));
    findings.extend(controls(dir, &roots));
    findings.extend(surroundings(&roots));
    findings.extend(battery(&roots));
    findings.extend(scheduled_jobs::soon(&roots));
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

/// Checks for a program that can detect signatures. Without one, fsb never considers a block device empty.
fn signature_tools() -> Finding {
    match ["wipefs", "blkid"].iter().find(|name| program::find(name).is_some()) {
        Some(name) => finding("block devices", State::Ok, format!("{name} can detect whether a device is empty"), ""),
        None => {
            let advice = "install the package util-linux (apt-get install util-linux)";
            finding("block devices", State::Warning, "wipefs and blkid are missing: every device is refused", advice)
        }
    }
}

/// Reports how fsb counts the processes of commands. Without a cgroup or a user namespace, the limit counts all
/// processes of the user.
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
        // Some sources only show that there is a hypervisor, not its name.
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

/// Returns whether a program is on PATH or in the administrators' directories.
pub fn has_program(name: &str) -> bool {
    program::find(name).is_some()
}

/// Reports whether the machine runs on battery. Returns `None` if it has no battery.
fn battery(roots: &Roots) -> Option<Finding> {
    let entries = std::fs::read_dir(roots.sys.join("class/power_supply")).into_iter().flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let text = |name: &str, file: &str| roots.sys_text(&format!("class/power_supply/{name}/{file}"));
    // Mice and headsets have batteries too.
    let of_machine = |name: &&String| text(name, "scope").is_none_or(|scope| scope != "Device");
    let batteries: Vec<&String> = names
        .iter()
        .filter(of_machine)
        .filter(|name| text(name, "type").is_some_and(|kind| kind == "Battery"))
        .collect();
    let state = |name: &&&String| text(name, "status").is_some_and(|status| status == "Discharging");
    let unplugged = batteries.iter().find(state);
    match (unplugged, batteries.is_empty()) {
        (_, true) => None,
        (None, _) => Some(finding("power", State::Ok, "plugged in", "")),
        (Some(name), _) => {
            let left = text(name, "capacity").map(|percent| format!(", {percent} % left")).unwrap_or_default();
            let text = format!("on battery ({name}{left}): frequencies and disks are slowed down to save power");
            Some(finding("power", State::Warning, text, "plug the machine in"))
        }
    }
}

/// Checks every control. Controls of devices are shown for the disk under `dir`.
fn controls(dir: &Path, roots: &Roots) -> Vec<Finding> {
    let disk = place_of_directory(dir);
    let entries = ledger::default_directory()
        .map(|directory| ledger::leftovers(&directory, crate::control::RULES))
        .unwrap_or_default();
    let live: Vec<Entry> =
        entries.into_iter().filter_map(|(_, entry)| entry.ok()).filter(|entry| entry.owner.is_alive()).collect();
    control::REGISTRY.iter().map(|member| look(*member, &disk, &live, roots)).collect()
}

fn look(member: &dyn Control, disk: &TargetDevice, live: &[Entry], roots: &Roots) -> Finding {
    let name = member.name();
    let now = match member.scope() {
        Scope::Visit if disk.device.is_some() && member.concerns_device() => {
            format!("{} under --dir; set on the target's own device", member.observe(roots, disk))
        }
        Scope::Visit if member.concerns_device() => "set on the target's own device".to_owned(),
        _ => member.observe(roots, &TargetDevice::default()),
    };
    if let Some(entry) = live.iter().find(|entry| entry.control.as_deref() == Some(name)) {
        let text = format!("set by a running fsb (process {}): {now}", entry.owner.pid);
        return finding(name, State::Ok, text, "");
    }
    match (member.probe(roots).map_err(String::from), member.interferes(roots)) {
        (Ok(()), None) => finding(name, State::Ok, format!("available: {now}"), ""),
        (Ok(()), Some(why)) => finding(name, State::Warning, format!("available: {now}: {}", why.what), why.advice),
        // A control without anything to do here is not a defect.
        (Err(why), _) if why.ends_with("nothing to do") => finding(name, State::Ok, why, ""),
        (Err(why), _) if rustix::process::geteuid().is_root() || !root_would_help(&why) => {
            finding(name, State::Absent, format!("{why}; a run with this control warns and continues without it"), "")
        }
        (Err(why), _) => finding(name, State::Warning, format!("not available: {why}"), privilege::advice()),
    }
}

/// Returns whether a probe failed for lack of privileges. Root does not help if the machine lacks the feature.
fn root_would_help(why: &str) -> bool {
    ["only root", "Permission denied", "cannot be written"].iter().any(|sign| why.contains(sign))
}

/// The support for a file system on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// Its name in targets.
    pub name: &'static str,
    /// The version that its mkfs program prints. `None` if it needs no mkfs program or the program is missing.
    pub version: Option<String>,
    /// Programs that are missing, and the Debian package that contains them. A virtual machine needs them, too.
    pub programs: Option<(Vec<String>, &'static str)>,
    /// Whether the kernel has the driver loaded. It may also be available as a module that is not loaded.
    pub driver: bool,
    /// Modules that contain the driver in another kernel.
    pub modules: &'static [&'static str],
}

impl Support {
    /// Whether it can be measured on this machine.
    pub fn is_here(&self) -> bool {
        self.programs.is_none() && self.driver
    }
}

/// Checks every file system that needs a kernel driver.
pub fn file_systems() -> Vec<Support> {
    let roots = Roots::default();
    fs::REGISTRY.iter().filter_map(|member| support(*member, &roots)).collect()
}

fn support(member: &dyn FileSystem, roots: &Roots) -> Option<Support> {
    let driver = member.driver()?;
    let missing = member.tools().map(|tools| (fs::missing_programs(tools), tools.package));
    let names = |all: Vec<std::path::PathBuf>| all.iter().map(|name| name.display().to_string()).collect();
    Some(Support {
        name: member.name(),
        version: member.tools().and_then(fs::version),
        programs: missing.filter(|(all, _)| !all.is_empty()).map(|(all, package)| (names(all), package)),
        driver: fs::kernel_has(roots, driver),
        modules: member.modules(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control;
    use crate::ledger::{Action, Owner};

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

    #[test]
    fn only_a_battery_of_the_machine_that_empties_is_a_warning() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots { proc: tree.path().to_owned(), sys: tree.path().to_owned() };
        assert_eq!(battery(&roots), None);
        let supply = |name: &str, files: &[(&str, &str)]| {
            let directory = tree.path().join("class/power_supply").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            for (file, text) in files {
                std::fs::write(directory.join(file), text).unwrap();
            }
        };
        supply("AC", &[("type", "Mains\n"), ("online", "0\n")]);
        supply("mouse", &[("type", "Battery\n"), ("scope", "Device\n"), ("status", "Discharging\n")]);
        assert_eq!(battery(&roots), None);
        supply("BAT0", &[("type", "Battery\n"), ("status", "Full\n"), ("capacity", "100\n")]);
        assert_eq!(battery(&roots).unwrap().state, State::Ok);
        supply("BAT0", &[("status", "Discharging\n"), ("capacity", "41\n")]);
        let found = battery(&roots).unwrap();
        assert_eq!(found.state, State::Warning);
        assert!(found.text.contains("BAT0, 41 % left"), "{found:?}");
    }

    #[test]
    fn settings_of_a_running_fsb_are_reported() {
        let action = Action::WriteFile { path: "/sys/x".into(), value: "1".to_owned() };
        let owner = Owner { pid: 7, start_time: 1 };
        let entry = Entry { boot_id: "b".to_owned(), owner, control: Some("dirty-ratio".to_owned()), action };
        let control = control::find("dirty-ratio").unwrap();
        let found = look(control, &TargetDevice::default(), &[entry], &Roots::default());
        assert!(found.text.starts_with("set by a running fsb (process 7): "), "{found:?}");
        assert_eq!(found.state, State::Ok);
        let found = look(control, &TargetDevice::default(), &[], &Roots::default());
        assert!(found.text.contains("available: "), "{found:?}");
    }

    #[test]
    fn missing_features_are_reported_with_their_reason() {
        let nothing = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
        let found = look(control::find("governor").unwrap(), &TargetDevice::default(), &[], &nothing);
        assert!(found.text.starts_with("no cpufreq"), "{found:?}");
        assert_eq!((found.state, &found.advice[..]), (State::Absent, ""), "whoever asks: {found:?}");
    }

    #[test]
    fn every_file_system_of_a_kernel_is_there_once() {
        let found = file_systems();
        for member in fs::REGISTRY {
            let count = found.iter().filter(|support| support.name == member.name()).count();
            assert_eq!(count, usize::from(member.driver().is_some()), "{}", member.name());
        }
    }

    #[test]
    fn a_missing_driver_is_not_reported_as_a_missing_program() {
        let roots = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
        let found = support(fs::find("tmpfs").unwrap(), &roots).unwrap();
        assert!(!found.driver && found.programs.is_none() && !found.is_here());
    }
}
