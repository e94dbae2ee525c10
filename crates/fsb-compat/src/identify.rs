//! The kind of a file from its start, for messages about a file that was given to the wrong command.
//!
//! Results of tools are in [`TOOLS`](crate::TOOLS); the other kinds are in [`KINDS`].

use std::borrow::Cow;

use crate::text::holds;

/// The kind of a file, and the command that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKind {
    /// A noun phrase, such as `output of fio`.
    pub name: Cow<'static, str>,
    /// The command that reads the file, such as `fsb compare`.
    pub command: &'static str,
}

impl FileKind {
    /// Returns the kind of the results of a tool.
    pub(crate) fn of_results(tool: &'static str) -> FileKind {
        FileKind { name: format!("output of {tool}").into(), command: "fsb compare" }
    }

    /// Returns the sentence for messages: what the file is, and the command that reads it.
    pub fn describe(&self) -> String {
        format!("it is {}; '{}' reads it", self.name, self.command)
    }
}

/// A row of [`KINDS`].
struct KnownKind {
    name: &'static str,
    command: &'static str,
    /// Whether a file with this start is of the kind.
    test: fn(&[u8]) -> bool,
}

/// Every kind of file other than the results of a tool. The first whose test holds is the kind of a file.
#[rustfmt::skip] // a table reads as one
static KINDS: &[KnownKind] = &[
    KnownKind { name: "a trace of fsb", command: "fsb trace show", test: |head| head.starts_with(b"FSBTRACE") },
    KnownKind { name: "a page of 'fsb publish'", command: "fsb report", test: |head| holds(head, b"application/vnd.fsbench.run+gzip") },
    KnownKind { name: "the record of a run of fsb", command: "fsb report DIRECTORY", test: is_run_record },
    KnownKind { name: "compressed by gzip", command: "zcat FILE > NEW", test: |head| head.starts_with(&[0x1f, 0x8b]) },
    KnownKind { name: "compressed by xz", command: "xzcat FILE > NEW", test: |head| head.starts_with(b"\xfd7zXZ\0") },
    KnownKind { name: "compressed by zstd", command: "zstdcat FILE > NEW", test: |head| head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) },
    KnownKind { name: "an I/O log of fio", command: "fsb trace import", test: |head| head.starts_with(b"fio version ") },
    KnownKind { name: "a log of strace", command: "fsb trace import", test: |head| any_line(head, is_strace) },
    KnownKind { name: "output of blkparse", command: "fsb trace import", test: |head| any_line(head, is_blkparse) },
    KnownKind { name: "a fio job file", command: "fsb fio", test: is_fio_job },
    KnownKind { name: "a filebench workload file", command: "fsb filebench", test: |head| any_line(head, is_wml) },
    KnownKind { name: "a file of PostMark commands", command: "fsb postmark", test: |head| any_line(head, is_postmark) },
    KnownKind { name: "a plan of fsb", command: "fsb run", test: is_plan },
];

/// Returns the kind of a file with this start, unless it is the output of a tool.
pub(crate) fn kind_of_input(head: &[u8]) -> Option<FileKind> {
    let known = KINDS.iter().find(|kind| (kind.test)(head))?;
    Some(FileKind { name: known.name.into(), command: known.command })
}

/// Returns the lines of a text without blanks at either end, except empty ones and comments that begin with `#` or `;`.
fn lines(head: &[u8]) -> impl Iterator<Item = &str> {
    let text = head.split(|byte| *byte == b'\n').map_while(|line| std::str::from_utf8(line).ok());
    text.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

fn any_line(head: &[u8], test: fn(&str) -> bool) -> bool {
    lines(head).any(test)
}

/// Returns whether this is `run.json` of a run directory, or its journal of trials.
fn is_run_record(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{") && (holds(head, b"\"fsbench/run/") || holds(head, b"\"fsbench/trial/"))
}

