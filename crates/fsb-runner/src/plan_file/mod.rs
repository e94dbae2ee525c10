//! Plans as people write them: TOML in which everything is optional. They resolve to plans that can
//! be run.
//!
//! The written form (a plan file, a suite, the command line) and its meaning ([`fsb_model::Plan`])
//! are two types. Written plans are merged. Only the resolved plan is ever run.

mod resolve;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error::{Error, Kind};
use fsb_model::plan::{BLOCK_LIMIT, Identity, LONGEST_BUDGET, Repetition};
use fsb_model::units::{Seconds, parse_duration, parse_percent};
use fsb_model::{Background, Bytes, WorkloadSpec, error_codes, nearest};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use toml::Spanned;

use crate::target_file::TargetFile;

pub use resolve::{Resolved, print, write};

/// The suite when none is named.
const DEFAULT_SUITE: &str = "quick";
/// The size of an image when none is given.
const DEFAULT_SIZE: Bytes = Bytes(2 << 30);
/// The default of the smallest ratio that matters.
const DEFAULT_THETA: &str = "3%";

/// A plan as written: every field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The name of the run; by default that of the suite or of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Targets, each as on the command line, or as a table with controls of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Spanned<TargetFile>>,
    /// A suite, instead of workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The seed, which decides order and data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Size of the image, such as `2G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Multiplies sizes of files, the image and the memory limit: `1/8`, `0.125` or `12.5%`.
    #[serde(
        default,
        deserialize_with = "read_factor_at",
        skip_serializing_if = "Option::is_none"
    )]
    pub scale: Option<Spanned<String>>,
    /// The factor that all sizes here were multiplied with already, for the record.
    #[serde(
        default,
        deserialize_with = "read_factor_at",
        skip_serializing_if = "Option::is_none"
    )]
    pub scaled: Option<Spanned<String>>,
    /// The directory of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The smallest ratio that matters, such as `3%`.
    #[serde(
        default,
        deserialize_with = "read_share_at",
        skip_serializing_if = "Option::is_none"
    )]
    pub theta: Option<Spanned<String>>,
    /// Block devices whose content the user allowed to be destroyed. Only the command line sets
    /// them.
    #[serde(skip)]
    pub wipe: Vec<PathBuf>,
    /// The user that workers run as. Only the command line sets it.
    #[serde(skip)]
    pub identity: Identity,
    /// Targets take turns, though they could be measured side by side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_at_a_time: bool,
    /// Trials that interference affected are kept; otherwise they are retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_affected: bool,
    /// Targets that weaken durability may win against targets that do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub risky: bool,
    /// Every mkfs program chooses the geometry by the size of its slice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mkfs_defaults: bool,
    /// Size of the large disk whose results targets are to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like_disk: Option<Bytes>,
    /// Traced blocks follow the measured ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// The race that chooses one of the targets. Only the command line sets it.
    #[serde(skip)]
    pub race: Option<fsb_model::Race>,
    /// Whether every workload that can do so compares the data that it reads with the data that was
    /// written. Only the command line sets it. In a printed plan, the workloads have the parameter.
    #[serde(skip)]
    pub verify: bool,
    /// The background of every workload without one of its own. In a printed plan, the workloads
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Background>,
    /// The number of blocks, the budget and the length of samples.
    #[serde(default, skip_serializing_if = "RepetitionFile::is_empty")]
    pub repetition: RepetitionFile,
    /// Controls by name.
    #[serde(
        default,
        deserialize_with = "read_controls",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub controls: BTreeMap<String, String>,
    /// `host`, or `vm`: a virtual machine.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub place: Option<Spanned<String>>,
    /// Kernels of the virtual machine; several are a dimension of the plan.
    #[serde(default, rename = "kernel", skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Spanned<String>>,
    /// Memory of the virtual machine, such as `512M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Processors of the virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// A directory of this machine that commands in the virtual machine see as their root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Workloads.
    #[serde(default, rename = "workload", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadSpec>,
    /// The text that this came from and its name, so that late errors can point into it.
    #[serde(skip)]
    pub source: Option<(String, String)>,
}

