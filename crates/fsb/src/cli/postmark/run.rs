//! One run.

use fsb_compat::postmark::print::{self, Outcome};
use fsb_compat::postmark::{Settings, pool, source};
use fsb_engine::postmark::{self, Ended, Moment, RunOptions};
use fsb_testbed::lock::RunLock;

use super::check;
use super::session::Session;
use crate::progress::say;
use crate::results;

/// How it went.
pub enum Result {
    /// To its end: the report.
    Report(String),
    /// Not to its end, and why, where that was not printed yet.
    Failed(Option<String>),
    /// A signal ended it.
    Interrupted,
}

/// Makes the files, works on them, removes them, and prints its progress.
pub fn run(settings: &Settings, session: &Session) -> anyhow::Result<Result> {
    let _lock = RunLock::acquire("fsb postmark")?;
    let (text, twister) = source(settings);
    let mut pool = pool(settings, twister);
    let request = RunOptions {
        locations: check::locations(settings),
        read_block: settings.read_block,
        write_block: settings.write_block,
        buffered: settings.buffered,
        text: (!session.verify).then_some(text.as_slice()),
    };
    let mut printed = Ok(());
    let mut tell = |moment: Moment| {
        if printed.is_ok() {
            printed = tell(moment);
        }
    };
    let ended = postmark::run(&request, &mut pool, &session.interrupted, &mut tell);
    let times = match ended {
        Ok(times) => times,
        Err(Ended::Interrupted) => {
            results::print("\n")?;
            return Ok(Result::Interrupted);
        }
        Err(error @ (Ended::Failed(_) | Ended::Left { .. })) => {
            results::print("\n")?;
            let left = if matches!(error, Ended::Failed(_)) { ". The files of this run are removed" } else { "" };
            return Ok(Result::Failed(Some(format!("{error}{left}"))));
        }
    };
    printed?;
    if times.out_of_files {
        return Ok(Result::Failed(None));
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let outcome = Outcome {
        tally: *pool.tally(),
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
