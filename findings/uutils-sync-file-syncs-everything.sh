#!/usr/bin/env bash
# sync FILE of uutils 0.12.0 calls sync(2), which writes every file system of the machine.
#
# uutils replaces GNU coreutils in distributions and means to behave alike. GNU sync calls fsync on each file that it is
# given. uutils calls sync(2) instead, so that one small file waits for all dirty data of all users, and for a network
# file system that hangs. A benchmark that ends its timed command with "sync file" measures the machine. sync(2) also
# reports no error: if the data cannot be written, GNU sync fails and uutils does not. Both agree on the two options.
# Needs Debian 12 for GNU sync and strace, and cargo. Prints the calls of both, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install coreutils=9.1-1 strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "sync"
version = "0.0.0"
edition = "2021"
[dependencies]
uu_sync = "=0.12.0"
TOML
cat >src/main.rs <<'RUST'
fn main() {
    std::process::exit(uu_sync::uumain(std::env::args_os()))
}
RUST
LD_LIBRARY_PATH='' cargo build --quiet
echo data >file

root/bin/sync --version | sed -n 1p
echo "uutils sync $(LD_LIBRARY_PATH='' cargo tree --quiet --prefix none --depth 1 | sed -n 's/^uu_sync v//p')"
for options in "" "--data" "--file-system"; do
    for program in root/bin/sync target/debug/sync; do
        # shellcheck disable=SC2086
        root/usr/bin/strace -f -o trace -e trace=sync,syncfs,fsync,fdatasync "$program" $options file
        echo "$program $options file: $(sed -n 's/^[0-9 ]*\([a-z]*\)(.*/\1/p' trace | paste -sd' ')"
    done
done | tr -s ' ' | tee outcome
diff outcome - <<'TEXT'
root/bin/sync file: fsync
target/debug/sync file: sync
root/bin/sync --data file: fdatasync
target/debug/sync --data file: fdatasync
root/bin/sync --file-system file: syncfs
target/debug/sync --file-system file: syncfs
TEXT
