#!/usr/bin/env bash
# mkfs.ext4 and mkfs.f2fs free the blocks of a preallocated image file; mkfs.xfs and mkfs.btrfs keep them.
#
# mkfs discards the device first, which a solid state disk profits from. On a regular file, mkfs.ext4 1.47 and mkfs.f2fs
# 1.15 turn the discard into holes, although fallocate was to reserve the space: an image of 400 MiB keeps less than 10.
# mkfs.xfs 6.1 and mkfs.btrfs 6.2 discard devices alone. File systems on equally prepared images are then compared with
# two kinds of images: the writes of one kind allocate blocks below and may meet ENOSPC, those of the other do not.
# Needs Debian 12. Prints the allocated space of the image before and after each mkfs, and fails if it changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install e2fsprogs='1.47.0-*' f2fs-tools='1.15.0-*' xfsprogs='6.1.0-*' btrfs-progs='6.2-*' util-linux='2.38.1-*' >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
PATH=$work/root/sbin:$work/root/bin:$PATH

mkfs.ext4 -V 2>&1 | sed -n 1p
mkfs.f2fs -V 2>&1 | sed -n 1p
mkfs.xfs -V
mkfs.btrfs --version

# Makes a file system in a preallocated image and prints what the image occupies.
make() {
    rm -f image
    root/usr/bin/fallocate -l 400M image
    "$@" image >log 2>&1
    after=$(($(stat -c %b image) * 512 >> 20))
    [ "$after" -ge 10 ] || after="less than 10"
    echo "$*: $after of 400 MiB are still allocated"
}

{
    make mkfs.ext4 -q
    make mkfs.ext4 -q -E nodiscard
    make mkfs.f2fs -q
    make mkfs.f2fs -q -t nodiscard
    make mkfs.xfs -q
    make mkfs.btrfs -q
} | tee outcome
diff outcome - <<'TEXT'
mkfs.ext4 -q: less than 10 of 400 MiB are still allocated
mkfs.ext4 -q -E nodiscard: 400 of 400 MiB are still allocated
mkfs.f2fs -q: less than 10 of 400 MiB are still allocated
mkfs.f2fs -q -t nodiscard: 400 of 400 MiB are still allocated
mkfs.xfs -q: 400 of 400 MiB are still allocated
mkfs.btrfs -q: 400 of 400 MiB are still allocated
TEXT
