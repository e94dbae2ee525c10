//! `fsb iozone`: IOzone's own command line, workloads and text, on our engine.
//!
//! `fsb-compat` defines the meaning of the options, the order of operations and the printed text;
//! the engine makes the calls on files. This module joins both: it checks the whole request before
//! anything is changed, prints numbers as they come, and removes the files that the run made,
//! however the run ends.

mod check;
mod execution;
mod pass;
mod remount;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgAction, Args};
use fsb_compat::iozone::options::OutputUnit;
use fsb_compat::iozone::print::{self, Child, Facts, Report, ThroughputTest};
use fsb_compat::iozone::sequence::{self, MatrixRow, Operation, Piece};
use fsb_compat::iozone::{self, CommandLine, Options, Sheet, table_sheet, throughput_sheet};
use fsb_engine::classic::{
    self, Corruption, Existing, GroupResult, Phase, PhaseError, PhaseResult, Rest,
};
use fsb_model::trial::{self, Reason};
use fsb_model::units::show_duration;
use fsb_model::{code, failure, notice};
use fsb_report::show::counted;
use fsb_store::owner::{self, Rights};
use jiff::Timestamp;

use self::execution::execution;
use self::pass::{PassWorker, cpu_percent, operation, operations, phase, value};
use self::remount::Remount;
use crate::emulate::run_directory::{self, Recording};
use crate::exit::{self, Second, Signals};
use crate::help::{Page, page};
use crate::message::{notify, say, say_warning};
use crate::results;
use crate::run::stage::{Turn, warn_of_concurrent};

pub use pass::Passes;

const EXAMPLES: &str = "\
Examples:
  fsb iozone -a -g 64m -f /srv/data/f                 all operations
  fsb iozone -s 1g -r 1m -i 0 -i 1 -e -f /srv/data/f  durable write and read
  fsb iozone -t 4 -s 256m -r 64k -i 0 -F a b c d      four processes
  sudo fsb iozone -I -a -i 0 -i 2 -f /mnt/x/f         without the page cache";

/// Measure a file with IOzone's options, operations and output
///
/// fsb accepts these options of IOzone 3.471 and refuses others. 'fsb iozone -h' describes them.
/// Operations: -a -A -z -i N -+n -E. Sizes: -n -g -y -q -s -r SIZE. Files: -f FILE -F FILES -w -U
/// MOUNT. Processes: -t -l -u N -T -x -P CPU -C -+p PERCENT. Calls: -B -D -G -Z -H -k N -I -o -+D
/// -e -c -W -j N. Processor cache: -p -S KB -L BYTES. Verification: -V N -+d. Output: -R -b FILE -O
/// -N -M -Q -+u -v.
///
/// Options of fsb: --repeat-until TIME repeats each operation until its times sum to TIME, such as
/// 100ms, where one pass is too short for a rate. Option --out DIR keeps the run in a new directory
/// for 'fsb report'. Option --allow-concurrent measures although another fsb measures.
///
/// Files are overwritten and removed as by IOzone. 'fsb compare' reads the output.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true, override_usage = "fsb iozone [OPTIONS]")]
pub struct Arguments {
    /// Options of IOzone or fsb
    #[arg(
        value_name = "OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    options: Vec<OsString>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let typed = arguments
        .options
        .iter()
        .map(|option| option.to_string_lossy());
    let command = ["fsb".into(), "iozone".into()]
        .into_iter()
        .chain(typed)
        .collect::<Vec<_>>()
        .join(" ");
    let program = format!("fsb {}", env!("CARGO_PKG_VERSION"));
    match iozone::parse(arguments.options.iter().cloned(), command)
        .map_err(|error| failure::error(&code::INVALID_IOZONE, error.to_string()))?
    {
        CommandLine::List => results::print(&print::list()).map(|()| exit::DONE),
        CommandLine::Version => results::print(&print::version(&program)).map(|()| exit::DONE),
        CommandLine::Help => help(),
        CommandLine::Run(options) => {
            let rights = check::check(&options)?;
            run(&options, &program, rights)
        }
    }
}

