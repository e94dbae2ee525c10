//! Chooses the published results to show beside a run, by the workloads of the run, not by the name
//! of its plan.

use std::collections::BTreeSet;

use fsb_compat::pokorny::{self, RateTable};
use fsb_compat::{fedorchuk, horvath, postmark};
use fsb_model::metric;
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Cell, RunRecord, Unit};
use fsb_report::summary::{
    PublishedFigure, PublishedLayout, PublishedRate, PublishedSum, PublishedTable, PublishedValue,
};
use fsb_runner::suite;
use fsb_testbed::control::memory_limit::{MEMORY_LIMIT, limit_of};

/// A published file system: its name in the registry, its mount options, and whether it was on an
/// array.
struct Configuration {
    fs: String,
    options: Vec<String>,
    is_on_array: bool,
}

impl Configuration {
    /// Parses `ext3-writeback`: a file system, and a mode of its journal if there is one.
    fn from_name(name: &str) -> Configuration {
        let (fs, mode) = name.split_once('-').unwrap_or((name, ""));
        let options = match mode {
            "" => Vec::new(),
            mode => vec![format!("data={mode}")],
        };
        Configuration {
            fs: fs.to_owned(),
            options,
            is_on_array: false,
        }
    }

    /// Returns the name of the first target of the run with these options and no others.
    fn target(&self, record: &RunRecord) -> Option<String> {
        /// The mode of a journal without an option.
        const DEFAULT: &str = "data=ordered";
        for target in &record.plan.targets {
            let Some(spec) = target.file_system() else {
                continue;
            };
            let is_on_array = spec.medium.name.starts_with("raid");
            let has_options = spec.options == self.options
                || spec.options.is_empty() && self.options == [DEFAULT];
            let is_plain = spec.mkfs.is_empty() && spec.tune.is_empty() && spec.journal.is_none();
            if spec.fs == self.fs && has_options && is_plain && is_on_array == self.is_on_array {
                return Some(target.name.clone());
            }
        }
        None
    }
}

/// Returns the published table about workloads of the run, with the targets that are its file
/// systems and with its figures, if there is one.
pub fn beside(record: &RunRecord) -> Option<PublishedTable> {
    let mut table = table_beside(record)?;
    let names: BTreeSet<&String> = table.rows.iter().map(|row| &row.target).collect();
    let mut counterparts = Vec::new();
    for name in names {
        let configuration = match table.layout {
            PublishedLayout::Configurations => {
                let (fs, options, is_on_array) = fedorchuk::configuration(name);
                Configuration {
                    fs,
                    options,
                    is_on_array,
                }
            }
            PublishedLayout::Tests | PublishedLayout::Rates => Configuration::from_name(name),
        };
        if let Some(target) = configuration.target(record) {
            counterparts.push((name.clone(), target));
        }
    }
    table.counterparts = counterparts;
    for figure in &mut table.figures {
        figure.targets = targets_of(record, &table.counterparts, figure);
    }
    Some(table)
}

/// Returns the targets that a figure shows. A figure of some configurations shows their targets;
/// one without a list shows all.
fn targets_of(
    record: &RunRecord,
    counterparts: &[(String, String)],
    figure: &PublishedFigure,
) -> Vec<String> {
    if !figure.targets.is_empty() {
        let mut targets = Vec::new();
        for (name, target) in counterparts {
            if figure.targets.contains(name) {
                targets.push(target.clone());
            }
        }
        return targets;
    }
    let targets = &record.plan.targets;
    targets.iter().map(|target| target.name.clone()).collect()
}

/// Returns one figure for each group of rows, in their order.
fn figures(
    rows: &[PublishedValue],
    title: impl Fn(&PublishedValue) -> String,
) -> Vec<PublishedFigure> {
    let mut figures: Vec<PublishedFigure> = Vec::new();
    for row in rows {
        let title = title(row);
        let place = figures.iter().position(|known| known.title == title);
        let place = place.unwrap_or_else(|| {
            figures.push(PublishedFigure {
                title,
                ..PublishedFigure::default()
            });
            figures.len() - 1
        });
        let figure = &mut figures[place];
        if !figure.rows.contains(&row.row) {
            figure.rows.push(row.row.clone());
        }
        if !figure.file_systems.contains(&row.target) {
            figure.file_systems.push(row.target.clone());
        }
    }
    figures
}

