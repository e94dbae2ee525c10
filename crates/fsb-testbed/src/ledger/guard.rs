//! What an entry may ask for: nothing but what fsb itself writes down.
//!
//! The ledger is replayed by root and long after it was written. An entry that names another file than the control that
//! it stands for ever changes, or a directory whose name fsb did not give, is refused and told, whoever wrote it.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::{Action, DIRECTORY_PREFIX};
use crate::error::{Refusal, TestbedError};
use crate::medium::GRAIN;
use crate::sys::blkpg::Partition;
use crate::sys::{Roots, cgroup, md};

/// The kernel numbers no device higher (20 bits of minor numbers).
const MOST_DEVICES: u32 = 1 << 20;

/// Nor a partition (DISK_MAX_PARTS).
const MOST_PARTITIONS: u32 = 256;

/// The actions that each control records: a function from the control's name, which fails if there is none of that name.
#[derive(Debug, Clone, Copy)]
pub struct Rules(pub(crate) fn(&str, &Action, &Roots) -> Result<bool, TestbedError>);

/// Checks entries against the rules and the directories of one machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard<'r> {
    pub(super) rules: Rules,
    pub(super) roots: &'r Roots,
}

impl Guard<'_> {
    /// Fails if `action` is not one that fsb records for `control`, or without a control.
    pub(super) fn admit(&self, control: Option<&str>, action: &Action) -> Result<(), Refusal> {
        admit(control, action, *self)
    }
}

fn admit(control: Option<&str>, action: &Action, Guard { rules, roots }: Guard<'_>) -> Result<(), Refusal> {
    if path_of(action).is_some_and(|path| !is_plain(path)) {
        return Err("its path is not a plain, absolute one".into());
    }
    let own = match (control, action) {
        (Some(name), _) => (rules.0)(name, action, roots).map_err(|error| error.to_string())?,
        (None, Action::RemoveDirectory { path, .. }) => path.file_name().is_some_and(is_own_name),
        (None, Action::RemoveLoop { index, .. }) => *index < MOST_DEVICES,
        (None, Action::StopArray { number, .. }) => *number < MOST_DEVICES,
        (None, Action::RemovePartition { major, minor, partition }) => {
            let Partition { number, start, bytes } = *partition;
            let aligned = start.is_multiple_of(GRAIN) && bytes.is_multiple_of(GRAIN) && start > 0 && bytes > 0;
            aligned && (1..=MOST_PARTITIONS).contains(&number) && *major < MOST_DEVICES && *minor < MOST_DEVICES
        }
        // Of an array whose members differ in size.
        (None, Action::WriteFile { path, .. }) => *path == roots.sys.join(md::LAYOUT),
        // One that counts the processes of a command.
        (None, Action::RemoveCgroup { path }) => cgroup::is_below(path, roots) && cgroup::is_own(path),
        (None, Action::SwapOn { .. } | Action::StartUnit { .. }) => false,
    };
    match (own, control) {
        (true, _) => Ok(()),
        (false, Some(name)) => Err(format!("the control {name} never needs to {action}").into()),
        (false, None) => Err(format!("fsb never needs to {action}").into()),
    }
}

fn path_of(action: &Action) -> Option<&Path> {
    match action {
        Action::WriteFile { path, .. }
        | Action::RemoveDirectory { path, .. }
        | Action::SwapOn { path, .. }
        | Action::RemoveCgroup { path } => Some(path),
        Action::RemoveLoop { .. }
        | Action::StopArray { .. }
        | Action::RemovePartition { .. }
        | Action::StartUnit { .. } => None,
    }
}

/// No `..`, which would lead out of what the rest of the path names, and no `.` at its end, which would follow a link.
fn is_plain(path: &Path) -> bool {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    plain && path.is_absolute() && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

/// `.fsb-` and the digits of [`crate::sys::random_name`].
fn is_own_name(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
