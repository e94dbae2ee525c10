//! Changes that killed runs left behind, from the undo ledger.

use std::path::PathBuf;

use fsb_codes::notice;
use fsb_report::show::counted;
use fsb_testbed::ledger::Replayed;
use fsb_testbed::{control, host, ledger};

use crate::stderr::notify;

/// Undoes the changes that killed runs left. Returns a line per change, and whether all could be undone. Without a
/// ledger directory no run left anything.
pub fn replay() -> (Vec<String>, bool) {
    ledger::default_directory()
        .map_or((Vec::new(), true), |place| describe(ledger::replay(&place, &host::boot_id(), control::RULES)))
}

pub(super) fn describe(replayed: Vec<Replayed>) -> (Vec<String>, bool) {
    let complete = !replayed.iter().any(Replayed::is_open);
    (replayed.into_iter().filter(Replayed::is_news).map(|entry| entry.to_string()).collect(), complete)
}

/// Undoes the changes that killed runs left, before a run. Prints the changes that could not be undone, because they
/// affect this run, and only the number of the others.
pub fn tidy_up() {
    let Ok(place) = ledger::default_directory() else { return };
    let replayed = ledger::replay(&place, &host::boot_id(), control::RULES);
    let undone = replayed.iter().filter(|entry| matches!(entry.fate, ledger::Fate::Undone(_))).count();
    if undone > 0 {
        let text = format!("undone first: {} of killed runs", counted(undone, "change"));
        notify(&notice::UNDONE, [("changes", undone.into())], &text);
    }
    for entry in replayed.iter().filter(|entry| entry.is_open()) {
        let path = entry.file.to_string_lossy();
        notify(&notice::NOT_UNDONE, [("path", path.into())], &format!("warning: {entry}"));
    }
}

/// Describes the changes of killed runs that [`replay`] would undo.
pub fn leftovers() -> (Vec<String>, bool) {
    let Ok(place) = ledger::default_directory() else { return (Vec::new(), true) };
    let describe = |(file, entry): (PathBuf, Result<ledger::Entry, fsb_testbed::Refusal>)| match entry {
        Ok(entry) if entry.owner.is_alive() => None,
        Ok(entry) => Some(format!("would undo: {}", entry.action)),
        Err(why) => Some(format!("would refuse: {}: {why}", file.display())),
    };
    (ledger::leftovers(&place, control::RULES).into_iter().filter_map(describe).collect(), true)
}