/// Parses a plan. `origin` is its name in errors.
pub fn parse(text: &str, origin: &str) -> Result<PlanFile, PlanError> {
    let mut plan: PlanFile = toml::from_str(text).map_err(|error| {
        let code = if error.message().starts_with("unknown field `") {
            &UNKNOWN_KEY
        } else {
            &PLAN_VALUE
        };
        at(
            text,
            origin,
            error.span(),
            &suggesting(error.message()),
            code,
        )
    })?;
    plan.source = Some((text.to_owned(), origin.to_owned()));
    Ok(plan)
}

impl PlanFile {
    /// Merges this plan over another one. The values of this plan take precedence.
    pub fn over(self, under: PlanFile) -> PlanFile {
        let workloads_here = !self.workloads.is_empty() || self.suite.is_some();
        let (suite, workloads) = if workloads_here {
            (self.suite, self.workloads)
        } else {
            (under.suite, under.workloads)
        };
        let mut controls = under.controls;
        controls.extend(self.controls);
        PlanFile {
            name: self.name.or(under.name),
            targets: if self.targets.is_empty() {
                under.targets
            } else {
                self.targets
            },
            suite,
            seed: self.seed.or(under.seed),
            size: self.size.or(under.size),
            scale: self.scale.or(under.scale),
            scaled: self.scaled.or(under.scaled),
            dir: self.dir.or(under.dir),
            theta: self.theta.or(under.theta),
            wipe: if self.wipe.is_empty() {
                under.wipe
            } else {
                self.wipe
            },
            identity: self.identity,
            one_at_a_time: self.one_at_a_time || under.one_at_a_time,
            keep_affected: self.keep_affected || under.keep_affected,
            risky: self.risky || under.risky,
            mkfs_defaults: self.mkfs_defaults || under.mkfs_defaults,
            like_disk: self.like_disk.or(under.like_disk),
            explain: self.explain || under.explain,
            race: self.race.or(under.race),
            verify: self.verify || under.verify,
            background: self.background.or(under.background),
            repetition: self.repetition.over(under.repetition),
            controls,
            workloads,
            place: self.place.or(under.place),
            kernels: if self.kernels.is_empty() {
                under.kernels
            } else {
                self.kernels
            },
            memory: self.memory.or(under.memory),
            cpus: self.cpus.or(under.cpus),
            root: self.root.or(under.root),
            source: under.source.or(self.source),
        }
    }

    fn error_at(&self, span: Range<usize>, message: &str) -> PlanError {
        match &self.source {
            Some((text, origin)) if span != (0..0) => {
                at(text, origin, Some(span), message, &PLAN_VALUE)
            }
            _ => PlanError::Request(message.to_owned()),
        }
    }

    /// Returns the error of a text that has a code of its own. In a plan file the place is more
    /// useful than that code.
    fn coded_at(&self, span: Range<usize>, error: &(impl Coded + ToString)) -> PlanError {
        match self.error_at(span, &error.to_string()) {
            PlanError::Request(message) => PlanError::known(error.code(), message),
            placed => placed,
        }
    }
}

/// Returns serde's message of an unknown field with the field that was probably meant, or else with
/// all known fields.
fn suggesting(message: &str) -> String {
    let Some((typed, known)) = unknown_field(message) else {
        return message.to_owned();
    };
    if let Some(near) = nearest::nearest(typed, known.iter().copied()) {
        return format!("unknown field `{typed}`: did you mean `{near}`?");
    }
    let elsewhere = RepetitionFile::FIELDS
        .iter()
        .copied()
        .filter(|field| !known.contains(field));
    match nearest::nearest(typed, elsewhere) {
        Some(near) if near == typed => {
            format!("unknown field `{typed}`: it belongs in [repetition]")
        }
        Some(near) => {
            format!("unknown field `{typed}`: did you mean `{near}`? It belongs in [repetition]")
        }
        None => message.to_owned(),
    }
}

/// Returns the unknown field, and the fields that serde expects in its place.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let (typed, expected) = message
        .strip_prefix("unknown field `")?
        .split_once("`, expected ")?;
    Some((typed, expected.split('`').skip(1).step_by(2).collect()))
}

/// Returns a value from the command line, which has no place in a file.
pub fn typed<T: From<String>>(text: &str) -> Spanned<T> {
    Spanned::new(0..0, text.to_owned().into())
}

