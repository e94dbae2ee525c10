//! The tables of explanations by traced samples.

use fsb_model::units::{show_bytes, show_count, show_seconds};

use crate::page::Block;
use crate::show::counted;
use crate::summary::traced::TracedExplanation;
use crate::summary::traced_work::PerOperation;
use crate::table::{Table, TableCell, TableRow};

/// Returns the tables of an explanation. Returns nothing if nothing was traced.
pub(super) fn blocks(found: &TracedExplanation) -> Vec<Block> {
    if found.causes.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![Block::table("traced", classes(found))];
    tables.extend(requests(found).map(|table| Block::table("traced", table)));
    let details = [kernel_threads(found), locks(found), frames(found)]
        .into_iter()
        .flatten();
    let details: Vec<Block> = details.map(|table| Block::table("traced", table)).collect();
    if !details.is_empty() {
        let title = format!(
            "{} and {}: threads of the kernel, locks and functions",
            found.candidate, found.baseline
        );
        tables.push(Block::Details {
            summary: title,
            blocks: details,
        });
    }
    tables
}

/// Returns a table whose first columns have these heads, and whose last ones are the baseline, the
/// candidate and their difference. Returns `None` without a line.
fn table(
    found: &TracedExplanation,
    caption: &str,
    heads: &[&str],
    rows: Vec<TableRow>,
) -> Option<Table> {
    let head = heads
        .iter()
        .copied()
        .chain([&*found.baseline, &*found.candidate, "Difference"]);
    (!rows.is_empty()).then(|| Table::new(caption, head, rows))
}

/// `+3.1 µs`.
fn signed(value: f64, show: fn(f64) -> String) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", show(value.abs()))
}

/// Returns the cells of the baseline, the candidate and their difference.
fn cells(value: PerOperation, show: fn(f64) -> String) -> [TableCell; 3] {
    [
        show(value.baseline),
        show(value.candidate),
        signed(value.difference(), show),
    ]
    .map(TableCell::new)
}

fn classes(found: &TracedExplanation) -> Table {
    let head = [
        "Class of time",
        &found.baseline,
        &found.candidate,
        "Difference",
    ];
    let caption = format!(
        "Time per operation by class, in {} of traced samples, with intervals that hold together",
        counted(found.blocks as usize, "block")
    );
    Table::new(
        caption,
        head,
        found
            .causes
            .iter()
            .map(|cause| {
                let both = PerOperation {
                    candidate: cause.candidate_seconds,
                    baseline: cause.baseline_seconds,
                };
                let [baseline, candidate, difference] = cells(both, show_seconds);
                let show = |seconds: f64| signed(seconds, show_seconds);
                let interval = cause
                    .interval
                    .map(|interval| format!("{} – {}", show(interval.lo), show(interval.hi)));
                let difference = difference.with_small(interval.unwrap_or_default());
                TableRow::new(cause.class.name(), vec![baseline, candidate, difference])
            })
            .collect(),
    )
}

/// Returns the table of requests and commits.
fn requests(found: &TracedExplanation) -> Option<Table> {
    let work = found.work.as_ref()?;
    let requests = work.requests.iter().map(|rate| {
        let each = |side: fn(PerOperation) -> f64| {
            let (count, bytes) = (side(rate.count), side(rate.bytes));
            // A flush has no bytes.
            let size = (bytes > 0.0).then(|| show_bytes(bytes / count));
            let time = (count > 0.0).then(|| show_seconds(side(rate.seconds) / count));
            size.into_iter().chain(time).collect::<Vec<_>>().join(", ")
        };
        let [baseline, candidate, difference] = cells(rate.count, show_count);
        let baseline = baseline.with_small(each(|both| both.baseline));
        let candidate = candidate.with_small(each(|both| both.candidate));
        TableRow::new(rate.kind.name(), vec![baseline, candidate, difference])
    });
    let commits = work
        .commits
        .iter()
        .map(|rate| TableRow::new(rate.kind.name(), cells(rate.count, show_count).into()));
    let rows = requests.chain(commits).collect();
    let caption = "Requests of the device and commits per operation, with the mean size of a request and the mean time from its \
                   issue to its completion";
    table(found, caption, &["Requests"], rows)
}

fn kernel_threads(found: &TracedExplanation) -> Option<Table> {
    let rows = found
        .work
        .as_ref()?
        .kernel_threads
        .iter()
        .map(|time| {
            let class = time.class.map_or("runs", |class| class.name());
            TableRow::new(
                format!("{}, {class}", time.kind.name()),
                cells(time.seconds, show_seconds).into(),
            )
        })
        .collect();
    let caption = "Time of the kernel's threads per operation, while they work";
    table(found, caption, &["Threads"], rows)
}

fn locks(found: &TracedExplanation) -> Option<Table> {
    let rows = found.work.as_ref()?.locks.iter().flatten().map(|lock| {
        let [baseline, candidate, difference] = cells(lock.seconds, show_seconds);
        let counted = |count: f64| format!("{} contended", show_count(count));
        let baseline = baseline.with_small(counted(lock.count.baseline));
        let candidate = candidate.with_small(counted(lock.count.candidate));
        let function = if lock.function.is_empty() {
            "–"
        } else {
            &lock.function
        };
        TableRow::new(
            function,
            vec![
                TableCell::new(lock.class.name()),
                baseline,
                candidate,
                difference,
            ],
        )
    });
    let rows = rows.collect();
    let caption = "Waits for contended locks per operation, asleep or spinning, by the function that requested the lock";
    table(found, caption, &["Requested by", "Class"], rows)
}

fn frames(found: &TracedExplanation) -> Option<Table> {
    let rows = found.work.as_ref()?.frames.iter().map(|frame| {
        let depth = [TableCell::new(frame.depth.to_string())];
        TableRow::new(
            &frame.name,
            depth
                .into_iter()
                .chain(cells(frame.seconds, show_seconds))
                .collect(),
        )
    });
    let rows = rows.collect();
    let caption = "Time per operation by function, with that of the functions that it called; depth 0 is a class of time";
    table(found, caption, &["Function", "Depth"], rows)
}
