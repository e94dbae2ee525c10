//! Comparisons of runs with several targets: each target of `old` with the same target of `new`. The table of all sets
//! would compare every other set with one target of one run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;

use fsb_report::show::entry;
use fsb_report::{change_of, condition_text};
use fsb_stats::compare::{Collected, ConditionDifference, Document, Single};

use super::{Requests, compared};
use crate::columns;
use crate::sets::{self, Origin, Sets};

/// Targets that are compared with themselves, with the argument that others are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shared {
    baseline: usize,
    targets: Vec<String>,
}

/// The targets that the baseline's run shares with others; none where no run has several.
pub(super) fn shared(origins: &[Origin], baseline: usize) -> Option<Shared> {
    let baseline = origins.get(baseline)?.argument;
    let of = |argument: usize| {
        origins.iter().filter(move |origin| origin.argument == argument).filter_map(|origin| origin.target.as_ref())
    };
    let arguments: BTreeSet<usize> = origins.iter().map(|origin| origin.argument).collect();
    let others = || arguments.iter().filter(|argument| **argument != baseline);
    let targets: Vec<String> =
        of(baseline).filter(|target| others().any(|other| of(*other).any(|known| known == *target))).cloned().collect();
    let several = arguments.iter().any(|argument| of(*argument).count() > 1);
    (several && !targets.is_empty()).then_some(Shared { baseline, targets })
}

/// Names of the sets that come from other arguments than the baseline.
pub(super) fn of_other_arguments(read: &Sets, baseline: usize) -> Vec<String> {
    let own = read.origins.get(baseline).map(|origin| origin.argument);
    let others = read.sets.iter().zip(&read.origins).filter(|(_, origin)| Some(origin.argument) != own);
    others.map(|(set, _)| set.name.clone()).collect()
}

/// Comparisons of the targets of two runs.
#[derive(Debug, Default)]
pub(super) struct TargetByTarget {
    /// Each target beside itself.
    pub(super) changes: Vec<Document>,
    /// The ratio of each target to the first one beside the same ratio: differences of differences.
    pub(super) ratios: Vec<Document>,
}

/// Compares each target with itself, and its ratio to the first target with the same ratio. Reads the sets again,
/// because a comparison consumes them; once, because each set has one target.
pub(super) fn compared_by_target(
    arguments: &[OsString],
    shared: &Option<Shared>,
    requests: &Requests,
) -> anyhow::Result<TargetByTarget> {
    let Some(Shared { baseline, targets }) = shared else { return Ok(TargetByTarget::default()) };
    let mut read = sets::read(arguments)?;
    let mut left: Vec<_> = std::mem::take(&mut read.sets).into_iter().zip(read.origins.clone()).collect();
    let mut found = TargetByTarget::default();
    let of = |target: &String, argument: usize, sets: &[(Collected, Origin)]| {
        sets.iter().position(|(_, origin)| origin.argument == argument && origin.target.as_ref() == Some(target))
    };
    let arguments: BTreeSet<usize> = left.iter().map(|(_, origin)| origin.argument).collect();
    let first = &targets[0];
    for target in &targets[1..] {
        let mut ratios = Vec::new();
        for argument in std::iter::once(baseline).chain(arguments.iter().filter(|argument| *argument != baseline)) {
            let Some((above, below)) = of(target, *argument, &left).zip(of(first, *argument, &left)) else { continue };
            let (above, below) = (&left[above].0, &left[below].0);
            ratios.push(above.over(below, format!("{} over {}", above.name, below.name))?);
        }
        if ratios.len() > 1 {
            found.ratios.push(compared(ratios, &read, &requests.of_ratios(), Single::None)?);
        }
    }
    for target in targets {
        let (own, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, origin)| origin.target.as_ref() == Some(target));
        left = others;
        let baseline = own.iter().position(|(_, origin)| origin.argument == *baseline).unwrap_or_default();
        let own = own.into_iter().map(|(set, _)| set).collect();
        found.changes.push(compared(own, &read, &requests.of_values(baseline), Single::None)?);
    }
    Document::hold_together(&mut found.changes);
    Document::hold_together(&mut found.ratios);
    Ok(found)
}

/// Returns the conditions that differ, the changes of each target, then of each ratio, and the title of the table that
/// follows.
pub(super) fn text(conditions: &[ConditionDifference], found: &TargetByTarget) -> String {
    let columns = columns::of(std::io::stdout());
    let mut text = String::new();
    for condition in conditions {
        let _ = writeln!(text, "{}", entry("warning: ", &condition_text(condition), columns));
    }
    let parts =
        [("Target by target:", &found.changes), ("Ratios of targets (difference in differences):", &found.ratios)];
    let has_operations = |documents: &&Vec<Document>| documents.iter().any(|found| !found.operations.is_empty());
    for (title, documents) in parts.into_iter().filter(|(_, documents)| has_operations(documents)) {
        let _ = writeln!(text, "{title}");
        for document in documents {
            for set in document.sets.iter().filter(|set| set.name != document.baseline) {
                for (place, line) in change_of(document, &set.name).iter().enumerate() {
                    let indent = if place == 0 { "  " } else { "    " };
                    let _ = writeln!(text, "{}", entry(indent, line, columns));
                }
            }
        }
        text.push('\n');
    }
    text + "All sets:\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(argument: usize, target: &str) -> Origin {
        Origin { argument, target: Some(target.to_owned()) }
    }

    #[test]
    fn targets_meet_themselves_where_a_run_has_several() {
        let two = [origin(0, "ext4"), origin(0, "xfs"), origin(1, "ext4"), origin(1, "btrfs")];
        let found = shared(&two, 0).unwrap();
        assert_eq!((found.baseline, &found.targets[..]), (0, &["ext4".to_owned()][..]));
        assert_eq!(shared(&two, 2).unwrap().baseline, 1);
        assert_eq!(shared(&[origin(0, "ext4"), origin(1, "ext4")], 0), None, "the table says it");
        assert_eq!(shared(&two[..2], 0), None, "one run");
        assert_eq!(shared(&[Origin { argument: 0, target: None }, origin(1, "ext4")], 0), None);
    }
}
