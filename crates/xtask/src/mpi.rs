//! `fsb-mpi` beside `fsb run` with as many processes, and beside IOR and mdtest with as many ranks:
//! the same files and calls on one ext4, in interleaved pairs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use fsb_sys::program;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::bench::Options;
use crate::compare;
use crate::peers::{self, Median};

/// The processes of all sides.
const PROCESSES: &str = "2";
/// Ratios whose whole interval is within this share of 1 count as equal.
const EQUAL: f64 = 0.05;
/// IOR prints rates in MiB/s.
const MIB: f64 = (1 << 20) as f64;
/// The files that each rank creates beside mdtest.
const FILES: &str = "10000";

/// A program beside `fsb-mpi`.
struct Peer {
    name: &'static str,
    /// Whether users build it themselves, so that it may be missing.
    is_foreign: bool,
    /// The operations of both, in the order of the phases.
    operations: &'static [&'static str],
    /// The group of `fsb-mpi` that does the same.
    group: String,
    /// Measures once in a directory, and returns the rate of each operation.
    measure: fn(&Path) -> anyhow::Result<Vec<f64>>,
}

fn peers() -> [Peer; 3] {
    let moving =
        "phases = ['write', 'read']\nshared = 'none'\nblock_size = '128M'\ntransfer_size = '1M'\n";
    [
        Peer {
            name: "fsb run",
            is_foreign: false,
            operations: &["write", "read"],
            group: format!("{moving}durable = true\n"),
            measure: of_fsb,
        },
        Peer {
            name: "ior",
            is_foreign: true,
            operations: &["write", "read"],
            // IOR leaves the page cache as it is, and fsb-mpi asks the kernel to forget what it
            // wrote.
            group: format!("{moving}durable = true\nbackend = 'direct'\n"),
            measure: of_ior,
        },
        Peer {
            name: "mdtest",
            is_foreign: true,
            operations: &["create", "stat", "delete"],
            group: format!(
                "phases = ['create', 'stat', 'delete']\nshared = 'none'\nfiles = {FILES}\nfile_size = 0\n"
            ),
            measure: of_mdtest,
        },
    ]
}

/// Returns the work of fsb. Its clock does not cover opening the files; that of fsb-mpi does.
fn plan() -> String {
    let shared =
        format!("file_size = '128M'\nblock_size = '1M'\nprocesses = {PROCESSES}\nclose = true\n");
    format!(
        "[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\nsample_time = '500ms'\n\
         [[workload]]\nname = 'write'\ndurability = 'end'\n{shared}[[workload]]\nname = 'read'\ncache = 'cold'\n{shared}"
    )
}

/// Measures and prints. Without root, mpirun or fsb-mpi it prints that it skips this part, and
/// without a peer that it skips that one.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let fsb_mpi = compare::program()?.with_file_name("fsb-mpi");
    if !rustix::process::geteuid().is_root() || !peers::is_here("mpirun") || !fsb_mpi.exists() {
        println!(
            "\nfsb-mpi is left out: it needs root, mpirun, and cargo build --release --package fsb-mpi --features mpi"
        );
        return Ok(());
    }
    peers::leave_mounts()?;
    let directory = peers::work_directory(&options.dir)?;
    let files = directory.path().join("files");
    std::fs::create_dir(&files)?;
    std::fs::write(directory.path().join("plan.toml"), plan())?;
    peers::mount("ext4", &files, None, 1 << 30)?;
    let measured = peers()
        .iter()
        .try_for_each(|peer| beside(peer, options.pairs, directory.path(), &fsb_mpi));
    peers::unmount(&files);
    measured
}

/// Prints the ratios of the rates of fsb-mpi to those of the peer.
fn beside(peer: &Peer, pairs: u32, directory: &Path, fsb_mpi: &Path) -> anyhow::Result<()> {
    let Peer {
        name,
        is_foreign,
        operations,
        group,
        measure,
    } = peer;
    // IOR and mdtest have no `--version`.
    if *is_foreign && program::find(name).is_none() {
        println!("\n{name} is not in PATH and left out: build it from github.com/hpc/ior");
        return Ok(());
    }
    println!(
        "\nfsb-mpi with {PROCESSES} ranks / {name} with as many, {pairs} interleaved pairs on ext4;\n\
         medians of the ratios of rates, with their 95 % intervals"
    );
    std::fs::write(directory.join("suite.toml"), format!("[[groups]]\n{group}"))?;
    let of_fsb_mpi = || {
        let mut command = mpirun(fsb_mpi);
        command.args([
            "run",
            "./files",
            "--suite",
            "suite.toml",
            "--blocks",
            "1",
            "--out",
            "mpi",
        ]);
        rates(command, directory, "mpi", operations)
    };
    let mut luck = Pcg64Mcg::seed_from_u64(1);
    let mut ratios = vec![Vec::new(); operations.len()];
    for _ in 0..pairs {
        let (mpi, other) = peers::both(&mut luck, of_fsb_mpi, || measure(directory))?;
        for (ratios, (mpi, other)) in ratios.iter_mut().zip(mpi.into_iter().zip(other)) {
            ratios.push(mpi / other);
        }
    }
    for (operation, ratios) in operations.iter().zip(ratios) {
        let ratio = Median::from_values(ratios);
        let equal = ratio
            .interval
            .iter()
            .all(|bound| (bound - 1.0).abs() <= EQUAL);
        let verdict = if equal {
            format!("equal within {:.0} %", 100.0 * EQUAL)
        } else {
            "not shown to be equal".to_owned()
        };
        println!("  {operation:<6} {ratio}  {verdict}");
    }
    Ok(())
}

