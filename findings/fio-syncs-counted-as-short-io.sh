#!/usr/bin/env bash
# fio 3.33 counts the fdatasync calls of a job as short reads, and its sync_file_range calls as short writes.
#
# A job that only writes and asks for --fdatasync has short reads in its results, and no syncs at all: "total_ios" of "sync" is
# 0, while the sync latencies have the right count. With --sync_file_range the same holds for short writes. With --fsync the
# number of syncs is right. A check for short I/O rejects a good run, and a rate of syncs from "total_ios" is 0.
# Needs Debian 12. Prints the counts for each of the three options, and fails if they change.
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

for sync in fsync=2 fdatasync=2 sync_file_range=write:2; do
    root/usr/bin/fio --name=job --filename=file --rw=write --bs=4k --size=32k --"$sync" \
        --output-format=json --output=out.json
    python3 - "$sync" <<'PYTHON'
import json
import sys

job = json.load(open("out.json"))["jobs"][0]
print(f"--{sys.argv[1]}: {job['sync']['lat_ns']['N']} latencies of syncs, sync total_ios {job['sync']['total_ios']}, "
      f"{job['read']['total_ios']} reads, short reads {job['read']['short_ios']}, "
      f"{job['write']['total_ios']} writes, short writes {job['write']['short_ios']}")
PYTHON
done | tee counts
diff counts - <<'TEXT'
--fsync=2: 3 latencies of syncs, sync total_ios 3, 0 reads, short reads 0, 8 writes, short writes 0
--fdatasync=2: 3 latencies of syncs, sync total_ios 0, 0 reads, short reads 3, 8 writes, short writes 0
--sync_file_range=write:2: 3 latencies of syncs, sync total_ios 0, 0 reads, short reads 0, 8 writes, short writes 3
TEXT
