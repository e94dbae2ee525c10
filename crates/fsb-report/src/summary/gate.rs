//! The gate of a run: whether a target needs more time, or more of a cost, than the baseline.
//!
//! It has the rule of all gates. It fails if a case is shown to be worse by more than the
//! threshold, after the correction for all cases. It passes only if the interval of every case
//! excludes that. Otherwise it cannot tell. Passing needs every case, so its error is that of one
//! case.

use std::str::FromStr;

use fsb_model::units::{parse_percent, percent_text};
use fsb_model::{Better, RunRecord, nearest};
use fsb_stats::{Comparison, LEVEL, Verdict, blocks_to_scale};

use super::advice::rough;
use super::costs::{GATED, compare_metric};
use super::model::{BoundState, Numbers};
use crate::show::{counted, percent, percent_above, some_of};

/// A message names at most this number of cases.
const NAMED: usize = 3;

/// A gate as it is written: `new slower than old by 3 %`, `new more bytes than old by 5 %`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The target that may not be worse; `None` for all but the baseline.
    pub target: Option<String>,
    /// The word of a metric; `None` for the time, or the rate, that targets are compared by.
    pub metric: Option<&'static str>,
    /// The baseline; `None` for that of the run.
    pub than: Option<String>,
    /// The difference that fails; `None` for θ of the run.
    pub by: Option<f64>,
}

/// The forms of a gate, for messages.
const FORMS: &str =
    "write '[NAME] slower [than NAME] [by P%]' or '[NAME] more METRIC [than NAME] [by P%]'";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        let (rest, by) = match text.rsplit_once(" by ") {
            None => (text, None),
            Some((rest, by)) => (
                rest,
                Some(parse_percent(by).map_err(|error| error.to_string())?),
            ),
        };
        let (rest, than) = match rest.split_once(" than ") {
            None => (rest, None),
            Some((rest, than)) => (rest, Some(than.trim().to_owned())),
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (name, metric) = match words.as_slice() {
            [name @ .., "slower"] => (name, None),
            [name @ .., "more", metric] => (name, Some(metric_of(metric)?)),
            _ => return Err(FORMS.to_owned()),
        };
        let target = (!name.is_empty()).then(|| name.join(" "));
        Ok(Gate {
            target,
            metric,
            than,
            by,
        })
    }
}

fn metric_of(word: &str) -> Result<&'static str, String> {
    let known = GATED.iter().map(|(word, _)| *word);
    let lower = word.to_ascii_lowercase();
    match known.clone().find(|known| *known == lower) {
        Some(found) => Ok(found),
        None => Err(nearest::unknown("metric", word, known)),
    }
}

