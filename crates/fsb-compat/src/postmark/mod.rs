//! PostMark 1.5x: its command language, its generator, its report.
//!
//! Its operations follow from the generator ([`Twister`]) and from the pool of [`fsb_model::postmark`]: `fsb postmark`
//! creates the same files as PostMark, byte by byte. The engine makes the calls.

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
