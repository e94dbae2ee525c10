//! Every reader on every file: recognised by its tool alone, cut anywhere, damaged.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use fsb_compat::{Problem, TOOLS, read_file};
use fsb_model::set::Run;
use proptest::prelude::*;

use crate::{at, check, every_file, golden, parse, remarks, series, shared};

#[test]
fn names_are_unique_and_described_in_a_line() {
    for (index, tool) in TOOLS.iter().enumerate() {
        assert!(
            TOOLS[..index].iter().all(|other| other.name != tool.name),
            "{}",
            tool.name
        );
        for text in [
            tool.title,
            tool.about,
            tool.looks_for,
            tool.values,
            tool.repetition,
        ] {
            assert!(
                !text.is_empty() && !text.contains('\n') && text.len() < 100,
                "{text}"
            );
        }
    }
}

#[test]
fn each_file_is_recognised_by_its_tool_and_no_other() {
    for (name, path) in every_file() {
        let head = fs::read(&path).unwrap();
        let takers: Vec<_> = TOOLS
            .iter()
            .filter(|tool| (tool.recognise)(&head))
            .map(|tool| tool.name)
            .collect();
        assert_eq!(takers, [name], "{}", path.display());
    }
}

#[test]
fn every_run_knows_its_tool_version_and_path() {
    for (name, path) in every_file() {
        let Ok(runs) = read_file(&path) else { continue };
        for run in &runs {
            crate::check(run);
            assert_eq!(
                (run.tool.as_str(), run.path.as_str()),
                (name, path.to_str().unwrap())
            );
            // Versions of IO500 have the names of its lists; a log of fio has none.
            let starts = |version: &str| {
                version.starts_with(|c: char| c.is_ascii_digit()) || name == "io500"
            };
            assert!(
                run.version
                    .as_deref()
                    .map_or(has_no_version(name, &path), starts),
                "{}",
                path.display()
            );
            assert!(
                run.series
                    .iter()
                    .all(|series| !series.found_unit.is_empty())
            );
        }
    }
}

/// Returns whether the tool prints no version into such a file.
fn has_no_version(tool: &str, path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    ["hyperfine", "ioping", "fio-log", "micro"].contains(&tool)
        || is_binary(path)
        || tool == "pgbench" && ["log-", "alone"].iter().any(|part| name.contains(part))
}

/// Returns whether a file is a spreadsheet, which has no lines to cut or to end otherwise.
fn is_binary(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ending == "wks" || ending == "xlsx"
}

#[test]
fn forms_that_are_not_read_say_how_to_get_one_that_is() {
    for (path, hint) in [
        (
            shared("tool-output/fio-3.33-normal.txt"),
            "--output-format=json",
        ),
        (golden("postmark/1.53-terse.txt"), "set report verbose"),
    ] {
        let message = read_file(&path).unwrap_err().to_string();
        assert!(
            message.contains(hint) && message.contains(path.to_str().unwrap()),
            "{message}"
        );
    }
}

fn refusal(directory: &Path, content: &[u8]) -> String {
    let path = directory.join("results.txt");
    fs::write(&path, content).unwrap();
    let error = read_file(&path).unwrap_err();
    assert_eq!(error.path.as_deref(), Some(path.as_path()));
    error.to_string()
}

#[test]
fn a_file_of_no_tool_is_refused_with_the_list_of_tools() {
    let directory = tempfile::tempdir().unwrap();
    assert!(refusal(directory.path(), b"").ends_with("it is empty"));
    let message = refusal(directory.path(), b"\xff\xfeI\0o\0");
    assert!(message.contains("iconv"), "{message}");
    for content in [&b"hello\nworld\n"[..], &[0; 100_000], b"\x7fELF\x02\x01"] {
        let message = refusal(directory.path(), content);
        let kind = if content.contains(&0) {
            "binary data"
        } else {
            "text"
        };
        assert!(content[0] == 0x7f || message.contains(kind), "{message}");
        assert!(
            message.contains(&format!("none of {} readers", TOOLS.len())),
            "{message}"
        );
        assert!(message.contains("'fsb list tools'"), "{message}");
    }
    let message = read_file(&directory.path().join("none")).unwrap_err();
    assert!(matches!(message.problem, Problem::Io(_)));
    assert!(matches!(
        read_file(directory.path()).unwrap_err().problem,
        Problem::Io(_)
    ));
}

