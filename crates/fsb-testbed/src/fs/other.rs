//! File systems that fsb can make but knows little about, and any that a `mkfs.NAME` program of
//! this machine can make.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use fsb_model::Geometry;
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;
use fsb_sys::program;

use super::file_system::{
    Cause, FileSystem, Hazard, Inspection, MountRequest, Mounted, Tools, bytes_at,
};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

/// A file system without a file of its own.
#[derive(Debug)]
pub(super) struct Other {
    name: &'static str,
    about: &'static str,
    tools: &'static Tools,
    modules: &'static [&'static str],
    helpers: &'static [&'static str],
    minimum_size: u64,
    /// Whether it stores no owners. The mount then names one.
    ownerless: bool,
    note: Option<&'static str>,
    hazards: &'static [Hazard],
    /// See [`FileSystem::options`].
    options: Option<&'static OptionTable>,
    /// Reads the geometry from the unmounted device.
    geometry: fn(&Path) -> Geometry,
    /// Arguments that give a slice the geometry of a large disk; see [`FileSystem::fit`].
    fit: fn(&Geometry, &[String]) -> Vec<String>,
}

static NO_JOURNAL: &[Hazard] = &[Hazard::no_journal(Cause::Format("no journal"))];

/// Version 3 of the format: long names, large files.
pub(super) static MINIX: Other = Other {
    name: "minix",
    about: "The Minix file system, version 3 of its format: bitmaps, no journal.",
    tools: &Tools {
        package: "util-linux",
        mkfs: "mkfs.minix",
        arguments: &["-3"],
        version: "--version",
        others: &[],
        check: &["fsck.minix", "-f"],
    },
    modules: &["minix"],
    helpers: &[],
    minimum_size: 1 << 20,
    ownerless: false,
    note: None,
    hazards: NO_JOURNAL,
    options: None,
    geometry: |_| Geometry::default(),
    fit: |_, _| Vec::new(),
};

/// `-I`: also on a whole device.
pub(super) static VFAT: Other = Other {
    name: "vfat",
    about: "FAT with long names: no owners, no journal.",
    tools: &Tools {
        package: "dosfstools",
        mkfs: "mkfs.vfat",
        arguments: &["-I"],
        version: "--help",
        others: &[],
        check: &["fsck.fat", "-n"],
    },
    modules: &["vfat"],
    helpers: &["nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8"],
    minimum_size: 1 << 20,
    ownerless: true,
    note: None,
    hazards: NO_JOURNAL,
    options: Some(&VFAT_OPTIONS),
    geometry: fat_geometry,
    fit: fat_fit,
};

pub(super) static EXFAT: Other = Other {
    name: "exfat",
    about: "exFAT, for large flash cards: no owners, no journal.",
    tools: &Tools {
        package: "exfatprogs",
        mkfs: "mkfs.exfat",
        arguments: &[],
        version: "-V",
        others: &[],
        check: &["fsck.exfat", "-n"],
    },
    modules: &["exfat"],
    helpers: &["nls_utf8"],
    minimum_size: 2 << 20,
    ownerless: true,
    note: None,
    hazards: NO_JOURNAL,
    options: Some(&EXFAT_OPTIONS),
    geometry: exfat_geometry,
    fit: cluster_size,
};

/// Returns the size of a cluster and the width of the table, from the boot sector (Microsoft, FAT32
/// File System Specification, 1.03). The bytes of a sector are at 11, and the sectors of a cluster
/// at 13. At 22 are the sectors of a table of 12 or 16 bits, 0 on FAT32.
fn fat_geometry(device: &Path) -> Geometry {
    let Some(boot) = bytes_at::<24>(device, 0) else {
        return Geometry::default();
    };
    let number = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    let (cluster, is_32) = (number(11) * u64::from(boot[13]), number(22) == 0);
    let width = if is_32 { "32" } else { "12 or 16" };
    Geometry {
        block_size: Some(cluster).filter(|size| *size > 0),
        profiles: [("fat bits".to_owned(), width.to_owned())].into(),
        ..Geometry::default()
    }
}

