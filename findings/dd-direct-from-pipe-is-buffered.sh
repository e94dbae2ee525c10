#!/usr/bin/env bash
# dd 9.1 with oflag=direct makes no direct write if its input is a pipe and its block is above 64 KiB.
#
# A read from a pipe returns at most what the pipe holds, which is less than a block of 1 MiB. dd clears O_DIRECT before it
# writes a block that is shorter than bs, and never sets it again, although the short blocks are multiples of 4 KiB and
# would succeed. It also adds an fsync at the end and a posix_fadvise call to each write, so the cache is empty afterwards
# and nothing shows. The manual says that oflag=direct avoids the buffer cache and that writes of other sizes fail. The
# rate that dd prints is that of buffered writes and one fsync, not of direct I/O. iflag=fullblock avoids it.
# Needs Debian 12. Prints the bytes of each kind of write and the syncs, and fails if they change.
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

root/bin/dd --version | sed -n 1p
head -c 8M /dev/zero >data

# Copies the data through a pipe with 1 MiB blocks and counts the bytes written with and without O_DIRECT.
copy() {
    rm -f copy
    # shellcheck disable=SC2002
    cat data | root/usr/bin/strace -o trace -e trace=openat,fcntl,write,fsync root/bin/dd of=copy bs=1M "$@" 2>errors
    awk -v title="dd bs=1M $*:" '
        /^openat.*"copy"/ || /^fcntl\(1, F_SETFL/ { direct = /O_DIRECT/ }
        /^write\(1,/ { if (direct) with += $NF; else without += $NF }
        /^fsync\(1\)/ { syncs++ }
        END { print title, with + 0, "bytes with O_DIRECT,", without + 0, "bytes without,", syncs + 0, "fsync" }' trace
}

{ copy oflag=direct; copy oflag=direct iflag=fullblock; } | tee outcome
diff outcome - <<'TEXT'
dd bs=1M oflag=direct: 0 bytes with O_DIRECT, 8388608 bytes without, 1 fsync
dd bs=1M oflag=direct iflag=fullblock: 8388608 bytes with O_DIRECT, 0 bytes without, 0 fsync
TEXT
