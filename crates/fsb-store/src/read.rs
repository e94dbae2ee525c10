//! Reads run directories and published pages from any source. Only regular files are opened, and
//! the length of a line is limited.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fsb_model::publication::{self, Publication};
use fsb_model::{RunRecord, Trial, run, trial};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::checksum::{self, Checksum, journal_line};
use crate::error::StoreError;
use crate::input::{self, Bounded, LARGEST_RECORD, LARGEST_RESULT, LONGEST_LINE, Lines, too_large};

/// The record of the run.
pub const RUN_FILE: &str = "run.json";
/// The trials, one per line.
pub const TRIALS_FILE: &str = "trials.jsonl";

/// Size of the read buffer for the journal, in bytes.
const BUFFER: usize = 256 << 10;

/// The longest description of a publication, in bytes.
const LONGEST_PUBLICATION: u64 = 1 << 20;

/// Contents of a run directory.
#[derive(Debug)]
pub struct Contents {
    pub record: RunRecord,
    /// The trials in the order in which they ended.
    pub trials: Vec<Trial>,
    /// Warnings about lines that were skipped.
    pub warnings: Vec<String>,
}

/// A line of the journal, or the part of it that a reader needs. It may borrow from the text of the
/// line.
pub trait Line<'a>: Deserialize<'a> {
    /// Returns the schema that the line names.
    fn schema(&self) -> &str;

    /// Removes the checksum of the line from fields that are kept as found, because a change makes
    /// it wrong.
    fn remove_checksum(&mut self) {}
}

impl Line<'_> for Trial {
    fn schema(&self) -> &str {
        &self.schema
    }

    fn remove_checksum(&mut self) {
        self.extra.remove(checksum::FIELD);
    }
}

/// A run directory or a published page whose trials are read one by one.
#[derive(Debug)]
pub struct Reader {
    pub record: RunRecord,
    /// The description of a published run. `None` for a run directory.
    pub publication: Option<Publication>,
    path: PathBuf,
    journal: Source,
}

/// The source of the trials.
#[derive(Debug)]
enum Source {
    /// A run directory without a journal.
    Nothing,
    Journal(File),
    Page(Page),
}

/// The text of the trials.
#[derive(Debug)]
enum Input<'r> {
    Journal(&'r mut File),
    Page(Box<PageLines<'r>>),
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Journal(file) => file.read(buffer),
            Input::Page(lines) => lines.read(buffer),
        }
    }
}

/// Reads a whole run directory, or a published page, into memory.
pub fn read(path: &Path) -> Result<Contents, StoreError> {
    let mut reader = Reader::open(path)?;
    let mut trials = Vec::new();
    let warnings = reader.trials(|_, trial| trials.push(trial))?;
    Ok(Contents {
        record: reader.record,
        trials,
        warnings,
    })
}

impl Reader {
    /// Reads the record and opens the journal.
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        if let Ok(Some(page)) = Page::open(path) {
            return Reader::from_page(path, page);
        }
        let record = record(path)?;
        let path = path.join(TRIALS_FILE);
        let journal = match input::open(&path) {
            Ok(file) => Source::Journal(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Source::Nothing,
            Err(error) => return Err(StoreError::input(&path, error)),
        };
        Ok(Reader {
            record,
            publication: None,
            path,
            journal,
        })
    }

    fn from_page(path: &Path, mut page: Page) -> Result<Reader, StoreError> {
        let damaged = |error: io::Error| StoreError::damaged_page(path, &error);
        let mut input = BufReader::with_capacity(BUFFER, page.lines().map_err(damaged)?);
        let publication: Publication = {
            let mut lines = Lines::new(&mut input, LONGEST_PUBLICATION);
            let line = lines.next_line().and_then(there).map_err(damaged)?;
            parse(path, 1, line, publication::SCHEMA, |found: &Publication| {
                &found.schema
            })?
        };
        let record: RunRecord = {
            let mut lines = Lines::new(&mut input, LARGEST_RECORD);
            let line = lines.next_line().and_then(there).map_err(damaged)?;
            parse_record(path, 2, line)?
        };
        let (path, journal) = (path.to_owned(), Source::Page(page));
        Ok(Reader {
            record,
            publication: Some(publication),
            path,
            journal,
        })
    }

    /// Returns the file that holds the trials: the journal, or the page.
    pub fn journal_path(&self) -> &Path {
        &self.path
    }

