//! Assembles the answer of a fleet from the results of its hosts.
//!
//! Each host is read once for each of its comparisons, so the cost is linear in the number of
//! hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use fsb_model::Better;
use fsb_stats::{Effect, LEVEL, Moderator, RandomEffects, moderator, random_effects};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::document::{
    Explained, ExplainedGroup, Explanation, Fleet, FleetComparison, FleetHost, HostRatio, LeftOut,
    SCHEMA, Unmatched, VerdictCounts,
};
use super::host::{HostCell, HostEffect, HostResult};
use super::text::sentence;
use crate::show::{counted, some_of};

/// The smallest number of hosts whose differences can be explained: two groups of two.
const FEWEST_EXPLAINED: usize = 4;
/// The maximum number of names in a warning.
const SHOWN: usize = 5;

/// A comparison while its hosts are collected.
struct Collected<'a> {
    metric: &'a str,
    better: Better,
    /// Hosts with their ratios.
    found: Vec<(&'a HostResult, HostEffect)>,
    left_out: Vec<LeftOut>,
}

impl Fleet {
    /// Assembles the answer of these hosts, compared with the target `baseline`. `left_out` are
    /// hosts without results.
    pub fn new(hosts: &[HostResult], left_out: Vec<LeftOut>, baseline: &str) -> Fleet {
        let mut unmatched = Vec::new();
        let targets = common_definitions(hosts.iter().flat_map(|host| {
            host.targets
                .iter()
                .map(|target| (target.name.as_str(), &target.definition))
        }));
        let cases = common_definitions(hosts.iter().flat_map(|host| {
            let mut seen = BTreeSet::new();
            let first = host
                .cells
                .iter()
                .filter(move |cell| seen.insert(&cell.workload));
            first.map(|cell| (cell.workload.as_str(), &cell.definition))
        }));
        let mut comparisons: IndexMap<(&str, &str), Collected<'_>> = IndexMap::new();
        for host in hosts {
            let other_targets = host
                .targets
                .iter()
                .filter(|target| targets[target.name.as_str()] != &target.definition);
            let others: BTreeSet<&str> = other_targets.map(|target| target.name.as_str()).collect();
            let mut refuse = |subject: &str, reason: String| {
                unmatched.push(Unmatched {
                    host: host.name.clone(),
                    subject: subject.to_owned(),
                    reason,
                });
            };
            for name in &others {
                refuse(
                    name,
                    "its options or controls differ from those on most hosts".to_owned(),
                );
            }
            let mut refused: BTreeSet<&str> = BTreeSet::new();
            for cell in &host.cells {
                let common = cases[cell.workload.as_str()];
                if cell.definition != *common {
                    if refused.insert(&cell.workload) {
                        refuse(&cell.workload, differences(&cell.definition, common));
                    }
                } else if !others.contains(baseline) && !others.contains(cell.target.as_str()) {
                    let key = (cell.workload.as_str(), cell.target.as_str());
                    comparisons
                        .entry(key)
                        .or_insert_with(|| Collected::new(cell))
                        .add(host, cell);
                }
            }
        }
        let comparisons = comparisons
            .into_iter()
            .map(|(key, found)| found.answer(key, baseline))
            .collect();
        let warnings = warnings(hosts);
        let hosts = hosts.iter().map(|host| FleetHost {
            name: host.name.clone(),
            started: host.started.clone(),
            fsb_version: host.fsb_version.clone(),
            properties: host.properties.clone(),
        });
        let (baseline, hosts) = (baseline.to_owned(), hosts.collect());
        Fleet {
            schema: SCHEMA,
            baseline,
            hosts,
            left_out,
            comparisons,
            unmatched,
            warnings,
        }
    }
}

