//! The table of a workload's parameters: name, values, range, default, group and help.
//!
//! [`Workload::parameters`](super::Workload::parameters) is the only declaration of a parameter.
//! The reader takes defaults and ranges from it and refuses every other name.
//! `fsb list workloads NAME`, `docs/workloads.md` and `docs/schema/plan.json` are printed from it.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use fsb_model::{Bytes, CacheState, Durability};

use crate::backend;

/// A parameter of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The key in plans.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: ParameterKind,
    /// The value in a plan that does not give it.
    pub default: ParameterDefault,
    /// The heading under which it is listed.
    pub group: ParameterGroup,
    /// The effect of the parameter, in one line.
    pub about: &'static str,
    /// The condition on another parameter without which it is refused.
    pub needs: Option<Needs>,
    /// Accepts a list or a range too, which makes one case of each value.
    pub sweeps: bool,
}

/// The values that a parameter accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterKind {
    /// Bytes: a number, a size such as `4K`, or an expression such as `size/8`.
    Size(RangeInclusive<u64>),
    /// A whole number, or an expression of the image's size.
    Number(RangeInclusive<u64>),
    /// A whole number that may be negative.
    Integer(RangeInclusive<i64>),
    /// A number, a fraction such as `1/8`, or a percentage.
    Fraction(RangeInclusive<f64>),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(Vec<&'static str>),
    /// One line of text.
    Text,
    /// Text of any number of lines.
    Lines,
    /// A path.
    Path,
    /// A path, or a list of paths.
    Paths,
    /// A line for a shell, or a list of words.
    Command,
    /// A time such as `10ms`; the range is in seconds.
    Duration(RangeInclusive<f64>),
    /// A share between 0 % and 100 %, without either.
    Percent,
    /// Operations per second, such as `2000/s`.
    Rate(RangeInclusive<u64>),
    /// `recorded`, `none`, or a factor.
    Pace,
    /// An exit code, or a list of them.
    ExitCodes,
    /// A table with these keys.
    Table(&'static [&'static str]),
    /// A table with these keys, or a list of such tables.
    Tables(&'static [&'static str]),
}

/// The value of a parameter that a plan does not give.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterDefault {
    /// There is none: the plan must give a value, such as this one in TOML.
    Required(&'static str),
    /// The feature is off.
    Absent,
    /// This value, as a plan would write it.
    Value(Cow<'static, str>),
    /// The workload computes the value from other parameters, as this text describes.
    Derived(&'static str),
}

/// The headings under which parameters are listed, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterGroup {
    /// The work itself.
    Work,
    /// The files that it works on.
    Files,
    /// The backend, the order and the sizes of calls.
    Calls,
    /// Durability and the state of the page cache.
    State,
    /// Programs that run beside the measured one, and their limits.
    Programs,
    /// Checks and names of results.
    Results,
    /// Set by `fsb` itself in resolved plans.
    Resolved,
}

impl ParameterGroup {
    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            ParameterGroup::Work => "Work",
            ParameterGroup::Files => "Files",
            ParameterGroup::Calls => "Calls",
            ParameterGroup::State => "State",
            ParameterGroup::Programs => "Programs",
            ParameterGroup::Results => "Results",
            ParameterGroup::Resolved => "Set by fsb in resolved plans",
        }
    }
}

