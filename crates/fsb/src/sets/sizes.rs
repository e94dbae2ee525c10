//! Checks that runs of fsb did the same work under one label: units of the same size, files of the same size.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::units::show_bytes;

use super::Source;

/// Compares runs by their units if all of them record the units. A run in rounds measures units, and a unit's own file
/// does not depend on the size of a slice. If one of the runs does not record the units of a workload, all runs are
/// compared by the whole workload. Returns warnings about workloads that ran in rounds in some runs and in sequential
/// trials in others.
pub(super) fn take_units(sources: &mut [Source]) -> Vec<String> {
    let mut by_label: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    for run in sources.iter().flat_map(|source| &source.runs) {
        for cell in &run.trials.cells {
            if !run.trials.has_unit(&cell.workload) {
                unknown.insert(cell.workload.clone());
            }
            let in_rounds = run.record.rounds.contains_key(&cell.workload);
            let paths = &mut by_label.entry(cell.workload.clone()).or_default()[usize::from(in_rounds)];
            let path = run.path.display().to_string();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    for run in sources.iter_mut().flat_map(|source| &mut source.runs) {
        unknown.iter().for_each(|label| run.trials.forget_unit(label));
    }
    let mut alike: BTreeMap<[Vec<String>; 2], Vec<String>> = BTreeMap::new();
    for (label, ways) in by_label.into_iter().filter(|(_, [visits, rounds])| !visits.is_empty() && !rounds.is_empty()) {
        alike.entry(ways).or_default().push(label);
    }
    let told = |([visits, rounds], labels): ([Vec<String>; 2], Vec<String>)| {
        format!(
            "measured in short samples in {} and in sequential trials in {}, which is not the same quantity: {}",
            rounds.join(" and "),
            visits.join(" and "),
            labels.join("; ")
        )
    };
    alike.into_iter().map(told).collect()
}

/// Sizes of a file and of a record in bytes.
type Size = (Option<u64>, Option<u64>);

/// Returns the labels of workloads whose arguments have no size in common, with the sizes. They did different amounts
/// of work and are not compared.
pub(super) fn of_other_sizes(sources: &[Source]) -> Vec<String> {
    let mut seen: BTreeMap<&str, Vec<(String, BTreeSet<Size>)>> = BTreeMap::new();
    for source in sources {
        let mut own: BTreeMap<&str, BTreeSet<Size>> = BTreeMap::new();
        for cell in source.runs.iter().flat_map(|run| &run.trials.cells) {
            own.entry(&cell.workload).or_default().insert((cell.file_size, cell.record_size));
        }
        for (label, sizes) in own {
            seen.entry(label).or_default().push((source.argument.text.display().to_string(), sizes));
        }
    }
    let differ = |sizes: &[(String, BTreeSet<Size>)]| {
        let mut all = sizes.iter().map(|(_, sizes)| sizes);
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, |common, sizes| &common & sizes).is_empty()
    };
    // Workloads with the same difference share a message.
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (label, sizes) in seen.into_iter().filter(|(_, sizes)| differ(sizes)) {
        alike.entry(in_words(&sizes)).or_default().push(label);
    }
    let told = |(sizes, labels): (String, Vec<&str>)| {
        format!(
            "not compared because file sizes differ: {} ({sizes}; sizes follow from --size and from the number of \
             targets side by side)",
            labels.join("; "),
        )
    };
    alike.into_iter().map(told).collect()
}

/// Returns text such as `82 MiB in old=a, 124 MiB in new=b`, with the sizes of records if they differ, too.
fn in_words(sizes: &[(String, BTreeSet<Size>)]) -> String {
    let bytes = |size: Option<u64>| size.map_or("any".to_owned(), |size| show_bytes(size as f64));
    let records: BTreeSet<Option<u64>> = sizes.iter().flat_map(|(_, sizes)| sizes).map(|(_, record)| *record).collect();
    let show = |(file, record): &Size| match records.len() {
        1 => bytes(*file),
        _ => format!("{} by {}", bytes(*file), bytes(*record)),
    };
    let of = |(argument, sizes): &(String, BTreeSet<Size>)| {
        format!("{} in {argument}", sizes.iter().map(show).collect::<Vec<_>>().join(" and "))
    };
    sizes.iter().map(of).collect::<Vec<_>>().join(", ")
}
