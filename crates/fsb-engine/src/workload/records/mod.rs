//! Workloads that move the records of files. Each of these members of the registry is a constant of
//! one type.
//!
//! A member defines the order of the records, the direction of the data, the content of the files
//! beforehand, and the backends that it accepts. Everything else is a parameter.
//!
//! Each worker moves its share, pass by pass or in one go. If a pass needs a restored state or ends
//! with other work, it is a round. Outside the clock, the workers close, open or recreate the
//! files. Then all workers start together, and the clock of each includes the calls that belong to
//! the work (a flush, a close, a lock). Otherwise passes follow each other without a pause, and
//! workers share nothing meanwhile.

mod between;

use std::sync::atomic::AtomicU64;

use fsb_model::metric::LATENCY_P99;
use fsb_model::units::parse_percent;
use fsb_model::{Access, CacheState, Durability, Params};
use hdrhistogram::Histogram;
use rustix::fs::{Advice, OFlags};

use self::between::{Between, DueSync, MovedRecord, Turns};
use super::job::{Job, WorkUnit, Workload};
use super::label;
use super::measure::{Subject, measure_set};
use super::parameter::ParameterDefault::{self, Absent};
use super::parameter::{self, Needs, Parameter, ParameterGroup, ParameterKind, group};
use super::params::Reader;
use super::spec::{self, Change, Records, Rules, Spec};
use crate::backend::{Backend, Purpose, Verb};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Interest};
use crate::hash::{Stream, hash, unit};
use crate::io_loop::{
    ByteRange, HELD_FILES, IoLoop, IoOptions, Lock, OpenFileSet, QueueFeed, QueueStep, QueuedRecord,
};
use crate::latency;
use crate::order::{Distribution, FORMS, STRIDE, Visits};
use crate::profile::{Profile, Renewal};
use crate::rendezvous::{Rendezvous, RoundState};
use crate::task::{ClockSpec, Context, Gate, Measurement, Sizing, WOULD_WAIT};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};
use crate::walk::{MOST_ITEMS, RecordSizes, WalkOptions};

// The definition of a workload that moves records, and the parameters that only such workloads
// have.

/// The parameter of the distribution, as fio names it.
const DISTRIBUTION: &str = "random_distribution";

/// The parameter of the sizes of records.
const RECORD_SIZES: &str = "record_sizes";

/// The parameter of the sizes of written records of a mix.
const WRITE_SIZES: &str = "write_sizes";

/// The parameters of the part of each file that the work is limited to.
const OFFSET: &str = "offset";
const LENGTH: &str = "length";

/// The parameter of the records that the kernel is asked for before they are read.
const PREFETCH: &str = "prefetch";

/// The maximum of that parameter: that of PostgreSQL's effective_io_concurrency.
const MOST_PREFETCHED: u32 = 1000;

/// The distribution in which each pass visits every record once.
const UNIFORM: &str = "random";

/// Default share of reads among the operations of a mix.
const USUAL_MIX: &str = "50%";

/// The options, resolved.
#[derive(Debug, Clone)]
struct RecordsOptions {
    /// The files are closed at the end of each pass, inside the clock.
    close: bool,
    /// The range that is locked while its data is moved, inside the clock.
    lock: Option<Lock>,
    /// Records from one visit to the next; `None` for any other order.
    stride: Option<u64>,
    /// The distribution of a random order; `None` if each pass visits every record once.
    distribution: Option<Distribution>,
    /// Visits in sequence among random ones, or records of several sizes.
    walk: Option<WalkOptions>,
    /// The share of reads, for a workload that mixes.
    mix: Option<f64>,
    /// The share of records that are written after they were read.
    updates: Option<f64>,
    /// Whether the worker compares records that it reads with the written data, inside the clock.
    /// Written files are read and compared after it.
    verify: bool,
    /// Whether latencies of reads and writes are also recorded apart.
    by_direction: bool,
    /// Operations per second that all workers together start, whether earlier ones are done or not.
    rate: Option<u64>,
    /// The start of the latency of an operation at a rate.
    latency_from: LatencyStart,
    /// Seconds below which the 99th percentile should stay, if a bound was given.
    p99_below: Option<f64>,
    /// Syncs, think times and waits between operations.
    between: Between,
    /// The flag of open(2) with which each write is durable.
    open_sync: Option<OpenSync>,
    /// Whether the data of the files is dropped from the page cache before each pass but the first.
    evict_passes: bool,
    /// The advice about the access that the kernel gets.
    hint: Option<Hint>,
    /// Records that the kernel is asked for before each is read.
    prefetch: u32,
}

/// The advice about the access that the kernel gets for each file: posix_fadvise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    Random,
    Sequential,
}

impl Hint {
    /// In the order of the help text.
    const ALL: &'static [Hint] = &[Hint::Random, Hint::Sequential];

    fn name(self) -> &'static str {
        match self {
            Hint::Random => "random",
            Hint::Sequential => "sequential",
        }
    }

    fn advice(self) -> Advice {
        match self {
            Hint::Random => Advice::Random,
            Hint::Sequential => Advice::Sequential,
        }
    }
}

/// A flag of open(2) with which each write is durable when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenSync {
    All,
    Data,
}

impl OpenSync {
    /// In the order of the help text.
    const ALL: &'static [OpenSync] = &[OpenSync::All, OpenSync::Data];

    fn name(self) -> &'static str {
        match self {
            OpenSync::All => "osync",
            OpenSync::Data => "dsync",
        }
    }

    /// rustix 1.1 has O_SYNC under the name DSYNC.
    fn flags(self) -> OFlags {
        let bits = match self {
            OpenSync::All => libc::O_SYNC,
            OpenSync::Data => libc::O_DSYNC,
        };
        OFlags::from_bits_retain(bits as u32)
    }
}

/// The space of files without data before the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allocation {
    /// They have their size, but no blocks.
    Size,
    /// They have their size and blocks: fallocate.
    Blocks,
    /// They are empty, with blocks behind their end.
    BeyondEnd,
    /// They are empty and grow.
    Nothing,
}

impl Allocation {
    /// In the order of the help text.
    const ALL: &'static [Allocation] = &[
        Allocation::Size,
        Allocation::Blocks,
        Allocation::BeyondEnd,
        Allocation::Nothing,
    ];

    fn name(self) -> &'static str {
        match self {
            Allocation::Size => "size",
            Allocation::Blocks => "blocks",
            Allocation::BeyondEnd => "blocks-beyond-end",
            Allocation::Nothing => "none",
        }
    }

    fn content(self) -> Content {
        match self {
            Allocation::Size => Content::Holes,
            Allocation::Blocks => Content::Reserved,
            Allocation::BeyondEnd => Content::ReservedBeyondEnd,
            Allocation::Nothing => Content::Empty,
        }
    }
}

/// The start of the latency of an operation at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LatencyStart {
    /// The time at which the operation was due, so that it includes the wait behind a stall.
    Due,
    /// The call, as in fio.
    Call,
}

impl LatencyStart {
    /// In the order of the help text.
    const ALL: &'static [LatencyStart] = &[LatencyStart::Due, LatencyStart::Call];

    fn name(self) -> &'static str {
        match self {
            LatencyStart::Due => "due",
            LatencyStart::Call => "call",
        }
    }
}

