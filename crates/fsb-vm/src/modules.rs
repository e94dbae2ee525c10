//! Kernel modules: their dependencies and their load order.
//!
//! An installed kernel has them in `modules.dep`, `modules.softdep` and `modules.alias`. An
//! unpacked package has none of these files, because depmod runs at installation. In that case each
//! module's own `.modinfo` section is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fsb_model::error::NO_MODULE;
use fsb_store::input::{LARGEST_BINARY, LARGEST_RECORD, LARGEST_SCRIPT};
use object::build::elf::Builder;
use object::{Object, ObjectSection, ReadCache, ReadRef};

use crate::error::{VmError, refused};

/// Returns the name of a module as the kernel spells it: `x_y` for the path
/// `kernel/fs/x/x-y.ko.xz`.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| normal(name))
}

/// Replaces `-` by `_`, which the kernel treats as equal.
pub(crate) fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the module's ELF file, unpacked if it is compressed.
pub(crate) fn read_module(path: &Path) -> Result<Vec<u8>, VmError> {
    let bytes =
        crate::input::read(path, LARGEST_BINARY).map_err(|error| refused("read", path, error))?;
    unpack(&path.to_string_lossy(), bytes).map_err(|error| refused("unpack", path, error))
}

/// Unpacks a file whose format the extension of `name` shows.
fn unpack(name: &str, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if name.ends_with(".xz") {
        lzma_rust2::XzReader::new(bytes.as_slice(), true).read_to_end(&mut out)?;
    } else if name.ends_with(".zst") {
        let mut decoder =
            ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).map_err(io::Error::other)?;
        decoder.read_to_end(&mut out)?;
    } else if name.ends_with(".gz") {
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut out)?;
    } else {
        return Ok(bytes);
    }
    Ok(out)
}

