//! The codes of warnings and notes that are printed beside results.

/// A stable name of a kind of warning or note.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name in kebab case after its level: `warning/run-failed`. It is never given another
    /// meaning.
    pub name: &'static str,
    /// The meaning, in one sentence.
    pub meaning: &'static str,
    /// The names of its fields, separated by commas.
    pub fields: &'static str,
}

macro_rules! notices {
    ($($constant:ident = $name:literal, $fields:literal, $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $constant: Notice = Notice { name: $name, meaning: $meaning, fields: $fields };
        )+
        /// All notices.
        pub static ALL: &[&Notice] = &[$(&$constant),+];
    };
}

notices! {
    CONCURRENT = "warning/concurrent", "run, more", "Another run measures at the same time.";
    WAITING = "note/waiting", "pid", "A run with --wait waits for another run to end.";
    RUN_FAILED = "warning/run-failed", "place, line, reason, errno", "A run of fsb postmark, fsb filebench or fsb fio did not reach its end. The next run follows, except in fsb fio.";
    NOT_DIRECT = "warning/not-direct", "reason", "Direct I/O of fsb fio or fsb iozone -I used a page cache, or uncached I/O stayed.";
    NOT_DURABLE = "warning/not-durable", "reason", "The syncs of a run of fsb fio, fsb filebench or fsb iozone are not known to reach the device.";
    JOURNAL = "warning/journal", "path", "A file of the run directory is damaged. The rest of it is used.";
    PARTIAL_RECORDS = "warning/partial-records", "file_kb, record_kb, pairs", "File sizes are not multiples of record sizes. Like IOzone, fsb iozone does not touch their last bytes.";
    ONE_THREAD = "warning/one-thread", "", "fsb micro runs ten iterations or fewer in one thread.";
    DEFAULT_DIRECTORY = "warning/default-directory", "", "fsb micro measures the directory of temporary files, because no --output names another one.";
    MICRO_IMPRECISE = "warning/micro-imprecise", "reason", "The budget of fsb micro ended before the mean had the precision of --precision.";
    IDLE_THREADS = "warning/idle-threads", "", "fsb micro has more threads than iterations, so some have no work.";
    MICRO_LARGE = "warning/micro-large", "", "The cycles of fsb micro write so much that a fast device needs hours.";
    MICRO_WIDE = "warning/micro-wide", "", "The 99 % interval of the mean of fsb micro is wider than ±5 %.";
    MICRO_NOT_NORMAL = "warning/micro-not-normal", "", "The cycles of fsb micro are not normally distributed, so their intervals may not hold.";
    MEMORY_NOT_TOUCHED = "warning/memory-not-touched", "", "fsb micro does not touch the memory of a virtual machine first.";
    MEASURED_IN_PART = "warning/measured-in-part", "", "The results are those of the parts that ended before an interruption.";
    MICRO_INTERFERENCE = "warning/micro-interference", "", "Interference affected the samples of fsb micro.";
    INCOMPLETE_TRACE = "warning/incomplete-trace", "reason", "A trace lacks accesses. fsb run replays it only with --force.";
    GATE_FAILED = "warning/gate-failed", "slower", "A set is slower than the baseline of --fail-if.";
    GATE_UNDECIDED = "warning/gate-undecided", "reason, runs, files, undecided, unjudged, missing, possible", "The results cannot decide --fail-if. `possible` is the largest slowdown that an interval contains.";
    BOUND_MISSED = "warning/bound-missed", "answers", "The 99th percentile of a target is above the bound of its case.";
    BOUND_UNDECIDED = "warning/bound-undecided", "answers", "The results cannot decide --gate.";
    BOUND_KEPT = "note/bound-kept", "answers", "The 99th percentile of every target is below the bound of its case.";
    GATE_PASSED = "note/gate-passed", "judged, excluded", "The gate of --fail-if passed. `judged` is the number of comparisons, and each excludes a slowdown of more than `excluded`.";
    NOT_UNDONE = "warning/ledger-entry", "path", "An entry of the undo ledger was not undone, so a change of a killed run is still in effect during this run.";
    CHANGE = "note/change", "state, path", "A change that a killed run left, and what fsb clean did about it.";
    UNDONE = "note/undone", "changes", "Changes of killed runs were undone before the run.";
    NOT_IN_TARGET = "warning/not-in-target", "path", "An argument of a command names a file of the working directory, which the directory of a target lacks.";
    NOT_RACED = "note/not-raced", "target, reason", "A candidate of fsb choose does not take part.";
    NO_SUBMODULE = "warning/no-submodule", "path", "A submodule of a revision cannot be checked out: the repository has no copy of its commit.";
    CANDIDATE_SKIPPED = "note/candidate-skipped", "candidate", "A candidate of fsb bisect cannot be measured.";
    NAMED_PLAN = "note/named-plan", "plan", "A shipped plan is used: its name was given as a suite, or no file has its name.";
    PROGRAM_MISSING = "note/program-missing", "program, package", "A program is not installed. Its recording or an emulation is measured.";
    PROGRAM_VERSION = "note/program-version", "program, recorded", "A program has another version than the one that docs/programs.md describes.";
    ACTIVITY = "note/activity", "activity", "fsb begins work before the measurement that may take long. The field is its kind, and the kernel of a guest.";
    COPYING = "note/copying", "host, bytes", "fsb is copied to a host of --on.";
    ESTIMATE = "note/estimate", "blocks, cells, seconds, fits", "The estimated duration before warm-up, and whether the budget holds it.";
    STOPPING_RULE = "note/stopping-rule", "rule", "The rule that ends the run, as in run.json.";
    ANSWER_SO_FAR = "note/answer-so-far", "made, planned", "The answer after the first interim analysis.";
    RETRIED = "note/retried", "target, workload", "A trial that interference affected is retried.";
    TRIAL_FAILED = "note/trial-failed", "target, workload, retried, reason, errno", "A trial failed or was invalid. `reason` is the code of its reason, and `errno` the name of the kernel's error, or `null`.";
    TARGET_FAILED = "note/target-failed", "target, reason, errno", "A target could not be made, so all its trials of the block fail, or of the run if it is a candidate of a race.";
    BLOCK_RETRIED = "note/block-retried", "trials", "Trials of an unfinished block are retried by --resume.";
    RECORDED = "note/recorded", "path, calls, threads, outside, ebpf", "fsb record wrote a trace.";
    LAST_RUN = "note/last-run", "path", "fsb report without a directory prints the last run.";
    NOT_INDEXED = "warning/not-indexed", "path", "fsb history did not index a run or some of its values, or kept the indexed version.";
    INDEXED = "note/indexed", "change, runs", "fsb history changed the index. `change` is `added`, `read` or `removed`, and `runs` the number of runs, with those that were replaced.";
    PAGES = "note/pages", "files, path", "fsb serve --static wrote its pages.";
    OPEN_TO_ALL = "warning/open-to-all", "address", "fsb serve listens on an address that other machines may reach, without a login.";
    REPORTS_LEFT_OUT = "warning/reports-left-out", "reports", "fsb serve --static wrote no report of some runs, because their directories are gone or they have none.";
    HOST_LEFT_OUT = "warning/host-left-out", "host, reason", "A host of fsb fleet has no results to compare.";
    HOST_KEPT = "note/host-kept", "host, path", "A host of fsb fleet run has made its run already.";
    WATCHING = "note/watching", "seconds", "fsb doctor observes other load for this time.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_has_its_level_in_its_name() {
        for Notice {
            name,
            meaning,
            fields,
        } in ALL
        {
            assert!(
                name.starts_with("warning/") || name.starts_with("note/"),
                "{name}"
            );
            assert!(
                meaning.ends_with('.') && !meaning.contains('|') && !fields.contains('|'),
                "{name}"
            );
            assert_eq!(
                ALL.iter().filter(|other| other.name == *name).count(),
                1,
                "{name}"
            );
        }
    }
}
