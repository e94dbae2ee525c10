//! The first screen: the answer, the table, and the basis of both.

use fsb_model::metric::Better;
use textwrap::core::display_width;

use super::member::Format;
use crate::compare;
use crate::mark::{NOT_STATIONARY, UNPROVEN};
use crate::report::Report;
use crate::screen::{CellPart, Names, ScreenColumn, WIDTH, cut, paint, paragraph, tables};
use crate::show::{TOO_WIDE, counted, percent};
use crate::summary::{
    Published, PublishedClaim, PublishedLayout, PublishedRow, Secondary, Workload,
};
use crate::view::{CellView, Detail, TrustView, View, brief_legend};

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen and its notes: headline, table, warnings",
    binary: false,
    checks: false,
    write: |report, output| output.write_all(screen(report, WIDTH, false, true).as_bytes()),
};

/// The screen counts targets without a value beyond this number.
const PROBLEMS: usize = 3;
/// The screen counts explanations beyond this number.
const EXPLAINED: usize = 2;
/// The answer so far has no table in fewer columns.
pub const TABLE_WIDTH: usize = 70;
/// The command that prints what the screen leaves out.
const NOTES: &str = "fsb report --notes";

/// Returns the first screen in `width` columns (80 at least), with colours if `color` is true, and
/// with all notes and warnings if `notes` is true. Lines end without spaces; the last one with a
/// newline.
pub fn screen(report: &Report<'_>, width: usize, color: bool, notes: bool) -> String {
    let readable = report.readable();
    let mut view = readable.view();
    let is_single = view.rows.len() == 1 && view.trust.is_some();
    if is_single {
        // The headline is the row's verdict in words.
        let cells = view.rows.iter_mut().flat_map(|row| &mut row.cells);
        cells.for_each(|cell| {
            cell.mark
                .retain(|sign| [NOT_STATIONARY, UNPROVEN].contains(&sign));
        });
    }
    let names = Names::new(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, color);
    for warning in view.first_warnings() {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
    changes(&mut screen, &view);
    screen.say(&view.headline(), "", "");
    if is_single {
        screen.compact();
    }
    table(&mut screen, &view, &names);
    let of_one = is_single
        .then(|| brief_legend(&view.rows, view.theta))
        .flatten();
    for note in of_one
        .iter()
        .chain(view.legend.iter().filter(|_| !is_single))
    {
        screen.say(note, "  ", "  ");
    }
    for detail in compare::details(&view) {
        screen.detail(&detail, &names);
    }
    findings(&mut screen, &view);
    if !notes {
        explained(&mut screen, &view, &names);
    }
    tables_of(&mut screen, &view, &names);
    claims_of(&mut screen, &view);
    for sentence in view.orders.iter().copied().chain(view.withheld_claims) {
        screen.gap();
        screen.say(sentence, "", "");
    }
    match &view.trust {
        Some(trust) => conclusion(&mut screen, &view, trust, is_single, notes),
        None => basis(&mut screen, &view),
    }
    if notes {
        for note in view.notes.iter().filter(|_| view.trust.is_some()) {
            screen.say(&format!("note: {}", names.shorten(note)), "", "  ");
        }
        for warning in view.warnings.iter().filter(|_| view.trust.is_some()) {
            screen.say(&format!("warning: {warning}"), "", "  ");
        }
    }
    screen.text()
}

/// Prints the changes of targets: the answer to "what changed" precedes the table of all sets.
fn changes(screen: &mut Lines, view: &View<'_>) {
    for found in &view.changes {
        screen.say(&format!("{}:", found.title), "", "");
        for set in &found.sets {
            for (place, line) in set.iter().enumerate() {
                let indent = if place == 0 { "  " } else { "    " };
                screen.say(line, indent, indent);
            }
        }
        screen.gap();
    }
    if !view.changes.is_empty() {
        screen.say("All sets:", "", "");
    }
}

/// Prints the end of a run's screen, a line each: targets without a value, the most severe warning,
/// the environment and the trust.
fn conclusion(
    screen: &mut Lines,
    view: &View<'_>,
    trust: &TrustView,
    is_single: bool,
    notes: bool,
) {
    for problem in view.problems.iter().take(PROBLEMS) {
        screen.say(problem, "", "  ");
    }
    let more = view.problems.len().saturating_sub(PROBLEMS);
    if more > 0 {
        screen.say(
            &format!("and {more} more without a value: {NOTES}"),
            "  ",
            "  ",
        );
    }
    if let Some((first, others)) = view.warnings[..view.urgent]
        .split_first()
        .filter(|_| !notes)
    {
        let warning = format!("warning: {first}");
        let more = match others.len() {
            0 if screen.fits(&warning) => String::new(),
            0 => format!(" ({NOTES})"),
            more => format!(" (+{more} more: {NOTES})"),
        };
        screen.line(&warning, &more);
    }
    let mut facts = view.facts.clone();
    if is_single && view.cells().any(|cell| cell.verdict().is_some()) {
        let is_less_better = view.rows.iter().any(|row| row.better == Better::Lower);
        let less = is_less_better.then(|| "less is better".to_owned());
        let level = if view.names.len() > 2 {
            "95 % intervals, together"
        } else {
            "95 % interval"
        };
        facts.splice(0..0, [level.to_owned()].into_iter().chain(less));
    }
    let is_plain = is_single && trust.is_high && view.advice.is_none();
    if is_plain {
        facts.push("trust: high".to_owned());
    }
    if notes {
        screen.say(&facts.join(" · "), "", "  ");
    } else {
        screen.parts(&facts);
    }
    if !is_plain {
        let help = view.remedy().map(|help| format!("; {help}"));
        screen.say(
            &format!("{}{}", trust.line, help.unwrap_or_default()),
            "",
            "  ",
        );
    }
}

/// Prints the end of a comparison's screen, or of a run without any value: all of it.
fn basis(screen: &mut Lines, view: &View<'_>) {
    screen.gap();
    screen.say(&view.facts.join(" · "), "", "  ");
    for note in &view.notes {
        screen.say(&format!("note: {note}"), "", "  ");
    }
    for problem in view.problems {
        screen.say(problem, "", "  ");
    }
    for warning in view.later_warnings() {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
}

/// Returns the answer and the table of a run that continues, with the verdicts that the run would
/// have if it ended now; in fewer than [`TABLE_WIDTH`] columns, the answer alone. `made` and
/// `planned` are numbers of blocks. The marks of the table are explained if `legend` is true.
/// Returns `None` if nothing is judged yet.
pub fn answer_so_far(
    report: &Report<'_>,
    (made, planned): (u32, u32),
    width: usize,
    legend: bool,
) -> Option<String> {
    let readable = report.readable();
    let view = readable.view();
    let headline = headline_so_far(&view, (made, planned))?;
    if width < TABLE_WIDTH {
        return Some(textwrap::fill(&headline, width));
    }
    let names = Names::new(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, false);
    screen.say(&headline, "", "");
    table(&mut screen, &view, &names);
    if legend {
        for note in &view.legend {
            screen.say(note, "  ", "  ");
        }
    }
    Some(screen.text())
}

/// Returns the first sentences of a report, in lines of `width` columns.
pub fn headline(report: &Report<'_>, width: usize) -> String {
    textwrap::fill(&report.readable().view().headline(), width)
}

/// Returns the first sentences of [`answer_so_far`].
fn headline_so_far(view: &View<'_>, (made, planned): (u32, u32)) -> Option<String> {
    let is_judged = view.cells().any(|cell| cell.verdict().is_some());
    // A budget that holds more blocks than were planned makes more.
    let blocks = match made < planned {
        true => format!("{made} of {}", counted(planned as usize, "block")),
        false => counted(made as usize, "block"),
    };
    is_judged.then(|| format!("So far, {blocks}: {}", view.headline()))
}

/// Returns the table alone, for a run that continues: each row with its present intervals. Verdicts
/// are given from the first interim analysis on, so the table has no marks of verdicts.
pub fn table_so_far(report: &Report<'_>, width: usize) -> String {
    let readable = report.readable();
    let mut view = readable.view();
    view.rows
        .iter_mut()
        .flat_map(|row| &mut row.cells)
        .for_each(|cell| cell.mark.clear());
    let names = Names::new(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, false);
    table(&mut screen, &view, &names);
    screen.text()
}

fn table(screen: &mut Lines, view: &View<'_>, names: &Names) {
    let shown = || {
        view.rows
            .iter()
            .filter(|row| view.in_detail || !row.is_part)
    };
    let labels: Vec<&str> = shown().map(|row| row.label.as_str()).collect();
    let rows: Vec<&[CellView]> = shown().map(|row| row.cells.as_slice()).collect();
    screen.table(&labels, &rows, |column| names.shown(column));
}

/// Prints the widest findings and counts the others.
fn findings(screen: &mut Lines, view: &View<'_>) {
    let Some(found) = &view.findings else { return };
    screen.gap();
    if found.is_empty() {
        let text = format!(
            "No region of sizes differs significantly by more than {}.",
            percent(view.theta)
        );
        return screen.say(&text, "", "");
    }
    for finding in found.iter().take(view.words.shown) {
        screen.say(&finding.text, "- ", "  ");
    }
    let more = found.len().saturating_sub(view.words.shown);
    if more > 0 {
        screen.say(
            &format!(
                "and {} in {}",
                counted(more, "more finding"),
                view.words.elsewhere
            ),
            "  ",
            "  ",
        );
    }
}

/// Prints the first explanations by traced samples, and where the others are.
fn explained(screen: &mut Lines, view: &View<'_>, names: &Names) {
    for line in view.explained.iter().take(EXPLAINED) {
        screen.say(&names.shorten(line), "", "  ");
    }
    let more = view.explained.len().saturating_sub(EXPLAINED);
    if more > 0 {
        screen.say(
            &format!("and {}: {NOTES}", counted(more, "more explanation")),
            "  ",
            "  ",
        );
    }
}

/// If a table has one column per run, columns beyond this number follow in further tables.
const RUNS: usize = 6;

/// A screen under construction.
pub(super) struct Lines {
    width: usize,
    color: bool,
    /// Whether tables follow without an empty line.
    compact: bool,
    lines: Vec<String>,
}

impl Lines {
    pub(super) fn new(width: usize, color: bool) -> Lines {
        Lines {
            width: width.max(WIDTH),
            color,
            compact: false,
            lines: Vec::new(),
        }
    }

    fn compact(&mut self) {
        self.compact = true;
    }

    pub(super) fn text(self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn gap(&mut self) {
        self.lines.push(String::new());
    }

    fn say(&mut self, text: &str, first: &str, rest: &str) {
        paragraph(&mut self.lines, self.width, text, first, rest);
    }

    /// Returns whether a text fits one line.
    pub(super) fn fits(&self, text: &str) -> bool {
        display_width(text) <= self.width
    }

    /// Prints one line: a text, cut if it is too long, then `after` in full.
    pub(super) fn line(&mut self, text: &str, after: &str) {
        let room = self.width.saturating_sub(display_width(after));
        self.lines.push(cut(text, room) + after);
    }

    /// Prints parts as one line, without the longest ones if all are too long.
    fn parts(&mut self, parts: &[String]) {
        const BETWEEN: &str = " · ";
        let mut kept: Vec<&str> = parts.iter().map(String::as_str).collect();
        while kept.len() > 1 && display_width(&kept.join(BETWEEN)) > self.width {
            let longest = (0..kept.len())
                .max_by_key(|place| display_width(kept[*place]))
                .unwrap_or_default();
            kept.remove(longest);
        }
        self.line(&kept.join(BETWEEN), "");
    }

    /// Prints a table with one row per label and as many columns as the rows have cells.
    pub(super) fn table<'t>(
        &mut self,
        labels: &[&str],
        rows: &[&[CellView]],
        title: impl Fn(usize) -> &'t str,
    ) {
        let width = rows.first().map_or(0, |cells| cells.len());
        let columns: Vec<ScreenColumn> = (0..width)
            .map(|place| {
                ScreenColumn::new(
                    title(place),
                    rows.iter().map(|cells| set(&cells[place])).collect(),
                )
            })
            .collect();
        self.columns(labels, &columns);
    }

    pub(super) fn columns(&mut self, labels: &[&str], columns: &[ScreenColumn]) {
        let lines = tables(labels, columns, self.width, self.color);
        self.lines.extend(
            lines
                .into_iter()
                .filter(|line| !(self.compact && line.is_empty())),
        );
    }

    pub(super) fn detail(&mut self, detail: &Detail, names: &Names) {
        self.gap();
        self.say(&detail.title, "", "");
        let label = |column: Option<usize>, head: &str| match column {
            Some(column) => format!("{head} {}", names.shown(column))
                .trim_start()
                .to_owned(),
            None => head.to_owned(),
        };
        let labels: Vec<String> = detail
            .lines
            .iter()
            .map(|line| label(line.column, &line.head))
            .collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let Some(heads) = &detail.heads else {
            let rows: Vec<&[CellView]> = detail
                .lines
                .iter()
                .map(|line| line.cells.as_slice())
                .collect();
            return self.table(&labels, &rows, |column| names.shown(column));
        };
        for (place, heads) in heads.chunks(RUNS).enumerate() {
            let from = place * RUNS;
            let rows: Vec<&[CellView]> = detail
                .lines
                .iter()
                .map(|line| &line.cells[from..from + heads.len()])
                .collect();
            self.table(&labels, &rows, |column| &heads[column]);
        }
    }
}

/// Returns a cell and its colour.
fn set(cell: &CellView) -> (CellPart, Option<comfy_table::Color>) {
    let part = match (&cell.judged, &cell.value, cell.half_width) {
        (Some(judged), ..) => CellPart::Change(judged.change(), cell.mark.clone()),
        (None, Some(value), Some(half_width)) => {
            let half = half_width * 100.0;
            let decimals = if half < 9.95 { 1 } else { 0 };
            let half = if half > 100.0 {
                format!("({TOO_WIDE})")
            } else {
                format!("±{half:.decimals$} %")
            };
            CellPart::Value(format!("{value} {half}"), String::new())
        }
        (None, Some(value), None) => CellPart::Value(value.clone(), cell.mark.clone()),
        (None, None, _) => CellPart::Words(cell.absence.to_owned()),
    };
    (part, cell.judged.and_then(|judged| paint(judged.verdict)))
}

fn tables_of(screen: &mut Lines, view: &View<'_>, names: &Names) {
    let Some(published) = view.published.filter(|published| published.first) else {
        return;
    };
    screen.gap();
    screen.say(&published.title, "", "");
    match published.layout {
        PublishedLayout::Tests => published_tests(screen, view, names, published, &published.rows),
        PublishedLayout::Configurations => published_configurations(screen, view, published),
        PublishedLayout::Rates => published_rates(screen, view, names, published),
    }
}

/// Prints published statements, each beside the values of the run.
fn claims_of(screen: &mut Lines, view: &View<'_>) {
    let Some(claims) = view.claims.filter(|claims| claims.first) else {
        return;
    };
    screen.gap();
    screen.say(&claims.title, "", "");
    for (group, rows) in claims.groups() {
        screen.gap();
        screen.say(&format!("{group}:"), "", "");
        let labels: Vec<&str> = rows.iter().map(|claim| claim.test.as_str()).collect();
        let column = |title: &str, text: &dyn Fn(&PublishedClaim) -> String| {
            ScreenColumn::new(
                title,
                rows.iter()
                    .map(|claim| (CellPart::Value(text(claim), String::new()), None))
                    .collect(),
            )
        };
        let here = column("here", &PublishedClaim::show_here);
        screen.columns(
            &labels,
            &[here, column("published", &|claim| claim.published.clone())],
        );
    }
}

/// Prints published values with one row per test and one column per file system.
fn published_tests(
    screen: &mut Lines,
    view: &View<'_>,
    names: &Names,
    published: &Published,
    rows: &[PublishedRow],
) {
    let here: Vec<String> = rows.iter().map(PublishedRow::label_here).collect();
    let here: Vec<&str> = here.iter().map(String::as_str).collect();
    let labels: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
    let column = |title: &str, text: &dyn Fn(&PublishedRow) -> String| {
        ScreenColumn::new(
            title,
            rows.iter()
                .map(|row| (CellPart::Value(text(row), String::new()), None))
                .collect(),
        )
    };
    let ours: Vec<ScreenColumn> = (0..view.names.len())
        .map(|target| column(names.shown(target), &|row| row.show(row.ours[target])))
        .collect();
    let theirs: Vec<ScreenColumn> = published
        .file_systems
        .iter()
        .enumerate()
        .map(|(at, name)| column(name, &|row| row.show_theirs(at)))
        .collect();
    screen.columns(&here, &ours);
    screen.gap();
    screen.say("Published:", "", "");
    screen.columns(&labels, &theirs);
}

/// Prints each group of rates with its unit: measured values, then published ones.
fn published_rates(screen: &mut Lines, view: &View<'_>, names: &Names, published: &Published) {
    for rows in published.rows.chunk_by(|a, b| a.group == b.group) {
        let unit = rows[0]
            .rate_unit()
            .map(|(unit, _)| format!(", {unit}"))
            .unwrap_or_default();
        screen.gap();
        screen.say(
            &format!("{}{unit}:", rows[0].group.as_deref().unwrap_or_default()),
            "",
            "",
        );
        published_tests(screen, view, names, published, rows);
    }
}

/// Prints published values with one row per file system and one column per test: measured values,
/// then published ones.
fn published_configurations(screen: &mut Lines, view: &View<'_>, published: &Published) {
    let targets: Vec<&str> = view.names.iter().map(String::as_str).collect();
    let (theirs, ours): (Vec<_>, Vec<_>) = published
        .configurations(&targets)
        .into_iter()
        .partition(|configuration| configuration.published);
    for (part, title) in [(ours, None), (theirs, Some("Published:"))] {
        if let Some(title) = title {
            screen.gap();
            screen.say(title, "", "");
        }
        let labels: Vec<&str> = part
            .iter()
            .map(|configuration| configuration.name)
            .collect();
        let columns: Vec<ScreenColumn> = published
            .rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                ScreenColumn::new(
                    &row.workload,
                    part.iter()
                        .map(|one| (CellPart::Value(one.values[at].clone(), String::new()), None))
                        .collect(),
                )
            })
            .collect();
        screen.columns(&labels, &columns);
    }
}

