//! ext4.

use super::ext::{self, Ext};
use super::file_system::Choice;

pub(super) static EXT4: Ext = Ext {
    name: "ext4",
    about: "The fourth extended file system: extents, delayed allocation, checksums.",
    tools: &ext::tools("mkfs.ext4"),
    helpers: ext::CHECKSUMS,
    journal: true,
    older: false,
    choices: CHOICES,
    hazards: ext::HAZARDS,
};

/// From ext4(5), mke2fs(8) and Documentation/admin-guide/ext4.rst of Linux.
static CHOICES: &[Choice] = &[
    Choice::mount(&["noatime"], "reads write no access times"),
    Choice::mount(&["lazytime"], "times of files stay in memory for up to a day"),
    Choice::mount(&["data=journal"], "data goes to the journal first: one place to write, at fsync").sort("data"),
    Choice::mount(&["data=writeback"], "a commit does not wait for the data of its files").sort("data"),
    Choice::mount(&["commit=60"], "the journal is committed every 60 s, not every 5")
        .risky("a crash loses up to a minute of unsynced changes"),
    Choice::mount(&["nodelalloc"], "blocks are allocated at the write, not at writeback").sort("allocation"),
    Choice::mount(&["nodioread_nolock"], "no unwritten extents to convert after each write").sort("allocation"),
    Choice::mount(&["max_batch_time=0"], "fsync does not wait for others to join its commit"),
    Choice::mount(&["inode_readahead_blks=128"], "four times as many inode blocks are read ahead"),
    Choice::mount(&["stripe=16"], "allocation in groups of 64 KiB"),
    Choice::mkfs(&["-O", "fast_commit"], "fsync logs what changed, not whole blocks of metadata").sort("journal"),
    Choice::mkfs(&["-J", "size=64"], "a journal of 64 MiB is checkpointed less often").sort("journal"),
    Choice::mkfs(&["-O", "bigalloc", "-C", "65536"], "space in clusters of 64 KiB: less metadata for large files"),
    Choice::mkfs(&["-O", "inline_data", "-I", "1024"], "files below some 800 bytes are stored in their inodes")
        .sort("inodes"),
    Choice::mkfs(&["-I", "512"], "inodes of 512 bytes hold more attributes").sort("inodes"),
    Choice::mkfs(&["-i", "65536"], "a fourth of the inodes: fewer tables to read and write"),
    Choice::mkfs(&["-O", "^has_journal"], "nothing is written twice").sort("journal"),
    Choice::mkfs(&["-O", "^metadata_csum"], "no checksums of metadata").risky("damaged metadata goes unnoticed"),
    Choice::mount(&["journal_async_commit"], "the commit block does not wait for the others")
        .risky("only checksums detect an incomplete commit"),
    Choice::mount(&["barrier=0"], "the disk's cache is not flushed"),
];
