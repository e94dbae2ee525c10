//! Processes, their descriptors and working directories.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::call::{below, flags, normal};

/// The resources that a new task shares with the task that created it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    /// Whether the tasks share descriptors.
    pub files: bool,
    /// Whether the tasks share the working directory.
    pub directory: bool,
}

/// An open descriptor, as one or several processes hold it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// The number in the trace; 0 if it is outside the root.
    pub(super) handle: u32,
    /// The position, which duplicates share.
    pub(super) place: Rc<Cell<u64>>,
    pub(super) path: Rc<[u8]>,
    pub(super) appends: bool,
    pub(super) writes: bool,
    /// The file has no name: it was opened with O_TMPFILE in the directory of the path.
    pub(super) is_unnamed: bool,
    /// Has one reference per table that holds the descriptor.
    life: Rc<()>,
}

impl Held {
    pub(super) fn new(path: Vec<u8>, flags: u32, outside: bool) -> Held {
        Held {
            handle: u32::from(!outside),
            place: Rc::new(Cell::new(0)),
            path: path.into(),
            appends: flags & flags::APPEND != 0,
            writes: flags & flags::WRITE != 0,
            is_unnamed: flags & flags::TEMPORARY != 0,
            life: Rc::new(()),
        }
    }

    fn is_last(&self) -> bool {
        Rc::strong_count(&self.life) == 1
    }
}

#[derive(Debug, Clone)]
struct Entry {
    held: Held,
    close_on_exec: bool,
}

#[derive(Debug)]
struct Task {
    lane: u32,
    files: usize,
    directory: usize,
}

#[derive(Debug)]
struct Counted<T> {
    users: u32,
    value: T,
}

type Descriptors = BTreeMap<i32, Entry>;

#[derive(Debug, Default)]
pub(super) struct Tables {
    tasks: HashMap<u32, Task>,
    files: HashMap<usize, Counted<Descriptors>>,
    directories: HashMap<usize, Counted<Vec<u8>>>,
    /// Descriptors that calls used although no call opened them, by their table.
    strangers: HashSet<(usize, i32)>,
    next: usize,
    handles: u32,
    lanes: u32,
    free_lanes: Vec<u32>,
    ended: HashMap<u32, u32>,
    count: u64,
}

impl Tables {
    pub(super) fn knows(&self, task: u32) -> bool {
        self.tasks.contains_key(&task)
    }

    pub(super) fn tasks(&self) -> u64 {
        self.count
    }

