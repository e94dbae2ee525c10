//! Checks of this machine: what it can measure, which file systems it can make and mount, the
//! current value of each control, and sources of interference. The checks change nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::storage::StorageFlaw;
use fsb_model::units::{show_bytes, show_duration};
use fsb_model::workload::ProgramLimits;
use fsb_sys::cgroup::{Hierarchy, PROCESSES};
use fsb_sys::error::{Refusal, attempt};
use fsb_sys::space::FreeSpace;
use fsb_sys::{Roots, block, mountinfo, program};
use serde::{Deserialize, Serialize};

use crate::access::{self, Obstacle};
use crate::control::{self, Control, Scope, TargetDevice};
use crate::fs::{self, FileSystem};
use crate::ledger::{self, Entry};
use crate::local::place_of_directory;
use crate::storage::{self, Storage};
use crate::watch::threshold::{CPU_SHARE, DEVICE_RATE, IDLE_PRESSURE};
use crate::watch::{self, AVAILABLE_CPU_SECONDS, Seen, Watch, Watched, sources};
use crate::{host, lock, privilege};

/// The result of a check in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The feature works.
    Ok,
    /// The feature works, but may affect results.
    Warning,
    /// The feature does not work on this machine.
    Missing,
    /// The machine lacks it, and a run works without it.
    Absent,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check, in a word or two.
    pub topic: String,
    pub state: State,
    pub text: String,
    /// The command or step that resolves it; empty if none is needed.
    pub advice: String,
}

fn finding(
    topic: &str,
    state: State,
    text: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding {
        topic: topic.to_owned(),
        state,
        text: text.into(),
        advice: advice.into(),
    }
}

/// Checks all that a run needs besides its [`file_systems`], for images in `dir`.
pub fn examine(dir: &Path) -> Vec<Finding> {
    let roots = Roots::default();
    let mut findings = vec![privileges()];
    findings.push(loop_devices());
    findings.push(image_directory(dir));
    findings.push(signature_tools());
    findings.push(command_limits(&roots));
    findings.extend(controls(dir, &roots));
    findings.extend(surroundings(&roots));
    findings.extend(battery(&roots));
    findings.extend(soon(&roots));
    findings.push(lock_holder());
    findings.push(undo_entries());
    findings
}

fn privileges() -> Finding {
    if rustix::process::geteuid().is_root() {
        finding(
            "privileges",
            State::Ok,
            "root: file systems can be made and mounted",
            "",
        )
    } else {
        let text = "not root: directories can be measured, file systems cannot be made";
        finding("privileges", State::Warning, text, privilege::advice())
    }
}

fn loop_devices() -> Finding {
    let control = Path::new("/dev/loop-control");
    if rustix::fs::access(
        control,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::READ_OK,
    )
    .is_ok()
    {
        finding("loop devices", State::Ok, "can be attached", "")
    } else if control.exists() {
        finding(
            "loop devices",
            State::Warning,
            "/dev/loop-control cannot be opened",
            privilege::advice(),
        )
    } else {
        let advice = "modprobe loop, or give the container /dev/loop-control and loop devices";
        finding(
            "loop devices",
            State::Missing,
            "/dev/loop-control is not there",
            advice,
        )
    }
}

fn image_directory(dir: &Path) -> Finding {
    let topic = "image directory";
    let shown = dir.display();
    // statfs alone succeeds on a FUSE mount that keeps this process out.
    let looked = std::fs::metadata(dir).and_then(|found| Ok((found, FreeSpace::at(dir)?)));
    let (found, space) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let Obstacle { why, advice } =
                access::obstacle(dir, &error).unwrap_or_else(|| Obstacle {
                    why: attempt("stat", dir, &error).to_string(),
                    advice: "name another with --dir".to_owned(),
                });
            let text = format!("{shown} cannot be used: {why}");
            return finding(topic, State::Missing, text, advice);
        }
    };
    if !found.is_dir() {
        return finding(
            topic,
            State::Missing,
            format!("{shown} is not a directory"),
            "name another with --dir",
        );
    }
    if let Some(StorageFlaw::Memory { holder }) =
        Storage::beneath_path(dir, None, &Roots::default()).loss()
    {
        let text = format!("{shown} is in memory ({holder}): no image can be measured there");
        return finding(
            topic,
            State::Missing,
            text,
            "name a directory on a disk with --dir, or use @ram",
        );
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        return finding(
            topic,
            State::Missing,
            format!("{shown} cannot be written to"),
            "name another with --dir",
        );
    }
    let Some((free, total)) = space.bytes.zip(space.total) else {
        let text = format!("{shown}, which does not report its free space");
        return finding(topic, State::Ok, text, "");
    };
    let text = format!("{} free in {shown}", show_bytes(free as f64));
    if free < total / 20 {
        let advice = "free some space: file systems that are nearly full are slow";
        return finding(
            topic,
            State::Warning,
            format!("{text}, it is nearly full"),
            advice,
        );
    }
    finding(topic, State::Ok, text, "")
}

