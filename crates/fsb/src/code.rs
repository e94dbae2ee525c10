//! The error codes of the program, and the list of all codes.

use fsb_model::code::{GATE, MACHINE as LACKS, REQUEST as WRONG};
use fsb_model::{ErrorCode, error_codes};

error_codes! {
    INTERNAL = "internal", LACKS, "The error has no code of its own.", "Follow the message; report the error if a \
        program needs its code.";
    SYSTEM = "system/io", LACKS, "A call of the kernel failed.", "Follow the kernel's answer in the message; the field errno names it.";
    UNKNOWN_COMMAND = "arguments/unknown-command", WRONG, "fsb has no such subcommand.", "Use a subcommand of fsb --help.";
    UNKNOWN_OPTION = "arguments/unknown-option", WRONG, "The subcommand has no such option or argument.", "Use an option of fsb COMMAND --help.";
    MISSING = "arguments/missing", WRONG, "A required argument or value is missing.", "Add what the message names.";
    INVALID_VALUE = "arguments/invalid-value", WRONG, "An option does not take that value.", "Use a value as the message describes it.";
    CONFLICT = "arguments/conflict", WRONG, "Two arguments exclude each other.", "Leave one of them out.";
    ARGUMENTS = "arguments/invalid", WRONG, "The command line cannot be read.", "Follow the message.";
    UNKNOWN_FORMAT = "output/unknown-format", WRONG, "No report format has that name or file extension.", "Use a name of fsb list formats.";
    UNKNOWN_TARGET = "report/unknown-target", WRONG, "The run has no target of that name.", "Use a name that the message lists.";
    UNWRITABLE = "output/unwritable", WRONG, "The named output file cannot be written.", "Name another file.";
    OUTPUT_EXISTS = "output/exists", WRONG, "The output file exists and would be lost.", "Name another file, or allow it to be replaced.";
    OUTPUT_FAILED = "output/failed", LACKS, "Writing the output failed.", "Follow the kernel's answer in the message.";
    UNREADABLE = "input/unreadable", WRONG, "A named file cannot be read.", "Check the path and its permissions.";
    INVALID_INPUT = "input/invalid", WRONG, "A named file has unexpected contents.", "Correct the file as the message says.";
    DIRECTORY = "directory/unusable", WRONG, "The named path is missing or is not a directory.", "Name another directory.";
    DIRECTORY_NOT_WRITABLE = "directory/not-writable", LACKS, "The user may not write to the named directory.", "Name a writable directory.";
    NO_SPACE = "machine/no-space", LACKS, "The files do not fit the free space or inodes.", "Make room, or make the files smaller as the message says.";
    UNABLE = "machine/unable", LACKS, "The machine lacks something that the request needs.", "Follow the message; fsb doctor shows what the machine lacks.";
    PLAN_UNREADABLE = "plan/unreadable", WRONG, "The plan file cannot be read.", "Name a file, or a plan of fsb list plans.";
    SEVERAL_PLANS = "plan/several", WRONG, "More than one plan was named.", "Name one plan.";
    PLAN_UNFIT = "plan/unfit", WRONG, "The plan cannot be used for this.", "Choose another plan or suite as the message says.";
    UNKNOWN_FAMILY = "list/unknown-family", WRONG, "fsb list has no such family.", "Use a family of fsb list --help.";
    UNKNOWN_MEMBER = "list/unknown-member", WRONG, "The family has no such member.", "Use a name of fsb list FAMILY.";
    NOTHING_TO_COMPARE = "compare/nothing-to-compare", WRONG, "The arguments hold fewer than two sets.", "Name files or run directories with results of the same operations.";
    NO_MATCH = "compare/no-match", WRONG, "No file matches the argument.", "Check the path or pattern.";
    INVALID_SET = "compare/invalid-set", WRONG, "The argument is not a set.", "Write NAME=PATH with the results of one tool.";
    UNKNOWN_SET = "compare/unknown-set", WRONG, "No set has that name.", "Use a name that the message lists.";
    UNKNOWN_OPERATION = "compare/unknown-operation", WRONG, "The results have no such operation.", "Use an operation that the message lists.";
    RUN_COMPLETE = "run/complete", WRONG, "The run to resume is complete.", "Print it with fsb report DIR.";
    NOT_TRACED = "run/not-traced", LACKS, "This machine cannot trace the samples that --explain requests.", "Follow the kernel's answer in the message; run as root outside of containers, or leave --explain out.";
    INVALID_RUN_SET = "run/invalid-set", WRONG, "The directory holds no set of runs to resume.", "Name the directory that fsb run --runs made.";
    NOT_RACED = "choose/not-a-candidate", WRONG, "fsb choose cannot compare this.", "Follow the message; fsb run measures other workloads.";
    PROGRAM = "record/cannot-run", WRONG, "The program to record cannot be run.", "Check its path and permissions.";
    NOT_RECORDED = "record/refused", LACKS, "The program cannot be recorded.", "Follow the advice in the message.";
    NO_EBPF = "record/no-ebpf", LACKS, "The kernel does not load the eBPF programs that would record the calls.", "Use --by ptrace.";
    INVALID_MICRO = "micro/invalid-option", WRONG, "An option of fsb micro is invalid.", "Use a value as the message describes it.";
    INVALID_POSTMARK = "postmark/invalid-command", WRONG, "A command of PostMark's language is invalid.", "Correct the command at the place that the message names.";
    INVALID_FILEBENCH = "filebench/unsupported", WRONG, "The workload of filebench cannot be run.", "Correct the lines that the message names.";
    INVALID_FIO = "fio/unsupported", WRONG, "The jobs of fio cannot be run.", "Correct the lines that the message names.";
    INVALID_WORKLOAD = "workload/invalid", WRONG, "The parameters of the workload are invalid.", "Use parameters of fsb list workloads NAME.";
    INVALID_IOZONE = "iozone/invalid-options", WRONG, "The options of IOzone contradict each other or the machine.", "Correct the option that the message names.";
    IOZONE_UNABLE = "iozone/unable", LACKS, "The machine cannot do what an option of IOzone asks for.", "Follow the advice in the message.";
    CORRUPT = "iozone/corrupt", GATE, "The data that was read is not the data that was written.", "Look at the kernel's log.";
    UNREACHABLE = "remote/unreachable", LACKS, "ssh cannot log in to the host.", "Follow ssh's answer in the message.";
    UNFIT_HOST = "remote/unfit", LACKS, "The host cannot run this fsb: its system, architecture, rights or space do not allow it. Nothing was changed there.", "Follow the message.";
    LOST_HOST = "remote/connection-lost", LACKS, "The connection to the host ended, or the host does not answer. Finished trials are saved.", "Follow the message; resume the run if the message names the command.";
    FAILED_HOST = "remote/failed", LACKS, "The fsb on the host ended without an error of its own.", "Follow the message; look at the kernel's log of the host.";
    RESULTS_NOT_COPIED = "remote/results-not-copied", LACKS, "The run ended, and its directory could not be copied.", "Follow the message; the run directory is complete.";
    OTHER_HOST = "remote/other-host", WRONG, "The run was made on another host.", "Resume it with --on HOST.";
    CACHE_NOT_PRIVATE = "kernel/cache-writable-by-others", WRONG, "Root would boot kernels out of a directory that other users can change.", "Run without sudo, or set XDG_CACHE_HOME to a directory of root.";
}

