#!/usr/bin/env bash
# fallocate(1) of util-linux 2.38 calls fsync on the file after each operation.
#
# fallocate(2) changes the allocation and writes no data, and the manual page recommends the command because it is quick.
# The command does not mention that it syncs: to punch one hole or to add one block, it waits for all dirty data of the
# file. A script that prepares a benchmark with it starts from a clean file and a committed journal, which a program that
# calls fallocate(2) does not. A timed preallocation measures the flush of the device. --posix syncs, too.
# Needs Debian 12. Prints the calls of each operation, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install util-linux='2.38.1-*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fallocate --version

# Runs one operation on a file of 1 MiB that was just written and counts the calls.
operate() {
    rm -f file
    head -c 1M /dev/zero >file
    root/usr/bin/strace -o trace -e trace=fallocate,fsync,fdatasync root/usr/bin/fallocate "$@" file
    echo "fallocate $*: $(grep -c ^fallocate trace) fallocate, $(grep -c sync trace) fsync"
}

{
    operate --offset 1M --length 4096
    operate --punch-hole --offset 0 --length 4096
    operate --zero-range --offset 0 --length 4096
    operate --dig-holes
    operate --posix --offset 1M --length 4096
} | tee outcome
diff outcome - <<'TEXT'
fallocate --offset 1M --length 4096: 1 fallocate, 1 fsync
fallocate --punch-hole --offset 0 --length 4096: 1 fallocate, 1 fsync
fallocate --zero-range --offset 0 --length 4096: 1 fallocate, 1 fsync
fallocate --dig-holes: 1 fallocate, 1 fsync
fallocate --posix --offset 1M --length 4096: 1 fallocate, 1 fsync
TEXT
