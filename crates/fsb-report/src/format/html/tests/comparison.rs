use fsb_stats::compare::Document;
use serde_json::Value;

use crate::format::html::render;
use crate::page::{PLOTLY, PLOTLY_3D};
use crate::report::Report;
use crate::sample_sets::{compared, iozone, workloads};

/// The page without the script of the chart library, whose text is not ours.
fn own(document: &Document, detail: Option<&str>) -> String {
    render(&Report::of_comparison(document, detail)).replace(PLOTLY.as_str(), "").replace(PLOTLY_3D.as_str(), "")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
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
        if id.starts_with("scatter") || id.starts_with("heat") {
            assert_eq!(choices.len(), 2, "{id}: one a candidate");
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
    let uncertain = document.operations[0].cells.iter().filter(|cell| cell.against["ext4"].colour == Colour::Uncertain);
    assert_eq!(rates[1]["x"].as_array().map(Vec::len), Some(uncertain.count()));
    document.operations[0].better = fsb_model::Better::Lower;
    let times = heat(&document);
    let (rate, time) = (rates[0]["z"][0][0].as_f64().unwrap(), times[0]["z"][0][0].as_f64().unwrap());
    assert!((rate + time).abs() < 1e-4 && rate != 0.0, "{rate} {time}");
    assert_eq!(rates[0]["customdata"], times[0]["customdata"], "what is told is the change itself");
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
