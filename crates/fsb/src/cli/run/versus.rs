//! `--versus` and `--here`: compares variants of a command, on a target or in this directory.

use std::path::{Path, PathBuf};

use clap::Args;
use fsb_model::setting::SettingValue;
use fsb_model::variant::{self, PLACEHOLDER};
use fsb_model::{Settings, Target, WorkloadSpec, code, failure, shell};
use fsb_runner::plan_file::{PlanFile, Resolved};
use fsb_runner::target_file::TargetFile;
use fsb_store::{RUN_FILE, Reader, owner};
use serde_json::Value;
use toml::Spanned;

use super::super::plan_text::is_plan;
use super::work::{Here, check_on_path, check_program};
use crate::exit::{Second, Signals};
use crate::help::heading;
use crate::output::make_directory;
use crate::results;
use crate::run::coordinator;
use crate::run::revisions::{self, Trees};

/// Options of variants.
#[derive(Debug, Args)]
pub struct VersusArguments {
    /// Variants of the command, NAME=TEXT…: each TEXT replaces {} in it; the first is the baseline
    #[arg(long, value_name = "NAME=TEXT", num_args = 1.., hide_short_help = true, help_heading = heading::COMMAND,
        conflicts_with_all = ["resume", "hosts"])]
    versus: Vec<String>,
    /// Measure the command in a tree of each revision of git; one REV is compared with the present
    /// state of tracked files
    #[arg(long, value_name = "REV", num_args = 1..=2, hide_short_help = true, help_heading = heading::COMMAND,
        conflicts_with_all = ["versus", "here", "resume", "hosts", "on", "runs", "print_plan", "suite", "preset",
            "workloads", "tree", "trace", "input"])]
    versus_git: Vec<String>,
    /// With --versus-git: command to run once in each tree, before anything is measured
    #[arg(long, value_name = "CMD", hide_short_help = true, help_heading = heading::COMMAND, requires = "versus_git")]
    build: Option<String>,
    /// Measure commands in this directory, as your user and not durably, for at most 1m; each
    /// TARGET is one
    #[arg(long, hide_short_help = true, help_heading = heading::COMMAND,
        conflicts_with_all = ["resume", "hosts", "on", "suite", "preset", "workloads", "tree", "trace", "input"])]
    here: bool,
    /// With --here: runs of each command that do not count, in each block [default: 0]
    #[arg(long, short = 'w', alias = "warmup", value_name = "N", hide_short_help = true, help_heading = heading::COMMAND,
        requires = "here")]
    warm_up: Option<u64>,
    /// With --here: name of a command, in their order; repeatable
    #[arg(long, short = 'n', value_name = "NAME", hide_short_help = true, help_heading = heading::COMMAND,
        requires = "here")]
    command_name: Vec<String>,
    /// With --here: run commands with each VALUE, separated by commas, in place of {VAR};
    /// repeatable
    #[arg(long, short = 'L', num_args = 2, value_names = ["VAR", "VALUES"], hide_short_help = true,
        help_heading = heading::COMMAND, requires = "here")]
    parameter_list: Vec<String>,
    /// With --here: shell of a command that is one argument, or none to split it into words
    /// [default: sh]
    #[arg(long, short = 'S', value_name = "SHELL", hide_short_help = true, help_heading = heading::COMMAND,
        requires = "here")]
    shell: Option<String>,
    /// The commands that stand in place of targets, or the trees of revisions.
    #[arg(skip)]
    commands: Vec<Variant>,
    /// The directory that holds these trees.
    #[arg(skip)]
    trees: Option<PathBuf>,
    /// The revisions of these trees.
    #[arg(skip)]
    revisions: Option<ChosenRevisions>,
    /// The place in them where the command runs.
    #[arg(skip)]
    place: PathBuf,
}

/// A variant with its name.
#[derive(Debug, Clone)]
struct Variant {
    name: String,
    text: String,
}

