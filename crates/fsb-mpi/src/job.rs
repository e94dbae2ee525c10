//! Runs a job on all ranks. Rank 0 coordinates: it keeps the record, and decides whether the job
//! goes on.
//!
//! All ranks make the same collective calls in the same order. A rank whose work fails reports it
//! to rank 0, which sends it to the others, so that no rank waits for one that has ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fsb_engine::EngineError;
use fsb_model::run::{BlockOrder, Ranks, RunRecord};
use fsb_model::storage::Promise;
use fsb_model::trial::Reason;
use fsb_model::{Outcome, StopReason, Trial};
use serde::{Deserialize, Serialize};

use crate::clock::{self, synchronise};
use crate::communicator::{Communicator, CommunicatorError, broadcast, gather, scatter};
use crate::layout::{self, Shift};
use crate::record::{self, PhaseResult, TrialKey, barrier_skew, first_failure};
use crate::suite::{Group, Phase, Request, Suite};
use crate::watch::Watch;
use crate::work::{Part, Progress, RankReport, make_directory};

/// Attempts to find a new file on another host. File systems such as NFS show it after some
/// seconds.
const ATTEMPTS: u32 = 100;
/// The time between them.
const PAUSE: Duration = Duration::from_millis(100);

/// The identity of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of this program.
    pub version: String,
    /// Ranks with the same boot id share a clock and a page cache.
    pub boot_id: String,
    /// The name of the host, for messages.
    pub host: String,
}

/// The store and the display of rank 0.
pub trait JobStore {
    /// Announces a directory that must be removed even if this process is killed.
    ///
    /// # Errors
    /// Fails if nothing would remove it.
    fn owns(&mut self, directory: &Path) -> Result<(), String>;

    /// Keeps the record of the run.
    ///
    /// # Errors
    /// Fails if it cannot be written. The job ends then.
    fn record(&mut self, record: &RunRecord) -> Result<(), String>;

    /// Keeps a trial.
    ///
    /// # Errors
    /// As [`JobStore::record`].
    fn trial(&mut self, trial: &Trial) -> Result<(), String>;

    /// Shows what the job does now.
    fn progress(&mut self, text: &str);
}

/// A job that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A call between ranks failed.
    #[error(transparent)]
    Communicator(#[from] CommunicatorError),
    /// The job cannot be done as requested. All ranks have the same reason.
    #[error("{0}")]
    Refused(String),
    /// Rank 0 cannot keep the results.
    #[error("{0}")]
    Journal(String),
}

/// The results of a job, on rank 0.
#[derive(Debug)]
pub struct Finished {
    /// The record of the run.
    pub record: RunRecord,
    /// All trials.
    pub trials: Vec<Trial>,
    /// Directories that could not be removed, with the reasons.
    pub left: Vec<String>,
    /// The suite.
    pub suite: Suite,
}

/// The data that all ranks have.
#[derive(Debug, Serialize, Deserialize)]
struct Common {
    request: Request,
    /// Is in the names of directories, and in a file that all ranks must see.
    token: String,
}

/// The part of one rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Assignment {
    /// Whether it answers for the clock of its host.
    leads: bool,
    /// For each number of ranks: its place, if it takes part, and the shift.
    levels: Vec<(Option<usize>, usize)>,
}

