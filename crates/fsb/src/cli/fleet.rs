//! `fsb fleet`: one answer from the runs of many hosts.

use fsb_model::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context;
use clap::{Args, Subcommand};
use fsb_model::{Plan, code, failure, notice};
use fsb_report::fleet::{Fleet, HostResult, LeftOut, page, screen};
use fsb_report::summary::Summary;
use fsb_report::{WIDTH, fleet_figures};
use fsb_results::directory::SET_FILE;
use fsb_results::{Latencies, StoredRun, sets};
use fsb_runner::plan_file::PlanFile;
use fsb_store::input::LARGEST_SCRIPT;
use fsb_store::{RUN_FILE, Reader, owner};
use indicatif::MultiProgress;

use super::plan_text::{check_confined, read_plan};
use crate::exit::{self, Second, Signals};
use crate::help::heading;
use crate::message::{notify, say, say_warning};
use crate::output::{Destination, Destinations, Form};
use crate::results::{self, json_text, print, print_bytes};
use crate::run::coordinator;
use crate::run::progress::Verbosity;
use crate::run::record;
use crate::run::remote::{self, RemoteHost, RemoteRun};
use crate::run::stage::Turn;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  fsb fleet run plan.toml --hosts hosts.txt       measure all hosts, and compare
  fsb fleet compare fsb-results/20261120T150405Z-ext4-xfs
  fsb fleet compare web1 web2 web3 -o fleet.html  a page with forest plots";

/// Measure many hosts, and make one answer of their results
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<RunArguments>),
    Compare(CompareArguments),
}

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    match arguments.command {
        Command::Run(arguments) => run(&arguments),
        Command::Compare(arguments) => compare(&arguments),
    }
}

const FILES_HELP: &str =
    "File of the answer, such as a.html or a.svg: its name implies the format; repeatable";

/// The options of the answer.
#[derive(Debug, Args)]
struct AnswerArguments {
    /// Target that the others are compared with [default: the first target of the first host]
    #[arg(long, value_name = "TARGET", hide_short_help = true)]
    baseline: Option<String>,
    /// Also print the ratio of each host
    #[arg(long)]
    each: bool,
    #[command(flatten)]
    to: Destinations,
}

/// The forms of the answer.
const FORMS: [Form; 6] = [
    Form::text("text", "txt"),
    Form::text("json", "json"),
    Form::text("html", "html"),
    Form::text("svg", "svg"),
    Form::binary("png"),
    Form::binary("pdf"),
];

impl AnswerArguments {
    /// Returns the destinations of the answer.
    fn destinations(&self) -> anyhow::Result<Vec<Destination>> {
        let found = self.to.resolve(&FORMS)?;
        for destination in &found {
            match destination {
                Destination::Standard(_) => {}
                Destination::File(file, _) => owner::check_option("-o", file, "fleet.html")?,
                Destination::Directory(directory) => {
                    let message = format!(
                        "-o {}: the answer of a fleet is one file",
                        directory.display()
                    );
                    let help = "name a file, such as fleet.html";
                    return Err(failure::advised(&code::UNKNOWN_FORMAT, message, help));
                }
            }
        }
        Ok(found)
    }

