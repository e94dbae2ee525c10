//! The number of blocks, the budget and the length of samples, as people write them.

use fsb_model::plan::{BLOCK_LIMIT, LONGEST_BUDGET, Repetition};
use fsb_model::units::{Seconds, parse_duration, parse_percent};
use serde::{Deserialize, Serialize};

use super::error::{PLAN_CONFLICT, PLAN_RANGE, PlanError};
use super::written;

/// The default time that a run may take.
const DEFAULT_BUDGET: &str = "5m";
/// The table `[repetition]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionFile {
    /// Exactly this number of blocks; with `budget`, unless the time ends before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Time for the whole run, such as `5m`.
    #[serde(default, deserialize_with = "written::time", skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Half-width to reach, such as `2%`.
    #[serde(default, deserialize_with = "written::share", skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Time that a sample should last, such as `50ms`. From 1 second on, everything is measured in sequential trials
    /// instead of rounds of short samples.
    #[serde(default, deserialize_with = "written::time", skip_serializing_if = "Option::is_none")]
    #[serde(alias = "stretch")]
    pub sample_time: Option<String>,
}

/// Refuses a length of samples below 1 millisecond or above an hour.
pub(super) fn check_sample_time(sample_time: Seconds) -> Result<(), String> {
    if (0.001..=3600.0).contains(&sample_time.0) {
        return Ok(());
    }
    Err(format!("sample_time {}s: give between 1 millisecond and an hour", sample_time.0))
}

impl RepetitionFile {
    /// The names of its fields.
    pub(super) const FIELDS: &[&str] = &["blocks", "budget", "precision", "sample_time", "stretch"];

    pub(super) fn is_empty(&self) -> bool {
        *self == RepetitionFile::default()
    }

    pub(super) fn resolve(&self) -> Result<Repetition, PlanError> {
        let request = |error: fsb_model::units::UnitError| PlanError::Request(error.to_string());
        let budget = self.budget.as_deref().unwrap_or(DEFAULT_BUDGET);
        let seconds = parse_duration(budget).map_err(request)?.as_secs_f64();
        if !(1.0..=LONGEST_BUDGET).contains(&seconds) {
            return Err(PlanError::known(&PLAN_RANGE, format!("budget {budget}: give between 1 second and 30 days")));
        }
        match (self.blocks, &self.precision) {
            (Some(_), Some(_)) => Err(PlanError::known(
                &PLAN_CONFLICT,
                "blocks and precision exclude each other: precision decides how many blocks are made",
            )),
            (Some(blocks), None) if (1..=BLOCK_LIMIT).contains(&blocks) => {
                Ok(Repetition::Blocks { blocks, seconds: self.budget.is_some().then_some(seconds) })
            }
            (Some(blocks), None) => {
                Err(PlanError::known(&PLAN_RANGE, format!("{blocks} blocks: give between 1 and {BLOCK_LIMIT}")))
            }
            (None, Some(precision)) => {
                let half_width = parse_percent(precision).map_err(request)?;
                Ok(Repetition::Precision { half_width, seconds })
            }
            (None, None) => Ok(Repetition::Budget { seconds }),
        }
    }

    pub(super) fn resolve_sample_time(&self) -> Result<Option<f64>, PlanError> {
        let Some(text) = &self.sample_time else { return Ok(None) };
        let time = parse_duration(text).map_err(|error| PlanError::Request(error.to_string()))?;
        check_sample_time(Seconds(time.as_secs_f64())).map_err(PlanError::Request)?;
        Ok(Some(time.as_secs_f64()))
    }

