//! The sources of interference, the trait that each implements, and the types of its methods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_sys::error::Refusal;
use fsb_sys::{Roots, block, mountinfo, read_trimmed};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::processes;
use crate::{fs, host};

/// Values observed between the start of a task and its result, by name and in base units. They are summed over
/// repetitions; a name that ends in [`LEAST`] keeps the smallest value.
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
    /// Its name.
    fn name(&self) -> &'static str;
    /// One line for `fsb list interference`.
    fn about(&self) -> &'static str;
    /// Returns the reason why it cannot be watched here, if there is one.
    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal>;
    /// Reads it for the first time. Returns `None` if it cannot be read.
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
        steal_ticks(place.roots).map(drop).ok_or_else(|| "/proc/stat has no steal counter".into())
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

/// Returns the eighth number of the first line.
fn steal_ticks(roots: &Roots) -> Option<u64> {
    let text = roots.proc_text("stat")?;
    text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
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
        let here = processes::read(place.roots);
        match here.iter().any(|process| process.id == place.coordinator) {
            true => Ok(()),
            false => Err("the processes of this machine cannot be seen".into()),
        }
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        self.probe(place).ok()?;
        let (roots, coordinator) = (place.roots.clone(), place.coordinator);
        let before = processes::read(&roots);
        Some(Box::new(move || {
            let after = processes::read(&roots);
            let others = processes::used_by_others(&before, &after, coordinator);
            one(OTHERS_SECONDS, seconds(others.iter().map(|(_, ticks)| ticks).sum()))
        }))
    }
}

/// Pressure stall information: the time that tasks waited for processors, disks and memory, including the run's own.
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
        self.probe(place).ok()?;
        let roots = place.roots.clone();
        let before = pressure_totals(&roots);
        Some(Box::new(move || {
            let after = pressure_totals(&roots);
            let since = |(resource, old): &(&str, u64)| {
                let (_, new) = after.iter().find(|(other, _)| other == resource)?;
                Some((format!("pressure_{resource}_seconds"), new.saturating_sub(*old) as f64 * 1e-6))
            };
            before.iter().filter_map(since).collect::<Seen>()
        }))
    }
}

/// Microseconds since boot in which at least one task was stalled (Documentation/accounting/psi.rst).
fn pressure_totals(roots: &Roots) -> Vec<(&'static str, u64)> {
    let total = |resource: &&'static str| {
        let text = roots.proc_text(&format!("pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        Some((*resource, some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()?))
    };
    RESOURCES.iter().filter_map(total).collect()
}

/// I/O of the disk under the target that neither the target nor another ready target caused.
pub(super) struct OtherDeviceUse;

/// Bytes that the disk moved for others.
pub(super) const OTHERS_DEVICE_BYTES: &str = "others_device_bytes";
/// Bytes that the target's device moved meanwhile, and those of other targets that are ready on the same disk.
pub(super) const TARGET_DEVICE_BYTES: &str = "target_device_bytes";
/// Cache flushes that these devices served meanwhile.
pub(super) const TARGET_DEVICE_FLUSHES: &str = "target_device_flushes";
/// Bytes that the disk moved for others or for the file system that holds the image, which cannot be distinguished.
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
            let (Some(disk_now), Some(targets_now)) = (block::activity(&bottom.disk), moved(&own)) else {
                return Seen::new();
            };
            let ours = targets_now.0.saturating_sub(targets.0);
            let flushed = targets_now.1.saturating_sub(targets.1);
            let others = bytes(&disk_now).saturating_sub(bytes(&disk)).saturating_sub(ours);
            let name = if bottom.in_place { OTHERS_DEVICE_BYTES } else { UNSURE_DEVICE_BYTES };
            let values = [(TARGET_DEVICE_BYTES, ours), (TARGET_DEVICE_FLUSHES, flushed), (name, others)];
            values.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect()
        }))
    }
}

/// Returns the devices of other targets whose bytes the disk counts. Excludes the target's own device.
fn on_the_same_disk(place: &Watched<'_>, own: &Path, bottom: &Bottom) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = place.neighbours.iter().filter(|device| *device != own).cloned().collect();
    found.sort();
    found.dedup();
    found.retain(|device| bottom_device(place.roots, device).is_ok_and(|other| other.disk == bottom.disk));
    found
}

