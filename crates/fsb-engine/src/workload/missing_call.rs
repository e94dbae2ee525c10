//! Calls that the server of a FUSE mount lacks, but refuses with an error of another meaning.
//!
//! cryfs answers link with ENOSYS in the wrong sign, which libfuse turns into ERANGE. rclone
//! answers link and setxattr with EIO.

use std::path::Path;

use fsb_sys::magic;
use rustix::io::Errno;

use crate::error::EngineError;

/// Errors that tell of the state of a file system, its server or this process, on whatever call.
const OF_STATE: [Errno; 14] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::NOMEM,
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOTCONN,
    Errno::CONNABORTED,
    Errno::TIMEDOUT,
    Errno::STALE,
    Errno::ROFS,
    Errno::ACCESS,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NAMETOOLONG,
];

/// Returns the error of a call that failed with `errno` on a new file in `directory`, if a FUSE
/// server is the cause: the case is then not applicable. Returns `None` if the call failed.
pub(super) fn of_server(directory: &Path, call: &str, errno: Errno) -> Option<EngineError> {
    if !magic::is_fuse(directory) || OF_STATE.contains(&errno) {
        return None;
    }
    let answer = fsb_model::errno::describe(errno.raw_os_error());
    Some(EngineError {
        inapplicable: true,
        ..EngineError::new(format!(
            "the server of this FUSE mount lacks the call: {call} fails on every new file: {answer}"
        ))
    })
}

/// A call on a new file, which also gets the path of a second name.
pub(super) type ProbeCall = fn(&Path, &Path) -> Result<(), Errno>;

/// Makes a call on a new file in `directory` after another one failed with `errno`. Returns the
/// error for [`of_server`] if this one fails likewise, although files can be made and renamed.
pub(super) fn of_server_after_probe(
    directory: &Path,
    (call, probe): (&str, ProbeCall),
    errno: Errno,
) -> Option<EngineError> {
    let error = of_server(directory, call, errno)?;
    let [file, renamed, second] =
        ["probe", "probe-renamed", "probe-second"].map(|name| directory.join(name));
    let is_writable = std::fs::write(&file, []).and_then(|()| std::fs::rename(&file, &renamed));
    let answer = is_writable.is_ok().then(|| probe(&renamed, &second));
    for path in [&file, &renamed, &second] {
        // The rest is removed with the set.
        let _ = std::fs::remove_file(path);
    }
    (answer == Some(Err(errno))).then_some(error)
}
