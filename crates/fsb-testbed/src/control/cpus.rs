//! Which processors the processes that measure run on.

use std::collections::BTreeMap;

use super::context::{Context, TargetDevice};
use super::interface::{Applied, Control, KEEP, Scope, Value};
use super::list;
use crate::declared::OptionKind;
use crate::error::{Refusal, TestbedError};
use crate::sys::Roots;

pub(super) struct Cpus;

/// Its name, for those who ask for its value.
const CPUS: &str = "cpus";

fn online(roots: &Roots) -> Option<Vec<u32>> {
    list::parse(&roots.sys_text("devices/system/cpu/online")?)
}

/// The processors that `controls` leave to workers; absent where they leave all.
pub(super) fn processors_of(controls: &BTreeMap<String, String>) -> Option<Vec<u32>> {
    controls.get(CPUS).filter(|value| *value != KEEP).and_then(|value| list::parse(value))
}

/// Refuses what is no list of processors that are there.
pub(super) fn check_list(control: &str, value: &str, roots: &Roots) -> Result<(), TestbedError> {
    if value == KEEP {
        return Ok(());
    }
    let asked = list::parse(value).ok_or_else(|| {
        TestbedError::request(format!("{control}={value}: that is not a list of processors"))
            .coded(&fsb_model::error::CONTROL_VALUE)
            .advice("write numbers and ranges, such as 0-3,5")
    })?;
    let Some(online) = online(roots) else { return Ok(()) };
    match asked.iter().find(|cpu| !online.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(TestbedError::request(format!("{control}={value}: no processor {cpu}"))
            .coded(&fsb_model::error::CONTROL_VALUE)
            .advice(format!("this machine has {}", list::show(&online)))),
    }
}

impl Control for Cpus {
    fn name(&self) -> &'static str {
        CPUS
    }

    fn about(&self) -> &'static str {
        "Processors that the workers run on."
    }

    fn scope(&self) -> Scope {
        Scope::Visit
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "all that fsb itself may use (default)"),
                Value::form("LIST", OptionKind::List, "a list, such as 0-3,5"),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        check_list(CPUS, value, roots)
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        Ok(())
    }

    /// The machine stays as it is: each worker binds itself before it touches anything, and fails where it cannot.
    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if value == KEEP {
            return Ok(Applied::so(self.observe(context.roots, context.place)));
        }
        context.held.cpus = list::parse(value).unwrap_or_default();
        Ok(Applied::so(format!("workers on {}", list::show(&context.held.cpus))))
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        match online(roots) {
            Some(online) => format!("workers on any of {}", list::show(&online)),
            None => "workers on any processor".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn only_processors_that_are_there_are_taken() {
        let bench = Bench::new();
        bench.write("sys/devices/system/cpu/online", "0-3");
        Cpus.check("0,2-3", &bench.roots).unwrap();
        let refused = Cpus.check("2-4", &bench.roots).unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(refused.to_string().contains("no processor 4") && refused.to_string().contains("0-3"), "{refused}");
        let held = bench.set(&Cpus, "2,0", |applied, handles| assert!(applied.effective && handles.is_empty()));
        assert_eq!(held.cpus, [0, 2]);
        assert!(bench.set(&Cpus, KEEP, |_, _| {}).cpus.is_empty());
    }
}
