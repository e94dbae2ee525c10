//! Reduces a trace to a flow (docs/flow.md) with its mixes, which may be published even if names and times may not.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::call::{Call, CallKind, Initial, State, flags};
use crate::format::Totals;

/// Steps of one thread are taken in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ReduceStep {
    Delete,
    Create,
    Open,
    ReadNext,
    ReadRandom,
    WriteNext,
    WriteRandom,
    Sync,
    Close,
    Stat,
    List,
}

/// Counts the properties that a flow needs.
#[derive(Debug, Default)]
pub struct Reduction {
    counts: HashMap<ReduceStep, u64>,
    bytes: HashMap<ReduceStep, u64>,
    places: HashMap<u32, (u64, bool)>,
    files: HashSet<u32>,
    there: HashSet<u32>,
    made: HashSet<u32>,
    there_bytes: u64,
}

impl Reduction {
    /// Counts the files that existed before the first call.
    pub fn initial(&mut self, states: &[Initial]) {
        for initial in states {
            if let State::File { size, .. } = initial.state {
                self.there.insert(initial.name);
                self.files.insert(initial.name);
                self.there_bytes = self.there_bytes.saturating_add(size);
            }
        }
    }

    /// Counts one more call.
    pub fn add(&mut self, call: &Call) {
        if call.result < 0 {
            return;
        }
        let step = match call.kind {
            CallKind::Open if call.flags & (flags::DIRECTORY | flags::PATH) != 0 => return,
            CallKind::Open => {
                self.files.insert(call.name);
                let new = call.flags & flags::CREATE != 0 && !self.there.contains(&call.name);
                let makes = new && self.made.insert(call.name);
                self.places.insert(call.handle, (0, true));
                if makes { ReduceStep::Create } else { ReduceStep::Open }
            }
            CallKind::Close if self.places.remove(&call.handle).is_some() => ReduceStep::Close,
            CallKind::Read | CallKind::ReadAt => self.moved(call, ReduceStep::ReadNext, ReduceStep::ReadRandom),
            CallKind::Write | CallKind::WriteAt => self.moved(call, ReduceStep::WriteNext, ReduceStep::WriteRandom),
            CallKind::Sync | CallKind::DataSync => ReduceStep::Sync,
            CallKind::Unlink => {
                self.made.remove(&call.name);
                self.there.remove(&call.name);
                ReduceStep::Delete
            }
            CallKind::Stat | CallKind::StatName => ReduceStep::Stat,
            CallKind::List => ReduceStep::List,
            _ => return,
        };
        *self.counts.entry(step).or_default() += 1;
        let sum = self.bytes.entry(step).or_default();
        *sum = sum.saturating_add(call.moved());
    }

    fn moved(&mut self, call: &Call, next: ReduceStep, random: ReduceStep) -> ReduceStep {
        let place = self.places.entry(call.handle).or_insert((0, true));
        let goes_on = std::mem::replace(&mut place.0, call.offset.wrapping_add(call.moved())) == call.offset;
        if goes_on { next } else { random }
    }

    fn count(&self, step: ReduceStep) -> u64 {
        self.counts.get(&step).copied().unwrap_or_default()
    }

    fn mean(&self, step: ReduceStep) -> u64 {
        (self.bytes.get(&step).copied().unwrap_or_default() / self.count(step).max(1)).max(1)
    }
}

