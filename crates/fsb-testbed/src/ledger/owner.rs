//! The owner of an entry: a process that lives exactly as long as the run.

use fsb_sys::process::{stat_field, state};
use serde::{Deserialize, Serialize};

/// A process. Its start time distinguishes it from later processes with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id in the coordinator's PID namespace.
    pub pid: u32,
    /// Clock ticks from boot to its start (proc_pid_stat(5), field 22).
    pub start_time: u64,
}

impl Owner {
    /// Returns the calling process. The coordinator calls it and passes the result to the agent, which cannot see its
    /// own id outside its PID namespace.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_time: start_time(pid).unwrap_or(0) }
    }

    /// Parses the owner in the name of an entry's file: `PID-STARTTIME-NUMBER`.
    pub(super) fn of_file(name: &str) -> Option<Owner> {
        let mut parts = name.split('-');
        Some(Owner { pid: parts.next()?.parse().ok()?, start_time: parts.next()?.parse().ok()? })
    }

    /// Returns whether exactly this process still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        let stat = fsb_sys::read_text(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let ended = state(&stat).is_none_or(|state| matches!(state, 'Z' | 'X'));
        !ended && stat_field(&stat, 22) == Some(self.start_time)
    }
}

fn start_time(pid: u32) -> Option<u64> {
    stat_field(&fsb_sys::read_text(format!("/proc/{pid}/stat")).ok()?, 22)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 424242 9";
        assert_eq!(stat_field(stat, 4), Some(1));
        assert_eq!(stat_field(stat, 22), Some(424_242));
        assert_eq!(state(stat), Some('S'));
        assert_eq!(stat_field("", 22), None);
        let cut = [b"7 (caf\xc3".as_slice(), &stat.as_bytes()[4..]].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), cut).unwrap();
        assert_eq!(stat_field(&fsb_sys::read_text(file.path()).unwrap(), 22), Some(424_242));
    }

    #[test]
    fn only_the_very_process_is_alive() {
        let own = Owner::current();
        assert!(own.is_alive());
        assert!(!Owner { start_time: own.start_time + 1, ..own }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner { pid: child.id(), start_time: start_time(child.id()).unwrap() };
        assert!(owner.is_alive());
        child.kill().unwrap();
        // The child is a zombie until the test waits for it.
        assert!(fsb_sys::poll_until(std::time::Duration::from_secs(10), || !owner.is_alive()));
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