    /// Prints and writes the answer.
    fn emit(&self, fleet: &Fleet) -> anyhow::Result<()> {
        for destination in self.destinations()? {
            match destination {
                Destination::Standard("text") => {
                    let width = terminal::columns_of_terminal(std::io::stdout()).unwrap_or(WIDTH);
                    print(&screen(fleet, width, self.each))?;
                }
                Destination::Standard(form) => {
                    print_bytes(&self.rendered(fleet, form)?)?;
                }
                Destination::File(file, form) => {
                    owner::replace(&file, &self.rendered(fleet, form)?)?;
                }
                Destination::Directory(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the answer in a form.
    fn rendered(&self, fleet: &Fleet, form: &str) -> anyhow::Result<Vec<u8>> {
        let figures = fleet_figures(fleet);
        let figure = figures.first().context("no figure")?;
        let mut bytes = Vec::new();
        match form {
            "json" => bytes = json_text(fleet)?.into_bytes(),
            "html" => bytes = page(fleet).into_bytes(),
            "svg" => bytes = figure.svg().into_bytes(),
            "png" => figure.write_png(&mut bytes)?,
            "pdf" => figure.write_pdf(&mut bytes)?,
            _ => bytes = screen(fleet, WIDTH, self.each).into_bytes(),
        }
        Ok(bytes)
    }

    fn is_screen(&self) -> bool {
        self.to.is_first_screen()
    }
}

/// Hosts while their results are read, one after the other.
struct Reading<'a> {
    answer: &'a AnswerArguments,
    baseline: Option<String>,
    /// Results by the name of the host.
    found: BTreeMap<String, HostResult>,
    /// The names in the order in which they were found.
    order: Vec<String>,
    left_out: Vec<LeftOut>,
    /// The exit code of the worst error.
    worst: u8,
}

impl<'a> Reading<'a> {
    fn new(answer: &'a AnswerArguments) -> Reading<'a> {
        let (found, order, left_out) = (BTreeMap::new(), Vec::new(), Vec::new());
        Reading {
            answer,
            baseline: answer.baseline.clone(),
            found,
            order,
            left_out,
            worst: exit::DONE,
        }
    }

    /// Leaves a host out whose result cannot be had.
    fn leave_out(&mut self, host: &str, error: &anyhow::Error) -> anyhow::Result<()> {
        self.worst = self.worst.max(exit::code(error));
        self.list(host, format!("{error:#}"))
    }

    /// Lists a host without a result.
    fn list(&mut self, host: &str, reason: String) -> anyhow::Result<()> {
        if !self.answer.is_screen() {
            let fields = [("host", host.into()), ("reason", reason.as_str().into())];
            notify(
                &notice::HOST_LEFT_OUT,
                fields,
                &format!("warning: {host}: left out: {reason}"),
            );
        }
        self.left_out.push(LeftOut {
            host: host.to_owned(),
            reason,
        });
        Ok(())
    }

    /// Adds the run of a host. Of several runs of one host, the last counts.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let result = match self.read(path) {
            Ok(result) => result,
            Err(error) => return self.leave_out(&path.display().to_string(), &error),
        };
        let name = result.name().to_owned();
        let Some(known) = self.found.get(&name) else {
            self.order.push(name.clone());
            self.found.insert(name, result);
            return Ok(());
        };
        let earlier = known.started().min(result.started()).to_owned();
        if result.started() > known.started() {
            self.found.insert(name.clone(), result);
        }
        self.list(
            &name,
            format!("the run that began at {earlier}: the host made a later one"),
        )
    }

    fn read(&mut self, path: &Path) -> anyhow::Result<HostResult> {
        let run = StoredRun::read(path, Latencies::Added)?;
        run.warnings.iter().for_each(say_warning);
        let first = run
            .record
            .plan
            .targets
            .first()
            .map(|target| target.name.clone());
        let baseline = self
            .baseline
            .get_or_insert_with(|| first.unwrap_or_default());
        let summary = Summary::of_shown(&run.record, &run.trials);
        let name = run.record.on.clone().unwrap_or_else(|| name_of(path));
        HostResult::new(name, &run.record, &summary, baseline)
            .map_err(|why| failure::error(&code::INVALID_SET, format!("{}: {why}", path.display())))
    }

    /// Assembles and prints the answer. Returns the exit code.
    fn finish(mut self) -> anyhow::Result<u8> {
        let hosts: Vec<HostResult> = self
            .order
            .iter()
            .filter_map(|name| self.found.remove(name))
            .collect();
        if hosts.is_empty() {
            let reasons: Vec<String> = self
                .left_out
                .iter()
                .map(|left| format!("{}: {}", left.host, left.reason))
                .collect();
            let message = format!("no host has results to compare: {}", reasons.join("; "));
            return Err(Failure {
                exit: self.worst.max(exit::REQUEST),
                ..Failure::new(&code::NOTHING_TO_COMPARE, message)
            }
            .into());
        }
        let fleet = Fleet::new(&hosts, self.left_out, &self.baseline.unwrap_or_default());
        if !self.answer.is_screen() {
            fleet.warnings.iter().for_each(say_warning);
        }
        self.answer.emit(&fleet)?;
        Ok(self.worst)
    }
}

/// Returns the name of a host whose run does not record one: that of its directory.
fn name_of(path: &Path) -> String {
    let named = if path.file_name().is_some() {
        Some(path.to_owned())
    } else {
        path.canonicalize().ok()
    };
    let name = named
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| path.display().to_string())
}

// `fsb fleet compare`.

const COMPARE_EXAMPLES: &str = "\
Examples:
  fsb fleet compare fsb-results/20261120T150405Z-ext4-xfs
  fsb fleet compare web1 web2 web3 --baseline xfs --each
  fsb fleet compare results -o fleet.svg              a forest plot";

/// Make one answer of the runs of many hosts
///
/// For each case and target: the mean ratio to the baseline with its interval, the interval for the
/// next host, how far hosts differ, and the property of the hosts that explains it. DIR is the run
/// directory of a host, or a directory of such directories, as fsb fleet run makes it.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
#[command(mut_arg("files", |argument| argument.help(FILES_HELP)))]
#[command(override_usage = "fsb fleet compare [OPTIONS] DIR…")]
struct CompareArguments {
    /// Run directory of a host, or a directory of run directories
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    answer: AnswerArguments,
}

fn compare(arguments: &CompareArguments) -> anyhow::Result<u8> {
    arguments.answer.destinations()?;
    let mut reading = Reading::new(&arguments.answer);
    let mut seen = std::collections::BTreeSet::new();
    for directory in &arguments.directories {
        let found = owner::looking(|| runs_of_hosts(directory)).and_then(|found| found);
        match found {
            Ok(found) => {
                for run in found
                    .into_iter()
                    .filter(|run| sets::identity(run).is_none_or(|file| seen.insert(file)))
                {
                    reading.add(&run)?;
                }
            }
            Err(error) => reading.leave_out(&directory.display().to_string(), &error)?,
        }
    }
    reading.finish()
}

/// Returns the run directory itself, or the run directories in a directory in natural order.
fn runs_of_hosts(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = path.display();
    let is_run = |path: &Path| path.join(RUN_FILE).is_file() || fsb_store::is_page(path);
    if is_run(path) || path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| {
        failure::advised_call(
            &code::UNREADABLE,
            &error,
            format!("cannot read {shown}: {error}"),
            "name the run directory of a host, or a directory of run directories",
        )
    };
    let entries = std::fs::read_dir(path)
        .map_err(unreadable)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| is_run(path))
        .collect();
    alphanumeric_sort::sort_path_slice(&mut found);
    if path.join(SET_FILE).is_file() {
        let message = format!("{shown} is a set of runs of one host");
        return Err(failure::advised(
            &code::INVALID_SET,
            message,
            "name one of its runs",
        ));
    }
    if found.is_empty() {
        let message = format!("{shown} holds no run");
        return Err(failure::advised(
            &code::NO_MATCH,
            message,
            "name the run directory of a host, or its parent",
        ));
    }
    Ok(found)
}

