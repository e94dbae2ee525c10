//! The view of a run.

use std::borrow::Cow;

use fsb_model::Better;
use fsb_stats::Verdict;

use crate::judged::Judged;
use crate::mark;
use crate::releases::Releases;
use crate::screen::Names;
use crate::show::{capital, counted};
use crate::summary::causes::Explanation;
use crate::summary::traced::TracedExplanation;
use crate::summary::{
    MeasuredCell, Summary, TrustLevel, Workload, bounds, costs, group_size, headline, neighbours,
    over, samples, scaling,
};
use crate::view::{CellView, Row, RowData, TrustView, View, Words, brief_legend, legend_of_marks};

/// The maximum number of rows of a run with a matrix that have sections of their own. The charts
/// over sizes show a matrix of hundreds of cells; the table has every cell.
const MOST_SECTIONS: usize = 60;

const WORDS: Words = Words {
    column: "target",
    row: "workload",
    value: "block",
    shown: 7,
    elsewhere: "the report",
};

/// Returns the view of a summary in which these releases are shortened.
pub(crate) fn from_summary<'a>(summary: &'a Summary, releases: &Releases) -> View<'a> {
    let rows: Vec<Row<'_>> = summary
        .cases
        .iter()
        .map(|workload| row(summary, workload))
        .collect();
    let explained = explained(summary);
    View {
        words: WORDS,
        title: summary.name.clone(),
        answer: summary.answer.clone(),
        overall: summary.overall_answer.clone(),
        names: summary.labels(),
        theta: summary.theta,
        unjudged: summary.unjudged.as_deref(),
        legend: legend(summary, &rows),
        explanation: explanation(summary, &rows),
        rows,
        findings: summary
            .findings
            .as_ref()
            .map(|findings| findings.iter().collect()),
        scaling: summary.scaling.iter().collect(),
        traced: with_places(summary),
        published: summary.published.as_ref(),
        claims: summary.claims.as_ref(),
        orders: summary.published_orders(),
        withheld_claims: summary
            .claims
            .as_ref()
            .and_then(|claims| claims.withheld.as_deref()),
        facts: releases.explain(&summary.facts),
        notes: notes(summary, &explained),
        explained,
        advice: summary.advice.as_deref(),
        problems: &summary.problems,
        trust: summary.trust.as_ref().map(|trust| TrustView {
            line: trust.line(),
            is_high: trust.level == TrustLevel::High,
            help: trust.help.clone(),
        }),
        warnings: &summary.warnings,
        urgent: summary.urgent,
        method: summary.method.clone(),
        group_size: group_size(&summary.cases),
        has_row_sections: summary.matrix.is_none() || summary.cases.len() <= MOST_SECTIONS,
        ..View::default()
    }
}

/// Returns the answer to `--explain`: a sentence for each difference, or the reason why there is
/// none. Returns nothing for a run that was not asked to explain.
fn explained(summary: &Summary) -> Vec<String> {
    let Some(blocks) = summary.traced_blocks else {
        return Vec::new();
    };
    if !summary.traced_explanations.is_empty() {
        return summary
            .traced_explanations
            .iter()
            .map(|found| {
                found.line(
                    summary
                        .explanations
                        .iter()
                        .find(|other| found.is_difference(other))
                        .map(|explanation| explanation.seconds),
                )
            })
            .collect();
    }
    let traced = counted(blocks as usize, "block");
    let why = match blocks {
        0 => "Nothing is explained: no block was traced; a larger --budget holds traced blocks."
            .to_owned(),
        _ if !summary.is_judged() => {
            format!("Nothing is explained: no difference is judged ({traced} traced).")
        }
        _ => format!("Nothing to explain: no significant difference ({traced} traced)."),
    };
    vec![why]
}

/// Returns the explanations by traced samples with the places of their targets.
fn with_places(summary: &Summary) -> Vec<(usize, &TracedExplanation)> {
    summary
        .traced_explanations
        .iter()
        .filter_map(|found| {
            Some((
                summary
                    .targets
                    .iter()
                    .position(|target| target.name == found.candidate)?,
                found,
            ))
        })
        .collect()
}

fn row<'a>(summary: &Summary, workload: &'a Workload) -> Row<'a> {
    let cells = summary.cells_of(workload);
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
        is_part: false,
        data: RowData::Workload(workload),
    }
}

fn cell(summary: &Summary, workload: &Workload, measured: &MeasuredCell) -> CellView {
    let absence = measured.absence().unwrap_or_default();
    let Some(estimate) = &measured.estimate else {
        return CellView {
            absence,
            ..CellView::default()
        };
    };
    let show = |value| workload.unit.show(value);
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let alone = !summary.is_comparison() && summary.unjudged.is_none();
    CellView {
        value: Some(show(estimate.value)),
        interval: interval
            .filter(|found| found.relative_half_width() <= 1.0)
            .map(|found| [show(found.lo), show(found.hi)]),
        half_width: interval
            .filter(|_| alone)
            .map(|interval| interval.relative_half_width()),
        judged: measured.against.as_ref().map(Judged::of_target),
        mark: mark(summary, measured),
        absence,
        unranked: false,
    }
}

/// Returns letters and signs if there are three targets or more, and else one sign; `~` marks
/// samples that differ among themselves, `‡` values that are not known to be what their case says.
pub(crate) fn mark(summary: &Summary, measured: &MeasuredCell) -> String {
    let against = measured.against.as_ref();
    let mut signs = match summary.targets.len() {
        2 => against
            .map(|against| mark::of_change(against.verdict))
            .unwrap_or_default(),
        _ => measured.mark.clone(),
    };
    if measured.not_stationary.is_some() {
        signs.push(mark::NOT_STATIONARY);
    }
    if !measured.unproven.is_empty() {
        signs.push(mark::UNPROVEN);
    }
    signs
}

