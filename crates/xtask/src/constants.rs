//! `cargo run -p xtask -- constants`: finds constants of dependencies whose values differ from those of their names.
//! Clippy's disallowed lists have no entry for associated constants.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, ensure};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A type, those of its constants that have another value, and the replacement. rustix 1.1.6 (linux_raw) gives DSYNC,
/// RSYNC and FSYNC the value of O_SYNC.
const FORBIDDEN: (&str, [&str; 3], &str) =
    ("OFlags", ["DSYNC", "RSYNC", "FSYNC"], "they are O_SYNC: use fsb_sys::open_flags::DSYNC, or OFlags::SYNC");

/// Checks all sources of the repository.
pub fn run() -> anyhow::Result<()> {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(ROOT).output();
    let listed = listed.context("git cannot be started")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let mut list = String::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(format!("{ROOT}/{path}")) else { continue };
        for (line, name) in uses(&text) {
            writeln!(list, "  {path}:{line}: {name}")?;
        }
    }
    ensure!(list.is_empty(), "constants with the value of another one ({}):\n{list}", FORBIDDEN.2);
    Ok(())
}

/// Returns the uses in a source file, by line. Comments do not count.
fn uses(text: &str) -> Vec<(usize, String)> {
    let (kind, names, _) = FORBIDDEN;
    let all: Vec<String> = names.iter().map(|name| format!("{kind}::{name}")).collect();
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default()).enumerate();
    code.flat_map(|(at, line)| {
        all.iter().filter(move |name| contains(line, name)).map(move |name| (at + 1, name.clone()))
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
        let text =
            format!("// {name}\nlet a = rustix::fs::{name} | OFlags::SYNC;\nlet b = {name}_OTHER;\nfn f({name})\n");
        assert_eq!(uses(&text), [(2, name.clone()), (4, name)]);
        assert!(uses("let a = fsb_sys::open_flags::DSYNC | OFlags::SYNC;").is_empty());
    }

    #[test]
    fn the_repository_uses_none() {
        run().unwrap();
    }
}
