//! Determines which calls must wait for which, so that a replay with other timing has the same
//! effect: the rules of ROOT (Weiss, Harter, Arpaci-Dusseau and Arpaci-Dusseau, "ROOT: Replaying
//! Multithreaded Traces with Resource-Oriented Ordering", SOSP 2013).
//!
//! A call uses resources: its name and the directories above it, the file behind the name, the
//! descriptor and its position, and the entries of a directory. Some uses may overlap (two reads),
//! others are exclusive (a write, a rename). A call waits for uses of other lanes that had ended
//! before it began, if one of the two is exclusive. Calls that overlapped in the recording had no
//! order, and get none. Every wait points backwards in the trace, so a replay cannot deadlock. A
//! new thread waits for the call that created it, a parent for the child that it waited for.

use std::collections::HashMap;

use crate::call::{Call, CallKind, Initial, State, flags, parent};
use crate::codec::Names;

/// The conditions for the start of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// The number of the call in its lane, from 1.
    pub number: u32,
    /// Lanes, and the number of calls that each of them must have ended.
    pub waits: Vec<(u32, u32)>,
    /// Think time before it, in nanoseconds: after the lane's last call, or after the call it
    /// waited for if that ended later.
    pub think_ns: u64,
    /// Nanoseconds between the end of the last of all that it waits for and its beginning.
    pub after_ns: u64,
}

/// Calls of a lane that are remembered. If a lane made more calls while a thread that it had woken
/// was getting ready to run, that thread waits for a later call than it did.
const REMEMBERED: usize = 64;

/// Times by the numbers of calls.
#[derive(Debug, Clone)]
struct Ends([u64; REMEMBERED]);

impl Default for Ends {
    fn default() -> Ends {
        Ends([0; REMEMBERED])
    }
}

#[derive(Debug, Clone, Default)]
struct Lane {
    number: u32,
    end_ns: u64,
    /// When the last calls ended, by their numbers.
    ends_ns: Ends,
    /// A thread begins: its first call waits for the one that made it.
    begins: Option<(u32, u32)>,
    /// The number of the last exit.
    exit: u32,
    /// The calls that this lane is known to follow: the number of the last one, by lane.
    after: HashMap<u32, u32>,
}

impl Lane {
    /// Returns the number of calls that had ended by then, and the end of the last of them if it is
    /// remembered.
    fn done_by(&self, ns: u64) -> (u32, Option<u64>) {
        let oldest = self.number.saturating_sub(REMEMBERED as u32);
        let known = (oldest + 1..=self.number)
            .rev()
            .map(|number| (number, self.ends_ns.0[number as usize % REMEMBERED]));
        known
            .clone()
            .find(|(_, end_ns)| *end_ns <= ns)
            .map_or((oldest, None), |(number, end_ns)| (number, Some(end_ns)))
    }
}

/// Goes through a trace and determines when each call may begin.
#[derive(Debug, Default)]
pub struct Order {
    lanes: Vec<Lane>,
    single: bool,
    gap_ns: u64,
    resources: Resources,
    uses: HashMap<u64, Uses>,
    wanted: Vec<(u64, Use)>,
}

impl Order {
    /// Creates the order of a trace with `lanes` lanes. `gap_ns` is the time that recording added
    /// between two calls.
    pub fn new(lanes: u32, gap_ns: u64) -> Order {
        Order {
            single: lanes <= 1,
            gap_ns,
            ..Order::default()
        }
    }

    /// Takes the states of names before the first call.
    pub fn initial(&mut self, states: &[Initial]) {
        if !self.single {
            self.resources.initial(states);
        }
    }

    fn lane(&mut self, lane: u32) -> &mut Lane {
        let at = lane as usize;
        if self.lanes.len() <= at {
            self.lanes.resize(at + 1, Lane::default());
        }
        &mut self.lanes[at]
    }

