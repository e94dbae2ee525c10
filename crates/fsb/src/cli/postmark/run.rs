//! One run.

use std::sync::Arc;

use fsb_compat::postmark::print::{self, PostmarkOutcome};
use fsb_compat::postmark::{Settings, pool, source};
use fsb_engine::EngineError;
use fsb_engine::postmark::{self, Ended, Moment, RunOptions, Times};
use fsb_model::postmark::Tally;
use fsb_runner::worker::{Desk, Post, Work, Worker, WorkerError};
use serde::{Deserialize, Serialize};

use super::check;
use crate::coordinator::{Turn, warn_of_concurrent};
use crate::result_owner::Rights;
use crate::results;
use crate::signals::Signals;
use crate::stderr::say;

/// The result of a run.
pub enum Result {
    /// The run finished; its report.
    Report(String),
    /// The run failed; the reason, unless it was printed already.
    Failed(Option<String>),
    /// A signal interrupted the run.
    Interrupted,
}

/// Runs of PostMark's, as work that a worker does.
#[derive(Debug)]
pub enum Runs {}

#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    settings: Settings,
    verify: bool,
}

/// Times and counts of a run that finished.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    times: Times,
    tally: Tally,
}

impl Work for Runs {
    const NAME: &'static str = "postmark";
    type Task = Asked;
    type Progress = Moment;
    type Answer = std::result::Result<Done, Ended>;
    // The files of a run that is interrupted are removed.
    const HEEDS_INTERRUPTION: bool = true;

    fn perform(task: Asked, desk: &mut Desk<'_, Moment>) -> std::result::Result<Self::Answer, EngineError> {
        let Asked { settings, verify } = task;
        let (text, twister) = source(&settings);
        let mut pool = pool(&settings, twister);
        let options = RunOptions {
            locations: check::locations(&settings),
            read_block: settings.read_block,
            write_block: settings.write_block,
            buffered: settings.buffered,
            text: (!verify).then_some(text.as_slice()),
        };
        let interrupted = desk.interrupted();
        let ended = postmark::run(&options, &mut pool, &interrupted, &mut |moment| desk.tell(moment));
        Ok(ended.map(|times| Done { times, tally: *pool.tally() }))
    }
}

/// Makes the files, works on them, removes them, and prints its progress.
pub fn run(settings: &Settings, verify: bool, turn: Turn, signals: &Signals) -> anyhow::Result<Result> {
    let mut lock = turn.take("fsb postmark")?;
    let mut printed = Ok(());
    let mut tell = |moment: Moment| {
        if printed.is_ok() {
            printed = tell(moment);
        }
    };
    let rights = check::rights(settings)?;
    let asked = Asked { settings: settings.clone(), verify };
    let ended = perform(&asked, rights, signals, &mut tell);
    warn_of_concurrent(&mut lock);
    let Done { times, tally } = match ended {
        Ok(Ok(done)) => done,
        Ok(Err(Ended::Interrupted)) => {
            results::print("\n")?;
            return Ok(Result::Interrupted);
        }
        Ok(Err(error @ (Ended::Failed(_) | Ended::Left { .. }))) => {
            results::print("\n")?;
            let left = if matches!(error, Ended::Failed(_)) { ". The files of this run are removed" } else { "" };
            return Ok(Result::Failed(Some(format!("{error}{left}"))));
        }
        Err(error) => {
            results::print("\n")?;
            // The worker has ended, so the coordinator removes the files.
            let left = match rights.act(|| check::remove_left(settings)).flatten() {
                Ok(()) => ". The files of this run are removed".to_owned(),
                Err(why) => format!("; and its files are not all removed: {why}"),
            };
            return Ok(Result::Failed(Some(format!("{error}{left}"))));
        }
    };
    printed?;
    if times.out_of_files {
        return Ok(Result::Failed(None));
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let outcome = PostmarkOutcome {
        tally,
        deleted_alone: times.deleted_alone,
        total: seconds(times.total),
        creation: seconds(times.creation),
        transactions: seconds(times.transactions),
        deletion: seconds(times.deletion),
    };
    if let Some(note) = print::rounded(&outcome.tally) {
        say(&format!("note: {note}"));
    }
    Ok(Result::Report(print::report(settings, &outcome)))
}

fn perform(
    asked: &Asked,
    rights: Rights,
    signals: &Signals,
    tell: &mut dyn FnMut(Moment),
) -> std::result::Result<std::result::Result<Done, Ended>, WorkerError> {
    let interrupted = Some(Arc::clone(signals.flag()));
    Worker::open(&Post { interrupted, as_invoking_user: rights == Rights::InvokingUser, ..Post::default() })?
        .perform::<Runs>(asked, tell)
}

fn tell(moment: Moment) -> anyhow::Result<()> {
    let text = match moment {
        Moment::MakingDirectories => print::MAKING_DIRECTORIES,
        Moment::Creating => print::CREATING,
        Moment::Transacting => return results::print(&[print::DONE, print::TRANSACTING].concat()),
        Moment::Tenth => print::DOT,
        Moment::OutOfFiles => print::OUT_OF_FILES,
        Moment::Deleting => print::DELETING,
        Moment::RemovingDirectories => print::REMOVING_DIRECTORIES,
        Moment::MadeDirectories | Moment::Transacted | Moment::Deleted | Moment::RemovedDirectories => print::DONE,
    };
    results::print(text)
}
