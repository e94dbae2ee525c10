//! The options of the 2023 tool, as its user guide (appendix B.4.1) lists them, from the command line and from
//! `settings.ini`. The command line wins.

use std::path::PathBuf;

use fsb_model::nearest;
use fsb_model::{Identity, WorkloadSpec};
use serde_json::json;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// Creating files.
    Create,
    /// Reading files.
    Read,
    /// Writing files.
    Write,
}

/// How much the log says; each level includes those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every sample.
    Debug,
    /// The results.
    Info,
    /// What the reader must know.
    Warning,
    /// What failed.
    Error,
}

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `benchmark`; must be given.
    pub benchmark: Option<Benchmark>,
    /// `output`: the directory to measure; must be given.
    pub output: Option<PathBuf>,
    /// `fileCount`; 1000 for create, 1 for read and write.
    pub file_count: Option<u64>,
    /// `blockSize` in KiB.
    pub block_size: u64,
    /// `blockCount`: blocks of a file.
    pub block_count: u64,
    /// `random`: blocks are visited in random order.
    pub random: bool,
    /// `iterations` in a cycle.
    pub iterations: u64,
    /// `runCount`: measured cycles.
    pub run_count: u64,
    /// `useWarmup`.
    pub use_warmup: bool,
    /// `warmupCycleCount`.
    pub warmup_cycle_count: u64,
    /// `multiThreaded`: threads share the iterations, if there are more than ten of them.
    pub multi_threaded: bool,
    /// `threadCount`; 0 is one a hardware thread.
    pub thread_count: u64,
    /// `exportOutput`: a file for the samples.
    pub export_output: Option<PathBuf>,
    /// `uid`, `gid` and `forceRootUser`.
    pub identity: Identity,
    /// `minLogLevel`.
    pub min_log_level: Level,
    /// `sink` holds `console`.
    pub to_console: bool,
    /// `sink` holds `file`.
    pub to_file: bool,
    /// `logFile`.
    pub log_file: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            benchmark: None,
            output: None,
            file_count: None,
            block_size: 512,
            block_count: 16,
            random: false,
            iterations: 10,
            run_count: 30,
            use_warmup: true,
            warmup_cycle_count: 3,
            multi_threaded: false,
            thread_count: 0,
            export_output: None,
            identity: Identity::default(),
            min_log_level: Level::Info,
            to_console: true,
            to_file: false,
            log_file: PathBuf::from("fsb.log"),
        }
    }
}

/// Why a setting is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(String);

type Set = fn(&mut Options, &str) -> Result<(), OptionError>;

/// One option.
pub struct Key {
    /// Its name in the 2023 tool: `fileCount`.
    pub name: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Takes `true` and `false`, and means `true` where no value is given.
    pub switch: bool,
    set: Set,
}

/// Declares a key that is a number, a switch, or read by a function.
macro_rules! key {
    ($name:literal, $value:literal, $about:literal, $set:expr) => {
        Key { name: $name, value: $value, about: $about, switch: false, set: $set }
    };
    (switch $name:literal, $about:literal, $field:ident) => {
        Key { name: $name, value: "BOOL", about: $about, switch: true, set: |o, v| Ok(o.$field = switch(v)?) }
    };
    (number $name:literal, $value:literal, $about:literal, $range:expr, $field:ident) => {
        Key { name: $name, value: $value, about: $about, switch: false, set: |o, v| Ok(o.$field = number(v, $range)?) }
    };
}

/// The most files, blocks or cycles that are believed to be meant.
const MANY: u64 = 100_000_000;

