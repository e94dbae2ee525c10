fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

mod comparison {
    use fsb_stats::compare::Document;
    use serde_json::Value;

    use super::between;
    use crate::format::html::render;
    use crate::page::{PLOTLY, PLOTLY_3D};
    use crate::report::Report;
    use crate::sample_sets::{compared, iozone, workloads};

    /// The page without the script of the chart library, whose text is not ours.
    fn own(document: &Document, detail: Option<&str>) -> String {
        render(&Report::of_comparison(document, detail)).replace(PLOTLY.as_str(), "").replace(PLOTLY_3D.as_str(), "")
    }

    /// The charts of a page by name.
    fn figures(page: &str) -> Vec<(String, Value)> {
        let charts = page.split("<div class=\"chart\" id=\"").skip(1);
        charts
            .map(|text| {
                let (id, _) = text.split_once('"').unwrap();
                let json = between(text, "class=\"chart-data\">", "</script>");
                (id.to_owned(), serde_json::from_str(json).expect("a chart is JSON"))
            })
            .collect()
    }

    fn names(page: &str) -> Vec<String> {
        figures(page).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn every_operation_has_its_charts_and_they_are_announced() {
        let page = own(&compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 20)), None);
        let of_operation =
            |place: usize| ["medians-file", "medians-record", "scatter", "heat"].map(|name| format!("{name}-{place}"));
        let mut expected = vec!["ratios".to_owned(), "boxes-0".to_owned()];
        expected.extend((0..2).flat_map(of_operation));
        // The pool of all operations has sizes, but no cells of its own.
        expected.extend(["medians-file-2", "medians-record-2", "surface"].map(str::to_owned));
        assert_eq!(names(&page), expected);
        assert_eq!(between(&page, "data-charts=\"", "\"").parse(), Ok(expected.len()));
        assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), expected.len());
    }

    #[test]
    fn figures_have_data() {
        let page = own(&compared(&iozone(&["xfs", "ext4", "btrfs"], 5, 2, 1 << 20)), None);
        for (id, figure) in figures(&page) {
            let choices = figure.as_array().cloned().unwrap_or_else(|| vec![figure.clone()]);
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
        assert_eq!(surface["operations"][0]["z"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn the_heat_map_is_by_better_and_worse_and_marks_what_is_uncertain() {
        use fsb_stats::compare::Colour;
        let mut document = compared(&iozone(&["xfs", "ext4"], 5, 1, 1 << 20));
        let heat = |document: &Document| {
            let figures = figures(&own(document, None));
            figures.into_iter().find(|(id, _)| id == "heat-0").unwrap().1[0]["data"].clone()
        };
        let rates = heat(&document);
        let uncertain =
            document.operations[0].cells.iter().filter(|cell| cell.against["ext4"].colour == Colour::Uncertain);
        assert_eq!(rates[1]["x"].as_array().map(Vec::len), Some(uncertain.count()));
        document.operations[0].better = fsb_model::Better::Lower;
        let times = heat(&document);
        let (rate, time) = (rates[0]["z"][0][0].as_f64().unwrap(), times[0]["z"][0][0].as_f64().unwrap());
        assert!((rate + time).abs() < 1e-4 && rate != 0.0, "{rate} {time}");
        assert_eq!(
            rates[0]["customdata"], times[0]["customdata"],
            "both charts show the change itself when pointed at"
        );
    }

    #[test]
    fn nothing_is_fetched() {
        for detail in [None, Some("write")] {
            let page = own(&compared(&iozone(&["xfs", "ext4", "btrfs"], 5, 2, 1 << 20)), detail);
            assert!(!page.contains("http://") && !page.contains("https://") && !page.contains(" src="));
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
            assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
            assert!(page.contains("&#60;img") || page.contains("&lt;img"));
        }
    }

    #[test]
    fn the_classic_statistics_stand_as_in_the_figure() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 1, 1 << 20));
        let page = own(&document, None);
        let pooled = document.operations[0].classic.sets["ext4"].as_ref().unwrap();
        let table = between(&page, "<table class=\"classic cards\">", "</table>");
        for value in
            [pooled.mean, pooled.sd.unwrap(), pooled.geometric_mean, pooled.median, pooled.q1, pooled.q3, pooled.min]
        {
            assert!(table.contains(&format!("{:.2}", value / 1048576.0)), "{value}");
        }
        for word in ["t-test against xfs", "DIFF", "slope, 90 % interval, against xfs"] {
            assert!(table.contains(word), "{word}");
        }
        assert!(page.contains("a uniform 10\u{a0}% slowdown is invisible to a t-test"));
    }

    #[test]
    fn the_detail_has_every_value_in_both_halves() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 19));
        let page = own(&document, Some("rewrite"));
        assert!(!page.contains("<h2 id=\"operation-1-title\">"), "one operation alone");
        let operation = &document.operations[1];
        let blocks = operation.by_file_size.len() + operation.by_record_size.len();
        assert_eq!(names(&page).iter().filter(|name| name.starts_with("means-")).count(), blocks);
        for half in ["fixed-record-0", "fixed-file-0"] {
            let half = between(&page, &format!("<section id=\"{half}\""), "</section>");
            for value in operation.cells.iter().flat_map(|cell| cell.values.values()).flatten() {
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
        assert!(names(&page).contains(&"runs-3".to_owned()) && !names(&page).contains(&"heat-0".to_owned()));
        assert!(page.contains("Latencies of all runs together") && page.contains("latency mean"));
        assert!(page.contains("blocks, paired") && page.contains("paired t-interval"));
        assert!(page.contains("Each row against each column"));
    }

    #[test]
    fn headers_say_what_they_head() {
        let page = own(&compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 20)), Some("write"));
        assert_eq!(page.matches("<th").count() - page.matches("<thead").count(), page.matches("<th scope=").count());
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
    }

    #[test]
    fn a_large_page_stays_small() {
        let document = compared(&iozone(&["xfs", "ext4", "btrfs", "jfs"], 5, 13, 1 << 26));
        let page = own(&document, None);
        assert!(page.len() < 1_600_000, "{} bytes beside the chart library", page.len());
    }

    #[test]
    fn the_surface_script_is_included_only_with_surfaces() {
        let bundles = |document: &Document| {
            let html = render(&Report::of_comparison(document, None));
            ["plotly.js (cartesian", "plotly.js (gl3d"].map(|bundle| html.matches(bundle).count())
        };
        assert_eq!(bundles(&compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20))), [1, 1]);
        assert_eq!(bundles(&compared(&workloads(&["ext4", "xfs"], 6))), [1, 0]);
    }
}

