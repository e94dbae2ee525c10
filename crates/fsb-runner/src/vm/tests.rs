//! The relay between a runner and guests that follow a script.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fsb_engine::Sizing;
use fsb_model::observed::Spent;
use fsb_model::place::VmRecord;
use fsb_model::run::TargetRecord;
use fsb_model::trial::Samples;
use fsb_model::{Amount, Outcome, Target, Warning, WorkloadSpec};
use fsb_testbed::control::Held;
use fsb_testbed::optional;
use fsb_testbed::vm::HostDisk;
use fsb_testbed::{Abilities, Activity, Kind, Opened, Progress, Provisioned, Setup, TestbedError};

use super::Relay;
use super::guests::{Booted, Guest, Guests, Prepared, begun};
use crate::agent::client::CHATTER;
use crate::agent::protocol::{AgentRequest, Lines, Reply, SLICE};
use crate::agent::{Agent, AgentError, MeasureRequest, Measured, Method, SlotTrial, TrialReply};

/// The behaviour of a guest at a trial.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answers,
    Panics,
    Hangs,
    /// It answers trials with a line that never ends.
    Rants,
    /// Reports progress without end where a trial is asked for.
    Chatters,
    /// Answers a trial with bytes that are not UTF-8.
    SendsBytes,
    /// Dies in the middle of its answer to a trial.
    DiesInLine,
    /// Answers a trial with a reply of another kind.
    AnswersOtherwise,
    /// Answers a trial with numbers that take three times the bytes once they are parsed and printed again.
    Swells,
    /// Answers a trial with a failure of many megabytes.
    FailsAtLength,
    /// Answers with times that no trial can take.
    HasOtherClocks,
    /// Greets with another version of the protocol.
    IsOlder,
    /// It answers trials, and says hello late.
    BootsSlowly,
    /// It ends before it says hello.
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
        self.gone.load(Ordering::SeqCst).then(|| "kernel panic: sysrq triggered crash".to_owned())
    }

    fn look_after(&mut self) {
        assert!(self.up.load(Ordering::SeqCst), "one that boots has nothing that could answer");
        self.looked.fetch_add(1, Ordering::SeqCst);
    }

    fn heard(&mut self) {}

    fn last_words(&self) -> Vec<String> {
        vec!["Call Trace:".to_owned(), String::new(), "---[ end Kernel panic ]---".to_owned()]
    }
}

impl Guests for Script {
    fn prepare(&mut self, setup: &Setup, tell: &mut dyn FnMut(Progress)) -> Result<Prepared, TestbedError> {
        tell(begun(Activity::FindAcceleration));
        let lacking = |alone: &Setup| match alone.targets[0].kernel.as_deref() {
            Some("6.13") => Err(TestbedError::machine("no module")),
            _ => Ok(()),
        };
        let available = optional::available(setup, lacking)?;
        Ok(Prepared { available, record: VmRecord::default(), emulated: true, oldest_kernel: None })
    }