// The index of a kernel's modules and their dependencies.

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
    pub fn read(directory: &Path) -> Result<Index, VmError> {
        let optional = |name: &str| {
            crate::input::read_text(&directory.join(name), LARGEST_RECORD).unwrap_or_default()
        };
        let mut index =
            match crate::input::read_text(&directory.join("modules.dep"), LARGEST_RECORD) {
                Ok(text) => {
                    let (soft, alias) = (optional("modules.softdep"), optional("modules.alias"));
                    let mut index = Index::parse(&text, &soft, &alias);
                    index.add_unlisted(directory);
                    index
                }
                Err(_) => Index::scan(directory)?,
            };
        let builtin = optional("modules.builtin");
        index.builtin = builtin
            .lines()
            .filter_map(|line| name_of(line.trim()))
            .collect();
        Ok(index)
    }

    /// Parses the files that depmod writes.
    pub fn parse(dep: &str, softdep: &str, alias: &str) -> Index {
        let mut index = Index::default();
        for line in dep.lines() {
            let Some((path, depends)) = line.split_once(':') else {
                continue;
            };
            let Some(name) = name_of(path.trim()) else {
                continue;
            };
            let depends = depends.split_whitespace().filter_map(name_of).collect();
            index.modules.insert(
                name,
                Module {
                    path: path.trim().to_owned(),
                    depends,
                    ..Module::default()
                },
            );
        }
        for line in softdep.lines() {
            let Some((name, rest)) = line
                .strip_prefix("softdep ")
                .and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            let Some(module) = index.modules.get_mut(&normal(name)) else {
                continue;
            };
            let (before, after) = soft(rest);
            module.before.extend(before);
            module.after.extend(after);
        }
        for line in alias.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(alias), Some(name)) =
                (words.next(), words.next(), words.next())
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
        let files = if is_build_tree(directory) {
            modules_of_build_tree(directory)?
        } else {
            below(directory, &["kernel", ADDED[0], ADDED[1]])?
        };
        for file in files {
            let path = file
                .strip_prefix(directory)
                .unwrap_or(&file)
                .to_string_lossy()
                .into_owned();
            // Other files (a signature, a stray file) cannot be dependencies.
            if let Some(name) = name_of(&path)
                && let Some(info) = module_info(&file)?
            {
                index.add(name, path, info);
            }
        }
        Ok(index)
    }

    /// Adds the modules of other sources that were put beside those of the kernel after the index
    /// was written, as DKMS installs them. A file that cannot be read is left out:
    /// most guests do not need it.
    fn add_unlisted(&mut self, directory: &Path) {
        for file in below(directory, &ADDED).unwrap_or_default() {
            let path = file.strip_prefix(directory).unwrap_or(&file);
            let path = path.to_string_lossy().into_owned();
            if let Some(name) = name_of(&path).filter(|name| !self.modules.contains_key(name))
                && let Ok(Some(info)) = module_info(&file)
            {
                self.add(name, path, info);
            }
        }
    }

    fn add(&mut self, name: String, path: String, info: Info) {
        self.aliases
            .extend(info.aliases.into_iter().map(|alias| (alias, name.clone())));
        let module = Module {
            path,
            depends: info.depends,
            before: info.before,
            after: info.after,
        };
        self.modules.insert(name, module);
    }

    /// Writes the index in depmod's format, so that the next reader need not open the modules.
    pub fn save(&self, directory: &Path) -> Result<(), VmError> {
        let (mut dep, mut soft, mut alias) = (String::new(), String::new(), String::new());
        for (name, module) in &self.modules {
            let depends = module
                .depends
                .iter()
                .filter_map(|name| self.modules.get(name))
                .map(|module| &module.path);
            let _ = writeln!(
                dep,
                "{}:{}",
                module.path,
                depends.map(|path| format!(" {path}")).collect::<String>()
            );
            if !module.before.is_empty() || !module.after.is_empty() {
                fn part(key: &str, names: &[String]) -> String {
                    if names.is_empty() {
                        String::new()
                    } else {
                        format!(" {key} {}", names.join(" "))
                    }
                }
                let _ = writeln!(
                    soft,
                    "softdep {name}{}{}",
                    part("pre:", &module.before),
                    part("post:", &module.after)
                );
            }
        }
        for (name, module) in &self.aliases {
            let _ = writeln!(alias, "alias {name} {module}");
        }
        for (name, text) in [
            ("modules.softdep", soft),
            ("modules.alias", alias),
            ("modules.dep", dep),
        ] {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|error| refused("write", &path, error))?;
        }
        Ok(())
    }
}

/// Directories of modules that are not part of the kernel.
const ADDED: [&str; 2] = ["extra", "updates"];

