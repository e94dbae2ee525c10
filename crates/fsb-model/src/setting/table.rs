//! The table of settings. A new setting is a row here and a field of [`Plan`](crate::Plan).

use super::declared::{
    Setting, SettingClass as Class, SettingCommand as Command, SettingDefault as Value,
    SettingGroup as Group, SettingKind as Kind, Stored,
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

const RUN: &[Command] = &[Command::Run];
const RUN_BISECT: &[Command] = &[Command::Run, Command::Bisect];
const RUN_CHOOSE_BISECT: &[Command] = &[Command::Run, Command::Choose, Command::Bisect];
const ALL_THAT_MEASURE: &[Command] = &[
    Command::Run,
    Command::Choose,
    Command::Export,
    Command::Bisect,
];
const RUN_CHOOSE_EXPORT: &[Command] = &[Command::Run, Command::Choose, Command::Export];
const ALL_THAT_JUDGE: &[Command] = &[
    Command::Run,
    Command::Choose,
    Command::Compare,
    Command::Bisect,
];
const ANY: u64 = u64::MAX;

/// All settings, in the order of help.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "name",
        kind: Kind::Text,
        group: Group::Targets,
        about: "Name of the run",
        default: Value::Described("that of the suite or of the file"),
        commands: &[],
        is_in_form: false,
        stored: Stored::Computed("/name"),
        is_work: false,
        class: Class::PlanName,
        ..Setting::PLAIN
    },
    Setting {
        name: "mkfs_defaults",
        kind: Kind::Flag,
        group: Group::Targets,
        about: "Let each mkfs program choose block size, inodes and journal by the size of its slice",
        label: "Defaults of mkfs",
        stored: Stored::Copied("/mkfs_defaults"),
        ..Setting::PLAIN
    },
    Setting {
        name: "like_disk",
        kind: Kind::Size(1 << 30, 16 << 40),
        group: Group::Targets,
        about: "Size of the disk that slices imitate, in layout and behaviour",
        default: Value::Bytes(LARGE_DISK),
        example: "1T",
        label: "Size of the disk",
        excludes: &["mkfs_defaults"],
        stored: Stored::Copied("/like_disk"),
        ..Setting::PLAIN
    },
    Setting {
        name: "risky",
        kind: Kind::Flag,
        group: Group::Targets,
        about: "Let targets win that may lose synced data in a crash",
        label: "Risky targets may win",
        stored: Stored::Copied("/risky"),
        is_work: false,
        ..Setting::PLAIN
    },
    Setting {
        name: "suite",
        kind: Kind::Text,
        group: Group::Workload,
        about: "Suite to run; see 'fsb list suites'",
        default: Value::Text(SUITE),
        value_name: "NAME",
        commands: RUN_CHOOSE_EXPORT,
        is_in_form: false,
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "seed",
        kind: Kind::Whole(0, i64::MAX as u64),
        group: Group::Workload,
        about: "Seed of orders and data",
        default: Value::Described("random, recorded"),
        commands: ALL_THAT_MEASURE,
        stored: Stored::Copied("/seed"),
        is_work: false,
        ..Setting::PLAIN
    },
    Setting {
        name: "budget",
        kind: Kind::Time(1.0, LONGEST_BUDGET, "1 second and 30 days"),
        group: Group::Time,
        about: "Time limit of the run, report included",
        default: Value::Seconds(BUDGET),
        table: Some("repetition"),
        replaces: &["blocks"],
        commands: RUN_CHOOSE_BISECT,
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "blocks",
        kind: Kind::Whole(1, BLOCK_LIMIT as u64),
        group: Group::Time,
        about: "Number of blocks; with a budget, those that fit",
        table: Some("repetition"),
        commands: RUN,
        excludes: &["precision"],
        replaces: &["budget", "precision"],
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "precision",
        kind: Kind::Share,
        group: Group::Time,
        about: "Add blocks until all intervals are within ±P",
        example: "2%",
        table: Some("repetition"),
        commands: RUN,
        replaces: &["blocks"],
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "sample_time",
        kind: Kind::Time(0.001, 3600.0, "1 millisecond and an hour"),
        group: Group::Time,
        about: "Length of a timed sample",
        default: Value::Described("chosen after warm-up"),
        example: "50ms",
        table: Some("repetition"),
        commands: RUN_BISECT,
        is_in_form: false,
        variable: Some("FSB_SAMPLE_TIME"),
        stored: Stored::Copied("/sample_time"),
        ..Setting::PLAIN
    },
    Setting {
        name: "theta",
        kind: Kind::Share,
        group: Group::Time,
        about: "Smallest difference that matters",
        default: Value::Share(THETA),
        label: "Smallest difference",
        commands: ALL_THAT_JUDGE,
        stored: Stored::Copied("/theta"),
        is_work: false,
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "explain",
        kind: Kind::Flag,
        group: Group::Time,
        about: "Trace further blocks with eBPF to explain differences: waits by kernel stack, CPU, \
         flushes; needs root",
        label: "Explain differences",
        commands: RUN,
        stored: Stored::Copied("/explain"),
        is_work: false,
        ..Setting::PLAIN
    },
    Setting {
        name: "dir",
        kind: Kind::Path,
        group: Group::Medium,
        about: "Directory of the image",
        default: Value::Text("."),
        commands: ALL_THAT_MEASURE,
        is_in_form: false,
        stored: Stored::Copied("/dir"),
        class: Class::Directory("directory of images"),
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "size",
        kind: Kind::Size(0, ANY),
        group: Group::Medium,
        about: "Image size; file sizes scale with it",
        default: Value::Bytes(IMAGE.0),
        label: "Image size",
        commands: ALL_THAT_MEASURE,
        stored: Stored::Computed("/size"),
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "scale",
        kind: Kind::Factor,
        group: Group::Medium,
        about: "Multiply file sizes, image size and memory limit by F",
        example: "1/8",
        commands: RUN,
        is_in_form: false,
        ..Setting::PLAIN
    },
    Setting {
        name: "scaled",
        kind: Kind::Factor,
        group: Group::Medium,
        about: "Factor that the sizes of this plan already include",
        commands: &[],
        is_in_form: false,
        stored: Stored::Computed("/scale"),
        ..Setting::PLAIN
    },
    Setting {
        name: "one_at_a_time",
        kind: Kind::Flag,
        group: Group::Medium,
        about: "Let targets take turns on the whole medium instead of sharing it",
        commands: RUN,
        stored: Stored::Copied("/one_at_a_time"),
        ..Setting::PLAIN
    },
    Setting {
        name: "wipe",
        kind: Kind::Paths,
        group: Group::Medium,
        about: "Overwrite the contents of this block device; repeatable",
        value_name: "DEVICE",
        is_written: false,
        stored: Stored::Copied("/wipe"),
        is_work: false,
        class: Class::Devices,
        ..Setting::PLAIN
    },
    Setting {
        name: "in",
        kind: Kind::Word(&["host", "vm"]),
        group: Group::Machine,
        about: "Run on host or vm (virtual machine)",
        default: Value::Text("host"),
        value_name: "PLACE",
        label: "Place",
        commands: RUN,
        stored: Stored::Copied("/in"),
        is_common: true,
        ..Setting::PLAIN
    },
    Setting {
        name: "kernel",
        kind: Kind::Texts,
        group: Group::Machine,
        about: "Kernel of the virtual machine: a release, image, .deb or build tree; repeatable",
        value_name: "K",
        commands: RUN,
        is_in_form: false,
        stored: Stored::Copied("/kernels"),
        class: Class::Kernels,
        ..Setting::PLAIN
    },
    Setting {
        name: "memory",
        kind: Kind::Size(0, ANY),
        group: Group::Machine,
        about: "Memory of the virtual machine",
        default: Value::Bytes(VM_MEMORY.0),
        commands: RUN,
        is_in_form: false,
        stored: Stored::Computed("/vm/memory"),
        ..Setting::PLAIN
    },
    Setting {
        name: "cpus",
        kind: Kind::Whole(1, MOST_CPUS),
        group: Group::Machine,
        about: "Processors of the virtual machine",
        default: Value::Described("all"),
        commands: RUN,
        is_in_form: false,
        stored: Stored::Computed("/vm/cpus"),
        ..Setting::PLAIN
    },
    Setting {
        name: "root",
        kind: Kind::Path,
        group: Group::Machine,
        about: "Root directory that commands see in the virtual machine, read-only",
        default: Value::Text("/"),
        commands: RUN,
        is_in_form: false,
        stored: Stored::Computed("/root"),
        is_work: false,
        class: Class::Directory("root of commands"),
        ..Setting::PLAIN
    },
    Setting {
        name: "uid",
        kind: Kind::Whole(0, u32::MAX as u64),
        group: Group::Machine,
        about: "User that workers run as",
        default: Value::Described("the invoking user, or user nobody"),
        value_name: "ID",
        is_written: false,
        stored: Stored::Copied("/identity/uid"),
        is_work: false,
        class: Class::Removed(Identifying::User, "number of the user (--uid)"),
        ..Setting::PLAIN
    },
    Setting {
        name: "gid",
        kind: Kind::Whole(0, u32::MAX as u64),
        group: Group::Machine,
        about: "Group that workers run as",
        default: Value::Described("that of the invoking user, or nogroup"),
        value_name: "ID",
        is_written: false,
        stored: Stored::Copied("/identity/gid"),
        is_work: false,
        class: Class::Removed(Identifying::User, "number of the group (--gid)"),
        ..Setting::PLAIN
    },
    Setting {
        name: "force_root_user",
        kind: Kind::Flag,
        group: Group::Machine,
        about: "Run workers as root",
        is_written: false,
        stored: Stored::Copied("/identity/force_root"),
        is_work: false,
        ..Setting::PLAIN
    },
    Setting {
        name: "keep_affected",
        kind: Kind::Flag,
        group: Group::Machine,
        about: "Keep trials that interference affected instead of retrying them",
        commands: RUN_BISECT,
        variable: Some("FSB_KEEP_AFFECTED"),
        stored: Stored::Copied("/keep_affected"),
        ..Setting::PLAIN
    },
];

/// Returns the setting of that name, in the table of plan files if one is named.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the settings that a command has as options.
pub fn of_command(command: Command) -> impl Iterator<Item = &'static Setting> {
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
