//! A small language for the work of servers on files: sets of files, threads, and the list of
//! operations of each thread.
//!
//! It has the notions of filebench's workload model language (file sets, processes and threads,
//! flow operations) as plain data. A personality is a table in TOML, and a filebench script can be
//! translated into one. Nothing here touches a file: `fsb-engine` performs a flow, and `fsb-compat`
//! translates from filebench.
//!
//! ```toml
//! name = "mail"
//! [[fileset]]
//! name = "mails"
//! files = 1000
//! size = { mean = "16K", gamma = 1.5 }
//! preallocated = 0.8
//! [[thread]]
//! name = "reader"
//! threads = 16
//! steps = [
//!     { op = "open", set = "mails", fd = 1 },
//!     { op = "read-whole", fd = 1, record = "1M" },
//!     { op = "close", fd = 1 },
//! ]
//! ```

mod check;

use Attribute::{
    Blocking, Direct, Dsync, Fd, From, HighWater, Index, Random, Record, Rotate, Seconds, Set,
    Size, Target, Value, WorkingSet,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Bytes;

pub use check::Problem;

/// The maximum number of files of a set.
pub const MOST_FILES: u64 = 100_000_000;
/// The maximum number of threads of a flow, all processes together.
pub const MOST_THREADS: u64 = 1024;
/// The maximum number of descriptors that the steps of a thread may name.
const MOST_DESCRIPTORS: u32 = 64;

/// A whole flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The name in tables.
    pub name: String,
    /// A description of the modelled work, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Events per second, which the limiting steps wait for. Without a rate they do not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The effect of a step that finds no file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quit: Quit,
    /// The sets of files; the first one is what parameters such as `files` refer to.
    #[serde(rename = "fileset")]
    pub filesets: Vec<FileSet>,
    /// The threads.
    #[serde(rename = "thread")]
    pub threads: Vec<Thread>,
}

/// The effect of a step that finds no file that it could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quit {
    /// The set is too small for its threads: an error.
    #[default]
    Never,
    /// The work is done, and all threads end.
    FirstDone,
    /// The thread's work is done; the others go on.
    AllDone,
}

/// A set of files in a tree of directories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// The name of the set and of its directory, unique in the flow.
    pub name: String,
    /// Files that may exist.
    pub files: u64,
    /// Empty directories that may exist, for the steps that make and remove them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directories: u64,
    /// Bytes of a file when it is whole.
    pub size: Spread,
    /// Entries of a directory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub width: Width,
    /// The share of files, and of empty directories, that exists before the clock starts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub preallocated: f64,
    /// The rule by which a step picks a file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pick: Pick,
    /// Files are opened for reading only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

/// The rule by which a step picks one of the files that it could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The file after the one that any thread picked last.
    #[default]
    Rotate,
    /// The next usable file after a random number.
    Random,
}

impl Pick {
    /// Both rules, in the order of the help.
    pub const ALL: [Pick; 2] = [Pick::Rotate, Pick::Random];

    /// Returns the word in flows and parameters.
    pub fn name(self) -> &'static str {
        match self {
            Pick::Rotate => "rotate",
            Pick::Random => "random",
        }
    }
}

/// Threads with the same steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The name, unique in the flow.
    pub name: String,
    /// The process that it belongs to. Names are kept; all threads run in one process, each with
    /// descriptors of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// The number of such processes.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub processes: u32,
    /// The number of such threads in each process.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub threads: u32,
    /// The steps, which each thread repeats.
    pub steps: Vec<FlowStep>,
}

impl Thread {
    /// Returns the number of these threads in all processes.
    pub fn instances(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.threads)
    }
}

impl Flow {
    /// Returns the flow as TOML, which parses to the same flow.
    pub fn to_toml(&self) -> String {
        toml::to_string(self)
            .expect("a flow has keys that are texts and no value before a table that is none")
    }

    /// Returns the number of threads in all processes.
    pub fn instances(&self) -> u64 {
        self.threads.iter().map(Thread::instances).sum()
    }

    /// Returns the set of that name.
    pub fn fileset(&self, name: &str) -> Option<&FileSet> {
        self.filesets.iter().find(|set| set.name == name)
    }
}

