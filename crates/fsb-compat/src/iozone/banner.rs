//! Facts that IOzone prints about itself before and after its numbers.

use fsb_model::metric::{LATENCY_MEAN, MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::GapReason;

use crate::draft::{Draft, rate, time};
use crate::number::fixed;

/// The meaning of the numbers of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mode {
    pub quantity: Quantity,
    /// The unit as printed; `None` until IOzone has printed it.
    pub found_unit: Option<String>,
}

/// The quantity of a number in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Kilobytes (1024 bytes) a second.
    Kilobytes,
    /// `-O`: operations a second.
    Operations,
    /// `-N`: microseconds an operation.
    Microseconds,
}

impl Quantity {
    /// Returns the metric that the quantity is stored as.
    pub fn metric(self) -> &'static MetricKind {
        match self {
            Quantity::Kilobytes => &THROUGHPUT,
            Quantity::Operations => &OPERATION_RATE,
            Quantity::Microseconds => &LATENCY_MEAN,
        }
    }

    /// Returns the value to store.
    pub fn value(self, printed: f64) -> Result<f64, GapReason> {
        match self {
            Quantity::Kilobytes => rate(printed * 1024.0),
            Quantity::Operations => rate(printed),
            Quantity::Microseconds => time(printed / 1e6),
        }
    }
}

impl Default for Mode {
    fn default() -> Self {
        Mode { quantity: Quantity::Kilobytes, found_unit: None }
    }
}

/// Takes the facts that a line states about the run. Returns whether there were any.
pub(super) fn take(line: u32, text: &str, draft: &mut Draft, mode: &mut Mode) -> bool {
    if let Some(version) = text.strip_prefix("Version $Revision:") {
        draft.run.version = Some(version.trim_matches([' ', '$']).to_owned());
    } else if let Some(command) = text.strip_prefix("Command line used:") {
        draft.run.command = Some(command.trim().to_owned());
    } else if let Some((_, unit)) = text.split_once("Output is in ") {
        mode.found_unit = Some(unit.trim_end_matches(['.', ' ']).to_owned());
        mode.quantity = match unit.bytes().next() {
            Some(b'o' | b'O') => Quantity::Operations,
            Some(b'm' | b'M') => Quantity::Microseconds,
            _ => Quantity::Kilobytes,
        };
    } else if let Some(seconds) = text.strip_prefix("Time Resolution = ") {
        let number = seconds.split_whitespace().next().and_then(|text| fixed(text, 6..=6));
        draft.run.clock_resolution = number.map(|number| number.value).filter(|seconds| *seconds > 0.0);
    } else {
        return notice(line, text, draft);
    }
    true
}

/// Adds remarks for IOzone's own warnings about its numbers. Returns whether the line belongs to them.
fn notice(line: u32, text: &str, draft: &mut Draft) -> bool {
    if text.starts_with("Timer resolution is poor") {
        return true; // the next line says for which sizes
    }
    if let Some(sizes) = text.strip_prefix("reported inaccurate results. Sizes ") {
        let text = format!("IOzone: timer resolution is poor; transfers may be inaccurate for record sizes of {sizes}");
        draft.remark(line, text);
    } else if text.starts_with("iozone: interrupted") {
        draft.remark(line, "IOzone was interrupted");
    } else if text.contains("measurements are invalid in this mode") || text.contains("Results are NOT valid") {
        draft.remark(line, format_args!("IOzone: {text}"));
    } else {
        return text.starts_with("exiting iozone");
    }
    true
}
