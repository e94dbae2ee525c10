//! `trials.jsonl`: one trial a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use fsb_model::{Trial, trial};

use crate::{StoreError, check_schema};

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

/// Reads the trials line by line. Only the last line may be broken, and only if nothing ends it: that is what a
/// machine that lost power leaves. Any other broken line is an error, for then something else wrote there.
pub fn read(path: &Path) -> Result<(Vec<Trial>, Vec<String>), StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(StoreError::io("read", path, error)),
    };
    let mut reader = BufReader::new(file);
    let (mut trials, mut warnings, mut line) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(|error| StoreError::io("read", path, error))?;
        if length == 0 {
            break;
        }
        match parse(path, number, &line) {
            Ok(trial) => trials.push(trial),
            Err(StoreError::Syntax { .. }) if line.last() != Some(&b'\n') => {
                warnings.push(format!("{}: the last line is cut off and was dropped", path.display()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((trials, warnings))
}

fn parse(path: &Path, number: usize, line: &[u8]) -> Result<Trial, StoreError> {
    let syntax = |error: serde_json::Error| StoreError::syntax(path, number, &error);
    let value: serde_json::Value = serde_json::from_slice(line).map_err(syntax)?;
    check_schema(path, number, value.get("schema").and_then(|schema| schema.as_str()), trial::SCHEMA)?;
    serde_json::from_value(value).map_err(syntax)
}
