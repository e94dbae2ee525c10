#!/usr/bin/env bash
# sync() of netCDF4 1.7.5, flush() of h5py 3.16.0 and sync() of SciPy 1.17.1 make no sync call, and neither does close().
#
# The documentation of the three says that they write the data to the disk; SciPy calls it a sync-to-disk flush. They pass
# them to the page cache with write calls. A simulation that calls sync() after each step so that a crash of the node costs
# one step loses all steps that the kernel has not written back. A checkpoint benchmark of these formats measures memory.
# numpy.memmap.flush() does sync.
# Needs Debian 12 for strace, and pip. Prints the calls of each method, and fails if they change.
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
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --no-warn-conflicts \
    --target "$work/lib" netCDF4==1.7.5.1.post1 h5py==3.16.0 scipy==1.17.1 numpy==2.4.6
export PYTHONPATH=$work/lib HDF5_USE_FILE_LOCKING=FALSE

cat >save.py <<'PYTHON'
import os

import numpy
import h5py
import netCDF4
from scipy.io import netcdf_file

def step(name, *calls):
    os.write(2, f"step {name}".encode())
    for call in calls:
        call()
    os.write(2, b"step end")

values = numpy.arange(1000.0)
for name, opener in [("netCDF4", netCDF4.Dataset), ("SciPy netcdf_file", netcdf_file)]:
    dataset = opener(name, "w")
    dataset.createDimension("x", len(values))
    dataset.createVariable("v", "f8", ("x",))[:] = values
    step(f"{name}: sync() and close()", dataset.sync, dataset.close)
    del dataset
file = h5py.File("h5py", "w")
dataset = file.create_dataset("v", data=values)
step("h5py: flush() and close()", dataset.flush, file.flush, file.close)
array = numpy.memmap("numpy", "f8", "w+", shape=values.shape)
array[:] = values
step("numpy.memmap: flush()", array.flush)
print("netCDF4", netCDF4.__version__, "h5py", h5py.__version__, "numpy", numpy.__version__)
PYTHON

root/usr/bin/strace -f -s 80 -o trace -e trace=write,pwrite64,fsync,fdatasync,msync,syncfs,sync,sync_file_range \
    python3 -W ignore save.py 2>/dev/null
awk -F'"' '
    /"step / { name = substr($2, 6); if (name != "end") order[++count] = name; next }
    /write/ { writes[name]++ }
    /sync/ { syncs[name]++ }
    END { for (i = 1; i <= count; i++) print order[i] ", " (writes[order[i]] ? "writes" : "no writes") ", " \
              syncs[order[i]] + 0 " syncs" }' trace | tee outcome
diff outcome - <<'TEXT'
netCDF4: sync() and close(), writes, 0 syncs
SciPy netcdf_file: sync() and close(), writes, 0 syncs
h5py: flush() and close(), writes, 0 syncs
numpy.memmap: flush(), no writes, 1 syncs
TEXT