/// Returns the options of `member`.
fn parameters(member: &RecordWorkload) -> Vec<Parameter> {
    use ParameterKind::{Duration, Number, Percent, Rate};
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::flag(
                "close",
                "close files at the end of each pass, inside the clock",
            ),
            Parameter::word(
                "lock",
                Lock::ALL,
                Lock::name,
                "lock each record, or the file during a pass",
            )
            .default(Absent),
            Parameter::new(
                "rate",
                Rate(1..=FASTEST),
                Absent,
                "start operations at this rate, whether earlier ones have ended or not",
            )
            .sweeps(),
            Parameter::new(
                "p99_below",
                Duration(1e-6..=3600.0),
                Absent,
                "bound of the 99th percentile, also of a search for a rate",
            ),
            Parameter::word(
                "latency_from",
                LatencyStart::ALL,
                LatencyStart::name,
                "start of the latency of an operation: when it was due, or its call",
            )
            .needs(Needs::Given("rate")),
        ],
    );
    if member.access.contains(&Access::Strided) {
        let about = "records from one visit to the next";
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::new("stride", Number(1..=1 << 32), STRIDE, about)],
        ));
    }
    if member.has_choice() {
        let about = "visits of records: zipf:1.1, pareto:0.2, normal:10 or zoned:80/20:20/80, or each record once a pass";
        let distribution = Parameter::new(DISTRIBUTION, ParameterKind::Text, UNIFORM, about);
        let random = Needs::Value("access", &["random"]);
        let about = "share of visits that go to the record after the last one instead";
        let sequential = Parameter::new("sequential", Percent, Absent, about);
        all.extend(group(
            ParameterGroup::Calls,
            [distribution.needs(random), sequential.needs(random)],
        ));
    }
    if member.has_record_sizes() {
        let about =
            "sizes of records, multiples of block_size: 4K-64K, or with their percent 4K/60:64K/40";
        let sizes = Parameter::new(RECORD_SIZES, ParameterKind::Text, Absent, about);
        all.extend(group(ParameterGroup::Calls, [sizes]));
        if member.action == RecordAction::Mix {
            let about = "sizes of written records, multiples of block_size; record_sizes are then those of reads";
            let sizes = Parameter::new(WRITE_SIZES, ParameterKind::Text, Absent, about);
            all.extend(group(
                ParameterGroup::Calls,
                [sizes.needs(Needs::Given(RECORD_SIZES))],
            ));
        }
    }
    if member.has_range() {
        let about = "bytes at the start of each file that the work does not access";
        let offset = Parameter::new(OFFSET, ParameterKind::Size(0..=1 << 60), Absent, about);
        let about = "bytes of each file that the work accesses, from offset on";
        let rest = ParameterDefault::Derived("the rest of the file");
        let length = Parameter::new(LENGTH, ParameterKind::Size(1..=1 << 60), rest, about);
        all.extend(group(ParameterGroup::Calls, [offset, length]));
    }
    if member.action == RecordAction::Update {
        let about = "share of records that are written after they were read";
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::new("updates", Percent, ALL_RECORDS, about)],
        ));
    }
    if member.action == RecordAction::Mix {
        let about = "share of reads among the operations";
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::new("mix", Percent, USUAL_MIX, about)],
        ));
        let about = "also record the latencies of reads and of writes; not with processes";
        all.extend(group(
            ParameterGroup::Results,
            [Parameter::flag("by_direction", about)],
        ));
    }
    all.extend(between::parameters(member.writes()));
    if member.writes() {
        let about = "open the files with O_SYNC or O_DSYNC, with any backend";
        let flags =
            Parameter::word("open_sync", OpenSync::ALL, OpenSync::name, about).default(Absent);
        all.extend(group(ParameterGroup::State, [flags]));
    }
    let about = "drop the data of the files from the page cache before each pass but the first, inside the clock";
    let evict = Parameter::flag("evict_passes", about);
    let about = "advice about the access that the kernel gets for each file (posix_fadvise)";
    let hint = Parameter::word("hint", Hint::ALL, Hint::name, about).default(Absent);
    all.extend(group(ParameterGroup::State, [evict, hint]));
    if member.can_prefetch() {
        let about = "records ahead of each read that the kernel is asked for (POSIX_FADV_WILLNEED)";
        let kind = Number(1..=MOST_PREFETCHED.into());
        let prefetch = Parameter::new(PREFETCH, kind, Absent, about);
        all.extend(group(ParameterGroup::Calls, [prefetch]));
    }
    if member.has_allocation() {
        let about = "space of the files before: their size without blocks, with blocks (fallocate), blocks of empty files, none";
        all.extend(group(
            ParameterGroup::State,
            [
                Parameter::word("allocate", Allocation::ALL, Allocation::name, about),
                Parameter::flag(
                    "further_passes",
                    "allow passes that write over the data of the first one",
                ),
            ],
        ));
    }
    all.extend(group(ParameterGroup::Results, [parameter::verify()]));
    all
}

impl RecordsOptions {
    fn read(
        member: &RecordWorkload,
        spec: &Spec,
        written: bool,
        reader: &mut Reader<'_>,
    ) -> Result<RecordsOptions, ParamError> {
        let close = reader.flag("close")?;
        let lock = reader.optional_word("lock", Lock::ALL, Lock::name)?;
        let verify = reader.flag("verify")?;
        let strided = spec.access == Access::Strided;
        let stride = strided.then(|| reader.number("stride")).transpose()?;
        let distribution = if member.has_choice() {
            distribution(spec, reader)?
        } else {
            None
        };
        let walk = walk(member, spec, reader)?;
        let mix = (member.action == RecordAction::Mix)
            .then(|| share(reader))
            .transpose()?;
        let by_direction = member.action == RecordAction::Mix && reader.flag("by_direction")?;
        if by_direction && spec.processes > 1 {
            return Err(reader.error(
                "by_direction",
                "processes report one latency for both: use threads",
            ));
        }
        let updates = (member.action == RecordAction::Update)
            .then(|| updates(reader))
            .transpose()?;
        let held = spec.files_per_process() <= HELD_FILES;
        for (key, asked) in [("close", close), ("lock", lock.is_some())] {
            if asked && !held {
                let message = format!(
                    "the option keeps all files open at once: use at most {HELD_FILES} files"
                );
                return Err(reader.error(key, message));
            }
        }
        let in_turn = updates.is_some() || member.is_sequential_mix();
        if spec.depth > 1 && (lock == Some(Lock::Record) || in_turn) {
            let key = if in_turn { "depth" } else { "lock" };
            return Err(reader.error(
                key,
                "the workload accesses one record at a time: use depth = 1",
            ));
        }
        if lock == Some(Lock::Record) && walk.as_ref().is_some_and(|walk| walk.sizes.is_some()) {
            return Err(reader.error(
                "lock",
                "a lock has the size of block_size: leave out record_sizes",
            ));
        }
        if verify && mix.is_some() && spec.depth > 1 {
            return Err(reader.error(
                "verify",
                "reads find the data of writes in flight: use depth = 1",
            ));
        }
        if verify && !written && spec.threads > 1 {
            let message =
                "threads that end early leave holes in a new file that they share: use processes";
            return Err(reader.error("verify", message));
        }
        let rate = rate(reader)?;
        if rate.is_some() && spec.depth > 1 {
            let message =
                "a rate starts one request at a time per thread: use threads instead of a depth";
            return Err(reader.error("rate", message));
        }
        let p99_below = reader.duration("p99_below")?;
        let latency_from = reader.word("latency_from", LatencyStart::ALL, LatencyStart::name)?;
        let between = Between::read(member.writes(), spec, reader)?;
        let open_sync = match member.writes() {
            true => reader.optional_word("open_sync", OpenSync::ALL, OpenSync::name)?,
            false => None,
        };
        let hint = reader.optional_word("hint", Hint::ALL, Hint::name)?;
        let evict_passes = reader.flag("evict_passes")?;
        if evict_passes && !held {
            let message =
                format!("the option keeps all files open at once: use at most {HELD_FILES} files");
            return Err(reader.error("evict_passes", message));
        }
        let one_by_one = RecordsOptions {
            close,
            lock,
            stride,
            distribution,
            walk,
            mix,
            updates,
            verify,
            by_direction,
            rate,
            latency_from,
            p99_below,
            between,
            open_sync,
            evict_passes,
            hint,
            prefetch: 0,
        };
        let prefetch = match member.can_prefetch() {
            true => one_by_one.prefetch(spec, held, reader)?,
            false => 0,
        };
        Ok(RecordsOptions {
            prefetch,
            ..one_by_one
        })
    }

    /// Reads the number of records ahead of each read. The options are the others of the workload.
    fn prefetch(
        &self,
        spec: &Spec,
        held: bool,
        reader: &mut Reader<'_>,
    ) -> Result<u32, ParamError> {
        if reader.take(PREFETCH).is_none() {
            return Ok(0);
        }
        let prefetch = reader.number(PREFETCH)?;
        let fault = match () {
            () if spec.backend.capabilities().keeps_nothing() => {
                "the kernel reads ahead into the page cache, which the backend bypasses or empties"
            }
            () if spec.depth > 1 => "requests in flight need no reading ahead: use depth = 1",
            () if !held => "the files stay open: use at most 16",
            () if self.walk.is_some()
                || self.rate.is_some()
                || self.evict_passes
                || !self.between.is_nothing() =>
            {
                "the next records are not known ahead with a rate, waits, record_sizes, sequential \
                 or evict_passes: leave them out"
            }
            () => return Ok(prefetch as u32),
        };
        Err(reader.error(PREFETCH, fault))
    }

    /// Returns the sizes of records, if there are several.
    fn record_sizes(&self) -> Option<&RecordSizes> {
        self.walk.as_ref()?.sizes.as_ref()
    }

    /// Returns the sizes of written records, if those of a mix differ from its reads.
    fn write_sizes(&self) -> Option<&RecordSizes> {
        self.walk.as_ref()?.write_sizes.as_ref()
    }

    /// Returns the items of the largest record.
    fn largest_record(&self) -> u64 {
        self.record_sizes()
            .into_iter()
            .chain(self.write_sizes())
            .map(RecordSizes::largest)
            .max()
            .unwrap_or(1)
    }

