//! The runs of a set: means per case, and the standard deviation between runs.

use fsb_stats::describe;

use crate::screen::{CellPart, ScreenColumn, WIDTH, paragraph, tables};
use crate::show::{Change, counted};
use crate::summary::{MeasuredCell, Summary, Workload};

/// Returns a table in `width` columns (80 at least): for the baseline the mean value of each case,
/// for other targets the mean change against it, each with the standard deviation between runs.
/// Every run counts once. A case without a value in some runs is shown with the number of the
/// others.
pub fn screen(runs: &[Summary], width: usize) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let width = width.max(WIDTH);
    let mut rows: Vec<&Workload> = Vec::new();
    for row in runs.iter().flat_map(|run| &run.cases) {
        if !rows.iter().any(|known| known.workload == row.workload) {
            rows.push(row);
        }
    }
    let labels: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
    let columns: Vec<ScreenColumn> = (0..first.targets.len())
        .map(|target| {
            ScreenColumn::new(
                &first.targets[target].label(),
                rows.iter()
                    .map(|row| {
                        (
                            CellPart::Value(text(runs, row, target), String::new()),
                            None,
                        )
                    })
                    .collect(),
            )
        })
        .collect();
    let mut lines = Vec::new();
    let title = format!(
        "{}: means with the standard deviation (sd) between runs",
        counted(runs.len(), "run")
    );
    paragraph(&mut lines, width, &title, "", "  ");
    lines.extend(tables(&labels, &columns, width, false));
    lines.join("\n") + "\n\n"
}

/// Returns text such as `819 MiB/s, sd 3.1 %` or `+12 %, sd 2.0 %`.
fn text(runs: &[Summary], row: &Workload, target: usize) -> String {
    let value = |cell: &MeasuredCell| match target {
        0 => cell.estimate.as_ref().map(|estimate| estimate.value),
        _ => cell.against.as_ref().map(|against| against.ratio),
    };
    let logs: Vec<f64> = runs
        .iter()
        .filter_map(|run| {
            let same = run
                .cases
                .iter()
                .find(|other| other.workload == row.workload)?;
            value(same.cells.get(target)?)
        })
        .map(f64::ln)
        .collect();
    let Ok(found) = describe(&logs) else {
        return "–".to_owned();
    };
    let mean = found.mean.exp();
    let mean = if target == 0 {
        row.unit.show(mean)
    } else {
        Change::between(mean, None).center
    };
    let spread = found.sd.exp_m1() * 100.0;
    match found.n {
        1 => format!("{mean}, 1 run"),
        n if n < runs.len() => format!("{mean}, sd {spread:.1} % of {n} runs"),
        _ => format!("{mean}, sd {spread:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_run_counts_once_and_the_spread_is_between_runs() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let run = |factor: f64| {
            let mut trials = trials.clone();
            let rename = trials
                .iter_mut()
                .filter(|trial| trial.target == "xfs" && trial.workload == "rename 4K files");
            rename
                .flat_map(|trial| &mut trial.metrics)
                .for_each(|metric| metric.value *= factor);
            Summary::of_run(&record, &trials)
        };
        let runs = [run(0.9), run(1.0), run(1.0 / 0.9)];
        let text = screen(&runs, 80);
        assert!(
            text.starts_with("3 runs: means with the standard deviation (sd) between runs\n"),
            "{text}"
        );
        let row = text
            .lines()
            .find(|line| line.starts_with("rename 4K files"))
            .unwrap();
        // The standard deviation of ln 0.9, 0 and -ln 0.9 is 0.105.
        assert!(
            row.contains("kop/s, sd 0.0 %") && row.trim_end().ends_with("%, sd 11.1 %"),
            "{row}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let one = screen(&runs[..1], 80);
        assert!(
            one.starts_with("1 run: ") && one.contains(", 1 run"),
            "{one}"
        );
        assert_eq!(screen(&[], 80), "");
        let without = |name: &str| {
            let kept: Vec<_> = trials
                .iter()
                .filter(|trial| trial.workload != name)
                .cloned()
                .collect();
            Summary::of_run(&record, &kept)
        };
        let text = screen(&[without("rename 4K files"), run(1.0), run(0.9)], 80);
        let row = text
            .lines()
            .find(|line| line.starts_with("rename 4K"))
            .unwrap();
        assert!(row.contains("of 2 runs"), "{row}");
    }
}
