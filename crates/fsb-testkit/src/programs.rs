//! Recordings of real programs: definitions, traces, and the counts of their file calls.
//!
//! `testdata/programs` has for each program a definition `NAME.toml`, one trace of the larger size
//! of each mode, and `NAME.counts.json` with the counts of the smaller sizes. `cargo xtask
//! programs` writes the latter two, `cargo xtask generate` the page from all, and a machine test of
//! `fsb` repeats the recordings.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A program that is recorded.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The name of its definition, without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// The heading of its section.
    pub title: String,
    /// The package, with its source if that is not Debian.
    pub package: String,
    /// The version that was recorded.
    pub version: String,
    /// A shell script that prints the installed version.
    pub print_version: String,
    /// A shell script that runs before each recording, unless a mode has its own.
    #[serde(default)]
    pub setup: String,
    /// The recorded shell script, unless a mode has its own.
    #[serde(default)]
    pub run: String,
    /// Facts that the table does not show, as Markdown. `{MODE.KEY}` is a count per unit.
    #[serde(default)]
    pub surprises: Vec<String>,
    /// The modes, in the order of the table.
    #[serde(rename = "mode")]
    pub modes: Vec<Mode>,
}

/// One way to use a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// The end of the name of its trace: lower case, with hyphens.
    pub name: String,
    /// The first cell of its row, as Markdown.
    pub title: String,
    /// The unit of work: transaction, package, commit, file.
    pub unit: String,
    /// Two numbers of units, the smaller one first. Scripts find theirs in `$N`.
    pub sizes: [u64; 2],
    /// A script instead of [`Program::setup`].
    pub setup: Option<String>,
    /// A script instead of [`Program::run`].
    pub run: Option<String>,
    /// Variables of both scripts.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Activity that the trace lacks without saying so, as Markdown.
    #[serde(default)]
    pub unseen: String,
    /// Counts per unit that differ between recordings; the test does not compare them.
    #[serde(default)]
    pub varies: Vec<String>,
}

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    /// Its name in counts and placeholders.
    pub key: &'static str,
    /// The heading.
    pub heading: &'static str,
    /// Whether the machine test compares it.
    pub is_tested: bool,
}

const fn column(key: &'static str, heading: &'static str, is_tested: bool) -> Column {
    Column {
        key,
        heading,
        is_tested,
    }
}

/// All columns of the table.
pub const COLUMNS: &[Column] = &[
    column("fsync", "fsync", true),
    column("fdatasync", "fdatasync", true),
    column("syncfs", "syncfs", true),
    column("sync_file_range", "sync_file_range", true),
    column("msync", "msync", true),
    column("durable", "durable writes", true),
    column("other", "other calls", false),
    column("bytes", "bytes written", false),
    column("created", "files created", false),
    column("renames", "renames", false),
    column("unlinks", "unlinks", false),
];

/// Counts of a recording, by the keys of [`COLUMNS`].
pub type Counts = BTreeMap<String, u64>;

/// The facts about the recordings of a program that its traces lack.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The version of the program.
    pub version: String,
    /// The day.
    pub date: String,
    /// The release of the kernel, without the part that names its builder.
    pub kernel: String,
    /// The type of the file system that the program worked on.
    pub file_system: String,
    /// The counts of the smaller size of each mode.
    pub smaller: BTreeMap<String, Counts>,
}

/// The two parts of the counts of a mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Calls (or bytes) per unit.
    pub per_unit: f64,
    /// Those that do not depend on the number of units.
    pub once: f64,
}

