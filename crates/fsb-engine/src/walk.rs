//! The order of a thread that owns all items, with records of several sizes or with a share of
//! visits in sequence.
//!
//! The rules are those of fio's options `percentage_random`, `bsrange` and `bssplit`. A visit in
//! sequence goes to the item after the last record. A random visit goes to an item that no random
//! visit of the pass has moved, and its record ends before the next one that was moved so. With a
//! distribution, a random visit goes to any item.

use std::fmt;

use fsb_model::Bytes;
use fsb_model::units::parse_percent;

use crate::hash::{Permutation, Stream, hash, mix, unit};

/// The most items of a walk: one bit for each is in memory.
pub(crate) const MOST_ITEMS: u64 = 1 << 30;

/// The parameters of a walk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WalkOptions {
    /// The share of visits in sequence.
    pub(crate) sequential: f64,
    /// `None` if each record is one item.
    pub(crate) sizes: Option<RecordSizes>,
    /// The sizes of written records, if reads of a mix have others.
    pub(crate) write_sizes: Option<RecordSizes>,
}

/// The sizes of records, and how frequent they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordSizes {
    text: String,
    /// Sizes in items, ascending from 1, with their weights.
    sizes: Vec<(u64, f64)>,
    /// All multiples of the first size up to the last one have the same weight.
    range: bool,
}

/// The forms of record sizes, for messages.
const SIZE_FORMS: &str = "a range such as 4K-64K, or sizes with their percent such as 4K/60:64K/40";

/// The most sizes that are given one by one, as in fio.
const MOST_SIZES: usize = 64;

impl RecordSizes {
    /// Parses the sizes. `item` is the size of an item in bytes: the smallest record has it, and
    /// the others are multiples of it.
    pub(crate) fn parse(text: &str, item: u64) -> Result<RecordSizes, String> {
        let sizes = RecordSizes::parse_multiples(text, item)?;
        match sizes.smallest() {
            1 => Ok(sizes),
            smallest => Err(format!(
                "the smallest record has {} bytes: use it as the block_size",
                smallest * item
            )),
        }
    }

    /// Parses sizes that are multiples of an item, as those of one direction of a mix.
    pub(crate) fn parse_multiples(text: &str, item: u64) -> Result<RecordSizes, String> {
        let wrong = || format!("'{text}' is not {SIZE_FORMS}");
        fn bytes(text: &str) -> Result<u64, String> {
            text.parse::<Bytes>()
                .map(|Bytes(bytes)| bytes)
                .map_err(|error| error.to_string())
        }
        let range = text.split_once('-');
        let mut sizes = match range {
            Some((least, most)) => vec![(bytes(least)?, 1.0), (bytes(most)?, 1.0)],
            None => text
                .split(':')
                .map(|text: &str| {
                    let (size, percent) = text.split_once('/').ok_or_else(wrong)?;
                    Ok((
                        bytes(size)?,
                        parse_percent(percent).map_err(|error| error.to_string())?,
                    ))
                })
                .collect::<Result<Vec<_>, String>>()?,
        };
        if range.is_none()
            && (sizes.iter().map(|(_, weight)| weight).sum::<f64>() - 1.0).abs() > 1e-9
        {
            return Err("the percents of the sizes must add up to 100".to_owned());
        }
        sizes.sort_by_key(|(size, _)| *size);
        if sizes.len() > MOST_SIZES || sizes.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(wrong());
        }
        if let Some((size, _)) = sizes
            .iter()
            .find(|(size, _)| *size == 0 || !size.is_multiple_of(item))
        {
            return Err(match *size == sizes[0].0 && *size > 0 {
                true => format!("the smallest record has {size} bytes: use it as the block_size"),
                false => format!("{size} is not a multiple of the smallest record, {item} bytes"),
            });
        }
        sizes.iter_mut().for_each(|(size, _)| *size /= item);
        Ok(RecordSizes {
            text: text.to_owned(),
            sizes,
            range: range.is_some(),
        })
    }

    /// Returns the smallest size in items.
    fn smallest(&self) -> u64 {
        self.sizes.first().map_or(1, |(size, _)| *size)
    }

    /// Returns the largest size in items.
    pub(crate) fn largest(&self) -> u64 {
        self.sizes.last().map_or(1, |(size, _)| *size)
    }

    /// Returns the size that random bits determine among those of at most `most` items. If all are
    /// larger, it is `most`.
    fn draw(&self, bits: u64, most: u64) -> u64 {
        if self.range {
            let smallest = self.smallest();
            return (smallest
                * (1 + (unit(bits) * (self.largest().min(most) / smallest) as f64) as u64))
                .min(most);
        }
        let fitting = || self.sizes.iter().take_while(|(size, _)| *size <= most);
        let mut left = unit(bits) * fitting().map(|(_, weight)| weight).sum::<f64>();
        let chosen = fitting().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        chosen.map_or(most, |(size, _)| *size)
    }
}

