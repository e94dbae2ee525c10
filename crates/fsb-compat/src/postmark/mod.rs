//! PostMark 1.5x: its command language, its generator, its report.
//!
//! What its operations are follows from the generator ([`Twister`]) and from the pool of [`fsb_model::postmark`]; whoever
//! runs `fsb postmark` gets the very files of PostMark, byte by byte. Its calls are made elsewhere, by the engine.

mod commands;
pub mod print;
mod published;
mod reader;
mod settings;
mod source;
mod twister;

pub use commands::{Command, LANGUAGE_NEXT, parse};
pub use published::{BENAS, DORDEVIC, PublishedRate, benas, dordevic};
pub(crate) use reader::TOOL;
pub use settings::{Location, Settings, Style};
pub use source::{pool, source};
pub use twister::Twister;
