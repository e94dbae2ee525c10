//! A snapshot of the index, with the analysis of its series.

use std::collections::{BTreeMap, BTreeSet};

use fsb_stats::{AnalysisError, Interval, Verdict, in_parallel};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Conditions, IndexedRun, IndexedSeries, RunEntry, SeriesKey};
use crate::series::{self, Difference, Document, SCHEMA, SeriesHistory};
use crate::store::{HistoryError, Store};

/// The schema of a comparison of two runs.
pub const COMPARISON_SCHEMA: &str = "fsbench/history-diff/1";

/// The number of series whose values are in memory before they are analysed.
const SERIES_AT_ONCE: usize = 32;

/// A snapshot of the index. Only the values stay in the store.
#[derive(Debug)]
pub struct Index {
    store: Store,
    /// The runs by identity.
    pub runs: BTreeMap<String, IndexedRun>,
    /// The conditions of all environments by identity.
    pub environments: BTreeMap<String, Conditions>,
}

/// The differences between two runs of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsCompared {
    /// The name and version of the schema: [`COMPARISON_SCHEMA`].
    pub schema: String,
    /// The smallest ratio that matters, less one.
    pub theta: f64,
    /// The first run.
    pub before: RunEntry,
    /// The second run.
    pub after: RunEntry,
    /// The labels that differ.
    pub labels: Vec<Difference>,
    /// The conditions that differ.
    pub conditions: Vec<DifferingCondition>,
    /// The series that have values of both runs, by name.
    pub series: Vec<ValuesCompared>,
}

/// A condition that differs between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferingCondition {
    /// The condition with its text in both runs.
    #[serde(flatten)]
    pub difference: Difference,
    /// The targets whose condition differs; empty if it differs for all targets.
    pub targets: Vec<String>,
}

/// The values of two runs in one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValuesCompared {
    /// The identity of the series.
    pub id: String,
    /// The definition.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The value of the first run.
    pub before: f64,
    /// The value of the second run.
    pub after: f64,
    /// The value of the second run divided by the value of the first run.
    pub ratio: f64,
    /// The 95 % interval of the ratio, from the variation between the other runs of the series;
    /// absent if there are too few of them.
    pub interval: Option<Interval>,
    /// The verdict on the ratio; absent without an interval, or if the environments differ.
    pub verdict: Option<Verdict>,
    /// Whether both runs were made in one environment.
    pub same_environment: bool,
}

impl Index {
    /// Reads the index of a store. The index does not contain later writes of other processes.
    pub fn read(store: Store) -> Result<Index, HistoryError> {
        store.freeze()?;
        let runs = store
            .runs()?
            .into_iter()
            .map(|run| (run.id.clone(), run))
            .collect();
        let environments = store.environments()?;
        Ok(Index {
            store,
            runs,
            environments,
        })
    }

    /// Returns all series in the order of their names.
    pub fn series_by_name(&self) -> Result<Vec<IndexedSeries>, HistoryError> {
        let mut all = self.store.series()?;
        all.sort_by_cached_key(|series| (series.key.name(), series.id.clone()));
        Ok(all)
    }

    /// Returns the value of the last run of a series and the number of its runs, or `None` if it
    /// has no value.
    pub fn last_value(
        &self,
        series: &str,
    ) -> Result<Option<(crate::StoredPoint, usize)>, HistoryError> {
        let points = self.store.points(series)?;
        let runs = points.len();
        Ok(points.into_iter().next_back().map(|last| (last, runs)))
    }

    /// Analyses a series. Conditions in `across` do not separate environments.
    pub fn analyse(
        &self,
        series: IndexedSeries,
        across: &[String],
        theta: f64,
    ) -> Result<SeriesHistory, HistoryError> {
        let points = self.store.points(&series.id)?;
        series::analyse(
            series,
            &points,
            &self.environments,
            &self.runs,
            across,
            theta,
        )
        .map_err(|error| self.damaged(error))
    }

