//! Directories of the host that a guest of a virtual machine mounts over virtio: 9p, which QEMU
//! serves, and virtiofs, which a process of the host serves.
//!
//! The host makes a directory for each target, and the guest knows it by a tag. The file system of
//! the host beneath is a part of what is measured, and so is its page cache, which no guest can
//! empty.

use std::path::Path;

use fsb_model::FileSystemSpec;
use fsb_model::target::last_value;
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;

use super::file_system::{
    FileSystem, Home, Inspection, MountRequest, Mounted, ShareServer, Tools, refuse_mkfs,
    with_options,
};
use super::option_table::OptionTable;
use crate::declared::{DeclaredOption, key};

static VIRTIOFSD: ShareServer = ShareServer {
    name: "virtiofsd",
    package: "virtiofsd",
    places: &["/usr/libexec", "/usr/lib/qemu", "/usr/lib"],
};

/// A file system that mounts a directory of the host.
pub(super) struct Shared {
    name: &'static str,
    about: &'static str,
    modules: &'static [&'static str],
    /// Values of the option `cache` with which the guest keeps data of files that it opens again.
    /// Empty if nothing does.
    keeping: &'static [&'static str],
    server: Option<&'static ShareServer>,
    /// The mount options that fsb sets.
    fixed: &'static [&'static str],
    options: &'static OptionTable,
}

pub(super) static NINE_P: Shared = Shared {
    name: "9p",
    about: "A directory of the host, served by QEMU; only in a virtual machine.",
    modules: &["9p", "9pnet_virtio"],
    keeping: &["loose", "fscache"],
    server: None,
    fixed: &["trans=virtio", "version=9p2000.L"],
    options: &OPTIONS_9P,
};

pub(super) static VIRTIOFS: Shared = Shared {
    name: "virtiofs",
    about: "A directory of the host, served by virtiofsd; only in a virtual machine, with root.",
    modules: &["virtiofs"],
    keeping: &[],
    server: Some(&VIRTIOFSD),
    fixed: &[],
    options: &OPTIONS_VIRTIOFS,
};

impl Shared {
    fn all_options(&self, options: &[String]) -> Vec<String> {
        let mut all: Vec<String> = self.fixed.iter().map(|&option| option.to_owned()).collect();
        all.extend_from_slice(options);
        all
    }
}

impl FileSystem for Shared {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn only_in_a_guest(&self) -> Option<&'static str> {
        Some("a host shares its directories with guests")
    }

    fn share_server(&self) -> Option<&'static ShareServer> {
        self.server
    }

    fn home(&self) -> Home {
        Home::Host
    }

    fn tools(&self) -> Option<&'static Tools> {
        None
    }

    fn modules(&self) -> &'static [&'static str] {
        self.modules
    }

    fn why_not_warm(&self, options: &[String]) -> Option<String> {
        let cache = last_value(options, "cache");
        if cache.is_some_and(|cache| self.keeping.contains(&cache)) {
            return None;
        }
        Some(match self.keeping {
            [] => "never warm: the guest drops a file's pages when it is opened".to_owned(),
            keeping => format!(
                "never warm: the guest drops a file's pages when it is opened, except with cache={}",
                keeping.join(" or cache=")
            ),
        })
    }

    fn options(&self) -> &'static [DeclaredOption] {
        self.options
    }

    fn note(&self) -> Option<&'static str> {
        Some("the file system of the host beneath it and the host's page cache are measured, too")
    }

    fn minimum_size(&self) -> u64 {
        0
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        refuse_mkfs(spec, "its files are in a directory of the host")?;
        for option in &spec.options {
            let own = self.fixed.iter().find(|own| key(own) == key(option));
            if let Some(own) = own {
                return Err(TestbedError::request(format!(
                    "{} refuses the option '{option}'",
                    self.name
                ))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", option.as_str())
                .tried(format!("fsb sets {own} itself")));
            }
        }
        Ok(())
    }

    fn inspect(&self, _: &Path) -> Inspection {
        Inspection::default()
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let options = self.all_options(request.options);
        kernel::mount(self.name, request.source, request.point, &options)?;
        Ok(Mounted::default())
    }

    fn mount_command(&self, options: &[String], _: u64) -> Vec<String> {
        with_options(&["mount", "-t", self.name], &self.all_options(options))
    }
}

static OPTIONS_9P: OptionTable = OptionTable::new(include_str!("9p.options"));
static OPTIONS_VIRTIOFS: OptionTable = OptionTable::new(include_str!("virtiofs.options"));
