//! Swap. Pages that come back from a disk in the middle of a trial are I/O that the workload did
//! not cause.

use fsb_model::units::{show_bytes, show_size};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::swap::{self, SwapArea};
use fsb_sys::{Roots, memory};

use super::interface::{
    Context, Control, KEEP, PossibleInterference, Scope, Stop, TargetDevice, Value, one_of,
};
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::{Activity, Progress};

pub(super) struct Swap;

const OFF: &str = "off";

/// Bytes of memory that must remain available after all pages in swap have come back.
const MARGIN: u64 = 64 << 20;

fn used(areas: &[SwapArea]) -> u64 {
    areas.iter().map(|area| area.used).sum()
}

impl Control for Swap {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn about(&self) -> &'static str {
        "Swap while fsb measures."
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
                    "all areas off during the run, then on again with their priorities",
                ),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        one_of(self.name(), self.values(), value)?;
        let used = used(&swap::active(roots));
        let available = memory::meminfo(roots, "MemAvailable").unwrap_or(u64::MAX);
        if value != OFF || used == 0 || available >= used.saturating_add(MARGIN) {
            return Ok(());
        }
        Err(
            TestbedError::machine("swap cannot be switched off: too little memory")
                .tried(format!(
                    "{} are in swap, {} of memory are available",
                    show_size(used),
                    show_size(available)
                ))
                .advice("end what uses memory, or leave swap=off out"),
        )
    }

    /// Does nothing: the coordinator replays the remaining entries of the ledger. An area that is
    /// switched on in a mount namespace that later disappears keeps a wrong name in /proc/swaps
    /// forever.
    fn restore(&self, _: Vec<EntryHandle>, _: &Ledger) -> Vec<String> {
        Vec::new()
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        if swap::active(roots).is_empty() || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(Refusal::NeedsRoot("only root may switch swap off".into()))
    }

    /// Switches off the lowest priority first, so that undoing begins with the highest: the
    /// priorities that the kernel chooses fall from one area to the next.
    fn apply(&self, _: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let mut areas = swap::active(context.roots);
        if areas.is_empty() {
            return Ok("no swap is on".to_owned());
        }
        areas.sort_by_key(|area| area.priority);
        let total = used(&areas);
        let mut done = 0;
        for area in &areas {
            (context.progress)(Progress {
                activity: Activity::SwitchSwapOff,
                done,
                total,
            });
            context.record(Action::SwapOn {
                path: area.path.clone(),
                priority: area.priority,
            })?;
            if let Err(error) = swap::off(&area.path) {
                context.take_back()?;
                return Err(Stop::Lacks(attempt("swapoff", &area.path, &error)));
            }
            done += area.used;
        }
        let left = swap::active(context.roots);
        if left.is_empty() {
            let names: Vec<_> = areas
                .iter()
                .map(|area| area.path.display().to_string())
                .collect();
            Ok(format!("off: {}", names.join(", ")))
        } else {
            Err(Stop::Lacks(
                "another program switched swap on during the run".into(),
            ))
        }
    }

    fn owns(&self, action: &Action, _: &Roots) -> bool {
        matches!(action, Action::SwapOn { .. })
    }

    fn interferes(&self, roots: &Roots) -> Option<PossibleInterference> {
        (!swap::active(roots).is_empty()).then_some(PossibleInterference {
            what: "paging may affect a run",
            advice: "fsb run --control swap=off, where memory allows",
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let areas = swap::active(roots);
        let names: Vec<_> = areas
            .iter()
            .map(|area| area.path.display().to_string())
            .collect();
        match areas[..] {
            [] => "no swap is on".to_owned(),
            _ => format!(
                "on: {} ({} in use)",
                names.join(", "),
                show_bytes(used(&areas) as f64)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    fn swapping(used: &str, available: &str) -> Bench {
        let bench = Bench::new();
        bench.write(
            "proc/swaps",
            &format!("Filename Type Size Used Priority\n/nonexistent file 9 {used} -2"),
        );
        bench.write("proc/meminfo", &format!("MemAvailable: {available} kB"));
        bench
    }

    #[test]
    fn swapped_memory_must_fit_into_ram() {
        let bench = swapping("1000000", "900000");
        let refused = Swap.check(OFF, &bench.roots).unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Machine);
        assert!(
            refused.to_string().contains("too little memory"),
            "{refused}"
        );
        Swap.check(KEEP, &bench.roots).unwrap();
        Swap.check(OFF, &swapping("0", "1").roots).unwrap();
        Swap.check(OFF, &swapping("1000000", "2000000").roots)
            .unwrap();
    }

    #[test]
    fn an_area_that_cannot_be_switched_off_is_said() {
        let bench = swapping("0", "1");
        bench.set(&Swap, OFF, |applied, handles| {
            assert!(!applied.effective && handles.is_empty(), "{applied:?}");
            assert!(
                applied.observed.contains("swapoff /nonexistent"),
                "{applied:?}"
            );
        });
    }

    #[test]
    fn where_nothing_is_on_it_is_off() {
        let bench = Bench::new();
        bench.set(&Swap, OFF, |applied, handles| {
            assert!(applied.effective && handles.is_empty());
            assert_eq!(applied.observed, "no swap is on");
        });
    }
}
