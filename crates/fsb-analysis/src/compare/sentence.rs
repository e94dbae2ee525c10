//! A finding in plain words.

use fsb_model::{Better, units};

use super::document::Finding;
use super::rectangle::Layout;

/// `ext4 is slower than xfs at write, files ≥ 1 MiB, records ≥ 8 KiB: −16 % (95 % CI −18…−14), 41 of 43 cells`; `how` are a
/// verdict's words. Labels of our own runs name what is done.
pub(super) fn sentence(finding: &Finding, how: &str, better: Better, layout: &Layout, ours: bool) -> String {
    let Finding { candidate, baseline, .. } = finding;
    let what = match &finding.workload {
        Some(workload) if ours || workload.contains(&finding.operation) => workload.clone(),
        Some(workload) => format!("{workload}: {}", finding.operation),
        None => finding.operation.replace('_', " "),
    };
    let sizes = [("files", &layout.files, finding.file_size), ("records", &layout.records, finding.record_size)];
    let sizes: String = sizes.iter().filter_map(|(name, all, ends)| range(name, all, (*ends)?)).collect();
    let time = if better == Better::Lower { "time " } else { "" };
    let cells = match finding.cells {
        1 => String::new(),
        cells => format!(", {} of {cells} cells", finding.agreeing),
    };
    let [lo, hi] = finding.ci95;
    let (center, lo, hi) = changes(finding.ratio, lo, hi);
    format!("{candidate} is {how} than {baseline} at {what}{sizes}: {time}{center} (95 % CI {lo}…{hi}){cells}")
}

/// `, files ≥ 1 MiB`; nothing where the range is everything there is.
fn range(name: &str, all: &[Option<u64>], [lo, hi]: [u64; 2]) -> Option<String> {
    let at = |end: Option<&Option<u64>>, size: u64| end == Some(&Some(size));
    match (at(all.first(), lo), at(all.last(), hi)) {
        (true, true) => None,
        _ if lo == hi => Some(format!(", {name} of {}", show(lo))),
        (false, true) => Some(format!(", {name} ≥ {}", show(lo))),
        (true, false) => Some(format!(", {name} ≤ {}", show(hi))),
        (false, false) => Some(format!(", {name} {}–{}", show(lo), show(hi))),
    }
}

/// A size that is a round number in its unit, as people write it: `64 KiB`.
fn show(size: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, bits)| size >= 1 << bits && size.trailing_zeros() >= *bits) {
        Some((unit, bits)) => format!("{} {unit}", size >> bits),
        None => format!("{size} B"),
    }
}

/// A ratio and its ends: as percentages up to tenfold, with a decimal where whole numbers would hide the width.
fn changes(ratio: f64, lo: f64, hi: f64) -> (String, String, String) {
    if !(0.1..10.0).contains(&ratio) {
        let factor = |ratio: f64| format!("×{}", units::three_digits(ratio));
        return (factor(ratio), factor(lo), factor(hi));
    }
    let decimals = usize::from(hi - lo < 0.02);
    let percent = |ratio: f64| format!("{:+.decimals$}", (ratio - 1.0) * 100.0).replace('-', "−");
    (format!("{} %", percent(ratio)), percent(lo), percent(hi))
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn changes_are_as_exact_as_their_interval() {
        let text = |ratio, lo, hi| {
            let (center, lo, hi) = changes(ratio, lo, hi);
            format!("{center} {lo}…{hi}")
        };
        assert_eq!(text(0.84, 0.82, 0.86), "−16 % −18…−14");
        assert_eq!(text(1.062, 1.058, 1.066), "+6.2 % +5.8…+6.6");
        assert_eq!(text(14.2, 13.0, 15.5), "×14.2 ×13.0…×15.5");
    }
}
