//! The load that other processes cause on this machine. The doctor observes it while nothing is measured, so all
//! activity belongs to others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::units::{show_bytes, show_duration};
use fsb_sys::error::Refusal;
use fsb_sys::{Roots, block, mountinfo};

use super::{Finding, State, finding};
use crate::host;
use crate::watch::threshold::{CPU_SHARE, DEVICE_RATE, IDLE_PRESSURE};
use crate::watch::{self, AVAILABLE_CPU_SECONDS, Seen, Watch, Watched, device, others, processes, steal, throttle};

/// The largest number of processes that a finding names.
const NAMED: usize = 3;
/// The smallest share of the machine for which a finding names a process.
const WORTH_A_NAME: f64 = 0.002;

/// Observes the machine for this time. Returns findings about interference with a run whose image is in `dir`.
pub fn listen(dir: &Path, time: Duration) -> Vec<Finding> {
    listen_at(&Roots::default(), dir, &|| std::thread::sleep(time), time)
}

fn listen_at(roots: &Roots, dir: &Path, wait: &dyn Fn(), time: Duration) -> Vec<Finding> {
    let place = Watched { roots, coordinator: std::process::id(), device: None, neighbours: &[] };
    let disk = disk_under(roots, dir);
    let moved =
        || disk.as_ref().ok().and_then(|disk| block::activity(disk)).map(|now| now.read_bytes + now.write_bytes);
    let (bytes, before, watch) = (moved(), processes::read(roots), Watch::begin(&place));
    wait();
    let seen = watch.end();
    let busiest = processes::used_by_others(&before, &processes::read(roots), place.coordinator);
    let since = bytes.zip(moved()).map(|(before, after)| after.saturating_sub(before));
    let mut findings = vec![processors(&seen, &busiest, time)];
    findings.extend(stolen(&seen));
    findings.push(match (since, &disk) {
        (Some(bytes), Ok(disk)) => use_of_disk(disk, bytes as f64 / time.as_secs_f64().max(0.001), dir),
        (_, Err(why)) => finding("disk", State::Ok, format!("its activity for other processes is unknown: {why}"), ""),
        (None, Ok(_)) => finding("disk", State::Ok, "the kernel has no counters for it", ""),
    });
    findings.extend(pressure(&seen, time));
    findings.extend(heat(&seen));
    findings.push(watched(&place));
    findings
}

fn disk_under(roots: &Roots, dir: &Path) -> Result<PathBuf, Refusal> {
    let unknown = || format!("the disk under {} is not known", dir.display());
    let path = dir.canonicalize().map_err(|_| unknown())?;
    let mount = mountinfo::holding(&mountinfo::read(), &path).ok_or_else(unknown)?;
    let number = host::device_of_mount(&mount).ok_or_else(unknown)?;
    let directory = number.directory(roots).ok_or_else(unknown)?;
    device::bottom(roots, &directory).map(|bottom| bottom.disk)
}

fn share(seen: &Seen, name: &str) -> Option<f64> {
    let available = seen.get(AVAILABLE_CPU_SECONDS).copied().filter(|seconds| *seconds > 0.0)?;
    Some(seen.get(name)? / available)
}

/// Half of the limit for a trial, because a trial adds up steal and the use by other processes.
fn interferes(share: f64) -> bool {
    share > CPU_SHARE / 2.0
}

fn processors(seen: &Seen, busiest: &[(String, u64)], time: Duration) -> Finding {
    let topic = "other processes";
    let Some(all) = share(seen, others::SECONDS) else {
        return finding(topic, State::Ok, "the processes of this machine cannot be seen", "");
    };
    let available = seen.get(AVAILABLE_CPU_SECONDS).copied().unwrap_or(1.0);
    let named = busiest.iter().map(|(name, ticks)| (name, watch::seconds(*ticks) / available));
    let named: Vec<String> = named
        .filter(|(_, share)| *share >= WORTH_A_NAME)
        .take(NAMED)
        .map(|(name, share)| format!("{name} {}", percent(share)))
        .collect();
    let names = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    let text = format!("{} of the CPU time in {}{names}", percent(all), show_duration(time));
    if interferes(all) {
        return finding(topic, State::Warning, text, "stop them for the run, or measure when they are idle");
    }
    finding(topic, State::Ok, text, "")
}

fn stolen(seen: &Seen) -> Option<Finding> {
    let stolen = share(seen, steal::SECONDS)?;
    let text = format!("{} of the CPU time went to other virtual machines", percent(stolen));
    Some(if interferes(stolen) {
        let advice = "measure when the host is idle, or on a machine with dedicated processors";
        finding("CPU steal", State::Warning, text, advice)
    } else {
        finding("CPU steal", State::Ok, text, "")
    })
}

