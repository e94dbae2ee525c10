//! fio's job files: sections of options, converted to workloads of the engine.
//!
//! An option is either performed as fio performs it, or refused with its line, or it does not change the work and a note
//! says so. Half a job is a different job, so a file with a refused option does not run at all.

use std::collections::BTreeMap;

use fsb_model::{Params, WorkloadSpec};

/// Something in a file that fsb refuses, or does in another way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    pub message: String,
}

/// A job file that fsb can run.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// In the order of the file.
    pub jobs: Vec<FioJob>,
    /// The differences from fio, by line.
    pub notes: Vec<Remark>,
}

/// A section of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJob {
    /// The name in results.
    pub name: String,
    pub description: Option<String>,
    /// The line of the section.
    pub line: usize,
    /// The number of processes, each with files of its own.
    pub processes: u32,
    /// The number of the group in results, from 0.
    pub group: u32,
    /// Whether the processes of a group share one result.
    pub group_reporting: bool,
    /// Whether the job starts when all earlier ones have ended, instead of beside them.
    pub waits: bool,
    /// The directory in which its files are made.
    pub directory: Option<String>,
    /// The name of the file that its processes share with each other and with those of the jobs beside it. `None` if each
    /// process has files of its own.
    pub file: Option<String>,
    /// The part of the files that each process accesses. `None` if it is the whole file.
    pub part: Option<FilePart>,
    /// The work of the first process.
    pub workload: WorkloadSpec,
    pub direction: Direction,
    /// Bytes of a record.
    pub record_size: u64,
    /// The number of records that each process moves; `None` if only the time ends the job.
    pub operations: Option<u64>,
    /// Seconds after which the job ends, if it has not ended before.
    pub seconds: Option<f64>,
    /// Seconds at the start that are not part of the results.
    pub ramp_seconds: Option<f64>,
    /// Seconds after the start of its group at which the job starts.
    pub start_delay: f64,
    /// The seed; `None` if each run has another one.
    pub seed: Option<u64>,
    /// Whether the data of the files is dropped from the page cache before the clock starts.
    pub evict: bool,
    pub latency: LatencyKind,
    /// Percentiles to print, ascending, from 0 to 100.
    pub percentiles: Vec<f64>,
    /// All options of the job with those of `[global]`, as written.
    pub options: BTreeMap<String, String>,
}

impl FioJob {
    /// Returns the work of a process, from 0.
    pub fn workload_of(&self, process: u32) -> WorkloadSpec {
        let mut spec = self.workload.clone();
        if let Some(part) = &self.part {
            spec.params.extend(part.params(process));
        }
        spec
    }

    fn number(&self, name: &str) -> u64 {
        self.workload.params.get(name).and_then(serde_json::Value::as_u64).unwrap_or(1)
    }

    /// Returns the bytes of the largest file of a process.
    fn file_size(&self) -> u64 {
        self.part.map_or_else(|| self.number("file_size"), |part| part.file_of(self.processes - 1))
    }

    /// Returns whether its files are empty when the clock starts.
    fn makes_files(&self) -> bool {
        self.workload.name == "write" && self.workload.params.get("overwrite") != Some(&true.into())
    }

    /// Returns whether its processes together access every byte of the file that they share, from `written` on.
    fn reaches_end_from(&self, written: u64) -> bool {
        self.part.is_none_or(|part| {
            let last = self.processes - 1;
            part.offset <= written && part.increment <= part.length && part.end(last) == part.file_of(last)
        })
    }
}

/// The part of its files that each process of a job accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart {
    /// Bytes before the part of the first process.
    pub offset: u64,
    /// Bytes from the start of the part of one process to that of the next one.
    pub increment: u64,
    /// Bytes of the part.
    pub length: u64,
    /// Bytes of each file. `None` if a file ends with the part.
    pub file_size: Option<u64>,
}

impl FilePart {
    fn start(&self, process: u32) -> u64 {
        self.offset.saturating_add(self.increment.saturating_mul(u64::from(process)))
    }

    /// Returns the end of the part of a process.
    fn end(&self, process: u32) -> u64 {
        self.start(process).saturating_add(self.length)
    }

    /// Returns the bytes of each file of a process.
    fn file_of(&self, process: u32) -> u64 {
        self.file_size.unwrap_or(self.end(process))
    }

    /// Returns the parameters of the work of a process.
    fn params(&self, process: u32) -> impl Iterator<Item = (String, serde_json::Value)> {
        let sizes = [("file_size", self.file_of(process)), ("offset", self.start(process)), ("length", self.length)];
        sizes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into()))
    }
}

/// The direction of the data of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    /// Neither: ranges of the files are released.
    Trim,
    /// Both, each with a result of its own.
    Both,
    /// Both, in one result (`unified_rw_reporting=1`).
    Mixed,
}

impl Direction {
    /// Returns the results of the direction.
    pub fn results(self) -> &'static [ResultDirection] {
        match self {
            Direction::Read => &[ResultDirection::Read],
            Direction::Write => &[ResultDirection::Write],
            Direction::Trim => &[ResultDirection::Trim],
            Direction::Both => &[ResultDirection::Read, ResultDirection::Write],
            Direction::Mixed => &[ResultDirection::Mixed],
        }
    }
}

/// The direction of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultDirection {
    Read,
    Write,
    Trim,
    /// Reads and writes together.
    Mixed,
}

impl ResultDirection {
    /// Returns the key of the direction in fio's JSON, and the operation of a mix in the engine's measurements.
    pub fn name(self) -> &'static str {
        match self {
            ResultDirection::Read => "read",
            ResultDirection::Write => "write",
            ResultDirection::Trim => "trim",
            ResultDirection::Mixed => "mixed",
        }
    }
}

/// The meaning of the measured time of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKind {
    /// The call that moves a record: fio's completion latency.
    Completion,
    /// From the submission of a request to its completion: fio's total latency.
    Total,
    /// Contains more than fio's times, such as a sync after each write, so it is not printed.
    NotComparable,
}

/// fio's percentiles if `percentile_list` is not given.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The maximum number of processes of a job file. Each process has a worker.
const MOST_PROCESSES: u64 = 512;
/// The maximum number of files of a process. The engine holds all of them open.
const MOST_FILES: u64 = 16;
/// The maximum number of sections of a job file.
const MOST_JOBS: usize = 512;

/// Other names of options.
const ALIASES: [(&str, &str); 4] =
    [("readwrite", "rw"), ("blocksize", "bs"), ("io_limit", "io_size"), ("wait_for_previous", "stonewall")];

/// The options that decide the work. One that a job does not use is refused by another text than an unknown one.
const OF_WORK: &[&str] = &[
    "bs",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffered",
    "create_on_open",
    "dedupe_percentage",
    "direct",
    "do_verify",
    "end_fsync",
    "fadvise_hint",
    "fallocate",
    "fdatasync",
    "file_service_type",
    "filesize",
    "fixedbufs",
    "fsync",
    "fsync_on_close",
    "invalidate",
    "io_size",
    "iodepth",
    "ioengine",
    "loops",
    "norandommap",
    "nrfiles",
    "number_ios",
    "offset",
    "offset_increment",
    "openfiles",
    "overwrite",
    "percentage_random",
    "pre_read",
    "ramp_time",
    "random_distribution",
    "random_generator",
    "rate",
    "rate_iops",
    "rate_process",
    "registerfiles",
    "runtime",
    "rwmixread",
    "rwmixwrite",
    "size",
    "startdelay",
    "sync",
    "thinktime",
    "thinktime_blocks",
    "time_based",
    "verify",
    "verify_fatal",
];

/// Options without effect on the work, and the reason.
const INERT: &[(&str, &str)] = &[
    ("thread", "fsb runs each job in a process of its own"),
    ("unlink", "fsb makes files in a directory of its own and removes it at the end"),
    ("write_bw_log", "fsb writes no logs"),
    ("write_lat_log", "fsb writes no logs"),
    ("write_iops_log", "fsb writes no logs"),
    ("log_avg_msec", "fsb writes no logs"),
    ("per_job_logs", "fsb writes no logs"),
    ("disable_slat", "fsb measures one latency for each operation"),
    ("disable_lat", "fsb measures one latency for each operation"),
    ("disable_clat", "fsb measures one latency for each operation"),
    ("gtod_reduce", "fsb reads the clock after each operation in any case"),
    ("clocksource", "fsb reads the monotonic clock of the kernel"),
    ("disable_bw_measurement", "fsb computes bandwidth from the whole job"),
    ("bwavgtime", "fsb computes bandwidth from the whole job"),
    ("iopsavgtime", "fsb computes bandwidth from the whole job"),
    ("write_hist_log", "fsb writes no logs"),
    ("log_hist_msec", "fsb writes no logs"),
    ("create_fsync", "fsb syncs files that it has made before the clock starts"),
    ("create_serialize", "fsb makes the files of one process after the other"),
    ("refill_buffers", "fsb writes other bytes with each record in any case"),
];

/// Options that are refused with more advice than their name.
const REFUSED: &[(&str, &str)] = &[
    ("rate_min", "fsb ends no job because it is slow"),
    ("rate_iops_min", "fsb ends no job because it is slow"),
    ("thinktime_spin", "the engine sleeps during a think time: leave it out"),
    ("thinktime_iotime", "the engine counts operations before a think time: use thinktime_blocks"),
    ("file_append", "fsb makes new files for each job: leave it out"),
    ("fill_device", "fsb checks before a job that its files fit: use size"),
    ("trim_percentage", "fio trims devices with it: use rw=trim and ioengine=falloc"),
    ("verify_pattern", "the engine writes its own data: leave it out"),
    ("new_group", "use stonewall, which begins a group too"),
    ("opendir", "fsb makes the files itself: use directory"),
];

/// An option as written.
#[derive(Debug, Clone)]
struct Written {
    line: usize,
    value: String,
}

/// Options by name; a later one replaces an earlier one.
type Options = BTreeMap<String, Written>;

/// A section as written.
#[derive(Debug, Clone)]
struct Section {
    name: String,
    line: usize,
    options: Options,
}

impl Section {
    /// Returns the directory and the name of the file, if the section names one.
    fn file(&self) -> Option<(Option<String>, String)> {
        let value = |name: &str| self.options.get(name).map(|option| option.value.clone());
        Some((value("directory"), value("filename")?))
    }

    /// Returns whether the job starts when all earlier ones have ended.
    fn waits(&self) -> bool {
        self.options.get("stonewall").is_some_and(|option| option.value != "0")
    }
}

