//! Cloning files: each operation opens a file, creates another one that shares its blocks (ioctl FICLONE), and closes
//! both, as `cp --reflink=always` does.

use fsb_model::{CacheState, Durability};
use rustix::io::Errno;

use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::Rules;
use super::unit::Change;
use crate::backend::{Flush, OpenFlags};
use crate::clock::OperationKind;
use crate::fileset::{self, Content, Names};
use crate::profile::Profile;

/// The reason why clones are not applicable.
fn unsupported(errno: Errno) -> Option<&'static str> {
    // ioctl_ficlone(2) lists OPNOTSUPP; a file system without the ioctl returns ENOTTY, or EINVAL without the feature.
    let refused = matches!(errno, Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS);
    refused.then_some("this file system has no reflinks (FICLONE)")
}

/// The member.
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
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("file_size", "4K".into())]),
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let profile = spec.profile("reflink", spec.files_label("reflink"));
        let (inodes, space) = (profile.inodes + profile.files, profile.space + profile.files * fileset::NOTE);
        Profile { inodes, space, ..profile.consuming() }
    },
    measure: |spec, profile, context, gate| {
        let (clones, each) = (Names::other(&spec.layout), spec.durability == Durability::Each);
        let act = |turn: &mut Turn<'_>| {
            let (root, size) = (turn.root(), turn.set.layout.file_size);
            let source = turn.session.open(root, turn.path(), OpenFlags::READ, size)?;
            let clone = turn.session.open(root, clones.path(turn.file), OpenFlags::WRITE.creating(0o644), size)?;
            turn.session.share_blocks(source, clone)?;
            if each {
                turn.session.flush(clone, Flush::All)?;
            }
            turn.session.close(clone)?;
            turn.session.close(source)
        };
        let call = NameCall::new("reflink", OperationKind::Create, Changes::Nothing, &act);
        names::measure(spec, NameCall { unsupported, ..call }, profile, context, gate)
    },
};
