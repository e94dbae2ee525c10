//! Resumes an interrupted run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsb_model::host::{DeviceManifest, VmRecord};
use fsb_model::run::MediumRecord;
use fsb_model::target::{COMPOSED, is_setting};
use fsb_model::{Phase, Place, RunRecord, Trial};
use fsb_testbed::host;

/// Marks the trials of the unfinished block as superseded, because the whole block is repeated.
/// Returns the number of marked trials.
///
/// A block is finished when it has a trial of every target and every cell, whether it ended well or
/// not. Trials of a warm-up that did not fix the amounts are marked as well.
pub fn supersede(record: &RunRecord, trials: &mut [Trial]) -> usize {
    // A decided cell is not measured any more, so the block's own order decides which cells belong
    // to it.
    let wanted = |block: u32| {
        let order = record.order.iter().find(|order| order.block == block);
        order.map_or(record.cells.len() * record.plan.targets.len(), |order| {
            order.cells.len() * order.targets.len()
        })
    };
    let visited = |block: u32| {
        trials
            .iter()
            .filter(|trial| trial.block == block && !trial.superseded)
            .map(|trial| (trial.target.as_str(), trial.workload.as_str()))
            .collect::<BTreeSet<_>>()
            .len()
    };
    let blocks: BTreeSet<u32> = trials.iter().map(|trial| trial.block).collect();
    let warmup_again = record.amounts.is_empty();
    let unfinished: BTreeSet<u32> = blocks
        .into_iter()
        .filter(|block| {
            if *block == 0 {
                warmup_again
            } else {
                visited(*block) < wanted(*block)
            }
        })
        .collect();
    let marked = trials
        .iter_mut()
        .filter(|trial| unfinished.contains(&trial.block) && !trial.superseded);
    marked.map(|trial| trial.superseded = true).count()
}

/// Returns whether the run ended or all planned blocks are made.
pub fn complete(record: &RunRecord, trials: &[Trial]) -> bool {
    let last = trials
        .iter()
        .filter(|t| t.phase == Phase::Measured && !t.superseded)
        .map(|t| t.block)
        .max();
    record.stop_reason.is_some()
        || (record.blocks_planned.is_some() && last == record.blocks_planned)
}

/// Refuses a kernel other than that of the first segment: values of two kernels do not belong in
/// one run.
pub fn same_kernel(record: &RunRecord, kernel: &str) -> Result<(), String> {
    let before = record
        .segments
        .first()
        .map_or(kernel, |segment| &segment.kernel);
    if before == kernel {
        return Ok(());
    }
    let advice = match record.plan.place {
        Place::Host => "boot that one, or begin a new run",
        // The named files may belong to another kernel by now.
        Place::Vm => {
            "make that one available again (fsb kernel list), or begin a new run with --kernel"
        }
    };
    Err(format!(
        "the run was begun on Linux {before} and this is {kernel}: {advice}"
    ))
}

/// Refuses other files of a kernel with the same release, because another build of a kernel often
/// has the same release. Modules that only one of the two loaded are not compared: another version
/// of this program may choose other modules.
pub(crate) fn same_files(before: Option<&VmRecord>, now: Option<&VmRecord>) -> Result<(), String> {
    let (Some(before), Some(now)) = (before, now) else {
        return Ok(());
    };
    for (release, old) in &before.kernels {
        let Some(new) = now.kernels.get(release) else {
            continue;
        };
        let image =
            (!old.image_hash.is_empty() && old.image_hash != new.image_hash).then_some("its image");
        let modules = old
            .module_hashes
            .iter()
            .filter(|(name, hash)| new.module_hashes.get(*name).is_some_and(|new| new != *hash))
            .map(|(name, _)| name.as_str());
        let changed: Vec<_> = image.into_iter().chain(modules).collect();
        if !changed.is_empty() {
            return Err(format!(
                "the kernel {release} was built anew or replaced since the run was begun (changed: {}): put the old one \
                 back, or begin a new run",
                changed.join(", ")
            ));
        }
    }
    Ok(())
}

