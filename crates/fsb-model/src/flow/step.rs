//! The steps of a thread: an operation and its attributes.

use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::Bytes;

/// The operation of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Makes a file that does not exist, and keeps it open.
    Create,
    /// Opens a file that exists.
    Open,
    /// Closes a descriptor.
    Close,
    /// Reads an open file from its beginning to its end.
    ReadWhole,
    /// Writes an open file from its beginning to the size that it, or the file open at `from`, shall have.
    WriteWhole,
    /// Writes at the end of a file.
    Append,
    /// Reads a record: the next one, or one at random.
    Read,
    /// Writes a record: the next one, or one at random.
    Write,
    /// As [`Op::Write`], without waiting for it.
    AioWrite,
    /// Waits for all writes that the thread has not waited for.
    AioWait,
    /// fsync of an open file.
    Sync,
    /// fsync of all files of a set that the thread has open.
    SyncSet,
    /// Deletes a file that exists: the one of a descriptor, or one that no thread has open.
    Delete,
    /// Reads the attributes of a file that exists.
    Stat,
    /// Lists a directory that holds files.
    List,
    /// Makes an empty directory that does not exist.
    MakeDirectory,
    /// Removes an empty directory.
    RemoveDirectory,
    /// Waits for one event.
    EventLimit,
    /// Waits for as many events as there were operations.
    OperationLimit,
    /// Waits for as many events as there were reads and writes.
    IoLimit,
    /// Waits for as many events as MiB were moved.
    BandwidthLimit,
    /// Sleeps.
    Delay,
    /// Keeps the processor busy.
    Hog,
    /// Sleeps until it is woken.
    Block,
    /// Wakes the threads that sleep at a step of another thread.
    Wake,
    /// Waits until a semaphore has `value` posts, and takes them.
    SemaphoreWait,
    /// Posts to the semaphores of a step of another thread.
    SemaphorePost,
    /// Ends the work after `value` operations.
    FinishOnCount,
    /// Ends the work after `value` bytes were moved.
    FinishOnBytes,
}

/// An attribute of a step, besides its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// `set`.
    Set,
    /// `fd`.
    Fd,
    /// `from`.
    From,
    /// `size`.
    Size,
    /// `record`.
    Record,
    /// `random`.
    Random,
    /// `rotate`.
    Rotate,
    /// `working_set`.
    WorkingSet,
    /// `dsync`.
    Dsync,
    /// `direct`.
    Direct,
    /// `value`.
    Value,
    /// `seconds`.
    Seconds,
    /// `target`.
    Target,
    /// `blocking`.
    Blocking,
    /// `high_water`.
    HighWater,
    /// `index`.
    Index,
}

use Attribute::{
    Blocking, Direct, Dsync, Fd, From, HighWater, Index, Random, Record, Rotate, Seconds, Set, Size, Target, Value,
    WorkingSet,
};

impl Op {
    /// All operations, in the order in which they are explained.
    pub const ALL: [Op; 29] = [
        Op::Create,
        Op::Open,
        Op::Close,
        Op::ReadWhole,
        Op::WriteWhole,
        Op::Append,
        Op::Read,
        Op::Write,
        Op::AioWrite,
        Op::AioWait,
        Op::Sync,
        Op::SyncSet,
        Op::Delete,
        Op::Stat,
        Op::List,
        Op::MakeDirectory,
        Op::RemoveDirectory,
        Op::EventLimit,
        Op::OperationLimit,
        Op::IoLimit,
        Op::BandwidthLimit,
        Op::Delay,
        Op::Hog,
        Op::Block,
        Op::Wake,
        Op::SemaphoreWait,
        Op::SemaphorePost,
        Op::FinishOnCount,
        Op::FinishOnBytes,
    ];