/// Checks for a program that can detect signatures. Without one, fsb never considers a block device
/// empty.
fn signature_tools() -> Finding {
    match ["wipefs", "blkid"]
        .iter()
        .find(|name| program::find(name).is_some())
    {
        Some(name) => finding(
            "block devices",
            State::Ok,
            format!("{name} can detect whether a device is empty"),
            "",
        ),
        None => {
            let advice = "install the package util-linux (apt-get install util-linux)";
            finding(
                "block devices",
                State::Warning,
                "wipefs and blkid are missing: every device is refused",
                advice,
            )
        }
    }
}

/// Reports how fsb counts the processes of commands. Without a cgroup or a user namespace, the
/// limit counts all processes of the user.
fn command_limits(roots: &Roots) -> Finding {
    let most = ProgramLimits::default().processes;
    let text = |counted: &str| format!("each may have {most} processes, {counted}");
    let cgroup = Hierarchy::find(roots, PROCESSES)
        .ok()
        .filter(|found| found.enable.is_none());
    let namespaces = roots
        .proc_text("sys/user/max_user_namespaces")
        .is_some_and(|most| most != "0");
    match (cgroup, namespaces) {
        (Some(found), _) => finding(
            "commands",
            State::Ok,
            text(&format!("counted by {}", found.version.mechanism())),
            "",
        ),
        (None, true) => finding(
            "commands",
            State::Ok,
            text("counted by its user namespace (no pids cgroup)"),
            "",
        ),
        (None, false) => {
            let advice = "allow user namespaces (sysctl user.max_user_namespaces), or give the container a pids cgroup";
            finding(
                "commands",
                State::Warning,
                text("counted with all others of the same user"),
                advice,
            )
        }
    }
}

fn surroundings(roots: &Roots) -> Vec<Finding> {
    let manifest = host::manifest_at(roots);
    let mut findings = Vec::new();
    if let Some(hypervisor) = manifest.hypervisor {
        // Some sources only show that there is a hypervisor, not its name.
        let name = if hypervisor == "yes" {
            String::new()
        } else {
            format!(" ({hypervisor})")
        };
        let text = format!("a virtual machine{name}: others may share its processors and disks");
        findings.push(finding(
            "virtual machine",
            State::Warning,
            text,
            "compare only results of the same machine",
        ));
    }
    if let Some(container) = manifest.container {
        let text = format!("inside a container ({container}): others share the kernel");
        findings.push(finding(
            "container",
            State::Warning,
            text,
            "measure outside where that is possible",
        ));
    }
    findings
}

fn lock_holder() -> Finding {
    match lock::current_holder() {
        Some(holder) => {
            let text = format!("another fsb measures now: {holder}");
            finding("other runs", State::Warning, text, "wait for it to end")
        }
        None => finding("other runs", State::Ok, "none", ""),
    }
}

fn undo_entries() -> Finding {
    let entries = ledger::default_directory()
        .map(|directory| ledger::leftovers(&directory, crate::control::RULES))
        .unwrap_or_default();
    let dead: Vec<String> = entries
        .into_iter()
        .filter_map(|(file, entry)| match entry {
            Ok(entry) if entry.owner.is_alive() => None,
            Ok(entry) => Some(entry.action.to_string()),
            Err(why) => Some(format!("{} cannot be undone ({why})", file.display())),
        })
        .collect();
    match dead[..] {
        [] => finding("undo ledger", State::Ok, "nothing is left to undo", ""),
        _ => finding(
            "undo ledger",
            State::Warning,
            format!("left by a killed run: {}", dead.join("; ")),
            "run 'fsb clean'",
        ),
    }
}

/// Returns whether a program is on PATH or in the administrators' directories.
pub fn has_program(name: &str) -> bool {
    program::find(name).is_some()
}

/// Reports whether the machine runs on battery. Returns `None` if it has no battery.
fn battery(roots: &Roots) -> Option<Finding> {
    let entries = std::fs::read_dir(roots.sys.join("class/power_supply"))
        .into_iter()
        .flatten();
    let names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let text =
        |name: &str, file: &str| roots.sys_text(&format!("class/power_supply/{name}/{file}"));
    // Mice and headsets have batteries too.
    let batteries: Vec<&String> = names
        .iter()
        .filter(|name| text(name, "scope").is_none_or(|scope| scope != "Device"))
        .filter(|name| text(name, "type").is_some_and(|kind| kind == "Battery"))
        .collect();
    let unplugged = batteries
        .iter()
        .find(|name| text(name, "status").is_some_and(|status| status == "Discharging"));
    match (unplugged, batteries.is_empty()) {
        (_, true) => None,
        (None, _) => Some(finding("power", State::Ok, "plugged in", "")),
        (Some(name), _) => {
            let left = text(name, "capacity")
                .map(|percent| format!(", {percent} % left"))
                .unwrap_or_default();
            let text = format!(
                "on battery ({name}{left}): frequencies and disks are slowed down to save power"
            );
            Some(finding(
                "power",
                State::Warning,
                text,
                "plug the machine in",
            ))
        }
    }
}

/// Checks every control. Controls of devices are shown for the disk under `dir`.
fn controls(dir: &Path, roots: &Roots) -> Vec<Finding> {
    let disk = place_of_directory(dir);
    let entries = ledger::default_directory()
        .map(|directory| ledger::leftovers(&directory, crate::control::RULES))
        .unwrap_or_default();
    let live: Vec<Entry> = entries
        .into_iter()
        .filter_map(|(_, entry)| entry.ok())
        .filter(|entry| entry.owner.is_alive())
        .collect();
    control::REGISTRY
        .iter()
        .map(|member| look(*member, &disk, &live, roots))
        .collect()
}

