//! Output of runs that failed, were stopped, or contradict themselves.

use std::fs;

use fsb_model::set::{Failure, GapReason, Run};

use crate::{golden, parse, parse_all, remarks, series, shared, value};

/// Returns real output: of the tests of this crate, or of those that other crates share.
fn text(name: &str) -> String {
    let path = if name.starts_with("tool-output") {
        shared(name)
    } else {
        golden(name)
    };
    fs::read_to_string(path).unwrap()
}

/// Returns the text with a line before the line that begins with `start`.
fn insert(text: &str, start: &str, line: &str) -> String {
    let at = text
        .lines()
        .position(|line| line.trim_start().starts_with(start))
        .unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at, line);
    lines.join("\n") + "\n"
}

/// Returns the text up to the line that begins with `start`.
fn before<'a>(text: &'a str, start: &str) -> &'a str {
    &text[..text.find(start).unwrap()]
}

/// Returns the failures of a run as texts with their lines, workloads and operations.
fn failures(run: &Run) -> Vec<String> {
    let place = |failure: &Failure| {
        let Failure {
            workload,
            operation,
            ..
        } = failure;
        [workload, operation]
            .into_iter()
            .flatten()
            .fold(String::new(), |all, name| format!("{all}[{name}] "))
    };
    let line = |failure: &Failure| {
        failure
            .line
            .map_or(String::new(), |line| format!("{line}: "))
    };
    run.failures
        .iter()
        .map(|failure| format!("{}{}{}", line(failure), place(failure), failure.text))
        .collect()
}

/// Returns whether no value of a run is left and each has a gap with the reason.
fn is_dead(run: &Run) -> bool {
    let dead = |why: GapReason| why == GapReason::Failed;
    run.series
        .iter()
        .all(|series| series.points.is_empty() && series.gaps.iter().all(|gap| dead(gap.why)))
}

fn ends_early(run: &Run) -> bool {
    remarks(run)
        .iter()
        .any(|text| text.contains("the output ends early: "))
}

fn refusal(tool: &str, text: &str) -> String {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|known| known.name == tool)
        .unwrap();
    (tool.read)(&mut text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn output_without_its_last_lines_has_the_same_remark_in_every_reader() {
    for (tool, name, start) in [
        (
            "iozone",
            "tool-output/iozone-3.471-throughput.txt",
            "iozone test complete",
        ),
        ("postmark", "tool-output/postmark-1.53.txt", "Data:"),
        ("filebench", "tool-output/filebench-1.5-varmail.txt", "5.0"),
        ("sysbench", "sysbench/1.0.20-seqrd.txt", "Latency (ms)"),
        (
            "ior",
            "ior/3.0.1-file-per-process.txt",
            "Summary of all tests",
        ),
        ("mdtest", "mdtest/4.1-three-iterations.txt", "   File read"),
        ("io500", "io500/two-tasks-terminal.txt", "[SCORE ]"),
    ] {
        let whole = text(name);
        let start = if tool == "filebench" {
            whole
                .lines()
                .find(|line| line.contains("IO Summary"))
                .unwrap()
        } else {
            start
        };
        assert!(!ends_early(&parse_all(tool, &whole)[0]), "{tool}");
        let runs = parse_all(tool, before(&whole, start));
        assert!(ends_early(&runs[0]), "{tool}: {:?}", remarks(&runs[0]));
        assert!(
            runs[0]
                .series
                .iter()
                .any(|series| !series.points.is_empty()),
            "{tool}"
        );
    }
    let csv = text("bonnie++/2.00a-small.csv");
    assert!(ends_early(&parse("bonnie++", &csv[..csv.len() - 40])));
}

// IOR.

#[test]
fn a_message_of_ior_concerns_the_iteration_of_the_next_row() {
    let whole = text("ior/3.0.1-file-per-process.txt");
    let bad = insert(
        &whole,
        "read      19281",
        "WARNING: inconsistent file size by different tasks",
    );
    let runs = parse_all("ior", &bad);
    assert_eq!(failures(&runs[0]), [""; 0]);
    assert!(!is_dead(&runs[0]) && is_dead(&runs[1]));
    let expected =
        "26: [POSIX, file-per-process, 2 tasks] WARNING: inconsistent file size by different tasks";
    assert_eq!(failures(&runs[1]), [expected]);
    let late = insert(
        &whole,
        "Summary of all",
        "ERROR: write() failed, (aiori-POSIX.c:345)",
    );
    assert!(!is_dead(&parse_all("ior", &late)[0]) && is_dead(&parse_all("ior", &late)[1]));
    let usual = insert(
        &whole,
        "read      13522",
        "WARNING: Using actual aggregate bytes moved = 8388608.",
    );
    let run = &parse_all("ior", &usual)[0];
    assert_eq!(
        remarks(run),
        ["23: WARNING: Using actual aggregate bytes moved = 8388608."]
    );
    assert!(failures(run).is_empty() && !is_dead(run));
}

#[test]
fn ior_that_ends_before_its_first_row_is_a_failed_run() {
    let whole = text("ior/3.0.1-file-per-process.txt");
    let run = parse(
        "ior",
        &format!(
            "{}ERROR: open64() failed, (aiori-POSIX.c:280)\n",
            before(&whole, "write     735")
        ),
    );
    assert!(run.series.is_empty());
    assert!(
        failures(&run)[0].ends_with("ERROR: open64() failed, (aiori-POSIX.c:280)"),
        "{:?}",
        failures(&run)
    );
}

#[test]
fn settings_of_ior_are_those_that_change_the_work() {
    let run = &parse_all("ior", &text("ior/3.0.1-file-per-process.txt"))[0];
    let of_workload = |name: &str| {
        run.settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|known| &*known.value)
    };
    assert_eq!(
        of_workload("ordering inter file"),
        Some("constant task offsets = 1")
    );
    assert_eq!(of_workload("-e"), Some("on"));
    assert!(
        ["-o", "-i", "-b", "-C"]
            .iter()
            .all(|name| of_workload(name).is_none()),
        "{:?}",
        run.settings
    );
}

