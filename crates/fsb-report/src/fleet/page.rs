//! The answer of a fleet as an HTML page that needs no JavaScript and no server.

use askama::Template;

use super::document::{Fleet, FleetComparison};
use super::text::{change, explanation_text, left_out_text, summary_text, unmatched};
use crate::format::fleet_figures;
use crate::show::counted;

/// The input of the template.
#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage<'a> {
    fleet: &'a Fleet,
    title: String,
    /// The figure of all comparisons, as SVG.
    overview: String,
    sections: Vec<FleetSection<'a>>,
    unmatched: Vec<String>,
}

/// A comparison.
struct FleetSection<'a> {
    comparison: &'a FleetComparison,
    summary: String,
    explanation: Option<String>,
    left_out: Option<String>,
    /// The forest plot of the hosts, as SVG. Empty without hosts.
    forest: String,
    /// The change of speed of each host.
    changes: Vec<String>,
}

/// Returns the page.
pub fn page(fleet: &Fleet) -> String {
    let mut figures = fleet_figures(fleet).into_iter().map(|figure| figure.svg());
    let overview = figures.next().unwrap_or_default();
    let sections = fleet
        .comparisons
        .iter()
        .map(|comparison| section(comparison, &mut figures))
        .collect();
    let title = format!(
        "{} against {}",
        counted(fleet.hosts.len(), "host"),
        fleet.baseline
    );
    let page = FleetPage {
        fleet,
        title,
        overview,
        sections,
        unmatched: unmatched(fleet),
    };
    page.render().expect("writing to a string does not fail") + "\n"
}

fn section<'a>(
    comparison: &'a FleetComparison,
    figures: &mut impl Iterator<Item = String>,
) -> FleetSection<'a> {
    let forest = if comparison.hosts.is_empty() {
        String::new()
    } else {
        figures.next().unwrap_or_default()
    };
    let changes = comparison
        .hosts
        .iter()
        .map(|host| change(host.ratio, Some(host.interval), comparison.better));
    FleetSection {
        comparison,
        summary: comparison
            .together
            .as_ref()
            .map(|mean| summary_text(comparison, mean))
            .unwrap_or_default(),
        explanation: explanation_text(&comparison.explanation),
        left_out: left_out_text(&comparison.left_out),
        forest,
        changes: changes.collect(),
    }
}
