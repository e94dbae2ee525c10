//! The pages: text and tables that need no script. The address of a page holds its whole state.

use std::collections::BTreeSet;

use askama::Template;
use fsb_history::series::{Change, Difference, HistoryPoint, LevelSpan};
use fsb_history::text::{
    change_text, compared_text, differences_text, minute, short, unchanged_text, variation_text,
};
use fsb_history::{IndexedRun, Labels, RunsCompared, SeriesHistory, SeriesKey, unit_named};
use fsb_report::series_chart::{ChartLevel, ChartPoint, SeriesChart, svg};
use fsb_report::show::{counted, minus, percent, percent_above};
use fsb_stats::Verdict;

use crate::data::{
    Matrix, Overview, RunList, RunValues, SeriesList, comparison, environment_between, matrix,
    overview, run_list, run_values, series_list,
};
use crate::frame::{Frame, render};
use crate::links::Links;
use crate::problem::Problem;
use crate::query::{Query, Rules};
use crate::site::Site;

/// The maximum number of runs that a form offers.
const OFFERED: usize = 300;

/// The choice of the rules of the analysis.
struct RulesForm {
    /// The conditions in which runs differ, and whether the analysis ignores them.
    conditions: Vec<(String, bool)>,
    theta: String,
}

impl RulesForm {
    fn new<'s>(rules: &Rules, series: impl Iterator<Item = &'s SeriesHistory>) -> RulesForm {
        let mut names: Vec<String> = rules.across.clone();
        for series in series {
            let since = series
                .environments
                .iter()
                .filter_map(|environment| environment.since.as_ref());
            names.extend(
                since
                    .flat_map(|since| &since.differences)
                    .map(|difference| difference.name.clone()),
            );
        }
        names.sort();
        names.dedup();
        let conditions = names.into_iter().map(|name| {
            let is_across = rules.across.contains(&name);
            (name, is_across)
        });
        RulesForm {
            conditions: conditions.collect(),
            theta: percent(rules.theta).replace(' ', ""),
        }
    }
}

#[derive(Template)]
#[template(path = "home.html")]
struct Home<'a> {
    frame: Frame<'a>,
    found: Overview,
    form: RulesForm,
}

/// Returns the first page: the newest changes and runs. The snapshot keeps the page of the server
/// by the default rules.
pub(crate) fn home(site: &Site, query: &Query, links: &Links) -> Result<String, Problem> {
    let snapshot = site.snapshot()?;
    let is_kept = !links.is_file && query.is_empty();
    if let Some(page) = snapshot.home.get().filter(|_| is_kept) {
        return Ok(page.clone());
    }
    let rules = query.rules()?;
    let found = overview(&*site.analysed(&rules)?);
    let form = RulesForm::new(&rules, snapshot.document.series.iter());
    let frame = Frame::of_api("What changed lately", links, "overview", query);
    let page = render(&Home { frame, found, form })?;
    Ok(if is_kept {
        snapshot.home.get_or_init(|| page).clone()
    } else {
        page
    })
}

#[derive(Template)]
#[template(path = "series_list.html")]
struct AllSeries<'a> {
    frame: Frame<'a>,
    found: SeriesList,
    pages: Pages,
}

/// Returns the list of series.
pub(crate) fn all_series(site: &Site, query: &Query, links: &Links) -> Result<String, Problem> {
    let found = series_list(site, query, links.is_file)?;
    let pages = Pages::new(query, found.page, found.pages);
    let frame = list_frame("Series", query, links, "series");
    render(&AllSeries {
        frame,
        found,
        pages,
    })
}

#[derive(Template)]
#[template(path = "runs.html")]
struct AllRuns<'a> {
    frame: Frame<'a>,
    found: RunList,
    pages: Pages,
}

/// Returns the list of runs.
pub(crate) fn all_runs(site: &Site, query: &Query, links: &Links) -> Result<String, Problem> {
    let found = run_list(site, query, links.is_file)?;
    let pages = Pages::new(query, found.page, found.pages);
    let frame = list_frame("Runs", query, links, "runs");
    render(&AllRuns {
        frame,
        found,
        pages,
    })
}

fn list_frame<'a>(title: &str, query: &Query, links: &'a Links, path: &str) -> Frame<'a> {
    Frame {
        search: query.last("q").to_owned(),
        ..Frame::of_api(title, links, path, query)
    }
}

/// The addresses of the pages of a list beside this one.
struct Pages {
    number: usize,
    count: usize,
    before: Option<String>,
    after: Option<String>,
    /// The parameters of the search, for the list of the other kind.
    search: String,
}

impl Pages {
    fn new(query: &Query, number: usize, count: usize) -> Pages {
        let address = |page: usize| address_of_list(query.last("q"), page);
        let before = (number > 1).then(|| address((number - 1).min(count)));
        let after = (number < count).then(|| address(number + 1));
        Pages {
            number,
            count,
            before,
            after,
            search: address(0),
        }
    }
}

