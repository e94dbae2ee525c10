//! NILFS2.

use std::path::Path;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;

use super::file_system::{FileSystem, Hazard, Inspection, Tools, ask_about};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Nilfs2;

/// `-K`: no discard.
static TOOLS: Tools = Tools {
    package: "nilfs-tools",
    mkfs: "mkfs.nilfs2",
    arguments: &["-f", "-q", "-K"],
    version: "-V",
    others: &["nilfs-tune"],
    check: &[],
};

impl FileSystem for Nilfs2 {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    /// From Documentation/filesystems/nilfs2.rst of Linux.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["nobarrier"])];
        HAZARDS
    }

    fn name(&self) -> &'static str {
        "nilfs2"
    }

    fn about(&self) -> &'static str {
        "One continuous log with snapshots. Its cleaner does not run here."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["nilfs2"]
    }

    /// Only mount.nilfs2 starts the cleaner, `nilfs_cleanerd`. fsb mounts with the kernel alone, so
    /// that no cleaner runs during a measurement.
    fn note(&self) -> Option<&'static str> {
        Some(
            "nilfs2 runs without its cleaner: space freed within a sequential trial stays occupied",
        )
    }

    /// Sixteen segments of 8 MiB, and the superblocks.
    fn minimum_size(&self) -> u64 {
        129 << 20
    }

    /// Refuses the options of mount.nilfs2, which the kernel does not know.
    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        match spec.options.iter().find(|option| {
            ["pp", "nogc", "gcpid"].contains(&option.split('=').next().unwrap_or_default())
        }) {
            None => Ok(()),
            Some(option) => Err(TestbedError::request(format!(
                "nilfs2: the option {option} is for its cleaner"
            ))
            .tried("mount.nilfs2 passes it to nilfs_cleanerd, which fsb does not run")
            .advice("leave it out")),
        }
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("nilfs-tune", &["-l"], device))
    }
}

fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let features = [
        "Filesystem features:",
        "Filesystem compat_ro features:",
        "Filesystem incompat features:",
    ]
    .into_iter()
    .filter_map(value)
    .flat_map(str::split_whitespace)
    .filter(|word| *word != "(none)");
    Inspection {
        features: features.map(str::to_owned).collect(),
        geometry: Geometry {
            block_size: value("Block size:").and_then(|number| number.parse().ok()),
            ..Geometry::default()
        },
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("nilfs2.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_cleaner_are_refused() {
        let check = |text: &str| {
            Nilfs2.check(
                text.parse::<fsb_model::Target>()
                    .unwrap()
                    .file_system()
                    .unwrap(),
            )
        };
        for text in ["nilfs2,pp=60", "nilfs2,nogc"] {
            let error = check(text).unwrap_err();
            assert!(
                error.kind == crate::Kind::Request && error.to_string().contains("cleaner"),
                "{error}"
            );
        }
        assert_eq!(check("nilfs2,order=strict,nobarrier"), Ok(()));
    }

    #[test]
    fn nilfs_tune_is_read() {
        let text = "nilfs-tune 2.2.9\nFilesystem volume name:\t  (none)\nFilesystem revision #:\t  2.0\n\
            Filesystem features:      (none)\nBlock size:\t\t  4096\nBlocks per segment:\t  2048\n";
        let read = parse(text);
        assert_eq!(read.geometry.block_size, Some(4096));
        assert!(read.features.is_empty());
        assert_eq!(
            parse("Filesystem features:\t  block_count\n").features,
            ["block_count"]
        );
        assert_eq!(parse(""), Inspection::default());
    }
}
