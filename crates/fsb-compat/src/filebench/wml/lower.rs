//! Lowers commands to flows: each `run` uses the definitions that precede it.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use fsb_model::Bytes;
use fsb_model::flow::{FileSet, Flow, FlowStep, Op, Pick, Quit, Spread, Thread, Width};
use fsb_model::nearest::{shortened, unknown};

use super::parser::{At, Attribute, Command, FlowOp, Parsed, Piece, Thread as Threads, Written};
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

pub(super) fn lower(
    parsed: Parsed,
    reading: &Reading<'_>,
    last_line: usize,
) -> Result<Script, Vec<Remark>> {
    let Parsed {
        commands,
        problems,
        incomplete,
    } = parsed;
    let mut lower = Lower {
        reading,
        scope: Scope {
            incomplete,
            ..Scope::default()
        },
        files: Vec::new(),
        processes: Vec::new(),
        composites: HashMap::new(),
        generator: None,
        quit: Quit::default(),
        script: Script {
            runs: Vec::new(),
            said: Vec::new(),
            notes: Vec::new(),
        },
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
            let message = if known.is_empty() {
                format!("${name} is never set")
            } else {
                unknown("variable", name, known)
            };
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
            None => lower.say(
                last_line,
                "the file has no 'run': end it with 'run 60', or use --seconds 60",
            ),
        }
    }
    let Lower {
        mut script,
        mut problems,
        ..
    } = lower;
    // Two runs may report the same place.
    for remarks in [&mut problems, &mut script.notes] {
        remarks.sort_by(|one, other| (one.line, &one.message).cmp(&(other.line, &other.message)));
        remarks.dedup();
    }
    if problems.is_empty() {
        Ok(script)
    } else {
        Err(problems)
    }
}

