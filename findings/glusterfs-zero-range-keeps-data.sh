#!/usr/bin/env bash
# glusterfs 10.3 reports success for fallocate(FALLOC_FL_ZERO_RANGE) and leaves the data in the file.
#
# fallocate(2) says that the call converts a range to zeros: reads return zeros afterwards. File systems without it answer
# EOPNOTSUPP. The FUSE client of glusterfs passes every mode but FALLOC_FL_PUNCH_HOLE on as a plain allocation, so that the
# call returns 0 and the old data are still there. Programs that reuse blocks (QEMU's write-zeroes, qemu-img, databases that
# recycle files) then read old bytes as new zeros. FALLOC_FL_PUNCH_HOLE works.
# Needs Debian 12, root and /dev/fuse. Zeros a range and punches a hole on a mount of one local directory, and fails if the
# range has zeros or the hole has data.
set -euo pipefail
version=10.3-5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root brick mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install "glusterfs-client=$version" "glusterfs-common=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
cat >volume <<VOLUME
volume brick
  type storage/posix
  option directory $work/brick
end-volume
VOLUME
cat >try.py <<'PYTHON'
import ctypes, os

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
libc = ctypes.CDLL(None, use_errno=True)
file = os.open("mount/file", os.O_CREAT | os.O_RDWR)
os.pwrite(file, b"x" * 65536, 0)
found = {}
for name, mode, offset in [("zero range", ZERO_RANGE, 0), ("punch hole", PUNCH_HOLE | KEEP_SIZE, 32768)]:
    result = libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(16384))
    left = 16384 - os.pread(file, 16384, offset).count(0)
    found[name] = (result, left)
    print(f"{name}: returns {result}, {left} of 16384 bytes are not zero")
assert found["zero range"] == (0, 16384), "the range has zeros, or the call fails"
assert found["punch hole"] == (0, 0), "the hole has data, or the call fails"
PYTHON
cat >run <<RUN
set -euo pipefail
# glusterfs finds its translators only below /usr.
mount -t overlay overlay -o "lowerdir=$work/root/usr:/usr" /usr
glusterfs --version | head -1
glusterfs -N -f "$work/volume" -l "$work/client.log" --pid-file "$work/pid" "$work/mount" &
server=\$!
trap 'umount mount 2>/dev/null || true; kill \$server 2>/dev/null || true' EXIT
for _ in \$(seq 100); do mountpoint -q mount && break; sleep 0.1; done
mountpoint -q mount
python3 try.py
RUN
unshare --mount --propagation private bash run