#[test]
fn a_tool_without_results_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    for (content, why) in [
        ("\tIozone: Performance Test of File I/O\n", "no table"),
        (
            "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n  ]\n}\n",
            "no job",
        ),
        (
            "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n  {",
            "line 4",
        ),
        ("1.98,2.00a,host,1,1,64M\n", "no CSV line with values"),
        (
            "PostMark v1.51 : 8/14/01\nError: cannot set location\n",
            "no verbose report",
        ),
        (
            "Filebench Version 1.5-alpha3\n0.000: Allocated 177MB of shared memory\n",
            "no summary",
        ),
        (
            "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n</PhoronixTestSuite>\n",
            "no result of a bar graph",
        ),
        (
            "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n  <Result>\n",
            "line 4",
        ),
        (
            "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\nCPU speed:\n",
            "no result of its file test",
        ),
        (
            "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nOptions:\n",
            "no line of an iteration",
        ),
        (
            "mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n",
            "no summary",
        ),
        (
            "{\"results\": [{\"command\": \"x\", \"mean\": 1, \"stddev\": 0",
            "the JSON is cut",
        ),
        (
            "pgbench (15.18)\nstarting vacuum...end.\n",
            "no final report",
        ),
        (
            "FSUse%        Count         Size    Files/sec     App Overhead\n",
            "no row",
        ),
        (
            "dbench version 4.00 - Copyright Andrew Tridgell 1999-2004\n",
            "no line 'Throughput",
        ),
        (
            "4 KiB <<< d (ext4 /dev/vda 252.0 GiB): request=1 time=88.0 us (warmup)\n",
            "no statistics",
        ),
        (
            "---\nsystem-info:\n      stress-ng-version: 0.15.06\n...\n",
            "no metrics",
        ),
        ("{\"params\": {\"files_per_thread\": 1}}", "no rate"),
        ("#,value,unit\n1,2.0,m\n", "no line with a number"),
        (
            "{\"schema\": \"fsbench/report/1\", \"targets\"",
            "cut or damaged",
        ),
    ] {
        let message = refusal(directory.path(), content.as_bytes());
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_large_file_of_zeros_is_refused_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("zeros");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(
        read_file(&path)
            .unwrap_err()
            .to_string()
            .contains("binary data")
    );
}

// A file cut anywhere gives values of the whole file, and no other.

type Key<'a> = (
    Option<&'a str>,
    &'a str,
    &'a str,
    Option<u64>,
    Option<u64>,
    u64,
    u32,
);

fn values(runs: &[Run]) -> HashSet<Key<'_>> {
    let mut values = HashSet::new();
    for series in runs.iter().flat_map(|run| &run.series) {
        let (workload, operation, metric) = (
            series.workload.as_deref(),
            &*series.operation,
            &*series.metric,
        );
        values.extend(series.points.iter().map(|point| {
            (
                workload,
                operation,
                metric,
                point.file_size,
                point.record_size,
                point.value.to_bits(),
                point.line,
            )
        }));
    }
    values
}

/// Cuts a file every `step` bytes. An odd step cuts each of many similar lines elsewhere.
fn cut(tool: &str, path: &Path, step: usize) {
    let content = fs::read(path).unwrap();
    let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
    let whole = (tool.read)(&mut &content[..]).unwrap();
    let whole = values(&whole);
    let mut most = 0;
    for end in (0..content.len()).step_by(step) {
        let Ok(runs) = (tool.read)(&mut &content[..end]) else {
            continue;
        };
        let found = values(&runs);
        let strange: Vec<_> = found.difference(&whole).collect();
        assert!(
            strange.is_empty(),
            "{} cut at {end}: {strange:?}",
            path.display()
        );
        most = most.max(found.len());
    }
    assert!(most > 0, "{}", path.display());
}