fn look(member: &dyn Control, disk: &TargetDevice, live: &[Entry], roots: &Roots) -> Finding {
    let name = member.name();
    let now = match member.scope() {
        Scope::Target if disk.device.is_some() && member.concerns_device() => {
            format!(
                "{} under --dir; set on the target's own device",
                member.observe(roots, disk)
            )
        }
        Scope::Target if member.concerns_device() => "set on the target's own device".to_owned(),
        _ => member.observe(roots, &TargetDevice::default()),
    };
    if let Some(entry) = live
        .iter()
        .find(|entry| entry.control.as_deref() == Some(name))
    {
        let text = format!("set by a running fsb (process {}): {now}", entry.owner.pid);
        return finding(name, State::Ok, text, "");
    }
    match (member.probe(roots), member.interferes(roots)) {
        (Ok(()), None) => finding(name, State::Ok, format!("available: {now}"), ""),
        (Ok(()), Some(why)) => finding(
            name,
            State::Warning,
            format!("available: {now}: {}", why.what),
            why.advice,
        ),
        // A control without anything to do here is not a defect.
        (Err(why @ Refusal::NotNeeded(_)), _) => finding(name, State::Ok, why, ""),
        // Root does not help if the machine lacks the feature.
        (Err(why), _) if rustix::process::geteuid().is_root() || !why.is_for_lack_of_root() => {
            finding(
                name,
                State::Absent,
                format!("{why}; a run with this control warns and continues without it"),
                "",
            )
        }
        (Err(why), _) => finding(
            name,
            State::Warning,
            format!("not available: {why}"),
            privilege::advice(),
        ),
    }
}

/// The support for a file system on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Support {
    /// The name in targets.
    pub name: &'static str,
    /// The version that its server or its mkfs program prints. `None` if it needs neither or the
    /// program is missing.
    pub version: Option<String>,
    /// Programs that are missing, and the Debian package that contains them. A virtual machine
    /// needs them, too.
    pub programs: Option<(Vec<String>, &'static str)>,
    /// Whether the kernel has the driver loaded. It may also be available as a module that is not
    /// loaded.
    pub driver: bool,
    /// Modules that contain the driver in another kernel.
    pub modules: &'static [&'static str],
    /// The advice where a kernel lacks them. `None` if kernels of distributions have them.
    pub module_advice: Option<&'static str>,
}

impl Support {
    /// Returns whether this machine can measure the file system.
    pub fn is_here(&self) -> bool {
        self.programs.is_none() && self.driver
    }
}

/// Checks every file system that needs a kernel driver.
pub fn file_systems() -> Vec<Support> {
    let roots = Roots::default();
    fs::REGISTRY
        .iter()
        .filter_map(|member| support(*member, &roots))
        .collect()
}

fn support(member: &dyn FileSystem, roots: &Roots) -> Option<Support> {
    let driver = member.driver()?;
    let server = member
        .server_program()
        .into_iter()
        .chain(member.server_helpers().iter().copied())
        .find(|(name, _)| program::find(name).is_none())
        .map(|(name, package)| (vec![PathBuf::from(name)], package));
    let tools = member
        .tools()
        .map(|tools| (fs::missing_programs(tools), tools.package));
    let missing = server.or(tools);
    let version = member
        .server_version()
        .or_else(|| member.tools().and_then(fs::version));
    Some(Support {
        name: member.name(),
        version,
        programs: missing
            .filter(|(all, _)| !all.is_empty())
            .map(|(all, package)| {
                (
                    all.iter().map(|name| name.display().to_string()).collect(),
                    package,
                )
            }),
        driver: fs::kernel_has(roots, driver),
        modules: member.modules(),
        module_advice: member.module_advice(),
    })
}

// The load that other processes cause on this machine. The doctor observes it while nothing is
// measured, so all activity belongs to others.

/// The largest number of processes that a finding names.
const NAMED_PROCESSES: usize = 3;
/// The smallest share of the machine for which a finding names a process.
const WORTH_A_NAME: f64 = 0.002;

/// Observes the machine for this time. Returns findings about interference with a run whose image
/// is in `dir`.
pub fn listen(dir: &Path, time: Duration) -> Vec<Finding> {
    listen_at(&Roots::default(), dir, &|| std::thread::sleep(time), time)
}