    /// Returns the share of visits in sequence among random ones.
    fn sequential(&self) -> Option<f64> {
        self.walk
            .as_ref()
            .map(|walk| walk.sequential)
            .filter(|share| *share > 0.0)
    }

    /// Returns the share of reads of a mix.
    fn reads(&self) -> f64 {
        self.mix.unwrap_or(1.0)
    }

    /// Returns whether targets are compared by the 99th percentile of the latency.
    fn is_judged_by_p99(&self) -> bool {
        self.rate.is_some() || self.p99_below.is_some()
    }

    /// Returns the parts of the label that distinguish the case, each with a comma in front.
    fn label(&self) -> String {
        let mut label = String::new();
        if let Some(stride) = self.stride.filter(|stride| *stride != STRIDE) {
            label += &format!(", stride {stride}");
        }
        if let Some(distribution) = &self.distribution {
            label += &format!(", {distribution}");
        }
        if let Some(share) = self.sequential() {
            label += &format!(", {} in sequence", percent(share));
        }
        if let Some(sizes) = self.record_sizes() {
            label += &format!(", records of {sizes}");
        }
        if let Some(sizes) = self.write_sizes() {
            label += &format!(" and {sizes}");
        }
        if let Some(mix) = self.mix.filter(|mix| percent(*mix) != USUAL_MIX) {
            label += &format!(", {} reads", percent(mix));
        }
        if let Some(updates) = self.updates.filter(|updates| *updates < 1.0) {
            label += &format!(", {} written", percent(updates));
        }
        match self.lock {
            None => {}
            Some(Lock::Record) => label += ", records locked",
            Some(Lock::File) => label += ", file locked",
        }
        if self.close {
            label += ", with close";
        }
        if let Some(rate) = self.rate {
            label += &format!(", p99 at {rate}/s");
        } else if self.p99_below.is_some() {
            label += ", p99";
        }
        if let Some(flag) = self.open_sync {
            label += &format!(", {}", flag.name());
        }
        if self.evict_passes {
            label += ", passes from the device";
        }
        if let Some(hint) = self.hint {
            label += &format!(", advised as {}", hint.name());
        }
        if self.prefetch > 0 {
            label += &format!(", prefetch {}", self.prefetch);
        }
        label + &self.between.label() + label::verified(self.verify)
    }

    /// Adds only options that are set, so that a plan of an earlier version resolves to the same
    /// case.
    fn add_to(&self, params: &mut Params) {
        let mut add = |key: &str, value: serde_json::Value| params.insert(key.to_owned(), value);
        if self.close {
            add("close", true.into());
        }
        if let Some(lock) = self.lock {
            add("lock", lock.name().into());
        }
        if let Some(stride) = self.stride {
            add("stride", stride.into());
        }
        if let Some(distribution) = &self.distribution {
            add(DISTRIBUTION, distribution.to_string().into());
        }
        if let Some(share) = self.sequential() {
            add("sequential", percent(share).into());
        }
        if let Some(sizes) = self.record_sizes() {
            add(RECORD_SIZES, sizes.to_string().into());
        }
        if let Some(sizes) = self.write_sizes() {
            add(WRITE_SIZES, sizes.to_string().into());
        }
        if let Some(mix) = self.mix {
            add("mix", percent(mix).into());
        }
        if let Some(updates) = self.updates {
            add("updates", percent(updates).into());
        }
        if self.verify {
            add("verify", true.into());
        }
        if let Some(rate) = self.rate {
            add("rate", rate.into());
        }
        if let Some(seconds) = self.p99_below {
            add("p99_below", format!("{}us", (seconds * 1e6).round()).into());
        }
        if self.latency_from != LatencyStart::Due {
            add("latency_from", self.latency_from.name().into());
        }
        if self.by_direction {
            add("by_direction", true.into());
        }
        if let Some(flag) = self.open_sync {
            add("open_sync", flag.name().into());
        }
        if self.evict_passes {
            add("evict_passes", true.into());
        }
        if let Some(hint) = self.hint {
            add("hint", hint.name().into());
        }
        if self.prefetch > 0 {
            add(PREFETCH, self.prefetch.into());
        }
        self.between.add_to(params);
    }
}

/// The maximum rate in operations per second: a thread's wake-up takes some microseconds.
const FASTEST: u64 = 10_000_000;

/// Reads a rate: `"2000/s"`, or the number alone.
fn rate(reader: &mut Reader<'_>) -> Result<Option<u64>, ParamError> {
    let Some(value) = reader.take("rate") else {
        return Ok(None);
    };
    let rate = match value {
        serde_json::Value::String(text) => text
            .trim()
            .strip_suffix("/s")
            .unwrap_or(text)
            .trim()
            .parse()
            .ok(),
        value => value.as_u64(),
    };
    let wrong = format!(
        "{value} is not a rate from 1 to {FASTEST} operations a second, such as \"2000/s\""
    );
    rate.filter(|rate| (1..=FASTEST).contains(rate))
        .map(Some)
        .ok_or_else(|| reader.error("rate", wrong))
}

/// Reads the distribution of a random order.
fn distribution(spec: &Spec, reader: &mut Reader<'_>) -> Result<Option<Distribution>, ParamError> {
    let Some(value) = reader.value(DISTRIBUTION) else {
        return Ok(None);
    };
    let Some(text) = value.as_str() else {
        return Err(reader.error(
            DISTRIBUTION,
            format!("{value} is not a distribution: use {FORMS}"),
        ));
    };
    if text == UNIFORM {
        return Ok(None);
    }
    let distribution = text
        .parse()
        .map_err(|message: String| reader.error(DISTRIBUTION, message))?;
    if matches!(spec.cache, CacheState::Cold | CacheState::Out) {
        let message =
            "records that are visited again come from the page cache: use cache = warm or any";
        return Err(reader.error(DISTRIBUTION, message));
    }
    Ok(Some(distribution))
}

/// Reads the share of visits in sequence and the sizes of records. Returns `None` if neither is
/// given.
fn walk(
    member: &RecordWorkload,
    spec: &Spec,
    reader: &mut Reader<'_>,
) -> Result<Option<WalkOptions>, ParamError> {
    let mut walk = WalkOptions {
        sequential: 0.0,
        sizes: None,
        write_sizes: None,
    };
    let mut given = None;
    if member.has_choice()
        && let Some(value) = reader.take("sequential")
    {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        walk.sequential = parse_percent(&text)
            .ok()
            .filter(|share| *share < 1.0)
            .ok_or_else(|| {
                reader.error(
                    "sequential",
                    format!("'{text}': give a share between 0% and 100%, such as 30%"),
                )
            })?;
        if matches!(spec.cache, CacheState::Cold | CacheState::Out) {
            let message =
                "records that are visited again come from the page cache: use cache = warm or any";
            return Err(reader.error("sequential", message));
        }
        given = Some("sequential");
    }
    if member.has_record_sizes()
        && let Some(text) = reader.text(RECORD_SIZES)?
    {
        let of_writes = if member.action == RecordAction::Mix {
            reader.text(WRITE_SIZES)?
        } else {
            None
        };
        let parse = if of_writes.is_some() {
            RecordSizes::parse_multiples
        } else {
            RecordSizes::parse
        };
        walk.sizes = Some(
            parse(&text, spec.block_size).map_err(|message| reader.error(RECORD_SIZES, message))?,
        );
        let parsed = of_writes.map(|text| RecordSizes::parse_multiples(&text, spec.block_size));
        walk.write_sizes = parsed
            .transpose()
            .map_err(|message| reader.error(WRITE_SIZES, message))?;
        let message = match () {
            () if spec.files_per_process() > 1 => {
                "records of several sizes divide one file: use files = 1"
            }
            () => "",
        };
        if !message.is_empty() {
            return Err(reader.error(RECORD_SIZES, message));
        }
        given = Some(RECORD_SIZES);
    }
    let Some(key) = given else { return Ok(None) };
    if spec.threads > 1 {
        return Err(reader.error(
            key,
            "threads would share the order of the records: use processes",
        ));
    }
    if spec.items() / u64::from(spec.processes) > MOST_ITEMS {
        return Err(reader.error(
            key,
            format!("the files have too many records: at most {MOST_ITEMS}"),
        ));
    }
    Ok(Some(walk))
}

