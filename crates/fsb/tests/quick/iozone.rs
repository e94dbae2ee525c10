//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use fsb_model::set::Run;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::iozone::*;
use crate::common::{
    Running, command, expect_code, expect_error, expect_refusals, fails, message, scratch, stdout,
    wait_until,
};

// fsb prints the same text as IOzone for the same command, except for the numbers and the name.

/// The 2011 comparator searches for the heading and splits the lines below it at blanks.
#[test]
fn a_reader_that_splits_at_blanks_finds_the_thirteen_columns() {
    let text = done(scratch().path(), "-a -n 64 -g 128 -f f");
    let mut lines = text
        .lines()
        .skip_while(|line| !line.trim_start().to_lowercase().starts_with("kb  reclen"));
    assert_eq!(lines.next().unwrap().split_whitespace().count(), 15);
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 11);
    assert!(
        rows.iter().all(|row| row.split_whitespace().count() == 15),
        "{text}"
    );
    assert!(text.starts_with("\tIozone: Performance Test of File I/O\n"));
    assert!(text.contains("\niozone test complete.\n"));
    assert!(
        !text.contains("Contributors"),
        "no contributor to IOzone made this"
    );
}

#[test]
fn the_sizes_of_mapped_and_asynchronous_tables_end_with_the_strided_read() {
    for option in ["-B", "-k 4", "-H 2"] {
        let text = done(scratch().path(), &format!("{option} -s 64 -r 4 -f f"));
        let heading = text
            .lines()
            .find(|line| line.trim_start().starts_with("kB"))
            .unwrap();
        assert_eq!(heading.split_whitespace().count(), 11, "{option}");
        assert_eq!(heading.len(), 143);
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with("64 "))
            .unwrap();
        assert_eq!(row.split_whitespace().count(), 11, "{option}: {row}");
    }
}

// Every mode runs, and the reader of `fsb compare` finds the measured values in its output.

/// Runs a command and parses its output.
fn measured(directory: &Path, line: &str) -> Run {
    let text = done(directory, line);
    let results = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(results.path(), &text).unwrap();
    let mut runs = fsb_compat::read_file(results.path())
        .unwrap_or_else(|error| panic!("{line}: {error}\n{text}"));
    assert_eq!(runs.len(), 1, "{line}");
    runs.remove(0)
}

/// Returns the operations with the number of their values.
fn points(run: &Run, metric: &str) -> Vec<(String, usize)> {
    let series = run
        .series
        .iter()
        .filter(|series| series.metric == metric && !series.points.is_empty());
    series
        .map(|series| (series.operation.clone(), series.points.len()))
        .collect()
}

const ALL: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "backward_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];

fn named(names: &[&str], count: usize) -> Vec<(String, usize)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), count))
        .collect()
}

#[test]
fn every_way_to_a_file_measures_every_operation() {
    let directory = scratch();
    for options in [
        "", "-e", "-c", "-e -c", "-o", "-+D", "-W", "-p", "-P 0", "-V 3", "-+d", "-w", "-x -t 1",
    ] {
        let own = if options.contains("-t") { "" } else { "-f f" };
        let run = measured(directory.path(), &format!("{options} -s 256 -r 16 {own}"));
        if !options.contains("-t") {
            assert_eq!(points(&run, "throughput"), named(&ALL, 1), "{options}");
        }
    }
    for options in [
        "-B",
        "-B -G",
        "-D",
        "-H 4",
        "-k 4",
        "-B -e -c",
        "-k 64 -I",
        "-H 1 -o",
        "-B -W -V 9",
        "-k 3 -+d",
    ] {
        let run = measured(directory.path(), &format!("{options} -s 256 -r 16 -f f"));
        assert_eq!(points(&run, "throughput"), named(&ALL[..9], 1), "{options}");
    }
}

