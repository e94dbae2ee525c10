//! What directories on FUSE servers really do.

use std::fs;

use crate::common::fuse_servers::FUSE_SERVERS;
use crate::common::{processes, traces};

#[test]
fn every_server_is_mounted_and_leaves_nothing() {
    needs!(root);
    for server in &FUSE_SERVERS {
        needs!(server.available());
        let (mounts, running) = (traces(), processes());
        let mount = server.mount();
        let (point, file) = (mount.point.clone(), mount.point.join("file"));
        fs::write(&file, "text").unwrap_or_else(|error| panic!("{}: {error}", server.name));
        assert_eq!(fs::read(&file).unwrap(), b"text", "{}", server.name);
        drop(mount);
        assert!(!point.exists(), "{}", server.name);
        assert_eq!(
            (traces(), processes()),
            (mounts, running),
            "{}",
            server.name
        );
    }
}