impl Gate {
    /// Checks that the targets exist, and that the baseline is the first of them.
    ///
    /// # Errors
    ///
    /// The reason why these targets cannot be judged.
    pub fn check(&self, targets: &[&str]) -> Result<(), String> {
        for name in [&self.target, &self.than].into_iter().flatten() {
            if !targets.contains(&name.as_str()) {
                let known = targets.iter().copied();
                return Err(nearest::unknown("target", name, known));
            }
        }
        let Some(first) = targets.first().filter(|_| targets.len() > 1) else {
            return Err("a gate compares targets, and there is one".to_owned());
        };
        match &self.than {
            Some(than) if than != first => Err(format!(
                "targets are compared with the first one, {first}: name {than} first"
            )),
            _ if self.target.as_deref() == Some(first) => {
                Err(format!("{first} is the baseline: name another target"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the answer of a run.
    pub fn answer(&self, numbers: &Numbers, record: &RunRecord) -> GateAnswer {
        let mut rows = Vec::new();
        let metric = GATED.iter().find(|(word, _)| Some(*word) == self.metric);
        let of_metric = match metric {
            Some((_, name)) => compare_metric(&numbers.cases, record, name),
            None => Vec::new(),
        };
        for (place, case) in numbers.cases.iter().enumerate() {
            for (at, target) in numbers.targets.iter().enumerate() {
                let is_meant = self.target.as_ref().is_none_or(|name| *name == target.name);
                if at == numbers.baseline || !is_meant {
                    continue;
                }
                let cell = &case.cells[at];
                let is_whole = cell.lost.is_empty() && case.withheld.is_none();
                let (compared, better) = match metric {
                    None => (cell.against.as_ref(), case.better),
                    Some(_) => (find(&of_metric, (place, at)), Better::Lower),
                };
                let compared = compared.filter(|_| is_whole && numbers.unjudged.is_none());
                rows.push(GateRow {
                    case: case.workload.clone(),
                    target: target.label(),
                    state: state_of(compared, better, numbers),
                });
            }
        }
        let left_out = numbers.left_out.clone();
        GateAnswer {
            theta: numbers.theta,
            rows,
            left_out,
        }
    }
}

fn find(all: &[((usize, usize), Comparison)], place: (usize, usize)) -> Option<&Comparison> {
    let found = all.iter().find(|(own, _)| *own == place);
    found.map(|(_, comparison)| comparison)
}

/// The answer of a case about a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowState {
    /// It is worse by at least the first amount, at most by the second.
    Worse(f64, f64),
    /// It is worse by at most this amount, which is below the threshold.
    UpTo(f64),
    /// It may be worse by this amount. The seconds after which that is probably decided are absent
    /// if none are known to be enough.
    Open(f64, Option<f64>),
    /// It is not compared.
    NotJudged,
}

/// A case of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRow {
    /// The label of the case.
    pub case: String,
    /// The label of the target.
    pub target: String,
    /// The answer.
    pub state: RowState,
}

/// Returns what a comparison says. Amounts are shares of the baseline: 0.05 for 5 % more time.
fn state_of(compared: Option<&Comparison>, better: Better, numbers: &Numbers) -> RowState {
    let judged = compared.filter(|comparison| comparison.verdict != Verdict::NotJudged);
    let Some((comparison, interval)) =
        judged.and_then(|comparison| Some((comparison, comparison.interval?)))
    else {
        return RowState::NotJudged;
    };
    let (least, most) = match better {
        Better::Lower => (interval.lo, interval.hi),
        Better::Higher => (1.0 / interval.hi, 1.0 / interval.lo),
    };
    let limit = 1.0 + numbers.theta;
    // Among equal values, the end of an interval may be beyond θ by a rounding error.
    if most <= limit * (1.0 + 1e-9) {
        return RowState::UpTo((most - 1.0).max(0.0));
    }
    if comparison.verdict == Verdict::Slower {
        return RowState::Worse(least - 1.0, most - 1.0);
    }
    let half_width = (most / least).ln() / 2.0;
    let distance = (limit / (least * most).sqrt()).ln().abs();
    let level = comparison.nominal_level.unwrap_or(LEVEL);
    let blocks = blocks_to_scale(comparison.n, level, LEVEL, distance / half_width);
    let seconds = blocks.and_then(|blocks| {
        let further = blocks.saturating_sub(comparison.n as u32).max(1);
        Some(f64::from(further) * numbers.per_block?)
    });
    RowState::Open(most - 1.0, seconds)
}

/// The answer of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateAnswer {
    /// The threshold, 0.03 for 3 %.
    pub theta: f64,
    /// Every compared case of every target.
    pub rows: Vec<GateRow>,
    /// Labels of the cases that were not measured.
    pub left_out: Vec<String>,
}

impl GateAnswer {
    /// Returns whether it passed, failed, or cannot tell.
    pub fn state(&self) -> BoundState {
        let is_worse = |row: &GateRow| matches!(row.state, RowState::Worse(..));
        let is_kept = |row: &GateRow| matches!(row.state, RowState::UpTo(_));
        if self.rows.iter().any(is_worse) {
            return BoundState::Fail;
        }
        let all_kept = self.rows.iter().all(is_kept) && self.left_out.is_empty();
        match all_kept && !self.rows.is_empty() {
            true => BoundState::Pass,
            false => BoundState::CannotTell,
        }
    }

    /// Returns the largest amount that an interval leaves possible; `None` if none is judged.
    pub fn largest(&self) -> Option<f64> {
        let mut largest: Option<f64> = None;
        for row in &self.rows {
            if let RowState::UpTo(amount) | RowState::Worse(_, amount) | RowState::Open(amount, _) =
                row.state
            {
                largest = Some(largest.map_or(amount, |found| found.max(amount)));
            }
        }
        largest
    }

    /// Returns the answer in a sentence.
    pub fn sentence(&self) -> String {
        let theta = percent_text(self.theta);
        let (mut worse, mut open, mut silent) = (Vec::new(), Vec::new(), self.left_out.clone());
        let mut longest: Option<f64> = Some(0.0);
        for GateRow {
            case,
            target,
            state,
        } in &self.rows
        {
            match state {
                RowState::Worse(least, most) => worse.push(format!(
                    "{target} at {case} by {} to {}",
                    percent(*least),
                    percent(*most)
                )),
                RowState::Open(most, seconds) => {
                    open.push(format!(
                        "{target} at {case} by up to {}",
                        percent_above(*most)
                    ));
                    longest = longest.and_then(|longest| Some(longest.max((*seconds)?)));
                }
                RowState::NotJudged => silent.push(format!("{target} at {case}")),
                RowState::UpTo(_) => {}
            }
        }
        let mut parts = Vec::new();
        match self.state() {
            BoundState::Fail => parts.push(format!("failed: {}", some_of(&worse, NAMED))),
            BoundState::Pass => {
                return format!(
                    "passed: {} more than {}, and the threshold is {theta}",
                    excluding(self.rows.len()),
                    percent_above(self.largest().unwrap_or_default())
                );
            }
            BoundState::CannotTell => parts.push("cannot tell".to_owned()),
        }
        if !open.is_empty() {
            let more = match longest {
                Some(seconds) if seconds > 0.0 => {
                    format!("; about {} more are needed", rough(seconds))
                }
                _ => String::new(),
            };
            parts.push(format!(
                "not excluded beyond {theta}: {}{more}",
                some_of(&open, NAMED)
            ));
        }
        if !silent.is_empty() {
            parts.push(format!("not judged: {}", some_of(&silent, NAMED)));
        }
        parts.join("; ")
    }
}

fn excluding(comparisons: usize) -> String {
    let verb = if comparisons == 1 {
        "excludes"
    } else {
        "exclude"
    };
    format!("{} {verb}", counted(comparisons, "comparison"))
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::OPERATION_RATE;
    use fsb_model::trial::Outcome;

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    const CASE: &str = "rename 4K files";

    #[test]
    fn gates_are_read_as_they_are_written() {
        let all: Gate = "new slower than old by 3 %".parse().unwrap();
        assert_eq!(
            (
                all.target.as_deref(),
                all.metric,
                all.than.as_deref(),
                all.by
            ),
            (Some("new"), None, Some("old"), Some(0.03))
        );
        let short: Gate = "slower".parse().unwrap();
        assert_eq!((short.target, short.than, short.by), (None, None, None));
        let cost: Gate = "my new one more Flushes than old".parse().unwrap();
        assert_eq!(
            (cost.target.as_deref(), cost.metric),
            (Some("my new one"), Some("flushes"))
        );
        for (wrong, word) in [
            ("", "write '"),
            ("new faster", "write '"),
            ("new more bites than old", "did you mean 'bytes'"),
            ("new slower by much", "much"),
        ] {
            let error = wrong.parse::<Gate>().unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_gate_names_targets_of_the_run_and_its_baseline() {
        let check = |text: &str| text.parse::<Gate>().unwrap().check(&["old", "new"]);
        assert_eq!(check("new slower than old"), Ok(()));
        assert_eq!(check("slower"), Ok(()));
        for (wrong, word) in [
            ("nwe slower", "did you mean 'new'"),
            ("old slower than new", "name new first"),
            ("old slower", "is the baseline"),
        ] {
            let error = check(wrong).unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
        let alone = "slower".parse::<Gate>().unwrap().check(&["old"]);
        assert!(alone.unwrap_err().contains("there is one"));
    }

    /// Answers about ext4 against xfs with the given speed of xfs in percent of ext4's.
    fn answered(text: &str, speed: f64, scatter: f64) -> GateAnswer {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 9);
        record.plan.theta = 0.03;
        record.cells.retain(|cell| cell.label == CASE);
        trials.retain(|trial| trial.workload == CASE && trial.outcome == Outcome::Ok);
        for trial in &mut trials {
            let swing = 1.0 + scatter * (f64::from(trial.block % 3) - 1.0);
            let value = if trial.target == "xfs" {
                speed * swing
            } else {
                100.0
            };
            trial.metrics = vec![OPERATION_RATE.metric(value)];
        }
        let summary = Summary::of_run(&record, &trials);
        let gate: Gate = text.parse().unwrap();
        gate.answer(&summary.numbers, &record)
    }

    #[test]
    fn it_passes_fails_or_cannot_tell() {
        let passed = answered("xfs slower than ext4", 99.9, 0.001);
        assert_eq!(passed.state(), BoundState::Pass, "{}", passed.sentence());
        assert!(passed.sentence().starts_with("passed: 1 comparison"));
        let failed = answered("slower", 90.0, 0.001);
        assert_eq!(failed.state(), BoundState::Fail, "{}", failed.sentence());
        assert!(failed.sentence().starts_with("failed: xfs at rename"));
        let open = answered("slower", 98.0, 0.05);
        assert_eq!(open.state(), BoundState::CannotTell, "{}", open.sentence());
        assert!(open.sentence().contains("by up to"), "{}", open.sentence());
        let silent = answered("more flushes", 98.0, 0.05);
        assert_eq!(silent.state(), BoundState::CannotTell);
        assert!(silent.sentence().contains("not judged: xfs at rename"));
    }
}
