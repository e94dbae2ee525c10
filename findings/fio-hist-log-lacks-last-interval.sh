#!/usr/bin/env bash
# fio 3.33 does not write the last interval of a job to its histogram log.
#
# --write_hist_log exists for percentiles that averages of intervals cannot give. Each line is the histogram of one interval,
# and the I/Os after the last whole interval are in none. So percentiles and counts from the log differ from those of the same
# job in the results, and slow I/O at the end of the job is invisible. The manual page does not say it.
# Needs Debian 12. Prints the I/Os of the job and of the log, and fails if the log has all I/Os.
set -euo pipefail
version=3.33-3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "fio=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version

root/usr/bin/fio --name=job --filename=file --rw=write --bs=4k --size=100M --time_based --runtime=1900ms --rate=1m \
    --write_hist_log=job --log_hist_msec=500 --output-format=json --output=out.json
python3 - <<'PYTHON'
import json

write = json.load(open("out.json"))["jobs"][0]["write"]
rows = [[int(field) for field in line.split(",")] for line in open("job_clat_hist.1.log")]
# The first three fields are the time, the direction and the block size.
counts = [sum(row[3:]) for row in rows]
print(f"job: {write['runtime']} ms, {write['clat_ns']['N']} completion latencies")
print(f"histogram log: {len(rows)} lines up to {rows[-1][0]} ms, {sum(counts)} latencies")
assert sum(counts) < 0.9 * write["clat_ns"]["N"], "the log has all I/Os"
PYTHON
