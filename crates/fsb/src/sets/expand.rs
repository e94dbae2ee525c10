//! Expands a typed path to files: a file, a directory, a glob, or a run directory of fsb.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use fsb_compat::{TOOLS, Tool};
use fsb_model::shell;
use fsb_store::{RUN_FILE, TRIALS_FILE};
use glob::MatchOptions;

use super::argument::is_glob;
use crate::{code, earlier, exit, result_owner};

/// The size of the beginning of a file from which the readers recognize it.
const HEAD: u64 = 64 << 10;
/// The number of files that a list in a message names.
const SHOWN: usize = 3;

/// A result behind a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A file of another tool.
    File(PathBuf),
    /// A run directory of fsb.
    Run(PathBuf),
}

/// Returns everything behind a path, in natural order unless the order was typed.
pub(super) fn expand(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    result_owner::looking(|| behind(path, warnings))?
}

fn behind(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => directory(path, warnings),
        Ok(_) => Ok(vec![file(path)]),
        Err(_) if is_glob(path) && path.symlink_metadata().is_err() => glob(path, warnings),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            let is_name =
                path.to_str().is_some_and(|name| fsb_testbed::fs::REGISTRY.iter().any(|fs| fs.name() == name));
            Err(match is_name {
                true => exit::advised(
                    &code::UNREADABLE,
                    message,
                    "fsb compare reads results; to measure file systems, use fsb run",
                ),
                false => exit::failure(&code::UNREADABLE, message),
            })
        }
    }
}

/// Returns the file, or its run directory if it is a file of one.
fn file(path: &Path) -> Found {
    let ours = path.file_name().is_some_and(|name| name == RUN_FILE || name == TRIALS_FILE);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if ours && parent.join(RUN_FILE).is_file() { Found::Run(parent.to_owned()) } else { Found::File(path.to_owned()) }
}

fn glob(pattern: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    let shown = pattern.display();
    let text = pattern
        .to_str()
        .ok_or_else(|| exit::failure(&code::INVALID_SET, format!("{shown}: a pattern must be UTF-8")))?;
    // Like a shell: a star does not match the dot of a hidden file.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let matches = glob::glob_with(text, options)
        .map_err(|error| exit::failure(&code::INVALID_SET, format!("{shown}: {error}")))?;
    let mut paths =
        matches.collect::<Result<Vec<_>, _>>().map_err(|error| exit::failure(&code::UNREADABLE, error.to_string()))?;
    alphanumeric_sort::sort_path_slice(&mut paths);
    if paths.is_empty() {
        return Err(exit::failure(&code::NO_MATCH, format!("no file matches {shown}")));
    }
    let mut found = Vec::new();
    for path in &paths {
        // Treat a match like a typed path, but never as a pattern again.
        found.extend(if path.is_dir() { directory(path, warnings)? } else { vec![file(path)] });
    }
    Ok(found)
}

/// Returns the run of a run directory, the runs of a set, or the files of one tool. A mix of tools is hardly one set.
fn directory(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    if path.join(RUN_FILE).is_file() {
        return Ok(vec![Found::Run(path.to_owned())]);
    }
    let runs = earlier::runs_of_set(path);
    if !runs.is_empty() {
        return Ok(runs.into_iter().map(Found::Run).collect());
    }
    let mut by_tool: Vec<(&Tool, Vec<PathBuf>)> = Vec::new();
    let mut unknown = Vec::new();
    for file in entries(path)?.into_iter().filter(|entry| entry.is_file()) {
        match tool(&file)? {
            None => unknown.push(file),
            Some(tool) => match by_tool.iter_mut().find(|(known, _)| known.name == tool.name) {
                Some((_, files)) => files.push(file),
                None => by_tool.push((tool, vec![file])),
            },
        }
    }
    match by_tool.as_slice() {
        [] => Err(exit::failure(&code::NO_MATCH, nothing_in(path, &unknown)?)),
        [(_, files)] => {
            if !unknown.is_empty() {
                warnings.push(format!("{}: no reader knows {}: left out", path.display(), list(&unknown)));
            }
            Ok(files.iter().cloned().map(Found::File).collect())
        }
        tools => Err(exit::failure(&code::INVALID_SET, several_tools(path, tools))),
    }
}

/// Returns the entries of a directory, in natural order, without hidden files.
fn entries(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed =
        |error: std::io::Error| exit::failure(&code::UNREADABLE, format!("cannot read {}: {error}", path.display()));
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            entries.push(entry.path());
        }
    }
    alphanumeric_sort::sort_path_slice(&mut entries);
    Ok(entries)
}

/// Returns the tool whose output a file looks like.
fn tool(path: &Path) -> anyhow::Result<Option<&'static Tool>> {
    let mut head = Vec::new();
    fsb_store::input::open(path)
        .and_then(|file| file.take(HEAD).read_to_end(&mut head))
        .map_err(|error| exit::failure(&code::UNREADABLE, format!("cannot read {}: {error}", path.display())))?;
    Ok(TOOLS.iter().find(|tool| (tool.recognise)(&head)))
}

/// Returns the message for a directory without results, which are often one level below.
fn nothing_in(path: &Path, unknown: &[PathBuf]) -> anyhow::Result<String> {
    let holds_results = |directory: &PathBuf| {
        let files = || entries(directory).unwrap_or_default();
        directory.join(RUN_FILE).is_file()
            || files().iter().any(|file| file.is_file() && tool(file).is_ok_and(|tool| tool.is_some()))
    };
    let below: Vec<PathBuf> =
        entries(path)?.into_iter().filter(|entry| entry.is_dir()).filter(holds_results).take(SHOWN).collect();
    let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let shown = path.display();
    Ok(if !below.is_empty() {
        let typed: Vec<String> = below.iter().map(|path| shell::word(&path.display().to_string())).collect();
        format!("{shown} holds no results itself, but its directories do: fsb compare {}", typed.join(" "))
    } else if unknown.is_empty() {
        format!("{shown} holds no files: name files of results or the directory of a run")
    } else {
        format!("{shown} holds no run.json, and no reader knows {} (tried: {})", list(unknown), known.join(", "))
    })
}

fn several_tools(path: &Path, tools: &[(&Tool, Vec<PathBuf>)]) -> String {
    let lists: Vec<String> = tools.iter().map(|(tool, files)| format!("{} ({})", tool.name, list(files))).collect();
    let named: Vec<String> =
        tools.iter().map(|(tool, files)| shell::word(&format!("{}={}", tool.name, files[0].display()))).collect();
    format!(
        "{} holds the results of several tools: {}. Name the files of each set, separated by commas or as a quoted \
         pattern: fsb compare {}",
        path.display(),
        lists.join(", "),
        named.join(" ")
    )
}

/// Returns `a.txt, b.txt and 3 more`.
pub(super) fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .take(SHOWN)
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
        .collect();
    match files.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