#[test]
fn tables_have_a_number_for_each_pair_of_sizes() {
    let directory = scratch();
    let run = measured(directory.path(), "-az -n 64 -g 256 -i 0 -i 1 -f f");
    assert_eq!(points(&run, "throughput"), named(&ALL[..4], 18));
    let run = measured(directory.path(), "-A -n 64 -g 64 -f f");
    assert_eq!(points(&run, "throughput"), named(&ALL[..4], 5));
    let run = measured(directory.path(), "-s 64 -s 128 -r 8 -r 16 -i 0 -i 5 -f f");
    assert_eq!(
        points(&run, "throughput"),
        named(&["write", "rewrite", "stride_read"], 4)
    );
    let run = measured(directory.path(), "-a -n 64 -g 64 -y 16 -q 32 -i 0 -+n -f f");
    assert_eq!(points(&run, "throughput"), named(&["write"], 2));
    let run = measured(directory.path(), "-O -s 64 -r 16 -i 0 -i 2 -f f");
    assert_eq!(points(&run, "operation_rate").len(), 4);
    let run = measured(directory.path(), "-N -s 4m -r 1m -o -i 0 -f f");
    assert_eq!(points(&run, "latency_mean"), named(&ALL[..2], 1));
    assert!(done(directory.path(), "-M -s 64 -r 4 -i 0 -f f").contains("\n\n\tMachine = Linux "));
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

/// Automatic mode, like IOzone, measures the whole records of sizes that do not fit.
#[test]
fn automatic_mode_goes_over_sizes_that_do_not_fit() {
    let directory = scratch();
    for means in ["", "-B", "-k 4", "-V 7"] {
        let line = format!("{means} -a -n 100 -g 200 -q 12 -i 0 -i 1 -i 3 -f f");
        let output = iozone_json(directory.path(), &line);
        expect_code(&output, 0);
        let text = stdout(&output);
        let rows = text.lines().filter_map(|line| {
            let words: Vec<u64> = line
                .split_whitespace()
                .map(|word| word.parse().ok())
                .collect::<Option<_>>()?;
            (words.len() > 2).then(|| (words[0], words[1]))
        });
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [(100, 4), (100, 8), (200, 4), (200, 8)],
            "{means}: {text}"
        );
        let fields = message(&output, "warning/partial-records")["fields"].clone();
        assert_eq!(
            (&fields["file_kb"], &fields["record_kb"]),
            (&100.into(), &8.into()),
            "{means}: {fields}"
        );
    }
    let text = done(directory.path(), "-S 0 -L 0 -p -s 64 -i 0 -f f");
    assert!(
        text.contains("cache size set to 1024 kBytes.")
            && text.contains("line size set to 32 bytes."),
        "{text}"
    );
}

#[test]
fn throughput_mode_runs_in_processes_and_threads() {
    let directory = scratch();
    for options in [
        "-t 2",
        "-t 2 -T",
        "-t 1",
        "-t 2 -T -x",
        "-t 2 -C",
        "-t 2 -+u",
        "-t 2 -O",
        "-t 2 -+p 50 -i 0 -i 8",
        "-t 2 -P 0",
        "-t 2 -V 1",
        "-t 2 -T -k 4 -i 0 -i 1",
        "-t 2 -B -i 0 -i 1 -i 2",
    ] {
        let run = measured(directory.path(), &format!("{options} -s 512k -r 64k"));
        let metric = if options.contains("-O") {
            "operation_rate"
        } else {
            "throughput"
        };
        // Of two processes with so small files, one can be stopped before it begins. Then the
        // operation has a gap.
        let series = run.series.iter().filter(|series| series.metric == metric);
        let names: Vec<&String> = series.map(|series| &series.operation).collect();
        let expected: &[&str] = match options {
            _ if options.contains("-i 8") => &["write", "rewrite", "mixed"],
            _ if options.contains("-i 2") => &[
                "write",
                "rewrite",
                "read",
                "reread",
                "random_read",
                "random_write",
            ],
            _ if options.contains("-i 1") => &ALL[..4],
            _ => &[
                "write",
                "rewrite",
                "read",
                "reread",
                "backward_read",
                "stride_read",
                "random_read",
                "mixed",
                "random_write",
                "pwrite",
                "pread",
                "fwrite",
                "fread",
            ],
        };
        assert_eq!(names, expected, "{options}");
    }
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn without_a_stonewall_everybody_moves_everything() {
    let directory = scratch();
    let text = done(directory.path(), "-t 2 -x -s 1m -r 64k -i 0 -i 1 -F a b -C");
    let moved: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("\tChild["))
        .collect();
    assert_eq!(moved.len(), 8);
    assert!(
        moved
            .iter()
            .all(|line| line.contains("xfer count =    1024.00 kB")),
        "{text}"
    );
    assert!(!text.contains("Without the stonewall"), "{text}");
    // Writers finish their files for the others, so they have the complete value, too.
    let text = done(directory.path(), "-t 2 -s 1m -r 64k -i 0 -+n -F a b");
    let (before, after) = text.split_once("iozone test complete.\n").unwrap();
    assert!(
        !before.contains("Without"),
        "IOzone's own text stays as it is: {text}"
    );
    assert!(
        after.starts_with("\n\tWithout the stonewall: ") && after.lines().count() == 2,
        "{text}"
    );
}

