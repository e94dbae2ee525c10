//! Names, paths and messages from elsewhere with any content: no form lets them act on a terminal,
//! hide, break a table, become markup or run as a formula.

mod sample;
mod sample_sets;

use fsb_model::{Interference, Outcome, RunRecord, StopReason, StoppingRule, Trial};
use fsb_report::summary::Summary;
use fsb_report::visible::is_hidden;
use fsb_report::{FORMATS, Report, find, text};
use fsb_stats::compare::Document;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::{Map, Value};

/// Generates text as a file from someone else may contain it.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        3 => proptest::sample::select(vec![
            "\u{1b}[31m", "\u{1b}]0;title\u{7}", "\u{9b}2J", "\u{7f}", "\u{8}", "\n", "\r\n", "\r", "\t", "\u{85}", "\u{202e}",
            "\u{2066}", "\u{61c}", "\u{200b}", "\u{200f}", "\u{2028}", "\u{2029}", "\u{feff}", "\u{ad}", "\u{e0041}",
        ]),
        3 => proptest::sample::select(vec![
            "|", "`", "```", "<img src=x onerror=alert(1)>", "[x](http://e.org)", "![x](y)", "[x]: /y", "**", "__", "~~", "\\",
            "<!--", "</script>", "&lt;", "&#60;", "https://e.org/", "www.e.org", "# ", "1. ", "- ", "> ", "---", "    ",
            "=1+1", "+1", "-1", "@SUM(A1)", "'", "'=", "\"", ",", ";", "＝1",
        ]),
        2 => proptest::sample::select(vec!["ext4", "xfs", " ", "write 4K", "é", "漢字"]),
        1 => any::<char>().prop_map(|_| "x"),
    ];
    proptest::collection::vec(pieces, 1..6).prop_map(|pieces| pieces.concat())
}

/// Generates hostile text or arbitrary characters, so that no character is missing from the pieces
/// above.
fn text_from_elsewhere() -> impl Strategy<Value = String> {
    prop_oneof![3 => hostile(), 1 => proptest::collection::vec(any::<char>(), 1..12).prop_map(String::from_iter)]
}

/// Returns a run with the text in every field that comes from outside FSBench.
/// Returns an object of a kind of a newer version.
fn unknown(text: &str) -> Map<String, Value> {
    [(text.to_owned(), text.into())].into_iter().collect()
}

fn run(text: &str) -> (RunRecord, Vec<Trial>) {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 5);
    let named = |name: &str| format!("{text}{name}");
    for target in &mut record.plan.targets {
        let found = record.targets.remove(&target.name).unwrap_or_default();
        target.name = named(&target.name);
        let found = fsb_model::run::TargetRecord {
            notes: vec![text.to_owned()],
            driver: Some(text.to_owned()),
            ..found
        };
        record.targets.insert(target.name.clone(), found);
    }
    for cell in &mut record.cells {
        cell.label = named(&cell.label);
    }
    record.name = text.to_owned();
    record.plan.name = text.to_owned();
    record.warnings.push(fsb_model::Warning::NotUndone {
        entry: text.to_owned(),
    });
    record.host.kernel = text.to_owned();
    record.host.command_line = Some(text.to_owned());
    record.stop_reason = Some(StopReason::Unknown(unknown(text)));
    record.stopping_rule = Some(StoppingRule::Unknown(unknown(text)));
    record
        .media
        .values_mut()
        .for_each(|medium| medium.summary = text.to_owned());
    for trial in &mut trials {
        trial.target = named(&trial.target);
        trial.workload = named(&trial.workload);
        trial.operation = text.to_owned();
        trial.kernel = text.to_owned();
        trial.interference = vec![Interference::Unknown(unknown(text))];
        trial.params.insert("backend".to_owned(), text.into());
        trial.latency = std::mem::take(&mut trial.latency)
            .into_values()
            .map(|packed| (text.to_owned(), packed))
            .collect();
    }
    for trial in trials.iter_mut().step_by(7) {
        trial.outcome = Outcome::Failed;
        trial.error = Some(text.to_owned());
    }
    (record, trials)
}

