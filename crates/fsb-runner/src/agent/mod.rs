//! The agent: it owns the testbed, and conducts the trials that the runner requests.

mod checks;
pub(crate) mod client;
mod measure;
pub(crate) mod protocol;
mod root_background;
mod tally;
mod traced;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsb_engine::{ProgramNeeds, Sizing, workload};
use fsb_model::WorkloadSpec;
use fsb_model::plan::GUEST_ROOT;
use fsb_model::trial::Reason;
use fsb_sys::sandbox::{Confinement, OWN_PROCESSES, Programs};
use fsb_testbed::{Progress, Provisioned, Setup, Slot, Testbed, TestbedError, worker_identity};

use crate::lines::{LineError, Lines};
use crate::worker::WorkerLimits;

pub use checks::{direct as check_direct, uncached as check_uncached};
pub use client::{Agent, AgentError};
pub use measure::deadline;
use measure::{BackgroundWorkers, SlotWorkers, measure_case};
use protocol::{AgentRequest, Reply};
pub use protocol::{MeasureRequest, Measured, Method, SlotTrial, TimeLimit, TrialReply, VERSION};
pub use traced::can_trace;

/// The argument that makes the binary an agent.
pub const AGENT_ARGUMENT: &str = "__agent";
/// The argument that makes the binary a supervisor.
pub const SUPERVISOR_ARGUMENT: &str = "__supervisor";

/// The shortest time between two progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Serves a runner until it closes the connection. Finally tears down the testbed, also after an
/// error.
pub fn serve(stream: UnixStream, testbed: &mut dyn Testbed) -> Result<(), String> {
    let mut lines = Lines::new(stream).map_err(|error| error.to_string())?;
    let mut server = Server {
        testbed,
        setup: None,
        targets: BTreeMap::new(),
        has_emptied_caches: false,
    };
    let ended = server.converse(&mut lines);
    server.testbed.close();
    ended
}

struct Server<'a> {
    testbed: &'a mut dyn Testbed,
    setup: Option<Setup>,
    /// The targets that are ready, by slot.
    targets: BTreeMap<u32, Provisioned>,
    /// Whether the caches of the kernel were emptied, which takes seconds the first time.
    has_emptied_caches: bool,
}