    /// Returns the word in flows, and in tables for a step without a name.
    pub fn name(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Open => "open",
            Op::Close => "close",
            Op::ReadWhole => "read-whole",
            Op::WriteWhole => "write-whole",
            Op::Append => "append",
            Op::Read => "read",
            Op::Write => "write",
            Op::AioWrite => "aio-write",
            Op::AioWait => "aio-wait",
            Op::Sync => "sync",
            Op::SyncSet => "sync-set",
            Op::Delete => "delete",
            Op::Stat => "stat",
            Op::List => "list",
            Op::MakeDirectory => "make-directory",
            Op::RemoveDirectory => "remove-directory",
            Op::EventLimit => "event-limit",
            Op::OperationLimit => "operation-limit",
            Op::IoLimit => "io-limit",
            Op::BandwidthLimit => "bandwidth-limit",
            Op::Delay => "delay",
            Op::Hog => "hog",
            Op::Block => "block",
            Op::Wake => "wake",
            Op::SemaphoreWait => "semaphore-wait",
            Op::SemaphorePost => "semaphore-post",
            Op::FinishOnCount => "finish-on-count",
            Op::FinishOnBytes => "finish-on-bytes",
        }
    }

    /// Returns whether the operation works on files and is counted. The other operations wait, limit the rate or
    /// compute.
    pub fn is_counted(self) -> bool {
        self as u8 <= Op::RemoveDirectory as u8
    }

    /// Returns whether the operation moves data. Such a step may name a set instead of an open descriptor: the file is
    /// then opened beforehand.
    pub fn moves_data(self) -> bool {
        self.writes() || matches!(self, Op::ReadWhole | Op::Read)
    }

    /// Returns whether the operation writes data.
    pub fn writes(self) -> bool {
        matches!(self, Op::WriteWhole | Op::Append | Op::Write | Op::AioWrite)
    }

    /// Returns the attributes that the operation takes.
    pub fn takes(self) -> &'static [Attribute] {
        match self {
            Op::Create | Op::Open => &[Set, Fd, Dsync, Direct, Index],
            Op::Close | Op::Sync => &[Fd],
            Op::ReadWhole => &[Set, Fd, Record, Direct],
            Op::WriteWhole => &[Set, Fd, From, Record, Dsync, Direct],
            Op::Append => &[Set, Fd, Size, Dsync],
            Op::Read => &[Set, Fd, Size, Random, Rotate, WorkingSet, Direct],
            Op::Write | Op::AioWrite => &[Set, Fd, Size, Random, Rotate, WorkingSet, Dsync, Direct],
            Op::AioWait | Op::EventLimit => &[],
            Op::SyncSet | Op::List | Op::MakeDirectory | Op::RemoveDirectory => &[Set],
            Op::Delete | Op::Stat => &[Set, Fd, Index],
            Op::OperationLimit | Op::IoLimit | Op::BandwidthLimit => &[Target],
            Op::Delay => &[Seconds],
            Op::Hog => &[Value],
            Op::Block => &[],
            Op::Wake => &[Target],
            Op::SemaphoreWait => &[Value, HighWater],
            Op::SemaphorePost => &[Value, Target, Blocking],
            Op::FinishOnCount | Op::FinishOnBytes => &[Value, Target],
        }
    }
}

/// One operation of a thread. [`Op::takes`] lists the keys that an operation takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// The name in tables, by which other steps refer to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The set that a file is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The thread's own number of an open file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fd: Option<u32>,
    /// The number of the open file whose size is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Bytes of one read or write. An append of 0 bytes makes no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Spread>,
    /// Bytes of one call of a step that moves a whole file; 1M by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Bytes>,
    /// Moves the record at a random position instead of the next one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub random: bool,
    /// Uses the next file of the set each time. The thread keeps all of them open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rotate: bool,
    /// Bytes of each file within which random positions are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Writes with O_DSYNC: the call returns when the data is on the device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dsync: bool,
    /// Uses O_DIRECT.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direct: bool,
    /// The number of times that the step is done before the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Turns of a hog, posts of a semaphore, operations or bytes to finish on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// Seconds of a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The name of the step that this step wakes, posts to or counts the operations of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A post waits while the semaphore has more posts than its high water.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocking: bool,
    /// Posts that a semaphore takes before blocking posts wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<u64>,
    /// The number of the file, modulo the size of the set, instead of the next file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Spread>,
}

impl Step {
    /// Returns a step without attributes.
    pub fn new(op: Op) -> Step {
        Step {
            op,
            name: None,
            set: None,
            fd: None,
            from: None,
            size: None,
            record: None,
            random: false,
            rotate: false,
            working_set: None,
            dsync: false,
            direct: false,
            iterations: None,
            value: None,
            seconds: None,
            target: None,
            blocking: false,
            high_water: None,
            index: None,
        }
    }

    /// Returns the name of the step, or else that of its operation.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.op.name())
    }

    /// Returns the thread's number of the open file; the default is 0.
    pub fn descriptor(&self) -> u32 {
        self.fd.unwrap_or(0)
    }

    /// Returns the attributes that the step has, with their keys.
    pub(super) fn said(&self) -> Vec<(Attribute, &'static str)> {
        let all = [
            (Set, "set", self.set.is_some()),
            (Fd, "fd", self.fd.is_some()),
            (From, "from", self.from.is_some()),
            (Size, "size", self.size.is_some()),
            (Record, "record", self.record.is_some()),
            (Random, "random", self.random),
            (Rotate, "rotate", self.rotate),
            (WorkingSet, "working_set", self.working_set.is_some()),
            (Dsync, "dsync", self.dsync),
            (Direct, "direct", self.direct),
            (Value, "value", self.value.is_some()),
            (Seconds, "seconds", self.seconds.is_some()),
            (Target, "target", self.target.is_some()),
            (Blocking, "blocking", self.blocking),
            (HighWater, "high_water", self.high_water.is_some()),
            (Index, "index", self.index.is_some()),
        ];
        all.into_iter().filter(|(_, _, said)| *said).map(|(attribute, key, _)| (attribute, key)).collect()
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
