//! File systems of which fsb knows no more than how they are made, and any that a `mkfs.NAME` program here can make.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use super::{FileSystem, Inspection, MountRequest, Mounted, Tools};
use crate::error::TestbedError;
use crate::sys::mount as kernel;
use crate::sys::program;

/// A file system without a file of its own.
#[derive(Debug)]
pub(super) struct Other {
    name: &'static str,
    about: &'static str,
    tools: &'static Tools,
    modules: &'static [&'static str],
    helpers: &'static [&'static str],
    minimum_size: u64,
    /// It knows no owners: the mount names one.
    ownerless: bool,
    note: Option<&'static str>,
}

/// Version 3 of the format: long names, large files.
pub(super) static MINIX: Other = Other {
    name: "minix",
    about: "The Minix file system, version 3 of its format: bitmaps, no journal.",
    tools: &Tools { package: "util-linux", mkfs: "mkfs.minix", arguments: &["-3"], version: "--version", others: &[] },
    modules: &["minix"],
    helpers: &[],
    minimum_size: 1 << 20,
    ownerless: false,
    note: None,
};

/// `-I`: on a whole device too.
pub(super) static VFAT: Other = Other {
    name: "vfat",
    about: "FAT with long names: no owners, no journal.",
    tools: &Tools { package: "dosfstools", mkfs: "mkfs.vfat", arguments: &["-I"], version: "--help", others: &[] },
    modules: &["vfat"],
    helpers: &["nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8"],
    minimum_size: 1 << 20,
    ownerless: true,
    note: None,
};

pub(super) static EXFAT: Other = Other {
    name: "exfat",
    about: "exFAT, for large flash cards: no owners, no journal.",
    tools: &Tools { package: "exfatprogs", mkfs: "mkfs.exfat", arguments: &[], version: "-V", others: &[] },
    modules: &["exfat"],
    helpers: &["nls_utf8"],
    minimum_size: 2 << 20,
    ownerless: true,
    note: None,
};

/// What is said of a file system that fsb does not know.
const UNKNOWN: &str = "made with its mkfs program's own defaults: what those leave for later, fsb does not know";

/// The file system that a program `mkfs.NAME` of this machine makes; absent where there is none.
pub(super) fn by_its_program(name: &str) -> Option<&'static dyn FileSystem> {
    static FOUND: Mutex<BTreeMap<String, &'static Other>> = Mutex::new(BTreeMap::new());
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let mkfs = format!("mkfs.{name}");
    program::find(&mkfs).filter(|_| plain)?;
    // Members live as long as the program; each name is kept once.
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let member = *found.entry(name.to_owned()).or_insert_with(|| {
        let name: &'static str = name.to_owned().leak();
        let mkfs = mkfs.leak();
        let tools = Tools { package: "that brings it", mkfs, arguments: &[], version: "--version", others: &[] };
        Box::leak(Box::new(Other {
            name,
            about: "A file system that this machine can make.",
            tools: Box::leak(Box::new(tools)),
            modules: Box::leak(Box::new([name])),
            helpers: &[],
            minimum_size: 1 << 20,
            ownerless: false,
            note: Some(UNKNOWN),
        }))
    });
    Some(member)
}

impl FileSystem for Other {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(self.tools)
    }

    fn modules(&self) -> &'static [&'static str] {
        self.modules
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.helpers
    }

    fn minimum_size(&self) -> u64 {
        self.minimum_size
    }

    fn note(&self) -> Option<&'static str> {
        self.note
    }

    fn inspect(&self, _: &Path) -> Inspection {
        Inspection::default()
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let mut options = request.options.to_vec();
        if self.ownerless && !options.iter().any(|option| option.starts_with("uid=")) {
            let (uid, gid) = request.owner;
            options.extend([format!("uid={uid}"), format!("gid={gid}")]);
        }
        kernel::mount(self.name, request.source, request.point, &options)?;
        Ok(Mounted::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_here_makes_is_a_member_and_says_that_it_is_not_known() {
        // mkfs.bfs and mkfs.minix come with util-linux.
        let Some(name) = ["bfs", "cramfs"].into_iter().find(|name| program::find(&format!("mkfs.{name}")).is_some())
        else {
            return;
        };
        let member = by_its_program(name).unwrap();
        assert_eq!((member.name(), member.modules(), member.note()), (name, &[name][..], Some(UNKNOWN)));
        assert_eq!(member.tools().unwrap().mkfs, format!("mkfs.{name}"));
        assert!(std::ptr::addr_eq(member, by_its_program(name).unwrap()));
        for nonsense in ["", "../bfs", "no-such", "nosuchfs"] {
            assert!(by_its_program(nonsense).is_none(), "{nonsense}");
        }
    }
}
