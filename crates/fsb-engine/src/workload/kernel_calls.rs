//! Workloads that make calls of newer kernels on each file of a set: statx, openat2, renameat2,
//! files without a name, copies of parts, write hints, and fs-verity.
//!
//! A call that the kernel or the file system lacks is not applicable, and the reason names its
//! errno.

use fsb_model::{CacheState, Durability};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::name_calls::{RENAME, STAT};
use super::names::{self, Changes, NameCall, Turn};
use super::params;
use super::spec::{Change, Rules, SimpleWorkload, Spec};
use crate::backend::{FileSlot, Flush, OpenFlags, Session};
use crate::clock::OperationKind;
use crate::data::Data;
use crate::error::EngineError;
use crate::fileset::{self, Content, Names};
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement};

/// Asks for the attributes of every file by statx.
pub(super) static STATX: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "statx",
        ..STAT.rules
    },
    about: "ask for the basic attributes of every file by its name with statx; compare stat, and scan (readdir + stat)",
    profile: |spec| spec.profile("statx", spec.files_label("statx")).reading(),
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls().statx(turn.root(), turn.path())
        }
        let call = NameCall {
            unsupported: missing_in_kernel,
            ..NameCall::new("statx", OperationKind::Stat, Changes::Nothing, &act)
        };
        names::measure(spec, call, profile, context, gate)
    },
    ..STAT
};

/// Opens and closes every file by openat2.
pub(super) static OPENAT2: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "openat2",
        ..STAT.rules
    },
    about: "open every file with openat2 and RESOLVE_BENEATH, which refuses paths out of the directory; close it",
    profile: |spec| {
        spec.profile("openat2", spec.files_label("openat2"))
            .reading()
    },
    measure: |spec, profile, context, gate| {
        fn act(turn: &mut Turn<'_>) -> Result<(), Errno> {
            turn.calls().open_beneath(turn.root(), turn.path())
        }
        let call = NameCall {
            unsupported: missing_in_kernel,
            ..NameCall::new("openat2", OperationKind::Stat, Changes::Nothing, &act)
        };
        names::measure(spec, call, profile, context, gate)
    },
    ..STAT
};

/// Returns the reason why a call that every file system has is not applicable.
fn missing_in_kernel(errno: Errno) -> Option<&'static str> {
    (errno == Errno::NOSYS).then_some("this kernel lacks the call (ENOSYS)")
}

/// The rules of workloads that change files or their names.
const CHANGING: Rules = Rules {
    cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
    ..Rules::NAMES
};

/// Exchanges every file with another one of its directory, so that one sync covers both names.
pub(super) static EXCHANGE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "exchange",
        ..CHANGING
    },
    about: "exchange every file with the one before it (renameat2); where each is durable, with fsync of the directory",
    example: RENAME.example,
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let profile = spec.profile("exchange", spec.files_label("exchange"));
        Profile {
            renewal: Renewal::Recreate,
            ..profile
        }
    },
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            // The first file of a directory has none before it.
            let layout = &turn.set.layout;
            let here = layout.files_in(layout.directory_of(turn.file));
            let other = match turn.file == here.start {
                true => here.end - 1,
                false => turn.file - 1,
            };
            let second = turn.set.names.path(other);
            turn.calls().exchange(turn.root(), turn.path(), second)
        };
        let call = NameCall {
            unsupported: |errno| {
                refusal(
                    errno,
                    "this file system does not exchange names (EINVAL)",
                    "this kernel lacks renameat2 (ENOSYS)",
                )
            },
            ..NameCall::new("exchange", OperationKind::Rename, Changes::Directory, &act)
        };
        names::measure(spec, call, profile, context, gate)
    },
};

/// Returns why a call is not applicable: EINVAL means that the file system lacks it, ENOSYS that
/// the kernel does.
fn refusal(errno: Errno, file_system: &'static str, kernel: &'static str) -> Option<&'static str> {
    match errno {
        Errno::INVAL => Some(file_system),
        Errno::NOSYS => Some(kernel),
        _ => None,
    }
}

/// Creates files without a name, writes them, and links them to a name.
pub(super) static UNNAMED: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "tmpfile",
        ..Rules::NAMES
    },
    about: "create every file without a name (O_TMPFILE), write and link it; where each is durable, with fsync of both",
    example: RENAME.example,
    content: Content::Directories,
    change: Change::Nothing,
    profile: |spec| {
        spec.profile("tmpfile", spec.files_label("tmpfile"))
            .consuming()
    },
    measure: create_unnamed,
};