    /// Reads the journal from its start. A second pass reads the same file, even if another one has
    /// its name by then.
    pub fn journal(&mut self) -> Result<Journal<'_>, StoreError> {
        let (path, is_page) = (self.path.as_path(), matches!(self.journal, Source::Page(_)));
        let failed = |error| failed_read(path, is_page, error);
        let buffered = |input| BufReader::with_capacity(BUFFER, input);
        let lines = match &mut self.journal {
            Source::Nothing => None,
            Source::Journal(journal) => {
                journal.rewind().map_err(failed)?;
                Some(buffered(Input::Journal(journal)))
            }
            Source::Page(page) => {
                let mut input = buffered(Input::Page(Box::new(page.lines().map_err(failed)?)));
                // The publication and the record.
                for _ in 0..2 {
                    Lines::new(&mut input, LARGEST_RECORD)
                        .next_line()
                        .map_err(failed)?;
                }
                Some(input)
            }
        };
        let lines = lines.map(|input| Lines::new(input, LONGEST_LINE));
        Ok(Journal {
            path,
            lines,
            is_page,
            warnings: Vec::new(),
        })
    }

    /// Calls `visit` with every trial and its line, and returns the warnings. See
    /// [`Journal::next_trial`].
    pub fn trials<L: for<'a> Line<'a>>(
        &mut self,
        mut visit: impl FnMut(usize, L),
    ) -> Result<Vec<String>, StoreError> {
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
    lines: Option<Lines<BufReader<Input<'r>>>>,
    is_page: bool,
    /// Warnings about lines that this pass skipped.
    pub warnings: Vec<String>,
}

impl Journal<'_> {
    /// Reads the next lines, of `size` bytes or a little more. The chunk is empty at the end of the
    /// journal.
    pub(crate) fn fill(&mut self, chunk: &mut Chunk, size: usize) {
        chunk.bytes.clear();
        chunk.ends.clear();
        chunk.error = None;
        // A buffer that one long line filled is not kept for thousands of short ones.
        chunk.bytes.shrink_to(2 * size);
        while chunk.bytes.len() < size {
            let line = match next_line(&mut self.lines, self.path, self.is_page) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    chunk.error = Some(error);
                    self.lines = None;
                    break;
                }
            };
            if chunk.ends.is_empty() {
                chunk.first = line.number;
            }
            chunk.bytes.extend_from_slice(line.bytes);
            chunk.ends.push(chunk.bytes.len());
            chunk.ended = line.ended;
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.path
    }

    /// Returns the next trial with its line, from 1, or `None` at the end.
    ///
    /// Only the last line may be broken, and only without a line end: a machine that loses power
    /// leaves such a line.
    ///
    /// # Errors
    ///
    /// Returns an error for any other broken line, and for a line whose checksum is wrong or
    /// absent. Such a line was changed after fsb wrote it.
    pub fn next_trial<'a, L: Line<'a>>(&'a mut self) -> Result<Option<(usize, L)>, StoreError> {
        let path = self.path;
        let Some(line) = next_line(&mut self.lines, path, self.is_page)? else {
            return Ok(None);
        };
        let (number, ended) = (line.number, line.ended);
        match parse_line(path, number, line.bytes) {
            Ok(trial) => Ok(Some((number, trial))),
            Err(StoreError::Syntax { .. } | StoreError::Checksum { .. }) if !ended => {
                self.warnings.push(cut_off(path));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads the next line of a journal.
fn next_line<'l>(
    lines: &'l mut Option<Lines<BufReader<Input<'_>>>>,
    path: &Path,
    is_page: bool,
) -> Result<Option<input::Line<'l>>, StoreError> {
    let Some(lines) = lines else {
        return Ok(None);
    };
    let number = lines.number() + 1;
    lines.next_line().map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => StoreError::Syntax {
            path: path.to_owned(),
            line: number,
            message: error.to_string(),
        },
        _ => failed_read(path, is_page, error),
    })
}

/// Consecutive lines of a journal, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The number of the first line, from 1.
    first: usize,
    bytes: Vec<u8>,
    /// The end of each line in `bytes`.
    ends: Vec<usize>,
    /// Whether a line end ended the last line.
    ended: bool,
    /// The error that ended the lines.
    pub(crate) error: Option<StoreError>,
}