fn listen_at(roots: &Roots, dir: &Path, wait: &dyn Fn(), time: Duration) -> Vec<Finding> {
    let place = Watched {
        roots,
        coordinator: std::process::id(),
        device: None,
        neighbours: &[],
    };
    let disk = disk_under(roots, dir);
    let moved = || {
        disk.as_ref()
            .ok()
            .and_then(|disk| block::activity(disk))
            .map(|now| now.read_bytes + now.write_bytes)
    };
    let (bytes, before, watch) = (
        moved(),
        sources::read_processes(roots),
        Watch::begin(&place),
    );
    wait();
    let seen = watch.end();
    let busiest =
        sources::used_by_others(&before, &sources::read_processes(roots), place.coordinator);
    let since = bytes
        .zip(moved())
        .map(|(before, after)| after.saturating_sub(before));
    let mut findings = vec![processors(&seen, &busiest, time)];
    findings.extend(stolen(&seen));
    findings.push(match (since, &disk) {
        (Some(bytes), Ok(disk)) => {
            use_of_disk(disk, bytes as f64 / time.as_secs_f64().max(0.001), dir)
        }
        (_, Err(why)) => finding(
            "disk",
            State::Ok,
            format!("its activity for other processes is unknown: {why}"),
            "",
        ),
        (None, Ok(_)) => finding("disk", State::Ok, "the kernel has no counters for it", ""),
    });
    findings.extend(pressure(&seen, time));
    findings.extend(heat(&seen));
    findings.push(watched(&place));
    findings
}

fn disk_under(roots: &Roots, dir: &Path) -> Result<PathBuf, Refusal> {
    let unknown = || format!("the disk under {} is not known", dir.display());
    let path = dir.canonicalize().map_err(|_| unknown())?;
    let mount = mountinfo::holding(&mountinfo::read(), &path).ok_or_else(unknown)?;
    let number = storage::number_of_mount(&mount).ok_or_else(unknown)?;
    let directory = number.directory(roots).ok_or_else(unknown)?;
    sources::bottom_device(roots, &directory).map(|bottom| bottom.disk)
}

fn share(seen: &Seen, name: &str) -> Option<f64> {
    let available = seen
        .get(AVAILABLE_CPU_SECONDS)
        .copied()
        .filter(|seconds| *seconds > 0.0)?;
    Some(seen.get(name)? / available)
}

/// Half of the limit for a trial, because a trial adds up steal and the use by other processes.
fn interferes(share: f64) -> bool {
    share > CPU_SHARE / 2.0
}

fn processors(seen: &Seen, busiest: &[(String, u64)], time: Duration) -> Finding {
    let topic = "other processes";
    let Some(all) = share(seen, sources::OTHERS_SECONDS) else {
        return finding(
            topic,
            State::Ok,
            "the processes of this machine cannot be seen",
            "",
        );
    };
    let available = seen.get(AVAILABLE_CPU_SECONDS).copied().unwrap_or(1.0);
    let named = busiest
        .iter()
        .map(|(name, ticks)| (name, watch::seconds(*ticks) / available));
    let named: Vec<String> = named
        .filter(|(_, share)| *share >= WORTH_A_NAME)
        .take(NAMED_PROCESSES)
        .map(|(name, share)| format!("{name} {}", percent(share)))
        .collect();
    let names = if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    };
    let text = format!(
        "{} of the CPU time in {}{names}",
        percent(all),
        show_duration(time)
    );
    if interferes(all) {
        return finding(
            topic,
            State::Warning,
            text,
            "stop them for the run, or measure when they are idle",
        );
    }
    finding(topic, State::Ok, text, "")
}

fn stolen(seen: &Seen) -> Option<Finding> {
    let stolen = share(seen, sources::STEAL_SECONDS)?;
    let text = format!(
        "{} of the CPU time went to other virtual machines",
        percent(stolen)
    );
    Some(if interferes(stolen) {
        let advice = "measure when the host is idle, or on a machine with dedicated processors";
        finding("CPU steal", State::Warning, text, advice)
    } else {
        finding("CPU steal", State::Ok, text, "")
    })
}

fn use_of_disk(disk: &Path, rate: f64, dir: &Path) -> Finding {
    let name = disk.file_name().unwrap_or_default().to_string_lossy();
    let text = format!(
        "{name}, under {}, moves {}/s for others",
        dir.display(),
        show_bytes(rate)
    );
    if rate > DEVICE_RATE {
        let advice = "find the process (iotop -o, pidstat -d 1), or put the image on another disk with --dir";
        return finding("disk", State::Warning, text, advice);
    }
    finding("disk", State::Ok, text, "")
}

fn pressure(seen: &Seen, time: Duration) -> Option<Finding> {
    let parts: Vec<(&str, f64)> = ["cpu", "io", "memory"]
        .into_iter()
        .filter_map(|name| {
            let waited = seen.get(&format!("pressure_{name}_seconds"))?;
            Some((name, waited / time.as_secs_f64().max(0.001)))
        })
        .collect();
    if parts.is_empty() {
        return None;
    }
    let shares: Vec<String> = parts
        .iter()
        .map(|(name, share)| format!("{name} {}", percent(*share)))
        .collect();
    let text = format!("work waited for {} of the time", shares.join(", "));
    Some(if parts.iter().any(|(_, share)| *share > IDLE_PRESSURE) {
        finding(
            "pressure",
            State::Warning,
            text,
            "the machine is busy: see the other lines",
        )
    } else {
        finding("pressure", State::Ok, text, "")
    })
}

fn heat(seen: &Seen) -> Option<Finding> {
    let events = *seen.get(sources::THROTTLE_EVENTS)?;
    Some(if events > 0.0 {
        let text =
            format!("processors were slowed down {events:.0} times because they are too hot");
        finding(
            "heat",
            State::Warning,
            text,
            "let the machine cool down, or improve its cooling",
        )
    } else {
        finding("heat", State::Ok, "no processor was slowed down", "")
    })
}

