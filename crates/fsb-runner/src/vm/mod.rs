//! Runs in a virtual machine: the VM proxy, an agent on the host between the runner and the agent
//! in the guest.
//!
//! ```text
//! coordinator ──▶ supervisor ──▶ VM proxy (__vm-proxy) ──▶ QEMU ─┊─▶ guest: PID 1 ──▶ agent ──▶ workers
//!      └──────── JSON lines ────────┘ └── the same lines, virtio-serial ──┘
//! ```
//!
//! The runner does not notice the guest: it speaks its protocol with the VM proxy. The proxy makes
//! the disks, boots a guest on the kernel that a target names, and forwards the lines. If a guest
//! panics, hangs or is killed, its current trial fails, and the next target boots another guest.
//! The proxy detects a hanging guest: after half a minute of silence it asks the guest over a
//! separate port.
//!
//! Between a worker's `go` and its answer, no line of the protocol passes except the progress of
//! long trials, which any machine sends. Agent and relay wait in `read`, and so do the threads that
//! carry the bytes of the port. They do not affect the clock of a trial.

mod guests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fsb_model::trial::{GUEST, Reason};
use fsb_model::{Target, Warning};
use fsb_sys::sandbox;
use fsb_testbed::ledger::Owner;
use fsb_testbed::vm::Disks;
use fsb_testbed::{Activity, Available, Kind, Opened, Progress, Roots, Setup, TestbedError};
pub use fsb_vm::kernel::{cache_path, is_path, tidy};
use fsb_vm::{kernel, machine};

use crate::agent::client::{CHATTER, said};
use crate::agent::protocol::{AgentRequest, MeasureRequest, Reply, TrialReply, VERSION};
use crate::agent::{machine, refused_lost};
use crate::lines::{LONGEST_REPLY, LineError, Lines};

use guests::{Booted, Fault, Guest, Guests, begun, on_this_machine};
pub use guests::{pin, releases, serve_in_guest};

/// The argument that makes the binary the agent of a run in a virtual machine.
pub const VM_PROXY_ARGUMENT: &str = "__vm-proxy";

/// Returns whether this machine has QEMU and a kernel for it.
pub fn is_available() -> bool {
    let found = machine::find_qemu(machine::Architecture::HERE)
        .and_then(|_| kernel::resolve(None)?.usable());
    found.is_ok()
}

/// Checks everything that can be known before anything is changed: requests, programs, kernels,
/// modules, memory. The initramfs that it builds stays in the user's cache. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    let here = on_this_machine(setup)?;
    let mut warnings = fsb_testbed::vm::check(&here.setup)?;
    guests::qemu_version()?;
    let (kernels, available) = guests::Kernels::prepare(here)?;
    kernels.check_memory(setup)?;
    warnings.extend(available.warnings());
    Ok(warnings)
}

/// Serves a runner until it closes the connection. Finally ends guests and removes disks, also
/// after an error.
pub fn serve(stream: UnixStream, owner: Owner) -> Result<(), String> {
    let (mut guests, host_proc) = (guests::Qemu::default(), sandbox::host_proc());
    let mut relay = Relay::new(&mut guests, owner);
    relay.outside = host_proc.as_ref().map(Roots::through);
    relay.serve(stream)
}

// The relay: forwards the runner's requests to the agent in the guest and the answers back, and
// boots a guest for every kernel.

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

/// Progress messages a second that a guest may send, and how many more at once. An honest agent
/// sends five a second.
const MOST_PER_SECOND: u64 = 100;
const BURST: u64 = 10_000;

/// The relay between the runner and the guests.
struct Relay<'a> {
    guests: &'a mut dyn Guests,
    /// The owner of entries of the undo ledger.
    owner: Owner,
    /// Dropped before the disks and the shared directories, which it uses.
    running: Option<Running>,
    disks: Disks,
    /// The setup that each guest receives.
    setup: Option<Setup>,
    /// Optional targets that no guest can make, with the reason.
    unavailable: BTreeMap<String, TestbedError>,
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
    /// Whether it has said hello. Before that, only a deadline distinguishes a guest that boots
    /// from one that hangs.
    up: bool,
}

impl<'a> Relay<'a> {
    fn new(guests: &'a mut dyn Guests, owner: Owner) -> Self {
        let (disks, patience) = (Disks::default(), RELEASE);
        Relay {
            guests,
            owner,
            running: None,
            disks,
            setup: None,
            unavailable: BTreeMap::new(),
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
            if matches!(request, AgentRequest::Stop) {
                continue;
            }
            let last = matches!(request, AgentRequest::Close);
            let reply = short_enough(
                self.answer(request, &mut coordinator)
                    .unwrap_or_else(Reply::Failed),
            );
            coordinator
                .send(&reply)
                .map_err(|error| error.to_string())?;
            if last {
                return Ok(());
            }
        }
    }

