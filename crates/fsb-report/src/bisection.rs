//! A bisection as a document with the schema `fsbench/bisect/1`, and its text.

use fsb_stats::bisection::{Doubt, Ending, Place, Ratio, Search, Settings, Step};
use fsb_stats::mean_and_sd;
use serde::{Deserialize, Serialize};

use crate::screen::{WIDTH, paragraph};
use crate::show::{Change, counted, listed_or_counted, minus, percent, percent_above};

/// The schema of the document.
pub const SCHEMA: &str = "fsbench/bisect/1";

/// No two candidates differ by a larger log ratio.
const LARGEST_LOG: f64 = 100.0;
/// No candidate is more suspicious.
const LARGEST_WEIGHT: f64 = 1e6;

/// A bisection: its candidates, what was measured so far, and the answer. Written after each step,
/// so that an interrupted one can be resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bisection {
    /// The name and version of the schema.
    pub schema: String,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The probability that the answer is wrong.
    pub error: f64,
    /// The candidates in their order, the good end first.
    pub candidates: Vec<Candidate>,
    /// The repository whose revisions the candidates are; absent for a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
    /// The plan of each step, as a plan file with one target. `{}` is the candidate.
    pub plan: String,
    /// The steps in the order in which they were measured.
    pub steps: Vec<MeasuredStep>,
    /// The answer, or the reason why there is none; absent while the bisection continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Git {
    /// The path of the repository.
    pub repository: String,
    /// The command that builds a revision in its tree; absent if nothing has to be built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The text that replaces `{}`, or the revision.
    pub name: String,
    /// The subject of the commit; absent for a member of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The weight of a change in it before anything is measured.
    pub weight: f64,
    /// Whether it can be measured.
    pub state: CandidateState,
}

/// The state of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CandidateState {
    /// It was not needed so far.
    Untested,
    /// It was built, or needs no build.
    Ready,
    /// It cannot be measured, for this reason.
    Excluded(String),
}

/// A step with its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredStep {
    /// The name of the run directory, beside this document.
    pub run: String,
    /// The case that was measured.
    pub case: String,
    #[serde(flatten)]
    pub step: Step,
}

impl Candidate {
    /// Returns a candidate that was not needed so far.
    pub fn new(name: impl Into<String>, subject: Option<String>) -> Candidate {
        Candidate {
            name: name.into(),
            subject,
            weight: 1.0,
            state: CandidateState::Untested,
        }
    }

    /// Returns the name, or the first digits of a revision.
    pub fn short(&self) -> &str {
        const DIGITS: usize = 10;
        let is_revision =
            self.name.len() >= 40 && self.name.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_revision {
            &self.name[..DIGITS]
        } else {
            &self.name
        }
    }

    fn reason(&self) -> Option<&str> {
        match &self.state {
            CandidateState::Excluded(reason) => Some(reason),
            CandidateState::Untested | CandidateState::Ready => None,
        }
    }
}

impl Bisection {
    /// Returns the search with all steps so far.
    pub fn search(&self) -> Search {
        let weights = self.candidates.iter().map(|candidate| candidate.weight);
        let settings = Settings {
            theta: self.theta,
            error: self.error,
        };
        let mut search = Search::new(weights.collect(), settings);
        for (at, candidate) in self.candidates.iter().enumerate() {
            if candidate.reason().is_some() {
                search.exclude(at);
            }
        }
        for measured in &self.steps {
            search.add(measured.step.clone());
        }
        search
    }

