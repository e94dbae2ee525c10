//! A comparison with kernels as tables show them.

use std::borrow::Cow;

use fsb_analysis::compare::{BySet, Classic, Document, Grid, Operation};

use crate::releases::Releases;

/// The same with as much of each kernel's release in names as tells the kernels apart, and what was shortened. For
/// people; programs get the names in full.
pub(crate) fn shortened(document: &Document) -> (Cow<'_, Document>, Releases) {
    let releases = Releases::of(document.sets.iter().map(|set| set.name.as_str()));
    if releases.is_empty() {
        return (Cow::Borrowed(document), releases);
    }
    let shorten = |text: &mut String| *text = releases.shorten(text);
    let mut document = document.clone();
    shorten(&mut document.baseline);
    document.sets.iter_mut().for_each(|set| shorten(&mut set.name));
    rename(&mut document.coverage.only, &releases);
    document.operations.iter_mut().for_each(|one| operation(one, &releases));
    for found in &mut document.findings {
        [&mut found.text, &mut found.baseline, &mut found.candidate].into_iter().for_each(shorten);
    }
    document.warnings.iter_mut().for_each(shorten);
    (Cow::Owned(document), releases)
}

fn operation(operation: &mut Operation, releases: &Releases) {
    classic(&mut operation.classic, releases);
    rename(&mut operation.estimate.against, releases);
    operation.grid.iter_mut().for_each(|one| grid(one, releases));
    for slice in operation.by_file_size.iter_mut().chain(&mut operation.by_record_size) {
        classic(&mut slice.classic, releases);
        grid(&mut slice.grid, releases);
    }
    for cell in &mut operation.cells {
        rename(&mut cell.means, releases);
        rename(&mut cell.values, releases);
        rename(&mut cell.against, releases);
    }
    rename(&mut operation.letters, releases);
    rename(&mut operation.latencies, releases);
}

fn classic(classic: &mut Classic, releases: &Releases) {
    rename(&mut classic.sets, releases);
    rename(&mut classic.against, releases);
}

fn grid(grid: &mut Grid, releases: &Releases) {
    rename(&mut grid.against, releases);
}

fn rename<T>(map: &mut BySet<T>, releases: &Releases) {
    *map = std::mem::take(map).into_iter().map(|(name, value)| (releases.shorten(&name), value)).collect();
}
