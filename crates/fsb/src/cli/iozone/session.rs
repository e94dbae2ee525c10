//! State of a run: its files, its worker, its reports, and the end of a run that fails.

use std::path::{Path, PathBuf};

use fsb_compat::iozone::Options;
use fsb_compat::iozone::sequence::Operation;
use fsb_engine::classic::{self, Corruption, PhaseError};

use super::latency::LatencyFiles;
use super::pass::PassWorker;
use super::remount::Remount;
use crate::code;
use crate::exit;
use crate::result_owner::{self, Rights};
use crate::results;
use crate::signals::{Second, Signals};
use crate::stderr::say;

/// State of a run.
pub struct IozoneSession<'o> {
    /// The options of the command line.
    pub options: &'o Options,
    /// Signals that end the run.
    pub signals: Signals,
    /// The worker that makes the passes.
    pub worker: PassWorker,
    /// The file system to remount. It is mounted again before files are removed.
    pub remount: Option<Remount>,
    /// The files that were written.
    pub made: Made,
    /// The files that this run wrote from their start, whether they are still there or not.
    pub written: Vec<PathBuf>,
    /// `-Q`.
    pub latencies: LatencyFiles,
}

/// Files that are removed when this value is dropped, unless `-w` keeps them.
pub struct Made {
    paths: Vec<PathBuf>,
    keep: bool,
}

impl Made {
    /// Notes that a file is about to be written.
    pub fn note(&mut self, path: &Path) {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }

    /// Removes the files that were written.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        for path in std::mem::take(&mut self.paths) {
            if !self.keep {
                classic::remove(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            say(&format!("warning: {error:#}"));
        }
    }
}

/// Output of `-R` and `-b`.
#[derive(Default)]
pub struct Reports {
    /// Text for the screen.
    pub text: String,
    /// Text that IOzone does not print; it follows all text that IOzone prints.
    pub beside: String,
    /// The spreadsheet.
    pub sheet: Vec<u8>,
}

impl Reports {
    pub fn save(&self, options: &Options) -> anyhow::Result<()> {
        let Some(path) = &options.sheet else { return Ok(()) };
        Ok(result_owner::replace(path, &self.sheet)?)
    }
}

impl<'o> IozoneSession<'o> {
    /// Notes that an operation is about to work on these files. Those that it writes belong to this run from now on.
    pub fn note(&mut self, operation: Operation, paths: &[PathBuf]) {
        for path in paths.iter().filter(|_| operation.writes()) {
            self.made.note(path);
            if operation.makes_file() && !self.wrote(path) {
                self.written.push(path.clone());
            }
        }
    }

    pub fn open(options: &'o Options, rights: Rights) -> anyhow::Result<IozoneSession<'o>> {
        // A second signal must not end the program before the files are removed: a pass checks the flag before each
        // record.
        let signals = Signals::catch(Second::Waits)?;
        Ok(IozoneSession {
            options,
            worker: PassWorker::open(&signals, rights)?,
            signals,
            remount: options.remount.as_deref().map(Remount::new).transpose()?,
            made: Made { paths: Vec::new(), keep: options.keep },
            written: Vec::new(),
            latencies: LatencyFiles::default(),
        })
    }

    fn wrote(&self, path: &Path) -> bool {
        self.written.iter().any(|known| known == path)
    }

    /// Ends a run that did not finish: removes its files, prints the reports of an interrupted run, and returns the
    /// exit code or the error.
    pub fn end(mut self, error: anyhow::Error, reports: &Reports) -> anyhow::Result<u8> {
        // Mounts the file system again if that is missing: the files are on it.
        self.remount = None;
        // Report both the error that ended the run and any failure to remove its files.
        let cleared = self.made.clear().inspect_err(|error| say(&format!("warning: {error:#}"))).is_ok();
        let gone = if cleared { ". The files of this run are removed" } else { "" };
        match error.downcast_ref::<PhaseError>() {
            Some(PhaseError::Interrupted) => {
                results::print("\niozone: interrupted\n\n")?;
                results::print(&reports.text)?;
                results::print("exiting iozone\n\n")?;
                results::print(&reports.beside)?;
                Ok(self.signals.code())
            }
            Some(PhaseError::Corrupt(corruption)) => {
                results::print(&placed(corruption))?;
                let wrote = self.wrote(&corruption.path);
                let next = match wrote {
                    true => "The device, the file system or the memory lost written data: check the kernel's log",
                    false => {
                        "This run did not write that file: another program may have written it, or a run with another \
                         -V, -+d, -r or number of processes. If a run with the same options wrote it (-i 0 -w), its \
                         data was lost: check the kernel's log"
                    }
                };
                let fields = [
                    ("path", corruption.path.to_string_lossy().into()),
                    ("offset", corruption.offset.into()),
                    ("expected", corruption.expected.into()),
                    ("found", corruption.found.into()),
                    ("written_by_this_run", wrote.into()),
                ];
                Err(exit::failure_about(&code::CORRUPT, fields, format!("{corruption}. {next}")))
            }
            Some(PhaseError::Engine(error)) => {
                results::print("\n")?;
                Err(exit::failure(&code::IOZONE_UNABLE, format!("{error}{gone}")))
            }
            None => Err(error),
        }
    }
}

/// Formats the place of corrupt data as IOzone does.
fn placed(corruption: &Corruption) -> String {
    let Corruption { path, offset, expected, found, record_offset, record, bytes } = corruption;
    format!(
        "\n\nError in file: Position {offset} \nRecord # {} Record size {} kb \n\
         Found pattern: Hex >>{found:x}<< Expecting >>{expected:x}<<\n\
         File {}, wrong bytes in this record: {bytes}\n",
        record_offset / record,
        record / 1024,
        path.display(),
    )
}

/// Returns the processors that a number of processes are bound to, or `None` for each if they are not bound.
pub fn processors(options: &Options, count: usize) -> Vec<Option<u32>> {
    let bound = options.first_cpu.and_then(|first| classic::processors(first, count));
    bound.map_or_else(|| vec![None; count], |all| all.into_iter().map(Some).collect())
}
