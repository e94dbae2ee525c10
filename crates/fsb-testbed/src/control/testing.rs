//! Shared fixtures for tests of controls: a machine made of files.

use std::path::PathBuf;

use fsb_sys::{Roots, read_trimmed};

use super::interface::{Applied, Context, Control, Held, TargetDevice};
use crate::ledger::{EntryHandle, Ledger, Owner, leftovers};

/// A tree with /proc and /sys, and a ledger beside it.
pub(crate) struct Bench {
    tree: tempfile::TempDir,
    pub roots: Roots,
    pub place: TargetDevice,
    pub ledger: Ledger,
}

impl Bench {
    pub fn new() -> Bench {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
        let ledger = Ledger::open(&tree.path().join("undo"), Owner::current(), crate::control::RULES)
            .unwrap()
            .of_machine(&roots);
        Bench { roots, place: TargetDevice::default(), ledger, tree }
    }

    /// A machine whose target has a disk of its own.
    pub fn with_disk() -> Bench {
        let bench = Bench::new();
        bench.write("sys/devices/disk/size", "2048");
        Bench {
            place: TargetDevice { device: Some(bench.path("sys/devices/disk")), ..TargetDevice::default() },
            ..bench
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        read_trimmed(&self.path(path)).unwrap()
    }

    /// Sets a control, calls `look` with the result, and restores the control. Checks that nothing stays in the ledger.
    pub fn set(&self, control: &dyn Control, value: &str, look: impl FnOnce(&Applied, &[EntryHandle])) -> Held {
        let mut held = Held::default();
        let mut progress = |_| {};
        let mut context =
            Context::new(control.name(), &self.roots, &self.ledger, &mut progress, &self.place, &mut held);
        let applied = control.set(value, &mut context).unwrap();
        let handles = context.into_tickets();
        assert_eq!(leftovers(&self.path("undo"), crate::control::RULES).len(), handles.len());
        look(&applied, &handles);
        assert_eq!(control.restore(handles, &self.ledger), Vec::<String>::new());
        assert!(leftovers(&self.path("undo"), crate::control::RULES).is_empty());
        held
    }
}
