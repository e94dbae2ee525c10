//! Optional targets. If this machine cannot make one, fsb still measures the others.

use std::collections::BTreeMap;

use crate::testbed::Setup;
use fsb_model::Warning;
use fsb_sys::error::{Kind, TestbedError};

/// A setup without the optional targets that cannot be made.
#[derive(Debug, Clone)]
pub struct Available {
    /// The setup without those optional targets that cannot be made.
    pub setup: Setup,
    /// The reason for each target that cannot be made, by its name.
    pub unavailable: BTreeMap<String, TestbedError>,
}

/// Calls `check` on each optional target alone, to find out whether this machine can make it. A target with an invalid
/// request stays in the setup. If no target remains, returns the first reason.
pub fn available(
    setup: &Setup,
    mut check: impl FnMut(&Setup) -> Result<(), TestbedError>,
) -> Result<Available, TestbedError> {
    Available { setup: setup.clone(), unavailable: BTreeMap::new() }.and(&mut check)
}

impl Available {
    /// Also removes each remaining optional target that fails `check`.
    pub fn and(mut self, mut check: impl FnMut(&Setup) -> Result<(), TestbedError>) -> Result<Self, TestbedError> {
        let mut first = None;
        for target in self.setup.targets.iter().filter(|target| target.optional) {
            let alone = Setup { targets: vec![target.clone()], ..self.setup.clone() };
            if let Err(error) = check(&alone)
                && error.kind == Kind::Machine
            {
                first.get_or_insert_with(|| error.clone());
                self.unavailable.insert(target.name.clone(), error);
            }
        }
        self.setup.targets.retain(|target| !self.unavailable.contains_key(&target.name));
        match first {
            Some(first) if self.setup.targets.is_empty() => Err(first),
            _ => Ok(self),
        }
    }

    /// Returns a warning for each omitted target.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        let reason = |(name, error): (&String, &TestbedError)| (name.clone(), error.to_string());
        self.unavailable.iter().map(reason).map(|(target, reason)| Warning::TargetUnavailable { target, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(optional: &[&str]) -> Setup {
        let mut setup = crate::vm::setup_of(&["ext4", "xfs", "jfs"]);
        for target in &mut setup.targets {
            target.optional = optional.contains(&target.name.as_str());
        }
        setup
    }

    /// Refuses the target of that name, which is alone in the setup.
    fn without(name: &'static str, error: TestbedError) -> impl Fn(&Setup) -> Result<(), TestbedError> {
        move |alone| {
            assert_eq!(alone.targets.len(), 1);
            if alone.targets[0].name == name { Err(error.clone()) } else { Ok(()) }
        }
    }

    #[test]
    fn the_remaining_targets_pass_every_check() {
        let machine = |why: &str| TestbedError::machine(why);
        let here = available(&setup(&["ext4", "jfs"]), without("jfs", machine("no jfs"))).unwrap();
        let here = here.and(without("xfs", machine("is not asked"))).unwrap();
        let here = here.and(without("ext4", machine("no ext4"))).unwrap();
        let left: Vec<_> = here.setup.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(left, ["xfs"]);
        let unavailable = |target: &str, reason: &str| Warning::TargetUnavailable {
            target: target.to_owned(),
            reason: reason.to_owned(),
        };
        let warnings: Vec<_> = here.warnings().collect();
        assert_eq!(warnings, [unavailable("ext4", "no ext4"), unavailable("jfs", "no jfs")]);
    }

    #[test]
    fn a_wrong_request_stays_in_and_a_run_of_nothing_has_a_reason() {
        let here = available(&setup(&["jfs"]), without("jfs", TestbedError::request("wrong"))).unwrap();
        assert_eq!((here.setup.targets.len(), here.unavailable.len()), (3, 0));
        let refused = |alone: &Setup| Err(TestbedError::machine(format!("no {}", alone.targets[0].name)));
        let error = available(&setup(&["xfs", "ext4", "jfs"]), refused).unwrap_err();
        assert_eq!(error.to_string(), "no ext4", "the first of the plan");
    }
}
