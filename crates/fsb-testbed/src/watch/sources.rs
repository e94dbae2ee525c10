//! The sources of interference, the trait that each implements, and the types of its methods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsb_model::storage::Layer;
use fsb_sys::error::Refusal;
use fsb_sys::process::stat_field;
use fsb_sys::{Roots, block};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::fs;
use crate::storage::Storage;

/// Values observed between the start of a task and its result, by name and in base units. They are
/// summed over repetitions; a name that ends in [`LEAST`] keeps the smallest value.
pub type Seen = BTreeMap<String, f64>;

/// The suffix of names whose values are minima.
pub const LEAST: &str = "_least";

/// Wall seconds between the start of a task and its result.
pub(crate) const WATCHED_SECONDS: &str = "watched_seconds";
/// Wall seconds times processors: the available CPU time.
pub(crate) const AVAILABLE_CPU_SECONDS: &str = "available_cpu_seconds";

/// The target that is watched, and the files that are read for it.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// The host's /proc and /sys: the agent's own /proc shows only its own processes.
    pub roots: &'a Roots,
    /// The coordinator, by its number in that /proc. Its descendants belong to the run.
    pub coordinator: u32,
    /// The directory of the target's device below /sys; `None` if it has no device.
    pub device: Option<&'a Path>,
    /// The directories of the other targets that are ready. Their I/O belongs to the run.
    pub neighbours: &'a [PathBuf],
}

/// The second reading of a source. It returns the differences from the first one.
pub type Finish = Box<dyn FnOnce() -> Seen>;

/// A source of interference.
pub trait Source: Sync {
    /// Returns the name.
    fn name(&self) -> &'static str;
    /// Returns one line for `fsb list interference`.
    fn about(&self) -> &'static str;
    /// Returns the reason why it cannot be watched here, if there is one.
    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal>;
    /// Reads the source for the first time. Returns `None` if the source cannot be read.
    fn begin(&self, place: &Watched<'_>) -> Option<Finish>;
}

/// Converts ticks of the kernel's clock into seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns a single value.
pub(super) fn one(name: &str, value: f64) -> Seen {
    Seen::from([(name.to_owned(), value)])
}

/// Time that the hypervisor gave to other guests while this machine had work.
pub(super) struct Steal;

pub(crate) const STEAL_SECONDS: &str = "steal_seconds";

impl Source for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn about(&self) -> &'static str {
        "CPU time that the hypervisor gave to other machines while this one had work."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        steal_ticks(place.roots)
            .map(drop)
            .ok_or_else(|| "/proc/stat has no steal counter".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = steal_ticks(&roots)?;
        Some(Box::new(move || {
            let after = steal_ticks(&roots).unwrap_or(before);
            one(STEAL_SECONDS, seconds(after.saturating_sub(before)))
        }))
    }
}

/// Returns the seconds that the hypervisor has given to other guests while this machine had work.
/// Returns `None` if the kernel does not count them.
pub fn stolen_seconds() -> Option<f64> {
    steal_ticks(&Roots::default()).map(seconds)
}

/// Returns the eighth number of the first line.
fn steal_ticks(roots: &Roots) -> Option<u64> {
    let text = roots.proc_text("stat")?;
    text.lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .nth(7)?
        .parse()
        .ok()
}

/// CPU time of processes that belong neither to this run nor to the kernel.
pub(super) struct Others;

pub(crate) const OTHERS_SECONDS: &str = "others_cpu_seconds";

impl Source for Others {
    fn name(&self) -> &'static str {
        "others"
    }

    fn about(&self) -> &'static str {
        "CPU time of other processes, those that ended meanwhile included."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        processes_around(place)
            .map(drop)
            .ok_or_else(|| "the processes of this machine cannot be seen".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let (roots, coordinator) = (place.roots.clone(), place.coordinator);
        let before = processes_around(place)?;
        Some(Box::new(move || {
            let after = read_processes(&roots);
            let others = used_by_others(&before, &after, coordinator);
            one(
                OTHERS_SECONDS,
                seconds(others.iter().map(|(_, ticks)| ticks).sum()),
            )
        }))
    }
}

