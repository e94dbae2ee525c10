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

/// Between two tries to be heard by the host.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Answers whoever asks whether this guest lives, as long as it does.
pub(super) fn give_back(port: File) -> Result<(), VmError> {
    let start = || -> io::Result<()> {
        let out = port.try_clone()?;
        std::thread::Builder::new().name("heartbeat".into()).spawn(move || echo(port, out, PAUSE))?;
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

/// Gives back what comes. The question is put once, and a guest that leaves it open is taken for one that hangs: a read
/// or write that fails, for want of memory say, is made again.
fn echo(mut from: impl Read, mut to: impl Write, pause: Duration) {
    let mut buffer = [0; 64];
    loop {
        match from.read(&mut buffer) {
            Ok(count) if count > 0 => {
                while to.write_all(&buffer[..count]).is_err() {
                    std::thread::sleep(pause);
                }
            }
            // Nothing comes where nobody listens, and somebody may again.
            _ => std::thread::sleep(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails every other time.
    struct Failing(UnixStream, u32);

    impl Failing {
        fn turn(&mut self) -> io::Result<&mut UnixStream> {
            self.1 += 1;
            if self.1 % 2 == 1 { Err(rustix::io::Errno::NOMEM.into()) } else { Ok(&mut self.0) }
        }
    }

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.turn()?.read(buffer)
        }
    }

    impl Write for Failing {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.turn()?.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_guest_short_of_memory_answers_all_the_same() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        host.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (port, out) = (Failing(guest.try_clone().unwrap(), 0), Failing(guest, 0));
        std::thread::spawn(move || echo(port, out, Duration::from_millis(1)));
        for _ in 0..5 {
            host.write_all(b"?").unwrap();
            host.read_exact(&mut [0]).unwrap();
        }
    }
}
