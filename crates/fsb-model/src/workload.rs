//! The description of a workload in a plan, and the terms that all workloads share.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::units::{Bytes, Seconds};

/// Parameters by name. Only the member of the registry that they are for reads them, and it refuses
/// unknown names.
pub type Params = BTreeMap<String, Value>;

/// A workload as a plan names it: a member of the registry and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadSpec {
    /// The name in the registry of workloads.
    pub name: String,
    /// The duration of its samples, if it differs from the plan's. From 1 second on, the workload
    /// is measured in sequential trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_time: Option<Seconds>,
    /// The number of times that the target's journal is written before the workload ends. Only the
    /// rate in the steady state counts, which begins when a quarter of these writes is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustain: Option<f64>,
    /// The work that runs meanwhile; absent if the workload runs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Background>,
    /// The parameters.
    #[serde(flatten)]
    pub params: Params,
}

/// The parameter with which all runs of a command share a directory.
pub const REUSE: &str = "reuse";
/// The end of the label of a command whose runs share a directory.
pub const REUSED_DIRECTORY: &str = ", reused directory";

/// The parameter with which a command must print the same on all targets.
pub const VERIFY_SAME: &str = "verify_same";
/// The parameter that names an existing directory for a command to run in.
pub const DIRECTORY: &str = "directory";

impl WorkloadSpec {
    /// Returns whether all runs of a command in a trial share one directory.
    pub fn repeats_in_one_directory(&self) -> bool {
        let reuses = self.params.get(REUSE).is_some_and(|reuse| *reuse == true);
        self.name == "command" && reuses && !self.params.contains_key(DIRECTORY)
    }

    /// Returns a workload that runs alone and whose samples last as long as its plan says.
    pub fn new(name: impl Into<String>, params: Params) -> WorkloadSpec {
        WorkloadSpec {
            name: name.into(),
            sample_time: None,
            sustain: None,
            background: None,
            params,
        }
    }

    /// Returns the same workload without its background.
    #[must_use]
    pub fn alone(&self) -> WorkloadSpec {
        WorkloadSpec {
            background: None,
            ..self.clone()
        }
    }

    /// Returns whether the two differ at most in their backgrounds. Such cases are measured next to
    /// each other.
    pub fn has_subject_of(&self, other: &WorkloadSpec) -> bool {
        (&self.name, &self.sample_time, &self.sustain, &self.params)
            == (
                &other.name,
                &other.sample_time,
                &other.sustain,
                &other.params,
            )
    }
}

/// The key of a background, in plans and among the parameters of trials.
pub const BACKGROUND: &str = "background";

/// A workload that runs on the target while another one is measured, and is repeated until that one
/// has ended.
///
/// A plan writes a table with the name and the parameters, a table with a `command`, or the name
/// alone. With `target`, the background runs on that target of the plan instead, which is idle
/// otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "WrittenBackground")]
pub struct Background {
    /// The name in the registry of workloads.
    pub name: String,
    /// The name of the target that it runs on; absent for the target of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The limits of its processes and files; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<BackgroundLimit>,
    /// Whether its files are in a subvolume of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subvolume: bool,
    /// Whether it works on the files of the case and has none of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_files: bool,
    /// The parameters.
    #[serde(flatten)]
    pub params: Params,
}

/// The properties of the directory of a background that other directories on its target lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnDirectory {
    /// It is a subvolume.
    pub subvolume: bool,
    /// The bytes that a quota leaves to it.
    pub space: Option<Bytes>,
}

/// The limits that cgroups set for the processes of a background, and a quota for its files. At
/// least one is present.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackgroundLimit {
    /// Seconds of processor time per second, such as 0.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Bytes of memory with page cache. The kernel takes back what exceeds them, and slows the
    /// processes down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Bytes that the processes read from the disk in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bps: Option<Bytes>,
    /// Bytes that the processes write to the disk in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bps: Option<Bytes>,
    /// Requests with which the processes read from the disk in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Requests with which the processes write to the disk in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// The weight of the processes' I/O against 100 of the case: a share of the disk's time, not a
    /// limit while the case is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub io_weight: Option<u64>,
    /// Bytes of its files: the quota of a project, or of a subvolume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Bytes>,
}

