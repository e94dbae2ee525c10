//! Quantities as people type and read them.
//!
//! Everything is stored in base units (bytes, seconds); the suffixes exist only here. Sizes are
//! binary: `4k` is 4096 bytes, as fio and IOzone have it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes. Written as `4096`, `4K`, `1M`, `2GiB`: binary units, in either case. `GB` and
/// its like are refused, because they are decimal to some and binary to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// The error of a text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a size.
    #[error("'{0}' is not a size: write a whole number with K, M, G or T, such as 4K or 2G")]
    Size(String),
    /// The unit can be read as decimal or as binary.
    #[error("'{0}' is ambiguous: write {1} or {1}iB, which are binary")]
    Ambiguous(String, String),
    /// The size does not fit into 64 bits.
    #[error("'{0}' is too large a size")]
    TooLarge(String),
    /// The text is not a duration.
    #[error("'{0}' is not a duration: write a number with ms, s, m or h, such as 90s or 5m")]
    Duration(String),
    /// The text is not a percentage.
    #[error("'{0}' is not a percentage above 0: write a number such as 3%")]
    Percent(String),
}

const LETTERS: [(char, u32); 5] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50)];

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError::Size(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let body = lower.strip_suffix("ib").unwrap_or(&lower);
        let body = match body.strip_suffix('b') {
            Some(decimal) if decimal.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                return Err(UnitError::Ambiguous(
                    text.to_owned(),
                    decimal.to_ascii_uppercase(),
                ));
            }
            Some(bytes) => bytes,
            None => body,
        };
        let (digits, shift) = match body.chars().last().ok_or_else(bad)? {
            letter if letter.is_ascii_alphabetic() => {
                let shift = LETTERS
                    .iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(&letter))
                    .map(|(_, shift)| *shift)
                    .ok_or_else(bad)?;
                (&body[..body.len() - 1], shift)
            }
            _ => (body, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let number: u64 = digits
            .parse()
            .map_err(|_| UnitError::TooLarge(text.to_owned()))?;
        number
            .checked_mul(1 << shift)
            .map(Bytes)
            .ok_or_else(|| UnitError::TooLarge(text.to_owned()))
    }
}

/// The shortest text that parses back to the same number.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = LETTERS
            .iter()
            .rev()
            .find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        match largest {
            Some((letter, shift)) => write!(f, "{}{letter}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(deserializer) {
            Ok(Either::Number(number)) => Ok(Bytes(number)),
            Ok(Either::Text(text)) => text.parse().map_err(serde::de::Error::custom),
            Err(_) => Err(serde::de::Error::custom(
                "a size is a whole number of bytes or a text such as \"4K\"",
            )),
        }
    }
}

/// Reads `250ms`, `90s`, `5m`, `1h` or a plain number of seconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let bad = || UnitError::Duration(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let split = lower
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(split);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = digits.trim_end().parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| bad())
}

/// A length of time in seconds. Written as `250ms`, `10s`, `5m`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}s", self.0))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a time is a number of seconds or a text such as \"250ms\" or \"5m\""
        )]
        enum Either {
            Number(f64),
            Text(String),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Number(number) => number.to_string(),
            Either::Text(text) => text,
        };
        parse_duration(&text)
            .map(|time| Seconds(time.as_secs_f64()))
            .map_err(serde::de::Error::custom)
    }
}

/// Reads `3%` (or `3`) as 0.03.
pub fn parse_percent(text: &str) -> Result<f64, UnitError> {
    let bad = || UnitError::Percent(text.to_owned());
    let digits = text.trim();
    let number: f64 = digits
        .strip_suffix('%')
        .unwrap_or(digits)
        .trim()
        .parse()
        .map_err(|_| bad())?;
    if number.is_finite() && number > 0.0 && number <= 100.0 {
        Ok(number / 100.0)
    } else {
        Err(bad())
    }
}

/// The smallest and the largest scale.
const SCALES: std::ops::RangeInclusive<f64> = 1.0 / 1024.0..=16.0;

/// Reads a factor of sizes: `1/8`, `0.125` or `12.5%`.
pub fn parse_scale(text: &str) -> Result<f64, String> {
    let bad = || format!("scale '{text}': write a fraction such as 1/8, 0.125 or 12.5%");
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| bad());
    let scale = match (text.split_once('/'), text.trim().strip_suffix('%')) {
        (Some((above, below)), None) => number(above)? / number(below)?,
        (None, Some(percent)) => number(percent)? / 100.0,
        (None, None) => number(text)?,
        _ => return Err(bad()),
    };
    if !scale.is_finite() || scale <= 0.0 {
        return Err(bad());
    }
    if !SCALES.contains(&scale) {
        return Err(format!(
            "scale '{text}': give between 1/{:.0} and {}",
            1.0 / SCALES.start(),
            SCALES.end()
        ));
    }
    Ok(scale)
}

/// Returns a share as text that [`parse_percent`] reads back as the same number: `3%`.
pub fn percent_text(share: f64) -> String {
    let percent = share * 100.0;
    // 0.07 × 100 is 7.000000000000001.
    let rounded = (percent * 1e6).round() / 1e6;
    let shown = if rounded / 100.0 == share {
        rounded
    } else {
        percent
    };
    format!("{shown}%")
}

