//! A small language for what servers do to files: sets of files, threads, and the list of operations of each.
//!
//! It has the notions of filebench's workload model language (file sets, processes and threads, flow operations) as plain
//! data, so that a personality is a table in TOML, and a script of filebench's can be turned into one. Nothing here touches
//! a file: `fsb-engine` performs a flow, and `fsb-compat` translates from filebench.
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
mod durable;
mod spread;
mod step;

use serde::{Deserialize, Serialize};

pub use check::Problem;
pub use spread::{Spread, Width};
pub(crate) use step::is_default;
pub use step::{Attribute, Op, Step};

/// The most files of a set.
pub const MOST_FILES: u64 = 100_000_000;
/// The most threads of a flow, all processes together.
pub const MOST_THREADS: u64 = 1024;
/// The most descriptors that the steps of a thread may name.
pub(crate) const MOST_DESCRIPTORS: u32 = 64;

/// A whole flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What it is called in tables.
    pub name: String,
    /// One line on what it stands for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Events a second that the limiting steps wait for; without it they wait for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// What it means that a step finds no file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quit: Quit,
    /// The sets of files; the first one is what parameters such as `files` refer to.
    #[serde(rename = "fileset")]
    pub filesets: Vec<FileSet>,
    /// The threads.
    #[serde(rename = "thread")]
    pub threads: Vec<Thread>,
}

/// What it means that a step finds no file that it could use.
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
    /// Its name, unique in the flow; also of its directory.
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
    /// Which file a step takes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pick: Pick,
    /// Files are opened for reading only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

/// Which of the files that would do a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The next one after that which was taken last, by whichever thread.
    #[default]
    Rotate,
    /// The next one after a number drawn at random.
    Random,
}

impl Pick {
    /// Both, as help lists them.
    pub const ALL: [Pick; 2] = [Pick::Rotate, Pick::Random];

    /// The word in flows and parameters.
    pub fn name(self) -> &'static str {
        match self {
            Pick::Rotate => "rotate",
            Pick::Random => "random",
        }
    }
}

/// Threads that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its name, unique in the flow.
    pub name: String,
    /// The process that it belongs to. Names are kept; all threads run in one process, each with descriptors of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// How many such processes there are.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub processes: u32,
    /// How many such threads each process has.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub threads: u32,
    /// What each does, again and again.
    pub steps: Vec<Step>,
}

impl Thread {
    /// All of them, of all processes.
    pub fn instances(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.threads)
    }
}

impl Flow {
    /// The flow as TOML; read again it is the same.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a flow has keys that are texts and no value before a table that is none")
    }

    /// All threads, of all processes.
    pub fn instances(&self) -> u64 {
        self.threads.iter().map(Thread::instances).sum()
    }

    /// A set by its name.
    pub fn fileset(&self, name: &str) -> Option<&FileSet> {
        self.filesets.iter().find(|set| set.name == name)
    }
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn one_process() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one_process(value: &u32) -> bool {
    *value == 1
}

#[cfg(test)]
mod tests;
