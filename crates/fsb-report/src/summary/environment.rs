//! The machine, the targets and the controls: requested beside observed.

use std::collections::BTreeMap;

use fsb_model::host::{DeviceManifest, HostManifest, ProcessorCache};
use fsb_model::run::{ControlRecord, MediumRecord, TargetRecord};
use fsb_model::storage::{Layer, layers_text};
use fsb_model::units::show_bytes;
use fsb_model::{Repetition, RunRecord, Target};
use serde::Serialize;

use super::device::place_text;
use super::geometry;
use crate::mark;
use crate::record_text::stop_reason_text;
use crate::show::{percent, scale};

/// A table of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentTable {
    /// The subject of the table.
    pub title: String,
    /// The lines.
    pub rows: Vec<EnvironmentRow>,
}

/// One fact, as requested and as observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentRow {
    /// The name of the fact.
    pub what: String,
    /// The requested value, if there is one.
    pub requested: Option<String>,
    /// The observed value, if there is one.
    pub observed: Option<String>,
}

#[derive(Default)]
struct Rows(Vec<EnvironmentRow>);

impl Rows {
    fn both(&mut self, what: &str, requested: impl Into<String>, observed: impl Into<String>) {
        let present = |text: String| Some(text).filter(|text| !text.is_empty());
        let (requested, observed) = (present(requested.into()), present(observed.into()));
        if requested.is_some() || observed.is_some() {
            self.0.push(EnvironmentRow {
                what: what.to_owned(),
                requested,
                observed,
            });
        }
    }

    fn seen(&mut self, what: &str, observed: impl Into<String>) {
        self.both(what, "", observed);
    }

    fn seen_if(&mut self, what: &str, observed: Option<impl Into<String>>) {
        if let Some(observed) = observed {
            self.seen(what, observed);
        }
    }

    fn seen_map(&mut self, prefix: &str, map: &BTreeMap<String, String>) {
        for (key, value) in map {
            self.seen(&format!("{prefix}{key}"), value.trim());
        }
    }

    fn table(self, title: impl Into<String>) -> Option<EnvironmentTable> {
        (!self.0.is_empty()).then(|| EnvironmentTable {
            title: title.into(),
            rows: self.0,
        })
    }
}

/// Returns all tables that are not empty.
pub(crate) fn tables(record: &RunRecord) -> Vec<EnvironmentTable> {
    let mut tables = vec![run(record)];
    tables.extend(record.plan.targets.iter().map(|target| {
        let unknown = TargetRecord::default();
        target_table(
            record,
            target,
            record.targets.get(&target.name).unwrap_or(&unknown),
        )
    }));
    tables.extend(
        record
            .media
            .iter()
            .map(|(text, medium)| medium_table(text, medium)),
    );
    tables.push(controls(record));
    tables.push(amounts(record));
    tables.push(virtual_machine(record));
    tables.push(machine(&record.host, record.on.as_deref()));
    tables.into_iter().flatten().collect()
}

fn run(record: &RunRecord) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    let plan = &record.plan;
    let asked = match plan.repetition {
        Repetition::Blocks {
            blocks,
            seconds: None,
        } => format!("{blocks} blocks"),
        Repetition::Blocks {
            blocks,
            seconds: Some(seconds),
        } => format!("{blocks} blocks, at most {seconds:.0} s"),
        Repetition::Budget { seconds } => format!("as many blocks as fit {seconds:.0} s"),
        Repetition::Precision {
            half_width,
            seconds,
        } => {
            format!(
                "until every half-width is below {}, within {seconds:.0} s",
                percent(half_width)
            )
        }
    };
    rows.both("suite", plan.name.as_str(), "");
    let planned = record
        .blocks_planned
        .map(|blocks| format!("{blocks} blocks planned after warm-up"));
    rows.both("repetition", asked, planned.unwrap_or_default());
    rows.seen_if("end", record.stop_reason.as_ref().map(stop_reason_text));
    rows.both("image size", plan.size.to_string(), "");
    if plan.scale != 1.0 {
        rows.both(
            "scale of files, image and memory limit",
            scale(plan.scale),
            "",
        );
    }
    rows.both("images live in", plan.dir.display().to_string(), "");
    rows.both("seed", plan.seed.to_string(), "");
    for (number, segment) in (1..).zip(&record.segments) {
        let ended = segment.ended.as_deref().unwrap_or("interrupted");
        let text = format!(
            "{} to {ended}, Linux {}, fsb {}",
            segment.started, segment.kernel, segment.fsb_version
        );
        rows.seen(&format!("segment {number}"), text);
    }
    rows.table("Run")
}

