//! The registry of the tools whose results can be read.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use fsb_model::set::Run;
use fsb_store::input::{Bounded, LARGEST_RESULT, too_large};

use crate::identify::{self, FileKind};
use crate::label::{self, Label};
use crate::tool::{BuiltIn, Problem, ReadError, Tool};
use crate::{
    bonnie, dbench, dlio, elbencho, filebench, fio, fs_mark, hyperfine, io500, ioping, ior, iozone,
    kdiskmark, mdtest, pgbench, phoronix, pokorny, postmark, smallfile, stress_ng, sysbench,
};

/// Bytes at the start of a file that decide which tool wrote it.
const HEAD: usize = 64 * 1024;

/// Every tool. The first that recognizes a file reads it.
pub static TOOLS: &[Tool] = &[
    iozone::TOOL,
    fio::TOOL,
    fio::LOG,
    bonnie::TOOL,
    postmark::TOOL,
    filebench::TOOL,
    phoronix::TOOL,
    sysbench::TOOL,
    ior::TOOL,
    mdtest::TOOL,
    io500::TOOL,
    hyperfine::TOOL,
    pgbench::TOOL,
    fs_mark::TOOL,
    dbench::TOOL,
    ioping::TOOL,
    stress_ng::TOOL,
    smallfile::TOOL,
    elbencho::TOOL,
    kdiskmark::TOOL,
    dlio::TOOL,
    pokorny::TOOL,
];

/// Published results that the program contains.
pub static BUILT_IN: &[BuiltIn] = &[pokorny::BUILT_IN];

/// Returns the built-in results that a path names, with their parts. Returns `None` if there is
/// such a file, or no such results.
pub fn built_in(path: &Path) -> Option<(&'static BuiltIn, Vec<&str>)> {
    let mut names = path.to_str()?.split('/');
    let first = names.next()?;
    let found = BUILT_IN.iter().find(|found| found.name == first)?;
    let (parts, known) = (names.collect::<Vec<_>>(), (found.parts)());
    let is_known = parts.iter().all(|part| known.contains(part));
    (is_known && path.symlink_metadata().is_err()).then_some((found, parts))
}

/// The largest number of tools that a sentence names.
const NAMED: usize = 12;

/// Returns the end of a sentence that names all tools, without its full stop: `IOzone, fio, … and
/// IO500. It also reads those of hyperfine, … and smallfile`.
pub fn tool_titles() -> String {
    let count = TOOLS.len().div_ceil(NAMED);
    let sentences = TOOLS.chunks(TOOLS.len().div_ceil(count)).map(|tools| {
        let titles: Vec<&str> = tools.iter().map(|tool| tool.title).collect();
        match titles.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            _ => titles.concat(),
        }
    });
    sentences
        .collect::<Vec<_>>()
        .join(". It also reads those of ")
}

/// Reads the results in a file, or in a pipe of the shell, of any known tool: one run for each
/// execution in it, each with the path as given.
///
/// # Errors
/// [`ReadError`] names the file and the problem with it.
pub fn read_file(path: &Path) -> Result<Vec<Run>, ReadError> {
    let mut runs = read_path(path).map_err(|error| error.at(path))?;
    for run in &mut runs {
        run.path = path.to_string_lossy().into_owned();
    }
    Ok(runs)
}

/// Reads files that one execution wrote, as [`executions`](crate::executions) groups them. The logs
/// among them become one run.
///
/// # Errors
/// As [`read_file`], except that a log without a value is only remarked if others have one.
pub fn read_execution(files: &[&Path]) -> Result<Vec<Run>, ReadError> {
    let (mut logs, mut others, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for path in files.iter().copied() {
        match read_file(path) {
            Err(error) if files.len() > 1 && error.is_about_contents() => refused.push(error),
            read => {
                let (log, other) = read?
                    .into_iter()
                    .partition::<Vec<_>, _>(|run| run.tool == fio::LOG.name);
                logs.extend(log);
                others.extend(other);
            }
        }
    }
    match fio::join_logs(logs, &refused) {
        None if !refused.is_empty() => Err(refused.remove(0)),
        joined => Ok(joined.into_iter().chain(others).collect()),
    }
}

fn read_path(path: &Path) -> Result<Vec<Run>, ReadError> {
    if let Some((found, parts)) = built_in(path) {
        return (found.read)(&parts);
    }
    let mut file = fsb_store::input::open_or_pipe(path)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD as u64).read_to_end(&mut head)?;
    // Some readers find values behind labels, with wrong names or only a few of them.
    if let Some(problem) = labelled(&head) {
        return Err(problem.into());
    }
    let tool = recognise(&head).map_err(|problem| explain(&head, problem))?;
    if head.len() < HEAD {
        // It has been read already. Asking the kernel for more would cost another call per file.
        return read(tool, path, &mut Cursor::new(head));
    }
    // A sparse file of a terabyte would take its time before its end was found.
    if file.metadata()?.len() > LARGEST_RESULT {
        return Err(too_large(LARGEST_RESULT).into());
    }
    let whole = Bounded::new(Cursor::new(head).chain(file), LARGEST_RESULT);
    read(tool, path, &mut BufReader::with_capacity(HEAD, whole))
}

/// Reads the output of a tool. Only the names of fio's logs say what they measure.
fn read(tool: &Tool, path: &Path, input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    if tool.name == fio::LOG.name {
        fio::read_log(path, input)
    } else {
        (tool.read)(input)
    }
}

/// Returns the problem if most lines begin with a label.
fn labelled(head: &[u8]) -> Option<Problem> {
    let Label { example, command } = label::find(
        head,
        |head| TOOLS.iter().any(|tool| (tool.recognise)(head)),
        |name| TOOLS.iter().any(|tool| tool.name == name),
    )?;
    Some(Problem::Labelled { example, command })
}

/// Returns the problem with a file that no reader recognises, which is more special if its start
/// shows what it is.
fn explain(head: &[u8], problem: Problem) -> Problem {
    match identify::find(head) {
        Some(kind) => Problem::Unread {
            remedy: kind.remedy(),
            kind: kind.name.into_owned(),
        },
        None => problem,
    }
}

/// Returns the kind of a file with this start: the output of a tool, or the input of a command of
/// fsb.
pub fn identify(head: &[u8]) -> Option<FileKind> {
    let tool = TOOLS.iter().find(|tool| (tool.recognise)(head));
    tool.map(|tool| FileKind::of_results(tool.name))
        .or_else(|| identify::find(head))
}

/// Returns the kind of a file as [`identify`] does. Returns `None` also if the file cannot be read.
pub fn identify_file(path: &Path) -> Option<FileKind> {
    let mut head = Vec::new();
    fsb_store::input::open(path)
        .ok()?
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .ok()?;
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
    let kind = if head.contains(&0) {
        "binary data"
    } else {
        "text"
    };
    Err(Problem::Unknown {
        kind,
        tried: TOOLS.len(),
    })
}
