//! A background that the agent performs, because it needs root: an operation on the whole file
//! system, repeated in a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use fsb_model::observed::BackgroundWork;
use fsb_testbed::{RepeatableMaintenance, TestbedError};

/// The thread. It ends with this value, after the operation that is under way.
pub(super) struct RootBackground {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<BackgroundWork, TestbedError>>>,
}

impl RootBackground {
    /// Starts to repeat the operation.
    pub(super) fn start(perform: RepeatableMaintenance) -> RootBackground {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (began, mut work) = (Instant::now(), BackgroundWork::default());
            while !asked.load(Ordering::Acquire) {
                perform()?;
                work.operations += 1;
                work.seconds = began.elapsed().as_secs_f64();
            }
            Ok(work)
        });
        RootBackground {
            stop,
            thread: Some(thread),
        }
    }

    /// Waits for the end of the operation that is under way, and returns the work.
    ///
    /// # Errors
    /// Returns the error of the operation.
    pub(super) fn stop(mut self) -> Result<BackgroundWork, TestbedError> {
        self.end().unwrap_or_else(|| Ok(BackgroundWork::default()))
    }

    fn end(&mut self) -> Option<Result<BackgroundWork, TestbedError>> {
        self.stop.store(true, Ordering::Release);
        // The thread has no code that panics but that of the operation, whose panic is one of the
        // agent.
        self.thread.take()?.join().ok()
    }
}

impl Drop for RootBackground {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use fsb_testbed::Maintained;

    #[test]
    fn an_operation_is_repeated_until_it_is_stopped_or_fails() {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let background = RootBackground::start(Box::new(move || {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(Maintained::default())
        }));
        while count.load(Ordering::Acquire) < 3 {
            thread::yield_now();
        }
        let work = background.stop().expect("it does not fail");
        assert!(
            work.operations >= 3 && work.operations == count.load(Ordering::Acquire),
            "{work:?}"
        );
        assert!(work.seconds > 0.0 && work.bytes == 0);
        let (began, begins) = std::sync::mpsc::channel();
        let failing = RootBackground::start(Box::new(move || {
            let _ = began.send(());
            Err(TestbedError::trial("no such snapshot"))
        }));
        begins.recv().expect("it begins");
        assert!(
            failing
                .stop()
                .is_err_and(|error| error.to_string().contains("no such snapshot"))
        );
    }

    #[test]
    fn a_background_that_is_dropped_ends() {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        drop(RootBackground::start(Box::new(move || {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(Maintained::default())
        })));
        assert_eq!(Arc::strong_count(&count), 1, "the thread is gone");
    }
}