/// Returns the parameters of a list: `?q=xfs&page=2`. Page 0 is the default.
fn address_of_list(search: &str, page: usize) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    if !search.is_empty() {
        parameters.append_pair("q", search);
    }
    if page > 0 {
        parameters.append_pair("page", &page.to_string());
    }
    let text = parameters.finish();
    if text.is_empty() {
        text
    } else {
        format!("?{text}")
    }
}

#[derive(Template)]
#[template(path = "series.html")]
struct OneSeries<'a> {
    frame: Frame<'a>,
    series: &'a SeriesHistory,
    chart: String,
    facts: String,
    variation: String,
    /// Levels in the order of time.
    levels: Vec<&'a LevelSpan>,
    changes: Vec<&'a Change>,
    /// The runs, the newest first.
    runs: Vec<SeriesRow<'a>>,
    form: RulesForm,
}

/// A run of a series.
struct SeriesRow<'a> {
    point: &'a HistoryPoint,
    labels: String,
    /// The changes with this run: of the level or of the environment.
    news: Vec<String>,
}

/// Returns the page of a series.
pub(crate) fn series(
    site: &Site,
    id: &str,
    query: &Query,
    links: &Links,
) -> Result<String, Problem> {
    let rules = query.rules()?;
    let document = site.series(id, &rules)?;
    let [series] = &document.series[..] else {
        return Err(Problem::Failed(
            "the document of a series holds one".to_owned(),
        ));
    };
    let key = &series.key;
    let mut levels: Vec<&LevelSpan> = series
        .environments
        .iter()
        .flat_map(|found| &found.levels)
        .collect();
    levels.sort_by_key(|level| level.first);
    let mut changes: Vec<&Change> = series
        .environments
        .iter()
        .flat_map(|found| &found.changes)
        .collect();
    changes.sort_by_key(|change| change.first_after);
    let mut rows = Vec::with_capacity(series.points.len());
    for (place, point) in series.points.iter().enumerate().rev() {
        let environment = environment_between(series, place);
        let begun = changes.iter().filter(|change| change.first_after == place);
        let news = begun.map(|change| minus(&change_text(series, change)));
        rows.push(SeriesRow {
            point,
            labels: labels_text(&point.labels),
            news: news
                .chain((!environment.is_empty()).then(|| minus(&environment)))
                .collect(),
        });
    }
    let direction = if key.higher_is_better {
        "higher is better"
    } else {
        "lower is better"
    };
    let machine = if key.machine.is_empty() {
        "machine not recorded"
    } else {
        &key.machine
    };
    let facts = [
        &key.metric.replace('_', " "),
        direction,
        &key.tool,
        machine,
        short(&series.id),
    ]
    .join(" · ");
    let shown = site.snapshot()?;
    let all = shown.document.series.iter().filter(|known| known.id == id);
    let frame = Frame::of_api(&key.name(), links, &format!("series/{id}"), query);
    render(&OneSeries {
        frame,
        series,
        chart: chart(series, &changes, links),
        facts,
        variation: variation_text(series.variation, series.within_sd, series.points.len()),
        runs: rows,
        levels,
        changes,
        form: RulesForm::new(&rules, all),
    })
}

fn chart(series: &SeriesHistory, changes: &[&Change], links: &Links) -> String {
    let key = &series.key;
    // Runs of one day need the time of day.
    let days: BTreeSet<&str> = series
        .points
        .iter()
        .filter_map(|point| point.at.get(..10))
        .collect();
    let shown = if days.len() > 1 { 0..10 } else { 11..16 };
    let points = series.points.iter().map(|point| ChartPoint {
        date: point.at.get(shown.clone()).unwrap_or(&point.at).to_owned(),
        value: point.value,
        environment: point.environment,
        href: links.run(&point.run),
        text: format!(
            "{}  {}  {}",
            minute(&point.at),
            key.show(point.value),
            labels_text(&point.labels)
        ),
    });
    let levels = series
        .environments
        .iter()
        .enumerate()
        .flat_map(|(environment, found)| {
            found.levels.iter().map(move |level| ChartLevel {
                first: level.first,
                last: level.last,
                mean: level.mean,
                interval: level.interval.map(|interval| [interval.lo, interval.hi]),
                environment,
            })
        });
    let found = changes.iter().map(|change| change_text(series, change));
    let description = match changes {
        [] => series
            .newest_level()
            .map(|level| format!("{}.", unchanged_text(level)))
            .unwrap_or_default(),
        _ => found.collect::<Vec<_>>().join(". "),
    };
    svg(&SeriesChart {
        title: key.name(),
        description,
        unit: unit_named(&key.unit),
        points: points.collect(),
        levels: levels.collect(),
        changes: changes
            .iter()
            .map(|change| [change.earliest, change.latest])
            .collect(),
    })
}

/// Returns a value with its unit. Templates pass references.
fn show(key: &SeriesKey, value: &f64) -> String {
    key.show(*value)
}

/// Returns the CSS class of a verdict.
fn class(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "better",
        Verdict::Slower => "worse",
        _ => "open",
    }
}

