//! A bisection: makes steps, each a small run of two candidates, until the search ends.

use std::path::Path;
use std::time::{Duration, Instant};

use fsb_model::setting::SettingValue;
use fsb_model::variant::{self, PLACEHOLDER};
use fsb_model::{Better, Failure, Trial, code, failure, notice};
use fsb_report::bisection::{Bisection, CandidateState, MeasuredStep};
use fsb_runner::plan_file::{self, PlanFile, Resolved, typed};
use fsb_runner::target_file::TargetFile;
use fsb_stats::bisection::{Next, Purpose, Step};
use fsb_store::{StoreError, input, owner};

use super::coordinator;
use super::progress::Verbosity;
use super::revisions::Trees;
use super::stage::Turn;
use crate::exit::{Second, Signals};
use crate::message::{notify, say};
use crate::output::make_directory;
use crate::{exit, results};

/// The file of a bisection, beside the directories of its steps.
pub const FILE: &str = "bisect.json";
/// The largest such file that is read.
const LARGEST: u64 = 64 << 20;
/// The names of both targets of a step.
const NAMES: [&str; 2] = ["earlier", "later"];
/// The number of steps without a value in a row that ends a bisection.
const MOST_EMPTY: usize = 3;

/// The directory and the limits of a bisection.
pub struct Bisecting<'a> {
    /// The directory of the bisection.
    pub directory: &'a Path,
    /// No step begins after this time.
    pub budget: Duration,
    pub verbosity: Verbosity,
    pub turn: Turn,
}

/// Reads the bisection in a directory.
pub fn read(directory: &Path) -> anyhow::Result<Bisection> {
    let path = directory.join(FILE);
    let shown = path.display();
    let text = input::read(&path, LARGEST).map_err(|error| {
        let message = format!("{shown}: {error}");
        failure::failed_call(&code::INVALID_BISECTION, &error, message)
    })?;
    let wrong = |why: String| failure::error(&code::INVALID_BISECTION, format!("{shown}: {why}"));
    let document: Bisection =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    document.check().map_err(wrong)?;
    Ok(document)
}

/// Starts a bisection in a new directory.
pub fn start(document: Bisection, bisecting: &Bisecting<'_>) -> anyhow::Result<Bisection> {
    let directory = bisecting.directory;
    fsb_store::check_new(directory, &owner::result_owner())?;
    let plan = plan_file::parse(&document.plan, "the plan of the bisection")?;
    // A wrong request must not be found out after a build.
    let last = document.candidates.len() - 1;
    let names = [0, last].map(|at| document.candidates[at].name.clone());
    coordinator::checked(resolve(&plan, &names, 1)?)?;
    make_directory(directory)?;
    continue_from(document, bisecting)
}

/// Measures until the search ends, and returns the finished bisection.
pub fn continue_from(document: Bisection, bisecting: &Bisecting<'_>) -> anyhow::Result<Bisection> {
    let plan = plan_file::parse(&document.plan, "the plan of the bisection")?;
    let mut run = BisectionRun {
        plan,
        document,
        bisecting,
        signals: Signals::catch(Second::Ends)?,
    };
    run.save()?;
    let ended = run.measure();
    match ended {
        Ok(()) => {
            if let Some(trees) = run.trees() {
                trees.remove_all()?;
            }
            Ok(run.document)
        }
        Err(error) => Err(run.resumable(&error)),
    }
}

/// A bisection under way.
struct BisectionRun<'a> {
    document: Bisection,
    plan: PlanFile,
    bisecting: &'a Bisecting<'a>,
    signals: Signals,
}

