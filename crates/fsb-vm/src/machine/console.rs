//! Reads the guest's console: keeps its last lines, and detects panics and hangs of its kernel.

use std::collections::VecDeque;

use crate::guest;

/// Number of lines kept. An oops with its registers and call trace has about sixty.
const KEPT: usize = 400;
/// Length in bytes at which a line without an end is split.
const LONGEST: usize = 1024;

/// A failure of the guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The kernel has panicked, or is about to. Contains the reason.
    Panic(String),
    /// The kernel's watchdogs report a hang. Contains their message.
    Hang(String),
}

/// Beginnings of messages with which a kernel reports an oops.
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

/// Beginnings of messages with which a kernel's watchdogs report a hang.
const HANGS: [&str; 6] = [
    "watchdog: BUG: soft lockup",
    "BUG: soft lockup",
    "watchdog: Watchdog detected hard LOCKUP",
    "NMI watchdog: Watchdog detected hard LOCKUP",
    "rcu: INFO: rcu_",
    "INFO: rcu_",
];

const PANIC: &str = "Kernel panic - not syncing: ";

/// The state of a console.
#[derive(Debug, Default)]
pub(super) struct Console {
    lines: VecDeque<String>,
    /// The incomplete last line.
    partial: Vec<u8>,
    /// The first oops, the first hang, the panic, and the last line that the guest's PID 1 printed.
    oops: Option<String>,
    hang: Option<String>,
    panic: Option<String>,
    said: Option<String>,
    bytes: u64,
}

impl Console {
    /// Adds received bytes.
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

    /// Completes the last line if no more bytes will follow.
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
        let begins = |beginnings: &[&str]| {
            beginnings
                .iter()
                .any(|beginning| text.starts_with(beginning))
        };
        if let Some(at) = text.find(PANIC) {
            self.panic
                .get_or_insert_with(|| text[at + PANIC.len()..].to_owned());
        } else if begins(&HANGS)
            || (text.starts_with("INFO: task ") && text.contains(" blocked for more than "))
        {
            self.hang.get_or_insert_with(|| text.to_owned());
        } else if begins(&OOPS) {
            self.oops.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Returns at most `lines` last lines, oldest first.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let partial = clean(&self.partial);
        let partial = (!partial.is_empty()).then_some(partial);
        let all: Vec<_> = self.lines.iter().cloned().chain(partial).collect();
        all[all.len().saturating_sub(lines)..].to_vec()
    }

