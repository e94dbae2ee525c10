//! How often everything is measured, as people write it.

use fsb_model::plan::{BLOCK_LIMIT, Repetition};
use fsb_model::units::{parse_duration, parse_percent};
use serde::{Deserialize, Serialize};

use super::PlanError;

/// The time a run may take when nothing is said.
const DEFAULT_BUDGET: &str = "5m";
/// The table `[repetition]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionFile {
    /// Exactly so many blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Time for the whole run, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Half-width to reach, such as `2%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Time that a timed stretch should last, such as `50ms`; with a second or more, everything is measured in visits
    /// instead of in rounds of short stretches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<String>,
}

impl RepetitionFile {
    pub(super) fn is_empty(&self) -> bool {
        *self == RepetitionFile::default()
    }

    pub(super) fn resolve(&self) -> Result<Repetition, PlanError> {
        let request = |error: fsb_model::units::UnitError| PlanError::Request(error.to_string());
        let budget = self.budget.as_deref().unwrap_or(DEFAULT_BUDGET);
        let seconds = parse_duration(budget).map_err(request)?.as_secs_f64();
        if !(1.0..=30.0 * 86_400.0).contains(&seconds) {
            return Err(PlanError::Request(format!("budget {budget}: give between 1 second and 30 days")));
        }
        match (self.blocks, &self.precision) {
            (Some(_), Some(_)) => Err(PlanError::Request(
                "blocks and precision exclude each other: precision decides how many blocks are made".to_owned(),
            )),
            (Some(_), None) if self.budget.is_some() => Err(PlanError::Request(
                "blocks and budget exclude each other: the budget decides how many blocks are made".to_owned(),
            )),
            (Some(blocks), None) if (1..=BLOCK_LIMIT).contains(&blocks) => Ok(Repetition::Blocks { blocks }),
            (Some(blocks), None) => {
                Err(PlanError::Request(format!("{blocks} blocks: give between 1 and {BLOCK_LIMIT}")))
            }
            (None, Some(precision)) => {
                let half_width = parse_percent(precision).map_err(request)?;
                Ok(Repetition::Precision { half_width, seconds })
            }
            (None, None) => Ok(Repetition::Budget { seconds }),
        }
    }

    pub(super) fn resolve_stretch(&self) -> Result<Option<f64>, PlanError> {
        let Some(text) = &self.stretch else { return Ok(None) };
        let seconds = parse_duration(text).map_err(|error| PlanError::Request(error.to_string()))?.as_secs_f64();
        if (0.001..=3600.0).contains(&seconds) {
            Ok(Some(seconds))
        } else {
            Err(PlanError::Request(format!("stretch {text}: give between 1 millisecond and an hour")))
        }
    }

    /// `blocks` replaces the other two ways of saying how many blocks are made, and they replace it.
    pub(super) fn over(self, under: RepetitionFile) -> RepetitionFile {
        let stretch = self.stretch.or(under.stretch);
        if self.blocks.is_some() {
            return RepetitionFile { stretch, blocks: self.blocks, budget: self.budget, precision: self.precision };
        }
        let says_time = self.budget.is_some() || self.precision.is_some();
        RepetitionFile {
            blocks: if says_time { None } else { under.blocks },
            budget: self.budget.or(under.budget),
            precision: self.precision.or(under.precision),
            stretch,
        }
    }
}
