//! Workloads that make one call on the name of each file: stat, statfs, rename, unlink, mkdir,
//! link, chmod and others.

use std::mem::MaybeUninit;

use fsb_model::{CacheState, Durability};
use rustix::fs::{AtFlags, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::spec::{Change, Items, NAMES_BACKENDS, Rules, SimpleWorkload, Spec};
use crate::backend::{Flush, OpenFlags};
use crate::clock::OperationKind;
use crate::error::EngineError;
use crate::fileset::{self, Content, LINK_TARGET, Names, WholePaths};
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement};

/// Asks for the attributes of every file, by name.
pub(super) static STAT: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "stat",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "ask for the attributes of every file by its name",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("access", "random".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("stat", spec.files_label("stat")).reading(),
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls().stat(turn.root(), turn.path())
        }
        let call = NameCall::new("stat", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(spec, call, profile, context, gate)
    },
};

/// The reason why calls with whole paths use one client.
const WHOLE_PATHS: &str =
    "its calls take whole paths, which lead to one client: use a target without clients=";

/// Asks for the sizes and the free space of the file system, by the name of every file.
pub(super) static STATFS: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "statfs",
        backends: NAMES_BACKENDS,
        one_client: Some(WHOLE_PATHS),
        ..STAT.rules
    },
    about: "ask for the sizes and the free space of the file system, by the name of every file",
    profile: |spec| spec.profile("statfs", spec.files_label("statfs")).reading(),
    measure: |spec, profile, context, gate| {
        // statfs takes no directory.
        let paths = WholePaths::new(&context.set(), &Names::new(&spec.layout), &spec.layout);
        let act = |turn: &mut Turn<'_>| turn.calls().file_system(paths.path(turn.file));
        let call = NameCall::new("statfs", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(spec, call, profile, context, gate)
    },
    ..STAT
};

/// Gives every file another name in its directory, and on the next pass its old name again.
pub(super) static RENAME: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "rename",
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::BASE
    },
    about: "give every file another name in its directory; where each is durable, with fsync of the directory",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Full,
    change: Change::Renamed,
    profile: |spec| {
        let profile = spec.profile("rename", spec.files_label("rename"));
        // The next repetition must find the first names, for any number of operations.
        Profile {
            renewal: Renewal::Recreate,
            ..profile
        }
    },
    measure: |spec, profile, context, gate| {
        let others = Names::other(&spec.layout);
        rename_files(
            spec,
            ("rename", Changes::Directory, &others),
            profile,
            context,
            gate,
        )
    },
};

/// Moves every file to another directory, and on the next pass back.
pub(super) static MOVE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "move",
        backends: NAMES_BACKENDS,
        ..RENAME.rules
    },
    about: "move every file to another directory, which only files of its own directory enter; where each is durable, \
            with fsync of both",
    content: Content::Movable,
    profile: |spec| {
        let profile = spec.profile("move", spec.files_label("move"));
        let directories = spec.layout.directories();
        let (inodes, space) = (
            profile.inodes + directories,
            profile.space + directories * fileset::NOTE,
        );
        Profile {
            renewal: Renewal::Recreate,
            inodes,
            space,
            ..profile
        }
    },
    measure: |spec, profile, context, gate| {
        let others = Names::moved(&spec.layout);
        rename_files(
            spec,
            ("move", Changes::Directories(&others), &others),
            profile,
            context,
            gate,
        )
    },
    ..RENAME
};

/// Renames each file to its other name, and on the next pass back.
fn rename_files(
    spec: &Spec,
    (name, changes, others): (&'static str, Changes<'_>, &Names),
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let act = |turn: &mut Turn<'_>| {
        let (first, other) = (turn.path(), others.path(turn.file));
        let (from, to) = if turn.pass.is_multiple_of(2) {
            (first, other)
        } else {
            (other, first)
        };
        turn.calls().rename(turn.root(), from, to)
    };
    names::measure(
        spec,
        NameCall::new(name, OperationKind::Rename, changes, &act),
        profile,
        context,
        gate,
    )
}

