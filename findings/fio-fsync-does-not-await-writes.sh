#!/usr/bin/env bash
# With a queue, fsync=N of fio 3.33 does not wait for the N writes that it is to make durable.
#
# fsync=8 stands for a program that makes each group of eight writes durable. fio calls fsync() once eight writes are
# submitted: with libaio and iodepth=8, it has then awaited one of them at every call. fsync() covers what was written
# before, so it is not sure to cover the other seven, which on a slow device are still under way. A job that is reported as
# "fsync every 8" is sure of one write of a group, and its rate is that of a promise which no database makes. With iodepth=1,
# each sync covers its writes. The manual page says that the sync follows the writes, not that it does not await them.
# Needs Debian 12 with strace. Counts the writes that are not awaited at each fsync, and fails if the counts change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install fio=3.33-3 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version
cat >awaited.py <<'PYTHON'
import re
import sys

depth, path = int(sys.argv[1]), sys.argv[2]
pending, at_sync = 0, []
for line in open(path):
    result = re.search(r"= (\d+)$", line)
    if "io_submit(" in line and result:
        pending += int(result[1])
    elif "io_getevents(" in line and result:
        pending -= int(result[1])
    elif "fsync(" in line:
        at_sync.append(pending)
print(f"iodepth={depth}: {len(at_sync)} syncs, each after 8 writes; submitted and not awaited at the call: {min(at_sync)} to {max(at_sync)}")
expected = depth - 1
assert len(at_sync) >= 31 and min(at_sync) == max(at_sync) == expected, at_sync
PYTHON
for depth in 1 8; do
    strace -f -qq -e trace=io_submit,io_getevents,fsync -o trace root/usr/bin/fio --name=groups --directory=. --ioengine=libaio \
        --direct=1 --rw=randwrite --bs=4k --size=4m --io_size=1m --iodepth=$depth --fsync=8 --output=fio.txt
    python3 awaited.py $depth trace
done
