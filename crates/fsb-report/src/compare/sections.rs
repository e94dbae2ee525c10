//! The sections of a comparison's page.

use fsb_model::units::Bytes;
use fsb_stats::compare::{ALL, CellValue, Document, Finding, Slice};

use super::detail::{Fixed, SizeLine, by_file_size, by_record_size, by_run};
use super::operation::{OperationRow, Scale, Selection, SetStatistics, is_about};
use super::tables;
use super::tables::{AGAINST, POOLED};
use crate::chart;
use crate::page::block::{Block, Opening, Section};
use crate::page::table::{FigureGroup, FigureLine, Figures};
use crate::view::{Row, View};

/// The page folds findings beyond this number.
const FINDINGS: usize = 12;

/// Returns the sections between the overview and the method: findings, operations, fixed sizes, the surface, the sets.
pub(crate) fn of(selection: Selection<'_>, view: &View<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> = findings(view).into_iter().collect();
    sections.extend(view.rows.iter().enumerate().filter_map(|(place, row)| operation(view, row, place)));
    if selection.detail.is_some() {
        sections.extend(view.rows.iter().enumerate().flat_map(|(place, row)| halves(view, row, place)));
    }
    sections.extend(surfaces(view));
    sections.push(Section::new("sets", "Sets", vec![Block::table("sets", tables::sets(&selection.sets()))]));
    sections
}

/// Returns the charts over sizes of a run's matrix: a section for each operation, and the surface of all.
pub(crate) fn of_matrix(document: &Document) -> Vec<Section> {
    let view = super::view::of(Selection { document, detail: None });
    let of_row = |(place, row): (usize, &Row<'_>)| {
        let charts = chart::of_row(&view, row, place);
        (!charts.is_empty()).then(|| {
            let blocks = vec![Block::text("finding", &row.sentence), Block::ChartsAbreast(charts)];
            Section::new(&format!("sizes-{place}"), &format!("{}, by size", row.label), blocks)
        })
    };
    let mut sections: Vec<Section> = view.rows.iter().enumerate().filter_map(of_row).collect();
    sections.extend(surfaces(&view));
    sections
}

fn surfaces(view: &View<'_>) -> Option<Section> {
    let panels = Some(chart::panels(view)).filter(|panels| !panels.is_empty())?;
    Some(Section::new("surfaces", "Surface", vec![Block::Selectors, Block::Charts(panels)]))
}

/// Returns the opening of the overview.
pub(crate) fn opening(view: &View<'_>) -> Opening {
    Opening { columns: None, caption: tables::caption(view), total: None }
}

fn findings(view: &View<'_>) -> Option<Section> {
    let found = view.findings.as_ref()?;
    let (told, more) = found.split_at(found.len().min(FINDINGS));
    let note = "Regions of file size × record size where the runs agree that a set is faster or slower, the widest \
                first. The regions survived the search of all regions at 5 %. Their intervals are not widened for \
                this selection, so the difference of a small region may be overestimated.";
    let mut blocks = vec![Block::text("note", note), listed(told)];
    if !more.is_empty() {
        blocks.push(Block::Details { summary: format!("{} more", more.len()), blocks: vec![listed(more)] });
    }
    Some(Section::new("findings", "Findings", blocks))
}

fn listed(findings: &[&Finding]) -> Block {
    Block::Findings(findings.iter().map(|found| (found.faster, found.text.clone())).collect())
}

/// Returns the section of one operation.
fn operation(view: &View<'_>, row: &Row<'_>, place: usize) -> Option<Section> {
    let found = row.operation()?;
    let own: Vec<&Finding> =
        view.findings.iter().flatten().copied().filter(|finding| is_about(finding, found.operation)).collect();
    let mut blocks = vec![Block::text("finding", &row.sentence)];
    if found.operation.operation == ALL {
        let note = "All operations in one pool, as in the figure of 2011. The pool hides differences between \
                    operations: read those first.";
        blocks.push(Block::text("note", note));
    }
    if !own.is_empty() {
        blocks.push(listed(&own));
    }
    blocks.push(Block::table("judged", tables::judged(view, row, found)));
    blocks.extend(tables::pairs(view, found).map(|table| Block::table("pairs", table)));
    let charts = chart::of_row(view, row, place);
    if !charts.is_empty() {
        blocks.push(Block::ChartsAbreast(charts));
    }
    blocks.extend(tables::others(view, found).map(|table| Block::table("others", table)));
    blocks.extend(tables::latencies(view, found).map(|table| Block::table("latency", table)));
    blocks.extend(folded(view, row, found));
    Some(Section { id: format!("operation-{place}"), title: row.label.clone(), is_row: true, blocks })
}

