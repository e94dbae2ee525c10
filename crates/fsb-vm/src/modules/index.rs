//! The index of a kernel's modules and their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fsb_input::LARGEST_RECORD;
use object::{Object, ObjectSection, ReadCache, ReadRef};

use super::{build_tree, name_of, normal};
use crate::error::{VmError, refused};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// The path below the directory of modules.
    pub path: String,
    /// Modules that must be loaded before it.
    pub depends: Vec<String>,
    /// Modules or aliases that should be loaded before it, if the kernel has them.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// All modules of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// The modules by name.
    pub modules: BTreeMap<String, Module>,
    /// Names of modules that are built into the kernel.
    pub builtin: BTreeSet<String>,
    /// Additional names of modules: alias, module.
    pub aliases: Vec<(String, String)>,
}

impl Index {
    /// Reads the index of a directory of modules, or builds one from the modules themselves.
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

    /// Parses the files that depmod writes.
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
            let (before, after) = soft(rest);
            module.before.extend(before);
            module.after.extend(after);
        }
        for line in alias.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(alias), Some(name)) = (words.next(), words.next(), words.next())
                && plain(alias)
            {
                index.aliases.push((alias.to_owned(), normal(name)));
            }
        }
        index
    }

    /// Builds the index from the modules themselves.
    fn scan(directory: &Path) -> Result<Index, VmError> {
        let mut index = Index::default();
        let files = if build_tree::is_one(directory) { build_tree::modules(directory)? } else { below(directory)? };
        for file in files {
            let path = file.strip_prefix(directory).unwrap_or(&file).to_string_lossy().into_owned();
            // Other files (a signature, a stray file) cannot be dependencies.
            if let Some(name) = name_of(&path)
                && let Some(info) = of(&file)?
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

    /// Writes the index in depmod's format, so that the next reader need not open the modules.
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

/// Returns all files below a directory of modules that may be modules.
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

/// The fields of a module's `.modinfo` section that are used here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Info {
    /// Modules that must be loaded before it.
    pub depends: Vec<String>,
    /// Additional names of the module, without the patterns of devices.
    pub aliases: Vec<String>,
    /// Modules or aliases that should be loaded before it.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// Reads the fields of a module file. Returns `None` if the file is not a module. Of an uncompressed file only the
/// necessary parts are read: modules with debug information have hundreds of megabytes.
fn of(path: &Path) -> Result<Option<Info>, VmError> {
    if path.extension().is_some_and(|extension| extension == "ko") {
        let file = crate::input::open(path).map_err(|error| refused("read", path, error))?;
        if let Some(info) = read(&ReadCache::new(file)) {
            return Ok(Some(info));
        }
        // `ReadCache` hides read errors, so read the file again.
        let bytes = super::read(path)?;
        if bytes.starts_with(&object::elf::ELFMAG)
            && let Err(error) = object::File::parse(bytes.as_slice())
        {
            let error =
                VmError::machine(format!("the module {} is incomplete", path.display())).tried(error.to_string());
            return Err(error.advice("wait for its build to end, or build it again: make modules"));
        }
        return Ok(read(bytes.as_slice()));
    }
    Ok(read(super::read(path)?.as_slice()))
}

fn read<'d>(module: impl ReadRef<'d>) -> Option<Info> {
    let file = object::File::parse(module).ok()?;
    Some(parse(file.section_by_name(".modinfo")?.data().ok()?))
}

fn parse(section: &[u8]) -> Info {
    let mut info = Info::default();
    for text in section.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(text);
        match text.split_once('=') {
            Some(("depends", names)) => {
                info.depends.extend(names.split(',').filter(|name| !name.is_empty()).map(super::normal));
            }
            Some(("alias", alias)) if plain(alias) => info.aliases.push(alias.to_owned()),
            Some(("softdep", text)) => {
                let (before, after) = soft(text);
                info.before.extend(before);
                info.after.extend(after);
            }
            _ => {}
        }
    }
    info
}

/// Returns whether an alias is a name by which one module requests another, and not the pattern of a device.
fn plain(alias: &str) -> bool {
    !alias.contains([':', '*', '?', '[', ' '])
}

/// Parses soft dependencies, `pre: a b post: c`, as modules and `modules.softdep` spell them.
fn soft(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut late = false;
    for word in text.split_whitespace() {
        match word {
            "pre:" => late = false,
            "post:" => late = true,
            name if late => after.push(name.to_owned()),
            name => before.push(name.to_owned()),
        }
    }
    (before, after)
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
    fn the_files_of_depmod_are_read_and_written() {
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

    #[test]
    fn a_section_is_read() {
        let info = parse(
            b"license=GPL\0softdep=pre: crc32c post: late\0alias=fs-ext4\0alias=pci:v*d*\0depends=mbcache,jbd2,crc16\0",
        );
        assert_eq!(info.depends, ["mbcache", "jbd2", "crc16"]);
        assert_eq!(info.aliases, ["fs-ext4"]);
        assert_eq!((info.before, info.after), (vec!["crc32c".to_owned()], vec!["late".to_owned()]));
        assert_eq!(parse(b"depends=\0").depends, Vec::<String>::new());
    }

    #[test]
    fn an_unreadable_index_is_not_an_absent_one() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.ko");
        std::fs::write(&path, "no module").unwrap();
        assert_eq!(of(&path), Ok(None));
        // A truncated file, as during a build.
        let own = std::fs::read("/proc/self/exe").unwrap();
        std::fs::write(&path, &own[..own.len().min(1000)]).unwrap();
        let text = of(&path).unwrap_err().to_string();
        assert!(text.contains("x.ko is incomplete") && text.contains("make modules"), "{text}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let text = of(&path).unwrap_err().to_string();
        assert!(text.contains("cannot read") && text.contains("x.ko") && text.contains("directory"), "{text}");
    }

    proptest! {
        #[test]
        fn garbage_is_refused_as_a_module(bytes: Vec<u8>) {
            parse(&bytes);
            prop_assert_eq!(read(bytes.as_slice()), None);
        }
    }
}
