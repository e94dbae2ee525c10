//! The answer of a fleet as text. Ratios are ratios of speed: the ratio of a time is inverted.

use fsb_model::Better;
use fsb_stats::{Interval, RandomEffects};

use super::document::{Explained, Explanation, FleetComparison};
use crate::fleet::document::{Fleet, LeftOut};
use crate::screen::{WIDTH, paragraph};
use crate::show::{Change, counted, entry, minus, percent, some_of};
use crate::visible;

/// The maximum number of items that a line names.
const SHOWN: usize = 5;
/// The text marks a group with fewer hosts than this as small.
const FEW: usize = 3;

/// Returns a ratio of a metric as a ratio of speed.
pub(crate) fn speed(ratio: f64, better: Better) -> f64 {
    if better == Better::Higher {
        ratio
    } else {
        1.0 / ratio
    }
}

/// Returns an interval of ratios of a metric as ratios of speed.
pub(crate) fn speed_interval(Interval { lo, hi }: Interval, better: Better) -> Interval {
    match better {
        Better::Higher => Interval { lo, hi },
        Better::Lower => Interval {
            lo: 1.0 / hi,
            hi: 1.0 / lo,
        },
    }
}

/// Formats a ratio of a metric as a change of speed: `+9 % [+6 +12]`.
pub(crate) fn change(ratio: f64, interval: Option<Interval>, better: Better) -> String {
    let interval = interval.map(|interval| speed_interval(interval, better));
    minus(&Change::between(speed(ratio, better), interval).text())
}

/// Returns a change such as `9 % faster` or `3.2 times as fast`, and its interval. Returns `None`
/// if the interval contains equality.
fn clear_change(ratio: f64, interval: Interval, better: Better) -> Option<(String, String)> {
    let (speed, Interval { lo, hi }) = (speed(ratio, better), speed_interval(interval, better));
    if lo <= 1.0 && hi >= 1.0 {
        return None;
    }
    let share = |ratio: f64| {
        let percent = (ratio - 1.0).abs() * 100.0;
        if (hi - lo) < 0.015 {
            format!("{percent:.1}")
        } else {
            format!("{percent:.0}")
        }
    };
    Some(match speed {
        s if s >= 10.0 => (
            format!("{s:.0} times as fast"),
            format!("[{lo:.0}, {hi:.0}]"),
        ),
        s if s > 1.0 => (
            format!("{} % faster", share(s)),
            format!("[{}, {}]", share(lo), share(hi)),
        ),
        s => (
            format!("{} % slower", share(s)),
            format!("[{}, {}]", share(hi), share(lo)),
        ),
    })
}

/// Returns the answer of a comparison in one sentence.
pub(super) fn sentence(comparison: &FleetComparison, baseline: &str) -> String {
    let FleetComparison {
        workload,
        target,
        better,
        together,
        explanation,
        ..
    } = comparison;
    let Some(together) = together else {
        let hosts = counted(comparison.left_out.len(), "host");
        return format!(
            "{target} is not compared with {baseline} at {workload}: none of {hosts} has a judged ratio."
        );
    };
    let n = together.n;
    let Some(interval) = together.interval else {
        let host = &comparison.hosts[0];
        let change = change(host.ratio, Some(host.interval), *better);
        return format!(
            "{target} at {workload}: only one host ({}): {change}; a mean needs two hosts.",
            host.host
        );
    };
    if let Explanation::Explained(explained) = explanation {
        return explained_sentence(comparison, explained, baseline, n);
    }
    let mean = match clear_change(together.ratio, interval, *better) {
        Some((what, ends)) => {
            let than = if what.ends_with("fast") { "as" } else { "than" };
            format!(
                "{target} is {what} {than} {baseline} at {workload} {ends}, the mean of {n} hosts"
            )
        }
        None => {
            let change = change(together.ratio, Some(interval), *better);
            format!(
                "{target} and {baseline} are not significantly different at {workload} ({change}, the mean of {n} \
                 hosts)"
            )
        }
    };
    format!("{mean}; {}.", counts_text(comparison))
}