impl BackgroundLimit {
    /// Reads the limits from a table.
    ///
    /// # Errors
    /// Returns the reason if a key is unknown, if a value is not above 0, or if the table is empty.
    fn parse(table: Value) -> Result<BackgroundLimit, String> {
        let limit: BackgroundLimit =
            serde_json::from_value(table).map_err(|error| format!("limit: {error}"))?;
        let BackgroundLimit {
            cpus,
            memory,
            read_bps,
            write_bps,
            read_iops,
            write_iops,
            io_weight,
            space,
        } = limit;
        if io_weight.is_some_and(|weight| !IO_WEIGHTS.contains(&weight)) {
            return Err(format!(
                "limit: io_weight is from {} to {}",
                IO_WEIGHTS.start(),
                IO_WEIGHTS.end()
            ));
        }
        let sizes = [memory, read_bps, write_bps, space].map(|size| size.map(|bytes| bytes.0 > 0));
        let rates = [read_iops, write_iops, io_weight].map(|rate| rate.map(|rate| rate > 0));
        let all = sizes
            .into_iter()
            .chain(rates)
            .chain([cpus.map(|cpus| cpus >= LEAST_CPUS && cpus.is_finite())]);
        match all.flatten().reduce(|one, other| one && other) {
            Some(true) => Ok(limit),
            Some(false) => Err(format!(
                "limit: every value is above 0, and cpus is at least {LEAST_CPUS}"
            )),
            None => Err("limit: it has no key, such as write_bps = \"20M\"".to_owned()),
        }
    }

    /// Returns the limits that cgroups set, which is all but that of the files. Returns `None` if
    /// there are no others.
    pub fn of_processes(&self) -> Option<BackgroundLimit> {
        let others = BackgroundLimit {
            space: None,
            ..*self
        };
        (others != BackgroundLimit::default()).then_some(others)
    }

    /// Returns the limits on the disk of the background as the files of cgroup version 2 name them,
    /// with their values.
    pub fn of_disk(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("rbps", self.read_bps.map(|bytes| bytes.0)),
            ("wbps", self.write_bps.map(|bytes| bytes.0)),
            ("riops", self.read_iops),
            ("wiops", self.write_iops),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The smallest share of a processor: a millisecond in each period of 100 ms, below which the
/// kernel accepts no quota.
const LEAST_CPUS: f64 = 0.01;

/// The weights that the kernel accepts (`io.weight` of cgroup version 2).
const IO_WEIGHTS: RangeInclusive<u64> = 1..=10_000;

impl fmt::Display for BackgroundLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackgroundLimit {
            cpus,
            memory,
            read_bps,
            write_bps,
            read_iops,
            write_iops,
            io_weight,
            space,
        } = *self;
        let size = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string());
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let all = [
            ("cpus", cpus.map(|cpus| cpus.to_string())),
            ("memory", size(memory)),
            ("read_bps", size(read_bps)),
            ("write_bps", size(write_bps)),
            ("read_iops", number(read_iops)),
            ("write_iops", number(write_iops)),
            ("io_weight", number(io_weight)),
            ("space", size(space)),
        ];
        let texts: Vec<_> = all
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key} {}", value?)))
            .collect();
        f.write_str(&texts.join(", "))
    }
}

/// The forms in which a plan gives a background.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "expected the name of a workload, or a table with its name and parameters"
)]
enum WrittenBackground {
    Name(String),
    Table {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        target: Option<String>,
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(with = "Option<BackgroundLimit>"))]
        limit: Option<Value>,
        #[serde(default)]
        subvolume: bool,
        #[serde(default)]
        same_files: bool,
        #[serde(flatten)]
        params: Params,
    },
}

impl TryFrom<WrittenBackground> for Background {
    type Error = String;

    fn try_from(written: WrittenBackground) -> Result<Background, String> {
        const COMMAND: &str = "command";
        match written {
            WrittenBackground::Name(name) => Ok(Background {
                name,
                ..Background::default()
            }),
            WrittenBackground::Table {
                name,
                target,
                limit,
                subvolume,
                same_files,
                params,
            } => {
                let own = params.contains_key(COMMAND).then(|| COMMAND.to_owned());
                let name = name
                    .or(own)
                    .ok_or("a background needs the name of a workload, such as { name = \"write\" }, or a command")?;
                let limit = limit.map(BackgroundLimit::parse).transpose()?;
                Ok(Background {
                    name,
                    target,
                    limit,
                    subvolume,
                    same_files,
                    params,
                })
            }
        }
    }
}

