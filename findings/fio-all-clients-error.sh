#!/usr/bin/env bash
# fio 3.33 as a client of servers reports the error 0 for "All clients" if a job failed.
#
# The entry "All clients" of the JSON output sums up the jobs of the clients: its bytes are those of all jobs, the failed one
# included. Its "error" is 0 although a job has an error. A reader that takes the sum as the result of the run takes a failed
# run for a good one.
# Needs Debian 12. A limit of the file size makes the write of one job fail (EFBIG, 27). Prints the error and the bytes of each
# entry, and fails if the error of the sum is not 0.
set -euo pipefail
version=3.33-3
work=$(mktemp -d)
server=
clean_up() {
    if [ -n "$server" ]; then
        # The server has a process for each client: the signal goes to the group.
        kill -- "-$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "fio=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version

# Job control gives the server a process group.
set -m
(
    # Without the signal the write returns an error.
    trap '' XFSZ
    ulimit -f 64
    exec root/usr/bin/fio --server=sock:"$work/socket" >server.txt 2>&1
) &
server=$!
set +m
# The kernel marks a socket that listens with this flag.
# shellcheck disable=SC2016
timeout 60 bash -c 'until grep -q " 00010000 .*$0" /proc/net/unix; do :; done' "$work/socket"
cat >jobs.fio <<JOBS
[global]
directory=$work
rw=write
bs=4k
[fails]
size=1M
[succeeds]
size=32k
JOBS
status=0
root/usr/bin/fio --client=sock:"$work/socket" jobs.fio --output-format=json --output=out.json || status=$?
echo "status of the client: $status"
python3 - <<'PYTHON' | tee entries
import json

text = open("out.json").read()
for entry in json.loads(text[text.index("{"):])["client_stats"]:
    print(f"{entry['jobname']}: error {entry['error']}, {entry['write']['io_bytes']} bytes written")
PYTHON
diff entries - <<'TEXT'
fails: error 27, 65536 bytes written
succeeds: error 0, 32768 bytes written
All clients: error 0, 98304 bytes written
TEXT