impl<'c> Lower<'c> {
    fn say(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Remark {
            line,
            message: message.into(),
        });
    }

    fn command(&mut self, line: usize, command: &'c Command) {
        match command {
            Command::Set(name, _) if self.given(name).is_some() => {
                let value = self
                    .given(name)
                    .map(|text| value_of(&text))
                    .unwrap_or(Value::Number(0));
                self.scope.all.insert(name.clone(), value);
            }
            Command::Next(name, _) if self.given(name).is_some() => {
                self.say(
                    line,
                    format!("${name}: the foreach sets it, so it cannot be set from outside"),
                );
                self.scope.all.insert(name.clone(), Value::Number(1));
            }
            Command::Set(name, written) | Command::Next(name, written) => {
                match self.scope.evaluate(written) {
                    Ok(value) => drop(self.scope.all.insert(name.clone(), value)),
                    Err(why) => {
                        self.say(line, format!("${name}: {why}"));
                        // Reported once: later uses of the variable must not be reported as
                        // undefined.
                        self.scope.all.insert(name.clone(), Value::Number(1));
                    }
                }
            }
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
            Command::Process(attributes, threads) => {
                self.processes.push((line, attributes, threads))
            }
            Command::Composite(attributes, steps) => self.composite(line, attributes, steps),
            Command::EventGenerator(attributes) => self.generator = Some((line, attributes)),
            Command::Echo(pieces) => match self.scope.pieces(pieces) {
                Ok(text) => self.script.said.push(text),
                Err(why) => self.say(line, format!("echo: {why}")),
            },
            Command::Run(seconds) => self.run_for(line, seconds.as_ref()),
            Command::PeriodicRun(period, seconds) => {
                if let Some(period) = period {
                    let message =
                        format!("psrun: fsb prints results at the end, not every {period} s");
                    self.script.notes.push(Remark { line, message });
                }
                self.run_for(line, seconds.as_ref());
            }
            Command::Quit | Command::Nothing => {}
        }
    }

    /// Returns the value that replaces the file's value of a variable.
    fn given(&self, name: &str) -> Option<String> {
        self.reading
            .values
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, text)| text.clone())
    }

    fn composite(&mut self, line: usize, attributes: &'c [Attribute], steps: &'c [FlowOp]) {
        let mut given = Given::new(
            "define flowop",
            line,
            attributes,
            &self.scope,
            &mut self.problems,
        );
        let name = given.word("name");
        match name {
            None => given.say(line, "a name is missing"),
            Some(name) if op(&name).is_some() => {
                given.say(line, format!("{name} is an operation of filebench's"))
            }
            Some(name) => drop(self.composites.insert(name, (line, attributes, steps))),
        }
    }

    fn run_for(&mut self, line: usize, seconds: Option<&Written>) {
        match seconds.map_or(Ok(Value::Number(USUAL_SECONDS)), |written| {
            self.scope.evaluate(written)
        }) {
            Ok(Value::Number(seconds @ 1..=LONGEST)) => self.run(Some(line), line, seconds),
            Ok(other) => self.say(
                line,
                format!(
                    "run {}: a run lasts from 1 to {LONGEST} seconds",
                    shortened(&other.text())
                ),
            ),
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
        let flow = Flow {
            name: self.reading.name.to_owned(),
            about: String::new(),
            rate,
            quit: self.quit,
            filesets,
            threads,
        };
        if self.problems.is_empty() {
            for problem in flow.check() {
                let message = format!("{}: {}", problem.place, in_its_words(&problem.message));
                self.say(places.line(&problem.place).unwrap_or(line), message);
            }
        }
        self.script.runs.push(Run {
            line: written,
            seconds,
            directory,
            flow,
        });
    }

    fn rate(&mut self) -> Option<f64> {
        let (line, attributes) = self.generator?;
        let mut given = Given::new(
            "eventgen",
            line,
            attributes,
            &self.scope,
            &mut self.problems,
        );
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
    for (before, after) in [
        (" takes no ", " takes no "),
        (" needs a ", " needs attribute "),
    ] {
        if let Some((op, key)) = message.split_once(before) {
            let name = NAMES
                .iter()
                .find(|(ours, _)| *ours == key)
                .map_or(key, |(_, name)| name);
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

// Files and filesets: the files that flows work on, and their directory.

/// Bytes of a file without a given size: filebench's default.
const USUAL_SIZE: u64 = 1024;
/// The default shape of a gamma distribution, in thousandths.
const USUAL_GAMMA: u64 = 1500;

impl Lower<'_> {
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
        let mut note = |line, message: &str| {
            notes.push(Remark {
                line,
                message: message.to_owned(),
            })
        };
        let what = if one { "file" } else { "fileset" };
        let mut given = Given::new(what, line, attributes, &self.scope, &mut self.problems);
        let name = given.word("name").unwrap_or_default();
        // `directory` reads the path of all sets.
        given.word("path");
        let size = given.spread("size").or_else(|| given.spread("filesize"));
        let size = size.unwrap_or(Spread::Exact(Bytes(USUAL_SIZE)));
        let prealloc = match given.value("prealloc") {
            None | Some((_, Value::Flag(false))) => 0,
            Some((_, Value::Flag(true))) => 100,
            Some((_, Value::Number(share @ 0..=100))) => share,
            Some((line, other)) => {
                given.say(
                    line,
                    format!("prealloc={} is not a percentage", other.text()),
                );
                0
            }
        };
        // Files are made by several threads anyway.
        given.flag("paralloc");
        if let Some((line, true)) = given.flag("reuse") {
            note(
                line,
                "reuse: fsb makes new files and removes them at the end",
            );
        }
        if let Some((line, true)) = given.flag("cached") {
            note(
                line,
                "cached: new files are in the page cache as far as they fit; fsb does not read them in advance",
            );
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
                note(
                    line,
                    "trusttree: fsb makes new files and removes them at the end",
                );
            }
            // Version 1.4 describes distributions with these two.
            if let Some(gamma) = given.number("filesizegamma").filter(|gamma| *gamma > 0) {
                set.size = Spread::Gamma {
                    mean: Bytes(set.size.mean()),
                    shape: gamma as f64 / 1000.0,
                };
            }
            let gamma = given.number("dirgamma").unwrap_or(USUAL_GAMMA);
            if let Some(mean) = given.number("dirwidth").filter(|mean| *mean > 0) {
                set.width = Width {
                    mean,
                    shape: gamma as f64 / 1000.0,
                };
            }
        }
        given.finish();
        self.script.notes.extend(notes);
        set
    }

    /// Returns the one directory of all sets.
    fn directory(&mut self, line: usize) -> PathBuf {
        let mut found: Option<(usize, PathBuf)> = None;
        for (line, one, attributes) in self.files.clone() {
            let what = if one { "file" } else { "fileset" };
            let mut ignored = Vec::new();
            // `fileset` has reported the other problems already.
            let mut given = Given::new(what, line, attributes, &self.scope, &mut ignored);
            let Some(path) = given.word("path").map(PathBuf::from) else {
                self.say(line, format!("{what}: a path is missing"));
                continue;
            };
            match &found {
                Some((first, other)) if *other != path => {
                    let (first, other) = (*first, other.display().to_string());
                    let message = format!(
                        "{what}: path={}, and that of line {first} is {other}: all sets must be in one directory",
                        path.display()
                    );
                    self.say(line, message);
                }
                Some(_) => {}
                None => found = Some((line, path)),
            }
        }
        if found.is_none() && self.problems.is_empty() {
            self.say(line, "run: no directory: set path=DIR, or use --dir DIR");
        }
        found.map(|(_, path)| path).unwrap_or_default()
    }
}

// Processes and threads, with composite flow operations expanded.

/// The deepest nesting of composite flow operations.
const DEEPEST: usize = 8;
/// The maximum number of steps of a thread after the expansion of composite flow operations.
const MOST_STEPS: usize = 4096;

impl Lower<'_> {
    fn threads(&mut self, places: &mut Places) -> Vec<Thread> {
        let mut threads = Vec::new();
        for (line, attributes, inner) in self.processes.clone() {
            let mut given =
                Given::new("process", line, attributes, &self.scope, &mut self.problems);
            let process = given.word("name").unwrap_or_else(|| "process".to_owned());
            let processes = given.small("instances").unwrap_or(1);
            if let Some(nice) = given.number("nice").filter(|nice| *nice != 0) {
                given.say(line, format!("nice={nice}: fsb does not change priorities"));
            }
            given.finish();
            for thread in inner {
                threads.push(self.thread(thread, &process, processes, places));
            }
        }
        threads
    }

    fn thread(
        &mut self,
        thread: &Threads,
        process: &str,
        processes: u32,
        places: &mut Places,
    ) -> Thread {
        let mut given = Given::new(
            "thread",
            thread.line,
            &thread.attributes,
            &self.scope,
            &mut self.problems,
        );
        let name = given.word("name").unwrap_or_else(|| "thread".to_owned());
        let threads = given.small("instances").unwrap_or(1);
        // Memory is as large as the largest record.
        given.number("memsize");
        given.flag("useism");
        if let Some(priority) = given.number("ioprio").filter(|priority| *priority != 0) {
            given.say(
                thread.line,
                format!("ioprio={priority}: fsb does not change priorities"),
            );
        }
        given.finish();
        let mut steps = Vec::new();
        let scope = self.scope.clone();
        for flowop in &thread.steps {
            self.expand(flowop, &scope, 0, &mut steps);
        }
        places.put(format!("thread {name}"), thread.line);
        for (index, (line, step)) in steps.iter().enumerate() {
            places.put(
                format!("thread {name}, step {} ({})", index + 1, step.title()),
                *line,
            );
        }
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        Thread {
            name,
            process: process.to_owned(),
            processes,
            threads,
            steps,
        }
    }

    /// Expands a flow operation into its steps: one, or those of a composite.
    fn expand(
        &mut self,
        flowop: &FlowOp,
        scope: &Scope,
        depth: usize,
        steps: &mut Vec<(usize, FlowStep)>,
    ) {
        let Some((_, parameters, inner)) = self.composites.get(&flowop.kind).copied() else {
            if op(&flowop.kind).is_none() {
                // It may be a composite whose definition was not understood.
                if self.scope.incomplete {
                    return;
                }
                let own = self.composites.keys().map(String::as_str);
                let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).chain(own).collect();
                let message = unknown("flowop", &flowop.kind, known);
                return self.say(flowop.line, message);
            }
            let step = step(flowop, scope, &mut self.problems, &mut self.script.notes);
            return steps.extend(step.map(|step| (flowop.line, step)));
        };
        let line = flowop.line;
        self.expanded += 1;
        if depth == DEEPEST || self.expanded > 64 * MOST_STEPS {
            return self.say(
                line,
                format!("{}: flowops are nested too deeply", flowop.kind),
            );
        }
        let mut own = scope.clone();
        let mut defaults = Given::new("define flowop", line, parameters, scope, &mut self.problems);
        let names = defaults.variables();
        let wanted: BTreeSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
        own.own = names
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        let what = format!("flowop {}", flowop.kind);
        let mut given = Given::new(what, line, &flowop.attributes, scope, &mut self.problems);
        given.word("name");
        let times = given.number("iters").unwrap_or(1);
        for (name, value) in given.variables() {
            if wanted.contains(&name) {
                own.own.extend(value.map(|value| (name, value)));
            } else {
                given.say(
                    line,
                    unknown("variable", &name, wanted.iter().map(String::as_str)),
                );
            }
        }
        given.finish();
        for _ in 0..times {
            if steps.len() > MOST_STEPS {
                let message = format!(
                    "{}: {times} repetitions have more than {MOST_STEPS} steps",
                    flowop.kind
                );
                return self.say(line, message);
            }
            let before = (self.problems.len(), steps.len());
            inner
                .iter()
                .for_each(|flowop| self.expand(flowop, &own, depth + 1, steps));
            // If one repetition gives a problem or not a single step, so does every other.
            if self.problems.len() > before.0 || steps.len() == before.1 {
                return;
            }
        }
    }
}

