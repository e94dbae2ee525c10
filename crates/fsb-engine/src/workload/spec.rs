//! The parameters that workloads over a file set share, the units that follow from them, and
//! workloads that have no other parameters.

use fsb_model::metric::{MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::{Access, Bytes, CacheState, Durability, Params};
use serde_json::Value;

use super::job::{Job, WorkUnit, Workload};
use super::label;
use super::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use super::params::Reader;
use crate::backend::{self, Backend, Capabilities, Demands};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Layout, MOST_DIRECTORIES, MOST_FILES};
use crate::io_loop::{ByteRange, Files, HELD_FILES};
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement, Sizing};

/// The report compares sequential records from this size on by bytes per second, all others by
/// operations per second.
const BYTES_MATTER: u64 = 64 << 10;
/// A buffer is reserved for each record.
const LARGEST_RECORD: u64 = 1 << 30;
/// The device moves whole blocks of at least this size.
const BLOCK: u64 = 4096;

/// The backends of workloads that make calls on names only; the default first.
pub(crate) const NAMES_BACKENDS: &[&str] = &["psync", "null"];

/// The values that a workload accepts, and its defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) name: &'static str,
    pub(crate) items: Items,
    /// Expressions.
    pub(crate) files: &'static str,
    pub(crate) file_size: &'static str,
    /// The default record; `None` if it follows from the access.
    pub(crate) block_size: Option<&'static str>,
    /// The division of data into operations.
    pub(crate) records: Records,
    /// The first one is the default.
    pub(crate) access: &'static [Access],
    pub(crate) durability: &'static [Durability],
    /// The first one is the default.
    pub(crate) cache: &'static [CacheState],
    /// The backends that it accepts, the default first; any of them if there are none.
    pub(crate) backends: &'static [&'static str],
    /// The reason why it uses one client of a network file system alone.
    pub(crate) one_client: Option<&'static str>,
}

impl Rules {
    /// A workload on many small files that moves no data.
    pub(crate) const BASE: Rules = Rules {
        name: "",
        items: Items::Files,
        files: "min(10000, size/64K)",
        file_size: "4K",
        block_size: None,
        records: Records::None,
        access: &[Access::Sequential, Access::Random],
        durability: Durability::ALL,
        cache: &[CacheState::Any],
        backends: &[],
        one_client: None,
    };

    /// A workload that makes calls on names only, which no other backend makes in its own way.
    pub(crate) const NAMES: Rules = Rules {
        backends: NAMES_BACKENDS,
        ..Rules::BASE
    };

    /// Returns the shared parameters of a workload with these rules.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        use ParameterKind::{Number, Size};
        let each = self.records == Records::Each;
        let (count, per_directory) = match self.items {
            Items::Files if each => (
                "number of files; with processes, of each process",
                "files of each directory",
            ),
            Items::Files => ("number of files", "files of each directory"),
            Items::Directories => (
                "number of directories",
                "directories of each parent directory",
            ),
            Items::Links => (
                "number of symbolic links",
                "symbolic links of each directory",
            ),
        };
        let mut all = group(
            ParameterGroup::Files,
            [
                Parameter::new("files", Number(1..=MOST_FILES), self.files, count),
                Parameter::new(
                    "files_per_directory",
                    Number(1..=MOST_FILES),
                    "1000",
                    per_directory,
                ),
            ],
        );
        if self.items == Items::Files {
            let range = Size(u64::from(each)..=1 << 60);
            let file_size = Parameter::new("file_size", range, self.file_size, "size of each file");
            let file_size = if each { file_size.sweeps() } else { file_size };
            all.splice(1..1, group(ParameterGroup::Files, [file_size]));
            all.extend(group(ParameterGroup::Files, [parameter::data()]));
        }
        if self.records != Records::None {
            let usual =
                ParameterDefault::Derived("4K if access is random, else 1M; at most file_size");
            let default = self.block_size.map_or(usual, ParameterDefault::from);
            let about = if each {
                "size of a record"
            } else {
                "size of each write to a file"
            };
            let block_size = Parameter::new("block_size", Size(1..=LARGEST_RECORD), default, about);
            all.extend(group(
                ParameterGroup::Calls,
                [if each {
                    block_size.sweeps()
                } else {
                    block_size
                }],
            ));
        }
        if each {
            let every =
                "make cases of records below 64K on files from 32M on too, if sizes are lists";
            all.extend(group(
                ParameterGroup::Calls,
                [
                    Parameter::new(
                        "depth",
                        Number(1..=4096),
                        "1",
                        "requests in flight; only backends with a queue",
                    )
                    .sweeps(),
                    Parameter::new(
                        "batch",
                        Number(1..=4096),
                        "1",
                        "requests that are awaited together, at most depth",
                    ),
                    parameter::processes(),
                ],
            ));
            all.extend(group(ParameterGroup::Resolved, [parameter::matrix()]));
            all.extend(group(
                ParameterGroup::Work,
                [Parameter::flag("every_record", every)],
            ));
        }
        let access = "order of records, or of files";
        all.extend(group(
            ParameterGroup::Calls,
            [
                Parameter::word("access", self.access, Access::name, access),
                parameter::backend(self.backends),
                parameter::threads(),
            ],
        ));
        all.extend(group(
            ParameterGroup::State,
            [
                parameter::cache(self.cache),
                parameter::durability(self.durability),
            ],
        ));
        all.extend(group(ParameterGroup::Results, [parameter::label()]));
        all
    }
}

