//! The pages that plan, start and watch runs.

use askama::Template;
use fsb_report::live::RunState;
use fsb_report::visible;
use serde_json::{Value, json};

use crate::frame::{Frame, render};
use crate::links::Links;
use crate::problem::Problem;
use crate::runs::{FieldKind, Planned, RunStatus, Section};

fn links() -> Links {
    Links::new(0, false).allowing_runs(true)
}

#[derive(Template)]
#[template(path = "new.html")]
struct NewRun<'a> {
    frame: Frame<'a>,
    sections: Vec<Section>,
}

/// Returns the form of a new run.
pub(crate) fn new_run(sections: Vec<Section>) -> Result<String, Problem> {
    let links = links();
    render(&NewRun {
        frame: Frame::new("New run", &links),
        sections,
    })
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage<'a> {
    frame: Frame<'a>,
    planned: Planned,
    /// The address of the form with its answers.
    form: String,
    form_token: &'a str,
}

/// Returns the page of a resolved plan. `query` holds the answers of the form.
pub(crate) fn plan(planned: Planned, query: &str, form_token: &str) -> Result<String, Problem> {
    let links = links();
    let form = format!("{}?{query}", links.new_run());
    render(&PlanPage {
        frame: Frame::new("Plan", &links),
        planned,
        form,
        form_token,
    })
}

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage<'a> {
    frame: Frame<'a>,
    status: RunStatus,
    texts: Value,
    form_token: &'a str,
}

impl LivePage<'_> {
    fn text(&self, name: &str) -> &str {
        self.texts[name].as_str().unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.texts[name].as_u64().unwrap_or(0)
    }

    fn is_resumable(&self) -> bool {
        self.status
            .live
            .as_ref()
            .is_some_and(|live| live.state != RunState::Complete)
    }
}

/// Returns the page of the last run.
pub(crate) fn live(status: RunStatus, form_token: &str) -> Result<String, Problem> {
    let links = links();
    let texts = live_texts(&status);
    render(&LivePage {
        frame: Frame::new("Run", &links),
        status,
        texts,
        form_token,
    })
}

/// Returns the texts of the page that change while a run is measured, by the name of their place.
pub(crate) fn live_texts(status: &RunStatus) -> Value {
    let live = status.live.as_ref();
    let progress = match live {
        Some(live) => live.progress.clone(),
        None if status.is_running => "checking the plan".to_owned(),
        None if status.directory.is_empty() => "No run was started.".to_owned(),
        None => "The run did not begin.".to_owned(),
    };
    let shown = |text: &str| visible::lines(text).into_owned();
    json!({
        "name": shown(live.map(|live| &*live.name).unwrap_or_default()),
        "progress": shown(&progress),
        "time": live.map(|live| &*live.time).unwrap_or_default(),
        "table": shown(live.map(|live| &*live.table).unwrap_or_default()),
        "affected": live.map(|live| &*live.affected).unwrap_or_default(),
        "notes": shown(&live.map(|live| live.notes.join("\n")).unwrap_or_default()),
        "done": live.map_or(0, |live| live.done),
        "of": live.map_or(0, |live| live.of),
        "is_running": status.is_running,
    })
}