impl BisectionRun<'_> {
    fn measure(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let next = self.document.search().next();
            let (purpose, pair, pairs) = match next {
                Next::End(ending) => {
                    self.document.ending = Some(ending);
                    return self.save();
                }
                Next::Measure {
                    purpose,
                    earlier,
                    later,
                    pairs,
                } => (purpose, [earlier, later], pairs),
            };
            if self.signals.is_interrupted() {
                return Err(self.signals.failure("interrupted"));
            }
            if began.elapsed() >= self.bisecting.budget {
                return Err(self.out_of_time());
            }
            if self.prepare(pair)? {
                self.make_step(purpose, pair, pairs)?;
            }
        }
    }

    /// Builds both candidates of a step where necessary. Returns whether both can be measured.
    fn prepare(&mut self, pair: [usize; 2]) -> anyhow::Result<bool> {
        for at in pair {
            let made = match self.trees() {
                Some(trees) => {
                    let candidate = &self.document.candidates[at];
                    let is_ready = candidate.state == CandidateState::Ready
                        && owner::looking(|| {
                            trees.path(&candidate.name).is_ok_and(|p| p.is_dir())
                        })?;
                    if is_ready {
                        continue;
                    }
                    self.print(&format!("building {}", candidate.short()));
                    trees.make(&candidate.name)?
                }
                None => Ok(()),
            };
            if self.signals.is_interrupted() {
                return Err(self.signals.failure("interrupted"));
            }
            match made {
                Ok(()) => self.document.candidates[at].state = CandidateState::Ready,
                Err(reason) => {
                    self.exclude(at, reason, &code::UNBUILT_END)?;
                    return Ok(false);
                }
            }
            self.save()?;
        }
        Ok(true)
    }

    /// Excludes a candidate that cannot be measured. An end that cannot be measured ends the
    /// bisection.
    fn exclude(
        &mut self,
        at: usize,
        reason: String,
        code: &'static fsb_model::ErrorCode,
    ) -> anyhow::Result<()> {
        let last = self.document.candidates.len() - 1;
        let candidate = &mut self.document.candidates[at];
        let short = candidate.short().to_owned();
        if at == 0 || at == last {
            let end = if at == 0 { "good" } else { "bad" };
            let message = format!("the {end} end {short} cannot be measured: {reason}");
            return Err(failure::error(code, message));
        }
        let text = format!("{short} is skipped: {reason}");
        candidate.state = CandidateState::Excluded(reason);
        let fields = [("candidate", short.into())];
        notify(&notice::CANDIDATE_SKIPPED, fields, &text);
        self.save()
    }

    /// Measures two candidates side by side.
    fn make_step(
        &mut self,
        purpose: Purpose,
        pair: [usize; 2],
        pairs: usize,
    ) -> anyhow::Result<()> {
        let run = format!("step-{:03}", self.document.steps.len() + 1);
        let path = self.bisecting.directory.join(&run);
        remove_unfinished(&path)?;
        let mut texts = pair.map(|at| self.document.candidates[at].name.clone());
        if let Some(trees) = self.trees() {
            for text in &mut texts {
                *text = trees.path(text)?.to_string_lossy().into_owned();
            }
        }
        let resolved = self.with_seed(resolve(&self.plan, &texts, pairs)?);
        let Bisecting {
            verbosity, turn, ..
        } = *self.bisecting;
        // The steps are short: a line after each says more than their progress.
        let verbosity = Verbosity {
            quiet: !verbosity.verbose,
            ..verbosity
        };
        let (case, trials) = coordinator::make(resolved, &path, verbosity, turn)?;
        let log_ratios = log_ratios(&trials);
        for (name, at) in NAMES.iter().zip(pair) {
            if let Some(error) = failed_always(&trials, name) {
                return self.exclude(at, error, &code::FAILED_END);
            }
        }
        let [earlier, later] = pair;
        let step = Step {
            purpose,
            earlier,
            later,
            log_ratios,
        };
        self.document.steps.push(MeasuredStep { run, case, step });
        self.save()?;
        if let Some(standing) = self.document.standing() {
            self.print(&standing);
        }
        self.check_values(&path, &trials)
    }

    /// Ends a bisection whose last steps have no pair of values: the work fails too often.
    fn check_values(&self, last: &Path, trials: &[Trial]) -> anyhow::Result<()> {
        let steps = self.document.steps.iter().rev().take(MOST_EMPTY);
        let empty = steps.filter(|step| step.step.log_ratios.is_empty()).count();
        if empty < MOST_EMPTY {
            return Ok(());
        }
        let mut errors = trials.iter().filter_map(|trial| trial.error.as_deref());
        let message = format!(
            "{MOST_EMPTY} steps in a row have no pair of values, because the work fails too often: {}",
            errors.next().unwrap_or("it gave no value")
        );
        let help = format!("see fsb report {}", last.display());
        Err(failure::advised(&code::FAILED_END, message, help))
    }

    /// Gives each step a seed of its own, if the user chose the first one.
    fn with_seed(&self, mut resolved: Resolved) -> Resolved {
        if self.plan.settings.has("seed") {
            let steps = self.document.steps.len() as u64;
            resolved.plan.seed = resolved.plan.seed.wrapping_add(steps) & (i64::MAX as u64);
        }
        resolved
    }

    /// Returns the trees of revisions, or `None` for a list of candidates.
    fn trees(&self) -> Option<Trees<'_>> {
        let git = self.document.git.as_ref()?;
        Some(Trees {
            directory: self.bisecting.directory,
            repository: Path::new(&git.repository),
            build: git.build.as_deref(),
            signals: &self.signals,
        })
    }

    fn save(&self) -> anyhow::Result<()> {
        let text = results::json_text(&self.document)?;
        Ok(owner::replace(
            &self.bisecting.directory.join(FILE),
            text.as_bytes(),
        )?)
    }

    fn print(&self, text: &str) {
        if !self.bisecting.verbosity.quiet {
            say(text);
        }
    }

    fn out_of_time(&self) -> anyhow::Error {
        let standing = self.document.standing();
        let standing = standing.unwrap_or_else(|| "nothing was measured".to_owned());
        let message = format!("cannot tell within the budget: {standing}");
        failure::error(&code::OUT_OF_TIME, message)
    }

    /// Returns an error with the command that resumes the bisection.
    fn resumable(&self, error: &anyhow::Error) -> anyhow::Error {
        let directory = self.bisecting.directory.display();
        let message = format!("{error:#}");
        let help = format!("resume it with: fsb bisect --resume {directory}");
        let wrapped = exit::wrapping(error, message);
        let exit = match self.signals.is_interrupted() {
            true => self.signals.code(),
            false => wrapped.exit,
        };
        Failure {
            exit,
            message: format!("{}; {help}", wrapped.message),
            help: Some(help),
            ..wrapped
        }
        .into()
    }
}

