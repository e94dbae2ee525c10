//! Plans that come with the program: the published works, and examples to start from.
//!
//! They are the files of the folder `plans/`, embedded, so that the binary alone can run them.

/// A plan that can be run by its name.
#[derive(Debug)]
pub struct ShippedPlan {
    /// The name of its file.
    pub name: &'static str,
    /// One line for `fsb list plans`.
    pub about: &'static str,
    /// The plan as it is written.
    pub text: &'static str,
    /// Whether it is a preset: the work of a program, of which other targets can be named.
    pub is_preset: bool,
}

impl ShippedPlan {
    /// Returns its name for `--preset`, without the ending.
    pub fn preset(&self) -> &'static str {
        self.name.strip_suffix(".toml").unwrap_or(self.name)
    }
}

macro_rules! shipped {
    ($($kind:ident $name:literal: $about:literal,)*) => {
        &[$(ShippedPlan {
            name: $name,
            about: $about,
            text: include_str!(concat!("../plans/", $name)),
            is_preset: shipped!(@ $kind),
        }),*]
    };
    (@ plan) => { false };
    (@ preset) => { true };
}

/// Every plan that is shipped.
pub static REGISTRY: &[ShippedPlan] = shipped! {
    preset "backup.toml": "tar and rsync: pack, unpack and copy a tree.",
    plan "benas-directio.toml": "Beňas 2011: IOzone's operations with O_DIRECT on five file systems.",
    plan "benas-incache.toml": "Beňas 2011: IOzone's operations within memory on five file systems.",
    plan "benas-outofcache.toml": "Beňas 2011: IOzone's operations on files that do not fit in memory.",
    plan "benas-postmark.toml": "Beňas 2011: PostMark on four file systems.",
    plan "benas-short.toml": "Beňas 2011 in ten minutes: IOzone's thirteen operations, remounted, on two sizes of files.",
    plan "benas-tuned.toml": "Beňas 2011: file systems with tuned options beside their defaults.",
    preset "build.toml": "make and the compiler: 200 sources, and nothing to do.",
    preset "checkpoint.toml": "Training: large files written and made durable, alone and by eight ranks.",
    plan "database.toml": "Example: small durable random I/O, as a database does it.",
    plan "dordevic-short.toml": "Đorđević et al. in ten minutes: PostMark's three tests on a sixteenth of the files.",
    plan "dordevic.toml": "Đorđević et al.: PostMark's three tests on ext2, ext3 in its three modes, and ReiserFS.",
    preset "dpkg.toml": "dpkg: a package of 200 files, with its syncs and with force-unsafe-io.",
    preset "etcd.toml": "etcd: its log with the documented bound of 10 ms, and puts to a server.",
    plan "fedorchuk-short.toml": "Fedorchuk 2008 in ten minutes: copying and deleting smaller trees, on a partition.",
    plan "fedorchuk.toml": "Fedorchuk 2008: copying and deleting trees of files, RAID-0 included.",
    preset "git.toml": "git: clone, status with cold caches, and gc.",
    plan "horvath-incache.toml": "Horváth 2006: IOzone's thirteen operations within memory on the same four file systems.",
    plan "horvath-nfs.toml": "Horváth 2006: IOzone's thirteen operations over NFS, with close inside the clock.",
    plan "horvath-short.toml": "Horváth 2006 in ten minutes: IOzone's thirteen operations on 128 MiB with 96 MiB of memory.",
    plan "horvath.toml": "Horváth 2006: IOzone's thirteen operations on ext3, JFS, ReiserFS and xfs.",
    preset "image-unpack.toml": "Container images: layers unpacked, and first reads.",
    plan "journal-modes.toml": "Example: ext2, and ext3 with each mode of its journal.",
    preset "lmdb.toml": "LMDB: durable transactions of a hundred records.",
    preset "mail.toml": "Mail server: deliveries with fsync, and PostMark's mixture.",
    preset "model-load.toml": "Models: weights mapped, read, and read past the page cache.",
    preset "mysql.toml": "MariaDB: durable inserts into InnoDB with two flush methods.",
    preset "npm.toml": "npm: install packages, read node_modules, remove it.",
    preset "pip.toml": "pip and Python: install wheels, import modules.",
    plan "pokorny-short.toml": "Pokorný 2023 in ten minutes: an eighth of the iterations and cycles.",
    plan "pokorny.toml": "Pokorný 2023: creating, reading and writing in cycles on ext2, ext4, btrfs and NTFS.",
    preset "postgresql.toml": "PostgreSQL: pgbench's TPC-B, and reads.",
    preset "redis.toml": "Redis: sets with appendfsync always and everysec.",
    preset "rocksdb.toml": "RocksDB: durable puts, compactions, and random reads.",
    preset "sqlite.toml": "SQLite: durable inserts with two kinds of log, and reads.",
    preset "thumbnails.toml": "Caches of small files: written and renamed, read at random, removed.",
};

/// Returns the presets, in alphabetical order.
pub fn presets() -> impl Iterator<Item = &'static ShippedPlan> {
    REGISTRY.iter().filter(|plan| plan.is_preset)
}

/// Returns the preset of this name.
pub fn preset(name: &str) -> Option<&'static ShippedPlan> {
    presets().find(|plan| plan.preset() == name)
}

/// Returns the plan of this name, with or without the folder that it has in the source.
pub fn find(path: &str) -> Option<&'static ShippedPlan> {
    let name = path.strip_prefix("plans/").unwrap_or(path);
    REGISTRY.iter().find(|plan| plan.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_shipped() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/plans");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let names: Vec<&str> = REGISTRY.iter().map(|plan| plan.name).collect();
        assert_eq!(
            names, files,
            "a plan is one file in plans/ and one line in REGISTRY, in alphabetical order"
        );
    }

    #[test]
    fn a_plan_is_found_by_its_name_and_by_its_path_in_the_source() {
        assert_eq!(find("plans/database.toml").unwrap().name, "database.toml");
        assert_eq!(find("database.toml").unwrap().name, "database.toml");
        assert!(find("elsewhere/database.toml").is_none() && find("database").is_none());
    }
}
