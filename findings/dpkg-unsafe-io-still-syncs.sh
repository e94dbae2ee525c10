#!/usr/bin/env bash
# dpkg 1.21 with force-unsafe-io, as in Docker images, still makes 29 of its 39 fsync calls for ten small files.
#
# The option is set in official images so that installations do not wait for the disk. It leaves out the fsync of each
# unpacked file alone. The records of dpkg itself (its updates, info and status files and their directories, which Docker
# throws away with the container as well) are synced one by one as before. So a package of few files gains little, and
# installing many small packages stays a benchmark of fsync. The files also keep one of two sync_file_range calls.
# Needs Debian 12 and root. Installs one package below a temporary root, prints the syncs, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install dpkg='1.21.*' strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
dpkg=$work/root/usr/bin/dpkg

"$dpkg" --version | sed -n 1p
mkdir -p package/DEBIAN package/usr/share/example
cat >package/DEBIAN/control <<'CONTROL'
Package: example
Version: 1
Architecture: all
Maintainer: Example <example@example.org>
Description: ten small files
CONTROL
for number in $(seq 10); do head -c 1000 /dev/zero >"package/usr/share/example/file$number"; done
dpkg-deb --root-owner-group --build package example.deb >/dev/null

for option in --no-force-unsafe-io --force-unsafe-io; do
    rm -rf target
    mkdir -p target/var/lib/dpkg/info target/var/lib/dpkg/updates
    touch target/var/lib/dpkg/status
    root/usr/bin/strace -f -y -o trace -e trace=fsync,fdatasync,sync,syncfs,sync_file_range \
        "$dpkg" --root="$work/target" "$option" --install example.deb >/dev/null
    awk -v option="$option" '
        / fsync\(.*\/usr\// { files++; next }
        / fsync\(/ { records++ }
        / sync_file_range\(/ { ranges++ }
        END { printf "%s: %d fsync of files, %d fsync of records, %d sync_file_range\n", option, files, records, ranges }' trace
done | tee outcome
diff outcome - <<'TEXT'
--no-force-unsafe-io: 10 fsync of files, 29 fsync of records, 20 sync_file_range
--force-unsafe-io: 0 fsync of files, 29 fsync of records, 10 sync_file_range
TEXT
