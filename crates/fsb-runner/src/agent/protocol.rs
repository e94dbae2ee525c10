//! The protocol of runner and agent: versioned JSON lines.
//!
//! The runner sends one request at a time, and the agent answers with any number of progress lines
//! and one answer. The first request is `hello`. If the versions differ, two binaries are mixed,
//! and the conversation ends.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fsb_engine::{Rate, Sizing, Stonewall};
use fsb_model::observed::{Deferred, Observed, Rpcs, Spent};
use fsb_model::timeline::{Sustained, Timeline};
use fsb_model::trial::{Reason, Samples, WorkerSpan};
use fsb_model::{Amount, Interference, Outcome, Target, WorkloadSpec};
use fsb_testbed::{Opened, Progress, Provisioned, Setup, TestbedError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::schedule::planner;

/// The version of the protocol that this program speaks.
pub const VERSION: u32 = 1;

/// A request of the runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequest {
    /// Always first.
    Hello {
        /// [`VERSION`] of the runner.
        version: u32,
    },
    /// Make the media and set the controls of the run.
    Open(Box<Setup>),
    /// Make a target ready.
    Provision {
        /// The slot that it gets.
        slot: u32,
        /// The slice of the medium that it gets.
        slice: u32,
        /// The target.
        target: Box<Target>,
    },
    /// Measure a cell on targets that are ready.
    Measure(Box<MeasureRequest>),
    /// Tear down the target of a slot.
    Release(u32),
    /// Undo everything and end.
    Close,
}

/// The time that a budget leaves for a request, from the moment that the agent reads the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// No further repetition or round begins after it. The first one always does.
    pub repeat: Duration,
    /// A worker that still prepares or measures after it is killed.
    pub work: Duration,
    /// The agent waits no longer than this for the target to become idle.
    pub idle: Duration,
}

/// A cell to measure on targets that are ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasureRequest {
    /// The targets, by their slots. A whole has one.
    pub slots: Vec<SlotTrial>,
    /// The workload, resolved; in rounds, that of a unit.
    pub workload: WorkloadSpec,
    /// The slot of the target that the background runs on; absent if that is the target of the
    /// case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_slot: Option<u32>,
    /// The base of its relative sizes.
    pub sizing: Sizing,
    /// The way in which samples are taken.
    pub method: Method,
    /// The run's seed with the block mixed in: data and offsets differ between blocks, not between
    /// targets.
    pub seed: u64,
    /// The attempt, from 1; 0 in the warm-up of a case in rounds. A trial is retried after
    /// interference.
    pub attempt: u32,
    /// eBPF programs observe the samples.
    #[serde(default)]
    pub trace: bool,
    /// The time after which a silent worker is killed.
    pub deadline: Duration,
    /// The time that the budget leaves; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
}

/// The way in which samples are taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The whole workload on one target, while all others are idle.
    SequentialTrial {
        /// The amount of work.
        amount: Amount,
        /// Seconds after which a repetition ends early. Warm-up uses it to find out the amount of
        /// work.
        until_seconds: Option<f64>,
        /// The number of times that the target's journal is to be written in a sample of the steady
        /// state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sustain: Option<f64>,
    },
    /// Rounds of short samples on all targets, each of some units of the workload.
    Rounds {
        /// Each unit has files of its own.
        own_files: bool,
        /// Each round uses the same units again, because caches are emptied between rounds.
        reuse_files: bool,
        /// Operations of a unit.
        operations: u64,
        /// Units of a sample.
        units: u32,
        /// The order of slots in each round.
        orders: Vec<Vec<u32>>,
        /// The first round leads in: it has one unit and does not count.
        lead_in: bool,
        /// Seconds after which no further round begins; absent if all rounds are made.
        until_seconds: Option<f64>,
        /// Rounds that may be repeated because a neighbour was not idle.
        spares: u32,
    },
}

impl MeasureRequest {
    /// Returns the number of units whose files are made.
    pub fn units_made(&self) -> u32 {
        match &self.method {
            Method::SequentialTrial { .. } => 1,
            Method::Rounds {
                reuse_files,
                orders,
                lead_in,
                spares,
                units,
                ..
            } => planner::sets(
                *reuse_files,
                orders.len() as u32 - u32::from(*lead_in),
                *spares,
                *units,
            ),
        }
    }

