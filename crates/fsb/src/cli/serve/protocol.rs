//! The messages between the web process and the helper: one JSON object a line, a request and its
//! reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fsb_serve::{Planned, RunStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest request, in bytes. An attacker may control the web process.
pub(super) const LONGEST_REQUEST: u64 = 256 << 10;
/// The longest reply, in bytes: a report.
pub(super) const LONGEST_REPLY: u64 = 256 << 20;

/// A request of the web process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum HelperRequest {
    /// Resolve a plan and keep its text.
    Plan {
        /// The plan in TOML.
        text: String,
    },
    /// Start a run of a plan that was resolved.
    Start {
        /// The digest of the text of the resolved plan.
        digest: String,
    },
    /// Stop the run, as Ctrl-C does.
    Stop,
    /// Return the state of the last run.
    Status,
    /// Return the report of the last run.
    Report,
}

/// The reply of the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(super) enum HelperReply {
    /// The resolved plan.
    Planned(Planned),
    /// The request was carried out.
    Done,
    /// The state of the last run.
    Status(RunStatus),
    /// The report of the last run.
    Report {
        /// A page.
        page: String,
    },
    /// The request was refused.
    Refused {
        /// The kind of the refusal.
        kind: RefusalKind,
        /// The reason, for the reader of the page.
        why: String,
    },
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RefusalKind {
    /// The plan is wrong, is not permitted, or cannot be run here.
    Invalid,
    /// A run is measured already.
    Busy,
    /// Too many requests came in the last minute.
    TooMany,
    /// The plan or the report does not exist.
    Missing,
    /// The operating system refused to start the run.
    Failed,
}

impl HelperReply {
    /// Returns a refusal.
    pub(super) fn refused(kind: RefusalKind, why: impl Into<String>) -> HelperReply {
        HelperReply::Refused {
            kind,
            why: why.into(),
        }
    }
}

/// One end of the connection.
pub(super) struct Connection {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    longest: u64,
}

impl Connection {
    /// Returns an end that receives messages of at most `longest` bytes.
    pub(super) fn new(stream: UnixStream, longest: u64) -> io::Result<Connection> {
        Ok(Connection {
            writer: stream.try_clone()?,
            reader: BufReader::new(stream),
            longest,
        })
    }

    /// Limits the time of each call that waits for the other end.
    pub(super) fn limit_time(&self, limit: Duration) -> io::Result<()> {
        self.writer.set_write_timeout(Some(limit))?;
        self.stream().set_read_timeout(Some(limit))
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.writer.write_all(&line)
    }

    /// Receives a message; `None` if the other end has closed the connection.
    ///
    /// # Errors
    ///
    /// The connection is broken, or the message is too long or not one of the protocol.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        (&mut self.reader)
            .take(self.longest)
            .read_until(b'\n', &mut line)?;
        match line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the message has no end",
            )),
        }
    }

    /// Returns whether bytes of a further message were received already.
    pub(super) fn has_buffered(&self) -> bool {
        !self.reader.buffer().is_empty()
    }

    /// Returns the stream, on which callers poll for messages.
    pub(super) fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lines_of_limited_length() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut web = Connection::new(one, LONGEST_REPLY).unwrap();
        let mut helper = Connection::new(other, 200).unwrap();
        let request = HelperRequest::Plan {
            text: "targets = ['null']\n".to_owned(),
        };
        web.send(&request).unwrap();
        web.send(&HelperRequest::Stop).unwrap();
        assert_eq!(helper.receive::<HelperRequest>().unwrap(), Some(request));
        assert!(helper.has_buffered());
        assert_eq!(
            helper.receive::<HelperRequest>().unwrap(),
            Some(HelperRequest::Stop)
        );
        web.send(&HelperRequest::Start {
            digest: "0".repeat(300),
        })
        .unwrap();
        assert!(helper.receive::<HelperRequest>().is_err(), "it is too long");
        drop((web, helper));
        for wrong in [
            "{\"request\":\"erase\"}\n",
            "{\"request\":\"start\",\"digest\":\"0\",\"wipe\":\"/dev/sda\"}\n",
            "null\n",
            "{\"re",
        ] {
            let (mut one, other) = UnixStream::pair().unwrap();
            one.write_all(wrong.as_bytes()).unwrap();
            drop(one);
            let mut helper = Connection::new(other, 200).unwrap();
            assert!(helper.receive::<HelperRequest>().is_err(), "{wrong}");
        }
        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert_eq!(
            Connection::new(other, 200)
                .unwrap()
                .receive::<HelperRequest>()
                .unwrap(),
            None
        );
    }
}
