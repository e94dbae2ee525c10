//! What is shown of a run.

use fsb_analysis::Verdict;
use fsb_model::Better;

use super::earlier::EarlierRun;
use super::summary::{Measured, Summary, TargetSummary, Trust, Workload};
use super::{costs, deferred, groups, rates, resolution, scaling, sustained};
use crate::judged::Judged;
use crate::mark;
use crate::screen::Names;
use crate::view::{CellView, Row, RowData, View, Words, legend_of_marks};

const WORDS: Words = Words { column: "target", row: "workload", told: 7, elsewhere: "the report" };

/// Of a summary.
pub(crate) fn of(summary: &Summary) -> View<'_> {
    let notes = beside_numbers(summary);
    let rows: Vec<Row<'_>> = summary.rows.iter().map(|workload| row(summary, workload)).collect();
    View {
        words: WORDS,
        title: summary.name.clone(),
        headline: summary.headline.clone(),
        names: summary.targets.iter().map(TargetSummary::label).collect(),
        theta: summary.theta,
        unjudged: summary.unjudged.as_deref(),
        legend: legend(summary, &rows, &notes),
        explanation: explanation(summary, &rows, &notes),
        rows,
        in_detail: false,
        findings: summary.findings.as_ref().map(|findings| findings.iter().collect()),
        scaling: summary.scaling.iter().collect(),
        published: summary.published.as_ref(),
        facts: summary.facts.clone(),
        stopped: summary.stopped.as_deref(),
        earlier: summary.earlier.as_ref().map(EarlierRun::line),
        notes,
        advice: summary.advice.as_deref(),
        problems: &summary.problems,
        trust: summary.trust.as_ref().map(Trust::line),
        warnings: &summary.warnings,
        urgent: summary.urgent,
        conditions: Vec::new(),
        method: summary.method.clone(),
        group_size: groups::size(&summary.rows),
    }
}

fn row<'a>(summary: &Summary, workload: &'a Workload) -> Row<'a> {
    let cells = summary.targets.iter().zip(&workload.cells);
    let cells = cells.map(|(target, measured)| CellView {
        unranked: target.unjudged.is_some(),
        ..cell(summary, workload, measured)
    });
    Row {
        label: workload.workload.clone(),
        sentence: workload.finding.clone(),
        better: workload.better,
        outcome: workload.ranking.outcome.clone(),
        cells: cells.collect(),
        data: RowData::Workload(workload),
    }
}

fn cell(summary: &Summary, workload: &Workload, measured: &Measured) -> CellView {
    let absence = measured.absence().unwrap_or_default();
    let Some(estimate) = &measured.estimate else { return CellView { absence, ..CellView::default() } };
    let show = |value| workload.unit.show(value);
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let alone = !summary.is_comparison() && summary.unjudged.is_none();
    CellView {
        value: Some(show(estimate.value)),
        interval: interval.map(|interval| [show(interval.lo), show(interval.hi)]),
        half_width: interval.filter(|_| alone).map(|interval| interval.relative_half_width()),
        judged: measured.against.as_ref().map(Judged::of_target),
        mark: if measured.not_stationary.is_some() { format!("{}~", measured.mark) } else { measured.mark.clone() },
        absence,
        unranked: false,
    }
}

/// What the signs of the table mean, where they occur.
fn legend(summary: &Summary, rows: &[Row<'_>], beside: &[String]) -> Vec<String> {
    let labels: Vec<String> = summary.targets.iter().map(TargetSummary::label).collect();
    let names = Names::of(labels.iter().map(String::as_str));
    let mut notes = names.legend();
    let compared = summary.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.against.as_ref());
    let (mut any, mut judged) = (false, false);
    for comparison in compared {
        any = true;
        judged |= comparison.verdict != Verdict::NotJudged;
    }
    if any {
        let interval = if judged { " with 95 % interval, in this run" } else { "" };
        let letters =
            if summary.is_judged() { format!(" {}", mark::same_letter(summary.theta)) } else { String::new() };
        let less =
            if summary.rows.iter().any(|row| row.better == Better::Lower) { " Of times, less is better." } else { "" };
        let reference = names.shown(summary.reference);
        notes.push(format!("Change against {reference}{interval}.{letters}{less}"));
    } else if !summary.is_comparison() && summary.unjudged.is_none() {
        let estimates = || summary.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.estimate.as_ref());
        // Of a block or two there is no interval.
        if estimates().any(|estimate| estimate.interval.is_some() && estimate.is_judged()) {
            notes.push("Estimate and half-width of its 95 % interval.".to_owned());
        }
    }
    notes.extend(legend_of_marks(rows));
    notes.extend(resolution::lines(summary));
    notes.extend(beside.iter().map(|line| names.shorten(line)));
    notes.extend(summary.advice.clone());
    notes
}

/// What rows hold beside their numbers: work left for later, no device, processors, curves.
fn beside_numbers(summary: &Summary) -> Vec<String> {
    let first = rates::line(summary).into_iter().chain(deferred::line(summary));
    first.chain(sustained::lines(summary)).chain(costs::lines(summary)).chain(scaling::lines(summary)).collect()
}

fn explanation(summary: &Summary, rows: &[Row<'_>], beside: &[String]) -> Option<String> {
    let compared = summary.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.against.is_some());
    (summary.compares() && compared).then(|| {
        let judged = match summary.is_judged() {
            true => format!(" with 95 % interval, in this run. {} ? undecided.", mark::same_letter(summary.theta)),
            false => ".".to_owned(),
        };
        let lines = legend_of_marks(rows).into_iter().chain(resolution::lines(summary));
        let lines: String = lines.chain(beside.iter().cloned()).map(|line| format!(" {line}")).collect();
        format!("Change against {}{judged}{lines}", summary.reference_name())
    })
}
