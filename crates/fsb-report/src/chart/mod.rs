//! The charts of runs and comparisons. A new chart needs a file and a line in [`CHARTS`].
//!
//! A chart is a Plotly figure in JSON. This module makes it and the page's script draws it. Colours
//! are names of the page's style variables (`var(--t0)`); the script inserts the values, so that
//! charts follow light, dark and print. The tables of the page contain every number of a chart as
//! well.

mod boxes;
mod cache_warm_up;
mod classes;
mod cycles;
mod flame;
mod heat;
mod latency;
pub(crate) mod look;
mod means;
mod medians;
mod over_time;
mod published;
mod ratios;
mod requests;
mod runs;
mod scaling;
mod scatter;
mod surface;
mod timeline;
mod trials;
mod values;

use look::{Chart, ChartKind, Draw};

use crate::compare::detail::Fixed;
use crate::view::{Row, View};

/// Every chart, in the order of the page.
static CHARTS: &[ChartKind] = &[
    ratios::KIND,
    scaling::KIND,
    boxes::KIND,
    published::KIND,
    classes::KIND,
    flame::KIND,
    requests::KIND,
    trials::KIND,
    values::KIND,
    latency::KIND,
    timeline::KIND,
    cache_warm_up::KIND,
    cycles::KIND,
    runs::KIND,
    over_time::KIND,
    medians::BY_FILE_SIZE,
    medians::BY_RECORD_SIZE,
    scatter::KIND,
    heat::KIND,
    means::KIND,
    surface::KIND,
];

/// Returns the kinds of charts for a view. Every chart compares, so a view in which nothing is
/// judged has none.
fn kinds(view: &View<'_>) -> impl Iterator<Item = &'static ChartKind> {
    CHARTS.iter().filter(|_| view.unjudged.is_none())
}

/// Returns the charts of the overview.
pub(crate) fn overview(view: &View<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Overview(draw) => Some(draw(view, kind.name)),
        _ => None,
    });
    kinds.flatten().collect()
}

/// Returns the charts of the row at `place`.
pub(crate) fn of_row(view: &View<'_>, row: &Row<'_>, place: usize) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Row(draw) => Some(draw(view, row, kind.name, place)),
        _ => None,
    });
    kinds.flatten().collect()
}

/// Returns the charts of one size in detail.
pub(crate) fn of_size(view: &View<'_>, fixed: &Fixed<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Size(draw) => Some(draw(view, fixed, kind.name)),
        _ => None,
    });
    kinds.collect()
}

/// Returns the panels for all rows together.
pub(crate) fn panels(view: &View<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Panel(draw) => draw(view, kind.name),
        _ => None,
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_names_of_their_own() {
        for (index, kind) in CHARTS.iter().enumerate() {
            assert!(
                CHARTS[..index].iter().all(|other| other.name != kind.name),
                "{}",
                kind.name
            );
            assert!(
                !kind.name.is_empty()
                    && kind
                        .name
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b == b'-')
            );
        }
    }
}
