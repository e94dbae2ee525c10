//! The questions, in the order of the table.

use super::property::Cell;
use super::{caches, data, direct, flags, names, space, syncs};

/// Returns the name and the label of each question, in the order of the table.
pub fn questions() -> impl Iterator<Item = (&'static str, &'static str)> {
    CELLS.iter().map(|cell| (cell.name, cell.label))
}

/// All questions. A cell that may kill the process (SIGBUS) costs its own answer only.
pub(super) static CELLS: &[Cell] = &[
    Cell {
        name: "open_direct",
        label: "open with O_DIRECT",
        consequence: "backends that bypass the page cache are not applicable",
        probe: direct::open,
    },
    Cell {
        name: "direct_write_new",
        label: "O_DIRECT: write 4 KiB, new file",
        consequence: "direct I/O in records of 4 KiB fails",
        probe: direct::write_new,
    },
    Cell {
        name: "direct_write",
        label: "O_DIRECT: write 4 KiB, existing file",
        consequence: "direct I/O in records of 4 KiB fails",
        probe: direct::write_existing,
    },
    Cell {
        name: "direct_write_unaligned",
        label: "O_DIRECT: write 100 bytes at 3",
        consequence: "",
        probe: direct::write_unaligned,
    },
    Cell {
        name: "direct_bypasses",
        label: "O_DIRECT writes bypass the page cache",
        consequence: "direct writes go through the page cache",
        probe: direct::bypasses,
    },
    Cell {
        name: "direct_read_bypasses",
        label: "O_DIRECT reads bypass the page cache",
        consequence: "direct reads go through the page cache",
        probe: direct::reads_bypass,
    },
    Cell {
        name: "direct_alignment",
        label: "O_DIRECT: alignment (statx)",
        consequence: "",
        probe: direct::reported_alignment,
    },
    Cell {
        name: "fallocate",
        label: "fallocate",
        consequence: "the workload 'fallocate' is not applicable",
        probe: data::allocate,
    },
    Cell {
        name: "punch_hole",
        label: "punch a hole",
        consequence: "the workload 'punch' is not applicable",
        probe: data::punch,
    },
    Cell {
        name: "zero_range",
        label: "zero a range",
        consequence: "",
        probe: data::zero,
    },
    Cell {
        name: "mmap_shared",
        label: "shared mmap and msync",
        consequence: "the backend 'mmap' is not applicable",
        probe: data::map,
    },
    Cell {
        name: "copy_file_range",
        label: "copy_file_range of 1 MiB",
        consequence: "",
        probe: data::copy,
    },
    Cell {
        name: "tmpfile",
        label: "O_TMPFILE",
        consequence: "programs use named temporary files",
        probe: names::unnamed,
    },
    Cell {
        name: "user_xattr",
        label: "extended attribute user.*",
        consequence: "workloads of extended attributes are not applicable",
        probe: names::attribute,
    },
    Cell {
        name: "link",
        label: "hard link",
        consequence: "the workload 'link' is not applicable",
        probe: names::second_link,
    },
    Cell {
        name: "rename_exchange",
        label: "rename with RENAME_EXCHANGE",
        consequence: "",
        probe: names::exchange,
    },
    Cell {
        name: "modes",
        label: "permissions of new files",
        consequence: "other users may read and change the files of a run",
        probe: names::modes,
    },
    Cell {
        name: "fsync_file",
        label: "fsync of a file",
        consequence: "'durable' cases fail or are not durable",
        probe: syncs::file,
    },
    Cell {
        name: "fsync_directory",
        label: "fsync of a directory",
        consequence: "new names are not known to be durable",
        probe: syncs::directory,
    },
    Cell {
        name: "syncfs",
        label: "syncfs",
        consequence: "commands and trees are not known to be durable",
        probe: syncs::file_system,
    },
    Cell {
        name: "warm",
        label: "warm: the second reading from the page cache",
        consequence: "'warm' cases are not applicable",
        probe: caches::warm,
    },
    Cell {
        name: "evict",
        label: "POSIX_FADV_DONTNEED evicts a file",
        consequence: "users without root cannot make files cold",
        probe: caches::evicted,
    },
    Cell {
        name: "cold",
        label: "cold",
        consequence: "'cold' cases are not applicable",
        probe: caches::cold,
    },
    Cell {
        name: "rwf_dontcache",
        label: "read with RWF_DONTCACHE",
        consequence: "reads of the backend 'uncached' are not applicable or invalid",
        probe: flags::read_uncached,
    },
    Cell {
        name: "rwf_dontcache_write",
        label: "write with RWF_DONTCACHE, new file",
        consequence: "writes of the backend 'uncached' are not applicable or invalid",
        probe: flags::write_uncached,
    },
    Cell {
        name: "rwf_dontcache_overwrite",
        label: "write with RWF_DONTCACHE, existing file",
        consequence: "writes of the backend 'uncached' over data are not applicable or invalid",
        probe: flags::overwrite_uncached,
    },
    Cell {
        name: "rwf_nowait",
        label: "read with RWF_NOWAIT",
        consequence: "asynchronous reads through the page cache use threads of the kernel",
        probe: flags::read_without_waiting,
    },
    Cell {
        name: "rwf_nowait_write",
        label: "write with RWF_NOWAIT",
        consequence: "asynchronous writes through the page cache use threads of the kernel",
        probe: flags::write_without_waiting,
    },
    Cell {
        name: "atomic_write_max",
        label: "largest atomic write (statx)",
        consequence: "",
        probe: flags::largest_atomic_write,
    },
    Cell {
        name: "rwf_atomic",
        label: "O_DIRECT: write with RWF_ATOMIC",
        consequence: "writes of the backend 'atomic' are not applicable",
        probe: flags::write_atomic,
    },
    Cell {
        name: "size",
        label: "size (statfs)",
        consequence: "",
        probe: space::size,
    },
    Cell {
        name: "available",
        label: "available (statfs)",
        consequence: "",
        probe: space::available,
    },
    Cell {
        name: "files",
        label: "files (statfs)",
        consequence: "",
        probe: space::files,
    },
    Cell {
        name: "free_files",
        label: "free files (statfs)",
        consequence: "",
        probe: space::free_files,
    },
    Cell {
        name: "block_size",
        label: "block size (statfs)",
        consequence: "",
        probe: space::block_size,
    },
    Cell {
        name: "preferred_size",
        label: "preferred record (stat)",
        consequence: "",
        probe: space::preferred_size,
    },
];