impl<'a> Collected<'a> {
    fn new(cell: &'a HostCell) -> Collected<'a> {
        Collected {
            metric: &cell.metric,
            better: cell.better,
            found: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn add(&mut self, host: &'a HostResult, cell: &HostCell) {
        match &cell.found {
            Ok(found) => self.found.push((host, *found)),
            Err(reason) => self.left_out.push(LeftOut {
                host: host.name.clone(),
                reason: reason.clone(),
            }),
        }
    }

    fn answer(mut self, (workload, target): (&str, &str), baseline: &str) -> FleetComparison {
        self.found.sort_by(|(_, one), (_, other)| {
            one.effect.log_ratio.total_cmp(&other.effect.log_ratio)
        });
        let effects: Vec<Effect> = self.found.iter().map(|(_, found)| found.effect).collect();
        let together = random_effects(&effects);
        let explanation = self.explain(&effects, together.as_ref(), [baseline, target]);
        let mut comparison = FleetComparison {
            workload: workload.to_owned(),
            target: target.to_owned(),
            metric: self.metric.to_owned(),
            better: self.better,
            sentence: String::new(),
            verdicts: VerdictCounts::new(self.found.iter().map(|(_, found)| found.verdict)),
            together,
            explanation,
            hosts: self
                .found
                .iter()
                .map(|(host, found)| HostRatio {
                    host: host.name.clone(),
                    ratio: found.effect.log_ratio.exp(),
                    interval: found.interval,
                    error: found.effect.error,
                    degrees: found.effect.degrees,
                    verdict: found.verdict,
                })
                .collect(),
            left_out: self.left_out,
        };
        comparison.sentence = sentence(&comparison, baseline);
        comparison
    }

    /// Looks for the property of the hosts that explains their differences best.
    fn explain(
        &self,
        effects: &[Effect],
        together: Option<&RandomEffects>,
        targets: [&str; 2],
    ) -> Explanation {
        let Some(between) = together.and_then(|together| together.heterogeneity.as_ref()) else {
            return Explanation::TooFewHosts;
        };
        if effects.len() < FEWEST_EXPLAINED {
            return Explanation::TooFewHosts;
        }
        if between.p_value > 1.0 - LEVEL {
            return Explanation::NoDifferences;
        }
        let divisions = self.divisions(targets);
        let tested = divisions.len();
        if tested == 0 {
            return Explanation::NothingToTest;
        }
        let tests = divisions.into_iter().filter_map(|division| {
            let grouped: Vec<(usize, Effect)> = division.members(effects).collect();
            let (groups, effects): (Vec<usize>, Vec<Effect>) = grouped.into_iter().unzip();
            Some((moderator(&effects, &groups, tested)?, division))
        });
        let significant = tests.filter(|(found, _)| found.is_significant());
        match significant.min_by(|(one, _), (other, _)| {
            one.p_value
                .total_cmp(&other.p_value)
                .then(other.explained.total_cmp(&one.explained))
        }) {
            Some((found, division)) => {
                Explanation::Explained(self.explained(&found, division, tested))
            }
            None => Explanation::Unexplained { tested },
        }
    }

    /// Returns the different ways in which properties divide the hosts.
    fn divisions(&self, targets: [&str; 2]) -> Vec<Division> {
        let mut values: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
        for (place, (host, _)) in self.found.iter().enumerate() {
            let of_targets = host
                .targets
                .iter()
                .filter(|target| targets.contains(&target.name.as_str()));
            let all = of_targets
                .flat_map(|target| &target.properties)
                .chain(&host.properties);
            for (name, value) in all {
                let of_property = values
                    .entry(name)
                    .or_insert_with(|| vec![None; self.found.len()]);
                of_property[place] = Some(value.as_str());
            }
        }
        let mut divisions: IndexMap<Vec<Option<usize>>, Division> = IndexMap::new();
        for (name, values) in values {
            let Some((groups, names)) = grouped(&values) else {
                continue;
            };
            let division = Division {
                properties: Vec::new(),
                groups: groups.clone(),
                values: names,
            };
            divisions
                .entry(groups)
                .or_insert(division)
                .properties
                .push(name.to_owned());
        }
        divisions.into_values().collect()
    }

    fn explained(&self, found: &Moderator, division: Division, tested: usize) -> Explained {
        let mut groups: Vec<ExplainedGroup> = division
            .values
            .iter()
            .enumerate()
            .map(|(number, value)| {
                let members = self
                    .found
                    .iter()
                    .zip(&division.groups)
                    .filter(|(_, group)| **group == Some(number));
                ExplainedGroup {
                    value: value.clone(),
                    hosts: members.map(|((host, _), _)| host.name.clone()).collect(),
                    ratio: found.groups[number].ratio,
                    interval: found.groups[number].interval,
                }
            })
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
        Explained {
            ungrouped: division
                .groups
                .iter()
                .filter(|group| group.is_none())
                .count(),
            properties: division.properties,
            groups,
            p_value: found.p_value,
            explained: found.explained,
            tested,
        }
    }
}

/// A division of the hosts into groups.
#[derive(Debug, Clone)]
struct Division {
    /// The properties that divide the hosts in this way.
    properties: Vec<String>,
    /// The group of each host; `None` for a host whose value no other host has.
    groups: Vec<Option<usize>>,
    /// The value of the first property in each group.
    values: Vec<String>,
}

impl Division {
    fn members<'a>(&'a self, effects: &'a [Effect]) -> impl Iterator<Item = (usize, Effect)> + 'a {
        self.groups
            .iter()
            .zip(effects)
            .filter_map(|(group, effect)| Some(((*group)?, *effect)))
    }
}

/// Divides hosts by their values. Groups are numbered in the order of their first host. Returns
/// `None` for fewer than two groups of at least two hosts.
fn grouped<'a>(values: &[Option<&'a str>]) -> Option<(Vec<Option<usize>>, Vec<String>)> {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    values
        .iter()
        .flatten()
        .for_each(|value| *sizes.entry(value).or_default() += 1);
    let mut names: IndexSet<&str> = IndexSet::new();
    let mut group = |value: &Option<&'a str>| {
        let value = (*value)?;
        (sizes[value] >= 2).then(|| names.insert_full(value).0)
    };
    let groups: Vec<Option<usize>> = values.iter().map(&mut group).collect();
    (names.len() >= 2).then(|| (groups, names.into_iter().map(str::to_owned).collect()))
}