    /// Determines when the next call may begin.
    pub fn turn(&mut self, call: &Call, names: &Names) -> Turn {
        let gap_ns = self.gap_ns;
        let lane = self.lane(call.lane);
        lane.number += 1;
        let before_ns = lane.end_ns;
        let mut turn = Turn {
            number: lane.number,
            ..Turn::default()
        };
        lane.end_ns = call.end_ns();
        lane.ends_ns.0[lane.number as usize % REMEMBERED] = lane.end_ns;
        let number = lane.number;
        if let Some((parent, made)) = lane.begins.take() {
            self.wait(call.lane, parent, made, &mut turn.waits);
        }
        match call.kind {
            CallKind::Spawn => {
                let exit = self.lane(call.other).exit;
                let child = self.lane(call.other);
                (child.begins, child.end_ns) = (Some((call.lane, number)), call.start_ns);
                // A lane that is used again exists when its last thread has ended. It is the same
                // lane that waits for it.
                child.exit = exit;
            }
            CallKind::Exit => self.lane(call.lane).exit = number,
            CallKind::Wait => {
                let exit = self.lane(call.other).exit;
                self.wait(call.lane, call.other, exit, &mut turn.waits);
            }
            CallKind::Woken => {
                let woken_ns = call.start_ns.saturating_add(call.offset.min(call.took_ns));
                let (number, ended_ns) = self.lane(call.other).done_by(woken_ns);
                self.wait(call.lane, call.other, number, &mut turn.waits);
                turn.after_ns = ended_ns.map_or(0, |ended_ns| woken_ns.saturating_sub(ended_ns));
                // If the waker made no new call by then, only the time itself is known.
                let until_ns = if turn.waits.is_empty() {
                    call.end_ns()
                } else {
                    call.start_ns
                };
                turn.think_ns = until_ns
                    .saturating_sub(before_ns)
                    .saturating_sub(gap_ns + call.lost_ns);
                return turn;
            }
            _ => {}
        }
        // Waiting is not think time, which begins when the last of all earlier calls has ended.
        let others_ns = if self.single {
            0
        } else {
            self.depend(call, number, names, &mut turn.waits)
        };
        let since_ns = if turn.waits.is_empty() {
            before_ns
        } else {
            before_ns.max(others_ns)
        };
        turn.think_ns = call
            .start_ns
            .saturating_sub(since_ns)
            .saturating_sub(gap_ns + call.lost_ns);
        // A wait for a child ends with the child, whatever the parent's think time was.
        if call.kind == CallKind::Wait && !turn.waits.is_empty() {
            turn.think_ns = 0;
        }
        turn.after_ns = turn.think_ns;
        turn
    }

    /// Adds the calls of other lanes that come before this one. Returns when the last of them
    /// ended.
    fn depend(
        &mut self,
        call: &Call,
        number: u32,
        names: &Names,
        waits: &mut Vec<(u32, u32)>,
    ) -> u64 {
        let mut latest_ns = 0;
        let mut wanted = std::mem::take(&mut self.wanted);
        self.resources.add(call, names, &mut wanted);
        // A name may come twice, as itself and as a directory above another.
        wanted.sort_unstable();
        wanted.dedup_by(|later, earlier| {
            later.0 == earlier.0 && {
                earlier.1 = earlier.1.max(later.1);
                true
            }
        });
        for (resource, how) in &wanted {
            let uses = self.uses.entry(*resource).or_default();
            let before = uses.before(call.lane, call.start_ns, *how);
            uses.add(call.lane, number, call.end_ns(), *how);
            for (lane, number, end_ns) in before {
                latest_ns = end_ns.max(latest_ns);
                self.wait(call.lane, lane, number, waits);
            }
        }
        wanted.clear();
        self.wanted = wanted;
        self.resources
            .after(call, names, |gone| drop(self.uses.remove(&gone)));
        latest_ns
    }

    fn wait(&mut self, lane: u32, other: u32, number: u32, waits: &mut Vec<(u32, u32)>) {
        if lane == other || number == 0 {
            return;
        }
        let after = self.lane(lane).after.entry(other).or_default();
        if *after >= number {
            return;
        }
        *after = number;
        waits.retain(|(known, _)| *known != other);
        waits.push((other, number));
    }
}

/// The kinds of resources, as the highest bits of their numbers.
const NAME: u64 = 1 << 60;
const FILE: u64 = 2 << 60;
const HANDLE: u64 = 3 << 60;
const PLACE: u64 = 4 << 60;
const ENTRIES: u64 = 5 << 60;
const ALL: u64 = 6 << 60;

#[derive(Debug, Clone, Copy, Default)]
struct Handle {
    file: u64,
    /// The position, which duplicates share.
    place: u32,
    name: u32,
}

