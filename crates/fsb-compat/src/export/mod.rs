//! Plans for other tools: what is needed to do with them what a plan does.
//!
//! An [`Exporter`] is a member of [`EXPORTERS`]: it turns a [`Request`] into the tool's own files and says which rows the tool
//! cannot do, and why. A new one is a file in the tool's folder and a line here. The script that makes, mounts and undoes
//! targets is the same for all of them.

pub(crate) mod exporter;
pub(crate) mod request;
pub(crate) mod script;

pub use exporter::{Export, ExportFile, Exporter};
pub use request::{Made, Piece, Request, Row, Source, TargetRecipe, UnitPiece};

pub static EXPORTERS: &[Exporter] = &[crate::fio::EXPORTER];
