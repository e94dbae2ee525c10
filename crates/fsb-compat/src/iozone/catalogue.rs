//! Every option of IOzone 3.471 (its own list, `iozone -h`): its effect here, or that it is not supported.
//!
//! A new option is a line of [`OPTIONS`]. `fsb iozone -h` prints this table.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use Effect::{Names, Not, Switch, Value as With};
use fsb_model::nearest::nearest;
use lexopt::Parser;

use super::options::{BannerLine, CACHE_LINE, CACHE_SIZE, Check, OptionsError, Typed, Unit};
use super::test::Test;

/// The byte that `-V 0` selects.
const PATTERN: u8 = 0xa5;

/// An option.
pub struct Known {
    /// As it is typed: `-a`, `-+n`.
    pub name: &'static str,
    /// Its value in help; empty for a switch.
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
}

const fn known(name: &'static str, value: &'static str, about: &'static str, effect: Effect) -> Known {
    Known { name, value, about, effect }
}

/// All options, in IOzone's order.
#[rustfmt::skip] // a table reads as one
pub static OPTIONS: &[Known] = &[
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
    known("-b", "FILE", "write a spreadsheet (.xlsx), and the reports of -R", With(|t, v| {
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
    known("-E", "", "the extension tests pwrite, pread, pwritev and preadv in the table", Not),
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
    known("-i", "N", "the operations: 0 write, 1 read, 2 random read and write, 3 backwards, 4 record rewrite, 5 strided,\n6 fwrite, 7 fread; with -t also 8 random mix, 9 pwrite, 10 pread. Again for more", With(|t, v| {
        let number = v.number(0, 12)?;
        let test = Test::ALL.get(number as usize).copied().ok_or_else(|| {
            OptionsError::new(format!("-i {number} (pwritev, preadv) needs IOzone's -E, which is not supported"))
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
    known("-N", "", "microseconds an operation", Switch(|t| {
        t.options.unit = Unit::Microseconds;
        t.options.say("Microseconds/op Mode. Output is in microseconds per operation.");
    })),
    known("-o", "", "O_SYNC: each write waits for the device", Switch(|t| {
        t.options.sync = true;
        t.options.say("SYNC Mode. ");
    })),
    known("-O", "", "operations a second", Switch(|t| {
        t.options.unit = Unit::Operations;
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
    known("-Z", "", "mixing of mapped and ordinary I/O", Not),
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
    known("-+m", "", "cluster testing", Not),
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

/// Returns the option of that name.
pub(super) fn find(name: &str) -> Result<&'static Known, OptionsError> {
    OPTIONS.iter().find(|known| known.name == name).ok_or_else(|| unknown(name))
}

/// Returns the error for an option that IOzone does not have either.
pub(super) fn unknown(name: &str) -> OptionsError {
    let near = nearest(name, ["--repeat-until", "--allow-concurrent", "--help"]);
    let hint = near.map(|near| format!("did you mean '{near}'? ")).unwrap_or_default();
    OptionsError::new(format!("IOzone has no option {name}: {hint}'fsb iozone -h' lists the options"))
}

impl Known {
    /// Returns whether fsb supports it.
    pub(crate) fn is_supported(&self) -> bool {
        !matches!(self.effect, Not)
    }

    pub(super) fn take(&'static self, typed: &mut Typed, parser: &mut Parser) -> Result<(), OptionsError> {
        match self.effect {
            Switch(set) => {
                set(typed);
                Ok(())
            }
            With(set) => {
                let missing =
                    |_| OptionsError::new(format!("{} needs a value: {} {}", self.name, self.name, self.value));
                set(typed, Value { option: self.name, text: parser.value().map_err(missing)? })
            }
            Names => {
                let missing = |_| OptionsError::new("-F needs file names, one for each process");
                typed.options.files.extend(parser.values().map_err(missing)?.map(PathBuf::from));
                Ok(())
            }
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

/// The most processes that IOzone runs at once.
const MOST_PROCESSES: u32 = 256;
/// The largest record of IOzone, in kilobytes.
const LARGEST_RECORD: u64 = 16 * 1024;

/// A value and the option that it belongs to.
struct Value {
    /// The option, as it is typed.
    pub option: &'static str,
    /// The text behind it.
    pub text: OsString,
}

impl Value {
    fn text(&self) -> Cow<'_, str> {
        self.text.to_string_lossy()
    }

    /// Returns a name.
    pub fn path(self) -> Result<PathBuf, OptionsError> {
        if self.text.is_empty() {
            return Err(OptionsError::new(format!("{}: the name is empty", self.option)));
        }
        Ok(PathBuf::from(self.text))
    }

    /// Parses a whole number between limits.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, OptionsError> {
        let text = self.text();
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            OptionsError::new(format!("{} {text}: write a whole number from {least} to {most}", self.option))
        })
    }

    /// Parses a number of processes.
    pub fn processes(&self) -> Result<u32, OptionsError> {
        Ok(self.number(1, u64::from(MOST_PROCESSES))? as u32)
    }

    /// Parses a size in kilobytes: a number with k, m, g, or none of them for kilobytes.
    pub fn size(&self) -> Result<u64, OptionsError> {
        let text = self.text();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 10),
            Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 20),
            _ => (&*text, 1u64),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain.then(|| digits.parse::<u64>().ok()?.checked_mul(factor)).flatten();
        // A larger size in bytes would not be a file offset.
        number.filter(|size| (1..=i64::MAX as u64 >> 10).contains(size)).ok_or_else(|| {
            let option = self.option;
            OptionsError::new(format!("{option} {text}: write a size in kB, or with k, m or g, such as 512, 64k or 2g"))
        })
    }

    /// Parses the size of a record, in kilobytes.
    pub fn record(&self) -> Result<u64, OptionsError> {
        let size = self.size()?;
        if size > LARGEST_RECORD {
            let option = self.option;
            return Err(OptionsError::new(format!("{option} {}: IOzone's largest record is 16m", self.text())));
        }
        Ok(size)
    }
}
