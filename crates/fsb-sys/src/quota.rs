//! Quotas of projects: the space that the files below a directory may use, in ext4, xfs and f2fs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::Opcode;

/// struct fsxattr of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR` of linux/fs.h.
const GET_ATTRIBUTES: Opcode = rustix::ioctl::opcode::read::<Attributes>(b'X', 31);
const SET_ATTRIBUTES: Opcode = rustix::ioctl::opcode::write::<Attributes>(b'X', 32);
/// `FS_XFLAG_PROJINHERIT`: what is made in the directory belongs to its project.
const INHERIT_PROJECT: u32 = 0x200;
/// `QCMD(Q_SETQUOTA, PRJQUOTA)` of linux/quota.h.
const SET_PROJECT_QUOTA: libc::c_int = (libc::Q_SETQUOTA << 8) | 2;
/// The unit of the limits of struct dqblk, in bytes: QIF_DQBLKSIZE.
const BLOCK: u64 = 1024;

/// Makes an empty directory the root of a project, whose files may have `bytes` together, rounded
/// up to KiB. Root and processes with `CAP_SYS_RESOURCE` are not limited. `device` is the block
/// device of the file system.
///
/// # Errors
///
/// Fails with ENOTTY or EOPNOTSUPP if the file system has no projects, and with ESRCH if their
/// quotas are off.
pub fn limit_project(directory: &Path, device: &Path, project: u32, bytes: u64) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened: OwnedFd = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes a structure of the size in the number of the call.
    if unsafe { libc::ioctl(opened.as_raw_fd(), GET_ATTRIBUTES as _, &raw mut attributes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.project = project;
    attributes.flags |= INHERIT_PROJECT;
    // SAFETY: the kernel reads a structure of the size in the number of the call.
    if unsafe {
        libc::ioctl(
            opened.as_raw_fd(),
            SET_ATTRIBUTES as _,
            &raw const attributes,
        )
    } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let device = CString::new(device.as_os_str().as_bytes())?;
    // SAFETY: all zeros are a valid struct dqblk, which has integers only.
    let mut limits: libc::dqblk = unsafe { std::mem::zeroed() };
    limits.dqb_bhardlimit = bytes.div_ceil(BLOCK);
    limits.dqb_valid = libc::QIF_BLIMITS;
    let data = (&raw mut limits).cast();
    // SAFETY: the device is a string that ends with 0, and the kernel reads a struct dqblk.
    match unsafe {
        libc::quotactl(
            SET_PROJECT_QUOTA,
            device.as_ptr(),
            project as libc::c_int,
            data,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_calls_are_those_of_the_kernel() {
        assert_eq!(
            (size_of::<Attributes>(), size_of::<libc::dqblk>()),
            (28, 72)
        );
        assert_eq!((GET_ATTRIBUTES, SET_ATTRIBUTES), (0x801c_581f, 0x401c_5820));
        assert_eq!(SET_PROJECT_QUOTA as u32, 0x8000_0802);
    }
}
