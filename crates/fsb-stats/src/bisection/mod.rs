//! Bisection of a continuous metric: since which of many ordered candidates is the work slower?
//!
//! Candidates are numbered from 0, the good end, to n − 1, the bad end. A [`Step`] measures two of
//! them side by side and gives a few log ratios. [`Search::next`] decides from all steps so far
//! what is measured next, or how the search ends. It is a pure function of the steps, so that an
//! interrupted search continues where it was.
//!
//! 1. The ends are compared first. Without a difference of at least θ nothing is bisected.
//! 2. The search compares candidates with the good end. Each time it chooses the candidate from
//!    which it expects the most information about the place of the change (see `posterior`). One
//!    whose speed is between those of both ends shows several changes; the range ends there then.
//! 3. Once one place is likely, its two neighbours are compared directly with fresh pairs. Only
//!    these confirm the answer, so that its error and its interval depend neither on the model of
//!    the search nor on the choice of the place.
//!
//! Analyses are made after the numbers of pairs in [`LOOKS`] alone, and share the error evenly
//! (Bonferroni), so that intervals hold whenever a comparison ends.

mod posterior;
mod step;

use serde::{Deserialize, Serialize};

use self::posterior::{Data, Posterior};
pub use self::step::{Place, Purpose, Step};
use crate::description::{mean_and_sd, t_quantile};
use crate::{Interval, LEVEL};

/// Numbers of pairs after which a comparison is analysed.
pub const LOOKS: [usize; 9] = [5, 8, 12, 18, 27, 40, 60, 90, 135];
/// The probability of one place at which its neighbours are compared directly.
const LIKELY: f64 = 0.8;
/// The probability below which their comparison is given up for a further search.
const UNLIKELY: f64 = 0.4;
/// The largest number of places whose neighbours are compared directly.
const MOST_CONFIRMATIONS: usize = 4;
/// The fewest and the most pairs of a step of the search.
const STEP_PAIRS: [f64; 2] = [2.0, 16.0];
/// A step from which less information is expected, in nats, is not worth its time.
const LEAST_INFORMATION: f64 = 0.01;
/// The number of standard errors by which a candidate must differ from both ends to be between
/// them.
const BETWEEN: f64 = 4.0;
/// The smallest standard deviation of a log ratio that is assumed: simulated clocks have none.
const SMALLEST_SD: f64 = 1e-6;

/// The settings of a bisection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The probability that the answer is wrong.
    pub error: f64,
}

/// A ratio of speeds with its simultaneous 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// Speed of the later candidate / speed of the earlier one.
    pub ratio: f64,
    /// The interval, which holds at all analyses together.
    pub interval: Interval,
    /// The number of pairs.
    pub pairs: usize,
}

impl Ratio {
    fn new(logs: &[f64]) -> Ratio {
        let interval = interval(logs, 1.0 - LEVEL);
        Ratio {
            ratio: libm::exp(mean_and_sd(logs).0),
            interval: Interval {
                lo: libm::exp(interval.lo),
                hi: libm::exp(interval.hi),
            },
            pairs: logs.len(),
        }
    }
}

/// The reason why a search ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Further steps would hardly inform.
    Uninformative,
    /// The neighbours of the likely places do not differ: the change is gradual.
    Unconfirmed,
}

/// The end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum Ending {
    /// The ends differ by less than θ, or no difference was shown.
    EndsAlike { ends: Ratio },
    /// The bad end is faster.
    Reversed { ends: Ratio },
    /// The place of a change, confirmed by fresh pairs.
    Found {
        place: Place,
        /// The ratio of both neighbours, from the confirmation alone.
        change: Ratio,
        ends: Ratio,
        /// Whether the ends differ by significantly more than the neighbours: there are other
        /// changes.
        others: bool,
    },
    /// The change is somewhere in the range.
    Undecided {
        /// The smallest range that holds the change with probability 1 − error, if there is one
        /// change.
        range: Place,
        ends: Ratio,
        reason: Doubt,
    },
}

/// The next step, or the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Measure these two side by side.
    Measure {
        purpose: Purpose,
        earlier: usize,
        later: usize,
        /// The number of pairs.
        pairs: usize,
    },
    End(Ending),
}

