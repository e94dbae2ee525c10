//! `trials.jsonl`: one trial a line.

use std::fs::File;
use std::io::{self, Write};

use fsb_model::Trial;

/// One write for the line with its end, so that two lines can never mix, and a sync.
pub fn append(journal: &mut File, trial: &Trial) -> io::Result<()> {
    let mut line = serde_json::to_vec(trial)?;
    line.push(b'\n');
    journal.write_all(&line)?;
    journal.sync_data()
}

/// All trials as the file holds them.
pub fn encode(trials: &[Trial]) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    for trial in trials {
        serde_json::to_writer(&mut text, trial)?;
        text.push(b'\n');
    }
    Ok(text)
}
