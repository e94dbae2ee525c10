//! What the kernel answers, in words: its sentence with the error's name, for those who search for it.

use std::io;

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

/// The errors that file systems and devices answer with; others are shown by number.
static NAMES: &[(i32, &str)] = names! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL
    ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY
    ELOOP ENODATA ETIME EREMOTE ENOLINK EPROTO EBADMSG EOVERFLOW EILSEQ EUSERS EOPNOTSUPP ENOBUFS ENOTCONN ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN EREMOTEIO EDQUOT ENOMEDIUM ECANCELED
};

/// `No space left on device (ENOSPC)`.
pub fn describe(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    // The standard library appends its own "(os error 28)"; people know the name better than the number.
    let words = text.split(" (os error").next().unwrap_or(&text);
    match NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("{words} ({name})"),
        None => format!("{words} (error {number})"),
    }
}

/// The same for an error of the standard library, which may not come from the kernel.
pub fn describe_io(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), describe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_have_their_names() {
        assert_eq!(describe(libc::EROFS), "Read-only file system (EROFS)");
        assert_eq!(describe_io(&io::Error::from_raw_os_error(libc::EIO)), "Input/output error (EIO)");
        assert_eq!(describe_io(&io::Error::other("plain")), "plain");
    }

    #[test]
    fn an_error_without_a_name_keeps_its_number() {
        assert!(describe(133).ends_with("(error 133)"), "{}", describe(133));
    }
}
