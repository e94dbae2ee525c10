//! Which modules a kernel has and what they say of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fsb_input::LARGEST_RECORD;

use super::build_tree;
use super::modinfo::{self, Info};
use super::{name_of, normal};
use crate::error::{VmError, refused};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// Below the directory of modules.
    pub path: String,
    /// Modules that must be loaded before it.
    pub depends: Vec<String>,
    /// Modules or aliases that should be loaded before it, where there are any,
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// All modules of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// By name.
    pub modules: BTreeMap<String, Module>,
    /// Names of what the kernel has built in.
    pub builtin: BTreeSet<String>,
    /// What else modules answer to: alias, module.
    pub aliases: Vec<(String, String)>,
}

impl Index {
    /// Reads the index of a directory of modules, or makes one from the modules themselves.
    pub fn of(directory: &Path) -> Result<Index, VmError> {
        let optional = |name: &str| crate::input::read_text(&directory.join(name), LARGEST_RECORD).unwrap_or_default();
        let mut index = match crate::input::read_text(&directory.join("modules.dep"), LARGEST_RECORD) {
            Ok(text) => Index::parse(&text, &optional("modules.softdep"), &optional("modules.alias")),
            Err(_) => Index::scan(directory)?,
        };
        let builtin = optional("modules.builtin");
        index.builtin = builtin.lines().filter_map(|line| name_of(line.trim())).collect();
        Ok(index)
    }

    /// Reads what depmod writes.
    pub fn parse(dep: &str, softdep: &str, alias: &str) -> Index {
        let mut index = Index::default();
        for line in dep.lines() {
            let Some((path, depends)) = line.split_once(':') else { continue };
            let Some(name) = name_of(path.trim()) else { continue };
            let depends = depends.split_whitespace().filter_map(name_of).collect();
            index.modules.insert(name, Module { path: path.trim().to_owned(), depends, ..Module::default() });
        }
        for line in softdep.lines() {
            let Some((name, rest)) = line.strip_prefix("softdep ").and_then(|rest| rest.split_once(' ')) else {
                continue;
            };
            let Some(module) = index.modules.get_mut(&normal(name)) else { continue };
            let (before, after) = modinfo::soft(rest);
            module.before.extend(before);
            module.after.extend(after);
        }
        for line in alias.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(alias), Some(name)) = (words.next(), words.next(), words.next())
                && modinfo::plain(alias)
            {
                index.aliases.push((alias.to_owned(), normal(name)));
            }
        }
        index
    }

    /// Asks the modules themselves.
    fn scan(directory: &Path) -> Result<Index, VmError> {
        let mut index = Index::default();
        let files = if build_tree::is_one(directory) { build_tree::modules(directory)? } else { below(directory)? };
        for file in files {
            let path = file.strip_prefix(directory).unwrap_or(&file).to_string_lossy().into_owned();
            // What is no module (a signature, a stray file) is nobody's dependency.
            if let Some(name) = name_of(&path)
                && let Some(info) = modinfo::of(&file)?
            {
                index.add(name, path, info);
            }
        }
        Ok(index)
    }

    fn add(&mut self, name: String, path: String, info: Info) {
        self.aliases.extend(info.aliases.into_iter().map(|alias| (alias, name.clone())));
        let module = Module { path, depends: info.depends, before: info.before, after: info.after };
        self.modules.insert(name, module);
    }

    /// Writes the index in depmod's own form, so that the next one need not look into the modules.
    pub fn save(&self, directory: &Path) -> Result<(), VmError> {
        let (mut dep, mut soft, mut alias) = (String::new(), String::new(), String::new());
        for (name, module) in &self.modules {
            let depends = module.depends.iter().filter_map(|name| self.modules.get(name)).map(|module| &module.path);
            let _ = writeln!(dep, "{}:{}", module.path, depends.map(|path| format!(" {path}")).collect::<String>());
            if !module.before.is_empty() || !module.after.is_empty() {
                let part = |key: &str, names: &[String]| {
                    if names.is_empty() { String::new() } else { format!(" {key} {}", names.join(" ")) }
                };
                let _ =
                    writeln!(soft, "softdep {name}{}{}", part("pre:", &module.before), part("post:", &module.after));
            }
        }
        for (name, module) in &self.aliases {
            let _ = writeln!(alias, "alias {name} {module}");
        }
        for (name, text) in [("modules.softdep", soft), ("modules.alias", alias), ("modules.dep", dep)] {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|error| refused("write", &path, error))?;
        }
        Ok(())
    }
}

/// All files below a directory of modules that may be some.
fn below(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let mut directories = ["kernel", "extra", "updates"].map(|name| directory.join(name)).to_vec();
    let mut files = Vec::new();
    while let Some(next) = directories.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let entry = entry.map_err(|error| refused("read", &next, error))?;
            let kind = entry.file_type().map_err(|error| refused("read", &next, error))?;
            if kind.is_dir() { directories.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEP: &str = "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko\n\
                       kernel/fs/jbd2/jbd2.ko.xz:\nkernel/lib/crc16.ko:\nkernel/crypto/crc32c_generic.ko:\n";
    const SOFT: &str = "# Soft dependencies\nsoftdep ext4 pre: crc32c\n";
    const ALIAS: &str =
        "# Aliases\nalias fs-ext4 ext4\nalias crc32c crc32c_generic\nalias pci:v00001AF4d* virtio_pci\n";

    #[test]
    fn what_depmod_writes_is_read_and_written() {
        let index = Index::parse(DEP, SOFT, ALIAS);
        assert_eq!(index.modules["ext4"].depends, ["jbd2", "crc16"]);
        assert_eq!(index.modules["ext4"].before, ["crc32c"]);
        assert_eq!(index.aliases.len(), 2);
        let directory = tempfile::tempdir().unwrap();
        index.save(directory.path()).unwrap();
        fs::write(directory.path().join("modules.builtin"), "kernel/drivers/virtio/virtio-pci.ko\n").unwrap();
        let again = Index::of(directory.path()).unwrap();
        assert_eq!(again.modules, index.modules);
        assert_eq!(again.aliases, index.aliases);
        assert!(again.builtin.contains("virtio_pci"));
    }

    #[test]
    fn a_directory_without_modules_has_none() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("kernel/fs")).unwrap();
        fs::write(directory.path().join("kernel/fs/garbage.ko"), "no module").unwrap();
        assert_eq!(Index::of(directory.path()).unwrap(), Index::default());
        fs::write(directory.path().join("kernel/fs/broken.ko.xz"), "no xz").unwrap();
        assert!(Index::of(directory.path()).unwrap_err().to_string().contains("broken.ko.xz"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_index(dep: String, soft: String, alias: String) {
            Index::parse(&dep, &soft, &alias);
        }
    }
}
