//! `cargo run -p xtask -- constants`: finds constants of dependencies whose values differ from
//! those of their names. Clippy's disallowed lists have no entry for associated constants.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A type, those of its constants that have another value, and the replacement. rustix 1.1.6
/// (linux_raw) gives DSYNC, RSYNC and FSYNC the value of O_SYNC.
const FORBIDDEN: (&str, [&str; 3], &str) = (
    "OFlags",
    ["DSYNC", "RSYNC", "FSYNC"],
    "they are O_SYNC: use fsb_sys::open_flags::DSYNC, or OFlags::SYNC",
);

/// Checks all sources of the repository.
pub fn run() -> anyhow::Result<()> {
    let sources = sources(Path::new(ROOT))?;
    ensure!(!sources.is_empty(), "no Rust source is below {ROOT}/crates");
    let mut list = String::new();
    for path in sources {
        for (line, name) in uses(&std::fs::read_to_string(&path)?) {
            writeln!(list, "  {}:{line}: {name}", path.display())?;
        }
    }
    ensure!(
        list.is_empty(),
        "constants with the value of another one ({}):\n{list}",
        FORBIDDEN.2
    );
    Ok(())
}

/// Returns the Rust sources of the crates and fuzz targets. A source archive has no git, so the
/// directories are read.
fn sources(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let directories = ["crates", "fuzz"].map(|name| root.join(name));
    let mut directories: Vec<PathBuf> = directories
        .into_iter()
        .filter(|directory| directory.is_dir())
        .collect();
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns a line without its comment. Two slashes in a string begin none.
fn without_comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    let bytes = line.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            // A quotation mark that is a character begins no string.
            b'"' if quoted
                || !(at > 0 && bytes[at - 1] == b'\'' && bytes.get(at + 1) == Some(&b'\'')) =>
            {
                quoted = !quoted
            }
            b'/' if !quoted && bytes.get(at + 1) == Some(&b'/') => return &line[..at],
            _ => {}
        }
    }
    line
}

/// Returns the uses in a source file, by line. Comments do not count.
fn uses(text: &str) -> Vec<(usize, String)> {
    let (kind, names, _) = FORBIDDEN;
    let all: Vec<String> = names.iter().map(|name| format!("{kind}::{name}")).collect();
    let code = text.lines().map(without_comment).enumerate();
    code.flat_map(|(at, line)| {
        all.iter()
            .filter(move |name| contains(line, name))
            .map(move |name| (at + 1, name.clone()))
    })
    .collect()
}

/// Returns whether a line contains a path that ends with this name.
fn contains(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let after = line[at + name.len()..].chars().next();
        after.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_in_code_and_not_in_comments() {
        let name = ["OFlags", "DSYNC"].join("::");
        let text = format!(
            "// {name}\nlet a = rustix::fs::{name} | OFlags::SYNC;\nlet b = {name}_OTHER;\nfn f({name})\n"
        );
        assert_eq!(uses(&text), [(2, name.clone()), (4, name)]);
        assert!(uses("let a = fsb_sys::open_flags::DSYNC | OFlags::SYNC;").is_empty());
    }

    #[test]
    fn slashes_in_a_string_begin_no_comment() {
        let name = ["OFlags", "DSYNC"].join("::");
        let text = format!("open(\"http://x \\\" //\", {name}); // \nlet q = '\"'; // {name}\n");
        assert_eq!(uses(&text), [(1, name)]);
    }

    /// A source archive has no `.git` directory.
    #[test]
    fn sources_are_found_without_git() {
        let root = std::env::temp_dir().join(format!("fsb-constants-{}", std::process::id()));
        let directory = root.join("crates/one/src");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("lib.rs"), "").unwrap();
        std::fs::write(directory.join("text.txt"), "").unwrap();
        let found = sources(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [directory.join("lib.rs")]);
    }

    #[test]
    fn the_repository_uses_none() {
        run().unwrap();
    }
}
