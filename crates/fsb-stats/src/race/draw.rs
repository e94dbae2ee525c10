//! Who is in the next heat, and where. It depends on who is left and how often each was measured, and on nothing else.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use super::Race;

/// A candidate and its part of the medium in the next heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    pub candidate: usize,
    pub part: u32,
}

impl Race {
    /// The next heat of `places` candidates at most: the reference, and of those left the ones that were measured least, drawn
    /// by lot among equals. Each is where it was least often, of all ways to share the parts; among equally good ways the lot
    /// decides, which knows nothing of what was measured.
    pub fn draw(&self, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot = Pcg64::seed_from_u64(seed ^ (self.heats.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut others: Vec<(usize, u64, usize)> = self
            .left()
            .into_iter()
            .filter(|candidate| *candidate != 0)
            .map(|candidate| (self.heats_of(candidate), lot.next_u64(), candidate))
            .collect();
        others.sort_unstable();
        let others = others.into_iter().take(places.saturating_sub(1)).map(|(_, _, candidate)| candidate);
        let chosen: Vec<usize> = std::iter::once(0).chain(others).collect();
        self.placed(chosen, places, &mut lot)
    }

    /// These candidates as the next heat, each on a part.
    pub fn place(&self, chosen: Vec<usize>, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot = Pcg64::seed_from_u64(seed ^ (self.heats.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.placed(chosen, places, &mut lot)
    }

    fn placed(&self, chosen: Vec<usize>, places: usize, lot: &mut Pcg64) -> Vec<Drawn> {
        let parts = self.parts(&chosen, places, lot);
        chosen.into_iter().zip(parts).map(|(candidate, part)| Drawn { candidate, part }).collect()
    }

    fn parts(&self, chosen: &[usize], places: usize, lot: &mut Pcg64) -> Vec<u32> {
        let often = |candidate: usize, part: u32| {
            let there = |entry: &&super::Entry| entry.candidate == candidate && entry.part == Some(part);
            self.heats.iter().flatten().filter(there).count()
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

/// All ways to give so many candidates a part each of their own.
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
