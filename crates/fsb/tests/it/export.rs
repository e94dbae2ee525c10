//! `fsb export`: plans for other tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{
    expect_code, expect_no_traces, expect_refusals, fsb, needs_program, needs_root, on_two_processors, scratch, stdout,
    traces,
};

/// What can be asked of records and names beside what the suite `quick` has.
const MANY: &str = r#"
name = "many"
size = "512M"
[[workload]]
name = "random-read"
file_size = "64M"
backend = "uring-direct"
depth = 32
batch = 8
cache = "any"
[[workload]]
name = "random-mix"
file_size = "64M"
mix = "70%"
durability = "each"
cache = "any"
[[workload]]
name = "write"
file_size = "8M"
overwrite = true
durability = "end"
backend = "direct"
[[workload]]
name = "write"
file_size = "8M"
data = { compressible = "60%", duplicate = "10%" }
[[workload]]
name = "read"
file_size = "32M"
block_size = "4K"
threads = 2
[[workload]]
name = "read"
file_size = "32M"
block_size = "4K"
cache = "cold"
threads = 2
[[workload]]
name = "write"
file_size = "8M"
processes = 2
[[workload]]
name = "random-read"
file_size = "16M"
rate = "2000/s"
[[workload]]
name = "create"
files = 2000
durability = "each"
[[workload]]
name = "create"
files = 200
file_size = 0
threads = 2
[[workload]]
name = "stat"
files = 200
[[workload]]
name = "delete"
files = 200
file_size = 0
[[workload]]
name = "read"
files = 4
file_size = "1M"
block_size = "64K"
[[workload]]
name = "backward-read"
file_size = "8M"
[[workload]]
name = "write"
file_size = "8M"
threads = 2
durability = "end"
[[workload]]
name = "fwrite"
file_size = "8M"
[[workload]]
name = "varmail"
[[workload]]
name = "read"
file_size = "8M"
lock = "file"
"#;

/// The files that an export writes, and what it prints.
fn exported(directory: &Path, arguments: &[&str]) -> (String, String, String) {
    on_two_processors();
    let line = [&["export", "fio", "--seed", "42", "-o", "out"], arguments].concat();
    let output = fsb(directory, &line);
    expect_code(&output, 0);
    let read = |ending: &str| {
        let mut files = fs::read_dir(directory.join("out")).unwrap().map(|entry| entry.unwrap().path());
        fs::read_to_string(files.find(|path| path.extension().is_some_and(|found| found == ending)).unwrap()).unwrap()
    };
    let [jobs, script] = ["fio", "sh"].map(|ending| read(ending).replace(env!("CARGO_PKG_VERSION"), "[version]"));
    (jobs, script, stdout(&output))
}

/// The names of sections.
fn sections(jobs: &str) -> Vec<String> {
    let names = jobs.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    names.filter(|name| *name != "global").map(str::to_owned).collect()
}