    fn boot(&mut self, release: Option<&str>, disks: Vec<HostDisk>) -> Result<Booted, TestbedError> {
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
        Ok(Booted { stream, guest: Box::new(Scripted { gone, up, looked }) })
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
            AgentRequest::Hello { version } if fate == Fate::IsOlder => Reply::Hello { version: version - 1 },
            AgentRequest::Hello { version } => {
                if fate == Fate::BootsSlowly {
                    std::thread::sleep(SLICE * 4);
                }
                up.store(true, Ordering::SeqCst);
                Reply::Hello { version }
            }
            AgentRequest::Open(setup) => {
                assert!(setup.targets.iter().all(|target| !target.optional), "it was left out");
                assert!(setup.vm.is_none() && setup.controls["guest-memory"] == "backed");
                let _ = lines.send(&Reply::Progress(begun(Activity::TouchMemory)));
                Reply::Opened(Box::new(Opened {
                    warnings: vec![Warning::Text("of the guest".to_owned())],
                    ..Opened::default()
                }))
            }
            AgentRequest::Provision { .. } => Reply::Provisioned(Box::new(provisioned())),
            AgentRequest::Measure(request) if matches!(request.method, Method::Sequential { .. }) => match fate {
                Fate::Answers | Fate::BootsSlowly => {
                    Reply::Measured(vec![(0, crate::agent::refused_lost("as scripted".to_owned()))])
                }
                Fate::Panics => return,
                Fate::Hangs => continue,
                Fate::Rants => {
                    while lines.send_raw(&[b'x'; 1 << 16]).is_ok() {}
                    return;
                }
                Fate::Chatters => {
                    while lines.send(&Reply::Progress(begun(Activity::FillMedium { medium: "x".repeat(5000) }))).is_ok()
                    {
                    }
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
                    let measured = Measured { samples: vec![1.0], ..Measured::default() };
                    let reply = TrialReply { measured: Some(measured), ..crate::agent::refused_lost(String::new()) };
                    let line = serde_json::to_string(&Reply::Measured(vec![(0, reply)])).unwrap() + "\n";
                    let numbers = format!("\"samples\":[{}1]", "1e15,".repeat(2 << 20));
                    assert!(line.contains("\"samples\":[1.0]"), "{line}");
                    let _ = lines.send_raw(line.replace("\"samples\":[1.0]", &numbers).as_bytes());
                    continue;
                }
                Fate::FailsAtLength => Reply::Failed(TestbedError::trial("x".repeat((16 << 20) - 200))),
                Fate::HasOtherClocks => Reply::Measured(vec![(0, impossible())]),
                Fate::IsOlder | Fate::DiesBooting | Fate::IsNotBooted => unreachable!("it never was up"),
            },
            AgentRequest::Measure(_) if fate == Fate::AnswersOtherwise => {
                let of = |slot| (slot, crate::agent::refused_lost(format!("of slot {slot}")));
                Reply::Measured((0..10_000).map(of).chain([of(1), of(1), of(u32::MAX)]).collect())
            }
            AgentRequest::Measure(_) if fate == Fate::HasOtherClocks => Reply::Measured(vec![(1, impossible())]),
            AgentRequest::Release(_) | AgentRequest::Measure(_) | AgentRequest::Close => Reply::Done,
        };
        lines.send(&reply).unwrap();
    }
}

/// Returns a reply whose sums overflow.
fn impossible() -> TrialReply {
    let samples = Samples { timed_ns: vec![u64::MAX; 2], ..Samples::default() };
    let spent = Spent { prepare: -1e300, settle: 1e300, ..Spent::default() };
    TrialReply { outcome: Outcome::Ok, samples, spent, ..crate::agent::refused_lost(String::new()) }
}

fn provisioned() -> Provisioned {
    let (why_not_cold, why_not_durable) = (String::new(), String::new());
    Provisioned {
        record: TargetRecord::default(),
        root: "/run/fsb".into(),
        abilities: Abilities {
            cold: None,
            durable: true,
            counters: true,
            kernel_caches_only: false,
            fake: None,
            why_not_cold,
            why_not_durable,
            no_maintenance: Default::default(),
        },
        free_bytes: 1,
        free_inodes: 1,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    }
}

fn target(kernel: Option<&str>) -> Target {
    Target { kernel: kernel.map(str::to_owned), .."null".parse().unwrap() }
}

/// Returns an optional target whose driver the scripted kernel lacks.
fn absent() -> Target {
    Target { name: "absent".to_owned(), optional: true, ..target(Some("6.13")) }
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
        slots: vec![SlotTrial { slot: 0, trial_seed: 1 }],
        workload: WorkloadSpec::new("read", Default::default()),
        sizing: Sizing { size: 1, cpus: 1 },
        method: Method::Sequential { amount: Amount::new(1, 1), until_seconds: None, sustain: None },
        seed: 1,
        attempt: 1,
        trace: false,
        deadline: Duration::from_millis(30),
        limit: None,
    }
}

