//! IOzone's options as data. Its banner repeats the options in the order in which they were typed,
//! so [`Options`] keeps lines beside values.

use std::path::PathBuf;
use std::time::Duration;

/// The default size of the processor's cache, in kilobytes.
pub(super) const CACHE_SIZE: u64 = 1024;
/// The default line of the processor's cache, in bytes.
pub(super) const CACHE_LINE: u64 = 32;

/// A request that cannot be served, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub(super) String);

impl OptionsError {
    pub(super) fn new(message: impl Into<String>) -> OptionsError {
        OptionsError(message.into())
    }
}

impl From<lexopt::Error> for OptionsError {
    fn from(error: lexopt::Error) -> OptionsError {
        OptionsError(error.to_string())
    }
}

/// A line of the banner that an option adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BannerLine {
    /// The text, without the leading tab.
    Text(String),
    /// `-M`: the output of uname, which is not known here.
    Machine,
}

/// The interface that moves bytes into a file and out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Means {
    /// Calls of read(2) and write(2).
    #[default]
    Calls,
    /// `-B`, `-D`, `-G`: a mapping, with this msync after each written record.
    Mapping(Msync),
    /// `-H` and `-k`: asynchronous I/O with `depth` requests in flight.
    Async {
        depth: u32,
        /// `-H`: records are copied between the request's buffer and one of the caller.
        copy: bool,
    },
}

/// The msync after each record that is stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Msync {
    /// `-B` alone: nothing.
    Never,
    /// `-D`: MS_ASYNC.
    Async,
    /// `-G`: MS_SYNC.
    Sync,
}

/// The check of data that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// The first word of each page, the default of IOzone.
    #[default]
    Sample,
    /// `-V`: every byte, all of one value.
    Pattern(u8),
    /// `-+d`: every byte, different in each record of each file.
    Diagnose,
}

/// The quantity that is printed for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputUnit {
    /// Kilobytes (1024 bytes) a second.
    #[default]
    Kilobytes,
    /// `-O`: operations a second.
    Operations,
    /// `-N`: microseconds an operation.
    Microseconds,
}

/// Sizes in kilobytes that were typed, and the limits of automatic mode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Each `-s` or `-r`, in the order typed, each once.
    pub list: Vec<u64>,
    /// `-n` or `-y`.
    pub least: Option<u64>,
    /// `-g` or `-q`.
    pub most: Option<u64>,
}

/// All options of a command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `-a`, `-A`, or more than one `-s` or `-r`.
    pub auto: bool,
    /// `-A`: write and read only, in a table of four columns.
    pub read_write_only: bool,
    /// `-z`, `-A`, or more than one `-s` or `-r`: small records in large files too.
    pub all_records: bool,
    /// `-i`; empty means all.
    pub tests: TestSet,
    /// `-+n`: no rewrite, reread, …
    pub no_retest: bool,
    pub file_sizes: Sizes,
    pub record_sizes: Sizes,
    /// `-f`.
    pub file: PathBuf,
    /// `-F`.
    pub files: Vec<PathBuf>,
    /// `-t`, in the order typed.
    pub counts: Vec<u32>,
    /// `-l`.
    pub least_processes: Option<u32>,
    /// `-u`.
    pub most_processes: Option<u32>,
    /// `-T`.
    pub threads: bool,
    /// `-x` was not given.
    pub stonewall: bool,
    /// `-C`.
    pub show_children: bool,
    /// `-+p`, in percent of the processes.
    pub read_percent: Option<u32>,
    /// `-P`.
    pub first_cpu: Option<u32>,
    /// `-E`: pwrite and pread in the table.
    pub extension: bool,
    /// `-Z`: write(2) on a file that is written through a mapping.
    pub mix: bool,
    /// `-B -D -G -H -k`.
    pub means: Means,
    /// `-I`.
    pub direct: bool,
    /// `-o`.
    pub sync: bool,
    /// `-+D`.
    pub data_sync: bool,
    /// `-e`.
    pub include_flush: bool,
    /// `-c`.
    pub include_close: bool,
    /// `-w`.
    pub keep: bool,
    /// `-W`.
    pub lock: bool,
    /// `-U`.
    pub remount: Option<PathBuf>,
    /// `-j`, in records.
    pub stride: u64,
    /// `-p`.
    pub purge: bool,
    /// `-S`, in kilobytes.
    pub cache_size: u64,
    /// `-L`, in bytes.
    pub cache_line: u64,
    /// `-V`, `-+d`.
    pub check: Check,
    /// `-O`, `-N`.
    pub unit: OutputUnit,
    /// `-+u`.
    pub cpu: bool,
    /// `-Q`.
    pub latency_files: bool,
    /// `-R`, or `-b`.
    pub report: bool,
    /// `-b`.
    pub sheet: Option<PathBuf>,
    /// `--repeat-until`, which is not IOzone's.
    pub repeat_until: Option<Duration>,
    /// `--out`, which is not IOzone's: the run directory.
    pub out: Option<PathBuf>,
    /// `--allow-concurrent`, which is not IOzone's either.
    pub allow_concurrent: bool,
    /// The lines that these options add to the banner, in the order typed.
    pub lines: Vec<BannerLine>,
    /// The command line.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            auto: false,
            read_write_only: false,
            all_records: false,
            tests: TestSet::default(),
            no_retest: false,
            file_sizes: Sizes::default(),
            record_sizes: Sizes::default(),
            file: PathBuf::from("iozone.tmp"),
            files: Vec::new(),
            counts: Vec::new(),
            least_processes: None,
            most_processes: None,
            threads: false,
            stonewall: true,
            show_children: false,
            read_percent: None,
            first_cpu: None,
            extension: false,
            mix: false,
            means: Means::Calls,
            direct: false,
            sync: false,
            data_sync: false,
            include_flush: false,
            include_close: false,
            keep: false,
            lock: false,
            remount: None,
            stride: 17,
            purge: false,
            cache_size: CACHE_SIZE,
            cache_line: CACHE_LINE,
            check: Check::Sample,
            unit: OutputUnit::Kilobytes,
            cpu: false,
            latency_files: false,
            report: false,
            sheet: None,
            repeat_until: None,
            out: None,
            allow_concurrent: false,
            lines: Vec::new(),
            command: String::new(),
        }
    }
}

