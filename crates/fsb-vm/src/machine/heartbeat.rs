//! The guest's heartbeat: checks whether a silent guest is still alive.
//!
//! A kernel that panics prints a message on its console, and so do its watchdogs. A guest that stops entirely prints
//! nothing: its processors wait for each other with interrupts off, or QEMU itself was stopped. Every guest therefore
//! has a second port, and its PID 1 echoes each byte. The host sends a byte only after a long silence. Most trials end
//! before that. Otherwise the byte wakes one thread of the guest.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time limits for a silent guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Silence before the host asks.
    pub silence: Duration,
    /// Time from the question to the answer. PID 1 of an emulated guest on a busy host, which is busy itself, answers
    /// within seconds.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { silence: Duration::from_secs(30), answer: Duration::from_secs(90) }
    }
}

/// Maximum time that one call of [`Heartbeat::look`] counts. While the host itself was suspended, the guest could not
/// answer.
const STEP: Duration = Duration::from_secs(1);

/// The host's end of the heartbeat port.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stream: UnixStream,
    patience: Patience,
    looked: Option<Instant>,
    /// Time since the last sign of life.
    silent: Duration,
    /// Time since the open question.
    asked: Option<Duration>,
}

impl Heartbeat {
    /// Makes a heartbeat over `stream`, whose other end is the port.
    pub fn new(stream: UnixStream, patience: Patience) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Heartbeat { stream, patience, looked: None, silent: Duration::ZERO, asked: None })
    }

    /// Resets the silence: the guest sent data on another channel, or owes no answer.
    pub fn heard(&mut self) {
        (self.looked, self.silent) = (None, Duration::ZERO);
        if let Some(waited) = &mut self.asked {
            // An answer to the last question may still arrive and count for the next one. It is a sign of life all the
            // same.
            *waited = Duration::ZERO;
        }
    }

    /// Checks the heartbeat once. The host calls this repeatedly while it waits for an answer. Returns the length of
    /// the silence if it exceeds the limits.
    pub fn look(&mut self, now: Instant) -> Option<Duration> {
        let step = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked)).min(STEP);
        self.looked = Some(now);
        self.silent += step;
        let Some(waited) = &mut self.asked else {
            // An error means that QEMU closed the connection. Other code detects the end of QEMU.
            if self.silent >= self.patience.silence && self.stream.write(b"?").is_ok() {
                self.asked = Some(Duration::ZERO);
            }
            return None;
        };
        *waited += step;
        let late = *waited >= self.patience.answer;
        if self.answered() {
            self.asked = None;
            self.silent = Duration::ZERO;
            return None;
        }
        late.then_some(self.silent)
    }

    fn answered(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::Interrupted && self.answered(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { silence: Duration::from_secs(3), answer: Duration::from_secs(5) };

    struct Play {
        heartbeat: Heartbeat,
        guest: UnixStream,
        now: Instant,
    }

    impl Play {
        fn new() -> Self {
            let (ours, guest) = UnixStream::pair().unwrap();
            guest.set_nonblocking(true).unwrap();
            Play { heartbeat: Heartbeat::new(ours, PATIENCE).unwrap(), guest, now: Instant::now() }
        }

        fn look_after(&mut self, seconds: u64) -> Option<Duration> {
            self.now += Duration::from_secs(seconds);
            self.heartbeat.look(self.now)
        }

        /// Returns the number of questions since the last call.
        fn questions(&mut self) -> usize {
            self.guest.read(&mut [0; 64]).unwrap_or(0)
        }
    }

    #[test]
    fn a_guest_is_asked_after_a_silence_and_lives_as_long_as_it_answers() {
        let mut play = Play::new();
        for round in 0..10 {
            for second in 0..4 {
                assert_eq!(play.look_after(u64::from(second > 0)), None, "{round}");
                assert_eq!(play.questions(), usize::from(second == 3), "{round}, {second}");
            }
            play.guest.write_all(b"?").unwrap();
            assert_eq!(play.look_after(0), None);
        }
    }

    #[test]
    fn a_guest_that_gives_no_answer_is_given_up() {
        let mut play = Play::new();
        let looks: Vec<_> = (0..9).map(|_| play.look_after(1)).collect();
        assert_eq!(looks[..8], [None; 8]);
        assert_eq!(looks[8], Some(Duration::from_secs(8)));
        assert_eq!(play.questions(), 1);
    }

    #[test]
    fn a_guest_that_was_heard_otherwise_is_not_asked() {
        let mut play = Play::new();
        for _ in 0..10 {
            assert_eq!((play.look_after(1), play.look_after(1)), (None, None));
            play.heartbeat.heard();
        }
        assert_eq!(play.questions(), 0);
    }

    #[test]
    fn a_host_that_stood_still_itself_has_not_waited() {
        let mut play = Play::new();
        assert_eq!((play.look_after(0), play.look_after(3600), play.look_after(3600)), (None, None, None));
        assert_eq!(play.questions(), 0);
        assert_eq!((play.look_after(3600), play.questions()), (None, 1));
        assert_eq!(play.look_after(3600), None);
    }

    #[test]
    fn a_closed_connection_gives_no_verdict() {
        let mut play = Play::new();
        drop(std::mem::replace(&mut play.guest, UnixStream::pair().unwrap().0));
        assert!((0..20).all(|_| play.look_after(1).is_none()));
    }
}
