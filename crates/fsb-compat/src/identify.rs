//! The kind of a file from its start, for messages about a file that the command does not read.
//!
//! Results of tools are in [`TOOLS`](crate::TOOLS); the other kinds are in [`KINDS`].

use std::borrow::Cow;

use crate::text::{holds, shortened};

/// The kind of a file, and the way to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKind {
    /// A noun phrase, such as `output of fio`.
    pub name: Cow<'static, str>,
    way: Way,
}

/// The way to read a file of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A command of fsb reads it.
    Command(&'static str),
    /// No command reads it. The text names the way to a file that one reads.
    Advice(&'static str),
}

impl FileKind {
    /// Returns the kind of the results of a tool.
    pub(crate) fn of_results(tool: &'static str) -> FileKind {
        FileKind {
            name: format!("output of {tool}").into(),
            way: Way::Command("fsb compare"),
        }
    }

    /// Returns whether a command, such as `fsb compare`, reads the file.
    pub fn is_read_by(&self, command: &str) -> bool {
        matches!(self.way, Way::Command(known) if known == command)
    }

    /// Returns the text for messages that follows the kind: the command that reads the file, or the
    /// way to a file that a command reads.
    pub fn remedy(&self) -> String {
        match self.way {
            Way::Command(command) => format!("'{command}' reads it"),
            Way::Advice(text) => text.to_owned(),
        }
    }
}

/// A row of [`KINDS`].
struct KnownKind {
    name: &'static str,
    way: Way,
    test: Test,
}

/// A test of the start of a file.
enum Test {
    /// Returns whether a file with this start is of the kind.
    Is(fn(&[u8]) -> bool),
    /// Returns the detail that follows the name if a file with this start is of the kind.
    Detail(fn(&[u8]) -> Option<String>),
}

const fn read(name: &'static str, command: &'static str, test: fn(&[u8]) -> bool) -> KnownKind {
    KnownKind {
        name,
        way: Way::Command(command),
        test: Test::Is(test),
    }
}

const fn unread(name: &'static str, advice: &'static str, test: fn(&[u8]) -> bool) -> KnownKind {
    KnownKind {
        name,
        way: Way::Advice(advice),
        test: Test::Is(test),
    }
}

const fn detailed(
    name: &'static str,
    advice: &'static str,
    test: fn(&[u8]) -> Option<String>,
) -> KnownKind {
    KnownKind {
        name,
        way: Way::Advice(advice),
        test: Test::Detail(test),
    }
}

/// Every kind of file other than the results of a tool, and output of tools in forms that no reader
/// reads. The first whose test holds is the kind of a file.
#[rustfmt::skip] // a table reads as one
static KINDS: &[KnownKind] = &[
    read("a trace of fsb", "fsb trace show", |head| head.get(..8).is_some_and(|magic| magic.eq_ignore_ascii_case(b"fsbtrace"))),
    read("a page of 'fsb publish'", "fsb report", |head| holds(head, b"application/vnd.fsbench.run+gzip")),
    read("the record of a run of fsb", "fsb report DIRECTORY", is_run_record),
    unread("compressed by gzip", "decompress it: zcat FILE > NEW", |head| head.starts_with(&[0x1f, 0x8b])),
    unread("compressed by xz", "decompress it: xzcat FILE > NEW", |head| head.starts_with(b"\xfd7zXZ\0")),
    unread("compressed by zstd", "decompress it: zstdcat FILE > NEW", |head| head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])),
    unread("compressed by bzip2", "decompress it: bzcat FILE > NEW", |head| head.starts_with(b"BZh")),
    unread("a spreadsheet", "fsb reads the .wks and .xlsx of 'iozone -b', and text that IOzone prints", is_spreadsheet),
    unread("a zip archive", "unpack it: unzip FILE", |head| head.starts_with(ZIP)),
    unread("a tar archive", "unpack it: tar xf FILE", |head| head.get(257..262) == Some(b"ustar")),
    unread("a web page", "fsb reads what the tools print; use that file", is_web_page),
    detailed("output of sysbench", "fsb reads 1.0 and later; run the test with such a version", old_sysbench),
    unread("the CSV of IOR", "fsb reads IOR's text; run it without -O summaryFormat=CSV", is_ior_csv),
    unread("the JSON of IOR", "fsb reads IOR's text; run it without -O summaryFormat=JSON", is_ior_json),
    unread("the JSON of the Phoronix Test Suite", "fsb reads the composite.xml of the same results, below ~/.phoronix-test-suite/test-results", is_phoronix_json),
    unread("result.txt of IO500", "fsb reads the file result_summary.txt beside it", is_io500_result),
    unread("the heading of bonnie++'s CSV", "fsb reads the lines of results, which bonnie++ prints last", |head| head.starts_with(b"name,file_size,putc,")),
    unread("a terse report of fio in version 2", "fsb reads versions 3 to 5 and JSON; run fio with --output-format=json --output=FILE", |head| any_line(head, is_terse_2)),
    read("an I/O log of fio", "fsb trace import", |head| head.starts_with(b"fio version ")),
    read("a log of strace", "fsb trace import", |head| any_line(head, is_strace)),
    read("output of blkparse", "fsb trace import", |head| any_line(head, is_blkparse)),
    read("a fio job file", "fsb fio", is_fio_job),
    read("a filebench workload file", "fsb filebench", |head| any_line(head, is_wml)),
    read("a file of PostMark commands", "fsb postmark", |head| any_line(head, is_postmark)),
    read("a plan of fsb", "fsb run", is_plan),
    detailed("messages of fio, first", "fio wrote no results; run it with --output-format=json --output=FILE", fio_messages),
    detailed("a message of the shell,", "install the program and repeat the run", shell_message),
];

