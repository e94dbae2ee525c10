//! Controls that are set.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use fsb_model::Warning;
use fsb_model::run::{ControlRecord, MemoryTouched};

use super::context::{Context, Held, TargetDevice};
use super::interface::{Control, Scope};
use super::{REGISTRY, value_of};
use crate::error::TestbedError;
use crate::ledger::{EntryHandle, Ledger};
use crate::progress::Progress;
use crate::sys::Roots;

/// The controls of a run or of a visit, set; they are restored by [`ActiveControls::restore`] alone.
#[derive(Default)]
pub(crate) struct ActiveControls {
    set: Vec<(&'static dyn Control, Vec<EntryHandle>)>,
    /// What the kernel undoes when they are closed.
    open: Vec<File>,
    /// What each was asked and did, by name.
    pub records: BTreeMap<String, ControlRecord>,
    /// Conditions that the reader of the results must know.
    pub warnings: Vec<Warning>,
    /// How the processes that measure are held.
    pub held: Held,
    /// How long each may take to set, as far as that can be cut short; without a bound where there is none.
    pub patience: Option<Duration>,
    /// Bytes of memory that the run may use at once; absent where that is unknown.
    pub memory_needed: Option<u64>,
    /// The memory that was touched.
    pub memory: Option<MemoryTouched>,
}

impl ActiveControls {
    /// Sets every control of `scope` to what was asked for, else to its default. What was set before an error stays set
    /// until it is restored.
    pub(crate) fn set_all(
        &mut self,
        scope: Scope,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let controls = REGISTRY.iter().copied().filter(|control| control.scope() == scope);
        self.set_each(controls, requested, place, ledger, progress)
    }

    /// The same with these controls.
    pub(crate) fn set_each(
        &mut self,
        controls: impl Iterator<Item = &'static dyn Control>,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        for control in controls {
            self.set(control, &value_of(control, requested), place, ledger, progress)?;
        }
        Ok(())
    }

    fn set(
        &mut self,
        control: &'static dyn Control,
        value: &str,
        place: &TargetDevice,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let roots = Roots::default();
        let mut context = Context::new(control.name(), &roots, ledger, progress, place, &mut self.held);
        context.patience = self.patience.unwrap_or(Duration::MAX);
        context.memory_needed = self.memory_needed;
        let applied = control.set(value, &mut context);
        self.open.extend(context.take_open());
        // Also where it failed: half a change is undone like a whole one.
        self.set.push((control, context.into_tickets()));
        let applied = applied?;
        let record =
            ControlRecord { requested: value.to_owned(), observed: applied.observed, effective: applied.effective };
        self.records.insert(control.name().to_owned(), record);
        self.warnings.extend(applied.warnings);
        self.memory = applied.memory.or(self.memory);
        Ok(())
    }

    /// Restores all, the last one first. The answer holds what could not be undone; it stays in the ledger.
    pub fn restore(&mut self, ledger: &Ledger) -> Vec<String> {
        let active = std::mem::take(self);
        active.set.into_iter().rev().flat_map(|(control, handles)| control.restore(handles, ledger)).collect()
    }
}
