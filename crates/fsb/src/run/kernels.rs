//! Kernels of virtual machines that a run needs.

use fsb_model::Place;
use fsb_runner::plan_file::PlanFile;
use fsb_vm::kernel::{self, Kernel};

use super::stage::check_cache;
use crate::exit::{Second, Signals};
use crate::message::say;

/// Unpacks those packages named as kernels that were not unpacked before, and prints progress.
pub fn unpack(file: &PlanFile) -> anyhow::Result<()> {
    if file.settings.text("in") != Some(Place::Vm.name()) {
        return Ok(());
    }
    check_cache()?;
    kernel::tidy();
    let kernels = file.settings.list("kernel").iter();
    for text in kernels.filter(|text| text.ends_with(".deb")) {
        interruptible(|stopped| kernel::unpacked(text, &mut say, stopped))?;
    }
    Signals::catch(Second::Ends)?.let_go()
}

/// Runs `get` until it ends or a signal interrupts it. If interrupted, `get` removes the files that
/// it began.
pub fn interruptible(
    get: impl FnOnce(&dyn Fn() -> bool) -> Result<Kernel, fsb_vm::VmError>,
) -> anyhow::Result<Kernel> {
    let signals = Signals::catch(Second::Ends)?;
    get(&|| signals.is_interrupted()).map_err(|error| match signals.is_interrupted() {
        true => signals.failure("interrupted: nothing was fetched"),
        false => error.into(),
    })
}
