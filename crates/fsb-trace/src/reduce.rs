//! Reduces a trace to a flow (docs/flow.md) with its mixes, which may be published even if names
//! and times may not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use crate::call::{Call, CallKind, Initial, State, flags};
use crate::durable::{WriteFlags, WriteMode};
use crate::format::Totals;

/// Steps of one thread are taken in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ReduceStep {
    Delete,
    Create,
    Open,
    /// An open with O_DSYNC or O_SYNC that makes the file.
    DurableCreate,
    DurableOpen,
    ReadNext,
    ReadRandom,
    WriteNext,
    WriteRandom,
    /// A write that is durable when it returns.
    DurableNext,
    DurableRandom,
    Sync,
    Stat,
    List,
}

/// Counts the properties that a flow needs.
#[derive(Debug, Default)]
pub struct Reduction {
    counts: HashMap<ReduceStep, u64>,
    bytes: HashMap<ReduceStep, u64>,
    places: HashMap<u32, u64>,
    write_flags: WriteFlags,
    /// The names of open descriptors.
    open: HashMap<u32, u32>,
    files: HashSet<u32>,
    there: HashSet<u32>,
    made: HashSet<u32>,
    /// The furthest byte of each file.
    ends: HashMap<u32, u64>,
    /// The calls that no step of a flow can stand for, by name.
    dropped: BTreeMap<&'static str, u64>,
}

impl Reduction {
    /// Counts the files that existed before the first call.
    pub fn initial(&mut self, states: &[Initial]) {
        for initial in states {
            if let State::File { size, .. } = initial.state {
                self.there.insert(initial.name);
                self.files.insert(initial.name);
                self.ends.insert(initial.name, size);
            }
        }
    }

    /// Counts one more call.
    pub fn add(&mut self, call: &Call) {
        if call.result < 0 {
            return;
        }
        let mode = self.write_flags.add(call);
        let step = match call.kind {
            CallKind::Open if call.flags & (flags::DIRECTORY | flags::PATH) != 0 => {
                return self.drop_call("open of a directory");
            }
            CallKind::Open => self.opens(call),
            CallKind::Duplicate => {
                if let Some(name) = self.open.get(&call.other).copied() {
                    self.open.insert(call.handle, name);
                }
                return;
            }
            CallKind::Close => {
                self.places.remove(&call.handle);
                self.open.remove(&call.handle);
                return;
            }
            CallKind::Read | CallKind::ReadAt => self.read(call.handle, call.offset, call.moved()),
            CallKind::Write | CallKind::WriteAt => {
                self.write(call.handle, call.offset, call.moved(), mode)
            }
            CallKind::Copy if call.clones() => return self.drop_call(call.name()),
            CallKind::Copy if call.moved() == 0 => return,
            // A flow has no copies: the program reads one file and writes the other.
            CallKind::Copy => {
                let read = self.read(call.handle, call.offset, call.moved());
                self.count_step(read, call.moved());
                self.write(call.other, call.target, call.moved(), mode)
            }
            CallKind::SyncMapping if call.flags & flags::WAIT == 0 => {
                return self.drop_call(call.name());
            }
            CallKind::Sync | CallKind::DataSync | CallKind::SyncMapping => ReduceStep::Sync,
            CallKind::Unlink => {
                self.made.remove(&call.name);
                self.there.remove(&call.name);
                ReduceStep::Delete
            }
            CallKind::Stat | CallKind::StatName => ReduceStep::Stat,
            CallKind::List => ReduceStep::List,
            // The places of the reads and writes contain it.
            CallKind::Seek => return,
            kind if !kind.is_replayed() => return,
            _ => return self.drop_call(call.name()),
        };
        self.count_step(step, call.moved());
    }

