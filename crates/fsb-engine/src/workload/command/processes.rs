//! Processes of programs: ends those that programs leave behind, and counts the CPU time of services.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait, waitpid};

/// The longest wait for killed processes to end.
const GOING: Duration = Duration::from_secs(10);

/// A process, as in /proc/PID/stat.
struct Process {
    parent: u32,
    /// Clock ticks in user mode and in the kernel, including those of reaped children.
    ticks: [u64; 2],
}

/// Parses the fields after the name. The name may hold any bytes: the kernel cuts names in the middle of a character.
fn parse(stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[name_ends + 1..]).ok()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Counted from the state, the third field: ppid is the fourth, utime to cstime are 14 to 17.
    let ticks = [number(11)? + number(13)?, number(12)? + number(14)?];
    Some(Process { parent: number(1)? as u32, ticks })
}

fn all() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, parse(&fs::read(entry.path().join("stat")).ok()?)?))
    };
    entries.filter_map(process).collect()
}

/// Returns `roots` and all their descendants.
fn below(roots: &[u32], processes: &BTreeMap<u32, Process>) -> Vec<u32> {
    let mut found: Vec<u32> = roots.to_vec();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        let children = processes.iter().filter(|(pid, process)| process.parent == parent && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// Returns the CPU seconds of these processes and their descendants so far, in user mode and in the kernel. Returns
/// zeros if /proc belongs to another PID namespace, where the same numbers name other processes.
pub(super) fn cpu_seconds(roots: &[u32]) -> [f64; 2] {
    if roots.is_empty() || !proc_is_ours() {
        return [0.0; 2];
    }
    let processes = all();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let found = below(roots, &processes);
    let sum = |which: usize| {
        found.iter().filter_map(|pid| processes.get(pid)).map(|process| process.ticks[which]).sum::<u64>() as f64
    };
    [sum(0) / per_second, sum(1) / per_second]
}

/// Shared memory of System V that this user had before any program ran.
static SHARED_BEFORE: OnceLock<BTreeSet<i32>> = OnceLock::new();

/// Returns the identifiers of this user's segments and their creators: the fields shmid, cpid and uid of
/// /proc/sysvipc/shm.
fn shared_memory() -> Vec<(i32, u32)> {
    let own = rustix::process::geteuid().as_raw();
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let segment = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        (number(7)? == own).then_some((number(1)? as i32, number(4)?))
    };
    text.lines().filter_map(segment).collect()
}

/// Remembers the shared memory that does not belong to programs. Later calls have no effect.
pub(super) fn remember_shared_memory() {
    SHARED_BEFORE.get_or_init(|| shared_memory().into_iter().map(|(id, _)| id).collect());
}

/// Removes the shared memory that programs left, which would take memory from the next trial. A worker with its own IPC
/// namespace sees only the segments of its programs. Segments of a living process are kept.
fn remove_shared_memory() {
    let Some(before) = SHARED_BEFORE.get() else { return };
    let left = shared_memory().into_iter().filter(|(id, _)| !before.contains(id));
    for (id, _) in left.filter(|(_, creator)| !Path::new(&format!("/proc/{creator}")).exists()) {
        // SAFETY: names a segment by its number; no memory of this process is concerned.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn proc_is_ours() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

/// Kills all descendants of this process and reaps them. `directory` is their working directory.
///
/// As PID 1 of a PID namespace this process asks the kernel, which misses none, however they are named and however fast
/// they fork. Elsewhere it searches /proc. It stops processes before it kills them, because a stopped one cannot fork.
pub(super) fn end_all(directory: &Path) {
    end_processes(directory);
    remove_shared_memory();
}

fn end_processes(directory: &Path) {
    let own = std::process::id();
    let ends = Instant::now() + GOING;
    if own == 1 {
        // kill(-1): everything in this PID namespace but this process. Where nothing else is left it fails.
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
        while Instant::now() < ends {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
        return;
    }
    while Instant::now() < ends {
        let mut stopped: Vec<u32> = Vec::new();
        loop {
            let found: Vec<u32> =
                below(&[own], &all()).into_iter().filter(|pid| *pid != own && is_ours(*pid, directory)).collect();
            let new: Vec<u32> = found.into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if new.is_empty() || Instant::now() >= ends {
                break;
            }
            signal(&new, Signal::STOP);
            stopped.extend(new);
        }
        if stopped.is_empty() {
            return;
        }
        signal(&stopped, Signal::KILL);
        for pid in stopped.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            // The next iteration handles processes that are still dying, or whose parents have not been reaped yet.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A worker has no children but these.
#[cfg(not(test))]
fn is_ours(_: u32, _: &Path) -> bool {
    true
}

/// Tests share a process with others that have children, too: those of a directory are known by their environment.
#[cfg(test)]
fn is_ours(pid: u32, directory: &Path) -> bool {
    let variable = format!("FSB_TARGET={}\0", directory.display());
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    // One that is just being started, or has ended, has none.
    environment.windows(variable.len()).any(|part| part == variable.as_bytes())
}

fn signal(processes: &[u32], signal: Signal) {
    for pid in processes.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
        // One that is gone by now needs none.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        for name in [&b"a) b ( c"[..], b"", b"caf\xc3", b")\n(\xff"] {
            let stat = [b"7 (", name, b") S 3 7 7 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 1 0 5 6\n"].concat();
            let process = parse(&stat).unwrap();
            assert_eq!((process.parent, process.ticks), (3, [57, 68]));
        }
        assert!(parse(b"7 (x").is_none());
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |parent| Process { parent, ticks: [0; 2] };
        let tree = BTreeMap::from([(2, process(9)), (5, process(1)), (9, process(5)), (11, process(1))]);
        assert_eq!(below(&[5], &tree), [5, 9, 2]);
    }
}