// `fsb fleet run`.

const RUN_EXAMPLES: &str = "\
Examples:
  fsb fleet run plan.toml --hosts hosts.txt
  fsb fleet run quick.toml --hosts hosts.txt --sudo --out fleet -o fleet.html
  fsb fleet run plan.toml --hosts hosts.txt --out fleet  the missing hosts";

/// Run a plan on many hosts at once, and make one answer
///
/// Each line of the file of --hosts has USER@HOST and, if it is not that of the plan, the directory
/// of the image there. Comments begin with #. IOzone's list of -+m is such a file. A host that
/// fails is reported, and the others go on. The same command again makes the runs that are missing.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
#[command(mut_arg("files", |argument| argument.help(FILES_HELP)))]
#[command(override_usage = "fsb fleet run [OPTIONS] PLAN.toml --hosts FILE")]
struct RunArguments {
    /// Plan with the targets and workloads
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// File with a host on each line
    #[arg(long, value_name = "FILE", required = true, help_heading = heading::MACHINE)]
    hosts: PathBuf,
    /// Become root there by sudo, which must not ask for a password
    #[arg(long, help_heading = heading::MACHINE)]
    sudo: bool,
    /// Hosts that are measured at the same time; 1 for hosts that share a network or a storage
    /// system [default: all]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true,
        help_heading = heading::MACHINE
    )]
    at_once: Option<u32>,
    /// Overwrite the contents of this block device of every host; repeatable
    #[arg(long, value_name = "DEVICE", hide_short_help = true, help_heading = heading::MEDIUM)]
    wipe: Vec<PathBuf>,
    /// Directory of the run directories [default: fsb-results/TIME-NAME]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    verbosity: Verbosity,
}