#[test]
fn a_range_of_processes_is_measured_one_after_another() {
    let directory = scratch();
    let text = done(directory.path(), "-l 1 -u 3 -s 256k -r 64k -i 0 -+n -R");
    assert_eq!(
        text.matches("Each process writes a 256 kByte file in 64 kByte records")
            .count(),
        3
    );
    assert!(
        text.contains("\tMin process = 1 \n\tMax process = 3 \n\tThroughput test with 1 process\n"),
        "{text}"
    );
    let report = text
        .lines()
        .find(|line| line.starts_with("\"  Initial write \" "))
        .unwrap();
    assert_eq!(report.split_whitespace().count(), 4 + 3, "{report}");
    assert!(text.contains("\"Record size = 64 kBytes \"\n\"Output is in kBytes/sec\"\n"));
}

#[test]
fn repetition_sums_what_it_measures() {
    let directory = scratch();
    let run = measured(directory.path(), "--repeat-until 2ms -s 64 -r 4 -f f");
    assert_eq!(points(&run, "throughput"), named(&ALL, 1));
    let run = measured(
        directory.path(),
        "--repeat-until 2ms -t 2 -s 64 -r 4 -i 0 -i 1",
    );
    assert_eq!(points(&run, "throughput"), named(&ALL[..4], 1));
    // Each repetition starts from the same state: a new file per pass, removed before the next.
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn processor_time_is_reported_beside_the_rates() {
    let text = done(scratch().path(), "-R -+u -s 64 -r 4 -i 0 -f f");
    assert!(
        text.contains("\"Writer report\"\n        \"4\"\n\"64\"   "),
        "{text}"
    );
    assert!(
        text.contains("\"Re-writer CPU utilization report (Zero values should be ignored)\"\n"),
        "{text}"
    );
    let text = done(scratch().path(), "-t 2 -+u -C -s 64 -r 4 -i 0");
    assert!(text.contains("\tCPU Utilization: Wall time "), "{text}");
    assert!(text.contains(", wall="), "{text}");
}

#[test]
fn a_spreadsheet_is_one() {
    let directory = scratch();
    done(
        directory.path(),
        "-a -n 64 -g 128 -i 0 -i 1 -f f -b table.xlsx",
    );
    done(directory.path(), "-t 2 -s 64 -r 4 -i 0 -b together.xlsx");
    let script = "import sys, zipfile, re
for name in sys.argv[1:]:
    z = zipfile.ZipFile(name); assert z.testzip() is None
    sheet = z.read('xl/worksheets/sheet1.xml').decode(); strings = z.read('xl/sharedStrings.xml').decode()
    print(name, len(re.findall('<v>', sheet)), 'Re-reader Report' in strings, 'Initial write' in strings)";
    let output = std::process::Command::new("python3")
        .args(["-c", script, "table.xlsx", "together.xlsx"])
        .current_dir(directory.path())
        .output()
        .expect("python3 runs");
    // Four reports of 13 record sizes, two file sizes and 11 numbers each, four titles and two
    // lines above.
    assert_eq!(
        stdout(&output),
        format!(
            "table.xlsx {} True False\ntogether.xlsx 9 False True\n",
            4 * (13 + 2 + 11) + 4 + 2
        ),
        "{output:?}"
    );
    assert_eq!(listing(directory.path()), ["table.xlsx", "together.xlsx"]);
}

/// The command of Horváth 2006. IOzone writes records of Excel 2: a type, a length, and content.
#[test]
fn a_spreadsheet_with_another_name_has_the_records_of_iozone() {
    let directory = scratch();
    done(
        directory.path(),
        "-Rab eredmény.wks -n 64 -g 64 -y 4 -q 8 -i 0 -f f",
    );
    let file = std::fs::read(directory.path().join("eredmény.wks")).expect("a spreadsheet");
    let word = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let (mut at, mut labels, mut numbers) = (0, Vec::new(), Vec::new());
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 2));
        let content = &file[at + 4..at + 4 + length];
        match kind {
            0x0009 => assert_eq!(
                (at, content),
                (0, &[2, 0, 0x10, 0][..]),
                "the version and a worksheet"
            ),
            0x0004 => labels.push(String::from_utf8_lossy(&content[8..]).into_owned()),
            0x0003 => numbers.push((
                word(at + 4),
                word(at + 6),
                f64::from_le_bytes(content[7..].try_into().unwrap()),
            )),
            0x000A => assert_eq!(at + 4, file.len(), "the end"),
            _ => panic!("record {kind:#x} at {at}"),
        }
        at += 4 + length;
    }
    assert!(
        labels.contains(&"Writer Report".to_owned())
            && labels.contains(&"Re-writer Report".to_owned()),
        "{labels:?}"
    );
    assert!(
        numbers.contains(&(4, 1, 4.0)) && numbers.contains(&(5, 0, 64.0)),
        "record and file sizes: {numbers:?}"
    );
    let rate = numbers
        .iter()
        .find(|(row, column, _)| (*row, *column) == (5, 1));
    assert!(rate.is_some_and(|(_, _, rate)| *rate > 0.0), "{numbers:?}");
    assert_eq!(listing(directory.path()), ["eredmény.wks"]);
}