impl Chunk {
    /// Returns the lines, each with its number and whether a line end ended it.
    pub(crate) fn lines(&self) -> impl Iterator<Item = input::Line<'_>> {
        let mut start = 0;
        self.ends.iter().enumerate().map(move |(place, end)| {
            let bytes = &self.bytes[start..*end];
            start = *end;
            input::Line {
                number: self.first + place,
                bytes,
                ended: self.ended || place + 1 < self.ends.len(),
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.error.is_none()
    }
}

/// Returns the warning about a journal whose last line is cut off.
pub(crate) fn cut_off(path: &Path) -> String {
    format!(
        "{}: the last line is cut off and was dropped",
        path.display()
    )
}

/// Parses a line of a journal and verifies its checksum.
pub(crate) fn parse_line<'a, L: Line<'a>>(
    path: &Path,
    number: usize,
    text: &'a [u8],
) -> Result<L, StoreError> {
    let found = Checksum::of_line(text);
    if found == Checksum::Wrong {
        return Err(StoreError::Checksum {
            path: path.to_owned(),
            line: number,
        });
    }
    let mut trial: L = parse(path, number, text, trial::SCHEMA, L::schema)?;
    if found == Checksum::Absent {
        return Err(StoreError::Checksum {
            path: path.to_owned(),
            line: number,
        });
    }
    trial.remove_checksum();
    Ok(trial)
}

/// The major versions of formats from before the first release, which have other names than
/// today's. Their version 1 had the same schema as today's version.
const FORMER: RangeInclusive<u32> = 2..=4;

/// Returns the major version of a schema, `NAME/MAJOR` or `NAME/MAJOR.MINOR`.
fn major_of(schema: &str) -> Option<u32> {
    schema.rsplit_once('/')?.1.split('.').next()?.parse().ok()
}

fn record(directory: &Path) -> Result<RunRecord, StoreError> {
    let path = directory.join(RUN_FILE);
    let text = input::read(&path, LARGEST_RECORD).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::NoRun(directory.to_owned())
        }
        _ => StoreError::input(&path, error),
    })?;
    parse_record(&path, 1, &text)
}

/// Parses a record, which starts at line `line` of a file.
fn parse_record(path: &Path, line: usize, text: &[u8]) -> Result<RunRecord, StoreError> {
    // The first format from before the release has today's schema. Its records have this field
    // instead of `stop_reason`.
    let fields: HashMap<String, IgnoredAny> = serde_json::from_slice(text).unwrap_or_default();
    if fields.contains_key("finished") {
        return Err(former(path));
    }
    parse(path, line, text, run::SCHEMA, |record: &RunRecord| {
        &record.schema
    })
}

/// Returns the error for a file of a format from before the first release.
fn former(path: &Path) -> StoreError {
    let results = match path.parent() {
        Some(parent) if path.ends_with(RUN_FILE) || path.ends_with(TRIALS_FILE) => parent,
        _ => path,
    };
    StoreError::Former {
        path: path.to_owned(),
        results: results.to_owned(),
    }
}

/// Returns the bytes of a line that must be there.
fn there(line: Option<input::Line<'_>>) -> io::Result<&[u8]> {
    line.map(|line| line.bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "it holds no run"))
}

fn failed_read(path: &Path, is_page: bool, error: io::Error) -> StoreError {
    if is_page {
        StoreError::damaged_page(path, &error)
    } else {
        StoreError::input(path, error)
    }
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
    // One check of the whole text is faster than one of each string in it.
    let parsed = match str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(text),
    };
    match parsed {
        Ok(value) => check_schema(path, line, Some(schema(&value)), ours).map(|()| value),
        Err(error) => {
            // A line of another version may have another shape. Report the version, not the syntax.
            if let Ok(Schema { schema }) = serde_json::from_slice(text) {
                check_schema(path, line, schema.as_deref(), ours)?;
            }
            Err(StoreError::syntax(
                path,
                line + error.line().saturating_sub(1),
                &error,
            ))
        }
    }
}

/// Checks a schema against `ours`, which is `NAME/MAJOR`. Another name is the file of another
/// program, a larger major that of a former or a newer format.
fn check_schema(
    path: &Path,
    line: usize,
    found: Option<&str>,
    ours: &str,
) -> Result<(), StoreError> {
    let wrong = |found: &str| StoreError::Schema {
        path: path.to_owned(),
        line,
        found: found.chars().take(TOLD).collect(),
        expected: ours.to_owned(),
    };
    let found = found.ok_or_else(|| wrong("nothing"))?;
    let major = major_of(found).ok_or_else(|| wrong(found))?;
    let name = |schema: &str| schema.rsplit_once('/').map(|(name, _)| name.to_owned());
    if name(found) != name(ours) {
        return Err(wrong(found));
    }
    if FORMER.contains(&major) {
        return Err(former(path));
    }
    if Some(major) > major_of(ours) {
        let found = found.chars().take(TOLD).collect();
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            expected: ours.to_owned(),
        });
    }
    Ok(())
}