/// The things that the parameters `files` and `files_per_directory` count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    Files,
    /// Directories, each below a directory of the set. They have no `file_size`.
    Directories,
    /// Symbolic links. They have no `file_size`.
    Links,
}

/// The division of data into operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// No data is moved; files may be empty.
    None,
    /// An operation is a whole file, written in records of `block_size`; files may be empty.
    WholeFile,
    /// An operation is a record of `block_size`.
    Each,
}

/// Resolved parameters.
#[derive(Clone)]
pub(crate) struct Spec {
    rules: Rules,
    pub(crate) layout: Layout,
    /// 0 if the workload moves no data.
    pub(crate) block_size: u64,
    /// The part of each file that the work is limited to. `None` if it is the whole file.
    pub(crate) range: Option<ByteRange>,
    pub(crate) access: Access,
    pub(crate) threads: u32,
    /// Each has files of its own, and one thread.
    pub(crate) processes: u32,
    /// Whether this is one case of a matrix of sizes: the label contains both sizes, and all cases
    /// of the matrix are compared by the same metric.
    matrix: bool,
    pub(crate) durability: Durability,
    pub(crate) cache: CacheState,
    pub(crate) backend: &'static dyn Backend,
    /// The backend that labels do not mention.
    usual_backend: &'static str,
    pub(crate) depth: u32,
    /// Requests that a worker awaits together.
    pub(crate) batch: u32,
    label: Option<String>,
}

impl Spec {
    /// Reads the shared parameters; the caller may read further ones and then finishes the reader.
    pub(crate) fn read(rules: Rules, reader: &mut Reader<'_>) -> Result<Spec, ParamError> {
        let access = reader.word("access", Access::ALL, Access::name)?;
        let durability = reader.word("durability", Durability::ALL, Durability::name)?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let mut files = reader.number("files")?;
        let (mut processes, mut matrix) = (1, false);
        if rules.records == Records::Each {
            processes = reader.number("processes")? as u32;
            matrix = reader.flag("matrix")?;
            if reader.flag("every_record")? {
                let message =
                    "it applies only if file_size or block_size is a list or a range: leave it out";
                return Err(reader.error("every_record", message));
            }
            files = files.saturating_mul(u64::from(processes));
            if files > MOST_FILES {
                return Err(reader.error(
                    "processes",
                    format!("{files} files in all are too many: at most {MOST_FILES}"),
                ));
            }
        }
        let file_size = if rules.items == Items::Files {
            reader.number("file_size")?
        } else {
            0
        };
        let files_per_directory = reader.number("files_per_directory")?;
        let layout = Layout {
            files,
            file_size,
            files_per_directory,
        };
        if layout.directories() > MOST_DIRECTORIES {
            let message = format!("{files} files make more than {MOST_DIRECTORIES} directories");
            return Err(reader.error("files_per_directory", message));
        }
        if files
            .checked_mul(file_size.next_multiple_of(BLOCK))
            .is_none_or(|bytes| bytes > 1 << 60)
        {
            return Err(reader.error(
                "file_size",
                format!(
                    "{files} files of {file_size} bytes are too large for any \
                file system"
                ),
            ));
        }
        let usual_backend = rules
            .backends
            .first()
            .copied()
            .unwrap_or(backend::CALLS.name());
        let backend = reader.backend()?;
        let threads = reader.threads()?;
        if threads > 1 && processes > 1 {
            return Err(reader.error(
                "processes",
                "each has one thread: give threads or processes",
            ));
        }
        let label = reader.text("label")?;
        let block_size = 0;
        let (depth, batch) = (1, 1);
        let mut spec = Spec {
            rules,
            layout,
            block_size,
            range: None,
            access,
            threads,
            processes,
            matrix,
            durability,
            cache,
            backend,
            usual_backend,
            depth,
            batch,
            label,
        };
        if rules.records != Records::None {
            spec.read_records(reader)?;
        }
        Ok(spec)
    }

