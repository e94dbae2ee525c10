# What a person types. Each target installs what it needs first (Debian and Ubuntu; elsewhere it says what is missing).

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
FSB := $(TARGET)/release/fsb
# Built with the workspace's features, which the tests have, too: those of this crate alone would build some thirty crates again.
XTASK = $(CARGO) build --quiet --locked --workspace --bin xtask && $(TARGET)/debug/xtask

.PHONY: calibrate release run test test-quick test-machine python recipes dist test-dist book pictures check bench fuzz build clean

run: build  ## compare ext4, xfs and btrfs
	@scripts/install run
	@# The report names the trials without a value. They are no reason to call what make did an error.
	@scripts/as-root $(TARGET)/quick-build/fsb run ext4 xfs btrfs || \
		{ code=$$?; [ $$code = 4 ] || exit $$code; echo 'some trials have no value: fsb ended with exit code 4'; }

# Everything but the history and its pages: 'make run' does not wait for SQLite, nor for optimised reports.
build:
	$(CARGO) build --profile quick-build --locked --package fsb --no-default-features --features emulations,traces,vm

# The whole program, as 'cargo install' builds it.
release:
	$(CARGO) build --release --locked --package fsb

test: test-quick test-machine  ## everything that must be true

test-quick:  ## without root, without other programs, in minutes
	@scripts/test quick

test-machine:  ## real file systems and devices, virtual machines, browsers, other tools
	@scripts/install test
	@scripts/test machine

python:  ## the Python package and its notebook, with pandas, and with polars if it is installed
	@scripts/install python
	@scripts/test-python

recipes:  ## the recipes of CONTRIBUTING.md, in a copy of the tree
	@scripts/recipes

dist:  ## a .deb and a tarball with a static binary, in target/dist-files
	@scripts/dist

test-dist: dist  ## both, installed into empty roots
	@scripts/as-root scripts/test-dist

book:  ## the documentation as a book, in target/book
	$(XTASK) book

pictures: release  ## the README's picture, from a real run
	@scripts/as-root scripts/pictures

check:  ## format, lints, licences, documentation, wording, generated files, dependencies between files
	$(XTASK) cycles --folders
	$(XTASK) constants
	$(XTASK) prose
	$(XTASK) style
	$(XTASK) unstable
	$(XTASK) generate --check
	@scripts/component fmt --all --check
	@scripts/component clippy --workspace --all-targets --locked -- -D warnings
	@scripts/component clippy --workspace --test machine --test browser --bin xtask --locked -- -D warnings
	@scripts/component clippy --package fsb --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	$(XTASK) licences

bench: release build  ## the program beside an earlier one and its peers
	@scripts/install bench
	$(CARGO) run --release --locked --package xtask --no-default-features -- bench

calibrate: release  ## whether verdicts are true, for many hours; goes on where it was interrupted
	$(CARGO) build --release --locked --package fsb --features injected-slowdown --target-dir target/slowed
	@scripts/as-root scripts/calibrate equal --fsb $(FSB)
	@scripts/as-root scripts/calibrate slowed --fsb target/slowed/release/fsb
	@scripts/as-root scripts/calibrate long --runs 6 --fsb $(FSB)
	@scripts/as-root scripts/calibrate days --fsb $(FSB)

fuzz:  ## each parser for a minute
	@if ! $(CARGO) fuzz --version >/dev/null 2>&1; then \
	  echo "cargo-fuzz is not installed: cargo install cargo-fuzz"; exit 3; fi
	@for target in target plan acknowledged settings trials report iozone fio fio_job bonnie postmark filebench phoronix sysbench ior mdtest io500 hyperfine pgbench fs_mark dbench ioping stress_ng smallfile micro compare wml agent ledger trace logs page; do \
	  mkdir -p fuzz/corpus/$$target && \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -max_total_time=60 -timeout=20 -rss_limit_mb=2048 || exit 1; done

clean:
	$(CARGO) clean
