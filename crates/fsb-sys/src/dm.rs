//! Devices of the kernel's device mapper: encrypted devices, logical volumes, and disks that fail
//! in fsb's own tests.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{block, poll_until, program};
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

/// Sends a message to a target.
const MESSAGE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 14);
/// Lists the targets that the kernel knows.
const VERSIONS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<Head>(0xfd, 13);

/// Maximum length of a target's parameters in bytes. The longest ones of fsb are a cipher with a
/// key of 128 digits.
const PARAMETERS: usize = 256;

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

/// A message to a target: the head, followed by `struct dm_target_msg`.
#[repr(C)]
struct Message {
    head: Head,
    sector: u64,
    words: [u8; 64],
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

    /// Returns the name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a message to the target in its first sector.
    pub fn message(&self, words: &str) -> Result<(), Refusal> {
        let mut message = Message {
            head: head(&self.name, size_of::<Message>(), 0).ok_or("the name is too long")?,
            sector: 0,
            words: text(words).ok_or("the message is too long")?,
        };
        send(&self.control, MESSAGE, &mut message)
            .map_err(|error| Refusal::call(format!("DM_TARGET_MSG {words}"), &error))
    }
}

/// Checks that the kernel has these targets of the device mapper, and loads `modules` if necessary.
pub fn has(targets: &[&str], modules: &[&str]) -> Result<(), Refusal> {
    let missing = || -> Result<Option<String>, Refusal> {
        let path = Path::new("/dev/mapper/control");
        let control =
            block::open(path, true, false).map_err(|error| attempt("open", path, &error))?;
        let listed =
            versions(&control).map_err(|error| Refusal::call("DM_LIST_VERSIONS", &error))?;
        let unlisted = targets
            .iter()
            .find(|target| !listed.iter().any(|known| known == *target));
        Ok(unlisted.map(|target| (*target).to_owned()))
    };
    if missing() == Ok(None) {
        return Ok(());
    }
    if let Some(modprobe) = program::find("modprobe") {
        for module in modules {
            // The messages of modprobe add nothing: the next check shows the result.
            let _ = program::run(&modprobe, &[module]);
        }
    }
    match missing()? {
        None => Ok(()),
        Some(target) => Err(format!("this kernel's device mapper has no {target}").into()),
    }
}

/// Removes the device of that name, and waits until its last user has closed it. Describes the
/// result.
pub fn remove(name: &str) -> Result<String, Refusal> {
    /// The time limit for the last user.
    const PATIENCE: Duration = Duration::from_secs(10);
    let path = Path::new("/dev/mapper/control");
    let control = block::open(path, true, false).map_err(|error| attempt("open", path, &error))?;
    let mut answer = Ok(());
    poll_until(PATIENCE, || {
        answer = call(&control, REMOVE, name, &[]).map(drop);
        !answer
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    });
    match answer {
        Ok(()) => Ok(format!("removed the mapped device {name}")),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            Ok(format!("the mapped device {name} is gone"))
        }
        Err(error) => Err(Refusal::call(format!("DM_DEV_REMOVE {name}"), &error)),
    }
}

/// Returns the names of the targets that the kernel knows.
fn versions(control: &OwnedFd) -> io::Result<Vec<String>> {
    /// Bytes of `struct dm_target_versions` before the name: its length and the version.
    const BEFORE_NAME: usize = 16;
    let mut answer = request("", &[]).ok_or(io::ErrorKind::InvalidInput)?;
    send(control, VERSIONS, &mut answer)?;
    // SAFETY: every byte of the structure is initialised, and any byte is a valid u8.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const answer).cast::<u8>(), size_of::<DmIoctl>())
    };
    let mut names = Vec::new();
    let mut at = answer.head.data_start as usize;
    while let Some(entry) = bytes.get(at..).filter(|entry| entry.len() > BEFORE_NAME) {
        let name: Vec<u8> = entry[BEFORE_NAME..]
            .iter()
            .copied()
            .take_while(|byte| *byte != 0)
            .collect();
        names.push(String::from_utf8_lossy(&name).into_owned());
        let next = u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
        if next == 0 {
            break;
        }
        at += next;
    }
    Ok(names)
}

fn call(
    control: &OwnedFd,
    opcode: rustix::ioctl::Opcode,
    name: &str,
    rows: &[Line],
) -> io::Result<Head> {
    let mut request = request(name, rows).ok_or(io::ErrorKind::InvalidInput)?;
    send(control, opcode, &mut request)?;
    Ok(request.head)
}

/// Makes a request, in which the kernel writes its answer. `T` begins with a [`Head`], whose
/// `data_size` is the size of `T`.
fn send<T>(control: &OwnedFd, opcode: rustix::ioctl::Opcode, request: &mut T) -> io::Result<()> {
    // SAFETY: the kernel reads and writes at most `data_size` bytes, which is the size of the
    // request.
    match unsafe {
        libc::ioctl(
            control.as_raw_fd(),
            opcode as _,
            std::ptr::from_mut(request),
        )
    } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the head of a request of `size` bytes. Returns `None` if the name is too long.
fn head(name: &str, size: usize, targets: usize) -> Option<Head> {
    Some(Head {
        version: [4, 0, 0],
        data_size: size as u32,
        data_start: size_of::<Head>() as u32,
        target_count: targets as u32,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: 0,
        name: text(name)?,
        uuid: [0; 129],
        data: [0; 7],
    })
}

/// Returns `None` if the name, the lines or their parameters do not fit.
fn request(name: &str, rows: &[Line]) -> Option<DmIoctl> {
    let head = head(name, size_of::<DmIoctl>(), rows.len())?;
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
        assert_eq!(std::mem::offset_of!(Message, sector), 312);
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
