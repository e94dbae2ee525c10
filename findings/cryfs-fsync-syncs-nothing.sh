#!/usr/bin/env bash
# fsync on a CryFS 0.11.3 mount returns 0, and CryFS syncs none of its files.
#
# CryFS keeps blocks in a cache of its own and writes them to many files beneath. fsync(2) has to return when the data are
# on the device. With CryFS it writes blocks to the page cache of the file system beneath at most, and no fsync,
# fdatasync or syncfs follows. A database in an encrypted folder loses its commits with the power, and a block that
# is only half on the disk cannot be decrypted. A benchmark of commits makes CryFS faster than the disk beneath it.
# Needs Debian 12, root and /dev/fuse. Prints the syncs of CryFS and of a plain write for 20 calls of fsync, and fails if CryFS
# makes one.
set -euo pipefail
version=0.11.3-5
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root beneath mount plain
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install "cryfs=$version" strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH HOME="$work" CRYFS_FRONTEND=noninteractive CRYFS_NO_UPDATE_CHECK=true
strace=(root/usr/bin/strace -f -e 'trace=fsync,fdatasync,syncfs,sync,msync,sync_file_range')

cat >write.py <<'PYTHON'
import os
import sys

file = os.open(sys.argv[1] + "/file", os.O_CREAT | os.O_WRONLY)
for _ in range(20):
    os.write(file, os.urandom(4096))
    os.fsync(file)
PYTHON

root/usr/bin/cryfs --version 2>/dev/null | sed -n 1p
echo secret | "${strace[@]}" -o cryfs.trace root/usr/bin/cryfs -f beneath mount >log 2>&1 &
server=$!
until mountpoint -q mount; do kill -0 "$server"; done
python3 write.py mount
umount mount
wait "$server"
"${strace[@]}" -o plain.trace python3 write.py plain
for name in plain cryfs; do
    echo "$name: $(grep -c 'sync[a-z_]*(' "$name.trace" || true) syncs"
done | tee outcome
diff outcome - <<'TEXT'
plain: 20 syncs
cryfs: 0 syncs
TEXT
