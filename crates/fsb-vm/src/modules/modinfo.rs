//! A module's own words: its `.modinfo` section, `key=value` texts that end with a zero byte.

use std::path::Path;

use object::{Object, ObjectSection, ReadCache, ReadRef};

use crate::error::{VmError, refused};

/// What of them matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Info {
    /// Modules that must be loaded before.
    pub depends: Vec<String>,
    /// Names that it also answers to, those of devices left out.
    pub aliases: Vec<String>,
    /// Modules or aliases that should be loaded before it,
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// Reads that of a file; absent where that is no module. Of one that is not packed only the parts that matter are read:
/// modules with debug information have hundreds of megabytes.
pub(super) fn of(path: &Path) -> Result<Option<Info>, VmError> {
    if path.extension().is_some_and(|extension| extension == "ko") {
        let file = crate::input::open(path).map_err(|error| refused("read", path, error))?;
        if let Some(info) = read(&ReadCache::new(file)) {
            return Ok(Some(info));
        }
        // Which hides why it could not read.
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

/// Whether an alias is a name that one module asks another by, and not the pattern of a device.
pub(super) fn plain(alias: &str) -> bool {
    !alias.contains([':', '*', '?', '[', ' '])
}

/// `pre: a b post: c`, also as `modules.softdep` spells it.
pub(super) fn soft(text: &str) -> (Vec<String>, Vec<String>) {
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
    fn what_cannot_be_read_is_not_absent() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.ko");
        std::fs::write(&path, "no module").unwrap();
        assert_eq!(of(&path), Ok(None));
        // Of a build under way.
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
        fn garbage_is_no_module(bytes: Vec<u8>) {
            parse(&bytes);
            prop_assert_eq!(read(bytes.as_slice()), None);
        }
    }
}
