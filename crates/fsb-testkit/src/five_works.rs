//! The requirements of the five works that FSBench began with, and the results of the commands that
//! show them.
//!
//! `docs/five-works` has a file for each work, one of commands that several rows share, and the
//! results of the last execution. A machine test of `fsb` executes the commands, and `cargo xtask
//! generate` writes the page from both.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The names of the files of the works, in the order of the page.
pub const WORKS: [&str; 5] = ["benas", "dordevic", "fedorchuk", "horvath", "pokorny"];

/// One published work.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The heading of its section.
    pub title: String,
    /// The text between the heading and the table.
    pub text: String,
    /// Its requirements, in the order of the work.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// One requirement of a work.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The requirement.
    pub requirement: String,
    /// Its sections, figures or tables.
    pub place: String,
    /// The command, option or setting of `fsb` that meets it, as Markdown.
    pub with: String,
    /// Whether `fsb` does it.
    pub state: State,
    /// The missing part, the reason, or a test that proves the state.
    #[serde(default)]
    pub note: String,
    /// A script that does the same on a small scale, or `@` and the name of a shared one.
    #[serde(rename = "try", default)]
    pub script: String,
    /// A regular expression that the output of the script must match.
    #[serde(default)]
    pub expect: String,
    /// The requirements of the script: `kernel` for a guest, or names of programs.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The reason why no script executes a row that works.
    #[serde(default)]
    pub untried: String,
    /// Whether the script only lists or plans the work of the row.
    #[serde(default)]
    pub planned: bool,
}

/// Whether `fsb` meets a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Works,
    /// It does a part.
    Partly,
    /// It does not.
    No,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Works => "works",
            State::Partly => "partly",
            State::No => "no",
        })
    }
}

impl Row {
    /// Returns the first cell of the row, which identifies it within its work.
    pub fn key(&self) -> String {
        format!("{} ({})", self.requirement, self.place)
    }

    /// Returns the CRC-32 of the script and the expectation, in hexadecimal.
    pub fn checksum(&self) -> String {
        let text = format!("{}\0{}", self.script, self.expect);
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }

    /// Returns whether the results lack this script with this expectation.
    pub fn is_due(&self, results: &Results) -> bool {
        let last = results.rows.get(&self.key());
        last.is_none_or(|last| last.checksum != self.checksum())
    }
}

/// The results of the rows of one work, by the first cell of the row.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results {
    /// The last execution of each row.
    pub rows: BTreeMap<String, Execution>,
}

/// The last execution of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// [`DONE`], or why not.
    pub result: String,
    /// The day.
    pub date: String,
    /// The output of `fsb --version` and the release of the kernel.
    pub with: String,
    /// The [`Row::checksum`] of the executed row.
    pub checksum: String,
}

/// The result of a row whose script succeeded and printed what the row expects.
pub const DONE: &str = "done";
/// The beginning of the result of a row that could not be executed on the machine.
pub const LEFT_OUT: &str = "left out: ";

/// Returns the directory of the files.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/five-works")
}

/// Returns the file of the results of a work.
pub fn results_path(work: &str) -> PathBuf {
    directory().join(format!("{work}.results.toml"))
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{name}: {error}"))
}

/// Returns a work with the scripts of its rows.
///
/// # Errors
/// Fails if a file cannot be read, two rows are the same, a row names an unknown script, or a row
/// has neither a script nor a reason why it has none.
pub fn work(name: &str) -> Result<Work, String> {
    let mut work: Work = read(&directory().join(format!("{name}.toml")))?;
    let shared: BTreeMap<String, String> = read(&directory().join("scripts.toml"))?;
    let mut keys = BTreeMap::new();
    for row in &mut work.rows {
        if let Some(of) = row.script.strip_prefix('@') {
            row.script = shared
                .get(of)
                .ok_or(format!("{name}: {}: no script is called {of}", row.key()))?
                .clone();
        }
        let explained = row.state == State::No || !row.untried.is_empty();
        if row.script.is_empty() != explained {
            let key = row.key();
            return Err(format!("{name}: {key}: needs either `try` or `untried`"));
        }
        if keys.insert(row.key(), ()).is_some() {
            return Err(format!("{name}: {} occurs twice", row.key()));
        }
    }
    Ok(work)
}

/// Returns the stored results of a work.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_results(name: &str) -> Result<Results, String> {
    read(&results_path(name))
}

/// Returns the results of the rows of a work, which fit them.
///
/// # Errors
/// Fails if the file cannot be read, or a result belongs to no row. Fails if a row with a script
/// has no result, or its script or expectation changed since. Fails if a row whose script failed
/// works by its state.
pub fn results(name: &str, work: &Work) -> Result<Results, String> {
    let results = read_results(name)?;
    let mut executed = 0;
    for row in &work.rows {
        let last = results.rows.get(&row.key());
        executed += usize::from(last.is_some());
        if row.script.is_empty() {
            continue;
        }
        let key = row.key();
        let last = last.filter(|_| !row.is_due(&results)).ok_or(format!(
            "{name}: {key}: the script has no result: run scripts/five-works --due {name}"
        ))?;
        let result = &last.result;
        if row.state == State::Works && result != DONE && !result.starts_with(LEFT_OUT) {
            return Err(format!("{name}: {key}: works, but {result}"));
        }
    }
    if executed != results.rows.len() {
        return Err(format!("{name}: results of rows that do not exist"));
    }
    Ok(results)
}