    /// Returns the longest silence of an agent that measures this. Each step of each target has the
    /// worker's deadline, and between repetitions the agent needs a remount.
    pub fn silence(&self) -> Duration {
        let steps = match &self.method {
            Method::SequentialTrial { amount, .. } => 3 * amount.repetitions.max(1) + 2,
            Method::Rounds { orders, spares, .. } => orders.len() as u32 + spares + 3,
        };
        self.deadline * steps * self.slots.len().max(1) as u32
    }
}

/// One target's trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTrial {
    /// The slot of the target.
    pub slot: u32,
    /// A seed that differs between all trials, for the fake clock of the null file system.
    pub trial_seed: u64,
}

/// A message of the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Greeting.
    Hello {
        /// [`VERSION`] of the agent.
        version: u32,
    },
    /// Progress before the answer.
    Progress(Progress),
    /// The media are made.
    Opened(Box<Opened>),
    /// The target is ready.
    Provisioned(Box<Provisioned>),
    /// The results of the trials, by slot.
    Measured(Vec<(u32, TrialReply)>),
    /// Done.
    Done,
    /// The request failed.
    Failed(TestbedError),
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReply {
    /// Whether it has values.
    pub outcome: Outcome,
    /// The reason why it did not end well.
    pub reason: Option<Reason>,
    /// The measured values; absent if nothing was run.
    pub measured: Option<Measured>,
    /// The observations besides the measured values.
    pub observed: Observed,
    /// The interference with it.
    pub interference: Vec<Interference>,
    /// The samples of a trial in rounds.
    #[serde(default)]
    pub samples: Samples,
    /// Seconds of its steps, for the planner.
    pub spent: Spent,
    /// The target is gone (a remount failed), so nothing more can run on it in this block.
    pub target_lost: bool,
    /// The budget ended before the trial did.
    #[serde(default)]
    pub out_of_time: bool,
}

/// The longest time that a reply may report for one trial: three years.
const LONGEST_SECONDS: f64 = 1e8;

impl TrialReply {
    /// Returns whether all times are possible ones. A hostile guest can report any number, and
    /// estimates add them up.
    pub(crate) fn has_possible_times(&self) -> bool {
        let Spent {
            prepare,
            set_up,
            measure,
            cleanup,
        } = self.spent;
        let longest_ns = (LONGEST_SECONDS * 1e9) as u64;
        let in_range = |times: &[u64]| {
            let sum = times.iter().try_fold(0u64, |sum, ns| sum.checked_add(*ns));
            sum.is_some_and(|sum| sum <= longest_ns)
        };
        let timed = self
            .measured
            .as_ref()
            .map_or(0, |measured| measured.timed_ns);
        [prepare, set_up, measure, cleanup]
            .iter()
            .all(|seconds| (0.0..=LONGEST_SECONDS).contains(seconds))
            && in_range(&[timed])
            && in_range(&self.samples.timed_ns)
            && in_range(&self.samples.unit_ns)
    }
}

/// The sums over all repetitions of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Nanoseconds of the samples.
    pub timed_ns: u64,
    /// Operations finished.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// By thread, or by process.
    pub workers: Vec<WorkerSpan>,
    /// The work of all workers when the first of several ended.
    pub stonewall: Option<Stonewall>,
    /// Base64 HdrHistogram V2 deflate by operation.
    pub latency: BTreeMap<String, String>,
    /// CPU seconds of the worker in user space.
    pub user_seconds: f64,
    /// CPU seconds of the worker in the kernel.
    pub system_seconds: f64,
    /// Bytes read and written by the device; `None` if it has no counters.
    pub device_bytes: Option<u64>,
    /// Flushes served by the device; `None` if it has no counters.
    pub device_flushes: Option<u64>,
    /// Bytes written by the device; `None` if it has no counters.
    #[serde(default)]
    pub device_written: Option<u64>,
    /// The remote procedure calls of the NFS client; absent for other targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpcs: Option<Rpcs>,
    /// Bytes that the workload's files took of the file system; absent if the file system is not
    /// the target's own, or if they took none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<u64>,
    /// The deferred work; absent if nothing was written, or if the device is not the target's own.
    #[serde(default)]
    pub deferred: Option<Deferred>,
    /// Seconds per iteration of each cycle, for the micro-benchmarks.
    pub samples: Vec<f64>,
    /// Start and end of each cycle of those, warm-up cycles first, in nanoseconds of the monotonic
    /// clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle_spans_ns: Vec<[u64; 2]>,
    /// Rates besides the one that targets are compared by, by the name of their metric.
    pub rates: BTreeMap<String, Rate>,
    /// Counts of the workload besides its operations, by name.
    pub counts: BTreeMap<String, u64>,
    /// The timeline of each repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Numbers that a command printed, by name: one each repetition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, Vec<f64>>,
    /// Bytes of memory that the largest process of a command had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// The steady state of the last repetition, if the plan asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Sustained>,
}

