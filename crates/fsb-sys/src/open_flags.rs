//! Flags of open(2) that rustix has under a wrong value.

use rustix::fs::OFlags;

/// O_DSYNC: each write returns when its data is durable, and the attributes that are needed to read
/// it.
///
/// The constant of this name in rustix 1.1.6 has the value of O_SYNC in its default backend. `cargo
/// xtask constants` finds uses of it.
pub const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, fcntl_getfl, open};

    use super::*;

    #[test]
    fn the_kernel_reports_the_requested_durability() {
        let directory = tempfile::tempdir().unwrap();
        let written = |flags: OFlags| {
            let flags = flags | OFlags::WRONLY | OFlags::CREATE;
            let file = open(
                directory.path().join("f"),
                flags,
                Mode::from_raw_mode(0o600),
            )
            .unwrap();
            fcntl_getfl(&file).unwrap().bits() as i32 & libc::O_SYNC
        };
        assert_eq!(written(DSYNC), libc::O_DSYNC);
        assert_eq!(written(OFlags::SYNC), libc::O_SYNC);
        assert_ne!(libc::O_DSYNC, libc::O_SYNC);
    }
}