/// Refuses other devices: values of two devices do not belong in one run. `before` and `now` are
/// the media of the record and the new ones.
pub(crate) fn same_media(
    before: &BTreeMap<String, MediumRecord>,
    now: &BTreeMap<String, MediumRecord>,
) -> Result<(), String> {
    for (medium, old) in before {
        let Some(new) = now.get(medium) else { continue };
        same(medium, &old.device, &new.device)?;
    }
    Ok(())
}

/// Checks, before anything is written, that the plan's names lead to the devices that the run was
/// begun on.
pub(crate) fn same_named(record: &RunRecord) -> Result<(), String> {
    for (medium, old) in &record.media {
        let mut members: Vec<(&str, &DeviceManifest)> = Vec::new();
        match medium.split_once(':') {
            Some((name, argument)) if COMPOSED.contains(&name) => {
                let mut beneath = old.device.beneath.iter();
                for part in argument.split('+') {
                    if !is_setting(part)
                        && let Some(device) = beneath.next()
                    {
                        members.push((part, device));
                    }
                }
            }
            _ => members.push((medium.as_str(), &old.device)),
        }
        for (path, old) in members {
            // In the record of a virtual machine, a device without a serial number has the guest's
            // name.
            let unknown =
                record.plan.place == Place::Vm && old.serial.is_none() && old.backing.is_none();
            let Some(id) = record.devices.get(Path::new(path)).filter(|_| !unknown) else {
                continue;
            };
            same(path, old, &host::device(*id))?;
        }
    }
    Ok(())
}

fn same(medium: &str, old: &DeviceManifest, new: &DeviceManifest) -> Result<(), String> {
    let (old, new) = (identity(old), identity(new));
    if old == new {
        return Ok(());
    }
    Err(format!(
        "the run was begun on another device under '{medium}': {old}, and this is {new}"
    ))
}

/// Returns the identity of a device: its serial number, or the file system that holds its image, or
/// its name, with its size. The number of a loop device is arbitrary, so it comes last.
fn identity(device: &DeviceManifest) -> String {
    let own = match (&device.serial, &device.backing) {
        (Some(serial), _) => format!("serial {serial}"),
        (None, Some(backing)) => backing.clone(),
        (None, None) => device.name.clone(),
    };
    format!("{own}, {} bytes", device.size_bytes)
}

#[cfg(test)]
mod tests {
    use fsb_model::host::VmKernel;

    use super::*;

    #[test]
    fn kernels_of_one_release_are_told_apart_by_their_files() {
        let record = |image: &str, modules: &[(&str, &str)]| {
            let module_hashes = modules
                .iter()
                .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
                .collect();
            let kernel = VmKernel {
                image_hash: image.to_owned(),
                module_hashes,
                ..VmKernel::default()
            };
            VmRecord {
                kernels: [("6.19.0-rc1+".to_owned(), kernel)].into(),
                ..VmRecord::default()
            }
        };
        let old = record("1", &[("xfs", "2"), ("crc16", "3")]);
        let compare = |new: &VmRecord| same_files(Some(&old), Some(new));
        assert_eq!(
            compare(&record("1", &[("xfs", "2"), ("ext4", "4")])),
            Ok(())
        );
        let text = compare(&record("1", &[("xfs", "5")])).unwrap_err();
        assert!(
            text.contains("6.19.0-rc1+ was built anew") && text.contains("(changed: xfs)"),
            "{text}"
        );
        assert!(
            compare(&record("6", &[("xfs", "5")]))
                .unwrap_err()
                .contains("its image, xfs")
        );
        assert_eq!(same_files(Some(&record("", &[])), Some(&old)), Ok(()));
        assert_eq!(same_files(None, Some(&old)), Ok(()));
    }
}
