//! Whether targets lie on the same medium.

use std::collections::BTreeSet;

use fsb_model::RunRecord;

use crate::warning::different_media_text;

/// What must be said where they do not.
pub(super) fn differ(record: &RunRecord) -> Option<String> {
    // What was found counts; what was asked for stands in for a target that never came to be.
    let own = |target: &fsb_model::Target| match record.targets.get(&target.name) {
        Some(found) if found.failed.is_none() => found.medium.clone().unwrap_or_default(),
        _ => target.file_system().map(|spec| spec.medium.to_string()).unwrap_or_default(),
    };
    let is_here =
        |target: &&fsb_model::Target| record.targets.get(&target.name).is_none_or(|found| found.unavailable.is_none());
    let media: BTreeSet<String> = record.plan.targets.iter().filter(is_here).map(own).collect();
    (media.len() > 1).then(|| format!("{}; put all on one medium to compare file systems", different_media_text()))
}