fn target_table(
    record: &RunRecord,
    target: &Target,
    found: &TargetRecord,
) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    let fs = target.file_system();
    let asked = fs.map_or_else(|| "directory".to_owned(), |spec| spec.fs.clone());
    let served = found
        .driver
        .as_ref()
        .map(|driver| format!("served by {driver}"))
        .unwrap_or_default();
    rows.both("file system", asked, served);
    let medium = fs.map(|spec| spec.medium.to_string()).unwrap_or_default();
    rows.both("medium", medium, found.medium.clone().unwrap_or_default());
    rows.both(
        "kernel",
        target.kernel.clone().unwrap_or_default(),
        found.kernel.clone().unwrap_or_default(),
    );
    let options = fs
        .map(|spec| spec.options.join(","))
        .filter(|options| !options.is_empty());
    let options = options.unwrap_or_else(|| found.requested_options.join(","));
    rows.both("mount options", options, found.mount_options.join(","));
    let arguments = fs.map(|spec| spec.mkfs.join(" ")).unwrap_or_default();
    rows.both("mkfs", arguments, found.mkfs_command.join(" "));
    let lines = |runs: &[Vec<String>]| {
        runs.iter()
            .map(|words| words.join(" "))
            .collect::<Vec<_>>()
            .join("; ")
    };
    rows.both(
        "tune",
        fs.map(|spec| lines(&spec.tune)).unwrap_or_default(),
        lines(&found.tune_commands),
    );
    rows.seen_if("mkfs version", found.mkfs_version.as_deref());
    match &found.geometry {
        Some(found) => rows.seen("geometry", geometry::summary(found)),
        None => rows.seen_if(
            "block size",
            found.block_size.map(|bytes| show_bytes(bytes as f64)),
        ),
    }
    rows.seen(
        "beside a large disk",
        geometry::notes(record, target).join("; "),
    );
    rows.seen("features", found.features.join(" "));
    rows.seen("unsafe", mark::causes(&found.risks));
    rows.seen("storage", storage_text(record, found));
    rows.seen("notes", found.notes.join("; "));
    if let Some(found) = &found.device {
        device(&mut rows, "", found);
    }
    rows.seen_if("failed", found.failed.as_deref());
    control_rows(&mut rows, &found.controls);
    rows.table(format!("Target {}", target.name))
}

/// Returns the layers of a target's storage. A guest cannot see what its hypervisor does with a
/// virtual disk.
fn storage_text(record: &RunRecord, found: &TargetRecord) -> String {
    let layers = layers_text(&found.storage);
    match record.host.hypervisor.is_some()
        && found
            .storage
            .iter()
            .any(|layer| matches!(layer.layer, Layer::Disk { .. }))
    {
        true => {
            format!(
                "{layers}; the hypervisor may hold the disk in memory or omit flushes, which a guest cannot see"
            )
        }
        false => layers,
    }
}

fn medium_table(text: &str, medium: &MediumRecord) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    rows.both("medium", text, medium.summary.as_str());
    rows.seen_if(
        "bypasses the host's page cache",
        medium
            .direct
            .map(|direct| if direct { "yes" } else { "no" }),
    );
    rows.seen_if("filled", medium.filled.as_deref());
    device(&mut rows, "", &medium.device);
    rows.table(format!("Medium {text}"))
}

