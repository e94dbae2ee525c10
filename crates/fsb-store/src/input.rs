//! Reads user-supplied files within bounds.
//!
//! A user-supplied file may be a device that never ends, a pipe without a writer, or a sparse file
//! of an exabyte. This module opens all such files: regular files only (links to them are fine),
//! without blocking, with a limit on bytes and on the length of a line. Under sudo, it uses the
//! privileges of the invoking user. All errors are [`io::Error`]s whose text follows `cannot read
//! FILE: `.

use std::cell::Cell;
use std::fs::{File, FileType, Metadata};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::OnceLock;

use fsb_model::errno;
use rustix::fs::{Mode, OFlags};

/// The longest line of a journal, and the longest message of an agent. A trial on a recorded tree
/// of a million files takes some 20 MB, because its parameters contain the shape of the tree. Any
/// other trial takes a few kilobytes.
pub const LONGEST_LINE: u64 = 64 << 20;

/// The largest plan, script or workload file.
pub const LARGEST_SCRIPT: u64 = 16 << 20;

/// The record of a run: the order of 10,000 blocks takes some 50 MB.
pub const LARGEST_RECORD: u64 = 256 << 20;

/// The results of another tool. The longest log of one run takes a thousandth of it.
pub const LARGEST_RESULT: u64 = 1 << 30;

/// Kernels, and modules with their debug information.
pub const LARGEST_BINARY: u64 = 4 << 30;

/// Reads the whole of a regular file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_open(open(path)?, most)
}

/// Reads the whole of a regular file of at most `most` bytes, which must be text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Like [`read_text`], but also reads a pipe of the shell to its end.
pub fn read_text_or_pipe(path: &Path, most: u64) -> io::Result<String> {
    text(read_open(open_or_pipe(path)?, most)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

fn read_open(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large(most));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    Bounded::new(file, most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads at most a given number of bytes. One more byte is an error, not an end, so that no file is
/// truncated silently.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    most: u64,
    left: u64,
}

impl<R> Bounded<R> {
    /// Reads at most `most` bytes of `inner`.
    pub fn new(inner: R, most: u64) -> Bounded<R> {
        Bounded {
            inner,
            most,
            left: most,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return if self.inner.read(&mut [0])? == 0 {
                Ok(0)
            } else {
                Err(too_large(self.most))
            };
        }
        let most = buffer
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // No reader returns more than it had room for. One that did must not wrap the count.
        let length = self.inner.read(&mut buffer[..most])?;
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}

/// Returns the error for a file that is larger than its limit.
pub fn too_large(most: u64) -> io::Error {
    let message = format!(
        "it is larger than {} MiB, the most that is read",
        most >> 20
    );
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

// Root may read everything, and often reads for a user who may not. A message must not quote a file
// that this user cannot open. This crate does not know users: the program sets once how to work
// with the privileges of the invoking user.

/// Runs a piece of work with the privileges of the invoking user, and returns that user's id.
/// Without an invoking user, runs it with this process's own privileges and returns `None`.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<Option<u32>>;

static ASKER: OnceLock<Act> = OnceLock::new();

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Makes `act` open all files from now on. Only the first call has an effect.
pub fn open_by(act: Act) {
    let _ = ASKER.set(act);
}

/// Runs `work` with this process's own privileges. It opens files that the program itself created
/// or found, not user-supplied ones.
pub fn with_own_rights<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the flag, however the work ends.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _before = Before(OWN.replace(true));
    work()
}

/// Opens something with the privileges of the invoking user.
fn open_with_rights<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let Some(act) = ASKER.get().filter(|_| !OWN.get()) else {
        return open();
    };
    let mut opened = None;
    let asker = act(&mut || opened = Some(open()))?;
    let opened = opened.unwrap_or_else(|| Err(io::Error::other("nothing was opened")));
    match (opened, asker) {
        // Root may read everything, so that a refusal needs to be explained.
        (Err(error), Some(uid)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let why =
                format!("{error} to the invoking user {uid}: fsb opens it with that user's rights");
            Err(errno::explain(error, why))
        }
        (opened, _) => opened,
    }
}

/// The file system of the pipes that have no name (`linux/magic.h`: PIPEFS_MAGIC).
const PIPEFS: i64 = 0x5049_5045;

/// Opens a regular file, or a link to one.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, |_, kind| kind.is_file())
}

/// Opens a regular file, or a pipe without a name: `<(command)`, and `/dev/stdin` behind a `|`. A
/// named pipe is refused, because opening one waits for a writer that may never come.
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
    let file = if is_descriptor(path) {
        look_and_open()?
    } else {
        open_with_rights(look_and_open)?
    };
    // Another file may have replaced it between the two calls.
    check(&file.metadata()?, |kind| is_wanted(Some(&file), kind))?;
    Ok(file)
}

