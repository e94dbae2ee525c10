//! Time that the hypervisor gave to other guests while this machine had work.

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

use super::source::{Finish, Source, Watched, one, seconds};

pub(super) struct Steal;

pub(crate) const SECONDS: &str = "steal_seconds";

impl Source for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn about(&self) -> &'static str {
        "CPU time that the hypervisor gave to other machines while this one had work."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        ticks(place.roots).map(drop).ok_or_else(|| "/proc/stat has no steal counter".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = ticks(&roots)?;
        Some(Box::new(move || {
            let after = ticks(&roots).unwrap_or(before);
            one(SECONDS, seconds(after.saturating_sub(before)))
        }))
    }
}

/// Returns the eighth number of the first line.
fn ticks(roots: &Roots) -> Option<u64> {
    let text = roots.proc_text("stat")?;
    text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}