/// Prints the help page for a `--help` that follows other options, which clap takes for an option
/// of IOzone.
fn help() -> anyhow::Result<u8> {
    let command = Arguments::augment_args(clap::Command::new("iozone"));
    results::print(&page(command, Page::Complete).render_help().to_string()).map(|()| exit::DONE)
}

// A run, from the banner to the line that reports its completion.

/// Measures and prints.
fn run(options: &Options, program: &str, rights: Rights) -> anyhow::Result<u8> {
    run_directory::check(options.out.as_deref())?;
    let mut lock = Turn::new(options.allow_concurrent).take(&options.command)?;
    let mut recording = Recording::create(options.out.as_deref(), "iozone", "IOzone")?;
    rights.adopt().context("the files under test")?;
    let mut session = IozoneSession::open(options, rights, recording.as_mut())?;
    results::print(&print::banner(options, &facts(program)))?;
    let mut reports = Reports::default();
    let measured = match options.throughput() {
        true => run_throughput(&mut session, &mut reports),
        false => run_table(&mut session, &mut reports),
    };
    // IOzone's text has no place for the warning.
    warn_of_concurrent(&mut lock);
    let complete = measured.is_ok();
    let ended = end(measured, session, &reports);
    if let Some(mut recording) = recording {
        recording.note_others(&mut lock);
        recording.finish(complete, &results::kept_output())?;
    }
    ended
}

