//! The helper of `fsb serve --allow-runs`: it has the rights of the user who started the server,
//! and runs the plans that were shown. It answers the web process, which has no rights of root.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fsb_model::units::show_duration;
use fsb_report::show::counted;
use fsb_report::{WIDTH, warning_text};
use fsb_runner::plan_file;
use fsb_runner::schedule::{self, Expected};
use fsb_serve::{Planned, RunStatus, reports};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::policy::Permitted;
use super::protocol::{Connection, HelperReply, HelperRequest, RefusalKind};
use crate::exit::Signals;
use crate::message::{Level, Message};
use crate::results;
use crate::run::coordinator;
use crate::run::live::WatchedRun;
use crate::run::record;

/// The number of resolved plans that the helper keeps.
const PLANS: usize = 16;
/// The number of requests within [`MINUTE`]. Requests for the state of the run are not limited.
const REQUESTS: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// The interval at which the helper checks for signals and for the end of the run.
const EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// The time limit for the web process to complete a message and to accept a reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which the helper kills a run that does not end with the server.
const GRACE: Duration = Duration::from_secs(30);
/// The number of bytes that the helper reads from the end of the messages of a run.
const MESSAGES: u64 = 64 << 10;

/// The helper.
pub(super) struct Helper {
    permitted: Permitted,
    /// The devices that may be overwritten, with the numbers that they had when the server started.
    devices: Vec<(PathBuf, u64)>,
    plans: VecDeque<KeptPlan>,
    pace: Pace,
    run: Option<StartedRun>,
}

/// A resolved plan.
struct KeptPlan {
    digest: String,
    text: String,
    wipe: Vec<PathBuf>,
    name: String,
}

/// The last run.
struct StartedRun {
    child: Child,
    /// `None` while it runs.
    status: Option<ExitStatus>,
    messages: File,
    watched: WatchedRun,
    /// Holds the plan while the run reads it.
    _plan: TempDir,
}

impl Helper {
    /// Returns a helper that starts only permitted plans.
    ///
    /// # Errors
    ///
    /// A path of `--wipe` is not a block device.
    pub(super) fn new(permitted: Permitted) -> Result<Helper, String> {
        let number = |path: &PathBuf| match device_number(path) {
            Some(number) => Ok((path.clone(), number)),
            None => Err(format!(
                "--wipe {}: this is not a block device",
                path.display()
            )),
        };
        let devices = permitted
            .wipe
            .iter()
            .map(number)
            .collect::<Result<_, _>>()?;
        let (plans, pace) = (VecDeque::new(), Pace::default());
        Ok(Helper {
            permitted,
            devices,
            plans,
            pace,
            run: None,
        })
    }

    /// Answers requests until the web process ends or a signal comes. Then ends the run, if there
    /// is one.
    pub(super) fn serve(
        &mut self,
        mut connection: Connection,
        signals: &Signals,
    ) -> io::Result<()> {
        let served = self.answer_all(&mut connection, signals);
        self.finish();
        served
    }

    fn answer_all(&mut self, connection: &mut Connection, signals: &Signals) -> io::Result<()> {
        connection.limit_time(PATIENCE)?;
        while !signals.is_interrupted() {
            let ready = connection.has_buffered() || {
                let mut polled = [PollFd::new(connection.stream(), PollFlags::IN)];
                match poll(&mut polled, Some(&EVERY)) {
                    Ok(count) => count > 0,
                    Err(rustix::io::Errno::INTR) => false,
                    Err(errno) => return Err(errno.into()),
                }
            };
            self.reap();
            if ready {
                let Some(request) = connection.receive()? else {
                    return Ok(());
                };
                let reply = self.answer(request, Instant::now());
                connection.send(&reply)?;
            }
        }
        Ok(())
    }

