//! The commit that the program was built from, for the record of every run. A package of a registry
//! knows it from a file beside it; a source tree without git has none.

use std::path::Path;
use std::process::Command;

/// The file that `cargo package` writes: `{"git": {"sha1": "…"}, …}`.
const OF_PACKAGE: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A package that is unpacked within another repository is not of that repository.
    let commit = if Path::new("Cargo.toml.orig").exists() {
        of_package()
    } else {
        of_repository()
    };
    if let Some(commit) = commit {
        println!("cargo::rustc-env=FSB_COMMIT={commit}");
    }
}

fn of_package() -> Option<String> {
    let text = std::fs::read_to_string(OF_PACKAGE).ok()?;
    let (_, rest) = text.split_once("\"sha1\":")?;
    let commit = rest.split('"').nth(1)?;
    Some(commit.chars().take(12).collect())
}

fn of_repository() -> Option<String> {
    // In a linked worktree `.git` is a file, and only git knows where HEAD and the branches are.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) =
            git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