#[test]
fn fewer_bytes_than_operations_of_ior_are_remarked() {
    let run = &parse_all("ior", &text("ior/4.1-random.txt").replace("4789 ", "2789 "))[1];
    assert!(
        remarks(run)[0]
            .contains("2789 IOPS of 65536 bytes are 174.31 MiB/s, but IOR prints 298.59 MiB/s"),
        "{:?}",
        remarks(run)
    );
}

// mdtest.

#[test]
fn failed_calls_of_mdtest_fail_its_summary() {
    let whole = text("mdtest/4.1-three-iterations.txt");
    let run = parse(
        "mdtest",
        &insert(
            &whole,
            "SUMMARY",
            "WARNING: unable to stat file /t/file.mdtest.0.1",
        ),
    );
    assert!(is_dead(&run));
    assert_eq!(
        failures(&run),
        ["11: [2 tasks, 200 files/directories] WARNING: unable to stat file /t/file.mdtest.0.1"]
    );
    let verified = insert(
        &whole,
        "-- finished",
        "ERROR: verifying the data on read (3 errors)! Take the performance values with care!",
    );
    assert!(is_dead(&parse("mdtest", &verified)));
    let died = format!(
        "{}11/26/2026 19:02:33: Process 1: FAILED in create_file, unable to open file\n",
        before(&whole, "\nSUMMARY")
    );
    let run = parse("mdtest", &died);
    assert!(
        run.series.is_empty() && failures(&run)[0].contains("FAILED in create_file"),
        "{:?}",
        failures(&run)
    );
}

#[test]
fn settings_of_mdtest_are_its_options() {
    let run = parse("mdtest", &text("mdtest/4.1-three-iterations.txt"));
    let found: Vec<_> = run
        .settings
        .iter()
        .map(|setting| (&*setting.name, &*setting.value))
        .collect();
    assert_eq!(found, [("-n", "100"), ("-u", "on")]);
}

// sysbench.

/// Returns the first report of random reads and writes.
fn mixed() -> String {
    let all = text("sysbench/1.0.20-rndrw.txt");
    let end = all[1..].find("sysbench 1.").map_or(all.len(), |at| at + 1);
    all[..end].to_owned()
}

