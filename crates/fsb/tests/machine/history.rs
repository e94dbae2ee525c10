//! The history in a database of PostgreSQL, whose server the tests start as an ordinary user.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::history::{Series, expect_writers_to_lose_nothing};
use crate::common::*;

const NOBODY: u32 = 65534;

/// Returns the directory of the newest server's programs.
fn programs() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| "postgresql".to_owned())?;
    let directories = versions.flatten().map(|version| version.path().join("bin"));
    let found = directories
        .filter(|directory| directory.join("initdb").exists())
        .max();
    found.ok_or_else(|| "postgresql".to_owned())
}

/// A server of PostgreSQL on a Unix socket. It ends with the value.
struct Server {
    programs: PathBuf,
    directory: TempDir,
}

impl Server {
    fn start(programs: PathBuf) -> Server {
        let directory = scratch();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let server = Server {
            programs,
            directory,
        };
        server.run(
            "initdb",
            &words("--pgdata data --auth trust --username fsb --no-sync"),
        );
        server.start_again();
        server
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, program: &str) -> Command {
        let ids = [
            format!("--reuid={NOBODY}"),
            format!("--regid={NOBODY}"),
            "--clear-groups".to_owned(),
        ];
        let mut command = Command::new("setpriv");
        command
            .args(ids)
            .arg("--")
            .arg(self.programs.join(program))
            .current_dir(self.path());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = || fs::read_to_string(self.path().join("output")).unwrap();
        assert!(self.succeeds(program, arguments), "{program}: {}", output());
    }

    fn succeeds(&self, program: &str, arguments: &[&str]) -> bool {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path().join("output"))
            .unwrap();
        let mut command = self.command(program);
        command
            .args(arguments)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status()
            .unwrap()
            .success()
    }

    fn start_again(&self) {
        let options = format!("-k {} -c listen_addresses=''", self.path().display());
        let start = [
            "start",
            "--pgdata",
            "data",
            "--wait",
            "--log",
            "log",
            "--options",
            &options,
        ];
        // Processes of a killed server hold its shared memory until they have noticed.
        let started = (0..100).any(|_| self.succeeds("pg_ctl", &start));
        assert!(
            started,
            "{}",
            fs::read_to_string(self.path().join("log")).unwrap()
        );
    }

    /// Returns the URL of an empty database.
    fn database(&self, name: &str) -> String {
        self.execute("postgres", &format!("CREATE DATABASE {name}"));
        self.url(name)
    }

    fn url(&self, name: &str) -> String {
        format!(
            "postgresql:///{name}?host={}&user=fsb&password=secret",
            self.path().display()
        )
    }

    fn execute(&self, database: &str, statement: &str) {
        let host = self.path().to_str().unwrap();
        self.run(
            "psql",
            &[
                "--quiet",
                "--host",
                host,
                "--username",
                "fsb",
                "--dbname",
                database,
                "--command",
                statement,
            ],
        );
    }

    fn kill(&self) {
        let text = fs::read_to_string(self.path().join("data/postmaster.pid")).unwrap();
        let pid: i32 = text.lines().next().unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self
            .command("pg_ctl")
            .args(["stop", "--pgdata", "data", "--mode", "immediate", "--wait"])
            .output();
    }
}

/// Returns the answers of all commands that read.
fn answers(series: &Series) -> Vec<String> {
    let diff = [0, 13].map(|number| series.run(number).display().to_string());
    let mut answers = vec![series.history(&["diff", &diff[0], &diff[1]])];
    let commands: [&[&str]; 5] = [
        &["list"],
        &["changes"],
        &["changes", "--across", "kernel"],
        &["export"],
        &["export", "--format", "json"],
    ];
    answers.extend(commands.map(|command| series.history(command)));
    answers.push(series.show(&[]).to_string());
    answers
}

