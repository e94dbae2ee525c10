//! Parses arguments: `[NAME=]PATH[,PATH…]`.
//!
//! File names may contain `=` and commas. If a file has the whole text as its name, the argument is that file.
//! Otherwise NAME ends at the first `=` that has no slash or wildcard before it, and a comma separates paths, unless
//! only the text around it is the name of a file. Write `./` before a path that looks like a name. `~/` is the home
//! directory, because a shell does not expand it inside the quotes that a pattern needs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{code, exit};

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
    /// Parses an argument; reads only which files exist.
    pub(super) fn parse(text: &OsStr) -> anyhow::Result<Argument> {
        let (name, rest) = split_name(text)?;
        let paths = split_paths(rest)
            .map_err(|why| exit::failure(&code::INVALID_SET, format!("'{}': {why}", text.display())))?;
        Ok(Argument { text: text.to_owned(), name, paths })
    }

    /// Returns whether it is one plain file without a name, as a shell expands an unquoted glob.
    pub(super) fn is_bare_file(&self) -> bool {
        self.name.is_none() && matches!(self.paths.as_slice(), [path] if path.is_file())
    }
}

/// Returns whether the text has a character that is special in a glob.
pub(super) fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

fn exists(text: &OsStr) -> bool {
    Path::new(text).symlink_metadata().is_ok()
}

fn split_name(text: &OsStr) -> anyhow::Result<(Option<String>, &OsStr)> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else { return Ok((None, text)) };
    let (name, rest) = (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
    let is_path = name.as_bytes().contains(&b'/') || is_glob(Path::new(name));
    if is_path || (exists(text) && !exists(rest)) {
        return Ok((None, text));
    }
    // Control characters would break tables.
    let name = name.to_string_lossy();
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        let what = "the name before '=' is empty or cannot be printed";
        return Err(exit::failure(&code::INVALID_SET, format!("'{}': {what}: write NAME=PATH", text.display())));
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
        paths.push(at_home(PathBuf::from(OsStr::from_bytes(&parts[first..end].join(&b',')))));
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

/// Returns the end of the shortest run of parts that is an existing path; if none is, of a single part, so that its
/// error is reported.
fn end_of_path(parts: &[&[u8]], first: usize) -> usize {
    let is_there = |end: &usize| exists(OsStr::from_bytes(&parts[first..*end].join(&b',')));
    if is_glob(Path::new(OsStr::from_bytes(parts[first]))) {
        return first + 1;
    }
    (first + 1..=parts.len()).find(is_there).unwrap_or(first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Argument {
        Argument::parse(OsStr::new(text)).unwrap()
    }

    fn paths(text: &str) -> Vec<String> {
        parse(text).paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_name_ends_at_the_first_equals_sign_and_a_comma_separates_paths() {
        assert_eq!(parse("xfs=a.iozone,b.iozone").name.as_deref(), Some("xfs"));
        assert_eq!(paths("xfs=a.iozone,b.iozone"), ["a.iozone", "b.iozone"]);
        assert_eq!(paths("xfs=a=b"), ["a=b"]);
        assert_eq!(parse("new kernel=dir/*.iozone").name.as_deref(), Some("new kernel"));
        assert_eq!((parse("a.iozone").name, paths("a.iozone")), (None, vec!["a.iozone".to_owned()]));
        for text in ["=a", " =a", "x=", "x=a,,b", ",a", "", "a\tb=c"] {
            assert!(Argument::parse(OsStr::new(text)).is_err(), "'{text}'");
        }
    }

    #[test]
    fn slashes_and_wildcards_before_the_equals_sign_make_a_path() {
        for text in ["./xfs=1", "/data/xfs=1", "*=1.iozone"] {
            assert_eq!((parse(text).name, paths(text)), (None, vec![text.to_owned()]));
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
        assert_eq!(argument.paths, [PathBuf::from(OsStr::from_bytes(b"dir/\xff.iozone"))]);
    }
}