/// Returns text such as `faster on 31, slower on 2, undecided on 7`.
fn counts_text(comparison: &FleetComparison) -> String {
    let counts = &comparison.verdicts;
    let all = [
        ("faster", counts.faster),
        ("slower", counts.slower),
        ("equivalent", counts.equivalent),
        ("undecided", counts.undecided),
    ];
    let listed = all
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{word} on {count}"));
    listed.collect::<Vec<_>>().join(", ")
}

/// Returns a sentence such as `xfs is 11 % faster than ext4 at create on 38 of 40 hosts [9, 13]; on
/// the 2 with rotating disk it is 20 % slower [15, 25] (only 2 hosts)`.
fn explained_sentence(
    comparison: &FleetComparison,
    explained: &Explained,
    baseline: &str,
    n: usize,
) -> String {
    let FleetComparison {
        workload,
        target,
        better,
        ..
    } = comparison;
    let name = &explained.properties[0];
    let mut parts = Vec::new();
    for (place, group) in explained.groups.iter().enumerate() {
        let count = group.hosts.len();
        let with = if group.value.contains(name.as_str()) {
            group.value.clone()
        } else {
            format!("{name} {}", group.value)
        };
        let few = if count < FEW {
            format!(" (only {count} hosts)")
        } else {
            String::new()
        };
        let found = clear_change(group.ratio, group.interval, *better);
        parts.push(match (place, found) {
            (0, Some((what, ends))) => {
                let than = if what.ends_with("fast") { "as" } else { "than" };
                format!("{target} is {what} {than} {baseline} at {workload} on {count} of {n} hosts {ends}, with {with}{few}")
            }
            (0, None) => {
                let change = change(group.ratio, Some(group.interval), *better);
                format!(
                    "{target} and {baseline} are not significantly different at {workload} on {count} of {n} hosts \
                     ({change}), with {with}{few}"
                )
            }
            (_, Some((what, ends))) => format!("on the {count} with {with} it is {what} {ends}{few}"),
            (_, None) => {
                let change = change(group.ratio, Some(group.interval), *better);
                format!("on the {count} with {with} it is not significantly different ({change}){few}")
            }
        });
    }
    parts.join("; ") + "."
}

/// Returns the estimates of the random-effects model: `mean +9 % [+6 +12]; next host [−2 +20]; I²
/// 87 %, τ 5 %`.
pub(crate) fn summary_text(comparison: &FleetComparison, together: &RandomEffects) -> String {
    let better = comparison.better;
    let mut parts = vec![format!(
        "mean {}",
        change(together.ratio, together.interval, better)
    )];
    parts.push(match together.prediction {
        Some(prediction) => {
            let change = Change::between(
                speed(together.ratio, better),
                Some(speed_interval(prediction, better)),
            );
            change.interval.map_or_else(String::new, |found| {
                minus(&format!("next host {}", found.in_brackets(0)))
            })
        }
        None => "a prediction for the next host needs 3 hosts".to_owned(),
    });
    if let Some(between) = &together.heterogeneity {
        parts.push(format!(
            "I² {:.0} %, τ {}",
            between.i_squared * 100.0,
            percent((between.tau.exp_m1() * 1e3).round() / 1e3)
        ));
        parts.push(match between.p_value {
            p if p <= 0.05 => format!("hosts differ (p {})", probability(p)),
            p => format!("hosts do not differ significantly (p {})", probability(p)),
        });
    }
    parts.join("; ")
}

/// Returns a probability as text: `0.03`, `0.004` or `below 0.001`.
fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "below 0.001".to_owned(),
        p if p < 0.01 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

