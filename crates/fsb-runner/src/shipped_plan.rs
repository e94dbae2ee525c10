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
}

macro_rules! shipped {
    ($($name:literal: $about:literal,)*) => {
        &[$(ShippedPlan { name: $name, about: $about, text: include_str!(concat!("../plans/", $name)) }),*]
    };
}

/// Every plan that is shipped.
pub static REGISTRY: &[ShippedPlan] = shipped! {
    "benas-directio.toml": "Beňas 2011: IOzone's operations with O_DIRECT on five file systems.",
    "benas-incache.toml": "Beňas 2011: IOzone's operations within memory on five file systems.",
    "benas-outofcache.toml": "Beňas 2011: IOzone's operations on files that do not fit in memory.",
    "benas-postmark.toml": "Beňas 2011: PostMark on four file systems.",
    "benas-short.toml": "Beňas 2011 in ten minutes: IOzone's thirteen operations, remounted, on two sizes of files.",
    "benas-tuned.toml": "Beňas 2011: file systems with tuned options beside their defaults.",
    "build.toml": "Your own work: make and the compiler, on 200 sources.",
    "copies.toml": "Your own work: tar and rsync pack, unpack and copy a tree.",
    "database.toml": "Example: small durable random I/O, as a database does it.",
    "dordevic-short.toml": "Đorđević et al. in ten minutes: PostMark's three tests on a sixteenth of the files.",
    "dordevic.toml": "Đorđević et al.: PostMark's three tests on ext2, ext3 in its three modes, and ReiserFS.",
    "fedorchuk-short.toml": "Fedorchuk 2008 in ten minutes: copying and deleting smaller trees, on a partition.",
    "fedorchuk.toml": "Fedorchuk 2008: copying and deleting trees of files, RAID-0 included.",
    "git.toml": "Your own work: git clones, looks for changes, and packs.",
    "horvath-incache.toml": "Horváth 2006: IOzone's thirteen operations within memory on the same four file systems.",
    "horvath-nfs.toml": "Horváth 2006: IOzone's thirteen operations over NFS, with close inside the clock.",
    "horvath-short.toml": "Horváth 2006 in ten minutes: IOzone's thirteen operations on 128 MiB with 96 MiB of memory.",
    "horvath.toml": "Horváth 2006: IOzone's thirteen operations on ext3, JFS, ReiserFS and xfs.",
    "journal-modes.toml": "Example: ext2, and ext3 with each mode of its journal.",
    "pokorny-short.toml": "Pokorný 2023 in ten minutes: an eighth of the iterations and cycles.",
    "pokorny.toml": "Pokorný 2023: creating, reading and writing in cycles on ext2, ext4, btrfs and NTFS.",
    "postgresql.toml": "Your own work: PostgreSQL under pgbench, TPC-B and reads.",
    "sqlite.toml": "Your own work: SQLite's durable inserts with each kind of log, and reads.",
};

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
