//! Every mode runs, and the reader of `fsb compare` finds the measured values in its output.

use std::path::Path;

use fsb_model::set::Run;

use super::{done, listing};
use crate::common::{command, expect_code, message, scratch, stdout};

/// Runs a command and parses its output.
fn measured(directory: &Path, line: &str) -> Run {
    let text = done(directory, line);
    let results = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(results.path(), &text).unwrap();
    let mut runs = fsb_compat::read_file(results.path()).unwrap_or_else(|error| panic!("{line}: {error}\n{text}"));
    assert_eq!(runs.len(), 1, "{line}");
    runs.remove(0)
}

/// Returns the operations with the number of their values.
fn points(run: &Run, metric: &str) -> Vec<(String, usize)> {
    let series = run.series.iter().filter(|series| series.metric == metric && !series.points.is_empty());
    series.map(|series| (series.operation.clone(), series.points.len())).collect()
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
    names.iter().map(|name| ((*name).to_owned(), count)).collect()
}

#[test]
fn every_way_to_a_file_measures_every_operation() {
    let directory = scratch();
    for options in ["", "-e", "-c", "-e -c", "-o", "-+D", "-W", "-p", "-P 0", "-V 3", "-+d", "-w", "-x -t 1"] {
        let own = if options.contains("-t") { "" } else { "-f f" };
        let run = measured(directory.path(), &format!("{options} -s 256 -r 16 {own}"));
        if !options.contains("-t") {
            assert_eq!(points(&run, "throughput"), named(&ALL, 1), "{options}");
        }
    }
    for options in ["-B", "-B -G", "-D", "-H 4", "-k 4", "-B -e -c", "-k 64 -I", "-H 1 -o", "-B -W -V 9", "-k 3 -+d"] {
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
    assert_eq!(points(&run, "throughput"), named(&["write", "rewrite", "stride_read"], 4));
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
        let output = super::iozone_json(directory.path(), &line);
        expect_code(&output, 0);
        let text = stdout(&output);
        let rows = text.lines().filter_map(|line| {
            let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
            (words.len() > 2).then(|| (words[0], words[1]))
        });
        assert_eq!(rows.collect::<Vec<_>>(), [(100, 4), (100, 8), (200, 4), (200, 8)], "{means}: {text}");
        let fields = message(&output, "warning/partial-records")["fields"].clone();
        assert_eq!((&fields["file_kb"], &fields["record_kb"]), (&100.into(), &8.into()), "{means}: {fields}");
    }
    let text = done(directory.path(), "-S 0 -L 0 -p -s 64 -i 0 -f f");
    assert!(text.contains("cache size set to 1024 kBytes.") && text.contains("line size set to 32 bytes."), "{text}");
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
        let metric = if options.contains("-O") { "operation_rate" } else { "throughput" };
        let names: Vec<String> = points(&run, metric).into_iter().map(|(name, _)| name).collect();
        let expected: &[&str] = match options {
            _ if options.contains("-i 8") => &["write", "rewrite", "mixed"],
            _ if options.contains("-i 2") => &["write", "rewrite", "read", "reread", "random_read", "random_write"],
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
    let moved: Vec<&str> = text.lines().filter(|line| line.starts_with("\tChild[")).collect();
    assert_eq!(moved.len(), 8);
    assert!(moved.iter().all(|line| line.contains("xfer count =    1024.00 kB")), "{text}");
    assert!(!text.contains("Without the stonewall"), "{text}");
    // Writers finish their files for the others, so they have the complete value, too.
    let text = done(directory.path(), "-t 2 -s 1m -r 64k -i 0 -+n -F a b");
    let (before, after) = text.split_once("iozone test complete.\n").unwrap();
    assert!(!before.contains("Without"), "IOzone's own text stays as it is: {text}");
    assert!(after.starts_with("\n\tWithout the stonewall: ") && after.lines().count() == 2, "{text}");
}

#[test]
fn a_range_of_processes_is_measured_one_after_another() {
    let directory = scratch();
    let text = done(directory.path(), "-l 1 -u 3 -s 256k -r 64k -i 0 -+n -R");
    assert_eq!(text.matches("Each process writes a 256 kByte file in 64 kByte records").count(), 3);
    assert!(text.contains("\tMin process = 1 \n\tMax process = 3 \n\tThroughput test with 1 process\n"), "{text}");
    let report = text.lines().find(|line| line.starts_with("\"  Initial write \" ")).unwrap();
    assert_eq!(report.split_whitespace().count(), 4 + 3, "{report}");
    assert!(text.contains("\"Record size = 64 kBytes \"\n\"Output is in kBytes/sec\"\n"));
}

#[test]
fn repetition_sums_what_it_measures() {
    let directory = scratch();
    let run = measured(directory.path(), "--repeat-until 2ms -s 64 -r 4 -f f");
    assert_eq!(points(&run, "throughput"), named(&ALL, 1));
    let run = measured(directory.path(), "--repeat-until 2ms -t 2 -s 64 -r 4 -i 0 -i 1");
    assert_eq!(points(&run, "throughput"), named(&ALL[..4], 1));
    // Each repetition starts from the same state: a new file per pass, removed before the next.
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn processor_time_is_reported_beside_the_rates() {
    let text = done(scratch().path(), "-R -+u -s 64 -r 4 -i 0 -f f");
    assert!(text.contains("\"Writer report\"\n        \"4\"\n\"64\"   "), "{text}");
    assert!(text.contains("\"Re-writer CPU utilization report (Zero values should be ignored)\"\n"), "{text}");
    let text = done(scratch().path(), "-t 2 -+u -C -s 64 -r 4 -i 0");
    assert!(text.contains("\tCPU Utilization: Wall time "), "{text}");
    assert!(text.contains(", wall="), "{text}");
}

#[test]
fn a_spreadsheet_is_one() {
    let directory = scratch();
    done(directory.path(), "-a -n 64 -g 128 -i 0 -i 1 -f f -b table.xlsx");
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
    // Four reports of 13 record sizes, two file sizes and 11 numbers each, four titles and two lines above.
    assert_eq!(
        stdout(&output),
        format!("table.xlsx {} True False\ntogether.xlsx 9 False True\n", 4 * (13 + 2 + 11) + 4 + 2),
        "{output:?}"
    );
    assert_eq!(listing(directory.path()), ["table.xlsx", "together.xlsx"]);
}

#[test]
fn latency_files_hold_a_line_for_each_record() {
    let directory = scratch();
    done(directory.path(), "-Q -s 64 -r 4 -f f");
    assert_eq!(listing(directory.path()), ["rol.dat", "rrol.dat", "rwol.dat", "wol.dat"]);
    let text = std::fs::read_to_string(directory.path().join("wol.dat")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Offset in kBytes   Latency in microseconds  Transfer size in bytes");
    assert_eq!(lines.len(), 1 + 16 + 2);
    let offsets: Vec<&str> = lines[1..17].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(offsets[15], "60");
    assert!(lines[1].ends_with("      4096") && lines[18].starts_with("System time "), "{text}");
    done(directory.path(), "-Q -t 2 -s 64 -r 4 -i 0");
    assert!(directory.path().join("Child_1_wol.dat").exists());
}

#[test]
fn lists_and_versions_are_answers() {
    let directory = scratch();
    for (option, expected) in
        [("-h", "-+n          no rewrite"), ("-v", "It is not IOzone."), ("-a --help", "--repeat-until TIME")]
    {
        let text = done(directory.path(), option);
        assert!(text.contains(expected), "{option}: {text}");
    }
    let output = command(directory.path(), &["iozone", "--help"]).output().unwrap();
    expect_code(&output, 0);
    assert!(stdout(&output).contains("--repeat-until TIME"), "{}", stdout(&output));
}
