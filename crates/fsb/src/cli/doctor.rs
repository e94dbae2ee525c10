//! `fsb doctor`: prints what this machine can measure, and what would interfere.

mod directory;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fsb_engine::backend;
use fsb_model::notice;
use fsb_report::show::{entry, wrapped};
use fsb_testbed::TestbedError;
use fsb_testbed::doctor::{self, Finding, State, Support};
use fsb_testbed::probe::{self, DirectoryProbe};
use serde::Serialize;

use crate::message::notify;
use crate::results::{DocumentFormat, json_text, print, print_data};
use crate::{exit, terminal};

#[cfg(feature = "vm")]
use fsb_vm::{kernel, machine};

/// Long enough to observe periodic activity: journals commit every five seconds.
const LISTEN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  fsb doctor                    check as an unprivileged user
  sudo fsb doctor               check with the privileges that formatting needs
  fsb doctor --dir /data        check also what the file system of /data does
  fsb doctor --quick            skip the ten seconds of watching
  fsb doctor --dir /mnt/x --quick --format json";

/// Check what this machine can measure and what would interfere
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of images or of a measurement: check also what its file system does, with small
    /// files that are removed again
    ///
    /// Without this option the directory of images is the current one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not watch the machine's other activity for ten seconds
    #[arg(long)]
    quick: bool,
    /// Format of the output: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true)]
    format: DocumentFormat,
}

/// The output as JSON.
#[derive(Serialize)]
struct Document {
    /// The directory that `--dir` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<DirectoryProbe>,
    /// The checks of the machine. Empty if calls in the directory do not return.
    findings: Vec<Finding>,
    /// The file systems that this machine can make.
    file_systems: Vec<Support>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let columns = terminal::columns(std::io::stdout());
    let is_text = arguments.format == DocumentFormat::Text;
    let directory = arguments.dir.as_deref().map(probe::probe_directory);
    if let Some(found) = directory.as_ref().filter(|_| is_text) {
        print(&format!("{}\n", directory::table(found, columns)))?;
    }
    let hangs = directory.as_ref().and_then(DirectoryProbe::hangs);
    let findings = match hangs {
        Some(_) => Vec::new(),
        None => findings(
            arguments.dir.as_deref().unwrap_or(Path::new(".")),
            arguments.quick,
        ),
    };
    if is_text && hangs.is_none() {
        let root = rustix::process::geteuid().is_root();
        let all = doctor::file_systems();
        let file_systems = file_systems_table(&all, &Vm::look(), root, columns);
        let findings = findings_table(&findings, columns);
        print(&format!("{findings}\n{file_systems}"))?;
    }
    let hangs = hangs.cloned();
    if !is_text {
        let file_systems = doctor::file_systems();
        print_data(&json_text(&Document {
            directory,
            findings,
            file_systems,
        })?)?;
    }
    match hangs {
        None => Ok(exit::DONE),
        Some(failure) => Err(TestbedError::machine(
            "the other checks were left out, because they would wait for the directory, too",
        )
        .tried(failure.text)
        .advice(failure.advice)
        .into()),
    }
}

/// Checks the machine, with images in `dir`.
fn findings(dir: &Path, quick: bool) -> Vec<Finding> {
    let mut findings = doctor::examine(dir);
    findings.push(io_uring());
    if !quick {
        let text = "watching other load on this machine for ten seconds (--quick skips this)";
        notify(&notice::WATCHING, [("seconds", 10.into())], text);
        findings.extend(doctor::listen(dir, LISTEN));
    }
    findings
}

/// Reports whether this process may use io_uring, which sysctls and filters of containers deny.
fn io_uring() -> Finding {
    let available = backend::find("uring").and_then(backend::check_available);
    let (state, text) = match available {
        Ok(()) => (State::Ok, "can be used".to_owned()),
        Err(error) => (State::Absent, error.to_string()),
    };
    Finding {
        topic: "io_uring".to_owned(),
        state,
        text,
        advice: String::new(),
    }
}

