//! Loop devices over images: in a nameless file, which is overwritten once without the page cache,
//! and in memory.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::run::MediumRecord;
use fsb_model::storage::StorageFlaw;
use fsb_model::units::{show_bytes, show_size};
use fsb_sys::block::DeviceNumber;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::invoking_user::InvokingUser;
use fsb_sys::loopdev::{self, LoopDevice, Mode, Window};
use fsb_sys::pinned::{Node, Pinned};
use fsb_sys::space::FreeSpace;
use fsb_sys::{Roots, block, memory, mountinfo, poll_until, read_trimmed};
use rustix::fs::{
    AtFlags, FallocateFlags, IFlags, MemfdFlags, Mode as Permissions, OFlags, SeekFrom, openat,
};
use rustix::io::Errno;

use super::kind::{Divided, MediumKind, MediumRequest, OpenMedium, filling};
use super::slices::Slice;
use super::space::SpaceBeneath;
use super::sparse::{SparseRange, UsedPlaces};
use crate::Progress;
use crate::access::{self, Obstacle};
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::storage::Storage;
use crate::{fs, host};

/// A loop device over an image in a file.
pub(super) struct LoopImage;

/// Returns the bytes that stay free beside an image, for the file system that holds it and for the
/// results.
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
            let refused = TestbedError::request(format!(
                "the directory for images, {}, cannot be used",
                dir.display()
            ))
            .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
            .field("path", dir.to_string_lossy().into_owned());
            match access::obstacle(dir, &error) {
                Some(Obstacle { why, advice }) => refused.tried(why).advice(advice),
                None => refused
                    .tried(attempt("stat", dir, &error))
                    .advice("make it, or name another with --dir"),
            }
        })?;
        if !metadata.is_dir() {
            return Err(
                TestbedError::request(format!("{} is not a directory", dir.display()))
                    .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
                    .field("path", dir.to_string_lossy().into_owned())
                    .advice("name one with --dir"),
            );
        }
        let storage = Storage::beneath_path(dir, None, &Roots::default());
        if let Some(StorageFlaw::Memory { .. }) = storage.loss() {
            return Err(TestbedError::machine(format!(
                "{} is in memory: an image there has no device under it",
                dir.display()
            ))
            .coded(&fsb_model::error::DIRECTORY_IN_MEMORY)
            .field("path", dir.to_string_lossy().into_owned())
            .tried(format!("the directory is on {}", storage.to_text()))
            .advice("name a directory on a disk with --dir, or use @ram for an image in memory"));
        }
        use rustix::fs::Access;
        // If root runs for an invoking user, creating the image decides: a file server may map root
        // to an unprivileged user.
        let access = Access::WRITE_OK | Access::EXEC_OK;
        match rustix::fs::accessat(rustix::fs::CWD, dir, access, AtFlags::EACCESS) {
            Err(errno) if InvokingUser::current().is_none() => {
                return Err(TestbedError::machine(format!(
                    "images cannot be made in {}",
                    dir.display()
                ))
                .tried(attempt("access", dir, &errno.into()))
                .advice("name a writable directory with --dir"));
            }
            _ => {}
        }
        check_space(&hold(dir)?, request)?;
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

    fn is_sparse(&self, _: &MediumRequest<'_>, is_needed: bool) -> bool {
        is_needed
    }

    fn divisible(&self, _: &MediumRequest<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open_slices(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let image = make_filled_image(request, progress)?;
        AttachedImage::attach_slices(
            &image,
            Mode::Direct,
            request,
            ledger,
            &|slice: &mut AttachedImage| complete(slice, request),
        )
    }
}

/// Refuses a device that would use the host's page cache. Otherwise records the properties of the
/// whole image.
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

