//! Lowers commands to flows: each `run` uses the definitions that precede it.

mod sets;
mod threads;

use std::collections::HashMap;

use fsb_model::Bytes;
use fsb_model::flow::{Flow, Quit};
use fsb_model::nearest::{shortened, unknown};

use super::step;
use super::syntax::{At, Attribute, Command, FlowOp, Parsed, Thread as Threads, Written};
use super::value::{Given, Scope, Value};
use super::{Reading, Remark, Run, Script, USUAL_SECONDS};

/// The longest run, in seconds.
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
    /// The number of composite flow operations expanded so far.
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
        // Reports the problems of the definitions as well.
        if !lower.files.is_empty() && !lower.processes.is_empty() {
            lower.run(None, last_line, USUAL_SECONDS);
        }
    } else if lower.script.runs.is_empty() {
        match reading.implied {
            Some(seconds) => lower.run(None, last_line, seconds),
            None => lower.say(last_line, "the file has no 'run': end it with 'run 60', or use --seconds 60"),
        }
    }
    let Lower { mut script, mut problems, .. } = lower;
    // Two runs may report the same place.
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
                    // Reported once: later uses of the variable must not be reported as undefined.
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
                    let message = format!("psrun: fsb prints results at the end, not every {period} s");
                    self.script.notes.push(Remark { line, message });
                }
                self.run_for(line, seconds.as_ref());
            }
            Command::Quit | Command::Nothing => {}
        }
    }

    /// Returns the value that replaces the file's value of a variable.
    fn given(&self, name: &str) -> Option<String> {
        self.reading.values.iter().rev().find(|(known, _)| known == name).map(|(_, text)| text.clone())
    }

    fn composite(&mut self, line: usize, attributes: &'c [Attribute], steps: &'c [FlowOp]) {
        let mut given = Given::new("define flowop", line, attributes, &self.scope, &mut self.problems);
        let name = given.word("name");
        match name {
            None => given.say(line, "a name is missing"),
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
        // A rate of 0 means that nothing is waited for.
        rate.filter(|rate| *rate > 0).map(|rate| rate as f64)
    }
}

/// Translates the message of one of our checks to the attribute names of these files.
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

/// Parses a value that is written as on a command line.
fn value_of(text: &str) -> Value {
    match (text, text.parse::<Bytes>()) {
        ("true" | "false", _) => Value::Flag(text == "true"),
        (_, Ok(number)) => Value::Number(number.0),
        _ => Value::Text(text.to_owned()),
    }
}

/// The lines of the definitions that a check may report.
#[derive(Debug, Default)]
struct Places(HashMap<String, usize>);

impl Places {
    /// Adds a line. The first line of a name is kept.
    fn put(&mut self, place: String, line: usize) {
        self.0.entry(place).or_insert(line);
    }

    fn line(&self, place: &str) -> Option<usize> {
        self.0.get(place).copied()
    }
}
