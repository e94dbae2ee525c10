//! Which file systems can be made and mounted here, and what those that cannot would need.

use crate::fs::{self, FileSystem};
use crate::sys::Roots;

/// A file system on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// Its name in targets.
    pub name: &'static str,
    /// What its mkfs program says of itself; absent where it needs none, or has none here.
    pub version: Option<String>,
    /// Programs that are missing, and the Debian package that brings them; they make it in a virtual machine too.
    pub programs: Option<(Vec<String>, &'static str)>,
    /// Whether the kernel has its driver now. One may still be a module that is not loaded.
    pub driver: bool,
    /// Modules that bring the driver in another kernel.
    pub modules: &'static [&'static str],
}

impl Support {
    /// Whether it can be measured on this machine.
    pub fn is_here(&self) -> bool {
        self.programs.is_none() && self.driver
    }
}

/// Every file system that a kernel has a part in.
pub fn file_systems() -> Vec<Support> {
    let roots = Roots::default();
    fs::REGISTRY.iter().filter_map(|member| support(*member, &roots)).collect()
}

pub(super) fn support(member: &dyn FileSystem, roots: &Roots) -> Option<Support> {
    let driver = member.driver()?;
    let missing = member.tools().map(|tools| (fs::missing_programs(tools), tools.package));
    let names = |all: Vec<std::path::PathBuf>| all.iter().map(|name| name.display().to_string()).collect();
    Some(Support {
        name: member.name(),
        version: member.tools().and_then(fs::version),
        programs: missing.filter(|(all, _)| !all.is_empty()).map(|(all, package)| (names(all), package)),
        driver: fs::kernel_has(roots, driver),
        modules: member.modules(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_system_of_a_kernel_is_there_once() {
        let found = file_systems();
        for member in fs::REGISTRY {
            let count = found.iter().filter(|support| support.name == member.name()).count();
            assert_eq!(count, usize::from(member.driver().is_some()), "{}", member.name());
        }
    }

    #[test]
    fn a_missing_driver_is_no_missing_program() {
        let roots = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
        let found = support(fs::find("tmpfs").unwrap(), &roots).unwrap();
        assert!(!found.driver && found.programs.is_none() && !found.is_here());
    }
}
