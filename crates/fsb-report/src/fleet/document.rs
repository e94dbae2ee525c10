//! The answer of a fleet as a document with the schema `fsbench/fleet/1`.

use fsb_model::Better;
use fsb_stats::{Interval, RandomEffects, Verdict};
use serde::Serialize;

use super::host::Properties;

/// The schema of the JSON form.
pub const SCHEMA: &str = "fsbench/fleet/1";

/// The output of `fsb fleet compare --format json`: one answer from the runs of many hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fleet {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The baseline: the target that the others are compared with.
    pub baseline: String,
    /// The hosts with results.
    pub hosts: Vec<FleetHost>,
    /// Hosts without results.
    pub left_out: Vec<LeftOut>,
    /// One comparison for each case and target, in the order of the first plan that has it.
    pub comparisons: Vec<FleetComparison>,
    /// Cases and targets that are not compared, because a host defines them differently from most
    /// hosts.
    pub unmatched: Vec<Unmatched>,
    /// Warnings about the hosts together.
    pub warnings: Vec<String>,
}

/// A host with results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetHost {
    /// The name of the host as given to `--on`, or the name of the run directory.
    pub name: String,
    /// The time at which the run began: RFC 3339 in UTC.
    pub started: String,
    /// The version of fsb that made the run.
    pub fsb_version: String,
    /// Properties of the host and its disk by name, which may explain how ratios differ.
    pub properties: Properties,
}

/// A host, or a host at one comparison, without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The name of the host, or the path that fsb could not read.
    pub host: String,
    /// The reason.
    pub reason: String,
}

/// A case or a target that a host defines differently from most hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unmatched {
    /// The host.
    pub host: String,
    /// The label of the case, or the name of the target.
    pub subject: String,
    /// The difference from most other hosts.
    pub reason: String,
}

/// One target against the baseline at one case, on all hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetComparison {
    /// The label of the case.
    pub workload: String,
    /// The target that is compared with the baseline.
    pub target: String,
    /// The metric whose ratio is reported.
    pub metric: String,
    /// The direction in which the metric improves.
    pub better: Better,
    /// The answer in one sentence.
    pub sentence: String,
    /// The number of hosts by their own verdicts.
    pub verdicts: VerdictCounts,
    /// All hosts together; absent if no host has a judged ratio.
    pub together: Option<RandomEffects>,
    /// The property that explains the differences between hosts.
    pub explanation: Explanation,
    /// The ratio of each host, the smallest first.
    pub hosts: Vec<HostRatio>,
    /// Hosts without a judged ratio.
    pub left_out: Vec<LeftOut>,
}

/// The ratio of one host: candidate / baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostRatio {
    /// The name of the host.
    pub host: String,
    /// The ratio of the metric.
    pub ratio: f64,
    /// The interval of the ratio, as in the report of the host's run.
    pub interval: Interval,
    /// The standard error of the logarithm of the ratio.
    pub error: f64,
    /// The degrees of freedom of the standard error.
    pub degrees: f64,
    /// The verdict of the host's own run.
    pub verdict: Verdict,
}

/// The number of hosts by the verdicts of their own runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictCounts {
    /// Hosts on which the target is significantly faster.
    pub faster: usize,
    /// Hosts on which the target is significantly slower.
    pub slower: usize,
    /// Hosts on which no difference larger than θ is possible.
    pub equivalent: usize,
    /// Hosts whose runs decide neither.
    pub undecided: usize,
}

/// The result of the search for a property that explains the differences between hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Explanation {
    /// There are fewer than four hosts, but a test needs two groups of two hosts.
    TooFewHosts,
    /// The hosts do not differ significantly, so nothing was tested.
    NoDifferences,
    /// No property divides the hosts into groups of at least two.
    NothingToTest,
    /// No property explains the differences.
    Unexplained {
        /// The number of tests. Properties that divide the hosts in the same way share one test.
        tested: usize,
    },
    /// A property explains the differences.
    Explained(Explained),
}

/// A property that explains differences between hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    /// The property, or several properties that divide the hosts in the same way. The results do
    /// not show which of these is the cause.
    pub properties: Vec<String>,
    /// The groups of hosts, the largest first.
    pub groups: Vec<ExplainedGroup>,
    /// The number of hosts without a group, because no other host has the same value.
    pub ungrouped: usize,
    /// The p-value of the difference between the groups, corrected for the number of tests.
    pub p_value: f64,
    /// The share of the variance between hosts that the groups explain.
    pub explained: f64,
    /// The number of tests.
    pub tested: usize,
}

/// Hosts with the same value of a property.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedGroup {
    /// The value of the first property.
    pub value: String,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The mean ratio of the hosts.
    pub ratio: f64,
    /// The 95 % interval of the mean ratio.
    pub interval: Interval,
}

impl VerdictCounts {
    /// Counts the verdicts of hosts.
    pub(super) fn new(verdicts: impl Iterator<Item = Verdict>) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        for verdict in verdicts {
            let count = match verdict {
                verdict if verdict.is_better() => &mut counts.faster,
                verdict if verdict.is_worse() => &mut counts.slower,
                Verdict::Equivalent => &mut counts.equivalent,
                _ => &mut counts.undecided,
            };
            *count += 1;
        }
        counts
    }
}
