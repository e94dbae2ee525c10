//! Shipped plans: each plan of a published work shows its published results beside those of a run.

use std::fs;

use serde_json::Value;

use crate::common::{json, scratch, succeeds};

/// The section of a report that a plan is shipped for.
#[derive(Debug, Clone, Copy)]
enum Section {
    /// The table of published values.
    Table,
    /// Published differences, with this number of pairs of file systems.
    Claims(usize),
    /// The reason why published differences are not shown.
    Withheld,
    /// The work prints no values.
    Nothing,
}

/// Every plan of a published work, a scale, two or more of its targets, and its section. Media in
/// memory suffice. Plans that limit memory have a larger scale, because a worker needs 16 MiB.
#[rustfmt::skip] // a table reads as one
const WORKS: [(&str, &str, &str, Section); 15] = [
    ("benas-directio.toml", "1/64", "ext4@ram ext3@ram", Section::Claims(1)),
    ("benas-incache.toml", "1/64", "ext4@ram xfs@ram", Section::Claims(1)),
    ("benas-outofcache.toml", "1/16", "ext4@ram ext3@ram", Section::Withheld),
    ("benas-postmark.toml", "1/64", "ext4@ram ext3@ram", Section::Table),
    ("benas-short.toml", "1/64", "ext4@ram ext3@ram ext2@ram", Section::Claims(3)),
    ("benas-tuned.toml", "1/64", "xfs@ram xfs,allocsize=512k@ram", Section::Claims(1)),
    ("dordevic-short.toml", "1/16", "ext2@ram ext3,data=journal@ram", Section::Table),
    ("dordevic.toml", "1/16", "ext2@ram ext3,data=ordered@ram", Section::Table),
    ("fedorchuk-short.toml", "1/64", "ext3@ram xfs@ram", Section::Table),
    ("fedorchuk.toml", "1/64", "ext3,data=journal@ram xfs@ram", Section::Table),
    ("horvath-incache.toml", "1/64", "ext3@ram xfs@ram", Section::Claims(2)),
    ("horvath-nfs.toml", "1/64", "ext3@ram ext4@ram", Section::Nothing),
    ("horvath-short.toml", "1/4", "ext3@ram xfs@ram", Section::Table),
    ("horvath.toml", "1/64", "ext3@ram xfs@ram", Section::Table),
    ("pokorny-short.toml", "1/64", "ext2@ram ext4@ram", Section::Table),
];

/// Plans whose published section is the same as that of a plan in [`WORKS`], or which belong to no
/// published work. Presets have tests of their own.
const OTHERS: [&str; 3] = ["database.toml", "journal-modes.toml", "pokorny.toml"];

/// Runs a plan on this machine at a scale and returns the report.
fn report(name: &str, scale: &str, targets: &str, section: Section) -> Value {
    let scratch = scratch();
    let directory = scratch.path();
    let plan = fsb_runner::shipped_plan::find(name).expect("the plan is shipped");
    // Two of the works had machines of their own, which virtual machines replace.
    let text = plan
        .text
        .replace("in = \"vm\"\n", "")
        .replace("memory = \"3G\"\n", "")
        // Services and the governor belong to the host, which other tests share.
        .replace("governor = \"performance\"\n", "")
        .replace("swap = \"off\"\n", "");
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("services ="))
        .collect();
    if name == "horvath.toml" {
        // In place of the memory of the virtual machine.
        lines.extend(["[controls]", "memory-limit = \"3G\""]);
    }
    fs::write(directory.join("plan.toml"), lines.join("\n")).unwrap();
    // A budget chooses among the sizes of a matrix.
    let repetition = match section {
        Section::Table => "--blocks 1",
        _ => "--budget 40s",
    };
    succeeds(
        directory,
        &*format!(
            "run plan.toml {targets} --scale {scale} {repetition} --risky --allow-concurrent --seed 1 --out out -q"
        ),
    );
    json(directory, "report out --format json")
}

fn check((name, scale, targets, section): (&str, &str, &str, Section)) {
    let report = report(name, scale, targets, section);
    let (table, claims) = (&report["published"], &report["claims"]);
    match section {
        Section::Table => {
            let rows = table["rows"].as_array().expect(name);
            assert!(!rows.is_empty(), "{name}: {table:#}");
            let order = table["order"]["text"].as_str();
            assert!(
                order.is_some_and(|text| text.contains("order of the file systems")),
                "{name}: {table:#}"
            );
            let found = table["counterparts"].as_array().expect(name);
            let here: Vec<&Value> = found.iter().filter(|place| !place.is_null()).collect();
            assert!(here.len() >= 2, "{name}: {table:#}");
            // Horváth's reads are cold, but Beňas measured in cache.
            assert!(claims.is_null(), "{name}: {claims:#}");
        }
        Section::Claims(pairs) => {
            let rows = claims["rows"].as_array().expect(name);
            let mut groups: Vec<&str> = Vec::new();
            for row in rows {
                groups.extend(row["group"].as_str());
            }
            groups.dedup();
            assert_eq!(groups.len(), pairs, "{name}: {claims:#}");
            assert!(claims["withheld"].is_null(), "{name}: {claims:#}");
            assert!(claims["order"]["text"].is_string(), "{name}: {claims:#}");
        }
        Section::Withheld => {
            assert_eq!(claims["rows"], Value::Array(Vec::new()), "{name}");
            assert!(claims["withheld"].is_string(), "{name}: {claims:#}");
        }
        Section::Nothing => assert!(table.is_null() && claims.is_null(), "{name}"),
    }
}

#[test]
fn plans_of_benas_have_his_differences_and_rates() {
    needs!(root);
    for work in WORKS.into_iter().filter(|work| work.0.starts_with("benas")) {
        check(work);
    }
}

#[test]
fn plans_of_horvath_have_his_rates() {
    needs!(root);
    for work in WORKS
        .into_iter()
        .filter(|work| work.0.starts_with("horvath"))
    {
        check(work);
    }
}

#[test]
fn plans_of_postmark_trees_and_cycles_have_the_published_tables() {
    needs!(root);
    for work in WORKS {
        if !work.0.starts_with("benas") && !work.0.starts_with("horvath") {
            check(work);
        }
    }
}

#[test]
fn every_shipped_plan_is_listed_once() {
    let mut listed: Vec<&str> = WORKS.iter().map(|work| work.0).chain(OTHERS).collect();
    listed.sort_unstable();
    let shipped: Vec<&str> = fsb_runner::shipped_plan::REGISTRY
        .iter()
        .filter(|plan| !plan.is_preset)
        .map(|plan| plan.name)
        .collect();
    assert_eq!(listed, shipped);
}
