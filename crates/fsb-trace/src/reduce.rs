//! Reduces a trace to a flow (docs/flow.md) with its mixes, which may be published even if names and times may not.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::call::{Call, CallKind, Initial, State, flags};
use crate::durable::DurableDescriptors;
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
    /// A write that is durable when it returns.
    DurableNext,
    DurableRandom,
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
    places: HashMap<u32, u64>,
    durable: DurableDescriptors,
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
        let is_durable = self.durable.add(call);
        let step = match call.kind {
            CallKind::Open if call.flags & (flags::DIRECTORY | flags::PATH) != 0 => return,
            CallKind::Open => {
                self.files.insert(call.name);
                let new = call.flags & flags::CREATE != 0 && !self.there.contains(&call.name);
                let makes = new && self.made.insert(call.name);
                self.places.insert(call.handle, 0);
                if makes { ReduceStep::Create } else { ReduceStep::Open }
            }
            CallKind::Close if self.places.remove(&call.handle).is_some() => ReduceStep::Close,
            CallKind::Read | CallKind::ReadAt => self.read(call.handle, call.offset, call.moved()),
            CallKind::Write | CallKind::WriteAt => self.write(call.handle, call.offset, call.moved(), is_durable),
            CallKind::Copy if call.clones() || call.moved() == 0 => return,
            // A flow has no copies: the program reads one file and writes the other.
            CallKind::Copy => {
                let read = self.read(call.handle, call.offset, call.moved());
                self.count_step(read, call.moved());
                self.write(call.other, call.target, call.moved(), is_durable)
            }
            CallKind::SyncMapping if call.flags & flags::WAIT == 0 => return,
            CallKind::Sync | CallKind::DataSync | CallKind::SyncMapping => ReduceStep::Sync,
            CallKind::Unlink => {
                self.made.remove(&call.name);
                self.there.remove(&call.name);
                ReduceStep::Delete
            }
            CallKind::Stat | CallKind::StatName => ReduceStep::Stat,
            CallKind::List => ReduceStep::List,
            _ => return,
        };
        self.count_step(step, call.moved());
    }

    fn count_step(&mut self, step: ReduceStep, bytes: u64) {
        *self.counts.entry(step).or_default() += 1;
        let sum = self.bytes.entry(step).or_default();
        *sum = sum.saturating_add(bytes);
    }

    fn read(&mut self, handle: u32, offset: u64, bytes: u64) -> ReduceStep {
        if self.goes_on(handle, offset, bytes) { ReduceStep::ReadNext } else { ReduceStep::ReadRandom }
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: u64, is_durable: bool) -> ReduceStep {
        match (self.goes_on(handle, offset, bytes), is_durable) {
            (true, false) => ReduceStep::WriteNext,
            (false, false) => ReduceStep::WriteRandom,
            (true, true) => ReduceStep::DurableNext,
            (false, true) => ReduceStep::DurableRandom,
        }
    }

    /// Returns whether a call begins where the last one on its descriptor ended.
    fn goes_on(&mut self, handle: u32, offset: u64, bytes: u64) -> bool {
        std::mem::replace(self.places.entry(handle).or_default(), offset.wrapping_add(bytes)) == offset
    }

    fn count(&self, step: ReduceStep) -> u64 {
        self.counts.get(&step).copied().unwrap_or_default()
    }

    fn mean(&self, step: ReduceStep) -> u64 {
        (self.bytes.get(&step).copied().unwrap_or_default() / self.count(step).max(1)).max(1)
    }
}

/// The steps that move data, with their names in remarks, and the keys of a flow's step.
const MOVES: [(ReduceStep, &str, &str); 6] = [
    (ReduceStep::ReadNext, "sequential reads", ""),
    (ReduceStep::ReadRandom, "reads at other places", ", random = true"),
    (ReduceStep::WriteNext, "sequential writes", ""),
    (ReduceStep::WriteRandom, "writes at other places", ", random = true"),
    (ReduceStep::DurableNext, "sequential durable writes", ", dsync = true"),
    (ReduceStep::DurableRandom, "durable writes at other places", ", random = true, dsync = true"),
];

