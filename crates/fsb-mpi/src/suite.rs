//! Suites: groups of phases on the same files, as TOML files have them; and the request of a job,
//! which has one.

use fsb_engine::backend;
use fsb_model::nearest::unknown;
use fsb_model::{Bytes, Params, Target};
use serde::{Deserialize, Serialize};

/// The suites of the program, by name.
pub const SUITES: &[(&str, &str)] = &[
    ("parallel", include_str!("../suites/parallel.toml")),
    ("io500-like", include_str!("../suites/io500-like.toml")),
];

/// The most transfers, files or locks of a rank in a phase.
const MOST_OPERATIONS: u64 = 1 << 24;
/// The most directories of a tree.
const MOST_DIRECTORIES: u64 = 1 << 16;

/// Backends of one call at a time. `null` makes no calls.
const BACKENDS: &[&str] = &["psync", "direct", "osync", "dsync", "null"];

/// The directories, the suite and the repetition of a job. Rank 0 sends it to all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The directories, with their names in tables. The first one is the baseline.
    pub targets: Vec<Target>,
    /// The name of the suite.
    pub suite_name: String,
    /// The suite.
    pub suite: Suite,
    /// Measured blocks. A block of warm-up comes before them.
    pub blocks: u32,
    /// The numbers of ranks that take part in a case.
    pub ranks: Vec<usize>,
    /// Decides the content of files and random orders.
    pub seed: u64,
}

/// A list of groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The groups, in the order in which a block measures them.
    pub groups: Vec<Group>,
    /// The score of the suite, if it has one.
    #[serde(default)]
    pub score: Option<Score>,
}

/// The way in which the rates of a suite become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// The square root of the product of the geometric mean of bandwidths in GiB/s and that of
    /// rates in kIOPS.
    Io500Like,
}

/// The files that ranks share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shared {
    /// All ranks use one file (N-to-1).
    File,
    /// Each rank has its own files (N-to-N), all of them in the same directories.
    Directory,
    /// Each rank has its own files in directories of its own.
    None,
}

/// The places of a rank's transfers in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Each segment of the file has a contiguous block of each rank, one after the other.
    #[default]
    Segmented,
    /// Transfers of all ranks alternate: rank r has the transfers r, r + n, r + 2n, ….
    Strided,
    /// As segmented, but each rank makes its transfers in random order.
    Random,
}

/// The work of all ranks between two barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Each rank writes its part of the data.
    Write,
    /// Each rank reads the data of another rank.
    Read,
    /// Each rank creates its files.
    Create,
    /// Each rank calls stat on the files of another rank.
    Stat,
    /// Each rank opens, reads and closes the files of another rank.
    Scan,
    /// Each rank removes the files of another rank.
    Delete,
    /// Each rank takes and releases an exclusive lock on the same bytes of one file.
    Lock,
}

impl Phase {
    /// Returns the operation on a file, as records have it.
    pub fn operation(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::Read | Phase::Scan => "read",
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Delete => "delete",
            Phase::Lock => "lock",
        }
    }

    /// Returns whether the phase moves data, so that its rate is in bytes.
    pub fn moves_data(self) -> bool {
        matches!(self, Phase::Write | Phase::Read)
    }

    /// Returns whether the phase needs the result of the first phase of its group.
    pub fn needs_files(self) -> bool {
        !matches!(self, Phase::Write | Phase::Create | Phase::Lock)
    }
}

