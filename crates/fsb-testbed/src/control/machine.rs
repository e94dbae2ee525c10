//! The machine as a run holds it, for programs that measure without a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ActiveControls;
use super::context::TargetDevice;
use super::interface::Scope;
use crate::error::TestbedError;
use crate::ledger::{self, Ledger, Owner};
use crate::progress::Progress;
use fsb_model::Warning;

/// Controls of the run, set; they are restored by [`Machine::release`], or when it is dropped. What a killed process
/// left, or what could not be undone, is undone by the next `fsb`, as after a run.
pub struct Machine {
    controls: ActiveControls,
    ledger: Ledger,
}

impl Machine {
    /// Sets every control of the run to what is asked for, else to its default.
    ///
    /// # Errors
    /// A control is unknown or takes no such value, or what was begun failed.
    pub fn hold(asked: &[(&str, &str)], patience: Duration) -> Result<Machine, TestbedError> {
        let asked: BTreeMap<String, String> =
            asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        super::check(&asked, &crate::sys::Roots::default())?;
        let ledger = Ledger::open(&ledger::default_directory()?, Owner::current(), super::RULES)?;
        let mut controls = ActiveControls::default();
        controls.patience = Some(patience);
        // Whole before anything is set, so that half of it is undone, too.
        let mut machine = Machine { controls, ledger };
        let mut quiet = |_: Progress| {};
        machine.controls.set_all(Scope::Run, &asked, &TargetDevice::default(), &machine.ledger, &mut quiet)?;
        Ok(machine)
    }

    /// Conditions that the reader of the numbers must know.
    pub fn warnings(&self) -> &[Warning] {
        &self.controls.warnings
    }

    /// Undoes everything; says what could not be undone.
    pub fn release(mut self) -> Vec<String> {
        self.controls.restore(&self.ledger)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.controls.restore(&self.ledger);
    }
}