/// Reads the part of each file that the work is limited to. Returns `None` if neither parameter is
/// given.
fn range(spec: &Spec, reader: &mut Reader<'_>) -> Result<Option<ByteRange>, ParamError> {
    let given = [OFFSET, LENGTH].map(|key| reader.take(key).is_some());
    let (file_size, record) = (spec.layout.file_size, spec.block_size);
    let first = reader.number_or(OFFSET, 0)?;
    let length = reader.number_or(LENGTH, file_size.saturating_sub(first).max(record))?;
    if given == [false, false] {
        return Ok(None);
    }
    for (key, bytes) in [(OFFSET, first), (LENGTH, length)] {
        if !bytes.is_multiple_of(record) {
            let message = format!("{bytes} is not a multiple of block_size, {record}");
            return Err(reader.error(key, message));
        }
    }
    let key = if given[1] { LENGTH } else { OFFSET };
    if first.checked_add(length).is_none_or(|end| end > file_size) {
        let message =
            format!("the part ends after the end of the file: a file has {file_size} bytes");
        return Err(reader.error(key, message));
    }
    if spec.cache == CacheState::Out {
        return Err(reader.error(
            key,
            "memory may hold a part of a file: leave it out, or use another cache state",
        ));
    }
    Ok(Some(ByteRange { first, length }))
}

fn percent(share: f64) -> String {
    // A hundredth of a per cent is finer than the seed can resolve.
    format!("{}%", (share * 1e4).round() / 100.0)
}

/// Reads the share of reads.
fn share(reader: &mut Reader<'_>) -> Result<f64, ParamError> {
    let text = match reader.value("mix") {
        None => USUAL_MIX.to_owned(),
        Some(serde_json::Value::String(text)) => text,
        // 70 can mean nothing else; 0.7 may be a share or less than one per cent.
        Some(serde_json::Value::Number(number)) if number.is_u64() => format!("{number}%"),
        Some(other) => other.to_string(),
    };
    match parse_percent(&text) {
        Ok(share) if share < 1.0 => Ok(share),
        Ok(_) => Err(reader.error(
            "mix",
            format!("{text} reads are not a mix: use random-read"),
        )),
        Err(_) => {
            let range = "give a share between 0% and 100%, such as 70%; for all or none use random-read or \
                         random-write";
            Err(reader.error("mix", format!("'{text}': {range}")))
        }
    }
}

/// The share of updated records by default.
const ALL_RECORDS: &str = "100%";

/// Reads the share of records that are written after they were read.
fn updates(reader: &mut Reader<'_>) -> Result<f64, ParamError> {
    let text = match reader.value("updates") {
        None => ALL_RECORDS.to_owned(),
        Some(serde_json::Value::String(text)) => text,
        Some(serde_json::Value::Number(number)) if number.is_u64() => format!("{number}%"),
        Some(other) => other.to_string(),
    };
    let share = parse_percent(&text)
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| {
        reader.error(
            "updates",
            format!("'{text}': give a share above 0% and up to 100%, such as 10%"),
        )
    })
}

/// The operation on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordAction {
    Read,
    Write,
    /// Written at the end, wherever that is.
    Append,
    /// Read or written, as the seed decides.
    Mix,
    /// Read, and written again: each, or as many as the seed decides.
    Update,
}

/// The content of the files before the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: they are new.
    New,
    /// No bytes, although they have their size.
    Holes,
    /// All their bytes.
    Written,
    /// One or the other: the parameter `overwrite` decides.
    Asked,
}

/// A member of the registry.
#[derive(Clone, Copy)]
pub(crate) struct RecordWorkload {
    /// Name in plans.
    pub(crate) name: &'static str,
    /// Name of the operation in records.
    pub(crate) operation: &'static str,
    pub(crate) about: &'static str,
    pub(crate) action: RecordAction,
    pub(crate) before: Before,
    /// The first one is the default.
    pub(crate) access: &'static [Access],
    /// Each record was visited once through the same open file before the clock; if the cache is
    /// cold, before the remount.
    pub(crate) again: bool,
    /// The backends that it accepts, the default first; empty if it accepts any.
    pub(crate) backends: &'static [&'static str],
    pub(crate) file_size: &'static str,
    /// The default record; `None` if it follows from the access.
    pub(crate) block_size: Option<&'static str>,
    /// The cache states that it accepts, the default first; `None` if they follow from the action.
    pub(crate) cache: Option<&'static [CacheState]>,
    /// Visits per record of the files if records are drawn with replacement, all with the same
    /// probability. `None` if a pass visits each record once, or if the plan gives the
    /// distribution.
    pub(crate) draws: Option<u64>,
}

impl RecordWorkload {
    /// The default values of a member.
    pub(crate) const BASE: RecordWorkload = RecordWorkload {
        name: "",
        operation: "",
        about: "",
        action: RecordAction::Read,
        before: Before::Written,
        access: &[Access::Sequential],
        again: false,
        backends: &[],
        file_size: "size/8",
        block_size: None,
        cache: None,
        draws: None,
    };

    fn writes(&self) -> bool {
        self.action != RecordAction::Read
    }

    /// Returns whether the records after the next one are known, and are only read.
    fn can_prefetch(&self) -> bool {
        self.has_choice() && !self.writes()
    }

    /// Returns whether the plan gives the distribution of a random order.
    fn has_choice(&self) -> bool {
        self.access.contains(&Access::Random) && self.draws.is_none()
    }

    /// Returns whether records can have several sizes. Reads and writes of a sequential mix have an
    /// order of their own.
    fn has_record_sizes(&self) -> bool {
        let in_order = self
            .access
            .iter()
            .all(|access| matches!(access, Access::Sequential | Access::Random));
        in_order && self.draws.is_none() && !self.again && !self.is_sequential_mix()
    }

    /// Returns whether reads and writes each go through the file in sequence.
    fn is_sequential_mix(&self) -> bool {
        self.action == RecordAction::Mix && self.access == [Access::Sequential]
    }

    /// Returns whether the plan gives the space of the files, which hold no data.
    fn has_allocation(&self) -> bool {
        self.before == Before::Holes && self.action == RecordAction::Write
    }

    /// Returns whether the work can be limited to a part of each file.
    fn has_range(&self) -> bool {
        self.action != RecordAction::Append
    }

    /// Returns the rules of the shared parameters.
    pub(crate) fn rules(&self) -> Rules {
        use CacheState::{Any, Cold, Out, Warm};
        let cache: &[CacheState] = match (self.action, self.before) {
            (RecordAction::Read, _) if self.again => &[Warm, Any, Cold, Out],
            (RecordAction::Read | RecordAction::Mix | RecordAction::Update, _) => {
                &[Warm, Cold, Any, Out]
            }
            (RecordAction::Append, _) => &[Any],
            // One record only: it is in memory after the first write, whatever else is there.
            (RecordAction::Write, _) if self.access == [Access::Same] => &[Any, Cold, Warm],
            (RecordAction::Write, Before::New | Before::Holes) => &[Any, Warm, Out],
            (RecordAction::Write, Before::Written | Before::Asked) => CacheState::ALL,
        };
        let cache = self.cache.unwrap_or(cache);
        let durability = if self.action == RecordAction::Read {
            &[Durability::None]
        } else {
            Durability::ALL
        };
        let RecordWorkload {
            name,
            file_size,
            block_size,
            access,
            backends,
            ..
        } = *self;
        let records = Records::Each;
        let files = "1";
        Rules {
            name,
            files,
            file_size,
            block_size,
            records,
            access,
            durability,
            cache,
            backends,
            ..Rules::BASE
        }
    }
}

/// The fewest operations for a 99th percentile: a hundred of them are beyond it.
const FEWEST_FOR_P99: u64 = 10_000;

impl RecordWorkload {
    /// Parses the job that the parameters describe.
    fn job(&self, params: &Params, sizing: &Sizing) -> Result<RecordsJob, ParamError> {
        let mut reader = Reader::new(self.name, self.parameters(), params, sizing)?;
        let mut spec = Spec::read(self.rules(), &mut reader)?;
        if self.has_range() {
            spec.range = range(&spec, &mut reader)?;
        }
        let written = match self.before {
            Before::New | Before::Holes => false,
            Before::Written => true,
            Before::Asked => overwrite(&spec, &mut reader)?,
        };
        let options = RecordsOptions::read(self, &spec, written, &mut reader)?;
        let (out, durable) = (
            spec.cache == CacheState::Out,
            spec.durability != Durability::None,
        );
        if out && self.action != RecordAction::Read && !durable {
            let message = "writes out of cache must be durable: without a flush the last records stay in memory";
            return Err(reader.error("durability", message));
        }
        let allocation = match self.has_allocation() {
            true => reader.word("allocate", Allocation::ALL, Allocation::name)?,
            false => Allocation::Size,
        };
        if options.verify && self.before == Before::Holes && !self.writes() {
            return Err(reader.error(
                "verify",
                "holes hold no data that was written: leave it out",
            ));
        }
        if options.verify && !written && spec.range.is_some() {
            let message = "a new file holds no data beside the part that is written: set overwrite, or leave it out";
            return Err(reader.error("verify", message));
        }
        let further_passes = self.has_allocation() && reader.flag("further_passes")?;
        reader.finish();
        Ok(RecordsJob {
            member: *self,
            spec,
            written,
            allocation,
            further_passes,
            options,
        })
    }
}

