//! The table of settings. A new setting is a row here and a field of [`Plan`](crate::Plan).

use super::declared::{
    Setting, SettingClass, SettingCommand, SettingDefault, SettingGroup, SettingKind,
};
use crate::geometry::LARGE_DISK;
use crate::publication::Identifying;
use crate::units::Bytes;

/// The smallest ratio that matters, unless the user gives another: 3 %.
pub const THETA: f64 = 0.03;
/// Seconds that a run may take, unless the user gives another budget.
pub const BUDGET: f64 = 300.0;
/// The size of the image, unless the user gives another.
pub const IMAGE: Bytes = Bytes(2 << 30);
/// The memory of a virtual machine, unless the user gives another: room for the page cache of the
/// default suite.
pub const VM_MEMORY: Bytes = Bytes(1 << 30);
/// The suite of a plan without workloads.
pub const SUITE: &str = "quick";
/// More virtual processors than any kernel of a distribution brings up.
const MOST_CPUS: u64 = 512;
/// The maximum number of blocks that can be requested.
pub const BLOCK_LIMIT: u32 = 10_000;
/// Seconds of the longest budget.
pub const LONGEST_BUDGET: f64 = 30.0 * 86_400.0;

const RUN: &[SettingCommand] = &[SettingCommand::Run];
const RUN_CHOOSE_EXPORT: &[SettingCommand] = &[
    SettingCommand::Run,
    SettingCommand::Choose,
    SettingCommand::Export,
];
const RUN_CHOOSE_COMPARE: &[SettingCommand] = &[
    SettingCommand::Run,
    SettingCommand::Choose,
    SettingCommand::Compare,
];
const ANY: u64 = u64::MAX;

