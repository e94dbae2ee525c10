//! The addresses that plan, start, watch and stop runs.
//!
//! All of them need the token that the server prints when it starts. `/login` turns it into a
//! cookie. Addresses that change something also need the value that only the pages of this server
//! contain, and an `Origin` that is exactly this server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Frame;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::{Semaphore, mpsc};

use crate::answer::{Answer, Kind, problem};
use crate::control_pages as pages;
use crate::problem::Problem;
use crate::query::Query;
use crate::response::response;
use crate::runs::{RunStatus, Runs};

/// The addresses that change something.
pub(crate) const CHANGES: &[&str] = &["/start", "/stop"];
/// The script of the page of a run.
const SCRIPT: &str = include_str!("../templates/live.js");
/// The largest form, in bytes.
const LARGEST_FORM: usize = 16 << 10;
/// The time in which a client must send a form.
const PATIENCE: Duration = Duration::from_secs(15);
/// The interval at which the server reads the state of a run for its watchers.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum number of pages that receive events. Others show the state at the time of the
/// request.
const WATCHERS: usize = 32;

/// Starts runs for clients that have the token.
pub struct Control {
    runs: Box<dyn Runs>,
    token: String,
    form_token: String,
    cookie: String,
    watchers: Arc<Semaphore>,
}

impl Control {
    /// Returns the control of runs with a new token. `port` is that of the server: the cookies of a
    /// machine are shared by its ports.
    ///
    /// # Errors
    ///
    /// The kernel returns no random numbers.
    pub fn new(runs: Box<dyn Runs>, port: u16) -> std::io::Result<Control> {
        let (token, form_token) = (random()?, random()?);
        let watchers = Arc::new(Semaphore::new(WATCHERS));
        Ok(Control {
            runs,
            token,
            form_token,
            cookie: format!("fsb-{port}"),
            watchers,
        })
    }

    /// Returns the path and the query of the address that opens the pages.
    pub fn address(&self) -> String {
        format!("login?token={}", self.token)
    }

    /// Refuses a request without the cookie.
    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let cookies = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let is_known =
            pairs.any(|(name, value)| name == self.cookie && is_equal(value, &self.token));
        let missing = "Open the address with the token that fsb serve has printed.";
        if is_known {
            Ok(())
        } else {
            Err(Problem::Forbidden(missing.to_owned()))
        }
    }
}

/// Returns 256 random bits as text.
fn random() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on where the texts differ.
fn is_equal(one: &str, other: &str) -> bool {
    let differences = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

/// Returns the service of these addresses.
pub(crate) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/login", get(login))
        .route("/new", get(new))
        .route("/plan", get(plan))
        .route("/start", post(start))
        .route("/live", get(live))
        .route("/live.js", get(script))
        .route("/live/events", get(events))
        .route("/live/report", get(report))
        .route("/stop", post(stop))
        .with_state(control)
}

fn answer(kind: Kind, content: String) -> Answer {
    Answer {
        kind,
        content: content.into_bytes(),
    }
}

/// Does work on a thread for blocking calls, and returns its answer as a response.
async fn answered(
    depth: usize,
    work: impl FnOnce() -> Result<Answer, Problem> + Send + 'static,
) -> Response {
    let made = tokio::task::spawn_blocking(work).await;
    match made.unwrap_or_else(|_| Err(Problem::Failed("The page could not be made.".to_owned()))) {
        Ok(answer) => {
            let mut response = response(StatusCode::OK, answer);
            // With the policy of the other pages, browsers would send forms with the origin `null`.
            response.headers_mut().insert(
                header::REFERRER_POLICY,
                HeaderValue::from_static("same-origin"),
            );
            response
        }
        Err(found) => refused(&found, depth),
    }
}

fn refused(found: &Problem, depth: usize) -> Response {
    response(found.status(), problem(found, false, depth))
}

/// Returns a response that leads the browser to a page beside this one.
fn redirect(page: &'static str) -> Response {
    let mut response = response(StatusCode::SEE_OTHER, answer(Kind::Text, String::new()));
    response
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_static(page));
    response
}

