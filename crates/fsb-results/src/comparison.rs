//! A comparison of sets, and its gate.
//!
//! Runs with several targets are compared target by target, too: each target of `old` with the same
//! target of `new`. The table of all sets would compare every other set with one target of one run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use fsb_report::check::Check;
use fsb_stats::compare::{
    Collected, CompareRequest, Document, Single, TargetByTarget, Variation, compare_collected,
};
use fsb_stats::{Between, BetweenSource};
use jiff::civil::Date;

use crate::acknowledged::Acknowledgements;
use crate::gate::{self, AbsentTarget, Answer, Judged};
use crate::run::StoredRun;
use crate::sets::{self, Apart, Contents, Origin, Sets};

/// The choices of the user.
pub struct Choices<'c> {
    /// The smallest ratio that matters, as a share: 0.03 for 3 %.
    pub theta: f64,
    /// The relative standard deviation between runs, if the user states it.
    pub between: Option<f64>,
    /// The index of the set that others are compared with.
    pub baseline: usize,
    /// The operations whose single values are kept.
    pub single: Single<'c>,
}

/// A comparison of sets.
#[derive(Debug)]
pub struct Comparison {
    /// The sets that were read; their values are in the documents.
    pub read: Sets,
    /// All sets, and each target with itself where runs have several.
    pub document: Document,
    /// The sets of other arguments than the baseline's, with the numbers of the arguments.
    elsewhere: Vec<(usize, String)>,
    /// Targets that other arguments lack, with their numbers.
    absent: Vec<(usize, AbsentTarget)>,
}

/// The contents of sets that have no common value.
#[derive(Debug)]
pub struct NothingInCommon(pub Vec<Contents>);

impl Comparison {
    /// Compares sets.
    ///
    /// # Errors
    ///
    /// The sets cannot be compared. The inner error says that they have no common value.
    pub fn new(
        mut read: Sets,
        choices: &Choices<'_>,
    ) -> anyhow::Result<Result<Comparison, NothingInCommon>> {
        let baseline = choices.baseline;
        let contents: Vec<Contents> = read.sets.iter().map(Contents::from_set).collect();
        let elsewhere = of_other_arguments(&read, baseline);
        let absent = absent_targets(&read, baseline);
        let requests = Requests::new(choices.theta, choices.between, &read.runs);
        let all = std::mem::take(&mut read.sets);
        let shared = shared(&read.origins, baseline);
        // A comparison consumes its sets. Those of one target are in memory twice at a time.
        let by_target = match shared {
            Some(shared) => compared_by_target(&all, &read, &shared, &requests),
            None => Ok(TargetByTarget::default()),
        };
        let mut document = compared(all, &read, &requests.of_values(baseline), choices.single)?;
        if !document.has_common_values() {
            return Ok(Err(NothingInCommon(contents)));
        }
        document.by_target = by_target?;
        Ok(Ok(Comparison {
            read,
            document,
            elsewhere,
            absent,
        }))
    }

    /// Returns the answer of the gate that fails if a set is slower than the baseline, and the
    /// checks that it sums up. Slowdowns that were acknowledged and did not expire before the day
    /// `today` pass.
    ///
    /// # Errors
    ///
    /// A file of the sets cannot be read again, to find copies.
    pub fn gate(
        &self,
        acknowledged: &Acknowledgements,
        today: Date,
    ) -> anyhow::Result<(Answer, Vec<Check>)> {
        let (judged, absent) = self.judged();
        let mut checks = gate::checks(&judged, &absent);
        let applied = acknowledged.apply(&mut checks, today);
        let refusal = self.refusal()?;
        let is_refused = refusal.is_some();
        let answer = refusal.unwrap_or_else(|| gate::slower(&judged, &checks, &applied));
        // Failed runs forbid a positive answer, too.
        let is_doubtful = answer.exit != 0 && checks.iter().all(|check| check.outcome.passes());
        if is_refused || is_doubtful {
            for check in &mut checks {
                check.refuse(&answer.text);
            }
        }
        Ok((answer, checks))
    }

    /// Returns the answer of a gate that these runs cannot decide, whatever their values are.
    fn refusal(&self) -> anyhow::Result<Option<Answer>> {
        if let Some(answer) = gate::refused_changes(&self.read.changed) {
            return Ok(Some(answer));
        }
        if let Some(answer) = gate::refused_copies(&self.read.inputs)? {
            return Ok(Some(answer));
        }
        let of_low_trust = (!self.document.withheld).then_some(&self.read.of_low_trust);
        Ok(of_low_trust.and_then(|runs| gate::refused(runs)))
    }

