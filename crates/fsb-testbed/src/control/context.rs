//! What a control works with, and what it may change.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::memory_limit::MemoryHold;
use crate::error::{Refusal, TestbedError, attempt};
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::progress::Progress;
use crate::sys::{Roots, read_trimmed};

/// Where a target lives, as far as controls act on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetDevice {
    /// The directory of the device below /sys/devices: the loop device of an image, the whole disk of a partition.
    /// Absent where there is none, or none yet.
    pub device: Option<PathBuf>,
    /// Who else uses that device, in words; absent where it is the target's own.
    pub shared_with: Option<String>,
    /// An image, whose loop device is not there before it is attached.
    pub is_image: bool,
    /// Why there is no device; empty where there is one.
    pub why_none: String,
}

impl TargetDevice {
    /// The device's directory, or why there is none.
    pub fn device(&self) -> Result<&Path, Refusal> {
        self.device.as_deref().ok_or_else(|| match self.why_none.as_str() {
            "" => "the device is unknown".into(),
            why => why.to_owned().into(),
        })
    }
}

/// What controls of a visit ask of whoever mounts and starts processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// Processors that workers run on; all where it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// NUMA nodes that workers' memory comes from; any where it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_nodes: Vec<u32>,
    /// Bytes that a mounted file system reads ahead, also one that does not take that from its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<u64>,
    /// The device must serve no flush: a trial in which it did is invalid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_flushes: bool,
    /// What limits the memory that all steps of a trial share, and FUSE servers with them. It does not leave this
    /// process.
    #[serde(skip)]
    pub memory: Option<MemoryHold>,
}

/// What [`Control::set`](super::Control::set) works with.
pub struct Context<'a> {
    /// Where /proc and /sys are.
    pub roots: &'a Roots,
    /// Where undo entries go. [`Context::record`] writes there and remembers the handle.
    pub ledger: &'a Ledger,
    /// Told of what takes long.
    pub progress: &'a mut dyn FnMut(Progress),
    /// The target's device; empty for [`Scope::Run`](super::Scope::Run).
    pub place: &'a TargetDevice,
    /// How workers will be held; of no effect for [`Scope::Run`](super::Scope::Run).
    pub held: &'a mut Held,
    /// How long it may take, as far as it can be cut short.
    pub patience: Duration,
    /// Bytes of memory that the run may use at once; absent where that is unknown.
    pub memory_needed: Option<u64>,
    control: &'static str,
    handles: Vec<EntryHandle>,
    open: Vec<File>,
}

/// Why a control could not be set.
#[derive(Debug)]
pub enum Stop {
    /// The machine lacks it or refuses, or another run holds it: the run goes on without, and says so.
    Lacks(Refusal),
    /// The run cannot go on.
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
    /// A context for `control` in which nothing was changed yet.
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

    /// Writes down how to undo a change, durably. To be called *before* the change. What another run has changed is
    /// left alone.
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

    /// Writes `value` into a file of /proc or /sys, with the way back in the ledger: `back`, into `way_back`. The kernel
    /// may keep something else than was written: read again what is to be observed.
    pub fn write_file(&mut self, path: &Path, value: &str, way_back: &Path, back: &str) -> Result<(), Stop> {
        self.record(Action::WriteFile { path: way_back.to_owned(), value: back.to_owned() })?;
        let written =
            File::options().write(true).truncate(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
        if let Err(error) = written {
            self.take_back()?;
            return Err(Stop::Lacks(attempt("write to", path, &error)));
        }
        Ok(())
    }

    /// The same where the way back is what the file holds now.
    pub(crate) fn change_file(&mut self, path: &Path, value: &str) -> Result<(), Stop> {
        let before =
            read_trimmed(path).ok_or_else(|| Stop::Lacks(format!("{} cannot be read", path.display()).into()))?;
        if before == value {
            return Ok(());
        }
        self.write_file(path, value, path, &before)
    }

    /// Undoes the last change that was recorded, because it could not be made whole.
    pub(crate) fn take_back(&mut self) -> Result<(), TestbedError> {
        self.handles.pop().map_or(Ok(()), |handle| self.ledger.undo(handle).map(drop))
    }

    /// Keeps a file open as long as the control holds: the kernel undoes what it stands for when it is closed.
    pub(crate) fn hold_open(&mut self, file: File) {
        self.open.push(file);
    }

    /// The files that must stay open.
    pub(crate) fn take_open(&mut self) -> Vec<File> {
        std::mem::take(&mut self.open)
    }

    /// How to undo everything, the first change first.
    pub(crate) fn into_tickets(self) -> Vec<EntryHandle> {
        self.handles
    }
}
