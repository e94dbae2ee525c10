//! Anonymous names.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Replaces names. A part of a name is always replaced by the same other part, with a key that is then discarded.
#[derive(Debug, Default)]
pub struct Disguise(RandomState, RandomState);

impl Disguise {
    /// Returns another name of as many parts. Parts of twelve bytes or more keep their length; shorter ones get twelve
    /// letters.
    pub fn name(&self, name: &[u8]) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = name.split(|byte| *byte == b'/').map(|part| self.part(part)).collect();
        parts.join(&b'/')
    }

    fn part(&self, part: &[u8]) -> Vec<u8> {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        if part.is_empty() {
            return Vec::new();
        }
        let whole = (u128::from(self.0.hash_one(part)) << 64) | u128::from(self.1.hash_one(part));
        // Twelve letters of five bits make two equal ones unlikely among millions; longer names repeat them.
        let letter = |at: usize| LETTERS[(whole >> (5 * (at % 24))) as usize & 31];
        (0..part.len().max(12)).map(letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_apart_and_alike() {
        let disguise = Disguise::default();
        let (one, two) = (disguise.name(b"customers/smith-and-sons"), disguise.name(b"customers/jones"));
        assert!(!one.windows(5).any(|part| part == b"smith"));
        assert_eq!(one.split(|byte| *byte == b'/').next(), two.split(|byte| *byte == b'/').next());
        assert_ne!(one, two);
        assert_eq!(one.len(), 12 + 1 + 14);
        assert_eq!(disguise.name(b""), b"");
        assert_ne!(Disguise::default().name(b"jones"), disguise.name(b"jones"));
    }
}
