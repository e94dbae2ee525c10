//! Progress on the terminal, on standard error: one line with the current work and the expected
//! time.

use fsb_results::summary;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use fsb_model::notice::{self, Notice};
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::units::{show_duration, show_rate};
use fsb_model::{Outcome, RunRecord, StoppingRule, Target, Trial, Warning};
use fsb_report::show::counted;
use fsb_report::{
    Releases, Report, cut_name, interference_text, stopping_rule_text, text, visible, warning_text,
};
use fsb_runner::event::{Event, Observer};
use fsb_testbed::Activity;
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use serde_json::{Map, Value};

use crate::help::heading;
use crate::message::{self, Level, Message, MessageFormat, notify, say};
use crate::terminal;

/// The amount of progress to print.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Verbosity {
    /// Do not show progress
    #[arg(long, short, hide_short_help = true, help_heading = heading::OUTPUT)]
    pub quiet: bool,
    /// Print a line per block where standard error is not a terminal
    #[arg(long, short, hide_short_help = true, conflicts_with = "quiet", help_heading = heading::OUTPUT)]
    pub verbose: bool,
}

/// Prints events as they come.
pub struct Progress {
    bar: ProgressBar,
    /// Whether lines are printed because standard error is not a terminal.
    lines: bool,
    verbosity: Verbosity,
    releases: Releases,
    planned: bool,
    /// The text about the current trial, and its last reported progress with its time.
    trial: String,
    told: Option<(u64, Instant)>,
    /// Trials that ended, and the number of all trials if it is known.
    ended: Option<(u64, u64)>,
    /// Targets that are being made for `block`, until a trial measures them.
    making: Vec<String>,
    block: u32,
    /// Whether this is a race: its lines name race rounds.
    race_rounds: bool,
    /// Whether `--verbose` printed the first answer.
    is_answered: bool,
    /// Half of the widest interval after the last block, as a share of its value.
    half_width: Option<f64>,
    /// Failures that were printed, by target, workload, reason and whether the trial is retried: a
    /// command that cannot work fails in every block.
    failures: BTreeSet<(String, String, Option<String>, bool)>,
    /// The newest error of each target that could not be made.
    refused: BTreeMap<String, String>,
    /// Errors of such targets that were printed, without the numbers of devices: each block has
    /// others.
    refusals: BTreeSet<(String, String)>,
    /// The host that makes the run, if other hosts have lines beside this one.
    host: Option<String>,
}

impl Progress {
    /// Returns the progress of a run of these targets, in a race or not. A quiet one shows warnings
    /// only.
    pub fn new(targets: &[Target], race: bool, verbosity: Verbosity) -> Self {
        Progress::on_host(targets, race, verbosity, None)
    }

