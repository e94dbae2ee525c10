//! Times of all ranks on the clock of rank 0.
//!
//! Ranks of one host share CLOCK_MONOTONIC. For other hosts, rank 0 and the first rank of the host
//! exchange messages. The exchange with the shortest round trip gives the offset, with an error of
//! half of the round trip at most (Cristian, "Probabilistic clock synchronization", 1989). Clocks
//! of hosts drift apart by some microseconds a second, so the offsets are measured before each
//! trial.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::communicator::{Communicator, CommunicatorError};

/// Exchanges with each host. The shortest of them met no delay.
const EXCHANGES: usize = 16;

/// The clock of a host beside that of rank 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offset {
    /// Nanoseconds by which the host's clock is ahead.
    pub ahead_ns: i64,
    /// The largest error of `ahead_ns`.
    pub error_ns: u64,
}

impl Offset {
    /// Returns a time of the host on the clock of rank 0.
    pub fn to_rank_zero(self, time_ns: u64) -> u64 {
        time_ns.saturating_add_signed(-self.ahead_ns)
    }

    /// Returns a time of rank 0 on the clock of the host.
    pub fn to_host(self, time_ns: u64) -> u64 {
        time_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Returns the offset from an exchange: rank 0's clock before and after it, and the other clock
    /// between.
    fn from_exchange(before: u64, other: u64, after: u64) -> Offset {
        let half = after.saturating_sub(before) / 2;
        Offset {
            ahead_ns: other.wrapping_sub(before + half) as i64,
            error_ns: half,
        }
    }
}

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures the clocks of all hosts. `leaders` has the first rank of each host, that of rank 0
/// first, on rank 0; on other ranks only whether they are among them matters. Returns the offset of
/// each host on rank 0, and nothing on others.
pub(crate) fn synchronise(
    communicator: &dyn Communicator,
    leaders: &[usize],
    leads: bool,
) -> Result<Vec<Offset>, CommunicatorError> {
    if communicator.rank() > 0 {
        for _ in 0..if leads { EXCHANGES } else { 0 } {
            communicator.receive(0)?;
            communicator.send(0, &now().to_le_bytes())?;
        }
        return Ok(Vec::new());
    }
    let mut offsets = vec![Offset::default()];
    for leader in &leaders[1..] {
        let mut best: Option<Offset> = None;
        for _ in 0..EXCHANGES {
            let before = now();
            communicator.send(*leader, &[0])?;
            let answer = communicator.receive(*leader)?;
            let after = now();
            let other = answer
                .try_into()
                .map_err(|_| CommunicatorError::new("receive", "no time came"))?;
            let offset = Offset::from_exchange(before, u64::from_le_bytes(other), after);
            best = Some(
                best.filter(|best| best.error_ns <= offset.error_ns)
                    .unwrap_or(offset),
            );
        }
        offsets.extend(best);
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn an_offset_is_found_to_half_of_the_round_trip() {
        // The other clock is 1000 ahead and was read 30 after `before`.
        let offset = Offset::from_exchange(5000, 6030, 5100);
        assert_eq!(
            offset,
            Offset {
                ahead_ns: 980,
                error_ns: 50
            }
        );
        assert_eq!(
            (offset.to_rank_zero(6030), offset.to_host(5050)),
            (5050, 6030)
        );
        let behind = Offset::from_exchange(5000, 1050, 5100);
        assert_eq!((behind.ahead_ns, behind.to_rank_zero(1050)), (-4000, 5050));
    }

    #[test]
    fn threads_of_one_machine_have_clocks_that_agree_within_the_error() {
        let (offsets, _) = threads::run(4, |rank| {
            let leads = rank.rank() == 2;
            synchronise(rank, &[0, 2], leads).unwrap()
        })
        .unwrap();
        let other = offsets[0][1];
        assert!(
            other.ahead_ns.unsigned_abs() <= other.error_ns + 1,
            "{other:?}"
        );
    }
}