/// Removes every file.
pub(super) static DELETE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "delete",
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::BASE
    },
    about: "remove every file; where each is durable, with fsync of its directory",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "end".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        spec.profile("delete", spec.files_label("delete"))
            .consuming()
    },
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls().unlink(turn.root(), turn.path())
        }
        let call = NameCall::new("delete", OperationKind::Delete, Changes::Directory, &act);
        names::measure(spec, call, profile, context, gate)
    },
};

/// Writes the first byte of every file for the first time.
pub(super) static COPY_UP: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "copy-up",
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::NAMES
    },
    about: "open every file for writing, write its first byte, close it; an overlay copies each file of a lower layer; \
            where each is durable, with fsync of the file",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        spec.profile("copy-up", spec.files_label("copy-up"))
            .consuming()
    },
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            let size = turn.set.layout.file_size;
            let file = turn
                .session
                .open(turn.root(), turn.path(), OpenFlags::WRITE, size)?;
            let written = turn.session.write_at(file, b"u", 0)?;
            turn.session.close(file)?;
            if written == 1 {
                Ok(())
            } else {
                Err(Errno::NOSPC)
            }
        }
        let call = NameCall::new("copy-up", OperationKind::Write, Changes::File, &act);
        names::measure(spec, call, profile, context, gate)
    },
};

/// Makes empty directories.
pub(super) static MKDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "mkdir",
        items: Items::Directories,
        ..Rules::NAMES
    },
    about: "make empty directories; where each is durable, with fsync of the parent directory",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Directories,
    change: Change::Nothing,
    profile: |spec| spec.profile("mkdir", spec.files_label("mkdir")).consuming(),
    measure: |spec, profile, context, gate| {
        let mode = Mode::from_raw_mode(0o755);
        let act = |turn: &mut Turn<'_>| turn.calls().make_directory(turn.root(), turn.path(), mode);
        let call = NameCall::new(
            "make directory",
            OperationKind::Create,
            Changes::Directory,
            &act,
        );
        names::measure(spec, call, profile, context, gate)
    },
};

/// Removes empty directories.
pub(super) static RMDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "rmdir",
        items: Items::Directories,
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::NAMES
    },
    about: "remove empty directories; where each is durable, with fsync of the parent directory",
    content: Content::Subdirectories,
    profile: |spec| spec.profile("rmdir", spec.files_label("rmdir")).consuming(),
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls().remove_directory(turn.root(), turn.path())
        }
        let call = NameCall::new(
            "remove directory",
            OperationKind::Delete,
            Changes::Directory,
            &act,
        );
        names::measure(spec, call, profile, context, gate)
    },
    ..MKDIR
};

/// Returns the reason why links are not applicable.
fn no_links(errno: Errno) -> Option<&'static str> {
    // link(2) and symlink(2) return EPERM if the file system has no such links.
    matches!(errno, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS)
        .then_some("this file system has no such links")
}

/// Makes hard links.
pub(super) static LINK: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "link",
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::NAMES
    },
    about: "give every file a second name in its directory (hard link); where each is durable, with fsync of the \
            directory",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("link", spec.files_label("link")).consuming(),
    measure: |spec, profile, context, gate| {
        let others = Names::other(&spec.layout);
        let act = |turn: &mut Turn<'_>| {
            turn.calls()
                .link(turn.root(), turn.path(), others.path(turn.file))
        };
        let call = NameCall {
            unsupported: no_links,
            probe: Some(|file, second| rustix::fs::link(file, second)),
            ..NameCall::new("link", OperationKind::Create, Changes::Directory, &act)
        };
        names::measure(spec, call, profile, context, gate)
    },
};

