//! The report in a headless browser: no console error, no network, the charts are drawn, the numbers are those of the
//! table.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use crate::common::*;

/// Returns the page after its scripts ran, and the log of the browser.
fn dump(page: &Path, profile: &Path) -> (String, String) {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--window-size=1280,40000", "--virtual-time-budget=20000", "--enable-logging=stderr", "--v=0"])
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
    fast_plan(scratch.path());
    let arguments =
        ["run", "fast.toml", "null", "slow=null,slowdown=8%", "--blocks", "6", "--seed", "11", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &arguments), 0);
    let page = scratch.path().join("run/report.html");
    let source = fs::read_to_string(&page).unwrap();
    // Outside its scripts the page contains no address at all; the browser's log below shows the effects of scripts.
    let markup: String = source.split("<script").map(|piece| piece.rsplit("</script>").next().unwrap()).collect();
    for external in ["<link rel=\"stylesheet", "href=\"http", "src=\"http", "@import", "url(http", "https://"] {
        assert!(!markup.contains(external), "{external}");
    }

    let (dom, log) = dump(&page, &scratch.path().join("profile"));
    let console: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the browser's console says: {console:#?}");
    assert!(!log.contains("ERR_NAME_NOT_RESOLVED") || !log.contains("report.html"), "{log}");
    let count = |attribute: &str| -> usize {
        let value = dom.split(&format!("{attribute}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {attribute} in the page"))
    };
    assert!(count("data-charts") >= 10, "{} charts", count("data-charts"));
    assert_eq!(count("data-charts-drawn"), count("data-charts"), "every chart is drawn");

    // The numbers: the data block of the page against trials.csv.
    let data = source.split("id=\"data\">").nth(1).expect("a data block").split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).expect("the data block is JSON");
    let mut from_page = BTreeMap::new();
    for point in data.as_array().expect("a list") {
        let key = (point["workload"].to_string(), point["target"].to_string(), point["block"].to_string());
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
            let key = (quoted("workload"), quoted("target"), row[column("block")].to_owned());
            from_table.insert(key, row[column("value")].parse::<f64>().unwrap());
        }
    }
    assert_eq!(from_page.len(), 12 * 2 * 6);
    assert_eq!(from_page, from_table);
}

/// A server that is killed with this value.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_history_opens_in_a_browser_without_errors_and_other_requests() {
    needs!(program "chromium");
    let scratch = scratch();
    fast_plan(scratch.path());
    for (run, seed) in [("one", "1"), ("two", "2"), ("three", "3")] {
        let arguments = ["run", "fast.toml", "null", "--blocks", "3", "--seed", seed, "--out", run, "-q"];
        expect_code(&fsb(scratch.path(), &arguments), 0);
        let add = ["history", "add", run, "--store", "index", "--label", "note=<b onclick=alert(1)>"];
        expect_code(&fsb(scratch.path(), &add), 0);
    }
    let mut server = command(scratch.path(), &["serve", "--store", "index", "--listen", "127.0.0.1:0"]);
    let mut server = Server(server.stdout(std::process::Stdio::piped()).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();
    let open = |path: &str| {
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--window-size=500,4000", "--virtual-time-budget=20000", "--enable-logging=stderr", "--v=0"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", scratch.path().join("profile").display()))
            .args(["--dump-dom", &format!("{address}{path}")])
            .output()
            .expect("chromium runs");
        let (dom, log) = (stdout(&output), stderr(&output));
        // A request that the policy of the page forbids is a message on the console.
        let console: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{path}: {console:#?}");
        assert!(!dom.contains("<b onclick"), "{path}");
        dom
    };
    let first = |dom: &str, start: &str| {
        let place = dom.find(start).unwrap_or_else(|| panic!("no {start}: {dom}"));
        dom[place..].split('"').nth(1).unwrap().trim_start_matches('.').to_owned()
    };
    let home = open("");
    assert!(home.contains("What changed lately") && home.contains("3 runs"), "{home}");
    let series = first(&open("series"), "href=\"./series/");
    let page = open(&series[1..]);
    assert_eq!(page.matches("<circle").count(), 3, "{page}");
    let run = first(&home, "href=\"./run/");
    assert!(open(&run[1..]).contains("The report of the run"));
    let report = open(&format!("{}/report", &run[1..]));
    assert!(report.contains("data-charts-drawn") && !report.contains("data-charts-drawn=\"0\""), "charts are drawn");
    assert!(open("matrix").contains("<data value="));
    assert!(open("compare").contains("<select"));
}
