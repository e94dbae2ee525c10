//! A self-contained page that opens from `file://`, without a network and without JavaScript.
//!
//! The page contains every finding and number as text and tables. Scripts only add charts, which
//! Plotly draws from JSON in the page. A Content-Security-Policy forbids the page every request.

use std::cell::RefCell;
use std::io::{self, Write};
use std::iter;

use askama::Template;
use fsb_stats::RankingOutcome;
use serde::{Serialize, Serializer};

use super::member::Format;
use crate::chart;
use crate::escape::ScriptSafe;
use crate::page::{Block, Blocks, Opening, PLOTLY, Section};
use crate::report::Report;
use crate::show::{bound, capital, counted, grouped};
use crate::summary::{CompactTrial, MOST_TRIALS};
use crate::table::{Table, TableCell, TableRow};
use crate::view::{Row, View, legend_of_marks};

pub(super) const FORMAT: Format = Format {
    name: "html",
    extension: "html",
    about: "one self-contained page with charts, for a browser (report.html)",
    binary: false,
    checks: false,
    write,
};

/// The page folds warnings beyond this number.
const WARNINGS: usize = 5;

/// The input of the template.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    view: &'a View<'a>,
    sections: Vec<PageSection>,
    /// The sections again, in the same order.
    bodies: RefCell<Box<dyn Iterator<Item = Section> + 'a>>,
    /// The id of the first section that is a row. Empty if there are no rows.
    first_row: String,
    /// The number of charts; `plotly` is the script that draws them.
    charts: usize,
    plotly: &'static str,
    /// Whether the page has a surface, which a script of its own draws.
    has_surface: bool,
    /// The trials, for programs. `None` for a run that is too long for a page, and for a published
    /// run, which the page holds as a whole.
    data: Option<ScriptSafe<Data<'a>>>,
    /// The element that holds a published run.
    run: Option<&'a str>,
}

impl Page<'_> {
    /// Returns the markup of the next section. All sections of a long run need more memory than the
    /// page may take, so the template requests them one by one.
    fn body(&self) -> String {
        let section = self.bodies.borrow_mut().next();
        section.map_or_else(String::new, |section| {
            Blocks(&section.blocks)
                .render()
                .expect("writing to a string does not fail")
        })
    }
}

/// A section in the contents.
struct PageSection {
    id: String,
    title: String,
    is_row: bool,
    charts: usize,
}

impl From<Section> for PageSection {
    fn from(section: Section) -> PageSection {
        let charts = section.blocks.iter().map(Block::charts).sum();
        let Section {
            id, title, is_row, ..
        } = section;
        PageSection {
            id,
            title,
            is_row,
            charts,
        }
    }
}

/// Returns the whole page.
pub fn render(report: &Report<'_>) -> String {
    FORMAT.render(report)
}

/// The run that a published page holds.
#[derive(Debug, Clone)]
pub struct PublishedRun<'a> {
    /// The element with the data. It becomes part of the page unchanged.
    pub element: &'a str,
    /// The values that were removed from the run, a line for each kind.
    pub removed: &'a [String],
    /// The classes of values that were kept at the user's request.
    pub kept: &'a [String],
}

/// Writes the page of a run that is published, with the run inside.
pub fn write_published(
    report: &Report<'_>,
    run: &PublishedRun<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    write_page(report, Some(run), output)
}

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    write_page(report, None, output)
}

/// Writes the page. The sections are made twice: for the contents, and then one by one for their
/// markup.
fn write_page(
    report: &Report<'_>,
    run: Option<&PublishedRun<'_>>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let readable = report.readable();
    let view = readable.view();
    let sections = || -> Box<dyn Iterator<Item = Section> + '_> {
        let method = Section::new("method", "Method", vec![Block::Method(view.method.clone())]);
        let overview = iter::once_with(|| overview(&view, readable.opening(&view)));
        Box::new(
            overview
                .chain(readable.sections(&view))
                .chain([method])
                .chain(run.map(publication)),
        )
    };
    let contents: Vec<PageSection> = sections().map(PageSection::from).collect();
    let charts = contents.iter().map(|section| section.charts).sum();
    let has_surface = contents.iter().any(|section| section.id == "surfaces");
    let first_row = contents
        .iter()
        .find(|section| section.is_row)
        .map(|section| section.id.clone());
    let page = Page {
        view: &view,
        first_row: first_row.unwrap_or_default(),
        sections: contents,
        bodies: RefCell::new(sections()),
        charts,
        plotly: &PLOTLY,
        has_surface,
        data: readable
            .trials()
            .filter(|_| view.group_size == 1 && run.is_none())
            .map(|trials| ScriptSafe(Data(trials))),
        run: run.map(|run| run.element),
    };
    page.write_into(&mut *output)?;
    output.write_all(b"\n")
}