    fn opens(&mut self, call: &Call) -> ReduceStep {
        self.files.insert(call.name);
        self.open.insert(call.handle, call.name);
        self.places.insert(call.handle, 0);
        let is_new = call.flags & flags::CREATE != 0 && !self.there.contains(&call.name);
        let makes = is_new && self.made.insert(call.name);
        match (makes, self.write_flags.is_durable(call.handle)) {
            (true, false) => ReduceStep::Create,
            (true, true) => ReduceStep::DurableCreate,
            (false, false) => ReduceStep::Open,
            (false, true) => ReduceStep::DurableOpen,
        }
    }

    fn drop_call(&mut self, name: &'static str) {
        *self.dropped.entry(name).or_default() += 1;
    }

    fn count_step(&mut self, step: ReduceStep, bytes: u64) {
        *self.counts.entry(step).or_default() += 1;
        let sum = self.bytes.entry(step).or_default();
        *sum = sum.saturating_add(bytes);
    }

    fn read(&mut self, handle: u32, offset: u64, bytes: u64) -> ReduceStep {
        if self.goes_on(handle, offset, bytes) {
            ReduceStep::ReadNext
        } else {
            ReduceStep::ReadRandom
        }
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: u64, mode: WriteMode) -> ReduceStep {
        // The offset of a write to the end of the file is not recorded.
        let end = self
            .open
            .get(&handle)
            .and_then(|name| self.ends.get(name))
            .copied()
            .unwrap_or_default();
        let offset = if mode.appends { end } else { offset };
        match (
            self.goes_on(handle, offset, bytes) || mode.appends,
            mode.is_durable,
        ) {
            (true, false) => ReduceStep::WriteNext,
            (false, false) => ReduceStep::WriteRandom,
            (true, true) => ReduceStep::DurableNext,
            (false, true) => ReduceStep::DurableRandom,
        }
    }

    /// Returns whether a call begins where the last one on its descriptor ended.
    fn goes_on(&mut self, handle: u32, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes);
        if let Some(name) = self.open.get(&handle) {
            let furthest = self.ends.entry(*name).or_default();
            *furthest = end.max(*furthest);
        }
        std::mem::replace(self.places.entry(handle).or_default(), end) == offset
    }

    fn count(&self, step: ReduceStep) -> u64 {
        self.counts.get(&step).copied().unwrap_or_default()
    }

    fn mean(&self, step: ReduceStep) -> u64 {
        (self.bytes.get(&step).copied().unwrap_or_default() / self.count(step).max(1)).max(1)
    }

    /// Returns the mean size of the files that hold data. The size of a file is its furthest byte.
    fn file_size(&self) -> u64 {
        /// The largest file of a flow.
        const LARGEST: u128 = 1 << 44;
        let sizes = self.ends.values().filter(|size| **size > 0);
        let (count, sum) = sizes.fold((0, 0), |(count, sum), size| {
            (count + 1, sum + u128::from(*size))
        });
        (sum / count.max(1)).min(LARGEST) as u64
    }
}

/// A kind of step that moves data, with its name in remarks, and the keys of a flow's step.
type Move = (ReduceStep, &'static str, &'static str);

const READS: [Move; 2] = [
    (ReduceStep::ReadNext, "sequential reads", ""),
    (
        ReduceStep::ReadRandom,
        "reads at other places",
        ", random = true",
    ),
];
const PLAIN_WRITES: [Move; 2] = [
    (ReduceStep::WriteNext, "sequential writes", ""),
    (
        ReduceStep::WriteRandom,
        "writes at other places",
        ", random = true",
    ),
];
const DURABLE_WRITES: [Move; 2] = [
    (
        ReduceStep::DurableNext,
        "sequential durable writes",
        ", dsync = true",
    ),
    (
        ReduceStep::DurableRandom,
        "durable writes at other places",
        ", random = true, dsync = true",
    ),
];

/// Files that the program opens in one way.
struct Opens {
    /// The opens, and those of them that make the file.
    opened: u64,
    created: u64,
    is_durable: bool,
}

impl Opens {
    /// Returns whether the program creates most of the files.
    fn makes(&self) -> bool {
        self.created > 0 && self.created * 2 >= self.opened
    }
}

