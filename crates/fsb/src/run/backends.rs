//! The demands of backends on this machine, checked before anything is changed.

use std::path::Path;

use fsb_engine::backend::{self, Backend};
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
    for target in &record.plan.targets {
        let Some(spec) = target.file_system() else {
            continue;
        };
        if spec.medium.name == "device" {
            for path in spec
                .medium
                .argument
                .as_deref()
                .unwrap_or_default()
                .split('+')
            {
                check_device(spec, Path::new(path), size, &parsed.cell.label)?;
            }
        }
    }
    Ok(())
}

/// Checks that records of `size` bytes are whole sectors of a device of a target.
fn check_device(spec: &FileSystemSpec, path: &Path, size: u64, label: &str) -> anyhow::Result<()> {
    let number = block::number_of(path);
    let directory = number.and_then(|number| number.directory(&Roots::default()));
    match directory.and_then(|directory| block::sector_bytes(&directory)) {
        Some(sector) if !size.is_multiple_of(sector) => Err(failure::advised(
            &code::INVALID_WORKLOAD,
            format!(
                "'{label}' cannot be measured on {}: direct I/O needs records of a multiple of {sector} \
                 bytes, the sectors of {}, and these have {size}",
                spec.fs,
                path.display()
            ),
            format!("use block_size={sector} or a multiple of it"),
        )),
        _ => Ok(()),
    }
}