#[test]
fn the_default_suite_becomes_a_job_file_and_a_script() {
    let directory = scratch();
    let targets = ["ext4", "nolazy=xfs,noatime,mkfs=\"-m crc=0\"", "tmpfs", "/srv/data", "btrfs@/dev/sdb1", "ext4@ram"];
    let (jobs, script, told) = exported(directory.path(), &[&["--suite", "quick"], &targets[..]].concat());
    // The geometry of a large disk, which only a machine with these programs knows.
    let geometry = [" -b 4096 -I 256 -i 16384 -J size=256", " -l size=64m", " -d single -m dup"];
    let script = geometry.iter().fold(script, |script, words| script.replace(words, ""));
    insta::assert_snapshot!("quick_jobs", jobs);
    insta::assert_snapshot!("quick_script", script);
    insta::assert_snapshot!("quick_told", told);
    let mode = fs::metadata(directory.path().join("out/quick.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    let shell = Command::new("sh").arg("-n").arg(directory.path().join("out/quick.sh")).status().unwrap();
    assert!(shell.success());
}

#[test]
fn rows_of_all_kinds_have_their_options_or_a_reason() {
    let directory = scratch();
    fs::write(directory.path().join("many.toml"), MANY).unwrap();
    let (jobs, _, _) = exported(directory.path(), &["many.toml"]);
    insta::assert_snapshot!("many_jobs", jobs);
}

/// A script for no target in particular works where it is called.
#[test]
fn without_a_target_the_script_works_where_it_is_called() {
    let directory = scratch();
    let (_, script, _) = exported(directory.path(), &[]);
    assert!(script.contains("root=$(cd . && pwd)/fsb-cases"), "{script}");
}

#[test]
fn what_cannot_be_exported_is_refused_with_what_to_do() {
    let directory = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["export", "foi", "--suite", "quick"], "arguments/invalid-value"),
        (&["export", "fio", "--suite", "qick"], "plan/unknown-suite"),
        (&["export", "fio", "missing.toml"], "plan/unreadable"),
        (&["export", "fio", "a.toml", "b.toml"], "plan/several"),
        (&["export", "fio", "--suite", "varmail"], "plan/unfit"),
        (&["export", "fio", "null"], "testbed/refused"),
        (&["export", "fio", "ext5"], "target/unknown-file-system"),
        (&["export", "fio", "ext4", "--units", "0"], "arguments/invalid-value"),
        (&["export"], "arguments/missing"),
    ];
    expect_refusals("export", directory.path(), requests);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Whether fio itself takes every line.
#[test]
fn fio_takes_the_job_files() {
    needs_program("fio");
    for (suite, least) in [("quick", 6), ("many", 13), ("open-loop", 1), ("scaling", 4), ("incache", 50)] {
        let directory = scratch();
        fs::write(directory.path().join("many.toml"), MANY).unwrap();
        let named = ["--suite", suite];
        let (jobs, _, _) = exported(directory.path(), if suite == "many" { &["many.toml"] } else { &named });
        let sections = sections(&jobs);
        assert!(sections.len() >= least, "{suite}: {sections:?}");
        let parse = Command::new("fio")
            .args(["--parse-only", &format!("{suite}.fio")])
            .current_dir(directory.path().join("out"))
            .output()
            .unwrap();
        let said = [parse.stdout, parse.stderr].concat();
        assert!(parse.status.success() && said.is_empty(), "{suite}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn the_script_does_every_row_and_leaves_nothing_behind() {
    needs_root();
    needs_program("fio");
    needs_program("mkfs.ext4");
    let (directory, before) = (scratch(), traces());
    let arguments = ["ext4", "tmpfs", "--size", "256M", "--units", "2"];
    let (jobs, _, _) = exported(directory.path(), &arguments);
    let script =
        Command::new("out/quick.sh").arg("results").current_dir(directory.path()).stdin(Stdio::null()).output();
    expect_code(&script.unwrap(), 0);
    expect_no_traces(&before);
    for target in ["ext4", "tmpfs"] {
        for section in sections(&jobs) {
            let path = directory.path().join(format!("results/{target}/1-{section}.json"));
            if target == "tmpfs" && !section.ends_with("warm") {
                assert!(!path.exists(), "{section}: files in memory are neither cold nor durable");
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let report: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
            let job = &report["jobs"][0];
            let done = ["read", "write"].map(|way| job[way]["total_ios"].as_u64().unwrap()).iter().sum::<u64>();
            let (expected, synced) = match &section[3..] {
                "write-1M-durable" => (33, 2),
                "read-1M-cold" => (32, 0),
                "read-1M-warm" => (64, 0),
                "random-read-4K-cold" => (1024, 0),
                _ => (256, 0),
            };
            assert_eq!((done, job["error"].as_u64()), (expected, Some(0)), "{section}");
            assert!(synced == 0 || job["sync"]["total_ios"].as_u64() == Some(synced), "{section}: {job}");
        }
    }
    let compared = fsb(directory.path(), &["compare", "results/ext4", "results/tmpfs"]);
    expect_code(&compared, 0);
}