#[test]
fn fatal_errors_of_sysbench_fail_the_report() {
    let message = "FATAL: Failed to fsync file! file: 3 errno = 28 (No space left on device)";
    let run = parse("sysbench", &insert(&mixed(), "File operations", message));
    assert!(is_dead(&run) && failures(&run)[0].ends_with(message));
    let warning = "WARNING: Discovered too large file difference in seq requests!";
    let run = parse("sysbench", &insert(&mixed(), "File operations", warning));
    assert!(failures(&run).is_empty() && remarks(&run)[0].ends_with(warning));
}

#[test]
fn a_test_that_was_not_prepared_says_so() {
    let start = mixed();
    let start = before(&start, "Initializing worker threads");
    let text = format!(
        "{start}FATAL: Cannot open file 'test_file.0' errno = 2 (No such file or directory)\n"
    );
    let run = parse("sysbench", &text);
    assert!(run.series.is_empty());
    let line = text.lines().count();
    assert_eq!(
        failures(&run),
        [format!(
            "{line}: FATAL: Cannot open file 'test_file.0' errno = 2 (No such file or directory)"
        )]
    );
}

#[test]
fn a_rate_and_checks_are_part_of_the_name_of_a_test_of_sysbench() {
    let name = |text: &str| parse("sysbench", text).series[0].workload.clone().unwrap();
    let plain = mixed();
    assert_eq!(name(&plain), "rndrw, 2 threads, 4 files, synchronous");
    let limited = plain.replace(
        "Number of threads: 2\n",
        "Number of threads: 2\nTarget transaction rate: 100/sec\n",
    );
    assert_eq!(
        name(&limited),
        "rndrw, 2 threads, 4 files, synchronous, at most 100/sec"
    );
    let checked = plain.replace(
        "Number of threads: 2\n",
        "Number of threads: 2\nValidation checks: on.\n\n",
    );
    assert_eq!(
        name(&checked),
        "rndrw, 2 threads, 4 files, synchronous, with validation"
    );
    let merged = insert(
        &plain,
        "Number of IO requests",
        "Merging requests up to 1MiB for sequential IO.",
    );
    assert_eq!(
        name(&merged),
        "rndrw, 2 threads, 4 files, synchronous, merged up to 1MiB"
    );
    let run = parse("sysbench", &plain);
    let found: Vec<_> = run
        .settings
        .iter()
        .map(|setting| (&*setting.name, &*setting.value))
        .collect();
    assert_eq!(
        found,
        [("requests", "0"), ("fsync() at the end", "Enabled")]
    );
}

#[test]
fn counters_of_sysbench_that_contradict_the_test_are_remarked() {
    let text = mixed().replace("Doing random r/w test", "Doing random read test");
    let run = parse("sysbench", &text);
    assert!(
        remarks(&run)[0].contains("writes/s contradict the test rndrd, which only reads"),
        "{:?}",
        remarks(&run)
    );
    let written = text.replace(
        "reads/s:                      23211.79",
        "reads/s:                      0.00",
    );
    let run = parse("sysbench", &written);
    assert_eq!(
        series(&run, "read", "operation_rate").gaps[0].why,
        GapReason::Zero
    );
    assert!(
        remarks(&run)[0].ends_with("0 reads/s contradict the test rndrd, which only reads"),
        "{:?}",
        remarks(&run)
    );
    let bytes = mixed().replace("362.68", "90.67");
    let run = parse("sysbench", &bytes);
    let expected =
        "23211.79 reads/s of 16384 bytes are 362.68 MiB/s, but sysbench prints 90.67 MiB/s";
    assert!(remarks(&run)[0].ends_with(expected), "{:?}", remarks(&run));
}

// bonnie++.

#[test]
fn errors_of_bonnie_fail_the_next_line_and_without_one_the_run() {
    let csv = text("bonnie++/2.00a-small.csv");
    let run = parse(
        "bonnie++",
        &format!("Writing intelligently...Can't write block.: No space left on device\n{csv}"),
    );
    assert!(is_dead(&run));
    assert_eq!(
        failures(&run),
        ["1: Writing intelligently...Can't write block.: No space left on device"]
    );
    let runs = parse_all(
        "bonnie++",
        &format!("{csv}Bonnie: drastic I/O error (re write(2)): Input/output error\n"),
    );
    assert_eq!((is_dead(&runs[0]), runs[1].series.len()), (false, 0));
    let run = parse(
        "bonnie++",
        &format!("Can't sync directory, turning off dir-sync.\n{csv}"),
    );
    assert!(failures(&run).is_empty() && remarks(&run)[0].starts_with("1: Can't sync directory"));
}

