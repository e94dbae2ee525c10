//! Reads run directories from any source. Only regular files are opened, and the length of a line is limited.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::{Path, PathBuf};

use fsb_model::{RunRecord, Trial, Warning, run, trial};
use serde::Deserialize;

use crate::StoreError;
use crate::input::{self, LARGEST_RECORD, LONGEST_LINE, Lines};

/// The record of the run.
pub const RUN_FILE: &str = "run.json";
/// The trials, one per line.
pub const TRIALS_FILE: &str = "trials.jsonl";

/// Size of the read buffer for the journal, in bytes.
const BUFFER: usize = 256 << 10;

/// Contents of a run directory.
#[derive(Debug)]
pub struct Contents {
    pub record: RunRecord,
    /// The trials in the order in which they ended.
    pub trials: Vec<Trial>,
    /// Warnings about lines that were skipped.
    pub warnings: Vec<String>,
}

/// A line of the journal, or the part of it that a reader needs. It may borrow from the text of the line.
pub trait Line<'a>: Deserialize<'a> {
    /// Returns the schema that the line names.
    fn schema(&self) -> &str;
}

impl Line<'_> for Trial {
    fn schema(&self) -> &str {
        &self.schema
    }
}

/// A run directory whose trials are read one by one.
#[derive(Debug)]
pub struct Reader {
    pub record: RunRecord,
    path: PathBuf,
    journal: Option<File>,
}

/// Reads a whole run directory into memory.
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
        let journal = match input::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::input(&path, error)),
        };
        Ok(Reader { record, path, journal })
    }

    /// Reads the journal from its start. A second pass reads the same file, even if another one has its name by then.
    pub fn journal(&mut self) -> Result<Journal<'_>, StoreError> {
        let lines = match &mut self.journal {
            Some(journal) => {
                journal.rewind().map_err(|error| StoreError::input(&self.path, error))?;
                Some(Lines::new(BufReader::with_capacity(BUFFER, journal), LONGEST_LINE))
            }
            None => None,
        };
        Ok(Journal { path: &self.path, lines, warnings: Vec::new() })
    }

    /// Calls `visit` with every trial and its line, and returns the warnings. See [`Journal::next_trial`].
    pub fn trials<L: for<'a> Line<'a>>(&mut self, mut visit: impl FnMut(usize, L)) -> Result<Vec<String>, StoreError> {
        let mut journal = self.journal()?;
        while let Some((line, trial)) = journal.next_trial()? {
            visit(line, trial);
        }
        Ok(journal.warnings)
    }
}

/// One pass over the journal of a run directory.
#[derive(Debug)]
pub struct Journal<'r> {
    path: &'r Path,
    lines: Option<Lines<BufReader<&'r mut File>>>,
    /// Warnings about lines that this pass skipped.
    pub warnings: Vec<String>,
}

impl Journal<'_> {
    /// Returns the next trial with its line, from 1, or `None` at the end.
    ///
    /// Only the last line may be broken, and only without a line end: a machine that loses power leaves such a line.
    ///
    /// # Errors
    ///
    /// Returns an error for any other broken line, because then another program wrote to the journal.
    pub fn next_trial<'a, L: Line<'a>>(&'a mut self) -> Result<Option<(usize, L)>, StoreError> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let number = lines.number() + 1;
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(StoreError::Syntax {
                    path: self.path.to_owned(),
                    line: number,
                    message: error.to_string(),
                });
            }
            Err(error) => return Err(StoreError::input(self.path, error)),
        };
        match parse(self.path, number, line.bytes, trial::SCHEMA, L::schema) {
            Ok(trial) => Ok(Some((number, trial))),
            Err(StoreError::Syntax { .. }) if !line.ended => {
                self.warnings.push(format!("{}: the last line is cut off and was dropped", self.path.display()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn record(directory: &Path) -> Result<RunRecord, StoreError> {
    let path = directory.join(RUN_FILE);
    let text = input::read(&path, LARGEST_RECORD).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::NoRun(directory.to_owned()),
        _ => StoreError::input(&path, error),
    })?;
    let mut record = parse(&path, 1, &text, run::SCHEMA, |record: &RunRecord| &record.schema)?;
    record.warnings = record.warnings.into_iter().map(Warning::upgraded).collect();
    Ok(record)
}

/// Parses a text that starts at line `line` of a file and must have the schema `ours`.
fn parse<'a, T: Deserialize<'a>>(
    path: &Path,
    line: usize,
    text: &'a [u8],
    ours: &str,
    schema: impl Fn(&T) -> &str,
) -> Result<T, StoreError> {
    /// The only field that is read from a text of unknown shape.
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow)]
        schema: Option<Cow<'a, str>>,
    }
    match serde_json::from_slice(text) {
        Ok(value) => check_schema(path, line, Some(schema(&value)), ours).map(|()| value),
        Err(error) => {
            // A line of a newer program may have another shape. Report the version, not the syntax.
            if let Ok(Schema { schema }) = serde_json::from_slice(text) {
                check_schema(path, line, schema.as_deref(), ours)?;
            }
            Err(StoreError::syntax(path, line + error.line().saturating_sub(1), &error))
        }
    }
}

/// Checks a schema against `ours`, which is `NAME/MAJOR`. Another name is the file of another program, a larger major
/// that of a newer one.
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

/// Number of characters of an unknown schema that the message quotes.
const TOLD: usize = 60;