    fn answer(
        &mut self,
        request: AgentRequest,
        coordinator: &mut Lines,
    ) -> Result<Reply, TestbedError> {
        match request {
            AgentRequest::Hello { version } if version == VERSION => Ok(Reply::Hello { version }),
            AgentRequest::Hello { version } => Err(machine(
                "the runner and its agent are different programs",
                &format!(
                    "the runner speaks version {version} of the protocol, the agent {VERSION}"
                ),
            )),
            AgentRequest::Open(setup) => self
                .open(&setup, coordinator)
                .map(|opened| Reply::Opened(Box::new(opened))),
            AgentRequest::Provision {
                slot,
                slice,
                target,
            } => self.provision((slot, slice), &target, coordinator),
            AgentRequest::Measure(request) => {
                Ok(Reply::Measured(self.measure(*request, coordinator)))
            }
            AgentRequest::Release(slot) => self.release(slot, coordinator),
            AgentRequest::Close => {
                if let Some(mut running) = self.running.take() {
                    // Everything that it would undo ends with it.
                    let _ = running.ask(&AgentRequest::Close, GOODBYE, coordinator);
                }
                self.disks = Disks::default();
                Ok(Reply::Done)
            }
            AgentRequest::Stop => Ok(Reply::Done),
        }
    }

