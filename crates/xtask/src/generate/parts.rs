//! Generated parts of pages: the lines between two comments of a page whose other text is written
//! by hand.

use std::fmt::Write;

use anyhow::Context;
use fsb_compat::TOOLS;

/// A generated part of a page.
pub(super) struct GeneratedPart {
    /// The path of the page in the repository.
    pub path: &'static str,
    /// The name in both comments.
    name: &'static str,
    /// Returns the lines.
    produce: fn() -> String,
}

/// All generated parts.
pub(super) const PARTS: &[GeneratedPart] = &[
    GeneratedPart {
        path: "README.md",
        name: "tools",
        produce: tool_sentence,
    },
    GeneratedPart {
        path: "docs/formats.md",
        name: "tools",
        produce: tool_table,
    },
    GeneratedPart {
        path: "docs/methods/fuse.md",
        name: "servers",
        produce: || property_table(|version| version != NO_VERSION),
    },
    GeneratedPart {
        path: "docs/methods/fuse.md",
        name: "kernel file systems",
        produce: || property_table(|version| version == NO_VERSION),
    },
];

/// The properties of file systems, which a machine test of fsb compares with the answers of the
/// doctor.
const PROPERTIES: &str = include_str!("../../../fsb/tests/common/fuse_cells.txt");
/// The version of a file system of the kernel in [`PROPERTIES`], and an answer that is not tested.
const NO_VERSION: &str = "-";

/// The longest line of a page.
const WIDTH: usize = 118;

impl GeneratedPart {
    /// Returns the page with this part as it should be.
    ///
    /// # Errors
    /// Fails if the page lacks one of the comments.
    pub fn replace(&self, page: &str) -> anyhow::Result<String> {
        let GeneratedPart {
            path,
            name,
            produce,
        } = self;
        let (start, end) = (
            format!("<!-- generated: {name} -->\n"),
            format!("<!-- end: {name} -->"),
        );
        let (before, rest) = page
            .split_once(&start)
            .with_context(|| format!("{path} has no line '{}'", start.trim()))?;
        let (_, after) = rest
            .split_once(&end)
            .with_context(|| format!("{path} has no line '{end}'"))?;
        Ok(format!("{before}{start}{}{end}{after}", produce()))
    }
}

/// Returns a table with a row for each property, and a column for each file system whose version is
/// `shown`.
fn property_table(shown: fn(&str) -> bool) -> String {
    let mut rows: Vec<Vec<&str>> = Vec::new();
    for line in PROPERTIES.lines() {
        if !line.starts_with('#') {
            rows.push(line.split_whitespace().collect());
        }
    }
    let ([heads, versions], rows) = rows.split_first_chunk().expect("heads and versions");
    let mut columns = Vec::from_iter(1..heads.len());
    columns.retain(|column| shown(versions[*column]));
    let line = |label: &str, cells: &[&str]| {
        let mut text = format!("| {label} |");
        for column in &columns {
            text += &format!(" {} |", cells[*column]);
        }
        text + "\n"
    };
    let mut text = line("", heads) + &format!("|{}\n", "---|".repeat(columns.len() + 1));
    if columns.iter().any(|column| versions[*column] != NO_VERSION) {
        text += &line("version", versions);
    }
    for cells in rows {
        let mut label = cells[0];
        for (name, question) in fsb_testbed::probe::questions() {
            if name == cells[0] {
                label = question;
            }
        }
        text += &line(label, cells);
    }
    text
}

fn tool_sentence() -> String {
    let sentence = format!(
        "`fsb compare` reads results of {}.",
        fsb_compat::tool_titles()
    );
    let mut text = String::new();
    let mut width = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        match width {
            0 => {}
            _ if width + 1 + length > WIDTH => {
                text.push('\n');
                width = 0;
            }
            _ => {
                text.push(' ');
                width += 1;
            }
        }
        text.push_str(word);
        width += length;
    }
    format!("\n{text}\n\n")
}

fn tool_table() -> String {
    let mut text = "\n| tool | output | values | one run |\n|---|---|---|---|\n".to_owned();
    for tool in TOOLS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            tool.title, tool.about, tool.values, tool.repetition
        ); // a String
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_between_the_comments_are_replaced() {
        let part = GeneratedPart {
            path: "p.md",
            name: "x",
            produce: || "new\n".to_owned(),
        };
        let page = "a\n<!-- generated: x -->\nold\n<!-- end: x -->\nb\n";
        assert_eq!(part.replace(page).unwrap(), page.replace("old", "new"));
        assert_eq!(
            part.replace("a\n").unwrap_err().to_string(),
            "p.md has no line '<!-- generated: x -->'"
        );
    }
}
