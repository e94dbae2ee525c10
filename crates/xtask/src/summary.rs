//! A median and an interval for it.

use std::fmt;

/// The median of some values and a distribution-free 95 % interval for it: the order statistics whose binomial
/// probability of enclosing the median is at least 0.95 (Conover, "Practical Nonparametric Statistics", §3.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The middle value.
    pub value: f64,
    pub interval: [f64; 2],
}

impl Median {
    /// Returns the median of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Median {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let outside = values_outside(n);
        Median { value, interval: [sorted[outside], sorted[n - 1 - outside]] }
    }
}

/// Returns the number of the smallest and of the largest values that may be left out. The interval between the r-th
/// value from either end encloses the median with probability 1 − 2·P(X ≤ r−1), X binomial with n and ½. The function
/// returns the largest such r.
fn values_outside(n: usize) -> usize {
    let mut probability = 0.5f64.powi(n as i32);
    let mut below = probability;
    let mut r = 0;
    while below <= 0.025 && r < n / 2 {
        r += 1;
        probability *= (n - r + 1) as f64 / r as f64;
        below += probability;
    }
    r.saturating_sub(1)
}

impl fmt::Display for Median {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(3);
        let [low, high] = self.interval;
        write!(f, "{:.decimals$} [{low:.decimals$} {high:.decimals$}]", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_tabled_one() {
        // Tables of the sign test: of 9 values the 2nd and the 8th, of 15 the 4th and the 12th, of 5 all.
        assert_eq!(values_outside(9), 1);
        assert_eq!(values_outside(15), 3);
        assert_eq!(values_outside(5), 0);
        let median = Median::of((1..=9).rev().map(f64::from));
        assert_eq!(median, Median { value: 5.0, interval: [2.0, 8.0] });
        assert_eq!(format!("{median:.1}"), "5.0 [2.0 8.0]");
        assert_eq!(Median::of([1.0, 2.0]).value, 1.5);
    }
}
