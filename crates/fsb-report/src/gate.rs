//! The gate of a run: whether a target needs more time, or more of a cost, than the baseline.
//!
//! It has the rule of all gates. It fails if a case is shown to be worse by more than the
//! threshold, after the correction for all cases. It passes only if the interval of every case
//! excludes that. Otherwise it cannot tell. Passing needs every case, so its error is that of one
//! case.

use std::collections::BTreeMap;
use std::str::FromStr;

use fsb_model::units::parse_percent;
use fsb_model::{Better, RunRecord, nearest};
use fsb_stats::{Comparison, LEVEL, blocks_to_scale};

use crate::check::{self, Check, CheckOutcome};
use crate::show::{counted, percent, percent_above, some_of};
use crate::summary::costs::{ComparedCost, GATED, compare_metric};
use crate::summary::{BoundState, MeasuredCell, Summary, Workload, rough};

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

    /// Returns the answer of a run, one check for each case of each target that is meant.
    pub fn answer(&self, summary: &Summary, record: &RunRecord) -> GateAnswer {
        let is_meant = |name: &str| self.target.as_deref().is_none_or(|target| target == name);
        let metric = GATED.iter().find(|(word, _)| Some(*word) == self.metric);
        let found = match metric {
            Some((_, name)) => compare_metric(&summary.cases, record, name),
            None => BTreeMap::new(),
        };
        let (mut checks, mut seconds) = (Vec::new(), Some(0.0));
        for (place, case) in summary.cases.iter().enumerate() {
            for (at, target) in summary.targets.iter().enumerate() {
                if at == summary.baseline || !is_meant(&target.name) {
                    continue;
                }
                let cell = &case.cells[at];
                let (check, compared, better) = match metric {
                    None => (
                        check::of_cell(summary, case, target, cell),
                        cell.against.as_ref(),
                        case.better,
                    ),
                    Some((word, _)) => {
                        let compared = found
                            .get(&(place, at))
                            .filter(|_| is_judged(summary, case, cell));
                        let name = format!("{word} of {}", case.workload);
                        let names = [&name, &target.label(), &summary.baseline_name()];
                        let names = names.map(String::as_str);
                        let check = check::of_cost(names, compared, summary.theta);
                        let ratio = match compared {
                            Some(ComparedCost::Ratio(found)) => Some(found),
                            _ => None,
                        };
                        (check, ratio, Better::Lower)
                    }
                };
                if check.outcome == CheckOutcome::CannotTell {
                    let missing = compared.and_then(|found| missing_time(found, better, summary));
                    seconds = seconds.and_then(|known: f64| Some(known.max(missing?)));
                }
                checks.push(check);
            }
        }
        for label in &summary.left_out {
            checks.push(check::missing_check(
                label,
                "the run",
                "",
                "the budget left it out",
            ));
        }
        GateAnswer {
            theta: summary.theta,
            checks,
            seconds: seconds.filter(|seconds| *seconds > 0.0),
        }
    }
}

/// Returns whether a cost may be judged: as for the time of the case, no trial may be lost.
fn is_judged(summary: &Summary, case: &Workload, cell: &MeasuredCell) -> bool {
    let none_lost = cell.lost.is_empty() && case.cells[summary.baseline].lost.is_empty();
    summary.unjudged.is_none() && case.withheld.is_none() && none_lost
}

/// Returns the further seconds after which a case is probably decided. `None` if no time is known
/// to be enough.
fn missing_time(found: &Comparison, better: Better, summary: &Summary) -> Option<f64> {
    let interval = found.interval?;
    let (least, most) = match better {
        Better::Lower => (interval.lo, interval.hi),
        Better::Higher => (1.0 / interval.hi, 1.0 / interval.lo),
    };
    let half_width = (most / least).ln() / 2.0;
    let distance = ((1.0 + summary.theta) / (least * most).sqrt()).ln().abs();
    let level = found.nominal_level.unwrap_or(LEVEL);
    let blocks = blocks_to_scale(found.n, level, LEVEL, distance / half_width)?;
    let further = blocks.saturating_sub(found.n as u32).max(1);
    Some(f64::from(further) * summary.per_block?)
}

/// The answer of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateAnswer {
    /// The threshold, 0.03 for 3 %.
    pub theta: f64,
    /// Every case of every target that is judged.
    pub checks: Vec<Check>,
    /// Further seconds after which the open cases are probably decided; absent if there are none,
    /// or if no time is known to be enough.
    pub seconds: Option<f64>,
}

impl GateAnswer {
    /// Returns whether it passed, failed, or cannot tell.
    pub fn state(&self) -> BoundState {
        if self.checks.iter().any(|check| check.outcome.fails()) {
            return BoundState::Fail;
        }
        let all_pass = self.checks.iter().all(|check| check.outcome.passes());
        match all_pass && !self.checks.is_empty() {
            true => BoundState::Pass,
            false => BoundState::CannotTell,
        }
    }

    /// Returns the largest amount that an interval leaves possible; `None` if none is judged.
    pub fn largest(&self) -> Option<f64> {
        let judged = self.checks.iter();
        let judged = judged.filter(|check| check.outcome != CheckOutcome::Acknowledged);
        judged.filter_map(|check| check.up_to).reduce(f64::max)
    }

