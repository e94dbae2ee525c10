//! `--repeat-until`: repeats the pass until the timed samples sum to the requested time.

use std::time::{Duration, Instant};

use fsb_compat::iozone::Options;
use fsb_compat::iozone::sequence::{MatrixRow, Operation};
use fsb_engine::classic::Rest;
use fsb_model::units::show_duration;

use crate::stderr::say;

/// The time without a result after which the program prints the reason.
const SILENCE: Duration = Duration::from_secs(2);

/// The passes of one operation.
pub struct Repeat {
    operation: Operation,
    sizes: MatrixRow,
    /// `None` for a single pass.
    wanted: Option<Duration>,
    passes: u64,
    began: Instant,
    said: Duration,
}

impl Repeat {
    /// Returns the state before the first pass.
    pub fn new(options: &Options, operation: Operation, sizes: MatrixRow) -> Repeat {
        let (began, said) = (Instant::now(), Duration::ZERO);
        Repeat { operation, sizes, wanted: options.repeat_until, passes: 0, began, said }
    }

    /// Returns when the next pass quiesces the device, outside the timed sample. A file that is only read is idle after
    /// the first pass. A file that each pass makes anew need not be idle before it is removed.
    pub fn rest(&self) -> Rest {
        match self.wanted {
            None => Rest::ALWAYS,
            Some(_) if self.operation.makes_file() => Rest { before: true, after: false },
            Some(_) if self.operation.writes() => Rest::ALWAYS,
            Some(_) => Rest { before: self.passes == 0, after: false },
        }
    }

    /// Returns whether the device still has to be quiesced after the last pass.
    pub fn owes_rest(&self) -> bool {
        self.wanted.is_some() && self.operation.makes_file()
    }

    /// Counts a pass and returns whether `nanoseconds`, the timed total, suffices.
    pub fn enough(&mut self, nanoseconds: u64) -> bool {
        self.passes += 1;
        let (timed, wanted) = (Duration::from_nanos(nanoseconds), self.wanted.unwrap_or_default());
        let elapsed = self.began.elapsed();
        if timed < wanted && elapsed - self.said >= SILENCE {
            self.said = elapsed;
            let MatrixRow { file, record } = self.sizes;
            let left = elapsed.mul_f64(wanted.as_secs_f64() / timed.as_secs_f64().max(1e-9) - 1.0);
            say(&format!(
                "{}, {file} kB by {record} kB: {} of {} timed in {} passes; restoring the file between them takes most \
                 of the time; about {} left",
                words(self.operation),
                show_duration(timed),
                show_duration(wanted),
                self.passes,
                show_duration(left),
            ));
        }
        timed >= wanted
    }
}

/// `random write`.
fn words(operation: Operation) -> String {
    let name = format!("{operation:?}");
    let word = |(at, letter): (usize, char)| match letter.is_uppercase() && at > 0 {
        true => format!(" {}", letter.to_lowercase()),
        false => letter.to_lowercase().to_string(),
    };
    name.char_indices().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_in_words() {
        assert_eq!((words(Operation::RandomWrite), words(Operation::Read)), ("random write".into(), "read".into()));
    }

    #[test]
    fn a_repetition_spares_what_the_state_does_not_need() {
        let sizes = MatrixRow { file: 64, record: 4 };
        let once = Options::default();
        let many = Options { repeat_until: Some(Duration::from_millis(1)), ..Options::default() };
        let mut single = Repeat::new(&once, Operation::Read, sizes);
        assert_eq!((single.rest(), single.enough(1), single.owes_rest()), (Rest::ALWAYS, true, false));
        let mut read = Repeat::new(&many, Operation::Read, sizes);
        assert_eq!(read.rest(), Rest { before: true, after: false });
        assert!(!read.enough(999_999));
        assert_eq!(read.rest(), Rest { before: false, after: false });
        assert!(read.enough(1_000_000) && !read.owes_rest());
        let write = Repeat::new(&many, Operation::Write, sizes);
        assert_eq!((write.rest(), write.owes_rest()), (Rest { before: true, after: false }, true));
        // A page that waits for writeback is overwritten faster than a clean one.
        assert_eq!(Repeat::new(&many, Operation::Rewrite, sizes).rest(), Rest::ALWAYS);
    }
}
