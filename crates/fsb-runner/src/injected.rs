//! Slowdowns of a known size, injected into one target. `scripts/calibrate` measures whether
//! verdicts find them.
//!
//! Only builds with the feature `injected-slowdown` can inject them, and every such run carries a
//! warning.

use fsb_engine::ClockSpec;
use fsb_model::Warning;

#[cfg(feature = "injected-slowdown")]
const VARIABLE: &str = "FSB_INJECT";

/// Returns the clock of the target in that slot.
#[cfg(feature = "injected-slowdown")]
pub(crate) fn clock(slot: u32) -> ClockSpec {
    match asked() {
        Some((slowed, share)) if slowed == slot => ClockSpec::Slowed { share },
        _ => ClockSpec::Monotonic,
    }
}

/// Returns the clock of the target in that slot.
#[cfg(not(feature = "injected-slowdown"))]
pub(crate) fn clock(_slot: u32) -> ClockSpec {
    ClockSpec::Monotonic
}

/// Returns the warning of a run in which a target is slowed down.
#[cfg(feature = "injected-slowdown")]
pub(crate) fn warning() -> Option<Warning> {
    asked().map(|(slot, share)| Warning::InjectedSlowdown {
        target: slot + 1,
        share,
    })
}

/// Returns the warning of a run in which a target is slowed down.
#[cfg(not(feature = "injected-slowdown"))]
pub(crate) fn warning() -> Option<Warning> {
    None
}

/// Returns the slot and the share: `1=0.05` slows down the second target by 5 %.
#[cfg(feature = "injected-slowdown")]
fn asked() -> Option<(u32, f64)> {
    let text = std::env::var(VARIABLE).ok()?;
    let (slot, share) = text.split_once('=')?;
    Some((slot.parse().ok()?, share.parse().ok()?))
}