/// Returns the processes of the machine. Returns `None` if the coordinator is not among them.
fn processes_around(place: &Watched<'_>) -> Option<Vec<Process>> {
    let here = read_processes(place.roots);
    let sees_own = here.iter().any(|process| process.id == place.coordinator);
    sees_own.then_some(here)
}

/// Pressure stall information: the time that tasks waited for processors, disks and memory,
/// including the run's own.
///
/// It is recorded and not judged, because every workload waits for its disk.
pub(super) struct Pressure;

const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

impl Source for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn about(&self) -> &'static str {
        "Time in which some work, fsb's included, waited for processors, disks or memory."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        match pressure_totals(place.roots)[..] {
            [] => Err("this kernel keeps no /proc/pressure (boot it with psi=1)".into()),
            _ => Ok(()),
        }
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = pressure_totals(&roots);
        if before.is_empty() {
            return None;
        }
        Some(Box::new(move || {
            let after = pressure_totals(&roots);
            before
                .iter()
                .filter_map(|(resource, old): &(&str, u64)| {
                    let (_, new) = after.iter().find(|(other, _)| other == resource)?;
                    Some((
                        format!("pressure_{resource}_seconds"),
                        new.saturating_sub(*old) as f64 * 1e-6,
                    ))
                })
                .collect::<Seen>()
        }))
    }
}

/// Microseconds since boot in which at least one task was stalled
/// (Documentation/accounting/psi.rst).
fn pressure_totals(roots: &Roots) -> Vec<(&'static str, u64)> {
    let total = |resource: &&'static str| {
        let text = roots.proc_text(&format!("pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        Some((
            *resource,
            some.split_whitespace()
                .find_map(|word| word.strip_prefix("total="))?
                .parse()
                .ok()?,
        ))
    };
    RESOURCES.iter().filter_map(total).collect()
}

/// I/O of the disk under the target that neither the target nor another ready target caused.
pub(super) struct OtherDeviceUse;

/// Bytes that the disk moved for others.
pub(super) const OTHERS_DEVICE_BYTES: &str = "others_device_bytes";
/// Bytes that the target's device moved meanwhile, and those of other targets that are ready on the
/// same disk.
pub(super) const TARGET_DEVICE_BYTES: &str = "target_device_bytes";
/// Cache flushes that these devices served meanwhile.
pub(super) const TARGET_DEVICE_FLUSHES: &str = "target_device_flushes";
/// Bytes that the disk moved for others or for the file system that holds the image, which cannot
/// be distinguished.
const UNSURE_DEVICE_BYTES: &str = "others_or_backing_device_bytes";

impl Source for OtherDeviceUse {
    fn name(&self) -> &'static str {
        "device"
    }

    fn about(&self) -> &'static str {
        "Bytes that the disk under the target read and wrote for other processes."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        let device = place.device.ok_or("the target has no device")?;
        bottom_device(place.roots, device).map(drop)
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let device = place.device?.to_owned();
        let bottom = bottom_device(place.roots, &device).ok()?;
        let mut own = on_the_same_disk(place, &device, &bottom);
        own.push(device);
        // The targets' counters are read before the disk's at both times.
        let (targets, disk) = (moved(&own)?, block::activity(&bottom.disk)?);
        Some(Box::new(move || {
            let (Some(disk_now), Some(targets_now)) = (block::activity(&bottom.disk), moved(&own))
            else {
                return Seen::new();
            };
            let ours = targets_now.0.saturating_sub(targets.0);
            let flushed = targets_now.1.saturating_sub(targets.1);
            let others = bytes(&disk_now)
                .saturating_sub(bytes(&disk))
                .saturating_sub(ours);
            let name = if bottom.in_place {
                OTHERS_DEVICE_BYTES
            } else {
                UNSURE_DEVICE_BYTES
            };
            let values = [
                (TARGET_DEVICE_BYTES, ours),
                (TARGET_DEVICE_FLUSHES, flushed),
                (name, others),
            ];
            values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value as f64))
                .collect()
        }))
    }
}

/// Returns the devices of other targets whose bytes the disk counts. Excludes the target's own
/// device.
fn on_the_same_disk(place: &Watched<'_>, own: &Path, bottom: &Bottom) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = place
        .neighbours
        .iter()
        .filter(|device| *device != own)
        .cloned()
        .collect();
    found.sort();
    found.dedup();
    found.retain(|device| {
        bottom_device(place.roots, device).is_ok_and(|other| other.disk == bottom.disk)
    });
    found
}

