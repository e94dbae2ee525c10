//! `fsb serve`: the program as users start it, on runs of the null file system.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::history::Series;
use crate::common::serve::{Server, connect_many};
use crate::common::{expect_code, fails, fsb, fsb_json, message, read_json, stdout};

fn sample(runs: usize) -> Series {
    let mut series = Series::new();
    series.add(runs, 1.0, "6.1");
    series.index();
    series
}

#[test]
fn the_pages_show_changes_reports_and_comparisons_of_runs() {
    let mut series = Series::new();
    series.add(30, 1.0, "6.1").add(8, 0.9, "6.1").index();
    let server = Server::start(&series, &["--host", "bench.example"]);
    let home = server.page("/");
    assert!(
        home.contains("slower −10 %") && home.contains("38 runs"),
        "{home}"
    );
    let overview = server.json("/api/overview");
    let run = |place: usize| overview["newest"][place]["id"].as_str().unwrap().to_owned();
    let report = server.page(&format!("/run/{}/report", run(0)));
    assert!(report.contains("read 1M, cold") && report.contains("id=\"overview\""));
    let compared = server.page(&format!(
        "/compare/report?a={}&a={}&b={}",
        run(20),
        run(21),
        run(0)
    ));
    assert!(compared.contains("before/a") && compared.contains("after/b"));
    // The same numbers as those of the command.
    let list = server.json("/api/series?q=read+1M+a%3Dnull");
    let id = list["series"][0]["id"].as_str().unwrap();
    let shown = fsb(
        series.path(),
        &format!("history show {id} --format json --store index.sqlite"),
    );
    assert_eq!(
        server.json(&format!("/api/series/{id}")),
        serde_json::from_str::<Value>(&stdout(&shown)).unwrap()
    );
    assert_eq!(
        (
            server.get("/", "bench.example").0,
            server.get("/", "evil.example").0
        ),
        (200, 421)
    );
    fs::remove_dir_all(series.run(37)).unwrap();
    let (status, body) = server.get(&format!("/run/{}/report", run(0)), &server.address);
    assert!(status == 404 && body.contains("any more"), "{body}");
    assert_eq!(server.end(Signal::INT), Some(0));
    assert_eq!(Server::start(&series, &[]).end(Signal::TERM), Some(0));
}

#[test]
fn the_json_follows_its_description() {
    let series = sample(4);
    let server = Server::start(&series, &[]);
    let description = server.json("/api/openapi.json");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/schema/openapi.json"
    );
    assert_eq!(description, read_json(file));
    let id = |list: &str, place: usize| {
        server.json(list)[&list[5..]][place]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (first_series, runs) = (
        id("/api/series", 0),
        [0, 1].map(|place| id("/api/runs", place)),
    );
    let paths = description["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 7);
    for (path, item) in paths {
        let id = if path.contains("series") {
            &first_series
        } else {
            &runs[0]
        };
        let query = if path.ends_with("/compare") {
            format!("?a={}&b={}", runs[1], runs[0])
        } else {
            String::new()
        };
        let found = server.json(&(path.replace("{id}", id) + &query));
        let mut schema =
            item["get"]["responses"]["200"]["content"]["application/json"]["schema"].clone();
        schema["components"] = description["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&found)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
    let (status, body) = server.get("/api/runs/unknown", &server.address);
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["status"]), (404, &404.into()), "{body}");
}

#[test]
fn the_pages_are_written_as_files() {
    let series = sample(4);
    let output = fsb_json(series.path(), "serve --store index.sqlite --static public");
    expect_code(&output, 0);
    let written = &message(&output, "note/pages")["fields"];
    assert!(
        written["files"].as_u64() > Some(4) && written["path"] == "public",
        "{written}"
    );
    let public = series.path().join("public");
    let runs = read_json(public.join("api/runs.json"));
    assert_eq!(runs["total"], 4);
    let id = runs["runs"][0]["id"].as_str().unwrap();
    for file in [
        "index.html".to_owned(),
        format!("run/{id}.html"),
        format!("run/{id}/report.html"),
    ] {
        assert!(public.join(&file).is_file(), "{file}");
    }
    fs::remove_dir_all(series.run(3)).unwrap();
    let output = fsb_json(series.path(), "serve --store index.sqlite --static public");
    expect_code(&output, 0);
    assert_eq!(
        message(&output, "warning/reports-left-out")["fields"]["reports"],
        1
    );
}

#[test]
fn ten_thousand_open_connections_do_not_stop_a_request() {
    let series = sample(1);
    let server = Server::start(&series, &[]);
    let open = connect_many(&server.address);
    assert!(server.page("/").contains("What changed lately"));
    drop(open);
    assert!(server.page("/").contains("What changed lately"));
}

#[test]
fn wrong_requests_are_refused() {
    let series = sample(4);
    let serve = |more: &[&'static str]| [&["serve", "--store", "index.sqlite"], more].concat();
    fails(
        series.path(),
        "serve --store missing.sqlite",
        2,
        "history/missing",
    );
    fails(
        series.path(),
        &serve(&["--listen", "localhost"]),
        2,
        "arguments/invalid-value",
    );
    fails(
        series.path(),
        &serve(&["--static", "public", "--host", "a"]),
        2,
        "arguments/conflict",
    );
    let server = Server::start(&series, &[]);
    let taken = fsb_json(
        series.path(),
        &[
            "serve",
            "--store",
            "index.sqlite",
            "--listen",
            &server.address,
        ],
    );
    expect_code(&taken, 3);
    assert_eq!(message(&taken, "machine/unable")["level"], "error");
}
