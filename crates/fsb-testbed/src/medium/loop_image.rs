//! A loop device over an image in a nameless file, which is overwritten once without the page cache.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fsb_model::units::show_bytes;
use fsb_sys::block::DeviceNumber;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::invoking_user::InvokingUser;
use fsb_sys::loopdev::Mode;
use fsb_sys::magic;
use fsb_sys::{block, mountinfo};
use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode as Permissions, OFlags, openat};
use rustix::io::Errno;

use super::image::AttachedImage;
use super::kind::{Divided, MediumKind, MediumRequest, OpenMedium, filling};
use crate::fs;
use crate::ledger::Ledger;
use crate::progress::Progress;

pub(super) struct LoopImage;

/// The bytes that stay free beside an image, for the file system that holds it and for the results.
fn margin(size: u64) -> u64 {
    (64 << 20) + size / 100
}

impl MediumKind for LoopImage {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn about(&self) -> &'static str {
        "A loop image of --size in --dir, fully written, used past the host's page cache (default)."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["loop"]
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let dir = request.dir;
        let metadata = std::fs::metadata(dir).map_err(|error| {
            TestbedError::request(format!("the directory for images, {}, cannot be used", dir.display()))
                .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
                .field("path", dir.to_string_lossy().into_owned())
                .tried(attempt("stat", dir, &error))
                .advice("make it, or name another with --dir")
        })?;
        if !metadata.is_dir() {
            return Err(TestbedError::request(format!("{} is not a directory", dir.display()))
                .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
                .field("path", dir.to_string_lossy().into_owned())
                .advice("name one with --dir"));
        }
        if magic::is_memory(dir) {
            return Err(TestbedError::machine(format!(
                "{} is in memory: an image there has no device under it",
                dir.display()
            ))
            .coded(&fsb_model::error::DIRECTORY_IN_MEMORY)
            .field("path", dir.to_string_lossy().into_owned())
            .advice("name a directory on a disk with --dir, or use @ram for an image in memory"));
        }
        use rustix::fs::Access;
        // If root runs for an invoking user, creating the image decides: a file server may map root to an unprivileged
        // user.
        let access = Access::WRITE_OK | Access::EXEC_OK;
        match rustix::fs::accessat(rustix::fs::CWD, dir, access, AtFlags::EACCESS) {
            Err(errno) if InvokingUser::current().is_none() => {
                return Err(TestbedError::machine(format!("images cannot be made in {}", dir.display()))
                    .tried(attempt("access", dir, &errno.into()))
                    .advice("name a writable directory with --dir"));
            }
            _ => {}
        }
        check_space(&hold(dir)?, dir, request.size)?;
        Ok(request.size)
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let image = make_filled_image(request, progress)?;
        let mut attached = AttachedImage::attach(image, Mode::Direct, request, ledger)?;
        match complete(&mut attached, request) {
            Ok(()) => Ok(Box::new(attached)),
            Err(refusal) => {
                attached.close(ledger);
                Err(refusal)
            }
        }
    }

    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        Some(request.size)
    }

    fn divisible(&self, _: &MediumRequest<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open_parts(
        &self,
        request: &MediumRequest<'_>,
        parts: u32,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let image = make_filled_image(request, progress)?;
        let complete = |part: &mut AttachedImage| complete(part, request);
        AttachedImage::attach_parts(&image, parts, Mode::Direct, request, ledger, &complete)
    }
}

/// Refuses a device that would use the host's page cache. Otherwise records the properties of the whole image.
fn complete(attached: &mut AttachedImage, request: &MediumRequest<'_>) -> Result<(), TestbedError> {
    if attached.record.direct != Some(true) {
        return Err(not_direct(request.dir).tried("/sys/block/loopN/loop/dio reads 0"));
    }
    let shown = show_bytes(request.size as f64);
    attached.record.filled = Some(format!("{shown} of incompressible bytes, O_DIRECT"));
    attached.record.summary = format!("loop {shown}, direct");
    let (text, number) = backing(request.dir);
    attached.set_backing(text, number);
    Ok(())
}

/// Creates a nameless file of `request.size` bytes, and writes each byte once, without the page cache.
pub(crate) fn make_filled_image(
    request: &MediumRequest<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<OwnedFd, TestbedError> {
    let size = request.size;
    // Replacing the directory from here on does not affect the image.
    let held = hold(request.dir)?;
    check_space(&held, request.dir, size)?;
    let image = make_image(&held, request.dir, size)?;
    block::fill(image.as_fd(), size, request.seed, filling("the image", size, progress)).map_err(|error| {
        TestbedError::machine("the image could not be written over")
            .tried(attempt("write to an image in", request.dir, &error))
            .advice("choose a smaller --size, or another --dir")
    })?;
    Ok(image)
}

/// Opens the directory, so that a later replacement of its name has no effect.
fn hold(dir: &Path) -> Result<OwnedFd, TestbedError> {
    rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Permissions::empty()).map_err(|errno| {
        TestbedError::machine(format!("the directory for images, {}, cannot be used", dir.display()))
            .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
            .field("path", dir.to_string_lossy().into_owned())
            .tried(attempt("open", dir, &errno.into()))
            .advice("name another with --dir")
    })
}