fn use_of_disk(disk: &Path, rate: f64, dir: &Path) -> Finding {
    let name = disk.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("{name}, under {}, moves {}/s for others", dir.display(), show_bytes(rate));
    if rate > DEVICE_RATE {
        let advice = "find the process (iotop -o, pidstat -d 1), or put the image on another disk with --dir";
        return finding("disk", State::Warning, text, advice);
    }
    finding("disk", State::Ok, text, "")
}

fn pressure(seen: &Seen, time: Duration) -> Option<Finding> {
    let parts: Vec<(&str, f64)> = ["cpu", "io", "memory"]
        .into_iter()
        .filter_map(|name| {
            let waited = seen.get(&format!("pressure_{name}_seconds"))?;
            Some((name, waited / time.as_secs_f64().max(0.001)))
        })
        .collect();
    if parts.is_empty() {
        return None;
    }
    let told: Vec<String> = parts.iter().map(|(name, share)| format!("{name} {}", percent(*share))).collect();
    let text = format!("work waited for {} of the time", told.join(", "));
    Some(if parts.iter().any(|(_, share)| *share > IDLE_PRESSURE) {
        finding("pressure", State::Warning, text, "the machine is busy: see the other lines")
    } else {
        finding("pressure", State::Ok, text, "")
    })
}

fn heat(seen: &Seen) -> Option<Finding> {
    let events = *seen.get(throttle::EVENTS)?;
    Some(if events > 0.0 {
        let text = format!("processors were slowed down {events:.0} times because they are too hot");
        finding("heat", State::Warning, text, "let the machine cool down, or improve its cooling")
    } else {
        finding("heat", State::Ok, "no processor was slowed down", "")
    })
}

/// Lists the sources that a run will watch here. A source that the machine lacks is not a defect.
fn watched(place: &Watched<'_>) -> Finding {
    let (mut can, mut cannot) = (Vec::new(), Vec::new());
    for source in watch::REGISTRY.iter().filter(|source| source.name() != "device") {
        match source.probe(place) {
            Ok(()) => can.push(source.name().to_owned()),
            Err(why) => cannot.push(format!("{} ({why})", source.name())),
        }
    }
    let not = if cannot.is_empty() { String::new() } else { format!("; not {}", cannot.join(", ")) };
    finding("trials watched", State::Ok, format!("{}{not}", can.join(", ")), "")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[(&str, f64)]) -> Seen {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn neighbours_are_named_the_busiest_first() {
        let hertz = rustix::param::clock_ticks_per_second();
        let busiest = [("cc1".to_owned(), 10 * hertz), ("sshd".to_owned(), hertz / 10), ("init".to_owned(), 1)];
        let time = Duration::from_secs(10);
        let busy = seen(&[(AVAILABLE_CPU_SECONDS, 20.0), (others::SECONDS, 10.1)]);
        let found = processors(&busy, &busiest, time);
        assert_eq!(found.state, State::Warning);
        assert!(found.text.starts_with("50.5 % of the CPU time in 10 s: cc1 50.0 %, sshd 0.5 %"), "{found:?}");
        assert!(!found.text.contains("init") && !found.advice.is_empty(), "{found:?}");
        let quiet = seen(&[(AVAILABLE_CPU_SECONDS, 20.0), (others::SECONDS, 0.1)]);
        assert_eq!(processors(&quiet, &busiest, time).state, State::Ok);
    }

    #[test]
    fn steal_the_disk_pressure_and_heat_are_told_with_what_to_do() {
        let time = Duration::from_secs(10);
        let bad = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (steal::SECONDS, 0.6),
            ("pressure_io_seconds", 3.0),
            (throttle::EVENTS, 2.0),
        ]);
        let disk = use_of_disk(Path::new("/sys/block/sda"), 5e6, Path::new("/data"));
        assert!(disk.text.starts_with("sda, under /data, moves 4.77 MiB/s"), "{disk:?}");
        for found in [stolen(&bad).unwrap(), pressure(&bad, time).unwrap(), heat(&bad).unwrap(), disk] {
            assert!(found.state == State::Warning && !found.advice.is_empty(), "{found:?}");
        }
        let good = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (steal::SECONDS, 0.1),
            ("pressure_io_seconds", 0.1),
            (throttle::EVENTS, 0.0),
        ]);
        let disk = use_of_disk(Path::new("/sys/block/sda"), 1e4, Path::new("/data"));
        for found in [stolen(&good).unwrap(), pressure(&good, time).unwrap(), heat(&good).unwrap(), disk] {
            assert!(found.state == State::Ok && found.advice.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn this_machine_is_listened_to() {
        let found = listen(Path::new("/"), Duration::from_millis(50));
        for topic in ["other processes", "disk", "trials watched"] {
            assert!(found.iter().any(|finding| finding.topic == topic), "{topic} in {found:?}");
        }
    }
}