fn at(
    text: &str,
    origin: &str,
    span: Option<Range<usize>>,
    message: &str,
    code: &'static ErrorCode,
) -> PlanError {
    let start = span.map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..])
        .chars()
        .count()
        + 1;
    PlanError::At {
        origin: origin.to_owned(),
        line,
        column,
        message: message.trim_end().to_owned(),
        code,
    }
}

/// The default time that a run may take.
const DEFAULT_BUDGET: &str = "5m";
/// The table `[repetition]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionFile {
    /// Exactly this number of blocks; with `budget`, unless the time ends before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Time for the whole run, such as `5m`.
    #[serde(
        default,
        deserialize_with = "read_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub budget: Option<String>,
    /// Half-width to reach, such as `2%`.
    #[serde(
        default,
        deserialize_with = "read_share",
        skip_serializing_if = "Option::is_none"
    )]
    pub precision: Option<String>,
    /// Time that a sample should last, such as `50ms`. From 1 second on, everything is measured in
    /// sequential trials instead of rounds of short samples.
    #[serde(
        default,
        deserialize_with = "read_time",
        skip_serializing_if = "Option::is_none"
    )]
    #[serde(alias = "stretch")]
    pub sample_time: Option<String>,
}

/// Refuses a length of samples below 1 millisecond or above an hour.
fn check_sample_time(sample_time: Seconds) -> Result<(), String> {
    if (0.001..=3600.0).contains(&sample_time.0) {
        return Ok(());
    }
    Err(format!(
        "sample_time {}s: give between 1 millisecond and an hour",
        sample_time.0
    ))
}

impl RepetitionFile {
    /// The names of its fields.
    const FIELDS: &[&str] = &["blocks", "budget", "precision", "sample_time", "stretch"];

    fn is_empty(&self) -> bool {
        *self == RepetitionFile::default()
    }

    fn resolve(&self) -> Result<Repetition, PlanError> {
        let request = |error: fsb_model::units::UnitError| PlanError::Request(error.to_string());
        let budget = self.budget.as_deref().unwrap_or(DEFAULT_BUDGET);
        let seconds = parse_duration(budget).map_err(request)?.as_secs_f64();
        if !(1.0..=LONGEST_BUDGET).contains(&seconds) {
            return Err(PlanError::known(
                &PLAN_RANGE,
                format!("budget {budget}: give between 1 second and 30 days"),
            ));
        }
        match (self.blocks, &self.precision) {
            (Some(_), Some(_)) => Err(PlanError::known(
                &PLAN_CONFLICT,
                "blocks and precision exclude each other: precision decides how many blocks are made",
            )),
            (Some(blocks), None) if (1..=BLOCK_LIMIT).contains(&blocks) => Ok(Repetition::Blocks {
                blocks,
                seconds: self.budget.is_some().then_some(seconds),
            }),
            (Some(blocks), None) => Err(PlanError::known(
                &PLAN_RANGE,
                format!("{blocks} blocks: give between 1 and {BLOCK_LIMIT}"),
            )),
            (None, Some(precision)) => {
                let half_width = parse_percent(precision).map_err(request)?;
                Ok(Repetition::Precision {
                    half_width,
                    seconds,
                })
            }
            (None, None) => Ok(Repetition::Budget { seconds }),
        }
    }

    fn resolve_sample_time(&self) -> Result<Option<f64>, PlanError> {
        let Some(text) = &self.sample_time else {
            return Ok(None);
        };
        let time = parse_duration(text).map_err(|error| PlanError::Request(error.to_string()))?;
        check_sample_time(Seconds(time.as_secs_f64())).map_err(PlanError::Request)?;
        Ok(Some(time.as_secs_f64()))
    }

    /// Merges this table over another one. `blocks` replaces `budget` and `precision`, and they
    /// replace it.
    fn over(self, under: RepetitionFile) -> RepetitionFile {
        let sample_time = self.sample_time.or(under.sample_time);
        if self.blocks.is_some() {
            return RepetitionFile {
                sample_time,
                blocks: self.blocks,
                budget: self.budget,
                precision: self.precision,
            };
        }
        let says_time = self.budget.is_some() || self.precision.is_some();
        RepetitionFile {
            blocks: if says_time { None } else { under.blocks },
            budget: self.budget.or(under.budget),
            precision: self.precision.or(under.precision),
            sample_time,
        }
    }
}