    fn open(&mut self, setup: &Setup, coordinator: &mut Lines) -> Result<Opened, TestbedError> {
        let tell = &mut |progress| drop(coordinator.send(&Reply::Progress(progress)));
        let prepared = self.guests.prepare(setup, tell)?;
        let Available { setup, unavailable } = prepared.available;
        self.unavailable = unavailable;
        self.disks = Disks::open(&setup, self.owner, self.outside.as_ref(), tell)?;
        let mut controls = setup.controls.clone();
        controls
            .entry("guest-memory".to_owned())
            .or_insert_with(|| "backed".to_owned());
        self.setup = Some(Setup {
            // Targets have media as the guest sees them. `boot` selects the targets of each guest.
            targets: setup
                .targets
                .iter()
                .map(|target| self.disks.for_guest(target))
                .collect(),
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
        let first = setup
            .targets
            .first()
            .and_then(|target| target.kernel.clone());
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
    fn boot(
        &mut self,
        release: Option<&str>,
        coordinator: &mut Lines,
    ) -> Result<Running, TestbedError> {
        let Some(mut setup) = self.setup.clone() else {
            return Err(machine(
                "a guest was asked for before its disks",
                "nothing was opened",
            ));
        };
        let release = self.guests.release(release);
        setup.targets.retain(|target| target.runs_on(&release));
        let activity = Activity::BootGuest {
            kernel: release.clone(),
        };
        let _ = coordinator.send(&Reply::Progress(begun(activity)));
        let Booted { stream, guest } =
            self.guests
                .boot(Some(&release), self.disks.lend()?, self.disks.shares())?;
        let failed = |why: String| {
            TestbedError::machine(format!("the guest with Linux {release} does not start"))
                .tried(why)
                .advice(
                    "fetch that kernel anew, or choose another one with --kernel (fsb kernel list)",
                )
        };
        let lines = Lines::of_replies(stream).map_err(|error| failed(error.to_string()))?;
        let opened = Opened::default();
        let mut running = Running {
            release: release.clone(),
            lines,
            guest: RefCell::new(guest),
            opened,
            up: false,
        };
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
        self.running = self
            .running
            .take()
            .filter(|running| running.release == release && !running.has_stopped());
        if self.running.is_none() {
            // A guest that does not boot says nothing about the targets that it could make, so
            // optional targets fail as well.
            self.running =
                Some(
                    self.boot(Some(&release), coordinator)
                        .map_err(|error| TestbedError {
                            kind: Kind::Trial,
                            ..error
                        })?,
                );
        }
        let request = AgentRequest::Provision {
            slot,
            slice,
            target: Box::new(self.disks.for_guest(target)),
        };
        match self.ask(&request, PROVISION, coordinator) {
            Ok(Reply::Provisioned(mut provisioned)) => {
                self.disks.provisioned(&target.name, &mut provisioned);
                provisioned.record.kernel = Some(release);
                provisioned.record.notes.push(
                    "in a virtual machine: fsb does not watch other load on its host".to_owned(),
                );
                let new = self
                    .running
                    .as_ref()
                    .map(|running| running.opened.warnings.clone())
                    .unwrap_or_default();
                let new: Vec<_> = new
                    .into_iter()
                    .filter(|warning| !self.told.contains(warning))
                    .collect();
                self.told.extend(new.iter().cloned());
                provisioned.warnings.extend(new);
                Ok(Reply::Provisioned(provisioned))
            }
            Ok(reply) => Ok(reply),
            Err(why) => Err(TestbedError::trial(why).coded(&GUEST)),
        }
    }

    fn measure(
        &mut self,
        request: MeasureRequest,
        coordinator: &mut Lines,
    ) -> Vec<(u32, TrialReply)> {
        let slots: Vec<u32> = request.slots.iter().map(|trial| trial.slot).collect();
        let deadline = request.silence() + self.patience;
        let why = match self.ask(
            &AgentRequest::Measure(Box::new(request)),
            deadline,
            coordinator,
        ) {
            Ok(Reply::Measured(mut replies)) => {
                let mut open = slots;
                replies.retain(|(slot, _)| {
                    open.iter()
                        .position(|asked| asked == slot)
                        .map(|at| open.remove(at))
                        .is_some()
                });
                return replies;
            }
            Ok(Reply::Failed(error)) => excerpt(&error.to_string()).into(),
            Ok(other) => format!("the guest answered {}", said(&other)).into(),
            Err(why) => Reason::new(&GUEST, why),
        };
        slots
            .into_iter()
            .map(|slot| (slot, refused_lost(why.clone())))
            .collect()
    }

    fn release(&mut self, slot: u32, coordinator: &mut Lines) -> Result<Reply, TestbedError> {
        if self.running.is_none() {
            // The guest took the target with it, and the trial reported that.
            return Ok(Reply::Done);
        }
        self.ask(&AgentRequest::Release(slot), RELEASE, coordinator)
            .map_err(TestbedError::trial)
    }

    /// Sends a request to the running guest. Ends the guest if it gives no answer.
    fn ask(
        &mut self,
        request: &AgentRequest,
        deadline: Duration,
        coordinator: &mut Lines,
    ) -> Result<Reply, String> {
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

    /// Returns the answer, or the reason why there is none: `guest stopped: …` with the last lines
    /// of its console. Forwards progress.
    fn ask(
        &mut self,
        request: &AgentRequest,
        deadline: Duration,
        coordinator: &mut Lines,
    ) -> Result<Reply, String> {
        let guest = &self.guest;
        self.lines
            .send(request)
            .map_err(|error| obituary(guest, &error))?;
        let started = Instant::now();
        for count in 0.. {
            if count > BURST + MOST_PER_SECOND * started.elapsed().as_secs() {
                break;
            }
            guest.borrow_mut().heard();
            match self.lines.receive(Some(deadline), &|| {
                let mut guest = guest.borrow_mut();
                if self.up {
                    guest.look_after();
                }
                guest.stopped().is_some()
            }) {
                // A runner that is gone is noticed at the answer.
                Ok(Reply::Progress(progress)) => {
                    let activity = match progress.activity {
                        Activity::FillMedium { medium } => Activity::FillMedium {
                            medium: excerpt(&medium),
                        },
                        Activity::BootGuest { kernel } => Activity::BootGuest {
                            kernel: excerpt(&kernel),
                        },
                        other => other,
                    };
                    drop(coordinator.send(&Reply::Progress(Progress {
                        activity,
                        ..progress
                    })));
                }
                Ok(reply) => return Ok(reply),
                Err(error) => return Err(obituary(guest, &error)),
            }
        }
        Err(format!("guest stopped: {CHATTER}"))
    }
}

/// Returns the reply, or a failure in its place if the runner would refuse it for its length: a
/// number can be longer in the relay's words than in the guest's.
fn short_enough(reply: Reply) -> Reply {
    if serde_json::to_vec(&reply).is_ok_and(|line| line.len() < LONGEST_REPLY) {
        return reply;
    }
    let why = LineError::TooLong(LONGEST_REPLY).to_string();
    match reply {
        Reply::Measured(replies) => Reply::Measured(
            replies
                .into_iter()
                .map(|(slot, _)| (slot, refused_lost(why.clone())))
                .collect(),
        ),
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
            format!(
                "it did not answer within {} s, and was killed",
                limit.as_secs()
            )
        }
        (other, None) => other.to_string(),
    };
    let words: Vec<String> = guest
        .last_words()
        .into_iter()
        .filter(|line| !line.trim().is_empty())
        .collect();
    match words[..] {
        [] => format!("guest stopped: {why}"),
        _ => format!(
            "guest stopped: {why}; the last lines of its console: {}",
            words.join(" | ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use fsb_engine::{Measurement, Sizing};
    use fsb_model::host::VmRecord;
    use fsb_model::observed::Spent;
    use fsb_model::run::TargetRecord;
    use fsb_model::trial::Samples;
    use fsb_model::{Amount, Outcome, Target, Warning, WorkloadSpec};
    use fsb_testbed::control::Held;
    use fsb_testbed::ledger::Owner;
    use fsb_testbed::vm::{HostDisk, HostShare};
    use fsb_testbed::{
        Abilities, Activity, Kind, Opened, Progress, Provisioned, Setup, TestbedError,
        available_targets,
    };

    use super::Relay;
    use super::guests::{Booted, Guest, Guests, Prepared, begun};
    use crate::agent::client::CHATTER;
    use crate::agent::protocol::{AgentRequest, Reply};
    use crate::agent::{
        Agent, AgentError, MeasureRequest, Measured, Method, SlotTrial, TrialReply,
    };
    use crate::lines::{Lines, SLICE};

    /// The behaviour of a guest at a trial.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Answers,
        Panics,
        Hangs,
        /// Answers a trial with a line that never ends.
        Rants,
        /// Reports progress without end where a trial is asked for.
        Chatters,
        /// Answers a trial with bytes that are not UTF-8.
        SendsBytes,
        /// Dies in the middle of its answer to a trial.
        DiesInLine,
        /// Answers a trial with a reply of another kind.
        AnswersOtherwise,
        /// Answers a trial with numbers that take three times the bytes once they are parsed and
        /// printed again.
        Swells,
        /// Answers a trial with a failure of many megabytes.
        FailsAtLength,
        /// Answers with times that no trial can take.
        HasOtherClocks,
        /// Greets with another version of the protocol.
        IsOlder,
        /// Says hello late, and answers trials.
        BootsSlowly,
        /// Ends before it says hello.
        DiesBooting,
        /// QEMU does not even start.
        IsNotBooted,
    }

    struct Script {
        fates: Vec<Fate>,
        booted: Arc<Mutex<Vec<String>>>,
        looked: Arc<AtomicUsize>,
    }

    struct Scripted {
        gone: Arc<AtomicBool>,
        /// Whether it was asked to say hello and is about to.
        up: Arc<AtomicBool>,
        /// The number of times that guests were looked after.
        looked: Arc<AtomicUsize>,
    }

    impl Guest for Scripted {
        fn stopped(&mut self) -> Option<String> {
            self.gone
                .load(Ordering::SeqCst)
                .then(|| "kernel panic: sysrq triggered crash".to_owned())
        }

        fn look_after(&mut self) {
            assert!(
                self.up.load(Ordering::SeqCst),
                "one that boots has nothing that could answer"
            );
            self.looked.fetch_add(1, Ordering::SeqCst);
        }

        fn heard(&mut self) {}

        fn last_words(&self) -> Vec<String> {
            vec![
                "Call Trace:".to_owned(),
                String::new(),
                "---[ end Kernel panic ]---".to_owned(),
            ]
        }
    }

    impl Guests for Script {
        fn prepare(
            &mut self,
            setup: &Setup,
            tell: &mut dyn FnMut(Progress),
        ) -> Result<Prepared, TestbedError> {
            tell(begun(Activity::FindAcceleration));
            let lacking = |alone: &Setup| match alone.targets[0].kernel.as_deref() {
                Some("6.13") => Err(TestbedError::machine("no module")),
                _ => Ok(()),
            };
            let available = available_targets(setup, lacking)?;
            Ok(Prepared {
                available,
                record: VmRecord::default(),
                emulated: true,
                oldest_kernel: None,
            })
        }

        fn boot(
            &mut self,
            release: Option<&str>,
            disks: Vec<HostDisk>,
            _: Vec<HostShare>,
        ) -> Result<Booted, TestbedError> {
            assert!(disks.is_empty(), "nothing here has a medium");
            let mut booted = self.booted.lock().unwrap();
            let fate = self.fates[booted.len()];
            booted.push(release.unwrap().to_owned());
            if fate == Fate::IsNotBooted {
                return Err(TestbedError::machine("too little memory"));
            }
            let (stream, theirs) = UnixStream::pair().unwrap();
            let gone = Arc::new(AtomicBool::new(false));
            let up = Arc::new(AtomicBool::new(false));
            let (end, begin) = (Arc::clone(&gone), Arc::clone(&up));
            std::thread::spawn(move || {
                live(theirs, fate, &begin);
                end.store(true, Ordering::SeqCst);
            });
            let looked = Arc::clone(&self.looked);
            Ok(Booted {
                stream,
                guest: Box::new(Scripted { gone, up, looked }),
            })
        }

        fn release(&self, release: Option<&str>) -> String {
            release.unwrap_or("6.1").to_owned()
        }
    }

    fn live(stream: UnixStream, fate: Fate, up: &AtomicBool) {
        let mut lines = Lines::new(stream).unwrap();
        while let Ok(request) = lines.receive::<AgentRequest>(None, &|| false) {
            let reply = match request {
                AgentRequest::Hello { .. } if fate == Fate::DiesBooting => return,
                AgentRequest::Hello { version } if fate == Fate::IsOlder => Reply::Hello {
                    version: version - 1,
                },
                AgentRequest::Hello { version } => {
                    if fate == Fate::BootsSlowly {
                        std::thread::sleep(SLICE * 4);
                    }
                    up.store(true, Ordering::SeqCst);
                    Reply::Hello { version }
                }
                AgentRequest::Open(setup) => {
                    assert!(
                        setup.targets.iter().all(|target| !target.optional),
                        "it was left out"
                    );
                    assert!(setup.vm.is_none() && setup.controls["guest-memory"] == "backed");
                    let _ = lines.send(&Reply::Progress(begun(Activity::TouchMemory)));
                    Reply::Opened(Box::new(Opened {
                        warnings: vec![Warning::DifferentMedia],
                        ..Opened::default()
                    }))
                }
                AgentRequest::Provision { .. } => Reply::Provisioned(Box::new(provisioned())),
                AgentRequest::Measure(request)
                    if matches!(request.method, Method::SequentialTrial { .. }) =>
                {
                    match fate {
                        Fate::Answers | Fate::BootsSlowly => Reply::Measured(vec![(
                            0,
                            crate::agent::refused_lost("as scripted".to_owned()),
                        )]),
                        Fate::Panics => return,
                        Fate::Hangs => continue,
                        Fate::Rants => {
                            while lines.send_raw(&[b'x'; 1 << 16]).is_ok() {}
                            return;
                        }
                        Fate::Chatters => {
                            while lines
                                .send(&Reply::Progress(begun(Activity::FillMedium {
                                    medium: "x".to_owned(),
                                })))
                                .is_ok()
                            {}
                            return;
                        }
                        Fate::SendsBytes => {
                            let _ = lines.send_raw(b"{\"measured\": \"\xff\xfe\"}\n");
                            continue;
                        }
                        Fate::DiesInLine => {
                            let _ = lines.send_raw(b"{\"measured\":[[0,{\"outcome\":\"o");
                            return;
                        }
                        Fate::AnswersOtherwise => Reply::Provisioned(Box::new(provisioned())),
                        Fate::Swells => {
                            let measured = Measured {
                                work: Measurement {
                                    samples: vec![1.0],
                                    ..Measurement::default()
                                },
                                ..Measured::default()
                            };
                            let reply = TrialReply {
                                measured: Some(measured),
                                ..crate::agent::refused_lost(String::new())
                            };
                            let line = serde_json::to_string(&Reply::Measured(vec![(0, reply)]))
                                .unwrap()
                                + "\n";
                            let numbers = format!("\"samples\":[{}1]", "1e15,".repeat(1 << 20));
                            assert!(line.contains("\"samples\":[1.0]"), "{line}");
                            let _ = lines
                                .send_raw(line.replace("\"samples\":[1.0]", &numbers).as_bytes());
                            continue;
                        }
                        Fate::FailsAtLength => {
                            Reply::Failed(TestbedError::trial("x".repeat((16 << 20) - 200)))
                        }
                        Fate::HasOtherClocks => Reply::Measured(vec![(0, impossible())]),
                        Fate::IsOlder | Fate::DiesBooting | Fate::IsNotBooted => {
                            unreachable!("it never was up")
                        }
                    }
                }
                AgentRequest::Measure(_) if fate == Fate::AnswersOtherwise => {
                    let of = |slot| (slot, crate::agent::refused_lost(format!("of slot {slot}")));
                    Reply::Measured(
                        (0..10_000)
                            .map(of)
                            .chain([of(1), of(1), of(u32::MAX)])
                            .collect(),
                    )
                }
                AgentRequest::Measure(_) if fate == Fate::HasOtherClocks => {
                    Reply::Measured(vec![(1, impossible())])
                }
                AgentRequest::Release(_)
                | AgentRequest::Measure(_)
                | AgentRequest::Stop
                | AgentRequest::Close => Reply::Done,
            };
            lines.send(&reply).unwrap();
        }
    }

    /// Returns a reply whose sums overflow.
    fn impossible() -> TrialReply {
        let samples = Samples {
            timed_ns: vec![u64::MAX; 2],
            ..Samples::default()
        };
        let spent = Spent {
            prepare: -1e300,
            set_up: 1e300,
            ..Spent::default()
        };
        TrialReply {
            outcome: Outcome::Ok,
            samples,
            spent,
            ..crate::agent::refused_lost(String::new())
        }
    }

    fn provisioned() -> Provisioned {
        let (why_not_cold, why_not_durable) = (String::new(), String::new());
        Provisioned {
            record: TargetRecord::default(),
            root: "/run/fsb".into(),
            client_roots: Vec::new(),
            abilities: Abilities {
                cold: None,
                durable: true,
                counters: true,
                kernel_caches_only: false,
                fake: None,
                why_not_cold,
                why_not_durable,
                ..Abilities::default()
            },
            free_bytes: 1,
            free_inodes: 1,
            held: Held::default(),
            device: None,
            warnings: Vec::new(),
        }
    }

    fn target(kernel: Option<&str>) -> Target {
        Target {
            kernel: kernel.map(str::to_owned),
            .."null".parse().unwrap()
        }
    }

    /// Returns an optional target whose driver the scripted kernel lacks.
    fn absent() -> Target {
        Target {
            name: "absent".to_owned(),
            optional: true,
            ..target(Some("6.13"))
        }
    }

    fn setup() -> Setup {
        serde_json::from_value(serde_json::json!({
            "targets": [absent(), target(None)], "size": 1 << 20, "dir": "/var/tmp", "wipe": [], "controls": {},
            "identity": {"force_root": false}, "seed": 1, "vm": {"memory": "128M", "cpus": 1},
        }))
        .unwrap()
    }

    fn request() -> MeasureRequest {
        MeasureRequest {
            slots: vec![SlotTrial {
                slot: 0,
                trial_seed: 1,
                variant: None,
            }],
            workload: WorkloadSpec::new("read", Default::default()),
            background_slot: None,
            sizing: Sizing { size: 1, cpus: 1 },
            method: Method::SequentialTrial {
                amount: Amount::new(1, 1),
                until_seconds: None,
                sustain: None,
            },
            seed: 1,
            attempt: 1,
            trace: false,
            deadline: Duration::from_millis(30),
            limit: None,
        }
    }

    /// Requests a trial in slot 0.
    fn trial(agent: &mut Agent, deadline: Duration) -> TrialReply {
        let mut replies = agent
            .measure(
                MeasureRequest {
                    deadline,
                    ..request()
                },
                &mut |_| {},
            )
            .unwrap();
        assert_eq!(replies.len(), 1);
        replies.remove(0).1
    }

    /// Runs `act` against guests with these fates. Returns the kernels that were booted.
    fn play(fates: &[Fate], act: impl FnOnce(&mut Agent)) -> Vec<String> {
        play_and_count(fates, act).0
    }

    /// Does the same as [`play`]. Also returns the number of times that guests were looked after.
    fn play_and_count(fates: &[Fate], act: impl FnOnce(&mut Agent)) -> (Vec<String>, usize) {
        let (coordinator, back) = UnixStream::pair().unwrap();
        let booted = Arc::new(Mutex::new(Vec::new()));
        let looked = Arc::new(AtomicUsize::new(0));
        let mut script = Script {
            fates: fates.to_vec(),
            booted: Arc::clone(&booted),
            looked: Arc::clone(&looked),
        };
        let relay = std::thread::spawn(move || {
            let mut relay = Relay::new(&mut script, Owner::current());
            relay.patience = Duration::from_millis(50);
            relay.serve(back).unwrap();
        });
        let mut agent = Agent::connect(coordinator, Arc::new(AtomicBool::new(false))).unwrap();
        let mut steps = Vec::new();
        let opened = agent
            .open(&setup(), &mut |progress| steps.push(progress.activity))
            .unwrap();
        let boot = Activity::BootGuest {
            kernel: "6.1".to_owned(),
        };
        assert_eq!(
            steps,
            [Activity::FindAcceleration, boot, Activity::TouchMemory]
        );
        assert!(
            opened.emulated && opened.vm.is_some() && opened.warnings == [Warning::DifferentMedia]
        );
        act(&mut agent);
        agent.close().unwrap();
        relay.join().unwrap();
        (
            Arc::into_inner(booted)
                .expect("the relay is gone")
                .into_inner()
                .unwrap(),
            looked.load(Ordering::SeqCst),
        )
    }

    fn provision(agent: &mut Agent, kernel: Option<&str>) -> Provisioned {
        agent
            .provision((0, 0), &target(kernel), &mut |_| {})
            .unwrap()
    }

    #[test]
    fn a_target_is_made_in_a_guest_with_its_kernel() {
        let booted = play(&[Fate::Answers; 3], |agent| {
            for (asked, runs) in [
                (None, "6.1"),
                (Some("6.1"), "6.1"),
                (Some("6.12"), "6.12"),
                (Some("6.1"), "6.1"),
            ] {
                let made = provision(agent, asked);
                assert_eq!(made.record.kernel.as_deref(), Some(runs));
                assert!(
                    made.record.notes[0].contains("does not watch") && made.warnings.is_empty()
                );
                let TrialReply {
                    reason,
                    target_lost,
                    ..
                } = trial(agent, request().deadline);
                assert!(reason.is_some_and(|reason| reason.text == "as scripted") && target_lost);
                agent.release(0).unwrap();
            }
        });
        assert_eq!(
            booted,
            ["6.1", "6.12", "6.1"],
            "one guest serves as long as its kernel is wanted"
        );
    }

    #[test]
    fn a_target_that_no_guest_can_make_costs_no_boot() {
        let booted = play(&[Fate::Answers], |agent| {
            let refusal = agent.provision((0, 0), &absent(), &mut |_| {}).unwrap_err();
            assert!(
                matches!(refusal, AgentError::Refused(error) if error == TestbedError::machine("no module"))
            );
            provision(agent, None);
        });
        assert_eq!(booted, ["6.1"]);
    }

    #[test]
    fn a_guest_that_does_not_come_up_is_a_failure_and_no_lack_of_this_machine() {
        let booted = play(
            &[
                Fate::Answers,
                Fate::DiesBooting,
                Fate::IsNotBooted,
                Fate::Answers,
            ],
            |agent| {
                for why in [
                    "the guest with Linux 6.12 does not start",
                    "too little memory",
                ] {
                    let Err(AgentError::Refused(error)) =
                        agent.provision((0, 0), &target(Some("6.12")), &mut |_| {})
                    else {
                        panic!("it was made")
                    };
                    assert!(error.kind == Kind::Trial && error.what == why, "{error:?}");
                }
                provision(agent, Some("6.12"));
            },
        );
        assert_eq!(booted, ["6.1", "6.12", "6.12", "6.12"]);
    }

    #[test]
    fn a_guest_that_panics_costs_its_trial_and_the_next_target_gets_another() {
        let booted = play(&[Fate::Panics, Fate::Answers], |agent| {
            provision(agent, None);
            let reply = trial(agent, request().deadline);
            assert!(reply.outcome == Outcome::Failed && reply.target_lost);
            assert_eq!(
                reply.reason.unwrap().text,
                "guest stopped: kernel panic: sysrq triggered crash; the last lines of its console: Call Trace: | ---[ end \
                 Kernel panic ]---"
            );
            let again = trial(agent, request().deadline);
            assert!(again.target_lost);
            assert_eq!(
                again.reason.unwrap().code.as_deref(),
                Some("trial/guest-stopped")
            );
            agent.release(0).unwrap();
            provision(agent, None);
            assert_eq!(
                trial(agent, request().deadline).reason.unwrap().text,
                "as scripted"
            );
        });
        assert_eq!(booted.len(), 2);
    }

    #[test]
    fn a_guest_that_hangs_is_ended_by_its_deadline() {
        let (_, looked) = play_and_count(&[Fate::Hangs, Fate::Answers], |agent| {
            provision(agent, None);
            let error = trial(agent, request().deadline).reason.unwrap().text;
            assert!(
                error.starts_with("guest stopped: it did not answer within 0 s, and was killed"),
                "{error}"
            );
            agent.release(0).unwrap();
            provision(agent, None);
        });
        assert!(looked > 0, "it was looked after while it owed an answer");
    }

    #[test]
    fn a_guest_that_boots_is_not_looked_after() {
        let booted = play(&[Fate::BootsSlowly], |agent| drop(provision(agent, None)));
        assert_eq!(booted, ["6.1"]);
    }

    #[test]
    fn memory_that_runs_short_makes_no_optional_target_unavailable() {
        let vm = Some(fsb_model::plan::VmSize {
            memory: fsb_model::Bytes(1 << 50),
            cpus: 1,
        });
        let targets = vec![
            Target {
                optional: true,
                ..target(None)
            },
            target(None),
        ];
        let short = Setup {
            vm,
            targets,
            ..setup()
        };
        assert_eq!(
            super::on_this_machine(&short).unwrap().setup.targets.len(),
            2
        );
        let refusal = super::check(&short).unwrap_err();
        assert!(refusal.what.contains("too little memory"), "{refusal}");
    }

    #[test]
    fn without_a_virtual_machine_nothing_is_booted() {
        let (coordinator, back) = UnixStream::pair().unwrap();
        std::thread::spawn(move || super::serve(back, Owner::current()));
        let mut agent = Agent::connect(coordinator, Arc::new(AtomicBool::new(false))).unwrap();
        let refusal = agent
            .open(
                &Setup {
                    vm: None,
                    ..setup()
                },
                &mut |_| {},
            )
            .unwrap_err();
        assert!(
            matches!(refusal, AgentError::Refused(error) if error.kind == fsb_testbed::Kind::Request)
        );
    }

    #[test]
    fn a_guest_that_rants_is_ended_and_fills_no_memory() {
        let booted = play(&[Fate::Rants, Fate::Answers], |agent| {
            provision(agent, None);
            let TrialReply {
                reason,
                target_lost,
                ..
            } = trial(agent, request().deadline);
            let error = reason.unwrap().text;
            // On a slow machine its deadline may come first.
            assert!(
                error.contains("a message longer than 16 MiB") || error.contains("did not answer"),
                "{error}"
            );
            assert!(target_lost);
            provision(agent, None);
        });
        assert_eq!(booted, ["6.1", "6.1"]);
    }

    /// Returns the error of a trial on a guest with this fate. The next target gets another guest.
    fn error_of_trial(fate: Fate) -> String {
        let mut error = String::new();
        let booted = play(&[fate, Fate::Answers], |agent| {
            provision(agent, None);
            let reply = trial(agent, Duration::from_secs(60));
            assert!(
                reply.outcome == Outcome::Failed && reply.target_lost,
                "{reply:?}"
            );
            error = reply.reason.unwrap().text;
            agent.release(0).unwrap();
            provision(agent, None);
            assert!(trial(agent, request().deadline).reason.is_some());
        });
        assert!(booted.len() <= 2, "{booted:?}");
        error
    }

    #[test]
    fn progress_without_end_ends_the_guest() {
        assert!(error_of_trial(Fate::Chatters).starts_with(&format!("guest stopped: {CHATTER}")));
    }

    #[test]
    fn an_answer_that_is_not_utf8_costs_its_trial() {
        let error = error_of_trial(Fate::SendsBytes);
        assert!(
            error.starts_with("guest stopped: not a message: "),
            "{error}"
        );
    }

    #[test]
    fn a_guest_that_dies_in_the_middle_of_a_line_costs_its_trial() {
        let error = error_of_trial(Fate::DiesInLine);
        assert!(error.starts_with("guest stopped: kernel panic"), "{error}");
    }

    #[test]
    fn an_answer_to_another_request_costs_its_trial() {
        let error = error_of_trial(Fate::AnswersOtherwise);
        assert!(
            error.starts_with("the guest answered Provisioned"),
            "{error}"
        );
    }

    #[test]
    fn an_answer_that_grows_when_it_is_passed_on_costs_its_trial() {
        assert_eq!(error_of_trial(Fate::Swells), "a message longer than 16 MiB");
    }

    #[test]
    fn a_long_failure_is_cut_and_costs_its_trial() {
        assert_eq!(error_of_trial(Fate::FailsAtLength).len(), 4000);
    }

    #[test]
    fn impossible_times_cost_their_trial() {
        assert_eq!(
            error_of_trial(Fate::HasOtherClocks),
            "the agent reported impossible times"
        );
    }

    #[test]
    fn a_guest_with_another_protocol_version_does_not_start() {
        let booted = play(&[Fate::Answers, Fate::IsOlder], |agent| {
            let refusal = agent
                .provision((0, 0), &target(Some("6.12")), &mut |_| {})
                .unwrap_err();
            let AgentError::Refused(error) = refusal else {
                panic!("{refusal}")
            };
            assert!(
                error.what == "the guest with Linux 6.12 does not start",
                "{error:?}"
            );
            assert!(error.tried.contains("version"), "{error:?}");
        });
        assert_eq!(booted, ["6.1", "6.12"]);
    }

    #[test]
    fn replies_for_slots_that_were_not_asked_for_are_dropped() {
        let method = Method::Rounds {
            own_files: false,
            reuse_files: false,
            operations: 1,
            units: 1,
            orders: vec![vec![1]],
            lead_in: false,
            until_seconds: None,
            spares: 0,
        };
        let slots = vec![SlotTrial {
            slot: 1,
            trial_seed: 1,
            variant: None,
        }];
        let rounds = MeasureRequest {
            slots,
            method,
            deadline: Duration::from_secs(60),
            ..request()
        };
        for (fate, expected) in [
            (Fate::AnswersOtherwise, "of slot 1"),
            (Fate::HasOtherClocks, "the agent reported impossible times"),
        ] {
            play(&[fate], |agent| {
                agent.provision((1, 0), &target(None), &mut |_| {}).unwrap();
                let replies = agent.measure(rounds.clone(), &mut |_| {}).unwrap();
                let found: Vec<_> = replies
                    .iter()
                    .map(|(slot, reply)| {
                        (
                            *slot,
                            reply.reason.as_ref().map(|reason| reason.text.as_str()),
                        )
                    })
                    .collect();
                assert_eq!(found, [(1, Some(expected))]);
            });
        }
    }
}
