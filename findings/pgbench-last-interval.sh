#!/usr/bin/env bash
# pgbench 16.2 does not write the last aggregation interval to its log.
#
# Intervals of --aggregate-interval start at whole seconds of the clock, and the run does not. So the first line of the log
# covers less than an interval, and the transactions after the last whole second are in no line. pgbench counts them in its
# report. A rate or a total from the log is too low, by up to one interval at each end, and the manual page says neither.
# Needs pip and a 64-bit x86 system. Prints the report's count and the log, and fails if the log has all transactions.
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
# The package has whole programs in it, so any version of Python can unpack it.
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
    --python-version 3.11 --target "$work/lib" "$package"
bin=$work/lib/pgserver/pginstall/bin
mkdir "$work/run"
if [ "$(id -u)" = 0 ]; then
    # The server refuses to run as root.
    as_postgres=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod -R go+rX "$work"
    chown 65534:65534 "$work/run"
fi
cd "$work/run"
export PGHOST=$work/run PGUSER=postgres
"${as_postgres[@]}" "$bin/initdb" -D data -A trust -U postgres --no-sync >/dev/null
"${as_postgres[@]}" "$bin/pg_ctl" -D data -s -w -l server.log -o "-c listen_addresses='' -k '$PWD'" start
"${as_postgres[@]}" "$bin/pgbench" -q -i postgres 2>/dev/null

"$bin/pgbench" --version
reported=0
logged=0
# A run that ends right after a whole second loses little: two runs with all their transactions would be a change.
for run in 1 2; do
    "${as_postgres[@]}" "$bin/pgbench" -n -c 1 -T 3 -l --aggregate-interval=1 --log-prefix="run$run" postgres >report
    count=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' report)
    sum=$(awk '{ sum += $2 } END { print sum }' "run$run".*)
    echo "run $run: the report has $count transactions in 3 s, the log has $sum in $(wc -l < <(cat "run$run".*)) lines:"
    cut -d' ' -f1-2 "run$run".*
    reported=$((reported + count))
    logged=$((logged + sum))
done
[ "$logged" -lt "$reported" ]
