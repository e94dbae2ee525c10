//! The trials of `fsb micro`: their phases in the log, and the pilot that chooses iterations and warm-up.

use std::time::Duration;

use anyhow::Context;
use fsb_compat::pokorny::{Level, Options};
use fsb_model::{Outcome, RunRecord, Trial};
use fsb_report::show::counted;
use fsb_runner::event::{Event, Observer};
use fsb_runner::plan_file::{PlanFile, RepetitionFile, Resolved, typed};
use fsb_stats::{describe, warm_up_length};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use super::log::Log;
use crate::coordinator::{self, Turn};
use crate::journal::Nowhere;
use crate::progress::{Progress, Verbosity};
use crate::{exit, result_owner};

/// The duration of a cycle if fsb chooses the iterations: twice the least that the thesis asks for (section 4.4.3),
/// because the pilot only estimates it.
const CYCLE: Duration = Duration::from_millis(200);
/// The cycles of the pilot trial, from which fsb chooses iterations and warm-up.
const PILOT_CYCLES: u64 = 20;
/// The most iterations that fsb chooses.
const MOST_ITERATIONS: u64 = 100_000;
/// The fewest iterations that threads share.
const SHARED: u64 = 11;

/// Returns the plan of one workload on one directory.
pub fn plan(options: &Options, repetition: &RepetitionFile) -> anyhow::Result<Resolved> {
    // The 2023 tool works in the directory of temporary files by default, so that it does not fill the current one.
    let output = options.output.clone().unwrap_or_else(std::env::temp_dir);
    // An absolute path cannot be mistaken for a file system.
    let target = result_owner::absolute(&output)?;
    let typed = PlanFile {
        name: Some("micro".to_owned()),
        targets: vec![typed(&target.display().to_string())],
        workloads: vec![options.workload()],
        identity: options.identity.clone(),
        repetition: repetition.clone(),
        // The 2023 tool did not touch memory first; keep its convention.
        controls: [("guest-memory".to_owned(), "off".to_owned())].into(),
        ..PlanFile::default()
    };
    Ok(typed.resolve(coordinator::cpus(), coordinator::fresh_seed())?)
}

/// Makes the trials, and logs the phases of each.
pub fn measure(
    options: &Options,
    repetition: &RepetitionFile,
    log: &mut Log,
    turn: Turn,
) -> anyhow::Result<(RunRecord, Vec<Trial>)> {
    let resolved = plan(options, repetition)?;
    let verbosity = Verbosity { quiet: options.min_log_level > Level::Info, verbose: false };
    let progress = Progress::new(&resolved.plan.targets, false, verbosity);
    let mut observer = EndTimes { progress, ended: Vec::new() };
    let made = coordinator::perform_unsaved(resolved, &mut Nowhere, &mut observer, turn);
    observer.progress.finish();
    let (record, mut trials) = made?;
    // Of many blocks, the phases are details.
    let level = if trials.len() > 1 { Level::Debug } else { Level::Info };
    for (trial, ended) in trials.iter().zip(&observer.ended) {
        log_phases(trial, *ended, level, log)?;
    }
    // A trial that the budget cut does not count.
    trials.retain(Trial::counts);
    Ok((record, trials))
}

/// Shows the progress, and notes when trials end. The plan of the blocks is not shown, because the log says when they
/// end.
struct EndTimes {
    progress: Progress,
    ended: Vec<Timestamp>,
}

impl Observer for EndTimes {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Planned { .. } => return,
            Event::Ended { .. } => self.ended.push(Timestamp::now()),
            _ => {}
        }
        self.progress.event(event);
    }
}

