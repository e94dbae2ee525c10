//! The candidates of the next race round, and their slices. The draw depends only on the candidates left and on the
//! number of rounds and slices of each.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use super::Race;

/// A candidate and its slice of the medium in the next race round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    pub candidate: usize,
    pub part: u32,
}

impl Race {
    /// Draws the next race round of at most `places` candidates: the baseline, and those of the remaining candidates
    /// with the fewest rounds, at random among equals. Of all assignments of slices, it chooses the one that puts
    /// candidates on the slices where they were least often. Among equal assignments it chooses at random, without
    /// regard to the results.
    pub fn draw(&self, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot =
            Pcg64::seed_from_u64(seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut others: Vec<(usize, u64, usize)> = self
            .left()
            .into_iter()
            .filter(|candidate| *candidate != 0)
            .map(|candidate| (self.race_rounds_of(candidate), lot.next_u64(), candidate))
            .collect();
        others.sort_unstable();
        let others = others.into_iter().take(places.saturating_sub(1)).map(|(_, _, candidate)| candidate);
        let chosen: Vec<usize> = std::iter::once(0).chain(others).collect();
        self.placed(chosen, places, &mut lot)
    }

    /// Puts these candidates on slices for the next race round.
    pub fn place(&self, chosen: Vec<usize>, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot =
            Pcg64::seed_from_u64(seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.placed(chosen, places, &mut lot)
    }

    fn placed(&self, chosen: Vec<usize>, places: usize, lot: &mut Pcg64) -> Vec<Drawn> {
        let parts = self.parts(&chosen, places, lot);
        chosen.into_iter().zip(parts).map(|(candidate, part)| Drawn { candidate, part }).collect()
    }

    fn parts(&self, chosen: &[usize], places: usize, lot: &mut Pcg64) -> Vec<u32> {
        let often = |candidate: usize, part: u32| {
            let there = |entry: &&super::Entry| entry.candidate == candidate && entry.part == Some(part);
            self.race_rounds.iter().flatten().filter(there).count()
        };
        let cost: Vec<Vec<usize>> = chosen
            .iter()
            .map(|candidate| (0..places as u32).map(|part| often(*candidate, part).pow(2)).collect())
            .collect();
        let mut best: Option<((usize, u64), Vec<u32>)> = None;
        for way in ways(chosen.len(), places) {
            let sum = way.iter().enumerate().map(|(at, part)| cost[at][*part as usize]).sum();
            let rank = (sum, lot.next_u64());
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, way));
            }
        }
        best.map(|(_, way)| way).unwrap_or_default()
    }
}

/// Returns all ways to give each of this number of candidates a different slice.
fn ways(candidates: usize, parts: usize) -> Vec<Vec<u32>> {
    let mut ways = vec![Vec::new()];
    for _ in 0..candidates {
        let longer = |way: Vec<u32>| {
            let free: Vec<u32> = (0..parts as u32).filter(|part| !way.contains(part)).collect();
            free.into_iter().map(move |part| way.iter().copied().chain([part]).collect())
        };
        ways = ways.into_iter().flat_map(longer).collect();
    }
    ways
}