/// Returns the section that names what was removed before the publication.
fn publication(run: &PublishedRun<'_>) -> Section {
    let holds = "This page holds the record of the run and every trial. fsb report FILE and fsb compare FILE … read them \
                 from it.";
    let mut blocks = vec![Block::text("note", holds)];
    blocks.push(match run.removed {
        [] => Block::text("note", "Nothing was removed."),
        removed => {
            let label = "Removed, with the number of different values and their class";
            Block::List {
                label,
                class: "lost",
                items: removed.to_vec(),
            }
        }
    });
    if !run.kept.is_empty() {
        blocks.push(Block::text(
            "note",
            format!("Kept at the author's request: {}.", run.kept.join(", ")),
        ));
    }
    Section::new("publication", "Publication", blocks)
}

/// Returns the section with the answer.
fn overview(view: &View<'_>, opening: Opening) -> Section {
    let mut blocks: Vec<Block> = opening.columns.into_iter().collect();
    if !view.conditions.is_empty() {
        let shown = view
            .conditions
            .iter()
            .map(|condition| bound(condition))
            .collect();
        blocks.push(Block::Warnings {
            shown,
            more: Vec::new(),
        });
    }
    blocks.extend(view.changes.iter().map(|found| Block::List {
        label: found.title,
        class: "changes",
        items: found.texts().map(|text| bound(&text)).collect(),
    }));
    if !view.rows.is_empty() {
        let rows = view
            .rows
            .iter()
            .enumerate()
            .map(|(place, row)| line(view, row, place))
            .collect();
        let first = capital(view.words.row);
        let table = Table::of_columns(opening.caption, &first, &view.names, rows);
        blocks.push(Block::table(
            "overview",
            Table {
                foot: opening.total,
                ..table
            },
        ));
    }
    blocks.extend(legend_of_marks(&view.rows, view.theta).map(|text| Block::text("note", text)));
    blocks.extend(warnings(view));
    blocks.extend(grouping(view).map(|text| Block::text("note", text)));
    let notes: Vec<Block> = view
        .notes
        .iter()
        .map(|note| Block::text("note", note))
        .collect();
    // A comparison has few notes, and they state the scope of its intervals.
    if view.trust.is_none() {
        blocks.extend(notes);
    } else if !notes.is_empty() {
        blocks.push(Block::Details {
            summary: counted(notes.len(), "note"),
            blocks: notes,
        });
    }
    blocks.push(Block::Charts(chart::overview(view)));
    Section::new("overview", "Overview", blocks)
}

/// Returns the most severe warnings and the trust; the other warnings are folded.
fn warnings(view: &View<'_>) -> Option<Block> {
    let open = if view.trust.is_some() {
        view.urgent
    } else {
        view.warnings.len()
    };
    let (open, folded) = view.warnings.split_at(open);
    let open: Vec<String> = view
        .problems
        .iter()
        .chain(open)
        .map(|warning| bound(warning))
        .collect();
    let (open, rest) = open.split_at(open.len().min(WARNINGS));
    let more: Vec<String> = rest
        .iter()
        .cloned()
        .chain(folded.iter().map(|warning| bound(warning)))
        .collect();
    let help = view
        .remedy()
        .map(|help| format!("; {help}"))
        .unwrap_or_default();
    let trust = view
        .trust
        .iter()
        .map(|trust| format!("{}{help}", trust.line));
    let shown: Vec<String> = open
        .iter()
        .cloned()
        .chain(trust.map(|trust| bound(&capital(&trust))))
        .collect();
    (!shown.is_empty() || !more.is_empty()).then_some(Block::Warnings { shown, more })
}

/// Returns the note of a long run that the page does not contain every trial.
fn grouping(view: &View<'_>) -> Option<String> {
    (view.group_size > 1).then(|| {
        format!(
            "This run has more than {} trials. The page shows medians of {} consecutive blocks, each with the range of \
             its trials, instead of every trial. All estimates and intervals use every trial. The trials are in \
             trials.jsonl of the run directory, and fsb report --format csv prints them.",
            grouped(MOST_TRIALS as f64),
            view.group_size
        )
    })
}

fn line(view: &View<'_>, row: &Row<'_>, place: usize) -> TableRow {
    let cells = row.cells.iter().enumerate();
    let cells = cells.map(|(column, cell)| {
        TableCell::shown(cell, row.outcome == RankingOutcome::Winner(column))
    });
    let link = view
        .has_row_sections
        .then(|| format!("#{}-{place}", view.words.row));
    TableRow {
        link,
        ..TableRow::new(&row.label, cells.collect())
    }
}

