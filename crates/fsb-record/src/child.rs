//! The process that becomes the program: it stops until the recorder traces it, then installs the filter.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;

use fsb_sys::trace;
use rustix::thread::CpuSet;

use crate::{rounds, syscalls};

/// The hidden argument that makes the binary run as this child.
pub const CHILD_ARGUMENT: &str = "__record-child";

/// The values of the first argument: the calls that stop, or the purpose of the child.
const ALL: &str = "all";
const SOME: &str = "some";
const MEASURED: &str = "measured";
const SOME_MEASURED: &str = "some-measured";

/// Starts a stopped child that becomes that program. All calls on files stop, or only those that must.
pub(crate) fn start(program: &[OsString], all: bool) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    spawn(command.args([CHILD_ARGUMENT, if all { ALL } else { SOME }]).args(program))
}

/// Starts a stopped child that makes calls on files in that directory and stores there how long they took.
pub(crate) fn start_measured(directory: &Path, all: bool) -> io::Result<Child> {
    let part = if all { MEASURED } else { SOME_MEASURED };
    spawn(Command::new("/proc/self/exe").args([CHILD_ARGUMENT, part]).arg(directory))
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = stay_on_one_processor(|| command.spawn())?;
    trace::wait_until_stopped(child.id() as i32)?;
    Ok(child)
}

/// Binds the recorder to the last of its processors from now on. A process that it starts may use all of them. A stop
/// costs twice as much if the two run on different processors, and then the measured cost would differ from the
/// program's.
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
    let part = arguments.first().and_then(|word| word.to_str()).unwrap_or_default();
    match (part, arguments.get(1..).unwrap_or_default()) {
        (MEASURED | SOME_MEASURED, [directory]) => {
            rounds::be_measured(Path::new(directory), part == MEASURED, || watched(part == MEASURED))
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
    arguments.get(1).map_or(OsStr::new("a program"), OsString::as_os_str)
}