/// Runs this rank's part of a job. `request` and `journal` are those of rank 0; other ranks give
/// `None`, and get `None` back.
///
/// # Errors
/// Fails on all ranks if the job cannot be done, and on the rank whose call failed if MPI fails: it
/// must abort the job.
pub fn run(
    communicator: &dyn Communicator,
    hello: Hello,
    request: Option<Result<Request, String>>,
    journal: Option<&mut dyn JobStore>,
    watch: &Watch,
) -> Result<Option<Finished>, JobError> {
    let hellos = gather(communicator, hello, &mut |rank| {
        watch.begin(format!("start: waits for rank {rank}"))
    })?;
    watch.begin("start: waits for rank 0");
    let common = match (request, &hellos) {
        (Some(request), Some(hellos)) => {
            let common = request.and_then(|request| common(request, hellos));
            broadcast(communicator, Some(&common))?
        }
        _ => broadcast::<Result<Common, String>>(communicator, None)?,
    };
    let common = common.map_err(JobError::Refused)?;
    let hosts = hellos.as_ref().map(|hellos| Hosts::new(hellos));
    let assignments = hosts
        .as_ref()
        .map(|hosts| hosts.assignments(&common.request.ranks));
    let assignment = scatter(communicator, assignments)?;
    let coordinator = match (hosts, journal) {
        (Some(hosts), Some(journal)) => {
            let library = communicator.library();
            Some(Coordinator::new(&common.request, hosts, library, journal))
        }
        _ => None,
    };
    let roots = common.request.targets.iter().map(|target| {
        let directory = target.directory().map(Path::to_owned).unwrap_or_default();
        directory.join(format!(".fsb-mpi-{}", common.token))
    });
    let roots = roots.collect();
    let mut job = Job {
        communicator,
        watch,
        common,
        assignment,
        roots,
        coordinator,
        trials: 0,
    };
    let shared = job.check_shared();
    let done = shared.and_then(|()| job.blocks());
    job.finish(done)
}

/// Checks what the ranks say about themselves.
fn common(request: Request, hellos: &[Hello]) -> Result<Common, String> {
    let first = &hellos[0];
    if let Some((rank, other)) = hellos
        .iter()
        .enumerate()
        .find(|(_, hello)| hello.version != first.version)
    {
        return Err(format!(
            "versions differ: rank {rank} on {} is {}, and rank 0 on {} is {}; install the same fsb-mpi on all hosts",
            other.host, other.version, first.host, first.version
        ));
    }
    if let Some(most) = request
        .ranks
        .iter()
        .find(|ranks| !(1..=hellos.len()).contains(ranks))
    {
        return Err(format!(
            "--ranks {most}: the job has {} ranks; start it with more: mpirun -n {most}",
            hellos.len()
        ));
    }
    // The clock and the process make it unique. It need not be secret.
    let token = format!(
        "{:x}",
        fsb_engine::mix(clock::now() ^ u64::from(std::process::id()) << 32)
    );
    Ok(Common { request, token })
}

/// The hosts of all ranks.
#[derive(Debug)]
struct Hosts {
    /// The host of each rank, in the order in which hosts have their first rank.
    of_rank: Vec<usize>,
    /// The name of each host.
    names: Vec<String>,
    /// The first rank of each host.
    leaders: Vec<usize>,
    /// The ranks in the order in which they take part.
    order: Vec<usize>,
}

impl Hosts {
    fn new(hellos: &[Hello]) -> Hosts {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut of_rank, mut names, mut leaders) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, hello) in hellos.iter().enumerate() {
            let host = *known.entry(&hello.boot_id).or_insert(names.len());
            if host == names.len() {
                names.push(hello.host.clone());
                leaders.push(rank);
            }
            of_rank.push(host);
        }
        let order = layout::order(&of_rank);
        Hosts {
            of_rank,
            names,
            leaders,
            order,
        }
    }

    /// Returns the shift for that number of ranks.
    fn shift(&self, ranks: usize) -> Shift {
        let hosts: Vec<usize> = self.order[..ranks]
            .iter()
            .map(|rank| self.of_rank[*rank])
            .collect();
        layout::shift(&hosts)
    }

    fn name(&self, rank: usize) -> String {
        self.names[self.of_rank[rank]].clone()
    }

    fn assignments(&self, levels: &[usize]) -> Vec<Assignment> {
        let mut all: Vec<Assignment> = (0..self.of_rank.len())
            .map(|rank| Assignment {
                leads: rank > 0 && self.leaders[self.of_rank[rank]] == rank,
                levels: Vec::new(),
            })
            .collect();
        for ranks in levels {
            let shift = self.shift(*ranks).by;
            all.iter_mut()
                .for_each(|assignment| assignment.levels.push((None, shift)));
            for (place, rank) in self.order[..*ranks].iter().enumerate() {
                if let Some(level) = all[*rank].levels.last_mut() {
                    level.0 = Some(place);
                }
            }
        }
        all
    }

    fn ranks(&self, levels: &[usize], library: String) -> Ranks {
        let mut by_host = vec![0; self.names.len()];
        self.of_rank.iter().for_each(|host| by_host[*host] += 1);
        let readers_on_other_hosts = levels.iter().all(|ranks| self.shift(*ranks).crosses_hosts);
        Ranks {
            by_host,
            library,
            readers_on_other_hosts,
        }
    }
}

