//! The process that becomes the program: it gives itself the filter and waits to be watched first.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;

use fsb_sys::trace;
use rustix::thread::CpuSet;

use crate::{rounds, syscalls};

/// The hidden argument that makes the binary play this part.
pub const CHILD_ARGUMENT: &str = "__record-child";

/// What stops, or what the child is for, as the first argument.
const ALL: &str = "all";
const SOME: &str = "some";
const MEASURED: &str = "measured";
const SOME_MEASURED: &str = "some-measured";

/// Starts one, stopped, which becomes that program. All calls on files stop, or only those that must.
pub(crate) fn start(program: &[OsString], all: bool) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    spawn(command.args([CHILD_ARGUMENT, if all { ALL } else { SOME }]).args(program))
}

/// Starts one, stopped, which makes calls on files in that directory and leaves there how long they took.
pub(crate) fn start_measured(directory: &Path, all: bool) -> io::Result<Child> {
    let part = if all { MEASURED } else { SOME_MEASURED };
    spawn(Command::new("/proc/self/exe").args([CHILD_ARGUMENT, part]).arg(directory))
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = stay_on_one_processor(|| command.spawn())?;
    trace::wait_until_stopped(child.id() as i32)?;
    Ok(child)
}

/// The recorder keeps to the last of its processors from now on; what it starts meanwhile may use all. A stop costs twice as
/// much where the two run on different processors, so that what was measured would be another cost than the program's.
fn stay_on_one_processor<T>(start: impl FnOnce() -> T) -> T {
    /// Those that this process may use, as it was started.
    static ALL: OnceLock<Option<CpuSet>> = OnceLock::new();
    let all = ALL.get_or_init(|| rustix::thread::sched_getaffinity(None).ok());
    // Where that is not possible, costs are less sure.
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

/// Plays the part; returns only what went wrong, or that the calls to be measured are done.
///
/// # Errors
/// There is no such program, or the kernel refuses the filter.
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

/// What the child was to become, for a message.
pub fn program_of(arguments: &[OsString]) -> &OsStr {
    arguments.get(1).map_or(OsStr::new("a program"), OsString::as_os_str)
}
