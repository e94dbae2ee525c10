//! Numbers as tools print them.

use std::ops::RangeInclusive;

/// Parses a whole number: digits only, at most 2⁶⁴−1.
pub(crate) fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A number with a fraction, and whether a comma precedes the fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decimal {
    pub value: f64,
    /// Whether it was written with the decimal comma of a locale.
    pub comma: bool,
}

/// Parses a number that its tool always prints with a fixed number of digits after the point. That makes a comma there
/// certain: a separator of thousands would leave the number without its fraction.
pub(crate) fn fixed(text: &str, places: RangeInclusive<usize>) -> Option<Decimal> {
    let at = text.find(['.', ','])?;
    let (before, after) = (&text[..at], &text[at + 1..]);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(before) || !digits(after) || !places.contains(&after.len()) {
        return None;
    }
    let comma = text.as_bytes()[at] == b',';
    let value = if comma { text.replace(',', ".").parse() } else { text.parse() }.ok()?;
    Some(Decimal { value, comma })
}

/// Splits a text into its leading number and the rest.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Parses a size with a binary unit: `262144 bytes`, `16MiB`, `1.50 GiB`. Returns `None` for a size below one byte.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let shifts = [("bytes", 0), ("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (_, shift) = shifts.into_iter().find(|(known, _)| *known == unit)?;
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes >= 1.0 && bytes < 2f64.powi(63)).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_digits_that_fit() {
        assert_eq!(whole(b"64000000"), Some(64_000_000));
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "1.5", "18446744073709551616", "1e3"] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_comma_is_read_only_where_it_can_be_nothing_else() {
        assert_eq!(fixed("4263913.00", 2..=2), Some(Decimal { value: 4_263_913.0, comma: false }));
        assert_eq!(fixed("157,24", 2..=2), Some(Decimal { value: 157.24, comma: true }));
        for text in ["157,245", "1,234.56", "157", ".50", "1.5e3", "nan", "-1.00"] {
            assert_eq!(fixed(text, 2..=2), None, "{text}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("262144 bytes"), Some(262_144));
        assert_eq!(size("16MiB"), Some(16 << 20));
        assert_eq!(size("1.50 GiB"), Some(3 << 29));
        for text in ["", "16", "16MB", "MiB", "0B", "99999999999 TiB", "1.2.3MiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
