//! fio's side of a pair: a section of the job file that `fsb export` writes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use fsb_model::Bytes;
use serde_json::Value;

use super::ours::begin;
use super::row::AgreeCase;
use crate::compare::program;
use crate::peers;

/// Half of the millisecond that fio rounds its time up to.
const ROUNDED: f64 = 0.0005;

/// A section of the job file, on a file system.
pub struct Fio<'r> {
    row: &'r AgreeCase,
    jobs: PathBuf,
    section: String,
    root: &'r Path,
    units: u64,
}

/// The job file of a suite, written into `directory` unless it is there.
fn export(suite: &str, directory: &Path, units: u64, image: Bytes) -> anyhow::Result<PathBuf> {
    let jobs = directory.join(format!("{suite}.fio"));
    if !jobs.exists() {
        let units = units.to_string();
        let mut export = Command::new(program()?);
        export.args(["export", "fio", "ext4", "--seed", "1", "--suite", suite, "--units", &units]);
        peers::run(export.args(["--size", &image.to_string(), "-o"]).arg(directory))?;
    }
    Ok(jobs)
}

/// Returns the labels of the cases in the job file. Each label is in the comment before its section.
pub fn labels(suite: &str, image: Bytes) -> anyhow::Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let text = std::fs::read_to_string(export(suite, directory.path(), 1, image)?)?;
    let lines: Vec<&str> = text.lines().collect();
    let sections = lines.windows(2).filter(|pair| pair[1].starts_with('['));
    Ok(sections.filter_map(|pair| Some(pair[0].strip_prefix("# ")?.to_owned())).collect())
}

impl<'r> Fio<'r> {
    /// Finds the section of the case.
    pub fn new(
        directory: &Path,
        row: &'r AgreeCase,
        units: u64,
        image: Bytes,
        root: &'r Path,
    ) -> anyhow::Result<Fio<'r>> {
        let jobs = export("quick", directory, units, image)?;
        let text = std::fs::read_to_string(&jobs)?;
        let number = format!("[{:02}-", row.number);
        let section = text.lines().find_map(|line| line.starts_with(&number).then(|| line.trim_matches(['[', ']'])));
        let section = section.with_context(|| format!("no section for {}", row.label))?.to_owned();
        Ok(Fio { row, jobs, section, root, units })
    }

    fn files(&self) -> PathBuf {
        self.root.join(format!("{}.files", self.section))
    }

    /// Gives the files the names that fio has for them.
    pub fn link(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        std::fs::create_dir(self.files())?;
        files.iter().enumerate().try_for_each(|(number, file)| {
            std::fs::hard_link(file, self.files().join(number.to_string())).context("a link to a file of ours")
        })
    }

    /// Seconds of a unit.
    pub fn measure(&self, pair: u32) -> anyhow::Result<f64> {
        if !self.row.prepared {
            std::fs::create_dir(self.files())?;
        }
        begin(self.row, self.root)?;
        // Another order in each pair; an option beside the file would belong to a job of its own.
        let text = std::fs::read_to_string(&self.jobs)?;
        let jobs = self.jobs.with_file_name("pair.fio");
        std::fs::write(&jobs, text.replace("randseed=1\n", &format!("randseed={}\n", pair + 1)))?;
        let mut fio = Command::new("fio");
        fio.args(["--output-format=json", "--section", &self.section]).arg(&jobs);
        let output = fio.current_dir(self.root).stdin(Stdio::null()).output().context("fio")?;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        if !self.row.prepared {
            std::fs::remove_dir_all(self.files())?;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
        let job = &report["jobs"][0];
        let runtime = ["read", "write"].iter().filter_map(|side| job[side]["runtime"].as_f64()).sum::<f64>() * 1e-3;
        ensure!(runtime > 0.0, "fio did nothing: {text}");
        Ok((runtime - ROUNDED) / self.units as f64)
    }
}
