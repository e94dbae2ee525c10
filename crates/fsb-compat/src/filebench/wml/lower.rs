//! From commands to flows: what was defined when `run` comes.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use fsb_model::Bytes;
use fsb_model::flow::{FileSet, Flow, Pick, Quit, Spread, Step, Thread, Width};
use fsb_model::nearest::{shortened, unknown};

use super::parser::{At, Attribute, Command, FlowOp, Parsed, Thread as Threads, Written};
use super::step::{self, KINDS};
use super::value::{Given, Scope, Value};
use super::{Reading, Remark, Run, Script, USUAL_SECONDS};

/// Flow operations made of others lie within each other at most so deep.
const DEEPEST: usize = 8;
/// A thread's steps, when all that is made of others is taken apart.
const MOST_STEPS: usize = 4096;
/// Bytes of a file of which nothing is said: filebench's default.
const USUAL_SIZE: u64 = 1024;
/// A gamma distribution's shape where nothing is said, in thousandths.
const USUAL_GAMMA: u64 = 1500;
/// No run lasts longer.
const LONGEST: u64 = 30 * 86_400;

struct Lower<'c> {
    reading: &'c Reading<'c>,
    scope: Scope,
    files: Vec<(usize, bool, &'c [Attribute])>,
    processes: Vec<(usize, &'c [Attribute], &'c [Threads])>,
    composites: HashMap<String, (usize, &'c [Attribute], &'c [FlowOp])>,
    generator: Option<(usize, &'c [Attribute])>,
    quit: Quit,
    script: Script,
    problems: Vec<Remark>,
    /// How many flow operations were taken apart so far.
    expanded: usize,
}

pub(super) fn lower(parsed: Parsed, reading: &Reading<'_>, last_line: usize) -> Result<Script, Vec<Remark>> {
    let Parsed { commands, problems, incomplete } = parsed;
    let mut lower = Lower {
        reading,
        scope: Scope { incomplete, ..Scope::default() },
        files: Vec::new(),
        processes: Vec::new(),
        composites: HashMap::new(),
        generator: None,
        quit: Quit::default(),
        script: Script { runs: Vec::new(), said: Vec::new(), notes: Vec::new() },
        problems,
        expanded: 0,
    };
    for At { line, value } in &commands {
        if *value == Command::Quit {
            break;
        }
        lower.command(*line, value);
    }
    for (name, _) in reading.values {
        let known: Vec<&str> = lower.scope.all.keys().map(String::as_str).collect();
        if !known.contains(&name.as_str()) && lower.problems.is_empty() {
            let message =
                if known.is_empty() { format!("${name} is never set") } else { unknown("variable", name, known) };
            lower.say(last_line, message);
        }
    }
    if lower.script.runs.is_empty() && !lower.problems.is_empty() {
        // What else is wrong with what is defined is told as well.
        if !lower.files.is_empty() && !lower.processes.is_empty() {
            lower.run(None, last_line, USUAL_SECONDS);
        }
    } else if lower.script.runs.is_empty() {
        match reading.implied {
            Some(seconds) => lower.run(None, last_line, seconds),
            None => lower.say(last_line, "nothing is run: end the file with 'run 60', or give --seconds 60"),
        }
    }
    let Lower { mut script, mut problems, .. } = lower;
    // Of two runs each may tell of the same place.
    for remarks in [&mut problems, &mut script.notes] {
        remarks.sort_by(|one, other| (one.line, &one.message).cmp(&(other.line, &other.message)));
        remarks.dedup();
    }
    if problems.is_empty() { Ok(script) } else { Err(problems) }
}

impl<'c> Lower<'c> {
    fn say(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Remark { line, message: message.into() });
    }

    fn command(&mut self, line: usize, command: &'c Command) {
        match command {
            Command::Set(name, _) if self.given(name).is_some() => {
                let value = self.given(name).map(|text| value_of(&text)).unwrap_or(Value::Number(0));
                self.scope.all.insert(name.clone(), value);
            }
            Command::Set(name, written) => match self.scope.evaluate(written) {
                Ok(value) => drop(self.scope.all.insert(name.clone(), value)),
                Err(why) => {
                    self.say(line, format!("${name}: {why}"));
                    // Said once: who uses it shall not be told that it was never set.
                    self.scope.all.insert(name.clone(), Value::Number(1));
                }
            },
            Command::Mode(mode) => match mode.as_str() {
                "timeout" => self.quit = Quit::Never,
                "firstdone" => self.quit = Quit::FirstDone,
                "alldone" => self.quit = Quit::AllDone,
                other => {
                    let message = unknown("mode", other, ["timeout", "firstdone", "alldone"]);
                    self.say(line, format!("set mode quit: {message}"));
                }
            },
            Command::Files { one, attributes } => self.files.push((line, *one, attributes)),
            Command::Process(attributes, threads) => self.processes.push((line, attributes, threads)),
            Command::Composite(attributes, steps) => self.composite(line, attributes, steps),
            Command::EventGenerator(attributes) => self.generator = Some((line, attributes)),
            Command::Echo(pieces) => match self.scope.pieces(pieces) {
                Ok(text) => self.script.said.push(text),
                Err(why) => self.say(line, format!("echo: {why}")),
            },
            Command::Run(seconds) => self.run_for(line, seconds.as_ref()),
            Command::PeriodicRun(period, seconds) => {
                if let Some(period) = period {
                    let message = format!("psrun: results are printed at the end and not every {period} s");
                    self.script.notes.push(Remark { line, message });
                }
                self.run_for(line, seconds.as_ref());
            }
            Command::Quit | Command::Nothing => {}
        }
    }

    /// What a variable is to be instead of what the file says.
    fn given(&self, name: &str) -> Option<String> {
        self.reading.values.iter().rev().find(|(known, _)| known == name).map(|(_, text)| text.clone())
    }

    fn composite(&mut self, line: usize, attributes: &'c [Attribute], steps: &'c [FlowOp]) {
        let mut given = Given::new("define flowop", line, attributes, &self.scope, &mut self.problems);
        let name = given.word("name");
        match name {
            None => given.say(line, "it needs a name"),
            Some(name) if step::op(&name).is_some() => {
                given.say(line, format!("{name} is an operation of filebench's"))
            }
            Some(name) => drop(self.composites.insert(name, (line, attributes, steps))),
        }
    }

    fn run_for(&mut self, line: usize, seconds: Option<&Written>) {
        match seconds.map_or(Ok(Value::Number(USUAL_SECONDS)), |written| self.scope.evaluate(written)) {
            Ok(Value::Number(seconds @ 1..=LONGEST)) => self.run(Some(line), line, seconds),
            Ok(other) => {
                self.say(line, format!("run {}: a run lasts from 1 to {LONGEST} seconds", shortened(&other.text())))
            }
            Err(why) => self.say(line, format!("run: {why}")),
        }
    }

    fn run(&mut self, written: Option<usize>, line: usize, seconds: u64) {
        let mut places = Places::default();
        let rate = self.rate();
        let filesets = self.filesets(line, &mut places);
        let directory = self.directory(line);
        let threads = self.threads(&mut places);
        if threads.is_empty() && self.problems.is_empty() {
            self.say(line, "run: no process is defined");
        }
        let flow =
            Flow { name: self.reading.name.to_owned(), about: String::new(), rate, quit: self.quit, filesets, threads };
        if self.problems.is_empty() {
            for problem in flow.check() {
                let message = format!("{}: {}", problem.place, in_its_words(&problem.message));
                self.say(places.line(&problem.place).unwrap_or(line), message);
            }
        }
        self.script.runs.push(Run { line: written, seconds, directory, flow });
    }

    fn rate(&mut self) -> Option<f64> {
        let (line, attributes) = self.generator?;
        let mut given = Given::new("eventgen", line, attributes, &self.scope, &mut self.problems);
        let rate = given.number("rate");
        given.finish();
        // None at all: nothing is waited for.
        rate.filter(|rate| *rate > 0).map(|rate| rate as f64)
    }

    fn filesets(&mut self, line: usize, places: &mut Places) -> Vec<FileSet> {
        let files = self.files.clone();
        if files.is_empty() && !self.scope.incomplete {
            self.say(line, "run: no file or fileset is defined");
        }
        let sets = files.into_iter().map(|(line, one, attributes)| {
            let set = self.fileset(line, one, attributes);
            places.put(format!("fileset {}", set.name), line);
            set
        });
        sets.collect()
    }

    fn fileset(&mut self, line: usize, one: bool, attributes: &[Attribute]) -> FileSet {
        let mut notes = Vec::new();
        let mut note = |line, message: &str| notes.push(Remark { line, message: message.to_owned() });
        let what = if one { "file" } else { "fileset" };
        let mut given = Given::new(what, line, attributes, &self.scope, &mut self.problems);
        let name = given.word("name").unwrap_or_default();
        // Where all sets lie is asked for elsewhere.
        given.word("path");
        let size = given.spread("size").or_else(|| given.spread("filesize"));
        let size = size.unwrap_or(Spread::Exact(Bytes(USUAL_SIZE)));
        let prealloc = match given.value("prealloc") {
            None | Some((_, Value::Flag(false))) => 0,
            Some((_, Value::Flag(true))) => 100,
            Some((_, Value::Number(share @ 0..=100))) => share,
            Some((line, other)) => {
                given.say(line, format!("prealloc={} is no percentage", other.text()));
                0
            }
        };
        // Files are made by several threads anyway.
        given.flag("paralloc");
        if let Some((line, true)) = given.flag("reuse") {
            note(line, "reuse: the files are made anew, and removed at the end");
        }
        if let Some((line, true)) = given.flag("cached") {
            note(line, "cached: what was made is in the page cache as far as it fits, and nothing more is done");
        }
        let read_only = given.flag("readonly").is_some_and(|(_, flag)| flag);
        let mut set = FileSet {
            name,
            files: 1,
            directories: 0,
            size,
            width: Width::default(),
            preallocated: prealloc as f64 / 100.0,
            pick: Pick::Rotate,
            read_only,
        };
        if !one {
            set.files = given.number("entries").unwrap_or(0);
            set.directories = given.number("leafdirs").unwrap_or(0);
            if let Some((line, true)) = given.flag("trusttree") {
                note(line, "trusttree: the files are made anew, and removed at the end");
            }
            // 1.4 spreads by these two.
            if let Some(gamma) = given.number("filesizegamma").filter(|gamma| *gamma > 0) {
                set.size = Spread::Gamma { mean: Bytes(set.size.mean()), shape: gamma as f64 / 1000.0 };
            }
            let gamma = given.number("dirgamma").unwrap_or(USUAL_GAMMA);
            if let Some(mean) = given.number("dirwidth").filter(|mean| *mean > 0) {
                set.width = Width { mean, shape: gamma as f64 / 1000.0 };
            }
        }
        given.finish();
        self.script.notes.extend(notes);
        set
    }

    /// The one directory that all sets lie in.
    fn directory(&mut self, line: usize) -> PathBuf {
        let mut found: Option<(usize, PathBuf)> = None;
        for (line, one, attributes) in self.files.clone() {
            let what = if one { "file" } else { "fileset" };
            let mut ignored = Vec::new();
            // What is wrong with the others was said already.
            let mut given = Given::new(what, line, attributes, &self.scope, &mut ignored);
            let Some(path) = given.word("path").map(PathBuf::from) else {
                self.say(line, format!("{what}: it needs a path"));
                continue;
            };
            match &found {
                Some((first, other)) if *other != path => {
                    let (first, other) = (*first, other.display().to_string());
                    let message = format!(
                        "{what}: path={}, and that of line {first} is {other}: all sets must lie in one directory",
                        path.display()
                    );
                    self.say(line, message);
                }
                Some(_) => {}
                None => found = Some((line, path)),
            }
        }
        if found.is_none() && self.problems.is_empty() {
            self.say(line, "run: no directory is named");
        }
        found.map(|(_, path)| path).unwrap_or_default()
    }

    fn threads(&mut self, places: &mut Places) -> Vec<Thread> {
        let mut threads = Vec::new();
        for (line, attributes, inner) in self.processes.clone() {
            let mut given = Given::new("process", line, attributes, &self.scope, &mut self.problems);
            let process = given.word("name").unwrap_or_else(|| "process".to_owned());
            let processes = given.small("instances").unwrap_or(1);
            if let Some(nice) = given.number("nice").filter(|nice| *nice != 0) {
                given.say(line, format!("nice={nice}: priorities are not changed"));
            }
            given.finish();
            for thread in inner {
                threads.push(self.thread(thread, &process, processes, places));
            }
        }
        threads
    }

    fn thread(&mut self, thread: &Threads, process: &str, processes: u32, places: &mut Places) -> Thread {
        let mut given = Given::new("thread", thread.line, &thread.attributes, &self.scope, &mut self.problems);
        let name = given.word("name").unwrap_or_else(|| "thread".to_owned());
        let threads = given.small("instances").unwrap_or(1);
        // Memory is as large as the largest record.
        given.number("memsize");
        given.flag("useism");
        if let Some(priority) = given.number("ioprio").filter(|priority| *priority != 0) {
            given.say(thread.line, format!("ioprio={priority}: priorities are not changed"));
        }
        given.finish();
        let mut steps = Vec::new();
        let scope = self.scope.clone();
        for flowop in &thread.steps {
            self.expand(flowop, &scope, 0, &mut steps);
        }
        places.put(format!("thread {name}"), thread.line);
        for (index, (line, step)) in steps.iter().enumerate() {
            places.put(format!("thread {name}, step {} ({})", index + 1, step.title()), *line);
        }
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        Thread { name, process: process.to_owned(), processes, threads, steps }
    }

    /// The steps of a flow operation: one, or those that it is made of.
    fn expand(&mut self, flowop: &FlowOp, scope: &Scope, depth: usize, steps: &mut Vec<(usize, Step)>) {
        let Some((_, parameters, inner)) = self.composites.get(&flowop.kind).copied() else {
            if step::op(&flowop.kind).is_none() {
                // It may be one that was not understood where it was defined.
                if self.scope.incomplete {
                    return;
                }
                let own = self.composites.keys().map(String::as_str);
                let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).chain(own).collect();
                let message = unknown("flowop", &flowop.kind, known);
                return self.say(flowop.line, message);
            }
            let step = step::step(flowop, scope, &mut self.problems, &mut self.script.notes);
            return steps.extend(step.map(|step| (flowop.line, step)));
        };
        let line = flowop.line;
        self.expanded += 1;
        if depth == DEEPEST || self.expanded > 64 * MOST_STEPS {
            return self.say(line, format!("{}: flowops lie within each other too deep", flowop.kind));
        }
        let mut own = scope.clone();
        let mut defaults = Given::new("define flowop", line, parameters, scope, &mut self.problems);
        let names = defaults.variables();
        let wanted: BTreeSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
        own.own = names.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let what = format!("flowop {}", flowop.kind);
        let mut given = Given::new(what, line, &flowop.attributes, scope, &mut self.problems);
        given.word("name");
        let times = given.number("iters").unwrap_or(1);
        for (name, value) in given.variables() {
            if wanted.contains(&name) {
                own.own.extend(value.map(|value| (name, value)));
            } else {
                given.say(line, unknown("variable", &name, wanted.iter().map(String::as_str)));
            }
        }
        given.finish();
        for _ in 0..times {
            if steps.len() > MOST_STEPS {
                let message = format!("{}: {times} times its steps are more than {MOST_STEPS}", flowop.kind);
                return self.say(line, message);
            }
            let before = (self.problems.len(), steps.len());
            inner.iter().for_each(|flowop| self.expand(flowop, &own, depth + 1, steps));
            // What is wrong, or nothing, is so each time.
            if self.problems.len() > before.0 || steps.len() == before.1 {
                return;
            }
        }
    }
}

