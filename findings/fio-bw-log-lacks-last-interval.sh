#!/usr/bin/env bash
# fio 3.33 does not write the last interval of a job to its bandwidth and IOPS logs, but to its latency logs.
#
# With --log_avg_msec, the latency logs end with the job, and the other two end with the last whole interval. A total from them
# lacks the I/O after that, and two series of one job have different lengths. A job of 1.9 s with intervals of 500 ms loses a
# fifth of its time, and the lost part is the end, where a cache is full or a flush runs. The manual page does not say it.
# Needs Debian 12. Prints the last time of each log and the I/O in it, and fails if the logs have all I/O of the job.
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
    --write_bw_log=job --write_iops_log=job --write_lat_log=job --log_avg_msec=500 \
    --output-format=json --output=out.json
python3 - <<'PYTHON'
import json

interval = 0.5
write = json.load(open("out.json"))["jobs"][0]["write"]
rows = {name: [[int(field) for field in line.split(",")] for line in open(f"job_{name}.1.log")]
        for name in ("bw", "iops", "lat")}
kib = sum(row[1] for row in rows["bw"]) * interval
ios = sum(row[1] for row in rows["iops"]) * interval
print(f"job: {write['runtime']} ms, {write['io_bytes'] // 1024} KiB, {write['total_ios']} I/Os")
print(f"bandwidth log: {len(rows['bw'])} lines up to {rows['bw'][-1][0]} ms, {kib:.0f} KiB")
print(f"IOPS log: {len(rows['iops'])} lines up to {rows['iops'][-1][0]} ms, {ios:.0f} I/Os")
print(f"latency log: {len(rows['lat'])} lines up to {rows['lat'][-1][0]} ms")
# Rounding of the rates is below one in a hundred.
assert kib < 0.9 * write["io_bytes"] / 1024 and ios < 0.9 * write["total_ios"], "the logs have all I/O of the job"
last = {name: lines[-1][0] for name, lines in rows.items()}
assert last["bw"] < last["lat"] and last["iops"] < last["lat"], "the logs end together"
PYTHON