/// Lists the sources that a run will watch here. A source that the machine lacks is not a defect.
fn watched(place: &Watched<'_>) -> Finding {
    let (mut can, mut cannot) = (Vec::new(), Vec::new());
    for source in watch::REGISTRY
        .iter()
        .filter(|source| source.name() != "device")
    {
        match source.probe(place) {
            Ok(()) => can.push(source.name().to_owned()),
            Err(why) => cannot.push(format!("{} ({why})", source.name())),
        }
    }
    let not = if cannot.is_empty() {
        String::new()
    } else {
        format!("; not {}", cannot.join(", "))
    };
    finding(
        "trials watched",
        State::Ok,
        format!("{}{not}", can.join(", ")),
        "",
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

// Jobs that cron or systemd will start soon.

/// The time window in minutes. A run takes minutes, a long one an hour.
const WITHIN_MINUTES: u32 = 60;
/// The largest number of jobs that a finding names.
const NAMED_JOBS: usize = 3;
/// Names of programs that run cron's tables.
const DAEMONS: [&str; 4] = ["cron", "crond", "fcron", "cronie"];

/// Returns findings about jobs that start within the hour.
fn soon(roots: &Roots) -> Vec<Finding> {
    let now = seconds_now();
    let minutes: Vec<Minute> = (1..=WITHIN_MINUTES)
        .map(|ahead| local(now + i64::from(ahead) * 60))
        .collect();
    let running = sources::read_processes(roots)
        .iter()
        .any(|process| DAEMONS.contains(&process.name.as_str()));
    let mut findings = vec![cron_jobs(Path::new("/"), running, &minutes)];
    findings.extend(timers(
        Path::new("/run/systemd/system").exists(),
        now,
        &|| {
            program::ask(
                "systemctl",
                &["list-timers", "--output=json", "--no-pager"].map(std::ffi::OsStr::new),
            )
        },
    ));
    findings
}

fn cron_jobs(root: &Path, running: bool, minutes: &[Minute]) -> Finding {
    let topic = "cron jobs";
    if !running {
        return finding(topic, State::Ok, "no cron is running", "");
    }
    let mut due: Vec<(usize, String)> = Vec::new();
    for (file, user) in tables(root) {
        let Ok(table) = std::fs::read_to_string(root.join(&file)) else {
            continue;
        };
        for job in jobs(&table, user) {
            if let Some(ahead) = minutes.iter().position(|minute| job.runs_at(*minute)) {
                due.push((ahead, told(&job, minutes[ahead], &file)));
            }
        }
    }
    due.sort();
    let named: Vec<String> = due.into_iter().map(|(_, text)| text).collect();
    tell(
        topic,
        &named,
        "measure at another time, or stop cron for the run",
    )
}

/// Returns the system's tables, whose lines name a user, and the tables of users, which only root
/// can read.
fn tables(root: &Path) -> Vec<(PathBuf, bool)> {
    let mut tables = vec![(PathBuf::from("etc/crontab"), true)];
    for (directory, user) in [
        ("etc/cron.d", true),
        ("var/spool/cron/crontabs", false),
        ("var/spool/cron", false),
    ] {
        let entries = std::fs::read_dir(root.join(directory))
            .into_iter()
            .flatten()
            .flatten();
        let files = entries
            .filter(|entry| entry.path().is_file())
            .map(|entry| Path::new(directory).join(entry.file_name()));
        tables.extend(files.map(|file| (file, user)));
    }
    tables.sort();
    tables
}

fn told(job: &Job, at: Minute, file: &Path) -> String {
    const LONGEST: usize = 40;
    let mut command: String = job.command.chars().take(LONGEST).collect();
    if command.len() < job.command.len() {
        command.push('…');
    }
    format!(
        "{:02}:{:02} '{command}' (/{})",
        at.hour,
        at.minute,
        file.display()
    )
}

fn tell(topic: &str, due: &[String], advice: &str) -> Finding {
    match due {
        [] => finding(topic, State::Ok, "none starts within the hour", ""),
        _ => {
            let more = due.len().saturating_sub(NAMED_JOBS);
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            let text = format!(
                "within the hour: {}{more}",
                due[..due.len().min(NAMED_JOBS)].join(", ")
            );
            finding(topic, State::Warning, text, advice)
        }
    }
}

/// An entry of `systemctl list-timers --output=json`. Times are in microseconds since 1970.
#[derive(Deserialize)]
struct Timer {
    next: Option<i64>,
    unit: String,
    activates: Option<String>,
}

fn timers(booted: bool, now: i64, ask: &dyn Fn() -> Option<String>) -> Option<Finding> {
    const TOPIC: &str = "systemd timers";
    // Otherwise systemd does not run, even if it is installed.
    if !booted {
        return None;
    }
    let unknown = || {
        finding(
            TOPIC,
            State::Ok,
            "systemctl cannot list timers (version 249 can)",
            "",
        )
    };
    let Some(list) = ask().and_then(|text| serde_json::from_str::<Vec<Timer>>(&text).ok()) else {
        return Some(unknown());
    };
    let limit = now + i64::from(WITHIN_MINUTES) * 60;
    let mut due: Vec<(i64, String)> = list
        .into_iter()
        .filter_map(|timer| {
            let at = timer
                .next
                .map(|next| next / 1_000_000)
                .filter(|at| (now..=limit).contains(at))?;
            let what = timer.activates.unwrap_or(timer.unit);
            Some((at, format!("{what} in {} min", (at - now) / 60)))
        })
        .collect();
    due.sort();
    let named: Vec<String> = due.into_iter().map(|(_, text)| text).collect();
    Some(tell(
        TOPIC,
        &named,
        "measure at another time, or stop them for the run (systemctl stop NAME.timer)",
    ))
}

fn seconds_now() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

fn local(seconds: i64) -> Minute {
    let broken = fsb_sys::local_time(seconds);
    Minute {
        minute: broken.tm_min as u32,
        hour: broken.tm_hour as u32,
        day: broken.tm_mday as u32,
        month: broken.tm_mon as u32 + 1,
        weekday: broken.tm_wday as u32,
    }
}

/// A minute of local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Minute {
    pub minute: u32,
    pub hour: u32,
    /// From 1.
    pub day: u32,
    /// From 1.
    pub month: u32,
    /// 0 is Sunday.
    pub weekday: u32,
}

/// A line of a table.
///
/// See crontab(5).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// The command, without the user.
    pub command: String,
}

