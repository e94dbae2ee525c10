#!/usr/bin/env bash
# On Linux since 6.11, uncached=1 of fio 3.33 asks for atomic I/O, and atomic=1 for nothing.
#
# uncached=1 is documented as I/O that leaves nothing in the page cache, and atomic=1 as writes that are not torn. fio 3.33 was
# released before Linux had either. For uncached=1 it passes the flag 0x40 of a proposal; Linux 6.11 gave that number to
# RWF_ATOMIC, and uncached I/O got 0x80 (RWF_DONTCACHE, Linux 6.14). So reads of the page cache fail with "Operation not
# supported", which a reader takes for a file system without uncached I/O. For atomic=1, fio opens files with a flag (0x800000)
# that Linux does not know and ignores, and passes no flag with the writes: they are ordinary direct writes, on every file
# system and of any size, and a comparison of atomic with ordinary writes finds that they cost nothing.
# Needs Debian 12 with strace and Linux 6.11 or later. Prints the calls, and fails if they change.
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
echo "Linux $(uname -r)"
# Prints the first read or write of a job and the end of fio.
calls() { # calls NAME OPTION...
    local name=$1 code=0
    shift
    strace -f -qq -e trace=preadv2,pwritev2 -o trace root/usr/bin/fio --name=job --directory=. --ioengine=pvsync2 --bs=4k --size=64k \
        --output=fio.txt "$@" 2>errors.txt || code=$?
    sed -n 's/^[0-9]* *\(p[a-z0-9]*\)(.*, \([0-9a-fx]*\)\( [^)]*\)\?) *= \(.*\)/\1 with the flags \2: \4/p' trace | head -1 >call.txt
    echo "$name: $(cat call.txt); fio ends with $code"
}
calls "uncached=1, reading" --rw=read --uncached=1
grep -q 'flags 0x40: -1 EOPNOTSUPP' call.txt
calls "atomic=1, writing" --rw=write --direct=1 --atomic=1
grep -q 'pwritev2 with the flags 0: 4096' call.txt
