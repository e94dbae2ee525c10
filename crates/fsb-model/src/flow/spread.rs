//! Sizes that need not be one number.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Bytes;

/// A size, or a distribution of sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// A fixed number of bytes.
    Exact(Bytes),
    /// A gamma distribution with this mean and shape. The scale is mean / shape.
    Gamma {
        /// Mean in bytes.
        mean: Bytes,
        /// Shape, above 0.
        shape: f64,
    },
    /// A uniform distribution of whole numbers from `low` to below `high`.
    Uniform {
        /// The smallest size.
        low: Bytes,
        /// One more than the largest size.
        high: Bytes,
    },
}

impl Spread {
    /// Returns the mean in bytes, rounded down.
    pub fn mean(&self) -> u64 {
        match *self {
            Spread::Exact(size) => size.0,
            Spread::Gamma { mean, .. } => mean.0,
            Spread::Uniform { low, high } => low.0.midpoint(high.0.saturating_sub(1)),
        }
    }

    /// Returns the same distribution around another mean.
    #[must_use]
    pub fn with_mean(&self, to: u64) -> Spread {
        match *self {
            Spread::Exact(_) => Spread::Exact(Bytes(to)),
            Spread::Gamma { shape, .. } => Spread::Gamma { mean: Bytes(to), shape },
            Spread::Uniform { low, high } => {
                let half = (high.0.saturating_sub(low.0) / 2).min(to);
                Spread::Uniform { low: Bytes(to - half), high: Bytes(to.saturating_add(half).saturating_add(1)) }
            }
        }
    }

    /// Returns the reason why the parameters are invalid, or `None` if they are valid.
    pub(super) fn problem(&self) -> Option<String> {
        match *self {
            Spread::Exact(_) => None,
            Spread::Gamma { shape, .. } => {
                (!(shape > 0.0 && shape <= 1e6)).then(|| format!("gamma = {shape} is not above 0 and at most 1000000"))
            }
            Spread::Uniform { low, high } => {
                (low >= high).then(|| format!("low = {low} is not below high = {high}, which is never reached"))
            }
        }
    }
}

/// Entries of a directory: a mean and a distribution. Filebench's default is a gamma distribution of shape 1.5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    /// Mean number of entries.
    pub mean: u64,
    /// Shape of the gamma distribution; 0 if all directories have the mean.
    pub shape: f64,
}

impl Width {
    /// The shape that filebench uses by default.
    pub const SHAPE: f64 = 1.5;
}

/// The default is so wide that one directory holds all files.
impl Default for Width {
    fn default() -> Width {
        Width { mean: 1_000_000, shape: Width::SHAPE }
    }
}

/// The serialized form: a number or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(Bytes),
    Gamma(Gamma),
    Uniform(Uniform),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gamma {
    mean: Bytes,
    gamma: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uniform {
    low: Bytes,
    high: Bytes,
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let why = "a size is \"16K\", { mean = \"16K\", gamma = 1.5 } or { low = 0, high = \"16K\" }";
        match Written::deserialize(deserializer) {
            Ok(Written::Number(size)) => Ok(Spread::Exact(size)),
            Ok(Written::Gamma(Gamma { mean, gamma })) => Ok(Spread::Gamma { mean, shape: gamma }),
            Ok(Written::Uniform(Uniform { low, high })) => Ok(Spread::Uniform { low, high }),
            Err(_) => Err(serde::de::Error::custom(why)),
        }
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Spread::Exact(size) => size.serialize(serializer),
            Spread::Gamma { mean, shape } => Gamma { mean, gamma: shape }.serialize(serializer),
            Spread::Uniform { low, high } => Uniform { low, high }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer) {
            Ok(Written::Number(mean)) => Ok(Width { mean: mean.0, shape: 0.0 }),
            Ok(Written::Gamma(Gamma { mean, gamma })) => Ok(Width { mean: mean.0, shape: gamma }),
            _ => Err(serde::de::Error::custom("a width is 20 or { mean = 20, gamma = 1.5 }")),
        }
    }
}

impl Serialize for Width {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mean = Bytes(self.mean);
        if self.shape == 0.0 {
            mean.serialize(serializer)
        } else {
            Gamma { mean, gamma: self.shape }.serialize(serializer)
        }
    }
}
