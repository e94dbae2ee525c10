//! Frequencies above the nominal one. They depend on temperature, and therefore on the previous
//! load.
//!
//! Untested on hardware: no test machine has cpufreq.

use std::path::PathBuf;

use fsb_sys::error::Refusal;
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, PossibleInterference, Scope, Stop, TargetDevice, Value, writable,
};
use crate::ledger::Action;

pub(super) struct Boost;

const ON: &str = "on";
const OFF: &str = "off";
const LACKING: &str = "no frequency boost: neither intel_pstate/no_turbo nor cpufreq/boost exists";

/// Returns the files, each with its contents for boost on and boost off: `no_turbo` of intel_pstate
/// and `boost`.
fn switches(roots: &Roots) -> impl Iterator<Item = (PathBuf, [&'static str; 2])> {
    let cpu = roots.sys.join("devices/system/cpu");
    let files = [
        ("intel_pstate/no_turbo", ["0", "1"]),
        ("cpufreq/boost", ["1", "0"]),
    ];
    files
        .into_iter()
        .map(move |(file, values)| (cpu.join(file), values))
}

/// Returns the switch that this machine has.
fn switch(roots: &Roots) -> Option<(PathBuf, [&'static str; 2])> {
    switches(roots).find(|(file, _)| read_trimmed(file).is_some())
}

impl Control for Boost {
    fn name(&self) -> &'static str {
        "boost"
    }

    fn about(&self) -> &'static str {
        "Frequency boost of processors above their nominal frequency."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "unchanged (default)"),
                Value::word(
                    OFF,
                    "at most the nominal frequency: slower, but constant for hours",
                ),
                Value::word(ON, "as fast as temperature allows"),
            ]
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        let (path, _) = switch(roots).ok_or(LACKING)?;
        writable(&path)
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let (path, [on, off]) = switch(context.roots).ok_or_else(|| Stop::Lacks(LACKING.into()))?;
        let wanted = if value == ON { on } else { off };
        context.change_file(&path, wanted)?;
        match read_trimmed(&path).as_deref() {
            Some(now) if now == wanted => Ok(self.observe(context.roots, context.place)),
            _ => Err(Stop::Lacks(
                format!(
                    "{} kept its value: the firmware may forbid it",
                    path.display()
                )
                .into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        switches(roots).any(|(file, _)| action.written() == Some(file.as_path()))
    }

    fn interferes(&self, roots: &Roots) -> Option<PossibleInterference> {
        let (path, [on, _]) = switch(roots)?;
        (read_trimmed(&path).as_deref() == Some(on)).then_some(PossibleInterference {
            what: "the speed of the processors depends on their temperature",
            advice: "fsb run --control boost=off",
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let Some((path, [on, _])) = switch(roots) else {
            return LACKING.to_owned();
        };
        let is_on = read_trimmed(&path).as_deref() == Some(on);
        if is_on { ON.to_owned() } else { OFF.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn both_switches_are_known() {
        for (file, on, off) in [
            ("intel_pstate/no_turbo", "0", "1"),
            ("cpufreq/boost", "1", "0"),
        ] {
            let bench = Bench::new();
            let file = format!("sys/devices/system/cpu/{file}");
            bench.write(&file, on);
            assert_eq!(Boost.observe(&bench.roots, &bench.place), ON);
            bench.set(&Boost, OFF, |applied, _| {
                assert_eq!((applied.observed.as_str(), applied.effective), (OFF, true));
                assert_eq!(bench.read(&file), off);
            });
            assert_eq!(bench.read(&file), on);
        }
    }

    #[test]
    fn without_a_switch_it_is_not_available() {
        let bench = Bench::new();
        bench.set(&Boost, OFF, |applied, _| {
            assert!(!applied.effective && applied.warnings.len() == 1)
        });
    }
}
