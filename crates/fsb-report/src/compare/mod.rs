//! The view of a comparison of sets, measured or imported: rows, headline, facts and notes. The
//! numbers are those of [`fsb_stats::compare`].

pub(crate) mod between;
pub(crate) mod detail;
mod method;
pub(crate) mod sections;

use fsb_stats::Resolution;
use std::borrow::Cow;

use between::{condition_text, power_of, remedy_of, unjudged_at, unjudged_of};
use fsb_model::units::Bytes;
use fsb_model::{Better, metric};
use fsb_stats::compare::{
    ALL, BySet, Classic, Document, Finding, Grid, OURS, Operation, SetSummary, Slice,
};
use fsb_stats::{FEWEST_RUNS_JUDGED, RankingOutcome, Verdict};

use crate::answer::{CountedOutcome, RowAnswer, TallyWords, tally, unjudged_answer};
use crate::mark;
use crate::operation::{OperationRow, SetStatistics, is_about};
use crate::releases::Releases;
use crate::screen::Names;
use crate::show::{capital, counted, listed, listed_or_counted};
use crate::view::{
    CellView, Detail, DetailLine, Row, RowData, View, Words, brief_legend, legend_of_marks,
};

pub(crate) use crate::operation::Selection;

const WORDS: Words = Words {
    column: "set",
    row: "operation",
    value: "value",
    shown: 10,
    elsewhere: "the formats markdown, html and json",
};

/// With fewer runs than this, a note states how few they are.
const FEW_RUNS: usize = 5;

/// Returns the view of a comparison, or of one operation of it in detail.
pub(crate) fn view(selection: Selection<'_>) -> View<'_> {
    let (document, sets) = (selection.document, selection.sets());
    let names: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
    let mut rows = rows(selection);
    for row in &mut rows {
        row.sentence = sentence(document, &names, row);
    }
    let findings: Vec<&Finding> = document
        .findings
        .iter()
        .filter(|found| {
            selection
                .operations()
                .any(|operation| is_about(found, operation))
        })
        .collect();
    let mut view = View {
        words: Words {
            value: value_word(&sets),
            ..WORDS
        },
        title: title(&names),
        answer: headline(selection, &names, &rows),
        rows,
        theta: document.settings.theta,
        unjudged: document.unjudged.as_deref(),
        in_detail: selection.detail.is_some(),
        findings: Some(findings).filter(|findings| !findings.is_empty()),
        facts: facts(document, &sets),
        warnings: &document.warnings,
        urgent: document.urgent,
        conditions: document.conditions.iter().map(condition_text).collect(),
        changes: between::changes(&selection.by_target()),
        method: method::paragraphs(selection),
        names,
        group_size: 1,
        has_row_sections: true,
        ..View::default()
    };
    view.legend = legend(&view);
    view.explanation = explanation(&view);
    view.notes = notes(selection);
    view
}

fn value_word(sets: &[&SetSummary]) -> &'static str {
    let is_one_run = |set: &&SetSummary| set.blocks.is_some() && set.runs == 1;
    if sets.iter().all(is_one_run) {
        "block"
    } else if sets.iter().all(|set| set.blocks.is_none()) {
        "run"
    } else {
        WORDS.value
    }
}

/// Notes on comparisons between runs: the changes they can show, and the remedy where they are not
/// judged.
fn notes(selection: Selection<'_>) -> Vec<String> {
    let document = selection.document;
    if document.unjudged.is_some() || document.withheld {
        return Vec::new();
    }
    let remedy = remedy_of(document).map(|remedy| format!("{}.", capital(&remedy)));
    let few = document
        .sets
        .iter()
        .map(|set| set.runs)
        .filter(|runs| *runs >= FEWEST_RUNS_JUDGED)
        .min();
    let few = few.filter(|runs| *runs < FEW_RUNS && remedy.is_none() && document.sets.len() > 1);
    let few = few.map(|runs| {
        format!(
            "Only {}: intervals hold within one session.",
            counted(runs, "run")
        )
    });
    power_of(document)
        .into_iter()
        .chain(few)
        .chain(remedy)
        .collect()
}

fn title(names: &[String]) -> String {
    match names.len() {
        0..=4 => format!("Comparison: {}", names.join(", ")),
        n => format!("Comparison: {} and {} more", names[..3].join(", "), n - 3),
    }
}

