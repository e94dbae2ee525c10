//! `cargo run -p xtask -- prose`: finds comments, pages and test names that a reader has to read twice.
//!
//! It looks for doc comments that open with a question word instead of a subject or a verb, for words that hide which
//! component acts, and for test names that state no behaviour. Text in backticks, in double quotes and in code blocks is
//! quoted and is left out.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, ensure};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// No doc comment begins with one of these.
const OPENINGS: [&str; 11] =
    ["what", "how", "where", "which", "why", "who", "whose", "whoever", "whatever", "nobody", "somebody"];
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
    let listed = Command::new("git").args(["ls-files", "*.rs", "*.md"]).current_dir(ROOT).output();
    let listed = listed.context("git cannot be started")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let mut found: Vec<Finding> = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(format!("{ROOT}/{path}")) else { continue };
        let lines = if path.ends_with(".md") { page(&text) } else { source(&text) };
        found.extend(lines.into_iter().map(|(line, text)| Finding { path: path.to_owned(), line, text }));
    }
    let mut list = String::new();
    for Finding { path, line, text } in found.iter().take(SHOWN) {
        writeln!(list, "  {path}:{line}: {text}")?;
    }
    let more = found.len().saturating_sub(SHOWN);
    ensure!(
        found.is_empty(),
        "reword these lines:\n{list}{}",
        if more > 0 { format!("  and {more} more") } else { String::new() }
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
            let first = line[3..].split_whitespace().next().unwrap_or_default().to_lowercase();
            if OPENINGS.contains(&first.as_str()) {
                found.push((number + 1, format!("the comment opens with '{first}': {line}")));
            }
        }
        if line.starts_with("//") {
            found.extend(discouraged(line).map(|fault| (number + 1, fault)));
        }
        let name = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
        if name.is_some_and(|name| name.starts_with("what_") || name.contains("_is_no_")) {
            found.push((number + 1, format!("the name states no behaviour: {line}")));
        }
        before = line;
    }
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
    found
}

/// Returns a fault for each discouraged word of a line.
fn discouraged(line: &str) -> impl Iterator<Item = String> {
    // The name of the user without rights.
    let plain = without_quotations(line).to_lowercase().replace("user nobody", "");
    let words: Vec<&str> =
        plain.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    let plain = format!(" {} ", words.join(" "));
    let line = line.trim().to_owned();
    let found = WORDS.iter().filter(move |(word, _)| plain.contains(&format!(" {word} ")));
    found.map(move |(word, better)| format!("'{word}' ({better}): {line}"))
}

/// Returns a line without the text between backticks or double quotes. An opening one without its pair hides nothing.
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
        plain += " x ";
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
        let lines: Vec<usize> = source(&text.join("\n")).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [3, 6, 7, 8, 10]);
    }

    #[test]
    fn quotations_and_code_are_left_out() {
        assert!(page("`nobody` runs \"so many\" tests.\n```\nnobody\n```\n").is_empty());
        assert_eq!(page("A user whom nobody knows.\n").len(), 1);
        assert!(discouraged("The stand is not a standstill, and nobody's name is untold.").next().is_none());
        assert_eq!(discouraged("an open ` hides nothing that is told").count(), 1);
    }
}