/// A condition on another parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The other parameter is given.
    Given(&'static str),
    /// The other parameter is not given.
    Absent(&'static str),
    /// The other parameter has one of these values.
    Value(&'static str, &'static [&'static str]),
}

impl Needs {
    /// Returns the other parameter.
    pub fn parameter(self) -> &'static str {
        match self {
            Needs::Given(name) | Needs::Absent(name) | Needs::Value(name, _) => name,
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Needs::Given(name) => write!(f, "only with {name}"),
            Needs::Absent(name) => write!(f, "not with {name}"),
            Needs::Value(name, values) => write!(f, "only with {name} = {}", values.join(" or ")),
        }
    }
}

impl Parameter {
    /// Returns a parameter that neither depends on another one nor accepts lists.
    pub(crate) fn new(
        name: &'static str,
        kind: ParameterKind,
        default: impl Into<ParameterDefault>,
        about: &'static str,
    ) -> Parameter {
        let default = default.into();
        Parameter {
            name,
            kind,
            default,
            group: ParameterGroup::Work,
            about,
            needs: None,
            sweeps: false,
        }
    }

    /// Returns a parameter that is `true` or `false`; `false` is the default.
    pub(crate) fn flag(name: &'static str, about: &'static str) -> Parameter {
        Parameter::new(name, ParameterKind::Flag, "false", about)
    }

    /// Returns a parameter whose values have names. The first value is the default.
    pub(crate) fn word<T: Copy>(
        name: &'static str,
        values: &[T],
        word: impl Fn(T) -> &'static str,
        about: &'static str,
    ) -> Parameter {
        let words: Vec<_> = values.iter().map(|&value| word(value)).collect();
        let default = words[0];
        Parameter::new(name, ParameterKind::Word(words), default, about)
    }

    /// Returns the parameter with another default.
    pub(crate) fn default(self, default: impl Into<ParameterDefault>) -> Parameter {
        Parameter {
            default: default.into(),
            ..self
        }
    }

    /// Returns the parameter with a condition. The parser refuses the parameter if the condition
    /// does not hold.
    pub(crate) fn needs(self, needs: Needs) -> Parameter {
        Parameter {
            needs: Some(needs),
            ..self
        }
    }

    /// Returns the parameter with lists and ranges as further values.
    pub(crate) fn sweeps(self) -> Parameter {
        Parameter {
            sweeps: true,
            ..self
        }
    }

    /// Returns the values in words, with their range: `size from 1 to 1G`.
    pub fn values(&self) -> String {
        let values = match &self.kind {
            ParameterKind::Size(range) => {
                from_to("size", Bytes(*range.start()), *range.end(), |end| {
                    Bytes(end).to_string()
                })
            }
            ParameterKind::Number(range) => {
                from_to("number", range.start(), *range.end(), |end| end.to_string())
            }
            ParameterKind::Integer(range) => {
                format!("number from {} to {}", range.start(), range.end())
            }
            ParameterKind::Fraction(range) => {
                format!("number from {} to {}", range.start(), range.end())
            }
            ParameterKind::Flag => "true or false".to_owned(),
            ParameterKind::Word(words) => words.join(", "),
            ParameterKind::Text => "text".to_owned(),
            ParameterKind::Lines => "text in TOML".to_owned(),
            ParameterKind::Path => "path".to_owned(),
            ParameterKind::Paths => "path, or list of paths".to_owned(),
            ParameterKind::Command => "line for a shell, or list of words".to_owned(),
            ParameterKind::Duration(range) => {
                let [least, most] = [*range.start(), *range.end()].map(time);
                format!("time from {least} to {most}, such as 10ms or 5m")
            }
            ParameterKind::Percent => "percentage".to_owned(),
            ParameterKind::Rate(range) => format!(
                "rate from {} to {}, such as 2000/s",
                range.start(),
                range.end()
            ),
            ParameterKind::Pace => "recorded, none, or a factor".to_owned(),
            ParameterKind::ExitCodes => "number, or list of numbers".to_owned(),
            ParameterKind::Table(keys) => format!("table with {}", keys.join(", ")),
            ParameterKind::Tables(keys) => format!("tables with {}", keys.join(", ")),
        };
        if self.sweeps {
            format!("{values}; list or range")
        } else {
            values
        }
    }

    /// Returns the default in words; `None` if the feature is off by default.
    pub fn default_text(&self) -> Option<Cow<'static, str>> {
        match &self.default {
            ParameterDefault::Required(_) => Some("required".into()),
            ParameterDefault::Absent => None,
            ParameterDefault::Value(value) => Some(value.clone()),
            ParameterDefault::Derived(text) => Some((*text).into()),
        }
    }
}

/// Returns a kind with its range; an upper end that only bounds arithmetic is left out.
fn from_to<T: fmt::Display>(
    kind: &str,
    least: T,
    most: u64,
    shown: impl Fn(u64) -> String,
) -> String {
    if most >= 1 << 60 {
        format!("{kind} from {least}")
    } else {
        format!("{kind} from {least} to {}", shown(most))
    }
}

/// Returns a time in the notation of plans.
fn time(seconds: f64) -> String {
    match seconds {
        hours if hours >= 3600.0 => format!("{}h", hours / 3600.0),
        seconds if seconds >= 1.0 => format!("{seconds}s"),
        short => format!("{}us", (short * 1e6).round()),
    }
}

impl From<&'static str> for ParameterDefault {
    fn from(value: &'static str) -> ParameterDefault {
        ParameterDefault::Value(value.into())
    }
}