    /// Returns what the comparisons exclude. Costs that are 0 in every block exclude no amount.
    fn excluded(&self) -> String {
        let is_zero =
            |check: &&Check| check.outcome == CheckOutcome::Passed && check.up_to.is_none();
        let zeros = self.checks.iter().filter(is_zero).count();
        let count = self.checks.len() - zeros;
        let mut parts = Vec::new();
        if count > 0 {
            parts.push(format!(
                "{} {} more than {}, and the threshold is {}",
                counted(count, "comparison"),
                if count == 1 { "excludes" } else { "exclude" },
                percent_above(self.largest().unwrap_or_default()),
                percent(self.theta)
            ));
        }
        if zeros > 0 {
            let are = if zeros == 1 { "is" } else { "are" };
            parts.push(format!("{} {are} 0 in every block", counted(zeros, "cost")));
        }
        parts.join("; ")
    }

    /// Returns the answer in a sentence.
    pub fn sentence(&self) -> String {
        let texts = |is_meant: fn(CheckOutcome) -> bool| {
            let mut texts = Vec::new();
            for check in self.checks.iter().filter(|check| is_meant(check.outcome)) {
                texts.push(check.text.trim_start_matches("cannot tell: ").to_owned());
            }
            some_of(&texts, NAMED)
        };
        match self.state() {
            BoundState::Fail => format!("failed: {}", texts(CheckOutcome::fails)),
            BoundState::Pass => format!("passed: {}", self.excluded()),
            BoundState::CannotTell => {
                let more = self
                    .seconds
                    .map(|seconds| format!("; about {} more are needed", rough(seconds)));
                format!(
                    "cannot tell: {}{}",
                    texts(|outcome| !outcome.passes()),
                    more.unwrap_or_default()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{DEVICE_FLUSHES_PER_OPERATION, OPERATION_RATE};
    use fsb_model::trial::{Outcome, Trial};

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

    /// Answers if a trial of the baseline has no value.
    fn answered_with_loss(text: &str, speed: f64) -> GateAnswer {
        answered_about(text, speed, 0.001, |trial| {
            if trial.target == "ext4" && trial.block == 2 {
                trial.outcome = Outcome::Failed;
                trial.metrics.clear();
            }
        })
    }

    fn answered(text: &str, speed: f64, scatter: f64) -> GateAnswer {
        answered_about(text, speed, scatter, |_| {})
    }

    /// Answers about ext4 against xfs with the given speed of xfs in percent of ext4's.
    fn answered_about(
        text: &str,
        speed: f64,
        scatter: f64,
        change: impl Fn(&mut Trial),
    ) -> GateAnswer {
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
            change(trial);
        }
        let summary = Summary::of_run(&record, &trials);
        let gate: Gate = text.parse().unwrap();
        gate.answer(&summary, &record)
    }

    #[test]
    fn it_passes_fails_or_cannot_tell() {
        let passed = answered("xfs slower than ext4", 99.9, 0.001);
        assert_eq!(passed.state(), BoundState::Pass, "{}", passed.sentence());
        assert!(passed.sentence().starts_with("passed: 1 comparison"));
        let failed = answered("slower", 90.0, 0.001);
        assert_eq!(failed.state(), BoundState::Fail, "{}", failed.sentence());
        assert!(
            failed
                .sentence()
                .starts_with("failed: xfs is slower than ext4 at rename")
        );
        let open = answered("slower", 98.0, 0.05);
        assert_eq!(open.state(), BoundState::CannotTell, "{}", open.sentence());
        assert!(open.sentence().contains("by up to"), "{}", open.sentence());
        let lost = answered_with_loss("slower", 99.9);
        assert_eq!(lost.state(), BoundState::CannotTell, "{}", lost.sentence());
        let silent = answered("more flushes", 98.0, 0.05);
        assert_eq!(silent.state(), BoundState::CannotTell);
        assert!(silent.sentence().contains("not judged"));
    }

    /// Answers about the flushes of ext4 and xfs in each block.
    fn answered_for_flushes(flushes: [fn(u32) -> f64; 2]) -> GateAnswer {
        answered_about("xfs more flushes", 100.0, 0.001, |trial| {
            let of_target = flushes[usize::from(trial.target == "xfs")];
            let found = DEVICE_FLUSHES_PER_OPERATION.metric(of_target(trial.block));
            trial.metrics.push(found);
        })
    }

    #[test]
    fn a_cost_of_zero_is_judged() {
        let passed = answered_for_flushes([|_| 0.0, |_| 0.0]);
        assert_eq!(passed.state(), BoundState::Pass, "{}", passed.sentence());
        assert_eq!(passed.largest(), None);
        assert_eq!(passed.sentence(), "passed: 1 cost is 0 in every block");
        let failed = answered_for_flushes([|_| 0.0, |_| 3.0]);
        assert_eq!(failed.state(), BoundState::Fail, "{}", failed.sentence());
        let expected =
            "failed: xfs needs more than ext4 at flushes of rename 4K files: 3 instead of 0";
        assert_eq!(failed.sentence(), expected);
        let open = answered_for_flushes([|_| 0.0, |block| f64::from(block % 4 / 3)]);
        assert_eq!(open.state(), BoundState::CannotTell, "{}", open.sentence());
        let less = answered_for_flushes([|_| 3.0, |block| f64::from(block % 4 / 3)]);
        assert_eq!(less.state(), BoundState::Pass, "{}", less.sentence());
    }
}
