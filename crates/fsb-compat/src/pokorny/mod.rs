//! The 2023 tool: Pokorný's `fsb`, a micro-benchmark of creating, reading and writing files.
//!
//! M. Pokorný, bachelor's thesis, Faculty of Information Technology, CTU in Prague, 2023. Its
//! command line is [`Options`]; its published results are [`appendix_c`]; [`samples_csv`] writes
//! samples as it does.

mod appendix;
mod results;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use fsb_model::{WorkloadSpec, nearest};
use serde_json::json;

pub(crate) use appendix::BUILT_IN;
pub use appendix::{NOTE, PublishedMean, PublishedTest, RateTable, TITLE, appendix_c};
pub(crate) use results::TOOL;

// The options of the 2023 tool, as its user guide (appendix B.4.1) lists them, from the command
// line and from `settings.ini`. The command line wins.

/// The measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// Creating files.
    Create,
    /// Reading files.
    Read,
    /// Writing files.
    Write,
}

/// The verbosity of the log; each level includes those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every sample.
    Debug,
    /// The results.
    Info,
    /// Facts that the reader must know.
    Warning,
    /// Failures.
    Error,
}

/// The form of the lines of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level and text.
    Text,
    /// One JSON object a message, with the same three fields.
    Json,
}

/// The destinations of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sinks {
    /// To the terminal.
    pub console: bool,
    /// To the log file.
    pub file: bool,
}

/// All options.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `benchmark`.
    pub benchmark: Benchmark,
    /// `output`: the directory to measure; `None` for the directory of temporary files.
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
    /// `uid`: the user of workers, by number or name.
    pub user: Option<String>,
    /// `gid`: the group of workers, by number or name.
    pub group: Option<String>,
    /// `forceRootUser`.
    pub force_root_user: bool,
    /// `minLogLevel`.
    pub min_log_level: Level,
    /// `sink`.
    pub sinks: Sinks,
    /// `logFile`.
    pub log_file: PathBuf,
    /// `logFormat`, which the 2023 tool has in its source only (section 5.3).
    pub log_format: LogFormat,
    /// The names of the options that were set.
    pub given: BTreeSet<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // The command of listing 6.6 measures random reads and does not name them.
            benchmark: Benchmark::Read,
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
            user: None,
            group: None,
            force_root_user: false,
            min_log_level: Level::Info,
            sinks: Sinks {
                console: true,
                file: false,
            },
            log_file: PathBuf::from("fsb.log"),
            log_format: LogFormat::Text,
            given: BTreeSet::new(),
        }
    }
}

/// The reason why a setting is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(String);

type Set = fn(&mut Options, &str) -> Result<(), OptionError>;

pub struct Key {
    /// The name in the 2023 tool: `fileCount`.
    pub name: &'static str,
    /// The placeholder of its value in help.
    pub value: &'static str,
    /// One line of help.
    pub about: &'static str,
    set: Set,
}

impl Key {
    /// Returns whether it takes `true` and `false`, and means `true` without a value.
    pub fn is_switch(&self) -> bool {
        self.value == "BOOL"
    }
}

/// Declares a key: its name, value and help, and the field with the value that a text sets it to.
macro_rules! key {
    ($name:literal, $value:literal, $about:literal, $text:ident => $($field:ident).+ = $set:expr) => {
        Key { name: $name, value: $value, about: $about, set: |options, $text| {
            options.$($field).+ = $set;
            Ok(())
        } }
    };
}

/// The maximum number of files, blocks or cycles that are believed to be meant.
const MANY: u64 = 100_000_000;