#[test]
fn a_cut_text_gives_no_value_that_the_whole_does_not() {
    let files = every_file().into_iter().filter(|(tool, path)| {
        let path = path.to_string_lossy();
        // One document of smallfile and one array of ioping are results only as a whole. Logs and
        // progress lines are added up, so that fewer of them have another sum. A run that was
        // aborted or failed has no value.
        let is_whole = ["smallfile", "ioping", "micro"].contains(tool) && path.ends_with(".json")
            || is_binary(Path::new(&*path))
            || [
                "periods",
                "log-",
                "alone",
                "progress",
                "aborted",
                "failures",
                "3.2-create",
                "samples",
            ]
            .iter()
            .any(|part| path.contains(part));
        !tool.starts_with("fio")
            && !is_whole
            && !path.contains("terse")
            && !path.contains("iozone-")
    });
    for (tool, path) in files {
        let is_long = fs::metadata(&path).unwrap().len() > 3000;
        cut(tool, &path, if is_long { 3 } else { 1 });
    }
    for (name, step) in [
        ("single", 1),
        ("throughput", 1),
        ("R-b", 7),
        ("directio", 13),
        ("N", 13),
    ] {
        cut(
            "iozone",
            &shared(&format!("tool-output/iozone-3.471-{name}.txt")),
            step,
        );
    }
    cut("iozone", &shared("iozone-2010/xfs/xfs1.iozone"), 61);
}

#[test]
fn a_cut_document_gives_no_value_that_the_whole_does_not() {
    cut("fio", &shared("tool-output/fio-3.33.json"), 17);
    cut("fio", &golden("fio/fio-3.33-groups.json"), 29);
}

// Damaged files: bad lines, repeats, other line ends, bytes of something else.

fn table() -> String {
    fs::read_to_string(shared("iozone-aa/ext4/ext4_1.iozone")).unwrap()
}

const ROW: &str = "              64       8  2444640  7100397 15972885 22737791 20962191  7940539  6271021  12902017  15972885  7940539  1526887 10402178 30484297";