/// Returns the folded blocks that few readers need: the verdict for every size, and the classic statistics of 2011.
fn folded(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>) -> Vec<Block> {
    let slices = [(&found.operation.by_file_size, "file size"), (&found.operation.by_record_size, "record size")];
    let judged = slices.iter().filter_map(|(slices, what)| tables::sizes(view, row, slices, what));
    let judged: Vec<Block> = judged.map(|table| Block::table("sizes", table)).collect();
    let note = "So that published tables stay comparable. The verdicts above are the better ones: a uniform \
                10\u{a0}% slowdown is invisible to a t-test on pooled mixtures of sizes.";
    let mut classic = vec![
        Block::text("note", note),
        Block::table("classic", tables::classic(view, found)),
        Block::Classic { compares: view.compares() },
    ];
    classic.extend(
        slices.iter().filter_map(|(slices, what)| classic_figures(view, found, slices, what)).map(Block::Figures),
    );
    let mut blocks = Vec::new();
    if !judged.is_empty() {
        let summary = "By file size and by record size, judged".to_owned();
        blocks.push(Block::Details { summary, blocks: judged });
    }
    blocks.push(Block::Details { summary: "Classic statistics (Beňas 2011)".to_owned(), blocks: classic });
    blocks
}

/// Returns the sections of one row in detail: every record size, then every file size.
fn halves(view: &View<'_>, row: &Row<'_>, place: usize) -> impl Iterator<Item = Section> {
    let halves = [("record", by_record_size(row, place, &view.names)), ("file", by_file_size(row, place, &view.names))];
    let half = |(what, all): (&str, Vec<Fixed<'_>>)| {
        let with_lines = all.iter().filter(|fixed| !fixed.lines.is_empty());
        let blocks: Vec<Block> = with_lines.flat_map(|fixed| one_size(view, fixed)).collect();
        (!blocks.is_empty()).then(|| Section {
            id: format!("fixed-{what}-{place}"),
            title: format!("{} by fixed {what} size", row.label),
            is_row: false,
            blocks,
        })
    };
    halves.into_iter().filter_map(half).collect::<Vec<_>>().into_iter()
}

fn one_size(view: &View<'_>, fixed: &Fixed<'_>) -> [Block; 3] {
    let charts = chart::of_size(view, fixed);
    [Block::Title(fixed.title.clone()), Block::Charts(charts), Block::Figures(values(view, fixed))]
}

/// Returns the statistics of 2011 by file size or by record size. Returns `None` if there is only one size.
pub(super) fn classic_figures(
    view: &View<'_>,
    row: &OperationRow<'_>,
    slices: &[Slice],
    size: &'static str,
) -> Option<Figures> {
    let scale = Scale::of([row.operation]);
    let group = |slice: &Slice| {
        let lines = view.names.iter().enumerate().filter_map(|(set, name)| {
            let found = SetStatistics::of_slice(slice, name);
            let pooled = found.pooled?;
            let own = POOLED.iter().map(|(_, of)| of(pooled, scale));
            let against = AGAINST.iter().map(|(_, of)| found.classic.map(of).unwrap_or_default());
            let against = against.take(if view.compares() { AGAINST.len() } else { 0 });
            Some(FigureLine { column: set, cells: own.chain(against).collect() })
        });
        FigureGroup { size: Bytes(slice.bytes).to_string(), lines: lines.collect() }
    };
    let own = POOLED.iter().map(|(name, _)| (*name).to_owned());
    let against =
        AGAINST.iter().map(|(name, _)| name.trim_end_matches("against").trim_end_matches([' ', ',']).to_owned());
    let against = against.take(if view.compares() { AGAINST.len() } else { 0 });
    (slices.len() > 1).then(|| Figures {
        caption: format!("Classic by {size}, in {}{}", scale.name, beside(view)),
        head: own.chain(against).collect(),
        size,
        groups: slices.iter().map(group).collect(),
        names: view.names.clone(),
    })
}

fn beside(view: &View<'_>) -> String {
    if view.compares() { format!("; the last columns against {}", view.baseline()) } else { String::new() }
}

/// Returns means, intervals and every value at one fixed size.
pub(super) fn values(view: &View<'_>, fixed: &Fixed<'_>) -> Figures {
    let scale = Scale::of([fixed.operation]);
    let all = || fixed.lines.iter().flat_map(|line| line.sets.iter().flatten());
    let runs = all().flat_map(|single| single.values.iter().map(|value| value.run + 1)).max().unwrap_or(0);
    let group = |line: &SizeLine<'_>| {
        let lines = line.sets.iter().enumerate().filter_map(|(set, single)| {
            let single = single.as_ref()?;
            let (lo, hi) =
                single.ci90.map_or((String::new(), String::new()), |[lo, hi]| (scale.show(lo), scale.show(hi)));
            let sd = single.sd.map(|sd| scale.show(sd)).unwrap_or_default();
            let described = [single.values.len().to_string(), scale.show(single.mean), sd, lo, hi];
            let value = |value: Option<&CellValue>| value.map(|value| scale.show(value.value)).unwrap_or_default();
            let values = by_run(single.values, runs).map(value);
            Some(FigureLine { column: set, cells: described.into_iter().chain(values).collect() })
        });
        FigureGroup { size: Bytes(line.bytes).to_string(), lines: lines.collect() }
    };
    let names = ["n", "mean", "sd", "90 % from", "to"].map(str::to_owned);
    Figures {
        caption: format!("{}: means, 90 % t-intervals and every value, in {}", fixed.title, scale.name),
        head: names.into_iter().chain((1..=runs).map(|run| format!("run {run}"))).collect(),
        size: fixed.varies,
        groups: fixed.lines.iter().map(group).collect(),
        names: view.names.clone(),
    }
}
