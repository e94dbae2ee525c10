#!/usr/bin/env bash
# rclone 1.60.1 answers fsync, close and unmount with success, and the remote never gets the file.
#
# A mount that allows ordinary writes needs --vfs-cache-mode=writes, with which files are uploaded some seconds after the
# last close. fsync on the mount returns 0 and starts no upload, and neither does the end of the mount. Who writes a file,
# syncs it, closes it, syncs the file system and unmounts has no error and no file on the remote; the only copy is in the
# cache directory of the machine, which nothing uploads until the same remote is mounted again with the same cache.
# Needs Debian 12, root and /dev/fuse. Prints what the remote has after each step, and fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root mount remote cache
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install rclone=1.60.1+dfsg-* fuse3 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
PATH=$work/root/bin:$PATH

rclone=$work/root/usr/bin/rclone
"$rclone" version | sed -n 1p
"$rclone" mount ":local:$work/remote" mount --config "" --vfs-cache-mode=writes --cache-dir "$work/cache" 2>log &
server=$!
until mountpoint -q mount; do kill -0 "$server"; done
{
    python3 - <<'PYTHON'
import os

def report(step):
    print(f"{step}: the mount has {os.listdir('mount')}, the remote has {os.listdir('remote')}")

file = os.open("mount/file", os.O_CREAT | os.O_WRONLY)
os.write(file, b"x" * 1000)
os.fsync(file)
report("fsync")
os.close(file)
report("close")
directory = os.open("mount", os.O_RDONLY)
os.fsync(directory)
os.close(directory)
os.sync()
report("sync")
PYTHON
    umount mount
    wait "$server"
    echo "unmount: rclone ends with status $?, the remote has [$(ls remote)]"
    echo "cache: $(find cache/vfs -type f -printf '%f with %s bytes')"
} >outcome
cat outcome
diff outcome - <<'TEXT'
fsync: the mount has ['file'], the remote has []
close: the mount has ['file'], the remote has []
sync: the mount has ['file'], the remote has []
unmount: rclone ends with status 0, the remote has []
cache: file with 1000 bytes
TEXT
