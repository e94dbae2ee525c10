//! A step of a trial, as the engine has it.

use fsb_engine::{EngineError, Gate, Live, Ready, StepReport, Task, worker};

use super::serve::{Desk, Work};

/// Steps of trials: the engine's tasks.
#[derive(Debug)]
pub enum Steps {}

impl Work for Steps {
    const NAME: &'static str = "step";
    type Task = Task;
    type Progress = Live;
    type Answer = StepReport;

    fn perform(task: Task, desk: &mut Desk<'_, Live>) -> Result<StepReport, EngineError> {
        worker::perform(&task, desk)
    }
}

impl Gate for Desk<'_, Live> {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        Desk::ready(self, ready)
    }

    fn tell(&mut self, live: Live) {
        Desk::tell(self, live);
    }
}