/// Returns a comparison with the text in such fields.
fn document(text: &str) -> Document {
    let names = [format!("{text}a"), format!("{text}b")];
    let mut sets = sample_sets::iozone(&[&names[0], &names[1]], 5, 2, 1 << 17);
    for run in sets.iter_mut().flat_map(|set| &mut set.runs) {
        run.tool = text.to_owned();
        run.version = Some(text.to_owned());
        run.command = Some(text.to_owned());
        run.path = text.to_owned();
        run.series
            .iter_mut()
            .for_each(|series| series.workload = Some(text.to_owned()));
    }
    let mut document = sample_sets::compared(&sets);
    document.warnings.push(text.to_owned());
    document
}

/// Renders both in every text format, with the name of the format.
fn forms(text: &str) -> Vec<(&'static str, String)> {
    let (record, trials) = run(text);
    let summary = Summary::of_run(&record, &trials);
    let document = document(text);
    let reports = [
        Report::of_run(&summary, &trials),
        Report::of_comparison(&document, None),
        Report::of_comparison(&document, Some("write")),
    ];
    let formats = FORMATS.iter().filter(|format| !format.binary);
    let all = formats.flat_map(|format| {
        reports
            .iter()
            .map(|report| (format.name, format.render(report)))
    });
    all.collect()
}

/// Returns whether an event is markup that no name may add to a Markdown text.
fn is_injected(event: &Event<'_>) -> bool {
    let inline = |tag: &Tag<'_>| {
        matches!(
            tag,
            Tag::Link { .. }
                | Tag::Image { .. }
                | Tag::HtmlBlock
                | Tag::CodeBlock(_)
                | Tag::Heading { .. }
        ) || matches!(
            tag,
            Tag::Emphasis | Tag::Strikethrough | Tag::BlockQuote(_) | Tag::FootnoteDefinition(_)
        )
    };
    match event {
        Event::Start(tag) => inline(tag),
        Event::Html(_)
        | Event::InlineHtml(_)
        | Event::Code(_)
        | Event::FootnoteReference(_)
        | Event::Rule => true,
        _ => false,
    }
}

/// Returns the number of columns of every table, then of cells in each of its rows.
fn widths_of_tables(markdown: &str) -> Vec<Vec<usize>> {
    let (mut tables, mut cells) = (Vec::new(), 0);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Table(columns)) => tables.push(vec![columns.len()]),
            Event::Start(Tag::TableRow | Tag::TableHead) => cells = 0,
            Event::Start(Tag::TableCell) => cells += 1,
            Event::End(pulldown_cmark::TagEnd::TableRow) => {
                tables.last_mut().expect("a row is in a table").push(cells)
            }
            _ => {}
        }
    }
    tables
}

fn check_markdown(markdown: &str) {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let injected: Vec<Event<'_>> = Parser::new_ext(markdown, options)
        .filter(is_injected)
        .collect();
    assert!(injected.is_empty(), "{injected:?}\n{markdown}");
    // Some readers make links of bare addresses.
    let bare = markdown
        .replace("\\:", "")
        .replace("\\.", "")
        .to_lowercase();
    assert!(
        !bare.contains("://") && !bare.contains("www."),
        "{markdown}"
    );
    let lines = markdown
        .lines()
        .filter(|line| line.starts_with("| "))
        .count();
    let tables = widths_of_tables(markdown);
    // The lines of a table are its head, a line of dashes and its rows. `rows` counts the head as
    // the number of columns.
    assert_eq!(
        tables.iter().map(|rows| rows.len() + 1).sum::<usize>(),
        lines,
        "{markdown}"
    );
}

fn check_csv(csv: &str) {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(csv.as_bytes());
    let columns = reader.headers().expect("a head").clone();
    let texts: Vec<usize> = (0..columns.len())
        .filter(|column| !NUMBERS.contains(&&columns[*column]))
        .collect();
    for record in reader.records() {
        let record = record.expect("CSV");
        assert_eq!(record.len(), columns.len());
        for column in &texts {
            let begins = record[*column]
                .starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
            assert!(!begins, "{}: {:?}", &columns[*column], &record[*column]);
        }
    }
}