/// Returns the flow as TOML, with remarks on the parts of the trace that it leaves out.
pub fn reduce(reduction: &Reduction, totals: &Totals) -> String {
    let count = |step: ReduceStep| reduction.count(step);
    let opened = count(ReduceStep::Create) + count(ReduceStep::Open);
    let moved: u64 = [ReduceStep::ReadNext, ReduceStep::ReadRandom, ReduceStep::WriteNext, ReduceStep::WriteRandom]
        .into_iter()
        .map(count)
        .sum();
    // A program that keeps its files open becomes a flow of reads, writes and syncs.
    let holds = opened.saturating_mul(20) < moved;
    let main = [
        ReduceStep::ReadNext,
        ReduceStep::ReadRandom,
        ReduceStep::WriteNext,
        ReduceStep::WriteRandom,
        ReduceStep::Sync,
    ];
    let rarest = main.into_iter().map(count).filter(|count| count * 50 >= moved.max(1)).min().unwrap_or(1);
    let unit = if holds { rarest.max(1) } else { opened.max(1) } as f64;
    let mut left_out = Vec::new();
    let mut times = |step: ReduceStep, what: &str| {
        let ratio = count(step) as f64 / unit;
        if ratio >= 0.5 {
            return ratio.round() as u64;
        }
        if count(step) > 0 {
            left_out.push(format!("{what}: {} in all", count(step)));
        }
        0
    };
    let files = reduction.files.len().max(1) as u64;
    let makes = count(ReduceStep::Create) > 0 && !holds && count(ReduceStep::Create) * 2 >= opened;
    let size = (reduction.there_bytes / (reduction.there.len() as u64).max(1))
        .max(reduction.mean(ReduceStep::WriteNext))
        .max(4096);
    let mut steps = Vec::new();
    let fd = if holds { "set = \"files\"" } else { "fd = 1" };
    let mut step = |times: u64, text: String| {
        if times > 0 {
            let again = if times > 1 { format!(", iterations = {times}") } else { String::new() };
            steps.push(format!("    {{ {text}{again} }},"));
        }
    };
    if makes {
        step(1, "op = \"delete\", set = \"files\"".to_owned());
        step(1, "op = \"create\", set = \"files\", fd = 1".to_owned());
    } else if !holds {
        step(1, "op = \"open\", set = \"files\", fd = 1".to_owned());
    }
    let reads =
        |step: ReduceStep, random: &str| format!("op = \"read\", {fd}, size = \"{}\"{random}", reduction.mean(step));
    // A new file holds no data to read.
    if !makes {
        step(times(ReduceStep::ReadNext, "sequential reads"), reads(ReduceStep::ReadNext, ""));
        step(times(ReduceStep::ReadRandom, "reads at other places"), reads(ReduceStep::ReadRandom, ", random = true"));
    }
    let write = |step: ReduceStep, random: &str| {
        let size = reduction.mean(step);
        if makes && random.is_empty() {
            format!("op = \"append\", fd = 1, size = \"{size}\"")
        } else {
            format!("op = \"write\", {fd}, size = \"{size}\"{random}")
        }
    };
    step(times(ReduceStep::WriteNext, "sequential writes"), write(ReduceStep::WriteNext, ""));
    step(times(ReduceStep::WriteRandom, "writes at other places"), write(ReduceStep::WriteRandom, ", random = true"));
    let syncs = times(ReduceStep::Sync, "syncs");
    step(
        syncs,
        if holds { "op = \"sync-set\", set = \"files\"".to_owned() } else { "op = \"sync\", fd = 1".to_owned() },
    );
    if !holds {
        step(1, "op = \"close\", fd = 1".to_owned());
    }
    step(times(ReduceStep::Stat, "calls for attributes"), "op = \"stat\", set = \"files\"".to_owned());
    step(times(ReduceStep::List, "lists of directories"), "op = \"list\", set = \"files\"".to_owned());
    if steps.is_empty() {
        steps.push("    { op = \"stat\", set = \"files\" },".to_owned());
    }
    let mut out =
        String::from("# Made by 'fsb trace reduce': the mixes of a program, without its names, order and times.\n");
    for what in left_out {
        let _ = writeln!(out, "# Left out because it is rare: {what}.");
    }
    let _ = write!(
        out,
        "name = \"reduced\"\n\n[[fileset]]\nname = \"files\"\nfiles = {}\nsize = \"{size}\"\nwidth = {}\n\
         preallocated = {}\n\n[[thread]]\nname = \"program\"\nthreads = {}\nsteps = [\n{}\n]\n",
        if makes { files.max(2) * 2 } else { files },
        files.clamp(20, 1_000_000),
        if makes { "0.5" } else { "1.0" },
        totals.lanes.clamp(1, 64),
        steps.join("\n")
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_model::flow::Flow;

    fn flow(calls: &[Call]) -> String {
        let mut reduction = Reduction::default();
        calls.iter().for_each(|call| reduction.add(call));
        let text = reduce(&reduction, &Totals { lanes: 2, ..Totals::default() });
        if let Err(error) = Flow::from_toml(&text) {
            panic!("{text}\n{error}");
        }
        text
    }

    fn moved(kind: CallKind, offset: u64) -> Call {
        Call { handle: 1, offset, length: 4096, result: 4096, ..Call::new(kind) }
    }

    #[test]
    fn a_database_keeps_its_files_open() {
        let mut calls = vec![Call { handle: 1, name: 1, flags: flags::READ, ..Call::new(CallKind::Open) }];
        for at in 0..100 {
            calls.extend([
                moved(CallKind::ReadAt, at * 9000),
                moved(CallKind::ReadAt, at * 5000),
                moved(CallKind::WriteAt, at * 77),
            ]);
            calls.push(Call { handle: 1, ..Call::new(CallKind::DataSync) });
        }
        let text = flow(&calls);
        assert!(
            text.contains("op = \"read\", set = \"files\", size = \"4096\", random = true, iterations = 2"),
            "{text}"
        );
        assert!(text.contains("op = \"sync-set\"") && !text.contains("\"open\""), "{text}");
    }

    #[test]
    fn a_mail_server_makes_and_deletes() {
        let mut calls = Vec::new();
        for name in 1..50 {
            calls.push(Call { handle: name, name, flags: flags::CREATE | flags::WRITE, ..Call::new(CallKind::Open) });
            calls.push(Call { handle: name, ..moved(CallKind::Write, 0) });
            calls.push(Call { handle: name, ..Call::new(CallKind::Sync) });
            calls.push(Call { handle: name, ..Call::new(CallKind::Close) });
            calls.push(Call { name, ..Call::new(CallKind::Unlink) });
        }
        let text = flow(&calls);
        for step in ["delete", "create", "append", "sync", "close"] {
            assert!(text.contains(&format!("op = \"{step}\"")), "{step}: {text}");
        }
        assert!(text.contains("threads = 2"));
    }
}
