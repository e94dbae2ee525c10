//! The commands of `docs/five-works`, on a small scale. Some of them switch the host's swap off.
//!
//! `make test-machine` executes every fifth script of each work, in the order of their texts.
//! `scripts/five-works` sets `FSB_FIVE_WORKS` to a text. Then the tests execute all scripts that
//! contain it and store their results, from which `cargo xtask generate` writes the page. With the
//! text `--due` they execute the rows whose script or expectation changed.

#![expect(
    clippy::print_stdout,
    reason = "who executes the commands reads their results"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsb_testkit::five_works::{self as works, DONE, Execution, LEFT_OUT, Results, Row, Work};
use fsb_testkit::{in_ci, programs};
use regex::Regex;

use crate::common::{FSB, lay_results, scratch};
use crate::independent::vm;

/// The time limit of one script, in seconds.
const LIMIT: &str = "900";

/// The value of `FSB_FIVE_WORKS` for the rows that changed.
const DUE: &str = "--due";

/// Gives a script a run lock and an undo ledger of its own, as `scripts/test-runner` does: scripts
/// of two works run at once.
const APART: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/lock /var/lib/fsb &&
    chmod 1777 /run/lock && mount -t tmpfs tmpfs /var/lib/fsb && exec \"$@\"";

/// The beginning of each script. `small` measures one block with short samples, and `text` prints
/// the lines of a page that are more than a word or a number, each once.
const PREAMBLE: &str = r#"
set -euo pipefail
small() { fsb run small.toml --allow-concurrent "$@"; }
text() { sed 's/<[^>]*>/\n/g' "$@" | grep -vE '^[-+0-9.,]* ?[%A-Za-z/]*$' | cut -c1-300 | sort -u; }
cat >small.toml <<END
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "1ms"
END
"#;

macro_rules! executed {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            needs!(root);
            execute(stringify!($name));
        })*
    };
}

executed!(benas, dordevic, fedorchuk, horvath, pokorny);

/// Executes the rows of a work. Fails if a script failed, or its output is not the expected one.
fn execute(name: &str) {
    let work = works::work(name).unwrap_or_else(|error| panic!("{error}"));
    let stored = std::env::var("FSB_FIVE_WORKS").ok();
    let last = works::read_results(name).unwrap_or_default();
    let mut rows: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in work.rows.iter().filter(|row| !row.script.is_empty()) {
        let is_chosen = match stored.as_deref() {
            Some(DUE) => row.is_due(&last),
            Some(text) => row.script.contains(text),
            None => true,
        };
        if is_chosen {
            rows.entry(&row.script).or_default().push(row);
        }
    }
    let place = Place::new();
    let step = if stored.is_some() { 1 } else { 5 };
    let mut results = Vec::new();
    let mut failures = String::new();
    for (script, rows) in rows.into_iter().step_by(step) {
        let output = match required(&rows) {
            Ok(kernel) => Ok(place.output(script, &kernel)),
            Err(missing) => Err(format!("{LEFT_OUT}needs {missing}")),
        };
        for row in rows {
            let result = match &output {
                Ok(output) => result(row, output, &mut failures),
                Err(left_out) => left_out.clone(),
            };
            println!("{}: {result}", row.key());
            if in_ci() && result.starts_with(LEFT_OUT) {
                let _ = writeln!(failures, "{}: {result}", row.key());
            }
            results.push((row, result));
        }
    }
    if stored.is_some() {
        write(name, &work, last, results);
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Returns the kernel of the guests of one script, if it boots one. The error names a missing
/// requirement of its rows.
fn required(rows: &[&Row]) -> Result<String, String> {
    let mut kernel = String::new();
    for need in rows.iter().flat_map(|row| &row.needs) {
        if need == "kernel" {
            kernel = vm::kernel()?;
        } else {
            programs(&[need])?;
        }
    }
    Ok(kernel)
}

/// Returns the result of a row whose script ended with that code and output.
fn result(row: &Row, (code, output): &(Option<i32>, String), failures: &mut String) -> String {
    let expected = Regex::new(&format!("(?m){}", row.expect)).expect("a regular expression");
    let result = match code {
        Some(0) if expected.is_match(output) => return DONE.to_owned(),
        Some(0) => "the output lacks what the row expects".to_owned(),
        Some(124) => "the time was not enough".to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "killed by a signal".to_owned(),
    };
    let (key, script) = (row.key(), &row.script);
    let _ = writeln!(
        failures,
        "== {key}: {result}\nexpected: {}\n{script}\n{output}",
        row.expect
    );
    result
}

/// Directories of scripts, with results of other programs and the program in the search path.
struct Place {
    results: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            results: lay_results(),
            programs: scratch(),
        };
        std::os::unix::fs::symlink(FSB, place.programs.path().join("fsb")).expect("a link");
        place
    }

    /// Runs a script in a directory of its own. Returns the exit code and the output.
    fn output(&self, script: &str, kernel: &str) -> (Option<i32>, String) {
        let directory = scratch();
        // Workers of other users read traces and inputs.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its own");
        copy(self.results.path(), directory.path());
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("timeout")
            .args([
                "--kill-after=30",
                LIMIT,
                "unshare",
                "--mount",
                "--pid",
                "--fork",
            ])
            .args(["--propagation", "private", "--mount-proc", "--kill-child"])
            .args(["sh", "-c", APART, "apart", "bash", "-c"])
            .arg(format!("{PREAMBLE}\n{{ {script}\n}} 2>&1"))
            .current_dir(directory.path())
            .env("PATH", format!("{}:{path}", self.programs.path().display()))
            .env("XDG_CACHE_HOME", vm::cache())
            .env("XDG_STATE_HOME", directory.path())
            .env("KERNEL", kernel)
            .env("FSB_KEEP_AFFECTED", "1")
            .env("COLUMNS", "500")
            .env(
                "SOURCE",
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
            )
            .output()
            .expect("timeout runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    }
}

/// Copies a directory tree of files.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (source, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            fs::create_dir(&target).expect("a directory");
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).expect("a file");
        }
    }
}

/// Writes the results of a work. Those of rows that were not executed stay.
fn write(name: &str, work: &Work, mut stored: Results, executed: Vec<(&Row, String)>) {
    let printed = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let output = output.expect("the program runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let (version, release) = (printed(FSB, &["--version"]), printed("uname", &["-r"]));
    let version = version.lines().next().unwrap_or_default();
    let release = release.split('-').next().unwrap_or_default();
    let date = printed("date", &["+%F"]);
    for (row, result) in executed {
        let execution = Execution {
            result,
            date: date.clone(),
            with: format!("{version} on Linux {release}"),
            checksum: row.checksum(),
        };
        stored.rows.insert(row.key(), execution);
    }
    let is_row = |key: &String| work.rows.iter().any(|row| row.key() == *key);
    stored.rows.retain(|key, _| is_row(key));
    let text = toml::to_string(&stored).expect("results are TOML");
    fs::write(works::results_path(name), text).expect("the results are written");
}
