//! The commands that make and mount the targets of a run on a device of the reader: `mkfs`, `mount`
//! and the line of /etc/fstab.
//!
//! Everything comes from the record of the run. Arguments that only a benchmark needs are omitted
//! and named in a comment.

use std::fmt::Write as _;
use std::path::Path;

use fsb_model::run::TargetRecord;
use fsb_model::target::{self, last_value, nfs_client_options};
use fsb_model::{FileSystemSpec, RunRecord, Target, TargetKind, shell};
use fsb_stats::RankingOutcome;

use crate::show::counted;
use crate::summary::{Summary, risks};
use crate::{mark, visible};

/// The placeholder of the device.
const DEVICE: &str = "/dev/YOUR-DEVICE";
/// The placeholder of the mount point.
const POINT: &str = "/your/mountpoint";
/// The placeholder of the mount point of the file system beneath a FUSE server.
const BENEATH: &str = "/your/directory";
/// The placeholder of the directory that a server exports.
const EXPORT: &str = "/your/export";
/// The placeholder of the pool of ZFS.
const POOL: &str = "YOUR-POOL";
/// The placeholder of what a client of NFS mounts.
const OF_SERVER: &str = "YOUR-SERVER:/your/export";

/// A target in the order of the output, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// The name.
    pub name: String,
    /// The result, in a few words. `None` if it has none worth mentioning.
    pub result: Option<String>,
}

/// Returns the targets of a run: first those that win most cases, then the others in the order of
/// the plan.
pub fn by_wins(summary: &Summary) -> Vec<Ranked> {
    let total = summary.cases.len();
    let ranked = |(place, target): (usize, &crate::summary::TargetSummary)| {
        let is_won = |outcome: &RankingOutcome| matches!(outcome, RankingOutcome::Winner(winner) if *winner == place);
        let wins = summary
            .cases
            .iter()
            .filter(|row| is_won(&row.ranking.outcome))
            .count();
        let result =
            (wins > 0).then(|| format!("fastest at {wins} of {}", counted(total, "workload")));
        (
            wins,
            Ranked {
                name: target.name.clone(),
                result,
            },
        )
    };
    let mut targets: Vec<(usize, Ranked)> =
        summary.targets.iter().enumerate().map(ranked).collect();
    targets.sort_by_key(|(wins, _)| std::cmp::Reverse(*wins));
    targets.into_iter().map(|(_, ranked)| ranked).collect()
}