/// The state of rank 0 besides its part of the work.
struct Coordinator<'j> {
    hosts: Hosts,
    record: RunRecord,
    trials: Vec<Trial>,
    journal: &'j mut dyn JobStore,
    /// The reason why results are not kept.
    failure: Option<String>,
    left: Vec<String>,
}

impl<'j> Coordinator<'j> {
    fn new(
        request: &Request,
        hosts: Hosts,
        library: String,
        journal: &'j mut dyn JobStore,
    ) -> Coordinator<'j> {
        let ranks = hosts.ranks(&request.ranks, library);
        let directory = std::env::current_dir().unwrap_or_default();
        let record = record::new_record(request, ranks, &directory);
        Coordinator {
            hosts,
            record,
            trials: Vec::new(),
            journal,
            failure: None,
            left: Vec::new(),
        }
    }

    /// Keeps a trial, and the reason if that fails.
    fn keep(&mut self, mut trial: Trial) {
        if fsb_store::journal::is_durable(&trial.params) {
            let target = self.record.targets.get(&trial.target);
            for unproven in target.map_or(&[][..], |found| &found.unproven) {
                if unproven.promise != Promise::Direct {
                    trial.observed.unproven.push(unproven.promise);
                }
            }
        }
        if let Err(why) = self.journal.trial(&trial) {
            self.failure.get_or_insert(why);
        }
        self.trials.push(trial);
    }

    fn keep_record(&mut self) {
        if let Err(why) = self.journal.record(&self.record) {
            self.failure.get_or_insert(why);
        }
    }

    /// Removes a directory with all its contents, if it exists.
    fn remove(&mut self, directory: &Path) {
        match fsb_store::remove_tree(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                self.left
                    .push(format!("cannot remove {}: {error}", directory.display()));
            }
            _ => {}
        }
    }
}

/// One rank's part of a job.
struct Job<'j> {
    communicator: &'j dyn Communicator,
    watch: &'j Watch,
    common: Common,
    assignment: Assignment,
    /// The directory of this job on each target.
    roots: Vec<PathBuf>,
    coordinator: Option<Coordinator<'j>>,
    /// Trials that began.
    trials: u32,
}

