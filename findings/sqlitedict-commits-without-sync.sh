#!/usr/bin/env bash
# sqlitedict 2.1.0 switches the syncs of SQLite off, so that commit() makes nothing durable.
#
# The description of commit() is that it persists all data to disk, and that of journal_mode says which value to take for
# those who do not care about crashes. Whatever its value is, the package sets PRAGMA synchronous=OFF on its connection,
# which neither the options nor the documentation mention. SQLite documents that a database may become corrupt at a power
# loss in this mode. The same statements through sqlite3 of Python sync four times per transaction.
# Needs Debian 12 for strace, and pip. Prints the syncs of ten commits with both, and fails if they change.
set -euo pipefail
package=sqlitedict==2.1.0
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

cat >with_sqlitedict.py <<'PYTHON'
import sqlitedict

with sqlitedict.SqliteDict("sqlitedict.db", journal_mode="DELETE") as table:
    for number in range(10):
        table[number] = number
        table.commit()
PYTHON
cat >with_sqlite3.py <<'PYTHON'
import sqlite3

database = sqlite3.connect("sqlite3.db")
database.execute("PRAGMA journal_mode=DELETE")
database.execute("CREATE TABLE unnamed (key TEXT PRIMARY KEY, value BLOB)")
for number in range(10):
    database.execute("REPLACE INTO unnamed VALUES (?, ?)", (number, number))
    database.commit()
database.close()
PYTHON

python3 -c 'import sqlitedict; print("sqlitedict", sqlitedict.__version__)'
for name in sqlitedict sqlite3; do
    root/usr/bin/strace -f -o trace -e trace=fsync,fdatasync,sync_file_range python3 "with_$name.py"
    echo "$name: $(grep -c 'sync(' trace || true) syncs"
done | tee outcome
awk '/^sqlitedict: 0 syncs/ { off = 1 } /^sqlite3:/ && $2 >= 40 { on = 1 } END { exit !(off && on) }' outcome
