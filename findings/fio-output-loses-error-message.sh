#!/usr/bin/env bash
# fio 3.33 with --output loses the message about the error of a job that runs as a process.
#
# With its output on stdout, fio prints "fio: pid=…, err=…" when the job ends. With --output=FILE, the message is neither in
# FILE, nor on stdout, nor on stderr. With --thread it is in FILE. A script that looks for this message finds a failed job with
# one way of saving the output, and none with the other. The summary of the job has the error in each case.
# Needs Debian 12. A limit of the file size makes the write fail (EFBIG, 27). Prints where the message is, and fails if that
# changes.
set -euo pipefail
version=3.33-3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p debs/partial root
apt-get -qq -y --no-install-recommends --download-only --reinstall --allow-downgrades -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$work/debs" install "fio=$version" >/dev/null
for deb in debs/*.deb; do dpkg -x "$deb" root; done
LD_LIBRARY_PATH=$(find root -name 'lib*.so*' -printf "$work/%h\n" | sort -u | paste -sd:)
export LD_LIBRARY_PATH

root/usr/bin/fio --version

# Runs a job that fails after 64 KiB and reports the lines with its error.
run() {
    rm -f file out.txt
    status=0
    (
        # Without the signal the write returns an error.
        trap '' XFSZ
        ulimit -f 64
        exec root/usr/bin/fio --name=job --filename=file --rw=write --bs=4k --size=1M "$@" >stdout 2>stderr
    ) || status=$?
    touch out.txt
    echo "fio ${*:-without --output}: status $status"
    for stream in stdout stderr out.txt; do
        echo "  $stream: $(grep -c '^fio: pid=[0-9]*, err=27/' "$stream" || true) messages," \
            "$(grep -c '^job: .* err=27 ' "$stream" || true) summaries with the error"
    done
}

{ run; run --output=out.txt; run --output=out.txt --thread; } | tee places
diff places - <<'TEXT'
fio without --output: status 1
  stdout: 1 messages, 1 summaries with the error
  stderr: 0 messages, 0 summaries with the error
  out.txt: 0 messages, 0 summaries with the error
fio --output=out.txt: status 1
  stdout: 0 messages, 0 summaries with the error
  stderr: 0 messages, 0 summaries with the error
  out.txt: 0 messages, 1 summaries with the error
fio --output=out.txt --thread: status 1
  stdout: 0 messages, 0 summaries with the error
  stderr: 0 messages, 0 summaries with the error
  out.txt: 1 messages, 1 summaries with the error
TEXT