/// Logs when warm-up, cycles and clean-up of a trial began and ended. The lines carry these times, although they are
/// written after the trial: a process that measures does not print.
fn log_phases(trial: &Trial, ended: Timestamp, level: Level, log: &mut Log) -> anyhow::Result<()> {
    let (spans, samples) = (&trial.observed.cycle_spans_ns, &trial.observed.seconds_per_iteration);
    if trial.outcome != Outcome::Ok || spans.len() < samples.len() {
        return Ok(());
    }
    let (now, clock) = (Timestamp::now(), clock_gettime(ClockId::Monotonic));
    let now_ns = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
    let at = |ns: u64| before(now, Duration::from_nanos(now_ns.saturating_sub(ns)));
    let (warm_up, measured) = spans.split_at(spans.len() - samples.len());
    for (name, spans) in [("warm-up", warm_up), ("measurement", measured)] {
        let (Some([begin, _]), Some([_, end])) = (spans.first(), spans.last()) else { continue };
        log.write_at(at(*begin), level, &format!("{name} begins: {}", counted(spans.len(), "cycle")))?;
        if name != "warm-up" {
            for (number, (span, sample)) in (1..).zip(measured.iter().zip(samples)) {
                let text = format!("cycle {number}: {:.3} µs an iteration, {:.3} ms", sample * 1e6, milliseconds(span));
                log.write_at(at(span[1]), Level::Debug, &text)?;
            }
        }
        log.write_at(at(*end), level, &format!("{name} ends"))?;
    }
    let cleanup = trial.observed.spent_seconds.map_or(0.0, |spent| spent.cleanup);
    log.write_at(before(ended, Duration::from_secs_f64(cleanup)), level, "clean-up begins")?;
    log.write_at(ended, level, "clean-up ends")
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_sub(duration).unwrap_or(time)
}

/// Returns the duration of a cycle in milliseconds.
fn milliseconds([start, end]: &[u64; 2]) -> f64 {
    end.saturating_sub(*start) as f64 * 1e-6
}

/// Chooses the iterations and the warm-up cycles that were not set, from a pilot trial without warm-up. Returns the exit
/// code if the pilot fails.
///
/// The iterations let a cycle last [`CYCLE`]. The warm-up is as long as that of the pilot, in iterations, and at least
/// one cycle.
pub fn choose_amounts(options: &mut Options, log: &mut Log, turn: Turn) -> anyhow::Result<Option<u8>> {
    let chooses_iterations = !options.is_given("iterations");
    let chooses_warm_up = options.use_warmup && !options.is_given("warmupCycleCount");
    if !chooses_iterations && !chooses_warm_up {
        return Ok(None);
    }
    if chooses_iterations && options.multi_threaded {
        options.iterations = options.iterations.max(SHARED);
    }
    let pilot = Options { run_count: PILOT_CYCLES, use_warmup: false, ..options.clone() };
    log.write(Level::Info, &format!("pilot: {PILOT_CYCLES} cycles of {}", iterations(&pilot)))?;
    let once = RepetitionFile { blocks: Some(1), ..RepetitionFile::default() };
    let (_, trials) = measure(&pilot, &once, log, turn)?;
    if let Some(code) = failure(&trials, log)? {
        return Ok(Some(code));
    }
    let observed = &trials[0].observed;
    if chooses_iterations {
        let cycle = describe(&cycle_milliseconds(&trials))?.mean * 1e-3 / pilot.iterations as f64;
        let fewest = if options.multi_threaded { SHARED } else { 1 };
        options.iterations = ((CYCLE.as_secs_f64() / cycle).ceil() as u64).clamp(fewest, MOST_ITERATIONS);
    }
    if chooses_warm_up {
        let warm_up = warm_up_length(&observed.seconds_per_iteration)? as u64 * pilot.iterations;
        options.warmup_cycle_count = warm_up.div_ceil(options.iterations).max(1);
    }
    let warm_up = if options.use_warmup { options.warmup_cycle_count } else { 0 };
    let text = format!("chosen: {}, {} of warm-up", iterations(options), counted(warm_up as usize, "cycle"));
    log.write(Level::Info, &text)?;
    Ok(None)
}

/// Returns the number of iterations of a cycle, as text.
pub fn iterations(options: &Options) -> String {
    counted(options.iterations as usize, "iteration")
}

/// Returns the durations of the measured cycles of all trials.
pub fn cycle_milliseconds(trials: &[Trial]) -> Vec<f64> {
    let of_trial = |trial: &Trial| {
        let spans = &trial.observed.cycle_spans_ns;
        let warm_up = spans.len().saturating_sub(trial.observed.seconds_per_iteration.len());
        spans[warm_up..].iter().map(milliseconds).collect::<Vec<_>>()
    };
    trials.iter().flat_map(of_trial).collect()
}

/// Logs the reason of the first trial that did not end well. Returns the exit code for it.
pub fn failure(trials: &[Trial], log: &mut Log) -> anyhow::Result<Option<u8>> {
    trials.first().context("no trial was made")?;
    let Some(failed) = trials.iter().find(|trial| trial.outcome != Outcome::Ok) else { return Ok(None) };
    log.write(Level::Error, &failed.reason())?;
    Ok(Some(exit::TRIALS))
}