/// Requests a trial in slot 0.
fn trial(agent: &mut Agent, deadline: Duration) -> TrialReply {
    let mut replies = agent.measure(MeasureRequest { deadline, ..request() }, &mut |_| {}).unwrap();
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
    let mut script = Script { fates: fates.to_vec(), booted: Arc::clone(&booted), looked: Arc::clone(&looked) };
    let relay = std::thread::spawn(move || {
        let mut relay = Relay::new(&mut script);
        relay.patience = Duration::from_millis(50);
        relay.serve(back).unwrap();
    });
    let mut agent = Agent::connect(coordinator, Arc::new(AtomicBool::new(false))).unwrap();
    let mut steps = Vec::new();
    let opened = agent.open(&setup(), &mut |progress| steps.push(progress.activity)).unwrap();
    let boot = Activity::BootGuest { kernel: "6.1".to_owned() };
    assert_eq!(steps, [Activity::FindAcceleration, boot, Activity::TouchMemory]);
    assert!(opened.emulated && opened.vm.is_some() && opened.warnings == [Warning::Text("of the guest".to_owned())]);
    act(&mut agent);
    agent.close().unwrap();
    relay.join().unwrap();
    (Arc::into_inner(booted).expect("the relay is gone").into_inner().unwrap(), looked.load(Ordering::SeqCst))
}

fn provision(agent: &mut Agent, kernel: Option<&str>) -> Provisioned {
    agent.provision((0, 0), &target(kernel), &mut |_| {}).unwrap()
}

#[test]
fn a_target_is_made_in_a_guest_with_its_kernel() {
    let booted = play(&[Fate::Answers; 3], |agent| {
        for (asked, runs) in [(None, "6.1"), (Some("6.1"), "6.1"), (Some("6.12"), "6.12"), (Some("6.1"), "6.1")] {
            let made = provision(agent, asked);
            assert_eq!(made.record.kernel.as_deref(), Some(runs));
            assert!(made.record.notes[0].contains("does not watch") && made.warnings.is_empty());
            let TrialReply { error, target_lost, .. } = trial(agent, request().deadline);
            assert!(error.as_deref() == Some("as scripted") && target_lost);
            agent.release(0).unwrap();
        }
    });
    assert_eq!(booted, ["6.1", "6.12", "6.1"], "one guest serves as long as its kernel is wanted");
}

#[test]
fn a_target_that_no_guest_can_make_costs_no_boot() {
    let booted = play(&[Fate::Answers], |agent| {
        let refusal = agent.provision((0, 0), &absent(), &mut |_| {}).unwrap_err();
        assert!(matches!(refusal, AgentError::Refused(error) if error == TestbedError::machine("no module")));
        provision(agent, None);
    });
    assert_eq!(booted, ["6.1"]);
}

#[test]
fn a_guest_that_does_not_come_up_is_a_failure_and_no_lack_of_this_machine() {
    let booted = play(&[Fate::Answers, Fate::DiesBooting, Fate::IsNotBooted, Fate::Answers], |agent| {
        for why in ["the guest with Linux 6.12 does not start", "too little memory"] {
            let Err(AgentError::Refused(error)) = agent.provision((0, 0), &target(Some("6.12")), &mut |_| {}) else {
                panic!("it was made")
            };
            assert!(error.kind == Kind::Trial && error.what == why, "{error:?}");
        }
        provision(agent, Some("6.12"));
    });
    assert_eq!(booted, ["6.1", "6.12", "6.12", "6.12"]);
}

#[test]
fn a_guest_that_panics_costs_its_trial_and_the_next_target_gets_another() {
    let booted = play(&[Fate::Panics, Fate::Answers], |agent| {
        provision(agent, None);
        let reply = trial(agent, request().deadline);
        assert!(reply.outcome == Outcome::Failed && reply.target_lost);
        assert_eq!(
            reply.error.unwrap(),
            "guest stopped: kernel panic: sysrq triggered crash; the last lines of its console: Call Trace: | ---[ end \
             Kernel panic ]---"
        );
        let again = trial(agent, request().deadline);
        assert!(again.target_lost && again.error.unwrap().starts_with("guest stopped"));
        agent.release(0).unwrap();
        provision(agent, None);
        assert_eq!(trial(agent, request().deadline).error.as_deref(), Some("as scripted"));
    });
    assert_eq!(booted.len(), 2);
}