/// Creates a nameless file, and writes each byte of its slices once, without the page cache.
pub(crate) fn make_filled_image(
    request: &MediumRequest<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<OwnedFd, TestbedError> {
    // Replacing the directory from here on does not affect the image.
    let held = hold(request.dir)?;
    check_space(&held, request)?;
    let (image, parts) = (make_image(&held, request)?, request.filled_parts());
    block::fill(
        image.as_fd(),
        &parts,
        request.seed,
        &mut filling("image", request.size, progress),
    )
    .map_err(|error| {
        TestbedError::machine("the image could not be written over")
            .tried(attempt("write to an image in", request.dir, &error))
            .advice("choose a smaller --size, or another --dir")
    })?;
    Ok(image)
}

/// Opens the directory, so that a later replacement of its name has no effect.
fn hold(dir: &Path) -> Result<OwnedFd, TestbedError> {
    rustix::fs::open(
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Permissions::empty(),
    )
    .map_err(|errno| {
        TestbedError::machine(format!(
            "the directory for images, {}, cannot be used",
            dir.display()
        ))
        .coded(&fsb_model::error::NO_IMAGE_DIRECTORY)
        .field("path", dir.to_string_lossy().into_owned())
        .tried(attempt("open", dir, &errno.into()))
        .advice("name another with --dir")
    })
}

fn check_space(held: &OwnedFd, request: &MediumRequest<'_>) -> Result<(), TestbedError> {
    let dir = request.dir;
    let space = FreeSpace::of_file(held).map_err(|error| {
        TestbedError::machine("the free space is unknown").tried(attempt("statvfs", dir, &error))
    })?;
    let Some(free) = space.bytes else {
        return Ok(());
    };
    let size = request.most_bytes();
    let needed = size.saturating_add(margin(size));
    if free >= needed {
        return Ok(());
    }
    Err(TestbedError::machine(format!(
        "too little space for the image in {}",
        dir.display()
    ))
    .tried(format!(
        "{} free, {} needed: --size {} and a margin",
        show_size(free),
        show_size(needed),
        show_size(request.size)
    ))
    .advice(request.smaller("a --dir with more space")))
}

fn not_direct(dir: &Path) -> TestbedError {
    TestbedError::machine(format!(
        "{} is on a file system without O_DIRECT: the host's page cache would sit under the target",
        dir.display()
    ))
    .advice("name a --dir on a file system with O_DIRECT (ext4, xfs, btrfs), or use @ram")
}

/// Creates a file without a name, which disappears with its last user. Reserves the blocks of each
/// filled part in one piece if possible, and opens it without the page cache.
fn make_image(held: &OwnedFd, request: &MediumRequest<'_>) -> Result<OwnedFd, TestbedError> {
    let dir = request.dir;
    let fail = |errno: Errno| {
        TestbedError::machine("the image cannot be made")
            .tried(attempt("make a file in", dir, &errno.into()))
            .advice("name another directory with --dir")
    };
    // If root may not write (a home on a server that maps root to another user), the invoking user
    // may.
    let image = match (open_nameless(held), InvokingUser::current()) {
        (Err(Errno::ACCESS | Errno::PERM), Some(invoking_user)) => invoking_user
            .act(|| open_nameless(held))
            .unwrap_or(Err(Errno::ACCESS)),
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
        Err(Errno::INVAL) => {
            return Err(
                not_direct(dir).tried(Refusal::call("fcntl O_DIRECT", &Errno::INVAL.into()))
            );
        }
        other => other.map_err(fail)?,
    }
    if request.range.is_some() {
        make_holes(&image, request)?;
    }
    for part in request.filled_parts() {
        match rustix::fs::fallocate(
            &image,
            FallocateFlags::empty(),
            part.start,
            part.end - part.start,
        ) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(fail(errno)),
        }
    }
    Ok(image)
}