impl Job<'_> {
    /// Gathers a value while the watch knows which rank is missing.
    fn gather<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        value: T,
        what: &str,
    ) -> Result<Option<Vec<T>>, CommunicatorError> {
        let watch = self.watch;
        if self.communicator.rank() > 0 {
            watch.begin(format!("{what}: sends its result to rank 0"));
        }
        gather(self.communicator, value, &mut |rank| {
            watch.begin(format!("{what}: waits for rank {rank}"))
        })
    }

    /// Checks that all ranks see the directories of rank 0.
    fn check_shared(&mut self) -> Result<(), JobError> {
        if !self.common.request.suite.groups.iter().any(Group::is_real) {
            return Ok(());
        }
        for at in 0..self.roots.len() {
            let root = self.roots[at].clone();
            let what = format!("{}: looks for the file of rank 0", root.display());
            let made = match &mut self.coordinator {
                Some(coordinator) => {
                    Some(make_root(&root, &self.common.token, coordinator.journal))
                }
                None => None,
            };
            self.watch.begin(&what);
            broadcast(self.communicator, made.as_ref())?.map_err(JobError::Refused)?;
            let seen = sees(&root, &self.common.token);
            let seen = self.gather(seen, &what)?;
            let verdict: Option<Result<(), String>> = self.coordinator.as_ref().zip(seen).map(|(coordinator, seen)| {
                let without: Vec<usize> = (0..seen.len()).filter(|rank| !seen[*rank]).collect();
                let Some(rank) = without.first() else { return Ok(()) };
                let host = &coordinator.hosts.names[coordinator.hosts.of_rank[*rank]];
                Err(format!(
                    "{} is not shared: rank {rank} on {host} does not see the file that rank 0 wrote there ({} of {} \
                     ranks do not); mount the same file system on all hosts",
                    root.parent().unwrap_or(&root).display(),
                    without.len(),
                    seen.len()
                ))
            });
            broadcast(self.communicator, verdict.as_ref())?.map_err(JobError::Refused)?;
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<(), JobError> {
        let request = self.common.request.clone();
        if let Some(coordinator) = &mut self.coordinator {
            describe_targets(&request, coordinator);
            coordinator.keep_record();
        }
        for block in 0..=request.blocks {
            // Each target is the first one, the second one, … in equally many blocks.
            let order: Vec<usize> = (0..request.targets.len())
                .map(|at| (at + block as usize) % request.targets.len())
                .collect();
            if let Some(coordinator) = &mut self.coordinator {
                coordinator.record.order.push(BlockOrder {
                    block,
                    targets: order
                        .iter()
                        .map(|target| request.targets[*target].name.clone())
                        .collect(),
                    cells: coordinator
                        .record
                        .cells
                        .iter()
                        .map(|cell| cell.label.clone())
                        .collect(),
                    slices: Vec::new(),
                });
            }
            for (group_number, group) in request.suite.groups.iter().enumerate() {
                for level in 0..request.ranks.len() {
                    for target in &order {
                        self.watch.begin(format!("block {block}: waits for rank 0"));
                        let goes_on = self
                            .coordinator
                            .as_ref()
                            .map(|coordinator| coordinator.failure.is_none());
                        if !broadcast(self.communicator, goes_on.as_ref())? {
                            return Ok(());
                        }
                        let root =
                            self.roots[*target].join(format!("b{block}.g{group_number}.l{level}"));
                        let place = Unit {
                            block,
                            group,
                            level,
                            target: *target,
                            root: &root,
                        };
                        self.measure(&place)?;
                    }
                }
            }
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.record.stop_reason = Some(StopReason::Requested {
                blocks: request.blocks,
            });
        }
        Ok(())
    }

    /// Measures all phases of a group on one target.
    fn measure(&mut self, unit: &Unit<'_>) -> Result<(), JobError> {
        let ranks = self.common.request.ranks[unit.level];
        let (place, shift) = self.assignment.levels[unit.level];
        let is_real = unit.group.is_real();
        let part = Part {
            group: unit.group,
            root: unit.root,
            place: 0,
            ranks,
            shift,
            seed: self.common.request.seed,
        };
        let own = place.map(|place| Part { place, ..part });
        let what = format!(
            "block {}, {}",
            unit.block, self.common.request.targets[unit.target].name
        );
        let made: Option<Option<EngineError>> = self
            .coordinator
            .is_some()
            .then(|| is_real.then(|| part.make_shared().err()).flatten());
        self.watch
            .begin(format!("{what}: waits for the directories of rank 0"));
        let shared: Option<EngineError> = broadcast(self.communicator, made.as_ref())?;
        let failure = match own {
            Some(own) if is_real && shared.is_none() => own.make_own().err(),
            _ => None,
        };
        let failures = self.gather(failure, &what)?;
        let mut failure: Option<Reason> =
            self.coordinator
                .as_ref()
                .zip(failures)
                .and_then(|(coordinator, failures)| {
                    let all = shared.iter().map(|error| (0, error));
                    let own = failures
                        .iter()
                        .enumerate()
                        .filter_map(|(rank, error)| Some((rank, error.as_ref()?)));
                    first_failure(all.chain(own), &|rank| coordinator.hosts.name(rank))
                });
        let mut is_good = broadcast(
            self.communicator,
            self.coordinator.is_some().then_some(&failure.is_none()),
        )?;
        let mut is_removed = false;
        for phase in unit.group.phases.iter().copied() {
            if !is_good {
                if let Some(coordinator) = &mut self.coordinator {
                    let reason = failure
                        .clone()
                        .unwrap_or_else(|| "an earlier phase failed".into());
                    let key = unit.key(phase, ranks, &self.common.request, self.trials);
                    coordinator.keep(key.trial(record::now(), Err(reason)));
                }
                self.trials += 1;
                continue;
            }
            failure = self.phase(unit, phase, ranks, own)?;
            is_good = broadcast(
                self.communicator,
                self.coordinator.is_some().then_some(&failure.is_none()),
            )?;
            is_removed = is_good && phase == Phase::Delete;
            if let Some(own) = own.filter(|_| is_good && is_real && phase == Phase::Write) {
                own.drop_from_cache();
            }
        }
        if let Some(own) = own.filter(|_| is_real && !is_removed) {
            self.watch.begin(format!("{what}: removes its files"));
            own.remove_own();
        }
        self.gather((), &format!("{what}: all remove their files"))?;
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| is_real) {
            coordinator.remove(unit.root);
        }
        Ok(())
    }

    /// Measures one phase. Returns the reason on rank 0 if it failed.
    fn phase(
        &mut self,
        unit: &Unit<'_>,
        phase: Phase,
        ranks: usize,
        own: Option<Part<'_>>,
    ) -> Result<Option<Reason>, JobError> {
        let key = unit.key(phase, ranks, &self.common.request, self.trials);
        let what = format!(
            "block {}, {}, {}",
            unit.block,
            key.target,
            unit.group.label(phase, ranks)
        );
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.journal.progress(&what);
        }
        self.watch.begin(format!("{what}: prepares"));
        inject_fault(self.communicator, self.trials);
        self.trials += 1;
        let leaders = self
            .coordinator
            .as_ref()
            .map_or(&[0][..], |coordinator| &coordinator.hosts.leaders[..]);
        let offsets = synchronise(self.communicator, leaders, self.assignment.leads)?;
        let prepared = own.map(|own| own.prepare(phase));
        let started = record::now();
        // A barrier does not say who is missing.
        self.gather((), &what)?;
        self.watch.begin(format!("{what}: waits at the barrier"));
        self.communicator.barrier()?;
        let left_barrier = clock::now();
        self.watch.begin(format!("{what}: works"));
        let (report, progress) = match prepared {
            None => (None, Progress::default()),
            Some(Ok(ready)) => {
                let (report, progress) = ready.run();
                (
                    Some(RankReport {
                        left_barrier,
                        ..report
                    }),
                    progress,
                )
            }
            Some(Err(error)) => {
                let (start, stop) = (left_barrier, left_barrier);
                let report = RankReport {
                    left_barrier,
                    start,
                    stop,
                    failure: Some(error),
                    ..RankReport::default()
                };
                (Some(report), Progress::default())
            }
        };
        let own_end = report
            .as_ref()
            .map_or((0, 0), |report| (report.stop, report.operations));
        let reports = self.gather(report, &what)?;
        let reports: Option<Vec<(usize, RankReport)>> =
            self.coordinator
                .as_ref()
                .zip(reports)
                .map(|(coordinator, all)| {
                    let took_part = all
                        .into_iter()
                        .enumerate()
                        .filter_map(|(rank, report)| Some((rank, report?)));
                    took_part
                        .map(|(rank, report)| {
                            (
                                rank,
                                report.on_clock_of_rank_zero(
                                    offsets[coordinator.hosts.of_rank[rank]],
                                ),
                            )
                        })
                        .collect()
                });
        // The stonewall: how much all had done when the first one ended.
        let ends: Option<Vec<u64>> =
            self.coordinator
                .as_ref()
                .zip(reports.as_ref())
                .map(|(coordinator, reports)| {
                    let first_stop = reports
                        .iter()
                        .map(|(_, report)| report.stop)
                        .min()
                        .unwrap_or(0);
                    coordinator
                        .hosts
                        .of_rank
                        .iter()
                        .map(|host| offsets[*host].to_host(first_stop))
                        .collect()
                });
        let first_stop = scatter(self.communicator, ends)?;
        let (own_stop, operations) = own_end;
        let done = if own_stop <= first_stop {
            operations
        } else {
            progress.done_by(first_stop)
        };
        let done = self.gather(done, &what)?;
        let Some(((coordinator, reports), done)) = self.coordinator.as_mut().zip(reports).zip(done)
        else {
            return Ok(None);
        };
        let failures = reports
            .iter()
            .filter_map(|(rank, report)| Some((*rank, report.failure.as_ref()?)));
        let failure = first_failure(failures, &|rank| coordinator.hosts.name(rank));
        let result = match &failure {
            Some(reason) => Err(reason.clone()),
            None => {
                let left = reports
                    .iter()
                    .map(|(_, report)| report.left_barrier)
                    .collect();
                let barrier = barrier_skew(left, &offsets);
                Ok(PhaseResult {
                    reports,
                    done_by_first_stop: done.iter().sum(),
                    barrier,
                })
            }
        };
        coordinator.keep(key.trial(started, result));
        Ok(failure)
    }

    /// Removes what is left, and closes the record.
    fn finish(mut self, done: Result<(), JobError>) -> Result<Option<Finished>, JobError> {
        if let Err(JobError::Communicator(error)) = done {
            // The others are aborted: the cleaner removes the directories after them.
            return Err(error.into());
        }
        self.watch.begin("end: waits for all ranks");
        if let Some(coordinator) = &mut self.coordinator {
            self.roots.iter().for_each(|root| coordinator.remove(root));
        }
        self.communicator.barrier()?;
        done?;
        let Some(mut coordinator) = self.coordinator else {
            return Ok(None);
        };
        if let Some(segment) = coordinator.record.segments.last_mut() {
            segment.ended = Some(record::now());
        }
        coordinator.keep_record();
        match coordinator.failure {
            Some(why) => Err(JobError::Journal(why)),
            None => {
                let Coordinator {
                    record,
                    trials,
                    left,
                    ..
                } = coordinator;
                Ok(Some(Finished {
                    record,
                    trials,
                    left,
                    suite: self.common.request.suite,
                }))
            }
        }
    }
}

