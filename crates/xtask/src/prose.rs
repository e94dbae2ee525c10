//! `cargo run -p xtask -- prose`: finds comments, pages, plans and test names that a reader has to
//! read twice.
//!
//! It looks for:
//!
//! * doc comments that open with a question word instead of a subject or a verb;
//! * words that hide which component acts;
//! * sentences of more than 35 words and paragraphs of more than 120;
//! * test names that state no behaviour.
//!
//! Text in backticks, in double quotes and in code blocks is quoted: it counts as one word.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, ensure};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// No doc comment begins with one of these.
const OPENINGS: [&str; 11] = [
    "what", "how", "where", "which", "why", "who", "whose", "whoever", "whatever", "nobody",
    "somebody",
];
/// Words that hide who acts, each with one that does not.
const WORDS: [(&str, &str); 11] = [
    ("nobody", "name the component that does not"),
    ("somebody", "name the component that does"),
    ("whoever", "the process, the user"),
    ("told", "reported, printed, logged"),
    ("stands", "is, is stored in, is defined in"),
    ("so many", "the number"),
    ("goes home", "is written back"),
    ("left for later", "deferred"),
    ("at rest", "idle"),
    ("is no", "is not a"),
    ("of which nothing", "of which the record holds nothing"),
];
const LONGEST_SENTENCE: usize = 35;
const LONGEST_PARAGRAPH: usize = 120;
/// More than these are counted.
const SHOWN: usize = 40;

/// A line that needs another wording.
struct Finding {
    path: String,
    line: usize,
    text: String,
}

/// Checks every source file and page that git knows and fails with a list of the lines to reword.
pub fn run() -> anyhow::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs", "*.md", "*.toml"])
        .current_dir(ROOT)
        .output();
    let listed = listed.context("git cannot be started")?;
    ensure!(
        listed.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let mut found: Vec<Finding> = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(format!("{ROOT}/{path}")) else {
            continue;
        };
        let lines = match path.rsplit_once('.') {
            Some((_, "md")) => page(&text),
            Some((_, "toml")) => plan(&text),
            _ => source(&text),
        };
        found.extend(lines.into_iter().map(|(line, text)| Finding {
            path: path.to_owned(),
            line,
            text,
        }));
    }
    let mut list = String::new();
    for Finding { path, line, text } in found.iter().take(SHOWN) {
        writeln!(list, "  {path}:{line}: {text}")?;
    }
    let more = found.len().saturating_sub(SHOWN);
    ensure!(
        found.is_empty(),
        "reword these lines:\n{list}{}",
        if more > 0 {
            format!("  and {more} more")
        } else {
            String::new()
        }
    );
    Ok(())
}

/// Returns the faults of a source file by line.
fn source(text: &str) -> Vec<(usize, String)> {
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in text.lines().map(str::trim_start).enumerate() {
        if is_doc(line) && !is_doc(before) {
            let first = line[3..]
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_lowercase();
            if OPENINGS.contains(&first.as_str()) {
                found.push((
                    number + 1,
                    format!("the comment opens with '{first}': {line}"),
                ));
            }
        }
        if line.starts_with("//") {
            found.extend(discouraged(line).map(|fault| (number + 1, fault)));
        }
        let name = line
            .strip_prefix("fn ")
            .and_then(|rest| rest.split(['(', '<']).next());
        if name.is_some_and(|name| name.starts_with("what_") || name.contains("_is_no_")) {
            found.push((number + 1, format!("the name states no behaviour: {line}")));
        }
        before = line;
    }
    found.extend(long(text.lines().map(|line| {
        let text = line.trim_start().strip_prefix("//")?;
        Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
    })));
    found
}

/// Returns the faults of a page by line.
fn page(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(discouraged(line).map(|fault| (number + 1, fault)));
        }
    }
    found.extend(long(text.lines().map(|line| Some(line.trim()))));
    found
}

/// Returns the faults in the comments of a plan, a suite or another TOML file by line. A comment
/// that is indented by three blanks is a command.
fn plan(text: &str) -> Vec<(usize, String)> {
    let comment = |line| {
        str::trim_start(line)
            .strip_prefix('#')
            .filter(|text| !text.starts_with("   "))
    };
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        found.extend(
            comment(line)
                .into_iter()
                .flat_map(discouraged)
                .map(|fault| (number + 1, fault)),
        );
    }
    found.extend(long(text.lines().map(|line| Some(comment(line)?.trim()))));
    found
}

/// Returns the long sentences and paragraphs by the line of their paragraph. A line that is `None`,
/// empty, a heading or a row of a table ends a paragraph; an item of a list begins one.
fn long<'t>(lines: impl Iterator<Item = Option<&'t str>>) -> Vec<(usize, String)> {
    let (mut is_code, mut found) = (false, Vec::new());
    let (mut start, mut paragraph) = (0, String::new());
    for (number, line) in lines.chain([None]).enumerate() {
        let is_fence = line.is_some_and(|line| line.starts_with("```"));
        is_code = line.is_some() && is_code != is_fence;
        let text = line
            .filter(|line| !is_code && !is_fence && !line.starts_with(['|', '#']))
            .unwrap_or_default();
        let item = item(text);
        if text.is_empty() || item.is_some() {
            found.extend(long_parts(&paragraph).map(|fault| (start, fault)));
            paragraph.clear();
        }
        if text.is_empty() {
            continue;
        }
        if paragraph.is_empty() {
            start = number + 1;
        }
        paragraph += item.unwrap_or(text);
        paragraph.push(' ');
    }
    found
}

