//! Errors of the analysis.

/// The reason why numbers cannot be analysed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AnalysisError {
    /// There is nothing to analyse.
    #[error("there are no values")]
    Empty,
    /// A rate or a time must be a finite number above zero. Anything else is a fault of the measurement.
    #[error("{0} is not a measurement: rates and times are finite and above zero")]
    NotPositive(f64),
    /// Plain statistics need finite numbers.
    #[error("{0} is not a finite number")]
    NotFinite(f64),
    /// A confidence level must be strictly between 0 and 1.
    #[error("{0} is not a level of confidence: it must lie between 0 and 1, such as 0.95")]
    Level(f64),
    /// A weight must be a finite number above zero.
    #[error("{0} is not a weight: weights are finite and above zero")]
    Weight(f64),
}

/// Returns the logarithms of rates or times.
pub(crate) fn logarithms(values: &[f64]) -> Result<Vec<f64>, AnalysisError> {
    values.iter().map(|value| logarithm(*value)).collect()
}

/// Returns the logarithm of a rate or a time.
pub(crate) fn logarithm(value: f64) -> Result<f64, AnalysisError> {
    if value.is_finite() && value > 0.0 { Ok(libm::log(value)) } else { Err(AnalysisError::NotPositive(value)) }
}

/// Checks a level of confidence.
pub(crate) fn level(level: f64) -> Result<f64, AnalysisError> {
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err(AnalysisError::Level(level)) }
}
