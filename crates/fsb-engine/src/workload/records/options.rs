//! The definition of a workload that moves records, and the parameters that only such workloads have.

use fsb_model::units::parse_percent;
use fsb_model::{Access, CacheState, Durability, Params};

use crate::ParamError;
use crate::distribution::{Distribution, FORMS};
use crate::io_loop::{HELD_FILES, Lock};
use crate::order::STRIDE;
use crate::workload::label;
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{self, Needs, Parameter, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::workload::spec::{Records, Rules, Spec};

/// The parameter of the distribution, as fio names it.
const DISTRIBUTION: &str = "random_distribution";

/// The distribution in which each pass visits every record once.
const UNIFORM: &str = "random";

/// Default share of reads among the operations of a mix.
const USUAL_MIX: &str = "50%";

/// The options, resolved.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// The files are closed at the end of each pass, inside the clock.
    pub(super) close: bool,
    /// The range that is locked while its data is moved, inside the clock.
    pub(super) lock: Option<Lock>,
    /// Records from one visit to the next; `None` for any other order.
    pub(super) stride: Option<u64>,
    /// The distribution of a random order; `None` if each pass visits every record once.
    pub(super) distribution: Option<Distribution>,
    /// The share of reads, for a workload that mixes.
    mix: Option<f64>,
    /// Whether the worker compares records that it reads with the written data, inside the clock. Written files are
    /// read and compared after it.
    pub(super) verify: bool,
    /// Operations per second that all workers together start, whether earlier ones are done or not.
    pub(super) rate: Option<u64>,
    /// Seconds below which the 99th percentile should stay, if a bound was given.
    p99_below: Option<f64>,
}

/// Returns the options of `member`.
pub(super) fn parameters(member: &RecordWorkload) -> Vec<Parameter> {
    use ParameterKind::{Duration, Number, Percent, Rate};
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::flag("close", "close files at the end of each pass, inside the clock"),
            Parameter::word("lock", Lock::ALL, Lock::name, "lock each record, or the file during a pass")
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
                "bound for the 99th percentile at the highest rate to find",
            )
            .needs(Needs::Given("rate")),
        ],
    );
    if member.access.contains(&Access::Strided) {
        let about = "records from one visit to the next";
        all.extend(group(ParameterGroup::Work, [Parameter::new("stride", Number(1..=1 << 32), STRIDE, about)]));
    }
    if member.access.contains(&Access::Random) {
        let about =
            "visits of records: zipf:1.1, pareto:0.2, normal:10 or zoned:80/20:20/80, or each record once a pass";
        let distribution = Parameter::new(DISTRIBUTION, ParameterKind::Text, UNIFORM, about);
        let random = Needs::Value("access", &["random"]);
        all.extend(group(ParameterGroup::Calls, [distribution.needs(random)]));
    }
    if member.action == RecordAction::Mix {
        let about = "share of reads among the operations";
        all.extend(group(ParameterGroup::Work, [Parameter::new("mix", Percent, USUAL_MIX, about)]));
    }
    all.extend(group(ParameterGroup::Results, [parameter::verify()]));
    all
}

impl Options {
    pub(super) fn read(
        member: &RecordWorkload,
        spec: &Spec,
        written: bool,
        reader: &mut Reader<'_>,
    ) -> Result<Options, ParamError> {
        let close = reader.flag("close")?;
        let lock = reader.optional_word("lock", Lock::ALL, Lock::name)?;
        let verify = reader.flag("verify")?;
        let strided = spec.access == Access::Strided;
        let stride = strided.then(|| reader.number("stride")).transpose()?;
        let distribution = if member.access.contains(&Access::Random) { distribution(spec, reader)? } else { None };
        let mix = (member.action == RecordAction::Mix).then(|| share(reader)).transpose()?;
        let held = spec.files_per_process() <= HELD_FILES;
        for (key, asked) in [("close", close), ("lock", lock.is_some())] {
            if asked && !held {
                let message = format!("the option keeps all files open at once: use at most {HELD_FILES} files");
                return Err(reader.error(key, message));
            }
        }
        if spec.depth > 1 && (lock == Some(Lock::Record) || mix.is_some()) {
            let key = if mix.is_some() { "depth" } else { "lock" };
            return Err(reader.error(key, "the workload accesses one record at a time: use depth = 1"));
        }
        if verify && !written && spec.threads > 1 {
            let message = "threads that end early leave holes in a new file that they share: use processes";
            return Err(reader.error("verify", message));
        }
        let rate = rate(reader)?;
        if rate.is_some() && spec.depth > 1 {
            let message = "a rate starts one request at a time per thread: use threads instead of a depth";
            return Err(reader.error("rate", message));
        }
        let p99_below = reader.duration("p99_below")?;
        Ok(Options { close, lock, stride, distribution, mix, verify, rate, p99_below })
    }

