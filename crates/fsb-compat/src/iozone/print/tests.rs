use super::*;
use crate::iozone::sequence::{MatrixRow, Operation, Piece, pieces, rows};
use crate::iozone::{Options, Request, parse};

fn options(line: &str) -> Options {
    match parse(line.split_whitespace().map(Into::into), format!("iozone {line}")) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

/// Returns a file of real output.
fn real(name: &str) -> String {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tool-output"));
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// Returns the command of an output, its table from the heading on, and the text after it.
fn table_of(text: &str) -> (Options, String, String) {
    let command = text.lines().find_map(|line| line.trim().strip_prefix("Command line used: iozone ")).unwrap();
    let start = text.find("\n                                                              random").unwrap() + 1;
    let end = text.find(COMPLETE).unwrap();
    (options(command), text[start..end].to_owned(), text[end..].to_owned())
}

/// Prints a real table's own numbers again.
fn reprint(options: &Options, table: &str) -> (String, Report) {
    let mut lines = table.lines().skip(2);
    let (mut text, mut report) = (heading(options), Report::default());
    for sizes in rows(options) {
        let mut numbers = lines.next().unwrap().split_whitespace().skip(2).map(|word| word.parse().unwrap());
        report.start(sizes);
        text.push_str(&row(sizes));
        for piece in pieces(options) {
            match piece {
                Piece::Do(_, column) | Piece::Zero(column) => {
                    let value = numbers.next().unwrap();
                    report.put(column, value, 0.0);
                    text.push_str(&number(column, value));
                }
                Piece::Silently(_) => {}
                Piece::Blank(test) => text.push_str(blank(test)),
            }
        }
        text.push('\n');
    }
    (text, report)
}

#[test]
fn real_tables_are_reprinted_to_the_last_blank() {
    for name in ["single", "N", "O", "R", "R-b", "cpu", "sync", "directio"] {
        let text = real(&format!("iozone-3.471-{name}.txt"));
        let (options, table, _) = table_of(&text);
        assert_eq!(reprint(&options, &table).0, table, "{name}");
    }
}

#[test]
fn real_reports_are_reprinted_to_the_last_blank() {
    for name in ["R", "R-b"] {
        let text = real(&format!("iozone-3.471-{name}.txt"));
        let (options, table, rest) = table_of(&text);
        let (_, report) = reprint(&options, &table);
        let (_, expected) = rest.split_once(REPORTS).unwrap();
        assert_eq!(reports(&options, &report), expected, "{name}");
    }
}

#[test]
fn records_that_automatic_mode_leaves_out_are_zeros_in_a_report() {
    let options = options("-R -a -i 0 -+n -n 16m -g 32m -q 128");
    let mut report = Report::default();
    for file in [16_384, 32_768] {
        report.start(MatrixRow { file, record: 64 });
        report.put(0, 7, 0.0);
    }
    let text = reports(&options, &report);
    assert!(text.contains("\"32768\"   0  0  0  0  7  0 \n"), "{text}");
}

/// As IOzone 3.489 prints it: all records of automatic mode above, the measured ones below.
#[test]
fn a_report_of_one_pair_of_sizes_is_headed_by_all_records() {
    let of_one = |line: &str| {
        let options = options(line);
        let mut report = Report::default();
        report.start(rows(&options)[0]);
        report.put(0, 752_329, 0.0);
        reports(&options, &report).lines().skip(2).take(2).collect::<Vec<_>>().join("\n")
    };
    let all = "        \"4\"  \"8\"  \"16\"  \"32\"  \"64\"  \"128\"  \"256\"  \"512\"  \"1024\"  \"2048\"  \"4096\"  \"8192\"  \"16384\"";
    assert_eq!(of_one("-R -s 64 -i 0"), format!("{all}\n\"64\"   752329 "));
    assert_eq!(of_one("-R -s 64 -r 16 -i 0"), "        \"16\"\n\"64\"   752329 ");
}

/// As IOzone prints it: the last -t typed, or the fewest processes. The blocks state the numbers that follow.
#[test]
fn the_number_of_processes_is_announced_once() {
    let facts = Facts {
        program: String::new(),
        platform: String::new(),
        began: String::new(),
        machine: String::new(),
        resolution: 0.0,
    };
    for (line, expected) in [
        ("-t 1 -t 3", "size.\n\tThroughput test with 3 processes\n"),
        ("-t 3 -t 1", "size.\n\tThroughput test with 1 process\n"),
        ("-l 1 -u 3", "size.\n\tMin process = 1 \n\tMax process = 3 \n\tThroughput test with 1 process\n"),
    ] {
        let text = banner(&options(line), &facts);
        assert!(text.ends_with(expected), "{line}: {text}");
    }
}

#[test]
fn a_real_block_of_throughput_mode_is_reprinted() {
    let text = real("iozone-3.471-throughput.txt");
    let options = options("-t 2 -s 32m -r 64k -i 0 -i 1 -i 2 -i 8 -F m/a m/b");
    let start = text.find("\n\tChildren see throughput for  2 readers").unwrap();
    let end = text.find("\n\tChildren see throughput for 2 re-readers").unwrap();
    let child = |moved, rate| Child { moved, rate, full: None, wall: 1.0, cpu: 0.5 };
    let children = vec![child(30_656.0, 7_729_611.0), child(32_768.0, 8_289_539.0)];
    let seconds = (30_656.0 + 32_768.0) / 11_125_029.21;
    let test = ThroughputTest { operation: Operation::Read, children, seconds };
    assert_eq!(block(&options, &test), text[start..end]);
    assert!(text.contains(&intro(&options, MatrixRow { file: 32_768, record: 64 })));
}

#[test]
fn the_lines_of_all_blocks_are_those_of_the_real_tool() {
    let text = real("iozone-3.471-throughput.txt");
    let options = options("-t 2 -s 32m -r 64k -i 0 -i 1 -i 2 -i 8 -F m/a m/b");
    let mut seen = 0;
    for operation in crate::iozone::sequence::throughput(&options) {
        let child = Child { moved: 1.0, rate: 1.0, full: None, wall: 1.0, cpu: 1.0 };
        let printed = block(&options, &ThroughputTest { operation, children: vec![child; 2], seconds: 1.0 });
        for line in printed.lines().filter(|line| line.contains(" for ")) {
            let start = line.split_once("= ").unwrap().0;
            assert!(text.lines().any(|line| line.starts_with(start)), "{line}");
            seen += 1;
        }
    }
    assert_eq!(seen, 14);
}

/// As other people's published output has it.
#[test]
fn the_report_of_throughput_mode_has_a_line_for_each_operation() {
    let options = options("-t 2 -t 4 -R -s 64 -r 4 -i 0 -+n");
    let test = |count: usize, rate| {
        let child = Child { moved: 1.0, rate, full: None, wall: 1.0, cpu: 1.0 };
        vec![ThroughputTest { operation: Operation::Write, children: vec![child; count], seconds: 1.0 }]
    };
    let runs = [test(2, 123_029.595), test(4, 1_000_000.0)];
    let expected = "\n\"Throughput report Y-axis is type of test X-axis is number of processes\"\n\"Record size = 4 kBytes \"\n\
                    \"Output is in kBytes/sec\"\n\n\"  Initial write \"  246059.19  4000000.00 \n\n";
    assert_eq!(throughput_report(&options, MatrixRow { file: 64, record: 4 }, &runs), expected);
}

#[test]
fn the_banner_of_the_real_tool_is_kept_but_for_who_measured() {
    let text = real("iozone-3.471-sync.txt");
    let (mut options, _, _) = table_of(&text);
    options.command = "iozone -a -n 64k -g 1m -e -c -o -i 0 -i 1 -f m/f".to_owned();
    let facts = Facts {
        program: "fsb 1.2.3".to_owned(),
        platform: "linux-AMD64".to_owned(),
        began: "Fri Nov 20 15:43:52 2026".to_owned(),
        machine: String::new(),
        resolution: 0.000_001,
    };
    let ours = banner(&options, &facts);
    let from = |text: &str| text[text.find("\tRun began").unwrap()..].to_owned();
    assert!(from(&text).starts_with(&from(&ours)), "{ours}");
    assert!(
        ours.starts_with("\tIozone: Performance Test of File I/O\n\t        Version $Revision: 3.471 (fsb 1.2.3) $\n")
    );
}
