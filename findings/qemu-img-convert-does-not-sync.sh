#!/usr/bin/env bash
# qemu-img 7.2 convert leaves a raw image in the page cache and exits with 0; qemu-img dd of the same image syncs it.
#
# The manual refers to the cache modes of the emulator for -t, whose default flushes. convert has a default without
# flushes, which the manual does not say. A script that converts an image and then deletes or overwrites the source has
# neither of them after a power loss. A timed conversion to a raw image is the time of memory unless -t is given: with
# -t writeback, convert syncs at the end. qemu-img dd, which the manual describes beside it, always does.
# Needs Debian 12. Prints the syncs of each command, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install qemu-utils='1:7.2+dfsg-*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

qemu_img=$work/root/usr/bin/qemu-img
"$qemu_img" --version | sed -n 1p
head -c 8M /dev/urandom >source

# Runs one command of qemu-img and prints whether it syncs.
run() {
    rm -f copy
    root/usr/bin/strace -f -y -o trace -e trace=fsync,fdatasync,syncfs,sync_file_range "$qemu_img" "$@"
    cmp source copy
    if grep -q 'sync.*/copy>' trace; then echo "qemu-img $*: syncs the copy"; else echo "qemu-img $*: no sync"; fi
}

{
    run convert -O raw source copy 2>&1
    run convert -O raw -t writeback source copy
    run dd -O raw bs=1M if=source of=copy
} | grep -v '^WARNING' | tee outcome
diff outcome - <<'TEXT'
qemu-img convert -O raw source copy: no sync
qemu-img convert -O raw -t writeback source copy: syncs the copy
qemu-img dd -O raw bs=1M if=source of=copy: syncs the copy
TEXT
