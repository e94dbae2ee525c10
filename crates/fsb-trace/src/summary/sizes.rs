//! How often which sizes came, by powers of two.

/// Counts by powers of two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    counts: Vec<u64>,
    pub sum: u64,
    pub count: u64,
    pub largest: u64,
}

impl Sizes {
    /// One more.
    pub fn add(&mut self, size: u64) {
        let at = (64 - size.leading_zeros()) as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(size);
        self.count += 1;
        self.largest = self.largest.max(size);
    }

    /// Powers of two that sizes were below or at, and how many were, the empty ones at both ends left out.
    pub fn steps(&self) -> Vec<(u64, u64)> {
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or_default();
        let steps = self.counts.iter().enumerate().skip(first);
        steps
            .map(|(at, count)| (if at == 0 { 0 } else { 1u64.checked_shl(at as u32 - 1).unwrap_or(u64::MAX) }, *count))
            .collect()
    }

    /// The lower end of the step that so large a share lies below or in.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        for (size, count) in self.steps() {
            below += count;
            if below >= wanted {
                return size;
            }
        }
        0
    }
}
