//! The error that tells a user what failed, which operation was tried and how to continue. It
//! crosses the agents' protocol.
//!
//! `fsb-testbed` and `fsb-vm` have it under names of their own, which show the origin of an error.

use std::{fmt, io};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::{self, Coded, ErrorCode};
use crate::errno::{self, advice_on_limits};
use crate::error_codes;

error_codes! {
    REFUSED = "testbed/refused", code::REQUEST, "The request cannot be carried out as it is.", "Change what the message names.";
    UNABLE = "testbed/unable", code::MACHINE, "The machine cannot carry out the request.", "Follow the advice in the message; fsb doctor shows what the machine lacks.";
    TRIAL_FAILED = "testbed/trial-failed", code::TRIALS, "One target or trial failed.", "Read the reason of the trial in the report.";
    NEEDS_ROOT = "testbed/needs-root", code::MACHINE, "Formatting and mounting need root.", "Run with sudo, measure a directory, or use --in vm.";
    BUSY = "testbed/busy", code::MACHINE, "Another fsb measures on this machine.", "Wait for it to end, as fsb run --wait does, or add --allow-concurrent.";
    TOOL_MISSING = "testbed/tool-missing", code::MACHINE, "A program that the target needs is not installed.", "Install the package that the message names.";
    NO_LEDGER = "testbed/no-ledger", code::MACHINE, "No directory of the user can hold the list of changes to undo.", "Set HOME to a directory that the user may write to.";
    NO_SUPERVISOR = "testbed/no-supervisor", code::MACHINE, "The process that isolates the testbed cannot be started.", "Follow the advice in the message.";
    NO_MEMORY = "machine/no-memory", code::MACHINE, "The memory of the machine or of the guest does not suffice.", "Change --memory as the message says.";
    NO_KERNEL = "kernel/not-found", code::MACHINE, "This machine has no kernel of that name for a virtual machine.", "Fetch one with fsb kernel fetch, or name one of fsb kernel list.";
    NO_MODULE = "kernel/no-module", code::MACHINE, "The kernel lacks a module that the targets or the guest need.", "Name another kernel with --kernel.";
    INVALID_KERNEL = "kernel/invalid", code::REQUEST, "The argument of --kernel names no kernel.", "Name a release of fsb kernel list, an image, the directory in which one was built, or a .deb.";
    KERNEL_CUT_SHORT = "kernel/incomplete", code::MACHINE, "The image of the kernel is incomplete.", "Fetch or copy it again.";
    UNKNOWN_FILE_SYSTEM = "target/unknown-file-system", code::REQUEST, "No file system has that name.", "Use a name of fsb list file-systems.";
    UNKNOWN_MEDIUM = "target/unknown-medium", code::REQUEST, "No medium has that name.", "Use a name of fsb list media.";
    ONLY_IN_VM = "target/only-in-vm", code::REQUEST, "The medium exists only in a virtual machine.", "Add --in vm.";
    UNKNOWN_OPTION = "target/unknown-option", code::REQUEST, "The file system refuses the mount option.", "Correct or remove the option.";
    NO_MKFS = "target/no-mkfs", code::REQUEST, "The file system is not made on a medium, so mkfs arguments and a medium do not apply.", "Remove mkfs=… and @MEDIUM from the target.";
    ONLY_IN_A_GUEST = "target/only-in-a-guest", code::MACHINE, "Measuring the file system would change services of this machine.", "Add --in vm: it is measured in a virtual machine.";
    NO_DIRECTORY = "target/no-directory", code::REQUEST, "The target's path is missing or leads to another kind of file.", "Name a directory that exists.";
    DIRECTORY_NOT_WRITABLE = "target/directory-not-writable", code::MACHINE, "The user may not write to the target's directory.", "Name a writable directory, or run with sudo.";
    NO_IMAGE_DIRECTORY = "medium/no-directory", code::REQUEST, "The directory for images is missing or leads to another kind of file.", "Name another directory with --dir.";
    DIRECTORY_IN_MEMORY = "medium/directory-in-memory", code::MACHINE, "The directory for images is in memory.", "Name a directory on a disk with --dir, or use @ram for an image in memory.";
    NO_TARGET = "target/missing", code::REQUEST, "The request names no target.", "Name a file system such as ext4, or a directory.";
    NO_DEVICE = "device/not-a-device", code::REQUEST, "The path is missing or leads to another kind of file than a block device.", "Name a block device that lsblk shows.";
    DEVICE_BUSY = "device/in-use", code::REQUEST, "The block device is mounted or in use.", "Unmount or detach the device, or name another.";
    DEVICE_NOT_EMPTY = "device/not-empty", code::REQUEST, "The device is not empty or unreadable.", "Name the device with --wipe to destroy its content.";
    DEVICE_CHANGED = "device/changed", code::REQUEST, "The path leads to another device than when it was named.", "Name the device again; /dev/disk/by-id has lasting names.";
    SAME_DEVICE = "device/named-twice", code::REQUEST, "Two targets or members are on the same device.", "Name another device for one of them.";
    READ_ONLY_DEVICE = "device/read-only", code::MACHINE, "The block device cannot be written to.", "Name another device.";
    UNKNOWN_CONTROL = "control/unknown", code::REQUEST, "No control has that name.", "Use a name of fsb list controls.";
    CONTROL_VALUE = "control/invalid-value", code::REQUEST, "The control does not take that value.", "Use a value of fsb list controls.";
    CONTROL_OF_RUN = "control/not-per-target", code::REQUEST, "The control holds for the whole run, not for one target.", "Move it to [controls].";
    RISKS_DATA = "control/risks-data", code::REQUEST, "The control would put data of others at risk.", "Use an image or a disk that nothing else uses.";
    UNIT = "control/unit", code::REQUEST, "systemd has no such unit, or cannot stop it.", "Name units that systemctl list-units shows.";
    UNIT_RUNS = "control/unit-not-stopped", code::MACHINE, "A unit was not stopped.", "Leave it out of the control services.";
    CONTROL_CONFLICT = "control/conflict", code::REQUEST, "Two controls exclude each other.", "Remove one of the controls.";
}