    /// Checks that the document can be searched: a file may hold anything.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let candidates = self.candidates.len();
        let is_share = |share: f64| share > 0.0 && share < 1.0;
        let is_pair = |earlier: usize, later: usize| earlier < later && later < candidates;
        if self.schema != SCHEMA {
            return Err(format!("not a bisection of this version ({SCHEMA})"));
        }
        if candidates < 2 || !is_share(self.theta) || !is_share(self.error) {
            return Err("candidates, theta or error are missing".to_owned());
        }
        let mut weights = self.candidates.iter().map(|candidate| candidate.weight);
        if !weights.all(|weight| weight > 0.0 && weight < LARGEST_WEIGHT) {
            return Err("the weight of a candidate is not positive".to_owned());
        }
        if let Some(Ending::Found { place, .. } | Ending::Undecided { range: place, .. }) =
            &self.ending
            && !is_pair(place.earlier, place.later)
        {
            return Err("the answer does not name two of the candidates".to_owned());
        }
        for MeasuredStep { run, step, .. } in &self.steps {
            let is_step = is_pair(step.earlier, step.later);
            if !is_step || !step.log_ratios.iter().all(|log| log.abs() < LARGEST_LOG) {
                return Err(format!("{run}: not a step of these candidates"));
            }
        }
        for end in [0, candidates - 1] {
            if let (Some(why), false) = (self.candidates[end].reason(), self.steps.is_empty()) {
                return Err(format!("the end {end} was measured and excluded: {why}"));
            }
        }
        Ok(())
    }

    /// Returns the name of the candidate and the subject of its commit.
    fn describe(&self, at: usize) -> String {
        let candidate = &self.candidates[at];
        match &candidate.subject {
            Some(subject) => format!("{} ({subject})", candidate.short()),
            None => candidate.short().to_owned(),
        }
    }

    /// Returns the line after a step: its ratio, and the likeliest place so far.
    pub fn standing(&self) -> Option<String> {
        let MeasuredStep { run, step, .. } = self.steps.last()?;
        let mut logs = Vec::new();
        for measured in &self.steps {
            let other = &measured.step;
            if (other.earlier, other.later) == (step.earlier, step.later) {
                logs.extend(&other.log_ratios);
            }
        }
        let change = match logs.len() {
            0 => "no value".to_owned(),
            pairs => {
                let (mean, sd) = mean_and_sd(&logs);
                let speed = minus(&Change::between(libm::exp(mean), None).text());
                if pairs == 1 {
                    format!("speed {speed}")
                } else {
                    // Pairs were added as long as they informed, so an interval would be too
                    // narrow.
                    let error = sd / (pairs as f64).sqrt();
                    format!("speed {speed} (standard error {})", percent(error))
                }
            }
        };
        let [earlier, later] = [step.earlier, step.later].map(|at| self.candidates[at].short());
        let mut text = format!(
            "{run}: {later} against {earlier}: {change} in {}",
            counted(logs.len(), "pair"),
        );
        let mut likeliest: Option<(Place, f64)> = None;
        for (place, probability) in self.search().probabilities() {
            if likeliest.is_none_or(|(_, best)| probability > best) {
                likeliest = Some((place, probability));
            }
        }
        if let Some((place, probability)) = likeliest {
            let [earlier, later] =
                [place.earlier, place.later].map(|at| self.candidates[at].short());
            // The confirmation decides, not the posterior.
            let probability = match probability {
                high if high > 0.99 => "over 99 %".to_owned(),
                low => percent((low * 100.0).round() / 100.0),
            };
            text += &format!("; likeliest between {earlier} and {later} ({probability})");
        }
        Some(text)
    }

    /// Returns the text of the answer, or of what is known so far, in `width` columns.
    pub fn screen(&self, width: usize) -> String {
        let width = width.max(WIDTH);
        let mut lines = Vec::new();
        match &self.ending {
            Some(ending) => {
                for text in self.answer(ending) {
                    paragraph(&mut lines, width, &text, "", "  ");
                }
            }
            None => {
                let text = match self.standing() {
                    Some(standing) => format!("unfinished: {standing}"),
                    None => "unfinished: nothing was measured".to_owned(),
                };
                paragraph(&mut lines, width, &text, "", "  ");
            }
        }
        for text in self.facts() {
            paragraph(&mut lines, width, &text, "", "  ");
        }
        lines.join("\n") + "\n"
    }

    /// Returns the sentences of the answer.
    fn answer(&self, ending: &Ending) -> Vec<String> {
        match ending {
            Ending::Found {
                place,
                change,
                ends,
                others,
            } => self.found(*place, *change, *ends, *others),
            Ending::EndsAlike { ends } => {
                let most = (1.0 - ends.interval.lo).max(0.0);
                let found = match ends.interval.hi < 1.0 {
                    true => "The difference between the ends is too small to bisect",
                    false => "No difference between the ends was shown: nothing to bisect",
                };
                vec![
                    format!(
                        "{found}. Speed of {} against {}: {}.",
                        self.describe(self.candidates.len() - 1),
                        self.describe(0),
                        text_of(*ends)
                    ),
                    format!(
                        "The bad end is slower by at most {}; differences below {} do not count (--theta).",
                        percent_above(most),
                        percent(self.theta)
                    ),
                ]
            }
            Ending::Reversed { ends } => vec![
                format!(
                    "The bad end is faster than the good one: speed {}.",
                    text_of(*ends)
                ),
                "To find since when it is faster, exchange --good and --bad, or reverse the list."
                    .to_owned(),
            ],
            Ending::Undecided {
                range,
                ends,
                reason,
            } => self.undecided(*range, *ends, *reason),
        }
    }

    fn found(&self, place: Place, change: Ratio, ends: Ratio, others: bool) -> Vec<String> {
        let case = match self.steps.first() {
            Some(step) => step.case.as_str(),
            None => "",
        };
        let mut texts = vec![format!(
            "Slower between {} and {}: speed {} at {case}, error ≤ {}",
            self.describe(place.earlier),
            self.describe(place.later),
            text_of(change),
            percent(self.error)
        )];
        let mut between = Vec::new();
        for candidate in &self.candidates[place.earlier + 1..place.later] {
            between.push(candidate.short());
        }
        if !between.is_empty() {
            texts.push(format!(
                "Between them, {} cannot be measured.",
                listed_or_counted(&between, "candidate")
            ));
        }
        texts.push(format!("Between the ends: speed {}.", text_of(ends)));
        if others {
            texts.push(format!(
                "That is significantly more, so there are other changes. Bisect {} to {} and {} to {} for them.",
                self.candidates[0].short(),
                self.candidates[place.earlier].short(),
                self.candidates[place.later].short(),
                self.candidates[self.candidates.len() - 1].short()
            ));
        }
        texts
    }

    fn undecided(&self, range: Place, ends: Ratio, reason: Doubt) -> Vec<String> {
        let why = match reason {
            Doubt::Uninformative => {
                "Further pairs would hardly inform: differences of single builds, or several changes, hide the place."
            }
            Doubt::Unconfirmed => {
                "The neighbours of the likeliest place do not differ by as much: the change is gradual, or there are several."
            }
        };
        vec![
            format!(
                "Cannot tell since when it is slower. Between the ends: speed {}. If there is one change, it is between {} and {}.",
                text_of(ends),
                self.describe(range.earlier),
                self.describe(range.later)
            ),
            why.to_owned(),
        ]
    }

    /// Returns the numbers of candidates and pairs, and the reasons of those that cannot be
    /// measured.
    fn facts(&self) -> Vec<String> {
        const SHOWN: usize = 5;
        let (mut measured, mut pairs) = (std::collections::BTreeSet::new(), 0);
        for MeasuredStep { step, .. } in &self.steps {
            measured.extend([step.earlier, step.later]);
            pairs += step.log_ratios.len();
        }
        let mut texts = vec![format!(
            "{} of {} measured in {}, {}",
            measured.len(),
            counted(self.candidates.len(), "candidate"),
            counted(self.steps.len(), "step"),
            counted(pairs, "pair")
        )];
        let mut reasons = Vec::new();
        for candidate in &self.candidates {
            if let Some(reason) = candidate.reason() {
                reasons.push(format!(
                    "{} cannot be measured: {reason}",
                    candidate.short()
                ));
            }
        }
        let more = reasons.len().saturating_sub(SHOWN);
        texts.extend(reasons.into_iter().take(SHOWN));
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        texts
    }
}

