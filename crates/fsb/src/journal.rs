//! Journals of a run: in its directory, or discarded.

use fsb_model::{RunRecord, Trial};
use fsb_runner::event::Journal;
use fsb_store::RunDirectory;

/// Writes to a run directory.
pub struct Directory(pub RunDirectory);

impl Journal for Directory {
    fn record(&mut self, record: &RunRecord) -> Result<(), String> {
        self.0.write_record(record).map_err(|error| error.to_string())
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), String> {
        self.0.append(trial).map_err(|error| error.to_string())
    }
}

/// Discards everything: the command of the 2023 tool keeps only the requested export.
pub struct Nowhere;

impl Journal for Nowhere {
    fn record(&mut self, _: &RunRecord) -> Result<(), String> {
        Ok(())
    }

    fn trial(&mut self, _: &Trial) -> Result<(), String> {
        Ok(())
    }
}
