//! Distributions of random access that visit some items more often than others, with the names of fio's option
//! `random_distribution`. `normal` is a normal distribution; that of fio is a mean of twelve uniform numbers with a uniform
//! offset.
//!
//! A distribution draws ranks. A permutation assigns the ranks to items, so that the most frequent items do not lie
//! side by side; only zones are regions of the file. Each draw is a function of the seed and its own number.

use std::fmt;
use std::str::FromStr;

use rand_distr::{Distribution as _, StandardNormal, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::hash::{mix, unit};
use crate::permutation::Permutation;

/// A distribution, as a plan gives it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Distribution {
    /// The item of rank *k* is drawn in proportion to *k*^−theta (Zipf's law).
    Zipf(f64),
    /// The fraction `h` of the items receives the fraction 1 − `h` of the draws (Pareto's 80/20 rule for 0.2).
    Pareto(f64),
    /// Ranks have a normal distribution around the middle, with this standard deviation in percent of all ranks.
    Normal(f64),
    /// Percent of the draws and percent of the items, from the first item on.
    Zoned(Vec<(f64, f64)>),
}

/// The forms of a distribution, for messages.
pub(crate) const FORMS: &str = "random, zipf:1.1, pareto:0.2, normal:10, or zones such as zoned:80/20:20/80";

/// The largest exponent of Zipf's law. With it, 99.9 % of the draws are of one item.
const STEEPEST: f64 = 10.0;

/// The most zones.
const MOST_ZONES: usize = 256;

/// Percent by which sums of zones may differ from 100, for rounded thirds.
const ROUNDED: f64 = 0.05;

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a distribution: use {FORMS}");
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        if name == "zoned" {
            return zones(value).map(Distribution::Zoned);
        }
        let number: f64 = value.parse().map_err(|_| wrong())?;
        let within = |most: f64| match number > 0.0 && number <= most {
            true => Ok(number),
            false => Err(format!("{name} needs a number above 0 and up to {most}")),
        };
        match name {
            "zipf" => within(STEEPEST).map(Distribution::Zipf),
            "pareto" if number >= 1.0 => Err("pareto needs a number above 0 and below 1".to_owned()),
            "pareto" => within(1.0).map(Distribution::Pareto),
            "normal" => within(100.0).map(Distribution::Normal),
            _ => Err(wrong()),
        }
    }
}

/// Parses `60/10:30/20:10/70`.
fn zones(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let percent = |text: &str| text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let zone = |text: &str| {
        let (draws, items) = text.split_once('/')?;
        Some((percent(draws)?, percent(items).filter(|items| *items > 0.0)?))
    };
    let zones: Option<Vec<_>> = text.split(':').map(zone).collect();
    let zones = zones.filter(|zones| zones.len() <= MOST_ZONES);
    let zones = zones.ok_or("zones are percent of the accesses / percent of the file, such as zoned:80/20:20/80")?;
    let sum = |part: fn(&(f64, f64)) -> f64| zones.iter().map(part).sum::<f64>();
    if (sum(|zone| zone.0) - 100.0).abs() > ROUNDED || (sum(|zone| zone.1) - 100.0).abs() > ROUNDED {
        return Err("the accesses of all zones, and their parts of the file, must each add up to 100".to_owned());
    }
    Ok(zones)
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Zipf(theta) => write!(f, "zipf:{theta}"),
            Distribution::Pareto(h) => write!(f, "pareto:{h}"),
            Distribution::Normal(deviation) => write!(f, "normal:{deviation}"),
            Distribution::Zoned(zones) => {
                f.write_str("zoned")?;
                zones.iter().try_for_each(|(draws, items)| write!(f, ":{draws}/{items}"))
            }
        }
    }
}

/// A distribution over a number of items.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    items: u64,
    ranks: Ranks,
    permutation: Permutation,
}

#[derive(Debug, Clone)]
enum Ranks {
    Zipf(Zipf<f64>),
    /// The exponent that makes a uniform number a fraction of the ranks.
    Pareto(f64),
    /// In ranks.
    Normal {
        mean: f64,
        deviation: f64,
    },
    Zoned(Vec<Zone>),
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    /// The share of draws in this zone and those before it.
    up_to: f64,
    first: u64,
    length: u64,
}