#[test]
fn latency_files_hold_a_line_for_each_record() {
    let directory = scratch();
    done(directory.path(), "-Q -s 64 -r 4 -f f");
    assert_eq!(
        listing(directory.path()),
        ["rol.dat", "rrol.dat", "rwol.dat", "wol.dat"]
    );
    let text = std::fs::read_to_string(directory.path().join("wol.dat")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "Offset in kBytes   Latency in microseconds  Transfer size in bytes"
    );
    assert_eq!(lines.len(), 1 + 16 + 2);
    let offsets: Vec<&str> = lines[1..17]
        .iter()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(offsets[15], "60");
    assert!(
        lines[1].ends_with("      4096") && lines[18].starts_with("System time "),
        "{text}"
    );
    done(directory.path(), "-Q -t 2 -s 64 -r 4 -i 0");
    assert!(directory.path().join("Child_1_wol.dat").exists());
}

#[test]
fn lists_and_versions_are_answers() {
    let directory = scratch();
    for (option, expected) in [
        ("-h", "-+n          no rewrite"),
        ("-v", "It is not IOzone."),
        ("-a --help", "--repeat-until TIME"),
    ] {
        let text = done(directory.path(), option);
        assert!(text.contains(expected), "{option}: {text}");
    }
    let output = command(directory.path(), "iozone --help").output().unwrap();
    expect_code(&output, 0);
    assert!(
        stdout(&output).contains("--repeat-until TIME"),
        "{}",
        stdout(&output)
    );
}

// Corrupt data is detected and reported with its place.

fn flip(path: &Path, offset: u64) -> (u8, u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    (byte[0], !byte[0])
}

/// Returns the fields of the error about corrupt data.
fn corrupt(output: &Output) -> Value {
    expect_error(output, 1, "iozone/corrupt")["fields"].clone()
}

/// Writes a file, changes a byte, and reads the file with the same options.
fn found(options: &str, tests: &str, offset: u64) {
    let directory = scratch();
    let path = directory.path().join("f");
    done(
        directory.path(),
        &format!("{options} -w -i 0 -s 256 -r 16 -f f"),
    );
    let (expected, found) = flip(&path, offset);
    let output = iozone_json(
        directory.path(),
        &format!("{options} -w {tests} -s 256 -r 16 -f f"),
    );
    let fields = corrupt(&output);
    let record = offset / (16 << 10);
    let said = format!(
        "Error in file: Position {offset} \nRecord # {record} Record size 16 kb \nFound pattern: Hex >>{found:x}<< Expecting >>{expected:x}<<\n"
    );
    assert!(
        stdout(&output).contains(&said),
        "{options}: {}",
        stdout(&output)
    );
    let placed = serde_json::json!({
        "path": "f", "offset": offset, "expected": expected, "found": found, "written_by_this_run": false,
    });
    assert_eq!(fields, placed, "{options}");
    assert!(!stdout(&output).contains("test complete"));
    assert_eq!(listing(directory.path()), ["f"], "-w keeps it");
}

