//! Reading a run directory. It may come from anybody: only regular files are opened, and no line is read without end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::{Path, PathBuf};

use fsb_input::{LARGEST_RECORD, LONGEST_LINE, Lines};
use fsb_model::{RunRecord, Trial, Warning, run, trial};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{RUN_FILE, StoreError, TRIALS_FILE};

/// How much of the journal is read at once.
const BUFFER: usize = 256 << 10;

/// What a run directory holds.
#[derive(Debug)]
pub struct Contents {
    /// The record.
    pub record: RunRecord,
    /// The trials in the order in which they ended.
    pub trials: Vec<Trial>,
    /// What had to be passed over.
    pub warnings: Vec<String>,
}

/// A line of the journal, or the part of it that a reader needs: what is not asked for costs no memory.
pub trait Line: DeserializeOwned {
    /// What the line says that it is.
    fn schema(&self) -> &str;
}

impl Line for Trial {
    fn schema(&self) -> &str {
        &self.schema
    }
}

/// A run directory whose trials are read one by one.
#[derive(Debug)]
pub struct Reader {
    /// The record.
    pub record: RunRecord,
    path: PathBuf,
    journal: Option<File>,
}

/// Reads a run directory at once.
pub fn read(path: &Path) -> Result<Contents, StoreError> {
    let mut reader = Reader::open(path)?;
    let mut trials = Vec::new();
    let warnings = reader.trials(|_, trial| trials.push(trial))?;
    Ok(Contents { record: reader.record, trials, warnings })
}

impl Reader {
    /// Reads the record and opens the journal.
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        let record = record(path)?;
        let path = path.join(TRIALS_FILE);
        let journal = match fsb_input::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::input(&path, error)),
        };
        Ok(Reader { record, path, journal })
    }

    /// Shows every trial with its line, from 1, and says what had to be passed over. It may be called again: a second
    /// pass reads the same file, whatever has taken its name since.
    ///
    /// Only the last line may be broken, and only if nothing ends it: that is what a machine that lost power leaves. Any
    /// other broken line is an error, for then something else wrote there.
    pub fn trials<L: Line>(&mut self, mut visit: impl FnMut(usize, L)) -> Result<Vec<String>, StoreError> {
        let Some(journal) = &mut self.journal else { return Ok(Vec::new()) };
        let failed = |error| StoreError::input(&self.path, error);
        journal.rewind().map_err(failed)?;
        let mut lines = Lines::new(BufReader::with_capacity(BUFFER, journal), LONGEST_LINE);
        loop {
            let number = lines.number() + 1;
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(Vec::new()),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Err(StoreError::Syntax {
                        path: self.path.clone(),
                        line: number,
                        message: error.to_string(),
                    });
                }
                Err(error) => return Err(failed(error)),
            };
            match parse(&self.path, number, line.bytes, trial::SCHEMA, L::schema) {
                Ok(trial) => visit(number, trial),
                Err(StoreError::Syntax { .. }) if !line.ended => {
                    let shown = self.path.display();
                    return Ok(vec![format!("{shown}: the last line is cut off and was dropped")]);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn record(directory: &Path) -> Result<RunRecord, StoreError> {
    let path = directory.join(RUN_FILE);
    let text = fsb_input::read(&path, LARGEST_RECORD).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::NoRun(directory.to_owned()),
        _ => StoreError::input(&path, error),
    })?;
    let mut record = parse(&path, 1, &text, run::SCHEMA, |record: &RunRecord| &record.schema)?;
    record.warnings = record.warnings.into_iter().map(Warning::upgraded).collect();
    Ok(record)
}

/// What stands from `line` on in a file, of the schema that is ours.
fn parse<T: DeserializeOwned>(
    path: &Path,
    line: usize,
    text: &[u8],
    ours: &str,
    schema: impl Fn(&T) -> &str,
) -> Result<T, StoreError> {
    /// All that can be said of what does not read as ours.
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow)]
        schema: Option<Cow<'a, str>>,
    }
    match serde_json::from_slice(text) {
        Ok(value) => check_schema(path, line, Some(schema(&value)), ours).map(|()| value),
        Err(error) => {
            // A newer program's line may well be of another shape: that is what to say of it.
            if let Ok(Schema { schema }) = serde_json::from_slice(text) {
                check_schema(path, line, schema.as_deref(), ours)?;
            }
            Err(StoreError::syntax(path, line + error.line().saturating_sub(1), &error))
        }
    }
}

/// `ours` is `NAME/MAJOR`: another name is no file of ours, a larger major is a newer program's.
fn check_schema(path: &Path, line: usize, found: Option<&str>, ours: &str) -> Result<(), StoreError> {
    let wrong = |found: &str| StoreError::Schema {
        path: path.to_owned(),
        line,
        found: found.chars().take(TOLD).collect(),
        expected: ours.to_owned(),
    };
    let found = found.ok_or_else(|| wrong("nothing"))?;
    let (name, major) = found.rsplit_once('/').ok_or_else(|| wrong(found))?;
    let (our_name, our_major) = ours.rsplit_once('/').unwrap_or((ours, "0"));
    let major: u32 = major.split('.').next().and_then(|major| major.parse().ok()).ok_or_else(|| wrong(found))?;
    if name != our_name {
        return Err(wrong(found));
    }
    if major > our_major.parse().unwrap_or(0) {
        let found = found.chars().take(TOLD).collect();
        return Err(StoreError::Newer { path: path.to_owned(), found, expected: ours.to_owned() });
    }
    Ok(())
}

/// So many characters of a schema that is not ours are told.
const TOLD: usize = 60;