/// Ends a run, and prints its reports. Returns the exit code or the error.
fn end(
    measured: anyhow::Result<()>,
    mut session: IozoneSession,
    reports: &Reports,
) -> anyhow::Result<u8> {
    let options = session.options;
    match measured {
        Ok(()) => {
            session.made.clear()?;
            if options.throughput() {
                // In throughput mode the report comes before the end, in tables after it.
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
        Err(error) => session.end(error, reports),
    }
}

/// Returns the number of measurements of a whole run.
fn measurements(options: &Options) -> usize {
    if options.throughput() {
        return sequence::counts(options).len() * sequence::throughput(options).len();
    }
    let mut columns = 0;
    for piece in sequence::pieces(options) {
        columns += usize::from(matches!(piece, Piece::Do(..)));
    }
    columns * sequence::rows(options).len()
}

fn facts(program: &str) -> Facts {
    let uname = rustix::system::uname();
    let words = [
        uname.sysname(),
        uname.nodename(),
        uname.release(),
        uname.version(),
        uname.machine(),
    ];
    let machine: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Facts {
        program: program.to_owned(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        began: jiff::Zoned::now()
            .strftime("%a %b %e %H:%M:%S %Y")
            .to_string(),
        machine: format!("{} GNU/Linux", machine.join(" ")),
        resolution: classic::clock_resolution(),
    }
}

// State of a run: its files, its worker, its reports, and the end of a run that fails.

/// State of a run.
struct IozoneSession<'o> {
    /// The options of the command line.
    options: &'o Options,
    /// Signals that end the run.
    signals: Signals,
    /// The worker that makes the passes.
    worker: PassWorker,
    /// The file system to remount. It is mounted again before files are removed.
    remount: Option<Remount>,
    /// The files that were written.
    made: Made,
    /// The files that this run wrote from their start, whether they are still there or not.
    written: Vec<PathBuf>,
    /// `-Q`.
    latencies: LatencyFiles,
    /// The run directory, if there is one.
    recording: Option<&'o mut Recording>,
    /// Measurements that finished.
    finished: usize,
}

/// Files that are removed when this value is dropped, unless `-w` keeps them.
struct Made {
    paths: Vec<PathBuf>,
    keep: bool,
}

impl Made {
    /// Records that a file is about to be written.
    fn note(&mut self, path: &Path) {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }

    /// Removes the files that were written.
    fn clear(&mut self) -> anyhow::Result<()> {
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
            say_warning(format!("{error:#}"));
        }
    }
}

/// Output of `-R` and `-b`.
#[derive(Default)]
struct Reports {
    /// Text for the screen.
    text: String,
    /// Text that IOzone does not print; it follows all text that IOzone prints.
    beside: String,
    /// The spreadsheet.
    sheet: Sheet,
}

impl Reports {
    fn save(&self, options: &Options) -> anyhow::Result<()> {
        let Some(path) = &options.sheet else {
            return Ok(());
        };
        Ok(owner::replace(path, &self.sheet.content(path)?)?)
    }
}

impl<'o> IozoneSession<'o> {
    /// Notes that an operation is about to work on these files. Those that it writes belong to this
    /// run from now on.
    fn note(&mut self, operation: Operation, paths: &[PathBuf]) {
        for path in paths.iter().filter(|_| operation.writes()) {
            self.made.note(path);
            if operation.makes_file() && !self.wrote(path) {
                self.written.push(path.clone());
            }
        }
    }

    fn open(
        options: &'o Options,
        rights: Rights,
        recording: Option<&'o mut Recording>,
    ) -> anyhow::Result<IozoneSession<'o>> {
        // A second signal must not end the program before the files are removed: a pass checks the
        // flag before each record.
        let signals = Signals::catch(Second::Waits)?;
        Ok(IozoneSession {
            options,
            worker: PassWorker::open(&signals, rights)?,
            signals,
            remount: options.remount.as_deref().map(Remount::new).transpose()?,
            made: Made {
                paths: Vec::new(),
                keep: options.keep,
            },
            written: Vec::new(),
            latencies: LatencyFiles::default(),
            recording,
            finished: 0,
        })
    }

    /// Counts a finished measurement, and adds it to the run directory.
    fn keep(
        &mut self,
        operation: Operation,
        sizes: MatrixRow,
        started: Timestamp,
        results: &[PhaseResult],
    ) -> anyhow::Result<()> {
        self.finished += 1;
        self.add(operation, sizes, started, results.len(), Ok(results))
    }

    /// Adds an operation to the run directory.
    fn add(
        &mut self,
        operation: Operation,
        sizes: MatrixRow,
        started: Timestamp,
        workers: usize,
        results: Result<&[PhaseResult], Reason>,
    ) -> anyhow::Result<()> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        let name = operation_name(operation);
        let done = execution(self.options, &name, sizes, started, workers, results);
        recording.add(done)
    }

    /// Adds a failed operation to the run directory; an interrupted one is none. Returns the error.
    fn failed(
        &mut self,
        operation: Operation,
        sizes: MatrixRow,
        started: Timestamp,
        workers: usize,
        error: anyhow::Error,
    ) -> anyhow::Error {
        let reason = match error.downcast_ref::<PhaseError>() {
            Some(PhaseError::Interrupted) | None => return error,
            Some(PhaseError::Corrupt(corruption)) => {
                Reason::new(&trial::CORRUPTED, corruption.to_string())
            }
            Some(PhaseError::Engine(refused)) => refused.clone().into(),
        };
        let added = self.add(operation, sizes, started, workers, Err(reason));
        match added {
            Ok(()) => error,
            Err(unwritable) => error.context(format!("{unwritable:#}")),
        }
    }

    fn wrote(&self, path: &Path) -> bool {
        self.written.iter().any(|known| known == path)
    }

    /// Prints how many measurements an interrupted run finished.
    fn say_part(&self) {
        let (done, all) = (self.finished, measurements(self.options));
        let text = format!(
            "warning: interrupted after {done} of {}",
            counted(all, "measurement")
        );
        notify(&notice::MEASURED_IN_PART, [], &text);
    }

    /// Ends a run that did not finish: removes its files, prints the reports of an interrupted run,
    /// and returns the exit code or the error.
    fn end(mut self, error: anyhow::Error, reports: &Reports) -> anyhow::Result<u8> {
        // Mounts the file system again if that is missing: the files are on it.
        self.remount = None;
        // Report both the error that ended the run and any failure to remove its files.
        let cleared = self
            .made
            .clear()
            .inspect_err(|error| say_warning(format!("{error:#}")))
            .is_ok();
        let gone = if cleared {
            ". The files of this run are removed"
        } else {
            ""
        };
        match error.downcast_ref::<PhaseError>() {
            Some(PhaseError::Interrupted) => {
                results::print("\niozone: interrupted\n\n")?;
                results::print(&reports.text)?;
                results::print("exiting iozone\n\n")?;
                results::print(&reports.beside)?;
                // A sheet of an earlier run is better than one without a number.
                if self.finished > 0 {
                    reports.save(self.options)?;
                }
                self.say_part();
                Ok(self.signals.code())
            }
            Some(PhaseError::Corrupt(corruption)) => {
                results::print(&placed(corruption))?;
                Err(self.corrupt(corruption))
            }
            Some(PhaseError::Engine(error)) => {
                results::print("\n")?;
                Err(failure::error(
                    &code::IOZONE_UNABLE,
                    format!("{error}{gone}"),
                ))
            }
            None => Err(error),
        }
    }

    /// Returns the error of corrupt data, with what it means.
    fn corrupt(&self, corruption: &Corruption) -> anyhow::Error {
        let wrote = self.wrote(&corruption.path);
        let next = if wrote {
            "The device, the file system or the memory lost written data: check the kernel's log"
        } else {
            "This run did not write that file: another program may have written it, or a run with another -V, -+d, -r or \
             number of processes. If a run with the same options wrote it (-i 0 -w), its data was lost: check the \
             kernel's log"
        };
        let fields = [
            ("path", corruption.path.to_string_lossy().into()),
            ("offset", corruption.offset.into()),
            ("expected", corruption.expected.into()),
            ("found", corruption.found.into()),
            ("written_by_this_run", wrote.into()),
        ];
        failure::about(&code::CORRUPT, fields, format!("{corruption}. {next}"))
    }
}

