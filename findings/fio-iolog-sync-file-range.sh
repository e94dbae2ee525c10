#!/usr/bin/env bash
# fio 3.33 writes sync_file_range calls to its iolog, and its own replay of that log leaves them out and succeeds.
#
# The line has the action "sync_file_range", which the documentation of the trace format does not list, the offset of the last
# write and the length 0: neither the range nor the flags of the call. --read_iolog prints "bad iolog file action" for each of
# them, replays the writes alone and exits with 0. So a recorded load that starts writeback all the time is replayed as a load
# that never does, and its results pass for those of the recorded load. The lines for fsync are replayed.
# Needs Debian 12. Prints the lines of the log and the outcome of the replay, and fails if they change.
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

# Records a job with a sync option and replays its log.
replay() {
    rm -f file log
    root/usr/bin/fio --name=job --filename=file --rw=write --bs=4k --size=32k --"$1" --write_iolog=log --output=out.txt
    echo "--$1, sync actions in the log:"
    # The first field is the time.
    grep sync log | cut -d' ' -f2- || true
    status=0
    root/usr/bin/fio --name=job --filename=file --read_iolog=log --output-format=json --output=out.json 2>errors || status=$?
    python3 - "$status" <<'PYTHON'
import json
import sys

job = json.load(open("out.json"))["jobs"][0]
bad = sum("bad iolog file action: sync_file_range" in line for line in open("errors"))
print(f"replay: status {sys.argv[1]}, error {job['error']}, {job['write']['total_ios']} writes, "
      f"{job['sync']['lat_ns']['N']} syncs, {bad} bad actions")
PYTHON
}

{ replay fsync=2; replay sync_file_range=write:2; } | tee outcome
diff outcome - <<'TEXT'
--fsync=2, sync actions in the log:
file sync 4096 0
file sync 12288 0
file sync 20480 0
replay: status 0, error 0, 8 writes, 3 syncs, 0 bad actions
--sync_file_range=write:2, sync actions in the log:
file sync_file_range 4096 0
file sync_file_range 12288 0
file sync_file_range 20480 0
replay: status 0, error 0, 8 writes, 0 syncs, 3 bad actions
TEXT
