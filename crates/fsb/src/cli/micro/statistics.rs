//! The results of `fsb micro`: statistics of the cycles, their precision and the exported samples.

use std::time::Duration;

use fsb_codes::notice;
use fsb_compat::pokorny::{Level, Options, samples_csv};
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::units::show_duration;
use fsb_model::{Repetition, RunRecord, StopReason, Trial};
use fsb_report::device_text;
use fsb_report::show::{counted, percent};
use fsb_stats::{describe, quantile, t_interval};

use super::log::Log;
use super::measure::{cycle_milliseconds, failure, iterations};
use crate::{exit, result_owner};

/// Logs the results, and writes the exported samples. Returns the exit code.
pub fn finish(record: &RunRecord, trials: &[Trial], options: &Options, log: &mut Log) -> anyhow::Result<u8> {
    if let Some(code) = failure(trials, log)? {
        return Ok(code);
    }
    let samples: Vec<f64> =
        trials.iter().flat_map(|trial| trial.observed.seconds_per_iteration.iter().copied()).collect();
    let blocks = if trials.len() > 1 { format!(" in {} blocks", trials.len()) } else { String::new() };
    let cycles = counted(samples.len(), "cycle");
    log.write(Level::Info, &format!("{}:\n  {cycles} of {}{blocks}", trials[0].workload, iterations(options)))?;
    for target in record.targets.values() {
        let kind = target.driver.as_deref().unwrap_or("unknown file system");
        // Each part has a line of its own, because the lines are long with time and level.
        let place = target.device.as_ref().map(|device| format!(" on {}", device_text(device).replace(", ", "\n  ")));
        log.write(Level::Info, &format!("directory: {kind}{}", place.unwrap_or_default()))?;
    }
    let microseconds: Vec<f64> = samples.iter().map(|sample| sample * 1e6).collect();
    log.write(Level::Info, &statistics("time of an iteration", "µs", &microseconds)?)?;
    log.write(Level::Info, &statistics("duration of a cycle", "ms", &cycle_milliseconds(trials))?)?;
    log_precision(record, trials.len(), log)?;
    let mut affected = trials.iter().filter(|trial| !trial.interference.is_empty());
    if let Some(first) = affected.next() {
        let causes: Vec<String> = first.interference.iter().map(fsb_report::interference_text).collect();
        let which = match trials.len() {
            1 => String::new(),
            all => format!(" in {} of {all} blocks, the first", affected.count() + 1),
        };
        let text = format!("interference{which}: {}; measure again on an idle machine", causes.join(", "));
        log.warn(&notice::MICRO_INTERFERENCE, &text)?;
    }
    if let Some(path) = &options.export_output {
        result_owner::replace(path, samples_csv(&samples).as_bytes())?;
    }
    Ok(exit::DONE)
}

/// Returns the statistics of the 2023 tool: mean, median, standard deviation, percentiles, and two intervals of the mean
/// by Student's t, which take the cycles as independent.
fn statistics(title: &str, unit: &str, samples: &[f64]) -> anyhow::Result<String> {
    let all = describe(samples)?;
    let mut lines = vec![
        format!("{title}:"),
        format!("  mean                {:.3} {unit}", all.mean),
        format!("  median              {:.3} {unit}", all.median),
        format!("  standard deviation  {:.3} {unit}", all.sd),
    ];
    for percent in [5, 25, 75, 95] {
        let value = quantile(samples, f64::from(percent) / 100.0)?;
        lines.push(format!("  {:<18}  {value:.3} {unit}", format!("{percent}th percentile")));
    }
    for (name, level) in [("99 %", 0.99), ("99.9 %", 0.999)] {
        let interval = match t_interval(samples, level)? {
            Some(interval) => format!("{:.3} to {:.3} {unit}", interval.lo, interval.hi),
            None => "unknown with one cycle".to_owned(),
        };
        lines.push(format!("  {:<18}  {interval}", format!("{name} interval")));
    }
    Ok(lines.join("\n"))
}

/// Logs whether the blocks reached the precision of `--precision`.
fn log_precision(record: &RunRecord, blocks: usize, log: &mut Log) -> anyhow::Result<()> {
    let Repetition::Precision { half_width, seconds } = record.plan.repetition else { return Ok(()) };
    let (asked, blocks) = (percent(half_width), counted(blocks, "block"));
    let shortfall = match &record.stop_reason {
        Some(StopReason::Precise { reached, .. }) => {
            let reached = reached.map_or_else(String::new, |reached| format!("±{} ", percent(reached)));
            let text = format!(
                "precision {reached}reached after {blocks}\n  (±{asked} requested)\n  It is that of the 95 % interval of \
                 the mean\n  of blocks, which allows for stopping early;\n  the intervals of cycles do not."
            );
            return log.write(Level::Info, &text);
        }
        Some(StopReason::BudgetWouldBePassed { shortfall, .. } | StopReason::Imprecise { shortfall, .. }) => shortfall,
        _ => &None,
    };
    let found = match shortfall.as_ref().and_then(|shortfall| shortfall.widest.half_width) {
        Some(found) => format!("the 95 % interval of their mean is ±{}", percent(found)),
        None => format!("the mean is judged from {FEWEST_BLOCKS_JUDGED} on"),
    };
    let budget = show_duration(Duration::from_secs_f64(seconds));
    let text = format!("precision ±{asked} not reached: {budget} held {blocks}, and {found}; raise --budget");
    log.warn(&notice::MICRO_IMPRECISE, &text)
}
