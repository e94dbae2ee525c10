//! The conditions under which a trial counts as affected by interference. All thresholds are here,
//! each with its reason.

use fsb_model::Interference;

use super::sources::{self, AVAILABLE_CPU_SECONDS, Seen, WATCHED_SECONDS};

/// Share of the machine's CPU time that the hypervisor and other processes may take. It is below θ,
/// the smallest difference that matters (3 % by default). Taking this share from a workload that
/// keeps all processors busy slows it down by at most that share, so less cannot by itself cause a
/// significant difference.
pub(crate) const CPU_SHARE: f64 = 0.02;
/// A smaller share is not reported beside a larger one.
const LEAST_CPU_SHARE: f64 = 0.005;
/// CPU time is judged over at least this long. The kernel counts it in ticks of 10 ms, separately
/// for each process: over a second on one processor two ticks are 2 %, and over less time they
/// would be chance.
const CPU_SECONDS: f64 = 1.0;
/// The share of the target's I/O that its disk may do for others. A smaller share cannot by itself
/// cause a significant difference.
const DEVICE_SHARE: f64 = 0.02;
/// Bytes per second that are always tolerated: the journal of the file system that holds the image
/// commits some blocks every five seconds, and so do logs. It is 64 requests of 4 KiB, half of the
/// rate of a rotating disk.
pub(crate) const DEVICE_RATE: f64 = 256.0 * 1024.0;
/// Bytes that each flush of the target may cost in addition to its own. On an image a flush is an
/// fsync of the file, and the journal below commits the file's new time: a descriptor, the inode's
/// block and the end of the commit.
const COMMIT: f64 = 3.0 * 4096.0;
/// The greatest number of such commits per second: a file's time advances in ticks of the kernel,
/// which has at most this many. (Measured with 250 ticks: 1.0 MiB/s on an ext4 below, independent
/// of the number of flushes.)
const COMMITS_PER_SECOND: f64 = 1000.0;
/// Shorter samples count as one second, because a single commit within a tenth of a second is not a
/// load.
const DEVICE_SECONDS: f64 = 1.0;

/// Share of time in which work on an idle machine may wait for a resource. `fsb doctor` warns above
/// it. During a trial, pressure is recorded and not judged, because the workload itself waits for
/// its disk.
pub(crate) const IDLE_PRESSURE: f64 = 0.02;

/// Returns the interference that the observed values show, the largest part first.
pub fn interference(seen: &Seen) -> Vec<Interference> {
    let value = |name: &str| seen.get(name).copied().unwrap_or(0.0);
    let seconds = value(WATCHED_SECONDS);
    let mut found = Vec::new();
    let available = value(AVAILABLE_CPU_SECONDS);
    let share = |name: &str| value(name) / available.max(f64::MIN_POSITIVE);
    let (stolen, others) = (
        share(sources::STEAL_SECONDS),
        share(sources::OTHERS_SECONDS),
    );
    if seconds >= CPU_SECONDS && stolen + others > CPU_SHARE {
        let mut parts = [
            (stolen, Interference::CpuSteal { share: stolen }),
            (others, Interference::OtherProcesses { share: others }),
        ];
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.extend(
            parts
                .into_iter()
                .filter(|(share, _)| *share >= LEAST_CPU_SHARE)
                .map(|(_, part)| part),
        );
    }
    let (others, ours) = (
        value(sources::OTHERS_DEVICE_BYTES),
        value(sources::TARGET_DEVICE_BYTES),
    );
    let window = seconds.max(DEVICE_SECONDS);
    let tolerated = DEVICE_RATE * window
        + COMMIT * value(sources::TARGET_DEVICE_FLUSHES).min(COMMITS_PER_SECOND * window);
    // A device without I/O of this run cannot have delayed it.
    if ours > 0.0 && others > tolerated && others > ours * DEVICE_SHARE {
        found.push(Interference::OtherDiskIo {
            bytes_per_second: others / window,
        });
    }
    let throttled = value(sources::THROTTLE_EVENTS);
    if throttled > 0.0 {
        found.push(Interference::ThermalThrottling { events: throttled });
    }
    let stopped = value(sources::STOPPED_PROCESSES);
    if stopped > 0.0 {
        found.push(Interference::Stopped { processes: stopped });
    }
    found
}

