//! Programs that run beside the command: a database, a server.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::options::Service;
use super::program::{self, Running, Surroundings};
use crate::EngineError;

/// The longest time until a service is ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time until a service has stopped.
const STOP_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 120 });
/// Time between two looks at one that is not ready yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Services that run. Dropping them leaves them to whoever ends all processes.
pub(super) struct Services<'o> {
    running: Vec<(&'o Service, Running)>,
}

impl<'o> Services<'o> {
    /// Starts them one after another, each once those before are ready. Where one fails, none is left.
    pub(super) fn start(services: &'o [Service], around: &Surroundings) -> Result<Services<'o>, EngineError> {
        let mut all = Services { running: Vec::new() };
        for service in services {
            let started =
                program::start(&service.command, around).and_then(|running| until_ready(service, running, around));
            match started {
                Ok(running) => all.running.push((service, running)),
                Err(error) => {
                    let _ = all.stop();
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Their processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.running.iter().map(|(_, running)| running.id()).collect()
    }

    /// Stops them, the last one first. One that had ended before by itself, or does not stop, is an error.
    pub(super) fn stop(&mut self) -> Result<(), EngineError> {
        let mut answer = Ok(());
        while let Some((service, running)) = self.running.pop() {
            let shown = service.command.shown();
            let ended_before = !running.outlasts(Duration::ZERO);
            running.signal(Signal::from_named_raw(service.stop).unwrap_or(Signal::TERM));
            let ended = running.wait(STOP_PATIENCE);
            let found = match ended {
                Ok(mut ended) if ended_before => {
                    ended.read();
                    Err(EngineError::new(format!("{shown}: the service ended by itself: {}", ended.last_words())))
                }
                Ok(ended) if ended.is_late() => Err(EngineError::new(format!(
                    "{shown}: the service did not stop within {} s",
                    STOP_PATIENCE.as_secs()
                ))),
                Ok(_) => Ok(()),
                Err(error) => Err(EngineError::new(format!("{shown}: cannot wait for the service: {error}"))),
            };
            answer = answer.and(found);
        }
        answer
    }
}

/// Waits until a service is ready: until its `ready` command ends well, which is tried again and again.
fn until_ready(service: &Service, running: Running, around: &Surroundings) -> Result<Running, EngineError> {
    let Some(ready) = &service.ready else { return Ok(running) };
    let (shown, begun) = (service.command.shown(), Instant::now());
    loop {
        let asked = program::run(ready, around)?;
        if asked.is_ok(&[0]) {
            return Ok(running);
        }
        if !running.outlasts(PAUSE) {
            let mut ended = running.wait(Duration::ZERO).map_err(|error| EngineError::new(error.to_string()))?;
            ended.read();
            return Err(EngineError::new(format!(
                "{shown}: the service ended before it was ready: {}",
                ended.last_words()
            )));
        }
        if begun.elapsed() >= PATIENCE {
            running.signal(Signal::KILL);
            let said = running.wait(PATIENCE).map(|mut ended| {
                ended.read();
                ended.last_words()
            });
            return Err(EngineError::new(format!(
                "{shown}: the service was not ready after {} s ('{}' did not end well): {}",
                PATIENCE.as_secs(),
                ready.shown(),
                said.unwrap_or_default()
            )));
        }
    }
}