/// Returns the most frequent definition of each name. Of several equally frequent ones, the first
/// counts.
fn common_definitions<'a, D: Eq + Hash>(
    all: impl Iterator<Item = (&'a str, &'a D)>,
) -> HashMap<&'a str, &'a D> {
    let mut counts: HashMap<&str, IndexMap<&D, usize>> = HashMap::new();
    for (name, definition) in all {
        *counts
            .entry(name)
            .or_default()
            .entry(definition)
            .or_default() += 1;
    }
    let commonest = |known: IndexMap<&'a D, usize>| {
        let most = known.values().copied().max();
        known
            .into_iter()
            .find(|(_, count)| Some(*count) == most)
            .map(|(definition, _)| definition)
    };
    counts
        .into_iter()
        .filter_map(|(name, known)| Some((name, commonest(known)?)))
        .collect()
}

/// Returns the parameters in which a case differs from the case of most hosts: `file_size is 64
/// instead of 128`.
fn differences(own: &BTreeMap<String, Value>, common: &BTreeMap<String, Value>) -> String {
    let names: BTreeSet<&String> = own.keys().chain(common.keys()).collect();
    let text =
        |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
    let changed = names
        .into_iter()
        .filter(|name| own.get(*name) != common.get(*name));
    let listed = changed.map(|name| {
        format!(
            "{name} is {} instead of {}",
            text(own.get(name)),
            text(common.get(name))
        )
    });
    some_of(&listed.collect::<Vec<_>>(), SHOWN)
}

/// Returns the warnings about versions, unfinished runs and different requests.
fn warnings(hosts: &[HostResult]) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: IndexMap<&str, usize> = IndexMap::new();
    hosts
        .iter()
        .for_each(|host| *versions.entry(&host.fsb_version).or_default() += 1);
    if versions.len() > 1 {
        let counts: Vec<String> = versions
            .iter()
            .map(|(version, count)| format!("{version} on {count}"))
            .collect();
        let versions = some_of(&counts, SHOWN);
        found.push(format!(
            "the hosts ran different versions of fsb ({versions}), which may measure in other ways; run the others again \
             with one version"
        ));
    }
    let unfinished: Vec<String> = hosts
        .iter()
        .filter(|host| !host.is_complete)
        .map(|host| host.name.clone())
        .collect();
    if !unfinished.is_empty() {
        let (count, names) = (
            counted(unfinished.len(), "host"),
            some_of(&unfinished, SHOWN),
        );
        found.push(format!(
            "the runs of {count} are not complete, and count with the results so far: {names}; 'fsb run --resume' \
             continues a run"
        ));
    }
    if hosts
        .iter()
        .any(|host| host.theta.total_cmp(&hosts[0].theta).is_ne())
    {
        found.push(
            "the hosts' plans have different values of theta, which their own verdicts depend on"
                .to_owned(),
        );
    }
    found
}
