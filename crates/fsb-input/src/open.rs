//! Opens files without blocking, and only files that end.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::rights;

/// The file system of the pipes that have no name (`linux/magic.h`: PIPEFS_MAGIC).
const PIPEFS: i64 = 0x5049_5045;

/// Opens a regular file, or a link to one.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, |_, kind| kind.is_file())
}

/// Opens a regular file, or a pipe without a name: `<(command)`, and `/dev/stdin` behind a `|`. A named pipe is
/// refused, because opening one waits for a writer that may never come.
pub fn open_or_pipe(path: &Path) -> io::Result<File> {
    let file = open_as(path, |file, kind| match file {
        // Before the open, the kind of a pipe is unknown, and the open does not block.
        None => kind.is_file() || kind.is_fifo(),
        Some(file) => kind.is_file() || (kind.is_fifo() && is_unnamed(file)),
    })?;
    if file.metadata()?.file_type().is_fifo() {
        // Its writer may take its time, as with any other program in a pipeline.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok(file)
}

fn is_unnamed(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == PIPEFS)
}

fn open_as(path: &Path, is_wanted: impl Fn(Option<&File>, FileType) -> bool) -> io::Result<File> {
    let look_and_open = || {
        // Opening some devices does something: a tape rewinds, a watchdog starts.
        check(&std::fs::metadata(path)?, |kind| is_wanted(None, kind))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
    };
    let file = if is_descriptor(path) { look_and_open()? } else { rights::open(look_and_open)? };
    // Another file may have replaced it between the two calls.
    check(&file.metadata()?, |kind| is_wanted(Some(&file), kind))?;
    Ok(file)
}

/// Returns whether the path names a descriptor of this process. The parent has opened it already, perhaps as root, like
/// the pipe of `sudo sh -c 'command | fsb compare a=/dev/stdin'`.
fn is_descriptor(path: &Path) -> bool {
    let numbered = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|place| path.to_str()?.strip_prefix(place));
    path == Path::new("/dev/stdin") || numbered.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn check(metadata: &Metadata, is_wanted: impl Fn(FileType) -> bool) -> io::Result<()> {
    let kind = metadata.file_type();
    let what = match kind {
        _ if is_wanted(kind) => return Ok(()),
        _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn refusal(path: &Path) -> String {
        let both = [open(path), open_or_pipe(path)].map(|opened| opened.unwrap_err().to_string());
        assert_eq!(both[0], both[1]);
        both[0].clone()
    }

    #[test]
    fn only_regular_files_and_links_to_them_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        let owner = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, owner, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            open(&at(name)).unwrap();
            open_or_pipe(&at(name)).unwrap();
        }
        for (path, why) in [
            (at("endless"), "it is a device, not a regular file"),
            (PathBuf::from("/dev/null"), "it is a device, not a regular file"),
            (at("pipe"), "it is a pipe, not a regular file"),
            (at("socket"), "it is a socket, not a regular file"),
            (directory.path().to_owned(), "is a directory"),
        ] {
            assert_eq!(refusal(&path), why, "{}", path.display());
        }
        assert_eq!(open(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_of_the_shell_is_read_to_its_end_where_that_is_wanted() {
        let (reader, writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        assert_eq!(open(&path).unwrap_err().to_string(), "it is a pipe, not a regular file");
        let mut file = open_or_pipe(&path).unwrap();
        let writing = std::thread::spawn(move || {
            let mut writer = writer;
            // The reader waits for late data.
            std::thread::sleep(std::time::Duration::from_millis(20));
            writer.write_all(b"results").unwrap();
        });
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        writing.join().unwrap();
        assert_eq!(text, "results");
    }
}