/// Returns whether the path names a descriptor of this process. The parent has opened it already,
/// perhaps as root, like the pipe of `sudo sh -c 'command | fsb compare a=/dev/stdin'`.
fn is_descriptor(path: &Path) -> bool {
    let numbered = ["/dev/fd/", "/proc/self/fd/"]
        .iter()
        .find_map(|place| path.to_str()?.strip_prefix(place));
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
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("it is {what}, not a regular file"),
    ))
}

/// Lines from an input, in a buffer that is used again.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    most: u64,
    buffer: Vec<u8>,
    number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// The bytes without the line end.
    pub bytes: &'a [u8],
    /// Whether a line end ended it: if not, the input may have been cut within it.
    pub ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Returns the lines of `inner`, of at most `most` bytes each.
    pub fn new(input: R, most: u64) -> Lines<R> {
        Lines {
            input,
            most,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// Returns the number of the line that was read last, or that could not be read.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the next line, or `None` at the end. A longer line is an error of the kind
    /// `FileTooLarge`.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.number += 1;
        self.buffer.clear();
        // A buffer that one long line filled is not kept for thousands of short ones.
        self.buffer.shrink_to(64 << 10);
        if (&mut self.input)
            .take(self.most + 1)
            .read_until(b'\n', &mut self.buffer)?
            == 0
        {
            return Ok(None);
        }
        let (bytes, ended) = match self.buffer.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (&self.buffer[..], false),
        };
        if bytes.len() as u64 > self.most {
            let message = format!(
                "it is longer than {} MiB, the longest line that is read",
                self.most >> 20
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(Some(Line {
            number: self.number,
            bytes,
            ended,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
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
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            owner,
            0,
        )
        .unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            open(&at(name)).unwrap();
            open_or_pipe(&at(name)).unwrap();
        }
        for (path, why) in [
            (at("endless"), "it is a device, not a regular file"),
            (
                PathBuf::from("/dev/null"),
                "it is a device, not a regular file",
            ),
            (at("pipe"), "it is a pipe, not a regular file"),
            (at("socket"), "it is a socket, not a regular file"),
            (directory.path().to_owned(), "is a directory"),
        ] {
            assert_eq!(refusal(&path), why, "{}", path.display());
        }
        assert_eq!(
            open(&at("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_pipe_of_the_shell_is_read_to_its_end_where_that_is_wanted() {
        let (reader, writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        assert_eq!(
            open(&path).unwrap_err().to_string(),
            "it is a pipe, not a regular file"
        );
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

    #[test]
    fn lines_are_counted_and_the_last_one_may_lack_its_end() {
        let mut lines = Lines::new(&b"one\n\ntwo"[..], 100);
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            seen.push((line.number, line.bytes.to_vec(), line.ended));
        }
        assert_eq!(
            seen,
            [
                (1, b"one".to_vec(), true),
                (2, Vec::new(), true),
                (3, b"two".to_vec(), false)
            ]
        );
    }

    #[test]
    fn a_line_without_end_is_refused_when_it_is_too_long_and_no_later() {
        let mut lines = Lines::new(io::BufReader::new(io::repeat(0)), 1 << 20);
        let error = lines.next_line().unwrap_err();
        assert_eq!(
            (error.kind(), lines.number()),
            (io::ErrorKind::FileTooLarge, 1)
        );
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
        assert!(lines.buffer.capacity() < 4 << 20);
        let mut exact = Lines::new(&b"123\n1234\n"[..], 3);
        assert_eq!(exact.next_line().unwrap().unwrap().bytes, b"123");
        assert!(exact.next_line().is_err());
    }
}
