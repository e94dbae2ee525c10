//! Arguments for mkfs and mount that reach beyond the target.
//!
//! `mkfs.btrfs -f` formats every device that it is given, and the other programs do the same with
//! external journals and logs. The user's arguments must therefore name no device and no file. They
//! may name directories (to fill a file system from).

use std::path::Path;

use fsb_model::FileSystemSpec;
use fsb_sys::error::TestbedError;

/// Refuses arguments that name another device or file, in any form that mkfs programs and mount
/// accept.
pub(crate) fn check(spec: &FileSystemSpec) -> Result<(), TestbedError> {
    let tuned = spec
        .tune
        .iter()
        .map(|words| (words.as_slice(), "tune argument"));
    for (words, whose) in [
        (spec.mkfs_words(), "mkfs argument"),
        (&spec.options, "mount option"),
    ]
    .into_iter()
    .chain(tuned)
    {
        if let Some((word, why)) = words.iter().find_map(|word| Some((word, reach(word)?))) {
            return Err(TestbedError::request(format!(
                "the {whose} '{word}' reaches beyond the target: {why}"
            ))
            .advice("leave it out: fsb uses only the medium after the @"));
        }
    }
    Ok(())
}

/// Options of mkfs programs and mounts that open their value. They are refused by name, because a
/// path that does not exist when it is checked may exist when it is opened.
const OPENED: [&str; 8] = [
    "device",
    "file",
    "jdev",
    "journal_dev",
    "journal_path",
    "logdev",
    "name",
    "rtdev",
];

/// Returns the key of `logdev=x`, also with a letter before it: `-llogdev=x`.
fn names_a_device(part: &str) -> Option<&'static str> {
    let (key, value) = part.split_once('=')?;
    let joined = key
        .strip_prefix('-')
        .and_then(|rest| rest.get(1..))
        .unwrap_or(key);
    let key = OPENED.into_iter().find(|known| *known == joined)?;
    // In options for xfs, 0 or 1 states whether the target is a file.
    (!["", "0", "1"].contains(&value)).then_some(key)
}

/// Describes the device or file outside the target that a word names, if any.
fn reach(word: &str) -> Option<String> {
    let tagged = ["UUID=", "LABEL=", "journal_dev="]
        .iter()
        .find(|tag| word.contains(*tag));
    if let Some(tag) = tagged {
        return Some(format!("{tag} can select any device of the machine"));
    }
    if let Some(key) = word.split(',').find_map(names_a_device) {
        return Some(format!("{key}= names a device or a file"));
    }
    candidates(word).find_map(|candidate| {
        // mkfs programs run in the root directory.
        let path = Path::new("/").join(candidate);
        let exists = std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_dir());
        exists.then(|| format!("{} is a device or a file", path.display()))
    })
}

/// Returns every part of a word that may be a path: `/dev/sdb`, `logdev=/dev/sdb,size=1g`,
/// `-l/dev/sdb`, `dev/sdb`.
fn candidates(word: &str) -> impl Iterator<Item = &str> {
    let starts = word.char_indices().filter_map(move |(at, c)| match c {
        '/' => Some(at),
        '=' | ',' | ':' => Some(at + 1),
        _ if at == 0 => Some(0),
        _ => None,
    });
    starts.flat_map(move |start| {
        let rest = &word[start..];
        [rest, rest.split(',').next().unwrap_or_default()]
            .into_iter()
            .filter(|text| !text.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(target: &str) -> Option<String> {
        let target: fsb_model::Target = target.parse().unwrap();
        check(target.file_system().unwrap())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn other_devices_and_files_cannot_be_named() {
        for target in [
            r#"btrfs,mkfs="/dev/null""#,
            r#"btrfs,mkfs="dev/null""#,
            r#"btrfs,mkfs="-d raid0 ../dev/null""#,
            r#"btrfs,mkfs="/etc/passwd""#,
            r#"xfs,mkfs="-l logdev=/dev/null,size=32m""#,
            r#"xfs,mkfs="-llogdev=/dev/null""#,
            r#"xfs,mkfs="-d name=/dev/null""#,
            r#"ext4,mkfs="-J device=UUID=0a0b""#,
            r#"ext3,tune="-j -J device=/dev/null""#,
            r#"ext4,mkfs="-J device=/dev/null""#,
            "xfs,logdev=/dev/null",
            "ext4,journal_path=/dev/null",
            "ext4,journal_dev=0x700",
            "btrfs,device=/dev/null",
            r#"xfs,mkfs="-l logdev=/not/there/yet""#,
            r#"xfs,mkfs="-l size=32m,logdev=not/there/yet""#,
            r#"xfs,mkfs="-dname=/not/there/yet""#,
            r#"ext4,mkfs="-J device=/not/there/yet""#,
            "xfs,rtdev=/not/there/yet",
            "reiserfs,jdev=/not/there/yet",
        ] {
            assert!(
                refusal(target).is_some_and(|text| text.contains("reaches beyond the target")),
                "{target}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_device_is_found_wherever_it_stands(before in "[a-z]{0,3}[=,:]|-[a-z]|", after in "(,[a-z=]{0,4})?") {
            let word = format!("{before}/dev/null{after}");
            prop_assert!(reach(&word).is_some(), "{}", word);
        }

        #[test]
        fn no_word_panics(word in "[a-zäß=,:/ -]{0,12}") {
            let _ = reach(&word);
        }
    }

    #[test]
    fn usual_arguments_pass() {
        for target in [
            r#"ext4,mkfs="-i 32704 -E stride=16,stripe_width=64 -L 'a/b'""#,
            r#"ext4,mkfs="-d /usr/share/doc""#,
            r#"xfs,mkfs="-m crc=0,finobt=0 -i size=1024""#,
            r#"btrfs,mkfs="-O ^no-holes -n 16k""#,
            r#"xfs,mkfs="-d file=0,size=1g""#,
            "ext3,data=journal,noatime",
            "btrfs,compress=zstd:3,subvol=/",
        ] {
            assert_eq!(refusal(target), None, "{target}");
        }
    }
}