fn device(rows: &mut Rows, prefix: &str, found: &DeviceManifest) {
    let size = match found.size_bytes {
        0 => String::new(),
        bytes => format!(", {}", show_bytes(bytes as f64)),
    };
    let place = found.partition_start.and(found.partition_place());
    let facts = [
        ("device", Some(format!("{}{size}", found.name))),
        ("model", found.model.clone()),
        ("serial", found.serial.clone()),
        ("controller", found.controller.clone()),
        ("interface", found.interface.clone()),
        (
            "rotations",
            found
                .rotations_per_minute
                .map(|number| format!("{number} per minute")),
        ),
        (
            "buffer",
            found.buffer_bytes.map(|bytes| show_bytes(bytes as f64)),
        ),
        (
            "partition starts at sector",
            found.partition_start.map(|sector| sector.to_string()),
        ),
        (
            "position on its disk",
            place.map(|place| place_text(&place)),
        ),
        ("backed by", found.backing.clone()),
    ];
    for (what, text) in facts {
        rows.seen_if(&format!("{prefix}{what}"), text);
    }
    rows.seen_map(&format!("{prefix}queue/"), &found.queue);
    for beneath in &found.beneath {
        device(rows, &format!("{prefix}beneath: "), beneath);
    }
}

fn controls(record: &RunRecord) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    control_rows(&mut rows, &record.controls);
    // Controls of single targets are in the tables of those targets.
    for (name, asked) in record.plan.controls.iter().filter(|(name, _)| {
        !(record.controls.contains_key(*name)
            || record
                .targets
                .values()
                .any(|target| target.controls.contains_key(*name)))
    }) {
        rows.both(name, asked.as_str(), "");
    }
    rows.table("Controls")
}

fn control_rows(rows: &mut Rows, controls: &BTreeMap<String, ControlRecord>) {
    for (name, control) in controls {
        let effect = if control.effective {
            ""
        } else {
            " (not in effect)"
        };
        rows.both(
            name,
            control.requested.as_str(),
            format!("{}{effect}", control.observed),
        );
    }
}

fn amounts(record: &RunRecord) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    for cell in &record.cells {
        if let Some(amount) = record.amounts.get(&cell.label) {
            let text = format!("{} × {} operations", amount.repetitions, amount.operations);
            rows.seen(&cell.label, text);
        }
    }
    rows.table("Work in one trial")
}

/// Returns the table of the virtual machine. The next table describes the machine inside it.
fn virtual_machine(record: &RunRecord) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    let asked = record.plan.vm;
    let found = record.vm.clone().unwrap_or_default();
    let bytes = |bytes: u64| {
        if bytes > 0 {
            show_bytes(bytes as f64)
        } else {
            String::new()
        }
    };
    let count = |count: u32| {
        if count > 0 {
            count.to_string()
        } else {
            String::new()
        }
    };
    rows.seen("QEMU", found.qemu.as_str());
    rows.seen(
        "accelerator",
        [found.accelerator.as_str(), &found.acceleration]
            .join(": ")
            .trim_matches([':', ' ']),
    );
    rows.both(
        "memory",
        asked.map(|vm| bytes(vm.memory.0)).unwrap_or_default(),
        bytes(found.memory_bytes),
    );
    rows.both(
        "processors",
        asked.map(|vm| count(vm.cpus)).unwrap_or_default(),
        count(found.cpus),
    );
    rows.both(
        "kernels",
        record.plan.kernels.join(", "),
        found.kernels.keys().cloned().collect::<Vec<_>>().join(", "),
    );
    for (release, kernel) in &found.kernels {
        rows.seen(&format!("{release} image"), kernel.image.as_str());
        rows.seen(&format!("{release} initramfs"), kernel.initramfs.as_str());
    }
    rows.seen("kernel of its host", found.host_kernel.as_str());
    rows.table("Virtual machine")
}

/// Returns the name of a cache: `L1 data cache`, `L3 cache`.
fn cache_name(cache: &ProcessorCache) -> String {
    match cache.kind.as_str() {
        "unified" => format!("L{} cache", cache.level),
        kind => format!("L{} {kind} cache", cache.level),
    }
}

fn cache_text(cache: &ProcessorCache) -> String {
    let size = show_bytes(cache.size_bytes as f64);
    match cache.shared_by {
        Some(processors) if processors > 1 => {
            format!("{size}, shared by {processors} logical processors")
        }
        _ => size,
    }
}