/// The operations of filebench, each with ours.
const KINDS: [(&str, Op); 31] = [
    ("createfile", Op::Create),
    ("openfile", Op::Open),
    ("closefile", Op::Close),
    ("closefd", Op::Close),
    ("readwholefile", Op::ReadWhole),
    ("writewholefile", Op::WriteWhole),
    ("appendfile", Op::Append),
    (APPEND_RANDOMLY, Op::Append),
    ("read", Op::Read),
    ("write", Op::Write),
    ("aiowrite", Op::AioWrite),
    ("aiowait", Op::AioWait),
    ("fsync", Op::Sync),
    ("fsyncset", Op::SyncSet),
    ("deletefile", Op::Delete),
    ("statfile", Op::Stat),
    ("listdir", Op::List),
    ("makedir", Op::MakeDirectory),
    ("removedir", Op::RemoveDirectory),
    ("eventlimit", Op::EventLimit),
    ("opslimit", Op::OperationLimit),
    ("iopslimit", Op::IoLimit),
    ("bwlimit", Op::BandwidthLimit),
    ("delay", Op::Delay),
    ("hog", Op::Hog),
    ("block", Op::Block),
    ("wakeup", Op::Wake),
    ("semblock", Op::SemaphoreWait),
    ("sempost", Op::SemaphorePost),
    ("finishoncount", Op::FinishOnCount),
    ("finishonbytes", Op::FinishOnBytes),
];