/// The file of each name and of each descriptor.
#[derive(Debug, Default)]
struct Resources {
    files: HashMap<u32, u64>,
    handles: HashMap<u32, Handle>,
    next: u64,
    /// Names by their bytes, for the directories above others.
    numbers: HashMap<Box<[u8]>, u32>,
    known: u32,
}

impl Resources {
    fn initial(&mut self, states: &[Initial]) {
        for Initial { name, state } in states {
            let file = match state {
                State::Same { name } => self.file(*name),
                _ => self.file(*name),
            };
            self.files.insert(*name, file);
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        FILE | self.next
    }

    fn file(&mut self, name: u32) -> u64 {
        if let Some(file) = self.files.get(&name) {
            return *file;
        }
        let file = self.fresh();
        self.files.insert(name, file);
        file
    }

    /// Returns the number of a directory's name. Directories above the first recorded name need
    /// none.
    fn number(&mut self, names: &Names, name: &[u8]) -> Option<u32> {
        while self.known < names.len() {
            self.numbers
                .insert(names.get(self.known).into(), self.known);
            self.known += 1;
        }
        self.numbers.get(name).copied()
    }

    /// Adds a name and the directories above it.
    fn name(&mut self, number: u32, how: Use, names: &Names, wanted: &mut Vec<(u64, Use)>) {
        wanted.push((NAME | u64::from(number), how));
        let mut above = parent(names.get(number));
        while !above.is_empty() {
            if let Some(number) = self.number(names, above) {
                wanted.push((NAME | u64::from(number), Use::Shared));
            }
            above = parent(above);
        }
    }

    fn entries(&mut self, number: u32, names: &Names) -> u64 {
        let above = self.number(names, parent(names.get(number)));
        ENTRIES | u64::from(above.unwrap_or_default())
    }

    /// Adds all resources that a call uses.
    fn add(&mut self, call: &Call, names: &Names, wanted: &mut Vec<(u64, Use)>) {
        let fields = call.kind.about().fields;
        let changes_names = match call.kind {
            CallKind::Open => call.flags & flags::CREATE != 0,
            CallKind::Rename
            | CallKind::Unlink
            | CallKind::RemoveDirectory
            | CallKind::MakeDirectory
            | CallKind::Link
            | CallKind::SymbolicLink => call.result >= 0,
            _ => false,
        };
        if fields.name {
            // The first name of a link stays; an open that could have made its file, and did not,
            // found it.
            let how = if changes_names && call.kind != CallKind::Link {
                Use::Alone
            } else {
                Use::Shared
            };
            self.name(call.name, how, names, wanted);
            if changes_names {
                wanted.push((self.entries(call.name, names), Use::Shared));
            }
            let file = self.file(call.name);
            let alters = matches!(
                call.kind,
                CallKind::TruncateName
                    | CallKind::AttributesName
                    | CallKind::SetAttributeName
                    | CallKind::SyncMapping
            ) || call.kind == CallKind::Open && call.flags & flags::TRUNCATE != 0;
            wanted.push((file, if alters { Use::Alone } else { Use::Shared }));
        }
        let names_two = matches!(call.kind, CallKind::Rename | CallKind::Link);
        if names_two {
            self.name(
                call.second,
                if changes_names {
                    Use::Alone
                } else {
                    Use::Shared
                },
                names,
                wanted,
            );
            wanted.push((self.entries(call.second, names), Use::Shared));
        }
        if fields.handle {
            self.descriptor(call, call.handle, names, wanted);
            if call.kind == CallKind::Copy {
                let kind = if call.copies_to_position() {
                    CallKind::Write
                } else {
                    CallKind::WriteAt
                };
                self.descriptor(&Call { kind, ..*call }, call.other, names, wanted);
            }
            if call.kind == CallKind::Duplicate {
                wanted.push((HANDLE | u64::from(call.other), Use::Shared));
            }
        }
        match call.kind {
            // It writes all earlier data to the device.
            CallKind::SyncFileSystem => wanted.push((ALL, Use::Alone)),
            CallKind::Write
            | CallKind::WriteAt
            | CallKind::Truncate
            | CallKind::Allocate
            | CallKind::Copy => wanted.push((ALL, Use::Shared)),
            _ => {}
        }
    }

    fn descriptor(
        &mut self,
        call: &Call,
        number: u32,
        names: &Names,
        wanted: &mut Vec<(u64, Use)>,
    ) {
        let makes = matches!(call.kind, CallKind::Open | CallKind::Duplicate);
        let how = if makes || call.kind == CallKind::Close {
            Use::Alone
        } else {
            Use::Shared
        };
        wanted.push((HANDLE | u64::from(number), how));
        let Some(handle) = self.handles.get(&number).copied() else {
            return;
        };
        if call.uses_position() {
            wanted.push((PLACE | u64::from(handle.place), Use::Alone));
        }
        let file = match call.kind {
            CallKind::Write
            | CallKind::WriteAt
            | CallKind::Truncate
            | CallKind::Allocate
            | CallKind::Attributes
            | CallKind::SetAttribute => Some(Use::Alone),
            // A sync covers the data written before it.
            CallKind::Sync | CallKind::DataSync | CallKind::SyncRange => Some(Use::Alone),
            CallKind::Read
            | CallKind::ReadAt
            | CallKind::Stat
            | CallKind::Seek
            | CallKind::Copy
            | CallKind::Advise => Some(Use::Shared),
            _ => None,
        };
        wanted.extend(file.map(|how| (handle.file, how)));
        if matches!(
            call.kind,
            CallKind::List | CallKind::Sync | CallKind::DataSync
        ) {
            let _ = names;
            wanted.push((ENTRIES | u64::from(handle.name), Use::Alone));
        }
    }

    /// Updates names and descriptors after the call; `gone` gets those that no later call uses.
    fn after(&mut self, call: &Call, names: &Names, mut gone: impl FnMut(u64)) {
        let _ = names;
        if call.result < 0 {
            return;
        }
        match call.kind {
            CallKind::Open => {
                let file = if call.flags & flags::TEMPORARY != 0 {
                    self.fresh()
                } else {
                    self.file(call.name)
                };
                self.handles.insert(
                    call.handle,
                    Handle {
                        file,
                        place: call.handle,
                        name: call.name,
                    },
                );
            }
            CallKind::Duplicate => {
                let old = self.handles.get(&call.other).copied().unwrap_or_default();
                self.handles.insert(call.handle, old);
            }
            CallKind::Close => {
                self.handles.remove(&call.handle);
                gone(HANDLE | u64::from(call.handle));
                gone(PLACE | u64::from(call.handle));
            }
            CallKind::Rename => {
                let (from, to) = (self.file(call.name), self.file(call.second));
                self.files.insert(call.second, from);
                if call.flags & flags::EXCHANGE != 0 {
                    self.files.insert(call.name, to);
                } else {
                    self.files.remove(&call.name);
                }
            }
            CallKind::Link => {
                let file = self.file(call.name);
                self.files.insert(call.second, file);
            }
            CallKind::Unlink | CallKind::RemoveDirectory => drop(self.files.remove(&call.name)),
            _ => {}
        }
    }
}

/// The way in which a call uses a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// The use may overlap with other shared uses.
    Shared,
    Alone,
}