/// The columns of 1.03 and 1.04, by the function that prints their names in the source.
const OLD_CSV: &str = "host,2G:64k,32103,91,55236,11,36165,10,30101,70,73514,8,2138.3,2,16:1000:10/5,+++++,+++,1500,80,25015,99,28712,100,+++++,+++,\
     26846,100\n";

#[test]
fn the_line_of_1_03_is_read_by_its_27_columns() {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "bonnie++")
        .unwrap();
    assert!((tool.recognise)(OLD_CSV.as_bytes()));
    let run = parse("bonnie++", OLD_CSV);
    assert_eq!(run.version, None);
    for (operation, metric, expected) in [
        ("write_char", "throughput", 32103.0 * 1024.0),
        ("write", "throughput", 55236.0 * 1024.0),
        ("update", "cpu_utilization", 0.1),
        ("read", "throughput", 73514.0 * 1024.0),
        ("seek", "operation_rate", 2138.3),
        ("stat_sequential", "operation_rate", 1500.0),
        ("delete_random", "operation_rate", 26846.0),
        ("delete_random", "cpu_utilization", 1.0),
    ] {
        assert_eq!(
            value(&run, operation, metric),
            expected,
            "{operation} {metric}"
        );
    }
    assert_eq!(
        series(&run, "write", "throughput").points[0].file_size,
        Some(2 << 30)
    );
    assert_eq!(
        series(&run, "create_sequential", "operation_rate").gaps[0].why,
        GapReason::TooFast
    );
    let found: Vec<_> = run
        .settings
        .iter()
        .map(|setting| (&*setting.name, &*setting.value))
        .collect();
    assert_eq!(found, [("files", "16:1000:10/5"), ("chunk size", "64k")]);
    let fast = OLD_CSV.replace("32103,91", ",").replace("30101,70", ",");
    assert!(
        parse("bonnie++", &fast)
            .series
            .iter()
            .all(|series| !series.operation.ends_with("_char"))
    );
    for text in [
        "a,1G,1,2,3\n",
        "a,x,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n",
        ",,,,,,,,,,,,,,,,,,,,,,,,,,\n",
    ] {
        assert!(!(tool.recognise)(text.as_bytes()), "{text}");
    }
}

// PostMark.

#[test]
fn errors_of_postmark_fail_the_report_that_follows() {
    let whole = text("tool-output/postmark-1.53.txt");
    let bad = whole.replace(
        "Performing transactions..........Done",
        "Performing transactions.....Error: cannot open './17' for writing\n.....Done",
    );
    assert_ne!(bad, whole);
    let run = parse("postmark", &bad);
    assert!(
        is_dead(&run) && failures(&run)[0].ends_with("Error: cannot open './17' for writing"),
        "{:?}",
        failures(&run)
    );
    let ignored = whole.replace(
        "Creating files...Done",
        "Error: ignoring invalid weight 'x'\nCreating files...Done",
    );
    let run = parse("postmark", &ignored);
    assert!(
        !is_dead(&run) && remarks(&run)[0].ends_with("Error: ignoring invalid weight 'x'"),
        "{:?}",
        remarks(&run)
    );
    let run = parse(
        "postmark",
        &format!(
            "{}Error: cannot open './17' for writing\n",
            before(&whole, "Time:")
        ),
    );
    assert!(run.series.is_empty() && failures(&run).len() == 1);
}

#[test]
fn amounts_and_rates_of_postmark_agree() {
    let whole = text("postmark/1.53-two-runs.txt");
    assert!(
        parse_all("postmark", &whole)
            .iter()
            .all(|run| run.warnings.len() == 1)
    );
    let runs = parse_all(
        "postmark",
        &whole.replace(
            "1215 created (303 per second)",
            "1215 created (3030 per second)",
        ),
    );
    assert_eq!(
        remarks(&runs[0])[1],
        "11: 1215 files in 4 s are 304/s, but PostMark prints 3030/s"
    );
    let runs = parse_all(
        "postmark",
        &whole.replace(
            "(191.82 megabytes per second)",
            "(191.82 kilobytes per second)",
        ),
    );
    assert_eq!(
        remarks(&runs[0])[1],
        "21: 785705 kilobytes in 4 s are 196426/s, but PostMark prints 192/s"
    );
}

