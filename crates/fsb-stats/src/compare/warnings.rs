//! Warnings that a reader must know before believing a comparison.

use std::collections::BTreeMap;

use fsb_model::metric::{self, Role};
use fsb_model::units;

use super::collected::{Collected, FEW_TICKS, GAPS, Key, NAMED};
use super::region::{Complete, ENOUGH};
use super::table::Table;
use super::{CompareRequest, OURS};
use crate::{FEWEST_JUDGED, FEWEST_RUNS_JUDGED};

/// Returns all warnings. Those about whole sets come first.
pub(super) fn warnings(sets: &[Collected], tables: &[Table], request: &CompareRequest) -> Vec<String> {
    let mut warnings = few_runs(sets, request);
    warnings.extend(tools(sets));
    warnings.extend(commands(sets));
    warnings.extend(uncommon(sets, tables));
    for (place, set) in sets.iter().enumerate() {
        warnings.extend(incomplete(set, place, tables));
        warnings.extend(copies(set));
        warnings.extend(quantised(set));
        warnings.extend(gaps(set));
        warnings.extend(remarks(set));
    }
    warnings
}

/// Warns of sets with too few blocks (for a single run) or too few runs to be judged.
fn few_runs(sets: &[Collected], request: &CompareRequest) -> Vec<String> {
    let one_run = |set: &Collected| set.pairing.is_some() && set.pairing == sets[0].pairing && set.run_count() == 1;
    let are_one_run = sets.iter().all(one_run);
    let mut by_number: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let (what, least) = match are_one_run {
        true => ("block", FEWEST_JUDGED),
        // With a given variation between runs, single runs are judged.
        false => ("run", if request.between_runs.is_some() { 1 } else { FEWEST_RUNS_JUDGED }),
    };
    for set in sets {
        let n = set.block_count().filter(|_| are_one_run).unwrap_or_else(|| set.run_count());
        if n < least {
            by_number.entry(n).or_default().push(&set.name);
        }
    }
    let told = |(n, names): (usize, Vec<&str>)| {
        let plural = if n == 1 { "" } else { "s" };
        format!("{}: {n} {what}{plural}: described, not judged (at least {least} are needed)", names.join(", "))
    };
    by_number.into_iter().map(told).collect()
}

/// Warns of runs that agree in every value. Such a run is a copy, because real runs never agree.
fn copies(set: &Collected) -> Option<String> {
    let (earlier, later) = set.copies.first?;
    let (earlier, later, pairs) = (set.named(earlier), set.named(later), set.copies.pairs);
    let more = if pairs > 1 { format!(" and {} more", pairs - 1) } else { String::new() };
    Some(format!(
        "{}: {later}{more} has the same values as {earlier}: a copied run counts twice, so intervals are too narrow",
        set.name
    ))
}

fn tools(sets: &[Collected]) -> Option<String> {
    fn tool_and_version(set: &Collected) -> Option<(&str, Option<&str>)> {
        Some((set.tool()?, set.first_version.as_deref()))
    }
    let first = sets.first().and_then(tool_and_version)?;
    let show = |set: &Collected| {
        let (tool, version) = tool_and_version(set)?;
        Some(format!("{}: {tool} {}", set.name, version.unwrap_or("of unknown version")))
    };
    let all: Vec<String> = sets.iter().filter_map(show).collect();
    match sets.iter().filter_map(tool_and_version).find(|other| *other != first)? {
        (tool, _) if tool != first.0 => Some(format!(
            "different tools measure different things under one name ({}): read the ratios with care",
            all.join("; ")
        )),
        // FSBench versions are a condition of the runs.
        _ if first.0 == OURS => None,
        _ => Some(format!("different versions of {} ({})", first.0, all.join("; "))),
    }
}

