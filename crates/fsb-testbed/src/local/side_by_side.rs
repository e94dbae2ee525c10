//! Which targets can be ready all at once, so that they are measured side by side.

use std::collections::BTreeSet;

use fsb_model::run::PlacementReason;
use fsb_model::units::show_bytes;
use fsb_model::{FileSystemSpec, Target, TargetKind};

use super::media::media;
use crate::control::memory_limit::{MEMORY_LIMIT, limit_of};
use crate::error::TestbedError;
use crate::fs::{self, Home};
use crate::medium::{self, size_for};
use crate::testbed::Setup;

/// Returns the number of parts into which the medium must be divided so that all targets of the setup are ready at once:
/// 1 for a target alone on the whole medium, 0 where there is nothing to divide (directories, the null file system).
///
/// # Errors
///
/// The reason why the targets cannot be ready at once.
///
/// In a virtual machine the medium stands for the guest's disk, which is divided as whole disks are.
///
/// Nothing is touched, and [`Setup::parts`] is not looked at. That each part is large enough for its target is asked by
/// [`Testbed::check`](crate::Testbed::check) with the parts in the setup.
pub fn side_by_side(setup: &Setup) -> Result<u32, PlacementReason> {
    if setup.targets.iter().any(|target| target.kernel != setup.targets[0].kernel) {
        return Err(PlacementReason::DifferentKernels);
    }
    agree_in_controls(setup)?;
    let parts = u32::try_from(setup.targets.len()).map_err(|_| PlacementReason::TooManyTargets)?;
    let homes: BTreeSet<Sort> = setup.targets.iter().map(sort).collect();
    match homes.iter().collect::<Vec<_>>()[..] {
        [Sort::Null | Sort::Directory] => Ok(0),
        [Sort::Device] if parts == 1 => Ok(1),
        [Sort::Device] => one_divisible_medium(setup).map(|()| parts),
        [Sort::Memory] if parts == 1 => Ok(0),
        [Sort::Memory] => Err(PlacementReason::SharedMemory),
        [] => Err(PlacementReason::NoTargets),
        _ => Err(PlacementReason::MixedKinds),
    }
}

/// Bytes of each part where the one medium of the setup is divided into so many: of a device they are the device's,
/// whatever [`Setup::size`] is. Absent where there is no one medium, or its size is not known. Nothing is touched.
pub fn part_size(setup: &Setup, parts: u32) -> Option<u64> {
    let media = media(setup);
    let (_, request) = media.first_key_value().filter(|_| media.len() == 1)?;
    let size = medium::find(&request.medium.name).ok()?.size(request)?;
    Some(medium::part_bytes(size, parts))
}

/// What a target needs a place for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Device,
    Memory,
    Null,
    Directory,
}

fn sort(target: &Target) -> Sort {
    match &target.kind {
        TargetKind::Directory(_) => Sort::Directory,
        TargetKind::FileSystem(spec) => match fs::find(&spec.fs).map(|member| member.home()) {
            Ok(Home::Nowhere) => Sort::Null,
            Ok(Home::Memory) => Sort::Memory,
            // One that nobody knows is refused by the check.
            Ok(Home::Device) | Err(_) => Sort::Device,
        },
    }
}

/// A disk has one setting of each sort, and memory is limited for one target at a time.
fn agree_in_controls(setup: &Setup) -> Result<(), PlacementReason> {
    let mut all = setup.targets.iter().map(|target| target.controls_over(&setup.controls));
    let Some(first) = all.next() else { return Ok(()) };
    if all.any(|other| other != first) {
        return Err(PlacementReason::DifferentControls);
    }
    match first.get(MEMORY_LIMIT).is_some_and(|value| limit_of(value).is_some()) {
        true => Err(PlacementReason::MemoryLimit),
        false => Ok(()),
    }
}

fn one_divisible_medium(setup: &Setup) -> Result<(), PlacementReason> {
    let indivisible = |cause: String| PlacementReason::IndivisibleMedium { cause };
    let media = media(setup);
    match media.first_key_value() {
        Some(_) if media.len() > 1 => Err(PlacementReason::DifferentMedia),
        Some((_, request)) => medium::find(&request.medium.name)
            .map_err(|error| indivisible(error.to_string()))?
            .divisible(request)
            .map_err(|refusal| indivisible(refusal.into())),
        None => Ok(()),
    }
}

/// Refuses to divide what cannot be divided.
pub(super) fn check_divisible(setup: &Setup) -> Result<(), TestbedError> {
    if setup.parts <= 1 {
        return Ok(());
    }
    for (text, request) in media(setup) {
        medium::find(&request.medium.name)?.divisible(&request).map_err(|why| {
            TestbedError::request(format!("@{text} cannot be divided into {} slices", setup.parts))
                .tried(why)
                .advice("measure one target at a time (fsb run --one-at-a-time)")
        })?;
    }
    Ok(())
}

