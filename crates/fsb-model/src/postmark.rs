//! PostMark's pool of files, as data: which file is created, read, appended to and deleted next.
//!
//! Only the numbers of a [`Draw`] decide the content of a transaction. With PostMark's own
//! generator, which is in `fsb-compat` because it belongs to the foreign tool, the operations are
//! PostMark's, file by file and byte by byte. With another generator, their number, sizes and
//! shares are the same. Nothing here touches a file.

use serde::{Deserialize, Serialize};

use crate::Params;

/// A source of pseudo-random numbers.
pub trait Draw {
    /// Returns the next number, any of 32 bits.
    fn draw(&mut self) -> u32;

    /// Returns a number below `limit`. For a limit of 0, returns 0 and draws nothing.
    #[inline]
    fn below(&mut self, limit: u32) -> u32 {
        if limit == 0 { 0 } else { self.draw() % limit }
    }
}

/// The largest pool: each file has two places of 16 bytes.
pub const MOST_FILES: u32 = 1 << 26;
/// The largest file in bytes.
pub const LARGEST_FILE: u32 = 1 << 30;
/// Never: the bias that switches a half of each transaction off.
pub const OFF: i32 = -1;
/// Always read, or always create.
pub const MOST_BIAS: i32 = 10;

/// The parameters that, with the drawn numbers, decide the operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The least bytes of a new file; never 0.
    pub size_low: u32,
    /// The maximum size of a file in bytes; at least `size_low`.
    pub size_high: u32,
    /// Files that are created before the transactions; the pool has room for twice as many.
    pub number: u32,
    /// Transactions.
    pub transactions: u32,
    /// Directories in each location if there is more than one; otherwise files are in the location
    /// itself.
    pub subdirectories: u32,
    /// One weight per location. A single location needs no drawing; no location means the working
    /// directory.
    pub weights: Vec<u32>,
    /// The number of transactions in ten that read; the others append. [`OFF`] for neither.
    pub bias_read: i32,
    /// The number of transactions in ten that create; the others delete. [`OFF`] for neither.
    pub bias_create: i32,
}

impl Shape {
    /// Returns the parameters of the workload `postmark` for this shape, without the weights.
    pub fn params(&self) -> Params {
        Params::from_iter([
            ("size_low".to_owned(), self.size_low.into()),
            ("size_high".to_owned(), self.size_high.into()),
            ("number".to_owned(), self.number.into()),
            ("transactions".to_owned(), self.transactions.into()),
            ("subdirectories".to_owned(), self.subdirectories.into()),
            ("bias_read".to_owned(), self.bias_read.into()),
            ("bias_create".to_owned(), self.bias_create.into()),
        ])
    }
}

impl Default for Shape {
    /// Returns PostMark's defaults.
    fn default() -> Shape {
        Shape {
            size_low: 500,
            size_high: 10_000,
            number: 500,
            transactions: 500,
            subdirectories: 0,
            weights: Vec::new(),
            bias_read: 5,
            bias_create: 5,
        }
    }
}

impl Shape {
    /// Returns the number of transactions after which PostMark shows a dot: a tenth of all, and at
    /// least 1.
    pub fn tenth(&self) -> u32 {
        (self.transactions / 10).max(1)
    }

    /// Returns the number of files that, with near certainty, is never exceeded. The pool drifts
    /// with the bias, and deviates from that by the square root of its steps. The result is at most
    /// the number of places of the pool.
    pub fn most_files(&self) -> u64 {
        let number = f64::from(self.number);
        let steps = f64::from(self.transactions);
        let drift = match self.bias_create {
            OFF => 0.0,
            bias => (steps * (f64::from(bias) / 5.0 - 1.0)).max(0.0) + 6.0 * steps.sqrt(),
        };
        (number + drift).min(2.0 * number).ceil() as u64
    }
}

/// The name of a file: its number, location and subdirectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// Files are numbered from 1 in the order of their creation.
    pub number: u32,
    /// The location, from 0.
    pub location: u32,
    /// The subdirectory of the location, from 0; 0 if there are none.
    pub subdirectory: u32,
}

/// An action on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Creates the file with this many bytes.
    Create,
    /// Reads all bytes of the file.
    Read,
    /// Appends bytes to the file.
    Append {
        /// The bytes that the file has before.
        at: u32,
    },
    /// Removes the file.
    Delete,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The action.
    pub act: Act,
    /// The file.
    pub file: FileName,
    /// Bytes written, read or removed.
    pub bytes: u32,
}

// PostMark keeps its files in a table of twice as many places as it begins with. A new file takes
// the place behind the last one taken, or where that is not free the first free one; a file is
// chosen by drawing places until one is taken. All of that decides which file is meant, so it is
// done as PostMark does it, only without its search from the start.

/// A place in the table. It is free if the size is 0.
#[derive(Debug, Clone, Copy)]
struct TableEntry {
    size: u32,
    file: FileName,
}

const FREE: TableEntry = TableEntry {
    size: 0,
    file: FileName {
        number: 0,
        location: 0,
        subdirectory: 0,
    },
};