fn run(arguments: &RunArguments) -> anyhow::Result<u8> {
    arguments.answer.destinations()?;
    let hosts = read_hosts(&arguments.hosts, arguments.sudo)?;
    let mut file = read_plan(&arguments.plan)?;
    check_confined(&file)?;
    file.allow_wipe(&arguments.wipe);
    let plan = file
        .clone()
        .resolve(coordinator::cpus(), coordinator::fresh_seed())?
        .plan;
    if plan.targets.len() < 2 || plan.race.is_some() {
        let message = format!(
            "{}: a fleet compares two targets or more on each host",
            arguments.plan.display()
        );
        return Err(failure::advised(
            &code::PLAN_UNFIT,
            message,
            "add a target to the plan",
        ));
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| results::default_directory(&record::run_name(&plan)));
    let signals = Signals::catch(Second::Ends)?;
    let measured = measure(&hosts, &file, &plan, &out, arguments, &signals)?;
    if signals.is_interrupted() {
        // A signal ends the whole command.
        let mut message = String::new();
        for (host, made) in hosts.iter().zip(&measured) {
            if let Some(Err(error)) = made
                && !is_of_host(error)
                && host.run_directory(&out).join(RUN_FILE).is_file()
            {
                message += &format!("{error:#}\n");
            }
        }
        if message.is_empty() {
            message = "interrupted\n".to_owned();
        }
        let shown = out.display();
        message += &format!(
            "the finished runs are in {shown}; compare them with:\n  fsb fleet compare {shown}"
        );
        return Err(signals.failure(&message));
    }
    let mut reading = Reading::new(&arguments.answer);
    for (host, made) in hosts.iter().zip(measured) {
        let directory = host.run_directory(&out);
        match made {
            Some(Err(error)) if !directory.join(RUN_FILE).is_file() => {
                reading.leave_out(host.name(), &error)?
            }
            made => {
                let code = made.map_or(exit::DONE, |made| {
                    made.unwrap_or_else(|error| exit::code(&error))
                });
                reading.worst = reading.worst.max(code);
                reading.add(&directory)?;
            }
        }
    }
    let code = reading.finish()?;
    say(&format!("runs: {}", out.display()));
    Ok(code)
}

/// Returns whether an error is about one host, so that the others go on.
fn is_of_host(error: &anyhow::Error) -> bool {
    [exit::REQUEST, exit::MACHINE, exit::TRIALS].contains(&exit::code(error))
}

/// Makes the runs of all hosts, as many at once as the user permits, and prints the errors of
/// hosts. Returns the exit code or the error of each host; `None` for hosts that were not begun
/// before a signal.
fn measure(
    hosts: &[FleetHost],
    file: &PlanFile,
    plan: &Plan,
    out: &Path,
    arguments: &RunArguments,
    signals: &Signals,
) -> anyhow::Result<Vec<Option<anyhow::Result<u8>>>> {
    let verbosity = arguments.verbosity;
    let at_once = arguments
        .at_once
        .map_or(hosts.len(), |at_once| at_once as usize)
        .min(hosts.len());
    let (lines, next) = (MultiProgress::new(), AtomicUsize::new(0));
    let say_unless_quiet = |text: String| {
        if !verbosity.quiet {
            lines.suspend(|| say(&text));
        }
    };
    let work = |sender: Sender<(usize, anyhow::Result<u8>)>| {
        while !signals.is_interrupted() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(host) = hosts.get(place) else { return };
            say_unless_quiet(format!(
                "host {} of {}: {}",
                place + 1,
                hosts.len(),
                host.name()
            ));
            let made = run_on(
                host,
                file,
                plan,
                &host.run_directory(out),
                verbosity,
                &lines,
            );
            // The receiver lives until all senders have ended.
            let _ = sender.send((place, made));
        }
    };
    let mut measured: Vec<Option<anyhow::Result<u8>>> = hosts.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, ended) = channel();
        for number in 0..at_once {
            let (work, sender) = (&work, sender.clone());
            let started = thread::Builder::new().spawn_scoped(scope, move || work(sender));
            // Fewer threads measure all hosts, too.
            if number == 0 {
                started.context("cannot start a thread")?;
            }
        }
        drop(sender);
        for (number, (place, made)) in (1..).zip(ended) {
            match &made {
                Err(error) if is_of_host(error) => {
                    let _ = lines.suspend(|| exit::report(error));
                }
                Ok(_) => say_unless_quiet(format!(
                    "finished {number} of {}: {}",
                    hosts.len(),
                    hosts[place].name()
                )),
                Err(_) => {}
            }
            measured[place] = Some(made);
        }
        Ok(measured)
    })
}

