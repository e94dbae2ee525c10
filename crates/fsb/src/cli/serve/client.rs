//! The client of the helper in the web process: it passes the requests of pages to the helper.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsb_serve::{Answers, Planned, Problem, RunStatus, Runs, Section};

use super::form;
use super::policy::Permitted;
use super::protocol::{Connection, HelperReply, HelperRequest, LONGEST_REPLY, RefusalKind};

/// Requests for the state of the run within this time get the same answer.
const FRESH: Duration = Duration::from_millis(500);

/// The connection to the helper.
pub(super) struct HelperClient {
    permitted: Permitted,
    connection: Mutex<Connection>,
    last: Mutex<Option<(Instant, RunStatus)>>,
}

impl HelperClient {
    /// Returns the client of the helper at the other end of the stream. The form offers the
    /// permitted media.
    pub(super) fn new(stream: UnixStream, permitted: Permitted) -> io::Result<HelperClient> {
        let connection = Mutex::new(Connection::new(stream, LONGEST_REPLY)?);
        Ok(HelperClient {
            permitted,
            connection,
            last: Mutex::new(None),
        })
    }

    /// Sends a request and returns the reply. A refusal is an error.
    fn ask(&self, request: &HelperRequest) -> Result<HelperReply, Problem> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
            Ok(None) | Err(_) => Err(Problem::Failed(
                "The process that makes runs does not answer.".to_owned(),
            )),
        }
    }

    /// Sends a request that changes the state of the run.
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
    Problem::Failed("The reply of the process that makes runs does not fit the request.".to_owned())
}

impl Runs for HelperClient {
    fn form(&self, answers: &Answers) -> Vec<Section> {
        form::sections(&self.permitted, answers)
    }

    fn plan(&self, answers: &Answers) -> Result<Planned, Problem> {
        let text = form::plan(answers).map_err(Problem::Invalid)?;
        match self.ask(&HelperRequest::Plan { text })? {
            HelperReply::Planned(planned) => Ok(planned),
            _ => Err(unexpected()),
        }
    }

    fn start(&self, digest: &str) -> Result<(), Problem> {
        self.change(&HelperRequest::Start {
            digest: digest.to_owned(),
        })
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
            HelperReply::Status(status) => {
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