/// Returns the result of the search for a property, or `None` if the hosts do not differ.
pub(crate) fn explanation_text(explanation: &Explanation) -> Option<String> {
    match explanation {
        Explanation::TooFewHosts | Explanation::NoDifferences => None,
        Explanation::NothingToTest => {
            Some("no property divides the hosts into groups of at least two".to_owned())
        }
        Explanation::Unexplained { tested } => Some(match tested {
            1 => "the one property that divides the hosts does not explain how they differ"
                .to_owned(),
            tested => format!(
                "none of {tested} properties that divide the hosts explains how they differ"
            ),
        }),
        Explanation::Explained(Explained {
            properties,
            ungrouped,
            p_value,
            explained,
            tested,
            ..
        }) => {
            let names = some_of(properties, SHOWN);
            let alike = match properties.len() {
                1 => names,
                count => {
                    format!(
                        "{names} ({count} properties that divide the hosts in the same way; any of them may be the cause)"
                    )
                }
            };
            let outside = match ungrouped {
                0 => String::new(),
                count => format!("; {} in no group", counted(*count, "host")),
            };
            let share = (explained * 100.0).round();
            Some(format!(
                "explained by {alike}: {share} % of the variance between hosts, p {} of {}{outside}",
                probability(*p_value),
                counted(*tested, "test")
            ))
        }
    }
}

/// Returns the answer as text in `width` columns, 80 at least. `each` adds the ratios of the hosts.
pub fn screen(fleet: &Fleet, width: usize, each: bool) -> String {
    let width = width.max(WIDTH);
    let mut lines = Vec::new();
    let hosts = counted(fleet.hosts.len(), "host");
    paragraph(
        &mut lines,
        width,
        &format!("{hosts}; baseline: {}", fleet.baseline),
        "",
        "  ",
    );
    for comparison in &fleet.comparisons {
        lines.push(String::new());
        paragraph(&mut lines, width, &comparison.sentence, "", "  ");
        if let Some(together) = comparison
            .together
            .as_ref()
            .filter(|together| together.interval.is_some())
        {
            paragraph(
                &mut lines,
                width,
                &summary_text(comparison, together),
                "  ",
                "    ",
            );
        }
        if let Some(text) = explanation_text(&comparison.explanation) {
            paragraph(&mut lines, width, &text, "  ", "    ");
        }
        if each {
            let widest = comparison
                .hosts
                .iter()
                .map(|host| host.host.chars().count())
                .max()
                .unwrap_or_default();
            for host in &comparison.hosts {
                let change = change(host.ratio, Some(host.interval), comparison.better);
                lines.push(format!(
                    "    {:widest$}  {change}  {}",
                    visible::line(&host.host),
                    host.verdict.words()
                ));
            }
        }
        if let Some(text) = left_out_text(&comparison.left_out) {
            paragraph(&mut lines, width, &text, "  ", "    ");
        }
    }
    let mut notes: Vec<String> = Vec::new();
    notes.extend(
        fleet
            .left_out
            .iter()
            .map(|left| format!("left out: {}: {}", left.host, left.reason)),
    );
    notes.extend(
        unmatched(fleet)
            .iter()
            .map(|text| format!("not compared: {text}")),
    );
    notes.extend(
        fleet
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes.iter().map(|note| entry("", note, width)));
    }
    lines.join("\n") + "\n"
}

/// Groups hosts without a judged ratio by the reason: `without a ratio: 2 hosts (db1; db2): too few
/// blocks`.
pub(super) fn left_out_text(left_out: &[LeftOut]) -> Option<String> {
    let listed = by_reason(
        left_out
            .iter()
            .map(|left| (left.reason.as_str(), left.host.as_str())),
    );
    (!listed.is_empty()).then(|| format!("without a ratio: {}", some_of(&listed, SHOWN)))
}

/// Returns a line for each subject and difference, with its hosts.
pub(super) fn unmatched(fleet: &Fleet) -> Vec<String> {
    let reasons: Vec<String> = fleet
        .unmatched
        .iter()
        .map(|one| format!("{}: {}", one.subject, one.reason))
        .collect();
    by_reason(
        reasons
            .iter()
            .map(String::as_str)
            .zip(fleet.unmatched.iter().map(|one| one.host.as_str())),
    )
}

fn by_reason<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut hosts: indexmap::IndexMap<&str, Vec<String>> = indexmap::IndexMap::new();
    for (reason, host) in all {
        hosts.entry(reason).or_default().push(host.to_owned());
    }
    let listed = hosts.iter().map(|(reason, hosts)| {
        format!(
            "{} ({}): {reason}",
            counted(hosts.len(), "host"),
            some_of(hosts, SHOWN)
        )
    });
    listed.collect()
}