impl Program {
    /// Returns the names of all programs, sorted.
    ///
    /// # Panics
    /// Panics if the directory cannot be read.
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(directory()).expect("the definitions");
        let mut names = Vec::new();
        for entry in entries {
            let file = entry.expect("a definition").file_name();
            let name = file.to_str().and_then(|name| name.strip_suffix(".toml"));
            names.extend(name.map(str::to_owned));
        }
        names.sort();
        names
    }

    /// Reads a definition.
    ///
    /// # Errors
    /// Fails if there is none of that name, or if it is not valid.
    pub fn read(name: &str) -> Result<Program, String> {
        let path = directory().join(name).with_extension("toml");
        let shown = path.display();
        let text =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let mut program: Program =
            toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        program.name = name.to_owned();
        Ok(program)
    }

    /// Reads the facts about its recordings.
    ///
    /// # Errors
    /// Fails if it was not recorded.
    pub fn recorded(&self) -> Result<Recorded, String> {
        let path = self.counts_file();
        let shown = path.display();
        let text = fs::read(&path).map_err(|error| {
            let name = &self.name;
            format!(
                "cannot read {shown}: {error}; record it by 'cargo xtask programs --record {name}'"
            )
        })?;
        serde_json::from_slice(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// Returns the file of [`Recorded`].
    pub fn counts_file(&self) -> PathBuf {
        directory().join(format!("{}.counts.json", self.name))
    }

    /// Returns the trace of a mode.
    pub fn trace(&self, mode: &Mode) -> PathBuf {
        directory().join(format!("{}-{}.trace", self.name, mode.name))
    }

    /// Checks that the version of the definition is installed.
    ///
    /// # Errors
    /// Names the missing package, or both versions.
    pub fn check_version(&self) -> Result<(), String> {
        let (package, wanted) = (&self.package, &self.version);
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = plain(Path::new("sh"), home.path())
            .args(["-c", &self.print_version])
            .output()
            .map_err(|error| format!("cannot start sh: {error}"))?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || found.is_empty() {
            return Err(format!("needs {package} {wanted}, which is not installed"));
        }
        if found != *wanted {
            return Err(format!(
                "needs {package} {wanted}, and {found} is installed"
            ));
        }
        Ok(())
    }

    /// Sets up a mode in an empty directory, and records it with `units` units of work in the trace
    /// `into`. `fsb` is the recorder.
    ///
    /// # Errors
    /// Fails with the output of the script or of the recorder.
    pub fn record(&self, mode: &Mode, units: u64, fsb: &Path, into: &Path) -> Result<(), String> {
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        make_directories(scratch.path()).map_err(|error| error.to_string())?;
        let what = format!("{} {}, {units} × {}", self.name, mode.name, mode.unit);
        let setup = mode.setup.as_ref().unwrap_or(&self.setup);
        let mut shell = neutral(Path::new("sh"), scratch.path(), units, mode);
        succeeded(
            &format!("the setup of {what}"),
            &shell.args(["-euc", setup]).output(),
        )?;
        let run = mode.run.as_ref().unwrap_or(&self.run);
        let mut recorder = neutral(fsb, scratch.path(), units, mode);
        recorder.args(["record", "--overwrite", "-o"]).arg(into);
        recorder.args(["--", "sh", "-euc", run]);
        succeeded(&format!("the recording of {what}"), &recorder.output())
    }
}

impl Mode {
    /// Divides the counts of both sizes, the smaller one first.
    pub fn share(&self, counts: [&Counts; 2], key: &str) -> Share {
        let [small, large] = self.sizes;
        let [fewer, more] = counts.map(|counts| counts.get(key).copied().unwrap_or_default());
        let per_unit = (more as f64 - fewer as f64) / (large - small) as f64;
        Share {
            per_unit,
            once: fewer as f64 - per_unit * small as f64,
        }
    }
}

/// Returns the counts of the summary of a trace, the JSON document of `fsb trace show`.
pub fn counts(summary: &Value) -> Counts {
    let [fsync, fdatasync, syncfs] =
        ["fsync", "fdatasync", "syncfs"].map(|kind| calls(summary, kind));
    // The syncs that wait: without sync_file_range, and without msync of MS_ASYNC.
    let mut msync = number(summary, "/syncs/calls");
    for kind in ["fsync", "fdatasync", "syncfs"] {
        msync -= number(summary, &format!("/kinds/{kind}/calls"));
    }
    let range = calls(summary, "sync_file_range");
    let durable = number(summary, "/durable_writes/calls");
    let counted = fsync + fdatasync + syncfs + msync + range + durable;
    let mut bytes = 0;
    for kind in ["write", "pwrite", "copy_file_range", "sendfile"] {
        bytes += number(summary, &format!("/kinds/{kind}/bytes"));
    }
    let pairs = [
        ("fsync", fsync),
        ("fdatasync", fdatasync),
        ("syncfs", syncfs),
        ("sync_file_range", range),
        ("msync", msync),
        ("durable", durable),
        ("other", number(summary, "/calls") - counted),
        ("bytes", bytes),
        ("created", number(summary, "/files/created")),
        ("renames", calls(summary, "rename")),
        ("unlinks", calls(summary, "unlink")),
    ];
    pairs.map(|(key, count)| (key.to_owned(), count)).into()
}

/// Returns the successful calls of a kind.
fn calls(summary: &Value, kind: &str) -> u64 {
    let failed = number(summary, &format!("/kinds/{kind}/failed"));
    number(summary, &format!("/kinds/{kind}/calls")) - failed
}

/// Returns the number at a path; 0 if there is none.
fn number(summary: &Value, path: &str) -> u64 {
    summary.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the directory of the definitions.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/programs")
}

/// Creates the working directory of a recording and the home directory. Servers that do not run as
/// root work there, too.
fn make_directories(scratch: &Path) -> io::Result<()> {
    fs::set_permissions(scratch, Permissions::from_mode(0o755))?;
    for below in ["work", "home"] {
        let path = scratch.join(below);
        fs::create_dir(&path)?;
        fs::set_permissions(path, Permissions::from_mode(0o777))?;
    }
    Ok(())
}

/// Returns a command of a recording, in its directory and with the variables of the mode.
fn neutral(program: &Path, scratch: &Path, units: u64, mode: &Mode) -> Command {
    let mut command = plain(program, &scratch.join("home"));
    command
        .current_dir(scratch.join("work"))
        .env("N", units.to_string())
        .envs(&mode.env);
    command
}

/// Returns a command with the same environment on all machines, except for PATH: without settings
/// such as those of rustup.
fn plain(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("USER", "user")
        .env("LOGNAME", "user")
        .env("HOSTNAME", "host")
        .env("HOME", home);
    command
}

fn succeeded(what: &str, output: &io::Result<Output>) -> Result<(), String> {
    match output {
        Err(error) => Err(format!("{what} did not start: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{what} failed: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_of_two_sizes_divide_into_units_and_the_rest() {
        let mode = "name = 'wal'\ntitle = 'WAL'\nunit = 'transaction'\nsizes = [2, 12]";
        let mode: Mode = toml::from_str(mode).unwrap();
        let [fewer, more] = [7, 27].map(|syncs| Counts::from([("fdatasync".to_owned(), syncs)]));
        let share = mode.share([&fewer, &more], "fdatasync");
        assert_eq!((share.per_unit, share.once), (2.0, 3.0));
    }

    #[test]
    fn msync_that_does_not_wait_counts_as_another_call() {
        let summary = json!({
            "calls": 20,
            "kinds": {
                "fsync": { "calls": 1 },
                "fdatasync": { "calls": 2 },
                "msync": { "calls": 3 },
                "sync_file_range": { "calls": 4 },
                "pwrite": { "calls": 5, "bytes": 50 },
                "unlink": { "calls": 3, "failed": 2 },
            },
            "syncs": { "calls": 5 },
            "durable_writes": { "calls": 1 },
            "files": { "created": 6 },
        });
        let counts = counts(&summary);
        let tested = ["fsync", "fdatasync", "msync", "sync_file_range", "durable"];
        assert_eq!(tested.map(|key| counts[key]), [1, 2, 2, 4, 1]);
        let others = ["other", "bytes", "created", "unlinks"];
        assert_eq!(others.map(|key| counts[key]), [10, 50, 6, 1]);
        assert_eq!(counts.len(), COLUMNS.len());
    }

    #[test]
    fn modes_have_names_of_files_and_two_sizes() {
        for name in Program::names() {
            let program = Program::read(&name).unwrap();
            for mode in &program.modes {
                let name = format!("{name}-{}", mode.name);
                assert_eq!(name, name.to_lowercase());
                assert!(!name.contains([' ', '/', '_', '.']), "{name}");
                assert!(mode.sizes[0] < mode.sizes[1], "{name}");
            }
        }
    }
}