/// Formats the place of corrupt data as IOzone does.
fn placed(corruption: &Corruption) -> String {
    let Corruption {
        path,
        offset,
        expected,
        found,
        record_offset,
        record,
        bytes,
    } = corruption;
    format!(
        "\n\nError in file: Position {offset} \nRecord # {} Record size {} kb \n\
         Found pattern: Hex >>{found:x}<< Expecting >>{expected:x}<<\n\
         File {}, wrong bytes in this record: {bytes}\n",
        record_offset / record,
        record / 1024,
        path.display(),
    )
}

/// Returns the processors that a number of processes are bound to, or `None` for each if they are
/// not bound.
fn processors(options: &Options, count: usize) -> Vec<Option<u32>> {
    let bound = options
        .first_cpu
        .and_then(|first| classic::processors(first, count));
    bound.map_or_else(
        || vec![None; count],
        |all| all.into_iter().map(Some).collect(),
    )
}

// `--repeat-until`: repeats the pass until the timed samples sum to the requested time.

/// The time without a result after which the program prints the reason.
const SILENCE: Duration = Duration::from_secs(2);

/// The passes of one operation.
struct Repeat {
    operation: Operation,
    sizes: MatrixRow,
    /// Each pass creates its file again.
    creates: bool,
    /// The device is quiesced before a single pass.
    rests_before: bool,
    /// `None` for a single pass.
    wanted: Option<Duration>,
    passes: u64,
    began: Instant,
    said: Duration,
}

impl Repeat {
    /// Returns the state before the first pass.
    fn new(options: &Options, operation: Operation, sizes: MatrixRow) -> Repeat {
        let (began, said) = (Instant::now(), Duration::ZERO);
        Repeat {
            operation,
            sizes,
            creates: operation.makes_file()
                && (operation != Operation::Pwrite || options.throughput()),
            // IOzone's pread tests of the table begin without fsync.
            rests_before: options.throughput()
                || !matches!(operation, Operation::Pread | Operation::Repread),
            wanted: options.repeat_until,
            passes: 0,
            began,
            said,
        }
    }

