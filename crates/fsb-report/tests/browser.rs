//! The report in a real browser, headless: charts drawn, numbers right, no error, no request.
//!
//! The page's Content-Security-Policy forbids every request, and the browser reports each refused
//! one on the console. An empty console proves that the page requested nothing.

#[macro_use]
extern crate fsb_testkit;

mod sample;
mod sample_sets;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsb_report::summary::Summary;
use fsb_report::{Report, html};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The path of the browser.
fn browser() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates =
        std::env::split_paths(&path).flat_map(|dir| BROWSERS.map(|name| dir.join(name)));
    let found = candidates.into_iter().find(|file| file.is_file());
    found.ok_or_else(|| "chromium (Debian package chromium)".to_owned())
}

/// Returns the document after its scripts ran, and the messages on the console.
fn open(browser: &Path, dir: &Path, page: &Path, size: &str) -> (String, Vec<String>) {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size={size}"))
        .args(["--virtual-time-budget=30000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let console = errors
        .lines()
        .filter(|line| line.contains("CONSOLE") && !is_advice(line))
        .map(str::to_owned)
        .collect();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        console,
    )
}

/// Returns whether a message is the browser's advice on the speed of drawing in software.
fn is_advice(line: &str) -> bool {
    line.contains("GL Driver Message (OpenGL, Performance") || line.contains("willReadFrequently")
}

fn between<'a>(document: &'a str, start: &str, end: &str) -> &'a str {
    let rest = document
        .split_once(start)
        .unwrap_or_else(|| panic!("no {start}"))
        .1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

fn attribute<'a>(document: &'a str, name: &str) -> &'a str {
    between(document, &format!(" {name}=\""), "\"")
}

#[test]
fn a_browser_draws_every_chart_in_silence() {
    let browser = needs!(browser());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    let page = dir.path().join("report.html");
    let summary = Summary::of_run(&record, &trials);
    std::fs::write(&page, html::render(&Report::of_run(&summary, &trials)))
        .expect("the page can be written");

    // A window as tall as the page: every chart is in summary.
    let (document, console) = open(&browser, dir.path(), &page, "1280,40000");
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(attribute(&document, "data-charts"), "25");
    assert_eq!(attribute(&document, "data-charts-drawn"), "25");
    for (index, row) in summary.cases.iter().enumerate() {
        let chart = between(&document, &format!("id=\"trials-{index}\""), "</figure>");
        let cells = row
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.estimate.as_ref()?)));
        let expected: usize = cells
            .map(|(cell, estimate)| cell.trials.len() + 1 + estimate.outliers.len())
            .sum();
        assert_eq!(
            chart.matches("class=\"point\"").count(),
            expected,
            "points drawn for {}",
            row.workload
        );
    }

    // A narrow window that shows the beginning only: charts further down wait.
    let (document, console) = open(&browser, dir.path(), &page, "500,4200");
    assert_eq!(console, Vec::<String>::new());
    let drawn: u32 = attribute(&document, "data-charts-drawn")
        .parse()
        .expect("a number");
    assert!((1..25).contains(&drawn), "{drawn} of 25 drawn");
}

/// Runs in the page after its own scripts: draws everything, chooses the last candidate, selects
/// another surface, and stores the results in the document.
const PROBE: &str = r#"<script>
window.fsbDrawAll();
document.querySelectorAll(".choices button:last-child").forEach((button) => button.click());
const [operation, set] = document.querySelectorAll(".selectors select");
operation.value = "1"; set.value = "2"; set.dispatchEvent(new Event("change"));
const found = document.createElement("div");
found.id = "found";
found.dataset.csv = Array.from(document.querySelectorAll("table"), (table) => window.fsbCsv(table)).join("@@");
found.dataset.buttons = String(document.querySelectorAll("button.csv").length);
const pressed = document.querySelectorAll('.choices [aria-pressed="true"]');
found.dataset.pressed = Array.from(pressed, (button) => button.textContent).join("|");
found.dataset.title = document.getElementById("scatter-0").layout.yaxis.title.text;
found.dataset.corner = document.querySelector(".cell title").textContent;
document.body.append(found);
</script></body>"#;

