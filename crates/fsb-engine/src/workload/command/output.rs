//! What a program printed: its beginning does not matter, its end says what went wrong.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes that are kept of a stream. The results that a program prints stand at the end of them.
const KEPT: usize = 4 << 20;

/// A stream that is read to its end by a thread of its own, so that the program never waits for its reader.
#[derive(Debug)]
pub(super) struct Reading {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Reading {
    pub(super) fn of(mut stream: impl Read + Send + 'static) -> std::io::Result<Reading> {
        let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
        let keeping = Arc::clone(&kept);
        let reader = thread::Builder::new().spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            // What cannot be read is missing from a message, no more.
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                let mut kept = keeping.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..read]);
                if kept.len() > 2 * KEPT {
                    let surplus = kept.len() - KEPT;
                    kept.drain(..surplus);
                }
            }
        })?;
        Ok(Reading { kept, reader })
    }

    /// What came. A process that the program left behind may hold the other end for ever: it is not waited for long.
    pub(super) fn take(self) -> Vec<u8> {
        const PATIENCE: Duration = Duration::from_millis(200);
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The last lines of a text, in one: at most so many characters.
pub(super) fn last_lines(text: &str, most: usize) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut length = 0;
    for line in text.lines().rev().map(str::trim).filter(|line| !line.is_empty()) {
        length += line.chars().count() + 2;
        if length > most && !lines.is_empty() {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    let text = lines.join("; ");
    let surplus = text.chars().count().saturating_sub(most);
    text.chars().skip(surplus).collect()
}
