//! `cargo run -p xtask -- licences`: checks the licence and the source of every package that fsb
//! depends on.
//!
//! The input is deny.toml, so that `cargo deny check bans licenses sources` remains possible. This
//! check reads the licence fields of `cargo metadata` and takes less than a second; it does not
//! read licence texts.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The only registry that packages come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// FSBench runs on Linux only. Without a platform, Cargo downloads the packages of all others as
/// well.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The part of deny.toml that this check applies.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    #[serde(default)]
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Absent for packages of this workspace.
    source: Option<String>,
}

/// Checks all packages and fails with a list of those that deny.toml does not allow.
pub fn run() -> anyhow::Result<()> {
    let rules =
        std::fs::read_to_string(format!("{ROOT}/deny.toml")).context("deny.toml cannot be read")?;
    let rules: Rules = toml::from_str(&rules).context("deny.toml is not readable")?;
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            PLATFORM,
            "--manifest-path",
        ])
        .arg(format!("{ROOT}/Cargo.toml"))
        .output()
        .context("cargo metadata does not run")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata is not readable")?;
    let problems: Vec<String> = metadata
        .packages
        .iter()
        .filter_map(|package| problem(package, &rules))
        .collect();
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    metadata
        .packages
        .iter()
        .for_each(|package| *versions.entry(&package.name).or_default() += 1);
    let duplicates = versions.values().filter(|count| **count > 1).count();
    println!(
        "licences: {} packages, {duplicates} in more than one version, all allowed",
        metadata.packages.len()
    );
    Ok(())
}

/// Returns why a package is not allowed.
fn problem(package: &Package, rules: &Rules) -> Option<String> {
    let Package {
        name,
        version,
        license,
        source,
    } = package;
    let licence = license.as_deref().unwrap_or("");
    let why = if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == *name) {
        format!("banned: {}", ban.reason)
    } else if source.as_ref().is_some_and(|source| source != REGISTRY) {
        format!(
            "its source is not crates.io: {}",
            source.as_deref().unwrap_or("")
        )
    } else if !is_allowed(licence, &rules.licenses.allow) {
        format!("its licence is not in the list of deny.toml: {licence:?}")
    } else {
        return None;
    };
    Some(format!("{name} {version}: {why}"))
}

/// Evaluates an SPDX expression. `AND` binds more tightly than `OR`; the older `/` means `OR`.
fn is_allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allow) == Some(true) && words.next().is_none()
}

type Words<'w> = std::iter::Peekable<std::str::SplitWhitespace<'w>>;

fn any(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    let mut allowed = all(words, allow)?;
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all(words, allow)?;
    }
    Some(allowed)
}

fn all(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    let mut allowed = one(words, allow)?;
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words, allow)?;
    }
    Some(allowed)
}

fn one(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let allowed = any(words, allow)?;
        return words.next_if_eq(&")").map(|_| allowed);
    }
    let licence = words.next()?;
    Some(match words.next_if_eq(&"WITH") {
        Some(_) => allow.contains(&format!("{licence} WITH {}", words.next()?)),
        None => allow.contains(licence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            r#"
            [licenses]
            allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
            [bans]
            deny = [{ crate = "openssl", reason = "the release is a static binary" }]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn expressions_are_evaluated_against_the_list() {
        let allow = rules().licenses.allow;
        for allowed in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-2.0/MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "GPL-3.0 OR MIT AND MIT",
        ] {
            assert!(is_allowed(allowed, &allow), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT WITH LLVM-exception",
            "(MIT",
            "MIT MIT",
            "OR MIT",
        ] {
            assert!(!is_allowed(refused, &allow), "{refused}");
        }
        assert!(is_allowed(
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            &allow
        ));
    }

    #[test]
    fn other_sources_and_banned_packages_are_refused() {
        let package = |name: &str, source: Option<&str>| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some("MIT".to_owned()),
            source: source.map(str::to_owned),
        };
        assert_eq!(problem(&package("fsb", None), &rules()), None);
        assert_eq!(problem(&package("libc", Some(REGISTRY)), &rules()), None);
        let git = problem(
            &package("libc", Some("git+https://example.org/libc")),
            &rules(),
        )
        .unwrap();
        assert!(
            git.contains("libc 1.0.0: its source is not crates.io"),
            "{git}"
        );
        let banned = problem(&package("openssl", Some(REGISTRY)), &rules()).unwrap();
        assert_eq!(
            banned,
            "openssl 1.0.0: banned: the release is a static binary"
        );
    }
}