impl Background {
    /// Returns it as a workload, without its target.
    pub fn spec(&self) -> WorkloadSpec {
        WorkloadSpec::new(self.name.clone(), self.params.clone())
    }

    /// Returns the directory that its files need. Returns `None` if any will do.
    pub fn own_directory(&self) -> Option<OwnDirectory> {
        let own = OwnDirectory {
            subvolume: self.subvolume,
            space: self.limit.and_then(|limit| limit.space),
        };
        (own != OwnDirectory::default()).then_some(own)
    }
}

/// Takes the name and the parameters of a workload. The parameter `target` names the target,
/// `limit` is the table of limits, `subvolume` and `same_files` are Booleans.
impl TryFrom<WorkloadSpec> for Background {
    type Error = String;

    fn try_from(
        WorkloadSpec {
            name, mut params, ..
        }: WorkloadSpec,
    ) -> Result<Background, String> {
        let limit = params
            .remove("limit")
            .map(BackgroundLimit::parse)
            .transpose()?;
        let target = params.remove("target").map(|target| match target {
            Value::String(target) => target,
            // The command line reads a name such as `2` as a number.
            other => other.to_string(),
        });
        let [subvolume, same_files] =
            ["subvolume", "same_files"].map(|key| match params.remove(key) {
                None => Ok(false),
                Some(Value::Bool(value)) => Ok(value),
                Some(other) => Err(format!("{key}: {other} is neither true nor false")),
            });
        Ok(Background {
            name,
            target,
            limit,
            subvolume: subvolume?,
            same_files: same_files?,
            params,
        })
    }
}

/// Limits of the programs of one command, in one worker. Each is in force from the start and cannot
/// be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLimits {
    /// Processes and threads that may exist at once.
    pub processes: u64,
    /// Files that each process may have open.
    pub files: u64,
    /// Bytes that each process may allocate (`RLIMIT_DATA`); absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl ProgramLimits {
    /// Open files that a process may have until it raises its own limit: the default of Linux
    /// distributions.
    pub const SOFT_FILES: u64 = 1024;
}

impl Default for ProgramLimits {
    /// An eighth of the process numbers that Linux has by default (32,768), so that several targets
    /// side by side leave most of them to everything else.
    fn default() -> ProgramLimits {
        ProgramLimits {
            processes: 4096,
            files: 65_536,
            memory: None,
        }
    }
}

/// The time at which data must be on the device. It is part of a cell's name, because the three
/// differ by factors of 10 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The clock stops when the calls return.
    #[default]
    None,
    /// One fsync a file, or one syncfs for a set of files, inside the clock.
    End,
    /// fdatasync after every write, fsync after every created file, inside the clock.
    Each,
}

/// The content of the page cache, of the workload's files, when the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// The state after the preparation, for workloads that make their data themselves.
    #[default]
    Any,
    /// Nothing; checked by device reads and residency.
    Cold,
    /// Everything; checked by residency before and after, and by the absence of device reads.
    Warm,
    /// Nothing, and the files do not fit the memory that may cache them; checked by the bytes that
    /// the device moved and by the bytes left in memory.
    Out,
}

impl CacheState {
    /// Returns whether nothing may be in memory when the clock starts.
    pub fn begins_cold(self) -> bool {
        matches!(self, CacheState::Cold | CacheState::Out)
    }
}

/// The order in which data is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// From the first byte to the last.
    #[default]
    Sequential,
    /// A seeded permutation: every block once before any block twice.
    Random,
    /// From the last block to the first.
    Backward,
    /// Every n-th block, then every n-th from the second on, until each block was accessed once.
    Strided,
    /// One block again and again.
    Same,
}

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),* }) => {
        impl $type {
            /// All values, in the order in which help lists them.
            pub const ALL: &[$type] = &[$($type::$variant),*];
            /// Returns the word in plans, records and tables.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }
        }
    };
}
names!(Durability { None = "none", End = "end", Each = "each" });
names!(CacheState { Any = "any", Cold = "cold", Warm = "warm", Out = "out" });
names!(Access {
    Sequential = "sequential", Random = "random", Backward = "backward", Strided = "strided", Same = "same"
});

