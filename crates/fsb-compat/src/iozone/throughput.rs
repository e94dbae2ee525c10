//! Throughput mode (`-t`): several processes or threads, one block of lines an operation.

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};

use super::names::operation;
use crate::draft::{CPU_UTILIZATION, Draft, Name, Position, rate, time};
use crate::error::ReadError;
use crate::lines::Line;
use crate::number::{fixed, split_unit, whole};

/// The text before the `=`, and the metrics of the number after it: in bytes and in operations per second.
#[rustfmt::skip] // a table reads as one
static LINES: &[(&str, MetricKind, MetricKind)] = &[
    ("Children see throughput for", THROUGHPUT, OPERATION_RATE),
    ("Parent sees throughput for", of("throughput_parent", Unit::BytesPerSecond), of("operation_rate_parent", Unit::OperationsPerSecond)),
    ("Min throughput per", of("throughput_min", Unit::BytesPerSecond), of("operation_rate_min", Unit::OperationsPerSecond)),
    ("Max throughput per", of("throughput_max", Unit::BytesPerSecond), of("operation_rate_max", Unit::OperationsPerSecond)),
    ("Avg throughput per", of("throughput_mean", Unit::BytesPerSecond), of("operation_rate_mean", Unit::OperationsPerSecond)),
];

const fn of(name: &'static str, unit: Unit) -> MetricKind {
    let about = "A rate of IOzone's throughput mode: as the parent sees it, or the least, most or mean of a process.";
    MetricKind { name, unit, better: Better::Higher, role: Role::Rate, about }
}

/// Throughput mode while it is read.
#[derive(Default)]
pub(super) struct Throughput {
    /// `throughput, 2 processes`.
    workload: String,
    place: Position,
    operation: Option<&'static str>,
}

impl Throughput {
    /// Takes a line of this mode. Returns whether it is one.
    pub fn take(&mut self, line: &Line, text: &str, draft: &mut Draft) -> Result<bool, ReadError> {
        if let Some(workers) = text.strip_prefix("Throughput test with ") {
            self.workload = format!("throughput, {}", workers.trim());
            return Ok(true);
        }
        if text.starts_with("Each ") && text.contains(" writes a ") {
            self.sizes(text);
            return Ok(true);
        }
        // IOzone writes the second word small for all operations but the first.
        if text.starts_with("CPU Utilization: Wall time") || text.starts_with("CPU utilization: Wall time") {
            self.cpu(line, text, draft)?;
            return Ok(true);
        }
        let Some((_, bytes, operations)) = LINES.iter().find(|(start, ..)| text.starts_with(start)) else {
            let known = ["Min xfer", "Child[", "Without the stonewall"];
            return Ok(known.iter().any(|start| text.starts_with(start)));
        };
        if !self.value(line, text, [bytes, operations], draft)? {
            draft.remark(line.number, format_args!("no line of throughput mode, left out: '{}'", line.excerpt()));
        }
        Ok(true)
    }

    /// Reads `Each process writes a 32768 kByte file in 64 kByte records`.
    fn sizes(&mut self, text: &str) {
        let mut sizes = text.split_whitespace().filter_map(|word| whole(word.as_bytes())?.checked_mul(1024));
        self.place =
            Position { file_size: sizes.next(), record_size: sizes.next().filter(|bytes| *bytes > 0), line: 0 };
    }

    /// Sets the number of processes from a block. IOzone announces only one number, even if several follow.
    fn count(&mut self, count: &str) {
        let (announced, names) = split_unit(self.workload.strip_prefix("throughput, ").unwrap_or_default());
        if announced == count {
            return;
        }
        let names = match (names.get(..6), count) {
            (None, _) => String::new(),
            (Some("thread"), "1") => " thread".to_owned(),
            (Some("thread"), _) => " threads".to_owned(),
            (Some(_), "1") => " process".to_owned(),
            (Some(_), _) => " processes".to_owned(),
        };
        self.workload = format!("throughput, {count}{names}");
    }

    /// Reads `Children see throughput for  2 initial writers = 4263913.00 kB/sec`.
    fn value(
        &mut self,
        line: &Line,
        text: &str,
        [bytes, operations]: [&MetricKind; 2],
        draft: &mut Draft,
    ) -> Result<bool, ReadError> {
        let Some((left, right)) = text.split_once('=') else { return Ok(false) };
        if let Some((_, what)) = left.split_once(" for ") {
            let what = what.trim();
            self.operation = operation(what.trim_start_matches(|c: char| c.is_ascii_digit()).trim());
            self.count(split_unit(what).0);
        }
        let (number, unit) = split_unit(right.trim());
        let (Some(operation), Some(number)) = (self.operation, fixed(number, 2..=2)) else { return Ok(false) };
        let (metric, value) = match unit {
            "kB/sec" | "KB/sec" | "Kbytes/sec" => (bytes, number.value * 1024.0),
            "ops/sec" => (operations, number.value),
            _ => return Ok(false),
        };
        if number.comma {
            draft.remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        let name = Name { workload: Some(&self.workload), operation };
        draft.add(name, metric, unit, Position { line: line.number, ..self.place }, rate(value))?;
        Ok(true)
    }

    /// Reads `CPU Utilization: Wall time    2.671    CPU time    1.974    CPU utilization  73.89 %`.
    fn cpu(&self, line: &Line, text: &str, draft: &mut Draft) -> Result<(), ReadError> {
        let percent =
            text.rsplit_once("CPU utilization").and_then(|(_, right)| fixed(split_unit(right.trim()).0, 2..=2));
        let (Some(operation), Some(percent)) = (self.operation, percent) else { return Ok(()) };
        let name = Name { workload: Some(&self.workload), operation };
        let place = Position { line: line.number, ..self.place };
        draft.add(name, &CPU_UTILIZATION, "%", place, time(percent.value / 100.0))
    }
}
