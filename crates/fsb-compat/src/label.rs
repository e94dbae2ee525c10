//! Labels that programs put before each line of output: the rank of a process, the time, the host,
//! colours.

use std::collections::HashSet;

use crate::text::shortened;

/// Labels of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    /// One of them.
    pub example: String,
    /// The command that removes them.
    pub command: String,
}

/// A shape of labels.
struct Shape {
    /// Returns the length of the label of a line.
    length: fn(&[u8]) -> Option<usize>,
    /// The regular expression of `sed -E` that finds it.
    pattern: &'static str,
    /// The proof that it is a label, and not a part of what a tool prints.
    proof: Proof,
}

/// The proof that lines begin with labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Many lines begin so.
    Many,
    /// The text without labels is recognised, because tools print lines of this shape: numbers and
    /// tabs.
    Plain,
    /// As `Plain`, and few names occur, none of which is the name of a tool. A line of settings can
    /// have this shape: `threads: 4`.
    Hosts,
}

const fn shape(length: fn(&[u8]) -> Option<usize>, pattern: &'static str) -> Shape {
    Shape {
        length,
        pattern,
        proof: Proof::Many,
    }
}

const fn host(length: fn(&[u8]) -> Option<usize>, pattern: &'static str) -> Shape {
    Shape {
        length,
        pattern,
        proof: Proof::Hosts,
    }
}

/// Every shape, special ones before those that they resemble.
#[rustfmt::skip] // a table reads as one
static SHAPES: &[Shape] = &[
    // mpirun --tag-output
    shape(|line| measure(line, "[0,0]<a>:"), r"^\[[0-9]+,[0-9]+\](\[[^]]*\])?<std[a-z]+>: ?"),
    // srun -l
    shape(|line| measure(line, "0:"), r"^ *[0-9]+: ?"),
    // cat -n, nl
    Shape { length: |line| measure(line, "0\t"), pattern: r"^ *[0-9]+\t", proof: Proof::Plain },
    // mpirun -prepend-rank
    shape(|line| measure(line, "[0]"), r"^\[ *[0-9]+\] ?"),
    // rsyslog, journalctl -o short-iso
    shape(|line| measure(line, "0-0-0T0 w w:"), r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]+ [^ ]+ [^ ]+: ?"),
    // docker logs --timestamps, ts
    shape(|line| measure(line, "0-0-0T0"), r"^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}T[^] ]+\]? ?"),
    shape(|line| measure(line, "0-0-0 0:0:0"), r"^\[?[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[^] ]+\]? ?"),
    // syslog, journalctl
    shape(|line| measure(line, "m 0 0:0:0 w w:"), r"^[A-Z][a-z]{2} +[0-9]+ [0-9:]{8} [^ ]+ [^ ]+: ?"),
    // ts
    shape(|line| measure(line, "m 0 0:0:0"), r"^[A-Z][a-z]{2} +[0-9]+ [0-9:.]+ ?"),
    shape(|line| measure(line, "0:0:0"), r"^\[?[0-9]{2}:[0-9]{2}:[0-9.]+\]? ?"),
    // pdsh, docker compose, quotes in mails
    host(|line| measure(line, "h: "), r"^[A-Za-z0-9._-]+: "),
    host(|line| measure(line, "h |"), r"^[A-Za-z0-9._-]+ +\| ?"),
    shape(|line| measure(line, ">"), r"^> ?"),
];

/// The command that removes colours.
const COLOURS: &str = r"sed -E 's/\x1b\[[0-9;?]*[A-Za-z]//g' FILE > NEW";

