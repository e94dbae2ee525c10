#!/usr/bin/env bash
# cp 9.1 ignores --sparse=always and --sparse=never on a file system with reflinks.
#
# The manual says that --sparse=always makes a hole of each long run of zeros, and that --sparse=never makes none. Since
# cp clones by default, both are without effect on XFS and Btrfs: a clone of zeros keeps them allocated, and a clone of a
# file with holes keeps the holes. Who punches an image with the first, or prepares a swap file or a fully allocated
# database file with the second, gets status 0 and the opposite. On ext4 both work. --reflink=never restores them.
# Needs Debian 12, root and a loop device. Prints the allocated bytes of each copy, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install coreutils=9.1-1 xfsprogs=6.1.0-1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

cp=$work/root/bin/cp
"$cp" --version | sed -n 1p
uname -sr
truncate -s 400M image
root/sbin/mkfs.xfs -q image
mount -o loop image mount
cd mount
head -c 4M /dev/zero >zeros
sync zeros
truncate -s 4M holes

# Copies one file and prints what the copy occupies.
copy() {
    rm -f copy
    "$cp" "$@" copy
    sync copy
    echo "cp $*: $(stat -c %s copy) bytes, $(($(stat -c %b copy) * 512)) allocated"
}

{
    copy --sparse=always zeros
    copy --sparse=always --reflink=never zeros
    copy --sparse=never holes
    copy --sparse=never --reflink=never holes
} | tee ../outcome
cd ..
diff outcome - <<'TEXT'
cp --sparse=always zeros: 4194304 bytes, 4194304 allocated
cp --sparse=always --reflink=never zeros: 4194304 bytes, 0 allocated
cp --sparse=never holes: 4194304 bytes, 0 allocated
cp --sparse=never --reflink=never holes: 4194304 bytes, 4194304 allocated
TEXT