    /// Returns when the next pass quiesces the device, outside the timed sample. A file that is
    /// only read is idle after the first pass. A file that each pass creates again need not be idle
    /// before it is removed.
    fn rest(&self) -> Rest {
        match self.wanted {
            None => Rest {
                before: self.rests_before,
                after: true,
            },
            Some(_) if self.creates => Rest {
                before: true,
                after: false,
            },
            Some(_) if self.operation.writes() => Rest::ALWAYS,
            Some(_) => Rest {
                before: self.passes == 0,
                after: false,
            },
        }
    }

    /// Returns whether the device still has to be quiesced after the last pass.
    fn owes_rest(&self) -> bool {
        self.wanted.is_some() && self.creates
    }

    /// Counts a pass and returns whether `nanoseconds`, the timed total, suffices.
    fn enough(&mut self, nanoseconds: u64) -> bool {
        self.passes += 1;
        let (timed, wanted) = (
            Duration::from_nanos(nanoseconds),
            self.wanted.unwrap_or_default(),
        );
        let elapsed = self.began.elapsed();
        if timed < wanted && elapsed - self.said >= SILENCE {
            self.said = elapsed;
            let MatrixRow { file, record } = self.sizes;
            let left = elapsed.mul_f64(wanted.as_secs_f64() / timed.as_secs_f64().max(1e-9) - 1.0);
            say(&format!(
                "{}, {file} kB by {record} kB: {} of {} timed in {} passes; restoring the file between them takes most \
                 of the time; about {} left",
                operation_name(self.operation),
                show_duration(timed),
                show_duration(wanted),
                self.passes,
                show_duration(left),
            ));
        }
        timed >= wanted
    }
}

/// Returns a name such as `random write`.
fn operation_name(operation: Operation) -> String {
    let name = format!("{operation:?}");
    name.char_indices()
        .map(|(at, letter)| match letter.is_uppercase() && at > 0 {
            true => format!(" {}", letter.to_lowercase()),
            false => letter.to_lowercase().to_string(),
        })
        .collect()
}

// Throughput mode: several processes or threads at once, with a block of lines for each operation.

/// Measures all numbers of processes.
fn run_throughput(session: &mut IozoneSession, reports: &mut Reports) -> anyhow::Result<()> {
    let options = session.options;
    let Some(sizes) = sequence::rows(options).first().copied() else {
        return Ok(());
    };
    let files = sequence::files(options);
    let mut runs: Vec<Vec<ThroughputTest>> = Vec::new();
    for count in sequence::counts(options) {
        results::print(&print::intro(options, sizes))?;
        runs.push(Vec::new());
        let files = &files[..count as usize];
        for operation in sequence::throughput(options) {
            classic::sync_all();
            session.note(operation, files);
            let started = run_directory::now();
            let test = measure_group(session, operation, sizes, files)
                .map_err(|error| session.failed(operation, sizes, started, files.len(), error))?;
            results::print(&print::block(options, &test))?;
            if let Some(run) = runs.last_mut() {
                run.push(test);
            }
            update_reports(options, sizes, &runs, reports)?;
        }
        session.made.clear()?;
        results::print("\n\n")?;
    }
    Ok(())
}

fn update_reports(
    options: &Options,
    sizes: MatrixRow,
    runs: &[Vec<ThroughputTest>],
    reports: &mut Reports,
) -> anyhow::Result<()> {
    reports.beside = print::without_stonewall(options, runs);
    if options.report {
        reports.text = print::throughput_report(options, sizes, runs);
    }
    if options.sheet.is_some() {
        reports.sheet = throughput_sheet(options, sizes, runs);
    }
    Ok(())
}