fn findings_table(findings: &[Finding], columns: usize) -> String {
    let width = findings
        .iter()
        .map(|finding| finding.topic.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Missing => "missing",
            State::Absent => "absent ",
        };
        text += &entry(
            &format!("{state}  {:width$}  ", finding.topic),
            &finding.text,
            columns,
        );
        text.push('\n');
        if !finding.advice.is_empty() {
            text += &entry(
                &format!("         {:width$}  → ", ""),
                &finding.advice,
                columns,
            );
            text.push('\n');
        }
    }
    text
}

// The doctor's table: every file system, here and in a virtual machine, and the missing
// requirements of either.

/// File systems that a virtual machine on this machine could mount.
enum Vm {
    /// The kernel that it would boot, and the modules that this kernel lacks.
    Boots {
        release: String,
        lacks: BTreeSet<String>,
    },
    /// The reason why no virtual machine can be started.
    Cannot(TestbedError),
}

impl Vm {
    /// Looks for QEMU and a kernel; boots nothing.
    fn look() -> Vm {
        Vm::find().unwrap_or_else(Vm::Cannot)
    }

    #[cfg(not(feature = "vm"))]
    fn find() -> Result<Vm, TestbedError> {
        Err(fsb_runner::vm::not_built())
    }

    #[cfg(feature = "vm")]
    fn find() -> Result<Vm, TestbedError> {
        machine::find_qemu(machine::Architecture::HERE)?;
        let kernel = kernel::resolve(None)?;
        kernel.usable()?;
        let all = fsb_testbed::doctor::file_systems();
        let modules: Vec<&str> = all
            .iter()
            .flat_map(|support| support.modules)
            .copied()
            .collect();
        let lacks = kernel
            .lacking(&modules)?
            .into_iter()
            .map(str::to_owned)
            .collect();
        Ok(Vm::Boots {
            release: kernel.release,
            lacks,
        })
    }
}

/// Prints one line per file system, then the needs of virtual machines. Only `root` can make file
/// systems on this kernel.
fn file_systems_table(all: &[Support], vm: &Vm, root: bool, columns: usize) -> String {
    let heads = [
        "file system".to_owned(),
        "here".to_owned(),
        title(vm),
        "needs".to_owned(),
    ];
    let mut rows = vec![heads];
    rows.extend(all.iter().map(|support| row(support, vm, root)));
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..3).map(width).collect();
    let mut text = String::new();
    for [name, here, guest, missing] in &rows {
        let before = format!(
            "{name:0$}  {here:1$}  {guest:2$}  ",
            widths[0], widths[1], widths[2]
        );
        text += entry(&before, missing, columns).trim_end();
        text.push('\n');
    }
    if let Vm::Cannot(error) = vm {
        text += &wrapped(&format!("in VM: {error}"), columns);
        text.push('\n');
    }
    text
}

fn title(vm: &Vm) -> String {
    match vm {
        Vm::Boots { release, .. } => format!("in VM ({release})"),
        Vm::Cannot(_) => "in VM".to_owned(),
    }
}

fn row(support: &Support, vm: &Vm, root: bool) -> [String; 4] {
    let here = match (&support.programs, support.driver) {
        (Some(_), _) => "no tools".to_owned(),
        (None, false) => "no driver".to_owned(),
        (None, true) if root => "yes".to_owned(),
        (None, true) => "needs root".to_owned(),
    };
    let lacking: Vec<&str> = match vm {
        Vm::Boots { lacks, .. } => support
            .modules
            .iter()
            .copied()
            .filter(|name| lacks.contains(*name))
            .collect(),
        Vm::Cannot(_) => Vec::new(),
    };
    let guest = match (&support.programs, vm) {
        (_, Vm::Cannot(_)) => "no",
        (Some(_), _) => "no tools",
        (None, Vm::Boots { .. }) if lacking.is_empty() => "yes",
        (None, Vm::Boots { .. }) => "no driver",
    };
    [
        support.name.to_owned(),
        here,
        guest.to_owned(),
        missing(support, &lacking, guest == "yes", root),
    ]
}

