//! `docs/five-works.md`: the requirements of the five works, and what the last execution of their
//! commands found.

use std::fmt::Write;

use fsb_testkit::five_works::{DONE, Results, Row, State, WORKS, Work, results, work};

/// Returns the page.
///
/// # Panics
/// Panics if the files of the works are not valid, or contradict the results.
pub(super) fn page() -> String {
    let mut page = include_str!("five_works.md").to_owned();
    let works = WORKS.map(|name| {
        let work = work(name).unwrap_or_else(|error| panic!("{error}"));
        let results = results(name, &work).unwrap_or_else(|error| panic!("{error}"));
        (work, results)
    });
    page += "| work | rows | works | partly | no | ✓ |\n|---|--:|--:|--:|--:|--:|\n";
    let mut all = [0; 5];
    for (work, results) in &works {
        let title = &work.title;
        let anchor = title.to_lowercase().replace(' ', "-").replace('.', "");
        let counts = counts(work, results);
        page += &count_line(&format!("[{title}](#{anchor})"), counts);
        for (sum, count) in all.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    page += &count_line("all", all);
    for (work, results) in &works {
        section(&mut page, work, results);
    }
    page
}

/// Returns the numbers of rows of a work: all, those of each state, and the executed ones.
fn counts(work: &Work, results: &Results) -> [usize; 5] {
    let mut counts = [work.rows.len(), 0, 0, 0, 0];
    for row in &work.rows {
        counts[match row.state {
            State::Works => 1,
            State::Partly => 2,
            State::No => 3,
        }] += 1;
        counts[4] += usize::from(is_done(row, results) && !row.planned);
    }
    counts
}

fn count_line(name: &str, [rows, works, partly, no, done]: [usize; 5]) -> String {
    format!("| {name} | {rows} | {works} | {partly} | {no} | {done} |\n")
}

fn is_done(row: &Row, results: &Results) -> bool {
    results
        .rows
        .get(&row.key())
        .is_some_and(|last| last.result == DONE)
}

/// Appends the section of a work.
fn section(page: &mut String, work: &Work, results: &Results) {
    let mut executions: Vec<String> = Vec::new();
    for last in results.rows.values() {
        executions.push(format!("on {} with {}", last.date, last.with));
    }
    executions.sort();
    executions.dedup();
    let _ = write!(
        page,
        "\n## {}\n\n{}\nExecuted {}.\n\n",
        work.title,
        work.text,
        executions.join(", ")
    );
    page.push_str("| requirement (place) | with `fsb` | state |\n|---|---|---|\n");
    for row in &work.rows {
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            row.key(),
            row.with,
            state(row, results)
        );
    }
}

/// Returns the cell of the state: the state, whether it was executed, and the remarks.
fn state(row: &Row, results: &Results) -> String {
    let mut cell = row.state.to_string();
    if is_done(row, results) {
        cell += if row.planned { " ○" } else { " ✓" };
    }
    if row.note.starts_with('(') {
        cell += " ";
    } else if !row.note.is_empty() {
        cell += ": ";
    }
    cell += &row.note;
    let mut reason = row.untried.as_str();
    if !row.script.is_empty() && !is_done(row, results) {
        reason = &results.rows[&row.key()].result;
    }
    if !reason.is_empty() {
        let _ = write!(cell, "; not executed: {reason}");
    }
    cell
}
