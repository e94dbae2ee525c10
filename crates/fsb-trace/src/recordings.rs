//! Recordings of programs that come with fsb: the files of `testdata/programs` that presets replay.
//!
//! A new one is one file and one line in [`REGISTRY`]. `docs/programs.md` describes what the
//! programs ask of a file system.

/// The prefix of a recording's name where a workload names a trace.
pub const PREFIX: &str = "recording:";

/// A trace that is part of the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Recording {
    /// The program and its mode: `sqlite-wal-full`.
    pub name: &'static str,
    /// The trace.
    pub bytes: &'static [u8],
}

macro_rules! recordings {
    ($($name:literal,)*) => {
        &[$(Recording {
            name: $name,
            bytes: include_bytes!(concat!("../programs/", $name, ".trace")),
        }),*]
    };
}

/// Every recording that is part of the program.
pub static REGISTRY: &[Recording] = recordings! {
    "dpkg-install",
    "dpkg-install-unsafe-io",
    "etcd-put",
    "git-add",
    "git-gc",
    "lmdb-default",
    "mariadb-default",
    "mariadb-fsync",
    "npm-install",
    "pip-install",
    "postgresql-fdatasync",
    "postgresql-full-page-writes-off",
    "redis-always",
    "redis-everysec",
    "rocksdb-no-sync",
    "rocksdb-sync",
    "rsync-archive",
    "sqlite-delete-full",
    "sqlite-wal-full",
    "tar-create",
    "tar-extract",
};

/// Returns the recording of a name such as `recording:sqlite-wal-full`.
pub fn find(text: &str) -> Option<&'static Recording> {
    let name = text.strip_prefix(PREFIX)?;
    REGISTRY.iter().find(|recording| recording.name == name)
}

/// Returns all of them as a workload names them.
pub fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for recording in REGISTRY {
        texts.push(format!("{PREFIX}{}", recording.name));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Skimmed;

    /// LMDB maps its file of locks, and SQLite the index of its log, which cause no work for a
    /// device. MariaDB writes pages through io_uring, which its cases say.
    const INCOMPLETE: [&str; 4] = [
        "lmdb-default",
        "mariadb-default",
        "mariadb-fsync",
        "sqlite-wal-full",
    ];

    #[test]
    fn every_recording_can_be_replayed_and_its_gaps_are_known() {
        for recording in REGISTRY {
            let skimmed = Skimmed::read(std::io::Cursor::new(recording.bytes)).unwrap();
            assert!(skimmed.totals.replayed > 0, "{}", recording.name);
            assert_eq!(
                !skimmed.totals.incomplete.is_empty(),
                INCOMPLETE.contains(&recording.name),
                "{}: {:?}",
                recording.name,
                skimmed.totals.incomplete
            );
            assert_eq!(
                find(&format!("{PREFIX}{}", recording.name)),
                Some(recording)
            );
        }
        assert_eq!(find("sqlite-wal-full"), None);
    }
}