#[test]
fn a_changed_byte_is_found_by_every_kind_of_reading() {
    for tests in ["-i 1", "-i 2", "-i 3", "-i 7"] {
        found("-V 7", tests, 100_001);
        found("-+d", tests, 100_002);
    }
    // Of 16 records a stride of 17 reads only the first.
    found("-V 7", "-i 5", 77);
    for means in ["-B", "-H 4", "-k 4"] {
        found(&format!("-V 7 {means}"), "-i 1", 131_071);
        found(&format!("-+d {means}"), "-i 3", 5);
    }
}

/// Like IOzone, fsb checks the start of each page without any option.
#[test]
fn a_damaged_page_start_is_found_without_verification() {
    found("-W", "-i 1", 4096 * 5 + 3);
}

#[test]
fn records_that_changed_places_are_found_in_diagnostic_mode() {
    let directory = scratch();
    let path = directory.path().join("f");
    done(directory.path(), "-+d -w -i 0 -s 64 -r 16 -f f");
    let mut bytes = std::fs::read(&path).unwrap();
    let (first, second) = bytes.split_at_mut(16 << 10);
    first.swap_with_slice(&mut second[..16 << 10]);
    std::fs::write(&path, bytes).unwrap();
    let fields = corrupt(&iozone_json(directory.path(), "-+d -i 1 -s 64 -r 16 -f f"));
    assert_eq!(
        (&fields["path"], &fields["offset"]),
        (&"f".into(), &0.into()),
        "{fields}"
    );
}

#[test]
fn processes_tell_what_they_find() {
    for threads in ["", "-T"] {
        let directory = scratch();
        done(
            directory.path(),
            &format!("-t 2 {threads} -V 7 -w -i 0 -s 256 -r 16 -F a b"),
        );
        flip(&directory.path().join("b"), 1000);
        let line = format!("-t 2 -x {threads} -V 7 -i 1 -s 256 -r 16 -F a b");
        let fields = corrupt(&iozone_json(directory.path(), &line));
        assert_eq!(
            (&fields["path"], &fields["offset"]),
            (&"b".into(), &1000.into()),
            "{fields}"
        );
        assert_eq!(
            listing(directory.path()),
            ["a", "b"],
            "files that were only read are not removed"
        );
    }
}

#[test]
fn the_extension_has_columns_of_pwrite_and_pread_that_compare_reads() {
    let directory = scratch();
    let output = iozone(directory.path(), "-E -s 64 -r 16 -i 0 -i 9 -i 10 -R -f f");
    expect_code(&output, 0);
    let text = stdout(&output);
    let heading = text.lines().find(|line| line.contains("reclen")).unwrap();
    assert!(
        heading.ends_with("  pwrite repwrite   pread   repread"),
        "{heading}"
    );
    for title in ["Pwrite", "Re-Pwrite", "Pread", "Re-Pread"] {
        assert!(text.contains(&format!("\"{title} report\"")), "{text}");
    }
    std::fs::write(directory.path().join("a.txt"), &text).unwrap();
    let compared = crate::common::succeeds(directory.path(), "compare a.txt");
    for operation in ["pwrite", "repwrite", "pread", "repread"] {
        assert!(
            stdout(&compared).contains(operation),
            "{}",
            stdout(&compared)
        );
    }
    assert_eq!(listing(directory.path()), ["a.txt"]);
}

#[test]
fn mixed_calls_leave_the_same_file() {
    for means in ["", "-B", "-B -G", "-k 4"] {
        let directory = scratch();
        let line = format!("{means} -Z -s 64 -r 16 -i 0 -i 1 -+d -w -f f");
        let output = iozone(directory.path(), &line);
        expect_code(&output, 0);
        assert!(stdout(&output).contains("\tEnable mmap & file I/O mixing.\n"));
        let size = std::fs::metadata(directory.path().join("f")).unwrap().len();
        assert_eq!(size, 64 << 10, "{line}");
    }
}

// Unsupported requests are refused by name before anything is changed.

