//! The target on the null file system: nothing is touched.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsb_model::run::{ControlRecord, TargetRecord};
use fsb_model::{FileSystemSpec, Target};

use crate::control::Held;
use crate::error::TestbedError;
use crate::fs::{self, Null};
use crate::testbed::{Abilities, ColdMethod, Provisioned};

/// The made-up target, or the failure that its options ask for.
pub(super) fn provision(target: &Target, spec: &FileSystemSpec) -> Result<Provisioned, TestbedError> {
    let options = Null::options(spec)?;
    if let Some(failure) = options.failure {
        return Err(failure.error());
    }
    let record = TargetRecord {
        requested_options: spec.options.clone(),
        risks: fs::requested_risks(spec),
        notes: vec!["null: a simulation with made-up times".to_owned()],
        ..Default::default()
    };
    Ok(Provisioned {
        record,
        root: PathBuf::from("/nonexistent/fsb-null").join(target.name.replace('/', "_")),
        abilities: Abilities {
            cold: Some(ColdMethod::Remount),
            kernel_caches_only: true,
            durable: true,
            counters: false,
            fake: Some(options.fake),
            why_not_cold: String::new(),
            why_not_durable: String::new(),
        },
        free_bytes: u64::MAX,
        free_inodes: u64::MAX,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    })
}

/// Where nothing is real nothing is set, and the record says so.
pub(super) fn not_set(requested: &BTreeMap<String, String>) -> BTreeMap<String, ControlRecord> {
    let record = |value: &String| ControlRecord {
        requested: value.clone(),
        observed: "not set: the null file system is a simulation".to_owned(),
        effective: false,
    };
    requested.iter().map(|(name, value)| (name.clone(), record(value))).collect()
}