/// Revisions that are compared.
#[derive(Debug, Clone)]
struct ChosenRevisions {
    repository: PathBuf,
    /// The names and commits.
    wanted: [(String, String); 2],
    /// The command that builds a tree.
    build: Option<String>,
}

/// Trees of revisions that are not built yet.
#[derive(Debug)]
pub struct UnbuiltTrees {
    directory: PathBuf,
    revisions: ChosenRevisions,
}

impl UnbuiltTrees {
    /// Makes and builds all trees, once the run that measures them is known to be possible.
    pub fn build(&self, run: Resolved) -> anyhow::Result<()> {
        // The check needs the directory of the target.
        make_directory(&self.directory)?;
        coordinator::checked(run)?;
        let signals = Signals::catch(Second::Ends)?;
        let ChosenRevisions {
            repository,
            wanted,
            build,
        } = &self.revisions;
        let trees = Trees {
            directory: &self.directory,
            repository,
            build: build.as_deref(),
            signals: &signals,
        };
        for (name, revision) in wanted {
            let built = trees.make(revision)?;
            if signals.is_interrupted() {
                return Err(signals.failure("interrupted"));
            }
            built.map_err(|why| {
                failure::error(&code::INVALID_VALUE, format!("{OPTION} {name}: {why}"))
            })?;
        }
        Ok(())
    }
}

/// A line for the shell that is a variant and nothing else. The blank distinguishes it from the
/// name of a program.
const WHOLE: &str = "{} ";
/// The largest number of commands.
const MOST_COMMANDS: usize = 100;
/// The name of a case whose command is that of the variant.
const LABEL: &str = "command";

impl VersusArguments {
    /// Names the revisions that are compared and the trees that they will have beside the run
    /// directory, which gets a name. Builds nothing.
    pub fn choose_revisions(
        &mut self,
        out: &mut Option<PathBuf>,
        command: &[String],
    ) -> anyhow::Result<()> {
        let Some(first) = self.versus_git.first() else {
            return Ok(());
        };
        if command.is_empty() {
            let message = format!("{OPTION}: no command to measure");
            let advice = "write it last: fsb run --versus-git main -- make test";
            return Err(failure::advised(&code::MISSING, message, advice));
        }
        let advice = "run fsb in the repository whose revisions you compare";
        let repository = revisions::repository(advice)?;
        self.place = revisions::place(&repository)?;
        let wanted = self.wanted(&repository, first)?;
        let run = out.get_or_insert_with(|| results::default_directory(NAME_OF_RUN));
        fsb_store::check_new(run, &owner::result_owner())?;
        let directory = trees_of(run)?;
        if directory.exists() {
            let message = format!("{} is there already", directory.display());
            return Err(failure::advised(
                &code::CONFLICT,
                message,
                "remove it, or name another --out",
            ));
        }
        for (name, revision) in &wanted {
            let text = revisions::tree_path(&directory, revision)?;
            let text = text.display().to_string();
            let name = name.clone();
            self.commands.push(Variant { name, text });
        }
        self.trees = Some(directory);
        self.revisions = Some(ChosenRevisions {
            repository,
            wanted,
            build: self.build.clone(),
        });
        Ok(())
    }

    /// Returns the trees that are to be built before anything is measured.
    pub fn unbuilt(&self) -> Option<UnbuiltTrees> {
        let directory = self.trees.clone()?;
        let revisions = self.revisions.clone()?;
        Some(UnbuiltTrees {
            directory,
            revisions,
        })
    }

    /// Returns the names and commits of both revisions.
    fn wanted(&self, repository: &Path, first: &str) -> anyhow::Result<[(String, String); 2]> {
        let one = (
            first.to_owned(),
            revisions::commit(repository, OPTION, first)?,
        );
        let other = match self.versus_git.get(1) {
            Some(second) => (
                second.clone(),
                revisions::commit(repository, OPTION, second)?,
            ),
            None => revisions::present(repository)?,
        };
        Ok([one, other])
    }

