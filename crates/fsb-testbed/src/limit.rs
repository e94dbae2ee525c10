//! The cgroups that limit the background of a case: one in the unified hierarchy, or one per
//! controller in those of version 1. A weight compares cgroups that are siblings, so the case is
//! then in a cgroup beside that of its background.

use std::path::{Path, PathBuf};

use fsb_model::BackgroundLimit;
use fsb_model::error::CONTROL_CONFLICT;
use fsb_sys::cgroup::{self, Enable, Hierarchy, MEMORY, Version};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, block, read_trimmed};

use crate::control::KEEP;
use crate::control::memory_limit::MEMORY_LIMIT;
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::testbed::{LimitLists, Setup};

/// The length of the periods in which the kernel measures processor time, in microseconds.
const PERIOD_US: u64 = 100_000;

/// The processes of a background with limits.
pub(crate) struct LimitedProcesses {
    limit: BackgroundLimit,
    cgroups: Vec<PathBuf>,
    /// Those of the case beside the background.
    cgroups_of_case: Vec<PathBuf>,
    /// In the order of the changes.
    entries: Vec<EntryHandle>,
}

/// A file of a cgroup and the text that sets a limit.
type Setting = (String, String);

/// A cgroup to make.
#[derive(Debug, PartialEq)]
struct Planned {
    /// The hierarchies of its controllers, all with the same parent.
    hierarchies: Vec<Hierarchy>,
    settings: Vec<Setting>,
    /// Set if shares of the disk are compared: makes a cgroup for the case, and switches the
    /// controller of shares on unless it is on already.
    share: Option<Share>,
}

/// A share of the disk in relation to that of the case.
#[derive(Debug, PartialEq)]
struct Share {
    settings_of_case: Vec<Setting>,
    enable: Option<Enable>,
}

/// The weight of the case, which the kernel gives to every cgroup: that of the background is in
/// relation to it.
const WEIGHT_OF_CASE: u64 = 100;

/// Checks that this machine can set the limits of all backgrounds.
pub(crate) fn check(setup: &Setup, roots: &Roots) -> Result<(), TestbedError> {
    let Some(first) = setup.background_limits.first() else {
        return Ok(());
    };
    let controls = setup
        .targets
        .iter()
        .map(|target| &target.controls)
        .chain([&setup.controls]);
    if controls
        .filter_map(|controls| controls.get(MEMORY_LIMIT))
        .any(|value| value != KEEP)
    {
        return Err(TestbedError::request(format!(
            "a background is limited to {first}, and the control {MEMORY_LIMIT} holds for case and background together"
        ))
        .coded(&CONTROL_CONFLICT)
        .advice(format!("leave {MEMORY_LIMIT} or the 'limit' of the background out")));
    }
    for limit in &setup.background_limits {
        plan(limit, "0:0", roots).map_err(|why| refused(limit, why))?;
    }
    Ok(())
}

fn refused(limit: &BackgroundLimit, why: Refusal) -> TestbedError {
    TestbedError::machine(format!("a background cannot be limited to {limit} here"))
        .tried(why)
        .advice("run as root where there are these controllers, use --in vm, or leave 'limit' out")
}

