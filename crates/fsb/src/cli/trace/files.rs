//! Files that hold a trace: opening them, and errors that name them.

use std::io::BufReader;
use std::path::Path;

use fsb_codes::notice;
use fsb_trace::{Reader, Totals, TraceError};

use crate::stderr::{notify, say};
use crate::{code, exit, result_owner};

pub(super) fn open(path: &Path) -> anyhow::Result<Reader<BufReader<std::fs::File>>> {
    let file = fsb_store::input::open_or_pipe(path).map_err(|error| unread(path, &error.into()))?;
    Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| unread(path, &error))
}

/// Opens the output file of a trace and truncates it.
pub(crate) fn output(path: &Path) -> anyhow::Result<std::fs::File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if result_owner::looking(|| path.is_dir() || !directory.is_dir())? {
        return Err(exit::advised(
            &code::UNWRITABLE,
            format!("cannot write {}: it is a directory, or its directory does not exist", path.display()),
            "name a file in a directory that exists with -o",
        ));
    }
    let file = result_owner::append(path)?;
    if file.metadata().is_ok_and(|found| found.is_file()) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Prints the notes on a trace that was written.
pub(crate) fn tell(totals: &Totals) {
    totals.notes.iter().for_each(|note| say(&format!("note: {note}")));
    for reason in &totals.incomplete {
        let text = format!("incomplete: {reason} were not recorded; fsb run replays the trace only with --force");
        notify(&notice::INCOMPLETE_TRACE, [("reason", reason.to_string().into())], &text);
    }
}

pub(super) fn unwritten(path: &Path, error: &TraceError) -> anyhow::Error {
    exit::failure(&code::OUTPUT_FAILED, format!("cannot write {}: {error}", path.display()))
}

pub(super) fn unread(path: &Path, error: &TraceError) -> anyhow::Error {
    let message = format!("cannot read {}: {error}", path.display());
    match error {
        TraceError::Io(_) => exit::failure(&code::UNREADABLE, message),
        error => exit::because(error, message),
    }
}