impl fmt::Display for RecordSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The state of a walk.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    items: u64,
    seed: u64,
    options: WalkOptions,
    /// The number of visits of all passes.
    visits: u64,
    /// The item after the last record.
    next: u64,
    /// The number of items of the last record.
    record: u64,
    /// Whether the next record of a mix is written.
    writes: bool,
    /// The order of random visits if all records are one item, and the next place in it.
    permutation: Permutation,
    place: u64,
    /// A bit for each item that random visits of the pass have moved. Empty if a record is one
    /// item, for then the permutation repeats none.
    visited: Vec<u64>,
}

impl Walk {
    /// `maps` is whether random visits of a pass repeat no item.
    pub(crate) fn new(options: WalkOptions, items: u64, seed: u64, maps: bool) -> Walk {
        let words = if maps && options.sizes.is_some() && options.sequential < 1.0 {
            items.div_ceil(64)
        } else {
            0
        };
        let permutation = Permutation::new(items, seed);
        let visited = vec![0; words as usize];
        Walk {
            items,
            seed,
            options,
            visits: 0,
            next: 0,
            record: 1,
            writes: false,
            permutation,
            place: 0,
            visited,
        }
    }

    /// Begins a pass.
    pub(crate) fn restart(&mut self, pass: u64) {
        (self.next, self.place) = (0, 0);
        self.permutation = Permutation::new(self.items, hash(self.seed, Stream::Order, pass));
        self.visited.fill(0);
    }

    /// Sets the direction of the next record.
    pub(crate) fn choose(&mut self, writes: bool) {
        self.writes = writes;
    }

    /// Returns the number of items of the last record.
    #[inline]
    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    /// Returns the first item of the next record, which has at most `left` items. `draw` returns
    /// the item of a random visit from its number, or `None` if random visits of a pass repeat no
    /// item.
    pub(crate) fn visit(&mut self, left: u64, draw: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let bits = hash(self.seed, Stream::Walk, self.visits);
        self.visits += 1;
        let in_sequence = self.next < self.items && unit(bits) < self.options.sequential;
        let item = if in_sequence {
            self.next
        } else {
            draw(self.visits).unwrap_or_else(|| self.unvisited(bits))
        };
        let of_direction = self.options.write_sizes.as_ref().filter(|_| self.writes);
        let sizes = of_direction.or(self.options.sizes.as_ref());
        // As in fio, a record of a direction with larger sizes begins at a multiple of the smallest
        // of them.
        let item = item - sizes.map_or(0, |sizes| item % sizes.smallest());
        let most = left.min(self.items - item);
        let size = sizes.map_or(1, |sizes| sizes.draw(mix(bits), most));
        self.record = size;
        if !in_sequence && !self.visited.is_empty() {
            if self.options.write_sizes.is_none() {
                self.record = (1..size)
                    .find(|ahead| self.is_visited(item + ahead))
                    .unwrap_or(size);
            }
            (item..item + self.record)
                .for_each(|item| self.visited[(item / 64) as usize] |= 1 << (item % 64));
        }
        self.next = item + self.record;
        item
    }

    /// Returns an item that no random visit of the pass has moved. If all records are one item, it
    /// is the next one of the permutation. Otherwise, as in fio, it is the first one from a drawn
    /// item on. Draws with replacement often hit moved items. Records then begin where others end,
    /// and fewer are cut short than in an order without repetition.
    fn unvisited(&mut self, bits: u64) -> u64 {
        if self.visited.is_empty() {
            self.place += 1;
            return self.permutation.at(self.place - 1);
        }
        let item = (unit(mix(!bits)) * self.items as f64) as u64;
        // There is one, because a pass moves no more items than there are.
        self.unvisited_from(item)
            .or_else(|| self.unvisited_from(0))
            .unwrap_or(item)
    }

    /// Returns the first item from `first` on that no random visit has moved.
    fn unvisited_from(&self, first: u64) -> Option<u64> {
        let (word, bit) = ((first / 64) as usize, first % 64);
        let rest = self.visited.get(word + 1..)?.iter().map(|word| !word);
        let begun = !self.visited[word] >> bit << bit;
        let mut words = (word as u64..).zip(std::iter::once(begun).chain(rest));
        let found = words.find(|(_, free)| *free != 0);
        found
            .map(|(word, free)| word * 64 + u64::from(free.trailing_zeros()))
            .filter(|item| *item < self.items)
    }