/// Returns whether any row has letters.
fn is_judged(view: &View<'_>) -> bool {
    view.rows.iter().any(|row| {
        row.operation()
            .is_some_and(|found| found.operation.letters.values().any(Option::is_some))
    })
}

/// Explains the abbreviations and signs that occur in the table, and names the output with the
/// remaining values.
fn legend(view: &View<'_>) -> Vec<String> {
    let names = Names::new(view.names.iter().map(String::as_str));
    let mut notes = names.legend();
    if view.rows.is_empty() {
        return notes;
    }
    let mut note = "Geometric means.".to_owned();
    if view.compares() {
        let mut judged = view.cells().filter_map(|cell| cell.judged);
        let interval = match judged.any(|judged| judged.verdict != Verdict::NotJudged) {
            true if view.names.len() > 2 => ", 95 % interval of all pairs together",
            true => ", 95 % interval",
            false => "",
        };
        note = format!(
            "Geometric mean of {0}, and change against {0}{interval}.",
            names.shown(0)
        );
        if view.rows.iter().any(|row| row.better == Better::Lower) {
            note += " Of times, less is better.";
        }
    }
    notes.push(note);
    notes.extend(brief_legend(&view.rows, view.theta));
    let parts: Vec<&Row<'_>> = view
        .rows
        .iter()
        .filter(|row| row.is_part && !view.in_detail)
        .collect();
    if let Some(workload) = parts
        .first()
        .and_then(|row| row.operation()?.operation.workload.as_deref())
    {
        notes.push(format!(
            "{} of totals: --detail {workload}",
            counted(parts.len(), "part")
        ));
    }
    let others: usize = view
        .rows
        .iter()
        .filter_map(Row::operation)
        .map(|found| found.others.len())
        .sum();
    if others > 0 {
        notes.push(format!(
            "Latencies and other metrics ({}) are in the other formats.",
            counted(others, "row")
        ));
    }
    notes
}

fn explanation(view: &View<'_>) -> Option<String> {
    (view.compares() && !view.rows.is_empty()).then(|| {
        let judged = if is_judged(view) {
            let level = if view.names.len() > 2 {
                "95 % interval of all pairs together"
            } else {
                "95 % interval"
            };
            let marks = legend_of_marks(&view.rows, view.theta).unwrap_or_default();
            format!(", {level}. {marks}")
        } else {
            ".".to_owned()
        };
        format!(
            "Geometric mean of {0}, and change against {0}{judged}",
            view.baseline()
        )
    })
}

/// Returns further tables, by size and by run. The iterator makes one at a time, because all tables
/// of thousands of runs would fill the memory.
pub(crate) fn details<'v>(view: &'v View<'_>) -> impl Iterator<Item = Detail> + 'v {
    view.rows
        .iter()
        .filter(|_| view.in_detail)
        .flat_map(|row| details_of_row(view, row))
}

/// Returns the tables of one operation size by size, then those with every value.
fn details_of_row<'v>(view: &'v View<'_>, row: &'v Row<'_>) -> impl Iterator<Item = Detail> + 'v {
    let names = &view.names;
    let operation = row.operation().map(|found| found.operation);
    let slices = operation.into_iter().flat_map(|operation| {
        [
            ("file size", &operation.by_file_size),
            ("record size", &operation.by_record_size),
        ]
    });
    let judged = slices
        .filter(|(_, slices)| !slices.is_empty())
        .map(|(varies, slices)| Detail {
            title: format!("{}, by {varies}:", row.label),
            varies,
            heads: None,
            lines: slices.iter().map(|slice| line(row, slice, names)).collect(),
        });
    judged.chain(
        operation
            .into_iter()
            .flat_map(|operation| detail::value_details(view, row, operation)),
    )
}

/// Returns the line of one size, with one cell per set.
fn line(row: &Row<'_>, slice: &Slice, names: &[String]) -> DetailLine {
    let operation = row.operation().map(|found| found.operation);
    let cells = names
        .iter()
        .filter_map(|name| Some(cell(operation?, &SetStatistics::of_slice(slice, name))))
        .collect();
    DetailLine {
        head: Bytes(slice.bytes).to_string(),
        column: None,
        cells,
    }
}