/// Options, and the code of the error.
#[rustfmt::skip] // a table reads as one
const TABLE: &[(&str, &str)] = &[
    ("-+m hosts", "iozone/invalid-options"),
    ("-E -t 2", "iozone/invalid-options"),
    ("-E -B -i 9", "iozone/invalid-options"),
    ("-B -Z -i 1", "iozone/invalid-options"),
    ("-X file", "iozone/invalid-options"),
    ("-+x 3", "iozone/invalid-options"),
    ("-+t", "iozone/invalid-options"),
    ("-?", "iozone/invalid-options"),
    ("-+", "iozone/invalid-options"),
    ("-+Y", "iozone/invalid-options"),
    ("--repeat-untill 1s", "iozone/invalid-options"),
    ("--repeat-until 0", "iozone/invalid-options"),
    ("--repeat-until often", "iozone/invalid-options"),
    ("surplus", "iozone/invalid-options"),
    ("-s", "iozone/invalid-options"),
    ("-s 0", "iozone/invalid-options"),
    ("-s -5", "iozone/invalid-options"),
    ("-s 5x", "iozone/invalid-options"),
    ("-s 99999999999g", "iozone/invalid-options"),
    ("-r 0", "iozone/invalid-options"),
    ("-r 17m", "iozone/invalid-options"),
    ("-s 64k -r 128k", "iozone/invalid-options"),
    ("-s 100k -r 64k", "iozone/invalid-options"),
    ("-a -n 2", "iozone/invalid-options"),
    ("-a -y 1m -q 64k", "iozone/invalid-options"),
    ("-y 16 -q 4 -a -g 64", "iozone/invalid-options"),
    ("-a -n 1m -g 64k", "iozone/invalid-options"),
    ("-a -s 100 -r 64", "iozone/invalid-options"),
    ("-a -g 32", "iozone/invalid-options"),
    ("-b out.xlsx -f out.xlsx", "arguments/conflict"),
    ("-b ./out.xlsx -f out.xlsx", "arguments/conflict"),
    ("-b hard -i 1 -s 4 -f short", "iozone/invalid-options"),
    ("-t 2 -F a b -b b", "arguments/conflict"),
    ("-Q -f wol.dat", "arguments/conflict"),
    ("-n 64", "iozone/invalid-options"),
    ("-i 13", "iozone/invalid-options"),
    ("-i read", "iozone/invalid-options"),
    ("-i 11", "iozone/invalid-options"),
    ("-i 0 -i 9", "iozone/invalid-options"),
    ("-i 0 -i 8", "iozone/invalid-options"),
    ("-j 0", "iozone/invalid-options"),
    ("-t 0", "iozone/invalid-options"),
    ("-t 257", "iozone/invalid-options"),
    ("-t 2 -f f", "iozone/invalid-options"),
    ("-t 2 -F a", "iozone/invalid-options"),
    ("-t 2 -F a b c", "iozone/invalid-options"),
    ("-t 2 -F a a", "iozone/invalid-options"),
    ("-t 2 -a", "iozone/invalid-options"),
    ("-t 2 -N", "iozone/invalid-options"),
    ("-t 2 -i 4", "iozone/invalid-options"),
    ("-l 4 -u 2", "iozone/invalid-options"),
    ("-F a b", "iozone/invalid-options"),
    ("-T", "iozone/invalid-options"),
    ("-x", "iozone/invalid-options"),
    ("-C", "iozone/invalid-options"),
    ("-+p 50", "iozone/invalid-options"),
    ("-+p 0 -t 2", "iozone/invalid-options"),
    ("-B -H 4", "iozone/invalid-options"),
    ("-H 2 -k 2", "iozone/invalid-options"),
    ("-H 0", "iozone/invalid-options"),
    ("-B -D -G", "iozone/invalid-options"),
    ("-G", "iozone/invalid-options"),
    ("-I -B", "iozone/invalid-options"),
    ("-B -i 0 -i 6", "iozone/invalid-options"),
    ("-V 300", "iozone/invalid-options"),
    ("-V 3 --repeat-until 1s", "iozone/invalid-options"),
    ("-k 65536 -s 64g -r 16m", "iozone/invalid-options"),
    ("-i 1", "iozone/invalid-options"),
    ("-i 1 -i 2 -f nothing", "iozone/invalid-options"),
    ("-i 1 -f short -s 64", "iozone/invalid-options"),
    ("-f .", "iozone/invalid-options"),
    ("-f missing/f", "iozone/invalid-options"),
    ("-f short/f", "iozone/invalid-options"),
    ("-f dangling", "iozone/invalid-options"),
    ("-f pipe", "iozone/invalid-options"),
    ("-f /dev/null", "iozone/invalid-options"),
    ("-t 2 -F short hard", "iozone/invalid-options"),
    ("-f link", "iozone/invalid-options"),
    ("-i 1 -f link", "iozone/invalid-options"),
    ("-t 2 -F new link", "iozone/invalid-options"),
    ("-b .", "output/unwritable"),
    ("-b missing/out.xlsx", "output/unwritable"),
];

