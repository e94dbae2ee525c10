//! A line of fio's logs: its columns, and the bins of its histograms.

/// The bins of a line of fio 3.x, and the bits of a number that choose a bin within a power of two.
const BINS: usize = 1856;
const BITS: u32 = 6;

/// Bins of a line are merged in powers of two by `--log_hist_coarseness`, at most so often.
const COARSEST: u32 = 6;

/// The columns of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `time, value, direction, block size`, and since 3.17 the priority. An offset may precede it,
    /// a maximum may follow the value.
    Values {
        columns: usize,
        has_most: bool,
        has_priority: bool,
    },
    /// `time, direction, block size` and the count of each bin.
    Counts { bins: usize },
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Milliseconds since the start of the job, as a rule.
    pub time: u64,
    /// The mean of an interval, or the value of one operation.
    pub value: u64,
    /// 0 reads, 1 writes, 2 trims.
    pub way: usize,
    /// The bytes of one operation. 0 if the line is an interval.
    pub block: u64,
    /// The counts of a histogram by bin, without zeros.
    pub counts: Vec<(usize, u64)>,
    /// Whether the column after the block size is an offset: the priority is 0, 1 or hexadecimal.
    pub has_offset: bool,
}

impl Layout {
    /// Returns the layout of a log that begins with this line.
    pub fn from_line(line: &[u8]) -> Option<Layout> {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let fields = fields(line)?;
        let is_way = |at: usize| matches!(fields.get(at), Some(Some(0..=2)));
        let columns = fields.len();
        let last = fields.last().copied().flatten();
        let is_hexadecimal = fields.iter().any(Option::is_none);
        // Only the priority is ever hexadecimal.
        if fields[..columns - 1].iter().any(Option::is_none) {
            return None;
        }
        let has_priority = columns > 4 && (is_hexadecimal || columns > 5 || last <= Some(1));
        match columns {
            4..=7 if is_way(2) => Some(Layout::Values {
                columns,
                has_most: false,
                has_priority,
            }),
            6..=8 if is_way(3) => Some(Layout::Values {
                columns,
                has_most: true,
                has_priority: true,
            }),
            20.. if is_way(1) => Some(Layout::Counts { bins: columns - 3 }),
            _ => None,
        }
    }

    /// Returns whether times are nanoseconds: fio prints the priority since a version that has
    /// them. `has_offset` is whether a line of the log [has an offset](Row::has_offset): with five
    /// columns it is in the place of the priority.
    pub fn has_nanoseconds(self, has_offset: bool) -> bool {
        match self {
            Layout::Values {
                columns: 5,
                has_priority,
                ..
            } => has_priority && !has_offset,
            Layout::Values { has_priority, .. } => has_priority,
            Layout::Counts { .. } => true,
        }
    }

    /// Parses a line. Returns `None` if it is not one of this layout.
    pub fn row(self, line: &[u8]) -> Option<Row> {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let fields = fields(line)?;
        let get = |at: usize| fields.get(at).copied().flatten();

        match self {
            Layout::Values {
                columns, has_most, ..
            } if fields.len() == columns => {
                let at = if has_most { 3 } else { 2 };
                let has_offset = get(at + 2) > Some(1);
                let (value, block) = (get(1)?, get(at + 1)?);
                Some(Row {
                    time: get(0)?,
                    value,
                    way: get(at).filter(|way| *way <= 2)? as usize,
                    block,
                    counts: Vec::new(),
                    has_offset,
                })
            }
            Layout::Counts { bins } if fields.len() == bins + 3 => {
                let counts = fields[3..].iter().copied().collect::<Option<Vec<u64>>>()?;
                let counts = counts
                    .into_iter()
                    .enumerate()
                    .filter(|(_, count)| *count > 0)
                    .collect();
                Some(Row {
                    time: get(0)?,
                    value: 0,
                    way: get(1).filter(|way| *way <= 2)? as usize,
                    block: get(2)?,
                    counts,
                    has_offset: false,
                })
            }
            _ => None,
        }
    }
}

/// Parses numbers with commas between them. A hexadecimal number is `None`.
fn fields(line: &[u8]) -> Option<Vec<Option<u64>>> {
    line.trim_ascii()
        .split(|byte| *byte == b',')
        .map(|field| {
            let text = field.trim_ascii();
            if let Some(digits) = text.strip_prefix(b"0x") {
                return digits.iter().all(u8::is_ascii_hexdigit).then_some(None);
            }
            crate::text::whole(text).map(Some)
        })
        .collect()
}

/// Returns the middle of a bin in nanoseconds, as fio computes it; `None` if a line of fio 3.x has
/// another number of bins.
pub(super) fn bin_time(index: usize, bins: usize) -> Option<u64> {
    let merged = (0..=COARSEST)
        .map(|times| 1usize << times)
        .find(|merged| BINS / merged == bins)?;
    let index = index * merged + merged / 2;
    let group = (index >> BITS) as u32;
    if group < 2 {
        return Some(index as u64);
    }
    let shift = group - 1;
    let within = (index & ((1 << BITS) - 1)) as u64;
    Some((1u64 << (shift + BITS)) + (within << shift) + (1u64 << (shift - 1)))
}

/// Returns the middle of the bin that holds a time.
pub(super) fn bin_of(nanoseconds: u64) -> u64 {
    let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(BITS + 1);
    if shift == 0 {
        nanoseconds
    } else {
        (nanoseconds >> shift << shift) + (1 << (shift - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_told_by_their_columns() {
        let values = |columns, has_most, has_priority| {
            Some(Layout::Values {
                columns,
                has_most,
                has_priority,
            })
        };
        for (line, expected) in [
            ("500, 3200, 0, 0, 0", values(5, false, true)),
            ("500, 400, 1, 0, 0, 0x0000", values(6, false, true)),
            ("0, 5268, 1, 4096", values(4, false, false)),
            ("0, 5268, 1, 4096, 8192", values(5, false, false)),
            ("500, 5268, 90210, 1, 0, 0", values(6, true, true)),
            ("500, 3200, 3, 0, 0", None),
            ("500, 3200, 0", None),
            ("500, -1, 0, 0, 0", None),
            ("0x1, 1, 0, 0, 0", None),
            ("a, b, c, d", None),
            ("", None),
        ] {
            assert_eq!(Layout::from_line(line.as_bytes()), expected, "{line}");
        }
        let counts = format!("501, 0, 4096{}", ", 0".repeat(29));
        assert_eq!(
            Layout::from_line(counts.as_bytes()),
            Some(Layout::Counts { bins: 29 })
        );
    }

    #[test]
    fn bins_have_the_times_that_fio_prints_in_its_json() {
        for (index, time) in [
            (0, 0),
            (127, 127),
            (128, 129),
            (191, 255),
            (192, 258),
            (BINS - 1, 17_112_760_320),
        ] {
            assert_eq!(bin_time(index, BINS), Some(time), "{index}");
        }
        assert_eq!((bin_time(0, 1216), bin_time(1, BINS / 2)), (None, Some(3)));
        for index in [0, 100, 128, 500, 1000, BINS - 1] {
            let time = bin_time(index, BINS).unwrap();
            assert_eq!(bin_of(time), time);
        }
    }
}
