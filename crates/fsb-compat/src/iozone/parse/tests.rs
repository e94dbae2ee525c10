use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::catalogue::{OPTIONS, find};
use super::super::options::*;
use super::super::test::Test;
use super::*;

fn read(line: &str) -> Result<Request, OptionsError> {
    parse(line.split_whitespace().map(Into::into), format!("fsb iozone {line}"))
}

fn options(line: &str) -> Options {
    match read(line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

type Holds = fn(&Options) -> bool;

/// Every supported option: a command with it, the setting that it must make, and its line in the banner.
#[rustfmt::skip] // a table reads as one
const TABLE: &[(&str, &str, Holds, &str)] = &[
    ("-a", "-a", |o| o.auto && !o.all_records, "Auto Mode"),
    ("-A", "-A", |o| o.auto && o.all_records && o.read_write_only && o.tests.iter().eq([Test::Write, Test::Read]), "Auto Mode 2. This option is obsolete. Use -az -i0 -i1 "),
    ("-b", "-b out.xls", |o| o.report && o.sheet == Some(PathBuf::from("out.xls")), ""),
    ("-B", "-B", |o| o.means == Means::Mapping(Msync::Never), "Using mmap files"),
    ("-c", "-c", |o| o.include_close && !o.include_flush, "Include close in write timing"),
    ("-C", "-C -t 2", |o| o.show_children, ""),
    ("-D", "-D", |o| o.means == Means::Mapping(Msync::Async), "Using msync(MS_ASYNC) on mmap files"),
    ("-e", "-e", |o| o.include_flush && !o.include_close, "Include fsync in write timing"),
    ("-f", "-f /mnt/x", |o| o.file == Path::new("/mnt/x"), ""),
    ("-F", "-t 2 -F a b -i 0", |o| o.files == [Path::new("a"), Path::new("b")] && o.tests.contains(Test::Write), ""),
    ("-g", "-a -g 2g", |o| o.file_sizes.most == Some(2 << 20), "Using maximum file size of 2097152 kilobytes."),
    ("-G", "-B -G", |o| o.means == Means::Mapping(Msync::Sync), "Using msync(MS_SYNC) on mmap files"),
    ("-H", "-H 4", |o| o.means == Means::Async { depth: 4, copy: true }, "POSIX async I/O (with bcopy). Depth 4"),
    ("-i", "-i 0 -i1", |o| o.tests.iter().eq([Test::Write, Test::Read]), ""),
    ("-I", "-I", |o| o.direct, "O_DIRECT feature enabled"),
    ("-j", "-j 5", |o| o.stride == 5, ""),
    ("-k", "-k 8", |o| o.means == Means::Async { depth: 8, copy: false }, "POSIX Async I/O (no bcopy). Depth 8 "),
    ("-l", "-l 2 -u 3", |o| o.least_processes == Some(2) && o.throughput(), ""),
    ("-L", "-L 64", |o| o.cache_line == 64, ""),
    ("-M", "-M", |o| o.lines == [BannerLine::Machine], ""),
    ("-n", "-a -n 8", |o| o.file_sizes.least == Some(8), "Using minimum file size of 8 kilobytes."),
    ("-N", "-N", |o| o.unit == Unit::Microseconds, "Microseconds/op Mode. Output is in microseconds per operation."),
    ("-o", "-o", |o| o.sync && !o.data_sync, "SYNC Mode. "),
    ("-O", "-O", |o| o.unit == Unit::Operations, "OPS Mode. Output is in operations per second."),
    ("-p", "-p", |o| o.purge, "Purge Mode On"),
    ("-P", "-P 1", |o| o.first_cpu == Some(1), "Binding of processors beginning with 1 "),
    ("-q", "-a -q 64k", |o| o.record_sizes.most == Some(64), "Using Maximum Record Size 64 kB"),
    ("-Q", "-Q", |o| o.latency_files, "Offset/latency files enabled."),
    ("-r", "-r 1m -s 4m", |o| o.record_sizes.list == [1024], "Record Size 1024 kB"),
    ("-R", "-R", |o| o.report && o.sheet.is_none(), "Excel chart generation enabled"),
    ("-s", "-s 512K", |o| o.file_sizes.list == [512], "File size set to 512 kB"),
    ("-S", "-S 2048", |o| o.cache_size == 2048, ""),
    ("-t", "-t 4", |o| o.counts == [4] && o.throughput(), ""),
    ("-T", "-T -t 2", |o| o.threads, ""),
    ("-u", "-u 3", |o| o.most_processes == Some(3) && o.throughput(), ""),
    ("-U", "-U /mnt", |o| o.remount == Some(PathBuf::from("/mnt")), ""),
    ("-V", "-V 90", |o| o.check == Check::Pattern(0x5a), "Verify Mode. Pattern 5a5a5a5a"),
    ("-w", "-w", |o| o.keep, "Setting no_unlink"),
    ("-W", "-W", |o| o.lock, "Lock file when reading/writing."),
    ("-x", "-x -t 2", |o| !o.stonewall, "Stonewall disabled"),
    ("-y", "-a -y 8k", |o| o.record_sizes.least == Some(8), "Using Minimum Record Size 8 kB"),
    ("-z", "-az", |o| o.auto && o.all_records, "Cross over of record size disabled."),
    ("-+d", "-+d", |o| o.check == Check::Diagnose, ">>> I/O Diagnostic mode enabled. <<<"),
    ("-+D", "-+D", |o| o.data_sync && !o.sync, ">>> O_DSYNC mode enabled. <<<"),
    ("-+n", "-+n", |o| o.no_retest, "No retest option selected"),
    ("-+p", "-+p 30 -t 2", |o| o.read_percent == Some(30), "Percent read in mix test is 30"),
    ("-+u", "-+u", |o| o.cpu, "CPU utilization Resolution = 0.000 seconds."),
];

#[test]
fn every_supported_option_does_what_it_says() {
    for (name, line, holds, banner) in TABLE {
        let options = options(line);
        assert!(holds(&options), "{name}: {options:?}");
        let said = options.lines.contains(&BannerLine::Text((*banner).to_owned()));
        assert!(banner.is_empty() || said, "{name}: {:?}", options.lines);
        assert!(find(name).unwrap().is_supported());
    }
    let tested: BTreeSet<&str> = TABLE.iter().map(|(name, ..)| *name).chain(["-h", "-v"]).collect();
    let supported = OPTIONS.iter().filter(|known| known.is_supported()).map(|known| known.name);
    assert_eq!(supported.collect::<BTreeSet<_>>(), tested);
}

#[test]
fn every_option_of_the_real_tool_is_known_and_those_not_supported_are_refused_by_name() {
    let help = include_str!("../../../testdata/tool-output/iozone-3.471-help.txt");
    let lines = help.lines().skip_while(|line| !line.starts_with("           -a "));
    let listed: Vec<&str> =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|word| word.starts_with('-')).collect();
    assert!(listed.len() > 80, "{listed:?}");
    for name in listed {
        find(name).unwrap();
    }
    for known in OPTIONS.iter().filter(|known| !known.is_supported()) {
        let error = read(known.name).unwrap_err().to_string();
        assert!(error.contains(known.name) && error.contains("is not supported"), "{error}");
    }
    let names: BTreeSet<_> = OPTIONS.iter().map(|known| known.name).collect();
    assert_eq!(names.len(), OPTIONS.len());
    assert!(OPTIONS.iter().all(|known| !known.about.is_empty()));
}

#[test]
fn defaults_are_those_of_the_real_tool() {
    let options = options("");
    assert_eq!(
        (options.file.to_str(), options.stride, options.cache_size, options.cache_line),
        (Some("iozone.tmp"), 17, 1024, 32)
    );
    let rows = super::super::sequence::rows(&options);
    assert_eq!((rows.len(), rows[0].file, rows[0].record), (1, 512, 4));
    assert_eq!(options.command, "fsb iozone ");
}

#[test]
fn switches_cluster_and_values_touch_their_options() {
    let one = options("-aRzef/tmp/x -i0 -n64 -g1m");
    assert!(one.auto && one.report && one.all_records && one.include_flush);
    assert_eq!(one.file, Path::new("/tmp/x"));
    assert_eq!((one.file_sizes.least, one.file_sizes.most), (Some(64), Some(1024)));
    assert_eq!(options("-+n -+u").lines.len(), 3);
    assert_eq!(options("-t 2 -t 4 -t 2").counts, [2, 4]);
    let many = options("-s 64 -s 128 -r 4");
    assert!(many.auto && many.all_records);
}

#[test]
fn the_banner_repeats_options_in_the_order_typed() {
    let text = |line: &str| options(line).lines.iter().map(|line| format!("{line:?}")).collect::<String>();
    let (first, second) = (text("-e -c -o"), text("-o -c -e"));
    assert!(first.find("fsync") < first.find("close") && first.find("close") < first.find("SYNC Mode"));
    assert!(second.find("SYNC Mode") < second.find("close") && second.find("close") < second.find("fsync"));
}

#[test]
fn questions_are_answered_and_not_run() {
    assert_eq!(read("-a -h"), Ok(Request::List));
    assert_eq!(read("-v"), Ok(Request::Version));
    assert_eq!(read("-s 64 --help"), Ok(Request::Help));
    assert_eq!(options("--repeat-until 100ms").repeat_until, Some(Duration::from_millis(100)));
    assert!(options("-a --allow-concurrent").allow_concurrent && !options("-a").allow_concurrent);
}

proptest! {
    #[test]
    fn no_command_line_panics(words in prop::collection::vec("-[a-zA-Z+][a-zA-Z0-9]{0,3}|[0-9]{1,20}[kmgx]?|-+[a-zA-Z]", 0..6)) {
        if let Ok(Request::Run(options)) = parse(words.into_iter().map(Into::into), "iozone") {
            let sizes = super::super::sequence::rows(&options);
            prop_assert!(!sizes.is_empty() && sizes.iter().all(|row| row.record <= row.file));
        }
    }
}
