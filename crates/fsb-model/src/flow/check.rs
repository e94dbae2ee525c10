//! Checks a flow and reports all problems at once, each with its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{
    Attribute, FileSet, Flow, FlowStep, MOST_DESCRIPTORS, MOST_FILES, MOST_THREADS, Op, Thread,
};
use crate::nearest::unknown;

/// The maximum number of files that a thread keeps open for a step with `rotate`.
const MOST_TURNING: u64 = 512;

/// A problem of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The place of the problem: `thread reader, step 3 (append)`.
    pub place: String,
    /// The problem, and the values that are allowed.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl Flow {
    /// Reads a flow from TOML and checks it.
    ///
    /// # Errors
    ///
    /// Returns the syntax error with line and column, or all problems with their places, one per
    /// line.
    pub fn from_toml(text: &str) -> Result<Flow, String> {
        let flow: Flow =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let problems = flow.check();
        if problems.is_empty() {
            return Ok(flow);
        }
        Err(problems
            .iter()
            .map(Problem::to_string)
            .collect::<Vec<_>>()
            .join("\n"))
    }

    /// Returns all problems. A flow without problems can be performed.
    pub fn check(&self) -> Vec<Problem> {
        let mut checker = Checker {
            flow: self,
            problems: Vec::new(),
        };
        checker.whole();
        checker.problems
    }
}

