//! How a target is made by hand: the commands that do what the agent does.

use fsb_model::FileSystemSpec;

use super::file_system::Home;
use super::find;
use super::large_disk::{fit, large_disk};
use super::options::check;
use crate::error::TestbedError;

/// The commands that make and mount a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Makes it, with the device behind it; empty where it needs no making.
    pub mkfs: Vec<String>,
    /// Mounts it, with device and mount point behind it.
    pub mount: Vec<String>,
    pub home: Home,
}

/// The recipe for what a target asks for, on a device of `size` bytes that can discard or on one that cannot; a file
/// system in memory may be filled with so much. If `like_large`, a device gets the geometry of a large disk.
pub fn recipe(spec: &FileSystemSpec, size: u64, can_discard: bool, like_large: bool) -> Result<Recipe, TestbedError> {
    let member = find(&spec.fs)?;
    check(member, spec)?;
    if member.home() == Home::Nowhere {
        return Err(TestbedError::request(format!("{} has no storage: nothing can mount it", spec.fs)));
    }
    let tools = member.tools().into_iter();
    let mkfs = tools.flat_map(|tools| std::iter::once(&tools.mkfs).chain(tools.arguments));
    let large = if like_large { large_disk(spec) } else { None };
    let fitted = fit(member, large.as_ref(), size, &spec.mkfs);
    let mut options = spec.options.clone();
    let decided = options.iter().any(|option| matches!(option.split('=').next(), Some("discard" | "nodiscard")));
    options.extend(member.discard_off().filter(|_| can_discard && !decided).map(str::to_owned));
    Ok(Recipe {
        mkfs: mkfs.map(|word| (*word).to_owned()).chain(fitted).chain(spec.mkfs.iter().cloned()).collect(),
        mount: member.mount_command(&options, size),
        home: member.home(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::REGISTRY;
    use super::*;

    fn of(text: &str, can_discard: bool) -> Result<Recipe, TestbedError> {
        let target: fsb_model::Target = text.parse().unwrap();
        recipe(target.file_system().unwrap(), 1 << 30, can_discard, false)
    }

    #[test]
    fn every_member_has_commands_or_needs_none() {
        for member in REGISTRY {
            let Ok(recipe) = of(member.name(), false) else {
                assert_eq!(member.home(), Home::Nowhere);
                continue;
            };
            assert_eq!(recipe.mkfs.first().map(String::as_str), member.tools().map(|tools| tools.mkfs));
            assert!(!recipe.mount.is_empty(), "{}", member.name());
        }
    }

    #[test]
    fn what_the_user_asks_for_comes_after_what_is_usual() {
        let recipe = of("xfs,noatime,mkfs=\"-m crc=0\"", true).unwrap();
        assert_eq!(recipe.mkfs, ["mkfs.xfs", "-f", "-q", "-K", "-m", "crc=0"]);
        assert_eq!(recipe.mount, ["mount", "-t", "xfs", "-o", "noatime"]);
        let discards = |text, can| of(text, can).unwrap().mount.join(" ");
        assert_eq!(discards("btrfs", true), "mount -t btrfs -o nodiscard");
        assert_eq!(discards("btrfs,discard=async", true), "mount -t btrfs -o discard=async");
        assert_eq!(discards("btrfs", false), "mount -t btrfs");
        assert_eq!(discards("tmpfs", false), "mount -t tmpfs -o size=1073741824");
        assert!(of("ntfs", false).unwrap().mount[0].contains("ntfs-3g"));
        assert!(of("ext5", false).unwrap_err().to_string().contains("did you mean"));
    }
}
