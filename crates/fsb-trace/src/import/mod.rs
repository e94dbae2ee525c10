//! Traces of other tools: a registry. A new one is a file beside this one and a line in [`REGISTRY`].
//!
//! These logs do not describe the files. The importers derive from the calls which files must have existed.

mod blkparse;
mod fio;
mod importer;
mod lines;
mod strace;
#[cfg(test)]
mod tests;

use crate::TraceError;
pub(crate) use importer::Any;
pub use importer::Read;
pub use importer::{Imported, Importer};

/// All importers. The first that recognizes a file reads it.
pub static REGISTRY: &[Importer] = &[strace::IMPORTER, fio::IMPORTER, blkparse::IMPORTER];

/// Bytes that decide which tool wrote a file.
pub const HEAD: usize = 4096;

/// Returns the importer of a file with this start.
///
/// # Errors
/// Fails if no importer recognizes it.
pub fn find(head: &[u8]) -> Result<&'static Importer, TraceError> {
    REGISTRY.iter().find(|importer| (importer.recognise)(head)).ok_or_else(|| {
        let known: Vec<String> =
            REGISTRY.iter().map(|importer| format!("{} ({})", importer.name, importer.about)).collect();
        TraceError::Unfit(format!("it is not a log of {}", known.join(", ")))
    })
}
