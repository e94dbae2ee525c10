//! fio's job files: sections of options, converted to workloads of the engine.
//!
//! An option is either performed as fio performs it, or refused with its line, or it does not
//! change the work and a note says so. Half a job is a different job, so a file with a refused
//! option does not run at all.

use std::collections::BTreeMap;

use fsb_model::{Params, WorkloadSpec};

use super::sections::{Options, Section, Written, excerpt, sections};
pub use super::sections::{Remark, Surroundings};
use super::tables::{DEFAULTS_ONLY, INERT, OF_WORK, REFUSED};

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
    /// The name of the file that its processes share with each other and with those of the jobs
    /// beside it. `None` if each process has files of its own.
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
    /// The processors that the processes may use. All if it is empty.
    pub processors: Vec<u32>,
    /// Whether each process uses one of them.
    pub splits_processors: bool,
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

    /// Returns the processors of a process, from 0 in its job and `earlier` processes before the
    /// job. All if it is empty.
    pub fn processors_of(&self, process: u32, earlier: u32) -> Vec<u32> {
        let one = (earlier + process) as usize;
        match self.splits_processors {
            true => self
                .processors
                .iter()
                .copied()
                .cycle()
                .skip(one)
                .take(1)
                .collect(),
            false => self.processors.clone(),
        }
    }

    fn number(&self, name: &str) -> u64 {
        self.workload
            .params
            .get(name)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(1)
    }

    /// Returns the bytes of the largest file of a process.
    fn file_size(&self) -> u64 {
        self.part.map_or_else(
            || self.number("file_size"),
            |part| part.file_of(self.processes - 1),
        )
    }

    /// Returns whether its files are empty when the clock starts.
    fn makes_files(&self) -> bool {
        ["sparse-write", "stride-write"].contains(&self.workload.name.as_str())
    }

    /// Makes the job write into files that hold data, because another one needs it.
    fn overwrite(&mut self) {
        if !self.makes_files() {
            return;
        }
        let is_random = self.workload.params.get("access") == Some(&"random".into());
        self.workload.name = if is_random { "random-write" } else { "write" }.to_owned();
        for name in ["access", "allocate", "further_passes", "stride"] {
            self.workload.params.remove(name);
        }
        if !is_random {
            self.workload
                .params
                .insert("overwrite".to_owned(), true.into());
        }
    }

    /// Returns whether its processes together access every byte of the file that they share, from
    /// `written` on.
    fn reaches_end_from(&self, written: u64) -> bool {
        self.part.is_none_or(|part| {
            let last = self.processes - 1;
            part.offset <= written
                && part.increment <= part.length
                && part.end(last) == part.file_of(last)
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
        self.offset
            .saturating_add(self.increment.saturating_mul(u64::from(process)))
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
        let sizes = [
            ("file_size", self.file_of(process)),
            ("offset", self.start(process)),
            ("length", self.length),
        ];
        sizes
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes.into()))
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
    /// Both, each with a result of its own and together in one (`unified_rw_reporting=both`).
    BothAndMixed,
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
            Direction::BothAndMixed => &[
                ResultDirection::Read,
                ResultDirection::Write,
                ResultDirection::Mixed,
            ],
        }
    }

    /// Returns whether reads and writes are counted apart.
    pub fn is_apart(self) -> bool {
        matches!(self, Direction::Both | Direction::BothAndMixed)
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
    /// Returns the key of the direction in fio's JSON, and the operation of a mix in the engine's
    /// measurements.
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
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The maximum number of processes of a job file. Each process has a worker.
const MOST_PROCESSES: u64 = 512;
/// The maximum number of files of a process. The engine holds all of them open.
const MOST_FILES: u64 = 16;
/// Reads a job file.
///
/// # Errors
/// All problems of the file, by line; never empty.
pub fn read(text: &str, surroundings: Surroundings<'_>) -> Result<JobFile, Vec<Remark>> {
    let mut problems = Vec::new();
    let sections = sections(text, surroundings, &mut problems);
    let is_alone = sections.len() == 1;
    if sections.is_empty() && problems.is_empty() {
        let message = "the file has no job: add a section such as [job1]".to_owned();
        problems.push(Remark {
            line: text.lines().count().max(1),
            message,
        });
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
        let mut reader = Reader {
            options: section.options.clone(),
            is_alone,
            kilo: 1024,
            shared,
            problems: Vec::new(),
            notes: Vec::new(),
        };
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
        group += u32::from(section.begins_group() && !jobs.is_empty());
        job.group = group;
        jobs.push(job);
    }
    jobs.chunk_by_mut(|_, next| !next.waits)
        .for_each(|group| share_files(group, &mut problems));
    let processes: u64 = jobs.iter().map(|job| u64::from(job.processes)).sum();
    if let Some(last) = jobs.last().filter(|_| processes > MOST_PROCESSES) {
        let message =
            format!("{processes} processes in all are too many: at most {MOST_PROCESSES}");
        problems.push(Remark {
            line: last.line,
            message,
        });
    }
    // Options of [global] are read once for each job.
    for remarks in [&mut problems, &mut notes] {
        remarks.sort();
        remarks.dedup();
    }
    if problems.is_empty() {
        Ok(JobFile { jobs, notes })
    } else {
        Err(problems)
    }
}

/// The file of a job that a later job names, too.
#[derive(Debug, Clone)]
struct MadeFile {
    /// The last job that used it.
    job: String,
    bytes: u64,
    /// The way in which it differs from a file that was written in sequence.
    spoiled: Option<Spoiled>,
}

/// The way in which a file differs from one that was written in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoiled {
    AtRandom,
    /// Parts of it may be without data.
    Incomplete,
    Trimmed,
}

impl MadeFile {
    /// Returns the file after a job, which found it as `before` if it existed.
    fn after(job: &FioJob, before: Option<MadeFile>) -> MadeFile {
        let files = job.number("files");
        let bytes = files.saturating_mul(job.file_size());
        let moved = job
            .operations
            .map(|operations| operations.saturating_mul(job.record_size));
        let accessed = job
            .part
            .map_or(bytes, |part| files.saturating_mul(part.length));
        let written = before.as_ref().map_or(0, |before| before.bytes);
        let all = moved.is_some_and(|moved| moved >= accessed) && job.reaches_end_from(written);
        let whole = job.seconds.is_none() && all;
        let bytes = bytes.max(written);
        let spoiled = match job.workload.name.as_str() {
            "read" | "random-read" | "stride-read" | "backward-read" | "write" => None,
            "sparse-write" | "stride-write" if !whole => Some(Spoiled::Incomplete),
            "fallocate" => Some(Spoiled::Trimmed),
            "stride-write" => None,
            _ if job.workload.params.get("access") == Some(&"sequential".into()) => None,
            _ => Some(Spoiled::AtRandom),
        };
        MadeFile {
            job: job.name.clone(),
            bytes,
            spoiled: before.and_then(|before| before.spoiled).or(spoiled),
        }
    }
}

/// Lets the processes of a group that name one file access parts of it, whose size is that of the
/// largest.
fn share_files(group: &mut [FioJob], problems: &mut Vec<Remark>) {
    for first in 0..group.len() {
        let (directory, file) = (group[first].directory.clone(), group[first].file.clone());
        let same: Vec<&FioJob> = group
            .iter()
            .filter(|job| job.file == file && job.directory == directory)
            .collect();
        let processes: u32 = same.iter().map(|job| job.processes).sum();
        if file.is_none() || processes < 2 {
            continue;
        }
        let size = same
            .iter()
            .map(|job| job.file_size())
            .max()
            .unwrap_or_default();
        let holds_data = same.iter().any(|job| !job.makes_files());
        for job in group
            .iter_mut()
            .filter(|job| job.file == file && job.directory == directory)
        {
            let why = match () {
                () if job.direction == Direction::Trim => {
                    "would trim ranges that another one has released"
                }
                () if job.number("files") > 1 => "would share several files: leave out nrfiles",
                () if job.workload.params.contains_key("verify") => {
                    "would verify what another one is writing"
                }
                () => "",
            };
            if !why.is_empty() {
                let message = format!(
                    "filename: a process that shares its file with others {why}: leave out filename"
                );
                problems.push(Remark {
                    line: job.line,
                    message,
                });
                continue;
            }
            let whole = FilePart {
                offset: 0,
                increment: 0,
                length: job.file_size(),
                file_size: None,
            };
            let part = job.part.get_or_insert(whole);
            part.file_size = Some(size);
            job.workload.params.extend(part.params(0));
            if holds_data {
                job.overwrite();
            }
        }
    }
}

/// The workload of a section while it is read.
#[derive(Debug, Clone, Copy)]
struct Access {
    direction: Direction,
    random: bool,
    /// Whether the job reads from the last record to the first.
    backward: bool,
}

impl Access {
    /// Returns whether the job reads and writes.
    fn is_mix(self) -> bool {
        matches!(
            self.direction,
            Direction::Both | Direction::Mixed | Direction::BothAndMixed
        )
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

impl Backend {
    /// Returns how fio's I/O engine queues a sync like a request. `None` if it calls fsync, as fsb
    /// does.
    fn queues_syncs(self) -> Option<&'static str> {
        match self.name {
            name if name.starts_with("uring") => Some("submits the sync to the ring"),
            "posix-aio" => Some("queues the sync with aio_fsync"),
            _ => None,
        }
    }
}

/// The backends of fio's I/O engines whose calls have a flag, by the option that asks for it.
#[rustfmt::skip] // a table reads as one
const FLAGGED: &[(&str, &[(&str, &str)])] = &[
    ("hipri", &[("pvsync2", "preadv2-hipri")]),
    ("uncached", &[("pvsync2", "uncached"), ("io_uring", "uring-uncached")]),
    ("atomic", &[("pvsync2", "atomic"), ("libaio", "libaio-atomic"), ("io_uring", "uring-atomic")]),
    ("nowait", &[("pvsync2", "nowait"), ("libaio", "libaio-nowait"), ("io_uring", "uring-nowait")]),
];

/// The files of each process of a job.
#[derive(Debug, Clone, Copy)]
struct Files {
    count: u64,
    /// Bytes of each that the job accesses.
    size: u64,
    /// The part of each that they are, unless it is the whole file.
    part: Option<FilePart>,
    /// Whether the job takes the next record of each file in turn.
    takes_turns: bool,
    /// Whether bytes after the last record are left, which are less than one.
    leaves_rest: bool,
}

/// The way in which a job ends, as far as it decides the syncs.
#[derive(Debug, Clone, Copy)]
struct JobEnd {
    /// The line of the option that decides the amount.
    line: usize,
    /// Whether the job goes over its files more than once before its bytes end it. fio syncs at the
    /// end of each pass.
    passes: bool,
    /// Whether records may be drawn again and again, so that no pass ends.
    is_drawn: bool,
    /// Whether several requests are in flight.
    is_queued: bool,
    /// Whether bytes are left after the last record, so that fio looks for another one.
    leaves_rest: bool,
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
    /// The sizes of writes, if they differ from those of reads.
    write_sizes: Option<String>,
}

/// Takes the options of one section.
struct Reader {
    options: Options,
    /// Whether the file has no other section.
    is_alone: bool,
    /// The meaning of `k`: `kb_base`.
    kilo: u64,
    /// The file of the section, if an earlier job made it.
    shared: Option<MadeFile>,
    problems: Vec<Remark>,
    notes: Vec<Remark>,
}

impl Reader {
    fn refuse(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Remark {
            line,
            message: message.into(),
        });
    }

    fn note(&mut self, line: usize, message: impl Into<String>) {
        self.notes.push(Remark {
            line,
            message: message.into(),
        });
    }

