//! The demands of backends on this machine, checked before anything is changed.

use std::path::Path;

use fsb_engine::backend::{self, Backend};
use fsb_model::target::Target;
use fsb_model::{FileSystemSpec, RunRecord, code, failure};
use fsb_runner::work::{ParsedCell, Work};
use fsb_sys::{Roots, block};
use serde_json::Value;

/// Checks the interfaces of the kernel that the workloads use, and the sizes of their direct I/O.
pub fn check(record: &RunRecord, work: &Work) -> anyhow::Result<()> {
    for parsed in &work.cells {
        let Some(backend) = backend_of(parsed) else {
            continue;
        };
        check_available(backend, &parsed.cell.label)?;
        if backend.capabilities().direct {
            check_sectors(record, parsed)?;
        }
    }
    Ok(())
}

fn backend_of(parsed: &ParsedCell) -> Option<&'static dyn Backend> {
    let name = parsed
        .cell
        .workload
        .params
        .get("backend")
        .and_then(Value::as_str)?;
    backend::find(name).ok()
}

/// Checks that this process may use a backend.
pub fn check_available(backend: &dyn Backend, label: &str) -> anyhow::Result<()> {
    backend::check_available(backend).map_err(|error| {
        failure::error(
            &fsb_model::error::UNABLE,
            format!("'{label}' cannot be measured: {error}"),
        )
    })
}

/// Checks that the records of direct I/O are whole sectors of the devices of all targets.
fn check_sectors(record: &RunRecord, parsed: &ParsedCell) -> anyhow::Result<()> {
    let size = parsed.profile.record_size;
    let specs = record.plan.targets.iter().filter_map(Target::file_system);
    for (spec, path) in specs.flat_map(|spec| devices(spec).map(move |path| (spec, path))) {
        let sector = block::number_of(path)
            .and_then(|number| number.directory(&Roots::default()))
            .and_then(|directory| block::sector_bytes(&directory));
        let Some(sector) = sector.filter(|sector| !size.is_multiple_of(*sector)) else {
            continue;
        };
        return Err(failure::advised(
            &code::INVALID_WORKLOAD,
            format!(
                "'{}' cannot be measured on {}: direct I/O needs records of a multiple of {sector} \
                 bytes, the sectors of {}, and these have {size}",
                parsed.cell.label,
                spec.fs,
                path.display()
            ),
            format!("use block_size={sector} or a multiple of it"),
        ));
    }
    Ok(())
}

/// Returns the block devices of a file system.
fn devices(spec: &FileSystemSpec) -> impl Iterator<Item = &Path> {
    let argument = spec
        .medium
        .argument
        .iter()
        .filter(|_| spec.medium.name == "device");
    argument.flat_map(|argument| argument.split('+').map(Path::new))
}
