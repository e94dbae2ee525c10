//! `fsb list disks`: the disks of the machine, and the command for each.

#[cfg(feature = "serve")]
use std::path::PathBuf;
#[cfg(feature = "serve")]
use std::sync::OnceLock;

use fsb_model::shell;
use fsb_model::units::show_bytes;
use fsb_report::show::entry;
use fsb_testbed::disks::{self, Disk, DiskState};
use fsb_testbed::{fs, privilege};
use serde::Serialize;

/// The file system of the commands.
const EXAMPLE: &str = "ext4";

/// A command that measures on a disk.
#[derive(Serialize)]
struct DiskCommand {
    command: String,
    /// The measured storage, or the loss of data.
    effect: &'static str,
}

/// A disk in the output as JSON.
#[derive(Serialize)]
pub(super) struct DiskDocument {
    #[serde(flatten)]
    disk: Disk,
    #[serde(flatten)]
    state: DiskState,
    /// Empty if the disk cannot be used.
    commands: Vec<DiskCommand>,
}

/// Returns the path of each disk with one line of facts. Opens no disk.
pub(super) fn members() -> Vec<(String, String)> {
    let disks = disks::list();
    disks
        .iter()
        .map(|disk| (disk.path.display().to_string(), facts(disk)))
        .collect()
}

/// Returns the path of each disk that a run may write over, with its facts, as this process saw
/// them at its first call. Returns `None` for other users than root: they cannot read disks, nor
/// see who uses them.
#[cfg(feature = "serve")]
pub(in crate::cli) fn usable() -> Option<&'static [(PathBuf, String)]> {
    static USABLE: OnceLock<Vec<(PathBuf, String)>> = OnceLock::new();
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    Some(USABLE.get_or_init(|| {
        let mut usable = Vec::new();
        for disk in disks::list() {
            let state = disks::state(&disk);
            if matches!(state, DiskState::Empty | DiskState::Holds { .. }) {
                usable.push((disk.path.clone(), facts(&disk)));
            }
        }
        usable
    }))
}

/// Returns the disks, or the one at that path, with their states.
pub(super) fn documents(path: Option<&str>) -> Vec<DiskDocument> {
    let prefix = privilege::prefix();
    let mut documents = Vec::new();
    for disk in disks::list() {
        if path.is_some_and(|path| disk.path.as_os_str() != path) {
            continue;
        }
        let state = disks::state(&disk);
        let commands = commands(&disk, &state, prefix);
        documents.push(DiskDocument {
            disk,
            state,
            commands,
        });
    }
    documents
}

/// Returns the text of `fsb list disks` in lines of at most `columns` columns; commands are not
/// broken.
pub(super) fn text(documents: &[DiskDocument], columns: usize) -> String {
    if documents.is_empty() {
        return "No block device with a size is visible.\n".to_owned();
    }
    let mut text = String::new();
    for document in documents {
        let indent = match document.disk.partition_of {
            Some(_) => "  ",
            None => "",
        };
        let path = format!("{indent}{}  ", document.disk.path.display());
        text += &(entry(&path, &facts(&document.disk), columns) + "\n");
        let state = sentence(&document.state);
        text += &(entry(&format!("{indent}    "), &state, columns) + "\n");
        let width = document
            .commands
            .iter()
            .map(|command| command.command.len())
            .max()
            .unwrap_or(0);
        for DiskCommand { command, effect } in &document.commands {
            let line = format!("{indent}      {command:width$}  # {effect}");
            // Users copy the line: the comment follows on the next one if it does not fit.
            text += &match line.chars().count() > columns {
                true => format!("{indent}      # {effect}\n{indent}      {command}\n"),
                false => line + "\n",
            };
        }
    }
    text
}

/// Returns the facts of a disk in one line. A partition has only its size: the rest is that of its
/// disk.
pub(in crate::cli) fn facts(disk: &Disk) -> String {
    let mut facts = vec![show_bytes(disk.size_bytes as f64)];
    if disk.partition_of.is_some() {
        facts.push("a partition".to_owned());
        return facts.join(", ");
    }
    facts.extend(disk.model.clone());
    facts.extend(disk.interface.clone());
    facts.extend(disk.backing.as_ref().map(|file| format!("image {file}")));
    facts.extend(
        disk.rotational
            .map(|rotational| match (rotational, disk.rotations_per_minute) {
                (true, Some(rate)) => format!("rotational ({rate}/min)"),
                (true, None) => "rotational".to_owned(),
                (false, _) => "not rotational".to_owned(),
            }),
    );
    let sectors = disk.logical_sector_bytes.zip(disk.physical_sector_bytes);
    facts.extend(
        sectors
            .map(|(logical, physical)| format!("sectors of {logical} B (physical {physical} B)")),
    );
    let cache = disk.write_cache.as_ref();
    facts.extend(cache.map(|cache| format!("write cache: {cache}")));
    facts.join(", ")
}

