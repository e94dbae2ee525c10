//! A run, from the banner to the line that says it is complete, and whatever may end it before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use fsb_compat::iozone::Options;
use fsb_compat::iozone::print::{self, Facts};
use fsb_compat::iozone::sequence::Operation;
use fsb_engine::classic::{self, Corruption, PhaseError};

use super::latency::LatencyFiles;
use super::remount::Remount;
use super::{table, together};
use crate::author::{self, Rights};
use crate::exit::{self, Failure};
use crate::front::{Turn, company};
use crate::progress::say;
use crate::results;

/// The signals that end a run early, with the exit code each stands for.
const SIGNALS: [(i32, u8); 3] = [
    (signal_hook::consts::SIGINT, exit::INTERRUPTED),
    (signal_hook::consts::SIGTERM, exit::TERMINATED),
    (signal_hook::consts::SIGHUP, exit::HUNG_UP),
];

/// Whether whoever started this program wants a signal to be ignored, as nohup does.
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// What a run holds on to.
pub struct Stage<'o> {
    /// What was asked for.
    pub options: &'o Options,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
    /// The file system to mount anew. It is mounted again before files are removed.
    pub remount: Option<Remount>,
    /// The files that were written.
    pub made: Made,
    /// The files that this run wrote from their start, whether they are still there or not.
    pub written: Vec<PathBuf>,
    /// `-Q`.
    pub latencies: LatencyFiles,
    signal: Arc<AtomicUsize>,
}

/// Files that go when this value does, unless `-w` keeps them.
pub struct Made {
    paths: Vec<PathBuf>,
    keep: bool,
}

impl Made {
    /// A file is about to be written.
    pub fn note(&mut self, path: &Path) {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }

    /// Removes what was written.
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

/// Measures and prints.
pub fn run(options: &Options, program: &str, rights: Rights) -> anyhow::Result<u8> {
    let mut lock = Turn::of(options.allow_concurrent).take(&options.command)?;
    rights.adopt().context("the files under test")?;
    let mut stage = Stage::set(options)?;
    results::print(&print::banner(options, &facts(program)))?;
    let mut reports = Reports::default();
    let measured = match options.throughput() {
        true => together::run(&mut stage, &mut reports),
        false => table::run(&mut stage, &mut reports),
    };
    // IOzone's text has no place for it.
    company(&mut lock).into_iter().for_each(|warning| say(&format!("warning: {warning}")));
    match measured {
        Ok(()) => {
            stage.made.clear()?;
            if options.throughput() {
                // Here the report comes before the end, in tables after it.
                results::print(&reports.text)?;
                results::print(print::COMPLETE)?;
                results::print(&reports.beside)?;
            } else {
                results::print(print::COMPLETE)?;
                results::print(&reports.text)?;
            }
            reports.save(options)?;
            Ok(exit::DONE)
        }
        Err(error) => stage.end(error, &reports),
    }
}

/// What `-R` and `-b` get, once there is something to report.
#[derive(Default)]
pub struct Reports {
    /// For the screen.
    pub text: String,
    /// What IOzone does not print, after everything that it does.
    pub beside: String,
    /// The spreadsheet.
    pub sheet: Vec<u8>,
}

impl Reports {
    fn save(&self, options: &Options) -> anyhow::Result<()> {
        let Some(path) = &options.sheet else { return Ok(()) };
        Ok(author::replace(path, &self.sheet)?)
    }
}

impl<'o> Stage<'o> {
    /// An operation is about to work on these files: those that it writes are this run's from now on, and not before.
    pub fn note(&mut self, operation: Operation, paths: &[PathBuf]) {
        for path in paths.iter().filter(|_| operation.writes()) {
            self.made.note(path);
            if operation.makes_file() && !self.wrote(path) {
                self.written.push(path.clone());
            }
        }
    }

    fn set(options: &'o Options) -> anyhow::Result<Stage<'o>> {
        let (interrupted, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for (number, code) in SIGNALS.into_iter().filter(|(number, _)| !ignored(*number)) {
            // A second signal is no reason to leave the files there: a pass looks at the flag before each record.
            signal_hook::flag::register_usize(number, Arc::clone(&signal), usize::from(code))?;
            signal_hook::flag::register(number, Arc::clone(&interrupted))?;
        }
        Ok(Stage {
            options,
            interrupted,
            remount: options.remount.as_deref().map(Remount::new).transpose()?,
            made: Made { paths: Vec::new(), keep: options.keep },
            written: Vec::new(),
            latencies: LatencyFiles::default(),
            signal,
        })
    }

    fn wrote(&self, path: &Path) -> bool {
        self.written.iter().any(|known| known == path)
    }

    /// What is said of a run that did not reach its end.
    fn end(mut self, error: anyhow::Error, reports: &Reports) -> anyhow::Result<u8> {
        // Mounts the file system again if that is missing: the files are on it.
        self.remount = None;
        // What ended the run is told, and what was left of it beside that.
        let cleared = self.made.clear().inspect_err(|error| say(&format!("warning: {error:#}"))).is_ok();
        let gone = if cleared { ". The files of this run are removed" } else { "" };
        match error.downcast_ref::<PhaseError>() {
            Some(PhaseError::Interrupted) => {
                results::print("\niozone: interrupted\n\n")?;
                results::print(&reports.text)?;
                results::print("exiting iozone\n\n")?;
                results::print(&reports.beside)?;
                let code = u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or(exit::INTERRUPTED);
                Ok(if code == 0 { exit::INTERRUPTED } else { code })
            }
            Some(PhaseError::Corrupt(corruption)) => {
                results::print(&placed(corruption))?;
                let next = match self.wrote(&corruption.path) {
                    true => {
                        "The device, the file system or memory does not keep what is written: look at the kernel's log"
                    }
                    false => {
                        "This run has not written that file: it may come from another program, or from a run with another \
                         -V, -+d, -r or number of processes. Where it was written with the same options (-i 0 -w), \
                         something did not keep it: look at the kernel's log"
                    }
                };
                Err(Failure { code: exit::GATE, message: format!("{corruption}. {next}") }.into())
            }
            Some(PhaseError::Engine(error)) => {
                results::print("\n")?;
                Err(exit::machine(format!("{error}{gone}")))
            }
            None => Err(error),
        }
    }
}

/// Where corruption was found, in IOzone's form.
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

fn facts(program: &str) -> Facts {
    let uname = rustix::system::uname();
    let words = [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()];
    let machine: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Facts {
        program: program.to_owned(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        began: jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string(),
        machine: format!("{} GNU/Linux", machine.join(" ")),
        resolution: classic::clock_resolution(),
    }
}

/// The processors for a number of processes, where they were to be bound.
pub fn processors(options: &Options, count: usize) -> Vec<Option<u32>> {
    let bound = options.first_cpu.and_then(|first| classic::processors(first, count));
    bound.map_or_else(|| vec![None; count], |all| all.into_iter().map(Some).collect())
}