/// Returns the bytes and flushes of all of them. Returns `None` if one of them has disappeared.
fn moved(devices: &[PathBuf]) -> Option<(u64, u64)> {
    devices.iter().try_fold((0, 0), |sum, device| {
        let activity = block::activity(device)?;
        Some((sum.0 + bytes(&activity), sum.1 + activity.flushes))
    })
}

fn bytes(activity: &block::Activity) -> u64 {
    activity.read_bytes + activity.write_bytes
}

/// The disk at the bottom of a stack of devices.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bottom {
    /// The directory below /sys.
    pub disk: PathBuf,
    /// Whether the layers in between overwrite blocks in place.
    pub in_place: bool,
}

/// Returns the one disk under a device. Fails if several disks serve it, or none, because the
/// requests to each are then unknown.
pub(crate) fn bottom_device(roots: &Roots, directory: &Path) -> Result<Bottom, Refusal> {
    let storage = Storage::beneath_device(directory, roots);
    let layers = || storage.found.iter().map(|found| &found.layer);
    let depths: BTreeSet<u32> = layers().map(|layer| layer.depth).collect();
    if depths.len() < storage.found.len() {
        return Err("several disks are under the target".into());
    }
    if layers().any(|layer| matches!(layer.layer, Layer::Unknown { .. })) {
        return Err("the disk under the image is not known".into());
    }
    let in_place = storage
        .found
        .iter()
        .filter_map(|found| found.mount.as_ref())
        .all(|mount| fs::of_mount(mount).is_some_and(|member| member.writes_in_place()));
    let disk = storage
        .found
        .last()
        .and_then(|found| found.device.clone())
        .ok_or("no disk is under the target")?;
    Ok(Bottom { disk, in_place })
}

/// The frequency that the processors report.
pub(super) struct Frequency;

impl Source for Frequency {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn about(&self) -> &'static str {
        "Mean clock frequency of the processors before and after: the smaller of the two."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        hertz(place.roots)
            .map(drop)
            .ok_or_else(|| "the kernel shows no frequencies (no cpufreq)".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = hertz(&roots)?;
        Some(Box::new(move || {
            let least = before.min(hertz(&roots).unwrap_or(before));
            one(&format!("cpu_frequency_hertz{LEAST}"), least)
        }))
    }
}

fn hertz(roots: &Roots) -> Option<f64> {
    let all: Vec<f64> = processor_names(roots)
        .filter_map(|name| {
            roots
                .sys_text(&format!(
                    "devices/system/cpu/{name}/cpufreq/scaling_cur_freq"
                ))?
                .parse()
                .ok()
        })
        .collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() * 1000.0 / all.len() as f64)
}

/// Processors that the hardware slowed down because they were too hot.
pub(super) struct Throttle;

pub(crate) const THROTTLE_EVENTS: &str = "throttle_events";

impl Source for Throttle {
    fn name(&self) -> &'static str {
        "throttle"
    }

    fn about(&self) -> &'static str {
        "Number of times that processors slowed down because of heat."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        throttle_events(place.roots)
            .map(drop)
            .ok_or_else(|| "the kernel counts no thermal throttling here".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = throttle_events(&roots)?;
        Some(Box::new(move || {
            let after = throttle_events(&roots).unwrap_or(before);
            one(THROTTLE_EVENTS, after.saturating_sub(before) as f64)
        }))
    }
}

/// Returns `cpu0`, `cpu1`, …
fn processor_names(roots: &Roots) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(roots.sys.join("devices/system/cpu"))
        .into_iter()
        .flatten();
    entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().to_str()?.to_owned();
        let number = name.strip_prefix("cpu")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    })
}

/// Returns the throttle events of cores and packages. All cores of a package show its counter, so
/// the largest one counts.
pub(crate) fn throttle_events(roots: &Roots) -> Option<u64> {
    let count = |name: &str, file: &str| -> Option<u64> {
        roots
            .sys_text(&format!(
                "devices/system/cpu/{name}/thermal_throttle/{file}"
            ))?
            .parse()
            .ok()
    };
    let names: Vec<String> = processor_names(roots).collect();
    let cores: Vec<u64> = names
        .iter()
        .filter_map(|name| count(name, "core_throttle_count"))
        .collect();
    let package = names
        .iter()
        .filter_map(|name| count(name, "package_throttle_count"))
        .max();
    (!cores.is_empty() || package.is_some())
        .then(|| cores.iter().sum::<u64>() + package.unwrap_or(0))
}