#[test]
fn a_browser_draws_every_chart_of_a_comparison() {
    let browser = needs!(browser());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let document = sample_sets::compared(&sample_sets::iozone(
        &["xfs", "a \"b\" <i>", "btrfs"],
        5,
        2,
        1 << 20,
    ));
    let html = html::render(&Report::of_comparison(&document, None));
    let page = dir.path().join("comparison.html");
    let (start, end) = html.rsplit_once("</body>").expect("a page has a body");
    std::fs::write(&page, format!("{start}{PROBE}{end}")).expect("the page can be written");

    let (shown, console) = open(&browser, dir.path(), &page, "1280,3000");
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(
        attribute(&shown, "data-charts"),
        attribute(&shown, "data-charts-drawn")
    );
    let found = between(&shown, "<div id=\"found\"", "</div>");
    let choosers = document
        .operations
        .iter()
        .filter(|operation| !operation.cells.is_empty())
        .count()
        * 2;
    assert_eq!(
        attribute(found, "data-pressed"),
        vec!["btrfs"; choosers].join("|")
    );
    assert_eq!(attribute(found, "data-title"), "btrfs, MiB/s");
    let text = attribute(found, "data-corner");
    let (_, value) = text.split_once('\n').expect("sizes, then the value");
    let corner: f64 = value
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a height");
    let values: Vec<f64> = document.operations[1].cells[0].values["btrfs"]
        .iter()
        .map(|value| value.value)
        .collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64 / 1048576.0;
    assert!((corner / mean - 1.0).abs() < 1e-3, "{corner} {mean}");
    tables_download(
        attribute(found, "data-csv"),
        attribute(found, "data-buttons"),
        &document,
    );
}

