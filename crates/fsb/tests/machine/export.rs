//! `fsb export`: plans for other tools.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::export::*;
use crate::common::{expect_code, expect_no_traces, scratch, succeeds, traces};

/// Returns the names of sections.
fn sections(jobs: &str) -> Vec<String> {
    let names = jobs
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    names
        .filter(|name| *name != "global")
        .map(str::to_owned)
        .collect()
}

/// fio itself accepts every line.
#[test]
fn fio_takes_the_job_files() {
    needs!(program "fio");
    for (suite, least) in [
        ("quick", 6),
        ("many", 13),
        ("open-loop", 1),
        ("scaling", 4),
        ("incache", 50),
    ] {
        let directory = scratch();
        fs::write(directory.path().join("many.toml"), MANY).unwrap();
        let named = ["--suite", suite];
        let (jobs, _, _) = exported(
            directory.path(),
            if suite == "many" {
                &["many.toml"]
            } else {
                &named
            },
        );
        let sections = sections(&jobs);
        assert!(sections.len() >= least, "{suite}: {sections:?}");
        let parse = Command::new("fio")
            .args(["--parse-only", &format!("{suite}.fio")])
            .current_dir(directory.path().join("out"))
            .output()
            .unwrap();
        let said = [parse.stdout, parse.stderr].concat();
        assert!(
            parse.status.success() && said.is_empty(),
            "{suite}: {}",
            String::from_utf8_lossy(&said)
        );
    }
}

#[test]
fn the_script_does_every_row_and_leaves_nothing_behind() {
    needs!(root);
    needs!(program "fio");
    needs!(program "mkfs.ext4");
    let (directory, before) = (scratch(), traces());
    let arguments = ["ext4", "tmpfs", "--size", "256M", "--units", "2"];
    let (jobs, _, _) = exported(directory.path(), &arguments);
    let script = Command::new("out/quick.sh")
        .arg("results")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output();
    expect_code(&script.unwrap(), 0);
    expect_no_traces(&before);
    for target in ["ext4", "tmpfs"] {
        for section in sections(&jobs) {
            let path = directory
                .path()
                .join(format!("results/{target}/1-{section}.json"));
            if target == "tmpfs" && !section.ends_with("warm") {
                assert!(
                    !path.exists(),
                    "{section}: files in memory are neither cold nor durable"
                );
                continue;
            }
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let report: serde_json::Value =
                serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
            let job = &report["jobs"][0];
            let done = ["read", "write"]
                .map(|way| job[way]["total_ios"].as_u64().unwrap())
                .iter()
                .sum::<u64>();
            let (expected, synced) = match &section[3..] {
                "write-1M-durable" => (33, 2),
                "read-1M-cold" => (32, 0),
                "read-1M-warm" => (64, 0),
                "random-read-4K-cold" => (1024, 0),
                _ => (256, 0),
            };
            assert_eq!(
                (done, job["error"].as_u64()),
                (expected, Some(0)),
                "{section}"
            );
            assert!(
                synced == 0 || job["sync"]["total_ios"].as_u64() == Some(synced),
                "{section}: {job}"
            );
        }
    }
    succeeds(directory.path(), "compare results/ext4 results/tmpfs");
}