/// Returns bytes and flushes of all of them. Returns `None` if one of them has disappeared.
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
    /// Its directory below /sys.
    pub disk: PathBuf,
    /// Whether the layers in between overwrite blocks in place.
    pub in_place: bool,
}

/// Returns the one disk under a device. Fails if several disks serve it, or none, because the requests to each are then
/// unknown.
pub(crate) fn bottom_device(roots: &Roots, directory: &Path) -> Result<Bottom, Refusal> {
    let mut bottom = Bottom { disk: directory.to_owned(), in_place: true };
    for _ in 0..block::MOST_LAYERS {
        let text = |file: &str| read_trimmed(&bottom.disk.join(file));
        if text("partition").is_some() {
            bottom.disk.pop();
        } else if let Some(file) = text("loop/backing_file") {
            let mount = mountinfo::holding(&mountinfo::read(), Path::new(&file));
            let below = mount.as_ref().and_then(host::device_of_mount).and_then(|number| number.directory(roots));
            let (Some(mount), Some(below)) = (mount, below) else {
                return Err("the disk under the image is not known".into());
            };
            bottom.in_place &= fs::of_mount(&mount).is_some_and(|member| member.writes_in_place());
            bottom.disk = below;
        } else {
            match block::members(&bottom.disk)[..] {
                [] => return Ok(bottom),
                [ref only] => bottom.disk.clone_from(only),
                _ => return Err("several disks are under the target".into()),
            }
        }
    }
    Err("the devices under the target are stacked too deep".into())
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
        hertz(place.roots).map(drop).ok_or_else(|| "the kernel shows no frequencies (no cpufreq)".into())
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
        .filter_map(|name| roots.sys_text(&format!("devices/system/cpu/{name}/cpufreq/scaling_cur_freq"))?.parse().ok())
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
        throttle_events(place.roots).map(drop).ok_or_else(|| "the kernel counts no thermal throttling here".into())
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
    let entries = std::fs::read_dir(roots.sys.join("devices/system/cpu")).into_iter().flatten();
    entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().to_str()?.to_owned();
        let number = name.strip_prefix("cpu")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    })
}

/// Returns the throttle events of cores and packages. All cores of a package show its counter, so the largest one
/// counts.
pub(crate) fn throttle_events(roots: &Roots) -> Option<u64> {
    let count = |name: &str, file: &str| -> Option<u64> {
        roots.sys_text(&format!("devices/system/cpu/{name}/thermal_throttle/{file}"))?.parse().ok()
    };
    let names: Vec<String> = processor_names(roots).collect();
    let cores: Vec<u64> = names.iter().filter_map(|name| count(name, "core_throttle_count")).collect();
    let package = names.iter().filter_map(|name| count(name, "package_throttle_count")).max();
    (!cores.is_empty() || package.is_some()).then(|| cores.iter().sum::<u64>() + package.unwrap_or(0))
}

// Children of the agent that were stopped by a signal and continued: their clock went on meanwhile.

/// Number of workers, or of their monitors, that were stopped and continued between go and result.
pub(crate) const STOPPED_PROCESSES: &str = "stopped_processes";

/// Returns the number of children that continued after a stop since the last call. The kernel reports each one once.
/// Children that end are left to the thread that waits for them.
pub(super) fn continued() -> u32 {
    let options = WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let mut count = 0;
    while matches!(waitid(WaitId::All, options), Ok(Some(_))) {
        count += 1;
    }
    count
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
        let roots = Roots { proc: nowhere.path().to_owned(), sys: nowhere.path().to_owned() };
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let watch = Watch::begin(&Watched { roots: &roots, coordinator: 1, device: None, neighbours: &[] });
        kill_process(pid, Signal::STOP).unwrap();
        // The kernel notes a continued process only if it had stopped before.
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::CONT).unwrap();
        let seen = watch.end();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(interference(&seen), [Interference::Stopped { processes: 1.0 }]);
    }
}
