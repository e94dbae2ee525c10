//! Removes from a run what identifies its host, its users and their work.
//!
//! `CLASSES` and the table of settings give each text of a record and of a trial a class. A text
//! without a class is removed, so that a new field is private until it gets one; a test compares
//! the table with the JSON Schemas. Numbers stay. Equal values get equal stand-ins, so that cases
//! and targets stay distinct. Targets, parameters and labels depend on each other: typed code
//! replaces them before the walk over the rest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::metric;
use crate::plan::Plan;
use crate::publication::{Identifying, Removal};
use crate::run::{MediumRecord, RunRecord};
use crate::setting::{SETTINGS, SettingClass};
use crate::target::{self, FileSystemSpec, Medium, Target, TargetKind};
use crate::trial::Trial;
use crate::units::show_bytes;
use crate::workload::{BACKGROUND, Background, Params, WorkloadSpec};

/// The stand-in of a value.
const REMOVED: &str = "removed";
/// The stand-in of a sentence.
const TEXT_REMOVED: &str = "text removed";

/// The treatment of the text or texts of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    /// It stays, with all that it holds: a number or a word of the program or the kernel.
    Kept,
    /// Typed code has replaced it.
    Done,
    /// It is removed.
    Removed(Identifying, &'static str),
    /// A constant replaces it.
    Replaced(Identifying, &'static str),
    /// A stand-in with a number replaces it, which begins like this.
    Numbered(Identifying, &'static str, &'static str),
    /// It stays if it is shaped like a name of a registry or of a driver.
    Word(&'static str),
    /// It stays if it has no `/`.
    WithoutPath(&'static str),
    /// A directory or a file.
    Directory(&'static str),
    /// The path of a device.
    DevicePath,
    /// The name of a device, which stays if the kernel gives such names.
    DeviceName,
    /// The model of a device, which the user chose if the device is mapped.
    DeviceModel,
    /// The role of a stacked device, which the user chose if the device is mapped.
    DeviceRole,
    /// `/srv/image, ext4 on /dev/sda1`, of which the kind of the file system stays.
    Backing,
    /// A medium as a target names it.
    MediumName,
    /// The name of a target.
    TargetName,
    /// The label of a case.
    Label,
    /// The value of a control.
    Control,
    /// A mount option.
    MountOption,
    /// A program with its arguments.
    Command,
    /// The release or the file of a kernel.
    Kernel,
    /// The id of a boot.
    Boot,
    /// The name of a plan.
    PlanName,
}

const SENTENCE: Class = Class::Replaced(Identifying::Texts, "sentences");

/// Paths of fields that hold the same: those of the left are listed as those of the right.
const SAME: [(&str, &str); 4] = [
    ("record.media.*.device", "device"),
    ("record.targets.*.device", "device"),
    ("device.beneath", "device"),
    ("record.targets.*.controls", "record.controls"),
];

/// The classes of fields of `run.json` (`record`) and of trials: the object, its fields, and their
/// class. `*` is any value of a map, and `#` any of its keys. A list has the path of its items.
#[rustfmt::skip] // a table reads as one
const CLASSES: &[(&str, &str, Class)] = &[
    ("record", "schema memory", Class::Kept),
    ("record", "name cells units", Class::Done),
    ("record.plan", "targets workloads race", Class::Done),
    ("record.plan", "repetition", Class::Kept),
    ("record.plan.controls", "#", Class::Word("names of controls")),
    ("record.plan.controls", "*", Class::Control),
    ("record.amounts", "#", Class::Label),
    ("record.amounts", "*", Class::Kept),
    ("record.rounds", "#", Class::Label),
    ("record.rounds", "*", Class::Kept),
    ("record", "stopping_rule warnings stop_reason", SENTENCE),
    ("record.stopping_rule", "kind", Class::Word("kinds")),
    ("record.placement", "side_by_side", Class::Kept),
    ("record.placement.in_turn", "reason", SENTENCE),
    ("record.placement.in_turn.reason", "kind", Class::Word("kinds")),
    ("record.placement.in_turn.reason", "cause", SENTENCE),
    ("record.order", "targets", Class::TargetName),
    ("record.order", "cells", Class::Label),
    ("record.segments", "boot_id", Class::Boot),
    ("record.segments", "kernel fsb_version started ended", Class::Kept),
    ("record.host", "kernel kernel_build distribution architecture cpu board bios caches \
        governor mitigations clock_source hypervisor cgroup_limits sysctls fsb_version fsb_commit",
        Class::Kept),
    ("record.host", "command_line",
        Class::Removed(Identifying::Host, "command line of the kernel")),
    ("record.host", "container", Class::Word("names of container managers")),
    ("record.media", "#", Class::Done),
    ("record.media.*", "filled", Class::Kept),
    ("record.media.*", "summary unjudged", Class::Done),
    ("device", "name", Class::DeviceName),
    ("device", "model", Class::DeviceModel),
    ("device", "serial", Class::Removed(Identifying::Serials, "serial numbers of devices")),
    ("device", "controller interface queue", Class::Kept),
    ("device", "backing", Class::Backing),
    ("record.devices_probed", "#", Class::Kept),
    ("record.devices_probed.*", "#", Class::TargetName),
    ("record.devices_probed.*", "*", Class::Kept),
    ("record.large_disk", "#", Class::TargetName),
    ("record.large_disk", "*", Class::Kept),
    ("record.targets", "#", Class::TargetName),
    ("record.targets.*", "mkfs_version features geometry small_device kernel", Class::Kept),
    ("record.targets.*", "mkfs_command tune_commands", Class::Command),
    ("record.targets.*", "mount_commands",
     Class::Removed(Identifying::Commands, "commands that mount targets")),
    ("record.targets.*.risks", "cause", Class::MountOption),
    ("record.targets.*.risks", "loss", Class::Kept),
    ("record.targets.*", "requested_options mount_options", Class::MountOption),
    ("record.targets.*", "driver", Class::Word("names of drivers")),
    ("record.targets.*", "over", Class::TargetName),
    ("record.targets.*", "medium", Class::MediumName),
    ("record.targets.*.storage", "layer write_cache", Class::Kept),
    ("record.targets.*.storage", "driver holder", Class::Word("names of drivers")),
    ("record.targets.*.storage", "upper", Class::Directory("upper directories of overlays")),
    ("record.targets.*.storage", "device", Class::DeviceName),
    ("record.targets.*.storage", "file",
        Class::Directory("files behind loop devices, and their mounts")),
    ("record.targets.*.storage", "role", Class::DeviceRole),
    ("record.targets.*.storage", "reason", SENTENCE),
    ("record.targets.*.unproven", "promise", Class::Kept),
    ("record.targets.*.unproven", "reason", SENTENCE),
    ("record.targets.*", "notes failed unavailable", SENTENCE),
    ("record.controls", "#", Class::Word("names of controls")),
    ("record.controls.*", "requested observed", Class::Control),
    ("record", "memory_cells", Class::Label),
    ("record.warnings", "kind", Class::Word("kinds")),
    ("record.warnings", "run reasons reason service trigger error entry", SENTENCE),
    ("record.warnings.cause", "reason", Class::Kept),
    ("record.warnings.cause", "error text", SENTENCE),
    ("record.warnings.cause", "file", Class::Directory("files of the kernel")),
    ("record.warnings", "target", Class::TargetName),
    ("record.warnings.flaw", "flaw", Class::Kept),
    ("record.warnings.flaw", "holder", Class::Word("names of drivers")),
    ("record.warnings.flaw", "device", Class::DeviceName),
    ("record.warnings", "path", Class::Directory("measured directories")),
    ("record.warnings", "name", Class::Word("names of container managers")),
    ("record.warnings", "medium", Class::MediumName),
    ("record.warnings", "control", Class::Word("names of controls")),
    ("record.warnings", "value observed", Class::Control),
    ("record.warnings", "workloads workload", Class::Label),
    ("record", "on", Class::Replaced(Identifying::Host, "name of the host (--on)")),
    ("record.vm", "qemu accelerator host_kernel", Class::Kept),
    ("record.vm", "acceleration", SENTENCE),
    ("record.vm.kernels", "#", Class::Kept),
    ("record.vm.kernels.*", "image",
        Class::Numbered(Identifying::Paths, "paths of kernels", "kernel")),
    ("record.vm.kernels.*", "initramfs image_hash module_hashes", Class::Kept),
    ("record.ranks", "library", Class::Kept),
    ("record.emulation_of", "command", Class::Kept),
    ("record.emulation_of", "arguments",
        Class::Removed(Identifying::Commands, "arguments of the command")),
    ("record.stop_reason", "kind", Class::Word("kinds")),
    ("record.stop_reason.shortfall.widest", "workload", Class::Label),
    ("record.stop_reason", "workload", Class::Label),
    ("record.stop_reason", "targets", Class::TargetName),
    ("record.stop_reason", "output", Class::Removed(Identifying::Commands, "output of commands")),
    ("record.stop_reason.reason", "kind", Class::Kept),
    ("record.stop_reason.reason", "target", Class::TargetName),
    ("record.stop_reason.reason", "error", SENTENCE),
    ("trial", "schema phase kernel started outcome error_code errno workers samples timelines \
        crc32", Class::Kept),
    ("trial", "id target workload operation params metrics latency requested", Class::Done),
    ("trial", "error interference", SENTENCE),
    ("trial.interference", "kind", Class::Word("kinds")),
    ("trial.observed", "rpcs direct spent_seconds deferred sustained background barrier watched",
        Class::Kept),
    ("trial.observed", "counts", Class::Done),
    ("trial.observed", "unconfined", SENTENCE),
    ("trial.observed", "unproven", Class::Kept),
    ("trial.observed", "output", Class::Removed(Identifying::Commands, "output of commands")),
    ("trial.observed.memory_limit", "mechanism", Class::WithoutPath("values of controls")),
    ("trial.observed", "mount_options", Class::MountOption),
    ("trial.observed.controls", "#", Class::Word("names of controls")),
    ("trial.observed.controls", "*", Class::Control),
    ("trial.observed.traced", "waits runs locks kernel_threads requests shown_requests commits",
        Class::Kept),
    ("trial.observed.traced", "problem", SENTENCE),
];

/// The classes by path, and the objects that hold a field with a class.
struct ClassTable {
    classes: HashMap<String, Class>,
    objects: BTreeSet<String>,
}

impl ClassTable {
    fn new() -> ClassTable {
        let mut classes: HashMap<String, Class> = HashMap::new();
        for (object, fields, class) in CLASSES {
            for field in fields.split(' ') {
                classes.insert(format!("{object}.{field}"), *class);
            }
        }
        for setting in SETTINGS {
            let Some(pointer) = setting.pointer() else {
                continue;
            };
            let class = match setting.class {
                SettingClass::Plain => Class::Kept,
                SettingClass::Removed(class, what) => Class::Removed(class, what),
                SettingClass::Directory(what) => Class::Directory(what),
                SettingClass::Devices => Class::DevicePath,
                SettingClass::Kernels => Class::Kernel,
                SettingClass::PlanName => Class::PlanName,
            };
            classes.insert(format!("record.plan{}", pointer.replace('/', ".")), class);
        }
        let mut objects = BTreeSet::from(["record.media.*".to_owned()]);
        for path in classes.keys() {
            let mut inner = path.as_str();
            while let Some((outer, _)) = inner.rsplit_once('.') {
                objects.insert(outer.to_owned());
                inner = outer;
            }
        }
        for (path, _) in SAME {
            let outer = path.rsplit_once('.').map_or("", |(outer, _)| outer);
            objects.insert(outer.to_owned());
        }
        ClassTable { classes, objects }
    }

    fn class(&self, path: &str) -> Option<Class> {
        self.classes.get(path).copied()
    }

    /// Returns the path of a field of the object at `path`.
    fn field(&self, path: &str, key: &str) -> String {
        let is_map = self.classes.contains_key(&format!("{path}.#"));
        let path = format!("{path}.{}", if is_map { "*" } else { key });
        match SAME.iter().find(|(same, _)| *same == path) {
            Some((_, listed)) => (*listed).to_owned(),
            None => path,
        }
    }
}

/// The vocabularies of registries that this crate does not know.
#[derive(Clone, Copy)]
pub struct Vocabulary<'v> {
    /// Returns whether texts of this parameter of this workload are words, sizes and the like.
    pub parameter: &'v dyn Fn(&str, &str) -> bool,
    /// Returns whether values of this control are words and numbers.
    pub control: &'v dyn Fn(&str) -> bool,
    /// Returns whether this is the name of a suite or a plan of the program.
    pub plan: &'v dyn Fn(&str) -> bool,
}

/// Removes identifying values from a run, and lists them.
pub struct Anonymiser<'v> {
    vocabulary: Vocabulary<'v>,
    keep: BTreeSet<Identifying>,
    table: ClassTable,
    removed: BTreeMap<(Identifying, &'static str), BTreeSet<String>>,
    /// The values with numbered stand-ins, by the beginning of the stand-in.
    numbered: BTreeMap<&'static str, Vec<String>>,
    targets: BTreeMap<String, String>,
    media: BTreeMap<String, String>,
    /// Releases of the kernels of the virtual machine.
    releases: Vec<String>,
    /// The labels of cases, with those that replace them.
    labels: BTreeMap<String, String>,
    /// The workload of each case, by its former label.
    workloads: BTreeMap<String, String>,
}

impl<'v> Anonymiser<'v> {
    /// Returns an anonymiser that keeps the values of the classes `keep`.
    pub fn new(
        vocabulary: Vocabulary<'v>,
        keep: impl IntoIterator<Item = Identifying>,
    ) -> Anonymiser<'v> {
        Anonymiser {
            vocabulary,
            keep: keep.into_iter().collect(),
            table: ClassTable::new(),
            removed: BTreeMap::new(),
            numbered: BTreeMap::new(),
            targets: BTreeMap::new(),
            media: BTreeMap::new(),
            releases: Vec::new(),
            labels: BTreeMap::new(),
            workloads: BTreeMap::new(),
        }
    }

    /// Returns what was removed so far, in the order of the classes.
    pub fn removed(&self) -> Vec<Removal> {
        let mut removals = Vec::new();
        for ((class, what), values) in &self.removed {
            removals.push(Removal {
                class: class.name().to_owned(),
                what: (*what).to_owned(),
                values: values.len(),
            });
        }
        removals
    }

    /// Removes identifying values from the record. It comes before the trials, because they use its
    /// names.
    ///
    /// # Errors
    ///
    /// The record without these values is not a record.
    pub fn record(&mut self, record: &mut RunRecord) -> Result<(), serde_json::Error> {
        if let Some(vm) = &record.vm {
            self.releases = vm.kernels.keys().cloned().collect();
        }
        let plan = &mut record.plan;
        plan.targets
            .iter_mut()
            .for_each(|target| self.target(target));
        for workload in &mut plan.workloads {
            self.params(&workload.name, &mut workload.params);
            self.background(workload.background.as_mut());
        }
        // Descriptions of candidates are sentences, and a race has no page.
        plan.race = None;
        for cell in &mut record.cells {
            self.cell(&mut cell.label, &mut cell.workload);
        }
        for (label, params) in &mut record.units {
            let workload = self.workloads.get(label).cloned().unwrap_or_default();
            self.params(&workload, params);
        }
        self.label_keys(&mut record.units);
        for (text, mut medium) in std::mem::take(&mut record.media) {
            let shown = self.medium_record(&text, &mut medium);
            record.media.insert(shown, medium);
        }
        *record = self.walked("record", record)?;
        self.run_name(&mut record.name, &record.plan);
        Ok(())
    }

    /// Removes identifying values from a trial.
    ///
    /// # Errors
    ///
    /// The trial without these values is not a trial.
    pub fn trial(&mut self, trial: &mut Trial) -> Result<(), serde_json::Error> {
        let name = self
            .workloads
            .get(&trial.workload)
            .cloned()
            .unwrap_or_default();
        // Operations and metrics of a program or a flow of the user have names from there.
        let is_stripped = self.params(&name, &mut trial.params);
        self.label(&mut trial.workload);
        self.target_name(&mut trial.target);
        trial.id = format!("b{}.{}.{}", trial.block, trial.target, trial.workload);
        if trial.attempt > 1 {
            trial.id += &format!(".{}", trial.attempt);
        }
        if is_stripped {
            self.names_of_program(&name, trial);
        }
        self.requested(&name, &mut trial.requested);
        // Names of functions may be those of a module that few have. Their class stays.
        if let Some(traced) = &mut trial.observed.traced {
            traced.remove_functions();
        }
        *trial = self.walked("trial", trial)?;
        Ok(())
    }

    /// Replaces the label of a case if it quotes a value that was removed from its workload.
    fn cell(&mut self, label: &mut String, workload: &mut WorkloadSpec) {
        let target = |workload: &WorkloadSpec| workload.background.as_ref()?.target.clone();
        let (before, target_before) = (label.clone(), target(workload));
        self.workloads.insert(before.clone(), workload.name.clone());
        let is_stripped = self.params(&workload.name, &mut workload.params)
            | self.background(workload.background.as_mut());
        // A label that the user gave and keeps quotes nothing but the target of the background.
        let is_renamed = target(workload) != target_before;
        if is_renamed || is_stripped && !workload.params.contains_key("label") {
            *label = self.stand_in("case", &before);
            let what = "labels of cases that quote a removed value";
            self.note(Identifying::Names, what, &before);
        }
        self.labels.insert(before, label.clone());
    }

    /// Replaces names of operations, metrics and counts that come from a program or a flow of the
    /// user.
    fn names_of_program(&mut self, workload: &str, trial: &mut Trial) {
        self.operation_name(workload, &mut trial.operation);
        for (mut key, histogram) in std::mem::take(&mut trial.latency) {
            self.operation_name(workload, &mut key);
            trial.latency.insert(key, histogram);
        }
        for metric in &mut trial.metrics {
            if metric::find(&metric.name).is_none() {
                let before = std::mem::take(&mut metric.name);
                metric.name =
                    self.replaced(Identifying::Commands, "names of metrics", "metric", before);
            }
        }
        for (key, count) in std::mem::take(&mut trial.observed.counts) {
            let key = self.replaced(Identifying::Commands, "names of counts", "count", key);
            trial.observed.counts.insert(key, count);
        }
    }

    // The walk.

    /// Returns a document without the texts that have no class to stay.
    fn walked<T: Serialize + DeserializeOwned>(
        &mut self,
        root: &str,
        document: &T,
    ) -> Result<T, serde_json::Error> {
        let mut value = serde_json::to_value(document)?;
        self.walk(root, "", &mut value);
        serde_json::from_value(value)
    }

    /// Replaces texts in a value. `owner` is the control, the device or the key that the value
    /// belongs to. Returns whether the value stays.
    fn walk(&mut self, path: &str, owner: &str, value: &mut Value) -> bool {
        let class = self.table.class(path);
        if matches!(class, Some(Class::Kept | Class::Done)) {
            return true;
        }
        match value {
            Value::Object(_) if !self.table.objects.contains(path) => {
                self.note(
                    Identifying::Texts,
                    "fields of other versions",
                    &value.to_string(),
                );
                false
            }
            Value::Object(members) => {
                let own = ["control", "device", "name"]
                    .iter()
                    .find_map(|key| members.get(*key)?.as_str())
                    .map(str::to_owned);
                let keys = self.table.class(&format!("{path}.#"));
                for (mut key, mut member) in std::mem::take(members) {
                    let inner = self.table.field(path, &key);
                    let owner = match keys {
                        Some(_) => key.clone(),
                        None => own.clone().unwrap_or_else(|| owner.to_owned()),
                    };
                    if self.walk(&inner, &owner, &mut member)
                        && keys.is_none_or(|class| self.leaf(class, &owner, &mut key))
                    {
                        members.insert(key, member);
                    }
                }
                true
            }
            Value::Array(items) if class == Some(Class::Command) && is_texts(items) => {
                let mut words: Vec<String> = items
                    .iter()
                    .filter_map(|item| item.as_str().map(str::to_owned))
                    .collect();
                self.command(&mut words);
                *items = words.into_iter().map(Value::from).collect();
                true
            }
            Value::Array(items) => {
                items.retain_mut(|item| self.walk(path, owner, item));
                true
            }
            Value::String(text) => match class {
                Some(class) => self.leaf(class, owner, text),
                None => {
                    self.note(Identifying::Texts, "fields of other versions", text);
                    false
                }
            },
            Value::Number(number) => match class {
                Some(Class::Removed(class, what)) if !self.keeps(class) => {
                    self.note(class, what, &number.to_string());
                    false
                }
                _ => true,
            },
            Value::Null | Value::Bool(_) => true,
        }
    }

    /// Replaces a text of a class. Returns whether it stays.
    fn leaf(&mut self, class: Class, owner: &str, text: &mut String) -> bool {
        let is_mapped = owner.starts_with("dm-");
        match class {
            Class::Kept | Class::Done => {}
            Class::Removed(class, what) => return self.stays(class, what, text),
            Class::Replaced(class, what) => self.replace(class, what, text),
            Class::Numbered(class, what, beginning) => {
                *text = self.replaced(class, what, beginning, std::mem::take(text));
            }
            Class::Word(what) => self.word(what, text),
            Class::WithoutPath(what) => {
                if text.contains('/') {
                    self.replace(Identifying::Texts, what, text);
                }
            }
            Class::Directory(what) => self.directory(what, text),
            Class::DevicePath => *text = self.device_path(text),
            Class::DeviceName => self.device_name(text),
            Class::DeviceModel | Class::DeviceRole if is_mapped => {
                return self.stays(Identifying::Devices, "names of mapped devices", text);
            }
            Class::DeviceModel => {}
            Class::DeviceRole => self.word("kinds of devices", text),
            Class::Backing => return self.backing(text),
            Class::MediumName => *text = self.medium_name(std::mem::take(text)),
            Class::TargetName => self.target_name(text),
            Class::Label => self.label(text),
            Class::Control => self.control(owner, text),
            Class::MountOption => self.option(text),
            Class::Command => self.command(std::slice::from_mut(text)),
            Class::Kernel => {
                if !self.releases.contains(text) {
                    let before = std::mem::take(text);
                    *text = self.replaced(Identifying::Paths, "paths of kernels", "kernel", before);
                }
            }
            Class::Boot => self.boot(text),
            Class::PlanName => {
                if !(self.vocabulary.plan)(text) {
                    let before = std::mem::take(text);
                    *text = self.replaced(Identifying::Names, "name of the plan", "plan", before);
                }
            }
        }
        true
    }

    // The stand-ins, and the list of what they replace.

    fn keeps(&self, class: Identifying) -> bool {
        self.keep.contains(&class)
    }

    fn note(&mut self, class: Identifying, what: &'static str, value: &str) {
        self.removed
            .entry((class, what))
            .or_default()
            .insert(value.to_owned());
    }

    /// Returns a text such as `device-2`, the same for equal values.
    fn stand_in(&mut self, beginning: &'static str, value: &str) -> String {
        let known = self.numbered.entry(beginning).or_default();
        let place = known
            .iter()
            .position(|known| known == value)
            .unwrap_or_else(|| {
                known.push(value.to_owned());
                known.len() - 1
            });
        format!("{beginning}-{}", place + 1)
    }

    /// Returns the value, or its numbered stand-in if its class is not kept.
    fn replaced(
        &mut self,
        class: Identifying,
        what: &'static str,
        beginning: &'static str,
        value: String,
    ) -> String {
        if self.keeps(class) || value.is_empty() {
            return value;
        }
        self.note(class, what, &value);
        self.stand_in(beginning, &value)
    }

    /// Replaces a value by [`REMOVED`], a sentence by [`TEXT_REMOVED`].
    fn replace(&mut self, class: Identifying, what: &'static str, value: &mut String) {
        let stand_in = if class == Identifying::Texts {
            TEXT_REMOVED
        } else {
            REMOVED
        };
        if !self.keeps(class) && !value.is_empty() && value != stand_in {
            self.note(class, what, value);
            stand_in.clone_into(value);
        }
    }

    /// Returns whether a value stays, or lists it as removed.
    fn stays(&mut self, class: Identifying, what: &'static str, value: &str) -> bool {
        if !self.keeps(class) {
            self.note(class, what, value);
        }
        self.keeps(class)
    }

    fn directory(&mut self, what: &'static str, path: &mut String) {
        if !self.keeps(Identifying::Paths) && !path.is_empty() {
            self.note(Identifying::Paths, what, path);
            *path = format!("/{}", self.stand_in("directory", path));
        }
    }

    fn device_path(&mut self, path: &str) -> String {
        if self.keeps(Identifying::Devices) {
            return path.to_owned();
        }
        self.note(Identifying::Devices, "paths of devices", path);
        format!("/dev/{}", self.stand_in("device", path))
    }

    /// Replaces the boot id by a hash. Whether two runs were made in the same boot affects their
    /// intervals, so runs of one boot get the same hash. A boot id is a random number of 122 bits,
    /// so it cannot be found from its hash.
    fn boot(&mut self, id: &mut String) {
        if !self.keeps(Identifying::Host) && id != "unknown" {
            self.note(Identifying::Host, "ids of boots, replaced by hashes", id);
            *id = format!("boot-{:016x}", fnv1a(id.as_bytes()));
        }
    }

    /// Removes the file behind a loop device and its mount. The kind of the file system stays.
    fn backing(&mut self, text: &mut String) -> bool {
        if self.stays(
            Identifying::Paths,
            "files behind loop devices, and their mounts",
            text,
        ) {
            return true;
        }
        let kind = text.rsplit_once(", ").and_then(|(_, mount)| {
            let (kind, _) = mount.split_once(" on ")?;
            is_plain(kind).then(|| kind.to_owned())
        });
        *text = kind.unwrap_or_default();
        !text.is_empty()
    }

    /// Replaces the name of a device, unless the kernel gives such names by itself.
    fn device_name(&mut self, name: &mut String) {
        if !is_kernel_name(name) {
            let before = std::mem::take(name);
            *name = self.replaced(Identifying::Devices, "names of devices", "device", before);
        }
    }

    fn medium_name(&mut self, text: String) -> String {
        match self.media.get(&text) {
            Some(known) => known.clone(),
            None => self.replaced(Identifying::Devices, "paths of devices", "medium", text),
        }
    }

    /// Replaces the sentences about a medium, and returns what replaces its name.
    fn medium_record(&mut self, text: &str, medium: &mut MediumRecord) -> String {
        let shown = self.medium_name(text.to_owned());
        if shown != text {
            let size = show_bytes(medium.device.size_bytes as f64);
            medium.summary = format!("{shown} {size}");
            if let Some(reason) = &mut medium.unjudged {
                *reason = format!("{shown} cannot show the speed of a file system");
            }
        }
        shown
    }

    // Targets, parameters and options.

    fn target(&mut self, target: &mut Target) {
        let Target {
            name,
            kind,
            controls,
            kernel,
            variant,
            optional: _,
        } = target;
        let (before, kind_before) = (name.clone(), kind.clone());
        match kind {
            TargetKind::Directory(path) => {
                let mut text = path.to_string_lossy().into_owned();
                self.directory("measured directories", &mut text);
                *path = text.into();
            }
            TargetKind::FileSystem(FileSystemSpec {
                fs,
                server,
                init,
                options,
                mkfs,
                tune,
                journal,
                medium,
            }) => {
                self.word("names of file systems", fs);
                self.server_command(server);
                self.server_command(init);
                self.options(options);
                match mkfs.split_first_mut() {
                    Some((program, arguments)) if target::is_mkfs(program) => {
                        self.command(std::slice::from_mut(program));
                        // It stays a program.
                        if !program.contains('/') {
                            program.insert_str(0, "./");
                        }
                        self.arguments(arguments);
                    }
                    _ => self.arguments(mkfs),
                }
                tune.iter_mut().for_each(|words| self.arguments(words));
                self.medium(medium);
                if let Some(journal) = journal {
                    self.medium(journal);
                }
            }
        }
        self.controls(controls);
        if let Some(text) = variant {
            self.variant(text);
        }
        let release = kernel
            .as_ref()
            .map(|release| format!("%{release}"))
            .unwrap_or_default();
        let own = numberless(&before)
            .strip_suffix(release.as_str())
            .unwrap_or(&before);
        // Without a name of its own, a target is called as it was typed.
        let is_typed = own
            .parse::<Target>()
            .is_ok_and(|typed| typed.kind == kind_before);
        let stays = if is_typed {
            *kind == kind_before
        } else {
            self.keeps(Identifying::Names)
        };
        if !stays {
            let text = match &*kind {
                TargetKind::Directory(path) => {
                    path.to_string_lossy().trim_start_matches('/').to_owned()
                }
                TargetKind::FileSystem(spec) => spec.to_string(),
            };
            *name = format!("{text}{release}");
            if !is_typed && before != *name {
                self.note(Identifying::Names, "names of targets", &before);
            }
        }
        let wanted = name.clone();
        let mut number = 2;
        while self.targets.values().any(|taken| taken == name) {
            *name = format!("{wanted}#{number}");
            number += 1;
        }
        self.targets.insert(before, name.clone());
    }

    fn medium(&mut self, medium: &mut Medium) {
        let before = medium.to_string();
        let Medium { name, argument } = medium;
        self.word("names of media", name);
        if let Some(argument) = argument {
            *argument = argument
                .split('+')
                .map(|member| match member {
                    "loop" | "ram" => member.to_owned(),
                    setting if is_known_setting(setting) => setting.to_owned(),
                    path => self.device_path(path),
                })
                .collect::<Vec<_>>()
                .join("+");
        }
        self.media.insert(before, medium.to_string());
    }

    /// Replaces a word that is not shaped like a name of a registry or of a driver.
    fn word(&mut self, what: &'static str, word: &mut String) {
        if !is_plain(word) {
            self.replace(Identifying::Texts, what, word);
        }
    }

    fn target_name(&mut self, name: &mut String) {
        if let Some(known) = self.targets.get(name) {
            known.clone_into(name);
        } else if !self.targets.values().any(|known| known == name) {
            let before = std::mem::take(name);
            *name = self.replaced(Identifying::Names, "names of targets", "target", before);
        }
    }

    fn label(&mut self, label: &mut String) {
        if let Some(known) = self.labels.get(label) {
            known.clone_into(label);
        } else {
            let before = std::mem::take(label);
            *label = self.replaced(Identifying::Names, "labels of cases", "case", before);
        }
    }

    fn label_keys<T>(&mut self, map: &mut BTreeMap<String, T>) {
        for (mut label, value) in std::mem::take(map) {
            self.label(&mut label);
            map.insert(label, value);
        }
    }

    fn run_name(&mut self, name: &mut String, plan: &Plan) {
        let targets: Vec<&str> = plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        *name = format!("{} · {}", targets.join("-"), plan.name);
    }

    /// Removes texts from the parameters of a workload. Returns whether there were any.
    fn params(&mut self, workload: &str, params: &mut Params) -> bool {
        let before = params.clone();
        if !self.keeps(Identifying::Names)
            && let Some(Value::String(label)) = params.remove("label")
        {
            self.note(Identifying::Names, "labels of cases", &label);
        }
        for (key, value) in params.iter_mut().filter(|(key, _)| *key != "name") {
            // Trials have the background of their case among the parameters.
            let background = (key == BACKGROUND)
                .then(|| serde_json::from_value(value.clone()).ok())
                .flatten();
            if let Some(mut background) = background {
                self.background(Some(&mut background));
                *value = serde_json::to_value(background).unwrap_or_default();
            } else if !(self.vocabulary.parameter)(workload, key) {
                self.parameter(value);
            }
        }
        before != *params
    }

    /// Removes texts from the parameters of a background. Returns whether there were any.
    fn background(&mut self, background: Option<&mut Background>) -> bool {
        background.is_some_and(
            |Background {
                 name,
                 target,
                 limit: _,
                 subvolume: _,
                 same_files: _,
                 params,
             }| {
                target
                    .iter_mut()
                    .for_each(|target| self.target_name(target));
                self.params(name, params)
            },
        )
    }

    fn parameter(&mut self, value: &mut Value) {
        match value {
            // A text without letters is a number, a list of them, or the shape of a tree.
            Value::String(text) if text.chars().any(char::is_alphabetic) => {
                let text = std::mem::take(text);
                let is_path =
                    text.starts_with(['/', '.', '~']) && !text.contains(char::is_whitespace);
                *value = match is_path {
                    true => self.replaced(Identifying::Paths, "paths in parameters", "path", text),
                    false => self.replaced(
                        Identifying::Commands,
                        "commands and texts in parameters",
                        "text",
                        text,
                    ),
                }
                .into();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.parameter(item)),
            Value::Object(members) => members
                .values_mut()
                .for_each(|member| self.parameter(member)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces the text of a variant, which is a part of a command.
    fn variant(&mut self, text: &mut String) {
        let mut value = Value::from(std::mem::take(text));
        self.parameter(&mut value);
        *text = value.as_str().unwrap_or_default().to_owned();
    }

    fn operation_name(&mut self, workload: &str, operation: &mut String) {
        if operation != workload {
            let before = std::mem::take(operation);
            *operation = self.replaced(
                Identifying::Commands,
                "names of operations",
                "operation",
                before,
            );
        }
    }

    fn control(&mut self, name: &str, value: &mut String) {
        if !(self.vocabulary.control)(name) || value.contains('/') {
            self.replace(Identifying::Texts, "values of controls", value);
        }
    }

    fn controls(&mut self, controls: &mut BTreeMap<String, String>) {
        for (mut name, mut value) in std::mem::take(controls) {
            self.control(&name, &mut value);
            self.word("names of controls", &mut name);
            controls.insert(name, value);
        }
    }

    fn options(&mut self, options: &mut [String]) {
        options.iter_mut().for_each(|option| self.option(option));
    }

    /// Replaces the value of a mount option that names a user, a server, a device or a directory,
    /// and every option that is neither a word nor a number.
    fn option(&mut self, option: &mut String) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let class = match key {
            _ if !is_plain(key) => Some(Identifying::Texts),
            _ if value.is_empty() => None,
            "addr" | "clientaddr" | "mountaddr" | "ip" | "source" | "unc" | "logdev" | "rtdev"
            | "device" | "journal_path" | "journal_dev" => Some(Identifying::Devices),
            "user" | "username" | "user_id" | "group_id" | "uid" | "gid" | "pass" | "password"
            | "domain" | "credentials" => Some(Identifying::User),
            "label" | "uuid" | "fsuuid" | "name" | "fsname" => Some(Identifying::Serials),
            "subvol" | "lowerdir" | "upperdir" | "workdir" => Some(Identifying::Paths),
            _ => (!is_plain_value(value)).then_some(Identifying::Paths),
        };
        let Some(class) = class.filter(|class| !self.keeps(*class)) else {
            return;
        };
        self.note(class, "values of options", option);
        *option = if is_plain(key) {
            format!("{key}={REMOVED}")
        } else {
            REMOVED.to_owned()
        };
    }

    /// Replaces labels, UUIDs and paths in the arguments of a mkfs or tune program.
    fn arguments(&mut self, words: &mut [String]) {
        const NAMES: &str = "labels and UUIDs of file systems";
        let mut flag = String::new();
        for word in words {
            // The value of a flag that sets a label, a UUID, or (of `-n` and `-l` of some programs)
            // a name.
            let names = matches!(
                flag.as_str(),
                "-L" | "-U" | "-M" | "--label" | "--uuid" | "--fs_label"
            ) || (matches!(flag.as_str(), "-n" | "-l") && !word.contains('='));
            flag.clear();
            if word.starts_with('/') {
                *word = self.device_path(word);
            } else if names && !word.starts_with('-') {
                self.replace(Identifying::Serials, NAMES, word);
            } else if word.starts_with('-') {
                // `--label=NAME`, `-LNAME`
                let end = match word.find('=') {
                    Some(at) if word.starts_with("--") => at + 1,
                    _ if word.starts_with("--") => word.len(),
                    _ => word.char_indices().nth(2).map_or(word.len(), |(at, _)| at),
                };
                let (option, value) = word.split_at(end);
                let is_name = matches!(
                    option,
                    "-L" | "-U" | "-M" | "--label=" | "--uuid=" | "--fs_label="
                );
                let is_safe = value.is_empty() || !is_name && value.split(',').all(is_plain_value);
                let option = option.to_owned();
                if !is_safe && !self.keeps(Identifying::Serials) {
                    self.note(Identifying::Serials, NAMES, value);
                    *word = format!("{option}{REMOVED}");
                }
                flag = option;
            } else {
                let mut parts: Vec<String> = word.split(',').map(str::to_owned).collect();
                self.options(&mut parts);
                *word = parts.join(",");
            }
        }
    }

    /// Replaces the directory of the program and, as [`Anonymiser::arguments`] does, values in its
    /// arguments.
    fn command(&mut self, words: &mut [String]) {
        let Some((program, arguments)) = words.split_first_mut() else {
            return;
        };
        if let Some((_, name)) = program.rsplit_once('/')
            && !self.keeps(Identifying::Paths)
        {
            *program = name.to_owned();
        }
        self.word("names of programs", program);
        self.arguments(arguments);
    }

    /// Keeps placeholders, flags and the name of the program in the command of a server.
    fn server_command(&mut self, words: &mut [String]) {
        const PLACEHOLDERS: [&str; 5] = [
            target::DIRECTORY,
            target::DEVICE,
            target::MOUNT_POINT,
            target::USER,
            target::GROUP,
        ];
        let Some((program, arguments)) = words.split_first_mut() else {
            return;
        };
        self.command(std::slice::from_mut(program));
        for word in arguments {
            let is_flag = word.starts_with('-') && !word.contains('=');
            if is_flag || PLACEHOLDERS.contains(&word.as_str()) {
                continue;
            }
            let kept: String = PLACEHOLDERS
                .into_iter()
                .filter(|placeholder| word.contains(placeholder))
                .collect();
            let before = std::mem::take(word);
            let shown = self.replaced(
                Identifying::Commands,
                "commands of servers",
                "word",
                before.clone(),
            );
            *word = if shown == before {
                shown
            } else {
                format!("{shown}{kept}")
            };
        }
    }

    /// Keeps numbers of what a trial requested, and its options and controls.
    fn requested(&mut self, workload: &str, requested: &mut Map<String, Value>) {
        for (key, mut value) in std::mem::take(requested) {
            match (key.as_str(), &mut value) {
                ("mount_options", Value::Array(options)) => {
                    for option in options.iter_mut() {
                        let mut text = option.as_str().unwrap_or_default().to_owned();
                        self.option(&mut text);
                        *option = text.into();
                    }
                }
                ("controls", Value::Object(controls)) => {
                    for (name, value) in controls.iter_mut() {
                        let mut text = value.as_str().unwrap_or_default().to_owned();
                        self.control(name, &mut text);
                        *value = text.into();
                    }
                }
                ("unit", Value::Object(unit)) => {
                    let mut params: Params = std::mem::take(unit).into_iter().collect();
                    self.params(workload, &mut params);
                    unit.extend(params);
                }
                _ => self.parameter(&mut value),
            }
            requested.insert(key, value);
        }
    }
}

fn is_texts(items: &[Value]) -> bool {
    items.iter().all(Value::is_string)
}

/// Returns the name of a target without the number that makes it unique.
fn numberless(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((name, number))
            if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => name,
    }
}

/// Returns whether the text is a word as kernels and their tools use them: lower-case letters,
/// digits, `_`, `-` and `^`.
fn is_plain(text: &str) -> bool {
    text.len() <= 40
        && text.chars().all(|c| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '^' | '.')
        })
}

/// Returns whether the value of an option is a word, a level such as `zstd:3`, or a number with a
/// unit. An address has several points.
fn is_plain_value(text: &str) -> bool {
    let unitless = text.strip_suffix(['K', 'M', 'G', 'T']).unwrap_or(text);
    let is_number =
        !unitless.is_empty() && unitless.chars().all(|c| c.is_ascii_digit() || c == '.');
    let words = text.trim_end_matches('%').split([':', '=']);
    text.matches('.').count() <= 1
        && text.matches([':', '=']).count() <= 1
        && (is_number || words.into_iter().all(is_plain))
}

/// Returns whether this is a name that the kernel gives a block device by itself: `nvme0n1p2`,
/// `sda1`, `dm-3`.
fn is_kernel_name(name: &str) -> bool {
    const DRIVERS: [&str; 16] = [
        "sd", "vd", "xvd", "hd", "nvme", "mmcblk", "md", "dm-", "loop", "ram", "zram", "pmem",
        "nbd", "drbd", "bcache", "ublkb",
    ];

    // The numbers of a device whose name is unknown.
    let is_number = name.chars().all(|c| c.is_ascii_digit() || c == ':');
    is_number
        || DRIVERS.iter().any(|driver| {
            name.strip_prefix(driver).is_some_and(|rest| {
                let numbers = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
                rest.len() <= 10
                    && rest.len() - numbers.len() <= 3
                    && numbers
                        .chars()
                        .all(|c| c.is_ascii_digit() || matches!(c, 'n' | 'p'))
            })
        })
}

/// The hash function FNV-1a with 64 bits (G. Fowler, L. C. Noll, K.-P. Vo).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns whether a part of a medium that is made of others is one of its settings.
fn is_known_setting(part: &str) -> bool {
    match part.split_once('=') {
        Some(("chunk", size)) => size.parse::<crate::Bytes>().is_ok(),
        Some(("kind", kind)) => ["linear", "thin", "snapshot"].contains(&kind),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trial::{Interference, Outcome};

    const VOCABULARY: Vocabulary<'static> = Vocabulary {
        parameter: &|workload, key| workload == "read" || key == "cache",
        control: &|name| name == "governor",
        plan: &|name| name == "quick",
    };

    /// The texts that the record and the trial below plant begin with this.
    const PLANTED: &str = "hostile7";

    /// Returns a record with a unique text in every field that can hold one.
    fn record() -> RunRecord {
        let device = json!({
            "name": "hostile7-disk", "model": "Fast Disk 9000", "serial": "hostile7-serial", "size_bytes": 1 << 30,
            "backing": "/hostile7/image, ext4 on /dev/hostile7",
            "beneath": [{ "name": "dm-3", "model": "hostile7-vg", "serial": "hostile7-uuid" }],
        });
        serde_json::from_value(json!({
            "schema": crate::run::SCHEMA, "name": "hostile7", "on": "root@hostile7",
            "plan": {
                "name": "hostile7", "seed": 1, "size": 1 << 30, "theta": 0.03, "dir": "/hostile7/images",
                "repetition": { "blocks": { "blocks": 5 } }, "wipe": ["/dev/hostile7"], "root": "/hostile7/root",
                "identity": { "uid": 77_777_777, "gid": 77_777_777 }, "kernels": ["6.12.1", "/hostile7/linux"],
                "controls": { "services": "hostile7.service", "governor": "performance" },
                "targets": [
                    { "name": "hostile7", "directory": "/srv/hostile7" },
                    { "name": "ext4@/dev/disk/by-id/hostile7", "controls": { "services": "hostile7.timer" },
                      "file_system": { "fs": "ext4", "options": ["noatime", "journal_path=/dev/hostile7"],
                        "mkfs": ["/hostile7/mke2fs", "-L", "hostile7", "-Uhostile7", "-O", "^has_journal", "-b", "4096"],
                        "tune": [["-L", "hostile7"]], "journal": { "name": "device", "argument": "/dev/hostile7-j" },
                        "medium": { "name": "device", "argument": "/dev/disk/by-id/hostile7" } } },
                    { "name": "xfs,noatime", "file_system": { "fs": "xfs", "options": ["noatime"] } },
                ],
                "workloads": [{ "name": "command", "command": "make hostile7" }],
            },
            "cells": [
                { "label": "read 1M, cold", "workload": { "name": "read", "cache": "cold", "size": 4 } },
                { "label": "make hostile7", "workload": { "name": "command", "command": ["make", "hostile7"],
                    "cache": "cold", "input": "/hostile7/in", "service": [{ "command": "hostile7d" }] } },
                { "label": "hostile7 read", "workload": { "name": "read", "label": "hostile7 read" } },
                { "label": "read 1M, beside write 1M on hostile7", "workload": { "name": "read", "size": 4,
                    "background": { "name": "write", "target": "hostile7" } } },
            ],
            "amounts": { "make hostile7": { "repetitions": 1, "operations": 2 } },
            "rounds": { "hostile7 read": { "rounds": 9, "units": 1 } },
            "units": { "make hostile7": { "command": "hostile7" } },
            "order": [{ "block": 1, "targets": ["hostile7", "xfs,noatime"], "cells": ["make hostile7"] }],
            "memory_cells": ["make hostile7"],
            "placement": { "in_turn": { "reason": { "kind": "indivisible_medium", "cause": "hostile7" } } },
            "stopping_rule": { "kind": "full_moon", "text": "hostile7" },
            "stop_reason": { "kind": "imprecise", "blocks": 5,
                "shortfall": { "widest": { "half_width": 0.1, "workload": "make hostile7" }, "half_width": 0.02 } },
            "segments": [{ "boot_id": "hostile7-boot", "kernel": "6.12.1", "fsb_version": "0.1.0",
                "started": "2026-11-20T15:04:05Z" }],
            "host": { "kernel": "6.12.1", "command_line": "root=/dev/hostile7 quiet", "cpu": "Some CPU" },
            "media": { "/dev/disk/by-id/hostile7": { "device": device, "summary": "/dev/hostile7 1 GiB",
                "unjudged": "members of hostile7 share one disk" } },
            "devices_probed": { "1": { "hostile7": { "read": 1.0, "write": 1.0, "random_reads": 1.0, "flushed_writes": 1.0 } } },
            "large_disk": { "hostile7": {} },
            "targets": {
                "hostile7": { "mount_options": ["rw", "relatime", "addr=hostile7", "user=hostile7", "subvol=/hostile7"],
                    "storage": [
                        { "depth": 0, "layer": "overlay", "upper": "/hostile7/upper", "volatile": false },
                        { "depth": 1, "layer": "file_system", "driver": "HOSTILE7 hostile7" },
                        { "depth": 2, "layer": "loop", "device": "hostile7-loop", "file": "/hostile7/f", "direct": true },
                        { "depth": 3, "layer": "stacked", "device": "dm-3", "role": "hostile7-vg" },
                        { "depth": 3, "layer": "stacked", "device": "hostile7-array", "role": "hostile7 raid" },
                        { "depth": 4, "layer": "disk", "device": "hostile7-disk", "write_cache": "write_back" },
                        { "depth": 4, "layer": "memory", "holder": "hostile7 memory" },
                        { "depth": 4, "layer": "unknown", "reason": "hostile7 holds it" },
                    ],
                    "requested_options": ["credentials=hostile7"], "device": device, "notes": ["mounted at /hostile7"],
                    "failed": "hostile7", "unavailable": "hostile7", "medium": "/dev/disk/by-id/hostile7",
                    "risks": [{ "cause": "device=hostile7", "loss": "a power failure may lose synced data" }],
                    "controls": { "services": { "requested": "hostile7", "observed": "hostile7 did not run" } } },
                "ext4@/dev/disk/by-id/hostile7": {
                    "mkfs_command": ["/hostile7/mkfs.ext4", "-F", "-q", "-E", "nodiscard", "-L", "hostile7", "/dev/hostile7"],
                    "tune_commands": [["/sbin/tune2fs", "-L", "hostile7", "/dev/hostile7"]] },
            },
            "controls": { "services": { "requested": "hostile7", "observed": "hostile7", "effective": true },
                "governor": { "requested": "performance", "observed": "performance", "effective": true } },
            "vm": { "acceleration": "hostile7", "kernels": { "6.12.1": { "image": "/hostile7/vmlinuz" } } },
            "warnings": [
                { "kind": "full_moon", "text": "hostile7" },
                { "kind": "concurrent", "run": "process 7 (fsb run /hostile7)", "more": 0 },
                { "kind": "no_lock", "reasons": ["/hostile7/lock"] },
                { "kind": "unbacked_memory", "cause": { "reason": "untouchable", "error": "hostile7" } },
                { "kind": "unbacked_memory", "cause": { "reason": "reported", "file": "/sys/hostile7" } },
                { "kind": "target_unavailable", "target": "hostile7", "reason": "hostile7" },
                { "kind": "discard_kept_out", "medium": "/dev/disk/by-id/hostile7" },
                { "kind": "control_unavailable", "control": "services", "value": "hostile7", "reason": "hostile7" },
                { "kind": "control_inexact", "control": "services", "value": "hostile7", "observed": "hostile7" },
                { "kind": "service_may_restart", "service": "hostile7", "trigger": "hostile7" },
                { "kind": "too_long", "workloads": ["make hostile7"], "budget_seconds": 1.0 },
                { "kind": "not_taken_down", "target": "hostile7", "error": "hostile7" },
                { "kind": "not_undone", "entry": "hostile7" },
            ],
            "a_new_field": { "text": "hostile7" },
        }))
        .expect("a record")
    }

    fn trial(target: &str, workload: &str) -> Trial {
        serde_json::from_value(json!({
            "schema": crate::trial::SCHEMA, "id": "hostile7", "phase": "measured", "block": 3, "order": 1, "attempt": 2,
            "target": target, "kernel": "6.12.1", "workload": workload, "operation": "hostile7-operation",
            "params": { "name": "command", "command": "hostile7", "cache": "cold", "threads": 1 },
            "started": "2026-11-20T15:04:05Z", "outcome": "failed", "error": "cannot open /hostile7",
            "error_code": "trial/command-failed",
            "metrics": [
                { "name": "throughput", "value": 5.0, "unit": "bytes_per_second", "better": "higher" },
                { "name": "hostile7-metric", "value": 6.0, "unit": "seconds", "better": "lower" },
            ],
            "latency": { "hostile7-flow": "HIST" },
            "requested": { "rounds": 9, "unit": { "command": "hostile7" }, "mount_options": ["subvol=/hostile7", "rw"],
                "controls": { "services": "hostile7" }, "note": "hostile7" },
            "observed": { "unconfined": ["hostile7"], "output": "hostile7", "counts": { "hostile7": 3 },
                "mount_options": ["lowerdir=/hostile7"], "controls": { "services": "hostile7" },
                "memory_limit": { "mechanism": "cgroup v2 at /hostile7" },
                "traced": { "problem": "hostile7", "waits": [{ "functions": ["hostile7", "jbd2_log_wait_commit"] }] }, "a_new_field": "hostile7", "a_number": 4 },
            "interference": [{ "kind": "cpu_steal", "share": 0.03 }, { "kind": "full_moon", "text": "hostile7" }],
            "a_new_field": "hostile7",
        }))
        .expect("a trial")
    }

    fn text(value: &impl serde::Serialize) -> String {
        serde_json::to_string(value).expect("JSON")
    }

    #[test]
    fn no_planted_text_stays_in_any_field() {
        let mut anonymiser = Anonymiser::new(VOCABULARY, []);
        let (mut record, mut trial) = (record(), trial("hostile7", "make hostile7"));
        anonymiser.record(&mut record).unwrap();
        anonymiser.trial(&mut trial).unwrap();
        for shown in [text(&record), text(&trial), text(&anonymiser.removed())] {
            assert!(
                !shown.contains(PLANTED) && !shown.contains("77777777"),
                "{shown}"
            );
        }
        assert_eq!(trial.id, "b3.directory-1.case-1.2");
        assert!(
            anonymiser
                .removed()
                .iter()
                .all(|removal| removal.values > 0)
        );
        let classes: BTreeSet<_> = anonymiser
            .removed()
            .into_iter()
            .map(|removal| removal.class)
            .collect();
        assert_eq!(classes.len(), Identifying::ALL.len(), "{classes:?}");
    }

    #[test]
    fn values_that_results_depend_on_stay() {
        let mut anonymiser = Anonymiser::new(VOCABULARY, []);
        let (mut record, mut trial) = (record(), trial("xfs,noatime", "make hostile7"));
        anonymiser.record(&mut record).unwrap();
        anonymiser.trial(&mut trial).unwrap();
        let names: Vec<&str> = record
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        let options = r#"journal_path=removed,mkfs="./mke2fs -L removed -Uremoved -O ^has_journal -b 4096",tune="-L removed""#;
        let ext4 = format!(r#"ext4,noatime,{options},journal="/dev/device-2"@/dev/device-1"#);
        assert_eq!(names, ["directory-1", &ext4, "xfs,noatime"]);
        assert_eq!(record.order[0].targets, ["directory-1", "xfs,noatime"]);
        assert_eq!(record.cells[0].label, "read 1M, cold");
        let medium = &record.media["/dev/device-1"];
        assert_eq!(medium.device.model.as_deref(), Some("Fast Disk 9000"));
        assert_eq!(
            (medium.summary.as_str(), medium.device.backing.as_deref()),
            ("/dev/device-1 1.00 GiB", Some("ext4"))
        );
        assert!(medium.unjudged.is_some());
        let made = &record.targets["directory-1"];
        assert_eq!(
            made.mount_options,
            [
                "rw",
                "relatime",
                "addr=removed",
                "user=removed",
                "subvol=removed"
            ]
        );
        assert!(made.failed.is_some() && made.unavailable.is_some());
        let command = &record.targets[names[1]].mkfs_command;
        assert_eq!(
            command[..6],
            ["mkfs.ext4", "-F", "-q", "-E", "nodiscard", "-L"]
        );
        assert_eq!(
            (record.host.cpu.as_deref(), &*record.host.kernel),
            (Some("Some CPU"), "6.12.1")
        );
        assert_eq!(record.controls["governor"].observed, "performance");
        assert_eq!(
            (trial.outcome, trial.error_code.as_deref()),
            (Outcome::Failed, Some("trial/command-failed"))
        );
        assert_eq!(
            (trial.metrics[0].name.as_str(), trial.metrics[1].value),
            ("throughput", 6.0)
        );
        assert_eq!(
            trial.interference[0],
            Interference::CpuSteal { share: 0.03 }
        );
        assert_eq!(trial.observed.extra["a_number"], 4);
    }

    #[test]
    fn everything_stays_if_every_class_is_kept() {
        let mut anonymiser = Anonymiser::new(VOCABULARY, Identifying::ALL);
        let mut anonymised = record();
        anonymiser.record(&mut anonymised).unwrap();
        assert!(
            anonymised.plan.targets == record().plan.targets && anonymised.cells == record().cells
        );
        assert_eq!(anonymised.segments, record().segments);
        assert_eq!(
            anonymised.targets["hostile7"].device,
            record().targets["hostile7"].device
        );
    }

    #[test]
    fn a_label_that_is_kept_stays_although_its_command_is_removed() {
        let mut anonymised = record();
        let params = &mut anonymised.cells[1].workload.params;
        params.insert("label".to_owned(), "make hostile7".into());
        Anonymiser::new(VOCABULARY, [Identifying::Names])
            .record(&mut anonymised)
            .unwrap();
        assert_eq!(anonymised.cells[1].label, "make hostile7");
        assert_ne!(
            anonymised.cells[1].workload.params["command"],
            record().cells[1].workload.params["command"]
        );
        assert!(anonymised.amounts.contains_key("make hostile7"));
    }

    #[test]
    fn runs_of_one_boot_keep_a_boot_in_common() {
        let boot = |id: &str| {
            let mut record = record();
            id.clone_into(&mut record.segments[0].boot_id);
            Anonymiser::new(VOCABULARY, []).record(&mut record).unwrap();
            record.segments[0].boot_id.clone()
        };
        assert_eq!(boot("3f0e-1"), boot("3f0e-1"));
        assert_ne!(boot("3f0e-1"), boot("3f0e-2"));
    }

    #[test]
    fn names_of_the_kernel_are_distinguished_from_others() {
        for name in [
            "sda1",
            "nvme0n1p2",
            "dm-3",
            "loop0",
            "mmcblk0p1",
            "md127",
            "8:1",
        ] {
            assert!(is_kernel_name(name), "{name}");
        }
        for name in ["hostile7", "sd-secret", "loopback", "vg-data", "ram disk"] {
            assert!(!is_kernel_name(name), "{name}");
        }
        for value in ["16K", "zstd:3", "ordered", "5", "size=64m", "10%", "1.5G"] {
            assert!(is_plain_value(value), "{value}");
        }
        for value in ["/srv", "10.0.0.1", "a@b", "Secret", "fe80::1"] {
            assert!(!is_plain_value(value), "{value}");
        }
    }

    /// Adds the paths of objects and texts of a schema to `found`.
    fn paths(schema: &Value, root: &Value, path: &str, depth: usize, found: &mut BTreeSet<String>) {
        if depth > 24 {
            return;
        }
        if let Some(name) = schema["$ref"].as_str() {
            let definition = root.pointer(name.trim_start_matches('#')).unwrap();
            paths(definition, root, path, depth + 1, found);
        }
        for choice in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            for one in schema[choice].as_array().into_iter().flatten() {
                paths(one, root, path, depth + 1, found);
            }
        }
        let kinds = schema["type"].to_string();
        let is_object =
            schema["properties"].is_object() || schema["additionalProperties"].is_object();
        let is_text = kinds.contains("\"string\"") || !schema["const"].is_null();
        if is_object || is_text || schema["enum"].is_array() {
            found.insert(path.to_owned());
        }
        if schema["items"].is_object() {
            paths(&schema["items"], root, path, depth + 1, found);
        }
        let table = ClassTable::new();
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            paths(inner, root, &table.field(path, key), depth + 1, found);
        }
        if schema["additionalProperties"].is_object() {
            let inner = &schema["additionalProperties"];
            found.insert(format!("{path}.#"));
            paths(inner, root, &table.field(path, "*"), depth + 1, found);
        }
    }

    #[test]
    fn every_text_of_a_record_and_a_trial_has_a_class() {
        const SCHEMAS: [(&str, &str); 2] = [
            ("record", include_str!("../../../docs/schema/run.json")),
            ("trial", include_str!("../../../docs/schema/trial.json")),
        ];
        let table = ClassTable::new();
        for (name, text) in SCHEMAS {
            let schema: Value = serde_json::from_str(text).unwrap();
            let mut found = BTreeSet::new();
            paths(&schema, &schema, name, 0, &mut found);
            assert!(found.len() > 40, "{found:?}");
            found.retain(|path| {
                let mut outer = path.as_str();
                let is_whole = std::iter::from_fn(|| {
                    outer = outer.rsplit_once('.')?.0;
                    Some(table.class(outer))
                })
                .any(|class| matches!(class, Some(Class::Kept | Class::Done)));
                !is_whole && table.class(path).is_none() && !table.objects.contains(path)
            });
            assert!(found.is_empty(), "no class in CLASSES: {found:#?}");
        }
    }
}
