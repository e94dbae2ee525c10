//! Parses IOzone's command line.
//!
//! IOzone reads its options with getopt, so that switches may be clustered (`-azR`), values may
//! touch their option (`-i0`), and `-+n` is the option `+` with the value `n`. [`OPTIONS`] defines
//! the options, and [`settle`] which of them exclude each other.
//!
//! IOzone replaces values that make no sense by others (a file of 0 kB becomes one of 512 kB). fsb
//! refuses them, so that the user notices.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use Effect::{Instead, Names, Not, Switch, Value as With};
use fsb_model::nearest::nearest;
use fsb_model::units::parse_duration;
use lexopt::{Arg, Parser};

use super::options::{
    BannerLine, CACHE_LINE, CACHE_SIZE, Check, Means, Msync, Options, OptionsError, OutputUnit,
    Sizes, Test, Typed,
};
use super::sequence;

/// A request on IOzone's command line.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandLine {
    /// A measurement.
    Run(Box<Options>),
    /// `-h`: the list of options.
    List,
    /// `--help`: the short help.
    Help,
    /// `-v`.
    Version,
}

/// Reads IOzone's command line; `arguments` come after the program's name, `command` is printed in
/// the banner.
///
/// # Errors
/// The first option that is unknown, not supported, without its value, or at odds with another.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    command: impl Into<String>,
) -> Result<CommandLine, OptionsError> {
    let mut parser = Parser::from_args(arguments);
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Arg::Short('+') => match parser.next()? {
                Some(Arg::Short(letter)) => format!("-+{letter}"),
                _ => {
                    return Err(OptionsError::new(
                        "-+ needs a letter, as in -+n: 'fsb iozone -h' lists them",
                    ));
                }
            },
            Arg::Short('h') => return Ok(CommandLine::List),
            Arg::Short('v') => return Ok(CommandLine::Version),
            Arg::Short(letter) => format!("-{letter}"),
            Arg::Long("help") => return Ok(CommandLine::Help),
            Arg::Long("repeat-until") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                typed.options.repeat_until = Some(repeat_until(&text)?);
                continue;
            }
            Arg::Long("out") => {
                typed.options.out = Some(parser.value()?.into());
                continue;
            }
            Arg::Long("allow-concurrent") => {
                typed.options.allow_concurrent = true;
                continue;
            }
            Arg::Long(name) => return Err(unknown_option(&format!("--{name}"))),
            Arg::Value(value) => {
                let value = value.to_string_lossy();
                return Err(OptionsError::new(format!(
                    "unexpected argument '{value}': 'fsb iozone -h' lists the \
                    options"
                )));
            }
        };
        find_option(&name)?.take(&mut typed, &mut parser)?;
    }
    let mut options = settle(typed)?;
    options.command = command.into();
    Ok(CommandLine::Run(Box::new(options)))
}

fn repeat_until(text: &str) -> Result<Duration, OptionsError> {
    let duration = parse_duration(text)
        .map_err(|error| OptionsError::new(format!("--repeat-until: {error}")))?;
    let most = Duration::from_secs(3600);
    if duration.is_zero() || duration > most {
        return Err(OptionsError::new(format!(
            "--repeat-until {text}: use a time from 1ms to 1h"
        )));
    }
    Ok(duration)
}

// Every option of IOzone 3.471 (its own list, `iozone -h`): its effect here, or that it is not
// supported.
//
// A new option is a line of [`OPTIONS`]. `fsb iozone -h` prints this table.

/// The byte that `-V 0` selects.
const PATTERN: u8 = 0xa5;

/// The commands that measure with clients on several hosts, as `-+m` does.
const CLUSTER: &str = "for processes of several hosts on one file system use 'fsb run --hosts HOST:N,… DIR', which \
                       starts them by mpirun; for each host by itself use 'fsb fleet run'";

/// An option.
pub(super) struct Known {
    /// The option as typed: `-a`, `-+n`.
    pub name: &'static str,
    /// The value in help; empty for a switch.
    pub value: &'static str,
    /// One line of help.
    pub about: &'static str,
    effect: Effect,
}