    /// Returns the progress of a run on a host. With `beside`, which has the name of the host, it
    /// is one line among those of other hosts.
    pub fn on_host(
        targets: &[Target],
        race: bool,
        verbosity: Verbosity,
        beside: Option<(&str, &MultiProgress)>,
    ) -> Self {
        let terminal = std::io::stderr().is_terminal() && message::format() == MessageFormat::Text;
        let bar = if verbosity.quiet || !terminal {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(0)
        };
        let bar = match beside {
            Some((_, lines)) if !bar.is_hidden() => lines.add(bar),
            _ => bar,
        };
        let progress = Progress {
            bar,
            lines: !terminal && !verbosity.quiet,
            verbosity,
            releases: Releases::from_names(targets.iter().map(|target| target.name.as_str())),
            planned: false,
            trial: String::new(),
            told: None,
            ended: None,
            making: Vec::new(),
            block: 0,
            race_rounds: race,
            is_answered: false,
            half_width: None,
            failures: BTreeSet::new(),
            refused: BTreeMap::new(),
            refusals: BTreeSet::new(),
            host: beside.map(|(host, _)| host.to_owned()),
        };
        progress.show_trials();
        if !progress.bar.is_hidden() {
            keep_moving(&progress.bar);
        }
        progress
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints a message of the fsb that makes the run on another host.
    pub fn relay(&self, message: &Message) {
        message.relay(&|text| self.tell(text));
    }

    /// Prints a line that a quiet run prints, too.
    fn tell(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    fn style(&self, template: &str) {
        // The templates are constants of this file, so the first test that runs anything finds a
        // broken one.
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar
                .set_style(style.progress_chars("━╸ ").with_key("left", time_left));
        }
    }

    /// Shows how many trials have ended, and of how many; nothing before the first one, when their
    /// number is unknown.
    fn show_trials(&self) {
        match self.ended {
            Some((done, of)) => {
                self.style(&format!("{{prefix}}{{bar:{BAR}}} {{pos}}/{{len}} {{msg}}"));
                self.show_position(done, of);
            }
            None if self.host.is_some() => self.style("{spinner} {wide_msg}"),
            None => self.style("{spinner} {msg}"),
        }
    }

    /// Sets both numbers at once, so that no line shows one of them beside the other's predecessor.
    fn show_position(&self, done: u64, of: u64) {
        self.bar.update(|state| {
            state.set_len(of);
            state.set_pos(done);
        });
    }

    /// Shows the results so far above the bar after a block: what the terminal has room for of the
    /// answer with its table and its marks explained, without the explanation, and the table alone.
    /// `--verbose` prints the first answer into a log.
    fn show_results(&mut self, record: &RunRecord, trials: &[Trial]) {
        let in_log = self.lines && self.verbosity.verbose && !self.is_answered;
        if record.plan.race.is_some() || self.host.is_some() || (self.bar.is_hidden() && !in_log) {
            return;
        }
        let blocks = (self.block, record.blocks_planned.unwrap_or(self.block));
        let is_analysed = record
            .interim_analyses
            .first()
            .is_some_and(|first| *first <= self.block);
        // After the last block, the report follows.
        if in_log && (!is_analysed || blocks.0 >= blocks.1) {
            return;
        }
        let summary = summary::of_run_in_memory(record, trials);
        let report = Report::of_run(&summary, trials);
        let answer = |width, legend| {
            let answer = text::answer_so_far(&report, blocks, width, legend);
            answer.filter(|_| is_analysed)
        };
        if in_log {
            let Some(answer) = answer(terminal::columns(std::io::stderr()), true) else {
                return;
            };
            self.is_answered = true;
            let fields = [("made", blocks.0.into()), ("planned", blocks.1.into())];
            return self.bar.suspend(|| {
                message::notify_lines(&notice::ANSWER_SO_FAR, fields, &answer);
            });
        }
        self.half_width =
            summary::widest_interval(record, trials).and_then(|widest| widest.half_width);
        let Ok(terminal) = rustix::termios::tcgetwinsize(std::io::stderr()) else {
            return;
        };
        let (columns, rows) = (usize::from(terminal.ws_col), usize::from(terminal.ws_row));
        // A line that is as long as the terminal is wide would be two.
        let width = columns.saturating_sub(1).max(1);
        let fitting = |text: &String| fits(text, columns, rows);
        let shown = answer(width, true)
            .filter(fitting)
            .or_else(|| answer(width, false).filter(fitting))
            .or_else(|| Some(text::table_so_far(&report, columns)).filter(fitting))
            .or_else(|| answer(width.min(text::TABLE_WIDTH - 1), false));
        if let Some(shown) = shown.filter(fitting) {
            self.bar.set_prefix(format!("{shown}\n"));
        }
    }

    fn line(&self, text: &str) {
        self.print(text, say);
    }

    /// Prints a line that has a code and fields for programs.
    fn notify<const N: usize>(&self, notice: &Notice, fields: [(&str, Value); N], text: &str) {
        self.print(text, |text| notify(notice, fields, text));
    }

    fn print(&self, text: &str, print: impl FnOnce(&str)) {
        let text = visible::line(text);
        if self.lines || !self.verbosity.quiet {
            self.bar.suspend(|| print(&text));
        }
    }

    /// Prints in a log the targets that a block measures: all of them side by side, or one at a
    /// time.
    fn line_of_block(&mut self) {
        let targets = std::mem::take(&mut self.making).join(", ");
        if self.lines && self.verbosity.verbose && !self.race_rounds && !targets.is_empty() {
            self.line(&format!("{}: {targets}", stage(self.block)));
        }
    }

    /// Shows the current work beside the bar.
    fn message(&self, text: &str) {
        let text = visible::line(text);
        match &self.host {
            Some(host) => self.bar.set_message(format!("{host}: {text}")),
            None => self.bar.set_message(cut_name(&text, self.room())),
        }
    }

    /// Returns the columns beside the bar.
    fn room(&self) -> usize {
        let numbers = self
            .ended
            .map_or(0, |(done, of)| BAR + format!(" {done}/{of} ").len());
        terminal::columns(std::io::stderr()).saturating_sub(numbers + 2)
    }
}

/// Returns whether a terminal has room for a text above the bar.
fn fits(text: &str, columns: usize, rows: usize) -> bool {
    /// The bar, the line of the prompt, and one to spare.
    const BESIDE: usize = 3;
    text.lines().count() + BESIDE <= rows && text.lines().all(|line| line.chars().count() < columns)
}

/// The width of the bar.
const BAR: usize = 24;

/// Writes the time that is left, once it is known.
fn time_left(state: &ProgressState, line: &mut dyn std::fmt::Write) {
    let left = state.eta();
    if state.pos() > 0 && left >= Duration::from_secs(1) {
        // A line that is not complete is drawn again.
        let _ = write!(line, ", {} left", show_duration(left));
    }
}

/// Draws the bar regularly until it is finished. The bar's own ticker panics if no thread can be
/// started; without a thread the bar is drawn only on events.
fn keep_moving(bar: &ProgressBar) {
    const EVERY: Duration = Duration::from_millis(500);
    let bar = bar.downgrade();
    let tick = move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            std::thread::sleep(EVERY);
        }
    };
    let _ = std::thread::Builder::new()
        .name("progress".to_owned())
        .spawn(tick);
}