/// Uses of one lane that are remembered. If all of them overlap a call, the uses before them need
/// not be known.
const REMEMBERED_USES: usize = 3;

#[derive(Debug, Clone, Copy, Default)]
struct Last {
    number: u32,
    end_ns: u64,
}

#[derive(Debug)]
struct OfLane {
    lane: u32,
    /// The newest first.
    shared: [Last; REMEMBERED_USES],
    alone: [Last; REMEMBERED_USES],
}

/// The last uses of a resource, by lane.
#[derive(Debug, Default)]
struct Uses(Vec<OfLane>);

impl Uses {
    /// Returns the last uses of other lanes that had ended when a call began, if one of the two is
    /// exclusive: lane, number, and the end, which is 0 if it is not known.
    fn before(&self, lane: u32, start_ns: u64, how: Use) -> Vec<(u32, u32, u64)> {
        let others = self.0.iter().filter(|of| of.lane != lane);
        others
            .filter_map(|of| {
                let shared = if how == Use::Alone {
                    ended(&of.shared, start_ns)
                } else {
                    Last::default()
                };
                let alone = ended(&of.alone, start_ns);
                let last = if shared.number > alone.number {
                    shared
                } else {
                    alone
                };
                (last.number > 0).then_some((of.lane, last.number, last.end_ns))
            })
            .collect()
    }