    /// Returns whether commands may run in an existing directory.
    pub fn is_here(&self) -> bool {
        self.here
    }

    /// Returns the directory of the trees that this call makes.
    pub fn trees(&self) -> Option<PathBuf> {
        self.trees.clone()
    }

    /// Makes a target of this directory, and variants of commands that stand in place of targets.
    /// Returns where they run; `None` without `--here`. `runs` is the number of complete runs.
    pub fn here(
        &mut self,
        targets: &mut Vec<String>,
        command: &mut Vec<String>,
        runs: Option<u32>,
    ) -> anyhow::Result<Option<Here>> {
        if command.is_empty() && !self.versus.is_empty() {
            *command = vec![WHOLE.to_owned()];
        }
        if let Some(trees) = &self.trees {
            targets.push(trees.display().to_string());
            return Ok(Some(Here {
                directory: Path::new(PLACEHOLDER).join(&self.place),
                warm_up: 0,
            }));
        }
        let is_of_plan = matches!(targets.as_slice(), [one] if is_plan(one));
        if !self.here || is_of_plan {
            return Ok(None);
        }
        let directory = std::env::current_dir()
            .map_err(|error| failure::error(&code::UNREADABLE, format!("--here: {error}")))?;
        if runs.is_some() {
            let message = "--here: --runs makes complete runs, not runs of a command";
            let advice =
                "--blocks 10 measures each command at least 10 times; a plan may have --runs";
            return Err(failure::advised(&code::CONFLICT, message, advice));
        }
        let mut commands = std::mem::take(targets);
        let has_command = !command.is_empty() || !self.versus.is_empty();
        if has_command && !commands.is_empty() {
            let message = format!(
                "--here {}: there is a command after -- already",
                commands[0]
            );
            let advice = "give each command as one argument, or one command after -- with --versus";
            return Err(failure::advised(&code::CONFLICT, message, advice));
        }
        self.take_command(&mut commands, command)?;
        if !commands.is_empty() {
            self.commands = self.variants_of(commands)?;
            *command = match self.shell.as_deref() {
                None => vec![WHOLE.to_owned()],
                Some(_) => vec![PLACEHOLDER.to_owned()],
            };
        }
        if command.is_empty() {
            let message = "--here: no command to measure";
            let advice = "write each as one argument: fsb run --here 'sort a' 'sort b'";
            return Err(failure::advised(&code::MISSING, message, advice));
        }
        targets.push(directory.display().to_string());
        Ok(Some(Here {
            directory,
            warm_up: self.warm_up.unwrap_or(0),
        }))
    }

    /// Makes a command after `--` one of the commands, if options belong to commands.
    fn take_command(&self, commands: &mut Vec<String>, command: &[String]) -> anyhow::Result<()> {
        let only_for_commands = self.shell.is_some() || !self.command_name.is_empty();
        let is_asked = only_for_commands || !self.parameter_list.is_empty();
        if is_asked && !self.versus.is_empty() {
            let message = "--command-name, --parameter-list and --shell belong to commands, and --versus names texts";
            return Err(failure::error(&code::CONFLICT, message));
        }
        if commands.is_empty() && is_asked {
            *commands = match command {
                [] => Vec::new(),
                [line] => vec![line.clone()],
                words => vec![shell::line(words.iter().map(String::as_str))],
            };
        }
        Ok(())
    }

