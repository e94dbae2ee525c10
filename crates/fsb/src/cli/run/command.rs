//! A command as the workload: `fsb run ext4 xfs --prepare 'rm -rf t' -- tar xf linux.tar`.

use clap::Args;
use fsb_model::{Params, WorkloadSpec};
use serde_json::{Value, json};

use crate::exit;

/// What surrounds the command that follows `--`.
#[derive(Debug, Args)]
pub struct CommandArguments {
    /// Before each run of the command after --
    #[arg(long, value_name = "CMD", hide = true)]
    prepare: Option<String>,
    /// Once for each trial, before all else
    #[arg(long, value_name = "CMD", hide = true)]
    setup: Option<String>,
    /// After each trial
    #[arg(long, value_name = "CMD", hide = true)]
    cleanup: Option<String>,
    /// What memory holds before each run: any, cold, warm [any]
    #[arg(long, value_name = "STATE", hide = true)]
    cache: Option<String>,
    /// Whether the clock goes on until the work is durable: yes, no [yes]
    #[arg(long, value_name = "YES|NO", hide = true)]
    durable: Option<String>,
    /// Copied into the target before all else; repeatable
    #[arg(long, value_name = "PATH", hide = true)]
    input: Vec<String>,
    /// A directory beside the target that commands may write into; repeatable
    #[arg(long, value_name = "DIR", hide = true)]
    writable: Vec<String>,
    /// Exit codes of the command that are no failures, such as 0,1 [0]
    #[arg(long, value_name = "CODES", hide = true, value_delimiter = ',')]
    ok_exit: Vec<u8>,
    /// How long each command may take [1h]
    #[arg(long, value_name = "TIME", hide = true)]
    time_limit: Option<String>,
    /// Processes and threads that it may have at once [4096]
    #[arg(long, value_name = "N", hide = true)]
    process_limit: Option<String>,
    /// Files that each of its processes may have open [65536]
    #[arg(long, value_name = "N", hide = true)]
    file_limit: Option<String>,
    /// Memory that each of its processes may allocate [all]
    #[arg(long, value_name = "SIZE", hide = true)]
    memory_limit: Option<String>,
    /// It shares the network of this machine
    #[arg(long, hide = true)]
    network: bool,
    /// A number that it prints: a regular expression with one group, or /a/place in JSON; repeatable
    #[arg(long, value_name = "NAME=PATTERN", hide = true)]
    metric: Vec<String>,
    /// Which way that number is better: higher, lower; one for all, or one each
    #[arg(long, value_name = "WAY", hide = true)]
    better: Vec<String>,
    /// What is run in the target's directory
    #[arg(last = true, value_name = "COMMAND", hide = true)]
    command: Vec<String>,
}

impl CommandArguments {
    /// Whether anything of it was given.
    fn is_empty(&self) -> bool {
        let scripts = [&self.prepare, &self.setup, &self.cleanup, &self.cache, &self.durable];
        let limits = [&self.time_limit, &self.process_limit, &self.file_limit, &self.memory_limit];
        scripts.iter().chain(&limits).all(|text| text.is_none())
            && !self.network
            && [&self.input, &self.writable, &self.metric, &self.better].iter().all(|list| list.is_empty())
            && self.ok_exit.is_empty()
    }

    /// The workload that it is, with what `--verify=CMD` says; nothing where there is no command.
    pub fn workload(self, verify: Option<String>) -> anyhow::Result<Option<WorkloadSpec>> {
        if self.command.is_empty() {
            return match self.is_empty() && verify.is_none() {
                true => Ok(None),
                false => Err(exit::request(
                    "--prepare and its like belong to a command of your own: put it at the end, after --",
                )),
            };
        }
        let mut params = Params::new();
        let mut add = |key: &str, value: Value| drop(params.insert(key.to_owned(), value));
        match &self.command[..] {
            // One argument of several words was written for a shell.
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
            Some(other) => return Err(exit::request(format!("--durable {other}: say yes or no"))),
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

fn metrics(metrics: &[String], better: &[String]) -> anyhow::Result<Vec<Value>> {
    let way = |at: usize| match better {
        [] => Err(exit::request("--metric: say which way it is better: --better higher or --better lower")),
        [one] => Ok(one),
        all if all.len() == metrics.len() => Ok(&all[at]),
        all => Err(exit::request(format!(
            "--better: {} for {} of --metric: give one for all, or one for each",
            all.len(),
            metrics.len()
        ))),
    };
    if metrics.is_empty() {
        return Err(exit::request("--better says nothing without --metric NAME=PATTERN"));
    }
    let each = metrics.iter().enumerate().map(|(at, text)| {
        let (name, pattern) = text.split_once('=').ok_or_else(|| {
            exit::request(format!("--metric {text}: write NAME=PATTERN, such as 'tps=tps = ([0-9.]+)'"))
        })?;
        let key = if pattern.starts_with('/') { "pointer" } else { "pattern" };
        Ok(json!({ "name": name, key: pattern, "better": way(at)? }))
    });
    each.collect()
}
