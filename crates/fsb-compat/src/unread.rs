//! Output of known tools in a form that is not read, with the way to a form that is.

use crate::text::{holds, shortened};

/// A form that is not read.
struct Form {
    /// Returns what a file with this start is. Returns `None` if it is not of this form.
    name: fn(&[u8]) -> Option<String>,
    /// The way to a form that is read.
    remedy: &'static str,
}

/// Every form. The first that a file has is named.
#[rustfmt::skip] // a table reads as one
static FORMS: &[Form] = &[
    Form { name: old_sysbench, remedy: "fsb reads 1.0 and later; run the test with such a version" },
    Form { name: |head| ior_csv(head).then(|| "the CSV of IOR".to_owned()), remedy: "fsb reads IOR's text; run it without -O summaryFormat=CSV" },
    Form { name: |head| ior_json(head).then(|| "the JSON of IOR".to_owned()), remedy: "fsb reads IOR's text; run it without -O summaryFormat=JSON" },
    Form { name: |head| phoronix_json(head).then(|| "the JSON of the Phoronix Test Suite".to_owned()), remedy: "fsb reads the composite.xml of the same results, below ~/.phoronix-test-suite/test-results" },
    Form { name: |head| io500_result(head).then(|| "result.txt of IO500".to_owned()), remedy: "fsb reads the file result_summary.txt beside it" },
    Form { name: |head| head.starts_with(b"name,file_size,putc,").then(|| "the heading of bonnie++'s CSV".to_owned()), remedy: "fsb reads the lines of results, which bonnie++ prints last" },
    Form { name: spreadsheet, remedy: "fsb reads the text that IOzone prints, also with -b" },
    Form { name: |head| head.starts_with(b"PK\x03\x04").then(|| "a zip archive".to_owned()), remedy: "unpack it: unzip FILE" },
    Form { name: |head| head.starts_with(b"BZh").then(|| "compressed by bzip2".to_owned()), remedy: "decompress it: bzcat FILE > NEW" },
    Form { name: |head| (head.get(257..262) == Some(b"ustar")).then(|| "a tar archive".to_owned()), remedy: "unpack it: tar xf FILE" },
    Form { name: web_page, remedy: "fsb reads what the tools print; use that file" },
    Form { name: fio_messages, remedy: "fio wrote no results; run it with --output-format=json --output=FILE" },
    Form { name: shell, remedy: "install the program and repeat the run" },
];

/// Returns what a file with this start is and the way to a form that is read. Returns `None` if no form is known.
pub(crate) fn find(head: &[u8]) -> Option<(String, &'static str)> {
    FORMS.iter().find_map(|form| Some(((form.name)(head)?, form.remedy)))
}

