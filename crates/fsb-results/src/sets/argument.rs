//! Parses arguments: `[NAME=]PATH[,PATH…]`.
//!
//! File names may contain `=` and commas. If a file has the whole text as its name, the argument is
//! that file. Otherwise NAME ends at the first `=` that has no slash or wildcard before it, and a
//! comma separates paths, unless only the text around it is the name of a file. Write `./` before a
//! path that looks like a name. `~/` is the home directory, because a shell does not expand it
//! inside the quotes that a pattern needs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use fsb_compat::{TOOLS, Tool};
use fsb_model::{code, failure, shell};
use fsb_store::{RUN_FILE, Reader, TRIALS_FILE, owner};
use glob::MatchOptions;

use crate::directory::runs_of_set;

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    /// The argument as typed.
    pub(super) text: OsString,
    /// The name that the set was given.
    pub(super) name: Option<String>,
    /// Files, directories and globs, in the order typed; at least one.
    pub(super) paths: Vec<PathBuf>,
}

impl Argument {
    /// Returns the name, or else the text.
    pub(super) fn shown(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.text.display().to_string(),
        }
    }

    /// Parses an argument; reads only which files exist.
    pub(super) fn parse(text: &OsStr) -> anyhow::Result<Argument> {
        let (name, rest) = split_name(text)?;
        let paths = split_paths(rest).map_err(|why| {
            failure::error(&code::INVALID_SET, format!("'{}': {why}", text.display()))
        })?;
        Ok(Argument {
            text: text.to_owned(),
            name,
            paths,
        })
    }

    /// Returns whether it is one plain file without a name, as a shell expands an unquoted glob.
    pub(super) fn is_bare_file(&self) -> bool {
        self.name.is_none() && matches!(self.paths.as_slice(), [path] if path.is_file())
    }
}

/// Returns whether the text has a character that is special in a glob.
pub(super) fn is_glob(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b"*?[".contains(byte))
}

fn exists(text: &OsStr) -> bool {
    Path::new(text).symlink_metadata().is_ok()
}

fn split_name(text: &OsStr) -> anyhow::Result<(Option<String>, &OsStr)> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
        return Ok((None, text));
    };
    let (name, rest) = (
        OsStr::from_bytes(&bytes[..at]),
        OsStr::from_bytes(&bytes[at + 1..]),
    );
    let is_path = name.as_bytes().contains(&b'/') || is_glob(Path::new(name));
    if is_path || (exists(text) && !exists(rest)) {
        return Ok((None, text));
    }
    // Control characters would break tables.
    let name = name.to_string_lossy();
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        let what = "the name before '=' is empty or cannot be printed";
        return Err(failure::error(
            &code::INVALID_SET,
            format!("'{}': {what}: write NAME=PATH", text.display()),
        ));
    }
    Ok((Some(name.trim().to_owned()), rest))
}

fn split_paths(text: &OsStr) -> Result<Vec<PathBuf>, &'static str> {
    if exists(text) {
        return Ok(vec![text.into()]);
    }
    let parts: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b',').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err("a path is empty: write [NAME=]PATH[,PATH…]");
    }
    let mut paths = Vec::new();
    let mut first = 0;
    while first < parts.len() {
        let end = end_of_path(&parts, first);
        paths.push(at_home(PathBuf::from(OsStr::from_bytes(
            &parts[first..end].join(&b','),
        ))));
        first = end;
    }
    Ok(paths)
}

/// Expands `~/runs` to a path in the user's home directory.
fn at_home(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

/// Returns the end of the shortest run of parts that is an existing path; if none is, of a single
/// part, so that its error is reported.
fn end_of_path(parts: &[&[u8]], first: usize) -> usize {
    if is_glob(Path::new(OsStr::from_bytes(parts[first]))) {
        return first + 1;
    }
    (first + 1..=parts.len())
        .find(|end| exists(OsStr::from_bytes(&parts[first..*end].join(&b','))))
        .unwrap_or(first + 1)
}

// Expands a typed path to files: a file, a directory, a glob, or a run directory of fsb.

/// The size of the beginning of a file from which the readers recognize it.
const HEAD: u64 = 64 << 10;
/// The number of files that a list in a message names.
const SHOWN: usize = 3;

/// A result behind a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file of another tool.
    File(PathBuf),
    /// A run directory or a published page of fsb.
    Run(PathBuf),
}

/// Returns everything behind a path, in natural order unless the order was typed.
pub(super) fn expand(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    owner::looking(|| behind(path, warnings))?
}

