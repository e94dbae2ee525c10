//! Watches a run directory while another process writes it.

use fsb_results::summary;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fsb_model::{RunRecord, Trial};
use fsb_report::choice::{self, Choice};
use fsb_report::live::{LiveRun, RunState};
use fsb_report::summary::CompactTrial;
use fsb_report::{Report, text};
use fsb_store::{Contents, RUN_FILE, StoreError, TRIALS_FILE, owner};
use jiff::Timestamp;

/// The run is read again at most after this multiple of the time of the last reading, so that
/// watching takes at most a few per cent of one processor from the measurement.
const RESTRAINT: u32 = 30;

/// A run directory that is read again when it changes.
pub struct WatchedRun {
    directory: PathBuf,
    width: usize,
    read: Option<ReadRun>,
}

/// A run directory as it was read last.
struct ReadRun {
    stamps: Stamps,
    record: RunRecord,
    trials: Vec<Trial>,
    table: String,
    at: Instant,
    took: Duration,
}

/// Lengths and times of the files, which change with every trial.
type Stamps = [Option<(u64, SystemTime)>; 2];

impl WatchedRun {
    /// Returns a run directory whose table is `width` columns wide.
    pub fn new(directory: &Path, width: usize) -> WatchedRun {
        WatchedRun {
            directory: directory.to_owned(),
            width,
            read: None,
        }
    }

    /// Returns the directory.
    #[cfg(feature = "serve")]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the run as it is now.
    ///
    /// # Errors
    ///
    /// The directory holds no run, or it cannot be read.
    pub fn look(&mut self) -> Result<LiveRun, StoreError> {
        // The lock is examined first: a run that has ended since then is complete on disk.
        let is_in_use = fsb_store::is_in_use(&self.directory);
        let stamps = self.stamps();
        let read = match self.read.take().filter(|read| {
            read.stamps == stamps
                || (is_in_use == Some(true) && read.at.elapsed() < read.took * RESTRAINT)
        }) {
            Some(read) => read,
            None => {
                let begun = Instant::now();
                let Contents { record, trials, .. } = fsb_store::read(&self.directory)?;
                let table = table_so_far(&record, &trials, self.width);
                ReadRun {
                    stamps,
                    record,
                    trials,
                    table,
                    at: Instant::now(),
                    took: begun.elapsed(),
                }
            }
        };
        let state = RunState::new(&read.record, is_in_use);
        let live = LiveRun::new(
            &read.record,
            &read.trials,
            read.table.clone(),
            state,
            Timestamp::now(),
        );
        self.read = Some(read);
        Ok(live)
    }

    fn stamps(&self) -> Stamps {
        let stamp = |name: &str| {
            let file = owner::looking(|| std::fs::metadata(self.directory.join(name)))
                .ok()?
                .ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        [RUN_FILE, TRIALS_FILE].map(stamp)
    }
}

/// Returns the table of the results so far, or the standing of a race; empty without results.
fn table_so_far(record: &RunRecord, trials: &[Trial], width: usize) -> String {
    if record.plan.race.is_some() {
        let choice = Choice::from_run(record, &CompactTrial::all(trials));
        return choice
            .filter(Choice::has_answer)
            .map(|choice| choice::screen(&choice, width))
            .unwrap_or_default();
    }
    if !trials.iter().any(Trial::counts) {
        return String::new();
    }
    let table = text::table_so_far(
        &Report::of_run(&summary::of_run_in_memory(record, trials), trials),
        width,
    );
    table.trim_start_matches('\n').to_owned()
}