/// Returns the lines that are not empty, without blanks at either end.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// Finds `sysbench 0.4.12:  multi-threaded system evaluation benchmark`.
fn old_sysbench(head: &[u8]) -> Option<String> {
    let version = |line: &[u8]| {
        let rest = line.strip_prefix(b"sysbench ")?;
        let rest = rest.strip_prefix(b"v").unwrap_or(rest);
        let end = rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.')).unwrap_or(rest.len());
        rest.starts_with(b"0.").then(|| String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    lines(head).find_map(version).map(|version| format!("output of sysbench {version}"))
}

fn ior_csv(head: &[u8]) -> bool {
    lines(head).any(|line| line.starts_with(b"access,bw(MiB/s),"))
}

fn ior_json(head: &[u8]) -> bool {
    is_object(head) && holds(head, b"\"Command line\"") && holds(head, b"\"tests\"")
}

fn phoronix_json(head: &[u8]) -> bool {
    let profile = holds(head, b"\"pts\\/") || holds(head, b"\"pts/") || holds(head, b"\"local\\/");
    is_object(head) && holds(head, b"\"results\"") && (profile || holds(head, b"\"proportion\""))
}

fn is_object(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
}

fn io500_result(head: &[u8]) -> bool {
    lines(head).any(|line| line == b"[ior-easy-write]") && holds(head, b"score ")
}

/// Finds the spreadsheets of `iozone -b`, and those that other programs make of them.
fn spreadsheet(head: &[u8]) -> Option<String> {
    let biff = [&b"\x09\x00\x04\x00"[..], b"\x09\x00\x06\x00", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"];
    let zip = head.starts_with(b"PK\x03\x04");
    let is_sheet = biff.iter().any(|start| head.starts_with(start))
        || (zip && (holds(head, b"xl/") || holds(head, b"opendocument.spreadsheet")));
    is_sheet.then(|| "a spreadsheet".to_owned())
}

fn web_page(head: &[u8]) -> Option<String> {
    let start = head.trim_ascii_start().get(..9)?.to_ascii_lowercase();
    (start == b"<!doctype" || start.starts_with(b"<html")).then(|| "a web page".to_owned())
}

/// Finds the messages of fio without a report.
fn fio_messages(head: &[u8]) -> Option<String> {
    let is_message = |line: &[u8]| line.starts_with(b"fio: ") || line.starts_with(b"clock setaffinity failed");
    lines(head).any(is_message).then(|| format!("messages of fio, first '{}'", first(head)))
}

fn shell(head: &[u8]) -> Option<String> {
    let is_message = |line: &[u8]| line.ends_with(b": command not found") || line.ends_with(b": not found");
    lines(head).next().filter(|line| is_message(line)).map(|_| format!("a message of the shell, '{}'", first(head)))
}

fn first(head: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(lines(head).next().unwrap_or_default()), LONGEST)
}

/// Characters of a message that are shown.
const LONGEST: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_named_with_the_way_to_one_that_is_read() {
        for (head, name, remedy) in [
            (&b"sysbench 0.4.12:  multi-threaded\n"[..], "output of sysbench 0.4.12", "1.0 and later"),
            (b"\nsysbench v0.4.8:  multi\n", "output of sysbench 0.4.8", "1.0 and later"),
            (b"access,bw(MiB/s),IOPS,Latency\n", "the CSV of IOR", "without -O"),
            (b"{\"Version\":\"4.0.0\",\"Command line\":\"ior\",\"tests\":[{\n", "the JSON of IOR", "without -O"),
            (
                b"{\"title\":\"x\",\"results\":{\"a\":{\"identifier\":\"pts\\/fio-2.1.0\"",
                "the JSON of the Phoronix Test Suite",
                "composite.xml",
            ),
            (b"[ior-easy-write]\nt_start = x\nscore           = 1.5\n", "result.txt of IO500", "result_summary.txt"),
            (b"name,file_size,putc,putc_cpu\n", "the heading of bonnie++'s CSV", "prints last"),
            (b"\x09\x00\x04\x00\x02\x00\x10\x00", "a spreadsheet", "text that IOzone prints"),
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "a spreadsheet", "text that IOzone prints"),
            (b"PK\x03\x04\0\0mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "a spreadsheet", "IOzone"),
            (b"PK\x03\x04\0\0a.txt", "a zip archive", "unzip"),
            (b"BZh91AY", "compressed by bzip2", "bzcat"),
            (b"<!DOCTYPE html>\n", "a web page", "tools print"),
            (
                b"clock setaffinity failed: Invalid\nfio: x\n",
                "messages of fio, first 'clock setaffinity failed: Invalid'",
                "--output-format=json",
            ),
            (b"bash: ior: command not found\n", "a message of the shell, 'bash: ior: command not found'", "install"),
        ] {
            let (found, way) = find(head).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(found, name);
            assert!(way.contains(remedy), "{way}");
        }
        for head in [&b"hello\n"[..], b"", b"{\"a\":1}\n", b"sysbench 1.0.20\n"] {
            assert_eq!(find(head), None);
        }
    }
}