    fn read_records(&mut self, reader: &mut Reader<'_>) -> Result<(), ParamError> {
        let usual = match self.access {
            Access::Random => 4 << 10,
            _ => 1 << 20,
        };
        let file_size = self.layout.file_size;
        self.block_size = reader.number_or("block_size", file_size.clamp(1, usual))?;
        if self.block_size > file_size.max(1) {
            let message = format!(
                "{} is larger than file_size, {}",
                Bytes(self.block_size),
                Bytes(file_size)
            );
            return Err(reader.error("block_size", message));
        }
        if self.rules.records == Records::Each {
            if reader.is_literal("file_size") && !file_size.is_multiple_of(self.block_size) {
                let record = Bytes(self.block_size);
                let message = format!(
                    "{} is not a multiple of a record of {record}: the rest of the file would never be accessed; \
                     choose another file_size or block_size",
                    Bytes(file_size)
                );
                return Err(reader.error("file_size", message));
            }
            // A size that follows from the image's or the memory's is rounded down to whole
            // records.
            self.layout.file_size = file_size / self.block_size * self.block_size;
            self.depth = reader.number("depth")? as u32;
            let batch = reader.number("batch")?;
            self.batch = reader.within("batch", batch, 1..=u64::from(self.depth))? as u32;
        }
        if self.depth > 1 && self.files_per_process() > HELD_FILES {
            let message =
                format!("more than 1 request needs all files open: at most {HELD_FILES} files");
            return Err(reader.error("depth", message));
        }
        let appends = self.rules.name == "append";
        let whole_file = (self.rules.records == Records::WholeFile).then_some(file_size);
        let demands = Demands {
            depth: self.depth,
            cache: self.cache,
            appends,
            record_size: self.block_size,
            whole_file,
        };
        backend::check(self.backend, demands).map_err(|(key, message)| reader.error(key, message))
    }

    /// Reads the shared parameters of a workload that has no others.
    fn parse(rules: Rules, params: &Params, sizing: &Sizing) -> Result<Spec, ParamError> {
        let mut reader = Reader::new(rules.name, rules.parameters(), params, sizing)?;
        let spec = Spec::read(rules, &mut reader)?;
        reader.finish();
        Ok(spec)
    }