/// Returns the pages of `fsb serve` by their names.
fn pages(series: &Series, store: &str, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    succeeds(
        series.path(),
        &["serve", "--store", store, "--static", name],
    );
    let (mut files, mut directories) = (BTreeMap::new(), vec![series.path().join(name)]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                directories.push(entry);
            } else {
                let name = entry
                    .strip_prefix(series.path().join(name))
                    .unwrap()
                    .to_owned();
                files.insert(name, fs::read(entry).unwrap());
            }
        }
    }
    files
}

#[test]
fn postgresql_and_sqlite_give_the_same_answers() {
    needs!(root);
    let server = Server::start(needs!(programs()));
    let mut series = Series::new();
    series
        .add(12, 1.0, "6.1")
        .add(12, 0.8, "6.1")
        .add(4, 0.8, "6.2");
    series.index();
    let expected = answers(&series);
    let pruned = |series: &Series| {
        (
            series.history(&["prune", "--before", "2026-01-02"]),
            series.history(&["list"]),
        )
    };
    let expected_after = pruned(&series);
    series.keep_in(&server.database("fsb"));
    series.index();
    assert_eq!(answers(&series), expected);
    series.index();
    series.history(&["rebuild"]);
    assert_eq!(answers(&series), expected);
    assert_eq!(pruned(&series), expected_after);
}

#[test]
fn the_pages_of_postgresql_and_sqlite_are_the_same() {
    needs!(root);
    let server = Server::start(needs!(programs()));
    let mut series = Series::new();
    series.add(2, 1.0, "6.1").index();
    let expected = pages(&series, "index.sqlite", "of-sqlite");
    let url = server.database("fsb");
    series.keep_in(&url);
    series.index();
    assert!(
        pages(&series, &url, "of-postgresql") == expected,
        "the pages differ"
    );
}

#[test]
fn writers_of_one_database_lose_nothing_and_a_killed_one_leaves_whole_runs() {
    needs!(root);
    let server = Server::start(needs!(programs()));
    let mut series = Series::new();
    series.keep_in(&server.database("fsb"));
    let empty = |_: &Series| {
        server.execute("postgres", "DROP DATABASE fsb");
        server.database("fsb");
    };
    expect_writers_to_lose_nothing(series, empty);
}

#[test]
fn a_killed_server_leaves_whole_runs() {
    needs!(root);
    let server = Server::start(needs!(programs()));
    let mut series = Series::new();
    series.add(24, 1.0, "6.1");
    series.index();
    let complete = series.history(&["export"]);
    let values = (complete.lines().count() - 1) / 24;
    series.keep_in(&server.database("fsb"));
    let (mut adding, lines) = series.begin_to_add(3);
    server.kill();
    adding.wait().unwrap();
    server.start_again();
    series.expect_whole_runs(&lines, values);
    series.index();
    assert_eq!(series.history(&["export"]), complete);
}

#[test]
fn databases_that_hold_no_history_of_this_version_are_refused() {
    needs!(root);
    let server = Server::start(needs!(programs()));
    let series = Series::new();
    let refused = |url: &str, code: &str| -> Value {
        let error = fails(series.path(), &["history", "list", "--store", url], 2, code);
        assert!(
            !error.to_string().contains("secret"),
            "the password is not printed: {error}"
        );
        error
    };
    let url = server.database("fsb");
    refused(&url, "history/missing");
    server.execute("fsb", "CREATE TABLE cars (id TEXT)");
    refused(&url, "history/not-a-history");
    server.execute(
        "fsb",
        "CREATE TABLE fsb_history (version INTEGER); INSERT INTO fsb_history VALUES (99)",
    );
    refused(&url, "history/newer");
    let unknown = fails(
        series.path(),
        &["history", "list", "--store", &server.url("other")],
        3,
        "history/database",
    );
    assert!(
        unknown["message"].as_str().unwrap().contains("other"),
        "{unknown}"
    );
    server.kill();
    let down = fails(
        series.path(),
        &["history", "list", "--store", &url],
        3,
        "history/database",
    );
    assert!(!down.to_string().contains("secret"), "{down}");
}
