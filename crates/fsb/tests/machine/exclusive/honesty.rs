//! Checks the numbers against the calls that strace sees and the bytes that the device counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::*;
use crate::devices::Disk;

const PLAN: &str = r#"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "200ms"
[[workload]]
name = "read"
label = "cold"
file_size = "1M"
block_size = "4K"
access = "random"
cache = "cold"
[[workload]]
name = "read"
label = "warm"
file_size = "1M"
block_size = "4K"
cache = "warm"
[[workload]]
name = "write"
label = "each"
file_size = "1M"
block_size = "4K"
access = "random"
durability = "each"
[[workload]]
name = "write"
label = "end"
file_size = "1M"
block_size = "64K"
durability = "end"
[[workload]]
name = "create"
label = "set"
files = 30
durability = "end"
"#;

#[test]
fn cold_reads_reach_the_device_and_warm_ones_do_not() {
    needs!(root);
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let output = fsb(
        scratch.path(),
        "run plan.toml ext4 btrfs --size 400M --out run -q",
    );
    // On a busy disk, btrfs may write to places of its sparse image that were never written, in
    // each attempt of a trial. Such a trial has no values.
    let (holes, trials): (Vec<_>, Vec<_>) = counting(&scratch.path().join("run"))
        .into_iter()
        .partition(|trial| trial["error_code"] == "trial/into-holes");
    assert!(holes.iter().all(|trial| trial["target"] == "btrfs"));
    assert!(holes.len() <= 3, "{holes:#?}");
    if holes.is_empty() {
        expect_code(&output, 0);
    }
    for trial in &trials {
        let moved: u64 = trial["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["bytes"].as_u64().unwrap())
            .sum();
        let read = trial["observed"]["device_read_bytes"].as_u64().unwrap();
        let written = trial["observed"]["device_write_bytes"].as_u64().unwrap();
        let flushes = trial["observed"]["device_flushes"].as_u64().unwrap();
        match trial["workload"].as_str().unwrap() {
            "cold" => {
                assert_eq!(trial["observed"]["resident_bytes_before"], 0);
                assert!(read as f64 >= moved as f64 * 0.95, "{read} of {moved}");
            }
            "warm" => assert!(
                read <= 1 << 20,
                "a warm read of {moved} read {read} from the device"
            ),
            "each" => {
                assert!(written >= moved, "{written} of {moved}");
                let operations = trial["workers"][0]["operations"].as_u64().unwrap();
                assert!(
                    flushes >= operations / 2,
                    "{flushes} flushes for {operations} durable writes"
                );
            }
            "end" | "set" => assert!(
                written >= moved && flushes > 0,
                "{written} of {moved}, {flushes} flushes"
            ),
            other => panic!("{other}"),
        }
    }
    assert_eq!(trials.len() + holes.len(), 20);
}

/// One traced process with its lines in order.
struct Traced {
    lines: Vec<String>,
}

impl Traced {
    fn calls(&self, name: &str) -> Vec<&str> {
        let start = format!("{name}(");
        self.lines
            .iter()
            .map(String::as_str)
            .filter(|line| line.starts_with(&start))
            .collect()
    }

    /// Returns whether this is a measuring thread of a worker. strace writes one file per thread.
    /// The main thread of a worker executes the worker first; measuring threads execute nothing,
    /// and no other process of the run has threads that open files.
    fn is_worker(&self) -> bool {
        self.is_measuring_thread()
            || self
                .lines
                .iter()
                .any(|line| line.starts_with("execve(") && line.contains("__worker"))
    }

    fn is_measuring_thread(&self) -> bool {
        !self.lines.iter().any(|line| line.starts_with("execve("))
    }
}

fn traced_run(directory: &Path, plan: &str, calls: &str) -> Vec<Traced> {
    fs::write(directory.join("plan.toml"), plan).unwrap();
    fs::create_dir(directory.join("data")).unwrap();
    fs::create_dir(directory.join("trace")).unwrap();
    let output = Command::new("strace")
        .args(["-f", "-ff", "-qq", "-s", "64", "-o", "trace/t"])
        .args(["-e", &format!("trace={calls}")])
        .arg(FSB)
        .args([
            "run",
            "plan.toml",
            "./data",
            "--one-at-a-time",
            "--out",
            "run",
            "-q",
        ])
        .current_dir(directory)
        .output()
        .expect("strace runs");
    expect_code(&output, 0);
    let mut all = Vec::new();
    for entry in fs::read_dir(directory.join("trace")).unwrap().flatten() {
        let text = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
        all.push(Traced {
            lines: text.lines().map(str::to_owned).collect(),
        });
    }
    all
}

fn last_number(line: &str) -> u64 {
    let inside = &line[..line.rfind(") =").unwrap()];
    inside.rsplit(", ").next().unwrap().parse().unwrap()
}

#[test]
fn strace_sees_what_the_names_of_the_workloads_say() {
    needs!(root);
    needs!(program "strace");
    let scratch = scratch();
    let calls = "execve,openat,open,creat,unlink,unlinkat,mkdir,mkdirat,rename,renameat,renameat2,pread64,pwrite64,\
                 fsync,fdatasync,syncfs,read,recvfrom,write,sendto";
    let traced = traced_run(scratch.path(), PLAN, calls);
    let workers: Vec<_> = traced
        .iter()
        .filter(|process| process.is_worker())
        .collect();
    assert!(
        workers.len() >= 30,
        "two blocks of five cells of three steps: {}",
        workers.len()
    );

    let data = scratch
        .path()
        .join("data")
        .canonicalize()
        .unwrap()
        .display()
        .to_string();
    let mut written = 0;
    for worker in &workers {
        for line in worker.calls("openat") {
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]
                .iter()
                .any(|flag| line.contains(flag));
            let path = line.split('"').nth(1).unwrap_or_default();
            if writes && !line.contains("= -1") {
                // Relative paths are relative to a directory inside the target, which is itself
                // bound to a place that every user can reach.
                let inside = !path.starts_with('/')
                    || path.starts_with(&data)
                    || path.starts_with("/run/fsb/mnt/t");
                assert!(inside, "a worker wrote outside its target: {line}");
                written += 1;
            }
        }
    }
    assert!(
        written > 60,
        "only {written} files opened for writing by {} threads",
        workers.len()
    );

    let measuring = traced
        .iter()
        .filter(|process| process.is_measuring_thread());
    let timed: Vec<Vec<&str>> = measuring
        .map(|thread| thread.lines.iter().map(String::as_str).collect())
        .collect();
    let count = |lines: &[&str], name: &str| {
        lines
            .iter()
            .filter(|line| line.starts_with(&format!("{name}(")))
            .count()
    };
    // Durable each: every write is followed by its fdatasync.
    let each: Vec<_> = timed
        .iter()
        .filter(|lines| count(lines, "fdatasync") > 10)
        .collect();
    // A trial affected by interference is retried, at most twice.
    assert!(
        (2..=4).contains(&each.len()),
        "warm-up and block 1: {}",
        each.len()
    );
    for lines in &each {
        assert_eq!(count(lines, "fdatasync"), count(lines, "pwrite64"));
        let calls: Vec<_> = lines
            .iter()
            .filter(|l| l.starts_with("pwrite64(") || l.starts_with("fdatasync("))
            .collect();
        assert!(
            calls
                .chunks(2)
                .all(|pair| pair[0].starts_with("pwrite64(") && pair[1].starts_with("fdatasync("))
        );
    }
    // Durable at the end: one fsync after all writes of a pass, each pass on a new file; one syncfs
    // for the file set.
    let end: Vec<_> = timed
        .iter()
        .filter(|lines| count(lines, "fsync") > 0)
        .collect();
    assert!(
        (2..=4).contains(&end.len()),
        "warm-up and block 1: {}",
        end.len()
    );
    for lines in end {
        let named = |line: &&str| {
            ["pwrite64", "fsync", "unlinkat"]
                .into_iter()
                .find(|name| line.starts_with(&format!("{name}(")))
        };
        let calls: Vec<&str> = lines.iter().filter_map(named).collect();
        let passes: Vec<&[&str]> = calls.split(|call| *call == "unlinkat").collect();
        let (last, whole) = passes.split_last().expect("a pass at least");
        let pass = [&["pwrite64"; 16][..], &["fsync"]].concat();
        assert!(whole.iter().all(|calls| *calls == pass), "{whole:?}");
        assert!(
            last.ends_with(&["pwrite64", "fsync"]) && last.len() <= pass.len(),
            "{last:?}"
        );
    }
    assert!(
        timed
            .iter()
            .filter(|lines| count(lines, "syncfs") == 1)
            .count()
            >= 2,
        "one syncfs for a set of files"
    );
    // Random reads cover the file: they read every block once before any block twice.
    let blocks = 1024 / 4;
    let random: Vec<BTreeSet<u64>> = timed
        .iter()
        .filter(|lines| count(lines, "pread64") >= blocks)
        .map(|lines| {
            lines
                .iter()
                .filter(|line| line.starts_with("pread64("))
                .take(blocks)
                .map(|line| last_number(line))
                .collect()
        })
        .collect();
    assert!(!random.is_empty());
    for offsets in random {
        assert_eq!(
            offsets.len(),
            blocks,
            "offsets repeat before the file is covered"
        );
        assert_eq!(*offsets.last().unwrap(), (blocks as u64 - 1) * 4096);
    }
}

