//! The place where a plan runs: `in = "vm"`, its kernels, memory and processors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsb_model::nearest;
use fsb_model::place::VmSize;
use fsb_model::{Bytes, Place, Target};
use fsb_testbed::control::processors_left;
#[cfg(feature = "vm")]
use fsb_vm::{Kernel, Kind, Origin, VmError};

use super::PlanFile;
use super::error::{PLAN_RANGE, PlanError};
use crate::work::ParsedCell;

/// The default memory of a virtual machine: room for the page cache of the default suite.
const DEFAULT_MEMORY: Bytes = Bytes(1 << 30);
/// More virtual processors than any kernel of a distribution brings up.
const MOST_CPUS: u32 = 512;

impl PlanFile {
    /// Returns the place where the plan runs, and the size of the virtual machine. `cpus` are those of this machine.
    pub(super) fn resolved_place(&self, cpus: u32) -> Result<(Place, Option<VmSize>), PlanError> {
        let place = match &self.place {
            None => Place::Host,
            Some(text) => Place::ALL.into_iter().find(|place| place.name() == text.get_ref()).ok_or_else(|| {
                let names = Place::ALL.iter().map(|place| place.name());
                self.error_at(text.span(), &nearest::unknown("place", text.get_ref(), names))
            })?,
        };
        if place == Place::Vm {
            let vm = VmSize { memory: self.memory.unwrap_or(DEFAULT_MEMORY), cpus: self.cpus.unwrap_or(cpus) };
            if !(1..=MOST_CPUS).contains(&vm.cpus) {
                let message = format!("{} processors of a virtual machine: give between 1 and {MOST_CPUS}", vm.cpus);
                return Err(PlanError::known(&PLAN_RANGE, message));
            }
            return Ok((place, Some(vm)));
        }
        if let Some(kernel) = self.kernels.first() {
            let message =
                format!("kernel {}: only a virtual machine can boot it; add --in vm (in = \"vm\")", kernel.get_ref());
            return Err(self.error_at(kernel.span(), &message));
        }
        if self.memory.is_some() || self.cpus.is_some() {
            let message = "memory and cpus set the size of a virtual machine: add --in vm (in = \"vm\"), or use \
                           --control memory-limit=SIZE and cpus=LIST on this machine";
            return Err(PlanError::Request(message.to_owned()));
        }
        Ok((place, None))
    }

    /// Returns the directory that commands see as their root in a virtual machine, or `None` if no command runs in one.
    pub(super) fn resolved_root(&self, place: Place, cells: &[ParsedCell]) -> Result<Option<PathBuf>, PlanError> {
        let mut programs = cells.iter().filter_map(|parsed| parsed.profile.program.as_ref());
        let refuse = |message: String| Err(PlanError::Request(message));
        match (place, &self.root) {
            (Place::Host, None) => Ok(None),
            (Place::Host, Some(root)) => refuse(format!(
                "root {}: commands on this machine see its files as they are; add --in vm (in = \"vm\")",
                root.display()
            )),
            (Place::Vm, root) => {
                if let Some(writable) = programs.clone().find_map(|program| program.writable.first()) {
                    return refuse(format!(
                        "writable {}: a virtual machine sees this machine's files read-only; \
                         a command may write into the target and TMPDIR",
                        writable.display()
                    ));
                }
                let root = root.clone().unwrap_or_else(|| PathBuf::from("/"));
                if programs.next().is_none() {
                    return match &self.root {
                        Some(root) => refuse(format!("root {}: no workload is a command", root.display())),
                        None => Ok(None),
                    };
                }
                match std::fs::canonicalize(&root) {
                    Ok(path) if path.is_dir() => Ok(Some(path)),
                    Ok(_) => refuse(format!("root {}: it is not a directory", root.display())),
                    Err(error) => refuse(format!("root {}: {error}", root.display())),
                }
            }
        }
    }

    /// Returns the releases of the plan's kernels if there are several, because targets are named after them.
    #[cfg(feature = "vm")]
    pub(super) fn releases(&self) -> Result<Vec<String>, PlanError> {
        if self.kernels.len() < 2 {
            return Ok(Vec::new());
        }
        let mut releases: Vec<String> = Vec::new();
        for text in &self.kernels {
            let kernel = fsb_vm::kernel::resolve(Some(text.get_ref()));
            let Kernel { release, origin, .. } = kernel.map_err(|error| refused(&error))?;
            if releases.contains(&release) {
                let advice = match origin {
                    Origin::Named => ": build one with another (CONFIG_LOCALVERSION, or make LOCALVERSION=-NAME)",
                    _ => "",
                };
                let message = format!("kernel {}: its release {release} is named twice{advice}", text.get_ref());
                return Err(self.error_at(text.span(), &message));
            }
            releases.push(release);
        }
        Ok(releases)
    }

    /// Returns no releases: [`crate::vm`] refuses the plan, and its kernels with it.
    #[cfg(not(feature = "vm"))]
    pub(super) fn releases(&self) -> Result<Vec<String>, PlanError> {
        Ok(Vec::new())
    }
}

/// Returns the error of a kernel that is named wrongly, or that this machine does not have.
#[cfg(feature = "vm")]
fn refused(error: &VmError) -> PlanError {
    match error.kind {
        Kind::Request => PlanError::known(fsb_model::Coded::code(error), error.to_string()),
        Kind::Machine | Kind::Trial => PlanError::Machine(error.to_string()),
    }
}