    fn add(&mut self, lane: u32, number: u32, end_ns: u64, how: Use) {
        let at = self
            .0
            .iter()
            .position(|of| of.lane == lane)
            .unwrap_or_else(|| {
                self.0.push(OfLane {
                    lane,
                    shared: Default::default(),
                    alone: Default::default(),
                });
                self.0.len() - 1
            });
        let of = &mut self.0[at];
        let list = if how == Use::Alone {
            &mut of.alone
        } else {
            &mut of.shared
        };
        list.rotate_right(1);
        list[0] = Last { number, end_ns };
    }
}

/// Returns the newest use that had ended. If more uses overlap than are remembered, returns the
/// call before them.
fn ended(list: &[Last; REMEMBERED_USES], start_ns: u64) -> Last {
    let found = list
        .iter()
        .find(|last| last.number > 0 && last.end_ns <= start_ns);
    found.copied().unwrap_or_else(|| Last {
        number: list[REMEMBERED_USES - 1].number.saturating_sub(1),
        end_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::flags;

    fn names(all: &[&str]) -> Names {
        let mut names = Names::default();
        all.iter().for_each(|name| names.push(name.as_bytes()));
        names
    }

    /// Returns a call of a lane from one moment to another.
    fn at(lane: u32, start_ns: u64, end_ns: u64, call: Call) -> Call {
        Call {
            lane,
            start_ns,
            took_ns: end_ns - start_ns,
            ..call
        }
    }

    fn open(handle: u32, name: u32, flags: u32) -> Call {
        Call {
            handle,
            name,
            flags,
            ..Call::new(CallKind::Open)
        }
    }

    fn on(kind: CallKind, handle: u32) -> Call {
        Call {
            handle,
            ..Call::new(kind)
        }
    }

    fn waits(calls: &[Call], names: &Names) -> Vec<Vec<(u32, u32)>> {
        let mut order = Order::new(4, 0);
        calls
            .iter()
            .map(|call| order.turn(call, names).waits)
            .collect()
    }

    #[test]
    fn a_read_waits_for_the_write_before_it_and_not_for_other_reads() {
        let names = names(&["a"]);
        let found = waits(
            &[
                at(0, 0, 1, open(1, 1, flags::READ | flags::WRITE)),
                at(0, 2, 3, on(CallKind::WriteAt, 1)),
                at(1, 4, 5, on(CallKind::ReadAt, 1)),
                at(2, 6, 7, on(CallKind::ReadAt, 1)),
                at(0, 8, 9, on(CallKind::WriteAt, 1)),
            ],
            &names,
        );
        assert_eq!(
            found,
            [
                vec![],
                vec![],
                vec![(0, 2)],
                vec![(0, 2)],
                vec![(1, 1), (2, 1)]
            ]
        );
    }

    #[test]
    fn overlapping_calls_have_no_order() {
        let names = names(&["a"]);
        let calls = [
            at(0, 0, 1, open(1, 1, flags::WRITE)),
            at(0, 2, 9, on(CallKind::WriteAt, 1)),
            at(1, 3, 10, on(CallKind::WriteAt, 1)),
        ];
        // The descriptor must be there all the same.
        assert_eq!(waits(&calls, &names)[2], [(0, 1)]);
    }

    #[test]
    fn names_order_making_renaming_and_looking() {
        let names = names(&["d", "d/old", "d/new"]);
        let found = waits(
            &[
                at(
                    0,
                    0,
                    1,
                    Call {
                        name: 1,
                        ..Call::new(CallKind::MakeDirectory)
                    },
                ),
                at(1, 2, 3, open(1, 2, flags::CREATE | flags::WRITE)),
                at(
                    2,
                    4,
                    5,
                    Call {
                        name: 2,
                        second: 3,
                        ..Call::new(CallKind::Rename)
                    },
                ),
                at(
                    0,
                    6,
                    7,
                    Call {
                        name: 2,
                        result: -2,
                        ..Call::new(CallKind::StatName)
                    },
                ),
                at(1, 8, 9, open(2, 3, flags::READ)),
                at(
                    3,
                    10,
                    11,
                    Call {
                        name: 1,
                        result: -39,
                        ..Call::new(CallKind::RemoveDirectory)
                    },
                ),
            ],
            &names,
        );
        assert_eq!(found[1], [(0, 1)], "in a directory that was made before");
        assert_eq!(found[2].iter().max(), Some(&(1, 1)), "the file is there");
        assert_eq!(found[3], [(1, 1), (2, 1)], "the old name is gone");
        assert_eq!(found[4], [(2, 1)], "the new name is there");
    }

    #[test]
    fn threads_begin_after_the_call_that_made_them_and_parents_go_on_after_children() {
        let none = names(&[]);
        let mut order = Order::new(2, 10);
        let calls = [
            at(
                0,
                100,
                100,
                Call {
                    other: 1,
                    ..Call::new(CallKind::Spawn)
                },
            ),
            at(1, 150, 160, Call::new(CallKind::StatName)),
            at(1, 170, 170, Call::new(CallKind::Exit)),
            at(
                0,
                110,
                180,
                Call {
                    other: 1,
                    ..Call::new(CallKind::Wait)
                },
            ),
        ];
        let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &none)).collect();
        assert_eq!(
            turns[1],
            Turn {
                number: 1,
                waits: vec![(0, 1)],
                think_ns: 40,
                after_ns: 40
            }
        );
        assert_eq!((&turns[2].waits[..], turns[2].think_ns), (&[][..], 0));
        assert_eq!((&turns[3].waits[..], turns[3].think_ns), (&[(1, 2)][..], 0));
    }

    #[test]
    fn waiting_for_another_thread_is_not_think_time() {
        let names = names(&["f"]);
        let mut order = Order::new(2, 0);
        let calls = [
            at(0, 0, 1, open(1, 1, flags::READ | flags::WRITE)),
            at(1, 2, 3, open(2, 1, flags::READ)),
            at(0, 4, 100, on(CallKind::Write, 1)),
            at(1, 110, 120, on(CallKind::Read, 2)),
            at(1, 150, 160, on(CallKind::Read, 2)),
        ];
        let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &names)).collect();
        assert_eq!(
            (&turns[3].waits[..], turns[3].think_ns),
            (&[(0, 2)][..], 10),
            "since the write has ended"
        );
        assert_eq!(
            (&turns[4].waits[..], turns[4].think_ns),
            (&[][..], 30),
            "since its own last call"
        );
    }

    #[test]
    fn a_thread_that_was_woken_comes_after_what_had_been_done_by_then() {
        let none = names(&[]);
        let mut order = Order::new(3, 0);
        let stat = Call::new(CallKind::StatName);
        let woken = |by, after_ns| Call {
            other: by,
            offset: after_ns,
            ..Call::new(CallKind::Woken)
        };
        let calls = [
            at(0, 1, 5, stat),
            at(1, 0, 10, stat),
            at(1, 12, 20, stat),
            // The calls of the other thread between the wake-up of this one and its first call.
            at(1, 31, 35, stat),
            at(0, 8, 40, woken(1, 22)),
            at(0, 50, 60, stat),
            // Woken again by a thread that has done nothing since, and by one that never did
            // anything.
            at(0, 62, 70, woken(1, 1)),
            at(0, 75, 90, woken(1, 10)),
            at(0, 95, 99, woken(2, 3)),
        ];
        let turns: Vec<Turn> = calls.iter().map(|call| order.turn(call, &none)).collect();
        assert_eq!(
            turns[4],
            Turn {
                number: 2,
                waits: vec![(1, 2)],
                think_ns: 3,
                after_ns: 10
            }
        );
        assert_eq!((&turns[5].waits[..], turns[5].think_ns), (&[][..], 10));
        assert_eq!(
            (&turns[6].waits[..], turns[6].think_ns, turns[6].after_ns),
            (&[(1, 3)][..], 2, 28)
        );
        assert_eq!(
            (&turns[7].waits[..], turns[7].think_ns),
            (&[][..], 20),
            "what is known is how long it took"
        );
        assert_eq!((&turns[8].waits[..], turns[8].think_ns), (&[][..], 9));
    }

    #[test]
    fn a_listing_waits_for_entries_that_were_made() {
        let names = names(&["d", "d/one", "d/two"]);
        let found = waits(
            &[
                at(0, 0, 1, open(1, 1, flags::READ | flags::DIRECTORY)),
                at(1, 2, 3, open(2, 2, flags::CREATE)),
                at(2, 2, 4, open(3, 3, flags::CREATE)),
                at(0, 5, 6, on(CallKind::List, 1)),
            ],
            &names,
        );
        assert_eq!(
            (found[1].len(), found[2].len()),
            (0, 0),
            "two names of one directory are made side by side"
        );
        assert_eq!(found[3], [(1, 1), (2, 1)]);
    }
}
