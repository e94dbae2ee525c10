use crate::format::html;
use crate::page::{PLOTLY, PLOTLY_3D};
use crate::report::Report;
use crate::run::Summary;
use crate::run::unjudged::samples;
use crate::sample;
use fsb_model::Trial;

fn render(summary: &Summary, trials: &[Trial]) -> String {
    html::render(&Report::of_run(summary, trials))
}

fn page(targets: &[&str], blocks: u32) -> (Summary, Vec<Trial>, String) {
    let (record, trials) = sample::run(targets, blocks);
    let summary = Summary::of_run(&record, &trials);
    let html = render(&summary, &trials);
    (summary, trials, html)
}

/// The page without the script of the chart library, whose text is not ours.
fn own(html: &str) -> String {
    html.replace(PLOTLY.as_str(), "")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

#[test]
fn the_chart_library_is_there_once_and_alone() {
    for script in [&*PLOTLY, &*PLOTLY_3D] {
        assert!(script.contains("plotly.js (") && !script.contains("<script") && !script.contains("</script"));
    }
    let (_, _, html) = page(&["ext4", "xfs"], 5);
    assert_eq!(html.matches("plotly.js (").count(), 1, "nothing that no chart of a run needs");
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
        serde_json::from_str(between(&html, "id=\"data\">", "</script>")).expect("the data is JSON");
    let good: Vec<&Trial> = trials.iter().filter(|trial| trial.primary().is_some()).collect();
    assert_eq!(data.len(), good.len());
    for (line, trial) in data.iter().zip(good) {
        assert_eq!(line["value"].as_f64(), trial.primary().map(|metric| metric.value));
        assert_eq!(
            (line["target"].as_str(), line["order"].as_u64()),
            (Some(trial.target.as_str()), Some(trial.order.into()))
        );
    }
    let tables = own(&html);
    for cell in summary.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
        let (row, estimate) = (cell.0, cell.1.estimate.as_ref().unwrap());
        assert!(tables.contains(&format!("<span class=\"main\">{}</span>", row.unit.show(estimate.value))));
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
        assert!(!figure["data"].as_array().unwrap().is_empty() && figure["layout"].is_object());
        (found, rest) = (found + 1, after);
    }
    // The overview's, and two a workload: trials and one operation's latency.
    assert_eq!((found, announced), (25, 25));
    assert_eq!(own.matches("role=\"img\" aria-label=\"").count(), found);
}

#[test]
fn names_cannot_become_markup() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 5);
    let evil = "</script><img src=x onerror=alert(1)>&\"'";
    record.plan.targets[1].name = evil.to_owned();
    record.warnings.push(fsb_model::Warning::Text(evil.to_owned()));
    trials.iter_mut().filter(|trial| trial.target == "xfs").for_each(|trial| trial.target = evil.to_owned());
    let summary = Summary::of_run(&record, &trials);
    let html = own(&render(&summary, &trials));
    assert!(!html.contains("<img"), "{}", between(&html, "<img", ">"));
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    assert!(html.contains("&#60;img") || html.contains("&lt;img"));
}

#[test]
fn a_header_says_what_it_heads() {
    let (_, _, html) = page(&["ext4", "xfs", "tmpfs"], 5);
    let own = own(&html);
    assert_eq!(own.matches("<th").count() - own.matches("<thead").count(), own.matches("<th scope=").count());
    assert_eq!(own.matches("<table").count(), own.matches("<caption").count());
    assert!(own.contains("not applicable") && own.contains("tmpfs is never cold"));
}

#[test]
fn an_empty_run_has_a_page_too() {
    let (record, _) = sample::run(&["ext4", "xfs"], 5);
    let summary = Summary::of_run(&record, &[]);
    let html = render(&summary, &[]);
    assert!(html.contains("Nothing was measured.") && html.contains("data-charts=\"0\""));
}

