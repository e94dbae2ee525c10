#!/usr/bin/env bash
# vmtouch 1.3.1 reports "Evicted Pages" for pages that stay in memory.
#
# vmtouch --evict asks the kernel to drop the pages of a file and prints the number of its pages as evicted. The kernel
# keeps dirty pages, so a file that was just written stays in memory whole, with status 0 and the report of success. A
# benchmark that writes its files and evicts them with vmtouch reads from memory and calls it a cold read. After a sync of
# the file, the same command does what it reports. The manual page does not mention dirty pages.
# Needs Debian 12. Prints the evicted and the resident pages before and after a sync, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install vmtouch=1.3.1-2 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done

# The program prints its version with its help alone, whose status is 1.
(root/usr/bin/vmtouch -h 2>&1 || true) | sed -n "s/^vmtouch v/vmtouch /p"
head -c 10M /dev/urandom >file
{
    for step in "after the write" "after a sync"; do
        [ "$step" = "after the write" ] || sync file
        evicted=$(root/usr/bin/vmtouch -e file | sed -n 's/ *Evicted Pages: \([0-9]*\) .*/\1/p')
        resident=$(root/usr/bin/vmtouch file | sed -n 's/ *Resident Pages: \([0-9]*\/[0-9]*\) .*/\1/p')
        echo "$step: $evicted pages reported as evicted, $resident pages resident"
    done
} | tee outcome
pages=$((10485760 / $(getconf PAGESIZE)))
diff outcome - <<TEXT
after the write: $pages pages reported as evicted, $pages/$pages pages resident
after a sync: $pages pages reported as evicted, 0/$pages pages resident
TEXT
