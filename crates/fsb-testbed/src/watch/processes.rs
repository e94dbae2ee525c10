//! Processes and the CPU time that each used between two readings.

use std::collections::{BTreeMap, BTreeSet};

use fsb_sys::Roots;
use fsb_sys::process::stat_field;

/// A process from /proc/PID/stat. Times are in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub id: u32,
    pub parent: u32,
    /// The start time. Together with the id it identifies a process, because ids are reused.
    pub start: u64,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// The CPU time of the process itself.
    pub own: u64,
    /// The CPU time of its children that it has reaped.
    pub buried: u64,
    pub name: String,
}

/// PF_KTHREAD of linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns all visible processes.
pub(crate) fn read(roots: &Roots) -> Vec<Process> {
    let entries = std::fs::read_dir(&roots.proc).into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process may have ended since the directory was read.
    ids.filter_map(|id| parse(id, &roots.proc_text(&format!("{id}/stat"))?)).collect()
}

fn parse(id: u32, stat: &str) -> Option<Process> {
    let field = |number| stat_field(stat, number);
    Some(Process {
        id,
        parent: field(4)? as u32,
        start: field(22)?,
        kernel: field(9)? & KERNEL_THREAD != 0,
        own: field(14)? + field(15)?,
        buried: field(16)? + field(17)?,
        name: stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned(),
    })
}

/// Returns the ticks that other processes used between two readings, by their names, the busiest first. Excludes
/// `coordinator`, its descendants and the kernel's threads.
///
/// The time of a process that ended meanwhile is counted with the process that reaped it: its parent, or an ancestor
/// that adopted it. That time includes its whole life, so its time at the first reading is subtracted.
pub(crate) fn used_by_others(before: &[Process], after: &[Process], coordinator: u32) -> Vec<(String, u64)> {
    let (known, alive) = (index(before), index(after));
    let same = |process: &Process| known.get(&process.id).copied().filter(|old| old.start == process.start);
    let mut used: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for process in foreign(after, &alive, coordinator) {
        let (own, buried) = same(process).map_or((0, 0), |old| (old.own, old.buried));
        used.insert(process.id, (process.own.saturating_sub(own), process.buried.saturating_sub(buried)));
    }
    for gone in foreign(before, &known, coordinator) {
        if alive.get(&gone.id).is_some_and(|process| process.start == gone.start) {
            continue;
        }
        let mut known_of_it = gone.own + gone.buried;
        for ancestor in ancestors(gone, &known) {
            let Some((_, buried)) = used.get_mut(&ancestor) else { continue };
            let taken = known_of_it.min(*buried);
            (*buried, known_of_it) = (*buried - taken, known_of_it - taken);
        }
    }
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, (own, buried)) in used {
        *by_name.entry(&alive[&id].name).or_default() += own + buried;
    }
    let mut busiest: Vec<(String, u64)> =
        by_name.into_iter().filter(|(_, ticks)| *ticks > 0).map(|(name, ticks)| (name.to_owned(), ticks)).collect();
    busiest.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
    busiest
}

type Index<'a> = BTreeMap<u32, &'a Process>;

fn index(processes: &[Process]) -> Index<'_> {
    processes.iter().map(|process| (process.id, process)).collect()
}

fn foreign<'a>(processes: &'a [Process], all: &'a Index<'a>, coordinator: u32) -> impl Iterator<Item = &'a Process> {
    processes.iter().filter(move |process| {
        !process.kernel && process.id != coordinator && !ancestors(process, all).contains(&coordinator)
    })
}

/// Returns the parents of a process, the nearest first.
fn ancestors(process: &Process, all: &Index<'_>) -> Vec<u32> {
    let mut line = Vec::new();
    let mut seen = BTreeSet::from([process.id]);
    let mut parent = process.parent;
    // Processes that change during the reading may appear to form a cycle.
    while let Some(next) = all.get(&parent).filter(|_| seen.insert(parent)) {
        line.push(parent);
        parent = next.parent;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32, own: u64, buried: u64) -> Process {
        Process { id, parent, start: u64::from(id), kernel: false, own, buried, name: format!("p{id}") }
    }

    fn total(before: &[Process], after: &[Process]) -> u64 {
        used_by_others(before, after, 50).iter().map(|(_, ticks)| ticks).sum()
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let stat = "9 (a) b) S 7 9 9 0 -1 2129984 0 0 0 0 11 22 33 44 20 0 1 0 555 0";
        let read = parse(9, stat).unwrap();
        assert_eq!((read.parent, read.start, read.own, read.buried), (7, 555, 33, 77));
        assert_eq!(read.name, "a) b");
        assert!(read.kernel);
        assert_eq!(parse(9, "9 (short) S 7"), None);
    }

    #[test]
    fn ours_and_the_kernels_do_not_count() {
        let kernel = |own| Process { kernel: true, ..process(2, 0, own, 0) };
        let before = [process(1, 0, 5, 0), kernel(1), process(50, 1, 10, 0), process(51, 50, 0, 0)];
        let after =
            [process(1, 0, 6, 0), kernel(99), process(50, 1, 30, 7), process(51, 50, 80, 0), process(52, 51, 9, 0)];
        assert_eq!(used_by_others(&before, &after, 50), [("p1".to_owned(), 1)]);
    }

    #[test]
    fn children_that_came_and_went_are_found_with_their_parent() {
        let before = [process(1, 0, 0, 100), process(10, 1, 3, 20)];
        let after = [process(1, 0, 0, 100), process(10, 1, 4, 70)];
        assert_eq!(total(&before, &after), 51);
    }

    #[test]
    fn the_long_life_of_one_that_ended_is_not_counted_again() {
        // 4,000 ticks were used before the first reading, 30 after it.
        let before = [process(1, 0, 0, 0), process(10, 1, 5, 0), process(11, 10, 4000, 0)];
        let after = [process(1, 0, 0, 0), process(10, 1, 5, 4030)];
        assert_eq!(total(&before, &after), 30);
        // Its parent ended, too, and an ancestor adopted it.
        let after = [process(1, 0, 0, 4035)];
        assert_eq!(total(&before, &after), 30);
        // No process reaped it.
        let after = [process(1, 0, 0, 0), process(10, 1, 5, 0)];
        assert_eq!(total(&before, &after), 0);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let before = [process(1, 0, 0, 0), process(10, 1, 500, 0)];
        let reborn = Process { start: 999, ..process(10, 1, 8, 0) };
        assert_eq!(total(&before, &[process(1, 0, 0, 500), reborn]), 8);
    }
}
