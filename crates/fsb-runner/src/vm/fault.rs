//! Guests that fail on purpose, for fsb's own tests. A build without the feature `faults` has none, and no release has
//! the feature.

/// The failure that a guest triggers.
#[derive(Default)]
pub(super) struct Fault {
    #[cfg(feature = "faults")]
    kind: Option<String>,
    #[cfg(feature = "faults")]
    settled: u32,
}

#[cfg(not(feature = "faults"))]
impl Fault {
    /// Returns `None`: this build has no failures.
    pub(super) fn wanted() -> Option<String> {
        None
    }

    pub(super) fn arm(&mut self, _: &Option<String>) {}

    pub(super) fn strike_when_due(&mut self) {}
}

#[cfg(feature = "faults")]
impl Fault {
    /// Returns the failure that a variable of the host's environment requests.
    pub(super) fn wanted() -> Option<String> {
        std::env::var("FSB_VM_FAULT").ok()
    }

    /// Sets the failure when the run begins in the guest.
    pub(super) fn arm(&mut self, kind: &Option<String>) {
        self.kind.clone_from(kind);
    }

    /// Triggers the failure when it is due. The guest calls it before it quiesces a target.
    pub(super) fn strike_when_due(&mut self) {
        /// The call that triggers the failure, so that the first trials end well.
        const AFTER: u32 = 5;
        self.settled += 1;
        if self.settled >= AFTER && self.kind.as_deref() == Some("panic") {
            // The write does not return.
            let _ = std::fs::write("/proc/sysrq-trigger", "c");
        }
    }
}