fn behind(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => directory(path, warnings),
        Ok(_) => Ok(vec![file(path)]),
        Err(_) if fsb_compat::built_in(path).is_some() => Ok(vec![Found::File(path.to_owned())]),
        Err(_) if is_glob(path) && path.symlink_metadata().is_err() => glob(path, warnings),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            if let Some(help) = published_parts(path) {
                return Err(failure::advised_call(
                    &code::UNREADABLE,
                    &error,
                    message,
                    help,
                ));
            }
            let is_name = path
                .to_str()
                .is_some_and(|name| fsb_testbed::fs::REGISTRY.iter().any(|fs| fs.name() == name));
            Err(match is_name {
                true => failure::advised_call(
                    &code::UNREADABLE,
                    &error,
                    message,
                    "fsb compare reads results; to measure file systems, use fsb run",
                ),
                false => failure::failed_call(&code::UNREADABLE, &error, message),
            })
        }
    }
}

/// Returns the parts of the built-in results that a path begins with.
fn published_parts(path: &Path) -> Option<String> {
    let first = path.iter().next()?;
    let found = fsb_compat::BUILT_IN
        .iter()
        .find(|found| first == found.name)?;
    let parts = (found.parts)().join(", ");
    Some(format!("the parts of {} are {parts}", found.name))
}

/// Returns the file, or its run directory if it is a file of one. A published page is a run.
fn file(path: &Path) -> Found {
    if fsb_store::is_page(path) {
        return Found::Run(path.to_owned());
    }
    let ours = path
        .file_name()
        .is_some_and(|name| name == RUN_FILE || name == TRIALS_FILE);
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if ours && parent.join(RUN_FILE).is_file() {
        Found::Run(parent.to_owned())
    } else {
        Found::File(path.to_owned())
    }
}

fn glob(pattern: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    let shown = pattern.display();
    let text = pattern.to_str().ok_or_else(|| {
        failure::error(
            &code::INVALID_SET,
            format!("{shown}: a pattern must be UTF-8"),
        )
    })?;
    // Like a shell: a star does not match the dot of a hidden file.
    let options = MatchOptions {
        require_literal_leading_dot: true,
        ..MatchOptions::new()
    };
    let matches = glob::glob_with(text, options)
        .map_err(|error| failure::error(&code::INVALID_SET, format!("{shown}: {error}")))?;
    let mut paths = matches.collect::<Result<Vec<_>, _>>().map_err(|error| {
        failure::failed_call(&code::UNREADABLE, error.error(), error.to_string())
    })?;
    alphanumeric_sort::sort_path_slice(&mut paths);
    if paths.is_empty() {
        return Err(failure::error(
            &code::NO_MATCH,
            format!("no file matches {shown}"),
        ));
    }
    let mut found = Vec::new();
    for path in &paths {
        // Treat a match like a typed path, but never as a pattern again.
        found.extend(if path.is_dir() {
            directory(path, warnings)?
        } else {
            vec![file(path)]
        });
    }
    Ok(found)
}

/// Returns the run of a run directory, the runs of a set, or the files of one tool. A mix of tools
/// is hardly one set.
fn directory(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    if path.join(RUN_FILE).is_file() {
        return Ok(vec![Found::Run(path.to_owned())]);
    }
    let runs = runs_of_set(path);
    if !runs.is_empty() {
        return Ok(runs.into_iter().map(Found::Run).collect());
    }
    let mut by_tool: Vec<(&Tool, Vec<PathBuf>)> = Vec::new();
    let mut unknown = Vec::new();
    for file in entries(path)?.into_iter().filter(|entry| entry.is_file()) {
        match tool(&file)? {
            None => unknown.push(file),
            Some(tool) => match by_tool
                .iter_mut()
                .find(|(known, _)| known.name == tool.name)
            {
                Some((_, files)) => files.push(file),
                None => by_tool.push((tool, vec![file])),
            },
        }
    }
    match by_tool.as_slice() {
        [] => Err(failure::error(&code::NO_MATCH, nothing_in(path, &unknown)?)),
        [(_, files)] => {
            if !unknown.is_empty() {
                warnings.push(format!(
                    "{}: no reader knows {}: left out",
                    path.display(),
                    list_files(&unknown)
                ));
            }
            Ok(files.iter().cloned().map(Found::File).collect())
        }
        tools => Err(failure::error(
            &code::INVALID_SET,
            several_tools(path, tools),
        )),
    }
}

/// Returns the entries of a directory, in natural order, without hidden files.
fn entries(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| {
        failure::failed_call(
            &code::UNREADABLE,
            &error,
            format!("cannot read {}: {error}", path.display()),
        )
    };
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
        .map_err(|error| {
            failure::failed_call(
                &code::UNREADABLE,
                &error,
                format!("cannot read {}: {error}", path.display()),
            )
        })?;
    Ok(TOOLS.iter().find(|tool| (tool.recognise)(&head)))
}

