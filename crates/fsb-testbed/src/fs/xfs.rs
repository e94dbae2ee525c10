//! XFS.

use std::path::Path;

use super::{FileSystem, Inspection, Tools, ask_about};

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

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("xfs_db", &["-r", "-c", "info"], device))
    }
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