/// Returns the published table about workloads of the run. Workloads of the run that were not
/// published have no row.
fn table_beside(record: &RunRecord) -> Option<PublishedTable> {
    let tables = [
        ("micro-", micro()),
        ("postmark", dordevic()),
        ("postmark", benas()),
        ("filetree", trees()),
    ];
    for (workload, table) in tables {
        let fits = record.cells.iter().any(|cell| {
            cell.workload.name.starts_with(workload)
                && table.rows.iter().any(|row| row.workload == cell.label)
        });
        if fits {
            return Some(table);
        }
    }
    horvath(record)
}

/// Returns IOzone's operations of 2006. Their labels hold the file size, which depends on memory,
/// so the operations are known by their workloads, their record size, and the states of cache and
/// device that the suite asks for. The plan also asks for reads that are repeated out of cache. The
/// note names the operations that the run measured in another state. Returns `None` for other runs.
pub(crate) fn horvath(record: &RunRecord) -> Option<PublishedTable> {
    let known = suite::find("horvath-2006").ok()?.workloads;
    let operations: BTreeSet<&str> = known.iter().map(|known| known.name.as_str()).collect();
    let is_matrix = |cell: &Cell| {
        operations.contains(cell.workload.name.as_str())
            && cell.label.contains(" 128K, ")
            && cell.workload.params.get("matrix") == Some(&true.into())
    };
    if record.cells.is_empty() || !record.cells.iter().all(is_matrix) {
        return None;
    }
    let (mut rows, mut withheld) = (Vec::new(), BTreeSet::new());
    let mut is_from_memory = false;
    for rate in horvath::published() {
        let named: Vec<&Cell> = record
            .cells
            .iter()
            .filter(|cell| cell.workload.name == rate.workload)
            .collect();
        let Some(cell) = named.iter().copied().find(|cell| is_in_state(cell, &known)) else {
            withheld.extend(named.first().map(|_| rate.workload));
            continue;
        };
        let is_held = rate.workload == "reread" && is_held(cell, memory(record));
        is_from_memory |= is_held;
        rows.push(PublishedValue {
            row: rate.operation,
            workload: cell.label.clone(),
            metric: None,
            unit: Unit::BytesPerSecond,
            target: rate.file_system,
            value: rate.value,
            rate: None,
            here: is_held.then(|| "from memory".to_owned()),
        });
    }
    if rows.is_empty() {
        return None;
    }
    let note = horvath_note(record, is_from_memory, withheld);
    let figures = figures(&rows, |_| "Table 1".to_owned());
    Some(PublishedTable {
        title: horvath::TITLE.0.to_owned(),
        note,
        first: true,
        layout: PublishedLayout::Tests,
        rows,
        figures,
        ..PublishedTable::default()
    })
}

/// Returns whether a cell has the states of cache and device that the suite asks for.
fn is_in_state(cell: &Cell, known: &[fsb_model::WorkloadSpec]) -> bool {
    let Some(asked) = known.iter().find(|known| known.name == cell.workload.name) else {
        return false;
    };
    ["cache", "durability"].iter().all(|key| {
        let asked = asked.params.get(*key);
        let asked = asked.filter(|asked| **asked != CacheState::Any.name());
        asked.is_none_or(|asked| cell.workload.params.get(*key) == Some(asked))
    })
}

/// Returns the note below the table of 2006. `withheld` names the operations that the run measured
/// in another state.
fn horvath_note(record: &RunRecord, is_from_memory: bool, withheld: BTreeSet<&str>) -> String {
    let (_, note) = horvath::TITLE;
    let reread = match is_from_memory {
        true => format!(
            " The {} of memory hold the file here, so reread measures memory, and his measured the disk: do not \
             compare that row.",
            show_bytes(memory(record) as f64)
        ),
        false => String::new(),
    };
    let others: Vec<&str> = withheld.into_iter().collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(
            " Not in the table: {}, which this run measured in another state of cache or device.",
            others.join(", ")
        ),
    };
    format!("{note}{reread}{others}")
}

/// Returns the bytes of memory that the run could use: the limit, that of the virtual machine, or
/// that of the machine.
fn memory(record: &RunRecord) -> u64 {
    let whole = record
        .vm
        .as_ref()
        .map_or(record.host.memory_bytes, |vm| vm.memory_bytes);
    let limit = record
        .plan
        .controls
        .get(MEMORY_LIMIT)
        .and_then(|value| limit_of(value));
    limit.map_or(whole, |limit| limit.min(whole))
}

