//! The memory limit of a trial, page cache included. It makes a file of 2 GiB larger than memory on
//! a machine of any size.
//!
//! A cgroup contains the steps of a trial, FUSE servers with them, and no other process. Without a
//! memory controller, a process locks all memory except the limit. Without a limit the control
//! creates no cgroup, because membership has its cost.

use std::str::FromStr;
use std::sync::Arc;

use fsb_model::units::{show_bytes, show_size};
use fsb_model::{Bytes, Warning};
use fsb_sys::ballast::{self, MemoryBallast, Unlocked};
use fsb_sys::cgroup::{self as place, Hierarchy, MEMORY};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, memory};

use super::interface::{Applied, Context, Control, KEEP, Scope, Stop, TargetDevice, Value};
use crate::declared::OptionKind;
use crate::ledger::Action;

pub use super::memory_hold::{Cgroup, MemoryHold};
pub use fsb_sys::cgroup::Version;

pub(super) struct MemoryLimit;

/// The name of the control, for code that reads its value.
pub const MEMORY_LIMIT: &str = "memory-limit";

/// The mechanism that can enforce a limit here.
enum Means {
    Cgroup(Hierarchy),
    Ballast,
}

/// Returns the bytes that a value of this control limits memory to. Returns `None` if the value
/// sets no limit or is invalid.
pub fn limit_of(value: &str) -> Option<u64> {
    value.parse::<Limit>().ok().map(|request| request.bytes)
}

/// Returns a value such as `512M:cgroup` with its bytes multiplied by `scale`. Returns `None` if
/// the value is not a limit.
pub fn scaled(value: &str, scale: f64) -> Option<String> {
    let request: Limit = value.parse().ok()?;
    let bytes = fsb_model::Bytes((request.bytes as f64 * scale) as u64 >> 12 << 12);
    let mechanism = value
        .split_once(':')
        .map(|(_, mechanism)| format!(":{mechanism}"))
        .unwrap_or_default();
    Some(format!("{bytes}{mechanism}"))
}

impl Control for MemoryLimit {
    fn name(&self) -> &'static str {
        MEMORY_LIMIT
    }

    fn about(&self) -> &'static str {
        "Memory that a trial may use, page cache included."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "no limit, and no cgroup (default)"),
                Value::form(
                    "SIZE",
                    OptionKind::Size(LEAST..=u64::MAX),
                    "a size, such as 512M: a cgroup, else a process that locks all other memory",
                ),
                Value::form(
                    "SIZE:cgroup",
                    OptionKind::Text("size, then :cgroup"),
                    "a cgroup or nothing",
                ),
                Value::form(
                    "SIZE:eater",
                    OptionKind::Text("size, then :eater"),
                    "a process that locks all other memory, as in 2011",
                ),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        if value == KEEP {
            return Ok(());
        }
        let wrong = |why: Refusal| {
            TestbedError::request(format!("control {MEMORY_LIMIT}={value}: {why}"))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice("write a size such as 512M, or keep")
        };
        let request: Limit = value.parse().map_err(wrong)?;
        request
            .check(memory::meminfo(roots, "MemTotal").unwrap_or(u64::MAX))
            .map_err(wrong)?;
        means(&request, roots)
            .map(drop)
            .map_err(|why| cannot(value, why))
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        let request = Limit {
            bytes: LEAST,
            mechanism: None,
        };
        means(&request, roots).map(drop)
    }

    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if value == KEEP {
            return Ok(Applied::so(self.observe(context.roots, context.place)));
        }
        let request: Limit = value.parse().map_err(|why: Refusal| cannot(value, why))?;
        match means(&request, context.roots).map_err(|why| cannot(value, why))? {
            Means::Cgroup(hierarchy) => set_cgroup(value, request.bytes, hierarchy, context),
            Means::Ballast => set_ballast(value, request.bytes, context),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        match action {
            Action::RemoveCgroup { path } => place::is_below(path, roots) && place::is_own(path),
            Action::WriteFile { path, .. } => *path == place::switch(roots),
            _ => false,
        }
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let total = memory::meminfo(roots, "MemTotal").map(|bytes| show_bytes(bytes as f64));
        let total = total.unwrap_or_else(|| "an unknown amount".to_owned());
        let means = match Hierarchy::find(roots, MEMORY) {
            Ok(hierarchy) => format!("{} could limit it", hierarchy.version.mechanism()),
            Err(_) => "no cgroup could limit it".to_owned(),
        };
        format!("no limit: {total} of memory; {means}")
    }
}