/// The effect of an option on the options that were typed before it.
enum Effect {
    Switch(fn(&mut Typed)),
    Value(fn(&mut Typed, Value) -> Result<(), OptionsError>),
    /// `-F`: all that follows up to the next option.
    Names,
    /// Refused by name.
    Not,
    /// Refused, with the command that does the same.
    Instead(&'static str),
}

const fn known(
    name: &'static str,
    value: &'static str,
    about: &'static str,
    effect: Effect,
) -> Known {
    Known {
        name,
        value,
        about,
        effect,
    }
}

/// All options, in IOzone's order.
#[rustfmt::skip] // a table reads as one
pub(super) static OPTIONS: &[Known] = &[
    known("-a", "", "automatic mode: all operations, files of 64 kB to 512 MB, records of 4 kB to 16 MB", Switch(|t| {
        t.options.auto = true;
        t.options.say("Auto Mode");
    })),
    known("-A", "", "write and read only, all record sizes (old; -az -i 0 -i 1)", Switch(|t| {
        let o = &mut t.options;
        (o.auto, o.read_write_only, o.all_records) = (true, true, true);
        o.tests.insert(Test::Write);
        o.tests.insert(Test::Read);
        o.say("Auto Mode 2. This option is obsolete. Use -az -i0 -i1 ");
    })),
    known("-b", "FILE", "write a spreadsheet for Excel 2, as IOzone, or .xlsx if FILE ends so;\nand print the reports of -R", With(|t, v| {
        t.options.report = true;
        t.options.sheet = Some(v.path()?);
        Ok(())
    })),
    known("-B", "", "through a mapping (mmap)", Switch(|t| {
        t.map = true;
        t.options.say("Using mmap files");
    })),
    known("-c", "", "include close in the time", Switch(|t| {
        t.options.include_close = true;
        t.options.say("Include close in write timing");
    })),
    known("-C", "", "with -t: print the amount that each process moved", Switch(|t| t.options.show_children = true)),
    known("-d", "", "a delay between the starts of processes", Not),
    known("-D", "", "msync(MS_ASYNC) after each record written to a mapping", Switch(|t| {
        t.map_async = true;
        t.options.say("Using msync(MS_ASYNC) on mmap files");
    })),
    known("-e", "", "include fsync in the time", Switch(|t| {
        t.options.include_flush = true;
        t.options.say("Include fsync in write timing");
    })),
    known("-E", "", "four more columns in the table: pwrite, repwrite, pread, repread", Switch(|t| t.options.extension = true)),
    known("-f", "FILE", "the file [iozone.tmp]", With(|t, v| {
        t.file = true;
        t.options.file = v.path()?;
        Ok(())
    })),
    known("-F", "FILES", "with -t: a file for each process", Names),
    known("-g", "SIZE", "with -a: the largest file [512m]", With(|t, v| {
        let size = v.size()?;
        t.options.file_sizes.most = Some(size);
        t.options.say(format!("Using maximum file size of {size} kilobytes."));
        Ok(())
    })),
    known("-G", "", "with -B: msync(MS_SYNC) after each record written", Switch(|t| {
        t.map_sync = true;
        t.options.say("Using msync(MS_SYNC) on mmap files");
    })),
    known("-h", "", "this list", Switch(|_| {})),
    known("-H", "N", "POSIX asynchronous requests, N under way, with a copy of each record", With(|t, v| {
        let depth = v.number(1, 65_536)? as u32;
        t.bcopy = Some(depth);
        t.options.say(format!("POSIX async I/O (with bcopy). Depth {depth}"));
        Ok(())
    })),
    known("-i", "N", "the operations: 0 write, 1 read, 2 random read and write, 3 backwards, 4 record rewrite, 5 strided,\n6 fwrite, 7 fread; with -t also 8 random mix; with -t or -E 9 pwrite, 10 pread. Again for more", With(|t, v| {
        let number = v.number(0, 12)?;
        let test = Test::ALL.get(number as usize).copied().ok_or_else(|| {
            OptionsError::new(format!("-i {number} (pwritev, preadv) is not in IOzone for Linux: 'fsb iozone -h' lists the operations"))
        })?;
        t.options.tests.insert(test);
        Ok(())
    })),
    known("-I", "", "O_DIRECT: past the page cache", Switch(|t| {
        t.options.direct = true;
        t.options.say("O_DIRECT feature enabled");
    })),
    known("-j", "N", "the stride, in records [17]", With(|t, v| {
        t.options.stride = v.number(1, 1 << 32)?;
        Ok(())
    })),
    known("-J", "", "milliseconds of computing before each operation", Not),
    known("-k", "N", "as -H, without the copy", With(|t, v| {
        let depth = v.number(1, 65_536)? as u32;
        t.no_copy = Some(depth);
        t.options.say(format!("POSIX Async I/O (no bcopy). Depth {depth} "));
        Ok(())
    })),
    known("-K", "", "jitter in the access pattern", Not),
    known("-l", "N", "with -u: the fewest processes", With(|t, v| {
        t.options.least_processes = Some(v.processes()?);
        Ok(())
    })),
    known("-L", "BYTES", "the processor's cache line [32]", With(|t, v| {
        t.options.cache_line = Some(v.number(0, 4096)?).filter(|size| *size > 0).unwrap_or(CACHE_LINE);
        Ok(())
    })),
    known("-m", "", "several buffers", Not),
    known("-M", "", "print the output of uname", Switch(|t| t.options.lines.push(BannerLine::Machine))),
    known("-n", "SIZE", "with -a: the smallest file [64]", With(|t, v| {
        let size = v.size()?;
        if size < 4 {
            return Err(OptionsError::new(format!("-n {size}: the smallest file is 4 kB")));
        }
        t.options.file_sizes.least = Some(size);
        t.options.say(format!("Using minimum file size of {size} kilobytes."));
        Ok(())
    })),
    known("-N", "", "microseconds per operation", Switch(|t| {
        t.options.unit = OutputUnit::Microseconds;
        t.options.say("Microseconds/op Mode. Output is in microseconds per operation.");
    })),
    known("-o", "", "O_SYNC: each write waits for the device", Switch(|t| {
        t.options.sync = true;
        t.options.say("SYNC Mode. ");
    })),
    known("-O", "", "operations a second", Switch(|t| {
        t.options.unit = OutputUnit::Operations;
        t.options.say("OPS Mode. Output is in operations per second.");
    })),
    known("-p", "", "purge the processor's cache before each record", Switch(|t| {
        t.options.purge = true;
        t.options.say("Purge Mode On");
    })),
    known("-P", "CPU", "bind processes to processors, from this one on", With(|t, v| {
        let cpu = v.number(0, 1023)? as u32;
        t.options.first_cpu = Some(cpu);
        t.options.say(format!("Binding of processors beginning with {cpu} "));
        Ok(())
    })),
    known("-q", "SIZE", "with -a: the largest record [16m]", With(|t, v| {
        let size = v.record()?;
        t.options.record_sizes.most = Some(size);
        t.options.say(format!("Using Maximum Record Size {size} kB"));
        Ok(())
    })),
    known("-Q", "", "write a file of offsets and latencies for each operation (wol.dat, rol.dat, …)", Switch(|t| {
        t.options.latency_files = true;
        t.options.say("Offset/latency files enabled.");
    })),
    known("-r", "SIZE", "the record, in kB or with k, m, g [4]; again for more", With(|t, v| {
        let size = v.record()?;
        push_once(&mut t.options.record_sizes.list, size);
        t.options.say(format!("Record Size {size} kB"));
        Ok(())
    })),
    known("-R", "", "print the reports that Excel reads", Switch(|t| {
        t.options.report = true;
        t.options.say("Excel chart generation enabled");
    })),
    known("-s", "SIZE", "the file, in kB or with k, m, g [512]; again for more", With(|t, v| {
        let size = v.size()?;
        push_once(&mut t.options.file_sizes.list, size);
        t.options.say(format!("File size set to {size} kB"));
        Ok(())
    })),
    known("-S", "KB", "the processor's cache [1024]", With(|t, v| {
        // IOzone takes 0 as its own default.
        t.options.cache_size = Some(v.number(0, 1 << 20)?).filter(|size| *size > 0).unwrap_or(CACHE_SIZE);
        Ok(())
    })),
    known("-t", "N", "throughput of N processes together; again for more", With(|t, v| {
        let count = v.processes()?;
        push_once(&mut t.options.counts, count);
        Ok(())
    })),
    known("-T", "", "with -t: threads, not processes", Switch(|t| t.options.threads = true)),
    known("-u", "N", "with -l: the most processes", With(|t, v| {
        t.options.most_processes = Some(v.processes()?);
        Ok(())
    })),
    known("-U", "MOUNT", "unmount and mount it between tests (root)", With(|t, v| {
        t.options.remount = Some(v.path()?);
        Ok(())
    })),
    known("-v", "", "the version", Switch(|_| {})),
    known("-V", "N", "fill with this byte, check every byte read", With(|t, v| {
        let byte = match v.number(0, 255)? as u8 {
            0 => PATTERN,
            byte => byte,
        };
        t.options.check = Check::Pattern(byte);
        t.options.say(format!("Verify Mode. Pattern {:x}", u32::from_ne_bytes([byte; 4])));
        t.options.say("Performance measurements are invalid in this mode.");
        Ok(())
    })),
    known("-w", "", "keep the file", Switch(|t| {
        t.options.keep = true;
        t.options.say("Setting no_unlink");
    })),
    known("-W", "", "lock the file while it is read or written (fcntl)", Switch(|t| {
        t.options.lock = true;
        t.options.say("Lock file when reading/writing.");
    })),
    known("-x", "", "with -t: all processes finish; no stonewall", Switch(|t| {
        t.options.stonewall = false;
        t.options.say("Stonewall disabled");
    })),
    known("-X", "", "write telemetry", Not),
    known("-y", "SIZE", "with -a: the smallest record [4]", With(|t, v| {
        let size = v.record()?;
        t.options.record_sizes.least = Some(size);
        t.options.say(format!("Using Minimum Record Size {size} kB"));
        Ok(())
    })),
    known("-Y", "", "read telemetry", Not),
    known("-z", "", "with -a: records below 64 kB in files of 32 MB and more too", Switch(|t| {
        t.options.all_records = true;
        t.options.say("Cross over of record size disabled.");
    })),
    known("-Z", "", "mix mapped and ordinary I/O: a page is written by write(2) before each write and rewrite", Switch(|t| {
        t.options.mix = true;
        t.options.say("Enable mmap & file I/O mixing.");
    })),
    known("-+d", "", "diagnose: each record differs, every byte read is checked", Switch(|t| {
        t.options.check = Check::Diagnose;
        t.options.say(">>> I/O Diagnostic mode enabled. <<<");
        t.options.say("Performance measurements are invalid in this mode.");
    })),
    known("-+D", "", "O_DSYNC: each write waits for its data", Switch(|t| {
        t.options.data_sync = true;
        t.options.say(">>> O_DSYNC mode enabled. <<<");
    })),
    known("-+n", "", "no rewrite, reread, frewrite, freread", Switch(|t| {
        t.options.no_retest = true;
        t.options.say("No retest option selected");
    })),
    known("-+p", "PERCENT", "with -t: the share of processes that read in the random mix", With(|t, v| {
        let percent = v.number(1, 100)? as u32;
        t.options.read_percent = Some(percent);
        t.options.say(format!("Percent read in mix test is {percent}"));
        Ok(())
    })),
    known("-+u", "", "processor time: in -t, and with -R in reports", Switch(|t| {
        t.options.cpu = true;
        t.options.say("CPU utilization Resolution = 0.000 seconds.");
        t.options.say("CPU utilization Excel chart enabled");
    })),
    known("-+a", "", "an example of an option", Not),
    known("-+A", "", "madvise", Not),
    known("-+b", "", "bursts", Not),
    known("-+B", "", "a sequential mix", Not),
    known("-+c", "", "a client of cluster testing", Not),
    known("-+C", "", "data that can be deduplicated", Not),
    known("-+E", "", "an existing file", Not),
    known("-+F", "", "truncation in the mix", Not),
    known("-+h", "", "the controlling host", Not),
    known("-+H", "", "the host of a time server", Not),
    known("-+i", "", "the port of cluster testing", Not),
    known("-+J", "", "thinking time within the time", Not),
    known("-+k", "", "a constant aggregate size", Not),
    known("-+K", "", "manual control of the mix", Not),
    known("-+l", "", "record locking", Not),
    known("-+L", "", "record locking of a shared file", Not),
    known("-+m", "", "cluster testing", Instead(CLUSTER)),
    known("-+N", "", "existing files without truncation", Not),
    known("-+O", "", "a rate of operations", Not),
    known("-+P", "", "the service of a time server", Not),
    known("-+q", "", "a delay between tests", Not),
    known("-+r", "", "O_RSYNC", Not),
    known("-+s", "", "silence", Not),
    known("-+S", "", "data that can be deduplicated", Not),
    known("-+t", "", "a test of the network", Not),
    known("-+T", "", "time stamps", Not),
    known("-+V", "", "a shared file", Not),
    known("-+w", "", "data that can be deduplicated", Not),
    known("-+W", "", "data that can be deduplicated", Not),
    known("-+x", "", "another multiplier of sizes", Not),
    known("-+X", "", "short circuits", Not),
    known("-+y", "", "data that can be deduplicated", Not),
    known("-+z", "", "latency histograms", Not),
    known("-+Z", "", "old data sets", Not),
];

/// The long options, which are those of fsb.
pub const LONG_OPTIONS: [&str; 4] = ["--repeat-until", "--out", "--allow-concurrent", "--help"];

/// Returns the option of that name.
fn find_option(name: &str) -> Result<&'static Known, OptionsError> {
    OPTIONS
        .iter()
        .find(|known| known.name == name)
        .ok_or_else(|| unknown_option(name))
}