/// Reads whether the work overwrites files. Random writes do, or they would measure how holes are
/// filled.
fn overwrite(spec: &Spec, reader: &mut Reader<'_>) -> Result<bool, ParamError> {
    let random = spec.access == Access::Random;
    let overwrite = reader.flag_or("overwrite", random)?;
    if random && !overwrite {
        return Err(reader.error(
            "overwrite",
            "random writes overwrite fully written files: use true",
        ));
    }
    if !overwrite && spec.cache == CacheState::Cold {
        return Err(reader.error(
            "cache",
            "new files are never cold: leave it out, or set overwrite",
        ));
    }
    Ok(overwrite)
}

impl Workload for RecordWorkload {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        let mut params =
            super::params::from_pairs([("file_size", "64K".into()), ("block_size", "4K".into())]);
        if self.action != RecordAction::Read {
            params.insert("durability".to_owned(), "end".into());
        }
        params
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.rules().parameters();
        if self.before == Before::Asked {
            let random = ParameterDefault::Derived("true if access is random");
            let overwrite = Parameter::flag(
                "overwrite",
                "write over fully written files instead of into new ones",
            );
            all.extend(group(ParameterGroup::Work, [overwrite.default(random)]));
        }
        all.extend(parameters(self));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(self.job(params, sizing)?))
    }
}

impl RecordsJob {
    /// Returns text such as `random read 4K` with the number of a stride or a mix that is not the
    /// default.
    fn words(&self) -> String {
        let operation = self.member.operation.replace('_', " ");
        let verb = match self.member.before {
            Before::Asked if self.written && self.spec.access == Access::Sequential => "overwrite",
            _ => &operation,
        };
        let random = self.spec.access == Access::Random && !verb.starts_with("random");
        if random {
            format!("random {verb}")
        } else {
            verb.to_owned()
        }
    }
}

impl Job for RecordsJob {
    fn profile(&self) -> Profile {
        let mut profile = self
            .spec
            .profile(self.member.operation, self.spec.data_label(&self.words()));
        if !self.spec.has_own_label() {
            if let Some(ByteRange { first, length }) = self.spec.range {
                profile.label += &format!(", {} from {}", label::size(length), label::size(first));
            }
            if self.allocation != Allocation::Size {
                profile.label += &format!(", allocated: {}", self.allocation.name());
            }
            profile.label += &self.options.label();
        }
        profile.rate = self.options.rate;
        if self.options.is_judged_by_p99() {
            profile.primary = &LATENCY_P99;
            profile.fewest = profile.fewest.max(FEWEST_FOR_P99);
        }
        let between = &self.options.between;
        profile.reaches_device |=
            between.syncs() || between.ends_with_sync() || self.options.open_sync.is_some();
        profile.reads_only = self.member.action == RecordAction::Read;
        profile.only_writes = matches!(
            self.member.action,
            RecordAction::Write | RecordAction::Append
        );
        let restore = self.restore();
        let again_inside =
            self.options.close && self.member.again && !self.spec.cache.begins_cold();
        if restore != Restore::Nothing || again_inside {
            profile.renewal = Renewal::Inside;
        } else if self.uses_up() {
            profile.renewal = Renewal::Recreate;
        }
        // A part of a file may fit into memory, and a part of a warm-up is another one.
        profile.divisible &= self.spec.cache != CacheState::Out && self.member.draws.is_none();
        if self.uses_up() {
            profile.repeats_in_place = restore == Restore::Anew || self.further_passes;
        }
        profile.in_place = self.written && self.spec.processes == 1;
        profile.cold_bytes_per_operation = match self.member.action {
            // The device has no blocks of a hole.
            _ if self.member.before == Before::Holes => 0,
            RecordAction::Read | RecordAction::Update => profile.cold_bytes_per_operation,
            // Reads behind the writes find the page cache. At least the reads beyond the last write
            // come from the device.
            RecordAction::Mix if self.member.is_sequential_mix() => {
                let beyond = (2.0 * self.options.reads() - 1.0).max(0.0);
                (profile.cold_bytes_per_operation as f64 * beyond * 0.9) as u64
            }
            // The seed decides which operations are reads, so there may be a few fewer than their
            // share.
            RecordAction::Mix => {
                (profile.cold_bytes_per_operation as f64 * self.options.reads() * 0.9) as u64
            }
            // Whole blocks are replaced without being read.
            RecordAction::Write | RecordAction::Append => 0,
        };
        if let Some(draws) = self.member.draws {
            profile.operations *= draws;
            // The device serves each record once; a tenth is allowed for records that no draw hits.
            profile.cold_bytes_per_operation = profile.cold_bytes_per_operation * 9 / (10 * draws);
        }
        profile
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        if self.member.before == Before::Asked {
            params.insert("overwrite".to_owned(), self.written.into());
        }
        if let Some(ByteRange { first, length }) = self.spec.range {
            params.insert(OFFSET.to_owned(), first.into());
            params.insert(LENGTH.to_owned(), length.into());
        }
        if self.allocation != Allocation::Size {
            params.insert("allocate".to_owned(), self.allocation.name().into());
        }
        if self.further_passes {
            params.insert("further_passes".to_owned(), true.into());
        }
        self.options.add_to(&mut params);
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn one_client(&self) -> Option<&'static str> {
        let Spec {
            threads,
            cache,
            block_size,
            ..
        } = self.spec;
        let first = self.spec.byte_range().first;
        let whole_pages =
            block_size.is_multiple_of(fileset::BLOCK) && first.is_multiple_of(fileset::BLOCK);
        let share = threads > 1 && self.member.writes();
        match self.member.action {
            // The client decides where the file ends.
            RecordAction::Append if share => {
                Some("clients of NFS overwrite each other's appends: use processes")
            }
            _ if share && !whole_pages => {
                Some("clients of NFS write whole pages: use a block_size of 4K or processes")
            }
            _ if self.member.writes() && cache == CacheState::Warm => {
                Some("data that one client writes are not warm in another: add cache = \"any\"")
            }
            _ => None,
        }
    }

    fn unit(&self) -> Option<WorkUnit> {
        // A rate that is kept for a twentieth of a second shows no stalls, and a sample of a
        // warm-up is a part of it. Syncs and think times that come after many operations would be
        // missing from a sample.
        let options = &self.options;
        let between = &options.between;
        if options.is_judged_by_p99()
            || self.member.draws.is_some()
            || !between.is_nothing()
            || between.ends_with_sync()
        {
            return None;
        }
        // A unit has a known number of operations, and a file of its own size.
        if options.record_sizes().is_some() || self.spec.range.is_some() {
            return None;
        }
        let change = match self.member.action {
            _ if self.uses_up() => Change::Grown,
            RecordAction::Read => Change::Nothing,
            RecordAction::Write
            | RecordAction::Append
            | RecordAction::Mix
            | RecordAction::Update => Change::Overwritten,
        };
        let unit = spec::unit_of_set(self, &self.spec, change, |params| {
            self.member.job(params, &Sizing { size: 0, cpus: 1 }).ok()
        })?;
        // In a smaller file the frequent records have another share of the visits, and a mix reads
        // other records than it writes, so the work is not divided.
        let divides = options.distribution.is_none()
            && options.walk.is_none()
            && !self.member.is_sequential_mix();
        (divides || unit.params == self.params()).then_some(unit)
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.content())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = self.spec.open_set(context)?;
        let rendezvous = Rendezvous::new(
            self.spec.workers(),
            matches!(context.clock, ClockSpec::Fake { .. }),
        )?;
        let threads = RecordThreads {
            job: self,
            set: &set,
            context,
            rendezvous: &rendezvous,
        };
        let verb = if self.member.action == RecordAction::Read {
            Verb::Read
        } else {
            Verb::Write
        };
        let subject = Subject {
            interest: Interest::Data,
            content: self.content(),
            verb: Some(verb),
        };
        let (mut measurement, reports) =
            measure_set(&threads, &set, subject, &self.profile(), context, gate)?;
        let would_wait = reports.iter().map(|report| report.would_wait).sum::<u64>();
        if would_wait > 0 {
            measurement.counts.insert(WOULD_WAIT.to_owned(), would_wait);
        }
        if self.options.by_direction {
            let all = Directions::sum(reports);
            let [reads, writes] = all.bytes;
            measurement.counts.extend([
                (READ_BYTES.to_owned(), reads),
                (WRITE_BYTES.to_owned(), writes),
            ]);
            measurement.latency.extend(all.latency());
        }
        if self.options.between.syncs()
            && let Some(syncs) = measurement.latency.remove(threads::SYNC)
        {
            measurement.latency.insert(between::SYNC.to_owned(), syncs);
        }
        if !self.in_rounds() {
            rendezvous.add_up();
        }
        measurement.timed_ns = rendezvous.timed_ns();
        measurement.stonewall = rendezvous.stonewall();
        if self.options.verify && verb == Verb::Write && set.backend.capabilities().real {
            fileset::verify(&set.path, &set.layout, context.data())?;
        }
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// The names, among the operations of a mix, of its reads and writes.
const READS: &str = "read";
const WRITES: &str = "write";

/// The names of the bytes of reads and writes among the counts of a measurement.
const READ_BYTES: &str = "read_bytes";
const WRITE_BYTES: &str = "write_bytes";

/// The result of a thread besides its recorder.
struct RecordsReport {
    /// Absent unless reads and writes are reported separately.
    directions: Option<Box<Directions>>,
    /// Calls that would have waited.
    would_wait: u64,
}

/// The latencies of one thread by direction.
struct Directions {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    /// Bytes of reads and of writes.
    bytes: [u64; 2],
}

impl Directions {
    fn add(&mut self, kind: OperationKind, bytes: u64, ns: u64) {
        let reads = kind == OperationKind::Read;
        let histogram = if reads {
            &mut self.reads
        } else {
            &mut self.writes
        };
        histogram.saturating_record(ns);
        self.bytes[usize::from(!reads)] += bytes;
    }