/// What a check of ours says, with the attribute's name in these files.
fn in_its_words(message: &str) -> String {
    const NAMES: [(&str, &str); 10] = [
        ("set", "filesetname"),
        ("set, or a fd", "filesetname, or an fd"),
        ("size", "iosize"),
        ("record", "iosize"),
        ("iterations", "iters"),
        ("high_water", "highwater"),
        ("working_set", "workingset"),
        ("rotate", "opennext"),
        ("from", "srcfd"),
        ("index", "indexed"),
    ];
    for (before, after) in [(" takes no ", " takes no "), (" needs a ", " needs attribute ")] {
        if let Some((op, key)) = message.split_once(before) {
            let name = NAMES.iter().find(|(ours, _)| *ours == key).map_or(key, |(_, name)| name);
            return format!("{op}{after}{name}");
        }
    }
    message.to_owned()
}

/// A value as it stands on a command line.
fn value_of(text: &str) -> Value {
    match (text, text.parse::<Bytes>()) {
        ("true" | "false", _) => Value::Flag(text == "true"),
        (_, Ok(number)) => Value::Number(number.0),
        _ => Value::Text(text.to_owned()),
    }
}

/// Where everything stands that a check may find fault with.
#[derive(Debug, Default)]
struct Places(HashMap<String, usize>);

impl Places {
    /// The first one of a name holds.
    fn put(&mut self, place: String, line: usize) {
        self.0.entry(place).or_insert(line);
    }

    fn line(&self, place: &str) -> Option<usize> {
        self.0.get(place).copied()
    }
}
