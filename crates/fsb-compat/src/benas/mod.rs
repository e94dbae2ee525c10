//! Published differences between file systems in IOzone's operations (Beňas 2011, sections 5.3.2 to
//! 5.3.9).
//!
//! A claim is one item of his lists: the faster file system, the sizes, and the percentages `med`
//! and `reg`. Where he prints one number, it is both. Three readings differ from the letter of the
//! text. The last item of Btrfs/Ext4 is printed as rewriting a second time; at its place in the
//! other lists is rewriting by `fwrite`. In Ext3/XFS the second number of `fread` has no name; it
//! is `reg`. Numbers of "all operations" belong to each of them.

use std::fmt::Write;

use fsb_model::Bytes;

/// The title of the table, and the facts that a reader must know.
pub const TITLE: (&str, &str) = (
    "Beside the published differences (Beňas 2011, section 5.3)",
    "A claim is a case that he found different (t-test, p ≤ 0.1). med is the ratio of the medians of all values, reg the \
     slope of the line through the means of the cells, each minus one: positive if the second file system is faster. \
     The values of this run are those of the same sizes, as far as it measured them; DIFF and SAME are his t-test here. \
     The published disks and kernels (RHEL 5 and 6) are of 2010. In cache he remounted before each operation, reread and \
     freread included.",
);

/// The state of the page cache that a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// The page cache is used; every operation begins remounted.
    InCache,
    /// `O_DIRECT`.
    Direct,
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub regime: Regime,
    /// The first file system of the pair, then the second one.
    pub pair: [FileSystem; 2],
    /// The place of the faster one in the pair.
    pub faster: usize,
    /// The name of our workload.
    pub operation: String,
    pub files: Sizes,
    pub records: Sizes,
    /// Percentages as printed, without a sign for the faster one; empty if none is printed.
    pub med: String,
    pub reg: String,
}

/// A file system with at most one changed parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    pub name: String,
    /// A mount option, or arguments of mkfs: `allocsize=512k`, `-i 16352`.
    pub parameter: Option<String>,
}

/// Sizes that a claim is about: ranges with both ends included. Without a range, all sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes(Vec<(Option<u64>, Option<u64>)>);

impl Sizes {
    /// Parses ranges such as `..256K 4M..` and `64K`. Returns `None` if a size is invalid.
    fn parse(text: &str) -> Option<Sizes> {
        let size = |text: &str| match text {
            "" => Some(None),
            text => text.parse::<Bytes>().ok().map(|bytes| Some(bytes.0)),
        };
        text.split_whitespace()
            .map(|text| {
                let (least, most) = text.split_once("..").unwrap_or((text, text));
                Some((size(least)?, size(most)?))
            })
            .collect::<Option<_>>()
            .map(Sizes)
    }

    /// Returns whether a size is in one of the ranges. An unknown size is in none.
    pub fn contain(&self, size: Option<u64>) -> bool {
        let Some(size) = size else { return false };
        self.0.is_empty()
            || self.0.iter().any(|(least, most)| {
                least.is_none_or(|least| least <= size) && most.is_none_or(|most| size <= most)
            })
    }

    /// Returns the ranges in words: `up to 256K and from 4M`. Returns `None` for all sizes.
    fn words(&self) -> Option<String> {
        let ranges = self.0.iter().map(|range| match *range {
            (Some(least), Some(most)) if least == most => Bytes(least).to_string(),
            (Some(least), Some(most)) => format!("{} to {}", Bytes(least), Bytes(most)),
            (Some(least), None) => format!("from {}", Bytes(least)),
            (None, Some(most)) => format!("up to {}", Bytes(most)),
            (None, None) => "of all sizes".to_owned(),
        });
        (!self.0.is_empty()).then(|| ranges.collect::<Vec<_>>().join(" and "))
    }
}

impl FileSystem {
    /// Returns the file system without a changed parameter.
    pub fn plain(name: &str) -> FileSystem {
        FileSystem {
            name: name.to_owned(),
            parameter: None,
        }
    }

    fn parse(text: &str) -> FileSystem {
        let (name, parameter) = text
            .split_once(' ')
            .map_or((text, None), |(name, rest)| (name, Some(rest)));
        FileSystem {
            name: name.to_owned(),
            parameter: parameter.map(ToOwned::to_owned),
        }
    }

    /// Returns the name with the parameter: `ext4 -i 16352`.
    pub fn label(&self) -> String {
        self.parameter.as_ref().map_or_else(
            || self.name.clone(),
            |parameter| format!("{} {parameter}", self.name),
        )
    }
}

impl Claim {
    /// Returns the operation and the sizes: `write, files from 2M, records from 8K`.
    pub fn test(&self) -> String {
        let mut text = self.operation.clone();
        for (noun, sizes) in [("files", &self.files), ("records", &self.records)] {
            if let Some(words) = sizes.words() {
                // Writing to a string does not fail.
                let _ = write!(text, ", {noun} {words}");
            }
        }
        text
    }