    /// Returns the value that `parse` makes of an option. Refuses a value of which it makes none.
    fn value<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<(usize, T)> {
        let Written { line, value } = self.options.remove(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.refuse(
                line,
                format!(
                    "{name}: '{}' is not supported: give {expected}",
                    excerpt(&value)
                ),
            );
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
            value
                .parse()
                .ok()
                .filter(|number| (1..=most).contains(number))
        })
    }

    fn size(&mut self, name: &str) -> Option<(usize, u64)> {
        let kilo = self.kilo;
        self.value(name, "one size in bytes, such as 64m", |value| {
            bytes(value, kilo)
        })
    }

    /// Returns the job of a section, in the first group. Returns `None` after a problem.
    fn job(&mut self, section: &Section) -> Option<FioJob> {
        let line = section.line;
        let all = section
            .options
            .iter()
            .map(|(name, option)| (name.clone(), option.value.clone()))
            .collect();
        for (name, why) in REFUSED {
            if let Some(option) = self.options.remove(*name)
                && option.value != "0"
            {
                self.refuse(
                    option.line,
                    format!("fio's option {name} is not supported: {why}"),
                );
            }
        }
        if let Some(exit) = self.options.get("exitall")
            && self.is_alone
            && exit.value != "0"
            && self
                .options
                .get("numjobs")
                .is_none_or(|number| number.value == "1")
        {
            self.note(exit.line, "exitall has no effect: the file has one process");
            self.options.remove("exitall");
        }
        for (name, accepted, why) in DEFAULTS_ONLY {
            if let Some(option) = self.options.remove(*name)
                && !accepted.contains(&option.value.as_str())
            {
                self.refuse(
                    option.line,
                    format!("fio's option {name} is not supported: {why}"),
                );
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

        // As in fio, the name of a section replaces that of [global].
        let name = self
            .options
            .remove("name")
            .filter(|name| name.line > line)
            .map(|option| option.value)
            .filter(|name| !name.is_empty());
        let description = self
            .options
            .remove("description")
            .map(|option| option.value);
        let processes = self
            .number("numjobs", MOST_PROCESSES)
            .map_or(1, |(_, number)| number as u32);
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
        self.is_set("new_group", false);
        let (processors, splits_processors) = self.processors();
        let delay = self.value("startdelay", "one time such as 5 or 500ms", |value| {
            time(value, 1.0)
        });
        let start_delay = delay.map_or(0.0, |(_, delay)| delay);
        let directory = self.directory();
        let file = self.filename();
        let access = self.access(line);
        let work = access.and_then(|access| self.work(section, access, processes));
        let seed = self.seed();
        let percentiles = self.percentiles();
        for (name, option) in std::mem::take(&mut self.options) {
            match OF_WORK.contains(&name.as_str()) {
                false => self.refuse(
                    option.line,
                    format!(
                        "fio's option {} is not supported: remove it",
                        excerpt(&name)
                    ),
                ),
                true if work.is_some() => self.refuse(
                    option.line,
                    format!("{name}: this job does not use it: remove it"),
                ),
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
            processors,
            splits_processors,
            options: all,
        };
        Some(job)
    }

    /// Returns the processors that the job may use, and whether each process uses one of them.
    fn processors(&mut self) -> (Vec<u32>, bool) {
        let expected = "processors such as 0,2-3";
        let list = self.value("cpus_allowed", expected, |value| {
            let mut processors: Vec<u32> = Vec::new();
            for part in value.split([',', ':']) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let [first, last] = [first.trim().parse::<u32>().ok()?, last.trim().parse().ok()?];
                if first > last || last >= 1024 {
                    return None;
                }
                processors.extend(first..=last);
            }
            Some(processors)
        });
        let mask = self.value("cpumask", "a number of at most 64 bits", |value| {
            let mask = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok()?,
                None => value.parse().ok()?,
            };
            Some(
                (0..64)
                    .filter(|processor| mask >> processor & 1 == 1)
                    .collect::<Vec<u32>>(),
            )
        });
        let splits = self.value(
            "cpus_allowed_policy",
            "shared or split",
            |value| match value {
                "shared" => Some(false),
                "split" => Some(true),
                _ => None,
            },
        );
        let processors = list
            .or(mask)
            .map(|(_, processors)| processors)
            .unwrap_or_default();
        (processors, splits.is_some_and(|(_, splits)| splits))
    }

    fn directory(&mut self) -> Option<String> {
        let expected = "one directory: files are not spread over several";
        let named = self.value("directory", expected, |value| {
            (!value.is_empty() && !value.contains(':')).then(|| value.to_owned())
        });
        let directory = named.map(|(_, directory)| directory);
        // A path in filename names a directory too.
        let path = self
            .options
            .get("filename")
            .map(|option| option.value.clone());
        let above = path
            .as_deref()
            .and_then(|path| path.rsplit_once('/'))
            .map(|(above, _)| above);
        match (directory, above.filter(|above| !above.starts_with("/dev"))) {
            (Some(directory), Some(above)) => Some(format!("{directory}/{above}")),
            (None, Some("")) => Some("/".to_owned()),
            (None, Some(above)) => Some(above.to_owned()),
            (directory, None) => directory,
        }
    }

    fn filename(&mut self) -> Option<String> {
        let expected = "the name of one file: fsb makes the file itself and measures no devices";
        let (line, name) = self.value("filename", expected, |value| {
            let is_device = value.starts_with("/dev/") && !value.starts_with("/dev/shm/");
            let name = value.rsplit_once('/').map_or(value, |(_, name)| name);
            (!is_device && !name.is_empty() && !value.contains(':')).then(|| name.to_owned())
        })?;
        self.note(line, "filename has no effect: fsb makes files in a directory of its own and removes it at the end");
        let Some(MadeFile { job, spoiled, .. }) = self.shared.clone() else {
            return Some(name);
        };
        let own = format!(
            "filename: the job has a file of its own, filled in sequence, instead of that of job '{job}'"
        );
        match spoiled {
            None => self.note(line, own),
            Some(Spoiled::AtRandom) => {
                let note = "in fio it was written at random, which file systems that copy on write scatter";
                self.note(line, format!("{own}; {note}"));
            }
            Some(Spoiled::Incomplete) => {
                let note = "in fio parts of it may be without data, which are read faster";
                self.note(line, format!("{own}; {note}"));
            }
            Some(Spoiled::Trimmed) => {
                let message = format!(
                    "filename: job '{job}' or one before it trims the file, but fsb makes a file for each job and fills \
                     it: leave out filename if that will do"
                );
                self.refuse(line, message);
            }
        }
        Some(name)
    }

    fn access(&mut self, line: usize) -> Option<Access> {
        let given = self.options.get("rw").map_or(line, |option| option.line);
        let engine = self
            .options
            .get("ioengine")
            .map(|engine| engine.value.as_str());
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
        let backward = self.backward();
        let found = self.value("rw", expected, |value| {
            let access = |direction, random| {
                Some(Access {
                    direction,
                    random,
                    backward: false,
                })
            };
            match value {
                "read" if backward => Some(Access {
                    direction: Direction::Read,
                    random: false,
                    backward,
                }),
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
        let usual = Access {
            direction: Direction::Read,
            random: false,
            backward: false,
        };
        let usual = (given == line).then_some(usual);
        let mut access = found.map(|(_, access)| access).or(usual)?;
        let unified = self.value(
            "unified_rw_reporting",
            "none, mixed or both",
            |value| match value {
                "0" | "none" => Some(Direction::Both),
                "" | "1" | "mixed" => Some(Direction::Mixed),
                "2" | "both" => Some(Direction::BothAndMixed),
                _ => None,
            },
        );
        match unified {
            Some((_, unified)) if access.direction == Direction::Both => access.direction = unified,
            Some((line, unified)) if unified != Direction::Both => {
                self.note(
                    line,
                    "unified_rw_reporting has no effect: the job has one direction",
                );
            }
            _ => {}
        }
        Some(access)
    }

    /// Takes the part of `rw` after a colon. Returns whether the job reads backward: each record
    /// begins one record before the last one.
    fn backward(&mut self) -> bool {
        let kilo = self.kilo;
        let Some(option) = self.options.get_mut("rw") else {
            return false;
        };
        let Some((order, step)) = option
            .value
            .clone()
            .split_once(':')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
        else {
            return false;
        };
        let line = option.line;
        option.value = order;
        let record = self
            .options
            .get("bs")
            .map_or(Some(4096), |option| bytes(&option.value, kilo));
        let step = step.strip_prefix('-').and_then(|step| bytes(step, kilo));
        let is_backward = step.is_some() && step == record.map(|record| 2 * record);
        match is_backward && self.options["rw"].value == "read" {
            true => self.note(line, "rw: fsb reads every record once; fio reads the first one twice and not the last"),
            false => self.refuse(
                line,
                "rw: only rw=read:-STEP has a step, of twice the block size, which reads backward: leave it out, or use \
                 percentage_random",
            ),
        }
        is_backward
    }

    /// Returns the engine's backend.
    fn backend(&mut self, section: usize) -> Option<Backend> {
        let (direct, buffered) = (self.flag("direct"), self.flag("buffered"));
        if let (Some((_, direct)), Some((line, buffered))) = (direct, buffered)
            && direct == buffered
        {
            self.refuse(
                line,
                "buffered: it contradicts direct: leave one of them out",
            );
        }
        let direct = direct.map_or(
            buffered.is_some_and(|(_, buffered)| !buffered),
            |(_, direct)| direct,
        );
        let engine = self.options.remove("ioengine");
        let (line, engine) = engine.map_or((section, "psync".to_owned()), |option| {
            (option.line, option.value)
        });
        let flagged = self.flagged(&engine, direct);
        if engine == "pvsync" {
            self.note(
                line,
                "ioengine: fsb calls preadv2 without flags, fio preadv",
            );
        }
        let backend = |name, queues| {
            Some(Backend {
                name,
                queues,
                direct,
            })
        };
        match (engine.as_str(), direct) {
            ("psync", false) => backend("psync", false),
            ("psync", true) => backend("direct", false),
            ("sync", false) => backend("lseek", false),
            ("sync", true) => backend("lseek-direct", false),
            ("pvsync2", _) if flagged.is_some() => flagged.and_then(|name| backend(name, false)),
            ("pvsync" | "pvsync2", false) => backend("preadv2", false),
            ("pvsync" | "pvsync2", true) => backend("preadv2-direct", false),
            ("mmap", false) => backend("mmap", false),
            ("io_uring", _) => {
                let given = ["fixedbufs", "registerfiles"].map(|name| self.flag(name));
                if flagged == Some("uring-atomic") {
                    self.note(line, "ioengine: fsb registers files, as with registerfiles=1, and no buffers, which the kernel refuses for atomic writes");
                } else if given.iter().any(|flag| !matches!(flag, Some((_, true)))) {
                    self.note(line, "ioengine: fsb registers buffers and files, as with fixedbufs=1 registerfiles=1");
                }
                let usual = if direct { "uring-direct" } else { "uring" };
                backend(flagged.unwrap_or(usual), true)
            }
            ("libaio", _) => {
                let usual = if direct { "libaio-direct" } else { "libaio" };
                backend(flagged.unwrap_or(usual), true)
            }
            ("posixaio", false) => backend("posix-aio", true),
            (name, _) => {
                let advice = match name {
                    "falloc" => "fsb only trims with it: use rw=trim or randtrim",
                    "mmap" | "posixaio" => {
                        "it does not use direct=1 in fsb: use psync, libaio or io_uring"
                    }
                    "null" | "cpuio" | "exec" => "it does no I/O on files: leave the job out",
                    "filecreate" => "use 'fsb run --workload create'",
                    "filestat" => "use 'fsb run --workload stat'",
                    "filedelete" => "use 'fsb run --workload delete'",
                    "dircreate" => "use 'fsb run --workload mkdir'",
                    "vsync" => "use pvsync, psync or libaio",
                    _ => "use psync, sync, pvsync2, libaio, io_uring, mmap or posixaio",
                };
                self.refuse(
                    line,
                    format!("ioengine: {} is not supported: {advice}", excerpt(name)),
                );
                None
            }
        }
    }

    /// Returns the backend whose calls have the flag that an option asks for. Returns `None`
    /// without such an option.
    fn flagged(&mut self, engine: &str, direct: bool) -> Option<&'static str> {
        let asked = [
            ("hipri", self.hipri(engine, direct)),
            ("uncached", self.uncached(engine, direct)),
            ("atomic", self.atomic(engine, direct)),
            ("nowait", self.nowait(engine, direct)),
        ];
        let mut asked = asked
            .into_iter()
            .filter_map(|(name, line)| line.map(|line| (name, line)));
        let (first, _) = asked.next()?;
        if let Some((second, line)) = asked.next() {
            let text = format!(
                "{second}: the engine does not set two flags on one call: leave {first} out"
            );
            self.refuse(line, text);
            return None;
        }
        let (_, names) = FLAGGED.iter().find(|(name, _)| *name == first)?;
        let (_, backend) = names.iter().find(|(name, _)| *name == engine)?;
        Some(backend)
    }

    /// Returns the line that asks for atomic writes.
    fn atomic(&mut self, engine: &str, direct: bool) -> Option<usize> {
        let (line, atomic) = self.flag("atomic")?;
        if !atomic {
            return None;
        }
        let fault = match engine {
            "pvsync2" | "libaio" | "io_uring" if direct => return Some(line),
            "pvsync2" | "libaio" | "io_uring" => {
                "the kernel takes atomic writes with O_DIRECT only: use direct=1"
            }
            _ => "fio's engine does not support atomic writes: use pvsync2, libaio or io_uring",
        };
        self.refuse(line, format!("atomic: {fault}"));
        None
    }

    /// Returns the line that tells the page cache to keep nothing.
    fn uncached(&mut self, engine: &str, direct: bool) -> Option<usize> {
        // As in fio, other engines do not know the option.
        if !["pvsync2", "io_uring"].contains(&engine) {
            return None;
        }
        let (line, uncached) = self.flag("uncached")?;
        if uncached && direct {
            self.note(
                line,
                "uncached has no effect with direct=1: fio leaves it out, too",
            );
        }
        (uncached && !direct).then_some(line)
    }

    /// Returns the line that asks for calls that do not wait.
    fn nowait(&mut self, engine: &str, direct: bool) -> Option<usize> {
        // As in fio, other engines do not know the option.
        if !["pvsync2", "libaio", "io_uring"].contains(&engine) {
            return None;
        }
        let (line, nowait) = self.flag("nowait")?;
        if nowait && direct {
            self.refuse(
                line,
                "nowait: the engine sets RWF_NOWAIT through the page cache only: leave direct=1 out",
            );
        } else if nowait {
            self.note(
                line,
                "nowait: fsb counts the calls that would wait and makes each again without the flag; fio ends the job, \
                 or moves nothing with ignore_error=EAGAIN",
            );
        }
        (nowait && !direct).then_some(line)
    }

    /// Returns the line that asks for calls which poll the device for their completion.
    fn hipri(&mut self, engine: &str, direct: bool) -> Option<usize> {
        // As in fio, other engines do not know the option.
        if !["pvsync2", "io_uring"].contains(&engine) {
            return None;
        }
        let (line, hipri) = self.flag("hipri")?;
        if hipri && engine == "pvsync2" && !direct {
            self.note(line, "hipri has no effect: fio sets RWF_HIPRI, which the page cache ignores, and fsb does not");
        } else if hipri && engine == "io_uring" {
            self.refuse(
                line,
                "hipri: the engine does not poll the completions of io_uring: leave it out, or use pvsync2",
            );
        }
        (hipri && direct).then_some(line)
    }

    /// Returns the files of each process.
    fn files(
        &mut self,
        section: usize,
        access: Access,
        record: u64,
        processes: u32,
    ) -> Option<Files> {
        let is_given = ["size", "filesize"]
            .iter()
            .any(|name| self.options.contains_key(*name));
        let kilo = self.kilo;
        let expected = "one size in bytes, such as 64m, or in percent of filesize";
        let size = self.value("size", expected, |value| match value.strip_suffix('%') {
            Some(percent) => percent
                .parse()
                .ok()
                .filter(|percent| (1..=100).contains(percent))
                .map(FileShare::Percent),
            None => bytes(value, kilo).map(FileShare::Bytes),
        });
        let each = self.size("filesize");
        let (offset_line, offset) = self.offset("offset").unwrap_or((section, 0));
        let increment = self
            .offset("offset_increment")
            .filter(|(_, increment)| *increment > 0);
        let files = self
            .number("nrfiles", MOST_FILES)
            .map_or(1, |(_, files)| files);
        let order_line = self
            .options
            .get("file_service_type")
            .map_or(section, |order| order.line);
        let order = self
            .options
            .remove("file_service_type")
            .map(|option| option.value);
        if let Some((line, open)) = self.number("openfiles", 1 << 20)
            && open < files
        {
            self.refuse(
                line,
                "openfiles: the engine keeps all files of a process open: leave it out",
            );
        }
        // fio's default takes the next record of each file in turn.
        let in_turn =
            files > 1 && !access.random && matches!(order.as_deref(), None | Some("roundrobin"));
        let takes_turns = in_turn && !access.is_mix() && !access.backward;
        if files > 1
            && access.random
            && !matches!(order.as_deref(), None | Some("random" | "roundrobin"))
        {
            let message = "file_service_type: the engine takes a file at random for each record: use random or roundrobin";
            self.refuse(order_line, message);
        } else if files > 1 && access.random && order.as_deref() != Some("random") {
            self.note(
                section,
                "nrfiles: fsb takes a file at random for each record, fio the next one",
            );
        } else if files > 1
            && !access.random
            && !takes_turns
            && order.as_deref() != Some("sequential")
        {
            self.refuse(section, "nrfiles: the engine takes files in another order: add file_service_type=sequential");
        }
        // The size of a file that exists decides like `filesize`.
        let known = each.or(self
            .shared
            .as_ref()
            .filter(|_| files == 1)
            .map(|shared| (section, shared.bytes)));
        let (line, length, file_size) = match (size, known) {
            (Some((line, FileShare::Bytes(size))), known) => {
                // As in fio, the size that is given for a file limits the bytes of the job.
                let most = each.map_or(u64::MAX, |(_, file)| file.saturating_sub(offset));
                (line, (size / files).min(most), known.map(|(_, file)| file))
            }
            (Some((line, FileShare::Percent(percent))), Some((_, file))) => {
                let share = (u128::from(file) * u128::from(percent) / 100) as u64;
                (
                    line,
                    share.min(file.saturating_sub(offset)) / record * record,
                    Some(file),
                )
            }
            (Some((line, FileShare::Percent(_))), None) => {
                self.refuse(line, "size: in fio a percentage is one of the size of a file that exists: add filesize");
                return None;
            }
            (None, Some((line, file))) => (line, file.saturating_sub(offset), Some(file)),
            // The value was refused.
            (None, None) if is_given => return None,
            (None, None) => {
                let message =
                    "the job has no size: add size=SIZE, because fsb uses no existing files";
                self.refuse(section, message);
                return None;
            }
        };
        if length < record {
            self.refuse(
                line,
                format!("size: {length} bytes of each file are less than bs, {record}"),
            );
            return None;
        }
        // As in fio, no access reaches the bytes after the last whole record.
        let (leaves_rest, length) = (!length.is_multiple_of(record), length / record * record);
        let file_size = file_size.map(|file| (file / record * record).max(offset + length));
        let given = [
            Some((offset_line, "offset", offset)),
            increment.map(|(line, by)| (line, "offset_increment", by)),
        ];
        for (line, name, bytes) in given
            .into_iter()
            .flatten()
            .filter(|(_, _, bytes)| !bytes.is_multiple_of(record))
        {
            self.refuse(
                line,
                format!("{name}: {bytes} bytes are not a multiple of bs, {record}"),
            );
        }
        if let Some((line, _)) =
            increment.filter(|_| !matches!(size, Some((_, FileShare::Bytes(_)))))
        {
            self.refuse(
                line,
                "offset_increment: each process would access up to the end of the file: give size in bytes",
            );
        }
        let part = FilePart {
            offset,
            increment: increment.map_or(0, |(_, increment)| increment),
            length,
            file_size,
        };
        if let Some(shared) = self.shared.as_ref()
            && (part.end(processes - 1) > shared.bytes || files > 1)
        {
            let message = format!(
                "size: the file of job '{}' has {} bytes: use that size",
                shared.job, shared.bytes
            );
            self.refuse(line, message);
        }
        let is_whole =
            part.end(processes - 1) == length && file_size.is_none_or(|file| file == length);
        Some(Files {
            count: files,
            size: length,
            part: (!is_whole).then_some(part),
            takes_turns,
            leaves_rest,
        })
    }

    /// Returns a place in a file, which may be its start.
    fn offset(&mut self, name: &str) -> Option<(usize, u64)> {
        let kilo = self.kilo;
        self.value(
            name,
            "one size in bytes, such as 64m",
            |value| match value {
                "0" => Some(0),
                _ => bytes(value, kilo),
            },
        )
    }

    /// Returns the sizes of records. As in fio, a second value is that of writes.
    fn records(&mut self, access: Access) -> Option<Records> {
        let kilo = self.kilo;
        let given = ["bsrange", "bssplit"].map(|name| self.options.contains_key(name));
        let one = self.value(
            "bs",
            "one size for each direction, such as 4k or 4k,64k",
            |value| {
                let sizes = by_direction(value)
                    .into_iter()
                    .map(|size| bytes(size, kilo))
                    .collect::<Option<Vec<_>>>()?;
                Some(
                    sizes
                        .into_iter()
                        .map(|size| (size, format!("{size}/100")))
                        .collect::<Vec<_>>(),
                )
            },
        );
        let range = self.value(
            "bsrange",
            "one range for each direction, such as 4k-64k",
            |value| {
                by_direction(value)
                    .into_iter()
                    .map(|value| size_range(value, kilo))
                    .collect::<Option<Vec<_>>>()
            },
        );
        let expected = "sizes with their percent, which add up to 100, such as 4k/60:64k/40";
        let split = self.value("bssplit", expected, |value| {
            by_direction(value)
                .into_iter()
                .map(|value| split(value, kilo))
                .collect::<Option<Vec<_>>>()
        });
        // The value was refused.
        if given.contains(&true) && range.is_none() && split.is_none() {
            return None;
        }
        if let (Some((line, _)), Some(_)) = (&range, &split) {
            self.refuse(*line, "bsrange: leave out bssplit, or bsrange");
        }
        let sizes = match (range.or(split), one) {
            (Some(sizes), Some((line, _))) => {
                self.note(
                    line,
                    "bs has no effect: bsrange or bssplit gives the sizes, as in fio",
                );
                Some(sizes)
            }
            (sizes, one) => sizes.or(one),
        };
        let Some((line, sizes)) = sizes else {
            return Some(Records {
                smallest: 4096,
                sizes: None,
                write_sizes: None,
            });
        };
        let (reads, writes) = (sizes[0].clone(), sizes.get(1).unwrap_or(&sizes[0]).clone());

        let own = match access.direction {
            Direction::Read | Direction::Trim => reads,
            Direction::Write => writes,
            _ if reads == writes => reads,
            _ => {
                let smallest = greatest_common_divisor(reads.0, writes.0);
                return Some(Records {
                    smallest,
                    sizes: Some((line, reads.1)),
                    write_sizes: Some(writes.1),
                });
            }
        };
        let (smallest, text) = own;
        let sizes = (text != format!("{smallest}/100")).then_some((line, text));
        Some(Records {
            smallest,
            sizes,
            write_sizes: None,
        })
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
        let open_sync = self.open_sync(access, backend);
        let files = self.files(line, access, record, processes)?;
        let depth = self.depth(line, access, backend);
        // An earlier job has filled the file.
        let overwrite = self.is_set("overwrite", false).1 || self.shared.is_some();
        let is_new = access.direction == Direction::Write && !overwrite;
        let allocate = self.layout(is_new);
        let hint = self.hint(access, backend);
        let (cache, evict) = self.cache(backend.direct, is_new);
        let pass = files.count.saturating_mul(files.size / record);
        let Amount {
            line: amount_line,
            operations,
            seconds,
            is_timed,
            asked,
        } = self.amount(line, access, &records, pass)?;
        let one_pass = operations.is_some_and(|operations| operations <= pass);
        let ramp_seconds = self.ramp(operations, backend);
        let mut params: Vec<Parameter> = vec![
            ("files", files.count.into()),
            ("file_size", files.size.into()),
            ("block_size", record.into()),
            ("backend", backend.name.into()),
            ("depth", depth.into()),
            ("threads", 1.into()),
            ("cache", cache.into()),
        ];
        let whole = operations.is_some_and(|operations| operations.is_multiple_of(pass));
        let has_rest = asked.map_or(files.leaves_rest, |asked| {
            asked > operations.unwrap_or(0).saturating_mul(record)
        });
        let job_end = JobEnd {
            line: amount_line,
            passes: !one_pass && !is_timed,
            is_drawn: ["norandommap", "random_distribution"]
                .iter()
                .any(|name| self.options.contains_key(*name)),
            is_queued: depth > 1,
            leaves_rest: whole && has_rest,
        };
        params.extend(self.syncs(access, backend, files.count, job_end));
        params.extend(self.order(access, &records, &files, evict && !one_pass));
        params.extend(self.pace(access, &records));
        let batch = if depth > 1 { self.batch(depth) } else { None };
        let optional = [
            batch.map(|batch| ("batch", batch.into())),
            open_sync.map(|flag| ("open_sync", flag.into())),
            hint.map(|hint| ("hint", hint.into())),
            self.data(record).map(|data| ("data", data)),
            is_new.then(|| ("allocate", allocate.into())),
            (is_new && !one_pass).then(|| ("further_passes", true.into())),
            self.verify(
                access,
                backend,
                one_pass,
                files.part.is_some(),
                is_new && seconds.is_some(),
            )
            .then(|| ("verify", true.into())),
        ];
        params.extend(optional.into_iter().flatten());
        if !one_pass && backend.name == "mmap" {
            self.refuse(
                amount_line,
                "the job goes over its files more than once, but would map the files again for each pass: use another \
                 ioengine",
            );
        }
        self.check_files(line, access, &records, &files);
        let name = self.workload(line, access, &files, is_new, &mut params);
        let mut params: Params = params
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        params.extend(files.part.iter().flat_map(|part| part.params(0)));
        Some(Work {
            spec: WorkloadSpec::new(name, params),
            part: files.part,
            record_size: record,
            operations,
            seconds,
            ramp_seconds,
            evict,
            latency: if backend.queues {
                LatencyKind::Total
            } else {
                LatencyKind::Completion
            },
        })
    }

    /// Returns the parameters of the order and the sizes of the records. `evicts` is whether fio
    /// drops the page cache before each pass.
    fn order(
        &mut self,
        access: Access,
        records: &Records,
        files: &Files,
        evicts: bool,
    ) -> Vec<Parameter> {
        self.generator(records.sizes.is_some());
        let distribution = self.distribution(access);
        let sequential = self.sequential(access, files.count);
        let mix = self.mix(access);
        let optional = [
            // Drawn records have no passes.
            (evicts && distribution.is_none()).then(|| ("evict_passes", true.into())),
            distribution.map(|distribution| ("random_distribution", distribution.into())),
            sequential.map(|share| ("sequential", format!("{share}%").into())),
            records
                .sizes
                .as_ref()
                .map(|(_, sizes)| ("record_sizes", sizes.as_str().into())),
            records
                .write_sizes
                .as_deref()
                .map(|sizes| ("write_sizes", sizes.into())),
            access.is_mix().then(|| ("mix", format!("{mix}%").into())),
            access
                .direction
                .is_apart()
                .then(|| ("by_direction", true.into())),
            files
                .takes_turns
                .then(|| ("stride", (files.size / records.smallest).into())),
        ];
        optional.into_iter().flatten().collect()
    }

    /// Returns the name of the engine's workload, and sets the parameters that only it has.
    fn workload(
        &mut self,
        line: usize,
        access: Access,
        files: &Files,
        is_new: bool,
        params: &mut Vec<Parameter>,
    ) -> &'static str {
        match (access.direction, access.random) {
            (Direction::Read, _) if access.backward => "backward-read",
            (Direction::Read, false) if files.takes_turns => "stride-read",
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "random-read",
            (Direction::Write, false) if is_new && files.takes_turns => "stride-write",
            (Direction::Write, random) if is_new => {
                params.push((
                    "access",
                    if random { "random" } else { "sequential" }.into(),
                ));
                "sparse-write"
            }
            (Direction::Write, true) => "random-write",
            (Direction::Write, false) => {
                if files.takes_turns {
                    self.refuse(
                        line,
                        "nrfiles: the engine overwrites files in another order: add file_service_type=sequential",
                    );
                }
                params.push(("overwrite", true.into()));
                "write"
            }
            // A job that trims has returned.
            (_, true) => "random-mix",
            (_, false) => "sequential-mix",
        }
    }

    /// Refuses several files and records of several sizes where the engine has one.
    fn check_files(&mut self, section: usize, access: Access, records: &Records, files: &Files) {
        if access.is_sequential_mix() && files.count > 1 {
            self.refuse(
                section,
                "nrfiles: reads and writes have places of their own in one file only: leave it out",
            );
        }
        let Some((line, _)) = records.sizes else {
            return;
        };
        let why = match () {
            () if files.count > 1 => "records of several sizes divide one file: use nrfiles=1",
            () if access.is_sequential_mix() => {
                "reads and writes in sequence have one size: use bs, or rw=randrw"
            }
            () if access.backward || files.takes_turns => {
                "the engine reads records of one size in this order: use bs"
            }
            () => return,
        };
        self.refuse(line, format!("bs, bsrange, bssplit: {why}"));
    }

    /// Returns the engine's parameter for the flag with which files are opened.
    fn open_sync(&mut self, access: Access, backend: Backend) -> Option<&'static str> {
        let (line, flag) = self.value("sync", "0, sync or dsync", |value| match value {
            "0" | "none" => Some(None),
            "1" | "sync" => Some(Some("osync")),
            "dsync" => Some(Some("dsync")),
            _ => None,
        })?;
        let flag = flag?;
        if access.direction == Direction::Read {
            self.note(line, "sync has no effect: the job reads only");
            return None;
        }
        if backend.name == "mmap" {
            self.note(line, "sync has no effect: the ioengine writes to mappings");
            return None;
        }
        Some(flag)
    }

    /// Returns the work of a job that releases ranges of its files, with fio's engine falloc.
    fn trims(
        &mut self,
        section: usize,
        access: Access,
        records: &Records,
        processes: u32,
    ) -> Option<Work> {
        let record = records.smallest;
        if let Some((line, _)) = &records.sizes {
            self.refuse(
                *line,
                "bsrange, bssplit: the engine trims ranges of one size: use bs",
            );
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
                    format!(
                        "{name} has no effect: a trim moves no data, and fio syncs writes only"
                    ),
                );
            }
        }
        let Files {
            count: files,
            size: file_size,
            part,
            ..
        } = self.files(section, access, record, processes)?;
        if part.is_some() {
            self.refuse(
                section,
                "offset, size: the engine trims whole files: leave out offset and percentages",
            );
        }
        self.layout(false);
        let pass = files.saturating_mul(file_size / record);
        let Amount {
            line,
            operations,
            seconds,
            ..
        } = self.amount(section, access, records, pass)?;
        if operations.is_none_or(|operations| operations > pass) {
            self.refuse(
                line,
                "the job trims its files more than once, but then nothing is left to release",
            );
        }
        self.generator(false);
        if self.shared.is_none() {
            let message = "the trims release blocks that hold data: fio's new files have none, or only reserved ones";
            self.note(section, message);
        }
        let order = if access.random {
            "random"
        } else {
            "sequential"
        };
        let params: [(&str, serde_json::Value); 6] = [
            ("mode", "punch".into()),
            ("files", files.into()),
            ("file_size", file_size.into()),
            ("block_size", record.into()),
            ("access", order.into()),
            ("threads", 1.into()),
        ];
        let params = params
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
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

    /// Returns the shares of the data that compression and deduplication save, as the engine's
    /// parameter.
    fn data(&mut self, record: u64) -> Option<serde_json::Value> {
        let kilo = self.kilo;
        let expected =
            "512: the compressible parts of the engine's data are in pieces of 512 bytes";
        self.value("buffer_compress_chunk", expected, |value| {
            (bytes(value, kilo) == Some(512)).then_some(())
        });
        let mut shares = serde_json::Map::new();
        for (option, name) in [
            ("buffer_compress_percentage", "compressible"),
            ("dedupe_percentage", "duplicate"),
        ] {
            let Some((line, percent)) = self.value(option, "a number from 0 to 100", |value| {
                value.parse::<u64>().ok().filter(|percent| *percent <= 100)
            }) else {
                continue;
            };
            if percent > 0 {
                shares.insert(name.to_owned(), format!("{percent}%").into());
            }
            if name == "duplicate" && record != 4096 {
                self.note(
                    line,
                    "dedupe_percentage: fsb repeats blocks of 4096 bytes, fio whole records",
                );
            }
        }
        (!shares.is_empty()).then(|| shares.into())
    }

    /// Takes the generator of random offsets. With each of fio's, a pass visits every record once.
    fn generator(&mut self, several_sizes: bool) {
        let Some((line, generator)) = self.value(
            "random_generator",
            "tausworthe, tausworthe64 or lfsr",
            |value| {
                ["tausworthe", "tausworthe64", "lfsr"]
                    .contains(&value)
                    .then(|| value.to_owned())
            },
        ) else {
            return;
        };
        if generator == "lfsr" && (several_sizes || self.options.contains_key("norandommap")) {
            let message = "random_generator: with lfsr, fio ignores norandommap and may repeat records of several sizes: \
                           use tausworthe";
            self.refuse(line, message);
        }
        self.note(
            line,
            "random_generator has no effect: fsb draws offsets with its own generator",
        );
    }

    /// Returns the number of requests in flight.
    fn depth(&mut self, section: usize, access: Access, backend: Backend) -> u64 {
        let Some((line, depth)) = self.number("iodepth", 4096) else {
            return 1;
        };
        if depth == 1 {
            return 1;
        }
        if !backend.queues {
            self.note(
                line,
                "iodepth has no effect: the ioengine has one request in flight, as in fio",
            );
            return 1;
        }
        if access.is_sequential_mix() {
            if backend.direct {
                let message = "iodepth: the engine reads and writes in sequence one record at a time: use iodepth=1";
                self.refuse(section, message);
            } else {
                self.note(
                    line,
                    "iodepth has no effect: fsb reads and writes in sequence one record at a time; through the page cache, \
                     the kernel moves the data of the request before it returns",
                );
            }
            return 1;
        }
        depth
    }

    /// Takes the options that decide how many requests are submitted and awaited together. Returns
    /// the number that is awaited together.
    fn batch(&mut self, depth: u64) -> Option<u64> {
        if let Some((line, _)) = self.number("iodepth_batch", 4096) {
            self.note(
                line,
                "iodepth_batch has no effect: fsb submits all requests that are due in one call",
            );
        }
        if let Some((line, low)) = self.number("iodepth_low", 4096)
            && low < depth
        {
            let message = "iodepth_low: the engine fills its queue after each completion, and waits for no mark: use \
                           iodepth_batch_complete_min, or leave it out";
            self.refuse(line, message);
        }
        if let Some((line, _)) = self.value("iodepth_batch_complete_max", "a number", |value| {
            value.parse::<u64>().ok()
        }) {
            self.note(line, "iodepth_batch_complete_max has no effect: fsb takes all completions that there are");
        }
        let least = self.value(
            "iodepth_batch_complete_min",
            "a number up to iodepth",
            |value| value.parse::<u64>().ok().filter(|least| *least <= depth),
        );
        if let Some((line, 0)) = least {
            self.note(
                line,
                "iodepth_batch_complete_min has no effect: fsb waits for a completion, fio with 0 asks for some",
            );
        }
        least.map(|(_, least)| least).filter(|least| *least > 1)
    }

    /// Takes the options that decide how files are made. Returns the engine's parameter for files
    /// without data.
    fn layout(&mut self, is_new: bool) -> &'static str {
        let allocation = self.value(
            "fallocate",
            "none, native, posix, keep or truncate",
            |value| match value {
                "none" | "0" => Some("none"),
                "native" | "posix" | "1" => Some("blocks"),
                "keep" => Some("blocks-beyond-end"),
                "truncate" => Some("size"),
                _ => None,
            },
        );
        let (line, on_open) = self.is_set("create_on_open", false);
        if on_open && !is_new {
            self.refuse(
                line,
                "create_on_open: the job needs files that hold data: leave it out",
            );
        }
        // A file that the job creates as it opens it is empty.
        if on_open {
            "none"
        } else {
            allocation.map_or("blocks", |(_, allocation)| allocation)
        }
    }

    /// Returns the advice about the access that the kernel gets for each file.
    fn hint(&mut self, access: Access, backend: Backend) -> Option<&'static str> {
        let usual = if access.random {
            "random"
        } else {
            "sequential"
        };
        let given = self.value(
            "fadvise_hint",
            "0, 1, random or sequential",
            |value| match value {
                "0" | "none" => Some(None),
                "" | "1" => Some(Some(usual)),
                "random" => Some(Some("random")),
                "sequential" => Some(Some("sequential")),
                _ => None,
            },
        );
        let hint = given.map_or(Some(usual), |(_, hint)| hint);
        // fio advises the kernel about the mapping instead.
        hint.filter(|_| backend.name != "mmap")
    }

    /// Returns the state of the cache at the start, and whether the data of the files is dropped
    /// from it.
    fn cache(&mut self, direct: bool, is_new: bool) -> (&'static str, bool) {
        let (_, invalidate) = self.is_set("invalidate", true);
        let (_, pre_read) = self.is_set("pre_read", false);
        match () {
            () if direct => ("any", false),
            () if pre_read && !is_new => ("warm", false),
            () => ("any", invalidate),
        }
    }

    /// Returns the end of the job. Records of several sizes count as many of the smallest.
    fn amount(
        &mut self,
        section: usize,
        access: Access,
        records: &Records,
        pass: u64,
    ) -> Option<Amount> {
        let record = records.smallest;
        let io_size = self.size("io_size");
        let loops = self.number("loops", 1 << 32);
        if let Some((line, _)) = loops.filter(|(_, loops)| *loops > 1 && access.is_sequential_mix())
        {
            self.refuse(
                line,
                "loops: fio starts reads and writes at the first record again: use io_size",
            );
        }
        let number = self.number("number_ios", 1 << 48);
        if let (Some((line, _)), Some(_)) = (number, &records.sizes) {
            self.refuse(line, "number_ios: the engine ends records of several sizes after their bytes: use io_size");
        }
        let seconds = self.value("runtime", "a time such as 30 or 500ms", |value| {
            time(value, 1.0)
        });
        let seconds = seconds
            .map(|(_, seconds)| seconds)
            .filter(|seconds| *seconds > 0.0);
        let (timed, time_based) = self.is_set("time_based", false);
        let line = io_size
            .map(|(line, _)| line)
            .or(loops.map(|(line, _)| line))
            .unwrap_or(section);
        if let Some((line, _)) = &records.sizes
            && access.random
            && records.write_sizes.is_some()
            && !self.options.contains_key("norandommap")
            && !(time_based && seconds.is_some())
        {
            let message = "bs: fio counts records of both sizes in one map, so its job ends before it has moved its bytes: add \
                           norandommap, or time_based with a runtime";
            self.refuse(*line, message);
        }
        if time_based && seconds.is_some() {
            return Some(Amount {
                line: timed,
                operations: None,
                seconds,
                is_timed: true,
                asked: None,
            });
        }
        if time_based {
            self.note(
                timed,
                "time_based has no effect: the job has no runtime, as in fio",
            );
        }
        // As in fio, both are amounts of one loop, and the job ends with the record that reaches
        // its bytes.
        let loops = loops.map_or(1, |(_, loops)| loops);
        let asked = io_size.map(|(_, bytes)| bytes.saturating_mul(loops));
        let operations = asked.map_or(pass.saturating_mul(loops), |bytes| {
            // At the end of a pass, fio begins no other one for less than a record.
            let is_pass = bytes >= record && (bytes / record).is_multiple_of(pass);
            if is_pass {
                bytes / record
            } else {
                bytes.div_ceil(record)
            }
        });
        let operations = number.map_or(operations, |(_, number)| {
            operations.min(number.saturating_mul(loops))
        });
        Some(Amount {
            line,
            operations: Some(operations),
            seconds,
            is_timed: false,
            asked,
        })
    }

    /// Returns the parameters of the syncs between the writes and at the end.
    fn syncs(
        &mut self,
        access: Access,
        backend: Backend,
        files: u64,
        job_end: JobEnd,
    ) -> Vec<Parameter> {
        let mut given = Vec::new();
        for call in ["fsync", "fdatasync"] {
            let found = self
                .value(call, "a number of writes", |value| {
                    value.parse().ok().filter(|number: &u64| *number <= 1 << 32)
                })
                .filter(|(_, every)| *every > 0);
            given.extend(found.map(|(line, every)| (line, call, every)));
        }
        let range = self.value(
            "sync_file_range",
            "steps and a number of writes, such as write:8",
            file_range,
        );
        let end = self.end_sync(access, files, job_end);
        // As in fio, a job that only reads syncs nothing.
        if access.direction == Direction::Read {
            return Vec::new();
        }
        let mut params = Vec::new();
        match given[..] {
            [] => {}
            [(line, ..), _] => self.refuse(line, "fsync: leave out fdatasync, or fsync"),
            [(line, call, _), ..] if files > 1 => {
                self.refuse(
                    line,
                    format!(
                        "{call}: fio syncs another file than that of the last write: use one file"
                    ),
                );
            }
            // As in fio, a mapping has one way to sync.
            [(_, _, every), ..] if backend.name == "mmap" => {
                params.push(("fdatasync", every.into()))
            }
            [(_, call, every), ..] => params.push((call, every.into())),
        }
        if let [(line, call, _), ..] = given[..]
            && let Some(how) = backend.queues_syncs()
        {
            self.note(
                line,
                format!("{call}: fio {how}, fsb calls {call} and submits no request meanwhile"),
            );
        }
        // fio syncs before it finds that the rest is less than a record.
        if job_end.leaves_rest && !params.is_empty() {
            params.push(("sync_last", true.into()));
        }
        if let Some((line, (steps, every))) = range.filter(|(_, (_, every))| *every > 0) {
            if given.iter().any(|(_, call, _)| *call == "fsync")
                || files > 1
                || backend.name == "mmap"
            {
                self.refuse(
                    line,
                    "sync_file_range: use one file, no fsync, and another ioengine than mmap",
                );
            }
            params.extend([
                ("sync_file_range", every.into()),
                ("range_steps", steps.into()),
            ]);
        }
        if let Some(line) = end {
            match (job_end.passes && job_end.is_queued, params.is_empty()) {
                (true, false) => self.refuse(
                    line,
                    "end_fsync: with several requests in flight, the engine does not sync after each pass as fio does: leave \
                     it out, or the other syncs, or use iodepth=1",
                ),
                (true, true) if files > 1 => {
                    self.refuse(line, "end_fsync: fio syncs each file after each pass: use one file, or iodepth=1");
                }
                (true, true) => params.push(("durability", "end".into())),
                (false, _) if backend.name == "mmap" => params.push(("end_fdatasync", true.into())),
                (false, _) => params.push(("end_fsync", true.into())),
            }
        }
        if job_end.passes && !params.is_empty() {
            self.check_passes(access, end, job_end);
            if !job_end.is_drawn && !job_end.is_queued {
                params.push(("sync_passes", true.into()));
            }
        }
        params
    }

    /// Refuses syncs in a job of several passes that end at other places in fio.
    fn check_passes(&mut self, access: Access, end: Option<usize>, job_end: JobEnd) {
        if access.is_mix() {
            let message = "the job reads and writes in several passes with syncs, and fio ends passes of a mix elsewhere: \
                           leave out the syncs, or use one pass";
            self.refuse(end.unwrap_or(job_end.line), message);
        } else if let Some(line) = end.filter(|_| job_end.is_drawn) {
            let message = "end_fsync: without a random map, fio syncs once for each loop, and the engine once: leave out \
                           loops, or the option that draws records again";
            self.refuse(line, message);
        }
    }

    /// Takes the options of the sync at the end. Returns the line of one that is set.
    fn end_sync(&mut self, access: Access, files: u64, job_end: JobEnd) -> Option<usize> {
        let end = self
            .flag("end_fsync")
            .filter(|(_, end)| *end)
            .map(|(line, _)| line);
        let Some((line, true)) = self.flag("fsync_on_close") else {
            return end;
        };
        if access.direction != Direction::Read && files > 1 {
            let message = "fsync_on_close: fio closes each of several files after its last record, the engine all at \
                           the end: use end_fsync=1, or one file";
            self.refuse(line, message);
        }
        if access.direction != Direction::Read && job_end.passes {
            self.refuse(
                line,
                "fsync_on_close: fio syncs twice after each pass but the last: use end_fsync=1",
            );
        }
        end.or(Some(line))
    }

    /// Returns the seconds whose records fio discards.
    fn ramp(&mut self, operations: Option<u64>, backend: Backend) -> Option<f64> {
        let (line, ramp) = self.value("ramp_time", "a time such as 30 or 500ms", |value| {
            time(value, 1.0)
        })?;
        if ramp == 0.0 {
            return None;
        }
        if operations.is_some() {
            self.refuse(
                line,
                "ramp_time: the work of the job would end during it or after it: add time_based",
            );
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
    fn pace(&mut self, access: Access, records: &Records) -> Vec<Parameter> {
        let (record, kilo) = (records.smallest, self.kilo);
        let mut params = Vec::new();
        self.value("rate_process", "linear", |value| {
            (value == "linear").then_some(())
        });
        let expected = "bytes per second such as 1m, for each direction: 1m,500k";
        let bandwidth = self.value("rate", expected, |value| {
            rates(value, |rate| bytes(rate, kilo))
        });
        let expected = "operations per second, for each direction: 1000,500";
        let operations = self.value("rate_iops", expected, |value| {
            rates(value, |rate| {
                rate.parse::<u64>().ok().filter(|rate| *rate <= 10_000_000)
            })
        });
        let think_time = self.value(
            "thinktime",
            "a time in microseconds such as 500, or 5ms",
            |value| time(value, 1e-6),
        );
        let every = self.number("thinktime_blocks", 1 << 32);
        if let (Some((line, _)), Some(_)) = (&bandwidth, &operations) {
            self.refuse(*line, "rate: leave out rate_iops, or rate");
        }
        let operations =
            operations.map(|(line, rates)| (line, rates.map(|rate| rate.saturating_mul(record))));
        if let Some((_, [reads, writes])) = bandwidth.or(operations) {
            let [of_reads, of_writes] = [
                access.direction != Direction::Write,
                access.direction != Direction::Read,
            ];
            params.extend((of_reads && reads > 0).then(|| ("read_bandwidth", reads.into())));
            params.extend((of_writes && writes > 0).then(|| ("write_bandwidth", writes.into())));
        }
        if let Some((_, pause)) = think_time.filter(|(_, pause)| *pause > 0.0) {
            params.push(("think_time", format!("{}us", (pause * 1e6).round()).into()));
            params.extend(every.map(|(_, every)| ("think_every", every.into())));
        }
        params
    }

    /// Returns the distribution of a random order, if its records are drawn again and again.
    fn distribution(&mut self, access: Access) -> Option<String> {
        let (_, without_map) = self.is_set("norandommap", false);
        // Records are drawn again although others were not visited yet: half of them get half of
        // the draws.
        let unmapped = (without_map && access.random).then(|| "pareto:0.5".to_owned());
        // The exponent 1 does not exist in fio.
        let expected = "random, zipf:THETA (not 1), pareto:H or zoned:ACCESSES/SIZE:...";
        let given = self.value("random_distribution", expected, |value| {
            let number = |text: &str| {
                text.parse::<f64>()
                    .ok()
                    .filter(|number| number.is_finite() && *number > 0.0)
            };
            match value.split_once(':') {
                None if value == "random" => Some(value.to_owned()),
                // fio's defaults.
                None if value == "zipf" => Some("zipf:1.1".to_owned()),
                None if value == "pareto" => Some("pareto:0.2".to_owned()),
                Some(("zipf", theta)) => number(theta)
                    .filter(|theta| *theta != 1.0)
                    .map(|_| value.to_owned()),
                Some(("pareto", h)) => number(h).filter(|h| *h < 1.0).map(|_| value.to_owned()),
                Some(("zoned", zones)) => zoned(zones),
                _ => None,
            }
        });
        let Some((line, distribution)) = given.filter(|(_, given)| given != "random") else {
            return unmapped;
        };
        if !access.random {
            self.note(
                line,
                "random_distribution has no effect: the job is sequential",
            );
            return None;
        }
        Some(distribution)
    }

    /// Returns the percent of visits in sequence of a random job, if there are such. As in fio, the
    /// option has no effect on a sequential job.
    fn sequential(&mut self, access: Access, files: u64) -> Option<u64> {
        let (line, random) =
            self.value("percentage_random", "one number from 0 to 100", |value| {
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
            () => return Some(100 - random),
        };
        self.refuse(line, format!("percentage_random: {advice}"));
        None
    }

    /// Returns whether the files are compared with what was written.
    fn verify(
        &mut self,
        access: Access,
        backend: Backend,
        one_pass: bool,
        partial: bool,
        may_end: bool,
    ) -> bool {
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
            if value == "0" {
                Some(false)
            } else {
                METHODS.contains(&value).then_some(true)
            }
        });
        let (_, does) = self.is_set("do_verify", true);
        // The engine ends with the first difference in any case.
        self.is_set("verify_fatal", false);
        let Some((line, true)) = found else {
            return false;
        };
        let refusal = match () {
            () if access.direction != Direction::Write => {
                "only jobs that write verify: they compare what they wrote"
            }
            () if !backend.direct => {
                "fsb would compare buffered data in the page cache, which fio drops: add direct=1"
            }
            () if partial => "the engine compares whole files: leave out offset and percentages",
            () if !one_pass => {
                "fio verifies after each pass, the engine at the end: write the files once"
            }
            () if may_end => {
                "the engine compares whole files, and the job may end before: leave out runtime"
            }
            () => "",
        };
        if !refusal.is_empty() {
            self.refuse(line, format!("verify: {refusal}"));
            return false;
        }
        let how = match does {
            true => {
                "compares every byte with what it wrote, without checksums, and reports no results of these reads"
            }
            false => "writes no checksums, and with do_verify=0 it compares nothing",
        };
        self.note(line, format!("verify: fsb {how}"));
        does
    }

    /// Returns the per cent of reads. As in fio, it has no effect on a job of one direction.
    fn mix(&mut self, access: Access) -> u64 {
        let [reads, writes] = ["rwmixread", "rwmixwrite"].map(|name| {
            self.value(name, "a number from 0 to 100", |value| {
                value.parse::<u64>().ok().filter(|percent| *percent <= 100)
            })
        });
        for (line, percent) in [reads, writes].into_iter().flatten() {
            if access.is_mix() && [0, 100].contains(&percent) {
                self.refuse(
                    line,
                    "rwmixread, rwmixwrite: the job has one direction: use rw=read, write, randread or randwrite",
                );
            }
        }
        match (reads, writes) {
            (Some((line, reads)), Some((_, writes))) if reads + writes != 100 => {
                self.refuse(
                    line,
                    "rwmixread: it contradicts rwmixwrite: leave one of them out",
                );
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
        seed.map(|(_, seed)| seed)
            .or((repeats || all_repeat).then_some(1))
    }

    fn percentiles(&mut self) -> Vec<f64> {
        let (_, printed) = self.is_set("clat_percentiles", true);
        let list = self.value(
            "percentile_list",
            "up to 20 numbers such as 50:99:99.9",
            |value| {
                let numbers = value.split(':').map(|text| text.trim().parse::<f64>().ok());
                let mut numbers = numbers.collect::<Option<Vec<f64>>>()?;
                numbers.sort_by(f64::total_cmp);
                let fits = numbers.len() <= 20
                    && numbers.iter().all(|number| (0.0..=100.0).contains(number));
                fits.then_some(numbers)
            },
        );
        if !printed {
            return Vec::new();
        }
        list.map_or_else(|| PERCENTILES.to_vec(), |(_, list)| list)
    }
}

/// A parameter of the engine's workload.
type Parameter = (&'static str, serde_json::Value);

/// The end of a job.
struct Amount {
    /// The line of the option that decides it.
    line: usize,
    operations: Option<u64>,
    seconds: Option<f64>,
    /// Whether only the time ends it.
    is_timed: bool,
    /// The bytes of `io_size` in all loops.
    asked: Option<u64>,
}

/// Parses the rates of reads and writes. One number holds for both. 0, as an empty number, sets no
/// limit.
fn rates(value: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<[u64; 2]> {
    let values = by_direction(value)
        .into_iter()
        .map(|text| match text {
            "" | "0" => Some(0),
            _ => parse(text),
        })
        .collect::<Option<Vec<_>>>()?;
    Some([values[0], *values.get(1).unwrap_or(&values[0])])
}

/// Parses zones such as `50/5:30/15:20/`, where an empty size is the rest, as fio does. Returns the
/// engine's parameter.
fn zoned(zones: &str) -> Option<String> {
    // The second value is that of writes. The engine checks that the zones add up.
    if zones.contains(',') {
        return None;
    }
    let parts = zones
        .split(':')
        .map(|zone| zone.split_once('/'))
        .collect::<Option<Vec<_>>>()?;
    let sizes = parts
        .iter()
        .map(|(_, size)| match *size {
            "" => Some(None),
            size => size.parse::<u64>().ok().map(Some),
        })
        .collect::<Option<Vec<_>>>()?;
    let left = 100_u64.checked_sub(sizes.iter().flatten().sum())?;
    let open = sizes.iter().filter(|size| size.is_none()).count() as u64;
    let texts = parts.iter().zip(&sizes).map(|((draws, _), size)| {
        let percent = size.unwrap_or(left / open.max(1));
        draws
            .parse::<u64>()
            .ok()
            .filter(|draws| *draws <= 100 && percent > 0)
            .map(|draws| format!("{draws}/{percent}"))
    });
    Some(format!(
        "zoned:{}",
        texts.collect::<Option<Vec<_>>>()?.join(":")
    ))
}

/// Parses the steps and the writes of `sync_file_range`. Returns the steps as the engine's
/// parameter.
fn file_range(value: &str) -> Option<(String, u64)> {
    let (steps, every) = value.rsplit_once(':')?;
    let given: Vec<&str> = steps.split(',').map(str::trim).collect();
    let known = ["wait_before", "write", "wait_after"];
    let steps: Vec<&str> = known
        .into_iter()
        .filter(|step| given.contains(step))
        .collect();
    let every = every
        .parse::<u64>()
        .ok()
        .filter(|every| *every <= 1 << 32)?;
    (given.iter().all(|step| known.contains(step)) && !steps.is_empty())
        .then(|| (steps.join("+"), every))
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

/// Splits the values of an option for reads, writes and trims.
fn by_direction(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).collect()
}

fn size_range(value: &str, kilo: u64) -> Option<(u64, String)> {
    let (least, most) = value.split_once('-')?;
    let [least, most] = [bytes(least.trim(), kilo)?, bytes(most.trim(), kilo)?];
    let text = match least == most {
        true => format!("{least}/100"),
        false => format!("{least}-{most}"),
    };
    (least <= most).then_some((least, text))
}

/// Parses the sizes of one direction of `bssplit`. As in fio, an entry without a share gets what
/// the others leave. Returns the smallest size and the engine's parameter.
fn split(value: &str, kilo: u64) -> Option<(u64, String)> {
    let mut entries = Vec::new();
    for text in value.split(':') {
        let (size, percent) = text.split_once('/').unwrap_or((text, ""));
        let percent = match percent {
            "" => None,
            percent => Some(
                percent
                    .parse::<u64>()
                    .ok()
                    .filter(|percent| *percent <= 100)?,
            ),
        };
        entries.push((bytes(size, kilo)?, percent));
    }
    let known: u64 = entries.iter().filter_map(|(_, percent)| *percent).sum();
    let open = entries
        .iter()
        .filter(|(_, percent)| percent.is_none())
        .count() as u64;
    let left = 100_u64
        .checked_sub(known)
        .filter(|left| open > 0 || *left == 0)?;
    let mut texts = Vec::new();
    for (size, percent) in &entries {
        let share = percent.map_or(left as f64 / open as f64, |percent| percent as f64);
        if share > 0.0 {
            texts.push(format!("{size}/{share}"));
        }
    }
    Some((
        entries.iter().map(|(size, _)| *size).min()?,
        texts.join(":"),
    ))
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Parses a size as fio does. With the default `kb_base` of 1024, `k` is 1024 bytes and `kib` is
/// 1000.
fn bytes(text: &str, kilo: u64) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    // The engine has no larger files.
    let limits = 1..=1 << 60;
    if let Some(digits) = text.strip_prefix("0x") {
        let bytes = u64::from_str_radix(digits, 16).ok();
        return bytes.filter(|bytes| limits.contains(bytes));
    }
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let other = if kilo == 1024 { 1000 } else { 1024 };
    let (prefix, base) = match unit.strip_suffix("ib") {
        Some(prefix) if !prefix.is_empty() => (prefix, other),
        Some(_) => return None,
        // fio 3.33 takes `ki` for `k`.
        None => (unit.strip_suffix(['b', 'i']).unwrap_or(unit), kilo),
    };
    let power = ["", "k", "m", "g", "t", "p"]
        .iter()
        .position(|known| *known == prefix)? as u32;
    let number: u64 = number.parse().ok()?;
    number
        .checked_mul(u64::checked_pow(base, power)?)
        .filter(|bytes| limits.contains(bytes))
}

/// The longest run: a month.
const LONGEST: f64 = 30.0 * 86400.0;

/// Parses a time as fio does. `unit` is the seconds of a number without a unit.
fn time(text: &str, unit: f64) -> Option<f64> {
    let (number, name) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
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
        let variable = |name: &str| match name {
            "SIZE" => Some("8m".to_owned()),
            "$ncpus" => Some("6".to_owned()),
            _ => None,
        };
        let include = |name: &str| match name {
            "options.inc" => Ok("bs=64k\n[included]\n".to_owned()),
            "itself.inc" => Ok("include itself.inc\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        super::read(
            text,
            Surroundings {
                variable: &variable,
                include: &include,
            },
        )
    }

    fn jobs(text: &str) -> Vec<FioJob> {
        read(text)
            .unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
            .jobs
    }

    fn job(options: &str) -> FioJob {
        jobs(&format!("[j]\nsize=1m\n{options}\n")).remove(0)
    }

    /// Returns the problems of a file as compilers print them.
    fn problems(text: &str) -> Vec<String> {
        let problems = read(text).expect_err(text);
        problems
            .into_iter()
            .map(|Remark { line, message }| format!("{line}: {message}"))
            .collect()
    }

    fn problem(options: &str) -> String {
        problems(&format!("[j]\nsize=1m\n{options}\n")).remove(0)
    }

    #[test]
    fn options_of_global_hold_for_the_jobs_that_follow() {
        let text = "; a comment\n[global]\nrw=randread\nbs=8k # records\nsize=${SIZE}\ndirect=1\n[one]\n\n[two]\n\
                    blocksize=16k\nstonewall\nnumjobs=3\n[global]\nsize=1m\n[three]\nstonewall=0\n";
        let jobs = jobs(text);
        let records: Vec<_> = jobs
            .iter()
            .map(|job| (job.name.as_str(), job.record_size, job.operations))
            .collect();
        assert_eq!(
            records,
            [
                ("one", 8192, Some(1024)),
                ("two", 16384, Some(512)),
                ("three", 8192, Some(128))
            ]
        );
        assert_eq!(
            jobs.iter()
                .map(|job| (job.group, job.waits))
                .collect::<Vec<_>>(),
            [(0, false), (1, true), (1, false)]
        );
        assert_eq!(jobs[1].processes, 3);
        assert_eq!(jobs[1].workload.name, "random-read");
        assert_eq!(jobs[1].workload.params["backend"], json!("direct"));
        assert_eq!(jobs[0].options["size"], "8m");
    }

    #[test]
    fn refused_options_are_named_with_their_lines() {
        let found = problems(
            "[j]\nsize=1m\nrw=randread\nzonemode=zbd\nverify_pattern=1\n[k]\nrw=erase\nsize=1m\n",
        );
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0]
                .starts_with("4: fio's option zonemode is not supported: the engine visits files"),
            "{found:?}"
        );
        assert!(
            found[1]
                .starts_with("5: fio's option verify_pattern is not supported: the engine writes"),
            "{found:?}"
        );
        assert!(
            found[2].starts_with("7: rw: 'erase' is not supported: give read, write"),
            "{found:?}"
        );
        assert!(
            problem("ioengine=rbd")
                .contains("3: ioengine: rbd is not supported: use psync, sync, pvsync2, libaio")
        );
        assert_eq!(
            problem("zonerange=1"),
            "3: fio's option zonerange is not supported: remove it"
        );
        assert!(problem("ioengine=filecreate").contains("use 'fsb run --workload create'"));
        assert!(problem("filename=/dev/sda").contains("measures no devices"));
        assert!(problem("filename=a:b").contains("the name of one file"));
        assert_eq!(
            problem("fixedbufs=1"),
            "3: fixedbufs: this job does not use it: remove it"
        );
        assert!(problem("create_on_open=1").contains("files that hold data"));
        assert!(
            problem("rw=write\noverwrite=1\nnrfiles=2")
                .contains("add file_service_type=sequential")
        );
        assert!(problem("rw=randread:8").contains("use percentage_random"));
        assert!(problem("rw=read:4k").contains("only rw=read:-STEP has a step"));
        assert!(
            problem("exitall\nnumjobs=2")
                .contains("fio ends the other processes with the first one")
        );
        assert!(problem("size=50%").starts_with("3: size: in fio a percentage is one of the size"));
        assert_eq!(
            problems("size=1m\n")[0],
            "1: size: the option precedes all sections: write [global] before it"
        );
        assert_eq!(
            problems("[global]\nsize=1m\n"),
            ["2: the file has no job: add a section such as [job1]"]
        );
        assert!(problems("[j]\nsize=1m\nbs=${NONE}\n")[0].contains("variable NONE is not set"));
        assert_eq!(
            problems("include x.fio\n")[0],
            "1: include: cannot read x.fio: no such file"
        );
        assert_eq!(
            problems("include itself.inc\n")[0],
            "1: include: files include each other without end"
        );
    }

    #[test]
    fn syncs_rates_and_think_times_become_parameters_of_the_workload() {
        let param = |options: &str, name: &str| job(options).workload.params.get(name).cloned();
        assert_eq!(param("rw=write\nfsync=16", "fsync"), Some(json!(16)));
        assert_eq!(param("rw=write\nfdatasync=1", "fdatasync"), Some(json!(1)));
        assert_eq!(
            job("rw=write\nfdatasync=1").latency,
            LatencyKind::Completion
        );
        assert_eq!(
            param("rw=write\nfsync=4\nioengine=mmap\noverwrite=1", "fdatasync"),
            Some(json!(4))
        );
        assert_eq!(
            [
                param("rw=read\nfsync=16", "fsync"),
                param("rw=write\nfsync=0", "fsync")
            ],
            [None, None]
        );
        let bandwidth = |options: &str| {
            [
                param(options, "read_bandwidth"),
                param(options, "write_bandwidth"),
            ]
        };
        assert_eq!(
            bandwidth("rate_iops=500\nbs=8k"),
            [Some(json!(4_096_000)), None]
        );
        assert_eq!(bandwidth("rw=write\nrate=1250"), [None, Some(json!(1250))]);
        assert_eq!(
            bandwidth("rw=randrw\nrate=1m,500k"),
            [Some(json!(1 << 20)), Some(json!(512_000))]
        );
        assert_eq!(
            bandwidth("rw=randrw\nrate_iops=,100"),
            [None, Some(json!(409_600))]
        );
        assert_eq!(
            bandwidth("rw=randrw\nrate=2k\nioengine=libaio\niodepth=4"),
            [Some(json!(2048)), Some(json!(2048))]
        );
        let ranges = |options: &str| {
            [
                param(options, "sync_file_range"),
                param(options, "range_steps"),
            ]
        };
        assert_eq!(
            ranges("rw=write\nsync_file_range=write,wait_before:8"),
            [Some(json!(8)), Some(json!("wait_before+write"))]
        );
        assert_eq!(
            param(
                "rw=randwrite\nend_fsync=1\ntime_based\nruntime=5\nfsync=4",
                "end_fsync"
            ),
            Some(json!(true))
        );
        let passes = |options: &str| {
            ["end_fsync", "end_fdatasync", "sync_passes", "durability"]
                .map(|name| param(options, name).is_some())
        };
        assert_eq!(
            passes("rw=write\nend_fsync=1\nloops=2"),
            [true, false, true, false]
        );
        assert_eq!(
            passes("rw=write\nfsync=4\nio_size=2m"),
            [false, false, true, false]
        );
        assert_eq!(
            passes("rw=write\nfsync=4\nioengine=mmap\nend_fsync=1"),
            [false, true, false, false]
        );
        assert_eq!(
            passes("rw=randwrite\nnorandommap\nfsync=4\nloops=2"),
            [false; 4]
        );
        let queued = "rw=write\nioengine=libaio\niodepth=4\nend_fsync=1";
        assert_eq!(passes(queued), [true, false, false, false]);
        assert_eq!(
            passes(&format!("{queued}\nloops=2")),
            [false, false, false, true]
        );
        assert_eq!(
            param("rw=write\nsync=1\ndirect=1\nioengine=libaio", "open_sync"),
            Some(json!("osync"))
        );
        assert_eq!(
            param("rw=write\nbs=2300\nfdatasync=1", "sync_last"),
            Some(json!(true))
        );
        assert_eq!(job("rw=write\nbs=2300").operations, Some((1 << 20) / 2300));
        assert_eq!(param("thinktime=500", "think_time"), Some(json!("500us")));
        assert_eq!(
            param("thinktime=2ms\nthinktime_blocks=8", "think_every"),
            Some(json!(8))
        );
        assert_eq!(
            param(
                "rw=randread\nnorandommap\ninvalidate=0",
                "random_distribution"
            ),
            Some(json!("pareto:0.5"))
        );
        assert_eq!(param("rw=read\nnorandommap", "random_distribution"), None);
        let timed =
            job("rw=read\ninvalidate=0\ntime_based\nruntime=3\nramp_time=500ms\nstartdelay=2");
        assert_eq!((timed.ramp_seconds, timed.start_delay), (Some(0.5), 2.0));
        assert_eq!(job("rw=randrw").direction, Direction::Both);
        assert_eq!(param("rw=randrw", "by_direction"), Some(json!(true)));
        assert_eq!(
            job("rw=randrw\nunified_rw_reporting=1").direction,
            Direction::Mixed
        );
    }

    #[test]
    fn syncs_rates_and_think_times_that_the_engine_does_otherwise_are_refused() {
        for (options, expected) in [
            ("rw=write\nfsync=1\nfdatasync=1", "leave out fdatasync"),
            (
                "rw=write\nfsync=1\nend_fsync=1\nloops=2\nioengine=libaio\niodepth=4",
                "5: end_fsync: with several requests",
            ),
            (
                "rw=write\nend_fsync=1\nloops=2\nioengine=libaio\niodepth=4\nnrfiles=2",
                "fio syncs each file after each pass",
            ),
            (
                "rw=randrw\nio_size=2m\nfsync=4",
                "4: the job reads and writes in several passes",
            ),
            (
                "rw=randwrite\nnorandommap\nloops=2\nend_fsync=1",
                "without a random map, fio syncs once",
            ),
            (
                "rw=write\nfsync_on_close=1\nloops=2",
                "fio syncs twice after each pass",
            ),
            (
                "rw=write\nzero_buffers",
                "zero_buffers is not supported: the engine",
            ),
            ("rw=randrw\nrwmixread=100", "the job has one direction"),
            (
                "ioengine=libaio\niodepth=8\niodepth_low=4",
                "fills its queue after each completion",
            ),
            (
                "rw=randread\nnrfiles=2\nfile_service_type=sequential",
                "5: file_service_type: the engine takes a file at random",
            ),
            (
                "ioengine=libaio\nuncached=1",
                "uncached: this job does not use it",
            ),
            (
                "ioengine=io_uring\ndirect=1\nnowait=1",
                "nowait: the engine sets RWF_NOWAIT through the page cache only",
            ),
            ("nowait=1", "nowait: this job does not use it"),
            (
                "ioengine=io_uring\nuncached=1\nnowait=1",
                "nowait: the engine does not set two flags on one call: leave uncached out",
            ),
            (
                "rw=write\nioengine=pvsync2\natomic=1",
                "atomic: the kernel takes atomic writes with O_DIRECT only",
            ),
            (
                "rw=write\nioengine=libaio\natomic=1",
                "atomic: the kernel takes atomic writes with O_DIRECT only",
            ),
            (
                "rw=write\natomic=1",
                "atomic: fio's engine does not support atomic writes",
            ),
            (
                "rw=write\nioengine=pvsync2\ndirect=1\nhipri\natomic=1",
                "atomic: the engine does not set two flags",
            ),
            (
                "ioengine=io_uring\nhipri=1",
                "does not poll the completions of io_uring",
            ),
            (
                "rw=randrw\nbs=4k,16k",
                "counts records of both sizes in one map",
            ),
            ("direct=1\nbuffered=1", "it contradicts direct"),
            (
                "rw=write\nfsync=4\nnrfiles=2\nfile_service_type=sequential",
                "use one file",
            ),
            ("rw=write\nfsync=4\nsync_file_range=write:8", "no fsync"),
            (
                "rw=write\nsync_file_range=read:8",
                "give steps and a number of writes",
            ),
            ("rate=4096\nrate_iops=1", "leave out rate_iops"),
            ("rate=fast", "give bytes per second"),
            ("rate_process=poisson", "give linear"),
            ("thinktime=5\nthinktime_spin=5", "the engine sleeps"),
            (
                "iodepth=8\nioengine=libaio\nrw=rw\ndirect=1",
                "one record at a time",
            ),
            ("ramp_time=5", "add time_based"),
            ("startdelay=5-10", "give one time"),
        ] {
            assert!(
                problem(options).contains(expected),
                "{options}: {}",
                problem(options)
            );
        }
    }

    #[test]
    fn orders_sizes_and_verification_become_parameters_of_the_workload() {
        let param = |options: &str, name: &str| job(options).workload.params.get(name).cloned();
        assert_eq!(job("rw=rw").workload.name, "sequential-mix");
        assert_eq!(job("rw=readwrite\nrwmixread=70").direction, Direction::Both);
        assert_eq!(
            param("rw=readwrite\nrwmixread=70", "mix"),
            Some(json!("70%"))
        );
        assert_eq!(
            param("bsrange=4k-16k", "record_sizes"),
            Some(json!("4096-16384"))
        );
        assert_eq!(
            param("rw=randread\nbssplit=8k/40:4k/60", "record_sizes"),
            Some(json!("8192/40:4096/60"))
        );
        let split = job("rw=randread\nbssplit=8k/40:4k/60");
        assert_eq!((split.record_size, split.operations), (4096, Some(256)));
        assert_eq!(
            param("rw=randread\npercentage_random=70\ndirect=1", "sequential"),
            Some(json!("30%"))
        );
        assert_eq!(param("rw=read\npercentage_random=70", "sequential"), None);
        assert_eq!(
            param("rw=randread\npercentage_random=70", "sequential"),
            Some(json!("30%"))
        );
        assert_eq!(
            param("rw=randread\nnorandommap", "random_distribution"),
            Some(json!("pareto:0.5"))
        );
        assert_eq!(
            param(
                "rw=randread\nrandom_distribution=zipf",
                "random_distribution"
            ),
            Some(json!("zipf:1.1"))
        );
        let sizes = |options: &str| {
            ["block_size", "record_sizes", "write_sizes"].map(|name| param(options, name))
        };
        assert_eq!(
            sizes("rw=randrw\nbs=4k,16k\nnorandommap"),
            [
                Some(json!(4096)),
                Some(json!("4096/100")),
                Some(json!("16384/100"))
            ]
        );
        assert_eq!(
            sizes("rw=randwrite\nbs=4k,16k"),
            [Some(json!(16384)), None, None]
        );
        assert_eq!(
            sizes(
                "rw=randrw\nnorandommap\nbsrange=4k-4k,4k-32k\nioengine=libaio\ndirect=1\niodepth=8"
            ),
            [
                Some(json!(4096)),
                Some(json!("4096/100")),
                Some(json!("4096-32768"))
            ]
        );
        assert_eq!(
            sizes("rw=randread\nbssplit=4k/50:8k/:16k/"),
            [
                Some(json!(4096)),
                Some(json!("4096/50:8192/25:16384/25")),
                None
            ]
        );
        let backward = job("rw=read:-8k");
        assert_eq!(
            (backward.workload.name.as_str(), backward.operations),
            ("backward-read", Some(256))
        );
        assert_eq!(
            param("ioengine=pvsync2\nhipri\ndirect=1", "backend"),
            Some(json!("preadv2-hipri"))
        );
        for (options, backend) in [
            ("pvsync2\nuncached=1", "uncached"),
            ("pvsync2\nuncached=0", "preadv2"),
            ("pvsync2\nuncached=1\ndirect=1", "preadv2-direct"),
            ("pvsync2\ndirect=1\natomic=1", "atomic"),
            ("pvsync2\natomic=0", "preadv2"),
            ("pvsync2\nnowait=1", "nowait"),
            ("pvsync2\nnowait=0", "preadv2"),
            ("io_uring\nuncached=1", "uring-uncached"),
            ("io_uring\ndirect=1\natomic=1", "uring-atomic"),
            ("io_uring\nnowait=1", "uring-nowait"),
            ("libaio\ndirect=1\natomic=1", "libaio-atomic"),
            ("libaio\nnowait=1", "libaio-nowait"),
            ("libaio\nnowait=0", "libaio"),
        ] {
            let options = format!("rw=randwrite\nioengine={options}");
            assert_eq!(
                param(&options, "backend"),
                Some(json!(backend)),
                "{options}"
            );
        }
        assert_eq!(
            param(
                "ioengine=libaio\niodepth=8\niodepth_batch_complete_min=4",
                "batch"
            ),
            Some(json!(4))
        );
        assert_eq!(param("rw=randread\nfadvise_hint=0", "hint"), None);
        assert_eq!(
            [param("rw=read", "hint"), param("rw=randrw", "hint")],
            [Some(json!("sequential")), Some(json!("random"))]
        );
        assert_eq!(
            param("ioengine=libaio\ndirect=1\niodepth=8", "backend"),
            Some(json!("libaio-direct"))
        );
        assert_eq!(job("ioengine=libaio").latency, LatencyKind::Total);
        assert_eq!(
            param("rw=write\ndirect=1\nverify=crc32c", "verify"),
            Some(json!(true))
        );
        assert_eq!(
            param("rw=write\ndirect=1\nverify=md5\ndo_verify=0", "verify"),
            None
        );
        assert_eq!(param("rw=write\nverify=0", "verify"), None);
    }

    #[test]
    fn orders_sizes_and_verification_that_the_engine_does_otherwise_are_refused() {
        for (options, expected) in [
            (
                "rw=rw\nnrfiles=2\nfile_service_type=sequential",
                "in one file only",
            ),
            ("rw=rw\nloops=2\ninvalidate=0", "use io_size"),
            ("rw=rw\nbsrange=4k-8k", "have one size"),
            ("rw=rw\nbs=4k,8k", "have one size"),
            ("nrfiles=2\nbsrange=4k-8k", "use nrfiles=1"),
            ("bsrange=4k-8k\nbssplit=4k/100", "leave out bssplit"),
            ("bsrange=8k-4k", "give one range"),
            ("bssplit=4k/50:8k/40", "add up to 100"),
            ("bsrange=4k-8k\nnumber_ios=5", "use io_size"),
            ("rw=randread\ndirect=1\npercentage_random=0", "use rw=read"),
            (
                "rw=randrw\ndirect=1\npercentage_random=50",
                "for each direction",
            ),
            ("rw=write\nverify=crc32c", "add direct=1"),
            ("rw=read\ndirect=1\nverify=crc32c", "only jobs that write"),
            (
                "rw=write\ndirect=1\nverify=crc32c\noverwrite=1\nloops=2",
                "write the files once",
            ),
            ("rw=write\ndirect=1\nverify=pattern", "give one of md5"),
            (
                "rw=randwrite\ndirect=1\nverify=md5\nruntime=5",
                "leave out runtime",
            ),
        ] {
            assert!(
                problem(options).contains(expected),
                "{options}: {}",
                problem(options)
            );
        }
    }

    #[test]
    fn jobs_that_use_a_file_one_after_the_other_find_it_filled() {
        let file = |sections: &str| read(&format!("[global]\nfilename=f\nsize=1m\n{sections}"));
        let shared =
            file("[a]\nrw=read\n[b]\nstonewall\nrw=write\n[c]\nstonewall\nrw=randwrite\n").unwrap();
        assert_eq!(shared.jobs[1].workload.params["overwrite"], json!(true));
        assert_eq!(shared.jobs[2].workload.name, "random-write");
        let notes: Vec<_> = shared
            .notes
            .iter()
            .map(|note| note.message.as_str())
            .collect();
        assert!(
            notes.contains(&"filename: the job has a file of its own, filled in sequence, instead of that of job 'b'"),
            "{notes:?}"
        );
        for (sections, expected) in [
            (
                "[a]\nrw=randwrite\n[b]\nstonewall\n",
                "in fio it was written at random",
            ),
            (
                "[a]\nrw=write\nio_size=4k\n[b]\nstonewall\n",
                "in fio parts of it may be without data",
            ),
            (
                "[a]\nrw=write\ntime_based\nruntime=5\n[b]\nstonewall\n",
                "in fio parts of it may be without data",
            ),
        ] {
            let found = file(sections).unwrap();
            assert!(
                found
                    .notes
                    .iter()
                    .any(|note| note.message.contains(expected)),
                "{sections}: {found:?}"
            );
            assert_eq!(found.jobs[1].workload.name, "read");
        }
        for (sections, expected) in [
            (
                "[a]\nrw=trim\nioengine=falloc\n[b]\nstonewall\n[c]\nstonewall\n",
                "trims the file",
            ),
            (
                "[a]\nrw=read\n[b]\nstonewall\nsize=2m\n",
                "the file of job 'a' has 1048576 bytes",
            ),
        ] {
            let found = file(sections).unwrap_err();
            assert!(found[0].message.contains(expected), "{sections}: {found:?}");
        }
    }

    /// The sizes of the work of each process: file, offset and length.
    fn parts(job: &FioJob) -> Vec<[u64; 3]> {
        let sizes = |process: u32| {
            let params = job.workload_of(process).params;
            ["file_size", "offset", "length"].map(|name| {
                params
                    .get(name)
                    .and_then(|value| value.as_u64())
                    .unwrap_or(0)
            })
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
        assert_eq!(
            of("filesize=4m\nsize=50%\noffset=3m"),
            [[4 * MIB, 3 * MIB, MIB]]
        );
        assert_eq!(of("filesize=4m\nsize=100%"), [[4 * MIB, 0, 0]]);
        assert_eq!(of("filesize=4m\nsize=1m"), [[4 * MIB, 0, MIB]]);
        assert_eq!(of("filesize=256k"), [[MIB / 4, 0, 0]]);
        assert_eq!(
            of("size=1m\nfilesize=1m\noffset=256k"),
            [[MIB, MIB / 4, 3 * MIB / 4]]
        );
        assert_eq!(
            job("rw=randread\nfilesize=256k\nnrfiles=2").operations,
            Some(128)
        );
        assert_eq!(of("size=1m\nbs=3k"), [[(1 << 20) / 3072 * 3072, 0, 0]]);
        // Without a name each process has a file of its own, which ends with its part.
        let own = of("size=1m\noffset_increment=2m\nnumjobs=3");
        assert_eq!(
            own,
            [
                [MIB, 0, MIB],
                [3 * MIB, 2 * MIB, MIB],
                [5 * MIB, 4 * MIB, MIB]
            ]
        );
        let shared = of("filename=f\nsize=1m\noffset=1m\noffset_increment=2m\nnumjobs=3");
        assert_eq!(
            shared,
            [
                [6 * MIB, MIB, MIB],
                [6 * MIB, 3 * MIB, MIB],
                [6 * MIB, 5 * MIB, MIB]
            ]
        );
        assert_eq!(job("rw=randread\noffset=1m").operations, Some(256));
    }

    #[test]
    fn jobs_beside_each_other_share_the_file_that_they_name() {
        let file = |sections: &str| read(&format!("[global]\nfilename=f\nsize=1m\n{sections}"));
        let shared = |sections: &str| {
            file(sections)
                .unwrap_or_else(|found| panic!("{sections}: {found:?}"))
                .jobs
        };
        let two = shared(
            "[a]\nrw=write\n[b]\nrw=write\noffset=1m\n[c]\nstonewall\nrw=read\nsize=1m\noffset=512k\n",
        );
        assert_eq!(
            two.iter().map(parts).collect::<Vec<_>>().concat()[..2],
            [[2 * MIB, 0, MIB], [2 * MIB, MIB, MIB]]
        );
        assert!(!two[0].workload.params.contains_key("overwrite") || two[0].makes_files());
        let read = shared("[a]\nrw=write\n[b]\nrw=randread\nnumjobs=2\n");
        assert_eq!(parts(&read[1]), [[MIB, 0, MIB], [MIB, 0, MIB]]);
        assert!(
            !read[0].makes_files(),
            "the file holds the data that the other job reads"
        );
        let later = shared(
            "[a]\nrw=write\nsize=4m\n[b]\nstonewall\nrw=randread\nsize=25%\n[c]\nrw=read\noffset=3m\n",
        );
        assert_eq!(parts(&later[1]), [[4 * MIB, 0, MIB]]);
        assert_eq!(parts(&later[2]), [[4 * MIB, 3 * MIB, MIB]]);
        let quarters =
            "[a]\nrw=write\nnumjobs=4\noffset_increment=1m\n[b]\nstonewall\nrw=read\nsize=4m\n";
        assert_eq!(parts(&shared(quarters)[1]), [[4 * MIB, 0, 0]]);
        for (sections, expected) in [
            (
                "[a]\nrw=trim\nioengine=falloc\nnumjobs=2\n",
                "would trim ranges",
            ),
            (
                "[a]\nrw=read\nnumjobs=2\nnrfiles=2\n",
                "would share several files",
            ),
            (
                "[a]\nrw=write\ndirect=1\nverify=md5\nnumjobs=2\n",
                "would verify",
            ),
            (
                "[a]\nrw=read\n[b]\nstonewall\noffset=512k\n",
                "the file of job 'a' has 1048576 bytes",
            ),
        ] {
            let found = file(sections).unwrap_err();
            assert!(found[0].message.contains(expected), "{sections}: {found:?}");
        }
    }

    #[test]
    fn parts_that_the_engine_does_not_access_are_refused() {
        for (options, expected) in [
            (
                "offset=1k",
                "3: offset: 1024 bytes are not a multiple of bs, 4096",
            ),
            (
                "offset=10%",
                "3: offset: '10%' is not supported: give one size",
            ),
            (
                "offset_increment=1k\nnumjobs=2",
                "3: offset_increment: 1024 bytes are not a multiple",
            ),
            (
                "size=50%\nfilesize=1m\noffset_increment=64k",
                "give size in bytes",
            ),
            ("rw=trim\nioengine=falloc\noffset=4k", "trims whole files"),
            (
                "rw=write\ndirect=1\nverify=md5\noffset=4k",
                "compares whole files",
            ),
            (
                "rw=write\nfsync_on_close=1\nnrfiles=2\nfile_service_type=sequential",
                "or one file",
            ),
        ] {
            assert!(
                problem(options).contains(expected),
                "{options}: {}",
                problem(options)
            );
        }
        assert_eq!(
            job("rw=write\nfsync_on_close=1").workload.params["end_fsync"],
            json!(true)
        );
        assert!(
            !job("rw=write\nfsync_on_close=0")
                .workload
                .params
                .contains_key("end_fsync")
        );
        assert!(
            !job("rw=read\nfsync_on_close=1")
                .workload
                .params
                .contains_key("end_fsync")
        );
    }

    #[test]
    fn trims_punch_holes_with_the_engine_falloc() {
        let trims = job("rw=randtrim\nioengine=falloc\nbs=64k");
        assert_eq!(
            (trims.workload.name.as_str(), trims.direction),
            ("fallocate", Direction::Trim)
        );
        assert_eq!(
            [
                &trims.workload.params["mode"],
                &trims.workload.params["access"]
            ],
            ["punch", "random"]
        );
        assert_eq!(
            (trims.operations, trims.latency),
            (Some(16), LatencyKind::Completion)
        );
        for (options, expected) in [
            ("rw=trim", "files with ioengine=falloc only"),
            (
                "rw=randtrimwrite\nioengine=falloc",
                "devices in turn, and no files",
            ),
            ("rw=write\nioengine=falloc", "falloc is not supported"),
            ("rw=trim\nioengine=falloc\nloops=2", "more than once"),
            (
                "rw=trim\nioengine=falloc\nrate_iops=5",
                "this job does not use it",
            ),
        ] {
            assert!(
                problem(options).contains(expected),
                "{options}: {}",
                problem(options)
            );
        }
    }

    #[test]
    fn data_and_generators_are_those_of_the_options() {
        let data = |options: &str| job(options).workload.params.get("data").cloned();
        let asked = "rw=write\nbuffer_compress_percentage=60\ndedupe_percentage=10";
        assert_eq!(
            data(asked),
            Some(json!({"compressible": "60%", "duplicate": "10%"}))
        );
        assert_eq!(data("rw=write\nbuffer_compress_percentage=0"), None);
        assert!(problem("rw=write\nbuffer_compress_chunk=4k").contains("pieces of 512 bytes"));
        assert_eq!(
            job("rw=randread\nrandom_generator=lfsr").workload.name,
            "random-read"
        );
        let lfsr = "rw=randread\ninvalidate=0\nrandom_generator=lfsr";
        assert!(problem(&format!("{lfsr}\nnorandommap")).contains("use tausworthe"));
        assert!(problem("nrfiles=4\nopenfiles=2").contains("keeps all files"));
        let in_turn = job("nrfiles=4\nbs=64k");
        assert_eq!(
            (
                in_turn.workload.name.as_str(),
                &in_turn.workload.params["stride"]
            ),
            ("stride-read", &json!(4))
        );
        let zoned = job("rw=randread\ninvalidate=0\nrandom_distribution=zoned:80/20:20/80");
        assert_eq!(
            zoned.workload.params["random_distribution"],
            json!("zoned:80/20:20/80")
        );
        assert_eq!(
            job("ioengine=sync").workload.params["backend"],
            json!("lseek")
        );
        assert_eq!(
            job("ioengine=sync\nbuffered=0").workload.params["backend"],
            json!("lseek-direct")
        );
        assert_eq!(
            job("ioengine=sync\ndirect=1").workload.params["backend"],
            json!("lseek-direct")
        );
    }

    #[test]
    fn further_passes_begin_as_in_fio() {
        let params = |options: &str| {
            let job = job(options);
            let set = |name: &str| job.workload.params.get(name) == Some(&json!(true));
            (job.operations, set("evict_passes"), set("further_passes"))
        };
        assert_eq!(params("rw=read\nloops=2"), (Some(512), true, false));
        assert_eq!(
            params("rw=read\nloops=2\ninvalidate=0"),
            (Some(512), false, false)
        );
        assert_eq!(
            params("rw=randread\ntime_based\nruntime=5"),
            (None, true, false)
        );
        assert_eq!(
            params("rw=randread\ntime_based\nruntime=5\nnorandommap"),
            (None, false, false)
        );
        assert_eq!(
            params("rw=write\ntime_based\nruntime=1\ndirect=1"),
            (None, false, true)
        );
        assert_eq!(params("rw=randwrite\nio_size=2m"), (Some(512), true, true));
        let amount = |options: &str| job(options).operations;
        assert_eq!(jobs("[j]\nsize=82k\nio_size=82k\n")[0].operations, Some(20));
        assert_eq!(
            [
                amount("number_ios=10\nloops=2"),
                amount("number_ios=300\nloops=3")
            ],
            [Some(20), Some(768)]
        );
        assert_eq!(
            [
                amount("io_size=2k"),
                amount("io_size=10k"),
                amount("io_size=10k\nloops=2")
            ],
            [Some(1), Some(3), Some(5)]
        );
        let timed = job("rw=write\ntime_based\nruntime=1500ms\noverwrite=1\ndirect=1");
        assert_eq!((timed.operations, timed.seconds), (None, Some(1.5)));
        assert_eq!(job("rw=read\ntime_based").operations, Some(256));
        assert!(problem("rw=read\nioengine=mmap\nloops=2").contains("map the files again"));
    }

    #[test]
    fn the_cache_begins_as_fio_leaves_it() {
        let state = |options: &str| {
            let job = job(options);
            (
                job.workload.params["cache"].as_str().unwrap().to_owned(),
                job.evict,
            )
        };
        assert_eq!(state("rw=read"), ("any".into(), true));
        assert_eq!(state("rw=read\ninvalidate=0"), ("any".into(), false));
        assert_eq!(state("rw=read\npre_read=1"), ("warm".into(), false));
        assert_eq!(state("rw=read\ndirect=1"), ("any".into(), false));
    }

    #[test]
    fn new_files_have_the_space_that_fio_gives_them() {
        let space = |options: &str| {
            let job = job(options);
            (
                job.workload.name.clone(),
                job.workload
                    .params
                    .get("allocate")
                    .and_then(|value| value.as_str().map(str::to_owned)),
            )
        };
        let new = |allocate: &str| ("sparse-write".to_owned(), Some(allocate.to_owned()));
        assert_eq!(space("rw=randwrite"), new("blocks"));
        assert_eq!(space("rw=write\nfallocate=posix"), new("blocks"));
        assert_eq!(space("rw=write\nfallocate=keep"), new("blocks-beyond-end"));
        assert_eq!(space("rw=randwrite\nfallocate=truncate"), new("size"));
        assert_eq!(space("rw=randwrite\nfallocate=none"), new("none"));
        assert_eq!(space("rw=write\ncreate_on_open=1"), new("none"));
        assert_eq!(space("rw=write\nnrfiles=4").0, "stride-write");
        assert_eq!(
            space("rw=randwrite\noverwrite=1"),
            ("random-write".to_owned(), None)
        );
        assert_eq!(space("rw=write\noverwrite=1"), ("write".to_owned(), None));
    }

    #[test]
    fn results_and_processors_are_those_of_the_options() {
        let both = job("rw=randrw\nunified_rw_reporting=both");
        assert_eq!(
            both.direction.results(),
            [
                ResultDirection::Read,
                ResultDirection::Write,
                ResultDirection::Mixed
            ]
        );
        assert_eq!(
            job("rw=read\nunified_rw_reporting=1").direction,
            Direction::Read
        );
        let pinned = job("cpus_allowed=0,2-3");
        assert_eq!(
            [pinned.processors_of(0, 5), pinned.processors_of(1, 5)],
            [vec![0, 2, 3], vec![0, 2, 3]]
        );
        let split = job("cpus_allowed=0,2-3\ncpus_allowed_policy=split\nnumjobs=2");
        assert_eq!(
            [split.processors_of(0, 2), split.processors_of(1, 2)],
            [vec![3], vec![0]]
        );
        assert_eq!(job("cpumask=0x5").processors, [0, 2]);
        let text = "[global]\nsize=1m\nname=all\n[a]\n[b]\nnew_group\nname=own\n[c]\nstonewall\n";
        let found: Vec<_> = jobs(text)
            .into_iter()
            .map(|job| (job.name, job.group, job.waits))
            .collect();
        assert_eq!(
            found,
            [
                ("a".into(), 0, false),
                ("own".into(), 1, false),
                ("c".into(), 2, true)
            ]
        );
    }

    #[test]
    fn included_files_and_keywords_are_part_of_the_text() {
        let jobs = jobs("[global]\nsize=1m\ninclude options.inc\nnumjobs=$ncpus\n");
        assert_eq!(
            (
                jobs.len(),
                jobs[0].name.as_str(),
                jobs[0].record_size,
                jobs[0].processes
            ),
            (1, "included", 65536, 6)
        );
        assert!(problem("bs=$jobname").contains("keywords other than"));
        let file = job("filename=/srv/data/f");
        assert_eq!(
            (file.directory.as_deref(), file.file.as_deref()),
            (Some("/srv/data"), Some("f"))
        );
    }

    #[test]
    fn differences_from_fio_are_noted() {
        let notes = |options: &str| {
            let notes = read(&format!("[j]\nsize=1m\n{options}\n")).unwrap().notes;
            notes
                .into_iter()
                .map(|note| note.message)
                .collect::<Vec<_>>()
        };
        for options in [
            "rw=read",
            "rw=write\ndirect=1",
            "rw=randwrite",
            "rw=randrw\nrate=1m",
            "numjobs=2\nrw=randread",
        ] {
            assert_eq!(notes(options), Vec::<String>::new(), "{options}");
        }
        for (name, _) in INERT {
            assert!(
                notes(&format!("{name}=1"))[0].starts_with(&format!("{name} has no effect: ")),
                "{name}"
            );
        }
        for (name, accepted, _) in DEFAULTS_ONLY {
            assert_eq!(
                notes(&format!("{name}={}", accepted[0])),
                Vec::<String>::new(),
                "{name}"
            );
        }
        assert!(notes("exitall\nnumjobs=1")[0].starts_with("exitall has no effect"));
        assert!(
            notes("ioengine=pvsync2\nhipri")[0]
                .starts_with("hipri has no effect: fio sets RWF_HIPRI")
        );
        assert!(notes("ioengine=libaio\nnowait=1")[0].starts_with("nowait: fsb counts the calls"));
        let atomic =
            "rw=write\nioengine=io_uring\ndirect=1\natomic=1\nfixedbufs=1\nregisterfiles=1";
        assert!(notes(atomic)[0].contains("no buffers"));
        assert!(
            notes("rw=write\nioengine=posixaio\nfsync=8")[0]
                .starts_with("fsync: fio queues the sync with aio_fsync")
        );
        let batch = "ioengine=libaio\niodepth=4\niodepth_low=4\niodepth_batch_complete_min=0";
        assert!(notes(batch)[0].starts_with("iodepth_batch_complete_min has no effect"));
        assert!(notes("direct=1\niodepth=4")[0].starts_with("iodepth has no effect"));
        assert!(notes("rw=read\ntime_based")[0].starts_with("time_based has no effect"));
        assert!(notes("rw=read\nsync=1")[0].starts_with("sync has no effect"));
        assert!(notes("rw=randread\nnrfiles=4")[0].contains("a file at random"));
        let named = |options: &str| {
            notes(&format!("rw=read\ndirect=1\nfilename_format={options}"))[0].clone()
        };
        assert!(named("a.$filenum").starts_with("filename_format has no effect"));
        assert!(named("a.$jobnum\nnumjobs=2").starts_with("filename_format has no effect"));
        assert!(named("a.$filenum\nnumjobs=2").contains("in fio they share"));
        assert!(notes("direct=1\nioengine=io_uring\niodepth=4")[0].contains("fixedbufs=1"));
        assert!(notes("direct=1\nbs=8k\nbsrange=4k-8k")[0].starts_with("bs has no effect"));
        assert!(
            notes("rw=write\ndirect=1\nverify=sha256")[0]
                .starts_with("verify: fsb compares every byte")
        );
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
            ("4ki", 1024, Some(4096)),
            ("1B", 1024, Some(1)),
            ("512b", 1024, Some(512)),
            ("0x1000", 1024, Some(4096)),
            ("0x", 1024, None),
            ("b", 1024, None),
            ("ib", 1024, None),
            ("50%", 1024, None),
            ("9999999p", 1024, None),
        ] {
            assert_eq!(bytes(text, kilo), expected, "{text}");
        }
        assert_eq!(
            ["2", "2m", "0", "1y"].map(|text| time(text, 1.0)),
            [Some(2.0), Some(120.0), Some(0.0), None]
        );
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
        assert_eq!(
            [seed(""), seed("randseed=7"), seed("randrepeat=0")],
            [Some(1), Some(7), None]
        );
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
