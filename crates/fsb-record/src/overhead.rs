//! What stopping a call costs: calls that do nothing are traced and timed.

use std::io;
use std::time::Instant;

use fsb_testbed::trace::{self, Stop, Until};
use fsb_trace::Overhead;

/// Calls that are timed.
pub(crate) const CALLS: usize = 1000;

/// What tracing adds to a call, and to the time between two.
pub(crate) fn measure() -> io::Result<Overhead> {
    let mut child = crate::child::start(&[], true)?;
    let task = child.id() as i32;
    trace::seize(task, true)?;
    rustix::process::kill_process(pid(task)?, rustix::process::Signal::CONT)?;
    let (mut calls, mut gaps) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    let mut resumed = Instant::now();
    loop {
        let (stopped, stop) = match trace::wait() {
            Ok(stopped) => stopped,
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
            Err(error) => return Err(error),
        };
        let ns = resumed.elapsed().as_nanos() as u64;
        let until = match stop {
            Stop::Ended { .. } if stopped == task => break,
            Stop::Ended { .. } => continue,
            Stop::Filtered => {
                gaps.push(ns);
                Until::Call
            }
            Stop::Call => {
                calls.push(ns);
                Until::Event
            }
            _ => Until::Event,
        };
        resumed = Instant::now();
        trace::resume(stopped, until, 0)?;
    }
    // It was reaped above, or is about to be.
    let _ = child.try_wait();
    Ok(Overhead { call_ns: median(calls), gap_ns: median(gaps) })
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn pid(task: i32) -> io::Result<rustix::process::Pid> {
    rustix::process::Pid::from_raw(task).ok_or_else(|| io::Error::other("no process has that number"))
}
