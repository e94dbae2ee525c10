//! XFS.

use std::os::fd::AsRawFd;
use std::path::Path;

use super::{FileSystem, Idle, Inspection, Tools, ask_about};
use crate::error::TestbedError;
use crate::sys::{mountinfo, remount};

pub(super) struct Xfs;

/// `-K`: no discard.
static TOOLS: Tools =
    Tools { package: "xfsprogs", mkfs: "mkfs.xfs", arguments: &["-f", "-q", "-K"], version: "-V", others: &["xfs_db"] };

impl FileSystem for Xfs {
    fn name(&self) -> &'static str {
        "xfs"
    }

    fn about(&self) -> &'static str {
        "SGI's file system: extents, allocation groups, a metadata journal."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    /// mkfs.xfs refuses less since version 5.19.
    fn minimum_size(&self) -> u64 {
        300 << 20
    }

    /// Blocks kept beyond the ends of files are freed, and the log is emptied: what it holds is otherwise written to its
    /// place by a worker that comes every 30 seconds, in the middle of somebody's trial.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        free_speculative_blocks(idle.point);
        let options = mountinfo::at(idle.point).map(|mount| mount.super_options).unwrap_or_default();
        // The one option that a change of anything else would set back.
        let keep: &[&str] = if options.iter().any(|option| option == "inode32") { &["inode32"] } else { &[] };
        remount::read_only_and_back(idle.point, keep)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("xfs_db", &["-r", "-c", "info"], device))
    }
}

/// struct xfs_fs_eofblocks of xfs_fs.h.
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    /// User, group and project: which files, where the flags say so.
    owners: [u32; 3],
    pad32: u32,
    /// The smallest file, where the flags say so.
    min_file_size: u64,
    pad64: [u64; 12],
}

/// `XFS_IOC_FREE_EOFBLOCKS`.
const FREE_EOFBLOCKS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<EofBlocks>(b'X', 58);
/// `XFS_EOFBLOCKS_VERSION` and `XFS_EOF_FLAGS_SYNC`: of all files, and wait for it.
const ALL_FILES: EofBlocks =
    EofBlocks { version: 1, flags: 1, owners: [0; 3], pad32: 0, min_file_size: 0, pad64: [0; 12] };

fn free_speculative_blocks(point: &Path) {
    let Ok(directory) = std::fs::File::open(point) else { return };
    // SAFETY: the kernel reads a structure of the size that the number of the call names. A kernel that does not know it
    // refuses it.
    unsafe { libc::ioctl(directory.as_raw_fd(), FREE_EOFBLOCKS as _, &ALL_FILES) };
}

/// `key=value` pairs; features are those that are 1 among the switches. The first `bsize` is the data section's.
fn parse(text: &str) -> Inspection {
    const SWITCHES: [&str; 13] = [
        "crc",
        "finobt",
        "sparse",
        "rmapbt",
        "reflink",
        "bigtime",
        "inobtcount",
        "nrext64",
        "projid32bit",
        "exchange",
        "parent",
        "ftype",
        "attr2",
    ];
    let mut inspection = Inspection::default();
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        if key == "bsize" && inspection.block_size.is_none() {
            inspection.block_size = value.parse().ok();
        }
        if value == "1" && SWITCHES.contains(&key) {
            inspection.features.push(key.to_owned());
        }
    }
    inspection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xfs_info_is_read() {
        let text = "\
meta-data=/dev/loop0             isize=512    agcount=4, agsize=19200 blks
         =                       sectsz=512   attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
data     =                       bsize=4096   blocks=76800, imaxpct=25
naming   =version 2              bsize=4097   ascii-ci=0, ftype=1
";
        let read = parse(text);
        assert_eq!(read.block_size, Some(4096));
        assert_eq!(read.features, ["projid32bit", "crc", "finobt", "sparse", "ftype"]);
        assert_eq!(parse(""), Inspection::default());
    }
}
