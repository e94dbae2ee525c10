//! What a call uses: names, files, descriptors, places, entries of directories.

use std::collections::HashMap;

use super::uses::Use;
use crate::call::{Call, Kind, flags};
use crate::format::Names;
use crate::initial::{Initial, State};
use crate::path::parent;

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
    /// Shared by duplicates.
    place: u32,
    name: u32,
}

/// Which file each name is, and each descriptor.
#[derive(Debug, Default)]
pub(super) struct Resources {
    files: HashMap<u32, u64>,
    handles: HashMap<u32, Handle>,
    next: u64,
    /// Names by their bytes, for the directories above others.
    numbers: HashMap<Box<[u8]>, u32>,
    known: u32,
}

impl Resources {
    pub(super) fn initial(&mut self, states: &[Initial]) {
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

    /// The number of a directory's name; those above the first name that was recorded need none.
    fn number(&mut self, names: &Names, name: &[u8]) -> Option<u32> {
        while self.known < names.len() {
            self.numbers.insert(names.get(self.known).into(), self.known);
            self.known += 1;
        }
        self.numbers.get(name).copied()
    }

    /// A name and the directories above it.
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

    /// Everything that a call uses.
    pub(super) fn of(&mut self, call: &Call, names: &Names, wanted: &mut Vec<(u64, Use)>) {
        let fields = call.kind.about().fields;
        let changes_names = match call.kind {
            Kind::Open => call.flags & flags::CREATE != 0,
            Kind::Rename
            | Kind::Unlink
            | Kind::RemoveDirectory
            | Kind::MakeDirectory
            | Kind::Link
            | Kind::SymbolicLink => call.result >= 0,
            _ => false,
        };
        if fields.name {
            // The first name of a link stays; an open that could have made its file, and did not, found it.
            let how = if changes_names && call.kind != Kind::Link { Use::Alone } else { Use::Shared };
            self.name(call.name, how, names, wanted);
            if changes_names {
                wanted.push((self.entries(call.name, names), Use::Shared));
            }
            let file = self.file(call.name);
            let alters = matches!(call.kind, Kind::TruncateName | Kind::AttributesName)
                || call.kind == Kind::Open && call.flags & flags::TRUNCATE != 0;
            wanted.push((file, if alters { Use::Alone } else { Use::Shared }));
        }
        if fields.second && call.kind != Kind::SymbolicLink {
            self.name(call.second, if changes_names { Use::Alone } else { Use::Shared }, names, wanted);
            wanted.push((self.entries(call.second, names), Use::Shared));
        }
        if fields.handle {
            self.descriptor(call, call.handle, names, wanted);
            if call.kind == Kind::Copy {
                self.descriptor(&Call { kind: Kind::Write, ..*call }, call.other, names, wanted);
            }
            if call.kind == Kind::Duplicate {
                wanted.push((HANDLE | u64::from(call.other), Use::Shared));
            }
        }
        match call.kind {
            // It brings everything onto the device that was written before.
            Kind::SyncFileSystem => wanted.push((ALL, Use::Alone)),
            Kind::Write | Kind::WriteAt | Kind::Truncate | Kind::Allocate => wanted.push((ALL, Use::Shared)),
            _ => {}
        }
    }

    fn descriptor(&mut self, call: &Call, number: u32, names: &Names, wanted: &mut Vec<(u64, Use)>) {
        let makes = matches!(call.kind, Kind::Open | Kind::Duplicate);
        let how = if makes || call.kind == Kind::Close { Use::Alone } else { Use::Shared };
        wanted.push((HANDLE | u64::from(number), how));
        let Some(handle) = self.handles.get(&number).copied() else { return };
        if call.kind.is_positional() {
            wanted.push((PLACE | u64::from(handle.place), Use::Alone));
        }
        let file = match call.kind {
            Kind::Write | Kind::WriteAt | Kind::Truncate | Kind::Allocate | Kind::Attributes => Some(Use::Alone),
            // What is synced is what was written before.
            Kind::Sync | Kind::DataSync | Kind::SyncRange => Some(Use::Alone),
            Kind::Read | Kind::ReadAt | Kind::Stat | Kind::Seek | Kind::Copy | Kind::Advise => Some(Use::Shared),
            _ => None,
        };
        wanted.extend(file.map(|how| (handle.file, how)));
        if matches!(call.kind, Kind::List | Kind::Sync | Kind::DataSync) {
            let _ = names;
            wanted.push((ENTRIES | u64::from(handle.name), Use::Alone));
        }
    }

    /// What is what after the call; `gone` is told what nobody will use again.
    pub(super) fn after(&mut self, call: &Call, names: &Names, mut gone: impl FnMut(u64)) {
        let _ = names;
        if call.result < 0 {
            return;
        }
        match call.kind {
            Kind::Open => {
                let file = if call.flags & flags::TEMPORARY != 0 { self.fresh() } else { self.file(call.name) };
                self.handles.insert(call.handle, Handle { file, place: call.handle, name: call.name });
            }
            Kind::Duplicate => {
                let old = self.handles.get(&call.other).copied().unwrap_or_default();
                self.handles.insert(call.handle, old);
            }
            Kind::Close => {
                self.handles.remove(&call.handle);
                gone(HANDLE | u64::from(call.handle));
                gone(PLACE | u64::from(call.handle));
            }
            Kind::Rename => {
                let (from, to) = (self.file(call.name), self.file(call.second));
                self.files.insert(call.second, from);
                if call.flags & flags::EXCHANGE != 0 {
                    self.files.insert(call.name, to);
                } else {
                    self.files.remove(&call.name);
                }
            }
            Kind::Link => {
                let file = self.file(call.name);
                self.files.insert(call.second, file);
            }
            Kind::Unlink | Kind::RemoveDirectory => drop(self.files.remove(&call.name)),
            _ => {}
        }
    }
}
