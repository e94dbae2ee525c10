//! Removes from a run what identifies its host, its users and their work.
//!
//! The walk is typed: every structure and variant that may hold text is destructured with all its
//! fields, so that a new field does not compile until this module decides about it. A value stays
//! if it is a number or comes from a fixed vocabulary of the program or the kernel. Every other
//! text is removed or replaced by a stand-in. Equal values get equal stand-ins, so that cases and
//! targets stay distinct.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::host::{DeviceManifest, HostManifest, VmKernel, VmRecord};
use crate::metric;
use crate::observed::Observed;
use crate::plan::{Identity, Plan};
use crate::publication::{Identifying, Removal};
use crate::run::{
    BlockOrder, ControlRecord, MediumRecord, Placement, PlacementReason, RunRecord, Segment,
    TargetRecord,
};
use crate::stop::{RaceEnd, Shortfall, StopReason, StoppingRule, WidestInterval};
use crate::storage::{Layer, StorageFlaw};
use crate::target::{FileSystemSpec, Medium, Target, TargetKind};
use crate::traced::Traced;
use crate::trial::{Interference, Trial};
use crate::units::show_bytes;
use crate::warning::{UnbackedMemory, Warning};
use crate::workload::{BACKGROUND, Background, Params, WorkloadSpec};