/// Phases on the same files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The phases, in their order.
    pub phases: Vec<Phase>,
    /// The files that ranks share.
    pub shared: Shared,
    /// The places of transfers in a file.
    #[serde(default)]
    pub layout: Layout,
    /// Contiguous bytes of a rank in a segment.
    #[serde(default = "block_size")]
    pub block_size: Bytes,
    /// Bytes of a call.
    #[serde(default = "transfer_size")]
    pub transfer_size: Bytes,
    /// Segments of the file.
    #[serde(default = "one")]
    pub segments: u64,
    /// Files of a rank.
    #[serde(default = "one")]
    pub files: u64,
    /// Bytes of each of these files.
    #[serde(default = "nothing")]
    pub file_size: Bytes,
    /// Levels of directories below the directory of the files.
    #[serde(default)]
    pub depth: u32,
    /// Directories in each directory above the last level.
    #[serde(default = "one")]
    pub branching: u64,
    /// Locks that a rank takes.
    #[serde(default = "one")]
    pub locks: u64,
    /// The backend that moves data: `psync`, `direct`, ….
    #[serde(default = "psync")]
    pub backend: String,
    /// Whether the clock stops when the results of writing, creating and deleting are durable.
    #[serde(default)]
    pub durable: bool,
}

fn block_size() -> Bytes {
    Bytes(16 << 20)
}

fn transfer_size() -> Bytes {
    Bytes(1 << 20)
}

fn nothing() -> Bytes {
    Bytes(0)
}

fn one() -> u64 {
    1
}

fn psync() -> String {
    "psync".to_owned()
}

impl Suite {
    /// Parses and checks a suite.
    ///
    /// # Errors
    /// Names the group, from 1, and the parameter at fault.
    pub fn parse(text: &str) -> Result<Suite, String> {
        let suite: Suite = toml::from_str(text).map_err(|error| error.to_string())?;
        for (number, group) in (1..).zip(&suite.groups) {
            group
                .check()
                .map_err(|why| format!("group {number}: {why}"))?;
        }
        if suite.groups.is_empty() {
            return Err("it has no groups".to_owned());
        }
        Ok(suite)
    }

    /// Returns the phases of all groups, in the order in which a block measures them.
    pub fn phases(&self) -> impl Iterator<Item = (&Group, Phase)> {
        self.groups
            .iter()
            .flat_map(|group| group.phases.iter().map(move |phase| (group, *phase)))
    }

    /// Returns the suite of the program with that name.
    ///
    /// # Errors
    /// Suggests the most similar name.
    pub fn named(name: &str) -> Result<Suite, String> {
        let known = SUITES.iter().find(|(known, _)| *known == name);
        match known {
            Some((_, text)) => Suite::parse(text),
            None => Err(unknown("suite", name, SUITES.iter().map(|(name, _)| *name))),
        }
    }
}

impl Group {
    /// Returns whether the group touches files. The backend `null` does not.
    pub fn is_real(&self) -> bool {
        backend::find(&self.backend).is_ok_and(|backend| backend.capabilities().real)
    }

    /// Returns whether the group moves data in large files. Other groups have many files, or locks.
    pub fn moves_data(&self) -> bool {
        self.phases.iter().any(|phase| phase.moves_data())
    }

