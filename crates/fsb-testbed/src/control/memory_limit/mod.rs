//! The memory limit of a trial, page cache included. It makes a file of 2 GiB larger than memory on a machine of any
//! size.
//!
//! A cgroup contains the steps of a trial, FUSE servers with them, and no other process. Without a memory controller, a
//! process locks all memory except the limit. Without a limit the control creates no cgroup, because membership has its
//! cost.

mod hold;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use fsb_model::units::show_bytes;
use fsb_model::{Bytes, Warning};

use super::interface::{Applied, Context, Control, KEEP, Scope, Stop, TargetDevice, Value};
use crate::declared::OptionKind;
use crate::ledger::Action;
use fsb_sys::ballast::{self, MemoryBallast};
pub use fsb_sys::cgroup::Version;
use fsb_sys::cgroup::{self as place, Hierarchy, MEMORY};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, memory};
pub use hold::{Cgroup, MemoryHold};

pub(super) struct MemoryLimit;

/// The name of the control, for code that reads its value.
pub const MEMORY_LIMIT: &str = "memory-limit";

/// The mechanism that can enforce a limit here.
enum Means {
    Cgroup(Hierarchy),
    Ballast,
}

/// Returns the bytes that a value of this control limits memory to. Returns `None` if the value sets no limit or is
/// invalid.
pub fn limit_of(value: &str) -> Option<u64> {
    value.parse::<Limit>().ok().map(|request| request.bytes)
}

/// Returns a value such as `512M:cgroup` with its bytes multiplied by `scale`. Returns `None` if the value is not a
/// limit.
pub fn scaled(value: &str, scale: f64) -> Option<String> {
    let request: Limit = value.parse().ok()?;
    let bytes = fsb_model::Bytes((request.bytes as f64 * scale) as u64 >> 12 << 12);
    let mechanism = value.split_once(':').map(|(_, mechanism)| format!(":{mechanism}")).unwrap_or_default();
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
        Scope::Visit
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
                Value::form("SIZE:cgroup", OptionKind::Text("size, then :cgroup"), "a cgroup or nothing"),
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
        request.check(memory::meminfo(roots, "MemTotal").unwrap_or(u64::MAX)).map_err(wrong)?;
        means(&request, roots).map(drop).map_err(|why| cannot(value, why))
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        let request = Limit { bytes: LEAST, mechanism: None };
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
        return Err("only root can limit memory".into());
    }
    let cgroup = || {
        let hierarchy = Hierarchy::find(roots, MEMORY)?;
        hierarchy.allows(request.bytes).map(|()| Means::Cgroup(hierarchy))
    };
    let ballast = || ballast::possible(request.bytes, roots).map(|()| Means::Ballast);
    match request.mechanism {
        Some(Mechanism::Cgroup) => cgroup(),
        Some(Mechanism::Ballast) => ballast(),
        None => cgroup()
            .or_else(|first| ballast().map_err(|second| format!("{first}; nor by locking memory: {second}").into())),
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
    let refused = |(file, error): (PathBuf, std::io::Error)| cannot(value, attempt("write to", &file, &error));
    if let Some(enable) = &hierarchy.enable {
        context.write_file(&enable.file, &enable.on, &enable.file, &enable.off).map_err(|stop| stopped(value, stop))?;
    }
    let path = place::free_name(&hierarchy.parent, context.ledger.owner().pid);
    context.record(Action::RemoveCgroup { path: path.clone() }).map_err(|stop| stopped(value, stop))?;
    let cgroup = Cgroup::make(hierarchy.version, path, bytes).map_err(refused)?;
    let observed = format!("{}: {} in {}", hierarchy.version.mechanism(), show(bytes), cgroup.path.display());
    context.held.memory = Some(MemoryHold::Cgroup(cgroup));
    Ok(Applied::so(observed))
}

fn set_ballast(value: &str, bytes: u64, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
    // Clean pages need not be reclaimed one by one then. If they cannot be dropped, locking takes longer.
    let _ = std::fs::write(context.roots.proc.join("sys/vm/drop_caches"), "3");
    let ballast = MemoryBallast::start(bytes, &|| memory::meminfo(context.roots, "MemAvailable"))
        .map_err(|why| cannot(value, why))?;
    let (observed, near) = ballast.observed();
    let inexact = || Warning::ControlInexact {
        control: MEMORY_LIMIT.to_owned(),
        value: value.to_owned(),
        observed: observed.clone(),
    };
    let warnings = if near { Vec::new() } else { vec![inexact()] };
    context.held.memory = Some(MemoryHold::Ballast(Arc::new(ballast)));
    Ok(Applied { effective: near, observed, warnings, memory: None })
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
                return Err(format!("'{other}' holds no memory: write SIZE:cgroup or SIZE:eater").into());
            }
        };
        let Bytes(bytes) = size.parse().map_err(|error: fsb_model::units::UnitError| error.to_string())?;
        Ok(Limit { bytes, mechanism })
    }
}

impl Limit {
    /// Checks that a machine with this much memory can have the limit.
    fn check(&self, memory: u64) -> Result<(), Refusal> {
        let show = |bytes: u64| show_bytes(bytes as f64);
        if self.bytes < LEAST {
            return Err(format!("{} are too little: at least {}", show(self.bytes), show(LEAST)).into());
        }
        if self.bytes > memory {
            return Err(format!("{} are more than this machine has ({})", show(self.bytes), show(memory)).into());
        }
        Ok(())
    }
}
