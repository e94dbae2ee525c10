#!/usr/bin/env bash
# LMDB 0.9 copies a database without any sync, and with direct I/O, which looks like one.
#
# mdb_env_copy, Environment.copy of py-lmdb and mdb_copy are the documented way to make a backup. Each opens the new file,
# switches it to O_DIRECT, writes and closes it. O_DIRECT passes the page cache, but neither the cache of the device nor the
# metadata: the new size and extents are in memory when the call reports success. After a power loss, the backup that
# was complete may be an empty file. LMDB syncs each commit of the database itself.
# Needs Debian 12 for strace, and pip. Prints the calls on the new file and the syncs of one commit, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --target "$work/lib" lmdb==1.7.5
export PYTHONPATH=$work/lib

cat >copy.py <<'PYTHON'
import os

import lmdb

print("py-lmdb", lmdb.__version__, "with LMDB", ".".join(map(str, lmdb.version())))
os.makedirs("backup")
os.makedirs("compacted")
with lmdb.open("database", map_size=1 << 24) as database:
    os.write(2, b"step commit")
    with database.begin(write=True) as transaction:
        for number in range(1000):
            transaction.put(b"%d" % number, bytes(1000))
    os.write(2, b"step copy")
    database.copy("backup")
    os.write(2, b"step copy with compaction")
    database.copy("compacted", compact=True)
    os.write(2, b"step end")
PYTHON

root/usr/bin/strace -f -y -o trace -e trace=fcntl,write,pwrite64,pwritev,writev,fsync,fdatasync,msync,close \
    python3 copy.py 2>/dev/null | sed 's/^/# /'
awk -F'"' '
    /"step / { name = substr($2, 6); order[++count] = name }
    /F_SETFL.*O_DIRECT/ { direct[name] = 1 }
    /write.*data\.mdb>/ { writes[name]++ }
    /(fsync|fdatasync|msync)\(/ { syncs[name]++ }
    END { for (i = 1; i < count; i++) print order[i] ": " (direct[order[i]] ? "O_DIRECT" : "no O_DIRECT") ", " \
              (writes[order[i]] ? "writes" : "no writes") ", " (syncs[order[i]] ? "syncs" : "no sync") }' trace | tee outcome
diff outcome - <<'TEXT'
commit: no O_DIRECT, writes, syncs
copy: O_DIRECT, writes, no sync
copy with compaction: O_DIRECT, writes, no sync
TEXT
