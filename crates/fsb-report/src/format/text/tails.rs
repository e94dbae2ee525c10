//! Tails: how long the slowest operations of each row took.

use crate::report::Report;
use crate::run::{Secondary, Workload};
use crate::screen::{WIDTH, paragraph};

/// The metrics of the columns, and what the columns are called.
const COLUMNS: [(&str, &str); 4] =
    [("latency_p50", "p50"), ("latency_p99", "p99"), ("latency_p999", "p99.9"), ("latency_max", "longest")];

/// Percentiles of each row in `width` columns (80 at least), means over the blocks with the half-widths of their 95 %
/// intervals; nothing of a comparison, whose inputs may be of other tools.
pub fn tails(report: &Report<'_>, width: usize) -> String {
    let Report::Run { summary, .. } = report else { return String::new() };
    let mut lines = vec![String::new()];
    let timed = |row: &&Workload| row.cells.iter().any(|cell| cell.beside("latency_max").is_some());
    let rows: Vec<&Workload> = summary.rows.iter().filter(timed).collect();
    if rows.is_empty() {
        return "\nNo trial recorded the latencies of its operations.\n".to_owned();
    }
    let names = summary.targets.iter().map(|target| target.name.chars().count()).max().unwrap_or(0);
    for row in &rows {
        lines.push(row.workload.clone());
        lines.push(line("", names, COLUMNS.map(|(_, title)| title.to_owned())));
        for (target, cell) in summary.targets.iter().zip(&row.cells) {
            if cell.estimate.is_some() {
                let texts = COLUMNS.map(|(metric, _)| cell.beside(metric).map_or_else(|| "–".to_owned(), shown));
                lines.push(line(&target.name, names, texts));
            }
        }
    }
    let note = "Time of one operation: mean over the blocks, with the half-width of its 95 % interval; – where fewer than \
                100 operations of a block lie beyond.";
    paragraph(&mut lines, width.max(WIDTH), note, "  ", "  ");
    if rows.iter().any(|row| row.cells.iter().any(|cell| cell.scatter.is_some())) {
        let note = "Each short sample ends with a sync, so stalls of commits and checkpoints are outside it. The \
                    suite sustained, or stretch = \"60s\" in a plan, includes them.";
        paragraph(&mut lines, width.max(WIDTH), note, "  ", "  ");
    }
    lines.join("\n") + "\n"
}

fn line(name: &str, names: usize, texts: [String; 4]) -> String {
    let cells: String = texts.iter().map(|text| format!("  {text:>15}")).collect();
    format!("  {name:<names$}{cells}").trim_end().to_owned()
}

fn shown(found: &Secondary) -> String {
    let value = found.unit.show(found.description.mean);
    match &found.interval {
        Some(interval) => {
            let half = (interval.hi - interval.lo) / 2.0 / found.description.mean * 100.0;
            format!("{value} ±{half:.0} %")
        }
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{LATENCY_MAX, LATENCY_P50};

    use super::*;
    use crate::run::Summary;
    use crate::sample;

    #[test]
    fn tails_have_intervals_and_say_what_they_do_not_hold() {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        for trial in &mut trials {
            let noise = 1.0 + f64::from(trial.block) * 0.01;
            trial.metrics.retain(|metric| !metric.name.starts_with("latency"));
            trial.metrics.extend([LATENCY_P50.of(1e-3 * noise), LATENCY_MAX.of(50e-3 * noise)]);
        }
        let summary = Summary::of_run(&record, &trials);
        let text = tails(&Report::of_run(&summary, &trials), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("  ext4") && text.contains("1.04 ms ±") && text.contains("51.8 ms ±"), "{text}");
        assert!(text.contains("            –"), "no p99 is known: {text}");
        trials.iter_mut().for_each(|trial| trial.metrics.truncate(1));
        let summary = Summary::of_run(&record, &trials);
        assert!(tails(&Report::of_run(&summary, &trials), 80).contains("No trial recorded"));
    }
}