/// Returns the state of a disk as a sentence.
fn sentence(state: &DiskState) -> String {
    match state {
        DiskState::Mounted {
            file_system,
            point,
            read_only: false,
        } => format!("{file_system}, mounted at {}", point.display()),
        DiskState::Mounted {
            file_system, point, ..
        } => format!(
            "not usable: {file_system}, mounted read-only at {}",
            point.display()
        ),
        DiskState::Used { uses } => format!("not usable: in use: {}", uses.join("; ")),
        DiskState::ReadOnly => "not usable: the kernel refuses writes to it".to_owned(),
        DiskState::Empty => "empty: no data found, not in use".to_owned(),
        DiskState::Holds { signatures } => format!("not in use, holds {}", signatures.join(", ")),
        DiskState::Unknown {
            needs_root: true, ..
        } => "content unknown: only root can read it".to_owned(),
        DiskState::Unknown { reason, .. } => format!("not usable: content unknown: {reason}"),
    }
}

fn commands(disk: &Disk, state: &DiskState, prefix: Option<&str>) -> Vec<DiskCommand> {
    let fsb = |words: &[&str]| {
        let program = prefix.into_iter().chain(["fsb"]);
        program
            .chain(words.iter().copied())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let path = shell::word(&disk.path.to_string_lossy());
    let target = shell::word(&format!("{EXAMPLE}@{}", disk.path.display()));
    let is_too_small = disk.size_bytes < fs::find(EXAMPLE).map_or(0, |fs| fs.minimum_size());
    let command = |command: String, effect: &'static str| DiskCommand { command, effect };
    match state {
        DiskState::Mounted {
            point,
            read_only: false,
            ..
        } => {
            let point = shell::word(&point.to_string_lossy());
            vec![
                command(format!("fsb run {point}"), "in its file system"),
                command(
                    fsb(&["run", EXAMPLE, "--dir", &point]),
                    "on an image in its file system",
                ),
            ]
        }
        DiskState::Empty | DiskState::Holds { .. } if is_too_small => Vec::new(),
        DiskState::Empty => vec![command(fsb(&["run", &target]), "writes over all of it")],
        DiskState::Holds { .. } => vec![command(
            fsb(&["run", &target, "--wipe", &path]),
            "destroys all that is on it",
        )],
        DiskState::Unknown {
            needs_root: true, ..
        } => vec![command(fsb(&["list", "disks"]), "reads what is on it")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        Disk {
            path: "/dev/sdq".into(),
            partition_of: None,
            model: Some("Fast Disk".to_owned()),
            interface: Some("ATA, 6.0 Gbps".to_owned()),
            backing: None,
            size_bytes: 1 << 40,
            rotational: Some(true),
            rotations_per_minute: Some(7200),
            logical_sector_bytes: Some(512),
            physical_sector_bytes: Some(4096),
            write_cache: Some("write back".to_owned()),
        }
    }

    fn shown(state: DiskState, prefix: Option<&str>) -> String {
        let commands = commands(&disk(), &state, prefix);
        let document = DiskDocument {
            disk: disk(),
            state,
            commands,
        };
        text(&[document], 80)
    }

    #[test]
    fn a_disk_is_shown_with_its_facts_its_state_and_its_command() {
        let text = shown(DiskState::Empty, None);
        assert_eq!(
            text,
            "/dev/sdq  1.00 TiB, Fast Disk, ATA, 6.0 Gbps, rotational (7200/min), sectors of\n          \
             512 B (physical 4096 B), write cache: write back\n    \
             empty: no data found, not in use\n      \
             fsb run ext4@/dev/sdq  # writes over all of it\n"
        );
    }

    #[test]
    fn a_disk_that_is_too_small_has_no_command() {
        let extended = Disk {
            size_bytes: 1024,
            ..disk()
        };
        let holds = DiskState::Holds {
            signatures: vec!["dos".to_owned()],
        };
        for state in [holds, DiskState::Empty] {
            assert!(commands(&extended, &state, None).is_empty());
            assert_eq!(commands(&disk(), &state, None).len(), 1);
        }
    }

    #[test]
    fn each_state_has_the_commands_that_work_in_it() {
        let mounted = |read_only| DiskState::Mounted {
            file_system: "xfs".to_owned(),
            point: "/mnt/my disk".into(),
            read_only,
        };
        let holds = DiskState::Holds {
            signatures: vec!["gpt".to_owned()],
        };
        let used = DiskState::Used {
            uses: vec!["sdq is swap space".to_owned()],
        };
        let unread = DiskState::Unknown {
            reason: "open /dev/sdq: Permission denied (EACCES)".to_owned(),
            needs_root: true,
        };
        for (state, prefix, expected) in [
            (mounted(false), None, "fsb run '/mnt/my disk' "),
            (
                mounted(false),
                Some("sudo"),
                "sudo fsb run ext4 --dir '/mnt/my disk'",
            ),
            (holds, None, "fsb run ext4@/dev/sdq --wipe /dev/sdq"),
            (unread, Some("sudo"), "sudo fsb list disks"),
        ] {
            let text = shown(state, prefix);
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("not usable"), "{text}");
        }
        for state in [mounted(true), used, DiskState::ReadOnly] {
            let text = shown(state, None);
            assert!(
                text.contains("not usable") && !text.contains("fsb run"),
                "{text}"
            );
        }
    }
}