    /// Returns each command, with each combination of values, as a variant.
    fn variants_of(&self, commands: Vec<String>) -> anyhow::Result<Vec<Variant>> {
        let mut texts = commands;
        for pair in self.parameter_list.chunks_exact(2) {
            let (variable, values) = (format!("{{{}}}", pair[0]), &pair[1]);
            if !texts.iter().any(|text| text.contains(&variable)) {
                let message = format!("-L {} {values}: no command has {variable}", pair[0]);
                return Err(failure::error(&code::INVALID_VALUE, message));
            }
            let mut all = Vec::new();
            for text in &texts {
                if !text.contains(&variable) {
                    all.push(text.clone());
                    continue;
                }
                let each = values.split(',');
                all.extend(each.map(|value| text.replace(&variable, value)));
            }
            texts = all;
            if texts.len() > MOST_COMMANDS {
                let message = format!("-L: more than {MOST_COMMANDS} commands");
                return Err(failure::error(&code::INVALID_VALUE, message));
            }
        }
        if self.command_name.len() > texts.len() {
            let message = format!(
                "--command-name: {} names for {} commands",
                self.command_name.len(),
                texts.len()
            );
            return Err(failure::error(&code::CONFLICT, message));
        }
        let mut variants = Vec::new();
        for (at, text) in texts.into_iter().enumerate() {
            let name = self.command_name.get(at).unwrap_or(&text);
            let name = name.replace(char::is_control, " ");
            let text = match self.shell.as_deref() {
                None | Some("none") => text,
                Some(shell) => format!("{shell} -c {}", shell::word(&text)),
            };
            variants.push(Variant { name, text });
        }
        Ok(variants)
    }

    /// Replaces the target of the plan by one for each variant.
    pub fn apply(self, plan: &mut PlanFile, runs_here: bool) -> anyhow::Result<()> {
        let in_place = self.here || self.trees.is_some();
        if in_place {
            for_this_directory(&mut plan.settings);
        }
        let mut variants = self.commands.clone();
        for text in &self.versus {
            variants.push(variant_of(text)?);
        }
        if variants.is_empty() {
            return Ok(());
        }
        if variants.len() < 2 && !in_place {
            let message = format!("--versus: {} is the only variant", variants[0].name);
            let advice = "name two or more: --versus old=TEXT new=TEXT";
            return Err(failure::advised(&code::MISSING, message, advice));
        }
        let [target] = plan.targets.as_slice() else {
            let message = format!("--versus: {} targets", plan.targets.len());
            let advice = "variants are compared on one target: name it before --versus, and run fsb once for each";
            return Err(failure::advised(&code::CONFLICT, message, advice));
        };
        // Resolving the plan names the mistake in a wrong text.
        let Ok(target) = target.get_ref().resolve() else {
            return Ok(());
        };
        for workload in &mut plan.workloads {
            check_scripts(workload, !self.commands.is_empty() && self.here)?;
            if let Some(empty) = variants
                .iter()
                .find(|variant| variant.text.trim().is_empty())
                && is_whole(workload)
            {
                let message = format!("--versus {}=: a command cannot be empty", empty.name);
                return Err(failure::error(&code::INVALID_VALUE, message));
            }
            if is_whole(workload) && !workload.params.contains_key("label") {
                workload.params.insert("label".to_owned(), LABEL.into());
            }
        }
        plan.targets.clear();
        for mut variant in variants {
            if runs_here && !in_place {
                variant.text = absolute(&variant.text);
                for workload in &plan.workloads {
                    check(workload, &variant)?;
                }
            }
            let target = Target {
                name: variant.name,
                variant: Some(variant.text),
                ..target.clone()
            };
            let written = TargetFile::from_target(&target);
            plan.targets.push(Spanned::new(0..0, written));
        }
        Ok(())
    }
}

/// Seconds that a comparison of commands takes at most, unless the user says how long.
const BUDGET: &str = "1m";

/// Chooses settings for commands that people compare while they work: a short run, and trials that
/// count although the machine is busy. Samples are side by side, so that load meets all commands.
fn for_this_directory(settings: &mut Settings) {
    let has_length = ["budget", "blocks", "precision"]
        .iter()
        .any(|name| settings.has(name));
    if !has_length {
        *settings = std::mem::take(settings).with_text("budget", BUDGET);
    }
    if !settings.has("keep_affected") {
        settings.set("keep_affected", SettingValue::Flag(true));
    }
}

const OPTION: &str = "--versus-git";
/// The name of a run of revisions, which is needed before its targets are known.
const NAME_OF_RUN: &str = "git";

