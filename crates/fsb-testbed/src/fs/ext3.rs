//! ext3.

use super::ext::{self, Ext};
use super::file_system::Choice;

pub(super) static EXT3: Ext = Ext {
    name: "ext3",
    about: "ext2 with a journal: data=journal, ordered or writeback.",
    tools: &ext::tools("mkfs.ext3"),
    helpers: ext::CHECKSUMS,
    journal: true,
    older: true,
    choices: CHOICES,
    hazards: ext::HAZARDS,
};

/// From Documentation/filesystems/ext3.rst and ext4(5), whose driver serves it.
static CHOICES: &[Choice] = &[
    Choice::mount(&["noatime"], "reads write no access times"),
    Choice::mount(&["data=journal"], "data goes to the journal first: one place to write, at fsync").sort("data"),
    Choice::mount(&["data=writeback"], "a commit does not wait for the data of its files").sort("data"),
    Choice::mount(&["commit=60"], "the journal is committed every 60 s, not every 5")
        .risky("a crash loses up to a minute of unsynced changes"),
    Choice::mkfs(&["-J", "size=64"], "a journal of 64 MiB is checkpointed less often"),
    Choice::mkfs(&["-i", "65536"], "a fourth of the inodes: fewer tables to read and write"),
    Choice::mount(&["barrier=0"], "the disk's cache is not flushed"),
];