/// Returns the contents of each set, and the number of cells that the sets have in common.
fn facts(document: &Document, sets: &[&SetSummary]) -> Vec<String> {
    let mut facts: Vec<String> = sets.iter().map(|set| set_fact(set)).collect();
    let coverage = &document.coverage;
    if sets.len() > 1 {
        facts.push(format!("{} in common", counted(coverage.common, "cell")));
        let only = coverage.only.iter().filter(|(_, cells)| **cells > 0);
        facts.extend(only.map(|(set, cells)| format!("{cells} more only in {set}")));
    }
    facts
}

fn set_fact(set: &SetSummary) -> String {
    let version = set
        .version
        .as_deref()
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    let blocks = set
        .blocks
        .map(|blocks| format!(", {}", counted(blocks, "block")))
        .unwrap_or_default();
    format!(
        "{}: {}{version}, {}{blocks}",
        set.name,
        set.tool,
        counted(set.runs, "run")
    )
}

/// Returns the document with each kernel's release in names shortened to the part that
/// distinguishes it, and the releases that were shortened. Programs get the names in full.
pub(crate) fn shortened(document: &Document) -> (Cow<'_, Document>, Releases) {
    let releases = Releases::from_names(document.sets.iter().map(|set| set.name.as_str()));
    if releases.is_empty() {
        return (Cow::Borrowed(document), releases);
    }
    let mut document = document.clone();
    shorten_document(&mut document, &releases);
    for one in document.by_target.documents_mut() {
        shorten_document(one, &releases);
    }
    (Cow::Owned(document), releases)
}

fn shorten_document(document: &mut Document, releases: &Releases) {
    let shorten = |text: &mut String| *text = releases.shorten(text);
    shorten(&mut document.baseline);
    document
        .sets
        .iter_mut()
        .for_each(|set| shorten(&mut set.name));
    shorten_names(&mut document.coverage.only, releases);
    shorten_names(&mut document.missing, releases);
    document
        .operations
        .iter_mut()
        .for_each(|one| shorten_operation(one, releases));
    for found in &mut document.findings {
        [&mut found.text, &mut found.baseline, &mut found.candidate]
            .into_iter()
            .for_each(shorten);
    }
    document.warnings.iter_mut().for_each(shorten);
}

fn shorten_operation(operation: &mut Operation, releases: &Releases) {
    shorten_classic(&mut operation.classic, releases);
    shorten_names(&mut operation.estimate.against, releases);
    operation
        .grid
        .iter_mut()
        .for_each(|one| shorten_grid(one, releases));
    for slice in operation
        .by_file_size
        .iter_mut()
        .chain(&mut operation.by_record_size)
    {
        shorten_classic(&mut slice.classic, releases);
        shorten_grid(&mut slice.grid, releases);
    }
    for cell in &mut operation.cells {
        shorten_names(&mut cell.means, releases);
        shorten_names(&mut cell.values, releases);
        cell.classic
            .iter_mut()
            .for_each(|one| shorten_classic(one, releases));
        shorten_names(&mut cell.against, releases);
    }
    shorten_names(&mut operation.letters, releases);
    shorten_names(&mut operation.gaps, releases);
    shorten_names(&mut operation.latencies, releases);
    shorten_names(&mut operation.timelines, releases);
}

fn shorten_classic(classic: &mut Classic, releases: &Releases) {
    shorten_names(&mut classic.sets, releases);
    shorten_names(&mut classic.against, releases);
}

fn shorten_grid(grid: &mut Grid, releases: &Releases) {
    shorten_names(&mut grid.against, releases);
}

fn shorten_names<T>(map: &mut BySet<T>, releases: &Releases) {
    *map = std::mem::take(map)
        .into_iter()
        .map(|(name, value)| (releases.shorten(&name), value))
        .collect();
}

