//! The family of controls: host conditions that are set, observed and restored. One file a member, one line in
//! [`REGISTRY`].

mod active;
mod barriers;
mod boost;
mod check;
mod context;
mod cpus;
mod dirty;
mod governor;
mod guest_memory;
mod idle;
mod kernel_cpus;
mod list;
mod machine;
pub mod memory_limit;
mod numa;
mod page_cache;
mod read_ahead;
mod scheduler;
mod services;
mod swap;
#[cfg(test)]
pub(crate) mod testing;
mod wbt;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use fsb_model::Warning;
use fsb_model::nearest;
use fsb_model::run::MemoryTouched;

pub(crate) use active::ActiveControls;
pub(crate) use check::{check, check_place, check_target, value_of};
pub use context::{Context, Held, Stop, TargetDevice};
pub use idle::stay_awake;
pub use machine::Machine;
pub use numa::processors_left;
pub(crate) use page_cache::{PAGE_CACHE, cold_method};
pub(crate) use read_ahead::after_mount as set_read_ahead;

use crate::error::{Refusal, TestbedError};
use crate::ledger::{Action, EntryHandle, Ledger, Rules};
use crate::sys::Roots;

/// Every control that fsb has, in the order in which they are set.
pub static REGISTRY: &[&dyn Control] = &[
    &page_cache::PageCache,
    &services::Services,
    &swap::Swap,
    &governor::Governor,
    &boost::Boost,
    &idle::Idle,
    &dirty::DIRTY_RATIO,
    &dirty::DIRTY_BYTES,
    &dirty::DIRTY_BACKGROUND_RATIO,
    &dirty::DIRTY_BACKGROUND_BYTES,
    &dirty::DIRTY_EXPIRE,
    &dirty::DIRTY_WRITEBACK,
    &scheduler::Scheduler,
    &wbt::Wbt,
    // A change of the cache makes the kernel choose the read-ahead anew.
    &barriers::Barriers,
    &read_ahead::ReadAhead,
    &cpus::Cpus,
    &kernel_cpus::KernelCpus,
    &numa::Numa,
    &memory_limit::MemoryLimit,
    &guest_memory::GuestMemory,
];

/// The actions that the undo ledger accepts for each control.
pub const RULES: Rules = Rules(|name, action, roots| Ok(find(name)?.owns(action, roots)));

/// The value that leaves a condition as it is: the default of every control that is not needed for honest numbers.
pub const KEEP: &str = "keep";

/// How long a control holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// From before the media are made until the run ends: it concerns the whole machine.
    Run,
    /// From when a target's medium is taken, before it is formatted, until the target is taken down: it concerns the
    /// target's device, or the processes that measure. Targets of one run may differ in it.
    Visit,
}

/// A value that a control takes.
#[derive(Debug)]
pub struct Value {
    /// As in `--control NAME=VALUE`; in capitals where it stands for many: `SIZE`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

impl Value {
    /// Whether it is a form, such as `SIZE`.
    pub(crate) fn stands_for_many(&self) -> bool {
        self.name.chars().all(|c| c.is_ascii_uppercase() || ",…".contains(c))
    }
}

/// What setting a control did.
#[derive(Debug, Default)]
pub struct Applied {
    /// Whether what was asked for is now so.
    pub effective: bool,
    /// What was found and done, in words.
    pub observed: String,
    /// Conditions that the reader of the results must know.
    pub warnings: Vec<Warning>,
    /// The memory that was touched.
    pub memory: Option<MemoryTouched>,
}

impl Applied {
    /// It is as was asked; `observed` says how.
    pub fn so(observed: impl Into<String>) -> Applied {
        Applied { effective: true, observed: observed.into(), ..Applied::default() }
    }

