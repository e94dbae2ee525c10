//! The layout of a divided medium: equal slices, one for each target that is ready at once, and a
//! small spare slice before them. On a sparse medium, each slice is within a range of its own that
//! is mostly holes. Slices begin and end at multiples of [`GRAIN`].

use serde::{Deserialize, Serialize};

use crate::ledger::GRAIN;

/// The least and the greatest size of the spare slice.
const SPARE: (u64, u64) = (16 << 20, 64 << 20);

/// A slice of a medium, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its offset on the medium.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
}

/// Returns the bytes of each of `parts` equal slices of a medium of `size` bytes. A single slice is
/// the whole medium.
pub fn slice_bytes(size: u64, slices: u32) -> u64 {
    if slices <= 1 {
        size
    } else {
        size.saturating_sub(spare_bytes(size)) / u64::from(slices) / GRAIN * GRAIN
    }
}

/// Returns the least size of a medium whose `parts` slices each have at least `part` bytes.
pub fn size_for(slice: u64, slices: u32) -> u64 {
    if slices <= 1 {
        return slice;
    }
    let all = (slice.div_ceil(GRAIN))
        .saturating_mul(GRAIN)
        .saturating_mul(slices.into());
    // The spare slice has its least size, its share, or its greatest size.
    let sizes = [
        all.saturating_add(SPARE.0),
        (all / 31).saturating_mul(32),
        all.saturating_add(SPARE.1),
    ];
    let whole = sizes.map(|size| size / GRAIN * GRAIN);
    let near = whole
        .into_iter()
        .flat_map(|size| (0..3).map(move |more| size.saturating_add(more * GRAIN)));
    near.filter(|size| slice_bytes(*size, slices) >= slice)
        .min()
        .unwrap_or(u64::MAX)
}

/// The holes before each slice of a sparse medium: room for what a file system writes before its
/// first data.
pub(super) const LEAD: u64 = 4 << 30;

/// Returns the bytes that a sparse medium may hold beside its slices: metadata and the next data,
/// and the rest of the pieces of a gibibyte in which space for data is given.
pub(super) fn beside_slices(size: u64, slices: u32) -> u64 {
    const METADATA: u64 = 640 << 20;
    const PIECE: u64 = 1 << 30;
    let slice = slice_bytes(size, slices);
    (METADATA + slice.next_multiple_of(PIECE) - slice) * u64::from(slices.max(1))
}

fn spare_bytes(size: u64) -> u64 {
    (size / 32).clamp(SPARE.0, SPARE.1) / GRAIN * GRAIN
}

/// Returns the slices of the targets. Returns none if the medium stays whole. With a `range`,
/// [`LEAD`] bytes of holes are before each slice, `range` bytes begin with it, and `size` is what
/// the slices have together.
///
/// The spare slice comes first, so that no file system begins where one of the whole medium would.
/// Otherwise a program that inspects the whole medium would detect that file system.
pub(crate) fn layout(size: u64, slices: u32, range: Option<u64>) -> Vec<Slice> {
    let bytes = slice_bytes(size, slices);
    let (first, stride) = match range {
        Some(range) => (spare_bytes(size) + LEAD, stride(bytes, range)),
        None if slices <= 1 => return Vec::new(),
        None => (spare_bytes(size), bytes),
    };
    (0..u64::from(slices.max(1)))
        .map(|number| Slice {
            start: first + number * stride,
            bytes,
        })
        .collect()
}

fn stride(slice: u64, range: u64) -> u64 {
    LEAD + slice.max(range).div_ceil(GRAIN) * GRAIN
}

/// Returns the bytes of a medium with that [`layout`], holes included.
pub(crate) fn length(size: u64, slices: u32, range: Option<u64>) -> u64 {
    range.map_or(size, |range| {
        spare_bytes(size).saturating_add(
            stride(slice_bytes(size, slices), range).saturating_mul(slices.max(1).into()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_equal_aligned_and_within_the_medium() {
        assert_eq!(
            (slice_bytes(12345, 1), slice_bytes(12345, 0)),
            (12345, 12345)
        );
        assert_eq!(slice_bytes(2 << 30, 3), 661 << 20);
        assert_eq!(slice_bytes(4 << 20, 2), 0);
        assert!(layout(1 << 30, 1, None).is_empty());
        for size in [
            100 << 20,
            (600 << 20) + 4096,
            1_288_490_188,
            2 << 30,
            500 << 30,
        ] {
            for slices in 2..=8 {
                let layout = layout(size, slices, None);
                assert_eq!(layout.len(), slices as usize);
                let spare = layout[0].start;
                assert!(
                    (16 << 20..=64 << 20).contains(&spare) && spare.is_multiple_of(GRAIN),
                    "{spare}"
                );
                for pair in layout.windows(2) {
                    assert_eq!(pair[0].start + pair[0].bytes, pair[1].start);
                    assert_eq!(pair[0].bytes, pair[1].bytes);
                }
                let last = layout[slices as usize - 1];
                let rest = size - last.start - last.bytes;
                assert!(
                    last.bytes.is_multiple_of(GRAIN) && rest < u64::from(slices) * GRAIN + GRAIN,
                    "{size}/{slices}"
                );
            }
        }
    }

    #[test]
    fn ranges_do_not_overlap_and_end_with_the_medium() {
        for (size, slices) in [(2 << 30, 1), (2 << 30, 3), (1 << 30, 15), (30 << 30, 2)] {
            for range in [32 << 30, 100 << 30, (100 << 30) + 4096] {
                let layout = layout(size, slices, Some(range));
                assert_eq!(layout.len(), slices as usize);
                assert!(
                    layout
                        .iter()
                        .all(|slice| slice.bytes == slice_bytes(size, slices))
                );
                assert!(layout[0].start >= LEAD && layout[0].start.is_multiple_of(GRAIN));
                for pair in layout.windows(2) {
                    assert!(pair[0].start + range.max(pair[0].bytes) <= pair[1].start - LEAD);
                }
                let end = layout[slices as usize - 1].start + range;
                assert!((end..end + GRAIN).contains(&length(size, slices, Some(range))));
            }
        }
        assert_eq!(length(2 << 30, 3, None), 2 << 30);
    }

    #[test]
    fn the_size_that_would_do_is_the_least() {
        for slice in [1 << 20, (16 << 20) + 1, 150 << 20, 300 << 20, 5 << 30] {
            for slices in 1..=8 {
                let size = size_for(slice, slices);
                assert!(
                    slice_bytes(size, slices) >= slice,
                    "{slice} in {slices}: {size}"
                );
                assert!(
                    slice_bytes(size - 1, slices) < slice,
                    "{slice} in {slices}: {size} is not the least"
                );
            }
        }
        assert_eq!(size_for(u64::MAX, 2), u64::MAX);
    }
}