/// The amount of work of one trial of a cell: fixed by calibration before block 1, the same for all
/// targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Amount {
    /// The number of times that the state is restored and the clock started again. The times of all
    /// samples are summed.
    pub repetitions: u32,
    /// Operations in one repetition.
    pub operations: u64,
    /// Milliseconds after which a repetition ends, regardless of the work done; absent if it ends
    /// with its operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

impl Amount {
    /// Returns an amount of `operations` operations in each of `repetitions` repetitions.
    pub fn new(repetitions: u32, operations: u64) -> Amount {
        Amount {
            repetitions,
            operations,
            until_ms: None,
        }
    }
}

/// A workload of a plan, with resolved parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// The name in tables, unique in a plan: `write 1M, durable`.
    pub label: String,
    /// The member of the registry of workloads and its parameters, all of them, with sizes as
    /// numbers.
    pub workload: WorkloadSpec,
}

// Maintenance of a file system: operations on the whole of it, which need root.

/// An operation on a whole file system. The agent performs it, because workers are not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maintenance {
    /// A check of the unmounted file system that repairs nothing.
    Check,
    /// A freeze and a thaw of the mounted file system: FIFREEZE and FITHAW, as fsfreeze(8).
    Freeze,
    /// The creation of an empty subvolume.
    Subvolume,
    /// The creation of a read-only snapshot.
    Snapshot,
    /// The creation of a snapshot that can be written.
    SnapshotWritable,
    /// The deletion of a snapshot, until it is committed.
    SnapshotDelete,
    /// The output of a snapshot as a stream.
    Send,
    /// The output of the changes between two snapshots as a stream.
    SendIncremental,
    /// The reduction of the mounted file system by a quarter of its size.
    Shrink,
    /// The defragmentation of all files of the mounted file system.
    Defragment,
    /// A check of the mounted file system's checksums that repairs nothing.
    Scrub,
}

impl Maintenance {
    /// Every operation.
    pub const ALL: [Maintenance; 11] = [
        Maintenance::Check,
        Maintenance::Freeze,
        Maintenance::Subvolume,
        Maintenance::Snapshot,
        Maintenance::SnapshotWritable,
        Maintenance::SnapshotDelete,
        Maintenance::Send,
        Maintenance::SendIncremental,
        Maintenance::Shrink,
        Maintenance::Defragment,
        Maintenance::Scrub,
    ];

    /// Returns whether it can be repeated while the file system is in use, as the background of a
    /// case. The others unmount, freeze or shrink it, or rewrite the files of the case.
    pub fn goes_beside_work(self) -> bool {
        matches!(
            self,
            Maintenance::Subvolume
                | Maintenance::Snapshot
                | Maintenance::SnapshotWritable
                | Maintenance::SnapshotDelete
                | Maintenance::Send
                | Maintenance::SendIncremental
        )
    }