/// A set of allowed values, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// Whether it was written as `*`, which makes days and weekdays no restriction.
    any: bool,
}

impl Set {
    fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }
}

impl Job {
    /// Returns whether the job starts in this minute. If days and weekdays are both restricted,
    /// either suffices.
    fn runs_at(&self, now: Minute) -> bool {
        let (day, weekday) = (self.days.has(now.day), self.weekdays.has(now.weekday));
        let today = if self.days.any || self.weekdays.any {
            day && weekday
        } else {
            day || weekday
        };
        self.minutes.has(now.minute)
            && self.hours.has(now.hour)
            && self.months.has(now.month)
            && today
    }
}

/// Parses the jobs of a table. `user` is true if each line names a user, as in /etc/crontab. Skips
/// lines that are not jobs.
fn jobs(table: &str, user: bool) -> Vec<Job> {
    table
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| job(line, user))
        .collect()
}

fn job(line: &str, user: bool) -> Option<Job> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let fields: Vec<&str> = match first {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ if first.starts_with('@') => return None,
        _ => "",
    }
    .split_whitespace()
    .collect();
    let fields = if fields.is_empty() {
        std::iter::once(first)
            .chain(words.by_ref().take(4))
            .collect()
    } else {
        fields
    };
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        return None;
    };
    let mut weekdays = set(weekdays, 0, 7, "sun mon tue wed thu fri sat")?;
    // Sunday is 0 and 7.
    weekdays.bits |= weekdays.bits >> 7 & 1;
    if user {
        words.next()?;
    }
    let command = words.collect::<Vec<_>>().join(" ");
    let months = set(
        months,
        1,
        12,
        "- jan feb mar apr may jun jul aug sep oct nov dec",
    )?;
    let (minutes, hours, days) = (
        set(minutes, 0, 59, "")?,
        set(hours, 0, 23, "")?,
        set(days, 1, 31, "")?,
    );
    (!command.is_empty()).then_some(Job {
        minutes,
        hours,
        days,
        months,
        weekdays,
        command,
    })
}