/// The metrics of the columns, and the titles of the columns.
const COLUMNS: [(&str, &str); 4] = [
    ("latency_p50", "p50"),
    ("latency_p99", "p99"),
    ("latency_p999", "p99.9"),
    (LONGEST, "longest"),
];
/// The metric of the longest operation.
const LONGEST: &str = "latency_max";

/// Returns percentiles of each row in `width` columns (80 at least): means over the blocks with the
/// half-widths of their 95 % intervals. Empty for a comparison, because its inputs may be of other
/// tools.
pub fn tails(report: &Report<'_>, width: usize) -> String {
    let Report::Run { summary, .. } = report else {
        return String::new();
    };
    let mut lines = vec![String::new()];
    let rows: Vec<&Workload> = summary
        .cases
        .iter()
        .filter(|row| row.cells.iter().any(|cell| cell.beside(LONGEST).is_some()))
        .collect();
    if rows.is_empty() {
        return "\nNo trial recorded the latencies of its operations.\n".to_owned();
    }
    let names = summary
        .targets
        .iter()
        .map(|target| target.name.chars().count())
        .max()
        .unwrap_or(0);
    for row in &rows {
        lines.push(row.workload.clone());
        lines.push(tail_line(
            "",
            names,
            COLUMNS.map(|(_, title)| title.to_owned()),
        ));
        for (target, cell) in summary.cells_of(row) {
            if cell.estimate.is_some() {
                let texts = COLUMNS.map(|(metric, _)| {
                    cell.beside(metric).map_or_else(
                        || "–".to_owned(),
                        |found| {
                            if found.metric == LONGEST {
                                longest_text(found)
                            } else {
                                quantile_text(found)
                            }
                        },
                    )
                });
                lines.push(tail_line(&target.name, names, texts));
            }
        }
    }
    let note = "Time of one operation: mean over the blocks, with the half-width of its 95 % interval; – where fewer than \
                100 operations of a block lie beyond. Longest: of all blocks; longer runs have longer ones.";
    paragraph(&mut lines, width.max(WIDTH), note, "  ", "  ");
    if rows
        .iter()
        .any(|row| row.cells.iter().any(|cell| cell.scatter.is_some()))
    {
        let note = "Each short sample ends with a sync, so stalls of commits and checkpoints are outside it. The \
                    suite sustained, or sample_time = \"60s\" in a plan, includes them.";
        paragraph(&mut lines, width.max(WIDTH), note, "  ", "  ");
    }
    lines.join("\n") + "\n"
}

