//! Requests through the router and over sockets, and files, from a store whose labels and names are
//! hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use fsb_history::{Conditions, Entry, EntryPoint, IndexedRun, Labels, Location, SeriesKey, Store};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::server::serve_until;
use crate::{Hosts, Limits, Site, router, write_files};

/// A name with markup, a script and a character that changes the direction of writing.
pub(crate) const HOSTILE: &str = "\"'><script>alert(1)</script>\u{202e}";
pub(crate) const HOST: &str = "127.0.0.1:8080";

/// Writes a run of one target in six blocks.
fn write_run(directory: &Path) {
    let record = serde_json::json!({
        "schema": fsb_model::run::SCHEMA, "name": "a", "cells": [],
        "plan": {"name": "quick", "targets": [{"name": "a", "directory": "/a"}], "workloads": [], "seed": 1,
                 "repetition": {"blocks": {"blocks": 6}}, "size": "2G", "dir": ".", "theta": 0.03},
    });
    std::fs::write(directory.join(fsb_store::RUN_FILE), record.to_string()).unwrap();
    let mut journal = Vec::new();
    for block in 1..=6 {
        let trial = serde_json::json!({
            "schema": fsb_model::trial::SCHEMA, "id": format!("b{block}"), "phase": "measured", "block": block,
            "order": block, "attempt": 1, "target": "a", "kernel": "6.18", "workload": "read", "operation": "read",
            "params": {"name": "read"}, "started": "2026-01-01T00:00:00Z", "outcome": "ok",
            "metrics": [{"name": "throughput", "value": 1e6, "unit": "bytes_per_second", "better": "higher"}],
        });
        journal.extend(fsb_store::journal_line(&trial).unwrap());
    }
    std::fs::write(directory.join(fsb_store::TRIALS_FILE), journal).unwrap();
}

/// A site with 45 runs. The 31st is slower by a fifth, and the last five have another kernel.
struct Fixture {
    directory: TempDir,
    site: Arc<Site>,
    router: Router,
    series: Vec<String>,
}

fn key(target: &str) -> SeriesKey {
    SeriesKey {
        tool: "fsb".to_owned(),
        case: "write 1M".to_owned(),
        operation: "write".to_owned(),
        target: target.to_owned(),
        metric: "throughput".to_owned(),
        unit: "bytes_per_second".to_owned(),
        higher_is_better: true,
        machine: format!("a machine {HOSTILE}"),
        parameters: format!("{{\"name\":\"{HOSTILE}\"}}"),
    }
}

fn entry(directory: &Path, number: usize) -> Entry {
    let level = if number < 30 { 100e6 } else { 80e6 };
    let value = level * (1.0 + 0.02 * ((number * 7 % 11) as f64 / 5.0 - 1.0));
    let kernel = if number < 40 { "6.1" } else { "6.2" };
    let point = |target: &str| EntryPoint {
        key: key(target),
        conditions: Conditions::from([
            ("kernel".to_owned(), kernel.to_owned()),
            ("disk".to_owned(), HOSTILE.to_owned()),
        ]),
        log_mean: value.ln(),
        squared_error: Some(1e-4),
        blocks: 5,
    };
    // The directory of the first run was deleted.
    let source = if number == 0 {
        directory.join("gone")
    } else {
        directory.to_owned()
    };
    Entry {
        run: IndexedRun {
            id: format!("{number:016x}"),
            source,
            name: String::new(),
            tool: "fsb".to_owned(),
            at: format!("2026-01-{:02}T{:02}:00:00Z", 1 + number / 24, number % 24),
            labels: Labels::from([("commit".to_owned(), format!("{number} {HOSTILE}"))]),
        },
        points: vec![point("ext4"), point(HOSTILE)],
        left_out: Vec::new(),
    }
}