    /// Returns the reply to a request.
    fn answer(&mut self, request: HelperRequest, now: Instant) -> HelperReply {
        if request != HelperRequest::Status && !self.pace.permits(now) {
            return HelperReply::refused(
                RefusalKind::TooMany,
                "Too many requests in the last minute: try again later.",
            );
        }
        match request {
            HelperRequest::Plan { text } => match self.plan(&text) {
                Ok(planned) => HelperReply::Planned(planned),
                Err(why) => HelperReply::refused(RefusalKind::Invalid, why),
            },
            HelperRequest::Start { digest } => self.start(&digest),
            HelperRequest::Stop => {
                self.stop();
                HelperReply::Done
            }
            HelperRequest::Status => HelperReply::Status(self.status()),
            HelperRequest::Report => match &self.run {
                Some(run) if run.status.is_some() => match reports::run(run.watched.directory()) {
                    Ok(page) => HelperReply::Report { page },
                    Err(why) => HelperReply::refused(RefusalKind::Missing, why),
                },
                _ => HelperReply::refused(RefusalKind::Missing, "No run has ended yet."),
            },
        }
    }

    /// Resolves a plan, checks it, and keeps its text.
    fn plan(&mut self, text: &str) -> Result<Planned, String> {
        let file = plan_file::parse(text, "the plan").map_err(|error| error.to_string())?;
        let file = self.permitted.complete(file)?;
        let cpus = coordinator::cpus_for(&file.controls);
        let mut resolved = file
            .resolve(cpus, coordinator::fresh_seed())
            .map_err(|error| error.to_string())?;
        fsb_runner::vm::pin(&mut resolved.plan).map_err(|error| error.to_string())?;
        let wipe = self.permitted.check(&resolved.plan)?;
        resolved.plan.wipe.clone_from(&wipe);
        let text = plan_file::print(&resolved.plan).map_err(|error| error.to_string())?;
        let name = record::run_name(&resolved.plan);
        let (record, work, warnings) =
            coordinator::checked(resolved).map_err(|error| format!("{error:#}"))?;
        let Expected { blocks, time, .. } = schedule::expected(&record, &work);
        let time = match record.plan.repetition.budget() {
            Some(budget) => format!("The run takes at most {}.", show_duration(budget)),
            None => format!(
                "{} take about {}, by a model that does not know this machine.",
                counted(blocks as usize, "block"),
                show_duration(time)
            ),
        };
        let planned = Planned {
            digest: digest(&text),
            cases: record.cells.iter().map(|cell| cell.label.clone()).collect(),
            targets: record
                .plan
                .targets
                .iter()
                .map(|target| target.name.clone())
                .collect(),
            time,
            warnings: warnings.iter().map(warning_text).collect(),
            text: text.clone(),
        };
        self.plans.retain(|kept| kept.digest != planned.digest);
        self.plans.push_back(KeptPlan {
            digest: planned.digest.clone(),
            text,
            wipe,
            name,
        });
        if self.plans.len() > PLANS {
            self.plans.pop_front();
        }
        Ok(planned)
    }

    fn start(&mut self, digest: &str) -> HelperReply {
        self.reap();
        if self.run.as_ref().is_some_and(|run| run.status.is_none()) {
            return HelperReply::refused(RefusalKind::Busy, "A run is measured already.");
        }
        let Some(plan) = self.plans.iter().find(|plan| plan.digest == digest) else {
            return HelperReply::refused(
                RefusalKind::Missing,
                "This plan is not known any more: show it again.",
            );
        };
        if let Some(moved) = plan.wipe.iter().find(|path| !self.is_same_device(path)) {
            let why = format!(
                "{} is another device than when the server started.",
                moved.display()
            );
            return HelperReply::refused(RefusalKind::Invalid, why);
        }
        match spawn(plan) {
            Ok(run) => {
                self.run = Some(run);
                HelperReply::Done
            }
            Err(error) => HelperReply::refused(
                RefusalKind::Failed,
                format!("The run could not be started: {error}"),
            ),
        }
    }

