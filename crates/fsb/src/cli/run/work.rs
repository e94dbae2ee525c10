//! Work that the command line describes: a command (`fsb run ext4 xfs --prepare 'rm -rf t' -- tar
//! xf linux.tar`), a trace, or a tree.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use fsb_engine::workload::recordings;
use fsb_model::shape::{MOST_ENTRIES, Shape};
use fsb_model::units::show_bytes;
use fsb_model::workload::{DIRECTORY, VERIFY_SAME};
use fsb_model::{Bytes, Params, RunRecord, WorkloadSpec, code, failure, nearest, notice};
use fsb_store::input::LARGEST_RECORD;
use fsb_store::owner;
use fsb_sys::InvokingUser;
use serde_json::{Value, json};

use crate::help::heading;
use crate::message::notify;

/// Options of the command that follows `--`.
#[derive(Debug, Args)]
pub struct CommandArguments {
    /// Command to measure, in the directory of each target
    #[arg(last = true, value_name = "COMMAND", hide_short_help = true)]
    pub(super) command: Vec<String>,
    /// Command to run in each new directory, before the others
    #[arg(long, short = 's', value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    setup: Option<String>,
    /// Command to run before each run, not measured
    #[arg(long, short = 'p', value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    prepare: Option<String>,
    /// Command to run after each trial
    #[arg(long, value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND)]
    cleanup: Option<String>,
    /// Run in the directory that earlier runs left, instead of a new one for each run
    #[arg(long, hide_short_help = true, help_heading = heading::COMMAND)]
    reuse: bool,
    /// State of the page cache before each run: any, cold or warm [default: any]
    #[arg(long, value_name = "STATE", hide_short_help = true, help_heading = heading::COMMAND)]
    cache: Option<String>,
    /// Measure until the data is durable: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO", hide_short_help = true, help_heading = heading::COMMAND)]
    durable: Option<String>,
    /// File or directory to copy into each new directory before setup; repeatable
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = heading::COMMAND)]
    input: Vec<String>,
    /// Directory outside the target that commands may write to; repeatable
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = heading::COMMAND)]
    writable: Vec<String>,
    /// Exit codes that are no failure, such as 0,1 [default: 0]
    #[arg(long, value_name = "CODES", value_delimiter = ',', hide_short_help = true, help_heading = heading::COMMAND)]
    ok_exit: Vec<u8>,
    /// Accept every exit code, and report the number of runs with another one than 0
    #[arg(long, short = 'i', hide_short_help = true, help_heading = heading::COMMAND, conflicts_with = "ok_exit")]
    ignore_failure: bool,
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
    /// End the run with exit code 1 if targets print different output
    #[arg(long, hide_short_help = true, help_heading = heading::COMMAND)]
    verify_same: bool,
    /// Share the network of this machine with commands
    #[arg(long, hide_short_help = true, help_heading = heading::COMMAND)]
    network: bool,
    /// Number to read from the output, as NAME=REGEX with one group or NAME=/JSON/POINTER;
    /// repeatable
    #[arg(long, value_name = "METRIC", hide_short_help = true, help_heading = heading::COMMAND)]
    metric: Vec<String>,
    /// Better direction of --metric: higher or lower; one for all, or one for each
    #[arg(long, value_name = "WAY", hide_short_help = true, help_heading = heading::COMMAND)]
    better: Vec<String>,
}

/// The existing directory in which a command is measured.
#[derive(Debug)]
pub struct Here {
    /// The directory; `{}` for that of the variant.
    pub directory: PathBuf,
    /// The runs that do not count, in each block.
    pub warm_up: u64,
}

impl CommandArguments {
    /// Returns whether no such option was given.
    fn is_empty(&self) -> bool {
        let scripts = [
            &self.prepare,
            &self.setup,
            &self.cleanup,
            &self.cache,
            &self.durable,
        ];
        let limits = [
            &self.time_limit,
            &self.process_limit,
            &self.file_limit,
            &self.memory_limit,
        ];
        scripts.iter().chain(&limits).all(|text| text.is_none())
            && ![
                self.network,
                self.reuse,
                self.verify_same,
                self.ignore_failure,
            ]
            .contains(&true)
            && [&self.input, &self.writable, &self.metric, &self.better]
                .iter()
                .all(|list| list.is_empty())
            && self.ok_exit.is_empty()
    }