/// Returns the missing requirements of a file system, or the version of its tools.
fn missing(support: &Support, lacking: &[&str], in_vm: bool, root: bool) -> String {
    if let Some((programs, package)) = &support.programs {
        return format!("{} (apt-get install {package})", programs.join(", "));
    }
    match (support.driver, in_vm) {
        (true, _) => {
            let version = support
                .version
                .as_deref()
                .map(|version| format!(": {version}"))
                .unwrap_or_default();
            let what = match (root, in_vm) {
                (true, _) => "nothing",
                (false, true) => "root (sudo), or fsb run --in vm",
                (false, false) => "root (sudo)",
            };
            format!("{what}{version}")
        }
        (false, true) => "a driver here: fsb run --in vm".to_owned(),
        (false, false) if support.module_advice.is_some() => {
            support.module_advice.unwrap_or_default().to_owned()
        }
        (false, false) if lacking.is_empty() => {
            "a driver (modprobe), or a VM: see below".to_owned()
        }
        (false, false) => format!("a kernel with {} (fsb kernel fetch)", lacking.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(name: &'static str, driver: bool, programs: Option<&'static str>) -> Support {
        Support {
            name,
            version: Some(format!("mkfs.{name} 1.0")),
            programs: programs.map(|package| (vec![format!("mkfs.{name}")], package)),
            driver,
            modules: match name {
                "ntfs3" => &["ntfs3"],
                "zfs" => &["zfs"],
                _ => &["any"],
            },
            module_advice: (name == "zfs").then_some("its module: apt-get install zfs-dkms"),
        }
    }

    fn all() -> Vec<Support> {
        vec![
            support("ext4", true, None),
            support("reiserfs", false, None),
            support("ntfs3", false, None),
            support("exfat", false, Some("exfatprogs")),
            support("zfs", false, None),
        ]
    }

    #[test]
    fn each_has_a_place_or_what_it_lacks() {
        let vm = Vm::Boots {
            release: "6.1.0-56-amd64".to_owned(),
            lacks: ["ntfs3", "zfs"].map(str::to_owned).into(),
        };
        let expected = "\
file system  here       in VM (6.1.0-56-amd64)  needs
ext4         yes        yes                     nothing: mkfs.ext4 1.0
reiserfs     no driver  yes                     a driver here: fsb run --in vm
ntfs3        no driver  no driver               a kernel with ntfs3 (fsb kernel fetch)
exfat        no tools   no tools                mkfs.exfat (apt-get install exfatprogs)
zfs          no driver  no driver               its module: apt-get install zfs-dkms
";
        assert_eq!(file_systems_table(&all(), &vm, true, 100), expected);
        let ordinary = file_systems_table(&all(), &vm, false, 100);
        assert!(
            ordinary.contains("ext4         needs root  yes  "),
            "{ordinary}"
        );
        assert!(
            ordinary.contains("root (sudo), or fsb run --in vm: mkfs.ext4 1.0"),
            "{ordinary}"
        );
    }

    #[test]
    fn without_virtual_machines_their_next_step_is_said() {
        let error = TestbedError::machine("a micro-VM needs QEMU")
            .advice("apt-get install qemu-system-x86");
        let text = file_systems_table(&all(), &Vm::Cannot(error), true, 100);
        assert!(
            text.contains(
                "\nreiserfs     no driver  no     a driver (modprobe), or a VM: see below\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\next4         yes        no     nothing: mkfs.ext4 1.0\n"),
            "{text}"
        );
        assert!(
            text.ends_with("in VM: a micro-VM needs QEMU; apt-get install qemu-system-x86\n"),
            "{text}"
        );
    }
}
