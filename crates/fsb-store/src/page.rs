//! A run inside a published page, which a browser shows and [`Reader`](crate::Reader) reads like a run directory.
//!
//! A `<script>` element at the beginning of the page holds the run. Browsers do not execute its type. It is base64 of
//! gzip of JSON lines: the publication, the record, and a line per trial.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fsb_model::publication::Publication;
use fsb_model::{RunRecord, Trial};

use crate::error::StoreError;
use crate::input::{self, Bounded, LARGEST_RESULT, too_large};

/// The beginning of the element.
const OPENING: &str = r#"<script type="application/vnd.fsbench.run+gzip" id="fsbench-run">"#;
/// The end of the element.
const CLOSING: &str = "</script>";
/// The element begins within this number of bytes.
const HEAD: u64 = 4 << 10;
/// Size of the read buffer, in bytes.
const BUFFER: usize = 64 << 10;

/// Returns the element that holds a run.
///
/// # Errors
///
/// Returns [`StoreError::Encode`] if the run is larger than [`Reader`](crate::Reader) reads.
pub fn element(publication: &Publication, record: &RunRecord, trials: &[Trial]) -> Result<String, StoreError> {
    let encode = || -> io::Result<Vec<u8>> {
        let mut lines = serde_json::to_vec(publication)?;
        lines.push(b'\n');
        serde_json::to_writer(&mut lines, record)?;
        lines.push(b'\n');
        for trial in trials {
            serde_json::to_writer(&mut lines, trial)?;
            lines.push(b'\n');
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
    /// The most bytes that are decoded.
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
        let found = head.windows(OPENING.len()).position(|window| window == OPENING.as_bytes());
        Ok(found.map(|at| Page { file, start: (at + OPENING.len()) as u64, most: LARGEST_RESULT }))
    }

    /// Decodes the data from its start. More than `most` bytes are an error.
    pub(crate) fn lines(&mut self) -> io::Result<PageLines<'_>> {
        self.file.seek(SeekFrom::Start(self.start))?;
        let input = BufReader::with_capacity(BUFFER, &mut self.file);
        let data = GzDecoder::new(DecoderReader::new(Element { input, has_ended: false }, &STANDARD));
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
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the page ends within its data"));
        }
        let end = text.iter().position(|byte| *byte == b'<').unwrap_or(text.len());
        self.has_ended = end == 0;
        let length = end.min(buffer.len());
        buffer[..length].copy_from_slice(&text[..length]);
        self.input.consume(length);
        Ok(length)
    }
}
