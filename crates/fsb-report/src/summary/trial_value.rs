//! The value of a trial, or the reason why it has none.

use fsb_model::{Metric, Outcome};

pub use fsb_store::journal::{
    CompactTrial, Cycles, MetricKind, MetricValue, Times, TrialCell, TrialExtras, is_durable,
    last_attempts, seconds, writes,
};

/// The reason why a trial has no value.
#[derive(Debug)]
pub(super) struct NoValue {
    /// The outcome of the trial. A trial that ended well and has no usable value is invalid.
    pub(super) outcome: Outcome,
    /// The cause; `None` if it is unknown.
    pub(super) cause: Option<String>,
}

impl NoValue {
    /// Returns the outcome and the cause as text: `failed: No space left on device`.
    pub(super) fn to_text(&self) -> String {
        self.outcome.reason(self.cause.as_deref())
    }
}

/// Returns the value of a trial, or as an error the reason why it has none.
pub(super) fn value(trial: &CompactTrial, primary: &Metric) -> Result<f64, NoValue> {
    let invalid = |cause| NoValue {
        outcome: Outcome::Invalid,
        cause: Some(cause),
    };
    if trial.outcome != Outcome::Ok {
        let cause = trial.extras().error.as_deref().map(str::to_owned);
        return Err(NoValue {
            outcome: trial.outcome,
            cause,
        });
    }
    match trial.metric(&primary.name) {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(value) => Err(invalid(format!("{value} is not a measurement"))),
        None => Err(invalid(format!("it has no {}", primary.name))),
    }
}
