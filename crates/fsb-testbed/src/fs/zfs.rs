//! ZFS: a pool of one device with one dataset, which is exported for each unmount.
//!
//! The kernel keeps an imported pool open, and its cache (ARC) filled, whether or not anything is
//! mounted. A target therefore imports its pool for each mount and exports it after each unmount,
//! which also empties the cache. The undo ledger names the pool of a killed run.

use std::ffi::OsStr;
use std::path::Path;

use fsb_model::target::last_value;
use fsb_model::units::show_bytes;
use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;
use fsb_sys::zpool::{self, Pool};
use fsb_sys::{mount as kernel, program};

use super::file_system::{
    Choice, FileSystem, Hazard, Idle, Inspection, MountRequest, Mounted, Pooled, Tools,
};
use super::option_table::OptionTable;
use crate::declared::{DeclaredOption, key};
use crate::ledger::Action;

pub(super) struct Zfs;

/// `-f`: over the signatures of other file systems. The medium has been checked before.
static TOOLS: Tools = Tools {
    package: zpool::PACKAGE,
    mkfs: zpool::PROGRAM,
    arguments: &["create", "-f"],
    version: "version",
    others: &["zfs"],
    check: &[],
};

static OPTIONS: OptionTable = OptionTable::new(include_str!("zfs.options"));

/// The property of a pool among the options. All others are those of its dataset.
const OF_POOL: &str = "ashift";

/// Properties that fsb sets, or that would mount, share or move the dataset.
const SET_BY_FSB: [&str; 9] = [
    "altroot",
    "bootfs",
    "cachefile",
    "canmount",
    "keylocation",
    "mountpoint",
    "readonly",
    "sharenfs",
    "sharesmb",
];

impl FileSystem for Zfs {
    fn name(&self) -> &'static str {
        "zfs"
    }

    fn about(&self) -> &'static str {
        "OpenZFS: copy on write, checksums, compression, a cache of its own; a module beside the kernel."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["zfs"]
    }

    fn module_advice(&self) -> Option<&'static str> {
        Some(
            "its module is not part of Linux: apt-get install zfs-dkms linux-headers-$(uname -r) (Debian: contrib)",
        )
    }

    fn why_not_warm(&self, options: &[String]) -> Option<String> {
        let value = last_value(options, "primarycache").filter(|value| *value != "all")?;
        Some(format!(
            "never warm with primarycache={value}: the cache holds no data"
        ))
    }

    fn pooled(&self) -> Option<&'static dyn Pooled> {
        Some(&Zfs)
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn mount_options(&self, options: &[String]) -> Vec<String> {
        let flags = options.iter().filter(|option| !option.contains('='));
        flags.cloned().collect()
    }

    fn choices(&self) -> &'static [Choice] {
        const CHOICES: &[Choice] = &[
            Choice::mount(&["recordsize=16k"], "small records need no whole block")
                .sort("recordsize"),
            Choice::mount(&["recordsize=1M"], "large files need fewer blocks").sort("recordsize"),
            Choice::mount(&["compression=off"], "no time is spent on compression")
                .sort("compression"),
            Choice::mount(&["compression=zstd"], "less data reaches the device")
                .sort("compression"),
            Choice::mount(&["atime=off"], "reads write no access times"),
            Choice::mount(&["logbias=throughput"], "synced data is written once"),
            Choice::mount(&["dnodesize=auto"], "attributes fit into the inode"),
            Choice::mount(&["sync=disabled"], "fsync does not wait for the device"),
        ];
        CHOICES
    }

    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["sync=disabled"])];
        HAZARDS
    }

    /// The smallest device of a pool (SPA_MINDEVSIZE).
    fn minimum_size(&self) -> u64 {
        64 << 20
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        let refused = |option: &str, why: &str| {
            TestbedError::request(format!("zfs refuses '{option}'"))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", option)
                .tried(why)
                .advice("'fsb list file-systems zfs' shows its options")
        };
        let of_spec = spec.options.iter().filter(|option| option.contains('='));
        // zpool(8): `-o` sets a property of the pool, `-O` one of its dataset, `-d` no features.
        let mut properties: Vec<&str> = of_spec.map(String::as_str).collect();
        let mut words = spec.mkfs.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-d" => {}
                "-o" | "-O" => properties.extend(words.next().map(String::as_str)),
                _ => {
                    return Err(refused(
                        word,
                        "mkfs= takes -d, '-o PROPERTY=VALUE' and '-O PROPERTY=VALUE' of zpool create",
                    ));
                }
            }
        }
        match properties
            .iter()
            .find(|property| SET_BY_FSB.contains(&key(property)))
        {
            Some(property) => Err(refused(property, "fsb sets it itself")),
            None => Ok(()),
        }
    }

    /// The pool is exported here, so its properties are unknown. [`Pooled::make`] reads them.
    fn inspect(&self, _: &Path) -> Inspection {
        Inspection::default()
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let pool = Pool::of_device(request.source)?;
        pool.import()?;
        let options = self.mount_options(request.options);
        match kernel::mount(self.name(), Path::new(pool.name()), request.point, &options) {
            Ok(()) => Ok(Mounted {
                pool: Some(pool),
                ..Mounted::default()
            }),
            Err(error) => {
                // The first error is the one that explains.
                let _ = pool.export();
                Err(error)
            }
        }
    }

    /// Writes out the transaction group, which a syncfs leaves to a later one.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let pool = Pool::of_device(idle.source)?;
        let words = ["sync", pool.name()];
        zpool::succeeded(&words, &zpool::run(&words)?)
    }

    fn magic(&self) -> Option<u64> {
        /// ZFS_SUPER_MAGIC of OpenZFS.
        const MAGIC: u64 = 0x2fc1_2fc1;
        Some(MAGIC)
    }
}

