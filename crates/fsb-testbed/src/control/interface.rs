//! The trait that every control implements, the types of its methods, and the context that a
//! control works with.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsb_model::run::MemoryTouched;
use fsb_model::{Warning, nearest};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, process, read_trimmed};
use serde::{Deserialize, Serialize};

use super::memory_hold::MemoryHold;
use crate::Progress;
use crate::declared::{OptionKind, OptionValue};
use crate::ledger::{Action, EntryHandle, Ledger};

/// The value that leaves a condition unchanged: the default of every control that measurements do
/// not need.
pub const KEEP: &str = "keep";

/// The part of a run for which a control is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// From before the media are made until the run ends: the control changes the whole machine.
    Run,
    /// From before a target is formatted until it is torn down: the control changes the target's
    /// device or the workers. Targets of one run may have different values.
    Target,
}

/// A value that a control takes.
#[derive(Debug)]
pub struct Value {
    /// As in `--control NAME=VALUE`; in capitals if it is a form such as `SIZE`.
    pub name: &'static str,
    /// The effect, in one line.
    pub about: &'static str,
    /// The kind of a form. `None` if the name itself is the value.
    pub kind: Option<OptionKind>,
}

impl Value {
    /// Returns a value that is written as its name.
    pub(crate) const fn word(name: &'static str, about: &'static str) -> Value {
        Value {
            name,
            about,
            kind: None,
        }
    }

    /// Returns a form, such as `SIZE`.
    pub(crate) const fn form(name: &'static str, kind: OptionKind, about: &'static str) -> Value {
        Value {
            name,
            about,
            kind: Some(kind),
        }
    }

    /// Returns whether it is a form, such as `SIZE`.
    pub(crate) fn stands_for_many(&self) -> bool {
        self.kind.is_some()
    }
}

/// Parses a value of a control by its table. Returns a word as text.
///
/// # Errors
///
/// If no word and no form of the table accepts it. The text is that of the first form.
pub(crate) fn parse(values: &[Value], text: &str) -> Result<OptionValue, Refusal> {
    if values
        .iter()
        .any(|value| value.kind.is_none() && value.name == text)
    {
        return Ok(OptionValue::Text(text.to_owned()));
    }
    let mut first = None;
    for kind in values.iter().filter_map(|value| value.kind.as_ref()) {
        match kind.parse(text) {
            Ok(value) => return Ok(value),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| "unknown value".into()))
}

/// Checks a value by the table of its control alone, without regard to the machine.
pub(crate) fn check_declared(control: &dyn Control, value: &str) -> Result<(), TestbedError> {
    check_value(control.name(), control.values(), value)
}

fn check_value(name: &str, values: &[Value], value: &str) -> Result<(), TestbedError> {
    if !values.iter().any(Value::stands_for_many) {
        return one_of(name, values, value);
    }
    match parse(values, value) {
        Ok(_) => Ok(()),
        Err(why) => {
            Err(invalid(name, value, why).advice("'fsb list controls' shows what each takes"))
        }
    }
}

/// Returns the error of a value that a control does not take.
pub(super) fn invalid(control: &str, value: &str, why: impl fmt::Display) -> TestbedError {
    TestbedError::request(format!("{control}={value}: {why}"))
        .coded(&fsb_model::error::CONTROL_VALUE)
}

/// The result of setting a control.
#[derive(Debug, Default)]
pub struct Applied {
    /// Whether the requested value is now in force.
    pub effective: bool,
    /// A description of the state found and of the change made.
    pub observed: String,
    /// Conditions that the reader of the results must know.
    pub warnings: Vec<Warning>,
    /// The memory that was touched.
    pub memory: Option<MemoryTouched>,
}

impl Applied {
    /// Returns the result for a requested value that is in force; `observed` describes it.
    pub fn so(observed: impl Into<String>) -> Applied {
        Applied {
            effective: true,
            observed: observed.into(),
            ..Applied::default()
        }
    }