/// Parses `*`, `5`, `1-5`, `*/15`, `10-40/10`, names, and lists of these.
fn set(text: &str, least: u32, most: u32, names: &str) -> Option<Set> {
    let number = |text: &str| {
        text.parse()
            .ok()
            .or_else(|| {
                names
                    .split(' ')
                    .position(|name| name.eq_ignore_ascii_case(text))
                    .map(|place| place as u32)
            })
            .filter(|number| (least..=most).contains(number))
    };
    let mut bits = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        for value in (first..=last).step_by(step) {
            bits |= 1 << value;
        }
    }
    Some(Set {
        bits,
        any: text.starts_with('*'),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::{Action, Owner};

    #[test]
    fn every_control_is_looked_at() {
        let findings = examine(Path::new("/"));
        let topics: Vec<_> = findings
            .iter()
            .map(|finding| finding.topic.as_str())
            .collect();
        for member in control::REGISTRY {
            assert!(topics.contains(&member.name()), "{}", member.name());
        }
        for finding in &findings {
            assert!(
                !finding.text.is_empty() && !finding.text.contains('\n'),
                "{finding:?}"
            );
            let is_fine = matches!(finding.state, State::Ok | State::Absent);
            assert!(is_fine || !finding.advice.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn directories_without_a_disk_are_said() {
        assert_eq!(
            image_directory(Path::new("/nonexistent")).state,
            State::Missing
        );
        assert!(!image_directory(Path::new("/")).text.is_empty());
    }

    #[test]
    fn only_a_battery_of_the_machine_that_empties_is_a_warning() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert_eq!(battery(&roots), None);
        let supply = |name: &str, files: &[(&str, &str)]| {
            let directory = tree.path().join("class/power_supply").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            for (file, text) in files {
                std::fs::write(directory.join(file), text).unwrap();
            }
        };
        supply("AC", &[("type", "Mains\n"), ("online", "0\n")]);
        supply(
            "mouse",
            &[
                ("type", "Battery\n"),
                ("scope", "Device\n"),
                ("status", "Discharging\n"),
            ],
        );
        assert_eq!(battery(&roots), None);
        supply(
            "BAT0",
            &[
                ("type", "Battery\n"),
                ("status", "Full\n"),
                ("capacity", "100\n"),
            ],
        );
        assert_eq!(battery(&roots).unwrap().state, State::Ok);
        supply("BAT0", &[("status", "Discharging\n"), ("capacity", "41\n")]);
        let found = battery(&roots).unwrap();
        assert_eq!(found.state, State::Warning);
        assert!(found.text.contains("BAT0, 41 % left"), "{found:?}");
    }

    #[test]
    fn settings_of_a_running_fsb_are_reported() {
        let action = Action::WriteFile {
            path: "/sys/x".into(),
            value: "1".to_owned(),
        };
        let owner = Owner {
            pid: 7,
            start_time: 1,
        };
        let entry = Entry {
            boot_id: "b".to_owned(),
            owner,
            control: Some("dirty-ratio".to_owned()),
            action,
        };
        let control = control::find("dirty-ratio").unwrap();
        let found = look(
            control,
            &TargetDevice::default(),
            &[entry],
            &Roots::default(),
        );
        assert!(
            found.text.starts_with("set by a running fsb (process 7): "),
            "{found:?}"
        );
        assert_eq!(found.state, State::Ok);
        let found = look(control, &TargetDevice::default(), &[], &Roots::default());
        assert!(found.text.contains("available: "), "{found:?}");
    }

    #[test]
    fn missing_features_are_reported_with_their_reason() {
        let nothing = Roots {
            proc: "/nonexistent".into(),
            sys: "/nonexistent".into(),
        };
        let found = look(
            control::find("governor").unwrap(),
            &TargetDevice::default(),
            &[],
            &nothing,
        );
        assert!(found.text.starts_with("no cpufreq"), "{found:?}");
        assert_eq!(
            (found.state, &found.advice[..]),
            (State::Absent, ""),
            "for every user: {found:?}"
        );
        let found = look(
            control::find("guest-memory").unwrap(),
            &TargetDevice::default(),
            &[],
            &nothing,
        );
        assert_eq!(
            (found.state, &found.advice[..]),
            (State::Ok, ""),
            "there is nothing to do: {found:?}"
        );
    }

    #[test]
    fn every_file_system_of_a_kernel_is_there_once() {
        let found = file_systems();
        for member in fs::REGISTRY {
            let count = found
                .iter()
                .filter(|support| support.name == member.name())
                .count();
            assert_eq!(
                count,
                usize::from(member.driver().is_some()),
                "{}",
                member.name()
            );
        }
    }

    #[test]
    fn a_missing_driver_is_not_reported_as_a_missing_program() {
        let roots = Roots {
            proc: "/nonexistent".into(),
            sys: "/nonexistent".into(),
        };
        let found = support(fs::find("tmpfs").unwrap(), &roots).unwrap();
        assert!(!found.driver && found.programs.is_none() && !found.is_here());
    }

    fn seen(values: &[(&str, f64)]) -> Seen {
        values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    }

    #[test]
    fn neighbours_are_named_the_busiest_first() {
        let hertz = rustix::param::clock_ticks_per_second();
        let busiest = [
            ("cc1".to_owned(), 10 * hertz),
            ("sshd".to_owned(), hertz / 10),
            ("init".to_owned(), 1),
        ];
        let time = Duration::from_secs(10);
        let busy = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (sources::OTHERS_SECONDS, 10.1),
        ]);
        let found = processors(&busy, &busiest, time);
        assert_eq!(found.state, State::Warning);
        assert!(
            found
                .text
                .starts_with("50.5 % of the CPU time in 10 s: cc1 50.0 %, sshd 0.5 %"),
            "{found:?}"
        );
        assert!(
            !found.text.contains("init") && !found.advice.is_empty(),
            "{found:?}"
        );
        let quiet = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (sources::OTHERS_SECONDS, 0.1),
        ]);
        assert_eq!(processors(&quiet, &busiest, time).state, State::Ok);
    }

    #[test]
    fn steal_the_disk_pressure_and_heat_are_told_with_what_to_do() {
        let time = Duration::from_secs(10);
        let bad = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (sources::STEAL_SECONDS, 0.6),
            ("pressure_io_seconds", 3.0),
            (sources::THROTTLE_EVENTS, 2.0),
        ]);
        let disk = use_of_disk(Path::new("/sys/block/sda"), 5e6, Path::new("/data"));
        assert!(
            disk.text.starts_with("sda, under /data, moves 4.77 MiB/s"),
            "{disk:?}"
        );
        for found in [
            stolen(&bad).unwrap(),
            pressure(&bad, time).unwrap(),
            heat(&bad).unwrap(),
            disk,
        ] {
            assert!(
                found.state == State::Warning && !found.advice.is_empty(),
                "{found:?}"
            );
        }
        let good = seen(&[
            (AVAILABLE_CPU_SECONDS, 20.0),
            (sources::STEAL_SECONDS, 0.1),
            ("pressure_io_seconds", 0.1),
            (sources::THROTTLE_EVENTS, 0.0),
        ]);
        let disk = use_of_disk(Path::new("/sys/block/sda"), 1e4, Path::new("/data"));
        for found in [
            stolen(&good).unwrap(),
            pressure(&good, time).unwrap(),
            heat(&good).unwrap(),
            disk,
        ] {
            assert!(
                found.state == State::Ok && found.advice.is_empty(),
                "{found:?}"
            );
        }
    }

    #[test]
    fn this_machine_is_listened_to() {
        let found = listen(Path::new("/"), Duration::from_millis(50));
        for topic in ["other processes", "disk", "trials watched"] {
            assert!(
                found.iter().any(|finding| finding.topic == topic),
                "{topic} in {found:?}"
            );
        }
    }

    #[test]
    fn jobs_of_all_tables_are_found_the_next_first() {
        let tree = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = tree.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "etc/crontab",
            "30 * * * * root updatedb\n0 3 * * * root later\n",
        );
        write(
            "etc/cron.d/backup",
            "20 15 * * * root /usr/local/bin/a-backup-with-a-name-that-is-far-too-long\n",
        );
        write("var/spool/cron/crontabs/joe", "*/5 * * * * poll\n");
        let minutes: Vec<Minute> = (17..60)
            .map(|minute| Minute {
                minute,
                hour: 15,
                day: 21,
                month: 11,
                weekday: 4,
            })
            .collect();
        let found = cron_jobs(tree.path(), true, &minutes);
        assert_eq!(found.state, State::Warning);
        assert_eq!(
            found.text,
            "within the hour: 15:20 '/usr/local/bin/a-backup-with-a-name-that…' (/etc/cron.d/backup), \
         15:20 'poll' (/var/spool/cron/crontabs/joe), 15:30 'updatedb' (/etc/crontab)"
        );
        assert_eq!(
            cron_jobs(tree.path(), false, &minutes).text,
            "no cron is running"
        );
        assert_eq!(
            cron_jobs(Path::new("/nonexistent"), true, &minutes).state,
            State::Ok
        );
    }

    #[test]
    fn timers_are_read_as_systemctl_prints_them() {
        let text = r#"[{"next":1000600000000,"left":1,"last":null,"passed":0,"unit":"fstrim.timer","activates":"fstrim.service"},
            {"next":1009000000000,"unit":"logrotate.timer","activates":"logrotate.service"},
            {"next":null,"unit":"never.timer","activates":null}]"#;
        let found = timers(true, 1_000_000, &|| Some(text.to_owned())).unwrap();
        assert_eq!(
            (found.state, found.text.as_str()),
            (State::Warning, "within the hour: fstrim.service in 10 min")
        );
        assert_eq!(
            timers(true, 5, &|| Some("[]".to_owned())).unwrap().state,
            State::Ok
        );
        assert!(
            timers(true, 5, &|| None)
                .unwrap()
                .text
                .contains("cannot list timers")
        );
        assert_eq!(timers(false, 5, &|| panic!("asked")), None);
    }

    #[test]
    fn now_is_a_minute() {
        let now = local(seconds_now());
        assert!(
            now.minute < 60
                && now.hour < 24
                && (1..=31).contains(&now.day)
                && (1..=12).contains(&now.month),
            "{now:?}"
        );
    }

    /// Thursday, 21 November, 15:17.
    const NOW: Minute = Minute {
        minute: 17,
        hour: 15,
        day: 21,
        month: 11,
        weekday: 4,
    };

    fn runs(line: &str) -> bool {
        job(line, false)
            .unwrap_or_else(|| panic!("'{line}' is not a job"))
            .runs_at(NOW)
    }

    #[test]
    fn times_are_read_as_cron_reads_them() {
        for line in [
            "17 * * * * x",
            "*/17 * * * * x",
            "2-59/5 15 * * * x",
            "1,17,50 9-17 * * mon-fri x",
            "17 15 21 11 * x",
            "17 15 * NOV 4 x",
            "17 15 1 * thu x",
            "* * * * * x",
            "17 15 21 * 0 x",
        ] {
            assert!(runs(line), "{line}");
        }
        for line in [
            "18 * * * * x",
            "17 3 * * * x",
            "17 15 * * 7 x",
            "17 15 1 * * x",
            "17 15 1 * fri x",
            "@hourly x",
            "@daily x",
        ] {
            assert!(!runs(line), "{line}");
        }
        assert!(job("0 0 * * 7 x", false).unwrap().runs_at(Minute {
            minute: 0,
            hour: 0,
            weekday: 0,
            ..NOW
        }));
    }

    #[test]
    fn tables_hold_more_than_jobs() {
        let table = "# m h dom mon dow user command\nSHELL=/bin/sh\n\n17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly\n\
        @reboot root boot\n61 * * * * root never\n* * * * *\n";
        let found = jobs(table, true);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].command, "cd / && run-parts /etc/cron.hourly");
        assert_eq!(
            jobs("5 4 * * sun backup now", false)[0].command,
            "backup now"
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[-0-9*/,@a-z ]{0,40}") {
            let _ = jobs(&line, true);
        }
    }
}
