//! The requirements on a guest for making the plan's targets.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fsb_sys::error::TestbedError;
use fsb_sys::program;

use crate::fs;
use crate::medium;
use crate::testbed::Setup;

/// Files that programs read if they exist: the features that mkfs gives to ext2, ext3 and ext4.
const FILES: [&str; 1] = ["/etc/mke2fs.conf"];

/// The requirements on a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Programs of this machine.
    pub programs: Vec<PathBuf>,
    /// Kernel modules by name, or what must be built in.
    pub modules: Vec<String>,
    /// Modules that the guest loads if its kernel has them.
    pub optional_modules: Vec<String>,
    /// Files, at the same paths as on this machine.
    pub files: Vec<PathBuf>,
}

/// Returns the requirements of the targets of `setup` on a guest. If this machine lacks a program, the error names its
/// package.
pub fn needs(setup: &Setup) -> Result<Needs, TestbedError> {
    let mut programs = BTreeSet::new();
    let (mut modules, mut optional) = (BTreeSet::new(), BTreeSet::new());
    for spec in setup.targets.iter().filter_map(|target| target.file_system()) {
        let member = fs::find(&spec.fs)?;
        if let Some(tools) = member.tools() {
            for name in std::iter::once(&tools.mkfs).chain(tools.others) {
                programs.insert(program::require(name, tools.package)?);
            }
        }
        modules.extend(member.modules().iter().map(|name| (*name).to_owned()));
        optional.extend(member.helper_modules().iter().map(|name| (*name).to_owned()));
        // Images in files become disks of the guest.
        let members = spec.medium.argument.as_deref().filter(|_| spec.medium.name == "raid0");
        let media =
            std::iter::once(spec.medium.name.as_str()).chain(members.into_iter().flat_map(|all| all.split('+')));
        for name in media.filter(|name| *name != "loop" && !name.starts_with('/')) {
            modules.extend(medium::find(name)?.modules().iter().map(|name| (*name).to_owned()));
        }
    }
    Ok(Needs {
        programs: programs.into_iter().collect(),
        modules: modules.into_iter().collect(),
        optional_modules: optional.into_iter().collect(),
        files: FILES.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::check::tests::setup;

    #[test]
    fn programs_and_drivers_of_the_targets_are_named() {
        let needs = needs(&setup(&["ext4", "ext4,noatime", "ext4@raid0:loop+loop", "tmpfs"])).unwrap();
        let names: Vec<_> = needs.programs.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert!(names.contains(&"mkfs.ext4") && names.contains(&"dumpe2fs"), "{names:?}");
        assert!(["ext4", "raid0"].iter().all(|name| needs.modules.contains(&(*name).to_owned())));
        assert!(!needs.modules.contains(&"loop".to_owned()), "loop images become disks: {:?}", needs.modules);
    }
}
