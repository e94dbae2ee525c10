//! The frequency governor of the processors.
//!
//! Untested on hardware: no test machine has cpufreq. The tests build trees like those of
//! `intel_pstate` and `acpi-cpufreq`.

use std::path::{Path, PathBuf};

use fsb_model::nearest;
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, PossibleInterference, Scope, Stop, TargetDevice, Value, is_numbered,
    numbered, writable,
};
use crate::declared::OptionKind;
use crate::ledger::Action;

pub(super) struct Governor;

const LACKING: &str = "no cpufreq: this kernel does not set frequencies";

/// Governors of known kernels. If the machine lists its own governors, that list decides.
const KNOWN: [&str; 6] = [
    "performance",
    "powersave",
    "ondemand",
    "conservative",
    "schedutil",
    "userspace",
];

/// The prefix of the names of policy directories.
const POLICY: &str = "policy";

/// Returns the directories of frequency policies: sets of processors that change frequency
/// together.
fn policies(roots: &Roots) -> Vec<PathBuf> {
    numbered(&directory(roots), POLICY)
}

fn directory(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/system/cpu/cpufreq")
}

fn setting(policy: &Path) -> PathBuf {
    policy.join("scaling_governor")
}

fn current(policy: &Path) -> Option<String> {
    read_trimmed(&setting(policy))
}

impl Control for Governor {
    fn name(&self) -> &'static str {
        "governor"
    }

    fn about(&self) -> &'static str {
        "Governor that sets the frequency of processors."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "unchanged (default)"),
                Value::word("performance", "always the highest frequency"),
                Value::form(
                    "GOVERNOR",
                    OptionKind::Text("name of a governor"),
                    "any governor of this machine",
                ),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        let policies = policies(roots);
        let available: Vec<String> = policies
            .iter()
            .filter_map(|policy| read_trimmed(&policy.join("scaling_available_governors")))
            .collect();
        let mut known: Vec<&str> = match available.first() {
            Some(first) => first.split_whitespace().collect(),
            None => KNOWN.to_vec(),
        };
        known.retain(|name| {
            available
                .iter()
                .all(|list| list.split_whitespace().any(|other| other == *name))
        });
        if value == KEEP || known.contains(&value) {
            return Ok(());
        }
        known.push(KEEP);
        Err(
            TestbedError::request(nearest::unknown("governor", value, known.iter().copied()))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice("choose a governor of this machine"),
        )
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        let policies = policies(roots);
        let first = policies.first().ok_or(LACKING)?;
        writable(&setting(first))
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let policies = policies(context.roots);
        if policies.is_empty() {
            return Err(Stop::Lacks(LACKING.into()));
        }
        for policy in &policies {
            context.change_file(&setting(policy), value)?;
        }
        let kept = policies
            .iter()
            .find(|policy| current(policy).as_deref() != Some(value));
        match kept {
            None => Ok(self.observe(context.roots, context.place)),
            Some(policy) => Err(Stop::Lacks(
                format!("{} kept its governor", policy.display()).into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        let Some(path) = action.written() else {
            return false;
        };
        path.parent().is_some_and(|policy| {
            is_numbered(policy, &directory(roots), POLICY) && setting(policy) == path
        })
    }

    fn interferes(&self, roots: &Roots) -> Option<PossibleInterference> {
        let changing = policies(roots)
            .iter()
            .any(|policy| current(policy).is_some_and(|name| name != "performance"));
        changing.then_some(PossibleInterference {
            what: "frequencies change while fsb measures",
            advice: "fsb run --control governor=performance",
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let mut governors: Vec<String> = policies(roots)
            .iter()
            .filter_map(|policy| current(policy))
            .collect();
        governors.sort();
        governors.dedup();
        if governors.is_empty() {
            LACKING.to_owned()
        } else {
            governors.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Warning;

    use super::*;
    use crate::control::testing::Bench;

    fn machine(governors: &[&str]) -> Bench {
        let bench = Bench::new();
        for (index, governor) in governors.iter().enumerate() {
            let policy = format!("sys/devices/system/cpu/cpufreq/policy{index}");
            bench.write(&format!("{policy}/scaling_governor"), governor);
            bench.write(
                &format!("{policy}/scaling_available_governors"),
                "performance powersave schedutil",
            );
        }
        bench
    }

    #[test]
    fn every_policy_is_set_and_comes_back() {
        let bench = machine(&["powersave", "schedutil", "performance"]);
        bench.set(&Governor, "performance", |applied, handles| {
            assert!(applied.effective);
            assert_eq!(
                (applied.observed.as_str(), handles.len()),
                ("performance", 2)
            );
        });
        assert_eq!(
            Governor.observe(&bench.roots, &bench.place),
            "performance, powersave, schedutil"
        );
        assert!(Governor.interferes(&bench.roots).is_some());
        assert!(
            Governor
                .interferes(&machine(&["performance"]).roots)
                .is_none()
        );
    }

    #[test]
    fn governors_that_the_machine_does_not_know_are_refused() {
        let bench = machine(&["powersave"]);
        let refused = Governor.check("ondemand", &bench.roots).unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(
            refused
                .to_string()
                .contains("performance, powersave, schedutil"),
            "{refused}"
        );
        Governor.check("schedutil", &bench.roots).unwrap();
        assert!(
            Governor
                .check("performence", &Bench::new().roots)
                .unwrap_err()
                .to_string()
                .contains("performance")
        );
    }

    #[test]
    fn without_cpufreq_it_is_not_available() {
        let bench = Bench::new();
        Governor.check("ondemand", &bench.roots).unwrap();
        bench.set(&Governor, "performance", |applied, handles| {
            assert!(!applied.effective && handles.is_empty());
            assert!(matches!(&applied.warnings[0], Warning::ControlUnavailable { reason, .. } if reason.contains("no cpufreq")), "{applied:?}");
        });
        bench.set(&Governor, KEEP, |applied, _| {
            assert!(applied.effective && applied.warnings.is_empty())
        });
    }
}