/// Runs in a page as narrow as a phone: draws everything and reports labels below charts that
/// overlap or are rotated.
const NARROW: &str = r#"<style>body { width: 390px; overflow-x: hidden; }</style><script>
window.fsbDrawAll();
const bad = [];
let seen = 0;
for (const chart of document.querySelectorAll(".chart")) {
  for (const axis of [".xtick text", ".x2tick text"]) {
    const labels = Array.from(chart.querySelectorAll(axis));
    const boxes = labels.map((label) => label.getBoundingClientRect()).sort((a, b) => a.left - b.left);
    seen += boxes.length;
    if (boxes.some((box, at) => at > 0 && box.left < boxes[at - 1].right)) bad.push(`${chart.id}: they touch`);
    if (labels.some((label) => /rotate\((?!0)/.test(label.getAttribute("transform") ?? ""))) bad.push(`${chart.id}: turned`);
  }
}
const found = document.createElement("div");
found.id = "found";
found.dataset.bad = bad.join("; ");
found.dataset.seen = String(seen);
document.body.append(found);
</script></body>"#;

#[test]
fn labels_have_room_on_a_telephone() {
    let browser = needs!(browser());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let names = [
        "xfs",
        "ext4",
        "btrfs",
        "jfs",
        "ext2",
        "ext3",
        "reiserfs",
        "f2fs",
        "nilfs2",
        "a-long-name,with=options",
    ];
    let sets = sample_sets::compared(&sample_sets::iozone(&names, 5, 2, 512 << 20));
    let (record, trials) = sample::run(&names, 10);
    let summary = Summary::of_run(&record, &trials);
    for html in [
        html::render(&Report::of_comparison(&sets, None)),
        html::render(&Report::of_run(&summary, &trials)),
    ] {
        let page = dir.path().join("narrow.html");
        let (start, end) = html.rsplit_once("</body>").expect("a page has a body");
        std::fs::write(&page, format!("{start}{NARROW}{end}")).expect("the page can be written");
        let (shown, console) = open(&browser, dir.path(), &page, "500,3000");
        assert_eq!(console, Vec::<String>::new());
        let found = between(&shown, "<div id=\"found\"", "</div>");
        assert_eq!(attribute(found, "data-bad"), "");
        assert!(
            attribute(found, "data-seen")
                .parse::<usize>()
                .expect("a number")
                > 20
        );
    }
}

/// A page in frames as wide as a phone, a small tablet and a screen, because a window is never
/// narrower than 500 pixels. Reports elements beyond the edge, and the visible verdicts of the
/// answer's first card or row.
const FRAMES: &str = r#"<!doctype html><body><script>
const found = document.createElement("div");
found.id = "found";
document.body.append(found);
const look = (width) => new Promise((done) => {
  const frame = document.createElement("iframe");
  Object.assign(frame.style, { width: `${width}px`, height: "2000px", border: "0" });
  frame.addEventListener("load", () => {
    const page = frame.contentDocument;
    frame.contentWindow.fsbDrawAll();
    const beyond = Array.from(page.querySelectorAll("main *")).filter((one) => !one.closest(".scroll:not(:has(.overview))"));
    const wide = beyond.filter((one) => one.getBoundingClientRect().right > width + 0.5);
    found.dataset[`wide${width}`] = [page.documentElement.scrollWidth > width ? "the page scrolls" : "", ...wide.map((one) => one.className)].join("");
    const row = page.querySelector(".overview tbody tr");
    const box = row.getBoundingClientRect();
    const inside = Array.from(row.querySelectorAll("small")).filter((small) => {
      const own = small.getBoundingClientRect();
      return own.width > 0 && own.left >= box.left && own.right <= Math.min(box.right, width);
    });
    found.dataset[`shown${width}`] = inside.map((small) => small.textContent).join("|");
    const name = frame.contentWindow.getComputedStyle(row.querySelector("td"), "::before").content;
    found.dataset[`name${width}`] = name.replaceAll('"', "");
    done();
  });
  frame.srcdoc = PAGE;
  document.body.append(frame);
});
(async () => { for (const width of [400, 500, 1280]) await look(width); })();
</script></body>"#;

/// At every width, each target's verdict is visible and nothing extends beyond the edge.
#[test]
fn the_answer_fits_a_telephone_and_a_screen() {
    let browser = needs!(browser());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let names = [
        "ext4",
        "xfs",
        "btrfs",
        "ext3,data=journal",
        "xfs,allocsize=512k,noatime",
    ];
    let (record, trials) = sample::run(&names, 10);
    let summary = Summary::of_run(&record, &trials);
    let html = html::render(&Report::of_run(&summary, &trials));
    let page = dir.path().join("frames.html");
    let quoted = serde_json::to_string(&html)
        .expect("text")
        .replace('<', "\\u003c");
    std::fs::write(&page, FRAMES.replace("PAGE", &quoted)).expect("the page can be written");
    let (shown, _) = open(&browser, dir.path(), &page, "1400,6200");
    let found = between(&shown, "<div id=\"found\"", "</div>");
    for width in [400, 500, 1280] {
        assert_eq!(
            attribute(found, &format!("data-wide{width}")),
            "",
            "at {width}"
        );
        let verdicts = attribute(found, &format!("data-shown{width}"));
        assert_eq!(
            verdicts.split('|').count(),
            names.len(),
            "at {width}: {verdicts}"
        );
        let name = if width < 600 { "ext4" } else { "none" };
        assert_eq!(
            attribute(found, &format!("data-name{width}")),
            name,
            "at {width}"
        );
    }
}

/// Every table is a good CSV file with the numbers of the document.
fn tables_download(all: &str, buttons: &str, document: &fsb_stats::compare::Document) {
    let all = all
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let tables: Vec<Vec<csv::StringRecord>> = all.split("@@").map(records).collect();
    assert_eq!(buttons, tables.len().to_string());
    let overview = &tables[0];
    let head = [
        "Operation",
        "xfs",
        "xfs (letter)",
        "a \"b\" <i>",
        "a \"b\" <i> (letter)",
        "a \"b\" <i> (detail)",
    ];
    assert_eq!(overview[0].iter().take(6).collect::<Vec<_>>(), head);
    assert_eq!(overview.len(), document.operations.len() + 1);
    // A size that heads several lines is repeated in each of them.
    let by_size = tables
        .iter()
        .find(|table| &table[0][0] == "file size")
        .expect("classic by file size");
    assert_eq!(
        [
            &by_size[1][0],
            &by_size[1][1],
            &by_size[2][0],
            &by_size[2][1]
        ],
        ["64K", "xfs", "64K", "a \"b\" <i>"]
    );
    let mean = document.operations[0].by_file_size[0].classic.sets["xfs"]
        .as_ref()
        .expect("values")
        .mean;
    assert_eq!(&by_size[1][3], format!("{:.2}", mean / 1048576.0));
}

fn records(text: &str) -> Vec<csv::StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    reader
        .records()
        .map(|record| record.expect("lines of the same length"))
        .collect()
}