// JSON lines over a socket, with a deadline and a length limit, because the other end may be a
// guest that misbehaves.

/// The longest single wait for bytes, so that an interruption is noticed soon.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The longest request. A workload on a recorded tree of a million files, whose shape it holds,
/// takes some 20 MB.
const LONGEST_REQUEST: usize = 64 << 20;
/// The longest reply. The latencies and spans of thousands of workers take a tenth of it.
pub(crate) const LONGEST_REPLY: usize = 16 << 20;
/// The longest answer of a worker of this process. With `fsb iozone -Q` it contains the time of
/// each record.
const LONGEST_ANSWER: usize = 4 << 30;
/// The maximum number of bytes of an invalid line, or characters of an unexpected reply, that an
/// error repeats.
pub(super) const LONGEST_EXCERPT: usize = 200;

/// One end of a conversation.
#[derive(Debug)]
pub struct Lines {
    reader: BufReader<UnixStream>,
    partial: Vec<u8>,
    longest: usize,
}

/// The reason why no line came.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other end is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// `stop` ended the wait.
    #[error("interrupted")]
    Interrupted,
    /// A line exceeds the length limit.
    #[error("a message longer than {} MiB", .0 >> 20)]
    TooLong(usize),
    /// A line is not a message.
    #[error("not a message: {0}")]
    Garbage(String),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Lines {
    /// Returns the end of `stream` that receives requests.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            reader: BufReader::new(stream),
            partial: Vec::new(),
            longest: LONGEST_REQUEST,
        })
    }

    /// Returns the end of `stream` that receives replies.
    pub fn of_replies(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            longest: LONGEST_REPLY,
            ..Lines::new(stream)?
        })
    }

    /// Returns the end of `stream` that receives the answers of a worker.
    pub fn of_worker(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            longest: LONGEST_ANSWER,
            ..Lines::new(stream)?
        })
    }

    /// Sends one message. A message that the other end does not take within a minute is lost with
    /// an error.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        let mut line =
            serde_json::to_vec(message).map_err(|error| LineError::Garbage(error.to_string()))?;
        line.push(b'\n');
        self.send_raw(&line)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, line: &[u8]) -> Result<(), LineError> {
        let mut stream = self.reader.get_ref();
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        match stream.write_all(line) {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Err(LineError::Closed)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a message, without limit if `deadline` is `None`. Calls `stop` first, and again
    /// after each wait for bytes, and gives up if it returns true. Messages that are already there
    /// need no wait, so the first call is necessary.
    pub fn receive<M: DeserializeOwned>(
        &mut self,
        deadline: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<M, LineError> {
        let started = Instant::now();
        if stop() {
            return Err(LineError::Interrupted);
        }
        self.reader.get_ref().set_read_timeout(Some(SLICE))?;
        loop {
            // Reads bytes, not lines, so that a line that trickles in does not outlast the
            // deadline.
            match self.reader.fill_buf() {
                Ok([]) => return Err(LineError::Closed),
                Ok(bytes) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let length = end.map_or(bytes.len(), |end| end + 1);
                    self.partial.extend_from_slice(&bytes[..length]);
                    self.reader.consume(length);
                    if self.partial.len() > self.longest {
                        // Frees the buffer at once, because nothing more is read.
                        self.partial = Vec::new();
                        let _ = self.reader.get_ref().shutdown(std::net::Shutdown::Read);
                        return Err(LineError::TooLong(self.longest));
                    }
                    if end.is_some() {
                        let line = std::mem::take(&mut self.partial);
                        return serde_json::from_slice(&line).map_err(|error| {
                            // The parser's own words may repeat the whole line.
                            let why = excerpt(error.to_string().as_bytes());
                            LineError::Garbage(format!("{why} in '{}'", excerpt(&line)))
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(LineError::Closed);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if stop() {
                return Err(LineError::Interrupted);
            }
            if let Some(deadline) = deadline.filter(|deadline| started.elapsed() >= *deadline) {
                return Err(LineError::Deadline(deadline));
            }
        }
    }
}

/// Returns the beginning of a line for an error.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_EXCERPT)]);
    let more = if line.len() > LONGEST_EXCERPT {
        "…"
    } else {
        ""
    };
    format!("{}{more}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_lines_are_refused_and_invalid_messages_abbreviated() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut right = Lines {
            longest: 1 << 20,
            ..Lines::new(right).unwrap()
        };
        let endless = std::thread::spawn(move || {
            let part = [b'x'; 4096];
            while (&left).write_all(&part).is_ok() {}
        });
        let error = right.receive::<String>(None, &|| false).unwrap_err();
        assert_eq!(error.to_string(), "a message longer than 1 MiB");
        assert_eq!(right.partial.capacity(), 0);
        drop(right);
        endless.join().unwrap();

        let (mut left, mut right) = pair();
        let long = format!("\"{}\"\n", "x".repeat(100_000));
        left.send_raw(long.as_bytes()).unwrap();
        let error = right.receive::<u32>(None, &|| false).unwrap_err();
        assert!(error.to_string().len() < 3 * LONGEST_EXCERPT, "{error}");
    }

    #[test]
    fn a_line_that_trickles_in_does_not_outlast_its_deadline() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut right = Lines::new(right).unwrap();
        let trickle = std::thread::spawn(move || {
            // Faster than one wait for bytes lasts.
            while (&left).write_all(b"x").is_ok() {
                std::thread::sleep(SLICE / 10);
            }
        });
        let short = Some(Duration::from_millis(20));
        assert!(matches!(
            right.receive::<String>(short, &|| false),
            Err(LineError::Deadline(_))
        ));
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
        drop(right);
        trickle.join().unwrap();
    }

    #[test]
    fn an_interruption_is_seen_where_messages_are_always_there() {
        let (mut left, mut right) = pair();
        left.send(&"one").unwrap();
        left.send(&"two").unwrap();
        assert_eq!(right.receive::<String>(None, &|| false).unwrap(), "one");
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
    }

    proptest::proptest! {
        /// For any bytes of the other end, each call returns a message or an error, and the last
        /// one returns `Closed`.
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), words: bool) {
            let mut bytes = bytes;
            if words {
                bytes.iter_mut().for_each(|byte| *byte = b"{}[]\":,\n0123456789.eE-hello version trial"[usize::from(*byte) % 40]);
            }
            let (left, right) = UnixStream::pair().unwrap();
            (&left).write_all(&bytes).unwrap();
            drop(left);
            let mut right = Lines::of_replies(right).unwrap();
            let ended = (0..=bytes.len()).any(|_| match right.receive::<super::Reply>(None, &|| false) {
                Err(LineError::Closed) => true,
                Ok(_) | Err(LineError::Garbage(_)) => false,
                Err(error) => panic!("{error}"),
            });
            proptest::prop_assert!(ended, "more lines than bytes");
        }
    }

    fn pair() -> (Lines, Lines) {
        let (left, right) = UnixStream::pair().unwrap();
        (Lines::new(left).unwrap(), Lines::new(right).unwrap())
    }

    #[test]
    fn messages_arrive_whole_and_in_order_however_they_are_cut() {
        let (mut left, mut right) = pair();
        left.send(&"one").unwrap();
        left.send_raw(b"\"tw").unwrap();
        assert_eq!(right.receive::<String>(None, &|| false).unwrap(), "one");
        let (waiting, waits) = std::sync::mpsc::channel();
        let late = std::thread::spawn(move || {
            // `receive` calls `stop` when it begins, with half of the line, and after a wait for
            // more.
            (0..3).for_each(|_| waits.recv().unwrap());
            left.send_raw(b"o\"\n").unwrap();
        });
        let interrupted = || {
            let _ = waiting.send(());
            false
        };
        assert_eq!(right.receive::<String>(None, &interrupted).unwrap(), "two");
        late.join().unwrap();
        assert!(matches!(
            right.receive::<String>(None, &|| false),
            Err(LineError::Closed)
        ));
    }

    #[test]
    fn a_deadline_an_interruption_and_garbage_are_told_apart() {
        let (mut left, mut right) = pair();
        let short = Some(Duration::from_millis(1));
        assert!(matches!(
            right.receive::<String>(short, &|| false),
            Err(LineError::Deadline(_))
        ));
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
        left.send_raw(b"{nonsense\n").unwrap();
        assert!(matches!(
            right.receive::<String>(None, &|| false),
            Err(LineError::Garbage(_))
        ));
    }
}
