//! Inheritance from the recorder to the recorded program: descriptors and the session keyring.

use std::io;

/// Operations of keyctl(2), and the special ID of the session keyring.
const JOIN_SESSION_KEYRING: libc::c_long = 1;
const DESCRIBE: libc::c_long = 6;
const SESSION_KEYRING: libc::c_long = -3;

/// Sets close-on-exec on all descriptors above 2 of this process.
///
/// # Errors
/// The kernel is older than 5.11.
pub fn close_at_exec() -> io::Result<()> {
    // SAFETY: numbers alone; no descriptor is closed before an exec.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces the session keyring by a new, empty one if it belongs to another user than this process runs as. A user's own
/// keyring is kept because programs need its keys (Kerberos, fscrypt).
///
/// # Errors
/// The kernel refuses a new one, and the old one is still there.
pub fn leave_keyring_of_others() -> io::Result<()> {
    let mut text = [0u8; 256];
    // SAFETY: the kernel writes no more than the given length.
    let length = unsafe { libc::syscall(libc::SYS_keyctl, DESCRIBE, SESSION_KEYRING, text.as_mut_ptr(), text.len()) };
    if length < 0 {
        let error = io::Error::last_os_error();
        // Without keyrings, or in a sandbox that forbids keyctl(2), the program cannot read any key either.
        let none = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        return if none { Ok(()) } else { join_new() };
    }
    let owner = owner(&text[..text.len().min(length as usize)]);
    if owner == Some(rustix::process::getuid().as_raw()) { Ok(()) } else { join_new() }
}

fn join_new() -> io::Result<()> {
    // SAFETY: no name means a new keyring that no other process can join.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0) };
    if joined < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Parses the owner from a description such as `keyring;1000;1000;3f030000;_ses`.
fn owner(description: &[u8]) -> Option<u32> {
    std::str::from_utf8(description.split(|byte| *byte == b';').nth(1)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_second_field_of_a_description() {
        assert_eq!(owner(b"keyring;1000;100;3f030000;_ses\0"), Some(1000));
        assert_eq!(owner(b"keyring;-1;100;3f030000;_ses"), None);
        assert_eq!(owner(b""), None);
    }
}
