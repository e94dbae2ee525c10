//! A laptop on battery saves power, and speed with it.

use super::{Finding, State, finding};
use crate::sys::Roots;

/// Whether the machine runs on battery; nothing where it has none.
pub(super) fn battery(roots: &Roots) -> Option<Finding> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