    /// Returns the command as a workload, with the check of `--verify=CMD`; `None` without a
    /// command. `runs_here` means that the command runs on this machine, `here` in which directory.
    pub fn workload(
        self,
        verify: Option<String>,
        runs_here: bool,
        here: Option<Here>,
    ) -> anyhow::Result<Option<WorkloadSpec>> {
        if self.command.is_empty() {
            return match self.is_empty() && verify.is_none() {
                true => Ok(None),
                false => Err(failure::error(
                    &code::CONFLICT,
                    "options such as --prepare belong to a command of your own: write it last, after --",
                )),
            };
        }
        let missing = || {
            self.input
                .iter()
                .find(|input| runs_here && !Path::new(input).exists())
        };
        if let Some(missing) = owner::looking(missing)? {
            let message = format!("--input {missing}: no such file or directory");
            return Err(failure::about(
                &code::UNREADABLE,
                [("path", missing.as_str().into())],
                message,
            ));
        }
        let in_target = here.is_none();
        if in_target && self.input.is_empty() && self.setup.is_none() && self.prepare.is_none() {
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
        let flags = [
            ("network", self.network),
            ("reuse", self.reuse),
            (VERIFY_SAME, self.verify_same),
            ("ignore_failure", self.ignore_failure),
        ];
        for (key, flag) in flags {
            if flag {
                add(key, json!(true));
            }
        }
        match self.durable.as_deref() {
            None if in_target => {}
            Some("yes") => {}
            None | Some("no") => add("durability", json!("none")),
            Some(other) => {
                return Err(failure::error(
                    &code::INVALID_VALUE,
                    format!("--durable {other}: say yes or no"),
                ));
            }
        }
        for (key, list) in [("input", self.input), ("writable", self.writable)] {
            if !list.is_empty() {
                add(key, json!(list));
            }
        }
        if let Some(Here { directory, warm_up }) = here {
            add(DIRECTORY, json!(directory));
            add("warm_up", json!(warm_up));
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

/// Refuses a program that is named relative to the working directory: a command runs in the
/// directory of each target, which is empty unless `--setup`, `--prepare` or `--input` puts
/// something there.
pub(super) fn check_program(command: &[String]) -> anyhow::Result<()> {
    let first = command
        .first()
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or_default();
    let is_relative = first.contains('/')
        && !first.starts_with('/')
        && !first.contains(['$', '`', '\'', '"', '~', '=', '{']);
    if !is_relative {
        return Ok(());
    }
    let here = std::path::absolute(first)
        .ok()
        .filter(|path| path.is_file());
    let help = match here {
        Some(path) => format!(
            "name it as {}",
            path.canonicalize().unwrap_or(path).display()
        ),
        None => format!(
            "name a program by its full path, or copy {first} into each target with --input"
        ),
    };
    let message = format!(
        "{first}: the command runs in the directory of each target, and {first} is not there; {help}"
    );
    Err(failure::error(&code::INVALID_VALUE, message))
}

/// Returns the arguments that name a file of the working directory, which is not in the directory
/// of a target. The command may be about to make a file of the same name.
fn files_here(command: &[String]) -> Vec<&str> {
    let words = command
        .iter()
        .flat_map(|line| line.split_whitespace())
        .skip(1);
    let mut files: Vec<&str> = words
        .filter(|word| {
            word.chars()
                .all(|c| c.is_alphanumeric() || "-_.+/".contains(c))
        })
        .filter(|word| !word.starts_with(['/', '-', '.']))
        .collect();
    files.retain(|word| Path::new(word).is_file());
    files.sort_unstable();
    files.dedup();
    files
}

/// Refuses a program that is not on PATH, before a target is formatted. A line for the shell may
/// begin with a builtin.
pub(super) fn check_on_path(command: &[String]) -> anyhow::Result<()> {
    let [first, ..] = command else { return Ok(()) };
    let is_plain = first
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_.+".contains(letter));
    if !is_plain || is_program(first) {
        return Ok(());
    }
    Err(failure::advised(
        &code::INVALID_VALUE,
        format!("{first}: no such program on PATH"),
        "check its name, or name it by its full path",
    ))
}

/// Returns whether PATH has a program of that name.
pub(in crate::cli) fn is_program(name: &str) -> bool {
    let executable = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| executable(&directory.join(name)))
}

fn metrics(metrics: &[String], better: &[String]) -> anyhow::Result<Vec<Value>> {
    let way = |at: usize| match better {
        [] => Err(failure::error(
            &code::MISSING,
            "--metric: say which way it is better: --better higher or --better lower",
        )),
        [one] => Ok(one),
        all if all.len() == metrics.len() => Ok(&all[at]),
        all => Err(failure::error(
            &code::CONFLICT,
            format!(
                "--better: {} for {} of --metric: give one for all, or one for each",
                all.len(),
                metrics.len()
            ),
        )),
    };
    if metrics.is_empty() {
        return Err(failure::error(
            &code::MISSING,
            "--better needs --metric NAME=PATTERN",
        ));
    }
    let each = metrics.iter().enumerate().map(|(at, text)| {
        let (name, pattern) = text.split_once('=').ok_or_else(|| {
            failure::error(
                &code::INVALID_VALUE,
                format!("--metric {text}: write NAME=PATTERN, such as 'tps=tps = ([0-9.]+)'"),
            )
        })?;
        let key = if pattern.starts_with('/') {
            "pointer"
        } else {
            "pattern"
        };
        Ok(json!({ "name": name, key: pattern, "better": way(at)? }))
    });
    each.collect()
}

// A trace as the workload: `fsb run ext4 xfs --trace app.trace --pace none`.

/// Options of a replay.
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// Replay a trace of 'fsb record', or recording:NAME of 'fsb list recordings'
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = heading::WORKLOAD)]
    trace: Option<PathBuf>,
    /// Think time between the calls of a replay: recorded, none, or a factor [default: recorded]
    #[arg(long, value_name = "P", hide_short_help = true, help_heading = heading::WORKLOAD)]
    pace: Option<String>,
    /// Replay a trace although it is incomplete
    #[arg(long, hide_short_help = true, help_heading = heading::WORKLOAD)]
    force: bool,
}

