//! The threads behind the guest's ports: two move bytes between the one and the stream of whoever serves, one gives back
//! what comes over the other. They only block in read and write: while nothing comes they cost nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::error::VmError;

const CHUNK: usize = 32 * 1024;

/// Ends when all that was said has reached the port.
pub(super) struct Moved(Receiver<()>);

impl Moved {
    pub fn wait(&self, limit: Duration) {
        // Nothing is ever sent: the channel closes when the thread ends.
        let _ = self.0.recv_timeout(limit);
    }
}

/// Moves bytes both ways until one side ends.
pub(super) fn connect(port: File, stream: UnixStream) -> Result<Moved, VmError> {
    let start = || -> io::Result<Moved> {
        let (from_port, to_stream) = (port.try_clone()?, stream.try_clone()?);
        std::thread::Builder::new().name("from host".into()).spawn(move || {
            let _ = copy(from_port, &to_stream);
            // The host is gone: so is the reason to go on.
            let _ = to_stream.shutdown(Shutdown::Both);
        })?;
        let (alive, moved) = channel();
        std::thread::Builder::new().name("to host".into()).spawn(move || {
            let _alive = alive;
            let _ = copy(&stream, port);
        })?;
        Ok(Moved(moved))
    };
    start().map_err(unserved)
}

/// Answers whoever asks whether this guest lives.
pub(super) fn give_back(port: File) -> Result<(), VmError> {
    let start = || -> io::Result<()> {
        let out = port.try_clone()?;
        std::thread::Builder::new().name("pulse".into()).spawn(move || copy(port, out))?;
        Ok(())
    };
    start().map_err(unserved)
}

fn unserved(error: io::Error) -> VmError {
    VmError::machine("cannot serve the guest's port").tried(error.to_string())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
