//! Guest memory: in a virtual machine, memory that was never touched (or was given back as free) is a promise, and
//! keeping it costs the hypervisor a fault inside somebody's measurement.
//!
//! Unbacked memory made durable writes up to seven times slower and turned a ranking round. So before the first block
//! the free memory that the run needs is touched once, and free-page reporting, which would give it back, is stopped.

mod touch;

use std::path::PathBuf;

use fsb_model::run::MemoryTouched;
use fsb_model::units::show_bytes;
use fsb_model::{UnbackedMemory, Warning};

use super::context::{Context, Stop, TargetDevice};
use super::interface::{Applied, Control, Scope, Value};
use crate::error::{Refusal, TestbedError};
use crate::host;
use crate::ledger::Action;
use crate::sys::{Roots, memory, read_trimmed};

pub(super) struct GuestMemory;

const AUTO: &str = "auto";
const OFF: &str = "off";
/// What fsb asks for in guests of its own.
pub(crate) const BACKED: &str = "backed";

impl Control for GuestMemory {
    fn name(&self) -> &'static str {
        "guest-memory"
    }

    fn about(&self) -> &'static str {
        "In a virtual machine: touch the memory that the run needs, and keep the hypervisor from taking it back."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(AUTO, "in a virtual machine whose memory is not backed (default)"),
                Value::word(OFF, "no touching: results may be off by factors"),
                Value::word(BACKED, "the memory was backed before the machine started, as with --in vm"),
            ]
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        if !host::is_virtual_machine(roots) {
            return Err("not a virtual machine: nothing to do".into());
        }
        let order = order_file(roots);
        if order.exists() && rustix::fs::access(&order, rustix::fs::Access::WRITE_OK).is_err() {
            return Err(format!("free-page reporting cannot be stopped: {} cannot be written", order.display()).into());
        }
        Ok(())
    }

    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if !host::is_virtual_machine(context.roots) {
            return Ok(Applied::so("not a virtual machine"));
        }
        if value == BACKED {
            return Ok(Applied::so("backed before the machine started"));
        }
        if value == OFF {
            let warnings = vec![unbacked(UnbackedMemory::LeftAlone)];
            return Ok(Applied { warnings, ..Applied::so("not touched") });
        }
        let mut warnings = stop_reporting(context)?;
        let stopped = warnings.is_empty();
        let outcome =
            touch::touch_free_memory(context.roots, context.memory_needed, context.patience, context.progress);
        let mut memory = None;
        let observed = match &outcome {
            touch::Outcome::Warm => "memory was backed already".to_owned(),
            touch::Outcome::Touched { memory: found, seconds } => {
                memory = Some(MemoryTouched { reported: !stopped, ..*found });
                let MemoryTouched { touched, needed, .. } = *found;
                if touched < needed {
                    warnings.push(unbacked(UnbackedMemory::TouchedInPart { touched, needed, seconds: *seconds }));
                }
                format!("{} of free memory touched in {seconds:.1} s", show_bytes(touched as f64))
            }
            touch::Outcome::Impossible { why } => {
                warnings.push(unbacked(UnbackedMemory::Untouchable { error: why.to_string() }));
                format!("not touched: {why}")
            }
        };
        let effective = stopped && !matches!(outcome, touch::Outcome::Impossible { .. });
        Ok(Applied { effective, observed, warnings, memory })
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        action.written() == Some(order_file(roots).as_path())
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let free = memory::meminfo(roots, "MemFree").unwrap_or(0);
        let free = format!("{} of memory free", show_bytes(free as f64));
        match read_trimmed(&order_file(roots)) {
            Some(order) => format!("{free}, free pages reported from order {order}"),
            None => format!("{free}, no free-page reporting"),
        }
    }
}

fn unbacked(cause: UnbackedMemory) -> Warning {
    Warning::UnbackedMemory { cause }
}

fn order_file(roots: &Roots) -> PathBuf {
    roots.sys.join("module/page_reporting/parameters/page_reporting_order")
}