/// Returns the error for an option that IOzone does not have either.
fn unknown_option(name: &str) -> OptionsError {
    let near = nearest(name, LONG_OPTIONS);
    let hint = near
        .map(|near| format!("did you mean '{near}'? "))
        .unwrap_or_default();
    OptionsError::new(format!(
        "IOzone has no option {name}: {hint}'fsb iozone -h' lists the options"
    ))
}

impl Known {
    /// Returns whether fsb supports it.
    pub(crate) fn is_supported(&self) -> bool {
        !matches!(self.effect, Not | Instead(_))
    }

    fn take(&'static self, typed: &mut Typed, parser: &mut Parser) -> Result<(), OptionsError> {
        match self.effect {
            Switch(set) => {
                set(typed);
                Ok(())
            }
            With(set) => {
                let missing = |_| {
                    OptionsError::new(format!(
                        "{} needs a value: {} {}",
                        self.name, self.name, self.value
                    ))
                };
                set(
                    typed,
                    Value {
                        option: self.name,
                        text: parser.value().map_err(missing)?,
                    },
                )
            }
            Names => {
                typed.options.files.extend(
                    parser
                        .values()
                        .map_err(|_| {
                            OptionsError::new("-F needs file names, one for each process")
                        })?
                        .map(PathBuf::from),
                );
                Ok(())
            }
            Instead(command) => Err(OptionsError::new(format!(
                "IOzone's {} ({}) is not supported: {command}",
                self.name, self.about
            ))),
            Not => Err(OptionsError::new(format!(
                "IOzone's {} ({}) is not supported: 'fsb iozone -h' lists the supported options",
                self.name, self.about
            ))),
        }
    }
}

