//! The processes that programs leave behind, and what those that run beside them cost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How long processes that were killed are waited for.
const GOING: Duration = Duration::from_secs(10);

/// A process, as /proc/PID/stat has it.
struct Process {
    parent: u32,
    /// Clock ticks in user mode and in the kernel, those of children that were waited for included.
    ticks: [u64; 2],
}

/// The fields behind the name, which may hold anything.
fn parse(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Counted from the state, the third field: ppid is the fourth, utime to cstime are 14 to 17.
    let ticks = [number(11)? + number(13)?, number(12)? + number(14)?];
    Some(Process { parent: number(1)? as u32, ticks })
}

fn all() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, parse(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    };
    entries.filter_map(process).collect()
}

/// Those of `roots` and all below them.
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

/// CPU seconds of these processes and all below them so far, in user mode and in the kernel.
pub(super) fn cpu_seconds(roots: &[u32]) -> [f64; 2] {
    if roots.is_empty() {
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

/// Kills everything below this process and waits for it. What forks without end is stopped first: what stands still has no
/// children. `directory` is where they worked.
pub(super) fn end_all(directory: &Path) {
    let own = std::process::id();
    let ends = Instant::now() + GOING;
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
            // Those that are still dying, and those whose parents are not waited for yet, come next.
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
        let stat = "7 (a) b ( c) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 1 0 5 6";
        let process = parse(stat).unwrap();
        assert_eq!((process.parent, process.ticks), (3, [57, 68]));
        assert!(parse("7 (x").is_none());
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |parent| Process { parent, ticks: [0; 2] };
        let tree = BTreeMap::from([(2, process(9)), (5, process(1)), (9, process(5)), (11, process(1))]);
        assert_eq!(below(&[5], &tree), [5, 9, 2]);
    }
}