/// The operation that appends a random number of bytes, at most `iosize`.
const APPEND_RANDOMLY: &str = "appendfilerand";

/// Returns our operation for a name, or `None` if filebench has no operation of that name.
fn op(kind: &str) -> Option<Op> {
    KINDS
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, op)| *op)
}

/// Converts a flow operation to a step and notes its problems. Returns `None` if the operation is
/// unknown.
fn step(
    flowop: &FlowOp,
    scope: &Scope,
    problems: &mut Vec<Remark>,
    notes: &mut Vec<Remark>,
) -> Option<FlowStep> {
    let Some(op) = op(&flowop.kind) else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        problems.push(Remark {
            line: flowop.line,
            message: unknown("flowop", &flowop.kind, known),
        });
        return None;
    };
    let mut given = Given::new(
        format!("flowop {}", flowop.kind),
        flowop.line,
        &flowop.attributes,
        scope,
        problems,
    );
    let mut step = FlowStep::new(op);
    step.name = given.word("name");
    // filebench has two words for it.
    step.set = [given.word("filesetname"), given.word("filename")]
        .into_iter()
        .flatten()
        .next();
    step.fd = given.small("fd");
    step.from = given.small("srcfd").filter(|fd| *fd != 0);
    step.random = given.flag("random").is_some_and(|(_, flag)| flag);
    step.rotate = given.flag("opennext").is_some_and(|(_, flag)| flag);
    step.working_set = given
        .number("workingset")
        .filter(|bytes| *bytes > 0)
        .map(Bytes);
    // Of reads it changes nothing.
    let dsync = given.flag("dsync").is_some_and(|(_, flag)| flag);
    step.dsync = dsync && !matches!(op, Op::Read | Op::ReadWhole);
    step.direct = given.flag("directio").is_some_and(|(_, flag)| flag);
    step.iterations = given.number("iters").filter(|times| *times != 1);
    step.target = given.word("target");
    step.blocking = given.flag("blocking").is_some_and(|(_, flag)| flag);
    step.high_water = given.number("highwater");
    step.index = given.spread("indexed");
    let value = given.number("value");
    match op {
        Op::Delay => step.seconds = value.map(|seconds| seconds as f64),
        _ => step.value = value,
    }
    size(&mut step, flowop, &mut given);
    if let Some((line, true)) = given.flag("noreadahead") {
        notes.push(Remark {
            line,
            message: "noreadahead: fsb does not change the kernel's read-ahead".to_owned(),
        });
    }
    given.finish();
    Some(step)
}

