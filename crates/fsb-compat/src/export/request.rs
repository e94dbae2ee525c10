//! The input of an exporter: the cases of a plan, and the targets that they run on.

use fsb_model::WorkloadSpec;

/// A plan, as far as another tool needs it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan's name, of characters that file names may have.
    pub name: String,
    /// The program that wrote the plan: `fsb 0.1.0`.
    pub author: String,
    /// The seed of orders and data.
    pub seed: u64,
    /// The number of units of each case, reduced if they do not fit on the target.
    pub units: u64,
    /// Bytes that each target may be filled with.
    pub space: u64,
    /// The directory of the images.
    pub dir: String,
    /// In the plan's order.
    pub rows: Vec<ExportCase>,
    /// In the plan's order.
    pub targets: Vec<TargetRecipe>,
}

/// A case of a plan.
#[derive(Debug, Clone)]
pub struct ExportCase {
    /// Its name: `write 1M, durable`.
    pub label: String,
    pub whole: Piece,
    /// The unit that fsb measures the case in; `None` if fsb measures the whole.
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

/// The fixed piece of work that fsb measures a case in.
#[derive(Debug, Clone)]
pub struct UnitPiece {
    /// The work.
    pub piece: Piece,
    /// Each unit has files of its own.
    pub own_files: bool,
}

/// A target, and the commands that create and mount it.
#[derive(Debug, Clone)]
pub struct TargetRecipe {
    /// The user's name of the target.
    pub name: String,
    pub made: Made,
}

/// The kinds of targets.
#[derive(Debug, Clone)]
pub enum Made {
    /// A directory as it is.
    Directory(String),
    /// A file system. `mkfs` lacks only the device, `mount` only the device and the mount point.
    FileSystem {
        /// The command that creates it; empty if it needs none.
        mkfs: Vec<String>,
        mount: Vec<String>,
        /// The device of the file system.
        source: Source,
    },
    /// The script cannot create it, for this reason.
    LeftOut(String),
}

/// The device of a file system.
#[derive(Debug, Clone)]
pub enum Source {
    /// A loop device over an image, in memory or on the disk.
    Image {
        /// Bytes of the image.
        bytes: u64,
        in_memory: bool,
    },
    /// A block device.
    Device(String),
    /// No device: the word that replaces it in the commands.
    Word(String),
}

impl Piece {
    /// Returns a parameter as a number, or 0 if it has no such value.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.workload.params.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    }

    /// Returns a parameter as a word, or an empty text if it has no such value.
    pub(crate) fn word(&self, key: &str) -> &str {
        self.workload.params.get(key).and_then(serde_json::Value::as_str).unwrap_or("")
    }

    /// Returns whether a parameter is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.workload.params.get(key).and_then(serde_json::Value::as_bool).unwrap_or(false)
    }
}

/// Replaces the characters that file names, sections and shell functions cannot contain.
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