/// What to do where a part of a medium of `size` bytes is too small for a file system that needs `least`.
pub(super) fn enlarge(setup: &Setup, spec: &FileSystemSpec, size: u64, least: u64) -> (String, String) {
    let show = |bytes: u64| show_bytes(bytes as f64);
    let needed = size_for(least, setup.parts);
    let has = medium::part_bytes(size, setup.parts);
    let medium = medium::called(&spec.medium, setup.vm.is_some());
    let tried = match setup.parts {
        0 | 1 => format!("{medium} has {}", show(size)),
        parts => format!("{medium} has {}: {} for each of {parts} targets side by side", show(size), show(has)),
    };
    let alone = if setup.parts > 1 { ", or measure one target at a time (fsb run --one-at-a-time)" } else { "" };
    let advice = match spec.medium.name.as_str() {
        "device" if setup.parts > 1 => format!("choose a device of {}{alone}", show(needed)),
        "device" => "choose a larger device".to_owned(),
        _ => format!("choose --size {} or more{alone}", fsb_model::Bytes(needed)),
    };
    (tried, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::setup_of;

    fn of(targets: &[&str]) -> Setup {
        let mut setup = setup_of(targets);
        fsb_model::target::make_names_unique(&mut setup.targets);
        setup
    }

    fn refused(setup: &Setup) -> PlacementReason {
        side_by_side(setup).unwrap_err()
    }

    #[test]
    fn targets_of_one_medium_directories_and_nothing_real_can() {
        assert_eq!(side_by_side(&of(&["ext4", "xfs", "btrfs"])), Ok(3));
        assert_eq!(side_by_side(&of(&["ext4@ram", "ext4@ram"])), Ok(2));
        assert_eq!(side_by_side(&of(&["ext4,discard", "xfs"])), Ok(2));
        assert_eq!(side_by_side(&of(&["ext4"])), Ok(1));
        assert_eq!(side_by_side(&of(&["/srv", "/home", "/"])), Ok(0));
        assert_eq!(side_by_side(&of(&["null", "null,noise=1%"])), Ok(0));
        assert_eq!(side_by_side(&of(&["tmpfs"])), Ok(0));
        let images = of(&["ext4", "xfs", "btrfs"]);
        assert_eq!(part_size(&images, 3), Some(medium::part_bytes(images.size, 3)));
        assert_eq!(part_size(&of(&["ext4", "ext4@ram"]), 2), None);
        assert_eq!(part_size(&of(&["ext4@/dev/null"]), 2), None);
    }

    #[test]
    fn other_targets_take_turns_for_a_reason() {
        let cause = "@raid0:loop+loop cannot be divided".to_owned();
        for (targets, reason) in [
            (["ext4", "ext4@ram"].as_slice(), PlacementReason::DifferentMedia),
            (&["ext4", "/srv"], PlacementReason::MixedKinds),
            (&["null", "ext4"], PlacementReason::MixedKinds),
            (&["ext4", "tmpfs"], PlacementReason::MixedKinds),
            (&["tmpfs", "tmpfs,huge=always"], PlacementReason::SharedMemory),
            (&["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"], PlacementReason::IndivisibleMedium { cause }),
            (&[], PlacementReason::NoTargets),
        ] {
            assert_eq!(refused(&of(targets)), reason, "{targets:?}");
        }
        let mut setup = of(&["ext4", "xfs"]);
        setup.targets[1].controls.insert("scheduler".to_owned(), "none".to_owned());
        assert_eq!(refused(&setup), PlacementReason::DifferentControls);
        setup.targets[0].controls.insert("scheduler".to_owned(), "none".to_owned());
        assert_eq!(side_by_side(&setup), Ok(2));
        setup.controls.insert(MEMORY_LIMIT.to_owned(), "512M".to_owned());
        assert_eq!(refused(&setup), PlacementReason::MemoryLimit);
        setup.controls.insert(MEMORY_LIMIT.to_owned(), "keep".to_owned());
        assert_eq!(side_by_side(&setup), Ok(2));
        setup.vm = Some(fsb_model::place::VmSize { memory: fsb_model::Bytes(1 << 30), cpus: 1 });
        assert_eq!(side_by_side(&setup), Ok(2), "the guest's disk is divided there");
        setup.targets[1].kernel = Some("6.12".to_owned());
        assert_eq!(refused(&setup), PlacementReason::DifferentKernels);
    }

    #[test]
    fn a_part_that_is_too_small_names_the_size_that_would_do() {
        let mut setup = of(&["xfs"; 8]);
        (setup.size, setup.parts) = (2 << 30, 8);
        let refusal = |setup: &Setup| super::super::check_sizes(setup, &Default::default()).unwrap_err();
        let error = refusal(&setup);
        assert_eq!(error.kind, crate::Kind::Request);
        let size = size_for(300 << 20, 8);
        assert!(error.to_string().contains(&format!("--size {} or more", fsb_model::Bytes(size))), "{error}");
        assert!(error.to_string().contains("each of 8 targets"), "{error}");
        setup.size = size;
        assert_eq!(super::super::check_sizes(&setup, &Default::default()), Ok(()));
        let mut array = of(&["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"]);
        array.parts = 2;
        assert!(check_divisible(&array).unwrap_err().to_string().contains("one target at a time"));
    }
}