    /// Analyses all series, in the order of their names.
    pub fn analyse_all(&self, across: &[String], theta: f64) -> Result<Document, HistoryError> {
        let mut all = Vec::new();
        let mut left = self.series_by_name()?.into_iter();
        loop {
            // The store is read by one thread.
            let mut read = Vec::new();
            for series in left.by_ref().take(SERIES_AT_ONCE) {
                let points = self.store.points(&series.id)?;
                read.push((series, points));
            }
            if read.is_empty() {
                break;
            }
            let (environments, runs) = (&self.environments, &self.runs);
            let analysed: Result<Vec<SeriesHistory>, AnalysisError> = in_parallel(|| {
                let read = read.into_par_iter();
                read.map(|(series, points)| {
                    series::analyse(series, &points, environments, runs, across, theta)
                })
                .collect()
            });
            all.extend(analysed.map_err(|error| self.damaged(error))?);
        }
        Ok(Document {
            schema: SCHEMA.to_owned(),
            theta,
            across: across.to_vec(),
            series: all,
            unchanged: Vec::new(),
        })
    }

    /// Compares the values of two runs in all series that they share.
    pub fn compare(
        &self,
        before: &IndexedRun,
        after: &IndexedRun,
        theta: f64,
    ) -> Result<RunsCompared, HistoryError> {
        let mut differing: BTreeMap<String, (Difference, BTreeSet<String>)> = BTreeMap::new();
        let mut targets = BTreeSet::new();
        let mut compared = Vec::new();
        for series in self.series_by_name()? {
            let mut points = self.store.points(&series.id)?;
            let [Some(one), Some(other)] =
                [before, after].map(|run| points.iter().find(|point| point.run == run.id))
            else {
                continue;
            };
            targets.insert(series.key.target.clone());
            let [before_conditions, after_conditions] = [one, other].map(|point| {
                self.environments
                    .get(&point.environment)
                    .cloned()
                    .unwrap_or_default()
            });
            let differences = series::differences(&before_conditions, &after_conditions);
            let same_environment = differences.is_empty();
            for difference in differences {
                let key = format!("{difference:?}");
                differing
                    .entry(key)
                    .or_insert((difference, BTreeSet::new()))
                    .1
                    .insert(series.key.target.clone());
            }
            let (one, other) = (one.log_mean.exp(), other.log_mean.exp());
            let (id, key) = (series.id.clone(), series.key.clone());
            points.retain(|point| point.run != before.id && point.run != after.id);
            let damaged = |error| self.damaged(error);
            let rest = series::analyse(series, &points, &self.environments, &self.runs, &[], theta)
                .map_err(damaged)?;
            let judged = rest
                .variation
                .map(|variation| variation.compare(one, other, key.better(), theta));
            let judged = judged.transpose().map_err(damaged)?;
            compared.push(ValuesCompared {
                id,
                key,
                before: one,
                after: other,
                ratio: judged.map_or(other / one, |(ratio, ..)| ratio),
                interval: judged.map(|(_, interval, _)| interval),
                verdict: judged
                    .map(|(.., verdict)| verdict)
                    .filter(|_| same_environment),
                same_environment,
            });
        }
        let conditions = differing
            .into_values()
            .map(|(difference, of)| DifferingCondition {
                difference,
                targets: if of == targets {
                    Vec::new()
                } else {
                    of.into_iter().collect()
                },
            });
        Ok(RunsCompared {
            schema: COMPARISON_SCHEMA.to_owned(),
            theta,
            before: before.into(),
            after: after.into(),
            labels: series::differences(&before.labels, &after.labels),
            conditions: conditions.collect(),
            series: compared,
        })
    }

    /// Converts the error of an analysis, which only a damaged store causes.
    fn damaged(&self, error: AnalysisError) -> HistoryError {
        HistoryError::Damaged {
            store: self.store.location().clone(),
            message: error.to_string(),
        }
    }
}
