//! The answer to each address, for the server and for files.

use serde::Serialize;

use crate::data::{comparison, matrix, overview, run_list, run_values, series_list};
use crate::links::Links;
use crate::pages;
use crate::problem::Problem;
use crate::query::Query;
use crate::reports;
use crate::site::Site;

/// The Content-Security-Policy of pages: no script, and no request to another origin.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";
/// The Content-Security-Policy of the page of a run that is measured: a script of this server reads
/// its events.
const LIVE_POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; \
    img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The Content-Security-Policy of reports, whose scripts draw charts. The scripts run in a sandbox
/// with an origin of their own.
const DOCUMENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads";

/// The OpenAPI description of `/api`, which `cargo xtask generate` writes.
const DESCRIPTION: &str = include_str!("../../../docs/schema/openapi.json");
/// The CSS of these pages, in addition to the CSS of reports.
const STYLE: &str = include_str!("../templates/style.css");

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A page of this crate.
    Page,
    /// The page of a run that is measured.
    LivePage,
    /// A report with scripts.
    Document,
    Style,
    Script,
    /// Server-sent events.
    Events,
    Json,
    Text,
}

impl Kind {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Kind::Page | Kind::LivePage | Kind::Document => "text/html; charset=utf-8",
            Kind::Style => "text/css; charset=utf-8",
            Kind::Script => "text/javascript; charset=utf-8",
            Kind::Events => "text/event-stream",
            Kind::Json => "application/json",
            Kind::Text => "text/plain; charset=utf-8",
        }
    }

    pub(crate) fn policy(self) -> &'static str {
        match self {
            Kind::Document => DOCUMENT_POLICY,
            Kind::LivePage => LIVE_POLICY,
            _ => PAGE_POLICY,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    pub(crate) content: Vec<u8>,
}

/// A parsed address. Texts are identities as the client sent them.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Home,
    Style,
    AllSeries,
    Series(String),
    AllRuns,
    Run(String),
    Report(String),
    Compare,
    CompareReport,
    Matrix,
    ApiOverview,
    ApiAllSeries,
    ApiSeries(String),
    ApiAllRuns,
    ApiRun(String),
    ApiCompare,
    ApiMatrix,
    ApiDescription,
}

impl Place {
    pub(crate) fn is_api(&self) -> bool {
        matches!(
            self,
            Place::ApiOverview
                | Place::ApiAllSeries
                | Place::ApiSeries(_)
                | Place::ApiAllRuns
                | Place::ApiRun(_)
                | Place::ApiCompare
                | Place::ApiMatrix
                | Place::ApiDescription
        )
    }

    /// Returns the number of directories between the root and the page.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Place::Series(_) | Place::Run(_) | Place::CompareReport => 1,
            Place::Report(_) => 2,
            _ => 0,
        }
    }

    /// Returns the name of the file that holds the answer, or `None` for comparisons, which need a
    /// server.
    pub(crate) fn file(&self) -> Option<String> {
        Some(match self {
            Place::Home => "index.html".to_owned(),
            Place::Style => "style.css".to_owned(),
            Place::AllSeries => "series.html".to_owned(),
            Place::Series(id) => format!("series/{id}.html"),
            Place::AllRuns => "runs.html".to_owned(),
            Place::Run(id) => format!("run/{id}.html"),
            Place::Report(id) => format!("run/{id}/report.html"),
            Place::Matrix => "matrix.html".to_owned(),
            Place::ApiOverview => "api/overview.json".to_owned(),
            Place::ApiAllSeries => "api/series.json".to_owned(),
            Place::ApiSeries(id) => format!("api/series/{id}.json"),
            Place::ApiAllRuns => "api/runs.json".to_owned(),
            Place::ApiRun(id) => format!("api/runs/{id}.json"),
            Place::ApiMatrix => "api/matrix.json".to_owned(),
            Place::ApiDescription => "api/openapi.json".to_owned(),
            Place::Compare | Place::CompareReport | Place::ApiCompare => return None,
        })
    }
}

