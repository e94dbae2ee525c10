//! The plans that a browser may start: file systems on loop images, in memory, and on what the
//! command line of the server named. An attacker who controls the web process can send any plan, so
//! the helper checks each one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsb_engine::workload::parameter::ParameterKind;
use fsb_model::setting::{self, SettingKind};
use fsb_model::{Params, Plan, Target};
use fsb_runner::plan_file::PlanFile;
use fsb_testbed::fs;
use serde::{Deserialize, Serialize};

/// Media that fsb creates: images in files, in memory and in a virtual machine.
const OWN_MEDIA: [&str; 3] = ["loop", "ram", "vm"];

/// The media and directories that the command line of the server named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permitted {
    /// Block devices whose content may be overwritten.
    pub(super) wipe: Vec<PathBuf>,
    /// Directories that may be measured.
    pub(super) directories: Vec<PathBuf>,
    /// The directory of images.
    pub(super) images: PathBuf,
}

impl Permitted {
    /// Sets the directory of images of a plan to the one of the server.
    ///
    /// # Errors
    ///
    /// The plan names files or programs of the host. The check precedes the resolution, which would
    /// read them.
    pub(super) fn complete(&self, file: PlanFile) -> Result<PlanFile, String> {
        let names_path = file
            .settings
            .names()
            .filter_map(setting::find)
            .any(|setting| matches!(setting.kind, SettingKind::Path | SettingKind::Paths));
        if names_path {
            return Err("a plan of a browser names no directory of the host".to_owned());
        }
        let mut kernels = file.settings.list("kernel").iter();
        if let Some(kernel) = kernels.find(|kernel| is_path(kernel)) {
            return Err(format!(
                "kernel {kernel}: a plan of a browser names no files of the host"
            ));
        }
        let backgrounds = file
            .workloads
            .iter()
            .filter_map(|workload| workload.background.as_ref());
        let backgrounds = backgrounds
            .chain(&file.background)
            .map(|beside| (&beside.name, &beside.params));
        let workloads = file
            .workloads
            .iter()
            .map(|workload| (&workload.name, &workload.params));
        for (name, params) in workloads.chain(backgrounds) {
            check_params(name, params)?;
        }
        Ok(PlanFile {
            settings: file
                .settings
                .with_text("dir", self.images.to_string_lossy()),
            ..file
        })
    }

    /// Checks the targets of a resolved plan, and returns the devices that it overwrites.
    ///
    /// # Errors
    ///
    /// A target is on something that the command line of the server did not name.
    pub(super) fn check(&self, plan: &Plan) -> Result<Vec<PathBuf>, String> {
        let mut wiped = BTreeSet::new();
        for target in &plan.targets {
            self.check_target(target, &mut wiped)
                .map_err(|why| format!("{}: {why}", target.name))?;
        }
        Ok(wiped.into_iter().collect())
    }

    fn check_target(&self, target: &Target, wiped: &mut BTreeSet<PathBuf>) -> Result<(), String> {
        let Some(spec) = target.file_system() else {
            let directory = target.directory().unwrap_or(Path::new(""));
            let is_named = self.directories.iter().any(|named| named == directory);
            let help = format!("start the server with --directory {}", directory.display());
            return if is_named {
                Ok(())
            } else {
                Err(format!("the directory was not named: {help}"))
            };
        };
        // Arguments of mkfs programs, and some options, name files and devices that fsb does not
        // check.
        if !spec.mkfs.is_empty() || !spec.tune.is_empty() {
            return Err("a plan of a browser has no arguments for mkfs and tune2fs".to_owned());
        }
        // Servers run as root, and their options may name commands.
        let is_served = fs::find(&spec.fs).is_ok_and(|found| found.server_program().is_some());
        if !spec.server.is_empty() || is_served && !spec.options.is_empty() {
            return Err(
                "a plan of a browser has no commands of servers, and no options for them"
                    .to_owned(),
            );
        }
        if let Some(option) = spec.options.iter().find(|option| option.contains('/')) {
            return Err(format!(
                "{option}: an option in a plan of a browser names no file"
            ));
        }
        for medium in spec.media() {
            let argument = medium.argument.as_deref().unwrap_or_default();
            let members: Vec<&str> = match medium.name.as_str() {
                name if OWN_MEDIA.contains(&name) && argument.is_empty() => continue,
                "device" => vec![argument],
                _ if medium.is_composed() => medium
                    .members()
                    .filter(|member| !OWN_MEDIA.contains(member))
                    .collect(),
                other => {
                    return Err(format!(
                        "a plan of a browser does not use the medium {other}"
                    ));
                }
            };
            for member in members.into_iter().map(Path::new) {
                // The server has resolved the paths of --wipe. A link in a plan could lead to
                // another device later.
                let named = self.wipe.iter().find(|named| named.as_path() == member);
                let help = format!("start the server with --wipe {}", member.display());
                wiped.insert(
                    named
                        .ok_or_else(|| format!("the device was not named: {help}"))?
                        .clone(),
                );
            }
        }
        Ok(())
    }
}

fn is_path(text: &str) -> bool {
    text.contains('/') || text.ends_with(".deb")
}

