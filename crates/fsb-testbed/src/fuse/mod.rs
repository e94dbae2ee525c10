//! FUSE servers: which process serves a mount, where it keeps the data, and what it does with
//! syncs, direct I/O and cached pages.
//!
//! A FUSE mount passes only some calls on, and its server decides what they do. Linux sends servers
//! no request for syncfs, and none for the sync of a directory after a server has answered ENOSYS
//! once (fs/fuse/dir.c, `fuse_dir_fsync`). The promises that names of cases make are therefore
//! probed on each mount before it is measured.

mod probe;
pub(crate) mod server;

use std::collections::BTreeMap;

pub(crate) use probe::{Findings, Probed, Store, probe_mount};
pub(crate) use server::{Place, Server, is_fuse};

/// The findings on the FUSE servers of targets, by the name of the target. Each is probed once a
/// run.
pub(crate) type Probes = BTreeMap<String, Findings>;
