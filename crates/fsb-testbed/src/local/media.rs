//! The media of a run.

use std::collections::BTreeMap;

use fsb_model::Target;

use super::file_system::is_about_discard;
use crate::fs::{self, Home};
use crate::medium::{GRANULE, MediumRequest};
use crate::testbed::Setup;

/// The media of the run, each once, by their text. All targets with the same text share one.
pub(crate) fn media(setup: &Setup) -> BTreeMap<String, MediumRequest<'_>> {
    let mut media: BTreeMap<String, MediumRequest<'_>> = BTreeMap::new();
    for spec in setup.targets.iter().filter_map(Target::file_system) {
        if !fs::find(&spec.fs).is_ok_and(|member| member.home() == Home::Device) {
            continue;
        }
        let discards = spec.options.iter().any(|option| is_about_discard(option) && !option.starts_with("no"));
        media
            .entry(spec.medium.to_string())
            .or_insert_with(|| MediumRequest {
                size: setup.size / GRANULE * GRANULE,
                seed: setup.seed,
                wipe: &setup.wipe,
                devices: (!setup.devices.is_empty()).then_some(&setup.devices),
                ..MediumRequest::new(&spec.medium, &setup.dir)
            })
            .keep_discard |= discards;
    }
    media
}