/// Returns the commands of these targets, a paragraph each.
pub fn text(record: &RunRecord, targets: &[Ranked]) -> String {
    targets
        .iter()
        .filter_map(|ranked| {
            let target = record
                .plan
                .targets
                .iter()
                .find(|target| target.name == ranked.name)?;
            let made = record
                .targets
                .get(&target.name)
                .cloned()
                .unwrap_or_default();
            Some(paragraph(record, target, &made, ranked.result.as_deref()))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The lines of a target.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    fn comment(&mut self, text: &str) {
        let text = visible::line(text);
        writeln!(self.0, "# {text}").expect("writing to a string does not fail");
    }

    /// Adds a line to be copied, unless it has characters that would do something else than they
    /// show.
    fn line(&mut self, line: &str) {
        match visible::line(line) == line {
            true => writeln!(self.0, "{line}").expect("writing to a string does not fail"),
            false => self.comment(&format!(
                "not printed, because it has control characters: {line}"
            )),
        }
    }
}

fn paragraph(
    record: &RunRecord,
    target: &Target,
    made: &TargetRecord,
    result: Option<&str>,
) -> String {
    let mut lines = Lines::default();
    let result = result
        .map(|result| format!(": {result}"))
        .unwrap_or_default();
    lines.comment(&format!("{}{result}", target.name));
    let risks = risks::of_target(record, &target.name);
    if !risks.is_empty() {
        lines.comment(&format!("unsafe: {}", mark::reason(risks)));
    }
    if let Some(why) = made.failed.as_ref().or(made.unavailable.as_ref()) {
        lines.comment(&format!("not measured: {why}"));
    }
    made.notes.iter().for_each(|note| lines.comment(note));
    if let Some(kernel) = &target.kernel {
        lines.comment(&format!("measured on Linux {kernel}"));
    }
    for (control, value) in &target.controls {
        lines.comment(&format!(
            "measured with the control {control}={value}, which these commands do not set"
        ));
    }
    match &target.kind {
        TargetKind::Directory(path) => {
            lines.comment(&format!(
                "an existing directory, {}: fsb neither made nor mounted it",
                path.display()
            ));
            if !made.mount_options.is_empty() {
                lines.comment(&format!(
                    "its file system was mounted with {}",
                    made.mount_options.join(",")
                ));
            }
        }
        TargetKind::FileSystem(spec) => match Recipe::from_target(target, made) {
            None => lines.comment("nothing to make: null simulates a file system"),
            Some(recipe) => {
                if spec.fs == "tmpfs" {
                    tmpfs(&mut lines, spec, made, &recipe);
                } else {
                    on_device(&mut lines, spec, made, &recipe);
                }
                if let Some(fstab) = &recipe.fstab {
                    lines.comment("line for /etc/fstab:");
                    lines.line(fstab);
                }
            }
        },
    }
    lines.0
}

/// Returns the words of a command that sets these mount options.
fn with_options(kind: &str, options: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["mount", "-t", kind].map(str::to_owned).to_vec();
    if !options.is_empty() {
        words.extend(["-o".to_owned(), options.join(",")]);
    }
    words
}

fn command(words: &[String], more: &[&str]) -> String {
    shell::line(words.iter().map(String::as_str).chain(more.iter().copied()))
}

/// Returns a command with the placeholders of a FUSE server replaced by the names that the other
/// commands use.
fn by_hand(words: &[String]) -> String {
    let filled: Vec<String> = words
        .iter()
        .map(|word| {
            word.replace(target::DEVICE, DEVICE)
                .replace(target::DIRECTORY, BENEATH)
                .replace(target::MOUNT_POINT, POINT)
                .replace(target::USER, "0")
                .replace(target::GROUP, "0")
        })
        .collect();
    command(&filled, &[])
}

/// Returns a line of /etc/fstab. Blanks in options are escaped, because a blank ends a field
/// (fstab(5)).
fn fstab(source: &str, kind: &str, options: &[String], pass: u8) -> String {
    let options = match options {
        [] => "defaults".to_owned(),
        options => options
            .join(",")
            .replace('\\', "\\134")
            .replace(' ', "\\040")
            .replace('\t', "\\011"),
    };
    format!("{source} {POINT} {kind} {options} 0 {pass}")
}

/// The commands that make and mount a target, without the options that only the measurement adds.
pub(crate) struct Recipe {
    /// Makes the file system on [`DEVICE`]; absent where nothing is made, or where its program was
    /// not recorded.
    make: Option<String>,
    /// The commands that change its features afterwards.
    tune: Vec<String>,
    /// Mounts the file system on a server and exports it, or mounts the one beneath a FUSE server
    /// and prepares it; empty for what is mounted where it is used.
    serve: Vec<String>,
    mount: String,
    /// The line of /etc/fstab; absent if no line mounts it.
    pub(crate) fstab: Option<String>,
}

impl Recipe {
    /// Returns the recipe of a file system; `None` for a directory and for what is never mounted.
    pub(crate) fn from_target(target: &Target, made: &TargetRecord) -> Option<Recipe> {
        let TargetKind::FileSystem(spec) = &target.kind else {
            return None;
        };
        let (source, kind, pass) = match spec.fs.as_str() {
            "null" => return None,
            "tmpfs" => ("tmpfs", "tmpfs", 0),
            "ntfs" => (DEVICE, "ntfs-3g", 0),
            "nfs" => (OF_SERVER, "nfs", 0),
            "zfs" => (POOL, "zfs", 0),
            kind @ ("ext2" | "ext3" | "ext4" | "jfs" | "reiserfs" | "f2fs" | "minix" | "vfat"
            | "exfat") => (DEVICE, kind, 2),
            kind => (DEVICE, kind, 0),
        };
        let program = made
            .mkfs_command
            .first()
            .and_then(|path| Path::new(path).file_name()?.to_str());
        let program = program.map(|installed| spec.mkfs_program().unwrap_or(installed));
        let make = program.map(|program| {
            if spec.fs == "zfs" {
                return command(&pool_words(&made.mkfs_command), &[POOL, DEVICE]);
            }
            let words: Vec<String> = std::iter::once(program.to_owned())
                .chain(spec.mkfs_arguments())
                .collect();
            command(&words, &[DEVICE])
        });
        let is_served = spec.fs == "nfs";
        let options = match spec.fs.as_str() {
            "nfs" => nfs_client_options(&spec.options),
            // Options with a value are properties of the pool.
            "zfs" => without_values(&spec.options),
            _ => spec.mount_options(),
        };
        if let Some((mount, before)) = made.mount_commands.split_last() {
            return Some(Recipe {
                make,
                tune: Vec::new(),
                serve: before.iter().map(|words| by_hand(words)).collect(),
                mount: by_hand(mount),
                fstab: None,
            });
        }
        // The last word of each is the device.
        let tune = made
            .tune_commands
            .iter()
            .filter_map(|words| words.split_last());
        Some(Recipe {
            make,
            tune: tune.map(|(_, words)| command(words, &[DEVICE])).collect(),
            serve: if is_served { serve(spec) } else { Vec::new() },
            mount: command(&with_options(kind, &options), &[source, POINT]),
            fstab: Some(fstab(source, kind, &options, pass)),
        })
    }

    /// Returns the commands in the order of execution.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.make
            .iter()
            .chain(&self.tune)
            .chain(&self.serve)
            .chain([&self.mount])
            .cloned()
            .collect()
    }
}

/// Returns the words of `zpool create` as a user types them: without `-f`, and with a pool that is
/// imported at boot. The pool and the device follow.
fn pool_words(recorded: &[String]) -> Vec<String> {
    let end = recorded.len().saturating_sub(2);
    let mut words = vec!["zpool".to_owned()];
    words.extend(recorded[..end].iter().skip(1).cloned());
    words.retain(|word| word != "-f");
    if let Some(place) = words.iter().position(|word| word == "cachefile=none") {
        words.drain(place.saturating_sub(1)..=place);
    }
    words
}

/// Returns the options without a value.
fn without_values(options: &[String]) -> Vec<String> {
    let flags = options.iter().filter(|option| !option.contains('='));
    flags.cloned().collect()
}

/// Returns the commands of the server of an NFS target.
fn serve(spec: &FileSystemSpec) -> Vec<String> {
    let exported = last_value(&spec.options, "export").unwrap_or("ext4");
    let mut commands = vec![command(&with_options(exported, &[]), &[DEVICE, EXPORT])];
    if last_value(&spec.options, "server") == Some("ganesha") {
        let block = format!(
            "EXPORT {{ Export_Id = 1; Path = {EXPORT}; Pseudo = {EXPORT}; Access_Type = RW; Squash = No_Root_Squash; \
             FSAL {{ Name = VFS; }} }}"
        );
        commands.push(format!("echo '{block}' >> /etc/ganesha/ganesha.conf"));
        commands.push("systemctl restart nfs-ganesha".to_owned());
    } else {
        let answers = if spec.options.iter().any(|option| option == "async") {
            "async"
        } else {
            "sync"
        };
        let options = format!("rw,{answers},no_subtree_check,no_root_squash");
        commands.push(command(
            &["exportfs".to_owned(), "-o".to_owned(), options],
            &["YOUR-CLIENT:/your/export"],
        ));
    }
    commands
}

fn tmpfs(lines: &mut Lines, spec: &FileSystemSpec, made: &TargetRecord, recipe: &Recipe) {
    let is_size = |option: &&String| option.starts_with("size=");
    if let (None, Some(size)) = (
        spec.options.iter().find(is_size),
        made.mount_options.iter().find(is_size),
    ) {
        lines.comment(&format!(
            "measured with {size}; without it, tmpfs may fill half of the memory"
        ));
    }
    lines.line(&recipe.mount);
}

fn on_device(lines: &mut Lines, spec: &FileSystemSpec, made: &TargetRecord, recipe: &Recipe) {
    if spec.medium.is_composed() {
        lines.comment(&format!(
            "measured on {}: {DEVICE} is that device",
            spec.medium
        ));
    }
    match &recipe.make {
        Some(make) => {
            lines.comment(&format!(
                "as measured: {}",
                command(&made.mkfs_command, &[])
            ));
            let only = only_measured(spec, made);
            if !only.is_empty() {
                let words = command(&only, &[]);
                let why = match spec.fs.as_str() {
                    "zfs" => "over old signatures, and not imported at boot",
                    _ => "quiet, no discard, geometry of a large disk on a slice",
                };
                lines.comment(&format!("left out here: {words} ({why})"));
            }
            lines.line(make);
            recipe.tune.iter().for_each(|change| lines.line(change));
        }
        None if !made.mount_commands.is_empty() => {}
        None => lines.comment("its mkfs command was not recorded"),
    }
    if !made.mount_options.is_empty() {
        lines.comment(&format!(
            "as measured: mounted with {}",
            made.mount_options.join(",")
        ));
    }
    if !recipe.serve.is_empty() {
        recipe.serve.iter().for_each(|line| lines.line(line));
    }
    if !recipe.serve.is_empty() && made.mount_commands.is_empty() {
        lines.comment("until here on the server, from here on the client:");
    }
    lines.line(&recipe.mount);
    if spec.is_encrypted() {
        lines.comment(
            "its files were in a directory that fscrypt encrypts, which these commands do not make",
        );
    }
}

/// Returns the arguments that fsb added to those of the plan.
fn only_measured(spec: &FileSystemSpec, made: &TargetRecord) -> Vec<String> {
    if spec.fs == "zfs" {
        return ["-f", "-o", "cachefile=none"].map(str::to_owned).to_vec();
    }
    // The last word is the device. The words of the plan follow those that fsb adds.
    let mut requested = spec.mkfs_arguments();
    let mut added: Vec<String> = Vec::new();
    for word in made.mkfs_command.iter().skip(1).rev().skip(1) {
        match requested.iter().rposition(|other| other == word) {
            Some(place) => drop(requested.remove(place)),
            None => added.push(word.clone()),
        }
    }
    added.reverse();
    added
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::CompactTrial;

    /// Returns a run of several kinds of targets, as fsb records them.
    fn run() -> (RunRecord, Vec<Ranked>) {
        let (mut record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 6);
        let trials = CompactTrial::all(&trials);
        let mut ranked = by_wins(&Summary::of_shown(&record, &trials));
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let targets = [
            "ext4,noatime,data=ordered,mkfs=\"-O ^has_journal\"",
            "xfs",
            "tmpfs",
            "dir=/srv/with space",
        ];
        let names: Vec<String> = record
            .plan
            .targets
            .iter()
            .map(|target| target.name.clone())
            .collect();
        record.plan.targets = targets
            .iter()
            .map(|text| text.parse().expect("a target"))
            .collect();
        for (target, name) in record.plan.targets.iter_mut().zip(&names) {
            target.name.clone_from(name);
        }
        ranked.push(Ranked {
            name: record.plan.targets[3].name.clone(),
            result: None,
        });
        record.targets.clear();
        let ext4 = words(
            "/usr/sbin/mkfs.ext4 -F -q -E nodiscard -b 4096 -J size=82 -O ^has_journal /dev/loop2",
        );
        let ext4 = TargetRecord {
            mkfs_command: ext4,
            ..TargetRecord::default()
        };
        let xfs = words("/usr/sbin/mkfs.xfs -f -q -K -l size=64m /dev/loop3");
        let xfs = TargetRecord {
            mkfs_command: xfs,
            notes: vec!["a note".to_owned()],
            ..TargetRecord::default()
        };
        let tmpfs = TargetRecord {
            mount_options: words("rw size=2097152k"),
            ..TargetRecord::default()
        };
        record.targets = names.into_iter().zip([ext4, xfs, tmpfs]).collect();
        (record, ranked)
    }

    #[test]
    fn a_server_is_started_over_the_file_system_beneath() {
        let target: Target = "gocryptfs".parse().unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let made = TargetRecord {
            mkfs_command: words("/usr/sbin/mkfs.ext4 -F /dev/loop2"),
            mount_commands: vec![
                words("mount -t ext4 {dev} {dir}"),
                words("gocryptfs -init {dir}"),
                words("gocryptfs -fg {dir} {mnt}"),
            ],
            ..TargetRecord::default()
        };
        let recipe = Recipe::from_target(&target, &made).unwrap();
        assert_eq!(
            recipe.commands(),
            [
                "mkfs.ext4 /dev/YOUR-DEVICE",
                "mount -t ext4 /dev/YOUR-DEVICE /your/directory",
                "gocryptfs -init /your/directory",
                "gocryptfs -fg /your/directory /your/mountpoint",
            ]
        );
        assert_eq!(recipe.fstab, None);
    }

    /// The value of an option that fsb adds may be that of an option of the plan.
    #[test]
    fn arguments_of_the_plan_are_the_last_ones() {
        let target: Target = "ext4,mkfs=\"-O bigalloc -C 65536\"".parse().unwrap();
        let TargetKind::FileSystem(spec) = &target.kind else {
            panic!("a file system")
        };
        let words = "mkfs.ext4 -q -i 65536 -J size=126 -O bigalloc -C 65536 /dev/loop0".split(' ');
        let made = TargetRecord {
            mkfs_command: words.map(str::to_owned).collect(),
            ..TargetRecord::default()
        };
        assert_eq!(
            only_measured(spec, &made).join(" "),
            "-q -i 65536 -J size=126"
        );
    }

    #[test]
    fn the_winner_is_first_and_what_only_the_benchmark_needs_is_a_comment() {
        let (record, ranked) = run();
        insta::assert_snapshot!(text(&record, &ranked));
    }

    #[test]
    fn the_commands_of_an_encrypted_target_are_those_of_mkfs_and_mount() {
        let target: Target = "ext4,encrypt,noatime".parse().unwrap();
        let words = "mkfs.ext4 -q -O encrypt /dev/loop0"
            .split(' ')
            .map(str::to_owned)
            .collect();
        let made = TargetRecord {
            mkfs_command: words,
            ..TargetRecord::default()
        };
        let recipe = Recipe::from_target(&target, &made).unwrap();
        assert_eq!(
            recipe.make.as_deref(),
            Some("mkfs.ext4 -O encrypt /dev/YOUR-DEVICE")
        );
        assert_eq!(
            recipe.mount,
            "mount -t ext4 -o noatime /dev/YOUR-DEVICE /your/mountpoint"
        );
        assert_eq!(only_measured(target.file_system().unwrap(), &made), ["-q"]);
    }

    #[test]
    fn a_pool_is_made_with_its_properties_and_mounted_by_its_name() {
        let target: Target = "zfs,recordsize=16k,noatime".parse().unwrap();
        let words = "/usr/sbin/zpool create -f -o cachefile=none -O mountpoint=legacy -O recordsize=16k fsb-7-0 \
                     /dev/loop0";
        let made = TargetRecord {
            mkfs_command: words.split(' ').map(str::to_owned).collect(),
            ..TargetRecord::default()
        };
        let recipe = Recipe::from_target(&target, &made).unwrap();
        assert_eq!(
            recipe.commands(),
            [
                "zpool create -O mountpoint=legacy -O recordsize=16k YOUR-POOL /dev/YOUR-DEVICE",
                "mount -t zfs -o noatime YOUR-POOL /your/mountpoint",
            ]
        );
        assert_eq!(
            recipe.fstab.as_deref(),
            Some("YOUR-POOL /your/mountpoint zfs noatime 0 0")
        );
        assert_eq!(
            only_measured(target.file_system().unwrap(), &made).join(" "),
            "-f -o cachefile=none"
        );
    }

    #[test]
    fn a_server_makes_and_exports_what_a_client_of_nfs_mounts() {
        let target: Target = "nfs,export=xfs,async,delay=1ms,vers=4.1,rsize=64K"
            .parse()
            .unwrap();
        let words = "mkfs.xfs -q /dev/loop0"
            .split(' ')
            .map(str::to_owned)
            .collect();
        let made = TargetRecord {
            mkfs_command: words,
            ..TargetRecord::default()
        };
        let recipe = Recipe::from_target(&target, &made).unwrap();
        assert_eq!(
            recipe.commands(),
            [
                "mkfs.xfs /dev/YOUR-DEVICE",
                "mount -t xfs /dev/YOUR-DEVICE /your/export",
                "exportfs -o rw,async,no_subtree_check,no_root_squash YOUR-CLIENT:/your/export",
                "mount -t nfs -o vers=4.1,rsize=65536 YOUR-SERVER:/your/export /your/mountpoint",
            ]
        );
        assert_eq!(
            recipe.fstab.as_deref(),
            Some("YOUR-SERVER:/your/export /your/mountpoint nfs vers=4.1,rsize=65536 0 0")
        );
        let target: Target = "nfs,server=ganesha".parse().unwrap();
        assert_eq!(
            Recipe::from_target(&target, &made).unwrap().commands()[2..],
            [
                "echo 'EXPORT { Export_Id = 1; Path = /your/export; Pseudo = /your/export; Access_Type = RW; \
                 Squash = No_Root_Squash; FSAL { Name = VFS; } }' >> /etc/ganesha/ganesha.conf",
                "systemctl restart nfs-ganesha",
                "mount -t nfs YOUR-SERVER:/your/export /your/mountpoint",
            ]
        );
    }

    #[test]
    fn one_target_alone() {
        let (record, ranked) = run();
        let xfs: Vec<Ranked> = ranked
            .into_iter()
            .filter(|ranked| ranked.name == "xfs")
            .collect();
        let text = text(&record, &xfs);
        assert!(
            text.contains("\nmkfs.xfs /dev/YOUR-DEVICE\n") && !text.contains("ext4"),
            "{text}"
        );
    }

    #[test]
    fn a_record_cannot_smuggle_commands_in() {
        let (mut record, ranked) = run();
        record.targets.get_mut("xfs").expect("a target").notes = vec!["a\nrm -rf /".to_owned()];
        let Some(TargetKind::FileSystem(spec)) = record
            .plan
            .targets
            .get_mut(1)
            .map(|target| &mut target.kind)
        else {
            panic!("xfs is a file system")
        };
        spec.mkfs = vec![
            "-L".to_owned(),
            "$(reboot)".to_owned(),
            "x\nreboot".to_owned(),
        ];
        spec.options = vec!["a;reboot".to_owned(), "b c".to_owned()];
        let text = text(&record, &ranked);
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("rm ") || line.starts_with("reboot")),
            "{text}"
        );
        assert!(
            text.contains("mount -t xfs -o 'a;reboot,b c' /dev"),
            "{text}"
        );
        assert!(text.contains("xfs a;reboot,b\\040c 0 0"), "{text}");
        assert!(
            text.contains("# not printed, because it has control characters: mkfs.xfs"),
            "{text}"
        );
    }
}
