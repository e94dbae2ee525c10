//! Features that newer mkfs programs enable by default and older kernels cannot mount.
//!
//! A run on several kernels, or on one that is older than the tools, compares the same format
//! everywhere: features that the oldest of its kernels does not know are switched off. Features
//! that the user's mkfs arguments name stay as the user set them.

use std::fmt;

/// The release number of a kernel or a program, as far as it orders releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// Returns the first `N.N` in a text: `6.1.0-56-amd64`, `mke2fs 1.47.0 (5-Feb-2023)`,
    /// `btrfs-progs v6.2`.
    pub fn find(text: &str) -> Option<Version> {
        text.split_whitespace().find_map(|word| {
            let mut numbers = word.trim_start_matches('v').splitn(3, '.');
            let major = numbers.next()?.parse().ok()?;
            let minor = numbers.next()?;
            let digits = minor
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(minor.len());
            Some(Version(major, minor[..digits].parse().ok()?))
        })
    }
}

/// The profiles of mkfs.xfs: a file for each kernel that is maintained for long.
const PROFILES: &str = "/usr/share/xfsprogs/mkfs";

/// Returns advice if a mount failed because mkfs made features that the kernel does not know.
/// `answers` are the texts of the kernel.
pub(crate) fn advice_on_features(file_system: &str, answers: &str) -> Option<String> {
    let text = answers.to_lowercase();
    let is_lack = text.contains("feature")
        && ["unknown", "unsupported"]
            .iter()
            .any(|word| text.contains(word));
    if !is_lack {
        return None;
    }
    let without = match file_system {
        "xfs" => {
            let kernel = Version::find(&rustix::system::uname().release().to_string_lossy());
            let profile = std::fs::read_dir(PROFILES)
                .into_iter()
                .flatten()
                .filter_map(|entry| {
                    let name = entry.ok()?.file_name().into_string().ok()?;
                    let release = name.strip_prefix("lts_")?.strip_suffix(".conf")?;
                    Some((Version::find(release)?, name))
                })
                .filter(|(release, _)| kernel.is_none_or(|kernel| *release <= kernel))
                .max();
            profile.map(|(_, name)| format!("mkfs=\"-c options={PROFILES}/{name}\""))
        }
        "ext2" | "ext3" | "ext4" | "btrfs" => Some("mkfs=\"-O ^FEATURE\"".to_owned()),
        _ => None,
    };
    let cause = "mkfs of this machine makes features that its kernel lacks";
    Some(match without {
        Some(option) => format!("{cause}: leave them out with {option}"),
        None => format!("{cause}: take the tools that belong to the kernel"),
    })
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A feature of a format.
#[derive(Debug)]
pub(super) struct Feature {
    /// The name in mkfs arguments.
    pub name: &'static str,
    /// The mkfs option that takes it, and the word that switches it off.
    pub off: (&'static str, &'static str),
    /// The first kernel that mounts it for writing.
    pub kernel: Version,
    /// The first mkfs program that knows the word. Older ones would refuse it.
    pub program: Version,
}

/// Returns options with the words that switch off features that `oldest` cannot mount. Joins words
/// for the same option by commas, because several programs let a repeated option replace the first
/// one. Skips features that `user` names.
pub(super) fn switched_off(
    features: &[Feature],
    user: &[String],
    oldest: Version,
    program: Option<Version>,
) -> Vec<(&'static str, String)> {
    let mut options: Vec<(&'static str, String)> = Vec::new();
    let program = program.unwrap_or(Version(0, 0));
    for feature in features {
        let decided = user.iter().any(|word| word.contains(feature.name));
        if decided || oldest >= feature.kernel || program < feature.program {
            continue;
        }
        let (option, word) = feature.off;
        match options.iter_mut().find(|(known, _)| *known == option) {
            Some((_, words)) => *words = format!("{words},{word}"),
            None => options.push((option, word.to_owned())),
        }
    }
    options
}

/// Adds the options to the user's arguments: to the same option if the user gives it, else before
/// all arguments.
pub(super) fn joined(user: &[String], options: Vec<(&'static str, String)>) -> Vec<String> {
    let mut arguments = user.to_vec();
    for (option, words) in options.into_iter().rev() {
        match arguments
            .iter()
            .position(|argument| argument.starts_with(option))
        {
            Some(at) if arguments[at] == option && at + 1 < arguments.len() => {
                arguments[at + 1] = format!("{words},{}", arguments[at + 1]);
            }
            Some(at) if arguments[at] != option => {
                arguments[at] = format!("{option}{words},{}", &arguments[at][option.len()..]);
            }
            _ => {
                arguments.splice(0..0, [option.to_owned(), words]);
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn features_that_the_kernel_lacks_are_named_as_the_cause() {
        let xfs = "mount: Invalid argument (EINVAL) / XFS (loop1): Superblock has unknown incompatible features (0x1000) enabled.";
        assert!(
            advice_on_features("xfs", xfs)
                .unwrap()
                .contains("its kernel lacks")
        );
        let ext4 =
            "EXT4-fs (loop0): couldn't mount RDWR because of unsupported optional features (10000)";
        assert!(
            advice_on_features("ext4", ext4)
                .unwrap()
                .contains("-O ^FEATURE")
        );
        assert_eq!(
            advice_on_features("ext4", "EXT4-fs (loop0): bad geometry"),
            None
        );
    }

    static FEATURES: &[Feature] = &[
        Feature {
            name: "new",
            off: ("-O", "^new"),
            kernel: Version(6, 1),
            program: Version(2, 0),
        },
        Feature {
            name: "newer",
            off: ("-O", "^newer"),
            kernel: Version(6, 10),
            program: Version(2, 5),
        },
        Feature {
            name: "other",
            off: ("-m", "other=0"),
            kernel: Version(5, 15),
            program: Version(1, 0),
        },
    ];

    fn arguments(user: &str, oldest: &str, program: &str) -> String {
        let user: Vec<String> = user.split_whitespace().map(str::to_owned).collect();
        let off = switched_off(
            FEATURES,
            &user,
            Version::find(oldest).unwrap(),
            Version::find(program),
        );
        joined(&user, off).join(" ")
    }

    #[test]
    fn versions_are_found_and_ordered() {
        for (text, version) in [
            ("6.1.0-56-amd64", Version(6, 1)),
            ("6.18.44-fc", Version(6, 18)),
            ("mke2fs 1.47.0 (5-Feb-2023)", Version(1, 47)),
            ("mkfs.btrfs, part of btrfs-progs v6.2", Version(6, 2)),
            ("mkfs.xfs version 6.1.0", Version(6, 1)),
            ("6.12-rc3", Version(6, 12)),
        ] {
            assert_eq!(Version::find(text), Some(version), "{text}");
        }
        assert_eq!(Version::find("no number"), None);
        assert!(Version(6, 2) < Version(6, 12) && Version(5, 15) < Version(6, 1));
    }

    #[test]
    fn only_what_the_kernel_lacks_and_the_program_knows_is_switched_off() {
        assert_eq!(arguments("", "6.12", "v2.6"), "");
        assert_eq!(arguments("", "6.1", "v2.6"), "-O ^newer");
        assert_eq!(arguments("", "6.1", "v2.0"), "");
        assert_eq!(arguments("", "4.19", "v2.6"), "-O ^new,^newer -m other=0");
        assert_eq!(arguments("", "4.19", "unknown"), "");
    }

    #[test]
    fn the_users_options_stay_and_are_not_repeated() {
        assert_eq!(arguments("-m other=1", "4.19", "v1.0"), "-m other=1");
        assert_eq!(
            arguments("-O quota -L x", "6.1", "v2.6"),
            "-O ^newer,quota -L x"
        );
        assert_eq!(arguments("-Oquota", "6.1", "v2.6"), "-O^newer,quota");
        assert_eq!(arguments("-L x", "6.1", "v2.6"), "-O ^newer -L x");
        assert_eq!(arguments("-O", "6.1", "v2.6"), "-O ^newer -O");
    }

    proptest! {
        #[test]
        fn a_newer_kernel_never_needs_more(major in 3u32..7, minor in 0u32..20, user in "[-a-z ]{0,8}") {
            let user: Vec<String> = user.split_whitespace().map(str::to_owned).collect();
            let count = |oldest| switched_off(FEATURES, &user, oldest, Some(Version(9, 0))).len();
            prop_assert!(count(Version(major, minor)) >= count(Version(major, minor + 1)));
        }
    }
}
