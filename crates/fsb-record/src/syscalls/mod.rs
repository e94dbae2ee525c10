//! Which calls are watched, and what their arguments mean: a table of numbers and readings.

mod act;
mod arguments;
mod table;
mod waits;

use fsb_testbed::trace::Rule;
use fsb_trace::Kind;

pub use act::{Act, Seen};
pub use arguments::{Arguments, open_flags};
pub use table::CALLS;
pub use table::Watched;
pub use waits::WAITS;

/// What a call that began means; nothing where it is not watched.
pub fn seen(number: u64, arguments: [u64; 6]) -> Option<Seen> {
    let watched = CALLS.iter().find(|watched| watched.rule.number as u64 == number)?;
    let chosen = |at: u8| arguments[usize::from(at)] as u32;
    let fits = watched.rule.only.is_none_or(|(at, values)| values.contains(&chosen(at)))
        && watched.rule.except.is_none_or(|(at, value)| chosen(at) != value);
    fits.then(|| (watched.read)(Arguments(arguments)))
}

/// Whether a call can be watched without a stop: what it means lies in its registers alone, and no name, and no number of
/// a descriptor, means anything else after it.
fn needs_no_stop(watched: &Watched) -> bool {
    /// All that is read and written by descriptors.
    const KINDS: [Kind; 11] = [
        Kind::Read,
        Kind::Write,
        Kind::ReadAt,
        Kind::WriteAt,
        Kind::Seek,
        Kind::Sync,
        Kind::DataSync,
        Kind::SyncRange,
        Kind::Truncate,
        Kind::Allocate,
        Kind::Stat,
    ];
    let plain = watched.rule.only.is_none() && watched.rule.except.is_none();
    let seen = (watched.read)(Arguments([1; 6]));
    let in_registers = seen.path.is_none() && seen.second.is_none() && seen.pieces.is_none() && seen.how.is_none();
    plain && seen.act == Act::File && in_registers && KINDS.contains(&seen.raw.kind)
}

/// The rules of the calls that stop; all of them, or those that must.
pub fn rules(all: bool) -> Vec<Rule> {
    CALLS.iter().filter(|watched| all || !needs_no_stop(watched)).map(|watched| watched.rule).collect()
}

/// The numbers of the others, and of calls that tell only who waits for whom.
pub fn numbers_to_watch() -> Vec<i32> {
    let waits = WAITS.iter().map(|number| *number as i32);
    numbers_without_stop().into_iter().chain(waits).collect()
}

/// The numbers of the others.
fn numbers_without_stop() -> Vec<i32> {
    CALLS.iter().filter(|watched| needs_no_stop(watched)).map(|watched| watched.rule.number as i32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_watched_once() {
        for (at, watched) in CALLS.iter().enumerate() {
            assert!(
                CALLS[..at].iter().all(|other| other.rule.number != watched.rule.number),
                "{}",
                watched.rule.number
            );
        }
    }

    #[test]
    fn what_only_registers_tell_needs_no_stop() {
        let numbers = numbers_without_stop();
        for number in [libc::SYS_read, libc::SYS_pwrite64, libc::SYS_fdatasync, libc::SYS_lseek, libc::SYS_fstat] {
            assert!(numbers.contains(&(number as i32)), "{number}");
        }
        for number in [libc::SYS_openat, libc::SYS_close, libc::SYS_dup, libc::SYS_preadv, libc::SYS_getdents64] {
            assert!(!numbers.contains(&(number as i32)), "{number}");
        }
        assert_eq!(rules(true).len(), rules(false).len() + numbers.len());
        assert!(WAITS.iter().all(|number| CALLS.iter().all(|watched| watched.rule.number != *number)));
    }

    #[test]
    fn locks_and_memory_without_a_file_are_let_alone() {
        assert!(seen(libc::SYS_fcntl as u64, [3, libc::F_SETLK as u64, 0, 0, 0, 0]).is_none());
        assert!(seen(libc::SYS_fcntl as u64, [3, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0]).is_some());
        assert!(seen(libc::SYS_mmap as u64, [0, 4096, 3, 2, u64::from(u32::MAX), 0]).is_none());
        assert!(seen(libc::SYS_getpid as u64, [0; 6]).is_none());
    }
}