    /// Returns the faster file system and the percentages as printed, with the sign of the change
    /// from the first file system to the second: `xfs faster: +16 % med, +11 % reg`.
    pub fn printed(&self) -> String {
        let mut numbers = Vec::new();
        for (number, name) in [(&self.med, "med"), (&self.reg, "reg")] {
            let digits = number.trim_start_matches('-');
            let sign = if (self.faster == 1) == (digits == number) {
                "+"
            } else {
                "-"
            };
            if !digits.is_empty() {
                numbers.push(format!("{sign}{digits} % {name}"));
            }
        }
        let faster = format!("{} faster", self.pair[self.faster].label());
        if numbers.is_empty() {
            faster
        } else {
            format!("{faster}: {}", numbers.join(", "))
        }
    }
}

/// Returns all claims, in the order of the text.
pub fn published() -> Vec<Claim> {
    let mut reader = csv::Reader::from_reader(include_str!("published.csv").as_bytes());
    reader
        .records()
        .flatten()
        .filter_map(|fields| claim(&fields))
        .collect()
}

fn claim(fields: &csv::StringRecord) -> Option<Claim> {
    let regime = match fields.get(0)? {
        "incache" => Regime::InCache,
        "directio" => Regime::Direct,
        _ => return None,
    };
    let pair = [
        FileSystem::parse(fields.get(1)?),
        FileSystem::parse(fields.get(2)?),
    ];
    let faster = FileSystem::parse(fields.get(3)?);
    Some(Claim {
        regime,
        faster: pair.iter().position(|one| *one == faster)?,
        pair,
        operation: fields.get(4)?.to_owned(),
        files: Sizes::parse(fields.get(5)?)?,
        records: Sizes::parse(fields.get(6)?)?,
        med: fields.get(7)?.to_owned(),
        reg: fields.get(8)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iozone::COLUMNS;

    #[test]
    fn every_line_is_a_claim_about_an_operation_of_iozone() {
        let claims = published();
        assert_eq!(
            claims.len(),
            include_str!("published.csv").lines().count() - 1,
            "all lines but the head"
        );
        for claim in &claims {
            let at = COLUMNS.iter().position(|known| *known == claim.operation);
            let known = if claim.regime == Regime::Direct {
                9
            } else {
                13
            };
            assert!(at.is_some_and(|at| at < known), "{claim:?}");
        }
    }

    /// Numbers as printed, of both directions, of one number for both, of none, and of a range.
    #[test]
    fn claims_have_the_sign_of_the_change_to_the_second_file_system() {
        let claims = published();
        let printed = |regime: Regime, pair: [&str; 2], test: &str| {
            let is_it = |claim: &&Claim| {
                claim.regime == regime
                    && claim.pair.each_ref().map(FileSystem::label) == pair
                    && claim.test() == test
            };
            claims
                .iter()
                .find(is_it)
                .map(Claim::printed)
                .unwrap_or_default()
        };
        let (cached, direct) = (Regime::InCache, Regime::Direct);
        for (regime, pair, test, expected) in [
            (
                cached,
                ["ext4", "xfs"],
                "reread",
                "ext4 faster: -5 % med, -12 % reg",
            ),
            (
                cached,
                ["ext4", "xfs"],
                "write, files from 2M, records from 8K",
                "xfs faster: +16 % med, +11 % reg",
            ),
            (
                cached,
                ["ext4", "xfs"],
                "fread, files 512M to 1G",
                "xfs faster",
            ),
            (
                cached,
                ["ext3", "ext2"],
                "rewrite",
                "ext2 faster: +17 % med, -3 % reg",
            ),
            (
                cached,
                ["ext4", "ext3"],
                "stride-read, files up to 64M and from 2G",
                "ext3 faster: +32 % med, +22 % reg",
            ),
            (
                direct,
                ["btrfs", "xfs"],
                "record-rewrite",
                "xfs faster: +574 % med, +620 % reg",
            ),
            (
                cached,
                ["ext2 -i 8176", "ext2 -i 16352"],
                "stride-read, files 8K to 64K",
                "ext2 -i 16352 faster: +8 to 36 % med",
            ),
        ] {
            assert_eq!(printed(regime, pair, test), expected, "{pair:?} {test}");
        }
    }

    #[test]
    fn ranges_include_their_ends() {
        let sizes = Sizes::parse("..32K 1M..2M 8M").unwrap();
        let inside = [4 << 10, 32 << 10, 1 << 20, 2 << 20, 8 << 20];
        let outside = [64 << 10, 4 << 20, 16 << 20];
        assert!(inside.iter().all(|size| sizes.contain(Some(*size))) && !sizes.contain(None));
        assert!(!outside.iter().any(|size| sizes.contain(Some(*size))));
        assert!(Sizes::parse("").unwrap().contain(Some(1)) && Sizes::parse("..x").is_none());
    }
}