/// Returns every error code of fsb.
pub fn all() -> impl Iterator<Item = &'static ErrorCode> {
    let crates = fsb_model::codes()
        .chain(fsb_store::CODES.iter().copied())
        .chain(fsb_runner::codes());
    #[cfg(feature = "traces")]
    let crates = crates.chain(fsb_trace::CODES.iter().copied());
    #[cfg(feature = "history")]
    let crates = crates.chain(fsb_history::CODES.iter().copied());
    crates.chain(fsb_compat::CODES.iter().chain(CODES).copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_unique_and_in_kebab_case() {
        let mut names = BTreeSet::new();
        for ErrorCode {
            name,
            exit,
            meaning,
            help,
        } in all()
        {
            assert!(names.insert(name), "{name} is defined twice");
            let is_kebab = |part: &str| {
                part.chars().all(|letter| {
                    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
                })
            };
            assert!(
                name.split('/')
                    .all(|part| !part.is_empty() && is_kebab(part)),
                "{name}"
            );
            assert!([1, 2, 3, 4, 130].contains(exit), "{name}: {exit}");
            assert!(meaning.ends_with('.') && help.ends_with('.'), "{name}");
            assert!(!meaning.contains('|') && !help.contains('|'), "{name}");
        }
        assert!(names.len() > 80, "{}", names.len());
    }
}