/// Number of characters of an unknown schema that the message quotes.
const TOLD: usize = 60;

// A run inside a published page, which a browser shows and `Reader` reads like a run directory.
//
// A `<script>` element at the beginning of the page holds the run. Browsers do not execute its
// type. It is base64 of gzip of JSON lines: the publication, the record, and a line per trial.

/// The beginning of the element.
const OPENING: &str = r#"<script type="application/vnd.fsbench.run+gzip" id="fsbench-run">"#;
/// The end of the element.
const CLOSING: &str = "</script>";
/// The element begins within this number of bytes.
const HEAD: u64 = 4 << 10;
/// Size of the read buffer, in bytes.
const PAGE_BUFFER: usize = 64 << 10;

/// Returns the element that holds a run.
///
/// # Errors
///
/// Returns [`StoreError::Encode`] if the run is larger than [`Reader`](crate::Reader) reads.
pub fn page_element(
    publication: &Publication,
    record: &RunRecord,
    trials: &[Trial],
) -> Result<String, StoreError> {
    let encode = || -> io::Result<Vec<u8>> {
        let mut lines = serde_json::to_vec(publication)?;
        lines.push(b'\n');
        serde_json::to_writer(&mut lines, record)?;
        lines.push(b'\n');
        for trial in trials {
            lines.extend(journal_line(trial)?);
        }
        if lines.len() as u64 > LARGEST_RESULT {
            return Err(too_large(LARGEST_RESULT));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&lines)?;
        encoder.finish()
    };
    let data = encode().map_err(|error| StoreError::Encode(error.to_string()))?;
    Ok(format!("{OPENING}{}{CLOSING}", STANDARD.encode(data)))
}

/// Returns whether the file is a published page. Returns `false` for a file that cannot be read.
pub fn is_page(path: &Path) -> bool {
    Page::open(path).is_ok_and(|page| page.is_some())
}

/// A published page.
#[derive(Debug)]
pub(crate) struct Page {
    file: File,
    /// The offset of the data in the file, in bytes.
    start: u64,
    /// The maximum number of decoded bytes.
    pub(crate) most: u64,
}

/// The lines in a page, decoded.
pub(crate) type PageLines<'p> =
    Bounded<GzDecoder<DecoderReader<'static, GeneralPurpose, Element<BufReader<&'p mut File>>>>>;

impl Page {
    /// Opens a page. Returns `None` if the file holds no run.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Page>> {
        let file = input::open(path)?;
        let mut head = Vec::new();
        (&file).take(HEAD).read_to_end(&mut head)?;
        let found = head
            .windows(OPENING.len())
            .position(|window| window == OPENING.as_bytes());
        Ok(found.map(|at| Page {
            file,
            start: (at + OPENING.len()) as u64,
            most: LARGEST_RESULT,
        }))
    }

    /// Decodes the data from its start. More than `most` bytes are an error.
    pub(crate) fn lines(&mut self) -> io::Result<PageLines<'_>> {
        self.file.seek(SeekFrom::Start(self.start))?;
        let input = BufReader::with_capacity(PAGE_BUFFER, &mut self.file);
        let data = GzDecoder::new(DecoderReader::new(
            Element {
                input,
                has_ended: false,
            },
            &STANDARD,
        ));
        Ok(Bounded::new(data, self.most))
    }
}

/// The text of the element.
#[derive(Debug)]
pub(crate) struct Element<R> {
    input: R,
    has_ended: bool,
}

impl<R: BufRead> Read for Element<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended || buffer.is_empty() {
            return Ok(0);
        }
        let text = self.input.fill_buf()?;
        if text.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the page ends within its data",
            ));
        }
        let end = text
            .iter()
            .position(|byte| *byte == b'<')
            .unwrap_or(text.len());
        self.has_ended = end == 0;
        let length = end.min(buffer.len());
        buffer[..length].copy_from_slice(&text[..length]);
        self.input.consume(length);
        Ok(length)
    }
}