/// Every option, in the order of the user guide.
pub static KEYS: &[Key] = &[
    key!("output", "DIR", "Directory to measure", |o, v| Ok(o.output = Some(path(v)?))),
    key!("benchmark", "NAME", "create, read or write", |o, v| Ok(o.benchmark = Some(benchmark(v)?))),
    key!("fileCount", "N", "Files an iteration [1000 for create, 1 else]", |o, v| {
        Ok(o.file_count = Some(number(v, 1..=MANY)?))
    }),
    key!(number "blockSize", "KIB", "Block size in KiB [512]", 1..=1 << 20, block_size),
    key!(number "blockCount", "N", "Blocks of a file [16]", 1..=MANY, block_count),
    key!(switch "random", "Visit blocks in random order", random),
    key!(number "iterations", "N", "Iterations of a cycle [10]", 1..=MANY, iterations),
    key!(number "runCount", "N", "Measured cycles, one sample each [30]", 1..=1_000_000, run_count),
    key!(switch "useWarmup", "Make warm-up cycles first [true]", use_warmup),
    key!(number "warmupCycleCount", "N", "Warm-up cycles [3]", 0..=1_000_000, warmup_cycle_count),
    key!(switch "multiThreaded", "Share more than 10 iterations among threads", multi_threaded),
    key!(number "threadCount", "N", "Threads; 0 is one a hardware thread [0]", 0..=4096, thread_count),
    key!("exportOutput", "FILE", "Write the samples, one a row, in microseconds", |o, v| {
        Ok(o.export_output = Some(path(v)?))
    }),
    key!("uid", "ID", "User to measure as [who called sudo, else nobody]", |o, v| {
        Ok(o.identity.uid = Some(number(v, 0..=u64::from(u32::MAX - 1))? as u32))
    }),
    key!("gid", "ID", "Group to measure as", |o, v| {
        Ok(o.identity.gid = Some(number(v, 0..=u64::from(u32::MAX - 1))? as u32))
    }),
    Key {
        name: "forceRootUser",
        value: "BOOL",
        about: "Measure as root",
        switch: true,
        set: |o, v| Ok(o.identity.force_root = switch(v)?),
    },
    key!("minLogLevel", "LEVEL", "debug, info, warning or error [info]", |o, v| Ok(o.min_log_level = level(v)?)),
    key!("sink", "LIST", "Where results go: console, file or both [console]", sinks),
    key!("logFile", "FILE", "The file of the sink 'file' [fsb.log]", |o, v| Ok(o.log_file = path(v)?)),
];

