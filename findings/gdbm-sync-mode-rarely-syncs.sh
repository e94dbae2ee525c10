#!/usr/bin/env bash
# gdbm 1.23 in synchronous mode syncs only a few of its stores.
#
# The manual says of GDBM_SYNC that all operations are synchronized to the disk, gdbmtool --synchronize promises a sync
# after each write, and dbm.gnu of Python documents its flag "s" with immediate writes. gdbm syncs only if the header of
# the file changed, because a bucket split or the file grew: fewer than 20 of 1000 stores. The others return with their
# data in memory, and a power loss takes them. A benchmark of the mode measures the speed of stores that are not durable.
# Needs Debian 12. Prints the syncs of 1000 stores with and without the mode, and fails if each store syncs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install gdbmtool=1.23-3 libgdbm6=1.23-3 strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

gdbmtool=$work/root/usr/bin/gdbmtool
"$gdbmtool" --version | sed -n 1p
for number in $(seq 1000); do
    printf 'store key%04d %064d\n' "$number" 0
done >commands

# Prints the syncs of a session with the 1000 stores.
syncs() {
    rm -f database
    root/usr/bin/strace -f -o trace -e trace=fsync,fdatasync,msync "$gdbmtool" --newdb "$@" database <commands >/dev/null
    grep -c 'sync(' trace || true
}

with=$(syncs --synchronize)
without=$(syncs)
printf 'gdbmtool, 1000 stores: %d syncs\ngdbmtool --synchronize, 1000 stores: %d syncs\n' "$without" "$with"
printf 'count\n' | "$gdbmtool" database
# Without the mode, the file is synced when it is opened and closed.
[ "$without" -le 2 ] && [ "$with" -gt "$without" ] && [ "$with" -lt 100 ]
