#!/usr/bin/env bash
# hyperfine 1.15.0 exports times of exactly 0 for commands that ran, and its mean is then too large.
#
# hyperfine subtracts the mean time of an empty shell from each run, which its documentation says, and replaces a negative
# difference by 0, which it does not. What noise makes too slow stays, and what it makes too fast is cut off, so the mean
# of a command of some microseconds is half the noise of starting a shell, and grows with the load of the machine. The
# JSON file has no mark of a cut time. A ratio of two such commands is a ratio of noise, or a division by 0.
# Needs Debian 12. Prints the times of a shell command that writes a small file, and fails if none of them is 0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install hyperfine='1.15.0-*' >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/hyperfine --version
root/usr/bin/hyperfine --warmup 3 --runs 100 'echo data >file' --export-json out.json >log 2>&1
cat file
python3 - <<'PYTHON'
import json

result = json.load(open("out.json"))["results"][0]
times = result["times"]
zeros = times.count(0.0)
print(f"{len(times)} runs: {zeros} times of exactly 0, none below 0: {min(times) >= 0}")
print(f"mean {result['mean'] * 1e6:.0f} us, median {result['median'] * 1e6:.0f} us, "
      f"processor time {(result['user'] + result['system']) * 1e6:.0f} us")
assert zeros > 0 and min(times) >= 0, "no time is cut off at 0"
PYTHON
