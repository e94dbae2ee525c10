//! Error codes: stable names that programs match instead of messages.
//!
//! Each crate defines its codes with [`error_codes!`](crate::error_codes). `docs/errors.md` lists
//! all of them.

use serde_json::{Map, Value};

/// The exit code if a requested check failed: results are slower than the baseline, or data is
/// corrupt.
pub const GATE: u8 = 1;
/// The exit code of a wrong request.
pub const REQUEST: u8 = 2;
/// The exit code if the machine lacks a tool, a privilege or space.
pub const MACHINE: u8 = 3;
/// The exit code if trials failed; the others are saved and reported.
pub const TRIALS: u8 = 4;
/// The exit code after Ctrl-C: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// A stable name of a kind of error.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The name in kebab case after its area: `plan/unknown-key`. It is never given another
    /// meaning.
    pub name: &'static str,
    /// The exit code of the program.
    pub exit: u8,
    /// The cause, in one sentence.
    pub meaning: &'static str,
    /// The remedy, in one sentence.
    pub help: &'static str,
}

/// An error that programs can tell from others without reading its message.
pub trait Coded {
    /// Returns the code.
    fn code(&self) -> &'static ErrorCode;

    /// Returns what the message is about: paths, lines, names.
    fn fields(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns the remedy of this very error, if it is more specific than that of the code.
    fn help(&self) -> Option<String> {
        None
    }
}

/// Defines error codes as statics, and `CODES`, the list of them.
#[macro_export]
macro_rules! error_codes {
    ($($constant:ident = $name:literal, $exit:expr, $meaning:literal, $help:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $constant: $crate::code::ErrorCode =
                $crate::code::ErrorCode { name: $name, exit: $exit, meaning: $meaning, help: $help };
        )+
        /// The codes of this module.
        pub static CODES: &[&$crate::code::ErrorCode] = &[$(&$constant),+];
    };
}

/// Makes fields from pairs of a name and a value.
pub fn fields<'n>(pairs: impl IntoIterator<Item = (&'n str, Value)>) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

// The codes of requests of the program.