// Children of the agent that were stopped by a signal and continued: their clock went on meanwhile.

/// Number of workers, or of their monitors, that were stopped and continued between go and result.
pub(crate) const STOPPED_PROCESSES: &str = "stopped_processes";

/// Returns the number of children that continued after a stop since the last call. The kernel
/// reports each one once. Children that end are left to the thread that waits for them.
pub(super) fn continued() -> u32 {
    let options = WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let mut count = 0;
    while matches!(waitid(WaitId::All, options), Ok(Some(_))) {
        count += 1;
    }
    count
}

// Processes and the CPU time that each used between two readings.

/// A process from /proc/PID/stat. Times are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub id: u32,
    pub parent: u32,
    /// The start time. Together with the id it identifies a process, because ids are reused.
    pub start: u64,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// The CPU time of the process itself.
    pub own: u64,
    /// The CPU time of its children that it has reaped.
    pub buried: u64,
    pub name: String,
}

/// PF_KTHREAD of linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns all visible processes.
pub(crate) fn read_processes(roots: &Roots) -> Vec<Process> {
    let entries = std::fs::read_dir(&roots.proc).into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process may have ended since the directory was read.
    ids.filter_map(|id| parse(id, &roots.proc_text(&format!("{id}/stat"))?))
        .collect()
}

fn parse(id: u32, stat: &str) -> Option<Process> {
    let field = |number| stat_field(stat, number);
    Some(Process {
        id,
        parent: field(4)? as u32,
        start: field(22)?,
        kernel: field(9)? & KERNEL_THREAD != 0,
        own: field(14)? + field(15)?,
        buried: field(16)? + field(17)?,
        name: stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned(),
    })
}

/// Returns the ticks that other processes used between two readings, by their names, the busiest
/// first. Excludes `coordinator`, its descendants and the kernel's threads.
///
/// The time of a process that ended meanwhile is counted with the process that reaped it: its
/// parent, or an ancestor that adopted it. That time includes its whole life, so its time at the
/// first reading is subtracted.
pub(crate) fn used_by_others(
    before: &[Process],
    after: &[Process],
    coordinator: u32,
) -> Vec<(String, u64)> {
    let (known, alive) = (index(before), index(after));
    let same = |process: &Process| {
        known
            .get(&process.id)
            .copied()
            .filter(|old| old.start == process.start)
    };
    let mut used: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for process in foreign(after, &alive, coordinator) {
        let (own, buried) = same(process).map_or((0, 0), |old| (old.own, old.buried));
        used.insert(
            process.id,
            (
                process.own.saturating_sub(own),
                process.buried.saturating_sub(buried),
            ),
        );
    }
    for gone in foreign(before, &known, coordinator) {
        if alive
            .get(&gone.id)
            .is_some_and(|process| process.start == gone.start)
        {
            continue;
        }
        let mut known_of_it = gone.own + gone.buried;
        for ancestor in ancestors(gone, &known) {
            let Some((_, buried)) = used.get_mut(&ancestor) else {
                continue;
            };
            let taken = known_of_it.min(*buried);
            (*buried, known_of_it) = (*buried - taken, known_of_it - taken);
        }
    }
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, (own, buried)) in used {
        *by_name.entry(&alive[&id].name).or_default() += own + buried;
    }
    let mut busiest: Vec<(String, u64)> = by_name
        .into_iter()
        .filter(|(_, ticks)| *ticks > 0)
        .map(|(name, ticks)| (name.to_owned(), ticks))
        .collect();
    busiest.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
    busiest
}

type Index<'a> = BTreeMap<u32, &'a Process>;

fn index(processes: &[Process]) -> Index<'_> {
    processes
        .iter()
        .map(|process| (process.id, process))
        .collect()
}

