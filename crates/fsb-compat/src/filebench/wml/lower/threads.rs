//! Processes and threads, with composite flow operations expanded.

use std::collections::BTreeSet;

use fsb_model::flow::{Step, Thread};
use fsb_model::nearest::unknown;

use super::{Lower, Places};
use crate::filebench::wml::step::{self, KINDS};
use crate::filebench::wml::syntax::{FlowOp, Thread as Threads};
use crate::filebench::wml::value::{Given, Scope};

/// The deepest nesting of composite flow operations.
const DEEPEST: usize = 8;
/// The most steps of a thread after the expansion of composite flow operations.
const MOST_STEPS: usize = 4096;

impl Lower<'_> {
    pub(super) fn threads(&mut self, places: &mut Places) -> Vec<Thread> {
        let mut threads = Vec::new();
        for (line, attributes, inner) in self.processes.clone() {
            let mut given = Given::new("process", line, attributes, &self.scope, &mut self.problems);
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

    fn thread(&mut self, thread: &Threads, process: &str, processes: u32, places: &mut Places) -> Thread {
        let mut given = Given::new("thread", thread.line, &thread.attributes, &self.scope, &mut self.problems);
        let name = given.word("name").unwrap_or_else(|| "thread".to_owned());
        let threads = given.small("instances").unwrap_or(1);
        // Memory is as large as the largest record.
        given.number("memsize");
        given.flag("useism");
        if let Some(priority) = given.number("ioprio").filter(|priority| *priority != 0) {
            given.say(thread.line, format!("ioprio={priority}: fsb does not change priorities"));
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

    /// Expands a flow operation into its steps: one, or those of a composite.
    fn expand(&mut self, flowop: &FlowOp, scope: &Scope, depth: usize, steps: &mut Vec<(usize, Step)>) {
        let Some((_, parameters, inner)) = self.composites.get(&flowop.kind).copied() else {
            if step::op(&flowop.kind).is_none() {
                // It may be a composite whose definition was not understood.
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
            return self.say(line, format!("{}: flowops are nested too deeply", flowop.kind));
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
                let message = format!("{}: {times} repetitions have more than {MOST_STEPS} steps", flowop.kind);
                return self.say(line, message);
            }
            let before = (self.problems.len(), steps.len());
            inner.iter().for_each(|flowop| self.expand(flowop, &own, depth + 1, steps));
            // If one repetition gives a problem or not a single step, so does every other.
            if self.problems.len() > before.0 || steps.len() == before.1 {
                return;
            }
        }
    }
}
