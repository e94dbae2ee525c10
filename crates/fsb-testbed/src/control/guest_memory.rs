//! Guest memory. In a virtual machine, the hypervisor may not back memory that was never touched,
//! or that the guest gave back as free. The first access then causes a fault in the hypervisor, in
//! the middle of a measurement.
//!
//! Unbacked memory made durable writes up to seven times slower and reversed a ranking. Before the
//! first block the control therefore touches the free memory that the run needs, once, and stops
//! free-page reporting, which would give the memory back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fsb_model::run::MemoryTouched;
use fsb_model::units::show_bytes;
use fsb_model::{UnbackedMemory, Warning};
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::memory::Mapping;
use fsb_sys::{Roots, memory, read_trimmed};

use super::interface::{Applied, Context, Control, Scope, Stop, TargetDevice, Value};
use crate::host;
use crate::ledger::Action;
use crate::{Activity, Progress};

pub(super) struct GuestMemory;

const AUTO: &str = "auto";
const OFF: &str = "off";
/// The value that fsb requests in its own guests.
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
                Value::word(
                    AUTO,
                    "in a virtual machine whose memory is not backed (default)",
                ),
                Value::word(OFF, "no touching: results may be off by factors"),
                Value::word(
                    BACKED,
                    "the memory was backed before the machine started, as with --in vm",
                ),
            ]
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        if !host::is_virtual_machine(roots) {
            return Err(Refusal::NotNeeded(
                "not a virtual machine: nothing to do".into(),
            ));
        }
        let order = order_file(roots);
        if order.exists() && rustix::fs::access(&order, rustix::fs::Access::WRITE_OK).is_err() {
            let why = format!(
                "free-page reporting cannot be stopped: {} cannot be written",
                order.display()
            );
            return Err(Refusal::NeedsRoot(why.into()));
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
            return Ok(Applied {
                warnings,
                ..Applied::so("not touched")
            });
        }
        let mut warnings = stop_reporting(context)?;
        let stopped = warnings.is_empty();
        let outcome = touch_free_memory(
            context.roots,
            context.memory_needed,
            context.patience,
            context.progress,
        );
        let mut memory = None;
        let observed = match &outcome {
            TouchOutcome::Warm => "memory was backed already".to_owned(),
            TouchOutcome::Touched {
                memory: found,
                seconds,
            } => {
                memory = Some(MemoryTouched {
                    reported: !stopped,
                    ..*found
                });
                let MemoryTouched {
                    touched, needed, ..
                } = *found;
                if touched < needed {
                    warnings.push(unbacked(UnbackedMemory::TouchedInPart {
                        touched,
                        needed,
                        seconds: *seconds,
                    }));
                }
                format!(
                    "{} of free memory touched in {seconds:.1} s",
                    show_bytes(touched as f64)
                )
            }
            TouchOutcome::Impossible { why } => {
                warnings.push(unbacked(UnbackedMemory::Untouchable {
                    error: why.to_string(),
                }));
                format!("not touched: {why}")
            }
        };
        let effective = stopped && !matches!(outcome, TouchOutcome::Impossible { .. });
        Ok(Applied {
            effective,
            observed,
            warnings,
            memory,
        })
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
    roots
        .sys
        .join("module/page_reporting/parameters/page_reporting_order")
}