impl Pooled for Zfs {
    fn make(
        &self,
        device: &Path,
        options: &[String],
        arguments: &[String],
    ) -> Result<(Vec<String>, Inspection), TestbedError> {
        let pool = Pool::of_device(device)?;
        pool.make_node()?;
        let node = pool.node();
        let words = create_words(pool.name(), options, arguments);
        let mut all: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        all.push(node.as_os_str());
        zpool::succeeded(&all, &zpool::run(&all)?).map_err(|error| TestbedError {
            // The user knows the device by another name than that of the pool's node.
            tried: error
                .tried
                .replace(&*node.to_string_lossy(), &device.to_string_lossy()),
            ..error
        })?;
        let inspection = inspect_pool(pool.name());
        pool.export()?;
        let command = [zpool::PROGRAM.to_owned()].into_iter().chain(words);
        let command = command.chain([device.to_string_lossy().into_owned()]);
        Ok((command.collect(), inspection))
    }

    fn close_action(&self, device: &Path) -> Result<Action, TestbedError> {
        let number = Pool::of_device(device)?.number();
        Ok(Action::ExportPool {
            major: number.0,
            minor: number.1,
        })
    }
}

/// Returns the words of `zpool create` with the defaults of a pool that a user makes; the device
/// follows. The pool is mounted like other file systems and is not imported at boot.
fn create_words(name: &str, options: &[String], arguments: &[String]) -> Vec<String> {
    let mut words: Vec<String> = TOOLS
        .arguments
        .iter()
        .chain(&["-o", "cachefile=none", "-O", "mountpoint=legacy"])
        .map(|word| (*word).to_owned())
        .collect();
    for option in options.iter().filter(|option| option.contains('=')) {
        let letter = if key(option) == OF_POOL { "-o" } else { "-O" };
        words.extend([letter.to_owned(), option.clone()]);
    }
    words.extend_from_slice(arguments);
    words.push(name.to_owned());
    words
}

/// Reads features and properties of an imported pool.
fn inspect_pool(name: &str) -> Inspection {
    let ask = |program: &str, what: &str| {
        let words = ["get", "-H", "-p", "-o", "property,value", what, name].map(OsStr::new);
        program::ask(program, &words).unwrap_or_default()
    };
    let of_device = [
        "get",
        "-H",
        "-p",
        "-o",
        "value",
        "ashift",
        name,
        "all-vdevs",
    ];
    let ashift = program::ask(zpool::PROGRAM, &of_device.map(OsStr::new)).unwrap_or_default();
    parse(&ask(zpool::PROGRAM, "all"), &ask("zfs", "all"), &ashift)
}