/// Each workload on names, its further parameters, and the one call of its operation.
const CALLS_ON_NAMES: &[(&str, &str, &str)] = &[
    ("stat", "files = 30", "newfstatat("),
    ("statfs", "files = 30", "statfs("),
    ("lookup", "depth = 2\nwidth = 4", "newfstatat("),
    ("rename", "files = 30", "renameat("),
    ("move", "files = 30", "renameat("),
    ("delete", "files = 30", "unlinkat("),
    ("mkdir", "files = 30", "mkdirat("),
    ("rmdir", "files = 30", "unlinkat("),
    ("link", "files = 30", "linkat("),
    ("symlink", "files = 30", "symlinkat("),
    ("readlink", "files = 30", "readlinkat("),
    ("chmod", "files = 30", "fchmodat("),
    ("chown", "files = 30", "fchownat("),
    ("utimens", "files = 30", "utimensat("),
    ("setxattr", "files = 30", "setxattr("),
    ("getxattr", "files = 30", "getxattr("),
    ("listxattr", "files = 30", "listxattr("),
    ("setfacl", "files = 30", "setxattr("),
    ("getfacl", "files = 30", "getxattr("),
];

#[test]
fn strace_sees_one_call_an_operation_of_workloads_on_names() {
    needs!(root);
    needs!(program "strace");
    for (name, parameters, call) in CALLS_ON_NAMES {
        let scratch = scratch();
        let plan = format!(
            "[controls]\nguest-memory = \"off\"\n[repetition]\nblocks = 1\nsample_time = \"20ms\"\n\
             [[workload]]\nname = \"{name}\"\n{parameters}\n"
        );
        let traced = traced_run(scratch.path(), &plan, "%file");
        // Preparation opens or makes these paths, and cleanup begins in their directories.
        let on_files = |thread: &Traced| -> Vec<String> {
            thread
                .lines
                .iter()
                .filter(|line| line.contains("/f0"))
                .cloned()
                .collect()
        };
        let measuring = traced
            .iter()
            .filter(|process| process.is_measuring_thread())
            .map(on_files);
        let operations: usize = measuring
            .filter(|lines| lines.iter().all(|line| line.starts_with(call)))
            .map(|lines| lines.len())
            .sum();
        let reported: u64 = trials(&scratch.path().join("run"))
            .iter()
            .flat_map(|trial| trial["workers"].as_array().cloned().unwrap_or_default())
            .map(|worker| worker["operations"].as_u64().unwrap())
            .sum();
        assert!(
            reported > 0 && operations as u64 >= reported,
            "{name}: {operations} calls, {reported} operations"
        );
    }
}

