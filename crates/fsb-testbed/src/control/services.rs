//! Services and timers that must not run in the middle of a trial. The control stops them by name
//! and starts them again.
//!
//! Untested on machines with systemd: the tests of whole runs use a program that imitates
//! `systemctl`.

use super::interface::{Applied, Context, Control, KEEP, Scope, Stop, TargetDevice, Value};
use crate::declared::OptionKind;
use crate::ledger::Action;
use fsb_model::Warning;
use fsb_sys::Roots;
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::systemd::{self, SystemdUnit};

pub(super) struct Services;

/// A requested unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestedUnit<'v> {
    name: &'v str,
    /// Whether the machine may lack it.
    optional: bool,
}

/// Parses names such as `cron,apt-daily.timer,anacron?`. Fails on text that cannot be the name of a
/// unit.
fn names(value: &str) -> Result<Vec<RequestedUnit<'_>>, TestbedError> {
    fn is_name(name: &&str) -> bool {
        !name.is_empty()
            && !name.starts_with('-')
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c))
    }
    let requested = |text| match str::strip_suffix(text, '?') {
        Some(name) => RequestedUnit {
            name,
            optional: true,
        },
        None => RequestedUnit {
            name: text,
            optional: false,
        },
    };
    let units: Vec<_> = value.split(',').map(requested).collect();
    match units
        .iter()
        .map(|unit| unit.name)
        .find(|name| !is_name(name))
    {
        None => Ok(units),
        Some(wrong) => Err(TestbedError::request(format!(
            "services={value}: '{wrong}' is not a name of a unit"
        ))
        .coded(&fsb_model::error::CONTROL_VALUE)
        .advice("write names between commas, such as cron,apt-daily.timer; NAME? may be absent")),
    }
}

/// Returns the unit if it exists and may be stopped. Returns `None` for an optional unit that does
/// not exist.
fn stoppable(requested: RequestedUnit<'_>) -> Result<Option<SystemdUnit>, TestbedError> {
    let unit = systemd::unit(requested.name)
        .map_err(|why| TestbedError::machine("systemd does not answer").tried(why))?;
    let refused = |why: &str| {
        Err(
            TestbedError::request(format!("services: {} {why}", unit.name))
                .coded(&fsb_model::error::UNIT)
                .field("unit", unit.name.as_str())
                .advice("`systemctl list-units` shows what runs; leave it out"),
        )
    };
    if !unit.exists {
        return if requested.optional {
            Ok(None)
        } else {
            refused("does not exist")
        };
    }
    if !unit.stoppable {
        return refused("cannot be stopped and started by hand");
    }
    Ok(Some(unit))
}

fn apply(
    value: &str,
    context: &mut Context<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<String, Stop> {
    systemd::present()?;
    let mut said = Vec::new();
    let mut units = Vec::new();
    for requested in names(value)? {
        match stoppable(requested)? {
            Some(unit) => units.push(unit),
            None => said.push(format!("{} does not exist", requested.name)),
        }
    }
    for unit in &units {
        if !unit.active {
            said.push(format!("{} did not run", unit.name));
            continue;
        }
        context.record(Action::StartUnit {
            unit: unit.name.clone(),
        })?;
        let stopped = systemd::stop(&unit.name).and_then(|()| match systemd::unit(&unit.name) {
            Ok(now) if !now.active => Ok(()),
            Ok(_) => Err("it runs again at once".into()),
            Err(why) => Err(why),
        });
        if let Err(why) = stopped {
            let error = TestbedError::machine(format!("{} was not stopped", unit.name))
                .coded(&fsb_model::error::UNIT_RUNS)
                .field("unit", unit.name.as_str())
                .tried(why);
            return Err(error.advice("leave it out of services").into());
        }
        said.push(format!("{} stopped", unit.name));
        // systemd itself reports units that may start it again, but only while it stops the unit.
        for trigger in unit
            .triggered_by
            .iter()
            .filter(|name| units.iter().all(|unit| unit.name != **name))
        {
            if systemd::unit(trigger).is_ok_and(|trigger| trigger.active) {
                warnings.push(Warning::ServiceMayRestart {
                    service: unit.name.clone(),
                    trigger: trigger.clone(),
                });
            }
        }
    }
    Ok(said.join(", "))
}

impl Control for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn about(&self) -> &'static str {
        "Services and timers of systemd that fsb stops while it measures."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "none (default)"),
                Value::form(
                    "UNIT,…",
                    OptionKind::Text("names of units, separated by commas"),
                    "a list to stop, and to start again at the end: cron,apt-daily.timer; UNIT? may be absent",
                ),
            ]
        }
    }

    fn check(&self, value: &str, _: &Roots) -> Result<(), TestbedError> {
        let names = names(value)?;
        if value == KEEP || systemd::present().is_err() {
            return Ok(());
        }
        names
            .into_iter()
            .try_for_each(|name| stoppable(name).map(drop))
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        systemd::present()?;
        match rustix::process::geteuid().is_root() {
            true => Ok(()),
            false => Err(Refusal::NeedsRoot("only root may stop services".into())),
        }
    }

    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        if value == KEEP {
            return Ok(Applied::so("none stopped"));
        }
        let mut warnings = Vec::new();
        let mut applied = Applied::new(self.name(), value, apply(value, context, &mut warnings))?;
        applied.warnings.extend(warnings);
        Ok(applied)
    }

    fn owns(&self, action: &Action, _: &Roots) -> bool {
        matches!(action, Action::StartUnit { unit } if names(unit).is_ok_and(|units| matches!(units[..], [RequestedUnit { optional: false, .. }])))
    }

    fn observe(&self, _: &Roots, _: &TargetDevice) -> String {
        systemd::present().map_or_else(|why| why.to_string(), |()| "all run".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_units_are_told_from_anything_else() {
        let units = names("cron,apt-daily.timer?,getty@tty1").unwrap();
        assert_eq!(
            units.iter().map(|unit| unit.name).collect::<Vec<_>>(),
            ["cron", "apt-daily.timer", "getty@tty1"]
        );
        assert_eq!(
            units.iter().map(|unit| unit.optional).collect::<Vec<_>>(),
            [false, true, false]
        );
        for value in [
            "", "cron,", "cron atd", "--now", "a/b", "x;y", "?", "cron??",
        ] {
            assert_eq!(
                names(value).unwrap_err().kind,
                crate::Kind::Request,
                "{value}"
            );
        }
    }
}