/// Returns the cgroups to make for a background on the disk with the number `disk`.
fn plan(limit: &BackgroundLimit, disk: &str, roots: &Roots) -> Result<Vec<Planned>, Refusal> {
    let mut planned: Vec<Planned> = Vec::new();
    let mut add = |hierarchy: Hierarchy, settings: Vec<Setting>| match planned
        .iter_mut()
        .find(|one| one.hierarchies[0].parent == hierarchy.parent)
    {
        Some(one) => {
            one.settings.extend(settings);
            if !one.hierarchies.contains(&hierarchy) {
                one.hierarchies.push(hierarchy);
            }
        }
        None => planned.push(Planned {
            hierarchies: vec![hierarchy],
            settings,
            share: None,
        }),
    };
    if let Some(cpus) = limit.cpus {
        let hierarchy = Hierarchy::find(roots, "cpu")?;
        let quota = (cpus * PERIOD_US as f64) as u64;
        let settings = match hierarchy.version {
            Version::V1 => {
                vec![
                    ("cpu.cfs_period_us".to_owned(), PERIOD_US.to_string()),
                    ("cpu.cfs_quota_us".to_owned(), quota.to_string()),
                ]
            }
            Version::V2 => vec![("cpu.max".to_owned(), format!("{quota} {PERIOD_US}"))],
        };
        add(hierarchy, settings);
    }
    if let Some(bytes) = limit.memory {
        let hierarchy = Hierarchy::find(roots, MEMORY)?;
        let file = match hierarchy.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.high",
        };
        add(hierarchy, vec![(file.to_owned(), bytes.0.to_string())]);
    }
    let of_disk: Vec<_> = limit.of_disk().collect();
    if !of_disk.is_empty() {
        let hierarchy =
            Hierarchy::find(roots, "io").or_else(|_| Hierarchy::find(roots, "blkio"))?;
        let settings = match hierarchy.version {
            Version::V1 => of_disk
                .iter()
                .map(|(name, value)| (throttle_file(name), format!("{disk} {value}")))
                .collect(),
            Version::V2 => {
                let values: Vec<_> = of_disk
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                vec![("io.max".to_owned(), format!("{disk} {}", values.join(" ")))]
            }
        };
        add(hierarchy, settings);
    }
    if let Some(weight) = limit.io_weight {
        let hierarchy = Hierarchy::find(roots, "io")?;
        let share = Share {
            settings_of_case: vec![weight_setting(WEIGHT_OF_CASE)],
            enable: switch_of_shares(disk, roots)?,
        };
        let parent = hierarchy.parent.clone();
        add(hierarchy, vec![weight_setting(weight)]);
        if let Some(one) = planned
            .iter_mut()
            .find(|one| one.hierarchies[0].parent == parent)
        {
            one.share = Some(share);
        }
    }
    // A process is in one cgroup of the unified hierarchy.
    if planned
        .iter()
        .filter(|one| one.hierarchies[0].version == Version::V2)
        .count()
        > 1
    {
        return Err("its controllers are handed down in different cgroups".into());
    }
    Ok(planned)
}

fn weight_setting(weight: u64) -> Setting {
    ("io.weight".to_owned(), format!("default {weight}"))
}

/// Returns what switches on the controller that divides the time of that disk by weights. Returns
/// `None` if it is on.
fn switch_of_shares(disk: &str, roots: &Roots) -> Result<Option<Enable>, Refusal> {
    let file = cgroup::io_cost_switch(roots);
    let text = fsb_sys::read_text(&file).map_err(|error| attempt("read", &file, &error))?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let is_on = lines
        .any(|(device, state)| device == disk && state.split(' ').any(|word| word == "enable=1"));
    let switch = |on: u8| format!("{disk} enable={on}");
    Ok((!is_on).then(|| Enable {
        file,
        on: switch(1),
        off: switch(0),
    }))
}

/// Returns the file of version 1 for a key of `io.max`, such as `wbps`.
fn throttle_file(key: &str) -> String {
    let (verb, unit) = key.split_at(1);
    let verb = if verb == "r" { "read" } else { "write" };
    format!("blkio.throttle.{verb}_{unit}_device")
}

/// Returns the number of the disk of a device whose directory below /sys this is. The kernel limits
/// whole disks only.
fn disk_number(device: Option<&Path>) -> Result<String, Refusal> {
    let directory = device.ok_or("the target has no disk")?;
    let file = block::whole_disk(directory).join("dev");
    read_trimmed(&file).ok_or_else(|| format!("{} cannot be read", file.display()).into())
}

/// Returns whether the kernel divides the time of the disk of a device by weights: whether requests
/// are queued for it.
fn has_queues(directory: &Path) -> bool {
    block::whole_disk(directory).join("mq").is_dir()
}

impl LimitedProcesses {
    /// Makes the cgroups for a background on the device whose directory below /sys this is. After
    /// an error nothing is left.
    pub fn make(
        limit: BackgroundLimit,
        device: Option<&Path>,
        roots: &Roots,
        ledger: &Ledger,
    ) -> Result<LimitedProcesses, TestbedError> {
        let needs_disk = limit.of_disk().next().is_some() || limit.io_weight.is_some();
        let disk = match needs_disk {
            true => disk_number(device).map_err(|why| refused(&limit, why))?,
            false => String::new(),
        };
        if limit.io_weight.is_some() && !device.is_some_and(has_queues) {
            // The kernel would refuse the change, and its undoing, which the ledger would then list
            // until the next boot.
            return Err(refused(
                &limit,
                "the disk has no queues of requests: LVM, LUKS and md have none".into(),
            ));
        }
        let mut made = LimitedProcesses {
            limit,
            cgroups: Vec::new(),
            cgroups_of_case: Vec::new(),
            entries: Vec::new(),
        };
        for planned in plan(&limit, &disk, roots).map_err(|why| refused(&limit, why))? {
            if let Err(error) = made.add(&planned, ledger) {
                // The first error is the one that explains.
                let _ = made.remove(ledger);
                return Err(error);
            }
        }
        Ok(made)
    }

