//! What parameters of workloads are about, for people who write plans.
//!
//! Which ones a workload has, only its own reading of them knows; what each means stands here once.

use fsb_model::Params;

use super::Workload;
use crate::Sizing;

/// A parameter of some workloads.
#[derive(Debug)]
pub struct Parameter {
    /// As plans have it.
    pub name: &'static str,
    /// What a value looks like: `size`, `number`, `true or false`.
    pub kind: &'static str,
    /// What it decides.
    pub about: &'static str,
}

const fn of_kind(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind, about }
}

const SIZE: &str = "size: 4K, 16M, size/8";
const NUMBER: &str = "number";
const COUNTS: &str = "number, list, or range: 4, [1, 8], \"1..4*cpus\"";
const FLAG: &str = "true or false";
const TEXT: &str = "text";
const COMMAND: &str = "line for a shell, or list of words";
const SHARE: &str = "percent: \"70%\"";

/// Every parameter of every workload.
static REGISTRY: &[Parameter] = &[
    of_kind("access", "word", "the order of records or files: sequential, random, strided, backward, same"),
    of_kind("archive", "path", "the archive that is unpacked; absent: one is made up"),
    of_kind("backend", "word", "how calls reach the kernel: see 'fsb list backends'"),
    of_kind("batch", NUMBER, "requests that are waited for together, where depth is more than 1"),
    of_kind("bias_create", "number from -1 to 10", "of ten creations and deletions, how many create; -1: none of them"),
    of_kind("bias_read", "number from -1 to 10", "of ten reads and appends, how many read; -1: none of them"),
    of_kind("block_count", NUMBER, "records that an iteration moves"),
    of_kind("block_size", SIZE, "bytes of a record; a list or range (\"4K..1M\") makes a row of each"),
    of_kind("buffering", FLAG, "through the C library's buffers, as PostMark's 'set buffering true'"),
    of_kind("cache", "word", "what memory holds when the clock starts: any, warm, cold, out"),
    of_kind("calls", NUMBER, "calls of the trace, so that another one is noticed"),
    of_kind("cleanup", COMMAND, "what runs after each trial"),
    of_kind("close", FLAG, "files are closed at the end of each pass, inside the clock"),
    of_kind("command", COMMAND, "what is run in the target's directory, and timed"),
    of_kind("compile", FLAG, "sources are compiled, by as many jobs as 'jobs' says"),
    of_kind("content", "word", "what files of a made-up archive hold"),
    of_kind("copy", "word", "how a file is copied: by reading and writing, in the kernel, by reflink"),
    of_kind("cycles", NUMBER, "measured cycles of iterations"),
    of_kind(
        "data",
        "table: { compressible = \"60%\", duplicate = \"10%\" }",
        "what compression and deduplication may save",
    ),
    of_kind("depth", COUNTS, "requests under way at once; backends that queue only"),
    of_kind("durability", "word", "when data must be on the device: none, end (one sync inside the clock), each"),
    of_kind("every_record", FLAG, "large files get small records too, in a matrix of sizes"),
    of_kind("file_count", NUMBER, "files of an iteration"),
    of_kind("file_limit", NUMBER, "files that each process of the command may have open"),
    of_kind("file_size", SIZE, "bytes of each file; a list or range (\"64K..512M\") makes a row of each"),
    of_kind("files", "number, or size/N", "how many files"),
    of_kind("files_per_directory", NUMBER, "a directory is full with so many"),
    of_kind("flow", "text in TOML", "the operations of each thread: docs/flow.md"),
    of_kind("force", FLAG, "a trace that is incomplete is replayed all the same"),
    of_kind("input", "path, or list of paths", "what is copied into the target before all else"),
    of_kind("iterations", NUMBER, "iterations of a cycle"),
    of_kind("jobs", NUMBER, "compilers at once; 0: one a processor"),
    of_kind("label", TEXT, "what the row is called"),
    of_kind("lock", "word", "what is locked while it is moved: record, file"),
    of_kind("matrix", FLAG, "one of a matrix of sizes: a budget may choose among them"),
    of_kind("memory_limit", SIZE, "memory that each process of the command may allocate; 0: all"),
    of_kind(
        "metric",
        "tables: [{ name = \"tps\", pattern = \"tps = ([0-9.]+)\", better = \"higher\" }]",
        "numbers that the command prints: a regular expression with a group, or a pointer into JSON; the first is compared",
    ),
    of_kind("mix", SHARE, "the share of reads among operations"),
    of_kind("mode", "word", "what is asked of fallocate"),
    of_kind("network", "true or false", "whether the command shares the network of this machine"),
    of_kind("number", NUMBER, "files of PostMark's pool"),
    of_kind("ok_exit", "number, or list of numbers", "exit codes of the command that are no failures"),
    of_kind("operation", "word", "what is done with the tree: copy-into, copy-within, delete, …"),
    of_kind("overwrite", FLAG, "files hold all their bytes before they are written"),
    of_kind("p99_below", "time: \"10ms\"", "the bound of the 99th percentile that a range of rates is held against"),
    of_kind("pace", "recorded, none, or a factor", "how long a replay thinks between calls"),
    of_kind("phase", "word", "what is timed: one phase, or all"),
    of_kind("pick", "word", "how a thread chooses its next file"),
    of_kind("prepare", COMMAND, "what runs before each run of the command, outside the clock"),
    of_kind("prepare_inside", FLAG, "the worker that measures runs 'prepare' itself; units of rounds have it"),
    of_kind("process_limit", NUMBER, "processes and threads that the command may have at once"),
    of_kind("processes", NUMBER, "workers that share nothing, each with files of its own"),
    of_kind("random", FLAG, "records at random places"),
    of_kind(
        "rate",
        "rate, list or range: \"2000/s\", \"1000..32000/s\"",
        "operations started a second, whether those before are done or not; 0 in flows: as fast as they can",
    ),
    of_kind("read", SIZE, "bytes of a read of PostMark's"),
    of_kind("scale", "number", "the tree is so many times as large"),
    of_kind(
        "service",
        "tables: [{ command = \"…\", ready = \"…\", stop = \"SIGINT\" }]",
        "programs that run beside the command, such as a database's server",
    ),
    of_kind("set", "word", "a published set of files"),
    of_kind("setup", COMMAND, "what runs once for each trial, before all else"),
    of_kind("shape", "path", "the shape of a tree, as 'fsb' recorded it"),
    of_kind("size_high", SIZE, "the largest file of PostMark's pool"),
    of_kind("size_low", SIZE, "the smallest file of PostMark's pool"),
    of_kind("stride", NUMBER, "records from one visit to the next, where access is strided"),
    of_kind("subdirectories", NUMBER, "directories of PostMark's pool; 0: all in one"),
    of_kind("threads", COUNTS, "threads of the worker; 0: one a processor"),
    of_kind("time_limit", "time: \"10min\"", "how long the command may take, and what runs before and after it"),
    of_kind("trace", "path", "what is replayed: a file that fsb record wrote"),
    of_kind("transactions", NUMBER, "transactions of PostMark's"),
    of_kind("tree", "path", "a directory whose tree is copied"),
    of_kind(
        "verify",
        "true or false; a command",
        "what is read is compared with what was written; a command is run after each run",
    ),
    of_kind("warmup_cycles", NUMBER, "cycles before the measured ones"),
    of_kind("width", NUMBER, "entries of a directory of the set"),
    of_kind("writable", "path, or list of paths", "directories beside the target that programs may write into"),
    of_kind("write", SIZE, "bytes of a write of PostMark's"),
];