    fn is_same_device(&self, path: &Path) -> bool {
        let number = device_number(path);
        self.devices
            .iter()
            .any(|(named, known)| named == path && Some(*known) == number)
    }

    /// Stops the run as Ctrl-C does.
    fn stop(&mut self) {
        if let Some(run) = self.run.as_ref().filter(|run| run.status.is_none()) {
            // The run leads a process group of its own. The signal does nothing if the run has
            // ended meanwhile.
            let _ = kill_process_group(Pid::from_child(&run.child), Signal::INT);
        }
    }

    /// Stores the exit status of a run that has ended.
    fn reap(&mut self) {
        if let Some(run) = self.run.as_mut().filter(|run| run.status.is_none())
            && let Ok(status) = run.child.try_wait()
        {
            run.status = status;
        }
    }

    /// Stops the run and waits for its end, so that no run outlives the server.
    fn finish(&mut self) {
        self.stop();
        let begun = Instant::now();
        while self.run.as_ref().is_some_and(|run| run.status.is_none()) {
            if begun.elapsed() > GRACE
                && let Some(run) = &mut self.run
            {
                // The watcher of the run replays its undo ledger.
                let _ = run.child.kill();
            }
            let _ = poll(&mut [], Some(&EVERY));
            self.reap();
        }
    }

    fn status(&mut self) -> RunStatus {
        self.reap();
        let Some(run) = &mut self.run else {
            return RunStatus::default();
        };
        RunStatus {
            is_running: run.status.is_none(),
            directory: run.watched.directory().display().to_string(),
            // The run makes its directory after it has checked the plan.
            live: run.watched.look().ok(),
            error: run
                .status
                .map(|status| error_of(&mut run.messages, status))
                .unwrap_or_default(),
        }
    }
}

