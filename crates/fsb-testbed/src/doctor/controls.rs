//! The controls, a line each: available, set by a run, or why not; and how the condition is now.

use std::path::Path;

use super::{Finding, State, finding};
use crate::control::{self, Control, Scope, TargetDevice};
use crate::ledger::{self, Entry};
use crate::local::place_of_directory;
use crate::privilege;
use crate::sys::Roots;

/// Looks at every control; those of devices are shown for the disk under `dir`.
pub(super) fn examine(dir: &Path, roots: &Roots) -> Vec<Finding> {
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
    match (member.probe(roots).map_err(String::from), member.disturbs(roots)) {
        (Ok(()), None) => finding(name, State::Ok, format!("available: {now}"), ""),
        (Ok(()), Some(why)) => finding(name, State::Warning, format!("available: {now}: {}", why.what), why.advice),
        // What a machine has no use for is no defect.
        (Err(why), _) if why.ends_with("nothing to do") => finding(name, State::Ok, why, ""),
        (Err(why), _) if rustix::process::geteuid().is_root() || !root_would_help(&why) => {
            finding(name, State::Absent, format!("{why}; a run with this control warns and continues without it"), "")
        }
        (Err(why), _) => finding(name, State::Warning, format!("not available: {why}"), privilege::advice()),
    }
}

/// Whether a probe failed for want of privileges; what the machine lacks, it lacks for root, too.
fn root_would_help(why: &str) -> bool {
    ["only root", "Permission denied", "cannot be written"].iter().any(|sign| why.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Action, Owner};

    #[test]
    fn what_a_running_fsb_set_is_said() {
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
    fn what_the_machine_lacks_is_said_with_its_reason() {
        let nothing = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
        let found = look(control::find("governor").unwrap(), &TargetDevice::default(), &[], &nothing);
        assert!(found.text.starts_with("no cpufreq"), "{found:?}");
        assert_eq!((found.state, &found.advice[..]), (State::Absent, ""), "whoever asks: {found:?}");
    }
}
