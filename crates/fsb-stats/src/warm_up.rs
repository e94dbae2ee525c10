//! The length of a warm-up, from the values themselves.

use crate::description::{describe, mean_and_sd};
use crate::error::AnalysisError;

/// Returns the number of values at the beginning that are warm-up, at most half of all. Without them, the mean of the
/// others has the smallest standard error (the marginal standard error rule, K. P. White, Simulation 69, 1997). A
/// constant series has none.
pub fn warm_up_length(values: &[f64]) -> Result<usize, AnalysisError> {
    describe(values)?;
    let error = |removed: usize| {
        let rest = &values[removed..];
        let squares = mean_and_sd(rest).1.powi(2) * (rest.len() - 1) as f64;
        squares.sqrt() / rest.len() as f64
    };
    // Of equally good lengths the shortest: `min_by` keeps the first.
    Ok((0..=values.len() / 2).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_values_at_the_beginning_are_warm_up() {
        let steady = [10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 9.9, 10.1];
        assert_eq!(warm_up_length(&steady).unwrap(), 0);
        let slow = [&[30.0, 14.0][..], &steady].concat();
        assert_eq!(warm_up_length(&slow).unwrap(), 2);
    }

    #[test]
    fn at_most_half_of_the_values_are_warm_up() {
        let falling: Vec<f64> = (0..9).map(|value| f64::from(1 << (9 - value))).collect();
        assert_eq!(warm_up_length(&falling).unwrap(), 4);
        assert_eq!(warm_up_length(&[5.0; 6]).unwrap(), 0);
        assert_eq!(warm_up_length(&[5.0]).unwrap(), 0);
        assert_eq!(warm_up_length(&[]), Err(AnalysisError::Empty));
    }
}