impl Options {
    /// Returns whether several processes or threads are measured together.
    pub fn throughput(&self) -> bool {
        !self.counts.is_empty() || self.least_processes.is_some() || self.most_processes.is_some()
    }

    pub(super) fn say(&mut self, line: impl Into<String>) {
        self.lines.push(BannerLine::Text(line.into()));
    }
}

/// The options during parsing. Options that depend on others are resolved after the last one.
/// Fields without another description are named after their option.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub options: Options,
    /// `-B`.
    pub map: bool,
    /// `-D`.
    pub map_async: bool,
    /// `-G`.
    pub map_sync: bool,
    /// The depth of `-H` and `-k`.
    pub bcopy: Option<u32>,
    pub no_copy: Option<u32>,
    /// `-f`.
    pub file: bool,
}

/// A test that an option `-i N` chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// 0: write and rewrite.
    Write,
    /// 1: read and reread.
    Read,
    /// 2: random read and random write.
    Random,
    /// 3: read backwards.
    Backward,
    /// 4: rewrite the first record.
    RecordRewrite,
    /// 5: read with a stride.
    Stride,
    /// 6: fwrite and frewrite.
    Fwrite,
    /// 7: fread and freread.
    Fread,
    /// 8: random reads and writes at once, in throughput mode.
    Mix,
    /// 9: pwrite and repwrite, with `-E`; pwrite in throughput mode.
    Pwrite,
    /// 10: pread and repread, with `-E`; pread in throughput mode.
    Pread,
}

impl Test {
    /// All of them; the place of each is its number.
    pub const ALL: [Test; 11] = [
        Test::Write,
        Test::Read,
        Test::Random,
        Test::Backward,
        Test::RecordRewrite,
        Test::Stride,
        Test::Fwrite,
        Test::Fread,
        Test::Mix,
        Test::Pwrite,
        Test::Pread,
    ];

    /// Returns the number after `-i`.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// The chosen tests; an empty set means all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestSet(u16);

impl TestSet {
    pub(super) fn insert(&mut self, test: Test) {
        self.0 |= 1 << test.number();
    }

    /// Returns whether no test was named.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the test was named.
    pub fn contains(self, test: Test) -> bool {
        self.0 & (1 << test.number()) != 0
    }

    /// Returns whether the test runs: it was named, or no test was named.
    pub fn wants(self, test: Test) -> bool {
        self.is_empty() || self.contains(test)
    }

    /// Returns the named tests, by number.
    pub fn iter(self) -> impl Iterator<Item = Test> {
        Test::ALL
            .into_iter()
            .filter(move |test| self.contains(*test))
    }
}
