#!/usr/bin/env bash
# ministat 20150715 prints a median that is none for an even number of values.
#
# The median of an even number of values is the mean of the two in the middle. ministat prints the upper of the two. For
# the values 1, 1, 9 and 9 of a bimodal benchmark it prints 9 and not 5, so that one value more or less moves the median
# by a whole mode, and always upwards for even counts. The manual page says only "median". Medians of ministat and of
# other programs are therefore not comparable for even counts, such as the usual ten runs.
# Needs Debian 12 and Python 3. Prints the medians of both for several samples, and fails if they agree.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install ministat=20150715-1+b1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

echo "ministat $(dpkg-deb -f debs/ministat_*.deb Version)"
for sample in "1 2 3" "1 2 3 4" "1 1 9 9" "10 11 12 13 14 20 21 22 23 24"; do
    tr ' ' '\n' <<<"$sample" >values
    ministat=$(root/usr/bin/ministat -n values | awk '$1 == "x" && NF == 7 { print $5 }')
    # shellcheck disable=SC2086
    echo "$sample: ministat $ministat, Python $(python3 -c 'import statistics, sys
print(f"{statistics.median(map(float, sys.argv[1:])):g}")' $sample)"
done | tee outcome
diff outcome - <<'TEXT'
1 2 3: ministat 2, Python 2
1 2 3 4: ministat 3, Python 2.5
1 1 9 9: ministat 9, Python 5
10 11 12 13 14 20 21 22 23 24: ministat 20, Python 17
TEXT