    /// Returns the sum over all threads.
    fn sum(reports: Vec<RecordsReport>) -> Directions {
        let mut all = Directions::default();
        for report in reports.into_iter().filter_map(|report| report.directions) {
            all.reads
                .add(report.reads)
                .expect("histograms of one size add up");
            all.writes
                .add(report.writes)
                .expect("histograms of one size add up");
            all.bytes = [
                all.bytes[0] + report.bytes[0],
                all.bytes[1] + report.bytes[1],
            ];
        }
        all
    }

    /// Returns the latencies of reads and of writes by their names in records.
    fn latency(&self) -> [(String, String); 2] {
        [(READS, &self.reads), (WRITES, &self.writes)]
            .map(|(name, found)| (name.to_owned(), latency::encode(found)))
    }
}

impl Default for Directions {
    fn default() -> Directions {
        Directions {
            reads: latency::touched(),
            writes: latency::touched(),
            bytes: [0; 2],
        }
    }
}

/// The threads of one measurement.
struct RecordThreads<'s> {
    job: &'s RecordsJob,
    set: &'s OpenFileSet,
    context: &'s Context,
    rendezvous: &'s Rendezvous,
}

/// The state of one worker.
struct ThreadState<'s> {
    io: IoLoop<'s>,
    /// The loop that writes, if the other one reads.
    writer: Option<IoLoop<'s>>,
    visits: Visits,
    /// Decides which operations of a mix read.
    seed: u64,
    /// Operations of a mix so far.
    turns: u64,
    /// The direction of the next operation, if it was drawn already.
    drawn: Option<OperationKind>,
    /// The next records of a sequential mix.
    places: Option<MixPlaces>,
    /// Whether the files are closed.
    closed: bool,
    /// Operations since the last sync and think time.
    since: Turns,
    /// The pass of the last record, if the syncs belong to passes.
    pass: u64,
    /// Latencies by direction, if they are recorded apart.
    directions: Option<Box<Directions>>,
}

/// The next records of a sequential mix: reads and writes each go through all records of the
/// worker, again and again.
struct MixPlaces {
    first: u64,
    length: u64,
    /// The next record and the passes before this one.
    read: [u64; 2],
    write: [u64; 2],
}

impl MixPlaces {
    /// Returns whether the last record of a direction was its first one of a pass after the first.
    fn begins_again(&self, kind: OperationKind) -> bool {
        let [next, passes] = if kind == OperationKind::Read {
            self.read
        } else {
            self.write
        };
        next == 1 && passes > 0
    }

    fn take(&mut self, kind: OperationKind) -> u64 {
        let [next, passes] = if kind == OperationKind::Read {
            &mut self.read
        } else {
            &mut self.write
        };
        if *next == self.length {
            *next = 0;
            *passes += 1;
        }
        *next += 1;
        self.first + *next - 1
    }
}

impl<'s> RecordThreads<'s> {
    fn visits(&self, rank: u32) -> Visits {
        let visits = self.job.spec.visits(self.context, rank);
        let visits = self
            .job
            .options
            .stride
            .map_or(visits.clone(), |stride| visits.with_stride(stride));
        let uniform = self.job.member.draws.map(|_| &Distribution::UNIFORM);
        let visits = match uniform.or(self.job.options.distribution.as_ref()) {
            Some(distribution) => visits.with_distribution(distribution, self.context.seed),
            None => visits,
        };
        let visits = match &self.job.options.walk {
            Some(walk) => visits.walking(
                walk,
                hash(
                    self.context.seed,
                    Stream::Walk,
                    u64::from(self.context.repetition),
                ),
            ),
            None => visits,
        };
        if self.job.in_rounds() {
            visits.resting()
        } else {
            visits
        }
    }