    fn add(&mut self, planned: &Planned, ledger: &Ledger) -> Result<(), TestbedError> {
        let controllers = planned
            .hierarchies
            .iter()
            .filter_map(|hierarchy| hierarchy.enable.as_ref());
        for enable in controllers.chain(
            planned
                .share
                .iter()
                .filter_map(|share| share.enable.as_ref()),
        ) {
            let back = Action::WriteFile {
                path: enable.file.clone(),
                value: enable.off.clone(),
            };
            self.entries.push(ledger.record(back)?);
            self.write(&enable.file, &enable.on)?;
        }
        let parent = &planned.hierarchies[0].parent;
        let of_background = self.make_cgroup(parent, &planned.settings, ledger)?;
        self.cgroups.push(of_background);
        if let Some(share) = &planned.share {
            let of_case = self.make_cgroup(parent, &share.settings_of_case, ledger)?;
            self.cgroups_of_case.push(of_case);
        }
        Ok(())
    }

    fn make_cgroup(
        &mut self,
        parent: &Path,
        settings: &[Setting],
        ledger: &Ledger,
    ) -> Result<PathBuf, TestbedError> {
        let path = cgroup::unique_path(parent, ledger.owner().pid);
        self.entries
            .push(ledger.record(Action::RemoveCgroup { path: path.clone() })?);
        std::fs::create_dir(&path)
            .map_err(|error| refused(&self.limit, attempt("make", &path, &error)))?;
        for (file, value) in settings {
            self.write(&path.join(file), value)?;
        }
        Ok(path)
    }

    fn write(&self, file: &Path, value: &str) -> Result<(), TestbedError> {
        cgroup::write(file, value)
            .map_err(|error| refused(&self.limit, attempt("write to", file, &error)))
    }

    /// Returns the limit.
    pub fn limit(&self) -> BackgroundLimit {
        self.limit
    }

    /// Returns the files to which processes write themselves.
    pub fn lists(&self) -> LimitLists {
        let of = |cgroups: &[PathBuf]| {
            cgroups
                .iter()
                .map(|path| path.join("cgroup.procs"))
                .collect()
        };
        LimitLists {
            background: of(&self.cgroups),
            case: of(&self.cgroups_of_case),
        }
    }

    /// Kills the processes that are left and removes the cgroups. Returns the first error; a change
    /// that could not be undone stays in the ledger.
    pub fn remove(self, ledger: &Ledger) -> Result<(), TestbedError> {
        let undone: Vec<_> = self
            .entries
            .into_iter()
            .rev()
            .map(|entry| ledger.undo(entry).map(drop))
            .collect();
        undone.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsb_model::Bytes;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn tree() -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::below(tree.path());
        (tree, roots)
    }

    fn limit() -> BackgroundLimit {
        BackgroundLimit {
            cpus: Some(0.25),
            memory: Some(Bytes(64 << 20)),
            write_bps: Some(Bytes(20 << 20)),
            read_iops: Some(100),
            ..BackgroundLimit::default()
        }
    }

    /// Returns the settings of all cgroups as one text each.
    fn settings(planned: &[Planned]) -> Vec<String> {
        let all = planned.iter().flat_map(|one| &one.settings);
        all.map(|(file, value)| format!("{file}={value}")).collect()
    }

    #[test]
    fn one_cgroup_of_the_unified_hierarchy_has_all_limits() {
        let (_tree, roots) = tree();
        write(&roots.proc.join("self/cgroup"), "0::/\n");
        let root = roots.sys.join("fs/cgroup");
        write(&root.join("cgroup.controllers"), "cpu io memory pids\n");
        write(&root.join("cgroup.subtree_control"), "cpu\n");
        let planned = plan(&limit(), "7:1", &roots).unwrap();
        assert_eq!(planned.len(), 1);
        assert_eq!(
            settings(&planned),
            [
                "cpu.max=25000 100000",
                "memory.high=67108864",
                "io.max=7:1 wbps=20971520 riops=100"
            ]
        );
        let on: Vec<_> = planned[0]
            .hierarchies
            .iter()
            .filter_map(|one| Some(one.enable.as_ref()?.on.as_str()))
            .collect();
        assert_eq!(on, ["+memory", "+io"], "the root hands cpu down already");
    }