#[test]
fn published_values_stand_beside_ours() {
    use crate::run::{PublishedLayout, PublishedTable, PublishedValue};
    let (record, trials) = sample::micro(&["ext2", "ext4", "btrfs"], 5);
    let value = |target: &str, value: f64| PublishedValue {
        row: "create 1000 files".to_owned(),
        workload: "create 1000 files".to_owned(),
        metric: None,
        unit: fsb_model::Unit::Seconds,
        target: target.to_owned(),
        value,
        rate: None,
    };
    let table = PublishedTable {
        title: "Appendix C".to_owned(),
        note: "A note.".to_owned(),
        first: false,
        layout: PublishedLayout::Tests,
        rows: vec![value("ext2", 0.342_711), value("ntfs", 0.113_5)],
    };
    let summary = Summary::of_run(&record, &trials).with_published(&table);
    let html = own(&render(&summary, &trials));
    let section = between(&html, "id=\"published\"", "</section>");
    assert!(section.contains("Appendix C") && section.contains("A note."));
    assert!(section.contains("342\u{202f}711") && section.contains("113\u{202f}500"));
    assert!(section.contains("ntfs, published") && section.contains("ext4, here"));
    assert!(!section.contains("sequential read"), "rows that were not published are left out");
}

#[test]
fn published_rates_are_beside_ours_and_have_bars() {
    use crate::run::{PublishedLayout, PublishedRate, PublishedTable, PublishedValue};
    let (record, trials) = sample::micro(&["ext2", "ext4", "btrfs"], 5);
    let value = |(group, label, unit, amount): (&str, &str, _, f64), target: &str, seconds: f64, printed: &str| {
        let rate = PublishedRate { group: group.to_owned(), amount, printed: Some(printed.to_owned()) };
        let (row, workload) = (label.to_owned(), label.to_owned());
        let value = amount / seconds;
        PublishedValue { row, workload, metric: None, unit, target: target.to_owned(), value, rate: Some(rate) }
    };
    let created = ("Table 6.1", "create 1000 files", fsb_model::Unit::OperationsPerSecond, 1000.0);
    let read = ("Table 6.2", "sequential read 512K", fsb_model::Unit::BytesPerSecond, 8.0 * 1024.0 * 1024.0);
    let rows = vec![
        value(created, "ext2", 0.342_711, "2918"),
        value(read, "ext2", 0.010_256, "97.5"),
        value(read, "ntfs", 0.011_876, "84.2"),
    ];
    let (title, note) = ("Tables 6".to_owned(), "A note.".to_owned());
    let table = PublishedTable { title, note, first: true, layout: PublishedLayout::Rates, rows };
    let summary = Summary::of_run(&record, &trials).with_published(&table);
    let html = own(&render(&summary, &trials));
    let section = between(&html, "id=\"published\"", "</section>");
    for text in ["create 1000 files, files/s", "sequential read 512K, MiB/s", ">2918<", "780 (97.5)", "674 (84.2)"] {
        assert!(section.contains(text), "{text} in {section}");
    }
    assert!(html.contains("Table 6.1: bars of the rates") && html.contains("Table 6.2: bars of the rates"));
    let figure = between(&html, "id=\"published-1\"", "</script>");
    assert!(figure.contains(r#""type":"bar""#) && figure.contains(r"sequential\u003cbr>read 512K"), "{figure}");
    let report = crate::report::Report::of_run(&summary, &trials);
    let text = crate::text::screen(&report, crate::screen::WIDTH, false, false);
    let (_, tables) = text.split_once("Table 6.1, files/s:").expect("the first screen has the tables");
    assert!(tables.contains("Table 6.2, MiB/s:") && tables.contains("780 (97.5)"), "{text}");
}

#[test]
fn an_emulated_run_has_tables_and_no_chart() {
    let (record, trials) = samples::emulated(&["reiserfs", "jfs", "ext4"], 6);
    let summary = Summary::of_run(&record, &trials);
    let html = own(&render(&summary, &trials));
    assert!(html.contains("<h1>Emulated: a functional run."), "the headline says it");
    assert!(html.contains("data-charts=\"0\"") && !html.contains("<figure"));
    let text = between(&html, "<main", "</main>");
    for word in ["faster", "slower", "fastest", "equivalent", "the others are compared", "Against reiserfs"] {
        assert!(!text.contains(word), "{word}");
    }
    for (row, cell) in summary.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
        let value = row.unit.show(cell.estimate.as_ref().unwrap().value);
        assert!(html.contains(&format!("<span class=\"main\">{value}</span>")), "{value}");
    }
}