    fn io(&self, purpose: Purpose, rank: u32) -> Result<IoLoop<'s>, EngineError> {
        let job = self.job;
        let io_options = IoOptions {
            // The measurement does not include files that are created before the clock.
            kind: if purpose == Purpose::Read {
                OperationKind::Read
            } else {
                OperationKind::Write
            },
            hold: true,
            largest_record: job.options.largest_record() * job.spec.block_size,
            verify: job.options.verify,
            lock: job.options.lock,
            open_flags: job
                .options
                .open_sync
                .map_or(OFlags::empty(), OpenSync::flags),
            evict_passes: job.options.evict_passes,
            advice: job.options.hint.map(Hint::advice),
            prefetch: job.options.prefetch,
            ..job.spec.io_options(purpose, rank)
        };
        IoLoop::new(self.set, io_options)
    }

    /// Visits every record of this worker once, without a clock.
    fn visit_once(&self, state: &mut ThreadState<'s>, rank: u32) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let mut whole = self.context.clone();
        whole.operations = spec.items();
        state.io.pass_over(spec.visits(&whole, rank))
    }

    fn each_loop(
        state: &mut ThreadState<'s>,
        mut act: impl FnMut(&mut IoLoop<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(&mut state.io)?;
        state.writer.as_mut().map_or(Ok(()), act)
    }

    /// Restores the state of the first pass.
    fn restore(&self, state: &mut ThreadState<'s>, rank: u32) -> Result<(), EngineError> {
        let restore = self.job.restore();
        if restore == Restore::Nothing && !state.closed {
            return Ok(());
        }
        if !state.closed {
            Self::each_loop(state, IoLoop::close_held)?;
        }
        if restore == Restore::Anew {
            state.io.unlink_held()?;
        }
        Self::each_loop(state, IoLoop::open_held)?;
        if restore == Restore::Anew && self.job.spec.durability != Durability::None {
            // The removal must not be part of the next flush.
            state.io.sync_set()?;
        }
        state.closed = false;
        if self.job.member.again {
            self.visit_once(state, rank)
        } else {
            Ok(())
        }
    }

    /// Moves the remaining records, or those that remain in the pass.
    fn move_records(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let options = &self.job.options;
        let is_mix = options.mix.is_some();
        let one_by_one = state.writer.is_some()
            || is_mix
            || !options.between.is_nothing()
            || options.record_sizes().is_some();
        match options.rate {
            Some(rate) => self.keep_pace(state, recorder, rate)?,
            None if one_by_one && self.job.spec.depth > 1 => self.feed_queue(state, recorder)?,
            None if one_by_one => self.move_one_by_one(state, recorder)?,
            None => state.io.run(&mut state.visits, recorder)?,
        }
        self.sync_at_end(state, recorder)?;
        state.since = Turns::default();
        Ok(())
    }

    /// Syncs the files after the last operation of the worker, or of a pass.
    fn sync_at_end(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let Some(flush) = self.job.options.between.end_sync(&state.since) else {
            return Ok(());
        };
        Self::each_writer(state, |io| io.flush_held(flush))?;
        recorder.tick(OperationKind::Sync, 0);
        Ok(())
    }

    /// Syncs at the end of a pass, and begins the next one, if the syncs belong to passes.
    fn turn_pass(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let is_end = state.visits.more() && state.visits.pass() != state.pass;
        if !is_end || !self.job.options.between.syncs_passes() {
            return Ok(());
        }
        state.pass = state.visits.pass();
        self.before(state, recorder)?;
        self.sync_at_end(state, recorder)?;
        state.since.begin_pass();
        Ok(())
    }

    /// Moves the records with several requests in flight, and all work that belongs between two of
    /// them.
    fn feed_queue(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        let ThreadState {
            io,
            visits,
            seed,
            turns,
            directions,
            ..
        } = state;
        let mut feed = Feed {
            job: self.job,
            visits,
            seed: *seed,
            turns,
            directions: directions.as_deref_mut(),
            since: Turns::begin(recorder),
            drawn: None,
            thinks: false,
            pass: 0,
        };
        let result = io.run_fed(&mut feed, recorder);
        let Feed { since, .. } = feed;
        state.since = since;
        result
    }

    /// Moves the records with all work that belongs between two of them.
    fn move_one_by_one(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let is_mix = self.job.member.action == RecordAction::Mix;
        recorder.start();
        state.since = Turns::begin(recorder);
        loop {
            self.turn_pass(state, recorder)?;
            if state.places.is_none() {
                state.io.begin_pass(&state.visits)?;
            }
            let drawn = match state.drawn.take() {
                Some(drawn) => drawn,
                None => self.draw(state),
            };
            let kind = self
                .job
                .options
                .between
                .wait(&state.since, drawn, is_mix, recorder);
            state.visits.choose(kind == OperationKind::Write);
            let Some(item) = state.visits.next() else {
                state.drawn = Some(drawn);
                if self.job.options.between.syncs_last() {
                    self.before(state, recorder)?;
                }
                break;
            };
            self.before(state, recorder)?;
            let started = recorder.last();
            let (kind, item) = self.step(state, item, kind)?;
            let counts = !recorder.is_ramping();
            let more = recorder.lap(kind, self.job.spec.block_size * state.visits.record());
            if !self.after(state, item, kind, counts.then_some(started), recorder) || !more {
                break;
            }
        }
        Self::each_loop(state, IoLoop::close_current)
    }

    /// Returns the direction of the next operation, which the seed decides in a mix. Of an update
    /// it is the last call.
    #[inline]
    fn draw(&self, state: &mut ThreadState<'s>) -> OperationKind {
        self.job.draw(state.seed, &mut state.turns)
    }

    /// Does what is due between two operations, before the next one.
    #[inline]
    fn before(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let writer = state.writer.as_mut().unwrap_or(&mut state.io);
        self.job
            .options
            .between
            .before(&mut state.since, writer, recorder)
    }

    /// Accounts for an operation that began at `started`, or for one of the ramp, and thinks if it
    /// is time to. Returns whether to continue.
    #[inline]
    fn after(
        &self,
        state: &mut ThreadState<'s>,
        item: u64,
        kind: OperationKind,
        started: Option<u64>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> bool {
        let bytes = self.job.spec.block_size * state.visits.record();
        if let (Some(directions), Some(started)) = (&mut state.directions, started) {
            directions.add(kind, bytes, recorder.last() - started);
        }
        let record = MovedRecord {
            item,
            items: state.visits.record(),
            bytes,
        };
        self.job
            .options
            .between
            .after(&mut state.since, record, kind, recorder)
    }

    /// Starts operations at even intervals, whether the earlier ones were done in time or not.
    /// Measures the latency of each from its due time, so that an operation that waits behind a
    /// stall includes the wait, unless the plan requests the latency of the call.
    fn keep_pace(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
        rate: u64,
    ) -> Result<(), EngineError> {
        let (workers, rank) = (f64::from(self.job.spec.workers()), f64::from(recorder.rank));
        let apart = 1e9 / rate as f64;
        // Never refused; with the default slack a thread wakes some 50 us late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        recorder.start();
        let begun = recorder.last();
        let mut turn = 0.0;
        while let Some(item) = state.visits.next() {
            let due = begun + ((turn * workers + rank) * apart) as u64;
            turn += 1.0;
            self.before(state, recorder)?;
            let started = match self.job.options.latency_from {
                LatencyStart::Due => {
                    recorder.wait_until(due);
                    due
                }
                LatencyStart::Call => recorder.resume_at(due),
            };
            let kind = self.draw(state);
            let (kind, item) = self.step(state, item, kind)?;
            let bytes = self.job.spec.block_size * state.visits.record();
            recorder.tick(kind, bytes);
            let counts = !recorder.is_ramping();
            let more = recorder.complete(started, bytes);
            if !self.after(state, item, kind, counts.then_some(started), recorder) || !more {
                break;
            }
        }
        Self::each_loop(state, IoLoop::close_current)
    }

    /// Moves one record, whose last call is `kind`. Returns the operation and the first item of its
    /// record, which a sequential mix chooses itself.
    fn step(
        &self,
        state: &mut ThreadState<'s>,
        item: u64,
        kind: OperationKind,
    ) -> Result<(OperationKind, u64), EngineError> {
        let ThreadState {
            io,
            writer,
            visits,
            places,
            ..
        } = state;
        let items = visits.record();
        let Some(writer) = writer else {
            io.step_over(item, items)?;
            return Ok((kind, item));
        };
        if self.job.member.action == RecordAction::Update {
            io.step_over(item, items)?;
            if kind == OperationKind::Write {
                writer.step_over(item, items)?;
            }
            return Ok((kind, item));
        }
        let item = places.as_mut().map_or(item, |places| places.take(kind));
        if self.job.options.evict_passes
            && places
                .as_ref()
                .is_some_and(|places| places.begins_again(kind))
        {
            io.evict()?;
        }
        let io = if kind == OperationKind::Read {
            io
        } else {
            writer
        };
        io.step_over(item, items)?;
        Ok((kind, item))
    }

    /// Performs one pass with all calls that belong to it, against the clock.
    fn perform_pass(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let before = recorder.bytes();
        recorder.start();
        Self::each_loop(state, IoLoop::lock_files)?;
        self.move_records(state, recorder)?;
        Self::each_loop(state, IoLoop::unlock_files)?;
        if spec.durability == Durability::End && spec.threads == 1 {
            recorder.sync(recorder.bytes().saturating_sub(before), || {
                Self::each_writer(state, IoLoop::flush_all)
            })?;
        }
        if self.job.options.close && spec.threads == 1 {
            self.close(state, recorder)?;
        }
        Ok(())
    }

    /// Ends a pass of threads that share files, once all of them have arrived. The first one
    /// flushes everything to the device, and each closes its files.
    fn finish_shared(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        if self.job.spec.durability == Durability::End && recorder.rank == 0 {
            recorder.sync(self.rendezvous.moved(), || {
                Self::each_writer(state, IoLoop::flush_clients)
            })?;
        }
        if self.job.options.close {
            self.close(state, recorder)
        } else {
            Ok(())
        }
    }

    fn close(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        state.closed = true;
        Self::each_loop(state, IoLoop::close_held)?;
        recorder.tick(OperationKind::Close, 0);
        Ok(())
    }

    /// Calls `act` for the loop that writes: data that was read needs no flush.
    fn each_writer(
        state: &mut ThreadState<'s>,
        act: impl FnOnce(&mut IoLoop<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(state.writer.as_mut().unwrap_or(&mut state.io))
    }

    /// Performs passes until everything is done, the time is up or a worker has failed. A failed
    /// worker still comes to each barrier, or the others would wait for ever.
    fn perform_passes(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let shared = self.job.spec.threads > 1;
        let mut result = Ok(());
        for round in 0u64.. {
            if round > 0 {
                let rank = recorder.rank;
                result = recorder.untimed(|| self.restore(state, rank));
            }
            self.rendezvous.wait();
            if result.is_ok() {
                result = self.perform_pass(state, recorder);
            }
            if shared {
                self.rendezvous.wait();
                if result.is_ok() {
                    result = self.finish_shared(state, recorder);
                }
            }
            let state = match result {
                Err(_) => RoundState::Over,
                Ok(()) if recorder.over() => RoundState::Over,
                Ok(()) if state.visits.more() => RoundState::More,
                Ok(()) => RoundState::Done,
            };
            let start = recorder.pause();
            self.rendezvous
                .finish(recorder.rank, (start, recorder.last()), state);
            if !self.rendezvous.end_round() {
                break;
            }
        }
        result
    }
}

/// The requests of one worker with several in flight.
struct Feed<'f> {
    job: &'f RecordsJob,
    visits: &'f mut Visits,
    seed: u64,
    /// Operations of a mix so far.
    turns: &'f mut u64,
    directions: Option<&'f mut Directions>,
    since: Turns,
    /// The direction of the next record, if it was drawn already.
    drawn: Option<OperationKind>,
    /// Whether a think time precedes the next record.
    thinks: bool,
    pass: u64,
}

impl QueueFeed for Feed<'_> {
    fn next(&mut self, now: u64) -> QueueStep {
        let between = &self.job.options.between;
        // As in fio, a sync or a think time precedes an operation, so none follows the last one.
        if !self.visits.more() && !between.syncs_last() {
            return QueueStep::End;
        }
        match between.take_due(&mut self.since) {
            Some(DueSync::Range(first, end, flags)) => {
                return QueueStep::SyncRange(first, end, flags);
            }
            Some(DueSync::File(item, flush)) => return QueueStep::Sync(item, flush),
            None => {}
        }
        if std::mem::take(&mut self.thinks) {
            return QueueStep::WaitUntil(now.saturating_add(between.think_ns()));
        }
        if !self.visits.more() {
            return QueueStep::End;
        }
        if self.job.options.evict_passes && self.visits.pass() != self.pass {
            self.pass = self.visits.pass();
            return QueueStep::Evict;
        }
        let drawn = self
            .drawn
            .take()
            .unwrap_or_else(|| self.job.draw(self.seed, self.turns));
        let (kind, due) = between.next_due(&self.since, drawn, self.job.options.mix.is_some(), now);
        if due > now {
            self.drawn = Some(kind);
            return QueueStep::WaitUntil(due);
        }
        self.visits.choose(kind == OperationKind::Write);
        let Some(item) = self.visits.next() else {
            return QueueStep::End;
        };
        let items = self.visits.record();
        let record = MovedRecord {
            item,
            items,
            bytes: items * self.job.spec.block_size,
        };
        self.thinks = between.count(&mut self.since, record, kind);
        let verb = if kind == OperationKind::Read {
            Verb::Read
        } else {
            Verb::Write
        };
        QueueStep::Submit(QueuedRecord { item, items, verb })
    }

    fn complete(&mut self, verb: Verb, bytes: u64, ns: u64) {
        if let Some(directions) = &mut self.directions {
            directions.add(kind_of(verb), bytes, ns);
        }
    }
}

