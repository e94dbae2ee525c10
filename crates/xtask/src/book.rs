//! `cargo run -p xtask -- book`: builds the documentation as a book, with mdBook.
//!
//! `docs/SUMMARY.md` is the table of contents. mdBook reads one directory only, so the pages of the
//! top directory are copied beside those of `docs`, and links between the two are adjusted. Links
//! to source files become plain text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Pages of the top directory that are in the book.
const TOP: [&str; 4] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
];

/// Directories of source files.
const SOURCES: [&str; 6] = ["crates", "scripts", "plans", "fuzz", "python", ".config"];

/// Builds the book in `target/book`.
///
/// # Errors
/// If a page cannot be read or copied, if mdBook is missing, or if it refuses a page.
pub fn run() -> anyhow::Result<()> {
    let root = Path::new(ROOT).canonicalize()?;
    let book = root.join("target/book");
    let pages = book.join("docs");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("cannot remove {}", pages.display()))?;
    }
    copy(&root.join("docs"), &pages, 0)?;
    for name in TOP {
        let text =
            fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        fs::write(
            pages.join(name),
            within_the_book(&text.replace("](docs/", "]("), 0),
        )?;
    }
    fs::copy(root.join("book.toml"), book.join("book.toml"))?;
    let built = Command::new("mdbook").arg("build").arg(&book).status();
    let built =
        built.context("mdbook cannot be started; install it with 'cargo install mdbook'")?;
    ensure!(built.success(), "mdbook: {built}");
    println!("{}", book.join("book/index.html").display());
    Ok(())
}

/// Copies a directory that is `depth` levels below `docs`.
fn copy(from: &Path, to: &Path, depth: usize) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let source: PathBuf = entry?.path();
        let name = source.file_name().context("an entry has a name")?;
        let target = to.join(if name == "README.md" {
            "index.md".as_ref()
        } else {
            name
        });
        if source.is_dir() {
            copy(&source, &target, depth + 1)?;
        } else if source.extension().is_some_and(|ending| ending == "md") {
            fs::write(
                &target,
                within_the_book(&fs::read_to_string(&source)?, depth),
            )?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Adjusts the links of a page, `depth` levels below `docs`, to the pages of the top directory.
fn within_the_book(text: &str, depth: usize) -> String {
    let (outside, inside) = ("../".repeat(depth + 1), "../".repeat(depth));
    let text = TOP.iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("]({outside}{name}"), &format!("]({inside}{name}"))
    });
    // mdBook calls the first page of a directory index.
    without_sources(&text.replace("README.md", "index.md"))
}

/// Replaces links to files that are not pages, in the directories of the source, with their text.
fn without_sources(text: &str) -> String {
    let is_source = |target: &str| {
        let path = target.trim_start_matches("../");
        SOURCES.iter().any(|directory| path.starts_with(directory))
    };
    let (mut found, mut rest) = (String::new(), text);
    while let Some(middle) = rest.find("](") {
        let end = rest[middle..].find(')').map(|end| middle + end);
        match (rest[..middle].rfind('['), end) {
            (Some(start), Some(end)) if is_source(&rest[middle + 2..end]) => {
                found += &rest[..start];
                found += &rest[start + 1..middle];
                rest = &rest[end + 1..];
            }
            _ => {
                found += &rest[..middle + 2];
                rest = &rest[middle + 2..];
            }
        }
    }
    found + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn links_to_the_top_directory_lead_to_the_copies() {
        assert_eq!(
            within_the_book("[a](../SECURITY.md#x) [b](guide.md)", 0),
            "[a](SECURITY.md#x) [b](guide.md)"
        );
        assert_eq!(
            within_the_book("[a](../../CHANGELOG.md)", 1),
            "[a](../CHANGELOG.md)"
        );
        assert_eq!(
            within_the_book("[a](methods/README.md)", 0),
            "[a](methods/index.md)"
        );
        let sources = "see [`mod.rs`](../../crates/x/mod.rs), [b](guide.md) and [c](../plans)";
        assert_eq!(
            within_the_book(sources, 1),
            "see `mod.rs`, [b](guide.md) and c"
        );
    }

    #[test]
    fn the_table_of_contents_names_every_page_once() {
        let docs = Path::new(ROOT).join("docs");
        let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
        let links = contents
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap().to_owned());
        let links: Vec<String> = links.collect();
        let mut pages = BTreeSet::from(TOP.map(|name| format!("../{name}")));
        for directory in ["", "methods/", "decisions/"] {
            for entry in fs::read_dir(docs.join(directory)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".md") && name != "SUMMARY.md" {
                    pages.insert(format!("{directory}{name}"));
                }
            }
        }
        assert_eq!(
            links.len(),
            links.iter().collect::<BTreeSet<_>>().len(),
            "a page is named twice"
        );
        assert_eq!(links.into_iter().collect::<BTreeSet<_>>(), pages);
    }
}