/// Sets the size that `iosize` means in the operation.
fn size(step: &mut FlowStep, flowop: &FlowOp, given: &mut Given<'_>) {
    let Some(size) = given.spread("iosize") else {
        return;
    };
    let line = given.line();
    match step.op {
        // 0 moves the whole file in one call.
        Op::ReadWhole | Op::WriteWhole => match size {
            Spread::Exact(bytes) => step.record = (bytes.0 > 0).then_some(bytes),
            _ => given.say(
                line,
                "iosize varies, but operations on whole files need one size",
            ),
        },
        Op::Append if flowop.kind == APPEND_RANDOMLY => match size {
            Spread::Exact(most) if most.0 > 0 => {
                step.size = Some(Spread::Uniform {
                    low: Bytes(0),
                    high: most,
                })
            }
            Spread::Exact(_) => given.say(line, "iosize=0 appends nothing"),
            _ => given.say(
                line,
                "iosize varies, but the operation already draws its size from 0 to iosize",
            ),
        },
        _ => step.size = Some(size),
    }
}

// Evaluates the values after an `=`.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Flag(bool),
    Text(String),
    Spread(Spread),
}

impl Value {
    /// Returns the text that is printed and that names are built from.
    pub(super) fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(text) => text.clone(),
            Value::Spread(spread) => spread.mean().to_string(),
        }
    }
}

/// Variables with their values: those of the file, and those of the composite flow operation that
/// is being expanded.
#[derive(Debug, Clone, Default)]
struct Scope {
    pub(super) all: HashMap<String, Value>,
    own: HashMap<String, Value>,
    /// Lines that were not understood may have set variables, so no variable counts as unknown.
    pub(super) incomplete: bool,
}