    /// Returns the result of setting `control` to `value`: the observed state, or the reason why it
    /// is unavailable.
    pub fn new(
        control: &str,
        value: &str,
        ended: Result<String, Stop>,
    ) -> Result<Applied, TestbedError> {
        match ended {
            Ok(observed) => Ok(Applied::so(observed)),
            Err(Stop::Lacks(why)) => Ok(Applied::unavailable(control, value, why)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Returns the result for a value that the machine lacks or refuses. The warning is part of the
    /// record.
    pub fn unavailable(control: &str, value: &str, why: impl fmt::Display) -> Applied {
        let reason = why.to_string();
        let observed = format!("not available: {reason}");
        let (control, value) = (control.to_owned(), value.to_owned());
        let warnings = vec![Warning::ControlUnavailable {
            control,
            value,
            reason,
        }];
        Applied {
            effective: false,
            warnings,
            observed,
            memory: None,
        }
    }
}

/// A condition that would interfere with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleInterference {
    /// The effect on the run.
    pub what: &'static str,
    /// The advice to the user.
    pub advice: &'static str,
}

/// A host condition.
pub trait Control: Sync {
    /// Returns the name in plans and after `--control`.
    fn name(&self) -> &'static str;
    /// Returns one line for 'fsb list controls'.
    fn about(&self) -> &'static str;
    /// Returns the part of a run for which it is set.
    fn scope(&self) -> Scope;
    /// Returns the values it takes, the default first.
    fn values(&self) -> &'static [Value];
    /// Returns the control that cannot be set together with it.
    fn excludes(&self) -> Option<&'static str> {
        None
    }
    /// Checks `value` before anything is changed. A value that is invalid everywhere is a wrong
    /// request; one that would harm this machine is an error of the machine. A missing feature is
    /// not an error: [`Control::set`] reports it.
    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        let _ = roots;
        check_value(self.name(), self.values(), value)
    }
    /// Checks `value` for the device of a target, as far as it already exists. Only for
    /// [`Scope::Target`].
    fn check_place(
        &self,
        value: &str,
        place: &TargetDevice,
        roots: &Roots,
    ) -> Result<(), TestbedError> {
        let _ = (value, place, roots);
        Ok(())
    }
    /// Checks `value` against the other requested controls. Called if `value` is not the default.
    fn check_beside(
        &self,
        value: &str,
        requested: &BTreeMap<String, String>,
        roots: &Roots,
    ) -> Result<(), TestbedError> {
        let _ = (value, requested, roots);
        Ok(())
    }
    /// Checks that the control can be set on this machine.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot.
    fn probe(&self, roots: &Roots) -> Result<(), Refusal>;
    /// Sets the control. [`KEEP`] changes nothing, and other values are applied
    /// ([`Control::apply`]). If the machine lacks the feature, returns [`Applied::unavailable`].
    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if value == KEEP {
            return Ok(Applied::so(self.observe(context.roots, context.place)));
        }
        Applied::new(self.name(), value, self.apply(value, context))
    }
    /// Applies a value other than [`KEEP`] and describes the observed state. Every change that the
    /// kernel would not undo is first recorded in the ledger ([`Context::record`]). Unused if the
    /// control implements [`Control::set`].
    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let _ = value;
        Ok(self.observe(context.roots, context.place))
    }
    /// Describes the current state, on the device of `place` if the control acts on a device.
    fn observe(&self, roots: &Roots, place: &TargetDevice) -> String;
    /// Returns whether `action` is an undo action that this control records. The undo ledger
    /// replays only these for it, so every action that [`Control::set`] records must be one of
    /// them.
    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        let _ = (action, roots);
        false
    }
    /// Returns whether the control acts on the target's device.
    fn concerns_device(&self) -> bool {
        false
    }
    /// Returns the interference that the current state would cause, if any.
    fn interferes(&self, roots: &Roots) -> Option<PossibleInterference> {
        let _ = roots;
        None
    }
    /// Undoes the changes of [`Control::set`], the last one first. Returns the errors of changes
    /// that could not be undone.
    fn restore(&self, handles: Vec<EntryHandle>, ledger: &Ledger) -> Vec<String> {
        let undone = handles.into_iter().rev().map(|handle| ledger.undo(handle));
        undone
            .filter_map(Result::err)
            .map(|error| error.to_string())
            .collect()
    }
}

/// Refuses a value that is not in `values`: the check of controls with a fixed set of values.
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

