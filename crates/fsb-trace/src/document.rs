//! The summary of a trace as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::summary::{Direction, Sizes};
use crate::{Gap, Header, Names, Remark, Summary, Totals, TraceNote};

/// The version of the document.
pub const SCHEMA: &str = "fsbench/trace/1";

/// The maximum number of files that are listed one by one.
pub const BUSIEST: usize = 8;

/// The summary of a trace.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    pub schema: &'static str,
    /// The recorded command; empty if names are hidden.
    pub program: String,
    /// The method that observed the calls, such as `ptrace`, `ebpf`, `strace`.
    pub by: String,
    /// The kernel that the trace was recorded on; empty if unknown.
    pub kernel: String,
    /// Seconds from the first call to the end of the last one.
    pub seconds: f64,
    /// Threads and processes.
    pub tasks: u64,
    /// Calls that a replay makes.
    pub calls: u64,
    /// Calls on files outside the root, which the trace lacks.
    pub outside: u64,
    /// The activity that the trace lacks; empty if it is complete.
    pub incomplete: Vec<Remark<Gap>>,
    pub notes: Vec<Remark<TraceNote>>,
    /// The names that existed before the first call.
    pub initial: InitialFiles,
    /// Calls by kind, under the names of strace. `woken` counts wake-ups between threads.
    pub kinds: BTreeMap<&'static str, Calls>,
    pub reads: Moved,
    pub writes: Moved,
    pub syncs: Syncs,
    pub durable_writes: DurableWrites,
    pub files: FileUses,
    pub timeline: Timeline,
}

/// The names before the first call.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InitialFiles {
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    pub with_holes: u64,
    pub directories: u64,
    pub symbolic_links: u64,
}

/// Calls of one kind.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calls {
    pub calls: u64,
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds in them, without the time that recording added.
    pub seconds: f64,
}

/// The successful reads or writes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    pub calls: u64,
    /// Calls that continued where the last one on their descriptor ended.
    pub sequential: u64,
    pub bytes: u64,
    /// Calls by the number of bytes: the lower end of a step, a power of two, and the calls in it.
    pub sizes: Vec<(u64, u64)>,
}

/// The calls that make data durable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Syncs {
    pub calls: u64,
    /// The median of their times, as the lower end of a step; `null` without syncs.
    pub median_seconds: Option<f64>,
    /// The median of the bytes that a thread wrote between two, as the lower end of a step; `null`
    /// without syncs.
    pub median_bytes_between: Option<u64>,
}

/// The writes that are durable when they return: with O_DSYNC, O_SYNC, RWF_DSYNC or RWF_SYNC.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurableWrites {
    pub calls: u64,
    pub bytes: u64,
    /// The median of their times, as the lower end of a step; `null` without durable writes.
    pub median_seconds: Option<f64>,
}

/// The names that the program used.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUses {
    pub names: u64,
    /// Files that an open created.
    pub created: u64,
    pub read: u64,
    pub written: u64,
    pub synced: u64,
    /// Names that several threads used.
    pub shared: u64,
    pub directories: u64,
    /// The maximum number of names in one directory.
    pub largest_directory: u64,
    /// The maximum number of directories above a name.
    pub depth: usize,
    /// The names with the most bytes and calls.
    pub busiest: Vec<FileUse>,
}

/// The use of one name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUse {
    /// The name below the root. Bytes that are not UTF-8 are replaced.
    pub name: String,
    pub calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The calls of a replay and their bytes over time, in slices of equal length.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    pub bin_seconds: f64,
    pub calls: Vec<u64>,
    pub bytes: Vec<u64>,
}

impl Document {
    /// Creates the document of a trace that lasted `duration_ns` nanoseconds.
    pub fn new(
        header: &Header,
        totals: &Totals,
        summary: &Summary,
        names: &Names,
        duration_ns: u64,
    ) -> Document {
        let [files, directories, symbolic_links] = summary.initial;
        let seconds = duration_ns as f64 * 1e-9;
        let kinds = summary.kinds.iter().map(|((_, name), of)| {
            let calls = Calls {
                calls: of.calls,
                failed: of.failed,
                bytes: of.bytes,
                seconds: of.ns as f64 * 1e-9,
            };
            (*name, calls)
        });
        let median = |sizes: &Sizes| (summary.syncs.count > 0).then(|| sizes.quantile(0.5));

        Document {
            schema: SCHEMA,
            program: header.program.clone(),
            by: header.by.clone(),
            kernel: header.kernel.clone(),
            seconds,
            tasks: totals.tasks,
            calls: summary.replayed(),
            outside: totals.outside,
            incomplete: totals.incomplete.clone(),
            notes: totals.notes.clone(),
            initial: InitialFiles {
                files,
                bytes: summary.initial_sizes.sum,
                with_holes: summary.with_holes,
                directories,
                symbolic_links,
            },
            kinds: kinds.collect(),
            reads: Moved::from_direction(&summary.reads),
            writes: Moved::from_direction(&summary.writes),
            syncs: Syncs {
                calls: summary.syncs.count,
                median_seconds: median(&summary.syncs).map(|ns| ns as f64 * 1e-9),
                median_bytes_between: median(&summary.between_syncs),
            },
            durable_writes: DurableWrites {
                calls: summary.durable_writes.count,
                bytes: summary.durable_writes.sum,
                median_seconds: (summary.durable_times.count > 0)
                    .then(|| summary.durable_times.quantile(0.5) as f64 * 1e-9),
            },
            files: FileUses::new(summary, names),
            timeline: Timeline {
                bin_seconds: seconds / summary.timeline.len() as f64,
                calls: summary.timeline.iter().map(|both| both[0]).collect(),
                bytes: summary.timeline.iter().map(|both| both[1]).collect(),
            },
        }
    }
}

impl Moved {
    fn from_direction(direction: &Direction) -> Moved {
        let sizes = &direction.sizes;
        Moved {
            calls: sizes.count,
            sequential: direction.sequential,
            bytes: sizes.sum,
            sizes: sizes.steps(),
        }
    }
}

impl FileUses {
    fn new(summary: &Summary, names: &Names) -> FileUses {
        let files = &summary.files;
        let [read, written, synced] = files.read_written_synced();
        let (directories, largest_directory) = files.directories();
        let busiest = files
            .busiest(BUSIEST)
            .into_iter()
            .map(|(name, file)| FileUse {
                name: String::from_utf8_lossy(names.get(name)).into_owned(),
                calls: file.calls,
                read_bytes: file.read,
                written_bytes: file.written,
            });
        FileUses {
            names: files.count(),
            created: files.created,
            read,
            written,
            synced,
            shared: files.shared(),
            directories,
            largest_directory,
            depth: files.deepest,
            busiest: busiest.collect(),
        }
    }
}