fn machine(host: &HostManifest, on: Option<&str>) -> Option<EnvironmentTable> {
    let mut rows = Rows::default();
    rows.seen_if("host", on);
    rows.seen(
        "kernel",
        [host.kernel.as_str(), &host.kernel_build].join(" ").trim(),
    );
    rows.seen_if("command line", host.command_line.as_deref());
    rows.seen_if("distribution", host.distribution.as_deref());
    rows.seen("architecture", host.architecture.as_str());
    rows.seen_if("processor", host.cpu.as_deref());
    for cache in &host.caches {
        rows.seen(&cache_name(cache), cache_text(cache));
    }
    rows.seen_if("board", host.board.as_deref());
    rows.seen_if("firmware", host.bios.as_deref());
    rows.seen_if(
        "logical processors",
        (host.cpus > 0).then(|| host.cpus.to_string()),
    );
    rows.seen_if("NUMA nodes", host.numa_nodes.map(|nodes| nodes.to_string()));
    rows.seen_if(
        "memory",
        (host.memory_bytes > 0).then(|| show_bytes(host.memory_bytes as f64)),
    );
    rows.seen_if(
        "swap",
        (host.memory_bytes > 0).then(|| show_bytes(host.swap_bytes as f64)),
    );
    rows.seen_if("governor", host.governor.as_deref());
    rows.seen_if(
        "frequency boost",
        host.turbo.map(|turbo| if turbo { "on" } else { "off" }),
    );
    rows.seen_if("clock source", host.clock_source.as_deref());
    rows.seen_if("virtual machine", host.hypervisor.as_deref());
    rows.seen_if("container", host.container.as_deref());
    rows.seen_map("cgroup ", &host.cgroup_limits);
    rows.seen_map("", &host.sysctls);
    rows.seen_map("mitigation: ", &host.mitigations);
    let commit = host
        .fsb_commit
        .as_ref()
        .map(|commit| format!(" ({commit})"))
        .unwrap_or_default();
    if !host.fsb_version.is_empty() {
        rows.seen("fsb", format!("{}{commit}", host.fsb_version));
    }
    rows.table("Machine")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hardware_is_listed_as_far_as_it_is_known() {
        let cache = |level, kind: &str, size_bytes, shared_by| ProcessorCache {
            level,
            kind: kind.to_owned(),
            size_bytes,
            shared_by,
        };
        let host = HostManifest {
            board: Some("ASUSTeK Z97-A".to_owned()),
            bios: Some("American Megatrends 2801".to_owned()),
            caches: vec![
                cache(1, "data", 32 << 10, Some(1)),
                cache(3, "unified", 8 << 20, Some(8)),
            ],
            ..HostManifest::default()
        };
        let table = machine(&host, None).expect("a table");
        let found = |what: &str| {
            table
                .rows
                .iter()
                .find(|row| row.what == what)
                .and_then(|row| row.observed.clone())
        };
        assert_eq!(found("board").as_deref(), Some("ASUSTeK Z97-A"));
        assert_eq!(
            found("firmware").as_deref(),
            Some("American Megatrends 2801")
        );
        assert_eq!(found("L1 data cache").as_deref(), Some("32.0 KiB"));
        assert_eq!(
            found("L3 cache").as_deref(),
            Some("8.00 MiB, shared by 8 logical processors")
        );
        let disk = DeviceManifest {
            name: "sda".to_owned(),
            controller: Some("ahci, PCI 8086:8c82".to_owned()),
            interface: Some("ATA, 6.0 Gbps".to_owned()),
            rotations_per_minute: Some(7200),
            buffer_bytes: Some(64 << 20),
            ..DeviceManifest::default()
        };
        let mut rows = Rows::default();
        device(&mut rows, "", &disk);
        let shown: Vec<_> = rows
            .0
            .iter()
            .map(|row| (row.what.as_str(), row.observed.as_deref().unwrap()))
            .collect();
        assert_eq!(
            shown[1..],
            [
                ("controller", "ahci, PCI 8086:8c82"),
                ("interface", "ATA, 6.0 Gbps"),
                ("rotations", "7200 per minute"),
                ("buffer", "64.0 MiB"),
            ]
        );
    }
}