/// Returns the text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number
        .strip_prefix(". ")
        .filter(|_| number.len() < line.len());
    line.strip_prefix("* ")
        .or_else(|| line.strip_prefix("- "))
        .or(numbered)
}

fn long_parts(paragraph: &str) -> impl Iterator<Item = String> {
    let plain = without_quotations(paragraph).replace(" %", "%");
    let words: Vec<&str> = plain
        .split_whitespace()
        .filter(|text| text.chars().any(char::is_alphanumeric))
        .collect();
    let mut sentences: Vec<&[&str]> = Vec::new();
    let mut start = 0;
    for end in 1..=words.len() {
        let ends = words[end - 1]
            .trim_end_matches([')', '*'])
            .ends_with(['.', '!', '?', ':', ';']);
        if words.get(end).is_none_or(|next| {
            ends && next
                .starts_with(|c: char| c.is_uppercase() || c.is_numeric() || "x(*[".contains(c))
        }) {
            sentences.push(&words[start..end]);
            start = end;
        }
    }
    let long = sentences
        .into_iter()
        .filter(|sentence| sentence.len() > LONGEST_SENTENCE);
    let mut faults: Vec<String> = long
        .map(|sentence| {
            format!(
                "a sentence of {} words: {} …",
                sentence.len(),
                sentence[..8].join(" ")
            )
        })
        .collect();
    if words.len() > LONGEST_PARAGRAPH {
        faults.push(format!(
            "a paragraph of {} words: {} …",
            words.len(),
            words[..8].join(" ")
        ));
    }
    faults.into_iter()
}

/// Returns a fault for each discouraged word of a line.
fn discouraged(line: &str) -> impl Iterator<Item = String> {
    // The name of the user without rights.
    let plain = without_quotations(line)
        .to_lowercase()
        .replace("user nobody", "");
    let words: Vec<&str> = plain
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .collect();
    let plain = format!(" {} ", words.join(" "));
    let line = line.trim().to_owned();
    let found = WORDS
        .iter()
        .filter(move |(word, _)| plain.contains(&format!(" {word} ")));
    found.map(move |(word, better)| format!("'{word}' ({better}): {line}"))
}

/// Returns a line without the text between backticks or double quotes. An opening one without its
/// pair hides nothing.
fn without_quotations(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(['`', '"']) {
        let (before, quoted) = rest.split_at(start);
        plain += before;
        let mark = &quoted[..1];
        rest = match quoted[1..].find(mark) {
            Some(end) => &quoted[end + 2..],
            None => &quoted[1..],
        };
        plain += " x";
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_words_and_names_are_found_by_line() {
        let text = [
            "//! Reads plans.",
            "",
            "/// What a plan holds.",
            "/// Which is fine here.",
            "struct Plan;",
            "// The user is told.",
            "fn what_is_read() {}",
            "fn a_tree_is_no_plan() {}",
            "fn whatever() {}",
            "// It stands.",
        ];
        let lines: Vec<usize> = source(&text.join("\n"))
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [3, 6, 7, 8, 10]);
    }

    #[test]
    fn long_sentences_and_paragraphs_are_found_at_their_paragraph() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let lines = |text: &str| {
            page(text)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&format!("Short.\n\n{}\n{}.", words(20), words(20))),
            [3]
        );
        assert_eq!(
            lines(&format!("{}. Word {}.", words(30), words(30))),
            [0; 0]
        );
        assert_eq!(
            lines(&format!(
                "* {}\n* {}\n\n# {}",
                words(30),
                words(30),
                words(50)
            )),
            [0; 0]
        );
        assert_eq!(
            lines(&format!("```\n{}\n```\n| {} |", words(50), words(50))),
            [0; 0]
        );
        assert_eq!(lines(&["Word word word."; 50].join(" ")), [1]);
        assert_eq!(
            source(&format!(
                "/// {}\n/// {}.\nfn a() {{}}",
                words(20),
                words(20)
            ))
            .len(),
            1
        );
        assert_eq!(
            source(&format!("// {}\nfn a() {{}}\n// {}.", words(20), words(20))).len(),
            0
        );
    }

    #[test]
    fn comments_of_plans_are_checked_and_their_commands_are_not() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let lines = |text: &str| {
            plan(text)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines("# A plan.\n# It stands.\n#   fsb run it at rest\nname = 'told'\n"),
            [2]
        );
        assert_eq!(lines(&format!("# {}\n# {}.\n", words(20), words(20))), [1]);
        assert_eq!(
            lines(&format!("# {}\n#   {}\n", words(30), words(30))),
            [0; 0]
        );
    }

    #[test]
    fn quotations_and_code_are_left_out() {
        assert!(page("`nobody` runs \"so many\" tests.\n```\nnobody\n```\n").is_empty());
        assert_eq!(page("A user whom nobody knows.\n").len(), 1);
        assert!(
            discouraged("The stand is not a standstill, and nobody's name is untold.")
                .next()
                .is_none()
        );
        assert_eq!(
            discouraged("an open ` hides nothing that is told").count(),
            1
        );
    }
}
