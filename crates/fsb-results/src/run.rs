//! Runs of fsb that were read, each once.

use std::path::{Path, PathBuf};

use fsb_model::RunRecord;
use fsb_model::publication::Publication;
use fsb_stats::histogram::{Decoder, Sum};
use fsb_stats::in_parallel;
use fsb_store::journal::{self, CompactTrial, Histograms, Latencies};
use fsb_store::{RUN_FILE, Reader, StoreError};
use rayon::prelude::*;

/// A run directory or a published page in memory.
#[derive(Debug)]
pub struct StoredRun {
    /// The path as given.
    pub path: PathBuf,
    /// The canonical path, whatever path the user named.
    pub identity: PathBuf,
    /// The record.
    pub record: RunRecord,
    /// The description of a published run. `None` for a run directory.
    pub publication: Option<Publication>,
    /// The file that holds the trials: the journal, or the page.
    pub journal_path: PathBuf,
    /// The trials in the order in which they ended, with latencies as they were asked for.
    pub trials: Vec<CompactTrial>,
    /// Warnings about skipped data.
    pub warnings: Vec<String>,
    /// Whether the trials are a part of those that the journal should have.
    pub is_damaged: bool,
}

impl StoredRun {
    /// Reads a run, finished or not.
    ///
    /// # Errors
    ///
    /// The path holds no run, or the run cannot be read.
    pub fn read(path: &Path, latencies: Latencies) -> Result<StoredRun, StoreError> {
        let mut reader = Reader::open(path)?;
        let read = in_parallel(|| journal::read::<LatencySums>(&mut reader, latencies))?;
        Ok(StoredRun {
            path: path.to_owned(),
            identity: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            journal_path: reader.journal_path().to_owned(),
            record: reader.record,
            publication: reader.publication,
            trials: read.trials,
            warnings: read.warnings,
            is_damaged: read.is_damaged,
        })
    }

    /// Returns the files that were read.
    pub fn files(&self) -> Vec<PathBuf> {
        let journal = self.journal_path.clone();
        if self.publication.is_some() {
            vec![journal]
        } else {
            vec![self.path.join(RUN_FILE), journal]
        }
    }
}

/// Adds the latencies of trials.
#[derive(Default)]
struct LatencySums(Decoder);

impl Histograms for LatencySums {
    type Sum = Sum;

    fn add(&mut self, sum: &mut Sum, text: &str) {
        self.0.add(sum, text);
    }

    fn join(&mut self, sum: &mut Sum, other: Sum) {
        self.0.join(sum, other);
    }

    fn to_text(&self, sum: &Sum) -> Option<String> {
        sum.to_text()
    }
}

/// Runs in the order in which they were named.
#[derive(Debug)]
pub struct Results {
    /// At least one.
    pub runs: Vec<StoredRun>,
}

impl Results {
    /// Reads every run once, several at a time.
    ///
    /// # Errors
    ///
    /// The first run, in the order of the paths, that cannot be read.
    pub fn open(paths: &[PathBuf], latencies: Latencies) -> Result<Results, StoreError> {
        let read: Vec<_> = in_parallel(|| {
            let paths = paths.par_iter();
            paths.map(|path| StoredRun::read(path, latencies)).collect()
        });
        let runs = read.into_iter().collect::<Result<_, _>>()?;
        Ok(Results { runs })
    }
}