fn create_unnamed(
    spec: &Spec,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let size = spec.layout.file_size;
    let mut data = Data::new(context.data(), size as usize);
    let bytes = data.window(0, size as usize).to_vec();
    let each = spec.durability == Durability::Each;
    let mode = Mode::from_raw_mode(0o644);
    let act = |turn: &mut Turn<'_>| {
        let (layout, root) = (&turn.set.layout, turn.root());
        let directory = turn
            .set
            .names
            .directory(layout, layout.directory_of(turn.file));
        let name = turn.path();
        let file = turn
            .session
            .open_unnamed(root, directory.as_c_str(), mode)?;
        let mut written = 0;
        while written < bytes.len() {
            written += turn
                .session
                .write_at(file, &bytes[written..], written as u64)?;
        }
        if each {
            turn.session.flush(file, Flush::All)?;
        }
        turn.session.link_unnamed(file, root, name)?;
        turn.session.close(file)
    };
    let call = NameCall {
        unsupported: |errno| match errno {
            Errno::OPNOTSUPP | Errno::ISDIR => {
                Some("this file system has no files without a name (O_TMPFILE: EOPNOTSUPP)")
            }
            Errno::NOENT => Some(
                "a user other than root cannot link a file without a name on this kernel (AT_EMPTY_PATH: ENOENT)",
            ),
            _ => None,
        },
        ..NameCall::new("tmpfile", OperationKind::Create, Changes::Directory, &act)
    };
    names::measure(spec, call, profile, context, gate)
}

/// The bytes of a part that is copied or shared.
const PART: u64 = 64 << 10;

/// Copies or shares a part of one file at the same place of another one.
type MovePart = fn(&mut dyn Session, FileSlot, FileSlot, u64, u64) -> Result<(), Errno>;

/// The call that makes a part of a second file.
struct PartCall {
    name: &'static str,
    part: MovePart,
    /// Returns why an error means that the call is not applicable.
    unsupported: fn(Errno) -> Option<&'static str>,
}

/// Copies files in parts: copy_file_range.
pub(super) static COPY_RANGE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "copy-range",
        files: "min(1000, size/1M)",
        file_size: "256K",
        ..CHANGING
    },
    about: "copy every file by copy_file_range, 64 KiB a call; where each is durable, with fsync of the copy",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("file_size", "128K".into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let profile = spec.profile("copy-range", spec.files_label("copy-range"));
        Profile {
            inodes: profile.inodes + profile.files,
            space: 2 * profile.space,
            ..profile.consuming()
        }
    },
    measure: |spec, profile, context, gate| {
        let part: MovePart = |session, from, to, offset, length| {
            let mut left = length;
            while left > 0 {
                match session.copy_range(from, offset + length - left, to, left as usize)? {
                    0 => return Err(Errno::NODATA),
                    copied => left -= copied as u64,
                }
            }
            Ok(())
        };
        let unsupported = |errno| match errno {
            Errno::OPNOTSUPP => {
                Some("this file system copies no parts (copy_file_range: EOPNOTSUPP)")
            }
            Errno::NOSYS => Some("this kernel lacks copy_file_range (ENOSYS)"),
            _ => None,
        };
        let call = PartCall {
            name: "copy-range",
            part,
            unsupported,
        };
        measure_parts(spec, call, profile, context, gate)
    },
};

/// Shares the blocks of files in parts: FICLONERANGE.
pub(super) static REFLINK_RANGE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "reflink-range",
        ..COPY_RANGE.rules
    },
    about: "clone every file by FICLONERANGE, 64 KiB a call; where each is durable, with fsync of the clone",
    profile: |spec| {
        let profile = spec.profile("reflink-range", spec.files_label("reflink-range"));
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
        let part: MovePart =
            |session, from, to, offset, length| session.share_range(from, to, offset, length);
        let unsupported = |errno| match errno {
            Errno::OPNOTSUPP => {
                Some("this file system shares no blocks (FICLONERANGE: EOPNOTSUPP)")
            }
            Errno::NOTTY => Some("this file system shares no blocks (FICLONERANGE: ENOTTY)"),
            Errno::INVAL => Some(
                "this file system does not share these parts (FICLONERANGE: EINVAL): file_size must be a multiple of its block",
            ),
            _ => None,
        };
        let call = PartCall {
            name: "reflink-range",
            part,
            unsupported,
        };
        measure_parts(spec, call, profile, context, gate)
    },
    ..COPY_RANGE
};