/// Makes the empty image as long as a sparse medium.
fn make_holes(image: &OwnedFd, request: &MediumRequest<'_>) -> Result<(), TestbedError> {
    let refused = |error: &std::io::Error| {
        TestbedError::machine(format!(
            "{} cannot hold a sparse image of {}",
            request.dir.display(),
            { show_bytes(request.length() as f64) }
        ))
        .tried(attempt("ftruncate an image in", request.dir, error))
        .advice("name a --dir on ext4, xfs or btrfs, or choose a smaller --like-disk")
    };
    rustix::fs::ftruncate(image, request.length()).map_err(|errno| refused(&errno.into()))?;
    if occupied(image).is_some_and(|bytes| bytes > request.size) {
        return Err(refused(&std::io::Error::other(
            "the file system gives blocks to holes",
        )));
    }
    Ok(())
}

/// Returns the parts of a window of an image that are no holes. Returns none if its file system
/// does not report holes.
fn data_parts(image: &OwnedFd, window: Slice) -> Vec<Range<u64>> {
    let (mut at, end) = (window.start, window.start + window.bytes);
    let mut parts = Vec::new();
    while at < end {
        let Ok(start) = rustix::fs::seek(image, SeekFrom::Data(at)) else {
            break;
        };
        let Ok(hole) = rustix::fs::seek(image, SeekFrom::Hole(start)) else {
            break;
        };
        parts.push(start..hole);
        at = hole;
    }
    parts
}

/// Returns the bytes that an image occupies.
fn occupied(image: &OwnedFd) -> Option<u64> {
    Some(rustix::fs::fstat(image).ok()?.st_blocks as u64 * 512)
}

fn open_nameless(held: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let permissions = Permissions::RUSR | Permissions::WUSR;
    match openat(
        held,
        ".",
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        permissions,
    ) {
        // File systems without nameless files: create a name and remove it at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let name = format!(
                "{}{}",
                crate::ledger::DIRECTORY_PREFIX,
                fsb_sys::random_name()
            );
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
            let image = openat(held, &name, flags, permissions)?;
            rustix::fs::unlinkat(held, &name, AtFlags::empty())?;
            // Another process gave it another name, so it would remain when this process ends.
            if rustix::fs::fstat(&image)?.st_nlink > 0 {
                Err(Errno::BUSY)
            } else {
                Ok(image)
            }
        }
        other => other,
    }
}

/// Returns a text such as `ext4 on /dev/vda`, and the number of that device.
pub(crate) fn backing(dir: &Path) -> (String, Option<DeviceNumber>) {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    match mountinfo::holding(&mountinfo::read(), &dir) {
        Some(mount) => {
            let number = crate::storage::number_of_mount(&mount);
            (
                format!("{} on {}", mount.kind, mount.source.display()),
                number,
            )
        }
        None => (dir.display().to_string(), None),
    }
}

/// A loop device over an image in memory. It shows the cost of a file system without a device.
pub(super) struct Ram;

/// Returns the bytes of memory that stay free: the page cache of the target needs memory beside its
/// image.
fn memory_margin(size: u64) -> u64 {
    (256 << 20) + size / 4
}

impl MediumKind for Ram {
    fn name(&self) -> &'static str {
        "ram"
    }

    fn about(&self) -> &'static str {
        "A loop image of --size in memory: the CPU cost of a file system without a device."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["loop"]
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let roots = Roots::default();
        let available = memory::meminfo(&roots, "MemAvailable").unwrap_or(0);
        let available =
            memory::cgroup_headroom(&roots).map_or(available, |limit| available.min(limit));
        let needed = request
            .most_bytes()
            .saturating_add(memory_margin(request.size));
        if available >= needed {
            return Ok(request.size);
        }
        Err(TestbedError::machine("too little memory for the RAM image")
            .tried(format!(
                "{} available, {} needed: --size and a margin",
                show_size(available),
                show_size(needed)
            ))
            .advice(request.smaller("@loop")))
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let image = make_filled_memory(request, progress)?;
        let mut attached = AttachedImage::attach(image, Mode::Buffered, request, ledger)?;
        complete_in_memory(&mut attached, request);
        Ok(Box::new(attached))
    }

    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        Some(request.size)
    }

    fn is_sparse(&self, _: &MediumRequest<'_>, is_needed: bool) -> bool {
        is_needed
    }

    fn divisible(&self, _: &MediumRequest<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open_slices(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let image = make_filled_memory(request, progress)?;
        AttachedImage::attach_slices(&image, Mode::Buffered, request, ledger, &|slice| {
            complete_in_memory(slice, request);
            Ok(())
        })
    }
}

