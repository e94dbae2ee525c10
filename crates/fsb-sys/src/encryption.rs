//! Encryption of directories by the file system: fscrypt of Linux.
//!
//! The kernel keeps the key of a mounted file system until it is unmounted.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::Opcode;
use rustix::rand::GetRandomFlags;

/// Bytes of a key: FSCRYPT_MAX_KEY_SIZE of linux/fscrypt.h.
const KEY_SIZE: usize = 64;
/// Bytes of the identifier that the kernel computes from a key: FSCRYPT_KEY_IDENTIFIER_SIZE.
const IDENTIFIER_SIZE: usize = 16;

/// A random key.
pub struct Key([u8; KEY_SIZE]);

/// struct fscrypt_add_key_arg, without the key that follows it.
#[repr(C)]
struct AddKey {
    /// FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER.
    kind: u32,
    reserved: u32,
    identifier: [u8; IDENTIFIER_SIZE],
    /// The rest of the union.
    union: [u8; 16],
    key_size: u32,
    key_id: u32,
    reserved_too: [u32; 8],
}

/// An argument of FS_IOC_ADD_ENCRYPTION_KEY.
#[repr(C)]
struct AddKeyWithKey {
    argument: AddKey,
    key: [u8; KEY_SIZE],
}

/// struct fscrypt_policy_v2.
#[repr(C)]
struct Policy {
    version: u8,
    contents_mode: u8,
    names_mode: u8,
    flags: u8,
    log2_data_unit_size: u8,
    reserved: [u8; 3],
    identifier: [u8; IDENTIFIER_SIZE],
}

/// `FS_IOC_ADD_ENCRYPTION_KEY` of linux/fscrypt.h.
const ADD_KEY: Opcode = rustix::ioctl::opcode::read_write::<AddKey>(b'f', 23);
/// `FS_IOC_SET_ENCRYPTION_POLICY`. Its number has the size of struct fscrypt_policy_v1, 12 bytes.
const SET_POLICY: Opcode = rustix::ioctl::opcode::read::<[u8; 12]>(b'f', 19);
const KEY_SPEC_TYPE_IDENTIFIER: u32 = 2;
const POLICY_V2: u8 = 2;
const MODE_AES_256_XTS: u8 = 1;
const MODE_AES_256_CTS: u8 = 4;
/// Pads names to multiples of 32 bytes.
const PAD_32: u8 = 3;

impl Key {
    /// Returns a new key.
    ///
    /// # Errors
    ///
    /// If the kernel has no random numbers.
    pub fn random() -> io::Result<Key> {
        let mut key = [0; KEY_SIZE];
        // Short only if a signal interrupts larger requests.
        rustix::rand::getrandom(&mut key, GetRandomFlags::empty())?;
        Ok(Key(key))
    }

    /// Gives the key to the file system that is mounted at `point`. Returns its identifier.
    fn add_to(&self, point: &File) -> Result<[u8; IDENTIFIER_SIZE], Errno> {
        let argument = AddKey {
            kind: KEY_SPEC_TYPE_IDENTIFIER,
            reserved: 0,
            identifier: [0; IDENTIFIER_SIZE],
            union: [0; 16],
            key_size: KEY_SIZE as u32,
            key_id: 0,
            reserved_too: [0; 8],
        };
        let mut request = AddKeyWithKey {
            argument,
            key: self.0,
        };
        // SAFETY: the kernel reads and writes a structure of the size in the number of the call,
        // and reads the key of `key_size` bytes behind it; both are in `request`.
        match unsafe { libc::ioctl(point.as_raw_fd(), ADD_KEY as _, &raw mut request) } {
            0 => Ok(request.argument.identifier),
            _ => Err(last_error()),
        }
    }
}

/// Gives a key to the file system that is mounted at `point`, so that files that it encrypted can
/// be used.
///
/// # Errors
///
/// Fails with EOPNOTSUPP if the file system or the kernel does not encrypt.
pub fn unlock(point: &Path, key: &Key) -> Result<(), Errno> {
    key.add_to(&open(point)?).map(drop)
}

/// Encrypts what will be made in an empty directory: contents with AES-256-XTS, names with
/// AES-256-CTS.
///
/// # Errors
///
/// Fails with EOPNOTSUPP if the file system or the kernel does not encrypt, and with ENOTEMPTY if
/// the directory is not empty.
pub fn encrypt(directory: &Path, key: &Key) -> Result<(), Errno> {
    let directory = open(directory)?;
    let policy = Policy {
        version: POLICY_V2,
        contents_mode: MODE_AES_256_XTS,
        names_mode: MODE_AES_256_CTS,
        flags: PAD_32,
        log2_data_unit_size: 0,
        reserved: [0; 3],
        identifier: key.add_to(&directory)?,
    };
    // SAFETY: the first byte tells the kernel the version of the structure, and it reads no more
    // than that version has.
    match unsafe { libc::ioctl(directory.as_raw_fd(), SET_POLICY as _, &raw const policy) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn open(directory: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty()).map(File::from)
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        assert_eq!(
            (
                size_of::<AddKey>(),
                size_of::<AddKeyWithKey>(),
                size_of::<Policy>()
            ),
            (80, 144, 24)
        );
        assert_eq!((ADD_KEY, SET_POLICY), (0xc050_6617, 0x800c_6613));
    }

    #[test]
    fn keys_differ_and_file_systems_without_encryption_refuse_them() {
        let [one, other] = [Key::random().unwrap(), Key::random().unwrap()];
        assert_ne!(one.0, other.0);
        let proc = Path::new("/proc");
        for refused in [unlock(proc, &one), encrypt(proc, &one)] {
            assert!(
                matches!(refused, Err(Errno::NOTTY | Errno::OPNOTSUPP)),
                "{refused:?}"
            );
        }
    }
}
