//! The addresses, and the rules that every request must follow.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, get};

use crate::answer::{Answer, Kind, Place, answer, problem};
use crate::control::{self, Control};
use crate::problem::Problem;
use crate::query::Query;
use crate::response::response;
use crate::site::Site;

/// The names under which a browser may reach the server. Other names belong to pages of strangers
/// whose name was made to point here (DNS rebinding).
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The address that the server listens on.
    listen: IpAddr,
    /// Further names.
    names: Vec<String>,
}

impl Hosts {
    /// Returns the address itself, `localhost` and the names that the user gave.
    pub fn new(listen: SocketAddr, names: &[String]) -> Hosts {
        Hosts {
            listen: listen.ip(),
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// Returns whether a host, with or without a port, is this server. No name can be made to point
    /// to an address, so a server that listens on all addresses accepts each of them.
    fn accepts(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        let name = authority.host().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let address = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        !host.contains('@')
            && (name == "localhost"
                || self.names.iter().any(|known| known == name)
                || address
                    .is_ok_and(|address| address == self.listen || self.listen.is_unspecified()))
    }
}

/// Returns the service of a site. `control` adds the pages that start runs.
pub fn router(site: Arc<Site>, hosts: Hosts, control: Option<Control>) -> Router {
    let changes = if control.is_some() {
        control::CHANGES
    } else {
        &[]
    };
    let routes = Router::new()
        .route("/", page(|_| Place::Home))
        .route("/style.css", page(|_| Place::Style))
        .route("/series", page(|_| Place::AllSeries))
        .route("/series/{id}", page(Place::Series))
        .route("/runs", page(|_| Place::AllRuns))
        .route("/run/{id}", page(Place::Run))
        .route("/run/{id}/report", page(Place::Report))
        .route("/compare", page(|_| Place::Compare))
        .route("/compare/report", page(|_| Place::CompareReport))
        .route("/matrix", page(|_| Place::Matrix))
        .route("/api/overview", page(|_| Place::ApiOverview))
        .route("/api/series", page(|_| Place::ApiAllSeries))
        .route("/api/series/{id}", page(Place::ApiSeries))
        .route("/api/runs", page(|_| Place::ApiAllRuns))
        .route("/api/runs/{id}", page(Place::ApiRun))
        .route("/api/compare", page(|_| Place::ApiCompare))
        .route("/api/matrix", page(|_| Place::ApiMatrix))
        .route("/api/openapi.json", page(|_| Place::ApiDescription))
        .fallback(unknown)
        .with_state(site);
    let routes = match control {
        Some(control) => routes.merge(control::routes(Arc::new(control))),
        None => routes,
    };
    routes.layer(middleware::from_fn_with_state(
        Arc::new(Guard { hosts, changes }),
        guard,
    ))
}

/// Returns the handler of a place, whose work is done beside the threads of connections.
fn page(place: fn(String) -> Place) -> MethodRouter<Arc<Site>> {
    get(
        move |State(site): State<Arc<Site>>,
              parameters: RawPathParams,
              RawQuery(query): RawQuery| async move {
            let id = parameters
                .iter()
                .next()
                .map(|(_, id)| id.to_owned())
                .unwrap_or_default();
            let place = place(id);
            let is_api = place.is_api();
            let depth = place.depth();
            let made = tokio::task::spawn_blocking(move || {
                let query = Query::parse(query.as_deref().unwrap_or_default());
                answer(&site, &place, &query, false)
            });
            let made = made.await;
            let made = made
                .unwrap_or_else(|_| Err(Problem::Failed("The page could not be made.".to_owned())));
            match made {
                Ok(answer) => response(StatusCode::OK, answer),
                Err(found) => response(found.status(), problem(&found, is_api, depth)),
            }
        },
    )
}

async fn unknown(request: Request) -> Response {
    let path = request.uri().path();
    let found = Problem::NotFound("The server does not have this page.".to_owned());
    // Relative addresses count from the last slash of the address.
    let depth = path.matches('/').count().saturating_sub(1);
    response(
        StatusCode::NOT_FOUND,
        problem(&found, path.starts_with("/api/"), depth),
    )
}

/// The rules that every request must follow.
struct Guard {
    hosts: Hosts,
    /// The addresses that change something.
    changes: &'static [&'static str],
}

/// Refuses requests that would change something elsewhere than at the addresses for it, that name
/// another host, or that come from the page of another host.
async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answered = match guard.refusal(request.method(), request.uri(), request.headers()) {
        Some((status, text)) => {
            let content = format!("{text}\n").into_bytes();
            let mut refused = response(
                status,
                Answer {
                    kind: Kind::Text,
                    content,
                },
            );
            if status == StatusCode::METHOD_NOT_ALLOWED {
                refused
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            refused
        }
        None => next.run(request).await,
    };
    let always = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in always {
        answered
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answered
}

impl Guard {
    /// Returns the status and the text of a request that is refused.
    fn refusal(
        &self,
        method: &Method,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Option<(StatusCode, &'static str)> {
        let reads = method == Method::GET || method == Method::HEAD;
        let changes = method == Method::POST && self.changes.contains(&target.path());
        if !reads && !changes {
            return Some((
                StatusCode::METHOD_NOT_ALLOWED,
                "fsb serve only answers GET and HEAD: nothing here can be changed.",
            ));
        }
        let all: Vec<&HeaderValue> = headers.get_all(header::HOST).iter().collect();
        let [host] = all[..] else {
            return Some((
                StatusCode::BAD_REQUEST,
                "The request must have one header Host.",
            ));
        };
        let accepts = |host: &str| self.hosts.accepts(host);
        let is_here = host.to_str().is_ok_and(accepts)
            && target.authority().is_none_or(|name| accepts(name.as_str()));
        if !is_here {
            let text = "This server does not have that name. Start it with: fsb serve --host NAME";
            return Some((StatusCode::MISDIRECTED_REQUEST, text));
        }
        // Browsers send it with requests that a page of another site makes.
        let is_foreign = headers.get_all(header::ORIGIN).iter().any(|origin| {
            let host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.split_once("://"));
            !host.is_some_and(|(_, host)| accepts(host))
        });
        if is_foreign || changes && !is_of_own_page(host, headers) {
            return Some((
                StatusCode::FORBIDDEN,
                "The request comes from the page of another site.",
            ));
        }
        None
    }
}

/// Returns whether a request that changes something comes from a page of exactly this server. A
/// page on another port of this machine may belong to another user.
fn is_of_own_page(host: &HeaderValue, headers: &HeaderMap) -> bool {
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    let [origin] = origins[..] else { return false };
    let is_own = origin
        .as_bytes()
        .strip_prefix(b"http://")
        .is_some_and(|origin| origin == host.as_bytes());
    is_own
        && headers
            .get_all("sec-fetch-site")
            .iter()
            .all(|site| site == "same-origin")
}