impl From<String> for ParameterDefault {
    fn from(value: String) -> ParameterDefault {
        ParameterDefault::Value(value.into())
    }
}

impl From<u64> for ParameterDefault {
    fn from(value: u64) -> ParameterDefault {
        value.to_string().into()
    }
}

/// Puts parameters into a group.
pub(super) fn group<const N: usize>(
    group: ParameterGroup,
    parameters: [Parameter; N],
) -> Vec<Parameter> {
    parameters
        .into_iter()
        .map(|parameter| Parameter { group, ..parameter })
        .collect()
}

/// Returns the parameter `threads`.
pub(super) fn threads() -> Parameter {
    Parameter::new(
        "threads",
        ParameterKind::Number(0..=1024),
        "1",
        "threads of the worker; 0 for one per processor",
    )
    .sweeps()
}

/// Returns the parameter `processes`.
pub(super) fn processes() -> Parameter {
    let range = ParameterKind::Number(1..=1024);
    Parameter::new(
        "processes",
        range,
        "1",
        "worker processes, each with its own files and one thread",
    )
}

/// Returns the parameter `backend`, of the backends in `names` or of all; the first one is the
/// default.
pub(super) fn backend(names: &[&'static str]) -> Parameter {
    let all: Vec<_> = backend::REGISTRY
        .iter()
        .map(|backend| backend.name())
        .collect();
    let (names, usual) = if names.is_empty() {
        (all.as_slice(), backend::CALLS.name())
    } else {
        (names, names[0])
    };
    Parameter::word(
        "backend",
        names,
        |name| name,
        "how calls reach the kernel; see 'fsb list backends'",
    )
    .default(usual)
}

/// Returns the parameter `backend` of a workload that makes every call, at a file's own position
/// too.
pub(super) fn sequential_backend() -> Parameter {
    let fits = backend::REGISTRY
        .iter()
        .filter(|backend| backend.capabilities().sequential);
    backend(&fits.map(|backend| backend.name()).collect::<Vec<_>>())
}

/// Returns the parameter `cache`; the first state is the default.
pub(super) fn cache(states: &[CacheState]) -> Parameter {
    Parameter::word(
        "cache",
        states,
        CacheState::name,
        "content of the page cache when the clock starts",
    )
}

/// Returns the parameter `durability`; the first value is the default.
pub(super) fn durability(values: &[Durability]) -> Parameter {
    let about = "when data must be on the device: never, at the end (one sync inside the clock), or after each operation";
    Parameter::word("durability", values, Durability::name, about)
}

/// Returns the parameter `label`.
pub(super) fn label() -> Parameter {
    let default = ParameterDefault::Derived("made of the parameters");
    Parameter::new(
        "label",
        ParameterKind::Text,
        default,
        "name of the case in reports",
    )
}

/// Returns the parameter `verify` of data that the workload reads.
pub(super) fn verify() -> Parameter {
    Parameter::flag("verify", "compare the data read with the data written")
}

/// Returns the parameter `data`.
pub(super) fn data() -> Parameter {
    let keys = ParameterKind::Table(&["compressible", "duplicate"]);
    Parameter::new(
        "data",
        keys,
        ParameterDefault::Absent,
        "share of the data that compression and deduplication can save",
    )
}

/// Returns the parameter `matrix`.
pub(super) fn matrix() -> Parameter {
    Parameter::flag(
        "matrix",
        "the case is one of several sizes, of which a short budget measures some",
    )
}
