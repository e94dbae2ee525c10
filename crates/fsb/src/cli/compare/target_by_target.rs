//! Runs of several targets against each other: `old` and `new` differ by what happened between them, target by target. In the
//! table of all sets every other one stands against one target of one run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;

use fsb_analysis::compare::{Document, Request, Single};

use fsb_report::show::entry;

use super::compared;
use crate::columns;
use crate::gate;
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

/// A comparison of each of them with itself. The sets are read again, for a comparison takes them apart; once, for each set is
/// of one target.
pub(super) fn documents(arguments: &[OsString], shared: &Option<Shared>, theta: f64) -> anyhow::Result<Vec<Document>> {
    let Some(Shared { baseline, targets }) = shared else { return Ok(Vec::new()) };
    let mut read = sets::read(arguments)?;
    let mut left: Vec<_> = std::mem::take(&mut read.sets).into_iter().zip(read.origins.clone()).collect();
    let mut documents = Vec::new();
    for target in targets {
        let (own, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, origin)| origin.target.as_ref() == Some(target));
        left = others;
        let baseline = own.iter().position(|(_, origin)| origin.argument == *baseline).unwrap_or_default();
        let own = own.into_iter().map(|(set, _)| set).collect();
        documents.push(compared(own, &read, &Request { baseline, theta }, Single::None)?);
    }
    Ok(documents)
}

/// What changed of each target: `new/xfs is slower than old/xfs at delete 4K files, durable.`
pub(super) fn text(documents: &[Document]) -> String {
    let mut text = String::from("\nTarget by target:\n");
    for document in documents {
        for set in document.sets.iter().filter(|set| set.name != document.baseline) {
            let said = gate::change(document, &set.name);
            let _ =
                writeln!(text, "{}", entry("  ", &format!("{} is {said}.", set.name), columns::of(std::io::stdout())));
        }
    }
    text
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
