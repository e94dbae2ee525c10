#!/usr/bin/env bash
# sysbench 1.0.20 fileio makes more fsync calls than writes with its default --file-fsync-freq=100.
#
# The option is described as one fsync after this number of requests. After 100 writes, sysbench syncs each of its 128
# files, whether written or not, so that 228 events hold 100 writes. The syncs count as events: the latencies and the
# percentiles mix the writes with syncs, many of them of files without dirty data. A random write test of one device is
# then a test of fsync on clean files, and its 95th percentile changes with --file-num alone.
# Needs Debian 12. Prints the calls of 2280 events with the defaults, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install sysbench=1.0.20+ds-5 strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

sysbench=$work/root/usr/bin/sysbench
"$sysbench" --version
# The size is small for the sake of the test; the number of files is the default.
"$sysbench" fileio --file-total-size=128M prepare >/dev/null

{
    root/usr/bin/strace -f -y -o trace -e trace=fsync,fdatasync,pwrite64 "$sysbench" fileio --file-total-size=128M \
        --file-test-mode=rndwr --threads=1 --time=0 --events=2280 --file-fsync-end=off run >report
    grep -o 'total number of events: *[0-9]*' report | tr -s ' '
    awk '/pwrite64\(/ { writes++; match($0, /<[^>]*>/); dirty[substr($0, RSTART, RLENGTH)] = 1 }
        /sync\(/ { syncs++; match($0, /<[^>]*>/); file = substr($0, RSTART, RLENGTH); clean += !dirty[file]; dirty[file] = 0 }
        END { printf "%d writes, %d syncs, %s of them of files without new data\n", writes, syncs,
              (clean >= 280 ? "280 or more" : clean) }' trace
} | tee outcome
diff outcome - <<'TEXT'
total number of events: 2280
1000 writes, 1280 syncs, 280 or more of them of files without new data
TEXT