/// Returns the directory of the trees of a run. A killed run that is resumed finds them there.
fn trees_of(run: &Path) -> anyhow::Result<PathBuf> {
    // Components have no slash at their end.
    let absolute: PathBuf = owner::absolute(run)?.components().collect();
    let mut name = absolute.into_os_string();
    name.push(".git-trees");
    Ok(name.into())
}

/// Removes the trees that this call has made, unless the run can be resumed with them.
pub fn remove_made(trees: &Path, run: &Path, is_done: bool) -> anyhow::Result<()> {
    match is_done || !run.join(RUN_FILE).exists() {
        true => revisions::remove(trees),
        false => Ok(()),
    }
}

/// Removes the trees of a resumed run that has ended, if its variants are such trees.
pub fn remove_resumed(run: &Path) -> anyhow::Result<()> {
    let trees = trees_of(run)?;
    let plan = Reader::open(run)?.record.plan;
    for target in &plan.targets {
        let variant = target.variant.as_deref().map(Path::new);
        if variant.is_some_and(|variant| variant.starts_with(&trees)) {
            return revisions::remove(&trees);
        }
    }
    Ok(())
}

/// Returns whether the command of a workload is that of the variant.
fn is_whole(workload: &WorkloadSpec) -> bool {
    match workload.params.get("command") {
        Some(Value::String(line)) => line == WHOLE,
        Some(Value::Array(words)) => {
            matches!(words.as_slice(), [Value::String(word)] if word == PLACEHOLDER)
        }
        _ => false,
    }
}

/// Refuses `{}` in scripts beside commands that stand in place of targets: the command would
/// replace it.
fn check_scripts(workload: &WorkloadSpec, are_commands: bool) -> anyhow::Result<()> {
    for key in ["setup", "prepare", "cleanup", "verify"] {
        let text = workload.params.get(key).and_then(Value::as_str);
        if are_commands && text.is_some_and(|text| text.contains(PLACEHOLDER)) {
            let message = format!("--{key}: the command would replace {{}} in it");
            let advice = "write the braces apart, such as \"{\"}";
            return Err(failure::advised(&code::CONFLICT, message, advice));
        }
    }
    Ok(())
}

/// Parses NAME=TEXT.
fn variant_of(text: &str) -> anyhow::Result<Variant> {
    match text.split_once('=') {
        Some((name, text)) if !name.is_empty() && !name.contains(char::is_control) => Ok(Variant {
            name: name.to_owned(),
            text: text.to_owned(),
        }),
        _ => {
            let message = format!("--versus {text}: not NAME=TEXT");
            let advice =
                "give each variant a name, such as old=./old, and write targets before --versus";
            Err(failure::advised(&code::INVALID_VALUE, message, advice))
        }
    }
}

/// Returns the text with the path of a program or directory that its first word names from here:
/// commands run in the directory of the target.
fn absolute(text: &str) -> String {
    let (first, rest) = match text.find(char::is_whitespace) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let is_relative = first.contains('/') && !first.starts_with('/');
    match std::path::absolute(first) {
        Ok(path) if is_relative && path.exists() => format!("{}{rest}", path.display()),
        _ => text.to_owned(),
    }
}

/// Refuses a program of a variant that is not there.
fn check(workload: &WorkloadSpec, by: &Variant) -> anyhow::Result<()> {
    if ["input", "setup", "prepare"]
        .iter()
        .any(|key| workload.params.contains_key(*key))
    {
        return Ok(());
    }
    let filled = variant::filled(workload, &by.text);
    let words: Vec<String> = match filled.params.get("command") {
        Some(Value::String(line)) => vec![line.trim().to_owned()],
        Some(Value::Array(words)) => {
            let words = words.iter().filter_map(Value::as_str);
            words.map(str::to_owned).collect()
        }
        _ => return Ok(()),
    };
    check_program(&words)?;
    check_on_path(&words)
}