/// The files that exist, and what happens to them next.
#[derive(Debug)]
pub struct Pool<D> {
    shape: Shape,
    draw: D,
    places: Vec<TableEntry>,
    /// The place behind the one that was taken last.
    next: usize,
    /// No place before this one is free.
    first_free: usize,
    /// The next place that the removal of the remaining files looks at.
    removing: usize,
    /// Sum of the weights.
    weight: u32,
    tally: Tally,
}

impl<D: Draw> Pool<D> {
    /// Returns an empty pool. Reserves and touches all memory that the pool needs.
    pub fn new(shape: Shape, draw: D) -> Pool<D> {
        let places = vec![TableEntry { size: 0, ..FREE }; 2 * shape.number as usize];
        let weight = shape.weights.iter().sum();
        Pool {
            shape,
            draw,
            places,
            next: 0,
            first_free: 0,
            removing: 0,
            weight,
            tally: Tally::default(),
        }
    }

    /// Returns the parameters.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns whether no file is left. PostMark ends there, because it would search for a file
    /// forever.
    pub fn is_exhausted(&self) -> bool {
        self.tally.created == self.tally.deleted
    }

    /// Creates a file. Returns `None` if every place is taken.
    #[inline]
    pub fn create(&mut self) -> Option<Operation> {
        let index = self.free_place()?;
        let location = match self.shape.weights.len() {
            0 | 1 => 0,
            _ => {
                let drawn = self.draw.below(self.weight);
                self.location_at(drawn)
            }
        };
        let subdirectory = if self.shape.subdirectories > 1 {
            self.draw.below(self.shape.subdirectories)
        } else {
            0
        };
        self.tally.created += 1;
        let bytes =
            self.shape.size_low + self.draw.below(self.shape.size_high - self.shape.size_low);
        let file = FileName {
            number: self.tally.created as u32,
            location,
            subdirectory,
        };
        self.places[index] = TableEntry { size: bytes, file };
        self.tally.writes(bytes);
        Some(Operation {
            act: Act::Create,
            file,
            bytes,
        })
    }

    /// Performs the first half of a transaction, a read or an append. Returns `None` if the bias is
    /// off, or if the file to append to has the largest size. PostMark counts that as a
    /// transaction.
    #[inline]
    pub fn use_one(&mut self) -> Option<Operation> {
        if self.shape.bias_read == OFF {
            return None;
        }
        let reads = (self.draw.below(10) as i32) < self.shape.bias_read;
        let index = self.taken_place();
        let TableEntry { size, file } = self.places[index];
        if reads {
            self.tally.reads(size);
            return Some(Operation {
                act: Act::Read,
                file,
                bytes: size,
            });
        }
        if size >= self.shape.size_high {
            return None;
        }
        let bytes = self.draw.below(self.shape.size_high - size) + 1;
        self.places[index].size += bytes;
        self.tally.appended += 1;
        self.tally.writes(bytes);
        Some(Operation {
            act: Act::Append { at: size },
            file,
            bytes,
        })
    }

    /// Performs the second half of a transaction: creates or deletes a file. Returns `None` if the
    /// bias is off, or if it should create a file and every place is taken.
    #[inline]
    pub fn exchange(&mut self) -> Option<Operation> {
        if self.shape.bias_create == OFF {
            return None;
        }
        if (self.draw.below(10) as i32) < self.shape.bias_create {
            return self.create();
        }
        let index = self.taken_place();
        Some(self.delete(index))
    }

    /// Removes the next of the remaining files, in the order of their places. The caller uses it at
    /// the end of a run.
    #[inline]
    pub fn remove_next(&mut self) -> Option<Operation> {
        while self.removing < self.places.len() {
            let index = self.removing;
            self.removing += 1;
            if self.places[index].size > 0 {
                return Some(self.delete(index));
            }
        }
        None
    }

    fn delete(&mut self, index: usize) -> Operation {
        let TableEntry { size, file } = std::mem::replace(&mut self.places[index], FREE);
        self.first_free = self.first_free.min(index);
        self.tally.deleted += 1;
        Operation {
            act: Act::Delete,
            file,
            bytes: size,
        }
    }

    #[inline]
    fn free_place(&mut self) -> Option<usize> {
        let index = match self.places.get(self.next) {
            Some(place) if place.size == 0 => self.next,
            _ => {
                let mut places = self.places[self.first_free..].iter();
                let found = places.position(|place| place.size == 0);
                // If no place is free, it is not searched for again until a file was deleted.
                let index = found.map_or(self.places.len(), |ahead| self.first_free + ahead);
                self.first_free = self.places.len().min(index + 1);
                found.map(|_| index)?
            }
        };
        self.next = index + 1;
        Some(index)
    }

    /// Draws places until one holds a file. The caller ensures that there is a file.
    #[inline]
    fn taken_place(&mut self) -> usize {
        loop {
            let index = self.draw.below(self.places.len() as u32) as usize;
            if self.places[index].size > 0 {
                return index;
            }
        }
    }

