#!/usr/bin/env bash
# stress-ng 0.15.06 reports two different means for one quantity of one run.
#
# With two instances, the text prints the geometric mean of their rates ("geometic mean of 2 instances"), and the file of
# --yaml has a larger number under the same name, which it does not describe. The manual page mentions neither mean. A
# comparison of one run's text with another run's YAML file compares two statistics. With one instance both agree.
# Needs Debian 12. Prints both numbers for each rate of the hdd stressor, and fails if they agree for every rate.
set -euo pipefail
version=0.15.06-2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "stress-ng=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

# Prints the name, the rate of the text and the rate of the YAML file for each of the three rates.
rates() {
    root/usr/bin/stress-ng --temp-path . --hdd "$1" --hdd-bytes 16M -t 2 --metrics --yaml run.yaml >run.txt 2>&1
    for name in read write readwrite-combined; do
        text=${name/readwrite-/read\/write }
        awk -v text="MB/sec $text rate" -v yaml="mbsec-$name-rate:" -v name="$name" '
            FNR == NR && index($0, text) { match($0, /[0-9.]+ MB/); printed = substr($0, RSTART, RLENGTH - 3) }
            FNR != NR && $1 == yaml { filed = $2 }
            END { if (printed == "" || filed == "") exit 2; printf "%s %.2f %.2f\n", name, printed, filed }' run.txt run.yaml
    done
}

root/usr/bin/stress-ng --version
echo "rate, MB/s in the text, MB/s in the YAML file"
echo "1 instance:"
rates 1 | tee one
echo "2 instances:"
rates 2 | tee two
grep -m 1 -o '(geometic mean of 2 instances)' run.txt
# The text and the file agree for one instance, up to the last digit printed.
awk '($2 - $3) ^ 2 > 0.0005 { exit 1 }' one
# No geometric mean is above the arithmetic mean of the same numbers.
awk '$3 < $2 { exit 1 } $3 > $2 { differs = 1 } END { exit !differs }' two