/// Every option, in the order of the user guide.
#[rustfmt::skip] // a table reads as one
pub static KEYS: &[Key] = &[
    key!("output", "DIR", "Directory to measure [default: /tmp]", text => output = Some(path(text)?)),
    key!("benchmark", "NAME", "Operation: create, read or write [default: read]", text => benchmark = benchmark(text)?),
    key!("fileCount", "N", "Files per iteration [create: 1000, else: 1]", text => file_count = Some(number(text, 1..=MANY)?)),
    key!("blockSize", "KIB", "Block size in KiB [default: 512]", text => block_size = number(text, 1..=1 << 20)?),
    key!("blockCount", "N", "Blocks per file [default: 16]", text => block_count = number(text, 1..=MANY)?),
    key!("random", "BOOL", "Access blocks in random order", text => random = switch(text)?),
    key!("iterations", "N", "Iterations per cycle [default: 10]", text => iterations = number(text, 1..=MANY)?),
    key!("runCount", "N", "Measured cycles, one sample each [default: 30]", text => run_count = number(text, 1..=1_000_000)?),
    key!("useWarmup", "BOOL", "Run warm-up cycles first [default: true]", text => use_warmup = switch(text)?),
    key!("warmupCycleCount", "N", "Warm-up cycles [default: 3]", text => warmup_cycle_count = number(text, 0..=1_000_000)?),
    key!("multiThreaded", "BOOL", "Share iterations among threads, if over 10", text => multi_threaded = switch(text)?),
    key!("threadCount", "N", "Threads; 0 means one per CPU [default: 0]", text => thread_count = number(text, 0..=4096)?),
    key!("exportOutput", "FILE", "Write the samples as CSV: #, value, unit (µs)", text => export_output = Some(path(text)?)),
    key!("uid", "USER", "User of workers, by number or name [default: invoking, or nobody]", text => user = Some(name(text)?)),
    key!("gid", "GROUP", "Group of workers, by number or name", text => group = Some(name(text)?)),
    key!("forceRootUser", "BOOL", "Run workers as root", text => force_root_user = switch(text)?),
    key!("minLogLevel", "LEVEL", "Log level: debug, info, warning or error [default: info]", text => min_log_level = level(text)?),
    key!("sink", "LIST", "Log to console, file or console,file [default: console]", text => sinks = sinks(text)?),
    key!("logFile", "FILE", "Log file of --sink file [default: fsb.log]", text => log_file = path(text)?),
    key!("logFormat", "FORMAT", "Lines of the log: text or json [default: text]", text => log_format = log_format(text)?),
];

impl Options {
    /// Sets one option by its name in the 2023 tool.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            OptionError(nearest::unknown(
                "setting",
                name,
                KEYS.iter().map(|key| key.name),
            ))
        })?;
        (key.set)(self, value.trim())
            .map_err(|OptionError(why)| OptionError(format!("{name}: {why}")))?;
        self.given.insert(key.name);
        Ok(())
    }

    /// Returns whether an option was set, by its name in the 2023 tool; otherwise it has its
    /// default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// Sets the options of an INI text: `name = value` or `name : value`, a value in quotes or not,
    /// and a switch also by its name alone. Sections have no meaning, as in the 2023 tool. A
    /// comment begins with `;` or `#` at the start of a line or after white space.
    ///
    /// # Errors
    ///
    /// If a line is none of these, or its setting is invalid; the text begins with its number.
    pub fn set_from_ini(&mut self, text: &str) -> Result<(), OptionError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            self.set_from_line(line)
                .map_err(|why| OptionError(format!("line {number}: {why}")))?;
        }
        Ok(())
    }

    fn set_from_line(&mut self, line: &str) -> Result<(), OptionError> {
        let line = without_comment(line).trim();
        if line.is_empty() {
            return Ok(());
        }
        if line.starts_with('[') {
            return match line.ends_with(']') {
                true => Ok(()),
                false => Err(OptionError(format!("'{line}' has no closing bracket"))),
            };
        }
        if let Some((name, value)) = line.split_once(['=', ':']) {
            return self.set(name.trim(), unquoted(value.trim()));
        }
        match KEYS.iter().find(|key| key.name == line) {
            Some(key) if !key.is_switch() => Err(OptionError(format!(
                "{line} has no value: write {line} = {}",
                key.value
            ))),
            _ => self.set(line, "true"),
        }
    }

    /// Returns the number of threads that share the iterations. The 2023 tool used threads only for
    /// more than ten iterations.
    pub fn threads(&self) -> u64 {
        if self.multi_threaded && self.iterations > 10 {
            self.thread_count
        } else {
            1
        }
    }

    /// Returns the number of files of an iteration.
    pub fn files(&self) -> u64 {
        let default = if self.benchmark == Benchmark::Create {
            1000
        } else {
            1
        };
        self.file_count.unwrap_or(default)
    }

    /// Returns the workload that these options ask for.
    pub fn workload(&self) -> WorkloadSpec {
        let benchmark = self.benchmark;
        let mut params = json!({
            "iterations": self.iterations,
            "cycles": self.run_count,
            "warmup_cycles": if self.use_warmup { self.warmup_cycle_count } else { 0 },
            "threads": self.threads(),
            "file_count": self.files(),
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
        let params = params
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()));
        WorkloadSpec::new(name, params.collect())
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, OptionError> {
    let (low, high) = (*range.start(), *range.end());
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let has_unit = unit.len() < text.len()
                && unit.chars().all(char::is_alphabetic)
                && !unit.is_empty();
            let help = if has_unit { ": leave the unit out" } else { "" };
            Err(OptionError(format!(
                "'{text}' is not a whole number between {low} and {high}{help}"
            )))
        }
    }
}