/// States the number of operations at which each set is fastest, the ties and the undecided ones.
/// The pool of all operations does not count unless it is the only row, and the parts of a total
/// count only in detail.
fn headline(selection: Selection<'_>, names: &[String], all: &[Row<'_>]) -> String {
    let (document, sets) = (selection.document, selection.sets());
    let rows: Vec<&Row<'_>> = all
        .iter()
        .filter(|row| operation(row).is_none_or(|found| found.operation != ALL) || all.len() == 1)
        .filter(|row| selection.detail.is_some() || !row.is_part)
        .collect();
    let word = if rows
        .iter()
        .any(|row| operation(row).is_some_and(|found| found.workload.is_some()))
    {
        "workload"
    } else {
        "operation"
    };
    match rows.as_slice() {
        [] if sets.is_empty() => return "There is nothing to compare.".to_owned(),
        [] if sets.len() > 1 => {
            return "There is nothing to compare: the sets have no cell in common.".to_owned();
        }
        _ if document.unjudged.is_some() => {
            let why = document.unjudged.as_deref().unwrap_or_default();
            let scope = format!(
                "{} of {}",
                counted(rows.len(), word),
                listed_or_counted(names, "set")
            );
            return unjudged_answer(why, &scope);
        }
        _ if sets.len() < 2 => {
            let (rows, runs) = (counted(rows.len(), word), counted(sets[0].runs, "run"));
            return format!(
                "{}: {rows} in {runs}; name a second set to compare them.",
                document.baseline
            );
        }
        [row] => return row.sentence.clone(),
        _ => {}
    }
    if rows
        .iter()
        .all(|row| matches!(row.outcome, RankingOutcome::NotJudged))
    {
        return described(selection, &rows, word);
    }
    let outcomes: Vec<CountedOutcome<'_>> = rows
        .iter()
        .map(|row| CountedOutcome {
            outcome: &row.outcome,
            resolution: None,
        })
        .collect();
    let words = TallyWords {
        best: if sets.len() == 2 { "faster" } else { "fastest" },
        row: word,
        alone: "in one set only",
        theta: document.settings.theta,
    };
    let tally = tally(names, &outcomes, words);
    let pairs = selection
        .operations()
        .flat_map(|operation| &operation.ranking.pairs);
    let judged = pairs.filter(|pair| pair.comparison.verdict != Verdict::NotJudged);
    let judged: Vec<&str> = judged
        .flat_map(|pair| [pair.baseline, pair.candidate])
        .filter_map(|place| Some(document.sets.get(place)?.name.as_str()))
        .collect();
    let few: Vec<&str> = sets
        .iter()
        .filter(|set| set.runs < FEWEST_RUNS_JUDGED && !judged.contains(&set.name.as_str()))
        .map(|set| set.name.as_str())
        .collect();
    let one_run = sets
        .iter()
        .all(|set| set.runs == 1 && set.pairing.is_some() && set.pairing == sets[0].pairing);
    let ours = sets.iter().any(|set| set.blocks.is_some());
    let tally = if one_run || !ours {
        tally
    } else {
        format!("In these runs, {tally}")
    };
    let tally = if document.coverage.common == 0 {
        format!("No {word} is in all sets. {tally}")
    } else {
        tally
    };
    if few.is_empty() {
        tally
    } else {
        format!("{tally} Left out, too few runs: {}.", listed(&few))
    }
}

/// Describes rows with too few runs for verdicts: the direction of the numbers, and that nothing is
/// judged.
fn described(selection: Selection<'_>, rows: &[&Row<'_>], word: &str) -> String {
    let all = counted(rows.len(), word);
    let mut pairs = selection
        .operations()
        .flat_map(|operation| &operation.ranking.pairs);
    // Targets of one run are judged by its blocks, whatever is known of other runs.
    let is_judged = pairs.any(|pair| pair.comparison.verdict != Verdict::NotJudged);
    if let Some(why) = unjudged_of(selection.document) {
        let within = if is_judged {
            "; only targets of one run are judged"
        } else {
            ""
        };
        return format!("{all}, {why}{within}.");
    }
    if is_judged {
        return format!("{all}: no winner among all sets; only targets of one run are judged.");
    }
    let sets = selection.sets();
    let [_, candidate] = sets.as_slice() else {
        return format!("{all}: described, not judged.");
    };
    if selection.document.withheld {
        return format!("{all}: described, not judged.");
    }
    let speed = |row: &&Row<'_>| Some(row.cells[1].judged?.speed(row.better).0);
    let better = rows
        .iter()
        .filter(|row| speed(row).is_some_and(|speed| speed > 1.0))
        .count();
    let worse = rows
        .iter()
        .filter(|row| speed(row).is_some_and(|speed| speed < 1.0))
        .count();
    format!(
        "{all}: described, not judged. The numbers of {} are better than those of {} at {better}, worse at {worse}.",
        candidate.name, selection.document.baseline
    )
}