impl Scope {
    fn variable(&self, name: &str) -> Result<Value, String> {
        let found = self.own.get(name).or_else(|| self.all.get(name));
        if found.is_none() && self.incomplete {
            return Ok(Value::Number(1));
        }
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = self
                .all
                .keys()
                .chain(self.own.keys())
                .map(String::as_str)
                .collect();
            if known.is_empty() {
                format!("${name} was never set")
            } else {
                unknown("variable", name, known)
            }
        })
    }

    pub(super) fn pieces(&self, pieces: &[Piece]) -> Result<String, String> {
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Plain(text) => Ok(text.clone()),
                Piece::Variable(name) => self.variable(name).map(|value| value.text()),
            })
            .collect()
    }

    fn evaluate(&self, written: &Written) -> Result<Value, String> {
        match written {
            Written::Number(number) => Ok(Value::Number(*number)),
            Written::Word(word) if word == "true" => Ok(Value::Flag(true)),
            Written::Word(word) if word == "false" => Ok(Value::Flag(false)),
            Written::Word(word) => Ok(Value::Text(word.clone())),
            Written::Text(pieces) => self.pieces(pieces).map(Value::Text),
            Written::Variable(name) => self.variable(name),
            Written::Sum(left, operator, right) => {
                let [left, right] = [left, right].map(|side| match self.evaluate(side)? {
                    Value::Number(number) => Ok(number),
                    other => Err(format!(
                        "'{}' is not a number that fsb can calculate with",
                        shortened(&other.text())
                    )),
                });
                let (left, right) = (left?, right?);
                let result = match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    _ => left.checked_div(right),
                };
                result
                    .map(Value::Number)
                    .ok_or_else(|| format!("{left} {operator} {right} is not a number from 0 up"))
            }
            Written::Random(attributes) => self.random(attributes).map(Value::Spread),
            Written::Custom(attributes) => self.custom(attributes).map(Value::Spread),
            Written::Table => {
                Err("a table of probabilities is not supported: give a size, or a gamma".to_owned())
            }
        }
    }

    /// Evaluates `randvar(type=gamma, mean=16k, gamma=1500)`.
    fn random(&self, attributes: &[Attribute]) -> Result<Spread, String> {
        const KNOWN: [&str; 8] = [
            "type",
            "mean",
            "min",
            "gamma",
            "round",
            "seed",
            "randsrc",
            "randtable",
        ];
        known(attributes, "randvar", &KNOWN)?;
        let number = |name: &str| self.number_of(attributes, name);
        let kind = match self.word_of(attributes, "type")?.as_deref() {
            None | Some("gamma") => "gamma",
            Some("uniform") => "uniform",
            Some("tabular") => {
                return Err(
                    "type=tabular, a table of probabilities, is not supported: give a gamma"
                        .to_owned(),
                );
            }
            Some(other) => {
                return Err(format!(
                    "randvar: {}",
                    unknown("type", other, ["gamma", "uniform"])
                ));
            }
        };
        let mean = number("mean")?.ok_or("a randvar needs a mean")?;
        let least = number("min")?.unwrap_or(0);
        if let Some(round) = number("round")?.filter(|round| *round > 1) {
            return Err(format!(
                "round={round} is not supported: fsb does not round random values"
            ));
        }
        if kind == "uniform" {
            let span = mean
                .checked_sub(least)
                .ok_or_else(|| format!("mean={mean} is below min={least}"))?;
            return uniform(least, least.saturating_add(span.saturating_mul(2)));
        }
        if least > 0 {
            return Err(format!(
                "min={least} of a gamma distribution is not supported: it begins at 0"
            ));
        }
        // Thousandths.
        match number("gamma")?.unwrap_or(1500) {
            0 => Ok(Spread::Exact(Bytes(mean))),
            gamma => Ok(Spread::Gamma {
                mean: Bytes(mean),
                shape: gamma as f64 / 1000.0,
            }),
        }
    }

    /// Evaluates `cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5)`.
    fn custom(&self, attributes: &[Attribute]) -> Result<Spread, String> {
        known(
            attributes,
            "cvar",
            &["type", "parameters", "min", "max", "round"],
        )?;
        for name in ["min", "max", "round"] {
            if let Some(bound) = self
                .number_of(attributes, name)?
                .filter(|bound| *bound > u64::from(name == "round"))
            {
                return Err(format!(
                    "{name}={bound} of a cvar is not supported: fsb does not limit random values"
                ));
            }
        }
        let kind = self
            .word_of(attributes, "type")?
            .ok_or("a cvar needs a type such as cvar-gamma")?;
        let written = self.word_of(attributes, "parameters")?.unwrap_or_default();
        let mut parameters = HashMap::new();
        for pair in written.split(';').filter(|pair| !pair.is_empty()) {
            let read = pair
                .split_once(':')
                .and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
            let (name, value) = read
                .filter(|(_, value)| value.is_finite() && (0.0..=1e15).contains(value))
                .ok_or_else(|| format!("'{pair}' is not a parameter such as mean:16384"))?;
            parameters.insert(name, value);
        }
        let mut take = |name: &str| {
            parameters
                .remove(name)
                .ok_or_else(|| format!("{kind} needs a parameter '{name}'"))
        };
        let spread = match kind.as_str() {
            "cvar-gamma" => {
                let (mean, shape) = (take("mean")?, take("gamma")?);
                Spread::Gamma {
                    mean: Bytes(mean as u64),
                    shape,
                }
            }
            "cvar-uniform" => {
                let (lower, upper) = (take("lower")?, take("upper")?);
                uniform(lower as u64, upper as u64)?
            }
            other => {
                let supported = ["cvar-gamma", "cvar-uniform"];
                return Err(unknown("distribution", other, supported).to_string());
            }
        };
        match parameters.keys().next() {
            None => Ok(spread),
            Some(name) => Err(format!("{kind} has no parameter '{name}'")),
        }
    }

    fn number_of(&self, attributes: &[Attribute], name: &str) -> Result<Option<u64>, String> {
        match self.attribute(attributes, name)? {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(format!(
                "{name}={} is not a number",
                shortened(&other.text())
            )),
        }
    }

    fn word_of(&self, attributes: &[Attribute], name: &str) -> Result<Option<String>, String> {
        match self.attribute(attributes, name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{name}={} is not a word", other.text())),
        }
    }

    fn attribute(&self, attributes: &[Attribute], name: &str) -> Result<Option<Value>, String> {
        let Some(attribute) = attributes.iter().find(|attribute| attribute.name == name) else {
            return Ok(None);
        };
        let written = attribute
            .value
            .as_ref()
            .ok_or_else(|| format!("{name} has no value"))?;
        self.evaluate(written).map(Some)
    }
}

