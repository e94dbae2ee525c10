#!/usr/bin/env bash
# rustix 1.1.6 opens files with O_SYNC where OFlags::DSYNC is requested, in its default backend on Linux.
#
# The backend on top of libc passes O_DSYNC. So one program syncs data alone with one backend, and data with all metadata
# with the other: a write that leaves the file size as it is may cost one journal commit more.
# Needs cargo. Prints the flags that the kernel reports for the open file, and fails if they change.
set -euo pipefail
version=1.1.6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir src
cat > Cargo.toml <<TOML
[package]
name = "dsync"
version = "0.0.0"
edition = "2021"
[features]
libc-backend = ["rustix/use-libc"]
[dependencies]
libc = "=0.2.182"
rustix = { version = "=$version", features = ["fs"] }
TOML
cat > src/main.rs <<'RUST'
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};

fn main() {
    let file = rustix::fs::open("file", OFlags::CREATE | OFlags::WRONLY | OFlags::DSYNC, Mode::RUSR | Mode::WUSR).unwrap();
    // The kernel's answer, without rustix.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    let name = match flags & libc::O_SYNC {
        libc::O_SYNC => "O_SYNC",
        libc::O_DSYNC => "O_DSYNC",
        _ => "neither",
    };
    println!("{name}");
}
RUST
default=$(cargo run --quiet)
libc=$(cargo run --quiet --features libc-backend)
echo "rustix $version, OFlags::DSYNC, default backend: the file has $default"
echo "rustix $version, OFlags::DSYNC, feature use-libc: the file has $libc"
[ "$default" = O_SYNC ] && [ "$libc" = O_DSYNC ]