/// Returns a line of an INI file without its comment. Quotes keep the characters that begin one.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        let begins =
            (before.is_whitespace() || matches!(before, '=' | ':')) && matches!(letter, '"' | '\'');
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if begins && line[at + 1..].contains(letter) => quote = Some(letter),
            None if matches!(letter, ';' | '#') && before.is_whitespace() => return &line[..at],
            None => {}
        }
        before = letter;
    }
    line
}

/// Returns a value without the quotes around it.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

/// Returns a user or group: a name, or a number that the kernel can take.
fn name(text: &str) -> Result<String, OptionError> {
    if text.is_empty() {
        return Err(OptionError("the name is empty".to_owned()));
    }
    if text.chars().all(|letter| letter.is_ascii_digit()) {
        // The largest number means "no change" to the kernel.
        number(text, 0..=u64::from(u32::MAX - 1))?;
    }
    Ok(text.to_owned())
}

fn switch(text: &str) -> Result<bool, OptionError> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(OptionError(format!("'{text}' is neither true nor false"))),
    }
}

fn path(text: &str) -> Result<PathBuf, OptionError> {
    if text.is_empty() {
        Err(OptionError("the path is empty".to_owned()))
    } else {
        Ok(PathBuf::from(text))
    }
}

fn benchmark(text: &str) -> Result<Benchmark, OptionError> {
    match text {
        "create" => Ok(Benchmark::Create),
        "read" => Ok(Benchmark::Read),
        "write" => Ok(Benchmark::Write),
        _ => Err(OptionError(nearest::unknown(
            "benchmark",
            text,
            ["create", "read", "write"],
        ))),
    }
}

fn level(text: &str) -> Result<Level, OptionError> {
    let known = ["debug", "info", "warning", "error"];
    let levels = [Level::Debug, Level::Info, Level::Warning, Level::Error];
    let position = known
        .iter()
        .position(|name| *name == text.to_ascii_lowercase());
    position
        .map(|at| levels[at])
        .ok_or_else(|| OptionError(nearest::unknown("level", text, known)))
}

fn log_format(text: &str) -> Result<LogFormat, OptionError> {
    match text.to_ascii_lowercase().as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(OptionError(nearest::unknown(
            "format",
            text,
            ["text", "json"],
        ))),
    }
}

fn sinks(text: &str) -> Result<Sinks, OptionError> {
    let mut sinks = Sinks {
        console: false,
        file: false,
    };
    for sink in text.split(',').map(str::trim) {
        match sink {
            "console" => sinks.console = true,
            "file" => sinks.file = true,
            _ => {
                return Err(OptionError(nearest::unknown(
                    "sink",
                    sink,
                    ["console", "file"],
                )));
            }
        }
    }
    Ok(sinks)
}

