//! The family of controls: host conditions that are set, observed and restored. One file a member, one line in
//! [`REGISTRY`].

mod guest_memory;
mod page_cache;

use std::collections::BTreeMap;

use fsb_model::nearest;
use fsb_model::run::ControlRecord;

pub(crate) use page_cache::{PAGE_CACHE, cold_method};

use crate::error::TestbedError;
use crate::ledger::{Ledger, Ticket};
use crate::sys::Roots;
use crate::testbed::Progress;

/// Every control that fsb has.
pub static REGISTRY: &[&dyn Control] = &[&page_cache::PageCache, &guest_memory::GuestMemory];

/// A value that a control takes.
#[derive(Debug)]
pub struct Value {
    /// As in `--control NAME=VALUE`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

/// What setting a control did.
#[derive(Debug, Default)]
pub struct Applied {
    /// Whether what was asked for is now so.
    pub effective: bool,
    /// What was found and done, in words.
    pub observed: String,
    /// What the reader of the results must know.
    pub warnings: Vec<String>,
    /// How to restore.
    pub tickets: Vec<Ticket>,
}

/// A host condition.
pub trait Control: Sync {
    /// Its name in plans and after `--control`.
    fn name(&self) -> &'static str;
    /// One line for `fsb list controls`.
    fn about(&self) -> &'static str;
    /// The values it takes, the default first.
    fn values(&self) -> &'static [Value];
    /// Whether it can be set here; why not.
    fn probe(&self, roots: &Roots) -> Result<(), String>;
    /// Sets it for the run. Whatever the kernel would not restore is in the ledger before it changes.
    fn set(
        &self,
        value: &str,
        roots: &Roots,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Applied, TestbedError>;
    /// How the condition is now.
    fn observe(&self, roots: &Roots) -> String;
    /// Undoes what [`Control::set`] did, the last change first. The answer holds what could not be undone.
    fn restore(&self, tickets: Vec<Ticket>, ledger: &Ledger) -> Vec<String> {
        let undone = tickets.into_iter().rev().map(|ticket| ledger.undo(ticket));
        undone.filter_map(Result::err).map(|error| error.to_string()).collect()
    }
}

/// Refuses names and values that no control has.
pub(crate) fn check(requested: &BTreeMap<String, String>) -> Result<(), TestbedError> {
    for (name, value) in requested {
        let names = REGISTRY.iter().map(|control| control.name());
        let control = REGISTRY.iter().find(|control| control.name() == name).ok_or_else(|| {
            TestbedError::request(nearest::unknown("control", name, names)).advice("`fsb list controls` shows all")
        })?;
        let values = control.values().iter().map(|value| value.name);
        if !values.clone().any(|known| known == value) {
            let what = format!("value of control {name}");
            return Err(TestbedError::request(nearest::unknown(&what, value, values))
                .advice("`fsb list controls` shows what each takes"));
        }
    }
    Ok(())
}

/// The value asked for, else the default.
pub(crate) fn value_of(control: &dyn Control, requested: &BTreeMap<String, String>) -> String {
    requested.get(control.name()).cloned().unwrap_or_else(|| control.values()[0].name.to_owned())
}

/// The controls of a run, set.
#[derive(Default)]
pub(crate) struct ActiveControls(Vec<(&'static dyn Control, Vec<Ticket>)>);

impl ActiveControls {
    /// Sets one more and says what came of it.
    pub fn set(
        &mut self,
        control: &'static dyn Control,
        value: &str,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(ControlRecord, Vec<String>), TestbedError> {
        let applied = control.set(value, &Roots::default(), ledger, progress)?;
        self.0.push((control, applied.tickets));
        let record =
            ControlRecord { requested: value.to_owned(), observed: applied.observed, effective: applied.effective };
        Ok((record, applied.warnings))
    }

    /// Restores all, the last one first.
    pub fn restore(&mut self, ledger: &Ledger) -> Vec<String> {
        let active = std::mem::take(&mut self.0);
        active.into_iter().rev().flat_map(|(control, tickets)| control.restore(tickets, ledger)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_unique_and_described() {
        let mut names = std::collections::BTreeSet::new();
        for control in REGISTRY {
            assert!(names.insert(control.name()), "{} twice", control.name());
            assert!(!control.about().is_empty() && !control.about().contains('\n'), "{}", control.name());
            assert!(!control.values().is_empty(), "{} takes nothing", control.name());
            for value in control.values() {
                let asked = BTreeMap::from([(control.name().to_owned(), value.name.to_owned())]);
                check(&asked).unwrap();
                assert_eq!(value_of(*control, &asked), value.name);
            }
            assert_eq!(value_of(*control, &BTreeMap::new()), control.values()[0].name);
            assert!(!control.observe(&Roots::default()).is_empty());
        }
    }

    #[test]
    fn slips_get_the_nearest_name() {
        let refusal = |name: &str, value: &str| {
            check(&BTreeMap::from([(name.to_owned(), value.to_owned())])).unwrap_err().to_string()
        };
        assert!(refusal("page-cach", "remount").contains("did you mean 'page-cache'"));
        assert!(refusal("page-cache", "remout").contains("did you mean 'remount'"));
        assert!(refusal("guest-memory", "perhaps").contains("known are auto, off"));
    }
}
