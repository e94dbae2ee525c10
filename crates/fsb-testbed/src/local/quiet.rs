//! Quiescing of targets before each timed interval, and the CPU time that the machine used.

use std::path::Path;
use std::time::{Duration, Instant};

use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::{Roots, block, memory, poll_until};
use rustix::fs::{Mode, OFlags};

use crate::privilege;
use crate::testbed::Quiet;

/// The time limit. A machine that never becomes idle must not stop a run.
const LONGEST: Duration = Duration::from_secs(10);

/// The device is idle after it did nothing for this long since everything was written out.
const STILL: Duration = Duration::from_millis(5);

/// Writes everything out and waits until a device that only this run uses is idle. `finish`
/// completes the deferred work of the file system. The device is idle when a further syncfs finds
/// nothing to write and no I/O follows.
pub(super) fn quiesce_own(
    root: &Path,
    device: &Path,
    finish: &dyn Fn() -> Result<(), TestbedError>,
    left: Duration,
) -> Result<Quiet, TestbedError> {
    let start = Instant::now();
    sync(root)?;
    finish()?;
    let mut failure = None;
    let mut last = LastSync::default();
    let idle = poll_until(LONGEST.min(left).saturating_sub(start.elapsed()), || {
        // A syncfs flushes the device's cache whether or not it wrote, so flushes are ignored.
        let moved = || {
            block::activity(device).map_or((0, 0), |activity| {
                (activity.read_bytes, activity.write_bytes)
            })
        };
        let before = moved();
        failure = sync(root).err();
        let synced = moved();
        std::thread::sleep(STILL);
        let stands = block::in_flight(device) == 0 && moved() == synced;
        failure.is_some() || last.is_quiet(before, synced, stands)
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(Quiet {
            waited_seconds: start.elapsed().as_secs_f64(),
            idle,
        }),
    }
}

/// A syncfs that writes at most this many bytes may have found nothing to write: ReiserFS commits
/// its superblock each time.
const IDLE_SYNC: u64 = 64 << 10;
/// After this many in a row that wrote the same and caused no other I/O, that amount is the cost of
/// a syncfs there.
const ALIKE: u32 = 3;

/// The bytes that the previous syncfs wrote, and the number in a row that wrote the same.
#[derive(Debug, Default)]
struct LastSync {
    wrote: u64,
    alike: u32,
}

impl LastSync {
    /// Returns whether a syncfs found nothing to write. `before` and `after` are the bytes that the
    /// device had read and written before and after it. The last argument is true if the device has
    /// been idle since.
    fn is_quiet(&mut self, before: (u64, u64), after: (u64, u64), stands: bool) -> bool {
        if after == before {
            return stands;
        }
        let wrote = after.1.saturating_sub(before.1);
        let idle = stands && after.0 == before.0 && wrote <= IDLE_SYNC;
        self.alike = if idle && (self.alike == 0 || wrote == self.wrote) {
            self.alike + 1
        } else {
            u32::from(idle)
        };
        self.wrote = wrote;
        self.alike >= ALIKE
    }
}

/// Like [`quiesce_own`], for a device that others use, too, or without a device. Waits until the
/// machine has no page under writeback and the device has no request in flight.
pub(super) fn quiesce(
    root: &Path,
    device: Option<&Path>,
    left: Duration,
) -> Result<Quiet, TestbedError> {
    let start = Instant::now();
    sync(root)?;
    let roots = Roots::default();
    let idle = poll_until(LONGEST.min(left).saturating_sub(start.elapsed()), || {
        let writeback = memory::meminfo(&roots, "Writeback").unwrap_or(0);
        writeback == 0 && device.is_none_or(|device| block::in_flight(device) == 0)
    });
    Ok(Quiet {
        waited_seconds: start.elapsed().as_secs_f64(),
        idle,
    })
}

/// Writes out the file system that `root` is on.
pub(super) fn sync(root: &Path) -> Result<(), TestbedError> {
    let directory = rustix::fs::open(
        root,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    directory.and_then(rustix::fs::syncfs).map_err(|errno| {
        TestbedError::trial("the target could not be written out").tried(attempt(
            "syncfs",
            root,
            &errno.into(),
        ))
    })
}

/// Empties page cache, dentries and inodes of the whole machine. Dirty ones stay: call sync first.
pub(super) fn drop_caches(roots: &Roots) -> Result<(), TestbedError> {
    let path = roots.proc.join("sys/vm/drop_caches");
    std::fs::write(&path, "3").map_err(|error| {
        TestbedError::machine("the caches could not be emptied")
            .tried(attempt("write 3 to", &path, &error))
            .advice(format!(
                "{}, or with --control page-cache=evict",
                privilege::advice()
            ))
    })
}

/// Returns the seconds since boot that all processors were not idle, kernel threads and interrupts
/// included. Excludes steal, in which the hypervisor served others.
pub(super) fn busy_cpu_seconds(roots: &Roots) -> Option<f64> {
    parse_busy(
        &roots.proc_text("stat")?,
        rustix::param::clock_ticks_per_second(),
    )
}

/// Parses the first line of /proc/stat: user nice system idle iowait irq softirq steal guest
/// guest_nice. User time already includes guest time.
fn parse_busy(text: &str, ticks_per_second: u64) -> Option<f64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = fields[..] else {
        return None;
    };
    Some((user + nice + system + irq + softirq) as f64 / ticks_per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let text = "cpu  100 10 50 9000 800 3 7 66 5 5\ncpu0 1 2 3\n";
        assert_eq!(parse_busy(text, 100), Some(1.7));
        assert_eq!(parse_busy("cpu0 1 2 3\n", 100), None);
        assert_eq!(parse_busy("cpu 1 2\n", 100), None);
    }

    #[test]
    fn a_syncfs_that_always_writes_the_same_little_has_nothing_to_write() {
        let run = |steps: &[(u64, bool)]| {
            let mut last = LastSync::default();
            let mut written = 0;
            steps.iter().position(|(bytes, stands)| {
                let before = (0, written);
                written += bytes;
                last.is_quiet(before, (0, written), *stands)
            })
        };
        assert_eq!(run(&[(0, true)]), Some(0));
        assert_eq!(run(&[(0, false), (4096, true), (0, true)]), Some(2));
        assert_eq!(run(&[(12_288, true); 4]), Some(2), "ReiserFS");
        assert_eq!(
            run(&[
                (12_288, true),
                (12_288, false),
                (12_288, true),
                (12_288, true),
                (12_288, true)
            ]),
            Some(4)
        );
        assert_eq!(
            run(&[(8192, true), (12_288, true), (12_288, true), (12_288, true)]),
            Some(3)
        );
        assert_eq!(run(&[(1 << 20, true); 9]), None, "so much is work");
    }

    #[test]
    fn caches_are_dropped_by_a_three() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert!(
            drop_caches(&roots)
                .unwrap_err()
                .to_string()
                .contains("page-cache=evict")
        );
        std::fs::create_dir_all(tree.path().join("sys/vm")).unwrap();
        drop_caches(&roots).unwrap();
        assert_eq!(
            std::fs::read_to_string(tree.path().join("sys/vm/drop_caches")).unwrap(),
            "3"
        );
    }

    #[test]
    fn a_quiet_directory_is_quiet() {
        let directory = tempfile::tempdir().unwrap();
        let quiet = quiesce(directory.path(), None, LONGEST).unwrap();
        assert!(quiet.waited_seconds >= 0.0 && quiet.waited_seconds < 60.0);
        assert!(quiesce(Path::new("/nonexistent"), None, LONGEST).is_err());
    }
}