/// mkfs.vfat chooses FAT16 below 512 MiB, and larger clusters on larger devices.
fn fat_fit(large: &Geometry, user: &[String]) -> Vec<String> {
    const SECTOR: u64 = 512;
    let decided = |letter: &str| user.iter().any(|word| word.starts_with(letter));
    let mut arguments = Vec::new();
    if large
        .profiles
        .get("fat bits")
        .is_some_and(|bits| bits == "32")
        && !decided("-F")
    {
        arguments.extend(["-F".to_owned(), "32".to_owned()]);
    }
    if let Some(size) = large
        .block_size
        .filter(|_| !decided("-s") && !decided("-S"))
    {
        arguments.extend(["-s".to_owned(), (size / SECTOR).to_string()]);
    }
    arguments
}

/// Clusters, from the boot sector: logarithms of a sector's bytes at 108 and of a cluster's sectors
/// at 109 (Microsoft, exFAT File System Specification, 2019, section 3.1).
fn exfat_geometry(device: &Path) -> Geometry {
    let shifts = bytes_at::<2>(device, 108)
        .filter(|[sector, cluster]| (9..=12).contains(sector) && *cluster <= 25);
    Geometry {
        block_size: shifts.map(|[sector, cluster]| 1 << (sector + cluster)),
        ..Geometry::default()
    }
}

/// mkfs.exfat and mkntfs choose larger clusters on larger devices.
pub(super) fn cluster_size(large: &Geometry, user: &[String]) -> Vec<String> {
    let decided = user
        .iter()
        .any(|word| word.starts_with("-c") || word.starts_with("--cluster-size"));
    let size = large.block_size.filter(|_| !decided);
    size.map_or_else(Vec::new, |size| vec!["-c".to_owned(), size.to_string()])
}

/// The note for a file system that fsb does not know.
const UNKNOWN: &str =
    "formatted with the defaults of its mkfs program: fsb does not know their deferred work";

/// Returns the file system that a program `mkfs.NAME` of this machine makes. Returns `None` if that
/// program is missing.
pub(super) fn by_its_program(name: &str) -> Option<&'static dyn FileSystem> {
    static FOUND: Mutex<BTreeMap<String, &'static Other>> = Mutex::new(BTreeMap::new());
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let mkfs = format!("mkfs.{name}");
    program::find(&mkfs).filter(|_| plain)?;
    // File systems live as long as the program. Each name is leaked only once.
    let mut found = FOUND
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let member = *found.entry(name.to_owned()).or_insert_with(|| {
        let name: &'static str = name.to_owned().leak();
        let mkfs = mkfs.leak();
        let tools = Tools {
            package: "that contains it",
            mkfs,
            arguments: &[],
            version: "--version",
            others: &[],
            check: &[],
        };
        Box::leak(Box::new(Other {
            name,
            about: "A file system that this machine can make.",
            tools: Box::leak(Box::new(tools)),
            modules: Box::leak(Box::new([name])),
            helpers: &[],
            minimum_size: 1 << 20,
            ownerless: false,
            note: Some(UNKNOWN),
            hazards: &[],
            options: None,
            geometry: |_| Geometry::default(),
            fit: |_, _| Vec::new(),
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

    fn options(&self) -> &'static [DeclaredOption] {
        self.options.map_or(&[], |table| table)
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

    fn hazards(&self) -> &'static [Hazard] {
        self.hazards
    }

    fn note(&self) -> Option<&'static str> {
        self.note
    }

    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        (self.fit)(large, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        Inspection {
            features: Vec::new(),
            geometry: (self.geometry)(device),
        }
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

static VFAT_OPTIONS: OptionTable = OptionTable::new(include_str!("vfat.options"));

static EXFAT_OPTIONS: OptionTable = OptionTable::new(include_str!("exfat.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mkfs_program_without_a_table_is_an_unknown_member() {
        // mkfs.bfs and mkfs.minix come with util-linux.
        let Some(name) = ["bfs", "cramfs"]
            .into_iter()
            .find(|name| program::find(&format!("mkfs.{name}")).is_some())
        else {
            return;
        };
        let member = by_its_program(name).unwrap();
        assert_eq!(
            (member.name(), member.modules(), member.note()),
            (name, &[name][..], Some(UNKNOWN))
        );
        assert_eq!(member.tools().unwrap().mkfs, format!("mkfs.{name}"));
        assert!(std::ptr::addr_eq(member, by_its_program(name).unwrap()));
        for nonsense in ["", "../bfs", "no-such", "nosuchfs"] {
            assert!(by_its_program(nonsense).is_none(), "{nonsense}");
        }
    }
}
