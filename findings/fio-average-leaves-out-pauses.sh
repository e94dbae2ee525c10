#!/usr/bin/env bash
# The average and the smallest bandwidth of fio 3.33 are above the bandwidth where a job pauses.
#
# A line of fio's report gives the bandwidth of a job (BW) and, below it, the minimum, average and deviation of samples that
# are described as its bandwidth over time. A job that writes 1 MiB and then pauses for two seconds, as a program with think
# time does, transfers 512 KiB/s. Time without a request ends no interval and is in no sample: the "average" is some four
# times the bandwidth, and so is the minimum although nothing was written for most of the time. The same holds for IOPS and
# for bw_mean, bw_min and iops_mean of the JSON, which scripts take as the course of a job or divide by the deviation.
# Needs Debian 12. Prints the values, and fails if the average is near the bandwidth.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install fio=3.33-3 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version
root/usr/bin/fio --name=pauses --directory="$work" --ioengine=psync --rw=write --bs=64k --size=64m --time_based --runtime=10 \
    --thinktime=2s --thinktime_blocks=16 --output-format=json --output="$work/out.json"
python3 - "$work/out.json" <<'PYTHON'
import json
import sys

job = json.load(open(sys.argv[1]))["jobs"][0]["write"]
transferred = job["io_bytes"] / 1024 / (job["runtime"] / 1000)
print(f"transferred: {job['io_kbytes']} KiB in {job['runtime']} ms = {transferred:.0f} KiB/s; BW = {job['bw']} KiB/s")
print(f"samples: minimum {job['bw_min']}, average {job['bw_mean']:.0f} KiB/s, {job['bw_samples']} samples")
print(f"IOPS = {job['iops']:.0f}, average of the samples {job['iops_mean']:.0f}")
assert abs(job["bw"] / transferred - 1) < 0.05, "BW changed"
assert job["bw_mean"] > 3 * job["bw"] and job["bw_min"] > 2 * job["bw"], "the samples contain the pauses"
PYTHON