/// Returns text such as `−14 % [−17, −11] in 27 pairs`.
fn text_of(ratio: Ratio) -> String {
    let change = Change::between(ratio.ratio, Some(ratio.interval));
    let interval = change.interval.as_ref();
    let interval = interval.map_or_else(String::new, |interval| interval.with_comma());
    minus(&format!(
        "{} {interval} in {}",
        change.center,
        counted(ratio.pairs, "pair")
    ))
}

#[cfg(test)]
mod tests {
    use fsb_stats::Interval;
    use fsb_stats::bisection::Purpose;

    use super::*;

    const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

    fn ratio(ratio: f64) -> Ratio {
        Ratio {
            ratio,
            interval: Interval {
                lo: ratio - 0.03,
                hi: ratio + 0.03,
            },
            pairs: 27,
        }
    }

    fn bisection(ending: Option<Ending>) -> Bisection {
        let mut candidates = vec![Candidate::new(REVISION, Some("Add a cache".to_owned()))];
        candidates.extend(["b", "c", "d", "e"].map(|name| Candidate::new(name, None)));
        candidates[2].state = CandidateState::Excluded("its build ended with 2".to_owned());
        let step = Step {
            purpose: Purpose::Ends,
            earlier: 0,
            later: 4,
            log_ratios: vec![-0.1, -0.12],
        };
        Bisection {
            schema: SCHEMA.to_owned(),
            theta: 0.03,
            error: 0.01,
            candidates,
            git: None,
            plan: String::new(),
            steps: vec![MeasuredStep {
                run: "step-001".to_owned(),
                case: "create".to_owned(),
                step,
            }],
            ending,
        }
    }