fn cannot(value: &str, why: Refusal) -> TestbedError {
    TestbedError::machine(format!("control {MEMORY_LIMIT}={value} is not available here")).tried(why).advice(
        "run as root where there is a memory controller, or leave the limit out and take files larger than memory",
    )
}

/// Returns the mechanism that can enforce the limit, or the reason why none can.
fn means(request: &Limit, roots: &Roots) -> Result<Means, Refusal> {
    if !rustix::process::geteuid().is_root() {
        return Err(Refusal::NeedsRoot("only root can limit memory".into()));
    }
    let cgroup = || {
        let hierarchy = Hierarchy::find(roots, MEMORY)?;
        hierarchy
            .allows(request.bytes)
            .map(|()| Means::Cgroup(hierarchy))
    };
    let ballast = || ballast::possible(request.bytes, roots).map(|()| Means::Ballast);
    match request.mechanism {
        Some(Mechanism::Cgroup) => cgroup(),
        Some(Mechanism::Ballast) => ballast(),
        None => cgroup().or_else(|first| {
            ballast().map_err(|second| format!("{first}; nor by locking memory: {second}").into())
        }),
    }
}

/// Converts a [`Stop`] into an error that ends the run, because the workload depends on the limit.
fn stopped(value: &str, stop: Stop) -> TestbedError {
    match stop {
        Stop::Lacks(why) => cannot(value, why),
        Stop::Failed(error) => error,
    }
}

/// Records the undo entry, then creates the cgroup.
fn set_cgroup(
    value: &str,
    bytes: u64,
    hierarchy: Hierarchy,
    context: &mut Context<'_>,
) -> Result<Applied, TestbedError> {
    if let Some(enable) = &hierarchy.enable {
        context
            .write_file(&enable.file, &enable.on, &enable.file, &enable.off)
            .map_err(|stop| stopped(value, stop))?;
    }
    let path = place::unique_path(&hierarchy.parent, context.ledger.owner().pid);
    context
        .record(Action::RemoveCgroup { path: path.clone() })
        .map_err(|stop| stopped(value, stop))?;
    let cgroup = Cgroup::make(hierarchy.version, path, bytes)
        .map_err(|(file, error)| cannot(value, attempt("write to", &file, &error)))?;
    let observed = format!(
        "{}: {} in {}",
        hierarchy.version.mechanism(),
        show(bytes),
        cgroup.path.display()
    );
    context.held.memory = Some(MemoryHold::Cgroup(cgroup));
    Ok(Applied::so(observed))
}

fn set_ballast(
    value: &str,
    bytes: u64,
    context: &mut Context<'_>,
) -> Result<Applied, TestbedError> {
    // Clean pages need not be reclaimed one by one then. If they cannot be dropped, locking takes
    // longer.
    let _ = std::fs::write(context.roots.proc.join("sys/vm/drop_caches"), "3");
    let available = || memory::meminfo(context.roots, "MemAvailable");
    let ballast = MemoryBallast::start(bytes, &available, context.patience).map_err(|why| {
        let group = format!("{MEMORY_LIMIT}={}:cgroup", fsb_model::Bytes(bytes));
        let (why, advice) = match why {
            Unlocked::Slow(why) => (why, format!("use a larger --budget, or {group}")),
            Unlocked::Refused(why) => (why, format!("use {group}")),
        };
        TestbedError::machine(format!(
            "control {MEMORY_LIMIT}={value} is not available here"
        ))
        .tried(why)
        .advice(advice)
    })?;
    let (observed, near) = ballast.observed();
    let inexact = || Warning::ControlInexact {
        control: MEMORY_LIMIT.to_owned(),
        value: value.to_owned(),
        observed: observed.clone(),
    };
    let warnings = if near { Vec::new() } else { vec![inexact()] };
    context.held.memory = Some(MemoryHold::Ballast(Arc::new(ballast)));
    Ok(Applied {
        effective: near,
        observed,
        warnings,
        memory: None,
    })
}