/// Returns the labels of a text that `is_known` does not recognise, or that its reader cannot read
/// because of them.
///
/// Most lines must have a label. Where few lines do not prove that, the text without labels must be
/// recognised. `is_tool` returns whether a name is that of a tool, which begins its messages with
/// it.
pub(crate) fn find(
    head: &[u8],
    is_known: impl Fn(&[u8]) -> bool,
    is_tool: impl Fn(&str) -> bool,
) -> Option<Label> {
    let plain = without_colours(head);
    if plain.len() < head.len() && is_known(&plain) {
        return Some(Label {
            example: "\\x1b[".to_owned(),
            command: COLOURS.to_owned(),
        });
    }
    let lines = || {
        head.split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
    };
    let looked_at = lines().take(LOOKED_AT).count();
    SHAPES.iter().find_map(|shape| {
        let labels: Vec<(&[u8], usize)> = lines()
            .take(LOOKED_AT)
            .filter_map(|line| Some((line, (shape.length)(line)?)))
            .collect();
        let (line, length) = *labels.first()?;
        // A line can be cut at the end of the head.
        if labels.len() * 10 < looked_at * 8
            || (shape.proof == Proof::Hosts && !is_of_hosts(&labels, looked_at, &is_tool))
        {
            return None;
        }
        // A tool may begin its own lines so, below a heading that it alone writes: elbencho's CSV
        // has times in front.
        if lines()
            .next()
            .is_some_and(|first| (shape.length)(first).is_none() && is_known(first))
        {
            return None;
        }
        let plain: Vec<u8> = lines()
            .flat_map(|line| [&line[(shape.length)(line).unwrap_or(0)..], b"\n"].concat())
            .collect();
        let is_certain = is_known(&plain)
            || (shape.proof == Proof::Many && labels.len() >= MANY && is_known(head));
        let example = shortened(&String::from_utf8_lossy(&line[..length]), LONGEST);
        is_certain.then(|| Label {
            example,
            command: format!("sed -E 's/{}//' FILE > NEW", shape.pattern),
        })
    })
}

/// Returns whether the labels are names of hosts: every line begins with one of a few. Some tools
/// begin many lines with the same word: mdtest -v with `V-1: `, pgbench -P with `progress: `,
/// filebench with the time. Others begin messages with their name.
fn is_of_hosts(labels: &[(&[u8], usize)], lines: usize, is_tool: impl Fn(&str) -> bool) -> bool {
    let names: HashSet<&[u8]> = labels
        .iter()
        .map(|(line, length)| &line[..*length])
        .collect();
    let is_word = |label: &&[u8]| {
        let label = String::from_utf8_lossy(label);
        let name = label.trim_end_matches([' ', ':', '|']);
        name.starts_with("V-")
            || name.starts_with("progress")
            || name.parse::<f64>().is_ok()
            || is_tool(name)
    };
    labels.len() + 1 >= lines && names.len() <= 1 + labels.len() / 5 && !names.iter().any(is_word)
}

/// Lines at the start of a file that are looked at.
const LOOKED_AT: usize = 100;

/// Lines with a label that prove it without recognition.
const MANY: usize = 5;

/// Characters of a label that are shown.
const LONGEST: usize = 60;

/// Returns the length of a label, by a form: `0` is for digits, `a` for small letters, `m` for the
/// short name of a month, `w` for a word, `h` for the name of a host, and a blank for one or
/// several. Digits may have blanks before them, a fraction and the time zone after them; a time can
/// be in brackets, and a blank can follow the label.
fn measure(line: &[u8], form: &str) -> Option<usize> {
    let mut at = 0;
    let is_time = form.starts_with(['0', 'm']) && !["0:", "0\t"].contains(&form);
    let bracket = is_time && line.first() == Some(&b'[');
    at += usize::from(bracket);
    let symbols = form.as_bytes();
    for (place, symbol) in symbols.iter().enumerate() {
        let rest = &line[at..];
        let run = |is: fn(&u8) -> bool| rest.iter().take_while(|byte| is(byte)).count();
        let length = match symbol {
            b'0' => {
                let blanks = if is_time {
                    0
                } else {
                    run(|byte| *byte == b' ')
                };
                let digits = rest[blanks..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                if digits == 0 {
                    return None;
                }
                // The end of a time: a fraction and the zone, and after a `T` the rest of the time.
                let is_last = is_time && (place + 1 == symbols.len() || symbols[place + 1] == b' ');
                let more = if is_last {
                    rest[blanks + digits..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_digit() || b".,:+-Z".contains(byte))
                        .count()
                } else {
                    0
                };
                blanks + digits + more
            }
            b'a' => run(u8::is_ascii_lowercase),
            b'm' => usize::from(is_month(rest)) * 3,
            b'w' => run(|byte| !byte.is_ascii_whitespace() && *byte != b':'),
            b'h' => run(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte)),
            b' ' => run(|byte| *byte == b' '),
            other => usize::from(rest.first() == Some(other)),
        };
        if length == 0 {
            return None;
        }
        at += length;
    }
    if bracket {
        at += usize::from(line.get(at) == Some(&b']'));
    }
    Some(at + usize::from(line.get(at) == Some(&b' ')))
}

