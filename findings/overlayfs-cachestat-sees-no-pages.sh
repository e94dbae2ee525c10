#!/usr/bin/env bash
# cachestat(2) on a file of overlayfs reports an empty page cache, while mincore(2) reports the cached pages.
#
# The manual page says that the call queries the page cache statistics of an open file. overlayfs has no pages of its own:
# they belong to the file of the layer beneath, which cachestat does not follow and mincore does. So every file in a
# container looks uncached and clean. A benchmark that checks with cachestat that its files left the cache, or that no
# page is dirty, passes without looking at anything; the same check on the layer itself fails.
# Needs Linux 6.5, Python 3 and root. Prints the pages that both calls see through an overlay and on the layer beneath, and
# fails if they agree.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; umount "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir disk mount
# The layers need a file system that is no overlay itself, as the one of a container is.
truncate -s 100M image
mkfs.ext4 -q image
mount -o loop image disk
mkdir disk/lower disk/upper disk/work
mount -t overlay overlay -o lowerdir=disk/lower,upperdir=disk/upper,workdir=disk/work mount

uname -sr
python3 - <<'PYTHON' | tee outcome
import ctypes
import mmap
import os

CACHESTAT = 451
SIZE = 4 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

def cachestat(file):
    whole, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if libc.syscall(CACHESTAT, file, whole, found, 0) != 0:
        raise OSError(ctypes.get_errno(), "cachestat")
    return found[0], found[1] + found[2]

def mincore(file):
    pages = (ctypes.c_ubyte * (SIZE // mmap.PAGESIZE))()
    address = libc.mmap(None, SIZE, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    if libc.mincore(address, SIZE, pages) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in pages)

with open("mount/file", "wb") as file:
    file.write(os.urandom(SIZE))
pages = SIZE // mmap.PAGESIZE
for name, path in [("overlay", "mount/file"), ("layer", "disk/upper/file")]:
    file = os.open(path, os.O_RDONLY)
    cached, dirty = cachestat(file)
    print(f"{name}: cachestat finds {'all' if cached == pages else cached} pages cached and "
          f"{'some' if dirty else 'none'} dirty, mincore finds {'all' if mincore(file) == pages else 'not all'} pages")
PYTHON
diff outcome - <<'TEXT'
overlay: cachestat finds 0 pages cached and none dirty, mincore finds all pages
layer: cachestat finds all pages cached and some dirty, mincore finds all pages
TEXT
