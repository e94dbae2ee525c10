//! Published values beside ours.

use fsb_model::Unit;
use serde::Serialize;

use super::published_order::PublishedOrder;
use crate::show::NOT_HERE;

const MIB: f64 = 1024.0 * 1024.0;

/// The orientation of a published table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PublishedLayout {
    /// A row is a test, a column a file system.
    #[default]
    Tests,
    /// A row is a file system as it was configured, a column a test; times are long and shown in
    /// minutes.
    Configurations,
    /// A row is a test, a column a file system; tests are in groups, and the values are rates in
    /// the unit of the group.
    Rates,
}

/// A published table that the caller has read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PublishedTable {
    /// The title, which names the publication.
    pub title: String,
    /// The note that a reader needs for a comparison.
    pub note: String,
    /// Whether the first screen shows it too, because the run was made for it.
    pub first: bool,
    /// The orientation of the table.
    pub layout: PublishedLayout,
    /// The values.
    pub rows: Vec<PublishedValue>,
    /// Rows that sum up others.
    pub sums: Vec<PublishedSum>,
    /// The targets of the run that are published file systems: published names, and names of
    /// targets.
    pub counterparts: Vec<(String, String)>,
    /// The figures that show the values as bars.
    pub figures: Vec<PublishedFigure>,
}

/// A figure of a publication, drawn with measured and published values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PublishedFigure {
    /// The name and the subject: `Figure 4, copy portage`.
    pub title: String,
    /// The rows that it shows, which have one unit.
    pub rows: Vec<String>,
    /// The published file systems that it shows.
    pub file_systems: Vec<String>,
    /// The targets that it shows.
    pub targets: Vec<String>,
}

/// A row that sums up other rows of a published table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublishedSum {
    /// The name of the row.
    pub row: String,
    /// The row that it follows.
    pub after: String,
    /// The rows whose values are added.
    pub parts: Vec<String>,
}

impl PublishedSum {
    /// Adds the row, if all rows that it needs are there. A target or a file system that lacks a
    /// part has no sum.
    pub(super) fn add_to(&self, rows: &mut Vec<PublishedRow>) {
        let find = |name: &String| rows.iter().position(|row| row.workload == *name);
        let parts: Option<Vec<&PublishedRow>> = self
            .parts
            .iter()
            .map(|part| Some(&rows[find(part)?]))
            .collect();
        let (Some(after), Some(parts)) = (find(&self.after), parts) else {
            return;
        };
        let Some(first) = parts.first() else { return };
        let sum = |place: usize, of: fn(&PublishedRow) -> &Vec<Option<f64>>| -> Option<f64> {
            parts.iter().map(|part| of(part)[place]).sum()
        };
        let row = PublishedRow {
            workload: self.row.clone(),
            ours: (0..first.ours.len())
                .map(|place| sum(place, |row| &row.ours))
                .collect(),
            theirs: (0..first.theirs.len())
                .map(|place| sum(place, |row| &row.theirs))
                .collect(),
            printed: Vec::new(),
            here: None,
            ..(*first).clone()
        };
        rows.insert(after + 1, row);
    }
}

/// One published value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedValue {
    /// The name of the row.
    pub row: String,
    /// The label of the workload that it belongs to.
    pub workload: String,
    /// The metric of that workload; if absent, the one that targets are compared by.
    pub metric: Option<String>,
    /// The unit of the value; times are shown in microseconds.
    pub unit: Unit,
    /// The file system, by its name in the registry.
    pub target: String,
    /// The value in base units.
    pub value: f64,
    /// For [`PublishedLayout::Rates`]: the group of the row, and the work of a measured time.
    pub rate: Option<PublishedRate>,
    /// The property of the measured values of this row that forbids a comparison: `from memory`.
    pub here: Option<String>,
}

/// The rate that a published value is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRate {
    /// The name of the group: `table 6.1`.
    pub group: String,
    /// The work done in the time that the run measures, in the base unit of the rate: files, or
    /// bytes.
    pub amount: f64,
    /// The number as it was printed, in its own unit.
    pub printed: Option<String>,
}

/// The table as the report shows it: one column per target of the run and per published file
/// system.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// The title, which names the publication.
    pub title: String,
    /// The note that a reader needs for a comparison.
    pub note: String,
    /// Whether the first screen shows it too.
    pub first: bool,
    /// The orientation in the report. The rows and columns below are those of the layout by tests
    /// in either case.
    pub layout: PublishedLayout,
    /// The published file systems, in the table's order.
    pub file_systems: Vec<String>,
    /// The target that each published file system is, a place among the targets; null for one that
    /// the run does not have.
    pub counterparts: Vec<Option<usize>>,
    /// One row per published workload of the run.
    pub rows: Vec<PublishedRow>,
    /// The comparison of the order of the file systems with the published one; absent for a run
    /// with fewer than two of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<PublishedOrder>,
    /// The names of the targets, which figures refer to.
    #[serde(skip)]
    pub targets: Vec<String>,
    /// The figures that a page draws.
    #[serde(skip)]
    pub figures: Vec<PublishedFigure>,
    /// Targets of the run that this machine cannot make.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<String>,
}

/// One workload, with measured and published values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedRow {
    /// The name in the table.
    pub workload: String,
    /// The group of tests that it belongs to; absent if the table has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The property of the measured values that forbids a comparison: `from memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// The unit of its values.
    pub unit: Unit,
    /// The measured arithmetic means, by target; absent for a target without a value.
    pub ours: Vec<Option<f64>>,
    /// The published means, by file system in the table's order.
    pub theirs: Vec<Option<f64>>,
    /// Rates as they were printed, in their own unit, by file system; empty if values are printed
    /// in base units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<Option<String>>,
}