/// Reads a job file. `variable` returns the value of an environment variable, for `${NAME}`.
///
/// # Errors
/// All problems of the file, by line; never empty.
pub fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<JobFile, Vec<Remark>> {
    let mut problems = Vec::new();
    let sections = sections(text, variable, &mut problems);
    if sections.is_empty() && problems.is_empty() {
        let message = "the file has no job: add a section such as [job1]".to_owned();
        problems.push(Remark { line: text.lines().count().max(1), message });
    }
    let (mut jobs, mut notes) = (Vec::<FioJob>::new(), Vec::new());
    let mut group = 0;
    // The files of earlier groups, and those of the group of the last job.
    let mut made = BTreeMap::<(Option<String>, String), MadeFile>::new();
    let mut beside = made.clone();
    for section in sections {
        let file = section.file();
        if section.waits() {
            made.append(&mut beside);
        }
        let shared = file.as_ref().and_then(|file| made.get(file)).cloned();
        let mut reader =
            Reader { options: section.options.clone(), kilo: 1024, shared, problems: Vec::new(), notes: Vec::new() };
        let job = reader.job(&section);
        problems.append(&mut reader.problems);
        notes.append(&mut reader.notes);
        let Some(mut job) = job else { continue };
        if let Some(file) = file {
            let before = beside.remove(&file).or(reader.shared);
            beside.insert(file, MadeFile::after(&job, before));
        }
        // As in fio, a job that waits begins a group.
        job.waits &= !jobs.is_empty();
        group += u32::from(job.waits);
        job.group = group;
        jobs.push(job);
    }
    jobs.chunk_by_mut(|_, next| !next.waits).for_each(|group| share_files(group, &mut problems));
    let processes: u64 = jobs.iter().map(|job| u64::from(job.processes)).sum();
    if let Some(last) = jobs.last().filter(|_| processes > MOST_PROCESSES) {
        let message = format!("{processes} processes in all are too many: at most {MOST_PROCESSES}");
        problems.push(Remark { line: last.line, message });
    }
    // Options of [global] are read once for each job.
    for remarks in [&mut problems, &mut notes] {
        remarks.sort();
        remarks.dedup();
    }
    if problems.is_empty() { Ok(JobFile { jobs, notes }) } else { Err(problems) }
}

/// The file of a job that a later job names, too.
#[derive(Debug, Clone)]
struct MadeFile {
    /// The last job that used it.
    job: String,
    bytes: u64,
    /// The way in which it differs from a file that was written in sequence.
    spoiled: Option<&'static str>,
}

impl MadeFile {
    /// Returns the file after a job, which found it as `before` if it existed.
    fn after(job: &FioJob, before: Option<MadeFile>) -> MadeFile {
        let files = job.number("files");
        let bytes = files.saturating_mul(job.file_size());
        let moved = job.operations.map(|operations| operations.saturating_mul(job.record_size));
        let accessed = job.part.map_or(bytes, |part| files.saturating_mul(part.length));
        let written = before.as_ref().map_or(0, |before| before.bytes);
        let all = moved.is_some_and(|moved| moved >= accessed) && job.reaches_end_from(written);
        let whole = job.seconds.is_none() && all;
        let bytes = bytes.max(written);
        let spoiled = match job.workload.name.as_str() {
            "read" | "random-read" | "stride-read" => None,
            "write" if !job.makes_files() || whole => None,
            "write" => Some("does not write all of it"),
            "fallocate" => Some("trims it"),
            "random-write" | "random-mix" => Some("writes at random into it"),
            _ => Some("writes parts of it"),
        };
        MadeFile { job: job.name.clone(), bytes, spoiled: before.and_then(|before| before.spoiled).or(spoiled) }
    }
}

/// Lets the processes of a group that name one file access parts of it, whose size is that of the largest.
fn share_files(group: &mut [FioJob], problems: &mut Vec<Remark>) {
    for first in 0..group.len() {
        let (directory, file) = (group[first].directory.clone(), group[first].file.clone());
        let is_same = |job: &&FioJob| job.file == file && job.directory == directory;
        let processes: u32 = group.iter().filter(is_same).map(|job| job.processes).sum();
        if file.is_none() || processes < 2 {
            continue;
        }
        let size = group.iter().filter(is_same).map(FioJob::file_size).max().unwrap_or_default();
        let holds_data = group.iter().filter(is_same).any(|job| !job.makes_files());
        for job in group.iter_mut().filter(|job| job.file == file && job.directory == directory) {
            let why = match () {
                () if job.direction == Direction::Trim => "would trim ranges that another one has released",
                () if job.number("files") > 1 => "would share several files: leave out nrfiles",
                () if job.workload.params.contains_key("verify") => "would verify what another one is writing",
                () => "",
            };
            if !why.is_empty() {
                let message = format!("filename: a process that shares its file with others {why}: leave out filename");
                problems.push(Remark { line: job.line, message });
                continue;
            }
            let whole = FilePart { offset: 0, increment: 0, length: job.file_size(), file_size: None };
            let part = job.part.get_or_insert(whole);
            part.file_size = Some(size);
            job.workload.params.extend(part.params(0));
            if holds_data && job.workload.name == "write" {
                job.workload.params.insert("overwrite".to_owned(), true.into());
            }
        }
    }
}

/// Splits the text into sections. Options of `[global]` hold for the sections that follow.
fn sections(text: &str, variable: &dyn Fn(&str) -> Option<String>, problems: &mut Vec<Remark>) -> Vec<Section> {
    let (mut global, mut jobs) = (Options::new(), Vec::<Section>::new());
    let mut in_global = None;
    for (line, written) in (1..).zip(text.lines()) {
        let mut refuse = |message: String| problems.push(Remark { line, message });
        // As in fio, a comment may follow an option.
        let content = written.split([';', '#']).next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        if let Some(name) = content.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty()) else {
                refuse(format!("'{}' is not the name of a section: write [NAME]", excerpt(content)));
                continue;
            };
            in_global = Some(name == "global");
            if name != "global" {
                if jobs.len() == MOST_JOBS {
                    refuse(format!("more than {MOST_JOBS} jobs"));
                    return jobs;
                }
                jobs.push(Section { name: name.to_owned(), line, options: global.clone() });
            }
            continue;
        }
        if content.split_whitespace().next() == Some("include") {
            refuse("include: files are not included: copy the lines of that file".to_owned());
            continue;
        }
        let (name, value) = content.split_once('=').unwrap_or((content, ""));
        let (name, value) = (name.trim(), value.trim());
        // The keywords of this option are part of names that fsb does not use.
        let value = match name {
            "filename_format" => Ok(value.to_owned()),
            _ => substituted(value, variable),
        };
        let value = match value {
            Ok(value) => value,
            Err(why) => {
                refuse(format!("{}: {why}", excerpt(name)));
                continue;
            }
        };
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name).to_owned();
        let option = Written { line, value };
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => drop(global.insert(name, option)),
            (Some(false), Some(job)) => drop(job.options.insert(name, option)),
            _ => refuse(format!("{}: the option precedes all sections: write [global] before it", excerpt(&name))),
        }
    }
    jobs
}