/// Returns the kind of a file with this start, unless it is the output of a tool that is read.
pub(crate) fn find(head: &[u8]) -> Option<FileKind> {
    KINDS.iter().find_map(|kind| {
        let name = match kind.test {
            Test::Is(test) => test(head).then(|| kind.name.into()),
            Test::Detail(test) => test(head).map(|detail| format!("{} {detail}", kind.name).into()),
        };
        name.map(|name| FileKind {
            name,
            way: kind.way,
        })
    })
}

/// Returns the lines of a text without blanks at either end, except empty ones and comments that
/// begin with `#` or `;`.
fn lines(head: &[u8]) -> impl Iterator<Item = &str> {
    let text = head
        .split(|byte| *byte == b'\n')
        .map_while(|line| std::str::from_utf8(line).ok());
    text.map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

fn any_line(head: &[u8], test: fn(&str) -> bool) -> bool {
    lines(head).any(test)
}

/// Returns whether this is `run.json` of a run directory, or its journal of trials.
fn is_run_record(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
        && (holds(head, b"\"fsbench/run/") || holds(head, b"\"fsbench/trial/"))
}

/// Returns whether a line has the form `[PID] SECONDS.MICROSECONDS CALL(…`, as with `strace -f
/// -ttt`.
fn is_strace(line: &str) -> bool {
    let line = line
        .trim_start_matches(|letter: char| letter.is_ascii_digit())
        .trim_start();
    let is_call = |text: &str| {
        let name = text.split_once('(').map_or("", |(name, _)| name);
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let stamped = line
        .split_once(' ')
        .is_some_and(|(time, call)| time.parse::<f64>().is_ok() && is_call(call.trim_start()));
    stamped || (is_call(line) && line.contains(") ") && line.contains("= "))
}

/// Returns whether a line has the form `MAJOR,MINOR CPU NUMBER SECONDS PID ACTION …`.
fn is_blkparse(line: &str) -> bool {
    let mut fields = line.split_whitespace();
    let device = fields.next().and_then(|device| device.split_once(','));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
        && fields
            .by_ref()
            .take(2)
            .filter(|field| is_number(field))
            .count()
            == 2
        && fields
            .next()
            .is_some_and(|time| time.contains('.') && time.parse::<f64>().is_ok())
}

/// Returns whether this is a job file: sections of options without quotes, one of which decides the
/// work.
fn is_fio_job(head: &[u8]) -> bool {
    const OF_WORK: [&str; 10] = [
        "rw",
        "readwrite",
        "bs",
        "blocksize",
        "ioengine",
        "size",
        "iodepth",
        "numjobs",
        "filename",
        "runtime",
    ];
    lines(head).any(|line| {
        let name = line.split([';', '#']).next().unwrap_or_default().trim_end();
        name.starts_with('[') && name.ends_with(']')
    }) && lines(head).any(|line| {
        let (name, value) = line.split_once('=').unwrap_or(("", ""));
        OF_WORK.contains(&name.trim_end()) && !value.trim_start().starts_with(['"', '\'', '['])
    })
}

fn is_wml(line: &str) -> bool {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("define") => words
            .next()
            .is_some_and(|kind| ["fileset", "file", "process", "flowop"].contains(&kind)),
        Some("set") => words
            .next()
            .is_some_and(|variable| variable.starts_with('$')),
        _ => false,
    }
}

fn is_postmark(line: &str) -> bool {
    const SETTINGS: [&str; 10] = [
        "size",
        "number",
        "seed",
        "transactions",
        "location",
        "subdirectories",
        "read",
        "write",
        "buffering",
        "bias",
    ];
    let mut words = line.split_whitespace();
    words.next() == Some("set")
        && words
            .next()
            .is_some_and(|setting| SETTINGS.contains(&setting))
        && words.next().is_some()
}

/// Returns whether this is a plan: TOML with targets, a suite or workloads.
fn is_plan(head: &[u8]) -> bool {
    const KEYS: [&str; 3] = ["targets", "suite", "workload"];
    let is_key = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or(("", ""));
        KEYS.contains(&name.trim_end()) && value.trim_start().starts_with(['"', '\'', '['])
    };
    lines(head).any(|line| is_key(line) || line == "[[workload]]")
}