/// Returns whether a plan of a browser may set a parameter of this kind. It sets no commands, files
/// of the host or program texts.
pub(super) fn is_offered(kind: &ParameterKind) -> bool {
    use ParameterKind::{Command, Lines, Path, Paths, Table, Tables};
    !matches!(kind, Command | Lines | Path | Paths | Table(_) | Tables(_))
}

fn check_params(name: &str, params: &Params) -> Result<(), String> {
    let Some(workload) = fsb_engine::workload::REGISTRY
        .iter()
        .find(|workload| workload.name() == name)
    else {
        return Err(format!("unknown workload '{name}'"));
    };
    let refused = workload
        .parameters()
        .into_iter()
        .find(|parameter| params.contains_key(parameter.name) && !is_offered(&parameter.kind));
    match refused {
        Some(parameter) => Err(format!(
            "{name}: a plan of a browser does not set {}",
            parameter.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use fsb_runner::plan_file;

    use super::*;

    fn permitted() -> Permitted {
        Permitted {
            wipe: vec!["/dev/sdx".into()],
            directories: vec!["/srv/data".into()],
            images: "/srv/images".into(),
        }
    }

    fn check(text: &str) -> Result<Vec<PathBuf>, String> {
        let file = permitted()
            .complete(plan_file::parse(text, "p").map_err(|error| error.to_string())?)?;
        let plan = file.resolve(2, 7).map_err(|error| error.to_string())?.plan;
        assert_eq!(plan.dir, Path::new("/srv/images"));
        permitted().check(&plan)
    }

    #[test]
    fn file_systems_on_images_and_what_was_named_are_permitted() {
        assert_eq!(
            check("targets = ['ext4', 'xfs@ram', 'null']\n").unwrap(),
            [] as [PathBuf; 0]
        );
        assert_eq!(
            check("targets = ['ext4,data=journal', 'ext4@raid0:loop+loop']\n").unwrap(),
            [] as [PathBuf; 0]
        );
        assert_eq!(
            check("targets = ['ext4@/dev/sdx', 'xfs@/dev/sdx']\n").unwrap(),
            [PathBuf::from("/dev/sdx")]
        );
        assert_eq!(
            check("targets = ['/srv/data']\n").unwrap(),
            [] as [PathBuf; 0]
        );
        assert!(
            check("targets = ['null']\nbackground = 'write'\n[[workload]]\nname = 'append'\n")
                .is_ok()
        );
    }

    #[test]
    fn devices_directories_programs_and_files_that_were_not_named_are_refused() {
        let workload = |lines: &str| format!("targets = ['null']\n[[workload]]\n{lines}\n");
        let refused = [
            (
                "targets = ['ext4@/dev/sdy']\n".to_owned(),
                "--wipe /dev/sdy",
            ),
            ("targets = ['ext4@/dev/../dev/sdx']\n".to_owned(), "--wipe"),
            (
                "targets = ['ext4@raid0:/dev/sdx+/dev/sdy']\n".to_owned(),
                "--wipe /dev/sdy",
            ),
            (
                "targets = ['ext4,journal=\"/dev/sdy\"']\n".to_owned(),
                "--wipe /dev/sdy",
            ),
            ("targets = ['/etc']\n".to_owned(), "--directory /etc"),
            ("targets = ['/srv/data/../..']\n".to_owned(), "--directory"),
            (
                "targets = ['ext4,mkfs=\"-d /root\"']\n".to_owned(),
                "no arguments for mkfs",
            ),
            (
                "targets = ['fuse:touch {dir} {mnt}']\n".to_owned(),
                "no commands of servers",
            ),
            (
                "targets = ['sshfs,ssh_command=id']\n".to_owned(),
                "no options for them",
            ),
            (
                "targets = ['ext4,tune=\"-J device=/dev/sdy\"']\n".to_owned(),
                "no arguments for mkfs",
            ),
            (
                "targets = ['null']\ndir = '/etc'\n".to_owned(),
                "no directory of the host",
            ),
            (
                "targets = ['null']\nin = 'vm'\nroot = '/root'\n".to_owned(),
                "no directory of the host",
            ),
            (
                "targets = ['null']\nin = 'vm'\nkernel = ['/tmp/bzImage']\n".to_owned(),
                "no files of the host",
            ),
            (
                workload("name = 'command'\ncommand = 'id'"),
                "does not set command",
            ),
            (
                workload("name = 'stat'\nbackground = { name = 'command', command = 'id' }"),
                "does not set command",
            ),
            (
                workload("name = 'stat'\nbackground = { command = 'id' }"),
                "does not set command",
            ),
            (workload("name = 'mystery'"), "unknown workload"),
        ];
        for (text, expected) in refused {
            let why = check(&text).expect_err(&text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn every_parameter_that_names_a_file_or_a_program_is_refused() {
        let mut refused = 0;
        for workload in fsb_engine::workload::REGISTRY {
            for parameter in workload
                .parameters()
                .iter()
                .filter(|parameter| !is_offered(&parameter.kind))
            {
                let params = Params::from_iter([(parameter.name.to_owned(), "x".into())]);
                assert!(
                    check_params(workload.name(), &params).is_err(),
                    "{} {}",
                    workload.name(),
                    parameter.name
                );
                refused += 1;
            }
        }
        assert!(refused > 10, "{refused}");
    }
}