/// Returns the conclusion that the data support at a row, in a sentence.
fn sentence(document: &Document, names: &[String], row: &Row<'_>) -> String {
    let changes: Vec<String> = (1..names.len())
        .filter_map(|set| change(&names[set], row, set))
        .collect();
    let details = match &row.outcome {
        _ if document.unjudged.is_some() || changes.is_empty() => String::new(),
        _ => format!(". Against {}: {}", document.baseline, changes.join("; ")),
    };
    let unjudged = match (&document.unjudged, document.withheld) {
        (Some(why), _) => format!(": {why}"),
        (None, true) => String::new(),
        (None, false) => {
            let why = operation(row)
                .and_then(unjudged_at)
                .or_else(|| unjudged_of(document));
            format!(
                ", {}",
                why.unwrap_or_else(|| "too few blocks or runs".to_owned())
            )
        }
    };
    RowAnswer {
        at: &row.label,
        names,
        outcome: match document.unjudged {
            Some(_) => &RankingOutcome::NotJudged,
            None => &row.outcome,
        },
        resolution: match row.outcome {
            RankingOutcome::Tie(_) => Some(Resolution::EqualWithin(document.settings.theta)),
            _ => None,
        },
        is_pair: names.len() == 2,
        unjudged,
        details,
    }
    .sentence()
}

/// Returns the change of a set with its verdict: `ext4 +12 % [+9 +16], faster`. Returns `None` if
/// it is not compared.
fn change(name: &str, row: &Row<'_>, set: usize) -> Option<String> {
    let judged = row.cells[set].judged?;
    let what = if row.better == Better::Higher {
        ""
    } else {
        " in time"
    };
    let verdict = match judged.verdict {
        Verdict::NotJudged => String::new(),
        verdict => format!(", {}", verdict.words()),
    };
    Some(format!("{name} {}{what}{verdict}", judged.change().text()))
}

fn operation<'a>(row: &Row<'a>) -> Option<&'a Operation> {
    row.operation().map(|found| found.operation)
}

/// Returns the rows of a selection in the document's order. Their sentences are still empty.
pub(crate) fn rows<'a>(selection: Selection<'a>) -> Vec<Row<'a>> {
    let sets = selection.sets();
    let place = |name: &str| {
        selection
            .document
            .sets
            .iter()
            .position(|other| other.name == name)
    };
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let places: Vec<usize> = names.iter().filter_map(|name| place(name)).collect();
    let mut groups: Vec<Vec<&'a Operation>> = Vec::new();
    for operation in selection.operations() {
        match groups.iter_mut().find(|group| {
            (&group[0].workload, &group[0].operation) == (&operation.workload, &operation.operation)
        }) {
            Some(group) => group.push(operation),
            None => groups.push(vec![operation]),
        }
    }
    let q = selection.document.settings.q;
    let ours = selection.document.sets.iter().all(|set| set.tool == OURS);
    let mut rows: Vec<Row<'a>> = groups
        .into_iter()
        .map(|group| row(group, &names, &places, (q, ours)))
        .collect();
    order_totals(&mut rows);
    rows
}

/// The operation that sums up the others of its workload: filebench's summary.
const TOTAL: &str = "total";

/// Moves the total of a workload before its parts, and marks the parts.
fn order_totals(rows: &mut [Row<'_>]) {
    let workload = |row: &Row<'_>| {
        row.operation()
            .and_then(|found| found.operation.workload.clone())
    };
    let is_total = |row: &Row<'_>| {
        row.operation()
            .is_some_and(|found| found.operation.operation == TOTAL)
    };
    let totals: Vec<String> = rows
        .iter()
        .filter(|row| is_total(row))
        .filter_map(workload)
        .collect();
    for row in rows.iter_mut() {
        row.is_part =
            !is_total(row) && workload(row).is_some_and(|workload| totals.contains(&workload));
    }
    // Workloads of one run stay together: only those that have a total are reordered.
    for total in &totals {
        let of_total = |row: &Row<'_>| workload(row).as_deref() == Some(total.as_str());
        let Some(first) = rows.iter().position(of_total) else {
            continue;
        };
        let length = rows[first..].iter().take_while(|row| of_total(row)).count();
        rows[first..first + length].sort_by_key(|row| row.is_part);
    }
}