// Values that a plan may write in more than one way, if only one meaning is possible.
//
// `budget = 300` can only be seconds, as on the command line, and `theta = 5` can only be per cent.
// `theta = 0.05` may be five per cent or a twentieth of one per cent, and is refused.

/// A text, or another TOML value.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, such as \"5m\" or \"3%\"")]
enum Written {
    Text(String),
    Flag(bool),
    Whole(i64),
    Number(f64),
}

impl Written {
    /// Returns the text as on the command line. A share below 1 without its sign has two meanings
    /// and is refused.
    fn text<E: de::Error>(self, is_share: bool) -> Result<String, E> {
        match self {
            Written::Text(text) => Ok(text),
            Written::Flag(flag) => Err(E::custom(format!("{flag} is not a quantity"))),
            Written::Whole(number) => Ok(number.to_string()),
            Written::Number(number) if is_share && number < 1.0 => Err(E::custom(format!(
                "{number} may be a share or less than one per cent: write it with its sign, such as \"{}%\"",
                (number * 1e4).round() / 100.0
            ))),
            Written::Number(number) => Ok(number.to_string()),
        }
    }
}

/// Reads a length of time: `"5m"`, or a number of seconds.
fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Written::deserialize(deserializer)?.text(false).map(Some)
}

/// Reads a share: `"5%"`, or a number of per cent from 1 on.
fn read_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Written::deserialize(deserializer)?.text(true).map(Some)
}

/// Reads a share with its place.
fn read_share_at<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<String>>, D::Error> {
    read_at(deserializer, true)
}

/// Reads a factor with its place: `"1/8"`, `0.125`.
fn read_factor_at<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<String>>, D::Error> {
    read_at(deserializer, false)
}

fn read_at<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_share: bool,
) -> Result<Option<Spanned<String>>, D::Error> {
    let written = Spanned::<Written>::deserialize(deserializer)?;
    let span = written.span();
    Ok(Some(Spanned::new(
        span,
        written.into_inner().text(is_share)?,
    )))
}

/// Reads values of controls: `swap = false` is `swap = "off"`.
fn read_controls<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let written = BTreeMap::<String, Written>::deserialize(deserializer)?;
    written
        .into_iter()
        .map(|(name, value)| match value {
            Written::Flag(flag) => Ok((name, if flag { "on" } else { "off" }.to_owned())),
            other => other.text(false).map(|text| (name, text)),
        })
        .collect()
}

/// The error of an invalid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An invalid text, with the place.
    #[error("{origin}, line {line}, column {column}: {message}")]
    At {
        /// The file, or the suite.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The mistake.
        message: String,
        /// The kind of mistake.
        code: &'static ErrorCode,
    },
    /// A mistake of a known kind in a plan or on the command line.
    #[error("{message}")]
    Known {
        /// The kind.
        code: &'static ErrorCode,
        /// The mistake in words.
        message: String,
        /// The remedy, if it is more specific than that of the kind. The message ends with it.
        help: Option<String>,
    },
    /// An invalid request.
    #[error("{0}")]
    Request(String),
    /// A kernel is named wrongly, or this machine does not have it.
    #[error("{0}")]
    Kernel(Error),
}

error_codes! {
    PLAN_INVALID = "plan/invalid", code::REQUEST, "The plan, or an option that is part of it, is invalid.", "Correct what the message names; fsb run --print-plan shows a plan as it is understood.";
    PLAN_VALUE = "plan/invalid-value", code::REQUEST, "A value in the plan file is wrong.", "Correct the value at the line and column of the fields.";
    UNKNOWN_KEY = "plan/unknown-key", code::REQUEST, "The plan file has a key that fsb does not know.", "Use the key that the message proposes.";
    UNKNOWN_SUITE = "plan/unknown-suite", code::REQUEST, "No suite has that name.", "Use a name of fsb list suites.";
    PLAN_CONFLICT = "plan/conflict", code::REQUEST, "Two parts of the plan exclude each other.", "Remove one of them.";
    PLAN_RANGE = "plan/out-of-range", code::REQUEST, "A number of the plan is out of range.", "Use a number in the range of the message.";
    PLAN_NO_TARGET = "plan/no-target", code::REQUEST, "The plan has no target.", "Name file systems or a directory: fsb run ext4 xfs.";
    PLAN_MACHINE = "plan/machine", code::MACHINE, "This machine cannot run the plan.", "Install what the message names, or change the plan.";
}