/// A group on one target in one block, with some of the ranks.
struct Unit<'u> {
    block: u32,
    group: &'u Group,
    level: usize,
    target: usize,
    root: &'u Path,
}

impl Unit<'_> {
    fn key<'k>(
        &'k self,
        phase: Phase,
        ranks: usize,
        request: &'k Request,
        order: u32,
    ) -> TrialKey<'k> {
        let target = &request.targets[self.target].name;
        TrialKey {
            block: self.block,
            order,
            target,
            group: self.group,
            phase,
            ranks,
        }
    }
}

/// Fails if `FSB_MPI_FAULT` is `RANK:TRIAL:KIND` with this rank and this trial, from 0. KIND is
/// `kill`, `hang` (the rank stops) or `abort` (it calls MPI_Abort). Only builds with the feature
/// `faults`, for tests, contain it.
#[cfg(feature = "faults")]
fn inject_fault(communicator: &dyn Communicator, trial: u32) {
    use rustix::process::{Signal, getpid, kill_process};
    let Ok(fault) = std::env::var("FSB_MPI_FAULT") else {
        return;
    };
    let kind = fault.strip_prefix(&format!("{}:{trial}:", communicator.rank()));
    let _ = match kind {
        Some("kill") => kill_process(getpid(), Signal::KILL),
        Some("hang") => kill_process(getpid(), Signal::STOP),
        Some("abort") => {
            communicator.abort(9);
            Ok(())
        }
        _ => Ok(()),
    };
}