/// Measures an operation of all processes, once, or as often as `--repeat-until` requires; sums the
/// times of each process.
fn measure_group(
    session: &mut IozoneSession,
    operation: Operation,
    sizes: MatrixRow,
    files: &[PathBuf],
) -> anyhow::Result<ThroughputTest> {
    let options = session.options;
    let started = run_directory::now();
    let mut phases = phases(options, operation, sizes, files);
    // A stream overwrites an existing file.
    let fresh = operation.makes_file()
        && (operation != Operation::Fwrite
            || files
                .iter()
                .all(|file| classic::examine(file) == Ok(Existing::Nothing)));
    let mut repeat = Repeat::new(options, operation, sizes);
    let mut sums = vec![
        Some(PhaseResult {
            full_nanoseconds: Some(0),
            ..PhaseResult::default()
        });
        files.len()
    ];
    let mut nanoseconds = 0;
    loop {
        phases
            .iter_mut()
            .for_each(|phase| phase.rest = repeat.rest());
        let result = session.worker.passes_together(&phases, options.threads)?;
        for (rank, result) in result.results.iter().enumerate() {
            session.latencies.write(
                operation,
                Some(rank),
                sizes.record << 10,
                result,
                options.latency_files,
            )?;
        }
        nanoseconds += add_pass(&mut sums, result);
        let least = sums
            .iter()
            .flatten()
            .map(|sum| sum.nanoseconds)
            .min()
            .unwrap_or(u64::MAX);
        if repeat.enough(least) {
            break;
        }
        if fresh {
            // The first pass found no files, or removed those of an earlier run; the others must
            // find none, too.
            files
                .iter()
                .try_for_each(|file| classic::remove(file).map(|_| ()))?;
        }
    }
    if repeat.owes_rest() {
        files
            .iter()
            .try_for_each(|file| classic::bring_to_rest(file))?;
    }
    let sums: Vec<PhaseResult> = sums.into_iter().flatten().collect();
    session.keep(operation, sizes, started, &sums)?;
    let children = sums.iter().map(|sum| child(options, sizes, sum)).collect();
    Ok(ThroughputTest {
        operation,
        children,
        seconds: nanoseconds as f64 * 1e-9,
    })
}

fn phases(
    options: &Options,
    operation: Operation,
    sizes: MatrixRow,
    files: &[PathBuf],
) -> Vec<Phase> {
    let cpus = processors(options, files.len());
    let operations = operations(options, operation, files.len() as u32);
    let members = files.iter().zip(operations).zip(cpus).enumerate();
    members
        .map(|(rank, ((file, operation), cpu))| {
            phase(options, operation, file, sizes, rank as u32, cpu)
        })
        .collect()
}

/// Adds a pass of all processes to the sums of each. Returns the time of the pass.
fn add_pass(sums: &mut [Option<PhaseResult>], result: GroupResult) -> u64 {
    for (sum, result) in sums.iter_mut().flatten().zip(result.results) {
        sum.nanoseconds += result.nanoseconds;
        sum.records += result.records;
        sum.full_nanoseconds = sum
            .full_nanoseconds
            .zip(result.full_nanoseconds)
            .map(|(sum, more)| sum + more);
        sum.user_nanoseconds += result.user_nanoseconds;
        sum.system_nanoseconds += result.system_nanoseconds;
        sum.wall_nanoseconds += result.wall_nanoseconds;
    }
    result.nanoseconds
}

fn child(options: &Options, sizes: MatrixRow, sum: &PhaseResult) -> Child {
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let amount = |records: u64| match options.unit {
        OutputUnit::Operations => records as f64,
        OutputUnit::Kilobytes | OutputUnit::Microseconds => (records * sizes.record) as f64,
    };
    let passes = sizes.file / sizes.record;
    Child {
        moved: amount(sum.records),
        rate: amount(sum.records) / seconds(sum.nanoseconds),
        full: sum
            .full_nanoseconds
            .map(|full| amount(passes) / seconds(full)),
        wall: seconds(sum.wall_nanoseconds),
        cpu: seconds(sum.user_nanoseconds + sum.system_nanoseconds),
    }
}