#[test]
fn settings_of_postmark_are_those_that_it_shows() {
    let shown = "The base number of files is 500\nTransactions: 50000\nFiles range between 500 bytes and 9.77 kilobytes in size\n\
        Block sizes are: read=512 bytes, write=512 bytes\nBiases are: read/append=5, create/delete=5\nUsing Unix buffered file I/O\n";
    let run = parse(
        "postmark",
        &text("tool-output/postmark-1.53.txt")
            .replace("Creating files", &format!("{shown}Creating files")),
    );
    let names: Vec<_> = run.settings.iter().map(|setting| &*setting.name).collect();
    assert_eq!(
        names,
        [
            "number",
            "transactions",
            "size",
            "block sizes",
            "biases",
            "buffering"
        ]
    );
    assert_eq!(run.settings[5].value, "true");
}

// filebench.

#[test]
fn failed_operations_of_filebench_fail_the_run() {
    let whole = text("tool-output/filebench-1.5-varmail.txt");
    for message in [
        "3.100: filereaderthread-1: flowop closefile4-1 failed",
        "3.200: Unexpected Process termination Code 3, Errno 0 around line 33",
        "3.071: Failed to create 221249536 bytes of ISM shared memory (ret = 22) around line 89",
        "3.071: NO VALID RESULTS! Filebench run terminated prematurely around line 101",
    ] {
        let at = whole
            .lines()
            .find(|line| line.contains("Run took"))
            .unwrap();
        let run = parse("filebench", &insert(&whole, at, message));
        assert!(
            is_dead(&run) && failures(&run)[0].ends_with(message),
            "{message}"
        );
    }
    assert!(refusal("filebench", before(&whole, "closefile4")).contains("it holds no summary"));
}

#[test]
fn settings_and_contradictions_of_filebench_are_found() {
    let whole = text("tool-output/filebench-1.5-varmail.txt");
    let run = parse("filebench", &whole);
    assert!(
        run.settings
            .iter()
            .any(|setting| setting.name == "bigfileset" && setting.value.ends_with("files")),
        "{:?}",
        run.settings
    );
    let run = parse(
        "filebench",
        &whole.replace("69457.673 ops/s", "6945.767 ops/s"),
    );
    assert!(
        remarks(&run)[0].contains("ops in 5 s are not 6945.767 ops/s"),
        "{:?}",
        remarks(&run)
    );
}

// IO500.

#[test]
fn both_spellings_of_invalid_phases_are_read() {
    let suffix = text("io500/two-tasks-summary.txt");
    let prefix: String = suffix
        .lines()
        .map(|line| match line.strip_suffix(" [INVALID]") {
            Some(line) => line.replace("[RESULT]", "[RESULT-invalid]") + "\n",
            None => format!("{line}\n"),
        })
        .collect();
    let [a, b] = [parse("io500", &suffix), parse("io500", &prefix)];
    assert_eq!(a.series, b.series);
    assert_eq!(remarks(&a)[0], remarks(&b)[0]);
    let only = "[RESULT-invalid] ior-easy-write 0.344202 GiB/s : time 37.080 seconds\n[SCORE ] Bandwidth 1.0 GiB/s\n";
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "io500")
        .unwrap();
    assert!((tool.recognise)(only.as_bytes()));
    assert_eq!(parse("io500", only).series.len(), 1);
}

#[test]
fn a_phase_of_io500_whose_work_failed_has_no_value() {
    let whole = text("io500/two-tasks-terminal.txt");
    let message = "ERROR INVALID (src/phase_ior.c:43) Errors (3) occured during phase in IOR. This invalidates your run.";
    let run = parse(
        "io500",
        &insert(&whole, "[RESULT]        ior-easy-read", message),
    );
    assert_eq!(
        series(&run, "ior_easy_read", "throughput").gaps[0].why,
        GapReason::Failed
    );
    assert_eq!(series(&run, "ior_hard_read", "throughput").points.len(), 1);
    assert!(
        failures(&run)[0].contains("[ior_easy_read] ior-easy-read: ERROR INVALID"),
        "{:?}",
        failures(&run)
    );
}

// IOzone.

fn throughput() -> String {
    text("tool-output/iozone-3.471-throughput.txt")
}