fn uniform(low: u64, high: u64) -> Result<Spread, String> {
    if low == high {
        return Ok(Spread::Exact(Bytes(low)));
    }
    if low > high {
        return Err(format!("the range from {low} to {high} is empty"));
    }
    Ok(Spread::Uniform {
        low: Bytes(low),
        high: Bytes(high.saturating_add(1)),
    })
}

fn known(attributes: &[Attribute], what: &str, names: &[&str]) -> Result<(), String> {
    match attributes
        .iter()
        .find(|attribute| !names.contains(&attribute.name.as_str()))
    {
        None => Ok(()),
        Some(attribute) => Err(format!(
            "{what}: {}",
            unknown("attribute", &attribute.name, names.iter().copied())
        )),
    }
}

/// Reads the attributes of one definition, each once, and notes their problems.
struct Given<'a> {
    /// The definition, for messages: `fileset`, `flowop read`.
    what: String,
    line: usize,
    attributes: &'a [Attribute],
    scope: &'a Scope,
    known: Vec<&'static str>,
    problems: &'a mut Vec<Remark>,
}

impl<'a> Given<'a> {
    pub(super) fn new(
        what: impl Into<String>,
        line: usize,
        attributes: &'a [Attribute],
        scope: &'a Scope,
        problems: &'a mut Vec<Remark>,
    ) -> Given<'a> {
        Given {
            what: what.into(),
            line,
            attributes,
            scope,
            known: Vec::new(),
            problems,
        }
    }

    fn say(&mut self, line: usize, message: impl Into<String>) {
        let message = format!("{}: {}", self.what, message.into());
        self.problems.push(Remark { line, message });
    }

    /// Returns the attribute's line and its value. An attribute without `=` is `true`.
    pub(super) fn value(&mut self, name: &'static str) -> Option<(usize, Value)> {
        self.known.push(name);
        // The last one counts, as in filebench.
        let attribute = self
            .attributes
            .iter()
            .rev()
            .find(|attribute| attribute.name == name)?;
        match attribute
            .value
            .as_ref()
            .map_or(Ok(Value::Flag(true)), |written| {
                self.scope.evaluate(written)
            }) {
            Ok(value) => Some((attribute.line, value)),
            Err(why) => {
                self.say(attribute.line, format!("{name}: {why}"));
                None
            }
        }
    }

    fn typed<T>(
        &mut self,
        name: &'static str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<(usize, T)> {
        let (line, value) = self.value(name)?;
        let read = read(&value).map(|read| (line, read));
        if read.is_none() {
            self.say(
                line,
                format!("{name}={} is not a {what}", shortened(&value.text())),
            );
        }
        read
    }

    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            Value::Spread(Spread::Exact(size)) => Some(size.0),
            _ => None,
        };
        self.typed(name, "number, and it takes one", number)
            .map(|(_, number)| number)
    }

    fn small(&mut self, name: &'static str) -> Option<u32> {
        let number = |value: &Value| match value {
            Value::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        self.typed(name, "number that it takes", number)
            .map(|(_, number)| number)
    }

    fn spread(&mut self, name: &'static str) -> Option<Spread> {
        let spread = |value: &Value| match value {
            Value::Number(number) => Some(Spread::Exact(Bytes(*number))),
            Value::Spread(spread) => Some(*spread),
            _ => None,
        };
        self.typed(name, "number", spread).map(|(_, spread)| spread)
    }

    fn flag(&mut self, name: &'static str) -> Option<(usize, bool)> {
        let flag = |value: &Value| match value {
            Value::Flag(flag) => Some(*flag),
            Value::Number(number) => Some(*number != 0),
            _ => None,
        };
        self.typed(name, "true or false", flag)
    }

    pub(super) fn word(&mut self, name: &'static str) -> Option<String> {
        let word = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        self.typed(name, "name", word).map(|(_, word)| word)
    }

    /// Returns the attributes that are variables: the parameters or arguments of a composite flow
    /// operation.
    pub(super) fn variables(&mut self) -> Vec<(String, Option<Value>)> {
        let mut found = Vec::new();
        for attribute in self.attributes {
            let Some(name) = attribute.name.strip_prefix('$') else {
                continue;
            };
            match attribute
                .value
                .as_ref()
                .map(|written| self.scope.evaluate(written))
                .transpose()
            {
                Ok(value) => found.push((name.to_owned(), value)),
                Err(why) => self.say(attribute.line, format!("{}: {why}", attribute.name)),
            }
        }
        found
    }

    /// Reports the unknown attributes.
    fn finish(mut self) {
        let known = self.known.clone();
        for attribute in self.attributes {
            let name = attribute.name.as_str();
            if !known.contains(&name) && !name.starts_with('$') {
                self.say(
                    attribute.line,
                    unknown("attribute", name, known.iter().copied()),
                );
            }
        }
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }
}
