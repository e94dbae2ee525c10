#!/usr/bin/env bash
# link(2) on a CryFS mount fails with ERANGE ("Numerical result out of range").
#
# CryFS has no hard links. Programs look for EPERM, ENOSYS or EOPNOTSUPP to fall back to a copy (git, rsync, backup tools), and
# none expects an error of arithmetic. CryFS answers with the positive number of ENOSYS, which libfuse rejects as a bad error
# value and replaces by ERANGE. Other calls that it lacks fail with EOPNOTSUPP, as they should.
# Needs Debian 12, root and /dev/fuse. Prints the error of link and of setxattr, and fails if that of link is a usual one.
set -euo pipefail
version=0.11.3-5
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root beneath mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "cryfs=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH HOME="$work" CRYFS_FRONTEND=noninteractive CRYFS_NO_UPDATE_CHECK=true

root/usr/bin/cryfs --version 2>/dev/null | head -1
echo secret | root/usr/bin/cryfs beneath mount >/dev/null 2>&1
python3 - <<'PYTHON'
import errno, os

def outcome(call):
    try:
        call()
        return "ok"
    except OSError as error:
        return f"{errno.errorcode[error.errno]} ({error.strerror})"

assert os.path.ismount("mount"), "CryFS is not mounted"
open("mount/file", "w").close()
link = outcome(lambda: os.link("mount/file", "mount/second"))
print("link:", link)
print("setxattr:", outcome(lambda: os.setxattr("mount/file", "user.x", b"1")))
assert link.startswith("ERANGE"), "link has another error"
PYTHON
