use super::super::parse::{Request, parse};
use super::*;

fn options(line: &str) -> Options {
    match parse(line.split_whitespace().map(Into::into), line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

/// Rows of IOzone's own output: file size and record size.
fn rows_of(text: &str) -> Vec<MatrixRow> {
    let words = |line: &str| -> Option<Vec<u64>> { line.split_whitespace().map(|word| word.parse().ok()).collect() };
    let rows = text.lines().filter_map(words).filter(|words| words.len() > 3);
    rows.map(|words| MatrixRow { file: words[0], record: words[1] }).collect()
}

#[test]
fn rows_are_those_of_the_real_tool_for_the_same_command() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"));
    let mut compared = 0;
    for folder in ["tool-output", "iozone-here/ext3", "iozone-here/ext4", "iozone-2010/ext4", "iozone-2010/xfs"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            let Some(command) = text.lines().find_map(|line| line.trim().strip_prefix("Command line used: ")) else {
                continue;
            };
            let line = command.split_once(' ').unwrap().1;
            if line.contains("-t ") {
                continue;
            }
            assert_eq!(rows(&options(line)), rows_of(&text), "{}", entry.path().display());
            compared += 1;
        }
    }
    assert!(compared >= 20, "only {compared} outputs were compared");
}

#[test]
fn automatic_mode_leaves_small_records_of_large_files_out_unless_told_otherwise() {
    let smallest = |line: &str, file: u64| {
        let rows = rows(&options(line)).into_iter().filter(|row| row.file == file);
        rows.map(|row| row.record).min().unwrap()
    };
    assert_eq!(smallest("-a", 16 * 1024), 4);
    assert_eq!(smallest("-a", 32 * 1024), 64);
    assert_eq!(smallest("-az", 512 * 1024), 4);
    assert_eq!(smallest("-A", 512 * 1024), 4);
    assert_eq!(smallest("-a -s 64m", 64 * 1024), 4);
    assert_eq!(smallest("-a -y 8 -g 64m", 64 * 1024), 8);
    assert_eq!(smallest("-a -q 128 -g 64m", 64 * 1024), 4);
}

#[test]
fn unselected_tests_are_blank_and_unrepeated_ones_zero() {
    use Operation::*;
    let blank = [Test::Random, Test::Backward, Test::RecordRewrite, Test::Stride, Test::Fwrite, Test::Fread];
    let mut expected = vec![Piece::Do(Write, 0), Piece::Zero(1), Piece::Do(Read, 2), Piece::Zero(3)];
    expected.extend(blank.map(Piece::Blank));
    assert_eq!(pieces(&options("-i 0 -i 1 -+n")), expected);
    let all = pieces(&options("-a"));
    let told: Vec<_> =
        all.iter().filter_map(|piece| if let Piece::Do(_, column) = piece { Some(*column) } else { None }).collect();
    assert_eq!(told, (0..COLUMNS).collect::<Vec<_>>());
    assert_eq!(all.iter().filter(|piece| matches!(piece, Piece::Silently(BackwardRead))).count(), 1);
    assert_eq!(pieces(&options("-A")).len(), 4);
    assert_eq!(pieces(&options("-B")).last(), Some(&Piece::Do(StrideRead, 8)));
    assert_eq!(pieces(&options("-B -i 0")).last(), Some(&Piece::Blank(Test::Fwrite)));
}

#[test]
fn throughput_mode_runs_in_its_own_order() {
    use Operation::*;
    assert_eq!(
        throughput(&options("-t 2 -i 0 -i 1 -i 2 -i 8")),
        [Write, Rewrite, Read, Reread, RandomRead, Mix, RandomWrite]
    );
    assert_eq!(throughput(&options("-t 2 -+n -i 0 -i 1")), [Write, Read]);
    assert_eq!(throughput(&options("-t 2")).len(), 13);
    assert_eq!(throughput(&options("-t 2 -B")).len(), 11);
    assert_eq!(counts(&options("-l 2 -u 4")), [2, 3, 4]);
    assert_eq!(counts(&options("-u 3")), [1, 2, 3]);
    assert_eq!(counts(&options("-t 4 -t 2")), [4, 2]);
    assert_eq!(files(&options("-t 2"))[1].to_str(), Some("iozone.DUMMY.1"));
}