fn push_once<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

/// The maximum number of processes that IOzone runs at once.
const MOST_PROCESSES: u32 = 256;
/// The largest record of IOzone, in kilobytes.
const LARGEST_RECORD: u64 = 16 * 1024;

/// A value and the option that it belongs to.
struct Value {
    /// The option, as it is typed.
    option: &'static str,
    /// The text behind it.
    text: OsString,
}

impl Value {
    fn text(&self) -> Cow<'_, str> {
        self.text.to_string_lossy()
    }

    /// Returns a name.
    fn path(self) -> Result<PathBuf, OptionsError> {
        if self.text.is_empty() {
            return Err(OptionsError::new(format!(
                "{}: the name is empty",
                self.option
            )));
        }
        Ok(PathBuf::from(self.text))
    }

    /// Parses a whole number between limits.
    fn number(&self, least: u64, most: u64) -> Result<u64, OptionsError> {
        let text = self.text();
        let number = text
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| {
                OptionsError::new(format!(
                    "{} {text}: write a whole number from {least} to {most}",
                    self.option
                ))
            })
    }

    /// Parses a number of processes.
    fn processes(&self) -> Result<u32, OptionsError> {
        Ok(self.number(1, u64::from(MOST_PROCESSES))? as u32)
    }

    /// Parses a size in kilobytes: a number with k, m, g, or none of them for kilobytes.
    fn size(&self) -> Result<u64, OptionsError> {
        let text = self.text();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 10),
            Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 20),
            _ => (&*text, 1u64),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain
            .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))
            .flatten();
        // A larger size in bytes would not be a file offset.
        number
            .filter(|size| (1..=i64::MAX as u64 >> 10).contains(size))
            .ok_or_else(|| {
                let option = self.option;
                OptionsError::new(format!(
                    "{option} {text}: write a size in kB, or with k, m or g, such as 512, 64k or 2g"
                ))
            })
    }

    /// Parses the size of a record, in kilobytes.
    fn record(&self) -> Result<u64, OptionsError> {
        let size = self.size()?;
        if size > LARGEST_RECORD {
            let option = self.option;
            return Err(OptionsError::new(format!(
                "{option} {}: IOzone's largest record is 16m",
                self.text()
            )));
        }
        Ok(size)
    }
}

