//! The journal of a run: its directory.

use std::os::unix::fs::lchown;
use std::path::Path;

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

/// Writes nowhere: for the front end of the 2023 tool, which keeps nothing but the export that was asked for.
pub struct Nowhere;

impl Journal for Nowhere {
    fn record(&mut self, _: &RunRecord) -> Result<(), String> {
        Ok(())
    }

    fn trial(&mut self, _: &Trial) -> Result<(), String> {
        Ok(())
    }
}

/// Results belong to the person, not to the root that sudo made of them. Nothing depends on it: errors are ignored.
pub fn hand_to_caller(path: &Path) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) else { return };
    let _ = lchown(path, Some(uid), Some(gid));
    if let Some(parent) = path.parent().filter(|parent| parent.ends_with(crate::cli::RESULTS)) {
        let _ = lchown(parent, Some(uid), Some(gid));
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let _ = lchown(entry.path(), Some(uid), Some(gid));
    }
}