/// Returns the message for a directory without results, which are often one level below.
fn nothing_in(path: &Path, unknown: &[PathBuf]) -> anyhow::Result<String> {
    let mut below = Vec::new();
    for directory in entries(path)?.into_iter().filter(|entry| entry.is_dir()) {
        if below.len() < SHOWN
            && (directory.join(RUN_FILE).is_file()
                || entries(&directory)
                    .unwrap_or_default()
                    .iter()
                    .any(|file| file.is_file() && tool(file).is_ok_and(|tool| tool.is_some())))
        {
            below.push(directory);
        }
    }
    let shown = path.display();
    Ok(if !below.is_empty() {
        let typed: Vec<String> = below
            .iter()
            .map(|path| shell::word(&path.display().to_string()))
            .collect();
        let hosts: BTreeSet<String> = below
            .iter()
            .filter_map(|run| Reader::open(run).ok()?.record.on)
            .collect();
        let fleet = match hosts.len() {
            0 | 1 => String::new(),
            _ => format!(
                ", or for one answer of all hosts: fsb fleet compare {}",
                shell::word(&shown.to_string())
            ),
        };
        format!(
            "{shown} holds no results itself, but its directories do: fsb compare {}{fleet}",
            typed.join(" ")
        )
    } else if unknown.is_empty() {
        format!("{shown} holds no files: name files of results or the directory of a run")
    } else {
        format!(
            "{shown} holds no run.json, and no reader knows {}; 'fsb list tools' shows the output that each reads",
            list_files(unknown)
        )
    })
}

fn several_tools(path: &Path, tools: &[(&Tool, Vec<PathBuf>)]) -> String {
    let lists: Vec<String> = tools
        .iter()
        .map(|(tool, files)| format!("{} ({})", tool.name, list_files(files)))
        .collect();
    let named: Vec<String> = tools
        .iter()
        .map(|(tool, files)| shell::word(&format!("{}={}", tool.name, files[0].display())))
        .collect();
    format!(
        "{} holds the results of several tools: {}. Name the files of each set, separated by commas or as a quoted \
         pattern: fsb compare {}",
        path.display(),
        lists.join(", "),
        named.join(" ")
    )
}