/// Returns the start of a text, for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Replaces `${NAME}` by values of environment variables.
fn substituted(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('$') {
        text += &rest[..at];
        let name = rest[at + 1..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((name, after)) = name else {
            return Err("keywords such as $jobname are not supported: write the value".to_owned());
        };
        let found = variable(name).filter(|found| !found.contains(['$', '\n']));
        text += &found.ok_or_else(|| format!("the environment variable {} is not set", excerpt(name)))?;
        rest = after;
    }
    Ok(text + rest)
}

/// The workload of a section while it is read.
#[derive(Debug, Clone, Copy)]
struct Access {
    direction: Direction,
    random: bool,
}

impl Access {
    /// Returns whether the job reads and writes.
    fn is_mix(self) -> bool {
        matches!(self.direction, Direction::Both | Direction::Mixed)
    }

    /// Returns whether the job reads and writes, each in sequence.
    fn is_sequential_mix(self) -> bool {
        self.is_mix() && !self.random
    }
}

/// The engine's backend for an I/O engine of fio.
#[derive(Debug, Clone, Copy)]
struct Backend {
    name: &'static str,
    /// Whether it keeps several requests in flight.
    queues: bool,
    /// Whether it bypasses the page cache.
    direct: bool,
}

/// The files of each process of a job.
#[derive(Debug, Clone, Copy)]
struct Files {
    count: u64,
    /// Bytes of each that the job accesses.
    size: u64,
    /// The part of each that they are, unless it is the whole file.
    part: Option<FilePart>,
    /// Whether the job reads the next record of each file in turn.
    reads_in_turn: bool,
}

/// The bytes of all files of a process, or their share of the files.
#[derive(Debug, Clone, Copy)]
enum FileShare {
    Bytes(u64),
    Percent(u64),
}

/// The sizes of the records of a job.
#[derive(Debug, Clone)]
struct Records {
    /// Bytes of the smallest record.
    smallest: u64,
    /// All sizes as the engine's parameter, with the line of the option, if there are several.
    sizes: Option<(usize, String)>,
}

/// Takes the options of one section.
struct Reader {
    options: Options,
    /// The meaning of `k`: `kb_base`.
    kilo: u64,
    /// The file of the section, if an earlier job made it.
    shared: Option<MadeFile>,
    problems: Vec<Remark>,
    notes: Vec<Remark>,
}

impl Reader {
    fn refuse(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Remark { line, message: message.into() });
    }

    fn note(&mut self, line: usize, message: impl Into<String>) {
        self.notes.push(Remark { line, message: message.into() });
    }

    /// Returns the value that `parse` makes of an option. Refuses a value of which it makes none.
    fn value<T>(&mut self, name: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<(usize, T)> {
        let Written { line, value } = self.options.remove(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.refuse(line, format!("{name}: '{}' is not supported: give {expected}", excerpt(&value)));
        }
        parsed.map(|parsed| (line, parsed))
    }

    fn flag(&mut self, name: &str) -> Option<(usize, bool)> {
        self.value(name, "0 or 1", |value| match value {
            "" | "1" => Some(true),
            "0" => Some(false),
            _ => None,
        })
    }

    /// Returns whether an option is set, and 0 as its line if it is not given.
    fn is_set(&mut self, name: &str, default: bool) -> (usize, bool) {
        self.flag(name).unwrap_or((0, default))
    }

    fn number(&mut self, name: &str, most: u64) -> Option<(usize, u64)> {
        self.value(name, &format!("a number from 1 to {most}"), |value| {
            value.parse().ok().filter(|number| (1..=most).contains(number))
        })
    }

    fn size(&mut self, name: &str) -> Option<(usize, u64)> {
        let kilo = self.kilo;
        self.value(name, "one size in bytes, such as 64m", |value| bytes(value, kilo))
    }

    /// Returns the job of a section, in the first group. Returns `None` after a problem.
    fn job(&mut self, section: &Section) -> Option<FioJob> {
        let line = section.line;
        let all = section.options.iter().map(|(name, option)| (name.clone(), option.value.clone())).collect();
        for (name, why) in REFUSED {
            if let Some(option) = self.options.remove(*name)
                && option.value != "0"
            {
                self.refuse(option.line, format!("fio's option {name} is not supported: {why}"));
            }
        }
        for (name, why) in INERT {
            if let Some(option) = self.options.remove(*name) {
                self.note(option.line, format!("{name} has no effect: {why}"));
            }
        }
        if let Some((_, kilo)) = self.value("kb_base", "1000 or 1024", |value| match value {
            "1000" => Some(1000),
            "1024" => Some(1024),
            _ => None,
        }) {
            self.kilo = kilo;
        }
        let text = |option: Written| option.value;
        let name = self.options.remove("name").map(text).filter(|name| !name.is_empty());
        let description = self.options.remove("description").map(text);
        let processes = self.number("numjobs", MOST_PROCESSES).map_or(1, |(_, number)| number as u32);
        if let Some(Written { line, value }) = self.options.remove("filename_format") {
            let message = match processes > 1 && !value.contains("$jobnum") {
                false => "filename_format has no effect: fsb names the files itself",
                true => {
                    "filename_format: each process has files of its own; in fio they share those whose names lack \
                     $jobnum: use filename to share one file"
                }
            };
            self.note(line, message);
        }
        let (_, group_reporting) = self.is_set("group_reporting", false);
        let (_, waits) = self.is_set("stonewall", false);
        let delay = self.value("startdelay", "one time such as 5 or 500ms", |value| time(value, 1.0));
        let start_delay = delay.map_or(0.0, |(_, delay)| delay);
        let directory = self.directory();
        let file = self.filename();
        let access = self.access(line);
        let work = access.and_then(|access| self.work(section, access, processes));
        let seed = self.seed();
        let percentiles = self.percentiles();
        for (name, option) in std::mem::take(&mut self.options) {
            match OF_WORK.contains(&name.as_str()) {
                false => {
                    self.refuse(option.line, format!("fio's option {} is not supported: remove it", excerpt(&name)))
                }
                true if work.is_some() => {
                    self.refuse(option.line, format!("{name}: this job does not use it: remove it"))
                }
                // After another problem, not all options were read.
                true => {}
            }
        }
        let (access, work) = (access?, work?);
        if !self.problems.is_empty() {
            return None;
        }
        let job = FioJob {
            name: name.unwrap_or_else(|| section.name.clone()),
            description,
            line,
            processes,
            group: 0,
            group_reporting,
            waits,
            directory,
            file,
            part: work.part,
            workload: work.spec,
            direction: access.direction,
            record_size: work.record_size,
            operations: work.operations,
            seconds: work.seconds,
            ramp_seconds: work.ramp_seconds,
            start_delay,
            seed,
            evict: work.evict,
            latency: work.latency,
            percentiles,
            options: all,
        };
        Some(job)
    }

    fn directory(&mut self) -> Option<String> {
        let expected = "one directory: files are not spread over several";
        self.value("directory", expected, |value| (!value.is_empty() && !value.contains(':')).then(|| value.to_owned()))
            .map(|(_, directory)| directory)
    }

    fn filename(&mut self) -> Option<String> {
        let expected = "one name without a directory, and name the directory with directory=DIR: fsb makes the files \
                        itself and uses no existing file or device";
        let plain = |value: &str| (!value.is_empty() && !value.contains(['/', ':'])).then(|| value.to_owned());
        let (line, name) = self.value("filename", expected, plain)?;
        self.note(line, "filename has no effect: fsb makes files in a directory of its own and removes it at the end");
        match self.shared.clone() {
            None => {}
            Some(MadeFile { job, spoiled: Some(how), .. }) => {
                let message = format!(
                    "filename: job '{job}' or one before it {how}, but fsb makes a file for each job and fills it in \
                     sequence: leave out filename if that will do"
                );
                self.refuse(line, message);
            }
            Some(MadeFile { job, .. }) => self.note(
                line,
                format!("filename: the job has a file of its own, filled in sequence, instead of that of job '{job}'"),
            ),
        }
        Some(name)
    }

    fn access(&mut self, line: usize) -> Option<Access> {
        let given = self.options.get("rw").map_or(line, |option| option.line);
        let engine = self.options.get("ioengine").map(|engine| engine.value.as_str());
        let trims = engine == Some("falloc");
        if let Some(option) = self.options.get("rw")
            && option.value.contains("trim")
            && !(trims && ["trim", "randtrim"].contains(&option.value.as_str()))
        {
            let message = match option.value.ends_with("write") {
                true => "rw: fio trims and writes devices in turn, and no files: use two jobs",
                false => "rw: fio trims devices, and files with ioengine=falloc only: add it",
            };
            self.refuse(given, message);
            self.options.remove("rw");
            return None;
        }
        let expected = "read, write, rw, randread, randwrite, randrw, trim or randtrim";
        let found = self.value("rw", expected, |value| {
            let access = |direction, random| Some(Access { direction, random });
            match value {
                "read" => access(Direction::Read, false),
                "write" => access(Direction::Write, false),
                "rw" | "readwrite" => access(Direction::Both, false),
                "randread" => access(Direction::Read, true),
                "randwrite" => access(Direction::Write, true),
                "randrw" => access(Direction::Both, true),
                "trim" => access(Direction::Trim, false),
                "randtrim" => access(Direction::Trim, true),
                _ => None,
            }
        });
        // fio reads if it is not given. A problem was reported if it was given.
        let usual = || (given == line).then_some(Access { direction: Direction::Read, random: false });
        let mut access = found.map(|(_, access)| access).or_else(usual)?;
        let (line, is_unified) = self.is_set("unified_rw_reporting", false);
        match access.direction {
            Direction::Both if is_unified => access.direction = Direction::Mixed,
            Direction::Both => {}
            _ if is_unified => {
                self.refuse(line, "unified_rw_reporting: the job has one direction: leave it out");
            }
            _ => {}
        }
        Some(access)
    }

    /// Returns the engine's backend.
    fn backend(&mut self, section: usize) -> Option<Backend> {
        let (_, direct) = self.is_set("direct", false);
        let (line, buffered) = self.is_set("buffered", !direct);
        if buffered == direct {
            self.refuse(line, "buffered: it contradicts direct: leave one of them out");
        }
        let engine = self.options.remove("ioengine");
        let (line, engine) = engine.map_or((section, "psync".to_owned()), |option| (option.line, option.value));
        let sync = self.value("sync", "0, sync or dsync", |value| match value {
            "0" | "none" => Some(None),
            "1" | "sync" => Some(Some("osync")),
            "dsync" => Some(Some("dsync")),
            _ => None,
        });
        let synced = sync.and_then(|(line, synced)| synced.map(|synced| (line, synced)));
        if let Some((line, name)) = synced {
            if engine != "psync" || direct {
                self.refuse(line, "sync: only buffered psync opens files that way: use ioengine=psync and direct=0");
                return None;
            }
            return Some(Backend { name, queues: false, direct });
        }
        let backend = |name, queues| Some(Backend { name, queues, direct });
        match (engine.as_str(), direct) {
            ("psync", false) => backend("psync", false),
            ("psync", true) => backend("direct", false),
            ("sync", false) => backend("lseek", false),
            ("sync", true) => backend("lseek-direct", false),
            ("mmap", false) => backend("mmap", false),
            ("io_uring", _) => {
                let given = ["fixedbufs", "registerfiles"].map(|name| self.flag(name));
                if given.iter().any(|flag| !matches!(flag, Some((_, true)))) {
                    self.note(line, "ioengine: fsb registers buffers and files, as with fixedbufs=1 registerfiles=1");
                }
                backend(if direct { "uring-direct" } else { "uring" }, true)
            }
            ("libaio", _) => backend(if direct { "libaio-direct" } else { "libaio" }, true),
            ("posixaio", false) => backend("posix-aio", true),
            (name, _) => {
                let advice = match name {
                    "falloc" => "fsb only trims with it: use rw=trim or randtrim",
                    "mmap" | "posixaio" => "it does not use direct=1 in fsb: use psync, libaio or io_uring",
                    _ => "use psync, sync, libaio, io_uring, mmap or posixaio",
                };
                self.refuse(line, format!("ioengine: {} is not supported: {advice}", excerpt(name)));
                None
            }
        }
    }

    /// Returns the files of each process.
    fn files(&mut self, section: usize, access: Access, record: u64, processes: u32) -> Option<Files> {
        let is_given = ["size", "filesize"].iter().any(|name| self.options.contains_key(*name));
        let kilo = self.kilo;
        let expected = "one size in bytes, such as 64m, or in percent of filesize";
        let size = self.value("size", expected, |value| match value.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(FileShare::Percent),
            None => bytes(value, kilo).map(FileShare::Bytes),
        });
        let each = self.size("filesize");
        let (offset_line, offset) = self.offset("offset").unwrap_or((section, 0));
        let increment = self.offset("offset_increment").filter(|(_, increment)| *increment > 0);
        let files = self.number("nrfiles", MOST_FILES).map_or(1, |(_, files)| files);
        let needed = if access.random { "random" } else { "sequential" };
        let order = self.options.remove("file_service_type").map(|option| option.value);
        if let Some((line, open)) = self.number("openfiles", 1 << 20)
            && open < files
        {
            self.refuse(line, "openfiles: the engine keeps all files of a process open: leave it out");
        }
        // fio's default takes the next record of each file in turn.
        let in_turn = files > 1 && matches!(order.as_deref(), None | Some("roundrobin"));
        let reads_in_turn = in_turn && access.direction == Direction::Read && !access.random;
        if files > 1 && !reads_in_turn && order.as_deref() != Some(needed) {
            let message = format!("nrfiles: the engine takes files in another order: add file_service_type={needed}");
            self.refuse(section, message);
        }
        // The size of a file that exists decides like `filesize`.
        let known = each.or(self.shared.as_ref().filter(|_| files == 1).map(|shared| (section, shared.bytes)));
        let (line, length, file_size) = match (size, known) {
            (Some((line, FileShare::Bytes(_))), _) if each.is_some() => {
                self.refuse(line, "size: filesize gives the size too: leave one of them out");
                return None;
            }
            (Some((line, FileShare::Bytes(size))), known) => (line, size / files, known.map(|(_, file)| file)),
            (Some((line, FileShare::Percent(percent))), Some((_, file))) => {
                let share = (u128::from(file) * u128::from(percent) / 100) as u64;
                (line, share.min(file.saturating_sub(offset)) / record * record, Some(file))
            }
            (Some((line, FileShare::Percent(_))), None) => {
                self.refuse(line, "size: in fio a percentage is one of the size of a file that exists: add filesize");
                return None;
            }
            (None, Some((line, file))) => (line, file.saturating_sub(offset), Some(file)),
            // The value was refused.
            (None, None) if is_given => return None,
            (None, None) => {
                let message = "the job has no size: add size=SIZE, because fsb uses no existing files";
                self.refuse(section, message);
                return None;
            }
        };
        if length < record || !length.is_multiple_of(record) {
            let message = format!("size: {length} bytes of each file are not a multiple of bs, {record}");
            self.refuse(line, message);
            return None;
        }
        let given = [Some((offset_line, "offset", offset)), increment.map(|(line, by)| (line, "offset_increment", by))];
        for (line, name, bytes) in given.into_iter().flatten().filter(|(_, _, bytes)| !bytes.is_multiple_of(record)) {
            self.refuse(line, format!("{name}: {bytes} bytes are not a multiple of bs, {record}"));
        }
        if let Some((line, _)) = increment.filter(|_| !matches!(size, Some((_, FileShare::Bytes(_))))) {
            self.refuse(
                line,
                "offset_increment: each process would access up to the end of the file: give size in bytes",
            );
        }
        let part = FilePart { offset, increment: increment.map_or(0, |(_, increment)| increment), length, file_size };
        if let Some(shared) = self.shared.as_ref()
            && (part.end(processes - 1) > shared.bytes || files > 1)
        {
            let message = format!("size: the file of job '{}' has {} bytes: use that size", shared.job, shared.bytes);
            self.refuse(line, message);
        }
        let is_whole = part.end(processes - 1) == length && file_size.is_none_or(|file| file == length);
        Some(Files { count: files, size: length, part: (!is_whole).then_some(part), reads_in_turn })
    }

    /// Returns a place in a file, which may be its start.
    fn offset(&mut self, name: &str) -> Option<(usize, u64)> {
        let kilo = self.kilo;
        self.value(name, "one size in bytes, such as 64m", |value| match value {
            "0" => Some(0),
            _ => bytes(value, kilo),
        })
    }

    /// Returns the sizes of records.
    fn records(&mut self, access: Access) -> Option<Records> {
        let kilo = self.kilo;
        let given = ["bsrange", "bssplit"].map(|name| self.options.contains_key(name));
        let one = self.value("bs", "one size, such as 4k", |value| {
            let mut sizes = value.split(',').map(|size| bytes(size.trim(), kilo));
            let first = sizes.next()??;
            sizes.all(|size| size == Some(first)).then_some(first)
        });
        let range = self.value("bsrange", "one range, such as 4k-64k", |value| {
            let (least, most) = value.split_once('-')?;
            let [least, most] = [bytes(least.trim(), kilo)?, bytes(most.trim(), kilo)?];
            (least <= most).then(|| (least, format!("{least}-{most}")))
        });
        let expected = "sizes with their percent, which add up to 100, such as 4k/60:64k/40";
        let split = self.value("bssplit", expected, |value| {
            let entry = |text: &str| {
                let (size, percent) = text.split_once('/')?;
                let percent = percent.parse::<u64>().ok().filter(|percent| (1..=100).contains(percent))?;
                Some((bytes(size, kilo)?, percent))
            };
            let entries = value.split(':').map(entry).collect::<Option<Vec<_>>>()?;
            let whole = entries.iter().map(|(_, percent)| percent).sum::<u64>() == 100;
            let smallest = entries.iter().map(|(size, _)| *size).min().filter(|_| whole)?;
            let texts: Vec<_> = entries.iter().map(|(size, percent)| format!("{size}/{percent}")).collect();
            Some((smallest, texts.join(":")))
        });
        let (line, (smallest, sizes)) = match (range, split) {
            (Some((line, _)), Some(_)) => {
                self.refuse(line, "bsrange: leave out bssplit, or bsrange");
                return None;
            }
            // The value was refused.
            (None, None) if given.contains(&true) => return None,
            (None, None) => return Some(Records { smallest: one.map_or(4096, |(_, record)| record), sizes: None }),
            (Some(found), None) | (None, Some(found)) => found,
        };
        if let Some((line, _)) = one {
            self.note(line, "bs has no effect: bsrange or bssplit gives the sizes, as in fio");
        }
        if access.is_mix() {
            self.refuse(line, "bsrange, bssplit: the engine counts the bytes of both directions together: use bs");
        }
        Some(Records { smallest, sizes: Some((line, sizes)) })
    }

    /// Returns the work of each process.
    fn work(&mut self, section: &Section, access: Access, processes: u32) -> Option<Work> {
        let line = section.line;
        let records = self.records(access)?;
        if access.direction == Direction::Trim {
            return self.trims(line, access, &records, processes);
        }
        let record = records.smallest;
        let backend = self.backend(line)?;
        let Files { count: files, size: file_size, part, reads_in_turn } =
            self.files(line, access, record, processes)?;
        let depth = self.depth(backend);
        let (_, overwrite) = self.is_set("overwrite", false);
        // An earlier job has filled the file.
        let overwrite = overwrite || self.shared.is_some();
        if access.direction == Direction::Write && access.random && !overwrite {
            self.refuse(line, "random writes go to files that were written before: add overwrite=1");
        }
        let is_new = access.direction == Direction::Write && !overwrite;
        self.layout(line, is_new);
        self.hints(line, backend.direct);
        let (cache, cached) = self.cache(backend.direct, is_new);
        let pass = files.saturating_mul(file_size / record);
        let (amount_line, operations, seconds) = self.amount(line, access, &records, pass)?;
        let ramp_seconds = self.ramp(operations, backend);
        let (durability, syncs) = self.syncs(access, backend, depth, files);
        let data = self.data(record);
        self.generator(records.sizes.is_some());
        let distribution = self.distribution(access);
        let sequential = self.sequential(access, files, cache);
        let pace = self.pace(access, &records, depth);
        if let Some((line, _)) = &records.sizes
            && (depth > 1 || files > 1)
        {
            self.refuse(
                *line,
                "bsrange, bssplit: the engine moves one record at a time, in one file: use iodepth=1 nrfiles=1",
            );
        }
        if access.is_sequential_mix() && files > 1 {
            self.refuse(line, "nrfiles: reads and writes have places of their own in one file only: leave it out");
        }
        let one_pass = operations.is_some_and(|operations| operations <= pass);
        let verified = self.verify(access, backend, one_pass, part.is_some());
        if !one_pass {
            let advice = match () {
                () if is_new => "is done in one pass into new files: add overwrite=1",
                () if cache == "cold" => "would drop the page cache before each pass: add invalidate=0 or direct=1",
                () if durability == "end" => "would sync after each pass: leave out end_fsync and fsync_on_close",
                () if backend.name == "mmap" => "would map the files again for each pass: use another ioengine",
                () => "",
            };
            if !advice.is_empty() {
                self.refuse(amount_line, format!("the job goes over its files more than once, but it {advice}"));
            }
        }
        let mut params: Params = [
            ("files", files.into()),
            ("file_size", file_size.into()),
            ("block_size", record.into()),
            ("backend", backend.name.into()),
            ("depth", depth.into()),
            ("threads", 1.into()),
            ("cache", cache.into()),
        ]
        .into_iter()
        .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value))
        .collect();
        params.extend(part.iter().flat_map(|part| part.params(0)));
        let mut set = |name: &str, value: serde_json::Value| drop(params.insert(name.to_owned(), value));
        if access.direction != Direction::Read {
            set("durability", durability.into());
        }
        if let Some((line, distribution)) = distribution {
            if cache == "cold" {
                self.refuse(
                    line,
                    "random_distribution, norandommap: records are visited again: add invalidate=0 or direct=1",
                );
            }
            set("random_distribution", distribution.into());
        }
        if let Some(data) = data {
            set("data", data);
        }
        if let Some(sequential) = sequential {
            set("sequential", format!("{sequential}%").into());
        }
        if let Some((_, sizes)) = records.sizes {
            set("record_sizes", sizes.into());
        }
        if verified {
            set("verify", true.into());
        }
        if let Some((call, every)) = syncs {
            set(call, every.into());
        }
        for (name, value) in pace {
            set(name, value);
        }
        let mix = self.mix();
        let name = match (access.direction, access.random) {
            (Direction::Read, false) if reads_in_turn => {
                set("stride", (file_size / record).into());
                "stride-read"
            }
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "random-read",
            (Direction::Write, true) => "random-write",
            (Direction::Write, false) => {
                set("overwrite", overwrite.into());
                "write"
            }
            // A job that trims has returned.
            (Direction::Mixed | Direction::Both | Direction::Trim, _) => {
                set("mix", format!("{mix}%").into());
                if access.direction == Direction::Both {
                    set("by_direction", true.into());
                }
                if access.random { "random-mix" } else { "sequential-mix" }
            }
        };
        let latency = match (durability, backend.queues) {
            ("each", _) => LatencyKind::NotComparable,
            (_, true) => LatencyKind::Total,
            _ => LatencyKind::Completion,
        };
        if latency == LatencyKind::NotComparable {
            self.note(line, "fdatasync: the engine times a write with its sync, so latencies are left out");
        }
        let evict = cache == "cold" && !cached;
        Some(Work {
            spec: WorkloadSpec::new(name, params),
            part,
            record_size: record,
            operations,
            seconds,
            ramp_seconds,
            evict,
            latency,
        })
    }

    /// Returns the work of a job that releases ranges of its files, with fio's engine falloc.
    fn trims(&mut self, section: usize, access: Access, records: &Records, processes: u32) -> Option<Work> {
        let record = records.smallest;
        if let Some((line, _)) = &records.sizes {
            self.refuse(*line, "bsrange, bssplit: the engine trims ranges of one size: use bs");
        }
        self.options.remove("ioengine");
        const WITHOUT_EFFECT: [&str; 9] = [
            "direct",
            "buffered",
            "invalidate",
            "fadvise_hint",
            "iodepth",
            "fsync",
            "fdatasync",
            "end_fsync",
            "fsync_on_close",
        ];
        for name in WITHOUT_EFFECT {
            if let Some(option) = self.options.remove(name) {
                self.note(
                    option.line,
                    format!("{name} has no effect: a trim moves no data, and fio syncs writes only"),
                );
            }
        }
        let Files { count: files, size: file_size, part, .. } = self.files(section, access, record, processes)?;
        if part.is_some() {
            self.refuse(section, "offset, size: the engine trims whole files: leave out offset and percentages");
        }
        self.layout(section, false);
        let pass = files.saturating_mul(file_size / record);
        let (line, operations, seconds) = self.amount(section, access, records, pass)?;
        if operations.is_none_or(|operations| operations > pass) {
            self.refuse(line, "the job trims its files more than once, but then nothing is left to release");
        }
        self.generator(false);
        if self.shared.is_none() {
            let message = "the trims release blocks that hold data: fio's new files have none, or only reserved ones";
            self.note(section, message);
        }
        let order = if access.random { "random" } else { "sequential" };
        let params: [(&str, serde_json::Value); 6] = [
            ("mode", "punch".into()),
            ("files", files.into()),
            ("file_size", file_size.into()),
            ("block_size", record.into()),
            ("access", order.into()),
            ("threads", 1.into()),
        ];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Some(Work {
            spec: WorkloadSpec::new("fallocate", params),
            part: None,
            record_size: record,
            operations,
            seconds,
            ramp_seconds: None,
            evict: false,
            latency: LatencyKind::Completion,
        })
    }

    /// Returns the shares of the data that compression and deduplication save, as the engine's parameter.
    fn data(&mut self, record: u64) -> Option<serde_json::Value> {
        let kilo = self.kilo;
        let expected = "512: the compressible parts of the engine's data are in pieces of 512 bytes";
        self.value("buffer_compress_chunk", expected, |value| (bytes(value, kilo) == Some(512)).then_some(()));
        let mut shares = serde_json::Map::new();
        for (option, name) in [("buffer_compress_percentage", "compressible"), ("dedupe_percentage", "duplicate")] {
            let percent = |value: &str| value.parse::<u64>().ok().filter(|percent| *percent <= 100);
            let Some((line, percent)) = self.value(option, "a number from 0 to 100", percent) else { continue };
            if percent > 0 {
                shares.insert(name.to_owned(), format!("{percent}%").into());
            }
            if name == "duplicate" && record != 4096 {
                self.note(line, "dedupe_percentage: fsb repeats blocks of 4096 bytes, fio whole records");
            }
        }
        (!shares.is_empty()).then(|| shares.into())
    }

    /// Takes the generator of random offsets. With each of fio's, a pass visits every record once.
    fn generator(&mut self, several_sizes: bool) {
        let Some((line, generator)) = self.value("random_generator", "tausworthe, tausworthe64 or lfsr", |value| {
            ["tausworthe", "tausworthe64", "lfsr"].contains(&value).then(|| value.to_owned())
        }) else {
            return;
        };
        if generator == "lfsr" && (several_sizes || self.options.contains_key("norandommap")) {
            let message = "random_generator: with lfsr, fio ignores norandommap and may repeat records of several sizes: \
                           use tausworthe";
            self.refuse(line, message);
        }
        self.note(line, "random_generator has no effect: fsb draws offsets with its own generator");
    }

    fn depth(&mut self, backend: Backend) -> u64 {
        let Some((line, depth)) = self.number("iodepth", 4096) else { return 1 };
        if !backend.queues && depth > 1 {
            self.note(line, "iodepth has no effect: the ioengine has one request in flight, as in fio");
            return 1;
        }
        depth
    }

    /// Takes the options that decide how files are made. Reports the difference of new files.
    fn layout(&mut self, section: usize, is_new: bool) {
        let none = self.value("fallocate", "none, native, posix, keep or truncate", |value| match value {
            "none" | "0" => Some(true),
            "native" | "posix" | "keep" | "truncate" | "1" => Some(false),
            _ => None,
        });
        let (line, on_open) = self.is_set("create_on_open", false);
        if on_open && !is_new {
            self.refuse(line, "create_on_open: the job needs files that hold data: leave it out");
        }
        if is_new && !(on_open && matches!(none, Some((_, true)))) {
            let message = "new files are empty when the clock starts and grow, as with fallocate=none create_on_open=1";
            self.note(section, message);
        }
    }

    fn hints(&mut self, section: usize, direct: bool) {
        let hint = self.value("fadvise_hint", "0: fsb gives the kernel no hints", |value| {
            matches!(value, "0" | "none").then_some(())
        });
        if hint.is_none() && !direct {
            self.note(section, "fsb gives the kernel no hints about the access, as with fadvise_hint=0");
        }
    }

    /// Returns the state of the cache at the start, and whether the files were read before.
    fn cache(&mut self, direct: bool, is_new: bool) -> (&'static str, bool) {
        let (_, invalidate) = self.is_set("invalidate", true);
        let (_, pre_read) = self.is_set("pre_read", false);
        match () {
            () if direct || is_new => ("any", false),
            () if pre_read => ("warm", true),
            () if invalidate => ("cold", false),
            () => ("any", false),
        }
    }

    /// Returns the line that decides the end, the number of records and the seconds. Records of several sizes count as
    /// many of the smallest.
    fn amount(
        &mut self,
        section: usize,
        access: Access,
        records: &Records,
        pass: u64,
    ) -> Option<(usize, Option<u64>, Option<f64>)> {
        let record = records.smallest;
        let io_size = self.size("io_size");
        let loops = self.number("loops", 1 << 32);
        if let Some((line, _)) = loops.filter(|(_, loops)| *loops > 1 && access.is_sequential_mix()) {
            self.refuse(line, "loops: fio starts reads and writes at the first record again: use io_size");
        }
        let number = self.number("number_ios", 1 << 48);
        if let (Some((line, _)), Some(_)) = (number, &records.sizes) {
            self.refuse(line, "number_ios: the engine ends records of several sizes after their bytes: use io_size");
        }
        let seconds = self.value("runtime", "a time such as 30 or 500ms", seconds);
        let (timed, time_based) = self.is_set("time_based", false);
        let records = match io_size {
            Some((line, bytes)) if !bytes.is_multiple_of(record) => {
                self.refuse(line, format!("io_size: {bytes} bytes are not a multiple of bs, {record}"));
                return None;
            }
            Some((_, bytes)) => bytes / record,
            None => pass,
        };
        let line = io_size.map(|(line, _)| line).or(loops.map(|(line, _)| line)).unwrap_or(section);
        if time_based {
            if seconds.is_none() {
                self.refuse(timed, "time_based: the job has no end: add runtime=TIME");
            }
            return Some((timed, None, seconds.map(|(_, seconds)| seconds)));
        }
        let operations = records.saturating_mul(loops.map_or(1, |(_, loops)| loops));
        let operations = number.map_or(operations, |(_, number)| operations.min(number));
        Some((line, Some(operations), seconds.map(|(_, seconds)| seconds)))
    }

    /// Returns the durability of the engine, and the call that follows a number of writes.
    fn syncs(
        &mut self,
        access: Access,
        backend: Backend,
        depth: u64,
        files: u64,
    ) -> (&'static str, Option<(&'static str, u64)>) {
        let number = |value: &str| value.parse::<u64>().ok().filter(|number| *number <= 1 << 32);
        let mut given = Vec::new();
        for call in ["fsync", "fdatasync"] {
            let found = self.value(call, "a number of writes", number).filter(|(_, every)| *every > 0);
            given.extend(found.map(|(line, every)| (line, call, every)));
        }
        let mut end = self.flag("end_fsync").filter(|(_, end)| *end).map(|_| "end_fsync");
        if let Some((line, true)) = self.flag("fsync_on_close") {
            end = end.or(Some("fsync_on_close"));
            if files > 1 && access.direction != Direction::Read {
                let message = "fsync_on_close: fio closes each of several files after its last record, the engine all at \
                               the end: use end_fsync=1, or one file";
                self.refuse(line, message);
            }
        }
        match (&given[..], end) {
            // As in fio, a job that only reads syncs nothing.
            _ if access.direction == Direction::Read => {}
            (&[(line, ..), _], _) => self.refuse(line, "fsync: leave out fdatasync, or fsync"),
            (&[(line, call, _)], Some(end)) => {
                self.refuse(line, format!("{call}: leave out {end}, or {call}"));
            }
            // As in fio, a mapping has one way to sync.
            (&[(_, _, every)], None) if backend.name == "mmap" && files == 1 => {
                return ("none", Some(("fdatasync", every)));
            }
            (&[(_, call, every)], None) if depth == 1 && files == 1 => return ("none", Some((call, every))),
            (&[(_, "fdatasync", 1)], None) => return ("each", None),
            (&[(line, call, _)], None) => {
                let message = format!(
                    "{call}: with several files or requests the engine syncs after each write only: \
                                       use fdatasync=1, or one file and iodepth=1"
                );
                self.refuse(line, message);
            }
            (_, Some(_)) => return ("end", None),
            (_, None) => {}
        }
        ("none", None)
    }

    /// Returns the seconds whose records fio discards.
    fn ramp(&mut self, operations: Option<u64>, backend: Backend) -> Option<f64> {
        let (line, ramp) = self.value("ramp_time", "a time such as 30 or 500ms", |value| time(value, 1.0))?;
        if ramp == 0.0 {
            return None;
        }
        if operations.is_some() {
            self.refuse(line, "ramp_time: the work of the job would end during it or after it: add time_based");
        }
        if backend.name == "posix-aio" {
            self.refuse(
                line,
                "ramp_time: the C library's threads use CPU time that fsb cannot leave out: use io_uring",
            );
        }
        Some(ramp)
    }

    /// Returns the parameters of the rate and of the think time.
    fn pace(&mut self, access: Access, records: &Records, depth: u64) -> Vec<(&'static str, serde_json::Value)> {
        let record = records.smallest;
        let mut params = Vec::new();
        self.value("rate_process", "linear", |value| (value == "linear").then_some(()));
        let bytes = self.size("rate");
        let operations = self.number("rate_iops", 10_000_000);
        let thought = self.value("thinktime", "a time in microseconds such as 500, or 5ms", |value| time(value, 1e-6));
        let every = self.number("thinktime_blocks", 1 << 32);
        let rate = match (bytes, operations) {
            (Some((line, _)), Some(_)) => {
                self.refuse(line, "rate: leave out rate_iops, or rate");
                None
            }
            (Some((line, _)), None) if records.sizes.is_some() => {
                self.refuse(line, "rate: the engine starts records, not bytes, at a rate: use rate_iops");
                None
            }
            (Some((line, bytes)), None) if !bytes.is_multiple_of(record) => {
                let message = format!("rate: {bytes} bytes are not whole records of {record} bytes: use rate_iops");
                self.refuse(line, message);
                None
            }
            (Some((line, bytes)), None) => Some((line, bytes / record)),
            (None, operations) => operations,
        };
        if let Some((line, rate)) = rate {
            if access.is_mix() {
                self.refuse(line, "rate: fio keeps a rate for each direction, the engine one for both: leave it out");
            }
            if depth > 1 {
                self.refuse(line, "rate: the engine keeps a rate with one request in flight: use iodepth=1");
            }
            // fio measures the latency from the call, and catches up after a stall.
            params.extend([("rate", rate.into()), ("latency_from", "call".into())]);
        }
        if let Some((line, pause)) = thought.filter(|(_, pause)| *pause > 0.0) {
            if depth > 1 {
                self.refuse(line, "thinktime: the engine thinks with no request in flight: use iodepth=1");
            }
            params.push(("think_time", format!("{}us", (pause * 1e6).round()).into()));
            if let Some((_, every)) = every {
                params.push(("think_every", every.into()));
            }
        }
        params
    }

    fn distribution(&mut self, access: Access) -> Option<(usize, String)> {
        let (map_line, without_map) = self.is_set("norandommap", false);
        // Records are drawn again although others were not visited yet: half of them get half of the draws.
        let unmapped = (without_map && access.random).then(|| (map_line, "pareto:0.5".to_owned()));
        // The exponent 1 does not exist in fio.
        let expected = "random, zipf:THETA (not 1), pareto:H or zoned:ACCESSES/SIZE:...";
        let given = self.value("random_distribution", expected, |value| {
            let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            let known = match value.split_once(':') {
                None => value == "random",
                Some(("zipf", theta)) => number(theta).is_some_and(|theta| theta != 1.0),
                Some(("pareto", h)) => number(h).is_some_and(|h| h < 1.0),
                // The engine checks that the zones add up.
                Some(("zoned", zones)) => {
                    zones.split([':', '/']).all(|percent| percent.parse::<u64>().is_ok_and(|percent| percent <= 100))
                }
                Some(_) => false,
            };
            known.then(|| value.to_owned())
        });
        let Some((line, distribution)) = given.filter(|(_, given)| given != "random") else { return unmapped };
        if !access.random {
            self.refuse(line, "random_distribution: the job is sequential: leave it out");
        }
        Some((line, distribution))
    }

    /// Returns the percent of visits in sequence of a random job, if there are such. As in fio, the option has no effect
    /// on a sequential job.
    fn sequential(&mut self, access: Access, files: u64, cache: &str) -> Option<u64> {
        let (line, random) = self.value("percentage_random", "one number from 0 to 100", |value| {
            value.parse::<u64>().ok().filter(|percent| *percent <= 100)
        })?;
        if !access.random || random == 100 {
            return None;
        }
        let advice = match () {
            () if random == 0 => "no visit would be random: use rw=read or rw=write",
            () if access.is_mix() => {
                "fio has a place in sequence for each direction, the engine one for both: leave it out"
            }
            () if files > 1 => "the engine goes on in sequence over all files: leave out nrfiles",
            () if cache == "cold" => "records are visited again: add invalidate=0 or direct=1",
            () => return Some(100 - random),
        };
        self.refuse(line, format!("percentage_random: {advice}"));
        None
    }

    /// Returns whether the files are compared with what was written.
    fn verify(&mut self, access: Access, backend: Backend, one_pass: bool, partial: bool) -> bool {
        const METHODS: &[&str] = &[
            "md5",
            "crc64",
            "crc32c",
            "crc32c-intel",
            "crc32",
            "crc16",
            "crc7",
            "xxhash",
            "sha1",
            "sha256",
            "sha512",
            "sha3-224",
            "sha3-256",
            "sha3-384",
            "sha3-512",
        ];
        let expected = format!("one of {}", METHODS.join(", "));
        let found = self.value("verify", &expected, |value| {
            if value == "0" { Some(false) } else { METHODS.contains(&value).then_some(true) }
        });
        let (_, does) = self.is_set("do_verify", true);
        // The engine ends with the first difference in any case.
        self.is_set("verify_fatal", false);
        let Some((line, true)) = found else { return false };
        let refusal = match () {
            () if access.direction != Direction::Write => "only jobs that write verify: they compare what they wrote",
            () if !backend.direct => "fsb would compare buffered data in the page cache, which fio drops: add direct=1",
            () if partial => "the engine compares whole files: leave out offset and percentages",
            () if !one_pass => "fio verifies after each pass, the engine at the end: write the files once",
            () => "",
        };
        if !refusal.is_empty() {
            self.refuse(line, format!("verify: {refusal}"));
            return false;
        }
        let how = match does {
            true => "compares every byte with what it wrote, without checksums, and reports no results of these reads",
            false => "writes no checksums, and with do_verify=0 it compares nothing",
        };
        self.note(line, format!("verify: fsb {how}"));
        does
    }

    /// Returns the per cent of reads. As in fio, it has no effect on a job of one direction.
    fn mix(&mut self) -> u64 {
        let percent = |value: &str| value.parse::<u64>().ok().filter(|percent| (1..100).contains(percent));
        let reads = self.value("rwmixread", "a number from 1 to 99", percent);
        let writes = self.value("rwmixwrite", "a number from 1 to 99", percent);
        match (reads, writes) {
            (Some((line, reads)), Some((_, writes))) if reads + writes != 100 => {
                self.refuse(line, "rwmixread: it contradicts rwmixwrite: leave one of them out");
                reads
            }
            (Some((_, reads)), _) => reads,
            (None, Some((_, writes))) => 100 - writes,
            (None, None) => 50,
        }
    }

    /// Returns the seed: as in fio, runs repeat unless `randrepeat=0`.
    fn seed(&mut self) -> Option<u64> {
        let seed = self.value("randseed", "a whole number", |value| value.parse().ok());
        let (_, repeats) = self.is_set("randrepeat", true);
        let (_, all_repeat) = self.is_set("allrandrepeat", false);
        seed.map(|(_, seed)| seed).or((repeats || all_repeat).then_some(1))
    }

    fn percentiles(&mut self) -> Vec<f64> {
        let (_, printed) = self.is_set("clat_percentiles", true);
        let list = self.value("percentile_list", "up to 20 numbers such as 50:99:99.9", |value| {
            let numbers = value.split(':').map(|text| text.trim().parse::<f64>().ok());
            let mut numbers = numbers.collect::<Option<Vec<f64>>>()?;
            numbers.sort_by(f64::total_cmp);
            let fits = numbers.len() <= 20 && numbers.iter().all(|number| (0.0..=100.0).contains(number));
            fits.then_some(numbers)
        });
        if !printed {
            return Vec::new();
        }
        list.map_or_else(|| PERCENTILES.to_vec(), |(_, list)| list)
    }
}

