//! Processors that the hardware slowed down because they were too hot.

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

use super::source::{Finish, Source, Watched, one};

pub(super) struct Throttle;

pub(crate) const EVENTS: &str = "throttle_events";

impl Source for Throttle {
    fn name(&self) -> &'static str {
        "throttle"
    }

    fn about(&self) -> &'static str {
        "Number of times that processors slowed down because of heat."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        events(place.roots).map(drop).ok_or_else(|| "the kernel counts no thermal throttling here".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = events(&roots)?;
        Some(Box::new(move || {
            let after = events(&roots).unwrap_or(before);
            one(EVENTS, after.saturating_sub(before) as f64)
        }))
    }
}

/// Returns `cpu0`, `cpu1`, …
pub(super) fn processors(roots: &Roots) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(roots.sys.join("devices/system/cpu")).into_iter().flatten();
    entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().to_str()?.to_owned();
        let number = name.strip_prefix("cpu")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    })
}

/// Returns the throttle events of cores and packages. All cores of a package show its counter, so the largest one
/// counts.
pub(crate) fn events(roots: &Roots) -> Option<u64> {
    let count = |name: &str, file: &str| -> Option<u64> {
        roots.sys_text(&format!("devices/system/cpu/{name}/thermal_throttle/{file}"))?.parse().ok()
    };
    let names: Vec<String> = processors(roots).collect();
    let cores: Vec<u64> = names.iter().filter_map(|name| count(name, "core_throttle_count")).collect();
    let package = names.iter().filter_map(|name| count(name, "package_throttle_count")).max();
    (!cores.is_empty() || package.is_some()).then(|| cores.iter().sum::<u64>() + package.unwrap_or(0))
}
