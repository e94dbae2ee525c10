//! The one error of this crate, under its name, and what the kernel answered, in words for the error's parts.

use std::io;
use std::path::Path;

pub use fsb_model::error::{Error as TestbedError, Kind};

/// `Permission denied (EACCES)`: the kernel's sentence with its name, for those who search for it.
pub(crate) fn describe(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let sentence = error.to_string();
    let sentence = sentence.split(" (os error").next().unwrap_or_default();
    match errno_name(code) {
        Some(name) => format!("{sentence} ({name})"),
        None => format!("{sentence} (error {code})"),
    }
}

/// `open /dev/sdb: Permission denied (EACCES)`.
pub(crate) fn attempt(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("{verb} {}: {}", path.display(), describe(error))
}

/// The names that file systems and devices answer with.
fn errno_name(code: i32) -> Option<&'static str> {
    let names = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EIO, "EIO"),
        (libc::ENXIO, "ENXIO"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::EFBIG, "EFBIG"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EROFS, "EROFS"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::EUCLEAN, "EUCLEAN"),
        (libc::EDQUOT, "EDQUOT"),
        (libc::ELOOP, "ELOOP"),
    ];
    names.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_have_their_names() {
        assert_eq!(describe(&io::Error::from_raw_os_error(libc::EROFS)), "Read-only file system (EROFS)");
        assert_eq!(describe(&io::Error::other("plain")), "plain");
    }
}