fn show(bytes: u64) -> String {
    show_bytes(bytes as f64)
}

/// The smallest limit in bytes, which leaves room for a worker's own memory.
pub const LEAST: u64 = 16 << 20;

/// A mechanism that enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    /// A cgroup with a memory controller.
    Cgroup,
    /// A process that locks all other memory.
    Ballast,
}

/// A requested limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    pub bytes: u64,
    /// The requested mechanism. `None` if any will do.
    pub mechanism: Option<Mechanism>,
}

impl FromStr for Limit {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Limit, Refusal> {
        let (size, mechanism) = match text.split_once(':') {
            None => (text, None),
            Some((size, "cgroup")) => (size, Some(Mechanism::Cgroup)),
            Some((size, "eater")) => (size, Some(Mechanism::Ballast)),
            Some((_, other)) => {
                return Err(
                    format!("'{other}' holds no memory: write SIZE:cgroup or SIZE:eater").into(),
                );
            }
        };
        let Bytes(bytes) = size
            .parse()
            .map_err(|error: fsb_model::units::UnitError| error.to_string())?;
        Ok(Limit { bytes, mechanism })
    }
}

impl Limit {
    /// Checks that a machine with this much memory can have the limit.
    fn check(&self, memory: u64) -> Result<(), Refusal> {
        if self.bytes < LEAST {
            return Err(format!(
                "{} are too little: at least {}",
                show_size(self.bytes),
                show_size(LEAST)
            )
            .into());
        }
        if self.bytes > memory {
            return Err(format!(
                "{} are more than this machine has ({})",
                show_size(self.bytes),
                show_size(memory)
            )
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Requests for a limit, cgroups of version 2 on simulated trees, and cgroups of version 1 on
    //! this kernel if it has them.

    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use fsb_sys::cgroup::PROCESSES;
    use proptest::prelude::*;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine(membership: &str) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::below(tree.path());
        write(&roots.proc.join("self/cgroup"), membership);
        (tree, roots)
    }

    #[test]
    fn without_a_memory_controller_no_cgroup_is_offered() {
        let (_tree, roots) = machine("0::/\n");
        assert!(
            Hierarchy::find(&roots, MEMORY)
                .unwrap_err()
                .to_string()
                .contains("neither")
        );
        // A unified hierarchy that has only other controllers does not work either.
        write(
            &roots.sys.join("fs/cgroup/cgroup.controllers"),
            "cpu pids\n",
        );
        assert!(Hierarchy::find(&roots, MEMORY).is_err());
        write(
            &roots.sys.join("fs/cgroup/cgroup.subtree_control"),
            "pids\n",
        );
        assert_eq!(
            Hierarchy::find(&roots, PROCESSES).unwrap().version,
            Version::V2
        );
    }

    #[test]
    fn of_version_2_the_nearest_cgroup_that_hands_memory_down_is_the_place() {
        let (_tree, roots) = machine("0::/user.slice/session.scope\n");
        let root = roots.sys.join("fs/cgroup");
        write(&root.join("cgroup.controllers"), "cpu memory pids\n");
        write(&root.join("cgroup.subtree_control"), "cpu pids\n");
        write(&root.join("user.slice/cgroup.subtree_control"), "\n");
        write(&root.join("user.slice/session.scope/cgroup.procs"), "1\n");
        let found = Hierarchy::find(&roots, MEMORY).unwrap();
        assert_eq!(
            (found.version, &found.parent),
            (Version::V2, &root),
            "no group hands it down: the root can"
        );
        let enable = found.enable.unwrap();
        assert_eq!(
            (enable.file, enable.on, enable.off),
            (
                root.join("cgroup.subtree_control"),
                "+memory".to_owned(),
                "-memory".to_owned()
            )
        );

        write(&root.join("user.slice/cgroup.subtree_control"), "memory\n");
        let found = Hierarchy::find(&roots, MEMORY).unwrap();
        assert_eq!(
            (found.parent, found.enable.is_none()),
            (root.join("user.slice"), true)
        );
    }

    #[test]
    fn of_version_1_our_own_cgroup_is_the_place_where_we_see_it() {
        let (_tree, roots) = machine("4:memory,hugetlb:/docker/abc\n0::/\n");
        let root = roots.sys.join("fs/cgroup/memory");
        write(&root.join("cgroup.procs"), "1\n");
        assert_eq!(
            Hierarchy::find(&roots, MEMORY).unwrap().parent,
            root,
            "a container sees another path"
        );
        write(&root.join("docker/abc/cgroup.procs"), "1\n");
        let found = Hierarchy::find(&roots, MEMORY).unwrap();
        assert_eq!(
            (found.version, found.parent.clone()),
            (Version::V1, root.join("docker/abc"))
        );

        write(&root.join("memory.limit_in_bytes"), "9223372036854771712\n");
        write(
            &root.join("docker/memory.limit_in_bytes"),
            &(100 << 20).to_string(),
        );
        assert_eq!(found.allows(100 << 20), Ok(()));
        assert!(
            found
                .allows(101 << 20)
                .unwrap_err()
                .to_string()
                .contains("has a limit of 100 MiB")
        );
    }

    #[test]
    fn the_files_of_cgroup_version_2_are_read() {
        let (_tree, roots) = machine("0::/\n");
        let path = roots.sys.join("fs/cgroup/fsb-1");
        for (file, text) in [
            ("memory.peak", "33554432\n"),
            ("memory.stat", "anon 10\nfile 30000000\n"),
            (
                "memory.events",
                "low 0\nhigh 0\nmax 17\noom 0\noom_kill 1\n",
            ),
            ("memory.reclaim", ""),
            ("cgroup.procs", ""),
        ] {
            write(&path.join(file), text);
        }
        let cgroup = Cgroup {
            version: Version::V2,
            path: path.clone(),
            limit: 32 << 20,
        };
        let usage = cgroup.usage();
        assert_eq!(
            (usage.mechanism.as_str(), usage.limit_bytes),
            ("cgroup v2", 32 << 20)
        );
        assert_eq!(
            (usage.peak_bytes, usage.cache_bytes),
            (Some(32 << 20), Some(30_000_000))
        );
        assert_eq!((usage.reached, usage.oom_kills), (Some(true), Some(1)));
        cgroup.add(77).unwrap();
        assert_eq!(fs::read_to_string(path.join("cgroup.procs")).unwrap(), "77");
        // A directory that cannot be removed simulates a cgroup with a FUSE server in it. It is
        // emptied in place.
        cgroup.empty().unwrap();
        assert_eq!(
            fs::read_to_string(path.join("memory.reclaim")).unwrap(),
            (32 << 20).to_string()
        );
    }

    /// Returns a hierarchy of version 1 on this machine, if there is one.
    fn real() -> Option<Hierarchy> {
        const TESTS: &str = "what a real cgroup holds";
        if !fsb_testkit::root_for(TESTS) {
            return None;
        }
        let found = Hierarchy::find(&Roots::default(), MEMORY)
            .ok()
            .filter(|found| found.version == Version::V1);
        if found.is_none() {
            fsb_testkit::left_out(TESTS, "needs version 1 of cgroups, with memory");
        }
        found
    }

    #[test]
    fn a_real_cgroup_holds_what_is_in_it_and_is_emptied() {
        let Some(place) = real() else { return };
        let path = place
            .parent
            .join(format!("fsb-test-{}", std::process::id()));
        let cgroup = Cgroup::make(Version::V1, path.clone(), 32 << 20).unwrap();
        assert_eq!(
            Cgroup::make(Version::V1, path.clone(), 32 << 20)
                .unwrap_err()
                .1
                .kind(),
            std::io::ErrorKind::AlreadyExists
        );
        // Four times the limit goes through the page cache of a process in the cgroup. Each piece
        // is written out at once, because version 1 kills a process that has more dirty pages than
        // fit.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let script = format!(
            "echo 0 > {} && exec dd if=/dev/zero of={}/file bs=1M count=128 oflag=dsync status=none",
            cgroup.processes().display(),
            directory.path().display()
        );
        assert!(
            Command::new("sh")
                .args(["-c", &script])
                .status()
                .unwrap()
                .success()
        );
        let usage = cgroup.usage();
        assert_eq!(usage.reached, Some(true), "{usage:?}");
        assert!(
            usage.peak_bytes.unwrap() <= 32 << 20 && usage.peak_bytes.unwrap() > 24 << 20,
            "{usage:?}"
        );
        assert_eq!(
            (usage.mechanism.as_str(), usage.oom_kills),
            ("cgroup v1", Some(0))
        );
        cgroup.empty().unwrap();
        let usage = cgroup.usage();
        assert_eq!(usage.reached, Some(false), "{usage:?}");
        assert!(
            usage.cache_bytes.unwrap() < 4 << 20 && usage.peak_bytes.unwrap() < 8 << 20,
            "{usage:?}"
        );
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_refused_limit_leaves_nothing() {
        let Some(place) = real() else { return };
        let path = place
            .parent
            .join(format!("fsb-none-{}/below", std::process::id()));
        assert!(Cgroup::make(Version::V1, path.clone(), 32 << 20).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn processes_of_the_same_number_share_no_cgroup() {
        let parent = Path::new("/sys/fs/cgroup");
        let paths = [place::unique_path(parent, 7), place::unique_path(parent, 7)];
        assert_ne!(paths[0], paths[1]);
        assert!(paths.iter().all(|path| place::is_own(path)));
    }

    #[test]
    fn a_size_and_who_holds_it() {
        let request = |text: &str| text.parse::<Limit>();
        assert_eq!(
            request("512M"),
            Ok(Limit {
                bytes: 512 << 20,
                mechanism: None
            })
        );
        assert_eq!(
            request("1g:cgroup"),
            Ok(Limit {
                bytes: 1 << 30,
                mechanism: Some(Mechanism::Cgroup)
            })
        );
        assert_eq!(
            request("64M:eater"),
            Ok(Limit {
                bytes: 64 << 20,
                mechanism: Some(Mechanism::Ballast)
            })
        );
        for text in [
            "",
            "half",
            "512M:",
            "512M:cat",
            "-1",
            ":eater",
            "9999999999999G",
        ] {
            assert!(request(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absurd_limits_are_refused() {
        let check = |bytes| {
            Limit {
                bytes,
                mechanism: None,
            }
            .check(1 << 30)
        };
        assert_eq!(check(LEAST), Ok(()));
        assert_eq!(check(1 << 30), Ok(()));
        assert!(
            check(LEAST - 1)
                .unwrap_err()
                .to_string()
                .contains("too little")
        );
        assert!(
            check(2 << 30)
                .unwrap_err()
                .to_string()
                .contains("more than this machine has (1.00 GiB)")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9kmgt:a-z-]{0,12}") {
            let _ = text.parse::<Limit>();
        }
    }
}
