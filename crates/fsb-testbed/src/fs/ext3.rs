//! ext3.

use super::ext::{self, Ext};

pub(super) static EXT3: Ext = Ext {
    name: "ext3",
    about: "ext2 with a journal: data=journal, ordered or writeback.",
    tools: &ext::tools("mkfs.ext3"),
    helpers: ext::CHECKSUMS,
    journal: true,
    older: true,
};