    /// Returns the failure that the kernel has reported so far.
    pub fn trouble(&self) -> Option<Trouble> {
        match (&self.panic, &self.oops, &self.hang) {
            // The panic message of a watchdog says little. The watchdog's own message precedes it.
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

    /// Returns the reason for which the guest's PID 1 stopped, if it printed one.
    pub fn refusal(&self) -> Option<String> {
        self.said.clone().filter(|said| said != guest::READY)
    }

    /// Returns whether the guest printed that it booted.
    pub fn ready(&self) -> bool {
        self.said.as_deref() == Some(guest::READY)
    }

    /// Returns whether any byte was received.
    pub fn spoke(&self) -> bool {
        self.bytes > 0
    }
}

/// Removes escape sequences and control characters.
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

/// Removes time and caller: `[    1.907] [   T12] Kernel panic` becomes `Kernel panic`.
fn message(line: &str) -> &str {
    let mut text = line.trim_start();
    while let Some((inside, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        if !inside
            .trim()
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'T' | 'C'))
        {
            break;
        }
        text = rest.trim_start();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        console.take(text.as_bytes());
        console.end();
        console
    }

    /// The messages of Debian's 6.1 kernel when it found no root file system.
    const NO_ROOT: &str = "\
[    1.906655] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r
[    1.906668] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1.0-56-amd64 #1  Debian 6.1.192-2\r
[    1.906668] Call Trace:\r
[    1.906668]  <TASK>\r
[    1.906668]  panic+0x118/0x2f4\r
[    1.906668]  </TASK>\r
[    1.906668] Kernel Offset: 0x31600000 from 0xffffffff81000000 (relocation range: 0xffffffff80000000-0xffffffffbfffffff)\r
";

    #[test]
    fn a_panic_says_why() {
        let console = console(NO_ROOT);
        let why = "VFS: Unable to mount root fs on unknown-block(0,0)";
        assert_eq!(console.trouble(), Some(Trouble::Panic(why.into())));
        let tail = console.tail(2);
        assert_eq!(tail.len(), 2);
        assert!(
            tail[0].ends_with("</TASK>") && tail[1].contains("Kernel Offset"),
            "{tail:?}"
        );
    }

    #[test]
    fn an_oops_says_more_than_the_panic_that_it_ends_in() {
        for (oops, begin) in [
            (
                "BUG: kernel NULL pointer dereference, address: 0000000000000010",
                "BUG: kernel NULL pointer",
            ),
            (
                "BUG: unable to handle page fault for address: ffffc90000c07000",
                "BUG: unable to handle page fault",
            ),
            (
                "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1]",
                "general",
            ),
            (
                "kernel BUG at fs/reiserfs/journal.c:3045!",
                "kernel BUG at fs/reiserfs/journal.c:3045!",
            ),
            (
                "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
                "Unable to handle",
            ),
        ] {
            let text = format!(
                "[   12.345678] {oops}\n[   12.345680] #PF: supervisor read access in kernel mode\n\
                 [   12.350000] Oops: 0000 [#1] PREEMPT SMP NOPTI\n[   12.4] Kernel panic - not syncing: Fatal exception\n"
            );
            let Some(Trouble::Panic(why)) = console(&text).trouble() else {
                panic!("{oops}")
            };
            assert!(
                why.starts_with(begin) && why.ends_with(" (Fatal exception)"),
                "{why}"
            );
        }
    }

    #[test]
    fn hangs_are_told_from_panics() {
        let hung = "[  363.1] INFO: task mkfs.jfs:214 blocked for more than 300 seconds.\n\
                    [  363.2]       Not tainted 6.1.0-56-amd64 #1\n\
                    [  363.3] Kernel panic - not syncing: hung_task: blocked tasks\n";
        let why = "INFO: task mkfs.jfs:214 blocked for more than 300 seconds.";
        assert_eq!(console(hung).trouble(), Some(Trouble::Hang(why.into())));
        let soft = "[   48.0][    C1] watchdog: BUG: soft lockup - CPU#1 stuck for 122s! [fsb:210]\n\
                    [   48.1][    C1] Kernel panic - not syncing: softlockup: hung tasks\n";
        let why = "watchdog: BUG: soft lockup - CPU#1 stuck for 122s! [fsb:210]";
        assert_eq!(console(soft).trouble(), Some(Trouble::Hang(why.into())));
        let stall = console("[   26.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n");
        assert!(matches!(stall.trouble(), Some(Trouble::Hang(_))));
        // A panic of another kind after a stall is a panic.
        let other = console(
            "rcu: INFO: rcu_preempt detected stalls\nKernel panic - not syncing: Out of memory\n",
        );
        assert_eq!(
            other.trouble(),
            Some(Trouble::Panic("Out of memory".into()))
        );
    }

    #[test]
    fn console_lines_that_only_mention_trouble_are_ignored() {
        for line in [
            "[    0.1] Command line: oops=panic softlockup_panic=1",
            "[    0.2] EXT4-fs: INFO: recovery",
            "fine",
        ] {
            assert_eq!(console(line).trouble(), None, "{line}");
        }
    }

    #[test]
    fn the_guests_own_words_are_heard() {
        let ready = console("[    0.5] Run /init as init process\nfsb-guest: ready\n");
        assert!(ready.ready() && ready.refusal().is_none());
        let refused =
            console("fsb-guest: cannot load the module /usr/lib/modules/x.ko: No such device\n");
        assert_eq!(
            refused.refusal().unwrap(),
            "cannot load the module /usr/lib/modules/x.ko: No such device"
        );
    }

    #[test]
    fn the_screen_is_cleared_by_nobody() {
        let console = console("\u{1b}[2J\u{1b}[01;01HSeaBIOS\r\nnext");
        assert_eq!(console.tail(9), ["SeaBIOS", "next"]);
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..KEPT + 7).map(|n| format!("line {n}\n")).collect();
        let console = console(&text);
        assert_eq!(console.tail(usize::MAX).len(), KEPT);
        assert_eq!(console.tail(1), [format!("line {}", KEPT + 6)]);
        assert_eq!(super::Console::default().tail(3), Vec::<String>::new());
    }

    proptest! {
        /// The result does not depend on how the bytes are split, and memory stays bounded.
        #[test]
        fn any_bytes_in_any_pieces(bytes: Vec<u8>, at: prop::sample::Index) {
            let mut whole = Console::default();
            whole.take(&bytes);
            let mut pieces = Console::default();
            let (one, other) = bytes.split_at(at.index(bytes.len() + 1));
            pieces.take(one);
            pieces.take(other);
            prop_assert_eq!(whole.tail(usize::MAX), pieces.tail(usize::MAX));
            prop_assert_eq!(whole.trouble(), pieces.trouble());
            prop_assert!(whole.partial.len() <= LONGEST);
        }
    }
}