/// Returns the answer to an address. With `is_file`, links are to files instead of addresses of a
/// server.
pub(crate) fn answer(
    site: &Site,
    place: &Place,
    query: &Query,
    is_file: bool,
) -> Result<Answer, Problem> {
    let links = Links::new(place.depth(), is_file).allowing_runs(site.allows_runs());
    let page = |page: String| {
        Ok(Answer {
            kind: Kind::Page,
            content: page.into_bytes(),
        })
    };
    match place {
        Place::Home => page(pages::home(site, query, &links)?),
        Place::Style => {
            let content = format!("{}\n{STYLE}", fsb_report::STYLE).into_bytes();
            Ok(Answer {
                kind: Kind::Style,
                content,
            })
        }
        Place::AllSeries => page(pages::all_series(site, query, &links)?),
        Place::Series(id) => page(pages::series(site, id, query, &links)?),
        Place::AllRuns => page(pages::all_runs(site, query, &links)?),
        Place::Run(id) => page(pages::run(site, id, &links)?),
        Place::Report(id) => report(site, id),
        Place::Compare => page(pages::compare(site, query, &links)?),
        Place::CompareReport => compare_report(site, query),
        Place::Matrix => page(pages::matrix_page(site, query, &links)?),
        Place::ApiOverview => json(&overview(&*site.analysed(&query.rules()?)?)),
        Place::ApiAllSeries => json(&series_list(site, query, is_file)?),
        Place::ApiSeries(id) => json(&site.series(id, &query.rules()?)?),
        Place::ApiAllRuns => json(&run_list(site, query, is_file)?),
        Place::ApiRun(id) => json(&run_values(site, id)?),
        Place::ApiCompare => json(&comparison(site, query)?),
        Place::ApiMatrix => json(&matrix(site, query.last("kernel"))?),
        Place::ApiDescription => Ok(Answer {
            kind: Kind::Json,
            content: DESCRIPTION.as_bytes().to_vec(),
        }),
    }
}

fn json(value: &impl Serialize) -> Result<Answer, Problem> {
    let mut content =
        serde_json::to_vec(value).map_err(|error| Problem::Failed(error.to_string()))?;
    content.push(b'\n');
    Ok(Answer {
        kind: Kind::Json,
        content,
    })
}

/// Returns the error page, or the error as JSON for `/api`.
pub(crate) fn problem(problem: &Problem, is_api: bool, depth: usize) -> Answer {
    if is_api {
        let text = serde_json::json!({ "status": problem.status().as_u16(), "message": problem.to_string() });
        return Answer {
            kind: Kind::Json,
            content: format!("{text}\n").into_bytes(),
        };
    }
    Answer {
        kind: Kind::Page,
        content: pages::problem(problem, &Links::new(depth, false)).into_bytes(),
    }
}

fn report(site: &Site, id: &str) -> Result<Answer, Problem> {
    let snapshot = site.snapshot()?;
    let source = &snapshot.run(id)?.source;
    if !source.exists() {
        return Err(Problem::NotFound(format!(
            "The run is not at {} any more.",
            source.display()
        )));
    }
    document(reports::run(source))
}

fn compare_report(site: &Site, query: &Query) -> Result<Answer, Problem> {
    let snapshot = site.snapshot()?;
    let [before, after] = ["a", "b"].map(|name| {
        let found = query
            .all(name)
            .map(|id| Ok(snapshot.run(id)?.source.clone()));
        let found = found.collect::<Result<Vec<_>, Problem>>()?;
        if found.is_empty() {
            Err(Problem::Invalid(format!("{name}: name a run")))
        } else {
            Ok(found)
        }
    });
    document(reports::comparison(&before?, &after?))
}

fn document(made: Result<String, String>) -> Result<Answer, Problem> {
    made.map(|page| Answer {
        kind: Kind::Document,
        content: page.into_bytes(),
    })
    .map_err(Problem::NotFound)
}