#[test]
fn lines_may_end_as_on_windows() {
    for (tool, path) in every_file() {
        if is_binary(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
        let Ok(runs) = (tool.read)(&mut text.as_bytes()) else {
            continue;
        };
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(
            (tool.read)(&mut windows.as_bytes()).unwrap(),
            runs,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_repeated_cell_keeps_the_first_and_names_both_lines() {
    let run = parse(
        "iozone",
        &table().replace(
            ROW,
            &format!("{ROW}\n{}", ROW.replace("2444640", "9999999")),
        ),
    );
    assert_eq!(
        at(series(&run, "write", "throughput"), 64, 8)
            .unwrap()
            .value,
        2_444_640.0 * 1024.0
    );
    assert_eq!(
        remarks(&run)[0],
        "31: file size 64 kB with record size 8 kB is in line 30 too; the first is kept"
    );
    assert!(run.series.iter().all(|series| series.points.len() == 81));
}

#[test]
fn a_repeated_rate_keeps_the_first_too() {
    let text = fs::read_to_string(shared("tool-output/iozone-3.471-throughput.txt")).unwrap();
    let line = "\tParent sees throughput for  2 rewriters \t= 1467412.76 kB/sec\n";
    let run = parse(
        "iozone",
        &text.replace(
            line,
            &format!("{line}{}", line.replace("1467412.76", "9.00")),
        ),
    );
    assert_eq!(
        series(&run, "rewrite", "throughput_parent").points[0].value,
        1_467_412.76 * 1024.0
    );
    assert_eq!(
        remarks(&run),
        ["38: rewrite: second value after line 37; the first is kept"]
    );
}

#[test]
fn bad_rows_are_left_out_with_their_line_and_the_rest_is_read() {
    for (bad, why) in [
        (ROW.replace("2444640", "24446x0"), "no row of the table"),
        (ROW.replace("2444640", "2444,64"), "no row of the table"),
        (ROW.replace("  2444640", " -2444640"), "no row of the table"),
        (
            ROW.replace("2444640", "99999999999999999999999"),
            "not a number that fits",
        ),
        (
            ROW.replace("      64       8", "       8      64"),
            "file size 8 kB with record size 64 kB",
        ),
        (format!("{ROW}  1234567"), "15 numbers under 14 headings"),
        (format!("\0\0\0{ROW}"), "no row of the table"),
    ] {
        let run = parse("iozone", &table().replace(ROW, &bad));
        assert!(
            run.series.iter().all(|series| series.points.len() == 80),
            "{bad}"
        );
        let first = &remarks(&run)[0];
        assert!(first.starts_with("30: ") && first.contains(why), "{first}");
    }
}

#[test]
fn a_wrapped_counter_is_rejected() {
    let run = parse(
        "iozone",
        &table().replace(ROW, &ROW.replace("2444640", "18014398509481983")),
    );
    assert_eq!(series(&run, "write", "throughput").points.len(), 80);
    assert_eq!(series(&run, "rewrite", "throughput").points.len(), 81);
    assert!(
        remarks(&run)[0].contains("is not a possible measurement"),
        "{:?}",
        remarks(&run)
    );
}

#[test]
fn remarks_on_a_file_full_of_rubbish_are_bounded() {
    let rubbish = "something else wrote here\n".repeat(5_000);
    let run = parse(
        "iozone",
        &table().replace(ROW, &format!("{ROW}\n{rubbish}")),
    );
    assert!(run.warnings.len() < 50);
    assert!(
        run.warnings
            .last()
            .unwrap()
            .text
            .ends_with("more remarks are not shown")
    );
    assert!(run.series.iter().all(|series| series.points.len() == 81));
}

#[test]
fn a_stopped_run_says_so() {
    let text = table();
    let run = parse(
        "iozone",
        &text[..text.find("\niozone test complete").unwrap()],
    );
    let expected = "the output ends early: the line 'iozone test complete.' is missing; IOzone was stopped, or the file is cut";
    assert_eq!(remarks(&run), [expected]);
    assert!(run.series.iter().all(|series| series.points.len() == 81));
}

#[test]
fn a_half_overwritten_file_gives_its_other_half() {
    let mut bytes = table().into_bytes();
    let (start, end) = (3_000, 8_000);
    bytes[start..end].fill(0);
    let iozone = TOOLS.iter().find(|tool| tool.name == "iozone").unwrap();
    let runs = (iozone.read)(&mut &bytes[..]).unwrap();
    let points = runs[0].series[0].points.len();
    assert!((40..60).contains(&points), "{points}");
    assert!(runs[0].warnings[0].text.contains("no row of the table"));
}

proptest! {
    #[test]
    fn no_damage_panics_or_gives_an_impossible_value(
        file in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, prop::collection::vec(any::<u8>(), 0..12)), 1..8),
        text: bool,
    ) {
        let files = every_file();
        let (_, path) = file.get(&files);
        let mut content = fs::read(path).unwrap();
        for (place, gone, mut put) in damage {
            if text {
                put.iter_mut().for_each(|byte| *byte = b" 0123456789,.\n\"{}[]+:abcmsKB/"[usize::from(*byte) % 29]);
            }
            let start = place.index(content.len().max(1)).min(content.len());
            let end = (start + gone).min(content.len());
            content.splice(start..end, put);
        }
        for tool in TOOLS {
            if let Ok(runs) = (tool.read)(&mut &content[..]) {
                runs.iter().for_each(check);
            }
        }
    }

    #[test]
    fn no_bytes_panic(content in prop::collection::vec(any::<u8>(), 0..400)) {
        for tool in TOOLS {
            let _ = (tool.recognise)(&content);
            if let Ok(runs) = (tool.read)(&mut &content[..]) {
                runs.iter().for_each(check);
            }
        }
    }
}