// Measurements with one process: a row for each pair of sizes, a number for each operation.

/// Measures all rows. Updates the output of `-R` and `-b` row by row, because a run may be
/// interrupted.
fn run_table(session: &mut IozoneSession, reports: &mut Reports) -> anyhow::Result<()> {
    let options = session.options;
    results::print(&print::heading(options))?;
    let mut report = Report::default();
    for sizes in sequence::rows(options) {
        classic::sync_all();
        report.start(sizes);
        let measured = measure_row(session, sizes, &mut report);
        if options.report {
            reports.text = format!("{}{}", print::REPORTS, print::reports(options, &report));
        }
        if options.sheet.is_some() {
            reports.sheet = table_sheet(options, &report);
        }
        measured?;
        results::print("\n")?;
        session.made.clear()?;
    }
    Ok(())
}

fn measure_row(
    session: &mut IozoneSession,
    sizes: MatrixRow,
    report: &mut Report,
) -> anyhow::Result<()> {
    let options = session.options;
    results::print(&print::row(sizes))?;
    for piece in sequence::pieces(options) {
        match piece {
            Piece::Do(operation, column) => {
                let started = run_directory::now();
                let result = measure(session, operation, sizes)
                    .map_err(|error| session.failed(operation, sizes, started, 1, error))?;
                let results = std::slice::from_ref(&result);
                session.keep(operation, sizes, started, results)?;
                let number = value(
                    options.unit,
                    result.nanoseconds,
                    result.records,
                    sizes.record << 10,
                );
                report.put(column, number, cpu_percent(&result));
                results::print(&print::number(column, number))?;
            }
            Piece::Silently(operation) => {
                let started = run_directory::now();
                measure(session, operation, sizes)
                    .map_err(|error| session.failed(operation, sizes, started, 1, error))?;
            }
            Piece::Zero(column) => {
                report.put(column, 0, 0.0);
                results::print(&print::zero(column))?;
            }
            Piece::Blank(test) => results::print(print::blank(test))?,
        }
    }
    Ok(())
}

/// Measures an operation, once, or as often as `--repeat-until` requires; sums its times.
fn measure(
    session: &mut IozoneSession,
    which: Operation,
    sizes: MatrixRow,
) -> anyhow::Result<PhaseResult> {
    let options = session.options;
    // A table has no mix.
    let Some(operation) = operation(which) else {
        return Ok(PhaseResult::default());
    };
    session.note(which, std::slice::from_ref(&options.file));
    let cpu = processors(options, 1)[0];
    let mut phase = phase(options, operation, &options.file, sizes, 0, cpu);
    let mut repeat = Repeat::new(options, which, sizes);
    // Writing a new file first removes the old one; a stream creates a file only if there was none.
    let fresh =
        which == Operation::Fwrite && classic::examine(&options.file) == Ok(Existing::Nothing);
    let mut sum = PhaseResult::default();
    loop {
        if let Some(remount) = &mut session.remount {
            remount.cycle()?;
        }
        if fresh && sum.records > 0 {
            classic::remove(&options.file)?;
        }
        phase.rest = repeat.rest();
        let result = session.worker.pass(&phase)?;
        session.latencies.write(
            which,
            None,
            sizes.record << 10,
            &result,
            options.latency_files,
        )?;
        sum.nanoseconds += result.nanoseconds;
        sum.records += result.records;
        sum.user_nanoseconds += result.user_nanoseconds;
        sum.system_nanoseconds += result.system_nanoseconds;
        sum.wall_nanoseconds += result.wall_nanoseconds;
        if repeat.enough(sum.nanoseconds) {
            break;
        }
    }
    if repeat.owes_rest() {
        classic::bring_to_rest(&options.file)?;
    }
    Ok(sum)
}