/// Returns the operations of throughput mode without a value.
fn failed(run: &Run) -> Vec<&str> {
    let dead = |series: &&fsb_model::set::Series| {
        series.metric == "throughput" && series.points.is_empty()
    };
    run.series
        .iter()
        .filter(dead)
        .map(|series| &*series.operation)
        .collect()
}

#[test]
fn a_process_of_iozone_without_any_transfer_fails_its_operation() {
    let run = parse("iozone", &throughput());
    assert!(failures(&run).is_empty());
    let workload = "[throughput, 2 processes] [write] write: a process transferred nothing";
    let no_rate = throughput().replacen("2083477.75 kB/sec", "      0.00 kB/sec", 1);
    let run = parse("iozone", &no_rate);
    assert_eq!(failed(&run), ["write"]);
    assert_eq!(failures(&run), [format!("31: {workload} (its rate is 0)")]);
    let no_bytes = throughput().replacen("31296.00 kB", "    0.00 kB", 1);
    assert_eq!(
        failures(&parse("iozone", &no_bytes)),
        [format!("34: {workload} (it transferred 0)")]
    );
    // IOzone skips a zero of the first process.
    let skipped = throughput().replacen("2083477.75 kB/sec", "2180435.25 kB/sec", 1);
    assert_eq!(
        failures(&parse("iozone", &skipped)),
        [format!(
            "31: {workload} (the least rate, 2180435.25, is above the mean, 2131956.5)"
        )]
    );
}

#[test]
fn messages_of_iozone_fail_the_operation_whose_block_follows() {
    let run = parse(
        "iozone",
        &insert(
            &throughput(),
            "Children see throughput for  2 readers",
            "Error in file: Found ?0? Expecting ?f4f4f4f4? addr 7f72",
        ),
    );
    assert_eq!(failed(&run), ["read"]);
    let run = parse(
        "iozone",
        &insert(
            &throughput(),
            "iozone test complete",
            "write: No space left on device",
        ),
    );
    assert!(is_dead(&run) && failures(&run)[0].ends_with("write: No space left on device"));
}

#[test]
fn rates_of_parent_and_children_that_are_apart_fail_their_operation() {
    // 64 MiB take the children 0.02 s and the parent 14 s.
    let run = parse(
        "iozone",
        &throughput().replacen("1141391.54 kB/sec", "   4563.57 kB/sec", 1),
    );
    assert_eq!(failed(&run), ["write"]);
    assert!(
        failures(&run)[0].ends_with(
            "write: the parent sees 4563.57 kB/sec, but the children see 4263913 kB/sec"
        ),
        "{:?}",
        failures(&run)
    );
}

#[test]
fn a_table_of_iozone_with_an_error_is_not_judged() {
    let whole = fs::read_to_string(shared("iozone-aa/ext4/ext4_1.iozone")).unwrap();
    let run = parse(
        "iozone",
        &insert(&whole, "64       8", "Error writing block 12, fd= 3"),
    );
    assert!(is_dead(&run));
    assert_eq!(failures(&run), ["30: Error writing block 12, fd= 3"]);
}

// Phoronix Test Suite.

/// Returns a result of a test on two systems, each entry with its value, repetitions and details.
fn of_systems(scale: &str, entries: [(&str, &str, &str); 2]) -> String {
    let entry = |(system, (value, raw, details)): (&str, (&str, &str, &str))| {
        format!(
            "<Entry>\n<Identifier>{system}</Identifier>\n<Value>{value}</Value>\n<RawString>{raw}</RawString>\n\
             <JSON>{details}</JSON>\n</Entry>\n"
        )
    };
    let entries: String = ["a", "b"].into_iter().zip(entries).map(entry).collect();
    let proportion = if scale.is_empty() { "" } else { "HIB" };
    format!(
        "<PhoronixTestSuite>\n<Result>\n<Identifier>pts/t-1.2.3</Identifier>\n<Title>T</Title>\n<AppVersion></AppVersion>\n\
         <Description>Random</Description>\n<Scale>{scale}</Scale>\n<Proportion>{proportion}</Proportion>\n\
         <DisplayFormat>BAR_GRAPH</DisplayFormat>\n<Data>\n{entries}</Data>\n</Result>\n</PhoronixTestSuite>\n"
    )
}