    /// Returns the complete parameters: they parse to the same spec.
    pub(crate) fn params(&self) -> Params {
        let mut params = super::params::from_pairs([
            ("access", self.access.name().into()),
            ("backend", self.backend.name().into()),
            ("cache", self.cache.name().into()),
            ("durability", self.durability.name().into()),
            ("files", self.layout.files.into()),
            (
                "files_per_directory",
                self.layout.files_per_directory.into(),
            ),
            ("threads", self.threads.into()),
        ]);
        let mut add = |key: &str, value: Value| params.insert(key.to_owned(), value);
        if self.rules.items == Items::Files {
            add("file_size", self.layout.file_size.into());
        }
        if self.rules.records != Records::None {
            add("block_size", self.block_size.into());
        }
        if self.rules.records == Records::Each {
            add("depth", self.depth.into());
            add("batch", self.batch.into());
            add("files", self.files_per_process().into());
            // Only values that differ from the default, so that a plan of an earlier version
            // resolves to the same case.
            if self.matrix {
                add("matrix", true.into());
            }
            if self.processes > 1 {
                add("processes", self.processes.into());
            }
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params
    }

    /// Returns the number of threads of all processes.
    pub(crate) fn workers(&self) -> u32 {
        self.threads * self.processes
    }

    /// Returns the number of files that each process has for itself; its threads share them.
    pub(crate) fn files_per_process(&self) -> u64 {
        self.layout.files / u64::from(self.processes)
    }

    /// Returns the files of the worker with this rank: those of its process, or all.
    pub(crate) fn files_of(&self, rank: u32) -> Files {
        let count = self.files_per_process();
        Files {
            first: if self.processes > 1 {
                u64::from(rank) * count
            } else {
                0
            },
            count,
        }
    }

    /// Returns the number of items that one pass visits: records, or files.
    pub(crate) fn items(&self) -> u64 {
        match self.rules.records {
            Records::Each => self.layout.files * (self.byte_range().length / self.block_size),
            Records::None | Records::WholeFile => self.layout.files,
        }
    }

    /// Returns the part of each file that the work accesses.
    pub(crate) fn byte_range(&self) -> ByteRange {
        self.range.unwrap_or(ByteRange {
            first: 0,
            length: self.layout.file_size,
        })
    }

    /// Returns the profile of a job that visits each item once. Unless the plan gives a label, the
    /// label begins with `what`.
    pub(crate) fn profile(&self, operation: &'static str, what: String) -> Profile {
        let cold = self.cache.begins_cold();
        let Capabilities { direct, synced, .. } = self.backend.capabilities();
        let record_size = match self.rules.records {
            Records::None => 0,
            Records::WholeFile => self.layout.file_size,
            Records::Each => self.block_size,
        };
        let inodes = self.layout.files + self.layout.directories() + 1;
        let metadata_only = self.rules.records == Records::None;
        Profile {
            files: self.layout.files,
            file_size: self.layout.file_size,
            record_size,
            threads: self.threads,
            processes: self.processes,
            backend: self.backend.name().to_owned(),
            durability: self.durability,
            cache: self.cache,
            matrix: self.matrix,
            renewal: if cold {
                Renewal::Remount
            } else {
                Renewal::Never
            },
            operations: self.items(),
            // With fewer, workers would be idle.
            fewest: self.items().min(self.workers().into()).max(1),
            divisible: true,
            repeats_in_place: !cold,
            reaches_device: cold || direct || synced || self.durability != Durability::None,
            metadata_only,
            // Inodes and directory entries, generously: btrfs keeps two copies. A directory has a
            // block, too.
            space: self.layout.files * self.bytes_of_item().next_multiple_of(BLOCK) + inodes * 2048,
            inodes,
            // Smaller files and records share blocks, or lie in the inode.
            cold_bytes_per_operation: if metadata_only || self.layout.file_size < BLOCK {
                64
            } else {
                record_size
            },
            ..Profile::base(
                operation,
                self.primary(),
                self.label.clone().unwrap_or_else(|| self.label(what)),
            )
        }
    }

    fn bytes_of_item(&self) -> u64 {
        if self.rules.items == Items::Directories {
            BLOCK
        } else {
            self.layout.file_size
        }
    }

    fn primary(&self) -> &'static MetricKind {
        let stream = self.rules.records == Records::Each
            && self.access != Access::Random
            && self.block_size >= BYTES_MATTER;
        if stream || self.matrix {
            &THROUGHPUT
        } else {
            &OPERATION_RATE
        }
    }

    /// Returns whether the plan gives a label.
    pub(crate) fn has_own_label(&self) -> bool {
        self.label.is_some()
    }

    /// Returns `what` and everything else that distinguishes the case.
    fn label(&self, what: String) -> String {
        let mut label = what;
        match self.cache {
            CacheState::Any => {}
            CacheState::Cold => label += ", cold",
            CacheState::Warm => label += ", warm",
            CacheState::Out => label += ", out of cache",
        }
        label += label::durable(self.durability);
        if self.backend.name() != self.usual_backend {
            label = format!("{label}, {}", self.backend.name());
        }
        if self.depth > 1 {
            label = format!("{label}, depth {}", self.depth);
        }
        if self.batch > 1 {
            label = format!("{label} by {}", self.batch);
        }
        label + &label::workers(self.threads, self.processes)
    }

