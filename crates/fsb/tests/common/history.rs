//! Series of runs: a run on the null file system is copied with other times and values, so that its
//! series are known.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{
    command, expect_code, fast_plan, read_json, rewrite_trials, scratch, stdout, succeeds, words,
};

/// A run with the targets `a` and `b` and three blocks, made once for all tests.
struct Template {
    record: Value,
    trials: Vec<u8>,
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let directory = scratch();
        fast_plan(directory.path());
        let run = words("run fast.toml a=null b=null --blocks 3 --seed 1 --out run --quiet");
        succeeds(directory.path(), &run);
        let run = directory.path().join("run");
        Template {
            record: read_json(run.join("run.json")),
            trials: fs::read(run.join("trials.jsonl")).unwrap(),
        }
    })
}

/// A series of runs in a directory of results.
pub struct Series {
    directory: TempDir,
    runs: usize,
    store: String,
}

impl Series {
    /// Returns a series without runs, with its index in a file beside them.
    pub fn new() -> Series {
        Series {
            directory: scratch(),
            runs: 0,
            store: "index.sqlite".to_owned(),
        }
    }

    /// Chooses another store.
    pub fn keep_in(&mut self, store: &str) {
        store.clone_into(&mut self.store);
    }

    /// Returns the directory of the runs.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Adds runs, an hour after each other, whose values are those of the template times a level
    /// and a scatter of about 2 % in a fixed pattern.
    pub fn add(&mut self, runs: usize, level: f64, kernel: &str) -> &mut Series {
        for _ in 0..runs {
            let number = self.runs;
            self.runs += 1;
            let factor = level * (1.0 + 0.02 * ((number * 7 % 11) as f64 / 5.0 - 1.0));
            let at = format!("2026-01-{:02}T{:02}:00:00Z", 1 + number / 24, number % 24);
            copy_run(&self.run(number), &at, kernel, factor);
        }
        self
    }

    /// Returns the directory of a run.
    pub fn run(&self, number: usize) -> PathBuf {
        self.path().join(format!("run-{number:03}"))
    }

    /// Runs a command of the history.
    pub fn fsb(&self, arguments: &[&str]) -> Output {
        command(
            self.path(),
            &[&["history"], arguments, &["--store", &self.store]].concat(),
        )
        .output()
        .unwrap()
    }

    /// Runs the command, which must succeed, and returns its output.
    pub fn history(&self, arguments: &[&str]) -> String {
        let output = self.fsb(arguments);
        expect_code(&output, 0);
        stdout(&output)
    }

    /// Returns the paths of all runs.
    pub fn names(&self) -> Vec<String> {
        (0..self.runs)
            .map(|number| self.run(number).display().to_string())
            .collect()
    }

    /// Adds all runs to the index.
    pub fn index(&self) {
        let names = self.names();
        let mut arguments = vec!["add"];
        arguments.extend(names.iter().map(String::as_str));
        self.history(&arguments);
    }

    /// Returns the document of one of the series.
    pub fn show(&self, more: &[&str]) -> Value {
        let series = "read 1M, cold on a=null";
        serde_json::from_str(&self.history(&[&["show", series, "--format", "json"], more].concat()))
            .unwrap()
    }

    /// Starts a process that adds runs.
    pub fn adding(&self, names: &[String]) -> Child {
        let mut arguments = vec!["history", "add", "--store", &self.store];
        arguments.extend(names.iter().map(String::as_str));
        command(self.path(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts a process that adds all runs, and returns it with its lines of the first runs.
    pub fn begin_to_add(&self, runs: usize) -> (Child, Vec<String>) {
        let mut adding = self.adding(&self.names());
        let lines = BufReader::new(adding.stdout.take().unwrap())
            .lines()
            .take(runs)
            .map(Result::unwrap)
            .collect();
        (adding, lines)
    }

    /// Checks that the index has the runs of these lines, and `values` values of each run.
    pub fn expect_whole_runs(&self, lines: &[String], values: usize) {
        let left = self.history(&["export"]);
        let indexed = |line: &String| left.contains(line.rsplit("  ").next().unwrap());
        assert!(lines.iter().all(indexed), "{lines:?}\n{left}");
        assert_eq!((left.lines().count() - 1) % values, 0, "{left}");
    }
}

fn copy_run(to: &Path, at: &str, kernel: &str, factor: f64) {
    let template = template();
    fs::create_dir(to).unwrap();
    let mut record = template.record.clone();
    record["segments"][0]["started"] = at.into();
    record["segments"][0]["kernel"] = kernel.into();
    fs::write(to.join("run.json"), record.to_string()).unwrap();
    fs::write(to.join("trials.jsonl"), &template.trials).unwrap();
    rewrite_trials(to, |trial| {
        if let Some(value) = trial["metrics"][0]["value"].as_f64() {
            let factor = if trial["target"] == "a" {
                factor
            } else {
                1.0 + (factor - 1.0) / 100.0
            };
            trial["metrics"][0]["value"] = (value * factor).into();
        }
    });
}

/// Writers of one store, of which one is killed, lose no run and leave no part of one. `empty`
/// empties the store.
pub fn expect_writers_to_lose_nothing(mut series: Series, empty: impl FnOnce(&Series)) {
    series.add(24, 1.0, "6.1");
    series.index();
    let export = |series: &Series| series.history(&["export"]);
    let complete = export(&series);
    let values = complete.lines().count() - 1;
    empty(&series);
    let names = series.names();
    let (mut killed, lines) = series.begin_to_add(3);
    killed.kill().unwrap();
    killed.wait().unwrap();
    series.expect_whole_runs(&lines, values / 24);
    let writers: Vec<_> = (0..4)
        .map(|first| series.adding(&names[first * 4..(first * 4 + 12)]))
        .collect();
    for writer in writers {
        expect_code(&writer.wait_with_output().unwrap(), 0);
    }
    assert_eq!(export(&series), complete);
}
