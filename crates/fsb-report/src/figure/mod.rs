//! The figures of a report, for a paper. They are laid out once; the formats draw them.

mod bars;
mod curves;
pub(crate) mod font;
pub(crate) mod forest;
pub(crate) mod plot;
pub(crate) mod scene;

use scene::Scene;

use crate::report::Report;
use crate::view::{Row, View};

/// Lays the figure of a report out: changes against the baseline, or values if nothing is compared.
pub(crate) fn overview(report: &Report<'_>) -> Scene {
    let readable = report.readable();
    let view = readable.view();
    if forest::applies(&view) {
        forest::draw(&view)
    } else {
        bars::draw(&view)
    }
}

/// Lays all figures of a report out, each with a name that depends on its subject alone:
/// `overview`, `values`, `scaling-1`, `trials-read-1m-cold`, `latency-read-1m-cold-read`. Where
/// nothing is judged there is the overview only.
pub(crate) fn all(report: &Report<'_>) -> Vec<(String, Scene)> {
    let readable = report.readable();
    let view = readable.view();
    let is_forest = forest::applies(&view);
    let mut figures = vec![(
        "overview".to_owned(),
        if is_forest {
            forest::draw(&view)
        } else {
            bars::draw(&view)
        },
    )];
    if view.unjudged.is_none() {
        figures.extend(is_forest.then(|| ("values".to_owned(), bars::draw(&view))));
        let curves = view.scaling.iter().zip(1..);
        figures.extend(curves.filter_map(|(curve, number)| {
            Some((format!("scaling-{number}"), curves::scaling(&view, curve)?))
        }));
        let rows = view.rows.iter().filter(|_| view.has_row_sections);
        figures.extend(rows.flat_map(|row| of_row(&view, row)));
    }
    make_names_unique(&mut figures);
    figures
}

/// Lays out the figures of a row.
fn of_row(view: &View<'_>, row: &Row<'_>) -> Vec<(String, Scene)> {
    let label = plain(&row.label);
    let trials = curves::trials(view, row).map(|scene| (format!("trials-{label}"), scene));
    let operations = row
        .workload()
        .map(|workload| workload.timed_operations())
        .unwrap_or_default();
    trials
        .into_iter()
        .chain(operations.into_iter().filter_map(|operation| {
            Some((
                format!("latency-{label}-{}", plain(operation)),
                curves::latency(view, row, operation)?,
            ))
        }))
        .collect()
}