    /// Returns the name in workloads.
    pub fn name(self) -> &'static str {
        match self {
            Maintenance::Check => "fsck",
            Maintenance::Freeze => "freeze",
            Maintenance::Subvolume => "subvolume",
            Maintenance::Snapshot => "snapshot",
            Maintenance::SnapshotWritable => "snapshot-writable",
            Maintenance::SnapshotDelete => "snapshot-delete",
            Maintenance::Send => "send",
            Maintenance::SendIncremental => "send-incremental",
            Maintenance::Shrink => "shrink",
            Maintenance::Defragment => "defragment",
            Maintenance::Scrub => "scrub",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WorkloadSpec, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_background_is_a_name_a_table_or_a_command() {
        let background = |text: &str| {
            read(&format!(r#"{{"name":"read","background":{text}}}"#)).map(|spec| spec.background)
        };
        let plain = Background {
            name: "write".to_owned(),
            ..Background::default()
        };
        assert_eq!(
            background(r#""write""#).expect("a name"),
            Some(plain.clone())
        );
        let sized = background(r#"{"name":"write","block_size":"1M"}"#)
            .expect("a table")
            .expect("a background");
        assert_eq!(
            (sized.name.as_str(), &sized.params["block_size"]),
            ("write", &"1M".into())
        );
        let hog = background(r#"{"command":"yes > /dev/null"}"#)
            .expect("a command")
            .expect("a background");
        assert_eq!((hog.name.as_str(), hog.params.len()), ("command", 1));
        let elsewhere = background(r#"{"name":"write","target":"noise"}"#)
            .expect("a table")
            .expect("a background");
        assert_eq!(
            (elsewhere.target.as_deref(), elsewhere.params.len()),
            (Some("noise"), 0)
        );
        let typed = WorkloadSpec::new("write", [("target".to_owned(), "noise".into())].into());
        assert_eq!(Background::try_from(typed), Ok(elsewhere.clone()));
        let apart = background(r#"{"name":"write","subvolume":true}"#)
            .expect("a table")
            .expect("a background");
        assert_eq!(
            apart.own_directory(),
            Some(OwnDirectory {
                subvolume: true,
                space: None
            })
        );
        assert_eq!((apart.params.len(), elsewhere.own_directory()), (0, None));
        let typed =
            |value: Value| WorkloadSpec::new("write", [("subvolume".to_owned(), value)].into());
        assert_eq!(Background::try_from(typed(true.into())), Ok(apart.clone()));
        let shared = background(r#"{"name":"write","same_files":true}"#)
            .expect("a table")
            .expect("a background");
        assert!(shared.same_files && shared.own_directory().is_none() && shared.params.is_empty());
        let error = Background::try_from(typed("yes".into())).expect_err("it is a text");
        assert!(error.contains("neither true nor false"), "{error}");
        let written = serde_json::to_string(&apart).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Background>(&written).expect("a background"),
            apart
        );
        let error = background(r#"{"block_size":"1M"}"#)
            .expect_err("it has no name")
            .to_string();
        assert!(error.contains("needs the name of a workload"), "{error}");
        let written = serde_json::to_string(&sized).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Background>(&written).expect("a background"),
            sized
        );
        let written = serde_json::to_string(&elsewhere).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Background>(&written).expect("a background"),
            elsewhere
        );
    }

    #[test]
    fn a_limit_has_known_keys_above_0() {
        let background = |limit: Value| {
            let params = [
                ("limit".to_owned(), limit),
                ("block_size".to_owned(), "1M".into()),
            ]
            .into();
            Background::try_from(WorkloadSpec::new("write", params))
        };
        let limited =
            background(serde_json::json!({"cpus": 0.5, "write_bps": "20M"})).expect("limits");
        let limit = limited.limit.expect("a limit");
        assert_eq!(limit.to_string(), "cpus 0.5, write_bps 20M");
        assert_eq!(limit.of_disk().collect::<Vec<_>>(), [("wbps", 20 << 20)]);
        assert_eq!(limited.params.keys().collect::<Vec<_>>(), ["block_size"]);
        let written = serde_json::to_string(&limited).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Background>(&written).expect("a background"),
            limited
        );
        assert_eq!(
            (limit.of_processes(), limited.own_directory()),
            (Some(limit), None)
        );
        let of_space = background(serde_json::json!({"space": "1G"})).expect("a limit");
        assert_eq!(of_space.limit.expect("a limit").of_processes(), None);
        assert_eq!(
            of_space.own_directory(),
            Some(OwnDirectory {
                subvolume: false,
                space: Some(Bytes(1 << 30))
            })
        );
        for (limit, word) in [
            (serde_json::json!({}), "no key"),
            (serde_json::json!({"space": 0}), "above 0"),
            (serde_json::json!({"write_bps": 0}), "above 0"),
            (serde_json::json!({"io_weight": 10_001}), "from 1 to 10000"),
            (serde_json::json!({"cpus": 0.001}), "at least"),
            (serde_json::json!({"wbps": "20M"}), "unknown field `wbps`"),
            (serde_json::json!("20M"), "limit"),
        ] {
            let error = background(limit.clone()).expect_err("no limit");
            assert!(error.contains(word), "{limit}: {error}");
        }
    }

    #[test]
    fn a_workload_alone_has_the_subject_of_the_one_beside_a_background() {
        let beside =
            read(r#"{"name":"read","cache":"cold","background":"write"}"#).expect("a workload");
        let alone = beside.alone();
        assert!(alone.background.is_none() && alone != beside);
        assert!(
            alone.has_subject_of(&beside)
                && !alone.has_subject_of(&WorkloadSpec::new("read", Params::new()))
        );
    }
}
