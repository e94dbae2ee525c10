//! Pressure stall information: the time that tasks waited for processors, disks and memory, including the run's own.
//!
//! It is recorded and not judged, because every workload waits for its disk.

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

use super::source::{Finish, Seen, Source, Watched};

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
        match totals(place.roots)[..] {
            [] => Err("this kernel keeps no /proc/pressure (boot it with psi=1)".into()),
            _ => Ok(()),
        }
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        self.probe(place).ok()?;
        let roots = place.roots.clone();
        let before = totals(&roots);
        Some(Box::new(move || {
            let after = totals(&roots);
            let since = |(resource, old): &(&str, u64)| {
                let (_, new) = after.iter().find(|(other, _)| other == resource)?;
                Some((format!("pressure_{resource}_seconds"), new.saturating_sub(*old) as f64 * 1e-6))
            };
            before.iter().filter_map(since).collect::<Seen>()
        }))
    }
}

/// Microseconds since boot in which at least one task was stalled (Documentation/accounting/psi.rst).
pub(crate) fn totals(roots: &Roots) -> Vec<(&'static str, u64)> {
    let total = |resource: &&'static str| {
        let text = roots.proc_text(&format!("pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        Some((*resource, some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()?))
    };
    RESOURCES.iter().filter_map(total).collect()
}
