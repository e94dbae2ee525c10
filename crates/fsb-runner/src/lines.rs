//! JSON lines over a socket, with a deadline and a length limit, because the other end may be a
//! guest that misbehaves.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest single wait for bytes, so that an interruption is noticed soon.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The longest request. A workload on a recorded tree of a million files, whose shape it holds,
/// takes some 20 MB.
const LONGEST_REQUEST: usize = 64 << 20;
/// The longest reply. The latencies and spans of thousands of workers take a tenth of it.
pub(crate) const LONGEST_REPLY: usize = 16 << 20;
/// The longest answer of a worker of this process. With `fsb iozone -Q` it contains the time of
/// each record.
const LONGEST_ANSWER: usize = 4 << 30;
/// The maximum number of bytes of an invalid line, or characters of an unexpected reply, that an
/// error repeats.
pub(crate) const LONGEST_EXCERPT: usize = 200;

/// One end of a conversation.
#[derive(Debug)]
pub struct Lines {
    reader: BufReader<UnixStream>,
    partial: Vec<u8>,
    longest: usize,
}

/// The reason why no line came.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other end is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// `stop` ended the wait.
    #[error("interrupted")]
    Interrupted,
    /// A line exceeds the length limit.
    #[error("a message longer than {} MiB", .0 >> 20)]
    TooLong(usize),
    /// A line is not a message.
    #[error("not a message: {0}")]
    Garbage(String),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Lines {
    /// Returns the end of `stream` that receives requests.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            reader: BufReader::new(stream),
            partial: Vec::new(),
            longest: LONGEST_REQUEST,
        })
    }

    /// Returns the end of `stream` that receives replies.
    pub fn of_replies(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            longest: LONGEST_REPLY,
            ..Lines::new(stream)?
        })
    }

    /// Returns the end of `stream` that receives the answers of a worker.
    pub fn of_worker(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines {
            longest: LONGEST_ANSWER,
            ..Lines::new(stream)?
        })
    }

    /// Returns a descriptor that is readable once another message has come, or the other end is
    /// gone.
    pub(crate) fn connection(&self) -> io::Result<OwnedFd> {
        // The bytes in the buffer have left the connection.
        if !self.reader.buffer().is_empty() {
            return Ok(rustix::event::eventfd(1, EventfdFlags::CLOEXEC)?);
        }
        self.reader.get_ref().try_clone().map(OwnedFd::from)
    }

    /// Sends one message. A message that the other end does not take within a minute is lost with
    /// an error.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        let mut line =
            serde_json::to_vec(message).map_err(|error| LineError::Garbage(error.to_string()))?;
        line.push(b'\n');
        self.send_raw(&line)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, line: &[u8]) -> Result<(), LineError> {
        let mut stream = self.reader.get_ref();
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        match stream.write_all(line) {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Err(LineError::Closed)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a message, without limit if `deadline` is `None`. Calls `stop` first, and again
    /// after each wait for bytes, and gives up if it returns true. Messages that are already there
    /// need no wait, so the first call is necessary.
    pub fn receive<M: DeserializeOwned>(
        &mut self,
        deadline: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<M, LineError> {
        let started = Instant::now();
        if stop() {
            return Err(LineError::Interrupted);
        }
        self.reader.get_ref().set_read_timeout(Some(SLICE))?;
        loop {
            // Reads bytes, not lines, so that a line that trickles in does not outlast the
            // deadline.
            match self.reader.fill_buf() {
                Ok([]) => return Err(LineError::Closed),
                Ok(bytes) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let length = end.map_or(bytes.len(), |end| end + 1);
                    self.partial.extend_from_slice(&bytes[..length]);
                    self.reader.consume(length);
                    if self.partial.len() > self.longest {
                        // Frees the buffer at once, because nothing more is read.
                        self.partial = Vec::new();
                        let _ = self.reader.get_ref().shutdown(std::net::Shutdown::Read);
                        return Err(LineError::TooLong(self.longest));
                    }
                    if end.is_some() {
                        let line = std::mem::take(&mut self.partial);
                        return serde_json::from_slice(&line).map_err(|error| {
                            // The parser's own words may repeat the whole line.
                            let why = excerpt(error.to_string().as_bytes());
                            LineError::Garbage(format!("{why} in '{}'", excerpt(&line)))
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(LineError::Closed);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if stop() {
                return Err(LineError::Interrupted);
            }
            if let Some(deadline) = deadline.filter(|deadline| started.elapsed() >= *deadline) {
                return Err(LineError::Deadline(deadline));
            }
        }
    }
}

/// Returns the beginning of a line for an error.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_EXCERPT)]);
    let more = if line.len() > LONGEST_EXCERPT {
        "…"
    } else {
        ""
    };
    format!("{}{more}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn a_message_in_the_buffer_makes_the_connection_readable() {
        let (mut left, mut right) = pair();
        let is_readable = |lines: &Lines| {
            let connection = lines.connection().unwrap();
            let mut sockets = [PollFd::new(&connection, PollFlags::IN)];
            poll(&mut sockets, Some(&Timespec::default())).unwrap() > 0
        };
        assert!(!is_readable(&right));
        left.send_raw(b"1\n2\n").unwrap();
        for message in [1, 2] {
            assert!(is_readable(&right));
            assert_eq!(right.receive::<u32>(None, &|| false).unwrap(), message);
        }
        assert!(!is_readable(&right));
    }

    #[test]
    fn endless_lines_are_refused_and_invalid_messages_abbreviated() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut right = Lines {
            longest: 1 << 20,
            ..Lines::new(right).unwrap()
        };
        let endless = std::thread::spawn(move || {
            let part = [b'x'; 4096];
            while (&left).write_all(&part).is_ok() {}
        });
        let error = right.receive::<String>(None, &|| false).unwrap_err();
        assert_eq!(error.to_string(), "a message longer than 1 MiB");
        assert_eq!(right.partial.capacity(), 0);
        drop(right);
        endless.join().unwrap();

        let (mut left, mut right) = pair();
        let long = format!("\"{}\"\n", "x".repeat(100_000));
        left.send_raw(long.as_bytes()).unwrap();
        let error = right.receive::<u32>(None, &|| false).unwrap_err();
        assert!(error.to_string().len() < 3 * LONGEST_EXCERPT, "{error}");
    }

    #[test]
    fn a_line_that_trickles_in_does_not_outlast_its_deadline() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut right = Lines::new(right).unwrap();
        let trickle = std::thread::spawn(move || {
            // Faster than one wait for bytes lasts.
            while (&left).write_all(b"x").is_ok() {
                std::thread::sleep(SLICE / 10);
            }
        });
        let short = Some(Duration::from_millis(20));
        assert!(matches!(
            right.receive::<String>(short, &|| false),
            Err(LineError::Deadline(_))
        ));
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
        drop(right);
        trickle.join().unwrap();
    }

    #[test]
    fn an_interruption_is_seen_where_messages_are_always_there() {
        let (mut left, mut right) = pair();
        left.send(&"one").unwrap();
        left.send(&"two").unwrap();
        assert_eq!(right.receive::<String>(None, &|| false).unwrap(), "one");
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
    }

    proptest::proptest! {
        /// For any bytes of the other end, each call returns a message or an error, and the last
        /// one returns `Closed`.
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), words: bool) {
            let mut bytes = bytes;
            if words {
                bytes.iter_mut().for_each(|byte| *byte = b"{}[]\":,\n0123456789.eE-hello version trial"[usize::from(*byte) % 40]);
            }
            let (left, right) = UnixStream::pair().unwrap();
            (&left).write_all(&bytes).unwrap();
            drop(left);
            let mut right = Lines::of_replies(right).unwrap();
            let ended = (0..=bytes.len()).any(|_| match right.receive::<crate::agent::protocol::Reply>(None, &|| false) {
                Err(LineError::Closed) => true,
                Ok(_) | Err(LineError::Garbage(_)) => false,
                Err(error) => panic!("{error}"),
            });
            proptest::prop_assert!(ended, "more lines than bytes");
        }
    }

    fn pair() -> (Lines, Lines) {
        let (left, right) = UnixStream::pair().unwrap();
        (Lines::new(left).unwrap(), Lines::new(right).unwrap())
    }

    #[test]
    fn messages_arrive_whole_and_in_order_however_they_are_cut() {
        let (mut left, mut right) = pair();
        left.send(&"one").unwrap();
        left.send_raw(b"\"tw").unwrap();
        assert_eq!(right.receive::<String>(None, &|| false).unwrap(), "one");
        let (waiting, waits) = std::sync::mpsc::channel();
        let late = std::thread::spawn(move || {
            // `receive` calls `stop` when it begins, with half of the line, and after a wait for
            // more.
            (0..3).for_each(|_| waits.recv().unwrap());
            left.send_raw(b"o\"\n").unwrap();
        });
        let interrupted = || {
            let _ = waiting.send(());
            false
        };
        assert_eq!(right.receive::<String>(None, &interrupted).unwrap(), "two");
        late.join().unwrap();
        assert!(matches!(
            right.receive::<String>(None, &|| false),
            Err(LineError::Closed)
        ));
    }

    #[test]
    fn a_deadline_an_interruption_and_garbage_are_told_apart() {
        let (mut left, mut right) = pair();
        let short = Some(Duration::from_millis(1));
        assert!(matches!(
            right.receive::<String>(short, &|| false),
            Err(LineError::Deadline(_))
        ));
        assert!(matches!(
            right.receive::<String>(None, &|| true),
            Err(LineError::Interrupted)
        ));
        left.send_raw(b"{nonsense\n").unwrap();
        assert!(matches!(
            right.receive::<String>(None, &|| false),
            Err(LineError::Garbage(_))
        ));
    }
}
