//! `cargo run -p xtask -- cycles`: finds source files of a crate that depend on each other, directly or through others.
//!
//! A file depends on each file whose items it names. The rules:
//!
//! * A path counts wherever it is written: in `use`, expressions, types, patterns, attributes and arguments of macros.
//! * A path is followed through modules, imports, globs and re-exports to the file that defines the item. A child that
//!   names an item of its sibling through a re-export of the parent depends on the sibling, not on the parent.
//! * A path that ends at a module adds no edge. The paths that continue from that module do.
//! * `mod child;` and `pub use child::Item;` add no edge: the code of the parent does not need the child for them.
//! * A parent whose code names an item of its child depends on the child, and a child that names an item that the parent
//!   defines depends on the parent. Both together are a cycle.
//! * Items under `#[cfg(test)]` are ignored.
//!
//! Methods and fields are not paths: a type that a file uses without naming it adds no edge.

mod modules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use modules::Tree;

/// Pairs of files: the first names items of the second by these paths.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// Checks all crates of the workspace and fails if there is a cycle.
pub fn run() -> anyhow::Result<()> {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut edges = Edges::new();
    let mut files = 0;
    for entry in std::fs::read_dir(crates)? {
        let name = entry?.file_name().into_string().ok().context("the name of a crate is not UTF-8")?;
        for root in ["lib.rs", "main.rs"].map(|file| format!("{name}/src/{file}")) {
            if crates.join(&root).exists() {
                let read = |path: &Path| std::fs::read_to_string(crates.join(path)).ok();
                let tree = Tree::load(Path::new(&root), &read)?;
                files += tree.files.len();
                edges.extend(edges_of(&tree));
            }
        }
    }
    let cycles = cycles(&edges);
    ensure!(cycles.is_empty(), "{cycles}");
    println!("cycles: none in {files} files with {} edges", edges.len());
    Ok(())
}

/// Returns a line for each edge that is part of a cycle.
fn cycles(edges: &Edges) -> String {
    let mut text = String::new();
    for ((from, to), paths) in edges {
        if reaches(edges, to, from) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let _ = writeln!(text, "cycle: {from} uses {to} ({})", paths.join(", "));
        }
    }
    text
}

/// Returns whether a path leads from one file to another.
fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    let (mut seen, mut pending) = (BTreeSet::new(), vec![from]);
    while let Some(file) = pending.pop() {
        if file == to {
            return true;
        }
        if seen.insert(file) {
            let start = (file.to_owned(), String::new());
            let next = edges.range(start..).map(|(edge, _)| edge).take_while(|edge| edge.0 == file);
            pending.extend(next.map(|edge| edge.1.as_str()));
        }
    }
    false
}

/// Returns the names that files of a crate use from other files.
fn edges_of(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for (module, path) in tree.paths() {
        let from = tree.file_of(module);
        for to in tree.files_defining(module, path).filter(|to| *to != from) {
            let edge = (from.display().to_string(), to.display().to_string());
            edges.entry(edge).or_default().insert(path.join("::"));
        }
    }
    edges
}