impl Draw {
    /// `seed` decides which items are the most frequent ones.
    pub(crate) fn new(distribution: &Distribution, items: u64, seed: u64) -> Draw {
        let (items, n) = (items.max(1), items.max(1) as f64);
        let ranks = match distribution {
            // The parser checks the exponent: there is such a distribution.
            Distribution::Zipf(theta) => Zipf::new(n, *theta).map_or(Ranks::Pareto(1.0), Ranks::Zipf),
            Distribution::Pareto(h) => Ranks::Pareto(libm::log(*h) / libm::log(1.0 - h)),
            Distribution::Normal(percent) => Ranks::Normal { mean: n / 2.0, deviation: n * percent / 100.0 },
            Distribution::Zoned(parts) => Ranks::Zoned(Zone::all(parts, items)),
        };
        Draw { items, ranks, permutation: Permutation::new(items, seed) }
    }

    /// Returns the item that random bits determine.
    pub(crate) fn item(&self, bits: u64) -> u64 {
        let last = self.items - 1;
        let mut generator = Pcg64Mcg::new(u128::from(bits) << 64 | u128::from(mix(bits)));
        let rank = match &self.ranks {
            Ranks::Zipf(zipf) => (zipf.sample(&mut generator) as u64).saturating_sub(1),
            Ranks::Pareto(exponent) => (libm::pow(unit(bits), *exponent) * self.items as f64) as u64,
            Ranks::Normal { mean, deviation } => loop {
                let sample: f64 = StandardNormal.sample(&mut generator);
                let rank = mean + deviation * sample;
                if rank >= 0.0 && rank < self.items as f64 {
                    break rank as u64;
                }
            },
            Ranks::Zoned(zones) => return Zone::item(zones, bits).min(last),
        };
        self.permutation.at(rank.min(last))
    }
}

impl Zone {
    /// Returns the zones. A zone smaller than half an item gets the item at its start.
    fn all(parts: &[(f64, f64)], items: u64) -> Vec<Zone> {
        let at = |percent: f64| (percent / 100.0 * items as f64).round() as u64;
        let (mut draws, mut percent) = (0.0, 0.0);
        let zone = |&(more_draws, more_percent): &(f64, f64)| {
            let first = at(percent);
            draws += more_draws;
            percent += more_percent;
            Zone { up_to: draws / 100.0, first, length: at(percent).saturating_sub(first).max(1) }
        };
        parts.iter().map(zone).collect()
    }

