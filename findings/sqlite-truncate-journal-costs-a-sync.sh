#!/usr/bin/env bash
# SQLite syncs five times per transaction with the journal modes TRUNCATE and PERSIST, and four times with DELETE.
#
# The documentation of journal_mode offers both as faster than DELETE, because they leave the directory alone. A
# transaction still syncs the directory, although the journal is already in it, and syncs the journal once more after it
# is truncated or its header is cleared. DELETE has no sync after unlink. So each commit waits for the device once more,
# and who takes TRUNCATE as an optimization on a device with slow flushes gets the opposite.
# Needs Debian 12 for strace, and pip. Prints the calls of the third transaction of a connection in each mode, and fails if
# they change.
set -euo pipefail
package=apsw==3.51.1.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --target "$work/lib" "$package"
export PYTHONPATH=$work/lib

cat >transactions.py <<'PYTHON'
import os
import sys

import apsw

database = apsw.Connection(sys.argv[1])
database.execute(f"PRAGMA journal_mode={sys.argv[1]}")
database.execute("CREATE TABLE t(x)")
for number in range(3):
    # The mark separates the transactions in the trace.
    os.write(2, b"transaction\n")
    database.execute("INSERT INTO t VALUES (?)", (number,))
os.write(2, b"transaction\n")
PYTHON

python3 -c 'import apsw; print("SQLite", apsw.sqlite_lib_version())'
for mode in DELETE TRUNCATE PERSIST; do
    root/usr/bin/strace -f -y -o trace -e trace=fsync,fdatasync,ftruncate,unlink,write \
        python3 transactions.py "$mode" 2>/dev/null
    awk -v mode="$mode" '
        /"transaction/ { transaction++ }
        transaction != 3 { next }
        /sync\(.*-journal>/ { journal++ }
        /sync\(/ && !/-journal>/ { if ($0 ~ "/" mode ">") database++; else directory++ }
        /ftruncate/ { change = ", truncates the journal" }
        /unlink/ { change = ", unlinks the journal" }
        END { printf "%s: %d syncs (journal %d, directory %d, database %d)%s\n", mode, journal + directory + database, \
              journal, directory, database, change }' trace
done | tee outcome
diff outcome - <<'TEXT'
DELETE: 4 syncs (journal 2, directory 1, database 1), unlinks the journal
TRUNCATE: 5 syncs (journal 3, directory 1, database 1), truncates the journal
PERSIST: 5 syncs (journal 3, directory 1, database 1)
TEXT
