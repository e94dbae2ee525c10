#!/usr/bin/env bash
# fuse-overlayfs 1.10 fills the holes of a file when it copies it up.
#
# overlayfs of the kernel copies the data of a sparse file alone when a lower file is first opened for writing.
# fuse-overlayfs, the storage driver of rootless containers, copies all bytes: one byte appended to a disk image of 64 MiB
# without data allocates 64 MiB in the upper layer. A virtual machine image or a database file that is sparse in an image
# fills the disk of the user, and the first write waits for it. A benchmark in such a container measures the copy.
# Needs Debian 12, root and /dev/fuse. Prints the allocated bytes of both layers for both, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; umount "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root mount disk
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install fuse-overlayfs=1.10-1 fuse3 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
PATH=$work/root/bin:$work/root/usr/bin:$PATH

fuse-overlayfs --version 2>>log | grep '^fuse-overlayfs'
uname -sr
truncate -s 300M image
mkfs.ext4 -q image
mount -o loop image disk

# Appends one byte to a sparse file through an overlay and prints what its layers occupy.
append() {
    local name=$1
    shift
    mkdir "disk/$name" "disk/$name/lower" "disk/$name/upper" "disk/$name/work"
    truncate -s 64M "disk/$name/lower/file"
    "$@" -o "lowerdir=disk/$name/lower,upperdir=disk/$name/upper,workdir=disk/$name/work" mount 2>>log
    printf x >>mount/file
    umount mount
    sync -f disk
    echo "$name: $(($(stat -c %b "disk/$name/lower/file") * 512)) bytes allocated below," \
        "$(($(stat -c %b "disk/$name/upper/file") * 512 / 1048576)) MiB above"
}

{ append overlayfs mount -t overlay overlay; append fuse-overlayfs fuse-overlayfs; } | tee outcome
diff outcome - <<'TEXT'
overlayfs: 0 bytes allocated below, 0 MiB above
fuse-overlayfs: 0 bytes allocated below, 64 MiB above
TEXT
