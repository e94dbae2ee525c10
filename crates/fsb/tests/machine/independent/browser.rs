//! Reports and the pages of `fsb serve` in a headless browser: no console error, no network, the
//! charts are drawn, the numbers are those of the table and of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::history::Series;
use crate::common::serve::Server;
use crate::common::*;
use crate::devtools::Browser;

/// Returns the page after its scripts ran, and the log of the browser.
fn dump(page: &Path, profile: &Path) -> (String, String) {
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--window-size=1280,40000",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
            "--v=0",
        ])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}#print", page.display()))
        .output()
        .expect("chromium runs");
    (stdout(&output), stderr(&output))
}

#[test]
fn the_report_draws_its_charts_without_network_or_errors() {
    needs!(program "chromium");
    let scratch = scratch();
    fast_suite(scratch.path());
    let arguments =
        words("run fast.toml null slow=null,slowdown=8% --blocks 6 --seed 11 --out run -q");
    succeeds(scratch.path(), &arguments);
    let page = scratch.path().join("run/report.html");
    let source = fs::read_to_string(&page).unwrap();
    // Outside its scripts the page contains no address at all; the browser's log below shows the
    // effects of scripts.
    let markup: String = source
        .split("<script")
        .map(|piece| piece.rsplit("</script>").next().unwrap())
        .collect();
    for external in [
        "<link rel=\"stylesheet",
        "href=\"http",
        "src=\"http",
        "@import",
        "url(http",
        "https://",
    ] {
        assert!(!markup.contains(external), "{external}");
    }

    let (dom, log) = dump(&page, &scratch.path().join("profile"));
    let console: Vec<_> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(
        console.is_empty(),
        "the browser's console says: {console:#?}"
    );
    assert!(
        !log.contains("ERR_NAME_NOT_RESOLVED") || !log.contains("report.html"),
        "{log}"
    );
    let count = |attribute: &str| -> usize {
        let value = dom
            .split(&format!("{attribute}=\""))
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {attribute} in the page"))
    };
    assert!(
        count("data-charts") >= 10,
        "{} charts",
        count("data-charts")
    );
    assert_eq!(
        count("data-charts-drawn"),
        count("data-charts"),
        "every chart is drawn"
    );

    // The numbers: the data block of the page against trials.csv.
    let data = source
        .split("id=\"data\">")
        .nth(1)
        .expect("a data block")
        .split("</script>")
        .next()
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(data).expect("the data block is JSON");
    let mut from_page = BTreeMap::new();
    for point in data.as_array().expect("a list") {
        let key = (
            point["workload"].to_string(),
            point["target"].to_string(),
            point["block"].to_string(),
        );
        from_page.insert(key, point["value"].as_f64().unwrap());
    }
    let table = fs::read(scratch.path().join("run/trials.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_slice());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|field| field == name).unwrap();
    let mut from_table = BTreeMap::new();
    for row in reader.records().flatten() {
        if ["throughput", "operation_rate"].contains(&&row[column("metric")]) {
            let quoted = |name: &str| serde_json::Value::from(&row[column(name)]).to_string();
            let key = (
                quoted("workload"),
                quoted("target"),
                row[column("block")].to_owned(),
            );
            from_table.insert(key, row[column("value")].parse::<f64>().unwrap());
        }
    }
    assert_eq!(from_page.len(), 12 * 2 * 6);
    assert_eq!(from_page, from_table);
}

// The history in a browser.

/// Returns a history in which `a` becomes slower by a tenth with the 31st run, and in which the
/// last runs have another kernel. One label is markup.
fn history() -> Series {
    let mut series = Series::new();
    series
        .add(30, 1.0, "6.1")
        .add(8, 0.9, "6.1")
        .add(4, 0.9, "6.2")
        .index();
    let run = series.run(30).display().to_string();
    series.history(&[
        "add",
        &run,
        "--label",
        "commit=abc",
        "--label",
        "note=<b onclick=alert(1)>",
    ]);
    series
}

/// Opens a page of a new history in a browser, whose profile is in the returned directory.
fn visit(page: &str) -> (Series, Server, TempDir, Browser) {
    let history = history();
    let server = Server::start(&history, &[]);
    let profile = scratch();
    let mut browser = Browser::start(profile.path());
    browser.open(&server.url(page));
    (history, server, profile, browser)
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

/// Returns whether a text begins with a value: as a number with a unit, of three digits, or as a
/// whole percentage.
fn states(text: &str, value: f64) -> bool {
    const UNITS: [(&str, f64); 13] = [
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
        ("TiB", 1099511627776.0),
        ("k", 1e3),
        ("M", 1e6),
        ("kop", 1e3),
        ("Mop", 1e6),
        ("Gop", 1e9),
        ("ms", 1e-3),
        ("µs", 1e-6),
        ("ns", 1e-9),
        ("s", 1.0),
    ];
    let text = text.replace('−', "-");
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok());
    match words.iter().position(|word| *word == "%") {
        Some(sign) => {
            let stated = number(sign.saturating_sub(1)).map(|percent| percent / 100.0);
            // A change is the difference of its ratio from 1.
            stated.is_some_and(|stated| {
                [stated, 1.0 + stated]
                    .iter()
                    .any(|stated| (stated - value).abs() <= 0.0051)
            })
        }
        None => {
            let unit = words.get(1).map_or("", |unit| unit.trim_end_matches("/s"));
            let factor = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map_or(1.0, |(_, factor)| *factor);
            number(0).is_some_and(|number| (number * factor - value).abs() <= 0.0051 * value.abs())
        }
    }
}

/// Checks a page of the history: axe-core finds no fault, labels add no markup, and the page fits a
/// telephone. Every number that it shows must be one of the JSON that it links to. Returns the
/// JSON.
fn expect_page(browser: &mut Browser, server: &Server) -> Value {
    browser.expect_accessible();
    browser.expect_fits_a_telephone();
    assert_eq!(
        browser.value("document.querySelectorAll('main b').length"),
        0
    );
    let link = browser.value("document.querySelector('footer a').href");
    let path = link
        .as_str()
        .unwrap()
        .strip_prefix(&format!("http://{}", server.address))
        .expect("an own address");
    let document = server.json(path);
    let mut known = BTreeSet::new();
    collect_numbers(&document, &mut known);
    let shown = browser.value(
        "[...document.querySelectorAll('data')].map(
            (data) => [data.textContent, data.value, data.dataset.lo ?? data.value, data.dataset.hi ?? data.value])",
    );
    assert!(
        !shown.as_array().unwrap().is_empty(),
        "{path} has no numbers"
    );
    for data in shown.as_array().unwrap() {
        let [text, numbers @ ..] = data.as_array().unwrap().as_slice() else {
            panic!("{data}")
        };
        let numbers = numbers
            .iter()
            .map(|number| number.as_str().unwrap().parse::<f64>().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        assert!(
            numbers
                .iter()
                .all(|number| known.contains(&number.to_bits())),
            "{path}: {data} is not in the JSON"
        );
        assert!(states(text.as_str().unwrap(), numbers[0]), "{path}: {data}");
    }
    document
}

#[test]
fn a_browser_goes_from_a_recent_change_to_its_series_its_runs_and_a_report() {
    needs!(program "chromium");
    let (_history, server, _profile, mut browser) = visit("/");
    let overview = expect_page(&mut browser, &server);
    assert!(browser.text("h1").contains("What changed lately"));
    assert_eq!(
        browser.value("document.querySelectorAll('.changes > li').length"),
        entries(&overview["changes"])
    );
    browser.click(".changes > .worse a[href*=series]");
    let series = expect_page(&mut browser, &server);
    let points = &series["series"][0]["points"];
    assert_eq!(
        browser.value("document.querySelectorAll('circle').length"),
        entries(points)
    );
    let levels = series["series"][0]["environments"]
        .as_array()
        .unwrap()
        .iter();
    let levels: usize = levels
        .map(|environment| entries(&environment["levels"]))
        .sum();
    assert_eq!(
        browser.value("document.querySelectorAll('.level').length"),
        levels
    );
    assert!(
        browser
            .text(".changes")
            .contains("commit: not recorded → abc")
    );
    // The rules of the analysis are part of the address.
    browser.value("document.querySelector('input[name=across][value=kernel]').checked = true");
    browser.value("document.querySelector('main input[name=theta]').value = '2%'");
    browser.click("main form button");
    let across = expect_page(&mut browser, &server);
    assert_eq!(
        (&across["across"], across["theta"].as_f64()),
        (&json!(["kernel"]), Some(0.02))
    );
    assert_eq!(entries(&across["series"][0]["environments"]), 1);
    browser.click("table.words th a");
    let run = expect_page(&mut browser, &server);
    assert_eq!(run["id"], overview["newest"][0]["id"]);
    assert_eq!(
        browser.value("document.querySelectorAll('tbody tr').length"),
        entries(&run["values"])
    );
    browser.click("main a[href$='/report']");
    wait_until("the charts", Duration::from_secs(60), || {
        // The page draws the charts that are on the screen.
        browser.value("scrollBy(0, innerHeight)");
        browser.value(
            "Number(document.querySelector('[data-charts-drawn]')?.dataset.chartsDrawn ?? 0)",
        ) != 0
    });
    browser.expect_accessible();
    browser.expect_only_requests_to(&server.address);
}

fn entries(list: &Value) -> usize {
    list.as_array().unwrap().len()
}

#[test]
fn a_browser_searches_series_and_runs() {
    needs!(program "chromium");
    let (_history, server, _profile, mut browser) = visit("/");
    let search = |browser: &mut Browser, text: &str| {
        browser.value(&format!(
            "document.querySelector('#q').value = {}",
            json!(text)
        ));
        browser.click(".bar form button");
        assert_eq!(browser.value("document.querySelector('#q').value"), text);
    };
    search(&mut browser, "DURABLE a=null");
    let found = expect_page(&mut browser, &server);
    assert!(found["total"].as_u64().unwrap() > 1, "{found:#}");
    assert_eq!(
        browser.value("document.querySelectorAll('tbody tr').length"),
        entries(&found["series"])
    );
    let names =
        browser.value("[...document.querySelectorAll('tbody th')].map((name) => name.textContent)");
    assert!(
        names
            .as_array()
            .unwrap()
            .iter()
            .all(|name| name.as_str().unwrap().contains(" on a=null")),
        "{names}"
    );
    search(&mut browser, "commit=abc");
    assert_eq!(expect_page(&mut browser, &server)["total"], 0);
    browser.click("main header a");
    let found = expect_page(&mut browser, &server);
    assert_eq!(
        (
            &found["total"],
            browser.value("document.querySelectorAll('tbody tr').length")
        ),
        (&json!(1), json!(1))
    );
    browser.click("tbody th a");
    assert_eq!(
        expect_page(&mut browser, &server)["id"],
        found["runs"][0]["id"]
    );
    browser.expect_only_requests_to(&server.address);
}

#[test]
fn a_browser_compares_two_runs_and_shows_what_history_diff_prints() {
    needs!(program "chromium");
    let (history, server, _profile, mut browser) = visit("/compare");
    browser.expect_accessible();
    assert_eq!(
        browser.value("document.querySelectorAll('data').length"),
        0,
        "nothing is chosen yet"
    );
    let runs = server.json("/api/runs");
    // The newest run is the first one.
    let id = |number: usize| runs["runs"][41 - number]["id"].as_str().unwrap();
    for (side, number) in [("a", 2), ("b", 32)] {
        browser.value(&format!(
            "document.querySelector('select[name={side}]').value = '{}'",
            id(number)
        ));
    }
    browser.click("main form button");
    let compared = expect_page(&mut browser, &server);
    let printed = history.history(&["diff", id(2), id(32), "--format", "json"]);
    assert_eq!(compared, serde_json::from_str::<Value>(&printed).unwrap());
    assert_eq!(
        browser.value("document.querySelectorAll('tbody tr').length"),
        entries(&compared["series"])
    );
    assert!(browser.text("tbody .worse").contains("slower"));
    browser.click("main a[href*='compare/report']");
    browser.expect_accessible();
    browser.expect_only_requests_to(&server.address);
}

#[test]
fn a_browser_shows_the_matrix_of_all_kernels_and_of_one() {
    needs!(program "chromium");
    let (_history, server, _profile, mut browser) = visit("/matrix");
    let all = expect_page(&mut browser, &server);
    assert_eq!(all["machines"][0]["kernels"], json!(["6.2", "6.1"]));
    browser.value("document.querySelector('select[name=kernel]').value = '6.2'");
    browser.click("main form button");
    let one = expect_page(&mut browser, &server);
    assert_eq!(one["machines"][0]["kernels"], json!(["6.2"]));
    let shown = browser
        .value("document.querySelectorAll('td data').length")
        .as_u64();
    assert_eq!(
        shown,
        browser
            .value("document.querySelectorAll('td').length")
            .as_u64(),
        "each cell has one kernel"
    );
    browser.click("td a");
    let value = &one["machines"][0]["rows"][0]["cells"][0][0];
    assert_eq!(
        expect_page(&mut browser, &server)["series"][0]["id"],
        value["series"]
    );
    browser.expect_only_requests_to(&server.address);
}
