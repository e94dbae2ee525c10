//! `fsb-mpi`: one process is one rank of an MPI job.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use fsb_model::code::{MACHINE, REQUEST, TRIALS};
use fsb_model::target::{Target, make_names_unique};
use fsb_model::{RunRecord, Trial};
use fsb_mpi::cleaner::{self, CLEANER_ARGUMENT, Cleaner};
use fsb_mpi::communicator::Communicator;
use fsb_mpi::job::{self, Finished, Hello, JobError, JobStore};
use fsb_mpi::mpi::MpiRank;
use fsb_mpi::simulation::simulate;
use fsb_mpi::suite::{Request, Suite};
use fsb_mpi::text;
use fsb_mpi::watch::{Watch, kill_this_rank, print_line};
use fsb_report::summary::Summary;
use fsb_report::{FORMATS, Report, WIDTH, text as report_text};
use fsb_store::{ResultOwner, RunDirectory};
use fsb_testbed::probe::{PROBE_ARGUMENT, probe_main};

/// Parent directory of run directories, unless `--out` names one.
const RESULTS: &str = "fsb-results";

const EXAMPLES: &str = "\
Examples:
  mpirun -n 64 fsb-mpi run /mnt/shared
  mpirun -n 8 --hostfile hosts fsb-mpi run /mnt/lustre /mnt/nfs --ranks 1,2,4,8
  srun --mpi=pmix -n 64 fsb-mpi run /scratch --suite io500-like
  fsb report fsb-results/20261120T150405Z-mnt-shared";

/// Measure one file system from many clients: each process of an MPI job is one
#[derive(Debug, Parser)]
#[command(name = "fsb-mpi", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<Run>),
    /// Simulate the bookkeeping of a job with threads that touch no files
    Simulate {
        /// Ranks
        #[arg(default_value_t = 10_000)]
        ranks: usize,
    },
}

/// Measure directories that all ranks share
#[derive(Debug, Args)]
struct Run {
    /// Directories on shared file systems, as DIR or NAME=DIR; the first one is the baseline
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<String>,
    /// parallel, io500-like, or a TOML file of groups
    #[arg(long, default_value = "parallel")]
    suite: String,
    /// Measured blocks; a block of warm-up comes before them
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: u32,
    /// Numbers of ranks that take part, such as 1,2,4,8 [default: all]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    ranks: Vec<usize>,
    /// Seconds after which a rank that does not go on ends the job
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Run directory, new or empty [default: fsb-results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of contents and random orders
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(CLEANER_ARGUMENT) {
        let cleaned = cleaner::main(&mut std::io::stdin().lock());
        return ExitCode::from(u8::from(cleaned.is_err()));
    }
    if std::env::args().nth(1).as_deref() == Some(PROBE_ARGUMENT) {
        let arguments = Vec::from_iter(std::env::args_os());
        return ExitCode::from(u8::try_from(probe_main(&arguments[2..])).unwrap_or(MACHINE));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // All ranks have the same arguments: one of them complains.
            if launched_rank().is_none_or(|rank| rank == 0) {
                let _ = error.print();
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match arguments.command {
        Command::Run(run) => measure(&run),
        Command::Simulate { ranks } => simulation(ranks),
    }
}

/// Returns the rank of this process from the variables of its launcher, before MPI starts. Returns
/// `None` if the launcher sets none of them.
fn launched_rank() -> Option<usize> {
    // Open MPI, PMIx, MPICH and Slurm.
    let names = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ];
    names
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn measure(run: &Run) -> ExitCode {
    // The cleaner of rank 0 removes the files of all ranks. It must not inherit what MPI opens.
    let cleaner = match launched_rank().is_none_or(|rank| rank == 0) {
        true => Cleaner::start().map(Some),
        false => Ok(None),
    };
    let cleaner = match cleaner {
        Ok(cleaner) => cleaner,
        Err(error) => {
            return complain(
                MACHINE,
                &format!("cannot start the process that cleans up: {error}"),
            );
        }
    };
    let rank = match MpiRank::start() {
        Ok(rank) => rank,
        Err(error) => return complain(MACHINE, &error.to_string()),
    };
    let limit = Duration::from_secs(run.timeout);
    let number = rank.rank();
    let watch = Watch::new(limit, move |activity| {
        kill_this_rank(number, limit, activity)
    });
    let hello = Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: fsb_testbed::host::boot_id(),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    let is_first = number == 0;
    let request = is_first.then(|| request(run, rank.size()));
    let name = request
        .as_ref()
        .and_then(|request| Some(run_name(request.as_ref().ok()?)));
    let mut store = Store {
        path: run.out.clone().unwrap_or_else(|| default_directory(name)),
        directory: None,
        cleaner,
    };
    let journal: Option<&mut dyn JobStore> = if is_first { Some(&mut store) } else { None };
    match job::run(&rank, hello, request, journal, &watch) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(finished)) => show(&finished, &store),
        Err(JobError::Communicator(error)) => {
            let code = complain(MACHINE, &format!("rank {number}: {error}"));
            rank.abort(i32::from(MACHINE));
            code
        }
        Err(JobError::Refused(why)) if is_first => complain(REQUEST, &why),
        Err(JobError::Refused(_)) => ExitCode::from(REQUEST),
        Err(JobError::Journal(why)) => complain(MACHINE, &why),
    }
}

/// Prints an error, and returns the exit code.
fn complain(code: u8, message: &str) -> ExitCode {
    print_line(&format!("error: {message}"));
    ExitCode::from(code)
}

/// Resolves the request on rank 0.
fn request(run: &Run, size: usize) -> Result<Request, String> {
    let mut targets = Vec::new();
    for text in &run.directories {
        let mut target: Target = text
            .parse()
            .map_err(|error: fsb_model::target::TargetError| error.to_string())?;
        let Some(path) = target.directory() else {
            return Err(format!(
                "{text} is not a directory: fsb-mpi measures mounted file systems; write ./{text} or /…"
            ));
        };
        let path = path
            .canonicalize()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        target.kind = fsb_model::TargetKind::Directory(path);
        targets.push(target);
    }
    make_names_unique(&mut targets);
    let file = Path::new(&run.suite);
    let (suite_name, suite) = match file
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        true => {
            let text = fsb_store::input::read_text(file, 1 << 20)
                .map_err(|error| format!("{}: {error}", run.suite))?;
            let name = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            (
                name,
                Suite::parse(&text).map_err(|why| format!("{}: {why}", run.suite))?,
            )
        }
        false => (run.suite.clone(), Suite::named(&run.suite)?),
    };
    let mut ranks = if run.ranks.is_empty() {
        vec![size]
    } else {
        run.ranks.clone()
    };
    ranks.sort_unstable();
    ranks.dedup();
    Ok(Request {
        targets,
        suite_name,
        suite,
        blocks: run.blocks,
        ranks,
        seed: run.seed,
    })
}

