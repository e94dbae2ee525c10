//! `-Q`: a file for each operation, with the offset, the time and the size of each record, appended as IOzone does.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use fsb_compat::iozone::sequence::Operation;
use fsb_engine::classic::PhaseResult;

use crate::result_owner;

/// Latency files that this run has begun.
#[derive(Default)]
pub struct LatencyFiles {
    begun: BTreeSet<String>,
}

/// Returns the suffix of IOzone's latency file for an operation, or `None` if IOzone writes no such file.
fn suffix(operation: Operation, together: bool) -> Option<&'static str> {
    match operation {
        Operation::Write => Some("wol.dat"),
        Operation::Rewrite => Some("rwol.dat"),
        Operation::Read => Some("rol.dat"),
        Operation::Reread => Some("rrol.dat"),
        Operation::Pwrite if together => Some("pwol.dat"),
        Operation::Pread if together => Some("prol.dat"),
        Operation::BackwardRead if together => Some("revol.dat"),
        _ => None,
    }
}

impl LatencyFiles {
    /// Appends the latencies of a pass, if `wanted`; `rank` is the number of its process if there are several.
    pub fn write(
        &mut self,
        operation: Operation,
        rank: Option<usize>,
        record: u64,
        result: &PhaseResult,
        wanted: bool,
    ) -> anyhow::Result<()> {
        let Some(suffix) = suffix(operation, rank.is_some()).filter(|_| wanted) else { return Ok(()) };
        let name = rank.map_or_else(|| suffix.to_owned(), |rank| format!("Child_{rank}_{suffix}"));
        self.append(&name, record, result).with_context(|| format!("cannot write {name}"))
    }

    fn append(&mut self, name: &str, record: u64, result: &PhaseResult) -> anyhow::Result<()> {
        let mut file = BufWriter::new(result_owner::append(Path::new(name))?);
        if self.begun.insert(name.to_owned()) {
            writeln!(file, "Offset in kBytes   Latency in microseconds  Transfer size in bytes")?;
        }
        for (offset, nanoseconds) in &result.latencies {
            let microseconds = *nanoseconds as f64 / 1e3;
            writeln!(file, "{:>10} {microseconds:>10.0} {record:>10}", offset / 1024)?;
        }
        let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
        writeln!(
            file,
            "\nSystem time {:>10.3} User time {:>10.3} Real {:>10.3}  (seconds)",
            seconds(result.system_nanoseconds),
            seconds(result.user_nanoseconds),
            seconds(result.wall_nanoseconds)
        )?;
        Ok(file.flush()?)
    }
}
