#!/usr/bin/env bash
# PStore of Ruby 3.1 makes no sync, also with ultra_safe.
#
# The documentation of ultra_safe promises the best effort against corruption, even in unusual error conditions, for a price
# in performance. With it, PStore writes a new file and renames it over the old one, but never calls fsync or fdatasync.
# After a power loss, a file system may have the rename without the data: the new file is empty and the old one is gone.
# ext4 has a workaround for programs that rename without a sync, on which the promise then rests; other file systems do not.
# Needs Debian 12. Prints the calls of one transaction in both modes, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install ruby3.1='3.1.*' libruby3.1='3.1.*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
library=$work/root/usr/lib/ruby/3.1.0
RUBYLIB=$library:$(find "$work/root/usr/lib" -path '*/ruby/3.1.0' -printf '%p\n' | grep linux | paste -sd:)
export RUBYLIB

cat >store.rb <<'RUBY'
require "pstore"

store = PStore.new("file")
store.ultra_safe = ARGV == ["true"]
store.transaction { store["key"] = "old" }
$stderr.syswrite("transaction\n")
store.transaction { store["key"] = "new" }
RUBY

root/usr/bin/ruby3.1 --disable-gems --version
for safe in false true; do
    root/usr/bin/strace -f -y -o trace -e trace=write,pwrite64,ftruncate,rename,fsync,fdatasync \
        root/usr/bin/ruby3.1 --disable-gems store.rb "$safe" 2>/dev/null
    calls=$(sed -n '/"transaction/,$p' trace | sed -n 's/^[0-9 ]*\([a-z0-9]*\)(.*file.*/\1/p' | paste -sd' ')
    echo "ultra_safe = $safe: $calls"
done | tee outcome
diff outcome - <<'TEXT'
ultra_safe = false: write ftruncate
ultra_safe = true: write rename
TEXT
