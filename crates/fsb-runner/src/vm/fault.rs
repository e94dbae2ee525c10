//! Guests that fail on purpose, for fsb's own tests. A build without the feature `faults`, as every release is, has none.

/// How the guest is to fail.
#[derive(Default)]
pub(super) struct Fault {
    #[cfg(feature = "faults")]
    kind: Option<String>,
    #[cfg(feature = "faults")]
    settled: u32,
}

#[cfg(not(feature = "faults"))]
impl Fault {
    /// What the host was asked for: nothing can be.
    pub(super) fn wanted() -> Option<String> {
        None
    }

    pub(super) fn arm(&mut self, _: &Option<String>) {}

    pub(super) fn strike_when_due(&mut self) {}
}

#[cfg(feature = "faults")]
impl Fault {
    /// What the host was asked for, by a variable of its environment.
    pub(super) fn wanted() -> Option<String> {
        std::env::var("FSB_VM_FAULT").ok()
    }

    /// Told to the guest as its run begins.
    pub(super) fn arm(&mut self, kind: &Option<String>) {
        self.kind.clone_from(kind);
    }

    /// Called before each settling of a target.
    pub(super) fn strike_when_due(&mut self) {
        /// Settlings before a fault: the first trials end well.
        const AFTER: u32 = 5;
        self.settled += 1;
        if self.settled >= AFTER && self.kind.as_deref() == Some("panic") {
            // Nothing comes back from it.
            let _ = std::fs::write("/proc/sysrq-trigger", "c");
        }
    }
}
