//! All that needs root: file systems, media, controls, the undo ledger and the sandbox.
