//! The Shapiro-Wilk test of normality, in the approximation of P. Royston (Algorithm AS R94,
//! Applied Statistics 44, 1995).

use std::f64::consts::SQRT_2;

use statrs::function::erf::{erf_inv, erfc};

use crate::description::{mean_and_sd, sorted};
use crate::sample::AnalysisError;

/// The result of a test of normality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normality {
    /// The statistic W, at most 1; smaller values are less normal.
    pub w: f64,
    /// The probability of so small a W in a sample of a normal distribution.
    pub p: f64,
}

/// The fewest values for which the approximation of the p-value that is used here holds.
const FEWEST: usize = 12;
/// The most values for which it holds.
const MOST: usize = 5000;

/// Tests whether values are from a normal distribution. Returns `None` for fewer than 12 values,
/// for more than 5000, and for values that are all equal.
///
/// # Errors
///
/// If there are no values, or one is not finite.
pub fn normality(samples: &[f64]) -> Result<Option<Normality>, AnalysisError> {
    let values = sorted(samples)?;
    let (mean, sd) = mean_and_sd(&values);
    if !(FEWEST..=MOST).contains(&values.len()) || sd == 0.0 {
        return Ok(None);
    }
    let count = values.len() as f64;
    let (mut product, mut squares) = (0.0, 0.0);
    for (value, weight) in values.iter().zip(weights(values.len())) {
        // In units of the standard deviation, so that squares of large values are finite.
        let deviation = (value - mean) / sd;
        product += weight * deviation;
        squares += deviation * deviation;
    }
    let w = (product * product / squares).min(1.0);
    let log = count.ln();
    let center = polynomial(&[-1.5861, -0.31082, -0.083751, 0.0038915], log);
    let spread = polynomial(&[-0.4803, -0.082676, 0.0030302], log).exp();
    let z = ((1.0 - w).ln() - center) / spread;
    let p = 0.5 * erfc(z / SQRT_2);
    Ok(Some(Normality { w, p }))
}

/// Returns the weights of the sorted values, whose squares add up to 1.
fn weights(count: usize) -> Vec<f64> {
    let mut scores = Vec::with_capacity(count);
    let mut squares = 0.0;
    for rank in 1..=count {
        let share = (rank as f64 - 0.375) / (count as f64 + 0.25);
        let score = SQRT_2 * erf_inv(2.0 * share - 1.0);
        squares += score * score;
        scores.push(score);
    }
    let (largest, second) = (scores[count - 1], scores[count - 2]);
    let root = 1.0 / (count as f64).sqrt();
    let first_terms = [0.0, 0.221157, -0.147981, -2.071190, 4.434685, -2.706056];
    let second_terms = [0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633];
    let end = largest / squares.sqrt() + polynomial(&first_terms, root);
    let next = second / squares.sqrt() + polynomial(&second_terms, root);
    let rest = (squares - 2.0 * (largest * largest + second * second))
        / (1.0 - 2.0 * (end * end + next * next));
    let mut weights = scores;
    for weight in &mut weights {
        *weight /= rest.sqrt();
    }
    (weights[0], weights[1]) = (-end, -next);
    (weights[count - 2], weights[count - 1]) = (next, end);
    weights
}

/// Returns the value of a polynomial; the coefficients begin with the constant.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    let mut value = 0.0;
    for coefficient in coefficients.iter().rev() {
        value = value * x + coefficient;
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn statistic_and_probability_are_those_of_scipy() {
        let text = include_str!("../tests/oracle/normality.json");
        let cases: Vec<Value> = serde_json::from_str(text).unwrap();
        assert!(cases.len() >= 8, "{}", cases.len());
        for case in cases {
            let values: Vec<f64> = serde_json::from_value(case["values"].clone()).unwrap();
            let found = normality(&values).unwrap().unwrap();
            let (w, p) = (case["w"].as_f64().unwrap(), case["p"].as_f64().unwrap());
            let name = case["name"].as_str().unwrap();
            assert!(
                (found.w - w).abs() < 1e-6,
                "{name}: W {} beside {w}",
                found.w
            );
            let tolerance = 1e-4 * p.max(1e-6);
            assert!(
                (found.p - p).abs() < tolerance,
                "{name}: p {} beside {p}",
                found.p
            );
        }
    }

    #[test]
    fn few_or_equal_values_are_not_judged() {
        assert_eq!(normality(&[1.0; 11]), Ok(None));
        assert_eq!(normality(&[1.0; 30]), Ok(None));
        assert!(normality(&[]).is_err());
        assert!(normality(&[f64::NAN; 30]).is_err());
    }
}