    fn new_lane(&mut self) -> u32 {
        self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes += 1;
            self.lanes - 1
        })
    }

    pub(super) fn add(&mut self, task: u32, directory: &[u8]) {
        let at = self.next;
        self.next += 1;
        self.files.insert(
            at,
            Counted {
                users: 1,
                value: Descriptors::new(),
            },
        );
        self.directories.insert(
            at,
            Counted {
                users: 1,
                value: directory.to_vec(),
            },
        );
        let lane = self.new_lane();
        self.tasks.insert(
            task,
            Task {
                lane,
                files: at,
                directory: at,
            },
        );
        self.count += 1;
    }

    /// Returns the lane of a task. An unknown task begins at the root.
    pub(super) fn lane(&mut self, task: u32) -> u32 {
        if !self.knows(task) {
            self.add(task, b"/");
        }
        self.tasks[&task].lane
    }

    /// Adds the new task `child`. Returns the lanes of both tasks.
    pub(super) fn spawn(&mut self, task: u32, child: u32, shared: Shared) -> (u32, u32) {
        let parent = self.lane(task);
        let (mut files, mut directory) = (self.tasks[&task].files, self.tasks[&task].directory);
        if shared.files {
            self.files
                .get_mut(&files)
                .into_iter()
                .for_each(|counted| counted.users += 1);
        } else {
            let value = self.files[&files].value.clone();
            files = self.next;
            self.files.insert(files, Counted { users: 1, value });
        }
        if shared.directory {
            self.directories
                .get_mut(&directory)
                .into_iter()
                .for_each(|counted| counted.users += 1);
        } else {
            let value = self.directories[&directory].value.clone();
            directory = self.next;
            self.directories
                .insert(directory, Counted { users: 1, value });
        }
        self.next += 1;
        let lane = self.new_lane();
        self.tasks.insert(
            child,
            Task {
                lane,
                files,
                directory,
            },
        );
        self.count += 1;
        (parent, lane)
    }

    pub(super) fn directory(&self, task: u32) -> &[u8] {
        self.tasks
            .get(&task)
            .and_then(|task| self.directories.get(&task.directory))
            .map_or(b"/", |found| &found.value)
    }

    pub(super) fn change_directory(&mut self, task: u32, path: Vec<u8>) {
        self.lane(task);
        let at = self.tasks[&task].directory;
        self.directories
            .get_mut(&at)
            .into_iter()
            .for_each(|found| found.value.clone_from(&path));
    }

    fn descriptors(&mut self, task: u32) -> &mut Descriptors {
        self.lane(task);
        let at = self.tasks[&task].files;
        &mut self
            .files
            .entry(at)
            .or_insert_with(|| Counted {
                users: 1,
                value: Descriptors::new(),
            })
            .value
    }

    pub(super) fn held(&self, task: u32, fd: i32) -> Option<&Held> {
        Some(
            &self
                .files
                .get(&self.tasks.get(&task)?.files)?
                .value
                .get(&fd)?
                .held,
        )
    }

    /// Registers the use of a descriptor that no call opened. Returns whether it is the first since
    /// the last close.
    pub(super) fn is_new_stranger(&mut self, task: u32, fd: i32) -> bool {
        self.tasks
            .get(&task)
            .is_some_and(|task| self.strangers.insert((task.files, fd)))
    }

    /// Follows a rename in the paths of descriptors and working directories. Returns whether one
    /// that writes was opened outside the root.
    pub(super) fn rename(&mut self, names: &[(&[u8], &[u8])]) -> bool {
        let renamed = |path: &[u8]| {
            names
                .iter()
                .find_map(|(old, new)| below(old, path).map(|rest| normal(new, rest)))
        };
        let mut writes_outside = false;
        for entry in self
            .files
            .values_mut()
            .flat_map(|counted| counted.value.values_mut())
        {
            if let Some(path) = renamed(&entry.held.path) {
                writes_outside |= entry.held.handle == 0 && entry.held.writes;
                entry.held.path = path.into();
            }
        }
        for directory in self.directories.values_mut() {
            if let Some(path) = renamed(&directory.value) {
                directory.value = path;
            }
        }
        writes_outside
    }

    /// Adds a descriptor. Returns its number in the trace.
    pub(super) fn open(&mut self, task: u32, fd: i32, mut held: Held, close_on_exec: bool) -> u32 {
        if held.handle != 0 {
            self.handles += 1;
            held.handle = self.handles;
        }
        let handle = held.handle;
        self.descriptors(task).insert(
            fd,
            Entry {
                held,
                close_on_exec,
            },
        );
        handle
    }

    pub(super) fn duplicate(&mut self, task: u32, from: i32, to: i32, close_on_exec: bool) -> u32 {
        let Some(held) = self.held(task, from).cloned() else {
            return 0;
        };
        self.open(
            task,
            to,
            Held {
                life: Rc::new(()),
                ..held
            },
            close_on_exec,
        )
    }

    /// Removes a descriptor. Returns it if no other table holds it.
    pub(super) fn close(&mut self, task: u32, fd: i32) -> Option<Held> {
        self.lane(task);
        self.strangers.remove(&(self.tasks[&task].files, fd));
        let entry = self.descriptors(task).remove(&fd)?;
        entry.held.is_last().then_some(entry.held)
    }

    pub(super) fn close_on_exec(&mut self, task: u32, fd: i32, closes: bool) {
        self.descriptors(task)
            .get_mut(&fd)
            .into_iter()
            .for_each(|entry| entry.close_on_exec = closes);
    }

    pub(super) fn open_between(&mut self, task: u32, first: i32, last: i32) -> Vec<i32> {
        if first > last {
            return Vec::new();
        }
        self.descriptors(task)
            .range(first..=last)
            .map(|(fd, _)| *fd)
            .collect()
    }

    /// Gives the task its own copies.
    pub(super) fn unshare(&mut self, task: u32, own: Shared) {
        self.lane(task);
        let Some(task) = self.tasks.get_mut(&task) else {
            return;
        };
        if own.files {
            copy(&mut self.files, &mut task.files, &mut self.next);
        }
        if own.directory {
            copy(&mut self.directories, &mut task.directory, &mut self.next);
        }
    }

    /// Exchanges the descriptors and working directories of two tasks.
    pub(super) fn exchange(&mut self, one: u32, other: u32) {
        if one != other
            && let [Some(one), Some(other)] = self.tasks.get_disjoint_mut([&one, &other])
        {
            std::mem::swap(&mut one.files, &mut other.files);
            std::mem::swap(&mut one.directory, &mut other.directory);
        }
    }

    /// Gives the task its own table for exec, and closes the descriptors that are marked for that.
    /// Returns those that no other table holds.
    pub(super) fn exec(&mut self, task: u32) -> Vec<Held> {
        self.unshare(
            task,
            Shared {
                files: true,
                directory: false,
            },
        );
        let closing: Vec<i32> = self
            .descriptors(task)
            .iter()
            .filter(|(_, entry)| entry.close_on_exec)
            .map(|(fd, _)| *fd)
            .collect();
        closing
            .into_iter()
            .filter_map(|fd| self.close(task, fd))
            .collect()
    }

    /// Removes the descriptors of a task that ends. Returns those that no other table holds.
    pub(super) fn let_all_go(&mut self, task: u32) -> Vec<Held> {
        let at = self.tasks[&task].files;
        let Some(counted) = self.files.get_mut(&at) else {
            return Vec::new();
        };
        counted.users -= 1;
        if counted.users > 0 {
            return Vec::new();
        }
        let all = self
            .files
            .remove(&at)
            .map(|counted| counted.value)
            .unwrap_or_default();
        all.into_values()
            .filter(|entry| entry.held.is_last())
            .map(|entry| entry.held)
            .collect()
    }

    /// Removes a task. Returns its lane.
    pub(super) fn exit(&mut self, task: u32) -> u32 {
        let Some(Task {
            lane, directory, ..
        }) = self.tasks.remove(&task)
        else {
            return 0;
        };
        if let Some(counted) = self.directories.get_mut(&directory) {
            counted.users -= 1;
            if counted.users == 0 {
                self.directories.remove(&directory);
            }
        }
        self.free_lanes.push(lane);
        self.ended.insert(task, lane);
        lane
    }

    pub(super) fn ended(&mut self, task: u32) -> Option<u32> {
        self.ended.remove(&task)
    }
}

/// Copies a shared table for one of its users.
fn copy<T: Clone>(tables: &mut HashMap<usize, Counted<T>>, at: &mut usize, next: &mut usize) {
    let Some(counted) = tables.get_mut(at).filter(|counted| counted.users > 1) else {
        return;
    };
    counted.users -= 1;
    let value = counted.value.clone();
    (*at, *next) = (*next, *next + 1);
    tables.insert(*at, Counted { users: 1, value });
}