/// Returns the processors that workers may use in a virtual machine, or `None` on this machine.
pub(super) fn processors(vm: Option<VmSize>, controls: &BTreeMap<String, String>) -> Option<u32> {
    let vm = vm?;
    Some(processors_left(controls).unwrap_or(vm.cpus))
}

/// Returns the target once for each kernel, or only on the kernel that it names. Without `releases` the plan has one
/// kernel, and the target stays as it is.
pub(super) fn on_each_kernel(target: Target, place: Place, releases: &[String]) -> Result<Vec<Target>, String> {
    if place == Place::Vm && target.directory().is_some() {
        let name = &target.name;
        return Err(format!(
            "{name} is a directory of this machine, and a virtual machine does not see it: name a file system such as \
             ext4, or leave out --in vm"
        ));
    }
    match &target.kernel {
        Some(release) if releases.contains(release) => Ok(vec![target]),
        Some(release) => {
            let known = releases.iter().map(String::as_str);
            Err(match releases {
                [] => format!("kernel {release}: name several kernels for the plan (kernel = [\"…\", \"…\"]) first"),
                _ => nearest::unknown("kernel of this plan", release, known),
            })
        }
        None if releases.is_empty() => Ok(vec![target]),
        None => {
            let on = |release: &String| Target {
                name: format!("{}%{release}", target.name),
                kernel: Some(release.clone()),
                ..target.clone()
            };
            Ok(releases.iter().map(on).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    fn resolve(text: &str) -> Result<fsb_model::Plan, PlanError> {
        plan_file::parse(text, "plan.toml")?.resolve(2, 7).map(|resolved| resolved.plan)
    }

    #[test]
    fn a_virtual_machine_has_memory_and_processors_of_its_own() {
        let plan = resolve("in = 'vm'\ntargets = ['ext4']\nmemory = '512M'\ncpus = 3\nkernel = ['6.1']").unwrap();
        assert_eq!(plan.vm, Some(VmSize { memory: Bytes(512 << 20), cpus: 3 }));
        assert_eq!((plan.kernels.as_slice(), &plan.targets[0].kernel), (["6.1".to_owned()].as_slice(), &None));
        let printed = plan_file::print(&plan).unwrap();
        assert_eq!(resolve(&printed).unwrap(), plan, "{printed}");
        assert_eq!(
            resolve("in = 'vm'\ntargets = ['ext4']").unwrap().vm,
            Some(VmSize { memory: DEFAULT_MEMORY, cpus: 2 })
        );
    }

    #[test]
    fn this_machine_runs_no_other_kernel() {
        for (line, word) in [
            ("kernel = ['6.1']", "line 2"),
            ("memory = '1G'", "memory-limit"),
            ("cpus = 2", "--in vm"),
            ("in = 'wm'", "did you mean 'vm'"),
            ("in = 'vm'\ncpus = 0", "between 1"),
        ] {
            let error = resolve(&format!("targets = ['ext4']\n{line}")).unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
        let error = resolve("in = 'vm'\ntargets = ['/srv']").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("does not see it"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused() {
        let error = resolve("in = 'vm'\ntargets = ['ext4']\nkernel = ['/etc/passwd', '/etc/passwd']").unwrap_err();
        assert!(
            matches!(&error, PlanError::Known { message, .. } if message.contains("/etc/passwd is not a kernel")),
            "{error}"
        );
    }

    #[test]
    fn kernels_that_were_built_under_one_release_need_another() {
        let scratch = tempfile::tempdir().unwrap();
        let mut image = vec![0; 0x100];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        let tree = |name: &str| {
            let tree = scratch.path().join(name);
            let files = [
                ("include/config/kernel.release", &b"6.19.0-rc1+"[..]),
                ("arch/arm64/boot/Image", &image),
                ("modules.builtin", b""),
            ];
            for (name, bytes) in files {
                std::fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
                std::fs::write(tree.join(name), bytes).unwrap();
            }
            tree.display().to_string()
        };
        let text = format!("in = 'vm'\ntargets = ['ext4']\nkernel = ['{}', '{}']", tree("good"), tree("bad"));
        let error = resolve(&text).unwrap_err().to_string();
        assert!(error.contains("6.19.0-rc1+ is named twice") && error.contains("LOCALVERSION=-NAME"), "{error}");
    }

    #[test]
    fn kernels_are_a_dimension_of_targets() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let releases = ["6.1.0-1".to_owned(), "6.12.0-1".to_owned()];
        let made = on_each_kernel(target("ext4,noatime"), Place::Vm, &releases).unwrap();
        let names: Vec<_> = made.iter().map(|target| (target.name.as_str(), target.kernel.as_deref())).collect();
        assert_eq!(names, [("ext4,noatime%6.1.0-1", Some("6.1.0-1")), ("ext4,noatime%6.12.0-1", Some("6.12.0-1"))]);
        // As a plan prints it, each names its own.
        let printed = crate::target_file::TargetFile::of(&made[1]);
        let again = printed.resolve().unwrap();
        assert_eq!(on_each_kernel(again, Place::Vm, &releases).unwrap(), [made[1].clone()]);
        let other = Target { kernel: Some("6.2".to_owned()), ..target("ext4") };
        assert!(on_each_kernel(other.clone(), Place::Vm, &releases).unwrap_err().contains("kernel of this plan"));
        assert!(on_each_kernel(other, Place::Vm, &[]).unwrap_err().contains("several kernels"));
    }
}
