//! Damaged files: bad lines, repeats, other line ends, bytes of something else.

use std::fs;

use fsb_compat::TOOLS;
use proptest::prelude::*;

use crate::{at, check, every_file, parse, remarks, series, shared};

fn table() -> String {
    fs::read_to_string(shared("iozone-aa/ext4/ext4_1.iozone")).unwrap()
}

const ROW: &str = "              64       8  2444640  7100397 15972885 22737791 20962191  7940539  6271021  12902017  15972885  7940539  1526887 10402178 30484297";

#[test]
fn lines_may_end_as_on_windows() {
    for (tool, path) in every_file() {
        let text = fs::read_to_string(&path).unwrap();
        let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
        let Ok(runs) = (tool.read)(&mut text.as_bytes()) else { continue };
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!((tool.read)(&mut windows.as_bytes()).unwrap(), runs, "{}", path.display());
    }
}

#[test]
fn a_repeated_cell_keeps_the_first_and_names_both_lines() {
    let run = parse("iozone", &table().replace(ROW, &format!("{ROW}\n{}", ROW.replace("2444640", "9999999"))));
    assert_eq!(at(series(&run, "write", "throughput"), 64, 8).unwrap().value, 2_444_640.0 * 1024.0);
    assert_eq!(remarks(&run)[0], "31: file size 64 kB with record size 8 kB is in line 30 too; the first is kept");
    assert!(run.series.iter().all(|series| series.points.len() == 81));
}

#[test]
fn a_repeated_rate_keeps_the_first_too() {
    let text = fs::read_to_string(shared("tool-output/iozone-3.471-throughput.txt")).unwrap();
    let line = "\tParent sees throughput for  2 rewriters \t= 1467412.76 kB/sec\n";
    let run = parse("iozone", &text.replace(line, &format!("{line}{}", line.replace("1467412.76", "9.00"))));
    assert_eq!(series(&run, "rewrite", "throughput_parent").points[0].value, 1_467_412.76 * 1024.0);
    assert_eq!(remarks(&run), ["38: rewrite: second value after line 37; the first is kept"]);
}

#[test]
fn bad_rows_are_left_out_with_their_line_and_the_rest_is_read() {
    for (bad, why) in [
        (ROW.replace("2444640", "24446x0"), "no row of the table"),
        (ROW.replace("2444640", "2444,64"), "no row of the table"),
        (ROW.replace("  2444640", " -2444640"), "no row of the table"),
        (ROW.replace("2444640", "99999999999999999999999"), "not a number that fits"),
        (ROW.replace("      64       8", "       8      64"), "file size 8 kB with record size 64 kB"),
        (format!("{ROW}  1234567"), "15 numbers under 14 headings"),
        (format!("\0\0\0{ROW}"), "no row of the table"),
        ("Error writing block 12, fd= 3".to_owned(), "Error writing block 12"),
    ] {
        let run = parse("iozone", &table().replace(ROW, &bad));
        assert!(run.series.iter().all(|series| series.points.len() == 80), "{bad}");
        let first = &remarks(&run)[0];
        assert!(first.starts_with("30: ") && first.contains(why), "{first}");
    }
}

#[test]
fn a_wrapped_counter_is_rejected() {
    let run = parse("iozone", &table().replace(ROW, &ROW.replace("2444640", "18014398509481983")));
    assert_eq!(series(&run, "write", "throughput").points.len(), 80);
    assert_eq!(series(&run, "rewrite", "throughput").points.len(), 81);
    assert!(remarks(&run)[0].contains("is not a possible measurement"), "{:?}", remarks(&run));
}

#[test]
fn remarks_on_a_file_full_of_rubbish_are_bounded() {
    let rubbish = "something else wrote here\n".repeat(5_000);
    let run = parse("iozone", &table().replace(ROW, &format!("{ROW}\n{rubbish}")));
    assert!(run.warnings.len() < 50);
    assert!(run.warnings.last().unwrap().text.ends_with("more remarks are not shown"));
    assert!(run.series.iter().all(|series| series.points.len() == 81));
}

#[test]
fn a_stopped_run_says_so() {
    let text = table();
    let run = parse("iozone", &text[..text.find("\niozone test complete").unwrap()]);
    assert_eq!(remarks(&run), ["no line 'iozone test complete.': IOzone was stopped, or the file is cut"]);
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