/// The party at fault, which decides the exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request is invalid (exit code 2).
    Request,
    /// The machine lacks a tool, a kernel, a privilege or space (exit code 3).
    Machine,
    /// One target or trial failed; the others go on (exit code 4).
    Trial,
}

/// The operation that was tried, as text, and the number of the kernel's error if a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// `open /dev/loop3: Permission denied (EACCES)`.
    pub text: String,
    /// The number of the error.
    pub errno: Option<i32>,
}

impl Tried {
    /// Describes a call that failed.
    pub fn call(call: impl fmt::Display, error: &io::Error) -> Tried {
        Tried {
            text: format!("{call}: {}", errno::describe_io(error)),
            errno: errno::number(error),
        }
    }
}

impl From<String> for Tried {
    fn from(text: String) -> Tried {
        Tried { text, errno: None }
    }
}

impl From<&str> for Tried {
    fn from(text: &str) -> Tried {
        text.to_owned().into()
    }
}

impl From<&io::Error> for Tried {
    fn from(error: &io::Error) -> Tried {
        Tried {
            text: errno::describe_io(error),
            errno: errno::number(error),
        }
    }
}

/// An error with the operation that was tried and advice to the user. Empty parts are not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Error {
    /// The party at fault.
    pub kind: Kind,
    /// The name of the [`ErrorCode`]; empty for the general code of the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The subject of the error, for programs: `path`, `option`, `program`. Boxed, because every
    /// result carries the error.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Box<Map<String, Value>>,
    /// The failure.
    pub what: String,
    /// The operation that was tried, and its error.
    #[serde(default)]
    pub tried: String,
    /// Advice to the user, unless a limit on open files is the cause.
    #[serde(default)]
    pub advice: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.tried.is_empty() {
            write!(f, ": {}", self.tried)?;
        }
        match self.advised() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

impl Error {
    fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error {
            kind,
            code: String::new(),
            fields: Box::default(),
            what: what.into(),
            tried: String::new(),
            advice: String::new(),
        }
    }

    /// Returns the error of a wrong request.
    pub fn request(what: impl Into<String>) -> Self {
        Error::new(Kind::Request, what)
    }

    /// Returns the error of a request that the machine cannot carry out.
    pub fn machine(what: impl Into<String>) -> Self {
        Error::new(Kind::Machine, what)
    }

    /// Returns the error of one target or trial.
    pub fn trial(what: impl Into<String>) -> Self {
        Error::new(Kind::Trial, what)
    }

    /// Sets the code, which also decides the exit code.
    pub fn coded(mut self, code: &'static ErrorCode) -> Self {
        code.name.clone_into(&mut self.code);
        self.kind = match code.exit {
            code::REQUEST => Kind::Request,
            code::TRIALS => Kind::Trial,
            _ => Kind::Machine,
        };
        self
    }

    /// Adds a field for programs.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the operation that was tried, and its error. The field `errno` has the name of a kernel
    /// error.
    pub fn tried(mut self, tried: impl Into<Tried>) -> Self {
        let Tried { text, errno } = tried.into();
        self.tried = text;
        match errno.and_then(errno::name) {
            Some(name) => self.field("errno", name),
            None => self,
        }
    }

    /// Sets the advice to the user.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Returns the advice about a limit on open files if it is the cause, else the error's own.
    fn advised(&self) -> &str {
        let on_limits = self
            .fields
            .get("errno")
            .and_then(Value::as_str)
            .and_then(advice_on_limits);
        on_limits.unwrap_or(&self.advice)
    }
}

impl Coded for Error {
    fn code(&self) -> &'static ErrorCode {
        let general = match self.kind {
            Kind::Request => &REFUSED,
            Kind::Machine => &UNABLE,
            Kind::Trial => &TRIAL_FAILED,
        };
        CODES
            .iter()
            .find(|code| code.name == self.code)
            .copied()
            .unwrap_or(general)
    }

    fn fields(&self) -> Map<String, Value> {
        (*self.fields).clone()
    }

    fn help(&self) -> Option<String> {
        let advice = self.advised();
        (!advice.is_empty()).then(|| advice.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_too_many_has_the_advice_on_limits() {
        let error = Error::machine("the lock cannot be taken")
            .tried(Tried::call(
                "open /run/fsb/concurrent",
                &io::Error::from_raw_os_error(libc::EMFILE),
            ))
            .advice("look at that file and remove it");
        let text = error.to_string();
        assert_eq!(error.fields["errno"], "EMFILE");
        assert!(
            text.ends_with("(EMFILE); raise the limit on open files: ulimit -n 1024"),
            "{text}"
        );
    }

    #[test]
    fn an_error_reads_as_a_sentence() {
        let error = Error::machine("cannot attach a loop device")
            .tried("open /dev/loop-control: Permission denied (EACCES)")
            .advice("run with sudo");
        assert_eq!(
            error.to_string(),
            "cannot attach a loop device: open /dev/loop-control: Permission denied (EACCES); run with sudo"
        );
        assert_eq!(Error::trial("a").advice("b").to_string(), "a; b");
        let kinds = [Error::request("a").kind, error.kind, Error::trial("a").kind];
        assert_eq!(kinds, [Kind::Request, Kind::Machine, Kind::Trial]);
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&json).unwrap(), error);
    }
}
