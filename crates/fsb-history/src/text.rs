//! Series, changes and environments as text.

use fsb_report::show::{self, counted, percent, percent_above};
use fsb_stats::{Interval, RunVariation};

use crate::index::ValuesCompared;
use crate::series::{Change, Difference, Document, EnvironmentChange, LevelSpan, SeriesHistory};

/// The number of digits of an identity in tables.
const DIGITS: usize = 8;

/// Returns the first digits of an identity, for tables.
pub fn short(id: &str) -> &str {
    id.get(..DIGITS).unwrap_or(id)
}

/// Returns a time without seconds: `2026-01-31 18:05`.
pub fn minute(at: &str) -> String {
    at.get(..16).unwrap_or(at).replace('T', " ")
}

/// Describes a change: its verdict, ratio and position, and the labels that differ.
pub fn change_text(series: &SeriesHistory, change: &Change) -> String {
    let ratio = ratio_text(change.ratio, Some(change.interval));
    let point = |index: usize| minute(&series.points[index].at);
    let place = match change.earliest == change.latest {
        true => format!("after the run of {}", point(change.last_before)),
        false => format!(
            "its first run is of {} to {}",
            point(change.earliest),
            point(change.latest)
        ),
    };
    let chance = chance_text(change.p_value);
    let found = counted(change.found_after, "run");
    let differences = differences_text(&change.differences);
    let differences = if differences.is_empty() {
        differences
    } else {
        format!("; {differences}")
    };
    format!(
        "{} {ratio}; {place}{differences}; found after {found}; {chance}",
        change.verdict.words()
    )
}

/// Returns the probability of such a change in a series without changes, as text.
fn chance_text(p_value: f64) -> String {
    match p_value {
        p if p < 1e-6 => "by chance in less than one series of a million".to_owned(),
        p if p > 0.5 => "by chance in most series".to_owned(),
        p => format!("by chance in one series of {:.0}", 1.0 / p),
    }
}

/// Describes a change to another environment.
pub fn environment_text(change: &EnvironmentChange) -> String {
    let ratio = change
        .ratio
        .map(|ratio| format!("; level {}, not judged", ratio_text(ratio, change.interval)));
    format!(
        "other environment: {}{}",
        differences_text(&change.differences),
        ratio.unwrap_or_default()
    )
}

/// Describes the change between the values of two runs.
pub fn compared_text(values: &ValuesCompared) -> String {
    let ratio = ratio_text(values.ratio, values.interval);
    match (values.interval, values.verdict) {
        (None, _) => format!("{ratio}, variation between runs unknown"),
        (Some(_), Some(verdict)) => format!("{ratio} {}", verdict.words()),
        (Some(_), None) => format!("{ratio} other environment"),
    }
}

/// Returns a ratio as a change with its interval: `+12 % [+9 +16]`.
pub fn ratio_text(ratio: f64, interval: Option<Interval>) -> String {
    show::Change::between(ratio, interval).text()
}

/// Returns text such as `kernel: 6.12.1 → 6.12.3; commit: abc → def`.
pub fn differences_text(differences: &[Difference]) -> String {
    let words = differences.iter().map(|one| {
        let [before, after] =
            [&one.before, &one.after].map(|text| text.as_deref().unwrap_or("not recorded"));
        format!("{}: {before} → {after}", one.name)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Describes the variation between the runs of a series.
pub fn variation_text(variation: Option<RunVariation>, within: Option<f64>, runs: usize) -> String {
    let Some(variation) = variation else {
        return format!(
            "{}: too few to know how much runs vary",
            counted(runs, "run")
        );
    };
    let within = within.map_or_else(String::new, |within| {
        format!("; blocks within a run explain {}", rounded(within))
    });
    format!(
        "Runs vary by {} (standard deviation, {runs} runs){within}.",
        rounded(variation.sd)
    )
}

/// Returns a share as a percentage with one digit.
fn rounded(share: f64) -> String {
    percent((share * 1e3).round() / 1e3)
}

/// Describes runs without a change between them: the change that the search would have found.
pub fn unchanged_text(level: &LevelSpan) -> String {
    let runs = counted(level.runs, "run");
    match level.detectable {
        Some(change) => {
            format!(
                "no change found; with {runs} a change of {} half-way would be",
                percent_above(change)
            )
        }
        None => format!("cannot tell; with {runs} not even a change of 100 % would be found"),
    }
}

/// Summarizes a document: the number of series with changes, the changes that would be found in the
/// others, and the number of series that cannot tell.
pub fn summary_text(document: &Document) -> String {
    let all = document.series.len();
    let longest = document
        .series
        .iter()
        .map(|series| series.points.len())
        .max()
        .unwrap_or(0);
    let (changed, others): (Vec<_>, Vec<_>) = document
        .series
        .iter()
        .partition(|series| series.is_changed());
    let levels = others.iter().filter_map(|series| series.newest_level());
    let mut detectable: Vec<f64> = levels.filter_map(|level| level.detectable).collect();
    detectable.sort_by(f64::total_cmp);
    let silent = others.len() - detectable.len();
    let mut parts = Vec::new();
    if !changed.is_empty() {
        parts.push(format!("changes in {}", changed.len()));
    }
    if let (Some(least), Some(most)) = (detectable.first(), detectable.last()) {
        let [least, most] = [least, most].map(|change| percent_above(*change));
        let range = if least == most {
            most
        } else {
            format!("{least} to {most}")
        };
        parts.push(format!(
            "no change found in {}, where one of {range} half-way would be in four series of five",
            detectable.len()
        ));
    }
    if silent > 0 {
        parts.push(format!(
            "{silent} cannot tell, because the runs are too few for how much they vary"
        ));
    }
    let chance = match changed.is_empty() {
        true => "",
        false => " Without a cause, one series of a hundred shows a change within a hundred runs.",
    };
    match all {
        0 => "No series.".to_owned(),
        _ => format!(
            "{all} series of up to {}: {}.{chance}",
            counted(longest, "run"),
            parts.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_of_a_change_is_stated_as_what_would_be_found() {
        let level = |runs, detectable| LevelSpan {
            first: 0,
            last: 0,
            runs,
            mean: 1.0,
            interval: None,
            detectable,
        };
        assert_eq!(
            unchanged_text(&level(6, Some(0.2391))),
            "no change found; with 6 runs a change of 24 % half-way would be"
        );
        assert_eq!(
            unchanged_text(&level(1, None)),
            "cannot tell; with 1 run not even a change of 100 % would be found"
        );
    }
}
