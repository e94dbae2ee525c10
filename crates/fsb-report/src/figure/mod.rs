//! The overview figure of a report, for a paper. It is laid out once; the formats draw it.

mod bars;
pub(crate) mod font;
mod forest;
mod marker;
mod plot;
pub(crate) mod scene;

use crate::report::Report;
use scene::Scene;

/// Lays the figure of a report out: changes against the baseline, or values if nothing is compared.
pub(crate) fn scene(report: &Report<'_>) -> Scene {
    let readable = report.readable();
    let view = readable.view();
    if forest::applies(&view) { forest::draw(&view) } else { bars::draw(&view) }
}

#[cfg(test)]
mod tests;
