//! Published pages: their numbers are those of the run directory, and nothing in them identifies
//! the host.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{fails, fast_plan, json, record, rewrite_trials, scratch, stdout, succeeds};

/// All classes of values, for `--keep`.
const ALL: &str = "host,user,serials,devices,paths,commands,names,texts";

fn run(directory: &Path, name: &str, seed: &str) {
    fast_plan(directory);
    let targets = ["plain=null", "slow=null,slowdown=10%"];
    let arguments = [
        "run",
        "fast.toml",
        "--seed",
        seed,
        "--blocks",
        "6",
        "--out",
        name,
        "--quiet",
    ];
    succeeds(directory, &[&arguments[..], &targets].concat());
}

fn published(directory: &Path, arguments: &[&str]) -> String {
    let output = succeeds(directory, &[&["publish"], arguments].concat());
    stdout(&output)
}

fn json_of(directory: &Path, arguments: &[&str]) -> Value {
    json(directory, &[arguments, &["--format", "json"]].concat())
}

/// Collects the numbers and flags of a document in its order.
fn numbers(value: &Value) -> Vec<&Value> {
    match value {
        Value::Number(_) | Value::Bool(_) => vec![value],
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Object(members) => members.values().flat_map(numbers).collect(),
        Value::Null | Value::String(_) => Vec::new(),
    }
}

#[test]
fn a_page_gives_the_report_and_the_comparison_of_its_run_directory() {
    let scratch = scratch();
    let directory = scratch.path();
    for (name, seed) in [("one", "1"), ("two", "2")] {
        run(directory, name, seed);
        published(directory, &[name, "-o", &format!("{name}.html")]);
        published(
            directory,
            &[name, "-o", &format!("{name}-kept.html"), "--keep", ALL],
        );
    }
    let report = json_of(directory, &["report", "one"]);
    assert_eq!(json_of(directory, &["report", "one-kept.html"]), report);
    let anonymous = json_of(directory, &["report", "one.html"]);
    assert_eq!(numbers(&anonymous), numbers(&report));
    assert_eq!(anonymous["targets"][1]["name"], "null,slowdown=10%");
    let compared = json_of(directory, &["compare", "one", "two"]);
    let of_pages = json_of(directory, &["compare", "one.html", "two.html"]);
    assert_eq!(numbers(&of_pages), numbers(&compared));
    let beside = json_of(directory, &["compare", "old=one", "new=two-kept.html"]);
    assert_eq!(
        numbers(&beside["operations"]),
        numbers(&compared["operations"])
    );
    // A page is an input file that no report overwrites.
    fails(
        directory,
        "compare one.html two.html -o one.html",
        2,
        "arguments/conflict",
    );
}

/// Returns the run of a page as text.
fn run_in(page: &Path) -> String {
    let contents = fsb_store::read(page).expect("a run");
    format!("{}\n{}", json!(contents.record), json!(contents.trials))
}

#[test]
fn nothing_that_identifies_the_host_is_anywhere_in_the_page() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory, "run", "1");
    let path = directory.join("run/run.json");
    let mut record = record(&directory.join("run"));
    record["on"] = "root@hostile7".into();
    record["name"] = "hostile7".into();
    record["plan"]["name"] = "hostile7".into();
    record["plan"]["dir"] = "/hostile7".into();
    record["plan"]["identity"]["uid"] = 77_777_777.into();
    record["host"]["command_line"] = "root=/dev/hostile7".into();
    record["segments"][0]["boot_id"] = "hostile7".into();
    record["warnings"] = json!([
        { "kind": "not_undone", "entry": "hostile7" },
        { "kind": "full_moon", "text": "hostile7" },
    ]);
    record["targets"]["plain"]["notes"] = json!(["hostile7"]);
    record["targets"]["plain"]["mount_options"] = json!(["rw", "addr=hostile7"]);
    record["targets"]["plain"]["device"] = json!({ "name": "sda1", "model": "Fast Disk 9000", "serial": "hostile7", "backing": "/hostile7, ext4 on hostile7:/x" });
    fs::write(&path, record.to_string()).expect("the record is written");
    rewrite_trials(&directory.join("run"), |trial| {
        trial["observed"]["output"] = "hostile7".into();
        trial["error"] = "hostile7".into();
        trial["requested"]["note"] = "hostile7".into();
    });
    let printed = published(directory, &["run", "-o", "a.html"]);
    let page = fs::read_to_string(directory.join("a.html")).expect("a page");
    let inside = run_in(&directory.join("a.html"));
    let report = json_of(directory, &["report", "a.html"]).to_string();
    for (part, text) in [
        ("page", &page),
        ("run", &inside),
        ("report", &report),
        ("terminal", &printed),
    ] {
        for word in ["hostile7", "77777777", &directory.display().to_string()] {
            assert!(!text.contains(word), "{word} is in the {part}");
        }
    }
    assert!(page.contains("Fast Disk 9000") && inside.contains("Fast Disk 9000"));
    assert!(page.contains("<section id=\"publication\""));
    for class in [
        "host", "user", "serials", "devices", "paths", "commands", "names", "texts",
    ] {
        let is_class =
            |line: &&str| line.starts_with("removed: ") && line.ends_with(&format!(", {class})"));
        let line = printed
            .lines()
            .find(is_class)
            .unwrap_or_else(|| panic!("{class} in {printed}"));
        assert!(
            page.contains(line.strip_prefix("removed: ").expect("a line")),
            "{line}"
        );
    }
    // Names stay if the user requests it.
    let printed = published(directory, &["run", "-o", "b.html", "--keep", "names,host"]);
    assert!(printed.contains("kept: names, host"), "{printed}");
    let inside = run_in(&directory.join("b.html"));
    assert!(
        inside.contains("root@hostile7")
            && inside.contains("\"plain\"")
            && !inside.contains("77777777")
    );
}

#[test]
fn damaged_pages_and_wrong_requests_are_refused() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory, "run", "1");
    published(directory, &["run", "-o", "a.html"]);
    fails(directory, "publish run -o a.pdf", 2, "arguments/conflict");
    fails(
        directory,
        "publish a.html -o b.html",
        2,
        "arguments/conflict",
    );
    fails(
        directory,
        "publish run --keep seriels",
        2,
        "arguments/invalid-value",
    );
    fails(directory, "publish nowhere", 2, "store/no-run");
    let page = fs::read_to_string(directory.join("a.html")).expect("a page");
    let start = page.find("H4sI").expect("the data");
    for (name, text) in [
        ("cut", page[..start + 1000].to_owned()),
        ("garbled", page.replacen("H4sI", "H4!I", 1)),
    ] {
        let file = format!("{name}.html");
        fs::write(directory.join(&file), text).expect("written");
        for arguments in [&["report", &file][..], &["compare", &file, "a.html"]] {
            fails(directory, arguments, 2, "store/damaged-page");
        }
    }
    // An ordinary report holds no run.
    succeeds(directory, "report run -o report.html");
    fails(directory, "report report.html", 2, "store/no-run");
    fails(directory, "publish", 2, "arguments/missing");
}
