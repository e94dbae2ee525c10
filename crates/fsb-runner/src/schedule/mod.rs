//! A run: warm-up, planning, then block after block until a judge or the budget ends it.

mod budget;
mod compose;
mod error;
mod judge;
mod model;
mod plan;
pub(crate) mod planner;
mod run;
mod state;

use fsb_model::{RunRecord, Trial, Warning};
use fsb_testbed::Setup;

use crate::event::Event;
use crate::{injected, memory, resume};

pub use budget::check_budget;
pub use error::{CODES, INTERRUPTED, OTHER_KERNEL, RunError};
pub use judge::{Ending, Judge, Judgment};
pub use plan::{Expected, expected};
pub use run::REPEATS;
use state::Schedule;
pub use state::{Run, setup};

/// Makes the run. Returns the record and all trials, those of earlier segments included.
pub fn measure(mut run: Run<'_>) -> Result<(RunRecord, Vec<Trial>), RunError> {
    if run.record.amounts.is_empty() {
        plan::say_estimate(&mut run);
    }
    resume::same_named(&run.record).map_err(RunError::OtherDevice)?;
    let request = Setup {
        memory_needed: Some(memory::needed(&run.record.plan, run.record.placement.as_ref(), &run.work)),
        ..setup(&run.record)
    };
    let opened = {
        let observer = &mut *run.observer;
        run.agent.open(&request, &mut |progress| observer.event(&Event::Opening(&progress)))?
    };
    resume::same_media(&run.record.media, &opened.media).map_err(RunError::OtherDevice)?;
    resume::same_files(run.record.vm.as_ref(), opened.vm.as_ref()).map_err(RunError::OtherKernel)?;
    run.record.media = opened.media;
    run.record.controls = opened.controls;
    // Memory that an earlier segment lacked counts as lacking in the whole run.
    run.record.memory = run.record.memory.filter(|memory| !memory.is_complete()).or(opened.memory);
    run.record.memory_cells = run.record.memory.map(|_| memory::cells(&run.work)).unwrap_or_default();
    run.record.host = opened.host;
    run.record.vm = opened.vm.or(run.record.vm);
    run.record.emulated |= opened.emulated;
    for warning in opened.warnings.into_iter().chain(injected::warning()) {
        run.observer.event(&Event::Warning(&warning));
        if !run.record.warnings.contains(&warning) {
            run.record.warnings.push(warning);
        }
    }
    Schedule::new(run).run_to_end()
}

impl Schedule<'_> {
    fn run_to_end(mut self) -> Result<(RunRecord, Vec<Trial>), RunError> {
        self.save()?;
        if self.run.record.amounts.is_empty() {
            self.warm_up()?;
            self.plan();
            self.save()?;
        }
        self.run.record.stop_reason = Some(self.run_blocks()?);
        self.save()?;
        // Everything is measured and saved. If the agent fails to close, the kernel and the undo ledger undo the rest.
        let farewell = self.run.agent.close();
        if let Err(error) = farewell {
            let warning = Warning::NotTakenDown { target: None, error: error.to_string() };
            self.run.observer.event(&Event::Warning(&warning));
        }
        Ok((self.run.record, self.run.trials))
    }
}