/// The numbers of the page for programs: the primary metric of every measured trial with a value.
struct Data<'a>(&'a [CompactTrial]);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .filter(|trial| trial.counts())
                .filter_map(DataLine::from_trial),
        )
    }
}

#[derive(Serialize)]
struct DataLine<'a> {
    target: &'a str,
    workload: &'a str,
    block: u32,
    order: u32,
    metric: &'a str,
    value: f64,
    unit: &'static str,
}

impl DataLine<'_> {
    fn from_trial(trial: &CompactTrial) -> Option<DataLine<'_>> {
        let primary = trial.primary()?;
        Some(DataLine {
            target: &trial.what.target,
            workload: &trial.what.workload,
            block: trial.block,
            order: trial.order,
            metric: &primary.kind.name,
            value: primary.value,
            unit: primary.kind.unit.name(),
        })
    }
}

#[cfg(test)]
mod tests {
    fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
        let rest = text
            .split_once(start)
            .unwrap_or_else(|| panic!("no {start}"))
            .1;
        rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
    }

    mod comparison {
        use fsb_stats::compare::Document;
        use serde_json::Value;

        use super::between;
        use crate::format::html::render;
        use crate::page::PLOTLY;
        use crate::report::Report;
        use crate::sample_sets::{compared, iozone, workloads};

        /// Returns the page without the script of the chart library, whose text is not ours.
        fn own(document: &Document, detail: Option<&str>) -> String {
            render(&Report::of_comparison(document, detail)).replace(PLOTLY.as_str(), "")
        }

        /// Returns the charts of a page by name.
        fn figures(page: &str) -> Vec<(String, Value)> {
            let charts = page.split("<div class=\"chart\" id=\"").skip(1);
            charts
                .map(|text| {
                    let (id, _) = text.split_once('"').unwrap();
                    let json = between(text, "class=\"chart-data\">", "</script>");
                    (
                        id.to_owned(),
                        serde_json::from_str(json).expect("a chart is JSON"),
                    )
                })
                .collect()
        }

        fn names(page: &str) -> Vec<String> {
            figures(page).into_iter().map(|(id, _)| id).collect()
        }

        #[test]
        fn every_operation_has_its_charts_and_they_are_announced() {
            let page = own(&compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 20)), None);
            let of_operation = |place: usize| {
                ["medians-file", "medians-record", "scatter", "heat"]
                    .map(|name| format!("{name}-{place}"))
            };
            let mut expected = vec!["ratios".to_owned(), "boxes-0".to_owned()];
            expected.extend((0..2).flat_map(of_operation));
            // The pool of all operations has sizes, but no cells of its own.
            expected.extend(["medians-file-2", "medians-record-2", "surface"].map(str::to_owned));
            assert_eq!(names(&page), expected);
            assert_eq!(
                between(&page, "data-charts=\"", "\"").parse(),
                Ok(expected.len())
            );
            assert_eq!(
                page.matches("role=\"img\" aria-label=\"").count(),
                expected.len()
            );
        }

        #[test]
        fn figures_have_data() {
            let page = own(
                &compared(&iozone(&["xfs", "ext4", "btrfs"], 5, 2, 1 << 20)),
                None,
            );
            for (id, figure) in figures(&page) {
                let choices = figure
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![figure.clone()]);
                let of_candidate = if id.starts_with("scatter") { 2 } else { 1 };
                if id.starts_with("scatter") || id.starts_with("heat") {
                    assert_eq!(choices.len(), 2 * of_candidate, "{id}: of each candidate");
                }
                for choice in choices.iter().filter(|_| id != "surface") {
                    let data = choice["data"].as_array().unwrap();
                    assert!(!data.is_empty() && choice["layout"].is_object(), "{id}");
                    assert!(data.iter().all(|trace| trace["type"].is_string()), "{id}");
                }
            }
            let surface = figures(&page).pop().unwrap().1;
            assert_eq!(surface["operations"].as_array().map(Vec::len), Some(2));
            assert_eq!(
                surface["operations"][0]["z"].as_array().map(Vec::len),
                Some(3)
            );
        }

        #[test]
        fn the_heat_map_is_by_better_and_worse_and_marks_what_is_uncertain() {
            use fsb_stats::compare::Colour;
            let mut document = compared(&iozone(&["xfs", "ext4"], 5, 1, 1 << 20));
            let heat = |document: &Document| {
                let figures = figures(&own(document, None));
                figures
                    .into_iter()
                    .find(|(id, _)| id == "heat-0")
                    .unwrap()
                    .1[0]["data"]
                    .clone()
            };
            let rates = heat(&document);
            let uncertain = document.operations[0]
                .cells
                .iter()
                .filter(|cell| cell.against["ext4"].colour == Colour::Uncertain);
            assert_eq!(
                rates[1]["x"].as_array().map(Vec::len),
                Some(uncertain.count())
            );
            document.operations[0].better = fsb_model::Better::Lower;
            let times = heat(&document);
            let (rate, time) = (
                rates[0]["z"][0][0].as_f64().unwrap(),
                times[0]["z"][0][0].as_f64().unwrap(),
            );
            assert!((rate + time).abs() < 1e-4 && rate != 0.0, "{rate} {time}");
            assert_eq!(
                rates[0]["customdata"], times[0]["customdata"],
                "both charts show the change itself when pointed at"
            );
        }

        #[test]
        fn nothing_is_fetched() {
            for detail in [None, Some("write")] {
                let page = own(
                    &compared(&iozone(&["xfs", "ext4", "btrfs"], 5, 2, 1 << 20)),
                    detail,
                );
                assert!(
                    !page.contains("http://")
                        && !page.contains("https://")
                        && !page.contains(" src=")
                );
                assert!(page.contains("default-src 'none'"));
            }
        }

        #[test]
        fn names_cannot_become_markup() {
            let evil = "</script><img src=x onerror=alert(1)>&\"'ü";
            let mut sets = iozone(&["xfs", evil, "btrfs"], 5, 2, 1 << 18);
            sets[1].runs[0].path = evil.to_owned();
            sets[1].runs[1].command = Some(evil.to_owned());
            for detail in [None, Some("write")] {
                let page = own(&compared(&sets), detail);
                assert!(!page.contains("<img"), "{}", between(&page, "<img", ">"));
                assert_eq!(
                    page.matches("<script").count(),
                    page.matches("</script>").count()
                );
                assert!(page.contains("&#60;img") || page.contains("&lt;img"));
            }
        }

        #[test]
        fn the_classic_statistics_stand_as_in_the_figure() {
            let document = compared(&iozone(&["xfs", "ext4"], 5, 1, 1 << 20));
            let page = own(&document, None);
            let pooled = document.operations[0].classic.sets["ext4"]
                .as_ref()
                .unwrap();
            let table = between(&page, "<table class=\"classic cards\">", "</table>");
            for value in [
                pooled.mean,
                pooled.sd.unwrap(),
                pooled.geometric_mean,
                pooled.median,
                pooled.q1,
                pooled.q3,
                pooled.min,
            ] {
                assert!(
                    table.contains(&format!("{:.2}", value / 1048576.0)),
                    "{value}"
                );
            }
            for word in [
                "t-test against xfs",
                "DIFF",
                "slope, 90 % interval, against xfs",
            ] {
                assert!(table.contains(word), "{word}");
            }
            assert!(page.contains("a uniform 10\u{a0}% slowdown is invisible to a t-test"));
        }

        #[test]
        fn the_detail_has_every_value_in_both_halves() {
            let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 19));
            let page = own(&document, Some("rewrite"));
            assert!(
                !page.contains("<h2 id=\"operation-1-title\">"),
                "one operation alone"
            );
            let operation = &document.operations[1];
            let blocks = operation.by_file_size.len() + operation.by_record_size.len();
            assert_eq!(
                names(&page)
                    .iter()
                    .filter(|name| name.starts_with("means-"))
                    .count(),
                blocks
            );
            for half in ["fixed-record-0", "fixed-file-0"] {
                let half = between(&page, &format!("<section id=\"{half}\""), "</section>");
                for value in operation
                    .cells
                    .iter()
                    .flat_map(|cell| cell.values.values())
                    .flatten()
                {
                    assert!(
                        half.contains(&format!("<td>{:.2}\n", value.value / 1048576.0))
                            || half.contains(&format!("<td>{:.2}<", value.value / 1048576.0))
                    );
                }
            }
        }

        #[test]
        fn workloads_have_their_runs_latencies_and_other_metrics() {
            let page = own(&compared(&workloads(&["ext4", "xfs", "btrfs"], 6)), None);
            assert!(
                names(&page).contains(&"runs-3".to_owned())
                    && !names(&page).contains(&"heat-0".to_owned())
            );
            assert!(
                page.contains("Latencies of all runs together") && page.contains("latency mean")
            );
            assert!(page.contains("blocks, paired") && page.contains("paired t-interval"));
            assert!(page.contains("Each row against each column"));
        }

        #[test]
        fn runs_with_values_over_time_are_drawn_over_time() {
            let mut sets = workloads(&["ext4", "xfs"], 6);
            for run in sets.iter_mut().flat_map(|set| &mut set.runs) {
                let series = run.series[0].clone();
                let points = series
                    .points
                    .iter()
                    .flat_map(|point| [(0.5, point.value / 2.0), (1.0, point.value)]);
                let (workload, operation, metric) =
                    (series.workload.clone(), series.operation, series.metric);
                let points = points.take(2).collect();
                run.timelines.push(fsb_model::set::Timeline {
                    workload,
                    operation,
                    metric,
                    points,
                });
            }
            let page = own(&compared(&sets), None);
            let (_, figure) = figures(&page)
                .into_iter()
                .find(|(id, _)| id == "over-time-0")
                .unwrap();
            let traces = figure["data"].as_array().unwrap();
            assert_eq!(
                (traces.len(), &traces[0]["x"]),
                (12, &serde_json::json!([0.5, 1]))
            );
            assert!(page.contains("Intervals of all runs"));
            assert_eq!(
                names(&page)
                    .iter()
                    .filter(|name| name.starts_with("over-time"))
                    .count(),
                1
            );
        }

        #[test]
        fn headers_say_what_they_head() {
            let page = own(
                &compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 20)),
                Some("write"),
            );
            assert_eq!(
                page.matches("<th").count() - page.matches("<thead").count(),
                page.matches("<th scope=").count()
            );
            assert_eq!(
                page.matches("<table").count(),
                page.matches("<caption").count()
            );
        }

        #[test]
        fn a_large_page_stays_small() {
            let document = compared(&iozone(&["xfs", "ext4", "btrfs", "jfs"], 5, 13, 1 << 26));
            let page = own(&document, None);
            assert!(
                page.len() < 1_600_000,
                "{} bytes beside the chart library",
                page.len()
            );
        }

        #[test]
        fn the_surface_script_is_included_only_with_surfaces() {
            let has_script = |document: &Document| {
                render(&Report::of_comparison(document, None)).contains("surface.fsbDrawn")
            };
            assert!(has_script(&compared(&iozone(
                &["xfs", "ext4"],
                5,
                3,
                1 << 20
            ))));
            assert!(!has_script(&compared(&workloads(&["ext4", "xfs"], 6))));
        }
    }

    mod run {
        use fsb_model::Trial;

        use super::between;
        use crate::format::html;
        use crate::page::PLOTLY;
        use crate::report::Report;
        use crate::sample;
        use crate::summary::headline::samples;
        use crate::summary::{CompactTrial, PublishedTable, Summary, SummaryInputs};

        fn render(summary: &Summary, trials: &[Trial]) -> String {
            html::render(&Report::of_run(summary, trials))
        }

        fn page(targets: &[&str], blocks: u32) -> (Summary, Vec<Trial>, String) {
            let (record, trials) = sample::run(targets, blocks);
            let summary = Summary::of_run(&record, &trials);
            let html = render(&summary, &trials);
            (summary, trials, html)
        }

        /// Returns the page without the script of the chart library, whose text is not ours.
        fn own(html: &str) -> String {
            html.replace(PLOTLY.as_str(), "")
        }

        #[test]
        fn a_published_page_begins_with_its_run_and_lists_what_was_removed() {
            let (summary, trials, plain) = page(&["ext4", "xfs"], 5);
            let removed = ["serial numbers <of> devices (2, serials)".to_owned()];
            let kept = ["names".to_owned()];
            let run = html::PublishedRun {
                element: "<script id=\"r\">AAAA</script>",
                removed: &removed,
                kept: &kept,
            };
            let mut published = Vec::new();
            html::write_published(&Report::of_run(&summary, &trials), &run, &mut published)
                .unwrap();
            let published = String::from_utf8(published).unwrap();
            assert!(published.find(run.element).is_some_and(|at| at < 1000));
            assert!(
                published.contains("<section id=\"publication\"")
                    && published.contains("request: names.")
            );
            assert!(
                published.contains("<li>serial numbers &#60;of&#62; devices (2, serials)</li>")
            );
            // The whole run replaces the values of the plain page.
            assert!(plain.contains("id=\"data\"") && !published.contains("id=\"data\""));
            assert!(!plain.contains("id=\"publication\""));
        }

        #[test]
        fn the_chart_library_is_there_once_and_alone() {
            assert!(
                PLOTLY.contains("plotly.js (")
                    && !PLOTLY.contains("<script")
                    && !PLOTLY.contains("</script")
            );
            let (_, _, html) = page(&["ext4", "xfs"], 5);
            assert_eq!(
                html.matches("plotly.js (").count(),
                1,
                "nothing that no chart of a run needs"
            );
        }

        #[test]
        fn nothing_is_fetched() {
            let (_, _, html) = page(&["ext4", "xfs", "btrfs"], 5);
            let own = own(&html);
            assert!(
                !own.contains("http://") && !own.contains("https://") && !own.contains(" src="),
                "a reference to elsewhere"
            );
            assert!(own.contains("default-src 'none'"));
        }

        #[test]
        fn the_numbers_of_the_page_are_those_of_the_trials() {
            let (summary, trials, html) = page(&["ext4", "xfs", "btrfs"], 6);
            let data: Vec<serde_json::Value> =
                serde_json::from_str(between(&html, "id=\"data\">", "</script>"))
                    .expect("the data is JSON");
            let good: Vec<&Trial> = trials
                .iter()
                .filter(|trial| trial.primary().is_some())
                .collect();
            assert_eq!(data.len(), good.len());
            for (line, trial) in data.iter().zip(good) {
                assert_eq!(
                    line["value"].as_f64(),
                    trial.primary().map(|metric| metric.value)
                );
                assert_eq!(
                    (line["target"].as_str(), line["order"].as_u64()),
                    (Some(trial.target.as_str()), Some(trial.order.into()))
                );
            }
            let tables = own(&html);
            for cell in summary
                .cases
                .iter()
                .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
            {
                let (row, estimate) = (cell.0, cell.1.estimate.as_ref().unwrap());
                assert!(tables.contains(&format!(
                    "<span class=\"main\">{}</span>",
                    row.unit.show(estimate.value)
                )));
            }
        }

        #[test]
        fn every_chart_has_data_and_is_announced() {
            let (_, _, html) = page(&["ext4", "xfs", "btrfs"], 5);
            let announced: usize = between(&html, "data-charts=\"", "\"").parse().unwrap();
            let own = own(&html);
            let mut rest = own.as_str();
            let mut found = 0;
            while let Some((_, after)) = rest.split_once("class=\"chart-data\">") {
                let (json, after) = after.split_once("</script>").unwrap();
                let figure: serde_json::Value = serde_json::from_str(json).unwrap();
                assert!(
                    !figure["data"].as_array().unwrap().is_empty() && figure["layout"].is_object()
                );
                (found, rest) = (found + 1, after);
            }
            // The overview's, and two a workload: trials and one operation's latency.
            assert_eq!((found, announced), (25, 25));
            assert_eq!(own.matches("role=\"img\" aria-label=\"").count(), found);
        }

        #[test]
        fn targets_that_are_not_ranked_are_drawn_with_a_note() {
            let (mut record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
            let array = "xfs@raid0:loop+loop".parse::<fsb_model::Target>().unwrap();
            record.plan.targets[1].kind = array.kind;
            let why = "members of raid0:loop+loop share one disk".to_owned();
            let medium = fsb_model::run::MediumRecord {
                unjudged: Some(why),
                ..Default::default()
            };
            record.media.insert("raid0:loop+loop".to_owned(), medium);
            let summary = Summary::of_run(&record, &trials);
            assert!(summary.unjudged.is_none() && summary.targets[1].unjudged.is_some());
            let html = own(&render(&summary, &trials));
            let chart = |id: &str| -> serde_json::Value {
                let (_, chart) = html
                    .split_once(&format!("<div class=\"chart\" id=\"{id}\""))
                    .unwrap();
                serde_json::from_str(between(chart, "class=\"chart-data\">", "</script>")).unwrap()
            };
            let latency = html
                .split("<div class=\"chart\" id=\"")
                .find(|text| text.starts_with("latency-0-"))
                .unwrap();
            for figure in [chart("trials-0"), chart(latency.split_once('"').unwrap().0)] {
                let names: Vec<_> = figure["data"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|trace| &trace["name"])
                    .collect();
                assert!(
                    names.contains(&&"xfs, not ranked".into()) && names.contains(&&"btrfs".into()),
                    "{names:?}"
                );
            }
            let notes = chart("trials-0")["layout"]["annotations"].clone();
            assert!(
                notes
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|note| note["text"] == "not ranked" && note["x"] == 1),
                "{notes}"
            );
            assert!(html.contains("xfs, not ranked"));
        }

        #[test]
        fn further_rates_of_a_case_are_bars_of_each_target() {
            use fsb_model::metric::{DELETE_RATE, READ_RATE, WRITE_RATE};
            let (record, mut trials) = sample::run(&["ext4", "xfs"], 5);
            let label = trials[0].workload.clone();
            for trial in trials.iter_mut().filter(|trial| trial.workload == label) {
                let Some(value) = trial.primary().map(|metric| metric.value) else {
                    continue;
                };
                trial.metrics.extend([
                    READ_RATE.metric(value),
                    WRITE_RATE.metric(2.0 * value),
                    DELETE_RATE.metric(1e3),
                ]);
            }
            let html = own(&render(&Summary::of_run(&record, &trials), &trials));
            let chart = |unit: &str| -> serde_json::Value {
                let id = format!("<div class=\"chart\" id=\"values-0-{unit}\"");
                let (_, chart) = html.split_once(&id).unwrap_or_else(|| panic!("no {id}"));
                serde_json::from_str(between(chart, "class=\"chart-data\">", "</script>")).unwrap()
            };
            let rates = chart("bytes_per_second");
            assert_eq!(rates["data"].as_array().unwrap().len(), 2, "{rates}");
            for trace in rates["data"].as_array().unwrap() {
                assert_eq!(trace["x"], serde_json::json!(["read rate", "write rate"]));
                let [read, written] = [0, 1].map(|place| trace["y"][place].as_f64().unwrap());
                assert!(read > 0.0 && (written / read - 2.0).abs() < 1e-3, "{trace}");
            }
            assert_eq!(
                chart("operations_per_second")["data"][0]["x"],
                serde_json::json!(["delete rate"])
            );
            assert_eq!(
                html.matches("id=\"values-").count(),
                2,
                "other cases have no further rates"
            );
        }

        #[test]
        fn names_cannot_become_markup() {
            let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 5);
            let evil = "</script><img src=x onerror=alert(1)>&\"'";
            record.plan.targets[1].name = evil.to_owned();
            record.warnings.push(fsb_model::Warning::NotUndone {
                entry: evil.to_owned(),
            });
            trials
                .iter_mut()
                .filter(|trial| trial.target == "xfs")
                .for_each(|trial| trial.target = evil.to_owned());
            let summary = Summary::of_run(&record, &trials);
            let html = own(&render(&summary, &trials));
            assert!(!html.contains("<img"), "{}", between(&html, "<img", ">"));
            assert_eq!(
                html.matches("<script").count(),
                html.matches("</script>").count()
            );
            assert!(html.contains("&#60;img") || html.contains("&lt;img"));
        }

        #[test]
        fn a_header_says_what_it_heads() {
            let (_, _, html) = page(&["ext4", "xfs", "tmpfs"], 5);
            let own = own(&html);
            assert_eq!(
                own.matches("<th").count() - own.matches("<thead").count(),
                own.matches("<th scope=").count()
            );
            assert_eq!(
                own.matches("<table").count(),
                own.matches("<caption").count()
            );
            assert!(own.contains("not applicable") && own.contains("tmpfs is never cold"));
        }

        #[test]
        fn an_empty_run_has_a_page_too() {
            let (record, _) = sample::run(&["ext4", "xfs"], 5);
            let summary = Summary::of_run(&record, &[]);
            let html = render(&summary, &[]);
            assert!(html.contains("Nothing was measured.") && html.contains("data-charts=\"0\""));
        }

        /// Returns the summary of a run beside published values.
        fn beside(
            record: &fsb_model::RunRecord,
            trials: &[fsb_model::Trial],
            table: &PublishedTable,
        ) -> Summary {
            let trials = CompactTrial::all(trials);
            Summary::new(&SummaryInputs {
                published: Some(table),
                ..SummaryInputs::new(record, &trials)
            })
        }

        #[test]
        fn published_values_stand_beside_ours() {
            use crate::summary::{PublishedLayout, PublishedValue};
            let (record, trials) = sample::micro(&["ext2", "ext4", "btrfs"], 5);
            let value = |target: &str, value: f64| PublishedValue {
                row: "create 1000 files".to_owned(),
                workload: "create 1000 files".to_owned(),
                metric: None,
                unit: fsb_model::Unit::Seconds,
                target: target.to_owned(),
                value,
                rate: None,
                here: None,
            };
            let table = PublishedTable {
                title: "Appendix C".to_owned(),
                note: "A note.".to_owned(),
                first: false,
                layout: PublishedLayout::Tests,
                rows: vec![value("ext2", 0.342_711), value("ntfs", 0.113_5)],
                ..PublishedTable::default()
            };
            let summary = beside(&record, &trials, &table);
            let html = own(&render(&summary, &trials));
            let section = between(&html, "id=\"published\"", "</section>");
            assert!(section.contains("Appendix C") && section.contains("A note."));
            assert!(section.contains("342\u{202f}711") && section.contains("113\u{202f}500"));
            assert!(section.contains("ntfs, published") && section.contains("ext4, here"));
            assert!(
                !section.contains("sequential read"),
                "rows that were not published are left out"
            );
        }

        #[test]
        fn published_rates_are_beside_ours_and_have_bars() {
            use crate::summary::{PublishedFigure, PublishedLayout, PublishedRate, PublishedValue};
            let (record, trials) = sample::micro(&["ext2", "ext4", "btrfs"], 5);
            let value = |(group, label, unit, amount): (&str, &str, _, f64),
                         target: &str,
                         seconds: f64,
                         printed: &str| {
                let rate = PublishedRate {
                    group: group.to_owned(),
                    amount,
                    printed: Some(printed.to_owned()),
                };
                let (row, workload) = (label.to_owned(), label.to_owned());
                let value = amount / seconds;
                PublishedValue {
                    row,
                    workload,
                    metric: None,
                    unit,
                    target: target.to_owned(),
                    value,
                    rate: Some(rate),
                    here: None,
                }
            };
            let created = (
                "Table 6.1",
                "create 1000 files",
                fsb_model::Unit::OperationsPerSecond,
                1000.0,
            );
            let read = (
                "Table 6.2",
                "sequential read 512K",
                fsb_model::Unit::BytesPerSecond,
                8.0 * 1024.0 * 1024.0,
            );
            let rows = vec![
                value(created, "ext2", 0.342_711, "2918"),
                value(read, "ext2", 0.010_256, "97.5"),
                value(read, "ntfs", 0.011_876, "84.2"),
            ];
            let (title, note) = ("Tables 6".to_owned(), "A note.".to_owned());
            let table = PublishedTable {
                title,
                note,
                first: true,
                layout: PublishedLayout::Rates,
                rows,
                figures: ["Table 6.1", "Table 6.2"]
                    .into_iter()
                    .zip(["create 1000 files", "sequential read 512K"])
                    .map(|(title, row)| PublishedFigure {
                        title: title.to_owned(),
                        rows: vec![row.to_owned()],
                        file_systems: vec!["ext2".to_owned(), "ntfs".to_owned()],
                        targets: vec!["ext2".to_owned(), "ext4".to_owned()],
                    })
                    .collect(),
                ..PublishedTable::default()
            };
            let summary = beside(&record, &trials, &table);
            let html = own(&render(&summary, &trials));
            let section = between(&html, "id=\"published\"", "</section>");
            for text in [
                "create 1000 files, files/s",
                "sequential read 512K, MiB/s",
                ">2918<",
                "780 (97.5)",
                "674 (84.2)",
            ] {
                assert!(section.contains(text), "{text} in {section}");
            }
            assert!(
                html.contains("Table 6.1: bars of the rates")
                    && html.contains("Table 6.2: bars of the rates")
            );
            let figure = between(&html, "id=\"published-1\"", "</script>");
            assert!(
                figure.contains(r#""type":"bar""#) && figure.contains(r#""y":["ntfs"]"#),
                "{figure}"
            );
            let report = crate::report::Report::of_run(&summary, &trials);
            let text = crate::text::screen(&report, crate::screen::WIDTH, false, false);
            let (_, tables) = text
                .split_once("Table 6.1, files/s:")
                .expect("the first screen has the tables");
            assert!(
                tables.contains("Table 6.2, MiB/s:") && tables.contains("780 (97.5)"),
                "{text}"
            );
        }

        #[test]
        fn an_emulated_run_has_tables_and_no_chart() {
            let (record, trials) = samples::emulated(&["reiserfs", "jfs", "ext4"], 6);
            let summary = Summary::of_run(&record, &trials);
            let html = own(&render(&summary, &trials));
            assert!(
                html.contains("<h1>Emulated: a functional run."),
                "the headline says it"
            );
            assert!(html.contains("data-charts=\"0\"") && !html.contains("<figure"));
            let text = between(&html, "<main", "</main>");
            for word in [
                "faster",
                "slower",
                "fastest",
                "equivalent",
                "the others are compared",
                "Against reiserfs",
            ] {
                assert!(!text.contains(word), "{word}");
            }
            for (row, cell) in summary
                .cases
                .iter()
                .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
            {
                let value = row.unit.show(cell.estimate.as_ref().unwrap().value);
                assert!(
                    html.contains(&format!("<span class=\"main\">{value}</span>")),
                    "{value}"
                );
            }
        }
    }
}
