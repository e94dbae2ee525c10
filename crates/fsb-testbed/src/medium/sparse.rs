//! The sparse range around a slice.
//!
//! A file system whose behaviour follows the size of its device gets the device of a large disk: a
//! range that is mostly holes, so that it costs no space. A write to a hole makes the file system
//! beneath allocate blocks, which takes other times than a later write. So the places that are
//! written first are written over before anything is measured: the slice itself, which holds the
//! first data, and the places of metadata before it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::slices::{LEAD, Slice};

/// A slice, the holes around it, and the places that were written over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseRange {
    slice: Slice,
    /// The part of the medium that the device shows.
    shown: Slice,
    /// Offsets on the medium, sorted and disjoint.
    written: Vec<Range<u64>>,
    /// The bytes before the slice with which a file system was prepared, by the arguments of its
    /// mkfs program.
    prepared: BTreeMap<Vec<String>, u64>,
    used: UsedPlaces,
}

/// Bytes around a slice that a file system may write in one block so that they are written over on
/// the other ranges. More of them are the work of a program that fills the device.
const MOST_USED: u64 = 1 << 30;

/// The places around a slice that file systems wrote on any range of the medium: bytes before or
/// after its start.
pub(super) type UsedPlaces = Rc<RefCell<Vec<Range<i64>>>>;

impl SparseRange {
    /// Returns the range of a slice that was written over and that the device shows.
    pub(super) fn new(slice: Slice, used: &UsedPlaces) -> SparseRange {
        let whole = slice.start..slice.start + slice.bytes;
        SparseRange {
            slice,
            shown: slice,
            written: std::iter::once(whole).collect(),
            prepared: BTreeMap::new(),
            used: Rc::clone(used),
        }
    }

    /// Returns the slice.
    pub fn slice(&self) -> Slice {
        self.slice
    }

    /// Returns whether the device shows more than the slice.
    pub fn is_extended(&self) -> bool {
        self.shown != self.slice
    }

    /// Returns the bytes before the slice with which the file system of these mkfs arguments was
    /// prepared. Returns `None` if it was not made here before.
    pub fn lead_of(&self, mkfs: &[String]) -> Option<u64> {
        self.prepared.get(mkfs).copied()
    }

    /// Records that the device, as it is shown, is prepared for the file system of these mkfs
    /// arguments.
    pub fn prepare_for(&mut self, mkfs: &[String]) {
        self.prepared
            .insert(mkfs.to_owned(), self.slice.start - self.shown.start);
    }

    /// Returns the part of the medium with `bytes` bytes, of which `lead` bytes are before the
    /// slice, but no more than belong to the range.
    pub fn window(&self, lead: u64, bytes: u64) -> Slice {
        Slice {
            start: self.slice.start - lead.min(LEAD),
            bytes,
        }
    }

    /// Returns the part that the device shows.
    pub(super) fn shown(&self) -> Slice {
        self.shown
    }

    pub(super) fn show(&mut self, window: Slice) {
        self.shown = window;
    }

    /// Returns the parts of `places` that were never written over. Both are offsets on the device.
    pub fn missing(&self, places: &[Range<u64>]) -> Vec<Range<u64>> {
        let (mut places, mut missing) = (places.to_vec(), Vec::new());
        merge(&mut places);
        for place in &places {
            let end = self.shown.start + place.end.min(self.shown.bytes);
            let mut at = self.shown.start + place.start;
            for part in &self.written {
                if part.end > at && part.start < end {
                    if part.start > at {
                        missing.push(at..part.start);
                    }
                    at = part.end;
                }
            }
            if at < end {
                missing.push(at..end);
            }
        }
        missing
            .iter()
            .map(|part| part.start - self.shown.start..part.end - self.shown.start)
            .collect()
    }

    /// Returns the places of the device that file systems wrote here or on another range of the
    /// medium.
    pub fn used(&self) -> Vec<Range<u64>> {
        let shift = self.slice.start as i64 - self.shown.start as i64;
        let at = |offset: i64| (offset + shift).max(0) as u64;
        let used = self.used.borrow();
        used.iter()
            .map(|place| at(place.start)..at(place.end))
            .filter(|place| !place.is_empty())
            .collect()
    }

    /// Records that these places of the device were written over.
    pub fn add(&mut self, places: &[Range<u64>]) {
        let start = self.shown.start;
        self.written.extend(
            places
                .iter()
                .map(|place| start + place.start..start + place.end),
        );
        merge(&mut self.written);
    }