/// Returns all files in these directories of a directory of modules.
fn below(directory: &Path, names: &[&str]) -> Result<Vec<PathBuf>, VmError> {
    let mut directories: Vec<_> = names.iter().map(|name| directory.join(name)).collect();
    let mut files = Vec::new();
    while let Some(next) = directories.pop() {
        let Ok(entries) = fs::read_dir(&next) else {
            continue;
        };
        for entry in entries {
            let entry = entry.map_err(|error| refused("read", &next, error))?;
            let kind = entry
                .file_type()
                .map_err(|error| refused("read", &next, error))?;
            if kind.is_dir() {
                directories.push(entry.path())
            } else {
                files.push(entry.path())
            }
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

/// Reads the fields of a module file. Returns `None` if the file is not a module. Of an
/// uncompressed file only the necessary parts are read: modules with debug information have
/// hundreds of megabytes.
fn module_info(path: &Path) -> Result<Option<Info>, VmError> {
    if path.extension().is_some_and(|extension| extension == "ko") {
        let file = crate::input::open(path).map_err(|error| refused("read", path, error))?;
        if let Some(info) = read_info(&ReadCache::new(file)) {
            return Ok(Some(info));
        }
        // `ReadCache` hides read errors, so read the file again.
        let bytes = read_module(path)?;
        if bytes.starts_with(&object::elf::ELFMAG)
            && let Err(error) = object::File::parse(bytes.as_slice())
        {
            let error = VmError::machine(format!("the module {} is incomplete", path.display()))
                .tried(error.to_string());
            return Err(error.advice("wait for its build to end, or build it again: make modules"));
        }
        return Ok(read_info(bytes.as_slice()));
    }
    Ok(read_info(read_module(path)?.as_slice()))
}

fn read_info<'d>(module: impl ReadRef<'d>) -> Option<Info> {
    let file = object::File::parse(module).ok()?;
    Some(parse(file.section_by_name(".modinfo")?.data().ok()?))
}

fn parse(section: &[u8]) -> Info {
    let mut info = Info::default();
    for text in section.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(text);
        match text.split_once('=') {
            Some(("depends", names)) => {
                info.depends
                    .extend(names.split(',').filter(|name| !name.is_empty()).map(normal));
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

/// Returns whether an alias is a name by which one module requests another, and not the pattern of
/// a device.
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

// Determines the order in which modules load: dependencies come first.

/// One module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadStep {
    pub name: String,
    /// The path below the directory of modules.
    pub path: String,
    /// Whether the guest cannot continue without it. (An optional implementation may not fit the
    /// processor.)
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
        let mut walk = Walk {
            index: self,
            order: Order::default(),
            seen: BTreeSet::new(),
        };
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
        // Skip drivers of cryptographic hardware, which have the same aliases: a guest has no such
        // hardware.
        let fits = |module: &str| {
            self.modules
                .get(module)
                .is_some_and(|module| !module.path.contains("/drivers/"))
        };
        let aliased = self
            .aliases
            .iter()
            .filter(|(alias, module)| normal(alias) == own && fits(module));
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
            let needs = if by.is_empty() {
                String::new()
            } else {
                format!(", which {by} needs")
            };
            let error = VmError::machine(format!("this kernel has no module {name}{needs}"));
            return Err(error.coded(&NO_MODULE).field("module", name));
        };
        for name in &module.before {
            self.wish(name);
        }
        for dependency in &module.depends {
            self.need(dependency, required, name)?;
        }
        self.order.steps.push(LoadStep {
            name: name.to_owned(),
            path: module.path.clone(),
            required,
        });
        for name in &module.after {
            self.wish(name);
        }
        Ok(())
    }

    /// Makes an optional module required if a required one depends on it, together with its
    /// dependencies.
    fn promote(&mut self, name: &str, required: bool) {
        let Some(step) = self.order.steps.iter_mut().find(|step| step.name == name) else {
            return;
        };
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

// Finds the modules in a directory in which a kernel was built.

/// The file that every version of `make` writes first. It contains the release of the kernel that
/// is built here.
pub(crate) const BUILD_TREE_MARK: &str = "include/config/kernel.release";

/// Returns whether kernels are built in that directory: the source tree, or the directory of `make
/// O=DIRECTORY`.
pub(crate) fn is_build_tree(directory: &Path) -> bool {
    directory.join(BUILD_TREE_MARK).is_file()
}

/// Returns the modules that were built in the directory. `modules.order` lists modules, or since
/// Linux 6.3 their object files. A listed module without a file was never built. `make fs/x/x.ko`
/// removes the list; then all existing modules are returned.
pub(crate) fn modules_of_build_tree(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let path = directory.join("modules.order");
    let list = match crate::input::read_text(&path, LARGEST_SCRIPT) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return below_build_tree(directory);
        }
        Err(error) => return Err(refused("read", &path, error)),
    };
    Ok(list
        .lines()
        .filter_map(|line| built(directory, line.trim()))
        .collect())
}

fn built(directory: &Path, line: &str) -> Option<PathBuf> {
    // Before Linux 5.3 the list contains the paths of the installed modules.
    let lines = [Some(line), line.strip_prefix("kernel/")];
    lines
        .into_iter()
        .flatten()
        .map(|line| directory.join(line).with_extension("ko"))
        .find(|path| path.is_file())
}

/// Returns all modules below the directory. Does not follow links, such as the `source` of `make
/// O=DIRECTORY`.
fn below_build_tree(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let mut directories = vec![directory.to_path_buf()];
    let mut modules = Vec::new();
    while let Some(next) = directories.pop() {
        let failed = |error| refused("read", &next, error);
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (name, path) = (entry.file_name(), entry.path());
            if !entry.file_type().map_err(failed)?.is_dir() {
                modules.extend(
                    Some(path).filter(|path| path.extension().is_some_and(|end| end == "ko")),
                );
            } else if !name.as_encoded_bytes().starts_with(b".") && name != "Documentation" {
                directories.push(path);
            }
        }
    }
    modules.sort();
    Ok(modules)
}

// Removes debug information from modules. The kernel does not load it, and it is most of a freshly
// built module.

/// Removes the sections of debug information and their relocations. Returns the module unchanged if
/// that is impossible.
pub(crate) fn without_debug(module: Vec<u8>) -> Vec<u8> {
    stripped(&module).unwrap_or(module)
}

fn stripped(module: &[u8]) -> Option<Vec<u8>> {
    let mut builder = Builder::read(module).ok()?;
    if !builder
        .sections
        .iter()
        .any(|section| is_debug(&section.name))
    {
        return None;
    }
    for section in &mut builder.sections {
        section.delete = is_debug(&section.name);
        // 0 means 1, but the builder does not accept 0.
        section.sh_addralign = section.sh_addralign.max(1);
        if !section.sh_addralign.is_power_of_two() {
            return None;
        }
    }
    builder.delete_orphans();
    let mut out = Vec::new();
    builder.write(&mut out).ok()?;
    Some(out)
}

/// Recognises a section by its name: `.debug_info`, and `.rela.debug_info` with its relocations.
fn is_debug(name: &[u8]) -> bool {
    let of = name
        .strip_prefix(b".rela")
        .or(name.strip_prefix(b".rel"))
        .unwrap_or(name);
    of.starts_with(b".debug") || of.starts_with(b".zdebug")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use object::build::elf::{Relocation, SectionData};
    use object::elf;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_modules_are_the_kernels() {
        assert_eq!(
            name_of("kernel/drivers/md/dm-flakey.ko.xz").as_deref(),
            Some("dm_flakey")
        );
        assert_eq!(name_of("raid0.ko").as_deref(), Some("raid0"));
        for other in ["modules.dep", "x.ko.sig", "x.koi", ""] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_packing_is_undone() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"module").unwrap();
        assert_eq!(
            unpack("x.ko.gz", gzip.finish().unwrap()).unwrap(),
            b"module"
        );
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        assert_eq!(
            unpack(
                "x.ko.zst",
                ruzstd::encoding::compress_to_vec(&b"module"[..], level)
            )
            .unwrap(),
            b"module"
        );
        // The output of `printf module | xz`.
        let xz = include_bytes!("modules/testdata/module.xz");
        assert_eq!(unpack("x.ko.xz", xz.to_vec()).unwrap(), b"module");
        assert_eq!(unpack("x.ko", b"module".to_vec()).unwrap(), b"module");
    }

    proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            for name in ["x.ko.xz", "x.ko.zst", "x.ko.gz"] {
                prop_assert!(unpack(name, bytes.clone()).is_err());
            }
        }
    }

    const DEP: &str = "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko\n\
                   kernel/fs/jbd2/jbd2.ko.xz:\nkernel/lib/crc16.ko:\nkernel/crypto/crc32c_generic.ko:\n";
    const SOFT: &str = "# Soft dependencies\nsoftdep ext4 pre: crc32c\n";
    const ALIAS: &str = "# Aliases\nalias fs-ext4 ext4\nalias crc32c crc32c_generic\nalias pci:v00001AF4d* virtio_pci\n";

    #[test]
    fn the_files_of_depmod_are_read_and_written() {
        let index = Index::parse(DEP, SOFT, ALIAS);
        assert_eq!(index.modules["ext4"].depends, ["jbd2", "crc16"]);
        assert_eq!(index.modules["ext4"].before, ["crc32c"]);
        assert_eq!(index.aliases.len(), 2);
        let directory = tempfile::tempdir().unwrap();
        index.save(directory.path()).unwrap();
        fs::write(
            directory.path().join("modules.builtin"),
            "kernel/drivers/virtio/virtio-pci.ko\n",
        )
        .unwrap();
        let again = Index::read(directory.path()).unwrap();
        assert_eq!(again.modules, index.modules);
        assert_eq!(again.aliases, index.aliases);
        assert!(again.builtin.contains("virtio_pci"));
    }

    #[test]
    fn a_directory_without_modules_has_none() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("kernel/fs")).unwrap();
        fs::write(directory.path().join("kernel/fs/garbage.ko"), "no module").unwrap();
        assert_eq!(Index::read(directory.path()).unwrap(), Index::default());
        fs::write(directory.path().join("kernel/fs/broken.ko.xz"), "no xz").unwrap();
        assert!(
            Index::read(directory.path())
                .unwrap_err()
                .to_string()
                .contains("broken.ko.xz")
        );
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
        assert_eq!(
            (info.before, info.after),
            (vec!["crc32c".to_owned()], vec!["late".to_owned()])
        );
        assert_eq!(parse(b"depends=\0").depends, Vec::<String>::new());
    }

    #[test]
    fn an_unreadable_index_is_not_an_absent_one() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.ko");
        std::fs::write(&path, "no module").unwrap();
        assert_eq!(module_info(&path), Ok(None));
        // A truncated file, as during a build.
        let own = std::fs::read("/proc/self/exe").unwrap();
        std::fs::write(&path, &own[..own.len().min(1000)]).unwrap();
        let text = module_info(&path).unwrap_err().to_string();
        assert!(
            text.contains("x.ko is incomplete") && text.contains("make modules"),
            "{text}"
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let text = module_info(&path).unwrap_err().to_string();
        assert!(
            text.contains("cannot read") && text.contains("x.ko") && text.contains("directory"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn garbage_is_refused_as_a_module(bytes: Vec<u8>) {
            parse(&bytes);
            prop_assert_eq!(read_info(bytes.as_slice()), None);
        }
    }

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
        order
            .steps
            .iter()
            .map(|step| format!("{}{}", if step.required { "" } else { "-" }, step.name))
            .collect()
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn dependencies_of_a_module_come_before_it() {
        let order = index()
            .order(&owned(&["virtio-pci", "ext4", "xfs"]), &[])
            .unwrap();
        let expected = [
            "-crc32c_generic",
            "-crc32c_intel",
            "crc16",
            "mbcache",
            "jbd2",
            "ext4",
            "libcrc32c",
            "xfs",
        ];
        assert_eq!(names(&order), expected);
    }

    #[test]
    fn a_missing_module_is_named_with_who_needs_it() {
        let error = index().order(&owned(&["nilfs2"]), &[]).unwrap_err();
        assert!(error.to_string().contains("no module nilfs2"), "{error}");
        let error = index().order(&owned(&["broken"]), &[]).unwrap_err();
        assert!(
            error.to_string().contains("absent, which broken needs"),
            "{error}"
        );
    }

    #[test]
    fn an_optional_module_comes_whole_or_not_at_all() {
        let order = index()
            .order(&[], &owned(&["broken", "nilfs2", "jbd2"]))
            .unwrap();
        assert_eq!(names(&order), ["-jbd2"]);
        assert_eq!(order.missing, ["broken", "nilfs2"]);
    }

    #[test]
    fn a_soft_dependency_may_become_a_hard_one() {
        let order = index()
            .order(&owned(&["ext4", "crc32c_generic"]), &[])
            .unwrap();
        assert!(
            names(&order).contains(&"crc32c_generic".to_owned()),
            "{order:?}"
        );
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(
            names(&index().order(&owned(&["a"]), &[]).unwrap()),
            ["b", "a"]
        );
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

    /// Returns an object file with code and, if `debug` is set, debug information.
    fn module(debug: bool) -> Vec<u8> {
        let mut builder = Builder::new(object::Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_X86_64;
        let mut add = |name: &str, kind: elf::SectionType, data: SectionData<'static>| {
            let section = builder.sections.add();
            (section.name, section.sh_type, section.data) =
                (name.to_owned().into_bytes().into(), kind, data);
            section.sh_addralign = 1;
            section.id()
        };
        let bytes = |text: &'static str| SectionData::Data(text.as_bytes().into());
        add(".text", elf::SHT_PROGBITS, bytes("code"));
        add(".modinfo", elf::SHT_PROGBITS, bytes("depends=jbd2\0"));
        let symbols = add(".symtab", elf::SHT_SYMTAB, SectionData::Symbol);
        add(".strtab", elf::SHT_STRTAB, SectionData::String);
        add(".shstrtab", elf::SHT_STRTAB, SectionData::SectionString);
        if debug {
            let info = add(".debug_info", elf::SHT_PROGBITS, bytes("much of it"));
            let places = add(
                ".rela.debug_info",
                elf::SHT_RELA,
                SectionData::Relocation(Vec::new()),
            );
            let symbol = builder.symbols.add();
            symbol.section = Some(info);
            let symbol = Some(symbol.id());
            let section = builder.sections.get_mut(places);
            (section.sh_link_section, section.sh_info_section) = (Some(symbols), Some(info));
            let place = Relocation {
                r_offset: 0,
                symbol,
                r_type: elf::R_X86_64_64,
                r_addend: 0,
            };
            section.data = SectionData::Relocation(vec![place]);
        }
        let mut out = Vec::new();
        builder.write(&mut out).unwrap();
        out
    }

    #[test]
    fn modules_that_an_index_does_not_list_are_found_beside_those_of_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("updates/dkms");
        fs::create_dir_all(&place).unwrap();
        fs::write(directory.path().join("modules.dep"), DEP).unwrap();
        for name in ["late.ko", "jbd2.ko"] {
            fs::write(place.join(name), module(false)).unwrap();
        }
        fs::write(place.join("broken.ko.xz"), "no xz").unwrap();
        let index = Index::read(directory.path()).unwrap();
        assert_eq!(index.modules["late"].path, "updates/dkms/late.ko");
        assert_eq!(index.modules["late"].depends, ["jbd2"]);
        assert_eq!(index.modules["jbd2"].path, "kernel/fs/jbd2/jbd2.ko.xz");
        assert!(!index.modules.contains_key("broken"));
    }

    #[test]
    fn debug_information_is_left_out_and_all_else_stays() {
        let sections = |bytes: &[u8]| -> Vec<_> {
            let builder = Builder::read(bytes).unwrap();
            assert_eq!(
                builder.symbols.count(),
                builder
                    .sections
                    .iter()
                    .filter(|s| *s.name == *b".debug_info")
                    .count()
            );
            let content = |data: &SectionData| {
                if let SectionData::Data(data) = data {
                    data.to_vec()
                } else {
                    vec![]
                }
            };
            builder
                .sections
                .iter()
                .map(|section| (section.name.to_vec(), content(&section.data)))
                .collect()
        };
        assert_ne!(sections(&module(true)), sections(&module(false)));
        assert_eq!(
            sections(&without_debug(module(true))),
            sections(&module(false))
        );
        assert_eq!(without_debug(module(false)), module(false));
        assert_eq!(without_debug(b"no module".to_vec()), b"no module");
    }
}