impl PlanError {
    fn known(code: &'static ErrorCode, message: impl Into<String>) -> PlanError {
        PlanError::Known {
            code,
            message: message.into(),
            help: None,
        }
    }

    /// Returns the same about an unknown suite, with its remedy.
    pub(crate) fn unknown_suite(message: &str, help: &str) -> PlanError {
        let message = format!("{message}; {help}");
        PlanError::Known {
            code: &UNKNOWN_SUITE,
            message,
            help: Some(help.to_owned()),
        }
    }
}

impl Coded for PlanError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            PlanError::At { code, .. } | PlanError::Known { code, .. } => code,
            PlanError::Request(_) => &PLAN_INVALID,
            PlanError::Kernel(error) if error.kind == Kind::Request => error.code(),
            PlanError::Kernel(_) => &PLAN_MACHINE,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            PlanError::At {
                origin,
                line,
                column,
                ..
            } => code::fields([
                ("path", origin.as_str().into()),
                ("line", (*line).into()),
                ("column", (*column).into()),
            ]),
            PlanError::Kernel(error) => error.fields(),
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            PlanError::Known { help, .. } => help.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Repetition;

    use super::*;

    fn plan(sample_time: &str) -> String {
        format!(
            "targets = ['null']\n[[workload]]\nname = 'write'\nfile_size = '1M'\n[[workload]]\nname = 'rename'\n\
             files = 10\nsample_time = {sample_time}\n"
        )
    }

    /// Errors suggest these names for a field that is in the wrong table.
    #[test]
    fn the_names_of_the_fields_are_those_that_are_read() {
        let said = parse("[repetition]\nzzzzzz = 1\n", "p")
            .unwrap_err()
            .to_string();
        let (_, known) = said.split_once("expected one of ").unwrap();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, super::RepetitionFile::FIELDS);
        let said = parse("budget = '5m'\n", "p").unwrap_err().to_string();
        assert!(
            said.ends_with("unknown field `budget`: it belongs in [repetition]"),
            "{said}"
        );
    }

    #[test]
    fn the_former_name_of_the_sample_time_is_still_read() {
        let text = format!(
            "{}[repetition]\nstretch = '50ms'\n",
            plan("'10s'").replace("sample_time", "stretch")
        );
        let plan = parse(&text, "p").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!(
            (plan.sample_time, plan.sample_time_of(&plan.workloads[1])),
            (Some(0.05), Some(10.0))
        );
        assert!(print(&plan).unwrap().contains("sample_time"));
    }

    #[test]
    fn a_workload_may_have_a_sample_time_of_its_own_which_a_printed_plan_keeps() {
        let resolved = parse(&plan("'10s'"), "p").unwrap().resolve(2, 7).unwrap();
        let samples: Vec<_> = resolved
            .plan
            .workloads
            .iter()
            .map(|workload| resolved.plan.sample_time_of(workload))
            .collect();
        assert_eq!(samples, [None, Some(10.0)]);
        let printed = print(&resolved.plan).unwrap();
        assert_eq!(
            parse(&printed, "printed")
                .unwrap()
                .resolve(2, 7)
                .unwrap()
                .plan,
            resolved.plan,
            "{printed}"
        );
    }

    #[test]
    fn blocks_may_have_a_bound_which_a_printed_plan_keeps() {
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\n[repetition]\nblocks = 9\nbudget = '60s'\n";
        let plan = parse(text, "p").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!(
            plan.repetition,
            Repetition::Blocks {
                blocks: 9,
                seconds: Some(60.0)
            }
        );
        let printed = print(&plan).unwrap();
        let again = parse(&printed, "printed")
            .unwrap()
            .resolve(2, 7)
            .unwrap()
            .plan;
        assert_eq!(again.repetition, plan.repetition, "{printed}");
        let unbounded = parse(&text.replace("budget = '60s'", ""), "p")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        assert_eq!(
            unbounded.plan.repetition,
            Repetition::Blocks {
                blocks: 9,
                seconds: None
            }
        );
    }

    #[test]
    fn work_may_be_held_where_it_can_go_on() {
        let of = |workload: &str| {
            let text = format!("targets = ['null']\n[[workload]]\n{workload}\nsustain = 4\n");
            parse(&text, "p").and_then(|plan| plan.resolve(2, 7))
        };
        let held = of("name = 'rename'\nfiles = 10").unwrap();
        assert_eq!(
            held.plan.sample_time_of(&held.plan.workloads[0]),
            Some(10.0)
        );
        assert_eq!(held.work.cells[0].cell.label, "rename 4K files, sustained");
        let printed = print(&held.plan).unwrap();
        assert_eq!(
            parse(&printed, "printed")
                .unwrap()
                .resolve(2, 7)
                .unwrap()
                .plan,
            held.plan,
            "{printed}"
        );
        for wrong in [
            "name = 'create'",
            "name = 'read'",
            "name = 'rename'\ndurability = 'end'",
            "name = 'postmark'",
        ] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(
                error.contains("cannot be sustained: ") && error.contains("line "),
                "{wrong}: {error}"
            );
        }
        let short = of("name = 'rename'\nsample_time = '50ms'")
            .unwrap_err()
            .to_string();
        assert!(short.contains("a second or more"), "{short}");
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\nsustain = 0\n";
        let never = parse(text, "p")
            .and_then(|plan| plan.resolve(2, 7))
            .unwrap_err()
            .to_string();
        assert!(never.contains("0 times: give how often"), "{never}");
    }

    #[test]
    fn an_impossible_sample_time_is_refused_at_its_place() {
        for (wrong, word) in [
            ("'10ns'", "not a duration"),
            ("'10us'", "1 millisecond"),
            ("'2h'", "an hour"),
            ("7200", "an hour"),
            ("[10]", "a time"),
        ] {
            let error = parse(&plan(wrong), "p")
                .and_then(|plan| plan.resolve(2, 7))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(word) && error.contains("line "),
                "{wrong}: {error}"
            );
        }
    }

    fn plan_with(head: &str, repetition: &str) -> String {
        format!(
            "targets = ['null']\n{head}\n[repetition]\n{repetition}\n[[workload]]\nname = 'write'\nfile_size = '1M'\n"
        )
    }

    #[test]
    fn numbers_and_truths_stand_for_the_texts_that_they_can_only_mean() {
        for (head, repetition, text_head, text_repetition) in [
            ("theta = 5", "budget = 300", "theta = '5%'", "budget = '5m'"),
            (
                "theta = 2.5",
                "budget = 90.5",
                "theta = '2.5%'",
                "budget = '90.5s'",
            ),
            (
                "scale = 0.5",
                "precision = 2",
                "scale = '1/2'",
                "precision = '2%'",
            ),
            ("scale = 1", "sample_time = 2", "", "sample_time = '2s'"),
            (
                "controls = { swap = false }",
                "blocks = 5",
                "controls = { swap = 'off' }",
                "blocks = 5",
            ),
        ] {
            let resolved = |head, rest| {
                parse(&plan_with(head, rest), "p")
                    .unwrap()
                    .resolve(2, 7)
                    .map(|found| found.plan)
            };
            assert_eq!(
                resolved(head, repetition).unwrap(),
                resolved(text_head, text_repetition).unwrap(),
                "{head}"
            );
        }
    }

    #[test]
    fn a_share_that_may_be_meant_in_two_ways_is_refused_with_the_likelier_one() {
        for (head, repetition) in [("theta = 0.05", ""), ("", "precision = 0.05")] {
            let error = parse(&plan_with(head, repetition), "p")
                .unwrap_err()
                .to_string();
            assert!(error.contains("such as \"5%\""), "{error}");
        }
        let error = parse(&plan_with("theta = [5]", ""), "p")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 2") && error.contains("expected a string"),
            "{error}"
        );
    }
}
