//! Runs in a virtual machine: the VM proxy, an agent on the host between the runner and the agent in the guest.
//!
//! ```text
//! coordinator ──▶ supervisor ──▶ VM proxy (__vm-agent) ──▶ QEMU ─┊─▶ guest: PID 1 ──▶ agent ──▶ workers
//!      └──────── JSON lines ────────┘ └── the same lines, virtio-serial ──┘
//! ```
//!
//! The runner does not notice the guest: it speaks its protocol with the VM proxy. The proxy makes the disks, boots a
//! guest on the kernel that a target names, and forwards the lines. If a guest panics, hangs or is killed, its current
//! trial fails, and the next target boots another guest. The proxy detects a hanging guest: after half a minute of
//! silence it asks the guest over a separate port.
//!
//! Between a worker's `go` and its answer, no line of the protocol passes except the progress of long trials, which any
//! machine sends. Agent and relay wait in `read`, and so do the threads that carry the bytes of the port. They do not
//! affect the clock of a trial.

mod guests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fsb_model::trial::{GUEST, Reason};
use fsb_model::{Target, Warning};
use fsb_sys::sandbox;
use fsb_testbed::optional::Available;
use fsb_testbed::vm::Disks;
use fsb_testbed::{Activity, Kind, Opened, Progress, Roots, Setup, TestbedError};
pub use fsb_vm::guest::ROOT;
pub use fsb_vm::kernel::{cache_path, is_path, tidy};
use fsb_vm::{kernel, machine};

use crate::agent::client::{CHATTER, said};
use crate::agent::protocol::{
    AgentRequest, LONGEST_REPLY, LineError, Lines, MeasureRequest, Reply, TrialReply, VERSION,
};
use crate::agent::{machine, refused_lost};

use guests::{Booted, Fault, Guest, Guests, begun, on_this_machine};
pub use guests::{pin, releases, serve_in_guest};

/// The argument that makes the binary the agent of a run in a virtual machine.
pub const VM_AGENT_ARGUMENT: &str = "__vm-agent";

/// Returns whether this machine has QEMU and a kernel for it.
pub fn is_available() -> bool {
    let found = machine::find_qemu(machine::Architecture::HERE).and_then(|_| kernel::resolve(None)?.usable());
    found.is_ok()
}

/// Checks everything that can be known before anything is changed: requests, programs, kernels, modules, memory. The
/// initramfs that it builds stays in the user's cache. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    let here = on_this_machine(setup)?;
    let mut warnings = fsb_testbed::vm::check(&here.setup)?;
    guests::qemu_version()?;
    let (kernels, available) = guests::Kernels::prepare(here)?;
    kernels.check_memory(setup)?;
    warnings.extend(available.warnings());
    Ok(warnings)
}

/// Serves a runner until it closes the connection. Finally ends guests and removes disks, also after an error.
pub fn serve(stream: UnixStream) -> Result<(), String> {
    let (mut guests, host_proc) = (guests::Qemu::default(), sandbox::host_proc());
    let mut relay = Relay::new(&mut guests);
    relay.outside = host_proc.as_ref().map(Roots::through);
    relay.serve(stream)
}

// The relay: forwards the runner's requests to the agent in the guest and the answers back, and boots a guest for
// every kernel.

/// A guest that is emulated on a busy machine boots in half a minute.
const BOOT: Duration = Duration::from_secs(300);
/// Controls and media of a guest.
const OPEN: Duration = Duration::from_secs(300);
/// mkfs and mount of the largest devices: less than the runner waits.
const PROVISION: Duration = Duration::from_secs(1500);
/// Unmounting writes back what is dirty: less than the runner waits.
const RELEASE: Duration = Duration::from_secs(500);
/// The longest wait for a guest that closes. It is ended in any case.
const GOODBYE: Duration = Duration::from_secs(10);

/// Progress messages a second that a guest may send, and how many more at once. An honest agent sends five a second.
const MOST_PER_SECOND: u64 = 100;
const BURST: u64 = 10_000;