    /// Returns the number of calls of a rank in a phase.
    pub fn operations(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Write | Phase::Read => {
                self.segments * (self.block_size.0 / self.transfer_size.0)
            }
            Phase::Create | Phase::Stat | Phase::Scan | Phase::Delete => self.files,
            Phase::Lock => self.locks,
        }
    }

    /// Returns the bytes that a rank moves in a phase.
    pub fn bytes(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Write | Phase::Read => self.operations(phase) * self.transfer_size.0,
            Phase::Create | Phase::Scan => self.files * self.file_size.0,
            Phase::Stat | Phase::Delete | Phase::Lock => 0,
        }
    }

    /// Returns whether the clock of a phase covers a flush.
    pub fn flushes(&self, phase: Phase) -> bool {
        self.durable && matches!(phase, Phase::Write | Phase::Create | Phase::Delete)
    }

    /// Returns the name of a phase in tables: `write 1M, shared file, strided, durable, 4 ranks`.
    pub fn label(&self, phase: Phase, ranks: usize) -> String {
        let mut parts = Vec::new();
        let random = if self.layout == Layout::Random {
            "random "
        } else {
            ""
        };
        parts.push(match phase {
            Phase::Write | Phase::Read => {
                format!("{random}{} {}", phase.operation(), self.transfer_size)
            }
            Phase::Lock => "lock".to_owned(),
            Phase::Scan if self.file_size.0 > 0 => format!("read {} files", self.file_size),
            Phase::Create if self.file_size.0 > 0 => format!("create {} files", self.file_size),
            _ => format!("{} files", phase.operation()),
        });
        parts.push(
            match (self.shared, self.moves_data()) {
                (Shared::File, _) => "shared file",
                (Shared::Directory, true) => "file per rank",
                (Shared::None, true) => "file and directory per rank",
                (Shared::Directory, false) => "shared directory",
                (Shared::None, false) => "directory per rank",
            }
            .to_owned(),
        );
        if self.layout == Layout::Strided && self.shared == Shared::File {
            parts.push("strided".to_owned());
        }
        if self.backend != "psync" {
            parts.push(self.backend.clone());
        }
        if self.flushes(phase) {
            parts.push("durable".to_owned());
        }
        parts.push(format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" }));
        parts.join(", ")
    }

    /// Returns all parameters of a phase, as records have them.
    pub fn params(&self, phase: Phase, ranks: usize) -> Params {
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut params: Params = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        params.remove("phases");
        let unused: &[&str] = match phase {
            Phase::Write | Phase::Read => &["files", "file_size", "depth", "branching", "locks"],
            Phase::Lock => &[
                "files",
                "file_size",
                "depth",
                "branching",
                "block_size",
                "transfer_size",
                "segments",
                "layout",
            ],
            _ => &["locks", "block_size", "transfer_size", "segments", "layout"],
        };
        params.retain(|key, _| !unused.contains(&key.as_str()));
        let durability = if self.flushes(phase) { "end" } else { "none" };
        params.remove("durable");
        params.extend([
            ("durability".to_owned(), durability.into()),
            ("ranks".to_owned(), ranks.into()),
        ]);
        params.insert("name".to_owned(), self.name(phase).into());
        params
    }

    /// Returns the name of a phase among workloads.
    pub fn name(&self, phase: Phase) -> String {
        format!("parallel-{}", phase.operation())
    }

    /// Returns the number of directories of the tree, its root included.
    pub fn directories(&self) -> u64 {
        let mut level = 1u64;
        let mut all = 1u64;
        for _ in 0..self.depth {
            level = level.saturating_mul(self.branching);
            all = all.saturating_add(level);
        }
        all
    }

    fn check(&self) -> Result<(), String> {
        let capabilities = backend::find(&self.backend)
            .map_err(|error| error.message)?
            .capabilities();
        let first = *self.phases.first().ok_or("phases: it has none")?;
        if first.needs_files() {
            return Err(format!(
                "phases: '{}' needs files: begin with write or create",
                first.operation()
            ));
        }
        if !self.phases.iter().all(|phase| {
            (phase.moves_data(), *phase == Phase::Lock)
                == (first.moves_data(), first == Phase::Lock)
        }) {
            return Err(
                "phases: write and read, those of files, and lock need groups of their own"
                    .to_owned(),
            );
        }
        let mut sorted = self.phases.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("phases: each is measured once in a group".to_owned());
        }
        if let Some(at) = self.phases.iter().position(|phase| *phase == Phase::Delete)
            && at + 1 < self.phases.len()
        {
            return Err("phases: delete is the last one".to_owned());
        }
        if first == Phase::Create && self.shared == Shared::File
            || first == Phase::Lock && self.shared != Shared::File
        {
            return Err("shared: creates need 'directory' or 'none', and locks 'file'".to_owned());
        }
        if !BACKENDS.contains(&self.backend.as_str()) {
            return Err(format!(
                "backend: ranks make one call at a time: use psync, direct, osync or dsync, not {}",
                self.backend
            ));
        }
        let (block, transfer) = (self.block_size.0, self.transfer_size.0);
        if self.moves_data() && (transfer < 8 || !block.is_multiple_of(transfer) || block == 0) {
            return Err(
                "block_size: it is not a multiple of transfer_size, which has 8 bytes at least"
                    .to_owned(),
            );
        }
        if self.moves_data() && !transfer.is_multiple_of(capabilities.granule) {
            let granule = capabilities.granule;
            return Err(format!(
                "transfer_size: not a multiple of {granule} bytes, as backend {} needs",
                self.backend
            ));
        }
        if !self.moves_data() && capabilities.direct {
            return Err("backend: direct is for write and read".to_owned());
        }
        if transfer > 1 << 30 || self.file_size.0 > 1 << 30 {
            return Err("transfer_size and file_size: at most 1G".to_owned());
        }
        if self.directories() > MOST_DIRECTORIES {
            return Err(format!(
                "depth and branching: more than {MOST_DIRECTORIES} directories"
            ));
        }
        for phase in &self.phases {
            let blocks = (block / transfer.max(1)).checked_mul(self.segments);
            let count = if phase.moves_data() {
                blocks.unwrap_or(u64::MAX)
            } else {
                self.operations(*phase)
            };
            if !(1..=MOST_OPERATIONS).contains(&count) {
                return Err(format!(
                    "{count} operations of a rank: 1 to {MOST_OPERATIONS} are possible"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn suites_of_the_program_are_valid_and_their_labels_differ() {
        for (name, _) in SUITES {
            let suite = Suite::named(name).unwrap_or_else(|why| panic!("{name}: {why}"));
            let cells: Vec<String> = suite
                .phases()
                .map(|(group, phase)| group.label(phase, 4))
                .collect();
            assert_eq!(
                cells.iter().collect::<BTreeSet<_>>().len(),
                cells.len(),
                "{name}: {cells:?}"
            );
        }
        assert!(
            Suite::named("paralell")
                .unwrap_err()
                .contains("did you mean 'parallel'")
        );
    }

    #[test]
    fn impossible_groups_are_refused_by_parameter() {
        for (group, why) in [
            ("phases = []\nshared = 'file'", "phases: it has none"),
            (
                "phases = ['read']\nshared = 'file'",
                "begin with write or create",
            ),
            (
                "phases = ['write', 'stat']\nshared = 'file'",
                "groups of their own",
            ),
            (
                "phases = ['write', 'write']\nshared = 'file'",
                "measured once",
            ),
            (
                "phases = ['create', 'delete', 'stat']\nshared = 'none'",
                "delete is the last one",
            ),
            (
                "phases = ['create']\nshared = 'file'",
                "shared: creates need",
            ),
            ("phases = ['lock']\nshared = 'none'", "locks 'file'"),
            (
                "phases = ['write']\nshared = 'file'\ntransfer_size = '3M'",
                "not a multiple of transfer_size",
            ),
            (
                "phases = ['write']\nshared = 'file'\nbackend = 'direct'\ntransfer_size = 1000\nblock_size = 1000",
                "backend direct needs",
            ),
            (
                "phases = ['write']\nshared = 'file'\nbackend = 'uring'",
                "use psync, direct",
            ),
            (
                "phases = ['create']\nshared = 'none'\nfiles = 0",
                "0 operations",
            ),
            (
                "phases = ['create']\nshared = 'none'\ndepth = 9\nbranching = 9",
                "directories",
            ),
            (
                "phases = ['write']\nshared = 'file'\nsegments = 4294967296",
                "operations of a rank",
            ),
            ("phases = ['write']\nshared = 'all'", "unknown variant"),
            (
                "phases = ['write']\nshared = 'file'\nsize = 3",
                "unknown field",
            ),
        ] {
            let refused = Suite::parse(&format!("[[groups]]\n{group}\n")).unwrap_err();
            assert!(refused.contains(why), "{group}: {refused}");
        }
    }
}
