//! A small language for the work of servers on files: sets of files, threads, and the list of operations of each
//! thread.
//!
//! It has the notions of filebench's workload model language (file sets, processes and threads, flow operations) as
//! plain data. A personality is a table in TOML, and a filebench script can be translated into one. Nothing here
//! touches a file: `fsb-engine` performs a flow, and `fsb-compat` translates from filebench.
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
    /// Its name, unique in the flow.
    pub name: String,
    /// The process that it belongs to. Names are kept; all threads run in one process, each with descriptors of its
    /// own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// The number of such processes.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub processes: u32,
    /// The number of such threads in each process.
    #[serde(default = "one_process", skip_serializing_if = "is_one_process")]
    pub threads: u32,
    /// The steps, which each thread repeats.
    pub steps: Vec<Step>,
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
        toml::to_string(self).expect("a flow has keys that are texts and no value before a table that is none")
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