/// Requests that this machine cannot perform.
const MACHINE: &[(&str, &str)] = &[
    ("-P 1023", "iozone/invalid-options"),
    ("-s 900000g -r 1m", "machine/no-space"),
    ("-a -g 900000g", "machine/no-space"),
    ("-t 200 -s 9000g -r 1m", "machine/no-space"),
];

#[test]
fn a_bad_request_is_told_what_is_wrong_and_leaves_nothing() {
    let directory = scratch();
    let path = directory.path();
    std::fs::write(path.join("short"), "bytes").unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("dangling")).unwrap();
    std::os::unix::fs::symlink("short", path.join("link")).unwrap();
    std::fs::hard_link(path.join("short"), path.join("hard")).unwrap();
    std::process::Command::new("mkfifo")
        .arg(path.join("pipe"))
        .status()
        .unwrap();
    let before = listing(path);
    let requests: Vec<(Vec<&str>, &str)> = TABLE
        .iter()
        .map(|(line, code)| {
            (
                std::iter::once("iozone")
                    .chain(line.split_whitespace())
                    .collect(),
                *code,
            )
        })
        .collect();
    let requests: Vec<(&[&str], &str)> = requests
        .iter()
        .map(|(words, code)| (words.as_slice(), *code))
        .collect();
    expect_refusals("iozone", path, &requests);
    // These messages contain sizes and processors of this machine.
    for (line, code) in MACHINE {
        let words: Vec<&str> = std::iter::once("iozone")
            .chain(line.split_whitespace())
            .collect();
        fails(
            path,
            &words,
            if *code == "machine/no-space" { 3 } else { 2 },
            code,
        );
    }
    assert_eq!(listing(path), before);
    assert_eq!(std::fs::read(path.join("short")).unwrap(), b"bytes");
}

#[test]
fn a_block_device_is_never_written_not_even_through_a_link() {
    let directory = scratch();
    let is_block = |path: &std::path::Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let devices = std::fs::read_dir("/dev")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let Some(device) = devices.into_iter().find(|path| is_block(path)) else {
        return;
    };
    std::os::unix::fs::symlink(&device, directory.path().join("link")).unwrap();
    for name in [device.to_str().unwrap(), "link"] {
        let arguments = ["iozone", "-s", "64", "-r", "4", "-f", name];
        let error = fails(directory.path(), &arguments, 2, "iozone/invalid-options");
        assert_eq!(error["fields"]["kind"], "block_device", "{error}");
    }
    assert!(device.exists());
}

/// A file system that accepts O_DIRECT but uses the cache, or refuses it, does not measure direct
/// I/O.
#[test]
fn o_direct_is_refused_where_it_cannot_be() {
    let shm = tempfile::Builder::new()
        .prefix("fsb-test-")
        .tempdir_in("/dev/shm")
        .unwrap();
    let arguments = ["iozone", "-I", "-s", "64", "-r", "4", "-i", "0", "-f", "f"];
    fails(shm.path(), &arguments, 3, "iozone/unable");
    assert_eq!(listing(shm.path()), Vec::<String>::new());
    // Records smaller than a block of the device cannot bypass the cache anywhere.
    let directory = scratch();
    let output = iozone(directory.path(), "-I -s 63 -r 1 -i 0 -f f");
    if output.status.code() != Some(0) {
        expect_code(&output, 3);
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}

// `fsb iozone` removes the files that it made, however it ends, and changes no others.

fn stopped_by(signal: Signal, code: i32, line: &str, file: &str) {
    let directory = scratch();
    let mut arguments = vec!["iozone"];
    arguments.extend(line.split_whitespace());
    let running = Running::start(directory.path(), &arguments);
    wait_until("the file is there", Duration::from_secs(20), || {
        directory.path().join(file).exists()
    });
    running.signal(signal);
    let output = running.wait();
    expect_code(&output, code);
    assert!(
        stdout(&output).ends_with("\niozone: interrupted\n\nexiting iozone\n\n"),
        "{}",
        stdout(&output)
    );
    let left = listing(directory.path());
    let expected = if line.contains("-w") {
        vec![file.to_owned()]
    } else {
        vec![]
    };
    assert_eq!(left, expected, "{line}");
}

/// Returns whether SIGHUP ends processes that this test starts. They ignore it if the test runs
/// under nohup.
fn hangups_arrive() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0
}

