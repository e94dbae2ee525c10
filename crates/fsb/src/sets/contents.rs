//! The contents of sets, for the message that they have nothing in common.

use std::collections::BTreeSet;

use fsb_stats::compare::Collected;

/// The number of operations that the message names of a set.
const NAMED: usize = 13;

/// Returns the operations of each set, and why operations of the same name are not comparable.
pub fn contents(sets: &[Contents]) -> String {
    let lines: Vec<String> = sets.iter().map(line).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let shared = sets.iter().flat_map(|set| &set.operations).find(|name| !seen.insert(name));
    let sizes = shared.map_or_else(String::new, |name| format!("; {name} was measured at different sizes"));
    format!("{}{sizes}", lines.join("; "))
}

/// The contents of a set as text.
#[derive(Debug)]
pub struct Contents {
    name: String,
    tool: String,
    /// The operations, each once, in the order of the tables.
    operations: Vec<String>,
}

impl Contents {
    /// Returns the contents of a set that was read.
    pub fn of(set: &Collected) -> Contents {
        let mut seen = BTreeSet::new();
        let operations = set.measured().map(|(workload, operation, metric)| {
            let workload = workload.map(|workload| format!("{workload}: ")).unwrap_or_default();
            format!("{workload}{operation} ({metric})")
        });
        let operations = operations.filter(|name| seen.insert(name.clone())).collect();
        Contents { name: set.name.clone(), tool: set.tool().unwrap_or("no tool").to_owned(), operations }
    }
}

fn line(set: &Contents) -> String {
    let Contents { name, tool, operations } = set;
    let named = operations.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match operations.len().saturating_sub(NAMED) {
        _ if operations.is_empty() => format!("{name} ({tool}) has no values"),
        0 => format!("{name} ({tool}) has {named}"),
        more => format!("{name} ({tool}) has {named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_model::metric::THROUGHPUT;
    use fsb_model::set::{Point, Run, Series, Set};
    use fsb_model::stop::Analyses;

    fn set(name: &str, operations: &[&str]) -> Contents {
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
        let set =
            Set { name: name.to_owned(), pairing: None, analyses: Analyses::default(), runs: vec![run.clone(), run] };
        Contents::of(&Collected::of(&set).unwrap())
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