    /// Records that a file system wrote these parts of the medium, as far as they belong to what
    /// the device shows. Returns instead those that were holes before, if they are more than
    /// [`MOST_USED`]: they stay holes.
    pub(super) fn note_used(&mut self, parts: &[Range<u64>]) -> Vec<Range<u64>> {
        let (first, end) = (self.shown.start, self.shown.start + self.shown.bytes);
        let parts = parts
            .iter()
            .map(|part| part.start.max(first)..part.end.min(end));
        let parts: Vec<Range<u64>> = parts.filter(|part| part.start < part.end).collect();
        let on_device = parts
            .iter()
            .map(|part| part.start - first..part.end - first)
            .collect::<Vec<_>>();
        let new = self.missing(&on_device);
        if new.iter().map(|part| part.end - part.start).sum::<u64>() > MOST_USED {
            return new
                .iter()
                .map(|part| part.start + first..part.end + first)
                .collect();
        }
        let start = self.slice.start as i64;
        let mut used = self.used.borrow_mut();
        used.extend(
            parts
                .iter()
                .map(|part| part.start as i64 - start..part.end as i64 - start),
        );
        merge(&mut used);
        self.written.extend(parts);
        merge(&mut self.written);
        Vec::new()
    }
}

/// Sorts ranges and joins those that touch each other.
fn merge<T: Ord + Copy>(ranges: &mut Vec<Range<T>>) {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn only(place: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(place).collect()
    }

    fn range() -> SparseRange {
        SparseRange::new(
            Slice {
                start: 5000 * MIB,
                bytes: 600 * MIB,
            },
            &UsedPlaces::default(),
        )
    }

    #[test]
    fn a_place_that_was_used_on_one_range_is_written_over_on_the_others() {
        let used = UsedPlaces::default();
        let slice = |start| Slice {
            start: start * MIB,
            bytes: 600 * MIB,
        };
        let mut one = SparseRange::new(slice(5000), &used);
        let mut other = SparseRange::new(slice(110_000), &used);
        for range in [&mut one, &mut other] {
            range.show(range.window(2000 * MIB, 100_000 * MIB));
        }
        // The second part belongs to the other range.
        let left = one.note_used(&[
            4900 * MIB..4950 * MIB,
            5500 * MIB..5700 * MIB,
            110_000 * MIB..110_600 * MIB,
        ]);
        assert!(left.is_empty());
        assert_eq!(
            other.used(),
            [1900 * MIB..1950 * MIB, 2500 * MIB..2700 * MIB]
        );
        assert_eq!(
            other.missing(&other.used()),
            [1900 * MIB..1950 * MIB, 2600 * MIB..2700 * MIB]
        );
        assert!(one.missing(&one.used()).is_empty());
    }

    #[test]
    fn places_of_a_program_that_fills_the_device_become_holes_again() {
        let mut range = range();
        range.show(range.window(2000 * MIB, 100_000 * MIB));
        let left = range.note_used(&[5100 * MIB..5700 * MIB, 6000 * MIB..9000 * MIB]);
        assert_eq!(left, [5600 * MIB..5700 * MIB, 6000 * MIB..9000 * MIB]);
        assert!(range.used().is_empty());
    }

    #[test]
    fn a_place_is_written_over_once() {
        let mut range = range();
        assert!(range.shown() == range.slice() && !range.is_extended());
        range.show(range.window(2000 * MIB, 100_000 * MIB));
        assert!(range.is_extended());
        let places = [40 * MIB..140 * MIB, 1900 * MIB..2700 * MIB];
        let missing = range.missing(&places);
        assert_eq!(
            missing,
            [
                40 * MIB..140 * MIB,
                1900 * MIB..2000 * MIB,
                2600 * MIB..2700 * MIB
            ]
        );
        range.add(&missing);
        assert!(range.missing(&places).is_empty());
        range.prepare_for(&["-m".to_owned()]);
        assert_eq!(
            (range.lead_of(&["-m".to_owned()]), range.lead_of(&[])),
            (Some(2000 * MIB), None)
        );
        assert_eq!(
            range.missing(&only(100 * MIB..150 * MIB)),
            only(140 * MIB..150 * MIB)
        );
        // Another file system on the same range begins elsewhere.
        range.show(range.window(1000 * MIB, 100_000 * MIB));
        assert_eq!(range.missing(&only(MIB..1700 * MIB)), only(MIB..900 * MIB));
    }

    #[test]
    fn a_window_stays_within_its_range() {
        let range = range();
        assert_eq!(range.window(9000 * MIB, MIB).start, 5000 * MIB - LEAD);
        assert!(
            range.missing(&only(700 * MIB..800 * MIB)).is_empty(),
            "it is behind the device"
        );
    }
}