    /// Returns the comparisons that a gate judges, and the targets that runs lack.
    fn judged(&self) -> (Vec<Judged<'_>>, Vec<&AbsentTarget>) {
        let of_targets = &self.document.by_target.changes;
        if of_targets.is_empty() {
            return (vec![Judged::all(&self.document)], Vec::new());
        }
        let mut judged: Vec<Judged<'_>> = of_targets.iter().map(Judged::all).collect();
        // Arguments that share no target with the baseline's run are compared with the baseline, as
        // in a comparison without targets.
        let mut met: BTreeSet<usize> = BTreeSet::new();
        for (argument, name) in &self.elsewhere {
            let mut sets = of_targets.iter().flat_map(|document| &document.sets);
            if sets.any(|set| set.name == *name) {
                met.insert(*argument);
            }
        }
        let mut sets = Vec::new();
        for (argument, name) in &self.elsewhere {
            if !met.contains(argument) {
                sets.push(name.as_str());
            }
        }
        if !sets.is_empty() {
            judged.push(Judged {
                document: &self.document,
                sets,
            });
        }
        let absent = (self.absent.iter())
            .filter(|(argument, _)| met.contains(argument))
            .map(|(_, target)| target);
        (judged, absent.collect())
    }
}

/// The known variation between runs.
#[derive(Debug, Clone, Copy)]
struct Requests {
    theta: f64,
    stated: Option<Between>,
    history: Variation,
}

impl Requests {
    /// Returns requests with the variation that the user states, or else with that of earlier runs
    /// beside `runs`.
    fn new(theta: f64, between: Option<f64>, runs: &[StoredRun]) -> Requests {
        let stated = between.map(|sd| Between {
            sd,
            source: BetweenSource::Stated,
        });
        let history = if stated.is_none() {
            sets::earlier_runs(runs)
        } else {
            None
        };
        Requests {
            theta,
            stated,
            history: history.unwrap_or_default(),
        }
    }

    /// Returns the request for values of one target. It uses the variation between sessions if
    /// earlier runs were made in several sessions. With one run on a side it uses only the
    /// variation that the user states.
    fn of_values(&self, baseline: usize) -> CompareRequest {
        let sessions = self.history.values.filter(|_| self.history.of_sessions);
        CompareRequest {
            between_runs: self.stated,
            between_sessions: self.stated.or(sessions),
            ..CompareRequest::new(baseline, self.theta)
        }
    }

    /// Returns the request for ratios of two targets; the first set is the baseline.
    fn of_ratios(&self) -> CompareRequest {
        let sessions = self.history.ratios.filter(|_| self.history.of_sessions);
        CompareRequest {
            between_runs: self.stated.or(self.history.ratios),
            between_sessions: self.stated.or(sessions),
            // The pool of 2011 is one of values.
            pooled: false,
            ..CompareRequest::new(0, self.theta)
        }
    }
}

/// Compares the sets, and adds the warnings and conditions of their runs to the document. Withholds
/// verdicts that the runs do not permit.
fn compared(
    sets: Vec<Collected>,
    read: &Sets,
    request: &CompareRequest,
    single: Single<'_>,
) -> anyhow::Result<Document> {
    let mut document =
        compare_collected(sets, request, single).context("cannot compare these sets")?;
    let after_urgent = document.urgent;
    document
        .warnings
        .splice(after_urgent..after_urgent, read.warnings.iter().cloned());
    document.conditions.clone_from(&read.conditions);
    match read.apart.clone() {
        Some(Apart {
            why,
            unjudged: Some(unjudged),
        }) => document.unjudge(unjudged, why),
        Some(Apart {
            why,
            unjudged: None,
        }) => document.withhold(why),
        None => {}
    }
    for ((workload, reason), runs) in &read.withheld {
        let why = format!("{workload}: not judged: {reason} in {}", runs.join(", "));
        document.withhold_at(workload, why);
    }
    Ok(document)
}

/// Targets that are compared with themselves, with the argument that others are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    baseline: usize,
    targets: Vec<String>,
}

/// Returns the targets that the baseline's run shares with others; none where no run has several.
fn shared(origins: &[Origin], baseline: usize) -> Option<Shared> {
    let baseline = origins.get(baseline)?.argument;
    let mut by_argument: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for origin in origins {
        by_argument
            .entry(origin.argument)
            .or_default()
            .extend(&origin.target);
    }
    let several = by_argument.values().any(|targets| targets.len() > 1);
    let own = by_argument.remove(&baseline).unwrap_or_default();
    let targets: Vec<String> = own
        .into_iter()
        .filter(|target| by_argument.values().any(|targets| targets.contains(target)))
        .cloned()
        .collect();
    (several && !targets.is_empty()).then_some(Shared { baseline, targets })
}

