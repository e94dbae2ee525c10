//! The page `docs/command-line.md`: the help of every command, each option described once.

use std::collections::BTreeMap;

const INTRODUCTION: &str = "\
# Command line

The output of `--help` of every command, without its examples, which the [guide](guide.md) has by task; `-h` prints a short
page. Every command takes `--message-format`, `--color` and `--help`, which only `fsb` lists here. A line such as *As fsb run:
--setup* names options that are described there.
";

/// The columns of a page.
const WIDTH: usize = 80;

/// Returns the page of these commands with their help.
pub(super) fn page(commands: &[(String, String)]) -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut described = Described::default();
    for (name, help) in commands {
        let text = described.without_known(name, help);
        page += &format!("\n## {name}\n\n```text\n{text}\n```\n");
    }
    page
}

/// The options of the commands so far, with the command that describes each.
#[derive(Default)]
struct Described {
    commands: BTreeMap<String, String>,
}

impl Described {
    /// Returns the help of a command without the options that earlier commands describe alike.
    fn without_known(&mut self, command: &str, help: &str) -> String {
        let mut groups: Vec<String> = Vec::new();
        let mut known: Vec<(String, Vec<String>)> = Vec::new();
        for group in help.trim_end().split("\n\n") {
            if group.starts_with("Examples:") && command != "fsb" {
                continue;
            }
            let (heading, entries) = entries(group);
            if entries.is_empty() {
                groups.push(group.to_owned());
                continue;
            }
            let mut kept = vec![heading.to_owned()];
            for entry in entries {
                match self.describing(command, &entry) {
                    None => kept.push(entry.text),
                    Some(earlier) if earlier == "fsb" => {}
                    Some(earlier) => add(&mut known, earlier, entry.name),
                }
            }
            if kept.len() > 1 {
                groups.push(kept.join("\n"));
            }
        }
        for (earlier, names) in &known {
            groups.push(wrapped(&format!("As {earlier}: {}", names.join(", "))));
        }
        let lines: Vec<String> = groups
            .join("\n\n")
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }

    /// Returns the earlier command that describes the option alike, or records this one.
    fn describing(&mut self, command: &str, entry: &Entry) -> Option<String> {
        let words: Vec<&str> = entry.text.split_whitespace().collect();
        let words = words.join(" ");
        if words == "-h, --help Print help" {
            return Some("fsb".to_owned());
        }
        if let Some(earlier) = self.commands.get(&words) {
            return Some(earlier.clone());
        }
        self.commands.insert(words, command.to_owned());
        None
    }
}

/// An option with its description.
struct Entry {
    name: String,
    text: String,
}

/// Returns the heading of a group and its options; no options if the group is another one.
fn entries(group: &str) -> (&str, Vec<Entry>) {
    let mut entries: Vec<Entry> = Vec::new();
    let (heading, lines) = group.split_once('\n').unwrap_or((group, ""));
    for line in lines.lines() {
        let is_option = line.starts_with(' ') && line.trim_start().starts_with('-');
        match (is_option, entries.last_mut()) {
            (true, _) => entries.push(Entry {
                name: name(line),
                text: line.to_owned(),
            }),
            (false, Some(entry)) => entry.text += &format!("\n{line}"),
            (false, None) => return (heading, Vec::new()),
        }
    }
    (heading, entries)
}

/// Returns the long name of the option that a line describes.
fn name(line: &str) -> String {
    let words = line.split_whitespace();
    let names = words.take_while(|word| word.starts_with('-'));
    let name = names.last().unwrap_or_default();
    name.split(['=', '[', ','])
        .next()
        .unwrap_or(name)
        .to_owned()
}

fn add(known: &mut Vec<(String, Vec<String>)>, command: String, name: String) {
    match known.iter_mut().find(|(earlier, _)| *earlier == command) {
        Some((_, names)) => names.push(name),
        None => known.push((command, vec![name])),
    }
}

/// Breaks a line at the width of the page.
fn wrapped(line: &str) -> String {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            *last += word;
        } else if last.len() + 1 + word.len() <= WIDTH {
            *last += &format!(" {word}");
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines.join("\n")
}
