#!/usr/bin/env bash
# TinyDB 4.9.0 syncs its file before it truncates it, and leaves the truncation unsynced.
#
# TinyDB rewrites its JSON file in place: it writes from the start, calls fsync, and cuts off the rest of the old content
# afterwards. If the new content is shorter, the state that fsync made durable is the new JSON text with the end of the
# old one behind it, which no JSON parser accepts. After a power loss, the next start of the program fails, although the
# removal returned and a sync was made. Writing in place also has no state in which the old content survives.
# Needs Debian 12 for strace, and pip. Prints the calls of one removal in their order, reads the content that was synced, and
# fails if the calls change or the content is valid.
set -euo pipefail
package=tinydb==4.9.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$work/lib" "$package"
export PYTHONPATH=$work/lib

cat >remove.py <<'PYTHON'
import importlib.metadata
import json
import os

import tinydb

synced = []
fsync = os.fsync

def recording_fsync(file):
    fsync(file)
    synced.append(open("db.json").read())

database = tinydb.TinyDB("db.json")
for number in range(3):
    database.insert({"number": number})
os.fsync = recording_fsync
os.write(2, b"removal\n")
database.remove(tinydb.where("number") == 2)
os.write(2, b"end\n")
print("TinyDB", importlib.metadata.version("tinydb"))
try:
    json.loads(synced[-1])
    print("synced content: valid JSON")
except json.JSONDecodeError as error:
    print(f"synced content: {error}")
print("content after the truncation:", len(json.load(open("db.json"))["_default"]), "records")
PYTHON

{
    root/usr/bin/strace -y -o trace -e trace=write,fsync,fdatasync,ftruncate python3 remove.py 2>/dev/null
    # The calls between the marks, as their names alone.
    sed -n '/"removal/,/"end/p' trace | sed -n 's/^\([a-z]*\)([0-9]*<[^>]*db.json>.*/\1/p' | paste -sd' '
} | tee outcome
diff outcome - <<'TEXT'
TinyDB 4.9.0
synced content: Extra data: line 1 column 55 (char 54)
content after the truncation: 2 records
write fsync ftruncate
TEXT
