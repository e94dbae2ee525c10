//! The controls that are set for a run, or for a program that measures without a run. Also checks
//! the requested values before anything is changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use fsb_model::Warning;
use fsb_model::run::{ControlRecord, MemoryTouched};
use fsb_sys::Roots;
use fsb_sys::error::TestbedError;

use super::interface::{Context, Control, Held, Scope, TargetDevice};
use super::{REGISTRY, find};
use crate::Progress;
use crate::ledger::{self, EntryHandle, Ledger, Owner};

/// The controls that are set for a run or a target. Only [`ActiveControls::restore`] restores them.
#[derive(Default)]
pub(crate) struct ActiveControls {
    set: Vec<(&'static dyn Control, Vec<EntryHandle>)>,
    /// Files whose settings the kernel reverts when they are closed.
    open: Vec<File>,
    /// The requested value and the result of each control, by name.
    pub records: BTreeMap<String, ControlRecord>,
    /// Conditions that the reader of the results must know.
    pub warnings: Vec<Warning>,
    /// The restrictions on the processes that measure.
    pub held: Held,
    /// The time limit for setting each control, as far as the control can stop early. `None` means
    /// no limit.
    pub patience: Option<Duration>,
    /// Bytes of memory that the run may use at once. `None` if that is unknown.
    pub memory_needed: Option<u64>,
    /// The memory that was touched.
    pub memory: Option<MemoryTouched>,
}

impl ActiveControls {
    /// Sets every control of `scope` to the requested value, or to its default. Controls that were
    /// set before an error stay set until they are restored.
    pub(crate) fn set_all(
        &mut self,
        scope: Scope,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let controls = REGISTRY
            .iter()
            .copied()
            .filter(|control| control.scope() == scope);
        self.set_each(controls, requested, place, ledger, progress)
    }

    /// Like [`ActiveControls::set_all`], for the given controls.
    pub(crate) fn set_each(
        &mut self,
        controls: impl Iterator<Item = &'static dyn Control>,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        for control in controls {
            self.set(
                control,
                &value_of(control, requested),
                place,
                ledger,
                progress,
            )?;
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
        let mut context = Context::new(
            control.name(),
            &roots,
            ledger,
            progress,
            place,
            &mut self.held,
        );
        context.patience = self.patience.unwrap_or(Duration::MAX);
        context.memory_needed = self.memory_needed;
        let applied = control.set(value, &mut context);
        self.open.extend(context.take_open());
        // Also on failure, so that [`ActiveControls::restore`] undoes a partial change, too.
        self.set.push((control, context.into_tickets()));
        let applied = applied?;
        let record = ControlRecord {
            requested: value.to_owned(),
            observed: applied.observed,
            effective: applied.effective,
        };
        self.records.insert(control.name().to_owned(), record);
        self.warnings.extend(applied.warnings);
        self.memory = applied.memory.or(self.memory);
        Ok(())
    }

    /// Restores all controls, the last one first. Returns the errors of changes that could not be
    /// undone; their entries stay in the ledger.
    pub fn restore(&mut self, ledger: &Ledger) -> Vec<String> {
        let active = std::mem::take(self);
        active
            .set
            .into_iter()
            .rev()
            .flat_map(|(control, handles)| control.restore(handles, ledger))
            .collect()
    }
}

/// Returns the requested value, or the default.
pub(crate) fn value_of(control: &dyn Control, requested: &BTreeMap<String, String>) -> String {
    requested
        .get(control.name())
        .cloned()
        .unwrap_or_else(|| default_of(control).to_owned())
}

fn default_of(control: &dyn Control) -> &'static str {
    control.values()[0].name
}

/// Refuses names and values that no control has, and controls that exclude each other.
pub(crate) fn check(
    requested: &BTreeMap<String, String>,
    roots: &Roots,
) -> Result<(), TestbedError> {
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

fn check_excluded(
    control: &dyn Control,
    requested: &BTreeMap<String, String>,
) -> Result<(), TestbedError> {
    let Some(other) = control.excludes() else {
        return Ok(());
    };
    if value_of(find(other)?, requested) == default_of(find(other)?) {
        return Ok(());
    }
    Err(TestbedError::request(format!(
        "the controls {} and {other} exclude each other",
        control.name()
    ))
    .coded(&fsb_model::error::CONTROL_CONFLICT)
    .advice("leave one of them out"))
}

/// Like [`check`], for the controls of a single target, which must end with the target.
pub(crate) fn check_target(
    requested: &BTreeMap<String, String>,
    roots: &Roots,
) -> Result<(), TestbedError> {
    for name in requested.keys() {
        if find(name)?.scope() == Scope::Run {
            return Err(TestbedError::request(format!(
                "the control {name} holds for the whole run, for all targets"
            ))
            .coded(&fsb_model::error::CONTROL_OF_RUN)
            .field("control", name.as_str())
            .advice("move it to [controls]"));
        }
    }
    check(requested, roots)
}

/// Refuses values that the target's own device does not accept, if the device already exists.
pub(crate) fn check_place(
    requested: &BTreeMap<String, String>,
    place: &TargetDevice,
    roots: &Roots,
) -> Result<(), TestbedError> {
    for (name, value) in requested {
        let control = find(name)?;
        if control.scope() == Scope::Target {
            control.check_place(value, place, roots)?;
        }
    }
    Ok(())
}

/// The controls of a run that are set. [`Machine::release`] or dropping the value restores them.
/// The next `fsb` undoes the changes that a killed process left or that could not be undone, as it
/// does after a run.
pub struct Machine {
    controls: ActiveControls,
    ledger: Ledger,
}

impl Machine {
    /// Sets every control of the run to the requested value, or to its default.
    ///
    /// # Errors
    /// Fails if a control is unknown, does not accept the value, or could not be set.
    pub fn hold(asked: &[(&str, &str)], patience: Duration) -> Result<Machine, TestbedError> {
        let asked: BTreeMap<String, String> = asked
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        super::check(&asked, &fsb_sys::Roots::default())?;
        let ledger = Ledger::open(
            &ledger::default_directory()?,
            Owner::current(),
            super::RULES,
        )?;
        let controls = ActiveControls {
            patience: Some(patience),
            ..ActiveControls::default()
        };
        // Built before anything is set, so that dropping it also undoes a partial change.
        let mut machine = Machine { controls, ledger };
        machine.controls.set_all(
            Scope::Run,
            &asked,
            &TargetDevice::default(),
            &machine.ledger,
            &mut |_: Progress| {},
        )?;
        Ok(machine)
    }

    /// Returns conditions that the reader of the results must know.
    pub fn warnings(&self) -> &[Warning] {
        &self.controls.warnings
    }

    /// Undoes all changes. Returns the errors of changes that could not be undone.
    pub fn release(mut self) -> Vec<String> {
        self.controls.restore(&self.ledger)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.controls.restore(&self.ledger);
    }
}