fn check_space(held: &OwnedFd, dir: &Path, size: u64) -> Result<(), TestbedError> {
    let stat = rustix::fs::fstatvfs(held).map_err(|errno| {
        TestbedError::machine("the free space is unknown").tried(attempt("statvfs", dir, &errno.into()))
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let needed = size.saturating_add(margin(size));
    if free >= needed {
        return Ok(());
    }
    let show = |bytes: u64| show_bytes(bytes as f64);
    Err(TestbedError::machine(format!("too little space for the image in {}", dir.display()))
        .tried(format!("{} free, {} needed: --size {} and a margin", show(free), show(needed), show(size)))
        .advice("choose a smaller --size, or a --dir with more space"))
}

fn not_direct(dir: &Path) -> TestbedError {
    TestbedError::machine(format!(
        "{} is on a file system without O_DIRECT: the host's page cache would sit under the target",
        dir.display()
    ))
    .advice("name a --dir on a file system with O_DIRECT (ext4, xfs, btrfs), or use @ram")
}

/// Creates a file without a name, which disappears with its last user. Reserves its blocks in one piece if possible,
/// and opens it without the page cache.
fn make_image(held: &OwnedFd, dir: &Path, size: u64) -> Result<OwnedFd, TestbedError> {
    let fail = |errno: Errno| {
        TestbedError::machine("the image cannot be made")
            .tried(attempt("make a file in", dir, &errno.into()))
            .advice("name another directory with --dir")
    };
    // If root may not write (a home on a server that maps root to another user), the invoking user may.
    let image = match (open_nameless(held), InvokingUser::current()) {
        (Err(Errno::ACCESS | Errno::PERM), Some(invoking_user)) => {
            invoking_user.act(|| open_nameless(held)).unwrap_or(Err(Errno::ACCESS))
        }
        (image, _) => image,
    };
    let image = image.map_err(fail)?;
    if fs::of_file(&image).is_some_and(|member| member.takes_nocow()) {
        // The flag can be set only on an empty file.
        let flags = rustix::fs::ioctl_getflags(&image).map_err(fail)?;
        rustix::fs::ioctl_setflags(&image, flags | IFlags::NOCOW).map_err(fail)?;
    }
    let flags = rustix::fs::fcntl_getfl(&image).map_err(fail)?;
    match rustix::fs::fcntl_setfl(&image, flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => return Err(not_direct(dir).tried("fcntl O_DIRECT: Invalid argument (EINVAL)")),
        other => other.map_err(fail)?,
    }
    match rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, size) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(image),
        Err(errno) => Err(fail(errno)),
    }
}

fn open_nameless(held: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let permissions = Permissions::RUSR | Permissions::WUSR;
    match openat(held, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, permissions) {
        // File systems without nameless files: create a name and remove it at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let name = format!("{}{}", crate::ledger::DIRECTORY_PREFIX, fsb_sys::random_name());
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
            let image = openat(held, &name, flags, permissions)?;
            rustix::fs::unlinkat(held, &name, AtFlags::empty())?;
            // Another process gave it another name, so it would remain when this process ends.
            if rustix::fs::fstat(&image)?.st_nlink > 0 { Err(Errno::BUSY) } else { Ok(image) }
        }
        other => other,
    }
}

/// Returns a text such as `ext4 on /dev/vda`, and the number of that device.
pub(crate) fn backing(dir: &Path) -> (String, Option<DeviceNumber>) {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    match mountinfo::holding(&mountinfo::read(), &dir) {
        Some(mount) => {
            let number = crate::host::device_of_mount(&mount);
            (format!("{} on {}", mount.kind, mount.source.display()), number)
        }
        None => (dir.display().to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_no_name_and_stays_in_the_directory_that_was_checked() {
        let place = tempfile::tempdir().unwrap();
        let (dir, away, other) = (place.path().join("dir"), place.path().join("away"), place.path().join("other"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::create_dir(&other).unwrap();
        let held = hold(&dir).unwrap();
        std::fs::rename(&dir, &away).unwrap();
        std::os::unix::fs::symlink(&other, &dir).unwrap();
        let image = open_nameless(&held).unwrap();
        assert_eq!(rustix::fs::fstat(&image).unwrap().st_nlink, 0);
        for path in [&away, &other] {
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
        }
        assert!(hold(&place.path().join("none")).is_err());
    }
}
