//! What sets hold, for the message that they have nothing in common.

use std::collections::BTreeSet;

use fsb_model::set::Set;

/// So many operations of a set are named.
const NAMED: usize = 13;

/// Which operations each set has, and what keeps those of the same name apart.
pub fn contents(sets: &[Set]) -> String {
    let all: Vec<Vec<String>> = sets.iter().map(operations).collect();
    let lines: Vec<String> = sets.iter().zip(&all).map(|(set, names)| line(set, names)).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let shared = all.iter().flatten().find(|name| !seen.insert(name));
    let sizes = shared.map_or_else(String::new, |name| format!("; {name} was measured at different sizes"));
    format!("{}{sizes}", lines.join("; "))
}

/// Each once, in the order of the tables.
fn operations(set: &Set) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let series = set.runs.iter().flat_map(|run| &run.series).filter(|series| !series.points.is_empty());
    let name = series.map(|series| {
        let workload = series.workload.as_deref().map(|workload| format!("{workload}: ")).unwrap_or_default();
        format!("{workload}{} ({})", series.operation, series.metric)
    });
    name.filter(|name| seen.insert(name.clone())).collect()
}

fn line(set: &Set, names: &[String]) -> String {
    let tool = set.runs.first().map_or("no tool", |run| run.tool.as_str());
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        _ if names.is_empty() => format!("{} ({tool}) has no values", set.name),
        0 => format!("{} ({tool}) has {named}", set.name),
        more => format!("{} ({tool}) has {named} and {more} more", set.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_model::metric::THROUGHPUT;
    use fsb_model::set::{Point, Run, Series};

    fn set(name: &str, operations: &[&str]) -> Set {
        let series = operations.iter().map(|operation| Series {
            workload: None,
            operation: (*operation).to_owned(),
            metric: THROUGHPUT.name.to_owned(),
            unit: THROUGHPUT.unit,
            better: THROUGHPUT.better,
            found_unit: "kB/s".to_owned(),
            points: vec![Point { file_size: None, record_size: None, value: 1.0, line: 1 }],
            gaps: Vec::new(),
        });
        let run = Run { tool: "iozone".to_owned(), series: series.collect(), ..Run::default() };
        Set { name: name.to_owned(), pairing: None, runs: vec![run.clone(), run] }
    }

    #[test]
    fn each_set_is_told_with_its_operations_and_why_shared_ones_do_not_meet() {
        let said = contents(&[set("a", &["write", "read"]), set("b", &["create"]), set("c", &[])]);
        let expected = "a (iozone) has write (throughput), read (throughput); b (iozone) has create (throughput); \
                        c (iozone) has no values";
        assert_eq!(said, expected);
        let said = contents(&[set("a", &["write"]), set("b", &["write"])]);
        assert!(said.ends_with("; write (throughput) was measured at different sizes"), "{said}");
    }
}