    #[test]
    fn a_weight_needs_a_cgroup_for_the_case_and_the_controller_of_shares() {
        let (_tree, roots) = tree();
        write(&roots.proc.join("self/cgroup"), "0::/\n");
        let root = roots.sys.join("fs/cgroup");
        write(&root.join("cgroup.controllers"), "cpu io memory\n");
        write(&root.join("cgroup.subtree_control"), "");
        let limit = BackgroundLimit {
            io_weight: Some(10),
            write_iops: Some(5),
            ..BackgroundLimit::default()
        };
        let why = plan(&limit, "7:1", &roots).unwrap_err().to_string();
        assert!(why.contains("io.cost.qos"), "{why}");
        write(
            &root.join("io.cost.qos"),
            "7:0 enable=1 ctrl=auto\n7:1 enable=0 ctrl=auto\n",
        );
        let shares = |disk: &str| {
            let mut planned = plan(&limit, disk, &roots).unwrap();
            let one = planned.pop().unwrap();
            assert!(
                planned.is_empty() && one.hierarchies.len() == 1,
                "{one:?} {planned:?}"
            );
            assert_eq!(settings(&[one]).last().unwrap(), "io.weight=default 10");
            plan(&limit, disk, &roots)
                .unwrap()
                .pop()
                .unwrap()
                .share
                .unwrap()
        };
        assert_eq!(
            shares("7:0"),
            Share {
                settings_of_case: vec![weight_setting(100)],
                enable: None
            }
        );
        assert_eq!(shares("7:1").enable.unwrap().off, "7:1 enable=0");
        assert_eq!(shares("7:11").enable.unwrap().on, "7:11 enable=1");
    }

    #[test]
    fn version_1_has_a_cgroup_per_controller() {
        let (_tree, roots) = tree();
        write(
            &roots.proc.join("self/cgroup"),
            "3:blkio:/\n2:memory:/\n1:cpu,cpuacct:/\n",
        );
        for controller in ["cpu", "memory", "blkio"] {
            write(
                &roots
                    .sys
                    .join("fs/cgroup")
                    .join(controller)
                    .join("cgroup.procs"),
                "1\n",
            );
        }
        let planned = plan(&limit(), "7:1", &roots).unwrap();
        assert_eq!(planned.len(), 3);
        assert_eq!(
            settings(&planned),
            [
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=25000",
                "memory.limit_in_bytes=67108864",
                "blkio.throttle.write_bps_device=7:1 20971520",
                "blkio.throttle.read_iops_device=7:1 100"
            ]
        );
    }

    #[test]
    fn a_missing_controller_is_named() {
        let (_tree, roots) = tree();
        write(&roots.proc.join("self/cgroup"), "0::/\n");
        let why = plan(&limit(), "7:1", &roots).unwrap_err().to_string();
        assert!(why.contains("cpu controller"), "{why}");
    }

    #[test]
    fn only_disks_with_queues_are_divided() {
        let tree = tempfile::tempdir().unwrap();
        let disk = |name: &str| tree.path().join("block").join(name);
        fs::create_dir_all(disk("vda/mq")).unwrap();
        write(&disk("vda/vda1/partition"), "1\n");
        write(&disk("dm-0/dev"), "253:0\n");
        assert!(
            has_queues(&disk("vda")) && has_queues(&disk("vda/vda1")) && !has_queues(&disk("dm-0"))
        );
    }

    #[test]
    fn a_partition_is_limited_as_its_disk() {
        let (tree, _) = tree();
        let disk = tree.path().join("block/loop1");
        write(&disk.join("dev"), "7:1\n");
        write(&disk.join("loop1p2/dev"), "259:2\n");
        write(&disk.join("loop1p2/partition"), "2\n");
        assert_eq!(disk_number(Some(&disk.join("loop1p2"))).unwrap(), "7:1");
        assert!(disk_number(None).is_err());
    }
}
