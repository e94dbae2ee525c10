//! The sets in a line.

use fsb_analysis::compare::{Document, SetSummary};

use crate::show::counted;

/// What was read, set by set, and how much of it can be compared.
pub(super) fn facts(document: &Document, sets: &[&SetSummary]) -> Vec<String> {
    let mut facts: Vec<String> = sets.iter().map(|set| fact(set)).collect();
    let coverage = &document.coverage;
    if sets.len() > 1 {
        facts.push(format!("{} in common", counted(coverage.common, "cell")));
        let only = coverage.only.iter().filter(|(_, cells)| **cells > 0);
        facts.extend(only.map(|(set, cells)| format!("{cells} more only in {set}")));
    }
    facts
}

fn fact(set: &SetSummary) -> String {
    let version = set.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let blocks = set.blocks.map(|blocks| format!(", {}", counted(blocks, "block"))).unwrap_or_default();
    format!("{}: {}{version}, {}{blocks}", set.name, set.tool, counted(set.runs, "run"))
}