fn row<'a>(
    mut group: Vec<&'a Operation>,
    names: &[&str],
    places: &[usize],
    (q, ours): (f64, bool),
) -> Row<'a> {
    let primary = group
        .iter()
        .position(|operation| operation.primary)
        .unwrap_or(0);
    let operation = group.remove(primary);
    let outcome = outcome(operation, places);
    let sets: Vec<SetStatistics<'a>> = names
        .iter()
        .map(|name| SetStatistics::of_operation(operation, name))
        .collect();
    let absence = |name: &str| {
        operation
            .gaps
            .get(name)
            .map_or("no values", |why| why.words())
    };
    let cells = sets.iter().enumerate().map(|(place, set)| CellView {
        mark: mark(operation, &outcome, place, names, set),
        absence: absence(names[place]),
        ..cell(operation, set)
    });
    Row {
        label: label(operation, ours),
        sentence: String::new(),
        better: operation.better,
        cells: cells.collect(),
        outcome,
        is_part: false,
        data: RowData::Operation(OperationRow {
            operation,
            others: group,
            places: places.to_vec(),
            sets,
            q,
        }),
    }
}

/// Returns the cell of a set, without a mark.
pub(super) fn cell(operation: &Operation, set: &SetStatistics<'_>) -> CellView {
    CellView {
        value: set.value.map(|value| operation.unit.show(value)),
        judged: set.judged,
        absence: "no values",
        ..CellView::default()
    }
}

/// Returns the name of a row. It contains the metric unless that is a rate. The label of the pool
/// says that it is one.
fn label(operation: &Operation, ours: bool) -> String {
    if operation.workload.is_none() && operation.operation == ALL {
        return "ALL, pooled".to_owned();
    }
    let name = case_label(operation.workload.as_deref(), &operation.operation, ours);
    if metric::is_latency(&operation.metric) {
        format!("{name} ({})", operation.metric.replace('_', " "))
    } else {
        name
    }
}

/// Returns the name of an operation of a workload. The workloads of FSBench name their operation.
/// Those of other tools have any name, so that the operation follows unless both are the same.
pub fn case_label(workload: Option<&str>, operation: &str, is_own: bool) -> String {
    let operation = operation.replace('_', " ");
    match workload {
        None => operation,
        Some(workload)
            if is_own
                || workload
                    .replace(['_', '-'], " ")
                    .eq_ignore_ascii_case(&operation) =>
        {
            workload.to_owned()
        }
        Some(workload) => format!("{workload}: {operation}"),
    }
}

/// Returns the outcome of the analysis with sets numbered by the view's columns, the baseline
/// first.
fn outcome(operation: &Operation, places: &[usize]) -> RankingOutcome {
    let place = |set: &usize| places.iter().position(|place| place == set).unwrap_or(*set);
    let all = |sets: &[usize]| sets.iter().map(place).collect();
    match &operation.ranking.outcome {
        RankingOutcome::Winner(set) => RankingOutcome::Winner(place(set)),
        RankingOutcome::Tie(sets) => RankingOutcome::Tie(all(sets)),
        RankingOutcome::Undecided(sets) => RankingOutcome::Undecided(all(sets)),
        RankingOutcome::NotJudged => RankingOutcome::NotJudged,
        // These sets have values, but their runs have too few cells in common for an estimate.
        RankingOutcome::Alone(_) | RankingOutcome::Nothing
            if operation.classic.sets.values().flatten().count() > 1 =>
        {
            RankingOutcome::NotJudged
        }
        RankingOutcome::Alone(set) => RankingOutcome::Alone(place(set)),
        RankingOutcome::Nothing => RankingOutcome::Nothing,
    }
}

fn mark(
    operation: &Operation,
    outcome: &RankingOutcome,
    place: usize,
    names: &[&str],
    set: &SetStatistics<'_>,
) -> String {
    let verdict = set.judged.map(|judged| judged.verdict);
    if names.len() == 2 {
        return verdict.map(mark::of_change).unwrap_or_default();
    }
    let letters = operation
        .letters
        .get(names[place])
        .and_then(Option::as_deref);
    mark::of_value(outcome, place, letters, verdict)
}
