#!/usr/bin/env bash
# syncfs on a FUSE mount returns at once and leaves the written data in the page cache of the file system beneath.
#
# syncfs(2) says that it causes all pending modifications of the file system to be written to the underlying device. Tools
# that end with it (sync --file-system, dpkg, benchmarks) therefore call their work durable. Linux sends a FUSE server no
# request for it (only virtiofs and FUSE on a block device get one), so a server cannot pass it on, even if it passes on fsync.
# Needs Debian 12, root, /dev/fuse and Linux 6.5 for cachestat. Prints the dirty pages of the file beneath bindfs after a
# write, after syncfs of the mount and after fsync of the file, and fails if syncfs writes any of them.
set -euo pipefail
version=1.14.7-1
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root beneath mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "bindfs=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

uname -sr
root/usr/bin/bindfs --version
root/usr/bin/bindfs beneath mount
python3 - <<'PYTHON'
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
CACHESTAT = 451

def dirty(path):
    file = os.open(path, os.O_RDONLY)
    whole, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if libc.syscall(CACHESTAT, file, whole, found, 0) != 0:
        raise OSError(ctypes.get_errno(), "cachestat")
    os.close(file)
    return found[1] + found[2]

with open("mount/file", "wb") as file:
    file.write(os.urandom(4 << 20))
written = dirty("beneath/file")
directory = os.open("mount", os.O_RDONLY)
assert libc.syncfs(directory) == 0
synced = dirty("beneath/file")
file = os.open("mount/file", os.O_RDONLY)
os.fsync(file)
print(f"pages not on the device: {written} after the write, {synced} after syncfs, {dirty('beneath/file')} after fsync")
assert synced == written > 0, "syncfs wrote data"
assert dirty("beneath/file") == 0, "fsync wrote no data"
PYTHON