/// One file system as it was configured, with its value of each test.
pub(crate) struct Configuration<'v> {
    /// The target of the run, or the published name.
    pub(crate) name: &'v str,
    /// Whether it is published and not measured.
    pub(crate) published: bool,
    /// The values as text.
    pub(crate) values: Vec<String>,
}

impl Published {
    /// Returns the table with rows and columns exchanged: the targets of the run, then the
    /// published file systems.
    pub(crate) fn configurations<'v>(&'v self, targets: &[&'v str]) -> Vec<Configuration<'v>> {
        let of = |name: &'v str, published: bool, values: &dyn Fn(&PublishedRow) -> Option<f64>| {
            let mut values: Vec<String> = self
                .rows
                .iter()
                .map(|row| {
                    values(row)
                        .map_or_else(|| "–".to_owned(), |seconds| minutes(seconds, !published))
                })
                .collect();
            // The row of an unavailable target says so once.
            if let Some(first) = values
                .first_mut()
                .filter(|_| !published && self.unavailable.iter().any(|n| n == name))
            {
                NOT_HERE.clone_into(first);
            }
            Configuration {
                name,
                published,
                values,
            }
        };
        let ours = targets
            .iter()
            .enumerate()
            .map(|(at, name)| of(name, false, &|row| row.ours[at]));
        let theirs = self
            .file_systems
            .iter()
            .enumerate()
            .map(|(at, name)| of(name, true, &|row| row.theirs[at]));
        ours.chain(theirs).collect()
    }
}

/// Formats a time as minutes and seconds: `04:37`, or `04:37.00` if it is `exact`.
fn minutes(seconds: f64, exact: bool) -> String {
    let hundredths = (seconds * 100.0).round() as u64;
    let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
    let whole = format!("{minutes:02}:{:02}", rest / 100);
    if exact {
        format!("{whole}.{:02}", rest % 100)
    } else {
        whole
    }
}

impl PublishedRow {
    /// Returns the unit of the rates of a group, and its size in base units; absent for rows
    /// without groups.
    pub(crate) fn rate_unit(&self) -> Option<(&'static str, f64)> {
        self.group.as_ref()?;
        match self.unit {
            Unit::BytesPerSecond => Some(("MiB/s", MIB)),
            Unit::OperationsPerSecond => Some(("files/s", 1.0)),
            _ => None,
        }
    }

    /// Returns the name of the row in a table of both kinds of values, with the unit if the values
    /// are formatted without it.
    pub(crate) fn label(&self) -> String {
        match (self.rate_unit(), &self.here) {
            (Some((unit, _)), _) => format!("{}, {unit}", self.workload),
            (None, Some(here)) => format!("{} (here {here})", self.workload),
            (None, None) => self.workload.clone(),
        }
    }

    /// Returns the name of the row in a table of measured values.
    pub(crate) fn label_here(&self) -> String {
        match &self.here {
            Some(here) => format!("{}, {here}", self.workload),
            None => self.workload.clone(),
        }
    }

    /// Formats the published value at `place`, with the printed number in brackets if that is
    /// another one.
    pub(crate) fn show_theirs(&self, place: usize) -> String {
        let shown = self.show(self.theirs[place]);
        match self.printed.get(place).and_then(Option::as_ref) {
            Some(printed) if *printed != shown => format!("{shown} ({printed})"),
            _ => shown,
        }
    }

    /// Formats a value: times in microseconds, rates of a group as numbers, all others with their
    /// unit.
    pub fn show(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return "–".to_owned();
        };
        match self.rate_unit() {
            Some((_, size)) => {
                let rate = value / size;
                let decimals = if rate < 10.0 {
                    2
                } else {
                    usize::from(rate < 100.0)
                };
                format!("{rate:.decimals$}")
            }
            None if self.unit == Unit::Seconds => format!("{:.0} µs", value * 1e6),
            None => self.unit.show(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_follows_the_row_that_it_is_compared_with() {
        let row = |name: &str, ours: [Option<f64>; 2], theirs: f64| PublishedRow {
            workload: name.to_owned(),
            group: None,
            here: None,
            unit: Unit::Seconds,
            ours: ours.to_vec(),
            theirs: vec![Some(theirs)],
            printed: Vec::new(),
        };
        let mut rows = vec![
            row("all", [Some(9.0), Some(8.0)], 277.0),
            row("a", [Some(1.0), None], 6.0),
            row("b", [Some(2.5), Some(3.0)], 101.0),
        ];
        let of = |parts: &[&str]| PublishedSum {
            row: "sum".to_owned(),
            after: "all".to_owned(),
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
        };
        of(&["a", "c"]).add_to(&mut rows);
        assert_eq!(rows.len(), 3, "a part is missing");
        of(&["a", "b"]).add_to(&mut rows);
        assert_eq!(rows[1], row("sum", [Some(3.5), None], 107.0));
        assert_eq!(rows[2].workload, "a");
    }

    #[test]
    fn times_are_shown_as_they_were_printed() {
        assert_eq!(
            [minutes(277.0, false), minutes(6.0, false)],
            ["04:37", "00:06"]
        );
        assert_eq!(
            [
                minutes(0.354, true),
                minutes(59.996, true),
                minutes(6000.0, true)
            ],
            ["00:00.35", "01:00.00", "100:00.00"]
        );
    }
}