/// Returns a length of time in the largest unit that needs no fraction: `5m`, `90s`.
pub fn short_duration(seconds: f64) -> String {
    for (unit, length) in [("h", 3600.0), ("m", 60.0), ("s", 1.0)] {
        if seconds >= length && seconds % length == 0.0 {
            return format!("{}{unit}", seconds / length);
        }
    }
    format!("{}ms", seconds * 1e3)
}

/// Returns a duration as text: `850 ms`, `4.2 s`, `4 min 31 s`, `2 h 05 min`.
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 59.5 {
        format!("{seconds:.0} s")
    } else if seconds < 3600.0 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let whole = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", whole / 60, whole % 60)
    }
}

/// Three significant digits of a positive or negative number, without an exponent for usual
/// magnitudes.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // The exponent after rounding: 0.9997 has three digits as 1.00, not as 1.000.
    let rounded = format!("{value:.2e}");
    let magnitude: i32 = rounded
        .rsplit('e')
        .next()
        .and_then(|exponent| exponent.parse().ok())
        .unwrap_or(0);
    let decimals = (2 - magnitude).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

/// Returns a byte count as text with a binary unit and three digits: `412 MiB`.
pub fn show_bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Formats a whole number of bytes, as [`show_bytes`] does.
pub fn show_size(bytes: u64) -> String {
    show_bytes(bytes as f64)
}

/// Returns a count as text with a decimal unit and three digits: `61.3 k`.
pub fn show_count(count: f64) -> String {
    scaled(count, 1000.0, &["", "k", "M", "G", "T"])
        .trim_end()
        .to_owned()
}

/// A number of things for people: below a thousand without decimals, like `49`, otherwise like
/// `61.3 k`.
pub fn show_whole(count: u64) -> String {
    if count < 1000 {
        count.to_string()
    } else {
        show_count(count as f64)
    }
}

/// Operations per second for people, decimal, three digits: `852 op/s`, `61.3 kop/s`.
pub fn show_rate(rate: f64) -> String {
    scaled(rate, 1000.0, &["op/s", "kop/s", "Mop/s", "Gop/s", "Top/s"])
}

/// Returns seconds as text: `3.1 µs`, `12.0 ms`, `1.50 s`.
pub fn show_seconds(seconds: f64) -> String {
    let (factor, unit) = match seconds.abs() {
        s if s >= 1.0 || s == 0.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", three_digits(seconds * factor))
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut unit = 0;
    // 999.5 would print as "1000": the next unit is the better one then.
    while scaled.abs() >= base.min(999.5) && unit + 1 < units.len() {
        scaled /= base;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_and_forgiving_about_case() {
        for (text, bytes) in [
            ("4k", 4096),
            ("1M", 1 << 20),
            ("2GiB", 2 << 30),
            ("512", 512),
            ("512b", 512),
            ("3kib", 3072),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["3kb", "2GB", "4Mb"] {
            assert!(
                matches!(text.parse::<Bytes>(), Err(UnitError::Ambiguous(..))),
                "{text}"
            );
        }
        let error = "2GB".parse::<Bytes>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'2GB' is ambiguous: write 2G or 2GiB, which are binary"
        );
        for text in [
            "",
            "k",
            "4q",
            "-1",
            "1.5M",
            "4 k",
            "99999999999999999999",
            "9999999P",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(show_bytes(412.0 * 1048576.0), "412 MiB");
        assert_eq!(show_count(61_300.0), "61.3 k");
        assert_eq!(show_count(999.7), "1.00 k");
        assert_eq!(
            [0, 1, 49, 999, 1000, 61_300].map(show_whole),
            ["0", "1", "49", "999", "1.00 k", "61.3 k"]
        );
        assert_eq!(show_duration(Duration::from_secs(271)), "4 min 31 s");
        assert_eq!(show_seconds(3.14e-6), "3.14 µs");
    }

    #[test]
    fn durations_and_percentages() {
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(parse_duration("five").is_err());
        assert!(parse_duration("-3s").is_err());
        assert_eq!(parse_percent("3%"), Ok(0.03));
        assert!(parse_percent("0").is_err());
        assert!(parse_percent("NaN").is_err());
    }

    proptest! {
        #[test]
        fn a_size_survives_its_own_text(bytes in 0u64..=u64::MAX) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }

        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = text.parse::<Bytes>();
            let _ = parse_duration(&text);
            let _ = parse_percent(&text);
        }
    }

    #[test]
    fn a_scale_is_a_fraction_a_number_or_a_percentage() {
        for (text, scale) in [
            ("1/8", 0.125),
            ("0.125", 0.125),
            ("12.5%", 0.125),
            ("1", 1.0),
            (" 3 / 4 ", 0.75),
        ] {
            assert_eq!(parse_scale(text), Ok(scale), "{text}");
        }
        for text in [
            "", "eighth", "0", "-1", "1/0", "1/8%", "nan", "1/2048", "17",
        ] {
            assert!(parse_scale(text).is_err(), "{text}");
        }
        assert!(
            parse_scale("1/2048")
                .unwrap_err()
                .contains("between 1/1024 and 16")
        );
    }

    #[test]
    fn shares_and_times_read_back_as_they_were() {
        for (share, text) in [(0.03, "3%"), (0.07, "7%"), (0.125, "12.5%")] {
            assert_eq!(percent_text(share), text);
            assert_eq!(parse_percent(text), Ok(share));
        }
        for (seconds, text) in [(300.0, "5m"), (90.0, "90s"), (7200.0, "2h"), (0.05, "50ms")] {
            assert_eq!(short_duration(seconds), text);
        }
    }
}