const QUIT: &str = r#"{"error":"The test quit with a non-zero exit status."}"#;

#[test]
fn an_entry_without_a_value_is_a_failure_with_its_error() {
    let runs = parse_all(
        "phoronix",
        &of_systems("IOPS", [("20", "19:21", ""), ("", "", QUIT)]),
    );
    assert_eq!(
        runs.iter()
            .map(|run| run.system.as_deref())
            .collect::<Vec<_>>(),
        [Some("a"), Some("a"), Some("b")]
    );
    assert!(is_dead(&runs[2]) && series(&runs[2], "Random", "operation_rate").gaps.len() == 1);
    let expected =
        "19: [pts/t-1.2] [Random (IOPS)] Random: The test quit with a non-zero exit status.";
    assert_eq!(failures(&runs[2]), [expected]);
    let error = refusal(
        "phoronix",
        &of_systems("", [("", "", QUIT), ("", "", QUIT)]),
    );
    assert!(
        error.ends_with("no test in it has a value: The test quit with a non-zero exit status."),
        "{error}"
    );
}

#[test]
fn a_repetition_without_a_value_is_remarked() {
    let runs = parse_all(
        "phoronix",
        &of_systems("IOPS", [("20", "19::21", ""), ("20", "20", QUIT)]),
    );
    assert_eq!(
        remarks(&runs[0]),
        ["14: T: a repetition has no value; left out"]
    );
    let gap = &series(&runs[1], "Random", "operation_rate").gaps[0];
    assert_eq!((gap.why, gap.line), (GapReason::Unreadable, 14));
    assert_eq!(value(&runs[2], "Random", "operation_rate"), 21.0);
    let last = runs.last().unwrap();
    assert_eq!(
        remarks(last),
        ["20: T: The test quit with a non-zero exit status."]
    );
    assert_eq!(value(last, "Random", "operation_rate"), 20.0);
}

// Files that no reader reads.

/// Returns the message about a file with this content.
fn message(content: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("result");
    fs::write(&path, content).unwrap();
    let error = fsb_compat::read_file(&path).unwrap_err();
    error
        .to_string()
        .replace(&format!("cannot read {}: ", path.display()), "")
}

#[test]
fn lines_with_a_label_are_named_for_every_tool() {
    for name in [
        "tool-output/iozone-3.471-throughput.txt",
        "tool-output/iozone-3.471-single.txt",
        "tool-output/fio-3.33.json",
        "tool-output/bonnie++-2.00a.txt",
        "bonnie++/2.00a-small.csv",
        "tool-output/postmark-1.53.txt",
        "tool-output/filebench-1.5-varmail.txt",
        "sysbench/1.0.20-seqrd.txt",
        "ior/3.0.1-file-per-process.txt",
        "mdtest/4.1-three-iterations.txt",
        "io500/two-tasks-summary.txt",
    ] {
        let whole = text(name);
        for label in [
            "3: ",
            "[1,0]<stdout>:",
            "2026-11-23T10:00:00Z ",
            "Nov 23 10:00:00 host sh[12]: ",
            "\u{1b}[0m",
            "[0] ",
        ] {
            let labelled: String = whole
                .lines()
                .map(|line| format!("{label}{line}\n"))
                .collect();
            let message = message(&labelled);
            let start = label
                .trim_end()
                .trim_start_matches('\u{1b}')
                .trim_end_matches("0m");
            assert!(
                message.starts_with("its lines begin with a label such as '"),
                "{name}, {label}: {message}"
            );
            assert!(
                message.contains(start)
                    && message.contains("; remove the labels first: sed -E 's/"),
                "{message}"
            );
        }
    }
}

#[test]
fn known_forms_that_are_not_read_name_the_way_out() {
    assert_eq!(
        message("sysbench 0.4.12:  multi-threaded system evaluation benchmark\n"),
        "it is output of sysbench 0.4.12; fsb reads 1.0 and later; run the test with such a version"
    );
    assert_eq!(
        message("[global]\nrw=randread\nsize=1m\n[a]\n"),
        "it is a fio job file; 'fsb fio' reads it"
    );
    assert_eq!(
        message("define fileset name=x,path=/t\nrun 10\n"),
        "it is a filebench workload file; 'fsb filebench' reads it"
    );
}