impl Fixture {
    fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        write_run(directory.path());
        let path = Location::File(directory.path().join("index"));
        let mut store = Store::open_or_create(&path).unwrap();
        for number in 0..45 {
            store.add(&entry(directory.path(), number)).unwrap();
        }
        let site = Arc::new(Site::open(path).unwrap());
        let hosts = Hosts::new(HOST.parse().unwrap(), &["bench.example".to_owned()]);
        let router = router(Arc::clone(&site), hosts, None);
        Fixture {
            directory,
            site,
            router,
            series: ["ext4", HOSTILE].map(|target| key(target).id()).to_vec(),
        }
    }

    fn run(number: usize) -> String {
        format!("{number:016x}")
    }

    fn ask(&self, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            (
                parts.status,
                parts.headers,
                String::from_utf8(body.to_vec()).unwrap(),
            )
        })
    }

    fn store(&self) -> Location {
        Location::File(self.directory.path().join("index"))
    }

    fn get(&self, path: &str) -> (StatusCode, HeaderMap, String) {
        self.ask(
            Request::builder()
                .uri(path)
                .header("Host", HOST)
                .body(Body::empty())
                .unwrap(),
        )
    }

    /// Returns the body of an answer. Panics if the status is not 200.
    fn body(&self, path: &str) -> String {
        let (status, _, body) = self.get(path);
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.body(path)).unwrap()
    }

    /// Returns the address of every page with the address of its JSON.
    fn pages(&self) -> Vec<(String, String)> {
        let (series, run) = (&self.series[0], Fixture::run(30));
        let sides = format!("a={}&b={run}", Fixture::run(29));
        [
            ("/".to_owned(), "/api/overview".to_owned()),
            (
                "/?across=kernel&theta=5%25".to_owned(),
                "/api/overview?across=kernel&theta=5%25".to_owned(),
            ),
            ("/series".to_owned(), "/api/series".to_owned()),
            ("/series?q=EXT4".to_owned(), "/api/series?q=EXT4".to_owned()),
            (format!("/series/{series}"), format!("/api/series/{series}")),
            (
                format!("/series/{series}?across=kernel"),
                format!("/api/series/{series}?across=kernel"),
            ),
            (
                format!("/series/{}", self.series[1]),
                format!("/api/series/{}", self.series[1]),
            ),
            ("/runs".to_owned(), "/api/runs".to_owned()),
            (format!("/run/{run}"), format!("/api/runs/{run}")),
            (format!("/compare?{sides}"), format!("/api/compare?{sides}")),
            ("/matrix".to_owned(), "/api/matrix".to_owned()),
            (
                "/matrix?kernel=6.2".to_owned(),
                "/api/matrix?kernel=6.2".to_owned(),
            ),
        ]
        .to_vec()
    }
}

/// Returns the values of an attribute in a page.
pub(crate) fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let start = format!(" {name}=\"");
    page.split(&start)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

fn collect_numbers(value: &Value, numbers: &mut BTreeSet<u64>) {
    match value {
        Value::Number(number) => drop(numbers.insert(number.as_f64().unwrap().to_bits())),
        Value::Array(items) => items.iter().for_each(|item| collect_numbers(item, numbers)),
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_numbers(member, numbers)),
        _ => {}
    }
}

#[test]
fn every_number_of_a_page_is_one_of_the_api() {
    let fixture = Fixture::new();
    for (page, api) in fixture.pages() {
        let mut known = BTreeSet::new();
        collect_numbers(&fixture.json(&api), &mut known);
        let body = fixture.body(&page);
        let shown = body
            .split("<data ")
            .skip(1)
            .map(|rest| rest.split('>').next().unwrap());
        let texts = shown.flat_map(|tag| {
            let tag = format!(" {tag}");
            ["value", "data-lo", "data-hi"].map(|name| {
                attributes(&tag, name)
                    .first()
                    .map(|text| (*text).to_owned())
            })
        });
        let numbers: Vec<f64> = texts.flatten().map(|text| text.parse().unwrap()).collect();
        assert!(!numbers.is_empty(), "{page}");
        let footer = body.split("<footer").nth(1).unwrap();
        let link = local(attributes(footer, "href")).next().unwrap();
        let (path, query) = link
            .split_once('?')
            .map_or((&*link, ""), |(path, _)| (path, &link[path.len()..]));
        assert_eq!(
            resolve(page.split('?').next().unwrap(), path) + query,
            api,
            "the page links to its numbers"
        );
        for number in numbers {
            assert!(
                known.contains(&number.to_bits()),
                "{page}: {number} is not in {api}"
            );
        }
    }
}