/// The work of each process of a job.
struct Work {
    spec: WorkloadSpec,
    part: Option<FilePart>,
    record_size: u64,
    operations: Option<u64>,
    seconds: Option<f64>,
    ramp_seconds: Option<f64>,
    evict: bool,
    latency: LatencyKind,
}

/// Parses a size as fio does. With the default `kb_base` of 1024, `k` is 1024 bytes and `kib` is 1000.
fn bytes(text: &str, kilo: u64) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let other = if kilo == 1024 { 1000 } else { 1024 };
    let (prefix, base) = match unit.strip_suffix("ib") {
        Some(prefix) if !prefix.is_empty() => (prefix, other),
        Some(_) => return None,
        None => (unit.strip_suffix('b').filter(|prefix| !prefix.is_empty()).unwrap_or(unit), kilo),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == prefix)? as u32;
    let number: u64 = number.parse().ok()?;
    // The engine has no larger files.
    number.checked_mul(u64::checked_pow(base, power)?).filter(|bytes| (1..=1 << 60).contains(bytes))
}

/// The longest run: a month.
const LONGEST: f64 = 30.0 * 86400.0;

/// Parses a time as fio does: in seconds without a unit. Returns `None` for zero.
fn seconds(text: &str) -> Option<f64> {
    time(text, 1.0).filter(|seconds| *seconds > 0.0)
}

