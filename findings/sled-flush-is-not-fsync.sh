#!/usr/bin/env bash
# sled 0.34.7 flushes with sync_file_range, which makes nothing durable on a device with a write cache.
#
# The documentation of flush says that it calls fsync, and that all previous writes are recovered after a crash if it
# succeeds. On Linux, flush calls sync_file_range alone, also where the write extends the file. sync_file_range(2) warns
# that it flushes neither the cache of the device nor metadata, and that it does nothing useful on copy-on-write file
# systems. So the flushed entries are lost with the power, and a benchmark of sled beats databases that do call fdatasync.
# Needs Debian 12 for strace, and cargo. Prints the calls on the file between flushes, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "flush"
version = "0.0.0"
edition = "2021"
[dependencies]
sled = "=0.34.7"
TOML
cat >src/main.rs <<'RUST'
fn main() {
    let database = sled::open("database").unwrap();
    for key in 0..5u8 {
        database.insert([key], vec![key; 100]).unwrap();
        // The marks separate the flushes in the trace.
        eprintln!("flush starts");
        database.flush().unwrap();
        eprintln!("flush returns");
    }
}
RUST
LD_LIBRARY_PATH='' cargo build --quiet
echo "sled $(LD_LIBRARY_PATH='' cargo tree --quiet --prefix none --depth 1 | sed -n 's/^sled v//p')"
root/usr/bin/strace -f -y -o trace -e trace=write,pwrite64,fsync,fdatasync,msync,sync_file_range \
    target/debug/flush 2>/dev/null
# The first flush may meet the end of the opening, which syncs. A call that another thread interrupts has two lines
# in the trace, and the first one has its file.
awk '/"flush starts/ { calls = "" }
    / (pwrite64|fsync|fdatasync|msync|sync_file_range)\(.*database/ { sub(/\(.*/, ""); calls = calls " " $2 }
    /"flush returns/ && ++flushes > 1 { print "flush " flushes ":" calls }' trace | tee outcome
diff outcome - <<'TEXT'
flush 2: pwrite64 sync_file_range
flush 3: pwrite64 sync_file_range
flush 4: pwrite64 sync_file_range
flush 5: pwrite64 sync_file_range
TEXT