/// Returns the lines that are not empty, without blanks at either end.
fn lines_of_bytes(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
}

/// Finds `sysbench 0.4.12:  multi-threaded system evaluation benchmark`.
fn old_sysbench(head: &[u8]) -> Option<String> {
    let version = |line: &[u8]| {
        let rest = line.strip_prefix(b"sysbench ")?;
        let rest = rest.strip_prefix(b"v").unwrap_or(rest);
        let end = rest
            .iter()
            .position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))
            .unwrap_or(rest.len());
        rest.starts_with(b"0.")
            .then(|| String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    lines_of_bytes(head).find_map(version)
}

fn is_ior_csv(head: &[u8]) -> bool {
    lines_of_bytes(head).any(|line| line.starts_with(b"access,bw(MiB/s),"))
}

fn is_ior_json(head: &[u8]) -> bool {
    is_object(head) && holds(head, b"\"Command line\"") && holds(head, b"\"tests\"")
}

fn is_phoronix_json(head: &[u8]) -> bool {
    let profile = holds(head, b"\"pts\\/") || holds(head, b"\"pts/") || holds(head, b"\"local\\/");
    is_object(head) && holds(head, b"\"results\"") && (profile || holds(head, b"\"proportion\""))
}

fn is_object(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
}

fn is_io500_result(head: &[u8]) -> bool {
    lines_of_bytes(head).any(|line| line == b"[ior-easy-write]") && holds(head, b"score ")
}

/// The first bytes of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// Finds the spreadsheets of `iozone -b`, and those that other programs make of them.
fn is_spreadsheet(head: &[u8]) -> bool {
    let biff = [
        &b"\x09\x00\x04\x00"[..],
        b"\x09\x00\x06\x00",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    ];
    let zip = head.starts_with(ZIP);
    biff.iter().any(|start| head.starts_with(start))
        || (zip && (holds(head, b"xl/") || holds(head, b"opendocument.spreadsheet")))
}

fn is_web_page(head: &[u8]) -> bool {
    let start = head.trim_ascii_start();
    [&b"<!doctype"[..], b"<html"].iter().any(|tag| {
        start
            .get(..tag.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(tag))
    })
}

/// Returns whether a line is `2;JOB;GROUP;ERROR;…`.
fn is_terse_2(line: &str) -> bool {
    let fields: Vec<&str> = line.split(';').collect();
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(fields[..], ["2", _, group, error, _, ..] if is_count(group) && is_count(error))
}

/// Finds the messages of fio without a report.
fn fio_messages(head: &[u8]) -> Option<String> {
    lines_of_bytes(head)
        .any(|line| line.starts_with(b"fio: ") || line.starts_with(b"clock setaffinity failed"))
        .then(|| first(head))
}

fn shell_message(head: &[u8]) -> Option<String> {
    lines_of_bytes(head)
        .next()
        .filter(|line| line.ends_with(b": command not found") || line.ends_with(b": not found"))
        .map(|_| first(head))
}

/// Returns the first line in quotes.
fn first(head: &[u8]) -> String {
    let line = String::from_utf8_lossy(lines_of_bytes(head).next().unwrap_or_default());
    format!("'{}'", shortened(&line, LONGEST))
}