/// Stops free-page reporting: only free blocks of at least this order are reported, and no block is as large as the
/// largest value that the kernel accepts (`MAX_PAGE_ORDER` + 1 on most).
fn stop_reporting(context: &mut Context<'_>) -> Result<Vec<Warning>, TestbedError> {
    const LARGEST: u32 = 20;
    let path = order_file(context.roots);
    let Some(before) = read_trimmed(&path) else { return Ok(Vec::new()) };
    // It is negative where no device asks for reports.
    let Ok(present) = before.parse::<u32>() else { return Ok(Vec::new()) };
    match context.record(Action::WriteFile { path: path.clone(), value: before }) {
        Ok(()) => {}
        // Whoever changed it stopped it.
        Err(Stop::Lacks(_)) => return Ok(Vec::new()),
        Err(Stop::Failed(error)) => return Err(error),
    }
    let write = |order: u32| {
        std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, order.to_string().as_bytes()))
    };
    let accepted = (present + 1..=LARGEST).rev().find(|order| write(*order).is_ok());
    // What is the largest already refuses every larger value, and then reporting is stopped already.
    let warnings = match accepted {
        Some(_) => Vec::new(),
        None if write(present).is_ok() => Vec::new(),
        None => vec![unbacked(UnbackedMemory::Reported { file: path.clone() })],
    };
    if accepted.is_none() {
        context.take_back()?;
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Held;
    use crate::ledger::{Ledger, Owner};

    fn machine(cpuinfo: &str) -> (tempfile::TempDir, Roots, Ledger) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
        let order = order_file(&roots);
        std::fs::create_dir_all(order.parent().unwrap()).unwrap();
        std::fs::create_dir_all(&roots.proc).unwrap();
        std::fs::write(order, "9\n").unwrap();
        std::fs::write(roots.proc.join("cpuinfo"), cpuinfo).unwrap();
        // Too little to touch anything.
        std::fs::write(roots.proc.join("meminfo"), "MemTotal: 2048 kB\nMemFree: 1024 kB\nMemAvailable: 1024 kB\n")
            .unwrap();
        let ledger = Ledger::open(&tree.path().join("undo"), Owner::current(), crate::control::RULES)
            .unwrap()
            .of_machine(&roots);
        (tree, roots, ledger)
    }

    fn order(roots: &Roots) -> String {
        read_trimmed(&order_file(roots)).unwrap()
    }

    #[test]
    fn reporting_stops_and_comes_back() {
        let (_keep, roots, ledger) = machine("flags : hypervisor\n");
        let (place, mut held) = (TargetDevice::default(), Held::default());
        let mut progress = |_| {};
        let mut context = Context::new("guest-memory", &roots, &ledger, &mut progress, &place, &mut held);
        let applied = GuestMemory.set(AUTO, &mut context).unwrap();
        assert_eq!(order(&roots), "20");
        assert!(!applied.effective && matches!(applied.warnings[0], Warning::UnbackedMemory { .. }), "{applied:?}");
        assert!(GuestMemory.restore(context.into_tickets(), &ledger).is_empty());
        assert_eq!(order(&roots), "9");
    }

    #[test]
    fn real_machines_and_off_change_nothing() {
        for (cpuinfo, value) in [("flags : fpu\n", AUTO), ("flags : hypervisor\n", OFF)] {
            let (_keep, roots, ledger) = machine(cpuinfo);
            let (place, mut held) = (TargetDevice::default(), Held::default());
            let mut progress = |_| {};
            let mut context = Context::new("guest-memory", &roots, &ledger, &mut progress, &place, &mut held);
            let applied = GuestMemory.set(value, &mut context).unwrap();
            assert!(applied.effective && context.into_tickets().is_empty());
            assert_eq!(applied.warnings.len(), usize::from(value == OFF));
            assert_eq!(order(&roots), "9");
        }
    }
}