/// All settings, in the order of help.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "name",
        SettingKind::Text,
        SettingGroup::Targets,
        "Name of the run",
    )
    .default(SettingDefault::Described(
        "that of the suite or of the file",
    ))
    .commands(&[])
    .not_in_form()
    .computed("/name")
    .not_work()
    .class(SettingClass::PlanName),
    Setting::flag(
        "mkfs_defaults",
        SettingGroup::Targets,
        "Let each mkfs program choose block size, inodes and journal by the size of its slice",
    )
    .label("Defaults of mkfs")
    .copied("/mkfs_defaults"),
    Setting::new(
        "like_disk",
        SettingKind::Size(1 << 30, 16 << 40),
        SettingGroup::Targets,
        "Size of the disk that slices imitate, in layout and behaviour",
    )
    .default(SettingDefault::Bytes(LARGE_DISK))
    .example("1T")
    .label("Size of the disk")
    .excludes(&["mkfs_defaults"])
    .copied("/like_disk"),
    Setting::flag(
        "risky",
        SettingGroup::Targets,
        "Let targets win that may lose synced data in a crash",
    )
    .label("Risky targets may win")
    .copied("/risky")
    .not_work(),
    Setting::new(
        "suite",
        SettingKind::Text,
        SettingGroup::Workload,
        "Suite to run; see 'fsb list suites'",
    )
    .default(SettingDefault::Text(SUITE))
    .value_name("NAME")
    .commands(RUN_CHOOSE_EXPORT)
    .not_in_form()
    .common(),
    Setting::new(
        "seed",
        SettingKind::Whole(0, i64::MAX as u64),
        SettingGroup::Workload,
        "Seed of orders and data",
    )
    .default(SettingDefault::Described("random, recorded"))
    .commands(RUN_CHOOSE_EXPORT)
    .copied("/seed")
    .not_work(),
    Setting::new(
        "budget",
        SettingKind::Time(1.0, LONGEST_BUDGET, "1 second and 30 days"),
        SettingGroup::Time,
        "Time limit of the run, report included",
    )
    .default(SettingDefault::Seconds(BUDGET))
    .table("repetition")
    .replaces(&["blocks"])
    .common(),
    Setting::new(
        "blocks",
        SettingKind::Whole(1, BLOCK_LIMIT as u64),
        SettingGroup::Time,
        "Number of blocks; with a budget, those that fit",
    )
    .table("repetition")
    .commands(RUN)
    .excludes(&["precision"])
    .replaces(&["budget", "precision"])
    .common(),
    Setting::new(
        "precision",
        SettingKind::Share,
        SettingGroup::Time,
        "Add blocks until all intervals are within ±P",
    )
    .example("2%")
    .table("repetition")
    .commands(RUN)
    .replaces(&["blocks"])
    .common(),
    Setting::new(
        "sample_time",
        SettingKind::Time(0.001, 3600.0, "1 millisecond and an hour"),
        SettingGroup::Time,
        "Length of a timed sample",
    )
    .default(SettingDefault::Described("chosen after warm-up"))
    .example("50ms")
    .table("repetition")
    .commands(RUN)
    .not_in_form()
    .variable("FSB_SAMPLE_TIME")
    .copied("/sample_time"),
    Setting::new(
        "theta",
        SettingKind::Share,
        SettingGroup::Time,
        "Smallest difference that matters",
    )
    .default(SettingDefault::Share(THETA))
    .label("Smallest difference")
    .commands(RUN_CHOOSE_COMPARE)
    .copied("/theta")
    .not_work()
    .common(),
    Setting::flag(
        "explain",
        SettingGroup::Time,
        "Trace further blocks with eBPF to explain differences: waits by kernel stack, CPU, \
         flushes; needs root",
    )
    .label("Explain differences")
    .commands(RUN)
    .copied("/explain")
    .not_work(),
    Setting::new(
        "dir",
        SettingKind::Path,
        SettingGroup::Medium,
        "Directory of the image",
    )
    .default(SettingDefault::Text("."))
    .commands(RUN_CHOOSE_EXPORT)
    .not_in_form()
    .copied("/dir")
    .class(SettingClass::Directory("directory of images"))
    .common(),
    Setting::new(
        "size",
        SettingKind::Size(0, ANY),
        SettingGroup::Medium,
        "Image size; file sizes scale with it",
    )
    .default(SettingDefault::Bytes(IMAGE.0))
    .label("Image size")
    .commands(RUN_CHOOSE_EXPORT)
    .computed("/size")
    .common(),
    Setting::new(
        "scale",
        SettingKind::Factor,
        SettingGroup::Medium,
        "Multiply file sizes, image size and memory limit by F",
    )
    .example("1/8")
    .commands(RUN)
    .not_in_form(),
    Setting::new(
        "scaled",
        SettingKind::Factor,
        SettingGroup::Medium,
        "Factor that the sizes of this plan already include",
    )
    .commands(&[])
    .not_in_form()
    .computed("/scale"),
    Setting::flag(
        "one_at_a_time",
        SettingGroup::Medium,
        "Let targets take turns on the whole medium instead of sharing it",
    )
    .commands(RUN)
    .copied("/one_at_a_time"),
    Setting::new(
        "wipe",
        SettingKind::Paths,
        SettingGroup::Medium,
        "Overwrite the contents of this block device; repeatable",
    )
    .value_name("DEVICE")
    .not_written()
    .copied("/wipe")
    .not_work()
    .class(SettingClass::Devices),
    Setting::new(
        "in",
        SettingKind::Word(&["host", "vm"]),
        SettingGroup::Machine,
        "Run on host or vm (virtual machine)",
    )
    .default(SettingDefault::Text("host"))
    .value_name("PLACE")
    .label("Place")
    .commands(RUN)
    .copied("/in")
    .common(),
    Setting::new(
        "kernel",
        SettingKind::Texts,
        SettingGroup::Machine,
        "Kernel of the virtual machine: a release, image, .deb or build tree; repeatable",
    )
    .value_name("K")
    .commands(RUN)
    .not_in_form()
    .copied("/kernels")
    .class(SettingClass::Kernels),
    Setting::new(
        "memory",
        SettingKind::Size(0, ANY),
        SettingGroup::Machine,
        "Memory of the virtual machine",
    )
    .default(SettingDefault::Bytes(VM_MEMORY.0))
    .commands(RUN)
    .not_in_form()
    .computed("/vm/memory"),
    Setting::new(
        "cpus",
        SettingKind::Whole(1, MOST_CPUS),
        SettingGroup::Machine,
        "Processors of the virtual machine",
    )
    .default(SettingDefault::Described("all"))
    .commands(RUN)
    .not_in_form()
    .computed("/vm/cpus"),
    Setting::new(
        "root",
        SettingKind::Path,
        SettingGroup::Machine,
        "Root directory that commands see in the virtual machine, read-only",
    )
    .default(SettingDefault::Text("/"))
    .commands(RUN)
    .not_in_form()
    .computed("/root")
    .not_work()
    .class(SettingClass::Directory("root of commands")),
    Setting::new(
        "uid",
        SettingKind::Whole(0, u32::MAX as u64),
        SettingGroup::Machine,
        "User that workers run as",
    )
    .default(SettingDefault::Described(
        "the invoking user, or user nobody",
    ))
    .value_name("ID")
    .not_written()
    .copied("/identity/uid")
    .not_work()
    .class(SettingClass::Removed(
        Identifying::User,
        "number of the user (--uid)",
    )),
    Setting::new(
        "gid",
        SettingKind::Whole(0, u32::MAX as u64),
        SettingGroup::Machine,
        "Group that workers run as",
    )
    .default(SettingDefault::Described(
        "that of the invoking user, or nogroup",
    ))
    .value_name("ID")
    .not_written()
    .copied("/identity/gid")
    .not_work()
    .class(SettingClass::Removed(
        Identifying::User,
        "number of the group (--gid)",
    )),
    Setting::flag(
        "force_root_user",
        SettingGroup::Machine,
        "Run workers as root",
    )
    .not_written()
    .copied("/identity/force_root")
    .not_work(),
    Setting::flag(
        "keep_affected",
        SettingGroup::Machine,
        "Keep trials that interference affected instead of retrying them",
    )
    .commands(RUN)
    .variable("FSB_KEEP_AFFECTED")
    .copied("/keep_affected"),
];

/// Returns the setting of that name, in the table of plan files if one is named.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the settings that a command has as options.
pub fn of_command(command: SettingCommand) -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(move |setting| setting.commands.contains(&command))
}

/// Returns the settings that plan files have in a table, or at the top.
pub fn of_table(table: Option<&'static str>) -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(move |setting| setting.is_written && setting.table == table)
}