/// The mixes of a program, as the steps of one thread.
struct Mix<'r> {
    reduction: &'r Reduction,
    /// The program creates most files that it opens in one of the ways.
    makes: bool,
    /// The number of times that the program made the steps of the flow.
    unit: f64,
    steps: Vec<String>,
    rare: Vec<String>,
    dropped: Vec<String>,
}

impl Mix<'_> {
    fn new(reduction: &Reduction) -> Mix<'_> {
        let dropped = reduction
            .dropped
            .iter()
            .map(|(name, count)| format!("{name}: {count} in all"));
        Mix {
            reduction,
            makes: false,
            unit: 1.0,
            steps: Vec::new(),
            rare: Vec::new(),
            dropped: dropped.collect(),
        }
    }

    fn count(&self, steps: &[Move]) -> u64 {
        steps
            .iter()
            .map(|(step, ..)| self.reduction.count(*step))
            .sum()
    }

    fn step(&mut self, times: u64, text: &str) {
        if times > 0 {
            let again = if times > 1 {
                format!(", iterations = {times}")
            } else {
                String::new()
            };
            self.steps.push(format!("    {{ {text}{again} }},"));
        }
    }

    /// Adds a step as often as the program made it, or a remark that it is rare.
    fn step_of(&mut self, step: ReduceStep, unit: f64, what: &str, text: &str) {
        let count = self.reduction.count(step);
        let ratio = count as f64 / unit;
        if ratio >= 0.5 {
            self.step(ratio.round() as u64, text);
        } else if count > 0 {
            self.rare.push(format!("{what}: {count} in all"));
        }
    }

    fn drop_step(&mut self, step: ReduceStep, what: &str) {
        if let count @ 1.. = self.reduction.count(step) {
            self.dropped.push(format!("{what}: {count} in all"));
        }
    }

    fn all(&mut self) {
        let [plain, durable] = self.ways();
        let moved = self.count(&READS) + self.count(&PLAIN_WRITES) + self.count(&DURABLE_WRITES);
        if (plain.opened + durable.opened).saturating_mul(20) < moved {
            self.held(moved);
        } else {
            self.opened([plain, durable]);
        }
        let unit = self.unit;
        self.step_of(
            ReduceStep::Stat,
            unit,
            "calls for attributes",
            "op = \"stat\", set = \"files\"",
        );
        self.step_of(
            ReduceStep::List,
            unit,
            "lists of directories",
            "op = \"list\", set = \"files\"",
        );
        if self.steps.is_empty() {
            self.steps
                .push("    { op = \"stat\", set = \"files\" },".to_owned());
        }
    }

    /// Returns the opens whose writes are not durable, and those whose writes are.
    fn ways(&self) -> [Opens; 2] {
        let way = |open: ReduceStep, create: ReduceStep, is_durable: bool| {
            let created = self.reduction.count(create);
            Opens {
                opened: created + self.reduction.count(open),
                created,
                is_durable,
            }
        };
        let mut plain = way(ReduceStep::Open, ReduceStep::Create, false);
        let mut durable = way(ReduceStep::DurableOpen, ReduceStep::DurableCreate, true);
        if self.count(&DURABLE_WRITES) > 0 && self.count(&PLAIN_WRITES) == 0 && durable.opened == 0
        {
            // RWF_DSYNC makes every write durable.
            (durable, plain) = (
                Opens {
                    is_durable: true,
                    ..plain
                },
                Opens {
                    opened: 0,
                    created: 0,
                    is_durable: false,
                },
            );
        }
        [plain, durable]
    }

    /// Adds the steps of a program that keeps its files open: reads, writes and syncs.
    fn held(&mut self, moved: u64) {
        let all = READS.iter().chain(&PLAIN_WRITES).chain(&DURABLE_WRITES);
        let main = all
            .map(|(step, ..)| *step)
            .chain([ReduceStep::Sync])
            .map(|step| self.reduction.count(step));
        let rarest = main
            .filter(|count| count.saturating_mul(50) >= moved.max(1))
            .min()
            .unwrap_or(1);
        self.unit = rarest.max(1) as f64;
        // dsync is a flag of the open: with writes of both kinds the durable ones have a descriptor
        // of their own.
        let own = if self.count(&PLAIN_WRITES) > 0 {
            ", fd = 1"
        } else {
            ""
        };
        self.moves("read", &READS, self.unit, "set = \"files\"");
        self.moves("write", &PLAIN_WRITES, self.unit, "set = \"files\"");
        self.moves(
            "write",
            &DURABLE_WRITES,
            self.unit,
            &format!("set = \"files\"{own}"),
        );
        self.step_of(
            ReduceStep::Sync,
            self.unit,
            "syncs",
            "op = \"sync-set\", set = \"files\"",
        );
        for (step, what) in [
            (ReduceStep::Open, "opens"),
            (ReduceStep::Create, "opens that create a file"),
            (ReduceStep::DurableOpen, "opens with O_DSYNC or O_SYNC"),
            (
                ReduceStep::DurableCreate,
                "opens with O_DSYNC or O_SYNC that create a file",
            ),
            (ReduceStep::Delete, "deletes"),
        ] {
            self.drop_step(step, what);
        }
    }

    fn moves(&mut self, op: &str, steps: &[Move], unit: f64, fd: &str) {
        for (step, what, keys) in steps {
            let size = self.reduction.mean(*step);
            self.step_of(
                *step,
                unit,
                what,
                &format!("op = \"{op}\", {fd}, size = \"{size}\"{keys}"),
            );
        }
    }

    /// Adds the steps of a program that opens and closes its files, for each way of opening them.
    fn opened(&mut self, ways: [Opens; 2]) {
        /// More opens of one way for each of the other are not repeated in a flow.
        const MOST: u64 = 16;
        let opened: u64 = ways.iter().map(|way| way.opened).sum();
        let used = ways
            .iter()
            .map(|way| way.opened)
            .filter(|count| *count > 0 && count * MOST >= opened);
        let unit = used.min().unwrap_or(1);
        self.unit = unit as f64;
        self.makes = ways.iter().any(Opens::makes);
        let mut has_reads = false;
        for way in ways {
            let writes = if way.is_durable {
                &DURABLE_WRITES
            } else {
                &PLAIN_WRITES
            };
            let repeats = (way.opened as f64 / self.unit).round() as u64;
            if repeats == 0 && (!way.is_durable || way.opened > 0 || self.count(writes) == 0) {
                if way.opened > 0 {
                    let how = if way.is_durable { "with" } else { "without" };
                    self.rare.push(format!(
                        "opens {how} O_DSYNC or O_SYNC: {} in all",
                        way.opened
                    ));
                    writes
                        .iter()
                        .for_each(|(step, what, _)| self.drop_step(*step, what));
                }
                continue;
            }
            // Without opens of their own, the durable writes are those with RWF_DSYNC.
            let unit = if repeats == 0 {
                self.unit
            } else {
                way.opened as f64
            };
            let (begin, rare) = (self.steps.len(), self.rare.len());
            self.group(&way, writes, unit, !has_reads);
            has_reads = true;
            if repeats == 0 && self.steps.len() == begin + 2 {
                self.steps.truncate(begin);
            }
            let (group, remarks) = (self.steps[begin..].to_vec(), self.rare[rare..].to_vec());
            (1..repeats).for_each(|_| self.steps.extend_from_slice(&group));
            self.rare.truncate(rare);
            self.rare.extend(remarks);
        }
        if !self.makes {
            self.drop_step(ReduceStep::Delete, "deletes");
        }
    }

    /// Adds the steps from the open of a file to its close.
    fn group(&mut self, way: &Opens, writes: &[Move; 2], unit: f64, has_reads: bool) {
        let durable = if way.is_durable { ", dsync = true" } else { "" };
        let makes = way.makes();
        if makes {
            self.step(1, "op = \"delete\", set = \"files\"");
            self.step(
                1,
                &format!("op = \"create\", set = \"files\", fd = 1{durable}"),
            );
        } else {
            self.step(
                1,
                &format!("op = \"open\", set = \"files\", fd = 1{durable}"),
            );
        }
        match (has_reads, makes) {
            (true, false) => self.moves("read", &READS, unit, "fd = 1"),
            // A new file holds no data to read.
            (true, true) => READS
                .iter()
                .for_each(|(step, what, _)| self.drop_step(*step, what)),
            (false, _) => {}
        }
        let [(next, what, _), other] = writes;
        if makes {
            let size = self.reduction.mean(*next);
            self.step_of(
                *next,
                unit,
                what,
                &format!("op = \"append\", fd = 1, size = \"{size}\""),
            );
        } else {
            self.moves("write", &writes[..1], unit, "fd = 1");
        }
        self.moves("write", std::slice::from_ref(other), unit, "fd = 1");
        if has_reads {
            self.step_of(ReduceStep::Sync, unit, "syncs", "op = \"sync\", fd = 1");
        }
        self.step(1, "op = \"close\", fd = 1");
    }
}

