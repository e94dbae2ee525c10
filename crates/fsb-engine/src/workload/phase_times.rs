//! Start and end times of phases, of one worker and of all.

/// Start and end of N successive phases on the clock, in nanoseconds. A phase that never began takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseTimes<const N: usize>(pub(super) [(u64, u64); N]);

impl<const N: usize> PhaseTimes<N> {
    /// Returns the times of phases that have not begun.
    pub(super) fn new() -> Self {
        PhaseTimes([(u64::MAX, 0); N])
    }

    #[inline]
    pub(super) fn begun(&mut self, phase: usize, ns: u64) {
        self.0[phase].0 = ns;
    }

    #[inline]
    pub(super) fn ended(&mut self, phase: usize, ns: u64) {
        self.0[phase].1 = ns;
    }

    /// Returns the times of all workers together: each phase lasts from the first start to the last end.
    pub(super) fn of_all(workers: impl IntoIterator<Item = Self>) -> Self {
        workers.into_iter().fold(Self::new(), |PhaseTimes(all), PhaseTimes(one)| {
            PhaseTimes(std::array::from_fn(|phase| (all[phase].0.min(one[phase].0), all[phase].1.max(one[phase].1))))
        })
    }

    /// Returns the duration of each phase.
    pub(super) fn durations(&self) -> [u64; N] {
        self.0.map(|(begun, ended)| ended.saturating_sub(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_take_from_the_first_start_to_the_last_end() {
        let worker = |begun, ended| {
            let mut phase_times = PhaseTimes::<2>::new();
            phase_times.begun(1, begun);
            phase_times.ended(1, ended);
            phase_times
        };
        assert_eq!(PhaseTimes::of_all([worker(5, 9), worker(7, 20)]).durations(), [0, 15]);
        assert_eq!(PhaseTimes::<2>::of_all([]).durations(), [0, 0], "nothing has begun");
    }
}
