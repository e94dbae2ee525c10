//! The command to type next, where rights are missing.

use std::path::{Path, PathBuf};

use fsb_model::{code, failure, shell};
use fsb_runner::vm;
use fsb_store::StoreError;
use fsb_testbed::TestbedError;
use fsb_testbed::privilege::{self, NEEDS_ROOT};

/// The directories in which sudo looks for programs by default.
const SUDO_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Returns the error with the commands that would be accepted, each only if this machine can run
/// it.
pub(super) fn advise_on_refused(error: TestbedError) -> anyhow::Error {
    if error.code != fsb_model::error::NEEDS_ROOT.name {
        return error.into();
    }
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let program = std::env::current_exe().ok();
    let commands = next_commands(
        &words,
        program.as_deref(),
        privilege::prefix(),
        vm::is_available(),
    );
    let width = commands
        .iter()
        .map(|(command, _)| command.chars().count())
        .max()
        .unwrap_or(0);
    let lines: String = commands
        .iter()
        .map(|(command, what)| format!("\n  {command:width$}  # {what}"))
        .collect();
    failure::error(
        &fsb_model::error::NEEDS_ROOT,
        format!("{NEEDS_ROOT}. Next:{lines}"),
    )
}

/// Returns the error about a results directory that cannot be written, with another directory if
/// one may work.
pub fn advise_on_unwritable(error: StoreError) -> anyhow::Error {
    match &error {
        StoreError::Io { source, .. }
            if matches!(
                source.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            failure::advised(
                &code::DIRECTORY_NOT_WRITABLE,
                error,
                "name a directory for results: --out $(mktemp -d)",
            )
        }
        _ => error.into(),
    }
}

fn next_commands(
    words: &[String],
    program: Option<&Path>,
    prefix: Option<&str>,
    has_vm: bool,
) -> Vec<(String, &'static str)> {
    let (typed, arguments) = words
        .split_first()
        .map_or(("fsb", &[][..]), |(first, rest)| (first.as_str(), rest));
    let line = |program: &str, more: &[&str]| {
        let words = std::iter::once(program)
            .chain(arguments.iter().map(String::as_str))
            .chain(more.iter().copied());
        shell::line(words)
    };
    let mut commands = Vec::new();
    match prefix {
        Some(prefix) => commands.push((
            format!("{prefix} {}", line(&found_by_sudo(typed, program), &[])),
            "as root",
        )),
        None => commands.push((
            line(typed, &[]),
            "as root: log in as root first, sudo is not installed",
        )),
    }
    if has_vm {
        commands.push((
            line(typed, &["--in", "vm"]),
            "in a virtual machine, without root",
        ));
    }
    commands.push((format!("{typed} run ."), "this directory, without root"));
    commands
}

/// As it was typed, or with its path where sudo would not find it.
fn found_by_sudo(typed: &str, program: Option<&Path>) -> String {
    let by_name = !typed.contains('/');
    let hidden = program.filter(|program| {
        program
            .parent()
            .is_none_or(|directory| !SUDO_PATH.iter().any(|known| directory == Path::new(known)))
    });
    hidden
        .filter(|_| by_name)
        .map_or_else(|| PathBuf::from(typed), Path::to_path_buf)
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(words: &str, program: &str, prefix: Option<&str>, has_vm: bool) -> Vec<String> {
        let words = shlex::split(words).unwrap();
        let commands = next_commands(&words, Some(Path::new(program)), prefix, has_vm);
        commands.into_iter().map(|(command, _)| command).collect()
    }

    #[test]
    fn the_next_command_is_the_one_that_was_typed_and_works() {
        assert_eq!(
            commands(
                "fsb run ext4 'small=ext4,mkfs=\"-i 32704\"'",
                "/usr/bin/fsb",
                Some("sudo"),
                true
            ),
            [
                "sudo fsb run ext4 'small=ext4,mkfs=\"-i 32704\"'",
                "fsb run ext4 'small=ext4,mkfs=\"-i 32704\"' --in vm",
                "fsb run .",
            ]
        );
    }

    #[test]
    fn sudo_is_told_where_the_program_is_that_it_would_not_find() {
        assert_eq!(
            commands("fsb run xfs", "/home/u/.cargo/bin/fsb", Some("sudo"), false)[0],
            "sudo /home/u/.cargo/bin/fsb run xfs"
        );
        assert_eq!(
            commands("target/fsb run xfs", "/src/target/fsb", Some("sudo"), false)[0],
            "sudo target/fsb run xfs"
        );
    }

    #[test]
    fn absent_programs_are_not_advised() {
        let commands = commands("fsb run xfs", "/usr/bin/fsb", None, false);
        assert_eq!(commands, ["fsb run xfs", "fsb run ."]);
    }
}