/// Explains the table for a screen: shortened names, the baseline, marks.
fn legend(summary: &Summary, rows: &[Row<'_>]) -> Vec<String> {
    let labels: Vec<String> = summary.labels();
    let names = Names::new(labels.iter().map(String::as_str));
    let mut legend = names.legend();
    let marks = brief_legend(rows, summary.theta);
    if let Some(text) = baseline(summary, rows, names.shown(summary.baseline), marks) {
        legend.push(text);
    } else if !summary.is_comparison() && summary.unjudged.is_none() {
        // One or two blocks give no interval.
        if summary
            .estimates()
            .any(|estimate| estimate.interval.is_some() && estimate.is_judged())
        {
            legend.push("Estimate and half-width of its 95 % interval.".to_owned());
        }
    }
    legend
}

/// Explains the table with names in full.
fn explanation(summary: &Summary, rows: &[Row<'_>]) -> Option<String> {
    let together = (summary.targets.len() > 2).then_some("The intervals of a row hold together.");
    let marks = legend_of_marks(rows, summary.theta);
    let marks: Vec<&str> = together.into_iter().chain(marks.as_deref()).collect();
    let marks = (!marks.is_empty()).then(|| marks.join(" "));
    baseline(summary, rows, &summary.baseline_name(), marks).filter(|_| summary.compares())
}

/// Returns text such as `Change against ext4, 95 % interval per row. * more than 3 % faster or
/// slower.` All intervals of a page have this level: with more than two targets, those of a row
/// together. Returns `None` if nothing is compared.
fn baseline(
    summary: &Summary,
    rows: &[Row<'_>],
    name: &str,
    marks: Option<String>,
) -> Option<String> {
    let compared = || summary.cells().filter_map(|cell| cell.against.as_ref());
    compared().next()?;
    let is_judged = compared().any(|comparison| comparison.verdict != Verdict::NotJudged);
    let interval = match (is_judged, rows.len(), summary.targets.len()) {
        (false, ..) => "",
        (true, 1, 2) => " with 95 % interval, in this run",
        (true, 1, _) => " with 95 % intervals, all together, in this run",
        (true, ..) => ", 95 % interval per row",
    };
    let less = if rows.iter().any(|row| row.better == Better::Lower) {
        " Of times, less is better."
    } else {
        ""
    };
    let marks = marks.map(|marks| format!(" {marks}"));
    Some(format!(
        "Change against {name}{interval}.{}{less}",
        marks.unwrap_or_default()
    ))
}

/// Returns the findings that do not change the answer.
fn notes(summary: &Summary, explained: &[String]) -> Vec<String> {
    let stopped = summary.stopped.iter().filter(|_| !summary.ended_early);
    let stopped = stopped.map(|stopped| format!("The run ended after {stopped}."));
    let earlier = summary
        .earlier
        .iter()
        .map(|earlier| format!("{}.", capital(&earlier.line())));
    let mut notes = bounds::lines(summary);
    notes.extend(neighbours::lines(summary));
    notes.extend(headline::resolution_lines(summary));
    notes.extend(samples::total_time_line(summary));
    notes.extend(over::lines(summary));
    notes.extend(costs::deferred_line(summary));
    notes.extend(samples::sustained_lines(summary));
    notes.extend(samples::warm_up_line(summary));
    notes.extend(costs::lines(summary));
    // Traced samples divide the same difference into more causes.
    notes.extend(
        summary
            .explanations
            .iter()
            .filter(|found| {
                !summary
                    .traced_explanations
                    .iter()
                    .any(|traced| traced.is_difference(found))
            })
            .map(Explanation::line),
    );
    notes.extend(explained.iter().cloned());
    notes.extend(scaling::lines(summary));
    notes.extend(stopped.chain(earlier));
    notes
}

/// Returns the summary with each kernel's release in names shortened to the part that distinguishes
/// it, and the releases that were shortened. Programs get the names in full.
pub(crate) fn shortened(summary: &Summary) -> (Cow<'_, Summary>, Releases) {
    let releases = Releases::from_names(summary.targets.iter().map(|target| target.name.as_str()));
    if releases.is_empty() {
        return (Cow::Borrowed(summary), releases);
    }
    let mut summary = summary.clone();
    let Summary {
        numbers,
        headline,
        answer,
        overall_answer,
        advice,
        stopped,
        trust,
        warnings,
        problems,
        published,
        method,
        findings,
        ..
    } = &mut summary;
    let trust = trust
        .iter_mut()
        .flat_map(|trust| trust.because.iter_mut().chain(&mut trust.help));
    let published = published
        .iter_mut()
        .flat_map(|found| &mut found.unavailable);
    let findings = findings.iter_mut().flatten().map(|found| &mut found.text);
    [&mut numbers.name, headline, answer]
        .into_iter()
        .chain(overall_answer.iter_mut().chain(advice).chain(stopped))
        .chain(numbers.targets.iter_mut().map(|target| &mut target.name))
        .chain(numbers.cases.iter_mut().map(|case| &mut case.finding))
        .chain(warnings.iter_mut().chain(problems))
        .chain(method.iter_mut().map(|paragraph| &mut paragraph.text))
        .chain(trust.chain(published).chain(findings))
        .for_each(|text| *text = releases.shorten(text));
    (Cow::Owned(summary), releases)
}
