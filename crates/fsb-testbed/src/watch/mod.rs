//! The registry of sources of interference: each is one type in `sources.rs` and one line in
//! [`REGISTRY`].
//!
//! The agent reads a source twice: before it starts the worker and after it has the worker's
//! result. It reads nothing in between, so that watching does not affect the measurement.

pub(crate) mod sources;
pub(crate) mod threshold;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fsb_model::timeline::DeviceSample;
use fsb_sys::{Roots, block};
use rustix::time::{ClockId, clock_gettime};

use crate::fs::Journal;

pub(crate) use sources::{AVAILABLE_CPU_SECONDS, WATCHED_SECONDS, seconds};
pub use sources::{Finish, LEAST, Seen, Source, Watched, stolen_seconds};
pub use threshold::{PRETENDED, interference};

/// Every source that is watched.
pub static REGISTRY: &[&dyn Source] = &[
    &sources::Steal,
    &sources::Others,
    &sources::Pressure,
    &sources::OtherDeviceUse,
    &sources::Frequency,
    &sources::Throttle,
];

/// A measurement that is being watched.
pub struct Watch {
    started: Instant,
    processors: f64,
    readings: Vec<Finish>,
}

impl Watch {
    /// Reads all sources for the first time.
    pub fn begin(place: &Watched<'_>) -> Watch {
        // Stops before the first reading are no interference.
        sources::continued();
        let readings = REGISTRY
            .iter()
            .filter_map(|source| source.begin(place))
            .collect();
        Watch {
            processors: processors(place.roots),
            readings,
            started: Instant::now(),
        }
    }

    /// Reads all sources for the second time.
    pub fn end(self) -> Seen {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut seen: Seen = self
            .readings
            .into_iter()
            .flat_map(|finish| finish())
            .collect();
        seen.insert(WATCHED_SECONDS.to_owned(), seconds);
        let stopped = sources::continued();
        if stopped > 0 {
            seen.insert(sources::STOPPED_PROCESSES.to_owned(), f64::from(stopped));
        }
        seen.insert(AVAILABLE_CPU_SECONDS.to_owned(), seconds * self.processors);
        seen
    }
}

/// Adds the values of one more repetition to those of the trial.
pub fn add(sum: &mut Seen, more: Seen) {
    for (name, value) in more {
        let least = name.ends_with(LEAST);
        sum.entry(name)
            .and_modify(|known| {
                *known = if least {
                    known.min(value)
                } else {
                    *known + value
                }
            })
            .or_insert(value);
    }
}

/// Returns the reason why I/O of others on the disk under a device cannot be detected. Returns
/// `None` if it can.
pub(crate) fn blind_to_others(roots: &Roots, device: &Path) -> Option<String> {
    match sources::bottom_device(roots, device) {
        Err(why) => Some(why.into()),
        Ok(bottom) if !bottom.in_place => Some(
            "the file system of the image relocates written data, which counts as writes of other processes".to_owned(),
        ),
        Ok(_) => None,
    }
}

/// Returns the number of online processors, from their lines in /proc/stat.
fn processors(roots: &Roots) -> f64 {
    let text = roots.proc_text("stat").unwrap_or_default();
    let lines = text.lines().filter(|line| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| !rest.starts_with(' '))
    });
    lines.count().max(1) as f64
}

/// The interval between two readings of a timeline. Fifty readings a second take about a thousandth
/// of one processor.
const EVERY: Duration = Duration::from_millis(20);

/// The timeline of a device during a sequential trial: a thread of the agent reads the counters
/// until [`DeviceTimeline::end`]. Short samples have no timeline.
#[derive(Debug)]
pub struct DeviceTimeline {
    over: Arc<AtomicBool>,
    reader: JoinHandle<Vec<DeviceSample>>,
}

impl DeviceTimeline {
    /// Starts to read the counters of the device with this directory, and the turns of the journal
    /// on it. Returns `None` if the counters cannot be read.
    pub(crate) fn begin(device: &Path, journal: Option<Journal>) -> Option<DeviceTimeline> {
        // The kernel counts flushes only for whole disks.
        let (device, disk) = (device.to_owned(), block::whole_disk(device));
        let read = move || {
            let activity = block::activity(&device)?;
            let flushes = if disk == device {
                activity.flushes
            } else {
                block::activity(&disk)?.flushes
            };
            let now = clock_gettime(ClockId::Monotonic);
            let at_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            let journal_turns = journal.as_ref().and_then(Journal::turns);
            Some(DeviceSample {
                at_ns,
                read: activity.read_bytes,
                written: activity.write_bytes,
                flushes,
                journal_turns,
            })
        };
        let first = read()?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let reader = thread::Builder::new()
            .name("fsb-timeline".to_owned())
            .spawn(move || {
                let mut samples = vec![first];
                while !ended.load(Ordering::Relaxed) {
                    thread::park_timeout(EVERY);
                    samples.extend(read());
                }
                samples.extend(read());
                samples
            });
        Some(DeviceTimeline {
            over,
            reader: reader.ok()?,
        })
    }