// Options that exclude each other, and options that need another one.

/// Checks that the typed options are consistent. Returns them in their final form.
fn settle(typed: Typed) -> Result<Options, OptionsError> {
    let means = means(&typed)?;
    let file = typed.file;
    let mut options = typed.options;
    options.means = means;
    for sizes in [&options.file_sizes, &options.record_sizes] {
        // More than one size is a table of its own, with all of its rows.
        if sizes.list.len() > 1 {
            (options.auto, options.all_records) = (true, true);
        }
    }
    if options.throughput() {
        check_throughput(&options, file)?
    } else {
        check_table(&options)?
    }
    check_sizes(&options)?;
    if options.check != Check::Sample && options.repeat_until.is_some() {
        return refuse("--repeat-until measures, -V and -+d check: choose one");
    }
    Ok(options)
}

fn refuse<T>(message: impl Into<String>) -> Result<T, OptionsError> {
    Err(OptionsError::new(message))
}

fn means(typed: &Typed) -> Result<Means, OptionsError> {
    let mapped = typed.map || typed.map_async;
    let means = match (typed.bcopy, typed.no_copy) {
        (Some(_), Some(_)) => {
            return refuse("-H and -k exclude each other: with the copy or without");
        }
        (Some(depth), None) => Means::Async { depth, copy: true },
        (None, Some(depth)) => Means::Async { depth, copy: false },
        (None, None) if typed.map_async && typed.map_sync => {
            return refuse("-D and -G exclude each other: MS_ASYNC or MS_SYNC");
        }
        (None, None) if typed.map_sync && !mapped => return refuse("-G (msync) needs -B (mmap)"),
        (None, None) if typed.map_sync => Means::Mapping(Msync::Sync),
        (None, None) if typed.map_async => Means::Mapping(Msync::Async),
        (None, None) if typed.map => Means::Mapping(Msync::Never),
        (None, None) => Means::Calls,
    };
    if matches!(means, Means::Async { .. }) && (mapped || typed.map_sync) {
        return refuse(
            "-H and -k go with neither -B, -D nor -G: asynchronous requests or a mapping",
        );
    }
    if typed.options.direct && mapped {
        return refuse("-I and -B exclude each other: a mapping is the page cache");
    }
    Ok(means)
}