/// The parameters of a workload, in alphabetical order.
pub fn of(workload: &dyn Workload) -> Vec<&'static Parameter> {
    // What no parameter is called; the refusal names those that there are.
    const NOBODY: &str = "?";
    let mut params = workload.example();
    params.insert(NOBODY.to_owned(), true.into());
    let mut known = match workload.parse(&params, &Sizing { size: 1 << 31, cpus: 2 }) {
        Err(error) => error.known,
        Ok(_) => Vec::new(),
    };
    // Read by all, before the workload's own.
    known.push("data");
    let mut known: Vec<&Parameter> = REGISTRY.iter().filter(|parameter| known.contains(&parameter.name)).collect();
    known.sort_by_key(|parameter| parameter.name);
    known
}

/// What its parameters are where a plan says nothing; those of its example where it must say something.
pub fn defaults(workload: &dyn Workload, sizing: &Sizing) -> Params {
    let of = |params: &Params| workload.parse(params, sizing).map(|job| job.params());
    of(&Params::new()).or_else(|_| of(&workload.example())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::REGISTRY as WORKLOADS;
    use super::*;

    #[test]
    fn every_parameter_is_explained_once_and_belongs_to_a_workload() {
        let mut seen = std::collections::BTreeSet::from(["every_record"]);
        for workload in WORKLOADS {
            let mut params = workload.example();
            params.insert("?".to_owned(), true.into());
            let sizing = Sizing { size: 1 << 31, cpus: 2 };
            let known = workload.parse(&params, &sizing).err().map(|error| error.known).unwrap_or_default();
            assert!(!known.is_empty(), "{} reads some", workload.name());
            for key in known {
                assert!(REGISTRY.iter().any(|one| one.name == key), "{}: {key} is not explained", workload.name());
                seen.insert(key);
            }
            let defaults = defaults(*workload, &sizing);
            assert!(!defaults.is_empty(), "{}", workload.name());
        }
        seen.insert("data");
        for pair in REGISTRY.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
        }
        for parameter in REGISTRY {
            // Some are read only where others ask for them.
            let asked =
                ["archive", "block_count", "block_size", "flow", "jobs", "random", "scale", "shape", "stride", "tree"];
            let known = seen.contains(parameter.name) || asked.contains(&parameter.name);
            assert!(
                known || ["mix", "content", "files", "set"].contains(&parameter.name),
                "nobody reads {}",
                parameter.name
            );
        }
    }
}