/// Returns `warm-up` or `block 3`.
fn stage(block: u32) -> String {
    if block == 0 {
        "warm-up".to_owned()
    } else {
        format!("block {block}")
    }
}

/// Returns an activity in words.
fn activity_text(activity: &Activity) -> String {
    match activity {
        Activity::FindAcceleration => "looking for hardware acceleration".to_owned(),
        Activity::BootGuest { kernel } => format!("booting Linux {kernel}"),
        Activity::FillMedium { medium } => format!("writing {medium} over once"),
        Activity::SwitchSwapOff => "switching swap off".to_owned(),
        Activity::TouchMemory => "touching free memory".to_owned(),
        Activity::MakeFiles => "making files".to_owned(),
        Activity::Measure => "operations".to_owned(),
        Activity::RemoveFiles => "removing files".to_owned(),
    }
}

/// Returns the current rate of operations, or the count of other work that has no rate.
fn live(progress: &fsb_testbed::Progress, before: Option<(u64, Instant)>) -> Option<String> {
    if progress.activity != Activity::Measure {
        let of = if progress.total > 0 {
            format!(" of {}", progress.total)
        } else {
            String::new()
        };
        return Some(format!(
            "{} {}{of}",
            activity_text(&progress.activity),
            progress.done
        ));
    }
    let (done, then) = before?;
    let seconds = then.elapsed().as_secs_f64();
    let rate = progress.done.saturating_sub(done) as f64 / seconds.max(1e-3);
    Some(format!("{} now", show_rate(rate)))
}