    fn item(zones: &[Zone], bits: u64) -> u64 {
        let share = unit(bits);
        let zone = zones.iter().find(|zone| share < zone.up_to).or(zones.last());
        zone.map_or(0, |zone| zone.first + (unit(mix(bits)) * zone.length as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Stream, hash};
    use proptest::prelude::*;

    const DRAWS: u64 = 200_000;

    /// Returns how often each item is drawn.
    fn counts(text: &str, items: u64) -> Vec<u64> {
        let draw = Draw::new(&text.parse().unwrap(), items, 7);
        let mut counts = vec![0; items as usize];
        (0..DRAWS).for_each(|number| counts[draw.item(hash(1, Stream::Draw, number)) as usize] += 1);
        counts
    }

    /// Returns the share of draws of the most frequent items, the most frequent first.
    fn shares(text: &str, items: u64) -> Vec<f64> {
        let mut counts = counts(text, items);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.into_iter().map(|count| count as f64 / DRAWS as f64).collect()
    }

    /// Asserts that a share of draws is as expected, within five standard deviations.
    fn close(found: f64, expected: f64, what: &str) {
        let deviation = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
        assert!((found - expected).abs() < 5.0 * deviation, "{what}: {found} instead of {expected}");
    }

    #[test]
    fn the_ranks_of_zipf_follow_its_law() {
        for theta in [0.5, 1.0, 1.1, 2.0] {
            let items = 1000;
            let shares = shares(&format!("zipf:{theta}"), items);
            let weight = |rank: u64| (rank as f64).powf(-theta);
            let all: f64 = (1..=items).map(weight).sum();
            if theta >= 1.0 {
                // Sampling noise cannot exchange the first two ranks.
                close(shares[0], 1.0 / all, &format!("theta {theta}, first rank"));
                close(shares[1], weight(2) / all, &format!("theta {theta}, second rank"));
                let ten: f64 = (1..=10).map(weight).sum();
                close(shares[..10].iter().sum(), ten / all, &format!("theta {theta}, ten ranks"));
            } else {
                // Sorting prefers noise, so that only half of all ranks can be compared.
                let half: f64 = (1..=items / 2).map(weight).sum();
                assert!((shares[..500].iter().sum::<f64>() - half / all).abs() < 0.01, "theta {theta}");
            }
        }
    }

    #[test]
    fn the_pareto_rule_is_kept_at_every_scale() {
        // Of 10,000 items, 20 % receive 80 % of the draws, and 20 % of these receive 80 % of the 80 %.
        let shares = shares("pareto:0.2", 10_000);
        assert!((shares[..2000].iter().sum::<f64>() - 0.8).abs() < 0.01);
        assert!((shares[..400].iter().sum::<f64>() - 0.64).abs() < 0.01);
        assert!((shares[..80].iter().sum::<f64>() - 0.512).abs() < 0.01);
    }

    #[test]
    fn a_normal_distribution_has_its_quantiles() {
        // 68.27 % of the draws are within one standard deviation: 20 % of the items for 10 %. 95.45 % are within two.
        let shares = shares("normal:10", 1000);
        assert!((shares[..200].iter().sum::<f64>() - 0.6827).abs() < 0.01);
        assert!((shares[..400].iter().sum::<f64>() - 0.9545).abs() < 0.01);
    }

    #[test]
    fn zones_are_regions_with_their_shares_of_draws() {
        let counts = counts("zoned:60/10:30/20:8/30:2/40", 1000);
        let share = |from: usize, to: usize| counts[from..to].iter().sum::<u64>() as f64 / DRAWS as f64;
        for ((from, to), expected) in
            [(0, 100), (100, 300), (300, 600), (600, 1000)].into_iter().zip([0.6, 0.3, 0.08, 0.02])
        {
            close(share(from, to), expected, &format!("items {from} to {to}"));
        }
        close(share(0, 50), 0.3, "half of the first zone");
    }

    #[test]
    fn the_most_frequent_items_are_not_side_by_side() {
        let counts = counts("zipf:1.1", 100_000);
        let mut items: Vec<usize> = (0..counts.len()).collect();
        items.sort_unstable_by_key(|item| std::cmp::Reverse(counts[*item]));
        let mut first = items[..50].to_vec();
        first.sort_unstable();
        assert!(first.windows(2).all(|pair| pair[1] - pair[0] > 1), "{first:?}");
    }

    proptest! {
        #[test]
        fn every_draw_is_an_item(
            text in prop::sample::select(vec!["zipf:0.1", "zipf:10", "pareto:0.001", "pareto:0.999", "normal:0.01",
                "normal:100", "zoned:100/100", "zoned:99/1:1/99"]),
            items in 1u64..1 << 40, bits in any::<u64>(),
        ) {
            prop_assert!(Draw::new(&text.parse().unwrap(), items, 3).item(bits) < items);
        }
    }

    #[test]
    fn a_distribution_is_printed_as_it_is_written() {
        for text in ["zipf:1.1", "zipf:1", "pareto:0.2", "normal:10", "zoned:60/10:30/20:8/30:2/40"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn distributions_that_do_not_exist_are_refused() {
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "zipf:inf",
            "zipf:11",
            "pareto:1",
            "pareto:0",
            "normal:101",
            "gamma:1",
            "zoned:",
            "zoned:50/50",
            "zoned:100/0:0/100",
            "zoned:50/50:50",
            "zoned:120/50:-20/50",
        ] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}