/// Returns whether a line has the form `[PID] SECONDS.MICROSECONDS CALL(…`, as with `strace -f -ttt`.
fn is_strace(line: &str) -> bool {
    let line = line.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start();
    let number = |text: &str| text.parse::<f64>().is_ok();
    let is_call = |text: &str| {
        let name = text.split_once('(').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let stamped = line.split_once(' ').is_some_and(|(time, call)| number(time) && is_call(call.trim_start()));
    stamped || (is_call(line) && line.contains(") ") && line.contains("= "))
}

/// Returns whether a line has the form `MAJOR,MINOR CPU NUMBER SECONDS PID ACTION …`.
fn is_blkparse(line: &str) -> bool {
    let mut fields = line.split_whitespace();
    let device = fields.next().and_then(|device| device.split_once(','));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
        && fields.by_ref().take(2).filter(|field| is_number(field)).count() == 2
        && fields.next().is_some_and(|time| time.contains('.') && time.parse::<f64>().is_ok())
}

/// Returns whether this is a job file: sections of options without quotes, one of which decides the work.
fn is_fio_job(head: &[u8]) -> bool {
    const OF_WORK: [&str; 10] =
        ["rw", "readwrite", "bs", "blocksize", "ioengine", "size", "iodepth", "numjobs", "filename", "runtime"];
    let is_option = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or(("", ""));
        OF_WORK.contains(&name.trim_end()) && !value.trim_start().starts_with(['"', '\'', '['])
    };
    let is_section = |line: &str| {
        let name = line.split([';', '#']).next().unwrap_or_default().trim_end();
        name.starts_with('[') && name.ends_with(']')
    };
    lines(head).any(is_section) && lines(head).any(is_option)
}

fn is_wml(line: &str) -> bool {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("define") => words.next().is_some_and(|kind| ["fileset", "file", "process", "flowop"].contains(&kind)),
        Some("set") => words.next().is_some_and(|variable| variable.starts_with('$')),
        _ => false,
    }
}

fn is_postmark(line: &str) -> bool {
    const SETTINGS: [&str; 10] =
        ["size", "number", "seed", "transactions", "location", "subdirectories", "read", "write", "buffering", "bias"];
    let mut words = line.split_whitespace();
    words.next() == Some("set")
        && words.next().is_some_and(|setting| SETTINGS.contains(&setting))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn command(head: &str) -> Option<&'static str> {
        kind_of_input(head.as_bytes()).map(|kind| kind.command)
    }

    #[test]
    fn inputs_of_other_commands_are_identified_by_their_start() {
        for (head, expected) in [
            ("; a comment\n[global]\nrw=randread\nsize=1m\n[a]\n", Some("fsb fio")),
            ("[global] # all\nioengine = libaio\n[a]\n", Some("fsb fio")),
            ("# a comment\nset $dir=/tmp\ndefine fileset name=x,path=$dir\nrun 10\n", Some("fsb filebench")),
            ("define process name=p,instances=1\n{\n", Some("fsb filebench")),
            ("set location /srv\nset number 500\nrun\n", Some("fsb postmark")),
            ("FSBTRACE\u{1}", Some("fsb trace show")),
            ("fio version 2 iolog\nf add\n", Some("fsb trace import")),
            ("100 1700000000.001000 openat(AT_FDCWD, \"f\", O_RDONLY) = 3 <0.000020>\n", Some("fsb trace import")),
            ("  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n", Some("fsb trace import")),
            (
                "# text\nname = \"p\"\ntargets = [\"ext4\"]\nsuite = \"quick\"\n[controls]\nsize = \"8G\"\n",
                Some("fsb run"),
            ),
            ("{\n  \"schema\": \"fsbench/run/2\",\n", Some("fsb report DIRECTORY")),
            ("hello, world\n", None),
            ("[1, 2]\n", None),
            ("set\n", None),
            ("", None),
        ] {
            assert_eq!(command(head), expected, "{head}");
        }
    }

    #[test]
    fn compressed_files_are_identified_by_their_first_bytes() {
        for (head, expected) in [
            (&[0x1f, 0x8b, 8, 0][..], "it is compressed by gzip; 'zcat FILE > NEW' reads it"),
            (b"\xfd7zXZ\0\0", "it is compressed by xz; 'xzcat FILE > NEW' reads it"),
            (&[0x28, 0xb5, 0x2f, 0xfd], "it is compressed by zstd; 'zstdcat FILE > NEW' reads it"),
        ] {
            assert_eq!(kind_of_input(head).map(|kind| kind.describe()).as_deref(), Some(expected));
        }
    }
}
