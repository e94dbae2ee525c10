//! The registry of controls: host conditions that fsb sets, observes and restores. Each control is one file and one
//! line in [`REGISTRY`].

mod active;
mod barriers;
mod boost;
mod cpus;
mod dirty;
mod governor;
mod guest_memory;
mod idle;
mod interface;
mod kernel_cpus;
pub mod memory_limit;
mod numa;
mod page_cache;
mod read_ahead;
mod scheduler;
mod services;
mod swap;
mod sysfs;
#[cfg(test)]
pub(crate) mod testing;
mod wbt;

use fsb_model::nearest;
use fsb_sys::error::TestbedError;

pub(crate) use active::ActiveControls;
pub use active::Machine;
pub(crate) use active::{check, check_place, check_target, value_of};
pub use idle::stay_awake;
pub(crate) use interface::check_declared;
pub use interface::{Applied, Control, KEEP, PossibleInterference, Scope, Value};
pub use interface::{Context, Held, Stop, TargetDevice};
pub use numa::processors_left;
pub(crate) use page_cache::{PAGE_CACHE, cold_method};
pub(crate) use read_ahead::after_mount as set_read_ahead;

use crate::ledger::Rules;

/// Every control that fsb has, in the order in which they are set.
pub static REGISTRY: &[&dyn Control] = &[
    &page_cache::PageCache,
    &services::Services,
    &swap::Swap,
    &governor::Governor,
    &boost::Boost,
    &idle::Idle,
    &dirty::DIRTY_RATIO,
    &dirty::DIRTY_BYTES,
    &dirty::DIRTY_BACKGROUND_RATIO,
    &dirty::DIRTY_BACKGROUND_BYTES,
    &dirty::DIRTY_EXPIRE,
    &dirty::DIRTY_WRITEBACK,
    &scheduler::Scheduler,
    &wbt::Wbt,
    // A change of the cache makes the kernel reset the read-ahead.
    &barriers::Barriers,
    &read_ahead::ReadAhead,
    &cpus::Cpus,
    &kernel_cpus::KernelCpus,
    &numa::Numa,
    &memory_limit::MemoryLimit,
    &guest_memory::GuestMemory,
];

/// The actions that the undo ledger accepts for each control.
pub const RULES: Rules = Rules(|name, action, roots| Ok(find(name)?.owns(action, roots)));

/// Returns the control of that name. The error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static dyn Control, TestbedError> {
    REGISTRY.iter().copied().find(|control| control.name() == name).ok_or_else(|| {
        let near = nearest::nearest(name, REGISTRY.iter().map(|control| control.name()));
        let is_option = crate::fs::COMMON.iter().any(|option| option.name == name);
        let advice = match near {
            _ if is_option => format!("a mount option is part of a target: ext4,{name}"),
            Some(near) => format!("did you mean '{near}'? 'fsb list controls' shows all"),
            None => "'fsb list controls' shows all".to_owned(),
        };
        TestbedError::request(format!("unknown control '{}'", nearest::shortened(name)))
            .coded(&fsb_model::error::UNKNOWN_CONTROL)
            .field("control", name)
            .advice(advice)
    })
}

/// Returns the value that the name of a control alone requests: the value after `keep`, unless that is a form such as
/// `SIZE`.
pub fn value_of_name(name: &str) -> Result<&'static str, TestbedError> {
    let control = find(name)?;
    match control.values() {
        [default, usual, ..] if default.name == KEEP && !usual.stands_for_many() => Ok(usual.name),
        values => {
            let names: Vec<_> = values.iter().map(|value| value.name).collect();
            Err(TestbedError::request(format!("the control {name} needs a value"))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice(format!("write {name}=VALUE: {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests;