/// The device of a target, as far as controls act on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetDevice {
    /// The directory of the device below /sys/devices: the loop device of an image, the whole disk
    /// of a partition. `None` if the device does not exist, or does not exist yet.
    pub device: Option<PathBuf>,
    /// A description of the other users of that device. `None` if only the target uses it.
    pub shared_with: Option<String>,
    /// Whether the target is an image, whose loop device does not exist before the image is
    /// attached.
    pub is_image: bool,
    /// The reason why the device is unknown. Empty if it is known.
    pub why_none: String,
}

impl TargetDevice {
    /// Returns the device's directory, or the reason why it is unknown.
    pub fn device(&self) -> Result<&Path, Refusal> {
        self.device
            .as_deref()
            .ok_or_else(|| match self.why_none.as_str() {
                "" => "the device is unknown".into(),
                why => why.to_owned().into(),
            })
    }
}

/// Settings that per-target controls require from the code that mounts file systems and starts
/// processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// Processors that workers run on. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// NUMA nodes that workers' memory comes from. Empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_nodes: Vec<u32>,
    /// Bytes that a mounted file system reads ahead, including a file system that does not use its
    /// device's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<u64>,
    /// The device must not serve any flush. A trial in which it did is invalid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_flushes: bool,
    /// The memory limit that all steps of a trial share with FUSE servers. It is not sent to other
    /// processes.
    #[serde(skip)]
    pub memory: Option<MemoryHold>,
}

impl Held {
    /// Makes `command` start in the cgroup of the memory limit, if there is one, and in those whose
    /// lists of processes are `cgroups`.
    pub fn start(&self, command: &mut Command, cgroups: &[PathBuf]) -> Result<(), TestbedError> {
        let memory = match &self.memory {
            Some(MemoryHold::Cgroup(cgroup)) => Some(cgroup.processes()),
            _ => None,
        };
        for path in memory.iter().chain(cgroups) {
            let file = File::options().write(true).open(path).map_err(|error| {
                TestbedError::trial("a worker cannot be put into its cgroup")
                    .tried(attempt("open", path, &error))
            })?;
            process::start_in_cgroup(command, file);
        }
        Ok(())
    }
}

/// The parameters of [`Control::set`], and the changes recorded so far.
pub struct Context<'a> {
    /// The locations of /proc and /sys.
    pub roots: &'a Roots,
    /// The ledger that undo entries are written to. [`Context::record`] writes there and stores the
    /// handle.
    pub ledger: &'a Ledger,
    /// Receives progress reports of slow steps.
    pub progress: &'a mut dyn FnMut(Progress),
    /// The target's device. Empty for [`Scope::Run`].
    pub place: &'a TargetDevice,
    /// The settings that workers will get. No effect for [`Scope::Run`].
    pub held: &'a mut Held,
    /// The time limit, as far as the control can stop early.
    pub patience: Duration,
    /// Bytes of memory that the run may use at once. `None` if that is unknown.
    pub memory_needed: Option<u64>,
    control: &'static str,
    handles: Vec<EntryHandle>,
    open: Vec<File>,
}

/// The reason why a control could not be set.
#[derive(Debug)]
pub enum Stop {
    /// The machine lacks the feature or refuses it, or another run holds it. The run continues
    /// without it and reports that.
    Lacks(Refusal),
    /// The run cannot continue.
    Failed(TestbedError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Lacks(refusal)
    }
}

impl From<TestbedError> for Stop {
    fn from(error: TestbedError) -> Self {
        Stop::Failed(error)
    }
}