/// Stops free-page reporting. The kernel reports only free blocks of at least this order, and no
/// block is as large as the largest value that the kernel accepts (`MAX_PAGE_ORDER` + 1 on most).
fn stop_reporting(context: &mut Context<'_>) -> Result<Vec<Warning>, TestbedError> {
    const LARGEST: u32 = 20;
    let path = order_file(context.roots);
    let Some(before) = read_trimmed(&path) else {
        return Ok(Vec::new());
    };
    // The value is negative if no device requests reports.
    let Ok(present) = before.parse::<u32>() else {
        return Ok(Vec::new());
    };
    match context.record(Action::WriteFile {
        path: path.clone(),
        value: before,
    }) {
        Ok(()) => {}
        // Another run has recorded this change already, so reporting is stopped.
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
    let accepted = (present + 1..=LARGEST)
        .rev()
        .find(|order| write(*order).is_ok());
    // If the present value is the largest one, the kernel refuses every larger value. Reporting is
    // already stopped then.
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

/// Bytes that are mapped at a time. Before each chunk, [`touch`] checks how much memory is left.
const CHUNK: u64 = 256 << 20;
/// Memory counts as unbacked if the first touch takes this many times as long as the second.
/// Measured factors range from 8 to 28.
const COLD_FACTOR: f64 = 3.0;

/// The result of touching memory.
#[derive(Debug, PartialEq)]
enum TouchOutcome {
    /// A sample was as fast the first time as the second.
    Warm,
    /// Memory was touched, as much as the time limit allowed.
    Touched {
        /// The bytes that were needed and touched.
        memory: MemoryTouched,
        /// The time for touching it, in seconds.
        seconds: f64,
    },
    /// Nothing was touched.
    Impossible { why: String },
}

/// Touches the free memory that a run needs and gives it back to the kernel, which reuses the most
/// recently freed memory first. If `needed` is `None`, touches all free memory, unless a sample of
/// it is as fast the first time as the second. Touched memory stays backed as long as free pages
/// are not reported.
fn touch_free_memory(
    roots: &Roots,
    needed: Option<u64>,
    patience: Duration,
    progress: &mut dyn FnMut(Progress),
) -> TouchOutcome {
    let start = Instant::now();
    let free = touchable(roots);
    // Beyond the free memory, the kernel takes page cache, which is backed. The margin that is left
    // free is not backed.
    let unbacked = needed.map(|needed| {
        needed
            .next_multiple_of(CHUNK)
            .min(memory::meminfo(roots, "MemFree").unwrap_or(0))
    });
    if free < CHUNK {
        return match unbacked {
            Some(needed) => TouchOutcome::Touched {
                memory: MemoryTouched::new(needed, 0),
                seconds: 0.0,
            },
            None => TouchOutcome::Impossible {
                why: "too little of it is free".to_owned(),
            },
        };
    }
    let total = needed.map_or(free, |needed| {
        needed.next_multiple_of(CHUNK).min(free / CHUNK * CHUNK)
    });
    let mut held = Vec::new();
    if needed.is_none() {
        match is_warm(free, roots, &mut held) {
            Ok(true) => return TouchOutcome::Warm,
            Ok(false) => {}
            Err(why) => {
                return TouchOutcome::Impossible {
                    why: why.to_string(),
                };
            }
        }
    }
    let sampled = held.len() as u64 * CHUNK;
    // Keeps the memory mapped: otherwise the kernel would hand out the same pages again.
    match touch(
        total - sampled,
        roots,
        &|| patience.saturating_sub(start.elapsed()),
        &mut held,
        &mut |done: u64| {
            progress(Progress {
                activity: Activity::TouchMemory,
                done: (sampled + done).min(total),
                total,
            });
        },
    ) {
        Ok(_) => {
            let memory = MemoryTouched::new(
                unbacked.unwrap_or(total / CHUNK * CHUNK),
                held.len() as u64 * CHUNK,
            );
            TouchOutcome::Touched {
                memory,
                seconds: start.elapsed().as_secs_f64(),
            }
        }
        Err(why) => TouchOutcome::Impossible {
            why: why.to_string(),
        },
    }
}

/// Returns whether a sample of the free memory is as fast the first time as the second. The sample
/// stays in `held`.
fn is_warm(free: u64, roots: &Roots, held: &mut Vec<Mapping>) -> Result<bool, Refusal> {
    // The allocator reuses the most recently freed memory first, so a small sample would be warm
    // even if the rest is unbacked.
    let sample = (free / 16 / CHUNK).clamp(1, 16) * CHUNK;
    let all = || Duration::MAX;
    let first = touch(sample, roots, &all, held, &mut |_| {})?;
    held.clear();
    let second = touch(sample, roots, &all, held, &mut |_| {})?;
    Ok(first.as_secs_f64() < COLD_FACTOR * second.as_secs_f64())
}

/// Returns the number of bytes that can be touched without memory pressure on other processes.
fn touchable(roots: &Roots) -> u64 {
    let total = memory::meminfo(roots, "MemTotal").unwrap_or(0);
    let available = memory::meminfo(roots, "MemAvailable").unwrap_or(0);
    // Page cache counts as available, but it is backed already and more useful as page cache.
    let free = memory::meminfo(roots, "MemFree")
        .unwrap_or(0)
        .min(available);
    let free = memory::cgroup_headroom(roots).map_or(free, |limit| free.min(limit));
    let margin = (512 << 20).max(total / 20);
    free.saturating_sub(margin)
}

/// Maps and touches `bytes` in chunks and adds the mappings to `held`. Stops early if memory
/// becomes scarce or no time is left. Returns the time for the touching alone.
fn touch(
    bytes: u64,
    roots: &Roots,
    left: &dyn Fn() -> Duration,
    held: &mut Vec<Mapping>,
    report: &mut dyn FnMut(u64),
) -> Result<Duration, Refusal> {
    let mut time = Duration::ZERO;
    for chunk in 0..bytes / CHUNK {
        if touchable(roots) < CHUNK || left().is_zero() {
            break;
        }
        let mut mapping = Mapping::new(CHUNK as usize)?;
        let start = Instant::now();
        mapping.touch();
        time += start.elapsed();
        held.push(mapping);
        report((chunk + 1) * CHUNK);
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Held;
    use crate::ledger::{Ledger, Owner};

    fn machine(cpuinfo: &str) -> (tempfile::TempDir, Roots, Ledger) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::below(tree.path());
        let order = order_file(&roots);
        std::fs::create_dir_all(order.parent().unwrap()).unwrap();
        std::fs::create_dir_all(&roots.proc).unwrap();
        std::fs::write(order, "9\n").unwrap();
        std::fs::write(roots.proc.join("cpuinfo"), cpuinfo).unwrap();
        // Too little free memory to touch any of it.
        std::fs::write(
            roots.proc.join("meminfo"),
            "MemTotal: 2048 kB\nMemFree: 1024 kB\nMemAvailable: 1024 kB\n",
        )
        .unwrap();
        let ledger = Ledger::open(
            &tree.path().join("undo"),
            Owner::current(),
            crate::control::RULES,
        )
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
        let mut context = Context::new(
            "guest-memory",
            &roots,
            &ledger,
            &mut progress,
            &place,
            &mut held,
        );
        let applied = GuestMemory.set(AUTO, &mut context).unwrap();
        assert_eq!(order(&roots), "20");
        assert!(
            !applied.effective && matches!(applied.warnings[0], Warning::UnbackedMemory { .. }),
            "{applied:?}"
        );
        assert!(
            GuestMemory
                .restore(context.into_tickets(), &ledger)
                .is_empty()
        );
        assert_eq!(order(&roots), "9");
    }

    #[test]
    fn real_machines_and_off_change_nothing() {
        for (cpuinfo, value) in [("flags : fpu\n", AUTO), ("flags : hypervisor\n", OFF)] {
            let (_keep, roots, ledger) = machine(cpuinfo);
            let (place, mut held) = (TargetDevice::default(), Held::default());
            let mut progress = |_| {};
            let mut context = Context::new(
                "guest-memory",
                &roots,
                &ledger,
                &mut progress,
                &place,
                &mut held,
            );
            let applied = GuestMemory.set(value, &mut context).unwrap();
            assert!(applied.effective && context.into_tickets().is_empty());
            assert_eq!(applied.warnings.len(), usize::from(value == OFF));
            assert_eq!(order(&roots), "9");
        }
    }

    fn machine_with_memory(meminfo: &str) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().join("sys"),
        };
        std::fs::write(tree.path().join("meminfo"), meminfo).unwrap();
        (tree, roots)
    }

    #[test]
    fn a_margin_stays_and_page_cache_is_left_alone() {
        let (_keep, roots) = machine_with_memory(
            "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 3145728 kB\n",
        );
        assert_eq!(touchable(&roots), 512 << 20);
        let (_keep, roots) = machine_with_memory(
            "MemTotal: 104857600 kB\nMemFree: 10485760 kB\nMemAvailable: 10485760 kB\n",
        );
        assert_eq!(touchable(&roots), (10 << 30) - (5 << 30));
    }

    #[test]
    fn where_little_is_free_nothing_is_touched() {
        let (_keep, roots) = machine_with_memory(
            "MemTotal: 4194304 kB\nMemFree: 600000 kB\nMemAvailable: 4000000 kB\n",
        );
        assert!(matches!(
            touch_free_memory(&roots, None, Duration::MAX, &mut |_| {}),
            TouchOutcome::Impossible { .. }
        ));
    }

    #[test]
    fn only_what_is_needed_is_touched_within_the_time_for_it() {
        let (_keep, roots) = machine_with_memory(
            "MemTotal: 4194304 kB\nMemFree: 2097152 kB\nMemAvailable: 2097152 kB\n",
        );
        let touched =
            |needed, patience| match touch_free_memory(&roots, Some(needed), patience, &mut |_| {})
            {
                TouchOutcome::Touched { memory, .. } => memory,
                other => panic!("{other:?}"),
            };
        let some = touched(CHUNK + 1, Duration::MAX);
        assert_eq!(some, MemoryTouched::new(2 * CHUNK, 2 * CHUNK));
        let none = touched(2 * CHUNK, Duration::ZERO);
        assert_eq!(
            (none, none.is_complete()),
            (MemoryTouched::new(2 * CHUNK, 0), false)
        );
        // The run may need all free memory, including the margin, which is not touched.
        assert_eq!(touched(u64::MAX / 2, Duration::ZERO).needed, 2 << 30);
    }

    #[test]
    fn memory_that_is_too_scarce_to_touch_is_missing() {
        let (_keep, roots) = machine_with_memory(
            "MemTotal: 4194304 kB\nMemFree: 600000 kB\nMemAvailable: 4000000 kB\n",
        );
        let found = touch_free_memory(&roots, Some(1 << 30), Duration::MAX, &mut |_| {});
        let memory = MemoryTouched::new(600_000 << 10, 0);
        assert_eq!(
            found,
            TouchOutcome::Touched {
                memory,
                seconds: 0.0
            }
        );
    }
}
