//! The web process's side of the helper: the pages ask it, and it asks the helper.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsb_serve::{Answers, Planned, Problem, RunStatus, Runs, Section};

use super::form;
use super::policy::Permitted;
use super::protocol::{Connection, HelperReply, HelperRequest, HelperStatus, LONGEST_REPLY, PlannedRun, RefusalKind};

/// Pages that look at the run within this time share one look.
const FRESH: Duration = Duration::from_millis(500);

/// The connection to the helper.
pub(super) struct HelperClient {
    permitted: Permitted,
    connection: Mutex<Connection>,
    last: Mutex<Option<(Instant, RunStatus)>>,
}

impl HelperClient {
    /// Returns the client of the helper at the other end of the stream. The form offers what is permitted.
    pub(super) fn new(stream: UnixStream, permitted: Permitted) -> io::Result<HelperClient> {
        let connection = Mutex::new(Connection::new(stream, LONGEST_REPLY)?);
        Ok(HelperClient { permitted, connection, last: Mutex::new(None) })
    }

    fn ask(&self, request: &HelperRequest) -> Result<HelperReply, Problem> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = connection.send(request).and_then(|()| connection.receive());
        match asked {
            Ok(Some(HelperReply::Refused { kind, why })) => Err(match kind {
                RefusalKind::Invalid => Problem::Invalid(why),
                RefusalKind::Busy => Problem::Conflict(why),
                RefusalKind::TooMany => Problem::TooMany(why),
                RefusalKind::Missing => Problem::NotFound(why),
                RefusalKind::Failed => Problem::Failed(why),
            }),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) | Err(_) => Err(Problem::Failed("The process that makes runs does not answer.".to_owned())),
        }
    }

    /// Carries out a request, after which the state of the run may be another.
    fn change(&self, request: &HelperRequest) -> Result<(), Problem> {
        let done = self.ask(request);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match done? {
            HelperReply::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> Problem {
    Problem::Failed("The process that makes runs answered something else.".to_owned())
}

impl Runs for HelperClient {
    fn form(&self, answers: &Answers) -> Vec<Section> {
        form::sections(&self.permitted, answers)
    }

    fn plan(&self, answers: &Answers) -> Result<Planned, Problem> {
        let text = form::plan(answers).map_err(Problem::Invalid)?;
        match self.ask(&HelperRequest::Plan { text })? {
            HelperReply::Planned(PlannedRun { digest, text, cases, targets, time, warnings }) => {
                Ok(Planned { digest, text, cases, targets, time, warnings })
            }
            _ => Err(unexpected()),
        }
    }

    fn start(&self, digest: &str) -> Result<(), Problem> {
        self.change(&HelperRequest::Start { digest: digest.to_owned() })
    }

    fn stop(&self) -> Result<(), Problem> {
        self.change(&HelperRequest::Stop)
    }

    fn status(&self) -> Result<RunStatus, Problem> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, status)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(status.clone());
        }
        match self.ask(&HelperRequest::Status)? {
            HelperReply::Status(HelperStatus { is_running, directory, live, error }) => {
                let status = RunStatus { is_running, directory, live, error };
                *last = Some((Instant::now(), status.clone()));
                Ok(status)
            }
            _ => Err(unexpected()),
        }
    }

    fn report(&self) -> Result<String, Problem> {
        match self.ask(&HelperRequest::Report)? {
            HelperReply::Report { page } => Ok(page),
            _ => Err(unexpected()),
        }
    }
}
