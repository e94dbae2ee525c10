//! The overview figure of a report, for a paper. It is laid out once; the formats draw it.

mod bars;
pub(crate) mod font;
mod forest;
mod plot;
pub(crate) mod scene;

use scene::Scene;

use crate::report::Report;

/// Lays the figure of a report out: changes against the baseline, or values if nothing is compared.
pub(crate) fn scene(report: &Report<'_>) -> Scene {
    let readable = report.readable();
    let view = readable.view();
    if forest::applies(&view) { forest::draw(&view) } else { bars::draw(&view) }
}

#[cfg(test)]
mod tests {
    use super::scene::Item;
    use super::*;
    use crate::run::Summary;
    use crate::run::headline::samples;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};

    fn texts(scene: &Scene) -> Vec<&str> {
        let texts = scene.items.iter().filter_map(|item| match item {
            Item::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn is_within(scene: &Scene) -> bool {
        let within = |[x, y]: [f64; 2]| (0.0..=scene.width).contains(&x) && (0.0..=scene.height).contains(&y);
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
        scene(&Report::of_run(&summary, &trials))
    }

    #[test]
    fn a_run_of_several_targets_shows_changes() {
        let figure = of_run(&["ext4", "xfs", "btrfs"], 6);
        let texts = texts(&figure);
        for text in ["change of speed against ext4 (right is faster)", "xfs", "btrfs", "0 %", "write 1M, durable"] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        assert!(!texts.contains(&"ext4"), "the baseline is the axis");
        let caption = texts.iter().find(|text| text.contains("seed 42")).expect("a caption");
        assert!(caption.contains("Linux 6") && caption.contains("6 blocks"), "{caption}");
        assert!(is_within(&figure));
    }

    #[test]
    fn a_run_of_times_shows_changes_of_time_as_its_table_does() {
        let (record, trials) = sample::micro(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let figure = scene(&report);
        let texts = texts(&figure);
        assert!(texts.contains(&"change of time against ext4 (left is faster)"), "{texts:?}");
        let readable = report.readable();
        let judged = readable.view().rows[0].cells[1].judged.expect("a comparison");
        let change = crate::show::minus(&judged.change().text());
        assert!(texts.iter().any(|text| text.starts_with(&change)), "{change} in {texts:?}");
        assert!(texts.iter().any(|text| text.contains("trust: ")), "{texts:?}");
    }

    #[test]
    fn a_run_of_one_target_shows_values_by_unit() {
        let figure = of_run(&["ext4"], 6);
        let texts = texts(&figure);
        assert!(texts.contains(&"GiB/s") && texts.contains(&"thousand operations/s"), "{texts:?}");
        assert!(is_within(&figure));
    }

    #[test]
    fn a_run_that_is_not_judged_shows_values_and_the_reason() {
        let (record, trials) = samples::emulated(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let figure = scene(&Report::of_run(&summary, &trials));
        assert!(texts(&figure).iter().any(|text| text.contains("Not judged: emulated")), "{:?}", texts(&figure));
        assert!(!texts(&figure).iter().any(|text| text.contains("against")));
    }

    #[test]
    fn a_run_without_values_is_a_figure() {
        let (record, _) = sample::run(&["ext4", "xfs"], 3);
        let summary = Summary::of_run(&record, &[]);
        assert!(texts(&scene(&Report::of_run(&summary, &[]))).contains(&"no values"));
    }

    #[test]
    fn many_targets_fit_the_page() {
        let names: Vec<String> = (0..24).map(|place| format!("ext4,data=journal,commit={place}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(is_within(&of_run(&names, 3)));
    }

    #[test]
    fn a_comparison_shows_changes_between_sets() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
        let figure = scene(&Report::of_comparison(&document, None));
        assert!(texts(&figure).contains(&"change of speed against xfs (right is faster)"));
        let one = scene(&Report::of_comparison(&document, Some("write")));
        assert!(one.height < figure.height);
    }
}
