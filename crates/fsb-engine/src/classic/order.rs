//! In which order records are visited.

use super::phase::Operation;
use crate::permutation::Permutation;

/// IOzone visits at random in the same order each time; so does this, in an order of its own.
const SEED: u64 = 0x10_2011;

/// The places of all records, in the order of an operation.
#[derive(Debug, Clone)]
pub(super) enum Order {
    Forward(u64),
    Backward(u64),
    Same(u64),
    Random(Permutation, u64),
    Stride { records: u64, stride: u64 },
}

impl Order {
    pub(super) fn of(operation: Operation, records: u64, stride: u64) -> Order {
        match operation {
            Operation::BackwardRead => Order::Backward(records),
            Operation::RecordRewrite => Order::Same(records),
            Operation::StrideRead => Order::Stride { records, stride },
            Operation::RandomRead | Operation::RandomWrite => Order::Random(Permutation::new(records, SEED), records),
            _ => Order::Forward(records),
        }
    }

    /// Record numbers, as many as the file has records.
    pub(super) fn places(&self) -> Places<'_> {
        Places { order: self, done: 0, next: 0, wraps: 0 }
    }
}

/// Goes through an [`Order`].
#[derive(Debug)]
pub(super) struct Places<'o> {
    order: &'o Order,
    done: u64,
    /// For strides: the next place, and how often the end was reached.
    next: u64,
    wraps: u64,
}

impl Iterator for Places<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let (records, place) = match self.order {
            Order::Forward(records) => (*records, self.done),
            Order::Backward(records) => (*records, records.wrapping_sub(self.done + 1)),
            Order::Same(records) => (*records, 0),
            Order::Random(permutation, records) if self.done < *records => (*records, permutation.at(self.done)),
            Order::Random(_, records) => (*records, 0),
            Order::Stride { records, .. } => (*records, self.next),
        };
        if self.done == records {
            return None;
        }
        self.done += 1;
        if let Order::Stride { records, stride } = self.order {
            self.leap(*records, *stride);
        }
        Some(place)
    }
}

impl Places<'_> {
    /// The place after the current one, as IOzone has it: a stride further; beyond the end, or at the last record, it
    /// starts again one record further than the time before. A file that a stride does not fit into is read at its
    /// start only. So the last record may never be read, and some are read twice: their number is what is kept.
    fn leap(&mut self, records: u64, stride: u64) {
        let after = self.next + 1;
        if after + stride >= records.saturating_sub(1) {
            self.wraps += 1;
            self.next = if records <= stride { 0 } else { self.wraps % records };
        } else {
            self.next = after + stride - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(operation: Operation, records: u64, stride: u64) -> Vec<u64> {
        Order::of(operation, records, stride).places().collect()
    }

    #[test]
    fn simple_orders_are_what_their_names_say() {
        assert_eq!(places(Operation::Write, 4, 17), [0, 1, 2, 3]);
        assert_eq!(places(Operation::BackwardRead, 4, 17), [3, 2, 1, 0]);
        assert_eq!(places(Operation::RecordRewrite, 3, 17), [0, 0, 0]);
        let mut random = places(Operation::RandomRead, 1000, 17);
        assert_eq!(random, places(Operation::RandomWrite, 1000, 17));
        assert!(random.windows(2).any(|pair| pair[1] < pair[0]));
        random.sort_unstable();
        assert_eq!(random, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn strides_are_those_of_the_real_tool() {
        let trace = include_str!("../../testdata/iozone-strace/05-stride-read.strace");
        let (_, reading) = trace.split_once("O_RDONLY").unwrap();
        let seeks = reading.lines().filter_map(|line| line.strip_prefix("lseek(3, ")?.split(',').next()?.parse().ok());
        let expected: Vec<u64> = std::iter::once(0).chain(seeks).map(|offset: u64| offset / 65_536).collect();
        assert_eq!(places(Operation::StrideRead, 64, 17), expected[..64]);
        assert_eq!(places(Operation::StrideRead, 4, 17), [0; 4]);
        assert_eq!(places(Operation::StrideRead, 1, 17), [0]);
    }
}
