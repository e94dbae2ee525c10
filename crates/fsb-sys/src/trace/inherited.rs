//! Inheritance from the recorder to the recorded program: the session keyring.

use std::io;

use crate::sandbox::join_new_session_keyring;

/// Operations of keyctl(2), and the special ID of the session keyring.
const DESCRIBE: libc::c_long = 6;
const SESSION_KEYRING: libc::c_long = -3;

/// Replaces the session keyring by a new, empty one if it belongs to another user than this process runs as. A user's
/// own keyring is kept because programs need its keys (Kerberos, fscrypt).
///
/// # Errors
/// Fails if the kernel refuses a new keyring. The old one then stays.
pub fn leave_keyring_of_others() -> io::Result<()> {
    let mut text = [0u8; 256];
    // SAFETY: the kernel writes no more than the given length.
    let length = unsafe { libc::syscall(libc::SYS_keyctl, DESCRIBE, SESSION_KEYRING, text.as_mut_ptr(), text.len()) };
    if length < 0 {
        let error = io::Error::last_os_error();
        // Without keyrings, or in a sandbox that forbids keyctl(2), the program cannot read any key either.
        let none = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        return if none { Ok(()) } else { join_new_session_keyring() };
    }
    let owner = owner(&text[..text.len().min(length as usize)]);
    if owner == Some(rustix::process::getuid().as_raw()) { Ok(()) } else { join_new_session_keyring() }
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