    fn is_visited(&self, item: u64) -> bool {
        self.visited
            .get((item / 64) as usize)
            .is_some_and(|word| word >> (item % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the records of one pass: first items and numbers of items.
    fn pass(sequential: f64, sizes: Option<&str>, items: u64, seed: u64) -> Vec<(u64, u64)> {
        let sizes = sizes.map(|text| RecordSizes::parse(text, 4096).unwrap());
        let mut walk = Walk::new(
            WalkOptions {
                sequential,
                sizes,
                write_sizes: None,
            },
            items,
            seed,
            true,
        );
        let (mut left, mut records) = (items, Vec::new());
        while left > 0 {
            let item = walk.visit(left, |_| None);
            records.push((item, walk.record()));
            left -= walk.record();
        }
        records
    }

    fn items_of(records: &[(u64, u64)]) -> Vec<u64> {
        let mut items: Vec<u64> = records
            .iter()
            .flat_map(|(item, count)| *item..item + count)
            .collect();
        items.sort_unstable();
        items
    }

    proptest! {
        #[test]
        fn records_of_several_sizes_cover_the_file_once(
            items in 1u64..3000, seed in any::<u64>(), sequential in prop::sample::select(vec![0.0, 1.0]),
            sizes in prop::sample::select(vec!["4K-64K", "4K/60:64K/40", "4K/1:8K/99", "4K/100"]),
        ) {
            let records = pass(sequential, Some(sizes), items, seed);
            prop_assert_eq!(items_of(&records), (0..items).collect::<Vec<_>>());
            prop_assert!(records.iter().all(|(_, count)| *count <= 16));
            if sequential == 1.0 {
                prop_assert!(records.is_sorted());
            }
        }

        #[test]
        fn random_visits_of_a_pass_repeat_no_item(
            items in 1u64..2000, seed in any::<u64>(), sizes in prop::sample::select(vec![None, Some("4K-16K")]),
        ) {
            let records = pass(0.4, sizes, items, seed);
            prop_assert_eq!(records.iter().map(|(_, count)| count).sum::<u64>(), items);
            let mut next = 0;
            let mut random = Vec::new();
            for (item, count) in records {
                if item != next {
                    random.extend(item..item + count);
                }
                next = item + count;
            }
            let all = random.len();
            random.sort_unstable();
            random.dedup();
            prop_assert_eq!(random.len(), all);
        }
    }

    #[test]
    fn the_share_of_visits_in_sequence_is_as_given() {
        let records = pass(0.3, None, 100_000, 7);
        let in_sequence = records
            .windows(2)
            .filter(|pair| pair[1].0 == pair[0].0 + 1)
            .count();
        assert!(
            (in_sequence as f64 / 1e5 - 0.3).abs() < 0.01,
            "{in_sequence}"
        );
    }

    #[test]
    fn sizes_are_as_frequent_as_given() {
        let records = pass(1.0, Some("4K/60:16K/40"), 400_000, 7);
        let small = records.iter().filter(|(_, count)| *count == 1).count() as f64;
        assert!((small / records.len() as f64 - 0.6).abs() < 0.01, "{small}");
        let records = pass(1.0, Some("4K-16K"), 400_000, 7);
        for size in 1..=4 {
            let share = records.iter().filter(|(_, count)| *count == size).count() as f64
                / records.len() as f64;
            assert!((share - 0.25).abs() < 0.01, "{size}: {share}");
        }
    }

    #[test]
    fn random_records_are_cut_short_as_often_as_in_fio() {
        // fio 3.33 made 1014 records of 8 MiB with bsrange=4k-16k and rw=randread.
        let records: Vec<usize> = (0..8)
            .map(|seed| pass(0.0, Some("4K-16K"), 2048, seed).len())
            .collect();
        let mean = records.iter().sum::<usize>() as f64 / records.len() as f64;
        assert!((mean / 1014.0 - 1.0).abs() < 0.03, "{records:?}");
    }

    #[test]
    fn sizes_that_do_not_fit_together_are_refused() {
        for (text, expected) in [
            ("4K", "is not a range"),
            ("4K-6K", "6144 is not a multiple of the smallest record"),
            ("8K-16K", "use it as the block_size"),
            ("4K/60:8K/60", "must add up to 100"),
            ("4K/50:4K/50", "is not a range"),
            ("4K/x", "x"),
            ("-", ""),
        ] {
            let message = RecordSizes::parse(text, 4096).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert_eq!(
            RecordSizes::parse("4K/60:64K/40", 4096)
                .unwrap()
                .to_string(),
            "4K/60:64K/40"
        );
    }
}