fn mpirun(program: &Path) -> Command {
    let mut command = Command::new("mpirun");
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ]);
    command.args(["-n", PROCESSES]).arg(program);
    command
}

fn of_fsb(directory: &Path) -> anyhow::Result<Vec<f64>> {
    let mut command = Command::new(compare::program()?);
    command.args(["run", "plan.toml", "./files", "--out", "fsb", "--quiet"]);
    rates(command, directory, "fsb", &["write", "read"])
}

/// With `-F` each rank has a file, with `-e` the clock covers an fsync, and with `-C` a rank reads
/// the file of another one.
fn of_ior(directory: &Path) -> anyhow::Result<Vec<f64>> {
    let mut command = mpirun(Path::new("ior"));
    command.args([
        "-a",
        "POSIX",
        "--posix.odirect",
        "-F",
        "-C",
        "-e",
        "-b",
        "128m",
        "-t",
        "1m",
        "-o",
        "files/ior",
    ]);
    let output = peers::run(command.current_dir(directory))?;
    let in_mib = numbers_behind(&String::from_utf8_lossy(&output.stdout), &["write", "read"])?;
    Ok(in_mib.into_iter().map(|rate| rate * MIB).collect())
}

/// With `-F` there are files only, with `-u` each rank has a directory of its own, and with `-N 1`
/// a rank calls stat on the files of the next one.
fn of_mdtest(directory: &Path) -> anyhow::Result<Vec<f64>> {
    let mut command = mpirun(Path::new("mdtest"));
    command.args(["-F", "-u", "-N", "1", "-n", FILES, "-d", "files/mdtest"]);
    let output = peers::run(command.current_dir(directory))?;
    numbers_behind(
        &String::from_utf8_lossy(&output.stdout),
        &["File creation", "File stat", "File removal"],
    )
}

/// Returns the first number behind each label in the last line that begins with it: the summary of
/// all repetitions.
fn numbers_behind(text: &str, labels: &[&str]) -> anyhow::Result<Vec<f64>> {
    let number = |label: &&str| {
        let line = text
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix(label));
        let mut words = line.into_iter().flat_map(|rest| rest.split([' ', ':']));
        words
            .find_map(|word| word.parse().ok())
            .with_context(|| format!("no number behind '{label}': {text}"))
    };
    labels.iter().map(number).collect()
}

/// Makes a run in `directory` and returns the rate of each operation. Removes its run directory.
fn rates(
    mut command: Command,
    directory: &Path,
    out: &str,
    operations: &[&str],
) -> anyhow::Result<Vec<f64>> {
    peers::run(command.current_dir(directory))?;
    let run = directory.join(out);
    let trials = std::fs::read_to_string(run.join("trials.jsonl"))?;
    let trials: Vec<Value> = trials
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    std::fs::remove_dir_all(run)?;
    let rate = |operation: &&str| {
        let is_it = |trial: &&Value| {
            trial["phase"] == "measured"
                && trial["operation"] == *operation
                && trial["superseded"] != true
        };
        let trial = trials
            .iter()
            .find(is_it)
            .with_context(|| format!("{out}: no trial of {operation}"))?;
        let metric = &trial["metrics"][0];
        ensure!(
            ["throughput", "operation_rate"]
                .iter()
                .any(|name| metric["name"] == *name),
            "{out}: {trial}"
        );
        metric["value"].as_f64().context("a rate")
    };
    operations.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_ior_and_mdtest_are_found_by_their_labels() {
        // The rate of the only repetition, and the largest of all in the summary.
        let ior = "write     2275.11    2276.20  0.000820\nread  830.03  830.08\nwrite    2275.12  2275.11\nread  830.03  830.0\n";
        assert_eq!(
            numbers_behind(ior, &["write", "read"]).unwrap(),
            [2275.12, 830.03]
        );
        let mdtest = "   File creation                     120000.500     120000.500     120000.500          0.000\n";
        assert_eq!(
            numbers_behind(mdtest, &["File creation"]).unwrap(),
            [120000.5]
        );
        assert!(numbers_behind(mdtest, &["File stat"]).is_err());
    }
}