mod run {
    use fsb_model::Trial;

    use super::between;
    use crate::format::html;
    use crate::page::{PLOTLY, PLOTLY_3D};
    use crate::report::Report;
    use crate::run::Summary;
    use crate::run::headline::samples;
    use crate::sample;

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

    #[test]
    fn a_published_page_begins_with_its_run_and_lists_what_was_removed() {
        let (summary, trials, plain) = page(&["ext4", "xfs"], 5);
        let removed = ["serial numbers <of> devices (2, serials)".to_owned()];
        let kept = ["names".to_owned()];
        let run = html::PublishedRun { element: "<script id=\"r\">AAAA</script>", removed: &removed, kept: &kept };
        let mut published = Vec::new();
        html::write_published(&Report::of_run(&summary, &trials), &run, &mut published).unwrap();
        let published = String::from_utf8(published).unwrap();
        assert!(published.find(run.element).is_some_and(|at| at < 1000));
        assert!(published.contains("<section id=\"publication\"") && published.contains("request: names."));
        assert!(published.contains("<li>serial numbers &#60;of&#62; devices (2, serials)</li>"));
        // The whole run replaces the values of the plain page.
        assert!(plain.contains("id=\"data\"") && !published.contains("id=\"data\""));
        assert!(!plain.contains("id=\"publication\""));
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
        for cell in summary.cases.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
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
    fn targets_that_are_not_ranked_are_drawn_with_a_note() {
        let (mut record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
        let array = "xfs@raid0:loop+loop".parse::<fsb_model::Target>().unwrap();
        record.plan.targets[1].kind = array.kind;
        let why = "members of raid0:loop+loop share one disk".to_owned();
        let medium = fsb_model::run::MediumRecord { unjudged: Some(why), ..Default::default() };
        record.media.insert("raid0:loop+loop".to_owned(), medium);
        let summary = Summary::of_run(&record, &trials);
        assert!(summary.unjudged.is_none() && summary.targets[1].unjudged.is_some());
        let html = own(&render(&summary, &trials));
        let chart = |id: &str| -> serde_json::Value {
            let (_, chart) = html.split_once(&format!("<div class=\"chart\" id=\"{id}\"")).unwrap();
            serde_json::from_str(between(chart, "class=\"chart-data\">", "</script>")).unwrap()
        };
        let latency = html.split("<div class=\"chart\" id=\"").find(|text| text.starts_with("latency-0-")).unwrap();
        for figure in [chart("trials-0"), chart(latency.split_once('"').unwrap().0)] {
            let names: Vec<_> = figure["data"].as_array().unwrap().iter().map(|trace| &trace["name"]).collect();
            assert!(names.contains(&&"xfs, not ranked".into()) && names.contains(&&"btrfs".into()), "{names:?}");
        }
        let notes = chart("trials-0")["layout"]["annotations"].clone();
        assert!(notes.as_array().unwrap().iter().any(|note| note["text"] == "not ranked" && note["x"] == 1), "{notes}");
        assert!(html.contains("xfs, not ranked"));
    }

    #[test]
    fn further_rates_of_a_case_are_bars_of_each_target() {
        use fsb_model::metric::{DELETE_RATE, READ_RATE, WRITE_RATE};
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 5);
        let label = trials[0].workload.clone();
        for trial in trials.iter_mut().filter(|trial| trial.workload == label) {
            let Some(value) = trial.primary().map(|metric| metric.value) else { continue };
            trial.metrics.extend([READ_RATE.metric(value), WRITE_RATE.metric(2.0 * value), DELETE_RATE.metric(1e3)]);
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
        assert_eq!(chart("operations_per_second")["data"][0]["x"], serde_json::json!(["delete rate"]));
        assert_eq!(html.matches("id=\"values-").count(), 2, "other cases have no further rates");
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
            sums: Vec::new(),
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
        let table = PublishedTable { title, note, first: true, layout: PublishedLayout::Rates, rows, sums: Vec::new() };
        let summary = Summary::of_run(&record, &trials).with_published(&table);
        let html = own(&render(&summary, &trials));
        let section = between(&html, "id=\"published\"", "</section>");
        for text in ["create 1000 files, files/s", "sequential read 512K, MiB/s", ">2918<", "780 (97.5)", "674 (84.2)"]
        {
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
        for (row, cell) in summary.cases.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
            let value = row.unit.show(cell.estimate.as_ref().unwrap().value);
            assert!(html.contains(&format!("<span class=\"main\">{value}</span>")), "{value}");
        }
    }
}
