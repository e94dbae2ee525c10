//! What another tool is asked to do: the rows of a plan, and the targets that they are done on.

use fsb_model::WorkloadSpec;

/// A plan, as far as another tool needs it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan's name, of characters that file names may have.
    pub name: String,
    /// Who wrote it: `fsb 0.1.0`.
    pub author: String,
    /// Decides orders and data.
    pub seed: u64,
    /// How many units of each row are done, where they fit.
    pub units: u64,
    /// Bytes that each target may be filled with.
    pub space: u64,
    /// Where images are made.
    pub dir: String,
    /// In the plan's order.
    pub rows: Vec<Row>,
    /// In the plan's order.
    pub targets: Vec<TargetRecipe>,
}

/// A row of a plan's table.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name: `write 1M, durable`.
    pub label: String,
    pub whole: Piece,
    /// What it is measured in, where that is not the whole.
    pub unit: Option<UnitPiece>,
}

/// Some work with all its parameters.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The member of the registry of workloads, its parameters complete and in numbers.
    pub workload: WorkloadSpec,
    pub operations: u64,
    /// Bytes that its files need.
    pub space: u64,
}

/// The fixed piece of work that a row is measured in.
#[derive(Debug, Clone)]
pub struct UnitPiece {
    /// The work.
    pub piece: Piece,
    /// Each unit has files of its own.
    pub own_files: bool,
}

/// How a target is made and mounted.
#[derive(Debug, Clone)]
pub struct TargetRecipe {
    /// What the user calls it.
    pub name: String,
    pub made: Made,
}

/// The kinds of targets.
#[derive(Debug, Clone)]
pub enum Made {
    /// A directory as it is.
    Directory(String),
    /// A file system; its commands end before the device, and before device and mount point.
    FileSystem {
        /// Makes it; empty where it needs no making.
        mkfs: Vec<String>,
        mount: Vec<String>,
        /// Where it lives.
        source: Source,
    },
    /// It cannot be made by hand, for this reason.
    LeftOut(String),
}

/// Where a file system lives.
#[derive(Debug, Clone)]
pub enum Source {
    /// A loop device over an image of so many bytes, in memory or on the disk.
    Image {
        /// Bytes of the image.
        bytes: u64,
        in_memory: bool,
    },
    /// A block device.
    Device(String),
    /// Nothing but this word, which stands where a device would.
    Word(String),
}

impl Piece {
    /// A parameter that is a number; 0 where there is none.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.workload.params.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    }

    /// A parameter that is a word; empty where there is none.
    pub(crate) fn word(&self, key: &str) -> &str {
        self.workload.params.get(key).and_then(serde_json::Value::as_str).unwrap_or("")
    }

    /// A parameter that is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.workload.params.get(key).and_then(serde_json::Value::as_bool).unwrap_or(false)
    }
}

/// Words that file names, sections and functions of a shell may be made of.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
        if c != '-' || !plain.ends_with('-') {
            plain.push(c);
        }
    }
    plain.trim_matches(['-', '.']).to_owned()
}