/// Starts a run of exactly the text that the page showed.
fn spawn(plan: &KeptPlan) -> io::Result<StartedRun> {
    // Under sudo, the run reads the plan with the rights of the invoking user, who must not be able
    // to change it.
    let directory = tempfile::Builder::new().prefix("fsb-serve-").tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let path = directory.path().join("plan.toml");
    fs::write(&path, &plan.text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    let out = std::path::absolute(results::default_directory(&plan.name))?;
    let messages = tempfile::tempfile()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("run")
        .arg(&path)
        .arg("--out")
        .arg(&out)
        .args(["--quiet", "--message-format=json"]);
    for device in &plan.wipe {
        command.arg("--wipe").arg(device);
    }
    // In a process group of its own the run gets no Ctrl-C: the server gets it and stops the run.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(messages.try_clone()?);
    let child = command.spawn()?;
    Ok(StartedRun {
        child,
        status: None,
        messages,
        watched: WatchedRun::new(&out, WIDTH),
        _plan: directory,
    })
}

/// Returns the error of a run that has ended, from its messages; empty if it has none.
fn error_of(messages: &mut File, status: ExitStatus) -> String {
    let mut text = Vec::new();
    let length = messages.metadata().map_or(0, |file| file.len());
    let read = messages.seek(io::SeekFrom::Start(length.saturating_sub(MESSAGES)));
    let _ = read.and_then(|_| messages.take(MESSAGES).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let mut messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let error = messages.rfind(|message| message.level == Level::Error);
    match (error, status.signal()) {
        (Some(error), _) => error.message,
        (None, Some(signal)) => format!("The process of the run was ended by signal {signal}."),
        (None, None) => String::new(),
    }
}

/// Returns the number of a block device, or `None` if the path is not one.
fn device_number(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Returns the SHA-256 of a text in hexadecimal.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The times of the last requests.
#[derive(Debug, Default)]
struct Pace(VecDeque<Instant>);

impl Pace {
    /// Returns whether the limit permits another request, and counts it.
    fn permits(&mut self, now: Instant) -> bool {
        while self
            .0
            .front()
            .is_some_and(|then| now.duration_since(*then) >= MINUTE)
        {
            self.0.pop_front();
        }
        let permits = self.0.len() < REQUESTS;
        if permits {
            self.0.push_back(now);
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper() -> Helper {
        Helper::new(Permitted {
            images: ".".into(),
            ..Permitted::default()
        })
        .unwrap()
    }

    fn plan(helper: &mut Helper, text: &str) -> HelperReply {
        helper.answer(
            HelperRequest::Plan {
                text: text.to_owned(),
            },
            Instant::now(),
        )
    }

    fn kind(reply: &HelperReply) -> Option<RefusalKind> {
        match reply {
            HelperReply::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    #[test]
    fn a_plan_is_kept_as_it_was_shown_and_its_digest_is_that_of_the_text() {
        let mut helper = helper();
        let HelperReply::Planned(planned) = plan(&mut helper, "targets = ['null']\nseed = 7\n")
        else {
            panic!()
        };
        assert_eq!(planned.digest, digest(&planned.text));
        assert_eq!(
            (planned.targets.as_slice(), planned.cases.len()),
            (&["null".to_owned()][..], 12)
        );
        assert_eq!(planned.time, "The run takes at most 5 min 00 s.");
        let kept = &helper.plans[0];
        assert_eq!((&kept.text, kept.wipe.len()), (&planned.text, 0));
        let again = plan_file::parse(&planned.text, "p")
            .unwrap()
            .resolve(coordinator::cpus(), 1)
            .unwrap();
        assert_eq!(
            plan_file::print(&again.plan).unwrap(),
            planned.text,
            "it resolves to itself"
        );
    }

    #[test]
    fn only_plans_that_were_shown_start_and_old_ones_are_forgotten() {
        let mut helper = helper();
        let start = |digest: &str| HelperRequest::Start {
            digest: digest.to_owned(),
        };
        let reply = helper.answer(start(&digest("targets = ['null']\n")), Instant::now());
        assert_eq!(kind(&reply), Some(RefusalKind::Missing));
        for seed in 0..=PLANS {
            let reply = plan(&mut helper, &format!("targets = ['null']\nseed = {seed}\n"));
            assert_eq!(kind(&reply), None, "{reply:?}");
        }
        assert_eq!(helper.plans.len(), PLANS);
        assert!(
            helper
                .plans
                .iter()
                .all(|kept| !kept.text.contains("seed = 0\n"))
        );
    }

    #[test]
    fn plans_that_are_wrong_or_not_permitted_are_refused() {
        let mut helper = helper();
        for wrong in [
            "targets = ['ext4@/dev/null']\n",
            "targets = ['/etc']\n",
            "targets = []\n",
            "budget",
            "targets = ['ext5']\n",
        ] {
            assert_eq!(
                kind(&plan(&mut helper, wrong)),
                Some(RefusalKind::Invalid),
                "{wrong}"
            );
        }
        assert!(helper.plans.is_empty());
        let named = Permitted {
            wipe: vec!["/dev/null".into()],
            ..Permitted::default()
        };
        assert!(Helper::new(named).is_err_and(|why| why.contains("not a block device")));
    }

    #[test]
    fn requests_are_limited_per_minute_except_for_the_state_of_the_run() {
        let mut helper = helper();
        let start = Instant::now();
        for _ in 0..REQUESTS {
            assert_eq!(helper.answer(HelperRequest::Stop, start), HelperReply::Done);
        }
        assert_eq!(
            kind(&helper.answer(HelperRequest::Stop, start)),
            Some(RefusalKind::TooMany)
        );
        assert_eq!(
            helper.answer(HelperRequest::Status, start),
            HelperReply::Status(RunStatus::default())
        );
        assert_eq!(
            helper.answer(HelperRequest::Stop, start + MINUTE),
            HelperReply::Done
        );
    }
}