    /// Returns a label such as `read 1M`, `random read 4K`, `read 4K files` or `read 64K of 1M
    /// files`; for a matrix `read 64K, 1M file`.
    pub(crate) fn data_label(&self, verb: &str) -> String {
        let record = label::size(self.block_size);
        let size = label::size(self.layout.file_size);
        match self.files_per_process() {
            1 if self.matrix => format!("{verb} {record}, {size} file"),
            1 => format!("{verb} {record}"),
            _ if self.block_size == self.layout.file_size => format!("{verb} {size} files"),
            _ => format!("{verb} {record} of {size} files"),
        }
    }

    /// Returns a label such as `create 4K files`, `delete empty files` or `random mkdir`.
    pub(crate) fn files_label(&self, verb: &str) -> String {
        let random = if self.access == Access::Random {
            "random "
        } else {
            ""
        };
        match self.layout.file_size {
            _ if self.rules.items != Items::Files => format!("{random}{verb}"),
            0 => format!("{random}{verb} empty files"),
            size => format!("{random}{verb} {} files", label::size(size)),
        }
    }
}

// Units: the fixed pieces of a workload's work that samples consist of.
//
// The workload alone defines a unit: it is the same for every target and every budget, and begins
// in a state that the workload defines. Some work uses this state up: new files grow, files are
// deleted, cold data become warm. Then each unit has its own files in its own directory, so that no
// unit finds the changes of another one. Otherwise (warm reads, writes over written files) all
// units share one set.

/// A unit with its own files has as many whole directories as are necessary for this number of
/// files.
const FILES_OF_UNIT: u64 = 500;
/// If the workload's directories are larger, a unit has one directory with this number of files.
const LARGEST_DIRECTORY_OF_UNIT: u64 = 1000;
/// Fewer names may fit into the memory that a mounted file system holds beside its own tables.
const HELD_NAMES: u64 = 500;
/// Bytes of a unit's own file.
const UNIT_FILE_BYTES: u64 = 16 << 20;
/// Operations of a unit that waits for the device after each of them.
const WAITED_FOR: u64 = 128;
/// The maximum number of bytes that a unit moves through the page cache.
const CACHED_UNIT_BYTES: u64 = 256 << 20;

/// The change that a unit makes to the files of its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None, except for that of the job's [`Renewal`].
    Nothing,
    /// The work replaces the contents or attributes of files.
    Overwritten,
    /// The work makes files grow.
    Grown,
    /// The work gives each file another name; the next pass restores the name.
    Renamed,
}

/// Returns the unit of a job over a file set; `parse` makes a job of other parameters. Returns
/// `None` if the workload is unsplittable: files that do not fit memory, work of several processes,
/// a case of a matrix.
pub(super) fn unit_of_set<J: Job>(
    job: &J,
    spec: &Spec,
    change: Change,
    parse: impl FnOnce(&Params) -> Option<J>,
) -> Option<WorkUnit> {
    let profile = job.profile();
    if spec.cache == CacheState::Out || spec.processes > 1 || spec.matrix {
        return None;
    }
    let mut params = job.params();
    let there_and_back = change == Change::Renamed && comes_back(&profile, spec);
    let own_files = change == Change::Grown
        || profile.cache.begins_cold()
        || profile.renewal == Renewal::Recreate && !there_and_back
        || !profile.repeats_in_place;
    // A mounted file system holds some memory beside its own tables, with the first inodes in it:
    // some 100 KB for ext2 and ext4. With a few names, nothing would be read after the first round.
    let held = profile.metadata_only && spec.layout.files < HELD_NAMES;
    let only_warmed =
        own_files && change == Change::Nothing && profile.renewal == Renewal::Remount && !held;
    // If a pass ends with other work, a unit is a whole pass, so the pass must be small.
    let passes = profile.renewal == Renewal::Inside || profile.durability == Durability::End;
    let profile = if own_files || passes || there_and_back {
        smaller(&mut params, spec);
        parse(&params)?.profile()
    } else {
        profile
    };
    let operations = if there_and_back {
        2 * profile.operations
    } else {
        operations(&profile, passes)
    };
    Some(WorkUnit {
        operations,
        params,
        own_files,
        only_warmed,
    })
}

