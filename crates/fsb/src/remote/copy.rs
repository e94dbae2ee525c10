//! `--results`: copies run directories to another place after the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::ssh::quote;
use crate::code;
use crate::exit::{self, Failure};
use crate::result_owner::{self, result_owner};

/// A place for copies of run directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A destination of rsync.
    Rsync(String),
}

impl Place {
    /// Parses `DIR` or `rsync:DESTINATION`.
    ///
    /// # Errors
    ///
    /// If the destination is empty, would be read as an option, or rsync is not installed.
    pub fn parse(text: &str) -> anyhow::Result<Place> {
        let Some(destination) = text.strip_prefix("rsync:") else { return Ok(Place::Directory(text.into())) };
        if destination.is_empty() || destination.starts_with('-') {
            let message = format!("--results {text}: rsync has no destination");
            return Err(exit::advised(&code::INVALID_VALUE, message, "write --results rsync:HOST:DIR"));
        }
        let version = Command::new("rsync").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !version.is_ok_and(|status| status.success()) {
            return Err(exit::advised(&code::UNABLE, "--results: rsync does not run", "install the package rsync"));
        }
        Ok(Place::Rsync(destination.to_owned()))
    }

    /// Checks, before the run, that the copy of a run directory would be new.
    pub fn check(&self, run: &Path) -> anyhow::Result<()> {
        match self {
            Place::Directory(parent) => Ok(fsb_store::check_new(&parent.join(name(run)?), &result_owner())?),
            Place::Rsync(_) => Ok(()),
        }
    }

    /// Copies a run directory. The copy has the name of the directory.
    pub fn copy(&self, run: &Path) -> anyhow::Result<()> {
        let copied = match self {
            Place::Directory(parent) => copy_files(run, &parent.join(name(run)?)),
            Place::Rsync(destination) => rsync(run, destination),
        };
        copied.map_err(|error| {
            let message = format!("the results are in {} and were not copied: {error:#}", run.display());
            let fields = fsb_model::code::fields([("path", run.display().to_string().into())]);
            let help = "copy the directory yourself";
            let text = format!("{message}; {help}");
            Failure { fields, help: Some(help.to_owned()), ..Failure::new(&code::RESULTS_NOT_COPIED, text) }.into()
        })
    }
}

fn name(run: &Path) -> anyhow::Result<&std::ffi::OsStr> {
    let missing = || exit::failure(&code::INVALID_VALUE, format!("{} has no name to copy it to", run.display()));
    run.file_name().ok_or_else(missing)
}

fn copy_files(run: &Path, to: &Path) -> anyhow::Result<()> {
    result_owner().act(|| fs::create_dir_all(to)).flatten().with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(run)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != ".lock" {
            result_owner::replace(&to.join(entry.file_name()), &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn rsync(run: &Path, destination: &str) -> anyhow::Result<()> {
    // Without the trailing slash that would copy the contents alone. A relative name with a colon is not a host.
    let source = std::path::absolute(run)?;
    let mut command = Command::new("rsync");
    command.args(["-a", "--exclude=.lock", "--"]).arg(source).arg(destination);
    let output = command.stdin(Stdio::null()).output().context("run rsync")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "rsync: {}", quote(said.lines()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_of_rsync_is_not_an_option() {
        assert_eq!(Place::parse("/srv/results").unwrap(), Place::Directory("/srv/results".into()));
        for text in ["rsync:", "rsync:--rsh=sh"] {
            let error = Place::parse(text).unwrap_err();
            assert_eq!(exit::error_code(&error).name, code::INVALID_VALUE.name);
        }
    }
}