    /// What came of setting `control` to `value`: what is observed now, or why it is not so.
    pub fn of(control: &str, value: &str, ended: Result<String, Stop>) -> Result<Applied, TestbedError> {
        match ended {
            Ok(observed) => Ok(Applied::so(observed)),
            Err(Stop::Lacks(why)) => Ok(Applied::unavailable(control, value, why)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// The machine lacks it, or refuses: that is recorded and said, never passed over.
    pub fn unavailable(control: &str, value: &str, why: impl fmt::Display) -> Applied {
        let reason = why.to_string();
        let observed = format!("not available: {reason}");
        let (control, value) = (control.to_owned(), value.to_owned());
        let warnings = vec![Warning::ControlUnavailable { control, value, reason }];
        Applied { effective: false, warnings, observed, memory: None }
    }
}

/// How a condition would disturb a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbance {
    /// What would happen.
    pub what: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

/// A host condition.
pub trait Control: Sync {
    /// Its name in plans and after `--control`.
    fn name(&self) -> &'static str;
    /// One line for 'fsb list controls'.
    fn about(&self) -> &'static str;
    /// How long it holds.
    fn scope(&self) -> Scope;
    /// The values it takes, the default first.
    fn values(&self) -> &'static [Value];
    /// Whether it takes `value`, asked before anything is changed. What makes no sense anywhere is a wrong request; what
    /// this machine cannot bear is the machine's. That it merely lacks the thing is no error: [`Control::set`] says so.
    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        let _ = roots;
        one_of(self.name(), self.values(), value)
    }
    /// Whether it takes `value` where a target will live, as far as that is there already. Only for [`Scope::Visit`].
    fn check_place(&self, value: &str, place: &TargetDevice, roots: &Roots) -> Result<(), TestbedError> {
        let _ = (value, place, roots);
        Ok(())
    }
    /// Whether it takes `value` beside all else that is asked for; called when `value` is not the default.
    fn check_beside(
        &self,
        value: &str,
        requested: &BTreeMap<String, String>,
        roots: &Roots,
    ) -> Result<(), TestbedError> {
        let _ = (value, requested, roots);
        Ok(())
    }
    /// Whether it can be set here; why not.
    fn probe(&self, roots: &Roots) -> Result<(), Refusal>;
    /// Sets it. Whatever the kernel would not restore is in the ledger ([`Context::record`]) before it changes. What
    /// the machine lacks is [`Applied::unavailable`].
    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError>;
    /// How the condition is now; of the device of `place`, where it concerns one.
    fn observe(&self, roots: &Roots, place: &TargetDevice) -> String;
    /// Whether `action` is a way back that this control itself records. The undo ledger carries out no other in its name,
    /// so whatever [`Control::set`] records must be one of these.
    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        let _ = (action, roots);
        false
    }
    /// Whether it acts on the target's device.
    fn concerns_device(&self) -> bool {
        false
    }
    /// How the condition as it is now would disturb a run; absent where it would not.
    fn disturbs(&self, roots: &Roots) -> Option<Disturbance> {
        let _ = roots;
        None
    }
    /// Undoes what [`Control::set`] did, the last change first. The answer holds what could not be undone.
    fn restore(&self, handles: Vec<EntryHandle>, ledger: &Ledger) -> Vec<String> {
        let undone = handles.into_iter().rev().map(|handle| ledger.undo(handle));
        undone.filter_map(Result::err).map(|error| error.to_string()).collect()
    }
}

/// The control of that name, or the nearest name.
pub fn find(name: &str) -> Result<&'static dyn Control, TestbedError> {
    REGISTRY.iter().copied().find(|control| control.name() == name).ok_or_else(|| {
        let names = REGISTRY.iter().map(|control| control.name());
        TestbedError::request(nearest::unknown("control", name, names))
            .coded(&fsb_model::error::UNKNOWN_CONTROL)
            .field("control", name)
            .advice("'fsb list controls' shows all")
    })
}

/// What the name of a control alone asks for: the value behind `keep`, where there is one that stands for itself.
pub fn value_of_name(name: &str) -> Result<&'static str, TestbedError> {
    let control = find(name)?;
    match control.values() {
        [default, usual, ..] if default.name == KEEP && !usual.stands_for_many() => Ok(usual.name),
        values => {
            let names: Vec<_> = values.iter().map(|value| value.name).collect();
            Err(TestbedError::request(format!("the control {name} needs a value"))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice(format!("write {name}=VALUE: {}", names.join(", "))))
        }
    }
}

/// Refuses what is not one of `values`: the check of controls that take nothing else.
pub(crate) fn one_of(control: &str, values: &[Value], value: &str) -> Result<(), TestbedError> {
    let names = values.iter().map(|value| value.name);
    if names.clone().any(|known| known == value) {
        return Ok(());
    }
    let what = format!("value of control {control}");
    Err(TestbedError::request(nearest::unknown(&what, value, names))
        .coded(&fsb_model::error::CONTROL_VALUE)
        .advice("'fsb list controls' shows what each takes"))
}

/// The members of a directory of /sys that are named `prefix` and a number, in the order of their numbers.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((number(&entry.path(), prefix)?, entry.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Whether [`numbered`] would find `path` if it were there.
pub(crate) fn is_numbered(path: &Path, directory: &Path, prefix: &str) -> bool {
    path.parent() == Some(directory) && number(path, prefix).is_some()
}

fn number(path: &Path, prefix: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()
}

/// Whether a file of /proc or /sys can be written; why not.
pub(crate) fn writable(path: &Path) -> Result<(), Refusal> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| crate::error::attempt("write to", path, &errno.into()))
}

/// Whether `action` writes to the file of some device below /sys/devices that `file` names.
pub(crate) fn is_device_setting(action: &Action, roots: &Roots, file: fn(&Path) -> PathBuf) -> bool {
    let Some(path) = action.written() else { return false };
    // DEVICE/queue/SETTING
    let device = path.ancestors().nth(2).filter(|device| device.starts_with(roots.sys.join("devices")));
    device.is_some_and(|device| file(device) == path)
}

/// Whether the settings of a device that is ours can be changed; why not.
pub(crate) fn device_settings() -> Result<(), Refusal> {
    let flags = rustix::fs::statvfs("/sys").map_err(|errno| errno.to_string())?.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("/sys is mounted read-only, as in containers".into());
    }
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err("only root may set up devices".into()) }
}

#[cfg(test)]
mod tests;