fn tail_line(name: &str, names: usize, texts: [String; 4]) -> String {
    let cells: String = texts.iter().map(|text| format!("  {text:>15}")).collect();
    format!("  {name:<names$}{cells}").trim_end().to_owned()
}

/// Returns the largest value of all blocks. A mean of maxima would grow with the length of a block.
fn longest_text(found: &Secondary) -> String {
    found.unit.show(found.description.max)
}

fn quantile_text(found: &Secondary) -> String {
    let value = found.unit.show(found.description.mean);
    match &found.interval {
        Some(interval) => {
            let half = (interval.hi - interval.lo) / 2.0 / found.description.mean * 100.0;
            if half > 100.0 {
                format!("{value} >±100 %")
            } else {
                format!("{value} ±{half:.0} %")
            }
        }
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{LATENCY_MAX, LATENCY_P50};

    use super::{answer_so_far, tails};
    use crate::format::Format;
    use crate::report::Report;
    use crate::sample;
    use crate::summary::Summary;

    /// The formats whose names of kernels are in full.
    const FOR_PROGRAMS: [&str; 9] = [
        "csv",
        "summary-csv",
        "json",
        "junit",
        "annotations",
        "code-quality",
        "bencher",
        "benchmark-bigger",
        "openmetrics",
    ];

    /// Returns whether a format has names as text. The samples have no times for
    /// `benchmark-smaller`.
    fn has_names(format: &&Format) -> bool {
        !format.binary && format.name != "benchmark-smaller"
    }

    #[test]
    fn tails_have_intervals_and_say_what_they_do_not_hold() {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        for trial in &mut trials {
            let noise = 1.0 + f64::from(trial.block) * 0.01;
            trial
                .metrics
                .retain(|metric| !metric.name.starts_with("latency"));
            trial.metrics.extend([
                LATENCY_P50.metric(1e-3 * noise),
                LATENCY_MAX.metric(50e-3 * noise),
            ]);
        }
        let summary = Summary::of_run(&record, &trials);
        let text = tails(&Report::of_run(&summary, &trials), 80);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("  ext4") && text.contains("1.04 ms ±") && text.contains("53.0 ms\n"),
            "the longest of all: {text}"
        );
        assert!(text.contains("            –"), "no p99 is known: {text}");
        trials
            .iter_mut()
            .for_each(|trial| trial.metrics.truncate(1));
        let summary = Summary::of_run(&record, &trials);
        assert!(tails(&Report::of_run(&summary, &trials), 80).contains("No trial recorded"));
    }

    #[test]
    fn the_answer_so_far_begins_once_something_is_judged() {
        let so_far_of = |blocks, planned, width, legend| {
            let (record, trials) = sample::side_by_side(&["ext4", "xfs"], blocks);
            let summary = Summary::of_run(&record, &trials);
            let report = Report::of_run(&summary, &trials);
            answer_so_far(&report, (blocks, planned), width, legend)
        };
        let so_far_in = |blocks, width| so_far_of(blocks, 24, width, true);
        let so_far = |blocks| so_far_in(blocks, 80);
        assert_eq!(so_far(3), None);
        let text = so_far(9).unwrap();
        assert!(text.starts_with("So far, 9 of 24 blocks: "), "{text}");
        let row = text
            .lines()
            .find(|line| line.starts_with("random write 4K, durable each"));
        assert!(row.is_some_and(|row| row.ends_with("] *")), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let short = so_far_of(9, 24, 80, false).unwrap();
        let legend = text.strip_prefix(&*short).unwrap();
        assert!(
            legend.starts_with("  ") && legend.contains("faster or slower"),
            "{text}"
        );
        let all_made = so_far_of(9, 9, 80, true).unwrap();
        assert!(all_made.starts_with("So far, 9 blocks: "), "{all_made}");
        let narrow = so_far_in(9, 40).unwrap();
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40) && narrow.contains("Overall"),
            "{narrow}"
        );
    }

    mod comparison {
        use super::{FOR_PROGRAMS, has_names};
        use crate::format::FORMATS;
        use crate::report::Report;
        use crate::sample_sets::{compared, iozone, workloads};
        use crate::screen::WIDTH;
        use crate::text::screen;
        use textwrap::core::display_width;

        fn shown(sets: &[fsb_model::set::Set]) -> String {
            screen(
                &Report::of_comparison(&compared(sets), None),
                WIDTH,
                false,
                false,
            )
        }

        #[test]
        fn two_sets() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 5, 13, 1 << 24)));
        }

        #[test]
        fn three_sets() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4", "btrfs"], 6, 7, 1 << 22)));
        }

        #[test]
        fn single_runs_are_described() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 1, 5, 1 << 22)));
        }

        #[test]
        fn one_set_is_described() {
            insta::assert_snapshot!(shown(&iozone(&["xfs"], 5, 3, 1 << 22)));
        }

        #[test]
        fn of_workloads_the_rates_are_shown() {
            insta::assert_snapshot!(shown(&workloads(&["ext4", "xfs", "btrfs"], 8)));
        }

        #[test]
        fn one_operation_size_by_size() {
            let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 22));
            insta::assert_snapshot!(screen(
                &Report::of_comparison(&document, Some("rewrite")),
                WIDTH,
                false,
                false
            ));
        }

        #[test]
        fn no_line_is_wider_than_the_screen_and_a_wide_screen_is_used() {
            let long = "a set with a rather long name, and spaces";
            for names in [
                &["xfs", "ext4", "btrfs", "jfs"][..],
                &[long, "a set with a rather long name", "c"][..],
            ] {
                let document = compared(&iozone(names, 5, 4, 1 << 20));
                let page = Report::of_comparison(&document, None);
                for width in [80, 160] {
                    let screen = screen(&page, width, false, false);
                    for line in screen.lines() {
                        assert!(display_width(line) <= width, "{line}");
                        assert_eq!(line, line.trim_end());
                    }
                }
                assert!(
                    screen(&page, 160, false, false).lines().count()
                        < screen(&page, 80, false, false).lines().count()
                );
                assert_eq!(
                    screen(&page, 20, false, false),
                    screen(&page, 80, false, false)
                );
            }
        }

        #[test]
        fn many_findings_are_counted() {
            let text = shown(&iozone(&["xfs", "ext4", "btrfs", "jfs"], 6, 13, 1 << 22));
            assert_eq!(
                text.lines().filter(|line| line.starts_with("- ")).count(),
                10
            );
            assert!(
                text.contains("more findings in the formats markdown, html and json"),
                "{text}"
            );
        }

        #[test]
        fn colour_adds_nothing_but_colour() {
            let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
            let page = Report::of_comparison(&document, None);
            let colored = screen(&page, WIDTH, true, false);
            assert!(
                colored.contains("\u{1b}[")
                    && !screen(&page, WIDTH, false, false).contains('\u{1b}')
            );
            let mut parts = colored.split("\u{1b}[");
            let first = parts.next().unwrap().to_owned();
            let stripped = parts.fold(first, |text, part| text + part.split_once('m').unwrap().1);
            let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
            assert_eq!(
                trimmed,
                screen(&page, WIDTH, false, false)
                    .lines()
                    .collect::<Vec<_>>()
            );
        }

        #[test]
        fn kernels_are_shown_in_part_for_people_and_in_full_for_programs() {
            let names = ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64"];
            let document = compared(&iozone(&names, 5, 3, 1 << 18));
            let page = Report::of_comparison(&document, None);
            for format in FORMATS.iter().filter(has_names) {
                let text = format.render(&page);
                // Files are named as they are.
                let text = text.split("What was read").next().unwrap_or_default();
                let text = text.replace("%25", "%");
                let in_full = FOR_PROGRAMS.contains(&format.name);
                assert_eq!(
                    text.contains(names[0]) && text.contains(names[1]),
                    in_full,
                    "{}",
                    format.name
                );
                assert!(
                    in_full || text.contains("%6.12 is Linux 6.12.117+deb12-amd64"),
                    "{}",
                    format.name
                );
            }
            assert!(screen(&page, 80, false, false).contains("ext4%6.1 "));
        }

        #[test]
        fn a_detail_has_every_value_of_every_run_within_the_screen() {
            let names = ["a set with a rather long name, and spaces", "ext4"];
            let document = compared(&iozone(&names, 9, 1, 1 << 18));
            let report = Report::of_comparison(&document, Some("write"));
            let markdown = crate::find("markdown").unwrap().render(&report);
            let screen = screen(&report, WIDTH, false, false);
            assert!(
                screen.lines().all(|line| display_width(line) <= WIDTH),
                "{screen}"
            );
            for value in document.operations[0]
                .cells
                .iter()
                .flat_map(|cell| cell.values.values())
                .flatten()
            {
                let shown = format!("{:.2}", value.value / 1048576.0);
                assert!(
                    screen.contains(&shown) && markdown.contains(&format!("| {shown} |")),
                    "{shown}"
                );
            }
            assert!(
                markdown.contains("| record size | set | run 1 | run 2 |"),
                "{markdown}"
            );
        }
    }

    mod run {
        use fsb_model::{RunRecord, Trial, Warning};
        use textwrap::core::display_width;

        use super::{FOR_PROGRAMS, has_names};
        use crate::format::FORMATS;
        use crate::report::Report;
        use crate::sample;
        use crate::screen::WIDTH;
        use crate::summary::Summary;
        use crate::summary::headline::samples;

        fn shown((record, trials): &(RunRecord, Vec<Trial>), color: bool) -> String {
            crate::text::screen(
                &Report::of_run(&Summary::of_run(record, trials), trials),
                WIDTH,
                color,
                false,
            )
        }

        fn screen(targets: &[&str], blocks: u32) -> String {
            shown(&sample::run(targets, blocks), false)
        }

        #[test]
        fn three_targets() {
            insta::assert_snapshot!(screen(&["ext4", "xfs", "btrfs"], 10));
        }

        #[test]
        fn more_targets_than_fit_side_by_side() {
            let long = "xfs,allocsize=512k,noatime@/dev/sdb1";
            insta::assert_snapshot!(screen(
                &["ext4", "xfs", "btrfs", "tmpfs", "ext3,data=journal", long],
                8
            ));
        }

        #[test]
        fn one_target_is_not_ranked() {
            insta::assert_snapshot!(screen(&["ext4"], 6));
        }

        #[test]
        fn few_blocks_are_described() {
            insta::assert_snapshot!(screen(&["ext4", "xfs"], 3));
        }

        #[test]
        fn an_emulated_run_gives_numbers_and_judges_nothing() {
            insta::assert_snapshot!(shown(&samples::emulated(&["reiserfs", "jfs"], 6), false));
        }

        #[test]
        fn an_array_on_one_disk_gives_numbers_and_judges_nothing() {
            insta::assert_snapshot!(shown(
                &samples::one_disk(&["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"], 6),
                false
            ));
        }

        #[test]
        fn targets_on_one_disk_have_numbers_beside_those_that_are_ranked() {
            insta::assert_snapshot!(shown(
                &samples::one_disk(&["ext4", "xfs", "ext4@raid0:loop+loop"], 6),
                false
            ));
        }

        #[test]
        fn of_times_less_is_better() {
            insta::assert_snapshot!(shown(&sample::micro(&["ext2", "ext4", "btrfs"], 5), false));
        }

        #[test]
        fn no_line_is_wider_than_the_screen() {
            let long = "a-rather-long-name-for-a-target=xfs,allocsize=512k";
            for targets in [
                &["ext4", "xfs", "btrfs"][..],
                &["ext4", "xfs", "btrfs", "ext2", long][..],
                &[long, "ext4"][..],
            ] {
                for line in screen(targets, 10).lines() {
                    assert!(display_width(line) <= WIDTH, "{line}");
                    assert_eq!(line, line.trim_end());
                }
            }
        }

        #[test]
        fn colour_adds_nothing_but_colour() {
            let run = sample::run(&["ext4", "xfs", "btrfs"], 10);
            let (plain, colored) = (shown(&run, false), shown(&run, true));
            assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
            let mut stripped = String::new();
            let mut rest = colored.as_str();
            while let Some((before, after)) = rest.split_once("\u{1b}[") {
                stripped.push_str(before);
                rest = after.split_once('m').unwrap().1;
            }
            stripped.push_str(rest);
            let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
            assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
        }

        #[test]
        fn names_that_begin_alike_stay_apart() {
            let names = [
                "xfs,allocsize=512k@/dev/sda1",
                "xfs,allocsize=512k@/dev/sdb1",
            ];
            let screen = screen(&names, 5);
            assert!(
                screen.contains("xfs…sda1 is xfs,allocsize=512k@/dev/sda1"),
                "{screen}"
            );
            assert!(
                screen.contains("xfs…sdb1 is xfs,allocsize=512k@/dev/sdb1"),
                "{screen}"
            );
        }

        #[test]
        fn many_targets_with_long_options_stay_apart_within_the_screen() {
            let options = |journal: &str, block: u32| {
                format!(
                    "ext4,noatime,commit=30,data={journal},mkfs=\"-O ^has_journal,^metadata_csum -b {block} -I 256\""
                )
            };
            let names = ["journal", "ordered", "writeback"]
                .map(|journal| [1024, 4096].map(|block| options(journal, block)));
            let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
            let screen = screen(&names, 5);
            assert!(
                screen.lines().all(|line| display_width(line) <= WIDTH),
                "{screen}"
            );
            insta::assert_snapshot!(screen);
        }

        #[test]
        fn kernels_are_told_apart() {
            let names = [
                "ext4%6.1.0-56-amd64",
                "ext4%6.12.117+deb12-amd64",
                "xfs%6.1.0-56-amd64",
                "xfs%6.12.117+deb12-amd64",
            ];
            insta::assert_snapshot!(screen(&names, 10));
        }

        #[test]
        fn kernels_are_in_full_for_programs_only() {
            let names = ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64"];
            let (record, trials) = sample::run(&names, 6);
            let summary = Summary::of_run(&record, &trials);
            for format in FORMATS.iter().filter(has_names) {
                let text = format.render(&Report::of_run(&summary, &trials));
                // The sample's file systems are called like its targets.
                let text = text
                    .split("id=\"environment\"")
                    .next()
                    .unwrap_or_default()
                    .replace("muted\">ext4%", "")
                    .replace("%25", "%");
                let in_full = FOR_PROGRAMS.contains(&format.name);
                assert_eq!(text.contains(names[1]), in_full, "{}", format.name);
                assert!(
                    in_full || text.contains("%6.12 is Linux 6.12.117+deb12-amd64"),
                    "{}",
                    format.name
                );
            }
        }

        #[test]
        fn side_by_side() {
            let run = sample::side_by_side(&["ext4", "xfs", "btrfs"], 12);
            let screen = shown(&run, false);
            assert!(
                screen.lines().all(|line| display_width(line) <= WIDTH),
                "{screen}"
            );
            insta::assert_snapshot!(screen);
        }

        #[test]
        fn twelve_cases_of_three_targets_fit_24_lines() {
            for run in [
                sample::run(&["ext4", "xfs", "btrfs"], 10),
                sample::side_by_side(&["ext4", "xfs", "btrfs"], 12),
            ] {
                let screen = shown(&run, false);
                // The path of the report is printed below.
                assert!(screen.lines().count() < 24, "{screen}");
            }
        }

        #[test]
        fn notes_are_printed_on_demand() {
            let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
            let summary = Summary::of_run(&record, &trials);
            insta::assert_snapshot!(crate::text::screen(
                &Report::of_run(&summary, &trials),
                WIDTH,
                false,
                true
            ));
        }

        #[test]
        fn the_first_screen_has_one_warning_and_one_line_of_trust() {
            let (mut record, trials) = sample::run(&["ext4", "xfs"], 8);
            record.warnings = vec![
                sample::concurrent(),
                Warning::LeftOut {
                    workloads: vec!["nine".to_owned()],
                    held: 3,
                    planned: 12,
                    budget_seconds: 300.0,
                    needed_seconds: 1200.0,
                },
            ];
            let summary = Summary::of_run(&record, &trials);
            let report = Report::of_run(&summary, &trials);
            let screen = |notes| crate::text::screen(&report, WIDTH, false, notes);
            let (first, full) = (screen(false), screen(true));
            let count = |text: &str, start: &str| {
                text.lines().filter(|line| line.starts_with(start)).count()
            };
            assert_eq!(
                (
                    count(&first, "trust: low, because another run"),
                    count(&first, "warning: ")
                ),
                (1, 1),
                "{first}"
            );
            assert!(
                first.contains("warning: 5 min 00 s hold 3 of 12 workloads"),
                "{first}"
            );
            assert!(
                first.contains(" (+1 more: fsb report --notes)\n"),
                "{first}"
            );
            assert!(
                full.contains("warning: 1 trial has no value and is left out: "),
                "{full}"
            );
            assert_eq!(count(&full, "trust: low"), 1, "{full}");
            assert_eq!(count(&full, "warning: "), summary.warnings.len(), "{full}");
            assert!(
                full.contains("warning: process 7 (fsb run ext4) measured at the same time"),
                "{full}"
            );
        }
    }
}
