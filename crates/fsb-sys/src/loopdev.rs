//! Loop devices: attach, observe, renew.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Roots, block, poll_until};
use crate::error::Refusal;

// linux/loop.h
const LOOP_SET_STATUS64: libc::c_ulong = 0x4C04;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// An attached loop device. The kernel detaches it with the last descriptor or mount that uses it
/// (autoclear).
#[derive(Debug)]
pub struct LoopDevice {
    /// N of `/dev/loopN`.
    pub index: u32,
    /// The descriptor that keeps the device attached.
    pub fd: OwnedFd,
    /// Whether attaching created the device, so that fsb should remove it.
    pub is_new: bool,
}

pub fn path(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{index}"))
}

/// The I/O path from the loop device to the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bypasses the page cache of the file system that holds the image.
    Direct,
    /// Uses the page cache: for images in memory, which are page cache themselves.
    Buffered,
}

/// The slice of the image that the device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The offset of the first byte.
    pub start: u64,
    /// The length in bytes; 0 means up to the end.
    pub bytes: u64,
}

impl Window {
    pub const WHOLE: Window = Window { start: 0, bytes: 0 };
}

/// Attaches `image` to a free loop device. Tries again on EBUSY, because another process may take
/// the same device first.
pub fn attach(
    image: BorrowedFd<'_>,
    window: Window,
    mode: Mode,
    block_size: u32,
) -> Result<LoopDevice, Refusal> {
    const ATTEMPTS: u32 = 64;
    let control = open_control()?;
    for _ in 0..ATTEMPTS {
        let before = existing(&Roots::default());
        let index = free_index(&control)?;
        let is_new = !before.contains(&index);
        let device = match open_device(index) {
            Ok(device) => device,
            // Another process took it, or its owner took it out of the kernel.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EBUSY | libc::ENOENT | libc::ENXIO | libc::ENODEV)
                ) =>
            {
                continue;
            }
            Err(error) => return Err(crate::error::attempt("open", &path(index), &error)),
        };
        let flags = LO_FLAGS_AUTOCLEAR
            | if mode == Mode::Direct {
                LO_FLAGS_DIRECT_IO
            } else {
                0
            };
        match configure(&device, image, window, flags, block_size) {
            Ok(()) => {
                return Ok(LoopDevice {
                    index,
                    fd: device,
                    is_new,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => {
                return Err(crate::error::attempt(
                    "LOOP_CONFIGURE on",
                    &path(index),
                    &error,
                ));
            }
        }
    }
    Err(format!("other processes took {ATTEMPTS} free loop devices in a row").into())
}

/// Opens the node and checks that it is the kernel's loop device with that number.
fn open_device(index: u32) -> io::Result<OwnedFd> {
    let device = crate::pinned::Pinned::new(block::open(&path(index), true, false)?, path(index))?;
    let directory = Roots::default().sys.join(format!("block/loop{index}"));
    match block::number_in(&directory) {
        Some(number) if number != device.number() => {
            Err(io::Error::other("this is another device"))
        }
        _ => Ok(device.into_descriptor()),
    }
}

/// Returns the numbers of all loop devices, attached or not.
fn existing(roots: &Roots) -> BTreeSet<u32> {
    let devices = std::fs::read_dir(roots.sys.join("block"))
        .into_iter()
        .flatten();
    devices
        .filter_map(|device| {
            device
                .ok()?
                .file_name()
                .to_str()?
                .strip_prefix("loop")?
                .parse()
                .ok()
        })
        .collect()
}

fn open_control() -> Result<OwnedFd, Refusal> {
    let control = Path::new("/dev/loop-control");
    block::open(control, true, false)
        .map_err(|error| crate::error::attempt("open", control, &error))
}

fn free_index(control: &OwnedFd) -> Result<u32, Refusal> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument.
    let index = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
    u32::try_from(index)
        .map_err(|_| Refusal::call("LOOP_CTL_GET_FREE", &io::Error::last_os_error()))
}

fn configure(
    device: &OwnedFd,
    image: BorrowedFd<'_>,
    window: Window,
    flags: u32,
    block_size: u32,
) -> io::Result<()> {
    let info = Info {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: window.start,
        size_limit: window.bytes,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config = Config {
        fd: image.as_raw_fd() as u32,
        block_size,
        info,
        reserved: [0; 8],
    };
    // SAFETY: the structure is laid out as linux/loop.h has it, and only read.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The image behind a loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// The path of the image when it was attached.
    pub path: PathBuf,
    /// The number of the block device, if the image is one.
    pub device: Option<block::DeviceNumber>,
    /// File system and inode, if the image is a file. `None` if the device could not be opened.
    pub file: Option<(u64, u64)>,
}

/// Returns the image behind the loop device of a directory below /sys. Returns `None` if none is
/// attached. Asks the device itself, because the path may name another file by now. In the trees of
/// tests only the path is known.
pub fn backing(directory: &Path) -> Option<Backing> {
    let path = PathBuf::from(super::read_trimmed(&directory.join("loop/backing_file"))?);
    let info = status(directory);
    let device = info.as_ref().filter(|info| info.rdevice != 0);
    Some(Backing {
        device: device.map(|info| block::DeviceNumber::from_raw(info.rdevice)),
        file: info
            .as_ref()
            .filter(|info| info.rdevice == 0)
            .map(|info| (info.device, info.inode)),
        path,
    })
}

fn status(directory: &Path) -> Option<Info> {
    if !directory.starts_with(Roots::default().sys) {
        return None;
    }
    let name = Path::new("/dev").join(directory.file_name()?);
    let device = crate::pinned::Pinned::known(&name, block::number_in(directory)?).ok()?;
    status_of(device.descriptor()).ok()
}

fn status_of(device: &OwnedFd) -> io::Result<Info> {
    // SAFETY: all its fields are numbers, for which zero is a value.
    let mut info: Info = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is laid out as linux/loop.h has it, and the kernel writes one.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &mut info) } {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Shows another window of the image that is attached to an unused device, open for writing. Keeps
/// all other settings. Tries again while other programs read the device: the kernel drops its pages
/// first, and answers EAGAIN if some come back.
pub fn set_window(device: &OwnedFd, window: Window) -> io::Result<()> {
    let mut info = status_of(device)?;
    (info.offset, info.size_limit) = (window.start, window.bytes);
    let mut answer = Ok(());
    poll_until(DETACH, || {
        // SAFETY: the structure is laid out as linux/loop.h has it, and only read.
        answer = match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64 as _, &info) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        !answer
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
    });
    answer
}

/// Time limit for a loop device to release its image after the last close, and for readers of the
/// device to end.
const DETACH: Duration = Duration::from_millis(500);

/// Removes a detached device from the kernel. With `again`, adds a fresh one with the same number.
///
/// Only a fresh device gets rid of a `discard_max_bytes` of 0: since Linux 6.9 that value also
/// makes the discard granularity 0, and the kernel then refuses every later value (EINVAL).
///
/// `image` is the file that the caller had attached, if it is known. If another process has
/// attached another file meanwhile, the device is its own and stays: returns that file.
pub fn renew(index: u32, again: bool, image: Option<&Path>) -> Result<Option<PathBuf>, Refusal> {
    let control = open_control()?;
    let mut answer = 0;
    poll_until(DETACH, || {
        answer = control_call(&control, LOOP_CTL_REMOVE, index);
        answer != libc::EBUSY
    });
    // ENODEV: the device is already gone.
    if answer != 0 && answer != libc::ENODEV {
        return match attached(&Roots::default(), index)
            .filter(|now| image.is_some_and(|image| image != now))
        {
            Some(others) => Ok(Some(others)),
            None => Err(refused("LOOP_CTL_REMOVE", index, answer)),
        };
    }
    if again {
        answer = control_call(&control, LOOP_CTL_ADD, index);
        // EEXIST: another process added the device.
        if answer != 0 && answer != libc::EEXIST {
            return Err(refused("LOOP_CTL_ADD", index, answer));
        }
    }
    Ok(None)
}

/// Returns the path of the file that is attached to the device, whether the file was deleted since
/// or not; absent where nothing is attached.
pub fn attached(roots: &Roots, index: u32) -> Option<PathBuf> {
    let shown = super::read_trimmed(
        &roots
            .sys
            .join(format!("block/loop{index}/loop/backing_file")),
    )?;
    Some(PathBuf::from(
        shown.strip_suffix(" (deleted)").unwrap_or(&shown),
    ))
}

/// Returns 0, or the error number.
fn control_call(control: &OwnedFd, request: libc::c_ulong, index: u32) -> i32 {
    // SAFETY: both requests take a number.
    let result = unsafe {
        libc::ioctl(
            control.as_raw_fd(),
            request as _,
            libc::c_ulong::from(index),
        )
    };
    if result >= 0 {
        0
    } else {
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    }
}

fn refused(step: &str, index: u32, errno: i32) -> Refusal {
    Refusal::call(
        format!("{step} {index}"),
        &io::Error::from_raw_os_error(errno),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_names() {
        let tree = tempfile::tempdir().unwrap();
        for name in ["loop0", "loop12", "loopback", "sda"] {
            std::fs::create_dir_all(tree.path().join("block").join(name)).unwrap();
        }
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert_eq!(existing(&roots), BTreeSet::from([0, 12]));
    }

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }
}