fn is_month(text: &[u8]) -> bool {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    text.get(..3)
        .is_some_and(|name| MONTHS.chunks(3).any(|month| month == name))
}

/// Removes sequences that begin with `ESC [` and end with a letter.
fn without_colours(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, b"\x1b[") {
        plain.extend_from_slice(&rest[..at]);
        let end = rest[at + 2..]
            .iter()
            .position(u8::is_ascii_alphabetic)
            .map_or(rest.len(), |end| at + 2 + end + 1);
        rest = &rest[end..];
    }
    plain.extend_from_slice(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_tool(name: &str) -> bool {
        name == "stress-ng"
    }

    /// Returns the labels of lines of `text`, each with a label before it.
    fn labels(label: &str) -> Option<Label> {
        let text: String = ["known", "2.5 ", "x: y", "", "end"]
            .map(|line| format!("{label}{line}\n"))
            .concat();
        find(text.as_bytes(), |head| head.starts_with(b"known"), is_tool)
    }

    #[test]
    fn labels_of_each_program_are_found() {
        for label in [
            "0: ",
            "  3:",
            "[1,0]<stdout>:",
            "[1,12]<stderr>: ",
            "[0] ",
            "2026-11-23T10:00:00Z ",
            "2026-11-23T10:00:00.123456789Z ",
            "2026-11-23T10:00:00+01:00 host iozone[12]: ",
            "2026-11-23 10:00:00 ",
            "[2026-11-23 10:00:00,123] ",
            "Nov 23 10:00:00 host iozone[12]: ",
            "Nov  3 10:00:00 host fio: ",
            "Nov 23 10:00:00 ",
            "10:00:00 ",
            "[10:00:00.5] ",
            "node01: ",
            "fio-1  | ",
            "> ",
            "    12\t",
        ] {
            let found = labels(label).unwrap_or_else(|| panic!("{label}"));
            assert_eq!(
                found.example.trim_end(),
                label.replace('\t', "\u{fffd}").trim_end()
            );
        }
        assert_eq!(labels("\u{1b}[32m").unwrap().command, COLOURS);
        assert_eq!(labels(""), None);
        let table = format!("known,time\n{}", "2026-11-23T10:00:00,1\n".repeat(9));
        assert_eq!(
            find(table.as_bytes(), |head| head.starts_with(b"known"), is_tool),
            None
        );
        assert_eq!(find(b"word: a\nword: b\n", |_| false, is_tool), None);
        for text in [
            "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\n",
            &"V-1: x\n".repeat(9),
        ] {
            assert_eq!(find(text.as_bytes(), |_| true, is_tool), None);
        }
    }

    #[test]
    fn the_start_of_a_tools_own_messages_is_not_taken_for_a_label() {
        let text = "stress-ng: info: known\n".repeat(9);
        assert_eq!(find(text.as_bytes(), |_| true, is_tool), None);
        let messages = "node01: error: known\n".repeat(9);
        let is_known = |head: &[u8]| head.starts_with(b"node01: error: ");
        assert_eq!(find(messages.as_bytes(), is_known, is_tool), None);
        let times = format!("0.000: known\n{}", "0.012: Failed\n".repeat(9));
        assert_eq!(find(times.as_bytes(), |_| true, is_tool), None);
        let table = "12\t3\n".repeat(9);
        assert_eq!(
            find(table.as_bytes(), |head| head.starts_with(b"12\t"), is_tool),
            None
        );
    }

    /// The commands are those that a user runs.
    #[test]
    fn the_command_removes_what_is_found() {
        let run = |label: &str| {
            let command = labels(label).unwrap().command.replace(" FILE > NEW", "");
            let script = format!("printf '%s\\n' '{label}known' '{label}2.5' | {command}");
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        for label in [
            "  0: ",
            "[1,0]<stdout>:",
            "[ 0] ",
            "2026-11-23T10:00:00.5+01:00 ",
            "2026-11-23T10:00:00Z host fio[2]: ",
            "2026-11-23 10:00:00 ",
            "Nov  3 10:00:00 host fio[12]: ",
            "Nov 23 10:00:00 ",
            "[10:00:00.5] ",
            "node01: ",
            "fio-1  | ",
            "> ",
            "    12\t",
            "\u{1b}[1;32m",
        ] {
            assert_eq!(run(label), "known\n2.5\n", "{label}");
        }
    }
}
