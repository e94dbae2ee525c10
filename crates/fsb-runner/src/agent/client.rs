//! The runner's end of the conversation with an agent.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsb_model::Target;
use fsb_testbed::{Opened, Progress, Provisioned, Setup, Slot, TestbedError, host};

use super::protocol::{AgentRequest, MeasureRequest, Reply, TrialReply, VERSION};
use super::{failed, refused_lost};
use crate::lines::{LONGEST_EXCERPT, LineError, Lines};

/// The reason why an agent gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent refused the request.
    #[error("{0}")]
    Refused(TestbedError),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// The agent is gone, or violates the protocol.
    #[error("the agent that owns the testbed is gone: {0}")]
    Gone(String),
}

impl From<LineError> for AgentError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Interrupted => AgentError::Interrupted,
            other => AgentError::Gone(other.to_string()),
        }
    }
}

/// The runner's connection to an agent.
#[derive(Debug)]
pub struct Agent {
    lines: Lines,
    interrupted: Arc<AtomicBool>,
    /// Whether an interruption ends the cell that is measured early, with the samples so far, and
    /// the run after it. Otherwise it abandons the cell.
    keeps_samples: bool,
    /// Processes that the kernel had killed for lack of memory when the agent was greeted.
    oom_kills: Option<u64>,
}

/// Making and filling media is bounded by progress, not by time: a disk of 20 TB takes a day.
const OPEN_SILENCE: Duration = Duration::from_secs(600);
/// mkfs and mount of the largest devices.
const PROVISION: Duration = Duration::from_secs(1800);
/// Unmounting writes back what is dirty.
const RELEASE: Duration = Duration::from_secs(600);
/// The maximum number of progress reports of one request. An honest agent sends five per second, so
/// this is enough for weeks.
const MOST_PROGRESS: usize = 10_000_000;
/// The error of an agent that sends more.
pub(crate) const CHATTER: &str = "it sends progress reports without end";
/// The longest wait for the greeting. A running agent answers at once.
const HELLO: Duration = Duration::from_secs(30);

impl Agent {
    /// Greets the agent at the other end of `stream`. `interrupted` ends any wait.
    pub fn connect(stream: UnixStream, interrupted: Arc<AtomicBool>) -> Result<Self, AgentError> {
        let lines =
            Lines::of_replies(stream).map_err(|error| AgentError::Gone(error.to_string()))?;
        let mut agent = Agent {
            lines,
            interrupted,
            keeps_samples: false,
            oom_kills: host::oom_kills(),
        };
        match agent.ask(
            &AgentRequest::Hello { version: VERSION },
            HELLO,
            &mut |_| {},
        )? {
            Reply::Hello { version: VERSION } => Ok(agent),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes an interruption end the cell that is measured early, with the samples so far.
    pub fn keep_samples(&mut self) {
        self.keeps_samples = true;
    }

    /// Makes the media and sets the controls of the run.
    pub fn open(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, AgentError> {
        match self.ask(
            &AgentRequest::Open(Box::new(setup.clone())),
            OPEN_SILENCE,
            progress,
        )? {
            Reply::Opened(opened) => Ok(*opened),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a target ready, in a slot and on a slice of its medium.
    pub fn provision(
        &mut self,
        (slot, slice): (u32, u32),
        target: &Target,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Provisioned, AgentError> {
        let request = AgentRequest::Provision {
            slot,
            slice,
            target: Box::new(target.clone()),
        };
        match self.ask(&request, PROVISION, progress)? {
            Reply::Provisioned(provisioned) => Ok(*provisioned),
            other => Err(unexpected(&other)),
        }
    }

    /// Measures a cell; `progress` receives reports on the way. Returns one reply for each slot of
    /// the request, in its order, whatever the agent answers, because the agent may be in a guest.
    pub fn measure(
        &mut self,
        request: MeasureRequest,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<(Slot, TrialReply)>, AgentError> {
        let silence = request.silence() + RELEASE;
        let slots: Vec<Slot> = request.slots.iter().map(|trial| trial.slot).collect();
        match self.ask(&AgentRequest::Measure(Box::new(request)), silence, progress)? {
            Reply::Measured(mut replies) => {
                let mut reply_of = |slot| {
                    let at = replies.iter().position(|(answered, _)| *answered == slot);
                    (
                        slot,
                        at.map_or_else(
                            || failed("the agent gave no answer for it"),
                            |at| possible(replies.swap_remove(at).1),
                        ),
                    )
                };
                Ok(slots.into_iter().map(&mut reply_of).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Tears down the target of a slot.
    pub fn release(&mut self, slot: u32) -> Result<(), AgentError> {
        self.ask(&AgentRequest::Release(slot), RELEASE, &mut |_| {})
            .map(|_| ())
    }

    /// Undoes everything and ends the agent.
    pub fn close(mut self) -> Result<(), AgentError> {
        self.ask(&AgentRequest::Close, RELEASE, &mut |_| {})
            .map(|_| ())
    }

    /// Sends a request and returns the answer. `silence` is the longest time without a line.
    fn ask(
        &mut self,
        request: &AgentRequest,
        silence: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reply, AgentError> {
        self.lines.send(request)?;
        let interrupted = Arc::clone(&self.interrupted);
        let mut stops = self.keeps_samples && matches!(request, AgentRequest::Measure(_));
        let mut stopped = false;
        for _ in 0..MOST_PROGRESS {
            let reply = self.lines.receive(Some(silence), &|| {
                !stopped && interrupted.load(Ordering::Relaxed)
            });
            if stops && matches!(reply, Err(LineError::Interrupted)) {
                (stops, stopped) = (false, true);
                self.lines.send(&AgentRequest::Stop)?;
                continue;
            }
            match reply.map_err(|error| self.gone(error))? {
                Reply::Progress(done) => progress(done),
                Reply::Failed(error) => return Err(AgentError::Refused(error)),
                reply => return Ok(reply),
            }
        }
        Err(AgentError::Gone(CHATTER.to_owned()))
    }

    /// Returns the reason of a missing reply, with the cause of the agent's end where it is known.
    fn gone(&self, error: LineError) -> AgentError {
        match error {
            LineError::Closed if host::oom_kills() > self.oom_kills => AgentError::Gone(
                "the kernel killed a process for lack of memory; allow more (its memory cgroup)"
                    .to_owned(),
            ),
            other => other.into(),
        }
    }
}

/// Replaces a reply that reports impossible times by a failed trial.
fn possible(reply: TrialReply) -> TrialReply {
    if reply.has_possible_times() {
        reply
    } else {
        refused_lost("the agent reported impossible times".to_owned())
    }
}

fn unexpected(reply: &Reply) -> AgentError {
    AgentError::Gone(format!("it answered {}", said(reply)))
}

/// Returns the beginning of an unexpected reply.
pub(crate) fn said(reply: &Reply) -> String {
    format!("{reply:?}").chars().take(LONGEST_EXCERPT).collect()
}
