//! File systems of the kernel that are mounted over a directory of another file system.
//!
//! Such a file system has a read-only layer for prepared files, and two states: see [`Sealing`].
//! Devices, counters, geometry and checks are those of the file system beneath.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fsb_model::target::{DEVICE, DIRECTORY};
use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::{Roots, mount as kernel};
use rustix::fs::{Mode, OFlags};

use super::file_system::{
    Beneath, DeviceSize, FileSystem, Hazard, Idle, Inspection, Journal, MountRequest, Mounted,
    Sealing, Tools, Tune,
};
use super::kernel_compatibility::Version;
use super::over::{self, OVER};
use crate::declared::{DeclaredOption, key};

/// The time limit for an unmount while processes on it still end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file system over a directory of another one.
pub(super) trait Upper: Sync {
    /// Returns the name in targets, and the kernel's for it.
    fn name(&self) -> &'static str;
    /// Returns one line for 'fsb list file-systems'.
    fn about(&self) -> &'static str;
    /// See [`FileSystem::modules`].
    fn modules(&self) -> &'static [&'static str];
    /// See [`FileSystem::helper_modules`].
    fn helper_modules(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the program that builds it, with its Debian package.
    fn program(&self) -> Option<(&'static str, &'static str)> {
        None
    }
    /// See [`FileSystem::options`].
    fn options(&self) -> &'static [DeclaredOption];
    /// See [`FileSystem::hazards`].
    fn hazards(&self) -> &'static [Hazard] {
        &[]
    }
    /// See [`FileSystem::note`].
    fn note(&self) -> Option<&'static str> {
        None
    }
    /// See [`FileSystem::sealing`].
    fn sealing(&self) -> Sealing;
    /// Makes the read-only layer of the prepared files in `directory`, or removes it with what was
    /// written since, as the request has it. Nothing is mounted over the directory.
    fn change(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError>;
    /// Returns the commands that make its layers in `{dir}` and mount it at `{mnt}` by
    /// hand, with its options.
    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>>;
    /// Mounts it over `directory`. If the request is not sealed, the mount point shows the
    /// directory in which files are prepared.
    fn mount(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError>;
}

/// An upper file system with the one beneath.
pub(super) struct Stacked {
    upper: &'static dyn Upper,
    beneath: Beneath,
}

impl Stacked {
    /// Returns the file system over the default one.
    pub(super) const fn new(upper: &'static dyn Upper) -> Stacked {
        Stacked {
            upper,
            beneath: over::USUAL,
        }
    }

    /// Returns the options of the upper file system.
    fn own_options(&self, options: &[String]) -> Vec<String> {
        let discard_off = self.discard_off();
        let own = options
            .iter()
            .filter(|option| key(option) != OVER && Some(option.as_str()) != discard_off);
        own.cloned().collect()
    }

    /// Mounts the upper file system over the mounted one beneath, after its layers are changed if
    /// `changes`.
    fn mount_upper(
        &self,
        request: &MountRequest<'_>,
        changes: bool,
    ) -> Result<Mounted, TestbedError> {
        let own = self.own_options(request.options);
        let request = MountRequest {
            options: &own,
            ..*request
        };
        let directory = over::directory_beneath(request.point);
        if changes {
            self.upper.change(&request, &directory)?;
        }
        self.upper.mount(&request, &directory)?;
        Ok(Mounted {
            beneath: Some(over::point_beneath(request.point)),
            ..Mounted::default()
        })
    }
}

impl FileSystem for Stacked {
    fn name(&self) -> &'static str {
        self.upper.name()
    }

    fn about(&self) -> &'static str {
        self.upper.about()
    }

    fn variant(&self, spec: &FileSystemSpec) -> Option<&'static dyn FileSystem> {
        static FOUND: Mutex<BTreeMap<String, &'static Stacked>> = Mutex::new(BTreeMap::new());
        let named = spec.options.iter().rfind(|option| key(option) == OVER)?;
        let text = format!("{},{named}", self.name());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.get(&text) {
            return Some(*known);
        }
        // [`FileSystem::check`] reports the error. File systems live as long as the program.
        let beneath = Beneath::from_options(&spec.options).ok()??;
        let upper = self.upper;
        let variant: &'static Stacked = Box::leak(Box::new(Stacked { upper, beneath }));
        found.insert(text, variant);
        Some(variant)
    }

    fn beneath(&self) -> Option<&Beneath> {
        Some(&self.beneath)
    }

    fn sealing(&self) -> Option<Sealing> {
        Some(self.upper.sealing())
    }

    fn tools(&self) -> Option<&'static Tools> {
        self.beneath.member.tools()
    }

    fn server_program(&self) -> Option<(&'static str, &'static str)> {
        self.upper.program()
    }

    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>> {
        let mut beneath = self.beneath.member.mount_command(self.beneath.options, 0);
        beneath.extend([DEVICE, DIRECTORY].map(str::to_owned));
        let upper = self.upper.by_hand(&self.own_options(options));
        [beneath].into_iter().chain(upper).collect()
    }

    fn modules(&self) -> &'static [&'static str] {
        self.upper.modules()
    }

    fn modules_of_options(&self, _: &[String]) -> Vec<&'static str> {
        self.beneath.member.modules().to_vec()
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.upper.helper_modules()
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        self.beneath.member.mkfs_for(user, oldest, program)
    }

    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        self.beneath.member.fit(large, bytes, user)
    }

    fn tune(&self) -> Option<&'static Tune> {
        self.beneath.member.tune()
    }

    fn options(&self) -> &'static [DeclaredOption] {
        self.upper.options()
    }

    fn hazards(&self) -> &'static [Hazard] {
        self.upper.hazards()
    }

    fn device_size(&self) -> Option<&'static DeviceSize> {
        self.beneath.member.device_size()
    }

    fn note(&self) -> Option<&'static str> {
        self.upper.note()
    }

    fn minimum_size(&self) -> u64 {
        self.beneath.member.minimum_size()
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        Beneath::from_options(&spec.options)?;
        match spec.options.iter().find(|option| *option == "ro") {
            Some(option) => Err(TestbedError::request(format!(
                "{} refuses the option '{option}'",
                self.name()
            ))
            .coded(&fsb_model::error::UNKNOWN_OPTION)
            .field("option", option.as_str())
            .advice("leave it out: fsb prepares the files")),
            None => Ok(()),
        }
    }

    fn discard_off(&self) -> Option<&'static str> {
        self.beneath.member.discard_off()
    }

    fn inspect(&self, device: &Path) -> Inspection {
        self.beneath.member.inspect(device)
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let (point, _) = self.beneath.mount(request)?;
        self.mount_upper(request, false).inspect_err(|_| {
            // The first error is the one that explains.
            let _ = over::unmount(&point);
        })
    }

    /// Replaces the upper file system. The one beneath stays mounted, with what it has cached.
    fn mount_again(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        match kernel::unmount_patiently(request.point, PATIENCE)? {
            Some(note) => Err(TestbedError::trial("the target is still in use").tried(note)),
            None => self.mount_upper(request, true),
        }
    }

    /// Writes out the file system beneath, which the syncfs of a read-only file system over it does
    /// not, and completes its deferred work.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let point = over::point_beneath(idle.point);
        let directory = rustix::fs::open(
            &point,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        directory.and_then(rustix::fs::syncfs).map_err(|errno| {
            TestbedError::trial("the file system beneath the target could not be written out")
                .tried(attempt("syncfs", &point, &errno.into()))
        })?;
        self.beneath.member.finish_background_work(&Idle {
            point: &point,
            source: idle.source,
        })
    }

    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        self.beneath.member.own_read_ahead(name, roots)
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        self.beneath.member.journal(device, name, roots)
    }
}
