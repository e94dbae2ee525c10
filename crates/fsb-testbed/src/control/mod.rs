//! The registry of controls: host conditions that fsb sets, observes and restores. Each control is
//! one file and one line in [`REGISTRY`].

mod active;
mod arc_limit;
mod barriers;
mod boost;
mod cpus;
mod dirty;
mod governor;
mod guest_memory;
mod idle;
mod interface;
mod kernel_cpus;
mod memory_hold;
pub mod memory_limit;
mod numa;
mod page_cache;
mod read_ahead;
mod scheduler;
mod services;
mod swap;
mod wbt;

use fsb_model::nearest;
use fsb_sys::error::TestbedError;

pub use active::Machine;
pub(crate) use active::{ActiveControls, check, check_place, check_target, value_of};
pub(crate) use arc_limit::ARC_LIMIT;
pub use idle::stay_awake;
pub(crate) use interface::check_declared;
pub use interface::{
    Applied, Context, Control, Held, KEEP, PossibleInterference, Scope, Stop, TargetDevice, Value,
};
pub use numa::processors_left;
pub use page_cache::ColdMethod;
pub(crate) use page_cache::{PAGE_CACHE, cold_method};
pub(crate) use read_ahead::after_mount as set_read_ahead;

use crate::ledger::Rules;

/// Every control that fsb has, in the order in which they are set.
pub static REGISTRY: &[&dyn Control] = &[
    &page_cache::PageCache,
    &services::Services,
    &swap::Swap,
    &governor::Governor,
    &boost::Boost,
    &idle::Idle,
    &dirty::DIRTY_RATIO,
    &dirty::DIRTY_BYTES,
    &dirty::DIRTY_BACKGROUND_RATIO,
    &dirty::DIRTY_BACKGROUND_BYTES,
    &dirty::DIRTY_EXPIRE,
    &dirty::DIRTY_WRITEBACK,
    &scheduler::Scheduler,
    &wbt::Wbt,
    // A change of the cache makes the kernel reset the read-ahead.
    &barriers::Barriers,
    &read_ahead::ReadAhead,
    &cpus::Cpus,
    &kernel_cpus::KernelCpus,
    &numa::Numa,
    &memory_limit::MemoryLimit,
    &arc_limit::ArcLimit,
    &guest_memory::GuestMemory,
];

/// The actions that the undo ledger accepts for each control.
pub const RULES: Rules = Rules(|name, action, roots| Ok(find(name)?.owns(action, roots)));

/// Returns the control of that name. The error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static dyn Control, TestbedError> {
    REGISTRY
        .iter()
        .copied()
        .find(|control| control.name() == name)
        .ok_or_else(|| {
            let near = nearest::nearest(name, REGISTRY.iter().map(|control| control.name()));
            let is_option = crate::fs::COMMON.iter().any(|option| option.name == name);
            let advice = match near {
                _ if is_option => format!("a mount option is part of a target: ext4,{name}"),
                Some(near) => format!("did you mean '{near}'? 'fsb list controls' shows all"),
                None => "'fsb list controls' shows all".to_owned(),
            };
            TestbedError::request(format!("unknown control '{}'", nearest::shortened(name)))
                .coded(&fsb_model::error::UNKNOWN_CONTROL)
                .field("control", name)
                .advice(advice)
        })
}

/// Returns the value that the name of a control alone requests: the value after `keep`, unless that
/// is a form such as `SIZE`.
pub fn value_of_name(name: &str) -> Result<&'static str, TestbedError> {
    let control = find(name)?;
    match control.values() {
        [default, usual, ..] if default.name == KEEP && !usual.stands_for_many() => Ok(usual.name),
        values => {
            let names: Vec<_> = values.iter().map(|value| value.name).collect();
            Err(
                TestbedError::request(format!("the control {name} needs a value"))
                    .coded(&fsb_model::error::CONTROL_VALUE)
                    .advice(format!("write {name}=VALUE: {}", names.join(", "))),
            )
        }
    }
}

/// Shared fixtures for tests of controls: a machine made of files.
#[cfg(test)]
pub(crate) mod testing {
    use std::path::PathBuf;

    use fsb_sys::{Roots, read_trimmed};

    use super::interface::{Applied, Context, Control, Held, TargetDevice};
    use crate::ledger::{EntryHandle, Ledger, Owner, leftovers};

    /// A tree with /proc and /sys, and a ledger beside it.
    pub(crate) struct Bench {
        tree: tempfile::TempDir,
        pub roots: Roots,
        pub place: TargetDevice,
        pub ledger: Ledger,
    }

