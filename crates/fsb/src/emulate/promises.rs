//! Promises of options that the directory of a run does not keep: direct I/O that a layer beneath
//! it caches, and syncs that do not reach its device.

use std::path::Path;

use fsb_model::notice;
use fsb_model::run::TargetRecord;
use fsb_model::storage::{Promise, StorageFlaw, Unproven};

use crate::message::notify;

/// Returns what `option` does in a directory in which its direct I/O does not reach the device, or
/// is not known to, with the reason. `checked` is the reason that the work itself showed.
pub fn not_direct(option: &str, place: &TargetRecord, checked: Option<String>) -> Option<String> {
    let flaw = StorageFlaw::buffered(&place.storage).next();
    let driver = place.driver.as_deref().unwrap_or("this file system");
    match checked.or_else(|| flaw.map(|flaw| flaw.to_string())) {
        Some(why) => Some(format!(
            "{option} has no effect on {driver}, so the results are those of the page cache: {why}"
        )),
        None => unproven(place, &[Promise::Direct]).map(|found| {
            format!(
                "{option} is not known to reach the device of {driver}: {}",
                found.reason
            )
        }),
    }
}

/// Warns that the syncs of a run in `directory` are not known to reach the device. `asked` are the
/// promises that the run makes.
pub fn warn_not_durable(directory: &Path, asked: &[Promise]) {
    let mut asked = asked.to_vec();
    asked.retain(|promise| *promise != Promise::Direct);
    if asked.is_empty() {
        return;
    }
    let place = fsb_testbed::directory_record(directory).unwrap_or_default();
    let Some(found) = unproven(&place, &asked) else {
        return;
    };
    let reason = format!("{}: {}", found.promise.unproven(), found.reason);
    let text = format!(
        "warning: the results in {} are {reason}",
        directory.display()
    );
    notify(&notice::NOT_DURABLE, [("reason", reason.into())], &text);
}

fn unproven<'a>(place: &'a TargetRecord, asked: &[Promise]) -> Option<&'a Unproven> {
    place
        .unproven
        .iter()
        .find(|unproven| asked.contains(&unproven.promise))
}
