//! Plans for other tools: the files that make another tool run the cases of a plan.
//!
//! An [`Exporter`] is a member of [`EXPORTERS`]. It turns a [`Request`] into the tool's own files and names the cases
//! that the tool cannot run, with the reasons. A new exporter is a file in the tool's folder and a line here. All
//! exporters share the script that creates, mounts and removes targets.

pub(crate) mod exporter;
pub(crate) mod request;
pub(crate) mod script;

pub use exporter::{Export, ExportFile, Exporter};
pub use request::{ExportCase, Made, Piece, Request, Source, TargetRecipe, UnitPiece};

pub static EXPORTERS: &[Exporter] = &[crate::fio::EXPORTER];