/// The mixes of a program, as the steps of one thread.
struct Mix<'r> {
    reduction: &'r Reduction,
    /// The program keeps its files open, so the flow consists of reads, writes and syncs.
    holds: bool,
    /// The program creates most files that it opens.
    makes: bool,
    /// The number of times that the program made the steps of the flow.
    unit: f64,
    steps: Vec<String>,
    left_out: Vec<String>,
}

impl Mix<'_> {
    fn new(reduction: &Reduction) -> Mix<'_> {
        let count = |step: ReduceStep| reduction.count(step);
        let created = count(ReduceStep::Create);
        let opened = created + count(ReduceStep::Open);
        let moves = MOVES.map(|(step, ..)| count(step));
        let moved: u64 = moves.iter().sum();
        let holds = opened.saturating_mul(20) < moved;
        let main = moves.into_iter().chain([count(ReduceStep::Sync)]);
        let rarest = main.filter(|count| count * 50 >= moved.max(1)).min().unwrap_or(1);
        let unit = if holds { rarest.max(1) } else { opened.max(1) } as f64;
        let makes = created > 0 && !holds && created * 2 >= opened;
        Mix { reduction, holds, makes, unit, steps: Vec::new(), left_out: Vec::new() }
    }

    fn step(&mut self, times: u64, text: &str) {
        if times > 0 {
            let again = if times > 1 { format!(", iterations = {times}") } else { String::new() };
            self.steps.push(format!("    {{ {text}{again} }},"));
        }
    }

    /// Adds a step as often as the program made it, or a remark that it is rare.
    fn step_of(&mut self, step: ReduceStep, what: &str, text: &str) {
        let count = self.reduction.count(step);
        let ratio = count as f64 / self.unit;
        if ratio >= 0.5 {
            self.step(ratio.round() as u64, text);
        } else if count > 0 {
            self.left_out.push(format!("{what}: {count} in all"));
        }
    }

    /// Adds the step that opens a file.
    fn begin(&mut self) {
        let is_durable = [ReduceStep::DurableNext, ReduceStep::DurableRandom];
        let is_durable = is_durable.iter().any(|step| self.reduction.count(*step) as f64 >= self.unit * 0.5);
        let durable = if is_durable { ", dsync = true" } else { "" };
        if self.makes {
            self.step(1, "op = \"delete\", set = \"files\"");
            self.step(1, &format!("op = \"create\", set = \"files\", fd = 1{durable}"));
        } else if !self.holds {
            self.step(1, &format!("op = \"open\", set = \"files\", fd = 1{durable}"));
        }
    }

    fn all(&mut self) {
        self.begin();
        let fd = if self.holds { "set = \"files\"" } else { "fd = 1" };
        for (step, what, keys) in MOVES {
            let size = self.reduction.mean(step);
            let reads = matches!(step, ReduceStep::ReadNext | ReduceStep::ReadRandom);
            let next = matches!(step, ReduceStep::WriteNext | ReduceStep::DurableNext);
            match (reads, self.makes) {
                // A new file holds no data to read.
                (true, true) => {}
                (true, false) => self.step_of(step, what, &format!("op = \"read\", {fd}, size = \"{size}\"{keys}")),
                (false, true) if next => {
                    self.step_of(step, what, &format!("op = \"append\", fd = 1, size = \"{size}\""))
                }
                (false, _) => self.step_of(step, what, &format!("op = \"write\", {fd}, size = \"{size}\"{keys}")),
            }
        }
        let sync = if self.holds { "op = \"sync-set\", set = \"files\"" } else { "op = \"sync\", fd = 1" };
        self.step_of(ReduceStep::Sync, "syncs", sync);
        if !self.holds {
            self.step(1, "op = \"close\", fd = 1");
        }
        self.step_of(ReduceStep::Stat, "calls for attributes", "op = \"stat\", set = \"files\"");
        self.step_of(ReduceStep::List, "lists of directories", "op = \"list\", set = \"files\"");
        if self.steps.is_empty() {
            self.steps.push("    { op = \"stat\", set = \"files\" },".to_owned());
        }
    }
}

