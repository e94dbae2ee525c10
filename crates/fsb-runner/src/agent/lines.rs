//! JSON lines over a socket, with a deadline.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long one wait for bytes lasts at most, so that an interruption is noticed soon.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// One end of a conversation.
#[derive(Debug)]
pub struct Lines {
    reader: BufReader<UnixStream>,
    partial: Vec<u8>,
}

/// Why no line came.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other end is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The wait was given up.
    #[error("interrupted")]
    Interrupted,
    /// A line that is no message.
    #[error("not a message: {0}")]
    Garbage(String),
    /// The kernel said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Lines {
    /// Speaks over `stream`.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Lines { reader: BufReader::new(stream), partial: Vec::new() })
    }

    /// Sends one message. A message that the other end does not take within a minute is lost with an error.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        let mut line = serde_json::to_vec(message).map_err(|error| LineError::Garbage(error.to_string()))?;
        line.push(b'\n');
        self.send_raw(&line)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, line: &[u8]) -> Result<(), LineError> {
        let mut stream = self.reader.get_ref();
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        match stream.write_all(line) {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Err(LineError::Closed)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a message, without limit if `deadline` is `None`. `stop` is asked now and then whether to give up.
    pub fn receive<M: DeserializeOwned>(
        &mut self,
        deadline: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<M, LineError> {
        let started = Instant::now();
        self.reader.get_ref().set_read_timeout(Some(SLICE))?;
        loop {
            match self.reader.read_until(b'\n', &mut self.partial) {
                Ok(_) if self.partial.last() == Some(&b'\n') => {
                    let line = std::mem::take(&mut self.partial);
                    return serde_json::from_slice(&line).map_err(|error| {
                        LineError::Garbage(format!("{error} in '{}'", String::from_utf8_lossy(&line).trim_end()))
                    });
                }
                Ok(_) => return Err(LineError::Closed),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(LineError::Closed),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let late = std::thread::spawn(move || {
            std::thread::sleep(SLICE * 2);
            left.send_raw(b"o\"\n").unwrap();
        });
        assert_eq!(right.receive::<String>(None, &|| false).unwrap(), "two");
        late.join().unwrap();
        assert!(matches!(right.receive::<String>(None, &|| false), Err(LineError::Closed)));
    }

    #[test]
    fn a_deadline_an_interruption_and_garbage_are_told_apart() {
        let (mut left, mut right) = pair();
        let short = Some(Duration::from_millis(1));
        assert!(matches!(right.receive::<String>(short, &|| false), Err(LineError::Deadline(_))));
        assert!(matches!(right.receive::<String>(None, &|| true), Err(LineError::Interrupted)));
        left.send_raw(b"{nonsense\n").unwrap();
        assert!(matches!(right.receive::<String>(None, &|| false), Err(LineError::Garbage(_))));
    }
}
