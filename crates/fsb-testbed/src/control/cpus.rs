//! The processors that measuring processes run on. Also parses and formats lists of processors and
//! nodes as the kernel writes them: `0-3,5`.

use std::collections::BTreeMap;

use fsb_sys::Roots;
use fsb_sys::error::{Refusal, TestbedError};

use super::interface::{Applied, Context, Control, KEEP, Scope, TargetDevice, Value, invalid};
use crate::declared::OptionKind;
pub(super) use crate::declared::list as parse;

pub(super) struct Cpus;

/// The name of the control, for code that reads its value.
const CPUS: &str = "cpus";

fn online(roots: &Roots) -> Option<Vec<u32>> {
    parse(&roots.sys_text("devices/system/cpu/online")?)
}

/// Returns the processors that `controls` leave to workers. Returns `None` if they leave all.
pub(super) fn processors_of(controls: &BTreeMap<String, String>) -> Option<Vec<u32>> {
    controls
        .get(CPUS)
        .filter(|value| *value != KEEP)
        .and_then(|value| parse(value))
}

/// Refuses a value that is not a list of processors, or that names a processor that is not online.
pub(super) fn check_list(control: &str, value: &str, roots: &Roots) -> Result<(), TestbedError> {
    if value == KEEP {
        return Ok(());
    }
    let asked = parse(value).ok_or_else(|| {
        invalid(control, value, "that is not a list of processors")
            .advice("write numbers and ranges, such as 0-3,5")
    })?;
    let Some(online) = online(roots) else {
        return Ok(());
    };
    match asked.iter().find(|cpu| !online.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(invalid(control, value, format_args!("no processor {cpu}"))
            .advice(format!("this machine has {}", show(&online)))),
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
        Scope::Target
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

    /// Changes nothing on the machine: each worker binds itself before it touches anything, and
    /// fails if it cannot.
    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if value == KEEP {
            return Ok(Applied::so(self.observe(context.roots, context.place)));
        }
        context.held.cpus = parse(value).unwrap_or_default();
        Ok(Applied::so(format!(
            "workers on {}",
            show(&context.held.cpus)
        )))
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        match online(roots) {
            Some(online) => format!("workers on any of {}", show(&online)),
            None => "workers on any processor".to_owned(),
        }
    }
}

/// Formats numbers as the shortest list.
pub(super) fn show(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
        .iter()
        .map(|(first, last): &(u32, u32)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
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
        assert!(
            refused.to_string().contains("no processor 4") && refused.to_string().contains("0-3"),
            "{refused}"
        );
        let held = bench.set(&Cpus, "2,0", |applied, handles| {
            assert!(applied.effective && handles.is_empty())
        });
        assert_eq!(held.cpus, [0, 2]);
        assert!(bench.set(&Cpus, KEEP, |_, _| {}).cpus.is_empty());
    }

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse("0-3,5"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse("5,1,1-2\n"), Some(vec![1, 2, 5]));
        for text in [
            "",
            ",",
            "1-",
            "3-1",
            "a",
            "+1",
            "0-4294967295",
            "1, 2",
            "-1",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(show(&[0, 1, 2, 3, 5]), "0-3,5");
        assert_eq!(show(&[]), "");
    }
}
