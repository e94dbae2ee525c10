//! Dependency rules: which crates may depend on which.

use std::collections::BTreeMap;
use std::process::Command;

/// For each crate, the crates of this workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("fsb-model", &[]),
    ("fsb-sys", &["fsb-model"]),
    ("fsb-testbed", &["fsb-model", "fsb-store", "fsb-sys"]),
    ("fsb-trace", &["fsb-model", "fsb-sys"]),
    (
        "fsb-engine",
        &["fsb-model", "fsb-store", "fsb-sys", "fsb-trace"],
    ),
    ("fsb-store", &["fsb-model", "fsb-sys"]),
    ("fsb-compat", &["fsb-model", "fsb-store"]),
    ("fsb-stats", &["fsb-model"]),
    ("fsb-vm", &["fsb-model", "fsb-store"]),
    (
        "fsb-runner",
        &[
            "fsb-model",
            "fsb-sys",
            "fsb-testbed",
            "fsb-engine",
            "fsb-vm",
        ],
    ),
    ("fsb-report", &["fsb-model", "fsb-stats", "fsb-store"]),
    (
        "fsb-results",
        &[
            "fsb-compat",
            "fsb-model",
            "fsb-report",
            "fsb-runner",
            "fsb-stats",
            "fsb-store",
            "fsb-testbed",
        ],
    ),
    (
        "fsb-history",
        &["fsb-model", "fsb-report", "fsb-stats", "fsb-store"],
    ),
    (
        "fsb-serve",
        &[
            "fsb-history",
            "fsb-model",
            "fsb-report",
            "fsb-results",
            "fsb-stats",
        ],
    ),
    (
        "fsb",
        &[
            "fsb-model",
            "fsb-sys",
            "fsb-testbed",
            "fsb-engine",
            "fsb-store",
            "fsb-compat",
            "fsb-stats",
            "fsb-runner",
            "fsb-report",
            "fsb-results",
            "fsb-vm",
            "fsb-history",
            "fsb-serve",
            "fsb-trace",
        ],
    ),
    (
        "xtask",
        &[
            "fsb-compat",
            "fsb-history",
            "fsb-model",
            "fsb-engine",
            "fsb-runner",
            "fsb-sys",
            "fsb-testbed",
            "fsb-stats",
            "fsb-report",
            "fsb-serve",
            "fsb-store",
            "fsb-testkit",
            "fsb-trace",
        ],
    ),
    (
        "fsb-mpi",
        &[
            "fsb-engine",
            "fsb-model",
            "fsb-report",
            "fsb-stats",
            "fsb-store",
            "fsb-sys",
            "fsb-testbed",
        ],
    ),
    // Only tests and benchmarks use it: other crates have it as a dev-dependency.
    ("fsb-testkit", &[]),
];

#[test]
fn dependencies_point_down() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(
        packages.len(),
        ALLOWED.len(),
        "a crate is missing from the list above, or from the workspace"
    );
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let may = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the list"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let on = dependency["name"].as_str().unwrap();
            let ours = allowed.contains_key(on) && dependency["kind"].is_null();
            assert!(!ours || may.contains(&on), "{name} must not depend on {on}");
        }
    }
}

/// Returns the lines of code of each source file, by its path below `crates`, without comments and
/// tests.
fn sources() -> Vec<(String, Vec<String>)> {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut files = vec![std::path::PathBuf::from(crates)];
    let mut found = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path()),
            );
            continue;
        }
        let name = path.strip_prefix(crates).unwrap().display().to_string();
        if !name.ends_with(".rs") || !name.contains("/src/") || name.ends_with("/tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let body = text.split("#[cfg(test)]").next().unwrap();
        let code = body
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        found.push((name, code.map(str::to_owned).collect()));
    }
    assert!(found.len() > 50, "only {} files found", found.len());
    found
}

/// Only the programs and the library of results read the store of runs. Other crates open files
/// with `input`, remove trees, and use trials that were read.
#[test]
fn the_store_of_runs_is_used_by_programs_and_results_alone() {
    let above = ["fsb/", "fsb-mpi/", "fsb-results/", "fsb-store/", "xtask/"];
    let below = |path: &str| !above.iter().any(|name| path.starts_with(name));
    for (path, code) in sources().into_iter().filter(|(path, _)| below(path)) {
        for line in code {
            let names = line.split("fsb_store").skip(1);
            let other = names.filter(|after| {
                !["::input::", "::journal::", "::remove_tree("]
                    .iter()
                    .any(|known| after.starts_with(known))
            });
            assert_eq!(other.count(), 0, "{path}: {line}");
        }
    }
}

/// Returns whether a source file belongs to the testbed or to its calls into the kernel.
fn is_of_testbed(path: &str) -> bool {
    path.starts_with("fsb-testbed/src/") || path.starts_with("fsb-sys/src/")
}

/// A file system is defined by one file and one line: no other module of the testbed compares names
/// of file systems. No lint checks the content of string literals.
#[test]
fn file_systems_are_named_in_their_family_alone() {
    // The testbed itself mounts a tmpfs, overlays confine commands, storage is also walked through
    // overlays that are not targets, and commands may not write below read-only images.
    let members = fsb_testbed::fs::REGISTRY
        .iter()
        .map(|member| member.name())
        .filter(|name| !["tmpfs", "overlay", "erofs", "squashfs"].contains(name));
    let names: Vec<String> = members.map(|name| format!("\"{name}\"")).collect();
    for (path, code) in sources()
        .into_iter()
        .filter(|(path, _)| is_of_testbed(path) && !path.contains("/fs/"))
    {
        // The first bytes of kernel threads' names are byte strings.
        let is_name = |line: &str, name| {
            line.match_indices(name)
                .any(|(at, _): (usize, _)| !line[..at].ends_with('b'))
        };
        let named = code
            .iter()
            .find(|line| names.iter().any(|name| is_name(line, name.as_str())));
        assert_eq!(named, None, "{path}");
    }
}

/// Errors between modules of the testbed are `Refusal`s, which record whether the kernel gave the
/// reason. No lint forbids a type in one position only: `String` is allowed elsewhere.
#[test]
fn reasons_have_a_type_in_the_testbed() {
    for (path, code) in sources()
        .into_iter()
        .filter(|(path, _)| is_of_testbed(path))
    {
        // This module returns the reason why targets take turns as text, because no operation has
        // failed.
        if path.ends_with("local/side_by_side.rs") {
            continue;
        }
        let answers = code.iter().filter_map(|line| line.split_once("-> Result<"));
        let plain = answers
            .map(|(_, answer)| answer)
            .find(|answer| answer.contains(", String>"));
        assert_eq!(plain, None, "{path}: a `Refusal` is meant");
    }
}
