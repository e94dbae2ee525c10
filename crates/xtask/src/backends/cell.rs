//! What is measured: a backend and its counterpart in fio, a record size, a direction.

use fsb_model::Bytes;

use super::place::BenchDirectory;

/// Requests under way, and taken at once, of asynchronous backends.
pub const DEPTH: u32 = 32;

/// Files that are gone over once are larger by this.
pub const PASS: u64 = 4;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub backend: &'static str,
    /// Options of fio that make it do the same.
    pub fio: &'static [&'static str],
    pub deep: bool,
    /// Threads of the kernel may do a part of the work: fio does not count what they take.
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
    /// A file system in memory has nothing past its cache.
    pub fn makes_sense_on(&self, place: &BenchDirectory) -> bool {
        !self.direct || place.has_device()
    }

    pub fn block_size(&self) -> u64 {
        if self.random { 4 << 10 } else { 1 << 20 }
    }

    /// Whether one measurement goes over the file once at most.
    ///
    /// From one pass to the next fio maps the file again and never takes a mapping away: pages that are mapped already
    /// are mapped once more for less than their first mapping costs, in the books that the kernel keeps of them. Whoever
    /// unmaps what he no longer uses has the full cost in each pass, so passes after the first are not the same work.
    pub fn one_pass(&self) -> bool {
        self.backend == "mmap" && !self.random
    }

    /// Bytes of its file: a single pass must last long enough for the milliseconds in which fio tells its time.
    pub fn file_size(&self, size: Bytes) -> Bytes {
        if self.one_pass() { Bytes(size.0 * PASS) } else { size }
    }

    /// `random write 4K`.
    pub fn work(&self) -> String {
        let random = if self.random { "random " } else { "" };
        let verb = if self.writes { "write" } else { "read" };
        format!("{random}{verb} {}", Bytes(self.block_size()))
    }

    /// So many operations a second, in the unit that people ask for.
    pub fn rate(&self, operations: f64) -> String {
        match self.random {
            true => format!("{:.1} k/s", operations / 1e3),
            false => format!("{:.0} MiB/s", operations * self.block_size() as f64 / (1 << 20) as f64),
        }
    }
}