/// Returns a condition or a label with both sides: `kernel: 6.12.1 → 6.12.3`.
fn difference_text(difference: &Difference) -> String {
    differences_text(std::slice::from_ref(difference))
}

/// Returns labels as `commit=abc branch=main`.
fn labels_text(labels: &Labels) -> String {
    labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[derive(Template)]
#[template(path = "run.html")]
struct OneRun<'a> {
    frame: Frame<'a>,
    found: RunValues,
    others: Vec<Offer>,
}

/// A run that a form offers.
struct Offer {
    id: String,
    text: String,
    is_chosen: bool,
}

/// Returns the page of a run.
pub(crate) fn run(site: &Site, id: &str, links: &Links) -> Result<String, Problem> {
    let found = run_values(site, id)?;
    let mut others = offers(site, &[])?;
    others.retain(|offer| offer.id != id);
    let title = format!("Run of {}", minute(&found.run.at));
    let frame = Frame {
        json: links.api(&format!("runs/{id}")),
        ..Frame::new(&title, links)
    };
    render(&OneRun {
        frame,
        found,
        others,
    })
}

/// Returns the newest runs and the chosen ones.
fn offers(site: &Site, chosen: &[&str]) -> Result<Vec<Offer>, Problem> {
    let snapshot = site.snapshot()?;
    let mut runs: Vec<&IndexedRun> = snapshot.runs.values().collect();
    runs.sort_by(|one, other| (&other.at, &other.id).cmp(&(&one.at, &one.id)));
    let mut offers = Vec::new();
    for (place, run) in runs.into_iter().enumerate() {
        let is_chosen = chosen.contains(&run.id.as_str());
        if place >= OFFERED && !is_chosen {
            continue;
        }

        let name = run.source.file_name().unwrap_or_default().to_string_lossy();
        let text = format!(
            "{}  {}  {name}  {}",
            minute(&run.at),
            short(&run.id),
            labels_text(&run.labels)
        );

        offers.push(Offer {
            id: run.id.clone(),
            text: text.trim_end().to_owned(),
            is_chosen,
        });
    }
    Ok(offers)
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Compare<'a> {
    frame: Frame<'a>,
    before: Vec<Offer>,
    after: Vec<Offer>,
    theta: String,
    /// The comparison, if each side is one run.
    found: Option<RunsCompared>,
    /// The address of the complete comparison, if each side has a run.
    report: Option<String>,
}

/// Returns the choice of two runs or sets of runs, and their comparison.
pub(crate) fn compare(site: &Site, query: &Query, links: &Links) -> Result<String, Problem> {
    let (a, b): (Vec<&str>, Vec<&str>) = (query.all("a").collect(), query.all("b").collect());
    let snapshot = site.snapshot()?;
    for id in a.iter().chain(&b) {
        snapshot.run(id)?;
    }
    let theta = query.rules()?.theta;
    let found = if let ([_], [_]) = (&a[..], &b[..]) {
        Some(comparison(site, query)?)
    } else {
        None
    };

    let is_complete = !a.is_empty() && !b.is_empty();
    let report = is_complete.then(|| links.compare_report(&a.join("&a="), &b.join("&b=")));
    let frame = match found {
        Some(_) => Frame::of_api("Compare runs", links, "compare", query),
        None => Frame::new("Compare runs", links),
    };
    let (before, after) = (offers(site, &a)?, offers(site, &b)?);
    render(&Compare {
        frame,
        before,
        after,
        theta: percent(theta).replace(' ', ""),
        found,
        report,
    })
}

#[derive(Template)]
#[template(path = "matrix.html")]
struct MatrixPage<'a> {
    frame: Frame<'a>,
    found: Matrix,
    /// All kernels, and whether each is chosen.
    kernels: Vec<(String, bool)>,
}

/// Returns the matrix of cases and targets over kernels.
pub(crate) fn matrix_page(site: &Site, query: &Query, links: &Links) -> Result<String, Problem> {
    let chosen = query.last("kernel");
    let found = matrix(site, chosen)?;
    let all = if chosen.is_empty() {
        found.clone()
    } else {
        matrix(site, "")?
    };
    let mut kernels: Vec<String> = all
        .machines
        .into_iter()
        .flat_map(|machine| machine.kernels)
        .collect();
    kernels.sort();
    kernels.dedup();
    let kernels = kernels.into_iter().map(|kernel| {
        let is_chosen = kernel == chosen;
        (kernel, is_chosen)
    });
    let frame = Frame::of_api("Matrix", links, "matrix", query);
    render(&MatrixPage {
        frame,
        found,
        kernels: kernels.collect(),
    })
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame<'a>,
    text: String,
}

/// Returns the error page of a request.
pub(crate) fn problem(problem: &Problem, links: &Links) -> String {
    let title = problem.status().canonical_reason().unwrap_or("No answer");
    let page = ProblemPage {
        frame: Frame::new(title, links),
        text: problem.to_string(),
    };
    page.render().unwrap_or_else(|_| problem.to_string())
}
