//! What can be wrong with controls that are asked for, told before anything is changed.

use std::collections::BTreeMap;

use super::context::TargetDevice;
use super::find;
use super::interface::{Control, Scope};
use crate::error::TestbedError;
use crate::sys::Roots;

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