/// The interference that the null file system simulates.
pub const PRETENDED: Interference = Interference::CpuSteal { share: 0.03 };

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[(&str, f64)]) -> Seen {
        values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    }

    fn on_four(seconds: f64, steal: f64, others: f64) -> Vec<Interference> {
        interference(&seen(&[
            (WATCHED_SECONDS, seconds),
            (AVAILABLE_CPU_SECONDS, 4.0 * seconds),
            (sources::STEAL_SECONDS, steal),
            (sources::OTHERS_SECONDS, others),
        ]))
    }

    #[test]
    fn steal_and_others_count_together_over_at_least_a_second() {
        let steal = |share| Interference::CpuSteal { share };
        let processes = |share| Interference::OtherProcesses { share };
        assert_eq!(on_four(10.0, 0.4, 0.39), []);
        assert_eq!(on_four(10.0, 0.5, 0.4), [steal(0.0125), processes(0.01)]);
        assert_eq!(
            on_four(10.0, 0.4, 0.5),
            [processes(0.0125), steal(0.01)],
            "the larger part first"
        );
        assert_eq!(on_four(10.0, 1.2, 0.0), [PRETENDED]);
        assert_eq!(
            on_four(10.0, 0.1, 8.0),
            [processes(0.2)],
            "0.25 % is too little to be recorded"
        );
        assert_eq!(on_four(0.9, 0.5, 0.5), [], "too short to be judged");
        assert_eq!(interference(&Seen::new()), []);
    }

    #[test]
    fn commits_below_an_image_that_is_flushed_again_and_again_are_ours() {
        let mib = (1u64 << 20) as f64;
        let disk = |others: f64| {
            let values = [
                (WATCHED_SECONDS, 1.8),
                (sources::TARGET_DEVICE_BYTES, 18.7 * mib),
                (sources::OTHERS_DEVICE_BYTES, others * mib),
            ];
            interference(&seen(
                &[
                    values.as_slice(),
                    &[(sources::TARGET_DEVICE_FLUSHES, 4785.0)],
                ]
                .concat(),
            ))
        };
        assert_eq!(disk(1.75), []);
        assert_eq!(
            disk(36.0),
            [Interference::OtherDiskIo {
                bytes_per_second: 20.0 * mib
            }]
        );
    }

    #[test]
    fn a_disk_that_served_others_is_told_unless_it_was_little_or_nobody_waited() {
        let disk = |seconds: f64, ours: f64, others: f64| {
            let mib = (1u64 << 20) as f64;
            let values = [
                (WATCHED_SECONDS, seconds),
                (sources::TARGET_DEVICE_BYTES, ours * mib),
                (sources::OTHERS_DEVICE_BYTES, others * mib),
            ];
            interference(&seen(&values))
        };
        let three_mib = Interference::OtherDiskIo {
            bytes_per_second: 3.0 * (1u64 << 20) as f64,
        };
        assert_eq!(disk(2.0, 100.0, 6.0), [three_mib]);
        assert_eq!(disk(2.0, 400.0, 6.0), [], "less than 2 % of ours");
        assert_eq!(disk(2.0, 1.0, 0.4), [], "a journal's commits");
        assert_eq!(disk(0.1, 1.0, 0.2), [], "one commit in a tenth of a second");
        assert_eq!(
            disk(2.0, 0.0, 600.0),
            [],
            "a workload in the page cache does not wait for the disk"
        );
    }

    #[test]
    fn heat_counts_at_once() {
        let hot = interference(&seen(&[
            (WATCHED_SECONDS, 0.1),
            (sources::THROTTLE_EVENTS, 2.0),
        ]));
        assert_eq!(hot, [Interference::ThermalThrottling { events: 2.0 }]);
    }
}