#[cfg(not(feature = "faults"))]
fn inject_fault(_communicator: &dyn Communicator, _trial: u32) {}

/// Makes the directory of a job, with the file that other ranks must see.
fn make_root(root: &Path, token: &str, journal: &mut dyn JobStore) -> Result<(), String> {
    journal.owns(root)?;
    make_directory(root).map_err(|error| error.message)?;
    let file = root.join("token");
    std::fs::write(&file, token).map_err(|error| EngineError::io("write to", &file, &error).message)
}

/// Returns whether this rank sees the file of rank 0.
fn sees(root: &Path, token: &str) -> bool {
    (0..ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        fsb_store::input::read(&root.join("token"), 1024).is_ok_and(|text| text == token.as_bytes())
    })
}

/// Records the directories as rank 0 sees them.
fn describe_targets(request: &Request, coordinator: &mut Coordinator<'_>) {
    let Some(ranks) = &coordinator.record.ranks else {
        return;
    };
    let all: u32 = ranks.by_host.iter().sum();
    let hosts = ranks.by_host.len();
    fn plural(n: usize) -> &'static str {
        if n == 1 { "" } else { "s" }
    }
    let mut note = format!(
        "{all} rank{} on {hosts} host{}",
        plural(all as usize),
        plural(hosts)
    );
    if !ranks.readers_on_other_hosts {
        note += ": readers share a page cache with writers";
    }
    for target in &request.targets {
        let Some(path) = target.directory() else {
            continue;
        };
        let mut record = fsb_testbed::directory_record(path).unwrap_or_default();
        record.notes.push(note.clone());
        coordinator
            .record
            .targets
            .insert(target.name.clone(), record);
    }
}