fn complete_in_memory(attached: &mut AttachedImage, request: &MediumRequest<'_>) {
    let shown = show_bytes(request.size as f64);
    attached.record.filled = Some(format!("{shown} of incompressible bytes"));
    attached.record.summary = format!("ram {shown}");
    attached.set_backing("memory".to_owned(), None);
}

/// Allocates memory for the slices, and writes each byte once.
fn make_filled_memory(
    request: &MediumRequest<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<OwnedFd, TestbedError> {
    let size = request.size;
    let fail = |error: &std::io::Error| {
        TestbedError::machine("the RAM image could not be made")
            .tried(Refusal::call(
                format!("memfd of {}", show_bytes(size as f64)),
                error,
            ))
            .advice("choose a smaller --size, or @loop")
    };
    let image = rustix::fs::memfd_create("fsb-ram", MemfdFlags::CLOEXEC)
        .map_err(|errno| fail(&errno.into()))?;
    rustix::fs::ftruncate(&image, request.length()).map_err(|errno| fail(&errno.into()))?;
    block::fill(
        image.as_fd(),
        &request.filled_parts(),
        request.seed,
        &mut filling("ram", size, progress),
    )
    .map_err(|error| fail(&error))?;
    Ok(image)
}

/// The time limit for the last user of the device to end after an unmount.
const IDLE: Duration = Duration::from_secs(10);

/// An image that is attached to a loop device.
struct AttachedImage {
    /// Closed before the image, because otherwise the device would outlive it.
    device: Option<Pinned>,
    image: Option<OwnedFd>,
    node: Node,
    shown: PathBuf,
    handle: Option<EntryHandle>,
    can_discard: bool,
    range: Option<SparseRange>,
    /// The space beneath the image, if it has holes.
    space: Option<SpaceBeneath>,
    pub record: MediumRecord,
}

impl AttachedImage {
    /// Attaches `image`, and switches discard off unless a target mounts with `discard`.
    pub fn attach(
        image: OwnedFd,
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Self, TestbedError> {
        AttachedImage::attach_slice(image, (None, None), mode, request, ledger)
    }

    /// Attaches each slice of `image` to a device of its own, and calls `complete` on each.
    /// Detaches all of them on failure.
    pub fn attach_slices(
        image: &OwnedFd,
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        complete: &dyn Fn(&mut AttachedImage) -> Result<(), TestbedError>,
    ) -> Result<Divided, TestbedError> {
        let mut attached: Vec<AttachedImage> = Vec::new();
        let (layout, used) = (request.layout(), UsedPlaces::default());
        let space = image
            .try_clone()
            .ok()
            .filter(|_| request.range.is_some())
            .and_then(SpaceBeneath::of_image);
        let made = layout.iter().try_for_each(|slice| {
            let image = image.try_clone().map_err(|error| {
                TestbedError::machine("the image could not be divided").tried(&error)
            })?;
            let slice = (Some(*slice), request.range.map(|_| &used));
            let made = AttachedImage::attach_slice(image, slice, mode, request, ledger)?;
            attached.push(AttachedImage {
                space: space.clone(),
                ..made
            });
            attached.last_mut().map_or(Ok(()), complete)
        });
        if let Err(error) = made {
            attached
                .iter_mut()
                .for_each(|slice| drop(slice.close(ledger)));
            return Err(error);
        }
        let mut record = attached
            .first()
            .map(|first| first.record.clone())
            .unwrap_or_default();
        record.device.size_bytes = request.size;
        let slices = attached
            .into_iter()
            .map(|slice| Box::new(slice) as Box<dyn OpenMedium>)
            .collect();
        Ok(Divided {
            slices,
            layout,
            record,
        })
    }

    fn attach_slice(
        image: OwnedFd,
        (slice, used): (Option<Slice>, Option<&UsedPlaces>),
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Self, TestbedError> {
        let (roots, keep_discard) = (Roots::default(), request.keep_discard);
        let LoopDevice { index, fd, is_new } = attach(&image, slice, mode)?;
        let shown = loopdev::path(index);
        let device = Pinned::new(fd, shown.clone())
            .map_err(|error| TestbedError::machine(attempt("cannot use", &shown, &error)))?;
        let node = Node::make(request.nodes, device.number(), &shown)?;
        let queue = roots.sys.join(format!("block/loop{index}/queue"));
        let mut attached = AttachedImage {
            device: None,
            image: Some(image),
            node,
            shown,
            handle: None,
            can_discard: true,
            range: slice
                .zip(used)
                .map(|(slice, used)| SparseRange::new(slice, used)),
            space: None,
            record: MediumRecord::default(),
        };
        let limit = queue.join("discard_max_bytes");
        let discards = read_trimmed(&limit).is_some_and(|text| text != "0");
        if is_new || !keep_discard {
            let action = Action::RemoveLoop {
                index,
                again: !is_new,
                image: loopdev::attached(&roots, index),
            };
            attached.handle = Some(ledger.record(action)?);
        }
        attached.can_discard = discards && (keep_discard || std::fs::write(&limit, "0").is_err());
        attached.record.direct = Some(is_direct(&roots, index));
        let number = device.number();
        attached.record.device = host::device_manifest(&roots, (number.0, number.1));
        attached.device = Some(device);
        Ok(attached)
    }

    /// Records the backing of the image: the device under a file, with the devices beneath it.
    fn set_backing(&mut self, backing: String, beneath: Option<DeviceNumber>) {
        self.record.device.backing = Some(backing);
        let roots = Roots::default();
        self.record.device.beneath = beneath
            .map(|number| host::device_manifest(&roots, (number.0, number.1)))
            .into_iter()
            .collect();
    }
}

fn is_direct(roots: &Roots, index: u32) -> bool {
    roots
        .sys_text(&format!("block/loop{index}/loop/dio"))
        .as_deref()
        == Some("1")
}

/// Attaches the image with the smallest sectors first. If the disk beneath has 4 KiB sectors, only
/// those allow direct I/O.
fn attach(image: &OwnedFd, slice: Option<Slice>, mode: Mode) -> Result<LoopDevice, TestbedError> {
    use std::os::fd::AsFd;
    fn fail(why: Refusal) -> TestbedError {
        TestbedError::machine("the image could not be attached to a loop device").tried(why).advice(
            "check that /dev/loop-control exists and that this container may use loop devices, or measure a directory",
        )
    }
    let window = slice.map_or(Window::WHOLE, |slice| Window {
        start: slice.start,
        bytes: slice.bytes,
    });
    let device = loopdev::attach(image.as_fd(), window, mode, 0).map_err(fail)?;
    if mode == Mode::Buffered || is_direct(&Roots::default(), device.index) {
        return Ok(device);
    }
    drop(device);
    loopdev::attach(image.as_fd(), window, mode, 4096).map_err(fail)
}

impl OpenMedium for AttachedImage {
    fn device(&self) -> &Path {
        self.node.path()
    }

    fn shown(&self) -> &Path {
        &self.shown
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.node.verify(&self.shown)
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.can_discard
    }

    fn lend(&mut self) {
        if let Some(device) = &self.device {
            device.unlock();
        }
    }

    fn lock(&mut self) {
        if let Some(device) = &self.device {
            device.lock_against_udev();
        }
    }

    /// Waits until the device is free. Only this run uses it, but a mount that remains in another
    /// namespace would make the next one warm.
    fn take_back(&mut self) -> Result<(), TestbedError> {
        let Some(device) = &self.device else {
            return Ok(());
        };
        let mut answer = Ok(());
        poll_until(IDLE, || {
            answer = device.open_again(false, true).map(drop);
            answer.is_ok()
        });
        device.lock_against_udev();
        answer.map_err(|error| {
            TestbedError::trial("the target is still in use after it was unmounted").tried(attempt(
                "open with O_EXCL",
                &self.shown,
                &error,
            ))
            .advice(
                "end the process outside the run that holds a file of the target open, which a command may have sent \
                 to it, and measure without --network",
            )
        })
    }

    fn range(&mut self) -> Option<&mut SparseRange> {
        self.range.as_mut()
    }

    fn show(&mut self, window: Slice, _: &Ledger) -> Result<(), TestbedError> {
        let (Some(range), Some(device)) = (&mut self.range, &self.device) else {
            return Ok(());
        };
        if range.shown() == window {
            return Ok(());
        }
        let shown = device.open_again(true, false).and_then(|device| {
            loopdev::set_window(
                &device,
                Window {
                    start: window.start,
                    bytes: window.bytes,
                },
            )
        });
        shown.map_err(|error| {
            TestbedError::trial("the size of a loop device could not be changed").tried(attempt(
                "LOOP_SET_STATUS64 on",
                &self.shown,
                &error,
            ))
        })?;
        range.show(window);
        self.record.device.size_bytes = window.bytes;
        // Kernels before 6.9 switch discards on again.
        let limit = Roots::default()
            .sys
            .join("block")
            .join(self.shown.file_name().unwrap_or_default());
        let limit = limit.join("queue/discard_max_bytes");
        if !self.can_discard && read_trimmed(&limit).is_some_and(|text| text != "0") {
            self.can_discard = std::fs::write(&limit, "0").is_err();
        }
        Ok(())
    }

    fn note_used(&mut self) {
        if let (Some(range), Some(image)) = (&mut self.range, &self.image)
            && range.is_extended()
        {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            for part in range.note_used(&data_parts(image, range.shown())) {
                // If this is refused, the image stays larger.
                let _ = rustix::fs::fallocate(image, flags, part.start, part.end - part.start);
            }
        }
    }

    fn space_beneath(&self) -> Option<SpaceBeneath> {
        self.space
            .clone()
            .filter(|_| self.range.as_ref().is_some_and(SparseRange::is_extended))
    }

    /// Discards make holes, so nothing is known of an image with them.
    fn occupied(&self) -> Option<u64> {
        let range = self.range.as_ref().filter(|_| !self.can_discard)?;
        occupied(self.image.as_ref().filter(|_| range.is_extended())?)
    }

    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        self.device = None;
        self.image = None;
        let undone = self.handle.take().map(|handle| ledger.undo(handle));
        undone
            .and_then(Result::err)
            .map(|error| error.to_string())
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_no_name_and_stays_in_the_directory_that_was_checked() {
        let place = tempfile::tempdir().unwrap();
        let (dir, away, other) = (
            place.path().join("dir"),
            place.path().join("away"),
            place.path().join("other"),
        );
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

    #[test]
    fn parts_of_an_image_that_are_no_holes_are_found() {
        const MIB: u64 = 1 << 20;
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let medium = fsb_model::Medium {
            name: "loop".to_owned(),
            argument: None,
        };
        let (size, range) = (8 * MIB, Some(1 << 30));
        let request = MediumRequest {
            size,
            range,
            slices: 1,
            ..MediumRequest::new(&medium, place.path())
        };
        let image = make_filled_image(&request, &mut |_| {}).unwrap();
        let slice = request.layout()[0];
        let window = Slice {
            start: slice.start - MIB,
            bytes: 64 * MIB,
        };
        assert_eq!(
            data_parts(&image, window),
            vec![slice.start..slice.start + slice.bytes]
        );
        assert!((8 * MIB..9 * MIB).contains(&occupied(&image).unwrap()));
        assert_eq!(
            rustix::fs::fstat(&image).unwrap().st_size as u64,
            request.length()
        );
    }
}
