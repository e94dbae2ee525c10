//! The registries: tools whose results can be read, and tools that plans can be exported to.

use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use fsb_model::set::Run;
use fsb_store::input::{Bounded, LARGEST_RESULT, too_large};

use crate::export::Exporter;
use crate::identify::{FileKind, kind_of_input};
use crate::tool::{Problem, ReadError, Tool};
use crate::{bonnie, filebench, fio, io500, ior, iozone, mdtest, phoronix, postmark, sysbench};

/// Bytes at the start of a file that decide which tool wrote it.
const HEAD: usize = 64 * 1024;

/// Every tool. The first that recognizes a file reads it.
pub static TOOLS: &[Tool] = &[
    iozone::TOOL,
    fio::TOOL,
    bonnie::TOOL,
    postmark::TOOL,
    filebench::TOOL,
    phoronix::TOOL,
    sysbench::TOOL,
    ior::TOOL,
    mdtest::TOOL,
    io500::TOOL,
];

/// Every tool that plans can be exported to.
pub static EXPORTERS: &[Exporter] = &[fio::EXPORTER];

/// Reads the results in a file, or in a pipe of the shell, of any known tool: one run for each execution in it, each
/// with the path as given.
///
/// # Errors
/// [`ReadError`] names the file and the tools that were tried.
pub fn read_file(path: &Path) -> Result<Vec<Run>, ReadError> {
    let mut runs = read_path(path).map_err(|error| error.at(path))?;
    for run in &mut runs {
        run.path = path.to_string_lossy().into_owned();
    }
    Ok(runs)
}

fn read_path(path: &Path) -> Result<Vec<Run>, ReadError> {
    let mut file = fsb_store::input::open_or_pipe(path)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD as u64).read_to_end(&mut head)?;
    let tool = recognise(&head)?;
    if head.len() < HEAD {
        // It has been read already. Asking the kernel for more would cost another call per file.
        return (tool.read)(&mut Cursor::new(head));
    }
    // A sparse file of a terabyte would take its time before its end was found.
    if file.metadata()?.len() > LARGEST_RESULT {
        return Err(too_large(LARGEST_RESULT).into());
    }
    let whole = Bounded::new(Cursor::new(head).chain(file), LARGEST_RESULT);
    (tool.read)(&mut BufReader::with_capacity(HEAD, whole))
}

/// Returns the kind of a file with this start: the output of a tool, or the input of a command of fsb.
pub fn identify(head: &[u8]) -> Option<FileKind> {
    let tool = TOOLS.iter().find(|tool| (tool.recognise)(head));
    tool.map(|tool| FileKind::of_results(tool.name)).or_else(|| kind_of_input(head))
}

/// Returns the kind of a file as [`identify`] does. Returns `None` also if the file cannot be read.
pub fn identify_file(path: &Path) -> Option<FileKind> {
    let mut head = Vec::new();
    fsb_store::input::open(path).ok()?.take(HEAD as u64).read_to_end(&mut head).ok()?;
    identify(&head)
}

/// Returns the tool that wrote a file with this start.
fn recognise(head: &[u8]) -> Result<&'static Tool, Problem> {
    if head.is_empty() {
        return Err(Problem::Empty);
    }
    if let Some(tool) = TOOLS.iter().find(|tool| (tool.recognise)(head)) {
        return Ok(tool);
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(Problem::Utf16);
    }
    let kind = if head.contains(&0) { "binary data" } else { "text" };
    let tried: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
    Err(Problem::Unknown { kind, tried: tried.join(", ") })
}