error_codes! {
    INTERNAL = "internal", MACHINE, "The error has no code of its own.", "Follow the message; report the error if a \
        program needs its code.";
    SYSTEM = "system/io", MACHINE, "A call of the kernel failed.", "Follow the kernel's answer in the message; the field errno names it.";
    UNKNOWN_COMMAND = "arguments/unknown-command", REQUEST, "fsb has no such subcommand.", "Use a subcommand of fsb --help.";
    UNKNOWN_OPTION = "arguments/unknown-option", REQUEST, "The subcommand has no such option or argument.", "Use an option of fsb COMMAND --help.";
    MISSING = "arguments/missing", REQUEST, "A required argument or value is missing.", "Add what the message names.";
    INVALID_VALUE = "arguments/invalid-value", REQUEST, "An option does not take that value.", "Use a value as the message describes it.";
    CONFLICT = "arguments/conflict", REQUEST, "Two arguments exclude each other.", "Leave one of them out.";
    ARGUMENTS = "arguments/invalid", REQUEST, "The command line cannot be read.", "Follow the message.";
    UNKNOWN_FORMAT = "output/unknown-format", REQUEST, "No report format has that name or file extension.", "Use a name of fsb list formats.";
    UNKNOWN_TARGET = "report/unknown-target", REQUEST, "The run has no target of that name.", "Use a name that the message lists.";
    UNWRITABLE = "output/unwritable", REQUEST, "The named output file cannot be written.", "Name another file.";
    OUTPUT_EXISTS = "output/exists", REQUEST, "The output file exists and would be lost.", "Name another file, or allow it to be replaced.";
    OUTPUT_FAILED = "output/failed", MACHINE, "Writing the output failed.", "Follow the kernel's answer in the message.";
    UNREADABLE = "input/unreadable", REQUEST, "A named file cannot be read.", "Check the path and its permissions.";
    INVALID_INPUT = "input/invalid", REQUEST, "A named file has unexpected contents.", "Correct the file as the message says.";
    DIRECTORY = "directory/unusable", REQUEST, "The named path is missing or is not a directory.", "Name another directory.";
    DIRECTORY_NOT_WRITABLE = "directory/not-writable", MACHINE, "The user may not write to the named directory.", "Name a writable directory.";
    NO_SPACE = "machine/no-space", MACHINE, "The files do not fit the free space or inodes.", "Make room, or make the files smaller as the message says.";
    UNABLE = "machine/unable", MACHINE, "The machine lacks something that the request needs.", "Follow the message; fsb doctor shows what the machine lacks.";
    PLAN_UNREADABLE = "plan/unreadable", REQUEST, "The plan file cannot be read.", "Name a file, or a plan of fsb list plans.";
    SEVERAL_PLANS = "plan/several", REQUEST, "More than one plan was named.", "Name one plan.";
    PLAN_UNFIT = "plan/unfit", REQUEST, "The plan cannot be used for this.", "Choose another plan or suite as the message says.";
    UNKNOWN_FAMILY = "list/unknown-family", REQUEST, "fsb list has no such family.", "Use a family of fsb list --help.";
    UNKNOWN_MEMBER = "list/unknown-member", REQUEST, "The family has no such member.", "Use a name of fsb list FAMILY.";
    NOTHING_TO_COMPARE = "compare/nothing-to-compare", REQUEST, "The arguments hold fewer than two sets.", "Name files or run directories with results of the same operations.";
    NO_MATCH = "compare/no-match", REQUEST, "No file matches the argument.", "Check the path or pattern.";
    INVALID_SET = "compare/invalid-set", REQUEST, "The argument is not a set.", "Write NAME=PATH with the results of one tool.";
    UNKNOWN_SET = "compare/unknown-set", REQUEST, "No set has that name.", "Use a name that the message lists.";
    UNKNOWN_OPERATION = "compare/unknown-operation", REQUEST, "The results have no such operation.", "Use an operation that the message lists.";
    UNKNOWN_SETTING = "compare/unknown-setting", REQUEST, "The results have no such setting, or no set differs in it.", "Use a setting that the message lists, or leave --ignore out.";
    NOT_RESUMABLE = "run/not-resumable", REQUEST, "A run with the options of another tool cannot be resumed.", "Repeat it with a new --out.";
    RUN_COMPLETE = "run/complete", REQUEST, "The run to resume is complete.", "Print it with fsb report DIR.";
    NOT_TRACED = "run/not-traced", MACHINE, "This machine cannot trace the samples that --explain requests.", "Follow the kernel's answer in the message; run as root outside of containers, or leave --explain out.";
    INVALID_RUN_SET = "run/invalid-set", REQUEST, "The directory holds no set of runs to resume.", "Name the directory that fsb run --runs made.";
    NOT_RACED = "choose/not-a-candidate", REQUEST, "fsb choose cannot compare this.", "Follow the message; fsb run measures other workloads.";
    INVALID_BISECTION = "bisect/invalid-directory", REQUEST, "The directory holds no bisection to resume.", "Name the directory that fsb bisect made.";
    NO_HISTORY = "bisect/no-history", REQUEST, "No line of commits leads from --good to --bad.", "Name two commits of one branch.";
    UNBUILT_END = "bisect/end-not-built", REQUEST, "The good or the bad end cannot be built.", "Correct --build, or name another end.";
    FAILED_END = "bisect/end-failed", TRIALS, "The work fails on an end, or too often.", "Correct the command, or name another end.";
    OUT_OF_TIME = "bisect/out-of-time", REQUEST, "The budget ended before the answer.", "Resume it with a larger --budget.";
    PROGRAM = "record/cannot-run", REQUEST, "The program to record cannot be run.", "Check its path and permissions.";
    NOT_RECORDED = "record/refused", MACHINE, "The program cannot be recorded.", "Follow the advice in the message.";
    NO_EBPF = "record/no-ebpf", MACHINE, "The kernel does not load the eBPF programs that would record the calls.", "Use --by ptrace.";
    INVALID_MICRO = "micro/invalid-option", REQUEST, "An option of fsb micro is invalid.", "Use a value as the message describes it.";
    INVALID_POSTMARK = "postmark/invalid-command", REQUEST, "A command of PostMark's language is invalid.", "Correct the command at the place that the message names.";
    INVALID_FILEBENCH = "filebench/unsupported", REQUEST, "The workload of filebench cannot be run.", "Correct the lines that the message names.";
    INVALID_FIO = "fio/unsupported", REQUEST, "The jobs of fio cannot be run.", "Correct the lines that the message names.";
    INVALID_WORKLOAD = "workload/invalid", REQUEST, "The parameters of the workload are invalid.", "Use parameters of fsb list workloads NAME.";
    INVALID_IOZONE = "iozone/invalid-options", REQUEST, "The options of IOzone contradict each other or the machine.", "Correct the option that the message names.";
    IOZONE_UNABLE = "iozone/unable", MACHINE, "The machine cannot do what an option of IOzone asks for.", "Follow the advice in the message.";
    CORRUPT = "iozone/corrupt", GATE, "The data that was read is not the data that was written.", "Look at the kernel's log.";
    UNREACHABLE = "remote/unreachable", MACHINE, "ssh cannot log in to the host.", "Follow ssh's answer in the message.";
    UNFIT_HOST = "remote/unfit", MACHINE, "The host cannot run this fsb: its system, architecture, rights or space do not allow it. Nothing was changed there.", "Follow the message.";
    LOST_HOST = "remote/connection-lost", MACHINE, "The connection to the host ended, or the host does not answer. Finished trials are saved.", "Follow the message; resume the run if the message names the command.";
    FAILED_HOST = "remote/failed", MACHINE, "The fsb on the host ended without an error of its own.", "Follow the message; look at the kernel's log of the host.";
    RESULTS_NOT_COPIED = "remote/results-not-copied", MACHINE, "The run ended, and its directory could not be copied.", "Follow the message; the run directory is complete.";
    OTHER_HOST = "remote/other-host", REQUEST, "The run was made on another host.", "Resume it with --on HOST.";
    CACHE_NOT_PRIVATE = "kernel/cache-writable-by-others", REQUEST, "Root would boot kernels out of a directory that other users can change.", "Run without sudo, or set XDG_CACHE_HOME to a directory of root.";
}