/// The stand-in of a value.
const REMOVED: &str = "removed";
/// The stand-in of a sentence.
const TEXT_REMOVED: &str = "text removed";

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
    removed: BTreeMap<(Identifying, &'static str), BTreeSet<String>>,
    /// The values with numbered stand-ins, by the beginning of the stand-in.
    numbered: BTreeMap<&'static str, Vec<String>>,
    targets: BTreeMap<String, String>,
    media: BTreeMap<String, String>,
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
            removed: BTreeMap::new(),
            numbered: BTreeMap::new(),
            targets: BTreeMap::new(),
            media: BTreeMap::new(),
            labels: BTreeMap::new(),
            workloads: BTreeMap::new(),
        }
    }

    /// Returns what was removed so far, in the order of the classes.
    pub fn removed(&self) -> Vec<Removal> {
        let removal =
            |((class, what), values): (&(Identifying, &'static str), &BTreeSet<String>)| Removal {
                class: class.name().to_owned(),
                what: (*what).to_owned(),
                values: values.len(),
            };
        self.removed.iter().map(removal).collect()
    }

    /// Removes identifying values from the record. It comes before the trials, because they use its
    /// names.
    pub fn record(&mut self, record: &mut RunRecord) {
        let RunRecord {
            schema: _,
            name,
            plan,
            cells,
            amounts,
            blocks_planned: _,
            stopping_rule,
            placement,
            rounds,
            units,
            interim_analyses: _,
            order,
            segments,
            host,
            media,
            devices_probed,
            large_disk,
            targets,
            controls,
            memory: _,
            memory_cells,
            warnings,
            on,
            vm,
            ranks: _,
            emulated: _,
            stop_reason,
            devices,
            extra,
        } = record;
        let releases: Vec<String> = vm
            .iter()
            .flat_map(|vm| vm.kernels.keys().cloned())
            .collect();
        self.plan(plan, &releases);
        for cell in cells {
            let before = cell.label.clone();
            self.workloads
                .insert(before.clone(), cell.workload.name.clone());
            let target = |workload: &WorkloadSpec| workload.background.as_ref()?.target.clone();
            let target_before = target(&cell.workload);
            let is_stripped = self.params(&cell.workload.name, &mut cell.workload.params)
                | self.background(cell.workload.background.as_mut());
            // A label that the user gave and keeps quotes nothing but the target of the background.
            let is_renamed = target(&cell.workload) != target_before;
            if is_renamed || is_stripped && !cell.workload.params.contains_key("label") {
                cell.label = self.stand_in("case", &before);
                self.note(
                    Identifying::Names,
                    "labels of cases that quote a removed value",
                    &before,
                );
            }
            self.labels.insert(before, cell.label.clone());
        }
        for (label, params) in units.iter_mut() {
            let workload = self.workloads.get(label).cloned().unwrap_or_default();
            self.params(&workload, params);
        }
        self.label_keys(units);
        self.label_keys(amounts);
        self.label_keys(rounds);
        self.target_keys(large_disk);
        devices_probed
            .values_mut()
            .for_each(|targets| self.target_keys(targets));
        memory_cells.iter_mut().for_each(|label| self.label(label));
        for BlockOrder {
            block: _,
            targets,
            cells,
            slices: _,
        } in order
        {
            targets.iter_mut().for_each(|name| self.target_name(name));
            cells.iter_mut().for_each(|label| self.label(label));
        }
        segments
            .iter_mut()
            .for_each(|segment| self.segment(segment));
        self.host(host);
        for (text, medium) in std::mem::take(media) {
            let (text, medium) = self.medium_record(&text, medium);
            media.insert(text, medium);
        }
        targets
            .values_mut()
            .for_each(|target| self.target_record(target));
        self.target_keys(targets);
        self.control_records(controls);
        warnings
            .iter_mut()
            .for_each(|warning| self.warning(warning));
        if let Some(on) = on {
            self.replace(Identifying::Host, "name of the host (--on)", on);
        }
        if let Some(vm) = vm {
            self.vm(vm);
        }
        if let Some(rule) = stopping_rule {
            self.stopping_rule(rule);
        }
        if let Some(Placement::InTurn { reason }) = placement {
            self.placement_reason(reason);
        }
        if let Some(reason) = stop_reason {
            self.stop_reason(reason);
        }
        devices.clear();
        self.extra(extra);
        self.run_name(name, plan);
    }

    /// Removes identifying values from a trial.
    pub fn trial(&mut self, trial: &mut Trial) {
        let Trial {
            schema: _,
            id,
            phase: _,
            block,
            order: _,
            attempt,
            target,
            kernel: _,
            workload,
            operation,
            params,
            started: _,
            outcome: _,
            error,
            error_code: _,
            errno: _,
            metrics,
            latency,
            workers: _,
            requested,
            observed,
            interference,
            superseded: _,
            slice: _,
            samples: _,
            timelines: _,
            extra,
        } = trial;
        let name = self.workloads.get(workload).cloned().unwrap_or_default();
        // Operations and metrics of a program or a flow of the user have names from there.
        let is_stripped = self.params(&name, params);
        self.label(workload);
        self.target_name(target);
        let suffix = if *attempt > 1 {
            format!(".{attempt}")
        } else {
            String::new()
        };
        *id = format!("b{block}.{target}.{workload}{suffix}");
        if is_stripped {
            self.operation_name(&name, operation);
            *latency = std::mem::take(latency)
                .into_iter()
                .map(|(mut key, histogram)| {
                    self.operation_name(&name, &mut key);
                    (key, histogram)
                })
                .collect();
            for metric in metrics
                .iter_mut()
                .filter(|metric| metric::find(&metric.name).is_none())
            {
                let before = std::mem::take(&mut metric.name);
                metric.name =
                    self.replaced(Identifying::Commands, "names of metrics", "metric", before);
            }
        }
        self.text("errors", error);
        self.requested(&name, requested);
        self.observed(observed, is_stripped);
        interference
            .iter_mut()
            .for_each(|interference| self.interference(interference));
        self.extra(extra);
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

    /// Removes a value.
    fn remove(&mut self, class: Identifying, what: &'static str, value: &mut Option<String>) {
        if !self.keeps(class)
            && let Some(value) = value.take()
        {
            self.note(class, what, &value);
        }
    }

    /// Replaces a sentence.
    fn text<'t>(&mut self, what: &'static str, texts: impl IntoIterator<Item = &'t mut String>) {
        texts
            .into_iter()
            .for_each(|text| self.replace(Identifying::Texts, what, text));
    }

    /// Returns what replaces data of a later version, which may hold anything, as a sentence.
    fn unknown(&mut self, what: &'static str, found: &mut Map<String, Value>) -> String {
        let mut text = Value::Object(std::mem::take(found)).to_string();
        self.text(what, [&mut text]);
        text
    }

    fn directory(&mut self, what: &'static str, path: &mut PathBuf) {
        let text = path.to_string_lossy().into_owned();
        if !self.keeps(Identifying::Paths) && !text.is_empty() {
            self.note(Identifying::Paths, what, &text);
            *path = format!("/{}", self.stand_in("directory", &text)).into();
        }
    }

    fn device_path(&mut self, path: &str) -> String {
        if self.keeps(Identifying::Devices) {
            return path.to_owned();
        }
        self.note(Identifying::Devices, "paths of devices", path);
        format!("/dev/{}", self.stand_in("device", path))
    }

    /// Removes unknown fields except numbers and switches.
    fn extra(&mut self, extra: &mut Map<String, Value>) {
        for (key, value) in std::mem::take(extra) {
            match value {
                Value::Number(_) | Value::Bool(_) | Value::Null => drop(extra.insert(key, value)),
                value => self.note(
                    Identifying::Texts,
                    "fields of other versions",
                    &value.to_string(),
                ),
            }
        }
    }

    // The plan and its targets.

    fn plan(&mut self, plan: &mut Plan, releases: &[String]) {
        let Plan {
            name,
            targets,
            workloads,
            controls,
            repetition: _,
            sample_time: _,
            seed: _,
            one_at_a_time: _,
            keep_affected: _,
            race,
            risky: _,
            mkfs_defaults: _,
            like_disk: _,
            explain: _,
            size: _,
            scale: _,
            dir,
            theta: _,
            wipe,
            identity:
                Identity {
                    uid,
                    gid,
                    force_root: _,
                },
            place: _,
            kernels,
            vm: _,
            root,
        } = plan;
        if !(self.vocabulary.plan)(name) {
            let before = std::mem::take(name);
            *name = self.replaced(Identifying::Names, "name of the plan", "plan", before);
        }
        targets.iter_mut().for_each(|target| self.target(target));
        for WorkloadSpec {
            name,
            sample_time: _,
            sustain: _,
            background,
            params,
        } in workloads
        {
            self.params(name, params);
            self.background(background.as_mut());
        }
        self.controls(controls);
        // Descriptions of candidates are sentences, and a race has no page.
        *race = None;
        self.directory("directory of images", dir);
        for device in wipe {
            *device = self.device_path(&device.to_string_lossy()).into();
        }
        for (what, number) in [
            ("number of the user (--uid)", uid),
            ("number of the group (--gid)", gid),
        ] {
            if !self.keeps(Identifying::User)
                && let Some(number) = number.take()
            {
                self.note(Identifying::User, what, &number.to_string());
            }
        }
        for kernel in kernels
            .iter_mut()
            .filter(|kernel| !releases.contains(&**kernel))
        {
            let before = std::mem::take(kernel);
            *kernel = self.replaced(Identifying::Paths, "paths of kernels", "kernel", before);
        }
        if let Some(root) = root {
            self.directory("root of commands", root);
        }
    }

    fn target(&mut self, target: &mut Target) {
        let Target {
            name,
            kind,
            controls,
            kernel,
            optional: _,
        } = target;
        let (before, kind_before) = (name.clone(), kind.clone());
        match kind {
            TargetKind::Directory(path) => self.directory("measured directories", path),
            TargetKind::FileSystem(FileSystemSpec {
                fs,
                options,
                mkfs,
                tune,
                journal,
                medium,
            }) => {
                self.word("names of file systems", fs);
                self.options(options);
                self.arguments(mkfs);
                tune.iter_mut().for_each(|words| self.arguments(words));
                self.medium(medium);
                if let Some(journal) = journal {
                    self.medium(journal);
                }
            }
        }
        self.controls(controls);
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

    fn target_keys<T>(&mut self, map: &mut BTreeMap<String, T>) {
        for (mut name, value) in std::mem::take(map) {
            self.target_name(&mut name);
            map.insert(name, value);
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

    // Parameters, controls, options.

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

    fn control_records(&mut self, controls: &mut BTreeMap<String, ControlRecord>) {
        for (mut name, mut control) in std::mem::take(controls) {
            let ControlRecord {
                requested,
                observed,
                effective: _,
            } = &mut control;
            self.control(&name, requested);
            self.control(&name, observed);
            self.word("names of controls", &mut name);
            controls.insert(name, control);
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

    // The machine and its devices.

    fn host(&mut self, host: &mut HostManifest) {
        let HostManifest {
            kernel: _,
            kernel_build: _,
            command_line,
            distribution: _,
            architecture: _,
            cpu: _,
            board: _,
            bios: _,
            caches: _,
            cpus: _,
            numa_nodes: _,
            memory_bytes: _,
            swap_bytes: _,
            governor: _,
            turbo: _,
            mitigations: _,
            clock_source: _,
            hypervisor: _,
            container,
            cgroup_limits: _,
            sysctls: _,
            fsb_version: _,
            fsb_commit: _,
        } = host;
        self.remove(
            Identifying::Host,
            "command line of the kernel",
            command_line,
        );
        if let Some(manager) = container {
            self.word("names of container managers", manager);
        }
    }

    /// Replaces the boot id by a hash. Whether two runs were made in the same boot affects their
    /// intervals, so runs of one boot get the same hash. A boot id is a random number of 122 bits,
    /// so it cannot be found from its hash.
    fn segment(&mut self, segment: &mut Segment) {
        let Segment {
            boot_id,
            kernel: _,
            fsb_version: _,
            started: _,
            ended: _,
        } = segment;
        if !self.keeps(Identifying::Host) && boot_id != "unknown" {
            self.note(
                Identifying::Host,
                "ids of boots, replaced by hashes",
                boot_id,
            );
            *boot_id = format!("boot-{:016x}", fnv1a(boot_id.as_bytes()));
        }
    }

    /// Replaces the name of a device, unless the kernel gives such names by itself.
    fn device_name(&mut self, name: &mut String) {
        if !is_kernel_name(name) {
            let before = std::mem::take(name);
            *name = self.replaced(Identifying::Devices, "names of devices", "device", before);
        }
    }

    fn layer(&mut self, layer: &mut Layer) {
        match layer {
            Layer::FileSystem { driver } => self.word("names of drivers", driver),
            Layer::Overlay { upper, volatile: _ } => {
                upper
                    .iter_mut()
                    .for_each(|upper| self.directory("upper directories of overlays", upper));
            }
            Layer::Loop {
                device,
                file,
                direct: _,
            } => {
                self.device_name(device);
                file.iter_mut().for_each(|file| {
                    self.directory("files behind loop devices, and their mounts", file)
                });
            }
            Layer::Stacked { device, role } => {
                if device.starts_with("dm-") {
                    self.remove(Identifying::Devices, "names of mapped devices", role);
                }
                self.device_name(device);
                role.iter_mut()
                    .for_each(|role| self.word("kinds of devices", role));
            }
            Layer::Disk {
                device,
                write_cache: _,
            } => self.device_name(device),
            Layer::Memory { holder } => self.word("names of drivers", holder),
            Layer::Unknown { reason } => self.text("reasons why storage is not known", [reason]),
        }
    }

    fn device(&mut self, device: &mut DeviceManifest) {
        let DeviceManifest {
            name,
            model,
            serial,
            controller: _,
            interface: _,
            rotations_per_minute: _,
            buffer_bytes: _,
            size_bytes: _,
            partition_start: _,
            queue: _,
            backing,
            beneath,
        } = device;
        let is_mapped = name.starts_with("dm-");
        self.device_name(name);
        if is_mapped {
            self.remove(Identifying::Devices, "names of mapped devices", model);
        }
        self.remove(Identifying::Serials, "serial numbers of devices", serial);
        // `/srv/image, ext4 on /dev/sda1`: the kind of the file system stays.
        let kind = backing.as_deref().and_then(|text| {
            text.rsplit_once(", ")?
                .1
                .split_once(" on ")
                .map(|(kind, _)| kind)
        });
        let kind = kind.filter(|kind| is_plain(kind)).map(str::to_owned);
        self.remove(
            Identifying::Paths,
            "files behind loop devices, and their mounts",
            backing,
        );
        if backing.is_none() {
            *backing = kind;
        }
        beneath.iter_mut().for_each(|beneath| self.device(beneath));
    }

    fn medium_record(&mut self, text: &str, mut medium: MediumRecord) -> (String, MediumRecord) {
        let MediumRecord {
            device,
            direct: _,
            filled: _,
            summary,
            unjudged,
        } = &mut medium;
        let known = self.media.get(text).cloned();
        let shown = match known {
            Some(known) => known,
            None => self.replaced(
                Identifying::Devices,
                "paths of devices",
                "medium",
                text.to_owned(),
            ),
        };
        if shown != text {
            *summary = format!("{shown} {}", show_bytes(device.size_bytes as f64));
            if let Some(reason) = unjudged {
                *reason = format!("{shown} cannot show the speed of a file system");
            }
        }
        self.device(device);
        (shown, medium)
    }

    fn target_record(&mut self, target: &mut TargetRecord) {
        let TargetRecord {
            mkfs_version: _,
            mkfs_command,
            tune_commands,
            features: _,
            block_size: _,
            geometry: _,
            small_device: _,
            risks,
            requested_options,
            mount_options,
            driver,
            medium,
            device,
            storage,
            notes,
            failed,
            unavailable,
            controls,
            kernel: _,
        } = target;
        self.command(mkfs_command);
        tune_commands
            .iter_mut()
            .for_each(|words| self.command(words));
        risks
            .iter_mut()
            .for_each(|risk| self.option(&mut risk.cause));
        self.options(requested_options);
        self.options(mount_options);
        if let Some(driver) = driver {
            self.word("names of drivers", driver);
        }
        if let Some(text) = medium {
            *text = match self.media.get(text.as_str()) {
                Some(known) => known.clone(),
                None => self.replaced(
                    Identifying::Devices,
                    "paths of devices",
                    "medium",
                    std::mem::take(text),
                ),
            };
        }
        if let Some(device) = device {
            self.device(device);
        }
        storage
            .iter_mut()
            .for_each(|layer| self.layer(&mut layer.layer));
        self.text(
            "notes on targets",
            notes.iter_mut().chain(failed).chain(unavailable),
        );
        self.control_records(controls);
    }

    fn vm(&mut self, vm: &mut VmRecord) {
        let VmRecord {
            qemu: _,
            accelerator: _,
            acceleration,
            memory_bytes: _,
            cpus: _,
            host_kernel: _,
            kernels,
        } = vm;
        self.text("evidence for the accelerator", [acceleration]);
        for VmKernel {
            image,
            initramfs: _,
            image_hash: _,
            module_hashes: _,
        } in kernels.values_mut()
        {
            let before = std::mem::take(image);
            *image = self.replaced(Identifying::Paths, "paths of kernels", "kernel", before);
        }
    }

    // Sentences, and data that may hold some.

    fn warning(&mut self, warning: &mut Warning) {
        const WHAT: &str = "texts of warnings";
        match warning {
            Warning::Concurrent { run, more: _ } => self.text(WHAT, [run]),
            Warning::NoLock { reasons } => self.text(WHAT, reasons),
            Warning::UnbackedMemory { cause } => match cause {
                UnbackedMemory::Untouchable { error } => self.text(WHAT, [error]),
                UnbackedMemory::Described { text } => self.text(WHAT, [text]),
                UnbackedMemory::Reported { file } => self.directory("files of the kernel", file),
                UnbackedMemory::LeftAlone
                | UnbackedMemory::TouchedInPart {
                    touched: _,
                    needed: _,
                    seconds: _,
                } => {}
            },
            Warning::Storage { target, flaw } => {
                self.target_name(target);
                match flaw {
                    StorageFlaw::Memory { holder } => self.word("names of drivers", holder),
                    StorageFlaw::Buffered { device } => self.device_name(device),
                    StorageFlaw::Volatile => {}
                }
            }
            Warning::DirectoryInMemory { path } => self.directory("measured directories", path),
            Warning::TargetUnavailable { target, reason } => {
                self.target_name(target);
                self.text(WHAT, [reason]);
            }
            Warning::DiscardKeptOut { medium } => {
                *medium = match self.media.get(medium.as_str()) {
                    Some(known) => known.clone(),
                    None => self.replaced(
                        Identifying::Devices,
                        "paths of devices",
                        "medium",
                        std::mem::take(medium),
                    ),
                };
            }
            Warning::ControlUnavailable {
                control,
                value,
                reason,
            } => {
                self.control(control, value);
                self.text(WHAT, [reason]);
            }
            Warning::ControlInexact {
                control,
                value,
                observed,
            } => {
                self.control(control, value);
                self.control(control, observed);
            }
            Warning::ServiceMayRestart { service, trigger } => {
                self.text("names of services", [service, trigger])
            }
            Warning::TooLong {
                workloads,
                budget_seconds: _,
            }
            | Warning::LeftOut {
                workloads,
                held: _,
                planned: _,
                budget_seconds: _,
                needed_seconds: _,
            } => {
                workloads.iter_mut().for_each(|label| self.label(label));
            }
            Warning::LongPreparation {
                workload,
                prepare_seconds: _,
                command_seconds: _,
            } => self.label(workload),
            Warning::NotTakenDown { target, error } => {
                target.iter_mut().for_each(|name| self.target_name(name));
                self.text(WHAT, [error]);
            }
            Warning::NotUndone { entry } => self.text(WHAT, [entry]),
            Warning::Text(text) => self.text(WHAT, [text]),
            Warning::Unknown(found) => *warning = Warning::Text(self.unknown(WHAT, found)),
            Warning::Container { name } => self.word("names of container managers", name),
            Warning::DifferentMedia
            | Warning::LargeTmpfs {
                size: _,
                available: _,
            }
            | Warning::InjectedSlowdown {
                target: _,
                share: _,
            }
            | Warning::SizesLeftOut {
                left_out: _,
                planned: _,
                files: _,
                records: _,
                needed_seconds: _,
            }
            | Warning::TooFewBlocks {
                blocks: _,
                budget_seconds: _,
                needed_seconds: _,
            } => {}
        }
    }

    fn stopping_rule(&mut self, rule: &mut StoppingRule) {
        match rule {
            StoppingRule::Text(text) => self.text("stopping rule", [text]),
            StoppingRule::Unknown(found) => {
                *rule = StoppingRule::Text(self.unknown("stopping rule", found))
            }
            StoppingRule::Blocks {
                blocks: _,
                budget_seconds: _,
            }
            | StoppingRule::Budget {
                budget_seconds: _,
                most_blocks: _,
                planned: _,
            }
            | StoppingRule::Precision {
                half_width: _,
                of_ratios: _,
                fewest_blocks: _,
                budget_seconds: _,
                planned: _,
            }
            | StoppingRule::InterimAnalyses {
                planned: _,
                budget_seconds: _,
                after: _,
                half_width: _,
            }
            | StoppingRule::Race {
                slots: _,
                round_seconds: _,
                error: _,
            } => {}
        }
    }

    fn stop_reason(&mut self, reason: &mut StopReason) {
        match reason {
            StopReason::Imprecise {
                blocks: _,
                shortfall,
            }
            | StopReason::BudgetWouldBePassed {
                blocks: _,
                planned: _,
                shortfall,
            } => {
                if let Some(Shortfall {
                    widest:
                        WidestInterval {
                            half_width: _,
                            workload,
                        },
                    half_width: _,
                }) = shortfall
                {
                    self.label(workload);
                }
            }
            StopReason::Race {
                rounds: _,
                reason: RaceEnd::BaselineFailed { target, error },
            } => {
                self.target_name(target);
                self.text("errors", [error]);
            }
            StopReason::Text(text) => self.text("reason for the end", [text]),
            StopReason::Unknown(found) => {
                *reason = StopReason::Text(self.unknown("reason for the end", found))
            }
            StopReason::Requested { blocks: _ }
            | StopReason::BudgetPlanned { blocks: _, most: _ }
            | StopReason::Undecided {
                blocks: _,
                open: _,
                workloads: _,
            }
            | StopReason::Decided { blocks: _ }
            | StopReason::Precise {
                blocks: _,
                half_width: _,
                of_ratios: _,
                reached: _,
            }
            | StopReason::BudgetCut {
                blocks: _,
                planned: _,
            }
            | StopReason::Hopeless {
                blocks: _,
                failed: _,
            }
            | StopReason::NoValues { blocks: _ }
            | StopReason::Race {
                rounds: _,
                reason:
                    RaceEnd::OthersSlower | RaceEnd::NoneFaster | RaceEnd::NoneLeft | RaceEnd::Budget,
            } => {}
        }
    }

    fn placement_reason(&mut self, reason: &mut PlacementReason) {
        const WHAT: &str = "reason for the placement";
        match reason {
            PlacementReason::IndivisibleMedium { cause } => self.text(WHAT, [cause]),
            PlacementReason::Text(text) => self.text(WHAT, [text]),
            PlacementReason::Unknown(found) => {
                *reason = PlacementReason::Text(self.unknown(WHAT, found))
            }
            PlacementReason::Requested
            | PlacementReason::UnsplittableWorkloads
            | PlacementReason::DifferentKernels
            | PlacementReason::DifferentControls
            | PlacementReason::MemoryLimit
            | PlacementReason::DifferentMedia
            | PlacementReason::ExternalJournal
            | PlacementReason::SharedMemory
            | PlacementReason::MixedKinds
            | PlacementReason::TooManyTargets
            | PlacementReason::NoTargets => {}
        }
    }

    fn interference(&mut self, interference: &mut Interference) {
        *interference = interference.clone().upgraded();
        match interference {
            Interference::Text(text) => self.text("texts of interference", [text]),
            Interference::Unknown(found) => {
                *interference = Interference::Text(self.unknown("texts of interference", found))
            }
            Interference::CpuSteal { share: _ }
            | Interference::OtherProcesses { share: _ }
            | Interference::OtherDiskIo {
                bytes_per_second: _,
            }
            | Interference::ThermalThrottling { events: _ }
            | Interference::Stopped { processes: _ } => {}
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

    fn observed(&mut self, observed: &mut Observed, is_stripped: bool) {
        let Observed {
            resident_bytes_before: _,
            resident_bytes_after: _,
            clock_cost_seconds: _,
            device_read_bytes: _,
            device_write_bytes: _,
            hole_bytes: _,
            device_flushes: _,
            rpcs: _,
            direct: _,
            machine_cpu_seconds: _,
            user_seconds: _,
            system_seconds: _,
            idle: _,
            quiesce_seconds: _,
            unconfined,
            spent_seconds: _,
            deferred: _,
            repetitions_left_out: _,
            rounds_not_idle: _,
            output,
            sustained: _,
            background: _,
            counts,
            memory_limit,
            watched: _,
            mount_options,
            controls,
            seconds_per_iteration: _,
            cycle_spans_ns: _,
            traced,
            barrier: _,
            extra,
        } = observed;
        self.text("what the kernel refused to a worker", unconfined);
        self.remove(Identifying::Commands, "output of commands", output);
        if is_stripped {
            for (key, count) in std::mem::take(counts) {
                let key = self.replaced(Identifying::Commands, "names of counts", "count", key);
                counts.insert(key, count);
            }
        }
        if let Some(limit) = memory_limit
            && limit.mechanism.contains('/')
        {
            self.text("values of controls", [&mut limit.mechanism]);
        }
        self.options(mount_options);
        self.controls(controls);
        traced.iter_mut().for_each(|traced| self.traced(traced));
        self.extra(extra);
    }

    /// Names of functions may be those of a module that few have. Their class stays.
    fn traced(&mut self, traced: &mut Traced) {
        traced.remove_functions();
        let Traced {
            thread_ns: _,
            operations: _,
            run_queue_ns: _,
            waits: _,
            runs: _,
            stolen_ns: _,
            program_ns: _,
            locks: _,
            kernel_threads: _,
            requests: _,
            shown_requests: _,
            commits: _,
            lost: _,
            problem,
        } = traced;
        self.text("why trials were not traced", problem);
    }
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
    let is_numbered = |rest: &str| {
        let letters = rest.chars().take_while(char::is_ascii_lowercase).count();
        letters <= 3
            && rest.len() <= 10
            && rest[letters..]
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, 'n' | 'p'))
    };
    // The numbers of a device whose name is unknown.
    let is_number = name.chars().all(|c| c.is_ascii_digit() || c == ':');
    is_number
        || DRIVERS
            .iter()
            .any(|driver| name.strip_prefix(driver).is_some_and(is_numbered))
}

/// The hash function FNV-1a with 64 bits (G. Fowler, L. C. Noll, K.-P. Vo).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trial::Outcome;

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
                        "mkfs": ["-L", "hostile7", "-Uhostile7", "-O", "^has_journal", "-b", "4096"],
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
            "stopping_rule": "hostile7 blocks",
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
                "a sentence about hostile7",
                { "kind": "full_moon", "text": "hostile7" },
                { "kind": "concurrent", "run": "process 7 (fsb run /hostile7)", "more": 0 },
                { "kind": "no_lock", "reasons": ["/hostile7/lock"] },
                { "kind": "unbacked_memory", "cause": { "reason": "untouchable", "error": "hostile7" } },
                { "kind": "unbacked_memory", "cause": { "reason": "described", "text": "hostile7" } },
                { "kind": "unbacked_memory", "cause": { "reason": "reported", "file": "/sys/hostile7" } },
                { "kind": "directory_in_memory", "path": "/srv/hostile7" },
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
            "interference": ["CPU steal 3 %", "hostile7", { "kind": "full_moon", "text": "hostile7" }],
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
        anonymiser.record(&mut record);
        anonymiser.trial(&mut trial);
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
        anonymiser.record(&mut record);
        anonymiser.trial(&mut trial);
        let names: Vec<&str> = record
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        let options = r#"journal_path=removed,mkfs="-L removed -Uremoved -O ^has_journal -b 4096",tune="-L removed""#;
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
        anonymiser.record(&mut anonymised);
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
        Anonymiser::new(VOCABULARY, [Identifying::Names]).record(&mut anonymised);
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
            Anonymiser::new(VOCABULARY, []).record(&mut record);
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
}