/// Returns the samples as CSV in the columns of Appendix C: number, value, unit. The values are
/// microseconds with three decimals, because the clock counts nanoseconds.
pub fn samples_csv(seconds: &[f64]) -> String {
    let mut text = "#,value,unit\n".to_owned();
    for (number, seconds) in (1..).zip(seconds) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number},{:.3},µs", seconds * 1e6);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// Listing 6.6 of the thesis. It names no benchmark.
    const LISTING: &str = r"root@bench:~/fsbench# ./fsb --output /ext4/bench \
--exportOutput ./results/ext4/read-512-random.csv \
--uid `id -u bench` --gid `id -g bench` \
--fileCount 1 --iterations 10 \
--blockSize 512 --blockCount 65536 --random 1
";

    #[test]
    fn the_command_of_the_thesis_means_what_it_meant() {
        // A shell replaces the commands in backquotes.
        let line = LISTING
            .replace("\\\n", "")
            .replace("`id -u bench`", "1001")
            .replace("`id -g bench`", "1002");
        let (_, arguments) = line.split_once("./fsb ").unwrap();
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let mut options = Options::default();
        for pair in words.chunks(2) {
            options
                .set(pair[0].strip_prefix("--").unwrap(), pair[1])
                .unwrap();
        }
        assert_eq!(options.output.as_deref(), Some(Path::new("/ext4/bench")));
        assert_eq!(
            options.export_output.as_deref(),
            Some(Path::new("./results/ext4/read-512-random.csv"))
        );
        assert_eq!((options.file_count, options.iterations), (Some(1), 10));
        assert!(options.is_given("iterations") && !options.is_given("runCount"));
        let workload = options.workload();
        assert_eq!(workload.name, "micro-read");
        assert_eq!(workload.params["block_size"], json!(512 * 1024));
        assert_eq!(workload.params["block_count"], json!(65536));
        assert_eq!(workload.params["random"], json!(true));
        assert_eq!(
            (options.user.as_deref(), options.group.as_deref()),
            (Some("1001"), Some("1002"))
        );
        assert_eq!(options.threads(), 1);
    }

    #[test]
    fn settings_may_stand_in_sections_or_outside() {
        let mut options = Options::default();
        options
            .set_from_ini("fileCount = 7\n[run]\nuseWarmup=false\nsink=console,file\n")
            .unwrap();
        assert_eq!(options.file_count, Some(7));
        assert!(!options.use_warmup && options.sinks.file && options.sinks.console);
    }

    #[test]
    fn usual_forms_of_ini_files_are_read() {
        let text = "\u{feff}output = /srv/data ; comment\r\n# comment\n\nrandom\n[run]\n\
            runCount: 2\t# comment\nlogFile = \"a ; b.log\"\nexportOutput=a#b;c.csv\nuid = 'nobody' ; comment\n";
        let mut options = Options::default();
        options.set_from_ini(text).unwrap();
        assert_eq!(options.output.as_deref(), Some(Path::new("/srv/data")));
        assert!(options.random && options.run_count == 2);
        assert_eq!(options.log_file, Path::new("a ; b.log"));
        let export = options.export_output.as_deref();
        assert_eq!(export, Some(Path::new("a#b;c.csv")));
        assert_eq!(options.user.as_deref(), Some("nobody"));
    }

    #[test]
    fn errors_of_ini_files_name_the_line_and_the_cause() {
        for (text, message) in [
            (
                "random\noutput",
                "line 2: output has no value: write output = DIR",
            ),
            (
                "\n\nfileCont = 3",
                "line 3: unknown setting 'fileCont': did you mean 'fileCount'",
            ),
            ("[run", "line 1: '[run' has no closing bracket"),
            (
                "runCount = 2x",
                "line 1: runCount: '2x' is not a whole number",
            ),
            ("= 3", "line 1: unknown setting ''"),
        ] {
            let error = Options::default().set_from_ini(text).unwrap_err();
            assert!(error.to_string().contains(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn threads_share_only_more_than_ten_iterations() {
        let mut options = Options {
            multi_threaded: true,
            ..Options::default()
        };
        assert_eq!(options.threads(), 1);
        options.iterations = 11;
        assert_eq!(options.threads(), 0);
    }

    #[test]
    fn a_wrong_option_is_reported_by_name() {
        let mut options = Options::default();
        for (name, value, message) in [
            ("fileCont", "1", "did you mean 'fileCount'"),
            (
                "fileCount",
                "0",
                "fileCount: '0' is not a whole number between 1",
            ),
            ("random", "maybe", "neither true nor false"),
            ("minLogLevel", "loud", "known are debug"),
            ("sink", "printer", "unknown sink"),
            ("benchmark", "raed", "did you mean 'read'"),
        ] {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(error.contains(message), "{name}={value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_ini_text_panics(text in "(\\PC|\n|=|\\[){0,60}") {
            let _ = Options::default().set_from_ini(&text);
        }
    }

    /// The first rows of Appendix C, for ext2.
    #[test]
    fn samples_have_the_columns_of_the_appendix() {
        assert_eq!(
            samples_csv(&[0.144_738, 0.448_067, 1.5e-9]),
            "#,value,unit\n1,144738.000,µs\n2,448067.000,µs\n3,0.002,µs\n"
        );
    }
}