impl Options {
    /// Sets one option by its name in the 2023 tool.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            OptionError(nearest::unknown("setting", name, KEYS.iter().map(|key| key.name)))
        })?;
        (key.set)(self, value.trim()).map_err(|OptionError(why)| OptionError(format!("{name}: {why}")))
    }

    /// Sets what an INI text says; sections do not matter, as they did not to the 2023 tool.
    pub fn set_from_ini(&mut self, text: &str) -> Result<(), OptionError> {
        let ini = ini::Ini::load_from_str(text)
            .map_err(|error| OptionError(format!("line {}, column {}: {}", error.line, error.col, error.msg)))?;
        for (_, section) in &ini {
            for (name, value) in section.iter() {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    /// How many threads share the iterations: the 2023 tool used threads only for more than ten iterations.
    pub fn threads(&self) -> u64 {
        if self.multi_threaded && self.iterations > 10 { self.thread_count } else { 1 }
    }

    /// The workload that these options ask for.
    pub fn workload(&self) -> Result<WorkloadSpec, OptionError> {
        let benchmark = self
            .benchmark
            .ok_or_else(|| OptionError("say what to measure: create, read or write".to_owned()))?;
        let mut params = json!({
            "iterations": self.iterations,
            "cycles": self.run_count,
            "warmup_cycles": if self.use_warmup { self.warmup_cycle_count } else { 0 },
            "threads": self.threads(),
            "file_count": self.file_count.unwrap_or(if benchmark == Benchmark::Create { 1000 } else { 1 }),
        });
        let name = match benchmark {
            Benchmark::Create => "micro-create",
            Benchmark::Read => "micro-read",
            Benchmark::Write => "micro-write",
        };
        if benchmark != Benchmark::Create {
            params["block_size"] = json!(self.block_size * 1024);
            params["block_count"] = json!(self.block_count);
            params["random"] = json!(self.random);
        }
        let params = params.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        Ok(WorkloadSpec { name: name.to_owned(), params: params.collect() })
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, OptionError> {
    let (low, high) = (*range.start(), *range.end());
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(OptionError(format!("'{text}' is not a whole number between {low} and {high}"))),
    }
}

fn switch(text: &str) -> Result<bool, OptionError> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(OptionError(format!("'{text}' is neither true nor false"))),
    }
}

fn path(text: &str) -> Result<PathBuf, OptionError> {
    if text.is_empty() { Err(OptionError("the path is empty".to_owned())) } else { Ok(PathBuf::from(text)) }
}

fn benchmark(text: &str) -> Result<Benchmark, OptionError> {
    match text {
        "create" => Ok(Benchmark::Create),
        "read" => Ok(Benchmark::Read),
        "write" => Ok(Benchmark::Write),
        _ => Err(OptionError(nearest::unknown("benchmark", text, ["create", "read", "write"]))),
    }
}

fn level(text: &str) -> Result<Level, OptionError> {
    let known = ["debug", "info", "warning", "error"];
    let levels = [Level::Debug, Level::Info, Level::Warning, Level::Error];
    let position = known.iter().position(|name| *name == text.to_ascii_lowercase());
    position.map(|at| levels[at]).ok_or_else(|| OptionError(nearest::unknown("level", text, known)))
}

fn sinks(options: &mut Options, text: &str) -> Result<(), OptionError> {
    (options.to_console, options.to_file) = (false, false);
    for sink in text.split(',').map(str::trim) {
        match sink {
            "console" => options.to_console = true,
            "file" => options.to_file = true,
            _ => return Err(OptionError(nearest::unknown("sink", sink, ["console", "file"]))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_thesis_means_what_it_meant() {
        let mut options = Options::default();
        for (name, value) in [
            ("output", "/ext4/bench"),
            ("exportOutput", "./results/ext4/read-512-random.csv"),
            ("uid", "1001"),
            ("gid", "1001"),
            ("fileCount", "1"),
            ("iterations", "10"),
            ("blockSize", "512"),
            ("blockCount", "65536"),
            ("random", "1"),
            ("benchmark", "read"),
        ] {
            options.set(name, value).unwrap();
        }
        let workload = options.workload().unwrap();
        assert_eq!(workload.name, "micro-read");
        assert_eq!(workload.params["block_size"], json!(512 * 1024));
        assert_eq!(workload.params["block_count"], json!(65536));
        assert_eq!(workload.params["random"], json!(true));
        assert_eq!((options.identity.uid, options.threads()), (Some(1001), 1));
    }

    #[test]
    fn settings_may_stand_in_sections_or_outside() {
        let mut options = Options::default();
        options.set_from_ini("fileCount = 7\n[run]\nuseWarmup=false\nsink=console,file\n").unwrap();
        assert_eq!(options.file_count, Some(7));
        assert!(!options.use_warmup && options.to_file && options.to_console);
    }

    #[test]
    fn threads_share_only_more_than_ten_iterations() {
        let mut options = Options { multi_threaded: true, ..Options::default() };
        assert_eq!(options.threads(), 1);
        options.iterations = 11;
        assert_eq!(options.threads(), 0);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_name() {
        let mut options = Options::default();
        for (name, value, message) in [
            ("fileCont", "1", "did you mean 'fileCount'"),
            ("fileCount", "0", "fileCount: '0' is not a whole number between 1"),
            ("random", "maybe", "neither true nor false"),
            ("minLogLevel", "loud", "known are debug"),
            ("sink", "printer", "unknown sink"),
            ("benchmark", "raed", "did you mean 'read'"),
        ] {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(error.contains(message), "{name}={value}: {error}");
        }
        assert!(options.workload().is_err());
    }

    proptest! {
        #[test]
        fn no_ini_text_panics(text in "(\\PC|\n|=|\\[){0,60}") {
            let _ = Options::default().set_from_ini(&text);
        }
    }
}
