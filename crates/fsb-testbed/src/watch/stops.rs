//! Children of the agent that were stopped by a signal and continued: their clock went on meanwhile.

use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Number of workers, or of their monitors, that were stopped and continued between go and result.
pub(crate) const PROCESSES: &str = "stopped_processes";

/// Returns the number of children that continued after a stop since the last call. The kernel reports each one once.
/// Children that end are left to the thread that waits for them.
pub(super) fn continued() -> u32 {
    let options = WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let mut count = 0;
    while matches!(waitid(WaitId::All, options), Ok(Some(_))) {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use fsb_model::Interference;

    use crate::watch::{Watch, Watched, interference};
    use fsb_sys::Roots;

    #[test]
    fn a_child_that_was_stopped_and_continued_is_interference() {
        let nowhere = tempfile::tempdir().unwrap();
        let roots = Roots { proc: nowhere.path().to_owned(), sys: nowhere.path().to_owned() };
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let watch = Watch::begin(&Watched { roots: &roots, coordinator: 1, device: None, neighbours: &[] });
        kill_process(pid, Signal::STOP).unwrap();
        // The kernel notes a continued process only if it had stopped before.
        while !std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::CONT).unwrap();
        let seen = watch.end();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(interference(&seen), [Interference::Stopped { processes: 1.0 }]);
    }
}
