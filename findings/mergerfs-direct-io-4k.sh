#!/usr/bin/env bash
# mergerfs 2.33.5 accepts direct writes of 512 to 2048 bytes and refuses those of 4096 bytes and more.
#
# On ext4 and xfs, whether a direct write succeeds depends on its alignment to the sectors of the device. Larger multiples of
# a size that works also work, and 4096 is the size that works nearly everywhere. On a mergerfs mount with its default options
# it is the other way round: open with O_DIRECT succeeds, small records are written, and records of 4 KiB, the usual page of
# databases, fail with EINVAL at the first write. mergerfs opens its own file with O_DIRECT, too. The manual page does not say it.
# Needs Debian 12, root and /dev/fuse. Prints the result for each size on the branch itself and through mergerfs, and fails
# if 4096 bytes succeed or 512 bytes fail.
set -euo pipefail
version=2.33.5-1
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root branch mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "mergerfs=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/mergerfs --version 2>&1 | head -1
root/usr/bin/mergerfs "$work/branch" mount
python3 - <<'PYTHON'
import errno, mmap, os

def outcome(directory, size):
    path = f"{directory}/{size}"
    with open(path, "wb") as file:
        file.write(bytes(1 << 16))
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        # Anonymous memory is aligned to pages.
        return "ok" if os.pwrite(file, mmap.mmap(-1, size), 0) == size else "short"
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        os.close(file)

found = {}
for size in [512, 1024, 2048, 4096, 8192, 65536]:
    beneath, found[size] = outcome("branch", size), outcome("mount", size)
    print(f"{size:6} bytes with O_DIRECT: {beneath} on the branch, {found[size]} through mergerfs")
assert found[512] == "ok", "512 bytes fail"
assert found[4096] == "EINVAL", "4096 bytes succeed"
PYTHON