    impl Bench {
        pub fn new() -> Bench {
            let tree = tempfile::tempdir().unwrap();
            let roots = Roots::below(tree.path());
            let ledger = Ledger::open(
                &tree.path().join("undo"),
                Owner::current(),
                crate::control::RULES,
            )
            .unwrap()
            .of_machine(&roots);
            Bench {
                roots,
                place: TargetDevice::default(),
                ledger,
                tree,
            }
        }

        /// Returns a machine whose target has a disk of its own.
        pub fn with_disk() -> Bench {
            let bench = Bench::new();
            bench.write("sys/devices/disk/size", "2048");
            Bench {
                place: TargetDevice {
                    device: Some(bench.path("sys/devices/disk")),
                    ..TargetDevice::default()
                },
                ..bench
            }
        }

        pub fn path(&self, path: &str) -> PathBuf {
            self.tree.path().join(path)
        }

        pub fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }

        pub fn read(&self, path: &str) -> String {
            read_trimmed(&self.path(path)).unwrap()
        }

        /// Sets a control, calls `look` with the result, and restores the control. Checks that
        /// nothing stays in the ledger.
        pub fn set(
            &self,
            control: &dyn Control,
            value: &str,
            look: impl FnOnce(&Applied, &[EntryHandle]),
        ) -> Held {
            let mut held = Held::default();
            let mut progress = |_| {};
            let mut context = Context::new(
                control.name(),
                &self.roots,
                &self.ledger,
                &mut progress,
                &self.place,
                &mut held,
            );
            let applied = control.set(value, &mut context).unwrap();
            let handles = context.into_tickets();
            assert_eq!(
                leftovers(&self.path("undo"), crate::control::RULES).len(),
                handles.len()
            );
            look(&applied, &handles);
            assert_eq!(control.restore(handles, &self.ledger), Vec::<String>::new());
            assert!(leftovers(&self.path("undo"), crate::control::RULES).is_empty());
            held
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fsb_sys::Roots;

    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn members_are_unique_and_described() {
        let roots = Roots::default();
        let mut names = std::collections::BTreeSet::new();
        for control in REGISTRY {
            let name = control.name();
            assert!(names.insert(name), "{name} twice");
            assert!(
                !control.about().is_empty() && !control.about().contains('\n'),
                "{name}"
            );
            assert!(!control.values().is_empty(), "{name} takes nothing");
            for value in control.values() {
                assert!(
                    !value.about.is_empty() && !value.about.contains('\n'),
                    "{name}={}",
                    value.name
                );
            }
            let default = &control.values()[0];
            assert!(
                !default.stands_for_many(),
                "the default of {name} is not a value"
            );
            check(&asked(&[(name, default.name)]), &roots).unwrap();
            assert_eq!(value_of(*control, &BTreeMap::new()), default.name);
            assert_eq!(value_of(*control, &asked(&[(name, "other")])), "other");
            assert!(
                !control.observe(&roots, &TargetDevice::default()).is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn nonsense_is_a_wrong_request_everywhere() {
        let roots = Roots {
            proc: "/nonexistent".into(),
            sys: "/nonexistent".into(),
        };
        for control in REGISTRY {
            for value in ["", "no such value!"] {
                let refused = control.check(value, &roots).unwrap_err();
                assert_eq!(
                    refused.kind,
                    crate::Kind::Request,
                    "{}={value}: {refused}",
                    control.name()
                );
            }
        }
    }

    #[test]
    fn slips_get_the_nearest_name() {
        let refusal = |name: &str, value: &str| {
            check(&asked(&[(name, value)]), &Roots::default())
                .unwrap_err()
                .to_string()
        };
        assert!(refusal("page-cach", "remount").contains("did you mean 'page-cache'"));
        assert!(refusal("page-cache", "remout").contains("did you mean 'remount'"));
        assert!(refusal("guest-memory", "perhaps").contains("known are auto, off"));
    }

    #[test]
    fn a_name_alone_asks_for_what_stands_behind_keep() {
        for (name, value) in [
            ("swap", "off"),
            ("governor", "performance"),
            ("barriers", "off"),
            ("scheduler", "none"),
        ] {
            assert_eq!(value_of_name(name).unwrap(), value);
        }
        for (name, word) in [
            ("cpus", "cpus=VALUE: keep, LIST"),
            ("guest-memory", "needs a value"),
            ("swop", "did you mean 'swap'"),
        ] {
            let refused = value_of_name(name).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn targets_ask_only_for_controls_that_end_with_them() {
        let refused =
            check_target(&asked(&[("guest-memory", "off")]), &Roots::default()).unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(
            refused.to_string().contains("for the whole run"),
            "{refused}"
        );
    }
}
