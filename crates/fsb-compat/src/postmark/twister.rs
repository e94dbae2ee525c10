//! The generator: MT19937 of 1998 as its authors seeded it in 1999, with the multiplier 69069.
//!
//! M. Matsumoto and T. Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform pseudorandom number
//! generator", 1998. Libraries of today seed it as its authors proposed in 2002, which gives other numbers.

use fsb_model::postmark::Draw;

/// Words of state.
const WORDS: usize = 624;
/// The distance to the word that each word is combined with.
const AHEAD: usize = 397;
const MULTIPLIER: u32 = 69_069;

/// The generator in one of its states.
#[derive(Debug, Clone)]
pub struct Twister {
    state: [u32; WORDS],
    next: usize,
}

impl Twister {
    /// Seeds the state. Half of each word comes from one step of a linear congruence, half from the next.
    pub fn new(seed: u32) -> Twister {
        let mut linear = seed;
        let mut upper_half = || {
            let half = linear & 0xffff_0000;
            linear = linear.wrapping_mul(MULTIPLIER).wrapping_add(1);
            half
        };
        let state = std::array::from_fn(|_| upper_half() | upper_half() >> 16);
        Twister { state, next: WORDS }
    }

    /// Computes a whole new state.
    fn twist(&mut self) {
        for index in 0..WORDS {
            let following = self.state[(index + 1) % WORDS];
            let joined = self.state[index] & 0x8000_0000 | following & 0x7fff_ffff;
            let twisted = if joined & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[index] = self.state[(index + AHEAD) % WORDS] ^ joined >> 1 ^ twisted;
        }
        self.next = 0;
    }
}

impl Draw for Twister {
    #[inline]
    fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the content of PostMark's files: a character for each number. From a trace of Debian's PostMark
    /// 1.53, seed 7.
    #[test]
    fn it_gives_the_numbers_of_postmark() {
        let mut twister = Twister::new(7);
        let text: String = (0..32).map(|_| char::from(32 + twister.below(95) as u8)).collect();
        assert_eq!(text, "~D>WgrDWVc2w%/'Rj0VFG;M{dM}PfUkA");
    }
}