/// Makes symbolic links.
pub(super) static SYMLINK: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "symlink",
        items: Items::Links,
        ..Rules::NAMES
    },
    about: "make symbolic links with a target of 19 bytes; where each is durable, with fsync of the directory",
    content: Content::Directories,
    profile: |spec| {
        spec.profile("symlink", spec.files_label("symlink"))
            .consuming()
    },
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls()
                .symbolic_link(turn.root(), LINK_TARGET, turn.path())
        }
        let call = NameCall::new(
            "make symbolic link",
            OperationKind::Create,
            Changes::Directory,
            &act,
        );
        names::measure(
            spec,
            NameCall {
                unsupported: no_links,
                probe: Some(|_, second| rustix::fs::symlink(LINK_TARGET, second)),
                ..call
            },
            profile,
            context,
            gate,
        )
    },
    ..LINK
};

/// Reads symbolic links.
pub(super) static READLINK: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "readlink",
        items: Items::Links,
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::NAMES
    },
    about: "read the target of every symbolic link",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("access", "random".into()),
        ])
    },
    content: Content::Links,
    change: Change::Nothing,
    profile: |spec| {
        spec.profile("readlink", spec.files_label("readlink"))
            .reading()
    },
    measure: |spec, profile, context, gate| {
        let length = LINK_TARGET.count_bytes();
        let act = |turn: &mut Turn<'_>| {
            let mut target = [MaybeUninit::uninit(); 64];
            let read = turn
                .calls()
                .read_link(turn.root(), turn.path(), &mut target, length)?;
            if read == length {
                Ok(())
            } else {
                Err(Errno::NODATA)
            }
        };
        let call = NameCall::new("read link", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(
            spec,
            NameCall {
                warm: Some(&act),
                ..call
            },
            profile,
            context,
            gate,
        )
    },
};

/// Returns the reason why clones are not applicable.
fn no_reflinks(errno: Errno) -> Option<&'static str> {
    // ioctl_ficlone(2) lists OPNOTSUPP; a file system without the ioctl returns ENOTTY, or EINVAL
    // without the feature.
    let refused = matches!(
        errno,
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS
    );
    refused.then_some("this file system has no reflinks (FICLONE)")
}

/// Clones files: each operation opens a file, creates another one that shares its blocks (ioctl
/// FICLONE), and closes both, as `cp --reflink=always` does.
pub(super) static REFLINK: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "reflink",
        files: "min(1000, size/1M)",
        file_size: "64K",
        cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
        ..Rules::NAMES
    },
    about: "clone every file in its directory (FICLONE): open, create, share the blocks, close; where each is durable, \
            with fsync of the clone",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("file_size", "4K".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let profile = spec.profile("reflink", spec.files_label("reflink"));
        let (inodes, space) = (
            profile.inodes + profile.files,
            profile.space + profile.files * fileset::NOTE,
        );
        Profile {
            inodes,
            space,
            ..profile.consuming()
        }
    },
    measure: |spec, profile, context, gate| {
        let (clones, each) = (
            Names::other(&spec.layout),
            spec.durability == Durability::Each,
        );
        let act = |turn: &mut Turn<'_>| {
            let (root, size) = (turn.root(), turn.set.layout.file_size);
            let source = turn
                .session
                .open(root, turn.path(), OpenFlags::READ, size)?;
            let clone = turn.session.open(
                root,
                clones.path(turn.file),
                OpenFlags::WRITE.creating(0o644),
                size,
            )?;
            turn.session.share_blocks(source, clone)?;
            if each {
                turn.session.flush(clone, Flush::All)?;
            }
            turn.session.close(clone)?;
            turn.session.close(source)
        };
        let call = NameCall::new("reflink", OperationKind::Create, Changes::Nothing, &act);
        names::measure(
            spec,
            NameCall {
                unsupported: no_reflinks,
                ..call
            },
            profile,
            context,
            gate,
        )
    },
};

/// The rules of workloads that change the attributes of files.
const ATTRIBUTE_RULES: Rules = Rules {
    cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
    ..Rules::NAMES
};