impl TraceArguments {
    /// Returns the replay as a workload; `None` without a trace.
    pub fn workload(&self) -> anyhow::Result<Option<WorkloadSpec>> {
        let Some(trace) = &self.trace else {
            return match self.pace.is_none() && !self.force {
                true => Ok(None),
                false => Err(failure::error(
                    &code::MISSING,
                    "--pace and --force belong to a trace: --trace FILE",
                )),
            };
        };
        if cfg!(not(feature = "traces")) {
            return Err(failure::advised(
                &code::UNABLE,
                "--trace: this fsb was built without the feature traces",
                "build it with cargo build --release -p fsb",
            ));
        }
        let path = match recording(trace)? {
            Some(name) => PathBuf::from(name),
            None => std::path::absolute(trace)?,
        };
        let path = path.to_str().ok_or_else(|| {
            failure::error(
                &code::INVALID_VALUE,
                "--trace: its path is not text (UTF-8)",
            )
        })?;
        let mut params = Params::new();
        params.insert("trace".to_owned(), json!(path));
        if let Some(pace) = &self.pace {
            params.insert("pace".to_owned(), json!(pace));
        }
        if self.force {
            params.insert("force".to_owned(), json!(true));
        }
        Ok(Some(WorkloadSpec::new("replay", params)))
    }
}

/// Returns the name of a recording that is part of the program. Refuses an unknown one.
fn recording(trace: &Path) -> anyhow::Result<Option<&str>> {
    let name = trace.to_str().filter(|name| name.starts_with("recording:"));
    let Some(name) = name else { return Ok(None) };
    let known = recordings();
    if known.iter().any(|known| known == name) {
        return Ok(Some(name));
    }
    let advice = match nearest::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "'fsb list recordings' lists them".to_owned(),
    };
    let message = format!("--trace {name}: no such recording");
    Err(failure::advised(&code::INVALID_VALUE, message, advice))
}

// `--tree`: converts the shape of a directory, or the shape that another run recorded, to
// workloads.

const WORKLOAD: &str = "filetree";
/// The smallest size of the image, unless the user chooses another.
const USUAL_IMAGE: u64 = 2 << 30;

/// Returns the workloads on the tree, and the size of an image that has room for the tree twice.
pub(super) fn tree_workloads(tree: &Path) -> anyhow::Result<(Vec<WorkloadSpec>, Bytes)> {
    // Messages quote names of the tree, or text of a file that is not a run record: read with the
    // invoking user's privileges.
    let read = || {
        if tree.is_dir() {
            recorded_shape(tree)
        } else {
            shape_of_run(tree)
        }
    };
    let (name, shape) = owner::result_owner()
        .act(read)
        .map_err(|error| failed(tree, &error))??;
    if shape.files() == 0 {
        return Err(failure::error(
            &code::INVALID_INPUT,
            format!("--tree {}: the tree has no files", tree.display()),
        ));
    }
    let text = shape.to_string();
    let one = |operation: &str, copy: Option<&str>| {
        let params = [
            ("operation", Some(operation)),
            ("copy", copy),
            ("tree", Some(&name)),
            ("shape", Some(&text)),
        ];
        let params = params
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
        WorkloadSpec::new(WORKLOAD, params.collect())
    };
    let workloads = vec![
        one("copy-into", None),
        one("copy-within", None),
        one("copy-within", Some("copy_file_range")),
        one("copy-within", Some("reflink")),
        one("delete", None),
    ];
    // Blocks, inodes and the file system's own metadata.
    let needed: u64 = shape
        .sizes()
        .map(|size| size.next_multiple_of(4096))
        .sum::<u64>()
        + shape.entries() * 4096;
    let image = (needed * 3).next_multiple_of(1 << 20).max(USUAL_IMAGE);
    Ok((workloads, Bytes(image)))
}

fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    failure::failed_call(
        &code::UNREADABLE,
        error,
        format!(
            "--tree: cannot read {}: {error}{}",
            path.display(),
            whose_rights(error)
        ),
    )
}

/// Explains a refusal: root could read the file, but the invoking user cannot.
fn whose_rights(error: &io::Error) -> String {
    match InvokingUser::current().filter(|_| error.kind() == io::ErrorKind::PermissionDenied) {
        Some(invoking_user) => format!(
            " to the invoking user {}: fsb reads --tree with that user's rights; name a tree that this user can read",
            invoking_user.uid
        ),
        None => String::new(),
    }
}

/// Returns the name and the shape of a directory; follows no links, and counts a file with several
/// names once.
fn recorded_shape(root: &Path) -> anyhow::Result<(String, Shape)> {
    use std::os::unix::fs::MetadataExt;
    let mut shape = Shape::default();
    let mut left: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    // Copy programs that detect hard links copy a file with several names once; it is counted once
    // here.
    let mut known: HashMap<(u64, u64), ()> = HashMap::new();
    while let Some((path, number)) = left.pop() {
        let entries = fs::read_dir(&path).map_err(|error| failed(&path, &error))?;
        let mut entries: Vec<_> = entries
            .collect::<Result<_, _>>()
            .map_err(|error| failed(&path, &error))?;
        // Sort, so that the shape does not depend on the order of the directory entries.
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut inner = Vec::new();
        for entry in entries {
            let path = entry.path();
            let metadata = entry.metadata().map_err(|error| failed(&path, &error))?;
            if metadata.is_dir() {
                inner.push((path, shape.add_directory(number)));
            } else if metadata.is_file() {
                let seen = metadata.nlink() > 1
                    && known.insert((metadata.dev(), metadata.ino()), ()).is_some();
                if !seen {
                    shape.add_file(number, metadata.len());
                }
            }
            if shape.entries() > MOST_ENTRIES as u64 {
                let message =
                    "holds more than a million files and directories: name a smaller directory";
                return Err(failure::error(
                    &code::INVALID_INPUT,
                    format!("--tree {}: it {message}", root.display()),
                ));
            }
        }
        // Reverse, so that the first one is popped next.
        left.extend(inner.into_iter().rev());
    }
    let whole = fs::canonicalize(root).map_err(|error| failed(root, &error))?;
    let name = whole.file_name().map_or_else(
        || "the root".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    // Messages print the name on one line.
    let name: String = name
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let name = format!(
        "{name} ({} files, {})",
        shape.files(),
        show_bytes(shape.bytes() as f64)
    );
    Ok((name, shape))
}

/// Returns the shape in the record of a run.
fn shape_of_run(path: &Path) -> anyhow::Result<(String, Shape)> {
    let failed = |why: String| {
        failure::error(
            &code::INVALID_INPUT,
            format!("--tree {}: {why}", path.display()),
        )
    };
    let read = fsb_store::input::read(path, LARGEST_RECORD);
    let text = read.map_err(|error| {
        let message = format!("--tree {}: cannot be read: {error}", path.display());
        failure::failed_call(&code::INVALID_INPUT, &error, message)
    })?;
    let record: RunRecord = serde_json::from_slice(&text)
        .map_err(|_| failed("neither a directory nor the run.json of a run".to_owned()))?;
    let found = record.cells.iter().find_map(|cell| {
        let text = |key: &str| cell.workload.params.get(key).and_then(Value::as_str);
        Some((text("tree").unwrap_or("a tree").to_owned(), text("shape")?))
    });
    let (name, shape) =
        found.ok_or_else(|| failed("that run recorded no shape of a tree".to_owned()))?;
    Ok((
        name,
        shape.parse().map_err(|error| failed(format!("{error}")))?,
    ))
}
