//! The consequences of storage for a target: the properties that its layers cannot keep are taken
//! from it.

use fsb_model::Warning;
use fsb_model::storage::{StorageFlaw, StorageLayer};

use crate::control::ColdMethod;
use crate::fuse::{Findings, Probed};
use crate::storage::{ATTACH_DIRECT, Storage};
use crate::testbed::{Abilities, Provisioned};

impl Storage {
    /// Records the layers of a target, and takes from it what they cannot keep.
    pub fn restrict(&self, target: &str, provisioned: &mut Provisioned) {
        self.restrict_below(0, target, provisioned);
    }

    /// Records the layers beneath a disk of a guest, which begin at `depth`, and takes from the
    /// target what they cannot keep.
    pub fn restrict_guest(&self, depth: u32, target: &str, provisioned: &mut Provisioned) {
        self.restrict_below(depth, target, provisioned);
        if let Some(flaw) = self.buffered() {
            provisioned.abilities.cold = None;
            provisioned.abilities.why_not_cold =
                format!("{flaw}, which a guest cannot empty: {ATTACH_DIRECT}");
        }
    }

    fn restrict_below(&self, depth: u32, target: &str, provisioned: &mut Provisioned) {
        let Provisioned {
            record,
            abilities,
            warnings,
            ..
        } = provisioned;
        record
            .storage
            .extend(self.layers().into_iter().map(|layer| StorageLayer {
                depth: layer.depth + depth,
                ..layer
            }));
        let flaws = [self.loss(), self.buffered()].into_iter().flatten();
        warnings.extend(flaws.map(|flaw| Warning::Storage {
            target: target.to_owned(),
            flaw,
        }));
        if let Some(flaw) = self.loss() {
            abilities.cold = None;
            abilities.durable = false;
            abilities.why_not_cold = format!("{flaw}: its files are never cold");
            abilities.why_not_durable = format!("{flaw}: its files are never durable");
            record.risks.extend(self.risk());
        }
        if let Some(flaw) = self.buffered() {
            self.restrict_buffered(&flaw, abilities);
            record.notes.push(format!("{flaw}; {ATTACH_DIRECT}"));
        }
    }

    fn restrict_buffered(&self, flaw: &StorageFlaw, abilities: &mut Abilities) {
        abilities.why_not_direct = format!("not direct: {flaw}; {ATTACH_DIRECT}");
        // Dropping the caches of the machine empties those beneath the loop device, too. Eviction
        // does not.
        if abilities.cold == Some(ColdMethod::Evict) {
            abilities.cold = None;
            abilities.why_not_cold =
                format!("{flaw}, and only root can empty it: run as root, or {ATTACH_DIRECT}");
        }
    }

    /// Takes from a target what its FUSE server does not do.
    pub fn restrict_server(&self, findings: &Findings, provisioned: &mut Provisioned) {
        let Provisioned {
            record, abilities, ..
        } = provisioned;
        record.unproven = findings.unproven();
        abilities.unproven = findings.unproven();
        let fails = |probed: &Probed| match probed {
            Probed::Fails(reason) => Some(reason.clone()),
            _ => None,
        };
        if let Some(reason) = fails(&findings.synced_files).filter(|_| abilities.durable) {
            abilities.durable = false;
            abilities.why_not_durable = format!("the FUSE server does not sync files: {reason}");
        }
        if let Some(reason) =
            fails(&findings.direct).filter(|_| abilities.why_not_direct.is_empty())
        {
            abilities.why_not_direct = format!("not direct: {reason}");
        }
        if let Some(reason) = fails(&findings.kept_pages) {
            abilities.why_not_warm = format!("never warm on this FUSE server: {reason}");
        }
        let why_not_cold = match (abilities.cold, self.unknown()) {
            (Some(ColdMethod::Evict), _) => Some(
                "the page cache beneath the FUSE server holds the files, and only root can empty it: run as root".to_owned(),
            ),
            (Some(ColdMethod::DropCaches), Some(reason)) => {
                Some(format!("not known to be cold: {reason}"))
            }
            _ => None,
        };
        if let Some(why) = why_not_cold {
            abilities.cold = None;
            abilities.why_not_cold = why;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use fsb_model::run::TargetRecord;
    use fsb_model::storage::{Layer, layers_text};

    use super::*;
    use crate::storage::Found;

    fn provisioned(cold: ColdMethod) -> Provisioned {
        Provisioned {
            record: TargetRecord::default(),
            root: PathBuf::new(),
            client_roots: Vec::new(),
            abilities: Abilities {
                cold: Some(cold),
                kernel_caches_only: true,
                durable: true,
                counters: true,
                ..Abilities::default()
            },
            free_bytes: 0,
            free_inodes: 0,
            device: None,
            held: Default::default(),
            warnings: Vec::new(),
        }
    }

    fn storage(layers: Vec<Layer>) -> Storage {
        let found = |(depth, layer)| Found {
            layer: StorageLayer { depth, layer },
            device: None,
            mount: None,
        };
        Storage {
            found: (0..).zip(layers).map(found).collect(),
        }
    }

    #[test]
    fn a_loop_device_without_direct_io_is_cold_only_if_the_caches_beneath_it_are_emptied() {
        let looped = Layer::Loop {
            device: "loop7".to_owned(),
            file: None,
            direct: Some(false),
        };
        let storage = storage(vec![
            Layer::FileSystem {
                driver: "ext4".to_owned(),
            },
            looped,
        ]);
        for (method, is_cold) in [
            (ColdMethod::Remount, true),
            (ColdMethod::DropCaches, true),
            (ColdMethod::Evict, false),
        ] {
            let mut target = provisioned(method);
            storage.restrict("t", &mut target);
            assert_eq!(target.abilities.cold.is_some(), is_cold, "{method:?}");
            assert!(
                target
                    .abilities
                    .why_not_direct
                    .contains("losetup --direct-io=on"),
                "{:?}",
                target.abilities
            );
            assert!(target.abilities.durable && target.record.risks.is_empty());
            let flaw = StorageFlaw::Buffered {
                device: "loop7".to_owned(),
            };
            assert_eq!(
                target.warnings,
                [Warning::Storage {
                    target: "t".to_owned(),
                    flaw
                }]
            );
        }
        // A guest empties only its own caches.
        let mut target = provisioned(ColdMethod::Remount);
        let disk = Layer::Disk {
            device: "vdb".to_owned(),
            write_cache: None,
        };
        target.record.storage = vec![StorageLayer {
            depth: 0,
            layer: disk,
        }];
        storage.restrict_guest(1, "t", &mut target);
        assert_eq!(target.abilities.cold, None);
        assert_eq!(
            layers_text(&target.record.storage),
            "vdb on ext4 on loop7 without direct I/O"
        );
    }

    #[test]
    fn memory_is_neither_cold_nor_durable_and_a_risk() {
        let storage = storage(vec![Layer::Memory {
            holder: "tmpfs".to_owned(),
        }]);
        let mut target = provisioned(ColdMethod::DropCaches);
        storage.restrict("t", &mut target);
        assert_eq!(
            (target.abilities.cold, target.abilities.durable),
            (None, false)
        );
        assert_eq!(
            target.abilities.why_not_cold,
            "tmpfs holds the data in memory: its files are never cold"
        );
        assert_eq!(target.record.risks[0].cause, "memory=tmpfs");
    }
}
