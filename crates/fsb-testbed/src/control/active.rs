//! The controls that are set for a run, or for a program that measures without a run, and the checks of the requested values
//! before anything is changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use fsb_model::Warning;
use fsb_model::run::{ControlRecord, MemoryTouched};
use fsb_sys::Roots;
use fsb_sys::error::TestbedError;

use super::interface::{Context, Control, Held, Scope, TargetDevice};
use super::{REGISTRY, find};
use crate::ledger::{self, EntryHandle, Ledger, Owner};
use crate::progress::Progress;

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

/// The value asked for, else the default.
pub(crate) fn value_of(control: &dyn Control, requested: &BTreeMap<String, String>) -> String {
    requested.get(control.name()).cloned().unwrap_or_else(|| default_of(control).to_owned())
}

fn default_of(control: &dyn Control) -> &'static str {
    control.values()[0].name
}

/// Refuses names and values that no control has, and controls that exclude each other.
pub(crate) fn check(requested: &BTreeMap<String, String>, roots: &Roots) -> Result<(), TestbedError> {
    for (name, value) in requested {
        let control = find(name)?;
        control.check(value, roots)?;
        if value != default_of(control) {
            check_excluded(control, requested)?;
            control.check_beside(value, requested, roots)?;
        }
    }
    Ok(())
}

fn check_excluded(control: &dyn Control, requested: &BTreeMap<String, String>) -> Result<(), TestbedError> {
    let Some(other) = control.excludes() else { return Ok(()) };
    if value_of(find(other)?, requested) == default_of(find(other)?) {
        return Ok(());
    }
    Err(TestbedError::request(format!("the controls {} and {other} exclude each other", control.name()))
        .coded(&fsb_model::error::CONTROL_CONFLICT)
        .advice("leave one of them out"))
}

/// [`check`] for what one target asks for itself, which must end with its visit.
pub(crate) fn check_target(requested: &BTreeMap<String, String>, roots: &Roots) -> Result<(), TestbedError> {
    for name in requested.keys() {
        if find(name)?.scope() == Scope::Run {
            return Err(TestbedError::request(format!("the control {name} holds for the whole run, for all targets"))
                .coded(&fsb_model::error::CONTROL_OF_RUN)
                .field("control", name.as_str())
                .advice("move it to [controls]"));
        }
    }
    check(requested, roots)
}

/// Refuses values that a target's own device does not take, as far as it is there.
pub(crate) fn check_place(
    requested: &BTreeMap<String, String>,
    place: &TargetDevice,
    roots: &Roots,
) -> Result<(), TestbedError> {
    for (name, value) in requested {
        let control = find(name)?;
        if control.scope() == Scope::Visit {
            control.check_place(value, place, roots)?;
        }
    }
    Ok(())
}

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
        super::check(&asked, &fsb_sys::Roots::default())?;
        let ledger = Ledger::open(&ledger::default_directory()?, Owner::current(), super::RULES)?;
        let controls = ActiveControls { patience: Some(patience), ..ActiveControls::default() };
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
