//! `-U`: unmounts and mounts the file system under test before each operation, so that nothing is
//! cached.
//!
//! Calls `umount` and `mount` as IOzone does. If `/etc/fstab` does not list the mount point, fsb
//! remembers the mounted file system and mounts it again with the same type and options.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsb_model::{code, failure};

use crate::message::say_warning;

/// The number of attempts on a busy file system.
const ATTEMPTS: u32 = 20;

/// File systems that live as long as they are mounted.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// A mount point and how to mount it.
pub struct Remount {
    point: PathBuf,
    arguments: Vec<String>,
    mounted: bool,
    /// The device that was mounted; `None` if the source is not a block device.
    source: Option<Source>,
}

/// The device that was mounted. By the time of the next mount its name may lead to another device,
/// which must not be written to.
struct Source {
    path: PathBuf,
    /// Keeps the device open: a loop device may release its file when it has no user.
    device: File,
}

impl Source {
    fn from_mount(mount: &Mount) -> Option<Source> {
        let path = PathBuf::from(&mount.source);
        let device = File::open(&path).ok()?;
        device
            .metadata()
            .ok()?
            .file_type()
            .is_block_device()
            .then_some(Source { path, device })
    }

    /// Returns whether `path` leads to the device that was mounted.
    fn is_at(&self, path: &Path) -> bool {
        let known = self.device.metadata().map(|metadata| metadata.rdev());
        let found = std::fs::metadata(path).map(|metadata| metadata.rdev());
        known.is_ok_and(|known| found.is_ok_and(|found| found == known))
    }
}

/// The answer of findmnt about a mount point.
struct Mount {
    source: String,
    kind: String,
    options: String,
    root: String,
}

/// Checks that the mount point can be unmounted for tests on `file`.
pub fn check(point: &Path, file: &Path) -> anyhow::Result<()> {
    let shown = point.display();
    if !rustix::process::geteuid().is_root() {
        return Err(failure::error(
            &fsb_model::error::NEEDS_ROOT,
            format!("-U {shown}: only root may unmount: try sudo"),
        ));
    }
    match find(point, false)? {
        None => {
            return Err(failure::error(
                &code::INVALID_IOZONE,
                format!("-U {shown}: nothing is mounted there (see findmnt)"),
            ));
        }
        // Every file on it would be gone, those of others too.
        Some(mount) if IN_MEMORY.contains(&mount.kind.as_str()) => {
            let message = format!(
                "-U {shown}: this is a {}, which loses everything in it when it is unmounted: leave -U out",
                mount.kind
            );
            return Err(failure::error(&code::INVALID_IOZONE, message));
        }
        Some(_) => {}
    }
    let real = |path: &Path| std::fs::canonicalize(path);
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !real(parent)?.starts_with(real(point)?) {
        return Err(failure::error(
            &code::INVALID_IOZONE,
            format!(
                "-U {shown}: the file {} is not below it: name one with -f",
                file.display()
            ),
        ));
    }
    if std::env::current_dir()?.starts_with(real(point)?) {
        return Err(failure::error(
            &code::INVALID_IOZONE,
            format!(
                "-U {shown}: the current directory is below it and would keep it busy: cd / first"
            ),
        ));
    }
    Ok(())
}

/// Returns the mount at a point, or with `fstab` the mount that fstab would make there.
fn find(point: &Path, fstab: bool) -> anyhow::Result<Option<Mount>> {
    let mut command = Command::new("findmnt");
    command.args([
        "--json",
        "--nofsroot",
        "--first-only",
        "--output",
        "SOURCE,FSTYPE,OPTIONS",
    ]);
    if fstab {
        command.arg("--fstab");
    } else {
        // findmnt knows the root within the file system only of mounted ones.
        command.args(["--kernel", "--output", "SOURCE,FSTYPE,OPTIONS,FSROOT"]);
    }
    let output = command
        .arg("--mountpoint")
        .arg(point)
        .output()
        .map_err(|error| {
            failure::failed_call(
                &code::IOZONE_UNABLE,
                &error,
                format!("cannot run findmnt (Debian package util-linux): {error}"),
            )
        })?;
    let parsed: serde_json::Value = match serde_json::from_slice(&output.stdout) {
        Ok(parsed) => parsed,
        Err(_) => return Ok(None),
    };
    let mount = &parsed["filesystems"][0];
    let text = |key: &str| mount[key].as_str().map(str::to_owned);
    Ok(text("source")
        .zip(text("fstype"))
        .zip(text("options"))
        .map(|((source, kind), options)| Mount {
            source,
            kind,
            options,
            root: text("fsroot").unwrap_or_else(|| "/".to_owned()),
        }))
}