/// Names of the sets that come from other arguments than the baseline, with the numbers of these
/// arguments.
fn of_other_arguments(read: &Sets, baseline: usize) -> Vec<(usize, String)> {
    let own = read.origins.get(baseline).map(|origin| origin.argument);
    let others = read
        .sets
        .iter()
        .zip(&read.origins)
        .filter(|(_, origin)| Some(origin.argument) != own);
    others
        .map(|(set, origin)| (origin.argument, set.name.clone()))
        .collect()
}

/// Returns the targets of the baseline's argument that other arguments lack, with the numbers of
/// those.
fn absent_targets(read: &Sets, baseline: usize) -> Vec<(usize, AbsentTarget)> {
    let Some(own) = read.origins.get(baseline).map(|origin| origin.argument) else {
        return Vec::new();
    };
    let targets = |argument: usize| {
        let of_argument = read
            .origins
            .iter()
            .filter(move |origin| origin.argument == argument);
        of_argument.filter_map(|origin| origin.target.as_deref())
    };
    let mut absent = Vec::new();
    for (argument, name) in of_other_arguments(read, baseline) {
        if absent.iter().any(|(known, _)| *known == argument) {
            continue;
        }
        // The sets of an argument are named `ARGUMENT/TARGET`.
        let prefix = name
            .split_once('/')
            .map_or(name.as_str(), |(prefix, _)| prefix);
        for target in targets(own) {
            if targets(argument).all(|known| known != target) {
                let set = format!("{prefix}/{target}");
                let baseline = of_target(read, own, target);
                absent.push((argument, AbsentTarget { set, baseline }));
            }
        }
    }
    absent
}

/// Returns the name of the set of a target of an argument.
fn of_target(read: &Sets, argument: usize, target: &str) -> String {
    let mut sets = read.sets.iter().zip(&read.origins);
    let found = sets.find(|(_, origin)| {
        origin.argument == argument && origin.target.as_deref() == Some(target)
    });
    found.map_or_else(String::new, |(set, _)| set.name.clone())
}

/// Compares each target with itself, and its ratio to the first target with the same ratio.
fn compared_by_target(
    sets: &[Collected],
    read: &Sets,
    shared: &Shared,
    requests: &Requests,
) -> anyhow::Result<TargetByTarget> {
    let Shared { baseline, targets } = shared;
    let all: Vec<(&Collected, &Origin)> = sets.iter().zip(&read.origins).collect();
    let mut found = TargetByTarget::default();

    let arguments: BTreeSet<usize> = all.iter().map(|(_, origin)| origin.argument).collect();
    let first = &targets[0];
    for target in &targets[1..] {
        let mut ratios = Vec::new();
        for argument in std::iter::once(baseline)
            .chain(arguments.iter().filter(|argument| *argument != baseline))
        {
            let [above, below] = [target, first].map(|target| {
                all.iter().find(|(_, origin)| {
                    origin.argument == *argument && origin.target.as_ref() == Some(target)
                })
            });
            let Some(((above, _), (below, _))) = above.zip(below) else {
                continue;
            };
            ratios.push(above.over(below, format!("{} over {}", above.name, below.name))?);
        }
        if ratios.len() > 1 {
            found
                .ratios
                .push(compared(ratios, read, &requests.of_ratios(), Single::None)?);
        }
    }
    for target in targets {
        let mut own = Vec::new();
        let mut place = None;
        for (set, origin) in &all {
            if origin.target.as_ref() == Some(target) {
                if origin.argument == *baseline {
                    place.get_or_insert(own.len());
                }
                own.push((*set).clone());
            }
        }
        found.changes.push(compared(
            own,
            read,
            &requests.of_values(place.unwrap_or_default()),
            Single::None,
        )?);
    }
    // The document of all sets has the other warnings, and the conditions.
    for document in found.documents_mut() {
        document.warnings.truncate(document.urgent);
        document.conditions.clear();
    }
    Document::hold_together(&mut found.changes);
    Document::hold_together(&mut found.ratios);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(argument: usize, target: &str) -> Origin {
        Origin {
            argument,
            target: Some(target.to_owned()),
        }
    }

    #[test]
    fn targets_meet_themselves_where_a_run_has_several() {
        let two = [
            origin(0, "ext4"),
            origin(0, "xfs"),
            origin(1, "ext4"),
            origin(1, "btrfs"),
        ];
        let found = shared(&two, 0).unwrap();
        assert_eq!(
            (found.baseline, &found.targets[..]),
            (0, &["ext4".to_owned()][..])
        );
        assert_eq!(shared(&two, 2).unwrap().baseline, 1);
        assert_eq!(
            shared(&[origin(0, "ext4"), origin(1, "ext4")], 0),
            None,
            "the table says it"
        );
        assert_eq!(shared(&two[..2], 0), None, "one run");
        assert_eq!(
            shared(
                &[
                    Origin {
                        argument: 0,
                        target: None
                    },
                    origin(1, "ext4")
                ],
                0
            ),
            None
        );
    }
}