    /// Returns the share of reads of a mix.
    pub(super) fn reads(&self) -> f64 {
        self.mix.unwrap_or(1.0)
    }

    /// Returns the parts of the label that distinguish the case, each with a comma in coordinator.
    pub(super) fn label(&self) -> String {
        let mut label = String::new();
        if let Some(stride) = self.stride.filter(|stride| *stride != STRIDE) {
            label += &format!(", stride {stride}");
        }
        if let Some(distribution) = &self.distribution {
            label += &format!(", {distribution}");
        }
        if let Some(mix) = self.mix.filter(|mix| percent(*mix) != USUAL_MIX) {
            label += &format!(", {} reads", percent(mix));
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
        }
        label + label::verified(self.verify)
    }

    /// Adds only options that are set, so that a plan of an earlier version resolves to the same case.
    pub(super) fn add_to(&self, params: &mut Params) {
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
        if let Some(mix) = self.mix {
            add("mix", percent(mix).into());
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
    }
}

/// The maximum rate in operations per second: a thread's wake-up takes some microseconds.
const FASTEST: u64 = 10_000_000;

/// Reads a rate: `"2000/s"`, or the number alone.
fn rate(reader: &mut Reader<'_>) -> Result<Option<u64>, ParamError> {
    let Some(value) = reader.take("rate") else { return Ok(None) };
    let rate = match value {
        serde_json::Value::String(text) => text.trim().strip_suffix("/s").unwrap_or(text).trim().parse().ok(),
        value => value.as_u64(),
    };
    let wrong = format!("{value} is not a rate from 1 to {FASTEST} operations a second, such as \"2000/s\"");
    rate.filter(|rate| (1..=FASTEST).contains(rate)).map(Some).ok_or_else(|| reader.error("rate", wrong))
}

/// Reads the distribution of a random order.
fn distribution(spec: &Spec, reader: &mut Reader<'_>) -> Result<Option<Distribution>, ParamError> {
    let Some(value) = reader.value(DISTRIBUTION) else { return Ok(None) };
    let Some(text) = value.as_str() else {
        return Err(reader.error(DISTRIBUTION, format!("{value} is not a distribution: use {FORMS}")));
    };
    if text == UNIFORM {
        return Ok(None);
    }
    let distribution = text.parse().map_err(|message: String| reader.error(DISTRIBUTION, message))?;
    if matches!(spec.cache, CacheState::Cold | CacheState::Out) {
        let message = "records that are visited again come from the page cache: use cache = warm or any";
        return Err(reader.error(DISTRIBUTION, message));
    }
    Ok(Some(distribution))
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
        Ok(_) => Err(reader.error("mix", format!("{text} reads are not a mix: use random-read"))),
        Err(_) => {
            let range = "give a share between 0% and 100%, such as 70%; for all or none use random-read or \
                         random-write";
            Err(reader.error("mix", format!("'{text}': {range}")))
        }
    }
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
}

/// The content of the files before the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: they are new.
    New,
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
    /// Each record was visited once through the same open file before the clock.
    pub(crate) again: bool,
    /// The backends that it accepts, the default first; empty if it accepts any.
    pub(crate) backends: &'static [&'static str],
    pub(crate) file_size: &'static str,
    /// The default record; `None` if it follows from the access.
    pub(crate) block_size: Option<&'static str>,
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
    };

    /// Returns the rules of the shared parameters.
    pub(crate) fn rules(&self) -> Rules {
        use CacheState::{Any, Cold, Out, Warm};
        let cache: &[CacheState] = match (self.action, self.before) {
            (RecordAction::Read, _) if self.again => &[Warm, Any, Out],
            (RecordAction::Read | RecordAction::Mix, _) => &[Warm, Cold, Any, Out],
            (RecordAction::Append, _) => &[Any],
            // One record only: it is in memory after the first write, whatever else is there.
            (RecordAction::Write, _) if self.access == [Access::Same] => &[Any, Cold, Warm],
            (RecordAction::Write, Before::New) => &[Any, Warm, Out],
            (RecordAction::Write, Before::Written | Before::Asked) => CacheState::ALL,
        };
        let durability = if self.action == RecordAction::Read { &[Durability::None] } else { Durability::ALL };
        let RecordWorkload { name, file_size, block_size, access, backends, .. } = *self;
        let records = Records::Each;
        let files = "1";
        Rules { name, files, file_size, block_size, records, access, durability, cache, backends, ..Rules::BASE }
    }
}
