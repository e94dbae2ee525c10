//! A file cut anywhere gives values of the whole file, and no other.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use fsb_compat::TOOLS;
use fsb_model::set::Run;

use crate::{every_file, golden, shared};

type Key<'a> = (Option<&'a str>, &'a str, &'a str, Option<u64>, Option<u64>, u64, u32);

fn values(runs: &[Run]) -> HashSet<Key<'_>> {
    let mut values = HashSet::new();
    for series in runs.iter().flat_map(|run| &run.series) {
        let (workload, operation, metric) = (series.workload.as_deref(), &*series.operation, &*series.metric);
        values.extend(series.points.iter().map(|point| {
            (workload, operation, metric, point.file_size, point.record_size, point.value.to_bits(), point.line)
        }));
    }
    values
}

/// Cuts a file every `step` bytes.
fn cut(tool: &str, path: &Path, step: usize) {
    let content = fs::read(path).unwrap();
    let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
    let whole = (tool.read)(&mut &content[..]).unwrap();
    let whole = values(&whole);
    let mut most = 0;
    for end in (0..content.len()).step_by(step) {
        let Ok(runs) = (tool.read)(&mut &content[..end]) else { continue };
        let found = values(&runs);
        let strange: Vec<_> = found.difference(&whole).collect();
        assert!(strange.is_empty(), "{} cut at {end}: {strange:?}", path.display());
        most = most.max(found.len());
    }
    assert!(most > 0, "{}", path.display());
}

#[test]
fn a_cut_text_gives_no_value_that_the_whole_does_not() {
    let files = every_file().into_iter().filter(|(tool, path)| {
        *tool != "fio" && !path.to_string_lossy().contains("terse") && !path.to_string_lossy().contains("iozone-")
    });
    for (tool, path) in files {
        cut(tool, &path, 1);
    }
    for name in ["single", "throughput", "R-b"] {
        cut("iozone", &shared(&format!("tool-output/iozone-3.471-{name}.txt")), 1);
    }
    for name in
        ["tool-output/iozone-3.471-directio.txt", "tool-output/iozone-3.471-N.txt", "iozone-2010/xfs/xfs1.iozone"]
    {
        cut("iozone", &shared(name), 13);
    }
}

#[test]
fn a_cut_document_gives_no_value_that_the_whole_does_not() {
    cut("fio", &shared("tool-output/fio-3.33.json"), 17);
    cut("fio", &golden("fio/fio-3.33-groups.json"), 29);
}
