//! Texts of kernel errors: the system's message with the name of the error, which users can search
//! for.

use std::io;

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

/// The errors that file systems and devices return. Other errors keep their number.
static NAMES: &[(i32, &str)] = names! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL
    ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY
    ELOOP ENODATA ETIME EREMOTE ENOLINK EPROTO EBADMSG EOVERFLOW EILSEQ EUSERS EOPNOTSUPP ENOBUFS ENOTCONN ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN EREMOTEIO EDQUOT ENOMEDIUM ECANCELED
};

/// Returns the system's message with the name of the error: `No space left on device (ENOSPC)`. An
/// error that has no name here is shown with its number.
pub fn describe(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    // The standard library appends its own "(os error 28)"; people know the name better than the
    // number.
    let words = text.split(" (os error").next().unwrap_or(&text);
    match name(number) {
        Some(name) => format!("{words} ({name})"),
        None => format!("{words} (error {number})"),
    }
}

/// Returns the name of an error: `ENOSPC`. `None` if this module has no name for it.
pub fn name(number: i32) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}

/// Returns the number of the kernel's error in an error of the standard library,
/// [explained](explain) or not.
pub fn number(error: &io::Error) -> Option<i32> {
    error
        .raw_os_error()
        .or_else(|| number(&error.get_ref()?.downcast_ref::<Explained>()?.error))
}

/// Returns the name of the kernel's error in an error of the standard library: `ENOSPC`.
pub fn name_of(error: &io::Error) -> Option<&'static str> {
    number(error).and_then(name)
}

/// Returns the error with another text. The standard library drops the number of an error that gets
/// a text.
pub fn explain(error: io::Error, text: String) -> io::Error {
    io::Error::new(error.kind(), Explained { error, text })
}

/// An error of the standard library with a text that replaces its own.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Explained {
    error: io::Error,
    text: String,
}

/// Describes an error of the standard library. An error that is not from the kernel keeps its own
/// message.
pub fn describe_io(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), describe)
}

/// The command that allows more processes and threads.
pub const MORE_PROCESSES: &str =
    "allow more processes and threads: ulimit -u, and pids.max of the cgroup";

/// Returns the command that raises the limit on open files, or `None` if the error of this name has
/// another cause. This advice replaces the advice about the file that could not be opened, because
/// that file is not the cause.
pub fn advice_on_limits(name: &str) -> Option<&'static str> {
    match name {
        "EMFILE" => Some("raise the limit on open files: ulimit -n 1024"),
        "ENFILE" => Some("raise the machine's limit on open files: sysctl fs.file-max"),
        _ => None,
    }
}

/// Describes the error of a thread or process that could not be created, with the command that
/// allows more of them if their number is limited.
pub fn describe_spawn(error: &io::Error) -> String {
    let described = describe_io(error);
    match error.raw_os_error() {
        Some(libc::EAGAIN) => format!("{described}; {MORE_PROCESSES}"),
        _ => described,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_have_their_names() {
        assert_eq!(describe(libc::EROFS), "Read-only file system (EROFS)");
        assert_eq!(
            describe_io(&io::Error::from_raw_os_error(libc::EIO)),
            "Input/output error (EIO)"
        );
        assert_eq!(describe_io(&io::Error::other("plain")), "plain");
    }

    #[test]
    fn an_explained_error_keeps_its_number() {
        let error = explain(
            io::Error::from_raw_os_error(libc::EACCES),
            "refused to the user".to_owned(),
        );
        let error = explain(error, "cannot read a: refused to the user".to_owned());
        assert_eq!(
            (number(&error), error.kind()),
            (Some(libc::EACCES), io::ErrorKind::PermissionDenied)
        );
        assert_eq!(error.to_string(), "cannot read a: refused to the user");
        assert_eq!(number(&io::Error::other("plain")), None);
    }

    #[test]
    fn limits_on_files_and_on_processes_have_commands_of_their_own() {
        let advised = [libc::EMFILE, libc::ENFILE, libc::EAGAIN]
            .map(|number| advice_on_limits(name(number)?));
        assert!(
            matches!(advised, [Some(own), Some(machine), None] if own != machine),
            "{advised:?}"
        );
        let refused = describe_spawn(&io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(
            refused.ends_with(&format!("(EAGAIN); {MORE_PROCESSES}")),
            "{refused}"
        );
        assert_eq!(
            describe_spawn(&io::Error::from_raw_os_error(libc::ENOMEM)),
            describe(libc::ENOMEM)
        );
    }

    #[test]
    fn an_error_without_a_name_keeps_its_number() {
        assert!(describe(133).ends_with("(error 133)"), "{}", describe(133));
    }
}