// `-Q`: a file for each operation, with the offset, the time and the size of each record, appended
// as IOzone does.

/// Latency files that this run has begun.
#[derive(Default)]
struct LatencyFiles {
    begun: BTreeSet<String>,
}

/// Returns the suffix of IOzone's latency file for an operation, or `None` if IOzone writes no such
/// file.
fn latency_suffix(operation: Operation, together: bool) -> Option<&'static str> {
    match operation {
        Operation::Write => Some("wol.dat"),
        Operation::Rewrite => Some("rwol.dat"),
        Operation::Read => Some("rol.dat"),
        Operation::Reread => Some("rrol.dat"),
        Operation::Pwrite if together => Some("pwol.dat"),
        Operation::Pread if together => Some("prol.dat"),
        Operation::BackwardRead if together => Some("revol.dat"),
        _ => None,
    }
}

impl LatencyFiles {
    /// Appends the latencies of a pass, if `wanted`; `rank` is the number of its process if there
    /// are several.
    fn write(
        &mut self,
        operation: Operation,
        rank: Option<usize>,
        record: u64,
        result: &PhaseResult,
        wanted: bool,
    ) -> anyhow::Result<()> {
        let Some(suffix) = latency_suffix(operation, rank.is_some()).filter(|_| wanted) else {
            return Ok(());
        };
        let name = rank.map_or_else(
            || suffix.to_owned(),
            |rank| format!("Child_{rank}_{suffix}"),
        );
        self.append(&name, record, result)
            .with_context(|| format!("cannot write {name}"))
    }

    fn append(&mut self, name: &str, record: u64, result: &PhaseResult) -> anyhow::Result<()> {
        let mut file = BufWriter::new(owner::append(Path::new(name))?);
        if self.begun.insert(name.to_owned()) {
            writeln!(
                file,
                "Offset in kBytes   Latency in microseconds  Transfer size in bytes"
            )?;
        }
        for (offset, nanoseconds) in &result.latencies {
            let microseconds = *nanoseconds as f64 / 1e3;
            writeln!(
                file,
                "{:>10} {microseconds:>10.0} {record:>10}",
                offset / 1024
            )?;
        }
        let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
        writeln!(
            file,
            "\nSystem time {:>10.3} User time {:>10.3} Real {:>10.3}  (seconds)",
            seconds(result.system_nanoseconds),
            seconds(result.user_nanoseconds),
            seconds(result.wall_nanoseconds)
        )?;
        Ok(file.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_in_words() {
        assert_eq!(
            (
                operation_name(Operation::RandomWrite),
                operation_name(Operation::Read)
            ),
            ("random write".into(), "read".into())
        );
    }

    #[test]
    fn a_repetition_spares_what_the_state_does_not_need() {
        let sizes = MatrixRow {
            file: 64,
            record: 4,
        };
        let once = Options::default();
        let many = Options {
            repeat_until: Some(Duration::from_millis(1)),
            ..Options::default()
        };
        let mut single = Repeat::new(&once, Operation::Read, sizes);
        assert_eq!(
            (single.rest(), single.enough(1), single.owes_rest()),
            (Rest::ALWAYS, true, false)
        );
        let mut read = Repeat::new(&many, Operation::Read, sizes);
        assert_eq!(
            read.rest(),
            Rest {
                before: true,
                after: false
            }
        );
        assert!(!read.enough(999_999));
        assert_eq!(
            read.rest(),
            Rest {
                before: false,
                after: false
            }
        );
        assert!(read.enough(1_000_000) && !read.owes_rest());
        let write = Repeat::new(&many, Operation::Write, sizes);
        assert_eq!(
            (write.rest(), write.owes_rest()),
            (
                Rest {
                    before: true,
                    after: false
                },
                true
            )
        );
        // A page that waits for writeback is overwritten faster than a clean one.
        assert_eq!(
            Repeat::new(&many, Operation::Rewrite, sizes).rest(),
            Rest::ALWAYS
        );
    }
}