#[test]
fn the_values_of_the_api_are_those_of_the_store() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.store()).unwrap();
    for series in &fixture.series {
        let document = fixture.json(&format!("/api/series/{series}"));
        let shown = document["series"][0]["points"].as_array().unwrap();
        let shown: Vec<f64> = shown
            .iter()
            .map(|point| point["value"].as_f64().unwrap())
            .collect();
        let stored: Vec<f64> = store
            .points(series)
            .unwrap()
            .iter()
            .map(|point| point.log_mean.exp())
            .collect();
        assert_eq!(shown, stored);
    }
    let list = fixture.json("/api/series");
    let last = store.points(&fixture.series[0]).unwrap().pop().unwrap();
    let shown = list["series"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["id"] == *fixture.series[0])
        .unwrap();
    assert_eq!(
        (shown["runs"].as_u64(), shown["last_value"].as_f64()),
        (Some(45), Some(last.log_mean.exp()))
    );
}

#[test]
fn the_pages_say_what_changed_with_which_run() {
    let fixture = Fixture::new();
    let home = fixture.body("/");
    assert!(
        home.contains("slower −20 %") && home.contains("other environment: kernel: 6.1 → 6.2"),
        "{home}"
    );
    let overview = fixture.json("/api/overview");
    assert_eq!(
        (&overview["changed"], &overview["runs"]),
        (&2.into(), &45.into()),
        "{overview:#}"
    );
    let change = overview["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["verdict"] == "slower")
        .unwrap();
    assert_eq!(change["run"], Fixture::run(30));
    let environment = overview["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["verdict"].is_null());
    assert_eq!(
        environment.unwrap()["series"].as_array().unwrap().len(),
        2,
        "both series share the entry"
    );
    let page = fixture.body(&format!("/series/{}", fixture.series[0]));
    assert_eq!(page.matches("<circle").count(), 45);
    assert_eq!(page.matches("class=\"change\"").count(), 1);
    assert!(
        page.contains("other environment: kernel: 6.1 → 6.2"),
        "{page}"
    );
    // The five runs with the other kernel show no change, because they could not.
    let list = fixture.json("/api/series");
    assert!(
        list["series"][0]["detectable"].is_null() && overview["cannot_tell"] == 0,
        "{list:#}"
    );
    assert!(fixture.body("/series").contains("cannot tell"));
    let levels =
        fixture.json(&format!("/api/series/{}", fixture.series[0]))["series"][0]["environments"]
            .clone();
    let [before, other] = [&levels[0]["levels"][0], &levels[1]["levels"][0]];
    assert!(
        (0.03..0.1).contains(&before["detectable"].as_f64().unwrap())
            && other["detectable"].is_null(),
        "{levels:#}"
    );
    let text = before["detectable"]
        .as_f64()
        .map(fsb_report::show::percent_above)
        .unwrap();
    assert!(page.contains(&text), "{text}: {page}");
    let matrix = fixture.json("/api/matrix");
    assert_eq!(
        matrix["machines"][0]["kernels"],
        serde_json::json!(["6.2", "6.1"])
    );
    let compared = fixture.json(&format!(
        "/api/compare?a={}&b={}",
        Fixture::run(29),
        Fixture::run(44)
    ));
    assert_eq!(compared["conditions"][0]["name"], "kernel");
}

#[test]
fn lists_are_searched_and_divided_into_pages() {
    let fixture = Fixture::new();
    let total = |path: &str| fixture.json(path)["total"].as_u64().unwrap();
    assert_eq!(
        (
            total("/api/series?q=write+EXT4"),
            total("/api/series?q=none"),
            total("/api/runs?q=2026-01-01")
        ),
        (1, 0, 24)
    );
    assert!(
        fixture.json("/api/runs?page=2")["runs"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    for wrong in [
        "/runs?page=0",
        "/api/runs?page=x",
        "/?theta=much",
        "/?across=colour",
        "/compare/report",
    ] {
        assert_eq!(fixture.get(wrong).0, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[test]
fn names_and_labels_are_text_whatever_they_contain() {
    let fixture = Fixture::new();
    let wrong = format!("/series/{}", "%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    let search = "/series?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let all = fixture
        .pages()
        .into_iter()
        .map(|(page, _)| page)
        .chain([wrong, search.to_owned()]);
    let mut escaped = 0;
    for page in all {
        let (_, headers, body) = fixture.get(&page);
        assert!(
            !body.contains("<script") && !body.contains('\u{202e}'),
            "{page}: {body}"
        );
        assert!(
            !body.contains("javascript:") && !body.contains(" style="),
            "{page}"
        );
        escaped += usize::from(body.contains("alert(1)"));
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self';")
                && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
    }
    assert!(escaped > 8, "{escaped} pages show the hostile name");
}

#[test]
fn only_known_names_of_the_server_are_answered() {
    let fixture = Fixture::new();
    let status = |host: &str| {
        let request = Request::builder()
            .uri("/api/runs")
            .header("Host", host)
            .body(Body::empty())
            .unwrap();
        fixture.ask(request).0
    };
    for own in [
        HOST,
        "127.0.0.1",
        "localhost:8080",
        "LOCALHOST",
        "bench.example:443",
        "bench.example.",
    ] {
        assert_eq!(status(own), StatusCode::OK, "{own}");
    }
    let foreign = [
        "evil.example",
        "127.0.0.1.evil.example:8080",
        "localhost.evil.example",
        "10.0.0.1",
        "[::1]:8080",
        "user@localhost",
        "localhost:8080/x",
        "",
        "bench.example..",
        "127.0.0.1,evil.example",
    ];
    for foreign in foreign {
        assert_eq!(
            status(foreign),
            StatusCode::MISDIRECTED_REQUEST,
            "{foreign}"
        );
    }
    let none = Request::builder().uri("/").body(Body::empty()).unwrap();
    assert_eq!(fixture.ask(none).0, StatusCode::BAD_REQUEST);
    let two = Request::builder()
        .uri("/")
        .header("Host", HOST)
        .header("Host", "evil.example")
        .body(Body::empty())
        .unwrap();
    assert_eq!(fixture.ask(two).0, StatusCode::BAD_REQUEST);
    let target = Request::builder()
        .uri("http://evil.example/")
        .header("Host", HOST)
        .body(Body::empty())
        .unwrap();
    assert_eq!(fixture.ask(target).0, StatusCode::MISDIRECTED_REQUEST);
    let all = Hosts::new("0.0.0.0:80".parse().unwrap(), &[]);
    let asked = |host: &str| {
        let site = Arc::clone(&fixture.site);
        let other = Fixture {
            router: router(site, all.clone(), None),
            ..Fixture::new()
        };
        other
            .ask(
                Request::builder()
                    .uri("/style.css")
                    .header("Host", host)
                    .body(Body::empty())
                    .unwrap(),
            )
            .0
    };
    assert_eq!(
        (asked("192.0.2.7:80"), asked("evil.example")),
        (StatusCode::OK, StatusCode::MISDIRECTED_REQUEST)
    );
}

#[test]
fn pages_of_other_sites_get_no_answer_and_nothing_can_be_changed() {
    let fixture = Fixture::new();
    let from = |origin: &str| {
        let request = Request::builder()
            .uri("/api/runs")
            .header("Host", HOST)
            .header("Origin", origin);
        let (status, headers, _) = fixture.ask(request.body(Body::empty()).unwrap());
        assert!(!headers.contains_key("access-control-allow-origin"));
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        status
    };
    assert_eq!(from("http://127.0.0.1:8080"), StatusCode::OK);
    for foreign in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "",
    ] {
        assert_eq!(from(foreign), StatusCode::FORBIDDEN, "{foreign}");
    }
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
        Method::CONNECT,
    ] {
        let request = Request::builder()
            .method(&method)
            .uri("/runs")
            .header("Host", HOST)
            .body(Body::empty())
            .unwrap();
        let (status, headers, _) = fixture.ask(request);
        assert_eq!(
            (status, headers["allow"].to_str().unwrap()),
            (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"),
            "{method}"
        );
    }
    let head = Request::builder()
        .method("HEAD")
        .uri("/")
        .header("Host", HOST)
        .body(Body::empty())
        .unwrap();
    let (status, _, body) = fixture.ask(head);
    assert_eq!((status, body.as_str()), (StatusCode::OK, ""));
}

#[test]
fn an_address_never_becomes_a_path() {
    let fixture = Fixture::new();
    let run = Fixture::run(1);
    for path in [
        "/series/..%2f..%2fetc%2fpasswd".to_owned(),
        "/run/..%2f..%2fetc%2fpasswd/report".to_owned(),
        "/run/%2e%2e/report".to_owned(),
        "/../etc/passwd".to_owned(),
        "/style.css/../../etc/passwd".to_owned(),
        format!("/run/{run}%00"),
        format!("/run/{run}/../report"),
        format!("/run/{}", &run[..8]),
        "/run/%ff%fe".to_owned(),
        "/api/runs/unknown".to_owned(),
        "/api/series/unknown".to_owned(),
        "/api".to_owned(),
        "/compare/report?a=unknown&b=unknown".to_owned(),
        "//".to_owned(),
    ] {
        let (status, _, body) = fixture.get(&path);
        assert!(
            [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST].contains(&status),
            "{path}: {status}"
        );
        assert!(!body.contains("root:"), "{path}");
    }
}

#[test]
fn reports_run_apart_and_missing_runs_are_named() {
    let fixture = Fixture::new();
    let (status, headers, body) = fixture.get(&format!("/run/{}/report", Fixture::run(1)));
    assert!(
        status == StatusCode::OK && body.contains("<!doctype html>"),
        "{body}"
    );
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("sandbox allow-scripts") && !policy.contains("allow-same-origin"),
        "{policy}"
    );
    let (status, _, body) = fixture.get(&format!("/run/{}/report", Fixture::run(0)));
    assert!(
        status == StatusCode::NOT_FOUND && body.contains("gone any more"),
        "{body}"
    );
    assert!(
        fixture
            .body(&format!("/run/{}", Fixture::run(0)))
            .contains("not at this path any more")
    );
    let sets = format!(
        "a={}&a={}&b={}",
        Fixture::run(1),
        Fixture::run(2),
        Fixture::run(3)
    );
    let (status, _, body) = fixture.get(&format!("/compare/report?{sets}"));
    assert!(
        status == StatusCode::OK && body.contains("before") && body.contains("after"),
        "{body}"
    );
    assert!(
        fixture
            .body(&format!("/compare?{sets}"))
            .contains("compare/report?a=")
    );
}

#[test]
fn runs_that_are_added_later_appear() {
    let fixture = Fixture::new();
    assert_eq!(fixture.json("/api/overview")["runs"], 45);
    let path = fixture.store();
    Store::open(&path)
        .unwrap()
        .add(&entry(fixture.directory.path(), 45))
        .unwrap();
    assert_eq!(fixture.json("/api/overview")["runs"], 46);
    std::fs::remove_file(fixture.directory.path().join("index")).unwrap();
    assert_eq!(fixture.get("/").0, StatusCode::INTERNAL_SERVER_ERROR);
    Store::open_or_create(&path)
        .unwrap()
        .add(&entry(fixture.directory.path(), 1))
        .unwrap();
    assert_eq!(
        fixture.json("/api/overview")["runs"],
        1,
        "another file has the name"
    );
}

#[test]
fn a_store_with_identities_that_are_paths_is_refused() {
    let fixture = Fixture::new();
    let mut entry = entry(fixture.directory.path(), 1);
    entry.run.id = "../../x".to_owned();
    Store::open(&fixture.store()).unwrap().add(&entry).unwrap();
    let (status, _, body) = fixture.get("/");
    assert!(
        status == StatusCode::INTERNAL_SERVER_ERROR && body.contains("is damaged"),
        "{body}"
    );
}

/// Resolves a relative address against the address of its page.
fn resolve(page: &str, address: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    let path = address.split(['?', '#']).next().unwrap();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop().expect("not above the root")),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn local(addresses: Vec<&str>) -> impl Iterator<Item = String> {
    let unescaped = addresses
        .into_iter()
        .map(|address| address.replace("&#38;", "&").replace("&amp;", "&"));
    unescaped.filter(|address| !address.starts_with("data:") && !address.starts_with('#'))
}

#[test]
fn all_links_lead_to_a_page_of_the_server() {
    let fixture = Fixture::new();
    let mut waiting: Vec<String> = fixture.pages().into_iter().map(|(page, _)| page).collect();
    let mut seen: BTreeSet<String> = waiting.iter().cloned().collect();
    while let Some(page) = waiting.pop() {
        let (status, headers, body) = fixture.get(&page);
        // The directory of the first run is gone.
        assert!(
            status == StatusCode::OK || page.contains(&Fixture::run(0)),
            "{page}: {status}"
        );
        if !headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
        {
            continue;
        }
        for address in local(attributes(&body, "href")) {
            let query = address
                .split_once('?')
                .map(|(_, query)| format!("?{query}"))
                .unwrap_or_default();
            let target = resolve(page.split('?').next().unwrap(), &address) + &query;
            if seen.insert(target.clone()) {
                waiting.push(target);
            }
        }
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

#[test]
fn files_link_to_files_and_hold_no_form_and_no_script() {
    let fixture = Fixture::new();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let (count, left_out) = write_files(&fixture.site, &mut |path, content| {
        files.insert(
            path.to_owned(),
            String::from_utf8(content.to_vec()).unwrap(),
        );
        Ok(())
    })
    .unwrap();
    assert_eq!((count, left_out.len()), (files.len(), 1), "{left_out:?}");
    assert_eq!(count, 10 + 2 * 2 + 3 * 45 - 1);
    for (path, content) in files
        .iter()
        .filter(|(path, _)| path.ends_with(".html") && !path.ends_with("report.html"))
    {
        assert!(
            !content.contains("<form") && !content.contains("<script"),
            "{path}"
        );
        for address in local(attributes(content, "href")) {
            let target = resolve(path, &address);
            assert!(files.contains_key(&target), "{path}: {address} is {target}");
        }
    }
    assert_eq!(files["api/runs.json"], fixture.body("/api/runs"));
}

/// Serves the fixture on a free port while `work` runs.
fn over_sockets(limits: Limits, work: impl FnOnce(SocketAddr)) {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(Arc::clone(&fixture.site), Hosts::new(address, &[]), None);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        serve_until(listener, router, limits, async {
            // The server also stops if the sender was dropped.
            let _ = stopped.await;
            Ok(())
        })
    });
    work(address);
    drop(stop);
    server.join().unwrap().unwrap();
}

fn request(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that never answers must not stop all tests.
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_page(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("What changed lately")
}

#[test]
fn a_socket_gets_the_page_and_a_wrong_request_an_error() {
    over_sockets(Limits::default(), |address| {
        assert!(is_page(&request(address, "/")));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"not HTTP\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        let long = format!("/{}", "x".repeat(1 << 20));
        let mut stream = TcpStream::connect(address).unwrap();
        // The server closes the connection before it has read everything.
        let _ = write!(stream, "GET {long} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    });
}

#[test]
fn slow_clients_lose_their_connection_and_others_are_served() {
    let limits = Limits {
        connections: 4,
        head: Duration::from_millis(300),
        ..Limits::default()
    };
    over_sockets(limits, |address| {
        // More than the limit: the last ones wait until the first ones are closed.
        let mut slow: Vec<TcpStream> = (0..12)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        slow.iter_mut()
            .for_each(|stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap());
        assert!(is_page(&request(address, "/")));
        for mut stream in slow {
            let mut answer = Vec::new();
            // The read ends with the stream or with a reset connection.
            let _ = stream.read_to_end(&mut answer);
            assert!(!answer.starts_with(b"HTTP/1.1 200"));
        }
    });
}

#[test]
fn hundreds_of_open_connections_do_not_stop_a_request() {
    over_sockets(Limits::default(), |address| {
        let idle: Vec<TcpStream> = (0..400)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        assert!(is_page(&request(address, "/")));
        drop(idle);
        assert!(is_page(&request(address, "/")));
    });
}

#[test]
fn a_client_that_reads_nothing_loses_its_connection() {
    let limits = Limits {
        connections: 1,
        unread: Duration::from_millis(500),
        ..Limits::default()
    };
    over_sockets(limits, |address| {
        let mut deaf = TcpStream::connect(address).unwrap();
        // The answers are larger than the socket buffers of both sides.
        let series = key("ext4").id();
        let request = format!("GET /series/{series} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        deaf.write_all(request.repeat(400).as_bytes()).unwrap();
        assert!(
            is_page(&self::request(address, "/")),
            "the only connection is free again"
        );
    });
}