impl Server<'_> {
    fn converse(&mut self, lines: &mut Lines) -> Result<(), String> {
        loop {
            let request = match lines.receive(None, &|| false) {
                Ok(request) => request,
                Err(LineError::Closed) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            // The answer to the measurement that it ended is on its way.
            if matches!(request, AgentRequest::Stop) {
                continue;
            }
            let last = matches!(request, AgentRequest::Close);
            let reply = self.answer(request, lines).unwrap_or_else(Reply::Failed);
            lines.send(&reply).map_err(|error| error.to_string())?;
            if last {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, request: AgentRequest, lines: &mut Lines) -> Result<Reply, TestbedError> {
        match request {
            AgentRequest::Hello { version } if version == VERSION => Ok(Reply::Hello { version }),
            AgentRequest::Hello { version } => Err(machine(
                "the runner and its agent are different programs",
                &format!(
                    "the runner speaks version {version} of the protocol, the agent {VERSION}"
                ),
            )),
            AgentRequest::Open(setup) => self.open(*setup, lines),
            AgentRequest::Provision {
                slot,
                slice,
                target,
            } => {
                self.targets.remove(&slot);
                let provisioned = self.testbed.provision(slot, slice, &target)?;
                self.targets.insert(slot, provisioned.clone());
                Ok(Reply::Provisioned(Box::new(provisioned)))
            }
            AgentRequest::Measure(request) => self.measure(&request, lines),
            AgentRequest::Release(slot) => {
                self.targets.remove(&slot);
                self.testbed.release(slot).map(|()| Reply::Done)
            }
            AgentRequest::Close => {
                self.testbed.close();
                Ok(Reply::Done)
            }
            AgentRequest::Stop => Ok(Reply::Done),
        }
    }

    fn open(&mut self, setup: Setup, lines: &mut Lines) -> Result<Reply, TestbedError> {
        let mut told: Option<Instant> = None;
        let opened = self.testbed.open(&setup, &mut |progress: Progress| {
            if told.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY) {
                told = Some(Instant::now());
                // The answer shows whether the runner is gone; an unsent progress report stops no
                // work.
                let _ = lines.send(&Reply::Progress(progress));
            }
        })?;
        self.setup = Some(setup);
        Ok(Reply::Opened(Box::new(opened)))
    }

    fn measure(
        &mut self,
        request: &MeasureRequest,
        lines: &mut Lines,
    ) -> Result<Reply, TestbedError> {
        let programs_of = |needs: ProgramNeeds| programs(needs, self.targets.len());
        let needs = needs_of(&request.workload, &request.sizing);
        let here = needs.as_ref().is_some_and(|needs| needs.here);
        let own = needs.map(programs_of);
        let beside = request
            .workload
            .background
            .as_ref()
            .map(|background| needs_of(&background.spec(), &request.sizing).map(programs_of));
        let limit = request
            .workload
            .background
            .as_ref()
            .and_then(|background| background.limit?.of_processes());
        if limit.is_none() {
            self.testbed.end_limits()?;
        }
        let stop = lines.connection().ok().map(Arc::new);
        let slots = request.slots.iter().map(|trial| {
            let target = self.targets.get(&trial.slot).ok_or_else(not_ready)?;
            let limits_for = |target, programs| {
                worker_limits(self.setup.as_ref(), target, programs, request.deadline)
            };
            let mut limits = limits_for(target, own.clone())?;
            if here {
                limits.confinement = None;
            }
            limits.space = self.testbed.space_beneath(trial.slot);
            limits.stop.clone_from(&stop);
            let slot = request.background_slot.unwrap_or(trial.slot);
            let place = beside
                .as_ref()
                .and_then(|programs| Some((programs.clone(), self.targets.get(&slot)?)));
            let background = place.map(|(programs, target)| {
                Ok::<_, TestbedError>(BackgroundWorkers {
                    slot,
                    target,
                    limits: limits_for(target, programs)?,
                })
            });
            let mut background = background.transpose()?;
            if let Some(background) = &mut background {
                background.limits.space = self.testbed.space_beneath(slot);
            }
            let of_background = background.as_mut().map(|workers| &mut workers.limits);
            if slot == trial.slot {
                count_processes(
                    self.testbed,
                    slot,
                    [&mut limits].into_iter().chain(of_background),
                );
            } else {
                count_processes(self.testbed, trial.slot, [&mut limits].into_iter());
                count_processes(self.testbed, slot, of_background.into_iter());
            }
            if let (Some(limit), Some(background)) = (limit, &mut background) {
                let lists = self.testbed.limit_background(slot, limit)?;
                background.limits.cgroups.extend(lists.background);
                limits.cgroups.extend(lists.case);
            }
            Ok(SlotWorkers {
                slot: trial.slot,
                target,
                limits,
                background,
            })
        });
        let slots = slots.collect::<Result<Vec<_>, TestbedError>>()?;
        if !self.has_emptied_caches && measure::empties_caches(&slots, request) {
            // The first cold case would seem to take that long each time. A failure is that of the
            // case, which empties them again.
            self.has_emptied_caches = self.testbed.drop_caches().is_ok();
        }
        // The answer shows whether the runner is gone; an unsent progress report stops no work.
        Ok(Reply::Measured(measure_case(
            self.testbed,
            &slots,
            request,
            &mut |progress: Progress| drop(lines.send(&Reply::Progress(progress))),
        )))
    }
}

/// Returns the needs of the programs of a workload, or `None` if it runs none.
fn needs_of(spec: &WorkloadSpec, sizing: &Sizing) -> Option<ProgramNeeds> {
    workload::parse(spec, sizing).ok()?.profile().program
}

/// Returns the confinement of programs. The /dev/shm of all `targets` that are ready together hold
/// at most half of the memory of this machine.
fn programs(needs: ProgramNeeds, targets: usize) -> Programs {
    let ProgramNeeds {
        writable,
        network,
        limits,
        ..
    } = needs;
    let half = fsb_testbed::host::memory_bytes().unwrap_or(1 << 30) / 2;
    let share = half / targets.max(1) as u64;
    Programs {
        writable,
        network,
        scratch: limits.memory.map_or(share, |bytes| bytes.min(share)),
        limits,
    }
}

/// Returns the limits of a target's workers: their confinement, their deadline and the controls
/// that they run under.
fn worker_limits(
    setup: Option<&Setup>,
    target: &Provisioned,
    programs: Option<Programs>,
    deadline: Duration,
) -> Result<WorkerLimits, TestbedError> {
    let setup = setup.ok_or_else(not_ready)?;
    let confinement = match target.abilities.fake {
        Some(_) => None,
        None => {
            let (uid, gid) = worker_identity(&setup.identity)?;
            // In a PID namespace the worker dies with PID 1 anyway; without one this is all that
            // ends it.
            Some(Confinement {
                writable: target.roots().cloned().collect(),
                uid,
                gid,
                cpus: target.held.cpus.clone(),
                memory_nodes: target.held.memory_nodes.clone(),
                root: setup
                    .root
                    .as_ref()
                    .filter(|_| programs.is_some())
                    .map(|_| GUEST_ROOT.into()),
                programs,
                die_with_parent: true,
            })
        }
    };
    Ok(WorkerLimits {
        confinement,
        held: target.held.clone(),
        deadline: Some(deadline),
        ..WorkerLimits::default()
    })
}

/// Lets a cgroup count the processes of the workers of a target that run programs, up to the sum of
/// their limits. The workers, their monitors and their helpers count as well.
fn count_processes<'p>(
    testbed: &mut dyn Testbed,
    slot: Slot,
    limits: impl Iterator<Item = &'p mut WorkerLimits>,
) {
    fn limit(worker: &WorkerLimits) -> Option<u64> {
        Some(
            worker
                .confinement
                .as_ref()?
                .programs
                .as_ref()?
                .limits
                .processes
                + OWN_PROCESSES,
        )
    }
    let counted: Vec<_> = limits
        .filter_map(|worker| Some((limit(worker)?, worker)))
        .collect();
    if counted.is_empty() {
        return;
    }
    let file: Option<PathBuf> =
        testbed.count_processes(slot, counted.iter().map(|(limit, _)| limit).sum());
    for (_, worker) in counted {
        worker.cgroups.extend(file.clone());
    }
}

fn not_ready() -> TestbedError {
    machine(
        "a trial was asked for without a target",
        "nothing was provisioned",
    )
}

/// Returns the reply for a trial after which the target is gone.
pub(crate) fn refused_lost(why: impl Into<Reason>) -> TrialReply {
    TrialReply {
        target_lost: true,
        ..failed(why)
    }
}

/// Returns the reply for a trial without values.
pub(crate) fn failed(why: impl Into<Reason>) -> TrialReply {
    tally::refused(tally::Failure::Failed(why.into()))
}

pub(crate) fn machine(what: &str, tried: &str) -> TestbedError {
    TestbedError::machine(what)
        .tried(tried)
        .advice("this is a bug in fsb: please report it with the command line")
}
