//! Rows that differ in the number of threads, or of requests under way, alone: curves, and where they stop to gain.

use std::collections::BTreeMap;

use fsb_analysis::{Knee, knee};
use fsb_model::{Better, Params};

use super::curve::{By, Scaling};
use super::shown::ShownTrial;
use super::summary::{Measured, Summary, TargetSummary, Workload};
use crate::show::listed;

/// A curve has so many levels at least.
const FEWEST: usize = 3;

/// All curves of a page.
pub(super) fn curves(rows: &[Workload], targets: &[TargetSummary], trials: &[ShownTrial], theta: f64) -> Vec<Scaling> {
    let params = |row: &Workload| -> Option<&Params> {
        trials
            .iter()
            .find(|trial| trial.counts() && trial.what.workload == row.workload)
            .map(|trial| &trial.what.params)
    };
    let params: Vec<Option<&Params>> = rows.iter().map(params).collect();
    let mut curves: Vec<Scaling> = By::ALL.into_iter().flat_map(|by| of(by, rows, &params)).collect();
    for curve in &mut curves {
        curve.knees = (0..targets.len()).map(|target| knee_of(curve, rows, target, theta)).collect();
    }
    curves.sort_by_key(|curve| curve.rows[0]);
    curves
}

/// The curves along one of the parameters.
fn of(by: By, rows: &[Workload], params: &[Option<&Params>]) -> Vec<Scaling> {
    let mut families: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
    for (row, params) in params.iter().enumerate() {
        let Some(level) = params.and_then(|params| params.get(by.key())?.as_u64()) else { continue };
        let rest = params.iter().flat_map(|params| params.iter()).filter(|(key, _)| *key != by.key());
        let rest: Vec<String> = rest.map(|(key, value)| format!("{key}={value}")).collect();
        families.entry(rest.join(" ")).or_default().push((level, row));
    }
    let mut curves = Vec::new();
    for mut family in families.into_values().filter(|family| family.len() >= FEWEST) {
        family.sort_unstable();
        let (levels, places): (Vec<u64>, Vec<usize>) = family.into_iter().unzip();
        let what = common(&rows[places[0]].workload, &rows[places[1]].workload);
        curves.push(Scaling { what, by, levels, rows: places, knees: Vec::new() });
    }
    curves
}

/// The parts, between commas, that two labels share.
fn common(one: &str, other: &str) -> String {
    let others: Vec<&str> = other.split(", ").collect();
    one.split(", ").filter(|part| others.contains(part)).collect::<Vec<_>>().join(", ")
}

/// From the blocks in which all levels have a value.
fn knee_of(curve: &Scaling, rows: &[Workload], target: usize, theta: f64) -> Option<Knee> {
    if curve.rows.iter().any(|row| rows[*row].better != Better::Higher) {
        return None;
    }
    let cells: Vec<&Measured> = curve.rows.iter().map(|row| &rows[*row].cells[target]).collect();
    let value =
        |cell: &Measured, block: u32| cell.trials.iter().find(|point| point.block == block).map(|point| point.value);
    let blocks = cells.first()?.trials.iter().map(|point| point.block);
    let complete: Vec<Vec<f64>> =
        blocks.filter_map(|block| cells.iter().map(|cell| value(cell, block)).collect()).collect();
    knee(&complete, theta).ok().flatten()
}

/// A sentence a curve: `create 4K files: ext4 stops gaining at 2 threads (95 %: 1 to 2), xfs and btrfs gain to the last, 8
/// threads.`
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    summary.scaling.iter().filter_map(|curve| line(summary, curve)).collect()
}

fn line(summary: &Summary, curve: &Scaling) -> Option<String> {
    // Targets whose curves stop alike are named together.
    let mut alike: Vec<(Knee, Vec<&str>)> = Vec::new();
    for (target, knee) in summary.targets.iter().zip(&curve.knees) {
        let Some(knee) = *knee else { continue };
        match alike.iter_mut().find(|(known, _)| *known == knee) {
            Some((_, names)) => names.push(&target.name),
            None => alike.push((knee, vec![&target.name])),
        }
    }
    let told: Vec<String> = alike.iter().map(|(knee, names)| words(curve, *knee, names)).collect();
    (!told.is_empty()).then(|| format!("{}: {}.", curve.what, told.join(", ")))
}

fn words(curve: &Scaling, knee: Knee, names: &[&str]) -> String {
    let level = |place: usize| curve.levels[place];
    let span = match (knee.lo, knee.hi) {
        (lo, hi) if lo == hi => String::new(),
        (lo, hi) => format!(" (95 %: {} to {})", level(lo), level(hi)),
    };
    let (at, s) = (curve.by.counted(level(knee.level)), if names.len() == 1 { "s" } else { "" });
    let verb = match knee.level {
        last if last + 1 == curve.levels.len() => format!("gain{s} to the last,"),
        0 => format!("gain{s} nothing beyond"),
        _ => format!("stop{s} gaining at"),
    };
    format!("{} {verb} {at}{span}", listed(names))
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::OPERATION_RATE;

    use super::*;
    use crate::sample;

    /// A run of one workload over four numbers of threads.
    fn scaled(blocks: u32) -> Summary {
        let (mut record, all) = sample::run(&["ext4", "xfs"], blocks);
        let first = record.cells[0].label.clone();
        let mut cells = Vec::new();
        let mut trials = Vec::new();
        for threads in [1u64, 2, 4, 8] {
            let label = if threads == 1 { "create".to_owned() } else { format!("create, {threads} threads") };
            cells.push(fsb_model::Cell { label: label.clone(), ..record.cells[0].clone() });
            for trial in all.iter().filter(|trial| trial.workload == first) {
                let mut trial = trial.clone();
                let gains = if trial.target == "ext4" { threads.min(2) } else { threads };
                let rate = 1000.0 * gains as f64 * (1.0 + f64::from(trial.block % 2) * 1e-3);
                trial.metrics = vec![OPERATION_RATE.of(rate)];
                trial.params.insert("threads".to_owned(), threads.into());
                trial.workload.clone_from(&label);
                trials.push(trial);
            }
        }
        record.cells = cells;
        Summary::of_run(&record, &trials)
    }

    #[test]
    fn curves_are_found_and_told() {
        let summary = scaled(6);
        let [curve] = summary.scaling.as_slice() else { panic!("{:?}", summary.scaling) };
        assert_eq!(
            (curve.what.as_str(), curve.by, &*curve.levels, &*curve.rows),
            ("create", By::Threads, &[1, 2, 4, 8][..], &[0, 1, 2, 3][..])
        );
        assert_eq!(lines(&summary), ["create: ext4 stops gaining at 2 threads, xfs gains to the last, 8 threads."]);
    }

    #[test]
    fn few_blocks_have_curves_and_no_knees() {
        let summary = scaled(3);
        assert_eq!(summary.scaling[0].knees, [None, None]);
        assert!(lines(&summary).is_empty());
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        assert!(Summary::of_run(&record, &trials).scaling.is_empty(), "no row differs in a count alone");
    }
}