    /// Merges this table over another one. `blocks` replaces `budget` and `precision`, and they replace it.
    pub(super) fn over(self, under: RepetitionFile) -> RepetitionFile {
        let sample_time = self.sample_time.or(under.sample_time);
        if self.blocks.is_some() {
            return RepetitionFile { sample_time, blocks: self.blocks, budget: self.budget, precision: self.precision };
        }
        let says_time = self.budget.is_some() || self.precision.is_some();
        RepetitionFile {
            blocks: if says_time { None } else { under.blocks },
            budget: self.budget.or(under.budget),
            precision: self.precision.or(under.precision),
            sample_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Repetition;

    use crate::plan_file;

    fn plan(sample_time: &str) -> String {
        format!(
            "targets = ['null']\n[[workload]]\nname = 'write'\nfile_size = '1M'\n[[workload]]\nname = 'rename'\n\
             files = 10\nsample_time = {sample_time}\n"
        )
    }

    /// Errors suggest these names for a field that is in the wrong table.
    #[test]
    fn the_names_of_the_fields_are_those_that_are_read() {
        let said = plan_file::parse("[repetition]\nzzzzzz = 1\n", "p").unwrap_err().to_string();
        let (_, known) = said.split_once("expected one of ").unwrap();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, super::RepetitionFile::FIELDS);
        let said = plan_file::parse("budget = '5m'\n", "p").unwrap_err().to_string();
        assert!(said.ends_with("unknown field `budget`: it belongs in [repetition]"), "{said}");
    }

    #[test]
    fn the_former_name_of_the_sample_time_is_still_read() {
        let text = format!("{}[repetition]\nstretch = '50ms'\n", plan("'10s'").replace("sample_time", "stretch"));
        let plan = plan_file::parse(&text, "p").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!((plan.sample_time, plan.sample_time_of(&plan.workloads[1])), (Some(0.05), Some(10.0)));
        assert!(plan_file::print(&plan).unwrap().contains("sample_time"));
    }

    #[test]
    fn a_workload_may_have_a_sample_time_of_its_own_which_a_printed_plan_keeps() {
        let resolved = plan_file::parse(&plan("'10s'"), "p").unwrap().resolve(2, 7).unwrap();
        let samples: Vec<_> =
            resolved.plan.workloads.iter().map(|workload| resolved.plan.sample_time_of(workload)).collect();
        assert_eq!(samples, [None, Some(10.0)]);
        let printed = plan_file::print(&resolved.plan).unwrap();
        assert_eq!(
            plan_file::parse(&printed, "printed").unwrap().resolve(2, 7).unwrap().plan,
            resolved.plan,
            "{printed}"
        );
    }

    #[test]
    fn blocks_may_have_a_bound_which_a_printed_plan_keeps() {
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\n[repetition]\nblocks = 9\nbudget = '60s'\n";
        let plan = plan_file::parse(text, "p").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!(plan.repetition, Repetition::Blocks { blocks: 9, seconds: Some(60.0) });
        let printed = plan_file::print(&plan).unwrap();
        let again = plan_file::parse(&printed, "printed").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!(again.repetition, plan.repetition, "{printed}");
        let unbounded = plan_file::parse(&text.replace("budget = '60s'", ""), "p").unwrap().resolve(2, 7).unwrap();
        assert_eq!(unbounded.plan.repetition, Repetition::Blocks { blocks: 9, seconds: None });
    }

    #[test]
    fn work_may_be_held_where_it_can_go_on() {
        let of = |workload: &str| {
            let text = format!("targets = ['null']\n[[workload]]\n{workload}\nsustain = 4\n");
            plan_file::parse(&text, "p").and_then(|plan| plan.resolve(2, 7))
        };
        let held = of("name = 'rename'\nfiles = 10").unwrap();
        assert_eq!(held.plan.sample_time_of(&held.plan.workloads[0]), Some(10.0));
        assert_eq!(held.work.cells[0].cell.label, "rename 4K files, sustained");
        let printed = plan_file::print(&held.plan).unwrap();
        assert_eq!(plan_file::parse(&printed, "printed").unwrap().resolve(2, 7).unwrap().plan, held.plan, "{printed}");
        for wrong in ["name = 'create'", "name = 'read'", "name = 'rename'\ndurability = 'end'", "name = 'postmark'"] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(error.contains("cannot be sustained: ") && error.contains("line "), "{wrong}: {error}");
        }
        let short = of("name = 'rename'\nsample_time = '50ms'").unwrap_err().to_string();
        assert!(short.contains("a second or more"), "{short}");
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\nsustain = 0\n";
        let never = plan_file::parse(text, "p").and_then(|plan| plan.resolve(2, 7)).unwrap_err().to_string();
        assert!(never.contains("0 times: give how often"), "{never}");
    }

    #[test]
    fn an_impossible_sample_time_is_refused_at_its_place() {
        for (wrong, word) in [
            ("'10ns'", "not a duration"),
            ("'10us'", "1 millisecond"),
            ("'2h'", "an hour"),
            ("7200", "an hour"),
            ("[10]", "a time"),
        ] {
            let error =
                plan_file::parse(&plan(wrong), "p").and_then(|plan| plan.resolve(2, 7)).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("line "), "{wrong}: {error}");
        }
    }
}