#[test]
fn signals_end_it_and_it_cleans_up() {
    let endless = "--repeat-until 1h -s 256k -r 4k";
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -f f"), "f");
    stopped_by(Signal::TERM, 143, &format!("{endless} -i 0 -i 1 -f f"), "f");
    if hangups_arrive() {
        stopped_by(Signal::HUP, 129, &format!("{endless} -i 0 -f f"), "f");
        stopped_by(
            Signal::HUP,
            129,
            &format!("{endless} -t 2 -i 0 -F a b"),
            "a",
        );
    }
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -B -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -k 4 -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -w -f f"), "f");
    stopped_by(
        Signal::INT,
        130,
        &format!("{endless} -t 2 -T -i 0 -F a b"),
        "a",
    );
    stopped_by(
        Signal::INT,
        130,
        &format!("{endless} -t 2 -i 0 -F a b"),
        "a",
    );
    stopped_by(Signal::TERM, 143, "-t 1 -s 256m -r 4k -i 0 -o -F a", "a");
}

#[test]
fn results_before_an_interruption_are_reported() {
    let directory = scratch();
    let line = "iozone -R -s 64 -s 256m -r 4 -i 0 -o -f f";
    let running = Running::start(
        directory.path(),
        &line.split_whitespace().collect::<Vec<_>>(),
    );
    let second_row = || {
        directory
            .path()
            .join("f")
            .metadata()
            .is_ok_and(|metadata| metadata.len() > 64 << 10)
    };
    wait_until("the second row", Duration::from_secs(20), second_row);
    running.signal(Signal::INT);
    let output = running.wait();
    expect_code(&output, 130);
    assert!(
        stdout(&output).contains("Excel output is below:\n\n\"Writer report\"\n"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn files_that_are_only_read_stay() {
    let directory = scratch();
    done(directory.path(), "-i 0 -w -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 1 -i 5 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 4 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

/// fsb did not write the file, so a test that checks it stops before it writes anything.
#[test]
fn a_foreign_file_stays_when_a_test_stops_before_it_wrote() {
    let directory = scratch();
    let foreign: Vec<u8> = (0..65_536u32).map(|at| (at * 7 % 251) as u8).collect();
    for (line, name) in [
        ("-i 1 -i 2 -s 64 -f f", "f"),
        ("-i 1 -i 4 -R -s 64 -f f", "f"),
        ("-t 1 -i 1 -i 2 -s 64 -F f", "f"),
        ("-t 1 -T -i 1 -i 2 -s 64 -F f", "f"),
    ] {
        std::fs::write(directory.path().join(name), &foreign).unwrap();
        expect_code(&iozone(directory.path(), line), 1);
        assert!(
            std::fs::read(directory.path().join(name)).unwrap() == foreign,
            "{line}: it was changed"
        );
    }
}

#[test]
fn an_existing_file_is_overwritten_and_other_files_are_not_touched() {
    let directory = scratch();
    std::fs::write(directory.path().join("f"), vec![1; 1 << 20]).unwrap();
    std::fs::write(directory.path().join("other"), "other").unwrap();
    done(directory.path(), "-s 64 -r 4 -f f -w -i 0");
    assert_eq!(
        directory.path().join("f").metadata().unwrap().len(),
        64 << 10
    );
    done(directory.path(), "-s 64 -r 4 -f f");
    assert_eq!(listing(directory.path()), ["other"]);
    assert_eq!(
        std::fs::read(directory.path().join("other")).unwrap(),
        b"other"
    );
}

#[test]
fn without_names_files_are_called_as_iozone_calls_them() {
    let directory = scratch();
    done(directory.path(), "-w -i 0 -s 64 -r 4");
    done(directory.path(), "-w -t 2 -i 0 -s 64 -r 4");
    assert_eq!(
        listing(directory.path()),
        ["iozone.DUMMY.0", "iozone.DUMMY.1", "iozone.tmp"]
    );
}
