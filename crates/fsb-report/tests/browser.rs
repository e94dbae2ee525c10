//! The report in a real browser, headless: charts drawn, numbers right, no error, no request.
//!
//! The page's Content-Security-Policy forbids every request, and the browser reports what it refused on the console:
//! a silent console is the proof that nothing was asked for.

mod sample;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsb_report::View;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser, or `None` after saying so. On CI its absence is a failure.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path).flat_map(|dir| BROWSERS.map(|name| dir.join(name)));
    let found = candidates.into_iter().find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "chromium is needed on CI: apt-get install chromium");
        eprintln!("SKIPPED: needs chromium (Debian package chromium)");
    }
    found
}

/// The document after its scripts ran, and what stood on the console.
fn open(browser: &Path, dir: &Path, page: &Path, size: &str) -> (String, Vec<String>) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size={size}"))
        .args(["--virtual-time-budget=30000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let console = errors.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

fn between<'a>(document: &'a str, start: &str, end: &str) -> &'a str {
    let rest = document.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

fn attribute<'a>(document: &'a str, name: &str) -> &'a str {
    between(document, &format!(" {name}=\""), "\"")
}

#[test]
fn a_browser_draws_every_chart_in_silence() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    let page = dir.path().join("report.html");
    let view = View::of_run(&record, &trials);
    std::fs::write(&page, fsb_report::html::render(&view, &trials)).expect("the page can be written");

    // A window as tall as the page: every chart is in view.
    let (document, console) = open(&browser, dir.path(), &page, "1280,40000");
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(attribute(&document, "data-charts"), "25");
    assert_eq!(attribute(&document, "data-charts-drawn"), "25");
    for (index, row) in view.rows.iter().enumerate() {
        let chart = between(&document, &format!("id=\"trials-{index}\""), "</figure>");
        let cells = row.cells.iter().filter_map(|cell| Some((cell, cell.estimate.as_ref()?)));
        let expected: usize = cells.map(|(cell, estimate)| cell.trials.len() + 1 + estimate.outliers.len()).sum();
        assert_eq!(chart.matches("class=\"point\"").count(), expected, "points drawn for {}", row.workload);
    }

    // A narrow window that shows the beginning only: charts further down wait.
    let (document, console) = open(&browser, dir.path(), &page, "500,2600");
    assert_eq!(console, Vec::<String>::new());
    let drawn: u32 = attribute(&document, "data-charts-drawn").parse().expect("a number");
    assert!((1..25).contains(&drawn), "{drawn} of 25 drawn");
}