/// Returns the run of a step: both candidates for this number of blocks.
fn resolve(plan: &PlanFile, texts: &[String; 2], pairs: usize) -> anyhow::Result<Resolved> {
    let mut file = plan.clone();
    let Some(target) = file.targets.pop() else {
        return Err(failure::error(
            &code::INVALID_BISECTION,
            "the plan has no target",
        ));
    };
    let target = target.into_inner().text;
    let in_command = file.workloads.iter().any(variant::has_placeholder);
    for (name, text) in NAMES.iter().zip(texts) {
        let filled = target.replace(PLACEHOLDER, text);
        let mut target: toml::Spanned<TargetFile> = typed(&format!("{name}={filled}"));
        target.get_mut().variant = in_command.then(|| text.clone());
        file.targets.push(target);
    }
    file.settings.unset("budget");
    file.settings
        .set("blocks", SettingValue::Number(pairs as u64));
    Ok(file.resolve(coordinator::cpus(), coordinator::fresh_seed())?)
}

/// Removes the run of a step that was interrupted.
fn remove_unfinished(path: &Path) -> anyhow::Result<()> {
    let removed = owner::result_owner().act(|| std::fs::remove_dir_all(path))?;
    match removed {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(StoreError::Io {
            what: "remove",
            path: path.to_owned(),
            source,
        }
        .into()),
        _ => Ok(()),
    }
}

/// Returns the log ratio of each block in which both targets have a value.
fn log_ratios(trials: &[Trial]) -> Vec<f64> {
    let [earlier, later] = NAMES.map(|name| {
        let mut values = std::collections::BTreeMap::new();
        for trial in trials {
            if trial.counts()
                && trial.target == name
                && let Some(metric) = trial.primary()
            {
                let log = metric.value.ln();
                let is_higher = metric.better == Better::Higher;
                values.insert(trial.block, if is_higher { log } else { -log });
            }
        }
        values
    });
    let mut ratios = Vec::new();
    for (block, log) in later {
        if let Some(before) = earlier.get(&block) {
            ratios.push(log - before);
        }
    }
    ratios.retain(|ratio| ratio.is_finite());
    ratios
}

/// Returns the error of a target that has no value.
fn failed_always(trials: &[Trial], target: &str) -> Option<String> {
    let mut error = None;
    for trial in trials.iter().filter(|trial| trial.target == target) {
        if trial.counts() && trial.primary().is_some() {
            return None;
        }
        error = error.or_else(|| trial.error.clone());
    }
    error
}