#[test]
fn reflinks_are_measured_where_there_are_any() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs");
    let scratch = scratch();
    let targets = words("run ext4 xfs btrfs --workload reflink,files=20 --size 960M --blocks 1");
    let run = [
        &targets[..],
        &["--control", "guest-memory=off", "--out", "run", "-q"],
    ]
    .concat();
    succeeds(scratch.path(), &run);
    let outcomes: BTreeSet<(String, String)> = trials(&scratch.path().join("run"))
        .iter()
        .map(|trial| {
            [&trial["target"], &trial["outcome"]].map(|text| text.as_str().unwrap().to_owned())
        })
        .map(|[target, outcome]| (target, outcome))
        .collect();
    let expected = [("btrfs", "ok"), ("ext4", "not_applicable"), ("xfs", "ok")];
    assert_eq!(
        outcomes,
        expected
            .map(|(target, outcome)| (target.to_owned(), outcome.to_owned()))
            .into()
    );
}

/// fsb drops the page cache before each cold sample, also on the disk from which it was started.
#[test]
fn fsb_does_not_read_itself_again_before_a_cold_sample() {
    needs!(root);
    needs!(program "losetup", "mkfs.ext4");
    // No other process reads the disk of the program.
    let (scratch, disk) = (scratch(), Disk::formatted(500));
    let directory = scratch.path().join("programs");
    fs::create_dir(&directory).unwrap();
    let _mounted = disk.mount(&directory);
    let program = directory.join("fsb");
    fs::copy(FSB, &program).unwrap();
    let run = words("run ext4 --workload read,file_size=16M,cache=cold --size 320M --blocks 4");
    let mut command = Command::new(&program);
    command
        .args(run)
        .args(["--control", "guest-memory=off", "-q", "--out", "run"])
        .current_dir(scratch.path());
    let mut running = Running::from_child(command.spawn().unwrap());
    let out = scratch.path().join("run");
    let measured = || {
        trials(&out)
            .iter()
            .filter(|trial| trial["phase"] == "measured")
            .count()
    };
    let limit = Duration::from_secs(120);
    wait_until("a block is measured", limit, || {
        measured() > 0 || !running.is_running()
    });
    let before = disk.bytes_read();
    wait_until("all but the last are measured", limit, || {
        measured() >= 3 || !running.is_running()
    });
    let read = disk.bytes_read() - before;
    expect_code(&running.wait(), 0);
    // A worker of each of the samples in between would read some ten megabytes again.
    assert!(
        read < 4 << 20,
        "{read} bytes of the program were read again"
    );
}
