//! However a run ends, nothing is left, and finished trials are on disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::common::*;

/// Starts a run of many blocks on real file systems, and waits until it is in the middle of a
/// measured trial.
fn start(directory: &Path) -> Running {
    tiny_plan(directory);
    let arguments = words("run tiny.toml ext4 ntfs --size 64M --blocks 1000 --out run -q");
    let child = Running::start(directory, &arguments);
    let run = directory.join("run");
    wait_until(
        "trials of the second target",
        Duration::from_secs(60),
        || {
            let trials = trials(&run);
            trials.len() >= 16
        },
    );
    child
}

/// Returns a process whose command line contains `role`, in this PID namespace's numbers.
fn find(role: &str) -> Option<i32> {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        if words.get(1).is_some_and(|word| *word == role.as_bytes()) {
            return Some(pid);
        }
    }
    None
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

fn find_soon(role: &str) -> i32 {
    let mut found = None;
    wait_until(role, Duration::from_secs(20), || {
        found = find(role);
        found.is_some()
    });
    found.unwrap()
}

fn ntfs() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["mkntfs"])
}

/// Kills the process that runs `role` and expects no trace; then resumes the run to its end.
fn survives(role: &str) {
    needs!(ntfs());
    let before = traces();
    let scratch = scratch();
    let child = start(scratch.path());
    let victim = if role == "coordinator" {
        child.id() as i32
    } else {
        find_soon(role)
    };
    kill(victim, rustix::process::Signal::KILL);
    let output = child.wait();
    if role != "coordinator" {
        expect_code(&output, 3);
        assert!(stderr(&output).contains("--resume"), "{}", stderr(&output));
    }
    child_is_gone_without_a_trace(&before, scratch.path());
    resumes(scratch.path());
    expect_no_traces(&before);
}

fn child_is_gone_without_a_trace(before: &Traces, directory: &Path) {
    expect_no_traces(before);
    let left: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(
        left.len(),
        2,
        "only the plan and the run directory: {left:?}"
    );
}

/// Shortens the plan on disk to few blocks, because the resumed run need not make all, and
/// resumes.
fn resumes(directory: &Path) {
    let run = directory.join("run");
    let saved = trials(&run);
    assert!(saved.iter().any(|trial| trial["phase"] == "warmup"));
    let mut record = record(&run);
    let last = saved
        .iter()
        .map(|trial| trial["block"].as_u64().unwrap())
        .max()
        .unwrap();
    record["blocks_planned"] = (last + 1).into();
    std::fs::write(run.join("run.json"), record.to_string()).unwrap();
    succeeds(directory, "run --resume run -q");
    let all = trials(&run);
    assert!(all.len() > saved.len());
    for block in 1..=last + 1 {
        let counting = all
            .iter()
            .filter(|trial| trial["block"] == block && trial["superseded"] != true)
            .count();
        assert_eq!(counting, 14, "block {block}");
    }
}

#[test]
fn a_killed_coordinator_leaves_nothing_and_the_run_goes_on() {
    survives("coordinator");
}

#[test]
fn a_killed_supervisor_leaves_nothing_and_the_run_goes_on() {
    survives("__supervisor");
}

#[test]
fn a_killed_agent_leaves_nothing_and_the_run_goes_on() {
    survives("__agent");
}

#[test]
fn a_killed_worker_costs_one_trial() {
    needs!(ntfs());
    let before = traces();
    let scratch = scratch();
    std::fs::write(
        scratch.path().join("slow.toml"),
        "targets = ['ext4']\nsize = '64M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 2\nsample_time = '1s'\n\
         [[workload]]\nname = 'write'\nfile_size = '8M'\nblock_size = '4K'\naccess = 'random'\ndurability = 'each'\n\
         [[workload]]\nname = 'rename'\nfiles = 10\n",
    )
    .unwrap();
    let child = Running::start(scratch.path(), "run slow.toml --out run -q");
    let run = scratch.path().join("run");
    wait_until("warm-up is over", Duration::from_secs(60), || {
        trials(&run).len() >= 2
    });
    // Only a worker of the first workload makes more than 50 calls of write.
    let writes = |pid: i32| {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let count = io
            .lines()
            .find_map(|line| line.strip_prefix("syscw: ")?.parse::<u64>().ok());
        count.is_some_and(|count| count > 50)
    };
    let mut worker = None;
    wait_until("a worker that writes", Duration::from_secs(60), || {
        worker = find("__worker").filter(|pid| writes(*pid));
        worker.is_some()
    });
    kill(worker.unwrap(), rustix::process::Signal::KILL);
    let output = child.wait();
    expect_code(&output, 4);
    let trials = counting(&run);
    let failed: Vec<_> = trials
        .iter()
        .filter(|trial| trial["outcome"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    assert_eq!(
        failed[0]["error_code"], "trial/worker-ended",
        "{}",
        failed[0]["error"]
    );
    assert_eq!(trials.len(), 6);
    expect_no_traces(&before);
}

#[test]
fn ctrl_c_ends_a_run_and_says_what_was_saved() {
    needs!(ntfs());
    let before = traces();
    for (signal, code) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
    ] {
        let scratch = scratch();
        let child = start(scratch.path());
        child.signal(signal);
        let output = child.wait();
        expect_code(&output, code);
        let said = stderr(&output);
        // Warm-up trials are not results.
        let counting = counting(&scratch.path().join("run"));
        let saved = match counting.iter().filter(|trial| trial["block"] != 0).count() {
            0 => "no trial is finished".to_owned(),
            1 => "1 trial is saved".to_owned(),
            saved => format!("{saved} trials are saved"),
        };
        assert!(
            said.contains("interrupted") && said.contains(&saved),
            "{saved}: {said}"
        );
        assert!(
            said.lines()
                .any(|line| line.starts_with("  fsb run --resume ")),
            "{said}"
        );
        assert!(scratch.path().join("run/report.html").exists());
        expect_no_traces(&before);
    }
}

// `--resume`: fsb retries the whole unfinished block, and nothing else.

/// The resumed run has a new image with new slices: effects of places must not be carried over.
#[test]
fn a_resumed_run_has_slices_of_its_own() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let arguments = words("run tiny.toml ext4 ext2 --blocks 2 --size 256M --out run -q");
    succeeds(scratch.path(), &arguments);
    let run = scratch.path().join("run");
    // Keep one trial of block 2.
    let until_block_2 = trials(&run)
        .iter()
        .take_while(|trial| trial["block"] != 2)
        .count();
    cut(&run, until_block_2 + 1);
    succeeds(scratch.path(), "run --resume run -q");
    let slices = |block: u64, superseded: bool| -> BTreeSet<u64> {
        let of_block = |trial: &&serde_json::Value| {
            trial["block"] == block && (trial["superseded"] == true) == superseded
        };
        trials(&run)
            .iter()
            .filter(of_block)
            .map(|trial| trial["slice"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(
        (slices(1, false), slices(2, false)),
        ([0, 1].into(), [2, 3].into())
    );
    assert!(slices(2, true).is_subset(&[0, 1].into()));
    expect_no_traces(&before);
}
