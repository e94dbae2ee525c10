//! Chooses the published results to show beside a run, by the workloads of the run, not by the name of its plan.

use fsb_compat::pokorny::RateTable;
use fsb_compat::{fedorchuk, horvath, pokorny, postmark};
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Cell, RunRecord, Unit, metric};
use fsb_report::run::{PublishedLayout, PublishedRate, PublishedSum, PublishedTable, PublishedValue};
use fsb_runner::suite;
use fsb_testbed::control::memory_limit::{MEMORY_LIMIT, limit_of};

/// Returns the published table whose workloads are those of the run, if there is one.
pub fn beside(record: &RunRecord) -> Option<PublishedTable> {
    let tables = [("micro-", micro()), ("postmark", dordevic()), ("postmark", benas()), ("filetree", trees())];
    let fits = |(workload, table): &(&str, PublishedTable)| {
        let known = |label: &str| table.rows.iter().any(|row| row.workload == label);
        let cells = &record.cells;
        !cells.is_empty() && cells.iter().all(|cell| cell.workload.name.starts_with(workload) && known(&cell.label))
    };
    tables.into_iter().find(fits).map(|(_, table)| table).or_else(|| horvath(record))
}

/// Returns IOzone's operations of 2006. Their labels hold the file size, which depends on memory, so the suite is known
/// by its workloads, its record size, and the states of cache and device that it asks for. The plan also asks for reads
/// that are repeated out of cache.
fn horvath(record: &RunRecord) -> Option<PublishedTable> {
    let cells = &record.cells;
    let known = suite::find("horvath-2006").ok()?.workloads;
    let cell = |workload: &str| {
        let asked = known.iter().find(|known| known.name == workload)?;
        let is_asked = |cell: &&Cell| {
            let same = |key: &str| {
                let asked = asked.params.get(key).filter(|asked| *asked != CacheState::Any.name());
                asked.is_none_or(|asked| cell.workload.params.get(key) == Some(asked))
            };
            cell.workload.name == workload && cell.label.contains(" 128K, ") && same("cache") && same("durability")
        };
        cells.iter().find(is_asked)
    };
    if cells.len() != known.len() || known.iter().any(|workload| cell(&workload.name).is_none()) {
        return None;
    }
    let from_memory = cell("reread").is_some_and(|cell| is_held(cell, memory(record)));
    let value = |rate: horvath::PublishedRate| {
        let is_cached = from_memory && rate.workload == "reread";
        let row = if is_cached { format!("{}, from memory", rate.operation) } else { rate.operation };
        Some(PublishedValue {
            row,
            workload: cell(rate.workload)?.label.clone(),
            metric: None,
            unit: Unit::BytesPerSecond,
            target: rate.file_system,
            value: rate.value,
            rate: None,
        })
    };
    let (title, note) = horvath::TITLE;
    let reread = match from_memory {
        true => format!(
            "The {} of memory hold the file here, so reread measures memory, and his measured the disk: do not compare \
             that row.",
            show_bytes(memory(record) as f64)
        ),
        false => "Memory does not hold the file, so reread reads the device, as his did.".to_owned(),
    };
    Some(PublishedTable {
        title: title.to_owned(),
        note: format!("{note} {reread}"),
        first: true,
        layout: PublishedLayout::Tests,
        rows: horvath::published().into_iter().filter_map(value).collect(),
        sums: Vec::new(),
    })
}

/// Returns the bytes of memory that the run could use: the limit, that of the virtual machine, or that of the machine.
fn memory(record: &RunRecord) -> u64 {
    let whole = record.vm.as_ref().map_or(record.host.memory_bytes, |vm| vm.memory_bytes);
    let limit = record.plan.controls.get(MEMORY_LIMIT).and_then(|value| limit_of(value));
    limit.map_or(whole, |limit| limit.min(whole))
}

/// Returns whether memory holds the file of a cell. A trial out of cache is checked, so it is not valid then.
fn is_held(cell: &Cell, memory: u64) -> bool {
    let params = &cell.workload.params;
    let is_out = params.get("cache").is_some_and(|cache| *cache == CacheState::Out.name());
    let file = params.get("file_size").and_then(serde_json::Value::as_u64);
    !is_out && file.is_some_and(|file| file < memory)
}

/// Returns the results of the 2023 suite.
fn micro() -> PublishedTable {
    /// The bytes that an iteration reads or writes.
    const MOVED: f64 = (8 << 20) as f64;
    let value = |mean: pokorny::PublishedMean| {
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
            rate: Some(PublishedRate { group: group.to_owned(), amount, printed: mean.printed }),
        }
    };
    PublishedTable {
        title: pokorny::TITLE.to_owned(),
        note: pokorny::NOTE.to_owned(),
        first: true,
        layout: PublishedLayout::Rates,
        rows: pokorny::appendix_c().into_iter().map(value).collect(),
        sums: Vec::new(),
    }
}

fn dordevic() -> PublishedTable {
    of_postmark(postmark::DORDEVIC, postmark::dordevic())
}

fn benas() -> PublishedTable {
    of_postmark(postmark::BENAS, postmark::benas())
}

fn of_postmark((title, note): (&str, &str), rates: Vec<postmark::PublishedRate>) -> PublishedTable {
    let value = |rate: postmark::PublishedRate| {
        let kind = metric::find(rate.metric)?;
        let row = format!("{}{}", rate.test, rate.operation);
        let (workload, metric) = (rate.workload.to_owned(), Some(kind.name.to_owned()));
        Some(PublishedValue {
            row,
            workload,
            metric,
            unit: kind.unit,
            target: rate.file_system,
            value: rate.value,
            rate: None,
        })
    };
    let rows = rates.into_iter().filter_map(value).collect();
    let (title, note) = (title.to_owned(), note.to_owned());
    PublishedTable { title, note, first: true, layout: PublishedLayout::Tests, rows, sums: Vec::new() }
}

/// Returns the results of 2008 for copying and deleting, whose rows are configurations.
fn trees() -> PublishedTable {
    let value = |time: fedorchuk::PublishedTime| PublishedValue {
        row: time.workload.clone(),
        workload: time.workload,
        metric: None,
        unit: Unit::Seconds,
        target: time.configuration,
        value: time.seconds,
        rate: None,
    };
    let (title, note) = fedorchuk::TITLE;
    PublishedTable {
        title: title.to_owned(),
        note: note.to_owned(),
        first: true,
        layout: PublishedLayout::Configurations,
        rows: fedorchuk::published().into_iter().map(value).collect(),
        sums: vec![PublishedSum {
            row: fedorchuk::SUM.to_owned(),
            after: fedorchuk::ALL.to_owned(),
            parts: fedorchuk::PARTS.map(str::to_owned).into(),
        }],
    }
}