/// Characters of a message that are shown.
const LONGEST: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn command(head: &str) -> Option<&'static str> {
        match find(head.as_bytes())?.way {
            Way::Command(command) => Some(command),
            Way::Advice(text) => panic!("{head}: {text}"),
        }
    }

    #[test]
    fn inputs_of_other_commands_are_identified_by_their_start() {
        for (head, expected) in [
            (
                "; a comment\n[global]\nrw=randread\nsize=1m\n[a]\n",
                Some("fsb fio"),
            ),
            ("[global] # all\nioengine = libaio\n[a]\n", Some("fsb fio")),
            (
                "# a comment\nset $dir=/tmp\ndefine fileset name=x,path=$dir\nrun 10\n",
                Some("fsb filebench"),
            ),
            (
                "define process name=p,instances=1\n{\n",
                Some("fsb filebench"),
            ),
            (
                "set location /srv\nset number 500\nrun\n",
                Some("fsb postmark"),
            ),
            ("fsbtrace\u{1}", Some("fsb trace show")),
            ("fio version 2 iolog\nf add\n", Some("fsb trace import")),
            (
                "100 1700000000.001000 openat(AT_FDCWD, \"f\", O_RDONLY) = 3 <0.000020>\n",
                Some("fsb trace import"),
            ),
            (
                "  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n",
                Some("fsb trace import"),
            ),
            (
                "# text\nname = \"p\"\ntargets = [\"ext4\"]\nsuite = \"quick\"\n[controls]\nsize = \"8G\"\n",
                Some("fsb run"),
            ),
            (
                "{\n  \"schema\": \"fsbench/run/1\",\n",
                Some("fsb report DIRECTORY"),
            ),
            ("hello, world\n", None),
            ("[1, 2]\n", None),
            ("set\n", None),
            ("", None),
        ] {
            assert_eq!(command(head), expected, "{head}");
        }
    }

    #[test]
    fn forms_are_named_with_the_way_to_one_that_is_read() {
        for (head, name, remedy) in [
            (
                &[0x1f, 0x8b, 8, 0][..],
                "compressed by gzip",
                "decompress it: zcat FILE > NEW",
            ),
            (
                b"\xfd7zXZ\0\0",
                "compressed by xz",
                "decompress it: xzcat FILE > NEW",
            ),
            (
                &[0x28, 0xb5, 0x2f, 0xfd],
                "compressed by zstd",
                "decompress it: zstdcat FILE > NEW",
            ),
            (
                b"2;job;0;0;1;2;3;4\n",
                "a terse report of fio in version 2",
                "--output-format=json",
            ),
            (
                b"sysbench 0.4.12:  multi-threaded\n",
                "output of sysbench 0.4.12",
                "1.0 and later",
            ),
            (
                b"\nsysbench v0.4.8:  multi\n",
                "output of sysbench 0.4.8",
                "1.0 and later",
            ),
            (
                b"access,bw(MiB/s),IOPS,Latency\n",
                "the CSV of IOR",
                "without -O",
            ),
            (
                b"{\"Version\":\"4.0.0\",\"Command line\":\"ior\",\"tests\":[{\n",
                "the JSON of IOR",
                "without -O",
            ),
            (
                b"{\"title\":\"x\",\"results\":{\"a\":{\"identifier\":\"pts\\/fio-2.1.0\"",
                "the JSON of the Phoronix Test Suite",
                "composite.xml",
            ),
            (
                b"[ior-easy-write]\nt_start = x\nscore           = 1.5\n",
                "result.txt of IO500",
                "result_summary.txt",
            ),
            (
                b"name,file_size,putc,putc_cpu\n",
                "the heading of bonnie++'s CSV",
                "prints last",
            ),
            (
                b"\x09\x00\x04\x00\x02\x00\x10\x00",
                "a spreadsheet",
                "text that IOzone prints",
            ),
            (
                b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0",
                "a spreadsheet",
                "text that IOzone prints",
            ),
            (
                b"PK\x03\x04\0\0mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
                "a spreadsheet",
                "IOzone",
            ),
            (b"PK\x03\x04\0\0a.txt", "a zip archive", "unzip"),
            (b"BZh91AY", "compressed by bzip2", "bzcat"),
            (b"<!DOCTYPE html>\n", "a web page", "tools print"),
            (
                b"clock setaffinity failed: Invalid\nfio: x\n",
                "messages of fio, first 'clock setaffinity failed: Invalid'",
                "--output-format=json",
            ),
            (
                b"bash: ior: command not found\n",
                "a message of the shell, 'bash: ior: command not found'",
                "install",
            ),
        ] {
            let kind = find(head).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(kind.name, name);
            assert!(
                kind.remedy().contains(remedy) && !kind.is_read_by("fsb compare"),
                "{}",
                kind.remedy()
            );
        }
        for head in [&b"hello\n"[..], b"", b"{\"a\":1}\n", b"sysbench 1.0.20\n"] {
            assert_eq!(find(head), None);
        }
    }
}
