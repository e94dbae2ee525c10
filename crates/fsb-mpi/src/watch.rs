//! Ends a rank whose phase takes too long, so that a rank that hangs does not keep the job forever.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The present activity of a rank, and its deadline.
#[derive(Debug, Clone)]
struct Activity {
    text: String,
    /// Absent if the watch has ended.
    until: Option<Instant>,
}

/// Watches one rank from a thread of its own. The thread ends when the value is dropped.
#[derive(Debug)]
pub struct Watch {
    now: Arc<(Mutex<Activity>, Condvar)>,
    limit: Duration,
}

impl Watch {
    /// Starts to watch. If an activity lasts longer than `limit`, `overdue` gets its description.
    pub fn new(limit: Duration, overdue: impl FnOnce(&str) + Send + 'static) -> Watch {
        let first = Activity {
            text: "start".to_owned(),
            until: Some(Instant::now() + limit),
        };
        let now = Arc::new((Mutex::new(first), Condvar::new()));
        let watched = Arc::clone(&now);
        thread::spawn(move || {
            let (activity, changed) = &*watched;
            let mut current = activity.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(until) = current.until {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let text = current.text.clone();
                    drop(current);
                    return overdue(&text);
                }
                current = changed
                    .wait_timeout(current, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        });
        Watch { now, limit }
    }

    /// Returns a watch without a thread, which reports nothing.
    pub fn none() -> Watch {
        let activity = Activity {
            text: String::new(),
            until: None,
        };
        Watch {
            now: Arc::new((Mutex::new(activity), Condvar::new())),
            limit: Duration::ZERO,
        }
    }

    /// Notes that a new activity begins.
    pub fn begin(&self, text: impl Into<String>) {
        self.set(Activity {
            text: text.into(),
            until: Some(Instant::now() + self.limit),
        });
    }

    fn set(&self, activity: Activity) {
        *self.now.0.lock().unwrap_or_else(PoisonError::into_inner) = activity;
        self.now.1.notify_one();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.set(Activity {
            text: String::new(),
            until: None,
        });
    }
}

/// Prints a line to stderr in one call, which the lines of other ranks do not divide.
pub fn print_line(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints what was overdue, and kills this process. The launcher of the job then ends all other
/// ranks, also one that is stopped. MPI_Abort may not be called here: the main thread may be inside
/// MPI.
pub fn kill_this_rank(rank: usize, limit: Duration, activity: &str) {
    let seconds = limit.as_secs_f64();
    print_line(&format!(
        "error: rank {rank} has not finished within {seconds} s: {activity}\nhelp: a rank hangs; if the work needs more \
         time, use a larger --timeout"
    ));
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn an_activity_that_does_not_end_is_reported_by_name() {
        let (send, overdue) = channel();
        let watch = Watch::new(Duration::from_millis(20), move |text| {
            send.send(text.to_owned()).unwrap()
        });
        watch.begin("waits for rank 3");
        assert_eq!(overdue.recv().unwrap(), "waits for rank 3");
    }

    #[test]
    fn a_watch_that_ended_reports_nothing() {
        let (send, overdue) = channel::<String>();
        let watch = Watch::new(Duration::from_secs(3600), move |text| {
            send.send(text.to_owned()).unwrap()
        });
        watch.begin("work");
        drop(watch);
        // The thread drops its end of the channel without a message.
        assert!(overdue.recv().is_err());
    }
}
