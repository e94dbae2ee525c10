//! What rates without bytes count: a thousand a second may be records, or files.

use fsb_model::Unit;

use super::summary::{Summary, Workload};
use crate::show::some_rows;

/// What one operation of a row is done to, or what it is.
fn counted_in(row: &Workload) -> &'static str {
    match row.operation.as_str() {
        "create" | "delete" | "rename" | "stat" | "scan" | "readdir" => "files",
        _ if row.workload.contains(" files") => "files",
        "append" | "read" | "write" => "records",
        other if other.ends_with("read") || other.ends_with("write") || other == "random_mix" => "records",
        "transaction" => "transactions",
        _ => "operations",
    }
}

/// `/s: records at append 4K, durable each, else files a second.`; absent where there are no such rates.
pub(super) fn line(summary: &Summary) -> Option<String> {
    let rows: Vec<&Workload> = summary.rows.iter().filter(|row| row.unit == Unit::OperationsPerSecond).collect();
    let of = |noun: &str| -> Vec<String> {
        rows.iter().filter(|row| counted_in(row) == noun).map(|row| row.workload.clone()).collect()
    };
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for noun in rows.iter().map(|row| counted_in(row)) {
        if !groups.iter().any(|(known, _)| *known == noun) {
            groups.push((noun, of(noun)));
        }
    }
    // The largest group is what no row is named of.
    let largest = (0..groups.len()).rev().max_by_key(|place| groups[*place].1.len())?;
    let (usual, _) = groups.remove(largest);
    if groups.is_empty() {
        return Some(format!("/s: {usual} a second."));
    }
    let others = groups.iter().map(|(noun, rows)| format!("{noun} at {}", some_rows(rows)));
    Some(format!("/s: {}, else {usual} a second.", others.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn rates_say_what_they_count() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let mut summary = Summary::of_run(&record, &trials);
        let mut row = summary.rows[0].clone();
        row.unit = Unit::OperationsPerSecond;
        let rows = [("random read 4K", "read"), ("create 4K files", "create"), ("read 4K files", "read")];
        summary.rows = rows
            .iter()
            .map(|(label, operation)| Workload {
                workload: (*label).to_owned(),
                operation: (*operation).to_owned(),
                roles: Vec::new(),
                ..row.clone()
            })
            .collect();
        assert_eq!(line(&summary).unwrap(), "/s: records at random read 4K, else files a second.");
        summary.rows.remove(0);
        assert_eq!(line(&summary).unwrap(), "/s: files a second.");
        summary.rows.iter_mut().for_each(|row| row.unit = Unit::BytesPerSecond);
        assert_eq!(line(&summary), None);
        row.operation = "transaction".to_owned();
        summary.rows = vec![row];
        assert_eq!(line(&summary).unwrap(), "/s: transactions a second.");
    }
}
