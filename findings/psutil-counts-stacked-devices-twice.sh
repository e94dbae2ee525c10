#!/usr/bin/env bash
# psutil 7.2.2 counts a write through a loop device, LVM or RAID twice in its system-wide disk counters.
#
# disk_io_counters() is documented as the I/O of the whole system. It leaves out partitions, because their disk counts them
# already, but adds up all other block devices. Those that are made of others have counters as well: one write to a volume
# is counted for the volume and for the disk beneath. A monitor beside a benchmark then shows twice the write rate of the
# device, and a write amplification of 2 that nothing caused.
# Needs pip, root and a loop device. Prints the counters for 32 MiB written through a loop device, and fails if the sum leaves
# out one of the two devices.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir mount
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --target "$work/lib" psutil==7.2.2
export PYTHONPATH=$work/lib
fallocate -l 100M image
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 image
sync image
mount -o loop image mount
sync

DEVICE=$(basename "$(findmnt -n -o SOURCE mount)") python3 - <<'PYTHON'
import os

import psutil

loop = os.environ["DEVICE"]
MIB = 1 << 20

def counters():
    # Other programs may write between the calls, but never less than nothing.
    total = psutil.disk_io_counters().write_bytes
    each = {name: counter.write_bytes for name, counter in psutil.disk_io_counters(perdisk=True).items()
            if os.path.exists(f"/sys/block/{name}")}
    return total, each

total_before, before = counters()
with open("mount/file", "wb") as file:
    file.write(os.urandom(32 * MIB))
    file.flush()
    os.fsync(file.fileno())
total_after, after = counters()
total = total_after - total_before
through_loop = after[loop] - before[loop]
beneath = sum(after.values()) - sum(before.values()) - through_loop
print("psutil", psutil.__version__)
print(f"written to a file: 32 MiB; loop device: {through_loop / MIB:.0f} MiB; devices beneath: {beneath / MIB:.0f} MiB; "
      f"psutil.disk_io_counters(): {total / MIB:.0f} MiB")
assert through_loop >= 32 * MIB and beneath >= 32 * MIB, "the data did not reach both devices"
assert total >= 64 * MIB, "the sum leaves out one of the devices"
PYTHON
