//! IOzone 3.327 to 3.5xx: automatic mode and its subsets, one size, `-R`, throughput mode, `-N`, `-O`, `-+u`.

mod banner;
mod catalogue;
mod conflicts;
mod excel;
mod layout;
mod names;
pub mod options;
mod parse;
pub mod print;
mod reader;
pub mod sequence;
mod sheet;
mod table;
mod test;
mod throughput;

use std::io::BufRead;

use fsb_model::set::Run;

use crate::error::ReadError;
use crate::lines::holds;
use crate::tool::Tool;

pub use names::operation;
pub use options::{Options, OptionsError};
pub use parse::{Request, parse};
pub use sheet::{SheetError, table_sheet, throughput_sheet};
pub use test::{Test, TestSet};

/// Reads IOzone's text output.
pub(crate) const TOOL: Tool = Tool {
    name: reader::NAME,
    about: "text output of 3.327 to 3.5xx: automatic mode, one size, -R, -t, -N, -O, -+u",
    looks_for: "its banner, the heading 'kB reclen write', or a report of -R",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, b"Iozone: Performance Test")
        || holds(head, b"Children see throughput for")
        || head
            .split(|byte| *byte == b'\n')
            .any(|line| layout::Layout::of_heading(line).is_some() || excel::title(line.trim_ascii()).is_some())
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    reader::read(input)
}