/// Returns whether memory holds the file of a cell. A trial out of cache is checked, so it is not
/// valid then.
fn is_held(cell: &Cell, memory: u64) -> bool {
    let params = &cell.workload.params;
    let is_out = params
        .get("cache")
        .is_some_and(|cache| *cache == CacheState::Out.name());
    let file = params.get("file_size").and_then(serde_json::Value::as_u64);
    !is_out && file.is_some_and(|file| file < memory)
}

/// Returns the results of the 2023 suite.
fn micro() -> PublishedTable {
    /// The bytes that an iteration reads or writes.
    const MOVED: f64 = (8 << 20) as f64;
    let values = pokorny::appendix_c().into_iter().map(|mean| {
        let (group, unit, amount) = match mean.test.table {
            RateTable::Created => ("Table 6.1", Unit::OperationsPerSecond, 1000.0),
            RateTable::Read => ("Table 6.2", Unit::BytesPerSecond, MOVED),
            RateTable::Written => ("Table 6.3", Unit::BytesPerSecond, MOVED),
        };
        PublishedValue {
            row: mean.test.label.to_owned(),
            workload: mean.test.label.to_owned(),
            metric: None,
            unit,
            target: mean.file_system.to_owned(),
            value: amount / mean.seconds,
            rate: Some(PublishedRate {
                group: group.to_owned(),
                amount,
                printed: mean.printed,
            }),
            here: None,
        }
    });
    let rows: Vec<PublishedValue> = values.collect();
    PublishedTable {
        title: pokorny::TITLE.to_owned(),
        note: pokorny::NOTE.to_owned(),
        first: true,
        layout: PublishedLayout::Rates,
        figures: figures(&rows, |row| match &row.rate {
            Some(rate) => rate.group.replace("Table", "Figure"),
            None => String::new(),
        }),
        rows,
        ..PublishedTable::default()
    }
}

fn dordevic() -> PublishedTable {
    let table = of_postmark(postmark::DORDEVIC, postmark::dordevic());
    // Figure 1 is of test 1, which the labels of the workloads begin with.
    let figures = figures(&table.rows, |row| {
        let test = row.workload.split(':').next().unwrap_or_default();
        test.replace("test", "Figure")
    });
    PublishedTable { figures, ..table }
}

fn benas() -> PublishedTable {
    let table = of_postmark(postmark::BENAS, postmark::benas());
    let figures = figures(&table.rows, |row| match row.unit {
        Unit::BytesPerSecond => "Section 5.4, bytes".to_owned(),
        _ => "Section 5.4, files".to_owned(),
    });
    PublishedTable { figures, ..table }
}

fn of_postmark((title, note): (&str, &str), rates: Vec<postmark::PublishedRate>) -> PublishedTable {
    let mut rows = Vec::new();
    for rate in rates {
        let Some(kind) = metric::find(rate.metric) else {
            continue;
        };
        rows.push(PublishedValue {
            row: format!("{}{}", rate.test, rate.operation),
            workload: rate.workload.to_owned(),
            metric: Some(kind.name.to_owned()),
            unit: kind.unit,
            target: rate.file_system,
            value: rate.value,
            rate: None,
            here: None,
        });
    }
    PublishedTable {
        title: title.to_owned(),
        note: note.to_owned(),
        first: true,
        layout: PublishedLayout::Tests,
        rows,
        ..PublishedTable::default()
    }
}

/// Returns the results of 2008 for copying and deleting, whose rows are configurations.
fn trees() -> PublishedTable {
    let mut rows = Vec::new();
    for time in fedorchuk::published() {
        rows.push(PublishedValue {
            row: time.workload.clone(),
            workload: time.workload,
            metric: None,
            unit: Unit::Seconds,
            target: time.configuration,
            value: time.seconds,
            rate: None,
            here: None,
        });
    }
    let (title, note) = fedorchuk::TITLE;
    let figures = fedorchuk::figures()
        .into_iter()
        .map(|figure| PublishedFigure {
            title: figure.title,
            rows: figure.workloads,
            targets: figure.targets,
            file_systems: figure.configurations,
        });
    PublishedTable {
        title: title.to_owned(),
        note: note.to_owned(),
        first: true,
        layout: PublishedLayout::Configurations,
        figures: figures.collect(),
        rows,
        sums: vec![PublishedSum {
            row: fedorchuk::SUM.to_owned(),
            after: fedorchuk::ALL.to_owned(),
            parts: fedorchuk::PARTS.map(str::to_owned).into(),
        }],
        ..PublishedTable::default()
    }
}
