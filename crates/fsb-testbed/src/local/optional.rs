//! Targets that not every machine can make.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::check;
use crate::error::{Kind, TestbedError};
use crate::testbed::Setup;

/// The setup without those optional targets that this machine cannot make, and why it cannot. What is wrong with a
/// request is wrong of an optional target too, and stays in.
pub(super) fn available(setup: &Setup) -> Result<(Cow<'_, Setup>, BTreeMap<String, TestbedError>), TestbedError> {
    let mut unavailable = BTreeMap::new();
    for target in setup.targets.iter().filter(|target| target.optional) {
        let alone = Setup { targets: vec![target.clone()], ..setup.clone() };
        if let Err(error) = check::check(&alone)
            && error.kind == Kind::Machine
        {
            unavailable.insert(target.name.clone(), error);
        }
    }
    if unavailable.is_empty() {
        return Ok((Cow::Borrowed(setup), unavailable));
    }
    let mut rest = setup.clone();
    rest.targets.retain(|target| !unavailable.contains_key(&target.name));
    match unavailable.values().next() {
        Some(first) if rest.targets.is_empty() => Err(first.clone()),
        _ => Ok((Cow::Owned(rest), unavailable)),
    }
}
