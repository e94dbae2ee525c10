#!/usr/bin/env bash
# pg_test_fsync 16.2 measures open_datasync and open_sync with direct I/O, which the server does not use for its WAL.
#
# The manual offers the program to find the fastest wal_sync_method of a system. It opens its file with O_DIRECT for the
# two methods that sync through open flags, and without O_DIRECT for the others. A server with wal_sync_method=open_datasync
# opens its WAL without O_DIRECT, even with wal_level=minimal. So the program compares methods that differ in two ways, and
# the number of the method that often wins is one that the server cannot reach.
# Needs Debian 12 for strace, pip and a 64-bit x86 system. Prints the flags of both, and fails if they change.
set -euo pipefail
package=pgserver==0.1.4
work=$(mktemp -d)
as_postgres=()
clean_up() {
    if [ -e "$work/run/data/postmaster.pid" ]; then
        "${as_postgres[@]}" "$bin/pg_ctl" -D "$work/run/data" -s -w -m immediate stop
    fi
    rm -rf "$work"
}
trap clean_up EXIT
mkdir -p "$work/debs/partial" "$work/root" "$work/run"
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install strace=6.1-0.1 >/dev/null
for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
export LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"
# The package has whole programs in it, so any version of Python can unpack it.
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
    --python-version 3.11 --target "$work/lib" "$package"
bin=$work/lib/pgserver/pginstall/bin
strace=$work/root/usr/bin/strace
if [ "$(id -u)" = 0 ]; then
    # The server refuses to run as root.
    as_postgres=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod -R go+rX "$work"
    chown 65534:65534 "$work/run"
fi
cd "$work/run"
export PGHOST=$work/run PGUSER=postgres

# Prints the different flags of the synchronous opens in a trace.
flags() {
    grep "$1" trace | grep -o 'O_RDWR[A-Z_|]*' | grep SYNC | sed 's/|O_CLOEXEC//' | sort -u | paste -sd' '
}

"$bin/pg_test_fsync" --version
{
    "${as_postgres[@]}" "$strace" -f -o trace -e trace=openat "$bin/pg_test_fsync" -s 1 -f "$PWD/test" >/dev/null 2>&1
    echo "pg_test_fsync: $(flags /test)"
    "${as_postgres[@]}" "$bin/initdb" -D data -A trust -U postgres --no-sync >/dev/null
    for level in replica minimal; do
        cat >>data/postgresql.auto.conf <<CONF
listen_addresses = ''
unix_socket_directories = '$PWD'
wal_sync_method = open_datasync
wal_level = $level
max_wal_senders = 0
CONF
        "${as_postgres[@]}" "$strace" -f -o trace -e trace=openat "$bin/postgres" -D data >server.log 2>&1 &
        tracer=$!
        until "$bin/pg_isready" -q; do kill -0 "$tracer"; done
        "$bin/psql" -qc "CREATE TABLE $level (x int)"
        "${as_postgres[@]}" "$bin/pg_ctl" -D data -s -w stop
        wait "$tracer"
        echo "server with wal_level=$level: $(flags pg_wal/)"
    done
} | tee outcome
diff outcome - <<'TEXT'
pg_test_fsync: O_RDWR|O_DSYNC|O_DIRECT O_RDWR|O_SYNC|O_DIRECT
server with wal_level=replica: O_RDWR|O_DSYNC
server with wal_level=minimal: O_RDWR|O_DSYNC
TEXT