fn one() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn one_process() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one_process(value: &u32) -> bool {
    *value == 1
}

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
    /// Writes an open file from its beginning to the size that it, or the file open at `from`,
    /// shall have.
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

    /// Returns whether the operation works on files and is counted. The other operations wait,
    /// limit the rate or compute.
    pub fn is_counted(self) -> bool {
        self as u8 <= Op::RemoveDirectory as u8
    }

    /// Returns whether the operation moves data. Such a step may name a set instead of an open
    /// descriptor: the file is then opened beforehand.
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
pub struct FlowStep {
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
    /// Opens the file with O_SYNC, as filebench does for `dsync` on Linux: a write returns when its
    /// data and attributes are on the device.
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

impl FlowStep {
    /// Returns a step without attributes.
    pub fn new(op: Op) -> FlowStep {
        FlowStep {
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
    fn said(&self) -> Vec<(Attribute, &'static str)> {
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
        all.into_iter()
            .filter(|(_, _, said)| *said)
            .map(|(attribute, key, _)| (attribute, key))
            .collect()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A size, or a distribution of sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// A fixed number of bytes.
    Exact(Bytes),
    /// A gamma distribution with this mean and shape. The scale is mean / shape.
    Gamma {
        /// Mean in bytes.
        mean: Bytes,
        /// Shape, above 0.
        shape: f64,
    },
    /// A uniform distribution of whole numbers from `low` to below `high`.
    Uniform {
        /// The smallest size.
        low: Bytes,
        /// One more than the largest size.
        high: Bytes,
    },
}

impl Spread {
    /// Returns the mean in bytes, rounded down.
    pub fn mean(&self) -> u64 {
        match *self {
            Spread::Exact(size) => size.0,
            Spread::Gamma { mean, .. } => mean.0,
            Spread::Uniform { low, high } => low.0.midpoint(high.0.saturating_sub(1)),
        }
    }

    /// Returns the same distribution around another mean.
    #[must_use]
    pub fn with_mean(&self, to: u64) -> Spread {
        match *self {
            Spread::Exact(_) => Spread::Exact(Bytes(to)),
            Spread::Gamma { shape, .. } => Spread::Gamma {
                mean: Bytes(to),
                shape,
            },
            Spread::Uniform { low, high } => {
                let half = (high.0.saturating_sub(low.0) / 2).min(to);
                Spread::Uniform {
                    low: Bytes(to - half),
                    high: Bytes(to.saturating_add(half).saturating_add(1)),
                }
            }
        }
    }

    /// Returns the reason why the parameters are invalid, or `None` if they are valid.
    fn problem(&self) -> Option<String> {
        match *self {
            Spread::Exact(_) => None,
            Spread::Gamma { shape, .. } => (!(shape > 0.0 && shape <= 1e6))
                .then(|| format!("gamma = {shape} is not above 0 and at most 1000000")),
            Spread::Uniform { low, high } => (low >= high)
                .then(|| format!("low = {low} is not below high = {high}, which is never reached")),
        }
    }
}

/// Entries of a directory: a mean and a distribution. Filebench's default is a gamma distribution
/// of shape 1.5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Width {
    /// Mean number of entries.
    pub mean: u64,
    /// Shape of the gamma distribution; 0 if all directories have the mean.
    pub shape: f64,
}

impl Width {
    /// The shape that filebench uses by default.
    pub const SHAPE: f64 = 1.5;
}

/// The default is so wide that one directory holds all files.
impl Default for Width {
    fn default() -> Width {
        Width {
            mean: 1_000_000,
            shape: Width::SHAPE,
        }
    }
}

/// The serialized form: a number or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(Bytes),
    Gamma(Gamma),
    Uniform(Uniform),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gamma {
    mean: Bytes,
    gamma: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uniform {
    low: Bytes,
    high: Bytes,
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let why =
            "a size is \"16K\", { mean = \"16K\", gamma = 1.5 } or { low = 0, high = \"16K\" }";
        match Written::deserialize(deserializer) {
            Ok(Written::Number(size)) => Ok(Spread::Exact(size)),
            Ok(Written::Gamma(Gamma { mean, gamma })) => Ok(Spread::Gamma { mean, shape: gamma }),
            Ok(Written::Uniform(Uniform { low, high })) => Ok(Spread::Uniform { low, high }),
            Err(_) => Err(serde::de::Error::custom(why)),
        }
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Spread::Exact(size) => size.serialize(serializer),
            Spread::Gamma { mean, shape } => Gamma { mean, gamma: shape }.serialize(serializer),
            Spread::Uniform { low, high } => Uniform { low, high }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer) {
            Ok(Written::Number(mean)) => Ok(Width {
                mean: mean.0,
                shape: 0.0,
            }),
            Ok(Written::Gamma(Gamma { mean, gamma })) => Ok(Width {
                mean: mean.0,
                shape: gamma,
            }),
            _ => Err(serde::de::Error::custom(
                "a width is 20 or { mean = 20, gamma = 1.5 }",
            )),
        }
    }
}

impl Serialize for Width {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mean = Bytes(self.mean);
        if self.shape == 0.0 {
            mean.serialize(serializer)
        } else {
            Gamma {
                mean,
                gamma: self.shape,
            }
            .serialize(serializer)
        }
    }
}

impl Flow {
    /// Returns whether the flow writes, and each write is on the device before its thread closes
    /// the file: the write goes with `dsync`, or an fsync follows before the close.
    pub fn is_durable_each(&self) -> bool {
        let mut writes = false;
        for thread in &self.threads {
            writes |= thread.steps.iter().any(|step| step.op.writes());
            if !thread.is_durable_each() {
                return false;
            }
        }
        writes
    }
}

impl Thread {
    fn is_durable_each(&self) -> bool {
        self.steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.op.writes() && !step.dsync)
            .all(|(index, step)| {
                let rest = &self.steps[index + 1..];
                let dsync = self.steps[..index].iter().rev().find(|open| {
                    matches!(open.op, Op::Create | Op::Open)
                        && open.descriptor() == step.descriptor()
                });
                let next = rest
                    .iter()
                    .filter(|other| {
                        other.descriptor() == step.descriptor()
                            || (other.op == Op::SyncSet && other.set.is_some())
                    })
                    .find(|other| matches!(other.op, Op::Sync | Op::SyncSet | Op::Close));
                dsync.is_some_and(|open| open.dsync)
                    || next.is_some_and(|next| next.op != Op::Close)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    const MAIL: &str = r#"
name = "mail"
about = "a mail server"
[[fileset]]
name = "mails"
files = 1000
size = { mean = "16K", gamma = 1.5 }
width = { mean = 20, gamma = 1.5 }
preallocated = 0.8
[[thread]]
name = "reader"
threads = 16
steps = [
    { op = "delete", set = "mails" },
    { op = "create", set = "mails", fd = 1 },
    { op = "append", fd = 1, size = { low = 0, high = "16K" } },
    { op = "sync", fd = 1 },
    { op = "close", fd = 1 },
    { op = "open", set = "mails", fd = 1 },
    { op = "read-whole", fd = 1, record = "1M" },
    { op = "close", fd = 1 },
]
"#;

    fn changed(from: &str, to: &str) -> Result<Flow, String> {
        assert!(MAIL.contains(from), "{from}");
        Flow::from_toml(&MAIL.replace(from, to))
    }

    #[test]
    fn a_flow_survives_its_own_text() {
        let flow = Flow::from_toml(MAIL).unwrap();
        assert_eq!(Flow::from_toml(&flow.to_toml()).unwrap(), flow);
        assert_eq!(
            flow.filesets[0].size,
            Spread::Gamma {
                mean: Bytes(16 << 10),
                shape: 1.5
            }
        );
        assert_eq!(
            (flow.instances(), flow.filesets[0].size.mean()),
            (16, 16 << 10)
        );
        assert!(flow.is_durable_each());
        assert!(
            !changed("{ op = \"sync\", fd = 1 },", "")
                .unwrap()
                .is_durable_each()
        );
    }

    #[test]
    fn every_operation_has_the_name_that_it_is_written_with() {
        for op in Op::ALL {
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
        }
    }

    #[test]
    fn errors_name_their_place() {
        for (from, to, said) in [
            (
                "set = \"mails\" }",
                "set = \"mail\" }",
                "thread reader, step 1 (delete): unknown fileset 'mail': did you mean 'mails'?",
            ),
            (
                "op = \"sync\", fd = 1",
                "op = \"sync\", fd = 2",
                "step 4 (sync): fd 2 is not open",
            ),
            (
                "{ op = \"sync\", fd = 1 },\n    { op = \"close\", fd = 1 },",
                "",
                "fd 1 is still open",
            ),
            (
                "fd = 1, record = \"1M\"",
                "fd = 1, random = true",
                "step 7 (read-whole): read-whole takes no random",
            ),
            (
                ", size = { low = 0, high = \"16K\" }",
                "",
                "append needs a size",
            ),
            (
                "low = 0",
                "low = \"32K\"",
                "low = 32K is not below high = 16K",
            ),
            ("size = { mean", "size = { maen", "a size is \"16K\""),
            (
                "gamma = 1.5 }\nwidth",
                "gamma = 0 }\nwidth",
                "gamma = 0 is not above 0",
            ),
            ("threads = 16", "threads = 5000", "from 1 to 1024"),
            (
                "preallocated = 0.8",
                "preallocated = 80",
                "not a share from 0 to 1",
            ),
            (
                "op = \"delete\"",
                "op = \"unlink\"",
                "unknown variant `unlink`",
            ),
            (
                "files = 1000",
                "files = 1000\nfilez = 3",
                "unknown field `filez`",
            ),
        ] {
            let error = changed(from, to).unwrap_err();
            assert!(error.contains(said), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn a_set_named_where_nothing_is_open_is_opened_beforehand() {
        let flow = changed(
            "{ op = \"delete\", set = \"mails\" },",
            "{ op = \"append\", set = \"mails\", fd = 2, size = 100 },",
        )
        .unwrap();
        let beforehand = flow.threads[0].beforehand();
        assert_eq!(beforehand.len(), 1);
        assert_eq!((beforehand[0].0, beforehand[0].1.op), (2, Op::Append));
        assert!(!flow.is_durable_each());
    }
}
