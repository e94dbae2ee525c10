//! Remarks at the end of a trace: the activity that it lacks, and notes on its content.

use std::fmt::{self, Display, Formatter};

use fsb_model::units::show_bytes;
use serde::{Deserialize, Serialize};

use crate::call::OUTSIDE;

/// A remark as a trace stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Remark<T> {
    Known(T),
    /// A remark of a later version.
    Other(serde_json::Value),
}

impl<T: Display> Display for Remark<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Remark::Known(remark) => remark.fmt(out),
            Remark::Other(value) => value.fmt(out),
        }
    }
}

impl<T> From<T> for Remark<T> {
    fn from(remark: T) -> Remark<T> {
        Remark::Known(remark)
    }
}

/// All remarks on a trace.
#[derive(Debug)]
pub struct Remarks {
    /// The activity that the trace lacks.
    pub incomplete: Vec<Remark<Gap>>,
    pub notes: Vec<Remark<TraceNote>>,
}

impl Remark<Gap> {
    /// Replaces the names of files.
    pub(crate) fn disguise(&mut self, name: impl Fn(&str) -> String) {
        if let Remark::Known(gap) = self {
            gap.files.iter_mut().for_each(|file| *file = name(file));
        }
    }
}

/// Activity that a trace lacks. A ranking by its replay may be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    pub what: Unseen,
    /// The number of times that the tracer saw it.
    pub times: u64,
    /// The first files below the root that it concerns, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl Gap {
    /// The maximum number of files that a gap names.
    pub const MOST_FILES: usize = 5;

    /// Creates a gap that concerns no known files.
    pub fn new(what: Unseen, times: u64) -> Gap {
        Gap {
            what,
            times,
            files: Vec::new(),
        }
    }
}

impl Display for Gap {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({}", self.what.text(), times(self.times))?;
        for (at, file) in self.files.iter().enumerate() {
            let shown: String = file
                .chars()
                .map(|c| if c.is_control() { '\u{fffd}' } else { c })
                .collect();
            write!(out, "{}{shown}", if at == 0 { ": " } else { ", " })?;
        }
        out.write_str(")")
    }
}

/// I/O that a tracer cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// Stores to a mapping that change the file.
    SharedMapping,
    /// Requests of io_uring.
    Uring,
    /// Requests of io_submit.
    Asynchronous,
    /// Calls of a program of another kind, such as a 32-bit one.
    Foreign,
    /// Calls that came faster than they could be written down.
    Lost,
    /// Calls of processes that are counted in a namespace of their own.
    Namespace,
    /// Calls of tasks that the kernel did not attach to the tracer.
    Untraced,
    /// Paths that lead elsewhere for the program than for the recorder.
    OtherRoot,
    /// Calls that a seccomp supervisor continues. The kernel prefers its verdict to the tracer's.
    Supervised,
    /// Names or data that came from outside the root, and that no call of the trace can stand for.
    Outside,
}

impl Unseen {
    fn text(self) -> &'static str {
        match self {
            Unseen::SharedMapping => "stores to shared mappings of files",
            Unseen::Uring => "requests of io_uring",
            Unseen::Asynchronous => "requests of io_submit",
            Unseen::Foreign => "calls of programs for another kind of processor",
            Unseen::Lost => "calls that came faster than they could be written down",
            Unseen::Namespace => "calls of processes in a PID namespace of their own",
            Unseen::Untraced => "calls of tasks that were created with CLONE_UNTRACED",
            Unseen::OtherRoot => "paths in processes that changed their root directory",
            Unseen::Outside => {
                "names and data that came from outside the root or from files without a name"
            }
            Unseen::Supervised => "calls that a seccomp supervisor of the program may continue",
        }
    }
}

/// A note on the content of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum TraceNote {
    /// Files were mapped. Reads through a mapping are not recorded.
    Mapped { times: u64 },
    /// The kernel moved data between files below the root and files or pipes elsewhere: these calls
    /// are recorded as reads and writes.
    Copied { times: u64, bytes: u64 },
    /// Names were renamed or linked across the border of the root: a replay has the names outside
    /// in a directory of their own.
    Crossed { times: u64 },
    /// The method does not see which thread wakes which.
    WakesUnseen,
    /// A setuid or setgid program ran without its privileges.
    WithoutPrivileges { times: u64 },
    /// The log has the requests of a device, without those that the page cache answered.
    DeviceRequests,
    /// The log has no file sizes. They are taken from the furthest byte that was read.
    SizesAreLowerBounds,
    /// The log has no times.
    NoTimes,
}

impl Display for TraceNote {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TraceNote::Mapped { times: count } => {
                write!(out, "files were mapped {}: reads through a mapping are not recorded", times(*count))
            }
            TraceNote::Copied { times: count, bytes } => write!(
                out,
                "copies moved {} between the root and files or pipes outside, {}: recorded as reads and writes",
                show_bytes(*bytes as f64),
                times(*count)
            ),
            TraceNote::Crossed { times: count } => write!(
                out,
                "names were renamed or linked between the root and directories outside, {}: a replay has the outer \
                 names in a directory whose name begins with {}",
                times(*count),
                String::from_utf8_lossy(OUTSIDE)
            ),
            TraceNote::WakesUnseen => out.write_str(
                "wake-ups between threads were not recorded (eBPF records them, as root outside containers): waits for \
                 other threads count as think time",
            ),
            TraceNote::WithoutPrivileges { times: count } => write!(
                out,
                "a setuid or setgid program ran {} without its privileges: a recorded program gains none",
                times(*count)
            ),
            TraceNote::DeviceRequests => {
                out.write_str("requests of a device: calls that the page cache answered are missing")
            }
            TraceNote::SizesAreLowerBounds => {
                out.write_str("file sizes are lower bounds: the furthest byte that was read")
            }
            TraceNote::NoTimes => {
                out.write_str("version 2 has no times: calls have no think times but those of 'wait'")
            }
        }
    }
}

fn times(count: u64) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_of_newer_versions_are_kept_and_shown() {
        let stored = r#"[{"what":"uring","times":2},{"what":"telepathy"}]"#;
        let gaps: Vec<Remark<Gap>> = serde_json::from_str(stored).unwrap();
        assert_eq!(gaps[0], Gap::new(Unseen::Uring, 2).into());
        let texts: Vec<String> = gaps.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["requests of io_uring (2 times)", r#"{"what":"telepathy"}"#]
        );
        let again: Vec<Remark<Gap>> =
            serde_json::from_str(&serde_json::to_string(&gaps).unwrap()).unwrap();
        assert_eq!(again, gaps);
    }

    #[test]
    fn notes_keep_their_counts() {
        let note = TraceNote::Mapped { times: 3 };
        let stored = serde_json::to_value(note).unwrap();
        assert_eq!(stored, serde_json::json!({ "note": "mapped", "times": 3 }));
        assert_eq!(
            serde_json::from_value::<Remark<TraceNote>>(stored).unwrap(),
            note.into()
        );
    }
}