#[test]
fn a_guest_that_hangs_is_ended_by_its_deadline() {
    let (_, looked) = play_and_count(&[Fate::Hangs, Fate::Answers], |agent| {
        provision(agent, None);
        let error = trial(agent, request().deadline).error.unwrap();
        assert!(error.starts_with("guest stopped: it did not answer within 0 s, and was killed"), "{error}");
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
    let vm = Some(fsb_model::place::VmSize { memory: fsb_model::Bytes(1 << 50), cpus: 1 });
    let targets = vec![Target { optional: true, ..target(None) }, target(None)];
    let short = Setup { vm, targets, ..setup() };
    assert_eq!(super::on_this_machine(&short).unwrap().setup.targets.len(), 2);
    let refusal = super::check(&short).unwrap_err();
    assert!(refusal.what.contains("too little memory"), "{refusal}");
}

#[test]
fn without_a_virtual_machine_nothing_is_booted() {
    let (coordinator, back) = UnixStream::pair().unwrap();
    std::thread::spawn(move || super::serve(back));
    let mut agent = Agent::connect(coordinator, Arc::new(AtomicBool::new(false))).unwrap();
    let refusal = agent.open(&Setup { vm: None, ..setup() }, &mut |_| {}).unwrap_err();
    assert!(matches!(refusal, AgentError::Refused(error) if error.kind == fsb_testbed::Kind::Request));
}

#[test]
fn a_guest_that_rants_is_ended_and_fills_no_memory() {
    let booted = play(&[Fate::Rants, Fate::Answers], |agent| {
        provision(agent, None);
        let TrialReply { error, target_lost, .. } = trial(agent, request().deadline);
        let error = error.unwrap();
        // On a slow machine its deadline may come first.
        assert!(error.contains("a message longer than 16 MiB") || error.contains("did not answer"), "{error}");
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
        assert!(reply.outcome == Outcome::Failed && reply.target_lost, "{reply:?}");
        error = reply.error.unwrap();
        agent.release(0).unwrap();
        provision(agent, None);
        assert!(trial(agent, request().deadline).error.is_some());
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
    assert!(error.starts_with("guest stopped: not a message: "), "{error}");
}

#[test]
fn a_guest_that_dies_in_the_middle_of_a_line_costs_its_trial() {
    let error = error_of_trial(Fate::DiesInLine);
    assert!(error.starts_with("guest stopped: kernel panic"), "{error}");
}

#[test]
fn an_answer_to_another_request_costs_its_trial() {
    let error = error_of_trial(Fate::AnswersOtherwise);
    assert!(error.starts_with("the guest answered Provisioned"), "{error}");
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
    assert_eq!(error_of_trial(Fate::HasOtherClocks), "the agent reported impossible times");
}

#[test]
fn a_guest_with_another_protocol_version_does_not_start() {
    let booted = play(&[Fate::Answers, Fate::IsOlder], |agent| {
        let refusal = agent.provision((0, 0), &target(Some("6.12")), &mut |_| {}).unwrap_err();
        let AgentError::Refused(error) = refusal else { panic!("{refusal}") };
        assert!(error.what == "the guest with Linux 6.12 does not start", "{error:?}");
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
    let slots = vec![SlotTrial { slot: 1, trial_seed: 1 }];
    let rounds = MeasureRequest { slots, method, deadline: Duration::from_secs(60), ..request() };
    for (fate, expected) in
        [(Fate::AnswersOtherwise, "of slot 1"), (Fate::HasOtherClocks, "the agent reported impossible times")]
    {
        play(&[fate], |agent| {
            agent.provision((1, 0), &target(None), &mut |_| {}).unwrap();
            let replies = agent.measure(rounds.clone(), &mut |_| {}).unwrap();
            let found: Vec<_> = replies.iter().map(|(slot, reply)| (*slot, reply.error.as_deref())).collect();
            assert_eq!(found, [(1, Some(expected))]);
        });
    }
}
