//! The guest's heartbeat: whether a guest that says nothing still lives.
//!
//! A kernel that panics says so on its console, and so do its own watchdogs. A guest that stands still says nothing: its
//! processors wait for each other with interrupts off, or QEMU itself was stopped. So it has a second port, whose every
//! byte its PID 1 gives back. The question is put only after a long silence: within most trials it never comes, and
//! where it does it wakes one thread of the guest for one byte.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a guest may say nothing before it is asked, and how long its answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Silence before a question.
    pub silence: Duration,
    /// From the question to the answer. PID 1 of a guest that is emulated on a busy host, and busy itself, answers
    /// within seconds.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { silence: Duration::from_secs(30), answer: Duration::from_secs(90) }
    }
}

/// One look at the heartbeat counts as so much time at most: a host that stood still itself has not waited.
const STEP: Duration = Duration::from_secs(1);

/// The host's end.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stream: UnixStream,
    patience: Patience,
    looked: Option<Instant>,
    /// Since the last sign of life.
    silent: Duration,
    /// Since the question that is open.
    asked: Option<Duration>,
}

impl Heartbeat {
    /// Over `stream`, whose other end is the port's.
    pub fn new(stream: UnixStream, patience: Patience) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Heartbeat { stream, patience, looked: None, silent: Duration::ZERO, asked: None })
    }

    /// The guest was heard elsewhere, or nothing is expected of it.
    pub fn heard(&mut self) {
        (self.looked, self.silent) = (None, Duration::ZERO);
        if let Some(waited) = &mut self.asked {
            // An answer to the last question may still come, and is then taken for one to the next: it is one.
            *waited = Duration::ZERO;
        }
    }

    /// Looks once; to be repeated while an answer is waited for. How long the guest has given no sign of life, once that
    /// is too long.
    pub fn look(&mut self, now: Instant) -> Option<Duration> {
        let step = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked)).min(STEP);
        self.looked = Some(now);
        self.silent += step;
        let Some(waited) = &mut self.asked else {
            // A line that is broken was closed by QEMU, whose end is seen elsewhere.
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

        /// What the guest was asked since the last time.
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
    fn a_line_that_is_gone_is_no_verdict() {
        let mut play = Play::new();
        drop(std::mem::replace(&mut play.guest, UnixStream::pair().unwrap().0));
        assert!((0..20).all(|_| play.look_after(1).is_none()));
    }
}