struct Checker<'f> {
    flow: &'f Flow,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn say(&mut self, place: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            place: place.to_owned(),
            message: message.into(),
        });
    }

    fn whole(&mut self) {
        let flow = self.flow;
        if flow.name.trim().is_empty() || flow.name.contains(char::is_control) {
            self.say("name", "a flow needs a name of one line");
        }
        if let Some(rate) = flow.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1e9)) {
            self.say(
                "rate",
                format!("{rate} is not above 0 and at most 1000000000 events a second"),
            );
        }
        if flow.filesets.is_empty() {
            self.say("fileset", "a flow needs at least one set of files");
        }
        if flow.instances() == 0 || flow.instances() > MOST_THREADS {
            self.say(
                "thread",
                format!(
                    "{} threads: from 1 to {MOST_THREADS} can be run",
                    flow.instances()
                ),
            );
        }
        let mut names = BTreeSet::new();
        for set in &flow.filesets {
            if !names.insert(&set.name) {
                self.say(
                    &format!("fileset {}", set.name),
                    "there is another set of this name",
                );
            }
            self.fileset(set);
        }
        let mut names = BTreeSet::new();
        for thread in &flow.threads {
            if !names.insert((&thread.process, &thread.name)) {
                self.say(
                    &format!("thread {}", thread.name),
                    "there is another thread of this name",
                );
            }
            self.thread(thread);
        }
    }

    fn fileset(&mut self, set: &FileSet) {
        let place = format!("fileset {}", set.name);
        if set.name.is_empty()
            || set.name.len() > 64
            || !set
                .name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
            || set.name.starts_with('.')
        {
            self.say(
                &place,
                "a name has up to 64 letters, digits, '-', '_' and '.', because it is also the name of a \
                directory",
            );
        }
        if set.files + set.directories == 0 || set.files.max(set.directories) > MOST_FILES {
            self.say(
                &place,
                format!("files = {}: from 1 to {MOST_FILES} can be used", set.files),
            );
        }
        if let Some(why) = set.size.problem() {
            self.say(&place, format!("size: {why}"));
        }
        if set.size.mean() > 1 << 44 {
            self.say(&place, "size: no file can have more than 16 TiB");
        }
        if set.width.mean == 0 || !(set.width.shape >= 0.0 && set.width.shape <= 1e6) {
            self.say(
                &place,
                "width: its mean is at least 1, its gamma not below 0",
            );
        }
        if !(0.0..=1.0).contains(&set.preallocated) {
            self.say(
                &place,
                format!(
                    "preallocated = {} is not a share from 0 to 1",
                    set.preallocated
                ),
            );
        }
    }

    fn thread(&mut self, thread: &Thread) {
        let place = format!("thread {}", thread.name);
        if thread.name.is_empty() || thread.steps.is_empty() {
            self.say(&place, "a thread needs a name and at least one step");
        }
        if thread.instances() == 0 {
            self.say(&place, "0 threads: leave the thread out, or use at least 1");
        }
        if !thread
            .steps
            .iter()
            .any(|step| step.op.is_counted() && step.op != Op::AioWait)
        {
            self.say(&place, "none of its steps accesses files");
        }
        for (index, step) in thread.steps.iter().enumerate() {
            let place = format!("{place}, step {} ({})", index + 1, step.title());
            self.keys(&place, step);
            self.references(&place, thread, step);
        }
        self.descriptors(thread);
    }

    /// Reports keys that the operation does not take, and missing keys that it needs.
    fn keys(&mut self, place: &str, step: &FlowStep) {
        let takes = step.op.takes();
        for (_, key) in step
            .said()
            .into_iter()
            .filter(|(attribute, _)| !takes.contains(attribute))
        {
            self.say(place, format!("{} takes no {key}", step.op.name()));
        }
        let needs = match step.op {
            Op::Create
            | Op::Open
            | Op::SyncSet
            | Op::List
            | Op::MakeDirectory
            | Op::RemoveDirectory => ("set", step.set.is_some()),
            Op::Append | Op::Read | Op::Write | Op::AioWrite => ("size", step.size.is_some()),
            Op::Delete | Op::Stat => ("set, or a fd", step.set.is_some() || step.fd.is_some()),
            Op::Delay => ("seconds", step.seconds.is_some()),
            Op::Hog
            | Op::SemaphoreWait
            | Op::SemaphorePost
            | Op::FinishOnCount
            | Op::FinishOnBytes => ("value", step.value.is_some()),
            Op::Wake => ("target", step.target.is_some()),
            _ => ("", true),
        };
        if !needs.1 {
            self.say(place, format!("{} needs a {}", step.op.name(), needs.0));
        }
        if step.op == Op::SemaphorePost && step.target.is_none() {
            self.say(place, "semaphore-post needs a target");
        }
        if let Some(fd) = [step.fd, step.from]
            .into_iter()
            .flatten()
            .find(|fd| *fd >= MOST_DESCRIPTORS)
        {
            self.say(
                place,
                format!(
                    "fd = {fd}: descriptors go from 0 to {}",
                    MOST_DESCRIPTORS - 1
                ),
            );
        }
        for spread in [&step.size, &step.index].into_iter().flatten() {
            if let Some(why) = spread.problem() {
                self.say(place, why);
            }
        }
        if step.op.takes().contains(&Attribute::Size) {
            let least = step.size.map_or(1, |size| {
                if step.op == Op::Append {
                    1
                } else {
                    size.mean()
                }
            });
            if least == 0 || step.size.is_some_and(|size| size.mean() > 1 << 30) {
                self.say(place, "size: a call moves from 1 byte to 1G");
            }
        }
        if step
            .record
            .is_some_and(|record| record.0 == 0 || record.0 > 1 << 30)
        {
            self.say(place, "record: a call moves from 1 byte to 1G");
        }
        if step.iterations == Some(0) {
            self.say(
                place,
                "iterations = 0: leave the step out, or use at least 1",
            );
        }
        if step
            .seconds
            .is_some_and(|seconds| !(0.0..=86_400.0).contains(&seconds))
        {
            self.say(place, "seconds: a delay lasts from 0 to 86400");
        }
        if step.rotate && (step.set.is_none() || step.fd.is_some()) {
            self.say(
                place,
                "rotate needs a set and takes no fd: all files of the set are open",
            );
        }
        let turning = step
            .set
            .as_deref()
            .filter(|_| step.rotate)
            .and_then(|name| self.flow.fileset(name));
        if turning.is_some_and(|set| set.files > MOST_TURNING) {
            self.say(
                place,
                format!("rotate keeps all files open: the set may have at most {MOST_TURNING}"),
            );
        }
        if step.working_set.is_some() && !step.random {
            self.say(
                place,
                "working_set limits random positions: add random = true",
            );
        }
        let sized = step.op.moves_data()
            && step
                .working_set
                .is_some_and(|set| step.size.is_some_and(|size| size.mean() > set.0));
        if sized {
            self.say(place, "working_set is smaller than size");
        }
    }

    /// Checks the sets and steps that the step names.
    fn references(&mut self, place: &str, thread: &Thread, step: &FlowStep) {
        if let Some(name) = &step.set {
            match self.flow.fileset(name) {
                None => {
                    let known: Vec<_> = self
                        .flow
                        .filesets
                        .iter()
                        .map(|set| set.name.as_str())
                        .collect();
                    self.say(place, unknown("fileset", name, known));
                }
                Some(set) => {
                    let directories = matches!(step.op, Op::MakeDirectory | Op::RemoveDirectory);
                    if directories && set.directories == 0 {
                        self.say(
                            place,
                            format!("fileset {name} has no directories: give their number"),
                        );
                    } else if !directories && set.files == 0 {
                        self.say(place, format!("fileset {name} has no files"));
                    }
                    if set.read_only && (step.op.writes() || step.op == Op::Create) {
                        self.say(place, format!("fileset {name} is read_only"));
                    }
                }
            }
        }
        let Some(target) = &step.target else { return };
        let all: Vec<_> = self
            .flow
            .threads
            .iter()
            .flat_map(|thread| &thread.steps)
            .collect();
        let (wanted, among): (&[Op], Vec<&FlowStep>) = match step.op {
            Op::Wake => (&[Op::Block], all),
            Op::SemaphorePost => (&[Op::SemaphoreWait], all),
            _ => (&[], thread.steps.iter().collect()),
        };
        match among.iter().find(|step| step.title() == target) {
            None => self.say(
                place,
                unknown(
                    "step",
                    target,
                    among.iter().map(|step| step.title()).collect::<Vec<_>>(),
                ),
            ),
            Some(found) if !wanted.is_empty() && !wanted.contains(&found.op) => {
                let wanted: Vec<_> = wanted.iter().map(|op| op.name()).collect();
                self.say(
                    place,
                    format!("target {target} is not a {}", wanted.join(" or ")),
                );
            }
            Some(found) if wanted.is_empty() && !found.op.is_counted() => {
                self.say(place, format!("target {target} does no work on files"));
            }
            Some(_) => {}
        }
    }

    /// Follows the descriptors of a thread through two passes, up to the first problem. A step uses
    /// only open descriptors, and opens only closed ones.
    fn descriptors(&mut self, thread: &Thread) {
        let mut open: BTreeMap<u32, bool> = thread
            .beforehand()
            .into_iter()
            .map(|(fd, _)| (fd, true))
            .collect();
        for pass in 0..2 {
            for (index, step) in thread.steps.iter().enumerate() {
                let place = format!(
                    "thread {}, step {} ({})",
                    thread.name,
                    index + 1,
                    step.title()
                );
                let fd = step.descriptor();
                let is_open = open.get(&fd).copied().unwrap_or(false);
                match step.op {
                    Op::Create | Op::Open if is_open => {
                        let when = if pass == 0 {
                            ""
                        } else {
                            " when the thread begins again"
                        };
                        self.say(
                            &place,
                            format!("fd {fd} is still open{when}: close it first"),
                        );
                        return;
                    }
                    Op::Create | Op::Open => drop(open.insert(fd, true)),
                    Op::Close | Op::Sync if !is_open => {
                        self.say(&place, format!("fd {fd} is not open"));
                        return;
                    }
                    Op::Close => drop(open.insert(fd, false)),
                    op if op.moves_data() && !step.rotate && !is_open => {
                        self.say(
                            &place,
                            format!("fd {fd} is not open: open it before, or name a set"),
                        );
                        return;
                    }
                    // A file may be deleted by the descriptor that it had.
                    Op::Delete if step.set.is_none() && open.contains_key(&fd) => {}
                    Op::Delete | Op::Stat if step.set.is_none() && !is_open => {
                        self.say(
                            &place,
                            format!("fd {fd} is not open: open it before, or name a set"),
                        );
                        return;
                    }
                    _ => {}
                }
                if let Some(from) = step
                    .from
                    .filter(|from| !open.get(from).copied().unwrap_or(false))
                {
                    self.say(&place, format!("from = {from} is not open"));
                    return;
                }
            }
        }
    }
}

impl Thread {
    /// Returns the descriptors that no step opens, each with the first step that uses it and names
    /// a set. Their files are opened before the clock starts and stay open.
    pub fn beforehand(&self) -> Vec<(u32, &FlowStep)> {
        let opened: BTreeSet<u32> = self
            .steps
            .iter()
            .filter(|step| matches!(step.op, Op::Create | Op::Open))
            .map(FlowStep::descriptor)
            .collect();
        let mut found: BTreeMap<u32, &FlowStep> = BTreeMap::new();
        for step in &self.steps {
            if step.op.moves_data()
                && step.set.is_some()
                && !step.rotate
                && !opened.contains(&step.descriptor())
            {
                found.entry(step.descriptor()).or_insert(step);
            }
        }
        found.into_iter().collect()
    }
}