fn foreign<'a>(
    processes: &'a [Process],
    all: &'a Index<'a>,
    coordinator: u32,
) -> impl Iterator<Item = &'a Process> {
    processes.iter().filter(move |process| {
        !process.kernel
            && process.id != coordinator
            && !ancestors(process, all).contains(&coordinator)
    })
}

/// Returns the parents of a process, the nearest first.
fn ancestors(process: &Process, all: &Index<'_>) -> Vec<u32> {
    let mut line = Vec::new();
    let mut seen = BTreeSet::from([process.id]);
    let mut parent = process.parent;
    // Processes that change during the reading may appear to form a cycle.
    while let Some(next) = all.get(&parent).filter(|_| seen.insert(parent)) {
        line.push(parent);
        parent = next.parent;
    }
    line
}

#[cfg(test)]
mod tests {
    use fsb_model::Interference;
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::watch::{Watch, interference};

    #[test]
    fn a_child_that_was_stopped_and_continued_is_interference() {
        let nowhere = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: nowhere.path().to_owned(),
            sys: nowhere.path().to_owned(),
        };
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let watch = Watch::begin(&Watched {
            roots: &roots,
            coordinator: 1,
            device: None,
            neighbours: &[],
        });
        kill_process(pid, Signal::STOP).unwrap();
        // The kernel notes a continued process only if it had stopped before.
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
            .unwrap()
            .contains(") T ")
        {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::CONT).unwrap();
        let seen = watch.end();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            interference(&seen),
            [Interference::Stopped { processes: 1.0 }]
        );
    }

    fn process(id: u32, parent: u32, own: u64, buried: u64) -> Process {
        Process {
            id,
            parent,
            start: u64::from(id),
            kernel: false,
            own,
            buried,
            name: format!("p{id}"),
        }
    }

    fn total(before: &[Process], after: &[Process]) -> u64 {
        used_by_others(before, after, 50)
            .iter()
            .map(|(_, ticks)| ticks)
            .sum()
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let stat = "9 (a) b) S 7 9 9 0 -1 2129984 0 0 0 0 11 22 33 44 20 0 1 0 555 0";
        let read = parse(9, stat).unwrap();
        assert_eq!(
            (read.parent, read.start, read.own, read.buried),
            (7, 555, 33, 77)
        );
        assert_eq!(read.name, "a) b");
        assert!(read.kernel);
        assert_eq!(parse(9, "9 (short) S 7"), None);
    }

    #[test]
    fn ours_and_the_kernels_do_not_count() {
        let kernel = |own| Process {
            kernel: true,
            ..process(2, 0, own, 0)
        };
        let before = [
            process(1, 0, 5, 0),
            kernel(1),
            process(50, 1, 10, 0),
            process(51, 50, 0, 0),
        ];
        let after = [
            process(1, 0, 6, 0),
            kernel(99),
            process(50, 1, 30, 7),
            process(51, 50, 80, 0),
            process(52, 51, 9, 0),
        ];
        assert_eq!(used_by_others(&before, &after, 50), [("p1".to_owned(), 1)]);
    }

    #[test]
    fn children_that_came_and_went_are_found_with_their_parent() {
        let before = [process(1, 0, 0, 100), process(10, 1, 3, 20)];
        let after = [process(1, 0, 0, 100), process(10, 1, 4, 70)];
        assert_eq!(total(&before, &after), 51);
    }

    #[test]
    fn the_long_life_of_one_that_ended_is_not_counted_again() {
        // 4,000 ticks were used before the first reading, 30 after it.
        let before = [
            process(1, 0, 0, 0),
            process(10, 1, 5, 0),
            process(11, 10, 4000, 0),
        ];
        let after = [process(1, 0, 0, 0), process(10, 1, 5, 4030)];
        assert_eq!(total(&before, &after), 30);
        // Its parent ended, too, and an ancestor adopted it.
        let after = [process(1, 0, 0, 4035)];
        assert_eq!(total(&before, &after), 30);
        // No process reaped it.
        let after = [process(1, 0, 0, 0), process(10, 1, 5, 0)];
        assert_eq!(total(&before, &after), 0);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let before = [process(1, 0, 0, 0), process(10, 1, 500, 0)];
        let reborn = Process {
            start: 999,
            ..process(10, 1, 8, 0)
        };
        assert_eq!(total(&before, &[process(1, 0, 0, 500), reborn]), 8);
    }
}