    /// Returns the location into whose share of the weights a drawn number falls.
    fn location_at(&self, drawn: u32) -> u32 {
        let mut end = 0;
        let share = self.shape.weights.iter().position(|weight| {
            end += weight;
            drawn < end
        });
        share.unwrap_or(0) as u32
    }
}

/// Counts of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Files created.
    pub created: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written, by creating and appending.
    pub bytes_written: u64,
    /// Bytes read as PostMark sums them, in single precision: beyond 16 MiB it rounds with every
    /// file.
    pub single_read: f32,
    /// Bytes written as PostMark sums them.
    pub single_written: f32,
}

impl Tally {
    /// Returns the number of files that exist.
    pub fn left(&self) -> u64 {
        self.created - self.deleted
    }

    fn reads(&mut self, bytes: u32) {
        self.read += 1;
        self.bytes_read += u64::from(bytes);
        self.single_read += bytes as f32;
    }

    fn writes(&mut self, bytes: u32) {
        self.bytes_written += u64::from(bytes);
        self.single_written += bytes as f32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A simple generator. The assertions hold for any generator.
    struct Counting(u64);

    impl Draw for Counting {
        fn draw(&mut self) -> u32 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as u32
        }
    }

    /// Performs a whole run and checks each operation against the files that exist.
    fn play(shape: Shape, seed: u64) -> (Tally, usize) {
        let (mut pool, mut files) = (Pool::new(shape.clone(), Counting(seed)), BTreeMap::new());
        let mut most = 0;
        let mut follow = |operation: Option<Operation>| {
            let Some(Operation { act, file, bytes }) = operation else {
                return;
            };
            match act {
                Act::Create => assert_eq!(files.insert(file, bytes), None),
                Act::Read => assert_eq!(files[&file], bytes),
                Act::Append { at } => {
                    assert_eq!(files[&file], at);
                    files.insert(file, at + bytes);
                }
                Act::Delete => assert_eq!(files.remove(&file), Some(bytes)),
            }
            assert!(
                files
                    .values()
                    .all(|size| (shape.size_low..=shape.size_high).contains(size))
            );
            most = most.max(files.len());
        };
        (0..shape.number).for_each(|_| follow(pool.create()));
        for _ in 0..shape.transactions {
            if pool.is_exhausted() {
                break;
            }
            follow(pool.use_one());
            follow(pool.exchange());
        }
        while let Some(operation) = pool.remove_next() {
            follow(Some(operation));
        }
        assert!(files.is_empty(), "{files:?}");
        (*pool.tally(), most)
    }

    #[test]
    fn every_operation_is_about_a_file_that_is_there_and_counts_balance() {
        for (bias_read, bias_create) in [(5, 5), (10, 0), (0, 10), (-1, 5), (5, -1), (3, 8)] {
            for number in [1, 2, 50] {
                let shape = Shape {
                    number,
                    transactions: 400,
                    bias_read,
                    bias_create,
                    ..Shape::default()
                };
                let most_files = shape.most_files();
                let (tally, most) = play(shape, 7);
                assert_eq!(tally.left(), 0);
                assert!(
                    tally.created >= u64::from(number) && most as u64 <= most_files,
                    "{most} {most_files}"
                );
                assert_eq!(bias_read == OFF, tally.read + tally.appended == 0);
            }
        }
    }

    /// The budget is 64 bytes a file, and the pool has two places for each.
    #[test]
    fn a_file_costs_few_bytes() {
        assert!(2 * size_of::<TableEntry>() <= 64);
    }

    #[test]
    fn a_pool_that_is_full_creates_nothing_more() {
        let shape = Shape {
            number: 3,
            transactions: 50,
            bias_create: 10,
            ..Shape::default()
        };
        let (tally, most) = play(shape, 1);
        assert_eq!((tally.created, most), (6, 6));
    }

    #[test]
    fn files_of_one_size_are_full_and_are_not_appended_to() {
        let shape = Shape {
            size_low: 100,
            size_high: 100,
            bias_read: 0,
            ..Shape::default()
        };
        let (tally, _) = play(shape, 1);
        assert_eq!(
            (tally.appended, tally.bytes_written),
            (0, 100 * tally.created)
        );
    }

    #[test]
    fn locations_and_directories_get_their_shares() {
        let shape = Shape {
            number: 4000,
            weights: vec![1, 3],
            subdirectories: 2,
            ..Shape::default()
        };
        let mut pool = Pool::new(shape, Counting(3));
        let mut shares = BTreeMap::new();
        while let Some(operation) = pool.create() {
            *shares
                .entry((operation.file.location, operation.file.subdirectory))
                .or_insert(0) += 1;
        }
        let expected = [
            ((0, 0), 1000),
            ((0, 1), 1000),
            ((1, 0), 3000),
            ((1, 1), 3000),
        ];
        for (place, count) in expected {
            assert!(i32::abs(shares[&place] - count) < 200, "{shares:?}");
        }
    }
}
