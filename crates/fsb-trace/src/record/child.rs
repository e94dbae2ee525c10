//! The process that becomes the program: it stops until the recorder traces it, then installs the
//! filter.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Instant;

use fsb_sys::trace;
use rustix::thread::CpuSet;

use super::syscalls;

/// The hidden argument that makes the binary run as this child.
pub const CHILD_ARGUMENT: &str = "__record-child";

/// The values of the first argument: the calls that stop, or the purpose of the child.
const ALL: &str = "all";
const SOME: &str = "some";
const MEASURED: &str = "measured";
const SOME_MEASURED: &str = "some-measured";

/// Starts a stopped child that becomes that program. All calls on files stop, or only those that
/// must.
pub(crate) fn start(program: &[OsString], all: bool) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    spawn(
        command
            .args([CHILD_ARGUMENT, if all { ALL } else { SOME }])
            .args(program),
    )
}

/// Starts a stopped child that makes calls on files in that directory and stores there how long
/// they took.
pub(crate) fn start_measured(directory: &Path, all: bool) -> io::Result<Child> {
    let part = if all { MEASURED } else { SOME_MEASURED };
    spawn(
        Command::new("/proc/self/exe")
            .args([CHILD_ARGUMENT, part])
            .arg(directory),
    )
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = stay_on_one_processor(|| command.spawn())?;
    trace::wait_until_stopped(child.id() as i32)?;
    Ok(child)
}

/// Binds the recorder to the last of its processors from now on. A process that it starts may use
/// all of them. A stop costs twice as much if the two run on different processors, and then the
/// measured cost would differ from the program's.
fn stay_on_one_processor<T>(start: impl FnOnce() -> T) -> T {
    /// The processors that this process could use when it was started.
    static ALL: OnceLock<Option<CpuSet>> = OnceLock::new();
    let all = ALL.get_or_init(|| rustix::thread::sched_getaffinity(None).ok());
    // If that is not possible, costs are less certain.
    let set = |processors: &CpuSet| {
        let _ = rustix::thread::sched_setaffinity(None, processors);
    };
    all.iter().for_each(set);
    let started = start();
    if let Some(last) = all.and_then(|all| (0..CpuSet::MAX_CPU).rev().find(|at| all.is_set(*at))) {
        let mut one = CpuSet::new();
        one.set(last);
        set(&one);
    }
    started
}

/// Runs as the child. Returns only an error, or after the calls to be measured.
///
/// # Errors
/// Fails if the program does not exist, or if the kernel refuses the filter.
pub fn child_main(arguments: &[OsString]) -> io::Result<()> {
    let watched = |all: bool| {
        trace::stop_self();
        trace::install(&syscalls::rules(all))
    };
    let part = arguments
        .first()
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    match (part, arguments.get(1..).unwrap_or_default()) {
        (MEASURED | SOME_MEASURED, [directory]) => {
            be_measured(Path::new(directory), part == MEASURED, || {
                watched(part == MEASURED)
            })
        }
        (ALL | SOME, [program, arguments @ ..]) => {
            watched(part == ALL)?;
            Err(Command::new(program).args(arguments).exec())
        }
        _ => Err(io::Error::other("the recorder's child has no instructions")),
    }
}

/// Returns the program that the child was to become, for a message.
pub fn program_of(arguments: &[OsString]) -> &OsStr {
    arguments
        .get(1)
        .map_or(OsStr::new("a program"), OsString::as_os_str)
}

// Calls on small files that are made alone and recorded, to measure the cost of recording. Some
// stop among others, and some never do.

/// The number of timed rounds of about seven calls each.
const ROUNDS: usize = 300;
/// The file with the times, in the directory that the calls use.
const TIMES: &str = "times";
/// Bytes of memory that a round reads between its calls.
const LOOKED_AT: usize = 128 << 10;

/// Reads that do not stop. There are enough of them that the tracer empties the ring meanwhile,
/// which is a large part of their cost.
const READS: usize = 10_000;
/// Batches of reads. The median batch counts.
const BATCHES: usize = 9;

/// The measured times, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) rounds_ns: u64,
    /// One read; 0 if reads stop and were not timed.
    pub(crate) read_ns: u64,
}

/// Runs as the child. `watched` lets the parent begin to trace.
fn be_measured(
    directory: &Path,
    reads_stop: bool,
    watched: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    rounds(directory)?;
    let alone = (rounds(directory)?, reads(directory)?);
    watched()?;
    let traced = (
        rounds(directory)?,
        if reads_stop { 0 } else { reads(directory)? },
    );
    fs::write(
        directory.join(TIMES),
        format!("{} {} {} {}", alone.0, alone.1, traced.0, traced.1),
    )
}

/// Reads the times that the child stored in the directory: without and with recording. Returns
/// `None` if the file is missing or invalid.
pub(crate) fn took(directory: &Path) -> Option<[Took; 2]> {
    let text = fs::read_to_string(directory.join(TIMES)).ok()?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|time| time.parse().ok())
        .collect();
    let [alone, alone_read, traced, traced_read] = numbers[..] else {
        return None;
    };
    let took = |rounds_ns, read_ns| Took { rounds_ns, read_ns };
    Some([took(alone, alone_read), took(traced, traced_read)])
}

/// Returns the nanoseconds of a read.
fn reads(directory: &Path) -> io::Result<u64> {
    let file = File::open(directory.join("file"))?;
    let (mut buffer, mut batches) = ([0; 512], [0; BATCHES]);
    for batch in &mut batches {
        let begun = Instant::now();
        for _ in 0..READS {
            file.read_exact_at(&mut buffer, 512)?;
        }
        *batch = begun.elapsed().as_nanos() as u64 / READS as u64;
    }
    batches.sort_unstable();
    Ok(batches[BATCHES / 2])
}

/// Returns the nanoseconds of all rounds.
fn rounds(directory: &Path) -> io::Result<u64> {
    let path = directory.join("file");
    let (mut buffer, data) = ([0; 512], vec![1u8; LOOKED_AT]);
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        file.write_all_at(&buffer, 0)?;
        file.write_all_at(&buffer, 4096)?;
        file.read_exact_at(&mut buffer, 512)?;
        file.metadata()?;
        drop(file);
        fs::metadata(&path)?;
        black_box(
            data.iter()
                .step_by(64)
                .fold(round, |sum, byte| sum.wrapping_add(usize::from(*byte))),
        );
    }
    Ok(begun.elapsed().as_nanos() as u64)
}
