#!/usr/bin/env bash
# Three unpackers turn a sparse file of a POSIX tar archive into a short file of another name, and report success.
#
# GNU tar -S and bsdtar store a file with holes as a list of its data ranges, under the name GNUSparseFile.PID/NAME, with
# the real name and size in extended headers. bsdtar does so by default. An unpacker that does not know these headers
# writes the list and the data as a file of the stored name. The crate tar of Rust, tar of npm and BusyBox do that, so a
# disk image or database restored by them is missing and a fragment lies beside it, with status 0. Python knows the format.
# Needs Debian 12, pip, npm and cargo. Prints what each program unpacks, and fails if it changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install busybox-static='1:1.35.0-*' libarchive-tools='3.6.2-*' tar='1.34+dfsg-*' >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
export TAR="$work/npm/node_modules/tar" UNPACK="$work/rust/target/debug/unpack"
npm install --silent --no-audit --no-fund --prefix "$work/npm" tar@7.5.23 >/dev/null
mkdir -p rust/src
cat >rust/Cargo.toml <<TOML
[package]
name = "unpack"
version = "0.0.0"
edition = "2021"
[dependencies]
tar = { version = "=0.4.46", default-features = false }
TOML
cat >rust/src/main.rs <<'RUST'
fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let archive = std::fs::File::open(arguments.next().unwrap())?;
    tar::Archive::new(archive).unpack(arguments.next().unwrap())
}
RUST
(cd rust && cargo build --quiet)

# An image of 1 MiB with data at its start and in its middle.
truncate -s 1M image
printf start | dd of=image conv=notrunc status=none
printf middle | dd of=image bs=1 seek=500000 conv=notrunc status=none
root/bin/tar --version | sed -n 1p
root/usr/bin/bsdtar --version
root/bin/tar --format=posix -S -cf gnu.tar image
root/usr/bin/bsdtar -cf bsd.tar image

# Unpacks an archive with a command that runs in an empty directory and prints the files.
unpack() {
    local name=$1 archive=$2 status=0
    shift 2
    rm -rf out
    mkdir out
    (cd out && "$@" "../$archive") >/dev/null 2>&1 || status=$?
    echo "$name: status $status, $(cd out && find . -type f -printf '%P with %s bytes\n' | sed 's/File\.[0-9]*/File.PID/')"
}

for archive in gnu.tar bsd.tar; do
    echo "$archive:"
    unpack "  GNU tar" $archive "$work/root/bin/tar" -xf
    unpack "  Python tarfile" $archive python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall()'
    unpack "  BusyBox 1.35.0" $archive "$work/root/bin/busybox" tar -xf
    unpack "  npm tar 7.5.23" $archive node -e \
        'require(process.env.TAR).extract({ file: process.argv[1], cwd: ".", sync: true, strict: true })'
    # shellcheck disable=SC2016
    unpack "  Rust tar 0.4.46" $archive sh -c '"$UNPACK" "$0" .'
done | tee outcome
diff outcome - <<'TEXT'
gnu.tar:
  GNU tar: status 0, image with 1048576 bytes
  Python tarfile: status 0, image with 1048576 bytes
  BusyBox 1.35.0: status 0, GNUSparseFile.PID/image with 8704 bytes
  npm tar 7.5.23: status 0, GNUSparseFile.PID/image with 8704 bytes
  Rust tar 0.4.46: status 0, GNUSparseFile.PID/image with 8704 bytes
bsd.tar:
  GNU tar: status 0, image with 1048576 bytes
  Python tarfile: status 0, image with 1048576 bytes
  BusyBox 1.35.0: status 0, GNUSparseFile.PID/image with 8704 bytes
  npm tar 7.5.23: status 0, GNUSparseFile.PID/image with 8704 bytes
  Rust tar 0.4.46: status 0, GNUSparseFile.PID/image with 8704 bytes
TEXT
