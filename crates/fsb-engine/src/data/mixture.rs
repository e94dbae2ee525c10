//! The shares of the data that compression and deduplication save.

use fsb_model::nearest::unknown;
use serde_json::{Map, Value, json};

/// Shares of the data that compression and deduplication save. By default both are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mixture {
    /// The share of each sector that is a run of one byte, from 0 to 1.
    compressible: f64,
    /// The share of 4 KiB blocks that have the content of another one, from 0 to 1.
    duplicate: f64,
}

impl Mixture {
    /// Parses the value in a plan: `{ compressible = "60%", duplicate = "10%" }`, or a number in per cent.
    pub(crate) fn parse(value: &Value) -> Result<Mixture, String> {
        const KEYS: [&str; 2] = ["compressible", "duplicate"];
        let Value::Object(shares) = value else {
            return Err(format!("{value} is not a table such as {{ compressible = \"60%\", duplicate = \"10%\" }}"));
        };
        if let Some(key) = shares.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(unknown("share", key, KEYS));
        }
        let share = |key: &str| shares.get(key).map_or(Ok(0.0), |value| share(key, value));
        Ok(Mixture { compressible: share("compressible")?, duplicate: share("duplicate")? })
    }

    /// Returns the mixture as a parameter, or `None` for the default.
    pub(crate) fn param(self) -> Option<Value> {
        let mut shares = Map::new();
        for (key, share) in [("compressible", self.compressible), ("duplicate", self.duplicate)] {
            if share > 0.0 {
                shares.insert(key.to_owned(), json!(percent(share)));
            }
        }
        (!shares.is_empty()).then_some(Value::Object(shares))
    }

    /// Returns the text for a cell's label, with a leading comma.
    pub(crate) fn label(self) -> String {
        let mut label = String::new();
        for (share, what) in [(self.compressible, "compressible"), (self.duplicate, "duplicates")] {
            if share > 0.0 {
                label += &format!(", {} {what}", percent(share));
            }
        }
        label
    }

    /// Returns the least share of the data that must reach the device.
    pub(crate) fn least_share(self) -> f64 {
        (1.0 - self.compressible) * (1.0 - self.duplicate)
    }

    /// Returns the random bytes of a sector: at least those that make it unique.
    pub(super) fn random_bytes(self, sector: usize, least: usize) -> usize {
        (((1.0 - self.compressible) * sector as f64).round() as usize).max(least)
    }

    /// Returns the number of duplicates in 2³² blocks.
    pub(super) fn duplicates(self) -> u64 {
        (self.duplicate * (1u64 << 32) as f64) as u64
    }
}

/// Parses a share in per cent, from 0 to 100.
fn share(key: &str, value: &Value) -> Result<f64, String> {
    let number = match value {
        Value::String(text) => text.trim().trim_end_matches('%').trim().parse::<f64>().ok(),
        value => value.as_f64(),
    };
    match number {
        Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err(format!("{key}: {value} is not a share from \"0%\" to \"100%\"")),
    }
}

/// Formats a share. A hundredth of a per cent is less than the granularity of a sector.
fn percent(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        let mixture = Mixture::parse(&json!({"compressible": "60%", "duplicate": 12.5})).unwrap();
        assert_eq!(Mixture::parse(&json!({"compressible": "60", "duplicate": 12.5})).unwrap(), mixture);
        assert_eq!(mixture.param(), Some(json!({"compressible": "60%", "duplicate": "12.5%"})));
        assert_eq!(Mixture::parse(&mixture.param().unwrap()), Ok(mixture));
        assert_eq!(mixture.label(), ", 60% compressible, 12.5% duplicates");
        assert_eq!(Mixture::parse(&json!({"compressible": "0%"})).unwrap().param(), None);
        assert_eq!(Mixture::default().label(), "");
        assert!((mixture.least_share() - 0.35).abs() < 1e-9);
    }

    #[test]
    fn invalid_shares_are_refused() {
        for bad in
            [json!("60%"), json!({"compressible": "101%"}), json!({"duplicate": "-1%"}), json!({"compressible": "x"})]
        {
            Mixture::parse(&bad).unwrap_err();
        }
        let near = Mixture::parse(&json!({"compressable": "60%"})).unwrap_err();
        assert!(near.contains("compressible"), "{near}");
    }
}