async fn login(State(control): State<Arc<Control>>, RawQuery(query): RawQuery) -> Response {
    let query = Query::parse(query.as_deref().unwrap_or_default());
    if !is_equal(query.last("token"), &control.token) {
        return refused(
            &Problem::Forbidden("This is not the token that fsb serve has printed.".to_owned()),
            0,
        );
    }
    let mut response = redirect("new");
    let cookie = format!(
        "{}={}; HttpOnly; SameSite=Strict; Path=/",
        control.cookie, control.token
    );
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

async fn new(
    State(control): State<Arc<Control>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    answered(0, move || {
        control.check(&headers)?;
        let answers = Query::parse(query.as_deref().unwrap_or_default()).pairs();
        Ok(answer(
            Kind::Page,
            pages::new_run(control.runs.form(&answers))?,
        ))
    })
    .await
}

async fn plan(
    State(control): State<Arc<Control>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    answered(0, move || {
        control.check(&headers)?;
        let query = query.unwrap_or_default();
        let planned = control.runs.plan(&Query::parse(&query).pairs())?;
        Ok(answer(
            Kind::Page,
            pages::plan(planned, &query, &control.form_token)?,
        ))
    })
    .await
}

async fn live(State(control): State<Arc<Control>>, headers: HeaderMap) -> Response {
    answered(0, move || {
        control.check(&headers)?;
        Ok(answer(
            Kind::LivePage,
            pages::live(control.runs.status()?, &control.form_token)?,
        ))
    })
    .await
}

async fn script() -> Response {
    response(StatusCode::OK, answer(Kind::Script, SCRIPT.to_owned()))
}

async fn report(State(control): State<Arc<Control>>, headers: HeaderMap) -> Response {
    answered(1, move || {
        control.check(&headers)?;
        Ok(answer(Kind::Document, control.runs.report()?))
    })
    .await
}

async fn start(State(control): State<Arc<Control>>, request: Request) -> Response {
    changed(control, request, |control, form| {
        control.runs.start(form.last("digest"))
    })
    .await
}

async fn stop(State(control): State<Arc<Control>>, request: Request) -> Response {
    changed(control, request, |control, _| control.runs.stop()).await
}

/// Makes the change of a form that has the token of forms, and leads to the page of the run.
async fn changed(
    control: Arc<Control>,
    request: Request,
    change: impl FnOnce(&Control, &Query) -> Result<(), Problem> + Send + 'static,
) -> Response {
    if let Err(found) = control.check(request.headers()) {
        return refused(&found, 0);
    }
    let body = tokio::time::timeout(PATIENCE, to_bytes(request.into_body(), LARGEST_FORM)).await;
    let Ok(Ok(body)) = body else {
        return refused(
            &Problem::Invalid("The form is too large, or it came too slowly.".to_owned()),
            0,
        );
    };
    let made = tokio::task::spawn_blocking(move || {
        let form = Query::parse(&String::from_utf8_lossy(&body));
        if !is_equal(form.last("form_token"), &control.form_token) {
            return Err(Problem::Forbidden(
                "The form is not one of this server. Load its page again.".to_owned(),
            ));
        }
        change(&control, &form)
    });
    match made
        .await
        .unwrap_or_else(|_| Err(Problem::Failed("The request could not be made.".to_owned())))
    {
        Ok(()) => redirect("live"),
        Err(found) => refused(&found, 0),
    }
}

// Server-sent events: the state of the run whenever it changes, until the run ends.

/// Events as they are made.
struct EventStream(mpsc::Receiver<Bytes>);

impl HttpBody for EventStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0
            .poll_recv(context)
            .map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

async fn events(State(control): State<Arc<Control>>, headers: HeaderMap) -> Response {
    if let Err(found) = control.check(&headers) {
        return refused(&found, 1);
    }
    let Ok(place) = Arc::clone(&control.watchers).try_acquire_owned() else {
        return refused(
            &Problem::TooMany("Too many pages watch the run.".to_owned()),
            1,
        );
    };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        send_events(control, sender).await;
        drop(place);
    });
    let mut streamed = response(StatusCode::OK, answer(Kind::Events, String::new()));
    *streamed.body_mut() = Body::new(EventStream(receiver));
    streamed
}

/// Sends the state of the run whenever it changes, until it ends or the client has gone.
async fn send_events(control: Arc<Control>, sender: mpsc::Sender<Bytes>) {
    let mut last = None;
    loop {
        let looking = Arc::clone(&control);
        let Ok(Ok(status)) = tokio::task::spawn_blocking(move || looking.runs.status()).await
        else {
            return;
        };
        let is_running = status.is_running;
        let event = event(&status);
        if last.as_ref() != Some(&event) {
            if sender.send(event.clone()).await.is_err() {
                return;
            }
            last = Some(event);
        } else if sender.is_closed() {
            return;
        }
        if !is_running {
            return;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Returns the state of a run as an event. JSON has no line breaks, which would end the event.
fn event(status: &RunStatus) -> Bytes {
    format!("data: {}\n\n", pages::live_texts(status)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_as_a_whole() {
        let token = random().unwrap();
        assert!(token.len() == 64 && token != random().unwrap());
        assert!(
            is_equal(&token, &token.clone())
                && !is_equal(&token[..63], &token)
                && !is_equal("", &token)
        );
        assert!(!is_equal(&format!("{token}0"), &token));
    }
}
