//! Making hard links and symbolic links, and reading the latter.

use std::mem::MaybeUninit;

use fsb_model::{CacheState, Durability};
use rustix::io::Errno;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::{Items, Rules};
use super::unit::Change;
use crate::clock::OperationKind;
use crate::fileset::{Content, LINK_TARGET, Names};

/// The reason why links are not applicable.
fn unsupported(errno: Errno) -> Option<&'static str> {
    // link(2) and symlink(2) return EPERM if the file system has no such links.
    matches!(errno, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS).then_some("this file system has no such links")
}

/// The member that makes hard links.
pub(super) static LINK: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "link", cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm], ..Rules::NAMES },
    about: "give every file a second name in its directory (hard link); where each is durable, with fsync of the \
            directory",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("link", spec.files_label("link")).consuming(),
    measure: |spec, profile, context, gate| {
        let others = Names::other(&spec.layout);
        let act = |turn: &mut Turn<'_>| turn.calls().link(turn.root(), turn.path(), others.path(turn.file));
        let call = NameCall { unsupported, ..NameCall::new("link", OperationKind::Create, Changes::Directory, &act) };
        names::measure(spec, call, profile, context, gate)
    },
};

/// The member that makes symbolic links.
pub(super) static SYMLINK: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "symlink", items: Items::Links, ..Rules::NAMES },
    about: "make symbolic links with a target of 19 bytes; where each is durable, with fsync of the directory",
    content: Content::Directories,
    profile: |spec| spec.profile("symlink", spec.files_label("symlink")).consuming(),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| turn.calls().symbolic_link(turn.root(), LINK_TARGET, turn.path());
        let call = NameCall::new("make symbolic link", OperationKind::Create, Changes::Directory, &act);
        names::measure(spec, NameCall { unsupported, ..call }, profile, context, gate)
    },
    ..LINK
};

/// The member that reads symbolic links.
pub(super) static READLINK: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "readlink",
        items: Items::Links,
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::NAMES
    },
    about: "read the target of every symbolic link",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("access", "random".into())]),
    content: Content::Links,
    change: Change::Nothing,
    profile: |spec| spec.profile("readlink", spec.files_label("readlink")),
    measure: |spec, profile, context, gate| {
        let length = LINK_TARGET.count_bytes();
        let act = |turn: &mut Turn<'_>| {
            let mut target = [MaybeUninit::uninit(); 64];
            let read = turn.calls().read_link(turn.root(), turn.path(), &mut target, length)?;
            if read == length { Ok(()) } else { Err(Errno::NODATA) }
        };
        let call = NameCall::new("read link", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(spec, NameCall { warm: Some(&act), ..call }, profile, context, gate)
    },
};