const NUMBERS: [&str; 10] = [
    "file_size",
    "record_size",
    "threads",
    "block",
    "order",
    "run",
    "value",
    "change_percent",
    "change_lo",
    "change_hi",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_form_lets_a_name_act_or_hide(text in text_from_elsewhere()) {
        for (name, form) in forms(&text) {
            match name {
                "text" | "markdown" | "svg" => {
                    let hidden = form.chars().find(|c| is_hidden(*c) && *c != '\n');
                    prop_assert_eq!(hidden, None, "{}: {}", name, form);
                }
                "html" => {
                    let scripts = form.matches("<script").count();
                    prop_assert_eq!(scripts, form.matches("</script>").count());
                    prop_assert!(!form.contains("<img"));
                }
                "json" => drop(serde_json::from_str::<serde_json::Value>(&form).expect("JSON")),
                _ => {}
            }
            match name {
                "markdown" => check_markdown(&form),
                "csv" | "summary-csv" => check_csv(&form),
                _ => {}
            }
        }
    }
}

#[test]
fn binary_formats_take_any_name() {
    let text = "\u{1b}[31m\u{0}\u{fffe}<&=1+1\u{202e}漢字\n";
    let (record, trials) = run(text);
    let summary = Summary::of_run(&record, &trials);
    let document = document(text);
    for report in [
        Report::of_run(&summary, &trials),
        Report::of_comparison(&document, None),
    ] {
        for format in FORMATS.iter().filter(|format| format.binary) {
            assert!(!format.render_bytes(&report).is_empty(), "{}", format.name);
        }
    }
}

#[test]
fn a_page_shows_what_hides() {
    for (name, form) in forms("a\u{1b}\u{202e}b\u{200b}c\u{2028}d") {
        if name == "html" {
            let own = form.split("<script>").next().unwrap_or_default();
            assert_eq!(
                own.chars().find(|c| is_hidden(*c) && !"\n\t".contains(*c)),
                None
            );
            assert!(
                own.contains("a\\u{1b}\\u{202e}b\\u{200b}c\\u{2028}d")
                    && own.contains("a\\\\u{1b}\\\\u{202e}b")
            );
        }
    }
}

#[test]
fn lines_of_a_screen_stay_lines() {
    let (record, trials) = run("\n\nwarning: all is well\u{1b}[2J");
    let summary = Summary::of_run(&record, &trials);
    let screen = text::screen(&Report::of_run(&summary, &trials), 80, false, true);
    assert!(
        screen.contains("\\n\\nwarning: all is well\\u{1b}[2J"),
        "{screen}"
    );
    assert!(
        !screen
            .lines()
            .any(|line| line.starts_with("warning: all is well")),
        "{screen}"
    );
    let document = document("\n\nwarning: all is well\u{1b}[2J");
    let screen = text::screen(&Report::of_comparison(&document, None), 80, false, true);
    assert!(
        !screen
            .lines()
            .any(|line| line.starts_with("warning: all is well")),
        "{screen}"
    );
}

#[test]
fn a_cell_of_a_table_runs_no_formula_and_a_number_stays_one() {
    let (record, trials) = run("=HYPERLINK(\"http://e.org\")");
    let summary = Summary::of_run(&record, &trials);
    let csv = find("csv")
        .expect("CSV")
        .render(&Report::of_run(&summary, &trials));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let first = reader.records().next().expect("a line").expect("CSV");
    assert_eq!(&first[0], "'=HYPERLINK(\"http://e.org\")xfs");
    let document = document("-2+3");
    let csv = find("csv")
        .expect("CSV")
        .render(&Report::of_comparison(&document, None));
    let rows: Vec<_> = csv::Reader::from_reader(csv.as_bytes())
        .into_records()
        .map(|row| row.expect("CSV"))
        .collect();
    let negative = rows
        .iter()
        .filter_map(|row| row[11].parse::<f64>().ok())
        .filter(|value| *value < 0.0)
        .count();
    assert!(negative > 0, "changes to the worse are negative numbers");
    assert!(rows.iter().all(
        |row| row[0].starts_with("'-2+3") && (row[5].is_empty() || row[5].starts_with("'-2+3"))
    ));
}
