//! A command as the workload: `fsb run ext4 xfs --prepare 'rm -rf t' -- tar xf linux.tar`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Args;
use fsb_codes::notice;
use fsb_model::{Params, WorkloadSpec};
use serde_json::{Value, json};

use crate::cli::help::heading;
use crate::stderr::notify;
use crate::{code, exit, result_owner};

/// Options of the command that follows `--`.
#[derive(Debug, Args)]
pub struct CommandArguments {
    /// Command to measure, in the directory of each target
    #[arg(last = true, value_name = "COMMAND", hide_short_help = true)]
    command: Vec<String>,
    /// Command to run once for each trial, before the others
    #[arg(long, value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    setup: Option<String>,
    /// Command to run before each run, not measured
    #[arg(long, value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    prepare: Option<String>,
    /// Command to run after each trial
    #[arg(long, value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    cleanup: Option<String>,
    /// State of the page cache before each run: any, cold or warm [default: any]
    #[arg(long, value_name = "STATE", hide_short_help = true, help_heading = heading::COMMAND)]
    cache: Option<String>,
    /// Measure until the data is durable: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO", hide_short_help = true, help_heading = heading::COMMAND)]
    durable: Option<String>,
    /// File or directory to copy into the target before setup; repeatable
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = heading::COMMAND)]
    input: Vec<String>,
    /// Directory outside the target that commands may write to; repeatable
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = heading::COMMAND)]
    writable: Vec<String>,
    /// Exit codes that are no failure, such as 0,1 [default: 0]
    #[arg(long, value_name = "CODES", value_delimiter = ',', hide_short_help = true, help_heading = heading::COMMAND)]
    ok_exit: Vec<u8>,
    /// Time limit of each command [default: 1h]
    #[arg(long, value_name = "TIME", hide_short_help = true, help_heading = heading::COMMAND)]
    time_limit: Option<String>,
    /// Maximum number of processes and threads [default: 4096]
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = heading::COMMAND)]
    process_limit: Option<String>,
    /// Maximum number of open files per process [default: 65536]
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = heading::COMMAND)]
    file_limit: Option<String>,
    /// Maximum memory per process [default: all]
    #[arg(long, value_name = "SIZE", hide_short_help = true, help_heading = heading::COMMAND)]
    memory_limit: Option<String>,
    /// Share the network of this machine with commands
    #[arg(long, hide_short_help = true, help_heading = heading::COMMAND)]
    network: bool,
    /// Number to read from the output, as NAME=REGEX with one group or NAME=/JSON/POINTER; repeatable
    #[arg(long, value_name = "METRIC", hide_short_help = true, help_heading = heading::COMMAND)]
    metric: Vec<String>,
    /// Better direction of --metric: higher or lower; one for all, or one for each
    #[arg(long, value_name = "WAY", hide_short_help = true, help_heading = heading::COMMAND)]
    better: Vec<String>,
}

impl CommandArguments {
    /// Returns whether no such option was given.
    fn is_empty(&self) -> bool {
        let scripts = [&self.prepare, &self.setup, &self.cleanup, &self.cache, &self.durable];
        let limits = [&self.time_limit, &self.process_limit, &self.file_limit, &self.memory_limit];
        scripts.iter().chain(&limits).all(|text| text.is_none())
            && !self.network
            && [&self.input, &self.writable, &self.metric, &self.better].iter().all(|list| list.is_empty())
            && self.ok_exit.is_empty()
    }

    /// Returns whether a command finds in its directory the files of its earlier runs.
    pub fn repeats(&self) -> bool {
        !self.command.is_empty() && self.prepare.is_none()
    }

