//! `trials.jsonl`: one trial per line.

use std::fs::File;
use std::io::{self, Write};

use fsb_model::Trial;

/// Writes the line and its end with one call, so that two lines never mix, and syncs the file.
pub fn append(journal: &mut File, trial: &Trial) -> io::Result<()> {
    let mut line = serde_json::to_vec(trial)?;
    line.push(b'\n');
    journal.write_all(&line)?;
    journal.sync_data()
}

/// Encodes all trials in the format of the file.
pub fn encode(trials: &[Trial]) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    for trial in trials {
        serde_json::to_writer(&mut text, trial)?;
        text.push(b'\n');
    }
    Ok(text)
}