/// Returns the flow as TOML, with remarks on the parts of the trace that it leaves out.
pub fn reduce(reduction: &Reduction, totals: &Totals) -> String {
    let mut mix = Mix::new(reduction);
    mix.all();
    let files = reduction.files.len().max(1) as u64;
    let size = reduction.file_size().max(4096);
    let mut out = String::from(
        "# Made by 'fsb trace reduce': the mixes of a program, without its names, order and times.\n",
    );
    for what in mix.rare {
        let _ = writeln!(out, "# Left out because it is rare: {what}.");
    }
    for what in mix.dropped {
        let _ = writeln!(out, "# Left out: {what}.");
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
        let text = reduce(
            &reduction,
            &Totals {
                lanes: 2,
                ..Totals::default()
            },
        );
        if let Err(error) = Flow::from_toml(&text) {
            panic!("{text}\n{error}");
        }
        text
    }

    fn moved(kind: CallKind, offset: u64) -> Call {
        Call {
            handle: 1,
            offset,
            length: 4096,
            result: 4096,
            ..Call::new(kind)
        }
    }

    #[test]
    fn a_database_keeps_its_files_open() {
        let mut calls = vec![Call {
            handle: 1,
            name: 1,
            flags: flags::READ,
            ..Call::new(CallKind::Open)
        }];
        for at in 0..100 {
            calls.extend([
                moved(CallKind::ReadAt, at * 9000),
                moved(CallKind::ReadAt, at * 5000),
                moved(CallKind::WriteAt, at * 77),
            ]);
            calls.push(Call {
                handle: 1,
                ..Call::new(CallKind::DataSync)
            });
        }
        let text = flow(&calls);
        assert!(
            text.contains(
                "op = \"read\", set = \"files\", size = \"4096\", random = true, iterations = 2"
            ),
            "{text}"
        );
        assert!(
            text.contains("op = \"sync-set\"") && !text.contains("\"open\""),
            "{text}"
        );
    }

    #[test]
    fn durable_writes_stay_durable() {
        let mut calls = vec![Call {
            handle: 1,
            name: 1,
            flags: flags::WRITE | flags::DATA_SYNC,
            ..Call::new(CallKind::Open)
        }];
        calls.extend((0..100).map(|at| moved(CallKind::WriteAt, at * 9000)));
        let text = flow(&calls);
        assert!(
            text.contains(
                "op = \"write\", set = \"files\", size = \"4096\", random = true, dsync = true"
            ),
            "{text}"
        );
        // RWF_DSYNC makes single writes durable.
        let write = |flags: u32, offset: u64| Call {
            flags,
            ..moved(CallKind::WriteAt, offset)
        };
        let mut calls = vec![Call {
            handle: 1,
            name: 1,
            flags: flags::WRITE,
            ..Call::new(CallKind::Open)
        }];
        calls.extend(
            (0..100).flat_map(|at| [write(0, at * 9000), write(flags::DATA_SYNC, at * 7000)]),
        );
        let text = flow(&calls);
        assert!(
            text.contains("random = true },") && text.contains("random = true, dsync = true },"),
            "{text}"
        );
        let create = flags::CREATE | flags::WRITE | flags::SYNC;
        let files = (1..50).flat_map(|name| {
            [
                Call {
                    handle: name,
                    name,
                    flags: create,
                    ..Call::new(CallKind::Open)
                },
                Call {
                    handle: name,
                    ..moved(CallKind::Write, 0)
                },
                Call {
                    handle: name,
                    ..Call::new(CallKind::Close)
                },
            ]
        });
        let text = flow(&files.collect::<Vec<_>>());
        assert!(
            text.contains("op = \"create\", set = \"files\", fd = 1, dsync = true"),
            "{text}"
        );
    }

    fn opened(handle: u32, flags: u32) -> Call {
        Call {
            handle,
            name: handle,
            flags,
            ..Call::new(CallKind::Open)
        }
    }

    fn is_durable_each(text: &str) -> bool {
        Flow::from_toml(text).unwrap().is_durable_each()
    }

    #[test]
    fn durable_writes_of_open_files_have_a_descriptor_of_their_own() {
        let mut calls = vec![
            opened(1, flags::WRITE),
            opened(2, flags::WRITE | flags::DATA_SYNC),
        ];
        calls.extend((0..100).flat_map(|at| {
            [1, 2].map(|handle| Call {
                handle,
                ..moved(CallKind::WriteAt, at * 9000)
            })
        }));
        let text = flow(&calls);
        assert!(
            text.contains("op = \"write\", set = \"files\", size = \"4096\", random = true },"),
            "{text}"
        );
        let durable = "op = \"write\", set = \"files\", fd = 1, size = \"4096\", random = true, dsync = true },";
        assert!(text.contains(durable) && !is_durable_each(&text), "{text}");
        assert!(text.contains("# Left out: opens: 1 in all."), "{text}");
    }

    #[test]
    fn durable_and_plain_opens_are_separate() {
        let mut calls = Vec::new();
        for at in 1..=90 {
            let durable = if at % 9 == 0 { flags::DATA_SYNC } else { 0 };
            calls.push(opened(at, flags::WRITE | durable));
            calls.push(Call {
                handle: at,
                ..moved(CallKind::Write, 0)
            });
            calls.push(Call {
                handle: at,
                ..Call::new(CallKind::Close)
            });
        }
        let text = flow(&calls);
        assert_eq!(
            text.matches("op = \"open\", set = \"files\", fd = 1 }")
                .count(),
            8,
            "{text}"
        );
        assert_eq!(
            text.matches("op = \"open\", set = \"files\", fd = 1, dsync = true }")
                .count(),
            1,
            "{text}"
        );
        assert!(!is_durable_each(&text), "{text}");
    }

    /// RWF_DSYNC of some writes does not make the others durable.
    #[test]
    fn single_durable_writes_leave_the_others() {
        let write = |at: u32, flags: u32, offset: u64| Call {
            handle: at,
            flags,
            ..moved(CallKind::WriteAt, offset)
        };
        let calls = |other: u32| {
            let calls = (1..=20).flat_map(move |at| {
                [
                    opened(at, flags::WRITE),
                    write(at, flags::DATA_SYNC, 9000),
                    write(at, other, 70),
                ]
            });
            calls.collect::<Vec<_>>()
        };
        let text = flow(&calls(0));
        assert!(
            text.contains("fd = 1, size = \"4096\", random = true },"),
            "{text}"
        );
        assert!(
            text.contains("fd = 1, size = \"4096\", random = true, dsync = true },"),
            "{text}"
        );
        assert!(!is_durable_each(&text), "{text}");
        assert!(is_durable_each(&flow(&calls(flags::SYNC))));
    }

    #[test]
    fn calls_without_a_step_are_named() {
        let mut calls = vec![
            opened(1, flags::WRITE | flags::CREATE),
            moved(CallKind::Read, 0),
            moved(CallKind::Write, 4096),
        ];
        let kinds = [
            (CallKind::SyncRange, "sync_file_range"),
            (CallKind::SyncFileSystem, "syncfs"),
            (CallKind::Rename, "rename"),
            (CallKind::Link, "link"),
            (CallKind::MakeDirectory, "mkdir"),
            (CallKind::Truncate, "ftruncate"),
            (CallKind::SetAttribute, "fsetxattr"),
        ];
        calls.extend(kinds.iter().map(|(kind, _)| Call {
            handle: 1,
            name: 1,
            ..Call::new(*kind)
        }));
        calls.push(Call {
            handle: 1,
            other: 2,
            flags: flags::CLONE,
            ..Call::new(CallKind::Copy)
        });
        let text = flow(&calls);
        for name in kinds
            .iter()
            .map(|(_, name)| *name)
            .chain(["FICLONE", "sequential reads"])
        {
            assert!(
                text.contains(&format!("# Left out: {name}: 1 in all.\n")),
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn files_have_the_size_of_their_furthest_byte() {
        let calls: Vec<_> = std::iter::once(opened(1, flags::WRITE | flags::CREATE))
            .chain((0..100).map(|at| moved(CallKind::Write, at * 4096)))
            .collect();
        assert!(
            flow(&calls).contains("size = \"409600\"\nwidth"),
            "{}",
            flow(&calls)
        );
    }

    #[test]
    fn writes_to_the_end_of_a_file_are_sequential() {
        let append = Call {
            flags: flags::APPEND,
            ..moved(CallKind::Write, 0)
        };
        for (open, write) in [(0, append), (flags::APPEND, moved(CallKind::Write, 0))] {
            let calls: Vec<_> = std::iter::once(opened(1, flags::WRITE | open))
                .chain([write; 50])
                .collect();
            let text = flow(&calls);
            assert!(
                !text.contains("random") && text.contains("size = \"204800\"\nwidth"),
                "{text}"
            );
        }
    }

    #[test]
    fn copies_become_reads_and_writes() {
        let mut calls = vec![
            Call {
                handle: 1,
                name: 1,
                flags: flags::READ,
                ..Call::new(CallKind::Open)
            },
            Call {
                handle: 2,
                name: 2,
                flags: flags::WRITE,
                ..Call::new(CallKind::Open)
            },
        ];
        let copy = Call {
            other: 2,
            ..moved(CallKind::Copy, 0)
        };
        calls.extend((0..100).map(|at| Call {
            offset: at * 4096,
            target: at * 4096,
            ..copy
        }));
        let text = flow(&calls);
        for step in ["read", "write"] {
            assert!(
                text.contains(&format!(
                    "op = \"{step}\", set = \"files\", size = \"4096\""
                )),
                "{step}: {text}"
            );
        }
    }

    #[test]
    fn a_mail_server_makes_and_deletes() {
        let mut calls = Vec::new();
        for name in 1..50 {
            calls.push(Call {
                handle: name,
                name,
                flags: flags::CREATE | flags::WRITE,
                ..Call::new(CallKind::Open)
            });
            calls.push(Call {
                handle: name,
                ..moved(CallKind::Write, 0)
            });
            calls.push(Call {
                handle: name,
                ..Call::new(CallKind::Sync)
            });
            calls.push(Call {
                handle: name,
                ..Call::new(CallKind::Close)
            });
            calls.push(Call {
                name,
                ..Call::new(CallKind::Unlink)
            });
        }
        let text = flow(&calls);
        for step in ["delete", "create", "append", "sync", "close"] {
            assert!(text.contains(&format!("op = \"{step}\"")), "{step}: {text}");
        }
        assert!(text.contains("threads = 2"));
    }
}