/// Returns whether all trials of a job have values.
pub fn is_complete(trials: &[Trial]) -> bool {
    trials.iter().all(|trial| trial.outcome == Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{self, ThreadRank};

    const SUITE: &str = include_str!("../testdata/small.toml");

    /// Keeps everything in memory.
    #[derive(Default)]
    struct Memory {
        owned: Vec<PathBuf>,
        trials: usize,
        /// Fails from this trial on.
        room: Option<usize>,
    }

    impl JobStore for Memory {
        fn owns(&mut self, directory: &Path) -> Result<(), String> {
            self.owned.push(directory.to_owned());
            Ok(())
        }

        fn record(&mut self, _record: &RunRecord) -> Result<(), String> {
            Ok(())
        }

        fn trial(&mut self, _trial: &Trial) -> Result<(), String> {
            self.trials += 1;
            if self.room.is_some_and(|room| self.trials > room) {
                Err("no space".to_owned())
            } else {
                Ok(())
            }
        }

        fn progress(&mut self, _text: &str) {}
    }

    fn request(directories: &[&Path], ranks: &[usize], blocks: u32) -> Request {
        Request {
            targets: directories
                .iter()
                .map(|path| path.to_str().unwrap().parse().unwrap())
                .collect(),
            suite_name: "small".to_owned(),
            suite: Suite::parse(SUITE).unwrap(),
            blocks,
            ranks: ranks.to_vec(),
            seed: 7,
        }
    }

    /// Runs a job of threads, two on a host, and returns the results of all ranks.
    fn run_job(
        size: usize,
        request: &Request,
        version: impl Fn(usize) -> String + Sync,
        room: Option<usize>,
    ) -> Vec<Result<Option<Finished>, JobError>> {
        let work = |rank: &ThreadRank| {
            let number = rank.rank();
            let host = format!("h{}", number / 2);
            let hello = Hello {
                version: version(number),
                boot_id: host.clone(),
                host,
            };
            let mut journal = Memory {
                room,
                ..Memory::default()
            };
            let is_first = number == 0;
            let request = is_first.then(|| Ok(request.clone()));
            let given: Option<&mut dyn JobStore> = if is_first { Some(&mut journal) } else { None };
            let result = run(rank, hello, request, given, &Watch::none());
            assert!(
                journal.owned.iter().all(|directory| !directory.exists()),
                "{:?}",
                journal.owned
            );
            result
        };
        threads::run(size, work).unwrap().0
    }

    fn same(_rank: usize) -> String {
        "1".to_owned()
    }

    #[test]
    fn a_job_measures_two_directories_and_leaves_nothing() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let request = request(&[places[0].path(), places[1].path()], &[4], 5);
        let mut results = run_job(4, &request, same, None);
        let finished = results.remove(0).unwrap().unwrap();
        assert!(results.iter().all(|result| matches!(result, Ok(None))));
        let failed: Vec<String> = finished
            .trials
            .iter()
            .filter_map(|trial| trial.error.clone())
            .collect();
        assert!(
            failed.is_empty() && finished.left.is_empty(),
            "{failed:?} {:?}",
            finished.left
        );
        // Six phases on two targets in a warm-up and five blocks.
        assert_eq!(finished.trials.len(), 6 * 2 * 6);
        for trial in &finished.trials {
            let operations: u64 = trial.workers.iter().map(|worker| worker.operations).sum();
            let each = match trial.operation.as_str() {
                "write" | "read" => 16,
                "lock" => 5,
                _ => 20,
            };
            assert_eq!(
                (trial.workers.len(), operations),
                (4, 4 * each),
                "{}",
                trial.id
            );
            let skew = trial.observed.barrier.unwrap();
            assert!(
                skew.median_seconds <= skew.p90_seconds && skew.p90_seconds <= skew.longest_seconds
            );
            let primary = trial.primary().unwrap();
            let (least, most) = (&trial.metrics[2], &trial.metrics[4]);
            assert!(
                primary.value > 0.0 && least.value <= most.value,
                "{:?}",
                trial.metrics
            );
        }
        let ranks = finished.record.ranks.unwrap();
        assert_eq!(
            (ranks.by_host, ranks.readers_on_other_hosts),
            (vec![2, 2], true)
        );
        for place in places {
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_first_ranks_of_a_case_are_on_different_hosts() {
        let place = tempfile::tempdir().unwrap();
        let request = request(&[place.path()], &[1, 2, 4], 1);
        let finished = run_job(4, &request, same, None).remove(0).unwrap().unwrap();
        assert!(is_complete(&finished.trials));
        let took_part = |ranks: u64| -> Vec<u32> {
            let of = |trial: &&Trial| trial.params["ranks"] == ranks;
            let trial = finished.trials.iter().find(of).unwrap();
            trial.workers.iter().map(|worker| worker.rank).collect()
        };
        assert_eq!(
            (took_part(1), took_part(2), took_part(4)),
            (vec![0], vec![0, 2], vec![0, 1, 2, 3])
        );
    }

    #[test]
    fn impossible_jobs_are_refused_on_all_ranks() {
        let place = tempfile::tempdir().unwrap();
        let good = request(&[place.path()], &[2], 1);
        let absent = place.path().join("absent");
        for (request, version, why) in [
            (
                good.clone(),
                Some(2),
                "rank 2 on h1 is 2, and rank 0 on h0 is 1",
            ),
            (
                Request {
                    ranks: vec![5],
                    ..good.clone()
                },
                None,
                "--ranks 5: the job has 4 ranks",
            ),
            (
                Request {
                    targets: request(&[&absent], &[2], 1).targets,
                    ..good.clone()
                },
                None,
                "ENOENT",
            ),
        ] {
            let version = |rank| {
                if Some(rank) == version {
                    "2".to_owned()
                } else {
                    "1".to_owned()
                }
            };
            for result in run_job(4, &request, version, None) {
                let refused = result.unwrap_err();
                assert!(
                    matches!(&refused, JobError::Refused(text) if text.contains(why)),
                    "{refused}"
                );
            }
        }
    }

    #[test]
    fn a_journal_without_space_ends_the_job_on_all_ranks() {
        let place = tempfile::tempdir().unwrap();
        let mut results = run_job(3, &request(&[place.path()], &[3], 2), same, Some(7));
        assert!(matches!(results.remove(0), Err(JobError::Journal(why)) if why == "no space"));
        assert!(results.iter().all(|result| matches!(result, Ok(None))));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_phase_fails_the_later_phases_of_its_group_alone() {
        let place = tempfile::tempdir().unwrap();
        let mut request = request(&[place.path()], &[2], 1);
        request.suite.groups.remove(0);
        // A suite that was read from a file cannot name it: the preparation fails on all ranks.
        request.suite.groups[0].backend = "absent".to_owned();
        let finished = run_job(2, &request, same, None).remove(0).unwrap().unwrap();
        let outcomes: Vec<(&str, Outcome)> = finished
            .trials
            .iter()
            .filter(|trial| trial.counts())
            .map(|t| (&*t.operation, t.outcome))
            .collect();
        let failed = Outcome::Failed;
        assert_eq!(
            outcomes,
            [
                ("create", failed),
                ("stat", failed),
                ("delete", failed),
                ("lock", Outcome::Ok)
            ]
        );
        assert!(
            finished.trials[0]
                .error
                .as_ref()
                .unwrap()
                .contains("and 1 more rank failed")
        );
    }
}
