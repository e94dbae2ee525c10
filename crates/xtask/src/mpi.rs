//! `fsb-mpi` beside `fsb run` with as many processes: the same files and calls on one ext4, in interleaved pairs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::bench::Options;
use crate::compare::program;
use crate::peers::{self, Median};

/// The processes of both.
const PROCESSES: u32 = 2;
/// Ratios whose whole interval is within this share of 1 count as equal.
const EQUAL: f64 = 0.05;
/// The files of both, with their operations.
const OPERATIONS: [&str; 2] = ["write", "read"];

/// The work of fsb. Its clock does not cover opening the files; that of fsb-mpi does.
fn plan() -> String {
    let shared = format!("file_size = '128M'\nblock_size = '1M'\nprocesses = {PROCESSES}\nclose = true\n");
    format!(
        "[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\nsample_time = '500ms'\n\
         [[workload]]\nname = 'write'\ndurability = 'end'\n{shared}[[workload]]\nname = 'read'\ncache = 'cold'\n{shared}"
    )
}

/// The work of fsb-mpi.
const SUITE: &str = "[[groups]]\nphases = ['write', 'read']\nshared = 'none'\nblock_size = '128M'\ntransfer_size = '1M'\n\
    durable = true\n";

/// Measures and prints. Without root, mpirun or fsb-mpi it prints that it skips this part.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let fsb = program()?;
    let fsb_mpi = fsb.with_file_name("fsb-mpi");
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
    std::fs::write(directory.path().join("suite.toml"), SUITE)?;
    peers::mount("ext4", &files, None, 1 << 30)?;
    let measured = measure_pairs(options.pairs, directory.path(), &fsb, &fsb_mpi);
    peers::unmount(&files);
    for (operation, ratios) in OPERATIONS.iter().zip(measured?) {
        let ratio = Median::from_values(ratios);
        let equal = ratio.interval.iter().all(|bound| (bound - 1.0).abs() <= EQUAL);
        let verdict =
            if equal { format!("equal within {:.0} %", 100.0 * EQUAL) } else { "not shown to be equal".to_owned() };
        println!("  {operation:<6} {ratio}  {verdict}");
    }
    Ok(())
}

/// Returns the ratios of the rates of fsb-mpi to those of fsb, by operation.
fn measure_pairs(pairs: u32, directory: &Path, fsb: &Path, fsb_mpi: &Path) -> anyhow::Result<[Vec<f64>; 2]> {
    println!(
        "\nfsb-mpi with {PROCESSES} ranks / fsb run with {PROCESSES} processes, {pairs} interleaved pairs on ext4;\n\
         medians of the ratios of rates, with their 95 % intervals"
    );
    let processes = PROCESSES.to_string();
    let of_fsb = || {
        let mut command = Command::new(fsb);
        command.args(["run", "plan.toml", "./files", "--out", "fsb", "--quiet"]);
        rates(command, directory, "fsb")
    };
    let of_fsb_mpi = || {
        let mut command = Command::new("mpirun");
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command.args(["-n", &processes]).arg(fsb_mpi);
        command.args(["run", "./files", "--suite", "suite.toml", "--blocks", "1", "--out", "mpi"]);
        rates(command, directory, "mpi")
    };
    let mut luck = Pcg64Mcg::seed_from_u64(1);
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for _ in 0..pairs {
        let (mpi, plain) = peers::both(&mut luck, of_fsb_mpi, of_fsb)?;
        for (ratios, (mpi, plain)) in ratios.iter_mut().zip(mpi.into_iter().zip(plain)) {
            ratios.push(mpi / plain);
        }
    }
    Ok(ratios)
}

/// Makes a run in `directory` and returns the rate of each operation. Removes its run directory.
fn rates(mut command: Command, directory: &Path, out: &str) -> anyhow::Result<[f64; 2]> {
    peers::run(command.current_dir(directory))?;
    let run = directory.join(out);
    let trials = std::fs::read_to_string(run.join("trials.jsonl"))?;
    let trials: Vec<Value> = trials.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    std::fs::remove_dir_all(run)?;
    let mut rates = [0.0; 2];
    for (rate, operation) in rates.iter_mut().zip(OPERATIONS) {
        let is_it = |trial: &&Value| {
            trial["phase"] == "measured" && trial["operation"] == operation && trial["superseded"] != true
        };
        let trial = trials.iter().find(is_it).with_context(|| format!("{out}: no trial of {operation}"))?;
        ensure!(trial["metrics"][0]["name"] == "throughput", "{out}: {trial}");
        *rate = trial["metrics"][0]["value"].as_f64().context("a rate")?;
    }
    Ok(rates)
}