/// Returns the flow as TOML, with remarks on the parts of the trace that it leaves out.
pub fn reduce(reduction: &Reduction, totals: &Totals) -> String {
    let mut mix = Mix::new(reduction);
    mix.all();
    let files = reduction.files.len().max(1) as u64;
    let size = (reduction.there_bytes / (reduction.there.len() as u64).max(1))
        .max(reduction.mean(ReduceStep::WriteNext))
        .max(4096);
    let mut out =
        String::from("# Made by 'fsb trace reduce': the mixes of a program, without its names, order and times.\n");
    for what in mix.left_out {
        let _ = writeln!(out, "# Left out because it is rare: {what}.");
    }
    let _ = write!(
        out,
        "name = \"reduced\"\n\n[[fileset]]\nname = \"files\"\nfiles = {}\nsize = \"{size}\"\nwidth = {}\n\
         preallocated = {}\n\n[[thread]]\nname = \"program\"\nthreads = {}\nsteps = [\n{}\n]\n",
        if mix.makes { files.max(2) * 2 } else { files },
        files.clamp(20, 1_000_000),
        if mix.makes { "0.5" } else { "1.0" },
        totals.lanes.clamp(1, 64),
        mix.steps.join("\n")
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
    fn durable_writes_stay_durable() {
        let mut calls =
            vec![Call { handle: 1, name: 1, flags: flags::WRITE | flags::DATA_SYNC, ..Call::new(CallKind::Open) }];
        calls.extend((0..100).map(|at| moved(CallKind::WriteAt, at * 9000)));
        let text = flow(&calls);
        assert!(
            text.contains("op = \"write\", set = \"files\", size = \"4096\", random = true, dsync = true"),
            "{text}"
        );
        // RWF_DSYNC makes single writes durable.
        let write = |flags: u32, offset: u64| Call { flags, ..moved(CallKind::WriteAt, offset) };
        let mut calls = vec![Call { handle: 1, name: 1, flags: flags::WRITE, ..Call::new(CallKind::Open) }];
        calls.extend((0..100).flat_map(|at| [write(0, at * 9000), write(flags::DATA_SYNC, at * 7000)]));
        let text = flow(&calls);
        assert!(text.contains("random = true },") && text.contains("random = true, dsync = true },"), "{text}");
        let create = flags::CREATE | flags::WRITE | flags::SYNC;
        let files = (1..50).flat_map(|name| {
            [
                Call { handle: name, name, flags: create, ..Call::new(CallKind::Open) },
                Call { handle: name, ..moved(CallKind::Write, 0) },
                Call { handle: name, ..Call::new(CallKind::Close) },
            ]
        });
        let text = flow(&files.collect::<Vec<_>>());
        assert!(text.contains("op = \"create\", set = \"files\", fd = 1, dsync = true"), "{text}");
    }

    #[test]
    fn copies_become_reads_and_writes() {
        let mut calls = vec![
            Call { handle: 1, name: 1, flags: flags::READ, ..Call::new(CallKind::Open) },
            Call { handle: 2, name: 2, flags: flags::WRITE, ..Call::new(CallKind::Open) },
        ];
        let copy = Call { other: 2, ..moved(CallKind::Copy, 0) };
        calls.extend((0..100).map(|at| Call { offset: at * 4096, target: at * 4096, ..copy }));
        let text = flow(&calls);
        for step in ["read", "write"] {
            assert!(text.contains(&format!("op = \"{step}\", set = \"files\", size = \"4096\"")), "{step}: {text}");
        }
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
