//! Published statements about differences and rates, beside the same quantities of a run.

use std::fmt;

use fsb_model::Unit;
use serde::Serialize;

use super::published_order::PublishedOrder;

/// The text in place of values that the run does not have.
const NOTHING: &str = "–";

/// A publication's statements that concern the targets of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedClaims {
    /// The title, which names the publication.
    pub title: String,
    /// The note that a reader needs for a comparison.
    pub note: String,
    /// Whether the first screen shows them too, because they are few.
    pub first: bool,
    /// The claims; those of one group follow each other. Empty if the run measured all of their
    /// operations in another state, which the note names.
    pub rows: Vec<PublishedClaim>,
    /// The reason why claims about operations of the run are not shown; absent if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The comparison of the directions of differences with the published ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<PublishedOrder>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedClaim {
    /// The heading: the two file systems, or the quantity.
    pub group: String,
    /// The operation and the sizes.
    pub test: String,
    /// The statement as printed: `xfs faster: +16 % med, +11 % reg`.
    pub published: String,
    /// The quantities of the statement in this run; null if the run has no values of these sizes.
    pub here: Option<ClaimValues>,
}

/// The quantities of a run that a statement is about. Each is absent if the statement is about
/// others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimValues {
    /// Mean of all values in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Ratio of the means of the second and the first file system minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_change: Option<f64>,
    /// Ratio of the medians minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_change: Option<f64>,
    /// Slope of the line through the means of the cells minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slope_change: Option<f64>,
    /// Whether the t-test at 10 % calls the two different; absent if there are too few values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub different: Option<bool>,
}

/// As people read it: `+20 % med, +9 % reg, DIFF`.
impl fmt::Display for ClaimValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change =
            |name: &'static str| move |change: f64| format!("{:+.0} %{name}", change * 100.0);
        let parts = [
            self.rate.map(|rate| Unit::BytesPerSecond.show(rate)),
            self.mean_change.map(change("")),
            self.median_change.map(change(" med")),
            self.slope_change.map(change(" reg")),
            self.different
                .map(|different| if different { "DIFF" } else { "SAME" }.to_owned()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl PublishedClaim {
    /// Formats the values of the run.
    pub(crate) fn show_here(&self) -> String {
        self.here
            .map_or_else(|| NOTHING.to_owned(), |here| here.to_string())
    }
}

impl PublishedClaims {
    /// Returns the groups, each with its claims.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &[PublishedClaim])> {
        self.rows
            .chunk_by(|a, b| a.group == b.group)
            .map(|rows| (rows[0].group.as_str(), rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_the_publication_names_them() {
        let shown = |here| {
            let (group, test, published) = (String::new(), String::new(), String::new());
            PublishedClaim {
                group,
                test,
                published,
                here,
            }
            .show_here()
        };
        let pair = ClaimValues {
            median_change: Some(0.204),
            slope_change: Some(-0.088),
            different: Some(false),
            ..ClaimValues::default()
        };
        assert_eq!(shown(Some(pair)), "+20 % med, -9 % reg, SAME");
        let rate = ClaimValues {
            rate: Some(360.0 * 1_048_576.0),
            ..ClaimValues::default()
        };
        assert_eq!(
            (shown(Some(rate)), shown(None)),
            ("360 MiB/s".to_owned(), "–".to_owned())
        );
    }
}