/// Returns the reason why a change is not applicable: file systems without owners and permissions
/// refuse it.
fn no_owners(errno: Errno) -> Option<&'static str> {
    let refused = matches!(errno, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS);
    refused.then_some("this file system does not let the owner of a file change it")
}

/// The permissions that files get in turn.
const MODES: [Mode; 2] = [Mode::from_raw_mode(0o600), Mode::from_raw_mode(0o644)];

/// Checks on one file, after the clock, that the file system stores permissions. vfat and ntfs-3g
/// report success and change neither permissions nor owners.
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
            return Err(EngineError {
                inapplicable: true,
                ..EngineError::new(why)
            });
        }
    }
    Ok(())
}

/// Changes the permissions of every file (chmod).
pub(super) static CHMOD: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "chmod",
        ..ATTRIBUTE_RULES
    },
    about: "set the permissions of every file, to 0600 and to 0644 in turn; where each is durable, with fsync of the file",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Full,
    change: Change::Overwritten,
    profile: |spec| spec.profile("chmod", spec.files_label("chmod")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            let mode = MODES[(context.repetition as usize + turn.pass as usize) % 2];
            turn.calls().set_mode(turn.root(), turn.path(), mode)
        };
        let call = NameCall::new("chmod", OperationKind::Attributes, Changes::File, &act);
        let measured = names::measure(
            spec,
            NameCall {
                unsupported: no_owners,
                probe: Some(|file, _| rustix::fs::chmod(file, MODES[0])),
                ..call
            },
            profile,
            context,
            gate,
        )?;
        check_permissions(spec, context).map(|()| measured)
    },
};

/// Changes the owner of every file (chown).
pub(super) static CHOWN: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "chown",
        ..ATTRIBUTE_RULES
    },
    about: "set the owner and the group of every file, to those that it has; where each is durable, with fsync of the \
            file",
    profile: |spec| spec.profile("chown", spec.files_label("chown")),
    measure: |spec, profile, context, gate| {
        let (owner, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let act = |turn: &mut Turn<'_>| {
            turn.calls()
                .set_owner(turn.root(), turn.path(), owner, group)
        };
        let call = NameCall::new("chown", OperationKind::Attributes, Changes::File, &act);
        let measured = names::measure(
            spec,
            NameCall {
                unsupported: no_owners,
                probe: Some(|file, _| {
                    let (owner, group) = (rustix::process::geteuid(), rustix::process::getegid());
                    rustix::fs::chown(file, Some(owner), Some(group))
                }),
                ..call
            },
            profile,
            context,
            gate,
        )?;
        check_permissions(spec, context).map(|()| measured)
    },
    ..CHMOD
};

/// Changes the times of every file (utimensat).
pub(super) static UTIMENS: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "utimens",
        ..ATTRIBUTE_RULES
    },
    about: "set the times of the last access and change of every file (utimensat); where each is durable, with fsync \
            of the file",
    profile: |spec| spec.profile("utimens", spec.files_label("utimens")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            // A time in 2001 that all file systems can store, and a minute later with each sample
            // and each pass.
            let minutes = i64::from(context.repetition) + turn.pass as i64;
            let time = Timespec {
                tv_sec: 1_000_000_000 + 60 * minutes,
                tv_nsec: 0,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            turn.calls().set_times(turn.root(), turn.path(), &times)
        };
        let call = NameCall::new(
            "set the times of",
            OperationKind::Attributes,
            Changes::File,
            &act,
        );
        names::measure(
            spec,
            NameCall {
                unsupported: no_owners,
                probe: Some(|file, _| {
                    let time = Timespec {
                        tv_sec: 1_000_000_000,
                        tv_nsec: 0,
                    };
                    let times = Timestamps {
                        last_access: time,
                        last_modification: time,
                    };
                    rustix::fs::utimensat(rustix::fs::CWD, file, &times, AtFlags::empty())
                }),
                ..call
            },
            profile,
            context,
            gate,
        )
    },
    ..CHMOD
};