/// Returns a text as a part of a file name: lower-case letters and digits, with a hyphen for
/// everything between them.
pub(crate) fn plain(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let parts = lower
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// Appends a number to each name that an earlier figure has.
pub(crate) fn make_names_unique(figures: &mut [(String, Scene)]) {
    for index in 1..figures.len() {
        let (earlier, rest) = figures.split_at_mut(index);
        let name = &mut rest[0].0;
        let wanted = name.clone();
        let mut number = 2;
        while earlier.iter().any(|(taken, _)| taken == name) {
            *name = format!("{wanted}-{number}");
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scene::Item;
    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;
    use crate::summary::headline::samples;

    fn texts(scene: &Scene) -> Vec<&str> {
        let texts = scene.items.iter().filter_map(|item| match item {
            Item::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn is_within(scene: &Scene) -> bool {
        let within = |[x, y]: [f64; 2]| {
            (0.0..=scene.width).contains(&x) && (0.0..=scene.height).contains(&y)
        };
        scene.items.iter().all(|item| match item {
            Item::Line { from, to, .. } => within(*from) && within(*to),
            Item::Polygon { points, .. } => points.iter().all(|point| within(*point)),
            Item::Circle { center, .. } => within(*center),
            Item::Text { at, .. } => within(*at),
        })
    }

    fn of_run(targets: &[&str], blocks: u32) -> Scene {
        let (record, trials) = sample::run(targets, blocks);
        let summary = Summary::of_run(&record, &trials);
        overview(&Report::of_run(&summary, &trials))
    }

    #[test]
    fn a_run_of_several_targets_shows_changes() {
        let figure = of_run(&["ext4", "xfs", "btrfs"], 6);
        let texts = texts(&figure);
        for text in [
            "change of speed against ext4 (right is faster)",
            "xfs",
            "btrfs",
            "0 %",
            "write 1M, durable",
        ] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        assert!(!texts.contains(&"ext4"), "the baseline is the axis");
        let caption = texts
            .iter()
            .find(|text| text.contains("seed 42"))
            .expect("a caption");
        assert!(
            caption.contains("Linux 6") && caption.contains("6 blocks"),
            "{caption}"
        );
        assert!(is_within(&figure));
    }

    #[test]
    fn a_run_of_times_shows_changes_of_time_as_its_table_does() {
        let (record, trials) = sample::micro(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let figure = overview(&report);
        let texts = texts(&figure);
        assert!(
            texts.contains(&"change of time against ext4 (left is faster)"),
            "{texts:?}"
        );
        let readable = report.readable();
        let judged = readable.view().rows[0].cells[1]
            .judged
            .expect("a comparison");
        let change = crate::show::minus(&judged.change().text());
        assert!(
            texts.iter().any(|text| text.starts_with(&change)),
            "{change} in {texts:?}"
        );
        assert!(
            texts.iter().any(|text| text.contains("trust: ")),
            "{texts:?}"
        );
    }

    #[test]
    fn a_run_of_one_target_shows_values_by_unit() {
        let figure = of_run(&["ext4"], 6);
        let texts = texts(&figure);
        assert!(
            texts.contains(&"GiB/s") && texts.contains(&"thousand operations/s"),
            "{texts:?}"
        );
        assert!(is_within(&figure));
    }

    #[test]
    fn a_run_that_is_not_judged_shows_values_and_the_reason() {
        let (record, trials) = samples::emulated(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let figure = overview(&Report::of_run(&summary, &trials));
        assert!(
            texts(&figure)
                .iter()
                .any(|text| text.contains("Not judged: emulated")),
            "{:?}",
            texts(&figure)
        );
        assert!(!texts(&figure).iter().any(|text| text.contains("against")));
    }

    #[test]
    fn a_run_without_values_is_a_figure() {
        let (record, _) = sample::run(&["ext4", "xfs"], 3);
        let summary = Summary::of_run(&record, &[]);
        assert!(texts(&overview(&Report::of_run(&summary, &[]))).contains(&"no values"));
    }

    #[test]
    fn many_targets_fit_the_page() {
        let names: Vec<String> = (0..24)
            .map(|place| format!("ext4,data=journal,commit={place}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(is_within(&of_run(&names, 3)));
    }

    #[test]
    fn figures_of_a_run_have_stable_names_and_stay_on_the_page() {
        let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let figures = all(&report);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names[..3],
            ["overview", "values", "trials-write-1m-durable"]
        );
        assert!(
            names
                .iter()
                .any(|name| name.starts_with("latency-write-1m-durable-")),
            "{names:?}"
        );
        assert_eq!(
            names
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            names.len(),
            "{names:?}"
        );
        for (name, figure) in &figures {
            assert!(is_within(figure), "{name}");
            assert!(figure.items.len() > 20, "{name} is empty");
        }
        let same: Vec<String> = all(&report).into_iter().map(|(name, _)| name).collect();
        assert_eq!(same, names);
        assert_eq!(figures[0].1, overview(&report));
    }

    #[test]
    fn a_run_that_is_not_judged_has_one_figure() {
        let (record, trials) = samples::emulated(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        assert_eq!(all(&Report::of_run(&summary, &trials)).len(), 1);
    }

    #[test]
    fn names_of_figures_are_file_names() {
        assert_eq!(plain("read 4K, cold (./../x)"), "read-4k-cold-x");
        let empty = of_run(&["ext4"], 3);
        let mut figures = vec![
            ("a".to_owned(), empty.clone()),
            ("a".to_owned(), empty.clone()),
            ("a-2".to_owned(), empty),
        ];
        make_names_unique(&mut figures);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2"]);
    }

    #[test]
    fn a_comparison_shows_changes_between_sets() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
        let figure = overview(&Report::of_comparison(&document, None));
        assert!(texts(&figure).contains(&"change of speed against xfs (right is faster)"));
        let one = overview(&Report::of_comparison(&document, Some("write")));
        assert!(one.height < figure.height);
    }
}