/// Returns a name such as `mnt-a-mnt-b` with characters that a shell does not interpret.
fn run_name(request: &Request) -> String {
    let names: Vec<&str> = request
        .targets
        .iter()
        .map(|target| target.name.trim_matches(['.', '/']))
        .collect();
    names
        .join("-")
        .chars()
        .map(|c: char| {
            if c.is_ascii_alphanumeric() || "-_.,=".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(60)
        .collect()
}

fn default_directory(name: Option<String>) -> PathBuf {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    Path::new(RESULTS).join(format!("{time}-{}", name.unwrap_or_default()))
}

/// The run directory of rank 0.
struct Store {
    path: PathBuf,
    directory: Option<RunDirectory>,
    cleaner: Option<Cleaner>,
}

impl JobStore for Store {
    fn owns(&mut self, directory: &Path) -> Result<(), String> {
        let cleaner = self
            .cleaner
            .as_mut()
            .ok_or("rank 0 has no process that cleans up")?;
        cleaner
            .add(directory)
            .map_err(|error| format!("the process that cleans up has ended: {error}"))
    }

    fn record(&mut self, record: &RunRecord) -> Result<(), String> {
        let written = match &mut self.directory {
            Some(directory) => directory.write_record(record),
            None => {
                let holder = format!("process {} (fsb-mpi)", std::process::id());
                let owner = ResultOwner::this_user();
                RunDirectory::create(&self.path, record, owner, &holder)
                    .map(|made| self.directory = Some(made))
            }
        };
        written.map_err(|error| error.to_string())
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), String> {
        let directory = self
            .directory
            .as_mut()
            .ok_or("the run directory was not made")?;
        directory.append(trial).map_err(|error| error.to_string())
    }

    fn progress(&mut self, text: &str) {
        print_line(text);
    }
}

/// Prints the report, and writes its files into the run directory.
fn show(finished: &Finished, store: &Store) -> ExitCode {
    let summary = Summary::of_run(&finished.record, &finished.trials);
    let report = Report::of_run(&summary, &finished.trials);
    let mut output = report_text::screen(&report, WIDTH, false, false);
    output += "\n";
    output += &text::lines(&finished.record, &finished.trials, &finished.suite);
    output += &format!("results: {}\n", store.path.display());
    let _ = std::io::stdout().lock().write_all(output.as_bytes());
    if let Some(directory) = &store.directory {
        for (format, name) in [("csv", "trials.csv"), ("html", "report.html")] {
            let known = FORMATS.iter().find(|known| known.name == format);
            let written = known.map(|format| {
                directory.write_file_with(name, |file| (format.write)(&report, file))
            });
            if let Some(Err(error)) = written {
                return complain(MACHINE, &error.to_string());
            }
        }
    }
    for left in &finished.left {
        complain(MACHINE, left);
    }
    match job::is_complete(&finished.trials) {
        _ if !finished.left.is_empty() => ExitCode::from(MACHINE),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(TRIALS),
    }
}

/// Simulates jobs of growing size, and prints what each of them costs.
fn simulation(most: usize) -> ExitCode {
    let mut lines =
        "simulation: ranks are threads of this process, and their calls do nothing\n".to_owned();
    lines += "   ranks  trials   seconds  seconds/previous  messages/rank  bytes/rank  process's peak/rank\n";
    let mut previous: Option<f64> = None;
    for ranks in [most / 8, most / 4, most / 2, most]
        .into_iter()
        .filter(|ranks| *ranks > 0)
    {
        let simulated = match simulate(ranks) {
            Ok(simulated) => simulated,
            Err(why) => return complain(MACHINE, &why),
        };
        let each = |total: u64| total as f64 / ranks as f64;
        lines += &format!(
            "{ranks:8} {:7} {:9.2} {:>17} {:14.1} {:11.0} {:16.1} KiB\n",
            simulated.trials,
            simulated.seconds,
            previous.map_or_else(
                || "–".to_owned(),
                |previous| format!("{:.2}", simulated.seconds / previous)
            ),
            each(simulated.messages),
            each(simulated.bytes),
            each(peak_kib().unwrap_or(0))
        );
        previous = Some(simulated.seconds);
    }
    let _ = std::io::stdout().lock().write_all(lines.as_bytes());
    ExitCode::SUCCESS
}

/// Returns the largest resident size of this process so far, in KiB.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
