//! strace's logs: `strace -f -ttt -T -o FILE`, with or without `-y`.

mod calls;
mod line;

use std::collections::HashMap;
use std::io::BufRead;

use super::lines::each;
use super::{Any, Imported, Importer};
use crate::TraceError;
use crate::path::normal;
use crate::resolve::{Past, Resolver, Shared, Sink, Times, Unseen};
use calls::Meaning;
use line::{Line, What};

pub(super) const IMPORTER: Importer = Importer {
    name: "strace",
    about: "-f -ttt -T",
    recognise: |head| {
        let text = String::from_utf8_lossy(head);
        text.lines().take(5).filter_map(Line::parse).any(|line| matches!(line.what, What::Call(_) | What::Begun(_)))
    },
    read,
};

fn read(from: &mut dyn BufRead, root: &[u8], sink: &mut dyn Sink) -> Result<Imported, TraceError> {
    let mut log = Log {
        resolver: Resolver::new(root, Past),
        directory: normal(b"/", root),
        begun: HashMap::new(),
        making: Vec::new(),
        origin_ns: None,
    };
    let (mut skipped, mut sink) = (0, Any(sink));
    each(from, |_, text| match Line::parse(text) {
        Some(line) => log.line(line, &mut sink),
        None => {
            skipped += u64::from(!text.is_empty());
            Ok(())
        }
    })?;
    let (incomplete, mut notes) = log.resolver.finish(&mut sink)?;
    notes.push("file sizes are lower bounds: the furthest byte that was read".to_owned());
    let (tasks, outside) = (log.resolver.tasks(), log.resolver.outside());
    Ok(Imported { tasks, outside, incomplete, notes, skipped })
}

struct Log {
    resolver: Resolver<Past>,
    directory: Vec<u8>,
    /// The beginnings of calls that others interrupted, by process.
    begun: HashMap<u32, (u64, String)>,
    /// The processes that are creating another one, and the properties that both share.
    making: Vec<(u32, Shared)>,
    origin_ns: Option<u64>,
}

impl Log {
    fn line(&mut self, line: Line<'_>, sink: &mut Any<'_>) -> Result<(), TraceError> {
        let origin = *self.origin_ns.get_or_insert(line.time_ns);
        let now = line.time_ns.saturating_sub(origin);
        let process = line.process;
        self.meet(process, now, sink)?;
        match line.what {
            What::Ended => self.resolver.exit(process, now, sink),
            What::Other => Ok(()),
            What::Begun(text) => {
                if let Some(shared) = calls::makes(text) {
                    self.making.push((process, shared));
                }
                self.begun.insert(process, (now, text.to_owned()));
                Ok(())
            }
            What::Resumed(rest) => match self.begun.remove(&process) {
                Some((start, begin)) => self.call(process, start, &format!("{begin}{rest}"), line.took_ns, sink),
                None => Ok(()),
            },
            What::Call(text) => self.call(process, now, text, line.took_ns, sink),
        }
    }

    /// Registers a process that was not seen before as the child of a process that is creating one.
    fn meet(&mut self, process: u32, now: u64, sink: &mut Any<'_>) -> Result<(), TraceError> {
        if self.resolver.knows(process) {
            return Ok(());
        }
        match self.making.pop() {
            Some((parent, shared)) if parent != process => self.resolver.spawn(parent, process, shared, now, sink),
            _ => {
                self.resolver.task(process, &self.directory);
                Ok(())
            }
        }
    }

    fn call(
        &mut self,
        process: u32,
        start_ns: u64,
        text: &str,
        took_ns: u64,
        sink: &mut Any<'_>,
    ) -> Result<(), TraceError> {
        let Some(call) = line::Call::parse(text) else { return Ok(()) };
        let times = Times { start_ns, took_ns, lost_ns: 0 };
        let worked = call.result >= 0;
        match calls::meaning(&call) {
            None => Ok(()),
            Some(Meaning::File(owned)) => match self.resolver.begin(process, &owned.raw(), sink)? {
                Some(begun) => self.resolver.end(process, begun, call.result, times, sink),
                None => Ok(()),
            },
            Some(Meaning::Make(shared)) if worked => {
                self.making.retain(|(parent, _)| *parent != process);
                let child = u32::try_from(call.result).unwrap_or_default();
                if child == 0 || self.resolver.knows(child) {
                    return Ok(());
                }
                self.resolver.spawn(process, child, shared, start_ns, sink)
            }
            Some(Meaning::Wait) if call.result > 0 => {
                self.resolver.wait(process, u32::try_from(call.result).unwrap_or_default(), times, sink)
            }
            Some(Meaning::Execute) if worked => self.resolver.exec(process, start_ns, sink),
            Some(Meaning::Directory(fd, path)) if worked => {
                self.resolver.change_directory(process, fd, path.as_deref());
                Ok(())
            }
            Some(Meaning::CloseOnExec(fd, closes)) if worked => {
                self.resolver.close_on_exec(process, fd, closes);
                Ok(())
            }
            Some(Meaning::CloseRange(first, last)) if worked => {
                self.resolver.close_range(process, (first, last), false, start_ns, sink)
            }
            Some(Meaning::Uring) => {
                self.resolver.unseen(Unseen::Uring);
                Ok(())
            }
            Some(Meaning::Asynchronous) => {
                self.resolver.unseen(Unseen::Asynchronous);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}
