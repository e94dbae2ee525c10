//! The guest's console: its last lines, and what its kernel says of its own end.

use std::collections::VecDeque;

use crate::guest;

/// Lines kept: an oops with its registers and call trace has about sixty.
const KEPT: usize = 400;
/// A line that never ends is cut here.
const LONGEST: usize = 1024;

/// What is wrong with a guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It has panicked, or is about to: why.
    Panic(String),
    /// Its watchdogs see it hang: where.
    Hang(String),
}

impl Trouble {
    pub fn into_text(self) -> String {
        match self {
            Trouble::Panic(why) | Trouble::Hang(why) => why,
        }
    }
}

/// How a kernel begins to say that it went wrong.
const OOPS: [&str; 10] = [
    "BUG: kernel NULL pointer dereference",
    "BUG: unable to handle",
    "BUG: scheduling while atomic",
    "Unable to handle kernel",
    "general protection fault",
    "kernel BUG at ",
    "invalid opcode:",
    "divide error:",
    "Internal error: Oops",
    "Oops:",
];

/// How its watchdogs say that it hangs.
const HANGS: [&str; 6] = [
    "watchdog: BUG: soft lockup",
    "BUG: soft lockup",
    "watchdog: Watchdog detected hard LOCKUP",
    "NMI watchdog: Watchdog detected hard LOCKUP",
    "rcu: INFO: rcu_",
    "INFO: rcu_",
];

const PANIC: &str = "Kernel panic - not syncing: ";

/// What is kept of a console.
#[derive(Debug, Default)]
pub(super) struct Console {
    lines: VecDeque<String>,
    /// The line that has not ended yet.
    partial: Vec<u8>,
    /// The first oops, the first hang, the panic, the guest's own last words.
    oops: Option<String>,
    hang: Option<String>,
    panic: Option<String>,
    said: Option<String>,
    bytes: u64,
}

impl Console {
    /// Takes what came.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        for byte in bytes {
            if *byte == b'\n' || self.partial.len() >= LONGEST {
                self.end();
            }
            if *byte != b'\n' {
                self.partial.push(*byte);
            }
        }
    }

    /// Ends the last line, where no more will come.
    pub fn end(&mut self) {
        let line = clean(&self.partial);
        self.partial.clear();
        if line.is_empty() {
            return;
        }
        self.read(&line);
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    fn read(&mut self, line: &str) {
        if let Some(at) = line.find(guest::PREFIX) {
            self.said = Some(line[at + guest::PREFIX.len()..].to_owned());
            return;
        }
        let text = message(line);
        let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| text.starts_with(beginning));
        if let Some(at) = text.find(PANIC) {
            self.panic.get_or_insert_with(|| text[at + PANIC.len()..].to_owned());
        } else if begins(&HANGS) || (text.starts_with("INFO: task ") && text.contains(" blocked for more than ")) {
            self.hang.get_or_insert_with(|| text.to_owned());
        } else if begins(&OOPS) {
            self.oops.get_or_insert_with(|| text.to_owned());
        }
    }

    /// At most so many last lines, oldest first.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let partial = clean(&self.partial);
        let partial = (!partial.is_empty()).then_some(partial);
        let all: Vec<_> = self.lines.iter().cloned().chain(partial).collect();
        all[all.len().saturating_sub(lines)..].to_vec()
    }

    /// What is wrong, as far as it was said.
    pub fn trouble(&self) -> Option<Trouble> {
        match (&self.panic, &self.oops, &self.hang) {
            // The watchdogs panic with words of no use: what they saw came before.
            (Some(panic), _, Some(hang)) if panic.contains("hung") || panic.contains("LOCKUP") => {
                Some(Trouble::Hang(hang.clone()))
            }
            (Some(panic), Some(oops), _) => Some(Trouble::Panic(format!("{oops} ({panic})"))),
            (Some(panic), None, _) => Some(Trouble::Panic(panic.clone())),
            (None, Some(oops), _) => Some(Trouble::Panic(oops.clone())),
            (None, None, Some(hang)) => Some(Trouble::Hang(hang.clone())),
            (None, None, None) => None,
        }
    }

    /// Why the guest's own PID 1 could not go on, if it said so.
    pub fn refusal(&self) -> Option<String> {
        self.said.clone().filter(|said| said != guest::READY)
    }

    /// Whether the guest said that it came up.
    pub fn ready(&self) -> bool {
        self.said.as_deref() == Some(guest::READY)
    }

    /// Whether anything came at all.
    pub fn spoke(&self) -> bool {
        self.bytes > 0
    }
}

/// Without what only terminals read.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // An escape sequence ends with its first letter.
            for next in characters.by_ref() {
                if next.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if !character.is_control() || character == '\t' {
            out.push(character);
        }
    }
    out.trim_end().to_owned()
}

/// The message without time and caller: `[    1.907] [   T12] Kernel panic` gives `Kernel panic`.
fn message(line: &str) -> &str {
    let mut text = line.trim_start();
    while let Some((inside, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        if !inside.trim().chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'T' | 'C')) {
            break;
        }
        text = rest.trim_start();
    }
    text
}
