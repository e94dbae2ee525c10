#!/usr/bin/env bash
# Reads with RWF_NOWAIT that fail with EAGAIN are carried out all the same: a job of fio 3.33 with nowait=1 counts an error
# for each read, has read 0 bytes, and leaves its whole file in the page cache.
#
# preadv2(2) describes the flag as one that does not wait for data that is not at hand. Linux begins to read a missing page
# before it checks whether the call would wait (filemap_get_pages of mm/filemap.c), and returns EAGAIN. A job that probes
# whether data is cached warms the cache by that, and a second pass over the file finds all of it, although no read waited.
# Needs Debian 12 and temporary files on ext4 or xfs. Prints the errors and bytes of two passes and the cached bytes after each,
# and fails if the first pass has no error, has all bytes, or leaves a page out, or if the second pass has an error.
set -euo pipefail
version=3.33-3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "fio=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version
uname -sr
stat -f -c 'file system: %T' .

dd if=/dev/urandom of=data bs=1M count=1 conv=fsync status=none
# Its pages leave the cache.
dd if=data iflag=nocache count=0 status=none
cached() { fincore --bytes --noheadings --output RES data | tr -d ' '; }
echo "cached before: $(cached) bytes"

# Prints the errors and the bytes that the job has read.
pass() {
    root/usr/bin/fio --name=pass --filename=data --readonly --rw=randread --bs=4k --ioengine=pvsync2 --nowait=1 \
        --ignore_error=EAGAIN --invalidate=0 --output-format=json --output="$1.json"
    python3 -c 'import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
print(job["total_err"], job["read"]["io_bytes"])' "$1.json"
}
read -r errors bytes < <(pass first)
echo "first pass:  $errors errors (EAGAIN) of 256 reads, $bytes bytes"
# The reads that began may still be under way.
for _ in {1..200}; do
    [ "$(cached)" = 1048576 ] && break
    sleep 0.05
done
echo "cached after: $(cached) bytes of 1048576"
read -r again all < <(pass second)
echo "second pass: $again errors (EAGAIN) of 256 reads, $all bytes"
[ "$errors" -gt 0 ] && [ "$bytes" -lt 1048576 ] && [ "$(cached)" = 1048576 ] && [ "$again" = 0 ] && [ "$all" = 1048576 ]