/// A bisection under way.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    /// By candidate: the weight of a change in it. That of the good end is not used.
    weights: Vec<f64>,
    /// By candidate: whether it can be measured.
    usable: Vec<bool>,
    steps: Vec<Step>,
}

/// The result of a comparison after its pairs so far.
enum Compared {
    /// The number of further pairs until the next analysis.
    More(usize),
    Slower,
    Faster,
    /// The difference is below θ.
    Alike,
    /// All analyses were made.
    Unknown,
}

impl Search {
    /// Starts a search among the candidates, given the weight of each: how likely a change in it is
    /// before anything is measured. There are at least two candidates.
    pub fn new(weights: Vec<f64>, settings: Settings) -> Search {
        let usable = vec![true; weights.len()];
        Search {
            settings,
            weights,
            usable,
            steps: Vec::new(),
        }
    }

    /// Excludes a candidate that cannot be measured.
    pub fn exclude(&mut self, candidate: usize) {
        self.usable[candidate] = false;
    }

    /// Adds a step that was measured.
    pub fn add(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Returns the steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the next step, or the end.
    pub fn next(&self) -> Next {
        let last = self.weights.len() - 1;
        let ends = self.pairs(Purpose::Ends, (0, last));
        match compared(&ends, self.settings.theta, self.settings.error) {
            Compared::More(pairs) => {
                return Next::Measure {
                    purpose: Purpose::Ends,
                    earlier: 0,
                    later: last,
                    pairs,
                };
            }
            Compared::Faster => {
                return Next::End(Ending::Reversed {
                    ends: Ratio::new(&ends),
                });
            }
            Compared::Alike | Compared::Unknown => {
                return Next::End(Ending::EndsAlike {
                    ends: Ratio::new(&ends),
                });
            }
            Compared::Slower => {}
        }
        let posterior = self.posterior(last);
        self.confirmation(&posterior)
            .unwrap_or_else(|| self.step(&posterior))
    }

    /// Returns the probability of a change in each place: between each candidate that can be
    /// measured and the next one. Empty before the ends were compared.
    pub fn probabilities(&self) -> Vec<(Place, f64)> {
        let last = self.weights.len() - 1;
        match compared(
            &self.pairs(Purpose::Ends, (0, last)),
            self.settings.theta,
            self.settings.error,
        ) {
            Compared::Slower => self.posterior(last).places(&self.usable),
            _ => Vec::new(),
        }
    }

    /// Returns the log ratios of two candidates that were measured for a purpose.
    fn pairs(&self, purpose: Purpose, pair: (usize, usize)) -> Vec<f64> {
        let mut pairs = Vec::new();
        for step in &self.steps {
            if step.purpose == purpose && (step.earlier, step.later) == pair {
                pairs.extend(&step.log_ratios);
            }
        }
        pairs
    }

    /// Returns the posterior over the places up to `last`, or up to the first candidate whose speed
    /// is between those of both ends.
    fn posterior(&self, last: usize) -> Posterior {
        let theta = libm::log1p(self.settings.theta);
        let data = Data::new(&self.steps, theta, SMALLEST_SD);
        let mut last = last;
        while let Some(between) = data.first_between(&self.usable[..last], theta, BETWEEN) {
            last = between;
        }
        Posterior::new(&data, &self.weights[..=last])
    }

    /// Returns the next step of the confirmation of the likeliest place, or the end that it shows.
    /// `None` means that the search has to continue.
    fn confirmation(&self, posterior: &Posterior) -> Option<Next> {
        let (place, probability) = posterior.likeliest(&self.usable);
        let mut tried: Vec<(usize, usize)> = Vec::new();
        for step in &self.steps {
            let pair = (step.earlier, step.later);
            if step.purpose == Purpose::Confirmation && !tried.contains(&pair) {
                tried.push(pair);
            }
        }
        let pair = (place.earlier, place.later);
        let known = tried.iter().position(|known| *known == pair);
        let enough = match known {
            Some(_) => UNLIKELY,
            None => LIKELY,
        };
        if probability < enough {
            return None;
        }
        let attempt = known.unwrap_or(tried.len());
        if attempt >= MOST_CONFIRMATIONS {
            return Some(self.undecided(posterior, Doubt::Unconfirmed));
        }
        let fresh = self.pairs(Purpose::Confirmation, pair);
        // The errors of all attempts add up to less than the whole.
        let error = self.settings.error / f64::from(1 << (attempt + 1));
        Some(match compared(&fresh, 0.0, error) {
            Compared::More(pairs) => Next::Measure {
                purpose: Purpose::Confirmation,
                earlier: place.earlier,
                later: place.later,
                pairs,
            },
            Compared::Slower => Next::End(self.found(place, &fresh)),
            _ => self.undecided(posterior, Doubt::Unconfirmed),
        })
    }

    /// Returns the answer.
    fn found(&self, place: Place, fresh: &[f64]) -> Ending {
        let ends = self.pairs(Purpose::Ends, (0, self.weights.len() - 1));
        let ((change, sd), (all, sd_of_ends)) = (mean_and_sd(fresh), mean_and_sd(&ends));
        let squared_error =
            sd.powi(2) / fresh.len() as f64 + sd_of_ends.powi(2) / ends.len() as f64;
        let degrees = fresh.len().min(ends.len()) as f64 - 1.0;
        let level = 1.0 - self.settings.error;
        Ending::Found {
            place,
            change: Ratio::new(fresh),
            ends: Ratio::new(&ends),
            others: change - all
                > t_quantile(level, degrees) * squared_error.sqrt().max(SMALLEST_SD),
        }
    }

    /// Returns the end without an answer.
    fn undecided(&self, posterior: &Posterior, reason: Doubt) -> Next {
        let last = self.weights.len() - 1;
        let ends = self.pairs(Purpose::Ends, (0, last));
        // In a shortened range there are several changes.
        let range = if posterior.last() < last {
            Place {
                earlier: 0,
                later: last,
            }
        } else {
            posterior.range(&self.usable, self.settings.error)
        };
        Next::End(Ending::Undecided {
            range,
            ends: Ratio::new(&ends),
            reason,
        })
    }

    /// Returns the step of the search that informs most, or the end if none does.
    fn step(&self, posterior: &Posterior) -> Next {
        let pairs = posterior
            .noise_to_signal()
            .powi(2)
            .ceil()
            .clamp(STEP_PAIRS[0], STEP_PAIRS[1]);
        let most = LOOKS[LOOKS.len() - 1];
        let mut best = (None, LEAST_INFORMATION);
        for candidate in 1..posterior.last() {
            if !self.usable[candidate] || posterior.pairs_of(candidate) >= most {
                continue;
            }
            let information = posterior.information(candidate, pairs);
            if information > best.1 {
                best = (Some(candidate), information);
            }
        }
        let Some(candidate) = best.0 else {
            return self.undecided(posterior, Doubt::Uninformative);
        };
        // The shift must be known at least as well as the candidates that are compared with it.
        let last = posterior.last();
        let is_better_known = posterior.pairs_of(candidate) >= posterior.pairs_of(last);
        Next::Measure {
            purpose: Purpose::Search,
            earlier: 0,
            later: if is_better_known { last } else { candidate },
            pairs: pairs as usize,
        }
    }
}

/// Returns the interval of the mean of the log ratios that holds at all analyses together with
/// probability 1 − error.
fn interval(logs: &[f64], error: f64) -> Interval {
    let (mean, sd) = mean_and_sd(logs);
    let pairs = logs.len() as f64;
    let each = 1.0 - error / LOOKS.len() as f64;
    let half = t_quantile(each, pairs - 1.0) * sd.max(SMALLEST_SD) / pairs.sqrt();
    Interval {
        lo: mean - half,
        hi: mean + half,
    }
}

/// Compares two candidates at the first analysis that decides. A difference whose sign is known
/// decides only if it is estimated at θ or more.
fn compared(logs: &[f64], theta: f64, error: f64) -> Compared {
    let theta = libm::log1p(theta);
    for pairs in LOOKS {
        let Some(logs) = logs.get(..pairs) else {
            return Compared::More(pairs - logs.len());
        };
        let Interval { lo, hi } = interval(logs, error);
        let mean = f64::midpoint(lo, hi);
        match () {
            () if hi < 0.0 && mean <= -theta => return Compared::Slower,
            () if lo > 0.0 && mean >= theta => return Compared::Faster,
            () if -theta < lo && hi < theta => return Compared::Alike,
            () => {}
        }
    }
    Compared::Unknown
}