impl<'a> Context<'a> {
    /// Returns a context for `control` without any recorded change.
    pub fn new(
        control: &'static str,
        roots: &'a Roots,
        ledger: &'a Ledger,
        progress: &'a mut dyn FnMut(Progress),
        place: &'a TargetDevice,
        held: &'a mut Held,
    ) -> Context<'a> {
        Context {
            roots,
            ledger,
            progress,
            place,
            held,
            patience: Duration::MAX,
            memory_needed: None,
            control,
            handles: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Writes an undo entry durably. Must be called *before* the change. Fails with [`Stop::Lacks`]
    /// if another run has made the change.
    pub fn record(&mut self, action: Action) -> Result<(), Stop> {
        let what = action.to_string();
        match self.ledger.claim(self.control, action)? {
            Some(handle) => self.handles.push(handle),
            None => {
                return Err(Stop::Lacks(
                    format!(
                        "another run of fsb holds this setting, or was killed while it did (fsb clean would \
                        {what})"
                    )
                    .into(),
                ));
            }
        }
        Ok(())
    }

    /// Writes `value` into a file of /proc or /sys, after an undo entry that writes `back` into
    /// `way_back`. The kernel may store another value than the one written, so read the file again
    /// to observe it.
    pub fn write_file(
        &mut self,
        path: &Path,
        value: &str,
        way_back: &Path,
        back: &str,
    ) -> Result<(), Stop> {
        self.record(Action::WriteFile {
            path: way_back.to_owned(),
            value: back.to_owned(),
        })?;
        let written = File::options()
            .write(true)
            .truncate(true)
            .open(path)
            .and_then(|mut file| file.write_all(value.as_bytes()));
        if let Err(error) = written {
            self.take_back()?;
            return Err(Stop::Lacks(attempt("write to", path, &error)));
        }
        Ok(())
    }

    /// Like [`Context::write_file`], with an undo entry for the current contents of the file.
    pub(crate) fn change_file(&mut self, path: &Path, value: &str) -> Result<(), Stop> {
        let before = read_trimmed(path)
            .ok_or_else(|| Stop::Lacks(format!("{} cannot be read", path.display()).into()))?;
        if before == value {
            return Ok(());
        }
        self.write_file(path, value, path, &before)
    }

    /// Undoes the last recorded change, because it could not be completed.
    pub(crate) fn take_back(&mut self) -> Result<(), TestbedError> {
        self.handles
            .pop()
            .map_or(Ok(()), |handle| self.ledger.undo(handle).map(drop))
    }

    /// Keeps a file open as long as the control is set. The kernel reverts the file's effect when
    /// it is closed.
    pub(crate) fn hold_open(&mut self, file: File) {
        self.open.push(file);
    }

    /// Returns the files that must stay open.
    pub(crate) fn take_open(&mut self) -> Vec<File> {
        std::mem::take(&mut self.open)
    }

    /// Returns the handles of all undo entries, the first change first.
    pub(crate) fn into_tickets(self) -> Vec<EntryHandle> {
        self.handles
    }
}

// Settings below /proc and /sys that controls write.

/// Returns the entries of a directory whose names are `prefix` and a number, in the order of the
/// numbers.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((number(&entry.path(), prefix)?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns whether [`numbered`] would return `path` if it existed.
pub(crate) fn is_numbered(path: &Path, directory: &Path, prefix: &str) -> bool {
    path.parent() == Some(directory) && number(path, prefix).is_some()
}

fn number(path: &Path, prefix: &str) -> Option<u32> {
    path.file_name()?
        .to_str()?
        .strip_prefix(prefix)?
        .parse()
        .ok()
}

/// Returns the reason why a file of /proc or /sys cannot be written, if there is one.
pub(crate) fn writable(path: &Path) -> Result<(), Refusal> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| fsb_sys::error::attempt("write to", path, &errno.into()))
}

/// Returns whether `action` writes the file that `file` returns for a device below /sys/devices.
pub(crate) fn is_device_setting(
    action: &Action,
    roots: &Roots,
    file: fn(&Path) -> PathBuf,
) -> bool {
    let Some(path) = action.written() else {
        return false;
    };
    // DEVICE/queue/SETTING
    let device = path
        .ancestors()
        .nth(2)
        .filter(|device| device.starts_with(roots.sys.join("devices")));
    device.is_some_and(|device| file(device) == path)
}

/// Returns the reason why settings of a device cannot be changed, if there is one.
pub(crate) fn device_settings() -> Result<(), Refusal> {
    let flags = rustix::fs::statvfs("/sys")
        .map_err(|errno| errno.to_string())?
        .f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("/sys is mounted read-only, as in containers".into());
    }
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Refusal::NeedsRoot("only root may set up devices".into())),
    }
}