fn check_throughput(options: &Options, file: bool) -> Result<(), OptionsError> {
    let automatic = options.auto || options.all_records;
    let limits =
        [&options.file_sizes, &options.record_sizes].map(|sizes| sizes.least.or(sizes.most));
    if automatic || limits.iter().any(Option::is_some) {
        return refuse(
            "-t, -l and -u measure one file size and one record size: not with -a -A -z -n -g -y -q, nor several -s or -r",
        );
    }
    if file {
        return refuse("-t needs a file for each process: -F in place of -f");
    }
    if options.unit == OutputUnit::Microseconds {
        return refuse("-N is not for -t: it prints rates");
    }
    if options.remount.is_some() {
        return refuse("-U is not for -t: IOzone does not remount between its throughput tests");
    }
    for (given, name) in [(options.extension, "-E"), (options.mix, "-Z")] {
        if given {
            return refuse(format!("{name} is about the table: not with -t"));
        }
    }
    let counts = sequence::counts(options);
    let most = counts.iter().copied().max().unwrap_or(1) as usize;
    if counts.is_empty() {
        return refuse("-l is more than -u: no number of processes lies between them");
    }
    if !options.files.is_empty() && options.files.len() != most {
        let names = options.files.len();
        return refuse(format!(
            "-F names {names} files, and at most {most} processes run: name one for each"
        ));
    }
    for (at, file) in options.files.iter().enumerate() {
        if options.files[..at].contains(file) {
            return refuse(format!(
                "-F names {} twice: the processes would measure each other",
                file.display()
            ));
        }
    }
    if options.tests.contains(Test::RecordRewrite) {
        return refuse("-i 4 (record rewrite) is not a throughput test of IOzone: leave it out");
    }
    check_mapped_streams(options)
}

fn check_table(options: &Options) -> Result<(), OptionsError> {
    let only = [
        (options.threads, "-T"),
        (!options.stonewall, "-x"),
        (options.show_children, "-C"),
        (options.read_percent.is_some(), "-+p"),
        (!options.files.is_empty(), "-F"),
    ];
    if let Some((_, name)) = only.iter().find(|(given, _)| *given) {
        return refuse(format!("{name} is for throughput mode: give -t N too"));
    }
    if options.mix && !options.tests.wants(Test::Write) {
        return refuse("-Z is about write and rewrite: add -i 0");
    }
    for test in options.tests.iter() {
        match test {
            Test::Mix => return refuse("-i 8 (random mix) is for throughput mode: give -t N too"),
            Test::Pwrite | Test::Pread if !options.extension => {
                let number = test.number();
                return refuse(format!(
                    "-i {number} (pwrite, pread) is for throughput mode (-t N); in a table it needs -E"
                ));
            }
            Test::Pwrite | Test::Pread if options.means != Means::Calls => {
                let number = test.number();
                return refuse(format!(
                    "-i {number} (pwrite, pread) does its own calls: not with -B, -D, -H or -k"
                ));
            }
            _ => {}
        }
    }
    check_mapped_streams(options)
}

/// Refuses the tests of C stdio if another interface moves the bytes. IOzone silently leaves them
/// out.
fn check_mapped_streams(options: &Options) -> Result<(), OptionsError> {
    let streams = options.tests.contains(Test::Fwrite) || options.tests.contains(Test::Fread);
    if streams && options.means != Means::Calls {
        return refuse(
            "-i 6 and -i 7 are C stdio, which does its own calls: not with -B, -D, -H or -k",
        );
    }
    Ok(())
}