/// Parses a time as fio does. `unit` is the seconds of a number without a unit.
fn time(text: &str, unit: f64) -> Option<f64> {
    let (number, name) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match name {
        "" => unit,
        "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? as f64 * unit).filter(|seconds| *seconds <= LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<JobFile, Vec<Remark>> {
        super::read(text, &|name| (name == "SIZE").then(|| "8m".to_owned()))
    }

    fn jobs(text: &str) -> Vec<FioJob> {
        read(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}")).jobs
    }

    fn job(options: &str) -> FioJob {
        jobs(&format!("[j]\nsize=1m\n{options}\n")).remove(0)
    }

    /// Returns the problems of a file as compilers print them.
    fn problems(text: &str) -> Vec<String> {
        let problems = read(text).expect_err(text);
        problems.into_iter().map(|Remark { line, message }| format!("{line}: {message}")).collect()
    }

    fn problem(options: &str) -> String {
        problems(&format!("[j]\nsize=1m\n{options}\n")).remove(0)
    }

    #[test]
    fn options_of_global_hold_for_the_jobs_that_follow() {
        let text = "; a comment\n[global]\nrw=randread\nbs=8k # records\nsize=${SIZE}\ndirect=1\n[one]\n\n[two]\n\
                    blocksize=16k\nstonewall\nnumjobs=3\n[global]\nsize=1m\n[three]\nstonewall=0\n";
        let jobs = jobs(text);
        let records: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.record_size, job.operations)).collect();
        assert_eq!(records, [("one", 8192, Some(1024)), ("two", 16384, Some(512)), ("three", 8192, Some(128))]);
        assert_eq!(
            jobs.iter().map(|job| (job.group, job.waits)).collect::<Vec<_>>(),
            [(0, false), (1, true), (1, false)]
        );
        assert_eq!(jobs[1].processes, 3);
        assert_eq!(jobs[1].workload.name, "random-read");
        assert_eq!(jobs[1].workload.params["backend"], json!("direct"));
        assert_eq!(jobs[0].options["size"], "8m");
    }

    #[test]
    fn refused_options_are_named_with_their_lines() {
        let found = problems("[j]\nsize=1m\nrw=randread\nzonemode=zbd\nverify_pattern=1\n[k]\nrw=erase\nsize=1m\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "4: fio's option zonemode is not supported: remove it");
        assert!(
            found[1].starts_with("5: fio's option verify_pattern is not supported: the engine writes"),
            "{found:?}"
        );
        assert!(found[2].starts_with("7: rw: 'erase' is not supported: give read, write"), "{found:?}");
        assert!(problem("ioengine=rbd").contains("3: ioengine: rbd is not supported: use psync, sync, libaio"));
        assert!(problem("filename=/dev/sda").contains("no existing file or device"));
        assert_eq!(problem("fixedbufs=1"), "3: fixedbufs: this job does not use it: remove it");
        assert!(problem("create_on_open=1").contains("files that hold data"));
        assert!(problem("rw=write\nnrfiles=2").contains("add file_service_type=sequential"));
        assert!(problem("size=50%").starts_with("3: size: in fio a percentage is one of the size"));
        assert!(problem("rw=randwrite").contains("add overwrite=1"));
        assert_eq!(problems("size=1m\n")[0], "1: size: the option precedes all sections: write [global] before it");
        assert_eq!(problems("[global]\nsize=1m\n"), ["2: the file has no job: add a section such as [job1]"]);
        assert!(problems("[j]\nsize=1m\nbs=${NONE}\n")[0].contains("variable NONE is not set"));
        assert!(problems("include x.fio\n")[0].starts_with("1: include: "));
    }

    #[test]
    fn syncs_rates_and_think_times_become_parameters_of_the_workload() {
        let param = |options: &str, name: &str| job(options).workload.params.get(name).cloned();
        assert_eq!(param("rw=write\nfsync=16", "fsync"), Some(json!(16)));
        assert_eq!(param("rw=write\nfdatasync=1", "fdatasync"), Some(json!(1)));
        assert_eq!(job("rw=write\nfdatasync=1").latency, LatencyKind::Completion);
        assert_eq!(param("rw=write\nfsync=4\nioengine=mmap\noverwrite=1", "fdatasync"), Some(json!(4)));
        assert_eq!([param("rw=read\nfsync=16", "fsync"), param("rw=write\nfsync=0", "fsync")], [None, None]);
        assert_eq!(param("rate_iops=500", "rate"), Some(json!(500)));
        assert_eq!(param("rate=1m\nbs=16k", "rate"), Some(json!(64)));
        assert_eq!(param("rate_iops=500", "latency_from"), Some(json!("call")));
        assert_eq!(param("thinktime=500", "think_time"), Some(json!("500us")));
        assert_eq!(param("thinktime=2ms\nthinktime_blocks=8", "think_every"), Some(json!(8)));
        assert_eq!(param("rw=randread\nnorandommap\ninvalidate=0", "random_distribution"), Some(json!("pareto:0.5")));
        assert_eq!(param("rw=read\nnorandommap", "random_distribution"), None);
        let timed = job("rw=read\ninvalidate=0\ntime_based\nruntime=3\nramp_time=500ms\nstartdelay=2");
        assert_eq!((timed.ramp_seconds, timed.start_delay), (Some(0.5), 2.0));
        assert_eq!(job("rw=randrw").direction, Direction::Both);
        assert_eq!(param("rw=randrw", "by_direction"), Some(json!(true)));
        assert_eq!(job("rw=randrw\nunified_rw_reporting=1").direction, Direction::Mixed);
    }

    #[test]
    fn syncs_rates_and_think_times_that_the_engine_does_otherwise_are_refused() {
        for (options, expected) in [
            ("rw=write\nfsync=1\nfdatasync=1", "leave out fdatasync"),
            ("rw=write\nfsync=1\nend_fsync=1", "leave out end_fsync"),
            ("rw=write\nfsync=4\nioengine=io_uring\niodepth=4", "one file and iodepth=1"),
            ("rw=write\nfsync=4\nnrfiles=2\nfile_service_type=sequential", "one file and iodepth=1"),
            ("rate=5000", "5000 bytes are not whole records of 4096 bytes"),
            ("rate=4096\nrate_iops=1", "leave out rate_iops"),
            ("rate=1m,2m", "give one size"),
            ("rate_iops=9\nioengine=io_uring\niodepth=2", "use iodepth=1"),
            ("rate_iops=9\nrw=randrw", "a rate for each direction"),
            ("rate_process=poisson", "give linear"),
            ("rate_iops_min=5", "because it is slow"),
            ("thinktime=5\nioengine=io_uring\niodepth=2", "use iodepth=1"),
            ("thinktime=5\nthinktime_spin=5", "the engine sleeps"),
            ("rw=randread\nnorandommap", "add invalidate=0"),
            ("ramp_time=5", "add time_based"),
            ("startdelay=5-10", "give one time"),
        ] {
            assert!(problem(options).contains(expected), "{options}: {}", problem(options));
        }
    }

    #[test]
    fn orders_sizes_and_verification_become_parameters_of_the_workload() {
        let param = |options: &str, name: &str| job(options).workload.params.get(name).cloned();
        assert_eq!(job("rw=rw").workload.name, "sequential-mix");
        assert_eq!(job("rw=readwrite\nrwmixread=70").direction, Direction::Both);
        assert_eq!(param("rw=readwrite\nrwmixread=70", "mix"), Some(json!("70%")));
        assert_eq!(param("bsrange=4k-16k", "record_sizes"), Some(json!("4096-16384")));
        assert_eq!(param("rw=randread\nbssplit=8k/40:4k/60", "record_sizes"), Some(json!("8192/40:4096/60")));
        let split = job("rw=randread\nbssplit=8k/40:4k/60");
        assert_eq!((split.record_size, split.operations), (4096, Some(256)));
        assert_eq!(param("rw=randread\npercentage_random=70\ndirect=1", "sequential"), Some(json!("30%")));
        assert_eq!(param("rw=read\npercentage_random=70", "sequential"), None);
        assert_eq!(param("ioengine=libaio\ndirect=1\niodepth=8", "backend"), Some(json!("libaio-direct")));
        assert_eq!(job("ioengine=libaio").latency, LatencyKind::Total);
        assert_eq!(param("rw=write\ndirect=1\nverify=crc32c", "verify"), Some(json!(true)));
        assert_eq!(param("rw=write\ndirect=1\nverify=md5\ndo_verify=0", "verify"), None);
        assert_eq!(param("rw=write\nverify=0", "verify"), None);
    }

    #[test]
    fn orders_sizes_and_verification_that_the_engine_does_otherwise_are_refused() {
        for (options, expected) in [
            ("rw=rw\nnrfiles=2\nfile_service_type=sequential", "in one file only"),
            ("rw=rw\nloops=2\ninvalidate=0", "use io_size"),
            ("rw=rw\nbsrange=4k-8k", "both directions together"),
            ("bsrange=4k-8k\nbssplit=4k/100", "leave out bssplit"),
            ("bsrange=8k-4k", "give one range"),
            ("bssplit=4k/50:8k/40", "add up to 100"),
            ("bsrange=4k-8k\nioengine=io_uring\niodepth=2", "use iodepth=1"),
            ("bsrange=4k-8k\nnumber_ios=5", "use io_size"),
            ("bsrange=4k-8k\nrate=1m", "use rate_iops"),
            ("rw=randread\npercentage_random=50", "add invalidate=0 or direct=1"),
            ("rw=randread\ndirect=1\npercentage_random=0", "use rw=read"),
            ("rw=randrw\ndirect=1\npercentage_random=50", "for each direction"),
            ("rw=write\nverify=crc32c", "add direct=1"),
            ("rw=read\ndirect=1\nverify=crc32c", "only jobs that write"),
            ("rw=write\ndirect=1\nverify=crc32c\noverwrite=1\nloops=2", "write the files once"),
            ("rw=write\ndirect=1\nverify=pattern", "give one of md5"),
        ] {
            assert!(problem(options).contains(expected), "{options}: {}", problem(options));
        }
    }

    #[test]
    fn jobs_that_use_a_file_one_after_the_other_find_it_filled() {
        let file = |sections: &str| read(&format!("[global]\nfilename=f\nsize=1m\n{sections}"));
        let shared = file("[a]\nrw=read\n[b]\nstonewall\nrw=write\n[c]\nstonewall\nrw=randwrite\n").unwrap();
        assert_eq!(shared.jobs[1].workload.params["overwrite"], json!(true));
        assert_eq!(shared.jobs[2].workload.name, "random-write");
        let notes: Vec<_> = shared.notes.iter().map(|note| note.message.as_str()).collect();
        assert!(
            notes.contains(&"filename: the job has a file of its own, filled in sequence, instead of that of job 'b'"),
            "{notes:?}"
        );
        for (sections, expected) in [
            ("[a]\nrw=randwrite\noverwrite=1\n[b]\nstonewall\n", "job 'a' or one before it writes at random into it"),
            ("[a]\nrw=write\nio_size=4k\n[b]\nstonewall\n", "does not write all of it"),
            ("[a]\nrw=trim\nioengine=falloc\n[b]\nstonewall\n[c]\nstonewall\n", "trims it"),
            ("[a]\nrw=read\n[b]\nstonewall\nsize=2m\n", "the file of job 'a' has 1048576 bytes"),
        ] {
            let found = file(sections).unwrap_err();
            assert!(found[0].message.contains(expected), "{sections}: {found:?}");
        }
    }

    /// The sizes of the work of each process: file, offset and length.
    fn parts(job: &FioJob) -> Vec<[u64; 3]> {
        let sizes = |process: u32| {
            let params = job.workload_of(process).params;
            ["file_size", "offset", "length"].map(|name| params.get(name).and_then(|value| value.as_u64()).unwrap_or(0))
        };
        (0..job.processes).map(sizes).collect()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn jobs_access_the_parts_of_their_files_that_fio_accesses() {
        let of = |options: &str| parts(&jobs(&format!("[j]\n{options}\n")).remove(0));
        assert_eq!(of("size=1m"), [[MIB, 0, 0]]);
        assert_eq!(of("size=1m\noffset=0"), [[MIB, 0, 0]]);
        assert_eq!(of("size=1m\noffset=4m"), [[5 * MIB, 4 * MIB, MIB]]);
        assert_eq!(of("size=2m\noffset=1m\nnrfiles=2"), [[2 * MIB, MIB, MIB]]);
        assert_eq!(of("filesize=4m\noffset=1m"), [[4 * MIB, MIB, 3 * MIB]]);
        assert_eq!(of("filesize=4m\nsize=50%"), [[4 * MIB, 0, 2 * MIB]]);
        assert_eq!(of("filesize=4m\nsize=50%\noffset=3m"), [[4 * MIB, 3 * MIB, MIB]]);
        assert_eq!(of("filesize=4m\nsize=100%"), [[4 * MIB, 0, 0]]);
        // Without a name each process has a file of its own, which ends with its part.
        let own = of("size=1m\noffset_increment=2m\nnumjobs=3");
        assert_eq!(own, [[MIB, 0, MIB], [3 * MIB, 2 * MIB, MIB], [5 * MIB, 4 * MIB, MIB]]);
        let shared = of("filename=f\nsize=1m\noffset=1m\noffset_increment=2m\nnumjobs=3");
        assert_eq!(shared, [[6 * MIB, MIB, MIB], [6 * MIB, 3 * MIB, MIB], [6 * MIB, 5 * MIB, MIB]]);
        assert_eq!(job("rw=randread\noffset=1m").operations, Some(256));
    }

    #[test]
    fn jobs_beside_each_other_share_the_file_that_they_name() {
        let file = |sections: &str| read(&format!("[global]\nfilename=f\nsize=1m\n{sections}"));
        let shared = |sections: &str| file(sections).unwrap_or_else(|found| panic!("{sections}: {found:?}")).jobs;
        let two = shared("[a]\nrw=write\n[b]\nrw=write\noffset=1m\n[c]\nstonewall\nrw=read\nsize=1m\noffset=512k\n");
        assert_eq!(two.iter().map(parts).collect::<Vec<_>>().concat()[..2], [[2 * MIB, 0, MIB], [2 * MIB, MIB, MIB]]);
        assert!(!two[0].workload.params.contains_key("overwrite") || two[0].makes_files());
        let read = shared("[a]\nrw=write\n[b]\nrw=randread\nnumjobs=2\n");
        assert_eq!(parts(&read[1]), [[MIB, 0, MIB], [MIB, 0, MIB]]);
        assert!(!read[0].makes_files(), "the file holds the data that the other job reads");
        let later = shared("[a]\nrw=write\nsize=4m\n[b]\nstonewall\nrw=randread\nsize=25%\n[c]\nrw=read\noffset=3m\n");
        assert_eq!(parts(&later[1]), [[4 * MIB, 0, MIB]]);
        assert_eq!(parts(&later[2]), [[4 * MIB, 3 * MIB, MIB]]);
        let quarters = "[a]\nrw=write\nnumjobs=4\noffset_increment=1m\n[b]\nstonewall\nrw=read\nsize=4m\n";
        assert_eq!(parts(&shared(quarters)[1]), [[4 * MIB, 0, 0]]);
        for (sections, expected) in [
            ("[a]\nrw=trim\nioengine=falloc\nnumjobs=2\n", "would trim ranges"),
            ("[a]\nrw=read\nnumjobs=2\nnrfiles=2\n", "would share several files"),
            ("[a]\nrw=write\ndirect=1\nverify=md5\nnumjobs=2\n", "would verify"),
            ("[a]\nrw=write\noffset=1m\n[b]\nstonewall\n", "does not write all of it"),
            ("[a]\nrw=read\n[b]\nstonewall\noffset=512k\n", "the file of job 'a' has 1048576 bytes"),
        ] {
            let found = file(sections).unwrap_err();
            assert!(found[0].message.contains(expected), "{sections}: {found:?}");
        }
    }

    #[test]
    fn parts_that_the_engine_does_not_access_are_refused() {
        for (options, expected) in [
            ("offset=1k", "3: offset: 1024 bytes are not a multiple of bs, 4096"),
            ("offset=10%", "3: offset: '10%' is not supported: give one size"),
            ("offset_increment=1k\nnumjobs=2", "3: offset_increment: 1024 bytes are not a multiple"),
            ("size=50%\nfilesize=1m\noffset_increment=64k", "give size in bytes"),
            ("rw=trim\nioengine=falloc\noffset=4k", "trims whole files"),
            ("rw=write\ndirect=1\nverify=md5\noffset=4k", "compares whole files"),
            ("rw=write\nfsync_on_close=1\nnrfiles=2\nfile_service_type=sequential", "or one file"),
            ("rw=write\nfsync_on_close=1\nfsync=4", "leave out fsync_on_close"),
        ] {
            assert!(problem(options).contains(expected), "{options}: {}", problem(options));
        }
        assert_eq!(job("rw=write\nfsync_on_close=1").workload.params["durability"], json!("end"));
        assert_eq!(job("rw=write\nfsync_on_close=0").workload.params["durability"], json!("none"));
        assert!(!job("rw=read\nfsync_on_close=1").workload.params.contains_key("durability"));
    }

    #[test]
    fn trims_punch_holes_with_the_engine_falloc() {
        let trims = job("rw=randtrim\nioengine=falloc\nbs=64k");
        assert_eq!((trims.workload.name.as_str(), trims.direction), ("fallocate", Direction::Trim));
        assert_eq!([&trims.workload.params["mode"], &trims.workload.params["access"]], ["punch", "random"]);
        assert_eq!((trims.operations, trims.latency), (Some(16), LatencyKind::Completion));
        for (options, expected) in [
            ("rw=trim", "files with ioengine=falloc only"),
            ("rw=randtrimwrite\nioengine=falloc", "devices in turn, and no files"),
            ("rw=write\nioengine=falloc", "falloc is not supported"),
            ("rw=trim\nioengine=falloc\nloops=2", "more than once"),
            ("rw=trim\nioengine=falloc\nrate_iops=5", "this job does not use it"),
        ] {
            assert!(problem(options).contains(expected), "{options}: {}", problem(options));
        }
    }

    #[test]
    fn data_and_generators_are_those_of_the_options() {
        let data = |options: &str| job(options).workload.params.get("data").cloned();
        let asked = "rw=write\nbuffer_compress_percentage=60\ndedupe_percentage=10";
        assert_eq!(data(asked), Some(json!({"compressible": "60%", "duplicate": "10%"})));
        assert_eq!(data("rw=write\nbuffer_compress_percentage=0"), None);
        assert!(problem("rw=write\nbuffer_compress_chunk=4k").contains("pieces of 512 bytes"));
        assert_eq!(job("rw=randread\nrandom_generator=lfsr").workload.name, "random-read");
        let lfsr = "rw=randread\ninvalidate=0\nrandom_generator=lfsr";
        assert!(problem(&format!("{lfsr}\nnorandommap")).contains("use tausworthe"));
        assert!(problem("nrfiles=4\nopenfiles=2").contains("keeps all files"));
        let in_turn = job("nrfiles=4\nbs=64k");
        assert_eq!((in_turn.workload.name.as_str(), &in_turn.workload.params["stride"]), ("stride-read", &json!(4)));
        let zoned = job("rw=randread\ninvalidate=0\nrandom_distribution=zoned:80/20:20/80");
        assert_eq!(zoned.workload.params["random_distribution"], json!("zoned:80/20:20/80"));
        assert_eq!(job("ioengine=sync").workload.params["backend"], json!("lseek"));
        assert_eq!(job("ioengine=sync\ndirect=1").workload.params["backend"], json!("lseek-direct"));
    }

    #[test]
    fn passes_that_fio_would_begin_in_another_state_are_refused() {
        assert!(problem("rw=read\nloops=2").contains("add invalidate=0 or direct=1"));
        assert_eq!(job("rw=read\nloops=2\ninvalidate=0").operations, Some(512));
        assert!(problem("rw=write\ntime_based\nruntime=1").contains("add overwrite=1"));
        let timed = job("rw=write\ntime_based\nruntime=1500ms\noverwrite=1\ndirect=1");
        assert_eq!((timed.operations, timed.seconds), (None, Some(1.5)));
        assert!(problem("rw=read\ntime_based\ninvalidate=0").contains("add runtime=TIME"));
        assert!(
            problem("rw=write\noverwrite=1\ninvalidate=0\nio_size=2m\nend_fsync=1").contains("leave out end_fsync")
        );
    }

    #[test]
    fn the_cache_begins_as_fio_leaves_it() {
        let state = |options: &str| {
            let job = job(options);
            (job.workload.params["cache"].as_str().unwrap().to_owned(), job.evict)
        };
        assert_eq!(state("rw=read"), ("cold".into(), true));
        assert_eq!(state("rw=read\ninvalidate=0"), ("any".into(), false));
        assert_eq!(state("rw=read\npre_read=1"), ("warm".into(), false));
        assert_eq!(state("rw=read\ndirect=1"), ("any".into(), false));
        assert_eq!(state("rw=write"), ("any".into(), false));
    }

    #[test]
    fn differences_from_fio_are_noted() {
        let notes = |options: &str| {
            let notes = read(&format!("[j]\nsize=1m\n{options}\n")).unwrap().notes;
            notes.into_iter().map(|note| note.message).collect::<Vec<_>>()
        };
        assert_eq!(notes("rw=read\ndirect=1"), Vec::<String>::new());
        assert!(notes("rw=write\ndirect=1")[0].contains("fallocate=none create_on_open=1"));
        assert!(notes("rw=write\ndirect=1\nfallocate=none\ncreate_on_open=1").is_empty());
        assert!(notes("rw=read")[0].contains("fadvise_hint=0"));
        assert!(notes("direct=1\nthread")[0].starts_with("thread has no effect"));
        assert!(notes("direct=1\niodepth=4")[0].starts_with("iodepth has no effect"));
        let named = |options: &str| notes(&format!("rw=read\ndirect=1\nfilename_format={options}"))[0].clone();
        assert!(named("a.$filenum").starts_with("filename_format has no effect"));
        assert!(named("a.$jobnum\nnumjobs=2").starts_with("filename_format has no effect"));
        assert!(named("a.$filenum\nnumjobs=2").contains("in fio they share"));
        assert!(notes("direct=1\nioengine=io_uring\niodepth=4")[0].contains("fixedbufs=1"));
        assert!(notes("direct=1\nbs=8k\nbsrange=4k-8k")[0].starts_with("bs has no effect"));
        let written = "rw=write\ndirect=1\nfallocate=none\ncreate_on_open=1\nverify=sha256";
        assert!(notes(written)[0].starts_with("verify: fsb compares every byte"));
    }

    #[test]
    fn sizes_have_fios_units() {
        for (text, kilo, expected) in [
            ("4096", 1024, Some(4096)),
            ("4k", 1024, Some(4096)),
            ("4KB", 1024, Some(4096)),
            ("4kib", 1024, Some(4000)),
            ("4k", 1000, Some(4000)),
            ("4KiB", 1000, Some(4096)),
            ("1g", 1024, Some(1 << 30)),
            ("0", 1024, None),
            ("4ki", 1024, None),
            ("b", 1024, None),
            ("ib", 1024, None),
            ("50%", 1024, None),
            ("9999999p", 1024, None),
        ] {
            assert_eq!(bytes(text, kilo), expected, "{text}");
        }
        assert_eq!([seconds("2"), seconds("2m"), seconds("0"), seconds("1y")], [Some(2.0), Some(120.0), None, None]);
    }

    #[test]
    fn percentiles_are_those_of_the_list() {
        assert_eq!(job("percentile_list=99.9:50").percentiles, [50.0, 99.9]);
        assert_eq!(job("clat_percentiles=0").percentiles, Vec::<f64>::new());
        assert_eq!(job("").percentiles.len(), 17);
    }

    #[test]
    fn seeds_repeat_unless_randrepeat_is_off() {
        let seed = |options: &str| job(options).seed;
        assert_eq!([seed(""), seed("randseed=7"), seed("randrepeat=0")], [Some(1), Some(7), None]);
    }

    proptest! {
        #[test]
        fn any_text_gives_jobs_or_problems_with_lines(text in "(\\[[a-z]{0,6}\\]|[a-z_]{0,9}=?[0-9a-z:$%{}]{0,6}|\n){0,20}") {
            match read(&text) {
                Ok(file) => prop_assert!(!file.jobs.is_empty()),
                Err(problems) => prop_assert!(!problems.is_empty() && problems.iter().all(|problem| problem.line > 0)),
            }
        }
    }
}