    /// Returns the readings in the order of time.
    pub fn end(self) -> Vec<DeviceSample> {
        self.over.store(true, Ordering::Relaxed);
        self.reader.thread().unpark();
        self.reader.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a machine of two processors, on which other processes run, too.
    fn machine(root: &Path, steal: u64, others: u64, throttled: u64) -> Roots {
        write(
            root,
            "proc/stat",
            &format!("cpu  1 2 3 4 5 6 7 {steal} 0 0\ncpu0 1\ncpu1 1\nintr 5\n"),
        );
        let stat = |id: u32, parent: u32, own: u64| {
            format!("{id} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 0 0 20 0 1 0 5 0")
        };
        write(root, "proc/1/stat", &stat(1, 0, 0));
        write(root, "proc/7/stat", &stat(7, 1, others));
        write(root, "proc/50/stat", &stat(50, 1, 10 * others));
        for (name, total) in [("cpu", steal), ("io", 3 * steal), ("memory", 0)] {
            write(
                root,
                &format!("proc/pressure/{name}"),
                &format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"),
            );
        }
        for cpu in ["cpu0", "cpu1"] {
            let directory = format!("sys/devices/system/cpu/{cpu}");
            write(
                root,
                &format!("{directory}/cpufreq/scaling_cur_freq"),
                &format!("{}\n", 3_000_000 - throttled * 1000),
            );
            write(
                root,
                &format!("{directory}/thermal_throttle/core_throttle_count"),
                &throttled.to_string(),
            );
            write(
                root,
                &format!("{directory}/thermal_throttle/package_throttle_count"),
                &throttled.to_string(),
            );
        }
        write(root, "sys/devices/system/cpu/cpufreq/boost", "1");
        Roots::below(root)
    }

    #[test]
    fn members_are_unique_and_described() {
        let mut names = std::collections::BTreeSet::new();
        for source in REGISTRY {
            assert!(names.insert(source.name()), "{} twice", source.name());
            assert!(
                !source.about().is_empty() && !source.about().contains('\n'),
                "{}",
                source.name()
            );
        }
    }

    #[test]
    fn every_source_says_what_happened_between_two_looks() {
        let tree = tempfile::tempdir().unwrap();
        let roots = machine(tree.path(), 100, 200, 0);
        let device = tree.path().join("sys/devices/pci/block/sda/sda1");
        let moved = |disk: u64, partition: u64| {
            let stat = |sectors: u64| format!("1 0 {sectors} 0 1 0 0 0 0 0 0");
            write(tree.path(), "sys/devices/pci/block/sda/stat", &stat(disk));
            write(
                tree.path(),
                "sys/devices/pci/block/sda/sda1/stat",
                &stat(partition),
            );
            write(
                tree.path(),
                "sys/devices/pci/block/sda/sda1/partition",
                "1\n",
            );
        };
        moved(1000, 500);
        let place = Watched {
            roots: &roots,
            coordinator: 50,
            device: Some(&device),
            neighbours: &[],
        };
        for source in REGISTRY {
            assert_eq!(source.probe(&place), Ok(()), "{}", source.name());
        }
        let watch = Watch::begin(&place);
        machine(tree.path(), 130, 250, 2);
        moved(1900, 1100);
        let seen = watch.end();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let expected = [
            ("steal_seconds", 30.0 / ticks),
            ("others_cpu_seconds", 50.0 / ticks),
            ("pressure_cpu_seconds", 30e-6),
            ("pressure_io_seconds", 90e-6),
            ("pressure_memory_seconds", 0.0),
            ("target_device_bytes", 600.0 * 512.0),
            ("target_device_flushes", 0.0),
            ("others_device_bytes", 300.0 * 512.0),
            ("cpu_frequency_hertz_least", 2.998e9),
            // Two cores, and one package whose counter both report.
            ("throttle_events", 6.0),
        ];
        for (name, value) in expected {
            let found = seen
                .get(name)
                .unwrap_or_else(|| panic!("{name} in {seen:?}"));
            assert!(
                (found - value).abs() <= 1e-9 * value.abs(),
                "{name}: {found} is not {value}"
            );
        }
        assert!(
            (seen[AVAILABLE_CPU_SECONDS] / seen[WATCHED_SECONDS] - 2.0).abs() < 1e-9,
            "two processors"
        );
        assert_eq!(seen.len(), expected.len() + 2, "{seen:?}");
    }

    #[test]
    fn io_of_our_neighbours_is_ours() {
        let tree = tempfile::tempdir().unwrap();
        let disk = |name: &str| format!("sys/devices/pci/block/{name}");
        let moved = |name: &str, sectors: u64| {
            write(
                tree.path(),
                &disk(name),
                &format!("1 0 {sectors} 0 1 0 0 0 0 0 0"),
            )
        };
        let roots = Roots::below(tree.path());
        for number in 1..=3 {
            write(
                tree.path(),
                &disk(&format!("sda/sda{number}/partition")),
                &number.to_string(),
            );
            moved(&format!("sda/sda{number}/stat"), 100);
        }
        moved("sda/stat", 1000);
        moved("sdb/stat", 1000);
        let path = |name: &str| tree.path().join(disk(name));
        // The target itself and devices on another disk are not counted again.
        let neighbours = [
            path("sda/sda2"),
            path("sda/sda1"),
            path("sda/sda2"),
            path("sdb"),
        ];
        let device = path("sda/sda1");
        let place = Watched {
            roots: &roots,
            coordinator: 1,
            device: Some(&device),
            neighbours: &neighbours,
        };
        let finish = sources::OtherDeviceUse.begin(&place).unwrap();
        for (name, sectors) in [
            ("sda/sda1/stat", 110),
            ("sda/sda2/stat", 300),
            ("sdb/stat", 9000),
            ("sda/stat", 1217),
        ] {
            moved(name, sectors);
        }
        let seen = finish();
        assert_eq!(
            (seen["target_device_bytes"], seen["others_device_bytes"]),
            (210.0 * 512.0, 7.0 * 512.0)
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_is_said_and_not_guessed() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        let place = Watched {
            roots: &roots,
            coordinator: 1,
            device: None,
            neighbours: &[],
        };
        for source in REGISTRY {
            let why = source.probe(&place).expect_err(source.name());
            assert!(!why.to_string().is_empty(), "{}", source.name());
        }
        let seen = Watch::begin(&place).end();
        assert_eq!(
            seen.keys().collect::<Vec<_>>(),
            [AVAILABLE_CPU_SECONDS, WATCHED_SECONDS]
        );
        assert_eq!(interference(&seen), []);
    }

    #[test]
    fn repetitions_are_summed_but_for_what_is_the_least() {
        let seen = |bytes: f64, hertz: f64| {
            Seen::from([("b".to_owned(), bytes), ("h_least".to_owned(), hertz)])
        };
        let mut sum = Seen::new();
        for more in [seen(1.0, 5.0), seen(2.0, 3.0), seen(4.0, 4.0)] {
            add(&mut sum, more);
        }
        assert_eq!(sum, seen(7.0, 3.0));
    }

    #[test]
    fn this_machine_is_watched_and_sees_a_neighbour() {
        let roots = Roots::default();
        // No process descends from process `u32::MAX`, so all count as foreign.
        let before = sources::read_processes(&roots);
        let mut neighbour = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let found = fsb_sys::poll_until(std::time::Duration::from_secs(20), || {
            let used = sources::used_by_others(&before, &sources::read_processes(&roots), u32::MAX);
            used.iter().any(|(name, ticks)| name == "sh" && *ticks >= 5)
        });
        let ours = sources::used_by_others(
            &before,
            &sources::read_processes(&roots),
            std::process::id(),
        );
        neighbour.kill().unwrap();
        neighbour.wait().unwrap();
        assert!(found, "a process that ran for seconds was not seen");
        assert!(
            !ours.iter().any(|(name, _)| name == "sh"),
            "a child of ours is not foreign: {ours:?}"
        );
    }

    #[test]
    fn the_disk_under_a_stack_is_found_or_it_is_said_why_not() {
        let tree = tempfile::tempdir().unwrap();
        let block = |name: &str| tree.path().join("sys/devices/virtual/block").join(name);
        let roots = Roots::below(tree.path());
        for name in ["sda", "sdb", "dm-0", "md0"] {
            fs::create_dir_all(block(name).join("slaves")).unwrap();
        }
        write(&block("sda/sda2"), "partition", "2\n");
        std::os::unix::fs::symlink(block("sda/sda2"), block("dm-0/slaves/sda2")).unwrap();
        for member in ["sda", "sdb"] {
            std::os::unix::fs::symlink(block(member), block("md0/slaves").join(member)).unwrap();
        }
        let found = |name: &str| sources::bottom_device(&roots, &block(name));
        assert_eq!(found("dm-0").unwrap().disk, block("sda"));
        assert_eq!(
            found("sdb").unwrap(),
            sources::Bottom {
                disk: block("sdb"),
                in_place: true
            }
        );
        assert_eq!(
            found("md0").unwrap_err(),
            "several disks are under the target".into()
        );
        write(
            &block("loop0"),
            "loop/backing_file",
            "/proc/nothing (deleted)\n",
        );
        assert_eq!(
            found("loop0").unwrap_err(),
            "the disk under the image is not known".into()
        );
    }

    #[test]
    fn counters_are_read_until_the_end() {
        let tree = tempfile::tempdir().unwrap();
        let stat = |written: u64, flushes: u64| {
            let text = format!("0 0 8 0 0 0 {written} 0 0 0 0 0 0 0 0 {flushes} 0");
            std::fs::write(tree.path().join("stat"), text).unwrap();
        };
        stat(2, 1);
        let timeline = DeviceTimeline::begin(tree.path(), None).unwrap();
        stat(10, 3);
        let samples = timeline.end();
        let (first, last) = (samples.first().unwrap(), samples.last().unwrap());
        assert_eq!((first.read, first.written, first.flushes), (4096, 1024, 1));
        assert_eq!((last.written, last.flushes), (5120, 3));
        assert!(last.at_ns > first.at_ns);
        assert!(DeviceTimeline::begin(&tree.path().join("none"), None).is_none());
    }
}