/// The properties of the dataset that decide how data is stored.
const STORED: [&str; 11] = [
    "recordsize",
    "compression",
    "checksum",
    "sync",
    "logbias",
    "primarycache",
    "dedup",
    "copies",
    "dnodesize",
    "xattr",
    "direct",
];

/// Parses the output of `zpool get` and `zfs get` with `-H -p -o property,value all`, and that of
/// `zpool get -o value ashift` for all devices, of which the last has blocks.
fn parse(pool: &str, dataset: &str, ashift: &str) -> Inspection {
    let pairs = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect()
    };
    let features = pairs(pool).into_iter().filter_map(|(name, value)| {
        let feature = name.strip_prefix("feature@")?;
        ["enabled", "active"]
            .contains(&value.as_str())
            .then(|| feature.to_owned())
    });
    let profiles = pairs(dataset).into_iter().filter_map(|(name, value)| {
        let value = match (name.as_str(), value.parse::<u64>()) {
            ("recordsize", Ok(bytes)) => show_bytes(bytes as f64),
            _ => value,
        };
        STORED.contains(&name.as_str()).then_some((name, value))
    });
    let mut shifts = ashift.lines().filter_map(|line| line.trim().parse().ok());
    let block_size = shifts.next_back().and_then(|shift| 1u64.checked_shl(shift));
    Inspection {
        features: features.collect(),
        geometry: Geometry {
            block_size: block_size.filter(|bytes| *bytes > 1),
            profiles: profiles.collect(),
            ..Geometry::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn properties_of_pool_and_dataset_are_set_when_the_pool_is_made() {
        let options = words("recordsize=16k noatime ashift=12 sync=disabled");
        let made = create_words("fsb-7-0", &options, &words("-o autotrim=on"));
        assert_eq!(
            made.join(" "),
            "create -f -o cachefile=none -O mountpoint=legacy -O recordsize=16k -o ashift=12 \
             -O sync=disabled -o autotrim=on fsb-7-0"
        );
        assert_eq!(Zfs.mount_options(&options), ["noatime"]);
    }

    fn refusal(target: &str) -> Option<String> {
        let target: fsb_model::Target = target.parse().unwrap();
        let spec = target.file_system().unwrap();
        crate::fs::check(&Zfs, spec)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn properties_that_reach_beyond_the_target_are_refused() {
        for target in [
            "zfs,mountpoint=/srv",
            r#"zfs,mkfs="-O mountpoint=/srv""#,
            r#"zfs,mkfs="-o altroot=/srv""#,
            r#"zfs,mkfs="-m /srv""#,
            r#"zfs,mkfs="mirror""#,
            "zfs,recordsize=1",
            "zfs,sync=disable",
        ] {
            assert!(refusal(target).is_some(), "{target}");
        }
        for target in [
            "zfs",
            "zfs,recordsize=16k,compression=zstd-5,sync,noatime",
            r#"zfs,atime=off,mkfs="-d -o feature@lz4_compress=enabled -O overlay=off""#,
        ] {
            assert_eq!(refusal(target), None, "{target}");
        }
    }

    #[test]
    fn data_is_never_warm_in_a_cache_for_metadata() {
        assert_eq!(Zfs.why_not_warm(&words("recordsize=16k")), None);
        assert_eq!(Zfs.why_not_warm(&words("primarycache=all")), None);
        let why = Zfs.why_not_warm(&words("primarycache=metadata")).unwrap();
        assert!(why.contains("primarycache=metadata"), "{why}");
    }

    #[test]
    fn the_output_of_the_tools_is_read() {
        let pool = "size\t1006632960\nhealth\tONLINE\nfeature@async_destroy\tenabled\n\
            feature@lz4_compress\tactive\nfeature@edonr\tdisabled\n";
        let dataset = "type\tfilesystem\nrecordsize\t131072\ncompression\ton\nsync\tstandard\n\
            mountpoint\tlegacy\n";
        let read = parse(pool, dataset, "-\n12\n");
        assert_eq!(read.features, ["async_destroy", "lz4_compress"]);
        assert_eq!(read.geometry.block_size, Some(4096));
        let profiles: Vec<_> = read.geometry.profiles.into_iter().collect();
        let expected = [
            ("compression", "on"),
            ("recordsize", "128 KiB"),
            ("sync", "standard"),
        ];
        assert_eq!(
            profiles,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(parse("", "", ""), Inspection::default());
    }
}