impl Remount {
    /// Remembers the mounted file system.
    pub fn new(point: &Path) -> anyhow::Result<Remount> {
        let shown = point.display();
        let mounted = find(point, false)?.ok_or_else(|| {
            failure::error(
                &code::INVALID_IOZONE,
                format!("-U {shown}: nothing is mounted there (see findmnt)"),
            )
        })?;
        let path = point.display().to_string();
        let arguments = if find(point, true)?.is_some() {
            vec![path]
        } else if mounted.root != "/" && mounted.kind != "btrfs" {
            let message = format!(
                "-U {shown}: a bind mount or subvolume is mounted there: give it a line in /etc/fstab"
            );
            return Err(failure::error(&code::INVALID_IOZONE, message));
        } else {
            let Mount {
                source,
                kind,
                options,
                ..
            } = &mounted;
            ["-t", kind, "-o", options, source]
                .map(str::to_owned)
                .into_iter()
                .chain([path])
                .collect()
        };
        Ok(Remount {
            point: point.to_owned(),
            arguments,
            mounted: true,
            source: Source::from_mount(&mounted),
        })
    }

    /// Unmounts and mounts.
    pub fn cycle(&mut self) -> anyhow::Result<()> {
        if self.mounted {
            again(
                Command::new("umount").arg(&self.point),
                "unmount",
                &self.point,
            )?;
            self.mounted = false;
        }
        self.mount()
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        let another = |path: &Path| {
            let point = self.point.display();
            failure::error(
                &code::IOZONE_UNABLE,
                format!(
                    "-U {point}: {} is another device than was mounted there before",
                    path.display()
                ),
            )
        };
        if let Some(source) = self
            .source
            .as_ref()
            .filter(|source| !source.is_at(&source.path))
        {
            return Err(another(&source.path));
        }
        again(
            Command::new("mount").args(&self.arguments),
            "mount",
            &self.point,
        )?;
        // fstab may name the device by a link, and the link may change while the device is mounted.
        if let (Some(source), Some(now)) = (&self.source, find(&self.point, false)?) {
            let now = PathBuf::from(now.source);
            if !source.is_at(&now) {
                again(
                    Command::new("umount").arg(&self.point),
                    "unmount",
                    &self.point,
                )?;
                return Err(another(&now));
            }
        }
        self.mounted = true;
        Ok(())
    }
}

/// Retries a program until it succeeds: programs that scan new mounts keep them busy for a moment.
fn again(command: &mut Command, what: &str, point: &Path) -> anyhow::Result<()> {
    let mut said = String::new();
    for attempt in 1..=ATTEMPTS {
        let output = command.output().map_err(|error| {
            failure::failed_call(
                &code::IOZONE_UNABLE,
                &error,
                format!("cannot {what} {}: {error}", point.display()),
            )
        })?;
        if output.status.success() {
            return Ok(());
        }
        said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        std::thread::sleep(Duration::from_millis(10 * u64::from(attempt)));
    }
    Err(failure::error(
        &code::IOZONE_UNABLE,
        format!(
            "cannot {what} {} ({ATTEMPTS} attempts): {said}; 'fuser -vm' lists its users",
            point.display()
        ),
    ))
}

impl Drop for Remount {
    fn drop(&mut self) {
        if !self.mounted
            && let Err(error) = self.mount()
        {
            say_warning(format!("{error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_changed_leads_to_another_device() {
        let devices: Vec<_> = ["/dev/loop0", "/dev/loop1"]
            .map(PathBuf::from)
            .into_iter()
            .collect();
        // Only root may open them, and containers have none.
        if devices.iter().any(|device| File::open(device).is_err()) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&devices[0], &link).unwrap();
        let text = |text: &str| text.to_owned();
        let mount = |source: &Path| Mount {
            source: source.display().to_string(),
            kind: text("ext4"),
            options: text("rw"),
            root: text("/"),
        };
        let source = Source::from_mount(&mount(&link)).unwrap();
        assert!(source.is_at(&link) && source.is_at(&devices[0]));
        std::fs::remove_file(&link).unwrap();
        assert!(!source.is_at(&link));
        std::os::unix::fs::symlink(&devices[1], &link).unwrap();
        assert!(!source.is_at(&link) && source.is_at(&devices[0]));
        assert!(
            Source::from_mount(&mount(directory.path())).is_none(),
            "tmpfs and overlays have no device"
        );
    }
}