/// Returns whether two passes over a unit restore the names of all its files: each thread does the
/// same number of whole passes over its share of them.
fn comes_back(profile: &Profile, spec: &Spec) -> bool {
    let shared = unit_files(spec).is_multiple_of(u64::from(spec.threads));
    shared && profile.repeats_in_place && profile.durability != Durability::Each
}

/// Reduces the number of files, or the size of a single one. Directories stay as large as the
/// workload's, because the size determines the form in which a file system stores a directory.
/// Between two forms it may cost several times as much: xfs forces its log at each block that a
/// directory of 500 files releases and takes again while all are renamed.
fn smaller(params: &mut Params, spec: &Spec) {
    let layout = &spec.layout;
    if layout.files > 1 {
        params.insert("files".to_owned(), unit_files(spec).into());
    } else if layout.file_size > 0 {
        let record = spec.block_size.max(1);
        // Threads share the records of the file.
        let least = record * u64::from(spec.threads);
        let bytes = (UNIT_FILE_BYTES / record * record)
            .max(least)
            .min(layout.file_size);
        params.insert("file_size".to_owned(), bytes.into());
    }
}

fn unit_files(spec: &Spec) -> u64 {
    let Layout {
        files,
        files_per_directory,
        ..
    } = spec.layout;
    // If each thread has a directory of its own, it has one in a unit, too.
    if files == files_per_directory.saturating_mul(spec.threads.into())
        && files_per_directory <= LARGEST_DIRECTORY_OF_UNIT
    {
        return files;
    }
    let directory = files_per_directory.min(LARGEST_DIRECTORY_OF_UNIT);
    let whole = FILES_OF_UNIT.div_ceil(directory) * directory;
    whole.max(u64::from(spec.threads)).min(spec.layout.files)
}

fn operations(profile: &Profile, passes: bool) -> u64 {
    let pass = profile.operations.max(1);
    if passes || !profile.divisible {
        return pass;
    }
    let most = match profile.record_size {
        _ if profile.durability == Durability::Each => WAITED_FOR * u64::from(profile.threads),
        0 => return pass,
        record if profile.reaches_device => {
            (UNIT_FILE_BYTES / record).min(4 * WAITED_FOR * u64::from(profile.threads))
        }
        record => CACHED_UNIT_BYTES / record,
    };
    pass.min(most.max(1))
}

/// A workload that takes the shared parameters and no others: its rules, and its work on a set of
/// files.
#[derive(Clone, Copy)]
pub(super) struct SimpleWorkload {
    pub(super) rules: Rules,
    pub(super) about: &'static str,
    pub(super) example: fn() -> Params,
    /// The content of the files before the clock starts.
    pub(super) content: Content,
    /// The change that the measurement makes to these files.
    pub(super) change: Change,
    pub(super) profile: fn(&Spec) -> Profile,
    pub(super) measure:
        fn(&Spec, &Profile, &Context, &mut dyn Gate) -> Result<Measurement, EngineError>,
}

impl Workload for SimpleWorkload {
    fn name(&self) -> &'static str {
        self.rules.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        (self.example)()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.rules.parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(SimpleJob {
            member: *self,
            spec: Spec::parse(self.rules, params, sizing)?,
        }))
    }
}

struct SimpleJob {
    member: SimpleWorkload,
    spec: Spec,
}

impl Job for SimpleJob {
    fn profile(&self) -> Profile {
        (self.member.profile)(&self.spec)
    }

    fn params(&self) -> Params {
        self.spec.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn one_client(&self) -> Option<&'static str> {
        self.member.rules.one_client
    }

    fn unit(&self) -> Option<WorkUnit> {
        unit_of_set(self, &self.spec, self.member.change, |params| {
            let sizing = Sizing { size: 0, cpus: 1 };
            Some(SimpleJob {
                member: self.member,
                spec: Spec::parse(self.member.rules, params, &sizing).ok()?,
            })
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.member.content)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        (self.member.measure)(&self.spec, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}
