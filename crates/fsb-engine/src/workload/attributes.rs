//! Changing the permissions, the owner and the times of every file: chmod, chown and utimensat.

use fsb_model::CacheState;
use rustix::fs::{Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::{Rules, Spec};
use super::unit::Change;
use crate::EngineError;
use crate::clock::OperationKind;
use crate::context::Context;
use crate::fileset::Content;

const RULES: Rules = Rules { cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm], ..Rules::NAMES };

/// The reason why a change is not applicable: file systems without owners and permissions refuse it.
fn unsupported(errno: Errno) -> Option<&'static str> {
    let refused = matches!(errno, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS);
    refused.then_some("this file system does not let the owner of a file change it")
}

/// The permissions that files get in turn.
const MODES: [Mode; 2] = [Mode::from_raw_mode(0o600), Mode::from_raw_mode(0o644)];

/// Checks on one file, after the clock, that the file system stores permissions. vfat and ntfs-3g report success and
/// change neither permissions nor owners.
fn check_permissions(spec: &Spec, context: &Context) -> Result<(), EngineError> {
    if !context.backend(spec.backend).capabilities().real {
        return Ok(());
    }
    let file = context.set().join(spec.layout.path(0));
    for mode in MODES {
        let found = rustix::fs::chmod(&file, mode).and_then(|()| rustix::fs::stat(&file));
        let found = found.map_err(|errno| EngineError::call("chmod", &file, errno))?;
        if Mode::from_raw_mode(found.st_mode) != mode {
            let why = "this file system ignores the call: it stores neither permissions nor owners";
            return Err(EngineError { inapplicable: true, ..EngineError::new(why) });
        }
    }
    Ok(())
}

/// The member that changes permissions.
pub(super) static CHMOD: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "chmod", ..RULES },
    about: "set the permissions of every file, to 0600 and to 0644 in turn; where each is durable, with fsync of the file",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())]),
    content: Content::Full,
    change: Change::Overwritten,
    profile: |spec| spec.profile("chmod", spec.files_label("chmod")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            let mode = MODES[(context.repetition as usize + turn.pass as usize) % 2];
            turn.calls().set_mode(turn.root(), turn.path(), mode)
        };
        let call = NameCall::new("chmod", OperationKind::Attributes, Changes::File, &act);
        let measured = names::measure(spec, NameCall { unsupported, ..call }, profile, context, gate)?;
        check_permissions(spec, context).map(|()| measured)
    },
};

/// The member that changes owners.
pub(super) static CHOWN: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "chown", ..RULES },
    about: "set the owner and the group of every file, to those that it has; where each is durable, with fsync of the \
            file",
    profile: |spec| spec.profile("chown", spec.files_label("chown")),
    measure: |spec, profile, context, gate| {
        let (owner, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let act = |turn: &mut Turn<'_>| turn.calls().set_owner(turn.root(), turn.path(), owner, group);
        let call = NameCall::new("chown", OperationKind::Attributes, Changes::File, &act);
        let measured = names::measure(spec, NameCall { unsupported, ..call }, profile, context, gate)?;
        check_permissions(spec, context).map(|()| measured)
    },
    ..CHMOD
};

/// The member that changes times.
pub(super) static UTIMENS: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "utimens", ..RULES },
    about: "set the times of the last access and change of every file (utimensat); where each is durable, with fsync \
            of the file",
    profile: |spec| spec.profile("utimens", spec.files_label("utimens")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            // A time in 2001 that all file systems can store, and a minute later with each sample and each pass.
            let minutes = i64::from(context.repetition) + turn.pass as i64;
            let time = Timespec { tv_sec: 1_000_000_000 + 60 * minutes, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            turn.calls().set_times(turn.root(), turn.path(), &times)
        };
        let call = NameCall::new("set the times of", OperationKind::Attributes, Changes::File, &act);
        names::measure(spec, NameCall { unsupported, ..call }, profile, context, gate)
    },
    ..CHMOD
};