/// Prints a warning through `tell`, unless it was printed before: the coordinator and the agent
/// check the same machine.
pub fn warn(warning: &Warning, tell: &dyn Fn(&str)) {
    static PRINTED: Mutex<Vec<Warning>> = Mutex::new(Vec::new());
    let is_new = PRINTED.lock().is_ok_and(|mut printed| {
        let is_new = !printed.contains(warning);
        is_new.then(|| printed.push(warning.clone()));
        is_new
    });
    if !is_new {
        return;
    }
    let text = warning_text(warning);
    match message::format() {
        MessageFormat::Text => tell(&format!("warning: {text}")),
        MessageFormat::Json => message::emit(&to_message(warning, text), &[]),
    }
}

/// Returns a warning as a message for programs: its kind is the code, and its data are the fields.
fn to_message(warning: &Warning, text: String) -> Message {
    let mut fields = match serde_json::to_value(warning) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let kind = match fields.remove("kind") {
        Some(Value::String(kind)) => kind.replace('_', "-"),
        _ => "other".to_owned(),
    };
    Message {
        fields,
        ..Message::new(Level::Warning, Some(&format!("warning/{kind}")), text)
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Opening(progress) if progress.total == 0 => {
                let text = activity_text(&progress.activity);
                self.style("{spinner} {msg}");
                self.message(&text);
                if self.lines {
                    let activity = serde_json::to_value(&progress.activity).unwrap_or_default();
                    self.notify(&notice::ACTIVITY, [("activity", activity)], &text);
                }
            }
            Event::Opening(progress) => {
                self.message(&activity_text(&progress.activity));
                self.style(&format!(
                    "{{bar:{BAR}}} {{bytes}}/{{total_bytes}} {{msg}}{{left}}"
                ));
                self.show_position(progress.done, progress.total);
            }
            Event::Provisioning { block, target } => {
                let target = self.releases.shorten(target);
                let what = stage(*block);
                self.show_trials();
                self.message(&format!("{what}: making {target}"));
                if self.block != *block {
                    self.making.clear();
                }
                self.block = *block;
                self.making.push(target);
            }
            Event::Estimated {
                cells,
                blocks,
                expected,
                budget,
                chooses,
            } => {
                let chosen = match budget {
                    Some(budget) if budget < expected => {
                        let budget = show_duration(*budget);
                        if *chooses {
                            format!("; fsb chooses the workloads that fit {budget} after warm-up")
                        } else {
                            format!(
                                "; {budget} hold too few to judge: fsb prints after warm-up what fits"
                            )
                        }
                    }
                    _ => String::new(),
                };
                let fields = [
                    ("blocks", (*blocks).into()),
                    ("cells", (*cells).into()),
                    ("seconds", expected.as_secs_f64().into()),
                    (
                        "fits",
                        budget.is_none_or(|budget| budget >= *expected).into(),
                    ),
                ];
                let (blocks, cells) = (
                    counted(*blocks as usize, "block"),
                    counted(*cells, "workload"),
                );
                let took = show_duration(*expected);
                let text = format!("estimate: {blocks} of {cells} take about {took}{chosen}");
                self.notify(&notice::ESTIMATE, fields, &text);
            }
            Event::Planned {
                blocks,
                rule,
                expected,
            } => {
                self.planned = true;
                // Where a budget is too small, a warning says so.
                let few = match rule {
                    StoppingRule::Blocks { blocks, .. } if *blocks < FEWEST_BLOCKS_JUDGED => {
                        format!("; too few to judge, which takes {FEWEST_BLOCKS_JUDGED}")
                    }
                    _ => String::new(),
                };
                let blocks = counted(*blocks as usize, "block");
                self.line(&format!(
                    "{blocks}, about {}{few}",
                    show_duration(*expected)
                ));
                let fields = [("rule", serde_json::to_value(rule).unwrap_or_default())];
                self.notify(
                    &notice::STOPPING_RULE,
                    fields,
                    &format!("stopping rule: {}", stopping_rule_text(rule)),
                );
            }
            Event::Refused { target, reason } => {
                self.refused
                    .insert((*target).to_owned(), reason.text.clone());
                let without_numbers = reason
                    .text
                    .replace(|letter: char| letter.is_ascii_digit(), "");
                if self
                    .refusals
                    .insert(((*target).to_owned(), without_numbers))
                {
                    let name = self.releases.shorten(target);
                    let fields = [
                        ("target", (*target).into()),
                        ("reason", reason.code.clone().into()),
                        ("errno", reason.errno.clone().into()),
                    ];
                    self.notify(
                        &notice::TARGET_FAILED,
                        fields,
                        &format!("{name} cannot be made: {}", reason.text),
                    );
                }
            }
            Event::RacePlanned { rule } => self.line(&stopping_rule_text(rule)),
            Event::RaceRound { round, standing } => {
                self.line(&format!("race round {round}: {standing}"))
            }
            Event::Case {
                block,
                workload,
                rounds,
            } => {
                self.line_of_block();
                let what = stage(*block);
                self.trial = format!("{what}: {workload}, {rounds} rounds");
                self.told = None;
                self.show_trials();
                self.message(&self.trial);
            }
            Event::Trial { target, workload } => {
                self.line_of_block();
                self.trial = format!("{}: {workload}", self.releases.shorten(target));
                self.told = None;
                // The bar may have shown the boot of a guest or the filling of its disk.
                self.show_trials();
                self.message(&self.trial);
            }
            Event::Block { record, trials } => self.show_results(record, trials),
            Event::Working(progress) => {
                let before = self.told.replace((progress.done, Instant::now()));
                if let Some(live) = live(progress, before) {
                    self.message(&format!("{}: {live}", self.trial));
                }
            }
            Event::Ended {
                trial,
                done,
                of,
                left,
            } => {
                let target = self.releases.shorten(&trial.target);
                // A target that could not be made is measured nowhere.
                self.making.retain(|making| *making != target);
                self.ended = Some((u64::from(*done), u64::from(*of)));
                self.show_trials();
                if let Some(left) = left.filter(|_| self.planned) {
                    let widest = self
                        .half_width
                        .map(|half| format!(", widest interval ±{:.0} %", half * 100.0));
                    let left = show_duration(left);
                    let message = format!(
                        "{target}: {}, {left} left{}",
                        trial.workload,
                        widest.unwrap_or_default()
                    );
                    self.message(&message);
                }
                if !trial.interference.is_empty() && trial.superseded {
                    let why: Vec<String> =
                        trial.interference.iter().map(interference_text).collect();
                    let why = why.join(", ");
                    let fields = [
                        ("target", trial.target.as_str().into()),
                        ("workload", trial.workload.as_str().into()),
                    ];
                    let text = format!(
                        "{target}: {}: affected by interference ({why}), retried",
                        trial.workload
                    );
                    self.notify(&notice::RETRIED, fields, &text);
                } else if self
                    .refused
                    .get(&trial.target)
                    .is_some_and(|why| trial.error.as_ref() == Some(why))
                {
                    // The target's own line has the reason.
                } else if matches!(trial.outcome, Outcome::Failed | Outcome::Invalid) {
                    let again = if trial.superseded { ", retried" } else { "" };
                    let text = format!("{target}: {}: {}{again}", trial.workload, trial.reason());
                    let failure = (
                        trial.target.clone(),
                        trial.workload.clone(),
                        trial.error.clone(),
                        trial.superseded,
                    );
                    if self.failures.insert(failure) {
                        let fields = [
                            ("target", trial.target.as_str().into()),
                            ("workload", trial.workload.as_str().into()),
                            ("retried", trial.superseded.into()),
                            ("reason", trial.error_code.clone().into()),
                            ("errno", trial.errno.clone().into()),
                        ];
                        self.notify(&notice::TRIAL_FAILED, fields, &text);
                    }
                }
            }
            Event::Emulates { why } => self.line(&format!(
                "the virtual machine emulates its processors (TCG), so nothing is judged: {why}"
            )),
            Event::Warning(warning) => warn(warning, &|text| self.tell(text)),
        }
    }
}