fn kind_of(verb: Verb) -> OperationKind {
    match verb {
        Verb::Read => OperationKind::Read,
        Verb::Write => OperationKind::Write,
    }
}

impl<'s> ThreadJob for RecordThreads<'s> {
    type ThreadState = ThreadState<'s>;
    type Report = RecordsReport;

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<ThreadState<'s>, EngineError> {
        let (purpose, second) = self.job.purposes();
        let visits = self.visits(rank);
        let (first, length) = visits.range();
        let places = MixPlaces {
            first,
            length,
            read: [0; 2],
            write: [0; 2],
        };
        let mut state = ThreadState {
            io: self.io(purpose, rank)?,
            writer: second.map(|purpose| self.io(purpose, rank)).transpose()?,
            visits,
            seed: hash(
                self.context.seed,
                Stream::Mix,
                u64::from(self.context.repetition) << 32 | u64::from(rank),
            ),
            turns: 0,
            drawn: None,
            places: self.job.member.is_sequential_mix().then_some(places),
            closed: false,
            since: Turns::default(),
            pass: 0,
            directions: self.job.options.by_direction.then(Box::default),
        };
        if purpose == Purpose::Create && self.job.spec.durability != Durability::None {
            state.io.sync_set()?;
        }
        // The files of a cold trial were read before the remount, as IOzone's option -U has it.
        if self.job.member.again && self.job.spec.cache != CacheState::Cold {
            self.visit_once(&mut state, rank)?;
        }
        Ok(state)
    }

    fn run(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        if self.job.in_rounds() {
            return self.perform_passes(state, recorder);
        }
        let result = self.move_records(state, recorder);
        let start = recorder.pause();
        self.rendezvous
            .finish(recorder.rank, (start, recorder.last()), RoundState::Done);
        result
    }

    fn progress(&self, rank: u32) -> Option<&AtomicU64> {
        Some(self.rendezvous.progress(rank))
    }

    fn report(&self, state: ThreadState<'s>) -> RecordsReport {
        let second = state.writer.as_ref().map_or(0, IoLoop::would_wait);
        RecordsReport {
            would_wait: state.io.would_wait() + second,
            directions: state.directions,
        }
    }

    fn encode_report(&self, report: RecordsReport) -> Option<String> {
        (report.would_wait > 0).then(|| report.would_wait.to_string())
    }

    fn decode_report(&self, text: &str) -> Result<Option<RecordsReport>, EngineError> {
        let would_wait = text.parse().map_err(|error| {
            EngineError::new(format!(
                "a process reported '{text}' refused calls: {error}"
            ))
        })?;
        Ok(Some(RecordsReport {
            would_wait,
            directions: None,
        }))
    }
}

/// The worker itself recreates new files of up to this number of bytes, between two passes. Larger
/// ones take long enough for one process per repetition, before which the target is idle.
const RENEWED_INSIDE: u64 = 64 << 20;

/// The way in which a worker restores the state before the next pass, outside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restore {
    /// There is nothing to restore, or the worker does not restore it.
    Nothing,
    /// Closes the files and opens them again.
    Reopen,
    /// Removes them and creates them again.
    Anew,
}

/// A workload that moves records, with its parameters.
struct RecordsJob {
    member: RecordWorkload,
    spec: Spec,
    /// Whether the files are fully written before.
    written: bool,
    /// The space of files that are not.
    allocation: Allocation,
    /// Whether further passes write over the data of the first one, into files that were not
    /// written before.
    further_passes: bool,
    options: RecordsOptions,
}

impl RecordsJob {
    /// Returns the direction of the next operation, which the seed decides in a mix. Of an update
    /// it is the last call.
    #[inline]
    fn draw(&self, seed: u64, turns: &mut u64) -> OperationKind {
        let share = match self.member.action {
            RecordAction::Read => return OperationKind::Read,
            RecordAction::Write | RecordAction::Append => return OperationKind::Write,
            RecordAction::Mix => self.options.reads(),
            RecordAction::Update => self.options.updates.unwrap_or(1.0),
        };
        *turns += 1;
        let is_below = unit(hash(seed, Stream::Mix, *turns)) < share;
        let reads = is_below == (self.member.action == RecordAction::Mix);
        if reads {
            OperationKind::Read
        } else {
            OperationKind::Write
        }
    }

    fn restore(&self) -> Restore {
        let Spec {
            layout,
            threads,
            backend,
            range,
            ..
        } = &self.spec;
        let files = self.spec.files_per_process();
        let small = files <= HELD_FILES && files * layout.file_size <= RENEWED_INSIDE;
        match self.member.action {
            RecordAction::Append => Restore::Nothing,
            // A cold state requires a remount, which a worker does not do.
            _ if self.spec.cache.begins_cold() => Restore::Nothing,
            // As in each repetition, the next pass needs new holes.
            RecordAction::Write if self.member.before == Before::Holes => Restore::Nothing,
            // Threads that share a file would have to agree on which of them removes it, and so
            // would workers that write parts of it.
            RecordAction::Write if !self.written && *threads == 1 && small && range.is_none() => {
                Restore::Anew
            }
            RecordAction::Write if !self.written => Restore::Nothing,
            _ if files > HELD_FILES => Restore::Nothing,
            _ if self.options.close => Restore::Reopen,
            // Reading or writing again through the same open file would be another workload.
            _ if backend.capabilities().remembers && !self.member.again => Restore::Reopen,
            _ => Restore::Nothing,
        }
    }

    /// Returns whether a pass leaves other files than it found, so that the next one needs new
    /// files.
    fn uses_up(&self) -> bool {
        !self.written && self.member.writes()
    }

    /// Returns whether each pass is a round of its own, with work before or after it.
    fn in_rounds(&self) -> bool {
        let locked = self.options.lock == Some(Lock::File);
        self.restore() != Restore::Nothing
            || self.options.close
            || self.spec.durability == Durability::End
            || locked
    }

    fn content(&self) -> Content {
        match self.restore() {
            _ if self.written => Content::Full,
            _ if self.member.before == Before::Holes => self.allocation.content(),
            Restore::Anew => Content::Directories,
            _ => Content::Empty,
        }
    }

    fn purposes(&self) -> (Purpose, Option<Purpose>) {
        match self.member.action {
            RecordAction::Read => (Purpose::Read, None),
            RecordAction::Append => (Purpose::Append, None),
            RecordAction::Write if self.restore() == Restore::Anew => (Purpose::Create, None),
            RecordAction::Write => (Purpose::Write, None),
            RecordAction::Mix if self.spec.depth > 1 => (Purpose::Both, None),
            RecordAction::Mix | RecordAction::Update => (Purpose::Read, Some(Purpose::Write)),
        }
    }
}

#[cfg(test)]
mod tests;
