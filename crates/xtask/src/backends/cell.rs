//! The cells of the table: a backend and its counterpart in fio, a record size, a direction.

use fsb_model::Bytes;

use super::place::BenchDirectory;

/// Requests in flight, and requests reaped at once, of asynchronous backends.
pub const DEPTH: u32 = 32;

/// The factor on the size of files that a measurement passes over only once.
pub const PASS: u64 = 4;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub backend: &'static str,
    /// Options of fio that make it do the same.
    pub fio: &'static [&'static str],
    pub deep: bool,
    /// Whether kernel threads may do a part of the work. fio does not count their CPU time.
    pub kernel_threads: bool,
    pub direct: bool,
    pub random: bool,
    pub writes: bool,
}

const READS: Cell =
    Cell { backend: "", fio: &[], deep: false, kernel_threads: false, direct: false, random: false, writes: false };

const BACKENDS: [Cell; 5] = [
    Cell { backend: "psync", fio: &["--ioengine=psync"], ..READS },
    Cell { backend: "mmap", fio: &["--ioengine=mmap"], ..READS },
    Cell { backend: "direct", fio: &["--ioengine=psync", "--direct=1"], direct: true, ..READS },
    Cell { backend: "uring", fio: &["--ioengine=io_uring"], deep: true, kernel_threads: true, ..READS },
    Cell { backend: "uring-direct", fio: &["--ioengine=io_uring", "--direct=1"], deep: true, direct: true, ..READS },
];

/// All cells, in the order of the table.
pub fn all() -> impl Iterator<Item = Cell> {
    BACKENDS.into_iter().flat_map(|backend| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(random, writes)| Cell {
            random,
            writes,
            ..backend
        })
    })
}

impl Cell {
    /// Returns whether the cell makes sense on a file system. Direct I/O needs a device.
    pub fn makes_sense_on(&self, place: &BenchDirectory) -> bool {
        !self.direct || place.has_device()
    }

    pub fn block_size(&self) -> u64 {
        if self.random { 4 << 10 } else { 1 << 20 }
    }

    /// Returns whether one measurement passes over the file at most once.
    ///
    /// From one pass to the next fio maps the file again and never unmaps anything. The kernel maps pages that are
    /// already mapped at a lower cost. A program that unmaps unused memory pays the full cost in each pass, so passes
    /// after the first are not the same work.
    pub fn one_pass(&self) -> bool {
        self.backend == "mmap" && !self.random
    }

    /// Returns the bytes of its file. A single pass must last long enough for fio's resolution of milliseconds.
    pub fn file_size(&self, size: Bytes) -> Bytes {
        if self.one_pass() { Bytes(size.0 * PASS) } else { size }
    }

    /// Returns the name of the work: `random write 4K`.
    pub fn work(&self) -> String {
        let random = if self.random { "random " } else { "" };
        let verb = if self.writes { "write" } else { "read" };
        format!("{random}{verb} {}", Bytes(self.block_size()))
    }

    /// Formats a rate in operations per second, in the usual unit of the work.
    pub fn rate(&self, operations: f64) -> String {
        match self.random {
            true => format!("{:.1} k/s", operations / 1e3),
            false => format!("{:.0} MiB/s", operations * self.block_size() as f64 / (1 << 20) as f64),
        }
    }
}