    /// Returns the command as a workload, with the check of `--verify=CMD`; `None` without a command.
    /// `runs_here` means that the command runs on this machine.
    pub fn workload(self, verify: Option<String>, runs_here: bool) -> anyhow::Result<Option<WorkloadSpec>> {
        if self.command.is_empty() {
            return match self.is_empty() && verify.is_none() {
                true => Ok(None),
                false => Err(exit::failure(
                    &code::CONFLICT,
                    "options such as --prepare belong to a command of your own: write it last, after --",
                )),
            };
        }
        let missing = || self.input.iter().find(|input| runs_here && !Path::new(input).exists());
        if let Some(missing) = result_owner::looking(missing)? {
            let message = format!("--input {missing}: no such file or directory");
            return Err(exit::failure_about(&code::UNREADABLE, [("path", missing.as_str().into())], message));
        }
        if self.input.is_empty() && self.setup.is_none() && self.prepare.is_none() {
            check_program(&self.command)?;
            if runs_here {
                check_on_path(&self.command)?;
                files_here(&self.command).iter().for_each(|file| {
                    let path = std::path::absolute(file).unwrap_or_default();
                    let text = format!(
                        "warning: {file} is not in the directory of each target, where the command runs: to read it, name \
                         it as {}, or copy it there with --input {file}",
                        path.display()
                    );
                    notify(&notice::NOT_IN_TARGET, [("path", path.display().to_string().into())], &text);
                });
            }
        }
        let mut params = Params::new();
        let mut add = |key: &str, value: Value| drop(params.insert(key.to_owned(), value));
        match &self.command[..] {
            // One argument with several words was written for a shell.
            [line] if line.contains(char::is_whitespace) => add("command", json!(line)),
            words => add("command", json!(words)),
        }
        let scripts = [
            ("setup", self.setup),
            ("prepare", self.prepare),
            ("cleanup", self.cleanup),
            ("verify", verify),
            ("cache", self.cache),
            ("time_limit", self.time_limit),
            ("process_limit", self.process_limit),
            ("file_limit", self.file_limit),
            ("memory_limit", self.memory_limit),
        ];
        for (key, text) in scripts {
            if let Some(text) = text {
                add(key, json!(text));
            }
        }
        if self.network {
            add("network", json!(true));
        }
        match self.durable.as_deref() {
            None | Some("yes") => {}
            Some("no") => add("durability", json!("none")),
            Some(other) => {
                return Err(exit::failure(&code::INVALID_VALUE, format!("--durable {other}: say yes or no")));
            }
        }
        for (key, list) in [("input", self.input), ("writable", self.writable)] {
            if !list.is_empty() {
                add(key, json!(list));
            }
        }
        if !self.ok_exit.is_empty() {
            add("ok_exit", json!(self.ok_exit));
        }
        if !self.metric.is_empty() || !self.better.is_empty() {
            add("metric", json!(metrics(&self.metric, &self.better)?));
        }
        Ok(Some(WorkloadSpec::new("command", params)))
    }
}

/// Prints the note on a command that [`CommandArguments::repeats`].
pub(in crate::cli) fn note_on_repeats() {
    let text =
        "note: the command meets what its earlier runs left in its directory; --prepare CMD resets it before each run";
    notify(&notice::REPEATS, [], text);
}

/// Refuses a program that is named relative to the working directory: a command runs in the directory of each target,
/// which is empty unless `--setup`, `--prepare` or `--input` puts something there.
fn check_program(command: &[String]) -> anyhow::Result<()> {
    let first = command.first().and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    let is_relative =
        first.contains('/') && !first.starts_with('/') && !first.contains(['$', '`', '\'', '"', '~', '=']);
    if !is_relative {
        return Ok(());
    }
    let here = std::path::absolute(first).ok().filter(|path| path.is_file());
    let help = match here {
        Some(path) => format!("name it as {}", path.canonicalize().unwrap_or(path).display()),
        None => format!("name a program by its full path, or copy {first} into each target with --input"),
    };
    let message =
        format!("{first}: the command runs in the directory of each target, and {first} is not there; {help}");
    Err(exit::failure(&code::INVALID_VALUE, message))
}

/// Returns the arguments that name a file of the working directory, which is not in the directory of a target. The
/// command may be about to make a file of the same name.
fn files_here(command: &[String]) -> Vec<&str> {
    let words = command.iter().flat_map(|line| line.split_whitespace()).skip(1);
    let is_plain = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || "-_.+/".contains(c));
    let mut files: Vec<&str> = words.filter(is_plain).filter(|word| !word.starts_with(['/', '-', '.'])).collect();
    files.retain(|word| Path::new(word).is_file());
    files.sort_unstable();
    files.dedup();
    files
}

/// Refuses a program that is not on PATH, before a target is formatted. A line for the shell may begin with a builtin.
fn check_on_path(command: &[String]) -> anyhow::Result<()> {
    let [first, ..] = command else { return Ok(()) };
    let is_plain = first.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.+".contains(letter));
    if !is_plain || is_program(first) {
        return Ok(());
    }
    Err(exit::advised(
        &code::INVALID_VALUE,
        format!("{first}: no such program on PATH"),
        "check its name, or name it by its full path",
    ))
}

/// Returns whether PATH has a program of that name.
pub(in crate::cli) fn is_program(name: &str) -> bool {
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| executable(&directory.join(name)))
}

fn metrics(metrics: &[String], better: &[String]) -> anyhow::Result<Vec<Value>> {
    let way = |at: usize| match better {
        [] => Err(exit::failure(
            &code::MISSING,
            "--metric: say which way it is better: --better higher or --better lower",
        )),
        [one] => Ok(one),
        all if all.len() == metrics.len() => Ok(&all[at]),
        all => Err(exit::failure(
            &code::CONFLICT,
            format!("--better: {} for {} of --metric: give one for all, or one for each", all.len(), metrics.len()),
        )),
    };
    if metrics.is_empty() {
        return Err(exit::failure(&code::MISSING, "--better needs --metric NAME=PATTERN"));
    }
    let each = metrics.iter().enumerate().map(|(at, text)| {
        let (name, pattern) = text.split_once('=').ok_or_else(|| {
            exit::failure(
                &code::INVALID_VALUE,
                format!("--metric {text}: write NAME=PATTERN, such as 'tps=tps = ([0-9.]+)'"),
            )
        })?;
        let key = if pattern.starts_with('/') { "pointer" } else { "pattern" };
        Ok(json!({ "name": name, key: pattern, "better": way(at)? }))
    });
    each.collect()
}