/// Makes the run on a host, unless its directory has it already.
fn run_on(
    host: &FleetHost,
    file: &PlanFile,
    plan: &Plan,
    directory: &Path,
    verbosity: Verbosity,
    lines: &MultiProgress,
) -> anyhow::Result<u8> {
    let name = host.name();
    if directory.join(RUN_FILE).is_file() {
        let shown = directory.display();
        if Reader::open(directory)?.record.stop_reason.is_some() {
            let fields = [("host", name.into()), ("path", shown.to_string().into())];
            let text = format!("note: {name}: its run exists: {shown}");
            lines.suspend(|| notify(&notice::HOST_KEPT, fields, &text));
            return Ok(exit::DONE);
        }
        let sudo = if host.host.sudo { " --sudo" } else { "" };
        let help = format!(
            "resume it with 'fsb run --resume {shown} --on {name}{sudo}', or remove {shown}"
        );
        return Err(failure::advised(
            &code::INVALID_RUN_SET,
            format!("{name}: its run in {shown} is not complete"),
            help,
        ));
    }
    let mut file = file.clone();
    if let Some(directory) = &host.directory {
        let settings = file.settings;
        file.settings = settings.with_text("dir", directory.to_string_lossy());
    }
    let (output, results, turn) = (None, None, Turn::new(false));
    let run = RemoteRun {
        host: &host.host,
        directory,
        results,
        output,
        verbosity,
        turn,
        beside: Some(lines),
    };
    remote::start(&file, plan, &run)
}

/// A line of the file of hosts.
#[derive(Debug)]
struct FleetHost {
    /// The host alone.
    host: RemoteHost,
    /// The directory of the image there, if it is not that of the plan.
    directory: Option<PathBuf>,
}

impl FleetHost {
    fn name(&self) -> &str {
        &self.host.name
    }

    /// Returns the run directory of the host below that of the fleet.
    fn run_directory(&self, out: &Path) -> PathBuf {
        out.join(remote::directory_name(self.name()))
    }
}

/// Reads the hosts, one a line.
fn read_hosts(path: &Path, sudo: bool) -> anyhow::Result<Vec<FleetHost>> {
    let shown = path.display();
    let text = fsb_store::input::read_text_or_pipe(path, LARGEST_SCRIPT).map_err(|error| {
        failure::failed_call(
            &code::UNREADABLE,
            &error,
            format!("--hosts {shown}: {error}"),
        )
    })?;
    let hosts = parse_hosts(&text, sudo).map_err(|(line, why)| {
        failure::advised(
            &code::INVALID_INPUT,
            format!("--hosts {shown}: line {line}: {why}"),
            LINE,
        )
    })?;
    if hosts.is_empty() {
        return Err(failure::advised(
            &code::INVALID_INPUT,
            format!("--hosts {shown}: it names no host"),
            LINE,
        ));
    }
    Ok(hosts)
}

const LINE: &str = "write USER@HOST [DIRECTORY] on each line";

/// Parses the hosts. An error is the number of the line and the reason.
fn parse_hosts(text: &str, sudo: bool) -> Result<Vec<FleetHost>, (usize, String)> {
    let mut hosts: Vec<FleetHost> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        // The third word of IOzone's lists is the path of its program, which fsb does not need.
        let (name, directory) = match words[..] {
            [] => continue,
            [name] => (name, None),
            [name, directory] | [name, directory, _] => (name, Some(PathBuf::from(directory))),
            _ => return Err((number, format!("{} words", words.len()))),
        };
        let parsed = RemoteHost::parse(name, sudo)
            .map_err(|_| (number, format!("'{name}' is not a host")))?;
        let own = remote::directory_name(name);
        if hosts
            .iter()
            .any(|host| remote::directory_name(host.name()) == own)
        {
            return Err((number, format!("'{name}' is named twice")));
        }
        hosts.push(FleetHost {
            host: parsed,
            directory,
        });
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts_has_comments_and_directories() {
        let text = "# the web servers\nroot@web1\n\nroot@web2 /srv # a large disk\nweb3 /data /usr/bin/iozone\n";
        let hosts = parse_hosts(text, true).unwrap();
        let names: Vec<&str> = hosts.iter().map(FleetHost::name).collect();
        assert_eq!(names, ["root@web1", "root@web2", "web3"]);
        let directories: Vec<Option<&Path>> =
            hosts.iter().map(|host| host.directory.as_deref()).collect();
        assert_eq!(
            directories,
            [None, Some(Path::new("/srv")), Some(Path::new("/data"))]
        );
        assert!(hosts.iter().all(|host| host.host.sudo));
        for (text, line, part) in [
            ("a\nb c d e\n", 2, "4 words"),
            ("-oProxyCommand=x\n", 1, "not a host"),
            ("a,b\n", 1, "not a host"),
            ("a\n# a\na\n", 3, "twice"),
            ("root@a:b\nroot@a-b\n", 2, "twice"),
        ] {
            let (found, why) = parse_hosts(text, false).unwrap_err();
            assert!(
                found == line && why.contains(part),
                "{text:?}: {found}: {why}"
            );
        }
    }
}