/// Warns of sets whose tool was called with different options.
fn commands(sets: &[Collected]) -> Option<String> {
    let command = |set: &Collected| set.commands.texts.first().map(|command| options(command));
    let all: Vec<(&Collected, String)> = sets.iter().filter_map(|set| Some((set, command(set)?))).collect();
    let same_tool = all.windows(2).all(|pair| pair[0].0.tool() == pair[1].0.tool());
    if !same_tool || all.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return None;
    }
    let named = all.iter().take(NAMED).map(|(set, options)| format!("{}: {options}", set.name));
    let more = if all.len() > NAMED { "; …" } else { "" };
    Some(format!("the sets were made with different options ({}{more})", named.collect::<Vec<_>>().join("; ")))
}

/// Returns a command line without the program and file names, because they differ without any effect. `fsb iozone`
/// counts as `iozone`, because it takes the same options.
fn options(command: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut skip = false;
    let mut words = command.split_whitespace().peekable();
    let program = words.next().and_then(|word| word.rsplit('/').next());
    if program == Some("fsb") {
        words.next_if_eq(&"iozone");
    }
    for word in words {
        let is_path = word.starts_with('/') || word.starts_with("./");
        match word {
            _ if std::mem::take(&mut skip) => {}
            "-f" | "-F" | "-b" | "-U" => skip = true,
            _ if is_path => {}
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// Warns of operations that only some sets have, and of cells that only some sets have.
fn uncommon(sets: &[Collected], tables: &[Table]) -> Vec<String> {
    if sets.len() < 2 {
        return Vec::new();
    }
    let mut by_owners: Vec<(String, Vec<(&Key, usize)>)> = Vec::new();
    // The warnings leave out a cell without a value in any set, such as one of zeros. They also leave out a percentile
    // that is missing because of too few operations.
    let is_latency = |table: &&Table| metric::find(&table.key.metric).is_some_and(|kind| kind.role == Role::Latency);
    let told = |table: &&Table| {
        !is_latency(table) || !tables.iter().any(|other| !is_latency(&other) && is_same_work(&other.key, &table.key))
    };
    for table in tables.iter().filter(|table| (1..sets.len()).contains(&table.present())).filter(told) {
        let owners = sets.iter().zip(&table.sets).filter(|(_, matrix)| matrix.is_some());
        let owners = owners.map(|(set, _)| set.name.as_str()).collect::<Vec<_>>().join(" and ");
        let place = by_owners.iter().position(|(other, _)| *other == owners).unwrap_or(by_owners.len());
        if place == by_owners.len() {
            by_owners.push((owners, Vec::new()));
        }
        let of_key = &mut by_owners[place].1;
        match of_key.iter_mut().find(|(other, _)| is_same_work(other, &table.key)) {
            Some((_, metrics)) => *metrics += 1,
            None => of_key.push((&table.key, 1)),
        }
    }
    // An operation with many metrics is listed once.
    let told = |(key, metrics): &(&Key, usize)| match metrics {
        1 => label(key),
        n => format!("{} ({n} metrics)", work(key)),
    };
    let told = |(owners, keys): (String, Vec<(&Key, usize)>)| (owners, keys.iter().map(told).collect::<Vec<_>>());
    let by_owners = by_owners.into_iter().map(told);
    let mut warnings: Vec<String> =
        by_owners.map(|(owners, names)| format!("only {owners} measured {}", some(&names, 8))).collect();
    let lost = |set: usize| -> usize {
        let shared = tables.iter().filter(|table| table.present() > 1 && table.sets[set].is_some());
        shared.map(|table| table.coverage[set].0 - table.cells.len()).sum()
    };
    let lost: Vec<String> = (0..sets.len())
        .filter(|set| lost(*set) > 0)
        .map(|set| format!("{} of {}", lost(set), sets[set].name))
        .collect();
    if !lost.is_empty() {
        warnings.push(format!("cells that are missing from a set are left out: {}", lost.join(", ")));
    }
    warnings
}

/// Warns of runs that lack cells which other runs of their set have.
fn incomplete(set: &Collected, place: usize, tables: &[Table]) -> Vec<String> {
    let shared = || tables.iter().filter(|table| table.present() > 1);
    let mut short = Vec::new();
    for number in 0..set.runs.len() {
        let (mut lacking, mut all, mut left_out) = (0, 0, 0);
        for table in shared() {
            let Some(matrix) = &table.sets[place] else { continue };
            let Ok(row) = matrix.runs.binary_search(&number) else { continue };
            let cells = table.cells.len();
            let has = (0..cells).filter(|cell| matrix.has(row, *cell)).count();
            (lacking, all) = (lacking + cells - has, all + cells);
            left_out += usize::from((has as f64) < ENOUGH * cells as f64);
        }
        if lacking > 0 {
            let out = if left_out > 0 { format!(", left out of {left_out} estimates") } else { String::new() };
            short.push(format!("{} lacks {lacking} of {all} common cells{out}", set.named(number)));
        }
    }
    let used = |table: &Table| Complete::from_table(table, &(0..table.cells.len()).collect::<Vec<_>>()).columns.len();
    let (used, cells) = shared().fold((0, 0), |(u, c), table| (u + used(table), c + table.cells.len()));
    let because = format!("estimates rest on the {used} of {cells} cells that every other run has");
    (!short.is_empty()).then(|| format!("{}: {}: {because}", set.name, some(&short, NAMED))).into_iter().collect()
}

/// Returns the name of an operation with its metric.
fn label(key: &Key) -> String {
    format!("{} ({})", work(key), key.metric)
}

/// Returns the name of an operation without its metric.
fn work(key: &Key) -> String {
    let workload = key.workload.as_ref().map(|workload| format!("{workload}: ")).unwrap_or_default();
    format!("{workload}{}", key.operation)
}

fn is_same_work(one: &Key, other: &Key) -> bool {
    (&one.workload, &one.operation) == (&other.workload, &other.operation)
}

/// Warns of values that lasted only a few ticks of the tool's clock.
fn quantised(set: &Collected) -> Option<String> {
    let ticks = &set.ticks;
    (ticks.few > 0).then(|| {
        format!(
            "{}: {} of {} values lasted fewer than {FEW_TICKS} ticks of the clock ({}): quantised by more than 1 %",
            set.name,
            ticks.few,
            ticks.all,
            units::show_seconds(ticks.resolution)
        )
    })
}

fn gaps(set: &Collected) -> Vec<String> {
    let counted = GAPS.iter().zip(set.gaps).filter(|(_, count)| *count > 0);
    counted.map(|(why, count)| format!("{}: {count} places without a value: {}", set.name, why.words())).collect()
}

/// Returns the readers' warnings: equal texts once, with the files that they concern.
fn remarks(set: &Collected) -> Vec<String> {
    let shown = set.remarks.told.iter().map(|(text, places, all)| {
        let more = if *all > places.len() { format!(" and {} more", all - places.len()) } else { String::new() };
        format!("{}: {text}", places.join(", ") + &more)
    });
    let more = set.remarks.more();
    let rest = (more > 0).then(|| format!("{}: {more} more remarks on its files", set.name));
    shown.chain(rest).collect()
}

/// Returns the first items and the number of further ones.
fn some(items: &[String], most: usize) -> String {
    match items.len() {
        n if n <= most => items.join(", "),
        n => format!("{} and {} more", items[..most].join(", "), n - most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_no_options() {
        assert_eq!(options("/usr/bin/iozone -a -n 4k -f /mnt/test/f -b out.xls"), "-a -n 4k");
        assert_eq!(options("iozone -U /mnt -e"), "-e");
    }

    #[test]
    fn our_iozone_and_the_other_one_are_called_alike() {
        let all = ["iozone -a -g 64m", "/opt/bin/iozone -a -g 64m", "fsb iozone -a -g 64m", "./fsb iozone -a -g 64m"];
        assert!(all.iter().all(|command| options(command) == "-a -g 64m"), "{:?}", all.map(options));
        assert_eq!(options("fsb -a"), "-a");
    }

    #[test]
    fn long_lists_are_cut() {
        let items: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        assert_eq!(some(&items, 3), "0, 1, 2 and 2 more");
        assert_eq!(some(&items[..2], 3), "0, 1");
    }
}