    #[test]
    fn an_answer_names_the_place_the_gap_and_other_changes() {
        let found = Ending::Found {
            place: Place {
                earlier: 1,
                later: 3,
            },
            change: ratio(0.86),
            ends: ratio(0.75),
            others: true,
        };
        let text = bisection(Some(found)).screen(200);
        for expected in [
            "Slower between b and d: speed −14 % [−17, −11] in 27 pairs at create, error ≤ 1 %",
            "Between them, c cannot be measured.",
            "there are other changes. Bisect 0123456789 to b and d to e for them.",
            "2 of 5 candidates measured in 1 step, 2 pairs",
            "c cannot be measured: its build ended with 2",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn an_unfinished_bisection_and_ends_without_a_difference_say_so() {
        let text = bisection(None).screen(200);
        assert!(
            text.starts_with("unfinished: step-001: e against 0123456789: speed −10 % (standard error 1 %) in 2 pairs"),
            "{text}"
        );
        let alike = Ending::EndsAlike { ends: ratio(0.99) };
        let text = bisection(Some(alike)).screen(200);
        assert!(
            text.contains("Speed of e against 0123456789 (Add a cache): −1 % [−4, +2] in 27 pairs")
                && text.contains("slower by at most 4 %"),
            "{text}"
        );
    }

    #[test]
    fn documents_that_cannot_be_searched_are_refused() {
        let good = bisection(None);
        assert_eq!(good.check(), Ok(()));
        let broken = |change: fn(&mut Bisection)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.check().is_err()
        };
        assert!(broken(|bad| bad.schema = "fsbench/run/1".to_owned()));
        assert!(broken(|bad| bad.candidates.truncate(1)));
        assert!(broken(|bad| bad.steps[0].step.later = 5));
        assert!(broken(|bad| bad.steps[0].step.log_ratios[0] = f64::NAN));
        assert!(broken(|bad| bad.candidates[1].weight = 0.0));
        assert!(broken(
            |bad| bad.candidates[4].state = CandidateState::Excluded(String::new())
        ));
        let outside = Ending::Undecided {
            range: Place {
                earlier: 2,
                later: 9,
            },
            ends: ratio(0.9),
            reason: Doubt::Unconfirmed,
        };
        assert!(bisection(Some(outside)).check().is_err());
    }
}
