//! Devices of the kernel's device mapper, which fsb's own tests use to inject faults.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{block, poll_until};
use crate::error::{Refusal, attempt};

// linux/dm-ioctl.h
const CREATE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 3);
const REMOVE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 4);
/// Resumes the device, because the request is sent without the suspend flag: the loaded table
/// becomes the active one.
const SUSPEND: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 6);
const LOAD: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 9);

/// `struct dm_ioctl`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// `struct dm_target_spec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Spec {
    sector_start: u64,
    length: u64,
    status: i32,
    next: u32,
    target_type: [u8; 16],
}

/// Maximum length of a target's parameters in bytes. The longest ones of fsb are two paths and two
/// numbers.
const PARAMETERS: usize = 128;

/// One line of a table: sectors, the target that serves them, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub start: u64,
    pub length: u64,
    pub target: &'static str,
    pub parameters: String,
}

/// The argument of a device-mapper ioctl: the head, followed by the table.
#[repr(C)]
struct DmIoctl {
    head: Head,
    rows: [TableLine; MOST],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct TableLine {
    spec: Spec,
    parameters: [u8; PARAMETERS],
}

/// Maximum number of lines of a table.
const MOST: usize = 4;

/// A mapped device. It exists until [`Mapped::remove`].
#[derive(Debug)]
pub struct Mapped {
    control: OwnedFd,
    name: String,
    pub path: PathBuf,
}

impl Mapped {
    /// Creates the device with that name and table.
    pub fn make(name: &str, table: &[Line]) -> Result<Mapped, Refusal> {
        let path = Path::new("/dev/mapper/control");
        let control =
            block::open(path, true, false).map_err(|error| attempt("open", path, &error))?;
        let made = call(&control, CREATE, name, &[])
            .map_err(|error| Refusal::call("DM_DEV_CREATE", &error))?;
        // huge_encode_dev of the kernel: twenty bits of a minor number around twelve of a major
        // one.
        let minor = (made.dev & 0xff) | ((made.dev >> 12) & 0xfff00);
        let mapped = Mapped {
            control,
            name: name.to_owned(),
            path: PathBuf::from(format!("/dev/dm-{minor}")),
        };
        for (request, what, rows) in [
            (LOAD, "DM_TABLE_LOAD", table),
            (SUSPEND, "DM_DEV_SUSPEND", &[]),
        ] {
            if let Err(error) = call(&mapped.control, request, name, rows) {
                let _ = mapped.remove();
                return Err(Refusal::call(what, &error));
            }
        }
        poll_until(Duration::from_secs(10), || {
            block::number_of(&mapped.path).is_some()
        });
        Ok(mapped)
    }

    /// Removes the device.
    pub fn remove(&self) -> Result<(), Refusal> {
        call(&self.control, REMOVE, &self.name, &[])
            .map(drop)
            .map_err(|error| Refusal::call(format!("DM_DEV_REMOVE {}", self.name), &error))
    }
}

fn call(
    control: &OwnedFd,
    opcode: rustix::ioctl::Opcode,
    name: &str,
    rows: &[Line],
) -> io::Result<Head> {
    let mut request = request(name, rows).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel reads and writes at most `data_size` bytes, which is the size of the
    // request.
    match unsafe { libc::ioctl(control.as_raw_fd(), opcode as _, &mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(request.head),
    }
}

/// Returns `None` if the name, the lines or their parameters do not fit.
fn request(name: &str, rows: &[Line]) -> Option<DmIoctl> {
    let head = Head {
        version: [4, 0, 0],
        data_size: size_of::<DmIoctl>() as u32,
        data_start: std::mem::offset_of!(DmIoctl, rows) as u32,
        target_count: rows.len() as u32,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: 0,
        name: text(name)?,
        uuid: [0; 129],
        data: [0; 7],
    };
    let none = Spec {
        sector_start: 0,
        length: 0,
        status: 0,
        next: 0,
        target_type: [0; 16],
    };
    let mut all = [TableLine {
        spec: none,
        parameters: [0; PARAMETERS],
    }; MOST];
    for (place, line) in rows.iter().enumerate() {
        let spec = Spec {
            sector_start: line.start,
            length: line.length,
            next: size_of::<TableLine>() as u32,
            target_type: text(line.target)?,
            ..none
        };
        *all.get_mut(place)? = TableLine {
            spec,
            parameters: text(&line.parameters)?,
        };
    }
    Some(DmIoctl { head, rows: all })
}

/// Copies a text and a terminating zero into an array. Returns `None` if it is too long.
fn text<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    bytes
        .get_mut(..text.len())
        .filter(|_| text.len() < N)?
        .copy_from_slice(text.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels_header() {
        assert_eq!((size_of::<Head>(), size_of::<Spec>()), (312, 40));
        assert_eq!(std::mem::offset_of!(DmIoctl, rows), 312);
        assert_eq!(CREATE, 0xc138_fd03);
    }

    #[test]
    fn requests_that_do_not_fit_are_not_made() {
        let line = |parameters: String| Line {
            start: 0,
            length: 8,
            target: "linear",
            parameters,
        };
        assert!(request("x", &[line("7:0 0".to_owned())]).is_some());
        assert!(request("x", &[line("y".repeat(PARAMETERS))]).is_none());
        assert!(request(&"x".repeat(200), &[]).is_none());
        assert!(request("x", &vec![line(String::new()); MOST + 1]).is_none());
    }
}