/// The relay between the runner and the guests.
struct Relay<'a> {
    guests: &'a mut dyn Guests,
    disks: Disks,
    /// The setup that each guest receives.
    setup: Option<Setup>,
    /// Optional targets that no guest can make, with the reason.
    unavailable: BTreeMap<String, TestbedError>,
    running: Option<Running>,
    /// Warnings that the runner knows.
    told: Vec<Warning>,
    /// The time in addition to that of a trial's own steps.
    patience: Duration,
    /// The locations of /proc and /sys that show all processes of this machine.
    outside: Option<Roots>,
}

/// A guest that was opened.
struct Running {
    release: String,
    lines: Lines,
    guest: RefCell<Box<dyn Guest>>,
    opened: Opened,
    /// Whether it has said hello. Before that, only a deadline distinguishes a guest that boots from one that hangs.
    up: bool,
}

impl<'a> Relay<'a> {
    fn new(guests: &'a mut dyn Guests) -> Self {
        let (disks, patience) = (Disks::default(), RELEASE);
        Relay {
            guests,
            disks,
            setup: None,
            unavailable: BTreeMap::new(),
            running: None,
            told: Vec::new(),
            patience,
            outside: None,
        }
    }

    fn serve(&mut self, stream: UnixStream) -> Result<(), String> {
        let mut coordinator = Lines::new(stream).map_err(|error| error.to_string())?;
        loop {
            let request = match coordinator.receive(None, &|| false) {
                Ok(request) => request,
                Err(LineError::Closed) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let last = matches!(request, AgentRequest::Close);
            let reply = short_enough(self.answer(request, &mut coordinator).unwrap_or_else(Reply::Failed));
            coordinator.send(&reply).map_err(|error| error.to_string())?;
            if last {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, request: AgentRequest, coordinator: &mut Lines) -> Result<Reply, TestbedError> {
        match request {
            AgentRequest::Hello { version } if version == VERSION => Ok(Reply::Hello { version }),
            AgentRequest::Hello { version } => Err(machine(
                "the runner and its agent are different programs",
                &format!("the runner speaks version {version} of the protocol, the agent {VERSION}"),
            )),
            AgentRequest::Open(setup) => self.open(&setup, coordinator).map(|opened| Reply::Opened(Box::new(opened))),
            AgentRequest::Provision { slot, slice, target } => self.provision((slot, slice), &target, coordinator),
            AgentRequest::Measure(request) => Ok(Reply::Measured(self.measure(*request, coordinator))),
            AgentRequest::Release(slot) => self.release(slot, coordinator),
            AgentRequest::Close => {
                if let Some(mut running) = self.running.take() {
                    // Everything that it would undo ends with it.
                    let _ = running.ask(&AgentRequest::Close, GOODBYE, coordinator);
                }
                self.disks = Disks::default();
                Ok(Reply::Done)
            }
        }
    }

    fn open(&mut self, setup: &Setup, coordinator: &mut Lines) -> Result<Opened, TestbedError> {
        let tell = &mut |progress| drop(coordinator.send(&Reply::Progress(progress)));
        let prepared = self.guests.prepare(setup, tell)?;
        let Available { setup, unavailable } = prepared.available;
        self.unavailable = unavailable;
        self.disks = Disks::open(&setup, self.outside.as_ref(), tell)?;
        let mut controls = setup.controls.clone();
        controls.entry("guest-memory".to_owned()).or_insert_with(|| "backed".to_owned());
        self.setup = Some(Setup {
            // Targets have media as the guest sees them. `boot` selects the targets of each guest.
            targets: setup.targets.iter().map(|target| self.disks.for_guest(target)).collect(),
            dir: "/".into(),
            wipe: Vec::new(),
            devices: Default::default(),
            controls,
            vm: None,
            kernels: Vec::new(),
            oldest_kernel: prepared.oldest_kernel,
            fault: Fault::wanted(),
            ..setup.clone()
        });
        let first = setup.targets.first().and_then(|target| target.kernel.clone());
        let running = self.boot(first.as_deref(), coordinator)?;
        let mut opened = running.opened.clone();
        self.running = Some(running);
        self.disks.opened(&mut opened);
        self.told.clone_from(&opened.warnings);
        opened.vm = Some(prepared.record);
        opened.emulated = prepared.emulated;
        Ok(opened)
    }

    /// Boots a guest on that kernel and opens its media.
    fn boot(&mut self, release: Option<&str>, coordinator: &mut Lines) -> Result<Running, TestbedError> {
        let Some(mut setup) = self.setup.clone() else {
            return Err(machine("a guest was asked for before its disks", "nothing was opened"));
        };
        let release = self.guests.release(release);
        setup.targets.retain(|target| target.runs_on(&release));
        let activity = Activity::BootGuest { kernel: release.clone() };
        let _ = coordinator.send(&Reply::Progress(begun(activity)));
        let Booted { stream, guest } = self.guests.boot(Some(&release), self.disks.lend()?)?;
        let failed = |why: String| {
            TestbedError::machine(format!("the guest with Linux {release} does not start"))
                .tried(why)
                .advice("fetch that kernel anew, or choose another one with --kernel (fsb kernel list)")
        };
        let lines = Lines::of_replies(stream).map_err(|error| failed(error.to_string()))?;
        let opened = Opened::default();
        let mut running = Running { release: release.clone(), lines, guest: RefCell::new(guest), opened, up: false };
        let hello = AgentRequest::Hello { version: VERSION };
        match running.ask(&hello, BOOT, coordinator).map_err(failed)? {
            Reply::Hello { version: VERSION } => running.up = true,
            Reply::Failed(error) => return Err(error),
            other => return Err(failed(format!("it answered {}", said(&other)))),
        }
        let open = AgentRequest::Open(Box::new(setup));
        match running.ask(&open, OPEN, coordinator).map_err(failed)? {
            Reply::Opened(opened) => running.opened = *opened,
            Reply::Failed(error) => return Err(error),
            other => return Err(failed(format!("it answered {}", said(&other)))),
        }
        Ok(running)
    }

    fn provision(
        &mut self,
        (slot, slice): (u32, u32),
        target: &Target,
        coordinator: &mut Lines,
    ) -> Result<Reply, TestbedError> {
        if let Some(why) = self.unavailable.get(&target.name) {
            return Err(why.clone());
        }
        let release = self.guests.release(target.kernel.as_deref());
        // Dropping a guest ends it: the disks are free before the next one gets them.
        self.running = self.running.take().filter(|running| running.release == release && !running.has_stopped());
        if self.running.is_none() {
            // A guest that does not boot says nothing about the targets that it could make, so optional targets fail as
            // well.
            let failed = |error| TestbedError { kind: Kind::Trial, ..error };
            self.running = Some(self.boot(Some(&release), coordinator).map_err(failed)?);
        }
        let request = AgentRequest::Provision { slot, slice, target: Box::new(self.disks.for_guest(target)) };
        match self.ask(&request, PROVISION, coordinator) {
            Ok(Reply::Provisioned(mut provisioned)) => {
                self.disks.provisioned(&mut provisioned);
                provisioned.record.kernel = Some(release);
                provisioned
                    .record
                    .notes
                    .push("in a virtual machine: fsb does not watch other load on its host".to_owned());
                let new = self.running.as_ref().map(|running| running.opened.warnings.clone()).unwrap_or_default();
                let new: Vec<_> = new.into_iter().filter(|warning| !self.told.contains(warning)).collect();
                self.told.extend(new.iter().cloned());
                provisioned.warnings.extend(new);
                Ok(Reply::Provisioned(provisioned))
            }
            Ok(reply) => Ok(reply),
            Err(why) => Err(TestbedError::trial(why).coded(&GUEST)),
        }
    }

    fn measure(&mut self, request: MeasureRequest, coordinator: &mut Lines) -> Vec<(u32, TrialReply)> {
        let slots: Vec<u32> = request.slots.iter().map(|trial| trial.slot).collect();
        let deadline = request.silence() + self.patience;
        let why = match self.ask(&AgentRequest::Measure(Box::new(request)), deadline, coordinator) {
            Ok(Reply::Measured(mut replies)) => {
                let mut open = slots;
                replies.retain(|(slot, _)| {
                    open.iter().position(|asked| asked == slot).map(|at| open.remove(at)).is_some()
                });
                return replies;
            }
            Ok(Reply::Failed(error)) => excerpt(&error.to_string()).into(),
            Ok(other) => format!("the guest answered {}", said(&other)).into(),
            Err(why) => Reason::new(&GUEST, why),
        };
        slots.into_iter().map(|slot| (slot, refused_lost(why.clone()))).collect()
    }

    fn release(&mut self, slot: u32, coordinator: &mut Lines) -> Result<Reply, TestbedError> {
        if self.running.is_none() {
            // The guest took the target with it, and the trial reported that.
            return Ok(Reply::Done);
        }
        self.ask(&AgentRequest::Release(slot), RELEASE, coordinator).map_err(TestbedError::trial)
    }

    /// Sends a request to the running guest. Ends the guest if it gives no answer.
    fn ask(&mut self, request: &AgentRequest, deadline: Duration, coordinator: &mut Lines) -> Result<Reply, String> {
        let Some(running) = &mut self.running else {
            return Err("guest stopped: it ended before".to_owned());
        };
        let answer = running.ask(request, deadline, coordinator);
        if answer.is_err() {
            self.running = None;
        }
        answer
    }
}

impl Running {
    fn has_stopped(&self) -> bool {
        self.guest.borrow_mut().stopped().is_some()
    }

    /// Returns the answer, or the reason why there is none: `guest stopped: …` with the last lines of its console.
    /// Forwards progress.
    fn ask(&mut self, request: &AgentRequest, deadline: Duration, coordinator: &mut Lines) -> Result<Reply, String> {
        let guest = &self.guest;
        let stopped = || {
            let mut guest = guest.borrow_mut();
            if self.up {
                guest.look_after();
            }
            guest.stopped().is_some()
        };
        self.lines.send(request).map_err(|error| obituary(guest, &error))?;
        let started = Instant::now();
        for count in 0.. {
            if count > BURST + MOST_PER_SECOND * started.elapsed().as_secs() {
                break;
            }
            guest.borrow_mut().heard();
            match self.lines.receive(Some(deadline), &stopped) {
                // A runner that is gone is noticed at the answer.
                Ok(Reply::Progress(progress)) => {
                    let activity = match progress.activity {
                        Activity::FillMedium { medium } => Activity::FillMedium { medium: excerpt(&medium) },
                        Activity::BootGuest { kernel } => Activity::BootGuest { kernel: excerpt(&kernel) },
                        other => other,
                    };
                    drop(coordinator.send(&Reply::Progress(Progress { activity, ..progress })));
                }
                Ok(reply) => return Ok(reply),
                Err(error) => return Err(obituary(guest, &error)),
            }
        }
        Err(format!("guest stopped: {CHATTER}"))
    }
}

/// Returns the reply, or a failure in its place if the runner would refuse it for its length: a number can be longer in
/// the relay's words than in the guest's.
fn short_enough(reply: Reply) -> Reply {
    if serde_json::to_vec(&reply).is_ok_and(|line| line.len() < LONGEST_REPLY) {
        return reply;
    }
    let why = LineError::TooLong(LONGEST_REPLY).to_string();
    match reply {
        Reply::Measured(replies) => {
            Reply::Measured(replies.into_iter().map(|(slot, _)| (slot, refused_lost(why.clone()))).collect())
        }
        _ => Reply::Failed(TestbedError::trial(why)),
    }
}

/// Returns the beginning of a guest's text.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 4000;
    text.chars().take(LONGEST).collect()
}

/// The longest wait for the end of a guest whose connection closed.
const LAST_BREATH: Duration = Duration::from_secs(5);

fn obituary(guest: &RefCell<Box<dyn Guest>>, error: &LineError) -> String {
    let mut guest = guest.borrow_mut();
    let mut cause = guest.stopped();
    if matches!(error, LineError::Closed | LineError::Io(_)) {
        let started = Instant::now();
        while cause.is_none() && started.elapsed() < LAST_BREATH {
            std::thread::sleep(Duration::from_millis(20));
            cause = guest.stopped();
        }
    }
    let why = match (error, cause) {
        // The guest was ended because of its message. That it has stopped since is not the cause.
        (LineError::TooLong(_), _) => error.to_string(),
        (_, Some(cause)) => cause,
        (LineError::Deadline(limit), None) => {
            format!("it did not answer within {} s, and was killed", limit.as_secs())
        }
        (other, None) => other.to_string(),
    };
    let words: Vec<String> = guest.last_words().into_iter().filter(|line| !line.trim().is_empty()).collect();
    match words[..] {
        [] => format!("guest stopped: {why}"),
        _ => format!("guest stopped: {why}; the last lines of its console: {}", words.join(" | ")),
    }
}

#[cfg(test)]
mod tests;
