//! Jobs of an MPI library on this machine: real file systems, and ranks that fail.

#[macro_use]
extern crate fsb_testkit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fsb_model::Bytes;
use fsb_mpi::suite::Suite;
use serde_json::Value;

const SUITE: &str = include_str!("../testdata/small.toml");

/// Cases of the suite.
const CASES: usize = 6;

/// The program with MPI.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fsb-mpi");

/// Returns the program that reads its results, if it was built.
fn fsb() -> Result<PathBuf, String> {
    let path = Path::new(PROGRAM).with_file_name("fsb");
    if path.exists() {
        Ok(path)
    } else {
        Err("the program fsb: cargo build".to_owned())
    }
}

/// Returns `mpirun` for more ranks than processors, also as root. Open MPI 4, Open MPI 5 and MPICH
/// each ignore the variables of the others.
fn mpirun(directory: &Path) -> Command {
    let mut command = Command::new("mpirun");
    command.current_dir(directory).envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ]);
    command
}

/// A scratch directory with the suite, a directory to measure, and the run directory to come.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(place.path().join("suite.toml"), SUITE).unwrap();
        fs::create_dir(place.path().join("shared")).unwrap();
        Scratch(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the suite on `shared`, with a rank that fails if `fault` names one.
    fn run(&self, fault: Option<&str>, more: &[&str]) -> Output {
        let mut command = mpirun(self.0.path());
        command.args(["-n", "3"]).arg(PROGRAM);
        command
            .args([
                "run",
                "./shared",
                "--suite",
                "suite.toml",
                "--blocks",
                "1",
                "--out",
                "out",
            ])
            .args(more);
        command.envs(fault.map(|fault| ("FSB_MPI_FAULT", fault)));
        command.output().unwrap()
    }

    /// Runs the suite with two ranks that a Slurm of this machine starts, and waits until it has
    /// ended all of them.
    fn srun(&self, fault: Option<&str>, more: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args([
            "300",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        command.args([
            "sh",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm.sh"),
            "srun",
            "--mpi=pmix",
            "-n",
            "2",
        ]);
        command.arg(PROGRAM).args([
            "run",
            "./shared",
            "--suite",
            "suite.toml",
            "--blocks",
            "1",
            "--out",
            "out",
        ]);
        command
            .args(more)
            .envs(fault.map(|fault| ("FSB_MPI_FAULT", fault)))
            .current_dir(self.0.path());
        command.output().unwrap()
    }

    fn trials(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.at("out/trials.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until no process of the job is left and nothing is left in a measured directory.
    fn expect_nothing_left(&self, directory: &Path) {
        let until = Instant::now() + Duration::from_secs(60);
        let place = self.0.path().to_str().unwrap();
        let files = || -> Vec<PathBuf> {
            let entries = fs::read_dir(directory)
                .unwrap()
                .flatten()
                .map(|entry| entry.path());
            entries
                .filter(|path| !path.ends_with("lost+found"))
                .collect()
        };
        while !(files().is_empty() && processes_in(place).is_empty()) {
            assert!(
                Instant::now() < until,
                "{:?} {:?}",
                files(),
                processes_in(place)
            );
            std::thread::yield_now();
        }
    }
}

/// Returns the command lines of processes of fsb-mpi whose working directory is this one.
fn processes_in(directory: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let of_job = |path: &PathBuf| {
        fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    };
    let lines = processes
        .filter(of_job)
        .filter_map(|path| fs::read_to_string(path.join("cmdline")).ok());
    lines.filter(|line| line.contains("fsb-mpi")).collect()
}

/// A file system on a loop device, mounted.
struct Mounted(PathBuf);

impl Mounted {
    fn new(place: &Path, kind: &str, mebibytes: u64) -> Mounted {
        let image = place.join(format!("{kind}.img"));
        fs::File::create(&image)
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        done(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
        let point = place.join(kind);
        fs::create_dir(&point).unwrap();
        done(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(&point),
        );
        Mounted(point)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel removes the loop device with the mount.
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "{:?}",
            self.0
        );
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn two_file_systems_are_compared_and_other_commands_read_the_results() {
    needs!(root);
    needs!(program "mpirun", "mkfs.ext4", "mkfs.xfs");
    let scratch = Scratch::new();
    let mounts = [
        Mounted::new(scratch.0.path(), "ext4", 128),
        Mounted::new(scratch.0.path(), "xfs", 320),
    ];
    let fsb = needs!(fsb());
    let run = |ranks: &str| {
        let mut command = mpirun(scratch.0.path());
        command.args(["-n", ranks]).arg(PROGRAM).args([
            "run",
            "ext4=./ext4",
            "xfs=./xfs",
            "--suite",
            "suite.toml",
        ]);
        command.args(["--blocks", "5", "--out", &format!("out{ranks}")]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for (ranks, workers) in [("2", 2), ("4", 4)] {
        let screen = run(ranks);
        assert!(
            screen.contains("xfs") && screen.contains(&format!("{ranks} ranks")),
            "{screen}"
        );
        assert!(
            screen.contains("barriers (60 trials): half of the ranks started within"),
            "{screen}"
        );
        let trials = fs::read_to_string(scratch.at(&format!("out{ranks}/trials.jsonl"))).unwrap();
        let trials: Vec<Value> = trials
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(trials.len(), 2 * CASES * 6);
        assert!(trials.iter().all(|trial| trial["outcome"] == "ok"));
        assert!(
            trials
                .iter()
                .all(|trial| trial["workers"].as_array().unwrap().len() == workers)
        );
        let record = fs::read_to_string(scratch.at(&format!("out{ranks}/run.json"))).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        assert_eq!(record["ranks"]["by_host"], serde_json::json!([workers]));
        assert_eq!(record["targets"]["xfs"]["driver"], "xfs");
    }
    for mount in &mounts {
        scratch.expect_nothing_left(&mount.0);
    }
    let report = Command::new(&fsb)
        .args(["report", "out4"])
        .current_dir(scratch.0.path())
        .output()
        .unwrap();
    assert!(
        report.status.success() && text(&report).contains("lock, shared file"),
        "{}",
        text(&report)
    );
    let compare = Command::new(&fsb)
        .args(["compare", "out4"])
        .current_dir(scratch.0.path())
        .output()
        .unwrap();
    assert!(
        compare.status.success() && text(&compare).contains("xfs"),
        "{}",
        text(&compare)
    );
}

#[test]
fn a_rank_that_is_killed_ends_all_others_and_finished_trials_are_kept() {
    needs!(program "mpirun");
    for fault in ["1:3:kill", "0:3:kill", "2:3:abort"] {
        let scratch = Scratch::new();
        let output = scratch.run(Some(fault), &[]);
        assert!(!output.status.success(), "{fault}: {}", text(&output));
        scratch.expect_nothing_left(&scratch.at("shared"));
        let trials = scratch.trials();
        assert_eq!(trials.len(), 3, "{fault}: {}", text(&output));
        assert!(trials.iter().all(|trial| trial["outcome"] == "ok"));
    }
}

#[test]
fn a_rank_that_hangs_is_named_and_ends_the_job() {
    needs!(program "mpirun");
    let scratch = Scratch::new();
    let output = scratch.run(Some("1:4:hang"), &["--timeout", "3"]);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("rank 0 has not finished within 3 s"),
        "{}",
        text(&output)
    );
    assert!(
        text(&output).contains("waits for rank 1"),
        "{}",
        text(&output)
    );
    scratch.expect_nothing_left(&scratch.at("shared"));
    assert_eq!(scratch.trials().len(), 4);
}

#[test]
fn a_directory_that_one_rank_does_not_share_is_refused() {
    needs!(root);
    needs!(program "mpirun", "unshare");
    let scratch = Scratch::new();
    let arguments = "run ./shared --suite suite.toml --blocks 1 --out out";
    let alone = format!("mount -t tmpfs none shared && cd . && exec {PROGRAM} {arguments}");
    let mut command = mpirun(scratch.0.path());
    command
        .args(["-n", "2", PROGRAM])
        .args(arguments.split(' '));
    command.args([":", "-n", "1", "unshare", "-m", "sh", "-c", &alone]);
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    for part in ["is not shared: rank 2 on ", "(1 of 3 ranks do not)"] {
        assert!(text(&output).contains(part), "{}", text(&output));
    }
    scratch.expect_nothing_left(&scratch.at("shared"));
    assert!(!scratch.at("out").exists());
}

#[test]
fn a_full_file_system_fails_its_trials_and_the_others_are_kept() {
    needs!(root);
    needs!(program "mpirun", "mkfs.ext4");
    let scratch = Scratch::new();
    let mount = Mounted::new(scratch.0.path(), "ext4", 8);
    let suite = SUITE.replace("\"64K\"", "\"16M\"");
    fs::write(scratch.at("suite.toml"), suite).unwrap();
    let mut command = mpirun(scratch.0.path());
    command.args(["-n", "2"]).arg(PROGRAM);
    command.args([
        "run",
        "./ext4",
        "--suite",
        "suite.toml",
        "--blocks",
        "1",
        "--out",
        "out",
    ]);
    let output = command.output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", text(&output));
    let trials = scratch.trials();
    assert_eq!(trials.len(), 2 * CASES, "{}", text(&output));
    for trial in &trials {
        let moves_data = ["write", "read"].contains(&trial["operation"].as_str().unwrap());
        let expected = if moves_data { "failed" } else { "ok" };
        assert_eq!(trial["outcome"], expected, "{trial}");
        if moves_data {
            assert_eq!(trial["error_code"], "trial/no-space");
            assert!(
                trial["error"].as_str().unwrap().starts_with("rank "),
                "{trial}"
            );
        }
    }
    scratch.expect_nothing_left(&mount.0);
}

#[test]
fn ranks_that_slurm_starts_measure_a_directory() {
    needs!(root);
    needs!(program "slurmctld", "slurmd", "srun", "munged", "ip", "unshare");
    let scratch = Scratch::new();
    let output = scratch.srun(None, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let trials = scratch.trials();
    assert_eq!(trials.len(), 2 * CASES, "{}", text(&output));
    let is_good = |trial: &Value| {
        trial["outcome"] == "ok"
            && trial["workers"]
                .as_array()
                .is_some_and(|all| all.len() == 2)
    };
    assert!(trials.iter().all(is_good), "{trials:?}");
    scratch.expect_nothing_left(&scratch.at("shared"));
}

#[test]
fn slurm_ends_all_ranks_if_one_fails_and_finished_trials_are_kept() {
    needs!(root);
    needs!(program "slurmctld", "slurmd", "srun", "munged", "ip", "unshare");
    for (fault, finished) in [("1:3:kill", 3), ("1:4:hang", 4), ("1:2:abort", 2)] {
        let scratch = Scratch::new();
        let output = scratch.srun(Some(fault), &["--timeout", "5"]);
        assert!(!output.status.success(), "{fault}: {}", text(&output));
        let trials = scratch.trials();
        assert_eq!(trials.len(), finished, "{fault}: {}", text(&output));
        assert!(trials.iter().all(|trial| trial["outcome"] == "ok"));
        scratch.expect_nothing_left(&scratch.at("shared"));
    }
}

#[test]
fn the_suites_of_the_program_measure_all_their_phases() {
    needs!(program "mpirun");
    for name in ["parallel", "io500-like"] {
        let scratch = Scratch::new();
        let mut suite = Suite::named(name).unwrap();
        for group in &mut suite.groups {
            group.block_size = Bytes(2 * group.transfer_size.0);
            (group.files, group.locks) = (20, 20);
        }
        fs::write(scratch.at("suite.toml"), toml::to_string(&suite).unwrap()).unwrap();
        let mut command = mpirun(scratch.0.path());
        command.args(["-n", "2"]).arg(PROGRAM);
        command.args([
            "run",
            "./shared",
            "--suite",
            "suite.toml",
            "--blocks",
            "1",
            "--out",
            "out",
        ]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        let trials = scratch.trials();
        assert_eq!(trials.len(), 2 * suite.phases().count(), "{name}");
        assert!(
            trials.iter().all(|trial| trial["outcome"] == "ok"),
            "{name}"
        );
        let has_score =
            text(&output).contains("  ./shared: ") && text(&output).contains("io500-like score");
        assert_eq!(has_score, name == "io500-like", "{}", text(&output));
        scratch.expect_nothing_left(&scratch.at("shared"));
    }
}

#[test]
fn the_costs_of_a_simulated_rank_do_not_grow_with_the_number_of_ranks() {
    let output = Command::new(PROGRAM)
        .args(["simulate", "2000"])
        .output()
        .unwrap();
    let text = text(&output);
    assert!(
        output.status.success() && text.starts_with("simulation: ranks are threads"),
        "{text}"
    );
    // With the ratios of times, which no test asserts.
    println!("{text}");
    let rows: Vec<Vec<f64>> = text.lines().skip(2).map(numbers).collect();
    assert_eq!(
        rows.iter().map(|row| row[0]).collect::<Vec<_>>(),
        [250.0, 500.0, 1000.0, 2000.0]
    );
    let first = &rows[0];
    for row in &rows[1..] {
        // The columns of messages and of bytes; numbers of ranks have more digits.
        assert!(
            (row[4] / first[4] - 1.0).abs() < 0.02 && (row[5] / first[5] - 1.0).abs() < 0.05,
            "{text}"
        );
    }
}

/// Returns the columns of a line of numbers; a column without a number is not a number.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace()
        .map(|word| word.parse().unwrap_or(f64::NAN))
        .collect()
}