fn check_sizes(options: &Options) -> Result<(), OptionsError> {
    for (sizes, names) in [
        (&options.file_sizes, "-n and -g"),
        (&options.record_sizes, "-y and -q"),
    ] {
        if !options.auto && (sizes.least.is_some() || sizes.most.is_some()) {
            return refuse(format!("{names} limit automatic mode: give -a too"));
        }
    }
    let limits = |sizes: &Sizes, least: &str, most: &str| match (sizes.least, sizes.most) {
        (Some(low), Some(high)) if low > high => refuse(format!(
            "{least} ({low} kB) is above {most} ({high} kB): no size lies between them"
        )),
        _ => Ok(()),
    };
    limits(&options.file_sizes, "-n", "-g")?;
    limits(&options.record_sizes, "-y", "-q")?;
    let (files, records) = (
        sequence::file_sizes(options),
        sequence::record_sizes(options),
    );
    let (Some(smallest), false) = (records.iter().min(), files.is_empty()) else {
        return refuse(
            "no size lies between the limits: -n or -g is beyond the usual ones, or -y or -q",
        );
    };
    let rows = sequence::rows(options);
    if let Some(file) = files
        .into_iter()
        .find(|file| rows.iter().all(|row| row.file != *file))
    {
        return refuse(format!(
            "a record of {smallest} kB is larger than a file of {file} kB: choose a smaller -r or -y, or a larger -s or -n"
        ));
    }
    // Automatic mode runs all pairs, as IOzone does. A single pair that the user chose must fit.
    if rows.iter().all(|row| !row.is_whole())
        && let Some(row) = rows.first()
    {
        return refuse(format!(
            "a file of {} kB is not a multiple of a record of {} kB: the rest of the file would never be accessed",
            row.file, row.record
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::iozone::options::*;

    fn read(line: &str) -> Result<CommandLine, OptionsError> {
        parse(
            line.split_whitespace().map(Into::into),
            format!("fsb iozone {line}"),
        )
    }

    fn options(line: &str) -> Options {
        match read(line) {
            Ok(CommandLine::Run(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    type Holds = fn(&Options) -> bool;

    /// Every supported option: a command with it, the setting that it must make, and its line in
    /// the banner.
#[rustfmt::skip] // a table reads as one
const TABLE: &[(&str, &str, Holds, &str)] = &[
    ("-a", "-a", |o| o.auto && !o.all_records, "Auto Mode"),
    ("-A", "-A", |o| o.auto && o.all_records && o.read_write_only && o.tests.iter().eq([Test::Write, Test::Read]), "Auto Mode 2. This option is obsolete. Use -az -i0 -i1 "),
    ("-b", "-b out.xls", |o| o.report && o.sheet == Some(PathBuf::from("out.xls")), ""),
    ("-B", "-B", |o| o.means == Means::Mapping(Msync::Never), "Using mmap files"),
    ("-c", "-c", |o| o.include_close && !o.include_flush, "Include close in write timing"),
    ("-C", "-C -t 2", |o| o.show_children, ""),
    ("-D", "-D", |o| o.means == Means::Mapping(Msync::Async), "Using msync(MS_ASYNC) on mmap files"),
    ("-e", "-e", |o| o.include_flush && !o.include_close, "Include fsync in write timing"),
    ("-E", "-E", |o| o.extension, ""),
    ("-f", "-f /mnt/x", |o| o.file == Path::new("/mnt/x"), ""),
    ("-F", "-t 2 -F a b -i 0", |o| o.files == [Path::new("a"), Path::new("b")] && o.tests.contains(Test::Write), ""),
    ("-g", "-a -g 2g", |o| o.file_sizes.most == Some(2 << 20), "Using maximum file size of 2097152 kilobytes."),
    ("-G", "-B -G", |o| o.means == Means::Mapping(Msync::Sync), "Using msync(MS_SYNC) on mmap files"),
    ("-H", "-H 4", |o| o.means == Means::Async { depth: 4, copy: true }, "POSIX async I/O (with bcopy). Depth 4"),
    ("-i", "-i 0 -i1", |o| o.tests.iter().eq([Test::Write, Test::Read]), ""),
    ("-I", "-I", |o| o.direct, "O_DIRECT feature enabled"),
    ("-j", "-j 5", |o| o.stride == 5, ""),
    ("-k", "-k 8", |o| o.means == Means::Async { depth: 8, copy: false }, "POSIX Async I/O (no bcopy). Depth 8 "),
    ("-l", "-l 2 -u 3", |o| o.least_processes == Some(2) && o.throughput(), ""),
    ("-L", "-L 64", |o| o.cache_line == 64, ""),
    ("-M", "-M", |o| o.lines == [BannerLine::Machine], ""),
    ("-n", "-a -n 8", |o| o.file_sizes.least == Some(8), "Using minimum file size of 8 kilobytes."),
    ("-N", "-N", |o| o.unit == OutputUnit::Microseconds, "Microseconds/op Mode. Output is in microseconds per operation."),
    ("-o", "-o", |o| o.sync && !o.data_sync, "SYNC Mode. "),
    ("-O", "-O", |o| o.unit == OutputUnit::Operations, "OPS Mode. Output is in operations per second."),
    ("-p", "-p", |o| o.purge, "Purge Mode On"),
    ("-P", "-P 1", |o| o.first_cpu == Some(1), "Binding of processors beginning with 1 "),
    ("-q", "-a -q 64k", |o| o.record_sizes.most == Some(64), "Using Maximum Record Size 64 kB"),
    ("-Q", "-Q", |o| o.latency_files, "Offset/latency files enabled."),
    ("-r", "-r 1m -s 4m", |o| o.record_sizes.list == [1024], "Record Size 1024 kB"),
    ("-R", "-R", |o| o.report && o.sheet.is_none(), "Excel chart generation enabled"),
    ("-s", "-s 512K", |o| o.file_sizes.list == [512], "File size set to 512 kB"),
    ("-S", "-S 2048", |o| o.cache_size == 2048, ""),
    ("-t", "-t 4", |o| o.counts == [4] && o.throughput(), ""),
    ("-T", "-T -t 2", |o| o.threads, ""),
    ("-u", "-u 3", |o| o.most_processes == Some(3) && o.throughput(), ""),
    ("-U", "-U /mnt", |o| o.remount == Some(PathBuf::from("/mnt")), ""),
    ("-V", "-V 90", |o| o.check == Check::Pattern(0x5a), "Verify Mode. Pattern 5a5a5a5a"),
    ("-w", "-w", |o| o.keep, "Setting no_unlink"),
    ("-W", "-W", |o| o.lock, "Lock file when reading/writing."),
    ("-x", "-x -t 2", |o| !o.stonewall, "Stonewall disabled"),
    ("-y", "-a -y 8k", |o| o.record_sizes.least == Some(8), "Using Minimum Record Size 8 kB"),
    ("-Z", "-i 0 -Z", |o| o.mix, "Enable mmap & file I/O mixing."),
    ("-z", "-az", |o| o.auto && o.all_records, "Cross over of record size disabled."),
    ("-+d", "-+d", |o| o.check == Check::Diagnose, ">>> I/O Diagnostic mode enabled. <<<"),
    ("-+D", "-+D", |o| o.data_sync && !o.sync, ">>> O_DSYNC mode enabled. <<<"),
    ("-+n", "-+n", |o| o.no_retest, "No retest option selected"),
    ("-+p", "-+p 30 -t 2", |o| o.read_percent == Some(30), "Percent read in mix test is 30"),
    ("-+u", "-+u", |o| o.cpu, "CPU utilization Resolution = 0.000 seconds."),
];

    #[test]
    fn every_supported_option_does_what_it_says() {
        for (name, line, holds, banner) in TABLE {
            let options = options(line);
            assert!(holds(&options), "{name}: {options:?}");
            let said = options
                .lines
                .contains(&BannerLine::Text((*banner).to_owned()));
            assert!(banner.is_empty() || said, "{name}: {:?}", options.lines);
            assert!(find_option(name).unwrap().is_supported());
        }
        let tested: BTreeSet<&str> = TABLE
            .iter()
            .map(|(name, ..)| *name)
            .chain(["-h", "-v"])
            .collect();
        let supported = OPTIONS
            .iter()
            .filter(|known| known.is_supported())
            .map(|known| known.name);
        assert_eq!(supported.collect::<BTreeSet<_>>(), tested);
    }

    #[test]
    fn every_option_of_the_real_tool_is_known_and_those_not_supported_are_refused_by_name() {
        let help = include_str!("../../testdata/tool-output/iozone-3.471-help.txt");
        let lines = help
            .lines()
            .skip_while(|line| !line.starts_with("           -a "));
        let listed: Vec<&str> = lines
            .filter_map(|line| line.split_whitespace().next())
            .filter(|word| word.starts_with('-'))
            .collect();
        assert!(listed.len() > 80, "{listed:?}");
        for name in listed {
            find_option(name).unwrap();
        }
        for known in OPTIONS.iter().filter(|known| !known.is_supported()) {
            let error = read(known.name).unwrap_err().to_string();
            assert!(
                error.contains(known.name) && error.contains("is not supported"),
                "{error}"
            );
        }
        let names: BTreeSet<_> = OPTIONS.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), OPTIONS.len());
        assert!(OPTIONS.iter().all(|known| !known.about.is_empty()));
    }

    #[test]
    fn defaults_are_those_of_the_real_tool() {
        let options = options("");
        assert_eq!(
            (
                options.file.to_str(),
                options.stride,
                options.cache_size,
                options.cache_line
            ),
            (Some("iozone.tmp"), 17, 1024, 32)
        );
        let rows = super::super::sequence::rows(&options);
        assert_eq!((rows.len(), rows[0].file, rows[0].record), (1, 512, 4));
        assert_eq!(options.command, "fsb iozone ");
    }

    #[test]
    fn switches_cluster_and_values_touch_their_options() {
        let one = options("-aRzef/tmp/x -i0 -n64 -g1m");
        assert!(one.auto && one.report && one.all_records && one.include_flush);
        assert_eq!(one.file, Path::new("/tmp/x"));
        assert_eq!(
            (one.file_sizes.least, one.file_sizes.most),
            (Some(64), Some(1024))
        );
        assert_eq!(options("-+n -+u").lines.len(), 3);
        assert_eq!(options("-t 2 -t 4 -t 2").counts, [2, 4]);
        let many = options("-s 64 -s 128 -r 4");
        assert!(many.auto && many.all_records);
    }

    #[test]
    fn the_banner_repeats_options_in_the_order_typed() {
        let text = |line: &str| {
            options(line)
                .lines
                .iter()
                .map(|line| format!("{line:?}"))
                .collect::<String>()
        };
        let (first, second) = (text("-e -c -o"), text("-o -c -e"));
        assert!(
            first.find("fsync") < first.find("close")
                && first.find("close") < first.find("SYNC Mode")
        );
        assert!(
            second.find("SYNC Mode") < second.find("close")
                && second.find("close") < second.find("fsync")
        );
    }

    #[test]
    fn questions_are_answered_and_not_run() {
        assert_eq!(read("-a -h"), Ok(CommandLine::List));
        assert_eq!(read("-v"), Ok(CommandLine::Version));
        assert_eq!(read("-s 64 --help"), Ok(CommandLine::Help));
        assert_eq!(
            options("--repeat-until 100ms").repeat_until,
            Some(Duration::from_millis(100))
        );
        assert_eq!(options("-a --out d").out, Some("d".into()));
        assert!(
            options("-a --allow-concurrent").allow_concurrent && !options("-a").allow_concurrent
        );
    }

    proptest! {
        #[test]
        fn no_command_line_panics(words in prop::collection::vec("-[a-zA-Z+][a-zA-Z0-9]{0,3}|[0-9]{1,20}[kmgx]?|-+[a-zA-Z]", 0..6)) {
            if let Ok(CommandLine::Run(options)) = parse(words.into_iter().map(Into::into), "iozone") {
                let sizes = super::super::sequence::rows(&options);
                prop_assert!(!sizes.is_empty() && sizes.iter().all(|row| row.record <= row.file));
            }
        }
    }
}