/// Makes a second file of each file, part by part.
fn measure_parts(
    spec: &Spec,
    PartCall {
        name,
        part,
        unsupported,
    }: PartCall,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let copies = Names::other(&spec.layout);
    let each = spec.durability == Durability::Each;
    let act = |turn: &mut Turn<'_>| {
        let (root, size) = (turn.root(), turn.set.layout.file_size);
        let (from, to) = (turn.path(), copies.path(turn.file));
        let source = turn.session.open(root, from, OpenFlags::READ, size)?;
        let creating = OpenFlags::WRITE.creating(0o644);
        let copy = turn.session.open(root, to, creating, size)?;
        for offset in (0..size).step_by(PART as usize) {
            let length = PART.min(size - offset);
            part(turn.session, source, copy, offset, length)?;
        }
        if each {
            turn.session.flush(copy, Flush::All)?;
        }
        turn.session.close(copy)?;
        turn.session.close(source)
    };
    let call = NameCall {
        unsupported,
        ..NameCall::new(name, OperationKind::Create, Changes::Nothing, &act)
    };
    names::measure(spec, call, profile, context, gate)
}

/// The write-life hints that files get in turn: RWH_WRITE_LIFE_SHORT and RWH_WRITE_LIFE_EXTREME of
/// fcntl(2).
const WRITE_HINTS: [u64; 2] = [2, 5];

/// Sets the expected life of the data of every file.
pub(super) static WRITE_HINT: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "write-hint",
        durability: &[Durability::None],
        ..CHANGING
    },
    about: "open every file, set the expected life of its data (F_SET_RW_HINT), to short and to extreme in turn, close it",
    example: STAT.example,
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("write-hint", spec.files_label("write-hint")),
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            let (root, size) = (turn.root(), turn.set.layout.file_size);
            let hint = WRITE_HINTS[(context.repetition as usize + turn.pass as usize) % 2];
            let path = turn.path();
            let file = turn.session.open(root, path, OpenFlags::WRITE, size)?;
            turn.session.set_write_hint(file, hint)?;
            turn.session.close(file)
        };
        let call = NameCall {
            unsupported: |errno| {
                (errno == Errno::INVAL)
                    .then_some("this kernel takes no write hints for files (F_SET_RW_HINT: EINVAL)")
            },
            ..NameCall::new(
                "write-hint",
                OperationKind::Attributes,
                Changes::Nothing,
                &act,
            )
        };
        names::measure(spec, call, profile, context, gate)
    },
};

/// Makes every file immutable under a Merkle tree: fs-verity.
pub(super) static VERITY: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "verity",
        file_size: "64K",
        files: "min(1000, size/1M)",
        ..CHANGING
    },
    about: "enable fs-verity on every file (SHA-256, 4 KiB); where each is durable, with fsync of the file",
    example: RENAME.example,
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let profile = spec.profile("verity", spec.files_label("verity"));
        // The tree takes less than a 64th of the data, and whole blocks.
        let space = profile.space + profile.files * (3 * 4096) + profile.space / 64;
        Profile {
            space,
            ..profile.consuming()
        }
    },
    measure: |spec, profile, context, gate| {
        let act = |turn: &mut Turn<'_>| {
            let (root, size) = (turn.root(), turn.set.layout.file_size);
            let path = turn.path();
            let file = turn.session.open(root, path, OpenFlags::READ, size)?;
            turn.session.enable_verity(file)?;
            turn.session.close(file)
        };
        let call = NameCall {
            unsupported: |errno| match errno {
                Errno::NOTTY => Some("this kernel or file system lacks fs-verity (ENOTTY)"),
                Errno::OPNOTSUPP => Some(
                    "this kernel or file system lacks fs-verity (EOPNOTSUPP); ext4 needs mkfs.ext4 -O verity, the kernel CONFIG_FS_VERITY",
                ),
                _ => None,
            },
            ..NameCall::new(
                "enable fs-verity",
                OperationKind::Attributes,
                Changes::File,
                &act,
            )
        };
        names::measure(spec, call, profile, context, gate)
    },
};
