//! Determines the order in which modules load: dependencies come first.

use std::collections::BTreeSet;

use fsb_model::error::NO_MODULE;

use super::index::Index;
use super::normal;
use crate::error::VmError;

/// One module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadStep {
    pub name: String,
    /// The path below the directory of modules.
    pub path: String,
    /// Whether the guest cannot continue without it. (An optional implementation may not fit the processor.)
    pub required: bool,
}

/// The modules to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The modules, in order.
    pub steps: Vec<LoadStep>,
    /// Optional modules that this kernel has neither as a module nor built in.
    pub missing: Vec<String>,
}

impl Index {
    /// Returns the load order of the `required` modules and of the available `optional` ones.
    pub fn order(&self, required: &[String], optional: &[String]) -> Result<Order, VmError> {
        let mut walk = Walk { index: self, order: Order::default(), seen: BTreeSet::new() };
        for name in required {
            walk.need(&normal(name), true, "")?;
        }
        for name in optional {
            let before = walk.clone();
            if walk.need(&normal(name), false, "").is_err() {
                walk = before;
                walk.order.missing.push(name.clone());
            }
        }
        Ok(walk.order)
    }

    /// Resolves a name to modules: the module of that name, or those that have it as an alias.
    fn called(&self, name: &str) -> Vec<String> {
        let own = normal(name);
        if self.modules.contains_key(&own) {
            return vec![own];
        }
        // Skip drivers of cryptographic hardware, which have the same aliases: a guest has no such hardware.
        let fits = |module: &str| self.modules.get(module).is_some_and(|module| !module.path.contains("/drivers/"));
        let aliased = self.aliases.iter().filter(|(alias, module)| normal(alias) == own && fits(module));
        aliased.map(|(_, module)| module.clone()).collect()
    }
}

#[derive(Clone)]
struct Walk<'a> {
    index: &'a Index,
    order: Order,
    seen: BTreeSet<String>,
}

impl Walk<'_> {
    fn need(&mut self, name: &str, required: bool, by: &str) -> Result<(), VmError> {
        if !self.seen.insert(name.to_owned()) {
            self.promote(name, required);
            return Ok(());
        }
        let Some(module) = self.index.modules.get(name) else {
            if self.index.builtin.contains(name) {
                return Ok(());
            }
            self.seen.remove(name);
            let needs = if by.is_empty() { String::new() } else { format!(", which {by} needs") };
            let error = VmError::machine(format!("this kernel has no module {name}{needs}"));
            return Err(error.coded(&NO_MODULE).field("module", name));
        };
        for name in &module.before {
            self.wish(name);
        }
        for dependency in &module.depends {
            self.need(dependency, required, name)?;
        }
        self.order.steps.push(LoadStep { name: name.to_owned(), path: module.path.clone(), required });
        for name in &module.after {
            self.wish(name);
        }
        Ok(())
    }

    /// Makes an optional module required if a required one depends on it, together with its dependencies.
    fn promote(&mut self, name: &str, required: bool) {
        let Some(step) = self.order.steps.iter_mut().find(|step| step.name == name) else { return };
        if required && !step.required {
            step.required = true;
            for dependency in &self.index.modules[name].depends {
                self.promote(dependency, true);
            }
        }
    }

    /// Adds a soft dependency if it is available, and ignores it otherwise.
    fn wish(&mut self, name: &str) {
        for module in self.index.called(name) {
            let before = self.clone();
            if self.need(&module, false, "").is_err() {
                *self = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index() -> Index {
        let mut index = Index::parse(
            "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko\n\
             kernel/fs/jbd2/jbd2.ko:\nkernel/fs/mbcache.ko:\nkernel/lib/crc16.ko:\n\
             kernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko\nkernel/lib/libcrc32c.ko:\n\
             kernel/crypto/crc32c_generic.ko:\nkernel/arch/x86/crypto/crc32c-intel.ko:\n\
             kernel/drivers/crypto/chip.ko: kernel/drivers/crypto/chip-core.ko\n\
             kernel/fs/broken.ko: kernel/fs/mbcache.ko kernel/fs/absent.ko\n\
             kernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\n",
            "softdep ext4 pre: crc32c\nsoftdep libcrc32c pre: crc32c\nsoftdep jbd2 pre: no-such-thing\n",
            "alias crc32c crc32c_generic\nalias crc32c crc32c_intel\nalias crc32c chip\n",
        );
        index.builtin.insert("virtio_pci".into());
        index
    }

    fn names(order: &Order) -> Vec<String> {
        order.steps.iter().map(|step| format!("{}{}", if step.required { "" } else { "-" }, step.name)).collect()
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn dependencies_of_a_module_come_before_it() {
        let order = index().order(&owned(&["virtio-pci", "ext4", "xfs"]), &[]).unwrap();
        let expected = ["-crc32c_generic", "-crc32c_intel", "crc16", "mbcache", "jbd2", "ext4", "libcrc32c", "xfs"];
        assert_eq!(names(&order), expected);
    }

    #[test]
    fn a_missing_module_is_named_with_who_needs_it() {
        let error = index().order(&owned(&["nilfs2"]), &[]).unwrap_err();
        assert!(error.to_string().contains("no module nilfs2"), "{error}");
        let error = index().order(&owned(&["broken"]), &[]).unwrap_err();
        assert!(error.to_string().contains("absent, which broken needs"), "{error}");
    }

    #[test]
    fn an_optional_module_comes_whole_or_not_at_all() {
        let order = index().order(&[], &owned(&["broken", "nilfs2", "jbd2"])).unwrap();
        assert_eq!(names(&order), ["-jbd2"]);
        assert_eq!(order.missing, ["broken", "nilfs2"]);
    }

    #[test]
    fn a_soft_dependency_may_become_a_hard_one() {
        let order = index().order(&owned(&["ext4", "crc32c_generic"]), &[]).unwrap();
        assert!(names(&order).contains(&"crc32c_generic".to_owned()), "{order:?}");
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(names(&index().order(&owned(&["a"]), &[]).unwrap()), ["b", "a"]);
    }

    proptest! {
        /// With any acyclic dependencies, each module occurs once and after its dependencies.
        #[test]
        fn every_order_is_one(edges in proptest::collection::vec((0u8..12, 0u8..12), 0..40)) {
            let mut dep = String::new();
            for module in 0..12u8 {
                let needs = edges.iter().filter(|(from, to)| *from == module && to < from);
                let needs: String = needs.map(|(_, to)| format!(" m{to}.ko")).collect();
                dep.push_str(&format!("m{module}.ko:{needs}\n"));
            }
            let index = Index::parse(&dep, "", "");
            let all: Vec<_> = (0..12).rev().map(|module| format!("m{module}")).collect();
            let order = index.order(&all, &[]).unwrap();
            prop_assert_eq!(order.steps.len(), 12);
            let place = |name: &str| order.steps.iter().position(|step| step.name == name).unwrap();
            for (name, module) in &index.modules {
                for needed in &module.depends {
                    prop_assert!(place(needed) < place(name));
                }
            }
        }
    }
}