/// Returns `a.txt, b.txt and 3 more`.
pub(super) fn list_files(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .take(SHOWN)
        .map(|path| {
            path.file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    match files.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

// Names of sets: the given ones, and for the others the shortest unique end of their path.

/// A set that needs a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Possible names, the best first; only one if the user gave it.
    pub(super) names: Vec<String>,
    /// The argument that it came from, for messages.
    pub(super) argument: String,
}

impl Wish {
    /// Returns the wish for a given name.
    pub(super) fn given(name: String, argument: String) -> Wish {
        Wish {
            names: vec![name],
            argument,
        }
    }

    /// Returns the ends of a path: `xfs`, else `old/xfs`, else `2010/old/xfs`.
    pub(super) fn derived(path: &Path, argument: String) -> Wish {
        let parts: Vec<String> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect();

        // The root directory has only one name.
        let names = match parts.len() {
            0 => vec![path.display().to_string()],
            all => (0..all)
                .rev()
                .map(|first| parts[first..].join("/"))
                .collect(),
        };
        Wish { names, argument }
    }

    /// Returns the names of a target of a run directory: `ext4`, else `new/ext4`, else
    /// `results/new/ext4`.
    pub(super) fn target(directory: &Path, target: &str, argument: String) -> Wish {
        let mut wish = Wish::derived(directory, argument);
        wish.names
            .iter_mut()
            .for_each(|name| *name = format!("{name}/{target}"));
        wish.names.insert(0, target.to_owned());
        wish
    }
}

/// Chooses the names. Two sets with the same name take longer ones, if they have any.
pub(super) fn settle_names(wishes: &[Wish]) -> anyhow::Result<Vec<String>> {
    let mut length = vec![0; wishes.len()];
    loop {
        let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (set, wish) in wishes.iter().enumerate() {
            holders
                .entry(&wish.names[length[set]])
                .or_default()
                .push(set);
        }
        let Some(rivals) = holders.values().find(|rivals| rivals.len() > 1) else {
            return Ok(wishes
                .iter()
                .zip(&length)
                .map(|(wish, length)| wish.names[*length].clone())
                .collect());
        };
        let movable: Vec<usize> = rivals
            .iter()
            .copied()
            .filter(|set| length[*set] + 1 < wishes[*set].names.len())
            .collect();
        if movable.is_empty() {
            return Err(failure::error(
                &code::INVALID_SET,
                named_twice(&wishes[rivals[0]], &wishes[rivals[1]]),
            ));
        }
        movable.into_iter().for_each(|set| length[set] += 1);
    }
}

fn named_twice(one: &Wish, other: &Wish) -> String {
    if one.argument == other.argument {
        return format!("'{}' is given twice: give it once", one.argument);
    }
    format!(
        "two sets are named '{}' ({} and {}): give each a name of its own (NAME=PATH), or make them one set, with \
         its paths separated by commas (NAME=PATH,PATH)",
        one.names[0], one.argument, other.argument
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Argument {
        Argument::parse(OsStr::new(text)).unwrap()
    }

    fn paths(text: &str) -> Vec<String> {
        parse(text)
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn a_name_ends_at_the_first_equals_sign_and_a_comma_separates_paths() {
        assert_eq!(parse("xfs=a.iozone,b.iozone").name.as_deref(), Some("xfs"));
        assert_eq!(paths("xfs=a.iozone,b.iozone"), ["a.iozone", "b.iozone"]);
        assert_eq!(paths("xfs=a=b"), ["a=b"]);
        assert_eq!(
            parse("new kernel=dir/*.iozone").name.as_deref(),
            Some("new kernel")
        );
        assert_eq!(
            (parse("a.iozone").name, paths("a.iozone")),
            (None, vec!["a.iozone".to_owned()])
        );
        for text in ["=a", " =a", "x=", "x=a,,b", ",a", "", "a\tb=c"] {
            assert!(Argument::parse(OsStr::new(text)).is_err(), "'{text}'");
        }
    }

    #[test]
    fn slashes_and_wildcards_before_the_equals_sign_make_a_path() {
        for text in ["./xfs=1", "/data/xfs=1", "*=1.iozone"] {
            assert_eq!(
                (parse(text).name, paths(text)),
                (None, vec![text.to_owned()])
            );
        }
    }

    #[test]
    fn an_existing_path_is_not_split() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", directory.path().display());
        for name in ["ext4,noatime", "plain"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let both = format!("new={},{}", at("ext4,noatime"), at("plain"));
        assert_eq!(paths(&at("ext4,noatime")), [at("ext4,noatime")]);
        assert_eq!(paths(&both), [at("ext4,noatime"), at("plain")]);
        assert_eq!(parse(&both).name.as_deref(), Some("new"));
    }

    #[test]
    fn bytes_that_are_no_text_stay_in_the_path() {
        let argument = Argument::parse(OsStr::from_bytes(b"x=dir/\xff.iozone")).unwrap();
        assert_eq!(
            argument.paths,
            [PathBuf::from(OsStr::from_bytes(b"dir/\xff.iozone"))]
        );
    }

    fn derived(path: &str) -> Wish {
        Wish::derived(Path::new(path), path.to_owned())
    }

    #[test]
    fn the_shortest_end_that_is_unique_is_the_name() {
        let wishes = [
            derived("a/x/ext4"),
            derived("b/x/ext4"),
            derived("/c/xfs"),
            derived("ext4"),
        ];
        assert_eq!(
            settle_names(&wishes).unwrap(),
            ["a/x/ext4", "b/x/ext4", "xfs", "ext4"]
        );
        assert_eq!(
            settle_names(&[derived("a/x"), derived("b/x")]).unwrap(),
            ["a/x", "b/x"]
        );
        assert_eq!(settle_names(&[derived("/")]).unwrap(), ["/"]);
        let target = |run: &str| Wish::target(Path::new(run), "ext4", run.to_owned());
        assert_eq!(
            settle_names(&[target("old"), target("new"), derived("xfs")]).unwrap(),
            ["old/ext4", "new/ext4", "xfs"]
        );
        assert_eq!(settle_names(&[target("old")]).unwrap(), ["ext4"]);
    }

    #[test]
    fn a_given_name_stays_and_the_derived_one_gives_way() {
        let given = Wish::given("ext4".to_owned(), "ext4=a".to_owned());
        assert_eq!(
            settle_names(&[given.clone(), derived("b/ext4")]).unwrap(),
            ["ext4", "b/ext4"]
        );
        let other = Wish::given("ext4".to_owned(), "ext4=b".to_owned());
        let error = settle_names(&[given, other]).unwrap_err().to_string();
        assert!(error.contains("two sets are named 'ext4'"), "{error}");
        let error = settle_names(&[derived("a/x"), derived("a/x")])
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("is given twice: give it once"), "{error}");
    }
}
